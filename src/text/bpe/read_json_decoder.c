/* Reads the decoder of a tokenizer.json. Text is decoded one token at a time, so what looks at the text of
 * several tokens together is refused: steps after ByteLevel, Fuse and ByteFallback, but for a Strip of one
 * character at the beginning, and CTC. */
#include <stdlib.h>
#include <string.h>
#include "text/bpe/read_json_internal.h"

static Status decode_add(JsonReader *r, DecodeStep step, const char *text)
{
    DecodeChain *c = &r->bpe->chain;
    step.bytes = (int64_t)strlen(text);
    step.text  = strdup(text);
    if (c->steps < DECODE_STEPS_MAX && step.text) {
        c->step[c->steps++] = step;
        return OK;
    }
    free(step.text);
    pattern_close(&step.pattern);
    return c->steps < DECODE_STEPS_MAX
               ? fail(NO_MEMORY, "%s: no memory for its decoder", r->path)
               : fail(BAD_FILE, "%s: more than %d decoders", r->path, DECODE_STEPS_MAX);
}

static Status refuse_after_joining(const JsonReader *r, const json_t *part)
{
    if (!r->bpe->chain.joined && !r->decodes_bytes) return OK;
    return fail(
        BAD_FILE,
        "%s: the decoder %s after %s works on the text of several tokens, which are written one by one;"
        " put it before, or leave it out",
        r->path, json_type_of(part), r->bpe->chain.joined ? "ByteLevel or Fuse" : "ByteFallback");
}

static Status decoder_byte_level(JsonReader *r, const json_t *part)
{
    TRY(refuse_after_joining(r, part));
    need_bool(r, part, "add_prefix_space");
    need_bool(r, part, "trim_offsets");
    read_bool(r, part, "use_regex", true);
    r->bpe->chain.joined = true;
    return decode_add(r, (DecodeStep){ .kind = DECODE_BYTE_LEVEL }, "");
}

static Status decoder_metaspace(JsonReader *r, const json_t *part)
{
    const char *mark = need_character(r, part, "replacement"), *scheme = metaspace_scheme(r, part);
    TRY(refuse_after_joining(r, part));
    return decode_add(r, (DecodeStep){.kind = DECODE_METASPACE, .drops = strcmp(scheme, "never") != 0}, mark);
}

static Status decoder_word_piece(JsonReader *r, const json_t *part)
{
    TRY(refuse_after_joining(r, part));
    bool cleanup = need_bool(r, part, "cleanup");
    return decode_add(r, (DecodeStep){ .kind = DECODE_WORD_PIECE, .cleanup = cleanup },
                      need_string(r, part, "prefix"));
}

static Status decoder_suffix(JsonReader *r, const json_t *part)
{
    const char *suffix = need_string(r, part, "suffix");
    TRY(refuse_after_joining(r, part));
    if (!*suffix && !r->invalid_key) note_invalid(r, "suffix", "a text that is not empty");
    return decode_add(r, (DecodeStep){ .kind = DECODE_SUFFIX }, suffix);
}

/* At the beginning of the whole text; nothing else may depend on the first token. */
static Status decoder_lead(JsonReader *r, const json_t *part, const char *content, int64_t start,
                           int64_t stop)
{
    if (start == 0 && stop == 0) return OK;
    const DecodeChain *c = &r->bpe->chain;
    bool again = c->steps && c->step[c->steps - 1].kind == DECODE_LEAD;
    if (start > 1 || stop || again || decode_chain_places(c)) return refuse_after_joining(r, part);
    return decode_add(r, (DecodeStep){ .kind = DECODE_LEAD }, content);
}

static Status decoder_strip(JsonReader *r, const json_t *part)
{
    const char *content = need_character(r, part, "content");
    int64_t start = need_count(r, part, "start"), stop = need_count(r, part, "stop");
    r->bpe->strip_first_space = true;
    if (r->bpe->chain.joined) return decoder_lead(r, part, content, start, stop);
    TRY(refuse_after_joining(r, part));
    return decode_add(r, (DecodeStep){ .kind = DECODE_STRIP, .start = start, .stop = stop }, content);
}

static Status decoder_replace(JsonReader *r, const json_t *part)
{
    DecodeStep  step = { .kind = DECODE_REPLACE };
    const char *content = need_string(r, part, "content");
    TRY(refuse_after_joining(r, part));
    TRY(read_pattern(r, part, &step.pattern));
    return decode_add(r, step, content);
}

static Status decoder_byte_fallback(JsonReader *r, const json_t *part)
{
    TRY(refuse_after_joining(r, part));
    r->decodes_bytes = true;
    return decode_add(r, (DecodeStep){ .kind = DECODE_BYTE_FALLBACK }, "");
}

/* Of tokens that are written one by one a text is made already; what comes after it works on the whole. */
static Status decoder_fuse(JsonReader *r, const json_t *part)
{
    (void)part;
    r->bpe->chain.joined = true;
    return r->bpe->chain.steps ? OK : decode_add(r, (DecodeStep){ .kind = DECODE_STRIP }, "");
}

static Status decoder_ctc(JsonReader *r, const json_t *part)
{
    (void)part;
    return fail(
        BAD_FILE,
        "%s: the decoder CTC drops tokens that repeat, as the outputs of speech models do and texts do"
        " not; encode with another program, or give another tokenizer",
        r->path);
}

static Status decoder_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "decoders"), "the \"decoders\" of a Sequence", decoder_read);
}

static const JsonField decoders[] = {
    {"Sequence", decoder_list},       {"ByteLevel", decoder_byte_level},
    {"Metaspace", decoder_metaspace}, {"WordPiece", decoder_word_piece},
    {"BPEDecoder", decoder_suffix},   {"Strip", decoder_strip},
    {"Replace", decoder_replace},     {"ByteFallback", decoder_byte_fallback},
    {"Fuse", decoder_fuse},           {"CTC", decoder_ctc},
};
Status decoder_read(JsonReader *r, const json_t *part)
{
    return DISPATCH(r, part, "decoder", decoders);
}
