/* A stack of pushes in one anonymous mapping. A log of the live pushes maps each of them to the name it is
 * counted under. */
#include "base/arena.h"
#include "base/array.h"
#include "base/log.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes that are not pushed are poisoned, so that AddressSanitizer reports a use after arena_reset. gcc
 * announces the sanitizer by a macro, clang by __has_feature. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/* Pushes that a log has memory for at first, and at most: more than that means that a reset is missing. */
enum { PAGE = 4096, HUGE = 2 << 20, LOG_FIRST = 64, LOG_PUSHES = 1 << 20 };
struct ArenaPush { size_t at; int tag; };      /* offset in bytes; index of tag[] */

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* Marks bytes as free. A debug build also overwrites them, so that a stale read gives NaN even without a
 * sanitizer. */
static void mark_free(const Arena *a, char *at, size_t bytes)
{
    if (a->memory) return;
#ifdef JOTUN_DEBUG
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);          /* the gaps left by alignment are still poisoned */
    memset(at, 0xff, bytes);                         /* a NaN in every floating type */
#endif
    ASAN_POISON_MEMORY_REGION(at, bytes);
}

void arena_dry(Arena *a, const char *name)
{
    memset(a, 0, sizeof *a);
    a->name = name;
    a->dry  = true;
}

/* The size is not rounded up, so that the real run takes what the dry run counted. Of an arena of several
 * huge pages the mapping is one longer, so that the base lies at the beginning of one; what is not touched
 * takes no memory. */
static void map_pages(Arena *a, size_t bytes)
{
    bool   huge = bytes >= 2 * HUGE;
    size_t mapped = huge ? bytes + HUGE : bytes ? bytes : 1;
    void  *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    a->mapping = at;
    a->mapped  = mapped;
    a->base    = huge ? (char *)round_up((size_t)at, HUGE) : at;
    a->size    = bytes;
    if (huge) madvise(a->base, bytes, MADV_HUGEPAGE);          /* refused: the pages are small */
}

/* Page faults happen here instead of in the first step; volatile keeps the compiler from removing the
 * stores. */
static void touch_part(void *context, int64_t begin, int64_t end)
{
    Arena *a = context;
    size_t last = (size_t)end * HUGE < a->size ? (size_t)end * HUGE : a->size;
    for (size_t at = (size_t)begin * HUGE; at < last; at += PAGE) *(volatile char *)(a->base + at) = 0;
}

double arena_huge_bytes(void)
{
    char line[256];
    unsigned long kib = 0;
    FILE *all = fopen("/proc/self/smaps_rollup", "re");
    while (all && !kib && fgets(line, sizeof line, all))
        if (sscanf(line, "AnonHugePages: %lu kB", &kib) != 1) kib = 0;
    if (all) fclose(all);
    return 1024.0 * (double)kib;
}

static Status open_for(Arena *a, const char *name, size_t bytes, Team *team)
{
    memset(a, 0, sizeof *a);
    a->name = name;
    if (bytes < SIZE_MAX / 2) map_pages(a, bytes);
    if (!a->base) {
        a->size = 0;
        char text[24];
        return fail(NO_MEMORY, "the system has no %s of memory for the %s part of a rank's memory",
                    log_bytes(text, (double)bytes), name);
    }
    int64_t parts = (int64_t)((a->size + HUGE - 1) / HUGE);
    if (team) team_for(team, parts, 1, touch_part, a);
    else touch_part(a, 0, parts);
    mark_free(a, a->base, a->size);
    return OK;
}

Status arena_open(Arena *a, const char *name, size_t bytes) { return open_for(a, name, bytes, NULL); }

Status arena_open_on(Arena *a, const char *name, size_t bytes, const ArenaMemory *memory, Team *team)
{
    if (!memory) return open_for(a, name, bytes, team);
    *a = (Arena){ .name = name, .memory = memory, .size = bytes };
    if (bytes < SIZE_MAX / 2) a->mapping = memory->take(memory->context, bytes ? bytes : 1);
    a->base = a->mapping;
    if (a->base) return OK;
    char text[24];
    a->size = 0;
    return fail(NO_MEMORY, "%s has no %s of memory for the %s part of a rank's memory; smaller micro-"
                "batches, --recompute-granularity full or more ranks take less", memory->where,
                log_bytes(text, (double)bytes), name);
}

void arena_open_within(Arena *a, const char *name, Arena *parent, const char *what, size_t bytes)
{
    arena_dry(a, name);
    if (parent->dry) return;
    a->base   = arena_push(parent, what, bytes);
    a->size   = bytes;
    a->memory = parent->memory;
    a->within = true;
    a->dry    = false;
}

void arena_close(Arena *a)
{
    if (a->base && !a->within && a->memory) a->memory->give(a->memory->context, a->mapping);
    else if (a->base && !a->within) {
        ASAN_UNPOISON_MEMORY_REGION(a->base, a->size);
        munmap(a->mapping, a->mapped);
    }
    free(a->log);
    memset(a, 0, sizeof *a);
}

/* The entry of `what`, made when there is none. Names are mostly the same literal, so comparing pointers
 * comes first. A linear search is enough: there are at most ARENA_TAGS names, and pushes are tensors, not
 * objects. */
static int tag_of(Arena *a, const char *what)
{
    for (int i = 0; i < a->tags; i++)
        if (a->tag[i].name == what || strcmp(a->tag[i].name, what) == 0) return i;
    if (a->tags == ARENA_TAGS) return ARENA_TAGS - 1;
    a->tag[a->tags].name = a->tags == ARENA_TAGS - 1 ? "all others" : what;
    return a->tags++;
}

/* Grows the log, so that a step which pushes no more than an earlier step allocates nothing. */
static void log_grow(Arena *a, const char *what)
{
    CHECK(a->logs < LOG_PUSHES, "arena %s: %s is push %d; is a reset missing?", a->name, what, LOG_PUSHES + 1);
    ARRAY_RESERVE_OR_STOP(a->log, a->log_size, a->logs ? a->logs + 1 : LOG_FIRST);
}

/* Logs a push at the current end and counts it under its name. */
static void tag_push(Arena *a, const char *what, size_t bytes)
{
    if (a->logs == a->log_size) log_grow(a, what);
    int       i   = tag_of(a, what);
    ArenaTag *tag = &a->tag[i];
    a->log[a->logs++] = (struct ArenaPush){ a->used, i };
    tag->bytes += bytes;
    if (tag->bytes > tag->peak) tag->peak = tag->bytes;
}

void *arena_push(Arena *a, const char *what, size_t bytes)
{
    CHECK(a->dry || a->base, "arena %s: %s pushed before the arena is open", a->name ? a->name : "?", what);
    CHECK(bytes < SIZE_MAX / 2, "arena %s: %s asks for %zu bytes", a->name, what, bytes);
    size_t taken = round_up(bytes, ARENA_ALIGN);
    CHECK(a->dry || taken <= a->size - a->used, "arena %s is full: %s asks for %zu bytes, %zu of %zu are left",
          a->name, what, taken, a->size - a->used, a->size);
    tag_push(a, what, taken);
    char *at = a->dry ? NULL : a->base + a->used;
    a->used += taken;
    if (a->used > a->peak) a->peak = a->used;        /* the size that a real arena needs */
    /* Only the bytes asked for: an access to the gap up to the alignment is an overrun, too. */
    if (at && !a->memory) ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    return at;
}

size_t arena_mark(const Arena *a) { return a->used; }

/* Pops the logged pushes down to the mark. A mark inside of a push leaves `used` different from it, which
 * is reported. */
void arena_reset(Arena *a, size_t mark)
{
    CHECK(mark <= a->used, "arena %s: reset to %zu, but only %zu bytes are used", a->name, mark, a->used);
    if (a->base) mark_free(a, a->base + mark, a->used - mark);
    while (a->logs && a->log[a->logs - 1].at >= mark) {
        const struct ArenaPush *push = &a->log[--a->logs];
        a->tag[push->tag].bytes -= a->used - push->at;
        a->used = push->at;
    }
    CHECK(a->used == mark, "arena %s: %zu is not the mark of a push", a->name, mark);
}
