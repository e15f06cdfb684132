"""What a script of Megatron-LM gives: arguments that need more than a name of their own; and DeepSpeed's JSON, where the script writes it:
each key is taken, ignored with a reason, or refused; "auto" is the command line's value, and what contradicts the command line is refused
with both values."""
import json
import os
import re
import sys

import run

ARGUMENTS = "--num-layers 2 --micro-batch-size 2 --global-batch-size 16 --lr 0.001"
NONE = object()


def config(folder, keys, arguments=ARGUMENTS):
    """(exit code, option -> value, what is said) of a script with this JSON; keys may be text as well."""
    path = os.path.join(folder, "run.sh")
    with open(path, "w") as out:
        out.write("cat <<EOT > ds.json\n" + (keys if isinstance(keys, str) else json.dumps(keys)) + "\nEOT\n"
                  f"deepspeed pretrain_gpt.py {arguments} --deepspeed --deepspeed_config ds.json\n")
    done = run.jotun("config", "--from-megatron", path, check=False, env={"PATH": os.environ["PATH"]})
    given = dict(re.findall(r"^([\w-]+): (.*?)  # ", done.stdout, re.M))
    return done.returncode, given, done.stderr + "".join(line + "\n" for line in done.stdout.splitlines() if line.startswith("# "))


def nested(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


# Of one key: the option and its value, or NONE, and what is said.
TAKEN = [
    ("train_batch_size", 16, "global-batch-size", "16", ""), ("gradient_clipping", 0.5, "clip-grad", "0.5", ""),
    ("zero_optimization.stage", 2, "zero-stage", "2", ""), ("zero_optimization.mics_shard_size", -1, "hybrid-shard-size", NONE, "it is the default"),
    ("bf16.enabled", True, "bf16", "true", ""), ("bf16.enabled", False, "bf16", NONE, "is false"),
    ("optimizer", {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.1}}, "adam-beta2", "0.95", ""),
    ("optimizer", {"type": "FusedAdam", "params": {"lr": "auto", "betas": "auto"}}, "lr", "0.001", "optimizer.params.lr of DeepSpeed's JSON is auto"),
    ("scheduler", {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 5, "total_num_steps": 50, "warmup_type": "linear"}}, "lr-decay-iters", "50", ""),
    ("fp16", {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}, "initial-loss-scale", "65536", "the loss scale is dynamic"),
    ("fp16", {"enabled": True, "loss_scale": 128.0}, "loss-scale", "128", ""),
    ("fp16", {"enabled": False, "loss_scale": 128}, "loss-scale", NONE, "fp16.loss_scale of DeepSpeed's JSON has no effect"),
    ("fp16", {"enabled": "auto", "loss_scale": 128}, "loss-scale", NONE, "fp16.loss_scale of DeepSpeed's JSON has no effect"),
    ("fp16", {"enabled": True}, "initial-loss-scale", "65536", "fp16.initial_scale_power of DeepSpeed's JSON is not given, which means 16 there"),
    ("steps_per_print", 1, "clip-grad", "0", "gradient_clipping of DeepSpeed's JSON is not given, which means 0 there"),
    ("gradient_clipping", None, "clip-grad", "0", "gradient_clipping of DeepSpeed's JSON is not given, which means 0 there"),
    ("optimizer.type", "FusedAdam", "weight-decay", "0", "optimizer.params.weight_decay of DeepSpeed's JSON is not given, which means 0 there"),
    ("optimizer", {"type": "AdamW", "params": {"torch_adam": True}}, "weight-decay", "0.01", ""),
    ("optimizer.params.eps", 1e-6, "weight-decay", NONE, ""),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_type": "linear"}}, "lr-warmup-iters", "1000", ""),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}, "lr-warmup-iters", "0", ""),
    ("fp16", {"enabled": True, "loss_scale": 128}, "initial-loss-scale", NONE, ""),
    ("wandb", {"enabled": True, "project": "p"}, "wandb-project", "p", ""),
    ("wandb", {"project": "p"}, "wandb-project", NONE, "wandb.project of DeepSpeed's JSON has no effect without enabled: true"),
    ("prescale_gradients", True, "grad-reduce-in-bf16", NONE, "gradients are summed first"), ("communication_data_type", "bf16", "grad-reduce-in-bf16", "true", ""),
    ("communication_data_type", "fp16", "grad-reduce-in-bf16", NONE, "gradients are summed in fp32, which is finer"),
    ("communication_data_type", "fp32", "grad-reduce-in-bf16", NONE, "gradients are summed in fp32"),
    ("zero_optimization.offload_optimizer.device", "cpu", "zero-stage", NONE, "stay in the memory of the device"),
    ("zero_optimization.reduce_bucket_size", "auto", "zero-stage", NONE, "does not change results"),
    ("curriculum_learning", {"enabled": False, "anything": [1, 2]}, "seq-length", NONE, "curriculum_learning.anything of DeepSpeed's JSON is off"),
    ("gradient_accumulation_steps", 4, "global-batch-size", "16", "these are 2 data-parallel ranks"),
]
# What is refused: of the key, or beside the command line.
REFUSED = [
    ("train_batch_size", 32, "train_batch_size of DeepSpeed's JSON is 32, and contradicts --global-batch-size 16"),
    ("optimizer.params.lr", 3e-4, "optimizer.params.lr of DeepSpeed's JSON is 0.0003, and contradicts --lr 0.001"),
    ("optimizer.params.lrr", 3e-4, "optimizer.params.lrr of DeepSpeed's JSON is not known"), ("zero_optimisation.stage", 1, "is not known"),
    ("optimizer.type", "OneBitAdam", "OneBitAdam is not known; give adam, sgd"), ("optimizer.params.adam_w_mode", False, "give true"),
    ("scheduler.type", "OneCycle", "WarmupLR and WarmupDecayLR are read"), ("scheduler.type", "WarmupLR", "give linear, or leave scheduler out"),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}, "warmup_type of DeepSpeed's JSON is not given, which means log there"),
    ("zero_optimization.stage", "two", "is not a whole number"), ("zero_optimization.zero_quantized_weights", True, "give false"),
    ("fp16", {"enabled": True, "initial_scale_power": 1.5}, "initial_scale_power 1.5 is not a whole number; give a value from 0 to 99"),
    ("gradient_accumulation_steps", 3, "is no multiple of it"), ("gradient_clipping", [1], "has a value that is not understood"),
    ("curriculum_learning.enabled", True, "sequences have one length"), ("communication_data_type", "int8", "give fp32, fp16 or bf16"),
]

# Of the command line itself: the options that it becomes, and what is said.
MEGATRON = [
    ("--tokenizer-type NullTokenizer --vocab-size 599", {"tokenizer": "none", "vocab-size": "600"}, "NullTokenizer has one id more than --vocab-size"),
    ("--tokenizer-type GPT2BPETokenizer --vocab-size 599", {"tokenizer": NONE, "vocab-size": "599"}, "is ignored"),
    ("--vocab-file tk/gpt2-vocab.json --merge-file tk/gpt2-merges.txt", {"tokenizer": "tk"}, "names the folder that has both files"),
    ("--eval-iters 10", {"eval-iters": "10", "eval-interval": "1000"}, "Megatron-LM's default, 1000"),
    ("--eval-iters 10 --eval-interval 5", {"eval-iters": "10", "eval-interval": "5"}, ""),
    ("--eval-iters 0", {"eval-iters": NONE, "eval-interval": NONE}, "--eval-iters 0 is no evaluation"),
    ("--eval-iters 0 --eval-interval 1000", {"eval-iters": NONE, "eval-interval": NONE}, "--eval-iters 0 is no evaluation"),
    ("--seq-length 64 --train-samples 160 --train-tokens 10240", {"train-samples": "160", "train-tokens": NONE}, "says the same as --train-samples"),
    ("--seq-length 64 --train-samples 160 --train-tokens 10000", {"train-samples": NONE, "train-tokens": "10000", "lr-decay-samples": "160"}, "ends before with --train-tokens"),
    ("--seq-length 64 --train-samples 160 --train-tokens 10000 --lr-decay-iters 7", {"lr-decay-iters": "7", "lr-decay-samples": NONE}, ""),
    ("--seq-length 64 --train-samples 160 --train-tokens 20480", {"train-samples": "160", "train-tokens": NONE}, "ends before with --train-samples"),
    ("--lr-decay-tokens 640010 --lr-warmup-tokens 64000 --seq-length=64", {"lr-decay-samples": "10000", "lr-warmup-samples": "1000"}, "of 64 tokens, rounded down"),
    ("--tokenizer-type NullTokenizer --vocab-size 599 --tiktoken-pattern v2", {"tokenizer": "none"}, "NullTokenizer does not read it"),
    ("--split '99,1,0' --mock-data", {"split": '"99,1,0"'}, ""), ("--split \"'99,1,0'\" --mock-data", {"split": '"99,1,0"'}, "its numbers alone"),
    ("--split 98/1/1 --mock-data", {"split": '"98,1,1"'}, "its numbers alone"),
    ("--mock-data", {"data-order": NONE}, ""),
    ("--data-path 1 a_text_document", {"data-order": "megatron-deepspeed"}, "blended as there"),
    ("--data-path a_text_document --data-order jotun", {"data-order": "jotun"}, ""),
    ("--lr-decay-tokens 640000", {}, "here it is --lr-decay-samples: these tokens / --seq-length"),
    ("--lr-warmup-tokens 64000", {}, "here it is --lr-warmup-samples: these tokens / --seq-length"),
]
# What does not fit together on any number of ranks; the file is written all the same.
UNFIT = [("--bf16 --fp16", "are two types; give one of them"), ("--hidden-size 64 --num-attention-heads 3", "does not divide --hidden-size 64"),
         ("--min-lr 1", "is above --lr")]


with run.work_folder() as folder:
    bad = []
    for key, value, option, wanted, says in TAKEN:
        code, given, said = config(folder, nested(key, value))
        if code or says not in said or given.get(option, NONE) != wanted:
            bad.append(f"{key} {value}: exit code {code}, --{option} {given.get(option)}, wanted {wanted!r} and {says!r}\n{said}")
    for key, value, says in REFUSED:
        code, given, said = config(folder, nested(key, value))
        if code != 1 or says not in said or given.get("num-layers") != "2":
            bad.append(f"{key} {value}: exit code {code}, wanted 1 and {says!r}\n{said}")
    code, given, said = config(folder, {"bf16": {"enabled": False}}, ARGUMENTS + " --bf16")
    if code != 1 or "bf16.enabled of DeepSpeed's JSON is false, and contradicts --bf16" not in said:
        bad.append(f"bf16 on the command line alone: {said}")
    code, given, said = config(folder, {"fp16": {"enabled": "auto", "hysteresis": 4}}, ARGUMENTS + " --fp16")
    if code or given.get("hysteresis") != "4":
        bad.append(f"--fp16 and auto: {given} {said}")
    for keys, arguments, refuses, says in (
            ({}, "--clip-grad 0.5", False, "gradient_clipping of DeepSpeed's JSON is not given, which means 0 there; --clip-grad 0.5 ("),
            ({"fp16": {"enabled": True, "loss_scale": 128}}, "--fp16", False, ""),
            ({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "linear"}}}, "--lr-warmup-iters 7", True,
             "scheduler.params.warmup_num_steps of DeepSpeed's JSON is not given, which means 1000 there, and contradicts --lr-warmup-iters 7 (")):
        code, given, said = config(folder, keys, ARGUMENTS + " " + arguments)
        option, value = (arguments.lstrip("-") + " true").split()[:2]
        if code != refuses or says not in said or given.get(option) != value or "initial-loss-scale" in given:
            bad.append(f"{keys} {arguments}: exit code {code}, {given} {said}")
    for text in '{"a": 1, "a": 2}', "[1]", "{", '{"train_batch_size": }':
        code, given, said = config(folder, text)
        if code != 1 or "the JSON of --deepspeed_config is no object" not in said:
            bad.append(f"{text}: exit code {code}, {said}")
    for arguments, erf in (("--no-bias-gelu-fusion", True), ("--disable-bias-linear", True), ("--disable-bias-linear --swiglu", False), ("", False),
                           ("--no-bias-gelu-fusion --swiglu", False), ("--disable-bias-linear --gelu-approximate tanh", False)):
        code, given, said = config(folder, {}, ARGUMENTS + " " + arguments)
        if code or (given.get("gelu-approximate") == "none") != erf:
            bad.append(f"{arguments}: {given.get('gelu-approximate')} {said}")
    for arguments, says in UNFIT:
        code, given, said = config(folder, {}, ARGUMENTS + " " + arguments)
        if code != 1 or says not in said or given.get("num-layers") != "2":
            bad.append(f"{arguments}: exit code {code}, wanted 1 and {says!r}: {said}")
    for arguments, wanted, says in MEGATRON:
        code, given, said = config(folder, {}, ARGUMENTS + " " + arguments)
        if code != ("not taken" in said) or says not in said or any(given.get(option, NONE) != value for option, value in wanted.items()):
            bad.append(f"{arguments}: exit code {code}, wanted {wanted} and {says!r}: {said}")
    if bad:
        sys.exit("\n".join(bad))
