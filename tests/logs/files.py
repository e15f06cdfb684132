"""The logs of a run that is killed and resumed hold each step once, in all formats the same numbers; what a disk has no room for
leaves whole records and is said once."""
import csv
import json
import os
import re
import resource
import struct
import sys
import tempfile

import events
import run

STEPS, KILLED = 14, 9                                   # checkpoints every 4 steps; killed within step 9, after step 8 was saved


def fp32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def words(data, out, metrics, *more):
    return [str(w) for w in ["train", "--data-path", data, *run.MODEL, "--train-iters", STEPS, "--threads", 1, "--save", out, "--load", out,
                             "--save-interval", 5, "--metrics", metrics, "--eval-interval", 3, "--eval-iters", 1, "--split", "80,10,10",
                             "--log-interval", 2, *more]]


def tensorboard(folder):
    return ["--tensorboard-dir", folder, "--log-timers-to-tensorboard", "--log-validation-ppl-to-tensorboard",
            "--log-world-size-to-tensorboard", "--log-memory-to-tensorboard", "--tensorboard-queue-size", 5]


def rows(path):
    """JSON objects as they are; rows of CSV with the empty fields left out."""
    if path.endswith(".jsonl"):
        return [json.loads(line) for line in open(path)]
    read = []
    for row in csv.DictReader(open(path)):
        row = {key: value for key, value in row.items() if value != ""}
        if row["split"] == "train":
            del row["split"]
        read.append({key: value if key == "split" else float(value) for key, value in row.items()})
    return read


def same(a, b, keys, what):
    a, b = [[row.get(key) for key in keys] for row in a], [[row.get(key) for key in keys] for row in b]
    if a != b:
        sys.exit(f"{what}:\n{a}\n{b}")


def compare_events(found, lines):
    """Each line of --metrics is in the event files once, under Megatron-LM's names, and nothing else is."""
    trained, evaluated = [r for r in lines if "split" not in r], [r for r in lines if r.get("split") == "valid"]
    for tag, key, of in (("lm loss", "loss", trained), ("learning-rate", "lr", trained), ("grad-norm", "grad_norm", trained),
                         ("lm loss validation", "loss", evaluated), ("lm loss validation ppl", "perplexity", evaluated)):
        wanted = [(int(r["step"]), fp32(r[key])) for r in of]
        if found[tag] != wanted:
            sys.exit(f"{tag}:\n{found[tag]}\nbut --metrics has\n{wanted}")
        if found[tag + " vs samples"] != [(8 * step, value) for step, value in wanted]:
            sys.exit(f"{tag} vs samples: {found[tag + ' vs samples']}")
    for tag, value in ("batch-size", 8), ("world-size", 1), ("loss-scale", 1):
        if found[tag] != [(int(r["step"]), value) for r in trained]:
            sys.exit(f"{tag}: {found[tag]}")
    means = [r for r in trained if "mean_of_steps" in r]
    if found["mem-allocated-bytes"] != [(int(r["step"]), fp32(r["memory_bytes"])) for r in means]:
        sys.exit(f"mem-allocated-bytes: {found['mem-allocated-bytes']}")
    if [step for step, _ in found["iteration-time"]] != [step for step, _ in found["throughput"]] != [int(r["step"]) for r in means]:
        sys.exit(f"iteration-time: {found['iteration-time']}")


def killed_and_resumed(data, folder):
    """As CSV and as JSON lines; the second also cuts an incomplete last line. The numbers are those of a run that was not killed."""
    whole = os.path.join(folder, "whole.jsonl")
    run.jotun(*words(data, os.path.join(folder, "whole"), whole))
    for kind in "csv", "jsonl":
        out, metrics, board = (os.path.join(folder, f"{kind}{end}") for end in ("", "." + kind, ".board"))
        first = run.jotun(*words(data, out, metrics, *tensorboard(board)), check=False, env=dict(os.environ, JOTUN_FAULT=f"step:{KILLED}:kill"))
        if first.returncode != -9 or [r["step"] for r in rows(metrics) if "split" not in r] != list(range(1, KILLED)):
            sys.exit(f"a run to be killed: exit code {first.returncode}, {rows(metrics)}\n{first.stderr}")
        [path] = [os.path.join(board, name) for name in os.listdir(board)]
        with open(metrics, "a") as half:
            half.write("9,tra" if kind == "csv" else '{"step":9,"lo')
        with open(path, "ab") as half:
            half.write(open(path, "rb").read()[:30])                 # a record that ends too early
        second = run.jotun(*words(data, out, metrics, *tensorboard(board)))
        removed = re.search(rf"--metrics {re.escape(metrics)}: (\d) lines of steps after 5 are removed", second.stderr)
        if not removed or removed[1] != "4" or "events of steps after 5 are removed" not in second.stderr:
            sys.exit(f"what a resumed run says of its logs:\n{second.stderr}")
        lines = rows(metrics)
        same(lines, rows(whole), ["step", "split", "loss", "lr", "grad_norm", "tokens", "perplexity", "mfu_x"], f"{metrics} and a run in one piece")
        found, texts = events.scalars(board)
        compare_events(found, lines)
        if len(os.listdir(board)) != 2 or texts["num_layers/text_summary"] != "4" or texts["lr_decay_style/text_summary"] != "cosine":
            sys.exit(f"{os.listdir(board)}, {texts}")


def earlier_files(data, folder):
    """A new run appends; other programs' event files and other columns stay as they are; a file that is no table is refused."""
    metrics, board = os.path.join(folder, "earlier.csv"), os.path.join(folder, "earlier")
    os.mkdir(board)
    foreign = os.path.join(board, "events.out.tfevents.9999999990.host")
    open(foreign, "wb").write(b"of another program")
    open(metrics, "w").write("step,loss,comment\n7,1.5,mine\n")
    run.jotun(*[w for w in words(data, os.path.join(folder, "e"), metrics, "--tensorboard-dir", board, "--exit-interval", 2, "--tensorboard-log-interval", 2)])
    lines = open(metrics).read().splitlines()
    if lines[:2] != ["step,loss,comment", "7,1.5,mine"] or len(lines) != 4 or not re.fullmatch(r"2,[0-9.]+,", lines[3]):
        sys.exit(f"a file with columns of its own: {lines}")
    names = sorted(os.listdir(board))
    if open(foreign, "rb").read() != b"of another program" or not names[1].startswith("events.out.tfevents.9999999991."):
        sys.exit(f"the event files {names}")
    os.remove(foreign)
    if [step for step, _ in events.scalars(board)[0]["lm loss"]] != [2]:
        sys.exit("--tensorboard-log-interval 2 has other steps")
    open(metrics, "w").write("a text\n")
    done = run.jotun(*words(data, os.path.join(folder, "e"), metrics), check=False)
    if done.returncode != 1 or "its first line is not a header" not in done.stderr:
        sys.exit(f"--metrics with a text: exit code {done.returncode}\n{done.stderr}")


def full_disk(data, folder):
    """Lost records are counted, said once for each file, and the training ends well but for its exit code."""
    metrics, board = os.path.join(folder, "full.csv"), os.path.join(folder, "full")
    done = run.jotun(*words(data, os.path.join(folder, "f"), metrics, "--tensorboard-dir", board, "--exit-interval", STEPS), check=False,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000)))
    if done.returncode != 0:
        sys.exit(f"a disk with room enough: {done.returncode}\n{done.stderr}")
    done = run.jotun("train", "--data-path", data, *run.MODEL, "--train-iters", 90, "--threads", 1, "--metrics", os.path.join(folder, "f.csv"),
                     "--tensorboard-dir", board + "2", check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12000, 12000)))
    said = [line for line in done.stderr.splitlines() if "are lost from here on" in line]
    if done.returncode != 3 or len(said) != 2 or len(re.findall("training continues", done.stderr)) != 2 or not re.search(r"lacks \d+ lines of this run: File too large", done.stderr):
        sys.exit(f"a full disk: exit code {done.returncode}\n{done.stderr}")
    steps = [step for step, _ in events.scalars(board + "2")[0]["lm loss"]]
    if steps != list(range(1, len(steps) + 1)) or not 4 < len(steps) < 90:
        sys.exit(f"events on a full disk: {steps}")


with tempfile.TemporaryDirectory() as folder:
    data = run.corpus(folder)
    killed_and_resumed(data, folder)
    earlier_files(data, folder)
    full_disk(data, folder)
print(f"{STEPS} steps, killed in step {KILLED}: the same numbers in CSV, JSON lines and event files, each step once")
