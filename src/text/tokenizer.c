/* What all tokenizers share once they are open; tokenizer_open is in text/tokenizer_open.c, above the kinds
 * of tokenizers. */
#include "text/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void tokenizer_close(Tokenizer *t)
{
    if (t->close) t->close(t);
    *t = (Tokenizer){ 0 };
}

int64_t tokenizer_max_ids(const Tokenizer *t, const char *text, int64_t bytes)
{
    if (t->max_ids) return t->max_ids(t, text, bytes);
    return t->ids_per_byte ? bytes * t->ids_per_byte + t->extra_ids : bytes;
}

uint16_t *tokenizer_id_bytes(const Tokenizer *t)
{
    uint16_t *bytes = calloc((size_t)t->vocabulary + 1, sizeof *bytes);
    for (int32_t id = 0; bytes && id < t->vocabulary; id++) {
        int64_t count = id == t->eod ? 0 : t->decode(t, id).bytes;
        bytes[id] = (uint16_t)(count < UINT16_MAX ? count : UINT16_MAX);
    }
    return bytes;
}

/* ---- fingerprints ---- */

/* A change of what is hashed, or how, takes the next version: fingerprints are compared with those in
 * checkpoints. */
static const char FINGERPRINT_VERSION[] = "v1: ", RULES[] = ", rules ";

uint64_t tokenizer_hash(uint64_t before, const void *data, int64_t bytes)
{
    return XXH3_64bits_withSeed(data, (size_t)bytes, before);
}

void tokenizer_fingerprint(char out[TOKENIZER_FINGERPRINT], const Tokenizer *t)
{
    TokenizerHashes h = t->hashes ? t->hashes(t) : (TokenizerHashes){ 0 };
    h.rules = tokenizer_hash(h.rules, &t->eod, sizeof t->eod);
    snprintf(out, TOKENIZER_FINGERPRINT, "%s%" PRId32 " ids, tokens %016" PRIx64 "%s%016" PRIx64,
             FINGERPRINT_VERSION, t->vocabulary, h.tokens, RULES, h.rules);
}

TokenizerMatch tokenizer_match(const char *was, const char *now)
{
    if (!strcmp(was, now)) return TOKENIZER_SAME;
    if (strncmp(was, FINGERPRINT_VERSION, strlen(FINGERPRINT_VERSION))) return TOKENIZER_OTHER_VERSION;
    const char *rules = strstr(now, RULES);
    return rules && !strncmp(was, now, (size_t)(rules - now)) ? TOKENIZER_OTHER_RULES : TOKENIZER_OTHER;
}

Status tokenizer_check(const Tokenizer *t, const int32_t *ids, int64_t count, const char *where)
{
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= t->vocabulary)
            return fail(BAD_FILE,
                        "%s: id %d at position %" PRId64 " is not one of the %d ids of --tokenizer %s", where,
                        ids[i], i, t->vocabulary, t->name);
    return OK;
}
