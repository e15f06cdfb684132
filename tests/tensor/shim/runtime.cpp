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

/* work; or a mark of an event; or a wait for its mark with this number, which is on the stream `on`. */
enum Kind { WORK, MARK, WAIT };
struct Item { Kind kind; const char *what; std::function<void()> work; gpuEvent_t event; uint64_t number; gpuStream_t on; };
struct GpuCpuStream { int device; std::deque<Item> items; uint64_t entered, left; };

enum { NONSENSE = 0xa5 };
static GpuCpuStream first[GPU_CPU_DEVICES];                   /* of each device: the stream NULL */
static std::vector<gpuStream_t> streams;
static thread_local int device;
static std::recursive_mutex everything;               /* ranks are threads; one of them at a time is here */
#define ALONE const std::lock_guard<std::recursive_mutex> alone_(everything)
static int devices = 1;
static GpuCpuPace  pace = GPU_CPU_LATE;                /* unless a test says otherwise */
static uint64_t    drawn;
static GpuCpuCounts counts;

extern "C" void gpu_cpu_devices(int count)                    { devices = count; }
extern "C" void gpu_cpu_pace(GpuCpuPace wanted, unsigned seed) { pace = wanted, drawn = seed; }
extern "C" GpuCpuCounts gpu_cpu_counts(void)                   { return counts; }

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

static bool is_blocked(const GpuCpuStream *s)
{
    return s->items.empty() || (s->items[0].kind == WAIT && s->items[0].event->done < s->items[0].number);
}

static void run_one(gpuStream_t s)
{
    Item item = std::move(s->items.front());
    s->items.pop_front();
    s->left++;
    if (item.kind == MARK && item.event->done < item.number) item.event->done = item.number;
    if (item.kind != WORK) return;
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
        if (is_blocked(s)) continue;
        run_one(s);
        return true;
    }
    return false;
}

static void run_until(gpuStream_t s, uint64_t until, int depth);

static void run_to_mark(gpuStream_t s, gpuEvent_t event, uint64_t number, int depth)
{
    for (size_t i = 0; i < s->items.size(); i++)
        if (s->items[i].kind == MARK && s->items[i].event == event && s->items[i].number == number)
            return run_until(s, s->left + i + 1, depth);
}

/* Runs a stream's items up to the number `until`, and of others what these wait for. */
static void run_until(gpuStream_t s, uint64_t until, int depth)
{
    if (depth > 100) die("streams wait for each other in a circle");
    gpu_cpu_reach(s->device, true);                   /* once for all of them, since it takes long */
    while (s->left < until) {
        if (pace == GPU_CPU_DRAWN && draw(2) && run_any()) continue;
        if (s->items.empty()) die("a stream waits for what was never put on it");
        if (is_blocked(s)) run_to_mark(s->items[0].on, s->items[0].event, s->items[0].number, depth + 1);
        if (is_blocked(s)) die("a stream waits for an event that is never reached");
        run_one(s);
    }
    gpu_cpu_reach(s->device, false);
}

static void put(gpuStream_t s, Item item)
{
    s = stream_of(s);
    s->items.push_back(std::move(item));
    s->entered++;
    if (pace == GPU_CPU_AT_ONCE) run_until(s, s->entered, 0);
    if (pace == GPU_CPU_DRAWN)
        while (draw(3) && run_any()) {}
}

static void run_all(void)
{
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i]->device == device) run_until(streams[i], streams[i]->entered, 0);
}

void gpu_cpu_enqueue(gpuStream_t stream, const char *what, std::function<void()> work)
{
    ALONE;
    counts.launches++;
    put(stream, Item{ WORK, what, std::move(work), nullptr, 0, nullptr });
}

/* ---- streams and events ---- */

int gpuSetDevice(int number)
{
    if (number < 0 || number >= devices) return 1;
    device = number;
    return 0;
}

int gpu_cpu_device(void)             { return device; }
int gpuGetDeviceCount(int *count)    { *count = devices; return 0; }
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
    counts.waits++;
    stream = stream_of(stream);
    run_until(stream, stream->entered, 0);
    return 0;
}

int gpuStreamDestroy(gpuStream_t stream)
{
    ALONE;
    run_until(stream, stream->entered, 0);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream) streams.erase(streams.begin() + (ptrdiff_t)i--);
    delete stream;
    return 0;
}

int gpuStreamWaitEvent(gpuStream_t stream, gpuEvent_t event, unsigned)
{
    ALONE;
    if (event->recorded) put(stream, Item{ WAIT, "a wait", {}, event, event->recorded, event->stream });
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
    put(stream, Item{ MARK, "an event", {}, event, ++event->recorded, nullptr });
    return 0;
}

int gpuEventSynchronize(gpuEvent_t event)
{
    ALONE;
    counts.waits++;
    if (event->done < event->recorded) run_to_mark(event->stream, event, event->recorded, 0);
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
    counts.copies += out != in;
    if (!bytes) return 0;
    if (!in && !gpu_cpu_is_pinned(to)) memset(to, NONSENSE, bytes);
    if (out || gpu_cpu_is_pinned(from)) {
        put(stream, Item{ WORK, "a copy", [=] { memcpy(to, from, bytes); }, nullptr, 0, nullptr });
        return 0;
    }
    std::vector<char> kept((const char *)from, (const char *)from + bytes);
    put(stream, Item{ WORK, "a copy", [to, kept = std::move(kept)] { memcpy(to, kept.data(), kept.size()); }, nullptr, 0, nullptr });
    return 0;
}

int gpuMemsetAsync(void *memory, int byte, size_t bytes, gpuStream_t stream)
{
    ALONE;
    put(stream, Item{ WORK, "a memset", [=] { memset(memory, byte, bytes); }, nullptr, 0, nullptr });
    return 0;
}

/* Freeing waits for the device. */
void gpu_cpu_settle(void) { run_all(); }
