# Man pages and bash completion are written by the program itself from the rows of its commands and options, with the default
# target, and installed where man and bash-completion look for them. `ninja docs` writes docs/options.md, which
# tests/cli/help_test.c compares with the rows.
set(man_folder ${CMAKE_BINARY_DIR}/share/man/man1)
set(completion_folder ${CMAKE_BINARY_DIR}/share/bash-completion/completions)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/share/written
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/share
    COMMAND ${CMAKE_COMMAND} -E make_directory ${man_folder} ${completion_folder}
    COMMAND jotun --help-man ${man_folder}
    COMMAND jotun --help-bash > ${completion_folder}/jotun
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/share/written
    DEPENDS jotun VERBATIM)
add_custom_target(man ALL DEPENDS ${CMAKE_BINARY_DIR}/share/written)
install(DIRECTORY ${man_folder}/ DESTINATION share/man/man1)
install(DIRECTORY ${completion_folder}/ DESTINATION share/bash-completion/completions)
add_custom_target(docs
    COMMAND jotun --help-markdown > ${CMAKE_SOURCE_DIR}/docs/options.md DEPENDS jotun VERBATIM)
