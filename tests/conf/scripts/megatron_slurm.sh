#!/bin/bash
#SBATCH -p batch --nodes=4 -t 04:00:00 --exclusive --ntasks-per-node=8
#SBATCH --job-name=gpt
NAME="gpt_1p3b"
DIR=/lustre/gpt
DATETIME=`date +'date_%y-%m-%d_time_%H-%M-%S'`
mkdir -p $DIR/logs
TENSORBOARD=no
options=" \
    --exit-interval 5000 \
    --tensor-model-parallel-size 2 \
    --sequence-parallel \
    --num-layers 24 \
    --hidden-size 2048 \
    --num-attention-heads 16 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --micro-batch-size 4 \
    --global-batch-size 256 \
    --train-samples 4882812 \
    --lr 2.0e-4 \
    --min-lr 2.0e-5 \
    --lr-decay-style cosine \
    --lr-decay-samples 4880000 \
    --lr-warmup-samples 20000 \
    --log-interval 100 \
    --eval-iters 32 \
    --eval-interval 1000 \
    --data-path ${DIR}/data/my_text_document \
    --tokenizer-type GPTSentencePieceTokenizer \
    --tokenizer-model ${DIR}/tok.model \
    --save-interval 1000 \
    --save ${DIR}/checkpoints/${NAME} \
    --load ${DIR}/checkpoints/${NAME} \
    --split 98,2,0 \
    --clip-grad 1.0 \
    --weight-decay 0.1 \
    --adam-beta1 0.9 \
    --adam-beta2 0.95 \
    --init-method-std 0.006 \
    --squared-relu \
    --untie-embeddings-and-output-weights \
    --disable-bias-linear \
    --position-embedding-type rope \
    --bf16 "
run_cmd="cd $DIR && python -u ${DIR}/pretrain_gpt.py ${options}"
srun -l --container-image "image" --output=$DIR/logs/%x_%j_$DATETIME.log sh -c "${run_cmd}"
set +x
