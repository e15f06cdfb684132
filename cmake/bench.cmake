# Programs that measure; built when asked for:   ninja bench_text
add_executable(bench_text EXCLUDE_FROM_ALL bench/text/encode.c)
target_link_libraries(bench_text PRIVATE room_text room_corpus)
add_executable(bench_dedup EXCLUDE_FROM_ALL bench/clean/dedup.c)
target_include_directories(bench_dedup PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_definitions(bench_dedup PRIVATE TESTS_DIR="${CMAKE_SOURCE_DIR}/tests")
target_link_libraries(bench_dedup PRIVATE room_corpus)
add_executable(bench_clean_rules EXCLUDE_FROM_ALL bench/clean/rules.c)
target_link_libraries(bench_clean_rules PRIVATE room_corpus)
