"""kill -9 at random moments, a good part of them inside a save: at every moment a good checkpoint, and in the end the same bits.

    kill.py [kills] [seed]       default 30 kills (JOTUN_FULL: 200), in fp32, bf16, fp16, fp8 and with experts alike, two in five inside a save
"""
import os
import random
import signal
import subprocess
import sys
import time

import run

STEPS = 40
LAYOUT = "--ranks 4 --zero-stage 2 --hybrid-shard-size 2 --threads 1".split()
TYPES = ["", "--bf16 --grad-reduce-in-bf16 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 --stochastic-rounding",
         "--fp16 --initial-loss-scale 16777216 --loss-scale-window 5 --rampup-batch-size 4 4 80 --lr-warmup-fraction 0.1",
         "--bf16 --fp8-format hybrid --fp8-amax-history-len 3 --fp8-amax-compute-algo max",
         "--num-experts 4 --disable-bias-linear --moe-router-score-function sigmoid --moe-router-enable-expert-bias --tp 2 --ep 2 --etp 1"]


def arguments(data, out, types):
    return ["train", "--data-path", data, "--train-iters", STEPS, *run.MODEL, *LAYOUT, *types, "--save", out, "--load", out,
            "--save-interval", 2, "--keep-last", 2, "--metrics", out + ".jsonl"]


def check_checkpoint(out):
    """At every moment the folder is empty of checkpoints or holds a good one; returns its step."""
    if not os.path.exists(os.path.join(out, "latest")) and not any(n.startswith("step_") for n in os.listdir(out)):
        return 0
    done = run.jotun("checkpoint", "verify", out, check=False)
    if done.returncode != 0:
        sys.exit(f"after a kill the checkpoint is not good: {done.stderr}{done.stdout}")
    return 1


def killed_at(args, delay, fault):
    """Runs until `delay` seconds have gone, or until a fault point kills it; True where it was killed."""
    env = dict(os.environ, JOTUN_FAULT=fault) if fault else None
    child = subprocess.Popen([run.JOTUN] + [str(a) for a in args], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if not fault:
        time.sleep(delay)
        child.kill()
    child.stderr.read()
    child.wait()
    if child.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"exit code {child.returncode} instead of a kill or an end")
    return child.returncode != 0


def begin_anew(out):
    subprocess.run(["rm", "-rf", out, out + ".jsonl"], check=True)
    os.mkdir(out)


def compare(whole, out):
    step = f"step_{STEPS:08d}"
    if run.digest(os.path.join(whole, step)) != run.digest(os.path.join(out, step)):
        sys.exit("weights or states after the kills differ from those of an uninterrupted run")
    if run.metrics(whole + ".jsonl") != run.metrics(out + ".jsonl"):
        sys.exit("losses after the kills differ from those of an uninterrupted run")


def kill_and_resume(rng, data, folder, words, kills):
    types = words.split()
    whole, out = os.path.join(folder, "whole"), os.path.join(folder, "killed")
    begin = time.monotonic()
    begin_anew(whole)
    run.jotun(*arguments(data, whole, types))
    took = time.monotonic() - begin
    inside = outside = ended = 0
    begin_anew(out)
    while inside < kills * 2 // 5 or outside < kills - kills * 2 // 5:
        save = inside < kills * 2 // 5 and rng.random() < 0.5
        point, most = rng.choice([("write", 400), ("write", 400), ("sync", 60), ("rename", 6), ("mkdir", 4)])
        fault = f"{point}:{rng.randint(1, most)}:kill" if save else None
        if killed_at(arguments(data, out, types), rng.uniform(0.02, took * 0.6), fault):
            inside, outside = inside + save, outside + (not save)
            check_checkpoint(out)
            continue
        ended += 1
        compare(whole, out)
        begin_anew(out)
    run.jotun(*arguments(data, out, types))
    compare(whole, out)
    print(f"{words or 'fp32'}: {inside + outside} kills, {inside} of them inside a save, over {ended + 1} runs to the end: a good checkpoint "
          "after each kill, losses, weights and states those of an uninterrupted run, to the bit", flush=True)


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200 if os.environ.get("JOTUN_FULL") else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    rng = random.Random(seed)
    print(f"seed {seed}")
    with run.work_folder() as folder:
        data = run.corpus(folder)
        for words in TYPES:
            kill_and_resume(rng, data, folder, words, kills // len(TYPES))
    return 0


sys.exit(main())
