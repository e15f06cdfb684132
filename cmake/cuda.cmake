# The back end `cuda`: by nvcc where there is one, or by hipcc with JOTUN_HIP. Nothing needs it: without a
# compiler the rest builds and refuses --device cuda, and the tests run the same kernels on the CPU
# (tests/tensor/tests.cmake).
# The compilers are called as they are, not as CMake languages, which would try them at every configuration.
option(JOTUN_CUDA "compile the kernels by nvcc where it is found" ON)
option(JOTUN_HIP "compile the kernels by hipcc, instead of nvcc" OFF)
set(JOTUN_CUDA_ARCHITECTURES "80;90" CACHE STRING "compute capabilities")
set(JOTUN_HIP_ARCHITECTURES "gfx90a" CACHE STRING "AMD targets")

# gpu_library(compiler arguments...): the target cuda_kernels, a static library of all kernels and of what calls
# them, with which jotun is linked.
function(gpu_library compiler)
    file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tensor/cuda/*.cu
                                        ${CMAKE_SOURCE_DIR}/src/tensor/cuda/attention/*.cu
                                        ${CMAKE_SOURCE_DIR}/src/tensor/cuda/optimizers/*.cu)
    foreach(kernel ${kernels})
        get_filename_component(noun ${kernel} NAME_WE)
        set(object ${CMAKE_BINARY_DIR}/cuda/${noun}.o)
        add_custom_command(OUTPUT ${object}
            COMMAND ${compiler} ${ARGN} -std=c++17 -I${CMAKE_SOURCE_DIR}/src $<$<CONFIG:Debug>:-DJOTUN_DEBUG>
                    -MD -MF ${object}.d -c ${kernel} -o ${object}
            DEPENDS ${kernel} DEPFILE ${object}.d
            COMMENT "Building GPU object ${noun}.o" VERBATIM COMMAND_EXPAND_LISTS)
        list(APPEND objects ${object})
    endforeach()
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
    file(GLOB callers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tensor/cuda/*.c)
    list(FILTER callers EXCLUDE REGEX "/absent\\.c$")
    add_library(cuda_kernels STATIC ${objects} ${callers})
    set_target_properties(cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(cuda_kernels PUBLIC module_tensor ${CMAKE_DL_LIBS})
    target_link_libraries(jotun PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,cuda_kernels>")
    set_target_properties(jotun PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

if(JOTUN_HIP)
    find_program(HIPCC hipcc)
    if(NOT HIPCC)
        message(FATAL_ERROR "JOTUN_HIP is on, and no hipcc is found; set HIPCC or JOTUN_HIP=OFF")
    endif()
    list(TRANSFORM JOTUN_HIP_ARCHITECTURES PREPEND --offload-arch= OUTPUT_VARIABLE targets)
    gpu_library(${HIPCC} -x hip ${targets} -O3 -fPIC -Wall -Wextra -Wshadow)
    find_library(HIP_RUNTIME amdhip64 PATHS /opt/rocm/lib REQUIRED)
    target_link_libraries(cuda_kernels PUBLIC ${HIP_RUNTIME})
elseif(JOTUN_CUDA)
    find_program(NVCC nvcc PATHS /usr/local/cuda/bin)
    if(NOT NVCC)
        message(STATUS "no nvcc: the kernels are tested on the CPU alone")
        return()
    endif()
    list(SORT JOTUN_CUDA_ARCHITECTURES COMPARE NATURAL)
    list(GET JOTUN_CUDA_ARCHITECTURES 0 oldest)
    string(REGEX MATCH "^[0-9]+" oldest ${oldest})     # of 90a 90
    set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/cli/setup/device.c PROPERTY COMPILE_DEFINITIONS JOTUN_OLDEST_GPU=${oldest})
    foreach(target ${JOTUN_CUDA_ARCHITECTURES})
        list(APPEND targets -gencode=arch=compute_${target},code=[compute_${target},sm_${target}])
    endforeach()
    if(CMAKE_COMPILE_WARNING_AS_ERROR)                # by ./check; another compiler may spill a register
        set(strict -Werror=all-warnings -Xptxas=-warn-spills,-Werror)
    endif()
    gpu_library(${NVCC} ${targets} -O3 ${strict} -Xcompiler=-fPIC,-Wall,-Wextra,-Wshadow)
    get_filename_component(cuda_home ${NVCC}/../.. REALPATH)
    find_library(CUDA_RUNTIME cudart_static PATHS ${cuda_home}/lib64 ${cuda_home}/lib REQUIRED)
    target_link_libraries(cuda_kernels PUBLIC ${CUDA_RUNTIME} Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()
