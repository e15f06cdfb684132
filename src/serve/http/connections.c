/* Open connections, and the thread that ends those that have left, are too slow or wait too long. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/seam.h"
#include "serve/http/http.h"

enum { TICK_MS = 100 };

/* "127.0.0.1", without the port, which differs between connections of one client */
static void client_name(char out[CLIENT_NAME], struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    socklen_t bytes = address && address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                : sizeof(struct sockaddr_in);
    if (!address || getnameinfo(address, bytes, out, CLIENT_NAME, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(out, CLIENT_NAME, "unknown");
}

static void connection_open(HttpServer *server, struct MHD_Connection *mhd, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    HttpConnection *c = calloc(1, sizeof *c);
    *context = c;
    if (!c) return;                                /* its requests are refused */
    *c = (HttpConnection){ .mhd = mhd, .fd = info ? info->connect_fd : -1, .since = seam.clock() };
    client_name(c->client, mhd);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_lock(&server->lock);
    c->next = server->first;
    if (c->next) c->next->before = c;
    server->first = c;
    pthread_mutex_unlock(&server->lock);
    server->config.metrics->connections++;
}

/* MHD closes the descriptor after this, so that the watcher never touches one that is another's by then. */
static void connection_close(HttpServer *server, HttpConnection *c)
{
    if (!c) return;
    pthread_mutex_lock(&server->lock);
    if (c->before) c->before->next = c->next; else server->first = c->next;
    if (c->next)   c->next->before = c->before;
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_destroy(&c->lock);
    free(c);
    server->config.metrics->connections--;
}

void connection_notify(void *server, struct MHD_Connection *mhd, void **context,
                       enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) connection_open(server, mhd, context);
    else                                       connection_close(server, *context);
}

HttpConnection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void connection_set(HttpConnection *c, ConnectionState state)
{
    pthread_mutex_lock(&c->lock);
    c->state = state;
    c->since = seam.clock();
    pthread_mutex_unlock(&c->lock);
}

bool connection_gone(HttpConnection *c)
{
    pthread_mutex_lock(&c->lock);
    bool gone = c->gone;
    pthread_mutex_unlock(&c->lock);
    return gone;
}

void connection_suspend(void *connection)
{
    HttpConnection *c = connection;
    pthread_mutex_lock(&c->lock);
    c->suspended = true;
    MHD_suspend_connection(c->mhd);
    pthread_mutex_unlock(&c->lock);
}

static void resume(HttpConnection *c)
{
    if (c->suspended) MHD_resume_connection(c->mhd);
    c->suspended = false;
}

void connection_resume(void *connection)
{
    HttpConnection *c = connection;
    pthread_mutex_lock(&c->lock);
    resume(c);
    pthread_mutex_unlock(&c->lock);
}

/* A client that has closed its side, even one half of it, waits for no answer. */
static bool has_left(int fd)
{
    struct pollfd look = { .fd = fd, .events = POLLRDHUP };
    return poll(&look, 1, 0) > 0 && look.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* A request is sent within a client's seconds. An answer is taken within the time for requests and twice a
 * client's seconds; MHD ends connections that do not move for that long. */
static void look_at(const ServeLimits *limits, HttpConnection *c, int64_t now)
{
    pthread_mutex_lock(&c->lock);
    double most = c->state == CONNECTION_RECEIVES ? limits->client_seconds
                                                  : limits->seconds + 2 * limits->client_seconds;
    bool over = (double)(now - c->since) > most * 1e9;
    if (over) shutdown(c->fd, SHUT_RDWR);
    if (over || (c->suspended && has_left(c->fd))) {
        c->gone = true;
        resume(c);
    }
    pthread_mutex_unlock(&c->lock);
}

bool connections_answer(HttpServer *server)
{
    bool any = false;
    pthread_mutex_lock(&server->lock);
    for (HttpConnection *c = server->first; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        any |= c->state == CONNECTION_ANSWERS;
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&server->lock);
    return any;
}

/* New connections are refused from now on, so that a balancer of load asks another server. */
static void drain(HttpServer *server)
{
    int fd = MHD_quiesce_daemon(server->daemon);
    if (fd >= 0) close(fd);
    server->fd = -1;
    for (int i = 0; i < server->config.rules.models; i++) service_drain(server->config.service[i]);
}

void *connections_watch(void *context)
{
    HttpServer *server = context;
    const HttpServerConfig *config = &server->config;
    struct timespec until;
    pthread_mutex_lock(&server->lock);
    while (!server->ends) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_MS * 1000000;
        until.tv_sec  += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&server->tick, &server->lock, &until);
        int64_t now = seam.clock();
        for (HttpConnection *c = server->first; c; c = c->next) look_at(&config->rules.limits, c, now);
        bool drains = !server->drains && config->stop && __atomic_load_n(config->stop, __ATOMIC_RELAXED);
        server->drains |= drains;
        pthread_mutex_unlock(&server->lock);
        for (int i = 0; i < config->rules.models; i++) service_tick(config->service[i], now);
        if (drains) drain(server);
        pthread_mutex_lock(&server->lock);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}
