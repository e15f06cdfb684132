"""Ranks over TCP, without MPI: `jotun run`, torchrun's variables and Slurm's start the same training as threads, to the bit; a killed, a frozen
and a mistaken rank are named, and `jotun run` ends with the first failure's code; signals save; a start that cannot be joined says what to do."""
import concurrent.futures
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "comm"))
import ranks

LAYOUTS = [
    (2, run.MODEL, "--tp 2 --sp"),
    (3, run.MODEL, "--zero-stage 3 --global-batch-size 9"),
    (4, run.MODEL + run.LLAMA, "--tp 2 --pp 2 --zero-stage 1"),
    (4, run.MODEL + run.LLAMA, "--cp 2 --zero-stage 2"),
    (16, run.MODEL, "--tp 2 --pp 2 --zero-stage 1 --global-batch-size 16"),
]


def train(data, *words):
    return [str(w) for w in ["train", "--data-path", data, *run.MODEL, *words]]


def same_bits(data, folder):
    for number, (count, model, words) in enumerate(LAYOUTS):
        results = []
        for name in "threads", "tcp":
            out = os.path.join(folder, f"{name}{number}")
            args = ["train", "--data-path", data, "--train-iters", 8, *model, *words.split(), "--threads", 1, "--save", out, "--metrics", out + ".jsonl"]
            run.jotun(*(["run", "--local", count, "--", *args] if name == "tcp" else [*args, "--ranks", count]))
            results.append((run.metrics(out + ".jsonl"), run.digest(os.path.join(out, "step_00000008"))))
        if results[0] != results[1] or len(results[0][0]) != 8:
            sys.exit(f"{count} ranks, {words}: threads {results[0]}, over TCP {results[1]}")
    print(f"{len(LAYOUTS)} layouts: losses and weights over TCP are those of threads")
    return os.path.join(folder, "threads0.jsonl")


def other_commands(folder):
    """An evaluation and a generation on several ranks print, once, what they print on one."""
    text = os.path.join(folder, "text.txt")
    for words in (["eval", "perplexity", "--load", f"{folder}/tcp0", "--text", text], ["generate", "--load", f"{folder}/tcp0", "--prompt", "the ra", "--max-new-tokens", 12, "--temperature", 0]):
        alone, many = run.jotun(*words, "--ranks", 2, "--tp", 2, "--threads", 1), run.jotun("run", "--local", 2, "--", *words, "--tp", 2)
        if many.stdout != alone.stdout or not alone.stdout:
            sys.exit(f"{words}: {alone.stdout!r} on threads, {many.stdout!r} over TCP")
    print("eval and generate: the same words as on threads")


def ended(children, seconds=300):
    """rank -> (exit code, standard error)"""
    try:
        return {rank: (child.communicate(timeout=seconds)[1], child.returncode)[::-1] for rank, child in children.items()}
    finally:
        for child in children.values():
            child.kill()


def start(count, words, environment, **more):
    return ranks.start(count, [run.JOTUN, *words], environment=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)


def slurm(rank, **more):
    return dict(os.environ, SLURM_PROCID=str(rank), SLURM_STEP_NUM_TASKS="2", SLURM_JOB_ID="77", SLURM_STEP_ID="0", SLURM_LOCALID=str(rank), **more)


def launchers(data, folder, losses):
    """torchrun's variables, its port by the rule and by the option; Slurm's, which also say where rank 0 is."""
    words = train(data, "--train-iters", 8, "--tp", 2, "--sp", "--threads", 1)
    port = ranks.free_port()
    alone = shutil.copy(run.JOTUN, os.path.join(folder, "jotun"))             # without plug-ins
    for name, more, variables in [("torchrun", [], lambda rank: {}),
                                  ("control port", ["--control-port", port + 1], lambda rank: {"MASTER_PORT": "70000", "TORCHELASTIC_RUN_ID": "none"}),
                                  ("Slurm", ["--control-port", port + 1], lambda rank: {"SLURM_STEP_NODELIST": "127.0.0.[1-3,7],other"}),
                                  ("Slurm for MPICH", ["--control-port", port + 1], lambda rank: {"PMI_RANK": str(rank), "PMI_SIZE": "2", "MASTER_ADDR": "localhost"})]:
        out = os.path.join(folder, name.replace(" ", "-") + ".jsonl")
        children = {}
        for rank in range(2):
            environment = slurm(rank) if name.startswith("Slurm") else {**os.environ, **ranks.variables(rank, 2, port)}
            environment.update(variables(rank))
            children[rank] = subprocess.Popen([alone if "MPI" in name else run.JOTUN, *words, "--metrics", out, *map(str, more)], env=environment, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.PIPE, text=True)
        done = ended(children)
        if any(code for code, _ in done.values()) or run.metrics(out) != run.metrics(losses):
            sys.exit(f"{name}: {done}")
    print("torchrun's and Slurm's variables: the threads' losses")


def refused(environment, words, code, *says, count=2, only=None):
    """What each of the ranks says."""
    for rank, (got, err) in ended(start(count, words, environment, only=only)).items():
        if got != code or not all(any(part in line for line in err.splitlines()) for part in says):
            sys.exit(f"{environment}: rank {rank}: exit code {got}\n{err}\n{says} was expected")


def starts_that_fail(data, folder):
    words = train(data, "--train-iters", 1)
    alone = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")}
    for variables, says in [({"WORLD_SIZE": "8"}, "WORLD_SIZE is 8, but RANK is not set"),
                            ({"WORLD_SIZE": "8", "RANK": "1"}, "WORLD_SIZE is 8, but MASTER_ADDR is not set"),
                            ({"SLURM_STEP_NUM_TASKS": "8"}, "SLURM_STEP_NUM_TASKS is 8, but SLURM_PROCID is not set"),
                            ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "1", "SLURM_JOB_ID": "1"}, "MASTER_ADDR, the host of rank 0"),
                            ({"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "127.0.0.1"}, "RANK is 2, which is no number from 0 to 1"),
                            ({"WORLD_SIZE": "2", "RANK": "1x", "MASTER_ADDR": "127.0.0.1"}, "RANK is 1x, which is no number from 0 to 1"),
                            ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "65535"}, "MASTER_PORT is 65535, which is no number from 1 to 65534")]:
        done = subprocess.run([run.JOTUN, *words], env={**alone, **variables}, capture_output=True, text=True, timeout=60)
        if done.returncode != 1 or says not in done.stderr:
            sys.exit(f"{variables}: exit code {done.returncode}\n{done.stderr}")
    done = subprocess.run([run.JOTUN, *words], env={**alone, **ranks.variables(0, 2000, ranks.free_port())}, capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500)))
    if done.returncode != 1 or not re.search(r"the start of 2000 ranks: this process needs (20\d\d) descriptors, and its limit is 500: ulimit -n \1 ", done.stderr):
        sys.exit(f"2000 ranks and 500 descriptors: exit code {done.returncode}\n{done.stderr}")
    refused({"MASTER_ADDR": "192.0.2.7"}, words, 1, "need a secret", "head -c 24 /dev/urandom", "JOTUN_SECRET_FILE=SECRET")
    refused({"JOTUN_SECRET": "short"}, words, 1, "JOTUN_SECRET has 5 characters; a secret has 16 or more")
    path = os.path.join(folder, "secret")
    with open(path, "w") as out:
        out.write("a secret that others can read\n")
    os.chmod(path, 0o644)
    refused({"JOTUN_SECRET_FILE": path}, words, 1, f"can be read by others than its owner (mode 644): chmod 600 {path}")
    refused({"JOTUN_SECRET_FILE": path, "JOTUN_SECRET": "x" * 20}, words, 1, "are both set")
    refused({"JOTUN_SECRET_FILE": folder}, words, 1, "is no file")
    refused({"JOTUN_SECRET_FILE": path + "2"}, words, 1, "No such file")
    os.chmod(path, 0o600)
    for rank, (code, err) in ended(start(2, words, {"JOTUN_SECRET_FILE": path})).items():
        if code:
            sys.exit(f"a secret in a file: rank {rank}: exit code {code}\n{err}")
    mistaken(words, folder)


def mistaken(words, folder):
    """A rank that has another secret or number of ranks, or is left from another job, says so; rank 0 says it too, and waits."""
    port = ranks.free_port()
    job = {"JOTUN_SECRET": "a secret that is long enough", "TORCHELASTIC_RUN_ID": "new", "TORCHELASTIC_RESTART_COUNT": "0"}
    ordinary = lambda rank, more: {**os.environ, **ranks.variables(rank, 2, port), **job, **more}
    steps = lambda rank, more: slurm(rank, JOTUN_SECRET=job["JOTUN_SECRET"], MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **{"SLURM_RESTART_COUNT": "1", **more})
    # TORCHELASTIC_RESTART_COUNT may differ between the hosts of a job
    for variables, wrong, right, says in [(ordinary, {"JOTUN_SECRET": "another secret, and a long one"}, {}, "has another secret, or is of another job than TORCHELASTIC_RUN_ID=new: give all ranks"),
                                          (ordinary, {"WORLD_SIZE": "3"}, {}, "but the job of rank 0 at 127.0.0.1"),
                                          (ordinary, {"TORCHELASTIC_RUN_ID": "old"}, {"TORCHELASTIC_RESTART_COUNT": "1"}, "is of another job than TORCHELASTIC_RUN_ID=old: "),
                                          (steps, {"SLURM_RESTART_COUNT": "0"}, {}, "is of another job than SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_RESTART_COUNT=0: ")]:
        def begin_rank(rank, more):
            child = subprocess.Popen([run.JOTUN, *words], env=variables(rank, more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            ranks.started.append(child)
            return child
        first = begin_rank(0, {})
        refusal = ended({1: begin_rank(1, wrong)})[1]
        done = ended({0: first, 1: begin_rank(1, right)})
        if refusal[0] != 1 or says not in refusal[1] or any(code for code, _ in done.values()) or "is refused: it has another" not in done[0][1]:
            sys.exit(f"{wrong}: {refusal}, {done}")
    print("starts that cannot be joined: refused with what to do")


def pids_of(out):
    """rank -> pid of the processes that save to `out`."""
    pids = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            environment = open(f"/proc/{pid}/environ", "rb").read()
        except OSError:
            continue
        rank = re.search(rb"(?:^|\0)RANK=(\d+)\0", environment)
        if out.encode() in words and rank and b"run" not in words[:2]:
            pids[int(rank[1])] = int(pid)
    return pids


def begin(data, out, count, *words, **more):
    """`jotun run`, once its training has made some steps."""
    child = subprocess.Popen([run.JOTUN, "run", "--local", str(count), "--grace-seconds", "20", "--",
                              *train(data, "--train-iters", 1000000, "--threads", 1, "--save", out, "--metrics", out + ".jsonl", *words)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    end = time.monotonic() + 300
    while not (os.path.exists(out + ".jsonl") and len(run.metrics(out + ".jsonl")) > 3):
        if time.monotonic() > end or child.poll() is not None:
            sys.exit(f"no steps after 300 s: exit code {child.poll()}\n{child.communicate()[1]}")
        time.sleep(0.05)
    return child


def said(child):
    """What it wrote until its end, which is not waited for for ever."""
    try:
        return child.communicate(timeout=300)[1]
    finally:
        child.kill()                                         # the ranks get SIGTERM then


def lost(data, folder, number, victim, watchdog=run.WATCHDOG):
    out = os.path.join(folder, f"lost-{number.name}-{victim}-{watchdog}")
    child = begin(data, out, 4, "--tp", 2, "--watchdog-seconds", watchdog)
    time.sleep(1)                                            # a few heartbeats, each 0.25 s
    pids = pids_of(out)
    if sorted(pids) != [0, 1, 2, 3]:
        sys.exit(f"found ranks {sorted(pids)}, not 0 to 3")
    os.kill(pids[victim], number)
    begun = time.monotonic()
    err = said(child)
    took = time.monotonic() - begun
    verdicts = [line for line in err.splitlines() if line.startswith("jotun:") and line.endswith("the job is stopped")]
    named = verdicts and all(line.startswith(f"jotun: rank {victim} on host ") for line in verdicts)
    if not named or (watchdog != "0" and len(verdicts) != 1) or f"jotun: rank {victim} of 4 failed: ended by signal 9 (Killed)" not in err:
        sys.exit(f"{number.name} of rank {victim}: {err}")
    if child.returncode != 137 or pids_of(out):
        sys.exit(f"{number.name} of rank {victim}: ended after {took:.1f} s with exit code {child.returncode}, left {pids_of(out)}")
    print(f"{number.name} of rank {victim}, --watchdog-seconds {watchdog}: ended after {took:.1f} s: {verdicts[0]}")


def interrupted(data, folder):
    """Ctrl-C: the run saves, and nothing is said of a failure."""
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGUSR1:
        out = os.path.join(folder, number.name)
        child = begin(data, out, 2)
        child.send_signal(number)
        err = said(child)
        if child.returncode != 128 + number or "failed" in err or err.count("stops after this step") != 1 or not os.path.exists(os.path.join(out, "latest")):
            sys.exit(f"{number.name}: exit code {child.returncode}\n{err}")
    out = os.path.join(folder, "nohup")
    child = begin(data, out, 2, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    child.send_signal(signal.SIGHUP)
    time.sleep(1)                                            # where it is taken, a later failure is laid to it, and not reported
    os.kill(pids_of(out)[1], signal.SIGKILL)
    err = said(child)
    if child.returncode != 128 + signal.SIGKILL or "rank 1 of 2 failed: ended by signal 9 (Killed)" not in err:
        sys.exit(f"an ignored SIGHUP: exit code {child.returncode}\n{err}")
    print("signals: passed on once, saved; an ignored one stays ignored")


def last_words(data, folder):
    """What only rank 1 cannot open: its reason, its exit code, and no process left."""
    for fault, code, says in [("step:3:exit", 3, "exit code 3"), ("step:3:fail", 3, "JOTUN_FAULT: step number 3 fails as requested")]:
        out = os.path.join(folder, "words" + fault.replace(":", ""))
        done = run.jotun("run", "--local", 3, "--", *train(data, "--train-iters", 1000000, "--threads", 1, "--save", out, "--global-batch-size", 9),
                         check=False, env=dict(os.environ, JOTUN_FAULT=fault))
        if done.returncode != code or says not in done.stderr or not re.search(r"rank \d of 3 failed: exit code 3", done.stderr) or pids_of(out):
            sys.exit(f"{fault}: exit code {done.returncode}\n{done.stderr}")
    done = run.jotun("run", "--local", 2, "--", *train(data, "--train-iters", 2, "--tp", 3), check=False)
    if done.returncode != 1 or done.stderr.count("--tp 3 does not divide") != 1:
        sys.exit(f"wrong on all: exit code {done.returncode}\n{done.stderr}")
    for words, says in [(["run", "--local", 2, "--", "clean"], "clean runs as one process; start it without jotun run"),
                        (["run", "--local", 2], "jotun run needs a command"), (["run", "--", "train"], "jotun run needs --local N"),
                        (["run", "--local", 2, "--", "trian"], "did you mean jotun train?")]:
        done = run.jotun(*words, check=False)
        if done.returncode != 2 or says not in done.stderr:
            sys.exit(f"{words}: exit code {done.returncode}\n{done.stderr}")
    print("failures: named, with the exit code of the first")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        losses = same_bits(data, folder)
        other_commands(folder)
        launchers(data, folder, losses)
        starts_that_fail(data, folder)
        last_words(data, folder)
        interrupted(data, folder)
        lost(data, folder, signal.SIGKILL, 2)
        lost(data, folder, signal.SIGKILL, 0)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:           # most of their time is the others' waiting
            for done in [pool.submit(lost, data, folder, *which) for which in [(signal.SIGSTOP, 1), (signal.SIGSTOP, 0), (signal.SIGKILL, 2, "0")]]:
                done.result()
    return 0


sys.exit(main())
