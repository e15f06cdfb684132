/* Names of a rank's tensors, and which number of the optimizer is which. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "convert/megatron/megatron_internal.h"

static Status tensor_add(RankTensors *list, RankTensor tensor)
{
    TRY(ARRAY_RESERVE(list->item, list->room, list->items + 1));
    list->item[list->items++] = tensor;
    return OK;
}

/* Dictionaries within dictionaries, their keys joined by dots. pickle.h bounds the depth. */
static Status collect(RankTensors *list, const PickleValue *dict, const char *prefix, int chunk,
                      const char *label)
{
    char       key[RANK_NAME_BYTES];
    RankTensor t = { .chunk = chunk };
    for (uint32_t i = 0; dict->kind == PICKLE_DICT && i < dict->items; i += 2) {
        const PickleValue *value = dict->item[i + 1];
        if (dict->item[i]->kind != PICKLE_TEXT ||
            (value->kind != PICKLE_DICT && value->kind != PICKLE_TENSOR))
            continue;
        pickle_text(key, sizeof key, dict->item[i]);
        if (snprintf(t.name, sizeof t.name, "%s%s%s", prefix, *prefix ? "." : "", key) >= RANK_NAME_BYTES)
            return fail(BAD_FILE, "%s: a tensor's name is longer than %d bytes", label, RANK_NAME_BYTES - 1);
        t.tensor = value->kind == PICKLE_TENSOR ? value->tensor : NULL;
        if (t.tensor) TRY(tensor_add(list, t));
        else          TRY(collect(list, value, t.name, chunk, label));
    }
    return OK;
}

Status rank_weights(RankTensors *list, const PickleValue *model, int chunk, const char *label)
{
    return collect(list, model, "", chunk, label);
}

/* ---- states ---- */

/* Of one optimizer, or of those that are chained: of dense parameters, of experts. */
static Status optimizers_take(TorchParameter *parameter, int count, const PickleValue *optimizer,
                              int64_t *updates, const char *label)
{
    bool     chained = optimizer->kind == PICKLE_LIST, apart = false;
    uint32_t several = chained ? optimizer->items : 1;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < several; i++) {
            const PickleValue *one = chained ? optimizer->item[i] : optimizer;
            const PickleValue *inner = pickle_get(one, "optimizer");
            const PickleValue *masters = pickle_get(one, "fp32_from_fp16_params");
            if (!inner) inner = one;
            if (pass == 0) apart |= torch_optimizer_has_experts(inner);
            else TRY(torch_optimizer_states(parameter, count, inner, masters, apart, updates, label));
        }
    return OK;
}

/* A weight that two modules share is one parameter, with the name of the first. */
static bool is_shared(const RankTensor *t, const RankTensor *first)
{
    return t != first && t->tensor->storage == first->tensor->storage &&
           t->tensor->offset == first->tensor->offset;
}

Status rank_states(RankTensors *list, const PickleValue *optimizer, int64_t *updates, const char *label)
{
    size_t          weights = list->items;
    int             count   = 0;
    TorchParameter *parameter = calloc(weights + 1, sizeof *parameter);
    size_t         *at        = calloc(weights + 1, sizeof *at);
    Status status = parameter && at ? OK : fail(NO_MEMORY, "%s: no memory for its states", label);
    for (size_t i = 0; status == OK && i < weights; i++) {
        MegatronName name;
        if (!megatron_name(&name, list->item[i].name) || !megatron_is_parameter(&name) ||
            is_shared(&list->item[i], &list->item[0]))
            continue;
        at[count] = i;
        parameter[count++] = (TorchParameter){ list->item[i].tensor, name.expert != MEGATRON_NONE, { NULL } };
    }
    if (status == OK) status = optimizers_take(parameter, count, optimizer, updates, label);
    for (int p = 0; status == OK && p < count; p++)
        for (ForeignKind k = FOREIGN_MOMENT; k < FOREIGN_KINDS && status == OK; k++) {
            RankTensor state = list->item[at[p]];
            state.kind = k, state.tensor = parameter[p].state[k];
            if (state.tensor) status = tensor_add(list, state);
            else if (k != FOREIGN_MASTER)
                status = fail(BAD_FILE, "%s: its optimizer has no state of '%s'", label, state.name);
        }
    free(parameter);
    free(at);
    if (status != OK) list->items = weights;
    return status;
}

/* ---- order ---- */

static int by_name(const void *a, const void *b)
{
    const RankTensor *x = a, *y = b;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind) : strcmp(x->name, y->name);
}

void rank_choose(RankTensors *list, int chunk)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->items; i++)
        if (list->item[i].chunk == chunk) list->item[kept++] = list->item[i];
    list->items = kept;
    if (kept) qsort(list->item, kept, sizeof *list->item, by_name);
}
