#ifndef TESTS_COMM_PROGRAM_H
#define TESTS_COMM_PROGRAM_H
/* All collectives with the same data on any transport: each rank checks what it gets against plain loops, and the hash of all
 * results, the same on every rank, must be the same on every transport. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "comm/agree.h"
#include "comm/comm.h"
#include "comm/transport.h"

typedef struct { Comm *comm; Queue q; Arena arena; uint64_t hash; int sum_group; } Program;

static bool program_rings = true;                        /* false: no ring of sends, where none is complete before its receive */

/* It ends the job: a rank that left alone would let the others wait for it. */
#define EXPECT(cond, ...) CHECK(cond, __VA_ARGS__)

static double element(Tensor x, int64_t i)
{
    return x.dtype == F64 ? ((double *)x.data)[i] : (double)((float *)x.data)[i];
}

static void element_set(Tensor x, int64_t i, double value)
{
    if (x.dtype == F64) ((double *)x.data)[i] = value;
    else                ((float *)x.data)[i] = (float)value;
}

/* What rank holds at i: a float, so that it is the same in both types, of any size between 2^-8 and 2^7, so that the order of a
 * sum shows. */
static double value(int rank, int64_t i)
{
    uint64_t bits = ((uint64_t)(rank + 3) * 1000003 + (uint64_t)i) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u;
    float size = (float)(1 << (bits >> 60)) / 256;
    return (double)(size * ((float)(int32_t)(bits >> 16 & 0xffffffff) / 2147483648.0f));
}

static Tensor filled(Program *p, int rank, int64_t count)
{
    Tensor x = tensor_new(&p->arena, "x", p->q.backend->compute, count);
    for (int64_t i = 0; i < count; i++) element_set(x, i, value(rank, i));
    return x;
}

static double plus(Program *p, double a, double b)        /* in the queue's type */
{
    return p->q.backend->compute == F64 ? a + b : (double)((float)a + (float)b);
}

/* In rank order within groups of sum_group, then in the order of groups. */
static double plain_sum(Program *p, int64_t i)
{
    double all = 0, group = 0;
    for (int r = 0; r < comm_size(p->comm); r++) {
        group = r % p->sum_group == 0 ? value(r, i) : plus(p, group, value(r, i));
        if (r + 1 == comm_size(p->comm) || (r + 1) % p->sum_group == 0)
            all = r < p->sum_group ? group : plus(p, all, group);
    }
    return all;
}

/* What rank `me` of n sends in an all-reduce of parts of ceil(count / n): to its group what it does not collect, and what it collects
 * to its owners; then its own part to each group and to the members of its own, and to them what it collects of other groups. */
static int64_t part_length(int64_t count, int n, int p)
{
    int64_t part = (count + n - 1) / n, first = part * p < count ? part * p : count, end = first + part < count ? first + part : count;
    return end - first;
}

static int64_t all_reduce_elements(int64_t count, int n, int me, int size)
{
    int     groups = (n + size - 1) / size, mine = me / size, members = mine == groups - 1 ? n - mine * size : size;
    int64_t own = part_length(count, n, me), sent = count - own + own * (members - 1 + groups - 1);
    for (int p = 0; p < n; p++)
        if (p / size != mine && p % size % members == me % size) sent += part_length(count, n, p) * (members - 1);
    return sent;
}

static void hash_add(Program *p, Tensor x)
{
    for (size_t i = 0; i < tensor_bytes(x); i++) p->hash = (p->hash ^ ((uint8_t *)x.data)[i]) * 0x100000001b3u;
}

static Status program_all_gather(Program *p, int64_t count)
{
    int    n  = comm_size(p->comm);
    Tensor in = filled(p, comm_rank(p->comm), count), out = tensor_new(&p->arena, "out", p->q.backend->compute, n, count);
    comm_sent_reset(p->comm);
    comm_all_gather(p->comm, &p->q, out, in);
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < count; i++)
            EXPECT(element(out, r * count + i) == value(r, i), "all-gather of %" PRId64 ": element %" PRId64 " of rank %d", count, i, r);
    Sent sent = comm_sent(p->comm, SENT_ALL_GATHER);
    EXPECT(sent.calls == (n > 1) && sent.bytes == (n - 1) * (int64_t)tensor_bytes(in), "all-gather counts %" PRId64 " bytes", sent.bytes);
    hash_add(p, out);
    return OK;
}

static Status program_reduce_scatter(Program *p, int64_t part)
{
    int     n  = comm_size(p->comm);
    int64_t first = comm_rank(p->comm) * part;
    Tensor in = filled(p, comm_rank(p->comm), n * part), all = tensor_new(&p->arena, "all", p->q.backend->compute, n * part);
    Tensor out = tensor_flat(in, first, part);
    comm_sent_reset(p->comm);
    comm_reduce_scatter(p->comm, &p->q, out, in, &p->arena);
    for (int64_t i = 0; i < part; i++)
        EXPECT(element(out, i) == plain_sum(p, first + i), "reduce-scatter of %" PRId64 ": element %" PRId64, part, i);
    Sent sent = comm_sent(p->comm, SENT_REDUCE_SCATTER);
    EXPECT(sent.bytes == (n - 1) * (int64_t)tensor_bytes(in) / n, "reduce-scatter counts %" PRId64 " bytes", sent.bytes);
    comm_all_gather(p->comm, &p->q, all, out);
    hash_add(p, all);
    return OK;
}

static Status program_all_reduce(Program *p, int64_t count)
{
    int    n = comm_size(p->comm);
    Tensor x = filled(p, comm_rank(p->comm), count), sums = tensor_new(&p->arena, "sums", p->q.backend->compute, count);
    comm_sent_reset(p->comm);
    comm_all_reduce(p->comm, &p->q, x, &p->arena);
    for (int64_t i = 0; i < count; i++) {
        element_set(sums, i, plain_sum(p, i));
        EXPECT(element(x, i) == element(sums, i), "all-reduce of %" PRId64 ": element %" PRId64, count, i);
    }
    int64_t width = (int64_t)dtype_width(x.dtype);
    int     size  = p->sum_group < n ? p->sum_group : n;
    Sent    sent  = comm_sent(p->comm, SENT_ALL_REDUCE);
    EXPECT(sent.bytes == (n > 1 ? width * all_reduce_elements(count, n, comm_rank(p->comm), size) : 0), "all-reduce counts %" PRId64 " bytes", sent.bytes);
    EXPECT(count % n || n % size || sent.bytes == 2 * (n - 1) * count / n * width, "all-reduce is not 2 (n - 1) / n S");
    hash_add(p, x);
    return OK;
}

/* Parts of 5, 0, 7, 5, 0, ... elements; the gather gives them back to all. Then several reductions in flight at once, waited for in
 * another order on every second rank while the others are polled. */
static Status program_unequal(Program *p, int64_t unit)
{
    int     n = comm_size(p->comm), me = comm_rank(p->comm);
    int64_t begin[65] = { 0 }, unequal[] = { 5 * unit, 0, 7 * unit };
    for (int r = 0; r < n; r++) begin[r + 1] = begin[r] + unequal[r % 3];
    Tensor in  = filled(p, me, begin[n]), out = tensor_new(&p->arena, "out", p->q.backend->compute, begin[n]);
    int64_t length = begin[me + 1] - begin[me];
    Tensor  part = tensor_new(&p->arena, "own", p->q.backend->compute, length + 1), own = tensor_flat(part, 0, length);
    element_set(part, length, 77);
    comm_sent_reset(p->comm);
    comm_reduce_scatter_parts(p->comm, &p->q, own, in, begin, &p->arena);
    EXPECT(element(part, length) == 77, "unequal parts of %" PRId64 ": something is written behind a part", unit);
    comm_all_gather_parts(p->comm, &p->q, out, begin, own);
    for (int64_t i = 0; i < begin[n]; i++)
        EXPECT(element(out, i) == plain_sum(p, i), "unequal parts of %" PRId64 ": element %" PRId64 ", %g", unit, i, element(out, i));
    Sent    sent = comm_sent(p->comm, SENT_REDUCE_SCATTER), gathered = comm_sent(p->comm, SENT_ALL_GATHER);
    int64_t width = (int64_t)dtype_width(in.dtype);
    EXPECT(n == 1 || (sent.bytes == (begin[n] - length) * width && gathered.bytes == (n - 1) * length * width), "unequal parts count %" PRId64 " bytes", sent.bytes);
    hash_add(p, out);
    return OK;
}

static Status program_in_flight(Program *p)
{
    enum { MANY = 5, PART = 700 };
    int     n = comm_size(p->comm), me = comm_rank(p->comm);
    Tensor  x[MANY], out[MANY];
    Pending pending[MANY];
    for (int k = 0; k < MANY; k++) {
        x[k]   = filled(p, me, n * PART - k);
        out[k] = tensor_new(&p->arena, "out", p->q.backend->compute, PART);
        pending[k] = k % 2 || k == 0 ? comm_all_reduce_begin(p->comm, &p->q, x[k], &p->arena)
                   : comm_reduce_scatter_begin(p->comm, &p->q, out[k], filled(p, me, n * PART), &p->arena);
        comm_poll(p->comm);
    }
    for (int k = 0; k < MANY; k++) {
        int at = me % 2 ? k : MANY - 1 - k;
        comm_wait(p->comm, pending[at]);
        bool all = at % 2 || at == 0;
        for (int64_t i = 0; i < (all ? n * PART - at : PART); i++)
            EXPECT(element(all ? x[at] : out[at], i) == plain_sum(p, all ? i : me * PART + i), "reduction %d in flight: element %" PRId64, at, i);
    }
    return OK;
}

/* Uneven parts, some of them empty: rank a sends (a + 2 b + step) % 4 elements to rank b. Two at once. */
static int64_t part_of(int from, int to, int step) { return (from + 2 * to + step) % 4; }

static Status program_all_to_all(Program *p)
{
    enum { FRONT = 3 };
    int     n = comm_size(p->comm), me = comm_rank(p->comm);
    int64_t in_at[2][65], out_at[2][65], away = 0;
    Tensor  in[2], out[2];
    Pending pending[2];
    comm_sent_reset(p->comm);
    for (int k = 0; k < 2; k++) {
        in_at[k][0] = FRONT, out_at[k][0] = 0;
        for (int r = 0; r < n; r++) {
            in_at[k][r + 1]  = in_at[k][r] + part_of(me, r, k);
            out_at[k][r + 1] = out_at[k][r] + part_of(r, me, k);
            away += r == me ? 0 : part_of(me, r, k);
        }
        in[k]  = filled(p, me + k, in_at[k][n] + 1);
        out[k] = tensor_new(&p->arena, "out", p->q.backend->compute, out_at[k][n] + 1);
        fill_zero(&p->q, (FillZero){ out[k] });
        pending[k] = comm_all_to_all_begin(p->comm, &p->q, out[k], out_at[k], in[k], in_at[k]);
    }
    for (int k = 1; k >= 0; k--) comm_wait(p->comm, pending[k]);
    for (int k = 0; k < 2; k++) {
        for (int r = 0; r < n; r++) {
            int64_t at = FRONT;                           /* where this rank's part begins in rank r's tensor */
            for (int b = 0; b < me; b++) at += part_of(r, b, k);
            for (int64_t i = 0; i < part_of(r, me, k); i++)
                EXPECT(element(out[k], out_at[k][r] + i) == value(r + k, at + i), "all-to-all %d: element %" PRId64 " of rank %d", k, i, r);
        }
        EXPECT(element(out[k], out_at[k][n]) == 0, "all-to-all %d writes behind its parts", k);
    }
    Sent sent = comm_sent(p->comm, SENT_ALL_TO_ALL);
    EXPECT(sent.calls == (n > 1 ? 2 : 0) && sent.bytes == away * (int64_t)dtype_width(in[0].dtype), "all-to-all counts %" PRId64 " bytes", sent.bytes);
    return OK;
}

/* Several begun at once, finished last first; between neighbours, messages around a ring, two each, received before they are waited for */
static Status program_pending(Program *p)
{
    enum { MANY = 6, COUNT = 37 };
    int     n = comm_size(p->comm), me = comm_rank(p->comm), next = (me + 1) % n, previous = (me + n - 1) % n;
    Tensor  in[MANY], out[MANY];
    Pending pending[MANY], sent[2], got[2];
    for (int i = 0; i < MANY; i++) {
        in[i]      = filled(p, me + i, COUNT);
        out[i]     = tensor_new(&p->arena, "out", p->q.backend->compute, n, COUNT);
        pending[i] = comm_all_gather_begin(p->comm, &p->q, out[i], in[i]);
    }
    Tensor ring[2] = { filled(p, -1, COUNT), filled(p, -1, COUNT) };
    bool rings = n > 1 && program_rings;
    for (int i = 0; i < 2 && rings; i++) {
        sent[i] = comm_send_begin(p->comm, &p->q, in[i], next);
        got[i]  = comm_recv_begin(p->comm, &p->q, ring[i], previous);
        comm_poll(p->comm);
    }
    for (int k = MANY - 1; k >= 0; k--) {                 /* even and odd ranks in different orders */
        int i = me % 2 ? k : MANY - 1 - k;
        comm_wait(p->comm, pending[i]);
        for (int64_t j = 0; j < n * COUNT; j++)
            EXPECT(element(out[i], j) == value((int)(j / COUNT) + i, j % COUNT), "all-gather %d of %d", i, MANY);
    }
    for (int i = 1; i >= 0 && rings; i--) {
        comm_wait(p->comm, got[i]);
        comm_wait(p->comm, sent[i]);
        for (int64_t j = 0; j < COUNT; j++)
            EXPECT(element(ring[i], j) == value(previous + i, j), "message %d of the ring", i);
    }
    return OK;
}

/* A ring of exchanges: all ranks at once, each to the next. */
static Status program_exchange(Program *p)
{
    enum { COUNT = 41 };
    int n = comm_size(p->comm), me = comm_rank(p->comm), next = (me + 1) % n, previous = (me + n - 1) % n;
    Pending pending[2];
    Tensor  got[2];
    if (n == 1) return OK;
    for (int i = 0; i < 2; i++) {
        got[i]     = filled(p, -1, COUNT);
        pending[i] = comm_exchange_begin(p->comm, &p->q, got[i], previous, filled(p, me + i, COUNT), next);
    }
    for (int i = 1; i >= 0; i--) comm_wait(p->comm, pending[i]);
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; j < COUNT; j++)
            EXPECT(element(got[i], j) == value(previous + i, j), "exchange %d of the ring", i);
    return OK;
}

static Status program_ints(Program *p)
{
    int32_t mine[3] = { comm_rank(p->comm), 5, -1 }, all[3 * 64];
    int     n = comm_size(p->comm);
    Tensor  in = tensor_at(mine, I32, (int64_t[]){ 3 }, 1), out = tensor_at(all, I32, (int64_t[]){ n, 3 }, 2);
    comm_all_gather(p->comm, &p->q, out, in);
    for (int r = 0; r < n; r++)
        EXPECT(all[3 * r] == r && all[3 * r + 1] == 5 && all[3 * r + 2] == -1, "integers of rank %d", r);
    return OK;
}

static Status program_all(Program *p)
{
    static const int64_t counts[] = { 1, 2, 3, 7, 24, 840, 1001 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t mark = arena_mark(&p->arena);
        TRY(program_all_gather(p, counts[i]));
        TRY(program_reduce_scatter(p, counts[i]));
        TRY(program_all_reduce(p, counts[i]));
        arena_reset(&p->arena, mark);
    }
    TRY(program_unequal(p, 1));
    if (comm_size(p->comm) == 4 && strcmp(comm_name(p->comm), "world") == 0) {      /* several windows */
        TRY(program_unequal(p, 20000));
        TRY(program_all_reduce(p, 300001));
    }
    TRY(program_in_flight(p));
    TRY(program_all_to_all(p));
    TRY(program_pending(p));
    TRY(program_exchange(p));
    comm_barrier(p->comm);
    return program_ints(p);
}

/* The hash of both types over the comm; equal on all ranks. */
static Status program_run(Comm *comm, int sum_group, uint64_t *hash)
{
    *hash = 0xcbf29ce484222325u;
    for (int i = 0; i < 2; i++) {
        Program p = { .comm = comm, .hash = *hash, .sum_group = sum_group };
        TRY(queue_open(&p.q, i ? "cpu" : "ref", 1, NULL));
        TRY(arena_open(&p.arena, "test", (size_t)24 << 20));
        Status status = program_all(&p);
        arena_close(&p.arena);
        queue_close(&p.q);
        TRY(status);
        *hash = p.hash;
    }
    return OK;
}

/* Over the world, and over its even and odd ranks at the same time. */
static Status program_world(Transport *transport, int sum_group, uint64_t *result)
{
    Comm *world, *half;
    world = comm_world_sums(transport, sum_group);
    int ranks[64], count = 0;
    for (int r = transport->rank % 2; r < transport->size; r += 2) ranks[count++] = r;
    half = comm_open(world, "half", ranks, count);
    uint64_t hash, half_hash;
    TRY(agree(world, program_run(world, sum_group, &hash)));
    TRY(agree(world, program_run(half, sum_group, &half_hash)));
    uint64_t all[64];
    Queue    q;
    TRY(queue_open(&q, "ref", 1, NULL));
    comm_all_gather(world, &q, tensor_at(all, U8, (int64_t[]){ transport->size, 8 }, 2), tensor_at(&hash, U8, (int64_t[]){ 8 }, 1));
    queue_close(&q);
    for (int r = 0; r < transport->size; r++)
        EXPECT(all[r] == hash, "rank %d has other results than rank %d", r, transport->rank);
    comm_barrier(world);
    comm_close(half);
    comm_close(world);
    if (transport->rank == 0) *result = *result * 31 + hash;
    return OK;
}

/* With sums in groups of different sizes: one group, groups of one, and a last group that is smaller. */
static Status program_body(Transport *transport, void *context)
{
    static const int sum_group[] = { COMM_SUM_GROUP, 1, 2, 3 };
    for (int i = 0; i < 4; i++)
        if (i == 0 || sum_group[i] < transport->size) TRY(program_world(transport, sum_group[i], context));
    return OK;
}
#endif
