/* The folder that transformers opens: weights in shards, index and configs. */
#include "convert/hf_write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/tokenizer.h"

Status hf_json_write(const char *folder, const char *name, json_t *json)
{
    char   path[1024];
    Status status = path_join(path, folder, name);
    char  *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(json);
    if (status == OK && !text) status = fail(NO_MEMORY, "%s: no memory for its text", path);
    if (status == OK) status = file_write_whole(path, text, strlen(text));
    free(text);
    return status;
}

/* The end of the file that begins with tensor `first`. */
static int shard_end(const ConvertRun *c, int first, int64_t most)
{
    int64_t bytes = 0;
    int     t = first;
    do bytes += c->plan->tensor[t++].bytes;
    while (t < c->plan->tensors && bytes + c->plan->tensor[t].bytes <= most);
    return t;
}

static Status shards_write(ConvertRun *c, int64_t most)
{
    int files = 0, number = 0;
    json_t *map = json_object();
    for (int t = 0; t < c->plan->tensors; t = shard_end(c, t, most)) files++;
    Status status = OK;
    for (int t = 0, end; t < c->plan->tensors && status == OK; t = end) {
        char name[64] = "model.safetensors";
        end = shard_end(c, t, most);
        if (files > 1) snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", ++number, files);
        status = convert_run_weights(c, name, t, end - t);
        for (int i = t; i < end; i++) json_object_set_new(map, c->plan->tensor[i].as.name, json_string(name));
    }
    if (files == 1 || status != OK) {
        json_decref(map);
        return status;
    }
    return hf_json_write(c->part, "model.safetensors.index.json",
                         json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)c->total,
                                   "weight_map", map));
}

/* The tokenizer, and the ids of it that both configs name. */
static Status tokenizer_fill(const ConvertRun *c, const HfTexts *texts)
{
    SpecialIds ids;
    Status status = hf_tokenizer_write(c->part, texts->tokenizer, texts->positions, &ids);
    if (status == OK) {
        json_object_update(texts->config, ids.config);
        status = hf_json_write(c->part, "generation_config.json", json_incref(ids.generation));
    }
    special_ids_free(&ids);
    return status;
}

/* Without a tokenizer: some families have ids of their own, which may be none of the vocabulary. */
static Status ids_fill(const ConvertRun *c, const HfTexts *texts)
{
    static const char *const keys[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
    for (int i = 0; i < 3; i++) json_object_set_new(texts->config, keys[i], json_null());
    return hf_json_write(c->part, "generation_config.json", json_pack("{s:b}", "_from_model_config", true));
}

static Status folder_fill(ConvertRun *c, const HfTexts *texts)
{
    TRY(tokenizer_is_none(texts->tokenizer) ? ids_fill(c, texts) : tokenizer_fill(c, texts));
    Dtype dtype = c->plan->tensor[0].dtype;
    json_object_set_new(texts->config, "dtype", json_string(dtype == F64    ? "float64"
                                                            : dtype == BF16 ? "bfloat16"
                                                            : dtype == F16  ? "float16" : "float32"));
    TRY(hf_json_write(c->part, "config.json", json_incref(texts->config)));
    TRY(hf_model_card_write(c->part, c, texts));
    return shards_write(c, texts->shard_bytes);
}

Status hf_write(ConvertRun *c, const HfTexts *texts)
{
    TRY(convert_run_begin(c));
    return convert_run_finish(c, folder_fill(c, texts));
}
