/* nanoGPT's ckpt.pt. torch.compile puts "_orig_mod." before every name. */
#include <stdio.h>
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

/* The name of the bias beside a gain of a LayerNorm that the model lacks; false: the tensor is another one,
 * or the model has the bias. */
static bool lacks_bias(char bias[TORCH_NAME_BYTES], const TorchParameters *list, const TorchParameter *gain)
{
    if (!strstr(gain->name, ".ln_") || !text_ends(gain->name, "weight")) return false;
    snprintf(bias, TORCH_NAME_BYTES, "%.*sbias", (int)(strlen(gain->name) - strlen("weight")), gain->name);
    for (size_t i = 0; i < list->items; i++)
        if (!strcmp(list->item[i].name, bias)) return false;
    return true;
}

/* With bias=False the LayerNorms have no biases either, and here they always have: those of value 0 give the
 * same function. They are weights, or moments of these. *map: of zeros; -1: there are none yet. */
static Status zeros_add(ForeignFile *file, int *map, ForeignKind kind, const PickleTensor *gain,
                        const char *bias)
{
    Dtype   dtype;
    int     tensor;
    FileMap zeros;
    if (gain->dims != 1 || gain->size[0] < 1 || !torch_type_dtype(gain->type, &dtype)) return OK;
    TRY(foreign_tensor(file, &tensor, kind, bias, dtype, 1, gain->size));
    size_t bytes = (size_t)gain->size[0] * dtype_width(dtype);
    if (*map < 0 || file->map[*map].size < bytes) {
        TRY(file_map_zeros(&zeros, bytes));
        TRY(foreign_adopt(file, map, &zeros));
    }
    return foreign_whole(file, tensor, (const char *)file->map[*map].data);
}

static Status tensors_add(ForeignFile *file, const TorchParameters *list, bool biases, const char *path)
{
    char bias[TORCH_NAME_BYTES];
    int  map = -1;
    for (size_t i = 0; i < list->items; i++) {
        const TorchParameter *p = &list->item[i];
        bool lacks = !biases && lacks_bias(bias, list, p);
        for (ForeignKind k = FOREIGN_WEIGHT; k < FOREIGN_KINDS; k++) {
            if (!p->tensor[k] || (k != FOREIGN_WEIGHT && *file->states_unread)) continue;
            TRY(torch_add(file, k, p->tensor[k], path, p->name));
            if (lacks) TRY(zeros_add(file, &map, k, p->tensor[k], bias));
        }
    }
    if (map >= 0)
        snprintf(file->note, sizeof file->note, "its LayerNorms have no biases (bias=False), and those here "
                 "begin at 0: the outputs are the same, and a run that continues trains them");
    return OK;
}

static Status weights_read(TorchParameters *list, const PickleValue *model, const char *path)
{
    static const char compiled[] = "_orig_mod.";
    size_t kept = 0;
    if (!model || model->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no weights named 'model'; give the ckpt.pt that nanoGPT's train.py saves",
                    path);
    TRY(torch_weights(list, model, 0, false, path));
    for (size_t i = 0; i < list->items; i++) {
        TorchParameter *p = &list->item[i];
        if (!strncmp(p->name, compiled, sizeof compiled - 1))
            memmove(p->name, p->name + sizeof compiled - 1, sizeof p->name - (sizeof compiled - 1));
        if (!is_unused(p->name)) list->item[kept++] = *p;
    }
    list->items = kept;
    return OK;
}

/* ---- optimizer and position ---- */

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
static Status states_read(ForeignFile *file, TorchParameters *list, const PickleValue *optimizer,
                          const char *path)
{
    if (!optimizer || optimizer->kind == PICKLE_NONE) return OK;
    Status status = torch_optimizer_states(list, optimizer, &file->position.updates, path);
    if (status == BAD_FILE) foreign_leave_states(file, "%s", fail_text());
    return status == BAD_FILE ? OK : status;
}

static Status checkpoint_read(ForeignFile *file, TorchParameters *list, json_t *options,
                              const PickleValue *root, const char *path)
{
    TRY(options_read(options, pickle_get(root, "model_args"), path));
    TRY(weights_read(list, pickle_get(root, "model"), path));
    position_read(&file->position, root);
    TRY(states_read(file, list, pickle_get(root, "optimizer"), path));
    TRY(tensors_add(file, list, !json_object_get(options, "disable-bias-linear"), path));
    return foreign_finish(file);
}

Status nanogpt_read(ForeignModel *model, json_t *options, const char *path)
{
    TorchFile       torch;
    TorchParameters list = { 0 };
    TRY(torch_open(&torch, &model->file, path));
    Status status = checkpoint_read(&model->file, &list, options, torch.pickle.root, path);
    free(list.item);
    torch_file_close(&torch);
    return status;
}
