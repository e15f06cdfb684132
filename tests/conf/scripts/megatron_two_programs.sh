#!/bin/bash
# Tokenizes, then trains
IN=${IN:-corpus.jsonl}
python tools/preprocess_data.py --input $IN --output-prefix my --vocab-file gpt2/vocab.json --merge-file gpt2/merges.txt --append-eod --workers 8
if [ $? -ne 0 ]; then echo "failed"; fi
PARALLEL=()
for d in 0 1; do echo "device $d"; done
args() { echo "unused"; }
N_LAYERS=$((6 * 2)) WIDTH=768
COMMON=(--num-layers "$N_LAYERS" --hidden-size "$WIDTH" --num-attention-heads "$((WIDTH / 64))" --seq-length 1024 --max-position-embeddings 1024)
torchrun --standalone --nproc_per_node=2 pretrain_gpt.py "${COMMON[@]}" "${PARALLEL[@]}" \
    --micro-batch-size 8 --global-batch-size 64 --lr 6e-4 --min-lr 6e-5 --lr-decay-style cosine --lr-warmup-iters 700 --train-iters 10000 \
    --weight-decay 0.1 --adam-beta2 0.95 --clip-grad 1.0 --bf16 --data-path my_text_document --vocab-file gpt2/vocab.json --merge-file gpt2/merges.txt \
    --split 95,5,0 --eval-interval 500 --eval-iters 20 --log-interval 10 --save out --save-interval 1000 "$@"
