/* The steps of a decoder (decoders/ in the sources of Hugging Face's library), one token at a time. */
#include "text/bpe/decode_chain.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "text/bpe/vocab.h"
#include "text/unicode.h"

void decode_chain_close(DecodeChain *chain)
{
    for (int i = 0; i < chain->steps; i++) {
        free(chain->step[i].text);
        pattern_close(&chain->step[i].pattern);
    }
    *chain = (DecodeChain){ 0 };
}

static Status append(DecodeText *out, const void *text, int64_t bytes)
{
    TRY(ARRAY_RESERVE(out->text, out->capacity, out->bytes + bytes + 1));
    if (bytes) memcpy(out->text + out->bytes, text, (size_t)bytes);
    out->bytes += bytes;
    return OK;
}

/* Every `old` by `new` */
static Status replace(DecodeText *text, const char *old, int64_t old_bytes, const char *new,
                      int64_t new_bytes)
{
    DecodeText out = { 0 };
    Status     status = append(&out, "", 0);
    for (int64_t at = 0; at < text->bytes && status == OK; ) {
        bool match = old_bytes && text->bytes - at >= old_bytes &&
                     !memcmp(text->text + at, old, (size_t)old_bytes);
        status = match ? append(&out, new, new_bytes) : append(&out, text->text + at, 1);
        at += match ? old_bytes : 1;
    }
    free(text->text);
    *text = out;
    return status;
}

static Status prepend(DecodeText *text, const char *before, int64_t bytes)
{
    TRY(append(text, before, bytes));
    memmove(text->text + bytes, text->text, (size_t)(text->bytes - bytes));
    memcpy(text->text, before, (size_t)bytes);
    return OK;
}

static void cut_front(DecodeText *text, int64_t bytes)
{
    text->bytes -= bytes;
    memmove(text->text, text->text + bytes, (size_t)text->bytes);
}

static bool begins(const DecodeText *text, const DecodeStep *s)
{
    return s->bytes && text->bytes >= s->bytes && !memcmp(text->text, s->text, (size_t)s->bytes);
}

static bool ends(const DecodeText *text, const DecodeStep *s)
{
    return s->bytes && text->bytes >= s->bytes &&
           !memcmp(text->text + text->bytes - s->bytes, s->text, (size_t)s->bytes);
}

/* The library's tidying of English after WordPiece, in its order */
static Status cleanup(DecodeText *text)
{
    static const char *const pairs[][2] = {
        { " .", "." }, { " ?", "?" }, { " !", "!" }, { " ,", "," }, { " ' ", "'" }, { " n't", "n't" },
        { " 'm", "'m" }, { " do not", " don't" }, { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    for (int i = 0; i < COUNT(pairs); i++)
        TRY(replace(text, pairs[i][0], (int64_t)strlen(pairs[i][0]), pairs[i][1],
                    (int64_t)strlen(pairs[i][1])));
    return OK;
}

static Status word_piece(const DecodeStep *s, DecodeText *text, bool first)
{
    bool prefixed = s->bytes == 0 || begins(text, s);
    if (!first && prefixed)  cut_front(text, s->bytes);
    if (!first && !prefixed) TRY(prepend(text, " ", 1));
    return s->cleanup ? cleanup(text) : OK;
}

/* How many of the characters at an end are counted before either end is cut */
static void strip(const DecodeStep *s, DecodeText *text)
{
    int64_t front = 0, back = text->bytes;
    for (int64_t i = 0; i < s->start && front + s->bytes <= text->bytes &&
                        !memcmp(text->text + front, s->text, (size_t)s->bytes); i++)
        front += s->bytes;
    for (int64_t i = 0; i < s->stop && ends(&(DecodeText){ text->text, back, 0 }, s); i++) back -= s->bytes;
    text->bytes = back;
    cut_front(text, front < back ? front : back);
}

static Status replace_matches(const DecodeStep *s, DecodeText *text)
{
    DecodeText    out = { 0 };
    RegexSpace   *space = NULL;
    PatternSearch search = { 0 };
    int64_t at = 0, from, to;
    bool    found = true;
    Status  status = append(&out, "", 0);
    while (found && status == OK) {
        status = pattern_next(&s->pattern, &space, &search, text->text, text->bytes, &from, &to, &found);
        if (status == OK) status = append(&out, text->text + at, from - at);
        if (status == OK && found) status = append(&out, s->text, s->bytes);
        at = to;
    }
    regex_space_close(space);
    free(text->text);
    *text = out;
    return status;
}

/* In either case of letters; encoding knows upper case only. */
static void byte_fallback(DecodeText *text)
{
    char name[7] = "";
    if (text->bytes == 6) memcpy(name, text->text, 6);
    for (int i = 3; i < 5; i++) name[i] = (char)toupper((unsigned char)name[i]);
    int byte = byte_of_name(name, text->bytes);
    if (byte < 0) return;
    text->text[0] = (uint8_t)byte;
    text->bytes   = 1;
}

static Status byte_level(DecodeText *text)
{
    DecodeText out = { 0 };
    TRY(append(&out, text->text, text->bytes));
    if (letters_to_bytes(out.text, &out.bytes))
        memcpy(text->text, out.text, (size_t)(text->bytes = out.bytes));
    free(out.text);
    return OK;
}

static Status step_apply(const DecodeStep *s, DecodeText *text, int place)
{
    bool first = place & PIECE_FIRST, last = place & PIECE_LAST;
    switch (s->kind) {
    case DECODE_JOIN:          return prepend(text, " ", 1);
    case DECODE_BYTE_LEVEL:    return byte_level(text);
    case DECODE_BYTE_FALLBACK: byte_fallback(text); return OK;
    case DECODE_METASPACE:     return replace(text, s->text, s->bytes, " ", !(first && s->drops));
    case DECODE_WORD_PIECE:    return word_piece(s, text, first);
    case DECODE_SUFFIX:        return replace(text, s->text, s->bytes, " ", !last);
    case DECODE_STRIP:         strip(s, text); return OK;
    case DECODE_REPLACE:       return replace_matches(s, text);
    case DECODE_LEAD:          return OK;
    }
    return OK;
}

Status decode_chain_apply(const DecodeChain *chain, DecodeText *text, int place)
{
    for (int i = 0; i < chain->steps; i++) TRY(step_apply(&chain->step[i], text, place));
    return OK;
}

int decode_chain_places(const DecodeChain *chain)
{
    int places = 0;
    for (int i = 0; i < chain->steps; i++) {
        const DecodeStep *s = &chain->step[i];
        if (s->kind == DECODE_WORD_PIECE || (s->kind == DECODE_METASPACE && s->drops)) places |= PIECE_FIRST;
        if (s->kind == DECODE_SUFFIX) places |= PIECE_LAST;
    }
    return places;
}

int64_t decode_chain_prefix(const DecodeChain *chain, const uint8_t *text, int64_t bytes)
{
    const DecodeStep *s = chain->steps ? &chain->step[chain->steps - 1] : NULL;
    if (!s || (s->kind != DECODE_JOIN && s->kind != DECODE_LEAD)) return 0;
    int64_t lead = s->kind == DECODE_JOIN ? 1 : s->bytes;
    return s->kind == DECODE_JOIN || (bytes >= lead && !memcmp(text, s->text, (size_t)lead)) ? lead : 0;
}
