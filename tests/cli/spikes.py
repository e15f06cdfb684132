"""The guard against loss spikes: which steps are skipped follows from the losses alone, under every layout, over kills and resumes; a
rewind goes back to the last checkpoint and on with other samples. A step that is not finite is run again, and the operation named."""
import json
import math
import os
import random as random_numbers
import re
import sys

import run
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "convert"))
import small_formats                                                                  # noqa: E402
import torch_write as tw                                                              # noqa: E402

STEPS = 60 if os.environ.get("JOTUN_FULL") else 40
# Steps so large that losses jump; they also make rounding grow, so that layouts are compared within 1e-6.
SPIKES = ["--spike-window", 4, "--spike-factor", 1.02, "--device", "ref", "--save-interval", 5, "--lr", 3e-2, "--lr-decay-style", "constant",
          "--num-layers", 2, "--train-iters", STEPS]


def wanted(good, what, told=""):
    if not good:
        sys.exit(f"{what}\n{told}")


def rows(path):
    return [row for row in map(json.loads, open(path)) if "loss" in row]


def expected(losses, window, factor, deviations=math.inf):
    """The steps that are spikes, by the formula of docs/howto/resume.md"""
    count, mean, variance, spikes = 0, 0.0, 0.0, []
    for step, loss in losses:
        if count >= window and loss > min(factor * mean, mean + (deviations * math.sqrt(variance) if deviations < math.inf else math.inf)):
            spikes.append(step)
            continue
        count += 1
        a, off = 1 / min(count, window), loss - mean
        mean += a * off
        variance = (1 - a) * (variance + a * off * off)
    return spikes


def train(data, out, *more, fault=None):
    words = ["train", "--data-path", data, *run.MODEL, *SPIKES, "--threads", 1, "--save", out, "--load", out, "--metrics", out + ".jsonl", *more]
    return run.jotun(*words, check=False, env=dict(os.environ, JOTUN_FAULT=fault) if fault else None)


def under_mpi(data, folder):
    """Rewinds of two ranks have the bits of threads under both MPIs."""
    last = f"step_{STEPS:08d}"
    words = ["train", "--data-path", data, *run.MODEL, *SPIKES, "--threads", 1, "--spike-action", "rewind", "--zero-stage", 2, "--keep-best",
             "--eval-interval", 20, "--eval-iters", 1, "--split", "90,10,0"]
    threads = os.path.join(folder, "as-threads")
    run.jotun(*words, "--ranks", 2, "--save", threads)
    for mpi, launcher in run.launchers().items():
        out = os.path.join(folder, mpi.replace(" ", ""))
        told = run.jotun(*words, "--save", out, launcher=[*launcher, "2"]).stderr
        wanted(run.digest(os.path.join(threads, last)) == run.digest(os.path.join(out, last)), f"{mpi}: other weights", told)
        wanted(os.readlink(os.path.join(threads, "best")) == os.readlink(os.path.join(out, "best")), f"{mpi}: another best checkpoint", told)


def skips(data, folder):
    one = os.path.join(folder, "one")
    told = train(data, one).stderr
    all_rows = rows(one + ".jsonl")
    skipped = [row["step"] for row in all_rows if row.get("skipped")]
    wanted(skipped == expected([(r["step"], r["loss"]) for r in all_rows], 4, 1.02) and 2 <= len(skipped) <= 30, f"skipped {skipped}", told)
    wanted(told.count("is a spike") == len(skipped), "not all spikes have a line", told)
    manifest = json.load(open(os.path.join(one, f"step_{STEPS:08d}", "manifest.json")))
    wanted(manifest["updates"] == STEPS - len(skipped) and manifest["run"]["losses"]["count"] == STEPS - len(skipped), f"{manifest['run']}")
    killed = os.path.join(folder, "killed")
    while train(data, killed, fault="step:17:kill").returncode != 0:
        pass
    wanted(run.digest(os.path.join(one, f"step_{STEPS:08d}")) == run.digest(os.path.join(killed, f"step_{STEPS:08d}")), "kills change the weights")
    for n, layout in enumerate((["--ranks", 2, "--zero-stage", 2], ["--ranks", 4, "--tp", 2, "--pp", 2])):
        out = os.path.join(folder, f"other{n}")
        train(data, out, *layout)
        for a, b in zip(all_rows, rows(out + ".jsonl")):
            wanted(a.get("skipped") == b.get("skipped") and abs(a["loss"] - b["loss"]) < 1e-6, f"{layout}: step {a['step']}: {a} {b}")


def rewinds(data, folder):
    more = ["--spike-action", "rewind"]
    one = os.path.join(folder, "rewound")
    done = train(data, one, *more)
    back = [(int(a), int(b)) for a, b in re.findall(r"step (\d+): back to the checkpoint of step (\d+); the samples", done.stderr)]
    wanted(done.returncode == 0 and back and all(b == (a - 1) // 5 * 5 for a, b in back), f"back {back}", done.stderr)
    manifest = json.load(open(os.path.join(one, f"step_{STEPS:08d}", "manifest.json")))
    left_out = sum(a - b for a, b in back)
    wanted(manifest["samples"] == 8 * (STEPS + left_out) and manifest["updates"] == STEPS, f"samples {manifest['samples']}, updates {manifest['updates']}, "
           f"back {back}")
    steps = [row["step"] for row in rows(one + ".jsonl")]
    wanted(steps == list(range(1, STEPS + 1)), f"each step has one record: {steps}")
    killed = os.path.join(folder, "rewound-killed")
    while train(data, killed, *more, fault="step:19:kill").returncode != 0:
        pass
    wanted(run.digest(os.path.join(one, f"step_{STEPS:08d}")) == run.digest(os.path.join(killed, f"step_{STEPS:08d}")), "kills change the weights")
    begun = os.path.join(folder, "begun")
    train(data, begun, "--train-iters", 5)
    for leaves, before in ("--finetune", 0), ("--no-load-optim", 5):            # what is left out of --load is taken of the run's own checkpoints
        out = os.path.join(folder, "rewound-" + leaves[2:])
        told = train(data, out, *more, leaves, "--load", begun, "--train-iters", 40).stderr
        back = [(int(a), int(b)) for a, b in re.findall(r"step (\d+): back to the checkpoint of step (\d+); the samples", told)]
        own = [b for _, b in back if b > before]
        last = os.path.join(out, f"step_{max(own, default=0):08d}", "manifest.json")
        wanted(own and all(b == (a - 1) // 5 * 5 for a, b in back) and json.load(open(last))["updates"] == max(own) - before, f"{leaves}: back {back}", told)
    for layout in (["--ranks", 4, "--zero-stage", 3], ["--ranks", 4, "--tp", 2, "--pp", 2]):
        out = os.path.join(folder, "rewound-" + layout[2][2:])
        train(data, out, *more, *layout)
        for a, b in zip(rows(one + ".jsonl"), rows(out + ".jsonl")):
            wanted(a["step"] == b["step"] and abs(a["loss"] - b["loss"]) < 1e-6, f"{layout}: {a} {b}")


def deviations(data, folder):
    """By standard deviations, alone and beside a factor; under a layout the same steps."""
    for n, (factor, by) in enumerate(((math.inf, 0.5), (1.01, 1))):
        for layout in [], ["--ranks", 2, "--pp", 2]:
            out = os.path.join(folder, f"deviations{n}-{len(layout)}")
            told = train(data, out, "--spike-factor", 0 if factor == math.inf else factor, "--spike-deviations", by, "--train-iters", 40, *layout).stderr
            all_rows = rows(out + ".jsonl")
            skipped = [row["step"] for row in all_rows if row.get("skipped")]
            wanted(skipped and skipped == expected([(r["step"], r["loss"]) for r in all_rows], 4, factor, by), f"{factor}, {by}: skipped {skipped}", told)


def rewinds_of(data, folder):
    """With scaled losses, experts and a batch size ramp: each step has one record, and kills change nothing. Nothing that follows a step is repeated after a rewind, so that no interval of --exit-interval ends the run early."""
    for name, more in (("fp16", ["--fp16", "--device", "cpu", "--kernels", "portable", "--initial-loss-scale", 1024, "--spike-factor", 1.03]),
                       ("experts", ["--num-experts", 4, "--disable-bias-linear", "--moe-router-score-function", "sigmoid", "--moe-router-enable-expert-bias"]),
                       ("ramp", ["--rampup-batch-size", 2, 2, 200])):
        digests = []
        for fault in None, "step:29:kill":
            out = os.path.join(folder, f"{name}-{fault}")
            more = [*more[:len(more)], "--spike-action", "rewind", "--train-iters", 40, "--exit-interval", 40, "--eval-interval", 5, "--eval-iters", 1, "--split", "90,10,0"]
            for _ in range(20):
                done = train(data, out, *more, fault=fault)
                if done.returncode != -9:
                    break
            back = [(int(a), int(b)) for a, b in re.findall(r"step (\d+): back to the checkpoint of step (\d+); the samples", done.stderr)]
            wanted(done.returncode == 0 and (back or fault), f"{name}: back {back}", done.stderr)
            trained = [r for r in rows(out + ".jsonl") if "split" not in r]
            wanted([r["step"] for r in trained] == list(range(1, 41)), f"{name}: each step has one record", done.stderr)
            evaluated = [r["step"] for r in rows(out + ".jsonl") if r.get("split") == "valid"]
            wanted(evaluated == list(range(5, 41, 5)), f"{name}: evaluations after {evaluated}", done.stderr)
            digests.append(run.digest(os.path.join(out, "step_00000040")))
        wanted(digests[0] == digests[1], f"{name}: kills change the weights")


def rewinds_to_foreign(data, folder):
    """Until it has saved, a run goes back to the checkpoint that it started from, another program's too; where there is none, a line says so."""
    random, tensors = random_numbers.Random(3), dict((name, shape) for name, shape, _ in small_formats.parameters())
    tensors.update({"transformer.wte.weight": (257, 4), "transformer.wpe.weight": (16, 4)})
    path = os.path.join(folder, "ckpt.pt")
    tw.save(path, {"model": {name: tw.Tensor([random.gauss(0, 0.1) for _ in range(small_formats.product(shape))], shape) for name, shape in tensors.items()},
                   "model_args": {"n_layer": 2, "n_head": 2, "n_embd": 4, "block_size": 16, "bias": True, "vocab_size": 257, "dropout": 0.0},
                   "iter_num": 3, "config": {"batch_size": 8, "gradient_accumulation_steps": 1}})
    words = ["train", "--data-path", data, "--tokenizer", "bytes", "--global-batch-size", 8, "--threads", 1, *SPIKES, "--lr", 2, "--spike-action", "rewind",
             "--save-interval", 1000, "--train-iters", 30]
    words = words[:words.index("--num-layers")] + words[words.index("--num-layers") + 2:]                     # the model is the checkpoint's
    losses = []
    for n, layout in enumerate(([], ["--ranks", 4, "--zero-stage", 2, "--tp", 2])):
        out = os.path.join(folder, f"foreign-{n}")
        told = run.jotun(*words, *layout, "--load", "nanogpt:" + path, "--no-load-optim", "--save", out, "--metrics", out + ".jsonl", check=False).stderr
        back = [int(a) for a in re.findall(r"step (\d+): back to the checkpoint of step 3; the samples", told)]
        trained = rows(out + ".jsonl")
        wanted(back and "there is no checkpoint" not in told and [r["step"] for r in trained[:2]] == [4, 5], f"back {back}", told)
        losses.append([row["loss"] for row in trained])
    wanted(all(abs(a - b) < 1e-6 for a, b in zip(*losses)), f"layouts: {losses}")
    told = run.jotun(*words, "--finetune", "--load", "nanogpt:" + path, "--save", os.path.join(folder, "foreign-new"), check=False).stderr
    wanted(re.search(r"step \d+: there is no checkpoint to go back to, so that the step is skipped alone; --save DIR", told), "no line", told)


def not_finite(data, folder):
    words = ["train", "--data-path", data, *run.MODEL, "--train-iters", 3, "--lr", 1000, "--adam-eps", 1e-30, "--init-method-std", 90, "--num-layers", 2,
             "--clip-grad", 0, "--lr-decay-style", "constant", "--threads", 1]
    for layout in ([], ["--ranks", 4, "--tp", 2, "--pp", 2]):
        done = run.jotun(*words, *layout, "--weight-decay", 1e3, "--norm-epsilon", 1e-30, check=False)
        for step in range(4, 30):                           # until the weights overflow
            if "again" in done.stderr:
                break
            done = run.jotun(*words, *layout, "--train-iters", step, "--weight-decay", 1e3, "--norm-epsilon", 1e-30, check=False)
        wanted(re.search(r"step \d+, again: the first result that is not finite: (rank \d+ on \S+: )?in (the embedding|the head|layer \d of 2), \w+: "
                         r"\w+\[\d+, \d+, \d+, \d+\] is -?(nan|inf)", done.stderr), "nothing is named", done.stderr[-3000:])
        quiet = run.jotun(*words, *layout, "--train-iters", step, "--weight-decay", 1e3, "--norm-epsilon", 1e-30,
                          "--no-check-for-nan-in-loss-and-grad", check=False).stderr
        wanted("again" not in quiet, "replayed all the same", quiet)


def estimates(data):
    """Sophia's estimate overflows with the gradients of the step, is left out and says so, until the loss scale has fallen."""
    told = run.jotun("train", "--data-path", data, *run.MODEL, "--threads", 1, "--train-iters", 12, "--optimizer", "sophiag",
                     "--sophia-update-interval", 20, "--fp16", "--initial-loss-scale", 2 ** 26, "--hysteresis", 1).stderr
    said = re.findall(r"step (\d+): the loss [\d.]+ of an estimate of the Hessian, or its gradient norm \S+, is not finite; the estimate is left out", told)
    skipped = re.findall(r"step (\d+): gradients overflow", told)
    wanted(len(said) > 1 and said == skipped[:len(said)] and said == [str(i + 1) for i in range(len(said))] and len(said) < 12,
           f"estimates left out at {said}, steps skipped at {skipped}", told)


with run.work_folder() as folder:
    data = run.corpus(folder)
    estimates(data)
    not_finite(data, folder)
    skips(data, folder)
    rewinds(data, folder)
    rewinds_to_foreign(data, folder)
    deviations(data, folder)
    rewinds_of(data, folder)
    under_mpi(data, folder)
