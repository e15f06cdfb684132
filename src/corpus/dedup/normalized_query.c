/* Normalizes queries with the code that normalizes documents, with a character set that accepts
 * everything, so that both always agree. */
#include "corpus/dedup/normalized_query.h"

#include "base/utf8.h"

Status normalized_query_open(NormalizedQuery *n)
{
    CharsetPlan plan = CHARSET_PLAN;
    plan.mode = CHARSET_NONE;
    *n = (NormalizedQuery){ 0 };
    return charset_open(&n->charset, &plan);
}

Status normalized_query_take(NormalizedQuery *n, const char *text, int64_t bytes)
{
    CharsetVerdict verdict;
    n->text.bytes = 0;
    TRY(utf8_repair(&n->text, text, bytes));
    return charset_apply(n->charset, &n->text, &n->spare, &verdict);
}

void normalized_query_close(NormalizedQuery *n)
{
    if (n->charset) charset_close(n->charset);
    buffer_free(&n->text);
    buffer_free(&n->spare);
}
