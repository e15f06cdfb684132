/* nanoGPT's ckpt.pt. torch.compile puts "_orig_mod." before every name. */
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/words.h"
#include "convert/format.h"
#include "convert/torch/torch_optimizer.h"

/* Arguments of the model and the option, or two, that have their value. */
static const struct { const char *argument, *option, *second; } rows[] = {
    { "n_layer", "num-layers", NULL },          { "n_head", "num-attention-heads", NULL },
    { "n_embd", "hidden-size", NULL },          { "block_size", "seq-length", "max-position-embeddings" },
    { "vocab_size", "vocab-size", NULL },       { "dropout", "attention-dropout", "hidden-dropout" },
    { "bias", NULL, NULL },
};

/* Every argument is known: another one would change the model. */
static Status arguments_known(const PickleValue *args, const char *path)
{
    char name[64];
    for (uint32_t i = 0; i < args->items; i += 2) {
        size_t k = 0;
        while (k < COUNT(rows) && !pickle_is_text(args->item[i], rows[k].argument)) k++;
        if (k == COUNT(rows))
            return fail(BAD_FILE, "%s: model_args has '%s', which nanoGPT's model does not; checkpoints of "
                        "nanoGPT's own model.py are read", path,
                        pickle_text(name, sizeof name, args->item[i]));
    }
    return OK;
}

static Status options_read(json_t *options, const PickleValue *args, const char *path)
{
    int64_t bias = 1;
    if (!args || args->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no model_args, so not a checkpoint of nanoGPT; give the ckpt.pt that its "
                    "train.py saves", path);
    TRY(arguments_known(args, path));
    for (size_t i = 0; i < COUNT(rows); i++) {
        const PickleValue *v = pickle_get(args, rows[i].argument);
        int64_t integer;
        double  real = 0;
        if (!rows[i].option || (!v && rows[i].second && !strcmp(rows[i].argument, "dropout"))) continue;
        bool whole = pickle_integer(v, &integer);
        if (!whole && !pickle_real(v, &real))
            return fail(BAD_FILE, "%s: model_args has no number %s", path, rows[i].argument);
        for (int k = 0; k < 2; k++) {
            const char *option = k ? rows[i].second : rows[i].option;
            if (option)
                json_object_set_new(options, option,
                                    whole ? json_integer((json_int_t)integer) : json_real(real));
        }
    }
    pickle_integer(pickle_get(args, "bias"), &bias);
    if (!bias) json_object_set_new(options, "disable-bias-linear", json_true());
    json_object_set_new(options, "gelu-approximate", json_string("none")); /* torch.nn.GELU() is by erf */
    return OK;
}

/* The causal mask, which older versions saved, and the head, which is the token embedding,
 * hold no weights. */
static bool is_unused(const char *name)
{
    return strcmp(name, "lm_head.weight") == 0 || text_ends(name, ".attn.bias");
}

static const char *name_of(char text[160], const PickleValue *key)
{
    static const char compiled[] = "_orig_mod.";
    const char *name = pickle_text(text, 160, key);
    return strncmp(name, compiled, sizeof compiled - 1) == 0 ? name + sizeof compiled - 1 : name;
}

/* The name of the bias beside a gain of a LayerNorm, in `bias`; false: the tensor is another one, or the
 * model has the bias. */
static bool lacks_bias(char bias[160], const PickleValue *model, const PickleValue *key)
{
    char        text[160];
    const char *name = name_of(text, key);
    if (!strstr(name, ".ln_") || !text_ends(text, "weight")) return false;
    memcpy(text + strlen(text) - strlen("weight"), "bias", sizeof "bias");
    snprintf(bias, 160, "%s", name);
    return !pickle_get(model, text);
}

/* With bias=False the LayerNorms have no biases either, and here they always have: those of value 0 give the
 * same function. They are weights, or moments of these. */
static Status zeros_add(ForeignFile *file, ForeignKind kind, const PickleValue *model)
{
    char    bias[160];
    int     map = -1, tensor;
    FileMap zeros;
    for (uint32_t i = 0; i < model->items; i += 2) {
        const PickleTensor *gain = model->item[i + 1]->tensor;
        Dtype dtype;
        if (!lacks_bias(bias, model, model->item[i]) || gain->dims != 1 || gain->size[0] < 1) continue;
        if (!torch_type_dtype(gain->type, &dtype)) continue;
        TRY(foreign_tensor(file, &tensor, kind, bias, dtype, 1, gain->size));
        size_t bytes = (size_t)gain->size[0] * dtype_width(dtype);
        if (map < 0 || file->map[map].size < bytes) {
            TRY(file_map_zeros(&zeros, bytes));
            TRY(foreign_adopt(file, &map, &zeros));
        }
        TRY(foreign_whole(file, tensor, (const char *)file->map[map].data));
    }
    if (map >= 0)
        snprintf(file->note, sizeof file->note, "its LayerNorms have no biases (bias=False), and those here "
                 "begin at 0: the outputs are the same, and a run that continues trains them");
    return OK;
}

static Status weights_read(ForeignFile *file, const PickleValue *model, bool biases, const char *path)
{
    char text[160];
    if (!model || model->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no weights named 'model'; give the ckpt.pt that nanoGPT's train.py saves",
                    path);
    for (uint32_t i = 0; i < model->items; i += 2) {
        const PickleValue *value = model->item[i + 1];
        const char        *name = name_of(text, model->item[i]);
        if (value->kind != PICKLE_TENSOR) return fail(BAD_FILE, "%s: '%s' is no tensor", path, name);
        if (!is_unused(name)) TRY(torch_add(file, FOREIGN_WEIGHT, value->tensor, path, name));
    }
    return biases ? OK : zeros_add(file, FOREIGN_WEIGHT, model);
}

/* ---- optimizer and position ---- */

static Status states_add(ForeignFile *file, const PickleValue *model, const PickleValue *optimizer,
                         bool biases, TorchParameter *parameter, const char *path)
{
    char text[160];
    int  count = 0, at = 0;
    for (uint32_t i = 0; i < model->items; i += 2)
        if (!is_unused(name_of(text, model->item[i]))) parameter[count++].weight = model->item[i + 1]->tensor;
    TRY(torch_optimizer_states(parameter, count, optimizer, NULL, false, &file->position.updates, path));
    for (uint32_t i = 0; i < model->items; i += 2) {
        const char *name = name_of(text, model->item[i]);
        if (is_unused(name)) continue;
        for (ForeignKind k = FOREIGN_MOMENT; k <= FOREIGN_SQUARE; k++)
            if (parameter[at].state[k]) TRY(torch_add(file, k, parameter[at].state[k], path, name));
        at++;
    }
    for (ForeignKind k = FOREIGN_MOMENT; k <= FOREIGN_SQUARE && !biases; k++) TRY(zeros_add(file, k, model));
    return OK;
}

/* nanoGPT draws batches at random; what it has consumed is a number of samples alone. */
static void position_read(ForeignPosition *position, const PickleValue *root)
{
    const PickleValue *config = pickle_get(root, "config");
    int64_t step, batch, batches, samples;
    if (!pickle_integer(pickle_get(root, "iter_num"), &step) || step < 0) return;
    position->step = step;
    if (pickle_integer(pickle_get(config, "batch_size"), &batch) && batch > 0 &&
        pickle_integer(pickle_get(config, "gradient_accumulation_steps"), &batches) && batches > 0 &&
        !__builtin_mul_overflow(batch, batches, &samples) && !__builtin_mul_overflow(samples, step, &samples))
        position->samples = samples;
}

/* States that do not fit the model are left out; the model can be read without. */
static Status training_read(ForeignFile *file, const PickleValue *root, bool biases, const char *path)
{
    const PickleValue *model = pickle_get(root, "model"), *optimizer = pickle_get(root, "optimizer");
    position_read(&file->position, root);
    if (!optimizer || optimizer->kind == PICKLE_NONE) return OK;
    TorchParameter *parameter = calloc((size_t)model->items / 2 + 1, sizeof *parameter);
    Status status = parameter ? states_add(file, model, optimizer, biases, parameter, path)
                              : fail(NO_MEMORY, "%s: no memory for its states", path);
    free(parameter);
    if (status != BAD_FILE) return status;
    foreign_leave_states(file, "%s", fail_text());
    return OK;
}

static Status checkpoint_read(ForeignFile *file, json_t *options, const PickleValue *root, const char *path)
{
    TRY(options_read(options, pickle_get(root, "model_args"), path));
    bool biases = !json_object_get(options, "disable-bias-linear");
    TRY(weights_read(file, pickle_get(root, "model"), biases, path));
    TRY(training_read(file, root, biases, path));
    return foreign_finish(file);
}

Status nanogpt_read(ForeignModel *model, json_t *options, const char *path)
{
    TorchFile torch;
    TRY(torch_open(&torch, &model->file, path));
    Status status = checkpoint_read(&model->file, options, torch.pickle.root, path);
    torch_file_close(&torch);
    return status;
}
