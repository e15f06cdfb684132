"""mpi.py openmpi|mpich|tcp PROGRAM: collectives under mpirun, or of processes over TCP, give the threads' hash; a killed and a stopped rank are named."""
import concurrent.futures, os, re, shutil, signal, subprocess, sys, tempfile, time

mpi, program = sys.argv[1:3]
mpirun = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], "mpich": ["mpirun.mpich"],
          "tcp": [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.py")]}[mpi]
bystander = {"openmpi": ["--enable-recovery"], "mpich": ["-disable-auto-cleanup"], "tcp": []}[mpi]   # it kills nobody: the watchdog ends the job
limit = "4" if mpi == "tcp" and not os.environ.get("TEST_SANITIZE") else "10"       # MPI's ranks do not sleep while they wait
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   ASAN_OPTIONS="detect_leaks=0")            # what MPI keeps is not ours


def run(command):
    done = subprocess.run(command, env=environment, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=300)
    assert done.returncode == 0, (command, done.returncode, done.stderr)
    return done.stdout.strip()


def same_hash(ranks):
    threads = run([program, "hash", "threads", str(ranks)])
    under_mpi = run(mpirun + ["-n", str(ranks), program, "hash"])
    assert re.fullmatch("[0-9a-f]{16}", threads) and under_mpi == threads, (ranks, threads, under_mpi)


def stops_itself(ranks):
    with tempfile.NamedTemporaryFile("r") as errors:
        done = subprocess.run(mpirun + ["-n", str(ranks), program, "loop", "30", errors.name], timeout=300,
                              env=dict(environment, STOP="1"), capture_output=True, stdin=subprocess.DEVNULL)
        lines = errors.read().splitlines()
    assert done.returncode == 3, done.returncode
    ours = [line for line in lines if line.startswith("jotun:")]
    assert len(ours) == 1 and re.match(r"jotun: rank 1 on \S+, step 600: rank 1 has had enough", ours[0]), lines


def stops_unread():
    """A stop inside the plug-in ends though nobody reads standard error."""
    done = subprocess.run(mpirun + ["-n", "2" if mpi == "tcp" else "1", program, "unread"], env=environment, timeout=300, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 3, done.returncode


def misses_its_plugin():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(program, folder)
        done = subprocess.run(mpirun + ["-n", "1", folder + "/comm_program", "hash"], env=environment, timeout=300,
                              capture_output=True, stdin=subprocess.DEVNULL, text=True,
                              restore_signals=False)         # with SIGPIPE ignored: MPICH's mpirun writes to a program that has ended
    assert done.returncode == 1, done.returncode
    assert f"{folder}/libjotun_{mpi}.so cannot be opened" in done.stderr, done.stderr
    assert f"install lib{mpi}-dev and build jotun again" in done.stderr, done.stderr


def struck(ranks, victim, strike, seconds):
    """Starts a loop of all-gathers, strikes one rank; its pid, the ranks' lines and the time until all have ended. Ranks write
    to a file: a launcher that sees a rank die may no longer pass on what the others say."""
    with tempfile.NamedTemporaryFile("r") as errors:
        job = subprocess.Popen(mpirun + bystander + ["-n", str(ranks), program, "loop", seconds, errors.name],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        pid = {}
        try:
            while len(pid) < ranks:
                line = job.stdout.readline()
                found = re.match(r"rank (\d+) pid (\d+)", line)
                assert found, (line, job.poll(), errors.read())
                pid[int(found[1])] = int(found[2])
            time.sleep(0.6)                                  # a heartbeat or two, each 0.25 s
            start = time.monotonic()
            os.kill(pid[victim], strike)
            others = [number for rank, number in pid.items() if rank != victim]
            while any(running(number) for number in others):
                assert time.monotonic() - start < 100, ("they do not end", errors.read())
                time.sleep(0.01)
            ended = time.monotonic() - start
        finally:
            job.kill()
            for number in pid.values():
                if running(number):
                    os.kill(number, signal.SIGKILL)
            job.communicate()
        return pid[victim], errors.read().splitlines(), ended


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def killed(ranks, victim, tries=5):
    """A launcher may kill the others before one of them has spoken. UCX, below MPICH, aborts a rank that reads a dead rank's memory: then
    two have ended, of which the line reports one and names the other."""
    pid, lines, seconds = struck(ranks, victim, signal.SIGKILL, "30")
    if not lines and tries > 1:
        return killed(ranks, victim, tries - 1)
    expected = r"jotun: rank (\d+) on host \S+ \(pid (\d+)\) died; last seen in all-gather #\d+ of world, step \d+(?:; ranks? ([0-9, ]+) of this host ended too)?; the job is stopped"
    found = re.fullmatch(expected, lines[0]) if len(lines) == 1 else None
    assert found and (int(found[1]) == victim and int(found[2]) == pid or str(victim) in (found[3] or "").split(", ")), lines
    return seconds


def stopped(ranks, victim):
    _, lines, seconds = struck(ranks, victim, signal.SIGSTOP, limit)
    waiting = "ranks " + ", ".join(str(r) for r in range(ranks) if r != victim) + " wait"
    if victim == 0:                                          # rank 1 speaks then, and knows of itself alone
        waiting = "rank 1 waits"
    expected = rf"jotun: rank {victim} on host \S+ has been silent for {limit} s, last seen in all-gather #\d+ of world, step \d+"
    expected += rf"; {waiting} for it; the job is stopped"
    assert len(lines) == 1 and re.fullmatch(expected, lines[0]), lines
    return seconds


def unwatched(ranks, victim):
    """Without a watchdog who is connected to a dead rank names it, and the others end with it."""
    pid, lines, seconds = struck(ranks, victim, signal.SIGKILL, "0")
    expected = rf"jotun: rank {victim} on host \S+ \(127\.0\.0\.1\) is lost to rank \d+: .*; the job is stopped"
    assert lines and all(re.fullmatch(expected, line) for line in lines), lines
    return seconds


def together(strike, first, second):
    """The seconds of both; at the same time where ranks that wait leave the cores to others."""
    if mpi != "tcp":
        return strike(*first), strike(*second)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return tuple(pool.map(lambda of: strike(*of), (first, second)))


sizes = (2, 3, 5, 8, 16) if mpi == "tcp" else (1, 3, 4)
for ranks in sizes:
    same_hash(ranks)
if mpi != "tcp":
    misses_its_plugin()
stops_itself(3)
stops_unread()
print(f"{mpi}: {', '.join(map(str, sizes))} ranks give the threads' bits")
print("%s: killed rank 2 named and job ended in %.2f s, rank 0 in %.2f s" % (mpi, *together(killed, (3, 2), (3, 0))))
print("%s: stopped rank 1 named and job ended in %.2f s, rank 0 in %.2f s (time-out %s s)" % (mpi, *together(stopped, (3, 1), (3, 0)), limit))
if mpi == "tcp":
    print("%s: without a watchdog killed rank 3 of 8 named and job ended in %.2f s, rank 0 of 3 in %.2f s" % (mpi, *together(unwatched, (8, 3), (3, 0))))
