/* Arrays in memory and in .npy files, and the cache of index arrays. The files of a cache may be of any
 * origin, so an array is used only if its header equals the expected one byte for byte. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "base/random.h"
#include "base/seam.h"
#include "data/npy_array.h"

/* ---- arrays ---- */

static const struct { int width; const char *descr; } types[] = {
    [NPY_I16] = { 2, "<i2" }, [NPY_I32] = { 4, "<i4" }, [NPY_U32] = { 4, "<u4" }, [NPY_I64] = { 8, "<i8" },
};

int npy_array_width(NpyType type) { return types[type].width; }

static size_t index_bytes(const NpyArray *x)
{
    return (size_t)x->rows * (size_t)x->columns * (size_t)types[x->type].width;
}

Status npy_array_make(NpyArray *index)
{
    size_t items = (size_t)index->rows * (size_t)index->columns;
    index->data = index->made = calloc(items + 1, (size_t)types[index->type].width);
    if (index->made) return OK;
    return fail(NO_MEMORY, "an index of %" PRId64 " rows (%zu bytes) does not fit into memory", index->rows,
                index_bytes(index));
}

void npy_array_close(NpyArray *index)
{
    free(index->made);
    if (index->map.data) file_unmap(&index->map);
    *index = (NpyArray){ 0 };
}

int64_t npy_array_at(const NpyArray *index, int64_t i)
{
    switch (index->type) {
    case NPY_I16: return ((const int16_t  *)index->data)[i];
    case NPY_I32: return ((const int32_t  *)index->data)[i];
    case NPY_U32: return ((const uint32_t *)index->data)[i];
    case NPY_I64: return ((const int64_t  *)index->data)[i];
    }
    return 0;
}

/* ---- the header of .npy files ---- */

/* Version 1.0 (numpy.lib.format): 10 bytes of magic, version and length, then a Python dictionary as text,
 * padded with spaces and a newline to a multiple of 64, so that the data is aligned. */

enum { NPY_HEADER = 128, NPY_FIXED = 10 };

static void npy_header(char header[NPY_HEADER + 1], const NpyArray *index)
{
    char shape[64];
    snprintf(shape, sizeof shape, index->columns == 1 ? "(%" PRId64 ",)" : "(%" PRId64 ", %d)", index->rows,
             index->columns);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = NPY_HEADER - NPY_FIXED;
    header[9] = 0;
    int used = snprintf(header + NPY_FIXED, NPY_HEADER - NPY_FIXED,
                        "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", types[index->type].descr,
                        shape);
    memset(header + NPY_FIXED + used, ' ', (size_t)(NPY_HEADER - NPY_FIXED - used));
    header[NPY_HEADER - 1] = '\n';
    header[NPY_HEADER] = 0;
}

/* ---- the cache ---- */

Status npy_cache_name(NpyCache *cache, const char *dir, const char *kind, const char *part,
                      const char *description)
{
    cache->description = description;
    int used = snprintf(cache->base, sizeof cache->base, "%s/%016" PRIx64 "-%s-%s-", dir,
                        random_key(0, description), kind, part);
    if (used >= (int)sizeof cache->base)
        return fail(BAD_OPTION, "--data-cache-path %.80s...: the path is longer than %zu bytes", dir,
                    sizeof cache->base - 1);
    return folder_make(dir);
}

static void cache_path(char path[1024], const NpyCache *cache, const char *name, const char *ending)
{
    snprintf(path, 1024, "%s%s.%s", cache->base, name, ending);
}

bool npy_cache_holds(const NpyCache *cache)
{
    char    path[1024];
    FileMap map;
    cache_path(path, cache, "description", "txt");
    if (!file_exists(path) || file_map(&map, path) != OK) return false;
    bool same = map.size == strlen(cache->description) && !memcmp(map.data, cache->description, map.size);
    file_unmap(&map);
    return same;
}

/* Maps an array that has its type, rows and columns. False if the file is missing, truncated or of another
 * shape. */
static bool array_map(NpyArray *x, const NpyCache *cache, const char *name)
{
    char path[1024], header[NPY_HEADER + 1];
    cache_path(path, cache, name, "npy");
    if (!file_exists(path) || file_map(&x->map, path) != OK) return false;
    npy_header(header, x);
    if (x->map.size != NPY_HEADER + index_bytes(x) || memcmp(x->map.data, header, NPY_HEADER)) return false;
    x->data = x->map.data + NPY_HEADER;
    return true;
}

static void elements_drop(const NpyEntry *entry)
{
    for (int i = 0; i < entry->members; i++) {
        NpyArray *x = entry->member[i].array, shape = npy_array(x->type, x->rows, x->columns);
        npy_array_close(x);
        *x = shape;
    }
}

/* Maps all or none of the arrays, which must be valid as well: the files are not trusted. */
static bool entry_map(const NpyCache *cache, const NpyEntry *entry)
{
    bool found = npy_cache_holds(cache);
    for (int i = 0; i < entry->members && found; i++)
        found = array_map(entry->member[i].array, cache, entry->member[i].name);
    if (found && entry->valid(entry->context)) return true;
    elements_drop(entry);
    return false;
}

/* A temporary name that no other writer uses: runs on many hosts, ranks and threads may write the same
 * array at once. The hash is of host, process, thread (the address of its stack) and time. */
static void part_name(char part[1100], const char *path)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    uint64_t process = random_key((uint64_t)getpid(), host);
    uint64_t thread  = random_mix((uint64_t)(uintptr_t)part, (uint64_t)seam.clock());
    snprintf(part, 1100, "%s.%016" PRIx64 ".part", path, random_mix(process, thread));
}

static Status contents_write(int fd, const char *path, const char *header, size_t header_bytes,
                             const void *data, size_t bytes)
{
    Status status = file_write(fd, path, header, header_bytes, 0);
    if (status == OK) status = file_write(fd, path, data, bytes, (int64_t)header_bytes);
    if (status == OK) return file_finish(fd, path);
    seam.close(fd);
    return status;
}

/* Like file_write_whole, but with a unique temporary name and without a sync of the directory: a lost
 * cache is rebuilt. */
static Status part_write(const char *path, const char *header, size_t header_bytes, const void *data,
                         size_t bytes)
{
    char part[1100];
    int  fd;
    part_name(part, path);
    TRY(file_create(&fd, part));
    Status status = contents_write(fd, part, header, header_bytes, data, bytes);
    if (status == OK) status = file_rename(part, path);
    if (status != OK) unlink(part);
    return status;
}

Status npy_cache_finish(const NpyCache *cache)
{
    char path[1024];
    cache_path(path, cache, "description", "txt");
    return part_write(path, "", 0, cache->description, strlen(cache->description));
}

/* Mapped pages are shared by all ranks of a host, so what was built is replaced by the mapping. */
Status npy_cache_open(const NpyCache *cache, const NpyEntry *entry)
{
    char     path[1024], header[NPY_HEADER + 1];
    NpyArray made[COUNT(entry->member)];
    if (entry_map(cache, entry)) return OK;
    TRY(entry->make(entry->context));
    for (int i = 0; i < entry->members; i++) {
        const NpyArray *x = entry->member[i].array;
        cache_path(path, cache, entry->member[i].name, "npy");
        npy_header(header, x);
        TRY(part_write(path, header, NPY_HEADER, x->data, index_bytes(x)));
    }
    TRY(npy_cache_finish(cache));
    for (int i = 0; i < entry->members; i++) {
        made[i] = *entry->member[i].array;
        entry->member[i].array->made = NULL;
    }
    bool mapped = entry_map(cache, entry);
    for (int i = 0; i < entry->members; i++) {
        if (mapped) npy_array_close(&made[i]);
        else        *entry->member[i].array = made[i];
    }
    return OK;
}
