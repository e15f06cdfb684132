"""A table of all values of --optimizer, in Markdown, on standard output; progress is written to standard error:

    python3 bench/optim/table.py [JOTUN] [--text FILE ...] [--only NAME ...] [--steps 300] [--grid 0.5 1 2] [--seeds 1234 1 2] [--jobs N] [--results FILE]
    python3 bench/optim/table.py --only muon --shares 0.75 0.6        in how many steps an optimizer reaches AdamW's loss

Losses: each optimizer trains the same small model on the same batches of the same text for --steps steps, with the learning rates of one
grid. One list of learning rates would leave most optimizers without a usable one (SGD's are hundreds of times Lion's), so the grid is the
same list of multiples of a learning rate at which the optimizer does well with such a model, the first number of its row in OPTIMIZERS. Where the best
one lies at an end of the grid, the grid grows on that side by the ratio of its last two, by at most --growth learning rates on each side;
a best one that is still at an end is marked. These runs have the first of --seeds; the best learning rate is trained with the others as well,
and the table has the mean of all and their range. Schedules are a warm-up of a tenth of the steps and a cosine to a tenth of the learning rate;
those of schedule-free optimizers are constant after the warm-up, as their method has it. Options beyond the learning rate are those of the row,
not searched. 1-bit LAMB, which sends signs between data-parallel ranks, has two of them, each with half of the batch, and its times are those of rank 0
beside AdamW's on two ranks. Runs have one thread for each rank and their losses do not depend on the machine's load; --jobs of them run at a time.

State: bytes of optimizer states of GPT-2 124M for each parameter by the dry run, with the averages that schedule-free optimizers keep and
with each optimizer's default sizes (GaLore's rank is 128).

Times: an update, and a step over AdamW's, of the table's model with --threads threads. A run of AdamW goes before each run of another
optimizer; ratios are those of --rounds such pairs, medians. The time of a step or an update is the median over ten places of the least of three
profiled steps, as other work on the machine lengthens some. Work that is only done every few updates (a new basis, an estimate) is measured in
the steps that have it and counted in the share of steps that have it by default. The ratios of `adam` itself say how sure the others are.
--no-times leaves this out.

With --shares an optimizer trains that share of --steps, AdamW all of them; the exit code is 1 where one does not reach AdamW's loss with the
largest share.

Each result is added to --results (build/optimizers.json) under the options that made it, so that a stopped table is completed later.
The text is the C, Python and Markdown of this tree unless --text names other files; the last twentieth is that of validation.
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODEL = ("--num-layers 2 --hidden-size 96 --num-attention-heads 3 --seq-length 128 --position-embedding-type rope --attention-dropout 0 "
         "--hidden-dropout 0 --global-batch-size 8 --split 95,5,0").split()
TOKENS_A_STEP = 8 * 128
DOCUMENT = 4096                        # characters, and what is left of the line
DECAY = "--weight-decay 0.1 "
# name: learning rate, options; the rare work of an update: an option that says how often it is done, None where it
# is of Sophia's kind and the default serves, and in how many updates once by default; data-parallel ranks
Row = collections.namedtuple("Row", "lr options rare every ranks", defaults=("", 0, 1))
ADAM = DECAY + "--adam-beta2 0.95"
OPTIMIZERS = {
    "adam": Row(8e-3, ADAM),
    "adam8bit": Row(8e-3, ADAM),
    "adam-mini": Row(4e-3, ADAM),
    "adopt": Row(4e-3, DECAY + "--adam-beta2 0.9999 --adam-eps 1e-6"),
    "adafactor": Row(8e-2, DECAY),
    "adamwschedulefree": Row(8e-3, DECAY),
    "sgd": Row(0.125, "--weight-decay 1e-4 --sgd-momentum 0.9"),
    "sgdschedulefree": Row(2.0, "--weight-decay 1e-4"),
    "lion": Row(1e-3, "--weight-decay 0.5"),
    "sophiag": Row(5e-4, DECAY + "--adam-beta1 0.965 --adam-beta2 0.99", "--sophia-update-interval", 10),
    "lamb": Row(3.2e-2, ADAM),
    "ipex.lamb": Row(3.2e-2, ADAM),
    "ds.onebitlamb": Row(3.2e-2, ADAM + " --onebit-freeze-step 100", ranks=2),
    "muon": Row(1.6e-2, ADAM + " --muon-momentum 0.95 --muon-nesterov --muon-extra-scale-factor 0.2"),
    "galoreadamw": Row(6.4e-2, ADAM + " --galore-rank 24", "--galore-update-gap", 200),
    "galoreadamw8bit": Row(6.4e-2, ADAM + " --galore-rank 24", "--galore-update-gap", 200),
    "shampoo": Row(4e-3, ADAM, "--precondition-frequency", 10),
    "soap": Row(4e-3, ADAM, "--precondition-frequency", 10),
}
SCHEDULE_FREE = ("adamwschedulefree", "sgdschedulefree")


def say(words):
    print(words, file=sys.stderr, flush=True)


def choices(jotun):
    """The values of --optimizer of this build, without other names for the same."""
    text = subprocess.run([jotun, "train", "--help"], check=True, capture_output=True, text=True).stdout
    return "".join(re.search(r"\n  --optimizer ((?:\S+\|\n\s+)*\S+)", text)[1].split()).split("|")


def tokens(jotun, files, folder):
    """The prefix of the prepared text, and what identifies the text in results."""
    digest, text = hashlib.sha256(), os.path.join(folder, "text.jsonl")
    with open(text, "w", encoding="utf-8") as out:
        for name in files:
            document = open(name, encoding="utf-8", errors="replace").read()
            digest.update(document.encode())
            while document:                        # the split is one of documents
                end = document.find("\n", DOCUMENT) + 1 or len(document)
                out.write(json.dumps({"text": document[:end]}) + "\n")
                document = document[end:]
    subprocess.run([jotun, "prepare", "--input", text, "--tokenizer", "bytes", "--append-eod", "--output-prefix", os.path.join(folder, "train")],
                   check=True, capture_output=True)
    return os.path.join(folder, "train_text_document"), digest.hexdigest()[:12]


class Results:
    """A JSON file with a number, or several, for each key. A new file takes the place of the old one at once."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.rows = json.load(open(path)) if os.path.exists(path) else {}

    def add(self, key, value):
        with self.lock:
            self.rows[key] = value
            os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
            with open(self.path + ".new", "w") as out:
                json.dump(self.rows, out, indent=1, sort_keys=True)
            os.replace(self.path + ".new", self.path)


def ranks_of(ranks):
    return ["--micro-batch-size", str(8 // ranks), "--ranks", str(ranks)]


def options_of(name, lr, steps):
    words = ["--optimizer", name, *OPTIMIZERS[name].options.split(), *ranks_of(OPTIMIZERS[name].ranks), "--lr", f"{lr:.6g}", "--train-iters", str(steps),
             "--lr-warmup-iters", str(max(1, steps // 10))]
    return words + (["--lr-decay-style", "constant"] if name in SCHEDULE_FREE else ["--lr-decay-style", "cosine", "--min-lr", f"{lr / 10:.6g}"])


def train(o, words, threads):
    done = subprocess.run([o.jotun, "train", "--data-path", o.data, "--threads", str(threads)] + MODEL + words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1000:]}")
    return done.stdout + done.stderr


# ---- losses ----

def loss_key(o, name, lr, steps, seed):
    return " ".join(["loss", o.digest, f"{o.eval_iters} batches", f"--seed {seed}", *options_of(name, lr, steps)])


def loss_of(o, name, lr, steps, seed):
    """The validation loss at the end, infinite where it is not a number."""
    key = loss_key(o, name, lr, steps, seed)
    if key not in o.results.rows:
        words = ["--seed", str(seed), "--eval-interval", str(steps), "--eval-iters", str(o.eval_iters), "--log-interval", str(steps)]
        found = re.findall(r"validation loss ([-+.\w]+)", train(o, options_of(name, lr, steps) + words, 1))
        if not found:
            sys.exit(f"{key}: the run printed no validation loss")
        o.results.add(key, float(found[-1]))
    loss = o.results.rows[key]
    return loss if loss == loss else float("inf")


def wider(grid, losses, growth, first):
    """The learning rate by which the grid grows next; None: the best one is within it, or it may grow no more on that side."""
    order = sorted(grid)
    at = order.index(min(order, key=losses.get))
    below = sum(x < min(first) * 0.999 for x in order)
    above = sum(x > max(first) * 1.001 for x in order)
    if len(order) < 2:
        return None
    if at == 0 and below < growth:
        return order[0] * order[0] / order[1]
    if at == len(order) - 1 and above < growth:
        return order[-1] * order[-1] / order[-2]
    return None


Found = collections.namedtuple("Found", "losses lr seeds")      # the losses of all learning rates tried, the best one, its losses with all seeds


def search(o, name, steps, counted):
    first = [float(f"{OPTIMIZERS[name].lr * x:.6g}") for x in o.grid]
    losses, lr = {}, first[0]
    while lr is not None:
        losses[lr] = loss_of(o, name, lr, steps, o.seeds[0])
        counted(name, lr, losses[lr], o.seeds[0])
        left = [x for x in first if x not in losses]
        lr = left[0] if left else wider(losses, losses, o.growth, first)
        lr = float(f"{lr:.6g}") if lr is not None else None
    best = min(losses, key=losses.get)
    seeds = [losses[best]]
    for seed in o.seeds[1:]:
        seeds.append(loss_of(o, name, best, steps, seed))
        counted(name, best, seeds[-1], seed)
    return Found(losses, best, seeds)


class Progress:
    """Runs that are done, those that are known to come, and the time that these may take."""

    def __init__(self, o, tasks):
        self.begun, self.jobs, self.lock, self.done, self.new = time.time(), o.jobs, threading.Lock(), 0, 0
        self.first = {(name, steps): len(o.grid) + len(o.seeds) - 1 for name, steps in tasks}
        self.kept = dict(o.results.rows)
        self.o = o

    def count(self, name, steps, lr, loss, seed):
        with self.lock:
            self.done += 1
            self.first[name, steps] = max(0, self.first[name, steps] - 1)
            if loss_key(self.o, name, lr, steps, seed) in self.kept:
                return
            self.new += 1
            left = sum(self.first.values())
            rate = (time.time() - self.begun) / self.new
            say(f"{name:18} lr {lr:<8g} seed {seed}  {steps} steps  validation loss {loss:.4f}   {self.done} runs done, {left} or more to come: {left * rate / 60:.0f} min")


def searches(o, tasks):
    """What was found of each (name, steps)."""
    progress = Progress(o, tasks)
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        futures = {task: pool.submit(search, o, *task, lambda name, lr, loss, seed, steps=task[1]: progress.count(name, steps, lr, loss, seed)) for task in tasks}
        try:
            return {task: future.result() for task, future in futures.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# ---- bytes of state ----

def state_bytes(o, name):
    text = subprocess.run([o.jotun, "train", "--model", "gpt2-124m", "--mock-data", "--micro-batch-size", "1", "--global-batch-size", "1", "--train-iters", "1",
                           "--dry-run", "--optimizer", name], check=True, capture_output=True, text=True).stdout
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    sizes = re.findall(r"(?:optimizer states|master weights)\s+([\d.]+) (\w+)", text)
    return sum(float(size) * units[unit] for size, unit in sizes) / int(re.search(r"parameters\s+(\d+)", text).group(1))


# ---- times ----

PROFILED = range(11, 41)               # three times each place within 10 steps, at one of which rare work is done
RARE_GAP = 10


def phases(values):
    """Of the least value of each place within RARE_GAP steps the median, and by how much the largest is more."""
    places = [min(v for step, v in values.items() if step % RARE_GAP == place) for place in range(RARE_GAP)]
    usual = statistics.median(places)
    return usual, max(places) - usual


def profiled(o, name, ranks):
    """Milliseconds, on rank 0 of so many, of an update and of a step. An update is all that follows the first clipping of a step: Sophia's estimate
    clips first, then the pass of the step itself follows, which costs as much as the estimate did."""
    row, path = OPTIMIZERS[name], os.path.join(o.folder, "profile.json")
    rare = [row.rare, str(RARE_GAP)] if row.rare else []
    words = options_of(name, row.lr, PROFILED.stop)
    at = words.index("--micro-batch-size")
    train(o, [*words[:at], *ranks_of(ranks), *words[at + 4:], *rare, "--seed", "1234", "--log-interval", "100", "--profile", path,
              "--profile-step-start", str(PROFILED.start), "--profile-step-end", str(PROFILED.stop - 1)], o.threads)
    updates, steps, clipped = dict.fromkeys(PROFILED, 0.0), {}, set()
    events = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X" and e["pid"] == 0 and "step" in e.get("args", {})]
    for e in sorted((e for e in events if e.get("cat") == "op"), key=lambda e: e["ts"]):
        step = e["args"]["step"]
        if step in clipped:
            updates[step] += e["dur"] / 1e3
        elif e["name"] == "clip_and_skip":
            clipped.add(step)
    for step in PROFILED:
        of_step = [e for e in events if e["args"]["step"] == step and e.get("cat") == "op"]
        steps[step] = (max(e["ts"] + e["dur"] for e in of_step) - min(e["ts"] for e in of_step)) / 1e3
    (usual, more), (step, longer) = phases(updates), phases(steps)
    share = 1 / row.every if row.rare else 0
    return usual + share * more, step + share * longer


def times_of(o, name):
    """Medians over pairs of runs: ms of an update; ratios of updates and of steps over those of AdamW."""
    key = " ".join(["times", platform.node(), f"{o.threads} threads", *options_of(name, OPTIMIZERS[name].lr, PROFILED.stop)])
    if key not in o.results.rows or o.again:
        pairs = []
        for _ in range(o.rounds):
            adam = profiled(o, "adam", OPTIMIZERS[name].ranks)
            mine = profiled(o, name, OPTIMIZERS[name].ranks)
            pairs.append((mine[0], mine[0] / adam[0], mine[1] / adam[1]))
        o.results.add(key, [statistics.median(p[i] for p in pairs) for i in range(3)])
        say(f"{name:18} update {o.results.rows[key][0]:.2f} ms")
    return o.results.rows[key]


# ---- the table ----

def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor()) \
        if os.path.exists("/proc/cpuinfo") else platform.processor()
    return f"{os.cpu_count()} cores, {model}, {platform.system()} {platform.machine()}"


def table(o, names):
    found = searches(o, [(name, o.steps) for name in names])
    texts = ", ".join(os.path.basename(f) for f in o.text) if o.text else "C, Python and Markdown of this tree"
    print(f"Text: {texts} ({o.digest}), tokens are bytes. {o.steps} steps of {TOKENS_A_STEP} tokens, {o.steps * TOKENS_A_STEP} together. Seeds {' '.join(map(str, o.seeds))}.  \n"
          f"Model: `{' '.join(MODEL)}`.  \n"
          f"Grid: {' '.join(f'{x:g}' for x in o.grid)} times the optimizer's learning rate of the program, wider by at most {o.growth} on each side where the best is at an end.  \n"
          f"Machine: {machine()}" + ("" if o.no_times else f"; times with {o.threads} threads, {o.rounds} pairs") + ".\n")
    print("| optimizer | validation loss | range | at lr | lr tried | bytes of state a parameter | update, ms | update / AdamW's | step / AdamW's | options |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in sorted(names, key=lambda n: statistics.mean(found[n, o.steps].seeds)):
        losses, lr, seeds = found[name, o.steps]
        end = ", an end of the grid" if len(losses) > 1 and lr in (min(losses), max(losses)) else ""
        times = "- | - | -" if o.no_times else "{:.2f} | {:.2f} | {:.2f}".format(*times_of(o, name))
        print(f"| `{name}` | {statistics.mean(seeds):.4f} | {max(seeds) - min(seeds):.4f} | {lr:g}{end} | {min(losses):g} to {max(losses):g} | "
              f"{state_bytes(o, name):.2f} | {times} | `{OPTIMIZERS[name].options}` |", flush=True)
    return 0


def shares(o, names):
    tasks = [("adam", o.steps)] + [(name, round(share * o.steps)) for name in names for share in o.shares if name != "adam"]
    found = searches(o, tasks)
    best = {task: statistics.mean(f.seeds) for task, f in found.items()}
    for task in tasks:
        print(f"{task[0]:18} {task[1]:5} steps: " + "  ".join(f"lr {x:g}: {loss:.4f}" for x, loss in sorted(found[task].losses.items())) + f"   best {best[task]:.4f}")
    for task in tasks[1:]:
        print(f"{task[0]} {'reaches' if best[task] <= best[tasks[0]] else 'does not reach'} AdamW's loss of {o.steps} steps in {task[1] / o.steps:.0%} of them")
    return 0 if all(best[name, round(max(o.shares) * o.steps)] <= best[tasks[0]] for name in names if name != "adam") else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jotun", nargs="?", default=os.path.join(TREE, "build", "release", "bin", "jotun"))
    parser.add_argument("--text", nargs="+")
    parser.add_argument("--only", nargs="+", choices=list(OPTIMIZERS), metavar="NAME")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--eval-iters", type=int, default=50, help="batches of which validation losses are means")
    parser.add_argument("--grid", nargs="+", type=float, default=[0.5, 1, 2])
    parser.add_argument("--growth", type=int, default=2)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1234, 1, 2])
    parser.add_argument("--shares", nargs="+", type=float)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--again", action="store_true", help="times are measured again")
    parser.add_argument("--results", default=os.path.join(TREE, "build", "optimizers.json"))
    o = parser.parse_args()
    values = choices(o.jotun)
    missing = [name for name in values if name not in OPTIMIZERS]
    if missing:
        sys.exit(f"no row of OPTIMIZERS is there for --optimizer {' '.join(missing)}: add one in {os.path.relpath(__file__)}")
    names = o.only or [name for name in OPTIMIZERS if name in values]
    files = o.text or sorted(f for kind in ("src/**/*.[ch]", "tests/**/*.[ch]", "tests/**/*.py", "docs/**/*.md")
                             for f in glob.glob(os.path.join(TREE, kind), recursive=True))
    o.results = Results(o.results)
    with tempfile.TemporaryDirectory(prefix="jotun-optimizers-") as folder:
        o.folder = folder
        o.data, o.digest = tokens(o.jotun, files, folder)
        return shares(o, names) if o.shares else table(o, names)


if __name__ == "__main__":
    sys.exit(main())
