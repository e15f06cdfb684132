#ifndef TESTS_TRAIN_FORMULA_H
#define TESTS_TRAIN_FORMULA_H
/* The models of tests/oracles/parity.py, whose weights and tokens come from formulas that both sides have. A step
 * takes all samples there are, so the loader's order does not matter. */
#include "train/whole.h"

enum { VOCABULARY = 23, SEQUENCE = 8, SAMPLES = 4, EOD = 22 };

static inline TrainConfig formula_config(ModelName model, const char *device, const char *data)
{
    TrainConfig config = tiny_config(model, device, data);
    config.model.layers = 2;  config.model.hidden = 12;  config.model.ffn = 20;  config.model.head_dim = 4;
    config.model.vocabulary = VOCABULARY;
    config.model.positions = config.model.sequence = SEQUENCE;
    config.model.rope.base = 100;
    config.model.hidden_dropout = config.model.attention_dropout = 0;
    config.reset_attention = config.reset_positions = config.mask_eod = false;
    config.micro = 2;  config.global = SAMPLES;  config.eod = EOD;  config.split = "1,0,0";
    return config;
}

static inline int32_t formula_token(int32_t i) { return i % 7 == 4 ? EOD : (i * i * i / 5 + 7 * i) % 22; }

static inline void formula_corpus(const char *prefix)
{
    TokenFileWriter *writer;
    int32_t ids[SAMPLES * SEQUENCE + 1];
    for (int32_t i = 0; i <= SAMPLES * SEQUENCE; i++) ids[i] = formula_token(i);
    assert_int_equal(token_file_create(&writer, prefix, VOCABULARY), OK);
    assert_int_equal(token_file_add(writer, ids, SAMPLES * SEQUENCE + 1), OK);
    assert_int_equal(token_file_end_document(writer), OK);
    assert_int_equal(token_file_finish(writer), OK);
}

static inline double formula_weight(const char *name, int64_t i)
{
    int64_t sum = 0;
    for (size_t n = 0; n < strlen(name); n++) sum += (int64_t)(n + 1) * name[n];
    bool gain = strstr(name, "gain"), bias = strstr(name, "bias");
    double phase = (double)(sum % 1000) / 100, size = gain ? 0.2 : bias ? 0.1 : 0.4, x = (double)i;
    return (float)((gain ? 1 : 0) + size * sin(0.9 * x * x + 2.3 * x + phase));  /* for both types */
}

/* What x holds of entry p of the block, where x begins at element `first` of the block. */
static inline void formula_fill(const ParamBlock *block, int p, Tensor x, int64_t first)
{
    TensorShard shard = params_tensor_shard(block, p, first, x.dim[0]);
    TensorShardRun run;
    int64_t cursor = 0;
    while (shard.count > 0 && tensor_shard_next_run(&shard, &cursor, &run))
        for (int64_t i = 0; i < run.count; i++)
            real_set(x, block->param[p].at + shard.first - first + run.local + i, formula_weight(shard.name, run.global + i));
}

/* Under any layout, of types that are not narrower than F32. */
static inline void formula_weights(Trainer *t)
{
    for (int b = 0; b < t->buckets.count; b++) {
        const Bucket *k = &t->buckets.bucket[b];
        for (int p = 0; p < k->block.params; p++) {
            formula_fill(&k->block, p, k->weights, k->zero_stage < 3 ? 0 : k->own_first);
            if (tensor_present(k->master)) formula_fill(&k->block, p, k->master, k->own_first);
        }
    }
}

static inline void golden_read(double *out, const SafeFile *file, const char *name, int64_t count)
{
    const SafeTensor *x = safetensors_find(file, name);
    if (!x || x->dtype != F64 || x->bytes != (size_t)count * sizeof *out)
        fail_msg("%s has no F64 tensor %s of %lld", file->map.path, name, (long long)count);
    memcpy(out, file->map.data + x->at, x->bytes);
}

#endif
