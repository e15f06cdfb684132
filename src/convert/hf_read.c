/* Opening a folder of Hugging Face's transformers: config.json, and the files with the weights, of
 * safetensors or of torch.save. */
#include "convert/format.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "convert/family.h"
#include "convert/torch/torch_parameters.h"
#include "store/checkpoint.h"
#include "store/safetensors.h"
#include "store/tensor_entry.h"
#include "text/tokenizer_file.h"

enum { JSON_LIMIT = 64 << 20, JSON_MULTIPLE = 32 };
static const char CONFIG[] = "config.json";

bool hf_is_folder(const char *path)
{
    char config[1024];
    return path_join(config, path, CONFIG) == OK && file_exists(config);
}

static Status json_open(json_t **root, const char *path)
{
    return json_file_bounded(root, path, JSON_LIMIT, JSON_MULTIPLE, JSON_REJECT_DUPLICATES);
}

static Status weights_add(ForeignModel *model, const char *path)
{
    SafeFile safe;
    TRY(safetensors_open(&safe, path));
    return foreign_safetensors(&model->file, &safe, NULL);
}

/* A mask of another type than weights carries none. */
static bool is_mask(const ForeignModel *model, const TorchParameter *p)
{
    Dtype dtype;
    bool  weight = torch_type_dtype(p->tensor[FOREIGN_WEIGHT]->type, &dtype) && dtype_is_float(dtype);
    return !weight && links_surplus(model->naming, p->name, false);
}

/* Adds the tensors of one file of torch.save; save_pretrained writes only weights. */
static Status pickled_add(ForeignModel *model, const char *path)
{
    TorchFile       torch;
    TorchParameters list = { 0 };
    TRY(torch_open(&torch, &model->file, path));
    const PickleValue *root = torch.pickle.root;
    Status status = root->kind == PICKLE_DICT ? torch_weights(&list, root, 0, false, path) :
        fail(BAD_FILE, "%s: no dictionary of tensors; torch.save(model.state_dict(), ...) writes one", path);
    for (const TorchParameter *p = list.item; status == OK && p < list.item + list.items; p++)
        if (!is_mask(model, p))
            status = torch_add(&model->file, FOREIGN_WEIGHT, p->tensor[FOREIGN_WEIGHT], path, p->name);
    free(list.item);
    torch_file_close(&torch);
    return status;
}

/* The files that weights may be in, in the order in which transformers looks for them. */
static const struct { const char *name; bool index; Status (*add)(ForeignModel *, const char *); }
weights[] = {
    { "model.safetensors",              false, weights_add },
    { "model.safetensors.index.json",   true,  weights_add },
    { "pytorch_model.bin",              false, pickled_add },
    { "pytorch_model.bin.index.json",   true,  pickled_add },
};
enum { WEIGHTS = COUNT(weights) };

/* A plain name: with a slash in it, an index could make this program open any file of the system. */
static Status shard_name_check(const char *path, const json_t *name)
{
    const char *text = json_string_value(name);
    if (text && *text && *text != '.' && !strchr(text, '/')) return OK;
    return fail(BAD_FILE, "%s: a file's name must have no '/' and no '.' at its beginning", path);
}

static Status index_read(ForeignModel *model, const char *folder, const char *path,
                         Status (*add)(ForeignModel *, const char *))
{
    char        shard[1024];
    const char *key;
    json_t     *root, *name, *seen = json_object();
    Status      status = json_open(&root, path);
    if (status != OK) return json_decref(seen), status;
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map)) status = fail(BAD_FILE, "%s: no object weight_map", path);
    json_object_foreach(map, key, name) {
        if (status == OK) status = shard_name_check(path, name);
        if (status != OK) break;
        if (json_object_get(seen, json_string_value(name))) continue;
        json_object_set_new(seen, json_string_value(name), json_true());
        status = path_join(shard, folder, json_string_value(name));
        if (status == OK) status = add(model, shard);
    }
    json_decref(seen);
    json_decref(root);
    return status;
}

/* Which files with weights are not read, because the folder has those of row `read`: a person who has
 * trained on may mean the others. */
static void note_unread(ForeignFile *file, const char *folder, int read)
{
    char path[1024], unread[200] = "";
    for (int i = read + 1; i < WEIGHTS; i++) {
        if (path_join(path, folder, weights[i].name) == OK && file_exists(path))
            message_item(unread, sizeof unread, ", ", "%s", weights[i].name);
    }
    if (*unread)
        snprintf(file->note, sizeof file->note, "weights are those of %s, which transformers takes first; "
                 "not read: %s", weights[read].name, unread);
}

static Status weights_open(ForeignModel *model, const char *folder)
{
    char path[1024];
    for (int i = 0; i < WEIGHTS; i++) {
        TRY(path_join(path, folder, weights[i].name));
        if (!file_exists(path)) continue;
        note_unread(&model->file, folder, i);
        TRY(weights[i].index ? index_read(model, folder, path, weights[i].add) : weights[i].add(model, path));
        return foreign_finish(&model->file);
    }
    return fail(BAD_FILE,
                "%s: has neither %s nor %s, and no %s; transformers' save_pretrained writes them", folder,
                weights[0].name, weights[1].name, weights[2].name);
}

/* Appends a key's id where the vocabulary has fewer. */
static void id_note(ForeignModel *model, const char *key, const json_t *id, int64_t vocabulary)
{
    if (!json_is_integer(id) || json_integer_value(id) < vocabulary) return;
    message_item(model->ids_left, sizeof model->ids_left, ", ", "%s %lld", key,
                 (long long)json_integer_value(id));
}

/* Ids below 0 are how older configs say that there is none. */
static void ids_note(ForeignModel *model, const json_t *config, const json_t *options)
{
    static const char *const names[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
    int64_t vocabulary = json_integer_value(json_object_get(options, "vocab-size"));
    for (int i = 0; i < 3; i++) {
        json_t *held = json_object_get(config, names[i]), *id;
        size_t  k;
        id_note(model, names[i], held, vocabulary);
        json_array_foreach(held, k, id) id_note(model, names[i], id, vocabulary);
    }
}

static Status config_read(ForeignModel *model, json_t *options, const char *folder)
{
    char    path[1024];
    json_t *config;
    Family  family = 0;
    TRY(path_join(path, folder, CONFIG));
    TRY(json_open(&config, path));
    Status status = family_read(&family, options, config, path);
    if (status == OK) ids_note(model, config, options);
    json_decref(config);
    model->naming = family_naming(family);
    return status;
}

Status hf_refuse_adapter(const char *folder)
{
    char path[1024];
    if (hf_is_folder(folder) || path_join(path, folder, "adapter_config.json") != OK || !file_exists(path))
        return OK;
    return fail(BAD_FILE, "%s: an adapter (LoRA), which changes the weights of another model; merge the two "
                "by peft's merge_and_unload, save the model, and give that folder", folder);
}

/* One of our checkpoints has no config.json. */
static Status refuse_checkpoint(const char *folder)
{
    char path[1024];
    bool found = false;
    TRY(hf_refuse_adapter(folder));
    if (hf_is_folder(folder) || checkpoint_find_silent(folder, path, &found) != OK || !found) return OK;
    return fail(BAD_FILE, "%s: a checkpoint of jotun, and no folder of transformers; name it without hf:, or "
                "--from jotun", folder);
}

Status hf_read(ForeignModel *model, json_t *options, const char *folder)
{
    TokenizerFile file;
    TRY(refuse_checkpoint(folder));
    TRY(config_read(model, options, folder));
    TRY(weights_open(model, folder));
    if (tokenizer_file_find(&file, folder) == OK)          /* the folder has the files of one */
        snprintf(model->tokenizer, sizeof model->tokenizer, "%s", folder);
    return OK;
}
