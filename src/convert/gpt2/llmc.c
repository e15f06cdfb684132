/* llm.c's model files. The rows below are the parameters in the order of the file. */
#include "convert/gpt2/llmc.h"
#include "convert/gpt2/llmc_state.h"
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/reader.h"

enum { HEADER = 256, MAGIC = 20240326, VERSION_F32 = 3, VERSION_BF16 = 5, SIZE_MAX_OF = 1 << 24 };

typedef struct { int64_t positions, vocabulary, layers, heads, channels, padded; } Sizes;

/* Shapes are products of the width: rows of `rows` widths and columns of `columns` widths; 0: no such dim. */
static const struct { const char *name; int rows, columns; } layer_rows[] = {
    { "ln_1.weight", 1, 0 },        { "ln_1.bias", 1, 0 },
    { "attn.c_attn.weight", 3, 1 }, { "attn.c_attn.bias", 3, 0 },
    { "attn.c_proj.weight", 1, 1 }, { "attn.c_proj.bias", 1, 0 },
    { "ln_2.weight", 1, 0 },        { "ln_2.bias", 1, 0 },
    { "mlp.c_fc.weight", 4, 1 },    { "mlp.c_fc.bias", 4, 0 },
    { "mlp.c_proj.weight", 1, 4 },  { "mlp.c_proj.bias", 1, 0 },
};

static int64_t header_at(const FileMap *map, int i)
{
    return (int32_t)little_endian(map->data + 4 * i, 4);
}

static Status header_read(Sizes *s, Dtype *dtype, const FileMap *map)
{
    if (map->size < 4 * HEADER || header_at(map, 0) != MAGIC)
        return fail(BAD_FILE, "%s: not a model of llm.c: it does not begin with %d; give the file that "
                    "its train_gpt2.py or train_gpt2cu wrote", map->path, MAGIC);
    int64_t version = header_at(map, 1);
    if (version != VERSION_F32 && version != VERSION_BF16)
        return fail(BAD_FILE, "%s: version %lld of llm.c's models; 3 (fp32) and 5 (bf16) are read, which its "
                    "train_gpt2.py writes", map->path, (long long)version);
    *dtype = version == VERSION_F32 ? F32 : BF16;
    *s                  = (Sizes){header_at(map, 2), header_at(map, 3), header_at(map, 4),
                                  header_at(map, 5), header_at(map, 6), header_at(map, 7)};
    const int64_t all[] = { s->positions, s->vocabulary, s->layers, s->heads, s->channels, s->padded };
    for (int i = 0; i < 6; i++)
        if (all[i] < 1 || all[i] > SIZE_MAX_OF)
            return fail(BAD_FILE, "%s: number %d of its header is %lld, which is no size", map->path, i + 2,
                        (long long)all[i]);
    if (s->padded < s->vocabulary || s->channels % s->heads)
        return fail(BAD_FILE, "%s: its header has %lld heads for %lld channels, %lld tokens in %lld rows",
                    map->path, (long long)s->heads, (long long)s->channels, (long long)s->vocabulary,
                    (long long)s->padded);
    return OK;
}

/* The next `count` elements of the file; false: it ends before. */
static bool take(const char **data, size_t *at, const FileMap *map, int64_t count, Dtype dtype)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, dtype_width(dtype), &bytes) || bytes > map->size - *at)
        return false;
    *data = (const char *)map->data + *at;
    *at += bytes;
    return true;
}

/* A tensor at the next place, of which the rows after the first `kept` are padding. */
static Status tensor_add(ForeignFile *file, size_t *at, const char *name, Dtype dtype, int64_t rows,
                         int64_t columns, int64_t kept)
{
    const char *data  = NULL;
    int64_t     shape[2] = { kept, columns }, count;
    int         index;
    if (__builtin_mul_overflow(rows, columns ? columns : 1, &count) ||
        !take(&data, at, &file->map[0], count, dtype))
        return fail(BAD_FILE, "%s: it ends within '%s', so it is truncated", file->map[0].path, name);
    TRY(foreign_tensor(file, &index, name, dtype, columns ? 2 : 1, shape));
    return foreign_whole(file, index, data);
}

static Status tensors_add(ForeignFile *file, const Sizes *s, Dtype dtype)
{
    size_t at = 4 * HEADER;
    char   name[64];
    TRY(tensor_add(file, &at, "transformer.wte.weight", dtype, s->padded, s->channels, s->vocabulary));
    TRY(tensor_add(file, &at, "transformer.wpe.weight", dtype, s->positions, s->channels, s->positions));
    for (size_t i = 0; i < COUNT(layer_rows); i++)
        for (int64_t layer = 0; layer < s->layers; layer++) {
            int64_t rows = layer_rows[i].rows * s->channels;
            snprintf(name, sizeof name, "transformer.h.%lld.%s", (long long)layer, layer_rows[i].name);
            TRY(tensor_add(file, &at, name, dtype, rows, layer_rows[i].columns * s->channels, rows));
        }
    TRY(tensor_add(file, &at, "transformer.ln_f.weight", dtype, s->channels, 0, s->channels));
    TRY(tensor_add(file, &at, "transformer.ln_f.bias", dtype, s->channels, 0, s->channels));
    if (at == file->map[0].size) return OK;
    return fail(BAD_FILE, "%s: %zu bytes after the last parameter", file->map[0].path,
                file->map[0].size - at);
}

/* GPT-2 as llm.c builds it: GELU by tanh, biases, tied embeddings, an MLP of four widths. */
static json_t *options_of(const Sizes *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "num-layers", (json_int_t)s->layers,
                     "hidden-size", (json_int_t)s->channels, "ffn-hidden-size", (json_int_t)(4 * s->channels),
                     "num-attention-heads", (json_int_t)s->heads, "seq-length", (json_int_t)s->positions,
                     "max-position-embeddings", (json_int_t)s->positions, "vocab-size",
                     (json_int_t)s->vocabulary);
}

Status llmc_read(ForeignFile *file, json_t **options, const char *path)
{
    Sizes s   = { 0 };
    Dtype dtype = F32;
    int   map;
    *options = NULL;
    foreign_begin(file, path);
    Status status = foreign_map(file, &map, path);
    if (status == OK) status = header_read(&s, &dtype, &file->map[0]);
    if (status == OK) status = tensors_add(file, &s, dtype);
    if (status == OK)
        status = llmc_states_read(file, path, (const char *)file->map[0].data + 4 * HEADER,
                                  dtype_width(dtype));
    if (status == OK) status = foreign_finish(file);
    if (status == OK && !(*options = options_of(&s)))
        status = fail(NO_MEMORY, "%s: no memory for options", path);
    if (status != OK) foreign_close(file);
    return status;
}
