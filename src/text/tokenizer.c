/* What all tokenizers share once they are open; tokenizer_open is in text/tokenizer_open.c, above the kinds
 * of tokenizers. */
#include "text/tokenizer.h"
#include <inttypes.h>

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

Status tokenizer_check(const Tokenizer *t, const int32_t *ids, int64_t count, const char *where)
{
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= t->vocabulary)
            return fail(BAD_FILE,
                        "%s: id %d at position %" PRId64 " is not one of the %d ids of --tokenizer %s", where,
                        ids[i], i, t->vocabulary, t->name);
    return OK;
}
