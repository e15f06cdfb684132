/* A name of Megatron-LM is taken apart into layer, expert and the rest, which a table looks up. */
#include "convert/megatron/megatron_names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"

static const struct { const char *part; MegatronJoin join; } rows[] = {
#define MEGATRON(name, join) { name, MEGATRON_##join },
#include "convert/megatron/megatron_names.def"
};

static const struct { const char *part, *spelling; } others[] = {
#define ALSO(name, spelling) { name, spelling },
#include "convert/megatron/megatron_names.def"
};

static bool skip(const char **name, const char *prefix)
{
    size_t bytes = strlen(prefix);
    if (strncmp(*name, prefix, bytes) != 0) return false;
    *name += bytes;
    return true;
}

/* Digits up to an end, at most 7 of them; -1: there are none. */
static int number(const char **name, char end)
{
    char *stop;
    if (**name < '0' || **name > '9') return -1;
    long value = strtol(*name, &stop, 10);
    if (*stop != end || stop - *name > 7) return -1;
    *name = stop + (end ? 1 : 0);
    return (int)value;
}

static bool look_up(MegatronName *out, const char *part)
{
    for (size_t i = 0; i < COUNT(others); i++)
        if (strcmp(others[i].spelling, part) == 0) part = others[i].part;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (strcmp(rows[i].part, part) == 0) {
            out->part = rows[i].part;
            out->join = rows[i].join;
            return true;
        }
    return false;
}

/* An expert's number stands before or behind the matrix: "mlp.experts.local_experts.3.linear_fc1.weight" of a
 * list of modules, "mlp.experts.linear_fc1.weight3" of one grouped module, and "mlp.experts.experts." with a
 * number or, of all experts in one tensor, without. */
static bool expert_look_up(MegatronName *out, const char *part)
{
    char inner[96];
    if (!skip(&part, "local_experts.")) skip(&part, "experts.");
    out->expert = number(&part, '.');
    int length  = snprintf(inner, sizeof inner, "mlp.experts.{expert}.%s", part);
    if (length >= (int)sizeof inner) return false;
    if (out->expert < 0) {
        int end = length;
        while (end > 0 && inner[end - 1] >= '0' && inner[end - 1] <= '9') end--;
        const char *digits = inner + end;
        out->expert = end < length ? number(&digits, 0) : MEGATRON_ALL;
        inner[end] = 0;
    }
    return out->expert >= MEGATRON_ALL && look_up(out, inner);
}

bool megatron_name(MegatronName *out, const char *name)
{
    char part[128];
    *out = (MegatronName){ .layer = MEGATRON_NONE, .expert = MEGATRON_NONE };
    skip(&name, "module.");
    skip(&name, "model.");
    skip(&name, "language_model.");
    size_t bytes = strlen(name);
    if (bytes > 13 && strcmp(name + bytes - 13, "._extra_state") == 0)
        name = "rotary_pos_emb.inv_freq"; /* of Transformer Engine */
    bool stack = skip(&name, "decoder.") || skip(&name, "encoder.") || skip(&name, "transformer.");
    if (!stack || !skip(&name, "layers.")) {
        snprintf(part, sizeof part, "%s%s", stack ? "decoder." : "", name);
        return look_up(out, part);
    }
    out->layer = number(&name, '.');
    if (out->layer < 0) out->layer = MEGATRON_ALL;
    return skip(&name, "mlp.experts.") ? expert_look_up(out, name) : look_up(out, name);
}

void megatron_name_print(char out[96], const MegatronName *name, int layer, int expert)
{
    const char *mark = strstr(name->part, "{expert}");
    char        text[64];
    if (mark) snprintf(text, sizeof text, "%.*s%d%s", (int)(mark - name->part), name->part, expert, mark + 8);
    else      snprintf(text, sizeof text, "%s", name->part);
    if (name->layer == MEGATRON_NONE) snprintf(out, 96, "%s", text);
    else                              snprintf(out, 96, "decoder.layers.%d.%s", layer, text);
}
