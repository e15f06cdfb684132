/* The states of fairseq's Adam. Its FP32 optimizer and the memory-efficient one have some for each parameter,
 * in the order of the model; the FP16 optimizer has all parameters one behind the other in one vector. Each
 * part of model parallelism has states of its own parameters. */
#include <stdlib.h>
#include <string.h>
#include "convert/fairseq/fairseq_internal.h"
#include "convert/torch/torch_optimizer.h"

enum { STATES = 2 };
static const struct { ForeignKind kind; const char *name; } states[STATES] = {
    { FOREIGN_MOMENT, "exp_avg" }, { FOREIGN_SQUARE, "exp_avg_sq" } };

/* The parameters in their order, and the views of all parts: view[part * count * STATES + 2 i + state]. */
typedef struct {
    FairseqFile    *f;
    TorchParameter *parameter;
    FairseqView    *view;
    int             count;
    int64_t         updates;
} States;

/* The parameters of a part; names point into `names`. */
static Status parameters_of(States *s, int part, char (*names)[FAIRSEQ_NAME])
{
    const PickleValue *model = pickle_get(fairseq_root(s->f, part), "model");
    int count = 0;
    for (uint32_t i = 0; model && model->kind == PICKLE_DICT && i < model->items; i += 2) {
        char name[FAIRSEQ_NAME];
        pickle_text(name, sizeof name, model->item[i]);
        if (fairseq_is_unused(s->f, name) || model->item[i + 1]->kind != PICKLE_TENSOR) continue;
        bool first = part == 0 && count < s->count, again = count < s->count && !strcmp(names[count], name);
        if (!first && !again)
            return fail(BAD_FILE, "%s: part %d has its parameters in another order", s->f->file->path, part);
        if (first) memcpy(names[count], name, sizeof name);
        s->parameter[count++] = (TorchParameter){ .weight = model->item[i + 1]->tensor };
    }
    return OK;
}

static int64_t elements(const PickleTensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->dims; d++) count *= t->size[d];
    return count;
}

/* The first state, where the optimizer has one parameter; NULL: it has several. */
static const PickleValue *only_state(const PickleValue *optimizer)
{
    const PickleValue *groups = pickle_get(optimizer, "param_groups"), *all = pickle_get(optimizer, "state");
    bool one = groups && groups->kind == PICKLE_LIST && groups->items == 1 && all &&
               all->kind == PICKLE_DICT && all->items == 2;
    const PickleValue *numbers = one ? pickle_get(groups->item[0], "params") : NULL;
    return numbers && numbers->kind == PICKLE_LIST && numbers->items == 1 ? all->item[1] : NULL;
}

/* All parameters in one vector. */
static Status flat_read(States *s, const PickleValue *state, FairseqView *view)
{
    int64_t all = 0;
    double  step;
    for (int i = 0; i < s->count; i++)
        if (__builtin_add_overflow(all, elements(s->parameter[i].weight), &all))
            return fail(BAD_FILE, "%s: its parameters are too many", s->f->file->path);
    for (int k = 0; k < STATES; k++) {
        const PickleValue *v = pickle_get(state, states[k].name);
        if (!v || v->kind != PICKLE_TENSOR)
            return fail(BAD_FILE, "%s: it has no %s, so that it is not Adam's", s->f->file->path,
                        states[k].name);
        if (v->tensor->dims != 1 || v->tensor->stride[0] != 1 || v->tensor->size[0] != all)
            return fail(BAD_FILE, "%s: its %s has not the %lld elements of the parameters",
                        s->f->file->path, states[k].name, (long long)all);
        int64_t at = 0;
        for (int i = 0; i < s->count; at += elements(s->parameter[i++].weight))
            view[STATES * i + k] = (FairseqView){ states[k].kind, v->tensor, at, true };
    }
    if (!torch_number(pickle_get(state, "step"), &step) || !(step >= 0 && step <= 1e15) ||
        (s->updates >= 0 && s->updates != (int64_t)step))
        return fail(BAD_FILE, "%s: its parts do not say one number of updates", s->f->file->path);
    s->updates = (int64_t)step;
    return OK;
}

static Status part_read(States *s, int part, char (*names)[FAIRSEQ_NAME])
{
    const PickleValue *optimizer = pickle_get(fairseq_root(s->f, part), "last_optimizer_state");
    const PickleValue *one = only_state(optimizer);
    FairseqView *view = s->view + (int64_t)part * STATES * s->count;
    TRY(parameters_of(s, part, names));
    if (one && s->count > 1) return flat_read(s, one, view);
    TRY(torch_optimizer_states(s->parameter, s->count, optimizer, NULL, false, &s->updates,
                               s->f->file->path));
    for (int i = 0; i < STATES * s->count; i++) {
        ForeignKind kind = states[i % STATES].kind;
        view[i] = (FairseqView){ .kind = kind, .tensor = s->parameter[i / STATES].state[kind] };
        if (!view[i].tensor)
            return fail(BAD_FILE, "%s: a parameter has no state", s->f->file->path);
    }
    return OK;
}

static Status tensors_add(States *s, char (*names)[FAIRSEQ_NAME])
{
    FairseqFile *f = s->f;
    FairseqView *own = calloc((size_t)f->parts + 1, sizeof *own);
    if (!own) return fail(NO_MEMORY, "%s: no memory for its parts", f->file->path);
    Status status = parameters_of(s, 0, names);              /* the shapes, which are those of all parts */
    for (int i = 0; i < STATES * s->count && status == OK; i++) {
        for (int p = 0; p < f->parts; p++) own[p] = s->view[(int64_t)p * STATES * s->count + i];
        status = fairseq_tensor_add(f, names[i / STATES], s->parameter[i / STATES].weight, own);
    }
    free(own);
    return status;
}

static Status all_read(States *s, char (*names)[FAIRSEQ_NAME])
{
    for (int p = 0; p < s->f->parts; p++) TRY(part_read(s, p, names));
    if (s->updates < 0) return fail(BAD_FILE, "%s: it does not say its updates", s->f->file->path);
    return tensors_add(s, names);
}

Status fairseq_states_read(FairseqFile *f)
{
    const PickleValue *optimizer = pickle_get(fairseq_root(f, 0), "last_optimizer_state");
    States s = { .f = f, .count = f->file->tensors, .updates = -1 };         /* the weights, until now */
    if (!optimizer || optimizer->kind == PICKLE_NONE) return OK;
    size_t count = (size_t)s.count + 1;
    char (*names)[FAIRSEQ_NAME] = calloc(count, sizeof *names);
    s.parameter = calloc(count, sizeof *s.parameter);
    s.view      = calloc(count * STATES * (size_t)f->parts, sizeof *s.view);
    Status status = names && s.parameter && s.view
                  ? all_read(&s, names) : fail(NO_MEMORY, "%s: no memory for its states", f->file->path);
    free(names);
    free(s.parameter);
    free(s.view);
    if (status == NO_MEMORY) return status;
    if (status == OK) f->file->position.updates = s.updates;
    else foreign_leave_states(f->file, "%.300s; its states are not read", fail_text());
    return OK;
}
