/* jotun langid --model M [--input F...] [--top N]: labels each line of its input, in the format of `fasttext
 * predict-prob M F N`. The only difference is that no probability exceeds 1: fastText adds 1e-5 to each
 * before it takes the logarithm. Threads label parts of it. */
#include <errno.h>
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
#include "text/fasttext/langid.h"

typedef struct {
    const Options  *options;
    Langid         *langid;
    TextParts       parts;                      /* their labels */
    LangidSpace   **space;                      /* the spaces that no thread uses are the first `spaces` */
    int             spaces;
    pthread_mutex_t lock;                       /* of the two above */
    int             top;                        /* labels printed for a line */
} LangidJob;

static void guesses_print(const Langid *langid, Buffer *out, const LangidGuess *guess, int count)
{
    Status status = OK;
    for (int i = 0; i < count && status == OK; i++)
        status = buffer_format(out, "%s%s %g", i ? " " : "", langid_label(langid, guess[i].label),
                               (double)guess[i].probability);
    CHECK(status == OK, "%s", fail_text());
    buffer_add_or_stop(out, "\n", 1);
}

/* A space caches 32 MiB for one thread at a time: a thread borrows one for the part that it labels. */
static void part_guess(void *context, TextSpan lines, Buffer *made)
{
    LangidJob *job = context;
    if (lines.bytes == 0) return;
    pthread_mutex_lock(&job->lock);
    LangidSpace *space = job->space[--job->spaces];
    pthread_mutex_unlock(&job->lock);
    LangidGuess *guess = malloc((size_t)job->top * sizeof *guess);
    CHECK(guess, "no memory for %d labels", job->top);
    for (const char *at = lines.text, *stop = at + lines.bytes, *end; at < stop; at = end + 1) {
        if (!(end = memchr(at, '\n', (size_t)(stop - at)))) end = stop;
        guesses_print(job->langid, made, guess,
                      langid_guess(job->langid, space, at, end - at, guess, job->top));
    }
    free(guess);
    pthread_mutex_lock(&job->lock);
    job->space[job->spaces++] = space;
    pthread_mutex_unlock(&job->lock);
}

static Status labels_print(void *context, const Buffer *made)
{
    size_t bytes = (size_t)made->bytes;
    (void)context;
    if (!bytes || fwrite(made->text, 1, bytes, stdout) == bytes) return OK;
    return fail(IO_FAILED, "standard output cannot be written: %s", strerror(errno));
}

/* ---- the command ---- */

static Status job_open(LangidJob *job)
{
    const Options *o = job->options;
    int threads = o->tool_threads ? (int)o->tool_threads : team_cores();
    TRY(langid_open(&job->langid, o->langid_model));
    TRY(team_open(&job->parts.team, threads));
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
    free(job->space);
    text_parts_close(&job->parts);
    langid_close(job->langid);
}

Status cmd_langid(Options *o)
{
    static const char *const standard_input[] = { "-" };
    const char *const *path = o->input.count ? o->input.text : standard_input;
    TextRules rules = text_rules(o);
    LangidJob job = { .options = o, .lock = PTHREAD_MUTEX_INITIALIZER,
                      .parts = { .context = &job, .make = part_guess, .take = labels_print } };
    TRY(options_validate(o));
    Status status = job_open(&job);
    for (int i = 0; i < (o->input.count ? o->input.count : 1) && status == OK; i++)
        status = text_pieces(path[i], &rules, text_parts_make, &job.parts);
    job_close(&job);
    return status;
}
