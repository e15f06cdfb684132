#!/bin/bash
# Interleaved pipeline with a ramp of the batch
TP=8; PP=4; L=48; VP=$((L / PP / 2))
ARGS=(
  --num-layers $L --hidden-size 6144 --num-attention-heads 48 --seq-length 2048 --max-position-embeddings 2048
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --num-layers-per-virtual-pipeline-stage $VP --sequence-parallel
  --micro-batch-size 1 --global-batch-size 1024 --rampup-batch-size 32 32 65536000
  --train-samples 146484375 --lr 1.0e-4 --min-lr 1.0e-5 --lr-decay-style cosine --lr-decay-samples 126953125 --lr-warmup-samples 183105
  --weight-decay 0.1 --clip-grad 1.0 --fp16 --loss-scale-window 1000 --hysteresis 2 --initial-loss-scale 65536
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
  --data-path 0.3 data/a_text_document 0.7 data/b_text_document --vocab-file v/vocab.json --merge-file v/merges.txt --tokenizer-type GPT2BPETokenizer
  --split 969,30,1 --log-interval 10 --save-interval 2000 --eval-interval 2000 --eval-iters 20 --save ck --load ck
)
torchrun --nproc-per-node 8 --nnodes 16 pretrain_gpt.py "${ARGS[@]}"
