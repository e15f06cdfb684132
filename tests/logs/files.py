"""The logs of a run that is killed and resumed hold each step once, in all formats the same numbers; what a disk has no room for
leaves whole records and is said once."""
import csv
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import events
import run
import wandb_files

STEPS, SAVED = 14, 5                                    # a checkpoint every 5 steps
KILLED = {"csv": 9, "jsonl": 6}                         # the step before which a run is killed: some steps after a save, and just after it


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


def compare_wandb(directory, lines, resumed):
    """Rows of history: those of a step and its evaluation are one; a resumed run has the id of the run before it."""
    first, second = wandb_files.folders(directory)
    if first["id"] != second["id"] or (first["exit"], second["exit"]) != (None, 0) or (second["resumed"], second["first"]) != (1, resumed + 1):
        sys.exit(f"the folders of W&B: {first}\n{second}")
    if (first["project"], first["name"], first["config"]["num_layers"], first["config"]["lr"]) != ("jotun", "killed", 4, 1e-3) or first["resumed"]:
        sys.exit(f"the run of W&B: {first}")
    names = {"lm loss": "loss", "learning-rate": "lr", "grad-norm": "grad_norm"}
    wanted = {int(r["step"]): {tag: r[key] for tag, key in names.items()} for r in lines if "split" not in r}
    for r in lines:
        if r.get("split") == "valid":
            wanted[r["step"]].update({"lm loss validation": r["loss"], "lm loss validation ppl": r["perplexity"]})
        if r.get("split") == "test":
            wanted[r["step"]]["lm loss test"] = r["loss"]
    rows = first["rows"] + second["rows"]
    if [row["_step"] for row in rows] != sorted(wanted) or any(row.get(tag) != wanted[row["_step"]].get(tag) for row in rows for tag in (*names, *(
            "lm loss validation", "lm loss validation ppl", "lm loss test"))):
        sys.exit(f"rows of W&B:\n{rows}\n{wanted}")
    if any(row["samples vs steps"] != 8 * row["_step"] for row in rows) or [r["_runtime"] for r in rows] != sorted(r["_runtime"] for r in rows):
        sys.exit(f"samples and times of W&B: {rows}")
    kept = json.load(open(os.path.join(second["folder"], "files", "wandb-summary.json")))
    if kept["lm loss"] != rows[-1]["lm loss"] or second["summary"]["lm loss"] != kept["lm loss"] or kept["_step"] != STEPS:
        sys.exit(f"the summary of W&B: {kept}")


def killed_and_resumed(data, folder):
    """As CSV and as JSON lines; the second also cuts an incomplete last line. The numbers are those of a run that was not killed."""
    whole = os.path.join(folder, "whole.jsonl")
    run.jotun(*words(data, os.path.join(folder, "whole"), whole))
    for kind, step in KILLED.items():
        out, metrics, board = (os.path.join(folder, f"{kind}{end}") for end in ("", "." + kind, ".board"))
        logs = [*tensorboard(board), "--wandb-project", "jotun", "--wandb-exp-name", "killed"]
        first = run.jotun(*words(data, out, metrics, *logs), check=False, env=dict(os.environ, JOTUN_FAULT=f"step:{step}:kill"))
        if first.returncode != -9 or [r["step"] for r in rows(metrics) if "split" not in r] != list(range(1, step)):
            sys.exit(f"a run to be killed: exit code {first.returncode}, {rows(metrics)}\n{first.stderr}")
        [path] = [os.path.join(board, name) for name in os.listdir(board)]
        with open(metrics, "a") as half:
            half.write("9,tra" if kind == "csv" else '{"step":9,"lo')
        with open(path, "ab") as half:
            half.write(open(path, "rb").read()[:30])                 # a record that ends too early
        second = run.jotun(*words(data, out, metrics, *logs))
        said = [f"--metrics {metrics}: 4 lines", f"{board}: 8 events", f"{out}/wandb/wandb: 3 rows"]        # of 3 steps and an evaluation
        if [f"{words} of steps after 5 are removed" in second.stderr for words in said] != [step > SAVED + 1] * 3:
            sys.exit(f"what a resumed run says of its logs:\n{second.stderr}")
        lines = rows(metrics)
        same(lines, rows(whole), ["step", "split", "loss", "lr", "grad_norm", "tokens", "perplexity", "mfu_x"], f"{metrics} and a run in one piece")
        found, texts = events.scalars(board)
        compare_events(found, lines)
        compare_wandb(os.path.join(out, "wandb"), lines, SAVED)
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


def argonne(data, folder):
    """The names of Argonne's fork; a record that is longer than a block; a run that starts anew has another id."""
    out, note = os.path.join(folder, "argonne"), "a" * 100000
    for _ in 1, 2:
        run.jotun("train", "--data-path", data, *run.MODEL, "--train-iters", 150, "--threads", 1, "--wandb-project", "p", "--wandb-exp-name", note,
                  "--wandb-save-dir", out, "--wandb-names", "argonne", "--eval-interval", 50, "--eval-iters", 1, "--split", "80,10,10")
    first, second = wandb_files.folders(out)
    if first["id"] == second["id"] or second["resumed"] or first["name"] != note or len(first["rows"]) != 150:
        sys.exit(f"a run anew: {[(r['id'], r['resumed'], len(r['name']), len(r['rows'])) for r in (first, second)]}")
    if os.path.getsize(os.path.join(first["folder"], f"run-{first['id']}.wandb")) < 5 * 32768:
        sys.exit("the records of 150 steps fill fewer blocks than the test means")
    row = second["rows"][49]
    if any(name not in row for name in ("loss/lm loss", "lm-loss-training/consumed_train_tokens", "val/ppl_lm loss", "training/grad-norm")) or "lm loss" in row:
        sys.exit(f"names of Argonne's fork: {row}")
    if row["lm-loss-training/consumed_train_tokens"] != 50 * 8 * 32 or "throughput/tflops" not in second["rows"][0]:
        sys.exit(f"a row of Argonne's fork: {row}")
    done = run.jotun("train", "--data-path", data, *run.MODEL, "--train-iters", 1, "--wandb-project", "p", check=False)
    if done.returncode != 1 or "--wandb-project p has no directory for its records; give --wandb-save-dir DIR" not in done.stderr:
        sys.exit(f"--wandb-project without a directory: {done.stderr}")


def named_sets(data, folder):
    """Several validation sets, with names and without: Megatron-LM's lines, CSV, JSON lines, event files and W&B's records, also with the names
    of Argonne's fork, have the same names and the same numbers, after every evaluation."""
    other = run.corpus(os.path.join(folder, "other"), 6)
    for kind, names, argonne in ("csv", ["books", "web-2024.en"], False), ("jsonl", ["books", "web-2024.en"], True), ("csv", ["valid-0", "valid-1"], False):
        out = os.path.join(folder, f"sets-{kind}-{names[0]}")
        metrics, board = f"{out}.{kind}", f"{out}.board"
        given = ["--validation-set-names", *names] if names[0] == "books" else []
        done = run.jotun("train", "--train-data-path", data, "--valid-data-path", data, other, "--multiple-validation-sets", *given, *run.MODEL, "--train-iters", 4,
                         "--eval-interval", 2, "--eval-iters", 2, "--eval-global-batch-size", 4, "--threads", 1, "--ranks", 2, "--metrics", metrics,
                         "--log-format", "megatron", *tensorboard(board), "--wandb-project", "p", "--wandb-save-dir", out,
                         "--wandb-names", "argonne" if argonne else "megatron")
        found, [wandb] = events.scalars(board)[0], wandb_files.folders(out)
        evaluated = [(int(row["step"]), row["split"], row["loss"], row["perplexity"]) for row in rows(metrics) if "split" in row]
        if [(step, name) for step, name, _, _ in evaluated] != [(step, name) for step in (2, 4) for name in names] or len({e[2] for e in evaluated}) != 4:
            sys.exit(f"the evaluations in {metrics}: {evaluated}")
        said = re.findall(r"^ (\S+) loss at iteration (\d+) \| lm loss value: (\S+) \| lm loss PPL: (\S+) \|", done.stderr, re.M)
        if said != [(name, str(step), f"{loss:.6E}", f"{ppl:.6E}") for step, name, loss, ppl in evaluated]:
            sys.exit(f"Megatron-LM's lines: {said}\nbut --metrics has {evaluated}")
        for name in names:
            mine = [(step, loss, ppl) for step, of, loss, ppl in evaluated if of == name]
            for tag, wanted in (f"lm loss {name}", [(s, fp32(x)) for s, x, _ in mine]), (f"lm loss {name} ppl", [(s, fp32(x)) for s, _, x in mine]):
                if found.get(tag) != wanted or found.get(tag + " vs samples") != [(8 * step, x) for step, x in wanted]:
                    sys.exit(f"{tag}: {found.get(tag)}, {found.get(tag + ' vs samples')}\nbut --metrics has {wanted}")
            keys = (f"{name}/lm loss", f"{name}/ppl_lm loss") if argonne else (f"lm loss {name}", f"lm loss {name} ppl")
            if [(row["_step"], *map(row.get, keys)) for row in wandb["rows"] if keys[0] in row] != mine:
                sys.exit(f"{keys} in W&B's records: {wandb['rows']}\nbut --metrics has {mine}")
        if [tag for tag in found if "validation" in tag] or [key for row in wandb["rows"] for key in row if "validation" in key or key.startswith("val/")]:
            sys.exit(f"a set without its name: {sorted(found)}")


def stopped(data, folder):
    """A signal: the step at hand is in all files, and W&B has the exit code. Two ranks: one of them writes."""
    metrics, out, board = (os.path.join(folder, name) for name in ("stopped.jsonl", "stopped", "stopped.board"))
    child = subprocess.Popen([run.JOTUN, *words(data, out, metrics, "--train-iters", 1000000, "--ranks", 2, *tensorboard(board), "--wandb-project", "p")],
                             stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until and not (os.path.exists(metrics) and len(open(metrics).readlines()) > 10):
        time.sleep(0.05)
    child.send_signal(signal.SIGTERM)
    if child.wait(60) != 143:
        sys.exit(f"a run that is stopped ends with {child.returncode}")
    steps = [row["step"] for row in rows(metrics) if "split" not in row]
    [wandb], [found, _] = wandb_files.folders(os.path.join(out, "wandb")), events.scalars(board)
    if wandb["exit"] != 143 or [row["_step"] for row in wandb["rows"]] != steps or [step for step, _ in found["lm loss"]] != steps:
        sys.exit(f"the logs of a run that is stopped: exit code {wandb['exit']}, {len(steps)}, {len(wandb['rows'])}, {len(found['lm loss'])} steps")
    if {value for _, value in found["world-size"]} != {2} or [row["_step"] for row in wandb["rows"] if "lm loss validation" in row][:2] != [3, 6]:
        sys.exit(f"world-size {found['world-size'][:2]}")


def full_disk(data, folder):
    """Lost records are counted, said once for each file, and the training ends well but for its exit code."""
    metrics, board = os.path.join(folder, "full.csv"), os.path.join(folder, "full")
    done = run.jotun(*words(data, os.path.join(folder, "f"), metrics, "--tensorboard-dir", board, "--exit-interval", STEPS), check=False,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000)))
    if done.returncode != 0:
        sys.exit(f"a disk with room enough: {done.returncode}\n{done.stderr}")
    done = run.jotun("train", "--data-path", data, *run.MODEL, "--train-iters", 200, "--threads", 1, "--metrics", os.path.join(folder, "f.csv"),
                     "--tensorboard-dir", board + "2", check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (24000, 24000)))
    said = [line for line in done.stderr.splitlines() if "are lost from here on" in line]
    if done.returncode != 3 or len(said) != 2 or len(re.findall("training continues", done.stderr)) != 2 or not re.search(r"lacks \d+ lines of this run: File too large", done.stderr):
        sys.exit(f"a full disk: exit code {done.returncode}\n{done.stderr}")
    steps = [step for step, _ in events.scalars(board + "2")[0]["lm loss"]]
    if steps != list(range(1, len(steps) + 1)) or not 4 < len(steps) < 200:
        sys.exit(f"events on a full disk: {steps}")


def history(data, folder):
    """--history: over two data-parallel ranks the loss of each is that of its samples alone; statistics by their definition; a run that
    resumes has each step once; pictures of what there is."""
    out = os.path.join(folder, "history")
    small = ["train", "--data-path", data, *run.MODEL, "--attention-dropout", 0, "--hidden-dropout", 0, "--lr", 0, "--lr-decay-style", "constant", "--threads", 1, "--split", "80,10,10"]
    alone = os.path.join(folder, "alone.jsonl")
    run.jotun(*small, "--global-batch-size", 1, "--train-iters", 12, "--metrics", alone)
    single = [row["loss"] for row in rows(alone)]
    two = [*small, "--ranks", 4, "--tp", 2, "--global-batch-size", 2, "--history", out, "--save", os.path.join(folder, "hs"), "--load", os.path.join(folder, "hs"),
           "--eval-interval", 2, "--eval-iters", 1]
    run.jotun(*two, "--train-iters", 6, "--exit-interval", 4, "--save-interval", 2)
    run.jotun(*two, "--train-iters", 6, "--log-params-norm")
    for name in "metrics.jsonl", "metrics.csv":
        found = rows(os.path.join(out, name))
        steps = [row for row in found if "split" not in row]
        if [row["step"] for row in steps] != list(range(1, 7)):
            sys.exit(f"{name}: steps {[row['step'] for row in steps]}")
        for row in steps:
            a, b = single[2 * int(row["step"]) - 2:][:2]
            wanted = {"loss/mean": (a + b) / 2, "loss/max": max(a, b), "loss/min": min(a, b), "loss/std": abs(a - b) / 2}
            for key, value in wanted.items():
                if abs(row[key] - value) > 2e-6:
                    sys.exit(f"{name}, step {row['step']}: {key} is {row[key]}, not {value}")
            for key in "seconds", "data_seconds", "memory_bytes":
                if not row[key + "/min"] <= row[key + "/mean"] <= row[key + "/max"] or row[key + "/std"] > row[key + "/max"] - row[key + "/min"] + 1:
                    sys.exit(f"{name}: {key} of {row}")
        if [row["step"] for row in found if row.get("split") == "valid"] != [2, 4, 6]:
            sys.exit(f"{name}: evaluations {found}")
    drawn = set(os.listdir(os.path.join(out, "plots")))
    if not {f"{name}.{kind}" for name in ("loss", "validation_loss", "seconds", "memory_bytes") for kind in ("svg", "txt")} <= drawn:
        sys.exit(f"plots: {drawn}")
    paths = xml.etree.ElementTree.parse(os.path.join(out, "plots", "loss.svg")).iter("{http://www.w3.org/2000/svg}path")
    [points] = [path.get("d") for path in paths if path.get("data-name") == "loss"]
    if len(re.findall("[ML]", points)) != 6:
        sys.exit(f"the curve of 6 steps: {points}")
    text = open(os.path.join(out, "plots", "loss.txt")).read()
    if text.count("*") != 6 or ":" not in text:
        sys.exit(text)


with tempfile.TemporaryDirectory() as folder:
    data = run.corpus(folder)
    killed_and_resumed(data, folder)
    earlier_files(data, folder)
    argonne(data, folder)
    os.mkdir(os.path.join(folder, "other"))
    named_sets(data, folder)
    stopped(data, folder)
    full_disk(data, folder)
    history(data, folder)
print(f"{STEPS} steps, killed before step {' and '.join(map(str, KILLED.values()))}: the same numbers in CSV, JSON lines, event files and W&B's records, each step once")
