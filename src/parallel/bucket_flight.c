/* Messages of buckets beside computation: gradients of a unit are summed while earlier units run backward,
 * and updated weights are gathered while later buckets are updated and the next step begins. The order in
 * which communicators are used is that of the computation, which is the same on all ranks, and sums have
 * the same order of additions as in the foreground; so the bits are the same, and a transport that runs the
 * calls of a communicator strictly in order cannot deadlock. */
#include "parallel/buckets.h"

/* Where the first sum over other ranks is taken; NULL: none is. */
static Comm *first_sum(const Bucket *k)
{
    if (k->zero_stage >= 1) return k->comms.shard;
    return comm_size(k->comms.replica) > 1 ? k->comms.replica : NULL;
}

/* The largest part of a rank. */
static int64_t largest_part(const Bucket *k, const Comm *comm)
{
    int64_t n = comm_size(comm), part = 0;
    if (k->zero_stage == 0) return (k->own_count + n - 1) / n;
    for (int64_t r = 0; r < n; r++)
        if (k->begin[r + 1] - k->begin[r] > part) part = k->begin[r + 1] - k->begin[r];
    return part;
}

/* A window fits any sum of this stage's buckets. */
void buckets_flights_open(Buckets *b, const BucketsSetup *s)
{
    size_t window = 0;
    if (!b->overlap || !b->training || buckets_narrow(b)) return;
    for (int i = 0; i < b->count; i++) {
        const Bucket *k = &b->bucket[i];
        Comm *comm = first_sum(k);
        if (!comm || k->block.count == 0) continue;
        size_t bytes = comm_window(comm, b->precision.gradient, largest_part(k, comm));
        if (bytes > window) window = bytes;
    }
    for (int i = 0; i < FLIGHTS && window > 0; i++) {
        size_t bytes = (window + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        arena_open_within(&b->flight[i].window, "sum window", s->gathered, "sum windows", bytes);
        if (s->gathered->dry) arena_push(s->gathered, "sum windows", bytes);
    }
}

void buckets_flights_close(Buckets *b)
{
    for (int i = 0; i < FLIGHTS; i++) arena_close(&b->flight[i].window);
}

/* Ends the oldest flight. */
static void flight_end(Buckets *b)
{
    Flight *f = &b->flight[b->flights_ended++ % FLIGHTS];
    Bucket *k = f->bucket;
    comm_wait(f->comm, f->pending);
    if (k->zero_stage >= 2) accumulate(b->queue, (Accumulate){ .y = k->grads, .x = f->part });
    else k->summed = true;
    k->summing = false;
}

bool bucket_flight_begin(Buckets *b, Bucket *k, Comm *comm, Tensor whole, int buffer)
{
    if (!b->overlap || buckets_narrow(b) || !comm || comm_size(comm) == 1) return false;
    if (b->flights_begun - b->flights_ended == FLIGHTS) flight_end(b);
    Flight *f = &b->flight[b->flights_begun++ % FLIGHTS];
    f->bucket = k;
    f->comm   = comm;
    f->buffer = buffer;
    k->summing = true;
    arena_reset(&f->window, 0);
    if (k->zero_stage == 0) {
        f->pending = comm_all_reduce_begin(comm, b->queue, whole, &f->window);   /* <-> replica: all-reduce */
        return true;
    }
    f->part = tensor_flat(whole, k->own_first, k->own_count);
    f->pending = comm_reduce_scatter_parts_begin(comm, b->queue, f->part, whole, k->begin,
                                                 &f->window);                 /* <-> shard: reduce-scatter */
    return true;
}

void buckets_land(Buckets *b, int buffer)
{
    long last = b->flights_ended;                     /* flights end in order: those before it as well */
    for (long n = b->flights_ended; n < b->flights_begun; n++)
        if (buffer < 0 || b->flight[n % FLIGHTS].buffer == buffer) last = n + 1;
    while (b->flights_ended < last) flight_end(b);
}

void buckets_reduce_begin(Buckets *b, int64_t unit)
{
    for (UnitBlock i = UNIT_OWN; i <= UNIT_EXPERTS; i++) {
        Bucket *k = unit_bucket(b, unit, i);
        if (!k || k->block.count == 0 || k->zero_stage >= 2) continue;
        bucket_flight_begin(b, k, first_sum(k), k->grads, -1);                    /* <-> shard, replica */
    }
}

/* ---- updated weights ---- */
void buckets_gather_begin(Buckets *b, Bucket *k)
{
    if (k->zero_stage == 0 || k->zero_stage == 3 || k->block.count == 0) return;
    k->gathering = true;
    k->gather = comm_all_gather_parts_begin(k->comms.shard, b->queue, k->weights, k->begin,
                                            bucket_own(k, k->weights));           /* <-> shard: all-gather */
}

void bucket_gathered(Bucket *k)
{
    if (k->gathering) comm_wait(k->comms.shard, k->gather);
    k->gathering = false;
}

void buckets_gathered(Buckets *b)
{
    for (int i = 0; i < b->count; i++) bucket_gathered(&b->bucket[i]);
}
