"""Runs of the binary with --device cuda, whose kernels the shim of tests/tensor runs on the CPU, ranks sharing the device:
losses and weights under Open MPI, MPICH and another order of streams are those of ranks as threads, to the bit, and
losses are those of --device cpu; after kill -9 a run ends as one that was not killed; checkpoints go on on other
devices under other layouts. JOTUN_FULL: all layouts under both MPIs, with 8 orders.

    SHIM_BINARY=path of the binary with the shim, or of one for the GPU at hand     DEVICE_STEPS=n DEVICE_LAYOUTS=n: other than 4 and 3
"""
import os
import signal
import subprocess
import sys
import time

import run

FULL = bool(os.environ.get("JOTUN_FULL"))
SHIM = os.environ["SHIM_BINARY"]
STEPS = int(os.environ.get("DEVICE_STEPS", 4))
SMALL = "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --global-batch-size 4 --lr 1e-3 --threads 1 --log-interval 1000".split()
GPT, LLAMA = SMALL, SMALL + run.LLAMA
BOUND = {kind: bound * max(1, STEPS / 4) for kind, bound in {"": 2e-6, "--bf16": 3e-3, "--fp16": 5e-4}.items()}    # losses of about 6 beside --device cpu, which part as steps go
LAYOUTS = [
    (4, "", GPT, "--tp 2 --sp --pp 2"),
    (4, "--bf16", LLAMA, "--zero-stage 3"),
    (4, "--fp16", LLAMA, "--cp 2 --tp 2"),
    (2, "", LLAMA, "--pp 2 --pipeline-schedule zb-h1"),
    (4, "--bf16", GPT, "--zero-stage 2 --hybrid-shard-size 2 --grad-reduce-in-bf16"),
    (4, "--bf16", LLAMA, "--tp 4 --sp --optimizer muon"),
    (2, "--fp16", GPT, "--cp 2 --cp-comm-type a2a"),
    (4, "", LLAMA, "--cp 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2"),
    (2, "--bf16", LLAMA, "--pp 2 --pipeline-schedule zb-v --num-layers 4"),
    (2, "", GPT, "--pp 2 --num-layers-per-virtual-pipeline-stage 1 --num-layers 4"),
    (8, "--bf16", LLAMA, "--tp 2 --pp 2 --zero-stage 1 --use-tp-pp-dp-mapping"),
    (2, "", GPT, "--zero-stage 1 --optimizer adam8bit"),
    (4, "--fp16", LLAMA, "--tp 2 --zero-stage 3 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
    (4, "", GPT, "--tp 2 --optimizer ds.onebitlamb --onebit-freeze-step 2"),
    (8, "--bf16", LLAMA, "--cp 2 --pp 2 --zero-stage 2 --pipeline-schedule zb-h1"),
    (2, "--fp16", LLAMA, "--cp 2 --cp-comm-type allgather --optimizer adafactor"),
]


def words_of(data, out, device, kind, model, words, steps, load=None):
    return ["train", "--device", device, "--data-path", data, *model, *kind.split(), *words.split(), "--train-iters", str(STEPS), "--exit-interval",
            str(steps), "--save", out, "--metrics", out + ".jsonl", *(["--load", load] if load else [])]


def train(data, folder, name, ranks, layout, device="cuda", launcher=None, pace="late", steps=STEPS, load=None):
    """Losses by step and a hash of the weights"""
    out = os.path.join(folder, name.replace(" ", "-"))
    words = words_of(data, out, device, *layout, steps, load)
    command = [*launcher, str(ranks), SHIM, *words] if launcher else [SHIM, *words, "--ranks", str(ranks)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=dict(os.environ, GPU_CPU_PACE=pace, ASAN_OPTIONS="detect_leaks=0"))
    if done.returncode or "dry run" in done.stderr:
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr}")
    return run.metrics(out + ".jsonl"), run.digest(os.path.join(out, f"step_{steps:08d}"))


def near(what, got, want, bound):
    off = max((abs(got[step] - want[step]) for step in got), default=float("inf"))
    if not off <= bound:
        sys.exit(f"{what}: losses {got}, not {want}: {off:.1e} apart, {bound:.0e} allowed")
    return off


def same(what, got, want):
    if got != want or len(got[0]) != STEPS:
        sys.exit(f"{what}: losses {got[0]} and weights {got[1]}, threads had {want[0]}, {want[1]}")


def layouts(data, folder, launchers):
    chosen = LAYOUTS if FULL else LAYOUTS[:int(os.environ.get("DEVICE_LAYOUTS", 3))]
    for number, (ranks, *layout) in enumerate(chosen):
        name = " ".join(filter(None, [f"{ranks} ranks", layout[0], layout[2]]))
        threads = train(data, folder, f"{number} threads", ranks, layout)
        off = near(name, threads[0], train(data, folder, f"{number} cpu", ranks, layout, "cpu")[0], BOUND[layout[0]])
        paces = [f"drawn:{seed}" for seed in range(8)] if FULL else [f"drawn:{number}"]
        for pace in paces:
            same(f"{name}, {pace}", train(data, folder, f"{number} {pace}", ranks, layout, pace=pace), threads)
        under = [mpi for place, mpi in enumerate(launchers) if FULL or (place + number) % len(launchers) == 0]
        for mpi in under:
            same(f"{name} under {mpi}", train(data, folder, f"{number} {mpi}", ranks, layout, launcher=launchers[mpi]), threads)
        print(f"{name}: within {off:.1e} of cpu; to the bit in {len(paces)} orders of streams{''.join(', under ' + mpi for mpi in under)}", flush=True)


def goes_on(data, folder):
    """The first half on one device, the second on another under another layout"""
    others = [("cpu", 1, ""), ("ref", 2, "--pp 2"), ("cuda", 2, "--zero-stage 1")]
    start = ["", GPT, "--tp 2"]
    whole = train(data, folder, "whole", 2, start)[0]
    train(data, folder, "half", 2, start, steps=STEPS // 2)
    train(data, folder, "half cpu", 2, start, "cpu", steps=STEPS // 2)
    for device, ranks, words in others:
        rest = train(data, folder, f"rest {device}", ranks, ["", GPT, words], device, load=os.path.join(folder, "half"))[0]
        near(f"from cuda to {device}", rest, whole, BOUND[""])
    near("from cpu to cuda", train(data, folder, "rest of cpu", 2, ["", GPT, "--pp 2"], load=os.path.join(folder, "half-cpu"))[0], whole, BOUND[""])
    print("a checkpoint of cuda goes on on cpu, ref and cuda under another layout, and one of cpu on cuda")


def killed(data, folder):
    layout = ["--bf16", LLAMA, "--zero-stage 2"]
    whole = train(data, folder, "not killed", 2, layout)
    for after in (1, 2, 3) if FULL else (2,):
        out = os.path.join(folder, f"killed-{after}")
        words = [*words_of(data, out, "cuda", *layout, STEPS), "--save-interval", "1", "--load", out, "--ranks", "2"]
        child = subprocess.Popen([SHIM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None and not os.path.exists(os.path.join(out, f"step_{after:08d}")):
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        done = subprocess.run([SHIM, *words], capture_output=True, text=True, timeout=600)
        if done.returncode:
            sys.exit(f"after kill -9: {done.stderr}")
        got = run.metrics(out + ".jsonl"), run.digest(os.path.join(out, f"step_{STEPS:08d}"))
        same(f"killed after the checkpoint of step {after}", got, whole)
    print("after kill -9: the losses and weights of a run that was not killed, to the bit")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        layouts(data, folder, run.launchers())
        goes_on(data, folder)
        killed(data, folder)
    return 0


sys.exit(main())
