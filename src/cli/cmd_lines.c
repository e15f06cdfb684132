/* jotun tokenizer lines: each line of the inputs as ids of GPT-2's BPE, decimal numbers with blanks
 * between. The texts are read in pieces of whole lines; threads encode so many lines of a piece, which are
 * then written in order. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"
#include "base/team.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/text_file.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/moses.h"

enum { LINES_AT_ONCE = 10000, LINES_OF_A_THREAD = 100, LINES_LOGGED = 10000, FILES_MOST = 64 };

/* A line and its ids as text, which is owned; bytes -1: not encoded yet. */
typedef struct { TextSpan line; char *ids; int64_t bytes; } EncodedLine;

typedef struct {
    const Options *o;
    Tokenizer      tokenizer;
    int            files;
    TextReader     reader[FILES_MOST];
    TextSpan       rest[FILES_MOST];     /* of the piece that was read last */
    bool           ended;                /* one of the files has no further line */
    TextOutput     out[FILES_MOST];
    EncodedLine   *line;                 /* [LINES_AT_ONCE, files] */
    int64_t        lines, processed, filtered;
} Encoder;

static void encode_line(const Tokenizer *t, EncodedLine *x)
{
    int64_t  capacity = tokenizer_max_ids(t, x->line.text, x->line.bytes);
    int32_t *ids = malloc(((size_t)capacity + 1) * sizeof *ids);
    int64_t  count = ids ? t->encode(t, ids, x->line.text, x->line.bytes) : -1;
    Buffer   out   = { 0 };
    bool     good  = count >= 0;
    for (int64_t i = 0; i < count && good; i++)
        good = buffer_format(&out, "%s%" PRId32, i ? " " : "", ids[i]) == OK;
    good     = good && buffer_add(&out, "\n", 1) == OK;
    x->ids   = out.text;
    x->bytes = good ? out.bytes : -1;
    free(ids);
}

/* Lines that are left out have no text. */
static void encode_lines(void *context, int64_t begin, int64_t end)
{
    Encoder *e = context;
    for (int64_t i = begin * e->files; i < end * e->files; i++)
        if (e->line[i].line.text) encode_line(&e->tokenizer, &e->line[i]);
}

static bool in_memory(const Encoder *e)
{
    for (int f = 0; f < e->files; f++)
        if (e->rest[f].bytes == 0) return false;
    return true;
}

/* The next lines of all files that are in memory; those of which one is empty lose their text. */
static void lines_next(Encoder *e)
{
    for (e->lines = 0; e->lines < LINES_AT_ONCE && in_memory(e); e->lines++) {
        EncodedLine *x = &e->line[e->lines * e->files];
        bool empty = false;
        for (int f = 0; f < e->files; f++) {
            x[f] = (EncodedLine){ .bytes = -1 };
            text_line_next(&e->rest[f], &x[f].line);
            x[f].line = text_strip(x[f].line);
            empty |= x[f].line.bytes == 0;
        }
        bool left_out = empty && !e->o->keep_empty;
        e->filtered += left_out;
        for (int f = 0; f < e->files && left_out; f++) x[f].line.text = NULL;
    }
}

static Status lines_write(Encoder *e)
{
    Status status = OK;
    for (int64_t i = 0; i < e->lines * e->files; i++) {
        EncodedLine *x = &e->line[i];
        if (x->line.text && x->bytes < 0) status = fail(NO_MEMORY, "no memory for the ids of a line");
        if (x->line.text && status == OK) status = text_output_put(&e->out[i % e->files], x->ids, x->bytes);
        free(x->ids);
    }
    int64_t before = e->processed / LINES_LOGGED, after = (e->processed + e->lines) / LINES_LOGGED;
    while (before < after) fprintf(stderr, "processed %" PRId64 " lines\n", ++before * LINES_LOGGED);
    e->processed += e->lines;
    return status;
}

static Status encode_all(Encoder *e, Team *team)
{
    for (;;) {
        for (int f = 0; f < e->files; f++) {
            if (e->rest[f].bytes == 0) TRY(text_reader_next(&e->rest[f], &e->reader[f]));
            e->ended |= e->rest[f].bytes == 0;
        }
        if (e->ended) break;
        lines_next(e);
        team_for(team, e->lines, LINES_OF_A_THREAD, encode_lines, e);
        TRY(lines_write(e));
    }
    if (e->filtered) fprintf(stderr, "[EMPTY] filtered %" PRId64 " lines\n", e->filtered);
    return OK;
}

static Status tokenizer_of(Tokenizer *t, const Options *o)
{
    BpeTokenizer *bpe;
    TRY(bpe_tokenizer_open(&bpe, o->encoder_json));
    Status status = bpe_read_gpt2(bpe, o->encoder_json, o->vocab_bpe);
    if (status == OK) return bpe_tokenizer_make(t, bpe);
    bpe_tokenizer_close(bpe);
    return status;
}

static Status files_open(Encoder *e)
{
    const TextList *in = &e->o->encoder_inputs, *out = &e->o->encoder_outputs;
    if (in->count != out->count || in->count > FILES_MOST)
        return fail(BAD_USAGE, "--inputs has %d files and --outputs %d; give a file for each, up to %d",
                    in->count, out->count, FILES_MOST);
    TRY(standard_input_once(in->text, in->count, 1));
    for (int i = 0; i < in->count; i++)
        for (int j = 0; j < in->count; j++)
            if (strcmp(in->text[i], "-")) TRY(input_spared(in->text[i], out->text[j]));
    for (; e->files < in->count; e->files++) {
        int f = e->files;
        TRY(text_reader_open(&e->reader[f], in->text[f]));
        TRY(text_output_open(&e->out[f], out->text[f]));
    }
    e->line = malloc(LINES_AT_ONCE * (size_t)e->files * sizeof *e->line);
    return e->line ? OK : fail(NO_MEMORY, "no memory for %d lines", LINES_AT_ONCE);
}

static Status encode(Encoder *e)
{
    const Options *o = e->o;
    Team *team;
    if (!o->encoder_json || !o->vocab_bpe)
        return fail(BAD_USAGE, "jotun tokenizer lines needs --encoder-json and --vocab-bpe, the files of "
                    "GPT-2's BPE");
    TRY(tokenizer_of(&e->tokenizer, o));
    TRY(files_open(e));
    TRY(team_open(&team, o->encoder_workers < team_cores() ? (int)o->encoder_workers : team_cores()));
    Status status = encode_all(e, team);
    team_close(team);
    return status;
}

Status cmd_tokenizer_lines(Options *o)
{
    Encoder *e = calloc(1, sizeof *e);
    if (!e) return fail(NO_MEMORY, "no memory");
    e->o = o;
    Status status = encode(e);
    for (int f = 0; f < FILES_MOST; f++) {
        if (e->out[f].path) status = text_output_finish(&e->out[f], status);
        text_reader_close(&e->reader[f]);
    }
    tokenizer_close(&e->tokenizer);
    free(e->line);
    free(e);
    return status;
}

/* ---- jotun data detokenize [FILE...]: WikiText's words as plain text, a line for each line ---- */

static Status detokenize(TextSpan rest)
{
    char    *room = NULL;
    int64_t  bytes = 0;
    TextSpan line;
    Status   status = OK;
    while (status == OK && text_line_next(&rest, &line)) {
        if (moses_room(line.bytes) > bytes) {
            bytes = 2 * moses_room(line.bytes);
            free(room);
            room = malloc(2 * (size_t)bytes);
        }
        int64_t made = room ? moses_detokenize(room, room + bytes, line) : -1;
        if (made < 0) status = fail(NO_MEMORY, "no memory for a line of %lld bytes", (long long)line.bytes);
        else {
            made = moses_wikitext(room, made);
            room[made++] = '\n';
            fwrite(room, 1, (size_t)made, stdout);
        }
    }
    free(room);
    return status;
}

static Status detokenize_file(const char *path)
{
    TextReader reader;
    TextSpan   lines;
    Status status = text_reader_open(&reader, path);
    while (status == OK && (status = text_reader_next(&lines, &reader)) == OK && lines.bytes)
        status = detokenize(lines);
    text_reader_close(&reader);
    return status;
}

Status cmd_data_detokenize(Options *o)
{
    if (o->words.count == 0) return detokenize_file("-");
    for (int i = 0; i < o->words.count; i++) TRY(detokenize_file(o->words.text[i]));
    return OK;
}
