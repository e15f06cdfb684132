/* Collectives over messages. An all-gather of small blocks takes log2(n) steps (Bruck): after step k a rank
 * has the blocks of the 2^(k+1) ranks from itself on, which it sends to the rank as many before it. Of large
 * blocks it takes n - 1 steps along a ring, so that each host sends only to its neighbour. Every block comes
 * to each rank once, straight to its place in `out`. An all-to-all exchanges with one rank after another,
 * since each pair alone knows its length; empty messages are not sent. */
#include <string.h>
#include "comm/tcp/state.h"

/* GATHER_RING_BYTES: of a rank's block, on average, from which the ring is taken: what a connection carries
 * in about the time of a message without content, so that n - 1 steps cost little more than the bytes.
 * TAG_COLLECTIVE: tags above those of messages, one for each collective of a group. */
enum { GATHER_RING_BYTES = 32 << 10 };
static const uint32_t TAG_COLLECTIVE = (uint32_t)1 << 31;

/* Blocks first .. first + count, counted round the ring, as one or two ranges of `out`. */
static void blocks_of(struct iovec part[2], const Collective *c, int first, int count)
{
    int n = c->group->count;
    first %= n;
    int before = first + count < n ? count : n - first;           /* those before the end of `out` */
    const int from[2] = { first, 0 }, end[2] = { first + before, count - before };
    for (int i = 0; i < 2; i++) {
        int64_t a = c->out_at ? c->out_at[from[i]] : from[i], b = c->out_at ? c->out_at[end[i]] : end[i];
        part[i] = (struct iovec){ c->out + (size_t)a * c->width, (size_t)(b - a) * c->width };
    }
}

static struct iovec range_of(const char *base, const int64_t *at, int rank, size_t width)
{
    return (struct iovec){ (char *)base + (size_t)at[rank] * width,
                           (size_t)(at[rank + 1] - at[rank]) * width };
}

/* What step `step` sends and receives, in the group's ranks. */
typedef struct { int to, from; struct iovec out[2], in[2]; } Step;

static Step step_of(const Collective *c, int step)
{
    const Group *g = c->group;
    int  n = g->count, me = g->me;
    Step s = { 0 };
    if (c->algorithm == ALL_TO_ALL) {
        s.to     = (me + step + 1) % n;
        s.from   = (me - step - 1 + n) % n;
        s.out[0] = range_of(c->in, c->in_at, s.to, c->width);
        s.in[0]  = range_of(c->out, c->out_at, s.from, c->width);
    } else if (c->algorithm == GATHER_RING) {
        s.to   = (me + 1) % n;
        s.from = (me - 1 + n) % n;
        blocks_of(s.out, c, me - step + n, 1);
        blocks_of(s.in,  c, me - step - 1 + n, 1);
    } else {
        int distance = 1 << step, count = distance < n - distance ? distance : n - distance;
        s.to   = (me - distance + n) % n;
        s.from = (me + distance) % n;
        blocks_of(s.out, c, me, count);
        blocks_of(s.in,  c, me + distance, count);
    }
    return s;
}

static void step_begin(Tcp *tcp, Collective *c, int step)
{
    const Group *g = c->group;
    Message    **m = c->pending[step % STEPS_AT_ONCE];
    Step         s = step_of(c, step);
    m[0] = m[1] = NULL;
    if (s.in[0].iov_len + s.in[1].iov_len > 0)
        m[1] = tcp_recv(tcp, g->rank[s.from], g->key, c->tag, s.in[0], s.in[1]);
    if (s.out[0].iov_len + s.out[1].iov_len > 0)
        m[0] = tcp_send(tcp, g->rank[s.to], g->key, c->tag, s.out[0], s.out[1]);
}

/* True where the step is complete; its messages are given back. */
static bool step_done(Tcp *tcp, Collective *c, int step)
{
    Message **m = c->pending[step % STEPS_AT_ONCE];
    if ((m[0] && !m[0]->done) || (m[1] && !m[1]->done)) return false;
    for (int i = 0; i < 2; i++)
        if (m[i]) message_free(tcp, m[i]);
    return true;
}

bool collective_advance(Tcp *tcp, Collective *c)
{
    for (;;) {
        while (c->begun < c->steps && c->begun - c->done < c->window) step_begin(tcp, c, c->begun++);
        if (c->done == c->begun) return true;
        if (!step_done(tcp, c, c->done)) return false;
        c->done++;
        tcp->moved = true;
    }
}

/* This rank's own part is copied, and the algorithm chosen: by what all ranks know alike. */
void collective_begin(Tcp *tcp, Collective *c)
{
    Group *g = c->group;
    int    n = g->count, me = g->me;
    c->tag    = TAG_COLLECTIVE | (g->collectives++ & ~TAG_COLLECTIVE);
    c->steps  = n - 1;
    c->window = 1;
    if (c->algorithm == ALL_TO_ALL) {
        struct iovec from = range_of(c->in,  c->in_at,  me, c->width);
        struct iovec to   = range_of(c->out, c->out_at, me, c->width);
        CHECK(from.iov_len == to.iov_len, "rank %d sends %zu bytes to itself and expects %zu", tcp->rank,
              from.iov_len, to.iov_len);
        if (to.iov_len > 0) memcpy(to.iov_base, from.iov_base, to.iov_len);
        c->window = STEPS_AT_ONCE;
    } else {
        struct iovec own[2];
        blocks_of(own, c, me, 1);
        if (own[0].iov_len > 0 && own[0].iov_base != c->in) memcpy(own[0].iov_base, c->in, own[0].iov_len);
        size_t all = (size_t)(c->out_at ? c->out_at[n] - c->out_at[0] : n) * c->width;
        c->algorithm = all / (size_t)n < GATHER_RING_BYTES ? GATHER_TREE : GATHER_RING;
        for (c->steps = 0; c->algorithm == GATHER_TREE && 1 << c->steps < n; ) c->steps++;
        if (c->algorithm == GATHER_RING) c->steps = n - 1;
    }
    collective_advance(tcp, c);
}
