/* Which families of kernels there are, and which of them this machine runs. */
#include "tensor/kernel_family.h"

#include <stdio.h>
#include <string.h>
#include "base/message.h"

static const char *const names[KERNEL_FAMILIES] = {
    [KERNELS_AUTO] = "auto", [KERNELS_AVX512_BF16] = "avx512-bf16", [KERNELS_AVX512] = "avx512",
    [KERNELS_AVX2] = "avx2", [KERNELS_NEON]        = "neon",        [KERNELS_PORTABLE] = "portable",
    [KERNELS_EMULATED] = "emulated",
};

const char *kernel_family_name(KernelFamily family) { return names[family]; }

KernelFamily kernel_family_named(const char *name)
{
    for (KernelFamily f = KERNELS_AVX512_BF16; f < KERNEL_FAMILIES; f++)
        if (strcmp(names[f], name) == 0) return f;
    return KERNELS_AUTO;
}

bool kernel_family_runs(KernelFamily family)
{
    switch (family) {
#ifdef __x86_64__
    case KERNELS_AVX512_BF16:
        return kernel_family_runs(KERNELS_AVX512) && __builtin_cpu_supports("avx512bf16");
    case KERNELS_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    case KERNELS_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__aarch64__)
    case KERNELS_NEON: return true;
#endif
    case KERNELS_PORTABLE: return true;
    default: return false;
    }
}

bool kernel_family_callable(KernelFamily family)
{
    if (family == KERNELS_EMULATED) return true;
#ifdef __x86_64__
    if (family == KERNELS_NEON) return true;
#endif
    return kernel_family_runs(family);
}

bool kernel_family_has_pairs(KernelFamily family)
{
    return family == KERNELS_AVX512_BF16 || family == KERNELS_EMULATED;
}

/* Measured by `jotun bench peak --kernels`: AMD's Zen 5 begins two vdpbf16ps in a cycle, as many as vfmadd;
 * Intel's Emerald Rapids one in two cycles, but two vfmadd in each, so that its products of bf16 by avx512
 * take half the time. It is a rule, and nothing that each run measures, since the bits of results depend on
 * it. */
static bool pairs_are_slow(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

KernelFamily kernel_family_best(void)
{
    KernelFamily f = pairs_are_slow() ? KERNELS_AVX512 : KERNELS_AVX512_BF16;
    while (!kernel_family_runs(f)) f++;
    return f;
}

bool kernel_family_alike(KernelFamily one, KernelFamily other)
{
    return one == other || (one != KERNELS_PORTABLE && other != KERNELS_PORTABLE);
}

const char *kernel_family_list(char out[96], uint32_t families)
{
    out[0] = 0;
    for (KernelFamily f = KERNELS_AVX512_BF16; f < KERNEL_FAMILIES; f++)
        if (families >> f & 1) message_item(out, 96, ", ", "%s", names[f]);
    return out;
}
