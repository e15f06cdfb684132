#!/bin/bash
dir=`pwd`
seq_len=2048
# usage: deepspeed_gpt.sh 125|350|1.3|6.7|13
model_size=$1
global_batch_size=256
mp_size=1
pp_size=1
no_pp="true"
zero_stage=1
num_gpus=8
case $model_size in
    125)
        num_layers=12
        hidden_size=768
        num_attn_heads=12
        lr=6.0e-4
        ;;
    350)
        num_layers=24
        hidden_size=1024
        num_attn_heads=16
        lr=3.0e-4
        zero_stage=2
        ;;
    1.3)
        num_layers=24
        hidden_size=2048
        num_attn_heads=16
        global_batch_size=512
        lr=2.0e-4
        zero_stage=3
        ;;
    6.7)
        num_layers=32
        hidden_size=4096
        num_attn_heads=32
        global_batch_size=1024
        lr=1.2e-4
        mp_size=4
        ;;
    13)
        num_layers=40
        hidden_size=5120
        num_attn_heads=40
        global_batch_size=1024
        lr=1.0e-4
        mp_size=4
        pp_size=4
        no_pp="false"
        zero_stage=0
        num_gpus=16
        ;;
esac
min_lr=1.0e-6
init_std=0.02
train_tokens_in_billion=300
train_tokens=$((${train_tokens_in_billion} * 1000 * 1000 * 1000))
train_samples=$(( 300 * 1000 * 1000 * 1000 * 2 / ${seq_len} ))
exit_duration=30000000
dp_size=$(( ${num_gpus} / ${pp_size} / ${mp_size} ))
batch_size=$(( ${global_batch_size} / ${dp_size} ))
if [ $batch_size -gt 8 ]; then
    batch_size=4
fi
activation_checkpoint="false"
log_interval=10
eval_iters=10
eval_interval=100
num_save=100
estimated_train_iter=$((${train_tokens} / ${seq_len} / ${global_batch_size}))
save_interval=$((${estimated_train_iter} / ${num_save}))
data_path="${dir}/data/pile_text_document"
vocab_path="${dir}/data/gpt2-vocab.json"
merge_path="${dir}/data/gpt2-merges.txt"
checkpoint_path="output/checkpoint/gpt_${model_size}"

data_options=" \
    --vocab-file ${vocab_path} \
    --merge-file ${merge_path} \
    --data-path ${data_path} \
    --data-impl mmap"

megatron_options=" \
    --override-opt_param-scheduler \
    --adam-beta1 0.9 \
    --adam-beta2 0.95 \
    --tensor-model-parallel-size ${mp_size} \
    --init-method-std ${init_std} \
    --train-iters ${estimated_train_iter} \
    --lr-warmup-iters 1000 \
    --micro-batch-size ${batch_size} \
    --exit-interval 50000 \
    --global-batch-size ${global_batch_size} \
    --num-layers ${num_layers} \
    --hidden-size ${hidden_size} \
    --num-attention-heads ${num_attn_heads} \
    --seq-length ${seq_len} \
    --max-position-embeddings ${seq_len} \
    --lr ${lr} \
    --min-lr ${min_lr} \
    --lr-decay-style cosine \
    --split 949,50,1 \
    --log-interval ${log_interval} \
    --eval-interval ${eval_interval} \
    --eval-iters ${eval_iters} \
    --save-interval ${save_interval} \
    --weight-decay 0.1 \
    --clip-grad 1.0 \
    --hysteresis 2 \
    --num-workers 0 \
    --fp16 \
    --seed 1234 \
    --load ${checkpoint_path} \
    --save ${checkpoint_path} \
    --no-async-tensor-model-parallel-allreduce"

if [ "${activation_checkpoint}" = "true" ]; then
megatron_options="${megatron_options} \
    --checkpoint-activations"
fi

config_json="ds_config_gpt_${model_size}.json"
cat <<EOT > $config_json
{
  "train_batch_size": $global_batch_size,
  "train_micro_batch_size_per_gpu": $batch_size,
  "steps_per_print": $log_interval,
  "zero_optimization": { "stage": $zero_stage },
  "gradient_clipping": 1.0,
  "fp16": { "enabled": true, "loss_scale": 0 },
  "wall_clock_breakdown": false
}
EOT

deepspeed_options=" \
    --deepspeed \
    --deepspeed_config ${config_json} \
    --zero-stage ${zero_stage} \
    --pipeline-model-parallel-size ${pp_size}"
if [[ "${no_pp}" = "true" ]]; then
deepspeed_options="${deepspeed_options} \
    --no-pipeline-parallel"
fi
deepspeed --num_gpus $num_gpus ${dir}/pretrain_gpt.py ${megatron_options} ${data_options} ${deepspeed_options} 2>&1 | tee log
