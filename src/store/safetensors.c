/* Reading and planning safetensors files. A file may come from anywhere, so the reader believes no number
 * in it before it is checked against the bytes that are there. */
#include "store/safetensors.h"
#include <stdlib.h>
#include <string.h>
#include "base/reader.h"
#include "store/tensor_entry.h"

/* The length prefix, the most bytes of a header, and the most memory of its JSON tree in multiples of
 * them. */
enum { LENGTH_BYTES = 8, HEADER_LIMIT = 16 << 20, HEADER_MULTIPLE = 32 };
/* The only key that is not a tensor: an object of strings. */
static const char METADATA[] = "__metadata__";

/* ---- reading: the length, the JSON, each entry, then the entries' byte ranges together ---- */

static Status metadata_check(const char *path, const json_t *metadata)
{
    const char *key;
    json_t     *value;
    if (!json_is_object(metadata)) return fail(BAD_FILE, "%s: %s is not an object", path, METADATA);
    json_object_foreach((json_t *)metadata, key, value)
        if (!json_is_string(value))
            return fail(BAD_FILE, "%s: %s has a value that is not a string", path, METADATA);
    return OK;
}

/* data_offsets count from the start of the data, which is at byte `base` of the file. */
static Status offsets_read(SafeTensor *tensor, const SafeFile *file, size_t base, const json_t *offsets)
{
    const char   *path  = file->map.path;
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return fail(BAD_FILE, "%s: tensor '%s' has no data_offsets [begin, end]", path, tensor->name);
    int64_t first = json_integer_value(begin), last = json_integer_value(end);
    if (first < 0 || last < first || (uint64_t)last > file->map.size - base)
        return fail(BAD_FILE,
                    "%s: tensor '%s' at bytes %lld to %lld is outside the %zu bytes of data, so the file is "
                    "truncated or damaged",
                    path, tensor->name, (long long)first, (long long)last, file->map.size - base);
    if ((size_t)(last - first) != tensor->bytes)
        return fail(BAD_FILE, "%s: tensor '%s' has %zu bytes by its shape, %lld by its data_offsets", path,
                    tensor->name, tensor->bytes, (long long)(last - first));
    tensor->at = base + (size_t)first;
    return OK;
}

static Status tensor_read(SafeTensor *tensor, const SafeFile *file, size_t base, const char *name,
                          const json_t *entry)
{
    LogicalTensor logical;
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return fail(BAD_FILE, "%s: a header entry is not { dtype, shape, data_offsets }", file->map.path);
    TRY(tensor_entry_read(&logical, file->map.path, name, json_object_get(entry, "dtype"),
                          json_object_get(entry, "shape")));
    *tensor = (SafeTensor){ .dtype = logical.dtype, .dims = logical.dims };
    memcpy(tensor->name, logical.name, sizeof tensor->name);
    memcpy(tensor->dim, logical.dim, sizeof tensor->dim);
    tensor->bytes = (size_t)tensor_entry_count(&logical) * dtype_width(logical.dtype);
    return offsets_read(tensor, file, base, json_object_get(entry, "data_offsets"));
}

static int offset_order(const void *a, const void *b)
{
    const SafeTensor *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    /* An empty tensor precedes the one at its offset. */
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors, sorted by offset, must cover the data exactly. The format demands it: a gap could hide
 * another file. */
static Status offsets_check(const SafeFile *file, size_t base)
{
    size_t next = base;
    for (int i = 0; i < file->tensors; i++) {
        const SafeTensor *t = &file->tensor[i];
        if (t->at != next)
            return fail(BAD_FILE,
                        "%s: tensor '%s' starts at byte %zu instead of %zu: tensors overlap or leave a gap",
                        file->map.path, t->name, t->at, next);
        next += t->bytes;
    }
    if (next != file->map.size)
        return fail(BAD_FILE, "%s: tensors end at byte %zu, the file at %zu", file->map.path, next,
                    file->map.size);
    return OK;
}

static Status tensors_read(SafeFile *file, size_t base, json_t *header)
{
    const char *name, *path = file->map.path;
    json_t     *entry;
    if (json_object_size(header) > TENSOR_LIMIT)
        return fail(BAD_FILE, "%s: more than %d tensors", path, TENSOR_LIMIT);
    file->tensor = calloc(json_object_size(header) + 1, sizeof *file->tensor);
    if (!file->tensor)
        return fail(NO_MEMORY, "%s: no memory for a list of %zu tensors", path, json_object_size(header));
    json_object_foreach(header, name, entry) {
        if (strcmp(name, METADATA) == 0) TRY(metadata_check(path, entry));
        else TRY(tensor_read(&file->tensor[file->tensors++], file, base, name, entry));
    }
    qsort(file->tensor, (size_t)file->tensors, sizeof *file->tensor, offset_order);
    return offsets_check(file, base);
}

static Status header_read(SafeFile *file)
{
    const FileMap *map = &file->map;
    if (map->size < LENGTH_BYTES)
        return fail(BAD_FILE, "%s: %zu bytes are too few for a safetensors file", map->path, map->size);
    uint64_t bytes = little_endian(map->data, LENGTH_BYTES);
    TRY(file_fetched(map->path, map->data, map->size));
    if (bytes > HEADER_LIMIT)
        return fail(BAD_FILE, "%s: a header of %llu bytes; at most %d are read", map->path,
                    (unsigned long long)bytes, HEADER_LIMIT);
    if (bytes > map->size - LENGTH_BYTES)
        return fail(BAD_FILE, "%s: the header ends at byte %llu, the file at %zu, so it is truncated",
                    map->path, (unsigned long long)bytes + LENGTH_BYTES, map->size);
    if (bytes == 0 || map->data[LENGTH_BYTES] != '{')
        return fail(BAD_FILE, "%s: no safetensors header at byte 8", map->path);
    json_t *header;
    TRY(json_parse_bounded(&header, map->path, "header, ", (const char *)map->data + LENGTH_BYTES, bytes,
                           HEADER_MULTIPLE, JSON_REJECT_DUPLICATES));
    Status status = tensors_read(file, LENGTH_BYTES + bytes, header);
    json_decref(header);
    return status;
}

Status safetensors_open(SafeFile *file, const char *path)
{
    *file = (SafeFile){ 0 };
    Status status = file_map(&file->map, path);
    if (status == OK) status = header_read(file);
    if (status != OK) safetensors_close(file);
    return status;
}

void safetensors_close(SafeFile *file)
{
    free(file->tensor);
    if (file->map.data) file_unmap(&file->map);
    *file = (SafeFile){ 0 };
}

const SafeTensor *safetensors_find(const SafeFile *file, const char *name)
{
    for (int i = 0; i < file->tensors; i++)
        if (strcmp(file->tensor[i].name, name) == 0) return &file->tensor[i];
    return NULL;
}

LogicalTensor safetensors_logical(const SafeTensor *tensor)
{
    LogicalTensor logical = { .dims = tensor->dims, .dtype = tensor->dtype };
    memcpy(logical.name, tensor->name, sizeof logical.name);
    memcpy(logical.dim, tensor->dim, sizeof logical.dim);
    return logical;
}

/* ---- writing ---- */

/* Places wide types first, so that every tensor is aligned to its own width. Offsets count from the start
 * of the data. */
static Status offsets_assign(SafeTensor *tensor, int tensors, size_t *data_bytes)
{
    size_t next = 0;
    for (size_t width = 8; width > 0; width /= 2)
        for (int i = 0; i < tensors; i++) {
            SafeTensor *t = &tensor[i];
            if (dtype_width(t->dtype) != width) continue;
            t->at = next;
            t->bytes = width;
            for (int d = 0; d < t->dims; d++)
                if (__builtin_mul_overflow(t->bytes, (size_t)t->dim[d], &t->bytes))
                    return fail(BAD_SHAPE, "tensor '%s' has a shape beyond 2^64 bytes", t->name);
            if (__builtin_add_overflow(next, t->bytes, &next))
                return fail(BAD_SHAPE, "tensor '%s' ends beyond 2^64", t->name);
        }
    *data_bytes = next;
    return OK;
}

static Status header_fill(json_t *header, const SafeTensor *tensor, int tensors)
{
    /* Hugging Face's transformers library refuses a file without this entry. */
    json_object_set_new(header, METADATA, json_pack("{s:s}", "format", "pt"));
    for (int i = 0; i < tensors; i++) {
        const SafeTensor *t = &tensor[i];
        if (json_object_get(header, t->name))
            return fail(BAD_SHAPE, "two tensors of one file are named '%s'", t->name);
        LogicalTensor logical = safetensors_logical(t);
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_name(t->dtype), "shape",
                                  tensor_entry_shape(&logical), "data_offsets", (json_int_t)t->at,
                                  (json_int_t)(t->at + t->bytes));
        if (!entry || json_object_set_new(header, t->name, entry) != 0)
            return fail(BAD_SHAPE, "tensor '%s' cannot be written as JSON; its name must be UTF-8", t->name);
    }
    return OK;
}

/* The format allows spaces after the JSON; they make the data start at a multiple of 8. */
static Status header_text(json_t *json, char **header, size_t *header_bytes)
{
    size_t text   = json_dumpb(json, NULL, 0, JSON_COMPACT);
    size_t padded = (text + LENGTH_BYTES - 1) / LENGTH_BYTES * LENGTH_BYTES;
    if (padded > HEADER_LIMIT)
        return fail(BAD_SHAPE, "a safetensors header of %zu bytes; at most %d are read", padded,
                    HEADER_LIMIT);
    if (!(*header = malloc(LENGTH_BYTES + padded)))
        return fail(NO_MEMORY, "no memory for a header of %zu bytes", padded);
    for (int i = 0; i < LENGTH_BYTES; i++) (*header)[i] = (char)(padded >> 8 * i);
    memset(*header + LENGTH_BYTES, ' ', padded);
    json_dumpb(json, *header + LENGTH_BYTES, padded, JSON_COMPACT);
    *header_bytes = LENGTH_BYTES + padded;
    return OK;
}

Status safetensors_header(SafeTensor *tensor, int tensors, char **header, size_t *header_bytes,
                          size_t *file_bytes)
{
    size_t data_bytes = 0;
    *header = NULL;
    TRY(offsets_assign(tensor, tensors, &data_bytes));
    json_t *json   = json_object();
    Status  status = fail(NO_MEMORY, "no memory for a safetensors header");
    if (json) status = header_fill(json, tensor, tensors);
    if (status == OK) status = header_text(json, header, header_bytes);
    json_decref(json);
    TRY(status);
    for (int i = 0; i < tensors; i++) tensor[i].at += *header_bytes;
    *file_bytes = *header_bytes + data_bytes;
    return OK;
}
