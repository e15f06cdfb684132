/* The two formats of torch.save, and their tensors as pieces of a ForeignFile. */
#include "convert/torch/torch_file.h"
#include <stdlib.h>
#include <string.h>
#include "base/reader.h"

/* ---- zip archives: NAME/data.pkl, NAME/byteorder and a storage in each NAME/data/KEY ---- */

/* The folder of data.pkl, with its slash; an archive has one. */
static Status prefix_find(const char **prefix, size_t *bytes, const ZipArchive *zip, const char *label)
{
    static const char pickle[] = "data.pkl";
    const size_t      length   = sizeof pickle - 1;
    *prefix = NULL;
    for (size_t i = 0; i < zip->entries; i++) {
        const ZipEntry *e = &zip->entry[i];
        if (e->name_bytes < length || memcmp(e->name + e->name_bytes - length, pickle, length) != 0) continue;
        size_t      before = e->name_bytes - length;
        const void *slash  = memchr(e->name, '/', before);
        if (before > 0 && slash != e->name + before - 1) continue;
        if (*prefix) return fail(BAD_FILE, "%s: two files data.pkl in one archive", label);
        *prefix = e->name;
        *bytes  = before;
    }
    if (*prefix) return OK;
    return fail(BAD_FILE, "%s: a zip archive without data.pkl, so not of torch.save", label);
}

/* data: of the storage in the file, NULL: it is not there */
static Status storage_set(PickleStorage *s, const uint8_t *data, size_t bytes, int i, const char *where,
                          const char *label)
{
    size_t width = torch_type_width(s->type), needed = (size_t)(s->first + s->count) * width;
    if (!data)
        return fail(BAD_FILE, "%s: a tensor's storage is not in the %s (number %d)", label,
                    where, i);
    if (bytes < needed)
        return fail(BAD_FILE, "%s: a storage of %zu bytes has %zu in the %s (number %d)", label,
                    needed, bytes, where, i);
    s->data = data + (size_t)s->first * width;
    return OK;
}

static Status storages_from_zip(const TorchFile *file, const char *prefix, size_t prefix_bytes,
                                const char *label)
{
    char name[256] = "data/";
    int  i = 0;
    for (PickleStorage *s = file->pickle.storages; s; s = s->next, i++) {
        memcpy(name + 5, s->key, s->key_bytes);                /* at most 200 bytes */
        const ZipEntry *e = zip_find(&file->zip, prefix, prefix_bytes, name, 5 + s->key_bytes);
        TRY(storage_set(s, e ? e->data : NULL, e ? e->bytes : 0, i, "archive", label));
    }
    return OK;
}

static Status zip_read(TorchFile *file, const uint8_t *data, size_t size, const char *label)
{
    const char *prefix = NULL;
    size_t      bytes  = 0;
    TRY(zip_open(&file->zip, data, size, label));
    TRY(prefix_find(&prefix, &bytes, &file->zip, label));
    const ZipEntry *order = zip_find(&file->zip, prefix, bytes, "byteorder", 9);
    if (zip_find(&file->zip, prefix, bytes, "constants.pkl", 13))
        return fail(BAD_FILE,
                    "%s: a TorchScript program; torch.save(model.state_dict(), ...) writes its weights",
                    label);
    if (order && (order->bytes != 6 || memcmp(order->data, "little", 6) != 0))
        return fail(BAD_FILE,
                    "%s: a big-endian file; torch.load and torch.save on a little-endian machine convert it",
                    label);
    const ZipEntry *pickle = zip_find(&file->zip, prefix, bytes, "data.pkl", 8);
    TRY(zip_check(pickle, label));
    TRY(pickle_open(&file->pickle, pickle->data, pickle->bytes, label));
    if (file->pickle.bytes != pickle->bytes)
        return fail(BAD_FILE, "%s: data.pkl has bytes after its pickle", label);
    return storages_from_zip(file, prefix, bytes, label);
}

/* ---- the older format: a magic number, a version, the machine's facts, the value, the storages' keys, each
 * a pickle; then of each storage the number of elements (int64) and the elements ---- */

enum { LEGACY_VERSION = 1001 };
static const uint8_t legacy_magic[10] = { 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };

static int by_key(const void *a, const void *b)
{
    const PickleStorage *x = *(PickleStorage *const *)a, *y = *(PickleStorage *const *)b;
    return names_compare(x->key, x->key_bytes, y->key, y->key_bytes);
}

/* Walks over the storages behind the pickles, and gives each to those of the pickle that have its key, which
 * are views of it. list: all of the pickle, by key */
static Status storages_walk(PickleStorage **list, size_t count, const PickleValue *keys, const uint8_t *data,
                            size_t size, const char *label)
{
    size_t used = 0;
    for (uint32_t i = 0; i < keys->items; i++) {
        const PickleValue *key = keys->item[i];
        size_t first = 0, high = count;
        if (key->kind != PICKLE_TEXT) return fail(BAD_FILE, "%s: a storage without a name", label);
        PickleStorage *wanted = &(PickleStorage){ .key = key->text, .key_bytes = (uint32_t)key->bytes };
        while (first < high) {                                             /* to the first with this key */
            size_t middle = first + (high - first) / 2;
            if (by_key(&list[middle], &wanted) < 0) first = middle + 1;
            else high = middle;
        }
        if (first == count || by_key(&list[first], &wanted) != 0)
            return fail(BAD_FILE, "%s: a storage that no tensor uses (number %u)", label, i);
        if (list[first]->data) return fail(BAD_FILE, "%s: two storages have one name", label);
        if (size - used < 8)
            return fail(BAD_FILE, "%s: it ends before storage %u, so it is truncated", label, i);
        uint64_t elements = little_endian(data + used, 8);
        size_t   width = torch_type_width(list[first]->type);
        used += 8;
        if (elements > (size - used) / width)
            return fail(BAD_FILE,
                        "%s: storage %u of %llu elements is longer than the %zu bytes that are left", label,
                        i, (unsigned long long)elements, size - used);
        for (size_t k = first; k < count && by_key(&list[k], &wanted) == 0; k++)
            TRY(storage_set(list[k], data + used, elements * width, (int)i, "file", label));
        used += elements * width;
    }
    return used == size ? OK : fail(BAD_FILE, "%s: %zu bytes after the last storage", label, size - used);
}

static Status storages_behind(const Pickle *p, const PickleValue *keys, const uint8_t *data, size_t size,
                              const char *label)
{
    size_t all = 0;
    int    i = 0;
    for (const PickleStorage *s = p->storages; s; s = s->next) all++;
    PickleStorage **list = calloc(all + 1, sizeof *list);
    if (!list) return fail(NO_MEMORY, "%s: no memory for a list of keys", label);
    for (PickleStorage *s = p->storages; s; s = s->next) list[i++] = s;
    qsort(list, all, sizeof *list, by_key);
    Status status = storages_walk(list, all, keys, data, size, label);
    free(list);
    i = 0;
    for (PickleStorage *s = p->storages; status == OK && s; s = s->next, i++)
        if (!s->data) status = storage_set(s, NULL, 0, i, "file", label);
    return status;
}

/* One of the pickles at the start, which must be of a kind. */
static Status next_pickle(Pickle *p, size_t *at, const uint8_t *data, size_t size, const char *label,
                          PickleKind kind)
{
    TRY(pickle_open(p, data + *at, size - *at, label));
    *at += p->bytes;
    if (p->root->kind == kind) return OK;
    pickle_close(p);
    return fail(BAD_FILE, "%s: not a file of torch.save in its older format", label);
}

static Status facts_read(size_t *at, const uint8_t *data, size_t size, const char *label)
{
    Pickle  p;
    int64_t value = 0;
    TRY(next_pickle(&p, at, data, size, label, PICKLE_BIG));
    bool magic =
        p.root->bytes == sizeof legacy_magic && !memcmp(p.root->text, legacy_magic, sizeof legacy_magic);
    pickle_close(&p);
    if (!magic) return fail(BAD_FILE, "%s: a pickle, but not of torch.save", label);
    TRY(next_pickle(&p, at, data, size, label, PICKLE_INT));
    value = p.root->integer;
    pickle_close(&p);
    if (value != LEGACY_VERSION)
        return fail(BAD_FILE, "%s: version %lld of torch.save's older format; %d is read", label,
                    (long long)value, LEGACY_VERSION);
    TRY(next_pickle(&p, at, data, size, label, PICKLE_DICT));
    bool little = !pickle_integer(pickle_get(p.root, "little_endian"), &value) || value;
    pickle_close(&p);
    return little ? OK
                  : fail(BAD_FILE,
                         "%s: a big-endian file; torch.load and torch.save on a little-endian machine "
                         "convert it",
                         label);
}

static Status legacy_read(TorchFile *file, const uint8_t *data, size_t size, const char *label)
{
    Pickle keys;
    size_t at = 0;
    TRY(facts_read(&at, data, size, label));
    TRY(pickle_open(&file->pickle, data + at, size - at, label));
    at += file->pickle.bytes;
    TRY(next_pickle(&keys, &at, data, size, label, PICKLE_LIST));
    Status status = storages_behind(&file->pickle, keys.root, data + at, size - at, label);
    pickle_close(&keys);
    return status;
}

/* Gives the checksums of the archive's entries to foreign_verify. */
static Status sums_give(ForeignFile *file, const ZipArchive *zip)
{
    for (const ZipEntry *e = zip->entry; e < zip->entry + zip->entries; e++)
        if (e->crc && e->bytes)
            TRY(foreign_sum(file, &(ForeignSum){ .data = (const char *)e->data, .bytes = (int64_t)e->bytes,
                            .name = e->name, .name_bytes = e->name_bytes, .sum = e->crc }));
    return OK;
}

Status torch_file_read(TorchFile *file, ForeignFile *sums, const uint8_t *data, size_t size,
                       const char *label)
{
    *file = (TorchFile){ 0 };
    Status status;
    TRY(file_fetched(label, data, size));
    if (size >= 4 && memcmp(data, "PK\3\4", 4) == 0)      status = zip_read(file, data, size, label);
    else if (size >= 2 && data[0] == 0x80 && data[1] <= 5) status = legacy_read(file, data, size, label);
    else status = fail(BAD_FILE, "%s: neither of the two formats of torch.save", label);
    if (status == OK && sums) status = sums_give(sums, &file->zip);
    if (status != OK) torch_file_close(file);
    return status;
}

void torch_file_close(TorchFile *file)
{
    pickle_close(&file->pickle);
    zip_close(&file->zip);
    *file = (TorchFile){ 0 };
}

/* ---- tensors ---- */

Status torch_open(TorchFile *torch, ForeignFile *file, const char *path)
{
    int map;
    TRY(foreign_map(file, &map, path));
    return torch_file_read(torch, file, file->map[map].data, file->map[map].size, path);
}

bool torch_shapes_equal(const PickleTensor *a, const PickleTensor *b)
{
    return a->dims == b->dims && memcmp(a->size, b->size, (size_t)a->dims * sizeof *a->size) == 0;
}

Status torch_weight_type(Dtype *dtype, const PickleTensor *t, const char *label, const char *name)
{
    if (torch_type_dtype(t->type, dtype) && dtype_is_float(*dtype)) return OK;
    return fail(BAD_FILE, "%s: tensor '%s' is of type %s, which no weight has; save it in float32, "
                "bfloat16 or float16", label, name, torch_type_name(t->type));
}

Status torch_piece(ForeignPiece *piece, const PickleTensor *t, const char *label, const char *name)
{
    if (t->dims > FOREIGN_DIMS)
        return fail(BAD_FILE, "%s: tensor '%s' has %d dimensions; at most %d are read", label, name, t->dims,
                    FOREIGN_DIMS);
    const char *memory = (const char *)t->storage->data;
    *piece = (ForeignPiece){ .data = memory + t->offset * (int64_t)torch_type_width(t->type) };
    for (int d = 0; d < FOREIGN_DIMS; d++) {
        piece->shape[d]  = d < t->dims ? t->size[d] : 1;
        piece->stride[d] = d < t->dims ? t->stride[d] : 0;
    }
    return OK;
}

Status torch_add(ForeignFile *file, ForeignKind kind, const PickleTensor *t, const char *label,
                 const char *name)
{
    Dtype        dtype;
    ForeignPiece piece;
    int          index;
    TRY(torch_weight_type(&dtype, t, label, name));
    TRY(torch_piece(&piece, t, label, name));
    TRY(foreign_tensor(file, &index, kind, name, dtype, t->dims, piece.shape));
    return foreign_piece(file, index, &piece);
}
