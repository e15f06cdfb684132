/* All stages of a schedule together: which rows are the two ends of a message, and a replay, row by row, in
 * which channels execute their messages strictly in order and a send ends only with its receive. This is the
 * strictest transport there is; what passes here deadlocks nowhere. With times it is the simulation
 * (schedule_simulate.c). */
#include "parallel/schedule_proof.h"

#include <stdlib.h>

static bool is_message(ScheduleVerb v)
{
    return v == SEND || v == RECV || v == SEND_GRAD || v == RECV_GRAD;
}

/* ---- which row of the other stage each message matches ---- */

/* Queues of a stage: of each verb with each of two neighbours, or one with each. A channel is a queue of
 * sends on one stage and the queue of their receives on the other. */
enum { QUEUES = 8 };

/* By row of all stages together, stage i's from first[i] on. */
typedef struct {
    const Schedule *all;
    int   stages;
    const ScheduleCost *cost;
    int  *first;                               /* [stages + 1] */
    int  *link;                                /* the row of the message's other end */
    int  *next;                                /* the next message of the same queue, or -1 */
    double *done;                              /* when the message is done; below 0: not yet */
    double *end;                               /* when the row is done */
    int  *row;                                 /* [stages] rows done */
    int  (*head)[QUEUES];                      /* [stages] the first message of a queue that is not done */
    double (*free_at)[QUEUES];                 /* [stages] when the last one of it was */
} Replay;

static int queue_of(const Replay *r, const Schedule *s, const ScheduleRow *row)
{
    bool next = row->peer == (s->stage + 1) % s->shape.stages;
    int  verb = row->verb == RECV ? 0 : row->verb == SEND ? 1 : row->verb == RECV_GRAD ? 2 : 3;
    return r->cost->one_queue ? next : 2 * verb + next;
}

static int next_message(const Schedule *s, int row, ScheduleVerb verb, int peer)
{
    while (row < s->rows && !(s->row[row].verb == verb && s->row[row].peer == peer)) row++;
    return row;
}

/* The n-th send of a channel must mean the same as its n-th receive. */
static Status link_channel(Replay *r, const Schedule *from, const Schedule *to, ScheduleVerb send)
{
    ScheduleVerb receive = send == SEND ? RECV : RECV_GRAD;
    for (int a = 0, b = 0;; a++, b++) {
        a = next_message(from, a, send, to->stage);
        b = next_message(to, b, receive, from->stage);
        if (a == from->rows && b == to->rows) return OK;
        if (a == from->rows) return schedule_error(to, b, "stage %d sends no more", from->stage);
        if (b == to->rows) return schedule_error(from, a, "stage %d receives no more", to->stage);
        const ScheduleRow *s = &from->row[a], *t = &to->row[b];
        int there = schedule_virtual(&from->shape, from->stage, s->chunk) + (send == SEND ? 1 : -1);
        if (s->micro != t->micro || there != schedule_virtual(&to->shape, to->stage, t->chunk))
            return schedule_error(to, b, "meets row %d of stage %d (%s, chunk %d, micro-batch %d)", a,
                from->stage, schedule_verb_name(s->verb), s->chunk, s->micro);
        r->link[r->first[from->stage] + a] = b;
        r->link[r->first[to->stage] + b]   = a;
    }
}

static Status link_all(Replay *r)
{
    const Schedule *all = r->all;
    for (int i = 0, p = r->stages; i < p; i++) {
        int next = (i + 1) % p;
        if (next == i || (p == 2 && i == 1)) continue;
        for (int back = 0; back < 2; back++) {
            const Schedule *from = &all[back ? next : i], *to = &all[back ? i : next];
            TRY(link_channel(r, from, to, SEND));
            TRY(link_channel(r, from, to, SEND_GRAD));
        }
    }
    return OK;
}

static void queues_make(Replay *r)
{
    for (int i = 0; i < r->stages; i++) {
        for (int q = 0; q < QUEUES; q++) { r->head[i][q] = -1; r->free_at[i][q] = 0; }
        for (int n = r->all[i].rows - 1; n >= 0; n--) {
            const ScheduleRow *row = &r->all[i].row[n];
            if (!is_message(row->verb)) continue;
            int *head = &r->head[i][queue_of(r, &r->all[i], row)];
            r->next[r->first[i] + n] = *head;
            r->done[r->first[i] + n] = -1;
            *head = n;
        }
    }
}

/* ---- the replay ---- */

static double later(double a, double b) { return a > b ? a : b; }

/* Does the messages at the head of the queue, as long as both ends are posted and at the head of theirs. */
static void queue_advance(Replay *r, int stage, int queue)
{
    for (int n; (n = r->head[stage][queue]) >= 0 && n < r->row[stage];) {
        const ScheduleRow *row = &r->all[stage].row[n];
        int peer = row->peer, far = r->link[r->first[stage] + n], i = r->first[stage] + n;
        int j = r->first[peer] + far, theirs = queue_of(r, &r->all[peer], &r->all[peer].row[far]);
        if (r->head[peer][theirs] != far || far >= r->row[peer]) return;
        double posted = later(r->end[i], r->end[j]);
        double begin  = later(posted, later(r->free_at[stage][queue], r->free_at[peer][theirs]));
        r->done[i] = r->done[j] = begin + r->cost->message;
        r->free_at[stage][queue] = r->free_at[peer][theirs] = r->done[i];
        r->head[stage][queue] = r->next[i];
        r->head[peer][theirs] = r->next[j];
    }
}

/* Runs rows of one stage until a WAIT blocks; returns whether any was run. Posting takes no time; a WAIT, for
 * a send as for a receive, ends when its message is done. */
static bool replay_stage(Replay *r, int stage)
{
    const Schedule *s = &r->all[stage];
    int begin = r->row[stage], *n = &r->row[stage], first = r->first[stage];
    while (*n < s->rows) {
        const ScheduleRow *row = &s->row[*n];
        double now = *n > 0 ? r->end[first + *n - 1] : 0;
        if (row->verb == WAIT) {
            if (r->done[first + row->posted] < 0) break;
            now = later(now, r->done[first + row->posted]);
        }
        r->end[first + *n] = now + (r->cost->row ? r->cost->row(r->cost, s, row) : r->cost->of[row->verb]);
        ++*n;
        if (is_message(row->verb)) queue_advance(r, stage, queue_of(r, s, row));
    }
    return *n > begin;
}

/* Runs the stages in turn until none can continue. Then either all rows are done, or the stages that are not
 * wait for each other. */
static Status replay_all(Replay *r)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < r->stages; i++) moved |= replay_stage(r, i);
    }
    for (int i = 0; i < r->stages; i++) {
        const Schedule *s = &r->all[i];
        if (r->row[i] == s->rows) continue;
        int posted = s->row[r->row[i]].posted;
        return schedule_error(s, r->row[i],
            "deadlock: it waits for row %d, whose message with stage %d cannot be done", posted,
            s->row[posted].peer);
    }
    return OK;
}

Status schedule_replay(const Schedule *all, int stages, const ScheduleCost *cost, double **end)
{
    size_t n = (size_t)stages, rows = 1;
    for (int i = 0; i < stages; i++) rows += (size_t)all[i].rows;
    Replay r = { .all = all, .stages = stages, .cost = cost,
        .first = calloc(n + 1, sizeof *r.first), .row = calloc(n, sizeof *r.row),
        .head = calloc(n, sizeof *r.head), .free_at = calloc(n, sizeof *r.free_at),
        .link = malloc(rows * sizeof *r.link), .next = malloc(rows * sizeof *r.next),
        .done = malloc(rows * sizeof *r.done), .end = malloc(rows * sizeof *r.end) };
    CHECK(r.first && r.row && r.head && r.free_at && r.link && r.next && r.done && r.end,
          "no memory to replay schedules of %zu rows", rows);
    for (int i = 0; i < stages; i++) r.first[i + 1] = r.first[i] + all[i].rows;
    Status status = link_all(&r);
    if (status == OK) queues_make(&r);
    if (status == OK) status = replay_all(&r);
    *end = r.end;
    free(r.first);
    free(r.row);
    free(r.head);
    free(r.free_at);
    free(r.link);
    free(r.next);
    free(r.done);
    return status;
}
