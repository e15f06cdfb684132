/* jotun bench peak: how fast this machine multiplies and copies, on one thread and on all, printed and kept
 * for the runs that compare themselves with it. */
#include <stdio.h>
#include <string.h>
#include "cli/command.h"
#include "tensor/cpu/burst.h"
#include "train/peak_file.h"

static const double SECONDS_EACH = 0.7;

static Status measure(Peak *peak, KernelFamily family, int threads)
{
    Team *team;
    TRY(team_open(&team, threads));
    peak->fp32 = burst_peak(team, burst_of(family, F32), SECONDS_EACH);
    peak->bf16 = burst_has_pairs(family) ? burst_peak(team, burst_of(family, BF16), SECONDS_EACH) : 0;
    Status status = burst_copy(&peak->copy, team, SECONDS_EACH);
    team_close(team);
    return status;
}

static void show(const Peak peak[2], KernelFamily family, int threads)
{
    char name[128];
    int  columns = threads > 1 ? 2 : 1;
    printf("%s, %s kernels\n", peak_file_processor(name), kernel_family_name(family));
    printf("%-36s %10d", "threads", 1);
    if (threads > 1) printf(" %10d", threads);
    printf("\nfp32, GFLOP/s: %-21s", burst_of(family, F32).name);
    for (int i = 0; i < columns; i++) printf(" %10.1f", peak[i].fp32 / 1e9);
    if (peak[0].bf16 > 0) printf("\nbf16, GFLOP/s: %-21s", burst_of(family, BF16).name);
    for (int i = 0; i < columns && peak[0].bf16 > 0; i++) printf(" %10.1f", peak[i].bf16 / 1e9);
    printf("\n%-36s", "memory copied, GB/s read and written");
    for (int i = 0; i < columns; i++) printf(" %10.1f", peak[i].copy / 1e9);
    printf("\n");
}

Status cmd_bench_peak(Options *o)
{
    char path[1024], list[96];
    Peak peak[2];
    KernelFamily asked = kernel_family_named(o->bench_kernels);
    KernelFamily family = strcmp(o->bench_kernels, "auto") ? asked : kernel_family_best();
    int threads = o->threads ? (int)o->threads : team_cores();
    uint32_t runs = 0;
    for (KernelFamily f = KERNELS_AUTO + 1; f < KERNEL_FAMILIES; f++)
        if (kernel_family_runs(f)) runs |= 1u << f;
    if (family == KERNELS_AUTO || family == KERNELS_EMULATED)
        return fail(BAD_OPTION, "--kernels %s is not known; give auto or one of %s", o->bench_kernels,
                    kernel_family_list(list, runs));
    if (!(runs >> family & 1))
        return fail(BAD_OPTION, "--kernels %s: this machine does not have these instructions; it has those "
                    "of %s", o->bench_kernels, kernel_family_list(list, runs));
    if (threads > team_cores())
        return fail(BAD_OPTION, "--threads %d are more than the %d cores that this process may use; give %d "
                    "or fewer", threads, team_cores(), team_cores());
    TRY(measure(&peak[0], family, 1));
    if (threads > 1) TRY(measure(&peak[1], family, threads));
    show(peak, family, threads);
    TRY(peak_file_keep(&peak[0], family, 1));
    if (threads > 1) TRY(peak_file_keep(&peak[1], family, threads));
    TRY(peak_file_path(path));
    printf("kept in %s\n", path);
    return OK;
}
