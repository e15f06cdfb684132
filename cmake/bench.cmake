# Programs that measure; built when asked for:   ninja bench_text
add_executable(bench_text EXCLUDE_FROM_ALL bench/text/encode.c)
target_link_libraries(bench_text PRIVATE room_text room_corpus)
add_executable(prepare_vs_encode EXCLUDE_FROM_ALL bench/text/prepare_vs_encode.c)
target_link_libraries(prepare_vs_encode PRIVATE room_text room_corpus room_data)
add_executable(bench_loader EXCLUDE_FROM_ALL bench/data/loader.c)
target_link_libraries(bench_loader PRIVATE room_train)
add_executable(bench_order EXCLUDE_FROM_ALL bench/data/order.c)
target_link_libraries(bench_order PRIVATE room_data)
