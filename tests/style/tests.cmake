find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME train.traffic_goldens COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/oracles/traffic.py --check
        ${CMAKE_CURRENT_SOURCE_DIR}/golden/traffic ${CMAKE_CURRENT_SOURCE_DIR}/train/layouts.h ${CMAKE_CURRENT_SOURCE_DIR}/train/traffic_test.c)
    set_tests_properties(train.traffic_goldens PROPERTIES LABELS train TIMEOUT 60)
else()
    message(STATUS "no python3: the goldens of tests/golden/traffic are not derived again")
endif()
