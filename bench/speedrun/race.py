"""jotun speedrun beside nanoGPT's recipe on the same texts, in the same minutes on the same cores:

    race.py FILE DIR [--minutes 10] [--seeds 3] [--sizes cpu,wide,char] [--types fp32,bf16] [--tokens char] [--jotun PROGRAM]

FILE has a document a line. jotun runs first; what it holds out is what nanogpt.py evaluates on, and what it trains on is what nanogpt.py
trains on, so that both have the same documents. Where jotun took longer than the minutes, as on a machine that has become slower, nanogpt.py
gets as long. The first seed runs every size, the others those whose result is within 5 % of the lowest.
One run at a time, seed by seed, each result in a file of DIR: the same command resumes with the runs that have no result yet, from their
beginning. The machine should be idle; where it is not, the CPU seconds of each run, which are printed, tell whether both sides had as much.
JOTUN_TORCH names a Python that has PyTorch. It prints every result and the medians over seeds; exit code 1: jotun's is not below the lowest
of nanoGPT's."""
import argparse
import fcntl
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("work")
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--sizes", default="cpu,wide,char")
    p.add_argument("--types", default="fp32", help="of nanoGPT: some of fp32, bf16, fp32-eager, bf16-eager, the latter two without torch.compile as its README has it for the size cpu; "
                        "jotun chooses its own")
    p.add_argument("--tokens", default="char", help="of nanoGPT: char, gpt2 or both")
    p.add_argument("--jotun", default=os.path.join(HERE, "../../build/release/bin/jotun"))
    return p.parse_args()


def checked(words, **more):
    # A run that outlives this process keeps the lock, since it would take the cores of the next.
    done = subprocess.run([str(w) for w in words], pass_fds=[LOCK.fileno()], **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}")
    return done


def one_text(a):
    """DIR belongs to one text."""
    path, mine = os.path.join(a.work, "text.sha256"), hashlib.sha256(open(a.text, "rb").read()).hexdigest()
    if not os.path.exists(path):
        open(path, "w").write(mine)
    if open(path).read() != mine:
        sys.exit(f"{a.work} has results on another text than {a.text}; give another directory")


def result_of(a, name, make):
    """The result in its file, or a new one that is written there as a whole."""
    path = os.path.join(a.work, name + ".json")
    if not os.path.exists(path):
        print(f"{name} begins", flush=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = make()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        result["cpu_seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        json.dump(result, open(path + ".part", "w"))
        os.rename(path + ".part", path)
    result = json.load(open(path))
    print(f"{name}: {result['bits_per_byte']:.4f} bits per byte, {result['parameters']:.0f} parameters, {result['seconds']:.0f} s, "
          f"{result['cpu_seconds']:.0f} CPU seconds", flush=True)
    return result


def lines_of(folder, side, path):
    """Documents of a speedrun as lines, their ends included as its bits per byte include them."""
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(json.loads(line)["text"] + "\n" for line in open(os.path.join(folder, side + ".jsonl"), encoding="utf-8"))


def jotun(a, folder, seed):
    shutil.rmtree(folder, ignore_errors=True)                 # a run that was cut off would get more than its minutes
    began = time.monotonic()
    with open(folder + ".log", "w") as log:
        checked([a.jotun, "speedrun", "--input", a.text, "--output", folder, "--minutes", a.minutes, "--seed", seed], stdout=log, stderr=log)
    stages = json.load(open(os.path.join(folder, "speedrun.json")))["stages"]
    for side, name in (("train", "train.txt"), ("heldout", "valid.txt")):
        path = os.path.join(a.work, name)
        lines_of(folder, side, path + ".part")
        if os.path.exists(path) and open(path, "rb").read() != open(path + ".part", "rb").read():
            sys.exit(f"{folder} has other documents than the runs before it in {a.work}")
        os.rename(path + ".part", path)
    return {"bits_per_byte": stages["evaluate"]["bits_per_byte"], "parameters": stages["recipe"]["parameters"],
            "seconds": time.monotonic() - began, "stages": stages}


def nanogpt(a, size, tokens, kind, seed, minutes):
    words = [os.environ.get("JOTUN_TORCH", sys.executable), os.path.join(HERE, "nanogpt.py"), "--train", os.path.join(a.work, "train.txt"), "--valid", os.path.join(a.work, "valid.txt"),
             "--minutes", minutes, "--size", size, "--tokens", tokens, "--seed", seed] + (["--bf16"] if "bf16" in kind else []) + (["--no-compile"] if "eager" in kind else [])
    return json.loads(checked(words, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def main():
    a = arguments()
    os.makedirs(a.work, exist_ok=True)
    global LOCK
    LOCK = open(os.path.join(a.work, "lock"), "w")
    try:
        fcntl.flock(LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"{a.work}: another race is at work there; wait until it ends")
    one_text(a)
    ours, theirs = [], {}
    kinds = [(size, tokens, kind) for size in a.sizes.split(",") for tokens in a.tokens.split(",") for kind in a.types.split(",")]
    for seed in range(1, a.seeds + 1):
        name = f"jotun-{a.minutes:g}-{seed}"
        own = result_of(a, name, lambda: jotun(a, os.path.join(a.work, name), seed))
        ours.append(own["bits_per_byte"])
        minutes = max(a.minutes, own["seconds"] / 60)
        for size, tokens, kind in kinds:
            result = result_of(a, f"nanogpt-{size}-{tokens}-{kind}-{a.minutes:g}-{seed}", lambda: nanogpt(a, size, tokens, kind, seed, minutes))
            theirs.setdefault((size, tokens, kind), []).append(result["bits_per_byte"])
        if seed == 1:
            kinds = [k for k in kinds if theirs[k][0] < 1.05 * min(bits[0] for bits in theirs.values())]
    print(f"\nmedians over seeds, {a.minutes:g} minutes each, bits per byte:")
    for name, bits in [("jotun speedrun", ours), *((f"nanoGPT's recipe, size {s}, tokens {t}, {k}", b) for (s, t, k), b in theirs.items())]:
        print(f"{statistics.median(bits):.4f}  of {len(bits)} seeds: {name}")
    return min(map(statistics.median, theirs.values())) <= statistics.median(ours)


if __name__ == "__main__":
    sys.exit(main())
