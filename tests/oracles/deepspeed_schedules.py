#!/usr/bin/env python3
"""Makes tests/golden/schedules/deepspeed.txt for tests/optim/lr_test.c: learning rates by DeepSpeed's own lr_schedules.py (PyPI or a clone).

    deepspeed_schedules.py DeepSpeed/deepspeed/runtime/lr_schedules.py VERSION > deepspeed.txt

A line is one step of one scheduler: style, warm-up, peak, low, init, steps of the warm-up and until the end of the decay, the step, its rate. A
scheduler is advanced after each step, as DeepSpeed's engine does. OneCycle and LRRangeTest have the rule of Megatron-LM."""
import importlib.util
import logging
import sys
import types

import torch

logging.disable(logging.WARNING)
sys.modules["deepspeed"] = types.ModuleType("deepspeed")
sys.modules["deepspeed.utils"] = types.ModuleType("deepspeed.utils")
sys.modules["deepspeed.utils"].logger = logging.getLogger()
spec = importlib.util.spec_from_file_location("lr_schedules", sys.argv[1])
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)


def rates(kind, peak, steps, **params):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler = getattr(theirs, kind)(optimizer, **params)
    for step in range(steps):
        if step < 3 or step in (6, 7, 8, 9, 14) or step >= 19:
            yield step, float(optimizer.param_groups[0]["lr"])
        scheduler.step()


print(f"# DeepSpeed {sys.argv[2]}, torch {torch.__version__}")
for warmup in (1, 7):
    for kind in ("linear", "log"):
        for init in (0.0, 1e-5):
            both = dict(warmup_num_steps=warmup, warmup_type=kind)
            runs = [("deepspeed constant", 0.0, init, "WarmupLR", dict(both, warmup_min_lr=init, warmup_max_lr=3e-4)),
                    ("deepspeed linear", init, init, "WarmupDecayLR", dict(both, warmup_min_lr=init, warmup_max_lr=3e-4, total_num_steps=20)),
                    ("deepspeed cosine", 3e-5, init, "WarmupCosineLR",
                     dict(both, warmup_min_ratio=init / 3e-4, cos_min_ratio=0.1, total_num_steps=20))]
            for style, low, first, name, params in runs:
                for step, rate in rates(name, 3e-4, 23, **params):
                    print(f"lr {style} {kind} 0.0003 {low!r} {first!r} {warmup} 20 {step} {rate!r}")
for step, rate in rates("OneCycle", 1.0, 23, cycle_min_lr=1e-5, cycle_max_lr=3e-4, cycle_first_step_size=8, cycle_second_step_size=12,
                        cycle_momentum=False):
    print(f"lr megatron linear linear 0.0003 1e-05 1e-05 8 20 {step} {rate!r}")
for step, rate in rates("LRRangeTest", 1.0, 20, lr_range_test_min_lr=1e-5, lr_range_test_step_size=5, lr_range_test_step_rate=2.0):
    print(f"lr megatron constant linear {1e-5 * (1 + 2.0 * 20 / 5)!r} 0.0 1e-05 20 20 {step} {rate!r}")
