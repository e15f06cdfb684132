/* fairseq's checkpoints. Parts of tensor-parallel ranks become pieces of one tensor, as Megatron-LM's. */
#include "convert/fairseq/fairseq_read.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "convert/fairseq/fairseq_internal.h"

/* ---- files ---- */

/* "model.pt" of "model-model_part-0.pt", with another part's number. Returns out. */
static const char *part_path(char out[1024], const char *path, int part)
{
    static const char middle[] = "-model_part-";
    const char *at = strstr(path, middle), *dot = strrchr(path, '.');
    size_t letters = at ? (size_t)(at - path) : dot ? (size_t)(dot - path) : strlen(path);
    snprintf(out, 1024, "%.*s%s%d.pt", (int)letters, path, middle, part);
    return out;
}

bool fairseq_is_there(const char *path)
{
    char first[1024];
    return file_exists(path) || file_exists(part_path(first, path, 0));
}

static Status file_open(FairseqFile *f, TorchFile *torch)
{
    int map;
    TRY(foreign_map(f->file, &map, f->path));
    const FileMap *mapped = &f->file->map[map];
    TRY(torch_file_read(torch, mapped->data, mapped->size, f->path));
    return torch_sums(f->file, torch);
}

static Status files_open(FairseqFile *f, const char *path)
{
    bool whole = file_exists(path) && !strstr(path, "-model_part-");
    if (!(f->part = calloc(FAIRSEQ_PARTS_MAX, sizeof *f->part)))
        return fail(NO_MEMORY, "%s: no memory for its parts", path);
    for (; f->parts < FAIRSEQ_PARTS_MAX; f->parts++) {
        if (whole) snprintf(f->path, sizeof f->path, "%s", path);
        else       part_path(f->path, path, f->parts);
        if ((whole && f->parts) || !file_exists(f->path)) return OK;
        TRY(file_open(f, &f->part[f->parts]));
    }
    return fail(BAD_FILE, "%s: more than %d parts; give the files of one model", path, FAIRSEQ_PARTS_MAX);
}

/* ---- weights ---- */

static bool ends(const char *name, const char *end)
{
    size_t letters = strlen(name), last = strlen(end);
    return letters >= last && !strcmp(name + letters - last, end);
}

/* The dimension that ranks divide; -1: each has the whole. */
static int split_dim(const char *name)
{
    static const struct { const char *part; int dim; } split[] = {
        { "out_proj.weight", 1 }, { "fc2.weight", 1 }, { "out_proj.bias", -1 }, { "fc2.bias", -1 },
        { "embed_tokens.weight", 0 }, { "output_projection.weight", 0 }, { "q_proj.weight", 0 },
        { "k_proj.weight", 0 }, { "v_proj.weight", 0 }, { "fc1.weight", 0 }, { "q_proj.bias", 0 },
        { "k_proj.bias", 0 }, { "v_proj.bias", 0 }, { "fc1.bias", 0 },
    };
    for (size_t i = 0; i < COUNT(split); i++)
        if (ends(name, split[i].part)) return split[i].dim;
    return -1;
}

/* What holds no weights, and the output layer that is the token embedding. */
bool fairseq_is_unused(const FairseqFile *f, const char *name)
{
    bool output = ends(name, "output_projection.weight") || ends(name, "decoder.embed_out");
    if (output && fairseq_is_on(f, "share_decoder_input_output_embed")) return true;
    return ends(name, ".version") || ends(name, "._float_tensor");
}

/* Learned positions have two rows more at their beginning, which no token has. */
static void skip_rows(ForeignPiece *piece, int64_t rows, size_t width)
{
    piece->data += piece->stride[0] * rows * (int64_t)width;
    piece->shape[0] -= rows;
}

/* The elements of a part's tensor: by its strides, or, in one vector of all parameters, by the weight's. */
static Status piece_of(ForeignPiece *piece, Dtype *dtype, const FairseqFile *f, const char *key,
                       const PickleTensor *weight, const FairseqView *view)
{
    const PickleTensor *t = view->tensor;
    if (!torch_type_dtype(t->type, dtype) || !dtype_is_float(*dtype))
        return fail(BAD_FILE, "%s: tensor '%s' is of type %s, which no weight has; save it in float32, "
                    "bfloat16 or float16", f->file->path, key, torch_type_name(t->type));
    TRY(torch_piece(piece, t, f->file->path, key));
    if (!view->flat) return OK;
    int64_t step = 1;
    piece->data += view->offset * (int64_t)dtype_width(*dtype);
    for (int d = weight->dims - 1; d >= 0; d--) {
        piece->shape[d]  = weight->size[d];
        piece->stride[d] = step;
        step *= weight->size[d];
    }
    return OK;
}

Status fairseq_tensor_add(FairseqFile *f, const char *key, const PickleTensor *weight,
                          const FairseqView *view)
{
    ForeignPiece piece;
    Dtype dtype;
    int   index, dim = split_dim(key), parts = dim < 0 ? 1 : f->parts;
    bool  positions = ends(key, "embed_positions.weight"), old_output = ends(key, "decoder.embed_out");
    if (dim >= weight->dims)
        return fail(BAD_FILE, "%s: tensor '%s' has too few dimensions", f->file->path, key);
    TRY(piece_of(&piece, &dtype, f, key, weight, &view[0]));
    if (positions && piece.shape[0] <= 2)
        return fail(BAD_FILE, "%s: '%s' has no positions", f->file->path, key);
    if (positions) skip_rows(&piece, 2, dtype_width(dtype));
    if (dim >= 0) piece.shape[dim] *= parts;
    TRY(foreign_tensor_of(f->file, &index, view[0].kind,
                          old_output ? "decoder.output_projection.weight" : key, dtype, weight->dims,
                          piece.shape));
    for (int p = 0; p < parts; p++) {
        TRY(piece_of(&piece, &dtype, f, key, weight, &view[p]));
        if (positions) skip_rows(&piece, 2, dtype_width(dtype));
        if (dim >= 0) piece.offset[dim] = p * piece.shape[dim];
        TRY(foreign_piece(f->file, index, &piece));
    }
    return OK;
}

/* The weight of each part, which are of one type and shape. */
static Status weight_add(FairseqFile *f, const char *key, const PickleTensor *first, FairseqView *view)
{
    for (int p = 0; p < f->parts; p++) {
        const PickleValue *value = pickle_get(pickle_get(fairseq_root(f, p), "model"), key);
        if (!value || value->kind != PICKLE_TENSOR || value->tensor->type != first->type ||
            value->tensor->dims != first->dims ||
            memcmp(value->tensor->size, first->size, sizeof first->size) != 0)
            return fail(BAD_FILE, "%s: tensor '%s' is another one in part %d; copy the files of one model",
                        f->file->path, key, p);
        view[p] = (FairseqView){ .kind = FOREIGN_WEIGHT, .tensor = value->tensor };
    }
    return fairseq_tensor_add(f, key, first, view);
}

static Status weights_read(FairseqFile *f, FairseqView *view)
{
    char name[FAIRSEQ_NAME];
    const PickleValue *model = pickle_get(fairseq_root(f, 0), "model");
    if (!model || model->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no weights named 'model'; give a checkpoint of fairseq-train",
                    f->file->path);
    for (uint32_t i = 0; i < model->items; i += 2) {
        pickle_text(name, sizeof name, model->item[i]);
        if (fairseq_is_unused(f, name)) continue;
        if (model->item[i + 1]->kind != PICKLE_TENSOR)
            return fail(BAD_FILE, "%s: '%s' is no tensor", f->file->path, name);
        TRY(weight_add(f, name, model->item[i + 1]->tensor, view));
    }
    return OK;
}

/* The rows of the token embedding, which is the dictionary filled up. */
static Status vocabulary_read(FairseqFile *f)
{
    const ForeignTensor *embedding = foreign_find(f->file, "decoder.embed_tokens.weight");
    if (!embedding || !foreign_find(f->file, "decoder.layer_norm.weight"))
        return fail(BAD_FILE, "%s: no tensor '%s', so no language model with norms before attention and MLP; "
                    "such models alone are read", f->file->path,
                    embedding ? "decoder.layer_norm.weight" : "decoder.embed_tokens.weight");
    json_object_set_new(f->options, "vocab-size", json_integer(embedding->shape[0]));
    return OK;
}

static void position_read(FairseqFile *f)
{
    const PickleValue *history = pickle_get(fairseq_root(f, 0), "optimizer_history");
    int64_t updates;
    if (history && history->kind == PICKLE_LIST && history->items &&
        pickle_integer(pickle_get(history->item[history->items - 1], "num_updates"), &updates) &&
        updates >= 0) f->file->position.step = updates;
}

static Status checkpoint_read(FairseqFile *f, const char *path)
{
    TRY(files_open(f, path));
    TRY(fairseq_options_read(f));
    FairseqView *view = calloc((size_t)f->parts + 1, sizeof *view);
    Status status = view ? weights_read(f, view) : fail(NO_MEMORY, "%s: no memory for its parts", path);
    free(view);
    TRY(status);
    position_read(f);
    TRY(fairseq_states_read(f));
    TRY(foreign_finish(f->file));
    return vocabulary_read(f);
}

Status fairseq_read(ForeignFile *file, json_t **options, const char *path)
{
    FairseqFile f = { .file = file, .options = json_object() };
    foreign_begin(file, path);
    Status status = f.options ? checkpoint_read(&f, path)
                              : fail(NO_MEMORY, "%s: no memory for options", path);
    for (int p = 0; p < f.parts; p++) torch_file_close(&f.part[p]);
    free(f.part);
    *options = status == OK ? f.options : NULL;
    if (status == OK) return OK;
    json_decref(f.options);
    foreign_close(file);
    return status;
}
