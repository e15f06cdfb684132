/* Messages of buckets beside computation: gradients of a unit are summed while earlier units run backward,
 * and updated weights are gathered while later buckets are updated and the next step begins. The order in
 * which communicators are used is that of the computation, which is the same on all ranks, and sums have
 * the same order of additions as in the foreground; so the bits are the same, and a transport that runs the
 * calls of a communicator strictly in order cannot deadlock. */
#include "parallel/buckets.h"

#include "base/integer.h"

/* Of `count` elements in parts of `begin`, or equal ones where it is NULL, the largest part of n ranks. */
static int64_t largest_part(const int64_t *begin, int64_t count, int64_t n)
{
    int64_t part = begin ? 0 : (count + n - 1) / n;
    for (int64_t r = 0; begin && r < n; r++)
        if (begin[r + 1] - begin[r] > part) part = begin[r + 1] - begin[r];
    return part;
}

static int most_sums(const Buckets *b) { return buckets_narrow(b) ? NARROW_SUMS : BACKGROUND_SUMS; }

/* Bytes that a sum over a communicator takes: the transport's window, and a rounded copy of `count`
 * elements. */
static size_t sum_bytes(const Buckets *b, const Comm *comm, int64_t part, int64_t count)
{
    Dtype  type = b->precision.message;
    size_t copy = buckets_narrow(b) ? (size_t)count * dtype_width(type) : 0;
    if (comm_size(comm) == 1) return 0;
    return (copy + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN + comm_window(comm, type, part);
}

static bool in_background(const Buckets *b, const Bucket *k)
{
    return b->overlap && (!buckets_narrow(b) || comm_adds_on_device(k->comms.shard));
}

/* A window fits any sum of this stage's buckets. */
void background_sums_open(Buckets *b, const BucketsSetup *s)
{
    static const char windows[] = "background reduction windows";
    size_t window = 0;
    for (int i = 0; b->training && i < b->count; i++) {
        const Bucket *k = &b->bucket[i];
        Comm *shard = k->comms.shard, *replica = k->comms.replica;
        if (k->block.count == 0 || !in_background(b, k)) continue;
        size_t inner = sum_bytes(b, shard, largest_part(k->begin, 0, comm_size(shard)), bucket_whole(k));
        size_t outer = sum_bytes(b, replica, largest_part(NULL, k->own_count, comm_size(replica)),
                                 k->own_count);
        if (inner > window) window = inner;
        if (outer > window) window = outer;
    }
    for (int i = 0; i < most_sums(b) && window > 0; i++) {
        size_t bytes = (window + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        arena_open_within(&b->background[i].window, "reduction window", s->gathered, windows, bytes);
        if (s->gathered->dry) arena_push(s->gathered, windows, bytes);
    }
}

void background_sums_close(Buckets *b)
{
    for (int i = 0; i < BACKGROUND_SUMS; i++) arena_close(&b->background[i].window);
}

static void oldest_sum_end(Buckets *b);

static BackgroundSum *background_sum_new(Buckets *b, Bucket *k, Comm *comm, int buffer)
{
    while (b->sums_begun - b->sums_ended == most_sums(b)) oldest_sum_end(b);
    BackgroundSum *f = &b->background[b->sums_begun++ % most_sums(b)];
    f->bucket = k;
    f->comm   = comm;
    f->buffer = buckets_narrow(b) ? -1 : buffer;
    f->final  = false;
    f->part   = tensor_none();
    arena_reset(&f->window, 0);
    return f;
}

/* x as it is sent: itself, or rounded. */
static Tensor sent(Buckets *b, BackgroundSum *f, Tensor x)
{
    if (!buckets_narrow(b)) return x;
    Tensor narrow = tensor_new(&f->window, "gradient message", b->precision.message, tensor_count(x));
    convert(b->queue, (Convert){ .y_N = narrow, .x_N = tensor_flat(x, 0, tensor_count(x)) });
    return narrow;
}

/* The rounded sums, in the type of gradients: in the place of `own`, or added to it. */
static void take_rounded(Buckets *b, Tensor own, Tensor part, bool add)
{
    for (int64_t at = 0; at < tensor_count(own); at += b->window) {
        int64_t count = least(b->window, tensor_count(own) - at);
        Tensor  to = tensor_flat(own, at, count), from = tensor_flat(part, at, count);
        size_t  mark = arena_mark(b->scratch);
        Tensor  wide = add ? tensor_new(b->scratch, "gradient message", own.dtype, count) : to;
        convert(b->queue, (Convert){ .y_N = wide, .x_N = from });
        if (add) accumulate(b->queue, (Accumulate){ .y = to, .x = wide });
        arena_reset(b->scratch, mark);
    }
}

/* The own gradients of the step, summed over shard, are summed over the replicas. */
static void replicas_begin(Buckets *b, Bucket *k)
{
    if (comm_size(k->comms.replica) == 1) return;
    BackgroundSum *f = background_sum_new(b, k, k->comms.replica, -1);
    f->part    = sent(b, f, bucket_own(k, k->grads));
    f->pending = comm_all_reduce_begin(f->comm, b->queue, f->part, &f->window);  /* <-> replica: all-reduce */
}

/* Waits for the oldest sum and takes its result. */
static void oldest_sum_end(Buckets *b)
{
    BackgroundSum *f = &b->background[b->sums_ended++ % most_sums(b)];
    Bucket *k = f->bucket;
    bool  final = f->final, replica = f->comm == k->comms.replica, add = !replica && k->zero_stage >= 2;
    comm_wait(f->comm, f->pending);
    if (buckets_narrow(b)) take_rounded(b, bucket_own(k, k->grads), f->part, add);
    else if (add) accumulate(b->queue, (Accumulate){ .y = k->grads, .x = f->part });
    if (replica) { k->replicas_summed = true; return; }
    if (!add) k->summed = true;
    if (final) replicas_begin(b, k);                                             /* <-> replica: all-reduce */
}

bool background_sum_begin(Buckets *b, Bucket *k, Tensor whole, int buffer, bool final)
{
    Comm *comm = k->zero_stage > 0 ? k->comms.shard : k->comms.replica;
    if (!in_background(b, k) || b->own_gradients || comm_size(comm) == 1) return false;
    if (k->zero_stage == 0) {
        replicas_begin(b, k);                                                    /* <-> replica: all-reduce */
        return true;
    }
    BackgroundSum *f = background_sum_new(b, k, comm, buffer);
    Tensor all = sent(b, f, whole);
    f->final = final;
    f->part  = tensor_flat(all, k->own_first, k->own_count);
    f->pending = comm_reduce_scatter_parts_begin(comm, b->queue, f->part, all, k->begin,
                                                 &f->window);                 /* <-> shard: reduce-scatter */
    return true;
}

void buckets_wait_sums(Buckets *b, int buffer)
{
    long last = b->sums_ended;                        /* sums end in order: those before it as well */
    for (long n = b->sums_ended; n < b->sums_begun; n++)
        if (b->background[n % most_sums(b)].buffer == buffer) last = n + 1;
    while (b->sums_ended < (buffer < 0 ? b->sums_begun : last)) oldest_sum_end(b);
    if (buffer < 0) b->sums_begun = b->sums_ended = 0;      /* each step takes the same windows */
}

void buckets_reduce_begin(Buckets *b, int64_t unit)
{
    for (UnitBlock i = UNIT_OWN; i < UNIT_BLOCKS; i++) {
        Bucket *k = unit_bucket(b, unit, i);
        if (!k || k->block.count == 0 || k->zero_stage >= 2 || k->last_unit != unit) continue;
        background_sum_begin(b, k, k->grads, -1, true);                            /* <-> shard, replica */
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
