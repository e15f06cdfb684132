/* A checksum is the same on all ranks where its maximum is its minimum, so two numbers for each parameter
 * suffice, however many ranks there are. */
#include "parallel/weight_copies.h"
#include <stdio.h>

void weight_copies_open(WeightCopies *copies, const Buckets *b, Arena *persistent, Arena *host)
{
    int64_t n = 0;
    for (int i = 0; i < b->count; i++) n += b->bucket[i].block.params;
    copies->sum_2N = tensor_new(persistent, "checksums of copies", b->precision.statistic, 2 * n);
    copies->read   = arena_push(host, "checksums of copies", tensor_bytes(copies->sum_2N));
}

/* ---- which ranks hold copies of what ---- */
static bool whole_on_tp(const Bucket *k, const Param *p)
{
    bool split = false;
    for (int d = 0; d < PARAM_DIMS; d++) split |= p->split[d] != 0;
    return k->block.family == PARAMS_DENSE && !split;
}
static bool summed_over_tp(const Bucket *k, const Param *p)
{
    return whole_on_tp(k, p) && p->sum == GRADIENT_OVER_TP;
}
static bool copied_head(const Bucket *k, const Param *p) { (void)k; return p->sum == GRADIENT_OVER_KV; }
static bool embedding(const Bucket *k, const Param *p)
{
    (void)p;
    return k->block.family == PARAMS_DENSE && k->block.index == 0;
}
static bool dense  (const Bucket *k, const Param *p) { (void)p; return k->block.family == PARAMS_DENSE; }
static bool experts(const Bucket *k, const Param *p) { (void)p; return k->block.family == PARAMS_EXPERTS; }

typedef struct { const char *ranks; Comm *comm; bool (*has)(const Bucket *k, const Param *p); } CopyGroup;
enum { GROUPS = 7 };

/* Each tensor-parallel rank sums gradients over data-parallel ranks of its own, and a library that adds on
 * devices may round the sums of three or more differently (docs/numerics.md): copies of weights of which no
 * sum over tp follows may then differ. */
static bool rounds_apart(const Buckets *b)
{
    bool apart = false;
    for (int i = 0; i < b->count; i++) {
        const DataComms *comms = &b->bucket[i].comms;
        apart |= comm_adds_on_device(b->tp) && (comm_size(comms->shard) > 2 || comm_size(comms->replica) > 2);
    }
    return apart;
}

/* Under ZeRO 3 the ranks of shard hold parts and no copies. */
static void groups_of(CopyGroup out[GROUPS], const Buckets *b)
{
    Comm *shard[PARAM_FAMILIES] = { NULL }, *replica[PARAM_FAMILIES] = { NULL };
    for (int i = 0; i < b->count; i++) {
        const Bucket *k = &b->bucket[i];
        shard[k->block.family]   = k->zero_stage < 3 ? k->comms.shard : NULL;
        replica[k->block.family] = k->comms.replica;
    }
    const char *data = "data-parallel ranks";
    const CopyGroup all[GROUPS] = {
        { "tensor-parallel ranks", b->tp, rounds_apart(b) ? summed_over_tp : whole_on_tp },
        { "tensor-parallel ranks with one key-value head", b->kv, copied_head },
        { "stages with the token embedding", b->tied, embedding },
        { data, shard[PARAMS_DENSE], dense },     { data, replica[PARAMS_DENSE], dense },
        { data, shard[PARAMS_EXPERTS], experts }, { data, replica[PARAMS_EXPERTS], experts },
    };
    for (int i = 0; i < GROUPS; i++) out[i] = all[i];
}

/* ---- checksums ---- */
/* Of the part of the parameter that this rank stores; zeros where it stores none of it. */
static void put_checksum(Buckets *b, const Bucket *k, const Param *p, Tensor sum_2)
{
    int64_t first = k->zero_stage < 3 ? 0 : k->own_first, stored = tensor_count(k->weights);
    int64_t from = p->at > first ? p->at : first, end = p->at + param_elements(p);
    if (end > first + stored) end = first + stored;
    if (from >= end) fill_zero(b->queue, (FillZero){ .y = sum_2 });
    else checksum(b->queue, (Checksum){ .sum_2 = sum_2,
                                        .x_N = tensor_flat(k->weights, from - first, end - from) });
}

static bool group_equal(const WeightCopies *copies, Buckets *b, const CopyGroup *group, char text[200])
{
    int64_t n = 0, at = 0;
    bool equal = true;
    for (int i = 0; i < b->count; i++)
        for (int p = 0; p < b->bucket[i].block.params; p++) {
            const Bucket *k = &b->bucket[i];
            if (!group->has(k, &k->block.param[p])) continue;
            put_checksum(b, k, &k->block.param[p], tensor_flat(copies->sum_2N, n, 2));
            n += 2;
        }
    if (n == 0) return true;
    Tensor sums = tensor_flat(copies->sum_2N, 0, n);
    comm_all_reduce_max(group->comm, b->queue, sums, b->scratch);       /* <-> the group's axis: all-reduce */
    if (!sums.data) return true;
    queue_read(b->queue, copies->read, sums.data, tensor_bytes(sums));
    for (int i = 0; i < b->count; i++)
        for (int p = 0; p < b->bucket[i].block.params; p++) {
            const Bucket *k = &b->bucket[i];
            double most[2];
            if (!group->has(k, &k->block.param[p])) continue;
            const char *read = (const char *)copies->read + (size_t)at * dtype_width(sums.dtype);
            dtype_convert(most, F64, read, sums.dtype, 2);
            at += 2;
            bool same = most[0] == -most[1];
            if (!same && equal)
                snprintf(text, 200, "the copies of %s on %d %s differ", k->block.param[p].name,
                         comm_size(group->comm), group->ranks);
            equal = equal && same;
        }
    return equal;
}

bool weight_copies_equal(const WeightCopies *copies, Buckets *b, char text[200])
{
    CopyGroup group[GROUPS];
    bool equal = true;
    char other[200];
    groups_of(group, b);
    buckets_gathered(b);                                              /* <-> shard: of the last step */
    for (int i = 0; i < GROUPS; i++)
        if (group[i].comm && comm_size(group[i].comm) > 1)
            equal = group_equal(copies, b, &group[i], equal ? text : other) && equal;  /* <-> */
    return equal;
}
