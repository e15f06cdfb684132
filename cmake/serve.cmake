# The HTTP server, and the page that it embeds.
if(NOT MICROHTTPD_FOUND)
    message(STATUS "libmicrohttpd (libmicrohttpd-dev) was not found: this build has no HTTP server (jotun serve)")
    target_sources(module_serve PRIVATE src/serve/http/absent.c)
    return()
endif()
set(page ${CMAKE_SOURCE_DIR}/src/serve/http/page.html)
set(page_bytes ${CMAKE_BINARY_DIR}/page_bytes.c)
add_custom_command(OUTPUT ${page_bytes}
    COMMAND ${CMAKE_COMMAND} -DFROM=${page} -DTO=${page_bytes} -DNAME=server_page -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${page} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
target_sources(module_serve PRIVATE src/serve/http/server.c src/serve/http/connections.c src/serve/http/exchange.c src/serve/http/page.c ${page_bytes})
target_link_libraries(module_serve PUBLIC PkgConfig::MICROHTTPD)
