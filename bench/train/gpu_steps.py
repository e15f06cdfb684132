"""Whole training steps of GPT-2 124M on this machine's first NVIDIA GPU, jotun and PyTorch after one another:

    python3 bench/train/gpu_steps.py JOTUN [--rows ROW,...] [--steps N] [--data PREFIX] [--no-torch]

Rows are those of bench/peers/torch_gpt.py, which measures PyTorch: eagerly and compiled, in bf16 with fp32 weights and
with bf16 weights. Neither side has dropout. tokens/s are medians of the steps after the third. PyTorch pads the
vocabulary to 50,304; jotun has 50,257 ids.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile

from throughput import corpus

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = os.path.join(HERE, "..", "peers", "torch_gpt.py")
SPEC = importlib.util.spec_from_file_location("torch_gpt", PEER)
torch_gpt = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(torch_gpt)


def steps_of(jotun, data, row, steps, folder):
    batch, length, kind = torch_gpt.ROWS[row]
    metrics = os.path.join(folder, row + ".jsonl")
    subprocess.run([jotun, "train", "--device", "cuda", "--model", "gpt2-124m", "--data-path", data, "--split", "1",
                    "--micro-batch-size", str(batch), "--global-batch-size", str(batch), "--seq-length", str(length),
                    "--max-position-embeddings", "1024", "--vocab-size", "50257", "--hidden-dropout", "0",
                    "--attention-dropout", "0", "--lr", "1e-4", "--eval-interval", "0", "--train-iters", str(steps + 3),
                    "--metrics", metrics] + (["--bf16"] if kind == "bf16" else []), check=True, capture_output=True)
    with open(metrics) as lines:
        rows = [json.loads(line) for line in lines]
    return [r["tokens_per_second"] for r in rows if r.get("tokens_per_second")][3:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jotun")
    parser.add_argument("--rows", default="bf16-b16-t1024")
    parser.add_argument("--steps", type=int, default=20, help="timed steps (after 3 of warm-up)")
    parser.add_argument("--data", help="prefix of prepared tokens; else random bytes are prepared")
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or corpus(options.jotun, folder)
        for row in options.rows.split(","):
            speeds = steps_of(options.jotun, data, row, options.steps, folder)
            print(f"{row:14} jotun: {statistics.median(speeds):.0f} tokens/s (best {max(speeds):.0f})", flush=True)
    if not options.no_torch:
        subprocess.run([sys.executable, PEER, "--device", "cuda", "--quick", "--rows", options.rows, "--steps",
                        str(options.steps)], check=True)


if __name__ == "__main__":
    main()
