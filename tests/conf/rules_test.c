/* What does not go together is refused, in words that name option, value and cure; the rest is not. */
#include "line.h"

typedef struct { CommandSet command; const char *line, *says; } RuleRow;

static const RuleRow refused[] = {
    { FOR_CONFIG,   "--num-experts 8", "--num-experts 8: experts have no biases; give --disable-bias-linear" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-router-topk 9", "--moe-router-topk 9 is more than --num-experts 8" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-router-topk 1", "from which the router learns nothing; give --moe-router-pre-softmax" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --ep 3 --ranks 3", "--ep 3 does not divide --num-experts 8" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-ffn-hidden-size 90 --etp 4 --ranks 4", "--etp 4 does not divide --moe-ffn-hidden-size 90" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-router-num-groups 3 --moe-router-group-topk 1", "groups divide --num-experts 8" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-router-num-groups 4 --moe-router-group-topk 2 --moe-router-topk 3", "--moe-router-group-topk 2 does not divide --moe-router-topk 3" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-layer-freq [0,1]*5", "has 10 layers, and the model has --num-layers 12; give a list of as many" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-layer-freq [0,2]", "is neither a number nor a list of 0 and 1" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-layer-freq 0", "is no number from 1 to 1024" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --bf16 --fp8-format hybrid", "experts take no 8-bit inputs yet" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-router-enable-expert-bias", "has no effect without --moe-router-score-function sigmoid" },
    { FOR_CONFIG,   "--moe-aux-loss-coeff 0.01", "has no effect without --num-experts" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-router-load-balancing-type sinkhorn", "it is not built" },
    { FOR_CONFIG, "--tensor-model-parallel-size 3 --num-attention-heads 16",
      "--tensor-model-parallel-size 3 does not divide --num-attention-heads 16; give 1, 2, 4, 8 or 16" },
    { FOR_CONFIG, "--tp 5 --model gpt2-124m",
      "--tp 5 does not divide --num-attention-heads 12 (--model gpt2-124m); give 1, 2, 3, 4, 6 or 12" },
    { FOR_CONFIG, "--tp 4 --ranks 4 --num-query-groups 6",
      "--tp 4 does not divide --num-query-groups 6, nor does that divide it; give 1, 2, 3, 6 or 12" },
    { FOR_CONFIG, "--ranks 8 --cp 2 --zero-stage 1 --hybrid-shard-size 3 --seq-length 1024",
      "--hybrid-shard-size 3 does not divide the 8 ranks that ZeRO shards over (4 data-parallel x --cp 2); give 1, 2, 4 or 8" },
    { FOR_CONFIG, "--ranks 8 --hybrid-shard-size 2", "--hybrid-shard-size 2 has no effect without --zero-stage 1 or more" },
    { FOR_CONFIG, "--ranks 8 --ep 2", "have no effect without --num-experts; leave them out" },
    { FOR_CONFIG, "--ranks 8 --tp 2 --expert-tensor-parallel-size 2", "have no effect without --num-experts; leave them out" },
    { FOR_CONFIG, "--tp 4 --ranks 4 --ffn-hidden-size 6",
      "--tp 4 does not divide --ffn-hidden-size 6; give 1, 2, 3 or 6" },
    { FOR_CONFIG, "--num-attention-heads 7",
      "--num-attention-heads 7 does not divide --hidden-size 768 (default); give 1, 2, 3, 4, 6, 8" },
    { FOR_CONFIG, "--ranks 4 --cp 4 --cp-comm-type a2a --num-attention-heads 6",
      "--cp-comm-type a2a: 4 ranks cannot exchange 6 heads (--num-attention-heads 6 / tensor parallel size); give "
      "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2" },
    { FOR_CONFIG, "--ranks 8 --cp 4 --tp 2 --cp-comm-type a2a --num-attention-heads 6",
      "--cp-comm-type a2a: 4 ranks cannot exchange 3 heads (--num-attention-heads 6 / tensor parallel size); give "
      "--cp-comm-type p2p or allgather" },
    { FOR_CONFIG, "--ranks 4 --cp 4 --cp-comm-type a2a+p2p",
      "--cp-comm-type a2a+p2p wants --hierarchical-context-parallel-sizes U R, two sizes whose product is --cp 4; give 2 2" },
    { FOR_CONFIG, "--ranks 4 --cp 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 3", "is --cp 4; give" },
    { FOR_CONFIG, "--ranks 4 --cp 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 x", "is --cp 4; give" },
    { FOR_CONFIG, "--ranks 4 --cp 4 --hierarchical-context-parallel-sizes 2 2",
      "--hierarchical-context-parallel-sizes 2 ... has no effect without --cp-comm-type a2a+p2p" },
    { FOR_CONFIG, "--window-size 12", "--window-size 12 is not two numbers L,R; give the positions" },
    { FOR_CONFIG, "--window-size 12,4", "--window-size 12,4: attention is causal, so that a query sees no position after "
                  "its own; give 12,0" },
    { FOR_CONFIG, "--window-attn-skip-freq 4", "--window-attn-skip-freq 4 has no effect without --window-size L,0" },
    { FOR_CONFIG, "--bf16 --fp16", "--bf16 and --fp16 are two types; give one of them (--bf16=false" },
    { FOR_CONFIG, "--fp8-format hybrid", "--fp8-format hybrid has no effect without --bf16" },
    { FOR_CONFIG, "--fp16 --fp8-format e4m3", "--fp8-format e4m3 has no effect without --bf16" },
    { FOR_CONFIG, "--bf16 --fp8-margin 1", "--fp8-margin 1 has no effect without --fp8-format e4m3 or hybrid" },
    { FOR_CONFIG, "--bf16 --fp8-format hybrid --fp8-recipe tensorwise --fp8-amax-history-len 16",
      "--fp8-amax-history-len 16 has no effect without --fp8-recipe delayed" },
    { FOR_CONFIG, "--bf16 --fp8-format hybrid --num-layers-at-end-in-bf16 2",
      "--num-layers-at-end-in-bf16 2 has no effect without --first-last-layers-bf16" },
    { FOR_CONFIG, "--num-layers 2 --bf16 --fp8-format hybrid --first-last-layers-bf16",
      "--num-layers-at-start-in-bf16 and --num-layers-at-end-in-bf16 leave none of --num-layers 2 for --fp8-format "
      "hybrid; give fewer layers in BF16, or --fp8-format none" },
    { FOR_CONFIG, "--num-layers 2 --bf16 --first-last-layers-bf16",
      "--first-last-layers-bf16 has no effect without --fp8-format e4m3 or hybrid" },
    { FOR_CONFIG, "--bf16 --fp8-format hybrid --first-last-layers-bf16 --num-layers-at-start-in-bf16 0 "
                  "--num-layers-at-end-in-bf16 0", "--first-last-layers-bf16 leaves no layer in BF16 with" },
    { FOR_CONFIG, "--ranks 2 --bf16 --grad-reduce-in-bf16 --accumulate-allreduce-grads-in-fp32",
      "--grad-reduce-in-bf16 and --accumulate-allreduce-grads-in-fp32 of Megatron-LM are two types of the same" },
    { FOR_CONFIG, "--recompute-granularity full --recompute-num-layers 7 --pp 2 --ranks 2",
      "--recompute-num-layers 7 is more than the layers of a pipeline stage; give 6 or less" },
    { FOR_CONFIG, "--device ref --bf16",
      "--bf16: --device ref computes in double alone; give --device cpu, or --bf16=false" },
    { FOR_CONFIG, "--num-query-groups 5",
      "--num-query-groups 5 does not divide --num-attention-heads 12 (default); give 1, 2, 3, 4, 6 or 12" },
    { FOR_CONFIG, "--pp 5", "--ranks 1 (derived from one process) is not a multiple of 5 (--pp 5); give 5" },
    { FOR_CONFIG, "--num-layers 1 --pp 2 --ranks 2",
      "--num-layers 1 leaves some of the 2 virtual stages of --pp 2 without a layer; give 2 layers or more" },
    { FOR_CONFIG, "--num-layers 5 --pp 3 --ranks 3 --pipeline-schedule zb-v", "give 6 layers or more" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --pipeline-schedule zb-v --num-virtual-stages-per-pipeline-rank 3",
      "zb-v has two virtual stages on each stage; leave the second out" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --num-virtual-stages-per-pipeline-rank 3 --num-layers-per-virtual-pipeline-stage 2",
      "say the same in two ways" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --microbatch-group-size-per-virtual-pipeline-stage 2",
      "has no effect without --num-layers-per-virtual-pipeline-stage or --num-virtual-stages-per-pipeline-rank" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 4 "
                  "--microbatch-group-size-per-virtual-pipeline-stage 5", "a group has at least the 2 micro-batches" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 4 "
                  "--microbatch-group-size-per-virtual-pipeline-stage 3",
      "--global-batch-size 4 is not a multiple of 3 (groups of 3 micro-batches, of which the last one has none or" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --global-batch-size 4 --pipeline-schedule gpipe --pipeline-extra-warmup 1",
      "--pipeline-extra-warmup 1 has no effect without --pipeline-schedule 1f1b" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --global-batch-size 4 --num-virtual-stages-per-pipeline-rank 2 "
                  "--pipeline-extra-warmup 1", "has a longer warm-up already" },
    { FOR_CONFIG, "--ranks 5 --tp 2 --cp 2", "--ranks 5 is not a multiple of 4 (--tp 2 x --cp 2); give 4 or 8" },
    { FOR_CONFIG, "--tp 2", "--ranks 1 (derived from one process) is not a multiple of 2 (--tp 2); give 2" },
    { FOR_CONFIG, "--ranks 2 --micro-batch-size 3 --global-batch-size 9",
      "--global-batch-size 9 is not a multiple of 6 (--micro-batch-size 3 x 2 data-parallel ranks); give 6 or" },
    { FOR_CONFIG, "--ranks 2 --cp 2 --seq-length 6", "--seq-length 6 is not a multiple of 4" },
    { FOR_CONFIG, "--ranks 2 --tp 2 --sp --seq-length 7",
      "--seq-length 7 is not a multiple of 4 (--sp shares its tokens over --tp 2); give 4 or 8" },
    { FOR_CONFIG, "--num-layers-per-virtual-pipeline-stage 2",
      "has no effect without --pipeline-model-parallel-size 2 or more; give that too, or leave it out" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --global-batch-size 2 --num-layers-per-virtual-pipeline-stage 3 "
                  "--pipeline-schedule zb-h1", "one chunk a stage" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --num-layers-per-virtual-pipeline-stage 4",
      "--num-layers 12 (default) is not a multiple of 8" },
    { FOR_CONFIG, "--pp 2 --ranks 2 --num-layers-per-virtual-pipeline-stage 3 --global-batch-size 3",
      "--global-batch-size 3 is not a multiple of 2" },
    { FOR_CONFIG, "--recompute-activations --recompute-modules layernorm moe_act",
      "--recompute-modules moe_act: no layer has experts without --num-experts; give core_attn, layernorm, mlp or mlp_act" },
    { FOR_CONFIG, "--num-experts 4 --disable-bias-linear --recompute-activations --recompute-modules mlp",
      "--recompute-modules mlp: every layer has experts and none a dense MLP; give moe or moe_act, or a --moe-layer-freq" },
    { FOR_CONFIG, "--num-experts 4 --disable-bias-linear --recompute-activations --recompute-modules shared_experts",
      "--recompute-modules shared_experts: there is no shared expert; give --moe-shared-expert-intermediate-size or leave" },
    { FOR_CONFIG, "--recompute-activations --recompute-modules mla_up_proj", "mla_up_proj: a layer has no such" },
    { FOR_CONFIG, "--recompute-modules mlp",
      "--recompute-modules mlp has no effect without --recompute-granularity selective; give that too" },
    { FOR_CONFIG, "--recompute-granularity selective --recompute-num-layers 2",
      "--recompute-num-layers 2 has no effect without --recompute-granularity full" },
    { FOR_CONFIG, "--recompute-method block", "--recompute-method block has no effect without" },
    { FOR_CONFIG, "--swiglu --squared-relu", "--swiglu and --squared-relu: a model has one activation" },
    { FOR_CONFIG, "--seq-length 65 --max-position-embeddings 64",
      "--seq-length 65 is longer than --max-position-embeddings 64; give at most 64" },
    { FOR_CONFIG, "--position-embedding-type rope --hidden-size 12 --num-attention-heads 4",
      "needs heads of even width" },
    { FOR_CONFIG, "--position-embedding-type rope --kv-channels 9",
      "needs heads of even width, and of --kv-channels 9 --rotary-percent 1 (default) leaves 9 channels; give --kv-channels 10" },
    { FOR_CONFIG, "--position-embedding-type rope --kv-channels 1024", "turns at most 512 channels of a head" },
    { FOR_CONFIG, "--position-embedding-type yarn --use-rope-scaling", "are two scalings of the same frequencies" },
    { FOR_CONFIG, "--position-embedding-type rope --use-rope-scaling --rope-low-freq-factor 4",
      "--rope-low-freq-factor 4 is not below" },
    { FOR_CONFIG, "--position-embedding-type rope --no-rope-freq [1,0]", "has 2 layers, and the model has --num-layers 12" },
    { FOR_CONFIG, "--qk-layernorm", "--qk-layernorm has no effect without --normalization RMSNorm" },
    { FOR_CONFIG, "--min-lr 1", "--min-lr 1 is above --lr 0.0003 (default); give 0.0003 or less" },
    { FOR_CONFIG, "--train-iters 5 --lr-warmup-iters 6 --lr-decay-style cosine", "--lr-warmup-iters 6 is more than" },
    { FOR_CONFIG, "--train-iters 5 --lr-warmup-iters 6",
      "--lr-warmup-iters 6 is more than --lr-decay-iters 5 (derived from --train-iters)" },
    { FOR_CONFIG, "--eval-interval 5 --eval-iters 0",
      "--eval-interval 5 evaluates nothing with --eval-iters 0" },
    { FOR_CONFIG, "--save-interval 5", "--save-interval 5 has no effect without --save" },
    { FOR_CONFIG, "--keep-last 5", "--keep-last 5 has no effect without --save" },
    { FOR_CONFIG, "--use-checkpoint-args", "--use-checkpoint-args has no effect without --load" },
    { FOR_CONFIG, "--exit-on-missing-checkpoint",
      "--exit-on-missing-checkpoint has no effect without --load" },
    { FOR_CONFIG, "--micro-batch-size 65536 --ranks 65536",
      "--global-batch-size 4294967296 (derived from --micro-batch-size and the data-parallel ranks) is out" },
    { FOR_CONFIG, "--exit-interval 5", "--exit-interval 5 has no effect without --save DIR; give that too, or leave" },
    { FOR_CONFIG, "--eval-iters 5",    "--eval-iters 5 has no effect without --eval-interval" },
    { FOR_CONFIG, "--rotary-base 500", "--rotary-base 500 has no effect without --position-embedding-type rope" },
    { FOR_CONFIG, "--rotary-base 2048 --position-embedding-type none",
      "--rotary-base 2048 has no effect without --position-embedding-type rope" },
    { FOR_CONFIG, "--min-lr 1e-5 --lr-decay-style constant",
      "--min-lr 1e-05 has no effect without --lr-decay-style linear or cosine" },
    { FOR_CONFIG, "--lr-decay-iters 9 --lr-decay-style constant", "--lr-decay-iters 9 has no effect without" },
    { FOR_CONFIG, "--pipeline-schedule zb-h1",
      "--pipeline-schedule zb-h1 has no effect without --pipeline-model-parallel-size 2 or more" },
    { FOR_CONFIG, "--dry-run --draw-schedule", "--dry-run and --draw-schedule: each shows one thing and stops" },
    { FOR_CONFIG, "--draw-schedule --draw-schedule-svg f", "--draw-schedule and --draw-schedule-svg: each" },
    { FOR_CONFIG, "--global-batch-size 65536 --micro-batch-size 16 --seq-length 65536",
      "more than 2147483647 tokens a step; give --global-batch-size 32752 or less" },
    { FOR_CONFIG, "--micro-batch-size 65536 --seq-length 65536",
      "more than 2147483647 tokens a step; give --seq-length 32767 or less" },
    { FOR_EVAL,     "--load l --text t --context-window 2048",
      "--context-window 2048 is longer than --max-position-embeddings 1024" },
    { FOR_CONFIG, "--data-order jotun --final-epoch-cut 0.95", "--final-epoch-cut 0.95 has no effect without --data-order megatron or megatron-deepspeed; give that" },
    { FOR_CONFIG, "--mid-level-dataset-surplus 0.1", "--mid-level-dataset-surplus 0.1 has no effect without --data-order megatron or" },
    { FOR_CONFIG, "--data-file-list f", "--data-file-list f has no effect without --data-order megatron or megatron-deepspeed" },
    { FOR_CONFIG, "--data-order megatron-deepspeed --data-file-list f --data-path p", "--data-file-list f and --data-path p both name the data" },
    { FOR_CONFIG, "--data-order megatron-deepspeed --data-file-list f --train-data-path p", "--data-file-list f and --train-data-path p both" },
    { FOR_CONFIG, "--data-path p --train-data-path t", "--train-data-path t and --data-path p both name the data" },
    { FOR_CONFIG, "--data-path p --valid-data-path v", "--valid-data-path v has no effect without --train-data-path [W] PREFIX..." },
    { FOR_CONFIG, "--test-data-path v", "--test-data-path v has no effect without --train-data-path" },
    { FOR_CONFIG, "--train-data-path t --split 9,1", "--split 9,1 does not apply to --train-data-path" },
    { FOR_CONFIG, "--train-data-path t --test-data-path v", "--test-data-path v has no effect without --eval-interval 1 or more" },
    { FOR_CONFIG, "--data-path nan a 1 b", "--data-path: weight nan of a is not above 0; give another, or leave that data set out" },
    { FOR_CONFIG, "--train-data-path 1 a -1 b", "--train-data-path: weight -1 of b is not above 0" },
    { FOR_DATA_INFO, "--data-path 0 a 1 b", "--data-path: weight 0 of a is not above 0" },
    { FOR_CONFIG, "--watchdog-seconds 1e-7", "--watchdog-seconds 1e-07 would stop a healthy run; give 0.1 or more, or 0" },
    { FOR_CONFIG, "--train-samples 7 --global-batch-size 8", "--train-samples 7 is less than one step, which has 8 samples" },
    { FOR_CLEAN,  "--input i --output o.txt --charset sv --charset-mode strict --charset-line 0.1", "has no effect without --charset-mode graded" },
    { FOR_EVAL,   "--load l --data-path 1 d", "jotun eval perplexity reads one --data-path PREFIX, and there are 2 words" },
};

static const RuleRow missing[] = {
    { FOR_TRAIN,    "--train-iters 1",                  "jotun train needs --data-path PREFIX" },
    { FOR_TRAIN,    "--data-path d",                    "jotun train needs --train-iters N" },
    { FOR_EVAL,     "--text t",                         "needs --load DIR (the checkpoint to evaluate)" },
    { FOR_EVAL,     "--load l",                         "needs either --text FILE or --data-path PREFIX" },
    { FOR_EVAL,     "--load l --text t --data-path d",  "takes either --text FILE or --data-path PREFIX, not both" },
    { FOR_GENERATE, "--prompt p",                       "needs --load DIR (the checkpoint to generate with)" },
    { FOR_GENERATE, "--load l",                         "jotun generate needs --prompt" },
    { FOR_GENERATE, "", "jotun generate needs --load DIR (the checkpoint to generate with) and --prompt S (the text to continue)" },
    { FOR_TRAIN,    "", "of PREFIX.bin and PREFIX.idx) and --train-iters N (the steps of the whole run)" },
    { FOR_EVAL,     "", "needs --load DIR (the checkpoint to evaluate) and either --text FILE or --data-path PREFIX" },
    { FOR_PREPARE,  "--input i",                        "jotun prepare needs --output-prefix" },
    { FOR_LANGID,   "",                                 "jotun langid needs --model FILE (a fastText classifier" },
    { FOR_TOKENIZER_TRAIN, "--input i --output o",      "jotun tokenizer train needs --vocab-size N (say 32000)" },
};

static const RuleRow allowed[] = {
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-layer-freq [0]*3+([1]*2+[0])*3 --ep 4 --ranks 4", "" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-layer-freq 3 --moe-grouped-gemm --moe-token-dispatcher-type alltoall", "" },
    { FOR_CONFIG,   "--num-experts 8 --disable-bias-linear --moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-num-groups 4 --moe-router-group-topk 2 --moe-router-topk 4", "" },
    { FOR_CONFIG, "--bf16 --fp8-format hybrid --fp8-amax-history-len 1024 --fp8-amax-compute-algo max --fp8-margin 2", "" },
    { FOR_CONFIG, "--bf16 --fp8-format e4m3 --fp8-recipe tensorwise --disable-fp8-wgrad --first-last-layers-bf16", "" },
    { FOR_CONFIG,   "", "" },
    { FOR_CONFIG,   "--tp 4 --pp 3 --cp 2 --ranks 48 --sp --zero-stage 1", "" },
    { FOR_CONFIG,   "--pp 2 --ranks 2 --num-layers-per-virtual-pipeline-stage 3 --global-batch-size 4", "" },
    { FOR_CONFIG,   "--model gpt2-124m --position-embedding-type rope", "" },        /* a preset trips nobody */
    { FOR_CONFIG,   "--model llama2-7b --position-embedding-type learned_absolute", "" },
    { FOR_CONFIG,   "--pipeline-schedule 1f1b --lr-decay-style constant", "" },
    { FOR_CONFIG,   "--eval-interval 0 --eval-iters 5", "" },
    { FOR_CONFIG,   "--recompute-activations", "" },
    { FOR_CONFIG,   "--checkpoint-activations --checkpoint-num-layers 2 --deepspeed-activation-checkpointing", "" },
    { FOR_CONFIG,   "--recompute-granularity full --recompute-method block --recompute-num-layers 4", "" },
    { FOR_CONFIG,   "--recompute-granularity selective --recompute-modules core_attn mlp mlp_act layernorm", "" },
    { FOR_CONFIG,   "--num-experts 4 --disable-bias-linear --moe-shared-expert-intermediate-size 64 --recompute-activations "
                    "--recompute-modules moe moe_act shared_experts", "" },
    { FOR_CONFIG,   "--sp", "" },                            /* a line in the log: Megatron-LM's scripts give it for one rank as well */
    { FOR_CONFIG,   "--watchdog-seconds 0", "" },
    { FOR_CONFIG,   "--tp 4 --ranks 4 --num-query-groups 2", "" },               /* two ranks to a key-value head */
    { FOR_CONFIG,   "--tp 2 --ranks 8 --zero-stage 3 --hybrid-shard-size 2 --use-tp-pp-dp-mapping", "" },
    { FOR_DATA_INFO, "--train-data-path t --valid-data-path v", "" },
    { FOR_CLEAN,    "--input i --output o.txt --clusters c", "" },
    { FOR_CLEAN,    "--input i --output o.txt --dedup lines --clusters c", "" },
    { FOR_CONFIG,   "--use-checkpoint-args=false --swiglu --squared-relu=false", "" },
    { FOR_TRAIN,    "--data-path d --train-iters 1", "" },
    { FOR_TRAIN,    "--train-data-path t --train-iters 1", "" },
    { FOR_TRAIN,    "--train-data-path t --valid-data-path v --test-data-path w --train-iters 1 --eval-interval 1", "" },
    { FOR_TRAIN,    "--data-order megatron-deepspeed --data-file-list f --train-iters 1 --final-epoch-cut 0.95", "" },
    { FOR_TRAIN,    "--dry-run", "" },
    { FOR_TRAIN,    "--draw-schedule --pp 4 --ranks 4 --global-batch-size 8", "" },
    { FOR_EVAL,     "--load l --data-path d", "" },
    { FOR_GENERATE, "--load l --prompt p", "" },
    { FOR_PREPARE,  "--input i --output-prefix o", "" },
    { FOR_DATA_INFO,     "p", "" },
};

static void what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_says(validate_line(refused[i].command, refused[i].line), BAD_OPTION, refused[i].says);
}

static void what_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        assert_says(validate_line(missing[i].command, missing[i].line), BAD_USAGE, missing[i].says);
}

static void what_is_allowed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        assert_ok(validate_line(allowed[i].command, allowed[i].line));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_refused), cmocka_unit_test(what_is_missing),
                                        cmocka_unit_test(what_is_allowed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
