/* The threads of all ranks on this host are measured together, since they share its clock and its memory. */
#include "train/rank_peak.h"

#include <string.h>
#include <unistd.h>
#include "tensor/cpu/burst.h"

/* Ranks of this run on this host. */
static int ranks_here(const Trainer *t)
{
    return strcmp(t->transport->name, "threads") == 0 ? t->mesh.world : transport_launcher_local();
}

/* More threads than cores have the peak of the cores. A launcher may bind each process to some of them. */
static int threads_here(const Trainer *t)
{
    int threads = ranks_here(t) * t->config->threads, cores = team_cores();
    bool bound = strcmp(t->transport->name, "threads") != 0 && ranks_here(t) > 1;
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

RankPeak rank_peak(const Trainer *t, bool copy)
{
    RankPeak r = { .threads = threads_here(t), .ranks = ranks_here(t) };
    if (t->queue.backend != &cpu_backend) return r;                 /* ref computes in double */
    r.kept = peak_file_find(&r.host, t->queue.kernels, r.threads);
    if (!r.kept) r.host = measure(t->queue.kernels, r.threads, copy);
    /* Where there is no instruction for pairs of bf16, and for fp16, numbers are widened to fp32. */
    bool pairs = t->precision.param == BF16 && r.host.bf16 > 0;
    r.type  = pairs ? BF16 : F32;
    r.flops = pairs ? r.host.bf16 : r.host.fp32;
    return r;
}
