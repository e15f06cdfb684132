script_tests(convert hf gguf steps beside_weights)             # folders of Hugging Face's transformers, read, written and trained
# What the scripts of this folder read foreign files with.
add_executable(foreign_dump ${CMAKE_CURRENT_LIST_DIR}/foreign_dump.c)
target_link_libraries(foreign_dump PRIVATE module_convert)
script_tests(convert torch_files hostile_pickles megatron small_formats hostile_megatron)
script_tests(convert megatron_convert)
add_custom_target(convert_megatron_convert DEPENDS jotun)
add_custom_target(convert_steps DEPENDS jotun)
add_custom_target(convert_hf DEPENDS jotun)
add_custom_target(convert_beside_weights DEPENDS jotun)
add_custom_target(convert_gguf DEPENDS jotun)
foreach(script torch_files hostile_pickles megatron small_formats hostile_megatron)
    add_custom_target(convert_${script} DEPENDS foreign_dump)        # what tests/planted/bugs.py builds for it
endforeach()
set_tests_properties(convert.torch_files convert.hostile_pickles convert.megatron convert.small_formats convert.hostile_megatron PROPERTIES
    ENVIRONMENT "DUMP=$<TARGET_FILE:foreign_dump>;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/cli;SANITIZE=${JOTUN_SANITIZE}")
target_link_libraries(convert_megatron_arguments_test PRIVATE module_compat)   # its options are the other side of a table
