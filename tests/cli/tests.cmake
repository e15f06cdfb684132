# Whole runs of the binary, by scripts.
find_package(Python3 COMPONENTS Interpreter)
set(scripts kill length_warmup speedrun fairseq fairseq_wikitext schedule signals run_ends spikes report_lines broken_numbers options deepspeed_json scripts option_effects generation serve agpt command_line manual tokens tokenizer_files moved_checkpoint token_facts text_files langid clean clean_restart clean_language clean_scale sweep)
list(APPEND scripts eval_windows old_words tcp tcp_hosts)
if(NOT JOTUN_SANITIZE MATCHES "thread")                # the MPI libraries' own locks are no affair of ours
    list(APPEND scripts mpi_layouts dead_rank slow_disk launchers)
endif()
if(NOT JOTUN_SANITIZE)                                 # which takes time and memory of its own
    list(APPEND scripts worst_inputs precision)
endif()
set(limit 600)
if(JOTUN_SANITIZE)                                     # makes a run up to 20 times as slow
    set(limit 2400)
endif()
foreach(script ${scripts})
    if(Python3_FOUND)
        add_test(NAME cli.${script} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${script}.py)
        set_tests_properties(cli.${script} PROPERTIES LABELS "cli;slow" COST 10 TIMEOUT ${limit} SKIP_RETURN_CODE 77
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;TEST_SANITIZE=${JOTUN_SANITIZE}")
        add_custom_target(cli_${script} DEPENDS jotun)                      # what tests/planted/bugs.py builds for it
    endif()
endforeach()
if(TEST cli.tcp)                                       # a watchdog must not find a rank silent that got no core
    set_tests_properties(cli.tcp cli.tcp_hosts PROPERTIES PROCESSORS 2 TIMEOUT 2400)
endif()
if(TEST cli.dead_rank)                                 # the longest: begun first where several run at a time
    set_tests_properties(cli.dead_rank PROPERTIES COST 100)
endif()
