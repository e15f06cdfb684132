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
#include "base/buffer.h"
#include "base/team.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/text_file.h"
#include "conf/conf.h"
#include "corpus/read/stream.h"
#include "text/fasttext/langid.h"

/* Bytes of the longest line, and pieces of a block.
 * There are more pieces than threads, so that pieces of short lines, which take longer, balance out. */
enum { LINE_LONGEST = 256 << 20, PIECES = 64 };

/* text: into the block that is read; out: the labels of its lines; no_memory: out is incomplete */
typedef struct { const char *text; int64_t bytes; Buffer out; bool no_memory; } LangidChunk;
typedef struct {
    const Options  *options;
    Langid         *langid;
    Team           *team;
    LangidSpace   **space;                      /* the spaces that no thread uses are the first `spaces` */
    int             spaces;
    pthread_mutex_t lock;                       /* of the two above */
    int             top;                        /* labels printed for a line */
    LangidChunk     piece[PIECES];
} LangidJob;

/* ---- lines of a piece ---- */

static Status guesses_print(const Langid *langid, Buffer *out, const LangidGuess *guess, int count)
{
    for (int i = 0; i < count; i++) {
        TRY(buffer_add_text(out, langid_label(langid, guess[i].label)));
        TRY(buffer_format(out, " %g%s", (double)guess[i].probability, i < count - 1 ? " " : ""));
    }
    return buffer_add(out, "\n", 1);
}

static void piece_guess(const LangidJob *job, LangidSpace *space, LangidGuess *guess, LangidChunk *piece)
{
    piece->out.bytes = 0;
    piece->no_memory = false;
    for (int64_t at = 0; at < piece->bytes && !piece->no_memory; ) {
        const char *line = piece->text + at, *end = memchr(line, '\n', (size_t)(piece->bytes - at));
        int64_t bytes = end ? end - line : piece->bytes - at;
        int     count = langid_guess(job->langid, space, line, bytes, guess, job->top);
        piece->no_memory = guesses_print(job->langid, &piece->out, guess, count) != OK;
        at += bytes + 1;
    }
}

static void pieces_guess(void *context, int64_t begin, int64_t end)
{
    LangidJob *job = context;
    /* A space caches 32 MiB for one thread at a time: a thread borrows one for the pieces it labels. */
    pthread_mutex_lock(&job->lock);
    LangidSpace *space = job->space[--job->spaces];
    pthread_mutex_unlock(&job->lock);
    LangidGuess *guess = malloc((size_t)job->top * sizeof *guess);
    for (int64_t i = begin; i < end; i++) {
        if (guess) piece_guess(job, space, guess, &job->piece[i]);
        else       job->piece[i].no_memory = true;
    }
    free(guess);
    pthread_mutex_lock(&job->lock);
    job->space[job->spaces++] = space;
    pthread_mutex_unlock(&job->lock);
}

/* ---- blocks of a file ---- */

/* Cuts the block into pieces of whole lines; where lines are long, some pieces are empty. */
static void block_cut(LangidJob *job, TextSpan block)
{
    int64_t at = 0;
    for (int64_t i = 0; i < PIECES; i++) {
        int64_t to = block.bytes * (i + 1) / PIECES;
        const char *end = to < block.bytes && to > at
                              ? memchr(block.text + to, '\n', (size_t)(block.bytes - to)) : NULL;
        to = to <= at ? at : end ? end - block.text + 1 : block.bytes;
        job->piece[i].text  = block.text + at;
        job->piece[i].bytes = to - at;
        at = to;
    }
}

static Status block_print(LangidJob *job, TextSpan block)
{
    block_cut(job, block);
    team_for(job->team, PIECES, 1, pieces_guess, job);
    for (int i = 0; i < PIECES; i++) {
        const LangidChunk *piece = &job->piece[i];
        if (piece->no_memory)
            return fail(NO_MEMORY, "no memory for the labels of %" PRId64 " bytes", piece->bytes);
        size_t printed = (size_t)piece->out.bytes;
        if (printed && fwrite(piece->out.text, 1, printed, stdout) != printed)
            return fail(IO_FAILED, "standard output cannot be written: %s", strerror(errno));
    }
    return OK;
}

/* lines: of the blocks before */
static Status block_check(TextSpan block, const char *name, int64_t *lines)
{
    const char *line = block.text;
    int64_t broken = text_not_utf8(block.text, block.bytes);
    const char *stop = block.text + (broken < 0 ? block.bytes : broken);
    for (const char *at; (at = memchr(line, '\n', (size_t)(stop - line))); line = at + 1) ++*lines;
    if (broken < 0) return OK;
    return fail(BAD_FILE, "%s:%" PRId64 ": byte %td of the line is 0x%02X, which is not UTF-8; "
                "--input-encoding names another encoding", name, *lines + 1, stop - line,
                (unsigned char)*stop);
}

static Status input_guess(LangidJob *job, const char *path)
{
    TextReader reader;
    TextSpan   block;
    int64_t    lines = 0;
    Status status = text_reader_open(&reader, path);
    if (status == OK) status = stream_texts(reader.stream, text_rules(job->options));
    reader.line_most = LINE_LONGEST;
    while (status == OK && (status = text_reader_piece(&block, &reader)) == OK && block.bytes) {
        status = block_check(block, reader.name, &lines);
        if (status == OK) status = block_print(job, block);
    }
    text_reader_close(&reader);
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
    for (int i = 0; i < PIECES; i++) buffer_free(&job->piece[i].out);
    free(job->space);
    team_close(job->team);
    langid_close(job->langid);
}

Status cmd_langid(Options *o)
{
    LangidJob job = { .options = o, .lock = PTHREAD_MUTEX_INITIALIZER };
    TRY(options_validate(o));
    Status status = job_open(&job);
    if (status == OK && o->input.count == 0) status = input_guess(&job, "-");
    for (int i = 0; i < o->input.count && status == OK; i++) status = input_guess(&job, o->input.text[i]);
    job_close(&job);
    return status;
}
