#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H
/* A toy model of every type and number of dims, cut at random over ranks that are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <xxhash.h>
#undef fail                                /* ours is in base/status.h */
#include "base/file.h"
#include "base/random.h"
#include "comm/transport.h"
#include "store/checkpoint.h"
#include "store/checkpoint_tokenizer.h"

static LogicalTensor embed_tensors[] = {
    { "embed.weight", 2, { 13, 8 }, F32 },         { "embed.weight/m", 2, { 13, 8 }, F64 },
};
static LogicalTensor block_tensors[] = {
    { "block.0.up", 2, { 8, 12 }, F32 },           { "block.0.bytes", 1, { 11 }, F8_E5M2 },
    { "block.0.cube", 4, { 2, 3, 4, 5 }, BF16 },    { "block.0.ids", 1, { 7 }, I32 },
    { "block.0.empty", 2, { 0, 4 }, F32 },         { "block.0.scalar", 0, { 0 }, F64 },
};
static LogicalTensor head_tensors[] = { { "head.gain", 1, { 5 }, F32 } };
static const CheckpointFile files[] = { { "embed.safetensors", 2, embed_tensors },
                                  { "block_0000.safetensors", 6, block_tensors },
                                  { "head.safetensors", 1, head_tensors } };
enum { FILES = 3, PIECES = 256 };

/* ---- values: of element i of a tensor, another set for each `values` (the step, mostly); exact in its
 * type ---- */
static inline void value_put(const TensorShard *p, int64_t local, int64_t global, int64_t values)
{
    uint64_t bits = random_mix(random_key((uint64_t)values, p->name), (uint64_t)global);
    Dtype   dtype = p->local.dtype;
    double  value = (double)(bits >> 41) - 4e6;                                 /* fits a float as well */
    int32_t whole = (int32_t)bits;
    void   *at    = (char *)p->local.data + (size_t)local * dtype_width(dtype);
    if (dtype_is_float(dtype)) dtype_convert(at, dtype, &value, F64, 1);
    else memcpy(at, &whole, dtype_width(dtype));
}

static inline void piece_fill(const TensorShard *p, int64_t values)
{
    int64_t  cursor = 0;
    TensorShardRun run;
    while (tensor_shard_next_run(p, &cursor, &run))
        for (int64_t i = 0; i < run.count; i++) value_put(p, run.local + i, run.global + i, values);
}

/* ---- cuts: a box cut along one dim, each part a chain of flat runs, each run somebody's ---- */
typedef struct { uint64_t key, at; } Dice;
static inline int64_t dice(Dice *d, int64_t n)
{
    return (int64_t)(random_mix(d->key, d->at++) % (uint64_t)n);
}

typedef struct { TensorShard shard[PIECES]; int count; } Cut;

static inline void cut_add(Cut *cut, const LogicalTensor *t, const int64_t *offset, const int64_t *box,
                           int64_t first, int64_t count)
{
    assert_true(cut->count < PIECES);
    TensorShard *p = &cut->shard[cut->count++];
    *p = (TensorShard){ .dims = t->dims, .first = first, .count = count };
    strcpy(p->name, t->name);
    memcpy(p->global, t->dim, sizeof p->global);
    memcpy(p->offset, offset, sizeof p->offset);
    memcpy(p->box, box, sizeof p->box);
    p->local = tensor_at(calloc((size_t)count + 1, dtype_width(t->dtype)), t->dtype, &count, 1);
}

static inline void cut_tensor(Cut *cut, Dice *d, const LogicalTensor *t, int size, int rank)
{
    int     axis = t->dims ? (int)dice(d, t->dims) : 0;
    int64_t whole = t->dims ? t->dim[axis] : 1;
    for (int64_t begin = 0; begin < whole;) {
        int64_t offset[4] = { 0 }, box[4], boxed = 1;
        memcpy(box, t->dim, sizeof box);
        int64_t wide = d->key && dice(d, 3) ? 1 + dice(d, whole - begin) : whole - begin;
        if (t->dims) offset[axis] = begin, box[axis] = wide;
        for (int i = 0; i < t->dims; i++) boxed *= box[i];
        for (int64_t first = 0; first < boxed;) {
            int64_t count = d->key && dice(d, 2) ? 1 + dice(d, boxed - first) : boxed - first;
            if (dice(d, size) == rank) cut_add(cut, t, offset, box, first, count);
            first += count;
        }
        begin += wide;
    }
}

/* The same dice on all ranks: together they hold each element once. Seed 0 deals whole tensors. */
static inline Cut *cut_make(uint64_t seed, int size, int rank)
{
    Cut *cut = calloc(1, sizeof *cut);
    Dice d = { .key = seed };
    for (int b = 0; b < FILES; b++)
        for (int t = 0; t < files[b].tensors; t++) cut_tensor(cut, &d, &files[b].tensor[t], size, rank);
    return cut;
}

static inline void cut_free(Cut *cut)
{
    for (int p = 0; p < cut->count; p++) free(cut->shard[p].local.data);
    free(cut);
}

/* ---- saving and loading by ranks ---- */
typedef struct {
    const char *dir;
    uint64_t    seed;
    int64_t     step, values;
    int         keep_last;
    bool        drop, shift;
} Saving;

static inline CheckpointState state_at(int64_t step)
{
    CheckpointState state = { .step = step, .samples = 8 * step, .updates = step - 1 };
    state.seed = UINT64_MAX - 5;
    state.options = "{\"lr\":0.00014999999999999999,\"model\":\"tiny\"}";
    static const char tokens[] = "the tokens of a tokenizer";
    state.tokenizer = (TokenizerRecord){ .name = "a\tb.json", .fingerprint = "v1: 257 ids", .copies = 2,
        .copy = { { "a.json", 25, XXH3_64bits(tokens, 25), tokens }, { "b.txt", 10, XXH3_64bits(tokens, 10), tokens } } };
    return state;
}

static inline void assert_state(const char *path, int64_t step)
{
    CheckpointState state, wanted = state_at(step);
    CheckpointFacts facts;
    assert_int_equal(checkpoint_facts(&facts, path), OK);
    state = facts.state;
    assert_string_equal(state.options, wanted.options);
    assert_string_equal(state.tokenizer.name, wanted.tokenizer.name);
    assert_string_equal(state.tokenizer.fingerprint, wanted.tokenizer.fingerprint);
    assert_true(state.step == wanted.step && state.samples == wanted.samples && state.updates == wanted.updates && state.seed == wanted.seed);
    assert_int_equal(state.tokenizer.copies, 2);
    assert_int_equal(checkpoint_tokenizer_check(path, &state.tokenizer), OK);
    checkpoint_facts_free(&facts);
}

/* drop: rank 0 forgets its first shard.  shift: it writes that shard's first element twice and its last
 * one never. */
static inline Status save_body(Transport *transport, void *context)
{
    const Saving *saving = context;
    Comm *world;
    world = comm_world(transport);
    Cut *cut = cut_make(saving->seed, comm_size(world), comm_rank(world));
    bool spoil = comm_rank(world) == 0 && (saving->drop || saving->shift);
    for (int p = 0; p < cut->count; p++) piece_fill(&cut->shard[p], saving->values);
    if (spoil) {
        cut->shard[cut->count] = cut->shard[0];
        cut->shard[cut->count].count = saving->shift;
        cut->shard[0].count = saving->drop ? 0 : cut->shard[0].count - 1;
    }
    CheckpointState state = state_at(saving->step);
    Status          status = checkpoint_save(world, saving->dir, &state, files, FILES, cut->shard,
                                             cut->count + spoil, saving->keep_last);
    cut_free(cut);
    comm_close(world);
    return status;
}

static inline Status load_pieces(const char *path, const TensorShard *shards, int count)
{
    Checkpoint *checkpoint;
    TRY(checkpoint_open(&checkpoint, path));
    Status status = checkpoint_load(checkpoint, shards, count, true);
    checkpoint_close(checkpoint);
    return status;
}

static inline Status save(const char *dir, int ranks, uint64_t seed, int64_t step, int keep_last)
{
    Saving saving = { .dir = dir, .seed = seed, .step = step, .values = step, .keep_last = keep_last };
    return transport_threads_run(ranks, save_body, &saving);
}

/* true where every shard of every rank of this cut comes back bit-equal */
static inline bool loads_equal(const char *path, int ranks, uint64_t seed, int64_t values)
{
    bool equal = true;
    for (int rank = 0; rank < ranks; rank++) {
        Cut *cut = cut_make(seed, ranks, rank), *wanted = cut_make(seed, ranks, rank);
        if (load_pieces(path, cut->shard, cut->count) != OK) equal = false;
        for (int p = 0; p < cut->count; p++) {
            piece_fill(&wanted->shard[p], values);
            equal &= memcmp(cut->shard[p].local.data, wanted->shard[p].local.data,
                            tensor_bytes(cut->shard[p].local)) == 0;
        }
        cut_free(cut);
        cut_free(wanted);
    }
    return equal;
}

/* In memory where there is such a place: what is durable there, the tests decide. */
static inline const char *folder_fresh(char out[64], const char *name)
{
    snprintf(out, 64, "%sstore_test.%d.%s", access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : "", (int)getpid(),
             name);
    assert_int_equal(folder_remove(out), OK);
    return out;
}
#endif
