/* What all tokenizers share once they are open; tokenizer_open is in text/tokenizer_open.c, above the kinds
 * of tokenizers. */
#include "text/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include "base/random.h"

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

/* It is compared with those in checkpoints, so it must not change. */
void tokenizer_fingerprint(char out[TOKENIZER_FINGERPRINT], const Tokenizer *t)
{
    uint64_t hash = random_mix((uint64_t)t->vocabulary, (uint64_t)t->eod);
    for (int32_t id = 0; id < t->vocabulary; id++) {
        TextPiece piece = t->decode(t, id);
        hash = random_mix(hash, (uint64_t)piece.bytes);
        for (int64_t i = 0; i < piece.bytes; i++) hash = random_mix(hash, (uint8_t)piece.text[i]);
    }
    snprintf(out, TOKENIZER_FINGERPRINT, "%" PRId32 " ids, print %016" PRIx64, t->vocabulary, hash);
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
