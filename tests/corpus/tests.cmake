add_test(NAME corpus.commands COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/commands.sh $<TARGET_FILE:jotun>)
set_tests_properties(corpus.commands PROPERTIES LABELS corpus TIMEOUT 120)
target_link_libraries(corpus_json_line_test PRIVATE PkgConfig::JANSSON)      # which it is held against
