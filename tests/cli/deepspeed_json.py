"""What a script of Megatron-LM gives: arguments that need more than a name of their own; and DeepSpeed's JSON, where the script writes it:
each key is taken, ignored with a reason, or refused; "auto" is the command line's value, and what contradicts the command line is refused
with both values. Then the JSON as a file of --deepspeed_config: examples of all kinds, other sources beside it, and runs that are those of
Megatron-LM's options."""
import json
import os
import re
import sys

import run
from deepspeed_files import FILES

ARGUMENTS = "--micro-batch-size 2 --global-batch-size 16 --lr 0.001"
SIZES = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64"
NONE = object()


def config(folder, keys, arguments=ARGUMENTS):
    """(exit code, option -> value, what is said) of a script with this JSON; keys may be text as well."""
    path = os.path.join(folder, "run.sh")
    with open(path, "w") as out:
        out.write("cat <<EOT > ds.json\n" + (keys if isinstance(keys, str) else json.dumps(keys)) + "\nEOT\n"
                  f"deepspeed pretrain_gpt.py {SIZES} {arguments} --deepspeed --deepspeed_config ds.json\n")
    done = run.jotun("config", "--from-megatron", path, check=False, env={"PATH": os.environ["PATH"]})
    given = dict(re.findall(r"^([\w-]+): (.*?)  # ", done.stdout, re.M))
    return done.returncode, given, done.stderr + done.stdout[:done.stdout.find("\n\n") + 1]


def nested(path, value):
    for key in reversed(path.split(".") if path else []):
        value = {key: value}
    return value


CURRICULUM = {"enabled": True, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 64, "schedule_type": "fixed_linear",
              "schedule_config": {"total_curriculum_step": 100, "difficulty_step": 8}}
# Of one key: the option and its value, or NONE, and what is said.
TAKEN = [
    ("train_batch_size", 16, "global-batch-size", "16", ""), ("gradient_clipping", 0.5, "clip-grad", "0.5", ""),
    ("zero_optimization.stage", 2, "zero-stage", "2", ""), ("zero_optimization.mics_shard_size", -1, "hybrid-shard-size", NONE, "it is the default"),
    ("bf16.enabled", True, "bf16", "true", ""), ("bf16.enabled", False, "bf16", NONE, "false is the default"),
    ("optimizer", {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.1}}, "adam-beta2", "0.95", ""),
    ("optimizer", {"type": "FusedAdam", "params": {"lr": "auto", "betas": "auto"}}, "lr", "0.001", "optimizer.params.lr (--lr 0.001), optimizer.params.betas.0 (--adam-beta1 0.9), optimizer.params.betas.1 (--adam-beta2 0.999) of DeepSpeed's JSON are auto"),
    ("scheduler", {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 5, "total_num_steps": 50, "warmup_type": "linear"}}, "lr-decay-iters", "50", ""),
    ("fp16", {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}, "initial-loss-scale", "65536", "the loss scale is dynamic"),
    ("fp16", {"enabled": True, "loss_scale": 128.0}, "loss-scale", "128", ""),
    ("fp16", {"enabled": False, "loss_scale": 128}, "loss-scale", NONE, "fp16 of DeepSpeed's JSON is ignored: it"),
    ("fp16", {"enabled": "auto", "loss_scale": 128}, "loss-scale", NONE, "fp16 of DeepSpeed's JSON is ignored: it"),
    ("fp16", {"enabled": True}, "initial-loss-scale", "65536", "fp16.initial_scale_power (16) of DeepSpeed's JSON"),
    ("steps_per_print", 1, "clip-grad", "1", "gradient_clipping (1, and 0 before 0.19.4) of DeepSpeed's JSON is not given"),
    ("gradient_clipping", None, "clip-grad", "1", "gradient_clipping (1, and 0 before 0.19.4) of DeepSpeed's JSON is not given"),
    ("optimizer.type", "FusedAdam", "weight-decay", "0", "optimizer.params.weight_decay (0) of DeepSpeed's JSON are not given"),
    ("optimizer", {"type": "AdamW", "params": {"torch_adam": True}}, "weight-decay", "0.01", ""),
    ("optimizer.params.eps", 1e-6, "weight-decay", NONE, "optimizer.params of DeepSpeed's JSON is taken without optimizer.type"),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_type": "linear"}}, "lr-warmup-iters", "1000", ""),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}, "lr-warmup-iters", "0", ""),
    ("fp16", {"enabled": True, "loss_scale": 128}, "initial-loss-scale", NONE, ""),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}, "lr-warmup-style", "log", "scheduler.params.warmup_type (log) of DeepSpeed's JSON are not given"),
    ("scheduler", {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 5, "warmup_min_lr": 1e-4, "total_num_steps": 50}}, "min-lr", "0.0001", ""),
    ("scheduler", {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 5, "total_num_steps": 50}}, "min-lr", "1.0000000000000001e-07", ""),
    ("sequence_parallel_size", 2, "cp-comm-type", "a2a", ""), ("zero_optimization", True, "zero-stage", "1", ""), ("checkpoint.load_universal", False, "load", NONE, ""),
    ("optimizer", {"type": "Adam", "params": {"adam_w_mode": False, "weight_decay": 0.1}}, "coupled-weight-decay", "true", ""),
    ("optimizer", {"type": "AdamW", "params": {"adam_w_mode": False}}, "coupled-weight-decay", NONE, "AdamW is decoupled in any case"),
    ("optimizer", {"type": "SGD", "params": {"momentum": 0.9, "nesterov": True}}, "sgd-nesterov", "true", ""),
    ("optimizer", {"type": "Adafactor", "params": {"d": 2.0}}, "adafactor-clip-threshold", "2", ""),
    ("optimizer", {"type": "Lion", "params": {"betas": [0.9, 0.98]}}, "lion-beta2", "0.98", ""),
    ("wandb", {"enabled": True, "project": "p"}, "wandb-project", "p", ""),
    ("wandb", {"project": "p"}, "wandb-project", NONE, "wandb of DeepSpeed's JSON is ignored: it has no effect without enabled: true"),
    ("prescale_gradients", True, "grad-reduce-in-bf16", NONE, "gradients are summed first"), ("communication_data_type", "bf16", "grad-reduce-in-bf16", "true", ""),
    ("communication_data_type", "fp16", "grad-reduce-in-bf16", NONE, "gradients are summed in fp32, which is finer"),
    ("communication_data_type", "fp32", "grad-reduce-in-bf16", NONE, "gradients are summed in fp32"),
    ("zero_optimization.offload_optimizer.device", "cpu", "zero-stage", NONE, "stay in the memory of the device"),
    ("zero_optimization.reduce_bucket_size", "auto", "zero-stage", NONE, "does not change results"),
    ("curriculum_learning", CURRICULUM, "seq-length-warmup", '["8", "100", "8"]', ""), ("elastic_checkpoint", True, "lr", "0.001", "open under every layout"),
    ("zero_optimization", {"stage": 3, "stage3_param_persitence_threshold": 5}, "zero-stage", "3", "does not change results"),
    ("curriculum_learning", {**CURRICULUM, "enabled": False}, "seq-length-warmup", NONE, "curriculum_learning of DeepSpeed's JSON is ignored: it is off"),
    ("gradient_accumulation_steps", 4, "gradient-accumulation-steps", "4", ""),
    ("bf16.enabled", True, "zero-stage", "1", "with ZeRO stage 0 is its BF16_Optimizer"), ("bfloat16.enabled", True, "zero-stage", "1", "is its BF16_Optimizer"),
    ("", {"bf16": {"enabled": True}, "zero_optimization": {"stage": 0}}, "zero-stage", "1", "is its BF16_Optimizer"),
    ("", {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}, "zero-stage", "2", ""),
    ("", {"bf16": {"enabled": True}, "optimizer": {"type": "OneBitLamb", "params": {"lr": 0.001, "freeze_step": 1}}}, "zero-stage", NONE, ""), ("fp16.enabled", True, "zero-stage", NONE, ""),
    ("comms_config", {"verbose": False, "prof_all": True}, "lr", "0.001", "comms_config of DeepSpeed's JSON is ignored: DeepSpeed does not read it either"),
    ("monitor_config", {"csv_monitor": {"enabled": True}}, "metrics", NONE, "monitor_config of DeepSpeed's JSON is ignored: DeepSpeed does not read it either"),
    *((f"my_{n}", value, "lr", "0.001", f"my_{n} of DeepSpeed's JSON is ignored: it is not known, and its value asks for nothing")
      for n, value in enumerate((False, "", [], {}, {"enabled": False, "deep": 3}, {"a": {"b": False}}))),
    ("compression_training", {"weight_quantization": {"shared_parameters": {"enabled": False, "groups": 1}}}, "lr", "0.001", "it is off"),
    ("sparse_attention", None, "lr", "0.001", "null is as if it were not there"),
]
# What is refused: of the key, or beside the command line.
REFUSED = [
    ("train_batch_size", 32, "train_batch_size of DeepSpeed's JSON is 32, and contradicts --global-batch-size 16"),
    ("optimizer.params.lr", 3e-4, "optimizer.params.lr of DeepSpeed's JSON is 0.0003, and contradicts --lr 0.001"),
    ("optimizer.params.lrr", 3e-4, "optimizer.params.lrr of DeepSpeed's JSON is not known"), ("zero_optimisation.stage", 1, "is not known"),
    ("optimizer.type", "OneBitAdam", "optimizer.type of DeepSpeed's JSON is OneBitAdam, refused: gradients are not sent as signs; give AdamW"), ("optimizer.params.adam_w_mode", 2, "give true or false"),
    ("scheduler.type", "OneCycle", "needs cycle_min_lr and cycle_max_lr; give both"),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_min_ratio": 0.1}}, "warmup_min_ratio of DeepSpeed's JSON is no parameter of WarmupLR, which has warmup_min_lr"),
    ("scheduler", {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 0.001, "decay_lr_rate": 0.1, "decay_step_size": 2}}, "decay_lr_rate of DeepSpeed's JSON is refused"),
    ("checkpoint.load_universal", True, "--load DIR opens checkpoints"), ("zero_optimization.offload_param", False, "offload_param of DeepSpeed's JSON is a group of keys; give an object"), ("train_batch_size", {}, "has a value that is not understood"), ("nonsense", {"a": 1}, "nonsense of DeepSpeed's JSON is not known"),
    ("amp", {"enabled": True, "opt_level": "O1"}, "numbers are fp32, --bf16 or --fp16"), ("torch_autocast.enabled", True, "give bf16"), ("optimizer", {"type": "Muon", "params": {}}, "give lr"),
    ("zero_optimization.stage", "two", "is not a whole number"), ("zero_optimization.zero_quantized_weights", True, "give false"),
    ("fp16", {"enabled": True, "initial_scale_power": 1.5}, "initial_scale_power 1.5 is not a whole number; give a value from 0 to 99"),
    ("gradient_accumulation_steps", 3, "a batch of 16 is no multiple of 6 (micro-batch 2 x 3 steps)"), ("gradient_clipping", [1], "has a value that is not understood"),
    ("scheduler", {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 0.001, "decay_lr_rate": 0.1, "decay_step_size": 2, "cycle_first_stair_count": 3}}, "scheduler.params.cycle_momentum of DeepSpeed's JSON is refused"),
    ("scheduler", {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 0.001, "decay_lr_rate": 0.1, "decay_step_size": 2, "cycle_first_stair_count": 3}}, "stair_count of DeepSpeed's JSON is refused"),
    ("scheduler", {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 5}}, "scheduler.params of DeepSpeed's JSON needs total_num_steps"),
    ("scheduler", {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 5}}, "scheduler.params of DeepSpeed's JSON needs total_num_steps"),
    ("optimizer", {"type": "AdamW", "params": {"betas": [0.9]}}, "optimizer.params.betas of DeepSpeed's JSON needs two numbers"),
    ("my_group", {"a": {"b": True}}, "my_group of DeepSpeed's JSON is not known"), ("my_number", 0, "is not known"), ("sparse_attention", {}, "attention is dense"),
    ("gradient_clippin", False, "did you mean gradient_clipping?"),
    ("optimizer", {"type": "AdamW", "params": {"bias_correct": False}}, "is not known"),
    ("curriculum_learning", {**CURRICULUM, "curriculum_type": "vocab"}, "samples are not chosen by how hard they are"), ("curriculum_learning", {**CURRICULUM, "schedule_type": "fixed_root"}, "give fixed_linear"),
    ("curriculum_learning", {**CURRICULUM, "max_difficulty": 32}, "is not --seq-length 64, with which lengths end"), ("curriculum_learning", {**CURRICULUM, "min_difficulty": 4}, "cannot be taken: --seq-length-warmup begins with 4 tokens"),
    ("curriculum_learning", {**CURRICULUM, "schedule_config": {"total_curriculum_step": 9}}, "difficulty_step of DeepSpeed's JSON is no whole number"), ("curriculum_learning.enabled", True, "curriculum_type of DeepSpeed's JSON is not given"), ("communication_data_type", "int8", "give fp32, fp16 or bf16"),
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
    ("--split '99,1,0' --mock-data", {"split": '"99,1,0"'}, ""), ("--split \"'99,1,0'\" --mock-data", {"split": '"99,1,0"'}, "only its numbers"),
    ("--split 98/1/1 --mock-data", {"split": '"98,1,1"'}, "only its numbers"),
    ("--mock-data", {"data-order": NONE}, ""),
    ("--data-path 1 a_text_document", {"data-order": "megatron-forks"}, "blended as there"),
    ("--data-path a_text_document --data-order jotun", {"data-order": "jotun"}, ""),
]
# What does not fit together on any number of ranks; the file is written all the same.
UNFIT = [("--bf16 --fp16", "are two types; give one of them"), ("--hidden-size 64 --num-attention-heads 3", "does not divide --hidden-size 64"),
         ("--min-lr 1", "is above --lr")]


def written(done):
    """option -> value of what a YAML file has, with # before those that nobody gave"""
    return dict(re.findall(r"^((?:# )?[\w-]+): (.*?)  # ", done.stdout, re.M))


def check_end_of_decay(folder):
    """Without warmup_min_lr a decay ends at 0, which contradicts another --min-lr."""
    path = os.path.join(folder, "decay.json")
    json.dump({"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 5, "total_num_steps": 50}}}, open(path, "w"))
    for low, code in ("5e-4", 1), ("0", 0):
        done = run.jotun("config", "--deepspeed_config", path, "--min-lr", low, check=False)
        if done.returncode != code or (code and "contradicts --min-lr 0.0005" not in done.stderr):
            sys.exit(f"WarmupDecayLR beside --min-lr {low}: exit code {done.returncode}\n{done.stderr}")


def check_together(folder):
    """What jotun train refuses for values of several keys, jotun config does; and a byte order mark is none of the JSON."""
    path = os.path.join(folder, "together.json")
    for params, stage, code, says in (({"freeze_step": 10}, 1, 1, "sends signs of the momenta"), ({"max_coeff": 0.001}, 0, 1, "lamb-min-coeff"), ({}, 0, 0, "")):
        with open(path, "w", encoding="utf-8-sig") as out:
            json.dump({"optimizer": {"type": "OneBitLamb", "params": {"lr": 1e-3, **params}}, "zero_optimization": {"stage": stage}}, out)
        done = run.jotun("config", "--deepspeed_config", path, "--ranks", 2, check=False)
        if done.returncode != code or says not in done.stderr:
            sys.exit(f"{params}, ZeRO {stage}: exit code {done.returncode}\n{done.stderr}")


def check_files():
    """Of each file the options that it becomes, and no other, or a refusal."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deepspeed")
    for name, arguments, wanted, says in FILES:
        done = run.jotun("config", "--deepspeed_config", name + ".json", *arguments.split(), "--yaml", check=False, cwd=here)
        given = {option: value for option, value in written(done).items() if option in (wanted or {}) or not option.startswith("#")}
        typed = {word[2:] for word in arguments.replace("--tp ", "--tensor-model-parallel-size ").replace("--pp ", "--pipeline-model-parallel-size ").split()
                 if word.startswith("--")}
        given = {option: value for option, value in given.items() if option not in typed}
        if done.returncode != (wanted is None) or (wanted is not None and given != wanted) or not all(text in done.stderr for text in says):
            yield f"{name}.json {arguments}: exit code {done.returncode}, wanted {wanted} and {says}\n{given}\n{done.stderr}"
    unread = set(os.listdir(here)) - {name + ".json" for name, *_ in FILES}
    if unread or len({name for name, *_ in FILES}) < 30:
        yield f"files of {here} that no row has: {unread}"


SHAPE = "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --mock-data --device cpu --seed 7".split()


def losses(folder, words, **more):
    path = os.path.join(folder, "metrics.json")
    if os.path.exists(path):
        os.remove(path)
    run.jotun("train", *SHAPE, *words, "--metrics", path, **more)
    return [(row["loss"], row["lr"], row["grad_norm"]) for row in map(json.loads, open(path))]


def check_sources(folder):
    """What the environment, a YAML file and the option's other names say."""
    path, yaml = os.path.join(folder, "ds.json"), os.path.join(folder, "run.yaml")
    with open(path, "w") as out:
        out.write('{"train_batch_size": 8, "gradient_clipping": 0.5, "optimizer": {"type": "AdamW", "params": {"lr": 0.002, "weight_decay": 0.1}}}')
    with open(yaml, "w") as out:
        out.write("lr: 0.004\nclip-grad: 0.5\n")
    for words, environment, code, says in (
            ([], {"JOTUN_LR": "0.003"}, 1, "optimizer.params.lr of DeepSpeed's JSON is 0.002, and contradicts JOTUN_LR=0.003; make them equal"),
            (["--config", yaml], {}, 1, f"optimizer.params.lr of DeepSpeed's JSON is 0.002, and contradicts --lr 0.004 ({yaml}:1)"),
            (["--model", "gpt2-124m"], {"JOTUN_LR": "0.002"}, 0, ""), (["--global-batch-size", "9"], {}, 1, "contradicts --global-batch-size 9")):
        done = run.jotun("config", "--deepspeed-config", path, *words, check=False, env={**os.environ, **environment})
        if done.returncode != code or says not in done.stderr:
            yield f"{words} {environment}: exit code {done.returncode}, wanted {code} and {says}: {done.stderr}"
    for words, environment in (["--deepspeed", path], {}), (["--deepspeed", "--deepspeed_config=" + path], {}), ([], {"JOTUN_DEEPSPEED_CONFIG": path}):
        done = run.jotun("config", *words, "--yaml", env={**os.environ, **environment})
        if written(done).get("lr") != "0.002":
            yield f"{words} {environment}: {done.stderr}"
    done = run.jotun("config", "--deepspeed-config", path + "x", check=False)
    if done.returncode != 1 or "ds.jsonx: " not in done.stderr:
        yield f"a file that is not there: {done.stderr}"
    script = os.path.join(folder, "named.sh")
    with open(script, "w") as out:
        out.write(f"torchrun pretrain_gpt.py {SIZES} --micro-batch-size 1 --deepspeed --deepspeed_config ds.json\n")
    done = run.jotun("config", "--from-megatron", script)
    if written(done).get("lr") != "0.002" or "deepspeed-config" in written(done):
        yield f"a JSON beside a script: {done.stdout} {done.stderr}"
    os.remove(path)
    done = run.jotun("config", "--from-megatron", script, check=False)
    if done.returncode != 1 or "ds.json is neither written by the script nor a file here" not in done.stderr:
        yield f"a script whose JSON is not there: {done.stderr}"


def check_runs(folder):
    """Losses, learning rates and norms of a run by a JSON are those of the options that it means, on threads and under MPI."""
    path = os.path.join(folder, "ds.json")
    with open(path, "w") as out:
        json.dump({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "gradient_clipping": 0.5, "zero_optimization": {"stage": 1},
                   "bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.1}},
                   "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 2, "warmup_max_lr": 0.01, "warmup_type": "linear", "total_num_steps": 5}}}, out)
    flags = ("--global-batch-size 8 --micro-batch-size 1 --clip-grad 0.5 --zero-stage 1 --bf16 --optimizer adam --lr 0.01 --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-6 "
             "--weight-decay 0.1 --lr-decay-style linear --lr-warmup-iters 2 --lr-decay-iters 5 --lr-schedule-rule deepspeed").split()
    mine = losses(folder, ["--train-iters", "7", "--ranks", "2", *flags])
    read = losses(folder, ["--train-iters", "7", "--ranks", "2", "--deepspeed_config", path])
    if mine != read or len(mine) != 7:
        yield f"losses of the JSON {read}, of the options {mine}"
    rates = [0, 0, 0.005, 0.01, 0.01 * 2 / 3, 0.01 / 3, 0]                     # DeepSpeed's, whose second step is a step late
    if not all(abs(row[1] - rate) < 1e-12 for row, rate in zip(mine, rates)):
        yield f"learning rates {[row[1] for row in mine]}, wanted {rates}"
    for name, launcher in list(run.launchers().items())[:1]:
        launched = losses(folder, ["--train-iters", "7", "--deepspeed_config", path], launcher=launcher + ["2"])
        if launched != mine:
            yield f"under {name} {launched}, wanted {mine}"


with run.work_folder() as folder:
    check_end_of_decay(folder)
    check_together(folder)
    bad = [*check_files(), *check_sources(folder), *check_runs(folder)]
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
            ({}, "--clip-grad 0.5", False, "gradient_clipping of DeepSpeed's JSON is not given, which means 1 there, and 0 before 0.19.4; --clip-grad 0.5 ("),
            ({"fp16": {"enabled": True, "loss_scale": 128}}, "--fp16", False, ""),
            ({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "linear"}}}, "--lr-warmup-iters 7", True,
             "scheduler.params.warmup_num_steps of DeepSpeed's JSON is not given, which means 1000 there, and contradicts --lr-warmup-iters 7 (")):
        code, given, said = config(folder, keys, ARGUMENTS + " " + arguments)
        option, value = (arguments.lstrip("-") + " true").split()[:2]
        if code != refuses or says not in said or given.get(option) != value or "initial-loss-scale" in given:
            bad.append(f"{keys} {arguments}: exit code {code}, {given} {said}")
    for text, says in (('{"a": 1,\n "a": 2}', "is no JSON at line 2, column 4: duplicate object key"), ("[1]", "is no object; give"),
                       ("{", "is no JSON at line 2, column 0: string or '}' expected near end of file"), ('{"train_batch_size": }', "is no JSON at line 1, column 22")):
        code, given, said = config(folder, text)
        if code != 1 or "the JSON of --deepspeed_config " + says not in said:
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
