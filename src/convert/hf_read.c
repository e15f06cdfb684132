/* Opening a folder of Hugging Face's transformers: config.json, and the safetensors files with the weights.
 */
#include "convert/format.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "convert/family.h"
#include "store/safetensors.h"
#include "store/tensor_entry.h"

enum { JSON_LIMIT = 64 << 20, JSON_MULTIPLE = 32 };
static const char CONFIG[] = "config.json", WEIGHTS[] = "model.safetensors",
                  INDEX[] = "model.safetensors.index.json";

void foreign_model_close(ForeignModel *model)
{
    foreign_close(&model->file);
    free(model->options);
    *model = (ForeignModel){ 0 };
}

bool hf_is_folder(const char *path)
{
    char config[1024];
    return path_join(config, path, CONFIG) == OK && file_exists(config);
}

static Status json_open(json_t **root, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    Status status = map.size <= JSON_LIMIT ? OK :
                    fail(BAD_FILE, "%s: %zu bytes; at most %d are read", path, map.size, JSON_LIMIT);
    if (status == OK)
        status = json_parse_bounded(root, path, "", (const char *)map.data, map.size, JSON_MULTIPLE);
    file_unmap(&map);
    return status;
}

/* Adds the tensors of one safetensors file, whose mapping the ForeignFile takes over. */
static Status weights_add(ForeignFile *file, const char *path)
{
    SafeFile safe;
    int      tensor, map;
    TRY(safetensors_open(&safe, path));
    Status status = foreign_adopt(file, &map, &safe.map);
    for (int i = 0; status == OK && i < safe.tensors; i++) {
        const SafeTensor *t = &safe.tensor[i];
        status = foreign_tensor(file, &tensor, t->name, t->dtype, t->dims, t->dim);
        if (status == OK) status = foreign_whole(file, tensor, (const char *)file->map[map].data + t->at);
    }
    safetensors_close(&safe);
    return status;
}

/* A plain name: with a slash in it, an index could make this program open any file of the system. */
static Status shard_name_check(const char *path, const json_t *name)
{
    const char *text = json_string_value(name);
    if (text && *text && *text != '.' && !strchr(text, '/')) return OK;
    return fail(BAD_FILE, "%s: a file's name must have no '/' and no '.' at its beginning", path);
}

static Status index_read(ForeignFile *file, const char *folder, const char *path)
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
        if (status == OK) status = weights_add(file, shard);
    }
    json_decref(seen);
    json_decref(root);
    return status;
}

static Status weights_open(ForeignFile *file, const char *folder)
{
    char path[1024];
    TRY(path_join(path, folder, INDEX));
    if (file_exists(path)) TRY(index_read(file, folder, path));
    else {
        TRY(path_join(path, folder, WEIGHTS));
        if (!file_exists(path))
            return fail(BAD_FILE,
                        "%s: has neither %s nor %s; weights in other files (pytorch_model.bin) are not "
                        "read: save them by transformers' save_pretrained",
                        folder, WEIGHTS, INDEX);
        TRY(weights_add(file, path));
    }
    return foreign_finish(file);
}

static Status config_read(ForeignModel *model, const char *folder)
{
    char    path[1024];
    json_t *config, *options;
    Family  family = 0;
    TRY(path_join(path, folder, CONFIG));
    TRY(json_open(&config, path));
    Status status = family_read(&family, &options, config, path);
    json_decref(config);
    TRY(status);
    model->naming  = family_naming(family);
    model->options = json_dumps(options, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(options);
    return model->options ? OK : fail(NO_MEMORY, "%s: no memory for its options", path);
}

/* The folder is a tokenizer where it has the files of one. */
static void tokenizer_find(ForeignModel *model, const char *folder)
{
    static const char *const files[] = { "tokenizer.json", "vocab.json", "tokenizer.model" };
    char path[1024];
    for (int i = 0; i < 3; i++)
        if (path_join(path, folder, files[i]) == OK && file_exists(path))
            snprintf(model->tokenizer, sizeof model->tokenizer, "%s", folder);
}

Status hf_open(ForeignModel *model, const char *folder)
{
    *model = (ForeignModel){ 0 };
    foreign_begin(&model->file, folder);
    Status status = config_read(model, folder);
    if (status == OK) status = weights_open(&model->file, folder);
    if (status == OK) tokenizer_find(model, folder);
    if (status != OK) foreign_model_close(model);
    return status;
}
