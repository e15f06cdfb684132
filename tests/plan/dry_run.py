"""The dry run of a training: its memory does not depend on the number of stages, its table fits a screen, --verbose prints every rank in its
stage, and the rank with the most memory is the largest of these."""
import os
import random
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
TINY = "--hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 259 --data-path none --train-iters 1 --global-batch-size 48"
# the rank with the most memory is not the first one of its stage, or in the other order of ranks
UNEVEN = {
    "muon zero1": "--num-layers 3 --hidden-size 512 --num-attention-heads 8 --seq-length 128 --ranks 8 --optimizer muon --zero-stage 1 "
                  "--global-batch-size 8 --train-iters 1 --data-path none",
    "uneven stages in the other order": "--model gpt2-124m --global-batch-size 12 --ranks 4 --pp 2 --decoder-first-pipeline-num-layers 2 "
                                        "--data-path none --train-iters 1 --use-tp-pp-dp-mapping",
    "tp in the other order": TINY + " --num-layers 6 --ranks 16 --tp 2 --pp 2 --cp 2 --use-tp-pp-dp-mapping",
}
PURPOSES = ["persistent", "weights", "master weights", "gradients", "optimizer states", "activations", "wgrad_saved", "recomputed", "gathered", "scratch", "workspace", "host", "total"]
UNIT = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
failures = []
DRAWN = 400 if os.environ.get("JOTUN_FULL") else 15 if os.environ.get("SANITIZE") else 60      # drawn runs


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


def stage_of(rank, words):
    """The stage of a rank: tp and cp vary fastest, then dp, and pp slowest; or pp before dp."""
    size = {axis: int((re.search(rf"--{axis} (\d+)", words) or [0, 1])[1]) for axis in ("tp", "cp", "pp", "ranks")}
    block = rank // (size["tp"] * size["cp"])
    return block % size["pp"] if "--use-tp-pp-dp-mapping" in words else rank // (size["ranks"] // size["pp"])


def check_most(name, words):
    """The rank that the table names has the most memory of all, and --verbose says of each the stage that the order of ranks gives it."""
    done, verbose = dry_run(words), dry_run(words + " --verbose")
    check(done.returncode == 0 and verbose.returncode == 0, f"{name}: {words}: {done.stderr or verbose.stderr}")
    ranks = {}
    for first, last, stage, size in re.findall(r"^ranks? (\d+)(?: to (\d+))?, stage (\d+): (.*) per rank$", verbose.stdout, re.M):
        for rank in range(int(first), int(last or first) + 1):
            ranks[rank] = (int(stage), size)
    wrong = [rank for rank, (stage, _) in ranks.items() if stage != stage_of(rank, words)]
    check(ranks and not wrong, f"{name}: {words}: --verbose shows ranks {wrong} in other stages")
    bytes_of = {size: float(size.split()[0]) * UNIT[size.split()[1]] for _, size in ranks.values()}
    most = max(bytes_of, key=bytes_of.get, default="")
    for text in (done.stdout, verbose.stdout):
        said = re.search(r"^rank with the most memory  (.*), rank (\d+) in stage (\d+)$", text, re.M)
        check(said and said[1] == most and ranks.get(int(said[2])) == (int(said[3]), most),
              f"{name}: {words}: said {said and said[0]}, of --verbose's ranks the most is {most}")


def drawn_layout(draw):
    """A layout of up to 16 ranks; some are refused."""
    tp, cp, pp = draw.choice([1, 1, 2, 4]), draw.choice([1, 1, 2]), draw.choice([1, 1, 2])
    dp = draw.choice([d for d in range(1, 9) if d * tp * cp * pp <= 16 and 48 % d == 0])
    words = [TINY, f"--ranks {tp * cp * pp * dp} --tp {tp} --cp {cp} --pp {pp}", "--optimizer " + draw.choice(["adam", "sgd", "lion", "lamb", "adafactor", "adam-mini", "adamwschedulefree", "muon", "muon", "adam8bit", "galoreadamw8bit", "shampoo", "soap"]),
             f"--num-layers {draw.choice([3, 6])}", f"--zero-stage {draw.choice([0, 1, 1, 2, 3])}" if dp * cp > 1 else ""]
    options = ["--use-tp-pp-dp-mapping"] * (pp > 1) + ["--decoder-first-pipeline-num-layers 2"] * (pp == 2) + ["--sequence-parallel"] * (tp > 1)
    options += ["--no-overlap", "--bf16", "--swiglu", "--num-query-groups 2", "--untie-embeddings-and-output-weights"]
    words += [option for option in options if draw.random() < 0.4]
    if draw.random() < 0.4:
        ep = draw.choice([e for e in (1, 2, 4) if tp * cp * dp % e == 0])
        words.append(f"--num-experts 4 --moe-router-topk 2 --disable-bias-linear --ep {ep}")
    if dp % 2 == 0 and draw.random() < 0.3:
        words.append(f"--hybrid-shard-size {draw.choice([2, dp * cp // 2])}")
    return " ".join(words)


def check_drawn(count):
    """Of the drawn layouts most can be laid out."""
    draw, refused = random.Random(11), []
    for number in range(count):
        words = drawn_layout(draw)
        done = dry_run(words)
        if done.returncode != 0:
            refused.append(done.stderr)
        else:
            check_most(f"layout {number}", words)
    check(len(refused) < count / 2, f"{len(refused)} of {count} drawn layouts are refused: {refused[:1]}")


def check_states():
    """Of Llama 2 7B: 8 bytes an element; with codes of 8 bits (2110.02861) 2 of a matrix of a layer and 8 of each 256 of its elements. Some of whole matrices."""
    sides = 4 * [(4096, 4096)] + 2 * [(11008, 4096)] + [(4096, 11008)]
    matrices, others = 32 * sum(rows * columns for rows, columns in sides), 2 * 32000 * 4096 + 65 * 4096
    squares, low = 32 * sum(rows ** 2 + columns ** 2 for rows, columns in sides), 32 * sum(min(x) + 2 * max(x) for x in sides)
    wanted = {"adam": 8 * (matrices + others), "adam8bit": (2 + 8 / 256) * matrices + 8 * others, "galoreadamw": 4 * 128 * low + 8 * others,
              "soap --max-preconditioner-dim 16384": 8 * (matrices + squares + others)}
    for name, count in wanted.items():
        done = dry_run(f"--model llama2-7b --mock-data --optimizer {name} --device cpu --ranks 1")
        found = table(done.stdout).get("optimizer states", [0])[0]
        check(abs(found / count - 1) < 0.01, f"{name}: {found:.4g} bytes of states, expected {count:.4g} {done.stderr.strip()}")
    # what docs/optimizers.md says of whole models with 8-bit states
    for model, said in ("gpt2-124m", 3.93), ("llama2-7b", 2.26):
        done = dry_run(f"--model {model} --mock-data --optimizer adam8bit --device cpu --ranks 1")
        found = table(done.stdout).get("optimizer states", [0])[0] / int(re.search(r"parameters\s+(\d+)", done.stdout)[1])
        check(abs(found - said) < 0.02, f"{model}: {found:.3f} bytes of 8-bit states a parameter, not {said}")


def check_published():
    """The models of Narayanan et al. fit GPUs of 80 GB by their layout, precision and recomputation, as they did; a given type counts more."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "presets", "megatron_table.txt")
    models = [line.split()[0] for line in open(path) if not line.startswith("#")]
    for name in models:
        done = dry_run(f"--model megatron-{name}")
        found = table(done.stdout).get("total", [1e99])
        check(max(found) < 80e9, f"megatron-{name}: {max(found):.4g} bytes on a rank {done.stderr.strip()}")
        check("fp16" in done.stdout + done.stderr, f"megatron-{name}: not fp16: {done.stdout[:300]}")
    check(len(models) == 10, f"{len(models)} models")
    for more in "--bf16", "--device ref", "--fp16=false":
        done = dry_run(f"--model megatron-1.7b {more}")
        check(done.returncode == 0 and "fp16" not in done.stdout, f"megatron-1.7b {more}: {done.stderr} {done.stdout[:300]}")
    check(dry_run("--model megatron-1.7b --bf16 --fp16").returncode == 1, "--bf16 --fp16 are taken both")


for name, words in UNEVEN.items():
    check_most(name, words)
check_states()
check_published()
check_drawn(DRAWN)
for name, words in LAYOUTS.items():
    check_table(name, words)
    check_verbose(name, words)
for megabytes in (16000, 400) if not os.environ.get("SANITIZE") else ():          # a sanitizer's shadow takes more
    done = dry_run(HUGE, megabytes << 20)
    check(done.returncode == 0, f"pp64 with {megabytes} MiB of addresses: {done.stderr.strip()}")

print("\n".join(failures) if failures else f"{len(LAYOUTS)} dry runs: each table fits a screen; most memory is right of {len(UNEVEN) + DRAWN} layouts")
sys.exit(1 if failures else 0)
