"""`jotun report` and `jotun compare` in headless Chromium: the values of the charts are those of the metrics, a restart's lost steps are
counted, hostile texts are text, pages are readable at 400 and 1400 pixels, light and dark. Pictures stay in build/.../screenshots."""
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import browser
import run

if browser.absent():
    print("skipped:", browser.absent())
    sys.exit(run.SKIP)
PICTURES = os.path.join(os.path.dirname(os.path.abspath(run.JOTUN)), "..", "screenshots")
FULL = bool(os.environ.get("JOTUN_FULL"))
STEPS, SAVED, KILLED = 40, 8, 27                    # both ranks count their steps: the kill is in step 13 or 14
PROMPT = "</b><img src=x>&lt;\"'"
HOSTILE = "<script>window.hit=1</script><img src=x onerror='window.hit=1'>&amp;\"'"


def fail(what):
    sys.exit(what)


def words(data, save, *more):
    return ["train", *run.MODEL, "--data-path", data, "--tokenizer", "bytes", "--split", "80,20,0", "--train-iters", STEPS, "--eval-interval", 10,
            "--eval-iters", 1, "--save-interval", 8, "--sample-interval", 20, "--sample-prompt", PROMPT, "the", "--sample-max-new-tokens", 6,
            "--micro-batch-size", 1, "--log-interval", 1, "--save", save, "--load", save, *more]


def rows(path):
    return [json.loads(line) for line in open(path)]


def figure(tab, name):
    """The curves of a chart: by the JSON beside it, and by the coordinates of its paths."""
    return tab.evaluate("""(f => {
        const svg = f.querySelector('svg.chart'), at = (ends, part) => {
            const [low, high, kind] = ends.split(' ');
            return kind == 'log' ? low * Math.pow(high / low, part) : +low + part * (high - low) };
        const drawn = {}, band = f.querySelector('path.band'), places = path => [...path.getAttribute('d').matchAll(
            /[ML]([-.0-9]+) ([-.0-9]+)/g)].map(m => [at(svg.dataset.x, m[1] / 1000), at(svg.dataset.y, 1 - m[2] / 1000)]);
        for (const path of f.querySelectorAll('path[data-name]'))
            drawn[path.dataset.name] = places(path);
        const [low, high] = svg.dataset.y.split(' ');
        const data = JSON.parse(f.querySelector('script').textContent);
        let x;
        for (const s of data.series) x = s.x = s.x || x;
        return {drawn, band: band ? places(band) : [], series: data.series, low: +low, high: +high} })(document.getElementById(%s))""" % json.dumps(name))


def same_curve(tab, name, curve, wanted, what):
    """wanted: step -> value. The JSON has the same doubles, the path the same places."""
    found = figure(tab, name)
    [series] = [s for s in found["series"] if s["name"] == curve]
    if dict(zip(series["x"], series["y"])) != wanted or len(series["x"]) != len(wanted):
        fail(f"{what}, {name}: {series}\nis not {wanted}")
    places, room = found["drawn"][curve], 0.002 * (found["high"] - found["low"])
    if len(places) != len(wanted):
        fail(f"{what}, {name}: {len(places)} points are drawn, not {len(wanted)}")
    for (x, y), (step, value) in zip(places, sorted(wanted.items())):
        if abs(x - step) > 0.01 * STEPS or abs(y - value) > max(room, 0.01 * abs(value)):
            fail(f"{what}, {name}: step {step} is drawn at {x} {y}, not at {value}")


def looks(tab, page, name):
    """At both widths, light and dark, with pictures."""
    for width, dark in (1400, False), (1400, True), (400, False), (400, True):
        tab.open(page, width=width, dark=dark)
        tab.check()
        tab.screenshot(os.path.join(PICTURES, f"{name}-{width}{'-dark' if dark else ''}.png"))
        back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        if (back == "rgb(255, 255, 255)") == dark:
            fail(f"{page}: the background of a page that is {'dark' if dark else 'light'} is {back}")
    if tab.evaluate("window.hit") is not None:
        fail(f"{page}: a text of the run was run as a script")


def runs_of(data, folder):
    """A run that is killed and resumed under another layout, with its metrics, and one with another width."""
    main, other, metrics = (os.path.join(folder, name) for name in ("main", "other", "main.jsonl"))
    first = run.jotun(*words(data, main, "--metrics", metrics, "--ranks", 2, "--pipeline-model-parallel-size", 2), check=False,
                      env=dict(os.environ, JOTUN_FAULT=f"step:{KILLED}:kill"))
    if first.returncode != -9:
        fail(f"a run to be killed: {first.returncode}\n{first.stderr}")
    with open(os.path.join(main, "journal.jsonl"), "a") as half:
        half.write('{"event":"steps","time":1')
    run.jotun(*words(data, main, "--metrics", metrics, "--ranks", 2))
    run.jotun(*words(data, other, "--hidden-size", 48))
    return main, other, metrics


def report_of_run(tab, main, metrics):
    lines = rows(metrics)
    steps = {r["step"]: r for r in lines if "split" not in r}
    valid = {r["step"]: r["loss"] for r in lines if r.get("split") == "valid"}
    for source in main, metrics:
        page = run.jotun("report", source).stdout.strip()
        if page != (os.path.join(main, "report.html") if source == main else metrics + ".html"):
            fail(f"jotun report {source} writes {page}")
        looks(tab, page, "report" if source == main else "metrics")
        for name, curve, key in ("loss", "training loss", "loss"), ("lr", "learning rate", "lr"), ("norm", "gradient norm", "grad_norm"):
            same_curve(tab, f"run0-{name}", curve, {step: r[key] for step, r in steps.items()}, source)
        same_curve(tab, "run0-loss", "validation loss", valid, source)
        text = tab.evaluate("document.body.innerText")
        if PROMPT not in text:
            fail(f"{page} does not show the prompt as text")
    page = run.jotun("report", main).stdout.strip()
    tab.open(page)
    text = tab.evaluate("document.body.innerText")
    for said in (f"ended after step {STEPS} of {STEPS}", "Memory of rank 0", "optimizer states", "The same again", "text_text_document", "--pipeline-model-parallel-size",
                 f"{steps[STEPS]['loss']:.4f}"):
        if said not in text:
            fail(f"{page} lacks {said!r}:\n{text[:3000]}")
    # The mouse over a chart shows the values there, as text.
    box = tab.evaluate("(b => [b.x, b.y, b.width, b.height])(document.querySelector('#run0-loss svg.chart').getBoundingClientRect())")
    tab.move(box[0] + box[2] - 1, box[1] + box[3] / 2)
    tab.wait("document.querySelector('#run0-loss .tip').textContent.startsWith('step %d\\ntraining loss')" % STEPS)


def other_formats(main, metrics):
    steps = {r["step"]: r for r in rows(metrics) if "split" not in r}
    whole = json.loads(run.jotun("report", main, "--format", "json").stdout)["runs"][0]
    if [(p["step"], p["loss"], p["grad_norm"], p["tokens"]) for p in whole["steps"]] != [(s, r["loss"], r["grad_norm"], r["tokens"]) for s, r in steps.items()]:
        fail(f"steps of the JSON report: {whole['steps']}")
    first, second = whole["starts"]
    if first["last_step"] not in (12, 13) or (first["repeated_steps"], second["first_step"]) != (first["last_step"] - SAVED, SAVED + 1):
        fail(f"steps that were taken again: {first['repeated_steps']}, {first['last_step']}, {second['first_step']}")
    if first["stop"] is not None or second["stop"]["how"] != "end" or not second["facts"]["resumed_from"].endswith(f"step_{SAVED:08}"):
        fail(f"{first['stop']}, {second['stop']}, {second['facts']['resumed_from']}")
    if "--pipeline-model-parallel-size" not in second["changed"] or first["changed"]:
        fail(f"options changed: {second['changed']}")
    parts = whole["time"]
    if abs(sum(v for k, v in parts.items() if k != "sum") - parts["sum"]) > 1e-6 or parts["saving checkpoints"] <= 0 or parts["steps taken again after a restart"] <= 0:
        fail(f"times: {parts}")
    memory = {m["name"]: m["bytes"] for m in second["facts"]["memory"]}
    if {m["name"]: m["bytes"] for m in second["stop"]["memory"]} != {k: v for k, v in memory.items() if v}:
        fail(f"memory planned {memory}, used {second['stop']['memory']}")
    table = run.jotun("report", main, "--format", "csv").stdout.splitlines()
    losses = {int(f[2]): float(f[7]) for f in (line.split(",") for line in table[1:]) if f[1] == "train"}
    if losses != {s: r["loss"] for s, r in steps.items()}:
        fail(f"the table of the report: {table[:3]}")
    text = run.jotun("report", main, "--format", "md").stdout
    if "<script" in text or f"ended after step {STEPS} of {STEPS}" not in text or "| training steps |" not in text:
        fail(text)


def compared(tab, folder, main, other, metrics):
    page = os.path.join(folder, "both.html")
    run.jotun("compare", main, other, metrics, "--output", page)
    looks(tab, page, "compare")
    text = tab.evaluate("document.body.innerText")
    if "--hidden-size" not in text or "--lr\n" in text or text.index("--hidden-size") > text.index("Results"):
        fail(f"options that differ:\n{text[:1500]}")
    axis = {"steps": "step", "tokens": "tokens", "FLOPs": "FLOPs", "hours": "hours"}
    for i, name in enumerate(axis.values()):
        tab.click(f"label[for=over{i}]")
        shown = tab.evaluate("[...document.querySelectorAll('figure')].filter(f => f.offsetParent).map(f => f.id)")
        if shown != [f"loss-{name}", f"valid-{name}"]:
            fail(f"over {name} {shown} are shown")
    ends = [s["x"][-1] for s in figure(tab, "loss-tokens")["series"]]
    if ends != [STEPS * 8 * 32] * 3:
        fail(f"tokens at the ends: {ends}")
    if len({(p[0], p[1]) for p in tab.evaluate("[...document.querySelectorAll('#loss-step path[data-name]')].map(p => [p.className.baseVal, getComputedStyle(p).stroke])")}) != 3:
        fail("two runs look the same")
    again = run.jotun("compare", main, check=False)
    if again.returncode != 2 or "needs DIR DIR..." not in again.stderr:
        fail(again.stderr)


def hostile(tab, folder):
    """Whatever stands in names, texts and options is shown as text; lines that are none are counted."""
    place = os.path.join(folder, "<img src=x onerror=window.hit=1>")
    os.mkdir(place)
    start = {"event": "start", "time": 1e9, "step": 0, "steps": 9, "version": HOSTILE, "command": "jotun train " + HOSTILE, "given": "lr " + HOSTILE,
             "host": "a\x1b[31mb\x07", "options": {"lr": HOSTILE, HOSTILE: [HOSTILE, 1, None]}, "data": [{"name": HOSTILE, "share": 1e308, "tokens": -5, "epochs": None}],
             "memory": [{"name": HOSTILE, "bytes": 1 << 62}, 7, {"name": 3}], "schedule": {"name": "1f1b", "stages": 1 << 40, "micro_batches": -1},
             "layout": {"pp": "x"}, "peak_flops": "fast"}
    lines = [start, {"event": "steps", "step": 3, "mean_of_steps": 3, "loss": 1.5, "time": 1e9 + 5, "seconds": 1}, {"event": "evaluation", "step": 3, "split": HOSTILE, "loss": 2},
             {"event": "sample", "step": 3, "sample": 1, "prompt": HOSTILE + "</script>", "text": "y" * 10_000_000}, {"event": "sample", "step": 3, "sample": [], "prompt": {}, "text": "\u0000\u001b"},
             {"event": "skip", "step": 2, "why": HOSTILE, "loss": None}, {"event": "later version", "step": {}}, {"event": "steps", "step": 6, "mean_of_steps": 3, "loss": 1.25, "seconds": 1},
             {"event": "stop", "how": "failure", "message": HOSTILE, "memory": [1]}]
    strange = [b'{"event":"start"', b"\xff\xfe\x00binary", b'{"event":"sample","text":"\xff"}', b"[" * 100000, b'{"event":"start","options":' + b"[" * 100000 + b"}", b"{}", b"3,4,5"]
    with open(os.path.join(place, "journal.jsonl"), "wb") as out:
        for line in lines:
            out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        out.write(b"\n".join(strange) + b"\n" + b'{"event":"steps","st')
    page = os.path.join(folder, "hostile.html")
    run.jotun("report", place, "--output", page)
    if os.path.getsize(page) > 400_000:
        fail(f"a page of {os.path.getsize(page)} bytes")
    looks(tab, page, "hostile")
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    text = tab.evaluate("document.body.innerText")
    if text.count(HOSTILE) < 9 or "<img src=x onerror=window.hit=1>" not in text or "a\u241b[31mb\u2407" not in text or "9996000 bytes more" not in text:
        fail(f"{text.count(HOSTILE)}: {text[:1500]}")
    if [s["y"] for s in figure(tab, "run0-loss")["series"]][0] != [1.5, 1.25]:
        fail(f"{figure(tab, 'run0-loss')}")
    for kind in "json", "csv", "md":
        run.jotun("report", place, "--format", kind)
    two = [os.path.join(folder, name) for name in ("named", "plain")]
    for path, options in zip(two, (start["options"], {"lr": "1"})):
        os.mkdir(path)
        with open(os.path.join(path, "journal.jsonl"), "w") as out:
            out.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in ({**start, "options": options}, lines[1])))
    table = run.jotun("compare", *two, "--format", "md").stdout
    if re.search(r"(?<!\\)[<&]", table) or "| --\\<script\\>" not in table:
        fail(table)
    name = os.path.join(os.fsencode(folder), b"\xff\xfe")
    os.rename(place, name)
    run.jotun("compare", os.fsdecode(name), os.fsdecode(name), "--output", page, errors="surrogateescape")
    tab.open(page)
    tab.check()
    for path, says in (os.path.join(folder, "nothing"), "there is no such file"), (folder, "has no journal.jsonl"), (os.path.join(folder, "text.txt"), "has no line of a run"):
        done = run.jotun("report", path, check=False)
        if done.returncode != 1 or says not in done.stderr:
            fail(f"jotun report {path}: {done.returncode} {done.stderr}")


def extremes_kept(tab, path):
    """Each point has its steps' least and largest value with the steps that have them, in the JSON and as corners of the band."""
    steps = rows(path)
    for name, curve, key in ("loss", "training loss", "loss"), ("norm", "gradient norm", "grad_norm"):
        found = figure(tab, f"run0-{name}")
        [s] = [s for s in found["series"] if s["name"] == curve]
        high, low, before = [], [], 0
        for i, last in enumerate(map(int, s["x"])):
            part = steps[before:last]
            for kind, pick, corners in ("low", min, low), ("high", max, high):
                wanted = pick(part, key=lambda r: r[key])
                if (s[kind + "_x"][i], s[kind][i]) != (wanted["step"], wanted[key]):
                    fail(f"steps {before + 1} to {last}, {key}: {kind} {s[kind][i]} at {s[kind + '_x'][i]}, not {wanted[key]} at {wanted['step']}")
                corners.append((wanted["step"], wanted[key]))
            before = last
        room = 2e-4 * len(steps), 1e-3 * (found["high"] - found["low"])
        wanted = high + low[::-1]
        if before != len(steps) or len(found["band"]) != len(wanted):
            fail(f"{name}: {len(found['band'])} corners of the band, not {len(wanted)}")
        for (x, y), (step, value) in zip(found["band"], wanted):
            if abs(x - step) > room[0] or abs(y - value) > max(room[1], 0.01 * abs(value)):
                fail(f"{name}: the band has a corner at {x} {y}, not at {step} {value}")


def several(tab, data, folder):
    """A run with two validation sets, experts and a pipeline: every set and every number of the experts is drawn, journal and metrics alike."""
    save, metrics = os.path.join(folder, "several"), os.path.join(folder, "several.jsonl")
    more = words(data, save, "--metrics", metrics, "--ranks", 2, "--pipeline-model-parallel-size", 2, "--num-experts", 4, "--disable-bias-linear",
                 "--moe-router-load-balancing-type", "aux_loss", "--moe-aux-loss-coeff", 0.01, "--moe-z-loss-coeff", 0.001, "--moe-expert-capacity-factor", 1)
    at = more.index("--data-path")
    more[at:at + 2] = ["--train-data-path", data, "--valid-data-path", data, data, "--multiple-validation-sets", "--validation-set-names", "first", "second"]
    at = more.index("--split")
    del more[at:at + 2]
    run.jotun(*more)
    lines = rows(metrics)
    steps = {r["step"]: r for r in lines if "split" not in r}
    sets = {name: {r["step"]: r for r in lines if r.get("split") == name} for name in ("first", "second")}
    for source in save, metrics:
        page = run.jotun("report", source).stdout.strip()
        tab.open(page)
        tab.check()
        for name, found in sets.items():
            if sorted(found) != [10, 20, 30, 40]:
                fail(f"evaluations of {name}: {sorted(found)}")
            same_curve(tab, "run0-loss", f"{name} loss", {step: r["loss"] for step, r in found.items()}, source)
            same_curve(tab, "run0-bits", name, {step: r["bits_per_byte"] for step, r in found.items()}, source)
        for chart in "loss", "bits":
            legend = tab.evaluate(f"[...document.querySelectorAll('#run0-{chart} .legend > span')].map(s => s.innerText.trim()).join()")
            looks_of = tab.evaluate(f"[...document.querySelectorAll('#run0-{chart} path[data-name]')].map(p => getComputedStyle(p).stroke + getComputedStyle(p).strokeDasharray + p.classList.contains('pale'))")
            if not all(name in legend for name in sets) or chart == "bits" and len(set(looks_of)) != 2:
                fail(f"{chart}: legend {legend}, {looks_of}")
        for chart, curve, key in (("expert-load", "load of the busiest expert", "expert_load_max_over_mean"), ("dropped", "dropped share", "dropped_share"),
                                  ("balance", "load-balancing loss", "load_balancing_loss"), ("z", "router z-loss", "z_loss")):
            if not any(r[key] for r in steps.values()):
                fail(f"{key} is 0 throughout")
            near_curve(tab, f"run0-{chart}", curve, {step: r[key] for step, r in steps.items()}, source)
    page = run.jotun("report", save).stdout.strip()
    looks(tab, page, "several")
    for dark in False, True:
        tab.open(page, dark=dark)
        drawing_readable(tab, dark)


def near_curve(tab, name, curve, wanted, what):
    """As same_curve, of numbers that the metrics have with fewer digits than the journal."""
    [series] = [s for s in figure(tab, name)["series"] if s["name"] == curve]
    if series["x"] != sorted(wanted) or any(abs(y - wanted[x]) > 1e-4 * abs(wanted[x]) + 1e-9 for x, y in zip(series["x"], series["y"])):
        fail(f"{what}, {name}: {series}\nis not {wanted}")


def drawing_readable(tab, dark):
    """The pipeline's drawing is dark on a dark page, and its numbers have the contrast of 4.5 that WCAG asks for on each kind of cell."""
    def light(colour):
        return sum(w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for w, c in zip((0.2126, 0.7152, 0.0722), (c / 255 for c in colour)))
    found = tab.evaluate("""(d => { const numbers = text => text.match(/[.0-9]+/g).map(Number);
        const kinds = {};
        for (const r of d.querySelectorAll('rect')) kinds[r.getAttribute('class')] = [numbers(getComputedStyle(r).fill), +getComputedStyle(r).fillOpacity];
        return {kinds, text: numbers(getComputedStyle(d.querySelector('text')).fill), back: getComputedStyle(d).backgroundColor} })(document.querySelector('.drawing'))""")
    kinds, text, idle = found["kinds"], light(found["text"]), found["kinds"]["idle"][0]
    if sorted(kinds) != ["backward", "forward", "idle", "weights"][:len(kinds)] and sorted(kinds) != ["backward", "forward", "idle"]:
        fail(f"kinds of cells: {kinds}")
    if found["back"] != "rgba(0, 0, 0, 0)":
        fail(f"the drawing has a background of its own: {found['back']}")
    for kind, (fill, opacity) in kinds.items():
        cell = light([opacity * a + (1 - opacity) * b for a, b in zip(fill, idle)])
        contrast = (max(cell, text) + 0.05) / (min(cell, text) + 0.05)
        if contrast < 4.5 or (cell > 0.2) == dark:
            fail(f"{'dark' if dark else 'light'}: cells {kind} have the luminance {cell:.2f}, their numbers a contrast of {contrast:.1f}")


def long_run(tab, folder):
    """Of a million steps (with JOTUN_FULL, else fewer) the page stays small, and the curve is the mean of its bins."""
    count, path, rng = 1_000_000 if FULL else 100_000, os.path.join(folder, "long.jsonl"), random.Random(3)
    with open(path, "w") as out:
        for step in range(1, count + 1):
            out.write('{"step":%d,"loss":%.4f,"lr":1e-3,"grad_norm":%.3f,"tokens":%d,"seconds":0.5,"data_seconds":0.001,"tokens_per_second":2000.0}\n'
                      % (step, 2 + 8 / math.sqrt(step) + 0.1 * rng.random(), rng.random(), 1000 * step))
    begun = time.monotonic()
    run.jotun("report", path)
    seconds, size = time.monotonic() - begun, os.path.getsize(path + ".html")
    if size > 2_000_000 or seconds > 60:
        fail(f"{count} steps: {size} bytes in {seconds:.1f} s")
    tab.open(path + ".html")
    tab.check()
    extremes_kept(tab, path)
    [series] = [s for s in figure(tab, "run0-loss")["series"] if s["name"] == "training loss"]
    if not 200 <= len(series["x"]) <= 512 or series["x"][-1] != count or abs(series["y"][-1] - 2.05 - 8 / math.sqrt(count)) > 0.02:
        fail(f"{len(series['x'])} points, the last {series['x'][-1]} {series['y'][-1]}")
    print(f"{count} steps: {size} bytes in {seconds:.1f} s")


def followed(tab, data, folder):
    """While a run goes on the page loads itself again; when it has ended no more."""
    save = os.path.join(folder, "going")
    trains = subprocess.Popen([run.JOTUN, *map(str, words(data, save, "--train-iters", 4000))], stderr=subprocess.DEVNULL)
    while not os.path.exists(os.path.join(save, "journal.jsonl")):
        if trains.poll() is not None:
            fail("the run to be followed has ended at once")
        time.sleep(0.05)
    follows = subprocess.Popen([run.JOTUN, "report", save, "--follow"], stdout=subprocess.DEVNULL)
    page, until = os.path.join(save, "report.html"), time.monotonic() + 60
    while time.monotonic() < until:
        if os.path.exists(page) and "running" in open(page).read() and 'http-equiv="refresh"' in open(page).read():
            break
        time.sleep(0.1)
    else:
        fail("no page of a run that goes on")
    tab.open(page)
    tab.check()
    tab.call("Page.navigate", url="about:blank")        # or it loads itself again in the middle of the next page
    trains.terminate()
    trains.wait(60)
    if follows.wait(60) != 0:
        fail("jotun report --follow fails")
    if 'http-equiv="refresh"' in open(page).read() or "stopped by a signal" not in open(page).read():
        fail("the last page still loads itself again")
    done = run.jotun("report", save, "--follow", "--format", "json", check=False)
    if done.returncode != 1 or "--follow" not in done.stderr:
        fail(done.stderr)


def cleaned(tab, folder):
    lines = os.path.join(folder, "raw.txt")
    with open(lines, "w") as out:
        out.write("".join(f"a line of words with number {i % 50}\n" for i in range(120)))
    run.jotun("clean", "--input", lines, "--output", os.path.join(folder, "clean.txt"), "--dedup", "exact", "--report", os.path.join(folder, "clean.json"))
    looks(tab, os.path.join(folder, "clean.html"), "clean")
    text, counts = tab.evaluate("document.body.innerText"), json.load(open(os.path.join(folder, "clean.json")))
    if f"{counts['kept']['documents']} of {counts['in']['documents']} documents" not in text or "exact duplicate" not in text:
        fail(text)


with tempfile.TemporaryDirectory() as made, browser.Browser() as window:
    pair = run.corpus(made)
    long, short, numbers = runs_of(pair, made)
    report_of_run(window, long, numbers)
    other_formats(long, numbers)
    compared(window, made, long, short, numbers)
    several(window, pair, made)
    hostile(window, made)
    long_run(window, made)
    followed(window, pair, made)
    cleaned(window, made)
