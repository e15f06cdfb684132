#!/bin/bash --login
# In the manner of a leadership centre's 7B runs
export NGPUS=${NGPUS:-24}
TP=${TP:-1}; PP=${PP:-1}
MICRO_BATCH=${MICRO_BATCH:-4}
GRAD_ACC_STEPS=${GRAD_ACC_STEPS:-8}
GLOBAL_BATCH=$(( NGPUS * MICRO_BATCH * GRAD_ACC_STEPS / TP / PP ))
ZERO_STAGE=${ZERO_STAGE:-1}
[ "${DTYPE:-bf16}" = "bf16" ] && dtype_arg="--bf16" || dtype_arg="--fp16"
model_args=(
    "--num-layers=32"
    "--hidden-size=4096"
    "--num-attention-heads=32"
    "--num-key-value-heads=8"
    "--ffn-hidden-size=11008"
    "--seq-length=4096"
    "--max-position-embeddings=4096"
    "--use-rotary-position-embeddings"
    "--rotary-position-embeddings-theta=50000"
    "--layernorm-epsilon=1e-05"
    "--normalization=rmsnorm"
    "--swiglu"
    "--hidden-dropout=0"
    "--attention-dropout=0"
    "--disable-bias-linear"
    "--untie-embeddings-and-output-weights"
)
train_args=(
    "${dtype_arg}"
    "--optimizer=adamw"
    "--lr=0.0002"
    "--lr-decay-style=cosine"
    "--lr-warmup-iters=500"
    "--adam-beta1=0.9"
    "--adam-beta2=0.95"
    "--adam-eps=1.0e-05"
    "--clip-grad=1.0"
    "--weight-decay=0.1"
    "--train-iters=${TRAIN_ITERS:-317892}"
    "--micro-batch-size=${MICRO_BATCH}"
    "--global-batch-size=${GLOBAL_BATCH}"
    "--tensor-model-parallel-size=${TP}"
    "--pipeline-model-parallel-size=${PP}"
    "--split=990,10,0"
    "--data-file-list=${DATA_FILE_LIST:-dolma.txt}"
    "--data-order=megatron-deepspeed"
    "--shuffle-sample-in-corpus"
    "--blend-sample-in-corpus"
    "--tokenizer-type=Llama2Tokenizer"
    "--tokenizer-model=tokenizer.model"
    "--save=checkpoints"
    "--load=checkpoints"
    "--save-interval=50"
    "--eval-interval=50000"
    "--eval-iters=20"
    "--accumulate-allreduce-grads-in-fp32"
    "--distributed-backend=ccl"
    "--num-workers=2"
    "--timing-log-level=1"
    "--log-interval=1"
)
mpiexec -n ${NGPUS} --ppn 12 python3 -Wignore pretrain_gpt_alcf.py "${train_args[@]}" "${model_args[@]}" --deepspeed --zero-stage=${ZERO_STAGE} --no-pipeline-parallel
