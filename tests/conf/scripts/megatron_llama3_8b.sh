#!/usr/bin/env bash
set -euo pipefail
TP=${TP:-2}
PP=${PP:-1}
MBS=${MBS:-1}
GBS="${GBS:-$((MBS * 128))}"
DATA_PREFIX=${1:-data/llama3_8b_text_document}
TOKENIZER_MODEL="${2:-tokenizer/llama3_8b}"
OUTPUT_DIR="${3:-runs/llama3_8b}"
NPROC=8
if [ "$TP" -gt 1 ]; then
    SEQUENCE="--sequence-parallel"
else
    SEQUENCE=""
fi

NETWORK="
    --num-layers 32 \
    --hidden-size 4096 \
    --ffn-hidden-size 14336 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
    --seq-length 8192 \
    --max-position-embeddings 8192 \
    --position-embedding-type rope \
    --rotary-base 500000 \
    --rotary-percent 1.0 \
    --normalization RMSNorm --norm-epsilon 1e-5 \
    --swiglu --disable-bias-linear --untie-embeddings-and-output-weights \
    --attention-dropout 0.0 --hidden-dropout 0.0 \
    --make-vocab-size-divisible-by 128 --vocab-size 128256
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
