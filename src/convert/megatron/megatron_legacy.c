/* Megatron-LM's older format: a file of each tensor-, pipeline- and expert-parallel rank, with local numbers
 * of layers and experts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "convert/megatron/megatron_internal.h"

enum { NAME_BYTES = 160, RANKS_MAX = 65536, CHUNKS_MAX = 64 };
static const char file_name[] = "model_optim_rng.pt";

typedef struct { char name[NAME_BYTES]; const PickleTensor *tensor; } Named;
typedef struct { Named *item; size_t items, room; } NamedList;

typedef struct {
    MegatronRead *m;
    int        tp, pp, ep, chunks;         /* chunks: virtual stages of a rank */
    TorchFile *rank;                       /* [ep][pp][tp] */
    int       *layers;                     /* [chunks][pp], in the order of the model */
} Legacy;

/* ---- files ---- */

static Status rank_path(char out[1024], const char *folder, const Legacy *l, int t, int p, int e)
{
    char name[64];
    int  used = snprintf(name, sizeof name, "mp_rank_%02d", t);
    if (l->pp > 1) used += snprintf(name + used, sizeof name - (size_t)used, "_%03d", p);
    if (l->ep > 1) used += snprintf(name + used, sizeof name - (size_t)used, "_%03d", e);
    snprintf(name + used, sizeof name - (size_t)used, "/%s", file_name);
    return path_join(out, folder, name);
}

/* The first rank's file under any of the three forms of its name; whether it is there. */
static bool first_path(char out[1024], const char *folder)
{
    for (int parts = 0; parts < 3; parts++) {
        Legacy sizes = { .pp = parts > 0 ? 2 : 1, .ep = parts > 1 ? 2 : 1 };
        if (rank_path(out, folder, &sizes, 0, 0, 0) == OK && file_exists(out)) return true;
    }
    return false;
}

bool megatron_is_legacy(const char *folder)
{
    char path[1024];
    return first_path(path, folder);
}

static Status file_open(Legacy *l, TorchFile *rank, const char *path)
{
    int map;
    TRY(foreign_map(l->m->file, &map, path));
    const FileMap *mapped = &l->m->file->map[map];
    TRY(torch_file_read(rank, mapped->data, mapped->size, path));
    return torch_sums(l->m->file, rank);
}

static const PickleValue *chunk_of(const TorchFile *rank, int chunk, int chunks)
{
    char key[24] = "model";
    if (chunks > 1) snprintf(key, sizeof key, "model%d", chunk);
    return pickle_get(rank->pickle.root, key);
}

/* The sizes that the run had; an argument that is missing means 1. */
static Status sizes_read(Legacy *l, const TorchFile *first, const char *path)
{
    const PickleValue *root = first->pickle.root, *args = pickle_get(root, "args");
    struct { int *size; const char *name; } sizes[] = {
        { &l->tp, "tensor_model_parallel_size" }, { &l->pp, "pipeline_model_parallel_size" },
        { &l->ep, "expert_model_parallel_size" },
    };
    double version = 0;
    pickle_real(pickle_get(root, "checkpoint_version"), &version);
    if (version < 2)
        return fail(BAD_FILE,
                    "%s: its checkpoint_version is %g; before 2.0 Megatron-LM had other orders of query, key "
                    "and value",
                    path, version);
    TRY(megatron_arguments(l->m, args, path));
    for (int i = 0; i < 3; i++) {
        int64_t value = 1;
        pickle_integer(pickle_get(args, sizes[i].name), &value);
        if (value < 1 || value > RANKS_MAX)
            return fail(BAD_FILE, "%s: its argument %s is no size", path, sizes[i].name);
        *sizes[i].size = (int)value;
    }
    int64_t expert_tp = l->tp;
    pickle_integer(pickle_get(args, "expert_tensor_parallel_size"), &expert_tp);
    if (pickle_get(root, "model0"))
        while (l->chunks < CHUNKS_MAX && chunk_of(first, l->chunks, 2)) l->chunks++;
    else l->chunks = 1;
    if (json_object_get(l->m->options, "num-experts") && expert_tp != l->tp)
        return fail(BAD_FILE,
                    "%s: experts of another tensor-parallel size than the rest are not read; saved with "
                    "--ckpt-format torch_dist they are",
                    path);
    if ((int64_t)l->tp * l->pp * l->ep > RANKS_MAX)
        return fail(BAD_FILE, "%s: more than %d ranks", path, RANKS_MAX);
    return OK;
}

static TorchFile *rank_at(const Legacy *l, int t, int p, int e)
{
    return &l->rank[(e * l->pp + p) * l->tp + t];
}

static Status files_open(Legacy *l)
{
    char path[1024];
    if (!(l->rank = calloc((size_t)l->tp * (size_t)l->pp * (size_t)l->ep, sizeof *l->rank)))
        return fail(NO_MEMORY, "%s: no memory for its files", l->m->folder);
    for (int e = 0; e < l->ep; e++)
        for (int p = 0; p < l->pp; p++)
            for (int t = 0; t < l->tp; t++) {
                TRY(rank_path(path, l->m->folder, l, t, p, e));
                TRY(file_open(l, rank_at(l, t, p, e), path));
            }
    return OK;
}

/* ---- the tensors of one rank, by name ---- */

static Status named_add(NamedList *list, const char *label, const char *name, const PickleTensor *tensor)
{
    if (list->items == list->room) {
        size_t room  = list->room ? 2 * list->room : 64;
        Named *grown = realloc(list->item, room * sizeof *grown);
        if (!grown) return fail(NO_MEMORY, "%s: no memory for its tensors", label);
        list->item = grown, list->room = room;
    }
    Named *n = &list->item[list->items++];
    snprintf(n->name, sizeof n->name, "%s", name);
    n->tensor = tensor;
    return OK;
}

/* Dictionaries within dictionaries, their keys joined by dots. What is no tensor (Transformer Engine's
 * states, None) has no weight. pickle.h bounds the depth. */
static Status named_collect(NamedList *list, const char *label, const PickleValue *dict, const char *prefix)
{
    char name[NAME_BYTES], key[NAME_BYTES];
    for (uint32_t i = 0; dict->kind == PICKLE_DICT && i < dict->items; i += 2) {
        const PickleValue *value = dict->item[i + 1];
        if (dict->item[i]->kind != PICKLE_TEXT ||
            (value->kind != PICKLE_DICT && value->kind != PICKLE_TENSOR))
            continue;
        pickle_text(key, sizeof key, dict->item[i]);
        if (snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key) >= NAME_BYTES)
            return fail(BAD_FILE, "%s: a tensor's name is longer than %d bytes", label, NAME_BYTES - 1);
        if (value->kind == PICKLE_DICT) TRY(named_collect(list, label, value, name));
        else TRY(named_add(list, label, name, value->tensor));
    }
    return OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Named *)a)->name, ((const Named *)b)->name);
}

/* Of every tensor-parallel rank of a stage's chunk; lists[tp], which the caller frees. */
static Status lists_make(NamedList *lists, const Legacy *l, int chunk, int p, int e)
{
    for (int t = 0; t < l->tp; t++) {
        const PickleValue *model = chunk_of(rank_at(l, t, p, e), chunk, l->chunks);
        if (!model)
            return fail(BAD_FILE, "%s: stage %d has no chunk %d of the model", l->m->folder, p, chunk);
        TRY(named_collect(&lists[t], l->m->folder, model, ""));
        qsort(lists[t].item, lists[t].items, sizeof *lists[t].item, by_name);
        if (lists[t].items != lists[0].items)
            return fail(BAD_FILE, "%s: tensor-parallel rank %d of stage %d has other tensors than rank 0",
                        l->m->folder, t, p);
    }
    return OK;
}

/* ---- joining ---- */

/* Rank t's part of a tensor: its whole, or of a gated MLP two halves that lie apart in the whole. */
static Status part_add(Legacy *l, int index, const ForeignPiece *piece, MegatronJoin join, int t,
                       size_t width)
{
    bool halves = join == MEGATRON_UP && l->m->gated;
    int  dim    = join == MEGATRON_COLUMNS ? 1 : 0;
    int64_t own = piece->shape[dim];
    if (!halves) {
        ForeignPiece part = *piece;
        part.offset[dim]  = join == MEGATRON_SAME ? 0 : t * own;
        return megatron_box(l->m, index, part);
    }
    for (int half = 0; half < 2; half++) {
        ForeignPiece part = megatron_part(piece, 0, half * (own / 2), own / 2, width);
        part.offset[0]    = (half * l->tp + t) * (own / 2);
        TRY(megatron_box(l->m, index, part));
    }
    return OK;
}

static Status join(Legacy *l, const MegatronName *name, const NamedList *lists, size_t at, int layer,
                   int expert)
{
    const Named *first = &lists[0].item[at];
    const char  *folder = l->m->folder;
    int          index, dims = first->tensor->dims, ranks = name->join == MEGATRON_SAME ? 1 : l->tp;
    Dtype        dtype;
    ForeignPiece piece;
    if (!torch_type_dtype(first->tensor->type, &dtype) || !dtype_is_float(dtype))
        return fail(BAD_FILE, "%s: tensor '%s' is of type %s, which no weight has", folder, first->name,
                    torch_type_name(first->tensor->type));
    int  dim  = name->join == MEGATRON_COLUMNS ? 1 : 0;
    bool odd  = name->join == MEGATRON_UP && l->m->gated && dims > 0 && first->tensor->size[0] % 2;
    if (odd || (name->join != MEGATRON_SAME && dims <= dim))
        return fail(BAD_FILE, "%s: tensor '%s' has a shape that tensor parallelism cannot have sharded",
                    folder, first->name);
    TRY(torch_piece(&piece, first->tensor, folder, first->name));
    piece.shape[dim] *= ranks;
    TRY(megatron_tensor(l->m, &index, name, layer, expert, dtype, dims, piece.shape));
    for (int t = 0; t < ranks; t++) {
        const Named *n = &lists[t].item[at];
        if (strcmp(n->name, first->name) != 0 || n->tensor->type != first->tensor->type ||
            n->tensor->dims != dims ||
            memcmp(n->tensor->size, first->tensor->size, sizeof n->tensor->size) != 0)
            return fail(BAD_FILE, "%s: tensor '%s' is another one on tensor-parallel rank %d", folder,
                        first->name, t);
        TRY(torch_piece(&piece, n->tensor, folder, n->name));
        TRY(part_add(l, index, &piece, name->join, t, dtype_width(dtype)));
    }
    return OK;
}

/* The number of a chunk's first layer: chunks are in the order of the model, each of all stages in turn. */
static int first_layer(const Legacy *l, int chunk, int p)
{
    int layer = 0;
    for (int i = 0; i < chunk * l->pp + p; i++) layer += l->layers[i];
    return layer;
}

static Status name_of(MegatronName *name, const Legacy *l, const char *text)
{
    if (megatron_name(name, text) && name->layer != MEGATRON_ALL && name->expert != MEGATRON_ALL) return OK;
    return fail(BAD_FILE, "%s: tensor '%s' is none that a GPT of Megatron-LM has here", l->m->folder, text);
}

/* Experts of an expert-parallel rank, in a layer. */
static int local_experts(const Legacy *l, const NamedList *list)
{
    int most = -1;
    for (size_t i = 0; i < list->items; i++) {
        MegatronName name;
        if (name_of(&name, l, list->item[i].name) == OK && name.expert > most) most = name.expert;
    }
    return most + 1;
}

static Status chunk_add(Legacy *l, NamedList *lists, int chunk, int p, int e)
{
    int experts = 0;
    TRY(lists_make(lists, l, chunk, p, e));
    if (l->ep > 1) experts = local_experts(l, &lists[0]);
    bool tied = !json_object_get(l->m->options, "untie-embeddings-and-output-weights");
    for (size_t i = 0; i < lists[0].items; i++) {
        MegatronName name;
        TRY(name_of(&name, l, lists[0].item[i].name));
        bool copy =
            tied && strcmp(name.part, "output_layer.weight") == 0; /* the last stage's, of the embedding */
        if (name.join == MEGATRON_UNUSED || copy || (e > 0 && name.expert == MEGATRON_NONE)) continue;
        TRY(join(l, &name, lists, i, first_layer(l, chunk, p) + name.layer, e * experts + name.expert));
    }
    return OK;
}

/* The layers of each chunk, by its largest number; all together must be the model's. */
static Status layers_count(Legacy *l)
{
    int total = 0;
    if (!(l->layers = calloc((size_t)l->chunks * (size_t)l->pp, sizeof *l->layers)))
        return fail(NO_MEMORY, "%s: no memory for its stages", l->m->folder);
    for (int i = 0; i < l->chunks * l->pp; i++) {
        NamedList          list  = { 0 };
        const PickleValue *model = chunk_of(rank_at(l, 0, i % l->pp, 0), i / l->pp, l->chunks);
        Status status = model ? named_collect(&list, l->m->folder, model, "") : OK;
        for (size_t k = 0; status == OK && k < list.items; k++) {
            MegatronName name;
            status = name_of(&name, l, list.item[k].name);
            if (status == OK && name.layer >= l->layers[i]) l->layers[i] = name.layer + 1;
        }
        free(list.item);
        TRY(status);
        total += l->layers[i];
    }
    if (total == l->m->layers) return OK;
    return fail(BAD_FILE, "%s: its stages have %d layers together, its argument num_layers is %d",
                l->m->folder, total, l->m->layers);
}

static Status chunks_add(Legacy *l)
{
    Status status = OK;
    for (int i = 0; status == OK && i < l->chunks * l->pp * l->ep; i++) {
        NamedList *lists = calloc((size_t)l->tp, sizeof *lists);
        if (!lists) return fail(NO_MEMORY, "%s: no memory for its tensors", l->m->folder);
        status = chunk_add(l, lists, i / l->ep / l->pp, i / l->ep % l->pp, i % l->ep);
        for (int t = 0; t < l->tp; t++) free(lists[t].item);
        free(lists);
    }
    return status;
}

Status megatron_legacy_read(MegatronRead *m)
{
    char      path[1024];
    Legacy    l     = { .m = m };
    TorchFile first = { 0 };
    first_path(path, m->folder);
    Status status = file_open(&l, &first, path);
    if (status == OK) status = sizes_read(&l, &first, path);
    torch_file_close(&first);
    if (status == OK) status = files_open(&l);
    if (status == OK) status = layers_count(&l);
    if (status == OK) status = chunks_add(&l);
    for (int i = 0; l.rank && i < l.tp * l.pp * l.ep; i++) torch_file_close(&l.rank[i]);
    free(l.rank);
    free(l.layers);
    return status;
}
