"""Times jotun langid and fastText's own tool on the same lines, one core each, by CPU time, in turns.

    apt-get install fasttext
    python3 bench/clean/langid_vs_fasttext.py JOTUN MODEL FILE [--turns N]

FILE: lines (.txt), or documents (.jsonl, key "text") whose paragraphs become lines. Both open the model, read the file and
print a label a line; the ratio is of the quickest turn of each. Labels are compared too.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile


def lines_of(path, folder):
    if not path.endswith(".jsonl"):
        return path
    lines = os.path.join(folder, "lines.txt")
    with open(path, encoding="utf-8") as documents, open(lines, "w", encoding="utf-8") as out:
        for document in documents:
            out.writelines(line + "\n" for line in json.loads(document)["text"].split("\n") if line.strip())
    return lines


def timed(command, output):
    core = sorted(os.sched_getaffinity(0))[:1]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(output, "w") as out:
        subprocess.run(command, check=True, stdout=out, preexec_fn=lambda: os.sched_setaffinity(0, core))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    words = argparse.ArgumentParser()
    words.add_argument("jotun")
    words.add_argument("model")
    words.add_argument("file")
    words.add_argument("--turns", type=int, default=5)
    o = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = lines_of(o.file, folder)
        ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
        size = os.path.getsize(lines) / 1e6
        took = ([], [])
        for _ in range(o.turns):
            took[0].append(timed([o.jotun, "langid", "--model", o.model, "--threads", "1", "--input", lines], ours))
            took[1].append(timed(["fasttext", "predict-prob", o.model, lines, "1"], theirs))
            print(f"jotun {size / took[0][-1]:6.1f} MB/s   fasttext {size / took[1][-1]:5.1f} MB/s   {took[1][-1] / took[0][-1]:.1f} times", flush=True)
        with open(ours) as a, open(theirs) as b:
            a, b = a.read().split("\n"), b.read().split("\n")
        different = len(a) != len(b) or sum(x.split()[:1] != y.split()[:1] for x, y in zip(a, b))
        best = [min(t) for t in took]
        print(f"{size:.1f} MB, {len(a) - 1} lines, {int(different)} labels differ: jotun {size / best[0]:.1f} MB/s, fasttext {size / best[1]:.1f} MB/s: "
              f"{best[1] / best[0]:.1f} times as fast")
        return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
