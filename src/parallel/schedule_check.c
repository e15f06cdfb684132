/* Proves schedules, whoever made them, knowing nothing of how they are made: each stage by itself, then the
 * messages of neighbours against each other, then all stages together, row by row: schedule_replay, which the
 * simulation (schedule_simulate.c) runs with times. */
#include "parallel/schedule.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4)))
static Status wrong(const Schedule *s, int row, const char *format, ...)
{
    char why[256];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    ScheduleRow r = row < s->rows ? s->row[row] : (ScheduleRow){ STEP, -1, -1, -1, -1, -1 };
    return fail(BAD_OPTION, "schedule %s, stage %d row %d of %d (%s, chunk %d, micro-batch %d): %s",
                schedule_name(s->kind), s->stage, row, s->rows, row < s->rows ? schedule_verb_name(r.verb) : "the end", r.chunk, r.micro, why);
}

static bool is_send   (ScheduleVerb v) { return v == SEND || v == SEND_GRAD; }
static bool is_receive(ScheduleVerb v) { return v == RECV || v == RECV_GRAD; }
static bool is_work   (ScheduleVerb v) { return v == FORWARD || v == BACKWARD_INPUT || v == BACKWARD_WEIGHT; }
static bool has_slot  (ScheduleVerb v) { return is_work(v) || v == RECV || v == SEND; }
static bool has_buffer(ScheduleVerb v) { return v == RECV_GRAD || v == BACKWARD_INPUT || v == SEND_GRAD; }
static bool training  (const Schedule *s) { return s->kind != SCHEDULE_FORWARD; }

/* ---- one stage by itself ---- */

typedef struct { int slot; unsigned done, waited; } Life;  /* of one (chunk, micro-batch): a bit for each verb */

typedef struct {
    const Schedule *s;
    int   row, most, live, peak, stated, posted;       /* posted: messages not yet waited for */
    Life *life;                                        /* [chunk * micros + micro] */
    int  *owner;                                       /* [chunk * most + slot]: micro-batch alive there or -1 */
    bool *pending;                                     /* [row]: posted there and not yet waited for */
    int   in[CHUNKS_MAX][2], out[CHUNKS_MAX][2];       /* micro-batch in each gradient buffer, or -1 */
    int   count[STEP + 1][CHUNKS_MAX];                 /* rows of each verb so far */
} Proof;

#define DEMAND(cond, ...) do { if (!(cond)) return wrong(p->s, p->row, __VA_ARGS__); } while (0)

static Life *life_of(const Proof *p, int chunk, int micro) { return &p->life[chunk * p->s->micros + micro]; }
static int   at    (const Proof *p, const ScheduleRow *r) { return r->chunk * p->s->stages + p->s->stage; }
static bool  before(const Proof *p, const ScheduleRow *r) { return at(p, r) > 0; }                    /* has neighbours */
static bool  after (const Proof *p, const ScheduleRow *r) { return at(p, r) < p->s->stages * p->s->chunks - 1; }
static bool  takes (const Proof *p, const ScheduleRow *r) { return p->s->stages > 1 && before(p, r); }     /* on other ranks */
static bool  gives (const Proof *p, const ScheduleRow *r) { return p->s->stages > 1 && after(p, r); }

static Status need(const Proof *p, const Life *life, ScheduleVerb verb)
{
    DEMAND(life->done >> verb & 1, "its %s has not been done", schedule_verb_name(verb));
    return OK;
}

static Status need_waited(const Proof *p, const Life *life, ScheduleVerb verb)
{
    DEMAND(life->waited >> verb & 1, "its %s has not been waited for", schedule_verb_name(verb));
    return OK;
}

static Status slot_take(Proof *p, const ScheduleRow *r)
{
    int *owner = &p->owner[r->chunk * p->most + r->slot];
    DEMAND(*owner < 0, "writes slot %d, in which micro-batch %d is alive", r->slot, *owner);
    *owner = r->micro;
    life_of(p, r->chunk, r->micro)->slot = r->slot;
    if (++p->live > p->peak) p->peak = p->live;
    DEMAND(p->live <= p->stated, "%d saves are alive where the stated peak is %d", p->live, p->stated);
    return OK;
}

static void slot_free(Proof *p, int chunk, int micro)
{
    p->owner[chunk * p->most + life_of(p, chunk, micro)->slot] = -1;
    p->live--;
}

static Status buffer_take(Proof *p, const ScheduleRow *r, int *buffer)
{
    DEMAND(*buffer < 0, "gradient buffer %d is in use by micro-batch %d", r->buffer, *buffer);
    *buffer = r->micro;
    return OK;
}

static Status prove_forward(Proof *p, const ScheduleRow *r, const Life *life)
{
    if (takes(p, r)) TRY(need_waited(p, life, RECV));
    else TRY(slot_take(p, r));
    bool local = before(p, r) && !takes(p, r);
    if (local) TRY(need(p, life_of(p, r->chunk - 1, r->micro), FORWARD));
    if (training(p->s)) return OK;
    if (local) slot_free(p, r->chunk - 1, r->micro);
    if (!after(p, r)) slot_free(p, r->chunk, r->micro);
    return OK;
}

static Status prove_backward_input(Proof *p, const ScheduleRow *r, const Life *life)
{
    TRY(need(p, life, FORWARD));
    if (gives(p, r)) TRY(need_waited(p, life, RECV_GRAD));
    if (before(p, r)) TRY(buffer_take(p, r, &p->out[r->chunk][r->buffer]));
    if (!after(p, r)) return OK;
    int *in = gives(p, r) ? &p->in[r->chunk][r->buffer] : &p->out[r->chunk + 1][r->buffer];
    DEMAND(*in == r->micro, "gradient buffer %d holds micro-batch %d", r->buffer, *in);
    *in = -1;
    return OK;
}

static Status prove_backward_weight(Proof *p, const ScheduleRow *r, const Life *life)
{
    TRY(need(p, life, BACKWARD_INPUT));
    if (gives(p, r)) TRY(need_waited(p, life, SEND));           /* which reads the slot */
    slot_free(p, r->chunk, r->micro);
    return OK;
}

static Status prove_message(Proof *p, const ScheduleRow *r, const Life *life)
{
    bool onward = r->verb == SEND || r->verb == RECV_GRAD;      /* to or from the next virtual stage */
    int  peer   = (p->s->stage + (onward ? 1 : p->s->stages - 1)) % p->s->stages;
    DEMAND(onward ? gives(p, r) : takes(p, r), "it has no other end");
    DEMAND(r->peer == peer, "its other end is stage %d, not %d", peer, r->peer);
    p->pending[p->row] = true;
    p->posted++;
    switch (r->verb) {
    case RECV:      return slot_take(p, r);
    case SEND:      return need(p, life, FORWARD);
    case RECV_GRAD: return buffer_take(p, r, &p->in[r->chunk][r->buffer]);
    default:        TRY(need(p, life, BACKWARD_INPUT));
    }
    int held = p->out[r->chunk][r->buffer];
    DEMAND(held == r->micro, "gradient buffer %d holds micro-batch %d", r->buffer, held);
    return OK;
}

static Status prove_wait(Proof *p, const ScheduleRow *r, Life *life)
{
    bool good = r->peer >= 0 && r->peer < p->row && p->pending[r->peer];
    DEMAND(good, "row %d has posted nothing to wait for", r->peer);
    const ScheduleRow *of = &p->s->row[r->peer];
    DEMAND(of->chunk == r->chunk && of->micro == r->micro, "row %d is of chunk %d, micro-batch %d", r->peer,
           of->chunk, of->micro);
    p->pending[r->peer] = false;
    p->posted--;
    life->waited |= 1u << of->verb;
    if (of->verb == SEND_GRAD) p->out[r->chunk][of->buffer] = -1;
    if (of->verb == SEND && !training(p->s)) slot_free(p, r->chunk, r->micro);
    return OK;
}

static Status prove_end(Proof *p)
{
    DEMAND(p->posted == 0, "%d messages have not been waited for", p->posted);
    for (int c = 0; c < p->s->chunks; c++) {
        int forwards = p->count[FORWARD][c];
        DEMAND(forwards == p->s->micros, "chunk %d has done %d of %d forwards", c, forwards, p->s->micros);
        DEMAND(p->count[REDUCE][c] == training(p->s), "chunk %d has not been reduced", c);
    }
    DEMAND(p->peak == p->stated, "at most %d saves were alive where the stated peak is %d", p->peak, p->stated);
    return OK;
}

/* The numbers of a row are such that all else may index with them. */
static Status prove_numbers(const Proof *p, const ScheduleRow *r)
{
    const Schedule *s = p->s;
    DEMAND((unsigned)r->verb <= STEP, "there is no verb %d", (int)r->verb);
    DEMAND(r->chunk >= 0 && r->chunk < s->chunks, "there are %d chunks", s->chunks);
    bool micro = r->micro >= 0 && r->micro < s->micros;
    DEMAND(micro || r->verb == REDUCE, "there are %d micro-batches", s->micros);
    bool slot = r->slot >= 0 && r->slot < s->slots[r->chunk], buffer = r->buffer == 0 || r->buffer == 1;
    DEMAND(slot || !has_slot(r->verb), "there is no slot %d of %d", r->slot, s->slots[r->chunk]);
    DEMAND(buffer || !has_buffer(r->verb), "there is no gradient buffer %d", r->buffer);
    DEMAND(training(s) || r->verb <= SEND || r->verb == WAIT, "an evaluation has no %s", schedule_verb_name(r->verb));
    return OK;
}

static Status prove_verb(Proof *p, const ScheduleRow *r, Life *life)
{
    switch (r->verb) {
    case FORWARD:         return prove_forward(p, r, life);
    case BACKWARD_INPUT:  return prove_backward_input(p, r, life);
    case BACKWARD_WEIGHT: return prove_backward_weight(p, r, life);
    case WAIT:            return prove_wait(p, r, life);
    default:              return prove_message(p, r, life);
    }
}

static Status prove_row(Proof *p, const ScheduleRow *r)
{
    bool end = training(p->s) && p->row == p->s->rows - 1;
    DEMAND((r->verb == STEP) == end, "a training schedule ends with its only STEP");
    if (r->verb == STEP) return OK;
    TRY(prove_numbers(p, r));
    int count = p->count[r->verb][r->chunk]++, weights = p->count[BACKWARD_WEIGHT][r->chunk];
    if (r->verb == REDUCE) {
        DEMAND(count == 0, "chunk %d has been reduced before", r->chunk);
        DEMAND(weights == p->s->micros, "%d of %d weight gradients are there", weights, p->s->micros);
        return OK;
    }
    Life *life = life_of(p, r->chunk, r->micro);
    DEMAND(r->verb == WAIT || !(life->done >> r->verb & 1), "done twice");
    DEMAND(!is_work(r->verb) || r->micro == count, "the next one of this chunk is micro-batch %d", count);
    TRY(prove_verb(p, r, life));
    DEMAND(!has_slot(r->verb) || life->slot == r->slot, "it lives in slot %d, not in %d", life->slot, r->slot);
    life->done |= 1u << r->verb;
    return OK;
}

static Status prove_rows(Proof *p)
{
    memset(p->in, -1, sizeof p->in);
    memset(p->out, -1, sizeof p->out);
    for (int i = 0; i < p->s->chunks * p->most; i++) p->owner[i] = -1;
    for (; p->row < p->s->rows; p->row++) TRY(prove_row(p, &p->s->row[p->row]));
    return prove_end(p);
}

static Status prove_stage(const Schedule *s)
{
    Proof p = { .s = s, .stated = schedule_peak(s->kind, s->stages, s->stage, s->chunks, s->micros) };
    for (int c = 0; c < s->chunks; c++)
        if (p.most < s->slots[c]) p.most = s->slots[c];
    p.life    = calloc((size_t)s->chunks * (size_t)s->micros, sizeof *p.life);
    p.owner   = malloc(((size_t)s->chunks * (size_t)p.most + 1) * sizeof *p.owner);
    p.pending = calloc((size_t)s->rows + 1, sizeof *p.pending);
    CHECK(p.life && p.owner && p.pending, "no memory to check a schedule of %d rows", s->rows);
    Status status = prove_rows(&p);
    free(p.life);
    free(p.owner);
    free(p.pending);
    return status;
}

/* ---- neighbours: which row of the other stage each message meets ---- */

typedef struct { int stages, *link, *first; } Web;     /* link[first[stage] + row]: the row at the other end */

static int next_message(const Schedule *s, int row, int peer, bool (*wanted)(ScheduleVerb))
{
    while (row < s->rows && !(wanted(s->row[row].verb) && s->row[row].peer == peer)) row++;
    return row;
}

static Status link_pair(Web *web, const Schedule *from, const Schedule *to)
{
    for (int a = 0, b = 0;; a++, b++) {
        a = next_message(from, a, to->stage, is_send);
        b = next_message(to, b, from->stage, is_receive);
        if (a == from->rows && b == to->rows) return OK;
        if (a == from->rows) return wrong(to, b, "stage %d sends no more", from->stage);
        if (b == to->rows) return wrong(from, a, "stage %d receives no more", to->stage);
        const ScheduleRow *s = &from->row[a], *r = &to->row[b];
        bool forward = s->verb == SEND;
        int  there = s->chunk * from->stages + from->stage + (forward ? 1 : -1);
        if (forward != (r->verb == RECV) || s->micro != r->micro || there != r->chunk * to->stages + to->stage)
            return wrong(to, b, "meets row %d of stage %d (%s, chunk %d, micro-batch %d)", a, from->stage,
                         schedule_verb_name(s->verb), s->chunk, s->micro);
        web->link[web->first[from->stage] + a] = b;
        web->link[web->first[to->stage] + b]   = a;
    }
}

static Status link_all(Web *web, const Schedule *all)
{
    for (int i = 0, p = web->stages; i < p; i++) {
        int next = (i + 1) % p, prev = (i + p - 1) % p;
        if (next != i) TRY(link_pair(web, &all[i], &all[next]));
        if (prev != next) TRY(link_pair(web, &all[i], &all[prev]));
    }
    return OK;
}

/* ---- all stages together ---- */

/* Does rows of one stage until one must wait; says whether any was done. Posting takes no time; a WAIT, for a send
 * as for a receive, ends when the other end is posted too. */
static bool walk_stage(const Web *web, const Schedule *s, int *row, const ScheduleCost *cost, double *end)
{
    int begin = row[s->stage], *n = &row[s->stage], first = web->first[s->stage];
    for (; *n < s->rows; ++*n) {
        const ScheduleRow *r = &s->row[*n];
        double now = *n > 0 ? end[first + *n - 1] : 0;
        if (r->verb == WAIT) {
            int peer = s->row[r->peer].peer, link = web->link[first + r->peer];
            if (row[peer] <= link) break;
            double there = end[web->first[peer] + link];
            if (now < there) now = there;
        }
        end[first + *n] = now + cost->of[r->verb];
    }
    return *n > begin;
}

static Status walk_all(const Web *web, const Schedule *all, int *row, const ScheduleCost *cost, double *end)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < web->stages; i++) moved |= walk_stage(web, &all[i], row, cost, end);
    }
    for (int i = 0; i < web->stages; i++) {
        if (row[i] == all[i].rows) continue;
        int posted = all[i].row[row[i]].peer;
        return wrong(&all[i], row[i], "deadlock: it waits for row %d, whose other end stage %d cannot reach",
                     posted, all[i].row[posted].peer);
    }
    return OK;
}

Status schedule_replay(const Schedule *all, int stages, const ScheduleCost *cost, double **end)
{
    int *first = calloc((size_t)stages + 1, sizeof *first), *row = calloc((size_t)stages, sizeof *row);
    CHECK(first && row, "no memory to check %d stages", stages);
    for (int i = 0; i < stages; i++) first[i + 1] = first[i] + all[i].rows;
    int *link = malloc(((size_t)first[stages] + 1) * sizeof *link);
    *end = malloc(((size_t)first[stages] + 1) * sizeof **end);
    CHECK(link && *end, "no memory to check schedules of %d rows", first[stages]);
    Web web = { stages, link, first };
    Status status = link_all(&web, all);
    if (status == OK) status = walk_all(&web, all, row, cost, *end);
    free(first);
    free(row);
    free(link);
    return status;
}

/* ---- what the room shows ---- */

Status schedule_check(const Schedule *all, int stages)
{
    for (int i = 0; i < stages; i++) {
        const Schedule *s = &all[i];
        bool same = s->kind == all->kind && s->chunks == all->chunks && s->micros == all->micros;
        if (!same || s->stages != stages || s->stage != i)
            return wrong(s, 0, "entry %d of %d is of another pipeline", i, stages);
        TRY(prove_stage(s));
    }
    double *end;
    Status status = schedule_replay(all, stages, &(ScheduleCost){ { 0 } }, &end);
    free(end);
    return status;
}
