# Whole runs of the binary against disks and files that go wrong, by scripts which share tests/cli/run.py.
find_package(Python3 COMPONENTS Interpreter)
foreach(script flip hostile verify)
    if(Python3_FOUND)
        add_test(NAME store.${script} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${script}.py)
        set_tests_properties(store.${script} PROPERTIES LABELS store TIMEOUT ${limit} SKIP_RETURN_CODE 77
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/cli;SANITIZE=${JOTUN_SANITIZE}")
    endif()
endforeach()
