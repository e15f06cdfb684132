/* Blocking collectives. A reduction is an all-to-all, in which each rank receives its part from every
 * other rank, and then an addition of the parts in rank order. Floating-point addition is not
 * associative, so the transport's own reductions would give other bits for other algorithms; this one
 * gives the same bits on every transport and rank. It sends no more bytes than a ring does.
 * S bytes of the tensor    n ranks
 *
 *   all-gather      out = in of rank 0, of rank 1, ...                     sends (n - 1) times its part
 *   all-to-all      rank r's part of in to rank r                          sends S less its own part
 *   reduce-scatter  all-to-all of S / n, sum                               sends (n - 1) / n S
 *   all-reduce      all-to-all of S / n, sum, all-gather of the sums       sends 2 (n - 1) / n S */
#include "comm/comm_internal.h"
#include "tensor/ops.h"

void comm_all_gather(Comm *comm, Queue *q, Tensor out, Tensor in)
{
    comm_wait(comm, comm_all_gather_begin(comm, q, out, in));
}

void comm_all_to_all(Comm *comm, Queue *q, Tensor out, const int64_t *out_at, Tensor in, const int64_t *in_at)
{
    comm_wait(comm, comm_all_to_all_begin(comm, q, out, out_at, in, in_at));
}

static void sum_check(const Comm *comm, SentVerb verb, Tensor x)
{
    CHECK(dtype_is_float(x.dtype), "%s of %s: reductions take floating-point types, got %s",
          sent_verb_name(verb), comm->name, dtype_name(x.dtype));
    CHECK(tensor_contiguous(x), "%s of %s: the tensor must be contiguous", sent_verb_name(verb), comm->name);
}

/* One all-to-all. comm->in_at and comm->out_at hold the offsets of the blocks. */
static void exchange(Comm *comm, Queue *q, SentVerb verb, long number, Tensor out, Tensor in)
{
    int request = REQUEST_LOST;
    queue_wait(q);
    if (comm_delivered(comm, sent_verb_name(verb), number))
        request = comm->transport->all_to_all(comm->transport, comm->group, out.data, comm->out_at, in.data,
                                              comm->in_at, dtype_width(in.dtype));
    comm_finish(comm, request, sent_verb_name(verb), number, -1);
}

/* The first element of rank r's part, where `count` elements are divided into parts of `part`. The last
 * parts may be shorter or empty, because part is count / size rounded up. */
static int64_t part_begin(int64_t count, int64_t part, int r)
{
    return r * part < count ? r * part : count;
}

/* at[r] = the element at which rank r's part begins, for r = 0 .. size */
static void parts_at(int64_t *at, int size, int64_t count, int64_t part)
{
    for (int r = 0; r <= size; r++) at[r] = part_begin(count, part, r);
}

void comm_reduce_scatter(Comm *comm, Queue *q, Tensor out, Tensor in, Arena *scratch)
{
    int64_t part = tensor_count(out);
    sum_check(comm, SENT_REDUCE_SCATTER, in);
    sum_check(comm, SENT_REDUCE_SCATTER, out);
    CHECK(tensor_count(in) == comm->size * part, "reduce-scatter of %s: in counts %lld, not %d times %lld",
          comm->name, (long long)tensor_count(in), comm->size, (long long)part);
    if (comm->size == 1) {
        if (out.data != in.data)
            copy_strided(q, (CopyStrided){ .y = tensor_view(out, part), .x = tensor_view(in, part) });
        return;
    }
    size_t mark = arena_mark(scratch);
    /* [R, N]: R ranks' contributions to this rank's part of N elements */
    Tensor got_RN = tensor_new(scratch, "sum", in.dtype, comm->size, part);
    parts_at(comm->in_at,  comm->size, tensor_count(in), part);
    parts_at(comm->out_at, comm->size, tensor_count(in), part);
    comm_record(comm, SENT_REDUCE_SCATTER, (comm->size - 1) * (int64_t)tensor_bytes(out), in);
    exchange(comm, q, SENT_REDUCE_SCATTER, comm->number++, got_RN, in);
    rank_sum(q, (RankSum){ .y_N = tensor_view(out, part), .x_RN = got_RN });
    arena_reset(scratch, mark);
}

/* The second half of an all-reduce: x = rank 0's part of x, rank 1's part, ... Transports gather equal
 * blocks only, so uneven parts take an all-to-all that sends the same block to every rank: `repeat`
 * holds size copies of it. */
static void gather_parts(Comm *comm, Queue *q, long number, Tensor x, int64_t part, Tensor repeat)
{
    const char *verb = sent_verb_name(SENT_ALL_REDUCE);
    int64_t count = tensor_count(x), first = part_begin(count, part, comm->rank);
    int64_t mine  = part_begin(count, part, comm->rank + 1) - first;
    Tensor  x_N   = tensor_flat(x, first, mine);
    if (part * comm->size == count) {
        int request = REQUEST_LOST;
        queue_wait(q);
        if (comm_delivered(comm, verb, number))
            request = comm->transport->all_gather(comm->transport, comm->group, x.data, x_N.data,
                                                  tensor_bytes(x_N));
        comm_finish(comm, request, verb, number, -1);
        return;
    }
    for (int r = 0; r < comm->size && mine > 0; r++)
        copy_strided(q, (CopyStrided){ .y = tensor_flat(repeat, r * mine, mine), .x = x_N });
    parts_at(comm->in_at,  comm->size, comm->size * mine, mine);
    parts_at(comm->out_at, comm->size, count, part);
    exchange(comm, q, SENT_ALL_REDUCE, number, x, repeat);
}

/* The local part: y [N] from the contributions [R, N] of R ranks. */
typedef void Join(Queue *q, Tensor y_N, Tensor x_RN);
static void join_sum(Queue *q, Tensor y, Tensor x) { rank_sum(q, (RankSum){ .y_N = y, .x_RN = x }); }
static void join_max(Queue *q, Tensor y, Tensor x) { rank_max(q, (RankMax){ .y_N = y, .x_RN = x }); }

static void all_reduce(Comm *comm, Queue *q, Tensor x, Arena *scratch, Join *join)
{
    sum_check(comm, SENT_ALL_REDUCE, x);
    if (comm->size == 1) return;
    int64_t count = tensor_count(x), part = (count + comm->size - 1) / comm->size;
    int64_t first = part_begin(count, part, comm->rank);
    int64_t mine  = part_begin(count, part, comm->rank + 1) - first;
    size_t  width = dtype_width(x.dtype), mark = arena_mark(scratch);
    long    number = comm->number++;                  /* both halves are one operation for the watchdog */
    comm_record(comm, SENT_ALL_REDUCE, (count - mine + (comm->size - 1) * mine) * (int64_t)width, x);

    /* Every rank takes size * part elements, also where its own part is shorter or empty, so that all
     * ranks need the same arena and the dry run of one rank is right for all. */
    Tensor all = tensor_new(scratch, "sum", x.dtype, comm->size * part);
    parts_at(comm->in_at,  comm->size, count, part);
    parts_at(comm->out_at, comm->size, comm->size * mine, mine);
    exchange(comm, q, SENT_ALL_REDUCE, number, all, x);
    if (mine > 0)
        join(q, tensor_flat(x, first, mine),
             tensor_view(tensor_flat(all, 0, comm->size * mine), comm->size, mine));
    gather_parts(comm, q, number, x, part, all);
    arena_reset(scratch, mark);
}

void comm_all_reduce(Comm *comm, Queue *q, Tensor x, Arena *scratch)
{
    all_reduce(comm, q, x, scratch, join_sum);
}

void comm_all_reduce_max(Comm *comm, Queue *q, Tensor x, Arena *scratch)
{
    all_reduce(comm, q, x, scratch, join_max);
}

/* An all-gather of one word: no rank has all words before the last has come. */
void comm_barrier(Comm *comm)
{
    if (comm->size == 1 || comm->dry) return;
    int32_t word = 0;
    comm_gather_bytes(comm, "barrier", comm->word, &word, sizeof word);
}
