/* How fast a tokenizer encodes documents that lie in memory: bench_text TOKENIZER FILE [PASSES]
 * FILE: .jsonl or .txt, as `jotun prepare` reads them; - for 8 MiB of random bytes as documents of 64 KiB.         */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "base/random.h"
#include "corpus/read/source.h"
#include "text/bpe/bpe_tokenizer.h"

typedef struct { char *text; int64_t *end, bytes, documents, longest; } Corpus;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void corpus_add(Corpus *c, const char *text, int64_t bytes)
{
    c->text = realloc(c->text, (size_t)(c->bytes + bytes + 1));
    c->end  = realloc(c->end, (size_t)(c->documents + 1) * sizeof *c->end);
    memcpy(c->text + c->bytes, text, (size_t)bytes);
    c->bytes += bytes;
    c->end[c->documents++] = c->bytes;
    if (bytes > c->longest) c->longest = bytes;
}

static void corpus_random(Corpus *c)
{
    char document[1 << 16];
    for (int d = 0; d < 128; d++) {
        for (size_t i = 0; i < sizeof document; i++)
            document[i] = (char)random_bits(7, (uint64_t)d * sizeof document + i);
        corpus_add(c, document, sizeof document);
    }
}

static Status corpus_read(Corpus *c, const char *path)
{
    Source  *source;
    Document document;
    bool     more = true;
    if (!strcmp(path, "-")) {
        corpus_random(c);
        return OK;
    }
    TRY(source_open(&source, path, "text", (TextRules){ 0 }));
    Status status;
    while ((status = source_next(source, &document, &more)) == OK && more) corpus_add(c, document.text, document.bytes);
    source_close(source);
    return status;
}

static int64_t pass(const Tokenizer *t, const Corpus *c, int32_t *ids)
{
    int64_t tokens = 0;
    for (int64_t d = 0, from = 0; d < c->documents; from = c->end[d++])
        tokens += t->encode(t, ids, c->text + from, c->end[d] - from);
    return tokens;
}

/* What the passes cost beside each other: in the last one most pieces are known, in the first each distinct one was not. */
typedef struct { double cpu; int64_t pieces, misses; } Pass;

static void pieces_tell(const Pass *first, const Pass *last)
{
    double hit  = last->cpu / (double)last->pieces;
    double miss = (first->cpu - last->cpu) / (double)(first->misses - last->misses);
    printf("%" PRId64 " pieces: %.1f ns each when known; %" PRId64 " had to be merged at first (%" PRId64 " in the last pass): %.0f ns more"
           " each\n", last->pieces, 1e9 * hit, first->misses, last->misses, 1e9 * miss);
}

static Pass pass_of(const Tokenizer *t, Pass before, double cpu)
{
    Pass so_far = { .cpu = cpu };
    bpe_tokenizer_pieces(t, &so_far.pieces, &so_far.misses);
    return (Pass){ cpu, so_far.pieces - before.pieces, so_far.misses - before.misses };
}

static Status bench(const char *name, const char *path, int passes)
{
    Tokenizer t;
    Corpus    c = { 0 };
    Pass      first = { 0 }, last = { 0 }, sum = { 0 };
    double    all = 0, all_cpu = 0;
    TRY(corpus_read(&c, path));
    double begun = now(CLOCK_MONOTONIC);
    TRY(tokenizer_open(&t, name));
    printf("open %.3f s; %" PRId64 " documents, %.1f MB\n", now(CLOCK_MONOTONIC) - begun, c.documents, 1e-6 * (double)c.bytes);
    int32_t *ids = malloc((size_t)tokenizer_max_ids(&t, NULL, c.longest) * sizeof *ids);
    memset(ids, 0, (size_t)tokenizer_max_ids(&t, NULL, c.longest) * sizeof *ids);
    for (int i = 1; i <= passes; i++) {
        double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        int64_t tokens = pass(&t, &c, ids);
        wall = now(CLOCK_MONOTONIC) - wall;
        cpu  = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        all += wall, all_cpu += cpu;
        if (t.encode == bpe_tokenizer_encode) {
            last = pass_of(&t, sum, cpu);
            if (i == 1) first = last;
            sum.pieces += last.pieces, sum.misses += last.misses;
        }
        if (i == 1 || i == passes)
            printf("pass %d: %.1f MB/s, %.1f MB/s of CPU time; %" PRId64 " tokens; passes 1 to %d: %.1f MB/s, %.1f of CPU time\n",
                   i, 1e-6 * (double)c.bytes / wall, 1e-6 * (double)c.bytes / cpu, tokens, i,
                   1e-6 * (double)c.bytes * i / all, 1e-6 * (double)c.bytes * i / all_cpu);
    }
    if (passes > 1 && last.pieces) pieces_tell(&first, &last);
    free(ids);
    free(c.text);
    free(c.end);
    tokenizer_close(&t);
    return OK;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "bench_text TOKENIZER FILE [PASSES]\n");
        return 2;
    }
    if (bench(argv[1], argv[2], argc > 3 ? (int)strtol(argv[3], NULL, 10) : 10) == OK) return 0;
    fprintf(stderr, "%s\n", fail_text());
    return 1;
}
