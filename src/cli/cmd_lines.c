/* jotun tokenizer lines: each line of a text as ids of GPT-2's BPE, decimal numbers with blanks between.
 * Threads encode parts of the text, which are written in its order. */
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

enum { LINES_LOGGED = 10000 };

/* lines: read so far, those that were left out too */
typedef struct {
    const Options *o;
    Tokenizer      tokenizer;
    TextParts      parts;
    TextOutput     out;
    int64_t        lines, left_out;
} Encoder;

/* At the beginning of what is made of a part. */
typedef struct { int64_t lines, left_out; } PartCounts;

static void encode_line(Buffer *made, const Tokenizer *t, TextSpan line)
{
    int64_t  capacity = tokenizer_max_ids(t, line.text, line.bytes);
    int32_t *ids   = malloc(((size_t)capacity + 1) * sizeof *ids);
    int64_t  count = ids ? t->encode(t, ids, line.text, line.bytes) : -1;
    CHECK(count >= 0, "no memory for the ids of a line of %" PRId64 " bytes", line.bytes);
    for (int64_t i = 0; i < count; i++)
        CHECK(buffer_format(made, "%s%" PRId32, i ? " " : "", ids[i]) == OK, "%s", fail_text());
    buffer_add_text_or_stop(made, "\n");
    free(ids);
}

static void part_encode(void *context, TextSpan lines, Buffer *made)
{
    const Encoder *e = context;
    TextSpan   line;
    PartCounts counts = { 0 };
    buffer_add_or_stop(made, &counts, sizeof counts);
    for (; text_line_next(&lines, &line); counts.lines++) {
        line = text_strip(line);
        if (line.bytes || e->o->keep_empty) encode_line(made, &e->tokenizer, line);
        else counts.left_out++;
    }
    memcpy(made->text, &counts, sizeof counts);
}

static Status part_write(void *context, const Buffer *made)
{
    Encoder   *e = context;
    PartCounts counts;
    memcpy(&counts, made->text, sizeof counts);
    int64_t logged = e->lines / LINES_LOGGED;
    e->lines    += counts.lines;
    e->left_out += counts.left_out;
    while (logged < e->lines / LINES_LOGGED)
        fprintf(stderr, "processed %" PRId64 " lines\n", ++logged * LINES_LOGGED);
    return text_output_put(&e->out, made->text + sizeof counts, made->bytes - (int64_t)sizeof counts);
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

static Status encode(Encoder *e)
{
    const Options  *o  = e->o;
    const TextList *in = &o->encoder_inputs, *out = &o->encoder_outputs;
    if (!o->encoder_json || !o->vocab_bpe)
        return fail(BAD_USAGE, "jotun tokenizer lines needs --encoder-json and --vocab-bpe, the files of "
                    "GPT-2's BPE");
    if (in->count != 1 || out->count != 1)
        return fail(BAD_USAGE, "--inputs has %d files and --outputs %d; give one of each, and encode several "
                    "texts one after another", in->count, out->count);
    TRY(tokenizer_of(&e->tokenizer, o));
    if (strcmp(in->text[0], "-")) TRY(input_spared(in->text[0], out->text[0]));
    TRY(team_open(&e->parts.team,
                  o->encoder_workers < team_cores() ? (int)o->encoder_workers : team_cores()));
    TRY(text_output_open(&e->out, out->text[0]));
    return text_pieces(in->text[0], NULL, text_parts_make, &e->parts);
}

Status cmd_tokenizer_lines(Options *o)
{
    Encoder e = { .o = o, .out.fd = -1, .parts = { .context = &e, .make = part_encode, .take = part_write } };
    Status status = encode(&e);
    if (status == OK && e.left_out) fprintf(stderr, "[EMPTY] filtered %" PRId64 " lines\n", e.left_out);
    if (e.out.path) status = text_output_finish(&e.out, status);
    text_parts_close(&e.parts);
    tokenizer_close(&e.tokenizer);
    return status;
}

/* ---- jotun data detokenize [FILE...]: WikiText's words as plain text, a line for each line ---- */

static Status detokenize(void *context, TextSpan rest)
{
    (void)context;
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

Status cmd_data_detokenize(Options *o)
{
    if (o->words.count == 0) return text_pieces("-", NULL, detokenize, NULL);
    for (int i = 0; i < o->words.count; i++) TRY(text_pieces(o->words.text[i], NULL, detokenize, NULL));
    return OK;
}
