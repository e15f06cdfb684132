"""Goldens of tests/optim/lr_test.c and tests/base/batch_schedule_test.c, in tests/golden/schedules: learning rates and weight decays by
megatron-core's OptimizerParamScheduler, batch sizes by its num_microbatches_calculator (PyPI, the version is in the files):

    schedules.py FOLDER

Each line is one case and one position. Its schedule by tokens (--step-batch-size-schedule) is newer than that package; it is written
again here from its description: the last entry whose threshold, in samples rounded down, is not above the consumed samples."""
import os
import random
import sys
from importlib.metadata import version

import torch
from megatron.core import num_microbatches_calculator as micros
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler


def scheduler(style, peak, low, init, warmup, decay, wsd, wsd_style, wd=(0.1, 0.1, 1000, "constant")):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    return OptimizerParamScheduler(optimizer, init, peak, low, warmup, decay, style, wd[0], wd[1], wd[2], wd[3], True, False,
                                   wsd_decay_steps=wsd, lr_wsd_decay_style=wsd_style)


def rates(out):
    draw = random.Random(3)
    for style in ("constant", "linear", "cosine", "inverse-square-root", "WSD"):
        for wsd_style in ("exponential", "linear", "cosine", "minus_sqrt") if style == "WSD" else ("linear",):
            for _ in range(4):
                decay = draw.choice((100, 1024, 366210937))
                warmup = draw.choice((0, 0.01 * decay, decay // 7))
                init, low, peak = draw.choice((0.0, 1e-6)), draw.choice((0.0, 1e-5)), draw.choice((3e-4, 1.2e-3))
                wsd = decay // draw.choice((3, 10))
                s = scheduler(style, peak, low, init, warmup, decay, wsd, wsd_style)
                places = {0, 1, int(warmup), int(warmup) + 1, decay - wsd, decay - wsd + 1, decay // 2, decay - 1, decay, decay + 1}
                for n in sorted(places | {draw.randrange(decay) for _ in range(4)}):
                    s.num_steps = n
                    lr = s.get_lr({"max_lr": peak, "min_lr": low})
                    out.write(f"lr {style} {wsd_style} {peak!r} {low!r} {init!r} {warmup!r} {decay} {wsd} {n} {lr!r}\n")


def decays(out):
    draw = random.Random(4)
    for style in ("constant", "linear", "cosine"):
        for _ in range(4):
            start, end, whole = draw.choice((0.0, 0.033)), 0.1, draw.choice((100, 99999))
            start = end if style == "constant" else start
            s = scheduler("linear", 1.0, 0.0, 0.0, 0, whole, None, None, (start, end, whole, style))
            for n in sorted({0, 1, whole // 3, whole - 1, whole, whole + 1} | {draw.randrange(whole) for _ in range(3)}):
                s.num_steps = n
                out.write(f"wd {style} {start!r} {end!r} {whole} {n} {s.get_wd()!r}\n")


def ramps(out):
    """Each size where it begins, and one sample before"""
    draw = random.Random(5)
    rounded = [(samples, rises) for samples in (100, 1001, 48828125) for rises in range(1, 200) if int(samples / (samples / rises)) != rises]
    for case in range(24):
        micro, dp = draw.choice((1, 2, 4)), draw.choice((1, 2, 3))
        decrease = case % 3 == 2
        unit = 1 if decrease else micro * dp
        start, more = unit * draw.randint(1, 4), unit * draw.randint(1, 4)
        if decrease:
            start += micro * dp
        samples, rises = draw.choice((7, 100, 1001, 48828125)), draw.randint(1, 9)
        if case % 3 == 0:                          # the last rise comes a sample late, by rounding
            samples, rises = draw.choice(rounded)
        last = start + more * rises
        c = micros.RampupBatchsizeNumMicroBatchesCalculator(last, micro, dp, decrease, 1, start, more, samples)
        places, seen = {0, samples, samples + 1, 10 * samples}, None
        each = samples / rises
        for k in (*range(min(rises + 1, 12)), rises):
            places |= {max(0, int(k * each) + d) for d in (-1, 0, 1, 2)}
        for n in sorted(places | {draw.randrange(samples + 1) for _ in range(5)}):
            c.update(n, False)
            size = c.get_current_running_global_batch_size()
            out.write(f"ramp {start} {more} {samples} {last} {micro * dp} {int(decrease)} {n} {size}\n")


def steps(out):
    draw = random.Random(6)
    factor = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
    for text in ("0:16", "0:16,2.4B:320", "0:4,1K:8,1.5K:12", "0:32,0.1M:16,3M:64", "0:8,1B:16,2T:32"):
        for sequence in (7, 1024, 4096):
            table = []
            for word in text.split(","):
                at, size = word.split(":")
                letter = at[-1] if at[-1] in "KMBT" else ""
                table.append((int(float(at[:-1] if letter else at) * factor[letter]) // sequence, int(size)))
            for n in sorted({max(0, at + d) for at, _ in table for d in (-1, 0, 1)} | {draw.randrange(10**7)}):
                out.write(f"steps {text} {sequence} {n} {[size for at, size in table if at <= n][-1]}\n")


for name, parts in (("rates", (rates, decays)), ("batches", (ramps, steps))):
    with open(os.path.join(sys.argv[1], name + ".txt"), "w") as out:
        out.write(f"# megatron-core {version('megatron-core')}\n")
        for part in parts:
            part(out)
