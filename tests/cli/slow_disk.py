"""A disk that syncs slowly: a healthy run under a watchdog whose limit is shorter than a save or the look at --save goes on, and a
rank that is frozen inside such a save is still named."""
import os
import re
import shutil
import subprocess
import sys
import time

import run

SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int fsync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    usleep(1500000);
    return real(fd);
}
"""


def slow_library(folder):
    source, library = os.path.join(folder, "slow.c"), os.path.join(folder, "slow.so")
    with open(source, "w") as out:
        out.write(SLOW)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def arguments(data, out, *more):
    return ["train", "--data-path", data, "--train-iters", 2, *run.MODEL, "--num-layers", 1, "--threads", 1, "--watchdog-seconds", 2, "--save", out, *more]


def slow_run_goes_on(data, out, environment):
    begin = time.monotonic()
    done = run.jotun(*arguments(data, out, "--ranks", 2), check=False, env=environment)
    if done.returncode != 0 or "the job is stopped" in done.stderr:
        sys.exit(f"a healthy run on a slow disk: exit code {done.returncode}\n{done.stderr}")
    run.jotun("checkpoint", "verify", out)
    if time.monotonic() - begin < 10:
        sys.exit("the syncs were not slow: nothing was tested")


def frozen_in_a_save(mpi, launcher, data, out, environment):
    """The first process that comes to its second sync stops itself there: rank 0, when it looks at --save."""
    environment = dict(environment, JOTUN_FAULT="sync:2:stop", ASAN_OPTIONS="detect_leaks=0")
    begin = time.monotonic()
    command = launcher + ["2", run.JOTUN] + [str(w) for w in arguments(data, out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    ours = [line for line in done.stderr.splitlines() if line.startswith("jotun:") and line.endswith("the job is stopped")]
    if len(ours) != 1 or not re.search(r"rank \d on host \S+ has been silent for 2 s, .*busy (saving|looking at --save), \d+ file operations done", ours[0]) or done.returncode == 0:
        sys.exit(f"{mpi}: a rank frozen inside a save: exit code {done.returncode}\n{done.stderr}")
    print(f"{mpi}: ended after {time.monotonic() - begin:.1f} s: {ours[0]}")


def main():
    if not shutil.which("cc"):
        print("skipped: no compiler for the slow fsync")
        return run.SKIP
    if b"libasan" in subprocess.run(["ldd", run.JOTUN], capture_output=True).stdout:
        print("skipped: a sanitizer wants to be loaded first")
        return run.SKIP
    with run.work_folder() as folder:
        data = run.corpus(folder)
        environment = dict(os.environ, LD_PRELOAD=slow_library(folder))
        slow_run_goes_on(data, os.path.join(folder, "slow"), environment)
        for mpi, launcher in run.launchers().items():
            frozen_in_a_save(mpi, launcher, data, os.path.join(folder, mpi.replace(" ", "")), environment)
    return 0


sys.exit(main())
