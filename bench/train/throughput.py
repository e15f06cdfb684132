"""Training throughput and memory of three small models:   python3 bench/train/throughput.py [JOTUN] [--ranks N] [--only NAME]

Runs `jotun train` for a few steps on random bytes and prints one row a model: tokens a second, model FLOP/s and MFU as the
trainer reports them (medians over all steps but the first), the memory that the dry run predicts for all ranks together,
and the largest resident size that the system measured. Needs nothing but the binary; takes about two minutes on two cores.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import tempfile

#        name           steps  options
MODELS = [
    ("jotun-tiny",      40,    ["--micro-batch-size", "8", "--global-batch-size", "16"]),
    ("jotun-small",     8,     ["--micro-batch-size", "4", "--global-batch-size", "8"]),
    ("gpt2-124m",       4,     ["--micro-batch-size", "1", "--global-batch-size", "2"]),
]
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def corpus(jotun, folder):
    """A corpus of random bytes of text, prepared; returns its prefix."""
    draw = random.Random(1)
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as out:
        for _ in range(400):
            out.write("".join(draw.choice("abcdefghij klmnop") for _ in range(1000)) + "\n")
    prefix = os.path.join(folder, "corpus")
    subprocess.run([jotun, "prepare", "--input", text, "--tokenizer", "bytes", "--append-eod", "--output-prefix", prefix],
                   check=True, capture_output=True)
    return prefix + "_text_document"


def dry_run(command):
    """Parameters, and the bytes of the largest rank as the dry run predicts them."""
    text = subprocess.run(command + ["--dry-run"], check=True, capture_output=True, text=True).stdout
    parameters = int(re.search(r"parameters\s+(\d+)", text).group(1))
    size, unit = re.search(r"rank with the most memory\s+([\d.]+) (\w+)", text).groups()
    return parameters, float(size) * UNITS[unit]


def peak_memory(command):
    """Runs the command; returns its largest resident size in bytes."""
    done = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(done.pid, 0)
    done.returncode = os.waitstatus_to_exitcode(status)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
    return usage.ru_maxrss * 1024


def measure(jotun, folder, data, ranks, name, steps, options):
    metrics = os.path.join(folder, name + ".jsonl")
    command = [jotun, "train", "--model", name, "--data-path", data, "--split", "1", "--train-iters", str(steps),
               "--ranks", str(ranks), "--metrics", metrics] + options
    parameters, planned = dry_run(command)
    resident = peak_memory(command)
    rows = [json.loads(line) for line in open(metrics)][1:]
    middle = lambda key: statistics.median(row[key] for row in rows)
    mfu = f"{100 * middle('mfu_full'):.1f} %" if rows[0].get("mfu_full") is not None else "-"
    print(f"{name:12} {parameters / 1e6:8.1f} M  {middle('tokens_per_second'):9,.0f} tokens/s  "
          f"{middle('model_flops_per_second_full') / 1e9:7.1f} GFLOP/s  MFU {mfu}  "
          f"planned {ranks * planned / 2**20:7.0f} MiB  resident {resident / 2**20:7.0f} MiB", flush=True)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("jotun", nargs="?", default="build/release/bin/jotun")
    words.add_argument("--ranks", type=int, default=min(2, os.cpu_count()), help="data-parallel ranks, as threads")
    words.add_argument("--only", help="one model of the list")
    a = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="jotun-bench-") as folder:
        data = corpus(a.jotun, folder)
        print(f"{a.ranks} ranks (data parallel), {os.cpu_count()} cores")
        for name, steps, options in MODELS:
            if a.only in (None, name):
                measure(a.jotun, folder, data, a.ranks, name, steps, options)


if __name__ == "__main__":
    main()
