"""Whole training steps of GPT-2 124M and of one of 4 layers of 128 (row quickstart) on this CPU, beside the machine's peak and beside PyTorch:

    python3 bench/train/gpt2_steps.py [JOTUN] [--rows ROW,...] [--torch PYTHON] [--all-torch] [--steps N] [--kernels FAMILY]

For each row (batch size, sequence length, type) it measures the peak (`jotun bench peak`) before and after jotun, and then, with --torch,
PyTorch under PYTHON (a Python that has it), all of it within the same minutes, since machines change. tokens/s are medians of the steps
after the second, and the best of them; the share is that of model FLOPs, attention counted in full, of the mean of both peaks (fp32: FMA,
bf16: vdpbf16ps). memory is the largest resident size. "start" is the time from the start of the process to the end of a run of one step,
less a median step and less the time that it takes to touch as many bytes for the first time with as many threads.

--gemm BENCH_GEMM adds the matrix products alone. PyTorch runs eagerly and compiled, in bf16 with fp32 weights and with bf16 weights;
--all-torch adds max-autotune and another allocator.
"""
import argparse
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from throughput import corpus

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("torch_gpt", os.path.join(HERE, "..", "peers", "torch_gpt.py"))
torch_gpt = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(torch_gpt)

CORES = len(os.sched_getaffinity(0))
RECOMPUTE = ["--recompute-granularity", "selective", "--recompute-modules", "layernorm", "mlp_act"]
QUICKSTART = ["--num-layers", "4", "--hidden-size", "128", "--num-attention-heads", "4", "--seq-length", "128", "--position-embedding-type",
              "rope", "--micro-batch-size", "8", "--global-batch-size", "16"]


def peak(jotun, kind, kernels):
    """GFLOP/s of all cores, with the instructions of a family of kernels."""
    text = subprocess.run([jotun, "bench", "peak", "--kernels", kernels], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^(\w+), GFLOP/s:.*?([\d.]+)$", text, re.M)
    return float(dict(rows).get(kind, dict(rows)["fp32"]))


def finished(command):
    """Seconds, and the largest resident size in bytes."""
    begin = time.monotonic()
    done = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = done.stderr.read()
    _, status, usage = os.wait4(done.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)}\n{errors.decode()}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024


TOUCH = """
import concurrent.futures, ctypes, mmap, os, sys, time
size, cores = int(sys.argv[1]), len(os.sched_getaffinity(0))
memory = mmap.mmap(-1, size)
if hasattr(mmap, "MADV_HUGEPAGE"):
    memory.madvise(mmap.MADV_HUGEPAGE)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
begin = time.monotonic()
with concurrent.futures.ThreadPoolExecutor(cores) as pool:
    list(pool.map(lambda i: ctypes.memset(at + i * (size // cores), 1, size // cores), range(cores)))
print(time.monotonic() - begin)
"""


def first_touch(size):
    """Seconds to write `size` bytes of new memory, in huge pages where there are some, each core a part."""
    return float(subprocess.run([sys.executable, "-c", TOUCH, str(size)], check=True, capture_output=True, text=True).stdout)


def options(row):
    if row == "quickstart":
        return QUICKSTART, "fp32"
    batch, length, kind = torch_gpt.ROWS[row]
    return (["--model", "gpt2-124m", "--micro-batch-size", str(batch), "--global-batch-size", str(batch), "--seq-length", str(length),
             "--max-position-embeddings", "1024", "--vocab-size", "50257"] + (["--bf16"] if kind == "bf16" else []), kind)


def jotun_row(jotun, folder, data, row, steps, kernels, more):
    chosen, kind = options(row)
    chosen = chosen + more
    metrics = os.path.join(folder, row + ".jsonl")
    command = [jotun, "train", "--data-path", data, "--split", "1", "--lr", "1e-4", "--hidden-dropout", "0", "--attention-dropout", "0",
               "--eval-interval", "0", "--log-interval", "1", "--threads", str(CORES), "--kernels", kernels] + chosen
    steps = 40 * steps if row == "quickstart" else steps
    limit = peak(jotun, kind, kernels)
    # a virtual machine's host may have to find memory for the first of two runs, which is not jotun's time
    first, small = min(finished(command + ["--train-iters", "1"]) for _ in range(2))
    touch = min(first_touch(small) for _ in range(2))
    _, memory = finished(command + ["--train-iters", str(steps + 2), "--metrics", metrics])
    limit = (limit + peak(jotun, kind, kernels)) / 2
    timed = [json.loads(line) for line in open(metrics)][2:]
    rates = [step["tokens_per_second"] for step in timed]
    tokens, per_token = statistics.median(rates), timed[0]["model_flops_per_second_full"] / timed[0]["tokens_per_second"]
    step = statistics.median(one["seconds"] for one in timed)
    print(f"{row:14} jotun {tokens:9.1f} tokens/s, best {max(rates):9.1f}  {tokens * per_token / limit / 1e7:5.1f} %, best "
          f"{max(rates) * per_token / limit / 1e7:5.1f} % of {limit:.0f} GFLOP/s  {memory / 2**20:7.0f} MiB  1 step {first:5.1f} s, step "
          f"{step:.2f} s, first touch {touch:.1f} s: start {first - step - touch:.2f} s", flush=True)
    return tokens, memory


def torch_row(row, steps, all_modes):
    best = None
    for mode in torch_gpt.grid(torch_gpt.ROWS[row][2], not all_modes):
        result = torch_gpt.run(row, mode, steps, 600)
        name = f"{mode['compile']}, weights {mode['weights']}, allocator {mode['allocator']}"
        if not result:
            print(f"{row:14} PyTorch {name}: failed or took more than 600 s", flush=True)
            continue
        print(f"{row:14} PyTorch {result['tokens']:6.1f} tokens/s, best {result['best']:6.1f}  {result['memory'] / 2**20:7.0f} MiB  {name}",
              flush=True)
        if not best or result["tokens"] > best["tokens"]:
            best = result
    return best


def gemm_rows(bench, kernels):
    for types in ("fp32", "bf16-out"):
        text = subprocess.run([bench, "best" if kernels == "auto" else kernels, types], check=True, capture_output=True, text=True).stdout
        print(f"gemm {types:9} {[line for line in text.splitlines() if line.startswith('% of the burst')][0]}", flush=True)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("jotun", nargs="?", default="build/release/bin/jotun")
    words.add_argument("--rows", default=",".join(["quickstart", *torch_gpt.ROWS]), help="some of quickstart, " + ", ".join(torch_gpt.ROWS))
    words.add_argument("--steps", type=int, default=5, help="timed steps")
    words.add_argument("--kernels", default="auto", help="jotun's family of kernels")
    words.add_argument("--recompute", action="store_true", help="less memory: jotun recomputes norms and activation functions")
    words.add_argument("--gemm", metavar="BENCH_GEMM", help="the program bench_gemm, for the matrix products alone")
    words.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch")
    words.add_argument("--all-torch", action="store_true", help="the whole grid of bench/peers/torch_gpt.py")
    a = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="jotun-bench-") as folder:
        data = corpus(a.jotun, folder)
        if a.gemm:
            gemm_rows(a.gemm, a.kernels)
        if a.torch:
            sys.executable = a.torch                         # of torch_gpt's children
            print(subprocess.run([a.torch, "-c", "import torch; print('PyTorch', torch.__version__)"], capture_output=True,
                                 text=True, check=True).stdout.strip())
        for row in a.rows.split(","):
            tokens, memory = jotun_row(a.jotun, folder, data, row, a.steps, a.kernels, RECOMPUTE if a.recompute else [])
            best = torch_row(row, a.steps, a.all_torch) if a.torch and row in torch_gpt.ROWS else None
            if best:
                print(f"{row:14} ratio {tokens / best['tokens']:.2f} in tokens/s, {memory / best['memory']:.2f} in memory", flush=True)
    return 0


sys.exit(main())
