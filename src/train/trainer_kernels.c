/* Which family of kernels a run has. Its results depend on it in their last bits, so all ranks have the same,
 * and a run that resumes has the one that it began with. */
#include <string.h>
#include "base/log.h"
#include "base/seam.h"
#include "train/trainer.h"

/* From this bit on: PREFERRED, the families that `auto` may choose; WANTED, what the run is to have, which
 * ranks must agree on. They may have read it from different files, where directories of the same name are
 * not the same. */
enum { PREFERRED = 16, WANTED = 32 };

static uint32_t families_run(int rank)
{
    uint32_t families = 0;
    for (KernelFamily f = KERNELS_AUTO + 1; f < KERNEL_FAMILIES; f++)
        if (kernel_family_runs(f) && seam.runs(rank, kernel_family_name(f))) families |= 1u << f;
    return families;
}

/* The families' own instructions for bf16 and fp16 do not treat the smallest numbers alike. */
static const char *consequence(const Precision *p, KernelFamily now, KernelFamily before)
{
    bool narrow = p->param != F32 || p->message != F32 || p->state[0] != F32 || p->state[1] != F32;
    if (before == KERNELS_AUTO || !kernel_family_alike(now, before) ||
        (p->param == BF16 && kernel_family_has_pairs(now) != kernel_family_has_pairs(before)))
        return "the results differ in their last bits";
    return narrow ? "the results may differ in their last bits"
                  : "in fp32 the results are the same to the bit";
}

/* Never silent, since it changes what the run computes. */
static void log_change(const Trainer *t, KernelFamily now, KernelFamily before)
{
    const TrainConfig *config = t->config;
    const char *name = config->kernels_before;
    if (!name || strcmp(name, kernel_family_name(now)) == 0) return;
    const char *why = config->kernels ? "was given" :
                      before ? "is used, since not every rank's machine runs that" :
                               "is used, since this version does not have that";
    log_line("the checkpoint was computed by --kernels %s; --kernels %s %s: %s", name,
             kernel_family_name(now), why, consequence(&t->precision, now, before));
}

Status trainer_choose_kernels(Trainer *t)
{
    const TrainConfig *config = t->config;
    if (t->queue.backend != &cpu_backend) return OK;
    const char  *name = config->kernels_before;
    KernelFamily before = name ? kernel_family_named(name) : KERNELS_AUTO;
    KernelFamily wanted = config->kernels ? config->kernels : before, chosen = kernel_family_best();
    uint64_t mine = families_run(t->mesh.rank), preferred = mine >> chosen << chosen;
    uint64_t all  = agree_bits(t->comms.world, mine | preferred << PREFERRED |
                               UINT64_C(1) << (WANTED + wanted));                       /* <-> world */
    if (all >> WANTED == 0)                              /* collective like the first one, and it fails */
        return agree_on(t->comms.world, wanted,
                        "the family of kernels in the checkpoint of --load, by its number");
    if (config->kernels && !(all >> wanted & 1)) {
        char list[96];
        kernel_family_list(list, (uint16_t)all);
        return agree(t->comms.world, mine >> wanted & 1 ? OK :
                     fail(BAD_OPTION, "--kernels %s: this machine does not have these instructions; every "
                          "rank runs %s", kernel_family_name(wanted), list));
    }
    while (!(all >> (PREFERRED + chosen) & 1)) chosen++;
    if (all >> wanted & 1) chosen = wanted;
    t->queue.kernels = chosen;
    if (t->mesh.rank == 0) log_change(t, chosen, before);
    return OK;
}
