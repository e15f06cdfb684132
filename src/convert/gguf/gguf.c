/* GGUF files: header, keys, the list of tensors and their data, each at a multiple of 32 bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/seam.h"
#include "base/words.h"
#include "convert/gguf/gguf_internal.h"

enum { VERSION = 3, ALIGNMENT = 32, BLOCK = 32, BLOCK_BYTES = 34, WINDOW = 4 << 20 };

/* A tensor of the file: one of the plan, or numbers that follow from the options. */
typedef struct {
    const char       *name;                /* not owned */
    int               dims;
    const int64_t    *shape;               /* outermost first */
    GgufType          type;
    const PlanTensor *from;                /* NULL: `numbers` */
    bool              duplicate;           /* another tensor of the file holds the same elements */
    float             offset;              /* is added to all elements; only of an F32 tensor */
} GgufTensor;
typedef struct {
    GgufTensor *tensor;                    /* owned */
    int         tensors;
    int64_t     pairs;                     /* shape of `number` */
    float       number[ROPE_PAIRS_MOST];   /* Llama 3's factors of rotary frequencies */
} GgufTensors;

/* ---- keys and values ---- */

void gguf_put(GgufText *out, const void *data, size_t bytes)
{
    if (out->status == OK) out->status = buffer_add(&out->text, data, (int64_t)bytes);
}

void gguf_put_number(GgufText *out, uint64_t value, int bytes)
{
    if (out->status == OK) out->status = buffer_add_number(&out->text, value, bytes);
}

void gguf_put_real(GgufText *out, double value)
{
    float    number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    gguf_put_number(out, bits, 4);
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

void gguf_key_array(GgufText *out, const char *key, GgufKind kind, int64_t count)
{
    gguf_key(out, key, GGUF_ARRAY);
    gguf_put_number(out, kind, 4);
    gguf_put_number(out, (uint64_t)count, 8);
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
    gguf_key(out, key, GGUF_FLOAT32);
    gguf_put_real(out, value);
}

void gguf_key_bool(GgufText *out, const char *key, bool value)
{
    gguf_key(out, key, GGUF_BOOL);
    gguf_put_number(out, value, 1);
}

/* ---- the list of tensors ---- */

static GgufType type_of(const PlanTensor *t, GgufType chosen)
{
    const char *name = t->as.name;
    int64_t     row  = t->as.shape[t->as.dims - 1];
    bool        kept = t->as.dims < 2 || strstr(name, "ffn_gate_inp") || strstr(name, "position_embd");
    if (kept) return GGUF_F32;
    return chosen == GGUF_Q8_0 && row % BLOCK ? GGUF_F16 : chosen;
}

/* What plain frequencies are divided by to be those of the model. */
static void factors_fill(GgufTensors *list, const ModelConfig *config)
{
    RopeConfig plain = config->rope;
    plain.scaling = ROPE_UNSCALED, plain.interpolation = 0;
    RopeRule scaled = rope_rule(&config->rope, config->head_dim, false),
             from   = rope_rule(&plain, config->head_dim, false);
    list->pairs = scaled.pairs;
    for (int64_t i = 0; i < list->pairs; i++)
        list->number[i] = (float)(from.frequency[i] / scaled.frequency[i]);
    list->tensor[list->tensors++] = (GgufTensor){
        .name = "rope_freqs.weight", .dims = 1, .shape = &list->pairs, .type = GGUF_F32 };
}

static Status tensors_list(GgufTensors *list, const Plan *plan, const GgufTexts *texts)
{
    bool  head = texts->config->tied && gguf_architecture_head(texts->architecture);
    float offset = model_gain_offset(texts->config);
    *list = (GgufTensors){ .tensor = calloc((size_t)plan->tensors + 2, sizeof *list->tensor) };
    if (!list->tensor) return fail(NO_MEMORY, "no memory for a list of %d tensors", plan->tensors);
    for (int i = 0; i < plan->tensors; i++) {
        const PlanTensor *t = &plan->tensor[i];
        GgufTensor made = { t->as.name, t->as.dims, t->as.shape, type_of(t, texts->type), t, false,
                            text_ends(t->as.name, "norm.weight") ? offset : 0 };
        list->tensor[list->tensors++] = made;
        if (!head || strcmp(made.name, "token_embd.weight")) continue;
        made.name = "output.weight", made.duplicate = true;
        list->tensor[list->tensors++] = made;
    }
    if (gguf_architecture_factors(texts->config)) factors_fill(list, texts->config);
    return OK;
}

static int64_t count_of(const GgufTensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->dims; d++) count *= t->shape[d];
    return count;
}

static Dtype dtype_of(GgufType type) { return type == GGUF_F16 ? F16 : type == GGUF_BF16 ? BF16 : F32; }

static int64_t bytes_of(GgufType type, int64_t count)
{
    return type == GGUF_Q8_0 ? count / BLOCK * BLOCK_BYTES : count * (int64_t)dtype_width(dtype_of(type));
}

static int64_t padded(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void infos_put(GgufText *out, const GgufTensors *list)
{
    int64_t at = 0;
    for (int i = 0; i < list->tensors; i++) {
        const GgufTensor *t = &list->tensor[i];
        gguf_put_string(out, t->name, strlen(t->name));
        gguf_put_number(out, (uint64_t)t->dims, 4);
        for (int d = t->dims - 1; d >= 0; d--) gguf_put_number(out, (uint64_t)t->shape[d], 8);
        gguf_put_number(out, t->type, 4);
        gguf_put_number(out, (uint64_t)at, 8);
        at += padded(bytes_of(t->type, count_of(t)));
    }
}

/* ---- writing ---- */

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

/* Elements [first, first + n) into the window, or packed. */
static const void *window_fill(ConvertRun *c, Output *out, const GgufTensors *list,
                               const GgufTensor *t, int64_t first, int64_t n)
{
    if (!t->from) return list->number + first;
    plan_gather(c->plan, t->from, first, n, out->window, dtype_of(t->type));
    if (!t->duplicate) convert_run_look(c, t->from, out->window, dtype_of(t->type), n);
    for (int64_t i = 0; i < n && t->offset != 0; i++) out->window[i] += t->offset;
    if (t->type != GGUF_Q8_0) return out->window;
    quantize(out->packed, out->window, n);
    return out->packed;
}

static Status tensor_write(ConvertRun *c, Output *out, const GgufTensors *list, const GgufTensor *t)
{
    static const char zeros[ALIGNMENT];
    int64_t count = count_of(t), n, begin = out->at;
    if (t->from) TRY(convert_run_verify(c, t->from));
    for (int64_t first = 0; first < count; first += n) {
        n = count - first < WINDOW ? count - first : WINDOW;
        TRY(convert_run_stopped(c));
        int64_t bytes = bytes_of(t->type, n);
        TRY(file_write(out->fd, out->path, window_fill(c, out, list, t, first, n), (size_t)bytes, out->at));
        out->at += bytes;
        if (t->from && !t->duplicate) c->done += n * (int64_t)dtype_width(convert_run_dtype(c, t->from));
        foreign_release(&c->from->file);
        if (c->progress) c->progress(c->context, c->done, c->total);
    }
    int64_t end = begin + padded(out->at - begin);
    Status  status = file_write(out->fd, out->path, zeros, (size_t)(end - out->at), out->at);
    out->at = end;
    return status;
}

/* Of a file of this type; the numbers are those of llama.cpp's enum llama_ftype. */
static int64_t file_type(GgufType type)
{
    return type == GGUF_F32 ? 0 : type == GGUF_F16 ? 1 : type == GGUF_Q8_0 ? 7 : 32;
}

/* Whether llama.cpp opens a model of this name with any tokenizer: of "phi3" it wants the tokens of Phi 3. */
static bool name_opens(const char *name)
{
    for (; *name; name++)
        if (!strncasecmp(name, "phi3", 4) || !strncasecmp(name, "phi-3", 5)) return false;
    return true;
}

static Status head_make(GgufText *head, const GgufTensors *list, const GgufTexts *texts)
{
    GgufText keys = { 0 };
    gguf_architecture_keys(&keys, texts->architecture, texts->options, texts->config);
    if (name_opens(texts->name)) gguf_key_string(&keys, "general.name", texts->name);
    gguf_key_uint(&keys, "general.file_type", file_type(texts->type));
    if (texts->type == GGUF_Q8_0) gguf_key_uint(&keys, "general.quantization_version", 2);
    Status status = gguf_tokenizer(&keys, texts->tokenizer, texts->config->vocabulary);
    gguf_put(head, "GGUF", 4);
    gguf_put_number(head, VERSION, 4);
    gguf_put_number(head, (uint64_t)list->tensors, 8);
    gguf_put_number(head, (uint64_t)keys.keys, 8);
    gguf_put(head, keys.text.text, (size_t)keys.text.bytes);
    infos_put(head, list);
    while (head->text.bytes % ALIGNMENT && head->status == OK) gguf_put_number(head, 0, 1);
    if (status == OK) status = keys.status;
    buffer_free(&keys.text);
    return status == OK ? head->status : status;
}

static Status file_fill(ConvertRun *c, Output *out, const GgufTensors *list, const GgufTexts *texts)
{
    GgufText head = { 0 };
    Status   status = head_make(&head, list, texts);
    if (status == OK) status = path_join(out->path, c->part, CONVERT_RUN_FILE);
    if (status == OK) status = file_create(&out->fd, out->path);
    if (status == OK) status = file_write(out->fd, out->path, head.text.text, (size_t)head.text.bytes, 0);
    out->at = head.text.bytes;
    buffer_free(&head.text);
    for (int i = 0; i < list->tensors && status == OK; i++)
        status = tensor_write(c, out, list, &list->tensor[i]);
    if (out->fd < 0) return status;
    if (status == OK) return file_finish(out->fd, out->path);
    seam.close(out->fd);
    return status;
}

Status gguf_write(ConvertRun *c, const GgufTexts *texts)
{
    GgufTensors list;
    Output out = {
        .fd = -1, .window = malloc(WINDOW * sizeof(float)), .packed = malloc(bytes_of(GGUF_Q8_0, WINDOW))};
    c->single = true;
    Status status = tensors_list(&list, c->plan, texts);
    if (status == OK && !(out.window && out.packed))
        status = fail(NO_MEMORY, "no memory to write a GGUF file");
    if (status == OK) status = convert_run_begin(c);
    if (status == OK) status = convert_run_finish(c, file_fill(c, &out, &list, texts));
    free(list.tensor);
    free(out.window);
    free(out.packed);
    return status;
}
