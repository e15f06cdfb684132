"""start.py [RANKS...]: how long ranks over TCP take to find each other, as processes of this machine that do nothing else; 256 and 1024
where none are given. The processes share the machine's cores, so that most of the time is theirs to begin."""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "comm"))
import ranks

PROGRAM = os.environ.get("COMM_PROGRAM", os.path.join(HERE, "..", "..", "build", "release", "bin", "comm_program"))


def measure(count):
    begun = time.monotonic()
    children = ranks.start(count, [PROGRAM, "start"], stdout=subprocess.PIPE, environment={"JOTUN_SECRET": os.urandom(16).hex()})
    started = time.monotonic() - begun
    line = children[0].stdout.readline().decode().strip()
    met = time.monotonic() - begun
    for child in children.values():
        child.communicate(timeout=120)
        if child.returncode:
            sys.exit(f"exit code {child.returncode}")
    joined, barrier = line.split(": ")[1].split(", ")
    print(f"{count:5d} processes: all started after {started:.2f} s, all ranks met after {met:.2f} s; rank 0 had all addresses {joined} after "
          f"its own start, and all were in a barrier after {barrier}; all ended after {time.monotonic() - begun:.2f} s", flush=True)


for wanted in map(int, sys.argv[1:] or ["256", "1024"]):
    measure(wanted)
