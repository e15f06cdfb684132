"""DeepSpeed's own classes beside `--deepspeed_config`: what its configuration says of the files of tests/cli/deepspeed that jotun takes (batch
sizes, clipping, ZeRO, loss scale, types), and the learning rate of every step of runs by its five schedulers.
    deepspeed_json.py     needs deepspeed (PyPI, installed with DS_BUILD_OPS=0) and torch; JOTUN is the program"""
import itertools
import json
import logging
import os
import re
import unittest.mock

os.environ["DS_ACCELERATOR"] = "cpu"

from comparison import TESTS, check, end, packages, run, temporary

deepspeed, torch = packages("deepspeed", "torch")
from deepspeed.runtime import config, lr_schedules
import deepspeed_files

logging.disable(logging.CRITICAL)
SHAPE = "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --vocab-size 8 --mock-data --device cpu --threads 1".split()
FIELDS = [("train_batch_size", "global-batch-size"), ("train_micro_batch_size_per_gpu", "micro-batch-size"), ("gradient_clipping", "clip-grad"),
          ("zero_optimization_stage", "zero-stage"), ("float16_config.enabled", "fp16"), ("bfloat16_config.enabled", "bf16")]
SCALING = [("loss_scale_window", "loss-scale-window"), ("hysteresis", "hysteresis"), ("min_loss_scale", "min-loss-scale")]


def theirs(path, ranks):
    with unittest.mock.patch.multiple("deepspeed.comm", is_initialized=lambda: True, get_world_size=lambda *_: ranks, get_rank=lambda *_: 0):
        return config.DeepSpeedConfig(path)


def number(text):
    return {"true": 1.0, "false": 0.0}.get(text) if text in ("true", "false") else float(text)


def compare_files():
    compared = 0
    for name, arguments, wanted, _ in deepspeed_files.FILES:
        path = os.path.join(TESTS, "cli", "deepspeed", name + ".json")
        if wanted is None or '"auto"' in open(path).read() or name == "activation_checkpointing":   # whose ranks DeepSpeed divides itself
            continue
        words = arguments.split()
        at = {word: int(words[i + 1]) for i, word in enumerate(words) if word in ("--ranks", "--tp", "--pp")}
        ds = theirs(path, at.get("--ranks", 1) // at.get("--tp", 1) // at.get("--pp", 1))
        done = run("config", "--deepspeed_config", path, *words, "--yaml")
        mine = dict(re.findall(r"^(?:# )?([\w-]+): (.*?)  # ", done.stdout, re.M))
        fields = FIELDS + [("float16_config." + field, option) for field, option in SCALING if ds.float16_config.enabled and not ds.float16_config.loss_scale]
        for field, option in fields:
            value = ds
            for part in field.split("."):
                value = getattr(value, part)
            check(name, f"--{option} {mine.get(option)}, {field} {value}", float(value) == number(mine[option]))
        if ds.float16_config.enabled:
            check(name, f"--initial-loss-scale {mine['initial-loss-scale']}", 2.0 ** ds.float16_config.initial_scale_power == float(mine["initial-loss-scale"]))
        steps = int(mine["global-batch-size"]) // int(mine["micro-batch-size"]) * at.get("--tp", 1) * at.get("--pp", 1) // at.get("--ranks", 1)
        check(name, f"{steps} micro-batches, gradient_accumulation_steps {ds.gradient_accumulation_steps}", steps == ds.gradient_accumulation_steps)
        compared += 1
    print(f"{compared} files")
    check("files", "too few", compared >= 14)


def schedules():
    for kind, low in itertools.product(("log", "linear", None), (0, 1e-4)):
        warmup = {"warmup_num_steps": 4, **({"warmup_type": kind} if kind else {})}
        yield "WarmupLR", {**warmup, "warmup_min_lr": low, "warmup_max_lr": 2e-3}
        yield "WarmupDecayLR", {**warmup, "warmup_min_lr": low, "total_num_steps": 10}
        yield "WarmupCosineLR", {**warmup, "warmup_min_ratio": low, "total_num_steps": 10, "cos_min_ratio": 0.1}
    yield "WarmupLR", {"warmup_num_steps": 1}
    yield "WarmupCosineLR", {"warmup_num_steps": 2, "total_num_steps": 7}
    yield "OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 3, "cycle_second_step_size": 6, "cycle_momentum": False}
    yield "OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 5, "cycle_momentum": False, "decay_lr_rate": 0.1}
    yield "LRRangeTest", {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 3, "lr_range_test_step_rate": 2}


def compare_schedules(folder):
    steps, count = 13, 0
    for name, params in schedules():
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=3e-3)
        scheduler, rates = getattr(lr_schedules, name)(optimizer, **params), []
        for _ in range(steps):
            rates.append(float(optimizer.param_groups[0]["lr"]))
            scheduler.step()
        path, metrics = os.path.join(folder, "ds.json"), os.path.join(folder, f"metrics{count}.json")
        with open(path, "w") as out:
            json.dump({"train_batch_size": 2, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
                       "scheduler": {"type": name, "params": params}}, out)
        done = run("train", *SHAPE, "--train-iters", steps, "--deepspeed_config", path, "--metrics", metrics)
        mine = [json.loads(line)["lr"] for line in open(metrics)] if done.returncode == 0 else []
        good = len(mine) == steps and all(abs(a - b) <= 1e-15 + 1e-12 * b for a, b in zip(mine, rates))
        check(name, f"{params}: {mine}, wanted {rates}{done.stderr if not mine else ''}", good)
        count += 1
    print(f"{count} schedules of {steps} steps")


compare_files()
with temporary() as work:
    compare_schedules(work)
end()
