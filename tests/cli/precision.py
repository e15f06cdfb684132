"""A model of 4 layers of 128 and its Llama-like twin in bf16, fp16 and with bf16 moments: losses near those of fp32.

    precision.py [steps]         default 30 on small batches, of the twin bf16 and fp16 alone (JOTUN_FULL: 300, on larger ones)

Small batches at a learning rate of 2e-3 diverge from each other exponentially, in fp32 by other sums as well, so they have a lower one.

The first loss within 2e-3; the mean of the last tenth of the steps within 1 %, with bf16 moments within 2 %. The text is Python's own
library: enough that 300 steps read nothing twice.
"""
import glob
import json
import os
import sys

import run

FULL = bool(os.environ.get("JOTUN_FULL"))
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300 if FULL else 30
BATCH = "--micro-batch-size 8 --global-batch-size 16 --lr 2e-3 --lr-warmup-iters 50" if FULL else "--micro-batch-size 2 --global-batch-size 4 --lr 5e-4"
MODEL = f"""--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --position-embedding-type rope {BATCH}
            --attention-dropout 0 --hidden-dropout 0 --min-lr 2e-4 --lr-decay-style cosine
            --eval-interval 0 --log-interval 1000""".split()
TWIN = "--normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --num-query-groups 2".split()
MOMENTS = "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"
FP8 = "--bf16 --fp8-format hybrid"
TYPES = {                        # words, largest relative difference of the last losses
    "bf16": ("--bf16", 0.01),
    "fp16": ("--fp16 --initial-loss-scale 65536", 0.01),
    "bf16, bf16 moments": ("--bf16 " + MOMENTS, 0.02),
    "bf16, bf16 moments, stochastic": ("--bf16 --stochastic-rounding " + MOMENTS, 0.02),
    "fp8, delayed": (FP8, 0.02),
    "fp8, current": (FP8 + " --fp8-recipe tensorwise", 0.02),
    "bf16, bf16 messages on 2 ranks": ("--bf16 --grad-reduce-in-bf16 --ranks 2 --zero-stage 1", 0.01),
}


def losses(folder, model, words):
    out = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(out):
        os.remove(out)
    said = run.jotun("train", "--data-path", os.path.join(folder, "text_text_document"), "--tokenizer", os.path.join(folder, "tokenizer.json"),
                     "--train-iters", STEPS, *MODEL, *model, *words.split(), "--metrics", out).stderr
    grows = MOMENTS in words and "stochastic" not in words
    if grows != ("--adam-beta2 0.999: 1 - 0.999 is less than 2^-8" in said):
        sys.exit(f"{words}: the line of the second moment is wrong\n{said}")
    by_step = run.metrics(out)
    return [by_step[s] for s in sorted(by_step)]


def prepared(folder):
    tokenizer, lines, size = os.path.join(folder, "tokenizer.json"), os.path.join(folder, "text.jsonl"), 0
    with open(lines, "w") as out:
        for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
            text = open(path, encoding="utf-8", errors="replace").read()
            out.write(json.dumps({"text": text}) + "\n")
            size += len(text)
    run.jotun("tokenizer", "train", "--input", lines, "--vocab-size", 2000, "--output", tokenizer)
    run.jotun("prepare", "--input", lines, "--tokenizer", tokenizer, "--append-eod", "--output-prefix", os.path.join(folder, "text"))
    print(f"{size} characters of Python's library")


def main():
    last = max(1, STEPS // 10)
    bad = 0
    with run.work_folder() as folder:
        prepared(folder)
        for name, model in ("quickstart", []), ("llama", TWIN):
            truth = losses(folder, model, "")
            end = sum(truth[-last:]) / last
            print(f"{name}: fp32 {truth[0]:.4f} -> {end:.4f} in {STEPS} steps")
            for types, (words, most) in TYPES.items():
                if not FULL and len(sys.argv) == 1 and model and types not in ("bf16", "fp16"):
                    continue
                mine = losses(folder, model, words)
                first, rest = abs(mine[0] - truth[0]), abs(sum(mine[-last:]) / last - end) / end
                wrong = not (first <= 2e-3 and rest <= most)
                bad += wrong
                print(f"{name}, {types}: first loss off by {first:.1e}, last by {100 * rest:.2f} %{'   WRONG' if wrong else ''}", flush=True)
    return 1 if bad else 0


sys.exit(main())
