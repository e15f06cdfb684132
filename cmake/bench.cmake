# Programs that measure; built when asked for:   ninja bench_text
add_executable(bench_text EXCLUDE_FROM_ALL bench/text/encode.c)
target_link_libraries(bench_text PRIVATE room_text room_corpus)
add_executable(bench_clean_rules EXCLUDE_FROM_ALL bench/clean/rules.c)
target_link_libraries(bench_clean_rules PRIVATE room_corpus)
add_executable(bench_wiki EXCLUDE_FROM_ALL bench/clean/wiki.c)
target_link_libraries(bench_wiki PRIVATE room_corpus)
