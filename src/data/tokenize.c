/* The items of the pipeline are blocks of lines: its reader fills one, a worker encodes it, the caller takes its batch. */
#include "data/tokenize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/ordered_pipeline.h"
#include "corpus/read/input_blocks.h"
#include "corpus/read/document.h"

enum { ROOM_KEPT = 4 * BLOCK_USUAL };

typedef struct {
    Block       block;
    const char *name;                           /* of the block's file */
    TokenizeBatch batch;
    int32_t    *ids;
    int64_t    *end;
    int64_t     ids_room, end_room;
    Status      status;                         /* what ends the whole */
    char        why[512];
} TokenizeSlot;

struct TokenizeRun {
    const TokenizePlan *plan;
    InputBlocks  blocks_in;
    OrderedPipeline *pipeline;
    TokenizeSlot *slot;
    int    slots, before;                       /* before: the slot that the caller has, or -1 */
    bool   stopped;                             /* by a fault; the reader's */
};

/* ---- faults ---- */

/* Passed over. status: what fail() gave */
static bool fault_told(TokenizeSlot *s, Status status)
{
    (void)status;
    if (s->batch.faults < TOKENIZE_TOLD) snprintf(s->batch.told[s->batch.faults], sizeof s->batch.told[0], "%s", fail_text());
    s->batch.faults++;
    return true;
}

static bool fault_stop(TokenizeSlot *s, Status status)
{
    s->status = status;
    snprintf(s->why, sizeof s->why, "%s", fail_text());
    return false;
}

/* True where it is passed over */
static bool fault_take(const TokenizeRun *m, TokenizeSlot *s, Status status)
{
    return status == BAD_FILE && m->plan->skip ? fault_told(s, status) : fault_stop(s, status);
}

/* ---- a worker ---- */

/* A text's ids come behind those at hand */
static bool ids_room(TokenizeSlot *s, int64_t wanted)
{
    if (wanted <= s->ids_room) return true;
    int32_t *grown = realloc(s->ids, (size_t)wanted * 2 * sizeof *grown);
    if (!grown) return false;
    s->ids      = grown;
    s->ids_room = wanted * 2;
    return true;
}

static bool end_room(TokenizeSlot *s, int keys)
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
static int64_t text_encode(const TokenizePlan *p, int32_t *ids, JsonText text)
{
    int64_t count = p->tokenizer->encode(p->tokenizer, ids, text.text, text.bytes);
    if (count > 0 && p->append_eod) ids[count++] = p->tokenizer->eod;
    return count;
}

/* The tokenizer said why, and knows no file. */
static Status encode_fault(const TokenizeSlot *s, Line line)
{
    char why[320];
    snprintf(why, sizeof why, "%s", fail_text());
    return fail(BAD_FILE, "%s:%" PRId64 ": %s", s->name, line.number, why);
}

static Status line_encode(const TokenizeRun *m, TokenizeSlot *s, Line line, int64_t *used)
{
    const TokenizePlan *p = m->plan;
    JsonText text[JSON_KEYS_MOST];
    if (line.bytes > p->line_most) {
        fault_told(s, document_too_long(s->name, line.number, line.bytes, p->line_most, true));
        return OK;
    }
    TRY(document_read(text, s->block.kind == BLOCK_JSON, p->key, p->keys, line, s->name));
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

static void slot_encode(const TokenizeRun *m, TokenizeSlot *s)
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

static void slot_work(void *context, int worker, int slot)
{
    TokenizeRun *m = context;
    (void)worker;
    slot_encode(m, &m->slot[slot]);
}

/* ---- the reader ---- */

static bool slot_fill(void *context, int slot, int64_t *weight)
{
    TokenizeRun *m = context;
    TokenizeSlot *s = &m->slot[slot];
    bool  more = false;
    if (m->stopped) return false;
    s->status = OK;
    s->batch  = (TokenizeBatch){ 0 };
    Status status = input_blocks_fill(&m->blocks_in, &s->block, &more);
    if (status == OK && !more) return false;
    s->name         = input_blocks_name(&m->blocks_in);
    s->batch.behind = m->blocks_in.behind;
    if (status != OK) m->stopped = !fault_take(m, s, status);
    else if (s->block.skipped) fault_told(s, document_too_long(s->name, s->block.line, s->block.skipped, m->plan->line_most, true));
    *weight = (int64_t)s->block.bytes;
    return true;
}

/* ---- the caller ---- */

Status tokenize_open(TokenizeRun **run, const TokenizePlan *plan)
{
    *run = NULL;
    CHECK(plan->keys > 0 && plan->keys <= JSON_KEYS_MOST, "%d keys", plan->keys);
    TokenizeRun *m = calloc(1, sizeof *m);
    if (!m) return fail(NO_MEMORY, "no memory to read %s", plan->path[0]);
    m->plan   = plan;
    m->before = -1;
    m->slots  = ordered_pipeline_slots(plan->workers);
    m->slot   = calloc((size_t)m->slots, sizeof *m->slot);
    m->blocks_in = (InputBlocks){ .path = plan->path, .paths = plan->paths, .wanted = BLOCK_LINES, .ahead = plan->workers,
                          .line_most = plan->line_most, .ratio_most = plan->ratio_most };
    OrderedPipelinePlan pipeline = { .what = "--workers", .workers = plan->workers, .slots = m->slots, .reader = true,
                                     .weight_most = (int64_t)m->slots * BLOCK_USUAL, .context = m,
                                     .fill = slot_fill, .work = slot_work };
    Status status = m->slot ? input_blocks_check(&m->blocks_in) : fail(NO_MEMORY, "no memory to read %s", plan->path[0]);
    if (status == OK) status = ordered_pipeline_open(&m->pipeline, &pipeline);
    if (status == OK) *run = m;
    else              tokenize_close(m);
    return status;
}

static void slot_clear(TokenizeSlot *s)
{
    if (s->block.room > ROOM_KEPT) block_free(&s->block);
    if (s->ids_room > ROOM_KEPT) {
        free(s->ids);
        s->ids      = NULL;
        s->ids_room = 0;
    }
}

Status tokenize_next(TokenizeRun *m, const TokenizeBatch **batch)
{
    if (m->before >= 0) slot_clear(&m->slot[m->before]);
    m->before = ordered_pipeline_next(m->pipeline);
    TokenizeSlot *s = m->before < 0 ? NULL : &m->slot[m->before];
    *batch = s ? &s->batch : NULL;
    return s && s->status != OK ? fail(s->status, "%s", s->why) : OK;
}

void tokenize_close(TokenizeRun *m)
{
    if (!m) return;
    ordered_pipeline_close(m->pipeline);
    input_blocks_close(&m->blocks_in);
    for (int i = 0; m->slot && i < m->slots; i++) {
        block_free(&m->slot[i].block);
        free(m->slot[i].ids);
        free(m->slot[i].end);
    }
    free(m->slot);
    free(m);
}
