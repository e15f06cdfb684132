# The HTTP server before a fake engine, and clients of it.
if(MICROHTTPD_FOUND)
    add_executable(serve_fake ${CMAKE_CURRENT_LIST_DIR}/fake_server.c ${CMAKE_CURRENT_LIST_DIR}/fake_engine.c)
    target_include_directories(serve_fake PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(serve_fake PRIVATE module_serve)
endif()
