#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "data/datasets.h"

static bool own_paths(const DatasetRules *r) { return r->own[SPLIT_TRAIN].count || r->own[SPLIT_VALID].count || r->own[SPLIT_TEST].count; }

bool datasets_has(const DatasetRules *rules, SplitKind kind) { return !own_paths(rules) || rules->own[kind].count > 0; }

const DatasetFiles *datasets_files(const Datasets *datasets, SplitKind kind) { return &datasets->pairs[own_paths(&datasets->spec.rules) ? kind : SPLIT_TRAIN]; }

static const char *datasets_split(const Datasets *datasets) { return own_paths(&datasets->spec.rules) ? NULL : datasets->spec.split; }

static Status pairs_list(BlendSpec *list, const DatasetRules *rules, DatasetWords words)
{
    TRY(rules->list ? blend_spec_file(list, rules->list) : blend_spec_words(list, words.text, words.count));
    if (list->count == 0) return fail(BAD_OPTION, "--data-path names no data; give PREFIX or W PREFIX W PREFIX ...");
    if (rules->order != ORDER_JOTUN || (list->count == 1 && !list->weighed)) return OK;
    if (list->count == 1)
        return fail(BAD_OPTION, "--data-path %g %s: --data-order jotun reads one prefix, whose weight says nothing; leave the weight out",
                    list->part[0].weight, list->part[0].prefix);
    return fail(BAD_OPTION, "--data-order jotun reads one prefix without a weight, and there are %d; --data-order megatron blends them",
                list->count);
}

static Status pairs_open(DatasetFiles *pairs, const DatasetRules *rules, DatasetWords words)
{
    TRY(pairs_list(&pairs->list, rules, words));
    pairs->token_file = calloc((size_t)pairs->list.count, sizeof *pairs->token_file);
    if (!pairs->token_file) return fail(NO_MEMORY, "no memory for %d data sets", pairs->list.count);
    for (int i = 0; i < pairs->list.count; i++) TRY(token_file_open(&pairs->token_file[i], pairs->list.part[i].prefix));
    return OK;
}

Status datasets_open(Datasets *datasets, const DatasetsPlan *spec)
{
    const DatasetRules *rules = &spec->rules;
    *datasets = (Datasets){ .spec = *spec };
    Status status = own_paths(rules) ? OK : pairs_open(&datasets->pairs[SPLIT_TRAIN], rules, rules->words);
    for (int kind = 0; status == OK && kind < SPLITS; kind++)
        if (rules->own[kind].count) status = pairs_open(&datasets->pairs[kind], rules, rules->own[kind]);
    if (status != OK) datasets_close(datasets);
    return status;
}

static BlendRules blend_spec(const Datasets *datasets, SplitKind kind, const LoaderConfig *config)
{
    const DatasetRules *rules = &datasets->spec.rules;
    return (BlendRules){ .kind = rules->order == ORDER_MEGATRON ? BLEND_CORE : BLEND_FORKS, .split = datasets_split(datasets),
        .wanted = datasets->spec.wanted[kind], .wanted_train = datasets->spec.wanted[SPLIT_TRAIN],
        .sequence = config->sequence, .seed = config->seed, .cut = rules->cut, .surplus = rules->surplus,
        .corpus_shuffled = rules->corpus_shuffled, .corpus_blended = rules->corpus_blended, .cache = rules->cache };
}

Status datasets_loader(Datasets *datasets, Loader *loader, SplitKind kind, LoaderConfig config)
{
    const DatasetRules *rules = &datasets->spec.rules;
    const DatasetFiles *pairs = datasets_files(datasets, kind);
    if (rules->order == ORDER_JOTUN) return loader_open(loader, pairs->token_file, datasets_split(datasets), kind, config);
    BlendRules spec = blend_spec(datasets, kind, &config);
    TRY(loader_open_blend(loader, &datasets->blend[kind], config));             /* the shape is judged before hours of indices */
    return blend_open(&datasets->blend[kind], pairs->token_file, &pairs->list, &spec, kind);
}

/* Our order takes every epoch whole, and the next one begins where it ends. */
static Status plain_measure(Datasets *datasets, SplitKind kind, const LoaderConfig *config)
{
    Loader loader;
    Blend *b = &datasets->blend[kind];
    TRY(loader_open(&loader, datasets_files(datasets, kind)->token_file, datasets_split(datasets), kind, *config));
    *b = (Blend){ .count = 1, .plain = true, .order = calloc(1, sizeof *b->order) };
    if (!b->order) return fail(NO_MEMORY, "no memory for a data set");
    b->samples = datasets->spec.wanted[kind] < 0 ? loader.samples : datasets->spec.wanted[kind];
    b->order->plan = (OrderPlan){ .tokens = loader.tokens, .samples = loader.samples, .epochs = (b->samples + loader.samples - 1) / loader.samples };
    return OK;
}

Status datasets_measure(Datasets *datasets, SplitKind kind, const LoaderConfig *config)
{
    const DatasetFiles *pairs = datasets_files(datasets, kind);
    if (datasets->spec.rules.order == ORDER_JOTUN) return plain_measure(datasets, kind, config);
    BlendRules spec = blend_spec(datasets, kind, config);
    return blend_measure(&datasets->blend[kind], pairs->token_file, &pairs->list, &spec, kind);
}

/* ---- pairs written anew while a run rests ---- */

const char *datasets_fingerprints(Datasets *datasets)
{
    char   print[TOKEN_FILE_FINGERPRINT];
    size_t bytes;
    FILE  *out = datasets->prints ? NULL : open_memstream(&datasets->prints, &bytes);
    for (int kind = 0; out && kind < SPLITS; kind++)
        for (int i = 0; datasets->pairs[kind].token_file && i < datasets->pairs[kind].list.count; i++) {
            token_file_fingerprint(print, &datasets->pairs[kind].token_file[i]);
            fprintf(out, "%s\t%s\n", datasets->pairs[kind].list.part[i].prefix, print);
        }
    if (!out || fclose(out) == 0) return datasets->prints;
    free(datasets->prints);
    return datasets->prints = NULL;
}

/* A line of today's: prefix, tab, print. Older checkpoints have no blocks in theirs: then the rest is compared. */
static void line_compare(const char *line, size_t bytes, const char *prints)
{
    const char *tab = memchr(line, '\t', bytes);
    if (!tab) return;                          /* of a prefix with a newline in it */
    size_t head = (size_t)(tab - line) + 1;
    for (const char *was = prints; *was; was += strcspn(was, "\n"), was += *was == '\n') {
        size_t all = strcspn(was, "\n");
        if (all < head || memcmp(was, line, head)) continue;
        bool older = all < bytes && !strncmp(line + all, ", blocks ", 9);
        if ((all == bytes || older) && !memcmp(was, line, all)) return;
        log_line("goes on with %.*s (%.*s) where the checkpoint had it with %.*s: it was written anew, and the run is not the one that was begun",
                 (int)head - 1, line, (int)(bytes - head), line + head, (int)(all - head), was + head);
        return;
    }
}

Status datasets_compare(Datasets *datasets, const char *prints)
{
    const char *now = datasets_fingerprints(datasets);
    if (!now) return fail(NO_MEMORY, "no memory for the names of the data");
    for (const char *line = now; *line; line += strcspn(line, "\n") + 1) line_compare(line, strcspn(line, "\n"), prints);
    return OK;
}

void datasets_close(Datasets *datasets)
{
    for (int kind = 0; kind < SPLITS; kind++) {
        DatasetFiles *pairs = &datasets->pairs[kind];
        blend_close(&datasets->blend[kind]);
        for (int i = 0; pairs->token_file && i < pairs->list.count; i++) token_file_close(&pairs->token_file[i]);
        free(pairs->token_file);
        blend_spec_close(&pairs->list);
    }
    free(datasets->prints);
    *datasets = (Datasets){ 0 };
}
