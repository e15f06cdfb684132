/* GGUF files: header, keys, the list of tensors and their data, each at a multiple of 32 bytes. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/words.h"
#include "convert/gguf/gguf_internal.h"

enum { VERSION = 3, ALIGNMENT = 32, BLOCK = 32, BLOCK_BYTES = 34 };

/* A tensor of the file: one of the plan, which two of them may hold, or numbers that follow from the
 * options. */
typedef struct {
    const char       *name;                /* not owned */
    int               dims;
    const int64_t    *shape;               /* outermost first */
    GgufType          type;
    const PlanTensor *from;                /* NULL: `number` */
    float             offset;              /* is added to all elements; only of an F32 tensor */
    int64_t           at;                  /* bytes from the first tensor's on */
} GgufTensor;
typedef struct {
    GgufTensor *tensor;                    /* in the order of the plan; owned */
    int         tensors;
    int64_t     begin;                     /* byte of the file at which they begin */
    int64_t     pairs;                     /* shape of `number` */
    float       number[ROPE_PAIRS_MOST];   /* Llama 3's factors of rotary frequencies */
    Buffer      made;                      /* a window as it is written, where it is not as it was gathered */
} GgufTensors;

/* ---- keys and values ---- */

void gguf_put_number(GgufText *out, uint64_t value, int bytes)
{
    buffer_add_number_or_stop(&out->text, value, bytes);
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
    buffer_add_or_stop(&out->text, text, (int64_t)bytes);
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

static Dtype dtype_of(GgufType type) { return type == GGUF_F16 ? F16 : type == GGUF_BF16 ? BF16 : F32; }

/* The bytes of `count` elements. */
static int64_t bytes_in(GgufType type, int64_t count)
{
    return type == GGUF_Q8_0 ? count / BLOCK * BLOCK_BYTES : count * (int64_t)dtype_width(dtype_of(type));
}

static int64_t bytes_of(const GgufTensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->dims; d++) count *= t->shape[d];
    return bytes_in(t->type, count);
}

static int64_t padded(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* The tensors of the plan get the types in which they are gathered. */
static Status tensors_list(GgufTensors *list, Plan *plan, const GgufTexts *texts)
{
    bool  head = texts->config->tied && gguf_architecture_head(texts->architecture);
    float offset = model_gain_offset(texts->config);
    *list = (GgufTensors){ .tensor = calloc((size_t)plan->tensors + 2, sizeof *list->tensor) };
    if (!list->tensor) return fail(NO_MEMORY, "no memory for a list of %d tensors", plan->tensors);
    for (int i = 0; i < plan->tensors; i++) {
        PlanTensor *t = &plan->tensor[i];
        GgufTensor made = { .name = t->as.name, .dims = t->as.dims, .shape = t->as.shape, .from = t,
                            .type = type_of(t, texts->type),
                            .offset = text_ends(t->as.name, "norm.weight") ? offset : 0 };
        list->tensor[list->tensors++] = made;
        plan_type(t, dtype_of(made.type));
        t->bytes = bytes_of(&made);
        if (!head || strcmp(made.name, "token_embd.weight")) continue;
        made.name = "output.weight", t->bytes *= 2;
        list->tensor[list->tensors++] = made;
    }
    if (gguf_architecture_factors(texts->config)) factors_fill(list, texts->config);
    for (GgufTensor *t = list->tensor + 1; t < list->tensor + list->tensors; t++)
        t->at = padded(t[-1].at + bytes_of(t - 1));
    return OK;
}

static void infos_put(GgufText *out, const GgufTensors *list)
{
    for (int i = 0; i < list->tensors; i++) {
        const GgufTensor *t = &list->tensor[i];
        gguf_put_string(out, t->name, strlen(t->name));
        gguf_put_number(out, (uint64_t)t->dims, 4);
        for (int d = t->dims - 1; d >= 0; d--) gguf_put_number(out, (uint64_t)t->shape[d], 8);
        gguf_put_number(out, t->type, 4);
        gguf_put_number(out, (uint64_t)t->at, 8);
    }
}

/* ---- writing ---- */

/* Blocks of 32: a scale in F16, which is the largest of them / 127, and 32 integers of 8 bits, rounded half
 * away from zero. False where an element has no such value: NaN, infinite, above what the scale reaches. */
static bool quantize(char *to, const char *from, int64_t count)
{
    const float most_of_all = 127 * (float)dtype_max(F16);
    float       x[BLOCK];
    for (; count; count -= BLOCK, from += sizeof x, to += BLOCK_BYTES) {
        float most = 0;
        memcpy(x, from, sizeof x);                             /* it may be unaligned, in the file */
        for (int i = 0; i < BLOCK; i++) {
            if (!(fabsf(x[i]) <= most_of_all)) return false;
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
        float scale = most / 127.0f, inverse = scale >= FLT_MIN ? 1.0f / scale : 0;
        dtype_convert(to, F16, &scale, F32, 1);
        for (int i = 0; i < BLOCK; i++) to[2 + i] = (char)(int)roundf(x[i] * inverse);
    }
    return true;
}

/* The window as it is written, in list->made where it is another one. */
static Status window_make(const void **data, GgufTensors *list, const GgufTensor *t, const ConvertWindow *w)
{
    *data = w->data;
    if (t->type != GGUF_Q8_0 && t->offset == 0) return OK;
    TRY(buffer_reserve(&list->made, w->count * (int64_t)sizeof(float)));
    float *made = (float *)list->made.text;
    *data = made;
    if (t->type == GGUF_Q8_0 && !quantize(list->made.text, w->data, w->count))
        return fail(BAD_FILE, "%s: an element of it is NaN, infinite or above %.0f, for which Q8_0 has no "
                    "value; --output-dtype f32 writes it", t->name, 127 * dtype_max(F16));
    if (t->type != GGUF_Q8_0) memcpy(made, w->data, (size_t)w->count * sizeof *made);
    for (int64_t i = 0; i < w->count && t->offset != 0; i++) made[i] += t->offset;
    return OK;
}

static Status window_write(void *context, const ConvertWindow *w)
{
    const ConvertFile *file = context;
    GgufTensors       *list = file->layout;
    const void        *data;
    for (const GgufTensor *t = list->tensor; t < list->tensor + list->tensors; t++) {
        if (t->from != w->tensor) continue;
        TRY(window_make(&data, list, t, w));
        TRY(convert_run_write(file, data, bytes_in(t->type, w->count),
                              list->begin + t->at + bytes_in(t->type, w->first)));
    }
    return OK;
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
    buffer_add_or_stop(&head->text, "GGUF", 4);
    gguf_put_number(head, VERSION, 4);
    gguf_put_number(head, (uint64_t)list->tensors, 8);
    gguf_put_number(head, (uint64_t)keys.keys, 8);
    buffer_add_or_stop(&head->text, keys.text.text, keys.text.bytes);
    infos_put(head, list);
    while (head->text.bytes % ALIGNMENT) gguf_put_number(head, 0, 1);
    buffer_free(&keys.text);
    return status;
}

/* Padding between tensors is a hole of the file; behind the last one it is written. */
static Status file_fill(ConvertRun *c, GgufTensors *list, const GgufTexts *texts)
{
    static const char zeros[ALIGNMENT];
    const GgufTensor *last = &list->tensor[list->tensors - 1];
    GgufText head = { 0 };
    Status   status = head_make(&head, list, texts);
    list->begin = head.text.bytes;
    int64_t at = list->begin + last->at, end = at + bytes_of(last);
    const ConvertBytes others[] = { { head.text.text, head.text.bytes, 0 },
                                    { list->number, last->from ? 0 : end - at, at },
                                    { zeros, padded(end) - end, end } };
    if (status == OK)
        status = convert_run_file(c, CONVERT_RUN_FILE, others, 3, 0, c->plan->tensors, window_write, list);
    buffer_free(&head.text);
    return status;
}

Status gguf_write(ConvertRun *c, const GgufTexts *texts)
{
    GgufTensors list;
    c->single = true;
    TRY(tensors_list(&list, c->plan, texts));
    Status status = convert_run_begin(c);
    if (status == OK) status = convert_run_finish(c, file_fill(c, &list, texts));
    free(list.tensor);
    buffer_free(&list.made);
    return status;
}
