# What README and docs say, held to the tree: their commands run, their paths and names exist.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME docs.links COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/links.py ${CMAKE_SOURCE_DIR})
    set_tests_properties(docs.links PROPERTIES LABELS docs TIMEOUT 60)
    if(NOT JOTUN_SANITIZE)                             # the same code as in cli.*, which the sanitizers see
        add_test(NAME docs.tutorial COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tutorial.py)
        set_tests_properties(docs.tutorial PROPERTIES LABELS "docs;slow" TIMEOUT 600 SKIP_RETURN_CODE 77
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>")
        add_test(NAME docs.resume COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tutorial.py howto/resume.md)
        set_tests_properties(docs.resume PROPERTIES LABELS docs TIMEOUT 300 SKIP_RETURN_CODE 77
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>")
        add_test(NAME docs.convert COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tutorial.py howto/convert.md)
        set_tests_properties(docs.convert PROPERTIES LABELS docs TIMEOUT 300 SKIP_RETURN_CODE 77
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>")
    endif()
endif()
