/* The functions of NCCL that comm/nccl.c calls, among threads that have a device each. A group of calls is one kernel on a stream, which
 * begins when the stream comes to it and ends when all of its parts are done; a part is done when the kernels of all its ranks have
 * begun. So a communicator runs strictly in order, and what would hang on GPUs is a deadlock of the runtime, which names the calls.
 *
 * GPU_CPU_FAIL=nccl_KIND:NUMBER[@DEVICE] is gpu_cpu_nccl_fault for a program, NUMBER counting from 1; and as on GPUs calls that differ are
 * then kernels that never end, and a deadlock is the watchdog's. GPU_CPU_FAIL=count prints the calls.
 *
 * Stricter than NCCL: calls of a communicator are compared across ranks when they are made (verb, count, type, operator, root), results
 * are NaN from the begin of a kernel to its end, a communicator stays on one stream, and the kernels that have begun on a device must
 * fit it. Sums are added along a ring, as NCCL's are, rounded to the type at each hop; the ring begins elsewhere for each part. */
#include "comm/nccl_library.h"
#include "order.h"
#include "streams.h"
#include "tensor/dtype.h"
#include <deque>
#include <map>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {
enum Verb { ALL_REDUCE, REDUCE_SCATTER, REDUCE, ALL_GATHER, BROADCAST, SEND, RECV };
const char *const VERBS[] = { "all-reduce", "reduce-scatter", "reduce", "all-gather", "broadcast", "send", "receive" };
enum { MULTIPROCESSORS = 132, VERSION = 22809, TOO_OLD = 21705 };

struct Shared;
struct Meeting;
struct Kernel { bool begun; };

/* One call of one rank. */
struct Part {
    Verb verb;
    const void *in;
    void *out;
    size_t count;
    int type, op, root, rank;                          /* root: also the peer of a message */
    long number;                                       /* of the collective, or of the message of its pair, in the communicator */
    std::shared_ptr<Kernel> kernel;
    std::shared_ptr<Meeting> meeting;
};

/* What belongs together: a collective of all ranks, or a message. Parts are in the order of ranks. */
struct Meeting { std::vector<Part> parts; bool done, differ; };

struct Side {                                          /* a rank of a communicator */
    bool joined, gone;
    int device, left;                                  /* left: has destroyed it */
    long collectives;
    gpuStream_t stream;
    std::map<int, long> sent, received;                /* by peer */
    int error;                                         /* asynchronous */
};

struct Shared {
    std::string key;
    int number, most_blocks;
    std::vector<Side> side;
    std::map<long, std::shared_ptr<Meeting>> collective;                                  /* those that are not done */
    std::map<std::pair<int, int>, std::map<long, std::shared_ptr<Meeting>>> message;      /* by from, to */
    std::map<std::pair<int, int>, int> ends;           /* by from, to: 1 the sender has made a call, 2 the receiver; 3 they are connected */
};

std::map<std::string, std::shared_ptr<Shared>> communicators;
int    opened, unique, most_resident;
int    resident[GPU_CPU_DEVICES];                      /* blocks of kernels that have begun */
long   calls[GPU_CPU_DEVICES], openings[GPU_CPU_DEVICES];      /* made by the rank of a device */
struct { GpuCpuNcclFault kind; int device; long after; } fault;
bool   prints_calls, differing_hang;
std::string last_error;
}

struct NcclComm { std::shared_ptr<Shared> shared; int rank; };

namespace {
/* ---- the calls of this thread ---- */
struct Pending { NcclComm *comm; Part part; gpuStream_t stream; };
struct Rank {                                          /* a thread */
    int depth = 0, open = 0;
    std::vector<Pending> group, kept;
    std::vector<NcclComm *> comms;
    /* A thread that ends with communicators is a rank that died. */
    ~Rank()
    {
        const GpuCpuAlone alone;
        for (NcclComm *c : comms) c->shared->side[(size_t)c->rank].gone = true;
        if (open) gpu_cpu_member(-1);
    }
};
thread_local Rank me;

std::string words(const Shared *s, const Part &p)
{
    const std::string count = std::to_string(p.count) + " of type " + std::to_string(p.type);
    std::string text = std::string(VERBS[p.verb]) + " #" + std::to_string(p.number) + " of communicator " + std::to_string(s->number) +
                       " by rank " + std::to_string(p.rank) + ": " + count;
    if (p.verb <= REDUCE) text += ", operator " + std::to_string(p.op);
    if (p.verb == REDUCE || p.verb == BROADCAST) text += ", root " + std::to_string(p.root);
    if (p.verb >= SEND) text += ", peer " + std::to_string(p.root);
    return text;
}

bool is_message(const Part &p) { return p.verb >= SEND; }

void compare(const Shared *s, Meeting &m, const Part &a, const Part &b)
{
    const bool same = a.count == b.count && a.type == b.type &&
                      (is_message(a) ? a.verb != b.verb
                                     : a.verb == b.verb && a.op == b.op && a.root == b.root);
    m.differ = m.differ || !same;
    if (!same && !differing_hang) gpu_cpu_die("NCCL: calls differ: %s; %s", words(s, a).c_str(), words(s, b).c_str());
}

size_t width(int type) { return type == NCCL_U8 ? 1 : type == NCCL_F64 ? 8 : type == NCCL_F32 ? 4 : 2; }
Dtype  dtype(int type) { return type == NCCL_F64 ? F64 : type == NCCL_F32 ? F32 : type == NCCL_BF16 ? BF16 : F16; }

/* ---- results ---- */
typedef std::vector<char> Bytes;

Bytes fetch(const Shared *s, const Part &p, size_t from, size_t bytes)
{
    Bytes x(bytes);
    gpu_cpu_reach(s->side[(size_t)p.rank].device);
    if (bytes) memcpy(x.data(), (const char *)p.in + from, bytes);
    return x;
}

void give(const Shared *s, const Part &p, size_t at, const Bytes &x)
{
    gpu_cpu_reach(s->side[(size_t)p.rank].device);
    if (!x.empty()) memcpy((char *)p.out + at, x.data(), x.size());
}

double number_at(const Bytes &x, int type, size_t i)
{
    double value;
    dtype_convert(&value, F64, x.data() + i * width(type), dtype(type), 1);
    return value;
}

/* The sum of elements [from, from + count) of all ranks; the ring ends at rank `last`. */
Bytes reduced(const Shared *s, const Meeting &m, size_t from, size_t count, int last)
{
    const Part &any = m.parts[0];
    const size_t n = m.parts.size(), w = width(any.type);
    Bytes sum = fetch(s, m.parts[((size_t)last + 1) % n], from * w, count * w);
    for (size_t k = 2; k <= n; k++) {
        const Bytes x = fetch(s, m.parts[((size_t)last + k) % n], from * w, count * w);
        for (size_t i = 0; i < count; i++) {
            const double a = number_at(sum, any.type, i), b = number_at(x, any.type, i);
            const double y = any.op == NCCL_MAX ? (a > b || a != a ? a : b) : any.type == NCCL_F64 ? a + b : (double)((float)a + (float)b);
            dtype_convert(sum.data() + i * w, dtype(any.type), &y, F64, 1);
        }
    }
    return sum;
}

void run_collective(const Shared *s, const Meeting &m)
{
    const Part &any = m.parts[0];
    const size_t n = m.parts.size(), count = any.count, w = width(any.type);
    if (any.verb == ALL_REDUCE) {
        Bytes all;
        for (size_t r = 0; r < n; r++) {
            const size_t begin = count * r / n, end = count * (r + 1) / n;
            const Bytes part = reduced(s, m, begin, end - begin, (int)r);
            all.insert(all.end(), part.begin(), part.end());
        }
        for (const Part &p : m.parts) give(s, p, 0, all);
    }
    if (any.verb == REDUCE_SCATTER) {
        std::vector<Bytes> sum;                        /* before any is written, since that may be in place */
        for (size_t r = 0; r < n; r++) sum.push_back(reduced(s, m, r * count, count, (int)r));
        for (size_t r = 0; r < n; r++) give(s, m.parts[r], 0, sum[r]);
    }
    if (any.verb == REDUCE) give(s, m.parts[(size_t)any.root], 0, reduced(s, m, 0, count, any.root));
    if (any.verb == BROADCAST) {
        const Bytes x = fetch(s, m.parts[(size_t)any.root], 0, count * w);
        for (const Part &p : m.parts) give(s, p, 0, x);
    }
    if (any.verb == ALL_GATHER) {
        std::vector<Bytes> x;
        for (const Part &p : m.parts) x.push_back(fetch(s, p, 0, count * w));
        for (const Part &p : m.parts)
            for (size_t r = 0; r < n; r++) give(s, p, r * count * w, x[r]);
    }
}

/* Runs it if the kernels of all its ranks have begun. */
void run_if_all(const Shared *s, Meeting &m, size_t wanted)
{
    if (m.done || m.differ || m.parts.size() < wanted) return;
    for (const Part &p : m.parts)
        if (!p.kernel->begun) return;
    if (is_message(m.parts[0])) {
        const int out = m.parts[0].verb == SEND ? 0 : 1;
        give(s, m.parts[(size_t)(1 - out)], 0, fetch(s, m.parts[(size_t)out], 0, m.parts[0].count * width(m.parts[0].type)));
    } else run_collective(s, m);
    m.done = true;
}

/* What a kernel may write from its begin on: not where a rank reads the same. */
void poison(const Shared *s, const Part &p)
{
    const size_t n = s->side.size();
    const size_t bytes = p.count * width(p.type) * (p.verb == ALL_GATHER ? n : 1);
    const char *out = (const char *)p.out, *in = (const char *)p.in;
    const size_t read = p.count * width(p.type) * (p.verb == REDUCE_SCATTER ? n : 1);
    const bool writes = p.verb == SEND ? false : p.verb == REDUCE ? p.rank == p.root : p.verb == BROADCAST ? p.rank != p.root : true;
    if (!writes || (in && in < out + bytes && out < in + read)) return;
    give(s, p, 0, Bytes(bytes, (char)0xff));
}

/* ---- communicators ---- */
Side &side_of(NcclComm *c) { return c->shared->side[(size_t)c->rank]; }

std::string who_is_missing(const Shared *s, const Meeting &m)
{
    std::string text;
    for (size_t r = 0; r < s->side.size(); r++) {
        const Part *mine = nullptr;
        for (const Part &p : m.parts)
            if (p.rank == (int)r) mine = &p;
        const bool needed = m.parts.empty() || !is_message(m.parts[0]) || m.parts[0].rank == (int)r || m.parts[0].root == (int)r;
        if (needed && (!mine || !mine->kernel->begun))
            text += ", rank " + std::to_string(r) + (s->side[r].gone ? " has ended" : !mine ? " has not called it" : " has not come to it");
    }
    return text;
}

std::map<long, std::shared_ptr<Meeting>> &meetings_of(Shared *s, const Part &p)
{
    if (!is_message(p)) return s->collective;
    return s->message[p.verb == SEND ? std::make_pair(p.rank, p.root) : std::make_pair(p.root, p.rank)];
}

/* Gives the part its number and adds it to its meeting, in the order of ranks. */
void join(NcclComm *c, Part *p, const std::shared_ptr<Kernel> &kernel)
{
    Shared *s = c->shared.get();
    Side &side = side_of(c);
    p->number = is_message(*p) ? (p->verb == SEND ? side.sent : side.received)[p->root]++ : side.collectives++;
    p->kernel = kernel;
    std::shared_ptr<Meeting> &found = meetings_of(s, *p)[p->number];
    if (!found) found = std::make_shared<Meeting>();
    Meeting &m = *found;
    for (const Part &other : m.parts) compare(s, m, other, *p);
    size_t at = 0;
    while (at < m.parts.size() && m.parts[at].rank < p->rank) at++;
    m.parts.insert(m.parts.begin() + (ptrdiff_t)at, *p);
    p->meeting = found;
}

void begin_kernel(NcclComm *c, const std::vector<Part> &parts, Kernel *kernel)
{
    const std::shared_ptr<Shared> s = c->shared;
    const int device = side_of(c).device;
    kernel->begun = true;
    resident[device] += s->most_blocks;
    if (resident[device] > most_resident) most_resident = resident[device];
    if (most_resident > MULTIPROCESSORS)
        gpu_cpu_die("NCCL: kernels of %d blocks have begun on device %d, which has %d multiprocessors", most_resident, device,
                    (int)MULTIPROCESSORS);
    for (const Part &p : parts) poison(s.get(), p);
    gpu_cpu_moved();
}

/* One kernel of the parts, all of one communicator. */
void launch(NcclComm *c, std::vector<Part> parts, gpuStream_t stream)
{
    const std::shared_ptr<Shared> s = c->shared;
    const std::shared_ptr<Kernel> kernel = std::make_shared<Kernel>();
    Side &side = side_of(c);
    if (!side.stream) side.stream = stream;
    if (side.stream != stream || gpu_cpu_device_of(stream) != side.device)
        gpu_cpu_die("NCCL: rank %d uses communicator %d on two streams", c->rank, s->number);
    for (Part &p : parts) join(c, &p, kernel);
    const bool hangs = fault.kind == GPU_CPU_NCCL_HANG && side.device == fault.device && calls[side.device] > fault.after;
    gpu_cpu_put_item(stream, GpuCpuItem{ {},
        [=] {
            bool all = !hangs && !side_of(c).error;
            if (!kernel->begun && !hangs) begin_kernel(c, parts, kernel.get());
            for (const Part &p : parts) {
                if (kernel->begun) run_if_all(s.get(), *p.meeting, is_message(p) ? 2 : s->side.size());
                all = all && p.meeting->done;
            }
            if (!all) return false;
            for (const Part &p : parts) meetings_of(s.get(), p).erase(p.number);
            resident[s->side[(size_t)c->rank].device] -= s->most_blocks;
            return true;
        },
        [=] {
            for (const Part &p : parts)
                if (!p.meeting->done) return words(s.get(), p) + who_is_missing(s.get(), *p.meeting);
            return std::string("a kernel of NCCL");
        } });
}

/* ---- faults of a test ---- */
[[noreturn]] void never(void) { for (;;) pause(); }

/* A message that only connects a pair, which comm/nccl.c sends when it opens one: faults do not count it. */
bool only_connects(const Part &p) { return is_message(p) && p.type == NCCL_U8 && p.count == 1; }

/* After so many calls of the rank on the device. False: the call is left out. */
bool apply_fault(NcclComm *c, Part *p)
{
    Side &side = side_of(c);
    if (only_connects(*p)) return true;
    const long call = calls[side.device]++;
    if (prints_calls)
        fprintf(stderr, "nccl shim: device %d call %ld communicator %d: %s %zu of type %d\n", side.device, call + 1, c->shared->number,
                VERBS[p->verb], p->count, p->type);
    if (side.device != fault.device || call < fault.after) return true;
    switch (fault.kind) {
    case GPU_CPU_NCCL_COUNT: if (call == fault.after) p->count++; return true;
    case GPU_CPU_NCCL_ROOT:  if (call == fault.after) p->root = (p->root + 1) % (int)c->shared->side.size(); return true;
    case GPU_CPU_NCCL_ERROR:
        for (Side &other : c->shared->side) other.error = NCCL_REMOTE_ERROR;
        side.error = NCCL_SYSTEM_ERROR;
        return true;
    case GPU_CPU_NCCL_LOST:  return call != fault.after;
    default:                 return true;
    }
}

/* As of a device that has failed. */
bool fails_at_call(NcclComm *c)
{
    const GpuCpuAlone alone;
    const int device = side_of(c).device;
    const bool fails = fault.kind == GPU_CPU_NCCL_CALL && device == fault.device && calls[device] == fault.after;
    if (fails || gpu_cpu_error(device)) last_error = "Cuda failure 'unspecified launch failure'";
    return fails || gpu_cpu_error(device);
}

int put(NcclComm *c, Part part, gpuStream_t stream)
{
    const GpuCpuAlone alone;
    part.rank = c->rank;
    if (part.verb >= SEND && part.root == c->rank && me.depth == 0) return NCCL_BAD_USAGE;
    if ((part.verb == REDUCE || part.verb >= BROADCAST) && (part.root < 0 || part.root >= (int)c->shared->side.size())) return NCCL_BAD_ARGUMENT;
    if (fault.kind == GPU_CPU_NCCL_SWAP && side_of(c).device == fault.device && calls[fault.device] == fault.after &&
        !only_connects(part)) {
        calls[fault.device]++;
        me.kept.push_back(Pending{ c, part, stream });                 /* behind the next one */
        return NCCL_OK;
    }
    if (apply_fault(c, &part)) me.group.push_back(Pending{ c, part, stream });
    for (const Pending &p : me.kept) me.group.push_back(p);
    me.kept.clear();
    return NCCL_OK;
}

/* At the first message of a pair NCCL connects it, for which the host of each rank waits for the other one's call. */
void connect(NcclComm *c, const std::vector<Part> &parts)
{
    const std::shared_ptr<Shared> s = c->shared;
    std::vector<std::pair<int, int>> made;
    for (const Part &p : parts) {
        if (!is_message(p)) continue;
        const std::pair<int, int> way = p.verb == SEND ? std::make_pair(c->rank, p.root) : std::make_pair(p.root, c->rank);
        if (s->ends[way] != 3) made.push_back(way);
        s->ends[way] |= p.verb == SEND ? 1 : 2;
    }
    if (made.empty()) return;
    gpu_cpu_moved();
    gpu_cpu_wait([=] {
        for (const std::pair<int, int> &way : made)
            if (s->ends[way] != 3) return false;
        return true;
    }, [=] { return "the other end of the first message of a pair of communicator " + std::to_string(s->number); });
}

int flush(void)
{
    const GpuCpuAlone alone;
    while (!me.group.empty()) {
        NcclComm *c = me.group[0].comm;
        const gpuStream_t stream = me.group[0].stream;
        std::vector<Part> parts;
        std::vector<Pending> others;
        for (const Pending &p : me.group)
            if (p.comm == c) parts.push_back(p.part);
            else others.push_back(p);
        me.group = others;
        connect(c, parts);
        launch(c, parts, stream);
    }
    return NCCL_OK;
}

int call(NcclComm *c, const Part &part, void *stream)
{
    bool dead;
    {
        const GpuCpuAlone alone;
        dead = fault.kind == GPU_CPU_NCCL_DEAD && side_of(c).device == fault.device && calls[fault.device] >= fault.after;
        if (dead) {
            side_of(c).gone = true;
            gpu_cpu_member(-1);
        }
    }
    if (dead) never();
    if (fails_at_call(c)) return NCCL_DEVICE_ERROR;
    const int error = put(c, part, (gpuStream_t)stream);
    return error || me.depth ? error : flush();
}

/* ---- the functions ---- */
int get_version(int *version)
{
    *version = fault.kind == GPU_CPU_NCCL_OLD ? TOO_OLD : VERSION;
    return NCCL_OK;
}

int get_id(NcclId *id)
{
    const GpuCpuAlone alone;
    *id = NcclId{};
    snprintf(id->bytes, sizeof id->bytes, "communicator %d", unique++);
    return NCCL_OK;
}

int init(NcclComm **comm, int ranks, NcclId id, int rank, NcclConfig *config)
{
    const GpuCpuAlone alone;
    if (config->size < sizeof *config || config->magic != NCCL_CONFIG_MAGIC || config->version < NCCL_OLDEST || config->blocking != 1)
        return NCCL_BAD_ARGUMENT;
    if (ranks < 1 || rank < 0 || rank >= ranks) return NCCL_BAD_ARGUMENT;
    if (fault.kind == GPU_CPU_NCCL_OPEN && gpu_cpu_device() == fault.device && openings[fault.device]++ == fault.after) {
        last_error = "Error while creating shared memory segment /dev/shm/nccl-a1b2c3 (size 9637888)";
        return NCCL_SYSTEM_ERROR;
    }
    std::shared_ptr<Shared> &s = communicators[std::string(id.bytes, sizeof id.bytes)];
    if (!s) {
        s = std::make_shared<Shared>();
        s->key = std::string(id.bytes, sizeof id.bytes);
        s->number = opened++;
        s->most_blocks = config->most_blocks;
        s->side.resize((size_t)ranks);
    }
    const std::shared_ptr<Shared> mine = s;
    if ((int)mine->side.size() != ranks || mine->side[(size_t)rank].joined)
        gpu_cpu_die("NCCL: communicator %d is opened by rank %d of %d twice or with other ranks", mine->number, rank, ranks);
    mine->side[(size_t)rank].joined = true;
    mine->side[(size_t)rank].device = gpu_cpu_device();
    if (me.open++ == 0) gpu_cpu_member(1);             /* before another one goes on */
    gpu_cpu_moved();
    gpu_cpu_wait([=] {
        for (const Side &x : mine->side)
            if (!x.joined) return false;
        return true;
    }, [=] { return "the other ranks of communicator " + std::to_string(mine->number); });
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < a; b++)
            if (mine->side[(size_t)a].device == mine->side[(size_t)b].device) {
                last_error = "Duplicate GPU detected : rank " + std::to_string(b) + " and rank " + std::to_string(a) + " both on CUDA device " +
                             std::to_string(mine->side[(size_t)a].device);
                return NCCL_BAD_USAGE;
            }
    *comm = new NcclComm{ mine, rank };
    me.comms.push_back(*comm);
    return NCCL_OK;
}

int finalize(NcclComm *) { return NCCL_OK; }

/* Aborted communicators are not freed, since their threads may still be in a call. */
int destroy(NcclComm *c)
{
    const GpuCpuAlone alone;
    Side &side = side_of(c);
    side.left = true;
    for (size_t i = 0; i < me.comms.size(); i++)
        if (me.comms[i] == c) me.comms.erase(me.comms.begin() + (ptrdiff_t)i--);
    if (--me.open == 0) gpu_cpu_member(-1);
    bool all = true;
    for (const Side &x : c->shared->side) all = all && x.left;
    if (all) communicators.erase(c->shared->key);
    delete c;
    return NCCL_OK;
}

int abort_comm(NcclComm *c)
{
    fprintf(stderr, "nccl shim: rank %d aborts communicator %d\n", c->rank, c->shared->number);
    return NCCL_OK;
}

int async_error(NcclComm *c, int *error)
{
    const GpuCpuAlone alone;
    *error = side_of(c).error;
    return NCCL_OK;
}

const char *error_string(int result)
{
    static const char *const text[] = { "no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument",
                                        "invalid usage", "remote process exited or there was a network error", "NCCL operation in progress" };
    return text[result];
}

const char *get_last_error(NcclComm *) { return last_error.c_str(); }
int group_start(void) { me.depth++; return NCCL_OK; }
int group_end(void)   { return --me.depth ? NCCL_OK : flush(); }

int all_reduce(const void *in, void *out, size_t count, int type, int op, NcclComm *c, void *stream)
{
    return call(c, Part{ ALL_REDUCE, in, out, count, type, op, 0, 0, 0, {}, {} }, stream);
}
int reduce_scatter(const void *in, void *out, size_t count, int type, int op, NcclComm *c, void *stream)
{
    return call(c, Part{ REDUCE_SCATTER, in, out, count, type, op, 0, 0, 0, {}, {} }, stream);
}
int reduce(const void *in, void *out, size_t count, int type, int op, int root, NcclComm *c, void *stream)
{
    return call(c, Part{ REDUCE, in, out, count, type, op, root, 0, 0, {}, {} }, stream);
}
int all_gather(const void *in, void *out, size_t count, int type, NcclComm *c, void *stream)
{
    return call(c, Part{ ALL_GATHER, in, out, count, type, 0, 0, 0, 0, {}, {} }, stream);
}
int broadcast(const void *in, void *out, size_t count, int type, int root, NcclComm *c, void *stream)
{
    return call(c, Part{ BROADCAST, in, out, count, type, 0, root, 0, 0, {}, {} }, stream);
}
int send(const void *in, size_t count, int type, int peer, NcclComm *c, void *stream)
{
    return call(c, Part{ SEND, in, nullptr, count, type, 0, peer, 0, 0, {}, {} }, stream);
}
int recv(void *out, size_t count, int type, int peer, NcclComm *c, void *stream)
{
    return call(c, Part{ RECV, nullptr, out, count, type, 0, peer, 0, 0, {}, {} }, stream);
}
}

extern "C" void gpu_cpu_nccl_fault(GpuCpuNcclFault kind, int device, long after)
{
    fault = { kind, device, after };
    memset(calls, 0, sizeof calls);
    memset(openings, 0, sizeof openings);
}

static const bool environment_read = [] {
    static const char *const names[GPU_CPU_NCCL_FAULTS] = { "", "count", "root", "swap", "lost", "error", "dead", "hang", "call", "open", "missing", "old" };
    const char *words = getenv("GPU_CPU_FAIL");
    char name[32] = "";
    long number = 1;
    int device = 0;
    prints_calls = words && strcmp(words, "count") == 0;
    if (!words || sscanf(words, "nccl_%31[a-z]:%ld@%d", name, &number, &device) < 1) return false;
    for (int k = 1; k < GPU_CPU_NCCL_FAULTS; k++)
        if (strcmp(name, names[k]) == 0) gpu_cpu_nccl_fault((GpuCpuNcclFault)k, device, number - 1);
    if (!fault.kind) gpu_cpu_die("there is no failure %s", words);
    gpu_cpu_deadlock(0);
    return differing_hang = true;
}();

extern "C" int gpu_cpu_nccl_most(void)
{
    const int most = most_resident;
    most_resident = 0;
    return most;
}

extern "C" Status nccl_open(Nccl *nccl)
{
    *nccl = Nccl{};
    if (fault.kind == GPU_CPU_NCCL_MISSING) return fail(BAD_OPTION, "the library NCCL cannot be opened: libnccl.so.2: no such file");
    nccl->name = "NCCL";
    nccl->GetVersion         = get_version;
    nccl->GetUniqueId        = get_id;
    nccl->CommInitRankConfig = init;
    nccl->CommFinalize       = finalize;
    nccl->CommDestroy        = destroy;
    nccl->CommAbort          = abort_comm;
    nccl->CommGetAsyncError  = async_error;
    nccl->GetErrorString     = error_string;
    nccl->GetLastError       = get_last_error;
    nccl->GroupStart         = group_start;
    nccl->GroupEnd           = group_end;
    nccl->AllReduce          = all_reduce;
    nccl->ReduceScatter      = reduce_scatter;
    nccl->Reduce             = reduce;
    nccl->AllGather          = all_gather;
    nccl->Broadcast          = broadcast;
    nccl->Send               = send;
    nccl->Recv               = recv;
    return OK;
}

extern "C" void nccl_close(Nccl *) {}
