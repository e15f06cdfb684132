/* The list of files and tensors of a foreign checkpoint, written one value after the other. */
#include "convert/weights/foreign_table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static void put(FILE *out, const void *value, size_t bytes) { fwrite(value, 1, bytes, out); }
static void put_number(FILE *out, int64_t value) { put(out, &value, sizeof value); }

static void put_text(FILE *out, const char *text)
{
    put_number(out, (int64_t)strlen(text));
    put(out, text, strlen(text));
}

/* Bytes of no file are those of an empty piece, which nobody reads. */
static void put_place(FILE *out, const ForeignFile *file, const char *data)
{
    int map = foreign_map_of(file, data);
    put_number(out, map < 0 ? 0 : map);
    put_number(out, map < 0 ? 0 : data - (const char *)file->map[map].data);
}

static void put_piece(FILE *out, const ForeignFile *file, const ForeignPiece *piece)
{
    put_place(out, file, piece->data);
    put(out, piece->offset, sizeof piece->offset);
    put(out, piece->shape, sizeof piece->shape);
    put(out, piece->stride, sizeof piece->stride);
}

Status foreign_table_write(char **table, size_t *bytes, const ForeignModel *model)
{
    const ForeignFile *file = &model->file;
    FILE *out = open_memstream(table, bytes);
    if (!out) return fail(NO_MEMORY, "%s: no memory for a list of its tensors", file->path);
    put(out, &file->position, sizeof file->position);
    put_number(out, file->states);
    put_number(out, model->naming);
    put_text(out, file->path);
    put_number(out, file->maps);
    for (int i = 0; i < file->maps; i++) {
        put_text(out, file->map[i].path);
        put_number(out, (int64_t)file->map[i].size);
    }
    put_number(out, (int64_t)file->sums);
    for (size_t i = 0; i < file->sums; i++) {
        const ForeignSum *s = &file->sum[i];
        put_place(out, file, s->data);
        put_place(out, file, s->name);
        put_number(out, (int64_t)s->bytes);
        put_number(out, (int64_t)s->name_bytes);
        put_number(out, s->crc);
    }
    put_number(out, file->tensors);
    for (int i = 0; i < file->tensors; i++) {
        const ForeignTensor *t = &file->tensor[i];
        put_text(out, t->name);
        put_number(out, t->kind);
        put_number(out, t->dtype);
        put_number(out, t->dims);
        put(out, t->shape, sizeof t->shape);
        put_number(out, t->pieces);
        for (int p = 0; p < t->pieces; p++) put_piece(out, file, &t->piece[p]);
    }
    bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) return OK;
    free(*table);
    *table = NULL;
    return fail(NO_MEMORY, "%s: no memory for a list of its tensors", file->path);
}

/* ---- reading ---- */

typedef struct { const char *at, *end; } Cursor;

static void get(Cursor *c, void *value, size_t bytes)
{
    CHECK((size_t)(c->end - c->at) >= bytes, "a list of tensors ends too early");
    memcpy(value, c->at, bytes);
    c->at += bytes;
}

static int64_t get_number(Cursor *c)
{
    int64_t value;
    get(c, &value, sizeof value);
    return value;
}

/* Allocated; the caller frees it. */
static Status get_text(Cursor *c, char **text)
{
    int64_t bytes = get_number(c);
    CHECK(bytes >= 0 && bytes <= c->end - c->at, "a name in a list of tensors is too long");
    *text = strndup(c->at, (size_t)bytes);
    c->at += bytes;
    return *text ? OK : fail(NO_MEMORY, "no memory for a list of tensors");
}

static Status get_file(Cursor *c, ForeignFile *file)
{
    char *path;
    int   index;
    TRY(get_text(c, &path));
    size_t size   = (size_t)get_number(c);
    Status status = *path || !size ? foreign_reserve(file, &index, path, size)
                                   : foreign_zeros(file, &index, size);
    free(path);
    return status;
}

static const char *get_place(Cursor *c, const ForeignFile *file)
{
    int64_t map = get_number(c), at = get_number(c);
    CHECK(map >= 0 && map < file->maps, "a list of tensors names file %lld of %d", (long long)map,
          file->maps);
    return (const char *)file->map[map].data + at;
}

static Status get_sum(Cursor *c, ForeignFile *file)
{
    ForeignSum sum = { .data = get_place(c, file) };
    sum.name = get_place(c, file);
    sum.bytes = (size_t)get_number(c);
    sum.name_bytes = (size_t)get_number(c);
    sum.crc = (uint32_t)get_number(c);
    return foreign_sum(file, &sum);
}

static Status get_piece(Cursor *c, ForeignFile *file, int tensor)
{
    ForeignPiece piece = { .data = get_place(c, file) };
    get(c, piece.offset, sizeof piece.offset);
    get(c, piece.shape, sizeof piece.shape);
    get(c, piece.stride, sizeof piece.stride);
    return foreign_piece(file, tensor, &piece);
}

static Status get_tensor(Cursor *c, ForeignFile *file)
{
    char   *name;
    int64_t shape[FOREIGN_DIMS];
    int     tensor = 0;
    TRY(get_text(c, &name));
    ForeignKind kind = (ForeignKind)get_number(c);
    Dtype dtype = (Dtype)get_number(c);
    int   dims  = (int)get_number(c);
    get(c, shape, sizeof shape);
    Status status = foreign_tensor_of(file, &tensor, kind, name, dtype, dims, shape);
    free(name);
    int64_t pieces = get_number(c);
    for (int64_t p = 0; p < pieces && status == OK; p++) status = get_piece(c, file, tensor);
    return status;
}

static Status get_all(Cursor *c, ForeignFile *file)
{
    char *path;
    TRY(get_text(c, &path));
    foreign_begin(file, path);
    free(path);
    int64_t files = get_number(c);
    for (int64_t i = 0; i < files; i++) TRY(get_file(c, file));
    int64_t sums = get_number(c);
    for (int64_t i = 0; i < sums; i++) TRY(get_sum(c, file));
    int64_t tensors = get_number(c);
    for (int64_t i = 0; i < tensors; i++) TRY(get_tensor(c, file));
    return foreign_finish(file);
}

static void get_position(Cursor *c, ForeignPosition *position, bool *states)
{
    get(c, position, sizeof *position);
    *states = get_number(c) != 0;
}

void foreign_table_position(ForeignPosition *position, bool *states, const char *table, size_t bytes)
{
    Cursor c = { table, table + bytes };
    get_position(&c, position, states);
}

Status foreign_table_read(ForeignModel *model, const char *table, size_t bytes)
{
    Cursor c = { table, table + bytes };
    ForeignPosition position;
    bool            states;
    *model = (ForeignModel){ .step = -1, .samples = -1 };
    get_position(&c, &position, &states);
    model->naming = (Naming)get_number(&c);
    Status status = get_all(&c, &model->file);
    model->file.position = position, model->file.states = states;
    if (status != OK) foreign_model_close(model);
    return status;
}
