/* Opening the token files of the splits, making their loaders, and comparing the files with those of a
 * checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "data/datasets.h"

enum { BRIEF_BLOCKS = 2 };

/* Whether the splits have paths of their own (--train-data-path, ...), which are then used whole. */
static bool has_split_paths(const DatasetRules *r)
{
    const DataPath *path = r->split_path;
    return path[SPLIT_TRAIN].count || path[SPLIT_VALID].count || path[SPLIT_TEST].count;
}

/* The path of the data set's own, with count 0 where it has none. */
static DataPath own_path(const DatasetRules *r, int set)
{
    if (set >= SPLITS) return set - SPLITS < r->valid_sets ? r->valid_set[set - SPLITS] : (DataPath){ 0 };
    return r->split_path[set];
}

bool datasets_has(const DatasetRules *rules, int set)
{
    if (set == SPLIT_VALID && rules->valid_sets > 0) return false;
    return (set < SPLITS && !has_split_paths(rules)) || own_path(rules, set).count > 0;
}

const DatasetFiles *datasets_files(const Datasets *datasets, int set)
{
    return &datasets->files[has_split_paths(&datasets->spec.rules) ? set : SPLIT_TRAIN];
}

static const char *datasets_split(const Datasets *datasets)
{
    return has_split_paths(&datasets->spec.rules) ? NULL : datasets->spec.split;
}

static bool is_number(const char *word)
{
    char *end;
    strtod(word, &end);
    return end != word && !*end;
}

/* Jotun's own order reads exactly one token file; only Megatron's orders blend. */
static Status files_list(BlendSpec *list, const DatasetRules *rules, DataPath path)
{
    if (rules->list)     TRY(blend_spec_file(list, rules->list));
    else if (path.group) TRY(blend_spec_group(list, path.text[0]));
    else                 TRY(blend_spec_words(list, path.text, path.count));
    if (list->count == 0)
        return fail(BAD_OPTION, "--data-path names no data; give PREFIX or W PREFIX W PREFIX ...");
    if (rules->order != ORDER_JOTUN) return OK;
    if (path.group)
        return fail(BAD_OPTION, "%.200s: --data-order jotun reads all of a prefix;"
                    " --data-order megatron-forks reads parts", path.text[0]);
    if (list->count == 1 && !list->weighted) return OK;
    if (list->count == 1)
        return fail(BAD_OPTION,
                    "--data-path %g %s: --data-order jotun reads one prefix, for which a weight has no"
                    " meaning; leave the weight out", list->part[0].weight, list->part[0].prefix);
    for (int i = 0; !list->weighted && i < list->count; i++)
        if (is_number(list->part[i].prefix))
            return fail(BAD_OPTION, "--data-path has %d words, so that %s is a prefix and no weight; weights "
                        "and prefixes are pairs, W PREFIX W PREFIX ..., which --data-order megatron blends",
                        list->count, list->part[i].prefix);
    return fail(BAD_OPTION,
                "--data-order jotun reads one prefix without a weight, and there are %d; --data-order"
                " megatron blends them", list->count);
}

static Status files_open(DatasetFiles *files, const DatasetRules *rules, DataPath path)
{
    TRY(files_list(&files->list, rules, path));
    files->token_file = calloc((size_t)files->list.count, sizeof *files->token_file);
    if (!files->token_file) return fail(NO_MEMORY, "no memory for %d data sets", files->list.count);
    if (rules->mock) token_file_mock(files->token_file, rules->mock, rules->mock_eod);
    for (int i = 0; i < files->list.count && !rules->mock; i++)
        TRY(token_file_open(&files->token_file[i], files->list.part[i].prefix));
    return OK;
}

Status datasets_open(Datasets *datasets, const DatasetsPlan *spec)
{
    const DatasetRules *rules = &spec->rules;
    *datasets = (Datasets){ .spec = *spec };
    static const char *const made = "mock data";
    DataPath whole = rules->mock ? (DataPath){ .text = &made, .count = 1 } : rules->data_path;
    Status status = has_split_paths(rules) ? OK : files_open(&datasets->files[SPLIT_TRAIN], rules, whole);
    for (int set = 0; status == OK && set < DATA_SETS; set++)
        if (own_path(rules, set).count)
            status = files_open(&datasets->files[set], rules, own_path(rules, set));
    if (status != OK) datasets_close(datasets);
    return status;
}

Status datasets_suit(const Datasets *datasets, const TokenReader *reader)
{
    for (int set = 0; set < DATA_SETS; set++) {
        const DatasetFiles *files = &datasets->files[set];
        for (int i = 0; files->token_file && i < files->list.count; i++)
            TRY(token_facts_suit(&files->token_file[i], files->list.part[i].prefix, reader));
    }
    return OK;
}

static BlendRules blend_rules(const Datasets *datasets, int set, const LoaderConfig *config)
{
    const DatasetRules *rules = &datasets->spec.rules;
    return (BlendRules){
        .kind = rules->order == ORDER_MEGATRON ? BLEND_CORE : BLEND_FORKS, .split = datasets_split(datasets),
        .wanted = datasets->spec.wanted[set], .wanted_train = datasets->spec.wanted[SPLIT_TRAIN],
        .sequence = config->sequence, .seed = config->seed, .final_epoch_cut = rules->final_epoch_cut,
        .surplus = rules->surplus,
        .corpus_shuffled = rules->corpus_shuffled, .corpus_blended = rules->corpus_blended,
        .cache = rules->cache };
}

/* In jotun's order, of one token file. */
static Status plain_loader(Datasets *datasets, Loader *loader, int set, LoaderConfig config)
{
    const TokenFile *file = datasets_files(datasets, set)->token_file;
    const char *split = datasets_split(datasets);
    SampleBreak breaks = datasets->spec.rules.breaks;
    int64_t begin, end;
    if (breaks == BREAK_OVERLAPPING) return loader_open(loader, file, split, set_split(set), config);
    TRY(split_range(&begin, &end, split, set_split(set), SPLIT_SUMS, file->sequences));
    TRY(blocks_open(&datasets->blocks[set], file, begin, end, breaks, config.sequence, config.eod));
    return loader_open_blocks(loader, &datasets->blocks[set], set_split(set), config);
}

Status datasets_loader(Datasets *datasets, Loader *loader, int set, LoaderConfig config)
{
    const DatasetRules *rules = &datasets->spec.rules;
    const DatasetFiles *files = datasets_files(datasets, set);
    if (rules->order == ORDER_JOTUN)
        return plain_loader(datasets, loader, set, config);
    BlendRules spec = blend_rules(datasets, set, &config);
    /* The loader checks batch sizes, so it is opened before hours may be spent on building indices. */
    TRY(loader_open_blend(loader, &datasets->blend[set], config));
    return blend_open(&datasets->blend[set], files->token_file, &files->list, &spec, set_split(set));
}

/* Jotun's order uses every epoch completely before the next one begins. */
static Status plain_measure(Datasets *datasets, int set, const LoaderConfig *config)
{
    Loader loader;
    Blend *b = &datasets->blend[set];
    TRY(plain_loader(datasets, &loader, set, *config));
    *b = (Blend){ .count = 1, .plain = true, .order = calloc(1, sizeof *b->order) };
    if (!b->order) return fail(NO_MEMORY, "no memory for a data set");
    b->samples = datasets->spec.wanted[set] < 0 ? loader.samples : datasets->spec.wanted[set];
    b->order->plan = (OrderPlan){ .tokens = loader.tokens, .samples = loader.samples,
                                  .epochs = (b->samples + loader.samples - 1) / loader.samples };
    return OK;
}

Status datasets_measure(Datasets *datasets, int set, const LoaderConfig *config)
{
    const DatasetFiles *files = datasets_files(datasets, set);
    if (datasets->spec.rules.order == ORDER_JOTUN) return plain_measure(datasets, set, config);
    BlendRules spec = blend_rules(datasets, set, config);
    return blend_measure(&datasets->blend[set], files->token_file, &files->list, &spec, set_split(set));
}

/* ---- token files that are replaced between the saving and the resuming of a run ---- */

/* The arguments and the result of token_file_fingerprint, for token_file_guarded. */
typedef struct { char text[TOKEN_FILE_FINGERPRINT]; const TokenFile *token_file; int blocks; } Fingerprint;

static void fingerprint_guarded(void *context)
{
    Fingerprint *f = context;
    token_file_fingerprint(f->text, f->token_file, f->blocks);
}

/* A line for each token file, after one with its weight if `weights`. *text is NULL after a failure. */
static Status fingerprints_write(char **text, const Datasets *datasets, const char *between, int blocks,
                                 bool weights)
{
    size_t bytes;
    Status status = OK;
    FILE  *out = open_memstream(text, &bytes);
    for (int set = 0; out && set < DATA_SETS; set++) {
        const DatasetFiles *files = &datasets->files[set];
        for (int i = 0; files->token_file && i < files->list.count && status == OK; i++) {
            Fingerprint f = { .token_file = &files->token_file[i], .blocks = blocks };
            status = token_file_guarded(f.token_file, fingerprint_guarded, &f);
            const BlendPart *part = &files->list.part[i];
            if (weights)
                fprintf(out, "weight %.17g, part %.17g to %.17g\n", part->weight, part->begin, part->end);
            fprintf(out, "%s%s%s\n", files->list.part[i].prefix, between, f.text);
        }
    }
    if ((!out || fclose(out) != 0) && status == OK)
        status = fail(NO_MEMORY, "no memory for the names of the data");
    if (status == OK) return OK;
    if (out) free(*text);
    *text = NULL;
    return status;
}

Status datasets_brief(const Datasets *datasets, char **text)
{
    return fingerprints_write(text, datasets, ": ", BRIEF_BLOCKS, true);
}

Status datasets_fingerprints(Datasets *datasets, const char **text)
{
    int64_t files = 0;                         /* of all splits: each gets an equal share of what is read */
    for (int set = 0; set < DATA_SETS; set++)
        files += datasets->files[set].token_file ? datasets->files[set].list.count : 0;
    *text = NULL;
    if (!datasets->fingerprints)
        TRY(fingerprints_write(&datasets->fingerprints, datasets, "\t", token_file_blocks(files), false));
    *text = datasets->fingerprints;
    return OK;
}

/* The bytes of a fingerprint's line up to the hash of `print`, which has 16 digits; all of them where there
 * is none. */
static size_t print_end(const char *line, size_t bytes, size_t head)
{
    const char *found = memmem(line + head, bytes - head, ", print ", 8);
    size_t end = found ? (size_t)(found - line) + 8 + 16 : bytes;
    return end < bytes ? end : bytes;
}

/* Whether the two lines' hashes of blocks are of equally many blocks. Both lines end with 16 digits. */
static bool same_blocks(const char *a, size_t a_bytes, const char *b, size_t b_bytes, size_t end)
{
    return a_bytes == b_bytes && a_bytes >= end + 16 && !memcmp(a + end, b + end, a_bytes - 16 - end);
}

/* Compares a line of the current files (prefix, tab, fingerprint) with the line of the same prefix in the
 * checkpoint. Fingerprints of older checkpoints have no `blocks`, and with another number of files there may
 * be another number of blocks; then the part before them is compared. */
static void line_compare(const char *line, size_t bytes, const char *fingerprints)
{
    const char *tab = memchr(line, '\t', bytes);
    if (!tab) return;                          /* the prefix contains a newline, which divides its line */
    size_t head = (size_t)(tab - line) + 1;
    for (const char *was = fingerprints; *was; was += strcspn(was, "\n"), was += *was == '\n') {
        size_t all = strcspn(was, "\n");
        if (all < head || memcmp(was, line, head)) continue;
        size_t end = print_end(line, bytes, head);
        bool   whole = same_blocks(line, bytes, was, all, end);
        if (print_end(was, all, head) == end && !memcmp(was, line, whole ? bytes : end)) return;
        log_line("resumes with %.*s (%.*s) where the checkpoint had it with %.*s: the token file was"
                 " replaced, and the run is not the one that was begun", (int)head - 1, line,
                 (int)(bytes - head), line + head, (int)(all - head), was + head);
        return;
    }
}

Status datasets_compare(Datasets *datasets, const char *fingerprints)
{
    const char *now;
    TRY(datasets_fingerprints(datasets, &now));
    for (const char *line = now; *line; line += strcspn(line, "\n") + 1)
        line_compare(line, strcspn(line, "\n"), fingerprints);
    return OK;
}

void datasets_close(Datasets *datasets)
{
    for (int set = 0; set < DATA_SETS; set++) {
        DatasetFiles *files = &datasets->files[set];
        blend_close(&datasets->blend[set]);
        blocks_close(&datasets->blocks[set]);
        for (int i = 0; files->token_file && i < files->list.count; i++)
            token_file_close(&files->token_file[i]);
        free(files->token_file);
        blend_spec_close(&files->list);
    }
    free(datasets->fingerprints);
    *datasets = (Datasets){ 0 };
}
