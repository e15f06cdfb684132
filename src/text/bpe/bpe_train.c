/* Training of a BPE tokenizer: the tokens, counting the words of texts with several threads, and writing a
 * tokenizer.json. The merges are in bpe_train_merge.c. */
#include "text/bpe/bpe_train.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/utf8.h"
#include "text/bpe/bpe_train_internal.h"
#include "text/bpe/vocab.h"
#include "text/pretokenize/pretoken.h"
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/array.h"

/* ---- tokens ---- */

static void slots_fill(BpeTrain *t);

/* Makes room for a token, and doubles the hash table when there are fewer than four slots per token. */
static void tokens_grow(BpeTrain *t)
{
    ARRAY_RESERVE_OR_STOP(t->token, t->capacity, t->ids + 1);
    if (4 * (int64_t)t->ids < t->slots) return;
    t->slots = t->slots ? 2 * t->slots : 4096;
    free(t->token_slot);
    t->token_slot = calloc((size_t)t->slots, sizeof *t->token_slot);
    CHECK(t->token_slot, "no memory for %d tokens", t->ids);
    slots_fill(t);
}

/* The slot of these bytes, or the empty one where they belong */
static int32_t *slot_find(const BpeTrain *t, const char *text, int64_t bytes)
{
    for (uint32_t at = (uint32_t)XXH3_64bits(text, (size_t)bytes);; at++) {
        int32_t *slot = &t->token_slot[at & (uint32_t)(t->slots - 1)];
        if (!*slot) return slot;
        const TextPiece *p = &t->token[*slot - 1];
        if (p->bytes == bytes && !memcmp(p->text, text, (size_t)bytes)) return slot;
    }
}

static void slots_fill(BpeTrain *t)
{
    for (int32_t id = 0; id < t->ids; id++) *slot_find(t, t->token[id].text, t->token[id].bytes) = id + 1;
}

int32_t token_id(BpeTrain *t, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes)
{
    char *text = malloc((size_t)(left_bytes + right_bytes) + 1);
    CHECK(text, "no memory for token %d", t->ids);
    memcpy(text, left, (size_t)left_bytes);
    memcpy(text + left_bytes, right, (size_t)right_bytes);
    tokens_grow(t);
    int32_t *slot = slot_find(t, text, left_bytes + right_bytes), id = *slot - 1;
    if (id >= 0) {
        free(text);
        return id;
    }
    t->token[t->ids] = (TextPiece){ .text = text, .bytes = left_bytes + right_bytes };
    *slot = ++t->ids;
    return t->ids - 1;
}

static Status special_add(BpeTrain *t, const char *text)
{
    uint8_t bytes[256];
    /* A special token that is spelled in byte letters would be found by merges, so it is stored as the bytes
     * it spells. */
    int64_t n = (int64_t)strlen(text), letters = n;
    bool    spelled = n < 256 && letters_to_bytes(memcpy(bytes, text, (size_t)n), &letters);
    json_t *valid = json_string(text);
    json_decref(valid);
    if (!valid || n == 0) return fail(BAD_OPTION, "--special-tokens: \"%.40s\" is not UTF-8 text", text);
    if (spelled && letters == 1)
        return fail(BAD_OPTION, "--special-tokens %s is one byte, which is a token anyway; leave it out",
                    text);
    int32_t before = t->ids;
    token_id(t, spelled ? (const char *)bytes : text, spelled ? letters : n, "", 0);
    return t->ids > before ? OK : fail(BAD_OPTION, "--special-tokens: %s is given twice", text);
}

/* Adds the special tokens, then the bytes in the order of their letters, as Hugging Face's trainer numbers
 * them. */
static Status tokens_begin(BpeTrain *t)
{
    int64_t fixed = 256 + t->plan.specials;
    if (t->plan.vocabulary < fixed || t->plan.vocabulary > INT32_MAX / 8)
        return fail(BAD_OPTION,
                    "--vocab-size %lld: 256 bytes and %d special tokens are %lld ids; give %lld or more",
                    (long long)t->plan.vocabulary, t->plan.specials, (long long)fixed, (long long)fixed + 1);
    for (int i = 0; i < t->plan.specials; i++) TRY(special_add(t, t->plan.special[i]));
    for (uint32_t letter = 0; letter < 256 + 68; letter++)
        for (int byte = 0; byte < 256; byte++)
            if (letter_of_byte((uint8_t)byte) == letter)
                t->byte_id[byte] = token_id(t, (char[]){(char)byte}, 1, "", 0);
    return OK;
}

/* ---- feeding ---- */

Status bpe_train_open(BpeTrain **out, const BpePlan *plan)
{
    *out = NULL;
    BpeTrain *t = calloc(1, sizeof *t);
    if (t) t->table = calloc((size_t)team_size(plan->team), sizeof *t->table);
    if (!t || !t->table) {
        free(t);
        return fail(NO_MEMORY, "no memory to train a tokenizer");
    }
    t->plan  = *plan;
    t->tables = team_size(plan->team);
    Status status = tokens_begin(t);
    if (status != OK) {
        bpe_train_close(t);
        return status;
    }
    *out = t;
    return OK;
}

/* Each thread takes the next text that no thread has taken. Which thread counts a word does not matter, as
 * counts are summed. */
static void table_feed(void *context, int64_t begin, int64_t end)
{
    BpeTrain *t = context;
    for (int64_t table = begin; table < end; table++)
        for (int64_t i; (i = atomic_fetch_add(&t->next_text, 1)) < t->count;)
            for (int64_t at = 0, n; at < t->texts[i].bytes; at += n) {
                n = pretoken_next(PRETOKEN_GPT2, (const uint8_t *)t->texts[i].text + at,
                                  t->texts[i].bytes - at);
                word_table_add(&t->table[table], t->texts[i].text + at, n);
            }
}

void bpe_train_feed(BpeTrain *t, const TextPiece *texts, int64_t count)
{
    t->texts = texts;
    t->count = count;
    atomic_store(&t->next_text, 0);
    team_for(t->plan.team, t->tables, 1, table_feed, t);
}

int64_t bpe_train_words(const BpeTrain *t) { return t->table[0].words; }
int32_t bpe_train_ids  (const BpeTrain *t) { return t->ids; }

const BpeMerge *bpe_train_merges(const BpeTrain *t, int32_t *count)
{
    *count = t->merges;
    return t->merge;
}

void bpe_train_close(BpeTrain *t)
{
    if (!t) return;
    for (int i = 0; i < t->tables; i++) word_table_close(&t->table[i]);
    for (int32_t id = 0; id < t->ids; id++) free((void *)(uintptr_t)t->token[id].text);
    free(t->table);
    free(t->token);
    free(t->token_slot);
    free(t->merge);
    free(t);
}

/* ---- tokenizer.json ---- */

/* A token as a JSON string: special ones as given, others in byte letters. */
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
        uint8_t letter[4];
        int     bytes = utf8_encode(letter, letter_of_byte((uint8_t)t->token[id].text[i]));
        if (letter[0] == '"' || letter[0] == '\\') fputc('\\', out);
        fwrite(letter, 1, (size_t)bytes, out);
    }
    fputc('"', out);
}

#define BYTE_LEVEL(prefix) \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"trim_offsets\": true, \"use_regex\": true}"

static const char special_rest[] =
    ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false,"
    " \"special\": true}";
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
