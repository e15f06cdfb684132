"""What runs with --device cuda say, whose kernels the shim of tests/tensor runs on the CPU, as a GPU called NVIDIA H100 80GB HBM3: which of their
kernels are slow and why, in the log and in the dry run; the peak of which MFU is a share, which ranks on one GPU share; and which
device --device auto takes, and why, on ranks that agree; whether a run fits a GPU of --gpu.

    SHIM_BINARY=path of the binary with the shim
"""
import glob
import json
import os
import re
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


EXPERTS = ["--num-experts", 4, "--disable-bias-linear"]
AUTO = [
    ([], ""), (["--bf16", "--ranks", 2], ""),
    (EXPERTS, "mixtures of experts are not built for --device cuda (route_forward has no kernel)"),
    (["--num-layers", 2, "--ranks", 2, "--pp", 2, *EXPERTS, "--moe-layer-freq", "([0]+[1])"], "mixtures of experts are not built for --device cuda (route_forward has no kernel)"),
    (["--optimizer", "soap"], "--optimizer soap is not built for --device cuda"), (["--kernels", "portable"], "--kernels portable are kernels of CPUs"),
    (["--bf16", "--fp8-format", "e4m3", "--hidden-size", 64], "--device cuda trains in fp32, or with --bf16 or --fp16"),
    (["--sample-interval", 1, "--sample-prompt", "a", "--tokenizer", "bytes"], "samples of text (--sample-interval) are not built for GPUs"),
]


def device_of(text):
    """(device of the run, why --device auto took the CPU)"""
    why = re.findall(r"^jotun: --device auto: cpu, since (.*)$", text, re.M)
    return re.search(r" on rank 0; device (\w+), ", text)[1], *(why or [""])


def auto_devices():
    for words, why in AUTO:
        device, told = device_of(shim(*words).stderr)
        if device != ("cpu" if why else "cuda") or not told.startswith(why) or bool(told) != bool(why):
            sys.exit(f"--device auto {words}: {device}, since {told}; wanted: {why}")
    done = run.jotun("train", *SMALL)
    if device_of(done.stderr) != ("cpu", "") and not glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/kfd"):
        sys.exit(f"a machine without a GPU:\n{done.stderr}")
    for name, command in run.launchers().items():
        # the program without kernels is a rank without a GPU
        for programs, want in ((SHIM, SHIM), ("cuda", "")), ((run.JOTUN, run.JOTUN), ("cpu", "")), ((SHIM, run.JOTUN), ("cpu", "rank 1: it has no GPU")), ((run.JOTUN, SHIM), ("cpu", "rank 0: it has no GPU")):
            parts = []
            for program in programs:
                parts += [*([":", "-n"] if parts else []), "1", program, "train", *map(str, SMALL)]
            done = subprocess.run([*command, *parts], capture_output=True, text=True, timeout=600, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
            if done.returncode or device_of(done.stderr) != want:
                sys.exit(f"{name}, {programs}: {done.stderr}")


def bytes_of(text):
    number, unit = text.split()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)


def named_gpus():
    """The numbers of a dry run for a GPU add up; what does not fit, and what has no kernels."""
    big = ["--model", "llama2-7b", "--bf16", "--micro-batch-size", 1, "--hidden-size", 4096, "--num-layers", 32, "--num-attention-heads", 32, "--seq-length", 4096, "--vocab-size", 32000]
    for words, gpu, fits in ([], "H100", True), (["--ranks", 4, "--tp", 2], "h200-nvl", True), (big, "H100", False), (big, "B200", True):
        told = shim("--dry-run", "--gpu", gpu, *words).stdout
        of = {key: bytes_of(value) for key, value in re.findall(r"^(host|total) +([0-9.]+ \w*B)$", told, re.M)}
        besides = re.search(r"besides, not measured: about ([0-9.]+ \w*B) of a GPU \(driver 512.0 MiB, cuBLASLt 64.0 MiB(?:, NCCL ([0-9.]+ \w*B) of (\d+) links?)?\)\n", told)
        verdict = re.search(rf"^{gpu.upper()} with ([0-9.]+ GiB): (fits|does not fit), ([0-9.]+ \w*B) (are left|too much)$", told, re.M)
        if not besides or not verdict or (verdict[2] == "fits") != fits or bool(besides[2]) != ("--ranks" in words):
            sys.exit(f"--gpu {gpu} {words}:\n{told}")
        left = bytes_of(verdict[1]) - of["total"] + of["host"] - bytes_of(besides[1])
        if abs(left - (1 if fits else -1) * bytes_of(verdict[3])) > 0.2 * 2 ** 30:
            sys.exit(f"--gpu {gpu} {words}: {left} bytes are left by the table:\n{told}")
        if besides[2] and abs(bytes_of(besides[2]) - int(besides[3]) * 8 * 9.2 * 2 ** 20) > 2 ** 20:      # 8 blocks with the buffers of three protocols
            sys.exit(f"--gpu {gpu} {words}: {besides[0]}")
        if verdict[0] not in shim("--dry-run", "--gpu", gpu, *words, "--verbose").stdout:
            sys.exit(f"--gpu {gpu} {words} --verbose says otherwise")
    staged = shim("--dry-run", "--gpu", "H100", "--device", "cuda", "--device-transport", "staged", "--ranks", 2).stdout
    if "NCCL" in staged or "not counted: pinned memory of the host" not in staged or "H100 with" in shim("--dry-run", "--device", "cuda").stdout:
        sys.exit(f"a dry run of staged messages:\n{staged}")
    if "besides" in shim("--dry-run", "--device", "cpu").stdout:
        sys.exit("a dry run on a CPU has a driver of GPUs")
    for words, why in ((["--dry-run", "--gpu", "X1"], "--gpu X1 is not known; give one of V100"), (["--dry-run", "--gpu", "V100"], "--gpu V100: this program has kernels for NVIDIA's GPUs of compute capability "),
                       (["--dry-run", "--gpu", "AMD Instinct MI300X"], "--gpu MI300X: this program has kernels for NVIDIA's GPUs of compute capability "), (["--gpu", "H100"], "has no effect without --dry-run"),
                       (["--dry-run", "--gpu", "H100", "--device", "cpu"], "--device"), (["--dry-run", "--gpu", "H100", *EXPERTS], "mixtures of experts are not built")):
        if why not in shim(*words, code=1).stderr:
            sys.exit(f"{words} is refused by another message than: {why}")


if __name__ == "__main__":
    with run.work_folder() as folder:
        slow_kernels()
        peaks(folder)
    auto_devices()
    named_gpus()
    print(f"{len(SLOW)} models, with the slow kernels that they have; peaks by type and of ranks that share a GPU; {len(AUTO)} choices of --device auto, and those of ranks under {' and '.join(run.launchers()) or 'no MPI'}")
