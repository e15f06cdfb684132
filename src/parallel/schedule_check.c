/* Proves that schedules are correct without knowing how they were made: each stage alone, here, and all
 * stages together with their messages in a replay (schedule_replay.c). The errors name stage and row; a
 * faulty schedule is an error in schedule_order.c or schedule_rows.c. */
#include "parallel/schedule_proof.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

Status schedule_error(const Schedule *s, int row, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail_list(BAD_OPTION, format, list);
    va_end(list);
    ScheduleRow r = row < s->rows ? s->row[row] : (ScheduleRow){ STEP, -1, -1, -1, -1, -1, -1 };
    return fail_prefix(BAD_OPTION, "schedule %s, stage %d row %d of %d (%s, chunk %d, micro-batch %d): ",
                schedule_name(s->shape.kind), s->stage, row, s->rows,
                row < s->rows ? schedule_verb_name(r.verb) : "the end", r.chunk, r.micro);
}

static bool is_work   (ScheduleVerb v) { return v == FORWARD || v == BACKWARD_INPUT || v == BACKWARD_WEIGHT; }
static bool has_slot  (ScheduleVerb v) { return is_work(v) || v == RECV || v == SEND; }
static bool has_buffer(ScheduleVerb v) { return v == RECV_GRAD || v == BACKWARD_INPUT || v == SEND_GRAD; }
static bool training  (const Schedule *s) { return s->shape.kind != SCHEDULE_FORWARD; }

/* ---- one stage alone ---- */

/* Of one (chunk, micro-batch): its slot, and a bit for each verb that is done, or whose message has been
 * waited for. */
typedef struct { int slot; unsigned done, waited; } MicroProgress;

typedef struct {
    const Schedule *s;
    int   row, live, peak, expected_peak;
    int   posted;                                      /* messages that have no WAIT yet */
    MicroProgress *progress;                           /* [chunk * micros + micro] */
    /* [slot]: chunk * micros + micro of the one that uses it, or -1 */
    int  *owner;
    /* [row]: the row posted a message that has no WAIT yet */
    bool *pending;
    /* [chunk * buffers + buffer] the micro-batch in each gradient buffer, or -1 */
    int   buffers, *in, *out;
    int   count[STEP + 1][CHUNKS_MAX];                 /* rows of each verb so far */
} StageProof;

#define REQUIRE(cond, ...) do { if (!(cond)) return schedule_error(p->s, p->row, __VA_ARGS__); } while (0)

static MicroProgress *progress_of(const StageProof *p, int chunk, int micro)
{
    return &p->progress[chunk * p->s->shape.micros + micro];
}

static int *buffer_of(const StageProof *p, int *buffers, int chunk, int buffer)
{
    return &buffers[chunk * p->buffers + buffer];
}

/* The stages before and after the row's virtual stage: -1 where the model has none. */
static int  before(const StageProof *p, const ScheduleRow *r)
{
    return schedule_before(&p->s->shape, p->s->stage, r->chunk);
}
static int  after (const StageProof *p, const ScheduleRow *r)
{
    return schedule_after(&p->s->shape, p->s->stage, r->chunk);
}
static bool has_previous(const StageProof *p, const ScheduleRow *r) { return before(p, r) >= 0; }
static bool has_next    (const StageProof *p, const ScheduleRow *r) { return after(p, r) >= 0; }
static bool receives    (const StageProof *p, const ScheduleRow *r)
{
    return has_previous(p, r) && before(p, r) != p->s->stage;
}
static bool sends       (const StageProof *p, const ScheduleRow *r)
{
    return has_next(p, r) && after(p, r) != p->s->stage;
}

static Status require_done(const StageProof *p, const MicroProgress *progress, ScheduleVerb verb)
{
    REQUIRE(progress->done >> verb & 1, "its %s has not been done", schedule_verb_name(verb));
    return OK;
}

static Status require_waited(const StageProof *p, const MicroProgress *progress, ScheduleVerb verb)
{
    REQUIRE(progress->waited >> verb & 1, "its %s has not been waited for", schedule_verb_name(verb));
    return OK;
}

static Status slot_acquire(StageProof *p, const ScheduleRow *r)
{
    int *owner = &p->owner[r->slot], micros = p->s->shape.micros;
    REQUIRE(*owner < 0, "writes slot %d, which chunk %d, micro-batch %d still uses", r->slot,
        *owner / micros, *owner % micros);
    *owner = r->chunk * micros + r->micro;
    progress_of(p, r->chunk, r->micro)->slot = r->slot;
    if (++p->live > p->peak) p->peak = p->live;
    REQUIRE(p->live <= p->expected_peak, "%d slots are in use where schedule_peak says %d", p->live,
        p->expected_peak);
    return OK;
}

static void slot_free(StageProof *p, int chunk, int micro)
{
    p->owner[progress_of(p, chunk, micro)->slot] = -1;
    p->live--;
}

static Status buffer_acquire(StageProof *p, const ScheduleRow *r, int *buffer)
{
    REQUIRE(*buffer < 0, "gradient buffer %d is in use by micro-batch %d", r->buffer, *buffer);
    *buffer = r->micro;
    return OK;
}

/* A forward needs its input: a message received, or the previous chunk's output on the same rank. In
 * evaluation it is the last reader of that output, and of its own where no message sends it. */
static Status prove_forward(StageProof *p, const ScheduleRow *r, const MicroProgress *progress)
{
    if (receives(p, r)) TRY(require_waited(p, progress, RECV));
    else TRY(slot_acquire(p, r));
    bool local = has_previous(p, r) && !receives(p, r);
    if (local) TRY(require_done(p, progress_of(p, r->chunk - 1, r->micro), FORWARD));
    if (training(p->s)) return OK;
    if (local) slot_free(p, r->chunk - 1, r->micro);
    if (!has_next(p, r)) slot_free(p, r->chunk, r->micro);
    return OK;
}

/* Reads the gradient buffer of the output, writes that of the input. Where the next chunk is on the same
 * stage, its send buffer is the input. */
static Status prove_backward_input(StageProof *p, const ScheduleRow *r, const MicroProgress *progress)
{
    TRY(require_done(p, progress, FORWARD));
    if (sends(p, r)) TRY(require_waited(p, progress, RECV_GRAD));
    if (has_previous(p, r)) TRY(buffer_acquire(p, r, buffer_of(p, p->out, r->chunk, r->buffer)));
    if (!has_next(p, r)) return OK;
    int *in = sends(p, r) ? buffer_of(p, p->in, r->chunk, r->buffer)
                          : buffer_of(p, p->out, r->chunk + 1, r->buffer);
    REQUIRE(*in == r->micro, "gradient buffer %d holds micro-batch %d", r->buffer, *in);
    *in = -1;
    return OK;
}

static Status prove_backward_weight(StageProof *p, const ScheduleRow *r, const MicroProgress *progress)
{
    TRY(require_done(p, progress, BACKWARD_INPUT));
    if (sends(p, r)) TRY(require_waited(p, progress, SEND));           /* which reads the slot */
    slot_free(p, r->chunk, r->micro);
    return OK;
}

static Status prove_message(StageProof *p, const ScheduleRow *r, const MicroProgress *progress)
{
    bool onward = r->verb == SEND || r->verb == RECV_GRAD;      /* to or from the next virtual stage */
    int  peer   = onward ? after(p, r) : before(p, r);
    REQUIRE(onward ? sends(p, r) : receives(p, r), "it has no other end");
    REQUIRE(r->peer == peer, "its other end is stage %d, not %d", peer, r->peer);
    p->pending[p->row] = true;
    p->posted++;
    switch (r->verb) {
    case RECV:      return slot_acquire(p, r);
    case SEND:      return require_done(p, progress, FORWARD);
    case RECV_GRAD: return buffer_acquire(p, r, buffer_of(p, p->in, r->chunk, r->buffer));
    default:        TRY(require_done(p, progress, BACKWARD_INPUT));
    }
    int held = *buffer_of(p, p->out, r->chunk, r->buffer);
    REQUIRE(held == r->micro, "gradient buffer %d holds micro-batch %d", r->buffer, held);
    return OK;
}

/* A WAIT frees what the message occupied: a send its gradient buffer or, in evaluation, its slot. */
static Status prove_wait(StageProof *p, const ScheduleRow *r, MicroProgress *progress)
{
    bool good = r->posted >= 0 && r->posted < p->row && p->pending[r->posted];
    REQUIRE(good, "row %d has posted nothing to wait for", r->posted);
    const ScheduleRow *of = &p->s->row[r->posted];
    REQUIRE(of->chunk == r->chunk && of->micro == r->micro, "row %d is of chunk %d, micro-batch %d",
            r->posted, of->chunk, of->micro);
    p->pending[r->posted] = false;
    p->posted--;
    progress->waited |= 1u << of->verb;
    if (of->verb == SEND_GRAD) *buffer_of(p, p->out, r->chunk, of->buffer) = -1;
    if (of->verb == SEND && !training(p->s)) slot_free(p, r->chunk, r->micro);
    return OK;
}

static Status prove_end(StageProof *p)
{
    REQUIRE(p->posted == 0, "%d messages have not been waited for", p->posted);
    for (int c = 0; c < p->s->shape.chunks; c++) {
        int forwards = p->count[FORWARD][c];
        REQUIRE(forwards == p->s->shape.micros, "chunk %d has done %d of %d forwards", c, forwards, p->s->shape.micros);
        REQUIRE(p->count[REDUCE][c] == training(p->s), "chunk %d has not been reduced", c);
    }
    REQUIRE(p->peak == p->expected_peak, "at most %d slots were in use where schedule_peak says %d", p->peak,
        p->expected_peak);
    REQUIRE(p->s->slots == p->peak, "there are %d slots where %d are enough", p->s->slots, p->peak);
    return OK;
}

/* The numbers of a row are in range, so that all later checks may use them as indices. */
static Status prove_numbers(const StageProof *p, const ScheduleRow *r)
{
    const Schedule *s = p->s;
    int chunks = s->shape.chunks, micros = s->shape.micros;
    REQUIRE((unsigned)r->verb <= STEP, "there is no verb %d", (int)r->verb);
    REQUIRE(r->chunk >= 0 && r->chunk < chunks, "there are %d chunks", chunks);
    bool micro = r->micro >= 0 && r->micro < micros;
    REQUIRE(micro || r->verb == REDUCE, "there are %d micro-batches", micros);
    bool slot = r->slot >= 0 && r->slot < s->slots, buffer = r->buffer >= 0 && r->buffer < p->buffers;
    REQUIRE(slot || !has_slot(r->verb), "there is no slot %d of %d", r->slot, s->slots);
    REQUIRE(buffer || !has_buffer(r->verb), "there is no gradient buffer %d", r->buffer);
    REQUIRE(training(s) || r->verb <= SEND || r->verb == WAIT, "an evaluation has no %s",
        schedule_verb_name(r->verb));
    return OK;
}

static Status prove_verb(StageProof *p, const ScheduleRow *r, MicroProgress *progress)
{
    switch (r->verb) {
    case FORWARD:         return prove_forward(p, r, progress);
    case BACKWARD_INPUT:  return prove_backward_input(p, r, progress);
    case BACKWARD_WEIGHT: return prove_backward_weight(p, r, progress);
    case WAIT:            return prove_wait(p, r, progress);
    default:              return prove_message(p, r, progress);
    }
}

static Status prove_row(StageProof *p, const ScheduleRow *r)
{
    bool end = training(p->s) && p->row == p->s->rows - 1;
    REQUIRE((r->verb == STEP) == end, "a training schedule ends with its only STEP");
    if (r->verb == STEP) return OK;
    TRY(prove_numbers(p, r));
    int count = p->count[r->verb][r->chunk]++, weights = p->count[BACKWARD_WEIGHT][r->chunk];
    if (r->verb == REDUCE) {
        REQUIRE(count == 0, "chunk %d has been reduced before", r->chunk);
        REQUIRE(weights == p->s->shape.micros, "%d of %d weight gradients have been computed", weights,
            p->s->shape.micros);
        return OK;
    }
    MicroProgress *progress = progress_of(p, r->chunk, r->micro);
    REQUIRE(r->verb == WAIT || !(progress->done >> r->verb & 1), "done twice");
    REQUIRE(!is_work(r->verb) || r->micro == count, "the next one of this chunk is micro-batch %d", count);
    TRY(prove_verb(p, r, progress));
    REQUIRE(!has_slot(r->verb) || progress->slot == r->slot, "its slot is %d, not %d", progress->slot,
        r->slot);
    progress->done |= 1u << r->verb;
    return OK;
}

static Status prove_rows(StageProof *p)
{
    for (int i = 0; i < p->s->shape.chunks * p->buffers; i++) p->in[i] = p->out[i] = -1;
    for (int i = 0; i < p->s->slots; i++) p->owner[i] = -1;
    for (; p->row < p->s->rows; p->row++) TRY(prove_row(p, &p->s->row[p->row]));
    return prove_end(p);
}

static Status prove_stage(const Schedule *s)
{
    StageProof p = { .s = s, .expected_peak = schedule_peak(&s->shape, s->stage),
                     .buffers = schedule_buffers(&s->shape) };
    size_t buffers = (size_t)s->shape.chunks * (size_t)p.buffers;
    p.in       = malloc(buffers * sizeof *p.in);
    p.out      = malloc(buffers * sizeof *p.out);
    p.progress = calloc((size_t)s->shape.chunks * (size_t)s->shape.micros, sizeof *p.progress);
    p.owner    = malloc(((size_t)s->slots + 1) * sizeof *p.owner);
    p.pending  = calloc((size_t)s->rows + 1, sizeof *p.pending);
    CHECK(p.in && p.out && p.progress && p.owner && p.pending, "no memory to check a schedule of %d rows", s->rows);
    Status status = prove_rows(&p);
    free(p.in);
    free(p.out);
    free(p.progress);
    free(p.owner);
    free(p.pending);
    return status;
}

/* ---- public ---- */

static bool shapes_alike(const ScheduleShape *a, const ScheduleShape *b)
{
    return a->kind == b->kind && a->stages == b->stages && a->chunks == b->chunks && a->micros == b->micros &&
           a->v_shaped == b->v_shaped && a->group == b->group && a->extra == b->extra &&
           a->blocking == b->blocking;
}

Status schedule_check(const Schedule *all, int stages)
{
    for (int i = 0; i < stages; i++) {
        const Schedule *s = &all[i];
        if (!shapes_alike(&s->shape, &all->shape) || s->shape.stages != stages || s->stage != i)
            return schedule_error(s, 0, "entry %d of %d is of another pipeline", i, stages);
        TRY(prove_stage(s));
    }
    double *end;
    Status status = schedule_replay(all, stages, &(ScheduleCost){ .message = 0 }, &end);
    free(end);
    return status;
}
