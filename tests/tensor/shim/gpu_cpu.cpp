#include "tensor/cuda/gpu.h"
#include "fiber.h"
#include "order.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <vector>

enum { MAX_THREADS = 1024, MAX_SHARED = 32 };
enum State { READY, AT_BARRIER, AT_SHUFFLE, RETURNED };
static const char *const WORDS[] = { "runs", "waits at the barrier", "waits in the shuffle", "has returned" };

/* A copy to shared memory that is not made yet. */
struct Copy { void *to; const void *from; size_t bytes; bool there; int group; };

struct Thread {
    Fiber       fiber;
    State       state;
    const char *file;                  /* where it waits */
    int         line;
    uint64_t    bits, result;          /* of a shuffle: what it gives and what it gets */
    unsigned    source;                /* the lane it gets it from */
    GpuCpuTogether *all;               /* instead of a shuffle, with `argument` */
    void       *argument;
    std::vector<Copy> copies;
    int         group;                 /* of the next copy */
};
struct Shared { const void *key; void *memory; };

GpuCpuPlace gpu_cpu_place;
static Thread   threads[MAX_THREADS];
static int      stacks, live, current;     /* fibers with a stack; threads of the block; the one that runs */
static Shared   shared[MAX_SHARED];
static int      shared_count;
static unsigned order_seed, patience = 60;
static uint64_t draw_state;
static size_t   dynamic_bytes;
static void   (*kernel_body)(void *);
static void    *kernel_context;

extern "C" void gpu_cpu_order(unsigned seed)       { order_seed = seed; }
extern "C" void gpu_cpu_patience(unsigned seconds) { patience = seconds; }

/* Exit code 3, as stop_world's: a signal would look like any crash to CTest. */
__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fflush(stdout);
    fprintf(stderr, "gpu shim: block %u,%u: ", gpu_cpu_place.block.x, gpu_cpu_place.block.y);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    _exit(3);
}

/* "thread 3 waits at the barrier norm.cu:20, but thread 4 has returned" */
__attribute__((noreturn)) static void die_of_two(const char *fault, int i, int j)
{
    char words[2][512];
    int  which[2] = { i, j };
    for (int k = 0; k < 2; k++) {
        const Thread *t = &threads[which[k]];
        int used = snprintf(words[k], sizeof words[k], "thread %d %s", which[k], WORDS[t->state]);
        if (t->state == AT_BARRIER || t->state == AT_SHUFFLE)
            snprintf(words[k] + used, sizeof words[k] - (size_t)used, " %s:%d", t->file, t->line);
    }
    die("%s: %s, but %s", fault, words[0], words[1]);
}

static void too_long(int)
{
    die("deadlock: thread %d still runs after %u s: a spin on another thread never ends", current, patience);
}

/* ---- what a thread calls ---- */
static void wait_at(State state, const char *file, int line)
{
    Thread *t = &threads[current];
    t->state = state;
    t->file  = file;
    t->line  = line;
    fiber_yield();
}

void gpu_cpu_barrier(const char *file, int line)
{
    wait_at(AT_BARRIER, file, line);
}

uint64_t gpu_cpu_exchange(uint64_t bits, unsigned lane, const char *file, int line)
{
    Thread *t = &threads[current];
    t->bits   = bits;
    t->source = lane;
    t->all    = nullptr;
    wait_at(AT_SHUFFLE, file, line);
    return t->result;
}

void gpu_cpu_together(GpuCpuTogether *all, void *argument, const char *file, int line)
{
    Thread *t = &threads[current];
    t->all      = all;
    t->argument = argument;
    t->source   = 0;
    wait_at(AT_SHUFFLE, file, line);
}

/* What is copied is NaN until it is waited for. */
void gpu_cpu_async_copy(void *to, const void *from, size_t bytes, bool there)
{
    Thread *t = &threads[current];
    if ((uintptr_t)to % bytes || (there && (uintptr_t)from % bytes))
        die("thread %d copies %zu bytes that are not aligned", current, bytes);
    memset(to, 0xff, bytes);
    t->copies.push_back(Copy{ to, from, bytes, there, t->group });
}

void gpu_cpu_async_commit(void)
{
    threads[current].group++;
}

void gpu_cpu_async_wait(int left)
{
    Thread *t = &threads[current];
    std::vector<Copy> later;
    for (const Copy &c : t->copies) {
        if (c.group >= t->group - left) later.push_back(c);
        else if (c.there) memcpy(c.to, c.from, c.bytes);
        else memset(c.to, 0, c.bytes);
    }
    t->copies = later;
}

void *gpu_cpu_dynamic(void)
{
    static char key;
    if (dynamic_bytes == 0) die("the launch gives no shared memory");
    return gpu_cpu_shared(&key, dynamic_bytes);
}

void *gpu_cpu_shared(const void *key, size_t bytes)
{
    for (int i = 0; i < shared_count; i++)
        if (shared[i].key == key) return shared[i].memory;
    if (shared_count == MAX_SHARED) die("more than %d shared arrays", (int)MAX_SHARED);
    shared[shared_count] = Shared{ key, malloc(bytes) };
    memset(shared[shared_count].memory, 0xff, bytes);          /* a NaN, and -1 */
    return shared[shared_count++].memory;
}

static void thread_main(void)
{
    kernel_body(kernel_context);
    threads[current].state = RETURNED;
}

/* ---- rendezvous: all lanes of a warp are READY or none is, as they run in turn to where they wait ---- */
static void release_warp(int base)
{
    Thread *warp = &threads[base];
    int first = 0;
    while (first < GPU_WARP && warp[first].state != AT_SHUFFLE) first++;
    if (first == GPU_WARP) return;
    for (int l = 0; l < GPU_WARP; l++) {
        if (warp[l].state != AT_SHUFFLE)
            die_of_two("a shuffle without its whole warp", base + first, base + l);
        if (warp[l].line != warp[first].line || strcmp(warp[l].file, warp[first].file) != 0 ||
            warp[l].all != warp[first].all)
            die_of_two("lanes of a warp in different shuffles", base + first, base + l);
        if (warp[l].source >= GPU_WARP)
            die("thread %d shuffles with lane %u of %d", base + l, warp[l].source, GPU_WARP);
    }
    if (warp[first].all) {
        void *argument[GPU_WARP];
        for (int l = 0; l < GPU_WARP; l++) argument[l] = warp[l].argument;
        warp[first].all(argument);
    }
    for (int l = 0; l < GPU_WARP; l++) warp[l].result = warp[warp[l].source].bits;
    for (int l = 0; l < GPU_WARP; l++) warp[l].state = READY;
}

/* When no warp is READY: false when all threads have returned. */
static bool release_barrier(void)
{
    int first = 0;
    while (first < live && threads[first].state != AT_BARRIER) first++;
    if (first == live) return false;
    for (int i = 0; i < live; i++) {
        if (threads[i].state != AT_BARRIER) die_of_two("a barrier after some threads returned", first, i);
        if (threads[i].line != threads[first].line || strcmp(threads[i].file, threads[first].file) != 0)
            die_of_two("threads at different barriers", first, i);
    }
    for (int i = 0; i < live; i++) threads[i].state = READY;
    return true;
}

/* ---- launches ---- */
static uint64_t draw(uint64_t below)
{
    draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
    return (draw_state >> 33) % below;
}

static void shuffle_order(int *list, int n)
{
    for (int i = 0; i < n; i++) list[i] = i;
    for (int i = n - 1; i > 0 && order_seed; i--) {
        int j = (int)draw((uint64_t)i + 1), keep = list[i];
        list[i] = list[j];
        list[j] = keep;
    }
}

/* The warp that runs after the one at `base`, or -1: the next in turn. With a seed it is mostly the same
 * again, so that it runs ahead as far as it can while others have not begun, else any. */
static int next_warp(int base)
{
    int warps = live / GPU_WARP, start = base / GPU_WARP + 1;
    if (order_seed && threads[base].state == READY && draw(4)) return base;
    if (order_seed) start = (int)draw((uint64_t)warps);
    for (int w = 0; w < warps; w++) {
        int next = (start + w) % warps * GPU_WARP;
        if (threads[next].state == READY) return next;
    }
    return -1;
}

static void run_warp(int base)
{
    int lane[GPU_WARP];
    shuffle_order(lane, GPU_WARP);
    for (int l : lane) {
        current = base + l;
        gpu_cpu_place.thread.x = (unsigned)current;
        fiber_resume(&threads[current].fiber);
    }
}

static void run_block(void)
{
    for (int i = 0; i < live; i++) {
        threads[i].state = READY;
        threads[i].copies.clear();
        threads[i].group = 0;
        fiber_start(&threads[i].fiber, thread_main);
    }
    do {
        for (int base = next_warp(live - GPU_WARP); base >= 0; base = next_warp(base)) {
            run_warp(base);
            release_warp(base);
        }
    } while (release_barrier());
    while (shared_count > 0) free(shared[--shared_count].memory);
}

void gpu_cpu_run(dim3 grid, dim3 block, size_t bytes, void (*body)(void *), void *context)
{
    gpu_cpu_place = GpuCpuPlace{ dim3(0, 0, 0), dim3(0, 0, 0), block, grid };
    if (block.x == 0 || block.x > MAX_THREADS || block.x % GPU_WARP || block.y != 1 || block.z != 1)
        die("blocks of %u x %u x %u threads: the shim runs one dim of whole warps of %d, up to %d", block.x,
            block.y, block.z, GPU_WARP, (int)MAX_THREADS);
    if (grid.x == 0 || grid.x > INT32_MAX || grid.y == 0 || grid.y > 65535 || grid.z != 1)
        die("a grid of %u x %u x %u blocks cannot be launched", grid.x, grid.y, grid.z);
    live = (int)block.x;
    while (stacks < live) fiber_stack(&threads[stacks++].fiber);
    dynamic_bytes  = bytes;
    kernel_body    = body;
    kernel_context = context;
    draw_state     = order_seed;
    signal(SIGALRM, too_long);
    alarm(patience);

    int  blocks = (int)(grid.x * grid.y);
    int *block_order = (int *)malloc(sizeof(int) * (size_t)blocks);
    shuffle_order(block_order, blocks);
    for (int b = 0; b < blocks; b++) {
        gpu_cpu_place.block = dim3((unsigned)block_order[b] % grid.x, (unsigned)block_order[b] / grid.x);
        run_block();
    }
    free(block_order);
    alarm(0);
}
