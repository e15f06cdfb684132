#include "layouts/copies.h"
#include <stdlib.h>
#include <string.h>
#include "tensor/dtype.h"

static const void *element(Tensor x, int64_t i) { return (const char *)x.data + (size_t)i * dtype_width(x.dtype); }

/* FNV-1a */
static uint64_t hash(const void *data, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
    return h;
}

static void row_add(Copies *c, const TensorShard *part, bool master, Tensor x, int64_t at)
{
    c->row = realloc(c->row, (size_t)(c->rows + 1) * sizeof *c->row);
    CHECK(c->row, "no memory");
    c->row[c->rows++] = (CopyRow){ .part = *part, .master = master,
        .hash = hash(element(x, at), (size_t)part->count * dtype_width(x.dtype)) };
}

/* x [own.count], the weights that ranks read, against the master weights [own.count] */
static Status rounded_compare(Copies *c, const Trainer *t, const TensorShard *own, Tensor x, Tensor master, int64_t at)
{
    for (int64_t i = 0; i < own->count; i++) {
        uint64_t want = 0;
        dtype_convert(&want, x.dtype, element(master, at + i), master.dtype, 1);
        if (memcmp(&want, element(x, at + i), dtype_width(x.dtype)) == 0) continue;
        return fail(BAD_SHAPE, "rank %d: %s[%lld] is not its rounded master weight", t->mesh.rank, own->name,
                    (long long)(own->first + i));
    }
    c->rounded += own->count;
    return OK;
}

/* Padding between parameters is nobody's. */
static Status bucket_take(Copies *c, const Trainer *t, const Bucket *k)
{
    bool whole = k->zero_stage < 3;
    for (int p = 0; p < k->block.params; p++) {
        TensorShard own = params_tensor_shard(&k->block, p, k->own_first, k->own_count);
        TensorShard held = whole ? params_tensor_shard(&k->block, p, 0, k->block.count) : own;
        int64_t at = k->block.param[p].at + own.first - k->own_first;
        if (held.count > 0)
            row_add(c, &held, false, k->weights, k->block.param[p].at + held.first - (whole ? 0 : k->own_first));
        if (own.count == 0 || !tensor_present(k->master)) continue;
        row_add(c, &own, true, k->master, at);
        if (optimizer_averages(t->config->optimizer)) continue;          /* its weights are not the parameters */
        TRY(rounded_compare(c, t, &own, bucket_own(k, k->weights), k->master, at));
    }
    return OK;
}

Status copies_take(Copies *c, Trainer *t)
{
    *c = (Copies){ .rows = 0 };
    buckets_gathered(&t->buckets);
    queue_wait(&t->queue);
    for (int i = 0; i < t->buckets.count; i++) TRY(bucket_take(c, t, &t->buckets.bucket[i]));
    return OK;
}

void copies_free(Copies *c) { free(c->row); }

/* ---- of all ranks ---- */

typedef struct { const CopyRow *row; int rank; } Held;

static int part_order(const CopyRow *a, const CopyRow *b)
{
    int order = strcmp(a->part.name, b->part.name);
    if (order == 0) order = a->master - b->master;
    if (order == 0) order = memcmp(a->part.offset, b->part.offset, (size_t)a->part.dims * sizeof *a->part.offset);
    if (order == 0) order = (a->part.first > b->part.first) - (a->part.first < b->part.first);
    return order ? order : (a->part.count > b->part.count) - (a->part.count < b->part.count);
}

static int held_order(const void *a, const void *b)
{
    const Held *x = a, *y = b;
    int order = part_order(x->row, y->row);
    return order ? order : x->rank - y->rank;
}

Status copies_compare(const Copies *c, int ranks, int *compared)
{
    int count = 0, at = 0;
    Status status = OK;
    for (int r = 0; r < ranks; r++) count += c[r].rows;
    Held *held = calloc((size_t)count + 1, sizeof *held);
    CHECK(held, "no memory");
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < c[r].rows; i++) held[at++] = (Held){ &c[r].row[i], r };
    qsort(held, (size_t)count, sizeof *held, held_order);
    for (int i = 1; i < count && status == OK; i++) {
        if (part_order(held[i - 1].row, held[i].row) != 0) continue;
        *compared += 1;
        if (held[i - 1].row->hash == held[i].row->hash) continue;
        status = fail(BAD_SHAPE, "%s%s from element %lld on differs on ranks %d and %d, which both hold it",
                      held[i].row->master ? "master weights of " : "", held[i].row->part.name,
                      (long long)held[i].row->part.first, held[i - 1].rank, held[i].rank);
    }
    free(held);
    return status;
}
