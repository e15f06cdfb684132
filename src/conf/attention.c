/* Options of attention: sliding windows, and how context-parallel ranks reach each other's keys. */
#include "conf/attention.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/integer.h"
#include "conf/conf.h"
#include "conf/value.h"

/* ---- sliding windows ---- */

/* "L,R" or "(L,R)", as Megatron-LM reads it */
static bool window_read(const char *text, long long *left, long long *right)
{
    int end = 0;
    bool brackets = *text == '(';
    if (sscanf(text + brackets, " %lld , %lld %n", left, right, &end) != 2) return false;
    text += brackets + end;
    return brackets ? text[0] == ')' && !text[1] : !*text;
}

Status rule_window(const Options *o)
{
    long long left, right;
    const char *typed = TYPED(OPTION_window_size);
    if (!window_read(o->window_size, &left, &right) || left < -1 || left >= INT32_MAX)
        return fail(BAD_OPTION, "%s is not two numbers L,R; give the positions before a query that it sees"
                    " and 0, such as 1023,0", typed);
    if (right != 0 && right != -1)
        return fail(BAD_OPTION, "%s: attention is causal, so that a query sees no position after its own;"
                    " give %lld,0", typed, left);
    if (left < 0 && o->window_skip > 0)
        return fail(BAD_OPTION, "%s has no effect without --window-size L,0", TYPED(OPTION_window_skip));
    return OK;
}

int64_t options_window(const Options *o)
{
    long long left, right;
    return window_read(o->window_size, &left, &right) ? left + 1 : 0;
}

/* ---- context parallelism ---- */

/* false: not two numbers */
static bool sizes_read(const Options *o, int64_t size[2])
{
    const TextList *list = &o->hierarchical_cp;
    for (int i = 0; i < 2 && list->count == 2; i++) {
        char *end;
        size[i] = strtoll(list->text[i], &end, 10);
        if (end == list->text[i] || *end || size[i] < 1) return false;
    }
    return list->count == 2;
}

int options_hierarchical(const Options *o)
{
    int64_t size[2];
    return o->context_parallel > 1 && sizes_read(o, size) ? (int)size[0] : 1;
}

static Status rule_sizes(const Options *o)
{
    int64_t cp = o->context_parallel, size[2], part = 2;
    if (sizes_read(o, size) && size[0] * size[1] == cp) return OK;
    int64_t u = common_divisor(cp, o->heads / o->tensor_parallel);
    while (cp % part) part++;
    if (u == cp) u = cp / part;                           /* all would be a2a alone */
    return fail(BAD_OPTION, "%s wants --hierarchical-context-parallel-sizes U R, two sizes whose product is"
                " %s; give %" PRId64 " %" PRId64, TYPED(OPTION_cp_comm_type), TYPED(OPTION_context_parallel),
                u, cp / u);
}

Status rule_context(const Options *o)
{
    int64_t cp = o->context_parallel, heads = o->heads / o->tensor_parallel;
    bool all = o->cp_comm_type.value == CHOICE_cp_comm_type_a2a;
    bool some = o->cp_comm_type.value == CHOICE_cp_comm_type_a2a_p2p;
    if (cp == 1 || (!all && !some)) return OK;
    if (some) TRY(rule_sizes(o));
    int64_t u = all ? cp : options_hierarchical(o), works = common_divisor(u, heads);
    const char *typed = TYPED(OPTION_cp_comm_type), *of = TYPED(OPTION_heads);
    if (works == u) return OK;
    if (works == 1)
        return fail(BAD_OPTION, "%s: %" PRId64 " ranks cannot exchange %" PRId64 " heads (%s / tensor"
                    " parallel size); give --cp-comm-type p2p or allgather", typed, u, heads, of);
    return fail(BAD_OPTION, "%s: %" PRId64 " ranks cannot exchange %" PRId64 " heads (%s / tensor parallel"
                " size); give --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes %" PRId64
                " %" PRId64, typed, u, heads, of, works, cp / works);
}
