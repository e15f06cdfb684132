# Its minutes are too few for a build with sanitizers, which look at its commands by their own tests.
if(NOT JOTUN_SANITIZE)
    add_test(NAME quickstart.parts COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/parts.sh ${CMAKE_SOURCE_DIR}/quickstart $<TARGET_FILE:jotun>)
    set_tests_properties(quickstart.parts PROPERTIES LABELS quickstart TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
