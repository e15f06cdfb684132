/* The TCP star of the watchdog. Rank 0 listens on a free port and distributes address, port and a random
 * cookie over the world comm; the others connect and send the cookie and their rank. Frames have a fixed
 * size, followed by a list of ranks, in the byte order and layout of the machine, since all ranks run
 * the same binary. */
#include "comm/heartbeat_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/array.h"
#include "comm/agree.h"
#include "comm/socket.h"

/* COOKIE: bytes, 128 bits that cannot be guessed. BLOCK_SECONDS bounds the reads and writes that wait: the
 * first message of a connection, and its end. FLUSH_MS is short because the job has failed already.
 * ADDRESSES: of a host, that the others look at. */
enum { COOKIE = 16, CONNECT_MS = 30000, BLOCK_SECONDS = 2, FLUSH_MS = 200, FLUSH_STEP_MS = 5, ADDRESSES = 8 };
typedef struct { uint8_t cookie[COOKIE]; SocketAddress address; } ConnectOffer;
typedef struct { uint8_t cookie[COOKIE]; int32_t rank; } Hello;

/* Called right after the failing call, while errno is still its own. */
static Status tcp_failed(const char *what)
{
    return fail(IO_FAILED, "watchdog: %s: %s; --watchdog-seconds 0 trains without a watchdog", what,
                strerror(errno));
}

static bool is_among(const SocketAddress *a, const SocketAddress *list)
{
    for (int i = 0; i < ADDRESSES; i++)
        if (list[i].port && memcmp(a->ip, list[i].ip, sizeof a->ip) == 0) return true;
    return false;
}

/* Where the other ranks reach this one: as the transport knows, or this host's address on the route to an
 * address of another host. The first interface may be one of containers or of management, and its address
 * one that each host has. all: [size][ADDRESSES] of the ranks' hosts; port 0: none. */
static SocketAddress own_address(const Comm *world, const SocketAddress *all, bool one_host)
{
    SocketAddress own;
    const SocketAddress *mine = all + (size_t)world->rank * ADDRESSES;
    const char *why, *known = world->transport->address;
    if (*known && socket_resolve(&own, 1, known, 0, &why) > 0) return own;
    for (int64_t i = 0; !one_host && i < (int64_t)world->size * ADDRESSES; i++)
        if (all[i].port && !is_among(&all[i], mine) && socket_route(&own, &all[i]) &&
            !socket_is_loopback(&own))
            return own;
    return (SocketAddress){ .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
}

/* ---- rank 0 ---- */
static Status listener_open(int *listener, ConnectOffer *offer, const SocketAddress *at)
{
    offer->address = *at;
    *listener = socket_listen(at, &offer->address.port);
    if (*listener < 0) return tcp_failed("rank 0 cannot listen");
    if (getrandom(offer->cookie, COOKIE, 0) != COOKIE) return tcp_failed("no random bytes");
    return OK;
}

/* No Nagle delay: a frame that waits for the next one would be a late heartbeat. */
static void set_socket_options(int fd)
{
    struct timeval limit = { .tv_sec = BLOCK_SECONDS };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    socket_options(fd);
}

/* The right cookie, and a rank that exists and is not connected yet. */
static bool hello_valid(int fd, const ConnectOffer *offer, const int *connected, int size, int *rank)
{
    Hello hello;
    if (recv(fd, &hello, sizeof hello, MSG_WAITALL) != (ssize_t)sizeof hello) return false;
    *rank = hello.rank;
    return memcmp(hello.cookie, offer->cookie, COOKIE) == 0 && *rank > 0 && *rank < size &&
           connected[*rank] < 0;
}

/* Accepts until all other ranks are connected. Other programs, such as port scanners, may connect too. */
static Status accept_ranks(int *fd, int size, int listener, const ConnectOffer *offer)
{
    for (int connected_ranks = 0; connected_ranks < size - 1; ) {
        struct pollfd ready = { .fd = listener, .events = POLLIN };
        if (poll(&ready, 1, CONNECT_MS) <= 0)
            return fail(IO_FAILED,
                        "watchdog: %d of %d ranks have not connected to rank 0 in %d s; a firewall between "
                        "the hosts may be the cause; --watchdog-seconds 0 trains without a watchdog",
                        size - 1 - connected_ranks, size - 1, CONNECT_MS / 1000);
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC), rank;
        if (peer < 0) return tcp_failed("rank 0 cannot accept");
        set_socket_options(peer);
        if (hello_valid(peer, offer, fd, size, &rank)) {
            fd[rank] = peer;
            connected_ranks++;
        } else {
            close(peer);                             /* not a rank of this job */
        }
    }
    return OK;
}

/* ---- the other ranks ---- */
static Status connect_to_rank0(int *fd, int rank, const ConnectOffer *offer)
{
    Hello hello = { .rank = rank };
    memcpy(hello.cookie, offer->cookie, COOKIE);
    *fd = socket_connect(&offer->address);
    if (*fd < 0) return tcp_failed("cannot connect to rank 0");
    struct pollfd ready = { .fd = *fd, .events = POLLOUT };
    errno = poll(&ready, 1, CONNECT_MS) > 0 ? socket_error(*fd) : ETIMEDOUT;
    if (errno != 0 || fcntl(*fd, F_SETFL, 0) != 0) return tcp_failed("cannot connect to rank 0");
    set_socket_options(*fd);
    if (send(*fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        return tcp_failed("rank 0 does not read");
    return OK;
}

/* Rank 0 chooses its address by those of all hosts. */
static Status offer_make(int *listener, ConnectOffer *offer, Comm *world, bool one_host)
{
    SocketAddress mine[ADDRESSES] = { 0 }, *all = malloc((size_t)world->size * sizeof mine);
    CHECK(all, "no memory for the addresses of %d ranks", world->size);
    int count = socket_interfaces(mine, ADDRESSES);
    for (int i = 0; i < count; i++) mine[i].port = 1;
    comm_gather_bytes(world, "watchdog", all, mine, sizeof mine);
    SocketAddress own = own_address(world, all, one_host);
    free(all);
    return world->rank == 0 ? listener_open(listener, offer, &own) : OK;
}

Status heartbeat_tcp_open(int *fd, Comm *world, bool one_host)
{
    ConnectOffer offer = { 0 };
    for (int r = 0; r < world->size; r++) fd[r] = -1;
    int    listener = -1;
    Status status   = agree(world, offer_make(&listener, &offer, world, one_host));
    if (status == OK) {
        comm_broadcast_bytes(world, &offer, sizeof offer, 0);
        status = agree(world, world->rank == 0 ? accept_ranks(fd, world->size, listener, &offer)
                                               : connect_to_rank0(&fd[0], world->rank, &offer));
    }
    if (listener >= 0) close(listener);
    return status;
}

/* ---- frames ---- */
/* Sends until all is sent or the system takes no more. */
static void unsent_send(int fd, UnsentBytes *unsent, int flags)
{
    size_t at = 0;
    while (at < unsent->count) {
        ssize_t n = send(fd, unsent->bytes + at, unsent->count - at, flags);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        at += (size_t)n;
    }
    if (at > 0) memmove(unsent->bytes, unsent->bytes + at, unsent->count - at);
    unsent->count -= at;
}

/* Keeps the parts of a frame from byte `sent` on. Without memory for it the connection would carry half a
 * frame, so it is closed, which the other end takes for the death of this process. */
static void unsent_keep(int fd, UnsentBytes *unsent, const struct iovec part[2], size_t sent)
{
    size_t rest = part[0].iov_len + part[1].iov_len - sent;
    if (ARRAY_RESERVE(unsent->bytes, unsent->room, unsent->count + rest) != OK) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    for (int i = 0; i < 2; i++) {
        size_t skip = sent < part[i].iov_len ? sent : part[i].iov_len, left = part[i].iov_len - skip;
        if (left > 0) memcpy(unsent->bytes + unsent->count, (const char *)part[i].iov_base + skip, left);
        unsent->count += left;
        sent -= skip;
    }
}

void heartbeat_tcp_send(int fd, UnsentBytes *unsent, const HeartbeatFrame *frame, const int *members)
{
    struct iovec  part[2] = { { (void *)frame, sizeof *frame },
                              { (void *)members, (size_t)frame->members * sizeof *members } };
    struct msghdr message = { .msg_iov = part, .msg_iovlen = frame->members ? 2 : 1 };
    ssize_t sent = 0;
    unsent_send(fd, unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (unsent->count == 0) sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0 && frame->kind == FRAME_PROGRESS)
        return;                                       /* the reader notices: by silence, or by the close */
    size_t taken = sent > 0 ? (size_t)sent : 0;
    if (taken < part[0].iov_len + part[1].iov_len) unsent_keep(fd, unsent, part, taken);
}

/* Reads what is missing of a frame's bytes `begin` to `end`, which belong at `to`. RECEIVED_FRAME: none is
 * missing now. */
static ReceivedState receive_bytes(int fd, ReceivedFrame *received, void *to, size_t begin, size_t end)
{
    while (received->count < end) {
        ssize_t n = recv(fd, (char *)to + (received->count - begin), end - received->count, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return RECEIVED_PART;
        if (n <= 0) return RECEIVED_CLOSED;
        received->count += (size_t)n;
    }
    return RECEIVED_FRAME;
}

/* The bytes come from a network: kind, count and the names of the collective are made safe before they
 * are used. Without memory for the members the bytes stay in the socket for the next call. */
ReceivedState heartbeat_tcp_recv(int fd, ReceivedFrame *received, int capacity)
{
    HeartbeatFrame *frame = &received->frame;
    size_t head = sizeof *frame;
    ReceivedState state = receive_bytes(fd, received, frame, 0, head);
    if (state != RECEIVED_FRAME) return state;
    if (frame->kind < FRAME_PROGRESS || frame->kind > FRAME_STOP || frame->members < 0 ||
        frame->members > capacity)
        return RECEIVED_CLOSED;
    RankProgress *said = &frame->progress;                       /* names from outside need not end */
    said->comm[HEARTBEAT_NAME - 1] = said->verb[HEARTBEAT_NAME - 1] = said->work[HEARTBEAT_NAME - 1] = '\0';
    if (frame->members > 0) {
        size_t bytes = (size_t)frame->members * sizeof *received->members;
        if (ARRAY_RESERVE(received->members, received->room, frame->members) != OK) return RECEIVED_PART;
        state = receive_bytes(fd, received, received->members, head, head + bytes);
    }
    if (state == RECEIVED_FRAME) received->count = 0;
    return state;
}

/* close() with unread bytes sends RST, which discards what the system has not sent yet: the connections are
 * read to their ends. */
void heartbeat_tcp_flush(const int *fd, UnsentBytes *unsent, int size, bool until_closed)
{
    bool pending = true;
    char rest[256];
    for (int ms = 0; pending && ms < FLUSH_MS; ms += FLUSH_STEP_MS) {
        pending = false;
        for (int r = 0; r < size; r++) {
            if (fd[r] < 0) continue;
            unsent_send(fd[r], &unsent[r], MSG_NOSIGNAL | MSG_DONTWAIT);
            bool done = unsent[r].count == 0;
            if (done && until_closed) shutdown(fd[r], SHUT_WR);
            if (until_closed) {
                ssize_t n;
                while ((n = recv(fd[r], rest, sizeof rest, MSG_DONTWAIT)) > 0) { }
                done = n == 0 || errno != EAGAIN;
            }
            pending |= !done;
        }
        if (pending) usleep(FLUSH_STEP_MS * 1000);
    }
}

void heartbeat_tcp_leave(int fd, UnsentBytes *unsent)
{
    char rest[256];
    unsent_send(fd, unsent, MSG_NOSIGNAL);            /* blocks no longer than the socket's time limit */
    free(unsent->bytes);
    *unsent = (UnsentBytes){ 0 };
    shutdown(fd, SHUT_WR);
    /* close() with unread bytes sends RST, which would discard the goodbye at the other end. */
    while (recv(fd, rest, sizeof rest, 0) > 0) { }
    close(fd);
}
