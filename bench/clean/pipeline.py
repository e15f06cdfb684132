#!/usr/bin/env python3
"""How fast `jotun clean` is as a whole, on one worker and on two, and whether the time of a document stays the same:

    bench/clean/pipeline.py JOTUN FILE.jsonl [MODEL]             real text: its chapters cut into documents of about 2 KB
    bench/clean/pipeline.py JOTUN synthetic N [N...]             documents of about 1 KB, three in ten copies of others

Prints MB/s of text for a core (of CPU time) and in all, microseconds of CPU a document, peak memory and the disk used besides
input and output. All stages are on: characters, language (where there is a model), quality, exact and near duplicates."""
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

STAGES = ["--charset", "sv", "--quality", "gopher,repetition", "--near-threshold", "0.8"]
SPLIT = 2000


def real(path, out):
    """Paragraphs one after the other, about 2 KB a document."""
    count = 0
    with open(out, "w", encoding="utf-8") as file:
        for line in open(path, encoding="utf-8"):
            piece = ""
            for paragraph in json.loads(line)["text"].split("\n"):
                piece += paragraph + "\n"
                if len(piece.encode()) >= SPLIT:
                    file.write(json.dumps({"id": str(count), "text": piece}, ensure_ascii=False) + "\n")
                    count, piece = count + 1, ""
    return count


def sentences(rng, number):
    words = ["".join(rng.choice(["ka", "sol", "den", "å", "ra", "män", "is", "på", "ett", "löv", "to", "gr", "och", "s"])
                     for _ in range(rng.randint(1, 4))) for _ in range(30000)]
    weights = [1 / (i + 3) for i in range(len(words))]
    drawn = rng.choices(words, weights, k=16 * number)
    return [" ".join(drawn[16 * i:16 * i + rng.randint(6, 16)]).capitalize() + ". " for i in range(number)]


def synthetic(number, out):
    rng = random.Random(1)
    pool, kept = sentences(rng, 200000), []
    with open(out, "w", encoding="utf-8") as file:
        for i in range(number):
            copy = i % 10
            if copy >= 3 or not kept:
                text = "".join(rng.choices(pool, k=16))
                if i % 7 == 0:
                    kept = kept[-2000:] + [text]
            else:
                text = rng.choice(kept)
                if copy:                                        # two words of some 180 are others
                    words = text.split(" ")
                    words[rng.randrange(len(words))] = words[rng.randrange(len(words))] = "annat"
                    text = " ".join(words)
            file.write(text + "\n")
    return number


def size_of(path):
    try:
        return os.path.getsize(path)
    except FileNotFoundError:                                   # removed since it was listed
        return 0


def disk(folder):
    return sum(size_of(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def measure(jotun, source, documents, workers, more):
    folder = tempfile.mkdtemp(prefix="jotun-bench-", dir=os.path.dirname(source))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    child = subprocess.Popen([jotun, "clean", "--input", source, "--output", f"{folder}/out.txt", "--workers", str(workers), *STAGES, *more],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    most, peak = 0, 0
    while child.poll() is None:
        most = max(most, disk(folder))
        try:
            peak = max(peak, int(next(line.split()[1] for line in open(f"/proc/{child.pid}/status") if line.startswith("VmHWM"))))
        except (OSError, StopIteration):
            pass
        time.sleep(0.05 if documents < 200000 else 1)
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode:
        sys.exit(f"exit code {child.returncode}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = os.path.getsize(source)
    print(f"{documents} documents of {size / documents:.0f} bytes, {workers} workers: {size / cpu / 1e6:.1f} MB/s a core, {size / wall / 1e6:.1f} MB/s, "
          f"{1e6 * cpu / documents:.1f} us a document, peak {peak >> 10} MiB, disk {most / 1e9:.2f} GB", flush=True)
    if workers == 1 or sys.argv[2] == "synthetic":
        print("".join("    " + line + "\n" for line in child.stdout.read().splitlines() if line), end="")
    shutil.rmtree(folder)
    return cpu / documents


def main():
    jotun, what = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix="jotun-bench-", dir=os.environ.get("TMPDIR")) as folder:
        if what == "synthetic":
            each = []
            for number in [int(float(word)) for word in sys.argv[3:]] or [100000, 1000000]:
                source = f"{folder}/made.txt"
                synthetic(number, source)
                each.append(measure(jotun, source, number, 2, []))
            print(f"time of a document, last against first: {each[-1] / each[0]:.2f}")
            return
        source = f"{folder}/real.jsonl"
        documents = real(what, source)
        more = ["--lang", "sv", "--lang-model", sys.argv[3]] if len(sys.argv) > 3 else []
        for workers in 1, 2:
            measure(jotun, source, documents, workers, more)


main()
