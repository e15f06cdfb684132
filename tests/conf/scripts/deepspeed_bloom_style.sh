#!/bin/bash
#SBATCH --job-name=bloom_style
#SBATCH --nodes=4
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
PP_SIZE=4
TP_SIZE=2
MICRO_BATCH_SIZE=2
GLOBAL_BATCH_SIZE=512
NLAYERS=24
NHIDDEN=2048
NHEADS=16
SEQ_LEN=2048
SAVE_INTERVAL=250
TRAIN_SAMPLES=220_000
OPTIMIZER_ARGS=" \
    --optimizer adam \
    --adam-beta1 0.9 \
    --adam-beta2 0.95 \
    --adam-eps 1e-8 \
    --lr 2e-4 \
    --min-lr 1e-5 \
    --lr-decay-style cosine \
    --lr-decay-iters 200000 \
    --lr-warmup-iters 1800 \
    --clip-grad 1.0 \
    --weight-decay 1e-1 \
    "
EXIT_OPTS=" --exit-interval 10000 "
GPT_ARGS=" \
    --pp-partition-method 'type:transformer|embedding' \
    --num-layers $NLAYERS \
    --hidden-size $NHIDDEN \
    --num-attention-heads $NHEADS \
    --seq-length $SEQ_LEN \
    --max-position-embeddings $SEQ_LEN \
    --micro-batch-size $MICRO_BATCH_SIZE \
    --global-batch-size $GLOBAL_BATCH_SIZE \
    --train-iters 100000 \
    --tokenizer-type PretrainedFromHF \
    --tokenizer-name-or-path tokenizer \
    --init-method-std 0.0048 \
    --embed-layernorm \
    --fp16 \
    --seed 42 \
    --position-embedding-type alibi \
    --checkpoint-activations \
    --abort-on-unmet-fused-kernel-constraints \
    --pad-vocab-size-to 250880 \
    $OPTIMIZER_ARGS \
    $EXIT_OPTS \
    "
OUTPUT_ARGS=" --log-interval 1 --save-interval $SAVE_INTERVAL --eval-interval 1000 --eval-iters 1"
ZERO_STAGE=0
config_json="./ds_config.json"
cat <<EOT > $config_json
{
  "train_micro_batch_size_per_gpu": $MICRO_BATCH_SIZE,
  "train_batch_size": $GLOBAL_BATCH_SIZE,
  "gradient_clipping": 1.0,
  "zero_optimization": { "stage": $ZERO_STAGE },
  "fp16": { "enabled": true, "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 12 },
  "steps_per_print": 2000,
  "wall_clock_breakdown": false
}
EOT
DEEPSPEED_ARGS=" --deepspeed --deepspeed_config ${config_json} --zero-stage ${ZERO_STAGE} --deepspeed-activation-checkpointing "
export LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --max_restarts 0 --tee 3"
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --tensor-model-parallel-size $TP_SIZE \
    --pipeline-model-parallel-size $PP_SIZE \
    $GPT_ARGS \
    $OUTPUT_ARGS \
    --save checkpoints/main \
    --load checkpoints/main \
    --data-path data/a_text_document \
    --data-impl mmap \
    --split 949,50,1 \
    --distributed-backend nccl \
    $DEEPSPEED_ARGS \
    "
clear; srun --jobid $SLURM_JOBID bash -c "$LAUNCHER --node_rank 0 $CMD" 2>&1 | tee -a main_log.txt
