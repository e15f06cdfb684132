/* What `prepare` loses against encode alone: prepare_vs_encode TOKENIZER FILE.jsonl [ROUNDS [OUTPUT-PREFIX]]
 * Each with a tokenizer opened afresh, so that nothing is kept: encode of the documents as they lie in memory; the scan of
 * the lines alone; all of prepare (lines, JSON, ids, .bin and .idx) with one worker and with two. They follow each other
 * in every round, and what is reported are medians over the rounds, of the rates and of the ratios within a round.        */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "corpus/read/source.h"
#include "data/tokenize.h"
#include "corpus/read/source.h"
#include "data/token_file.h"
#include "../median.h"

typedef struct { char *text; int64_t *end, bytes, documents, longest; } Corpus;
typedef struct { double wall, cpu; } Times;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Times times_begin(void) { return (Times){ now(CLOCK_MONOTONIC), now(CLOCK_PROCESS_CPUTIME_ID) }; }

static Times times_since(Times begun)
{
    return (Times){ now(CLOCK_MONOTONIC) - begun.wall, now(CLOCK_PROCESS_CPUTIME_ID) - begun.cpu };
}

static Status corpus_read(Corpus *c, const char *path)
{
    Source  *source;
    Document d;
    bool     more = true;
    TRY(source_open(&source, path, "text", (TextRules){ 0 }));
    Status status;
    while ((status = source_next(source, &d, &more)) == OK && more) {
        c->text = realloc(c->text, (size_t)(c->bytes + d.bytes + 1));
        c->end  = realloc(c->end, (size_t)(c->documents + 1) * sizeof *c->end);
        memcpy(c->text + c->bytes, d.text, (size_t)d.bytes);
        c->bytes += d.bytes;
        c->end[c->documents++] = c->bytes;
        if (d.bytes > c->longest) c->longest = d.bytes;
    }
    source_close(source);
    return status;
}

static Status encode(Times *times, const char *name, const Corpus *c)
{
    Tokenizer t;
    TRY(tokenizer_open(&t, name));
    size_t capacity = (size_t)tokenizer_max_ids(&t, c->text, c->longest) * sizeof(int32_t);
    int32_t *ids = memset(malloc(capacity), 0, capacity);
    *times = times_begin();
    for (int64_t d = 0, from = 0; d < c->documents; from = c->end[d++]) t.encode(&t, ids, c->text + from, c->end[d] - from);
    *times = times_since(*times);
    free(ids);
    tokenizer_close(&t);
    return OK;
}

/* As prepare's worker does it, without ids */
static Status scan(Times *times, const char *path)
{
    InputBlocks input = { .path = &path, .paths = 1, .wanted = BLOCK_LINES, .line_most = LINE_MOST,
                          .ratio_most = STREAM_RATIO_MOST };
    Block  block = { 0 };
    static const char *const key[] = { "text" };
    *times = times_begin();
    for (bool more = true; more; ) {
        JsonText text;
        TRY(input_blocks_fill(&input, &block, &more));
        for (Line line; block_next(&block, &line); ) TRY(document_read(&text, true, key, 1, line, path));
    }
    input_blocks_close(&input);
    block_free(&block);
    *times = times_since(*times);
    return OK;
}

static Status batch_add(TokenFileWriter *writer, const TokenizeBatch *batch)
{
    for (int64_t d = 0, from = 0; d < batch->documents; from = batch->end[d++]) {
        if (batch->end[d] > from) TRY(token_file_add(writer, batch->ids + from, batch->end[d] - from));
        TRY(token_file_end_document(writer));
    }
    return OK;
}

/* times: to the last byte written; finish: until all of it lies on the disk */
static Status prepare(Times *times, double *finish, const char *name, const char *path, const char *prefix, int workers)
{
    Tokenizer t;
    TokenizeRun     *run;
    TokenFileWriter *writer;
    const TokenizeBatch *batch;
    static const char *const key[] = { "text" };
    TRY(tokenizer_open(&t, name));
    TokenizePlan plan = { .path = &path, .paths = 1, .key = key, .keys = 1, .tokenizer = &t, .append_eod = true, .workers = workers,
                      .line_most = LINE_MOST, .ratio_most = STREAM_RATIO_MOST };
    *times = times_begin();
    TRY(token_file_create(&writer, prefix, t.vocabulary));
    TRY(tokenize_open(&run, &plan));
    while (tokenize_next(run, &batch) == OK && batch) TRY(batch_add(writer, batch));
    tokenize_close(run);
    *times  = times_since(*times);
    *finish = now(CLOCK_MONOTONIC);
    TRY(token_file_finish(writer));
    *finish = now(CLOCK_MONOTONIC) - *finish;
    tokenizer_close(&t);
    return OK;
}

typedef enum { ENCODE, SCAN, ONE, TWO, WAYS } Way;
enum { ROUNDS_MOST = 100 };
static const char *const way_name[WAYS] = { "encode, first pass", "lines and JSON alone", "prepare, 1 worker", "prepare, 2 workers" };
typedef struct { Times times[ROUNDS_MOST][WAYS]; double finish[ROUNDS_MOST]; int rounds; } Figures;

/* bytes / time, or a time of ENCODE / a time of this */
static double rate(const Figures *f, Way way, bool cpu, int64_t bytes)
{
    double x[ROUNDS_MOST];
    for (int r = 0; r < f->rounds; r++) {
        const Times *t = &f->times[r][way], *e = &f->times[r][ENCODE];
        x[r] = (bytes ? 1e-6 * (double)bytes : cpu ? e->cpu : e->wall) / (cpu ? t->cpu : t->wall);
    }
    return median(x, f->rounds);
}

static void tell(Figures *f, int64_t bytes)
{
    double faster[ROUNDS_MOST];
    for (Way w = 0; w < WAYS; w++)
        printf("%-22s %7.1f MB/s, %7.1f of CPU time;  of encode: %.2f wall, %.2f CPU\n", way_name[w], rate(f, w, false, bytes),
               rate(f, w, true, bytes), rate(f, w, false, 0), rate(f, w, true, 0));
    for (int r = 0; r < f->rounds; r++) faster[r] = f->times[r][ONE].wall / f->times[r][TWO].wall;
    printf("2 workers against 1: %.2f in wall time; %.3f s more until all lies on the disk\n", median(faster, f->rounds),
           median(f->finish, f->rounds));
}

static Status bench_round(Times *t, double *finish, const char *name, const char *path, const char *prefix, const Corpus *c)
{
    TRY(encode(&t[ENCODE], name, c));
    TRY(scan(&t[SCAN], path));
    TRY(prepare(&t[ONE], finish, name, path, prefix, 1));
    return prepare(&t[TWO], finish, name, path, prefix, 2);
}

static Status bench(const char *name, const char *path, int rounds, const char *prefix)
{
    static Figures f;
    Corpus c = { 0 };
    Status status = corpus_read(&c, path);
    for (f.rounds = 0; status == OK && f.rounds < rounds; f.rounds++)
        status = bench_round(f.times[f.rounds], &f.finish[f.rounds], name, path, prefix, &c);
    if (status == OK) {
        printf("%" PRId64 " documents, %.1f MB of text; rates are of that text; medians of %d rounds\n", c.documents,
               1e-6 * (double)c.bytes, f.rounds);
        tell(&f, c.bytes);
    }
    free(c.text);
    free(c.end);
    return status;
}

int main(int argc, char **argv)
{
    int rounds = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 7;
    if (argc < 3 || rounds < 1 || rounds > ROUNDS_MOST) {
        fprintf(stderr, "prepare_vs_encode TOKENIZER FILE.jsonl [ROUNDS [OUTPUT-PREFIX]]\n");
        return 2;
    }
    if (bench(argv[1], argv[2], rounds, argc > 4 ? argv[4] : "/tmp/jotun_prepare_vs_encode") == OK) return 0;
    fprintf(stderr, "%s\n", fail_text());
    return 1;
}
