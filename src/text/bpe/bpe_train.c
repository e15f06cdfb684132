#include "text/bpe/bpe_train.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "text/bpe/bpe_train_internal.h"
#include "text/pretokenize/pretoken.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- tokens ---- */

/* GPT-2's: printable bytes are themselves, the 68 others stand in order from U+0100. */
int byte_letter(int byte)
{
    int strange = 0;
    for (int b = 0; b < byte; b++) strange += !((b > 32 && b < 127) || (b > 160 && b != 173));
    return (byte > 32 && byte < 127) || (byte > 160 && byte != 173) ? byte : 256 + strange;
}

static void places_fill(BpeTrain *t);

static void tokens_grow(BpeTrain *t)
{
    if (t->ids < t->room) return;
    t->room   = t->room ? 2 * t->room : 1024;
    t->places = 4 * t->room;
    free(t->token_place);
    t->token       = realloc(t->token, (size_t)t->room * sizeof *t->token);
    t->token_place = calloc((size_t)t->places, sizeof *t->token_place);
    CHECK(t->token && t->token_place, "no memory for %d tokens", t->room);
    places_fill(t);
}

static int32_t *place_find(const BpeTrain *t, const char *text, int64_t bytes)
{
    for (uint32_t at = (uint32_t)XXH3_64bits(text, (size_t)bytes);; at++) {
        int32_t *place = &t->token_place[at & (uint32_t)(t->places - 1)];
        if (!*place) return place;
        const TextPiece *p = &t->token[*place - 1];
        if (p->bytes == bytes && !memcmp(p->text, text, (size_t)bytes)) return place;
    }
}

static void places_fill(BpeTrain *t)
{
    for (int32_t id = 0; id < t->ids; id++) *place_find(t, t->token[id].text, t->token[id].bytes) = id + 1;
}

int32_t token_id(BpeTrain *t, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes,
                 bool add)
{
    char *text = malloc((size_t)(left_bytes + right_bytes) + 1);
    CHECK(text, "no memory for token %d", t->ids);
    memcpy(text, left, (size_t)left_bytes);
    memcpy(text + left_bytes, right, (size_t)right_bytes);
    tokens_grow(t);
    int32_t *place = place_find(t, text, left_bytes + right_bytes), id = *place - 1;
    if (id >= 0 || !add) {
        free(text);
        return id;
    }
    t->token[t->ids] = (TextPiece){ .text = text, .bytes = left_bytes + right_bytes };
    *place = ++t->ids;
    return t->ids - 1;
}

/* Letters of the byte alphabet as bytes, since a merge may spell a special token; -1 where it spells none */
static int64_t letters_bytes(char *out, const char *text)
{
    int64_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; n++) {
        int letter = *p < 0x80 ? *p : (*p & 0x1F) << 6 | (p[1] & 0x3F), byte = 0;
        while (byte < 256 && byte_letter(byte) != letter) byte++;
        if (byte == 256 || *p >= 0xE0) return -1;
        out[n] = (char)byte;
        p += *p < 0x80 ? 1 : 2;
    }
    return n;
}

static Status special_add(BpeTrain *t, const char *text)
{
    char    bytes[256];
    int64_t n = (int64_t)strlen(text), letters = n < 256 ? letters_bytes(bytes, text) : -1;
    json_t *valid = json_string(text);
    json_decref(valid);
    if (!valid || n == 0) return fail(BAD_OPTION, "--special-tokens: \"%.40s\" is no text in UTF-8", text);
    if (letters == 1)
        return fail(BAD_OPTION, "--special-tokens %s is one letter, which is a token anyway; drop it", text);
    int32_t before = t->ids;
    if (letters < 0) token_id(t, text, n, "", 0, true);
    else             token_id(t, bytes, letters, "", 0, true);
    return t->ids > before ? OK : fail(BAD_OPTION, "--special-tokens: %s is there twice", text);
}

static Status tokens_begin(BpeTrain *t)
{
    int64_t fixed = 256 + t->plan.specials;
    if (t->plan.vocabulary < fixed || t->plan.vocabulary > INT32_MAX / 8)
        return fail(BAD_OPTION,
                    "--vocab-size %lld: 256 bytes and %d special tokens are %lld ids; %lld or more will do",
                    (long long)t->plan.vocabulary, t->plan.specials, (long long)fixed, (long long)fixed + 1);
    for (int i = 0; i < t->plan.specials; i++) TRY(special_add(t, t->plan.special[i]));
    for (int letter = 0; letter < 256 + 68; letter++)
        for (int byte = 0; byte < 256; byte++)
            if (byte_letter(byte) == letter)
                t->byte_id[byte] = token_id(t, (char[]){(char)byte}, 1, "", 0, true);
    return OK;
}

/* ---- feeding ---- */

Status bpe_train_open(BpeTrain **out, const BpePlan *plan)
{
    *out = NULL;
    BpeTrain *t = calloc(1, sizeof *t);
    if (t) t->lane = calloc((size_t)team_size(plan->team), sizeof *t->lane);
    if (!t || !t->lane) {
        free(t);
        return fail(NO_MEMORY, "no memory to train a tokenizer");
    }
    t->plan  = *plan;
    t->lanes = team_size(plan->team);
    Status status = tokens_begin(t);
    if (status != OK) {
        bpe_train_close(t);
        return status;
    }
    *out = t;
    return OK;
}

/* Texts go to whoever is free: sums do not mind. */
static void lane_feed(void *context, int64_t begin, int64_t end)
{
    BpeTrain *t = context;
    for (int64_t lane = begin; lane < end; lane++)
        for (int64_t i; (i = atomic_fetch_add(&t->taken, 1)) < t->count;)
            for (int64_t at = 0, n; at < t->texts[i].bytes; at += n) {
                n = pretoken_next(PRETOKEN_GPT2, (const uint8_t *)t->texts[i].text + at, t->texts[i].bytes - at);
                word_table_add(&t->lane[lane], t->texts[i].text + at, n);
            }
}

void bpe_train_feed(BpeTrain *t, const TextPiece *texts, int64_t count)
{
    t->texts = texts;
    t->count = count;
    atomic_store(&t->taken, 0);
    team_for(t->plan.team, t->lanes, 1, lane_feed, t);
}

int64_t bpe_train_words(const BpeTrain *t) { return t->lane[0].words; }
int32_t bpe_train_ids  (const BpeTrain *t) { return t->ids; }

const BpeMerge *bpe_train_merges(const BpeTrain *t, int32_t *count)
{
    *count = t->merges;
    return t->merge;
}

void bpe_train_close(BpeTrain *t)
{
    if (!t) return;
    for (int i = 0; i < t->lanes; i++) word_table_close(&t->lane[i]);
    for (int32_t id = 0; id < t->ids; id++) free((void *)(uintptr_t)t->token[id].text);
    free(t->lane);
    free(t->token);
    free(t->token_place);
    free(t->merge);
    free(t);
}

/* ---- tokenizer.json ---- */

static void token_write(FILE *out, const BpeTrain *t, int32_t id)
{
    if (id < t->plan.specials) {
        json_t *text = json_string(t->plan.special[id]);
        json_dumpf(text, out, JSON_ENCODE_ANY);
        json_decref(text);
        return;
    }
    fputc('"', out);
    for (int64_t i = 0; i < t->token[id].bytes; i++) {
        int letter = byte_letter((unsigned char)t->token[id].text[i]);
        if (letter == '"' || letter == '\\') fputc('\\', out);
        if (letter < 0x80) fputc(letter, out);
        else               fprintf(out, "%c%c", 0xC0 | letter >> 6, 0x80 | (letter & 0x3F));
    }
    fputc('"', out);
}

#define BYTE_LEVEL(prefix) \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"trim_offsets\": true, \"use_regex\": true}"

static const char special_rest[] =
    ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}";
static const char before_vocab[] =
    "],\n\"normalizer\": null,\n\"pre_tokenizer\": " BYTE_LEVEL("false") ",\n"
    "\"post_processor\": " BYTE_LEVEL("true") ",\n\"decoder\": " BYTE_LEVEL("true") ",\n"
    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": false, "
    "\"byte_fallback\": false, \"ignore_merges\": false,\n\"vocab\": {";

static void json_write(FILE *out, const BpeTrain *t)
{
    fputs("{\n\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n\"added_tokens\": [", out);
    for (int32_t id = 0; id < t->plan.specials; id++) {
        fprintf(out, "%s\n{\"id\": %d, \"content\": ", id ? "," : "", id);
        token_write(out, t, id);
        fputs(special_rest, out);
    }
    fputs(before_vocab, out);
    for (int32_t id = 0; id < t->ids; id++) {
        fputs(id ? ",\n" : "\n", out);
        token_write(out, t, id);
        fprintf(out, ": %d", id);
    }
    fputs("},\n\"merges\": [", out);
    for (int32_t i = 0; i < t->merges; i++) {
        fputs(i ? ",\n[" : "\n[", out);
        token_write(out, t, t->merge[i].left);
        fputs(", ", out);
        token_write(out, t, t->merge[i].right);
        fputc(']', out);
    }
    fputs("]}\n}\n", out);
}

Status bpe_train_write(const BpeTrain *t, const char *path)
{
    char  *text = NULL;
    size_t bytes = 0;
    FILE  *out = open_memstream(&text, &bytes);
    if (out) json_write(out, t);
    bool good = out && fclose(out) == 0;
    Status status =
        good ? file_write_whole(path, text, bytes) : fail(NO_MEMORY, "%s: no memory to write it", path);
    free(text);
    return status;
}
