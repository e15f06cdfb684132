/* llm.c's model files, and the state files that lie beside them. The rows below are the parameters in the
 * order of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/reader.h"
#include "convert/format.h"

enum { HEADER = 256, HEADER_BYTES = 4 * HEADER, MAGIC = 20240326, VERSION_F32 = 3, VERSION_BF16 = 5,
       SIZE_MAX_OF = 1 << 24, STATE_MAGIC = 20240527, RANKS_MAX = 65536 };

typedef struct { int64_t positions, vocabulary, layers, heads, channels, padded; } Sizes;

/* Shapes are products of the width: rows of `rows` widths and columns of `columns` widths; 0: no such dim. */
static const struct { const char *name; int rows, columns; } layer_rows[] = {
    { "ln_1.weight", 1, 0 },        { "ln_1.bias", 1, 0 },
    { "attn.c_attn.weight", 3, 1 }, { "attn.c_attn.bias", 3, 0 },
    { "attn.c_proj.weight", 1, 1 }, { "attn.c_proj.bias", 1, 0 },
    { "ln_2.weight", 1, 0 },        { "ln_2.bias", 1, 0 },
    { "mlp.c_fc.weight", 4, 1 },    { "mlp.c_fc.bias", 4, 0 },
    { "mlp.c_proj.weight", 1, 4 },  { "mlp.c_proj.bias", 1, 0 },
};

static int64_t header_at(const FileMap *map, int i)
{
    return (int32_t)little_endian(map->data + 4 * i, 4);
}

static Status header_read(Sizes *s, Dtype *dtype, const FileMap *map)
{
    if (map->size < HEADER_BYTES || header_at(map, 0) != MAGIC)
        return fail(BAD_FILE, "%s: not a model of llm.c: it does not begin with %d; give the file that "
                    "its train_gpt2.py or train_gpt2cu wrote", map->path, MAGIC);
    int64_t version = header_at(map, 1);
    if (version != VERSION_F32 && version != VERSION_BF16)
        return fail(BAD_FILE, "%s: version %lld of llm.c's models; 3 (fp32) and 5 (bf16) are read, which its "
                    "train_gpt2.py writes", map->path, (long long)version);
    *dtype = version == VERSION_F32 ? F32 : BF16;
    *s                  = (Sizes){header_at(map, 2), header_at(map, 3), header_at(map, 4),
                                  header_at(map, 5), header_at(map, 6), header_at(map, 7)};
    const int64_t all[] = { s->positions, s->vocabulary, s->layers, s->heads, s->channels, s->padded };
    for (int i = 0; i < 6; i++)
        if (all[i] < 1 || all[i] > SIZE_MAX_OF)
            return fail(BAD_FILE, "%s: number %d of its header is %lld, which is no size", map->path, i + 2,
                        (long long)all[i]);
    if (s->padded < s->vocabulary || s->channels % s->heads)
        return fail(BAD_FILE, "%s: its header has %lld heads for %lld channels, %lld tokens in %lld rows",
                    map->path, (long long)s->heads, (long long)s->channels, (long long)s->vocabulary,
                    (long long)s->padded);
    return OK;
}

/* A tensor at the next place, of which the rows after the first `kept` are padding. */
static Status tensor_add(ForeignFile *file, size_t *at, const char *name, Dtype dtype, int64_t rows,
                         int64_t columns, int64_t kept)
{
    const FileMap *map = &file->map[0];
    int64_t        shape[2] = { kept, columns };
    size_t         bytes;
    int            index;
    if (__builtin_mul_overflow((size_t)rows, (size_t)(columns ? columns : 1), &bytes) ||
        __builtin_mul_overflow(bytes, dtype_width(dtype), &bytes) || bytes > map->size - *at)
        return fail(BAD_FILE, "%s: it ends within '%s', so it is truncated", map->path, name);
    TRY(foreign_tensor(file, &index, FOREIGN_WEIGHT, name, dtype, columns ? 2 : 1, shape));
    *at += bytes;
    return foreign_whole(file, index, (const char *)map->data + *at - bytes);
}

static Status tensors_add(ForeignFile *file, const Sizes *s, Dtype dtype)
{
    size_t at = HEADER_BYTES;
    char   name[64];
    TRY(tensor_add(file, &at, "transformer.wte.weight", dtype, s->padded, s->channels, s->vocabulary));
    TRY(tensor_add(file, &at, "transformer.wpe.weight", dtype, s->positions, s->channels, s->positions));
    for (size_t i = 0; i < COUNT(layer_rows); i++)
        for (int64_t layer = 0; layer < s->layers; layer++) {
            int64_t rows = layer_rows[i].rows * s->channels;
            snprintf(name, sizeof name, "transformer.h.%lld.%s", (long long)layer, layer_rows[i].name);
            TRY(tensor_add(file, &at, name, dtype, rows, layer_rows[i].columns * s->channels, rows));
        }
    TRY(tensor_add(file, &at, "transformer.ln_f.weight", dtype, s->channels, 0, s->channels));
    TRY(tensor_add(file, &at, "transformer.ln_f.bias", dtype, s->channels, 0, s->channels));
    if (at == file->map[0].size) return OK;
    return fail(BAD_FILE, "%s: %zu bytes after the last parameter", file->map[0].path,
                file->map[0].size - at);
}

/* ---- state_SSSSSSSS_RRRRR.bin beside model_SSSSSSSS.bin: AdamW's moments and the fp32 copies of weights of
 * each rank. Under ZeRO 1 each rank has a part of every tensor of every layer; else all have the same. They
 * say how many steps were done, and not how many samples that were. ---- */

typedef struct {
    ForeignFile *file;
    const char  *first;                    /* its first parameter */
    int64_t      width, parameters;
    int          tensors, ranks;
    int64_t      step;
    bool         master, whole;            /* every rank's file has all parameters */
} States;

/* state_00000010_00002.bin beside model_00000010.bin; false where the model has another name. */
static bool state_path(char out[1024], const char *model, int rank)
{
    const char *slash = strrchr(model, '/'), *name = slash ? slash + 1 : model;
    size_t      digits = strspn(name + (strncmp(name, "model_", 6) == 0 ? 6 : 0), "0123456789");
    if (strncmp(name, "model_", 6) != 0 || digits == 0 ||
        strcmp(name + 6 + digits, ".bin") != 0)
        return false;
    return snprintf(out, 1024, "%.*sstate_%.*s_%05d.bin", (int)(name - model), model, (int)digits, name + 6,
                    rank) < 1024;
}

/* How many parameters of each kind a rank's file has. */
static int64_t held(const States *s) { return s->whole ? s->parameters : s->parameters / s->ranks; }

static Status state_header_read(States *s, const FileMap *map, int rank)
{
    if (map->size < HEADER_BYTES || header_at(map, 0) != STATE_MAGIC || header_at(map, 1) != 1)
        return fail(BAD_FILE, "%s: not a state of llm.c of version 1, which train_gpt2cu writes", map->path);
    int64_t ranks = header_at(map, 2), step = header_at(map, 10), master = header_at(map, 4);
    if (ranks < 1 || ranks > RANKS_MAX || step < 0 || header_at(map, 3) != rank ||
        (rank > 0 && (ranks != s->ranks || step != s->step || (master != 0) != s->master)))
        return fail(BAD_FILE, "%s: not the state of rank %d of this run; copy the files of one run and step",
                    map->path, rank);
    s->ranks = (int)ranks, s->step = step, s->master = master != 0;
    uint64_t all = HEADER_BYTES + (uint64_t)s->parameters * 4 * (s->master ? 3 : 2);
    if (rank == 0) s->whole = map->size >= all;
    uint64_t need = HEADER_BYTES + (uint64_t)held(s) * 4 * (s->master ? 3 : 2);
    if (s->parameters % s->ranks == 0 && map->size >= need && (header_at(map, 5) || map->size == need))
        return OK;
    return fail(BAD_FILE, "%s: %zu bytes, which are not those of the states of %lld parameters on %d ranks",
                map->path, map->size, (long long)s->parameters, s->ranks);
}

/* Elements of the model file before tensor i; the next tensor begins behind the rows that pad it. */
static int64_t place(const States *s, int i)
{
    return i == s->tensors ? s->parameters : (s->file->tensor[i].piece->data - s->first) / s->width;
}

/* The part of one rank of one tensor's state. */
static Status part_add(States *s, const FileMap *map, int rank, ForeignKind kind, int of, int tensor)
{
    int64_t at = place(s, of), count = place(s, of + 1) - at, size = s->whole ? count : count / s->ranks;
    int64_t kept = foreign_count(&s->file->tensor[of]), layer = 0;
    int64_t most = s->whole ? kept : kept - rank * size;
    if (!s->whole && count % s->ranks)
        return fail(BAD_FILE, "%s: %d ranks do not divide '%s'", map->path, s->ranks,
                    s->file->tensor[of].name);
    const char *number = strstr(s->file->tensor[of].name, ".h.");
    if (number) layer = strtol(number + 3, NULL, 10);
    int64_t stack = at - layer * count;                  /* where layer 0 of this parameter begins */
    int64_t first = s->whole ? at : stack / s->ranks + layer * size;
    first += (kind - FOREIGN_MOMENT) * held(s);
    if (most > size) most = size;
    if (most <= 0) return OK;
    return foreign_range(s->file, tensor, s->whole ? 0 : rank * size, most,
                         (const char *)map->data + HEADER_BYTES + 4 * first);
}

/* The states of kind k of tensor i are tensor k tensors + i. */
static Status rank_add(States *s, const char *path, int rank)
{
    int map;
    TRY(foreign_map(s->file, &map, path));
    FileMap mapped = s->file->map[map];
    TRY(state_header_read(s, &mapped, rank));
    for (ForeignKind k = FOREIGN_MOMENT; k < FOREIGN_KINDS; k++)
        for (int i = 0; i < s->tensors && (k != FOREIGN_MASTER || s->master); i++) {
            ForeignTensor t = s->file->tensor[i];
            int           made = (int)k * s->tensors + i;
            if (rank == 0) TRY(foreign_tensor(s->file, &made, k, t.name, F32, t.dims, t.shape));
            TRY(part_add(s, &mapped, rank, k, i, made));
        }
    return OK;
}

/* Adds the states of all tensors, which are those of the model file at `path` in its order, from the element
 * at `first` on, each `width` bytes. A model file of another name has none; incomplete ones are left out. */
static Status states_read(ForeignFile *file, const char *path, const char *first, size_t width)
{
    char   state[1024];
    States s = {.file = file, .first = first, .width = (int64_t)width, .tensors = file->tensors, .ranks = 1};
    s.parameters = ((const char *)file->map[0].data + file->map[0].size - first) / (int64_t)width;
    if (!state_path(state, path, 0) || !file_exists(state)) return OK;
    Status status = OK;
    for (int r = 0; status == OK && r < (s.whole ? 1 : s.ranks); r++) {
        state_path(state, path, r);
        status = file_exists(state) ? rank_add(&s, state, r)
                                    : fail(BAD_FILE, "%s: is missing; copy it beside the model", state);
    }
    if (status == OK) file->position = (ForeignPosition){ s.step, -1, s.step };
    if (status == BAD_FILE) foreign_leave_states(file, "%s", fail_text());
    return status == BAD_FILE ? OK : status;
}

/* GPT-2 as llm.c builds it: GELU by tanh, biases, tied embeddings, an MLP of four widths. */
static Status options_fill(json_t *options, const Sizes *s)
{
    json_t *all = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "num-layers", (json_int_t)s->layers,
                            "hidden-size", (json_int_t)s->channels, "ffn-hidden-size",
                            (json_int_t)(4 * s->channels), "num-attention-heads", (json_int_t)s->heads,
                            "seq-length", (json_int_t)s->positions, "max-position-embeddings",
                            (json_int_t)s->positions, "vocab-size", (json_int_t)s->vocabulary);
    bool    done = json_object_update_new(options, all) == 0;
    return done ? OK : fail(NO_MEMORY, "no memory for the options of a model");
}

Status llmc_read(ForeignModel *model, json_t *options, const char *path)
{
    ForeignFile *file = &model->file;
    Sizes        s = { 0 };
    Dtype        dtype = F32;
    int          map;
    TRY(foreign_map(file, &map, path));
    TRY(header_read(&s, &dtype, &file->map[0]));
    TRY(tensors_add(file, &s, dtype));
    TRY(states_read(file, path, (const char *)file->map[0].data + HEADER_BYTES, dtype_width(dtype)));
    TRY(options_fill(options, &s));
    return foreign_finish(file);
}
