/* Blocks of the inputs go through an ordered pipeline: the reader thread fills slots with blocks, workers
 * turn each block into a part of the document store and counts, and the caller appends both in input
 * order. So the output does not depend on the number of workers. Each plan->part_bytes the store is synced
 * and the progress file replaced. */
#include "corpus/clean/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/ordered_pipeline.h"
#include "corpus/clean/eta.h"
#include "base/json_text.h"
#include "corpus/read/source.h"

enum { MESSAGES_A_BLOCK = 4, MESSAGES_A_RUN = 20, CAPACITY_KEPT = 4 * BLOCK_USUAL, BEGINNING = 200 };

typedef struct {
    Block        block;
    const char  *name;                      /* of its file */
    int          input;                     /* index of its file */
    ProgressFile after;                     /* where reading resumes after this block */
    int64_t      read;                      /* bytes of all files up to the end of this block */
    int64_t      quota;                     /* documents to take from it */
    Failure      failure;                   /* the run ends when the caller comes to this slot */
    StorePart    part;
    CleanCounts *counts;
    int64_t      faults;                    /* records skipped, and their first messages */
    char         message[MESSAGES_A_BLOCK][FAIL_BYTES];
} ScanSlot;

typedef struct { FilterWorkspace workspace; StorePacker packer; Buffer record; } ScanWorker;

typedef struct {
    CleanRun    *run;
    InputBlocks  blocks_in;
    int          slots, workers;            /* workers: those of worker_state that are open */
    ScanSlot    *slot;
    ScanWorker  *worker_state;
    bool         stopped;                   /* reading failed; set and read by the thread that fills */
    int64_t      total;                     /* bytes of the inputs; -1: unknown, as one is standard input */
    int64_t      chosen;                    /* of a sample: documents taken so far */
    int64_t      faults;                    /* logged or only counted */
    Eta          eta;
} ScanJob;

/* ---- faults ---- */

static void slot_note(ScanSlot *s, const char *words)
{
    if (s->faults < MESSAGES_A_BLOCK) snprintf(s->message[s->faults], sizeof s->message[0], "%s", words);
    s->faults++;
}

/* ---- filling ---- */

/* How many documents of the block a sample takes: so many that the share taken follows the share of bytes
 * read, which spreads the sample over all files. 0: the block is skipped. Where the size is unknown the
 * first documents are taken. */
static int64_t quota(const ScanJob *job)
{
    int64_t sample = job->run->plan->sample;
    if (!sample) return INT64_MAX;
    if (job->total <= 0) return sample - job->chosen;
    double part   = (double)job->blocks_in.bytes_read / (double)job->total;
    double wanted = (double)sample * part - (double)job->chosen;
    return wanted > 0 ? (int64_t)(wanted + 0.5) : 0;
}

/* A damaged file is counted, and reading continues with the next one. Any other failure is handed to the
 * caller in the slot, so that it is reported after everything before it was appended. */
static bool slot_fill(void *context, int slot, int64_t *weight)
{
    ScanJob *job = context;
    ScanSlot *s = &job->slot[slot];
    bool more = false;
    if (job->stopped) return false;
    s->failure.status = OK;
    s->faults = 0;
    clean_counts_clear(s->counts);
    document_store_clear_part(&s->part, CAPACITY_KEPT);
    if (s->block.capacity > CAPACITY_KEPT) block_free(&s->block);
    Status status;
    do {
        status   = input_blocks_fill(&job->blocks_in, &s->block, &more);
        s->quota = quota(job);
    } while (status == OK && more && !s->quota);
    if (status == OK && !more) return false;
    job->chosen += job->run->plan->sample ? s->quota : 0;
    s->name    = input_blocks_name(&job->blocks_in);
    s->input   = job->blocks_in.file;
    s->read    = job->blocks_in.bytes_read;
    s->after   = (ProgressFile){ .file = job->blocks_in.file, .blocks = job->blocks_in.blocks,
                                .done = job->blocks_in.done };
    if (status == BAD_FILE) {
        s->after = (ProgressFile){ .file = job->blocks_in.file + 1, .done = job->blocks_in.bytes_read };
        s->counts->damaged++;
        slot_note(s, fail_text());
    } else if (status != OK) {
        failure_keep(&s->failure, status);
        job->stopped = true;
    }
    *weight = (int64_t)s->block.bytes;
    return true;
}

/* ---- a worker ---- */

/* The beginning of a dropped text, which shows in --dropped what kind of document it was. */
static JsonText text_beginning(const char *text, int64_t bytes)
{
    int64_t end = bytes < BEGINNING ? bytes : BEGINNING;
    /* Never within a UTF-8 sequence. */
    while (end < bytes && end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) end--;
    return (JsonText){ text, end };
}

/* Appends the JSON line of a dropped document. `result` is NULL for a record that could not be read. */
static Status dropped_put(const DocumentFilter *filter, ScanSlot *s, const Record *r, int rule,
                          const FilterResult *result)
{
    Buffer *out = &s->part.part[STORE_DROPPED];
    if (!filter->plan->dropped) return OK;
    TRY(drop_reason_begin(out, rule, r->id, s->name, r->line, r->bytes));
    if (result && result->label >= 0) {
        TRY(json_text_path(out, "language", document_filter_label(filter, result->label)));
        TRY(buffer_format(out, ", \"probability\": %.4f", (double)result->probability));
    }
    if (r->text) TRY(json_text_member(out, "begin", text_beginning(r->text, r->bytes)));
    return buffer_add(out, "}\n", 2);
}

static Status fault_count(const DocumentFilter *filter, ScanSlot *s, const RecordFault *fault)
{
    int rule = DROP_FAULT + (int)fault->kind;
    Record unread = { .line = fault->line, .bytes = fault->bytes };
    if (fault->kind == RECORD_NO_MEMORY) return fail(NO_MEMORY, "%s", fault->message);
    slot_note(s, fault->message);
    s->counts->in.documents++;
    s->counts->in.bytes += fault->bytes;
    clean_counts_length(s->counts->length_in, fault->bytes);
    clean_counts_drop(s->counts, rule, fault->bytes);
    return dropped_put(filter, s, &unread, rule, NULL);
}

static Status record_process(const ScanJob *job, ScanWorker *worker, ScanSlot *s, const Record *r)
{
    const DocumentFilter *filter = &job->run->filter;
    FilterResult result;
    s->counts->in.documents++;
    s->counts->in.bytes += r->bytes;
    clean_counts_length(s->counts->length_in, r->bytes);
    TRY(document_filter_record(filter, &worker->workspace, &result, r, s->counts));
    clean_counts_drop(s->counts, result.rule, r->bytes);
    if (result.rule != DROP_KEPT) return dropped_put(filter, s, r, result.rule, &result);
    StoredDocument d = { .text = { worker->workspace.text.text, worker->workspace.text.bytes },
                         .id = r->id, .url = r->url, .title = r->title, .source = r->source, .line = r->line,
                         .input = s->input, .label = result.label, .probability = result.probability };
    return document_store_put(&worker->packer, &s->part, &d,
                              (StoredRow){ .hash = result.hash, .bytes = r->bytes }, worker->workspace.key,
                              filter->keys);
}

static Status block_process(const ScanJob *job, ScanWorker *worker, ScanSlot *s)
{
    Record     record;
    RecordStep step;
    RecordWalk walk = record_walk(&job->run->plan->record, &s->block, s->name, &worker->record);
    for (int64_t left = s->quota; left > 0 && (step = record_next(&walk, &record)) != RECORD_END; left--) {
        if (step == RECORD_FAULT) TRY(fault_count(&job->run->filter, s, &walk.fault));
        else                      TRY(record_process(job, worker, s, &record));
    }
    s->counts->repaired += walk.repaired;
    s->counts->skipped_pages += walk.skipped_pages;
    return document_store_close_part(&worker->packer, &s->part);
}

static void slot_work(void *context, int worker, int slot)
{
    ScanJob *job = context;
    ScanSlot *s = &job->slot[slot];
    if (s->failure.status != OK) return;
    Status status = block_process(job, &job->worker_state[worker], s);
    failure_keep(&s->failure, status);
}

/* ---- the caller's thread ---- */

/* The first messages of a block and of the run; a corpus in a wrong encoding would fill the log otherwise. */
static void faults_log(ScanJob *job, const ScanSlot *s)
{
    for (int64_t i = 0; i < s->faults; i++)
        if (i < MESSAGES_A_BLOCK && job->faults + i < MESSAGES_A_RUN)
            log_line("skipped: %s", s->message[i]);
    if (job->faults < MESSAGES_A_RUN && job->faults + s->faults >= MESSAGES_A_RUN)
        log_line("further skipped records are only counted");
    job->faults += s->faults;
}

/* The store is synced before the progress file names its new size: after a power failure the file must
 * never name bytes that are not on disk. */
static Status progress_save(CleanRun *run)
{
    if (run->plan->sample) return OK;
    TRY(document_store_sync(run->store));
    run->progress.size = document_store_size(run->store);
    return progress_file_write(&run->progress, run->counts, run->folder, run->identity.text);
}

static Status slot_append(ScanJob *job, ScanSlot *s, int64_t *since)
{
    CleanRun *run = job->run;
    TRY(failure_report(&s->failure));
    TRY(document_store_add(run->store, &s->part));
    clean_counts_add(run->counts, s->counts);
    faults_log(job, s);
    run->progress = s->after;
    *since += (int64_t)s->block.bytes;
    eta_bytes(&job->eta, s->read);
    if (*since < run->plan->part_bytes) return OK;
    *since = 0;
    return progress_save(run);
}

static Status slots_append(ScanJob *job, OrderedPipeline *pipeline)
{
    CleanRun *run = job->run;
    int64_t since = 0;
    for (int slot; (slot = ordered_pipeline_next(pipeline)) >= 0; ) {
        TRY(slot_append(job, &job->slot[slot], &since));
        if (!*run->plan->stop) continue;
        TRY(progress_save(run));
        return fail(INTERRUPTED, "stopped by a signal%s",
                    run->plan->sample ? "" : "; the same command resumes from here");
    }
    run->progress.scanned = 1;
    return progress_save(run);
}

/* ---- opening ---- */

/* For the estimate of the time left and for the quota of a sample. */
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

/* Skips what the interrupted run has done: whole files by index, then blocks of the current file, which
 * have to be read again because compressed files cannot be entered in the middle. */
static Status input_resume(ScanJob *job)
{
    const ProgressFile *from = &job->run->progress;
    Block block = { 0 };
    bool  more  = true;
    Status status = OK;
    job->blocks_in.file = (int)from->file;
    job->blocks_in.done = job->blocks_in.bytes_read = from->done;
    for (int64_t i = 0; i < from->blocks && more && status == OK; i++)
        status = input_blocks_fill(&job->blocks_in, &block, &more);
    block_free(&block);
    if (status == OK && job->blocks_in.blocks != from->blocks)
        status = fail(BAD_FILE, "%s: is shorter than it was in the interrupted run; --restart starts over",
                      job->run->plan->path[from->file]);
    return status;
}

static Status scan_job_open(ScanJob *job)
{
    Status status = OK;
    const CleanPlan *p = job->run->plan;
    job->slots = ordered_pipeline_slots(p->workers);
    job->slot  = calloc((size_t)job->slots, sizeof *job->slot);
    job->worker_state = calloc((size_t)p->workers, sizeof *job->worker_state);
    job->blocks_in = (InputBlocks){ .path = p->path, .paths = p->paths, .kind = p->kind,
                                    .line_most = p->record.bytes_most, .ratio_most = p->ratio_most,
                                    .texts = p->texts, .ahead = p->workers };
    job->total = inputs_size(p);
    if (!job->slot || !job->worker_state) return fail(NO_MEMORY, "no memory for %d workers", p->workers);
    for (int i = 0; i < job->slots; i++)
        if (!(job->slot[i].counts = clean_counts_new((int)job->run->counts->languages)))
            return fail(NO_MEMORY, "no memory to count");
    for (; job->workers < p->workers && status == OK; job->workers++)
        status = filter_workspace_open(&job->worker_state[job->workers].workspace, &job->run->filter);
    return status;
}

static void scan_job_close(ScanJob *job)
{
    input_blocks_close(&job->blocks_in);
    for (int i = 0; job->slot && i < job->slots; i++) {
        block_free(&job->slot[i].block);
        document_store_free_part(&job->slot[i].part);
        free(job->slot[i].counts);
    }
    for (int i = 0; i < job->workers; i++) {
        filter_workspace_close(&job->worker_state[i].workspace);
        document_store_free_packer(&job->worker_state[i].packer);
        buffer_free(&job->worker_state[i].record);
    }
    free(job->slot);
    free(job->worker_state);
}

static Status scan_job_run(ScanJob *job)
{
    OrderedPipeline *pipeline;
    OrderedPipelinePlan plan = { .what = "--workers", .workers = job->run->plan->workers,
                                 .slots = job->slots, .reader = true,
                                 .weight_most = (int64_t)job->slots * BLOCK_USUAL, .context = job,
                                 .fill = slot_fill, .work = slot_work };
    TRY(input_resume(job));
    job->eta = eta_begin("clean: reading", job->blocks_in.bytes_read, job->total);
    TRY(ordered_pipeline_open(&pipeline, &plan));
    Status status = slots_append(job, pipeline);
    ordered_pipeline_close(pipeline);
    log_progress_end();
    return status;
}

Status clean_scan(CleanRun *run)
{
    ScanJob job = { .run = run };
    if (run->progress.scanned) return OK;
    Status status = scan_job_open(&job);
    if (status == OK) status = scan_job_run(&job);
    scan_job_close(&job);
    return status;
}
