# Whole runs of the binary, by scripts.
find_package(Python3 COMPONENTS Interpreter)
foreach(script mpi_layouts kill dead_rank signals)
    if(Python3_FOUND)
        add_test(NAME cli.${script} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${script}.py)
        set_tests_properties(cli.${script} PROPERTIES LABELS cli TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>")
    endif()
endforeach()
