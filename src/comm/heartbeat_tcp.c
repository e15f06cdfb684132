/* The TCP star of the watchdog. Rank 0 listens on a free port and distributes address, port and a random
 * key over the world comm; the others connect, prove that they know the key, and say which rank they are.
 * Frames have a fixed size, followed by a list of ranks, in the byte order and layout of the machine, since
 * all ranks run the same binary. */
#include "comm/heartbeat_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/array.h"
#include "base/seam.h"
#include "comm/agree.h"
#include "comm/tcp/guest.h"

/* CONNECT_SECONDS: for a network that comes up late. BLOCK_SECONDS bounds the reads and writes that wait, at
 * the end of a connection. FLUSH_MS is short because the job has failed already. ADDRESSES: of a host, that
 * the others look at. */
enum { CONNECT_SECONDS = 30, RETRY_MS = 100, BLOCK_SECONDS = 2, FLUSH_MS = 200, FLUSH_STEP_MS = 5,
       ADDRESSES = 8 };
static const int64_t SECOND = 1000000000;
typedef struct { TcpKey key; SocketAddress address; } ConnectOffer;

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

/* No reader may wait for ever for the end of a connection. */
static void set_blocking(int fd)
{
    struct timeval limit = { .tv_sec = BLOCK_SECONDS };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    CHECK(fcntl(fd, F_SETFL, 0) == 0, "fcntl: %s", strerror(errno));
}

/* ---- rank 0 ---- */
static Status listener_open(int *listener, ConnectOffer *offer, const SocketAddress *at)
{
    offer->address = *at;
    *listener = socket_listen(at, &offer->address.port);
    if (*listener < 0) return tcp_failed("rank 0 cannot listen");
    tcp_random(&offer->key, sizeof offer->key);
    return OK;
}

/* Until all other ranks are connected. fd: of heartbeat_tcp_open; last: seam.clock when one was connected. */
typedef struct { int *fd, connected; const TcpKey *key; int64_t last; } Accepting;

static const TcpKey *key_of(void *self, uint32_t purpose)
{
    return purpose == HELLO_WATCHDOG ? ((Accepting *)self)->key : NULL;
}

static Verdict admit(void *self, const Hello *hello)
{
    return ((Accepting *)self)->fd[hello->rank] < 0 ? WELCOME : RANK_TWICE;
}

static void take(void *self, const Hello *hello, int fd)
{
    Accepting *a = self;
    set_blocking(fd);
    a->fd[hello->rank] = fd;
    a->connected++;
    a->last = seam.clock();
}

static Status accept_ranks(int *fd, int size, int listener, const ConnectOffer *offer)
{
    Accepting a = { .fd = fd, .key = &offer->key, .last = seam.clock() };
    Guests   *guests = guests_open(&(GuestHost){ .self = &a, .size = size, .key = key_of, .admit = admit,
                                                 .take = take }, listener);
    struct pollfd ready = { .fd = guests_poller(guests), .events = POLLIN };
    while (a.connected < size - 1 && seam.clock() - a.last <= CONNECT_SECONDS * SECOND) {
        if (poll(&ready, 1, 1000) > 0) guests_progress(guests);
        guests_expire(guests);
    }
    guests_close(guests);
    if (a.connected == size - 1) return OK;
    return fail(IO_FAILED, "watchdog: %d of %d ranks have not connected to rank 0 in %d s; a firewall "
                "between the hosts may be the cause; --watchdog-seconds 0 trains without a watchdog",
                size - 1 - a.connected, size - 1, CONNECT_SECONDS);
}

/* ---- the other ranks ---- */
/* Rank 0 listens already, so only a dead one refuses a connection; a network may still come up. */
static Status connect_to_rank0(int *fd, const Comm *world, const ConnectOffer *offer)
{
    Hello hello = { .purpose = HELLO_WATCHDOG, .rank = world->rank, .size = world->size };
    Greeting greeting;
    int64_t  end = seam.clock() + CONNECT_SECONDS * SECOND;
    GreetingState state;
    while ((state = greeting_try(&greeting, &offer->address, hello, &offer->key)) == GREETING_CLOSED) {
        if (errno == ECONNREFUSED || seam.clock() > end) return tcp_failed("cannot connect to rank 0");
        usleep(RETRY_MS * 1000);
    }
    errno = EACCES;
    if (state != GREETING_DONE) return tcp_failed("rank 0 refuses the connection");
    set_blocking(*fd = greeting.fd);
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
    if (world->rank != 0) return OK;
    TRY(socket_raise_limit(world->size - 1, "the watchdog's connections to %d ranks", world->size - 1));
    return listener_open(listener, offer, &own);
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
                                               : connect_to_rank0(&fd[0], world, &offer));
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

/* Kind, ranks and names come from a network. */
static bool head_is_valid(HeartbeatFrame *frame, int from, int size)
{
    RankProgress *said = &frame->progress;                       /* names from outside need not end */
    said->comm[HEARTBEAT_NAME - 1] = said->verb[HEARTBEAT_NAME - 1] = said->work[HEARTBEAT_NAME - 1] = '\0';
    return frame->kind >= FRAME_PROGRESS && frame->kind <= FRAME_STOP && frame->rank == from &&
           frame->victim >= -1 && frame->victim < size && frame->members >= 0 && frame->members <= size;
}

static bool members_are_valid(const int *members, int count, int size)
{
    for (int i = 0; i < count; i++)
        if (members[i] < 0 || members[i] >= size) return false;
    return true;
}

/* Without memory for the members the bytes stay in the socket for the next call. */
ReceivedState heartbeat_tcp_recv(int fd, ReceivedFrame *received, int from, int size)
{
    HeartbeatFrame *frame = &received->frame;
    size_t head = sizeof *frame;
    ReceivedState state = receive_bytes(fd, received, frame, 0, head);
    if (state != RECEIVED_FRAME) return state;
    if (!head_is_valid(frame, from, size)) return RECEIVED_INVALID;
    if (frame->members > 0) {
        size_t bytes = (size_t)frame->members * sizeof *received->members;
        if (ARRAY_RESERVE(received->members, received->room, frame->members) != OK) return RECEIVED_PART;
        state = receive_bytes(fd, received, received->members, head, head + bytes);
        if (state != RECEIVED_FRAME) return state;
    }
    received->count = 0;
    return members_are_valid(received->members, frame->members, size) ? RECEIVED_FRAME : RECEIVED_INVALID;
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
