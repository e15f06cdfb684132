/* The values of a pickle: their memory, the check that they are a tree of bounded size, and access. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "convert/torch/pickle_internal.h"

enum { VALUES_A_CHUNK = 1024, UNFOLDED_MULTIPLE = 64, UNFOLDED_BASE = 65536 };

/* ---- memory ---- */

Status pickle_refuse(const PickleReader *r, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    fail_list(BAD_FILE, format, words);
    va_end(words);
    return fail_prefix(BAD_FILE, "%s: pickle, byte %zu: ", r->in.path, reader_offset(&r->in));
}

static Status block_add(PickleBlocks *blocks, PickleReader *r, size_t bytes)
{
    TRY(ARRAY_RESERVE(blocks->block, blocks->room, blocks->blocks + 1));
    void *block = calloc(1, bytes);
    if (!block) return fail(NO_MEMORY, "%s: no memory for %zu bytes of a pickle", r->in.path, bytes);
    blocks->block[blocks->blocks++] = block;
    return OK;
}

Status pickle_block(void *block, PickleReader *r, size_t bytes)
{
    PickleBlocks *others = &r->memory->others;
    TRY(block_add(others, r, bytes + 1));
    memcpy(block, &others->block[others->blocks - 1], sizeof(void *));
    return OK;
}

Status pickle_new(PickleValue **value, PickleReader *r, PickleKind kind)
{
    PickleMemory *m = r->memory;
    if (m->values >= UINT32_MAX) return pickle_refuse(r, "more than 2^32 values");
    if (m->values % VALUES_A_CHUNK == 0) TRY(block_add(&m->chunks, r, VALUES_A_CHUNK * sizeof **value));
    *value = (PickleValue *)m->chunks.block[m->values / VALUES_A_CHUNK] + m->values % VALUES_A_CHUNK;
    (*value)->kind = kind;
    (*value)->id   = (uint32_t)m->values++;
    return OK;
}

Status pickle_add(PickleValue *list, PickleReader *r, PickleValue *item)
{
    if (list->items >= UINT32_MAX / 2) return pickle_refuse(r, "a list of more than 2^31 values");
    TRY(ARRAY_RESERVE(list->item, list->room, (size_t)list->items + 1));
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

void pickle_memory_free(PickleMemory *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->values; i++) {
        PickleValue *v = (PickleValue *)m->chunks.block[i / VALUES_A_CHUNK] + i % VALUES_A_CHUNK;
        if (has_items(v)) free(v->item);
    }
    for (size_t i = 0; i < m->chunks.blocks; i++) free(m->chunks.block[i]);
    for (size_t i = 0; i < m->others.blocks; i++) free(m->others.block[i]);
    free(m->chunks.block);
    free(m->others.block);
    free(m->storage);
    free(m->tensor);
    free(m);
}

PickleStorage *pickle_storage(const Pickle *p, int i)
{
    return i < p->memory->storages ? p->memory->storage[i] : NULL;
}

const PickleTensor *pickle_tensor(const Pickle *p, int i)
{
    return i < p->memory->tensors ? p->memory->tensor[i] : NULL;
}

/* ---- the check ---- */

/* The i-th value that a value holds; false after the last. *child may be NULL. */
static bool child_of(const PickleValue *v, uint32_t i, const PickleValue **child)
{
    if (has_items(v)) {
        if (i < v->items) *child = v->item[i];
        return i < v->items;
    }
    if (v->kind != PICKLE_RECORD) return false;
    const PickleRecord *c = v->record;
    const PickleValue  *held[] = { c->name, c->arguments, c->state, c->list, c->dict };
    if (i < 5) *child = held[i];
    return i < 5;
}

typedef struct { const PickleValue *value; uint32_t next; } Step;
/* Of each value by its id. weight: values it unfolds to, 0 while unknown; height: levels below
 * and with it. */
typedef struct { uint64_t *weight; uint8_t *open; uint16_t *height; } Marks;

static Status walk(const PickleReader *r, const PickleValue *root, Marks *marks)
{
    Step     path[PICKLE_DEPTH] = { { root, 0 } };
    uint64_t most = (uint64_t)UNFOLDED_MULTIPLE * reader_offset(&r->in) + UNFOLDED_BASE;
    for (int depth = 1; depth > 0;) {
        Step              *step  = &path[depth - 1];
        const PickleValue *v     = step->value, *child = NULL;
        uint64_t          *whole = &marks->weight[v->id];
        if (step->next == 0) marks->open[v->id] = 1, *whole = 1, marks->height[v->id] = 1;
        if (!child_of(v, step->next, &child)) {
            marks->open[v->id] = 0;
            depth--;
            continue;
        }
        if (child && marks->open[child->id]) return pickle_refuse(r, "a value contains itself");
        if (child && !marks->weight[child->id]) { /* go down; this child is looked at again after */
            if (depth == PICKLE_DEPTH) return pickle_refuse(r, "values nest deeper than %d", PICKLE_DEPTH);
            path[depth++] = (Step){ child, 0 };
            continue;
        }
        step->next++;
        if (!child) continue;
        *whole += marks->weight[child->id];
        if (*whole > most)
            return pickle_refuse(r, "its values repeat to more than %llu, %d times its bytes",
                                 (unsigned long long)most, UNFOLDED_MULTIPLE);
        uint16_t height = (uint16_t)(marks->height[child->id] + 1);
        if (height > marks->height[v->id]) marks->height[v->id] = height;
        if (height > PICKLE_DEPTH) return pickle_refuse(r, "values nest deeper than %d", PICKLE_DEPTH);
    }
    return OK;
}

Status pickle_check(const PickleReader *r, const PickleValue *root)
{
    size_t values = r->memory->values;
    Marks  marks  = { calloc(values, sizeof *marks.weight), calloc(values, 1),
                      calloc(values, sizeof *marks.height) };
    Status status = marks.weight && marks.open && marks.height
                  ? walk(r, root, &marks) : fail(NO_MEMORY, "%s: no memory to check a pickle", r->in.path);
    free(marks.weight);
    free(marks.open);
    free(marks.height);
    return status;
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
