/* Groups of parameters against those of the model, and the states of each. */
#include "convert/torch/torch_optimizer.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    TorchParameters    *list;
    bool                experts_apart;     /* a group holds only experts */
    const PickleValue **state;             /* [states] by number; owned */
    int64_t             states, *updates;
    const char         *label;
} States;

bool torch_number(const PickleValue *value, double *number)
{
    Dtype dtype;
    if (pickle_real(value, number)) return true;
    if (!value || value->kind != PICKLE_TENSOR) return false;
    const PickleTensor *t = value->tensor;
    int64_t count = 1;
    for (int d = 0; d < t->dims; d++) count *= t->size[d] == 1 ? 1 : 0;
    if (count != 1 || !torch_type_dtype(t->type, &dtype) || !dtype_is_float(dtype)) return false;
    if (!t->storage->data) return false;
    dtype_convert(number, F64, t->storage->data + t->offset * (int64_t)dtype_width(dtype), dtype, 1);
    return true;
}

/* ---- states by number ---- */

static Status states_number(States *s, const PickleValue *all)
{
    if (!all || all->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: its optimizer has no states", s->label);
    s->states = all->items / 2;
    if (!(s->state = calloc((size_t)s->states + 1, sizeof *s->state)))
        return fail(NO_MEMORY, "%s: no memory for %lld states", s->label, (long long)s->states);
    for (uint32_t i = 0; i < all->items; i += 2) {
        int64_t number;
        if (!pickle_integer(all->item[i], &number)) continue;          /* "common_step" */
        if (number < 0 || number >= s->states || s->state[number])
            return fail(BAD_FILE, "%s: its optimizer's states are not numbered from 0 on", s->label);
        s->state[number] = all->item[i + 1];
    }
    return OK;
}

Status torch_updates(int64_t *updates, const PickleValue *from, const char *label)
{
    double step;
    if (!torch_number(pickle_get(from, "step"), &step)) return OK;
    if (!(step >= 0 && step <= 1e15) || (*updates >= 0 && *updates != (int64_t)step))
        return fail(BAD_FILE, "%s: its optimizer's parameters have done different numbers of steps", label);
    *updates = (int64_t)step;
    return OK;
}

static Status parameter_take(const States *s, TorchParameter *p, const PickleValue *number)
{
    int64_t at;
    if (!pickle_integer(number, &at) || at < 0 || at >= s->states || !s->state[at])
        return fail(BAD_FILE, "%s: its optimizer has no state for one of its parameters", s->label);
    for (ForeignKind k = FOREIGN_MOMENT; k <= FOREIGN_SQUARE; k++) {
        const PickleValue *v = pickle_get(s->state[at], foreign_kind_name(k));
        if (!v || v->kind != PICKLE_TENSOR)
            return fail(BAD_FILE, "%s: its optimizer's state %lld has no %s, so that it is not Adam's",
                        s->label, (long long)at, foreign_kind_name(k));
        if (!torch_shapes_equal(v->tensor, p->tensor[FOREIGN_WEIGHT]))
            return fail(BAD_FILE, "%s: its optimizer's state %lld has another shape than the parameter at its"
                        " place", s->label, (long long)at);
        p->tensor[k] = v->tensor;
    }
    return torch_updates(s->updates, s->state[at], s->label);
}

/* ---- groups ---- */

static bool is_expert_group(const PickleValue *group)
{
    int64_t expert = 0;
    return pickle_integer(pickle_get(group, "is_expert_parallel"), &expert) && expert;
}

static const PickleValue *groups_of(const PickleValue *optimizer)
{
    const PickleValue *groups = pickle_get(optimizer, "param_groups");
    return groups && groups->kind == PICKLE_LIST ? groups : NULL;
}

static bool has_experts(const PickleValue *optimizer)
{
    const PickleValue *groups = groups_of(optimizer);
    for (uint32_t g = 0; groups && g < groups->items; g++)
        if (is_expert_group(groups->item[g])) return true;
    return false;
}

/* The state of a group's first parameter, whose dims tell the kind of the group. */
static const PickleTensor *first_moment(const States *s, const PickleValue *numbers)
{
    int64_t at;
    if (!pickle_integer(numbers->item[0], &at) || at < 0 || at >= s->states) return NULL;
    const PickleValue *v = pickle_get(s->state[at], "exp_avg");
    return v && v->kind == PICKLE_TENSOR ? v->tensor : NULL;
}

/* The copies of the group's parameters that are narrower than fp32. */
static Status master_take(const States *s, TorchParameter *p, const PickleValue *masters, uint32_t *next)
{
    const PickleTensor *weight = p->tensor[FOREIGN_WEIGHT];
    if (!masters || weight->type == TORCH_F32) return OK;
    const PickleValue *v = masters->kind == PICKLE_LIST && *next < masters->items ? masters->item[(*next)++]
                                                                                 : NULL;
    if (!v || v->kind != PICKLE_TENSOR || !torch_shapes_equal(v->tensor, weight))
        return fail(BAD_FILE, "%s: its optimizer's copies of weights are not those of the model", s->label);
    p->tensor[FOREIGN_MASTER] = v->tensor;
    return OK;
}

static size_t trained(const TorchParameters *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->items; i++) count += list->item[i].trained;
    return count;
}

static Status group_take(const States *s, const PickleValue *group, const PickleValue *masters)
{
    const PickleValue  *numbers = pickle_get(group, "params");
    uint32_t            taken = 0, next = 0;
    if (!numbers || numbers->kind != PICKLE_LIST)
        return fail(BAD_FILE, "%s: a group of its optimizer has no parameters", s->label);
    if (numbers->items == 0) return OK;
    const PickleTensor *first = first_moment(s, numbers);
    bool expert = is_expert_group(group), all = !s->experts_apart && numbers->items == trained(s->list);
    if (!first)
        return fail(BAD_FILE, "%s: its optimizer's states have no exp_avg, so that they are not Adam's",
                    s->label);
    for (size_t i = 0; i < s->list->items; i++) {
        TorchParameter *p = &s->list->item[i];
        bool other = (p->tensor[FOREIGN_WEIGHT]->dims > 1) != (first->dims > 1) ||
                     (s->experts_apart && p->expert != expert);
        if (!p->trained || (other && !all)) continue;
        if (taken == numbers->items || p->tensor[FOREIGN_MOMENT]) {
            taken = 0;
            break;
        }
        TRY(parameter_take(s, p, numbers->item[taken++]));
        TRY(master_take(s, p, masters, &next));
    }
    if (taken == numbers->items && (!masters || next == masters->items))
        return torch_updates(s->updates, group, s->label);
    return fail(BAD_FILE, "%s: a group of its optimizer has %u parameters, which are neither all matrices nor"
                " all vectors of the model", s->label, numbers->items);
}

static Status optimizer_take(States *s, const PickleValue *optimizer, const PickleValue *masters)
{
    const PickleValue *groups = groups_of(optimizer);
    if (!groups) return fail(BAD_FILE, "%s: its optimizer has no groups of parameters", s->label);
    if (masters && (masters->kind != PICKLE_LIST || masters->items != groups->items))
        return fail(BAD_FILE, "%s: its optimizer's copies of weights are not in its groups", s->label);
    Status status = states_number(s, pickle_get(optimizer, "state"));
    for (uint32_t g = 0; g < groups->items && status == OK; g++)
        status = group_take(s, groups->item[g], masters ? masters->item[g] : NULL);
    free(s->state);
    s->state = NULL;
    return status;
}

Status torch_optimizer_states(TorchParameters *list, const PickleValue *optimizer, int64_t *updates,
                              const char *label)
{
    States   s = { .list = list, .updates = updates, .label = label };
    bool     chained = optimizer->kind == PICKLE_LIST;
    uint32_t several = chained ? optimizer->items : 1;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < several; i++) {
            const PickleValue *one = chained ? optimizer->item[i] : optimizer;
            const PickleValue *inner = pickle_get(one, "optimizer");
            if (!inner) inner = one;
            if (pass == 0) s.experts_apart |= has_experts(inner);
            else TRY(optimizer_take(&s, inner, pickle_get(one, "fp32_from_fp16_params")));
        }
    for (size_t i = 0; i < list->items; i++)
        if (list->item[i].trained && !list->item[i].tensor[FOREIGN_MOMENT])
            return fail(BAD_FILE, "%s: its optimizer has no state of '%s'", label, list->item[i].name);
    return OK;
}
