"""Two ranks with a thread each against one rank with two threads:   python3 bench/train/two_ranks.py [JOTUN] [--rows ROW,...]

Whole steps of GPT-2 124M (or --layers of it) on --micro-batch sequences of 1024 tokens, which tensor- and context-parallel
ranks share and data-parallel ranks each have. For each row one rank, two ranks and one rank again run
--steps steps; the number is the tokens per second of two ranks over the mean of both runs of one rank, medians over all
steps but the first. With --mpirun the two ranks are processes of that launcher. Measure on a machine without other load.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from throughput import corpus

ROWS = {
    "zero1":     ["--zero-stage", "1"],
    "tp":        ["--tp", "2"],
    "sp":        ["--tp", "2", "--sequence-parallel"],
    "p2p":       ["--cp", "2", "--cp-comm-type", "p2p"],
    "a2a":       ["--cp", "2", "--cp-comm-type", "a2a"],
    "allgather": ["--cp", "2", "--cp-comm-type", "allgather"],
}


def run(a, data, folder, batch, options, launcher=()):
    """Tokens per second, the median over all steps but the first."""
    metrics = os.path.join(folder, "metrics.jsonl")
    command = [*launcher, a.jotun, "train", "--model", "gpt2-124m", "--seq-length", "1024", "--num-layers", str(a.layers),
               "--micro-batch-size", str(a.micro_batch), "--global-batch-size", str(batch), "--data-path", data,
               "--split", "1", "--train-iters", str(a.steps), "--metrics", metrics, *a.more.split(), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    rows = [json.loads(line) for line in open(metrics)][1:]
    os.remove(metrics)
    return statistics.median(row["tokens_per_second"] for row in rows)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("jotun", nargs="?", default="build/release/bin/jotun")
    words.add_argument("--rows", default=",".join(ROWS))
    words.add_argument("--layers", type=int, default=12)
    words.add_argument("--micro-batch", type=int, default=4)
    words.add_argument("--steps", type=int, default=3)
    words.add_argument("--mpirun", default="", help='launcher of two processes, such as "mpirun -n 2"')
    words.add_argument("--more", default="", help="options of every run, such as --bf16")
    a = words.parse_args()
    two = ["--threads", "1"] + ([] if a.mpirun else ["--ranks", "2"])
    with tempfile.TemporaryDirectory(prefix="jotun-bench-") as folder:
        data = corpus(a.jotun, folder)
        print(f"{os.cpu_count()} cores; tokens/s of one rank with two threads, of two ranks with one, ratio")
        for name in a.rows.split(","):
            one = ["--ranks", "1", "--threads", "2"]
            batch = a.micro_batch * (2 if name == "zero1" else 1)
            before = run(a, data, folder, batch, one)
            both = run(a, data, folder, batch, two + ROWS[name], a.mpirun.split())
            after = run(a, data, folder, batch, one)
            print(f"{name:10} {before:9,.0f} {after:9,.0f} {both:9,.0f}   {2 * both / (before + after):5.2f}", flush=True)


if __name__ == "__main__":
    main()
