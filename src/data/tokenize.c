/* Tokenizing documents with an ordered pipeline (base/ordered_pipeline.h): its items are blocks of lines.
 * The reader fills a slot with a block, a worker encodes it in the slot's own arrays, and the caller
 * receives the slot's batch. */
#include "data/tokenize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/ordered_pipeline.h"
#include "corpus/read/source.h"

/* A slot whose buffers are larger (bytes of text, or ids) frees them after use: one huge document must not
 * keep memory. */
enum { CAPACITY_KEPT = 4 * BLOCK_USUAL };

typedef struct {
    Block         block;
    const char   *name;                         /* of the block's file */
    TokenizeBatch batch;
    int32_t      *ids;                          /* [ids_capacity] owned */
    int64_t      *end;                          /* [end_capacity] owned */
    int64_t       ids_capacity, end_capacity;
    Failure       failure;                      /* ends the run */
} TokenizeSlot;

struct TokenizeRun {
    const TokenizePlan *plan;
    InputBlocks      blocks_in;                 /* only the reader uses it */
    OrderedPipeline *pipeline;
    TokenizeSlot    *slot;                      /* [slots] */
    int    slots, current;                      /* current: the slot that the caller has, or -1 */
    bool   stopped;                             /* an error has ended reading; only the reader uses it */
};

/* ---- faults ---- */

/* Counts a skipped line and keeps its message, that of the last fail(). */
static void fault_skip(TokenizeSlot *s)
{
    if (s->batch.faults < TOKENIZE_MESSAGES)
        snprintf(s->batch.messages[s->batch.faults], sizeof s->batch.messages[0], "%s", fail_text());
    s->batch.faults++;
}

/* True if the run continues after this error. */
static bool fault_handle(const TokenizeRun *m, TokenizeSlot *s, Status status)
{
    if (status != BAD_FILE || !m->plan->skip) return failure_keep(&s->failure, status) == OK;
    fault_skip(s);
    return true;
}

/* ---- a worker ---- */

/* As in Megatron-LM, a document without ids gets no end-of-document id either. */
static int64_t text_encode(const TokenizePlan *p, int32_t *ids, JsonText text)
{
    int64_t count = p->tokenizer->encode(p->tokenizer, ids, text.text, text.bytes);
    if (count > 0 && p->append_eod) ids[count++] = p->tokenizer->eod;
    return count;
}

/* Appends the ids of one document, key by key, to those of the slot. *used: ids in the slot so far. */
static Status line_encode(const TokenizeRun *m, TokenizeSlot *s, Line line, int64_t *used)
{
    const TokenizePlan *p = m->plan;
    JsonText text[JSON_KEYS_MOST];
    if (line.bytes > p->line_most) {
        document_too_long(s->name, line.number, line.bytes, p->line_most, true);
        fault_skip(s);
        return OK;
    }
    TRY(document_read(text, s->block.kind == BLOCK_JSON, p->key, p->keys, line, s->name));
    TRY(ARRAY_RESERVE(s->end, s->end_capacity, (s->batch.documents + 1) * p->keys));
    int64_t at = *used;             /* a key that cannot be encoded leaves nothing of the keys before it */
    for (int k = 0; k < p->keys; k++) {
        int64_t most = at + tokenizer_max_ids(p->tokenizer, text[k].text, text[k].bytes) + 1;
        TRY(ARRAY_RESERVE(s->ids, s->ids_capacity, most));
        int64_t count = text_encode(p, s->ids + at, text[k]);
        if (count < 0) return fail_prefix(BAD_FILE, "%s:%" PRId64 ": ", s->name, line.number);
        at += count;
        s->end[s->batch.documents * p->keys + k] = at;
    }
    *used = at;
    s->batch.documents++;
    return OK;
}

static void slot_work(void *context, int worker, int slot)
{
    const TokenizeRun *m = context;
    TokenizeSlot *s = &m->slot[slot];
    Line     line;
    int64_t  used = 0;
    bool     more = s->failure.status == OK;
    (void)worker;
    while (more && block_next(&s->block, &line)) {
        Status status = line_encode(m, s, line, &used);
        if (status != OK) more = fault_handle(m, s, status);
    }
    s->batch.ids = s->ids;
    s->batch.end = s->end;
}

/* ---- the reader ---- */

/* A block's weight is its bytes, so that the pipeline's limit bounds the memory of all blocks. */
static bool slot_fill(void *context, int slot, int64_t *weight)
{
    TokenizeRun *m = context;
    TokenizeSlot *s = &m->slot[slot];
    bool  more = false;
    if (m->stopped) return false;
    s->failure.status = OK;
    s->batch  = (TokenizeBatch){ 0 };
    Status status = input_blocks_fill(&m->blocks_in, &s->block, &more);
    if (status == OK && !more) return false;
    s->name         = input_blocks_name(&m->blocks_in);
    s->batch.bytes_read = m->blocks_in.bytes_read;
    if (status != OK) m->stopped = !fault_handle(m, s, status);
    else if (s->block.skipped) {
        document_too_long(s->name, s->block.line, s->block.skipped, m->plan->line_most, true);
        fault_skip(s);
    }
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
    m->plan    = plan;
    m->current = -1;
    m->slots   = ordered_pipeline_slots(plan->workers);
    m->slot    = calloc((size_t)m->slots, sizeof *m->slot);
    m->blocks_in = (InputBlocks){ .path = plan->path, .paths = plan->paths, .wanted = BLOCK_LINES,
                                  .ahead = plan->workers, .line_most = plan->line_most,
                                  .ratio_most = plan->ratio_most, .texts = plan->texts };
    OrderedPipelinePlan pipeline = { .what = "--workers", .workers = plan->workers, .slots = m->slots,
                                     .reader = true,
                                     .weight_most = (int64_t)m->slots * BLOCK_USUAL, .context = m,
                                     .fill = slot_fill, .work = slot_work };
    Status status = m->slot ? input_blocks_check(&m->blocks_in)
                            : fail(NO_MEMORY, "no memory to read %s", plan->path[0]);
    if (status == OK) status = ordered_pipeline_open(&m->pipeline, &pipeline);
    if (status == OK) *run = m;
    else              tokenize_close(m);
    return status;
}

static void slot_clear(TokenizeSlot *s)
{
    if (s->block.capacity > CAPACITY_KEPT) block_free(&s->block);
    if (s->ids_capacity > CAPACITY_KEPT) {
        free(s->ids);
        s->ids          = NULL;
        s->ids_capacity = 0;
    }
}

Status tokenize_next(TokenizeRun *m, const TokenizeBatch **batch)
{
    if (m->current >= 0) slot_clear(&m->slot[m->current]);
    m->current = ordered_pipeline_next(m->pipeline);
    TokenizeSlot *s = m->current < 0 ? NULL : &m->slot[m->current];
    *batch = s ? &s->batch : NULL;
    return s ? failure_report(&s->failure) : OK;
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
