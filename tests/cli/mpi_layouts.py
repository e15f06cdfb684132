"""Layouts under Open MPI and MPICH, dropout on, 20 steps in double and 5 in float: losses and weights are those of ranks as
threads, to the bit. Without JOTUN_FULL 8 steps in double, and a layout under one MPI in double, under the other in float."""
import os
import subprocess
import sys

import run

FULL = bool(os.environ.get("JOTUN_FULL"))
LAYOUTS = [
    ("tp2 sequence pp2 zero1", 4, run.MODEL, "--tp 2 --sp --pp 2 --zero-stage 1"),
    ("dp4 zero3", 4, run.MODEL + run.LLAMA, "--zero-stage 3"),
    ("cp4 ulysses2 ring2 window", 4, run.MODEL + run.LLAMA,
     "--cp 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2 --window-size 9,0"),
    ("dp4 zero2 hybrid2", 4, run.MODEL, "--zero-stage 2 --hybrid-shard-size 2"),
    ("tp4 sequence, heads in copies", 4, run.MODEL + run.LLAMA, "--tp 4 --sp"),
    ("pp2 dp2 zero3 in order tp-pp-dp", 4, run.MODEL, "--pp 2 --zero-stage 3 --use-tp-pp-dp-mapping"),
    ("tp2 dp2 zero2 muon", 4, run.MODEL, "--tp 2 --zero-stage 2 --optimizer muon"),
    ("cp2 pp2 zb-h1", 4, run.MODEL + run.LLAMA, "--cp 2 --pp 2 --pipeline-schedule zb-h1"),
    ("tp2 dp2 1-bit lamb", 4, run.MODEL, "--tp 2 --optimizer ds.onebitlamb --onebit-freeze-step 2"),
]


def train(data, folder, name, device, steps, model, words, ranks, launcher=None):
    out = os.path.join(folder, f"{name} {device}".replace(" ", "-"))
    args = ["train", "--data-path", data, "--device", device, "--train-iters", steps, *model, *words.split(), "--threads", 1, "--save", out, "--metrics", out + ".jsonl"]
    done = run.jotun(*args, launcher=launcher + [str(ranks)]) if launcher else run.jotun(*args, "--ranks", ranks)
    if "dry run" in done.stderr:
        sys.exit(done.stderr)                            # bytes that the dry run did not say
    return run.metrics(out + ".jsonl"), run.digest(os.path.join(out, f"step_{steps:08d}"))


def missing_on_one(data, launcher):
    """What rank 1 alone cannot open ends the job with its reason, long before the limit on a start."""
    words = [run.JOTUN, "train", "--data-path", data, *run.MODEL, "--train-iters", "1", "--threads", "1"]
    command = launcher + ["1", *words, ":", "-n", "1", "-x", "JOTUN_TOKENIZER=/nonexistent.json", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
    except subprocess.TimeoutExpired:
        sys.exit("rank 1 has no tokenizer, and rank 0 waits for it after 30 s")
    said = [line for line in done.stderr.splitlines() if line.startswith("jotun: rank 1 on ") and "/nonexistent.json" in line]
    if done.returncode == 0 or len(said) != 1:
        sys.exit(f"rank 1 has no tokenizer: exit code {done.returncode}\n{done.stderr}")


def main():
    launchers = run.launchers()
    if not launchers:
        print("skipped: neither Open MPI nor MPICH with its plug-in is here")
        return run.SKIP
    with run.work_folder() as folder:
        data = run.corpus(folder)
        if "Open MPI" in launchers:
            missing_on_one(data, launchers["Open MPI"])
        for number, (name, ranks, model, words) in enumerate(LAYOUTS):
            for device, steps in ("ref", 20 if FULL else 8), ("cpu", 5):
                alone = train(data, folder, "threads " + name, device, steps, model, words, ranks)
                for place, (mpi, launcher) in enumerate(launchers.items()):
                    if not FULL and len(launchers) > 1 and (number + place + (device == "cpu")) % 2:
                        continue
                    other = train(data, folder, f"{mpi} {name}", device, steps, model, words, ranks, launcher)
                    if other != alone or len(other[0]) != steps:
                        sys.exit(f"{name} on {device} under {mpi}: losses {other[0]} and weights {other[1]}, threads had {alone[0]}, {alone[1]}")
                    print(f"{name} on {device} under {mpi}: {steps} losses and all weights as under threads, to the bit")
    return 0


sys.exit(main())
