# What the tests of this folder are linked with, as those of a module are (tests/CMakeLists.txt).
add_library(module_layouts STATIC ${CMAKE_CURRENT_LIST_DIR}/compare.c)
target_include_directories(module_layouts PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(module_layouts PUBLIC module_store)
# Layouts drawn so that every pair of values of two dimensions stands together in one of them (draw.h).
add_executable(layouts_drawn ${CMAKE_CURRENT_LIST_DIR}/main.c ${CMAKE_CURRENT_LIST_DIR}/session.c ${CMAKE_CURRENT_LIST_DIR}/resume.c
    ${CMAKE_CURRENT_LIST_DIR}/run.c ${CMAKE_CURRENT_LIST_DIR}/generate.c ${CMAKE_CURRENT_LIST_DIR}/order.c ${CMAKE_CURRENT_LIST_DIR}/choices.c ${CMAKE_CURRENT_LIST_DIR}/copies.c ${CMAKE_CURRENT_LIST_DIR}/coverage.c
    ${CMAKE_CURRENT_LIST_DIR}/draw.c ${CMAKE_CURRENT_LIST_DIR}/values.c)
target_include_directories(layouts_drawn PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(layouts_drawn PRIVATE module_layouts module_cli PkgConfig::CMOCKA)
target_link_options(layouts_drawn PRIVATE LINKER:--wrap=pipeline_run,--wrap=comm_send_begin,--wrap=comm_recv_begin,--wrap=comm_wait,--wrap=router_forward)    # order.c, choices.c
find_package(Python3 COMPONENTS Interpreter)

function(layouts_test NAME name labels)                # layouts_test(NAME layouts.KIND ...): KIND is the script's word
    string(REPLACE layouts. "" kind ${name})
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/layouts/layouts.py $<TARGET_FILE:layouts_drawn> ${kind})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 7200 COST 50 SKIP_RETURN_CODE 77
        ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/cli")
endfunction()

# The same layouts in double, other ones than those that layouts.drawn has trained in double by chance: the quick part 8 of seed 31.
add_test(NAME layouts.double COMMAND layouts_drawn --seed 31 --double)
set_tests_properties(layouts.double PROPERTIES LABELS layouts TIMEOUT 7200 COST 50)

if(Python3_FOUND)
    layouts_test(NAME layouts.drawn    "layouts")
    layouts_test(NAME layouts.in-order "layouts;slow")
    if(NOT JOTUN_SANITIZE MATCHES "thread")            # the MPI libraries' own locks are no affair of ours
        layouts_test(NAME layouts.mpi  "layouts;slow")
    endif()
else()
    add_test(NAME layouts.drawn COMMAND layouts_drawn)
    set_tests_properties(layouts.drawn PROPERTIES LABELS layouts TIMEOUT 2400 COST 50)
endif()
