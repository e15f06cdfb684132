/* Blocks go round in slots: the reader fills slot k % slots with block k, a worker encodes it, the caller takes it. One
 * lock is enough, since a block is a millisecond's work.                                                             */
#include "corpus/mill.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "corpus/document.h"

enum { SLOTS_EACH = 2, SLOTS_MORE = 2, ROOM_KEPT = 4 * BLOCK_USUAL };

typedef enum { EMPTY, FULL, DONE } SlotState;

typedef struct {
    SlotState   state;
    Block       block;
    const char *name;                           /* of the block's file */
    MillBatch   batch;
    int32_t    *ids;
    int64_t    *end;
    int64_t     ids_room, end_room;
    Status      status;                         /* what ends the whole */
    char        why[512];
} Slot;

struct Mill {
    const MillPlan *plan;
    pthread_mutex_t lock;
    pthread_cond_t  change;
    pthread_t      *thread;                     /* the reader, then the workers */
    int             started, slots;
    Slot           *slot;
    int64_t         filled, taken, given;       /* blocks; each counter only grows */
    int64_t         weight, weight_most;        /* bytes of text in slots that are not empty */
    bool            finished, closing;          /* nothing more will be filled */
    int64_t         behind;                     /* bytes of the files that are done */
};

/* ---- faults ---- */

/* Passed over. status: what fail() gave */
static bool fault_told(Slot *s, Status status)
{
    (void)status;
    if (s->batch.faults < MILL_TOLD) snprintf(s->batch.told[s->batch.faults], sizeof s->batch.told[0], "%s", fail_text());
    s->batch.faults++;
    return true;
}

static bool fault_stop(Slot *s, Status status)
{
    s->status = status;
    snprintf(s->why, sizeof s->why, "%s", fail_text());
    return false;
}

/* True where it is passed over */
static bool fault_take(const Mill *m, Slot *s, Status status)
{
    return status == BAD_FILE && m->plan->skip ? fault_told(s, status) : fault_stop(s, status);
}

/* ---- a worker ---- */

/* A text's ids come behind those at hand */
static bool ids_room(Slot *s, int64_t wanted)
{
    if (wanted <= s->ids_room) return true;
    int32_t *grown = realloc(s->ids, (size_t)wanted * 2 * sizeof *grown);
    if (!grown) return false;
    s->ids      = grown;
    s->ids_room = wanted * 2;
    return true;
}

static bool end_room(Slot *s, int keys)
{
    int64_t wanted = (s->batch.documents + 1) * keys;
    if (wanted <= s->end_room) return true;
    int64_t *grown = realloc(s->end, (size_t)wanted * 2 * sizeof *grown);
    if (!grown) return false;
    s->end      = grown;
    s->end_room = wanted * 2;
    return true;
}

/* As Megatron does it: a document without ids has no end of document either. */
static int64_t text_encode(const MillPlan *p, int32_t *ids, JsonText text)
{
    int64_t count = p->tokenizer->encode(p->tokenizer, ids, text.text, text.bytes);
    if (count > 0 && p->append_eod) ids[count++] = p->tokenizer->eod;
    return count;
}

/* The tokenizer said why, and knows no file. */
static Status encode_fault(const Slot *s, Line line)
{
    char why[320];
    snprintf(why, sizeof why, "%s", fail_text());
    return fail(BAD_FILE, "%s:%" PRId64 ": %s", s->name, line.number, why);
}

static Status line_encode(const Mill *m, Slot *s, Line line, int64_t *used)
{
    const MillPlan *p = m->plan;
    JsonText text[JSON_KEYS_MOST];
    if (line.bytes > p->line_most) {
        fault_told(s, document_too_long(s->name, line.number, line.bytes, p->line_most));
        return OK;
    }
    TRY(document_read(text, s->block.json, p->key, p->keys, line, s->name));
    if (!end_room(s, p->keys)) return fail(NO_MEMORY, "%s: no memory for its documents", s->name);
    for (int k = 0; k < p->keys; k++) {
        if (!ids_room(s, *used + tokenizer_room(p->tokenizer, text[k].text, text[k].bytes) + 1))
            return fail(NO_MEMORY, "%s: no memory for the ids of %lld bytes", s->name, (long long)text[k].bytes);
        int64_t count = text_encode(p, s->ids + *used, text[k]);
        if (count < 0) return encode_fault(s, line);
        *used += count;
        s->end[s->batch.documents * p->keys + k] = *used;
    }
    s->batch.documents++;
    return OK;
}

static void slot_encode(const Mill *m, Slot *s)
{
    Line     line;
    LineWalk walk = { 0 };
    int64_t  used = 0;
    bool     go_on = s->status == OK;
    while (go_on && block_next(&s->block, &walk, &line)) {
        Status status = line_encode(m, s, line, &used);
        if (status != OK) go_on = fault_take(m, s, status);
    }
    s->batch.ids = s->ids;
    s->batch.end = s->end;
}

static void *worker(void *argument)
{
    Mill *m = argument;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        while (m->taken == m->filled && !m->finished && !m->closing) pthread_cond_wait(&m->change, &m->lock);
        if (m->closing || m->taken == m->filled) break;
        Slot *s = &m->slot[m->taken++ % m->slots];
        pthread_mutex_unlock(&m->lock);
        slot_encode(m, s);
        pthread_mutex_lock(&m->lock);
        s->state = DONE;
        pthread_cond_broadcast(&m->change);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- the reader ---- */

/* The next slot when it is empty; NULL when all is to end */
static Slot *slot_await(Mill *m)
{
    Slot *s = &m->slot[m->filled % m->slots];
    pthread_mutex_lock(&m->lock);
    while (s->state != EMPTY && !m->closing) pthread_cond_wait(&m->change, &m->lock);
    bool closing = m->closing;
    pthread_mutex_unlock(&m->lock);
    if (closing) return NULL;
    s->status = OK;
    s->batch  = (MillBatch){ 0 };
    return s;
}

/* A block of a long line waits until there is memory for it, at the latest until it is alone. */
static void slot_give(Mill *m, Slot *s)
{
    int64_t weight = (int64_t)s->block.bytes;
    pthread_mutex_lock(&m->lock);
    while (m->weight && m->weight + weight > m->weight_most && !m->closing) pthread_cond_wait(&m->change, &m->lock);
    m->weight += weight;
    s->state   = FULL;
    m->filled++;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
}

/* The next block of a file, opened first where it is its first. False: all is to end */
static bool slot_fill(Mill *m, Slot *s, Lines **lines, const char *path, bool *more)
{
    const MillPlan *p = m->plan;
    *more = false;
    s->block.bytes = 0;
    s->name = strcmp(path, "-") ? path : "standard input";
    Status status = *lines ? OK : lines_open(lines, path, p->line_most, p->ratio_most);
    if (status != OK) return fault_stop(s, status);
    status = lines_fill(*lines, &s->block, more);
    s->batch.behind = m->behind + s->block.behind;
    if (status != OK) return fault_take(m, s, status);
    if (s->block.skipped) fault_told(s, document_too_long(s->name, s->block.line, s->block.skipped, p->line_most));
    return true;
}

static bool file_read(Mill *m, const char *path)
{
    Lines *lines = NULL;
    bool go_on = true;
    for (bool more = true; go_on && more; ) {
        Slot *s = slot_await(m);
        go_on = s && slot_fill(m, s, &lines, path, &more);
        int64_t behind = s ? s->batch.behind : 0;
        if (s) slot_give(m, s);
        if (!more) m->behind = behind;
    }
    lines_close(lines);
    return go_on;
}

static void *reader(void *argument)
{
    Mill *m = argument;
    for (int i = 0; i < m->plan->paths && file_read(m, m->plan->path[i]); i++) { }
    pthread_mutex_lock(&m->lock);
    m->finished = true;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- the caller ---- */

/* Signals are for the thread that asked. */
static int threads_start(Mill *m)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (!error && m->started <= m->plan->workers) {
        error = pthread_create(&m->thread[m->started], NULL, m->started ? worker : reader, m);
        m->started += !error;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* A pipe can be opened once: who writes it would not come again. */
static bool is_pipe(const char *path)
{
    struct stat about;
    return !strcmp(path, "-") || (stat(path, &about) == 0 && S_ISFIFO(about.st_mode));
}

static Status path_check(const MillPlan *p, const char *path)
{
    Lines *lines;
    if (is_pipe(path)) return lines_name_check(path);
    TRY(lines_open(&lines, path, p->line_most, p->ratio_most));
    lines_close(lines);
    return OK;
}

static Status plan_check(const MillPlan *p)
{
    CHECK(p->workers > 0 && p->keys > 0 && p->keys <= JSON_KEYS_MOST, "%d workers, %d keys", p->workers, p->keys);
    for (int i = 0; i < p->paths; i++) TRY(path_check(p, p->path[i]));
    return OK;
}

Status mill_open(Mill **mill, const MillPlan *plan)
{
    *mill = NULL;
    TRY(plan_check(plan));
    Mill *m = calloc(1, sizeof *m);
    if (!m) return fail(NO_MEMORY, "no memory to read %s", plan->path[0]);
    m->plan   = plan;
    m->slots  = SLOTS_EACH * plan->workers + SLOTS_MORE;
    m->slot   = calloc((size_t)m->slots, sizeof *m->slot);
    m->thread = calloc((size_t)plan->workers + 1, sizeof *m->thread);
    m->weight_most = (int64_t)m->slots * BLOCK_USUAL;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->change, NULL);
    Status status = OK;
    if (!m->slot || !m->thread) status = fail(NO_MEMORY, "no memory to read %s", plan->path[0]);
    else if (threads_start(m)) status = fail(NO_MEMORY, "--workers %d: thread %d does not start; ask for fewer", plan->workers, m->started);
    if (status == OK) *mill = m;
    else              mill_close(m);
    return status;
}

static void slot_clear(Slot *s)
{
    if (s->block.room > ROOM_KEPT) block_free(&s->block);
    if (s->ids_room > ROOM_KEPT) {
        free(s->ids);
        s->ids      = NULL;
        s->ids_room = 0;
    }
    s->state = EMPTY;
}

Status mill_next(Mill *m, const MillBatch **batch)
{
    pthread_mutex_lock(&m->lock);
    if (m->given) {                                     /* the batch of before goes back */
        Slot *before = &m->slot[(m->given - 1) % m->slots];
        m->weight -= (int64_t)before->block.bytes;
        slot_clear(before);
        pthread_cond_broadcast(&m->change);
    }
    Slot *s = &m->slot[m->given % m->slots];
    while (s->state != DONE && !(m->finished && m->given == m->filled)) pthread_cond_wait(&m->change, &m->lock);
    bool more = s->state == DONE;
    pthread_mutex_unlock(&m->lock);
    *batch = more ? &s->batch : NULL;
    m->given += more;
    return more && s->status != OK ? fail(s->status, "%s", s->why) : OK;
}

void mill_close(Mill *m)
{
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < m->started; i++) pthread_join(m->thread[i], NULL);
    for (int i = 0; m->slot && i < m->slots; i++) {
        block_free(&m->slot[i].block);
        free(m->slot[i].ids);
        free(m->slot[i].end);
    }
    pthread_cond_destroy(&m->change);
    pthread_mutex_destroy(&m->lock);
    free(m->slot);
    free(m->thread);
    free(m);
}
