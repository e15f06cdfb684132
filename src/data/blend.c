/* Blends of token files in Megatron-LM's order: sizes of each data set, the greedy rule on one level or
 * two, and the cache of its result. The comments name the rules of Megatron-core and of its DeepSpeed
 * forks where they differ, because the order must equal theirs exactly. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/random.h"
#include "data/blend.h"
#include "data/mt19937.h"

/* ---- the greedy rule ---- */

/* Double precision and the order of operations are Megatron's: a tie that is decided otherwise changes all
 * later samples. */
Status blend_greedy(NpyArray *which, NpyArray *sample, const double *weight, int count)
{
    int64_t *used = calloc((size_t)count, sizeof *used), *sample_s = sample->made;
    int16_t *which_s = which->made;
    if (!used) return fail(NO_MEMORY, "no memory to blend %d data sets", count);
    for (int64_t s = 0; s < which->rows; s++) {
        double at = s > 1 ? (double)s : 1, largest = -INFINITY;
        int    next = 0;
        for (int i = 0; i < count; i++) {
            double deficit = weight[i] * at - (double)used[i];
            if (deficit > largest) largest = deficit, next = i;
        }
        which_s[s]  = (int16_t)next;
        sample_s[s] = used[next]++;
    }
    free(used);
    return OK;
}

/* ---- sizes ---- */

/* Of each data set: the samples that the blend uses, the samples that its order is built for (with a
 * surplus), and its weight. All arrays are [count] and owned. */
typedef struct { int64_t *asked, *made; double *weight; } BlendSizes;

/* The forks round once, Megatron-core twice (sizes_new). */

static int64_t fork_samples(int64_t wanted, double weight, const BlendRules *spec)
{
    return (int64_t)ceil((double)wanted * weight * (1 + spec->surplus));
}

static Status sizes_new(BlendSizes *sizes, const BlendSpec *list, const BlendRules *spec)
{
    size_t n = (size_t)list->count;
    *sizes = (BlendSizes){ calloc(n, sizeof(int64_t)), calloc(n, sizeof(int64_t)),
                           calloc(n, sizeof(double)) };
    if (!sizes->asked || !sizes->made || !sizes->weight)
        return fail(NO_MEMORY, "no memory to blend %d data sets", list->count);
    for (int i = 0; i < list->count; i++) sizes->weight[i] = list->part[i].weight;
    WeightSum how = spec->kind == BLEND_CORE ? SUM_NUMPY : SUM_IN_A_ROW;
    if (list->weighted) TRY(weights_normalize(sizes->weight, list->count, how));
    for (int i = 0; i < list->count; i++) {
        double weight = sizes->weight[i], wanted = (double)spec->wanted;
        if (!list->weighted) sizes->made[i] = list->count == 1 ? spec->wanted : ORDER_ONE_EPOCH;
        else if (spec->kind == BLEND_CORE) {
            sizes->asked[i] = (int64_t)ceil(wanted * weight);
            sizes->made[i]  = (int64_t)ceil((double)sizes->asked[i] * (1 + spec->surplus));
        } else sizes->asked[i] = sizes->made[i] = fork_samples(spec->wanted, weight, spec);
    }
    return OK;
}

static void sizes_close(BlendSizes *sizes)
{
    free(sizes->asked);
    free(sizes->made);
    free(sizes->weight);
}

/* ---- one level ---- */

static Status indices_new(NpyArray *which, NpyArray *sample, int64_t rows)
{
    TRY(npy_array_new(which, NPY_I16, rows, 1));
    Status status = npy_array_new(sample, NPY_I64, rows, 1);
    if (status != OK) npy_array_close(which);
    return status;
}

/* In an epoch without weights each data set's weight is its share of all samples, so that each is used
 * exactly once. Otherwise the weights are divided by their sum a second time, as Megatron does it: the
 * second division can change the last bit. */
static Status level_one(Blend *b, BlendSizes *sizes, const BlendSpec *list, const BlendRules *spec)
{
    if (!list->weighted && spec->wanted < 0)
        for (int i = 0; i < b->count; i++) sizes->weight[i] /= (double)b->samples;
    else TRY(weights_normalize(sizes->weight, b->count, SUM_NUMPY));
    return blend_greedy(&b->which, &b->sample, sizes->weight, b->count);
}

/* ---- two levels ---- */

/* A corpus: its data sets in the list's order. Sample j of the corpus is sample `sample[j]` of data set
 * member[which[j]]; the samples are used in the order of `shuffle`. */
typedef struct {
    const char *name;
    int         count, room, *member;          /* [count] indices of data sets in the list */
    NpyArray    which, sample, shuffle;        /* [samples] */
    int64_t     samples;
} Corpus;
typedef struct { Corpus *corpus; int count; } Corpora;

static int corpus_compare(const void *a, const void *b)
{
    return strcmp(((const Corpus *)a)->name, ((const Corpus *)b)->name);
}

static Corpus *corpus_named(Corpora *all, const char *name)
{
    for (int c = 0; c < all->count; c++)
        if (!strcmp(all->corpus[c].name, name)) return &all->corpus[c];
    all->corpus[all->count].name = name;
    return &all->corpus[all->count++];
}

/* Groups the data sets by corpus. The fork sorts corpora by name; strcmp on UTF-8 gives Python's order of
 * strings. */
static Status corpora_sort(Corpora *all, const BlendSpec *list, const BlendSizes *sizes)
{
    all->corpus = calloc((size_t)list->count, sizeof *all->corpus);
    for (int i = 0; all->corpus && i < list->count; i++) {
        Corpus *c = corpus_named(all, list->part[i].corpus);
        TRY(ARRAY_RESERVE(c->member, c->room, c->count + 1));
        c->member[c->count++] = i;
        c->samples += sizes->asked[i];
    }
    if (!all->corpus) return fail(NO_MEMORY, "no memory for %d data sets", list->count);
    qsort(all->corpus, (size_t)all->count, sizeof *all->corpus, corpus_compare);
    return OK;
}

static Status corpus_blend(Corpus *c, const BlendSizes *sizes)
{
    double *weight = calloc((size_t)c->count, sizeof *weight);
    for (int i = 0; weight && i < c->count; i++)
        weight[i] = (double)sizes->asked[c->member[i]] / (double)c->samples;
    Status status = weight ? blend_greedy(&c->which, &c->sample, weight, c->count)
                           : fail(NO_MEMORY, "no memory for corpus %s", c->name);
    free(weight);
    return status;
}

static void corpus_concatenate(Corpus *c, const BlendSizes *sizes)
{
    int64_t row = 0;
    for (int i = 0; i < c->count; i++)
        for (int64_t k = 0; k < sizes->asked[c->member[i]]; k++, row++) {
            ((int16_t *)c->which.made)[row]  = (int16_t)i;
            ((int64_t *)c->sample.made)[row] = k;
        }
}

static Status corpus_make(Corpus *c, const BlendSizes *sizes, const BlendRules *spec)
{
    Mt19937 random;
    TRY(indices_new(&c->which, &c->sample, c->samples));
    TRY(npy_array_new(&c->shuffle, NPY_I64, c->samples, 1));
    for (int64_t j = 0; j < c->samples; j++) ((int64_t *)c->shuffle.made)[j] = j;
    mt19937_seed(&random, (uint32_t)spec->seed);
    if (spec->corpus_shuffled) mt19937_shuffle(&random, c->shuffle.made, 8, c->samples);
    if (spec->corpus_blended) return corpus_blend(c, sizes);
    corpus_concatenate(c, sizes);
    return OK;
}

/* Blends the corpora, sorted by name, by their shares of `made`, the samples built for training; then
 * replaces each sample (corpus, k) by the data set and sample that it is there. */
static Status corpora_blend(Blend *b, const Corpora *all, int64_t made)
{
    double *weight = calloc((size_t)all->count, sizeof *weight);
    for (int c = 0; weight && c < all->count; c++) weight[c] = (double)all->corpus[c].samples / (double)made;
    Status status = weight ? weights_normalize(weight, all->count, SUM_NUMPY)
                           : fail(NO_MEMORY, "no memory for %d corpora", all->count);
    if (status == OK) status = blend_greedy(&b->which, &b->sample, weight, all->count);
    free(weight);
    int16_t *which = b->which.made;
    int64_t *sample = b->sample.made;
    for (int64_t s = 0; status == OK && s < b->samples; s++) {
        const Corpus *c = &all->corpus[which[s]];
        if (sample[s] >= c->samples)
            return fail(BAD_OPTION, "corpus %s: sample %" PRId64 " of %" PRId64 " is requested; raise"
                        " --mid-level-dataset-surplus", c->name, sample[s], c->samples);
        int64_t j = npy_array_at(&c->shuffle, sample[s]);
        which[s]  = (int16_t)c->member[npy_array_at(&c->which, j)];
        sample[s] = npy_array_at(&c->sample, j);
    }
    return status;
}

static Status level_two(Blend *b, const BlendSizes *sizes, const BlendSpec *list, const BlendRules *spec)
{
    Corpora all = { 0 };
    int64_t made = 0;
    for (int i = 0; i < list->count; i++) made += fork_samples(spec->wanted_train, sizes->weight[i], spec);
    Status status = corpora_sort(&all, list, sizes);
    for (int c = 0; status == OK && c < all.count; c++) status = corpus_make(&all.corpus[c], sizes, spec);
    if (status == OK) status = corpora_blend(b, &all, made);
    for (int c = 0; c < all.count; c++) {
        free(all.corpus[c].member);
        npy_array_close(&all.corpus[c].which);
        npy_array_close(&all.corpus[c].sample);
        npy_array_close(&all.corpus[c].shuffle);
    }
    free(all.corpus);
    return status;
}

/* ---- the cache ---- */

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* A hash of everything per data set that determines the two indices. */
static uint64_t parts_hash(const Blend *b, const BlendSizes *sizes, const BlendSpec *list)
{
    uint64_t hash = (uint64_t)b->count;
    for (int i = 0; i < b->count; i++) {
        const char *corpus = list->part[i].corpus;
        hash = random_mix(random_mix(hash, bits_of(sizes->weight[i])), (uint64_t)sizes->asked[i]);
        hash = random_mix(hash, corpus ? random_key(1, corpus) : 0);
    }
    return hash;
}

/* The description of the cache entry: everything that determines the two indices. A change of its text
 * makes old caches unusable. */
static Status blend_cache_name(NpyCache *cache, char words[1024], const Blend *b, const BlendSizes *sizes,
                               const BlendSpec *list, const BlendRules *spec, SplitKind kind)
{
    snprintf(words, 1024, "BlendedDataset 1\ndata sets %d, weights, samples and corpora %016" PRIx64
             "\nsamples %" PRId64 " of %" PRId64 ", to train %" PRId64
             "\nrule %d, weighed %d, corpora shuffled %d, blended %d\nrandom_seed %" PRIu64
             "\nsurplus %.17g\n", b->count, parts_hash(b, sizes, list), b->samples, spec->wanted,
             spec->wanted_train, (int)spec->kind, list->weighted, spec->corpus_shuffled, spec->corpus_blended,
             spec->seed, spec->surplus);
    return npy_cache_name(cache, spec->cache, "BlendedDataset", split_name(kind), words);
}

/* No sample may be beyond what its data set has, which Megatron reports as an error too. It also validates
 * indices from the cache, whose files are not trusted. */
static Status blend_check(const Blend *b, const BlendSpec *list)
{
    for (int64_t s = 0; s < b->samples; s++) {
        int64_t i = npy_array_at(&b->which, s), k = npy_array_at(&b->sample, s);
        if (i < 0 || i >= b->count || k < 0)
            return fail(BAD_FILE, "sample %" PRId64 " of a blend is of data set %" PRId64, s, i);
        if (k >= b->order[i].plan.samples)
            return fail(BAD_OPTION, "%s: the blend requests sample %" PRId64 " of its %" PRId64 "; raise"
                        " --mid-level-dataset-surplus", list->part[i].prefix, k, b->order[i].plan.samples);
    }
    return OK;
}

/* Maps and validates the indices; changes *b only if both are usable. */
static bool indices_map(Blend *b, const NpyCache *cache, const BlendSpec *list)
{
    NpyArray which  = { .type = NPY_I16, .rows = b->samples, .columns = 1 };
    NpyArray sample = { .type = NPY_I64, .rows = b->samples, .columns = 1 };
    bool found = npy_cache_holds(cache) && npy_cache_map(cache, "dataset_index", &which) &&
                 npy_cache_map(cache, "dataset_sample_index", &sample);
    Blend mapped = *b;
    mapped.which = which, mapped.sample = sample;
    if (found && blend_check(&mapped, list) == OK) {
        *b = mapped;
        return true;
    }
    npy_array_close(&which);
    npy_array_close(&sample);
    return false;
}

static Status levels_make(Blend *b, BlendSizes *sizes, const BlendSpec *list, const BlendRules *spec)
{
    TRY(indices_new(&b->which, &b->sample, b->samples));
    TRY(list->part[0].corpus ? level_two(b, sizes, list, spec) : level_one(b, sizes, list, spec));
    return blend_check(b, list);
}

static Status levels_cached(Blend *b, BlendSizes *sizes, const BlendSpec *list, const BlendRules *spec,
                            SplitKind kind)
{
    char words[1024];
    NpyCache cache;
    TRY(blend_cache_name(&cache, words, b, sizes, list, spec, kind));
    if (indices_map(b, &cache, list)) return OK;
    TRY(levels_make(b, sizes, list, spec));
    TRY(npy_cache_write(&cache, "dataset_index", &b->which));
    TRY(npy_cache_write(&cache, "dataset_sample_index", &b->sample));
    TRY(npy_cache_finish(&cache));
    /* Mapped pages are shared by all ranks of a host, so what was built is replaced by the mapping. */
    NpyArray which = b->which, sample = b->sample;
    if (indices_map(b, &cache, list)) {
        npy_array_close(&which);
        npy_array_close(&sample);
    }
    return OK;
}

/* ---- opening ---- */

static Status orders_measure(Blend *b, const TokenFile *token_files, const BlendSizes *sizes,
                             const BlendRules *spec, SplitKind kind)
{
    SplitRounding rounding = spec->kind == BLEND_CORE ? SPLIT_SUMS : SPLIT_PARTS;
    for (int i = 0; i < b->count; i++) {
        OrderSpec one = { .wanted = sizes->made[i], .sequence = spec->sequence, .seed = spec->seed,
                          .final_epoch_cut = spec->final_epoch_cut };
        TRY(split_range(&one.begin, &one.end, spec->split, kind, rounding, token_files[i].sequences));
        TRY(order_measure(&b->order[i], &token_files[i], &one));
    }
    return OK;
}

/* With weights: the sum of the data sets' sizes. Without weights: one epoch of each data set, whose weight
 * is its length. With corpora: exactly the samples requested, which are a prefix of any longer blend. */
static void samples_count(Blend *b, BlendSizes *sizes, const BlendSpec *list, const BlendRules *spec)
{
    int64_t all = 0;
    b->plain = list->count == 1 && !list->weighted;
    for (int i = 0; i < b->count; i++) {
        if (!list->weighted)
            sizes->asked[i] = b->order[i].plan.samples, sizes->weight[i] = (double)sizes->asked[i];
        all += sizes->asked[i];
    }
    if (b->plain) b->samples = b->order[0].plan.samples;
    else if (list->part[0].corpus) b->samples = spec->wanted;
    else b->samples = list->weighted || spec->wanted < 0 || spec->wanted > all ? all : spec->wanted;
}

static Status blend_count(Blend *b, BlendSizes *sizes, const TokenFile *token_files, const BlendSpec *list,
                          const BlendRules *spec, SplitKind kind)
{
    if (list->part[0].corpus && spec->kind == BLEND_CORE)
        return fail(BAD_OPTION,
                    "a list of three columns (weight, prefix, corpus) is blended only by"
                    " --data-order megatron-forks");
    if (list->weighted && spec->wanted < 0)
        return fail(BAD_OPTION,
                    "weights need a number of samples; give prefixes without weights, or --train-iters N");
    TRY(sizes_new(sizes, list, spec));
    TRY(orders_measure(b, token_files, sizes, spec, kind));
    samples_count(b, sizes, list, spec);
    if (b->samples < spec->wanted)
        return fail(BAD_OPTION,
                    "prefixes without weights give one epoch of each: %" PRId64 " samples to %s, and the run"
                    " takes %" PRId64 "; give weights or fewer --train-iters", b->samples, split_name(kind),
                    spec->wanted);
    return OK;
}

static Status indices_make(Blend *b, BlendSizes *sizes, const TokenFile *token_files, const BlendSpec *list,
                           const BlendRules *spec, SplitKind kind)
{
    for (int i = 0; i < b->count; i++) {
        OrderSpec one = b->order[i].spec;
        TRY(order_open(&b->order[i], &token_files[i], &one, kind, spec->cache));
    }
    if (b->plain) return OK;
    return spec->cache ? levels_cached(b, sizes, list, spec, kind) : levels_make(b, sizes, list, spec);
}

/* The numbers first: they find all errors in options before hours are spent on indices. */
static Status blend_start(Blend *blend, const TokenFile *token_files, const BlendSpec *list,
                          const BlendRules *spec, SplitKind kind, bool make)
{
    BlendSizes sizes = { 0 };
    *blend = (Blend){ .count = list->count, .order = calloc((size_t)list->count, sizeof *blend->order) };
    Status status = blend->order ? blend_count(blend, &sizes, token_files, list, spec, kind)
                                 : fail(NO_MEMORY, "no memory for %d data sets", list->count);
    if (status == OK && make) status = indices_make(blend, &sizes, token_files, list, spec, kind);
    sizes_close(&sizes);
    if (status != OK) blend_close(blend);
    return status;
}

Status blend_open(Blend *blend, const TokenFile *token_files, const BlendSpec *list, const BlendRules *spec,
                  SplitKind kind)
{
    return blend_start(blend, token_files, list, spec, kind, true);
}

Status blend_measure(Blend *blend, const TokenFile *token_files, const BlendSpec *list,
                     const BlendRules *spec, SplitKind kind)
{
    return blend_start(blend, token_files, list, spec, kind, false);
}

int64_t blend_bytes(const Blend *b)
{
    int64_t bytes = b->plain ? 0 : b->samples * (npy_array_width(NPY_I16) + npy_array_width(NPY_I64));
    for (int i = 0; i < b->count; i++) bytes += order_bytes(&b->order[i]);
    return bytes;
}

void blend_close(Blend *blend)
{
    for (int i = 0; blend->order && i < blend->count; i++) order_close(&blend->order[i]);
    free(blend->order);
    npy_array_close(&blend->which);
    npy_array_close(&blend->sample);
    *blend = (Blend){ 0 };
}

OrderReader blend_read(const Blend *b, int64_t k)
{
    if (b->plain) return order_read(&b->order[0], k);
    return order_read(&b->order[npy_array_at(&b->which, k)], npy_array_at(&b->sample, k));
}
