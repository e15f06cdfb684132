/* Streams, events and copies of the shim, as late as a device may be (gpu_cpu.h).
 *
 * What is put on a stream waits in a queue. By the pace of gpu_cpu_pace it runs at once; or no sooner than the
 * host waits for it, and then nothing else does; or some of it, of streams in a drawn order, at every call.
 * Memory of the host that was not allocated by gpuMallocHost is read at the call and written when the copy
 * runs, with nonsense in it until then; pinned memory is read and written when the copy runs. */
#include "tensor/cuda/gpu.h"
#include "order.h"
#include <deque>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <vector>

struct GpuCpuEvent { uint64_t recorded, done; gpuStream_t stream; };

/* Work, or where it is empty a mark of an event. */
struct Item { std::function<void()> work; gpuEvent_t event; uint64_t number; };
struct GpuCpuStream { int device; std::deque<Item> items; uint64_t entered, left; };

enum { NONSENSE = 0xa5 };
static GpuCpuStream first[GPU_CPU_DEVICES];                   /* of each device: the stream NULL */
static std::vector<gpuStream_t> streams;
static thread_local int device;
static std::recursive_mutex everything;               /* ranks are threads; one of them at a time is here */
#define ALONE const std::lock_guard<std::recursive_mutex> alone_(everything)
static GpuCpuPace  pace = GPU_CPU_LATE;                /* unless a test or GPU_CPU_PACE=once|late|drawn:SEED says otherwise */
static uint64_t    drawn;

extern "C" void gpu_cpu_pace(GpuCpuPace wanted, unsigned seed) { pace = wanted, drawn = seed; }

static const bool asked = [] {
    const char *words = getenv("GPU_CPU_PACE");
    unsigned seed = 0;
    if (words && strcmp(words, "once") == 0) gpu_cpu_pace(GPU_CPU_AT_ONCE, 0);
    if (words && sscanf(words, "drawn:%u", &seed) == 1) gpu_cpu_pace(GPU_CPU_DRAWN, seed);
    return words != nullptr;
}();

static unsigned draw(unsigned below)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(drawn >> 33) % below;
}

static void die(const char *words)
{
    fflush(stdout);
    fprintf(stderr, "gpu shim: %s\n", words);
    _exit(3);
}

/* ---- progress ---- */

static void run_one(gpuStream_t s)
{
    Item item = std::move(s->items.front());
    s->items.pop_front();
    s->left++;
    if (item.event && item.event->done < item.number) item.event->done = item.number;
    if (item.event) return;
    gpu_cpu_reach(s->device, true);
    item.work();
    gpu_cpu_reach(s->device, false);
}

static gpuStream_t stream_of(gpuStream_t s)
{
    if (!s) s = &first[device], s->device = device;
    for (gpuStream_t known : streams)
        if (known == s) return s;
    streams.push_back(s);
    return s;
}

static bool run_any(void)
{
    if (streams.empty()) return false;
    size_t start = draw((unsigned)streams.size());
    for (size_t i = 0; i < streams.size(); i++) {
        gpuStream_t s = streams[(start + i) % streams.size()];
        if (s->items.empty()) continue;
        run_one(s);
        return true;
    }
    return false;
}

/* Runs a stream's items up to the number `until`. */
static void run_until(gpuStream_t s, uint64_t until)
{
    gpu_cpu_reach(s->device, true);                   /* once for all of them, since it takes long */
    while (s->left < until) {
        if (pace == GPU_CPU_DRAWN && draw(2) && run_any()) continue;
        if (s->items.empty()) die("a stream waits for what was never put on it");
        run_one(s);
    }
    gpu_cpu_reach(s->device, false);
}

static void put(gpuStream_t s, Item item)
{
    s = stream_of(s);
    s->items.push_back(std::move(item));
    s->entered++;
    if (pace == GPU_CPU_AT_ONCE) run_until(s, s->entered);
    if (pace == GPU_CPU_DRAWN)
        while (draw(3) && run_any()) {}
}

static void run_all(void)
{
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i]->device == device) run_until(streams[i], streams[i]->entered);
}

void gpu_cpu_enqueue(gpuStream_t stream, std::function<void()> work)
{
    ALONE;
    put(stream, Item{ std::move(work), nullptr, 0 });
}

/* ---- streams and events ---- */

int gpuSetDevice(int number)
{
    if (number != 0) return 1;                        /* there is one */
    device = number;
    return 0;
}

int gpu_cpu_device(void)             { return device; }
int gpuGetDeviceCount(int *count)    { *count = 1; return 0; }
std::recursive_mutex &gpu_cpu_lock(void) { return everything; }

int gpuStreamCreate(gpuStream_t *stream, unsigned)
{
    ALONE;
    *stream = new GpuCpuStream{ device, {}, 0, 0 };
    streams.push_back(*stream);
    return 0;
}

int gpuStreamSynchronize(gpuStream_t stream)
{
    ALONE;
    stream = stream_of(stream);
    run_until(stream, stream->entered);
    return 0;
}

int gpuStreamDestroy(gpuStream_t stream)
{
    ALONE;
    run_until(stream, stream->entered);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream) streams.erase(streams.begin() + (ptrdiff_t)i--);
    delete stream;
    return 0;
}

int gpuEventCreate(gpuEvent_t *event)
{
    ALONE;
    *event = new GpuCpuEvent{ 0, 0, nullptr };
    return 0;
}

int gpuEventDestroy(gpuEvent_t event)
{
    ALONE;
    run_all();                              /* marks of it may still be in queues */
    delete event;
    return 0;
}

int gpuEventRecord(gpuEvent_t event, gpuStream_t stream)
{
    ALONE;
    event->stream = stream_of(stream);
    put(stream, Item{ {}, event, ++event->recorded });
    return 0;
}

int gpuEventSynchronize(gpuEvent_t event)
{
    ALONE;
    while (event->done < event->recorded) run_until(event->stream, event->stream->left + 1);
    return 0;
}

/* Less each time. */
int gpuEventElapsedTime(float *milliseconds, gpuEvent_t from, gpuEvent_t to)
{
    ALONE;
    static float elapsed = 1;
    if (!from->done || from->done != from->recorded || to->done != to->recorded) return 1;
    *milliseconds = elapsed *= 0.999f;
    return 0;
}

/* ---- copies ---- */

int gpuMemcpyAsync(void *to, const void *from, size_t bytes, int, gpuStream_t stream)
{
    ALONE;
    const bool out = gpu_cpu_is_device(from), in = gpu_cpu_is_device(to);
    if (!bytes) return 0;
    if (!in && !gpu_cpu_is_pinned(to)) memset(to, NONSENSE, bytes);
    if (out || gpu_cpu_is_pinned(from)) {
        put(stream, Item{ [=] { memcpy(to, from, bytes); }, nullptr, 0 });
        return 0;
    }
    std::vector<char> kept((const char *)from, (const char *)from + bytes);
    put(stream, Item{ [to, kept = std::move(kept)] { memcpy(to, kept.data(), kept.size()); }, nullptr, 0 });
    return 0;
}

int gpuMemsetAsync(void *memory, int byte, size_t bytes, gpuStream_t stream)
{
    ALONE;
    put(stream, Item{ [=] { memset(memory, byte, bytes); }, nullptr, 0 });
    return 0;
}

/* Freeing waits for the device. */
void gpu_cpu_settle(void) { run_all(); }
