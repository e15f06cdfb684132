/* jotun langid --model M [--input F...] [--top N]: labels each line of its input, in the format of `fasttext
 * predict-prob M F N`. The only difference is that no probability exceeds 1: fastText adds 1e-5 to each
 * before it takes the logarithm. The input is read in blocks of whole lines; a block is cut into pieces,
 * which threads label in any order and the main thread writes in order. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/team.h"
#include "cli/command.h"
#include "cli/setup/parse.h"
#include "conf/conf.h"
#include "corpus/read/stream.h"
#include "text/fasttext/langid.h"

/* Bytes of a block, bytes of the longest line, pieces of a block, and characters of a printed probability.
 * There are more pieces than threads, so that pieces of short lines, which take longer, balance out. */
enum { BLOCK_USUAL = 4 << 20, LINE_MOST = 256 << 20, PIECES = 64, PROBABILITY_MOST = 24 };

typedef struct { char *data; size_t bytes, capacity; } ByteBuffer;      /* owns data */
/* text: into the job's block; out: the labels of its lines; no_memory: out is incomplete */
typedef struct { const char *text; int64_t bytes; ByteBuffer out; bool no_memory; } LangidChunk;
typedef struct {
    const Options  *options;
    Langid         *langid;
    Team           *team;
    LangidSpace   **space;                      /* the spaces that no thread uses are the first `spaces` */
    int             spaces;
    pthread_mutex_t lock;                       /* of the two above */
    int             top;                        /* labels printed for a line */
    ByteBuffer      block;
    LangidChunk     piece[PIECES];
} LangidJob;

/* ---- lines of a piece ---- */

static bool text_reserve(ByteBuffer *t, size_t more)
{
    if (t->bytes + more <= t->capacity) return true;
    size_t capacity = 2 * (t->bytes + more);
    char  *grown    = realloc(t->data, capacity);
    if (!grown) return false;
    t->data     = grown;
    t->capacity = capacity;
    return true;
}

static bool guesses_print(const Langid *langid, ByteBuffer *out, const LangidGuess *guess, int count)
{
    for (int i = 0; i < count; i++) {
        const char *label = langid_label(langid, guess[i].label);
        size_t bytes = strlen(label);
        if (!text_reserve(out, bytes + PROBABILITY_MOST)) return false;
        memcpy(out->data + out->bytes, label, bytes);
        out->bytes += bytes;
        out->bytes += (size_t)snprintf(out->data + out->bytes, PROBABILITY_MOST, " %g%s",
                                       (double)guess[i].probability, i < count - 1 ? " " : "");
    }
    if (!text_reserve(out, 1)) return false;
    out->data[out->bytes++] = '\n';
    return true;
}

static void piece_guess(const LangidJob *job, LangidSpace *space, LangidGuess *guess, LangidChunk *piece)
{
    piece->out.bytes = 0;
    piece->no_memory = false;
    for (int64_t at = 0; at < piece->bytes && !piece->no_memory; ) {
        const char *line = piece->text + at, *end = memchr(line, '\n', (size_t)(piece->bytes - at));
        int64_t bytes = end ? end - line : piece->bytes - at;
        int     count = langid_guess(job->langid, space, line, bytes, guess, job->top);
        piece->no_memory = !guesses_print(job->langid, &piece->out, guess, count);
        at += bytes + 1;
    }
}

/* A space caches 32 MiB for one thread at a time, so that a thread borrows one for the pieces it labels. */
static LangidSpace *space_take(LangidJob *job)
{
    pthread_mutex_lock(&job->lock);
    LangidSpace *space = job->space[--job->spaces];
    pthread_mutex_unlock(&job->lock);
    return space;
}

static void space_give(LangidJob *job, LangidSpace *space)
{
    pthread_mutex_lock(&job->lock);
    job->space[job->spaces++] = space;
    pthread_mutex_unlock(&job->lock);
}

static void pieces_guess(void *context, int64_t begin, int64_t end)
{
    LangidJob *job = context;
    LangidSpace *space = space_take(job);
    LangidGuess *guess = malloc((size_t)job->top * sizeof *guess);
    for (int64_t i = begin; i < end; i++) {
        if (guess) piece_guess(job, space, guess, &job->piece[i]);
        else       job->piece[i].no_memory = true;
    }
    free(guess);
    space_give(job, space);
}

/* ---- blocks of a file ---- */

/* Cuts the first `bytes` of the block into pieces of whole lines; where lines are long, some pieces are
 * empty. */
static void block_cut(LangidJob *job, size_t bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < PIECES; i++) {
        size_t to = bytes * (i + 1) / PIECES;
        const char *end = to < bytes && to > at ? memchr(job->block.data + to, '\n', bytes - to) : NULL;
        to = to <= at ? at : end ? (size_t)(end - job->block.data) + 1 : bytes;
        job->piece[i].text  = job->block.data + at;
        job->piece[i].bytes = (int64_t)(to - at);
        at = to;
    }
}

static Status block_print(LangidJob *job, size_t bytes)
{
    block_cut(job, bytes);
    team_for(job->team, PIECES, 1, pieces_guess, job);
    for (int i = 0; i < PIECES; i++) {
        const LangidChunk *piece = &job->piece[i];
        if (piece->no_memory)
            return fail(NO_MEMORY, "no memory for the labels of %" PRId64 " bytes", piece->bytes);
        if (piece->out.bytes && fwrite(piece->out.data, 1, piece->out.bytes, stdout) != piece->out.bytes)
            return fail(IO_FAILED, "standard output cannot be written: %s", strerror(errno));
    }
    return OK;
}

/* Fills the block; *whole: the bytes up to its last line end, or all of them at the end of the input. What
 * follows them stays for the next block. A line longer than the block makes the block grow. */
static Status block_read(LangidJob *job, Stream *stream, const char *name, size_t *whole, bool *ended)
{
    ByteBuffer *b = &job->block;
    size_t got, wanted;
    *whole = 0;
    do {
        if (b->bytes > LINE_MOST)
            return fail(BAD_FILE, "%s: a line of more than %d bytes; cut it", name, LINE_MOST);
        if (b->bytes == b->capacity && !text_reserve(b, b->capacity ? 1 : BLOCK_USUAL / 2))
            return fail(NO_MEMORY, "%s: no memory for a line of %zu bytes", name, b->bytes);
        wanted = b->capacity - b->bytes;
        TRY(stream_read(stream, b->data + b->bytes, wanted, &got));
        const char *end = got ? memrchr(b->data + b->bytes, '\n', got) : NULL;
        b->bytes += got;
        *ended = got < wanted;
        *whole = *ended ? b->bytes : end ? (size_t)(end - b->data) + 1 : 0;
    } while (*whole == 0 && !*ended);
    return OK;
}

static Status stream_guess(LangidJob *job, Stream *stream, const char *name)
{
    size_t whole = 0;
    job->block.bytes = 0;
    for (bool ended = false; !ended; ) {
        TRY(block_read(job, stream, name, &whole, &ended));
        TRY(block_print(job, whole));
        job->block.bytes -= whole;
        memmove(job->block.data, job->block.data + whole, job->block.bytes);
    }
    return OK;
}

static Status input_guess(LangidJob *job, const char *path)
{
    Stream *stream;
    TRY(stream_open(&stream, path, STREAM_RATIO_MOST));
    Status status = stream_guess(job, stream, strcmp(path, "-") ? path : "standard input");
    stream_close(stream);
    return status;
}

/* ---- the command ---- */

static Status job_open(LangidJob *job)
{
    const Options *o = job->options;
    int threads = o->tool_threads ? (int)o->tool_threads : team_cores();
    TRY(langid_open(&job->langid, o->langid_model));
    TRY(team_open(&job->team, threads));
    job->top   = o->top < langid_labels(job->langid) ? (int)o->top : langid_labels(job->langid);
    job->space = calloc((size_t)threads, sizeof *job->space);
    if (!job->space) return fail(NO_MEMORY, "no memory for %d threads", threads);
    for (; job->spaces < threads; job->spaces++)
        TRY(langid_space_open(&job->space[job->spaces], job->langid));
    return OK;
}

static void job_close(LangidJob *job)
{
    for (int i = 0; i < job->spaces; i++) langid_space_close(job->space[i]);
    for (int i = 0; i < PIECES; i++) free(job->piece[i].out.data);
    free(job->space);
    free(job->block.data);
    team_close(job->team);
    langid_close(job->langid);
}

static Status guess(const Options *o)
{
    LangidJob job = { .options = o, .lock = PTHREAD_MUTEX_INITIALIZER };
    TRY(options_validate(o));
    Status status = job_open(&job);
    if (status == OK && o->input.count == 0) status = input_guess(&job, "-");
    for (int i = 0; i < o->input.count && status == OK; i++) status = input_guess(&job, o->input.text[i]);
    job_close(&job);
    return status;
}

Status cmd_langid(int argc, char **argv)
{
    Options o;
    Status status = setup_parse(&o, FOR_LANGID, argc, argv);
    if (status == OK) status = guess(&o);
    options_close(&o);
    return status;
}
