/* How the ranks find each other. Rank 0 listens where all know it from their launcher; the others connect,
 * prove that they are of the job, and say where they listen. When all have come rank 0 sends each a Go: the
 * random number of the job, and the addresses of its children in a tree. Along that tree the table of
 * all addresses follows as an ordinary message, so that rank 0 sends it FANOUT times, however many ranks
 * there are. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/message.h"
#include "base/seam.h"
#include "comm/start.h"
#include "comm/tcp/state.h"

/* FIRST_NOTICE, NEXT_NOTICE: seconds after which a rank that waits says for whom. LEAST_LIMIT: hosts start
 * slowly. LISTED: missing ranks that a message names. ADDRESSES: of rank 0's host that are tried. */
enum { FANOUT = 16, FIRST_NOTICE = 10, NEXT_NOTICE = 60, LEAST_LIMIT = 30, LISTED = 16, ADDRESSES = 8 };
static const int64_t SECOND = 1000000000;
static const uint64_t GO_MAGIC = 0x6a6f74756e206733;

typedef struct {
    uint64_t magic;
    uint8_t  job[NONCE_BYTES];
    SocketAddress child[FANOUT];                      /* of ranks FANOUT r + 1 and those behind it */
} Go;

/* Of rank 0: the connections of the ranks that have come; the descriptor of the others is -1. */
typedef struct Start { End *end; int arrived; } Start;

static int child_of(const Tcp *tcp, int i)
{
    int64_t child = (int64_t)tcp->rank * FANOUT + 1 + i;
    return i < FANOUT && child < tcp->size ? (int)child : -1;
}

static int64_t limit_of(double seconds)
{
    if (seconds <= 0) return INT64_MAX;
    double limit = seconds < LEAST_LIMIT ? LEAST_LIMIT : seconds;
    return seam.clock() + (int64_t)(limit * (double)SECOND);
}

/* ---- who is accepted ---- */
/* Until all ranks have come to rank 0 the job has no key, and nobody who knows it. */
static const TcpKey *key_of(void *self, uint32_t purpose)
{
    const Tcp *tcp = self;
    if (purpose == HELLO_START) return &tcp->start_key;
    return purpose == HELLO_LINK && !tcp->start ? &tcp->key : NULL;
}

static Verdict admit_link(const Tcp *tcp, const Hello *hello)
{
    const Peer *p = tcp->peer[hello->rank];
    return p && (p->in.end.fd >= 0 || p->left || p->broken) ? RANK_TWICE : WELCOME;
}

static Verdict admit_start(const Tcp *tcp, const Hello *hello)
{
    if (!tcp->start) return TOO_LATE;
    if (tcp->start->end[hello->rank].fd >= 0) return RANK_TWICE;
    return hello->port > 0 && hello->port <= UINT16_MAX ? WELCOME : NO_SUCH_RANK;
}

static Verdict admit(void *self, const Hello *hello)
{
    return hello->purpose == HELLO_START ? admit_start(self, hello) : admit_link(self, hello);
}

static void take_start(Tcp *tcp, const Hello *hello, int fd)
{
    Start *start = tcp->start;
    if (!socket_other(&tcp->address[hello->rank], fd)) {
        close(fd);
        return;
    }
    tcp->address[hello->rank].port = (uint16_t)hello->port;
    end_open(tcp, &start->end[hello->rank], END_WAITING, fd, EPOLLIN, NULL);
    start->arrived++;
}

static void take(void *self, const Hello *hello, int fd)
{
    if (hello->purpose == HELLO_START) take_start(self, hello, fd);
    else                               link_accepted(self, hello->rank, fd, hello->host);
}

static void begin_to_accept(Tcp *tcp)
{
    tcp->guests = guests_open(&(GuestHost){ .self = tcp, .rank = tcp->rank, .size = tcp->size, .key = key_of,
                                            .admit = admit, .take = take }, tcp->listener);
    end_open(tcp, &tcp->guests_end, END_GUESTS, guests_poller(tcp->guests), EPOLLIN, NULL);
}

/* ---- rank 0 ---- */
/* A rank that waits sends nothing: this is the end of its connection, and it may come again. */
void rendezvous_ready(Tcp *tcp, End *end)
{
    char byte;
    ssize_t n = recv(end->fd, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    end_close(tcp, end);
    tcp->start->arrived--;
}

/* "ranks 1, 3 and 20 more" */
static void missing_text(char *text, size_t room, const Tcp *tcp)
{
    int missing = tcp->size - 1 - tcp->start->arrived, listed = 0;
    snprintf(text, room, missing == 1 ? "rank " : "ranks ");
    for (int r = 1; r < tcp->size && listed < LISTED; r++)
        if (tcp->start->end[r].fd < 0) message_add(text, room, "%s%d", listed++ ? ", " : "", r);
    if (missing > listed) message_add(text, room, " and %d more", missing - listed);
}

/* A rank that came from the loopback address is on this host. Other hosts reach it at the address at which
 * they reached this rank. */
static void mend_loopback(Tcp *tcp)
{
    SocketAddress own = { .port = 0 };
    for (int r = 1; r < tcp->size && own.port == 0; r++)
        if (!socket_is_loopback(&tcp->address[r]) && !socket_own(&own, tcp->start->end[r].fd)) own.port = 0;
    for (int r = 0; r < tcp->size && own.port != 0; r++)
        if (socket_is_loopback(&tcp->address[r])) memcpy(tcp->address[r].ip, own.ip, sizeof own.ip);
}

/* A few hundred bytes, which a new connection has room for. */
static void send_go(Tcp *tcp, const uint8_t job[NONCE_BYTES])
{
    for (int r = 1; r < tcp->size; r++) {
        Go go = { .magic = GO_MAGIC };
        memcpy(go.job, job, NONCE_BYTES);
        for (int64_t i = 0, child = (int64_t)r * FANOUT + 1; i < FANOUT && child + i < tcp->size; i++)
            go.child[i] = tcp->address[child + i];
        send(tcp->start->end[r].fd, &go, sizeof go, MSG_NOSIGNAL | MSG_DONTWAIT);
        end_close(tcp, &tcp->start->end[r]);
    }
}

static Status wait_for_ranks(Tcp *tcp, int64_t end)
{
    char    text[256] = "";
    int64_t notice = seam.clock() + FIRST_NOTICE * SECOND, begin = seam.clock();
    while (tcp->start->arrived < tcp->size - 1) {
        int64_t now = seam.clock();
        if (now > end || now > notice) missing_text(text, sizeof text, tcp);
        if (now > end)
            return fail(IO_FAILED, "%s of %d did not come to rank 0, port %d, in %.0f s: did they start, and "
                        "does a firewall let them through?", text, tcp->size, (int)tcp->address[0].port,
                        (double)(now - begin) / (double)SECOND);
        if (now > notice) {
            tcp_say("rank 0 waits at port %d for %s of %d", (int)tcp->address[0].port, text, tcp->size);
            notice = now + NEXT_NOTICE * SECOND;
        }
        tcp_progress(tcp, 500);
    }
    return OK;
}

static Status lead(Tcp *tcp, int64_t end)
{
    Start start = { .end = calloc((size_t)tcp->size, sizeof *start.end) };
    if (!start.end) return fail(NO_MEMORY, "no memory for %d ranks", tcp->size);
    uint8_t job[NONCE_BYTES];
    for (int r = 0; r < tcp->size; r++) start.end[r].fd = -1;
    tcp->start = &start;
    tcp_random(job, sizeof job);
    tcp->key = tcp_key_job(&tcp->start_key, job);
    begin_to_accept(tcp);
    Status status = wait_for_ranks(tcp, end);
    if (status == OK) {
        mend_loopback(tcp);
        send_go(tcp, job);
    }
    for (int r = 0; r < tcp->size; r++) end_close(tcp, &start.end[r]);
    free(start.end);
    tcp->start = NULL;
    return status;
}

/* ---- the other ranks ---- */
static Status refused(const Tcp *tcp, const TcpStart *start, const Greeting *g, const char *at)
{
    switch (g->welcome.verdict) {
    case OTHER_VERSION:
        return fail(BAD_OPTION, "rank 0 at %s runs another version of jotun; install the same on all hosts",
                    at);
    case OTHER_SIZE:
        return fail(BAD_OPTION, "this is rank %d of %d, but the job of rank 0 at %s has %d ranks: do two "
                    "jobs use one address? --control-port N gives one of them another port", tcp->rank,
                    tcp->size, at, (int)g->welcome.size);
    case RANK_TWICE:
        return fail(BAD_OPTION, "rank 0 at %s has a rank %d already: two processes have the same number, or "
                    "two jobs one address; --control-port N gives one of them another port", at, tcp->rank);
    case NO_SUCH_RANK:
        return fail(BAD_OPTION, "rank 0 at %s has no place for rank %d of %d", at, tcp->rank, tcp->size);
    case TOO_LATE:
        return fail(BAD_OPTION, "rank 0 at %s has begun its job without this rank %d: do two jobs use "
                    "one address? --control-port N gives one of them another port", at, tcp->rank);
    default:
        return fail(BAD_OPTION, "rank 0 at %s has another secret, or is of another job%s%s: give all ranks "
                    "of a job the same JOTUN_SECRET or the same file by JOTUN_SECRET_FILE, and each job "
                    "its own port by --control-port N", at, *start->job ? " than " : "", start->job);
    }
}

/* Without a secret, only addresses of this host are allowed. Returns how many are left. */
static int drop_other_hosts(const TcpStart *start, SocketAddress *address, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++)
        if (*start->secret || socket_is_loopback(&address[i])) address[left++] = address[i];
    return left;
}

/* Until rank 0 has accepted this rank and all others have come. *go: what it sends then. */
static Status follow(Tcp *tcp, const TcpStart *start, int64_t end, Go *go)
{
    SocketAddress to[ADDRESSES];
    Hello hello = { .purpose = HELLO_START, .rank = tcp->rank, .size = tcp->size,
                    .port = tcp->address[tcp->rank].port };
    Greeting g;
    GreetingState state = GREETING_CLOSED;
    const char *why = "";
    char   at[SOCKET_TEXT];
    size_t have = 0;
    int64_t notice = seam.clock() + FIRST_NOTICE * SECOND, begin = seam.clock();
    int pause_ms = 20;
    do {
        int count = socket_resolve(to, ADDRESSES, start->host, start->port, &why);
        count = drop_other_hosts(start, to, count);
        snprintf(at, sizeof at, "%.40s:%d", start->host, start->port);
        for (int i = 0; i < count && state == GREETING_CLOSED; i++) {
            socket_text(at, &to[i]);
            state = greeting_try(&g, &to[i], hello, &tcp->start_key);
            if (state == GREETING_CLOSED) why = strerror(errno);
        }
        if (state != GREETING_CLOSED) break;
        int64_t now = seam.clock();
        if (now > end)
            return fail(IO_FAILED, "rank 0 cannot be reached at %s in %.0f s: %s", at,
                        (double)(now - begin) / (double)SECOND, why);
        if (now > notice && tcp->rank == 1) {
            tcp_say("rank 1 waits for rank 0 at %s: %s", at, why);
            notice = now + NEXT_NOTICE * SECOND;
        }
        usleep((useconds_t)pause_ms * 1000);
        if (pause_ms < 500) pause_ms *= 2;
    } while (true);
    if (state == GREETING_REFUSED) return refused(tcp, start, &g, at);

    Status status = OK;
    while (have < sizeof *go && status == OK) {       /* until rank 0 ends the wait, or itself */
        struct pollfd ready = { .fd = g.fd, .events = POLLIN };
        ssize_t n = poll(&ready, 1, -1) > 0 ? recv(g.fd, (char *)go + have, sizeof *go - have, 0) : -1;
        if (n > 0) have += (size_t)n;
        else if (n == 0 || (errno != EINTR && errno != EAGAIN))
            status = fail(IO_FAILED, "rank 0 at %s ended before all ranks had come; it says why", at);
    }
    if (status == OK && go->magic != GO_MAGIC)
        status = fail(IO_FAILED, "rank 0 at %s does not answer as jotun's rank 0 does", at);
    close(g.fd);
    return status;
}

/* ---- all ---- */
static bool is_own_loopback(const SocketAddress *a)
{
    char text[SOCKET_TEXT];
    return strcmp(socket_ip(text, a), "127.0.0.1") == 0 || strcmp(text, "::1") == 0;
}

/* Ranks of one host listen on its loopback address. On some systems a host's own name has a loopback address
 * too (127.0.1.1), while other hosts know it by another one; so only the usual ones mean that there is one
 * host. */
static Status listen_for_ranks(Tcp *tcp, const TcpStart *start)
{
    const char *why;
    SocketAddress host[ADDRESSES] = { 0 };
    bool first = tcp->rank == 0;
    int count = socket_resolve(host, ADDRESSES, start->host, start->port, &why);
    if (count == 0) {
        if (!first && *start->secret) count = 1;      /* it may come later */
        else return fail(BAD_OPTION, "%s says that rank 0 is on %s, which has no address: %s",
                         start->launcher, start->host, why);
    }
    if (drop_other_hosts(start, host, count) == 0)
        return fail(BAD_OPTION, "%s says that rank 0 is on %s, and ranks of several hosts need a secret, by "
                    "which they know each other: (umask 077; head -c 24 /dev/urandom | base64 > SECRET), and "
                    "JOTUN_SECRET_FILE=SECRET on all of them; on one host MASTER_ADDR=127.0.0.1 needs none",
                    start->launcher, start->host);
    uint16_t port = first ? (uint16_t)start->port : 0;
    bool here = !*start->secret || is_own_loopback(host);
    int fd = socket_listen(here ? host : NULL, &port);
    if (fd < 0)
        return fail(BAD_OPTION, "rank %d cannot listen on %s, port %d: %s; --control-port N takes another, "
                    "the same on all ranks", tcp->rank, here ? start->host : "its host", (int)port,
                    strerror(errno));
    tcp->listener = fd;
    tcp->address[tcp->rank] = *host;
    tcp->address[tcp->rank].port = port;
    return OK;
}

/* <-> world: the table of addresses, down the tree */
static void share_table(Tcp *tcp)
{
    struct iovec table = { tcp->address, (size_t)tcp->size * sizeof *tcp->address }, none = { NULL, 0 };
    Message *sent[FANOUT];
    int count = 0;
    if (tcp->rank > 0) tcp_wait(tcp, tcp_recv(tcp, (tcp->rank - 1) / FANOUT, 0, 0, table, none));
    for (int i = 0; child_of(tcp, i) >= 0; i++)
        sent[count++] = tcp_send(tcp, child_of(tcp, i), 0, 0, table, none);
    while (count > 0) tcp_wait(tcp, sent[--count]);
}

Status rendezvous(Tcp *tcp, const TcpStart *start, double seconds)
{
    int64_t end = limit_of(seconds);
    Go go;
    TRY(socket_raise_limit(tcp->rank == 0 ? tcp->size - 1 : 0, "the start of %d ranks", tcp->size));
    tcp->start_key = tcp_key_start(start->secret, strlen(start->secret), start->job);
    TRY(listen_for_ranks(tcp, start));
    if (tcp->rank == 0) {
        TRY(lead(tcp, end));
    } else {
        TRY(follow(tcp, start, end, &go));
        tcp->key = tcp_key_job(&tcp->start_key, go.job);
        for (int i = 0; child_of(tcp, i) >= 0; i++) tcp->address[child_of(tcp, i)] = go.child[i];
        begin_to_accept(tcp);
    }
    start_begin("the exchange of the ranks' addresses");
    share_table(tcp);
    start_end();
    return OK;
}
