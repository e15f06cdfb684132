"""Runs whose numbers break, and data that does not fit: told, stopped, never saved."""
import os
import re
import struct
import sys

import run


def refused(code, words, *args):
    done = run.jotun(*args, check=False)
    if done.returncode != code or not all(w in done.stderr for w in words):
        sys.exit(f"jotun {' '.join(map(str, args))}\nexit code {done.returncode}, wanted {code} and {words}\n{done.stderr}")
    return done


def diverges(train, out):
    """Finite steps, and then none: the checkpoints before them stay, also the one of the last step that was skipped."""
    words = [*train, "--num-layers", 2, "--global-batch-size", 4, "--lr", 1000, "--lr-decay-iters", 60, "--clip-grad", 0,
             "--save", out, "--save-interval", 2]
    done = refused(1, ["20 steps in a row"], *words, "--train-iters", 60)
    first = int(re.search(r"step (\d+): .* the step is skipped", done.stderr)[1])
    good = (first - 1) // 2 * 2
    steps = [int(step) for step in re.findall(r"step (\d+) is saved", done.stderr)]
    if good < 2 or steps != list(range(2, first, 2)) or f"is of step {good}: --load {out} resumes" not in done.stderr:
        sys.exit(f"a run that diverges at step {first}:\n{done.stderr}")
    run.jotun(*words, "--load", os.path.join(out, f"step_{good:08d}"), "--train-iters", first + 2, "--keep-last", 1)
    if not os.path.exists(os.path.join(out, f"step_{good:08d}")):
        sys.exit("a skipped step that ends the run removes the checkpoint before it")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        out = os.path.join(folder, "out")
        train = ["train", "--data-path", data, *run.MODEL, "--save", out, "--threads", 1]
        diverges(train, os.path.join(folder, "diverged"))
        refused(1, ["20 steps in a row", "nothing was saved before them", "--lr"], *train, "--train-iters", 60, "--lr", 1000, "--clip-grad", 0)
        if os.path.exists(os.path.join(out, "latest")):
            sys.exit("a run that never was finite has saved")
        with open(data + ".bin", "r+b") as tokens:                   # one id beyond the vocabulary, somewhere in the middle
            tokens.seek(2 * 3000)
            tokens.write(struct.pack("<H", 65535))
        done = refused(1, ["65535", ".bin", "is saved in"], *train, "--train-iters", 200, "--ranks", 2)
        last = int(re.search(r"step (\d+) is saved in", done.stderr)[1])
        whole = os.path.join(folder, "whole")
        run.jotun(*train, "--save", whole, "--train-iters", 200, "--exit-interval", last, "--ranks", 2)
        step = f"step_{last:08d}"
        if run.digest(os.path.join(out, step)) != run.digest(os.path.join(whole, step)):
            sys.exit("ids that do not fit have changed the weights of the step before them")
        print("numbers that break and ids that do not fit: told with exit code 1, and the last whole step is saved")
    return 0


sys.exit(main())
