"""Times GPT-2 encoding on one core: jotun, tiktoken, tokenizers and gigatoken, one after the other, several rounds in one run.

    pip install tiktoken tokenizers gigatoken
    python3 bench/text/encode_vs_peers.py BENCH_TEXT FOLDER FILE.jsonl [--passes N] [--rounds N]

BENCH_TEXT: the program of `ninja bench_text`. FOLDER: encoder.json, vocab.bpe and r50k_base.tiktoken. Each round starts each of
them again, pinned to one core, with the documents in memory and the tokenizer loaded; the first pass and all passes are timed,
by CPU time, since machines have other work to do. All must give as many tokens. Reported are medians over the rounds, and the best; a peer that is not installed is reported and skipped.
"""
import argparse
import base64
import json
import os
import re
import statistics
import subprocess
import sys
import time

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
PEERS = ("tiktoken", "tokenizers", "gigatoken")


def tiktoken_encode(folder):
    import tiktoken
    ranks = {}
    for line in open(os.path.join(folder, "r50k_base.tiktoken"), "rb"):
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    encoding = tiktoken.Encoding("r50k", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})
    return lambda documents: sum(len(encoding.encode_ordinary(d)) for d in documents)


def tokenizers_encode(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(os.path.join(folder, "encoder.json"), os.path.join(folder, "vocab.bpe")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda documents: sum(len(e.ids) for e in tokenizer.encode_batch(documents, add_special_tokens=False))


def gigatoken_encode(folder):
    import gigatoken
    tokenizer = gigatoken.Tokenizer.from_tiktoken(os.path.join(folder, "r50k_base.tiktoken"))
    return lambda documents: sum(len(ids) for ids in tokenizer.encode_batch(documents, parallel=False))


def peer_run(name, folder, path, passes):
    """In a process of its own: seconds of the first pass and of all, tokens of one"""
    documents = [json.loads(line)["text"] for line in open(path, encoding="utf-8")]
    encode = globals()[name + "_encode"](folder)
    seconds = []
    for _ in range(passes):
        begun = time.process_time()
        tokens = encode(documents)
        seconds.append(time.process_time() - begun)
    print(json.dumps([seconds[0], sum(seconds), tokens]))


def one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def peer_time(name, o):
    command = [sys.executable, __file__, o.bench_text, o.folder, o.file, "--passes", str(o.passes), "--peer", name]
    environment = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, preexec_fn=one_core)
    if done.returncode:
        return None
    first, every, tokens = json.loads(done.stdout)
    return o.bytes / first / 1e6, o.bytes * o.passes / every / 1e6, tokens


def jotun_time(o):
    command = [o.bench_text, o.folder, o.file, str(o.passes)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=one_core).stdout
    first = float(re.search(r"pass 1: [\d.]+ MB/s, ([\d.]+) MB/s of CPU time", said).group(1))
    every = float(re.search(rf"passes 1 to {o.passes}: [\d.]+ MB/s, ([\d.]+) of CPU", said).group(1))
    return first, every, int(re.search(r"(\d+) tokens", said).group(1))


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("bench_text")
    words.add_argument("folder")
    words.add_argument("file")
    words.add_argument("--passes", type=int, default=10)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--peer", help=argparse.SUPPRESS)
    o = words.parse_args()
    if o.peer:
        return peer_run(o.peer, o.folder, o.file, o.passes)
    o.bytes = sum(len(json.loads(line)["text"].encode()) for line in open(o.file, encoding="utf-8"))
    figures = {"jotun": [], **{name: [] for name in PEERS}}
    for _ in range(o.rounds):
        figures["jotun"].append(jotun_time(o))
        for name in PEERS:
            figures[name].append(peer_time(name, o))
    ours = figures["jotun"]
    print(f"{o.bytes / 1e6:.1f} MB, {o.rounds} rounds, one core; MB/s of CPU time: median (best)")
    for name, rows in figures.items():
        if None in rows:
            print(f"{name:11} did not run: is it installed?")
            continue
        first, every = ([row[i] for row in rows] for i in (0, 1))
        ratios = [statistics.median(a[i] / b[i] for a, b in zip(ours, rows)) for i in (0, 1)]
        same = "" if {row[2] for row in rows} == {ours[0][2]} else f"  OTHER TOKENS: {rows[0][2]}, jotun {ours[0][2]}"
        print(f"{name:11} first pass {statistics.median(first):7.1f} ({max(first):.1f})   {o.passes} passes {statistics.median(every):7.1f}"
              f" ({max(every):.1f})   jotun is {ratios[0]:.1f} and {ratios[1]:.1f} times as fast{same}")


if __name__ == "__main__":
    main()
