"""A rank of a training run killed under MPI: the job ends within 10 seconds, and one line of ours names the rank. A frozen rank
(SIGSTOP): the watchdog names it and the collective it was last in, and kills it, since a launcher may wait for it. MPICH's launcher
kills the other ranks at once, often before they can speak; told not to clean up, it mostly lets the watchdog speak first. A rank
that is lost before there is a watchdog: the others do not wait for it for ever."""
import os
import re
import signal
import subprocess
import sys
import time

import run


KEEP = {"Open MPI": [], "MPICH": ["-disable-auto-cleanup"]}


def environment_of(pid):
    try:
        return open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    except OSError:
        return []


def pids_of(out):
    """rank -> pid of the processes which save to `out`."""
    pids = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if out.encode() not in words or os.path.basename(words[0]) != b"jotun":
            continue
        for word in environment_of(pid):
            rank = re.fullmatch(rb"(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)", word)
            if rank:
                pids[int(rank[1])] = int(pid)
    return pids


def has_ended(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def ranks_at_fault(line):
    """The rank that a line reports, and those of which it says that they ended too."""
    ended = re.search(r"; ranks? ([0-9, ]+) of this host ended too", line)
    return [int(rank) for rank in re.search(r"rank (\d+) on host", line).groups() + tuple(ended[1].split(", ") if ended else [])]


def wait_for(what, seconds, told):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if told():
            return
        time.sleep(0.05)
    sys.exit(f"waited {seconds} s for {what}")


def one(mpi, launcher, data, folder, number, victim, tries, before=None):
    """`before`: a rank that is killed before the victim, which is frozen until then and so cannot report it."""
    out = os.path.join(folder, f"{mpi.replace(' ', '')}-{number.name}-{victim}-{tries}")
    args = ["train", "--data-path", data, "--train-iters", 1000000, *run.MODEL, "--tp", 2, "--threads", 1, "--watchdog-seconds", 2,
            "--save", out, "--metrics", out + ".jsonl"]
    child = subprocess.Popen(launcher[:1] + KEEP[mpi] + launcher[1:] + ["4", run.JOTUN] + [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for("the first steps", 300, lambda: os.path.exists(out + ".jsonl") and len(run.metrics(out + ".jsonl")) > 3)
        time.sleep(1)                                   # a few heartbeats, each 0.25 s
        pids = pids_of(out)
        if sorted(pids) != [0, 1, 2, 3]:
            sys.exit(f"found ranks {sorted(pids)}, not 0 to 3")
        if before is not None:
            os.kill(pids[victim], signal.SIGSTOP)
            os.kill(pids[before], signal.SIGKILL)
            wait_for("the end of a killed process", 60, lambda: has_ended(pids[before]))
        try:
            os.kill(pids[victim], number)
        except ProcessLookupError:                      # the launcher was first
            if before is None:
                raise
        begin = time.monotonic()
        try:
            stderr = child.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            sys.exit(f"{mpi}: 30 s after {number.name} of rank {victim} the job still runs")
        took = time.monotonic() - begin
    finally:
        for pid in pids_of(out).values():
            os.kill(pid, signal.SIGKILL)
        child.kill()
        child.wait()
    ours = [line for line in stderr.splitlines() if line.startswith("jotun:") and line.endswith("the job is stopped")]
    if len(ours) != 1 or victim not in ranks_at_fault(ours[0]) or before not in [None, *ranks_at_fault(ours[0])]:
        if tries > 1:
            return one(mpi, launcher, data, folder, number, victim, tries - 1, before)
        sys.exit(f"{mpi}, {number.name} of rank {victim}: lines of ours are {ours}\n{stderr}")
    if took > 10 or child.returncode == 0:
        sys.exit(f"{mpi}, {number.name} of rank {victim}: ended after {took:.1f} s with exit code {child.returncode}")
    if number == signal.SIGSTOP and not re.search(r"(all-gather|all-reduce|reduce-scatter|send|agree) #\d+ of \w+", ours[0]):
        sys.exit(f"{mpi}: no collective is named: {ours[0]}")
    print(f"{mpi}, {number.name} of rank {victim}: ended after {took:.1f} s: {ours[0]}")


# Rank 2 never comes to MPI_Init; or it stops at the first message of all.
SLEEPS = """import os, sys, time
if os.environ["PMI_RANK"] == "2":
    time.sleep(1000)
os.execv(sys.argv[1], sys.argv[1:])"""
STOPS = """import os, sys
if os.environ["PMI_RANK"] == "2":
    os.environ["JOTUN_FAULT"] = "collective:1:stop"
os.execv(sys.argv[1], sys.argv[1:])"""


def start_early(launcher, data, folder, script, what):
    """A job that loses a rank before there is a watchdog."""
    out = os.path.join(folder, what.replace(" ", ""))
    words = ["train", "--data-path", data, "--train-iters", 1000000, *run.MODEL, "--threads", 1, "--watchdog-seconds", 2, "--save", out]
    command = launcher + ["4", sys.executable, "-c", script, run.JOTUN] + [str(w) for w in words]
    return what, out, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end_early(what, out, child):
    """The other ranks do not wait for the lost one for ever."""
    try:
        stderr = child.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        sys.exit(f"MPICH: 60 s after a rank was lost before {what} the job still runs")
    finally:
        for pid in pids_of(out).values():
            os.kill(pid, signal.SIGKILL)
        child.kill()
        child.wait()
    ours = [line for line in stderr.splitlines() if line.startswith(f"jotun: {what} has not ended in 30 s")]
    if not ours or child.returncode == 0:
        sys.exit(f"MPICH, a rank lost before {what}: exit code {child.returncode}\n{stderr}")
    print(f"MPICH, a rank lost before {what}: {ours[0]}")


def main():
    launchers = run.launchers()
    if not launchers:
        print("skipped: neither Open MPI nor MPICH with its plug-in is here")
        return run.SKIP
    with run.work_folder() as folder:
        data = run.corpus(folder)
        for mpi, launcher in launchers.items():
            for number, victim in (signal.SIGKILL, 2), (signal.SIGKILL, 0), (signal.SIGSTOP, 1), (signal.SIGSTOP, 0):
                # MPICH's launcher kills the ranks a millisecond after it has seen a death, which may be faster than the
                # watchdog's line. UCX, below MPICH, aborts a rank that reads a dead rank's memory: then two have ended.
                one(mpi, launcher, data, folder, number, victim, 3 if mpi == "MPICH" and number == signal.SIGKILL else 1)
        # Each launcher kills the other ranks after the first death, on a busy machine mostly before one of them speaks.
        if "MPICH" in launchers and os.environ.get("JOTUN_FULL"):
            one("MPICH", launchers["MPICH"], data, folder, signal.SIGKILL, 0, 20, before=2)
        if "MPICH" in launchers:                        # both wait for 30 seconds, so they run side by side
            jobs = [start_early(launchers["MPICH"], data, folder, SLEEPS, "MPI_Init"),
                    start_early(launchers["MPICH"], data, folder, STOPS, "the first synchronization of all ranks")]
            for job in jobs:
                end_early(*job)
    return 0


sys.exit(main())
