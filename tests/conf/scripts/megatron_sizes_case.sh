#!/bin/bash
MODEL_SIZE=${MODEL_SIZE:-7B}
case $MODEL_SIZE in
    1B|1.3B)  NUM_LAYERS=24; HIDDEN=2048; HEADS=16 ;;
    7B)       NUM_LAYERS=32; HIDDEN=4096; HEADS=32 ;;
    13B)      NUM_LAYERS=40; HIDDEN=5120; HEADS=40 ;;
    *)        echo "no such size"; exit 1 ;;
esac
FFN=$((HIDDEN * 8 / 3 / 64 * 64))
TP=2
if [[ $MODEL_SIZE == 13B ]]; then
    TP=4
elif [[ $MODEL_SIZE == 7B && $NUM_LAYERS -eq 32 ]]; then
    TP=2
fi
options=" --num-layers $NUM_LAYERS --hidden-size $HIDDEN --ffn-hidden-size ${FFN} --num-attention-heads $HEADS"
options="$options --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size $((2*TP*32))"
options="${options} --lr 1.5e-4 --min-lr 1.0e-5 --lr-decay-style cosine --lr-warmup-iters 200 --train-iters 20000"
options+=" --tensor-model-parallel-size ${TP} --bf16 --swiglu --normalization RMSNorm --position-embedding-type rope"
options+=" --data-path ${DATA:-data/corpus_text_document} --tokenizer-type GPT2BPETokenizer --vocab-file data/vocab.json --merge-file data/merges.txt"
run_cmd="python -u ${DIR:-.}/pretrain_gpt.py ${options} $@"
echo ${run_cmd}
eval ${run_cmd}
