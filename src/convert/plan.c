/* From links to copies between the tensors of two checkpoints, and the copying of a range. */
#include "convert/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"

/* ---- making ---- */

/* Whether the names of the file lack the prefix that names.def gives them. */
static bool lacks_prefix(const PlanRules *rules, const ForeignFile *from)
{
    const char *prefix = links_prefix(rules->naming);
    if (rules->direction != TO_OURS || !*prefix) return false;
    for (int i = 0; i < from->tensors; i++)
        if (!strncmp(from->tensor[i].name, prefix, strlen(prefix))) return false;
    return true;
}

/* What the tensors of a model follow from. */
static const char *described_by(const PlanRules *rules)
{
    return rules->direction == TO_OURS ? links_facts(rules->naming) : "options";
}

/* With states a weight is read from the optimizer's copy of it, if there is one. */
static Status source_find(const ForeignTensor **found, const ForeignFile *from, const LinkTensor *want,
                          ForeignKind kind, const PlanRules *rules, const char *prefix)
{
    char held[128] = "", wanted[128] = "";
    const char *name = want->name;
    if (!strncmp(name, prefix, strlen(prefix))) name += strlen(prefix);
    *found = rules->states && kind == FOREIGN_WEIGHT ? foreign_find(from, FOREIGN_MASTER, name) : NULL;
    if (!*found) *found = foreign_find(from, kind, name);
    if (!*found && kind != FOREIGN_WEIGHT)
        return fail(BAD_SHAPE, "%s: tensor '%s' has no %s, which others have; --no-load-optim begins with new"
                    " states", from->path, name, foreign_kind_name(kind));
    if (!*found)
        return fail(BAD_SHAPE, "%s: tensor '%s' is missing, which the model of its %s has; copy all files of "
                    "the checkpoint again, or correct these facts", from->path, name, described_by(rules));
    if (want->dims == (*found)->dims && !memcmp(want->shape, (*found)->shape, sizeof want->shape)) return OK;
    return fail(BAD_SHAPE, "%s: tensor '%s'%s%s has the shape %s, the model of its %s needs %s; give the "
                "facts that belong to these weights", from->path, name,
                kind != FOREIGN_WEIGHT ? ", " : "", foreign_kind_name(kind),
                message_shape(held, sizeof held, (*found)->shape, (*found)->dims), described_by(rules),
                message_shape(wanted, sizeof wanted, want->shape, want->dims));
}

/* The copy of a link, with its dims in the order of falling strides of the tensor that is written. */
static PlanCopy copy_make(const Link *link, const ForeignTensor *from, PlanDirection direction)
{
    bool ours = direction == TO_OURS;
    PlanCopy copy = { .from = from, .to_first = ours ? link->our_first : link->their_first,
                      .from_first = ours ? link->their_first : link->our_first };
    const int64_t *to = ours ? link->our_stride : link->their_stride;
    const int64_t *of = ours ? link->their_stride : link->our_stride;
    bool taken[LINK_DIMS] = { false };
    for (int d = 0; d < LINK_DIMS; d++) {
        int next = -1;
        for (int i = 0; i < LINK_DIMS; i++)
            if (!taken[i] && (next < 0 || (link->size[next] > 1 && (to[i] > to[next] || link->size[i] == 1))))
                next = i;                              /* dims of one element first, whatever their stride */
        taken[next] = true;
        copy.size[d] = link->size[next], copy.to_stride[d] = to[next], copy.from_stride[d] = of[next];
    }
    return copy;
}

/* What is planned for each link: a weight, and its moments. */
static int kinds_of(const PlanRules *rules) { return rules->states ? FOREIGN_SQUARE + 1 : 1; }

/* The tensor to be written as the link and kind say, which is made where it is the first link of it. */
static int tensor_of(Plan *plan, LinkTensor as, ForeignKind kind, Dtype dtype)
{
    if (kind != FOREIGN_WEIGHT)                                /* a moment's name, as checkpoints have it */
        message_add(as.name, sizeof as.name, ".%s", foreign_kind_name(kind));
    const json_t *known = json_object_get(plan->by_name, as.name);
    if (known) return (int)json_integer_value(known);
    json_object_set_new(plan->by_name, as.name, json_integer(plan->tensors));
    plan->tensor[plan->tensors] = (PlanTensor){ .as = as, .kind = kind, .dtype = dtype };
    return plan->tensors++;
}

static Status link_add(Plan *plan, const PlanRules *rules, const ForeignFile *from, const Link *link,
                       ForeignKind kind, const char *prefix, bool *used)
{
    bool ours = rules->direction == TO_OURS;
    const ForeignTensor *source;
    TRY(source_find(&source, from, ours ? &link->theirs : &link->ours, kind, rules, *prefix ? prefix : "\n"));
    if (!dtype_is_float(source->dtype))
        return fail(BAD_SHAPE, "%s: tensor '%s' is of type %s, which holds no weights; save it in F32, "
                    "BF16 or F16", from->path, source->name, dtype_name(source->dtype));
    used[source - from->tensor] = true;
    int         of     = tensor_of(plan, ours ? link->ours : link->theirs, kind, source->dtype);
    PlanTensor *tensor = &plan->tensor[of];
    if (dtype_width(source->dtype) > dtype_width(tensor->dtype)) tensor->dtype = source->dtype;
    tensor->copies++;
    plan->copy[plan->copies] = copy_make(link, source, rules->direction);
    plan->copy[plan->copies++].tensor = of;
    return OK;
}

static Status links_add(Plan *plan, const PlanRules *rules, const ForeignFile *from, bool *used)
{
    const char *prefix = lacks_prefix(rules, from) ? links_prefix(rules->naming) : "";
    for (const Link *link = rules->links->link; link < rules->links->link + rules->links->count; link++)
        for (ForeignKind k = FOREIGN_WEIGHT; k < (ForeignKind)kinds_of(rules); k++)
            if (k == FOREIGN_WEIGHT || !link->ours.keeps_type)                 /* else it is not trained */
                TRY(link_add(plan, rules, from, link, k, prefix, used));
    return OK;
}

/* Whether a tensor of one of our checkpoints is a state of the optimizer, <parameter>.<state>, or a scale of
 * 8-bit products, which a run computes again. */
static bool is_state(const ForeignFile *from, const char *name, const bool *used)
{
    char weight[96];
    const char *dot = strrchr(name, '.');
    if (!dot) return false;
    snprintf(weight, sizeof weight, "%.*s", (int)(dot - name), name);
    const ForeignTensor *of = foreign_find(from, FOREIGN_WEIGHT, weight);
    return (of && used[of - from->tensor]) || strstr(name, ".fp8");
}

/* Whether a tensor of one of our checkpoints is of a layer that is left out. */
static bool is_left_out(const PlanRules *rules, const char *name)
{
    long long layer;
    return sscanf(name, "blocks.%lld.", &layer) == 1 && layer >= rules->layers;
}

/* Whether a tensor of another program's checkpoint is of multi-token prediction. A layer behind the last one
 * that lacks the mark is one that the config has forgotten. */
static bool is_mtp(const PlanRules *rules, const ForeignFile *from, const char *name)
{
    char    mark[96];
    int64_t layer;
    return rules->direction == TO_OURS && links_mtp(&layer, mark, rules->naming, name) &&
           layer >= rules->layers && foreign_find(from, FOREIGN_WEIGHT, mark);
}

static Status surplus_check(Plan *plan, const PlanRules *rules, const ForeignFile *from, const bool *used)
{
    for (int i = 0; i < from->tensors; i++) {
        const char *name = from->tensor[i].name;
        if (used[i] || from->tensor[i].kind != FOREIGN_WEIGHT) continue;
        /* the optimizer's copy was taken instead */
        const ForeignTensor *copy = foreign_find(from, FOREIGN_MASTER, name);
        if (copy && used[copy - from->tensor]) continue;
        if (rules->direction == TO_OURS && links_surplus(rules->naming, name, false)) continue;
        if (rules->direction == TO_OURS && links_surplus(rules->naming, name, rules->tied)) {
            plan->head_copy = &from->tensor[i];
            continue;
        }
        if (rules->direction != TO_OURS && (is_left_out(rules, name) || is_state(from, name, used))) continue;
        if (is_mtp(rules, from, name)) {
            plan->mtp_tensors++;
            continue;
        }
        return fail(BAD_SHAPE, "%s: tensor '%s' has no place in the model of its %s; correct these facts, "
                    "or, if it holds no weights of the model, leave it out of the file", from->path, name,
                    described_by(rules));
    }
    return OK;
}

static int copy_order(const void *a, const void *b)
{
    const PlanCopy *x = a, *y = b;
    return x->tensor != y->tensor ? (x->tensor > y->tensor) - (x->tensor < y->tensor)
                                  : (x->to_first > y->to_first) - (x->to_first < y->to_first);
}

/* The links of one tensor to be written need not be neighbours, but its copies are. */
Status plan_make(Plan *plan, const PlanRules *rules, const ForeignFile *from)
{
    size_t count = (size_t)rules->links->count * (size_t)kinds_of(rules);
    bool  *used  = calloc((size_t)from->tensors + 1, sizeof *used);
    *plan = (Plan){ .states = rules->states, .tensor = calloc(count + 1, sizeof *plan->tensor),
                    .copy = calloc(count + 1, sizeof *plan->copy), .by_name = json_object() };
    Status status = used && plan->tensor && plan->copy && plan->by_name
                  ? OK : fail(NO_MEMORY, "no memory to plan the conversion of %zu tensors", count);
    if (status == OK) status = links_add(plan, rules, from, used);
    if (status == OK) status = surplus_check(plan, rules, from, used);
    free(used);
    qsort(plan->copy, (size_t)plan->copies, sizeof *plan->copy, copy_order);
    for (int i = 0, first = 0; i < plan->tensors; first += plan->tensor[i++].copies) {
        plan->tensor[i].first = first;
        plan_type(&plan->tensor[i], plan->tensor[i].dtype);
    }
    if (status != OK) plan_free(plan);
    return status;
}

void plan_free(Plan *plan)
{
    free(plan->tensor);
    free(plan->copy);
    json_decref(plan->by_name);
    *plan = (Plan){ 0 };
}

void plan_type(PlanTensor *tensor, Dtype dtype)
{
    tensor->dtype = dtype;
    tensor->bytes = plan_count(tensor) * (int64_t)dtype_width(dtype);
}

void plan_cast(Plan *plan, Dtype dtype)
{
    for (PlanTensor *t = plan->tensor; t < plan->tensor + plan->tensors; t++)
        if (t->kind == FOREIGN_WEIGHT && !t->as.keeps_type) plan_type(t, dtype);
}

const PlanTensor *plan_find(const Plan *plan, const char *name)
{
    const json_t *known = json_object_get(plan->by_name, name);
    return known ? &plan->tensor[json_integer_value(known)] : NULL;
}

int64_t plan_count(const PlanTensor *tensor)
{
    const int64_t *n = tensor->as.shape;
    return n[0] * n[1] * n[2] * n[3];
}

/* ---- the head of a tied model ---- */

/* Two elements that are no numbers are equal here: both are as they were saved. */
static bool elements_equal(const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static Status refuse_head(const ForeignFile *from, const ForeignTensor *head, const ForeignTensor *embedding)
{
    return fail(BAD_FILE, "%s: tie_word_embeddings says that the head is the embedding, but '%s' has other "
                "values than '%s'; set tie_word_embeddings to false in config.json to read it, or remove it "
                "from the file", from->path, head->name, embedding->name);
}

Status plan_check_tied(const Plan *plan, ForeignFile *from, int64_t part, int64_t parts)
{
    enum { WINDOW = 4096, RELEASE = 16 << 20 };
    float a[WINDOW], b[WINDOW];
    const PlanTensor    *tensor = plan_find(plan, "embed.token.weight");
    const ForeignTensor *head = plan->head_copy;
    if (!head || !tensor) return OK;
    const ForeignTensor *embedding = plan->copy[tensor->first].from;
    int64_t count = foreign_count(embedding), n, unreleased = 0;
    if (!dtype_is_float(head->dtype) || foreign_count(head) != count ||
        head->shape[0] != embedding->shape[0]) return refuse_head(from, head, embedding);
    TRY(foreign_need(from, head));
    TRY(foreign_need(from, embedding));
    int64_t first = count / parts * part, end = part == parts - 1 ? count : first + count / parts;
    for (; first < end; first += n) {
        n = end - first < WINDOW ? end - first : WINDOW;
        foreign_read(head, first, 1, n, a, F32);
        foreign_read(embedding, first, 1, n, b, F32);
        if (!elements_equal(a, b, n)) return refuse_head(from, head, embedding);
        if ((unreleased += n) >= RELEASE) foreign_release(from), unreleased = 0;
    }
    return OK;
}

/* ---- copying ---- */

bool plan_copy_in_order(const PlanTensor *tensor, const PlanCopy *c)
{
    int64_t stride = 1;
    for (int d = LINK_DIMS - 1; d >= 0; stride *= c->size[d--])
        if (c->size[d] > 1 && (c->to_stride[d] != stride || c->from_stride[d] != stride)) return false;
    return c->to_first == 0 && stride == plan_count(tensor);
}

bool plan_copy_reaches(const PlanCopy *c, int64_t first, int64_t count)
{
    int64_t last = c->to_first;
    for (int d = 0; d < LINK_DIMS; d++) last += (c->size[d] - 1) * c->to_stride[d];
    return c->to_first < first + count && last >= first;
}

typedef struct { const PlanCopy *copy; int64_t first, end; char *to; Dtype dtype; } Window;

/* The part within the window of what follows dimension d, from element `to` of the written tensor and element
 * `from` of the source on. Along the last dimension elements are neighbours in the written tensor, but for
 * vectors of which a stride is left over, which have one element. */
static void copy_within(const Window *w, int d, int64_t to, int64_t from)
{
    const PlanCopy *c = w->copy;
    int64_t stride = c->to_stride[d], low = 0, high = c->size[d];
    if (d == LINK_DIMS - 1) {
        CHECK(stride == 1 || high == 1, "the elements of a row of '%s' are not neighbours", c->from->name);
        if (w->first > to) low = w->first - to;
        if (w->end - to < high) high = w->end - to;
        if (low < high)
            foreign_read(c->from, from + low * c->from_stride[d], c->from_stride[d], high - low,
                         w->to + (size_t)(to + low - w->first) * dtype_width(w->dtype), w->dtype);
        return;
    }
    int64_t inside = 1; /* elements that the dims inside this one reach over */
    for (int i = d + 1; i < LINK_DIMS; i++) inside += (c->size[i] - 1) * c->to_stride[i];
    if (high > 1 && w->first > to + inside - 1) low = (w->first - to - inside) / stride + 1;
    if (high > 1 && w->end - to < (high - 1) * stride + 1)
        high = w->end > to ? (w->end - to - 1) / stride + 1 : 0;
    for (int64_t i = low; i < high; i++) copy_within(w, d + 1, to + i * stride, from + i * c->from_stride[d]);
}

Status plan_verify(const Plan *plan, const ForeignFile *from, const PlanTensor *tensor, int64_t part,
                   int64_t parts)
{
    for (int i = 0; i < tensor->copies; i++)
        TRY(foreign_verify(from, plan->copy[tensor->first + i].from, part, parts));
    return OK;
}

void plan_gather(const Plan *plan, const PlanTensor *tensor, int64_t first, int64_t count, void *to,
                 Dtype dtype)
{
    for (int i = 0; i < tensor->copies; i++) {
        const PlanCopy *c = &plan->copy[tensor->first + i];
        Window w = { .copy = c, .first = first, .end = first + count, .to = to, .dtype = dtype };
        copy_within(&w, 0, c->to_first, c->from_first);
    }
}
