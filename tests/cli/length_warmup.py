"""--seq-length-warmup: a run whose samples of 32 tokens count 16 of them has the losses and gradients of a run with samples of these 16, in every
layout; evaluations have whole samples; a resume continues to the bit; and --train-tokens are those that count."""
import json
import os
import random
import sys
import tempfile

import run

SHAPE = ("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --vocab-size 300 --tokenizer none --split 100,0,0 --lr 1e-2 --hidden-dropout 0 --attention-dropout 0 "
         "--micro-batch-size 2 --global-batch-size 4 --threads 1 --seed 5").split()
HALF = ["--seq-length", 32, "--seq-length-warmup", 16, 1000000, 16]


def steps(folder, *words):
    path = os.path.join(folder, "metrics.json")
    if os.path.exists(path):
        os.remove(path)
    run.jotun("train", *SHAPE, *words, "--metrics", path)
    return [row for row in map(json.loads, open(path)) if "loss" in row]


def data(folder):
    """Two token files of 40 samples: of 32 tokens, and of the first 16 of each. The token behind these 16 is the first one of the next sample in both."""
    draw, long, short = random.Random(3), [], []
    starts = [draw.randrange(300) for _ in range(41)]
    for n in range(40):
        rest = [draw.randrange(300) for _ in range(30)]
        long += [starts[n], *rest[:15], starts[n + 1], *rest[15:]]
        short += [starts[n], *rest[:15]]
    for name, ids in ("long", long), ("short", short):
        run.pair(os.path.join(folder, name), [ids + [starts[40]]])
    return os.path.join(folder, "long"), os.path.join(folder, "short")


def near(name, a, b, within):
    worst = max(abs(x[key] - y[key]) / abs(y[key]) for x, y in zip(a, b) for key in ("loss", "grad_norm"))
    if len(a) != len(b) or not a or worst > within:
        sys.exit(f"{name}: {len(a)} and {len(b)} steps, {worst:g} apart")


def main():
    with tempfile.TemporaryDirectory() as folder:
        long, short = data(folder)
        for device, within in ("ref", 1e-12), ("cpu", 1e-5):
            wanted = steps(folder, "--data-path", short, "--seq-length", 16, "--train-iters", 8, "--device", device)
            near(f"short samples on {device}", steps(folder, "--data-path", long, *HALF, "--train-iters", 8, "--device", device), wanted, within)
        for layout in "--cp 2", "--tp 2 --sequence-parallel", "--pp 2", "--cp 2 --cp-comm-type a2a":
            near(layout, steps(folder, "--data-path", long, *HALF, "--train-iters", 8, "--device", "cpu", "--ranks", 2, *layout.split()), wanted, 1e-4)
        rises = ["--data-path", long, "--seq-length", 32, "--seq-length-warmup", 8, 6, 8, "--device", "cpu", "--lr-schedule-unit", "tokens",
                 "--lr-decay-samples", 20, "--lr-warmup-samples", 4]
        whole = steps(folder, *rises, "--train-iters", 8)
        save = os.path.join(folder, "save")
        steps(folder, *rises, "--train-iters", 8, "--exit-interval", 3, "--save", save)
        resumed = steps(folder, *rises, "--train-iters", 8, "--load", save)
        if [(r["loss"], r["lr"]) for r in resumed] != [(r["loss"], r["lr"]) for r in whole[3:]]:
            sys.exit("a resumed curriculum has other losses")
        # 8 + 24 k / 6, down to a multiple of 8: 8, 16, 16, 24, 24, 32, which are 480 tokens of 4 samples, and 32 more make no step
        done = run.jotun("config", *SHAPE, *rises, "--train-tokens", 480 + 32, "--yaml")
        if "# train-iters: 6  # derived from --train-tokens" not in done.stdout or "# train-samples: 24  # derived from --train-tokens and --seq-length-warmup" not in done.stdout:
            sys.exit(f"--train-tokens under a curriculum:\n{done.stdout}")
        still = ["--mock-data", "--split", "50,50,0", "--lr", 0, "--seq-length", 32, "--train-iters", 2, "--eval-interval", 1, "--eval-iters", 1, "--device", "cpu"]
        rows = [steps(folder, *still, *more) for more in ([], ["--seq-length-warmup", 8, 100, 8])]
        evaluated, trained = ([[r["loss"] for r in of if ("split" in r) == split] for of in rows] for split in (True, False))
        if evaluated[0] != evaluated[1] or len(evaluated[0]) != 2 or trained[0] == trained[1]:
            sys.exit(f"evaluations do not have whole samples: {evaluated}, {trained}")
        for words, says in ((["--seq-length-warmup", 8, 6], "takes three whole numbers"), (["--seq-length-warmup", 40, 6, 8], "give a number from its multiple, 8, to --seq-length 32"),
                            (["--seq-length-warmup", 4, 6, 8], "begins with 4 tokens"),
                            (["--seq-length-warmup", 8, 6, 8, "--rampup-batch-size", 2, 2, 8], "counts steps of one size; leave it or --rampup-batch-size out"),
                            (["--seq-length-warmup", 8, 6, 8, "--num-experts", 4, "--disable-bias-linear"], "would take part in --num-experts 4"),
                            (["--lr-schedule-unit", "tokens", "--rampup-batch-size", 2, 2, 8], "is of --seq-length-warmup"),
                            (["--seq-length-warmup", 8, 6, 8, "--lr-schedule-unit", "tokens"], "needs --lr-decay-samples N")):
            done = run.jotun("train", *SHAPE, "--seq-length", 32, "--data-path", long, "--train-iters", 8, "--dry-run", *words, check=False)
            if done.returncode != 1 or says not in done.stderr:
                sys.exit(f"{words}: exit code {done.returncode}, wanted {says!r}\n{done.stderr}")


main()
