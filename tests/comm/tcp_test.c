/* The transport over TCP between threads of this process: the collectives of program.h, messages that come before their receives and in
 * another order than these, large ones that wait for theirs without memory, and a long series of random ones. */
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/array.h"
#include "base/seam.h"
#include "base/testing.h"
#include "comm/program.h"
#include "comm/tcp_ranks.h"
#include "comm/tcp/state.h"

static void collectives_are_the_threads(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks += 4) {
        uint64_t threads = 0, tcp = 0;
        assert_int_equal(transport_threads_run(ranks, program_body, &threads), OK);
        Status status = tcp_ranks_run(ranks, program_body, &tcp);
        if (status != OK) fail_msg("%d ranks: %s", ranks, fail_text());
        assert_true(tcp == threads && tcp != 0);
    }
}

static void wait_for(Transport *t, int request)
{
    for (;;) {
        t->poll(t);
        if (t->test(t, request)) return;
        t->idle(t, request);
    }
}

/* The ranks' blocks decide how a gather goes, not their sum: few bytes of many ranks take no ring. Both ways give the same. */
enum { GATHERED = 9, RING_BYTES = 32 << 10 };
static Status gather_body(Transport *t, void *context)
{
    static const size_t width[] = { 1, RING_BYTES - 1, RING_BYTES };
    Tcp   *tcp = t->self;
    int    all[GATHERED];
    (void)context;
    for (int r = 0; r < GATHERED; r++) all[r] = r;
    Group *g = t->group_open(t, all, GATHERED);
    for (size_t k = 0; k < COUNT(width); k++) {
        size_t bytes = width[k];
        char  *out = malloc(GATHERED * bytes), *own = malloc(bytes);
        CHECK(out && own, "no memory");
        for (size_t i = 0; i < bytes; i++) own[i] = (char)(t->rank * 31 + (int)(i % 251));
        int request = t->all_gather(t, g, out, NULL, own, bytes);
        Algorithm wanted = bytes < RING_BYTES ? GATHER_TREE : GATHER_RING;
        CHECK(tcp->request[request].collective.algorithm == wanted, "%zu bytes of each rank take the other way", bytes);
        wait_for(t, request);
        for (size_t i = 0; i < GATHERED * bytes; i++)
            CHECK(out[i] == (char)((int)(i / bytes) * 31 + (int)(i % bytes % 251)), "byte %zu of %zu from each rank", i, bytes);
        free(out);
        free(own);
    }
    t->group_close(t, g);
    return OK;
}

static void gathers_are_the_same_by_ring_and_by_tree(void **state)
{
    (void)state;
    if (tcp_ranks_run(GATHERED, gather_body, NULL) != OK) fail_msg("%s", fail_text());
}

/* Rank 0 accepts a rank and says nothing more, as one that is stopped. */
typedef struct { int listener, fd; TcpKey key; } Stopped;
static void *stopped_rank0(void *context)
{
    Stopped *s = context;
    Guest    guest;
    struct pollfd come = { .fd = s->listener, .events = POLLIN };
    CHECK(poll(&come, 1, 60000) == 1 && (s->fd = accept(s->listener, NULL, NULL)) >= 0, "no connection in a minute");
    CHECK(guest_open(&guest, s->fd), "the connection is of no use");
    while (guest_read(&guest) == HELLO_PART) poll(&(struct pollfd){ .fd = s->fd, .events = POLLIN }, 1, 1000);
    CHECK(guest_proved(&guest, &s->key) == WELCOME, "the hello is not proved");
    guest_answer(&guest, &s->key, WELCOME, 2);
    return NULL;
}

/* Each look is 40 s after the last. */
static int64_t clock_that_hurries(void)
{
    static _Atomic int64_t ahead;
    return seam_system.clock() + atomic_fetch_add(&ahead, (int64_t)40 * 1000000000) + (int64_t)40 * 1000000000;
}

static void a_silent_rank_0_is_named(void **state)
{
    (void)state;
    static const char secret[] = "a secret of the test";
    const SocketAddress here = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
    uint16_t   port = 0;
    Stopped    s = { .listener = socket_listen(&here, &port), .fd = -1, .key = tcp_key_start(secret, sizeof secret - 1, "") };
    Transport *transport;
    pthread_t  thread;
    assert_true(s.listener >= 0);
    assert_int_equal(pthread_create(&thread, NULL, stopped_rank0, &s), 0);
    seam.clock    = clock_that_hurries;
    Status status = transport_tcp_open(&transport, &(TcpStart){ 1, 2, "127.0.0.1", port, "the test", secret, "" }, 60);
    seam.clock    = seam_system.clock;
    pthread_join(thread, NULL);
    close(s.fd);
    close(s.listener);
    assert_int_equal(status, IO_FAILED);
    assert_contains(fail_text(), "rank 0 at 127.0.0.1:");
    assert_contains(fail_text(), " since it accepted this rank: its process is stopped, or its host is off or cut off");
}

static unsigned char byte_of(int from, int to, int tag, int number, size_t i)
{
    return (unsigned char)(from * 31 + to * 17 + tag * 7 + number * 3 + (int)(i % 251));
}

static unsigned char *bytes_of(int from, int to, int tag, int number, size_t bytes)
{
    unsigned char *b = malloc(bytes + 1);
    CHECK(b, "no memory");
    for (size_t i = 0; i < bytes; i++) b[i] = byte_of(from, to, tag, number, i);
    return b;
}

static void expect_bytes(const unsigned char *b, int from, int to, int tag, int number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK(b[i] == byte_of(from, to, tag, number, i), "message %d with tag %d from %d to %d: byte %zu of %zu", number, tag, from, to, i, bytes);
}

/* Handles what comes until the number has the value, for at most a minute. */
static void poll_until(Transport *t, volatile const int *number, int value)
{
    for (int i = 0; i < 60000 && *number != value; i++) {
        t->poll(t);
        usleep(1000);
    }
    CHECK(*number == value, "%d after a minute, not %d", *number, value);
}

/* Rank 0 sends a large message and then a small one with another tag, which rank 1 receives first: the large one is taken out of its
 * way. Without such a need it stays where it is, and costs rank 1 no memory. */
enum { LARGE = 24 << 20 };
static Status order_body(Transport *t, void *context)
{
    Tcp   *tcp = t->self;
    int    all[2] = { 0, 1 };
    Group *g = t->group_open(t, all, 2), *other = t->group_open(t, all, 2);
    (void)context;
    if (t->rank == 0) {
        unsigned char *large = bytes_of(0, 1, 5, 0, LARGE), *small = bytes_of(0, 1, 6, 0, 100), *last = bytes_of(0, 1, 5, 1, LARGE), *others = bytes_of(0, 1, 6, 2, 100);
        int request[] = { t->send(t, g, large, LARGE, 1, 5), t->send(t, other, others, 100, 1, 6), t->send(t, g, small, 100, 1, 6), t->send(t, other, small, 100, 1, 5),
                          t->send(t, g, last, LARGE, 1, 5) };
        for (int i = 0; i < 5; i++) wait_for(t, request[i]);
        free(others);
        free(large);
        free(small);
        free(last);
    } else {
        unsigned char *large = malloc(LARGE), small[100];
        wait_for(t, t->recv(t, other, small, 100, 0, 5));                  /* another group */
        expect_bytes(small, 0, 1, 6, 0, 100);
        wait_for(t, t->recv(t, g, small, 100, 0, 6));                      /* another tag */
        expect_bytes(small, 0, 1, 6, 0, 100);
        wait_for(t, t->recv(t, other, small, 100, 0, 6));
        expect_bytes(small, 0, 1, 6, 2, 100);
        CHECK(tcp->kept_bytes == LARGE, "%zu bytes are kept", tcp->kept_bytes);
        wait_for(t, t->recv(t, g, large, LARGE, 0, 5));
        expect_bytes(large, 0, 1, 5, 0, LARGE);
        poll_until(t, &tcp->paused, 1);                                    /* the last one comes */
        CHECK(tcp->kept_bytes == 0 && tcp->paused == 1, "%zu bytes are kept, %d links wait", tcp->kept_bytes, tcp->paused);
        struct epoll_event event;                                          /* and its link wakes nobody */
        CHECK(epoll_wait(tcp->poller, &event, 1, 200) == 0, "a link that waits wakes its rank");
        wait_for(t, t->recv(t, g, large, LARGE, 0, 5));
        expect_bytes(large, 0, 1, 5, 1, LARGE);
        free(large);
    }
    t->group_close(t, g);
    t->group_close(t, other);
    return OK;
}

static void order_is_that_of_group_and_tag(void **state)
{
    (void)state;
    if (tcp_ranks_run(2, order_body, NULL) != OK) fail_msg("%s", fail_text());
}

/* A connection breaks within a message: neither end makes another one, on which the stream would go on there, and neither lets the other
 * begin one. Nobody waits here, so that no rank ends the process for the loss. */
typedef struct { _Atomic int broken, tried; } Breaking;
static Status breaking_body(Transport *t, void *context)
{
    Breaking *shared = context;
    Tcp      *tcp = t->self;
    int       all[2] = { 0, 1 }, i = 0;
    Group    *g = t->group_open(t, all, 2);
    char     *large = calloc(1, LARGE), word = 0;
    Peer     *p;
    if (t->rank == 0) {
        t->send(t, g, large, LARGE, 1, 5);
        for (p = tcp->peer[1]; i < 60000 && !tcp->lost; i++, usleep(1000)) t->poll(t);
        CHECK(tcp->lost == p && p->out.queue.first && p->out.queue.first->moved > 0, "the message is whole, or the loss is not seen");
        t->send(t, g, &word, 1, 1, 6);
        CHECK(p->out.state == OUT_CLOSED && p->out.end.fd < 0, "a broken connection is made again");
        shared->broken = 1;
        for (i = 0; i < 60000 && !shared->tried; i++, usleep(1000)) t->poll(t);
        CHECK(shared->tried && p->in.end.fd < 0, "a rank whose connection broke is let in again");
    } else {
        poll_until(t, &tcp->paused, 1);
        p = tcp->peer[0];
        shutdown(p->in.end.fd, SHUT_RDWR);
        t->recv(t, g, large, LARGE, 0, 5);                                 /* reads up to the break */
        for (; i < 60000 && !(tcp->lost && shared->broken); i++, usleep(1000)) t->poll(t);
        CHECK(p->in.end.fd < 0 && p->broken, "the loss is not seen");
        p->broken = false;                                                 /* as if it did not know */
        t->send(t, g, &word, 1, 0, 6);
        for (i = 0; i < 60000 && p->out.state == OUT_GREETING; i++, usleep(1000)) t->poll(t);
        CHECK(p->out.state == OUT_CLOSED, "rank 0 takes the connection, or says nothing");
        shared->tried = 1;
    }
    free(large);
    t->group_close(t, g);
    return OK;
}

static void broken_connections_stay_broken(void **state)
{
    (void)state;
    Breaking shared = { 0 };
    if (tcp_ranks_run(2, breaking_body, &shared) != OK) fail_msg("%s", fail_text());
}

/* A link that waits for its receive is reset: it is reported as lost, and wakes its rank once. */
static Status reset_body(Transport *t, void *context)
{
    _Atomic int *waits = context;
    Tcp   *tcp = t->self;
    int    all[2] = { 0, 1 };
    Group *g = t->group_open(t, all, 2);
    char  *large = calloc(1, LARGE);
    if (t->rank == 0) {
        t->send(t, g, large, LARGE, 1, 5);
        for (int i = 0; i < 60000 && !*waits; i++, usleep(1000)) t->poll(t);
        Peer *p = tcp->peer[1];
        setsockopt(p->out.end.fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger));
        end_close(tcp, &p->out.end);
        p->out.state = OUT_CLOSED;
    } else {
        struct epoll_event event;
        poll_until(t, &tcp->paused, 1);
        *waits = 1;
        for (int i = 0; i < 5000 && !tcp->lost; i++, usleep(1000)) t->poll(t);
        CHECK(tcp->lost == tcp->peer[0] && tcp->peer[0]->broken && tcp->paused == 0, "the loss is not seen");
        CHECK(epoll_wait(tcp->poller, &event, 1, 200) == 0, "a link that is broken wakes its rank again");
    }
    free(large);
    t->group_close(t, g);
    return OK;
}

static void a_link_that_waits_and_breaks_is_lost(void **state)
{
    (void)state;
    _Atomic int waits = 0;
    if (tcp_ranks_run(2, reset_body, &waits) != OK) fail_msg("%s", fail_text());
}

/* A connection that is reset before its hello is known, as by a rank that needs the descriptor, is made again. */
static Status again_body(Transport *t, void *context)
{
    Tcp   *tcp = t->self;
    int    all[2] = { 0, 1 };
    Group *g = t->group_open(t, all, 2);
    char   word = 7;
    (void)context;
    if (t->rank == 0) {
        struct pollfd ready = { .fd = tcp->listener, .events = POLLIN };
        CHECK(poll(&ready, 1, 60000) == 1, "no connection in a minute");
        int fd = accept(tcp->listener, NULL, NULL);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger));
        close(fd);
        wait_for(t, t->recv(t, g, &word, 1, 1, 5));
        CHECK(word == 9, "another message");
    } else {
        word = 9;
        int sent = t->send(t, g, &word, 1, 0, 5);
        tcp->peer[0]->out.since -= (int64_t)3600 * 1000000000;               /* however long ago it began */
        wait_for(t, sent);
    }
    t->group_close(t, g);
    return OK;
}

static void a_connection_that_is_reset_is_made_again(void **state)
{
    (void)state;
    if (tcp_ranks_run(2, again_body, NULL) != OK) fail_msg("%s", fail_text());
}

/* All ranks draw the same series: messages of any size from and to any rank, with a few tags; and collectives of any size in between. Some are
 * waited for at once, others later, in another order on each rank. */
enum { DRAWN_RANKS = 5, DRAWN = 600, OPEN_AT_ONCE = 40 };
typedef struct { int request, from, to, tag, number; size_t bytes; unsigned char *data; bool received; int64_t *at; } Open;

static size_t drawn_size(uint64_t bits)
{
    static const size_t scale[] = { 1, 30, 3000, 70000, 300000, 2000000 };
    return (size_t)(bits >> 8) % scale[bits % COUNT(scale)];
}

static void open_end(Transport *t, Open *o)
{
    wait_for(t, o->request);
    if (o->received) expect_bytes(o->data, o->from, o->to, o->tag, o->number, o->bytes);
    for (int r = 0; o->at && r < t->size; r++) expect_bytes(o->data + o->at[r], r, 0, 0, o->number, (size_t)(o->at[r + 1] - o->at[r]));
    free(o->data);
    free(o->at);
}

static void open_message(Transport *t, Group *g, Open *o)
{
    o->received = t->rank == o->to;
    o->data     = o->received ? malloc(o->bytes + 1) : bytes_of(o->from, o->to, o->tag, o->number, o->bytes);
    o->request  = o->received ? t->recv(t, g, o->data, o->bytes, o->from, o->tag) : t->send(t, g, o->data, o->bytes, o->to, o->tag);
}

static void open_gather(Transport *t, Group *g, Open *o, uint64_t seed)
{
    o->at = calloc((size_t)t->size + 1, sizeof *o->at);
    for (int r = 0; r < t->size; r++) o->at[r + 1] = o->at[r] + (int64_t)drawn_size(random_mix(seed, (uint64_t)r));
    o->data = malloc((size_t)o->at[t->size] + 1);
    unsigned char *own = bytes_of(t->rank, 0, 0, o->number, (size_t)(o->at[t->rank + 1] - o->at[t->rank]));
    memcpy(o->data + o->at[t->rank], own, (size_t)(o->at[t->rank + 1] - o->at[t->rank]));
    free(own);
    o->request = t->all_gather(t, g, o->data, o->at, o->data + o->at[t->rank], 1);
}

static Status drawn_body(Transport *t, void *context)
{
    Open   open[OPEN_AT_ONCE];
    int    all[DRAWN_RANKS], count = 0;
    for (int r = 0; r < t->size; r++) all[r] = r;
    Group *g = t->group_open(t, all, t->size);
    for (int k = 0; k < DRAWN; k++) {
        uint64_t bits = random_mix(*(uint64_t *)context, (uint64_t)k);
        Open     o    = { .from = (int)(bits % 5), .to = (int)(bits / 5 % 5), .tag = (int)(bits / 25 % 3), .number = k, .bytes = drawn_size(bits / 75) };
        bool     gathers = bits >> 60 == 0;
        if (!gathers && (o.from == o.to || (t->rank != o.from && t->rank != o.to))) continue;
        if (gathers) open_gather(t, g, &o, bits);
        else         open_message(t, g, &o);
        open[count++] = o;
        /* A receiver that waits while its sender waits for another one would be a fault of the test: all are waited for in the end, or when
         * the place for them is used up, from the oldest on. */
        while (count == OPEN_AT_ONCE || (count > 0 && k == DRAWN - 1)) {
            open_end(t, &open[0]);
            memmove(open, open + 1, (size_t)--count * sizeof *open);
        }
        t->poll(t);
    }
    while (count > 0) open_end(t, &open[--count]);
    t->group_close(t, g);
    return OK;
}

static void random_messages_arrive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        if (tcp_ranks_run(DRAWN_RANKS, drawn_body, &seed) != OK) fail_msg("seed %d: %s", (int)seed, fail_text());
}

int main(void)
{
    alarm(300);                                                            /* a deadlock is a failure */
    const struct CMUnitTest tests[] = { cmocka_unit_test(collectives_are_the_threads), cmocka_unit_test(order_is_that_of_group_and_tag),
                                        cmocka_unit_test(gathers_are_the_same_by_ring_and_by_tree), cmocka_unit_test(a_silent_rank_0_is_named),
                                        cmocka_unit_test(broken_connections_stay_broken), cmocka_unit_test(a_link_that_waits_and_breaks_is_lost),
                                        cmocka_unit_test(a_connection_that_is_reset_is_made_again), cmocka_unit_test(random_messages_arrive) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
