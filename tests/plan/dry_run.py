"""The dry run of a training: its memory does not depend on the number of stages, its table fits a screen, and --verbose prints every rank."""
import os
import re
import resource
import subprocess
import sys

JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
SMALL = "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --train-iters 1 --lr 1e-4 --data-path none --micro-batch-size 1"
HUGE = ("--num-layers 128 --hidden-size 25600 --num-attention-heads 160 --seq-length 2048 --vocab-size 51200 --ranks 3072 --tp 8 --pp 64 "
        "--global-batch-size 3072 --micro-batch-size 1 --train-iters 1 --lr 1e-4 --data-path none")
LAYOUTS = {
    "one rank": SMALL + " --ranks 1 --global-batch-size 4",
    "pp4 zb-h1 zero3": SMALL + " --ranks 8 --pp 4 --global-batch-size 64 --pipeline-schedule zb-h1 --zero-stage 3",
    "interleaved": SMALL + " --ranks 8 --tp 2 --pp 4 --num-layers-per-virtual-pipeline-stage 1 --global-batch-size 64",
    "pp12": SMALL + " --ranks 12 --pp 12 --global-batch-size 1536",
    "a trillion parameters, pp64": HUGE,
}
PURPOSES = ["persistent", "weights", "master weights", "gradients", "optimizer states", "activations", "wgrad_saved", "recomputed", "gathered", "scratch", "workspace", "host", "total"]
UNIT = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
failures = []


def dry_run(words, addresses=None):
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))) if addresses else None
    return subprocess.run([JOTUN, "train", "--dry-run"] + words.split(), capture_output=True, text=True, timeout=100, preexec_fn=limit)


def check(good, what):
    if not good:
        failures.append(what)


def table(text):
    """purpose -> bytes of each column"""
    rows = {}
    for line in text.splitlines():
        m = re.match(r" *(%s) +((?:[0-9.]+ [KMGT]?i?B *)+)$" % "|".join(PURPOSES), line)
        if m:
            rows[m[1]] = [float(n) * UNIT[u] for n, u in re.findall(r"([0-9.]+) (\w+)", m[2])]
    return rows


def check_table(name, words):
    done = dry_run(words)
    lines = done.stdout.splitlines()
    check(done.returncode == 0, f"{name}: {done.stderr}")
    check(len(lines) <= 24 and max(map(len, lines), default=0) <= 80,
          f"{name}: {len(lines)} lines of up to {max(map(len, lines), default=0)} columns")
    rows = table(done.stdout)
    check(sorted(rows) == sorted(PURPOSES), f"{name}: rows {sorted(rows)}")
    parts = [p for p in PURPOSES if p not in ("weights", "master weights", "gradients", "optimizer states", "total")]
    for i, total in enumerate(rows.get("total", [])):
        summed = sum(rows[p][i] for p in parts if p in rows)
        check(abs(summed - total) <= 0.1 * total, f"{name}, column {i}: {summed:.4g} bytes in rows, {total:.4g} in total")
    check("rank with the most memory" in done.stdout, f"{name}: no rank with the most memory")
    check(not re.search(r"\b(forever|flight|gather)\b", done.stdout), f"{name}: arenas under other names")


def check_verbose(name, words):
    done = dry_run(words + " --verbose")
    ranks = [(int(a), int(b or a)) for a, b in re.findall(r"^ranks? (\d+)(?: to (\d+))?, stage", done.stdout, re.M)]
    world = int(re.search(r"--ranks (\d+)", words)[1])
    check(ranks and ranks[0][0] == 0 and ranks[-1][1] == world - 1 and all(a[1] + 1 == b[0] for a, b in zip(ranks, ranks[1:])),
          f"{name}, --verbose: of {world} ranks it prints {ranks} {done.stderr}")
    check("query key value" in done.stdout and "optimizer states" in done.stdout, f"{name}, --verbose: no pushes")


for name, words in LAYOUTS.items():
    check_table(name, words)
    check_verbose(name, words)
for megabytes in (16000, 400) if not os.environ.get("SANITIZE") else ():          # a sanitizer's shadow takes more
    done = dry_run(HUGE, megabytes << 20)
    check(done.returncode == 0, f"pp64 with {megabytes} MiB of addresses: {done.stderr.strip()}")

print("\n".join(failures) if failures else f"{len(LAYOUTS)} dry runs: each table fits a screen")
sys.exit(1 if failures else 0)
