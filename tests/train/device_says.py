"""What runs with --device cuda say, whose kernels the shim of tests/tensor runs on the CPU, as a GPU called NVIDIA H100 80GB HBM3: which of their
kernels are slow and why, in the log and in the dry run; the peak of which MFU is a share, which ranks on one GPU share.

    SHIM_BINARY=path of the binary with the shim
"""
import json
import os
import subprocess
import sys

import run

SHIM = os.environ["SHIM_BINARY"]
SMALL = ["--mock-data", "--vocab-size", 260, "--num-layers", 1, "--hidden-size", 32, "--num-attention-heads", 2, "--seq-length", 16, "--micro-batch-size", 1,
         "--global-batch-size", 2, "--train-iters", 1, "--lr", "1e-3", "--threads", 1, "--log-interval", 1]
BOTH = "attention_forward and attention_backward: slow, since attention "
BACKWARD = "attention_backward: slow, since the backward pass of heads with more than 128 channels is not computed by tensor cores; with up to 128 it is"
SLOW = [
    ([], BOTH + "in fp32 is not computed by tensor cores; with --bf16 or --fp16 it is"),
    (["--bf16"], None), (["--fp16"], None), (["--bf16", "--kv-channels", 128], None), (["--bf16", "--attn-logit-softcapping", 5], None),
    (["--bf16", "--position-embedding-type", "alibi"], BOTH + "with ALiBi is not computed by tensor cores; with rotary or learned positions it is"),
    (["--bf16", "--kv-channels", 136], BACKWARD),
    (["--bf16", "--kv-channels", 12], BOTH + "is computed by tensor cores where the channels of heads (--kv-channels) are multiples of 8"),
]


def shim(*words, code=0, env={}):
    command = [SHIM, "train", *map(str, SMALL), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0", **env})
    if done.returncode != code:
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr}")
    return done


def slow_of(text):
    return [line.removeprefix("jotun: ") for line in text.splitlines() if ": slow, since " in line]


def slow_kernels():
    for words, line in SLOW:
        want = [line] if line else []
        for got in slow_of(shim("--device", "cuda", *words).stderr), slow_of(shim("--device", "cuda", "--dry-run", *words).stdout), slow_of(
                shim("--device", "cuda", "--dry-run", "--verbose", *words).stdout):
            if got != want:
                sys.exit(f"{words}: slow kernels {got}, not {want}")
        if slow_of(shim("--device", "cpu", *words).stderr):
            sys.exit(f"{words}: slow kernels on a CPU")


def peaks(folder):
    for words, type_, flops in ([], "fp32", 67e12), (["--bf16"], "bf16", 989e12), (["--bf16", "--ranks", 2], "bf16", 989e12), (["--fp16", "--peak-tflops", 500], "fp16", 5e14):
        out = os.path.join(folder, "peak.jsonl")
        told = shim("--device", "cuda", "--metrics", out, *words).stderr
        row = [json.loads(line) for line in open(out)][-1]
        os.remove(out)
        how = "--peak-tflops" if "--peak-tflops" in words else "the data sheet of NVIDIA H100 80GB HBM3"
        if f"MFU is a share of 1 x {flops / 1e12:g} TFLOP/s in {type_}, the peak of a GPU by {how}\n" not in told or "  MFU " not in told:
            sys.exit(f"{words}: no peak of {flops} in\n{told}")
        if abs(row["mfu_full"] * flops / row["model_flops_per_second_full"] - 1) > 1e-4 or row["hfu_full"] != row["mfu_full"]:
            sys.exit(f"{words}: {row} is no share of {flops}")


if __name__ == "__main__":
    with run.work_folder() as folder:
        slow_kernels()
        peaks(folder)
    print(f"{len(SLOW)} models, with the slow kernels that they have; peaks by type and of ranks that share a GPU")
