find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME train.traffic_goldens COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/oracles/traffic.py --check
        ${CMAKE_CURRENT_SOURCE_DIR}/golden/traffic ${CMAKE_CURRENT_SOURCE_DIR}/train/layouts.h ${CMAKE_CURRENT_SOURCE_DIR}/train/traffic_test.c)
    set_tests_properties(train.traffic_goldens PROPERTIES LABELS train TIMEOUT 60)
else()
    message(STATUS "no python3: the goldens of tests/golden/traffic are not derived again")
endif()

# Rules of the house as scripts, and each script held to its word.
foreach(check layers sizes agreements comm_marks flags words)
    add_test(NAME style.${check} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/${check}.sh ${CMAKE_SOURCE_DIR})
    add_test(NAME style.${check}_planted COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/planted.sh ${check})
    set_tests_properties(style.${check} style.${check}_planted PROPERTIES LABELS style TIMEOUT 60)
endforeach()
