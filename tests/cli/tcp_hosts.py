"""Four hosts as network namespaces on one bridge, two ranks on each, over IPv4 and IPv6: the threads' losses, though the first interface of each
host is one that the others cannot reach, and though the link of one is down at the start. A host whose link is cut is named, and all ranks end,
also those of that host; without the secret nothing starts. Skipped without `ip` and where namespaces are not permitted; IPv4 alone where the system has no IPv6."""
import os
import re
import shutil
import subprocess
import sys
import time

import run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "comm"))
import ranks

HOSTS, EACH = 4, 2
NAME = f"jotun{os.getpid()}"
PORT = 29600
ADDRESSES = {"IPv4": "198.18.77.{}", "IPv6": "fd77::{}"}


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True)


def inside(host, *words):
    return ["ip", "netns", "exec", f"{NAME}-{host}", *words]


def open_hosts():
    """A bridge in a namespace of its own, to which each host has a link; the first interface of a host is one of containers."""
    ip("netns", "add", f"{NAME}-b")
    if ip("-n", f"{NAME}-b", "addr", "add", "fd77::77/64", "dev", "lo", check=False).returncode != 0:
        print("no IPv6 here")
        del ADDRESSES["IPv6"]
    ip("-n", f"{NAME}-b", "link", "add", "bridge", "type", "bridge")
    ip("-n", f"{NAME}-b", "link", "set", "bridge", "up")
    for host in range(HOSTS):
        ns = f"{NAME}-{host}"
        ip("netns", "add", ns)
        for link in ("link", "set", "lo", "up"), ("link", "add", "docker0", "type", "veth", "peer", "name", "container"), ("addr", "add", "172.17.0.1/16", "dev", "docker0"), ("link", "set", "docker0", "up"), ("link", "set", "container", "up"):
            ip("-n", ns, *link)
        ip("-n", ns, "link", "add", "eth0", "type", "veth", "peer", "name", f"host{host}", "netns", f"{NAME}-b")
        ip("-n", ns, "addr", "add", ADDRESSES["IPv4"].format(host + 1) + "/24", "dev", "eth0")
        if "IPv6" in ADDRESSES:
            ip("-n", ns, "addr", "add", ADDRESSES["IPv6"].format(host + 1) + "/64", "dev", "eth0", "nodad")
        ip("-n", ns, "link", "set", "eth0", "up")
        ip("-n", f"{NAME}-b", "link", "set", f"host{host}", "master", "bridge", "up")


def close_hosts():
    for host in [*range(HOSTS), "b"]:
        ip("netns", "del", f"{NAME}-{host}", check=False)


def start(kind, words, secret="a secret of the test, long enough", loopback=False):
    """rank -> process. Each host has a name of its own. loopback: rank 0's host knows itself by such an address, as hosts of Debian do."""
    children = {}
    for rank in range(HOSTS * EACH):
        host = rank // EACH
        environment = {**os.environ, **ranks.variables(rank, HOSTS * EACH, PORT, ADDRESSES[kind].format(1)), "LOCAL_RANK": str(rank % EACH), "LOCAL_WORLD_SIZE": str(EACH)}
        if loopback and host == 0:
            environment["MASTER_ADDR"] = "127.0.1.1"
        if secret:
            environment["JOTUN_SECRET"] = secret
        name = ["unshare", "--uts", "sh", "-c", f'hostname machine{host} && exec "$@"', "sh"]
        children[rank] = subprocess.Popen(inside(host, *name, run.JOTUN, *map(str, words)), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return children


def ended(children, seconds):
    try:
        return {rank: (child.communicate(timeout=seconds)[1], child.returncode)[::-1] for rank, child in children.items()}
    finally:
        for child in children.values():
            child.kill()


def train(data, *words):
    return ["train", "--data-path", data, *run.MODEL, "--tp", 2, "--pp", 2, "--zero-stage", 1, "--threads", 1, *words]


def same_losses(data, folder):
    run.jotun(*train(data, "--train-iters", 6, "--metrics", f"{folder}/threads.jsonl"), "--ranks", HOSTS * EACH)
    wanted = run.metrics(f"{folder}/threads.jsonl")
    for kind, loopback in [(kind, False) for kind in ADDRESSES] + [("IPv4", True)]:
        out = f"{folder}/{kind}{loopback}.jsonl"
        done = ended(start(kind, train(data, "--train-iters", 6, "--metrics", out), loopback=loopback), 300)
        if any(code for code, _ in done.values()) or run.metrics(out) != wanted:
            sys.exit(f"{kind}: {done}")
        print(f"{HOSTS} hosts, {HOSTS * EACH} ranks, {kind}{', rank 0 at 127.0.1.1 for its host' if loopback else ''}: the threads' losses")


def late(data, folder):
    """Host 2's link comes up 5 s after its ranks start, when the system has given up its first packets (ARP's 3 s), and only 2 s later host 3 has
    a route to it: its ranks' connections to those of host 2, which exchange gradients with them, fail at first."""
    out, route = f"{folder}/late.jsonl", ["route", "add", "unreachable", ADDRESSES["IPv4"].format(3) + "/32"]
    ip("-n", f"{NAME}-3", *route)
    ip("-n", f"{NAME}-b", "link", "set", "host2", "down")
    children = start("IPv4", train(data, "--train-iters", 6, "--metrics", out))
    time.sleep(5)
    ip("-n", f"{NAME}-b", "link", "set", "host2", "up")
    time.sleep(2)
    ip("-n", f"{NAME}-3", "route", "del", *route[2:])
    done = ended(children, 300)
    if any(code for code, _ in done.values()) or run.metrics(out) != run.metrics(f"{folder}/threads.jsonl"):
        sys.exit(f"a link that comes up late: {done}")
    print("a host whose link comes up after 5 s: the threads' losses")


def cut(data, folder, kind, host, watchdog=run.WATCHDOG):
    out = f"{folder}/cut{kind}{host}.jsonl"
    children = start(kind, train(data, "--train-iters", 1000000, "--watchdog-seconds", watchdog, "--metrics", out))
    end = time.monotonic() + 300
    while not (os.path.exists(out) and len(run.metrics(out)) > 2):
        if time.monotonic() > end or any(child.poll() is not None for child in children.values()):
            for child in children.values():
                child.kill()
            sys.exit(f"no steps: {ended(children, 60)}")
        time.sleep(0.05)
    time.sleep(1)
    ip("-n", f"{NAME}-b", "link", "set", f"host{host}", "down")
    begun = time.monotonic()
    try:
        done = ended(children, 300)
    finally:
        ip("-n", f"{NAME}-b", "link", "set", f"host{host}", "up")
    took = time.monotonic() - begun
    said = [line for _, err in done.values() for line in err.splitlines() if line.endswith("the job is stopped")]
    lost = [host] if host else range(1, HOSTS)               # seen from rank 0's host, all others are cut off
    named = any(re.match(rf"jotun: rank ({other * EACH}|{other * EACH + 1}) on host machine{other} has been silent for {watchdog} s", line) for other in lost for line in said)
    if not named or any(code == 0 for code, _ in done.values()):
        sys.exit(f"{kind}, host {host} cut off: after {took:.1f} s {done}")
    print(f"{kind}, host {host} cut off: all ranks ended after {took:.1f} s: {said[0]}")


def without_secret(data):
    for rank, (code, err) in ended(start("IPv4", train(data, "--train-iters", 1), secret=None), 300).items():
        if code != 1 or "need a secret" not in err:
            sys.exit(f"without a secret: rank {rank}: exit code {code}\n{err}")


def under_mpi(data, folder):
    """Open MPI's ranks on three of the hosts: the watchdog's connections take the route to another host, not the first interface."""
    if "Open MPI" not in run.launchers():
        return print("Open MPI with its plug-in is not here")
    agent, hosts = os.path.join(folder, "agent"), [ADDRESSES["IPv4"].format(host + 1) for host in range(3)]
    with open(agent, "w") as out:                            # what mpirun calls in the place of ssh
        out.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\ncase $1 in\n')
        out.write("".join(f"{address}) n={host} ;;\n" for host, address in enumerate(hosts)))
        out.write(f'esac\nshift\nexec ip netns exec {NAME}-$n unshare --uts sh -c "hostname machine$n && $*"\n')
    os.chmod(agent, 0o755)
    words = ["--allow-run-as-root", "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include",
             "eth0", "--host", ",".join(f"{address}:2" for address in hosts), "-n", "6", run.JOTUN]
    command = inside(0, "unshare", "--uts", "sh", "-c", 'hostname machine0 && exec "$@"', "sh", "mpirun.openmpi", *words)
    train_words = ["train", "--data-path", data, *run.MODEL, "--global-batch-size", "9", "--tp", "2", "--threads", "1", "--train-iters", "3"]
    done = subprocess.run(command + train_words, capture_output=True, text=True, timeout=200, env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
    if done.returncode != 0 or "step 3/3" not in done.stderr:
        sys.exit(f"Open MPI on three hosts: exit code {done.returncode}\n{done.stderr}")
    print("Open MPI's ranks on three hosts: their watchdogs are connected")


def main():
    if not shutil.which("ip") or not shutil.which("unshare"):
        print("skipped: ip (iproute2) and unshare (util-linux) are needed")
        return run.SKIP
    try:
        open_hosts()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: network namespaces: {getattr(error, 'stderr', None) or error}")
        close_hosts()
        return run.SKIP
    try:
        with run.work_folder() as folder:
            data = run.corpus(folder)
            same_losses(data, folder)
            late(data, folder)
            without_secret(data)
            under_mpi(data, folder)
            for kind, host in ("IPv4", 2), ("IPv6", 3), ("IPv4", 0):
                if kind in ADDRESSES and (kind == "IPv4" or os.environ.get("JOTUN_FULL")):
                    cut(data, folder, kind, host)
    finally:
        close_hosts()
    return 0


sys.exit(main())
