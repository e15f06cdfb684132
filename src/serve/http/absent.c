/* In the place of the server, in builds without libmicrohttpd. */
#include "serve/server.h"

Status http_server_built(void)
{
    return fail(BAD_OPTION, "this build has no HTTP server: libmicrohttpd was not found when it was "
                "configured; install libmicrohttpd-dev, configure and build again");
}

Status http_server_listen(HttpServer **server, const HttpServerConfig *config)
{
    (void)config;
    *server = NULL;
    return http_server_built();
}

const char *http_server_address(const HttpServer *server) { return server ? "" : ""; }
Status      http_server_start  (HttpServer *server)       { return server ? OK : OK; }
void        http_server_close  (HttpServer *server)       { (void)server; }
