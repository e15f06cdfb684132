# One plug-in for each MPI found, since their binary interfaces differ; the binary itself links none, and the loader
# (src/comm/mpi.c) looks for the plug-in beside it.
function(mpi_plugin name package)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${package})
    if(${name}_FOUND)
        add_library(jotun_${name} MODULE ${CMAKE_SOURCE_DIR}/src/comm/mpi/plugin.c)
        target_include_directories(jotun_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
        target_compile_definitions(jotun_${name} PRIVATE MPI_NAME="${name}")
        target_link_libraries(jotun_${name} PRIVATE PkgConfig::${name})
        set_target_properties(jotun_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
        add_dependencies(jotun jotun_${name})
        install(TARGETS jotun_${name} LIBRARY DESTINATION lib/jotun)
    else()
        message(STATUS "no plug-in for ${name}: lib${name}-dev is not installed")
    endif()
endfunction()
mpi_plugin(openmpi ompi-c)          # libopenmpi-dev
mpi_plugin(mpich mpich)             # libmpich-dev
