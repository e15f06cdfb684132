# Layouts drawn so that every pair of values of two dimensions stands together in one of them (draw.h).
add_executable(layouts ${CMAKE_CURRENT_LIST_DIR}/main.c ${CMAKE_CURRENT_LIST_DIR}/run.c ${CMAKE_CURRENT_LIST_DIR}/coverage.c
    ${CMAKE_CURRENT_LIST_DIR}/draw.c ${CMAKE_CURRENT_LIST_DIR}/values.c)
target_include_directories(layouts PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(layouts PRIVATE module_cli PkgConfig::CMOCKA)
add_test(NAME layouts.drawn COMMAND layouts)
set_tests_properties(layouts.drawn PROPERTIES LABELS layouts TIMEOUT 1200 COST 50)
