/* The child process and the ranks in it. */
#include "layouts/run.h"
#include "layouts/choices.h"
#include "layouts/compare.h"
#include "layouts/copies.h"
#include "layouts/order.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/leaks.h"
#include "base/log.h"
#include "comm/test_transports.h"
#include "train/measure.h"
#include "train/evaluation.h"
#include "train/step.h"
#include "train/trainer_checkpoint.h"

typedef struct { const LayoutRun *what; const TrainConfig *config; Result *result; char *traffic[RANKS_MOST];
                 Copies copies[RANKS_MOST]; ChoiceGap gap[RANKS_MOST]; } Run;

/* ---- what each rank does ---- */

enum { RANK_TRAFFIC = TRAFFIC_MOST / RANKS_MOST - 1 };

/* The communicators of the rank, the world last. */
static Comm *comm_at(const Trainer *t, int i) { return i < t->comms.count ? t->comms.all[i] : t->comms.world; }

static void traffic_reset(Trainer *t)
{
    for (int i = 0; i <= t->comms.count; i++) comm_sent_reset(comm_at(t, i));
}

static void traffic_read(const Trainer *t, char *text)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i <= t->comms.count; i++)
        for (SentVerb v = 0; v < SENT_VERBS; v++) {
            Sent sent = comm_sent(comm_at(t, i), v);
            if (sent.calls == 0 && sent.bytes == 0) continue;
            used += (size_t)snprintf(text + used, RANK_TRAFFIC - used, "%d %s %s %lld %lld\n", t->mesh.rank,
                                     comm_name(comm_at(t, i)), sent_verb_name(v), (long long)sent.calls, (long long)sent.bytes);
            CHECK(used < RANK_TRAFFIC, "too many communicators");
        }
}

/* Behind what was sent: the copies of tokens that went to each expert. */
static void loads_read(const OrderWatch *w, char *text)
{
    size_t used = strlen(text);
    for (int l = 0; l < ORDER_LAYERS; l++) {
        if (w->load[l][0] < 0) continue;
        used += (size_t)snprintf(text + used, RANK_TRAFFIC - used, "%d load %d", w->trainer->mesh.rank, l);
        for (int e = 0; e < w->trainer->config->model.experts; e++)
            used += (size_t)snprintf(text + used, RANK_TRAFFIC - used, " %lld", (long long)w->load[l][e]);
        used += (size_t)snprintf(text + used, RANK_TRAFFIC - used, "\n");
        CHECK(used < RANK_TRAFFIC, "too many layers");
    }
}

/* Every arena has the bytes that the dry run said, and uses all of them; but for a resumed run that sums no gradients any more. */
static Status memory_compare(const Trainer *t, const ArenaSizes *dry, bool resumed)
{
    bool fewer = resumed && optimizer_compresses(t->config->optimizer);
    for (int i = 0; i < ARENAS; i++)
        if ((fewer ? t->arena[i].peak > dry->bytes[i] : t->arena[i].peak != dry->bytes[i]) || t->arena[i].size != dry->bytes[i])
            return fail(BAD_SHAPE, "rank %d: arena %s has %zu bytes and uses %zu, its dry run said %zu", t->mesh.rank,
                        t->arena[i].name, t->arena[i].size, t->arena[i].peak, dry->bytes[i]);
    if (stage_executor_slot_bytes(&t->train.executor) == dry->slot) return OK;
    return fail(BAD_SHAPE, "rank %d: a slot has %zu bytes, its dry run said %zu", t->mesh.rank,
                stage_executor_slot_bytes(&t->train.executor), dry->slot);
}

static Status rank_steps(Trainer *t, Run *run)
{
    char path[1024];
    bool found, first = t->mesh.rank == 0;
    OrderWatch watch;
    trainer_init(t);
    if (run->what->load) TRY(checkpoint_find(run->what->load, path, &found));
    if (run->what->load) TRY(trainer_load(t, path));
    for (int s = 0; s < run->what->steps; s++) {
        traffic_reset(t);
        order_begin(&watch, t);
        choices_follow(run->what->choices, t);
        StepReport r = trainer_step(t);
        TRY(order_end(&watch));
        if (first) { run->result->loss[s] = r.loss; run->result->norm[s] = r.norm; }
        if (s + 1 == run->what->save_at) TRY(trainer_save(t, run->what->save, 0));
        if (r.skipped) return fail(BAD_SHAPE, "step %d was skipped: loss %g, norm %g", s + 1, r.loss, r.norm);
    }
    traffic_read(t, run->traffic[t->mesh.rank]);
    loads_read(&watch, run->traffic[t->mesh.rank]);
    if (run->what->killed && first) raise(SIGKILL);
    choices_follow(run->what->choices, t);
    double valid = trainer_evaluate_split(t, SPLIT_VALID);
    choices_follow(NULL, t);
    run->gap[t->mesh.rank] = choices_gap();
    if (first) run->result->valid = valid;
    TRY(copies_take(&run->copies[t->mesh.rank], t));
    if (run->what->save) return trainer_save(t, run->what->save, 0);
    return OK;
}

/* Calls of a communicator strictly one after the other, as on a stream of a device; or late ones. */
static const double LATE = 1e-4;

static Status on_rank(Transport *transport, void *context)
{
    Run *run = context;
    Trainer t;
    ArenaSizes sizes;
    int kind = run->what->transport;
    thread_context()->rank = transport->rank;
    TRY(trainer_measure(&sizes, run->config, transport->rank, transport->size));
    if (kind != 0) transport->data = test_transport_open(transport, kind == 1, kind == 2 ? LATE : 0);
    TRY(trainer_open(&t, run->config, transport, &sizes));
    int32_t ids[GENERATED] = { 0 };
    Status status = rank_steps(&t, run);
    if (status == OK) status = memory_compare(&t, &sizes, run->what->load);
    if (status == OK) status = layout_generate(&t, ids);
    if (status == OK && t.mesh.rank == 0) memcpy(run->result->ids, ids, sizeof ids);
    trainer_close(&t);
    if (kind != 0) transport->data->close(transport->data);
    return status;
}

/* ---- the child ---- */

static Status child_run(Result *result, const LayoutRun *what)
{
    Parsed p;
    char words[WORDS_MOST];
    Run run = { .what = what, .result = result };
    snprintf(words, sizeof words, "%.1800s --data-path %s", what->words, what->data);
    TRY(parsed_open(&p, words));
    run.config = &p.config;
    for (int r = 0; r < RANKS_MOST; r++) run.traffic[r] = calloc(1, RANK_TRAFFIC + 1);
    TRY(transport_threads_run((int)p.options.ranks, on_rank, &run));
    for (int r = 0; r < RANKS_MOST; r++) {
        strcat(result->traffic, run.traffic[r]);
        free(run.traffic[r]);
    }
    Status status = copies_compare(run.copies, (int)p.options.ranks, &result->copies);
    for (int r = 0; r < RANKS_MOST; r++) {
        result->rounded += run.copies[r].rounded;
        result->gap.replaced += run.gap[r].replaced;
        for (int i = 0; i < 2; i++)
            if (!(run.gap[r].largest[i] <= result->gap.largest[i])) result->gap.largest[i] = run.gap[r].largest[i];
        copies_free(&run.copies[r]);
    }
    parsed_close(&p);
    TRY(status);
    return what->beside ? checkpoints_compare(&result->weights, what->save, what->beside, what->states) : OK;
}

/* Nothing of these stays on the stack or in a register but perhaps the last. */
static void leak(void)
{
    for (int i = 0; i < 16; i++) {
        void *volatile lost = malloc(64);
        lost = NULL;
        (void)lost;
    }
    CHECK(freopen("/dev/null", "w", stderr), "no /dev/null");
}

static void child_main(Result *result, const LayoutRun *what)
{
    log_mute(true);
    alarm((unsigned)what->seconds);
    if (what->leaks) leak();
    Status status = child_run(result, what);
    if (status != OK) snprintf(result->failure, FAILURE_MOST, "%s", fail_text());
    else if (leaks_found()) snprintf(result->failure, FAILURE_MOST, LEAKS_TOLD);
    fflush(NULL);
    _exit(result->failure[0] ? 1 : 0);
}

void run_layout(Result *result, const LayoutRun *what)
{
    int status = 0;
    memset(result, 0, sizeof *result);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) child_main(result, what);
    CHECK(waitpid(child, &status, 0) == child, "the child is lost");
    if (result->failure[0] || status == 0) return;
    if (what->killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(result->failure, FAILURE_MOST, "it does not end within %d s", what->seconds);
    else if (WIFSIGNALED(status))
        snprintf(result->failure, FAILURE_MOST, "signal %d ended it", WTERMSIG(status));
    else
        snprintf(result->failure, FAILURE_MOST, "it stopped with exit code %d", WEXITSTATUS(status));
}

Result *result_new(void)
{
    Result *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(r != MAP_FAILED, "no memory");
    return r;
}

void result_free(Result *result) { munmap(result, sizeof *result); }
