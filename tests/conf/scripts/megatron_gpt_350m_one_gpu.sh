#!/bin/sh
# One device, an older style: everything on one command line
RUN="${RUN:-first}"
CUDA_DEVICE_MAX_CONNECTIONS=1 python pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
  --micro-batch-size 4 --global-batch-size 8 --seq-length 1024 --max-position-embeddings 1024 --train-iters 500000 --lr-decay-iters 320000 \
  --save "ck/$RUN" --load "ck/$RUN" --data-path my-gpt2_text_document --vocab-file gpt2/vocab.json --merge-file gpt2/merges.txt --split 949,50,1 \
  --distributed-backend nccl --lr 0.00015 --min-lr 1.0e-5 --lr-decay-style cosine --weight-decay 1e-2 --clip-grad 1.0 \
  --recompute-activations --log-interval 100 --save-interval 10000 --eval-interval 1000 --eval-iters 10 --fp16 --lr-warmup-iters 3200
