"""Whole training steps of GPT-2 124M on this CPU, beside the machine's peak and beside PyTorch:

    python3 bench/train/gpt2_steps.py [JOTUN] [--rows ROW,...] [--torch PYTHON] [--all-torch] [--steps N]

For each row (batch size, sequence length, type) it measures the peak (`jotun bench peak`), then jotun, then, with --torch, PyTorch under
PYTHON (a Python that has it), all of it within the same minutes, since machines change. tokens/s are medians of the steps after the second;
the share is that of model FLOPs, attention counted in full, of the peak (fp32: FMA, bf16: vdpbf16ps) measured just before. memory is the
largest resident size. "1 step" is a whole run of one step, from the start of the process to its end.

PyTorch runs eagerly and compiled, in bf16 with fp32 weights and with bf16 weights; --all-torch adds max-autotune and another allocator.
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


def peak(jotun, kind):
    """GFLOP/s of all cores."""
    text = subprocess.run([jotun, "bench", "peak"], check=True, capture_output=True, text=True).stdout
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


def jotun_row(jotun, folder, data, row, steps):
    batch, length, kind = torch_gpt.ROWS[row]
    metrics = os.path.join(folder, row + ".jsonl")
    command = [jotun, "train", "--model", "gpt2-124m", "--data-path", data, "--split", "1", "--micro-batch-size", str(batch),
               "--global-batch-size", str(batch), "--seq-length", str(length), "--max-position-embeddings", "1024", "--lr", "1e-4",
               "--hidden-dropout", "0", "--attention-dropout", "0", "--eval-interval", "0", "--log-interval", "1", "--vocab-size", "50257",
               "--threads", str(len(os.sched_getaffinity(0)))] + (["--bf16"] if kind == "bf16" else [])
    limit = peak(jotun, kind)
    first, _ = finished(command + ["--train-iters", "1"])
    _, memory = finished(command + ["--train-iters", str(steps + 2), "--metrics", metrics])
    timed = [json.loads(line) for line in open(metrics)][2:]
    tokens = statistics.median(step["tokens_per_second"] for step in timed)
    share = statistics.median(step["model_flops_per_second_full"] for step in timed) / limit / 1e7
    print(f"{row:14} jotun {tokens:8.1f} tokens/s  {share:5.1f} % of {limit:.0f} GFLOP/s  {memory / 2**20:7.0f} MiB  1 step {first:5.1f} s",
          flush=True)
    return tokens, memory


def torch_row(row, steps, all_modes):
    best = None
    for mode in torch_gpt.grid(torch_gpt.ROWS[row][2], not all_modes):
        result = torch_gpt.run(row, mode, steps, 600)
        name = f"{mode['compile']}, weights {mode['weights']}, allocator {mode['allocator']}"
        if not result:
            print(f"{row:14} PyTorch {name}: failed or took more than 600 s", flush=True)
            continue
        print(f"{row:14} PyTorch {result['tokens']:6.1f} tokens/s  {result['memory'] / 2**20:7.0f} MiB  {name}", flush=True)
        if not best or result["tokens"] > best["tokens"]:
            best = result
    return best


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("jotun", nargs="?", default="build/release/bin/jotun")
    words.add_argument("--rows", default=",".join(torch_gpt.ROWS), help="some of " + ", ".join(torch_gpt.ROWS))
    words.add_argument("--steps", type=int, default=5, help="timed steps")
    words.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch")
    words.add_argument("--all-torch", action="store_true", help="the whole grid of bench/peers/torch_gpt.py")
    a = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="jotun-bench-") as folder:
        data = corpus(a.jotun, folder)
        if a.torch:
            sys.executable = a.torch                         # of torch_gpt's children
            print(subprocess.run([a.torch, "-c", "import torch; print('PyTorch', torch.__version__)"], capture_output=True,
                                 text=True, check=True).stdout.strip())
        for row in a.rows.split(","):
            tokens, memory = jotun_row(a.jotun, folder, data, row, a.steps)
            best = torch_row(row, a.steps, a.all_torch) if a.torch else None
            if best:
                print(f"{row:14} ratio {tokens / best['tokens']:.2f} in tokens/s, {memory / best['memory']:.2f} in memory", flush=True)
    return 0


sys.exit(main())
