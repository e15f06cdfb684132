"""torchrun.py: jotun under torchrun itself, of the Python that runs this script: 4 ranks on one host, and as two agents of 2 ranks each,
have the losses of threads; a killed rank is named, and torchrun starts the ranks again, which resume."""
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import run

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
WORDS = ["--tp", 2, "--pp", 2, "--threads", 1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def agents(number, words, **variables):
    """torchrun's agents, one for each host, which are all this one."""
    port = free_port()
    command = [*TORCHRUN, "--nnodes", number, "--nproc-per-node", 4 // number, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
               "--rdzv-id", "test", "--local-addr", "127.0.0.1", "--max-restarts", 1, "--monitor-interval", 1, "--no-python", run.JOTUN, *words]
    return [subprocess.Popen([str(w) for w in command], env={**os.environ, "JOTUN_SECRET": "a secret of the test, long enough", **variables},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(number)]


def ended(children):
    said = [child.communicate(timeout=300)[0] for child in children]
    return max(child.returncode for child in children), "\n".join(said)


def pids_of(out):
    pids = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            rank = re.search(rb"(?:^|\0)RANK=(\d+)\0", open(f"/proc/{pid}/environ", "rb").read())
        except OSError:
            continue
        if words[0].endswith(b"jotun") and out.encode() in words and rank:
            pids[int(rank[1])] = int(pid)
    return pids


def train(data, out, steps):
    return ["train", "--data-path", data, *run.MODEL, *WORDS, "--train-iters", steps, "--save", out, "--load", out, "--metrics", out + ".jsonl"]


def restarted(data, folder, wanted):
    out = f"{folder}/killed"
    children = agents(1, [*train(data, out, 400), "--save-interval", 20])
    end = time.monotonic() + 200
    while not (os.path.exists(out + ".jsonl") and len(run.metrics(out + ".jsonl")) > 25):
        if time.monotonic() > end or children[0].poll() is not None:
            sys.exit(f"no steps: {ended(children)}")
        time.sleep(0.05)
    os.kill(pids_of(out)[3], signal.SIGKILL)
    code, said = ended(children)
    if code or run.metrics(out + ".jsonl") != wanted or not re.search(r"jotun: rank 3 on host \S+ \(pid \d+\) died", said):
        sys.exit(f"killed and restarted: exit code {code}\n{said}")
    print("rank 3 killed: named, started again by torchrun, resumed to the same losses")


def main():
    if not importlib.util.find_spec("torch"):
        print("skipped: torch is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="jotun-test-") as folder:
        data = run.corpus(folder)
        run.jotun(*train(data, f"{folder}/threads", 400), "--ranks", 4)
        wanted = run.metrics(f"{folder}/threads.jsonl")
        for number in 1, 2:
            out = f"{folder}/agents{number}"
            code, said = ended(agents(number, train(data, out, 400)))
            if code or run.metrics(out + ".jsonl") != wanted:
                sys.exit(f"{number} agents: exit code {code}\n{said}")
            print(f"torchrun, {number} agents of {4 // number} ranks: {len(wanted)} losses of threads, to the bit")
        restarted(data, folder, wanted)


main()
