"""Data that is cut while a run reads it ends the run with the file's name, also where only an evaluation reads it, and data changed while a run rests is told when it
goes on, wherever the change is."""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import time

import run


def started(args, metrics):
    """A run that has done some steps."""
    child = subprocess.Popen([run.JOTUN] + [str(a) for a in args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until = time.time() + 60
    while child.poll() is None and time.time() < until and not (os.path.exists(metrics) and len(run.metrics(metrics)) > 20):
        time.sleep(0.02)
    return child


def cut(pair, folder, ending, left, words):
    """`left` of all bytes stay, of a pair of its own that a run reads."""
    data, metrics = os.path.join(folder, "cut"), os.path.join(folder, "cut.jsonl")
    for name in ".bin", ".idx":
        shutil.copy(pair + name, data + name)
    if os.path.exists(metrics):
        os.unlink(metrics)
    child = started(["train", "--data-path", data, *run.MODEL, "--train-iters", 100000, "--metrics", metrics, *words], metrics)
    size = os.path.getsize(data + ending)
    os.truncate(data + ending, left if left >= 0 else size + left)
    try:
        said = child.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        sys.exit(f"{ending} cut to {left} of {size} bytes: the run goes on with what is no data ({words})")
    if child.returncode != 1 or data + ending not in said or "cut" not in said:
        sys.exit(f"{ending} cut to {left} of {size} bytes: exit code {child.returncode} ({words})\n{said[-2000:]}")


def foreign(folder):
    """The prefix of a pair in which every id is beyond the vocabulary of the bytes."""
    prefix, tokens = os.path.join(folder, "foreign"), 40000
    with open(prefix + ".bin", "wb") as file:
        file.write(struct.pack("<H", 60000) * tokens)
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQIQQQ", 1, 8, 1, 2, tokens, 0, 0, 1))
    return prefix


def evaluated(pair, bad, folder, words, change=None):
    """The evaluation of unreadable data ends the run with the file's name, without a loss; the step before it is saved."""
    metrics, out = os.path.join(folder, "evaluated.jsonl"), os.path.join(folder, "evaluated")
    shutil.rmtree(out, ignore_errors=True)
    if os.path.exists(metrics):
        os.unlink(metrics)
    args = ["train", "--train-data-path", pair, *run.MODEL, "--metrics", metrics, "--save", out, "--save-interval", 1000000, *words]
    if change:
        child = started([*args, "--train-iters", 1000000], metrics)
        change()
        try:
            said = child.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            sys.exit(f"validation data was cut, and the run goes on ({words})")
        code = child.returncode
    else:
        done = run.jotun(*args, "--train-iters", 4, check=False)
        code, said = done.returncode, done.stderr
    later = [row for row in map(json.loads, open(metrics)) if "split" in row] if not change else []
    if code != 1 or bad + ".bin" not in said or later or (not change and "perplexity" in said) or not glob.glob(out + "/step_*"):
        sys.exit(f"an evaluation of unreadable data: exit code {code} ({words}), {later}\n{said[-2000:]}")


def resumed(pair, folder):
    """The log of a run that goes on."""
    out = os.path.join(folder, "out")
    return run.jotun("train", "--data-path", pair, *run.MODEL, "--threads", 1, "--train-iters", 4, "--lr-decay-iters", 4, "--load", out).stderr


def change(path, at, bits=1):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bits]))


def main():
    with run.work_folder() as folder:
        pair = run.corpus(folder)
        megatron = ["--data-order", "megatron", "--ranks", 2]
        for words in ["--threads", 1], megatron:
            cut(pair, folder, ".bin", 0, words)
            cut(pair, folder, ".bin", 5000, words)
            cut(pair, folder, ".bin", -60, words)                    # within its last page, which then reads as zeros
        cut(pair, folder, ".idx", 0, megatron)
        cut(pair, folder, ".idx", 100, megatron)

        bad = foreign(folder)
        for ranks in 1, 2:
            for words in ["--valid-data-path", bad, "--eval-interval", 2], ["--test-data-path", bad, "--eval-interval", 1000]:
                evaluated(pair, bad, folder, [*words, "--eval-iters", 2, "--threads", 1, "--ranks", ranks])
        held = os.path.join(folder, "held")
        for name in ".bin", ".idx":
            shutil.copy(pair + name, held + name)
        evaluated(pair, held, folder, ["--valid-data-path", held, "--eval-interval", 10, "--eval-iters", 2, "--threads", 1, "--ranks", 2],
                  lambda: os.truncate(held + ".bin", 0))

        run.jotun("train", "--data-path", pair, *run.MODEL, "--threads", 1, "--train-iters", 2, "--lr-decay-iters", 4, "--save", os.path.join(folder, "out"))
        if "was replaced" in resumed(pair, folder):
            sys.exit("data that is the same is told to be other")
        size = os.path.getsize(pair + ".bin")
        for at in 0, size // 2 // 2 * 2, size - 2:                   # the middle is far from both ends
            change(pair + ".bin", at)
            if f"{pair} (" not in (said := resumed(pair, folder)) or "was replaced" not in said:
                sys.exit(f"byte {at} of {size} was changed while the run rested, and nothing is said\n{said}")
            change(pair + ".bin", at)
        if "was replaced" in resumed(pair, folder):
            sys.exit("data that is the same again is told to be other")
        print("data that is cut or changed is told")
    return 0


sys.exit(main())
