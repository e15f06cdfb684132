/* The rows of names.def, filled in with the sizes of a model. */
#include "convert/links.h"
#include "store/checkpoint_writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"

typedef enum { AS_IS, TURNED, ROW, GROUPED, PAIRS, HEADS, HEADS_TURNED } View;
typedef enum { ALWAYS, TIED, MTP } SurplusWhen;
/* The words of the columns first and whole, of which they are sums. */
typedef struct { int64_t QUERY, KV, G, F, GATE, N, E, head, heads; } Widths;
typedef struct { int64_t first, whole; } Rows;

/* Names that depend on more than the parameter: ids after those of parameters. */
enum {
    PARAM_EXPERT_BIAS = PARAM_IDS, PARAM_SHARED_EXPERT_GATE, PARAM_SHARED_EXPERT_UP, PARAM_SHARED_EXPERT_DOWN,
    PARAM_LATENT_KEY_UP, PARAM_LATENT_VALUE_UP
};

/* Numbered in their order, so that each row's two expressions are one case of a switch. */
enum {
#define PART(naming, id, ...) ROW_##naming##_##id,
#include "convert/names.def"
    ROWS
};
static const struct { Naming naming; int id; const char *name; View view; } rows[ROWS] = {
#define PART(naming, id, name, view, ...) { NAMING_##naming, PARAM_##id, name, view },
#include "convert/names.def"
};
static const struct { Naming naming; const char *name; SurplusWhen when; } surplus[] = {
#define SURPLUS(naming, name, when) { NAMING_##naming, name, when },
#include "convert/names.def"
};
static const struct { const char *prefix; Naming base; const char *facts; } namings[NAMINGS] = {
#define NAMING(naming, prefix, base, facts) { prefix, NAMING_##base, facts },
#include "convert/names.def"
};

static Rows rows_of(int row, Widths w)
{
    int64_t QUERY = w.QUERY, KV = w.KV, G = w.G, F = w.F, GATE = w.GATE, N = w.N, E = w.E;
    (void)QUERY, (void)KV, (void)G, (void)F, (void)GATE, (void)N, (void)E;
    switch (row) {
#define PART(naming, id, name, view, first, whole) case ROW_##naming##_##id: return (Rows){ first, whole };
#include "convert/names.def"
    }
    return (Rows){ 0, 0 };
}

/* ---- names ---- */

/* Writes the number for each {layer} and {expert}. */
static void name_fill(char *out, size_t size, const char *name, int64_t layer, int64_t expert)
{
    out[0] = 0;
    while (*name) {
        bool of_layer = !strncmp(name, "{layer}", 7), of_expert = !strncmp(name, "{expert}", 8);
        int  plain    = of_layer || of_expert ? 0 : 1 + (int)strcspn(name + 1, "{");
        if (plain) message_add(out, size, "%.*s", plain, name);
        else       message_add(out, size, "%lld", (long long)(of_layer ? layer : expert));
        name += of_layer ? 7 : of_expert ? 8 : plain;
    }
}

/* Whether the name is the pattern with any numbers. */
static bool name_fits(const char *pattern, const char *name)
{
    while (*pattern && *name) {
        if (*pattern == '{') {
            size_t digits = strspn(name, "0123456789");
            if (!digits) return false;
            name += digits;
            pattern = strchr(pattern, '}') + 1;
        } else if (*pattern++ != *name++) return false;
    }
    return !*pattern && !*name;
}

const char *links_prefix(Naming naming) { return namings[naming].prefix; }
const char *links_facts(Naming naming) { return namings[naming].facts; }

bool links_surplus(Naming naming, const char *name, bool tied)
{
    const char *prefix = namings[naming].prefix;
    size_t      bytes  = strlen(prefix);
    for (size_t i = 0; i < COUNT(surplus); i++) {
        Naming of = naming;
        while (of != surplus[i].naming && namings[of].base != of) of = namings[of].base;
        if (of != surplus[i].naming || surplus[i].when == MTP || (surplus[i].when == TIED && !tied)) continue;
        if (name_fits(surplus[i].name, name)) return true;
        if (!strncmp(surplus[i].name, prefix, bytes) && name_fits(surplus[i].name + bytes, name)) return true;
    }
    return false;
}

bool links_mtp(int64_t *layer, char mark[96], Naming naming, const char *name)
{
    for (size_t i = 0; i < COUNT(surplus); i++) {
        size_t bytes = strcspn(surplus[i].name, "{");
        if (surplus[i].naming != naming || surplus[i].when != MTP) continue;
        size_t digits = strncmp(name, surplus[i].name, bytes) ? 0 : strspn(name + bytes, "0123456789");
        if (!digits || digits > 6 || name[bytes + digits] != '.') continue;
        *layer = atoll(name + bytes);
        name_fill(mark, 96, surplus[i].name, *layer, 0);
        return true;
    }
    return false;
}

/* ---- views ---- */

/* Ours is [rows, columns] from element `at` of its tensor on, theirs as the row's view says. */
static void view_fill(Link *link, int row, Widths widths, int dims, int64_t our_rows, int64_t columns,
                      int64_t at)
{
    Rows    r = rows_of(row, widths);
    View    view = dims < 2 && rows[row].view == TURNED ? AS_IS : rows[row].view;
    int64_t groups = view == GROUPED ? widths.G : 1, whole = r.whole ? r.whole : our_rows / groups;
    link->our_first = at;
    link->size[0] = groups, link->size[1] = our_rows / groups, link->size[2] = columns, link->size[3] = 1;
    link->our_stride[0] = our_rows / groups * columns, link->our_stride[1] = columns, link->our_stride[2] = 1;
    link->their_stride[0] = whole * columns, link->their_stride[1] = columns, link->their_stride[2] = 1;
    link->their_first = r.first * columns;
    if (view == PAIRS) {                    /* [heads, half of two, channels of a half, columns] */
        int64_t half = widths.head / 2, all = widths.head * columns;
        *link = (Link){ .ours = link->ours, .theirs = link->theirs, .our_first = at,
                        .their_first = link->their_first,
                        .size         = { our_rows / widths.head, 2, half, columns },
                        .our_stride   = { all, half * columns, columns, 1 },
                        .their_stride = { all, columns, 2 * columns, 1 } };
    }
    if (view == TURNED) link->their_stride[1] = 1, link->their_stride[2] = whole, link->their_first = r.first;
    LinkTensor *theirs = &link->theirs;
    theirs->dims = dims;
    for (int d = 0; d < LINK_DIMS; d++) theirs->shape[d] = 1;
    theirs->shape[view == TURNED] = groups * whole;
    if (dims > 1) theirs->shape[view != TURNED] = columns;
    if (view == ROW) theirs->dims = 2, theirs->shape[1] = whole, theirs->shape[0] = 1;
}

/* Theirs is [heads, r.whole, columns], or with the last two turned, of our rows of each head. */
static void heads_fill(Link *link, int row, Widths widths, int64_t our_rows, int64_t columns)
{
    Rows    r = rows_of(row, widths);
    bool    turned = rows[row].view == HEADS_TURNED;
    int64_t heads = widths.heads, one = r.whole * columns;
    *link = (Link){ .ours = link->ours, .theirs = link->theirs, .our_first = r.first * columns,
                    .size         = { heads, r.whole, columns, 1 },
                    .our_stride   = { our_rows / heads * columns, columns, 1, 1 },
                    .their_stride = { one, turned ? 1 : columns, turned ? r.whole : 1, 1 } };
    int64_t shape[LINK_DIMS] = { heads, turned ? columns : r.whole, turned ? r.whole : columns, 1 };
    memcpy(link->theirs.shape, shape, sizeof shape);
    link->theirs.dims = 3;
}

/* All experts are one tensor, and this is number e. */
static void stack(LinkTensor *theirs, int64_t *first, int64_t e, int64_t experts)
{
    *first += e * theirs->shape[0] * theirs->shape[1];
    theirs->shape[2] = theirs->shape[1], theirs->shape[1] = theirs->shape[0], theirs->shape[0] = experts;
    theirs->dims++;
}

static int row_find(Naming naming, int id)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].naming == naming && rows[i].id == id) return i;
    return namings[naming].base != naming ? row_find(namings[naming].base, id) : -1;
}

/* The row of a parameter, which in a layer with experts is that of its shared expert. */
static int row_of(Naming naming, const Param *p, bool in_moe)
{
    int shared = !in_moe ? -1 : p->id == PARAM_MLP_GATE_WEIGHT ? PARAM_SHARED_EXPERT_GATE
               : p->id == PARAM_MLP_UP_WEIGHT   ? PARAM_SHARED_EXPERT_UP
               : p->id == PARAM_MLP_DOWN_WEIGHT ? PARAM_SHARED_EXPERT_DOWN : -1;
    int row = shared < 0 ? -1 : row_find(naming, shared);
    return row < 0 ? row_find(naming, p->id) : row;
}

/* One link, or one for each expert, of the row. */
static Status link_add(Links *links, int row, const Param *p, int64_t layer, Widths widths)
{
    if (row < 0)
        return fail(BAD_SHAPE, "tensor '%s' has no place in a checkpoint of this architecture", p->name);
    bool    experts = p->dims == PARAM_DIMS;
    int64_t copies = experts ? p->global[0] : 1, r = p->global[experts], c = p->global[experts + 1];
    TRY(ARRAY_RESERVE(links->link, links->room, links->count + copies));
    for (int64_t e = 0; e < copies; e++) {
        Link *link = &links->link[links->count++];
        *link = (Link){.ours = {.dims = p->dims, .shape = {p->global[0], p->global[1], p->global[2], 1}}};
        snprintf(link->ours.name, sizeof link->ours.name, "%s", p->name);
        name_fill(link->theirs.name, sizeof link->theirs.name, rows[row].name, layer, e);
        if (rows[row].view == HEADS || rows[row].view == HEADS_TURNED) heads_fill(link, row, widths, r, c);
        else view_fill(link, row, widths, p->dims - experts, r, c, e * r * c);
        if (experts && !strstr(rows[row].name, "{expert}"))
            stack(&link->theirs, &link->their_first, e, copies);
    }
    return OK;
}

/* The biases of a layer's experts, which are no parameters. */
static Status bias_add(Links *links, Naming naming, const ModelConfig *config, int64_t layer)
{
    LogicalTensor tensor = checkpoint_expert_bias(config, layer, F32);
    Param p = { .id = (ParamId)PARAM_EXPERT_BIAS, .dims = 1, .global = { config->experts, 1, 1 } };
    snprintf(p.name, sizeof p.name, "%.60s", tensor.name);
    TRY(link_add(links, row_find(naming, PARAM_EXPERT_BIAS), &p, layer, (Widths){ 0 }));
    Link *link = &links->link[links->count - 1];
    link->ours.keeps_type = link->theirs.keeps_type = true;
    return OK;
}

/* A parameter may be two tensors there. */
static Status param_add(Links *links, Naming naming, const Param *p, int64_t layer, Widths widths,
                        bool in_moe)
{
    int row = row_of(naming, p, in_moe);
    if (row >= 0 || p->id != PARAM_LATENT_KV_UP) return link_add(links, row, p, layer, widths);
    TRY(link_add(links, row_find(naming, PARAM_LATENT_KEY_UP), p, layer, widths));
    return link_add(links, row_find(naming, PARAM_LATENT_VALUE_UP), p, layer, widths);
}

Status links_make(Links *links, Naming naming, const ModelConfig *config)
{
    Status status = OK;
    bool   gated  = model_mlp_gates(config) > 1;
    *links = (Links){ 0 };
    for (int64_t b = 0; b < params_blocks(config); b++)
        for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
            ParamBlock block;
            int64_t    layer = b > 0 ? model_unit_layer(config, b - 1) : -1;
            bool       moe = model_layer_is_moe(config, layer);
            params_block(&block, config, f, b, NULL);
            int64_t ffn   = f == PARAMS_EXPERTS ? config->expert_ffn : model_layer_ffn(config, layer);
            Widths widths = { config->heads * config->head_dim, config->groups * config->head_dim,
                              config->groups, ffn, gated ? ffn : 0,
                              config->head_dim - config->latent.rope_dim, config->latent.value_dim,
                              config->head_dim, config->heads };
            for (int p = 0; p < block.params && status == OK; p++)
                status = param_add(links, naming, &block.param[p], layer, widths, moe);
            if (status == OK && f == PARAM_FAMILIES - 1 && config->moe.bias && moe)
                status = bias_add(links, naming, config, layer);
        }
    if (status != OK) links_free(links);
    return status;
}

void links_free(Links *links)
{
    free(links->link);
    *links = (Links){ 0 };
}
