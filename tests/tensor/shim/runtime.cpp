/* Devices, streams, events and copies of the shim, as late as a device may be (gpu_cpu.h).
 *
 * What is put on a stream waits in a queue. By the pace of gpu_cpu_pace it runs at once; or no sooner than the
 * host waits for it, and then nothing else does; or some of it, of streams in a drawn order, at every call.
 * Memory of the host that was not allocated by gpuMallocHost is read at the call and written when the copy
 * runs, with nonsense in it until then; pinned memory is read and written when the copy runs.
 *
 * The first item of a stream may have to wait: for an event of another stream, or for other ranks (nccl.cpp). Then
 * other streams run, and where none can, the thread sleeps until another thread puts something on one. Where
 * all threads that are members of communicators sleep, or nothing has moved for a time, that is a deadlock. */
#include "tensor/cuda/gpu.h"
#include "order.h"
#include "streams.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <vector>

/* Kept by the marks of it in streams, which may outlive the event. */
struct Marks { uint64_t recorded, done; gpuStream_t stream; };
struct GpuCpuEvent { std::shared_ptr<Marks> marks; };
struct GpuCpuStream { int device, number; std::deque<GpuCpuItem> items; uint64_t entered, left; };

enum { NONSENSE = 0xa5, NOT_READY = gpuErrorNotReady, BAD_DEVICE = 101, MEANWHILE = 32 };
static GpuCpuStream first[GPU_CPU_DEVICES];                   /* of each device: the stream NULL */
static std::vector<gpuStream_t> streams;
static thread_local int device, depth;
static std::mutex everything;                         /* ranks are threads; one of them at a time is here */
static std::condition_variable changed;
static uint64_t    moves, seen;                        /* items that ran or came, since the start; of which sleepers know */
static int         devices = 1, members, opened_streams;
static int         sleeping;                           /* threads, since the last move */
static unsigned    deadlock_seconds = 60;
static GpuCpuPace  pace = GPU_CPU_LATE;                /* unless a test or GPU_CPU_PACE=once|late|drawn:SEED says otherwise */
static uint64_t    drawn;

extern "C" void gpu_cpu_pace(GpuCpuPace wanted, unsigned seed) { pace = wanted, drawn = seed; }
extern "C" void gpu_cpu_devices(int count)                     { devices = count; }
extern "C" void gpu_cpu_deadlock(unsigned seconds)             { deadlock_seconds = seconds; }

/* Before the lock is given to another thread. */
static void leave(void)
{
    gpu_cpu_reach(GPU_CPU_NOWHERE);
    if (moves != seen) changed.notify_all();
    seen = moves;
}

GpuCpuAlone::GpuCpuAlone()  { if (depth++ == 0) everything.lock(); }
GpuCpuAlone::~GpuCpuAlone()
{
    if (--depth > 0) return;
    leave();
    everything.unlock();
}
bool gpu_cpu_within(void) { return depth > 0; }
#define ALONE const GpuCpuAlone alone_
/* Of the functions that a test can make fail: the call has done nothing then. */
#define CALL(kind, device) do { const int error_ = gpu_cpu_call((kind), (device)); if (error_) return error_; } while (0)

static const bool environment_read = [] {
    const char *words = getenv("GPU_CPU_PACE");
    unsigned seed = 0;
    if (words && strcmp(words, "once") == 0) gpu_cpu_pace(GPU_CPU_AT_ONCE, 0);
    if (words && sscanf(words, "drawn:%u", &seed) == 1) gpu_cpu_pace(GPU_CPU_DRAWN, seed);
    if (const char *count = getenv("GPU_CPU_DEVICES")) gpu_cpu_devices(atoi(count));
    return words != nullptr;
}();

thread_local GpuCpuCounts gpu_cpu_counted;
extern "C" GpuCpuCounts gpu_cpu_counts(void) { return gpu_cpu_counted; }

static unsigned draw(unsigned below)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(drawn >> 33) % below;
}

void gpu_cpu_die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fflush(stdout);
    fprintf(stderr, "gpu shim: ");
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    _exit(3);
}

/* ---- progress ---- */

static std::chrono::seconds patience(void) { return std::chrono::seconds(deadlock_seconds ? deadlock_seconds : 1000000); }

void gpu_cpu_moved(void)
{
    moves++;
    sleeping = 0;
}

void gpu_cpu_member(int more)
{
    ALONE;
    members += more;
    gpu_cpu_moved();
}

/* False: there is none, or it has to wait. What a device that has failed still holds is dropped. */
static bool run_head(gpuStream_t s)
{
    const bool works = !gpu_cpu_error(s->device);
    if (s->items.empty() || (works && s->items.front().ready && !s->items.front().ready())) return false;
    GpuCpuItem item = std::move(s->items.front());
    s->items.pop_front();
    s->left++;
    if (item.work && works) {
        gpu_cpu_reach(s->device);
        item.work();
    }
    gpu_cpu_moved();
    return true;
}

static gpuStream_t stream_of(gpuStream_t s)
{
    if (!s) s = &first[device], s->device = device;
    for (gpuStream_t known : streams)
        if (known == s) return s;
    s->number = opened_streams++;
    streams.push_back(s);
    return s;
}

static bool run_any(void)
{
    if (streams.empty()) return false;
    const size_t start = draw((unsigned)streams.size());
    for (size_t i = 0; i < streams.size(); i++)
        if (run_head(streams[(start + i) % streams.size()])) return true;
    return false;
}

static void deadlock(void)
{
    std::string words;
    for (gpuStream_t s : streams)
        if (!s->items.empty())
            words += "; stream " + std::to_string(s->number) + " of device " + std::to_string(s->device) + " waits for " +
                     (s->items.front().explain ? s->items.front().explain() : std::string("its turn"));
    gpu_cpu_die("deadlock%s", words.c_str());
}

/* Nothing can run. */
static void sleep_for_others(void)
{
    const uint64_t before = moves;
    sleeping++;
    if (members > 0 && sleeping >= members && deadlock_seconds) deadlock();
    leave();
    std::unique_lock<std::mutex> lock(everything, std::adopt_lock);
    const bool came = changed.wait_for(lock, patience(), [&] { return moves != before; });
    lock.release();
    if (!came) deadlock();
}

void gpu_cpu_wait(std::function<bool()> done, std::function<std::string()> explain)
{
    while (!done()) {
        leave();
        std::unique_lock<std::mutex> lock(everything, std::adopt_lock);
        const bool came = changed.wait_for(lock, patience(), [&] { return done(); });
        lock.release();
        if (!came) gpu_cpu_die("deadlock: a rank waits for %s", explain().c_str());
    }
}

/* Runs the stream's items, and others where they have to wait, until `done`. */
template <typename Done> static void run_until(gpuStream_t s, Done done)
{
    while (!done()) {
        if (pace == GPU_CPU_DRAWN && draw(2) && run_any()) continue;
        if (s->items.empty()) gpu_cpu_die("a stream waits for what was never put on it");
        if (!run_head(s) && !run_any()) sleep_for_others();
    }
}

static void run_whole(gpuStream_t s)
{
    const uint64_t until = s->entered;
    run_until(s, [=] { return s->left >= until; });
}

void gpu_cpu_put_item(gpuStream_t s, GpuCpuItem item)
{
    ALONE;
    s = stream_of(s);
    s->items.push_back(std::move(item));
    s->entered++;
    gpu_cpu_moved();
    if (pace == GPU_CPU_AT_ONCE)
        while (run_any()) {}
    if (pace == GPU_CPU_DRAWN)
        while (draw(3) && run_any()) {}
}

/* A failure is what gpuGetLastError returns next. */
void gpu_cpu_enqueue(gpuStream_t stream, std::function<void()> work)
{
    gpu_cpu_counted.launches++;
    ALONE;
    stream = stream_of(stream);
    const int on = stream->device;
    if (on != device) gpu_cpu_die("a kernel for a stream of device %d is launched while device %d is current", on, device);
    if (gpu_cpu_call(GPU_CPU_LAUNCH, on)) return;
    if (gpu_cpu_goes_wrong(on)) work = [on] { gpu_cpu_break(on); };
    gpu_cpu_put_item(stream, GpuCpuItem{ std::move(work), {}, {} });
}

extern "C" void gpu_cpu_hang(gpuStream_t stream)
{
    gpu_cpu_put_item(stream, GpuCpuItem{ {}, [] { return false; }, [] { return std::string("a kernel that does not end"); } });
}

int gpu_cpu_device_of(gpuStream_t stream) { return stream ? stream->device : device; }

/* A query makes nothing run, but while the host asks again and again time passes. */
static int queried(bool done, int of)
{
    static uint64_t before;
    static std::chrono::steady_clock::time_point since;
    const auto now = std::chrono::steady_clock::now();
    if (const int error = gpu_cpu_error(of)) return error;
    if (done) return 0;
    if (moves != before) before = moves, since = now;
    if (now - since > patience()) deadlock();
    for (unsigned n = pace == GPU_CPU_DRAWN ? draw(2 * MEANWHILE) : (unsigned)MEANWHILE; n > 0 && run_any(); n--) {}
    return NOT_READY;
}

/* ---- devices and streams ---- */

int gpuSetDevice(int number)
{
    if (number < 0 || number >= devices) return BAD_DEVICE;
    CALL(GPU_CPU_ANY, number);
    device = number;
    return 0;
}

int gpu_cpu_device(void)             { return device; }
int gpuGetDevice(int *number)        { *number = device; return 0; }

int gpuGetDeviceCount(int *count)
{
    CALL(GPU_CPU_ANY, device);
    *count = devices;
    return 0;
}

int gpuDeviceGetPCIBusId(char *name, int bytes, int number)
{
    snprintf(name, (size_t)bytes, "0000:%02x:00.0", number);
    return number < 0 || number >= devices ? BAD_DEVICE : 0;
}

/* A name of the table (tensor/gpu_model.c), so that runs on the shim know a peak. */
int gpuGetDeviceProperties(gpuDeviceProperties *of, int number)
{
    snprintf(of->name, sizeof of->name, "NVIDIA H100 80GB HBM3");
    of->totalGlobalMem = (size_t)80 << 30;
    return number < 0 || number >= devices ? BAD_DEVICE : 0;
}

int gpuDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0, *greatest = -5;
    return 0;
}

int gpuStreamCreateWithPriority(gpuStream_t *stream, unsigned, int)
{
    CALL(GPU_CPU_STREAM, device);
    ALONE;
    *stream = new GpuCpuStream{ device, opened_streams++, {}, 0, 0 };
    streams.push_back(*stream);
    return 0;
}

int gpuStreamSynchronize(gpuStream_t stream)
{
    gpu_cpu_counted.waits++;
    ALONE;
    CALL(GPU_CPU_WAIT, gpu_cpu_device_of(stream));
    run_whole(stream_of(stream));
    return gpu_cpu_error(gpu_cpu_device_of(stream));
}

int gpuStreamQuery(gpuStream_t stream)
{
    ALONE;
    return queried(stream_of(stream)->items.empty(), gpu_cpu_device_of(stream));
}

int gpuStreamDestroy(gpuStream_t stream)
{
    ALONE;
    run_whole(stream);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream) streams.erase(streams.begin() + (ptrdiff_t)i--);
    delete stream;
    return 0;
}

/* ---- events ---- */

static int device_of_event(gpuEvent_t event) { return gpu_cpu_device_of(event->marks->stream); }

int gpuEventCreate(gpuEvent_t *event)
{
    CALL(GPU_CPU_EVENT, device);
    ALONE;
    *event = new GpuCpuEvent{ std::make_shared<Marks>() };
    return 0;
}

int gpuEventCreateUntimed(gpuEvent_t *event) { return gpuEventCreate(event); }

int gpuEventDestroy(gpuEvent_t event)
{
    ALONE;
    delete event;
    return 0;
}

int gpuEventRecord(gpuEvent_t event, gpuStream_t stream)
{
    ALONE;
    CALL(GPU_CPU_ANY, gpu_cpu_device_of(stream));
    const std::shared_ptr<Marks> marks = event->marks;
    const uint64_t number = ++marks->recorded;
    marks->stream = stream = stream_of(stream);
    gpu_cpu_put_item(stream, GpuCpuItem{ [=] { if (marks->done < number) marks->done = number; }, {}, {} });
    return 0;
}

/* What was recorded at the call is waited for; an event that never was is none. */
int gpuStreamWaitEvent(gpuStream_t stream, gpuEvent_t event, unsigned)
{
    ALONE;
    CALL(GPU_CPU_ANY, gpu_cpu_device_of(stream));
    const std::shared_ptr<Marks> marks = event->marks;
    const uint64_t number = marks->recorded;
    const int from = marks->stream ? marks->stream->number : -1;
    gpu_cpu_put_item(stream, GpuCpuItem{ {}, [=] { return marks->done >= number; },
                                         [=] { return "an event of stream " + std::to_string(from); } });
    return 0;
}

int gpuEventQuery(gpuEvent_t event)
{
    ALONE;
    return queried(event->marks->done >= event->marks->recorded, device_of_event(event));
}

int gpuEventSynchronize(gpuEvent_t event)
{
    gpu_cpu_counted.waits++;
    ALONE;
    const std::shared_ptr<Marks> marks = event->marks;
    const uint64_t number = marks->recorded;
    const int on = device_of_event(event);
    CALL(GPU_CPU_WAIT, on);
    if (number) run_until(marks->stream, [=] { return marks->done >= number || gpu_cpu_error(on); });
    return gpu_cpu_error(on);
}

/* Less each time. */
int gpuEventElapsedTime(float *milliseconds, gpuEvent_t from, gpuEvent_t to)
{
    ALONE;
    static float elapsed = 1;
    if (!from->marks->done || from->marks->done != from->marks->recorded || to->marks->done != to->marks->recorded) return 1;
    *milliseconds = elapsed *= 0.999f;
    return 0;
}

/* ---- copies ---- */

static void check_reach(gpuStream_t stream, const void *memory)
{
    if (gpu_cpu_is_device(memory) && gpu_cpu_holder(memory) != gpu_cpu_device_of(stream))
        gpu_cpu_die("a copy of device %d touches memory of device %d", gpu_cpu_device_of(stream), gpu_cpu_holder(memory));
}

int gpuMemcpyAsync(void *to, const void *from, size_t bytes, int, gpuStream_t stream)
{
    ALONE;
    const bool out = gpu_cpu_is_device(from), in = gpu_cpu_is_device(to);
    if (!bytes) return 0;
    CALL(GPU_CPU_COPY, gpu_cpu_device_of(stream));
    (out && in ? gpu_cpu_counted.launches : gpu_cpu_counted.copies)++;
    check_reach(stream, to);
    check_reach(stream, from);
    if (!in && !gpu_cpu_is_pinned(to)) memset(to, NONSENSE, bytes);
    if (out || gpu_cpu_is_pinned(from)) {
        gpu_cpu_put_item(stream, GpuCpuItem{ [=] { memcpy(to, from, bytes); }, {}, {} });
        return 0;
    }
    std::vector<char> kept((const char *)from, (const char *)from + bytes);
    gpu_cpu_put_item(stream, GpuCpuItem{ [to, kept = std::move(kept)] { memcpy(to, kept.data(), kept.size()); }, {}, {} });
    return 0;
}

int gpuMemsetAsync(void *memory, int byte, size_t bytes, gpuStream_t stream)
{
    gpu_cpu_counted.launches++;
    ALONE;
    CALL(GPU_CPU_COPY, gpu_cpu_device_of(stream));
    check_reach(stream, memory);
    gpu_cpu_put_item(stream, GpuCpuItem{ [=] { memset(memory, byte, bytes); }, {}, {} });
    return 0;
}

/* Nothing may be in the memory before the stream comes to it. */
int gpuMallocAsync(void **memory, size_t bytes, gpuStream_t stream)
{
    const int failed = gpuMalloc(memory, bytes);
    if (failed) return failed;
    ALONE;
    void *const all = *memory;
    gpu_cpu_put_item(stream, GpuCpuItem{ [=] { memset(all, 0xff, bytes); }, {}, {} });
    return 0;
}

/* The memory is freed when the stream comes to it, and nothing waits. */
int gpuFreeAsync(void *memory, gpuStream_t stream)
{
    ALONE;
    CALL(GPU_CPU_ANY, gpu_cpu_device_of(stream));
    check_reach(stream, memory);
    gpu_cpu_put_item(stream, GpuCpuItem{ [=] { gpu_cpu_release(memory); }, {}, {} });
    return 0;
}

/* Freeing waits for what the device has so far. */
void gpu_cpu_settle(int number)
{
    const std::vector<gpuStream_t> all = streams;
    std::vector<uint64_t> until;
    for (gpuStream_t s : all) until.push_back(s->device == number ? s->entered : 0);
    for (size_t i = 0; i < all.size(); i++)
        if (std::find(streams.begin(), streams.end(), all[i]) != streams.end())      /* destroyed while others ran */
            run_until(all[i], [&] { return all[i]->left >= until[i]; });
}
