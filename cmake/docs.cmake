# docs/options.md and the man page are made from the rows of src/conf; tests/cli/help_test.c holds docs/options.md fresh.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/jotun.1
    COMMAND jotun --help-man > ${CMAKE_BINARY_DIR}/jotun.1 DEPENDS jotun VERBATIM)
add_custom_target(man DEPENDS ${CMAKE_BINARY_DIR}/jotun.1)
add_custom_target(docs
    COMMAND jotun --help-markdown > ${CMAKE_SOURCE_DIR}/docs/options.md DEPENDS jotun VERBATIM)
