/* Failures of a device that a test asks for: GPU_CPU_FAIL=KIND:NUMBER[@DEVICE], or gpu_cpu_fail. The call with that number among those of its
 * kind, 1 being the first, fails on the device, or on any where none is given. What follows is CUDA's:
 *
 *   AT_CALL   the call returns the error and has done nothing; the device works on. gpuGetLastError returns it once more.
 *   LATER     the call succeeds, and its work goes wrong when the stream comes to it. From then on every call of the device returns
 *             the error, nothing that its streams hold is done, and a process does not get rid of that.
 *   FROM      every call of the device returns the error from that one on; where none is given, of all devices.
 *
 * Errors have CUDA's numbers and texts. A line on stderr tells that the call has come. GPU_CPU_FAIL=count prints at the end of the process how many calls of each kind there were. */
#include "tensor/cuda/gpu.h"
#include "order.h"
#include "streams.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {
enum When { AT_CALL, LATER, FROM };
enum { EXECUTION_FAILED = 13 };                            /* of cuBLASLt */
struct Kind { const char *name; GpuCpuCall call; When when; int error; };
const Kind KINDS[] = {
    { "malloc",      GPU_CPU_MALLOC,  AT_CALL, 2 },   { "host_malloc", GPU_CPU_HOST_MALLOC, AT_CALL, 2 },
    { "stream",      GPU_CPU_STREAM,  AT_CALL, 2 },   { "event",       GPU_CPU_EVENT,       AT_CALL, 2 },
    { "launch",      GPU_CPU_LAUNCH,  AT_CALL, 701 }, { "copy",        GPU_CPU_COPY,        AT_CALL, 719 },
    { "product",     GPU_CPU_PRODUCT, AT_CALL, EXECUTION_FAILED },  { "image",       GPU_CPU_LAUNCH,      FROM,    209 },
    { "address",     GPU_CPU_LAUNCH,  LATER,   700 }, { "memory",      GPU_CPU_LAUNCH,      LATER,   214 },
    { "slow",        GPU_CPU_LAUNCH,  LATER,   702 }, { "sync",        GPU_CPU_WAIT,        FROM,    719 },
    { "lost",        GPU_CPU_ANY,     FROM,    999 }, { "busy",        GPU_CPU_STREAM,      FROM,    46 },
    { "driver",      GPU_CPU_ANY,     FROM,    35 },  { "none",        GPU_CPU_ANY,         FROM,    100 },
    { "versions",    GPU_CPU_ANY,     FROM,    803 }, { "fabric",      GPU_CPU_ANY,         FROM,    802 },
};
const struct { int error; const char *text; } TEXTS[] = {
    { 0, "no error" }, { 1, "invalid argument" }, { 2, "out of memory" }, { 35, "CUDA driver version is insufficient for CUDA runtime version" },
    { 46, "CUDA-capable device(s) is/are busy or unavailable" }, { 100, "no CUDA-capable device is detected" },
    { 101, "invalid device ordinal" }, { 209, "no kernel image is available for execution on the device" },
    { 214, "uncorrectable ECC error encountered" }, { 700, "an illegal memory access was encountered" },
    { 701, "too many resources requested for launch" }, { 702, "the launch timed out and was terminated" },
    { 719, "unspecified launch failure" }, { 802, "system not yet initialized" },
    { 803, "system has unsupported display driver / cuda driver combination" },
};
const char *const CALLS[GPU_CPU_CALLS] = { "malloc", "host_malloc", "stream", "event", "launch", "copy", "product", "sync", "any" };

const Kind *kind;
long        number;
int         only = GPU_CPU_NOWHERE;
long        calls[GPU_CPU_DEVICES + 1][GPU_CPU_CALLS];     /* of each device, and at the end of all */
int         broken[GPU_CPU_DEVICES];                       /* the error that every call returns; 0: none */
thread_local int last;

void tell(int device) { fprintf(stderr, "gpu shim: %s %ld fails on device %d\n", kind->name, number, device); }

long *count_of(GpuCpuCall call) { return &calls[only == GPU_CPU_NOWHERE ? GPU_CPU_DEVICES : only][call]; }

void print_counts(void)
{
    fprintf(stderr, "gpu shim: calls");
    for (int c = 0; c < GPU_CPU_CALLS; c++) fprintf(stderr, " %s %ld", CALLS[c], calls[GPU_CPU_DEVICES][c]);
    for (int d = 0; d < GPU_CPU_DEVICES; d++) {
        if (!calls[d][GPU_CPU_ANY]) continue;
        fprintf(stderr, "; device %d", d);
        for (int c = 0; c < GPU_CPU_CALLS; c++) fprintf(stderr, " %s %ld", CALLS[c], calls[d][c]);
    }
    fputc('\n', stderr);
}
}

extern "C" void gpu_cpu_fail(const char *words)
{
    char name[32] = "";
    const GpuCpuAlone alone;
    kind = nullptr, number = 1, only = GPU_CPU_NOWHERE;
    memset(calls, 0, sizeof calls);
    memset(broken, 0, sizeof broken);
    if (!words || !*words || strcmp(words, "count") == 0 || strncmp(words, "nccl_", 5) == 0 || strcmp(words, "cublaslt") == 0) return;
    const int read = sscanf(words, "%31[a-z_]:%ld@%d", name, &number, &only);
    for (const Kind &k : KINDS)
        if (read >= 1 && strcmp(name, k.name) == 0) kind = &k;
    if (!kind || number < 1 || only >= GPU_CPU_DEVICES) gpu_cpu_die("there is no failure %s", words);
}

static const bool environment_read = [] {
    const char *words = getenv("GPU_CPU_FAIL");
    gpu_cpu_fail(words);
    if (words && strcmp(words, "count") == 0) atexit(print_counts);
    return words != nullptr;
}();

/* Counts the call; it may be the one. */
int gpu_cpu_call(GpuCpuCall call, int device)
{
    const GpuCpuAlone alone;
    if (device < 0 || device >= GPU_CPU_DEVICES) return 0;
    for (int d : { device, (int)GPU_CPU_DEVICES }) {
        if (call != GPU_CPU_ANY) calls[d][call]++;
        calls[d][GPU_CPU_ANY]++;
    }
    const bool mine = kind && (call == kind->call || kind->call == GPU_CPU_ANY) && (only == GPU_CPU_NOWHERE || only == device);
    const bool now = mine && !broken[device] && *count_of(kind->call) == number && kind->when != LATER;
    if (now) tell(device);
    for (int d = 0; d < GPU_CPU_DEVICES && now && kind->when == FROM; d++)
        if (d == device || only == GPU_CPU_NOWHERE) broken[d] = kind->error;
    const int error = now ? kind->error : broken[device];
    if (error && kind->call != GPU_CPU_PRODUCT) last = error;                 /* whose status is the library's alone */
    return error && call == GPU_CPU_PRODUCT ? (int)EXECUTION_FAILED : error;
}

/* Asked behind gpu_cpu_call. */
bool gpu_cpu_goes_wrong(int device)
{
    const bool wrong = kind && kind->when == LATER && (only == GPU_CPU_NOWHERE || only == device) && *count_of(kind->call) == number;
    if (wrong) tell(device);
    return wrong;
}

void gpu_cpu_break(int device) { if (!broken[device]) broken[device] = kind->error; }
int  gpu_cpu_error(int device) { return broken[device]; }

/* That of programs without tensor/cuda/stream.cu, in which nothing fails. */
__attribute__((weak)) void gpu_check(int error, const char *what)
{
    if (error) gpu_cpu_die("%s: %s", what, gpuGetErrorString(error));
}

int gpuGetLastError(void)
{
    const int error = last;
    last = 0;
    return error;
}

const char *gpuGetErrorString(int error)
{
    for (const auto &row : TEXTS)
        if (row.error == error) return row.text;
    return "unknown error";
}
