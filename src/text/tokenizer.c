#include <inttypes.h>
#include <string.h>
#include "text/bytes.h"

Status tokenizer_open(Tokenizer *t, const char *name)
{
    *t = bytes_tokenizer;
    if (strcmp(name, t->name) == 0) return OK;
    return fail(BAD_OPTION, "--tokenizer %s: only the word bytes is built yet (ids 0-255, end of document"
                " 256); vocabularies from files are not", name);
}

void tokenizer_close(Tokenizer *t)
{
    if (t->close) t->close(t);
    *t = (Tokenizer){ 0 };
}

Status tokenizer_check(const Tokenizer *t, const int32_t *ids, int64_t count, const char *where)
{
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= t->vocabulary)
            return fail(BAD_FILE, "%s: id %d at place %" PRId64 " is none of the %d of --tokenizer %s", where,
                        ids[i], i, t->vocabulary, t->name);
    return OK;
}
