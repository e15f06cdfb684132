/* fairseq's checkpoints. Parts of tensor-parallel ranks become pieces of one tensor, as Megatron-LM's. */
#include "convert/fairseq/fairseq_read.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "convert/torch/torch_file.h"

enum { PARTS_MAX = 1024, NAME = 200 };

typedef struct {
    ForeignFile *file;
    json_t      *options;
    char         path[1024];                  /* of the part that is read */
    int          parts;
    TorchFile   *part;                        /* [parts], owned */
} Fairseq;

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

static Status file_open(Fairseq *f, TorchFile *torch)
{
    int map;
    TRY(foreign_map(f->file, &map, f->path));
    const FileMap *mapped = &f->file->map[map];
    TRY(torch_file_read(torch, mapped->data, mapped->size, f->path));
    return torch_sums(f->file, torch);
}

static Status files_open(Fairseq *f, const char *path)
{
    bool whole = file_exists(path) && !strstr(path, "-model_part-");
    if (!(f->part = calloc(PARTS_MAX, sizeof *f->part)))
        return fail(NO_MEMORY, "%s: no memory for its parts", path);
    for (; f->parts < PARTS_MAX; f->parts++) {
        if (whole) snprintf(f->path, sizeof f->path, "%s", path);
        else       part_path(f->path, path, f->parts);
        if ((whole && f->parts) || !file_exists(f->path)) return OK;
        TRY(file_open(f, &f->part[f->parts]));
    }
    return fail(BAD_FILE, "%s: more than %d parts; give the files of one model", path, PARTS_MAX);
}

/* ---- what the model is ---- */

static const PickleValue *root_of(const Fairseq *f, int part) { return f->part[part].pickle.root; }

static const PickleValue *argument(const Fairseq *f, const char *name)
{
    return pickle_get(pickle_get(root_of(f, 0), "args"), name);
}

/* A flag that is missing is off. */
static bool is_on(const Fairseq *f, const char *name)
{
    int64_t on = 0;
    return pickle_integer(argument(f, name), &on) && on;
}

static Status give_whole(Fairseq *f, const char *name, const char *option, const char *second)
{
    int64_t number;
    if (!pickle_integer(argument(f, name), &number) || number < 1)
        return fail(BAD_FILE, "%s: its arguments have no whole number %s", f->file->path, name);
    json_object_set_new(f->options, option, json_integer(number));
    if (second) json_object_set_new(f->options, second, json_integer(number));
    return OK;
}

/* Arguments that change what is computed, and are refused where they are on. */
static Status refuse_others(const Fairseq *f)
{
    static const char *const others[] = { "adaptive_input", "character_embeddings", "layernorm_embedding",
                                          "no_decoder_final_norm", "tie_adaptive_weights" };
    char text[NAME];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (is_on(f, others[i]))
            return fail(BAD_FILE, "%s: its argument %s is on, and such models are not built; models without "
                        "it are read", f->file->path, others[i]);
    const PickleValue *cutoff = argument(f, "adaptive_softmax_cutoff");
    if (cutoff && cutoff->kind != PICKLE_NONE)
        return fail(BAD_FILE, "%s: its output layer has an adaptive softmax (%s), which is not built; models "
                    "without one are read", f->file->path, pickle_text(text, sizeof text, cutoff));
    return OK;
}

static Status give_activation(Fairseq *f)
{
    char word[NAME] = "relu";
    const PickleValue *given = argument(f, "activation_fn");
    if (given) pickle_text(word, sizeof word, given);
    bool tanh = !strcmp(word, "gelu_fast") || !strcmp(word, "gelu_accurate");
    if (!strcmp(word, "relu")) json_object_set_new(f->options, "relu", json_true());
    else if (tanh || !strcmp(word, "gelu"))
        json_object_set_new(f->options, "gelu-approximate", json_string(tanh ? "tanh" : "none"));
    else return fail(BAD_FILE, "%s: its activation_fn %s is not built; models with relu, gelu, gelu_fast or "
                     "gelu_accurate are read", f->file->path, word);
    return OK;
}

static void give_dropout(Fairseq *f, const char *name, const char *option)
{
    double share = 0;
    pickle_real(argument(f, name), &share);
    json_object_set_new(f->options, option, json_real(share));
}

static void give_positions(Fairseq *f)
{
    const char *kind = is_on(f, "no_token_positional_embeddings") ? "none"
                     : is_on(f, "decoder_learned_pos") ? "learned_absolute" : "sinusoidal";
    json_object_set_new(f->options, "position-embedding-type", json_string(kind));
}

static Status options_read(Fairseq *f)
{
    const PickleValue *args = pickle_get(root_of(f, 0), "args");
    int64_t width = 0;
    if (!args || args->kind == PICKLE_NONE)
        return fail(BAD_FILE, "%s: no arguments named 'args'; checkpoints that fairseq wrote before it had "
                    "'cfg' are read: give one of these", f->file->path);
    TRY(refuse_others(f));
    TRY(give_whole(f, "decoder_layers", "num-layers", NULL));
    TRY(give_whole(f, "decoder_embed_dim", "hidden-size", NULL));
    TRY(give_whole(f, "decoder_ffn_embed_dim", "ffn-hidden-size", NULL));
    TRY(give_whole(f, "decoder_attention_heads", "num-attention-heads", NULL));
    TRY(give_whole(f, "tokens_per_sample", "seq-length", "max-position-embeddings"));
    TRY(give_activation(f));
    give_positions(f);
    give_dropout(f, "dropout", "hidden-dropout");
    give_dropout(f, "attention_dropout", "attention-dropout");
    pickle_integer(argument(f, "decoder_embed_dim"), &width);
    if (!is_on(f, "no_scale_embedding"))
        json_object_set_new(f->options, "embedding-multiplier", json_real(sqrt((double)width)));
    if (!is_on(f, "share_decoder_input_output_embed"))
        json_object_set_new(f->options, "untie-embeddings-and-output-weights", json_true());
    return OK;
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
    for (size_t i = 0; i < sizeof split / sizeof split[0]; i++)
        if (ends(name, split[i].part)) return split[i].dim;
    return -1;
}

/* What holds no weights, and the output layer that is the token embedding. */
static bool is_unused(const Fairseq *f, const char *name)
{
    bool output = ends(name, "output_projection.weight") || ends(name, "decoder.embed_out");
    if (output && is_on(f, "share_decoder_input_output_embed")) return true;
    return ends(name, ".version") || ends(name, "._float_tensor");
}

/* Learned positions have two rows more at their beginning, which no token has. */
static void skip_rows(ForeignPiece *piece, int64_t rows, size_t width)
{
    piece->data += piece->stride[0] * rows * (int64_t)width;
    piece->shape[0] -= rows;
}

static Status piece_of(ForeignPiece *piece, Dtype *dtype, const Fairseq *f, int part, const char *key,
                       const PickleTensor *first)
{
    const PickleValue *value = pickle_get(pickle_get(root_of(f, part), "model"), key);
    if (!value || value->kind != PICKLE_TENSOR || value->tensor->type != first->type ||
        value->tensor->dims != first->dims ||
        memcmp(value->tensor->size, first->size, sizeof first->size) != 0)
        return fail(BAD_FILE, "%s: tensor '%s' is another one in part %d; copy the files of one model",
                    f->file->path, key, part);
    if (!torch_type_dtype(first->type, dtype) || !dtype_is_float(*dtype))
        return fail(BAD_FILE, "%s: tensor '%s' is of type %s, which no weight has; save it in float32, "
                    "bfloat16 or float16", f->file->path, key, torch_type_name(first->type));
    return torch_piece(piece, value->tensor, f->file->path, key);
}

static Status tensor_add(Fairseq *f, const char *key, const PickleTensor *first)
{
    ForeignPiece piece;
    Dtype dtype;
    int   index, dim = split_dim(key), parts = dim < 0 ? 1 : f->parts;
    bool  positions = ends(key, "embed_positions.weight");
    if (dim >= first->dims) return fail(BAD_FILE, "%s: tensor '%s' has too few dimensions", f->path, key);
    TRY(piece_of(&piece, &dtype, f, 0, key, first));
    if (positions && piece.shape[0] <= 2) return fail(BAD_FILE, "%s: '%s' has no positions", f->path, key);
    if (positions) skip_rows(&piece, 2, dtype_width(dtype));
    if (dim >= 0) piece.shape[dim] *= parts;
    TRY(foreign_tensor(f->file, &index, ends(key, "decoder.embed_out") ? "decoder.output_projection.weight"
                                                                      : key,
                       dtype, first->dims, piece.shape));
    for (int p = 0; p < parts; p++) {
        TRY(piece_of(&piece, &dtype, f, p, key, first));
        if (positions) skip_rows(&piece, 2, dtype_width(dtype));
        if (dim >= 0) piece.offset[dim] = p * piece.shape[dim];
        TRY(foreign_piece(f->file, index, &piece));
    }
    return OK;
}

static Status weights_read(Fairseq *f)
{
    char name[NAME];
    const PickleValue *model = pickle_get(root_of(f, 0), "model");
    if (!model || model->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no weights named 'model'; give a checkpoint of fairseq-train",
                    f->file->path);
    for (uint32_t i = 0; i < model->items; i += 2) {
        pickle_text(name, sizeof name, model->item[i]);
        if (is_unused(f, name)) continue;
        if (model->item[i + 1]->kind != PICKLE_TENSOR)
            return fail(BAD_FILE, "%s: '%s' is no tensor", f->file->path, name);
        TRY(tensor_add(f, name, model->item[i + 1]->tensor));
    }
    return foreign_finish(f->file);
}

/* The rows of the token embedding, which is the dictionary filled up. */
static Status vocabulary_read(Fairseq *f)
{
    const ForeignTensor *embedding = foreign_find(f->file, "decoder.embed_tokens.weight");
    if (!embedding || !foreign_find(f->file, "decoder.layer_norm.weight"))
        return fail(BAD_FILE, "%s: no tensor '%s', so no language model with norms before attention and MLP; "
                    "such models alone are read", f->file->path,
                    embedding ? "decoder.layer_norm.weight" : "decoder.embed_tokens.weight");
    json_object_set_new(f->options, "vocab-size", json_integer(embedding->shape[0]));
    return OK;
}

static void position_read(Fairseq *f)
{
    const PickleValue *root = root_of(f, 0), *history = pickle_get(root, "optimizer_history");
    const PickleValue *optimizer = pickle_get(root, "last_optimizer_state");
    int64_t updates;
    if (history && history->kind == PICKLE_LIST && history->items &&
        pickle_integer(pickle_get(history->item[history->items - 1], "num_updates"), &updates) &&
        updates >= 0) f->file->position.step = updates;
    if (optimizer && optimizer->kind != PICKLE_NONE)
        foreign_leave_states(f->file, "%s: states of fairseq's optimizer are not read", f->file->path);
}

static Status checkpoint_read(Fairseq *f, const char *path)
{
    TRY(files_open(f, path));
    TRY(options_read(f));
    TRY(weights_read(f));
    TRY(vocabulary_read(f));
    position_read(f);
    return OK;
}

Status fairseq_read(ForeignFile *file, json_t **options, const char *path)
{
    Fairseq f = { .file = file, .options = json_object() };
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
