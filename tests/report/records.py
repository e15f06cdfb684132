"""What `jotun report` and `jotun compare` read: a file that never ends is refused, memory is bounded whatever a journal holds, and steps that
were taken again are counted one by one. Needs no browser."""
import itertools
import json
import os
import random
import re
import resource
import subprocess
import sys
import time

import run


def fail(what):
    sys.exit(what)


def expect(what, right):
    if not right:
        fail(what)


def journal(folder, lines):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "journal.jsonl"), "w") as out:
        for line in lines:
            out.write((line if isinstance(line, str) else json.dumps(line, separators=(",", ":"))) + "\n")
    return folder


def start(step, time, **more):
    return {"event": "start", "time": time, "step": step, "steps": 9, **more}


def steps(step, count=1, seconds=1.0, **more):
    return {"event": "steps", "time": 1e9 + step, "step": step, "mean_of_steps": count, "loss": 2.0, "tokens": 10 * step, "seconds": seconds, **more}


def report(*words):
    return json.loads(run.jotun("report", *words, "--format", "json").stdout)["runs"][0]


def endless(folder):
    """Pipes and devices in the place of files are refused at once, with a name and a cure."""
    def pipe(path):
        os.mkfifo(path)

    def zeros(path):
        os.symlink("/dev/zero", path)

    good = journal(os.path.join(folder, "good"), [start(0, 1e9), steps(1)])
    for make, kind in (pipe, "a pipe"), (zeros, "a device"), (os.mkdir, "a directory"):
        name = make.__name__
        for file in "journal.jsonl", "metrics.jsonl", "metrics.csv":
            place = os.path.join(folder, f"{name}-{file}")
            os.mkdir(place)
            make(os.path.join(place, file))
            for words in ("report", place, "--format", "md"), ("compare", good, place, "--format", "md"), ("report", os.path.join(place, file), "--format", "md"):
                if name == "mkdir" and words[1].endswith(file):
                    continue                                    # a directory of a run, and nothing in it
                refused(words, f"{place}/{file}: is {kind}, not a regular file, and might never end; copy", 1)
        for command, file in ("sweep", "lr=1e-3/run.json"), ("speedrun", "speedrun.json"):
            place = os.path.join(folder, f"{name}-{command}")
            os.makedirs(os.path.dirname(os.path.join(place, file)))
            make(os.path.join(place, file))
            words = ["speedrun", "--input", good, "--output", place]
            if command == "sweep":
                words = ["sweep", "--mock-data", "--vocab-size", "64", "--compare-loss", "training", "--lr", "1e-3,2e-3", "--save", place, "--train-iters", "4", "--num-layers", "1", "--hidden-size", "16",
                         "--num-attention-heads", "2", "--seq-length", "32", "--global-batch-size", "4"]
            refused(words, f"{file}: is {kind}, not a regular file", 1)


def refused(words, says, code):
    try:
        done = subprocess.run([run.JOTUN, *words], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        fail(f"{' '.join(words)} does not return")
    if done.returncode != code or says not in done.stderr:
        fail(f"{' '.join(words)}: exit code {done.returncode}, wanted {code} and {says!r}:\n{done.stderr}")


def taken_again(folder):
    """A resume a few steps before the end of a long run loses these steps and their seconds, and no other step leaves the curve."""
    count = 1_000_000 if os.environ.get("JOTUN_FULL") else 30_000
    rng = random.Random(7)
    for back, exact in (10, True), (3000, True), (count // 2 + 3, False):
        to, begun = count - back, 1e9
        seconds = [0.0] + [0.1 + 0.4 * rng.random() if exact else 0.25 for _ in range(count)]
        place = os.path.join(folder, f"back-{back}")
        journal(place, [start(0, begun)] + [steps(step, seconds=seconds[step], loss=4.0) for step in range(1, count + 1)] + [start(to, begun + count)]
                + [steps(step, seconds=0.5, loss=2.0) for step in range(to + 1, count + 1)])
        found = report(place)
        lost, points = sum(seconds[to + 1:]), found["steps"]
        expect(f"{found['starts'][0]['repeated_steps']} steps are taken again, not {back}", found["starts"][0]["repeated_steps"] == back)
        expect(f"{back} steps back: {found['time']}, not {lost}", abs(found["time"]["steps taken again after a restart"] - lost) < 1e-6)
        expect(f"{sum(p['steps'] for p in points)} steps of {count}", sum(p["steps"] for p in points) == count == points[-1]["step"])
        expect("steps are in two points", all(b["step"] - a["step"] == b["steps"] for a, b in zip(points, points[1:])))
        mean = sum(p["loss"] * p["steps"] for p in points) / count
        expect(f"the mean of the curve is {mean}", abs(mean - (4 * to + 2 * back) / count) < 1e-9)
        expect(f"{len(points)} points", 4096 <= len(points) <= 16384)
        expect("points of different lengths", len({p["steps"] for p in points}) < 6)
    lines = [start(0, 1e9), steps(10, 10, seconds=1.0), steps(20, 10, seconds=2.0), start(13, 1e9 + 40), steps(20, 7, seconds=3.0), steps(30, 10, seconds=3.0)]
    found = report(journal(os.path.join(folder, "between"), lines))
    places = [(p["step"], p["steps"], p["seconds"], p["tokens"]) for p in found["steps"]]
    expect(f"a resume between two lines: {places}", places == [(10, 10, 1.0, 100), (20, 10, 2.7, 200), (30, 10, 3.0, 300)])
    lost = found["starts"][0]["repeated_steps"], found["time"]["steps taken again after a restart"]
    expect(f"a resume between two lines: {lost}", lost == (7, 14.0))


def within(megabytes, *words):
    """A report that may take so many MB of addresses."""
    def limit():
        if not os.environ.get("SANITIZE"):                      # sanitizers reserve terabytes
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    for kind in "html", "md":
        done = subprocess.run([run.JOTUN, "report", *words, "--format", kind, "--output", os.devnull], capture_output=True, text=True, preexec_fn=limit)
        expect(f"a report in {megabytes} MB: {words}: exit code {done.returncode}\n{done.stderr}", done.returncode == 0)


def bounded(folder):
    """A journal of any length and any contents takes no more memory than another; what is left out is said."""
    brackets = "[" + ",".join(["[]"] * 120_000) + "]"
    kinds = {
        "long texts": lambda i: start(0, 1e9 + i, options={"lr": str(i) * 1_500_000}, command="x" * 400_000),
        "many options": lambda i: start(0, 1e9 + i, options={f"o{i}-{k}": k for k in range(60_000)}),
        "brackets": lambda i: '{"event":"start","time":%d,"step":0,"data":%s}' % (1e9 + i, brackets),
        "large": lambda i: start(0, 1e9 + i, options={"lr": "1" * 4_300_000}),
        "large ends": lambda i: {"event": "stop", "how": "end", "message": "m" * 4_300_000},
        "tiny": lambda i: "\n".join(['{"event":"start"}'] * 30_000),
    }
    for name, kind in kinds.items():
        many = journal(os.path.join(folder, name), itertools.chain([start(0, 1e9)], map(kind, range(12)), [steps(7)]))
        within(150, many)
        found = report(many)
        expect(f"{name}: {found['starts'][-1]}", found["starts"][-1]["last_step"] == 7)
        left_out = 12 if name.startswith("large") else 0
        expect(f"{name}: {found['facts_left_out']} facts are left out", found["facts_left_out"] == left_out)
        said = f"The facts of {left_out} starts and ends are left out" in run.jotun("report", many, "--format", "md").stdout
        expect(f"{name}: what is left out is not said", said == (left_out > 0))
        expect("ended", name != "large ends" or found["ended"])
        counted = sum(s["starts"] for s in found["starts"])
        expect(f"{name}: {counted} starts", counted == {"large ends": 1, "tiny": 360_001}.get(name, 13))
    changes = journal(os.path.join(folder, "changes"), [start(0, 1e9, options={f"o{k}": 1 for k in range(9000)}), start(0, 1e9 + 1, options={"lr": 2})])
    changed = report(changes)["starts"][1]["changed"]
    expect(f"options changed: {changed[-100:]}", changed.startswith("--lr, --o0, --o1, ") and len(changed) < 4300 and re.search(" and [0-9]+ more$", changed))


def many_starts(folder):
    """Of very many starts the first ones are one, and no second is lost."""
    lines, step = [], 0
    for i in range(9000):
        lines += [start(step, 1e9 + 10 * i, loading_seconds=1), {**steps(step + 2, 2, seconds=2.0), "time": 1e9 + 10 * i + 5}]
        step += 1
    found = report(journal(os.path.join(folder, "starts"), lines))
    time = found["time"]
    wanted = {"training steps": 4.0 * 9000 - 2 * 8999, "steps taken again after a restart": 2.0 * 8999, "starting and loading": 9000, "other": 9000,
              "stopped between two starts": 4.0 * 8999, "sum": 6.0 * 9000 + 4.0 * 8999}
    expect(f"{time}\nis not {wanted}", all(abs(time[k] - v) < 1e-3 for k, v in wanted.items()))
    expect("starts", sum(s["starts"] for s in found["starts"]) == 9000 and len(found["starts"]) <= 4096)
    expect("steps taken again", sum(s["repeated_steps"] for s in found["starts"]) == 8999)


def no_run(folder):
    """JSON lines that are no run are refused; in a run, lines that are not understood are counted where a person looks."""
    for name, lines in ("texts", ['{"text": "a"}', '{"text": "b"}']), ("values", ["{}", "5"]), ("splits", ['{"split": "train", "text": "a"}']):
        path = os.path.join(folder, f"{name}.jsonl")
        open(path, "w").write("\n".join(lines) + "\n")
        refused(("report", path, "--format", "md"), f"{path} has no line of a run", 1)
    path = os.path.join(folder, "metrics.jsonl")
    open(path, "w").write('{"step":400,"loss":2.5,"seconds":1,"tokens":10}\n{}\nnot a line\n')
    done = run.jotun("report", path, "--format", "md")
    expect(f"not said: {done.stderr}", f"{path}: 2 of its 3 lines are not understood, and left out" in done.stderr)
    expect("Markdown does not say it", "2 of its 3 lines are not understood" in done.stdout)
    page = os.path.join(folder, "one_step.html")
    run.jotun("report", path, "--output", page)
    expect("a step is no whole number", ">400.5<" not in open(page).read() and ">400<" in open(page).read())


def told_apart(folder):
    """Runs of one name are named by as much more of their paths as tells them apart; places of what they write are no differing options."""
    paths = []
    for name in "a", "b":
        os.makedirs(os.path.join(folder, "apart", name))
        paths.append(os.path.join(folder, "apart", name, "metrics.jsonl"))
        open(paths[-1], "w").write('{"step":1,"loss":2.5}\n')
        places = {o: f"{name}/{o}" for o in ("save", "load", "metrics", "history", "tensorboard-dir", "profile")}
        journal(os.path.join(folder, "apart", name, "run"), [start(0, 1e9, options={"lr": len(name), "seed": ord(name), **places}), steps(1)])
    said = run.jotun("compare", *paths, "--format", "md").stdout
    expect(said, "| a/metrics.jsonl |" in said and "| b/metrics.jsonl |" in said and folder not in said)
    said = run.jotun("compare", *(os.path.join(folder, "apart", n, "run") for n in "ab"), "--format", "md").stdout
    expect(said, re.findall("^[|] (--[a-z-]+)", said, re.M) == ["--seed"] and "| a/run | b/run |" in said)


def throughput(folder):
    """Speed and MFU are tokens and FLOPs over seconds, in the page, the comparison and joined points; 100 tokens a step."""
    begin = start(0, 1e9, flops_per_token_full=6, peak_flops=6000)
    uneven = journal(os.path.join(folder, "uneven"), [begin, steps(10, 10, seconds=0.1, tokens_per_second=1000, tokens=1000),
                                                               steps(20, 10, seconds=1.0, tokens_per_second=100, tokens=2000)])
    page = os.path.join(folder, "uneven.html")
    run.jotun("report", uneven, "--output", page)
    tiles = {what: value for value, what in re.findall("<div><b>([^<]*)</b><span>([^<]*)</span></div>", open(page).read())}
    expect(f"the mean speed of 2,000 tokens in 11 s: {tiles}", (tiles["tokens per second, mean"], tiles["MFU, mean"]) == ("181.8", "18.2 %"))
    speed = json.loads(run.jotun("compare", uneven, uneven, "--format", "json").stdout)["results"][0]["tokens_per_second"]
    expect(f"compare: {speed}", abs(speed - 2000 / 11) < 1e-9)
    long = journal(os.path.join(folder, "alternately"), [begin] + [steps(i, seconds=(1.0, 0.1)[i % 2], tokens_per_second=(100, 1000)[i % 2]) for i in range(1, 30_001)])
    points = report(long)["steps"]
    expect("no point is joined", any(p["steps"] > 1 for p in points))
    for p in points:
        expect(f"a point of {p}", abs(p["tokens_per_second"] * p["seconds"] - 100) < 1e-6 and abs(p["mfu_full"] * p["seconds"] - 0.1) < 1e-9)


def unknown_flops(folder):
    """FLOPs of an evaluation are empty where those of a token are not known, as those of a step."""
    path = os.path.join(folder, "flops.jsonl")
    open(path, "w").write('{"step":1,"loss":2.5,"tokens":10}\n{"step":1,"split":"valid","loss":2.4,"tokens":10}\n')
    lines = [line.split(",") for line in run.jotun("report", path, "--format", "csv").stdout.splitlines()]
    expect(f"FLOPs: {lines}", [line[5] for line in lines] == ["flops", "", ""])


def replaced(folder):
    """A report takes the place of one of its own format; any other file is left as it is."""
    place = journal(os.path.join(folder, "replaced"), [start(0, 1e9), steps(1)])
    for kind, other in ("csv", "step,loss\n1,2\n"), ("csv", "run,split\n"), ("json", '{"stages": {"split": {}}}'), ("json", '{\n "stages": {}}'), ("md", "# A title\n\nA text.\n"), ("html", "a text"):
        path = os.path.join(folder, f"other.{kind}")
        open(path, "w").write(other)
        for words in ("report", place, "--output", path), ("compare", place, place, "--output", path), ("report", place, "--format", kind, "--output", path):
            refused(words, f"--output {path} is there and is no ", 1)
            expect(f"{path} was written", open(path).read() == other)
    for kind in "csv", "json", "md", "html":
        path = os.path.join(folder, f"own.{kind}")
        for words in (("report", place), ("compare", place, place)) * 2:
            run.jotun(*words, "--output", path)
    open(path, "w").close()
    run.jotun("report", place, "--output", path)                        # an empty file holds nothing


def differing(folder):
    """The JSON of a comparison has the options that differ and the results."""
    places = [journal(os.path.join(folder, name), [start(0, 1e9, options={"lr": lr, "seed": 1, "save": name, **more}), steps(1), steps(2, loss=1.5),
                                                   {"event": "evaluation", "step": 2, "split": "valid", "loss": 1.75, "bits_per_byte": 2.5}])
              for name, lr, more in (("first", 1e-3, {}), ("second", 2e-3, {"muon": ["a", True]}))]
    found = json.loads(run.jotun("compare", *places, "--format", "json").stdout)
    expect(f"differing: {found['differing']}", found["differing"] == {"lr": [1e-3, 2e-3], "muon": [None, ["a", True]]})
    expect("the runs", len(found["runs"]) == 2)
    for name, row in zip(("first", "second"), found["results"]):
        wanted = {"run": name, "training_loss": 1.5, "validation_loss": 1.75, "least_validation_loss": 1.75, "bits_per_byte": 2.5, "step": 2, "tokens": 20}
        expect(f"results: {row}", all(row[k] == v for k, v in wanted.items()) and row["flops"] is None)


def killed(folder):
    """--follow ends when the process of a run that was killed is gone, and the page says so."""
    data, save = run.corpus(folder), os.path.join(folder, "killed")
    words = ["train", *run.MODEL, "--data-path", data, "--tokenizer", "bytes", "--train-iters", 1000000, "--log-interval", 1, "--save", save]
    child = subprocess.Popen([run.JOTUN, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path, page = os.path.join(save, "journal.jsonl"), os.path.join(folder, "killed.html")
    while not os.path.exists(path) or '"steps"' not in open(path).read():
        expect("the run ended", child.poll() is None)
        time.sleep(0.05)
    expect("a run that goes on", "running, or killed" in run.jotun("report", save, "--format", "md").stdout)
    follows = subprocess.Popen([run.JOTUN, "report", save, "--follow", "--output", page], stdout=subprocess.DEVNULL)
    time.sleep(1.5)
    expect("--follow ends before the run", follows.poll() is None)
    child.kill()
    child.wait()
    expect("--follow fails", follows.wait(timeout=60) == 0)
    expect("the page says something else", "killed or lost at step" in open(page).read() and "http-equiv=\"refresh\"" not in open(page).read())
    expect("the state", report(save)["state"].startswith("killed or lost at step"))


def main():
    with run.work_folder() as folder:
        endless(folder)
        taken_again(folder)
        bounded(folder)
        many_starts(folder)
        no_run(folder)
        told_apart(folder)
        throughput(folder)
        unknown_flops(folder)
        replaced(folder)
        differing(folder)
        killed(folder)


main()
