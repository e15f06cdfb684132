# room(name ROOMS lower rooms... LIBS outside libraries...)
# The sources are src/<name>/*.c and its folders (without main.c, the plug-ins and kernels, which have their own files here).
function(room name)
    cmake_parse_arguments(ARG "" "" "ROOMS;LIBS" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
    list(FILTER sources EXCLUDE REGEX "/cli/main\\.c$|/comm/mpi/|/tensor/cuda/")
    if(NOT sources)
        add_library(room_${name} INTERFACE)
        set(kind INTERFACE)
    else()
        add_library(room_${name} STATIC ${sources})
        set(kind PUBLIC)
    endif()
    target_include_directories(room_${name} ${kind} ${CMAKE_SOURCE_DIR}/src)
    list(TRANSFORM ARG_ROOMS PREPEND room_)
    target_link_libraries(room_${name} ${kind} ${ARG_ROOMS} ${ARG_LIBS})
endfunction()
# The cpu back end is plain loops that the compiler vectorises. The two flags change no value: nobody reads errno or traps.
file(GLOB cpu_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tensor/cpu/*.c)
set_source_files_properties(${cpu_sources} PROPERTIES COMPILE_OPTIONS
    "-fno-math-errno;-fno-trapping-math;$<$<CONFIG:Release>:-O3>")
# So are the writer's loops over ids.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/data/token_file_write.c PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
