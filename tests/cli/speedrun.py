"""jotun speedrun: from texts to a model in one command; killed at random moments it ends with the same model; and its words for
texts that it cannot use.

    speedrun.py [kills] [seed]      default 2 kills (JOTUN_FULL: 20), of a run of --minutes half as many
    speedrun.py large GB MINUTES    a made text of so many GB: how long it took, and the memory of its largest process; needs four times the disk
"""
import glob
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import run

MINUTES = "0.15"
SYLLABLES = "ka ri so lu me ta no vi".split()


def sentences(rng, count):
    """Lines whose words follow from the words before them, so that there is something to learn."""
    lines = []
    for _ in range(count):
        at, words = rng.randrange(8), []
        for _ in range(rng.randint(20, 60)):
            at = (at * 3 + rng.choice((1, 1, 1, 4))) % 8
            words.append(SYLLABLES[at] + SYLLABLES[(at + 5) % 8])
        lines.append(" ".join(words).capitalize() + ".")
    return lines


def texts(folder, name="texts", count=900):
    path = os.path.join(folder, name)
    os.mkdir(path)
    lines = sentences(random.Random(4), count)
    with open(os.path.join(path, "a.txt"), "w") as out:
        out.write("\n".join(lines[:600]) + "\n")
    with open(os.path.join(path, "b.jsonl"), "w") as out:
        for line in lines[600:]:
            out.write(json.dumps({"text": line + "\nEn \u00e5ngra-rad.\n" + line[::-1]}) + "\n")
    return path


def words(text, out, *more):
    return ["speedrun", "--input", text, "--output", out, *(more or ("--flops", "4e11"))]


def state_of(out):
    return json.load(open(os.path.join(out, "speedrun.json")))["stages"]


def last_step(out):
    return os.path.join(out, "checkpoint", os.path.basename(open(os.path.join(out, "checkpoint", "latest")).read().strip()))


def expect(what, right):
    if not right:
        sys.exit(what)


def texts_of(path):
    return [json.loads(line)["text"] for line in open(path, encoding="utf-8")]


def whole_run(folder, text):
    """All stages; what they say is true of the files."""
    out = os.path.join(folder, "whole")
    done = run.jotun(*words(text, out))
    state = state_of(out)
    heldout, train = (texts_of(os.path.join(out, n + ".jsonl")) for n in ("heldout", "train"))
    expect("a document is on both sides", not set(heldout) & set(train))
    clean = texts_of(os.path.join(out, "clean.jsonl"))
    expect("documents are lost", len(clean) > 700 and sorted(heldout + train) == sorted(clean))
    share = sum(len(t.encode()) for t in heldout) / sum(len(t.encode()) for t in heldout + train)
    expect(f"{share} of the text is held out", 0.04 < share < 0.07)
    result = json.load(open(os.path.join(out, "evaluation.json")))
    count = sum(len(t.encode()) + 1 for t in heldout)
    bits = result["loss"] * result["tokens"] / math.log(2) / count
    expect("bits per byte are not those of the evaluation", abs(bits - state["evaluate"]["bits_per_byte"]) < 1e-9)
    expect(f"nothing was learnt: {bits} bits per byte", bits < 2.5)
    expect("the result is not printed", f"bits per byte: {bits:.4f} on {len(heldout)} documents" in done.stdout)
    steps = run.metrics(os.path.join(out, "metrics.jsonl"))
    expect("steps in the metrics", len(steps) == state["recipe"]["steps"])
    flops = state["recipe"]["steps"] * state["recipe"]["batch"] * state["recipe"]["sequence"] * state["recipe"]["flops_per_token"]
    expect(f"{flops} operations instead of 4e11", 3.5e11 < flops <= 4e11)
    expect("no folder for transformers", os.path.exists(os.path.join(out, "hf", "config.json")))
    spoken = run.jotun("generate", "--load", "hf:" + os.path.join(out, "hf"), "--prompt", "Ka", "--max-new-tokens", 4, errors="replace")
    expect("the exported model does not generate", spoken.stdout.strip())
    before = run.digest(last_step(out))
    again = run.jotun(*words(text, out))
    expect("a run that is done trains again", "$ jotun" not in again.stderr and run.digest(last_step(out)) == before)
    os.remove(os.path.join(out, "report.html"))
    os.remove(os.path.join(out, "hf", "config.json"))
    again = run.jotun(*words(text, out))
    expect("what was removed is not made again", os.path.exists(os.path.join(out, "report.html")) and os.path.exists(os.path.join(out, "hf", "config.json")))
    expect("it trains for that", "$ jotun train" not in again.stderr and run.digest(last_step(out)) == before)
    return out


def killed(folder, text, whole, kills, rng):
    """kill -9 of the one process, whose children end with it; SIGTERM in between."""
    out = os.path.join(folder, "killed")
    kill_often(out, words(text, out), whole, kills, rng, lambda: None)
    starts = json.loads(run.jotun("report", out, "--format", "json").stdout)["runs"][0]["starts"]
    trained = sum(start["end"] - start["begin"] for start in starts)
    expect(f"{len(starts)} starts of training took {trained} s", state_of(out)["train"]["seconds"] > trained - 0.5)


def kill_often(out, command, whole, kills, rng, begin):
    """begin makes what the command finds; it is called again where a run was over before its kill."""
    seconds = max(1.0, sum(stage["seconds"] for stage in state_of(whole).values()))
    kill = 0
    begin()
    while kill < kills:
        child = subprocess.Popen([run.JOTUN] + command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(rng.uniform(0.02, 0.7 * seconds))
        asked = signal.SIGTERM if kill % 3 == 1 else signal.SIGKILL
        child.send_signal(asked)
        said = child.stderr.read()
        child.wait()
        if child.returncode not in (0, -signal.SIGKILL, 143):
            sys.exit(f"kill {kill} by {asked}: exit code {child.returncode}\n{said}")
        if child.returncode == 0:                             # it was over: the machine has become faster, or few stages were left
            compare(whole, out, kill)
            subprocess.run(["rm", "-rf", out], check=True)
            begin()
            seconds *= 0.8
        else:
            kill += 1
    run.jotun(*command)
    compare(whole, out, kills)


def measured_copy(run_folder, out, depths):
    """The directory of a run as a kill behind so many measurements leaves it."""
    shutil.rmtree(out, ignore_errors=True)
    os.mkdir(out)
    state = json.load(open(os.path.join(run_folder, "speedrun.json")))
    state["stages"] = {name: state["stages"][name] for name in ("clean", "split", "tokenizer", "tokens")}
    state["measured"] = dict(list(state["measured"].items())[:depths])
    expect("the type is not written down", state["type"] in ("bf16", "fp32"))
    json.dump(state, open(os.path.join(out, "speedrun.json"), "w"))
    for name in ("clean.jsonl", "clean.json", "train.jsonl", "heldout.jsonl", "tokenizer.json", *(f"{s}_text_document.{e}" for s in ("train", "heldout") for e in ("bin", "idx"))):
        shutil.copy(os.path.join(run_folder, name), os.path.join(out, name))
    open(os.path.join(out, "speedrun.lock"), "w").close()


def killed_minutes(folder, text, kills, rng):
    """A run of --minutes: depths that were measured before a kill are not measured again, and what was measured decides, whenever it is killed."""
    whole, minutes = os.path.join(folder, "timed"), ("--minutes", MINUTES)
    measured, recipe = json.load(open(os.path.join(whole, "speedrun.json")))["measured"], state_of(whole)["recipe"]
    expect(f"{measured} was measured", list(measured)[:1] == ["1"] and str(recipe["depth"]) in measured and all(v["step"] > 0 and v["took"] > 0 for v in measured.values()))
    # A kill behind the first measurement: that one stays, and the others, if there are any, are made.
    first = os.path.join(folder, "first")
    measured_copy(whole, first, 1)
    child = subprocess.Popen([run.JOTUN] + words(text, first, *minutes), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = ""
    while "chosen: depth" not in said and child.poll() is None:
        said += child.stderr.readline()
    child.kill()
    child.communicate()
    now = json.load(open(os.path.join(first, "speedrun.json")))["measured"]
    expect(f"{now} after {measured}", now["1"] == measured["1"] and "depth 1: measured before" in said)
    expect(f"measured again:\n{said}", said.count("--train-iters 5 ") == len(now) - 1)
    # Killed at any moment after the last measurement, however often, it ends with the same model.
    out = os.path.join(folder, "timed_killed")
    kill_often(out, words(text, out, *minutes), whole, kills, rng, lambda: measured_copy(whole, out, len(measured)))
    mine = state_of(out)["recipe"]
    differ = [name for name in recipe if name != "seconds" and mine[name] != recipe[name]]
    expect(f"chosen otherwise: {differ}", not differ)


def odd_paths(folder, text):
    """Blanks, quotes and newlines in paths belong to them: of `a ` nothing of `a` is read, and the command lines of the log are right. Texts
    whose path is not UTF-8 are the same ones when the run is started again."""
    base = os.path.join(folder, "paths")
    os.mkdir(base)
    without_blank = " it's \"a\"  $b `c`\nb\\\u00e5"
    os.mkdir(os.path.join(base, without_blank))
    open(os.path.join(base, without_blank, "a.txt"), "w").write("En fil som ingen har bett om.\n" * 50)
    bytes_alone = os.fsdecode(b"\xff\xe5 ")
    for i, name in enumerate((without_blank + " ", bytes_alone)):
        place, out = os.path.join(base, name), os.path.join(base, f"out {i}{name if name != bytes_alone else ''}")
        shutil.copytree(text, place)
        done = run.jotun(*words(place, out, "--flops", "1e11"), errors="surrogateescape")
        if name == bytes_alone:
            refused = run.jotun(*words(place, os.path.join(base, name, "x"), "--flops", "1e11"), errors="surrogateescape", check=False)
            expect(f"a directory that is not UTF-8: {refused.stderr}", refused.returncode == 1 and "is not UTF-8" in refused.stderr)
            again = run.jotun(*words(place, out, "--flops", "1e11"), errors="surrogateescape")
            expect(f"started again: {again.stderr}", again.stderr.count("done before, kept") == len(state_of(out)) and "cleaning the texts" not in again.stderr)
        right = texts_of(os.path.join(folder, "whole", "clean.jsonl"))
        expect(f"{name!r}: other texts", texts_of(os.path.join(out, "clean.jsonl")) == right)
        shown = re.findall(r"^jotun: \$ jotun (clean .*)$", done.stderr, re.MULTILINE)
        expect(f"{name!r}: {shown}", len(shown) == 1)
        parts = subprocess.run(["bash", "-c", f"printf '%s\\0' {shown[0]}"], capture_output=True, check=True).stdout.split(b"\0")
        expect(f"{name!r}: {parts}", os.fsencode(place) in parts and os.fsencode(os.path.join(out, "clean.jsonl")) in parts)


def compare(whole, out, kills):
    expect(f"after {kills} kills the weights are others", run.digest(last_step(whole)) == run.digest(last_step(out)))
    expect("the metrics are others", run.metrics(os.path.join(whole, "metrics.jsonl")) == run.metrics(os.path.join(out, "metrics.jsonl")))
    for name in ("train.jsonl", "heldout.jsonl", "tokenizer.json", "evaluation.json", "train_text_document.bin"):
        mine, theirs = (open(os.path.join(o, name), "rb").read() for o in (whole, out))
        expect(f"{name} is another", mine == theirs)
    left = glob.glob(os.path.join(out, "*.part")) + glob.glob(os.path.join(out, "*.work"))
    expect(f"left behind: {left}", not left)


def few_validations(done, state):
    """All validations take a thirtieth of the time of the steps, or are one."""
    interval, batches = map(int, re.search(r"--eval-interval (\d+) --eval-iters (\d+) ", done.stderr).groups())
    steps = state["recipe"]["steps"]
    expect(f"{steps} steps, {batches} batches every {interval}", steps // interval * batches / 3 <= max(steps / 30, 1) * 1.1)


def timed(folder, text):
    """--minutes measures the speed, writes the horizon down, and keeps to it."""
    global MINUTES
    out = os.path.join(folder, "timed")
    done = run.jotun(*words(text, out, "--minutes", MINUTES), check=False)
    while done.returncode == 1 and "not enough for 10 steps" in done.stderr and float(MINUTES) < 2:       # a busy machine
        shutil.rmtree(out, ignore_errors=True)                                 # refused before it was made, or behind its measurements
        MINUTES = str(2 * float(MINUTES))
        done = run.jotun(*words(text, out, "--minutes", MINUTES), check=False)
    expect(f"exit code {done.returncode}:\n{done.stderr}", done.returncode == 0)
    state = state_of(out)
    expect("no depth was measured", done.stderr.count("--train-iters 5 ") >= 1 and "chosen: depth" in done.stderr)
    expect("steps in the metrics", len(run.metrics(os.path.join(out, "metrics.jsonl"))) == state["recipe"]["steps"])
    measured = json.load(open(os.path.join(out, "speedrun.json")))["measured"][str(state["recipe"]["depth"])]
    planned = sum(state[s]["seconds"] for s in ("clean", "split", "tokenizer", "tokens", "recipe")) + state["recipe"]["steps"] * measured["step"]
    expect(f"{planned} seconds are planned for {MINUTES} minutes", planned <= 60 * float(MINUTES))
    few_validations(done, state)
    short = ["--flops", re.search("give ([0-9.e+]+) or more", run.jotun(*words(text, out + "-short", "--flops", "1e6"), check=False).stderr).group(1)]
    done = run.jotun(*words(text, out + "-short", *short))                # of the fewest steps
    few_validations(done, state_of(out + "-short"))
    expect("more passes than are worth anything", state["recipe"]["epochs"] < 41)


def refusals(folder, text):
    def made(name, files):
        path = os.path.join(folder, name)
        os.mkdir(path)
        for file, content in files.items():
            open(os.path.join(path, file), "wb").write(content)
        return path

    noise = random.Random(1).randbytes(20000)
    latin = "\n".join(f"H\u00e4r \u00e4r rad {i} p\u00e5 svenska." for i in range(400)).encode("latin-1")
    japanese = "\n".join(f"\u3053\u308c\u306f{i}\u756a\u76ee\u306e\u6587\u3067\u3059\u3002" for i in range(400)).encode("shift_jis")
    program = open(run.JOTUN, "rb").read(200000)
    whole = os.path.join(folder, "whole")
    link = os.path.join(folder, "link.txt")
    os.symlink("link.txt", link)
    cases = [
        (words(made("japanese", {"a.txt": japanese}), "f1"), 1, "SHIFT_JIS (Japanese)"),
        (words(made("utf16", {"a.txt": latin.decode("latin-1").encode("utf-16-le")}), "f2"), 1, "--input-encoding UTF-16LE"),
        (words(made("empty_file", {"a.txt": b""}), "f3"), 1, "no documents in it"),
        (words(made("picture", {"a.png": b"\x89PNG\r\n\x1a\n" + noise}), "f4"), 1, "no file in this directory is read: 1 .png of "),
        (words(made("program", {"jotun": program}), "f5"), 1, "1 not text in UTF-8 of "),
        (words(made("zeros", {"a.txt": bytes(1000)}), "f6"), 1, "1 since they have bytes 0"),
        (words(link, "f8"), 1, "Too many levels of symbolic links"),
        (words(made("empty", {}), "e1"), 1, "there is no file in this directory"),
        (words(made("blank", {"a.txt": b"\n\n"}), "e2"), 1, "no documents in it"),
        (words(made("binary", {"a.txt": noise}), "e3"), 1, "1 not text in UTF-8 of "),
        (words(made("half", {"a.txt": latin.decode("latin-1").encode(), "b.bin": noise}), "f9"), 1, "bytes of --input would be skipped: 1 .bin of "),
        (words(made("broken", {"a.jsonl": b'{"text": "%s"}\n{"text": 1}\n' % (b"Ett enda stycke. " * 60) * 3 + b'{"text": 2 %s\n' % (b"x" * 900)}), "eg"), 1, "% of its bytes could not be read"),
        (words(made("latin", {"a.txt": latin}), "e4"), 1, "--input-encoding ISO-8859-1"),
        (words(made("tiny", {"a.txt": b"Ett enda stycke. " * 20}), "e5"), 1, "needs 500 bytes or more"),
        (words(text, "f7", "--heldout", "middle:0.1"), 1, "give spread:0.05, last:0.1 or first:0.1"),
        (words("absent", "e6"), 1, "absent: cannot be read"),
        (words("-", "e7"), 1, "write them to a file"),
        (words(text, whole, "--flops", "5e11"), 1, "holds a run of other options: --flops"),
        (words(text, "e8", "--flops", "5e11", "--depth", "2"), 1, "leave one out"),
        (words(text, text, "--depth", "1"), 1, "is no directory of a speedrun"),
        (words(text, "e9", "--flops", "1e6"), 1, "not enough for"),
        (words(text, "eb", "--flops", "1e6"), 1, "not enough for"),
        (words(made("other_key", {"a.jsonl": b'{"body": "Ett enda stycke."}\n' * 9}), "ec"), 1, "9 were skipped as broken, as the lines above say: --json-keys"),
        (words("/", "ed")[:3], 1, "give --output DIR"),
        (["speedrun"], 2, "as in: jotun speedrun texts --minutes 10"),
        (["speedrun", "--input", ""], 1, "empty path"),
    ]
    for arguments, code, message in cases:
        if "eb" in arguments:                                  # an empty directory is the user's, and stays
            os.mkdir(os.path.join(folder, "eb"))
        arguments = [os.path.join(folder, a) if len(a) == 2 and a[0] in "ef" else a for a in arguments]
        done = run.jotun(*arguments, check=False)
        if done.returncode != code or message not in done.stderr:
            sys.exit(f"{' '.join(map(str, arguments))}\nexit code {done.returncode}, wanted {code} and \"{message}\":\n{done.stderr}")
    left = [name for name in ("f4", "f5", "f7", "f8", "f9", "e1", "e3", "e6", "e7", "e8", "e9") if os.path.exists(os.path.join(folder, name))]
    expect(f"directories of refused runs are left: {left}", not left)
    expect("clean.html is named and gone", os.path.exists(os.path.join(folder, "e4", "clean.html")))
    least = re.search("give ([0-9.e+]+) or more", run.jotun(*words(text, os.path.join(folder, "e9"), "--flops", "1e6"), check=False).stderr).group(1)
    run.jotun(*words(text, os.path.join(folder, "e9"), "--flops", least))
    short = run.jotun(*words(text, os.path.join(folder, "ea"), "--minutes", "0.05"), check=False)
    if short.returncode:
        expect(f"too few minutes: {short.stderr}", re.search(r"--minutes 0\.05: not enough for 10 steps .* about [0-9.e-]+ would do", short.stderr))
    done = run.jotun(*words(text, os.path.join(folder, "eb"), "--flops", "5e10"))
    expect("a larger budget after one that was too small", "starts over" in done.stderr and "bits per byte" in done.stdout)
    huge = os.path.join(folder, "huge.txt")
    open(huge, "wb").truncate(100 * 10**9)                # of holes: its size is judged, not one byte is read
    done = run.jotun(*words(huge, os.path.join(folder, "e10"), "--minutes", "1"), check=False)
    expect(f"100 GB in a minute: {done.stderr}", done.returncode == 1 and "or a part of the texts" in done.stderr)
    os.remove(huge)


def odd_folder(folder):
    """Links that lead nowhere or in circles, pictures and files of other bytes beside a text: it alone is trained on. As another user than
    root, a file that may not be read is named as well."""
    path, out = os.path.join(folder, "odd"), os.path.join(folder, "odd.speedrun")
    os.mkdir(path)
    lines = sentences(random.Random(6), 200)
    open(os.path.join(path, "a.txt"), "w").write("\n".join(lines) + "\n")
    open(os.path.join(path, "b.txt"), "wb").write(b"\xfe\xfd\n" * 100)
    open(os.path.join(path, "c.png"), "wb").write(b"\x89PNG\r\n")
    for name, target in (("up", ".."), ("self", "self"), ("d.txt", "d.txt"), ("e.txt", "/nowhere")):
        os.symlink(target, os.path.join(path, name))
    open(os.path.join(path, "aa.txt"), "w").write("En fil som ingen f\u00e5r l\u00e4sa.\n")
    os.chmod(os.path.join(path, "aa.txt"), 0)
    readable = os.access(os.path.join(path, "aa.txt"), os.R_OK)                     # by root
    done = run.jotun(*words(path, out, "--flops", "5e10"))
    left = set(texts_of(os.path.join(out, "clean.jsonl")))
    hidden = {"En fil som ingen f\u00e5r l\u00e4sa."}
    expect(f"{len(left)} documents", len(left) > 150 and left - set(lines) == (hidden if readable else set()))
    expect("what was skipped is not said", "4 hidden files, links to directories and the like" in done.stderr and "1 .png of " in done.stderr and "100 documents were skipped" in done.stderr)
    expect("an unreadable file is not said", readable or re.search("1 unreadable of .*aa.txt.*Permission denied", done.stderr))


def small(folder):
    """One kilobyte in several documents is trained on, byte by byte."""
    path, out = os.path.join(folder, "kilobyte.txt"), os.path.join(folder, "kilobyte")
    lines, size = [], 0
    for line in sentences(random.Random(9), 40):
        if size + len(line[:80]) + 1 > 1000:
            break
        lines.append(line[:80])
        size += len(line[:80]) + 1
    open(path, "w").write("\n".join(lines) + "\n")
    os.mkdir(out)
    for name in "speedrun.lock", "speedrun.json.part":       # what a kill leaves before there is a state
        open(os.path.join(out, name), "w").close()
    run.jotun(*words(path, out, "--depth", "1"))
    state = state_of(out)
    expect("the smallest text has a tokenizer", state["tokenizer"]["name"] == "bytes")
    expect("bits per byte", 0 < state["evaluate"]["bits_per_byte"] < 8)


def one_token_short(folder):
    """A part held out of as many tokens as a sample has is a token short of one: it is evaluated, and no validation is asked for. A stage that
    fails says that its cause is to be mended, and then the command continues."""
    path, out = os.path.join(folder, "short.txt"), os.path.join(folder, "short")
    rng = random.Random(3)
    open(path, "w").write("".join("".join(rng.choices("aeiklmnorstv", k=63)) + "\n" for _ in range(15)))
    run.jotun(*words(path, out, "--depth", "1", "--input-format", "txt"))
    expect("the text is no boundary case", state_of(out)["tokens"]["heldout"] == state_of(out)["recipe"]["sequence"] == 64)
    state = json.load(open(os.path.join(out, "speedrun.json")))
    del state["stages"]["evaluate"]
    json.dump(state, open(os.path.join(out, "speedrun.json"), "w"))
    os.rename(os.path.join(out, "heldout_text_document.bin"), os.path.join(out, "away"))
    done = run.jotun(*words(path, out, "--depth", "1", "--input-format", "txt"), check=False)
    expect(f"a stage that fails: {done.stderr}", done.returncode == 1 and "the same command continues there once the cause is mended" in done.stderr
           and "the same command resumes" not in done.stderr)
    os.rename(os.path.join(out, "away"), os.path.join(out, "heldout_text_document.bin"))
    run.jotun(*words(path, out, "--depth", "1", "--input-format", "txt"))


def same_report(out):
    """jotun report of the directory makes the page again that the run made, from the journal; all parameters and the result are on it."""
    path = os.path.join(out, "report.html")
    own = open(path).read()
    run.jotun("report", out)
    expect("the page is another one", open(path).read() == own)
    found = json.loads(run.jotun("report", out, "--format", "json").stdout)["runs"][0]
    state = state_of(out)
    expect(f"held out: {found['heldout']}", found["heldout"]["bits_per_byte"] == state["evaluate"]["bits_per_byte"])
    expect("parameters", state["train"]["parameters"] == found["starts"][-1]["facts"]["parameters"] > state["recipe"]["parameters"])
    bits = f"{state['evaluate']['bits_per_byte']:.4f}"
    said = run.jotun("report", out, "--format", "md").stdout
    expect(f"not said: {said[:500]}", f"bytes): {bits}." in said and bits in own)
    if found["evaluations"]:
        batches = f"bits per byte, validation at step {found['evaluations'][-1]['step']}, "
        expect("validation is not told apart", batches in own)
    both = run.jotun("compare", out, out, "--format", "md").stdout
    expect("compare knows no options", "--train-data-path" not in both and json.loads(run.jotun("compare", out, out, "--format", "json").stdout)["runs"][0]["file"].endswith("journal.jsonl"))


def named_beside(folder):
    """The directory of a run lies beside the texts, also where these are the directory at hand."""
    place = os.path.join(folder, "beside")
    os.makedirs(os.path.join(place, "t2", "in"))
    open(os.path.join(place, "t2", "a.txt"), "w").write("\n".join(sentences(random.Random(8), 30)) + "\n")
    for at, name in ("t2", "."), ("t2", "./"), ("t2/in", ".."), (".", "t2/"):
        subprocess.run([run.JOTUN, "speedrun", "--input", name, "--flops", "3e10"], cwd=os.path.join(place, at), check=True, capture_output=True)
        expect(f"{name}: {os.listdir(place)}", sorted(os.listdir(place)) == ["t2", "t2.speedrun"] and sorted(os.listdir(os.path.join(place, "t2"))) == ["a.txt", "in"])
        shutil.rmtree(os.path.join(place, "t2.speedrun"))


def how_texts_are_read(folder):
    """Options of clean say it, and wrapped prose is one text without them, given as a word of the command line."""
    place = os.path.join(folder, "read")
    os.mkdir(place)
    lines = sentences(random.Random(10), 40)
    open(os.path.join(place, "a.jsonl"), "w").write("".join(json.dumps({"body": line}) + "\n" for line in lines))
    open(os.path.join(place, "a.md"), "w").write("\n\n".join(textwrap.fill(line, 60) for line in lines))
    shutil.copy(os.path.join(place, "a.md"), os.path.join(place, "a.txt"))
    out = os.path.join(place, "out")
    for name, options in ("a.jsonl", ("--json-keys", "body")), ("a.md", ("--input-format", "paragraphs")), ("a.txt", ("--input-format", "paragraphs")):
        run.jotun(*words(os.path.join(place, name), out, "--flops", "3e10", *options))
        expect(f"{name}: {state_of(out)['clean']}", state_of(out)["clean"]["documents"] == 40)
        other = run.jotun(*words(os.path.join(place, name), out, "--flops", "3e10"), check=False)
        expect(f"{name}, read otherwise: {other.stderr}", other.returncode == 1 and f"of other options: {options[0]} " in other.stderr)
        shutil.rmtree(out)
    done = run.jotun("speedrun", os.path.join(place, "a.txt"), "--flops", "3e10", "--threads", "1")
    out = os.path.join(place, "a.speedrun")
    expect(f"wrapped prose: {texts_of(os.path.join(out, 'clean.jsonl'))}", texts_of(os.path.join(out, "clean.jsonl")) == ["\n\n".join(lines)])
    for stage in "clean .* --workers 1", "prepare .* --workers 1", "train .* --threads 1", "eval perplexity .* --threads 1":
        expect(f"--threads is not of {stage}", re.search(rf"\$ jotun {stage}$", done.stderr, re.MULTILINE))
    spoken = run.jotun("generate", "--load", out, "--prompt", "Ka", "--max-new-tokens", 4, errors="replace")
    expect("the directory of a run is no checkpoint to load", spoken.stdout.strip())


def split_of(out, path, *options):
    """The two sides of a run."""
    run.jotun(*words(path, out, "--flops", "3e10", *options))
    sides = [texts_of(os.path.join(out, name + ".jsonl")) for name in ("heldout", "train")]
    shutil.rmtree(out)
    return sides


def one_text(folder):
    """A single text has passages held out from all over it, or its end; no paragraph is on both sides, nor in a copy elsewhere."""
    place, out = os.path.join(folder, "one"), os.path.join(folder, "one.out")
    os.mkdir(place)
    parts = sentences(random.Random(11), 500)
    novel = "\n\n".join(textwrap.fill(part, 70) for part in parts) + "\n"
    open(os.path.join(place, "novel.txt"), "w").write(novel)

    def paragraphs_of(side):
        return [part for text in side for part in text.split("\n\n")]

    heldout, train = split_of(out, place)
    share = sum(map(len, heldout)) / len("\n\n".join(parts))
    places = [parts.index(text.split("\n\n")[0]) for text in heldout]
    expect(f"{share} of one text is held out, in {len(heldout)} passages at {places}", 0.03 < share < 0.08 and len(heldout) > 3)
    expect("passages are not all over the text", max(places) - min(places) > 250)
    expect("paragraphs are lost or cut", sorted(paragraphs_of(heldout) + paragraphs_of(train)) == sorted(parts))
    expect("what is trained on is not stretches of the text", len(train) <= len(heldout) + 1)
    for rule, at in ("last:0.1", slice(-1, None)), ("first:0.1", slice(0, 1)):
        heldout, train = split_of(out, place, "--heldout", rule)
        expect(f"{rule}: {len(heldout)} and {len(train)} documents", len(heldout) == len(train) == 1)
        mine = paragraphs_of(heldout)
        expect(f"{rule} is not that part", mine == (parts[-len(mine):] if rule[0] == "l" else parts[:len(mine)]))
        share = len(heldout[0]) / len("\n\n".join(parts))
        expect(f"{rule} is {share}", abs(share - 0.1) < 0.02)
    # Another text has each third paragraph of the first one.
    open(os.path.join(place, "other.txt"), "w").write("\n\n".join(textwrap.fill(part, 60) for part in parts[::3] + sentences(random.Random(13), 400)) + "\n")
    heldout, train = split_of(out, place)
    expect("a paragraph is on both sides", not set(paragraphs_of(heldout)) & set(paragraphs_of(train)))
    expect("more is lost than that", set(paragraphs_of(heldout) + paragraphs_of(train)) >= set(parts))
    # A byte that is no UTF-8, far from the beginning of a file, costs the whole file, and can be repaired.
    text = "\n\n".join(textwrap.fill(part, 60) for part in sentences(random.Random(14), 600)).encode()
    open(os.path.join(folder, "broken.txt"), "wb").write(text[:-40] + b"\xff" + text[-40:])
    done = run.jotun(*words(os.path.join(folder, "broken.txt"), out, "--flops", "3e10"), check=False)
    expect(f"a broken byte: {done.stderr}", done.returncode == 1 and "--invalid-utf8 repair one of which a few bytes are wrong" in done.stderr)
    shutil.rmtree(out)
    heldout, train = split_of(out, os.path.join(folder, "broken.txt"), "--invalid-utf8", "repair")
    expect("it is not repaired", sum("\ufffd" in text for text in heldout + train) == 1)
    # One line that never ends is cut at sentences.
    open(os.path.join(folder, "line.txt"), "w").write(" ".join(parts))
    heldout, train = split_of(out, os.path.join(folder, "line.txt"))
    expect("a line is not cut at sentences", len(heldout) > 3 and all(text.endswith(".") for text in heldout + train))
    expect("it is another text", sorted(" ".join(heldout + train).split()) == sorted(" ".join(parts).split()))


def large_documents(folder):
    """While there is a small document, none is held out that is larger than a twentieth of all."""
    path, out = os.path.join(folder, "documents.txt"), os.path.join(folder, "documents")
    rng = random.Random(12)
    lines = [" ".join("".join(rng.choices("aeiklmnorstv", k=5)) for _ in range(n)) for n in (800, 800, 800, 800, 800, 12)]
    open(path, "w").write("\n".join(lines) + "\n")
    run.jotun(*words(path, out, "--flops", "5e10"))
    expect("a large document is held out", texts_of(os.path.join(out, "heldout.jsonl")) == [lines[-1]] and len(texts_of(os.path.join(out, "train.jsonl"))) == 5)


def large(gigabytes, minutes):
    """More text than the run can read: documents are chosen, and the minutes are kept."""
    rng = random.Random(2)
    words_made = ["".join(rng.choice("aeiou\u00e5\u00e4\u00f6" if i % 2 else "bdfgklmnrstv") for i in range(rng.randint(2, 9))) for _ in range(30000)]
    with run.work_folder() as folder:
        path, size = os.path.join(folder, "large.txt"), 0
        with open(path, "wb") as out:
            while size < gigabytes * 1e9:
                size += out.write("".join(" ".join(rng.choices(words_made, k=120)) + "\n" for _ in range(500)).encode())
        began = time.monotonic()
        done = subprocess.run([run.JOTUN] + words(path, os.path.join(folder, "large"), "--minutes", str(minutes)), stdout=subprocess.PIPE, text=True)
        took = (time.monotonic() - began) / 60
        print(f"{size} bytes: {took:.2f} minutes of {minutes:g}, {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss} kB in the largest process")
        expect("it failed", done.returncode == 0)
        expect("the minutes are not kept", took < 1.2 * minutes)


def main():
    if sys.argv[1:2] == ["large"]:
        return large(float(sys.argv[2]), float(sys.argv[3]))
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20 if os.environ.get("JOTUN_FULL") else 2
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    with run.work_folder() as folder:
        text = texts(folder)
        whole = whole_run(folder, text)
        refusals(folder, text)
        odd_paths(folder, text)
        same_report(whole)
        small(folder)
        one_token_short(folder)
        named_beside(folder)
        how_texts_are_read(folder)
        one_text(folder)
        odd_folder(folder)
        large_documents(folder)
        many = texts(folder, "many", 6000)                        # so many that a validation's batch is held out
        timed(folder, many)
        print(f"{kills} kills, seed {seed}", flush=True)
        killed(folder, text, whole, kills, random.Random(seed))
        killed_minutes(folder, many, (kills + 1) // 2, random.Random(seed + 1))


main()
