/* Reductions on the host, in the order of comm/sum_order.h, as a state machine that never blocks.
 *
 * A window is a range of the elements of each part, so small that what a rank holds of it fits into the
 * scratch of the call (SUM_WINDOW). For each window, group g makes a round with each group, beginning with
 * itself and then g + 1, g + 2, ... in a ring, so that all links are used at the same time:
 *
 *     inner   members of g send each other their contributions to the parts of the other group, each to the
 *             collector of the part; a small group repeats this, since its members collect several
 *             parts of a larger one
 *     sum     each collector adds them in rank order
 *     outer   and sends the sum to the rank that owns the part, which receives one from each group
 *
 * After the last round of a window its owner adds the groups' sums in the order of groups. The inner
 * messages of the next round are begun before a round is added up, and the scratch of rounds is used in
 * turn. Every rank passes windows and rounds in the same order and waits only for messages of rounds that
 * are not later than its own, so there is no deadlock, and no order among several reductions is needed:
 * each has a tag of its own.
 *
 * An all-reduce then gathers the parts, each from its owner to one member of every group, and from that to
 * the other members. */
#include "comm/host_data.h"

#include <string.h>
#include "tensor/ops.h"

/* ---- requests ---- */
/* True where all are complete; the complete ones are taken out. */
static bool requests_done(Requests *r, Transport *t)
{
    while (r->count > 0 && t->test(t, r->request[r->count - 1])) r->count--;
    return r->count == 0;
}

/* Empty messages are not sent, as both ends know. */
static void post_send(HostSum *sum, Requests *r, const void *data, int64_t elements, int to)
{
    Transport *t = sum->group->control;
    if (elements > 0)
        r->request[r->count++] = t->send(t, sum->group->group, data, (size_t)(elements * sum->width), to,
                                         sum->tag);
}

static void post_recv(HostSum *sum, Requests *r, void *data, int64_t elements, int from)
{
    Transport *t = sum->group->control;
    if (elements > 0)
        r->request[r->count++] = t->recv(t, sum->group->group, data, (size_t)(elements * sum->width), from,
                                         sum->tag);
}

/* ---- windows ---- */
typedef struct { int64_t first, count; } Range;       /* elements of the whole */

static Range part_range(const HostSum *sum, int p)
{
    int     n     = sum->group->order.count;
    int64_t first = sum_part(sum->call.out_at, sum->count, n, p);
    return (Range){ first, sum_part(sum->call.out_at, sum->count, n, p + 1) - first };
}

static Range window_range(const HostSum *sum, int p, long window)
{
    Range   part = part_range(sum, p);
    int64_t skip = window * sum->elements, left = part.count - skip;
    if (left <= 0) return (Range){ part.first, 0 };
    return (Range){ part.first + skip, left < sum->elements ? left : sum->elements };
}

/* Rows of `elements` in a window: contributions of two rounds; with several groups the own sums of two rounds
 * and the groups' sums. */
static int64_t window_rows(const SumOrder *o)
{
    return 2 * o->group_size + (o->groups > 1 ? 2 + o->groups : 0);
}

static int64_t window_elements(const DataGroup *g, Dtype dtype, int64_t part)
{
    int64_t width = (int64_t)dtype_width(dtype), most = SUM_WINDOW / window_rows(&g->order);
    if (most < SUM_PIECE) most = SUM_PIECE;
    return part < most / width ? part : most / width;
}

size_t host_sum_window(const DataGroup *g, Dtype dtype, int64_t part)
{
    return (size_t)(window_rows(&g->order) * window_elements(g, dtype, part)) * dtype_width(dtype);
}

/* ---- rounds ---- */
/* Where round `number` is: its window, how far the other group is along the ring, which of the repeats. */
typedef struct { long window; int along, group, repeat; } Round;

static Round round_at(const HostSum *sum, long number)
{
    const SumOrder *o = &sum->group->order;
    long each  = 1 + (long)(o->groups - 1) * sum->repeats, at = number % each;
    int  along = at == 0 ? 0 : 1 + (int)((at - 1) / sum->repeats);
    return (Round){ number / each, along, (o->group + along) % o->groups,
                    at == 0 ? 0 : (int)((at - 1) % sum->repeats) };
}

/* The part that member `index` of this group collects in a round; -1: none. */
static int collected(const HostSum *sum, Round round, int index)
{
    const SumOrder *o = &sum->group->order;
    int at = round.repeat * o->members + index;
    return at < sum_members(o, round.group) ? sum_first(o, round.group) + at : -1;
}

static const char *contribution(const HostSum *sum, Range range)
{
    Tensor in = sum->call.verb == DATA_ALL_REDUCE ? sum->call.out : sum->call.in;
    return (const char *)in.data + range.first * sum->width;
}

/* Where this rank's part of the result is, within a window. */
static char *result(const HostSum *sum, Range range)
{
    int64_t base = sum->call.verb == DATA_ALL_REDUCE ? 0 : part_range(sum, sum->group->order.rank).first;
    return (char *)sum->call.out.data + (range.first - base) * sum->width;
}

static void post_inner(HostSum *sum, long number)
{
    const SumOrder *o = &sum->group->order;
    Round     round = round_at(sum, number);
    Requests *r     = &sum->inner[number % 2];
    int mine = collected(sum, round, o->index), first = sum_first(o, o->group);
    Range own = mine < 0 ? (Range){ 0, 0 } : window_range(sum, mine, round.window);
    for (int m = 0; m < o->members; m++) {
        int part = collected(sum, round, m);
        if (m == o->index) continue;
        post_recv(sum, r, sum->rows[number % 2] + m * own.count * sum->width, own.count, first + m);
        if (part < 0) continue;
        Range away = window_range(sum, part, round.window);
        post_send(sum, r, contribution(sum, away), away.count, first + m);
    }
}

/* The receive of the sum of the group that is as far behind this one as round `number` is along. */
static void post_arrival(HostSum *sum, long number)
{
    const SumOrder *o = &sum->group->order;
    Round    round = round_at(sum, number);
    Requests one   = { 0 };
    int   from = (o->group - round.along + o->groups) % o->groups;
    Range own  = window_range(sum, o->rank, round.window);
    if (round.along == 0 || round.repeat > 0 || own.count == 0) return;
    post_recv(sum, &one, sum->arrived + from * own.count * sum->width, own.count,
              sum_collector(o, from, o->rank));
    sum->arrival[sum->arrivals_posted++ % SUM_ARRIVALS] = one.request[0];
}

static bool arrivals_done(HostSum *sum, long but)
{
    Transport *t = sum->group->control;
    while (sum->arrivals_taken + but < sum->arrivals_posted &&
           t->test(t, sum->arrival[sum->arrivals_taken % SUM_ARRIVALS]))
        sum->arrivals_taken++;
    return sum->arrivals_taken + but >= sum->arrivals_posted;
}

/* y = the sum of x's rows, or their maximum. Numbers wider than those that the back end computes with have
 * operations of their own. */
static void reduce_rows(Queue *queue, Reduction reduction, Tensor y, Tensor x)
{
    bool wider = x.dtype == F64 && queue->backend->compute != F64, most = reduction == REDUCE_MAX;
    if (wider && most) sums_largest(queue, (SumsLargest){ .most_S = y, .sums_RS = x });
    else if (wider)    sums_total(queue, (SumsTotal){ .total_S = y, .sums_RS = x });
    else if (most)     rank_max(queue, (RankMax){ .y_N = y, .x_RN = x });
    else               rank_sum(queue, (RankSum){ .y_N = y, .x_RN = x });
}

static void add_rows(const HostSum *sum, Queue *queue, char *out, char *rows, int64_t count, int64_t elements)
{
    Tensor in = sum->call.verb == DATA_ALL_REDUCE ? sum->call.out : sum->call.in;
    Tensor y  = tensor_at(out, in.dtype, (int64_t[]){ elements }, 1);
    Tensor x  = tensor_at(rows, in.dtype, (int64_t[]){ count, elements }, 2);
    reduce_rows(queue, sum->call.reduction, y, x);
}

/* The contributions of a round have come: adds them and gives the sum to the owner of the part. */
static void add_inner(HostSum *sum, Queue *queue, long number)
{
    const SumOrder *o = &sum->group->order;
    Round round = round_at(sum, number);
    int   mine  = collected(sum, round, o->index);
    Range range = mine < 0 ? (Range){ 0, 0 } : window_range(sum, mine, round.window);
    char *rows  = sum->rows[number % 2];
    if (range.count == 0) return;
    memcpy(rows + o->index * range.count * sum->width, contribution(sum, range),
           (size_t)(range.count * sum->width));
    char *out = o->groups == 1 ? result(sum, range)
              : round.along == 0 ? sum->arrived + o->group * range.count * sum->width
                                 : sum->sums[number % 2];
    add_rows(sum, queue, out, rows, o->members, range.count);
    if (round.along > 0) post_send(sum, &sum->outer[number % 2], out, range.count, mine);
}

static bool window_ends(const HostSum *sum, long number)
{
    return number + 1 == sum->rounds || round_at(sum, number + 1).window > round_at(sum, number).window;
}

/* One step of the rounds. False where it needs a message that has not come. */
static bool advance_rounds(HostSum *sum, Queue *queue)
{
    const SumOrder *o = &sum->group->order;
    Transport *t = sum->group->control;
    long now = sum->summed;
    /* Its rows are free: those of two rounds ago have been added. */
    if (sum->posted < sum->rounds && sum->posted < now + 2 && arrivals_done(sum, SUM_ARRIVALS - 1)) {
        post_inner(sum, sum->posted);
        post_arrival(sum, sum->posted);
        sum->posted++;
        return true;
    }
    if (now == sum->posted) return false;
    if (!sum->added) {
        if (!requests_done(&sum->inner[now % 2], t) || !requests_done(&sum->outer[now % 2], t)) return false;
        add_inner(sum, queue, now);
        sum->added = true;
    }
    if (window_ends(sum, now) && o->groups > 1) {
        Range own = window_range(sum, o->rank, round_at(sum, now).window);
        if (!arrivals_done(sum, 0)) return false;
        if (own.count > 0) add_rows(sum, queue, result(sum, own), sum->arrived, o->groups, own.count);
    }
    sum->added = false;
    sum->summed++;
    return true;
}

/* ---- the second half of an all-reduce ---- */
static void gather_send(HostSum *sum, int part, int to)
{
    Range range = part_range(sum, part);
    const char *out = sum->call.out.data;
    post_send(sum, &sum->gather, out + range.first * sum->width, range.count, to);
}

static void gather_recv(HostSum *sum, int part, int from)
{
    Range range = part_range(sum, part);
    post_recv(sum, &sum->gather, (char *)sum->call.out.data + range.first * sum->width, range.count, from);
}

/* The parts of group `from`, of which the members of this group have one or some each: each member gives its
 * own to the others. */
static void post_exchange(HostSum *sum, int from)
{
    const SumOrder *o = &sum->group->order;
    int first = sum_first(o, o->group);
    for (int p = sum_first(o, from); p < sum_first(o, from) + sum_members(o, from); p++) {
        int holder = from == o->group ? p : sum_collector(o, o->group, p);
        if (holder != o->rank) gather_recv(sum, p, holder);
        for (int m = first; holder == o->rank && m < first + o->members; m++)
            if (m != o->rank) gather_send(sum, p, m);
    }
}

/* The own part to one member of the group `along` ahead, and to this rank the parts of the group as far
 * behind that it collects. */
static void post_cross(HostSum *sum, int along)
{
    const SumOrder *o = &sum->group->order;
    int ahead = (o->group + along) % o->groups, behind = (o->group - along + o->groups) % o->groups;
    gather_send(sum, o->rank, sum_collector(o, ahead, o->rank));
    for (int p = sum_first(o, behind); p < sum_first(o, behind) + sum_members(o, behind); p++)
        if (sum_collector(o, o->group, p) == o->rank) gather_recv(sum, p, p);
}

static bool advance_gather(HostSum *sum)
{
    const SumOrder *o = &sum->group->order;
    if (!requests_done(&sum->gather, sum->group->control)) return false;
    if (sum->gathered == o->groups) {
        sum->done = true;
    } else if (sum->gathered > 0 && !sum->crossed) {
        post_cross(sum, sum->gathered);
        sum->crossed = true;
    } else {
        post_exchange(sum, (o->group - sum->gathered + o->groups) % o->groups);
        sum->crossed = false;
        sum->gathered++;
    }
    return true;
}

/* ---- the whole ---- */
static int64_t whole(const DataCall *call)
{
    return tensor_count(call->verb == DATA_ALL_REDUCE ? call->out : call->in);
}

static int64_t part_of(const DataGroup *g, const DataCall *call, int p)
{
    int n = g->order.count;
    return sum_part(call->out_at, whole(call), n, p + 1) - sum_part(call->out_at, whole(call), n, p);
}

int64_t host_sum_payload(const DataGroup *g, const DataCall *call)
{
    const SumOrder *o = &g->order;
    int64_t own = part_of(g, call, o->rank), elements = whole(call) - own;
    if (call->verb == DATA_ALL_REDUCE) {
        elements += own * (o->members - 1 + o->groups - 1);
        for (int from = 0; from < o->groups && o->members > 1; from++)
            for (int m = o->index; from != o->group && m < sum_members(o, from); m += o->members)
                elements += part_of(g, call, sum_first(o, from) + m) * (o->members - 1);
    }
    return elements * (int64_t)dtype_width(call->out.dtype);
}

void host_sum_count(const DataGroup *g, const DataCall *call)
{
    if (call->verb == DATA_EXCHANGE) return;
    int64_t n = g->order.count, each = whole(call) / n;
    Tensor  y = tensor_at(NULL, call->out.dtype, (int64_t[]){ each }, 1);
    Tensor  x = tensor_at(NULL, call->out.dtype, (int64_t[]){ n, each }, 2);
    if (each == 0) return;
    reduce_rows(call->queue, call->reduction, y, x);
}

static void exchange_begin(HostSum *sum, DataGroup *g, const DataCall *call)
{
    *sum = (HostSum){ .used = true, .call = *call, .group = g, .tag = TAG_DATA,
                      .width = (int64_t)dtype_width(call->out.dtype) };
    post_recv(sum, &sum->gather, call->out.data, tensor_count(call->out), call->from);
    post_send(sum, &sum->gather, call->in.data, tensor_count(call->in), call->peer);
}

void host_sum_begin(HostSum *sum, DataGroup *g, const DataCall *call)
{
    if (call->verb == DATA_EXCHANGE) {
        exchange_begin(sum, g, call);
        return;
    }
    const SumOrder *o = &g->order;
    *sum = (HostSum){ .used = true, .call = *call, .group = g, .count = whole(call),
                      .width = (int64_t)dtype_width(call->out.dtype),
                      .tag = TAG_SUM + (int)(call->number % (TRANSPORT_TAGS - TAG_SUM)),
                      .repeats = (o->group_size + o->members - 1) / o->members };
    for (int p = 0; p < (call->out_at ? o->count : 1); p++)
        if (part_of(g, call, p) > sum->part) sum->part = part_of(g, call, p);
    CHECK(tensor_bytes(call->window) >= host_sum_window(g, call->out.dtype, sum->part),
          "a reduction of parts of %lld elements has a window of %zu bytes, not %zu", (long long)sum->part,
          tensor_bytes(call->window), host_sum_window(g, call->out.dtype, sum->part));
    sum->elements = window_elements(g, call->out.dtype, sum->part);
    if (sum->part > 0)
        sum->rounds = (long)((sum->part + sum->elements - 1) / sum->elements)
                    * (1 + (long)(o->groups - 1) * sum->repeats);
    char   *at  = call->window.data;
    int64_t row = sum->elements * sum->width;
    for (int i = 0; i < 2; i++, at += o->group_size * row) sum->rows[i] = at;
    for (int i = 0; i < 2; i++, at += row) sum->sums[i] = at;
    sum->arrived = at;
}

bool host_sum_advance(HostSum *sum, Queue *queue)
{
    Transport *t = sum->group->control;
    bool moved = false;
    if (sum->call.verb == DATA_EXCHANGE) return sum->done = requests_done(&sum->gather, t);
    while (sum->summed < sum->rounds) {
        if (!advance_rounds(sum, queue)) return moved;
        moved = true;
    }
    for (int i = 0; i < 2; i++)
        if (!requests_done(&sum->outer[i], t)) return moved;
    if (sum->call.verb == DATA_REDUCE_SCATTER) sum->done = true;
    while (!sum->done) {
        if (!advance_gather(sum)) return moved;
        moved = true;
    }
    return true;
}

int host_sum_awaits(const HostSum *sum)
{
    const Requests *all[] = { &sum->inner[sum->summed % 2], &sum->outer[0], &sum->outer[1], &sum->gather };
    for (int i = 0; i < 4; i++)
        if (all[i]->count > 0) return all[i]->request[all[i]->count - 1];
    return sum->arrivals_taken < sum->arrivals_posted ? sum->arrival[sum->arrivals_taken % SUM_ARRIVALS] : -1;
}
