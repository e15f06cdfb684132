find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME train.traffic_goldens COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/oracles/traffic.py --check
        ${CMAKE_CURRENT_SOURCE_DIR}/golden/traffic ${CMAKE_CURRENT_SOURCE_DIR}/train/layouts.h ${CMAKE_CURRENT_SOURCE_DIR}/train/traffic_test.c)
    set_tests_properties(train.traffic_goldens PROPERTIES LABELS train TIMEOUT 60)
else()
    message(STATUS "no python3: the goldens of tests/golden/traffic are not derived again")
endif()

# Rules of style as scripts, and for each script a test that it finds planted violations.
foreach(check layers sizes headers terms comments agreements comm_marks flags words other_programs)
    add_test(NAME style.${check} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/${check}.sh ${CMAKE_SOURCE_DIR})
    add_test(NAME style.${check}_planted COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/planted.sh ${check})
    set_tests_properties(style.${check} style.${check}_planted PROPERTIES LABELS style TIMEOUT 60)
endforeach()
if(Python3_FOUND)
    # Objects of the whole tree, which a build of all targets has.
    add_test(NAME style.knots COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/knots.py ${CMAKE_BINARY_DIR} conf 3 compat 3)
    add_test(NAME style.knots_planted COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/planted.sh knots)
    add_test(NAME style.planted_rows COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/planted/bugs.py ${CMAKE_SOURCE_DIR} --rows)
    set_tests_properties(style.knots style.knots_planted style.planted_rows PROPERTIES LABELS style TIMEOUT 60)
endif()
