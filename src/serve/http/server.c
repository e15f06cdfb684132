/* The server's socket, its threads, and how it begins and ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "base/thread.h"
#include "serve/http/http.h"

enum { HTTP_THREADS = 4, CONNECTION_MEMORY = 32768, BACKLOG = 128 };

/* ---- the socket ---- */

static bool is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in6 *six = (const void *)address;
    const struct sockaddr_in *four = (const void *)address;
    if (address->sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

/* A descriptor that listens at the address; -1 with errno */
static int listen_at(const struct addrinfo *at)
{
    int on = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Sets the address by which it can be asked, with the port that the system chose for port 0. */
static void address_set(HttpServer *s)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    char host[96] = "", port[16] = "";
    struct sockaddr *address = (void *)&bound;
    getsockname(s->fd, address, &bytes);
    getnameinfo(address, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = address->sa_family == AF_INET6;
    snprintf(s->address, sizeof s->address, six ? "http://[%s]:%s/" : "http://%s:%s/", host, port);
    s->loopback = is_loopback(address);
}

static Status listen_anywhere(HttpServer *s)
{
    const HttpServerConfig *c = &s->config;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", c->port);
    int unknown = getaddrinfo(c->host, port, &hints, &found);
    if (unknown)
        return fail(BAD_OPTION, "--host %s is no address of this machine: %s; 127.0.0.1 is this machine "
                    "alone, 0.0.0.0 all of its networks", c->host, gai_strerror(unknown));
    for (const struct addrinfo *at = found; at && s->fd < 0; at = at->ai_next) s->fd = listen_at(at);
    int error = errno;
    freeaddrinfo(found);
    if (s->fd < 0 && error == EADDRNOTAVAIL)
        return fail(BAD_OPTION, "--host %s is no address of this machine; 127.0.0.1 is this machine alone, "
                    "0.0.0.0 all of its networks", c->host);
    if (s->fd < 0)
        return fail(BAD_OPTION, "--host %s --port %d: %s; give another --port, or 0 for any that is free",
                    c->host, c->port, strerror(error));
    address_set(s);
    return OK;
}

Status http_server_built(void) { return OK; }

Status http_server_listen(HttpServer **out, const HttpServerConfig *config)
{
    HttpServer *s = *out = calloc(1, sizeof *s);
    if (!s) return fail(NO_MEMORY, "no memory for a server");
    *s = (HttpServer){ .config = *config, .fd = -1 };
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->tick, &clock);
    pthread_condattr_destroy(&clock);
    Status status = listen_anywhere(s);
    if (status != OK) {
        http_server_close(s);
        *out = NULL;
    }
    return status;
}

const char *http_server_address(const HttpServer *s) { return s->address; }

/* ---- threads ---- */

/* A NUL would end a path before the end that a proxy has looked at. */
static size_t unescape(void *context, struct MHD_Connection *mhd, char *text)
{
    size_t bytes = MHD_http_unescape(text);
    (void)context;
    (void)mhd;
    for (size_t i = 0; i < bytes; i++)
        if (!text[i]) text[i] = 127;
    return bytes;
}

/* Signals are for the threads of the run, as base/thread.h has it. */
static struct MHD_Daemon *daemon_start(HttpServer *s)
{
    const ServeLimits *limits = &s->config.rules.limits;
    int64_t threads = limits->connections < HTTP_THREADS ? limits->connections : HTTP_THREADS;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
        NULL, exchange_handle, s, MHD_OPTION_LISTEN_SOCKET, s->fd,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)threads,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)limits->connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(limits->client_seconds + 0.999),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 1,             /* 0.9.75: Host is wanted; later ones check more */
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, connection_notify, s,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_end, s, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

Status http_server_start(HttpServer *s)
{
    s->daemon = daemon_start(s);
    if (!s->daemon) return fail(NO_MEMORY, "the system gives the HTTP server no threads");
    int error  = thread_start(&s->watcher, connections_watch, s);
    s->watched = error == 0;
    return s->watched ? OK : fail(NO_MEMORY, "the system gives the HTTP server no thread: %s",
                                  strerror(error));
}

/* Answers that are ready are sent first. */
void http_server_close(HttpServer *s)
{
    if (!s) return;
    for (int i = 0; i < s->config.rules.models; i++)
        if (s->config.service[i]) service_end(s->config.service[i]);
    int64_t until = seam.clock() + (int64_t)(s->config.rules.limits.client_seconds * 1e9);
    while (s->watched && connections_answer(s) && seam.clock() < until) usleep(20000);
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_signal(&s->tick);
    pthread_mutex_unlock(&s->lock);
    if (s->watched) pthread_join(s->watcher, NULL);
    if (s->daemon && !s->drains) MHD_quiesce_daemon(s->daemon);         /* else MHD closes it as well */
    if (s->daemon) MHD_stop_daemon(s->daemon);
    if (s->fd >= 0) close(s->fd);
    connections_drain(s, INT64_MAX);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->tick);
    free(s);
}
