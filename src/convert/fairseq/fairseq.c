/* Checkpoints of fairseq's language models: arguments as options, weights, the states of Adam. */
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
    int          parts;                       /* of model parallelism */
    TorchFile   *part;                        /* [parts], and what it has; owned */
    TorchParameters *list;
    PickleTensor    *flat[PARTS_MAX];         /* states that are parts of one vector, owned */
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
    f->part = calloc(PARTS_MAX, sizeof *f->part);
    f->list = calloc(PARTS_MAX, sizeof *f->list);
    if (!f->part || !f->list)
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

/* How parts divide a tensor. Learned positions have two rows more at their beginning, which no token has. */
static TorchSplit split_of(const char *name)
{
    static const struct { const char *part; int dim; } split[] = {
        { "out_proj.weight", 1 }, { "fc2.weight", 1 }, { "out_proj.bias", -1 }, { "fc2.bias", -1 },
        { "embed_tokens.weight", 0 }, { "output_projection.weight", 0 }, { "q_proj.weight", 0 },
        { "k_proj.weight", 0 }, { "v_proj.weight", 0 }, { "fc1.weight", 0 }, { "q_proj.bias", 0 },
        { "k_proj.bias", 0 }, { "v_proj.bias", 0 }, { "fc1.bias", 0 },
    };
    TorchSplit whole = { .dim = -1, .runs = 1, .first = text_ends(name, "embed_positions.weight") ? 2 : 0 };
    for (size_t i = 0; i < COUNT(split); i++)
        if (text_ends(name, split[i].part)) return (TorchSplit){ .dim = split[i].dim, .runs = 1 };
    return whole;
}

/* What holds no weights, and the output layer that is the token embedding. */
static bool is_unused(const FairseqFile *f, const char *name)
{
    bool output = text_ends(name, "output_projection.weight") || text_ends(name, "decoder.embed_out");
    if (output && is_on(f, "share_decoder_input_output_embed")) return true;
    return text_ends(name, ".version") || text_ends(name, "._float_tensor");
}

static Status weights_read(FairseqFile *f, int part)
{
    TorchParameters   *list = &f->list[part];
    size_t             kept = 0;
    const PickleValue *model = pickle_get(root_of(f, part), "model");
    if (!model || model->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no weights named 'model'; give a checkpoint of fairseq-train",
                    f->file->path);
    TRY(torch_weights(list, model, 0, false, f->file->path));
    for (size_t i = 0; i < list->items; i++)
        if (!is_unused(f, list->item[i].name)) list->item[kept++] = list->item[i];
    list->items = kept;
    if (kept == f->list[0].items) return OK;
    return fail(BAD_FILE, "%s: part %d has other tensors than part 0; copy the files of one model",
                f->file->path, part);
}

/* ---- states: FP32's optimizer and the memory-efficient one have some for each parameter, in the order of
 * the model; FP16's has all parameters one behind the other in one vector. Each part of model parallelism has
 * states of its own parameters ---- */

/* The first state, where the optimizer has one parameter; NULL: it has several. */
static const PickleValue *only_state(const PickleValue *optimizer)
{
    const PickleValue *groups = pickle_get(optimizer, "param_groups"), *all = pickle_get(optimizer, "state");
    bool one = groups && groups->kind == PICKLE_LIST && groups->items == 1 && all &&
               all->kind == PICKLE_DICT && all->items == 2;
    const PickleValue *numbers = one ? pickle_get(groups->item[0], "params") : NULL;
    return numbers && numbers->kind == PICKLE_LIST && numbers->items == 1 ? all->item[1] : NULL;
}

/* A tensor of the weight's shape in a vector, whose elements from *at on it is; *at goes behind it. */
static PickleTensor tensor_within(const PickleTensor *weight, const PickleTensor *vector, int64_t *at)
{
    PickleTensor t = *weight;
    int64_t      step = 1;
    t.storage = vector->storage, t.type = vector->type, t.offset = vector->offset + *at;
    for (int d = t.dims - 1; d >= 0; step *= t.size[d--]) t.stride[d] = step;
    *at += step;
    return t;
}

/* All parameters in one vector. */
static Status flat_read(TorchParameters *list, PickleTensor *flat, const PickleValue *state, const char *path)
{
    for (ForeignKind k = FOREIGN_MOMENT; k <= FOREIGN_SQUARE; k++) {
        const PickleValue *v = pickle_get(state, foreign_kind_name(k));
        int64_t            at = 0;
        if (!v || v->kind != PICKLE_TENSOR)
            return fail(BAD_FILE, "%s: it has no %s, so that it is not Adam's", path, foreign_kind_name(k));
        int64_t left = v->tensor->dims == 1 && v->tensor->stride[0] == 1 ? v->tensor->size[0] : -1;
        for (size_t i = 0; i < list->items && at <= left; i++) {
            *flat = tensor_within(list->item[i].tensor[FOREIGN_WEIGHT], v->tensor, &at);
            list->item[i].tensor[k] = flat++;
        }
        if (at != left)
            return fail(BAD_FILE, "%s: its %s has not the elements of the parameters", path,
                        foreign_kind_name(k));
    }
    return OK;
}

static Status part_states(FairseqFile *f, int part, int64_t *updates)
{
    const PickleValue *optimizer = pickle_get(root_of(f, part), "last_optimizer_state");
    const PickleValue *one  = only_state(optimizer);
    TorchParameters   *list = &f->list[part];
    const char        *path = f->file->path;
    if (!optimizer) return fail(BAD_FILE, "%s: a part has no states", path);
    if (!one || list->items < 2) return torch_optimizer_states(list, optimizer, updates, path);
    if (!(f->flat[part] = calloc(2 * list->items, sizeof *f->flat[part])))
        return fail(NO_MEMORY, "%s: no memory for its states", path);
    TRY(flat_read(list, f->flat[part], one, path));
    return torch_updates(updates, one, path);
}

/* States that do not fit are left out, with the reason. */
static Status states_read(FairseqFile *f)
{
    const PickleValue *optimizer = pickle_get(root_of(f, 0), "last_optimizer_state");
    int64_t updates = -1;
    Status  status = OK;
    if (!optimizer || optimizer->kind == PICKLE_NONE) return OK;
    for (int p = 0; p < f->parts && status == OK; p++) status = part_states(f, p, &updates);
    if (status == OK && updates < 0)
        status = fail(BAD_FILE, "%s: it does not say its updates", f->file->path);
    f->file->position.updates = updates;
    if (status == BAD_FILE) foreign_leave_states(f->file, "%.300s; its states are not read", fail_text());
    return status == BAD_FILE ? OK : status;
}

static Status tensors_add(FairseqFile *f)
{
    for (size_t i = 0; i < f->list[0].items; i++)
        for (ForeignKind k = FOREIGN_WEIGHT; k < FOREIGN_KINDS; k++) {
            const TorchParameter *p = &f->list[0].item[i];
            bool old_output = text_ends(p->name, "decoder.embed_out");
            if (!p->tensor[k] || (k != FOREIGN_WEIGHT && *f->file->states_unread)) continue;
            TRY(torch_join(f->file, old_output ? "decoder.output_projection.weight" : p->name, f->list,
                           f->parts, i, k, split_of(p->name), f->file->path));
        }
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
    for (int p = 0; p < f->parts; p++) TRY(weights_read(f, p));
    position_read(f);
    TRY(states_read(f));
    TRY(tensors_add(f));
    TRY(foreign_finish(f->file));
    return vocabulary_read(f);
}

Status fairseq_read(ForeignModel *model, json_t *options, const char *path)
{
    FairseqFile f = { .file = &model->file, .options = options };
    Status      status = checkpoint_read(&f, path);
    for (int p = 0; p < f.parts; p++) {
        torch_file_close(&f.part[p]);
        free(f.list[p].item);
        free(f.flat[p]);
    }
    free(f.part);
    free(f.list);
    return status;
}
