/* jotun tokenizer encode|decode|info --tokenizer T [--input F] [--output F] [--format text|u16|i32]: converts
 * a text to ids and back. The whole input is one text, however many lines it has, and its ids in the format
 * `text` are one line. Special tokens in it are plain text unless --parse-special-tokens is given. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "corpus/read/codec.h"
#include "text/decoder.h"

typedef struct { char *data; size_t bytes; } TextMemory;    /* owns data; open_memstream adds a zero */
typedef struct { int32_t *data; int64_t count; } Ids;        /* owns data */
typedef struct {
    const Options *options;
    Tokenizer      tokenizer;
    const char    *from;                 /* the input's name in messages */
    TextMemory     in, made;             /* the input, and the output before it is written */
    Ids            ids;
    FILE          *out;                  /* writes `made` */
} TokenizerJob;

/* ---- input and output: the output is written whole or not at all, so both are held in memory ---- */

static Status input_read(TokenizerJob *job)
{
    const TextList *input = &job->options->input;
    if (input->count > 1) return fail(BAD_USAGE, "jotun tokenizer needs one --input, not %d", input->count);
    bool standard = input->count == 0 || strcmp(input->text[0], "-") == 0;
    job->from = standard ? "standard input" : input->text[0];
    FILE *file = standard ? stdin : fopen(input->text[0], "rb");
    FILE *copy = open_memstream(&job->in.data, &job->in.bytes);
    bool good = file && copy;
    char chunk[65536];
    size_t got;
    while (good && (got = fread(chunk, 1, sizeof chunk, file)) > 0) good = fwrite(chunk, 1, got, copy) == got;
    good = good && !ferror(file);
    int cause = errno;
    if (file && file != stdin) fclose(file);
    if (copy) good = fclose(copy) == 0 && good;
    return good ? OK : fail(BAD_FILE, "%s: cannot be read: %s", job->from, strerror(cause));
}

static Status output_write(TokenizerJob *job)
{
    bool good = fclose(job->out) == 0;
    job->out = NULL;
    if (!good) return fail(NO_MEMORY, "no memory for the output");
    const char *to = job->options->output;
    if (!to || strcmp(to, "-") == 0) to = "/dev/stdout";
    return file_write_whole(to, job->made.data, job->made.bytes);
}

static Status ids_make(TokenizerJob *job, int64_t capacity)
{
    job->ids.data = malloc((size_t)(capacity + 1) * sizeof *job->ids.data);
    return job->ids.data ? OK : fail(NO_MEMORY, "%s: no memory for %" PRId64 " ids", job->from, capacity);
}

/* ---- ids in a file ---- */

static void ids_write(TokenizerJob *job)
{
    for (int64_t i = 0; i < job->ids.count; i++) {
        int32_t  id = job->ids.data[i];
        uint16_t narrow = (uint16_t)id;
        switch ((enum ChoiceOf_format)job->options->format.value) {
        case CHOICE_format_text: fprintf(job->out, "%s%d", i ? " " : "", id); break;
        case CHOICE_format_u16:  fwrite(&narrow, sizeof narrow, 1, job->out); break;
        case CHOICE_format_i32:  fwrite(&id, sizeof id, 1, job->out); break;
        }
    }
    if (job->options->format.value == CHOICE_format_text) fputc('\n', job->out);
}

static Status ids_parse(TokenizerJob *job)
{
    TRY(ids_make(job, (int64_t)job->in.bytes / 2 + 1));          /* an id is a digit and a blank at least */
    for (const char *p = job->in.data;;) {                       /* strtol stops at the final zero */
        while (isspace((unsigned char)*p)) p++;
        if (p == job->in.data + job->in.bytes) return OK;
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        bool stops = isspace((unsigned char)*end) || *end == 0;
        if (end == p || !stops || errno || id < INT32_MIN || id > INT32_MAX) {
            size_t word = strcspn(p, " \t\r\n");
            return fail(BAD_FILE, "%s: byte %td: \"%.*s\" is not an id; --format text needs decimal numbers "
                        "between blanks", job->from, p - job->in.data, word < 20 ? (int)word : 20, p);
        }
        job->ids.data[job->ids.count++] = (int32_t)id;
        p = end;
    }
}

static Status ids_read(TokenizerJob *job)
{
    int    kind  = job->options->format.value;
    size_t width = kind == CHOICE_format_u16 ? 2 : 4;
    if (kind == CHOICE_format_text) return ids_parse(job);
    if (job->in.bytes % width)
        return fail(BAD_FILE, "%s: %zu bytes cannot be divided into ids of %zu bytes; is it --format %s?",
                    job->from, job->in.bytes, width, width == 2 ? "i32" : "u16");
    job->ids.count = (int64_t)(job->in.bytes / width);
    TRY(ids_make(job, job->ids.count));
    for (int64_t i = 0; i < job->ids.count; i++) {
        uint16_t narrow;
        memcpy(&narrow, job->in.data + (size_t)i * width, sizeof narrow);
        if (width == 2) job->ids.data[i] = narrow;
        else            memcpy(&job->ids.data[i], job->in.data + (size_t)i * width, width);
    }
    return OK;
}

/* ---- the commands ---- */

static Status encode(TokenizerJob *job)
{
    if (job->options->format.value == CHOICE_format_u16 && job->tokenizer.vocabulary > 65536)
        return fail(BAD_OPTION, "--format u16 holds 65536 ids, --tokenizer %s has %d; take i32",
                    job->options->tokenizer, job->tokenizer.vocabulary);
    TRY(codec_check_uncompressed(job->from, job->in.data, job->in.bytes));
    TRY(special_tokens(&job->tokenizer, job->options));
    TRY(ids_make(job, tokenizer_max_ids(&job->tokenizer, job->in.data, (int64_t)job->in.bytes)));
    job->ids.count = job->tokenizer.encode(&job->tokenizer, job->ids.data, job->in.data,
                                           (int64_t)job->in.bytes);
    if (job->ids.count < 0) return BAD_FILE;                     /* encode has written the message */
    ids_write(job);
    return OK;
}

static Status decode(TokenizerJob *job)
{
    TRY(ids_read(job));
    Decoder said = { .tokenizer = &job->tokenizer };
    TRY(tokenizer_check(&job->tokenizer, job->ids.data, job->ids.count, job->from));
    for (int64_t i = 0; i < job->ids.count; i++) decoder_put(&said, job->out, job->ids.data[i]);
    decoder_end(&said, job->out);
    return OK;
}

Status cmd_tokenizer_info(Options *o)
{
    Tokenizer t;
    TRY(tokenizer_open(&t, o->tokenizer));
    printf("tokenizer   %s\n", t.name);
    printf("vocabulary  %d\n", t.vocabulary);
    if (t.eod >= 0) printf("end of document  id %d\n", t.eod);
    else            printf("end of document  none\n");
    printf("special tokens  %s\n", t.specials ? "yes; --parse-special-tokens recognises them in a text"
                                              : "none that can be written in a text");
    /* The ids of an empty text are those that the tokenizer adds before and after every text. */
    int32_t around[256];
    int64_t count = tokenizer_max_ids(&t, "", 0) <= 256 ? t.encode(&t, around, "", 0) : 0;
    printf("added to each text ");
    for (int64_t i = 0; i < count; i++) printf(" %d", around[i]);
    printf(count ? "\n" : " nothing\n");
    tokenizer_close(&t);
    return OK;
}

static Status job_run(const Options *o, Status (*work)(TokenizerJob *))
{
    TokenizerJob job = { .options = o };
    /* "bytes" is the tokenizer without a file, whatever files there are of that name. */
    if (strcmp(o->tokenizer, "bytes")) TRY(input_spared(o->tokenizer, o->output));
    for (int i = 0; i < o->input.count; i++) TRY(input_spared(o->input.text[i], o->output));
    TRY(tokenizer_open(&job.tokenizer, o->tokenizer));
    Status status = input_read(&job);
    if (status == OK && !(job.out = open_memstream(&job.made.data, &job.made.bytes)))
        status = fail(NO_MEMORY, "no memory for the output");
    if (status == OK) status = work(&job);
    if (status == OK) status = output_write(&job);
    if (job.out) fclose(job.out);
    free(job.in.data);
    free(job.ids.data);
    free(job.made.data);
    tokenizer_close(&job.tokenizer);
    return status;
}

Status cmd_tokenizer_encode(Options *o) { return job_run(o, encode); }

Status cmd_tokenizer_decode(Options *o) { return job_run(o, decode); }
