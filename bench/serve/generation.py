#!/usr/bin/env python3
"""The speed of generation with GPT-2 124M on this CPU, beside llama.cpp's in the same run.

    python3 bench/serve/generation.py BUILD [--rounds N] [--threads N] [--tokens N]      BUILD: the build folder, build/release

Needs `ninja -C BUILD bin/jotun bench_few_rows`; with `pip install llama-cpp-python numpy` llama.cpp runs on the exported GGUF
files. The weights are random, since speed does not depend on them. A round runs one after another:

- how fast all threads add up memory (bench_few_rows) and multiply (jotun bench peak), which are the bounds;
- jotun with weights in bf16 and int8, llama.cpp with BF16 and Q8_0: one prompt, 16 prompts at once, and one prompt of 1,000
  tokens of which one token is wanted. Prompts have 8 tokens, the same for both; all is greedy; times include the prompt.

Bounds: a token at one prompt reads all weights but the position embeddings once, 2 bytes or 1 each; scales of the 8-bit weights
and the key-value cache are not counted. 1,000 positions take 2 operations for each weight of the blocks and position, the head's
for the last one alone, and attention's two products over the pairs that it sees. Medians over the rounds are printed, and where
less is reached than WANTED, or than llama.cpp with prompts of 8 tokens; then the exit status is 1."""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

LAYERS, HIDDEN, VOCABULARY, POSITIONS = 12, 768, 50257, 1024
BLOCKS = LAYERS * (12 * HIDDEN * HIDDEN + 13 * HIDDEN)          # weights, biases and norms of the blocks
READ = BLOCKS + VOCABULARY * HIDDEN                             # weights that a token reads
TYPES = {"bf16": (2, "stored", "bf16"), "int8": (1, "int8", "q8_0")}           # bytes, --weights, type of the GGUF file
PREFILL = 2 * (BLOCKS * 1000 + VOCABULARY * HIDDEN) + 4 * LAYERS * HIDDEN * 1000 * 1001 // 2      # operations
WANTED = {"1 prompt": 80, "16 prompts": 5, "1000 tokens": 60}                  # % of the bound, times one prompt, % of the bound
LOADS = {"1 prompt": (1, 8), "16 prompts": (16, 8), "1000 tokens": (1, 1000)}   # prompts, tokens of each


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def prompts(load):
    count, length = LOADS[load]
    draw = random.Random(1)
    return [[draw.randrange(256) for _ in range(length)] for _ in range(count)]


def made(load, tokens):
    return 1 if load == "1000 tokens" else tokens


class Jotun:
    def __init__(self, build, folder, threads, tokens, kernels):
        self.program, self.folder, self.threads, self.tokens = os.path.join(build, "bin", "jotun"), folder, threads, tokens
        self.kernels = ["--kernels", kernels] if kernels else []
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as f:
            f.write("A text of some words that nothing depends on. " * 100)
        call(self.program, "prepare", "--input", text, "--tokenizer", "bytes", "--output-prefix", os.path.join(folder, "text"))
        data = next(n[:-4] for n in os.listdir(folder) if n.endswith(".idx"))
        call(self.program, "train", "--model", "gpt2-124m", "--data-path", os.path.join(folder, data), "--split", "100,0,0",
             "--bf16", "--micro-batch-size", 1, "--global-batch-size", 1, "--seq-length", 64, "--max-position-embeddings", POSITIONS,
             "--train-iters", 1, "--save", os.path.join(folder, "run"))
        for load in LOADS:
            with open(self.file(load), "w") as f:
                f.writelines(json.dumps({"ids": ids}) + "\n" for ids in prompts(load))

    def file(self, load):
        return os.path.join(self.folder, load.replace(" ", "_") + ".jsonl")

    def export(self, kind):
        path = os.path.join(self.folder, kind + ".gguf")
        call(self.program, "convert", "--input", os.path.join(self.folder, "run"), "--to", "gguf", "--output", path,
             "--output-dtype", kind)
        return path

    def seconds(self, kind, load):
        """Of the engine, from the first prompt to the last token; and tokens"""
        text = call(self.program, "generate", "--load", os.path.join(self.folder, "run"), "--tokenizer", "bytes", "--bf16",
                    "--weights", TYPES[kind][1], "--prompt-jsonl", self.file(load), "--temperature", 0,
                    "--max-new-tokens", made(load, self.tokens), "--micro-batch-size", 16, "--threads", self.threads, *self.kernels)
        found = re.search(r"(\d+) tokens in ([\d.]+) s", text)
        return float(found[2]), int(found[1])


class Llama:
    """llama.cpp by its C functions, which take several texts at once; the next ids are numpy's argmax"""
    def __init__(self, path, threads, tokens):
        import ctypes
        import llama_cpp
        import numpy
        self.c, self.np, self.tokens = llama_cpp, numpy, tokens
        silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        self.silent = silent
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 16 * 256, 1024, 1024
        params.n_seq_max, params.n_threads, params.n_threads_batch = 16, threads, threads
        if hasattr(params, "kv_unified"):
            params.kv_unified = True                 # so that one text may have all positions
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.model or not self.context:
            sys.exit(f"llama.cpp does not open {path}")
        self.batch = llama_cpp.llama_batch_init(1024, 0, 16)

    def decode(self, rows):
        """rows: (id, position, text, whether logits are wanted); returns the likeliest ids of those"""
        b = self.batch
        b.n_tokens = len(rows)
        for i, (token, position, text, wanted) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, wanted
            b.seq_id[i][0] = text
        if self.c.llama_decode(self.context, b):
            sys.exit("llama_decode failed")
        view = lambda i: self.np.ctypeslib.as_array(self.c.llama_get_logits_ith(self.context, i), shape=(VOCABULARY,))
        return [int(self.np.argmax(view(i))) for i, row in enumerate(rows) if row[3]]

    def seconds(self, load):
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)
        texts = prompts(load)
        begun = time.perf_counter()
        rows = [(t, p, k, p == len(ids) - 1) for k, ids in enumerate(texts) for p, t in enumerate(ids)]
        ids = self.decode(rows)
        for n in range(1, made(load, self.tokens)):
            ids = self.decode([(t, len(texts[k]) + n - 1, k, True) for k, t in enumerate(ids)])
        return time.perf_counter() - begun, len(texts) * made(load, self.tokens)


def bounds(build, threads, kernels):
    """GB/s of reading memory; GFLOP/s in bf16, or in fp32 where the cores have no products of bf16"""
    text = call(os.path.join(build, "bin", "bench_few_rows"), kernels or "best", threads, "bf16")
    read = statistics.median(float(x) for x in re.findall(r"GB/s\s+([\d.]+) GB/s", text))
    peak = call(os.path.join(build, "bin", "jotun"), "bench", "peak", *(["--kernels", kernels] if kernels else []))
    burst = {kind: float(value) for kind, value in re.findall(r"^(\w+), GFLOP/s:.* ([\d.]+)$", peak, re.M)}
    return read, burst.get("bf16", burst["fp32"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--kernels", help="jotun's family, and that of the bound of products; without it the one that jotun takes")
    a = parser.parse_args()
    try:
        import llama_cpp
        import numpy
    except ImportError:
        llama_cpp = None
        print("llama-cpp-python and numpy are not installed: llama.cpp is not measured")
    with tempfile.TemporaryDirectory() as folder:
        ours = Jotun(a.build, folder, a.threads, a.tokens, a.kernels)
        theirs = {kind: Llama(ours.export(TYPES[kind][2]), a.threads, a.tokens) for kind in TYPES} if llama_cpp else {}
        read, peak, speed = [], [], {}
        for _ in range(a.rounds):
            r, p = bounds(a.build, a.threads, a.kernels)
            read.append(r), peak.append(p)
            for kind in TYPES:
                for load in LOADS:
                    for name in ("jotun", "llama.cpp")[:2 if theirs else 1]:
                        s, tokens = ours.seconds(kind, load) if name == "jotun" else theirs[kind].seconds(load)
                        speed.setdefault((kind, load, name), []).append((LOADS[load][1] if tokens == 1 else tokens) / s)
    read, peak = statistics.median(read), statistics.median(peak)
    print(f"{a.rounds} rounds, {a.threads} threads, {a.tokens} new tokens; memory {read:.1f} GB/s, products {peak:.0f} GFLOP/s; load "
          f"{os.getloadavg()[0]:.1f}")
    missed = []
    print("| weights | what | jotun | llama.cpp | jotun / llama.cpp | of the bound |\n|---|---|---|---|---|---|")
    for kind in TYPES:
        median = {k[1:]: statistics.median(v) for k, v in speed.items() if k[0] == kind}
        for load in LOADS:
            own, other = median[load, "jotun"], median.get((load, "llama.cpp"))
            share = {"1 prompt": f"{own * READ * TYPES[kind][0] / read / 1e7:.1f} %",
                     "16 prompts": f"{own / median['1 prompt', 'jotun']:.2f} times one prompt",
                     "1000 tokens": f"{own * PREFILL / peak / 1e10:.1f} %"}[load]
            peer = (f"{other:.1f} tokens/s", f"{own / other:.2f}") if other else ("not measured", "")
            print(f"| {kind} | {load} | {own:.1f} tokens/s | {peer[0]} | {peer[1]} | {share} |")
            figure = float(share.split()[0])
            if figure < WANTED[load]:
                missed.append(f"{kind}, {load}: {share}, where {WANTED[load]} are wanted")
            if other and "prompt" in load and own < other:
                missed.append(f"{kind}, {load}: {own / other:.3f} of llama.cpp's speed")
    for line in missed:
        print("missed:", line)
    sys.exit(bool(missed))


main()
