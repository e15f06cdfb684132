/* Megatron-LM's older format: a file of each tensor-, pipeline- and expert-parallel rank, with local numbers
 * of layers and experts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"
#include "convert/megatron/megatron_internal.h"

enum { RANKS_MAX = 65536, CHUNKS_MAX = 64 };
static const char file_name[] = "model_optim_rng.pt";

typedef struct {
    MegatronRead *m;
    int        tp, pp, ep, chunks;         /* chunks: virtual stages of a rank */
    TorchFile *rank;                       /* [ep][pp][tp] */
    int       *layers;                     /* [chunks][pp], in the order of the model */
    bool       states;                     /* the files have an optimizer */
    int64_t    updates;                    /* of an optimizer that does not say it; -1: not known */
} Legacy;

/* ---- files ---- */

static Status rank_path(char out[1024], const char *folder, const Legacy *l, int t, int p, int e)
{
    char name[64];
    snprintf(name, sizeof name, "mp_rank_%02d", t);
    if (l->pp > 1) message_add(name, sizeof name, "_%03d", p);
    if (l->ep > 1) message_add(name, sizeof name, "_%03d", e);
    message_add(name, sizeof name, "/%s", file_name);
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

static const PickleValue *chunk_of(const TorchFile *rank, int chunk, int chunks)
{
    char key[24] = "model";
    if (chunks > 1) snprintf(key, sizeof key, "model%d", chunk);
    return pickle_get(rank->pickle.root, key);
}

static void training_read(Legacy *l, const PickleValue *root)
{
    char               path[1024];
    const PickleValue *optimizer = pickle_get(root, "optimizer");
    ForeignPosition   *position  = &l->m->file->position;
    megatron_position(position, root);
    megatron_updates(position, root);
    l->updates = position->updates, position->updates = -1;
    l->states  = optimizer && optimizer->kind != PICKLE_NONE;
    first_path(path, l->m->folder);
    snprintf(strrchr(path, '/'), 24, "/distrib_optim.pt");
    if (!l->states || !file_exists(path)) return;
    l->states = false;
    foreign_leave_states(l->m->file, "%s: states of Megatron-LM's distributed optimizer are not read; saved"
                         " with --ckpt-format torch_dist and --dist-ckpt-optim-fully-reshardable they are",
                         path);
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
    training_read(l, root);
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
        return fail(BAD_FILE, "%s: more than %d ranks; saved with --ckpt-format torch_dist they are read",
                    path, RANKS_MAX);
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
                TRY(torch_open(rank_at(l, t, p, e), l->m->file, path));
            }
    return OK;
}

/* ---- the tensors of one rank, by name ---- */

/* A weight that two modules share is one parameter, with the name of the first. */
static bool is_shared(const TorchParameter *p, const TorchParameter *first)
{
    const PickleTensor *a = p->tensor[FOREIGN_WEIGHT], *b = first->tensor[FOREIGN_WEIGHT];
    return p != first && a->storage == b->storage && a->offset == b->offset;
}

/* A rank's states; where they do not fit the model, all states are left out. */
static Status states_collect(Legacy *l, TorchParameters *list, const TorchFile *rank)
{
    const PickleValue *optimizer = pickle_get(rank->pickle.root, "optimizer");
    for (size_t i = 0; i < list->items; i++) {
        MegatronName    name;
        TorchParameter *p = &list->item[i];
        p->trained = megatron_name(&name, p->name) && megatron_is_parameter(&name) &&
                     !is_shared(p, &list->item[0]);
        p->expert  = p->trained && name.expert != MEGATRON_NONE;
    }
    Status status = optimizer && optimizer->kind != PICKLE_NONE
                  ? torch_optimizer_states(list, optimizer, &l->m->file->position.updates, l->m->folder)
                  : fail(BAD_FILE, "%s: a rank has no optimizer states", l->m->folder);
    if (status != BAD_FILE) return status;
    foreign_leave_states(l->m->file, "%s; saved with --ckpt-format torch_dist and"
                         " --dist-ckpt-optim-fully-reshardable they are read", fail_text());
    return OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const TorchParameter *)a)->name, ((const TorchParameter *)b)->name);
}

/* Those of one chunk by name; all chunks of a rank have one optimizer. */
static Status rank_collect(Legacy *l, TorchParameters *list, const TorchFile *rank, int chunk)
{
    size_t kept = 0;
    for (int c = 0; c < l->chunks; c++) {
        const PickleValue *model = chunk_of(rank, c, l->chunks);
        if (!model) return fail(BAD_FILE, "%s: a stage has no chunk %d of the model", l->m->folder, c);
        TRY(torch_weights(list, model, c, true, l->m->folder));
    }
    if (l->states && !*l->m->file->states_unread) TRY(states_collect(l, list, rank));
    for (size_t i = 0; i < list->items; i++)
        if (list->item[i].chunk == chunk) list->item[kept++] = list->item[i];
    list->items = kept;
    if (kept) qsort(list->item, kept, sizeof *list->item, by_name);
    return OK;
}

/* Of every tensor-parallel rank of a stage's chunk; lists[tp], which the caller frees. */
static Status lists_make(TorchParameters *lists, Legacy *l, int chunk, int p, int e)
{
    for (int t = 0; t < l->tp; t++) {
        TRY(rank_collect(l, &lists[t], rank_at(l, t, p, e), chunk));
        if (lists[t].items != lists[0].items)
            return fail(BAD_FILE, "%s: tensor-parallel rank %d of stage %d has other tensors than rank 0; "
                        "give the files of all ranks of one save", l->m->folder, t, p);
    }
    return OK;
}

/* ---- joining ---- */

/* A matrix down to a latent that has all its rows on a rank is the same on all. */
static bool is_whole(const Legacy *l, const MegatronName *name, const PickleTensor *tensor)
{
    int64_t rows = strstr(name->part, "linear_q_down") ? l->m->query_down : l->m->kv_down;
    bool    down = name->join == MEGATRON_DOWN && tensor->dims > 0 && tensor->size[0] == rows;
    return name->join == MEGATRON_UNTRAINED || name->join == MEGATRON_SAME || down;
}

static Status join(const Legacy *l, const MegatronName *name, const TorchParameters *lists, size_t at,
                   int layer, int expert)
{
    const TorchParameter *p = &lists[0].item[at];
    bool halves = name->join == MEGATRON_UP && l->m->gated;
    char text[96];
    megatron_name_print(text, name, layer, expert);
    TorchSplit split = { .dim = name->join == MEGATRON_COLUMNS ? 1 : 0, .runs = halves ? 2 : 1,
                         .end = megatron_rows(l->m, text) };
    if (is_whole(l, name, p->tensor[FOREIGN_WEIGHT])) split.dim = -1;
    for (ForeignKind k = FOREIGN_WEIGHT; k < FOREIGN_KINDS; k++)
        if (p->tensor[k] && (k == FOREIGN_WEIGHT || !*l->m->file->states_unread))
            TRY(torch_join(l->m->file, text, lists, l->tp, at, k, split, l->m->folder));
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
    return megatron_refuse(l->m->folder, text);
}

/* Experts of an expert-parallel rank, in a layer. */
static int local_experts(const Legacy *l, const TorchParameters *list)
{
    int most = -1;
    for (size_t i = 0; i < list->items; i++) {
        MegatronName name;
        if (name_of(&name, l, list->item[i].name) == OK && name.expert > most) most = name.expert;
    }
    return most + 1;
}

static Status chunk_add(Legacy *l, TorchParameters *lists, int chunk, int p, int e)
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
        if (megatron_is_unused(&name) || copy || (e > 0 && name.expert == MEGATRON_NONE)) continue;
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
        TorchParameters    list  = { 0 };
        const PickleValue *model = chunk_of(rank_at(l, 0, i % l->pp, 0), i / l->pp, l->chunks);
        Status status = model ? torch_weights(&list, model, 0, true, l->m->folder) : OK;
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
    return fail(BAD_FILE, "%s: its stages have %d layers together, its argument num_layers is %d; copy the "
                "folders of all ranks, of one run and iteration", l->m->folder, total, l->m->layers);
}

static Status chunks_add(Legacy *l)
{
    Status status = OK;
    for (int i = 0; status == OK && i < l->chunks * l->pp * l->ep; i++) {
        TorchParameters *lists = calloc((size_t)l->tp, sizeof *lists);
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
    Status status = torch_open(&first, m->file, path);
    if (status == OK) status = sizes_read(&l, &first, path);
    torch_file_close(&first);
    if (status == OK) status = files_open(&l);
    if (status == OK) status = layers_count(&l);
    if (status == OK) status = chunks_add(&l);
    if (status == OK && l.states && !*m->file->states_unread) {
        if (m->file->position.updates < 0) m->file->position.updates = l.updates;
        megatron_leave_uncounted(m);
    }
    for (int i = 0; l.rank && i < l.tp * l.pp * l.ep; i++) torch_file_close(&l.rank[i]);
    free(l.rank);
    free(l.layers);
    return status;
}
