# Whole runs of the binary on data that changes under them, by scripts which share tests/cli/run.py.
find_package(Python3 COMPONENTS Interpreter)
foreach(script changed)
    if(Python3_FOUND)
        add_test(NAME data.${script} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${script}.py)
        set_tests_properties(data.${script} PROPERTIES LABELS data TIMEOUT ${limit} SKIP_RETURN_CODE 77
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/cli")
    endif()
endforeach()
