/* The table of comm/transport.h over messages of comm/tcp/link.c. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/array.h"
#include "base/random.h"
#include "comm/start.h"
#include "comm/tcp/state.h"

/* How long a wait sleeps at most, so that connections which say nothing are closed meanwhile. */
enum { IDLE_MS = 1000 };

/* ---- groups ---- */
/* All members open their groups in the same order, so that the k-th of the same ranks is the same one, and no
 * message is needed to agree on it. */
static Group *tcp_group_open(Transport *t, const int *ranks, int count)
{
    Tcp     *tcp = t->self;
    Group   *g   = calloc(1, sizeof *g);
    int     *own = malloc((size_t)count * sizeof *own);
    uint64_t key = 1;
    int      i   = 0;
    for (int r = 0; r < count; r++) key = random_mix(key, (uint64_t)ranks[r] + 1);
    while (i < tcp->opened_count && tcp->opened[i].key != key) i++;
    if (!g || !own || ARRAY_RESERVE(tcp->opened, tcp->opened_room, i + 1) != OK) {
        free(g);
        free(own);
        return NULL;
    }
    if (i == tcp->opened_count) {
        tcp->opened[i].key = key;
        tcp->opened[i].times = 0;
        tcp->opened_count++;
    }
    memcpy(own, ranks, (size_t)count * sizeof *own);
    *g = (Group){ .key = random_mix(key, ++tcp->opened[i].times), .count = count, .rank = own };
    while (ranks[g->me] != t->rank) g->me++;
    return g;
}

static void tcp_group_close(Transport *t, Group *g)
{
    (void)t;
    free(g->rank);
    free(g);
}

/* ---- requests ---- */
static int request_new(Tcp *tcp, RequestKind kind)
{
    int made = tcp->free_request;
    if (made < 0)
        stop_world(__FILE__, __LINE__, "more than %d requests are in progress on one rank",
                   TRANSPORT_REQUESTS);
    tcp->free_request = tcp->request[made].next;
    tcp->request[made].kind = kind;
    return made;
}

static void request_free(Tcp *tcp, int request)
{
    tcp->request[request].kind = REQUEST_FREE;
    tcp->request[request].next = tcp->free_request;
    tcp->free_request = request;
}

static int collective_request(Tcp *tcp, Collective collective)
{
    int made = request_new(tcp, REQUEST_COLLECTIVE);
    TcpRequest *r = &tcp->request[made];
    r->collective = collective;
    r->next = tcp->collectives;
    tcp->collectives = made;
    collective_begin(tcp, &r->collective);
    return made;
}

static int tcp_all_gather(Transport *t, Group *g, void *out, const int64_t *at, const void *in, size_t width)
{
    Collective collective = { .algorithm = GATHER_TREE, .group = g, .out = out, .in = in, .out_at = at,
                              .width = width };
    return collective_request(t->self, collective);
}

static int tcp_all_to_all(Transport *t, Group *g, void *out, const int64_t *out_at, const void *in,
                          const int64_t *in_at, size_t width)
{
    Collective collective = { .algorithm = ALL_TO_ALL, .group = g, .out = out, .in = in, .out_at = out_at,
                              .in_at = in_at, .width = width };
    return collective_request(t->self, collective);
}

static int tcp_send_request(Transport *t, Group *g, const void *data, size_t bytes, int to, int tag)
{
    Tcp *tcp  = t->self;
    int  made = request_new(tcp, REQUEST_MESSAGE);
    tcp->request[made].message = tcp_send(tcp, g->rank[to], g->key, (uint32_t)tag,
                                          (struct iovec){ (void *)data, bytes }, (struct iovec){ NULL, 0 });
    return made;
}

static int tcp_recv_request(Transport *t, Group *g, void *data, size_t bytes, int from, int tag)
{
    Tcp *tcp  = t->self;
    int  made = request_new(tcp, REQUEST_MESSAGE);
    tcp->request[made].message = tcp_recv(tcp, g->rank[from], g->key, (uint32_t)tag,
                                          (struct iovec){ data, bytes }, (struct iovec){ NULL, 0 });
    return made;
}

/* ---- progress ---- */
static void advance_collectives(Tcp *tcp)
{
    int *at = &tcp->collectives;
    while (*at >= 0) {
        TcpRequest *r = &tcp->request[*at];
        if (collective_advance(tcp, &r->collective)) *at = r->next;
        else at = &r->next;
    }
}

static void tcp_poll(Transport *t)
{
    tcp_progress(t->self, 0);
    advance_collectives(t->self);
}

static bool tcp_test(Transport *t, int request)
{
    Tcp     *tcp = t->self;
    TcpRequest *r   = &tcp->request[request];
    if (r->kind == REQUEST_MESSAGE) {
        if (!r->message->done) return false;
        message_free(tcp, r->message);
    } else {
        const Collective *c = &r->collective;
        if (c->done < c->steps) return false;
        for (int *at = &tcp->collectives; *at >= 0; at = &tcp->request[*at].next)
            if (*at == request) {                     /* complete before the next poll */
                *at = r->next;
                break;
            }
    }
    request_free(tcp, request);
    return true;
}

/* A receive from a rank that has ended in an orderly way, all of whose messages have come. */
static const Peer *message_gone(const Message *m)
{
    return m && !m->done && m->peer->left && m->peer->in.end.fd < 0 ? m->peer : NULL;
}

static void check_gone(const TcpRequest *r)
{
    const Peer *gone = NULL;
    if (r->kind == REQUEST_MESSAGE) gone = message_gone(r->message);
    for (int s = r->collective.done; r->kind == REQUEST_COLLECTIVE && s < r->collective.begun && !gone; s++)
        gone = message_gone(r->collective.pending[s % STEPS_AT_ONCE][1]);
    CHECK(!gone, "waits for rank %d on host %s, which has ended", gone->rank, gone->host);
}

static void tcp_idle(Transport *t, int request)
{
    Tcp *tcp = t->self;
    bool moved = tcp->moved;
    tcp->moved = false;
    tcp_check_lost(tcp);                              /* also while messages of the others move */
    if (moved || (tcp->paused > 0 && tcp_unblock(tcp))) return;
    check_gone(&tcp->request[request]);
    tcp_progress(tcp, tcp->lost ? 100 : IDLE_MS);
    advance_collectives(tcp);
}

/* ---- the end ---- */
static void tcp_abort(Transport *t, int exit_code)
{
    tcp_links_close(t->self, TCP_ABORT, exit_code);
    _exit(exit_code);
}

static void kept_list_free(Kept *k)
{
    for (Kept *next; k; k = next) {
        next = k->next;
        free(k);
    }
}

static void tcp_free(Tcp *tcp)
{
    guests_close(tcp->guests);                        /* and with them the descriptor of guests_end */
    if (tcp->listener >= 0) close(tcp->listener);
    if (tcp->poller >= 0) close(tcp->poller);
    for (Peer *p = tcp->peers, *next; p; p = next) {
        next = p->next;
        kept_list_free(p->in.first_kept);
        free(p);
    }
    for (int i = 0; i < KEPT_CLASSES; i++) kept_list_free(tcp->unused_kept[i]);
    for (MessageBlock *b = tcp->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(tcp->opened);
    free(tcp->request);
    free(tcp->peer);
    free(tcp->address);
    free(tcp);
}

static void tcp_close(Transport *t)
{
    Tcp *tcp = t->self;
    tcp_links_close(tcp, TCP_GOODBYE, 0);
    tcp_free(tcp);
}

/* ---- opening ---- */
static Tcp *tcp_new(const TcpStart *start)
{
    size_t n   = (size_t)start->size;
    Tcp   *tcp = calloc(1, sizeof *tcp);
    if (!tcp) return NULL;
    *tcp = (Tcp){ .rank = start->rank, .size = start->size, .listener = -1, .collectives = -1,
                  .poller = epoll_create1(EPOLL_CLOEXEC) };
    tcp->address = calloc(n, sizeof *tcp->address);
    tcp->peer    = calloc(n, sizeof *tcp->peer);
    tcp->request = calloc(TRANSPORT_REQUESTS, sizeof *tcp->request);
    if (tcp->poller < 0 || !tcp->address || !tcp->peer || !tcp->request) {
        tcp_free(tcp);
        return NULL;
    }
    for (int i = 0; i < TRANSPORT_REQUESTS; i++)
        tcp->request[i].next = i + 1 < TRANSPORT_REQUESTS ? i + 1 : -1;
    tcp->face = (Transport){
        .abi = TRANSPORT_ABI, .kind = TRANSPORT_TCP, .name = "tcp", .rank = start->rank,
        .size = start->size, .self = tcp,
        .group_open = tcp_group_open, .group_close = tcp_group_close,
        .all_gather = tcp_all_gather, .all_to_all = tcp_all_to_all,
        .send = tcp_send_request, .recv = tcp_recv_request,
        .poll = tcp_poll, .test = tcp_test, .idle = tcp_idle, .abort = tcp_abort, .close = tcp_close,
    };
    return tcp;
}

Status transport_tcp_open(Transport **transport, const TcpStart *start, double seconds)
{
    *transport = NULL;
    Tcp *tcp = tcp_new(start);
    if (!tcp) return fail(NO_MEMORY, "no memory or descriptor for a transport of %d ranks", start->size);
    Status status = start->size > 1 ? rendezvous(tcp, start, seconds) : OK;
    if (status != OK) {
        tcp_free(tcp);
        return status;
    }
    socket_ip(tcp->face.address, &tcp->address[start->rank]);
    *transport = &tcp->face;
    return OK;
}
