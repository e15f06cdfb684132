add_test(NAME quickstart.clean COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/clean.sh ${CMAKE_SOURCE_DIR}/quickstart $<TARGET_FILE:jotun>)
set_tests_properties(quickstart.clean PROPERTIES LABELS quickstart TIMEOUT 120 SKIP_RETURN_CODE 77)
