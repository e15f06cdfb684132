"""mpi.py openmpi|mpich PROGRAM: collectives under mpirun give the threads' hash; a killed and a stopped rank are named."""
import os, re, signal, subprocess, sys, time

mpi, program = sys.argv[1:3]
mpirun = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], "mpich": ["mpirun.mpich"]}[mpi]
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   ASAN_OPTIONS="detect_leaks=0")            # what MPI keeps is not ours


def run(command):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (command, done.returncode, done.stderr)
    return done.stdout.strip()


def same_hash(ranks):
    threads = run([program, "hash", "threads", str(ranks)])
    under_mpi = run(mpirun + ["-n", str(ranks), program, "hash"])
    assert re.fullmatch("[0-9a-f]{16}", threads) and under_mpi == threads, (ranks, threads, under_mpi)


def struck(ranks, victim, strike, seconds):
    """Starts a loop of all-gathers, strikes one rank, returns stderr and the time it took to end."""
    job = subprocess.Popen(mpirun + ["-n", str(ranks), program, "loop", seconds], env=environment,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = {}
    while len(pid) < ranks:
        line = job.stdout.readline()
        assert line, "the job ended before it began: " + job.stderr.read()
        rank, number = re.match(r"rank (\d+) pid (\d+)", line).groups()
        pid[int(rank)] = int(number)
    time.sleep(0.6)                                          # a pulse or two, each 0.25 s
    start = time.monotonic()
    os.kill(pid[victim], strike)
    try:
        _, errors = job.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        for number in pid.values():
            os.kill(number, signal.SIGKILL)
        raise
    assert job.returncode != 0
    return pid[victim], [line for line in errors.splitlines() if line.startswith("jotun:")], time.monotonic() - start


def killed(ranks, victim):
    pid, lines, seconds = struck(ranks, victim, signal.SIGKILL, "30")
    expected = rf"jotun: rank {victim} on host \S+ \(pid {pid}\) died; last seen in all-gather #\d+ of world, step \d+; the job is stopped"
    assert len(lines) == 1 and re.fullmatch(expected, lines[0]), lines
    assert seconds < 10, seconds
    return seconds


def stopped(ranks, victim):
    _, lines, seconds = struck(ranks, victim, signal.SIGSTOP, "2")
    waiting = "ranks " + ", ".join(str(r) for r in range(ranks) if r != victim) + " wait"
    if victim == 0:                                          # rank 1 speaks then, and knows of itself alone
        waiting = "rank 1 waits"
    expected = rf"jotun: rank {victim} on host \S+ has been silent for 2 s, last seen in all-gather #\d+ of world, step \d+"
    expected += rf"; {waiting} for it; the job is stopped"
    assert len(lines) == 1 and re.fullmatch(expected, lines[0]), lines
    assert seconds < 10, seconds
    return seconds


for ranks in (1, 2, 3, 4):
    same_hash(ranks)
print(f"{mpi}: 1 to 4 ranks give the threads' bits")
print(f"{mpi}: killed rank 2 named and job ended in {killed(3, 2):.2f} s, rank 0 in {killed(3, 0):.2f} s")
print(f"{mpi}: stopped rank 1 named and job ended in {stopped(3, 1):.2f} s (time-out 2 s), rank 0 in {stopped(3, 0):.2f} s")
