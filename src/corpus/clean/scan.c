/* Blocks of the files go round on a belt; a worker makes of each a piece of the store and a tally, and they are taken in
 * order. From time to time what is done is made safe, and the ledger says so.                                        */
#include "corpus/clean/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "corpus/read/json_text.h"
#include "corpus/clean/eta.h"
#include "corpus/belt.h"
#include "corpus/read/input_blocks.h"
#include "corpus/read/source.h"

enum { TOLD = 4, FAULTS_TOLD = 20, ROOM_KEPT = 4 * BLOCK_USUAL, BEGIN = 200 };

typedef struct {
    Block       block;
    const char *name;                       /* of its file */
    int         input;                      /* its number */
    ProgressFile      behind;                     /* where reading goes on behind this block */
    int64_t     read;                       /* bytes of the files so far */
    int64_t     quota;                      /* documents to take of it */
    Status      status;
    char        why[512];
    StorePart  piece;
    CleanCounts      *counts;
    int64_t     faults;
    char        told[TOLD][512];
} ScanSlot;

typedef struct { FilterWorkspace workspace; StorePacker packer; Buffer record; } ScanWorker;        /* of a worker */

typedef struct {
    CleanScan *g;
    InputBlocks   blocks_in;
    int     slots, workers;
    ScanSlot   *slot;
    ScanWorker   *seat;
    bool    stopped;                        /* by a failure; who fills says it */
    int64_t total, chosen;                  /* bytes of the inputs, -1: nobody knows; documents of a sample so far */
    int64_t faults;
    Eta    eta;
} Works;

/* ---- faults ---- */

static void slot_stop(ScanSlot *s, Status status)
{
    s->status = status;
    snprintf(s->why, sizeof s->why, "%s", fail_text());
}

static void slot_tell(ScanSlot *s, const char *words)
{
    if (s->faults < TOLD) snprintf(s->told[s->faults], sizeof s->told[0], "%s", words);
    s->faults++;
}

/* ---- filling ---- */

/* How many documents of the block a sample takes, so that they are spread over all files. 0: pass it over */
static int64_t quota(const Works *w)
{
    int64_t sample = w->g->plan->sample;
    if (!sample) return INT64_MAX;
    if (w->total <= 0) return sample - w->chosen;
    double wanted = (double)sample * (double)w->blocks_in.behind / (double)w->total - (double)w->chosen;
    return wanted > 0 ? (int64_t)(wanted + 0.5) : 0;
}

static bool slot_fill(void *context, int slot, int64_t *weight)
{
    Works *w = context;
    ScanSlot  *s = &w->slot[slot];
    bool   more = false;
    if (w->stopped) return false;
    s->status = OK;
    s->faults = 0;
    clean_counts_clear(s->counts);
    document_store_clear_piece(&s->piece, ROOM_KEPT);
    if (s->block.room > ROOM_KEPT) block_free(&s->block);
    Status status;
    do {
        status   = input_blocks_fill(&w->blocks_in, &s->block, &more);
        s->quota = quota(w);
    } while (status == OK && more && !s->quota);
    if (status == OK && !more) return false;
    w->chosen += w->g->plan->sample ? s->quota : 0;
    s->name    = input_blocks_name(&w->blocks_in);
    s->input   = w->blocks_in.file;
    s->read    = w->blocks_in.behind;
    s->behind  = (ProgressFile){ .file = w->blocks_in.file, .blocks = w->blocks_in.blocks, .done = w->blocks_in.done };
    if (status == BAD_FILE) {
        s->behind = (ProgressFile){ .file = w->blocks_in.file + 1, .done = w->blocks_in.behind };
        s->counts->damaged++;
        slot_tell(s, fail_text());
    } else if (status != OK) {
        slot_stop(s, status);
        w->stopped = true;
    }
    *weight = (int64_t)s->block.bytes;
    return true;
}

/* ---- a worker ---- */

static JsonText begin_of(const char *text, int64_t bytes)
{
    int64_t end = bytes < BEGIN ? bytes : BEGIN;
    while (end < bytes && end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) end--;       /* not inside of a character */
    return (JsonText){ text, end };
}

static Status dropped_tell(const DocumentFilter *j, ScanSlot *s, const Record *r, int rule, const FilterResult *judged)
{
    Buffer *out = &s->piece.part[STORE_DROPPED];
    if (!j->plan->dropped) return OK;
    TRY(json_text_words(out, "{\"rule\": \"%s\"", drop_reason_text(rule)));
    TRY(json_text_member(out, "id", r->id));
    TRY(json_text_member(out, "file", json_text_of(s->name, (int64_t)strlen(s->name))));
    TRY(json_text_words(out, ", \"line\": %" PRId64 ", \"bytes\": %" PRId64, r->line, r->bytes));
    if (judged && judged->label >= 0) {
        TRY(json_text_words(out, ", \"language\": "));
        TRY(json_text_label(out, document_filter_label(j, judged->label)));
        TRY(json_text_words(out, ", \"probability\": %.4f", (double)judged->probability));
    }
    if (r->text) TRY(json_text_member(out, "begin", begin_of(r->text, r->bytes)));
    return buffer_add(out, "}\n", 2);
}

static Status fault_take(const DocumentFilter *j, ScanSlot *s, const RecordFault *fault)
{
    int rule = DROP_FAULT + (int)fault->kind;
    Record none = { .line = fault->line, .bytes = fault->bytes };
    if (fault->kind == RECORD_NO_MEMORY) return fail(NO_MEMORY, "%s", fault->told);
    slot_tell(s, fault->told);
    s->counts->in.documents++;
    s->counts->in.bytes += fault->bytes;
    clean_counts_length(s->counts->length_in, fault->bytes);
    clean_counts_drop(s->counts, rule, fault->bytes);
    return dropped_tell(j, s, &none, rule, NULL);
}

static Status record_take(const Works *w, ScanWorker *seat, ScanSlot *s, const Record *r)
{
    const DocumentFilter *j = w->g->filter;
    FilterResult judged;
    s->counts->in.documents++;
    s->counts->in.bytes += r->bytes;
    clean_counts_length(s->counts->length_in, r->bytes);
    TRY(document_filter_record(j, &seat->workspace, &judged, r, s->counts));
    clean_counts_drop(s->counts, judged.rule, r->bytes);
    if (judged.rule != DROP_KEPT) return dropped_tell(j, s, r, judged.rule, &judged);
    StoredDocument d = { .text = { seat->workspace.text.text, seat->workspace.text.bytes }, .id = r->id, .url = r->url, .title = r->title,
                        .source = r->source, .line = r->line, .input = s->input, .label = judged.label,
                        .probability = judged.probability };
    return document_store_put(&seat->packer, &s->piece, &d, (StoredRow){ .hash = judged.hash, .bytes = r->bytes }, seat->workspace.key, j->keys);
}

static Status block_take(const Works *w, ScanWorker *seat, ScanSlot *s)
{
    Record     record;
    RecordStep step;
    RecordWalk walk = record_walk(&w->g->plan->record, &s->block, s->name, &seat->record);
    for (int64_t left = s->quota; left > 0 && (step = record_next(&walk, &record)) != RECORD_END; left--) {
        if (step == RECORD_FAULT) TRY(fault_take(w->g->filter, s, &walk.fault));
        else                      TRY(record_take(w, seat, s, &record));
    }
    s->counts->repaired += walk.repaired;
    s->counts->passed   += walk.passed;
    return document_store_close_piece(&seat->packer, &s->piece);
}

static void slot_work(void *context, int worker, int slot)
{
    Works *w = context;
    ScanSlot  *s = &w->slot[slot];
    if (s->status != OK) return;
    Status status = block_take(w, &w->seat[worker], s);
    if (status != OK) slot_stop(s, status);
}

/* ---- the caller ---- */

static void faults_say(Works *w, const ScanSlot *s)
{
    for (int64_t i = 0; i < s->faults; i++)
        if (i < TOLD && w->faults + i < FAULTS_TOLD) log_line("passed over: %s", s->told[i]);
    if (w->faults < FAULTS_TOLD && w->faults + s->faults >= FAULTS_TOLD)
        log_line("more that is passed over is counted, not named");
    w->faults += s->faults;
}

/* What is in the store is made safe before the ledger speaks of it. */
static Status keep(Works *w)
{
    CleanScan *g = w->g;
    if (!g->folder) return OK;
    TRY(document_store_sync(g->store));
    g->progress.size = document_store_size(g->store);
    return progress_file_write(&g->progress, g->counts, g->folder, g->identity);
}

static Status slot_take(Works *w, ScanSlot *s, int64_t *since)
{
    CleanScan *g = w->g;
    if (s->status != OK) return fail(s->status, "%s", s->why);
    TRY(document_store_add(g->store, &s->piece));
    clean_counts_add(g->counts, s->counts);
    faults_say(w, s);
    g->progress = s->behind;
    *since += (int64_t)s->block.bytes;
    eta_bytes(&w->eta, s->read);
    if (*since < g->plan->part_bytes) return OK;
    *since = 0;
    return keep(w);
}

static Status slots_take(Works *w, Belt *belt)
{
    CleanScan *g = w->g;
    int64_t since = 0;
    for (int slot; (slot = belt_next(belt)) >= 0; ) {
        TRY(slot_take(w, &w->slot[slot], &since));
        if (!*g->plan->stop) continue;
        TRY(keep(w));
        return fail(INTERRUPTED, "stopped by a signal%s", g->folder ? "; the same command goes on from here" : "");
    }
    g->progress.scanned = true;
    return keep(w);
}

/* ---- opening ---- */

static int64_t inputs_size(const CleanPlan *p)
{
    int64_t total = 0;
    for (int i = 0; i < p->paths; i++) {
        int64_t size = source_size(p->path[i]);
        if (size < 0) return -1;
        total += size;
    }
    return total;
}

/* Blocks that a run before has done are read and left. */
static Status chain_go_on(Works *w)
{
    const ProgressFile *l = &w->g->progress;
    Block block = { 0 };
    bool  more  = true;
    Status status = OK;
    w->blocks_in.file = l->file;
    w->blocks_in.done = w->blocks_in.behind = l->done;
    for (int64_t i = 0; i < l->blocks && more && status == OK; i++) status = input_blocks_fill(&w->blocks_in, &block, &more);
    block_free(&block);
    if (status == OK && w->blocks_in.blocks != l->blocks)
        status = fail(BAD_FILE, "%s: is shorter than it was; --restart begins anew", w->g->plan->path[l->file]);
    return status;
}

static Status works_open(Works *w)
{
    Status status = OK;
    const CleanPlan *p = w->g->plan;
    w->slots = belt_slots(p->workers);
    w->slot  = calloc((size_t)w->slots, sizeof *w->slot);
    w->seat  = calloc((size_t)p->workers, sizeof *w->seat);
    w->blocks_in = (InputBlocks){ .path = p->path, .paths = p->paths, .wanted = p->shape, .line_most = p->record.bytes_most,
                        .ratio_most = p->ratio_most, .ahead = p->workers };
    w->total = inputs_size(p);
    if (!w->slot || !w->seat) return fail(NO_MEMORY, "no memory for %d workers", p->workers);
    for (int i = 0; i < w->slots; i++)
        if (!(w->slot[i].counts = clean_counts_new((int)w->g->counts->languages))) return fail(NO_MEMORY, "no memory to count");
    for (; w->workers < p->workers && status == OK; w->workers++) status = filter_workspace_open(&w->seat[w->workers].workspace, w->g->filter);
    return status;
}

static void works_close(Works *w)
{
    input_blocks_close(&w->blocks_in);
    for (int i = 0; w->slot && i < w->slots; i++) {
        block_free(&w->slot[i].block);
        document_store_free_piece(&w->slot[i].piece);
        free(w->slot[i].counts);
    }
    for (int i = 0; i < w->workers; i++) {
        filter_workspace_close(&w->seat[i].workspace);
        document_store_free_packer(&w->seat[i].packer);
        buffer_free(&w->seat[i].record);
    }
    free(w->slot);
    free(w->seat);
}

static Status works_run(Works *w)
{
    Belt *belt;
    BeltPlan plan = { .workers = w->g->plan->workers, .slots = w->slots, .weight_most = (int64_t)w->slots * BLOCK_USUAL,
                      .context = w, .fill = slot_fill, .work = slot_work };
    TRY(chain_go_on(w));
    w->eta = eta_begin("clean: reading", w->blocks_in.behind, w->total);
    TRY(belt_open(&belt, &plan));
    Status status = slots_take(w, belt);
    belt_close(belt);
    log_progress_end();
    return status;
}

Status clean_scan(CleanScan *g)
{
    Works w = { .g = g };
    if (g->progress.scanned) return OK;
    Status status = works_open(&w);
    if (status == OK) status = works_run(&w);
    works_close(&w);
    return status;
}
