# A measurement, not a test: what overlap hides of a delay per message, on an idle machine (./check --full overlap).
add_executable(overlap_delay ${CMAKE_CURRENT_SOURCE_DIR}/train/overlap_delay.c)
target_include_directories(overlap_delay PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(overlap_delay PRIVATE TESTS_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(overlap_delay PRIVATE module_train PkgConfig::CMOCKA)
# The trainer on the back end `cuda`: by the shim, and on a GPU where its kernels were compiled for one.
if(COMMAND shim_program AND NOT JOTUN_SANITIZE MATCHES "thread")    # the shim is one thread of many stacks
    shim_program(train_cuda_shim 32 ../../train/cuda_training.c ${all32})
    target_include_directories(train_cuda_shim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(train_cuda_shim PRIVATE module_train)
    add_test(NAME train.cuda_shim COMMAND train_cuda_shim)
    set_tests_properties(train.cuda_shim PROPERTIES LABELS "train;shim" TIMEOUT 7200)         # so long by ./check --full gpu
    # the binary with the shim, whole runs of it
    add_executable(jotun_shim ${CMAKE_SOURCE_DIR}/src/cli/main.c $<TARGET_OBJECTS:shim32> ${all32})
    target_link_libraries(jotun_shim PRIVATE module_cli)
    add_executable(jotun_shim_nccl ${CMAKE_SOURCE_DIR}/src/cli/main.c $<TARGET_OBJECTS:shim32> ${all32} $<TARGET_OBJECTS:shim32_nccl>)
    target_link_libraries(jotun_shim_nccl PRIVATE module_cli)
    if(Python3_FOUND)
        add_test(NAME train.device_ranks COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/device_ranks.py)
        set_tests_properties(train.device_ranks PROPERTIES LABELS "train;shim;slow" COST 20 TIMEOUT 14400
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;SHIM_BINARY=$<TARGET_FILE:jotun_shim>;PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/cli")
        # in full a quarter of an hour, most of which waits for the watchdog
        add_test(NAME train.device_failures COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/device_failures.py)
        set_tests_properties(train.device_failures PROPERTIES LABELS "train;shim;slow" COST 20 TIMEOUT 4000
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;SHIM_BINARY=$<TARGET_FILE:jotun_shim>;SHIM_NCCL_BINARY=$<TARGET_FILE:jotun_shim_nccl>;PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/cli")
        add_test(NAME train.device_says COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/device_says.py)
        set_tests_properties(train.device_says PROPERTIES LABELS "train;shim" TIMEOUT ${limit}
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;SHIM_BINARY=$<TARGET_FILE:jotun_shim>;PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/cli")
    endif()
endif()
if(COMMAND shim_program AND NOT JOTUN_SANITIZE MATCHES "thread")
    shim_program(train_nccl_shim 32 ../../train/nccl_training.c ${all32} $<TARGET_OBJECTS:shim32_nccl>)
    target_include_directories(train_nccl_shim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(train_nccl_shim PRIVATE module_train)
    add_test(NAME train.nccl_shim COMMAND train_nccl_shim 0 2)             # every second layout
    add_test(NAME train.nccl_shim_more COMMAND train_nccl_shim 1 2)
    set_tests_properties(train.nccl_shim train.nccl_shim_more PROPERTIES LABELS "train;shim" TIMEOUT 7200)
endif()
if(TARGET cuda_kernels)
    add_executable(train_cuda ${CMAKE_CURRENT_SOURCE_DIR}/train/cuda_training.c)
    target_include_directories(train_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(train_cuda PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,cuda_kernels>" module_train PkgConfig::CMOCKA)
    set_target_properties(train_cuda PROPERTIES LINKER_LANGUAGE CXX)
    add_test(NAME train.cuda COMMAND train_cuda)
    set_tests_properties(train.cuda PROPERTIES LABELS "train;gpu" TIMEOUT ${limit} SKIP_RETURN_CODE 77)
endif()
