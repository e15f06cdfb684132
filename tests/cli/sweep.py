"""`jotun sweep`: runs that are stopped by SIGINT, killed with their sweep, and continued end with the losses of runs that were not; a
finished run is not made again; the tables, the law and the picture say what the metrics of the runs say; what cannot work is refused
before any run begins."""
import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import run

STEPS = 40
MODEL = "--aspect-ratio 8 --seq-length 32 --global-batch-size 4 --micro-batch-size 2 --position-embedding-type rope --threads 1".split()


def sweep(data, out, *words, check=True):
    return run.jotun("sweep", "--data-path", data, "--split", "90,10,0", "--save", out, *words, check=check)


def depths(out, *words):
    return ["--depth", "1,2,3", "--check-depth", "4", "--train-iters", STEPS, *MODEL, *words]


def rows(out):
    """Of results.csv, by the name of the run, with numbers as such; a loss that there is not is None."""
    found = {}
    for row in csv.DictReader(open(os.path.join(out, "results.csv"))):
        for key in ("check", "parameters", "steps", "tokens"):
            row[key] = int(row[key])
        for key in ("flops", "validation_loss", "training_loss", "seconds"):
            row[key] = float(row[key]) if row[key] else None
        found[row["run"]] = row
    return found


def processes(out):
    """Of the sweep and of its runs, by the folder on their command line."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = open(f"/proc/{name}/cmdline", "rb").read().split(b"\0") if name.isdigit() else []
        except OSError:
            continue
        if any(out.encode() in word for word in words) and int(name) != os.getpid():
            found.append(int(name))
    return found


def begun(out):
    """Until a run has taken a few steps."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for name in os.listdir(out) if os.path.isdir(out) else []:
            path = os.path.join(out, name, "metrics.jsonl")
            if os.path.exists(path) and len(run.metrics(path)) > 3:
                return
        time.sleep(0.01)
    sys.exit("no run took a step")


def ended(out):
    end = time.monotonic() + 120
    while processes(out):
        if time.monotonic() > end:
            sys.exit(f"processes of a sweep that was ended are left: {processes(out)}")
        time.sleep(0.05)


def start(data, out):
    words = [run.JOTUN, "sweep", "--data-path", data, "--split", "90,10,0", "--save", out, "--runs-at-once", "2", *map(str, depths(out))]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def interrupted(data, out):
    """SIGINT: the runs save, none is left, and the exit code names the signal."""
    child = start(data, out)
    begun(out)
    child.send_signal(signal.SIGINT)
    stderr = child.communicate(timeout=120)[1]
    if child.returncode != 130 or "the same command continues" not in stderr:
        sys.exit(f"SIGINT: exit code {child.returncode}\n{stderr}")
    if processes(out):
        sys.exit("SIGINT: runs are left")
    saved = [n for n in os.listdir(out) if n.startswith("depth=") and os.path.exists(os.path.join(out, n, "latest"))]
    if not saved:
        sys.exit("SIGINT: no run was saved")


def killed(data, out):
    """SIGKILL of the sweep: its runs notice, save and end."""
    child = start(data, out)
    begun(out)
    child.kill()
    child.communicate()
    ended(out)


def law_is_of_these(out, stdout):
    """The law that is printed gives the losses of the table, and the check's two numbers are its prediction and the measured one."""
    law = json.load(open(os.path.join(out, "law.json")))
    points = [(r["parameters"], r["validation_loss"]) for r in rows(out).values() if not r["check"]]
    for size, loss in points:
        predicted = law["floor"] + (law["scale"] / size) ** law["exponent"]
        if abs(predicted / loss - 1) > 0.05:
            sys.exit(f"the law says {predicted} for {size} parameters, whose loss is {loss}")
    check = next(r for r in rows(out).values() if r["check"])
    if law["check"]["measured"] != check["validation_loss"] or law["check"]["parameters"] != check["parameters"]:
        sys.exit(f"the check is of another run: {law['check']} and {check}")
    predicted = law["floor"] + (law["scale"] / check["parameters"]) ** law["exponent"]
    if abs(law["check"]["predicted"] / predicted - 1) > 1e-9:
        sys.exit(f"the check's prediction is {law['check']['predicted']}, by the law itself {predicted}")
    words = f"predicted {law['check']['predicted']:.4f}", f"measured {law['check']['measured']:.4f}", "\n$ jotun train --"
    if not all(w in stdout for w in words):
        sys.exit(f"not said: {words}\n{stdout}")


def results_are_of_the_runs(out):
    table = list(csv.DictReader(open(os.path.join(out, "results.csv"))))
    for name, row in rows(out).items():
        lines = [json.loads(line) for line in open(os.path.join(out, name, "metrics.jsonl"))]
        valid = [line["loss"] for line in lines if line.get("split") == "valid" and line["step"] == row["steps"]]
        train = [line["loss"] for line in lines if "split" not in line and line["step"] > row["steps"] - math.ceil(row["steps"] / 20)]
        if [row["validation_loss"]] != valid[-1:] or abs(row["training_loss"] - sum(train) / len(train)) > 1e-9:
            sys.exit(f"{name}: {row} is not what its metrics say: {valid} and {sum(train) / len(train)}")
        if len([t for t in table if abs(float(t["validation_loss"]) - valid[-1]) < 1e-6 and int(t["parameters"]) == row["parameters"]]) != 1:
            sys.exit(f"{name} is not in results.csv once")
    picture = xml.etree.ElementTree.parse(os.path.join(out, "sweep.svg"))
    titles = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}title")]
    if sorted(titles) != sorted(f"{name}: {row['validation_loss']:.6f}" for name, row in rows(out).items()):
        sys.exit(f"the picture has other runs: {titles}")


def resumed_is_whole(folder, data):
    whole, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    sweep(data, whole, *depths(whole))
    interrupted(data, parts)
    killed(data, parts)
    done = sweep(data, parts, *depths(parts))
    law_is_of_these(parts, done.stdout)
    results_are_of_the_runs(parts)
    for name, row in rows(whole).items():
        other = rows(parts)[name]
        if (row["validation_loss"], row["training_loss"]) != (other["validation_loss"], other["training_loss"]):
            sys.exit(f"{name}: {row} without a stop, {other} with one")
    stamps = {n: os.stat(os.path.join(parts, n, "metrics.jsonl")).st_mtime_ns for n in rows(parts)}
    again = sweep(data, parts, *depths(parts))
    if {n: os.stat(os.path.join(parts, n, "metrics.jsonl")).st_mtime_ns for n in rows(parts)} != stamps or "done" not in again.stdout:
        sys.exit("finished runs were made again")
    found = run.jotun("sweep", "--data-path", data, "--split", "90,10,0", "--save", parts, *depths(parts, "--lr", "9e-3"), check=False)
    if found.returncode != 1 or "holds a run of other options" not in found.stderr or "--lr" not in found.stderr:
        sys.exit(f"a folder of other options was taken: {found.stderr}")
    other = [8 if w == "4" and v == "--global-batch-size" else w for v, w in zip([None] + depths(parts), depths(parts))]
    found = run.jotun("sweep", "--data-path", data, "--split", "90,10,0", "--save", parts, *other, check=False)
    if found.returncode != 1 or "of other options: --global-batch-size 4 there, 8 here" not in found.stderr:
        sys.exit(f"the option that differs is not named: {found.stderr}")


def best_value(folder, data):
    """Of the mean over seeds."""
    out = os.path.join(folder, "lr")
    words = "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --global-batch-size 4 --train-iters 30".split()
    done = sweep(data, out, "--lr", "1e-4,3e-3,1e-2", "--seed", "1,2", "--compare-loss", "training", *words)
    losses = {}
    for name, row in rows(out).items():
        lr = re.search("lr=([^,]*)", name).group(1)
        losses[lr] = losses.get(lr, 0) + row["training_loss"] / 2
    best = min(losses, key=losses.get)
    if f"best --lr: {best}, loss {losses[best]:.4f}" not in done.stdout:
        sys.exit(f"{losses}\n{done.stdout}")
    other = run.jotun("sweep", "--data-path", data, "--split", "90,10,0", "--save", out, "--lr", "2e-3,4e-3", *words, check=False)
    if other.returncode != 1 or "holds a run of another series" not in other.stderr or set(rows(out)) != set(f"lr={lr},seed={s}" for lr in losses for s in (1, 2)):
        sys.exit(f"another series wrote over the results: {other.stderr}, {rows(out)}")


def made_results(out, loss):
    """Finished runs get these losses, of parameters and the values in the run's name."""
    for name, row in rows(out).items():
        path = os.path.join(out, name, "metrics.jsonl")
        lines = [json.loads(line) for line in open(path)]
        next(line for line in reversed(lines) if "split" not in line)["loss"] = loss(row["parameters"], dict(word.split("=") for word in name.split(",")))
        with open(path, "w") as made:
            made.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def law_of_two_lists(folder, data):
    """The best runs of a list of sizes may have other sizes in another order; redrawn series without a law are counted, and too many leave no range."""
    out = os.path.join(folder, "two")
    words = ["--num-layers", "1,2,3,4", "--hidden-size", "16,48", "--compare-loss", "training",
             *"--num-attention-heads 2 --seq-length 32 --global-batch-size 4 --train-iters 2 --threads 1".split()]
    sweep(data, out, *words)

    def loss(of_size, scatter):
        """The wide model of one layer is the best of its list, and larger than the narrow ones of more layers, which are the best of theirs."""
        def of(size, at):
            best = (at["num-layers"] == "1") == (at["hidden-size"] == "48")
            return of_size(size) + scatter[int(at["num-layers"]) - 1] + (0 if best else 1)
        return of

    made_results(out, loss(lambda size: 1.2 + (3000 / size) ** 0.34, [0, 1e-3, -1e-3, 0]))
    done = sweep(data, out, *words)
    largest = rows(out)["num-layers=1,hidden-size=48"]
    if largest["parameters"] <= rows(out)["num-layers=4,hidden-size=16"]["parameters"]:
        sys.exit(f"the wide model is not the largest: {largest}")
    if not re.search(f"in hindsight: .* for the largest one, which has {largest['training_loss']:.4f} ", done.stdout):
        sys.exit(f"not the largest size is predicted:\n{done.stdout}")
    law = json.load(open(os.path.join(out, "law.json")))
    if not 950 <= law["fits"] <= law["redrawn"] == 1000 or "floor_95" not in law or f"95 % of the {law['fits']} of 1000 redrawn series" not in done.stdout:
        sys.exit(f"{law}\n{done.stdout}")
    made_results(out, loss(lambda size: 2.0, [-0.02, 0, 0.02, -0.03]))
    done = sweep(data, out, *words)
    law = json.load(open(os.path.join(out, "law.json")))
    if not 0 < law["fits"] < 950 or "floor_95" in law or f"no confidence: {law['fits']} of 1000 redrawn series have a law, less than 95 %" not in done.stdout:
        sys.exit(f"{law}\n{done.stdout}")


def memory_counts(folder):
    """As many runs at once as memory has room for; --runs-at-once is what a person wants."""
    out = os.path.join(folder, "memory")
    words = ["--mock-data", "--vocab-size", 64, "--compare-loss", "training", "--lr", "1e-3,2e-3", "--threads", 1, "--train-iters", 2, "--seq-length", 32,
             "--global-batch-size", 2, "--save", out, "--dry-run"]
    huge = ["--num-layers", 100, "--hidden-size", 65536, "--num-attention-heads", 64]                # terabytes
    few = run.jotun("sweep", *words, *huge)
    if len(os.sched_getaffinity(0)) > 1 and not re.search("runs at once: 1, not 2, since lr=1e-3 takes .* of memory and .* are free", few.stderr):
        sys.exit(f"a sweep for which memory has no room says {few.stderr}")
    for more in (["--num-layers", 1, "--hidden-size", 16, "--num-attention-heads", 2], [*huge, "--runs-at-once", 2]):
        done = run.jotun("sweep", *words, *more)
        if "runs at once" in done.stderr:
            sys.exit(f"{more}: {done.stderr}")


def failures(folder, data):
    """A run that fails is in the table with the reason; the others have results."""
    out = os.path.join(folder, "fails")
    words = "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --global-batch-size 4 --train-iters 4".split()
    os.makedirs(os.path.join(out, "lr=2e-3", "metrics.jsonl"))                                # no file to append to
    done = sweep(data, out, "--lr", "1e-3,2e-3", *words, check=False)
    if done.returncode != 1 or "1 of 2 runs failed" not in done.stderr or "lr=2e-3 failed: exit code 1" not in done.stdout:
        sys.exit(f"a run that fails: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    if rows(out)["lr=1e-3"]["state"] != "done" or rows(out)["lr=2e-3"]["state"] != "failed":
        sys.exit("the states in results.csv are others")


def refusals(folder, data):
    out = os.path.join(folder, "refused")
    base = ["--train-iters", 4, *MODEL]
    for words, code, text in (
        ([*base, "--depth", "1,2", "--check-depth", "4"], 1, "three depths or more"),
        ([*base, "--depth", "1,2,4", "--check-depth", "4"], 1, "give a larger one"),
        ([*base, "--depth", "1,2,3", "--check-depth", "4", "--lr", "1,2"], 1, "--lr has several values"),
        ([*base, "--depth", "1,2,2"], 1, "names 2 twice"),
        ([*base, "--depth", "1,2.5"], 1, "is a number of layers"),
        ([*base, "--depth", "1,,2"], 1, "is empty"),
        ([*base, "--depth", "1,2", "--num-layers", "3"], 1, "--depth is the number of layers"),
        (["--train-iters", 4], 2, "varies an option"),
        (["--lrr", "1e-3,2e-3", "--train-iters", 4], 2, "--lrr is no option of jotun train; did you mean --lr?"),
        (["--lr", "1e-3,2e-3", "--train-iters", 4, "--seq-length", 1000000], 1, "one sample of --seq-length 1000000 takes"),
        (["--lr", "1e-3,2e-3", "--train-iters", 4, "--load", "x"], 1, "resumes from its own folder"),
        (["--lr", "1e-3,2e-3", "--train-iters", 5, "--eval-interval", 2], 1, "give a divisor"),
        (["--lr", "1e-3,2e-3", "--train-iters", 4, "--split", "1"], 1, "no validation data"),
        (["--lr", "1e-3,many", "--train-iters", 4, "--seq-length", 32], 1, "many"),
        (["--lr", "1e-3,2e-3", "--train-iters", 4, "--lr", "3e-3"], 1, "--lr has a list of values and is given twice"),
        (["--lr", "3e-3", "--lr=1e-3,2e-3", "--train-iters", 4], 1, "--lr has a list of values and is given twice"),
        ([w for n in ("lr", "min-lr", "weight-decay", "adam-beta1", "adam-beta2", "adam-eps", "clip-grad")
          for w in ("--" + n, "0.12345678901234567890123456789,0.2234567890123456789012345678")] + ["--train-iters", 4], 1, "give fewer lists"),
        (["--hidden-size", "30,32", "--num-attention-heads", "4", "--train-iters", 4, "--seq-length", 32], 1, "30"),
    ):
        done = sweep(data, out, *words, check=False)
        if done.returncode != code or text not in done.stderr or os.path.exists(out):
            sys.exit(f"{words}: exit code {done.returncode}, {done.stderr}")


    done = sweep(os.path.join(folder, "nofile"), out, "--lr", "1e-3,2e-3", "--train-iters", 4, check=False)
    if done.returncode != 1 or "nofile" not in done.stderr or os.path.exists(out):
        sys.exit(f"data that is not there: exit code {done.returncode}, {done.stderr}")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        refusals(folder, data)
        best_value(folder, data)
        law_of_two_lists(folder, data)
        memory_counts(folder)
        failures(folder, data)
        resumed_is_whole(folder, data)
    print("sweep: stopped, killed and continued runs have the losses of whole ones")


if __name__ == "__main__":
    main()
