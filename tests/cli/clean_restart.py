"""jotun clean killed, starved of disk, interrupted, with any number of workers: in the end the same bytes; the report adds up;
what was begun otherwise is not gone on with."""
import gzip
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import run

OUTPUTS = ["out.jsonl", "out-00000.jsonl", "dropped.jsonl", "clusters.jsonl", "pairs.jsonl", "report.json", "report.html"]
FULL = bool(os.environ.get("JOTUN_FULL"))


def text(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words))


WORDS = ["".join(random.Random(i).choice("abdefgiklmnoprstuvåäö") for _ in range(2 + i % 9)) for i in range(3000)]


def inputs(folder):
    """JSON lines, text and a packed file that is cut; equal, nearly equal, broken, empty and very long documents among them."""
    rng, said = random.Random(11), []
    def document():
        kind = rng.random()
        if said and kind < 0.1:
            return rng.choice(said)
        if said and kind < 0.2:
            words = rng.choice(said).split()
            words[rng.randrange(len(words))] = "annat"
            return " ".join(words)
        said.append(text(rng, rng.randint(60, 300)))
        return said[-1]
    with open(f"{folder}/a.jsonl", "w", encoding="utf-8") as out:
        for i in range(2500):
            row = {"id": f"a{i}", "text": document().replace(" ", "\n", 2), "url": f"http://x/{i}"}
            out.write(json.dumps(row, ensure_ascii=i % 2 == 0) + "\n" if i % 50 else '{"id": "broken", "text": \n')
            if i == 700:
                out.write(json.dumps({"id": "long", "text": text(rng, 400000)}) + "\n")
    with open(f"{folder}/b.txt", "w", encoding="utf-8") as out:
        for i in range(2500):
            out.write(document() + "\n" + ("\n   \n" if i % 100 == 0 else ""))
    whole = gzip.compress("".join(document() + "\n" for _ in range(400)).encode())
    open(f"{folder}/c.txt.gz", "wb").write(whole[:len(whole) // 2])
    open(f"{folder}/d.txt", "wb").write(b"en rad som slutar i \xff\xfe och inte kan l\xc3\xa4sas\nden sista raden i allt\n")
    return [f"{folder}/{name}" for name in ("a.jsonl", "b.txt", "c.txt.gz", "d.txt")]


def command(folder, out, workers, *more):
    os.makedirs(out, exist_ok=True)
    return [str(w) for w in ["clean", "--input", *inputs_of(folder), "--output", f"{out}/out.jsonl", "--near-threshold", 0.7,
                             "--part-bytes", 300000, "--shard-bytes", 700000, "--max-document-bytes", 3000000, "--workers", workers,
                             "--dropped", f"{folder}/dropped.jsonl", "--clusters", f"{out}/clusters.jsonl",
                             "--pairs", f"{out}/pairs.jsonl", "--report", f"{out}/report.json", *more]]


def inputs_of(folder):
    return [f"{folder}/{name}" for name in ("a.jsonl", "b.txt", "c.txt.gz", "d.txt")]


def made(folder, out):
    """Bytes of all that a run made, and nothing else lies there."""
    left = sorted(os.listdir(out))
    if any("part" in name or "work" in name for name in left):
        sys.exit(f"left behind: {left}")
    files = {name: open(f"{out}/{name}", "rb").read() for name in left}
    files["dropped"] = open(f"{folder}/dropped.jsonl", "rb").read()
    os.remove(f"{folder}/dropped.jsonl")
    return files


def same(name, files, wanted):
    if files.keys() != wanted.keys():
        sys.exit(f"{name}: {sorted(files)} instead of {sorted(wanted)}")
    for key in wanted:
        if files[key] != wanted[key]:
            sys.exit(f"{name}: {key} has other bytes")


def adds_up(files):
    report = json.loads(files["report.json"])
    rules = report["dropped"]
    for what in "documents", "bytes":
        total = report["kept"][what] + sum(row[what] for row in rules.values())
        if total != report["in"][what]:
            sys.exit(f"{total} {what} are accounted for, {report['in'][what]} came")
    kept = sum(files[name].count(b"\n") for name in files if name.startswith("out"))
    dropped = [json.loads(line) for line in files["dropped"].splitlines()]
    pairs = files["pairs.jsonl"].count(b"\n")
    clusters = [json.loads(line) for line in files["clusters.jsonl"].splitlines()]
    twice = rules["exact duplicate"]["documents"] + rules["near duplicate"]["documents"]
    if kept != report["kept"]["documents"] or len(dropped) != report["in"]["documents"] - kept:
        sys.exit(f"{kept} lines kept and {len(dropped)} dropped: {report}")
    if pairs != twice or sum(c["documents"] - 1 for c in clusters) != twice or twice < 500 or report["damaged_files"] != 1:
        sys.exit(f"{pairs} pairs, {len(clusters)} clusters: {report}")
    for rule in "broken", "not UTF-8":
        if rule not in rules:
            sys.exit(f"nothing was {rule}: {rules}")
    lengths = report["lengths"]
    if sum(row["in"] for row in lengths) != report["in"]["documents"] or sum(row["kept"] for row in lengths) != kept:
        sys.exit(f"the lengths do not add up: {lengths}")
    return report


def go_on_until_done(name, folder, out, **more):
    """The same command again and again, as long as it is killed; how often it was."""
    for times in range(200):
        done = subprocess.run([run.JOTUN] + command(folder, out, 2), capture_output=True, text=True, **more)
        if done.returncode == 0:
            return times
        sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr}")
    sys.exit(f"{name}: does not end")


def faults(folder, wanted):
    """The k-th write, fsync or rename fails (a full disk) or is the last of the process."""
    hit = 0
    points = {"write": (1, 2, 5, 9, 14, 40), "rename": (1, 2, 3, 6, 12, 19), "sync": (2, 9, 30), "remove": (1, 3, 6)}
    for point, numbers in points.items():
        for number in numbers:
            for action, code in ("fail", 3), ("kill", -signal.SIGKILL):
                out = f"{folder}/{point}{number}{action}"
                environment = dict(os.environ, JOTUN_FAULT=f"{point}:{number}:{action}")
                done = subprocess.run([run.JOTUN] + command(folder, out, 2), capture_output=True, text=True, env=environment)
                if done.returncode == 0:
                    shutil.rmtree(out)
                    continue                                # so often it was never called
                if done.returncode != code or (action == "fail" and "No space left on device" not in done.stderr):
                    sys.exit(f"{point} {number} {action}: exit code {done.returncode}\n{done.stderr}")
                go_on_until_done(f"{point} {number} {action}", folder, out)
                same(f"{point} {number} {action}", made(folder, out), wanted)
                shutil.rmtree(out)
                hit += 1
    print(f"{hit} faults at writes, syncs and renames: the same bytes")
    if hit < 20:
        sys.exit("fewer than 20 were reached")


def kills(folder, wanted, seconds):
    """At moments drawn by chance, several in one run."""
    rng, out, count = random.Random(7), f"{folder}/killed", 0
    for _ in range(40 if FULL else 12):
        child = subprocess.Popen([run.JOTUN] + command(folder, out, rng.choice([1, 2, 3])), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.02, seconds))
        child.kill()
        if child.wait() == 0:
            same("killed", made(folder, out), wanted)
            continue
        count += 1
    go_on_until_done("killed", folder, out)
    same("killed", made(folder, out), wanted)
    print(f"{count} kills at random moments: the same bytes")


def interrupted(folder, wanted):
    out = f"{folder}/interrupted"
    child = subprocess.Popen([run.JOTUN] + command(folder, out, 2), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    end = time.monotonic() + 20
    while not os.path.exists(f"{out}/out.jsonl.work/progress") and time.monotonic() < end:
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    stderr = child.communicate(timeout=60)[1]
    if child.returncode != 130 or "resumes from here" not in stderr:
        sys.exit(f"interrupted: exit code {child.returncode}\n{stderr}")
    refusals(folder, out)
    go_on_until_done("interrupted", folder, out)
    same("interrupted", made(folder, out), wanted)
    print("interrupted: exit code 130, then the same bytes")


def damaged(folder, wanted):
    """A bit that falls over in any file of the work folder between a kill and the next run is found, and its file named."""
    rng, out = random.Random(3), f"{folder}/damaged"
    work, spare, hit = f"{out}/out.jsonl.work", f"{folder}/spare", {}
    environment = dict(os.environ, JOTUN_FAULT="rename:9:kill")
    done = subprocess.run([run.JOTUN] + command(folder, out, 2), capture_output=True, env=environment)
    if done.returncode != -signal.SIGKILL:
        sys.exit(f"damaged: exit code {done.returncode} instead of a kill")
    shutil.copytree(work, spare)
    with open(f"{work}/progress", "rb") as file:
        progress = file.read()
    whole = dict(zip(["texts", "rows", "keys", "dropped"], struct.unpack_from("=4q", progress, 56)))
    whole["progress"] = len(progress)
    for name, size in whole.items():
        for at in {0, size - 1, *(rng.randrange(size) for _ in range(6 if FULL else 2))}:
            shutil.rmtree(work)
            shutil.copytree(spare, work)
            with open(f"{work}/{name}", "r+b") as file:
                file.seek(at)
                byte = file.read(1)[0] ^ 1 << rng.randrange(8)
                file.seek(at)
                file.write(bytes([byte]))
            done = subprocess.run([run.JOTUN] + command(folder, out, 2), capture_output=True, text=True)
            if done.returncode != 1 or f"/{name}: " not in done.stderr or "--restart" not in done.stderr:
                sys.exit(f"damaged: a bit of byte {at} of {name} turned: exit code {done.returncode}\n{done.stderr}")
            hit[name] = hit.get(name, 0) + 1
    shutil.rmtree(work)
    shutil.move(spare, work)
    go_on_until_done("damaged", folder, out)
    same("damaged", made(folder, out), wanted)
    print(f"bits turned in the work folder, all found: {hit}")


def refusals(folder, out):
    """What is not as it was begun; the state stays."""
    def refused(says, words):
        done = run.jotun(*words, check=False)
        if done.returncode != 1 or says not in done.stderr:
            sys.exit(f"wanted \"{says}\": exit code {done.returncode}\n{done.stderr}")
    refused("the interrupted run had  --near-threshold 0.7  and this one has  --near-threshold 0.9",
            command(folder, out, 2, "--near-threshold", 0.9))
    progress = f"{out}/out.jsonl.work/progress"
    os.rename(progress, progress + ".json")                 # as older versions name theirs, which are of another layout
    open(progress + ".json", "r+b").write(b"{")
    refused("progress.json: not a progress file of this version; --restart", command(folder, out, 2))
    open(progress + ".json", "r+b").write(b"j")
    os.rename(progress + ".json", progress)
    path = f"{folder}/d.txt"
    data, about = open(path, "rb").read(), os.stat(path)
    open(path, "ab").write(b"en rad till\n")
    refused("d.txt", command(folder, out, 2))
    open(path, "wb").write(data)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def main():
    with run.work_folder() as folder:
        inputs(folder)
        begun = time.monotonic()
        run.jotun(*command(folder, f"{folder}/one", 1))
        seconds = time.monotonic() - begun
        wanted = made(folder, f"{folder}/one")
        report = adds_up(wanted)
        print(f"{report['in']['documents']} documents in {seconds:.2f} s, {sorted(wanted)}")
        run.jotun(*command(folder, f"{folder}/three", 3, "--memory", 1000000))
        same("three workers, little memory", made(folder, f"{folder}/three"), wanted)
        faults(folder, wanted)
        kills(folder, wanted, seconds)
        interrupted(folder, wanted)
        damaged(folder, wanted)
    return 0


sys.exit(main())
