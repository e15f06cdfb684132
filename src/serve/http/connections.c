/* Open connections, and the thread that ends those that have left, are too slow or wait too long. */
#include <errno.h>
#include <fcntl.h>
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

enum { TICK_MS = 100, SILENT_S = 1, LINGER_S = 2, LINGER_READS = 16 };

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

/* A socket that is closed with bytes which nobody has read resets its connection, and the client may not see
 * the answer; so what still comes is read for a while. */
static void linger(HttpServer *server, const HttpConnection *c)
{
    if (!c->lingers || server->lingering == LINGERING_MOST) return;
    int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    int64_t until = seam.clock() + LINGER_S * (int64_t)1000000000;
    if (fd >= 0) server->linger[server->lingering++] = (LingeringSocket){ fd, until };
}

/* MHD closes the descriptor after this, so that the watcher never touches one that is another's by then. */
static void connection_close(HttpServer *server, HttpConnection *c)
{
    if (!c) return;
    pthread_mutex_lock(&server->lock);
    if (c->before) c->before->next = c->next; else server->first = c->next;
    if (c->next)   c->next->before = c->before;
    linger(server, c);
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
    c->state  = state;
    c->since  = seam.clock();
    c->known |= state != CONNECTION_IDLE;
    pthread_mutex_unlock(&c->lock);
}

void connection_linger(HttpConnection *c) { c->lingers = true; }

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

/* The head of a request is sent within a client's seconds, and its body as well. An answer is taken within
 * the time for requests and twice a client's seconds; MHD ends connections that do not move for that long. */
static void look_at(const ServeLimits *limits, HttpConnection *c, int64_t now)
{
    pthread_mutex_lock(&c->lock);
    double most = c->state == CONNECTION_ANSWERS ? limits->seconds + 2 * limits->client_seconds
                                                 : limits->client_seconds;
    bool over = (double)(now - c->since) > most * 1e9;
    if (over) shutdown(c->fd, SHUT_RDWR);
    if (over || (c->suspended && has_left(c->fd))) {
        c->gone = true;
        resume(c);
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- room for others ---- */

static bool is_silent(const HttpConnection *c, int64_t now)
{
    return c->state == CONNECTION_IDLE && !c->ended && now - c->since > SILENT_S * (int64_t)1000000000;
}

/* Ends the oldest `count` of all `silent` connections that are known, or are not. New ones come first in the
 * list. */
static void end_oldest(HttpServer *server, bool known, int64_t silent, int64_t count, int64_t now)
{
    for (HttpConnection *c = server->first; c && count > 0; c = c->next) {
        pthread_mutex_lock(&c->lock);
        bool one = is_silent(c, now) && c->known == known;
        if (one && silent <= count) {
            c->ended = true;
            shutdown(c->fd, SHUT_RDWR);
        }
        silent -= one;
        pthread_mutex_unlock(&c->lock);
    }
}

/* Connections that ask for nothing give way to those that wait to be accepted: where seven eighths of all are
 * taken those that have never brought a request that is taken, and where all are and there is none of these,
 * those that are idle between two requests. So no number of silent clients keeps the others out. */
static void make_room(HttpServer *server, int64_t now)
{
    int64_t most = server->config.rules.limits.connections, reserve = most < 8 ? 1 : most / 8;
    int64_t open = 0, unknown = 0, silent[2] = { 0 };
    for (HttpConnection *c = server->first; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        open    += !c->ended;
        unknown += !c->ended && !c->known;
        silent[c->known] += is_silent(c, now);
        pthread_mutex_unlock(&c->lock);
    }
    end_oldest(server, false, silent[false], open - (most - reserve), now);
    if (open >= most && !unknown) end_oldest(server, true, silent[true], reserve, now);
}

/* ---- answers before the end of a request ---- */

/* Drops what has come. true: the client has closed its side. */
static bool drained(int fd)
{
    char dropped[16384];
    for (int i = 0; i < LINGER_READS; i++) {
        ssize_t bytes = recv(fd, dropped, sizeof dropped, MSG_DONTWAIT);
        if (bytes <= 0) return bytes == 0 || errno != EAGAIN;
    }
    return false;
}

void connections_drain(HttpServer *server, int64_t now)
{
    for (int i = server->lingering; i-- > 0; ) {
        if (!drained(server->linger[i].fd) && now < server->linger[i].until) continue;
        close(server->linger[i].fd);
        server->linger[i] = server->linger[--server->lingering];
    }
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

/* New connections are refused from now on, so that a balancer of load asks another server. The socket stays
 * open, since threads of MHD may still use its number. */
static void drain(HttpServer *server)
{
    MHD_quiesce_daemon(server->daemon);
    shutdown(server->fd, SHUT_RDWR);
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
        make_room(server, now);
        connections_drain(server, now);
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
