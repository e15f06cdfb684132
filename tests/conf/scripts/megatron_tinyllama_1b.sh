#!/usr/bin/env bash
set -euo pipefail
TP=${TP:-2}
PP=${PP:-1}
MBS=${MBS:-1}
GBS="${GBS:-$((MBS * 128))}"
DATA_PREFIX=${1:-data/tinyllama_1b_text_document}
TOKENIZER_MODEL="${2:-tokenizer/tinyllama_1b}"
OUTPUT_DIR="${3:-runs/tinyllama_1b}"
NPROC=8
if [ "$TP" -gt 1 ]; then
    SEQUENCE="--sequence-parallel"
else
    SEQUENCE=""
fi

NETWORK="
    --num-layers 22 \
    --hidden-size 2048 \
    --ffn-hidden-size 5632 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 4 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --position-embedding-type rope \
    --rotary-base 10000 \
    --rotary-percent 1.0 \
    --normalization RMSNorm --norm-epsilon 1e-5 \
    --swiglu --disable-bias-linear --untie-embeddings-and-output-weights \
    --attention-dropout 0.0 --hidden-dropout 0.0 \
    --make-vocab-size-divisible-by 128 --vocab-size 32000
"
OPTIM="--optimizer adam --lr 3.0e-4 --min-lr 3.0e-5 --lr-decay-style cosine --lr-warmup-iters 2000
    --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-8 --clip-grad 1.0 --train-iters 100000 --lr-decay-iters 100000"

PRECISION='--bf16 --attention-softmax-in-fp32 --accumulate-allreduce-grads-in-fp32'
OUTPUT="--log-interval 10 --eval-interval 1000 --eval-iters 32 --save-interval 1000 --save $OUTPUT_DIR --load $OUTPUT_DIR --log-throughput"

torchrun --nproc_per_node=$NPROC --nnodes=${NNODES:-1} --node_rank=${NODE_RANK:-0} \
    pretrain_gpt.py $NETWORK $OPTIM $PRECISION $OUTPUT \
    --micro-batch-size $MBS --global-batch-size $GBS \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP $SEQUENCE \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --data-path "$DATA_PREFIX" --split 99,1,0 --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER_MODEL" \
    --use-mcore-models --transformer-impl transformer_engine --use-flash-attn --no-masked-softmax-fusion --num-workers 2 2>&1 | tee -a $OUTPUT_DIR/log.txt
