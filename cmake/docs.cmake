# With the default target help2man, where it is there, makes man pages of the program's own help, installed with the script for
# completion. `ninja docs` writes docs/options.md, which tests/cli/help_test.c compares with the rows.
set(man_folder ${CMAKE_BINARY_DIR}/share/man/man1)
find_program(HELP2MAN help2man)                                  # help2man; without it there are no man pages
if(HELP2MAN)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/share/written
        COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/man_pages.sh $<TARGET_FILE:jotun> ${man_folder} ${HELP2MAN}
        COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/share/written
        DEPENDS jotun ${CMAKE_SOURCE_DIR}/cmake/man_pages.sh VERBATIM)
    add_custom_target(man ALL DEPENDS ${CMAKE_BINARY_DIR}/share/written)
    install(DIRECTORY ${man_folder}/ DESTINATION share/man/man1)
else()
    message(STATUS "no help2man: no man pages")
endif()
install(FILES ${CMAKE_SOURCE_DIR}/cmake/completion.bash DESTINATION share/bash-completion/completions RENAME jotun)
add_custom_target(docs
    COMMAND jotun --help-markdown > ${CMAKE_SOURCE_DIR}/docs/options.md DEPENDS jotun VERBATIM)
