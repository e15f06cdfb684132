"""Drawn layouts (draw.h) as one test:    layouts.py PROGRAM drawn|mpi [arguments of the program]

drawn   PROGRAM compares each layout with one rank; then what each rank sent is compared with the formulas
mpi     every fifth of them by the binary, under Open MPI and MPICH: losses and weights are those of ranks as threads, to the bit
Each layout that fails is printed with a command that repeats it alone."""
import os
import shlex
import subprocess
import sys

import run
import traffic_check

EVERY, STEPS = 5, 3


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


def train(data, folder, words, name, launcher=None):
    """Losses of the steps and a hash of the weights; what went wrong, in one line, where there are none"""
    out = os.path.join(folder, name)
    ranks = words[words.index("--ranks") + 1]
    words = [*words, "--data-path", data, "--exit-interval", str(STEPS), "--save", out, "--metrics", out + ".jsonl"]
    done = run.jotun("train", *words, check=False, launcher=launcher + [ranks] if launcher else None)
    if done.returncode != 0 or "dry run" in done.stderr:
        return f"exit code {done.returncode}: {done.stderr.strip()[-400:]}"
    return run.metrics(out + ".jsonl"), run.digest(os.path.join(out, f"step_{STEPS:08d}"))


def mpi(program, arguments):
    launchers = run.launchers()
    if not launchers:
        print("skipped: neither Open MPI nor MPICH with its plug-in is here")
        return run.SKIP
    only = int(arguments[arguments.index("--only") + 1]) if "--only" in arguments else None
    lines = subprocess.run([program, *arguments, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    failed, ran = 0, 0
    with run.work_folder() as folder:
        data = run.corpus(folder)
        for number, line in enumerate(lines):
            if number % EVERY if only is None else number != only:
                continue
            words = shlex.split(line)[1:]
            want = train(data, folder, words, f"{number}-threads")
            ran += 1
            for name, launcher in launchers.items():
                got = train(data, folder, words, f"{number}-{name.replace(' ', '')}", launcher)
                if isinstance(want, str) or got != want or len(want[0]) != STEPS:
                    failed += 1
                    print(f"layout {number} under {name}: {got}; threads had {want}\n{again(program, 'mpi', arguments, number)}\n    options: {' '.join(words)}")
    print(f"{ran} layouts under {' and '.join(launchers)}: {STEPS} losses and all weights as under threads, to the bit, but for {failed} runs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit({"drawn": drawn, "mpi": mpi}[sys.argv[2]](sys.argv[1], sys.argv[3:]))
