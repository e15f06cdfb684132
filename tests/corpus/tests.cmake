add_test(NAME corpus.commands COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/commands.sh $<TARGET_FILE:jotun>)
set_tests_properties(corpus.commands PROPERTIES LABELS corpus TIMEOUT 120)
target_link_libraries(corpus_json_line_test PRIVATE PkgConfig::JANSSON)      # which it is held against
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME corpus.prepare COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/oracles/prepare.py $<TARGET_FILE:jotun>)
    set_tests_properties(corpus.prepare PROPERTIES LABELS corpus TIMEOUT 120)
endif()
script_tests(corpus folders)
