# A measurement, not a test: what overlap hides of a delay per message, on an idle machine (./check --full overlap).
add_executable(overlap_delay ${CMAKE_CURRENT_SOURCE_DIR}/train/overlap_delay.c)
target_include_directories(overlap_delay PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(overlap_delay PRIVATE TESTS_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(overlap_delay PRIVATE module_train PkgConfig::CMOCKA)
