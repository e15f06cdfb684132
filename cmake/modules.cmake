# module(name MODULES lower modules... LIBS outside libraries...)
# The sources are src/<name>/*.c and its folders (without main.c, the plug-ins and kernels, which have their own files here).
function(module name)
    cmake_parse_arguments(ARG "" "" "MODULES;LIBS" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
    list(FILTER sources EXCLUDE REGEX "/cli/main\\.c$|/comm/mpi/|/conf/yaml/|/serve/http/|/tensor/cuda/")
    if(NOT sources)
        add_library(module_${name} INTERFACE)
        set(kind INTERFACE)
    else()
        add_library(module_${name} STATIC ${sources})
        set(kind PUBLIC)
    endif()
    target_include_directories(module_${name} ${kind} ${CMAKE_SOURCE_DIR}/src)
    list(TRANSFORM ARG_MODULES PREPEND module_)
    target_link_libraries(module_${name} ${kind} ${ARG_MODULES} ${ARG_LIBS})
endfunction()
# embed(name module file)
# The bytes of src/<file> are compiled into the module as `name`, an array without a NUL at its end, and `name`_bytes.
function(embed name module file)
    set(from ${CMAKE_SOURCE_DIR}/src/${file})
    set(to ${CMAKE_BINARY_DIR}/${name}.c)
    add_custom_command(OUTPUT ${to} COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DTO=${to} -DNAME=${name} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${from} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
    target_sources(module_${module} PRIVATE ${to})
endfunction()
# The cpu back end, conversions of types and random numbers are plain loops that the compiler vectorises. The two flags change no value: nobody reads errno or traps.
file(GLOB_RECURSE cpu_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tensor/cpu/*.c ${CMAKE_SOURCE_DIR}/src/tensor/dtype.c
    ${CMAKE_SOURCE_DIR}/src/base/random.c)
set_source_files_properties(${cpu_sources} PROPERTIES COMPILE_OPTIONS
    "-fno-math-errno;-fno-trapping-math;$<$<CONFIG:Release>:-O3>")
# Sanitizers make of loops over tensors so much code that gcc takes a minute for a file: pointers of these are not checked a second time, since
# AddressSanitizer reports those that are NULL or leave their memory where they are used.
if(JOTUN_SANITIZE MATCHES "undefined" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    file(GLOB_RECURSE ref_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tensor/ref/*.c)
    set_property(SOURCE ${cpu_sources} ${ref_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=null,object-size,pointer-overflow)
endif()
# The matrix product and attention have their kernels compiled once for each family of instructions and chosen at run time. Vectors of 512 bits
# are asked for, because compilers prefer 256.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(avx512 -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
    set(gemm_avx512_bf16 ${avx512} -mavx512bf16)
    set(gemm_avx512      ${avx512})
    set(gemm_avx2        -mfma -mavx2)
    set(int8/int8_vnni   ${avx512} -mavx512vnni)
    set(int8/int8_avx2   -mavx2)
    set(flash/flash_avx512_bf16 ${gemm_avx512_bf16})
    set(flash/flash_avx512 ${gemm_avx512})
    set(flash/flash_avx2   ${gemm_avx2})
    foreach(family int8/int8_vnni int8/int8_avx2 gemm_avx512_bf16 gemm_avx512 gemm_avx2 flash/flash_avx512_bf16 flash/flash_avx512 flash/flash_avx2)
        set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/tensor/cpu/${family}.c APPEND PROPERTY COMPILE_OPTIONS ${${family}})
    endforeach()
endif()
# Vectors of 64 bytes without AVX-512: the warning is about functions that pass them, and all of these are inlined.
set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/tensor/cpu/gemm_emulated.c ${CMAKE_SOURCE_DIR}/src/tensor/cpu/flash/flash_emulated.c ${CMAKE_SOURCE_DIR}/src/tensor/cpu/flash/flash_emulated_bf16.c
    APPEND PROPERTY COMPILE_OPTIONS -Wno-psabi $<$<CONFIG:Debug>:-O0>)              # sanitizers take half a minute to optimise them
# The writer's loops over ids are vectorised as well.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/data/token_file_write.c PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
