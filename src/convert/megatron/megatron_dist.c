/* Megatron-LM's torch_dist format: .metadata is a pickle that says of each tensor its shape and of each
 * stored part its place; a .distcp file is a row of files of torch.save, one for each part. Layers, and
 * experts, are the first dims of one tensor, or tensors of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "convert/megatron/megatron_internal.h"

enum { DIST_DIMS = 6 };

/* A tensor of .metadata. Its own first dims are layers and experts where the name has no numbers of them. */
typedef struct {
    const PickleValue *key;                /* TEXT */
    ForeignKind        kind;
    size_t             prefix;             /* bytes of the key before the weight's */
    MegatronName       name;
    int64_t            layers, experts;    /* of those dims; 1 where they are none */
    int                skip, dims;         /* how many they are; all dims of the tensor */
    int64_t            size[DIST_DIMS];
    int               *index;              /* [layers][experts] of the ForeignFile, or NULL; owned */
} DistTensor;

typedef struct {
    MegatronRead *m;
    Pickle        metadata;
    TorchFile     common;
    DistTensor   *tensor;
    size_t        tensors;
    json_t       *by_key;                  /* index of each tensor */
} Dist;

bool megatron_is_dist(const char *folder)
{
    char path[1024];
    return path_join(path, folder, ".metadata") == OK && file_exists(path);
}

/* ---- what there is ---- */

/* Of this key without its first bytes; NULL: there is none. */
static DistTensor *tensor_find(const Dist *d, const PickleValue *key, size_t skipped)
{
    const json_t *index = json_object_getn(d->by_key, key->text + skipped, key->bytes - skipped);
    return index ? &d->tensor[json_integer_value(index)] : NULL;
}

static bool starts(const PickleValue *key, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return key->bytes >= bytes && memcmp(key->text, prefix, bytes) == 0;
}

static Status sizes_take(int64_t size[DIST_DIMS], int *dims, const PickleValue *v, const char *label,
                         const char *name)
{
    if (!v || v->kind != PICKLE_TUPLE || v->items > DIST_DIMS)
        return fail(BAD_FILE, "%s: '%s' has no shape of at most %d dimensions", label, name, DIST_DIMS);
    *dims = (int)v->items;
    for (int d = 0; d < *dims; d++)
        if (!pickle_integer(v->item[d], &size[d]) || size[d] < 0 || size[d] > (int64_t)1 << 40)
            return fail(BAD_FILE, "%s: '%s' has a shape that is none", label, name);
    return OK;
}

/* The kind of a state, and the bytes of `name` before that of the weight: "optimizer.state.exp_avg.", which
 * "chained_1." may precede. 0 of weights; false of what is neither, like buffers of data-parallel ranks. */
static bool state_prefix(size_t *bytes, ForeignKind *kind, const char *name)
{
    static const char *const names[FOREIGN_KINDS] = {
        [FOREIGN_MOMENT] = "exp_avg.", [FOREIGN_SQUARE] = "exp_avg_sq.", [FOREIGN_MASTER] = "fp32_param." };
    static const char chained[] = "chained_", state[] = "optimizer.state.";
    const char *at = name;
    *bytes = 0, *kind = FOREIGN_WEIGHT;
    if (strncmp(at, chained, sizeof chained - 1) == 0) {
        at += sizeof chained - 1;
        at += strspn(at, "0123456789");
        if (*at++ != '.') return false;
    }
    if (at == name && strncmp(at, "optimizer.", 10) != 0) return true;
    if (strncmp(at, state, sizeof state - 1) != 0) return false;
    at += sizeof state - 1;
    for (*kind = FOREIGN_MOMENT; *kind < FOREIGN_KINDS; ++*kind) {
        *bytes = (size_t)(at - name) + strlen(names[*kind]);
        if (strncmp(at, names[*kind], strlen(names[*kind])) == 0) return true;
    }
    return false;
}

/* One entry of state_dict_metadata. Random numbers and bytes are neither weights nor states. */
static Status tensor_take(Dist *d, const PickleValue *key, const PickleValue *entry, const char *label)
{
    char        name[224];
    DistTensor *t = &d->tensor[d->tensors];
    if (key->kind != PICKLE_TEXT) return fail(BAD_FILE, "%s: a name that is not text", label);
    if (starts(key, "optimizer.distributed.") && !*d->m->file->states_unread)
        foreign_leave_states(d->m->file, "%s: its optimizer states are the buffers of data-parallel ranks"
                             " (dp_reshardable), which are not read; saved with"
                             " --dist-ckpt-optim-fully-reshardable they are", d->m->folder);
    if (!pickle_is_record(entry, "torch.distributed.checkpoint.metadata.TensorStorageMetadata")) return OK;
    if (starts(key, "rng_state") || starts(key, "rerun_state_machine")) return OK;
    pickle_text(name, sizeof name, key);
    *t = (DistTensor){ .key = key, .layers = 1, .experts = 1 };
    if (!state_prefix(&t->prefix, &t->kind, name)) return OK;
    if (!megatron_name(&t->name, name + t->prefix)) return megatron_refuse(label, name);
    if (megatron_is_unused(&t->name)) return OK;
    TRY(sizes_take(t->size, &t->dims, pickle_get(entry, "size"), label, name));
    t->skip = (t->name.layer == MEGATRON_ALL) + (t->name.expert == MEGATRON_ALL);
    if (t->dims <= t->skip || t->dims - t->skip > FOREIGN_DIMS)
        return fail(BAD_FILE, "%s: tensor '%s' has %d dimensions", label, name, t->dims);
    if (t->name.layer == MEGATRON_ALL) t->layers = t->size[0];
    if (t->name.expert == MEGATRON_ALL) t->experts = t->size[t->skip - 1];
    if (t->layers > d->m->layers || t->experts > 65536)
        return fail(BAD_FILE, "%s: tensor '%s' has %lld layers, the argument num_layers is %d", label, name,
                    (long long)t->layers, d->m->layers);
    if (tensor_find(d, key, 0)) return fail(BAD_FILE, "%s: two tensors of one name", label);
    if (json_object_setn_new(d->by_key, key->text, key->bytes, json_integer((json_int_t)d->tensors)) != 0)
        return fail(BAD_FILE, "%s: '%s' is no name of a tensor", label, name);
    d->tensors++;
    return OK;
}

/* The first state that is not of its weight's shape, or has no weight; NULL: there is none. */
static const DistTensor *state_odd(const Dist *d)
{
    for (size_t i = 0; i < d->tensors; i++) {
        const DistTensor *t = &d->tensor[i], *weight = tensor_find(d, t->key, t->prefix);
        if (!weight || weight->dims != t->dims ||
            memcmp(weight->size, t->size, (size_t)t->dims * sizeof *t->size) != 0)
            return t;
    }
    return NULL;
}

/* States are all taken, or none. */
static void states_judge(Dist *d)
{
    char              name[224];
    const DistTensor *odd  = state_odd(d);
    bool              some = false;
    for (size_t i = 0; i < d->tensors; i++) some |= d->tensor[i].kind != FOREIGN_WEIGHT;
    if (!some) return;
    megatron_updates(&d->m->file->position, d->common.pickle.root);
    if (odd && !*d->m->file->states_unread)
        foreign_leave_states(d->m->file, "%s: '%s' has not the shape of its weight; states saved with"
                             " --dist-ckpt-optim-fully-reshardable are read", d->m->folder,
                             pickle_text(name, sizeof name, odd->key));
    megatron_leave_uncounted(d->m);
}

static bool is_read(const Dist *d, const DistTensor *t)
{
    return t->kind == FOREIGN_WEIGHT || !*d->m->file->states_unread;
}

static Status tensors_take(Dist *d, const char *label)
{
    const PickleValue *all = pickle_get(d->metadata.root, "state_dict_metadata");
    if (!all || all->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: not the metadata of a checkpoint", label);
    d->by_key = json_object();
    if (!(d->tensor = calloc((size_t)all->items / 2 + 1, sizeof *d->tensor)) || !d->by_key)
        return fail(NO_MEMORY, "%s: no memory for its tensors", label);
    for (uint32_t i = 0; i < all->items; i += 2) TRY(tensor_take(d, all->item[i], all->item[i + 1], label));
    states_judge(d);
    return OK;
}

/* ---- parts ---- */

/* A name of a file in this folder: it has no directories. */
static Status distcp_open(int *map, Dist *d, const PickleValue *path, const char *label)
{
    char name[128], full[1024];
    pickle_text(name, sizeof name, path);
    if (path->bytes >= sizeof name || memchr(path->text, '/', path->bytes) || !starts(path, "__"))
        return fail(BAD_FILE, "%s: a part in a file '%s', which is not one of its own", label, name);
    TRY(path_join(full, d->m->folder, name));
    for (*map = d->m->file->maps - 1; *map >= 0; --*map)       /* parts of one file follow each other */
        if (!strcmp(d->m->file->map[*map].path, full)) return OK;
    return foreign_map(d->m->file, map, full);
}

/* The tensors of one name: one for each layer and expert. The first part says their type. */
static Status tensors_make(Dist *d, DistTensor *t, Dtype dtype)
{
    char    name[96];
    int     dims = t->dims - t->skip;
    int64_t size[FOREIGN_DIMS];
    memcpy(size, t->size + t->skip, (size_t)dims * sizeof *size);
    if (!(t->index = calloc((size_t)(t->layers * t->experts) + 1, sizeof *t->index)))
        return fail(NO_MEMORY, "%s: no memory for its tensors", d->m->folder);
    for (int64_t i = 0; i < t->layers * t->experts; i++) {
        megatron_name_print(name, &t->name,
                            t->name.layer == MEGATRON_ALL ? (int)(i / t->experts) : t->name.layer,
                            t->name.expert == MEGATRON_ALL ? (int)(i % t->experts) : t->name.expert);
        int64_t rows = megatron_rows(d->m, name);
        if (rows > 0 && rows < size[0]) size[0] = rows;
        TRY(foreign_tensor(d->m->file, &t->index[i], t->kind, name, dtype, dims, size));
    }
    return OK;
}

/* A stored part at `offset` of the whole: a box for each of its layers and experts. Its tensor may lack
 * dims of size 1 in front. */
static Status part_place(Dist *d, DistTensor *t, const PickleTensor *part, const int64_t *offset,
                         const char *name)
{
    Dtype   dtype = F32;
    int64_t size[DIST_DIMS], stride[DIST_DIMS];
    int     missing = t->dims - part->dims;
    TRY(torch_weight_type(&dtype, part, d->m->folder, name));
    if (missing < 0)
        return fail(BAD_FILE, "%s: a part of tensor '%s' has %d dimensions", d->m->folder, name, part->dims);
    for (int k = 0; k < t->dims; k++) {
        size[k]   = k < missing ? 1 : part->size[k - missing];
        stride[k] = k < missing ? 0 : part->stride[k - missing];
        if (offset[k] < 0 || size[k] > t->size[k] || offset[k] > t->size[k] - size[k])
            return fail(BAD_FILE, "%s: a part of tensor '%s' reaches beyond it", d->m->folder, name);
    }
    if (!t->index) TRY(tensors_make(d, t, dtype));
    int64_t      width = (int64_t)dtype_width(dtype), boxes = 1;
    const char  *data  = (const char *)part->storage->data + part->offset * width;
    ForeignPiece piece = { .shape = { 1, 1, 1, 1 } };
    for (int k = 0; k < t->skip; k++) boxes *= size[k];
    for (int k = t->skip; k < t->dims; k++) {
        piece.offset[k - t->skip] = offset[k];
        piece.shape [k - t->skip] = size[k];
        piece.stride[k - t->skip] = stride[k];
    }
    for (int64_t i = 0; i < boxes; i++) {
        int64_t at = 0, inside = boxes, rest = i;        /* of the tensors; boxes of a layer, of an expert */
        piece.data = data;
        for (int k = 0; k < t->skip; k++, rest %= inside) {
            inside /= size[k];
            at = at * t->size[k] + offset[k] + rest / inside;
            piece.data += rest / inside * stride[k] * width;
        }
        if (d->m->file->tensor[t->index[at]].dtype != dtype)
            return fail(BAD_FILE, "%s: parts of tensor '%s' have two types", d->m->folder, name);
        TRY(foreign_kept_piece(d->m->file, t->index[at], piece));
    }
    return OK;
}

/* A range of a .distcp file, as the metadata says it. */
static Status range_open(TorchFile *out, Dist *d, const PickleValue *info, const char *label,
                         const char *name)
{
    const PickleValue *path  = pickle_get(info, "relative_path"),
                      *moves = pickle_get(info, "transform_descriptors");
    int64_t            at, bytes;
    int                map;
    if (!path || path->kind != PICKLE_TEXT || !pickle_integer(pickle_get(info, "offset"), &at)
        || !pickle_integer(pickle_get(info, "length"), &bytes) || at < 0 || bytes < 0)
        return fail(BAD_FILE, "%s: '%s' has no place in a file", label, name);
    if (moves && moves->kind != PICKLE_NONE)
        return fail(BAD_FILE, "%s: '%s' is compressed; saved without transforms it is read", label, name);
    TRY(distcp_open(&map, d, path, label));
    const FileMap *file = &d->m->file->map[map];
    if ((uint64_t)at > file->size || (uint64_t)bytes > file->size - (uint64_t)at)
        return fail(BAD_FILE,
                    "%s: '%s' at bytes %lld to %lld is outside of %s, of %zu, so it is truncated", label,
                    name, (long long)at, (long long)(at + bytes), file->path, file->size);
    return torch_file_read(out, d->m->file, file->data + at, (size_t)bytes, file->path);
}

static Status part_take(Dist *d, const PickleValue *where, const PickleValue *info, const char *label)
{
    char               name[224];
    const PickleValue *key = pickle_get(where, "fqn");
    if (!key || key->kind != PICKLE_TEXT) return fail(BAD_FILE, "%s: a part without a name", label);
    DistTensor *t = tensor_find(d, key, 0);
    if (!t || !is_read(d, t)) return OK;
    int64_t     offset[DIST_DIMS] = { 0 };
    int         dims = t->dims;
    TorchFile   file;
    pickle_text(name, sizeof name, key);
    const PickleValue *at = pickle_get(where, "offset");
    if (at && at->kind != PICKLE_NONE) TRY(sizes_take(offset, &dims, at, label, name));
    if (dims != t->dims)
        return fail(BAD_FILE, "%s: a part of '%s' has an offset of %d dimensions", label, name, dims);
    TRY(range_open(&file, d, info, label, name));
    const PickleValue *root = file.pickle.root;
    Status             status = root->kind == PICKLE_TENSOR
                                    ? part_place(d, t, root->tensor, offset, name)
                                    : fail(BAD_FILE, "%s: a part of '%s' is no tensor", label, name);
    torch_file_close(&file);
    return status;
}

static Status parts_take(Dist *d, const char *label)
{
    const PickleValue *all = pickle_get(d->metadata.root, "storage_data");
    if (!all || all->kind != PICKLE_DICT) return fail(BAD_FILE, "%s: it says of no part where it is", label);
    for (uint32_t i = 0; i < all->items; i += 2) TRY(part_take(d, all->item[i], all->item[i + 1], label));
    for (size_t i = 0; i < d->tensors; i++)
        if (!d->tensor[i].index && is_read(d, &d->tensor[i])) {
            char name[224];
            return fail(BAD_FILE, "%s: no part of tensor '%s' is there", label,
                        pickle_text(name, sizeof name, d->tensor[i].key));
        }
    return OK;
}

/* ---- arguments: common.pt, or since core 0.19 an object among the parts ---- */

static const PickleValue *common_part(const PickleValue *all, const PickleValue **info)
{
    for (uint32_t i = 0; all && all->kind == PICKLE_DICT && i < all->items; i += 2) {
        const PickleValue *key = pickle_get(all->item[i], "fqn");
        *info = all->item[i + 1];
        if (key && key->kind == PICKLE_TEXT && starts(key, "common_state")) return key;
    }
    return NULL;
}

static Status common_open(Dist *d, const char *label)
{
    char               path[1024];
    const PickleValue *info;
    TRY(path_join(path, d->m->folder, "common.pt"));
    if (file_exists(path)) {
        TRY(torch_open(&d->common, d->m->file, path));
    } else {
        if (!common_part(pickle_get(d->metadata.root, "storage_data"), &info))
            return fail(BAD_FILE, "%s: neither common.pt nor common_state, which say what the model is; copy "
                        "all files of the iteration", d->m->folder);
        TRY(range_open(&d->common, d, info, label, "common_state"));
    }
    megatron_position(&d->m->file->position, d->common.pickle.root);
    return megatron_arguments(d->m, pickle_get(d->common.pickle.root, "args"), path);
}

static Status dist_read(Dist *d, const char *path)
{
    int map;
    TRY(foreign_map(d->m->file, &map, path));
    TRY(pickle_open(&d->metadata, d->m->file->map[map].data, d->m->file->map[map].size, path));
    TRY(common_open(d, path));
    TRY(tensors_take(d, path));
    return parts_take(d, path);
}

Status megatron_dist_read(MegatronRead *m)
{
    char   path[1024];
    Dist   d = { .m = m };
    Status status = path_join(path, m->folder, ".metadata");
    if (status == OK) status = dist_read(&d, path);
    for (size_t i = 0; i < d.tensors; i++) free(d.tensor[i].index);
    pickle_close(&d.metadata);
    torch_file_close(&d.common);
    free(d.tensor);
    json_decref(d.by_key);
    return status;
}
