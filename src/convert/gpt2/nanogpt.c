/* nanoGPT's ckpt.pt. torch.compile puts "_orig_mod." before every name. */
#include "convert/gpt2/nanogpt.h"
#include <string.h>
#include "convert/torch/torch_file.h"

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
        while (k < sizeof rows / sizeof *rows && !pickle_is_text(args->item[i], rows[k].argument)) k++;
        if (k == sizeof rows / sizeof *rows)
            return fail(BAD_FILE, "%s: model_args has '%s', which nanoGPT's model does not", path,
                        pickle_text(name, sizeof name, args->item[i]));
    }
    return OK;
}

static Status options_read(json_t *options, const PickleValue *args, const char *path)
{
    int64_t bias = 1;
    if (!args || args->kind != PICKLE_DICT)
        return fail(BAD_FILE, "%s: no model_args, so not a checkpoint of nanoGPT", path);
    TRY(arguments_known(args, path));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
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
    const char mask[] = ".attn.bias";
    size_t     bytes  = strlen(name), end = sizeof mask - 1;
    return strcmp(name, "lm_head.weight") == 0 || (bytes > end && strcmp(name + bytes - end, mask) == 0);
}

static Status weights_read(ForeignFile *file, const PickleValue *model, const char *path)
{
    static const char compiled[] = "_orig_mod.";
    char text[160];
    if (!model || model->kind != PICKLE_DICT) return fail(BAD_FILE, "%s: no weights named 'model'", path);
    for (uint32_t i = 0; i < model->items; i += 2) {
        const PickleValue *key = model->item[i], *value = model->item[i + 1];
        const char        *name = pickle_text(text, sizeof text, key);
        if (strncmp(name, compiled, sizeof compiled - 1) == 0) name += sizeof compiled - 1;
        if (value->kind != PICKLE_TENSOR) return fail(BAD_FILE, "%s: '%s' is no tensor", path, name);
        if (!is_unused(name)) TRY(torch_add(file, value->tensor, path, name));
    }
    return OK;
}

static Status checkpoint_read(ForeignFile *file, json_t *options, const char *path)
{
    TorchFile torch;
    int       map;
    TRY(foreign_map(file, &map, path));
    TRY(torch_file_read(&torch, file->map[map].data, file->map[map].size, path));
    Status status = torch_sums(file, &torch);
    if (status == OK) status = options_read(options, pickle_get(torch.pickle.root, "model_args"), path);
    if (status == OK) status = weights_read(file, pickle_get(torch.pickle.root, "model"), path);
    torch_file_close(&torch);
    return status == OK ? foreign_finish(file) : status;
}

Status nanogpt_read(ForeignFile *file, json_t **options, const char *path)
{
    *options = json_object();
    foreign_begin(file, path);
    Status status = *options ? checkpoint_read(file, *options, path)
                             : fail(NO_MEMORY, "%s: no memory for options", path);
    if (status == OK) return OK;
    json_decref(*options);
    *options = NULL;
    foreign_close(file);
    return status;
}
