"""SIGTERM and SIGINT: the step at hand is finished and saved, the exit code says so, and the run goes on to the same bits."""
import os
import signal
import subprocess
import sys
import time

import run

STEPS = 120


def arguments(data, out):
    return [str(w) for w in ["train", "--data-path", data, "--train-iters", STEPS, *run.MODEL, "--ranks", 2, "--threads", 1,
                             "--save", out, "--load", out, "--metrics", out + ".jsonl"]]


def interrupted(data, out, number):
    child = subprocess.Popen([run.JOTUN] + arguments(data, out), stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and not (os.path.exists(out + ".jsonl") and run.metrics(out + ".jsonl")):
        time.sleep(0.01)
    child.send_signal(number)
    stderr = child.communicate(timeout=60)[1]
    if child.returncode != 128 + number or "stopped by a signal after step" not in stderr:
        sys.exit(f"{number.name}: exit code {child.returncode}\n{stderr}")
    return max(run.metrics(out + ".jsonl"))


def nothing_left(words, folder, number, feed=None):
    """Stopped while it writes: the exit code and a word tell, and no file of the pair is there."""
    child = subprocess.Popen([run.JOTUN, *words, "--output-prefix", os.path.join(folder, "left")], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(name.endswith(".bin.part") for name in os.listdir(folder)):
        time.sleep(0.001)
    child.send_signal(number)
    try:
        while feed and child.poll() is None and time.monotonic() < end:
            child.stdin.write(feed)
    except BrokenPipeError:
        pass
    stderr = child.stderr.read().decode()
    child.wait(timeout=60)
    left = [name for name in os.listdir(folder) if name.startswith("left")]
    if child.returncode != 128 + number or "stopped by a signal; nothing is written" not in stderr or left:
        sys.exit(f"{words[:2]}, {number.name}: exit code {child.returncode}, left {left}\n{stderr}")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
            nothing_left(["prepare", "--input", "-"], folder, number, b"a line of text\n" * 4096)
            nothing_left(["data", "merge", *[data] * 20000], folder, number)
        whole = os.path.join(folder, "whole")
        run.jotun(*arguments(data, whole))
        for number in signal.SIGTERM, signal.SIGINT:
            out = os.path.join(folder, number.name)
            step = interrupted(data, out, number)
            run.jotun("checkpoint", "verify", out)
            run.jotun(*arguments(data, out))
            last = f"step_{STEPS:08d}"
            if run.metrics(out + ".jsonl") != run.metrics(whole + ".jsonl"):
                sys.exit(f"{number.name}: the losses are not those of an uninterrupted run")
            if run.digest(os.path.join(out, last)) != run.digest(os.path.join(whole, last)):
                sys.exit(f"{number.name}: the weights are not those of an uninterrupted run")
            print(f"{number.name} at step {step}: saved, exit code {128 + number}, went on to the same bits")
    return 0


sys.exit(main())
