"""Drawn layouts (draw.h) as one test:    layouts.py PROGRAM drawn|mpi|in-order [arguments of the program]

drawn     PROGRAM compares each layout with one rank; then what each rank sent is compared with the formulas
in-order  25 random layouts and schedules (1000 with JOTUN_FULL), a step of each on a transport that runs the calls of a communicator strictly in order
mpi       those of the layouts that PROGRAM kills and resumes, among which in full is every value but of overlap and transport, by the binary under Open MPI and MPICH: losses and weights are
          those of ranks as threads, to the bit; under one of the two so are those of a run that goes on from the threads' first checkpoint, under the other the
          generated text. Without JOTUN_FULL every sixth of them, one run under each MPI.
          The binary has one transport under MPI: the strictly ordered and the late one stand between it and the ranks, and are drawn's part.
Each layout that fails is printed with a command that repeats it alone."""
import os
import shlex
import subprocess
import sys

import run
import traffic_check

STEPS = 3
FULL = bool(os.environ.get("JOTUN_FULL"))
IN_ORDER = 1000 if FULL else 25


def again(program, how, arguments, number):
    return f"    again: {sys.executable} {os.path.abspath(__file__)} {program} {how} {' '.join(arguments)} --only {number}"


def drawn(program, arguments):
    with run.work_folder() as folder:
        sent = os.path.join(folder, "sent")
        done = subprocess.run([program, *arguments, "--traffic", sent])
        bad = traffic_check.check(sent)
        for number in bad:
            print(again(program, "drawn", arguments, number))
        return done.returncode or (1 if bad else 0)


def train(data, folder, words, name, launcher=None, load=None, steps=STEPS):
    """Losses of the steps and a hash of the weights; what went wrong, in one line, where there are none"""
    out = os.path.join(folder, name)
    words = [*words, "--data-path", data, "--exit-interval", str(steps), "--save", out, "--metrics", out + ".jsonl", *(["--load", load] if load else [])]
    done = run.jotun("train", *words, check=False, launcher=started(words, launcher))
    if done.returncode != 0 or "dry run" in done.stderr:
        return f"exit code {done.returncode}: {done.stderr.strip()[-400:]}"
    return run.metrics(out + ".jsonl"), run.digest(os.path.join(out, f"step_{steps:08d}"))


def started(words, launcher):
    return launcher + [words[words.index("--ranks") + 1]] if launcher else None


def generate(folder, words, name, launcher=None):
    """Ids after some prompts, of the weights of the threads' run, under as much of its layout as generation has"""
    options = traffic_check.options_of(words)
    prompts = os.path.join(folder, "prompts.txt")
    with open(prompts, "w") as out:
        out.write("the ra\nt\njo tun\n")
    mine = []
    for option in "ranks", "tp", "sp", "cp", "pp", "use-tp-pp-dp-mapping", "bf16", "fp16", "device", "threads":
        if option in options:
            mine += ["--" + option] + ([options[option]] if options[option] is not True else [])
    if options.get("zero-stage") == "3":
        mine += ["--zero-stage", "3"]
    done = run.jotun("generate", "--load", os.path.join(folder, name), "--prompt-file", prompts, "--max-new-tokens", "4", "--temperature", "0",
                     *mine, check=False, launcher=started(words, launcher))
    return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()[-400:]}"


def whole_differs(data, folder, words, number, want, launcher, name):
    """What of a run under this MPI differs; None: nothing. So below"""
    got = train(data, folder, words, f"{number}-{name}", launcher)
    return None if not isinstance(want, str) and got == want and len(want[0]) == STEPS else f"{got}; threads had {want}"


def resumed_differs(data, folder, words, number, want, launcher, name):
    if not os.path.exists(os.path.join(folder, f"{number}-first")):
        train(data, folder, words, f"{number}-first", steps=1)
    rest = train(data, folder, words, f"{number}-{name}-resumed", launcher, os.path.join(folder, f"{number}-first"))
    same = not isinstance(rest, str) and rest[1] == want[1] and len(rest[0]) == STEPS - 1 and all(want[0][step] == loss for step, loss in rest[0].items())
    return None if same else f"resumed: {rest}; threads had {want}"


def text_differs(data, folder, words, number, want, launcher, name):
    text, ids = generate(folder, words, f"{number}-threads"), generate(folder, words, f"{number}-threads", launcher)
    return None if ids == text and ids.startswith("{") else f"generates {ids}; threads {text}"


def mpi(program, arguments):
    launchers = run.launchers()
    if not launchers:
        print("skipped: neither Open MPI nor MPICH with its plug-in is here")
        return run.SKIP
    only = int(arguments[arguments.index("--only") + 1]) if "--only" in arguments else None
    lines = subprocess.run([program, *arguments, "--list", "--resumed"], capture_output=True, text=True, check=True).stdout.splitlines()
    failed, ran = 0, 0
    with run.work_folder() as folder:
        data = run.corpus(folder)
        for place, line in enumerate(lines if FULL or only is not None else lines[::6]):
            number, *words = shlex.split(line)
            if only is not None and int(number) != only:
                continue
            want = train(data, folder, words, f"{number}-threads")
            ran += 1
            for i, (name, launcher) in enumerate(launchers.items()):
                first = (place + i) % 2 == 0
                checks = ([whole_differs, resumed_differs if first else text_differs] if FULL else
                          [whole_differs if first or len(launchers) == 1 else resumed_differs])
                for bad in filter(None, (check(data, folder, words, number, want, launcher, name.replace(" ", "")) for check in checks)):
                    failed += 1
                    print(f"layout {number} under {name}: {bad}\n{again(program, 'mpi', arguments, number)}\n    options: {' '.join(words)}")
    print(f"{ran} layouts under {' and '.join(launchers)}: {STEPS} losses and all weights, of whole runs and of resumed ones"
          f"{', and the text' if FULL else ''} are those of threads, to the bit, but for {failed} runs")
    return 1 if failed else 0


def in_order(program, arguments):
    return subprocess.run([program, "--in-order", str(IN_ORDER), *arguments]).returncode


if __name__ == "__main__":
    sys.exit({"drawn": drawn, "mpi": mpi, "in-order": in_order}[sys.argv[2]](sys.argv[1], sys.argv[3:]))
