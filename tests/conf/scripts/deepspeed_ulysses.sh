#!/bin/bash
seq_len=16384
sp_size=4
zero_stage=1
args="--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length ${seq_len} --max-position-embeddings ${seq_len} \
 --micro-batch-size 1 --global-batch-size 8 --train-iters 1000 --lr 1.2e-4 --min-lr 1e-6 --lr-decay-style cosine --lr-warmup-iters 100 \
 --ds-sequence-parallel-size ${sp_size} --bf16 --use-flash-attn-v2 --weight-decay 0.1 --clip-grad 1.0 --adam-beta2 0.95 \
 --data-path d_text_document --vocab-file data/vocab.json --merge-file data/merges.txt --data-impl mmap --split 949,50,1 \
 --deepspeed --zero-stage ${zero_stage} --no-pipeline-parallel --deepspeed-activation-checkpointing --recompute-activations"
deepspeed pretrain_gpt.py $args
