/* The values of a pickle: their memory, the check that they are a tree of bounded size, and access. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "convert/torch/pickle_internal.h"

enum { CHUNK_BYTES = 16 << 10, ITEMS_LEAST = 4, UNFOLDED_MULTIPLE = 64, UNFOLDED_BASE = 65536 };

/* ---- memory ---- */

Status pickle_refuse(const PickleReader *r, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    fail_list(BAD_FILE, format, words);
    va_end(words);
    return fail_prefix(BAD_FILE, "%s: pickle, byte %zu: ", r->in.path, reader_offset(&r->in));
}

Status pickle_block(void *block, PickleReader *r, size_t bytes)
{
    struct PickleChunk *chunk = *r->memory;
    size_t taken = (bytes + 7) / 8 * 8, size = taken > CHUNK_BYTES ? taken : CHUNK_BYTES;
    if (!chunk || chunk->size - chunk->used < taken) {
        if (!(chunk = calloc(1, sizeof *chunk + size)))
            return fail(NO_MEMORY, "%s: no memory for %zu bytes of a pickle", r->in.path, size);
        chunk->before = *r->memory, chunk->size = size;
        *r->memory = chunk;
    }
    memcpy(block, &(char *){ chunk->data + chunk->used }, sizeof(char *));
    chunk->used += taken;
    return OK;
}

Status pickle_new(PickleValue **value, PickleReader *r, PickleKind kind)
{
    TRY(pickle_block(value, r, sizeof **value));
    (*value)->kind = kind;
    return OK;
}

Status pickle_add(PickleValue *list, PickleReader *r, PickleValue *item)
{
    if (list->items >= UINT32_MAX / 2) return pickle_refuse(r, "a list of more than 2^31 values");
    if (list->items == list->room) {
        PickleValue **more;
        uint32_t      room = list->room ? 2 * list->room : ITEMS_LEAST;
        TRY(pickle_block(&more, r, room * sizeof *more));
        if (list->items) memcpy(more, list->item, list->items * sizeof *more);
        list->item = more, list->room = room;
    }
    list->item[list->items++] = item;
    return OK;
}

/* A call may copy what it is given: a set its list, bytes their text. A pickle does so once with each; the
 * bound is on one that does so many times with the same. */
Status pickle_spend(PickleReader *r, size_t amount)
{
    r->spent += amount;
    if (r->spent <= 2 * reader_offset(&r->in)) return OK;
    return pickle_refuse(r, "calls copy more than twice the bytes that were read, which no writer does");
}

static bool has_items(const PickleValue *v) { return v->kind >= PICKLE_LIST && v->kind <= PICKLE_DICT; }

void pickle_close(Pickle *p)
{
    for (struct PickleChunk *chunk = p->memory, *before; chunk; chunk = before) {
        before = chunk->before;
        free(chunk);
    }
    *p = (Pickle){ 0 };
}

/* ---- the check ---- */

/* The i-th value that a value holds; false after the last. *child may be NULL. */
static bool child_of(const PickleValue *v, uint32_t i, PickleValue **child)
{
    if (has_items(v)) {
        if (i < v->items) *child = v->item[i];
        return i < v->items;
    }
    if (v->kind != PICKLE_RECORD) return false;
    const PickleRecord *c = v->record;
    PickleValue        *held[] = { c->name, c->arguments, c->state, c->list, c->dict };
    if (i < 5) *child = held[i];
    return i < 5;
}

/* From the root down every path, and up again; what several values hold is entered once. */
Status pickle_check(const PickleReader *r, PickleValue *root)
{
    struct { PickleValue *value; uint32_t next; } path[PICKLE_DEPTH] = { { root, 0 } };
    uint64_t most = (uint64_t)UNFOLDED_MULTIPLE * reader_offset(&r->in) + UNFOLDED_BASE;
    for (int depth = 1; depth > 0;) {
        uint32_t    *next = &path[depth - 1].next;
        PickleValue *v = path[depth - 1].value, *child = NULL;
        if (*next == 0) v->open = true, v->weight = 1, v->height = 1;
        if (!child_of(v, *next, &child)) {
            v->open = false;
            depth--;
            continue;
        }
        if (child && child->open) return pickle_refuse(r, "a value contains itself");
        if (child && !child->weight) { /* go down; this child is looked at again after */
            if (depth == PICKLE_DEPTH) return pickle_refuse(r, "values nest deeper than %d", PICKLE_DEPTH);
            path[depth].value = child, path[depth++].next = 0;
            continue;
        }
        ++*next;
        if (!child) continue;
        v->weight += child->weight;
        if (v->weight > most)
            return pickle_refuse(r, "its values repeat to more than %llu, %d times its bytes",
                                 (unsigned long long)most, UNFOLDED_MULTIPLE);
        uint16_t height = (uint16_t)(child->height + 1);
        if (height > v->height) v->height = height;
        if (height > PICKLE_DEPTH) return pickle_refuse(r, "values nest deeper than %d", PICKLE_DEPTH);
    }
    return OK;
}

/* ---- access ---- */

bool pickle_is_text(const PickleValue *v, const char *text)
{
    return v && (v->kind == PICKLE_TEXT || v->kind == PICKLE_BYTES) && v->bytes == strlen(text)
        && memcmp(v->text, text, v->bytes) == 0;
}

static const PickleValue *entry(const PickleValue *dict, const char *key)
{
    for (uint32_t i = dict->items; i >= 2; i -= 2)             /* the last of equal keys counts */
        if (pickle_is_text(dict->item[i - 2], key)) return dict->item[i - 1];
    return NULL;
}

const PickleValue *pickle_get(const PickleValue *v, const char *key)
{
    if (!v) return NULL;
    if (v->kind == PICKLE_DICT) return entry(v, key);
    if (v->kind != PICKLE_RECORD) return NULL;
    const PickleValue *state = v->record->state;
    if (state && state->kind == PICKLE_TUPLE && state->items) state = state->item[0];
    if (state && state->kind == PICKLE_DICT) return entry(state, key);
    return v->record->dict ? entry(v->record->dict, key) : NULL;
}

const char *pickle_text(char *out, size_t bytes, const PickleValue *v)
{
    size_t used = 0;
    if (v && (v->kind == PICKLE_TEXT || v->kind == PICKLE_BYTES))
        for (; used < v->bytes && used + 1 < bytes; used++) {
            unsigned char c = (unsigned char)v->text[used];
            out[used] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
        }
    out[used] = 0;
    return out;
}

bool pickle_integer(const PickleValue *v, int64_t *integer)
{
    if (!v || (v->kind != PICKLE_INT && v->kind != PICKLE_BOOL)) return false;
    *integer = v->integer;
    return true;
}

bool pickle_real(const PickleValue *v, double *real)
{
    int64_t integer;
    if (pickle_integer(v, &integer)) *real = (double)integer;
    else if (v && v->kind == PICKLE_FLOAT) *real = v->real;
    else return false;
    return true;
}

bool pickle_is_record(const PickleValue *v, const char *name)
{
    if (!v || v->kind != PICKLE_RECORD || !v->record->name) return false;
    const PickleValue *g = v->record->name;
    size_t             all = strlen(name);
    return all == (size_t)g->module_bytes + 1 + g->name_bytes && !memcmp(name, g->module, g->module_bytes)
        && name[g->module_bytes] == '.' && !memcmp(name + g->module_bytes + 1, g->name, g->name_bytes);
}
