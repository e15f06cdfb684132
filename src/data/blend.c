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

/* Sample s is from the first data set i with the largest weight[i] * max(s, 1) - used[i], where used[i] is
 * the number of samples it has received. The weights must sum to 1. Double precision and the order of
 * operations are Megatron's: a tie that is decided otherwise changes all later samples. */
static Status blend_greedy(NpyArray *which, NpyArray *sample, const double *weight, int count)
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

/* A blend that is built. Of each data set: the samples that the blend uses, the samples that its order is
 * built for (with a surplus), and its weight. All arrays are [count] and owned. */
typedef struct {
    Blend            *blend;
    const TokenFile  *token_files;
    const BlendSpec  *list;
    const BlendRules *rules;
    SplitKind         kind;
    int64_t          *asked, *made;
    double           *weight;
} Build;

/* The forks round once, Megatron-core twice (sizes_new). */
static int64_t fork_samples(int64_t wanted, double weight, const BlendRules *rules)
{
    return (int64_t)ceil((double)wanted * weight * (1 + rules->surplus));
}

static Status sizes_new(Build *u)
{
    const BlendSpec  *list  = u->list;
    const BlendRules *rules = u->rules;
    size_t n = (size_t)list->count;
    u->asked  = calloc(n, sizeof *u->asked);
    u->made   = calloc(n, sizeof *u->made);
    u->weight = calloc(n, sizeof *u->weight);
    if (!u->asked || !u->made || !u->weight)
        return fail(NO_MEMORY, "no memory to blend %d data sets", list->count);
    for (int i = 0; i < list->count; i++) u->weight[i] = list->part[i].weight;
    WeightSum how = rules->kind == BLEND_CORE ? SUM_NUMPY : SUM_IN_A_ROW;
    if (list->weighted) TRY(weights_normalize(u->weight, list->count, how));
    for (int i = 0; i < list->count; i++) {
        double weight = u->weight[i], wanted = (double)rules->wanted;
        if (!list->weighted) u->made[i] = list->count == 1 ? rules->wanted : ORDER_ONE_EPOCH;
        else if (rules->kind == BLEND_CORE) {
            u->asked[i] = (int64_t)ceil(wanted * weight);
            u->made[i]  = (int64_t)ceil((double)u->asked[i] * (1 + rules->surplus));
        } else u->asked[i] = u->made[i] = fork_samples(rules->wanted, weight, rules);
    }
    return OK;
}

/* ---- one level ---- */

/* In an epoch without weights each data set's weight is its share of all samples, so that each is used
 * exactly once. Otherwise the weights are divided by their sum a second time, as Megatron does it: the
 * second division can change the last bit. */
static Status level_one(Build *u)
{
    Blend *b = u->blend;
    if (!u->list->weighted && u->rules->wanted < 0)
        for (int i = 0; i < b->count; i++) u->weight[i] /= (double)b->samples;
    else TRY(weights_normalize(u->weight, b->count, SUM_NUMPY));
    return blend_greedy(&b->which, &b->sample, u->weight, b->count);
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
static Status corpora_sort(Corpora *all, const Build *u)
{
    const BlendSpec *list = u->list;
    all->corpus = calloc((size_t)list->count, sizeof *all->corpus);
    for (int i = 0; all->corpus && i < list->count; i++) {
        Corpus *c = corpus_named(all, list->part[i].corpus);
        TRY(ARRAY_RESERVE(c->member, c->room, c->count + 1));
        c->member[c->count++] = i;
        c->samples += u->asked[i];
    }
    if (!all->corpus) return fail(NO_MEMORY, "no memory for %d data sets", list->count);
    qsort(all->corpus, (size_t)all->count, sizeof *all->corpus, corpus_compare);
    return OK;
}

static Status corpus_blend(Corpus *c, const Build *u)
{
    double *weight = calloc((size_t)c->count, sizeof *weight);
    for (int i = 0; weight && i < c->count; i++)
        weight[i] = (double)u->asked[c->member[i]] / (double)c->samples;
    Status status = weight ? blend_greedy(&c->which, &c->sample, weight, c->count)
                           : fail(NO_MEMORY, "no memory for corpus %s", c->name);
    free(weight);
    return status;
}

static void corpus_concatenate(Corpus *c, const Build *u)
{
    int64_t row = 0;
    for (int i = 0; i < c->count; i++)
        for (int64_t k = 0; k < u->asked[c->member[i]]; k++, row++) {
            ((int16_t *)c->which.made)[row]  = (int16_t)i;
            ((int64_t *)c->sample.made)[row] = k;
        }
}

static Status corpus_make(Corpus *c, const Build *u)
{
    Mt19937 random;
    c->which  = npy_array(NPY_I16, c->samples, 1);
    c->sample = c->shuffle = npy_array(NPY_I64, c->samples, 1);
    TRY(npy_array_make(&c->which));
    TRY(npy_array_make(&c->sample));
    TRY(npy_array_make(&c->shuffle));
    for (int64_t j = 0; j < c->samples; j++) ((int64_t *)c->shuffle.made)[j] = j;
    mt19937_seed(&random, (uint32_t)u->rules->seed);
    if (u->rules->corpus_shuffled) mt19937_shuffle(&random, c->shuffle.made, 8, c->samples);
    if (u->rules->corpus_blended) return corpus_blend(c, u);
    corpus_concatenate(c, u);
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

static Status level_two(Build *u)
{
    Corpora all = { 0 };
    int64_t made = 0;
    for (int i = 0; i < u->list->count; i++)
        made += fork_samples(u->rules->wanted_train, u->weight[i], u->rules);
    Status status = corpora_sort(&all, u);
    for (int c = 0; status == OK && c < all.count; c++) status = corpus_make(&all.corpus[c], u);
    if (status == OK) status = corpora_blend(u->blend, &all, made);
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
static uint64_t parts_hash(const Build *u)
{
    uint64_t hash = (uint64_t)u->list->count;
    for (int i = 0; i < u->list->count; i++) {
        const char *corpus = u->list->part[i].corpus;
        hash = random_mix(random_mix(hash, bits_of(u->weight[i])), (uint64_t)u->asked[i]);
        hash = random_mix(hash, corpus ? random_key(1, corpus) : 0);
    }
    return hash;
}

/* No sample may be beyond what its data set has, which Megatron reports as an error too. It also validates
 * indices from the cache, whose files are not trusted. */
static Status blend_check(const Build *u)
{
    const Blend *b = u->blend;
    for (int64_t s = 0; s < b->samples; s++) {
        int64_t i = npy_array_at(&b->which, s), k = npy_array_at(&b->sample, s);
        if (i < 0 || i >= b->count || k < 0)
            return fail(BAD_FILE, "sample %" PRId64 " of a blend is of data set %" PRId64, s, i);
        if (k >= b->order[i].plan.samples)
            return fail(BAD_OPTION, "%s: the blend requests sample %" PRId64 " of its %" PRId64 "; raise"
                        " --mid-level-dataset-surplus", u->list->part[i].prefix, k, b->order[i].plan.samples);
    }
    return OK;
}

static bool indices_valid(void *context) { return blend_check(context) == OK; }

static Status levels_make(void *context)
{
    Build *u = context;
    TRY(npy_array_make(&u->blend->which));
    TRY(npy_array_make(&u->blend->sample));
    TRY(u->list->part[0].corpus ? level_two(u) : level_one(u));
    return blend_check(u);
}

/* The description of the cache entry has everything that determines the two indices. A change of its text
 * makes old caches unusable. */
static Status levels_cached(Build *u)
{
    char words[1024];
    NpyCache cache;
    Blend *b = u->blend;
    const BlendRules *r = u->rules;
    snprintf(words, sizeof words, "BlendedDataset 1\ndata sets %d, weights, samples and corpora %016" PRIx64
             "\nsamples %" PRId64 " of %" PRId64 ", to train %" PRId64
             "\nrule %d, weighed %d, corpora shuffled %d, blended %d\nrandom_seed %" PRIu64
             "\nsurplus %.17g\n", b->count, parts_hash(u), b->samples, r->wanted, r->wanted_train,
             (int)r->kind, u->list->weighted, r->corpus_shuffled, r->corpus_blended, r->seed, r->surplus);
    TRY(npy_cache_name(&cache, r->cache, "BlendedDataset", split_name(u->kind), words));
    return npy_cache_open(&cache, &(NpyEntry){
        { { "dataset_index", &b->which }, { "dataset_sample_index", &b->sample } }, 2, levels_make,
        indices_valid, u });
}

/* ---- opening ---- */

/* The sequences of a data set that are read: its own part, or that of --split. */
static Status sequences_range(OrderSpec *out, const BlendPart *part, const BlendRules *rules, SplitKind kind,
                              int64_t sequences)
{
    SplitRounding rounding = rules->kind == BLEND_CORE ? SPLIT_SUMS : SPLIT_PARTS;
    if (part->end <= 0) return split_range(&out->begin, &out->end, rules->split, kind, rounding, sequences);
    out->begin = (int64_t)rint(part->begin * (double)sequences);
    out->end   = (int64_t)rint(part->end * (double)sequences);
    return OK;
}

static Status orders_measure(const Build *u)
{
    const BlendRules *r = u->rules;
    for (int i = 0; i < u->list->count; i++) {
        OrderSpec one = { .wanted = u->made[i], .sequence = r->sequence, .seed = r->seed,
                          .final_epoch_cut = r->final_epoch_cut };
        TRY(sequences_range(&one, &u->list->part[i], r, u->kind, u->token_files[i].sequences));
        TRY(order_measure(&u->blend->order[i], &u->token_files[i], &one));
    }
    return OK;
}

/* With weights: the sum of the data sets' sizes. Without weights: one epoch of each data set, whose weight
 * is its length. With corpora: exactly the samples requested, which are a prefix of any longer blend. */
static void samples_count(Build *u)
{
    Blend  *b = u->blend;
    int64_t all = 0, wanted = u->rules->wanted;
    bool    weighted = u->list->weighted;
    b->plain = b->count == 1 && !weighted;
    for (int i = 0; i < b->count; i++) {
        if (!weighted) u->asked[i] = b->order[i].plan.samples, u->weight[i] = (double)u->asked[i];
        all += u->asked[i];
    }
    if (b->plain) b->samples = b->order[0].plan.samples;
    else if (u->list->part[0].corpus) b->samples = wanted;
    else b->samples = weighted || wanted < 0 || wanted > all ? all : wanted;
}

static Status blend_count(Build *u)
{
    if (u->list->part[0].corpus && u->rules->kind == BLEND_CORE)
        return fail(BAD_OPTION,
                    "a list of three columns (weight, prefix, corpus) is blended only by"
                    " --data-order megatron-forks");
    if (u->list->weighted && u->rules->wanted < 0)
        return fail(BAD_OPTION,
                    "weights need a number of samples; give prefixes without weights, or --train-iters N");
    TRY(sizes_new(u));
    TRY(orders_measure(u));
    samples_count(u);
    if (u->blend->samples < u->rules->wanted)
        return fail(BAD_OPTION,
                    "prefixes without weights give one epoch of each: %" PRId64 " samples to %s, and the run"
                    " takes %" PRId64 "; give weights or fewer --train-iters", u->blend->samples,
                    split_name(u->kind), u->rules->wanted);
    return OK;
}

static Status indices_make(Build *u)
{
    Blend *b = u->blend;
    for (int i = 0; i < b->count; i++) {
        OrderSpec one = b->order[i].spec;
        TRY(order_open(&b->order[i], &u->token_files[i], &one, u->kind, u->rules->cache));
    }
    if (b->plain) return OK;
    b->which  = npy_array(NPY_I16, b->samples, 1);
    b->sample = npy_array(NPY_I64, b->samples, 1);
    return u->rules->cache ? levels_cached(u) : levels_make(u);
}

/* The numbers first: they find all errors in options before hours are spent on indices. */
static Status blend_start(Build u, bool make)
{
    Blend *b = u.blend;
    *b = (Blend){ .count = u.list->count, .order = calloc((size_t)u.list->count, sizeof *b->order) };
    Status status = b->order ? blend_count(&u)
                             : fail(NO_MEMORY, "no memory for %d data sets", u.list->count);
    if (status == OK && make) status = indices_make(&u);
    free(u.asked);
    free(u.made);
    free(u.weight);
    if (status != OK) blend_close(b);
    return status;
}

Status blend_open(Blend *blend, const TokenFile *token_files, const BlendSpec *list, const BlendRules *rules,
                  SplitKind kind)
{
    return blend_start((Build){ blend, token_files, list, rules, kind, NULL, NULL, NULL }, true);
}

Status blend_measure(Blend *blend, const TokenFile *token_files, const BlendSpec *list,
                     const BlendRules *rules, SplitKind kind)
{
    return blend_start((Build){ blend, token_files, list, rules, kind, NULL, NULL, NULL }, false);
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
