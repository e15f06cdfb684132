"""Times jotun tokenizer train and Hugging Face's trainer on the same documents, and compares their merges and ids.

    pip install tokenizers
    python3 bench/text/train_vs_hf.py JOTUN FILE.jsonl [--vocab-size N] [--threads N]

Both get the same cores; CPU seconds stand beside wall seconds, for machines that have other work to do.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time


def hugging_face(path, size, output):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    with open(path, encoding="utf-8") as lines:
        tokenizer.train_from_iterator((json.loads(line)["text"] for line in lines), trainers.BpeTrainer(
            vocab_size=size, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.save(output)


def timed(name, command, threads):
    cores = sorted(os.sched_getaffinity(0))[:threads]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true")
    subprocess.run(command, check=True, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cores), stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:14} {wall:7.2f} s wall {cpu:7.2f} s CPU", flush=True)
    return wall, cpu


def compare(ours, theirs, path):
    from tokenizers import Tokenizer
    a, b = (json.load(open(name, encoding="utf-8"))["model"] for name in (ours, theirs))
    different = [i for i, (x, y) in enumerate(zip(a["merges"], b["merges"])) if x != y]
    same = len(a["merges"]) == len(b["merges"]) and not different and a["vocab"] == b["vocab"]
    print(f"merges {len(a['merges'])} and {len(b['merges'])}: " + ("the same" if same else f"different, first at {different[:1]}"))
    a, b = Tokenizer.from_file(ours), Tokenizer.from_file(theirs)
    with open(path, encoding="utf-8") as lines:
        texts = [json.loads(next(lines))["text"] for _ in range(20)]
    ids = all(a.encode(text).ids == b.encode(text).ids and a.decode(a.encode(text).ids) == text for text in texts)
    print("ids of 20 documents: " + ("the same, and back to the text" if ids else "different"))
    return same and ids


def main():
    words = argparse.ArgumentParser()
    words.add_argument("jotun")
    words.add_argument("file")
    words.add_argument("--vocab-size", type=int, default=32000)
    words.add_argument("--threads", type=int, default=2)
    words.add_argument("--hugging-face", metavar="OUTPUT", help=argparse.SUPPRESS)
    o = words.parse_args()
    if o.hugging_face:
        return hugging_face(o.file, o.vocab_size, o.hugging_face)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = os.path.join(folder, "ours.json"), os.path.join(folder, "theirs.json")
        a = timed("jotun", [o.jotun, "tokenizer", "train", "--input", o.file, "--vocab-size", str(o.vocab_size),
                            "--threads", str(o.threads), "--output", ours], o.threads)
        b = timed("Hugging Face", [sys.executable, __file__, o.jotun, o.file, "--vocab-size", str(o.vocab_size),
                                   "--hugging-face", theirs], o.threads)
        print(f"{b[0] / a[0]:.1f} times as fast by wall, {b[1] / a[1]:.1f} by CPU")
        return 0 if compare(ours, theirs, o.file) else 1


if __name__ == "__main__":
    sys.exit(main())
