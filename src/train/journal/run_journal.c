#include "train/step.h"
#include "train/trainer_moe.h"
#include "train/journal/run_journal.h"
#include <math.h>
#include <unistd.h>
#include "base/seam.h"
#include "train/journal/data_shares.h"
#include "train/journal/process_memory.h"

enum { LINES_DENSE = 4096, SKIPS_MOST = 2000, TEXT_MOST = 65536, NAME_MOST = 4096 };

/* ---- the start ---- */

static json_t *layout_facts(const Trainer *t)
{
    const TrainConfig *config = t->config;
    MeshSize m = t->mesh.size;
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "tp", m.tp, "cp", m.cp, "dp", m.dp,
                     "pp", m.pp, "ep", m.ep, "etp", m.etp, "edp", m.edp, "zero", config->zero, "shard_group",
                     config->hybrid_shard, "sequence_parallel", config->sequence_parallel);
}

/* What a drawing of the schedule is made from. */
static json_t *schedule_facts(const Trainer *t)
{
    const TrainConfig *config = t->config;
    int64_t samples = batch_schedule_at(trainer_batches(t), t->run.samples);
    ScheduleShape s = train_config_schedule(config, (int)(samples / (config->micro * t->mesh.size.dp)));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:b}", "name", schedule_name(s.kind), "stages", s.stages,
                     "chunks", s.chunks, "micro_batches", s.micros, "group", s.group, "extra", s.extra,
                     "v_shaped", s.v_shaped);
}

/* What the dry run planned for this rank. The arenas are that large; of the first one also what is in it. */
static json_t *memory_planned(const Trainer *t)
{
    json_t *list = json_array();
    for (int i = 0; i < ARENAS; i++) {
        const Arena *a = &t->arena[i];
        if (a->size == 0) continue;
        json_t *parts = json_array();
        for (int k = 0; i == ARENA_PERSISTENT && k < a->tags; k++)
            if (a->tag[k].peak > 0)
                json_array_append_new(parts, json_pack("{s:s, s:I}", "name", a->tag[k].name, "bytes",
                                                       (json_int_t)a->tag[k].peak));
        json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "name", a->name, "bytes",
                                              (json_int_t)a->size, "parts", parts));
    }
    return list;
}

static json_t *data_facts(const Trainer *t)
{
    json_t *list = json_array();
    for (int i = 0; i < data_shares(t); i++) {
        DataShare d = data_share(t, i);
        json_array_append_new(list,
                              json_pack("{s:o, s:f, s:f, s:f, s:o}", "name", journal_text(d.name, NAME_MOST),
                                        "share", d.share, "samples", d.samples, "tokens", d.tokens, "epochs",
                                        journal_number(d.epochs)));
    }
    return list;
}

static json_t *options_facts(const char *text)
{
    json_t *options = text ? json_loads(text, 0, NULL) : NULL;
    return options ? options : json_object();
}

/* Of rank 0, and of the run as a whole. There is nothing secret in it: no environment, and no option of a run
 * is a key or a password. */
static json_t *start_facts(const Trainer *t, double peak, const char *resumed)
{
    const TrainConfig *config = t->config;
    const ModelConfig *model = &config->model;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    json_t *facts = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o}", "version", journal_text(config->logs.version, NAME_MOST), "host",
        journal_text(host, NAME_MOST), "command", journal_text(config->logs.command, TEXT_MOST),
        "resumed_from", journal_text(resumed, NAME_MOST), "save", journal_text(config->save, NAME_MOST),
        "given", journal_text(config->given, TEXT_MOST));
    json_t *work = json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I}", "step", (json_int_t)t->run.step,
                             "steps",
        (json_int_t)t->run.steps, "samples", (json_int_t)t->run.samples, "samples_at_end",
        (json_int_t)trainer_samples_at_end(t), "flops_per_token_full", model_flops(model, false),
        "flops_per_token_causal", model_flops(model, true), "peak_flops", peak, "sequence",
        (json_int_t)model->sequence);
    json_t *machine =
        json_pack("{s:i, s:I, s:I, s:s, s:s, s:s, s:o, s:i, s:f}", "ranks", t->mesh.world, "parameters",
                  (json_int_t)model_parameters(model), "active_parameters",
                  (json_int_t)model_active_parameters(model), "device", config->device, "type",
                  train_config_type(config), "optimizer", config->optimizer ? config->optimizer->name : "",
                  "kernels", journal_text(kernel_family_name(t->queue.kernels), NAME_MOST), "threads",
                  config->threads, "loading_seconds", seam_seconds_since(t->run.started));
    json_object_update(facts, work);
    json_object_update(facts, machine);
    json_decref(work);
    json_decref(machine);
    json_object_set_new(facts, "layout", layout_facts(t));
    json_object_set_new(facts, "schedule", schedule_facts(t));
    json_object_set_new(facts, "memory", memory_planned(t));
    json_object_set_new(facts, "data", data_facts(t));
    json_object_set_new(facts, "options", options_facts(config->options));
    return facts;
}

void run_journal_open(RunJournal *j, const Trainer *t, double peak, const char *resumed)
{
    *j = (RunJournal){ .from = t->run.started };
    if (!t->config->save) return;
    journal_open(&j->file, t->config->save);
    if (j->file.file.open) journal_add(&j->file, "start", start_facts(t, peak, resumed));
}

/* ---- steps ---- */

static bool closed(const RunJournal *j) { return !j->file.file.open; }

/* Doubled as often as it takes for the steps so far to be LINES_DENSE lines. */
static int64_t interval_at(int64_t step, int64_t interval)
{
    while (step / interval > LINES_DENSE) interval *= 2;
    return interval;
}

/* Means over the steps since the last line, by the keys of the metrics (logs/facts.def). */
static void steps_write(RunJournal *j, const Trainer *t, double lr, double scale)
{
    const ModelConfig *model = &t->config->model;
    double steps = (double)j->steps, averaged = (double)j->averaged;
    json_t *facts = json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o, s:I}", "step",
                              (json_int_t)t->run.step, "mean_of_steps", (json_int_t)j->steps, "samples",
                              (json_int_t)t->run.samples, "tokens",
                                  (json_int_t)trainer_tokens(t, t->run.samples),
                              "loss", journal_number(j->averaged ? j->losses / averaged : NAN), "loss_low",
                              journal_number(j->averaged ? j->low : NAN), "loss_high",
                              journal_number(j->averaged ? j->high : NAN), "lr", journal_number(lr),
                              "grad_norm", journal_number(j->averaged ? j->norms / averaged : NAN), "seconds",
                              j->seconds / steps, "data_seconds", j->waited / steps, "tokens_per_second",
                              journal_number((double)(j->samples * model->sequence) / j->seconds),
                              "memory_bytes", (json_int_t)process_memory());
    if (j->averaged > 1) {
        json_object_set_new(facts, "loss_low_step",  json_integer((json_int_t)j->low_step));
        json_object_set_new(facts, "loss_high_step", json_integer((json_int_t)j->high_step));
    }
    if (scale > 0) json_object_set_new(facts, "loss_scale", journal_number(scale));
    if (model->experts > 0 && j->averaged) {
        json_object_set_new(facts, "expert_load_max_over_mean", journal_number(j->moe.load / averaged));
        json_object_set_new(facts, "dropped_share",       journal_number(j->moe.dropped / averaged));
        json_object_set_new(facts, "load_balancing_loss", journal_number(j->moe.balance / averaged));
        json_object_set_new(facts, "z_loss",              journal_number(j->moe.z / averaged));
    }
    if (j->averaged < j->steps)
        json_object_set_new(facts, "skipped_steps", json_integer((json_int_t)(j->steps - j->averaged)));
    journal_add(&j->file, "steps", facts);
    j->losses = j->norms = j->seconds = j->waited = 0;
    j->moe = (MoeReport){ 0 };
    j->steps = j->averaged = j->samples = 0;
}

/* What a resume would otherwise not know: the steps since the last line. */
static void steps_flush(RunJournal *j, const Trainer *t)
{
    if (!closed(j) && j->steps > 0) steps_write(j, t, NAN, 0);
}

static void skip_write(RunJournal *j, const Trainer *t, StepReport r)
{
    if (!r.skipped || j->skips++ >= SKIPS_MOST) return;
    journal_add(&j->file, "skip", json_pack("{s:I, s:s, s:o, s:o}", "step", (json_int_t)t->run.step, "why",
        r.spike ? "spike" : r.overflow ? "overflow" : "not finite", "loss", journal_number(r.loss),
        "grad_norm", journal_number(r.norm)));
}

void run_journal_step(RunJournal *j, const Trainer *t, StepReport r, double seconds)
{
    if (closed(j)) return;
    skip_write(j, t, r);
    if (!r.skipped) {
        if (!j->averaged || r.loss < j->low)  j->low  = r.loss, j->low_step  = t->run.step;
        if (!j->averaged || r.loss > j->high) j->high = r.loss, j->high_step = t->run.step;
        j->losses += r.loss;
        j->norms  += r.norm;
        j->moe = (MoeReport){ j->moe.load + r.moe.load, j->moe.dropped + r.moe.dropped,
                              j->moe.balance + r.moe.balance, j->moe.z + r.moe.z };
        j->averaged++;
    }
    j->steps++;
    j->samples += r.samples;
    j->seconds += seconds;
    j->waited  += r.waited;
    bool due = t->run.step % interval_at(t->run.step, t->config->log_interval) == 0 ||
        t->run.step == t->run.steps;
    if (due) steps_write(j, t, r.lr, r.loss_scale);
}

/* ---- between steps ---- */

void run_journal_evaluation(RunJournal *j, const Trainer *t, const char *split, double loss, double bits,
                            double seconds)
{
    if (closed(j)) return;
    json_t *facts = json_pack("{s:I, s:o, s:o, s:o, s:I, s:f}", "step", (json_int_t)t->run.step, "split",
        journal_text(split, NAME_MOST), "loss", journal_number(loss), "perplexity", journal_number(exp(loss)),
        "tokens", (json_int_t)trainer_tokens(t, t->run.samples), "seconds", seconds);
    if (bits > 0) json_object_set_new(facts, "bits_per_byte", journal_number(bits));
    journal_add(&j->file, "evaluation", facts);
}

void run_journal_sample(RunJournal *j, const LogSample *s)
{
    if (closed(j)) return;
    journal_add(&j->file, "sample", json_pack("{s:I, s:I, s:o, s:o}", "step", (json_int_t)s->step, "sample",
        (json_int_t)s->number, "prompt", journal_text(s->prompt, TEXT_MOST), "text",
        journal_text(s->text, TEXT_MOST)));
}

void run_journal_pause(RunJournal *j, const Trainer *t, const char *what, double seconds)
{
    if (closed(j)) return;
    journal_add(&j->file, what, json_pack("{s:I, s:f}", "step", (json_int_t)t->run.step, "seconds", seconds));
}

void run_journal_rewind(RunJournal *j, const Trainer *t, int64_t from, double seconds)
{
    if (closed(j)) return;
    j->losses = j->norms = j->seconds = j->waited = 0;
    j->moe = (MoeReport){ 0 };
    j->steps = j->averaged = j->samples = 0;
    journal_add(&j->file, "rewind", json_pack("{s:I, s:I, s:f}", "step", (json_int_t)t->run.step, "from",
                                              (json_int_t)from, "seconds", seconds));
}

/* ---- the end ---- */

static const char *ending(Status status)
{
    return status == OK ? "end" : status == INTERRUPTED ? "signal" : "failure";
}

void run_journal_close(RunJournal *j, const Trainer *t, Status status)
{
    if (closed(j)) return;
    steps_flush(j, t);
    json_t *memory = json_array();
    for (int i = 0; i < ARENAS; i++)
        if (t->arena[i].peak > 0)
            json_array_append_new(memory, json_pack("{s:s, s:I}", "name", t->arena[i].name, "bytes",
                                                    (json_int_t)t->arena[i].peak));
    journal_add(&j->file, "stop",
                json_pack("{s:I, s:s, s:o, s:o, s:f, s:f, s:b}", "step", (json_int_t)t->run.step, "how",
                          ending(status), "message",
                          status == OK ? json_null() : journal_text(fail_text(), NAME_MOST), "memory", memory,
                          "resident_bytes", process_memory_most(), "seconds",
                          seam_seconds_since(j->from), "done", t->run.step >= t->run.steps));
    journal_close(&j->file);
}
