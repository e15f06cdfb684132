/* How long a run waits for its order of samples: bench_order [TOKENS]
 * TOKENS (default 1e9) in documents of 500, sequences of 2048, three epochs of them wanted: our order, Megatron's, and blends of
 * 4 and of 256 pairs that have TOKENS together. Pairs are in memory, since tokens are not looked at.                       */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "data/datasets.h"

enum { DOCUMENT = 500, SEQUENCE = 2048, EPOCHS = 3, PAIRS = 256 };
static TokenFile   token_file[PAIRS];
static BlendPart part[PAIRS];
static char    pair[] = "pair", corpus[3][2] = { "a", "b", "c" };

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void shard_make(TokenFile *s, int64_t documents)
{
    int32_t *length  = malloc((size_t)documents * sizeof *length);
    int64_t *pointer = malloc((size_t)documents * sizeof *pointer);
    for (int64_t d = 0; d < documents; d++) length[d] = DOCUMENT, pointer[d] = 2 * d * DOCUMENT;
    *s = (TokenFile){ .width = 2, .sequences = documents, .documents = documents, .tokens = documents * DOCUMENT, .length = (const uint8_t *)length,
                  .pointer = (const uint8_t *)pointer };
}

static void shard_free(TokenFile *s)
{
    free((void *)(uintptr_t)s->length);
    free((void *)(uintptr_t)s->pointer);
}

static void tell(const char *what, double wall, double cpu, int64_t samples, int64_t bytes)
{
    printf("%-32s %7.3f s, %7.3f s of CPU time; %" PRId64 " samples, %.1f MB of indices\n", what, wall, cpu, samples, 1e-6 * (double)bytes);
}

/* Opened, and the last sample looked up */
static Status ours(int64_t tokens)
{
    Loader loader;
    LoaderConfig shape = { .sequence = SEQUENCE, .micro = 1, .global = 1, .dp = 1, .cp = 1, .seed = 1234, .eod = -1, .loss_weight = F32 };
    shard_make(&token_file[0], tokens / DOCUMENT);
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    TRY(loader_open(&loader, &token_file[0], "1", SPLIT_TRAIN, shape));
    tell("our order", now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu, EPOCHS * loader.samples, 0);
    shard_free(&token_file[0]);
    return OK;
}

static Status blended(const char *what, BlendKind kind, int64_t tokens, int pairs, bool corpora, const char *cache)
{
    Blend blend;
    BlendSpec list = { .part = part, .count = pairs, .weighted = pairs > 1 };
    BlendRules spec = { .kind = kind, .split = "1", .wanted = EPOCHS * tokens / SEQUENCE, .wanted_train = EPOCHS * tokens / SEQUENCE, .sequence = SEQUENCE,
                       .seed = 1234, .final_epoch_cut = 0.80, .surplus = 0.005, .corpus_shuffled = corpora, .cache = cache };
    for (int p = 0; p < pairs; p++) {
        shard_make(&token_file[p], tokens / DOCUMENT / pairs);
        part[p] = (BlendPart){ .prefix = pair, .corpus = corpora ? corpus[p % 3] : NULL, .weight = 1 + p % 7 };
    }
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    Status status = blend_open(&blend, token_file, &list, &spec, SPLIT_TRAIN);
    if (status == OK) tell(what, now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu, blend.samples, blend_bytes(&blend));
    if (status == OK) blend_close(&blend);
    for (int p = 0; p < pairs; p++) shard_free(&token_file[p]);
    return status;
}

static Status bench(int64_t tokens)
{
    char cache[] = "/tmp/jotun-order-XXXXXX";
    if (!mkdtemp(cache)) return fail(IO_FAILED, "/tmp: no folder can be made");
    printf("%.3g tokens, %d epochs, documents of %d, sequences of %d\n", (double)tokens, EPOCHS, DOCUMENT, SEQUENCE);
    TRY(ours(tokens));
    TRY(blended("Megatron's", BLEND_CORE, tokens, 1, false, NULL));
    TRY(blended("Megatron's, cache filled", BLEND_CORE, tokens, 1, false, cache));
    TRY(blended("Megatron's, out of the cache", BLEND_CORE, tokens, 1, false, cache));
    TRY(blended("blend of 4", BLEND_CORE, tokens, 4, false, NULL));
    TRY(blended("blend of 256", BLEND_CORE, tokens, PAIRS, false, NULL));
    TRY(blended("blend of 256, cache filled", BLEND_CORE, tokens, PAIRS, false, cache));
    TRY(blended("blend of 256, out of the cache", BLEND_CORE, tokens, PAIRS, false, cache));
    TRY(blended("ALCF's, 256 in 3 corpora", BLEND_FORKS, tokens, PAIRS, true, NULL));
    return folder_remove(cache);
}

int main(int argc, char **argv)
{
    if (bench(argc > 1 ? (int64_t)strtod(argv[1], NULL) : 1000000000) == OK) return 0;
    fprintf(stderr, "%s\n", fail_text());
    return 1;
}
