#include "comm/heartbeat_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "comm/agree.h"

enum { COOKIE = 16, CONNECT_MS = 30000, TALK_SECONDS = 2 };
typedef struct { uint8_t cookie[COOKIE]; struct in_addr address; uint16_t port; } Invitation;
typedef struct { uint8_t cookie[COOKIE]; int32_t rank; } Hello;

static Status refused(const char *what)
{
    return fail(IO_FAILED, "watchdog: %s: %s; --watchdog-seconds 0 goes without it", what, strerror(errno));
}

/* The first address others can reach, or the loopback where all ranks share one host. */
static struct in_addr own_address(bool one_host)
{
    struct in_addr  found = { htonl(INADDR_LOOPBACK) };
    struct ifaddrs *all = NULL;
    if (one_host || getifaddrs(&all) != 0) return found;
    for (struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
            !(i->ifa_flags & IFF_LOOPBACK)) {
            found = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr;
            break;
        }
    freeifaddrs(all);
    return found;
}

/* ---- rank 0 ---- */
static Status listener_open(int *listener, Invitation *invitation, int backlog, bool one_host)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = own_address(one_host) };
    socklen_t size = sizeof at;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(*listener, backlog) != 0 || getsockname(*listener, (struct sockaddr *)&at, &size) != 0)
        return refused("rank 0 cannot listen");
    if (getrandom(invitation->cookie, COOKIE, 0) != COOKIE) return refused("no random bytes");
    invitation->address = at.sin_addr;
    invitation->port    = at.sin_port;
    return OK;
}

static void talk_options(int fd)
{
    struct timeval limit = { .tv_sec = TALK_SECONDS };
    int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static bool hello_good(int fd, const Invitation *invitation, const int *connected, int size, int *rank)
{
    Hello hello;
    if (recv(fd, &hello, sizeof hello, MSG_WAITALL) != (ssize_t)sizeof hello) return false;
    *rank = hello.rank;
    return memcmp(hello.cookie, invitation->cookie, COOKIE) == 0 && *rank > 0 && *rank < size &&
           connected[*rank] < 0;
}

static Status guests_accept(int *fd, int size, int listener, const Invitation *invitation)
{
    for (int guests = 0; guests < size - 1; ) {
        struct pollfd ready = { .fd = listener, .events = POLLIN };
        if (poll(&ready, 1, CONNECT_MS) <= 0)
            return fail(IO_FAILED,
                        "watchdog: %d of %d ranks have not connected in %d s; a firewall between the hosts? "
                        "--watchdog-seconds 0 goes without it",
                        size - 1 - guests, size - 1, CONNECT_MS / 1000);
        int guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC), rank;
        if (guest < 0) return refused("rank 0 cannot accept");
        talk_options(guest);
        if (hello_good(guest, invitation, fd, size, &rank)) {
            fd[rank] = guest;
            guests++;
        } else {
            close(guest);                             /* a stranger */
        }
    }
    return OK;
}

/* ---- the others ---- */
static Status host_connect(int *fd, int rank, const Invitation *invitation)
{
    struct sockaddr_in at = { AF_INET, .sin_addr = invitation->address, .sin_port = invitation->port };
    Hello hello = { .rank = rank };
    memcpy(hello.cookie, invitation->cookie, COOKIE);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || connect(*fd, (struct sockaddr *)&at, sizeof at) != 0)
        return refused("rank 0 cannot be reached");
    talk_options(*fd);
    if (send(*fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        return refused("rank 0 does not listen");
    return OK;
}

Status heartbeat_tcp_open(int *fd, Comm *world, bool one_host)
{
    Invitation mine = { 0 }, *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the addresses of %d ranks", world->size);
    for (int r = 0; r < world->size; r++) fd[r] = -1;
    int    listener = -1;
    Status status   = OK;
    if (world->rank == 0) status = listener_open(&listener, &mine, world->size, one_host);
    status = agree(world, status);
    if (status == OK) {
        comm_gather_bytes(world, "watchdog", all, &mine, sizeof mine);
        status = agree(world, world->rank == 0 ? guests_accept(fd, world->size, listener, &mine)
                                               : host_connect(&fd[0], world->rank, &all[0]));
    }
    if (listener >= 0) close(listener);
    free(all);
    return status;
}

/* ---- talking ---- */
void heartbeat_tcp_send(int fd, const HeartbeatFrame *frame, const int *members)
{
    struct iovec  part[2] = { { (void *)frame, sizeof *frame },
                              { (void *)members, (size_t)frame->members * sizeof *members } };
    struct msghdr message = { .msg_iov = part, .msg_iovlen = frame->members ? 2 : 1 };
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;                                       /* the reader learns it, from silence or from the close */
}

bool heartbeat_tcp_recv(int fd, HeartbeatFrame *frame, int *members, int room)
{
    if (recv(fd, frame, sizeof *frame, MSG_WAITALL) != (ssize_t)sizeof *frame) return false;
    if (frame->kind < FRAME_PROGRESS || frame->kind > FRAME_STOP || frame->members < 0 || frame->members > room)
        return false;
    RankProgress *said = &frame->progress;                       /* names from outside need not end */
    said->comm[HEARTBEAT_NAME - 1] = said->verb[HEARTBEAT_NAME - 1] = said->work[HEARTBEAT_NAME - 1] = '\0';
    size_t bytes = (size_t)frame->members * sizeof *members;
    return bytes == 0 || recv(fd, members, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

void heartbeat_tcp_leave(int fd)
{
    char rest[256];
    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0) { }    /* unread bytes at a close would tear the goodbye away */
    close(fd);
}
