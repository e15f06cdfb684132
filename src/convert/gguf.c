/* GGUF files: header, keys, the list of tensors and their data, each at a multiple of 32 bytes. */
#include "convert/gguf.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/seam.h"

enum { VERSION = 3, ALIGNMENT = 32, BLOCK = 32, BLOCK_BYTES = 34, WINDOW = 4 << 20 };

/* ---- keys and values ---- */

void gguf_put(GgufText *out, const void *data, size_t bytes)
{
    if (out->status != OK) return;
    if (out->used + bytes > out->capacity) {
        size_t capacity = 2 * (out->used + bytes) + 4096;
        char  *more = realloc(out->data, capacity);
        if (!more) {
            out->status = fail(NO_MEMORY, "no memory for the keys of a GGUF file");
            return;
        }
        out->data = more, out->capacity = capacity;
    }
    memcpy(out->data + out->used, data, bytes);
    out->used += bytes;
}

void gguf_put_number(GgufText *out, uint64_t value, int bytes)
{
    char text[8];
    for (int i = 0; i < bytes; i++) text[i] = (char)(value >> 8 * i);
    gguf_put(out, text, (size_t)bytes);
}

void gguf_put_string(GgufText *out, const char *text, size_t bytes)
{
    gguf_put_number(out, bytes, 8);
    gguf_put(out, text, bytes);
}

void gguf_key(GgufText *out, const char *key, GgufKind kind)
{
    gguf_put_string(out, key, strlen(key));
    gguf_put_number(out, kind, 4);
    out->keys++;
}

void gguf_key_string(GgufText *out, const char *key, const char *text)
{
    gguf_key(out, key, GGUF_STRING);
    gguf_put_string(out, text, strlen(text));
}

void gguf_key_uint(GgufText *out, const char *key, int64_t value)
{
    gguf_key(out, key, GGUF_UINT32);
    gguf_put_number(out, (uint64_t)value, 4);
}

void gguf_key_real(GgufText *out, const char *key, double value)
{
    float    number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    gguf_key(out, key, GGUF_FLOAT32);
    gguf_put_number(out, bits, 4);
}

/* ---- architectures ---- */

static const struct {
    Family      family;
    Naming      naming;
    const char *architecture;
    bool        rotary;
} architectures[] = {
    {FAMILY_GPT2, NAMING_GGUF_GPT2, "gpt2", false},
    {FAMILY_LLAMA, NAMING_GGUF_LLAMA, "llama", true},
    {FAMILY_MIXTRAL, NAMING_GGUF_LLAMA, "llama", true},
    {FAMILY_QWEN2, NAMING_GGUF_QWEN2, "qwen2", true},
};

static int architecture_of(Family family)
{
    for (int i = 0; i < (int)(sizeof architectures / sizeof architectures[0]); i++)
        if (architectures[i].family == family) return i;
    return -1;
}

Status gguf_naming(Naming *naming, const GgufTexts *texts)
{
    const char *window = json_string_value(json_object_get(texts->options, "window-size"));
    int a = architecture_of(texts->family);
    if (a < 0)
        return fail(BAD_OPTION,
                    "--to gguf: models of type %s are not written as GGUF; gpt2, llama, mixtral and "
                    "qwen2 are",
                    family_model_type(texts->family));
    if (window && strcmp(window, "-1,0"))
        return fail(BAD_OPTION, "--to gguf: llama.cpp has no sliding window for this architecture");
    const json_t *linear = json_object_get(texts->options, "rotary-seq-len-interpolation-factor");
    if (json_is_true(json_object_get(texts->options, "use-rope-scaling")) ||
        (json_is_number(linear) && json_number_value(linear) != 1))
        return fail(BAD_OPTION, "--to gguf: a scaled rotary embedding is not written; --to hf keeps it");
    *naming = architectures[a].naming;
    return OK;
}

/* The keys of an architecture: one for each number, from our option. */
static const struct { const char *key, *option; bool rotary, real; } keys[] = {
    { "embedding_length",                 "hidden-size",          false, false },
    { "block_count",                      "num-layers",           false, false },
    { "feed_forward_length",              "ffn-hidden-size",      false, false },
    { "attention.head_count",             "num-attention-heads",  false, false },
    { "attention.head_count_kv",          "num-query-groups",     true,  false },
    { "attention.key_length",             "kv-channels",          true,  false },
    { "attention.value_length",           "kv-channels",          true,  false },
    { "rope.dimension_count",             "kv-channels",          true,  false },
    { "rope.freq_base",                   "rotary-base",          true,  true },
    { "vocab_size",                       "vocab-size",           false, false },
};

static void model_keys(GgufText *out, const GgufTexts *texts)
{
    int a = architecture_of(texts->family);
    const char *name = architectures[a].architecture;
    bool rotary = architectures[a].rotary;
    char key[128];
    gguf_key_string(out, "general.architecture", name);
    gguf_key_string(out, "general.name", texts->name);
    gguf_key_uint(out, "general.file_type",
                  texts->type == GGUF_F32    ? 0
                  : texts->type == GGUF_F16  ? 1
                  : texts->type == GGUF_Q8_0 ? 7
                                             : 32);
    if (texts->type == GGUF_Q8_0) gguf_key_uint(out, "general.quantization_version", 2);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = json_object_get(texts->options, keys[i].option);
        if (keys[i].rotary && !rotary) continue;
        snprintf(key, sizeof key, "%s.%s", name, keys[i].key);
        if (keys[i].real) gguf_key_real(out, key, json_number_value(value));
        else gguf_key_uint(out, key, json_integer_value(value));
    }
    snprintf(key, sizeof key, "%s.context_length", name);
    gguf_key_uint(out, key, json_integer_value(json_object_get(texts->options, rotary ? "seq-length"
                                                                            : "max-position-embeddings")));
    snprintf(key, sizeof key, "%s.attention.layer_norm_%sepsilon", name, rotary ? "rms_" : "");
    gguf_key_real(out, key, json_number_value(json_object_get(texts->options, "norm-epsilon")));
    if (texts->family != FAMILY_MIXTRAL) return;
    snprintf(key, sizeof key, "%s.expert_count", name);
    gguf_key_uint(out, key, json_integer_value(json_object_get(texts->options, "num-experts")));
    snprintf(key, sizeof key, "%s.expert_used_count", name);
    gguf_key_uint(out, key, json_integer_value(json_object_get(texts->options, "moe-router-topk")));
}

/* ---- tensors ---- */

static GgufType type_of(const PlanTensor *t, GgufType chosen)
{
    const char *name = t->as.name;
    int64_t     row  = t->as.shape[t->as.dims - 1];
    bool        kept = t->as.dims < 2 || strstr(name, "ffn_gate_inp") || strstr(name, "position_embd");
    if (kept) return GGUF_F32;
    return chosen == GGUF_Q8_0 && row % BLOCK ? GGUF_F16 : chosen;
}

static Dtype dtype_of(GgufType type) { return type == GGUF_F16 ? F16 : type == GGUF_BF16 ? BF16 : F32; }

static int64_t bytes_of(GgufType type, int64_t count)
{
    return type == GGUF_Q8_0 ? count / BLOCK * BLOCK_BYTES : count * (int64_t)dtype_width(dtype_of(type));
}

static int64_t padded(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void infos_put(GgufText *out, const Plan *plan, GgufType chosen)
{
    int64_t at = 0;
    for (int i = 0; i < plan->tensors; i++) {
        const PlanTensor *t = &plan->tensor[i];
        GgufType type = type_of(t, chosen);
        gguf_put_string(out, t->as.name, strlen(t->as.name));
        gguf_put_number(out, (uint64_t)t->as.dims, 4);
        for (int d = t->as.dims - 1; d >= 0; d--) gguf_put_number(out, (uint64_t)t->as.shape[d], 8);
        gguf_put_number(out, type, 4);
        gguf_put_number(out, (uint64_t)at, 8);
        at += padded(bytes_of(type, plan_count(t)));
    }
}

/* Blocks of 32: a scale in F16, which is the largest of them / 127, and 32 integers of 8 bits, rounded half
 * away from zero. */
static void quantize(char *to, const float *from, int64_t count)
{
    for (; count; count -= BLOCK, from += BLOCK, to += BLOCK_BYTES) {
        float most = 0;
        for (int i = 0; i < BLOCK; i++) most = fabsf(from[i]) > most ? fabsf(from[i]) : most;
        float scale = most / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0;
        dtype_convert(to, F16, &scale, F32, 1);
        for (int i = 0; i < BLOCK; i++) to[2 + i] = (char)(int)roundf(from[i] * inverse);
    }
}

typedef struct { int fd; char path[1024]; int64_t at; float *window; char *packed; } Output;

static Status tensor_write(ConvertRun *c, Output *out, const PlanTensor *t, GgufType type)
{
    static const char zeros[ALIGNMENT];
    int64_t count = plan_count(t), n, begin = out->at;
    for (int64_t first = 0; first < count; first += n) {
        n = count - first < WINDOW ? count - first : WINDOW;
        if (c->stop && *c->stop) return fail(INTERRUPTED, "stopped by a signal; nothing is written");
        plan_gather(c->plan, t, first, n, out->window, dtype_of(type));
        if (type == GGUF_Q8_0) quantize(out->packed, out->window, n);
        int64_t bytes = bytes_of(type, n);
        TRY(file_write(out->fd, out->path, type == GGUF_Q8_0 ? (void *)out->packed : out->window,
                       (size_t)bytes, out->at));
        out->at += bytes;
        c->done += n * (int64_t)dtype_width(convert_run_dtype(c, t));
        foreign_release(&c->from->file);
        if (c->progress) c->progress(c->context, c->done, c->total);
    }
    int64_t end = begin + padded(out->at - begin);
    Status  status = file_write(out->fd, out->path, zeros, (size_t)(end - out->at), out->at);
    out->at = end;
    return status;
}

static Status head_make(GgufText *head, const ConvertRun *c, const GgufTexts *texts)
{
    GgufText keys_text = { 0 };
    model_keys(&keys_text, texts);
    Status status = gguf_tokenizer(&keys_text, texts->tokenizer,
                                   json_integer_value(json_object_get(texts->options, "vocab-size")));
    gguf_put(head, "GGUF", 4);
    gguf_put_number(head, VERSION, 4);
    gguf_put_number(head, (uint64_t)c->plan->tensors, 8);
    gguf_put_number(head, (uint64_t)keys_text.keys, 8);
    gguf_put(head, keys_text.data ? keys_text.data : "", keys_text.used);
    infos_put(head, c->plan, texts->type);
    while (head->used % ALIGNMENT && head->status == OK) gguf_put_number(head, 0, 1);
    if (status == OK) status = keys_text.status;
    free(keys_text.data);
    return status == OK ? head->status : status;
}

static Status file_fill(ConvertRun *c, Output *out, const GgufTexts *texts)
{
    GgufText head = { 0 };
    Status   status = head_make(&head, c, texts);
    if (status == OK) status = path_join(out->path, c->part, CONVERT_RUN_FILE);
    if (status == OK) status = file_create(&out->fd, out->path);
    if (status == OK) status = file_write(out->fd, out->path, head.data, head.used, 0);
    out->at = (int64_t)head.used;
    free(head.data);
    for (int i = 0; i < c->plan->tensors && status == OK; i++)
        status = tensor_write(c, out, &c->plan->tensor[i], type_of(&c->plan->tensor[i], texts->type));
    if (out->fd < 0) return status;
    if (status == OK) return file_finish(out->fd, out->path);
    seam.close(out->fd);
    return status;
}

Status gguf_write(ConvertRun *c, const GgufTexts *texts)
{
    Output out = {
        .fd = -1, .window = malloc(WINDOW * sizeof(float)), .packed = malloc(bytes_of(GGUF_Q8_0, WINDOW))};
    c->single = true;
    Status status = out.window && out.packed ? OK : fail(NO_MEMORY, "no memory to write a GGUF file");
    if (status == OK) status = convert_run_begin(c);
    if (status == OK) status = convert_run_finish(c, file_fill(c, &out, texts));
    free(out.window);
    free(out.packed);
    return status;
}
