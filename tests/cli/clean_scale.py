"""100,000 documents take as long each as 20,000 do, their copies are found, and memory does not grow with them."""
import os
import re
import subprocess
import sys

import run

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/clean/pipeline.py")


def main():
    done = subprocess.run([sys.executable, BENCH, run.JOTUN, "synthetic", "20000", "100000"], stdout=subprocess.PIPE, text=True)
    told = done.stdout
    print(told)
    if done.returncode:
        sys.exit(f"the benchmark ended with exit code {done.returncode}")
    slower = float(re.search(r"last against first: ([0-9.]+)", told).group(1))
    peak = [int(m) for m in re.findall(r"peak (\d+) MiB", told)]
    exact = [float(m) for m in re.findall(r"exact duplicate +\d+ +([0-9.]+)%", told)]
    near = [float(m) for m in re.findall(r"near duplicate +\d+ +([0-9.]+)%", told)]
    if slower > 1.5 or max(exact) > 10 or min(exact) < 9.8 or max(near) > 20 or min(near) < 19.5 or peak[1] > peak[0] + 100:
        sys.exit("wanted: at most 1.5 times as slow, 10 % exact and 20 % near duplicates, 100 MiB more at most")
    return 0


sys.exit(main())
