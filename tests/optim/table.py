"""bench/optim/table.py has a row for each value of --optimizer, widens its grid towards the best learning rate, trains with that one and all seeds, prints
a table in the order of mean losses, and runs nothing again that its results have."""
import json
import os
import re
import subprocess
import sys

import run

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.path.join(TREE, "bench", "optim", "table.py")


def printed(folder, *words):
    done = subprocess.run([sys.executable, PROGRAM, run.JOTUN, "--text", os.path.join(TREE, "ARCHITECTURE.md"), "--results", os.path.join(folder, "results.json"),
                           "--eval-iters", "1", "--seeds", "1234", "1", "--grid", "0.5", "1", "--growth", "1", *words], capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1 if "--shares" in words else 0):
        sys.exit(f"table.py ends with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def main():
    with run.work_folder() as folder:
        first = printed(folder, "--only", "lion", "adam", "--steps", "3", "--no-times")
        rows = re.findall(r"^\| `(\S+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.e-]+)[^|]*\| (\S+) to (\S+) \| ([\d.]+) \|", first.stdout, re.M)
        losses = {re.sub(r"^.*--seed (\S+) --optimizer (\S+) .*--lr (\S+) .*$", r"\2 \1 \3", key): loss for key, loss in json.load(open(os.path.join(folder, "results.json"))).items()}
        if len(rows) != 2 or float(rows[0][1]) > float(rows[1][1]) or {row[0]: float(row[6]) for row in rows} != {"adam": 8, "lion": 4}:
            sys.exit(f"not the table that was expected\n{first.stdout}{first.stderr}")
        for name, loss, apart, lr, least, largest, _ in rows:
            of_name = {float(key.split()[2]): x for key, x in losses.items() if key.startswith(f"{name} 1234 ")}
            best = min(of_name, key=of_name.get)
            seeds = [x for key, x in losses.items() if key.split()[0] == name and float(key.split()[2]) == best]
            if len(of_name) != 3 or len(seeds) != 2 or [best, min(of_name), max(of_name)] != [float(lr), float(least), float(largest)]:
                sys.exit(f"{name}: {of_name}, {seeds} is printed as at {lr}, from {least} to {largest}")
            if [f"{sum(seeds) / 2:.4f}", f"{max(seeds) - min(seeds):.4f}"] != [loss, apart]:
                sys.exit(f"{name}: {seeds} are printed as {loss}, {apart}")
        again = printed(folder, "--only", "lion", "adam", "--steps", "3", "--no-times")
        if again.stdout != first.stdout or "validation loss" in again.stderr:
            sys.exit(f"the second table has runs of its own\n{again.stdout}{again.stderr}")
        shares = printed(folder, "--only", "lion", "--shares", "1", "--steps", "3")
        reaches = float(dict((row[0], row[1]) for row in rows)["lion"]) <= float(dict((row[0], row[1]) for row in rows)["adam"])
        if shares.returncode != (0 if reaches else 1) or ("does not reach" in shares.stdout) == reaches:
            sys.exit(f"--shares says\n{shares.stdout}")
    print("a row for each optimizer; the table has the best losses, and each run once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
