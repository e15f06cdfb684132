/* Cutting the sentences of a token file into blocks, in one pass over their lengths. Blocks that follow from
 * numbers alone have no table. */
#include "data/blocks.h"
#include "text/dictionary.h"
#include <inttypes.h>
#include <stdlib.h>

/* The blocks of a pass; without a table they are counted. */
typedef struct { SampleBlocks *to; int64_t count, first, tokens, least; } Cut;

/* Ends the block that is being filled. A sentence that is longer than S is a block of its own. */
static void cut(Cut *c)
{
    if (c->tokens > c->to->sequence) c->to->longer++;
    else if (c->tokens >= c->least) {
        if (c->to->table) c->to->table[c->count][0] = c->first, c->to->table[c->count][1] = c->tokens;
        c->count++;
    }
    c->first += c->tokens;
    c->tokens = 0;
}

/* A document's end is left out of its blocks, and so are blocks that then have one token. */
static int64_t cut_sentences(SampleBlocks *b, int64_t begin, int64_t end)
{
    bool by_document = b->kind == BREAK_COMPLETE_DOC;
    Cut  c = { .to = b, .first = b->first, .least = by_document ? 2 : 1 };
    b->longer = 0;
    for (int64_t s = begin; s < end; s++) {
        int64_t length = token_file_length(b->token_file, s);
        bool    full = b->kind == BREAK_EOS || c.tokens + length > b->sequence;
        bool    divides = by_document && length == 1;
        if (divides || (full && c.tokens > 0)) cut(&c);
        if (divides) c.first += length;
        else         c.tokens += length;
    }
    cut(&c);
    return c.count;
}

static Status table_make(SampleBlocks *b, int64_t begin, int64_t end)
{
    b->samples = cut_sentences(b, begin, end);
    b->table   = malloc(((size_t)b->samples + 1) * sizeof *b->table);
    if (!b->table)
        return fail(NO_MEMORY, "no memory for %" PRId64 " blocks of --sample-break-mode", b->samples);
    cut_sentences(b, begin, end);
    return OK;
}

Status blocks_open(SampleBlocks *b, const TokenFile *f, int64_t begin, int64_t end, SampleBreak kind,
                   int64_t sequence, int32_t eod)
{
    int64_t first = token_file_start(f, begin);
    *b = (SampleBlocks){ .kind = kind, .sequence = sequence, .first = first,
                         .tokens = token_file_start(f, end) - first,
                   .lead = f->kind != TOKEN_FILE_MEGATRON ? DICTIONARY_EOS : eod, .token_file = f };
    if (b->lead < 0)
        return fail(BAD_OPTION, "--sample-break-mode: %s has no end of a sentence, since the tokenizer has"
                    " no end of a document; give a --tokenizer that has one, or token files "
                    "of words (jotun data words)",
                    f->bin.path);
    if (kind == BREAK_NONE) b->samples = (b->tokens + sequence - 1) / sequence;
    else                    TRY(table_make(b, begin, end));
    if (b->samples > 0) return OK;
    blocks_close(b);
    return fail(BAD_FILE, "%s: --sample-break-mode finds no block of up to --seq-length %" PRId64
                " tokens; give more text or a longer sequence", f->bin.path, sequence);
}

/* Whether a sentence begins at this token. */
static bool begins_sentence(const TokenFile *f, int64_t token)
{
    int64_t low = 0, high = f->sequences;               /* the first sequence that begins at it or later */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (token_file_start(f, middle) < token) low = middle + 1;
        else                                     high = middle;
    }
    return low < f->sequences && token_file_start(f, low) == token;
}

SampleBlock block_at(const SampleBlocks *b, int64_t sample)
{
    if (b->table) return (SampleBlock){ b->table[sample][0], b->table[sample][1], true };
    int64_t at = sample * b->sequence, left = b->tokens - at;
    return (SampleBlock){ b->first + at, left < b->sequence ? left : b->sequence,
                    at == 0 || begins_sentence(b->token_file, b->first + at) };
}

void blocks_close(SampleBlocks *b)
{
    free(b->table);
    *b = (SampleBlocks){ 0 };
}
