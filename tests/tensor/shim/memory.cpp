/* Device memory of the shim: pages that only kernels and copies may touch. Elsewhere they are protected, so that host
 * code that reads or writes a tensor of the GPU stops, as it would there. Behind each block are bytes that nobody may
 * change, which is looked at when the block is freed. Under a sanitizer memory is the heap, whose ends AddressSanitizer
 * watches. */
#include "tensor/cuda/gpu.h"
#include "streams.h"
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

enum { MOST = 1024, PAGE = 2 << 20, FILLED = 4 << 20, GUARD = 256, GUARD_BYTE = 0xa5 };
struct Block { char *at; size_t bytes, asked; bool pinned; int device; };
static Block blocks[MOST];
static int   count, reached = GPU_CPU_NOWHERE;

static const Block *block_of(const void *memory)
{
    for (int i = 0; i < count; i++)
        if ((const char *)memory >= blocks[i].at && (const char *)memory < blocks[i].at + blocks[i].bytes) return &blocks[i];
    return nullptr;
}

bool gpu_cpu_is_device(const void *memory) { const Block *b = block_of(memory); return b && !b->pinned; }
bool gpu_cpu_is_pinned(const void *memory) { const Block *b = block_of(memory); return b && b->pinned; }
int  gpu_cpu_holder(const void *memory)    { const Block *b = block_of(memory); return b ? b->device : GPU_CPU_NOWHERE; }

/* The faulting address tells whose memory it was; anything else crashes as ever. */
static void refused(int, siginfo_t *info, void *)
{
    char words[128];
    const bool kernel = gpu_cpu_within();
    if (gpu_cpu_is_device(info->si_addr)) {
        const int holder = gpu_cpu_holder(info->si_addr);
        int n = snprintf(words, sizeof words, "gpu shim: the host read or wrote memory of the GPU\n");
        if (kernel) n = snprintf(words, sizeof words, "gpu shim: a kernel of device %d touches memory of device %d\n", reached, holder);
        if (write(2, words, (size_t)n) < 0) _exit(4);
        _exit(3);
    }
    signal(SIGSEGV, SIG_DFL);
}

static void protect(const Block *b, bool open)
{
    if (protects && !b->pinned) mprotect(b->at, b->bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static void protect_all(int device, bool open)
{
    for (int i = 0; i < count; i++)
        if (blocks[i].device == device) protect(&blocks[i], open);
}

void gpu_cpu_reach(int device)
{
    if (device == reached) return;
    protect_all(reached, false);
    reached = device;
    protect_all(reached, true);
}

/* Huge pages, since opening and closing takes as long as there are pages. */
static void *pages_new(size_t bytes)
{
    char *more = (char *)mmap(nullptr, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (more == MAP_FAILED) return nullptr;
    const size_t before = (PAGE - (uintptr_t)more % PAGE) % PAGE;
    if (before) munmap(more, before);
    if (PAGE - before) munmap(more + before + bytes, PAGE - before);
    madvise(more + before, bytes, MADV_HUGEPAGE);
    return more + before;
}

/* Full of NaN, but for what is beyond some MiB, which would take long. */
static int block_new(void **memory, size_t bytes, bool pinned)
{
    gpu_cpu_counted.allocations++;
    const GpuCpuAlone alone;
    if (const int error = gpu_cpu_call(pinned ? GPU_CPU_HOST_MALLOC : GPU_CPU_MALLOC, gpu_cpu_device())) return error;
    const size_t all = (bytes + GUARD + PAGE - 1) / PAGE * PAGE;
    struct sigaction action = {};
    action.sa_sigaction = refused;
    action.sa_flags     = SA_SIGINFO;
    *memory = nullptr;
    if (count == MOST || bytes > SIZE_MAX / 2) return 1;
    if (!protects) *memory = malloc(bytes ? bytes : 1);
    else {
        *memory = pages_new(all);
        sigaction(SIGSEGV, &action, nullptr);
    }
    if (!*memory) return 1;
    memset(*memory, 0xff, bytes < FILLED ? bytes : (size_t)FILLED);
    if (protects) memset((char *)*memory + bytes, GUARD_BYTE, GUARD);
    blocks[count++] = Block{ (char *)*memory, protects ? all : bytes, bytes, pinned, gpu_cpu_device() };
    if (reached != gpu_cpu_device()) protect(&blocks[count - 1], false);
    return 0;
}

static int block_index(const void *memory, bool pinned)
{
    for (int i = 0; i < count; i++)
        if (blocks[i].at == memory && blocks[i].pinned == pinned) return i;
    return -1;
}

static void check_guard(const Block *b)
{
    protect(b, true);
    for (size_t i = 0; i < GUARD; i++) {
        if ((unsigned char)b->at[b->asked + i] == GUARD_BYTE) continue;
        fprintf(stderr, "gpu shim: something wrote %zu bytes behind a block of %zu bytes\n", i, b->asked);
        _exit(3);
    }
}

static void block_release(int i)
{
    if (protects) check_guard(&blocks[i]);
    if (protects) munmap(blocks[i].at, blocks[i].bytes);
    else free(blocks[i].at);
    blocks[i] = blocks[--count];
}

void gpu_cpu_release(void *memory)
{
    const int i = block_index(memory, false);
    if (i >= 0) block_release(i);
}

/* As on a GPU, freeing waits for what was put on the device's streams. */
static int block_free(void *memory, bool pinned)
{
    gpu_cpu_counted.allocations++;
    const GpuCpuAlone alone;
    const int i = block_index(memory, pinned);
    if (i < 0) return memory != nullptr;
    const int device = blocks[i].device;
    if (const int error = gpu_cpu_call(GPU_CPU_ANY, device)) return error;
    gpu_cpu_settle(device);
    block_release(block_index(memory, pinned));                    /* others may have been freed meanwhile */
    return gpu_cpu_error(device);
}

int gpuMalloc(void **memory, size_t bytes)     { return block_new(memory, bytes, false); }
int gpuFree(void *memory)                      { return block_free(memory, false); }
int gpuMallocHost(void **memory, size_t bytes) { return block_new(memory, bytes, true); }
int gpuFreeHost(void *memory)                  { return block_free(memory, true); }
