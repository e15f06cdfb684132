/* The threads of all ranks on this host are measured together, since they share its clock and its memory. */
#include "train/trainer_comms.h"
#include "train/rank_peak.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "tensor/cpu/burst.h"
#include "tensor/gpu_model.h"

/* Ranks of this run on this host. */
static int ranks_here(const Trainer *t)
{
    return t->transport->kind == TRANSPORT_THREADS ? t->mesh.world : transport_launcher_local();
}

/* More threads than cores have the peak of the cores. A launcher may bind each process to some of them. */
static int threads_here(const Trainer *t)
{
    int threads = ranks_here(t) * t->config->threads, cores = team_cores();
    bool bound = t->transport->kind != TRANSPORT_THREADS && ranks_here(t) > 1;
    if (bound && cores < threads) cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return threads < cores ? threads : cores;
}

/* What cannot be measured stays 0. */
static Peak measure(KernelFamily family, int threads, bool copy)
{
    Peak  peak = { 0 };
    Team *team;
    if (team_open(&team, threads) != OK) return peak;
    peak.fp32 = burst_peak(team, burst_of(family, F32), 1e-3 * RANK_PEAK_MS);
    if (burst_has_pairs(family)) peak.bf16 = burst_peak(team, burst_of(family, BF16), 1e-3 * RANK_PEAK_MS);
    if (copy && burst_copy(&peak.copy, team, 1e-3 * RANK_PEAK_MS) != OK) peak.copy = 0;
    team_close(team);
    return peak;
}

/* Of the GPU that this rank computes on. */
static RankPeak device_peak(const Trainer *t)
{
    DeviceFacts facts;
    RankPeak r = { .type = t->precision.param, .ranks = 1, .threads = t->config->threads };
    if (comm_dry(t->comms.world) || queue_device_facts(&facts,
                                                       trainer_device_number(t->transport)) != OK) return r;
    const GpuModel *model = gpu_model_reported(facts.name);
    snprintf(r.gpu, sizeof r.gpu, "%s", facts.name);
    if (model) r.flops = gpu_model_peak(model, r.type);
    if (r.flops > 0) r.from = PEAK_SHEET;
    return r;
}

static RankPeak host_peak(const Trainer *t, bool copy)
{
    RankPeak r = { .type = F64, .threads = threads_here(t), .ranks = ranks_here(t) };
    if (t->queue.backend != &cpu_backend) return r;                 /* ref computes in double */
    bool kept = peak_file_find(&r.host, t->queue.kernels, r.threads);
    if (!kept && (copy || t->config->peak == 0)) r.host = measure(t->queue.kernels, r.threads, copy);
    /* Where there is no instruction for pairs of bf16, and for fp16, numbers are widened to fp32. */
    bool pairs = t->precision.param == BF16 && r.host.bf16 > 0;
    r.type  = pairs ? BF16 : F32;
    r.flops = pairs ? r.host.bf16 : r.host.fp32;
    r.from  = r.flops == 0 ? PEAK_UNKNOWN : kept ? PEAK_KEPT : PEAK_MEASURED;
    return r;
}

RankPeak rank_peak(const Trainer *t, bool copy)
{
    RankPeak r = t->queue.backend->device ? device_peak(t) : host_peak(t, copy);
    if (t->config->peak == 0) return r;
    r.flops = t->config->peak * r.ranks;
    r.from  = PEAK_GIVEN;
    return r;
}

const char *rank_peak_source(char out[320], const RankPeak *r)
{
    switch (r->from) {
    case PEAK_UNKNOWN:  snprintf(out, 320, "not known"); break;
    case PEAK_GIVEN:    snprintf(out, 320, "by --peak-tflops"); break;
    case PEAK_KEPT:     snprintf(out, 320, "by jotun bench peak"); break;
    case PEAK_MEASURED: snprintf(out, 320, "measured now"); break;
    case PEAK_SHEET:    snprintf(out, 320, "by the data sheet of %s", r->gpu); break;
    }
    return out;
}

const char *peak_type_name(Dtype type) { return type == BF16 ? "bf16" : type == F16 ? "fp16" : "fp32"; }

static void log_peak(const Trainer *t, const RankPeak *r, int gpus)
{
    char how[320];
    const char *type = peak_type_name(r->type);
    rank_peak_source(how, r);
    if (r->from == PEAK_MEASURED)
        snprintf(how, sizeof how, "measured in %d ms; jotun bench peak measures longer and keeps the result",
                 RANK_PEAK_MS);
    if (r->flops == 0 && *r->gpu)
        log_line("MFU is not known, since %s in %s is not in the table of peaks; --peak-tflops gives one",
                 r->gpu, type);
    else if (r->flops > 0 && t->queue.backend->device)
        log_line("MFU is a share of %d x %g TFLOP/s in %s, the peak of a GPU %s", gpus, 1e-12 * r->flops,
                 type, how);
    else if (r->flops > 0 && r->from == PEAK_GIVEN)
        log_line("MFU is a share of %g TFLOP/s of each rank, %s", 1e-12 * r->flops / r->ranks, how);
    else if (r->flops > 0)
        log_line("MFU is a share of %.1f GFLOP/s, the %s peak of %d thread%s on this machine, %s",
                 1e-9 * r->flops, type, r->threads, r->threads == 1 ? "" : "s", how);
}

double run_peak(const Trainer *t)
{
    bool device = t->queue.backend->device;
    int gpus = device ? devices_of_ranks(t->comms.world, trainer_device_number(t->transport)) : 0;
    if (t->mesh.rank != 0) return 0;
    RankPeak r = rank_peak(t, false);
    log_peak(t, &r, gpus);
    return r.flops / r.ranks * (device ? gpus : t->mesh.world);
}
