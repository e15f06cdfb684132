"""Runs whose numbers break, and data that does not fit: told, stopped, never saved."""
import os
import struct
import sys

import run


def refused(code, words, *args):
    done = run.jotun(*args, check=False)
    if done.returncode != code or not all(w in done.stderr for w in words):
        sys.exit(f"jotun {' '.join(map(str, args))}\nexit code {done.returncode}, wanted {code} and {words}\n{done.stderr}")
    return done


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        out = os.path.join(folder, "out")
        train = ["train", "--data-path", data, *run.MODEL, "--save", out, "--threads", 1]
        refused(1, ["20 steps in a row", "--lr"], *train, "--train-iters", 60, "--lr", 1000, "--clip-grad", 0)
        if os.path.exists(os.path.join(out, "latest")):
            sys.exit("a run that never was finite has saved")
        with open(data + ".bin", "r+b") as tokens:                   # one id beyond the vocabulary, somewhere in the middle
            tokens.seek(2 * 3000)
            tokens.write(struct.pack("<H", 65535))
        refused(1, ["65535", ".bin"], *train, "--train-iters", 200, "--ranks", 2)
        if os.path.exists(os.path.join(out, "latest")):
            sys.exit("a step with ids that do not fit was saved")
        print("numbers that break and ids that do not fit: told with exit code 1, nothing saved")
    return 0


sys.exit(main())
