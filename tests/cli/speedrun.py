"""jotun speedrun: from texts to a model in one command; killed at random moments it ends with the same model; and its words for
texts that it cannot use.

    speedrun.py [kills] [seed]      default 3 kills (JOTUN_FULL: 20)
    speedrun.py large GB MINUTES    a made text of so many GB: how long it took, and the memory of its largest process; needs four times the disk
"""
import glob
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time

import run

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


def texts(folder):
    path = os.path.join(folder, "texts")
    os.mkdir(path)
    lines = sentences(random.Random(4), 900)
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
    return out


def killed(folder, text, whole, kills, rng):
    """kill -9 of the one process, whose children end with it; SIGTERM in between."""
    out = os.path.join(folder, "killed")
    seconds = max(1.0, sum(stage["seconds"] for stage in state_of(whole).values()))
    kill = 0
    while kill < kills:
        child = subprocess.Popen([run.JOTUN] + words(text, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
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
            seconds *= 0.8
        else:
            kill += 1
    run.jotun(*words(text, out))
    compare(whole, out, kills)


def compare(whole, out, kills):
    expect(f"after {kills} kills the weights are others", run.digest(last_step(whole)) == run.digest(last_step(out)))
    expect("the metrics are others", run.metrics(os.path.join(whole, "metrics.jsonl")) == run.metrics(os.path.join(out, "metrics.jsonl")))
    for name in ("train.jsonl", "heldout.jsonl", "tokenizer.json", "evaluation.json", "train_text_document.bin"):
        mine, theirs = (open(os.path.join(o, name), "rb").read() for o in (whole, out))
        expect(f"{name} is another", mine == theirs)
    left = glob.glob(os.path.join(out, "*.part")) + glob.glob(os.path.join(out, "*.work"))
    expect(f"left behind: {left}", not left)


def timed(folder, text):
    """--minutes measures the speed, writes the horizon down, and keeps to it."""
    out = os.path.join(folder, "timed")
    done = run.jotun(*words(text, out, "--minutes", "0.15"))
    state = state_of(out)
    expect("no depth was measured", done.stderr.count("--train-iters 5 ") >= 1 and "chosen: depth" in done.stderr)
    expect("steps in the metrics", len(run.metrics(os.path.join(out, "metrics.jsonl"))) == state["recipe"]["steps"])
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
        (words(made("utf16", {"a.txt": latin.decode("latin-1").encode("utf-16")}), "f2"), 1, "iconv -f UTF-16 -t UTF-8"),
        (words(made("empty_file", {"a.txt": b""}), "f3"), 1, "no documents in it"),
        (words(made("picture", {"a.png": b"\x89PNG\r\n\x1a\n" + noise}), "f4"), 1, "no file in this directory has a known ending"),
        (words(made("program", {"jotun": program}), "f5"), 1, "give its format by --input-format"),
        (words(made("zeros", {"a.txt": bytes(1000)}), "f6"), 1, "1 since they have bytes 0"),
        (words(made("one_line", {"a.txt": b"Ett enda stycke. " * 600000}), "f7"), 1, "fold -s -w 4000"),
        (words(link, "f8"), 1, "Too many levels of symbolic links"),
        (words(made("empty", {}), "e1"), 1, "no file in this directory has a known ending"),
        (words(made("blank", {"a.txt": b"\n\n"}), "e2"), 1, "no documents in it"),
        (words(made("binary", {"a.txt": noise, "b.bin": noise}), "e3"), 1, "are not UTF-8"),
        (words(made("latin", {"a.txt": latin}), "e4"), 1, "iconv -f ISO-8859-1"),
        (words(made("tiny", {"a.txt": b"Ett enda stycke. " * 60}), "e5"), 1, "needs 2 documents"),
        (words("absent", "e6"), 1, "absent: cannot be read"),
        (words("-", "e7"), 1, "write them to a file"),
        (words(text, whole, "--flops", "5e11"), 1, "holds a run of other options"),
        (words(text, "e8", "--flops", "5e11", "--depth", "2"), 1, "leave one out"),
        (words(text, text, "--depth", "1"), 1, "is no directory of a speedrun"),
        (words(text, "e9", "--flops", "1e6"), 1, "not enough for"),
        (["speedrun"], 2, "--input"),
    ]
    for arguments, code, message in cases:
        arguments = [os.path.join(folder, a) if len(a) == 2 and a[0] in "ef" else a for a in arguments]
        done = run.jotun(*arguments, check=False)
        if done.returncode != code or message not in done.stderr:
            sys.exit(f"{' '.join(map(str, arguments))}\nexit code {done.returncode}, wanted {code} and \"{message}\":\n{done.stderr}")
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
    open(os.path.join(path, "b.txt"), "wb").write(b"\xff\xfe\xfd\n" * 100)
    open(os.path.join(path, "c.png"), "wb").write(b"\x89PNG\r\n")
    for name, target in (("up", ".."), ("self", "self"), ("d.txt", "d.txt"), ("e.txt", "/nowhere")):
        os.symlink(target, os.path.join(path, name))
    open(os.path.join(path, "aa.txt"), "w").write("En fil som ingen f\u00e5r l\u00e4sa.\n")
    os.chmod(os.path.join(path, "aa.txt"), 0)
    readable = os.access(os.path.join(path, "aa.txt"), os.R_OK)                     # by root
    done = run.jotun(*words(path, out, "--flops", "2e11"))
    left = set(texts_of(os.path.join(out, "clean.jsonl")))
    hidden = {"En fil som ingen f\u00e5r l\u00e4sa."}
    expect(f"{len(left)} documents", len(left) > 150 and left - set(lines) == (hidden if readable else set()))
    expect("what was skipped is not said", "5 files of the directories are skipped" in done.stderr and "100 documents were skipped" in done.stderr)
    expect("an unreadable file is not said", readable or "aa.txt: cannot be read: Permission denied" in done.stderr)


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
    run.jotun(*words(path, out, "--depth", "1"))
    state = state_of(out)
    expect("the smallest text has a tokenizer", state["tokenizer"]["name"] == "bytes")
    expect("bits per byte", 0 < state["evaluate"]["bits_per_byte"] < 8)


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
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20 if os.environ.get("JOTUN_FULL") else 3
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    with run.work_folder() as folder:
        text = texts(folder)
        whole = whole_run(folder, text)
        refusals(folder, text)
        small(folder)
        odd_folder(folder)
        timed(folder, text)
        print(f"{kills} kills, seed {seed}", flush=True)
        killed(folder, text, whole, kills, random.Random(seed))


main()
