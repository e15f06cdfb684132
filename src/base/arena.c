#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

enum { PAGE = 4096, LOG_FIRST = 64, LOG_PUSHES = 1 << 20 };      /* pushes a log has memory for at first, and at most */
struct ArenaPush { size_t at; int tag; };

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static void give_back(char *at, size_t bytes)
{
#ifdef JOTUN_DEBUG
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);          /* alignment gaps were never given out */
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

Status arena_open(Arena *a, const char *name, size_t bytes)
{
    memset(a, 0, sizeof *a);
    a->name = name;
    if (bytes < SIZE_MAX / 2) {
        a->size = bytes;                               /* what was asked: a dry run's count is what is taken */
        void *at = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        a->base = at == MAP_FAILED ? NULL : at;
    }
    if (!a->base) {
        a->size = 0;
        return fail(NO_MEMORY, "arena %s: the system does not give %zu bytes", name, bytes);
    }
    for (size_t at = 0; at < a->size; at += PAGE) *(volatile char *)(a->base + at) = 0;   /* not in step 1 */
    give_back(a->base, a->size);
    return OK;
}

void arena_open_within(Arena *a, const char *name, Arena *parent, const char *what, size_t bytes)
{
    arena_dry(a, name);
    if (parent->dry) return;
    a->base   = arena_push(parent, what, bytes);
    a->size   = bytes;
    a->within = true;
    a->dry    = false;
}

void arena_close(Arena *a)
{
    if (a->base && !a->within) {
        ASAN_UNPOISON_MEMORY_REGION(a->base, a->size);
        munmap(a->base, a->size ? a->size : 1);
    }
    free(a->log);
    memset(a, 0, sizeof *a);
}

static int tag_of(Arena *a, const char *what)
{
    for (int i = 0; i < a->tags; i++)
        if (a->tag[i].name == what || strcmp(a->tag[i].name, what) == 0) return i;
    if (a->tags == ARENA_TAGS) return ARENA_TAGS - 1;
    a->tag[a->tags].name = a->tags == ARENA_TAGS - 1 ? "all others" : what;
    return a->tags++;
}

static void log_grow(Arena *a, const char *what)
{
    CHECK(a->logs < LOG_PUSHES, "arena %s: %s is push %d; is a reset missing?", a->name, what, LOG_PUSHES + 1);
    a->log_size = a->log_size ? 2 * a->log_size : LOG_FIRST;
    a->log      = realloc(a->log, a->log_size * sizeof *a->log);
    CHECK(a->log, "arena %s: no memory for a log of %zu pushes", a->name, a->log_size);
}

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
    CHECK(bytes < SIZE_MAX / 2, "arena %s: %s asks %zu bytes", a->name, what, bytes);
    size_t taken = round_up(bytes, ARENA_ALIGN);
    CHECK(a->dry || taken <= a->size - a->used, "arena %s is full: %s asks %zu bytes, %zu of %zu are left",
          a->name, what, taken, a->size - a->used, a->size);
    tag_push(a, what, taken);
    char *at = a->dry ? NULL : a->base + a->used;
    a->used += taken;
    if (a->used > a->peak) a->peak = a->used;        /* the planner reads the peak, not the end */
    if (at) ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    return at;
}

size_t arena_mark(const Arena *a) { return a->used; }

void arena_reset(Arena *a, size_t mark)
{
    CHECK(mark <= a->used, "arena %s: reset to %zu, but only %zu bytes are used", a->name, mark, a->used);
    if (a->base) give_back(a->base + mark, a->used - mark);
    while (a->logs && a->log[a->logs - 1].at >= mark) {
        const struct ArenaPush *push = &a->log[--a->logs];
        a->tag[push->tag].bytes -= a->used - push->at;
        a->used = push->at;
    }
    CHECK(a->used == mark, "arena %s: %zu is not the mark of a push", a->name, mark);
}
