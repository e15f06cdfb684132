# The kernels of src/tensor/cuda, run on the CPU by the shim, and on a GPU where they were compiled for one.
file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tensor/cuda/*.cu
                                    ${CMAKE_SOURCE_DIR}/src/tensor/cuda/attention/*.cu
                                    ${CMAKE_SOURCE_DIR}/src/tensor/cuda/optimizers/*.cu)
set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
list(FILTER kernels EXCLUDE REGEX "/cuda/norm\\.cu$")
set(norm ${CMAKE_SOURCE_DIR}/src/tensor/cuda/norm.cu)              # apart: it is compiled with planted bugs too
set_source_files_properties(${norm} PROPERTIES LANGUAGE CXX)
file(GLOB callers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tensor/cuda/*.c)
list(FILTER callers EXCLUDE REGEX "/(absent|cublaslt)\\.c$")
set(shim ${CMAKE_CURRENT_SOURCE_DIR}/tensor/shim)

# What code of the shim is compiled with; kernels see gpu_cpu.h as what gpu.h is on a GPU.
function(shim_target name warp)
    target_include_directories(${name} PRIVATE ${shim})
    target_compile_definitions(${name} PRIVATE GPU_CPU GPU_WARP=${warp})
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>       # unroll
        $<$<COMPILE_LANGUAGE:CXX>:SHELL:-include gpu_cpu.h>)
    target_link_libraries(${name} PRIVATE module_tensor)
endfunction()

# Compiled once for a number of lanes: the shim, the kernels and their callers, and the kernels of norm.cu.
function(shim_objects name warp)           # sources after these
    add_library(${name} OBJECT ${ARGN})
    shim_target(${name} ${warp})
endfunction()
foreach(warp 32 64)
    shim_objects(shim${warp}         ${warp} ${shim}/gpu_cpu.cpp ${shim}/runtime.cpp ${shim}/memory.cpp ${shim}/fiber.cpp)
    shim_objects(shim${warp}_kernels ${warp} ${kernels} ${callers} ${shim}/cublaslt.cpp)
    shim_objects(shim${warp}_norm    ${warp} ${norm})
    shim_objects(shim${warp}_nccl    ${warp} ${shim}/nccl.cpp)
    set(all${warp} $<TARGET_OBJECTS:shim${warp}_kernels> $<TARGET_OBJECTS:shim${warp}_norm>)
endforeach()

function(shim_program name warp main)      # objects and sources after these
    add_executable(${name} ${shim}/${main} $<TARGET_OBJECTS:shim${warp}> ${ARGN})
    shim_target(${name} ${warp})
    target_link_libraries(${name} PRIVATE PkgConfig::CMOCKA)
endfunction()

function(shim_check name)                  # the command after it
    add_test(NAME tensor.${name} COMMAND ${ARGN})
    set_tests_properties(tensor.${name} PROPERTIES LABELS "tensor;shim" TIMEOUT 600)
endfunction()

if(JOTUN_SANITIZE MATCHES "thread")
    message(STATUS "the kernels' shim is not tested under ThreadSanitizer: it is one thread of many stacks")
else()
    foreach(warp 32 64)
        shim_program(tensor_shim${warp} ${warp} kernels_test.c ${all${warp}})
        shim_check(shim${warp} tensor_shim${warp})
        shim_program(tensor_cuda_ops${warp} ${warp} ../ops_test.c ${all${warp}})      # every op that has a kernel; with 64 lanes its first signature alone
        target_compile_definitions(tensor_cuda_ops${warp} PRIVATE OPS_CUDA OPS_FIRST_SIGNATURE=$<EQUAL:${warp},64>)
        shim_check(cuda_ops${warp} tensor_cuda_ops${warp})

        # the same kernels without one barrier of block_sum and block_max: results must be off
        foreach(barrier FIRST SECOND)
            set(name shim${warp}_no_${barrier})
            shim_program(tensor_${name} ${warp} kernels_test.c $<TARGET_OBJECTS:shim${warp}_kernels> ${norm})
            target_compile_definitions(tensor_${name} PRIVATE GPU_PLANT_NO_${barrier}_BARRIER)
            shim_check(${name} tensor_${name})
            set_tests_properties(tensor.${name} PROPERTIES PASS_REGULAR_EXPRESSION "norm_forward y is off by")
        endforeach()

        shim_program(tensor_shim${warp}_faults ${warp} faults.cpp)
    endforeach()

    shim_program(tensor_cuda_product 32 product_test.c ${all32})
    target_include_directories(tensor_cuda_product PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    add_test(NAME tensor.cuda_product COMMAND tensor_cuda_product)
    set_tests_properties(tensor.cuda_product PROPERTIES LABELS "tensor;shim" TIMEOUT 120)

    function(shim_fault name words)
        foreach(warp 32 64)
            shim_check(shim${warp}_${name} tensor_shim${warp}_faults ${name})
            set_tests_properties(tensor.shim${warp}_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${words}")
        endforeach()
    endfunction()
    shim_fault(different_barriers "threads at different barriers: thread")
    shim_fault(early_return       "a barrier after some threads returned: thread")
    shim_fault(different_shuffles "lanes of a warp in different shuffles: thread")
    shim_fault(missing_lanes      "a shuffle without its whole warp: thread 0 .* but thread 8 has returned")
    shim_fault(barrier_in_a_warp  "a shuffle without its whole warp: thread 0 .* thread 1 waits at")
    shim_fault(lane_outside       "shuffles with lane")
    shim_fault(unset_shared       "unset shared memory came out as NaN")
    shim_fault(spin               "deadlock: thread 0")
    if(NOT JOTUN_SANITIZE)
        shim_fault(host_access    "the host read or wrote memory of the GPU")
    endif()

    shim_program(tensor_shim_streams 32 streams_test.cpp)
    shim_check(shim_streams tensor_shim_streams)
    function(stream_fault name words)
        shim_check(shim_streams_${name} tensor_shim_streams ${name})
        set_tests_properties(tensor.shim_streams_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${words}")
    endfunction()
    stream_fault(copy_elsewhere       "a copy of device 0 touches memory of device 1")
    stream_fault(launch_elsewhere     "a kernel for a stream of device 0 is launched while device 1 is current")
    stream_fault(an_event_never_comes "deadlock.*waits for a kernel that does not end.*waits for an event of stream")
    stream_fault(no_event_is_ready    "deadlock; stream 0 of device 0 waits for a kernel that does not end")
    if(NOT JOTUN_SANITIZE)
        stream_fault(kernel_elsewhere "a kernel of device 0 touches memory of device 1")
    endif()
    if(JOTUN_SANITIZE MATCHES "address")
        shim_fault(beyond_global  "heap-buffer-overflow")
        shim_fault(beyond_shared  "heap-buffer-overflow")
    endif()
endif()

# Its constants are compared with the headers of the toolkit.
find_path(cublaslt_headers cublasLt.h PATHS /usr/local/cuda/include)
if(cublaslt_headers)
    target_include_directories(tensor_cublaslt_test SYSTEM PRIVATE ${cublaslt_headers})
endif()

if(TARGET cuda_kernels)
    add_executable(cuda_kernels_test ${shim}/kernels_test.c)
    target_link_libraries(cuda_kernels_test PRIVATE cuda_kernels PkgConfig::CMOCKA)
    set_target_properties(cuda_kernels_test PROPERTIES LINKER_LANGUAGE CXX)
    add_test(NAME tensor.cuda_kernels COMMAND cuda_kernels_test)
    add_executable(cuda_ops_test ${CMAKE_CURRENT_SOURCE_DIR}/tensor/ops_test.c)
    target_compile_definitions(cuda_ops_test PRIVATE OPS_CUDA OPS_FIRST_SIGNATURE=0)
    target_link_libraries(cuda_ops_test PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,cuda_kernels>" PkgConfig::CMOCKA)
    set_target_properties(cuda_ops_test PROPERTIES LINKER_LANGUAGE CXX)
    add_test(NAME tensor.cuda_ops COMMAND cuda_ops_test)
    set_tests_properties(tensor.cuda_kernels tensor.cuda_ops PROPERTIES LABELS "tensor;gpu" TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
target_link_libraries(tensor_symmetric_test PRIVATE PkgConfig::JANSSON)       # reads goldens

# The verbs of tensors by NCCL, on the emulated one.
if(COMMAND shim_program AND NOT JOTUN_SANITIZE MATCHES "thread")
    shim_program(comm_nccl 32 ../../comm/nccl_program.c ${all32} $<TARGET_OBJECTS:shim32_nccl>)
    target_link_libraries(comm_nccl PRIVATE module_comm)
    add_test(NAME comm.nccl COMMAND comm_nccl)
    set_tests_properties(comm.nccl PROPERTIES LABELS "comm;shim" TIMEOUT 300)
endif()
