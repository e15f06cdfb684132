/* The dimensions of layouts and their values, a row each. A new value is drawn together with every value of the
 * other dimensions that it can stand beside (coverage.c). */
#include <string.h>
#include "layouts/draw.h"

const char *const dimension_names[DIMENSIONS] = {
    [MODEL] = "model", [MLP] = "mlp", [HEADS] = "heads", [MASKS] = "masks", [TYPE] = "type", [OPTIMIZER] = "optimizer",
    [BATCH] = "batch",
    [TP] = "tp", [SP] = "sequence",
    [CP] = "cp", [CONTEXT] = "context",
    [PP] = "pp", [SCHEDULE] = "schedule", [STAGES] = "stages",
    [DP] = "dp", [ZERO] = "zero", [HYBRID] = "hybrid",
    [EP] = "ep", [ETP] = "etp",
    [ORDER] = "order", [RECOMPUTE] = "recompute", [MICRO] = "micro", [SUMS] = "sums", [OVERLAP] = "overlap",
    [TRANSPORT] = "transport",
};

#define LLAMA "--normalization RMSNorm --position-embedding-type rope --swiglu --disable-bias-linear " \
              "--untie-embeddings-and-output-weights --num-query-groups 2 --ffn-hidden-size 48 " \
              "--attention-dropout 0 --hidden-dropout 0"

#define NARROW "--position-embedding-type rope --disable-bias-linear --num-query-groups 2 --ffn-hidden-size 48 " \
               "--attention-dropout 0 --hidden-dropout 0"
#define LLAMA3 "--normalization RMSNorm --swiglu " NARROW
#define GEMMA1 "--normalization RMSNorm --apply-layernorm-1p --geglu " NARROW

#define GEMMA "--normalization RMSNorm --norm-placement both --apply-layernorm-1p --position-embedding-type rope --geglu " \
              "--disable-bias-linear --num-query-groups 2 --ffn-hidden-size 48 --embedding-multiplier 3 " \
              "--final-logit-softcapping 2 --z-loss-coeff 1e-2 --attention-dropout 0 --hidden-dropout 0.1"
#define LATENT "--multi-latent-attention --qk-layernorm --normalization RMSNorm --position-embedding-type rope --disable-bias-linear " \
               "--num-query-groups 8 --kv-lora-rank 12 --qk-head-dim 6 --qk-pos-emb-head-dim 4 --v-head-dim 5"
/* Experts in every other layer, one that all tokens take, groups of experts, biases instead of a loss that balances a batch */
#define DEEPSEEK "--num-experts 4 --moe-ffn-hidden-size 16 --moe-layer-freq 2 --moe-shared-expert-intermediate-size 24 " \
                 "--moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-num-groups 2 " \
                 "--moe-router-group-topk 1 --moe-router-topk-scaling-factor 2.5 --moe-aux-loss-coeff 1e-3 " \
                 "--moe-z-loss-coeff 1e-3 --disable-bias-linear"

const Value values[] = {
    { MODEL,     "gpt",         0, "",    { { 0 } } },
    { MODEL,     "llama",       0, LLAMA, { { 0 } } },
    { MODEL,     "olmo",        1, LLAMA " --norm-placement after", { { 0 } } },
    { MODEL,     "gemma",       1, GEMMA, { { 0 } } },
    { MODEL,     "llama3",      0, LLAMA3 " --use-rope-scaling --rope-scaling-factor 4 --rope-original-max-position-embeddings 8 --rotary-base 100", { { 0 } } },
    { MODEL,     "smollm3",     0, LLAMA3 " --no-rope-freq 2", { { 0 } } },
    { MODEL,     "gemma1",      0, GEMMA1 " --num-query-groups 1 --embedding-multiplier 3", { { 0 } } },
    { MODEL,     "gemma3",      1, GEMMA1 " --norm-placement both --rotary-base 1000 --rotary-base-local 10 --window-size 4,0 --window-attn-skip-freq 2", { { 0 } } },
    { MODEL,     "nemotron",    0, "--squared-relu --apply-layernorm-1p --rotary-percent 0.67 --untie-embeddings-and-output-weights " NARROW, { { 0 } } },
    { MODEL,     "bloom",       1, "--position-embedding-type alibi --embed-layernorm", { { 0 } } },
    { MODEL,     "megatron-11b", 0, "--position-embedding-type sinusoidal --embedding-multiplier 4 --gelu-approximate none --ffn-hidden-size 48 --sample-break-mode none --apply-wd-to-all", { { 0 } } },
    { MODEL,     "mtp",         0, LLAMA " --mtp-num-layers 2 --mtp-loss-scaling-factor 0.5", { { 0 } } },

    { MLP,       "dense",       0, "", { { 0 } } },
    { MLP,       "experts",     1, "--num-experts 4 --moe-ffn-hidden-size 16 --moe-aux-loss-coeff 1e-2 --disable-bias-linear", { { 0 } } },
    { MLP,       "deepseek",    1, DEEPSEEK, { { 0 } } },

    { HEADS,     "of-hidden",   0, "", { { 0 } } },
    { HEADS,     "wide",        0, "--kv-channels 6 --add-qkv-bias", { { 0 } } },
    { HEADS,     "qk-norm",     1, "--normalization RMSNorm --qk-layernorm --kv-channels 6", { { 0 } } },
    { HEADS,     "latent",      3, LATENT " --q-lora-rank 10 --rotary-interleaved --latent-norm-epsilon 1e-3", { { 0 } } },
    { HEADS,     "latent-keys", 3, LATENT " --position-embedding-type yarn --rotary-scaling-factor 4 --mscale-all-dim 1", { { 0 } } },
    { HEADS,     "softcap",     1, "--attn-logit-softcapping 0.5 --softmax-scale 0.7", { { 0 } } },
    { HEADS,     "qk-norm-all", 2, "--normalization RMSNorm --qk-layernorm --qk-layernorm-width all --apply-wd-to-qk-layernorm", { { 0 } } },

    { MASKS,     "causal",      0, "", { { 0 } } },
    { MASKS,     "documents",   0, "--reset-attention-mask --reset-position-ids --eod-mask-loss", { { 0 } } },
    { MASKS,     "window",      0, "--window-size 4,0 --window-attn-skip-freq 3", { { 0 } } },

    { TYPE,      "double",      0, "--device ref",        { { 0 } } },
    { TYPE,      "fp32",        1, "--device cpu",        { { 0 } } },
    { TYPE,      "bf16",        2, "--device cpu --bf16", { { 0 } } },
    { TYPE,      "fp16",        3, "--device cpu --fp16 --initial-loss-scale 1024 --loss-scale-window 2", { { 0 } } },     /* doubled by step 3 */
    { TYPE,      "bf16-sums",   4, "--device cpu --bf16 --grad-reduce-in-bf16", { { 0 } } },
    { TYPE,      "bf16-states", 5, "--device cpu --bf16 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 --stochastic-rounding", { { 0 } } },

    /* With the default epsilon, 1e-8, AdamW makes steps of the rounding noise of gradients that are zero or nearly so. */
    { OPTIMIZER, "adam",        0, "--adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "two-rates",   0, "--adam-eps 1e-6 --decoupled-lr 2e-3 --decoupled-min-lr 5e-4", { { 0 } } },
    { OPTIMIZER, "sgd",         0, "--optimizer sgd",  { { 0 } } },
    { OPTIMIZER, "lion",        0, "--optimizer lion", { { 0 } } },
    { OPTIMIZER, "lamb",        0, "--optimizer lamb", { { 0 } } },
    { OPTIMIZER, "adam-l2",     0, "--coupled-weight-decay --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "adopt",       0, "--optimizer adopt --adam-eps 1e-3", { { 0 } } },
    { OPTIMIZER, "average",     0, "--optimizer adamwschedulefree --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "sgd-average", 0, "--optimizer sgdschedulefree", { { 0 } } },
    { OPTIMIZER, "sophia",      0, "--optimizer sophiag --sophia-update-interval 2", { { 0 } } },    /* an estimate before the last step */
    { OPTIMIZER, "adafactor",   0, "--optimizer adafactor", { { 0 } } },
    { OPTIMIZER, "adam-mini",   0, "--optimizer adam-mini --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "muon",        1, "--optimizer muon", { { 0 } } },
    { OPTIMIZER, "adam8bit",    0, "--optimizer adam8bit --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "galore",      0, "--optimizer galoreadamw --galore-rank 6 --galore-update-gap 2 --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "galore8bit",  0, "--optimizer galoreadamw8bit --galore-rank 6 --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "shampoo",     0, "--optimizer shampoo --precondition-frequency 2 --max-preconditioner-dim 40 --shampoo-epsilon 1e-6 --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "soap",        0, "--optimizer soap --precondition-frequency 2 --max-preconditioner-dim 40 --adam-eps 1e-6", { { 0 } } },
    { OPTIMIZER, "onebit-lamb", SIGNS, "--optimizer ds.onebitlamb --onebit-freeze-step 1 --adam-eps 1e-6", { { 0 } } },

    { BATCH,     "constant",    0, "", { { 0 } } },
    { BATCH,     "ramp",        1, "--rampup-batch-size @half @half @half", { { 0 } } },     /* half of the batch in step 1 alone */

    { TP,        "tp1",         1, "",       { { 0 } } },
    { TP,        "tp2",         2, "--tp 2", { { 0 } } },
    { TP,        "tp4",         4, "--tp 4", { { 0 } } },

    { SP,        "whole",       0, "",     { { 0 } } },
    { SP,        "sequence",    1, "--sp", { { TP, 2 } } },

    { CP,        "cp1",         1, "",       { { 0 } } },
    { CP,        "cp2",         2, "--cp 2", { { 0 } } },
    { CP,        "cp4",         4, "--cp 4", { { 0 } } },

    { CONTEXT,   "p2p",         1, "",                         { { 0 } } },
    { CONTEXT,   "a2a",         1, "--cp-comm-type a2a",       { { CP, 2 } } },
    { CONTEXT,   "allgather",   1, "--cp-comm-type allgather", { { CP, 2 } } },
    { CONTEXT,   "a2a+p2p",     1, "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2", { { CP, 4 } } },

    { PP,        "pp1",         1, "",       { { 0 } } },
    { PP,        "pp2",         2, "--pp 2", { { 0 } } },
    { PP,        "pp3",         3, "--pp 3", { { 0 } } },
    { PP,        "pp4",         4, "--pp 4", { { 0 } } },

    { SCHEDULE,  "1f1b",        1, "", { { 0 } } },
    { SCHEDULE,  "interleaved", 2, "--num-virtual-stages-per-pipeline-rank 2", { { PP, 2 } } },
    { SCHEDULE,  "groups",      2, "--num-virtual-stages-per-pipeline-rank 2 "
                                   "--microbatch-group-size-per-virtual-pipeline-stage @micros", { { PP, 2 } } },
    { SCHEDULE,  "extra",       1, "--pipeline-extra-warmup 1", { { PP, 2 } } },
    { SCHEDULE,  "zb-h1",       1, "--pipeline-schedule zb-h1", { { PP, 2 } } },
    { SCHEDULE,  "zb-v",        2, "--pipeline-schedule zb-v",  { { PP, 2 } } },
    { SCHEDULE,  "gpipe",       1, "--pipeline-schedule gpipe", { { PP, 2 } } },

    { STAGES,    "even",        0, "", { { 0 } } },
    { STAGES,    "uneven",      1, "", { { PP, 2 } } },
    { STAGES,    "counted",     2, "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", { { PP, 2 } } },
    { STAGES,    "short",       3, "--decoder-first-pipeline-num-layers @first_layers", { { PP, 2 } } },

    { DP,        "dp1",         1, "", { { 0 } } },
    { DP,        "dp2",         2, "", { { 0 } } },
    { DP,        "dp3",         3, "", { { 0 } } },
    { DP,        "dp4",         4, "", { { 0 } } },

    { ZERO,      "zero0",       0, "",               { { 0 } } },
    { ZERO,      "zero1",       1, "--zero-stage 1", { { 0 } } },
    { ZERO,      "zero2",       2, "--zero-stage 2", { { 0 } } },
    { ZERO,      "zero3",       3, "--zero-stage 3", { { 0 } } },

    { HYBRID,    "shards",      0, "",                      { { 0 } } },
    { HYBRID,    "hybrid1",     1, "--hybrid-shard-size 1", { { ZERO, 1 } } },
    { HYBRID,    "hybrid2",     2, "--hybrid-shard-size 2", { { ZERO, 1 } } },

    { EP,        "ep1",         1, "",       { { 0 } } },
    { EP,        "ep2",         2, "--ep 2", { { MLP, 1 } } },
    { EP,        "ep4",         4, "--ep 4", { { MLP, 1 } } },

    { ETP,       "etp=tp",      0, "",        { { 0 } } },
    { ETP,       "etp1",        1, "--etp 1", { { MLP, 1 }, { TP, 2 } } },

    { ORDER,     "tp-dp-pp",    0, "",                       { { 0 } } },
    { ORDER,     "tp-pp-dp",    1, "--use-tp-pp-dp-mapping", { { PP, 2 } } },

    { RECOMPUTE, "kept",        0, "", { { 0 } } },
    { RECOMPUTE, "attention",   0, "--recompute-granularity selective", { { 0 } } },
    { RECOMPUTE, "modules",     0, "--recompute-granularity selective --recompute-modules layernorm @mlp_module", { { 0 } } },
    { RECOMPUTE, "moe",         0, "--recompute-granularity selective --recompute-modules moe", { { MLP, 1 } } },
    { RECOMPUTE, "uniform",     0, "--recompute-granularity full --recompute-num-layers @group_layers", { { 0 } } },
    { RECOMPUTE, "block",       0, "--recompute-granularity full --recompute-method block", { { 0 } } },

    { MICRO,     "micro1",      1, "",                     { { 0 } } },
    { MICRO,     "micro2",      2, "--micro-batch-size 2", { { 0 } } },
    { MICRO,     "micro2-eval1", 2, "--micro-batch-size 2 --eval-micro-batch-size 1", { { 0 } } },

    { SUMS,      "sums-of-8",   0, "",                   { { 0 } } },
    { SUMS,      "sums-of-2",   0, "--sum-group-size 2", { { 0 } } },

    { OVERLAP,   "overlap",     0, "",             { { 0 } } },
    { OVERLAP,   "no-overlap",  0, "--no-overlap", { { 0 } } },

    { TRANSPORT, "host",        0, "", { { 0 } } },                  /* of the test alone: run.c */
    { TRANSPORT, "in-order",    1, "", { { 0 } } },
    { TRANSPORT, "late",        2, "", { { 0 } } },
};
const int values_count = sizeof values / sizeof *values;

const ValuePair impossible[] = {
    { "llama3", "latent-keys" },          /* two ways to scale rotary frequencies */
    { "nemotron", "latent" }, { "nemotron", "latent-keys" },
    { "zb-v", "short" },                  /* its first stage has the last virtual stage too: a layout by hand says which */
    { "sgd", "bf16-states" }, { "lion", "bf16-states" },               /* they have no second moment */
    { "average", "bf16-states" }, { "sgd-average", "bf16-states" }, { "adafactor", "bf16-states" },    /* they have no first one */
    { "sophia", "mtp" },                                               /* refused */
    { "adam-mini", "bf16-states" },                                    /* its second ones are of blocks */
    { "adam8bit", "bf16-states" }, { "galore", "bf16-states" }, { "galore8bit", "bf16-states" }, { "shampoo", "bf16-states" },
    { "soap", "bf16-states" },
    { "onebit-lamb", "bf16-states" }, { "onebit-lamb", "zero1" }, { "onebit-lamb", "zero2" }, { "onebit-lamb", "zero3" },
    { "onebit-lamb", "hybrid1" }, { "onebit-lamb", "hybrid2" },
};
const int impossible_count = sizeof impossible / sizeof *impossible;

int value_named(const char *name)
{
    for (int v = 0; v < values_count; v++)
        if (!strcmp(values[v].name, name)) return v;
    return -1;
}
