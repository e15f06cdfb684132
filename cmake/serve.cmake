# The HTTP server, and the page that it embeds.
if(NOT MICROHTTPD_FOUND)
    message(STATUS "libmicrohttpd (libmicrohttpd-dev) was not found: this build has no HTTP server (jotun serve)")
    target_sources(module_serve PRIVATE src/serve/http/absent.c)
    return()
endif()
embed(server_page serve serve/http/page.html)
target_sources(module_serve PRIVATE src/serve/http/server.c src/serve/http/connections.c src/serve/http/exchange.c src/serve/http/request_head.c src/serve/http/page.c)
target_link_libraries(module_serve PUBLIC PkgConfig::MICROHTTPD)
