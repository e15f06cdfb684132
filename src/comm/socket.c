#include "comm/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* BACKLOG: ranks that connect at the same time. OTHER_DESCRIPTORS: for files, and for connections that are
 * not counted one by one. */
enum { BACKLOG = 4096, OTHER_DESCRIPTORS = 32 };
static const uint8_t ipv4_prefix[12] = { [10] = 0xff, [11] = 0xff };

/* ---- addresses ---- */
typedef union { struct sockaddr any; struct sockaddr_in v4; struct sockaddr_in6 v6; } SystemAddress;

static bool is_ipv4(const SocketAddress *a) { return memcmp(a->ip, ipv4_prefix, sizeof ipv4_prefix) == 0; }

static socklen_t to_system(SystemAddress *out, const SocketAddress *a)
{
    memset(out, 0, sizeof *out);
    if (is_ipv4(a)) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port   = htons(a->port);
        memcpy(&out->v4.sin_addr, a->ip + 12, 4);
        return sizeof out->v4;
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port   = htons(a->port);
    memcpy(&out->v6.sin6_addr, a->ip, 16);
    return sizeof out->v6;
}

static bool from_system(SocketAddress *out, const SystemAddress *a)
{
    if (a->any.sa_family == AF_INET) {
        memcpy(out->ip, ipv4_prefix, sizeof ipv4_prefix);
        memcpy(out->ip + 12, &a->v4.sin_addr, 4);
        out->port = ntohs(a->v4.sin_port);
    } else if (a->any.sa_family == AF_INET6) {
        memcpy(out->ip, &a->v6.sin6_addr, 16);
        out->port = ntohs(a->v6.sin6_port);
    } else {
        return false;
    }
    return true;
}

const char *socket_ip(char out[SOCKET_TEXT], const SocketAddress *a)
{
    bool v4 = is_ipv4(a);
    if (!inet_ntop(v4 ? AF_INET : AF_INET6, a->ip + (v4 ? 12 : 0), out, SOCKET_TEXT))
        snprintf(out, SOCKET_TEXT, "?");
    return out;
}

const char *socket_text(char out[SOCKET_TEXT], const SocketAddress *a)
{
    char ip[SOCKET_TEXT];
    snprintf(out, SOCKET_TEXT, is_ipv4(a) ? "%.50s:%u" : "[%.50s]:%u", socket_ip(ip, a), (unsigned)a->port);
    return out;
}

bool socket_is_loopback(const SocketAddress *a)
{
    static const uint8_t v6[16] = { [15] = 1 };
    return is_ipv4(a) ? a->ip[12] == 127 : memcmp(a->ip, v6, 16) == 0;
}

int socket_resolve(SocketAddress *address, int room, const char *host, int port, const char **why)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
    int count = 0, error = getaddrinfo(host, NULL, &hints, &all);
    *why = error == EAI_SYSTEM ? strerror(errno) : error ? gai_strerror(error) : "it has no address";
    if (error) return 0;
    for (struct addrinfo *i = all; i && count < room; i = i->ai_next) {
        SystemAddress system;
        memset(&system, 0, sizeof system);
        if (i->ai_addrlen > sizeof system) continue;
        memcpy(&system, i->ai_addr, i->ai_addrlen);
        if (!from_system(&address[count], &system)) continue;
        address[count++].port = (uint16_t)port;
    }
    freeaddrinfo(all);
    return count;
}

int socket_interfaces(SocketAddress *address, int room)
{
    struct ifaddrs *all = NULL;
    int count = 0;
    if (getifaddrs(&all) != 0) return 0;
    for (struct ifaddrs *i = all; i && count < room; i = i->ifa_next) {
        SystemAddress a;
        memset(&a, 0, sizeof a);
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
        if (i->ifa_addr->sa_family == AF_INET) memcpy(&a, i->ifa_addr, sizeof a.v4);
        if (i->ifa_addr->sa_family == AF_INET6) memcpy(&a, i->ifa_addr, sizeof a.v6);
        if (a.any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a.v6.sin6_addr)) continue;
        if (from_system(&address[count], &a) && !socket_is_loopback(&address[count])) count++;
    }
    freeifaddrs(all);
    return count;
}

bool socket_own(SocketAddress *own, int fd)
{
    SystemAddress a;
    socklen_t bytes = sizeof a;
    return getsockname(fd, &a.any, &bytes) == 0 && from_system(own, &a);
}

bool socket_other(SocketAddress *other, int fd)
{
    SystemAddress a;
    socklen_t bytes = sizeof a;
    return getpeername(fd, &a.any, &bytes) == 0 && from_system(other, &a);
}

/* A datagram socket that is connected chooses its route, and sends nothing. */
bool socket_route(SocketAddress *own, const SocketAddress *to)
{
    SystemAddress a;
    SocketAddress there = *to;
    if (there.port == 0) there.port = 9;                         /* any but 0 */
    socklen_t bytes = to_system(&a, &there);
    int  fd    = socket(a.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && connect(fd, &a.any, bytes) == 0 && socket_own(own, fd);
    if (fd >= 0) close(fd);
    own->port = 0;
    return found;
}

/* ---- sockets ---- */
/* Closes a descriptor and keeps errno. */
static int failed(int fd)
{
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
}

/* The port may still be in TIME_WAIT from a job before, or be kept free for us by `jotun run`. */
static int bind_at(const SystemAddress *a, socklen_t bytes, uint16_t *port)
{
    int yes = 1, no = 0;
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    SocketAddress own;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->any.sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, &a->any, bytes) != 0 || !socket_own(&own, fd)) return failed(fd);
    *port = own.port;
    return fd;
}

int socket_reserve(const SocketAddress *at, uint16_t *port)
{
    SystemAddress a;
    SocketAddress here = *at;
    here.port = *port;
    socklen_t bytes = to_system(&a, &here);
    return bind_at(&a, bytes, port);
}

static int listen_at(const SystemAddress *a, socklen_t bytes, uint16_t *port)
{
    int fd = bind_at(a, bytes, port);
    return fd >= 0 && listen(fd, BACKLOG) != 0 ? failed(fd) : fd;
}

int socket_listen(const SocketAddress *at, uint16_t *port)
{
    static const SocketAddress every6, every4 = { .ip = { [10] = 0xff, [11] = 0xff } };
    SystemAddress a;
    SocketAddress here = at ? *at : every6;
    here.port = *port;
    socklen_t bytes = to_system(&a, &here);
    int fd = listen_at(&a, bytes, port);
    if (at || fd >= 0 || errno == EADDRINUSE || errno == EACCES) return fd;
    here = every4;                                              /* a system without IPv6 */
    here.port = *port;
    bytes = to_system(&a, &here);
    return listen_at(&a, bytes, port);
}

int socket_connect(const SocketAddress *to)
{
    SystemAddress a;
    socklen_t bytes = to_system(&a, to);
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    socket_options(fd);
    if (connect(fd, &a.any, bytes) != 0 && errno != EINPROGRESS) return failed(fd);
    return fd;
}

/* A new descriptor gets the lowest number that is free, and so tells how many are in use. */
Status socket_raise_limit(int connections, const char *format, ...)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return OK;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) close(fd);
    rlim_t wanted = (rlim_t)(fd < 0 ? 0 : fd) + (rlim_t)connections + OTHER_DESCRIPTORS;
    if (connections == 0 || files.rlim_max == RLIM_INFINITY || wanted <= files.rlim_max) return OK;
    char what[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return fail(BAD_OPTION, "%s: this process needs %llu descriptors, and its limit is %llu: ulimit -n %llu "
                "before its start, for which root must allow it, as by nofile in "
                "/etc/security/limits.conf", what, (unsigned long long)wanted,
                (unsigned long long)files.rlim_max, (unsigned long long)wanted);
}

void socket_options(int fd)
{
    int yes = 1, idle = 60, interval = 15, probes = 4;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

int socket_error(int fd)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}
