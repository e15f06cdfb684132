"""In how many steps Muon reaches the loss of AdamW, with the quickstart's model and one small grid of learning rates for both:

    python3 bench/train/optimizers.py [JOTUN] [--text FILE ...] [--steps 1500] [--shares 0.75 0.6] [--grid 1e-3 2e-3 4e-3 8e-3]

AdamW trains --steps steps with each learning rate of the grid; Muon, with each of the same, a share of so many steps, each run with a
schedule of its own length: 50 steps of warm-up, cosine decay to a tenth. Compared are validation losses at the end of the runs, over the
same batches, of the best learning rate of each. Muon has Nesterov's momentum of 0.95 and updates of AdamW's size (spectral, 0.2); both
have weight decay 0.1. The text, one document a line or a file, is the C, Python and Markdown of this tree unless --text names others.
The exit code is 1 where Muon does not reach AdamW's loss with the largest share.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODEL = ("--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --position-embedding-type rope --attention-dropout 0 "
         "--hidden-dropout 0 --micro-batch-size 8 --global-batch-size 16 --lr-decay-style cosine --lr-warmup-iters 50 --weight-decay 0.1 "
         "--adam-beta2 0.95 --split 95,5,0 --eval-iters 40").split()
RULES = {"adam": ["--optimizer", "adam"],
         "muon": "--optimizer muon --muon-momentum 0.95 --muon-nesterov --muon-extra-scale-factor 0.2".split()}


def tokens(jotun, files, folder):
    text = os.path.join(folder, "text.jsonl")
    with open(text, "w", encoding="utf-8") as out:
        for name in files:
            out.write(json.dumps({"text": open(name, encoding="utf-8", errors="replace").read()}) + "\n")
    subprocess.run([jotun, "prepare", "--input", text, "--tokenizer", "bytes", "--append-eod", "--output-prefix", os.path.join(folder, "train")],
                   check=True, capture_output=True)
    return os.path.join(folder, "train_text_document")


def trained(jotun, data, rule, lr, steps, threads):
    """The validation loss at the end."""
    done = subprocess.run([jotun, "train", "--data-path", data, "--train-iters", str(steps), "--lr", repr(lr), "--min-lr", repr(lr / 10),
                           "--eval-interval", str(steps), "--log-interval", str(steps), "--threads", str(threads)] + MODEL + RULES[rule],
                          check=True, capture_output=True, text=True)
    found = re.findall(r"validation loss ([0-9.]+)", done.stdout + done.stderr)
    if not found:
        sys.exit(f"no validation loss in\n{done.stdout}{done.stderr}")
    return float(found[-1])


def best(jotun, data, rule, grid, steps, threads):
    losses = {lr: trained(jotun, data, rule, lr, steps, threads) for lr in grid}
    lr = min(losses, key=losses.get)
    print(f"{rule} {steps:5} steps: " + "  ".join(f"lr {x:g}: {loss:.4f}" for x, loss in losses.items()) + f"   best {losses[lr]:.4f}", flush=True)
    return losses[lr]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jotun", nargs="?", default=os.path.join(TREE, "build", "release", "bin", "jotun"))
    parser.add_argument("--text", nargs="+")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.75, 0.6])
    parser.add_argument("--grid", nargs="+", type=float, default=[1e-3, 2e-3, 4e-3, 8e-3])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    o = parser.parse_args()
    files = o.text or sorted(f for kind in ("src/**/*.[ch]", "tests/**/*.[ch]", "tests/**/*.py", "docs/**/*.md")
                             for f in glob.glob(os.path.join(TREE, kind), recursive=True))
    with tempfile.TemporaryDirectory(prefix="jotun-optimizers-") as folder:
        data = tokens(o.jotun, files, folder)
        target = best(o.jotun, data, "adam", o.grid, o.steps, o.threads)
        reached = [best(o.jotun, data, "muon", o.grid, round(share * o.steps), o.threads) <= target for share in o.shares]
    for share, yes in zip(o.shares, reached):
        print(f"muon {'reaches' if yes else 'does not reach'} AdamW's loss of {o.steps} steps in {share:.0%} of them")
    return 0 if reached[0] else 1


sys.exit(main())
