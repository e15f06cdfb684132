/* Checkpoints of fairseq's language models: arguments as options, weights, the states of Adam. Parts of
 * tensor-parallel ranks become pieces of one tensor, as Megatron-LM's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/words.h"
#include "convert/format.h"
#include "convert/torch/torch_optimizer.h"

enum { PARTS_MAX = 1024, NAME_BYTES = 200 };

typedef struct {
    ForeignFile *file;
    json_t      *options;
    char         path[1024];                  /* of the part that is read */
    int          parts;
    TorchFile   *part;                        /* [parts], owned */
} FairseqFile;

static const PickleValue *root_of(const FairseqFile *f, int part)
{
    return f->part[part].pickle.root;
}

/* ---- arguments: a Namespace named "args", or, since fairseq 0.10, in the sections "model" and "task" of
 * "cfg": dictionaries, Namespaces or omegaconf's ---- */

/* Of omegaconf's objects what they hold, of a member of an enumeration the word that made it. */
static const PickleValue *plain(const PickleValue *v)
{
    const PickleValue *held = v && v->kind == PICKLE_RECORD ? pickle_get(v, "_val") : NULL;
    if (held) v = held;
    if (!v || v->kind != PICKLE_RECORD || v->record->state) return v;
    const PickleValue *made_of = v->record->arguments;
    return made_of && made_of->kind == PICKLE_TUPLE && made_of->items == 1 ? made_of->item[0] : v;
}

static const PickleValue *entry(const PickleValue *section, const char *name)
{
    const PickleValue *content = section && section->kind == PICKLE_RECORD ? pickle_get(section, "_content")
                                                                           : NULL;
    return plain(pickle_get(content ? content : section, name));
}

/* "${task.tokens_per_sample}" is said in another section; "???" nowhere. */
static bool is_elsewhere(const PickleValue *v)
{
    return v && v->kind == PICKLE_TEXT && v->bytes > 1 &&
           (!memcmp(v->text, "${", 2) || pickle_is_text(v, "???"));
}

static bool is_there(const PickleValue *v) { return v && v->kind != PICKLE_NONE; }

static const PickleValue *argument(const FairseqFile *f, const char *name)
{
    const PickleValue *root = root_of(f, 0), *args = pickle_get(root, "args");
    static const char *const sections[] = { "model", "task" };
    if (is_there(args)) return pickle_get(args, name);
    for (size_t i = 0; i < COUNT(sections); i++) {
        const PickleValue *v = entry(entry(pickle_get(root, "cfg"), sections[i]), name);
        if (v && !is_elsewhere(v)) return v;
    }
    return NULL;
}

/* A flag that is missing is off. */
static bool is_on(const FairseqFile *f, const char *name)
{
    int64_t on = 0;
    return pickle_integer(argument(f, name), &on) && on;
}

/* ---- options ---- */

static Status give_whole(FairseqFile *f, const char *name, const char *option)
{
    int64_t number;
    if (!pickle_integer(argument(f, name), &number) || number < 1)
        return fail(BAD_FILE, "%s: its arguments have no whole number %s", f->file->path, name);
    json_object_set_new(f->options, option, json_integer(number));
    return OK;
}

/* Arguments that change what is computed, and are refused where they are on. */
static Status refuse_others(const FairseqFile *f)
{
    static const char *const others[] = { "adaptive_input", "character_embeddings", "layernorm_embedding",
                                          "no_decoder_final_norm", "tie_adaptive_weights", "base_layers",
                                          "scale_fc", "scale_attn", "scale_heads", "scale_resids" };
    char text[NAME_BYTES];
    int64_t layers;
    for (size_t i = 0; i < COUNT(others); i++) {
        bool counted = !strcmp(others[i], "base_layers");
        bool on = counted ? pickle_integer(argument(f, others[i]), &layers) && layers > 0
                          : is_on(f, others[i]);
        if (on)
            return fail(BAD_FILE, "%s: its argument %s is on, and such models are not built; models without "
                        "it are read", f->file->path, others[i]);
    }
    const PickleValue *cutoff = argument(f, "adaptive_softmax_cutoff");
    if (is_there(cutoff))
        return fail(BAD_FILE, "%s: its output layer has an adaptive softmax (%s), which is not built; models "
                    "without one are read", f->file->path, pickle_text(text, sizeof text, cutoff));
    return OK;
}

static Status give_activation(FairseqFile *f)
{
    char word[NAME_BYTES] = "relu";
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

static void give_dropout(FairseqFile *f, const char *name, const char *option)
{
    double share = 0;
    pickle_real(argument(f, name), &share);
    json_object_set_new(f->options, option, json_real(share));
}

static void give_positions(FairseqFile *f)
{
    const char *kind = is_on(f, "no_token_positional_embeddings") ? "none"
                     : is_on(f, "decoder_learned_pos") ? "learned_absolute" : "sinusoidal";
    json_object_set_new(f->options, "position-embedding-type", json_string(kind));
}

/* All but the size of the vocabulary. */
static Status options_read(FairseqFile *f)
{
    const PickleValue *root = root_of(f, 0);
    int64_t width = 0;
    if (!is_there(pickle_get(root, "args")) && !is_there(pickle_get(root, "cfg")))
        return fail(BAD_FILE, "%s: no arguments named 'args' or 'cfg', so no checkpoint of fairseq-train; "
                    "give one", f->file->path);
    TRY(refuse_others(f));
    TRY(give_whole(f, "decoder_layers", "num-layers"));
    TRY(give_whole(f, "decoder_embed_dim", "hidden-size"));
    TRY(give_whole(f, "decoder_ffn_embed_dim", "ffn-hidden-size"));
    TRY(give_whole(f, "decoder_attention_heads", "num-attention-heads"));
    TRY(give_whole(f, "tokens_per_sample", "seq-length"));
    bool positions = is_there(argument(f, "max_target_positions"));
    TRY(give_whole(f, positions ? "max_target_positions" : "tokens_per_sample", "max-position-embeddings"));
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

static Status files_open(FairseqFile *f, const char *path)
{
    bool whole = file_exists(path) && !strstr(path, "-model_part-");
    if (!(f->part = calloc(PARTS_MAX, sizeof *f->part)))
        return fail(NO_MEMORY, "%s: no memory for its parts", path);
    for (; f->parts < PARTS_MAX; f->parts++) {
        if (whole) snprintf(f->path, sizeof f->path, "%s", path);
        else       part_path(f->path, path, f->parts);
        if ((whole && f->parts) || !file_exists(f->path)) return OK;
        TRY(torch_open(&f->part[f->parts], f->file, f->path));
    }
    return fail(BAD_FILE, "%s: more than %d parts; give the files of one model", path, PARTS_MAX);
}

/* ---- weights ---- */

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
        if (text_ends(name, split[i].part)) return split[i].dim;
    return -1;
}

/* What holds no weights, and the output layer that is the token embedding. */
static bool is_unused(const FairseqFile *f, const char *name)
{
    bool output = text_ends(name, "output_projection.weight") || text_ends(name, "decoder.embed_out");
    if (output && is_on(f, "share_decoder_input_output_embed")) return true;
    return text_ends(name, ".version") || text_ends(name, "._float_tensor");
}

/* Learned positions have two rows more at their beginning, which no token has. */
static void skip_rows(ForeignPiece *piece, int64_t rows, size_t width)
{
    piece->data += piece->stride[0] * rows * (int64_t)width;
    piece->shape[0] -= rows;
}

/* A tensor beside the weights, or one of them: element `offset` of `tensor` is its first; shape and strides
 * are those of `weight` where `flat` (all parameters one behind the other), else the tensor's own. */
typedef struct { ForeignKind kind; const PickleTensor *tensor; int64_t offset; bool flat; } FairseqView;

/* The elements of a part's tensor: by its strides, or, in one vector of all parameters, by the weight's. */
static Status piece_of(ForeignPiece *piece, Dtype *dtype, const FairseqFile *f, const char *key,
                       const PickleTensor *weight, const FairseqView *view)
{
    const PickleTensor *t = view->tensor;
    TRY(torch_weight_type(dtype, t, f->file->path, key));
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

/* Appends the tensor `key`, whose parts are those views of the model's parts: view[0 .. f->parts). */
static Status tensor_add(FairseqFile *f, const char *key, const PickleTensor *weight, const FairseqView *view)
{
    ForeignPiece piece;
    Dtype dtype;
    int   index, dim = split_dim(key), parts = dim < 0 ? 1 : f->parts;
    bool  positions = text_ends(key, "embed_positions.weight");
    bool  old_output = text_ends(key, "decoder.embed_out");
    if (dim >= weight->dims)
        return fail(BAD_FILE, "%s: tensor '%s' has too few dimensions", f->file->path, key);
    TRY(piece_of(&piece, &dtype, f, key, weight, &view[0]));
    if (positions && piece.shape[0] <= 2)
        return fail(BAD_FILE, "%s: '%s' has no positions", f->file->path, key);
    if (positions) skip_rows(&piece, 2, dtype_width(dtype));
    if (dim >= 0) piece.shape[dim] *= parts;
    TRY(foreign_tensor(f->file, &index, view[0].kind,
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
        const PickleValue *value = pickle_get(pickle_get(root_of(f, p), "model"), key);
        if (!value || value->kind != PICKLE_TENSOR || value->tensor->type != first->type ||
            !torch_shapes_equal(value->tensor, first))
            return fail(BAD_FILE, "%s: tensor '%s' is another one in part %d; copy the files of one model",
                        f->file->path, key, p);
        view[p] = (FairseqView){ .kind = FOREIGN_WEIGHT, .tensor = value->tensor };
    }
    return tensor_add(f, key, first, view);
}

static Status weights_read(FairseqFile *f, FairseqView *view)
{
    char name[NAME_BYTES];
    const PickleValue *model = pickle_get(root_of(f, 0), "model");
    if (!model || model->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no weights named 'model'; give a checkpoint of fairseq-train",
                    f->file->path);
    for (uint32_t i = 0; i < model->items; i += 2) {
        pickle_text(name, sizeof name, model->item[i]);
        if (is_unused(f, name)) continue;
        if (model->item[i + 1]->kind != PICKLE_TENSOR)
            return fail(BAD_FILE, "%s: '%s' is no tensor", f->file->path, name);
        TRY(weight_add(f, name, model->item[i + 1]->tensor, view));
    }
    return OK;
}

/* ---- states: FP32's optimizer and the memory-efficient one have some for each parameter, in the order of
 * the model; FP16's has all parameters one behind the other in one vector. Each part of model parallelism has
 * states of its own parameters ---- */

enum { STATES = 2 };
static const ForeignKind states[STATES] = { FOREIGN_MOMENT, FOREIGN_SQUARE };

/* The parameters in their order, and the views of all parts: view[part * count * STATES + 2 i + state]. */
typedef struct {
    FairseqFile    *f;
    TorchParameter *parameter;
    FairseqView    *view;
    int             count;
    int64_t         updates;
} States;

/* The parameters of a part; names point into `names`. */
static Status parameters_of(States *s, int part, char (*names)[NAME_BYTES])
{
    const PickleValue *model = pickle_get(root_of(s->f, part), "model");
    int count = 0;
    for (uint32_t i = 0; model && model->kind == PICKLE_DICT && i < model->items; i += 2) {
        char name[NAME_BYTES];
        pickle_text(name, sizeof name, model->item[i]);
        if (is_unused(s->f, name) || model->item[i + 1]->kind != PICKLE_TENSOR) continue;
        bool first = part == 0 && count < s->count, again = count < s->count && !strcmp(names[count], name);
        if (!first && !again)
            return fail(BAD_FILE, "%s: part %d has its parameters in another order", s->f->file->path, part);
        if (first) memcpy(names[count], name, sizeof name);
        s->parameter[count++] = (TorchParameter){ .weight = model->item[i + 1]->tensor };
    }
    return OK;
}

static int64_t elements(const PickleTensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->dims; d++) count *= t->size[d];
    return count;
}

/* The first state, where the optimizer has one parameter; NULL: it has several. */
static const PickleValue *only_state(const PickleValue *optimizer)
{
    const PickleValue *groups = pickle_get(optimizer, "param_groups"), *all = pickle_get(optimizer, "state");
    bool one = groups && groups->kind == PICKLE_LIST && groups->items == 1 && all &&
               all->kind == PICKLE_DICT && all->items == 2;
    const PickleValue *numbers = one ? pickle_get(groups->item[0], "params") : NULL;
    return numbers && numbers->kind == PICKLE_LIST && numbers->items == 1 ? all->item[1] : NULL;
}

/* All parameters in one vector. */
static Status flat_read(States *s, const PickleValue *state, FairseqView *view)
{
    int64_t all = 0;
    double  step;
    for (int i = 0; i < s->count; i++)
        if (__builtin_add_overflow(all, elements(s->parameter[i].weight), &all))
            return fail(BAD_FILE, "%s: its parameters are too many", s->f->file->path);
    for (int k = 0; k < STATES; k++) {
        const PickleValue *v = pickle_get(state, foreign_kind_name(states[k]));
        if (!v || v->kind != PICKLE_TENSOR)
            return fail(BAD_FILE, "%s: it has no %s, so that it is not Adam's", s->f->file->path,
                        foreign_kind_name(states[k]));
        if (v->tensor->dims != 1 || v->tensor->stride[0] != 1 || v->tensor->size[0] != all)
            return fail(BAD_FILE, "%s: its %s has not the %lld elements of the parameters",
                        s->f->file->path, foreign_kind_name(states[k]), (long long)all);
        int64_t at = 0;
        for (int i = 0; i < s->count; at += elements(s->parameter[i++].weight))
            view[STATES * i + k] = (FairseqView){ states[k], v->tensor, at, true };
    }
    if (!torch_number(pickle_get(state, "step"), &step) || !(step >= 0 && step <= 1e15) ||
        (s->updates >= 0 && s->updates != (int64_t)step))
        return fail(BAD_FILE, "%s: its parts do not say one number of updates", s->f->file->path);
    s->updates = (int64_t)step;
    return OK;
}

static Status part_read(States *s, int part, char (*names)[NAME_BYTES])
{
    const PickleValue *optimizer = pickle_get(root_of(s->f, part), "last_optimizer_state");
    const PickleValue *one = only_state(optimizer);
    FairseqView *view = s->view + (int64_t)part * STATES * s->count;
    TRY(parameters_of(s, part, names));
    if (one && s->count > 1) return flat_read(s, one, view);
    TRY(torch_optimizer_states(s->parameter, s->count, optimizer, NULL, false, &s->updates,
                               s->f->file->path));
    for (int i = 0; i < STATES * s->count; i++) {
        ForeignKind kind = states[i % STATES];
        view[i] = (FairseqView){ .kind = kind, .tensor = s->parameter[i / STATES].state[kind] };
        if (!view[i].tensor)
            return fail(BAD_FILE, "%s: a parameter has no state", s->f->file->path);
    }
    return OK;
}

static Status states_add(States *s, char (*names)[NAME_BYTES])
{
    FairseqFile *f = s->f;
    FairseqView *own = calloc((size_t)f->parts + 1, sizeof *own);
    if (!own) return fail(NO_MEMORY, "%s: no memory for its parts", f->file->path);
    Status status = parameters_of(s, 0, names);              /* the shapes, which are those of all parts */
    for (int i = 0; i < STATES * s->count && status == OK; i++) {
        for (int p = 0; p < f->parts; p++) own[p] = s->view[(int64_t)p * STATES * s->count + i];
        status = tensor_add(f, names[i / STATES], s->parameter[i / STATES].weight, own);
    }
    free(own);
    return status;
}

/* After the weights, before foreign_finish; states that do not fit are left out, with the reason. */
static Status states_read(FairseqFile *f)
{
    const PickleValue *optimizer = pickle_get(root_of(f, 0), "last_optimizer_state");
    States s = { .f = f, .count = f->file->tensors, .updates = -1 };         /* the weights, until now */
    if (!optimizer || optimizer->kind == PICKLE_NONE) return OK;
    size_t count = (size_t)s.count + 1;
    char (*names)[NAME_BYTES] = calloc(count, sizeof *names);
    s.parameter = calloc(count, sizeof *s.parameter);
    s.view      = calloc(count * STATES * (size_t)f->parts, sizeof *s.view);
    Status status = names && s.parameter && s.view
                  ? OK : fail(NO_MEMORY, "%s: no memory for its states", f->file->path);
    for (int p = 0; p < f->parts && status == OK; p++) status = part_read(&s, p, names);
    if (status == OK && s.updates < 0)
        status = fail(BAD_FILE, "%s: it does not say its updates", f->file->path);
    if (status == OK) status = states_add(&s, names);
    free(names);
    free(s.parameter);
    free(s.view);
    if (status == NO_MEMORY) return status;
    if (status == OK) f->file->position.updates = s.updates;
    else foreign_leave_states(f->file, "%.300s; its states are not read", fail_text());
    return OK;
}

/* ---- all of it ---- */

/* The rows of the token embedding, which is the dictionary filled up. */
static Status vocabulary_read(FairseqFile *f)
{
    const ForeignTensor *embedding = foreign_find(f->file, FOREIGN_WEIGHT, "decoder.embed_tokens.weight");
    if (!embedding || !foreign_find(f->file, FOREIGN_WEIGHT, "decoder.layer_norm.weight"))
        return fail(BAD_FILE, "%s: no tensor '%s', so no language model with norms before attention and MLP; "
                    "such models alone are read", f->file->path,
                    embedding ? "decoder.layer_norm.weight" : "decoder.embed_tokens.weight");
    json_object_set_new(f->options, "vocab-size", json_integer(embedding->shape[0]));
    return OK;
}

static void position_read(FairseqFile *f)
{
    const PickleValue *history = pickle_get(root_of(f, 0), "optimizer_history");
    int64_t updates;
    if (history && history->kind == PICKLE_LIST && history->items &&
        pickle_integer(pickle_get(history->item[history->items - 1], "num_updates"), &updates) &&
        updates >= 0) f->file->position.step = updates;
}

static Status checkpoint_read(FairseqFile *f, const char *path)
{
    TRY(files_open(f, path));
    TRY(options_read(f));
    FairseqView *view = calloc((size_t)f->parts + 1, sizeof *view);
    Status status = view ? weights_read(f, view) : fail(NO_MEMORY, "%s: no memory for its parts", path);
    free(view);
    TRY(status);
    position_read(f);
    TRY(states_read(f));
    TRY(foreign_finish(f->file));
    return vocabulary_read(f);
}

Status fairseq_read(ForeignModel *model, json_t *options, const char *path)
{
    FairseqFile f = { .file = &model->file, .options = options };
    Status      status = checkpoint_read(&f, path);
    for (int p = 0; p < f.parts; p++) torch_file_close(&f.part[p]);
    free(f.part);
    return status;
}
