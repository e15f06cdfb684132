"""Runs on made tokens (--mock-data) whose batch grows: what they say of their arithmetic, steps that are left out, where they end, and
the same bits after a resume in the middle of the ramp, under another layout to rounding; evaluation alone."""
import json
import math
import os
import sys
import tempfile

import run

MODEL = ("--mock-data --vocab-size 100 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --lr 1e-3 --lr-decay-style WSD "
         "--lr-wsd-decay-samples 40 --lr-warmup-fraction 0.1 --device ref --threads 1 --log-interval 1000").split()
RAMP = "--train-samples 105 --global-batch-size 16 --rampup-batch-size 4 4 30".split()
# 4 samples up to 10 consumed, 8 up to 20, 12 up to 30, then 16: 4, 4, 4, 8, 12, 16 ...; the last whole step ends at 96
CONSUMED = [4, 8, 12, 20, 32, 48, 64, 80, 96]


def rows(path):
    return [json.loads(line) for line in open(path)]


def check(what, good):
    if not good:
        sys.exit(what)


def train(folder, name, *more, out=None):
    metrics = os.path.join(folder, name + ".jsonl")
    words = ["train", *MODEL, *RAMP, "--save", os.path.join(folder, out or name), "--metrics", metrics, *more]
    return run.jotun(*words).stderr, rows(metrics)


def arithmetic(folder):
    said, lines = train(folder, "whole")
    check("tokens of the steps: " + str([r["tokens"] for r in lines]), [r["tokens"] for r in lines] == [32 * c for c in CONSUMED])
    for line in ("a step has 4, later 16 samples = --micro-batch-size 1 x 1 data-parallel rank x 4, later 16 micro-batches (gradient "
                 "accumulation); 512 tokens", "the run has 9 steps: 96 samples, 3072 tokens, "):
        check(f"not said: {line}\n{said}", line in said)
    check("a step of the warm-up has another rate", lines[0]["lr"] == 0 and abs(lines[1]["lr"] - 1e-3 * 4 / 10.5) < 1e-15)
    check("the rate has another plateau", lines[4]["lr"] == 1e-3)
    return lines


def accumulation():
    """Data-parallel ranks are ranks / (tp x pp), and gradients are accumulated where the batch is larger than micro-batch x these."""
    small = "--mock-data --vocab-size 20 --num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 4 --threads 1 --train-iters 1 --lr 1e-3".split()
    for words, says in (
            ("--ranks 4 --micro-batch-size 16 --global-batch-size 2048",
             "a step has 2048 samples = --micro-batch-size 16 x 4 data-parallel ranks x 32 micro-batches (gradient accumulation); 8192 tokens"),
            ("--ranks 4 --micro-batch-size 16", "a step has 64 samples = --micro-batch-size 16 x 4 data-parallel ranks x 1 micro-batch; 256 tokens"),
            ("--ranks 8 --tp 2 --pp 2 --micro-batch-size 2 --global-batch-size 16",
             "--micro-batch-size 2 x 2 data-parallel ranks (8 ranks / (tp 2 x pp 2)) x 4 micro-batches (gradient accumulation); 64 tokens"),
            ("--ranks 4 --cp 2 --micro-batch-size 2", "--micro-batch-size 2 x 2 data-parallel ranks (4 ranks / (tp 1 x pp 1 x cp 2)) x 1 micro-batch; 16 tokens")):
        said = run.jotun("train", *small, *words.split()).stderr
        check(f"not said: {says}\n{said}", says in said)
    for words, says in (
            ("--ranks 8 --tp 2 --pp 2 --micro-batch-size 2 --global-batch-size 10",
             "is not a multiple of 4 (--micro-batch-size 2 x 2 data-parallel ranks, 8 ranks / (tp 2 x pp 2 x cp 1)); give 8 or 12"),
            ("--ranks 6 --tp 2 --pp 2", "--ranks 6 is not a multiple of 4 (--tp 2 x --pp 2; data-parallel ranks are ranks / (tp x pp x cp)); give 4 or 8"),
            ("--num-layers 96 --hidden-size 16384 --num-attention-heads 128 --seq-length 2048 --model megatron-310b", "--model megatron-310b is laid out for 1920 ranks (tp 8 x pp 16 x dp 15), and this is one process with")):
        done = run.jotun("train", *small, *words.split(), check=False)
        check(f"{words} is not refused by: {says}\n{done.stderr}", done.returncode == 1 and says in done.stderr)


def resumed(folder, whole):
    """Stopped after each of some steps, and continued under the same layout to the bit, under another one to rounding."""
    for stop in 2, 4, 5:
        for number, layout in enumerate(("", "--ranks 4 --pp 2 --zero-stage 1", "--ranks 2 --tp 2 --sp")):
            name = f"stop{stop}-{number}"
            train(folder, name, "--exit-interval", stop, "--save-interval", stop)
            said, rest = train(folder, name + "-rest", "--load", os.path.join(folder, name), *layout.split())
            check("steps after a resume: " + str([r["step"] for r in rest]), [r["step"] for r in rest] == list(range(stop + 1, 10)))
            for a, b in zip(rest, whole[stop:]):
                good = a["loss"] == b["loss"] if number == 0 else abs(a["loss"] - b["loss"]) <= 1e-12
                check(f"step {a['step']} resumed after {stop} with {layout}: loss {a['loss']}, not {b['loss']}", good and a["lr"] == b["lr"])
            check("what is left is not said: " + said, f"; {9 - stop} steps and {96 - CONSUMED[stop - 1]} samples are left" in said)


def left_out(folder, whole):
    said, lines = train(folder, "left", "--iterations-to-skip", 2, 5)
    check("steps left out: " + str([r["step"] for r in lines]), [r["step"] for r in lines] == [1, 3, 4, 6, 7, 8, 9])
    check("tokens with steps left out", [r["tokens"] for r in lines] == [32 * CONSUMED[r["step"] - 1] for r in lines])
    check("it is not said: " + said, "step 5 is left out, with its 12 samples" in said)
    check("a step that is left out advances the learning rate", abs(lines[1]["lr"] - 1e-3 * 4 / 10.5) < 1e-15)
    check("the first step is another", lines[0]["loss"] == whole[0]["loss"])
    checkpoint = run.jotun("checkpoint", "info", os.path.join(folder, "left")).stdout
    check("the position of a run with steps left out: " + checkpoint, "96" in checkpoint)


def beyond_the_decay(folder):
    """Steps whose learning rate is 0 are named at the start, and only those."""
    words = ["train", *MODEL[:MODEL.index("--lr-decay-style")], *"--device ref --threads 1 --log-interval 1000 --global-batch-size 2 --load".split()]
    save = os.path.join(folder, "decayed")
    words += [save, "--save", save]
    line = "the learning rate is 0 from sample 8 on, where its decay ends, and the run ends after sample 16: the steps behind the decay change nothing; "
    cure = "by --override-opt-param-scheduler in the place of --use-checkpoint-opt-param-scheduler"
    for samples, more, named, cured in ((8, [], False, False), (16, ["--use-checkpoint-opt-param-scheduler"], True, True), (16, [], False, False),
                                        (16, ["--override-opt-param-scheduler", "--lr-decay-samples", 8, "--min-lr", 1e-5], False, False)):
        metrics = os.path.join(folder, "decayed.jsonl")
        said = run.jotun(*words, "--train-samples", samples, *more, "--metrics", metrics, "--exit-interval", 8 if samples == 8 else 5).stderr
        check(f"{samples} {more}: {said}", (line in said) == named and (cure in said) == cured)
        rate = rows(metrics)[-1]["lr"]
        check(f"{samples} {more}: the last rate is {rate}", (rate == 0) == named)
        if samples == 16:
            os.rename(os.path.join(save, "step_00000005"), os.path.join(folder, f"away{len(os.listdir(folder))}"))
    words = [w for w in words[:-4]]
    said = run.jotun(*words, "--train-samples", 16, "--lr-decay-samples", 8).stderr
    check("of a new run: " + said, line in said and cure not in said)


def evaluation(folder):
    name = os.path.join(folder, "whole")
    words = ["train", *MODEL, *RAMP, "--load", name, "--skip-train", "--eval-interval", 3, "--eval-iters", 2]
    said = run.jotun(*words).stderr
    check("--skip-train: " + said, "step 9: validation loss" in said and "step 10" not in said)
    words = ["train", *MODEL, *RAMP, "--skip-train", "--eval-interval", 1, "--eval-iters", 1]           # new weights, before the first step
    said = run.jotun(*words).stderr
    check("--skip-train of a new run: " + said, "step 0: validation loss" in said)
    words = ["train", *MODEL, "--train-samples", 60, "--global-batch-size", 30, "--eval-interval", 1, "--eval-iters", 1]
    for split, none in ("100,0,0", True), ("1,0,1", True), ("7", True), ("1,0.0,0", True), ("9,1,0", False):
        said = run.jotun(*words, "--split", split).stderr
        check(f"--split {split}: {said}", (f"--split {split} has no validation set: nothing is evaluated" in said) == none and ("validation loss" in said) != none)
    for more in ["--keep-best", "--save", os.path.join(folder, "best")], ["--early-stopping-patience", 1, "--save", os.path.join(folder, "best")], ["--skip-train"]:
        done = run.jotun(*words, "--split", "1,0,0", *more, check=False)
        check(f"{more}: {done.stderr}", done.returncode == 1 and "the valid part under --split 1,0,0 has 0 tokens" in done.stderr)
    said, lines = train(folder, "late", "--eval-interval", 3, "--eval-iters", 1, "--start-eval-at-iter", 4)
    evaluated = [r["step"] for r in lines if "split" in r]
    check("--start-eval-at-iter 4: evaluated after " + str(evaluated), evaluated == [6, 9])


def rate(style, done, warmup, decay, peak=1e-3, low=1e-4, wsd=0):
    """Megatron-LM's learning rate after so many samples: its formula, not jotun's code."""
    if warmup and done <= warmup:
        return peak * done / warmup
    if style == "constant":
        return peak
    if done > decay:
        return low
    if style == "inverse-square-root":
        return max(low, peak * max(warmup, 1) ** 0.5 / done ** 0.5)
    part = (done - warmup) / (decay - warmup)
    if style == "WSD":
        begin = decay - wsd
        left = 1 if done <= begin else 1 - (done - begin) / wsd
    else:
        left = 1 - part if style == "linear" else (math.cos(math.pi * part) + 1) / 2
    return low + left * (peak - low)


def other_batch(folder):
    """10 steps of 4 samples, resumed after 4 of them with steps of 8 and of 2: refused where a rate of the rest of the run would be
    another one, and both rates are those of the formula; the ways out keep the rates or take the new ones."""
    model = ("train --mock-data --vocab-size 100 --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --lr 1e-3 --threads 1 "
             "--log-interval 1000").split()
    cases = 0
    for style in "cosine", "linear", "WSD", "inverse-square-root", "constant":
        for warmup in 0, 2, 6:
            decay = 0 if style == "constant" else 9
            wsd = 3 if style == "WSD" else 0
            if warmup + wsd > decay and decay:
                continue
            name = os.path.join(folder, f"batch-{style}-{warmup}")
            words = [*model, "--lr-decay-style", style, *(["--lr-wsd-decay-style", "linear"] if wsd else [])]
            steps = ["--lr-warmup-iters", warmup] + (["--lr-decay-iters", decay, "--min-lr", 1e-4] if decay else []) + \
                (["--lr-wsd-decay-iters", wsd] if wsd else [])
            run.jotun(*words, *steps, "--global-batch-size", 4, "--train-iters", 10, "--save", name, "--exit-interval", 4)
            for batch in 8, 2:
                resumed = [*words, *steps, "--global-batch-size", batch, "--train-iters", 10, "--load", name]
                def at(done, unit):
                    return rate(style, done, warmup * unit, decay * unit, wsd=wsd * unit)
                points = range(16, 200)
                first = next((n for n in points if abs(at(n, batch) - at(n, 4)) > 1e-12), None)
                done = run.jotun(*resumed, check=False)
                cases += 1
                if first is None:
                    check(f"{style} {warmup} {batch}: refused without a reason: {done.stderr}", done.returncode == 0)
                    continue
                when = "of the next step" if first == 16 else f"{first - 16} samples later"
                says = f"the learning rate {when} would be {at(first, batch):.6g} in place of {at(first, 4):.6g}; "
                check(f"{style} {warmup} {batch}: wanted \"{says}\" in {done.stderr}", done.returncode == 1 and says in done.stderr)
                metrics = name + ".jsonl"
                lengths = done.stderr.split("schedule, which is ")[1].split(";")[0].split()
                kept = [w for k, w in enumerate(resumed) if w not in STEPS and resumed[k - 1] not in STEPS]
                rest = [w for length in (("--lr-warmup-iters", "--lr-warmup-samples", warmup), ("--lr-decay-iters", "--lr-decay-samples", decay),
                                         ("--lr-wsd-decay-iters", "--lr-wsd-decay-samples", wsd)) if length[1] not in lengths and length[2]
                        for w in (length[0], length[2])]
                for more, unit in ((["--use-checkpoint-opt-param-scheduler"], 4), (["--override-opt-param-scheduler"], batch), (None, 4)):
                    if os.path.exists(metrics):
                        os.remove(metrics)
                    said = run.jotun(*(resumed + more if more else kept + lengths + rest), "--metrics", metrics).stderr
                    rates = [r["lr"] for r in rows(metrics)]
                    good = [at(16 + batch * k, unit) for k in range(6)]
                    check(f"{style} {warmup} {batch} {more or lengths}: {rates}, not {good}", all(abs(a - b) <= 1e-12 for a, b in zip(rates, good)) and len(rates) == 6)
                    line = f"the learning rate {when} is {at(first, batch):.6g}, and {at(first, 4):.6g} by the checkpoint's schedule"
                    check(f"{style} {warmup} {batch} {more}: {said}", (line in said) == (unit == batch))
    check(f"{cases} cases", cases == 30)


STEPS = "--lr-warmup-iters", "--lr-decay-iters", "--lr-wsd-decay-iters"


def other_meanings(folder):
    """What else changes the schedule while its options stay: ranks without --global-batch-size, --seq-length beside --train-tokens, the length of
    the run for weight decay; and a schedule that counts steps, which a batch size does not change."""
    model = "train --mock-data --vocab-size 100 --num-layers 1 --hidden-size 16 --num-attention-heads 2 --position-embedding-type rope --lr 1e-3 --threads 1 --log-interval 1000".split()
    name = os.path.join(folder, "means")
    short = [*model, "--seq-length", 16]
    def resumed(code, says, *words, base=short):
        done = run.jotun(*base, *words, "--load", name, check=False)
        check(f"{words}: wanted {code} and \"{says}\": {done.stderr}", done.returncode == code and says in done.stderr)
        return done.stderr
    run.jotun(*short, "--train-iters", 10, "--save", name, "--exit-interval", 4)
    resumed(1, "--global-batch-size 2 (derived from --micro-batch-size and the data-parallel ranks), but", "--train-iters", 10, "--ranks", 2)
    resumed(1, "schedule, which is --lr-decay-samples 10; ", "--train-iters", 10, "--ranks", 2)
    resumed(0, "", "--train-iters", 10, "--ranks", 2, "--lr-decay-samples", 10)
    resumed(0, "the learning rate of the next step is 0.0008, and 0.0006 by the checkpoint's schedule", "--train-iters", 20)
    resumed(0, "--lr-decay-iters 10 keeps that", "--train-iters", 20)
    name += "t"
    run.jotun(*short, "--train-tokens", 160, "--save", name, "--exit-interval", 4)
    resumed(1, f"--seq-length 8, but {name}/step_00000004 was trained with 16", "--train-tokens", 160, base=[*model, "--seq-length", 8])
    name += "d"
    decay = "--weight-decay-incr-style linear --start-weight-decay 0 --end-weight-decay 0.1 --lr-decay-style constant".split()
    short += decay
    run.jotun(*short, "--global-batch-size", 2, "--train-iters", 10, "--save", name, "--exit-interval", 4)
    resumed(1, "the weight decay of the next step would be 0.02 in place of 0.04; --use-checkpoint-opt-param-scheduler keeps the checkpoint's schedule, which is "
            "--weight-decay-incr-samples 20; ", "--global-batch-size", 4, "--train-iters", 10)
    resumed(0, "--weight-decay-incr-samples 40 (derived from --train-iters and --global-batch-size), was 20 (--weight-decay-incr-samples 20 keeps that)",
            "--global-batch-size", 2, "--train-iters", 20)
    said = resumed(0, "", "--global-batch-size", 4, "--train-iters", 20, "--use-checkpoint-opt-param-scheduler")
    check("a schedule that is kept is another: " + said, "by the checkpoint's schedule" not in said)
    name += "u"
    counts = [*model, *"--seq-length 16 --lr-schedule-unit steps --lr-warmup-iters 2 --train-iters 10".split()]
    run.jotun(*counts, "--step-batch-size-schedule", "0:2 64:4", "--save", name, "--exit-interval", 4)
    metrics = name + ".jsonl"
    resumed(0, "", "--step-batch-size-schedule", "0:2 64:8", "--metrics", metrics, base=counts)
    rates = [r["lr"] for r in rows(metrics)]
    check(f"a schedule of steps with another batch: {rates}", all(abs(a - 1e-3 * (10 - k) / 8) < 1e-15 for a, k in zip(rates, range(4, 10))) and len(rates) == 6)


with tempfile.TemporaryDirectory() as folder:
    other_batch(folder)
    other_meanings(folder)
    accumulation()
    whole = arithmetic(folder)
    resumed(folder, whole)
    left_out(folder, whole)
    evaluation(folder)
    beyond_the_decay(folder)
