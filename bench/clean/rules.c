/* How fast documents are read, their characters and their quality judged, on one core: bench_clean_rules FILE [PASSES]
 * FILE: JSON lines or text, as `jotun clean` reads them; all of it is held in memory. MB of text by CPU time.         */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "corpus/quality/charset.h"
#include "corpus/quality/quality.h"
#include "corpus/read/record.h"
#include "base/utf8.h"

typedef struct { Buffer text; int64_t *end, documents; } Corpus;

static Corpus   corpus;
static Buffer   text, spare;
static Charset *charset;
static Quality *quality;
static QualitySpace *space;
static int64_t  seen;                       /* so that nothing is left out */

static void stop(void)
{
    fprintf(stderr, "%s\n", fail_text());
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void corpus_read(const char *path)
{
    InputBlocks input = { .path = &path, .paths = 1, .wanted = BLOCK_AUTO, .line_most = 64 << 20 };
    Block  block = { 0 };
    Record record;
    RecordPlan plan = { .bytes_most = 64 << 20 };
    double seconds = 0;
    if (input_blocks_check(&input) != OK) stop();
    for (bool more = true; input_blocks_fill(&input, &block, &more) == OK && more; ) {
        double begin = now();
        RecordWalk walk = record_walk(&plan, &block, path, &text);
        for (RecordStep step; (step = record_next(&walk, &record)) != RECORD_END; ) {
            seconds += now() - begin;
            if (step == RECORD_FAULT) continue;
            corpus.end = realloc(corpus.end, (size_t)(corpus.documents + 1) * sizeof *corpus.end);
            if (!corpus.end || buffer_add(&corpus.text, record.text, record.bytes) != OK) stop();
            corpus.end[corpus.documents++] = corpus.text.bytes;
            begin = now();
        }
        seconds += now() - begin;
    }
    input_blocks_close(&input);
    block_free(&block);
    if (!corpus.documents) stop();
    printf("%-28s %7.1f MB/s   %" PRId64 " documents of %" PRId64 " bytes\n", "records", (double)corpus.text.bytes / seconds / 1e6,
           corpus.documents, corpus.text.bytes / corpus.documents);
}

static void utf8_one(void)    { seen += utf8_broken(text.text, text.bytes); }
static void copy_one(void)    { seen += text.bytes; }
static void charset_one(void)
{
    CharsetVerdict v;
    if (charset_apply(charset, &text, &spare, &v) != OK) stop();
    seen += v.dropped;
}
static void quality_one(void)
{
    QualityVerdict v;
    if (quality_check(quality, space, &text, &v) != OK) stop();
    seen += v.rule >= 0;
}
static void measure(const char *name, void (*one)(void), int passes)
{
    double begin = now();
    seen = 0;
    for (int p = 0; p < passes; p++)
        for (int64_t d = 0; d < corpus.documents; d++) {
            int64_t from = d ? corpus.end[d - 1] : 0;
            text.bytes = 0;
            if (buffer_add(&text, corpus.text.text + from, corpus.end[d] - from) != OK) stop();
            one();
        }
    printf("%-28s %7.1f MB/s   found %" PRId64 "\n", name, (double)corpus.text.bytes * passes / (now() - begin) / 1e6, seen);
}

static void measure_quality(const char *presets, int passes)
{
    QualityPlan plan;
    char name[80];
    if (quality_plan(&plan, presets) != OK) stop();
    if (quality_open(&quality, &plan, "sv", NULL) != OK) stop();
    snprintf(name, sizeof name, "quality %s", presets);
    measure(name, quality_one, passes);
    quality_close(quality);
}

int main(int count, char **word)
{
    if (count < 2) return fprintf(stderr, "bench_clean_rules FILE [PASSES]\n"), 2;
    int passes = count > 2 ? (int)strtol(word[2], NULL, 10) : 3;
    CharsetPlan plan = CHARSET_PLAN;
    plan.names = "sv";
    double begin = now();
    if (charset_open(&charset, &plan) != OK || quality_space_open(&space) != OK) stop();
    printf("%-28s %7.1f ms\n", "opening a charset", 1e3 * (now() - begin));
    corpus_read(word[1]);
    measure("copying alone", copy_one, passes);
    measure("UTF-8", utf8_one, passes);
    measure("charset sv, graded", charset_one, passes);
    measure_quality("gopher", passes);
    measure_quality("repetition", passes);
    measure_quality("c4", passes);
    measure_quality("fineweb", passes);
    measure_quality("gopher,repetition,c4,fineweb", passes);
    charset_close(charset);
    quality_space_close(space);
    return 0;
}
