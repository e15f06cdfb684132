#include "corpus/sought.h"

#include "corpus/utf8.h"

Status sought_open(Sought *n)
{
    CharsetPlan plan = CHARSET_PLAN;
    plan.mode = CHARSET_NONE;
    *n = (Sought){ 0 };
    return charset_open(&n->charset, &plan);
}

Status sought_take(Sought *n, const char *text, int64_t bytes)
{
    CharsetVerdict verdict;
    n->text.bytes = 0;
    TRY(utf8_repair(&n->text, text, bytes));
    return charset_apply(n->charset, &n->text, &n->spare, &verdict);
}

void sought_close(Sought *n)
{
    if (n->charset) charset_close(n->charset);
    buffer_free(&n->text);
    buffer_free(&n->spare);
}
