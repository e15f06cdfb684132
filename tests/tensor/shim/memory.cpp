/* Device memory of the shim: pages that only kernels and copies may touch. Elsewhere they are protected, so that host
 * code that reads or writes a tensor of the GPU stops, as it would there. Under a sanitizer it is the heap, whose
 * ends AddressSanitizer watches. */
#include "tensor/cuda/gpu.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool protects = false;
#else
static const bool protects = true;
#endif

enum { MOST = 1024, PAGE = 4096, FILLED = 4 << 20 };
struct Pages { char *at; size_t bytes; };
static Pages pages[MOST];
static int   count, reached;

/* The faulting address tells whose memory it was; anything else crashes as ever. */
static void refused(int, siginfo_t *info, void *)
{
    static const char words[] = "gpu shim: the host read or wrote memory of the GPU\n";
    for (int i = 0; i < count; i++)
        if ((char *)info->si_addr >= pages[i].at && (char *)info->si_addr < pages[i].at + pages[i].bytes) {
            if (write(2, words, sizeof words - 1) < 0) _exit(4);
            _exit(3);
        }
    signal(SIGSEGV, SIG_DFL);
}

extern "C" void gpu_cpu_reach(bool within)
{
    reached += within ? 1 : -1;
    if (!protects || reached != (within ? 1 : 0)) return;
    for (int i = 0; i < count; i++) mprotect(pages[i].at, pages[i].bytes, within ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static void *pages_new(size_t bytes)
{
    const size_t all = (bytes + PAGE) / PAGE * PAGE;               /* at least one */
    struct sigaction action = {};
    action.sa_sigaction = refused;
    action.sa_flags     = SA_SIGINFO;
    if (count == MOST || bytes > SIZE_MAX / 2) return nullptr;
    void *at = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    sigaction(SIGSEGV, &action, nullptr);
    pages[count++] = Pages{ (char *)at, all };
    return at;
}

/* Full of NaN, but for what is beyond some MiB, which would take long. */
int gpuMalloc(void **memory, size_t bytes)
{
    *memory = protects ? pages_new(bytes) : malloc(bytes ? bytes : 1);
    if (!*memory) return 1;
    memset(*memory, 0xff, bytes < FILLED ? bytes : (size_t)FILLED);
    if (protects && !reached) mprotect(*memory, pages[count - 1].bytes, PROT_NONE);
    return 0;
}

int gpuFree(void *memory)
{
    for (int i = 0; protects && i < count; i++) {
        if (pages[i].at != memory) continue;
        munmap(memory, pages[i].bytes);
        pages[i] = pages[--count];
        return 0;
    }
    if (!protects) free(memory);
    return protects && memory ? 1 : 0;
}

int gpuMemcpyAsync(void *to, const void *from, size_t bytes, int, gpuStream_t)
{
    gpu_cpu_reach(true);
    if (bytes) memcpy(to, from, bytes);
    gpu_cpu_reach(false);
    return 0;
}

int gpuMemsetAsync(void *memory, int byte, size_t bytes, gpuStream_t)
{
    gpu_cpu_reach(true);
    memset(memory, byte, bytes);
    gpu_cpu_reach(false);
    return 0;
}
