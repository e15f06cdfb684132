#include "parallel/walk.h"
#include <stdlib.h>

static void slot_open(Walk *walk, Slot *slot, int chunk, const WalkSetup *s)
{
    size_t bytes = s->slot_bytes ? s->slot_bytes[chunk] : 0;
    slot->save  = calloc((size_t)walk->stage->count[chunk], sizeof *slot->save);
    slot->batch = loader_batch_new(s->batch, s->host);
    CHECK(slot->save, "no memory for %lld saves", (long long)walk->stage->count[chunk]);
    arena_dry(&slot->flight, "slot");
    if (!s->flight->dry) {
        slot->flight.base = arena_push(s->flight, "activations", bytes);
        slot->flight.size = bytes;
        slot->flight.dry  = false;
    }
}

void walk_open(Walk *walk, const WalkSetup *s)
{
    *walk = (Walk){ .stage = s->stage, .buckets = s->buckets, .run = s->run, .defer = s->defer };
    for (int c = 0; c < s->stage->chunks; c++) {
        walk->slots[c] = s->slots[c];
        walk->slot[c]  = calloc((size_t)s->slots[c], sizeof(Slot));
        CHECK(walk->slot[c], "no memory for %d slots", s->slots[c]);
        for (int i = 0; i < s->slots[c]; i++) slot_open(walk, &walk->slot[c][i], c, s);
    }
    walk->run.batch = &walk->slot[0][0].batch;                       /* for its sizes */
    for (int i = 0; s->buckets->learn && i < 2; i++) walk->turn[i] = flow_new(&walk->run, walk->run.scratch, "gradient between units");
}

void walk_close(Walk *walk)
{
    for (int c = 0; c < walk->stage->chunks; c++) {
        for (int i = 0; i < walk->slots[c]; i++) free(walk->slot[c][i].save);
        free(walk->slot[c]);
    }
}

size_t walk_slot_bytes(const Walk *walk, int chunk)
{
    size_t most = 0;
    for (int i = 0; i < walk->slots[chunk]; i++)
        if (walk->slot[chunk][i].flight.peak > most) most = walk->slot[chunk][i].flight.peak;
    return most;
}

Slot *walk_slot(Walk *walk, int chunk, int slot) { return &walk->slot[chunk][slot]; }

static Run run_in(const Walk *walk, Slot *slot)
{
    Run run = walk->run;
    run.batch  = &slot->batch;
    run.flight = &slot->flight;
    run.keep   = walk->defer ? &slot->flight : run.scratch;
    return run;
}

void walk_begin(Walk *walk, int chunk, int index)
{
    Slot *slot = walk_slot(walk, chunk, index);
    Run run = run_in(walk, slot);
    arena_reset(&slot->flight, 0);
    slot->in = (Flow){ .n = 0 };
    if (!stage_is_first(walk->stage, chunk)) slot->in = flow_new(&run, run.flight, "chunk input");
}

void walk_forward(Walk *walk, int chunk, int index)
{
    Slot *slot = walk_slot(walk, chunk, index);
    Run run = run_in(walk, slot);
    int64_t first = walk->stage->first[chunk], count = walk->stage->count[chunk];
    Flow x = slot->in;
    for (int64_t i = 0; i < count; i++) {
        size_t mark = arena_mark(run.scratch);
        bool head = shape_unit(run.shape, first + i) == UNIT_HEAD;
        Flow y = head ? (Flow){ .n = 0 } : flow_new(&run, run.flight, "residual");
        UnitParam w = zero_hold(walk->buckets, first + i);                     /* <-> dp+cp under ZeRO 3 */
        if (i + 1 < count) zero_prefetch(walk->buckets, first + i + 1);        /* <-> dp+cp under ZeRO 3 */
        unit_forward(&run, first + i, y, &w, &slot->save[i], x);               /* <-> tp cp */
        zero_release(walk->buckets, first + i);
        arena_reset(run.scratch, mark);
        comm_poll(walk->buckets->data);
        x = y;
    }
    slot->out = x;
}

static void backward_weight(Walk *walk, const Run *run, int64_t unit, UnitSave *save)
{
    UnitParam dw = zero_hold_grads(walk->buckets, unit);
    unit_backward_weight(run, unit, &dw, save);                                /* <-> tp under sequence parallel */
    zero_release_grads(walk->buckets, unit);                                   /* <-> dp+cp under ZeRO 2, 3 */
}

/* Nothing goes below the embedding: backward it reads no weights, and ZeRO 3 need not gather the largest of all blocks again. */
static bool backward_reads(const Walk *walk, int64_t unit) { return shape_unit(walk->run.shape, unit) != UNIT_EMBED; }

void walk_backward_input(Walk *walk, int chunk, int index, Flow dx, Flow dy)
{
    Slot *slot = walk_slot(walk, chunk, index);
    Run run = run_in(walk, slot);
    int64_t first = walk->stage->first[chunk], count = walk->stage->count[chunk];
    for (int64_t i = count - 1; i >= 0; i--) {
        size_t mark = arena_mark(run.scratch);
        Flow to = i == 0 ? dx : walk->turn[i % 2];
        UnitParam w = { 0 };
        if (backward_reads(walk, first + i)) w = zero_hold(walk->buckets, first + i);                       /* <-> dp+cp under ZeRO 3 */
        if (i > 0 && backward_reads(walk, first + i - 1)) zero_prefetch(walk->buckets, first + i - 1);      /* <-> dp+cp under ZeRO 3 */
        unit_backward_input(&run, first + i, to, &w, &slot->save[i], dy);      /* <-> tp cp */
        zero_release(walk->buckets, first + i);
        if (!walk->defer) backward_weight(walk, &run, first + i, &slot->save[i]);
        arena_reset(run.scratch, mark);
        comm_poll(walk->buckets->data);
        dy = to;
    }
}

void walk_backward_weight(Walk *walk, int chunk, int index)
{
    if (!walk->defer) return;
    Slot *slot = walk_slot(walk, chunk, index);
    Run run = run_in(walk, slot);
    for (int64_t i = walk->stage->count[chunk] - 1; i >= 0; i--) {
        size_t mark = arena_mark(run.scratch);
        backward_weight(walk, &run, walk->stage->first[chunk] + i, &slot->save[i]);
        arena_reset(run.scratch, mark);
        comm_poll(walk->buckets->data);
    }
}
