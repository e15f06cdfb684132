"""Failures of devices and of NCCL in training, on the emulated device of tests/tensor/shim: at a drawn call each run ends, by itself, with an
exit code of its own, and says what failed, on which GPU or rank, and what a person can do; the checkpoint that it leaves is good, and with it the
run ends with the losses and weights of one that nothing happened to, to the bit.

    device_failures.py [SEED] [KIND...]     without JOTUN_FULL: some kinds once; with it: each ten times, at other calls of other ranks and layouts
    SHIM_BINARY, SHIM_NCCL_BINARY=paths of the binary with the shim, without and with an emulated NCCL
"""
import os
import random
import re
import signal
import subprocess
import sys
import time

import run

FULL = bool(os.environ.get("JOTUN_FULL"))
SHIM, NCCL = os.environ["SHIM_BINARY"], os.environ["SHIM_NCCL_BINARY"]
STEPS, TIMES, LIMIT = 6, 10, 300
MODEL = ["--mock-data", "--vocab-size", "60", *"--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --global-batch-size 4 --lr 1e-3 "
         "--threads 1 --log-interval 1000 --micro-batch-size 1 --device cuda --save-interval 2 --keep-last 2".split(),
         "--train-iters", str(STEPS)]


class Layout:
    """How ranks are started and divided. Each has an emulated device of its own."""

    def __init__(self, name, program, ranks, words, launcher=None):
        self.name, self.program, self.ranks, self.launcher = name, program, ranks, launcher
        self.words = [*words.split(), *([] if launcher or ranks == 1 else ["--ranks", str(ranks)])]
        self.whole = None

    def command(self, out, watchdog=60):
        return [*(self.launcher or [self.program]), "train", *MODEL, *self.words, "--watchdog-seconds", str(watchdog), "--save", out, "--load", out, "--metrics", out + ".jsonl"]


def environment(fail, device_count, **more):
    return dict(os.environ, GPU_CPU_FAIL=fail, GPU_CPU_DEVICES=str(device_count), ASAN_OPTIONS="detect_leaks=0", **more)


ONE = Layout("one rank", SHIM, 1, "")
STAGED = Layout("2 threads", SHIM, 2, "--zero-stage 1 --device-transport staged")
DATA = Layout("2 ranks, NCCL, ZeRO 2", NCCL, 2, "--zero-stage 2 --device-transport nccl")
STAGES = Layout("2 stages, NCCL", NCCL, 2, "--pp 2 --device-transport nccl")
FOUR = Layout("4 ranks, NCCL, tp 2", NCCL, 4, "--tp 2 --sp --zero-stage 1 --device-transport nccl")
RUN = Layout("jotun run", SHIM, 2, "--tp 2 --device-transport staged", [SHIM, "run", "--local", "2", "--"])
MPI = [Layout(name, SHIM, 2, "--zero-stage 1 --device-transport staged", [*command, "2", SHIM]) for name, command in run.launchers().items()]
THREADS, PROCESSES, BY_NCCL = [ONE, STAGED, DATA, STAGES, FOUR], [RUN, *MPI], [DATA, STAGES, FOUR]

# What the message says of the cause and of the cure; a failure that only makes the choice of an algorithm poorer ends no run.
KERNEL_FAILED = r"failed on GPU \d: {}|unhandled cuda error: Cuda failure"
MORE = r"CUDA_LAUNCH_BLOCKING=1 names [^;]*; dmesg \(lines with Xid\)|nvidia-smi and dmesg tell which"
STUCK = r"ranks? [0-9, ]+ ha(?:s|ve) waited 5 s in \S+ #\d+ of .+?, step \d+(?:, and all have begun it: a kernel before it does not end, or a message was lost; NCCL_DEBUG=INFO|, and all are in it: a message was lost|[.;] ranks? [0-9, ]+ (?:is|are) not in it)"
KINDS = {
    "malloc":      (THREADS + PROCESSES, r"GPU \d has no .*memory|GPU \d or the host has no memory left", "need less|take less|nvidia-smi shows which programs"),
    "host_malloc": (THREADS + PROCESSES, r"pinned memory of the host|GPU \d or the host has no memory left", "need less|take less|nvidia-smi"),
    "stream":      (THREADS + PROCESSES, r"GPU \d cannot be used: gpuStreamCreate: out of memory", "nvidia-smi shows which programs hold its memory"),
    "event":       (THREADS + PROCESSES, r"gpuEventCreate failed on GPU \d: out of memory", "nvidia-smi shows which programs hold its memory"),
    "launch":      (THREADS + PROCESSES, r" failed on GPU \d: too many resources requested for launch", "JOTUN_CUDA_ARCHITECTURES"),
    "image":       (THREADS + PROCESSES, r" failed on GPU \d: no kernel image is available", "JOTUN_CUDA_ARCHITECTURES"),
    "copy":        (THREADS + PROCESSES, r"gpuMem(?:cpy|set)Async failed on GPU \d: unspecified launch failure", MORE),
    "address":     (THREADS + PROCESSES, KERNEL_FAILED.format("an illegal memory access was encountered"), MORE),
    "memory":      (THREADS + PROCESSES, KERNEL_FAILED.format("uncorrectable ECC error"), "nvidia-smi -q -d ECC|nvidia-smi and dmesg"),
    "slow":        (THREADS + PROCESSES, KERNEL_FAILED.format("the launch timed out"), "take one without|nvidia-smi and dmesg"),
    "sync":        (THREADS + PROCESSES, KERNEL_FAILED.format("unspecified launch failure"), MORE),
    "lost":        (THREADS + PROCESSES, r"(?:failed on GPU \d|GPU \d cannot be used: .*|can be used on this machine): unknown error|unhandled cuda error", "Xid|dmesg"),
    "product":     (THREADS + PROCESSES, r"cublasLtMatmul failed with status 13: \[\d+, \d+\] times", "dmesg"),
    "busy":        (THREADS + PROCESSES, r"GPU \d cannot be used: .*busy or unavailable", "nvidia-smi -c DEFAULT"),
    "driver":      (THREADS + PROCESSES, r"no GPU can be used on this machine: CUDA driver version is insufficient", "update the driver"),
    "none":        (THREADS + PROCESSES, r"no GPU can be used on this machine: no CUDA-capable device", "CUDA_VISIBLE_DEVICES.*--device cpu"),
    "versions":    (THREADS + PROCESSES, r"no GPU can be used on this machine: system has unsupported display driver", "start the machine again"),
    "fabric":      (THREADS + PROCESSES, r"no GPU can be used on this machine: system not yet initialized", "nvidia-fabricmanager"),
    "no_cublaslt":  (THREADS + PROCESSES, "needs the library cuBLASLt, which cannot be opened: .*libcublasLt", "install the CUDA toolkit, or .*LD_LIBRARY_PATH"),
    "old_cublaslt": (THREADS + PROCESSES, "libcublasLt.so has no cublasLt[A-Z]", "install CUDA 12 or 13"),
    "no_nccl":     ([STAGED], "rank 0: the library NCCL cannot be opened: .*libnccl", "--device-transport staged"),
    "strange_nccl": ([STAGED], "rank 0: NCCL has no function nccl[A-Z]", "from 2.18 on.*--device-transport staged"),
    "nccl_old":    (BY_NCCL, r"rank 0 has NCCL 2.17.5, which is older than 2.18", "--device-transport staged"),
    "nccl_open":   (BY_NCCL, r"ncclCommInitRankConfig of communicator .+ failed on rank .*unhandled system error: .*/dev/shm", "look at /dev/shm"),
    "nccl_call":   (BY_NCCL, r"NCCL: .* of communicator .+ failed on rank .*unhandled cuda error: Cuda failure", "nvidia-smi and dmesg"),
    "nccl_error":  (BY_NCCL, r"NCCL: a message of communicator .+ failed on rank .*(?:unhandled system error|remote process exited)", "NCCL_SOCKET_IFNAME|its own message"),
    "nccl_hang":   (BY_NCCL, STUCK, "the job is stopped"),
    "nccl_count":  (BY_NCCL, STUCK, "the job is stopped"),
    "nccl_swap":   (BY_NCCL, STUCK, "the job is stopped"),
    "nccl_lost":   (BY_NCCL, STUCK, "the job is stopped"),
    "nccl_dead":   (BY_NCCL, STUCK, "the job is stopped"),
    "killed":      (PROCESSES, r"rank \d on host .* died; last seen in|rank \d of 2 failed: ended by signal 9", "resumes from its last checkpoint|dmesg tells whether memory ran out"),
}
QUICK = [("malloc", ONE), ("address", DATA), ("driver", ONE), ("lost", RUN), ("nccl_error", STAGES), ("nccl_count", DATA)]
AT_START = ["busy", "driver", "none", "versions", "fabric", "image"]
OF_MACHINE = ["driver", "none", "versions", "fabric"]
SURVIVED = ["malloc", "product"]                        # during the trial of algorithms


def losses_and_weights(out):
    return run.metrics(out + ".jsonl"), run.digest(os.path.join(out, f"step_{STEPS:08d}"))


def whole(layout, folder):
    """Of an undisturbed run: losses and weights, calls by device and kind, and NCCL's calls by device. Once."""
    if layout.whole:
        return layout.whole
    out = os.path.join(folder, "whole-" + re.sub(r"\W+", "-", layout.name))
    done = subprocess.run(layout.command(out), capture_output=True, text=True, timeout=LIMIT, env=environment("count", layout.ranks))
    if done.returncode:
        sys.exit(f"{layout.name}, undisturbed: exit code {done.returncode}\n{done.stderr}")
    calls = {int(device): {kind: int(count) for kind, count in re.findall(r"(\w+) (\d+)", words)}
             for device, words in re.findall(r"; device (\d+)((?: [a-z_]+ \d+)+)", done.stderr)}
    messages = {}
    for device, communicator, words in re.findall(r"nccl shim: device (\d+) call \d+ communicator (\d+): (.*)", done.stderr):
        messages.setdefault(int(device), []).append((communicator, words))
    if sorted(calls) != list(range(layout.ranks)) or bool(messages) != (layout.program == NCCL):
        sys.exit(f"{layout.name}: calls of {calls}\n{done.stderr}")
    layout.whole = *losses_and_weights(out), calls, messages
    return layout.whole


def draw_call(rng, kind, device, calls, messages):
    """The number of the call that fails. What is swapped must differ, and belong to one communicator: the rest is no failure."""
    if kind in AT_START or kind == "nccl_old":
        return 1
    if kind == "nccl_open":
        return rng.randint(1, len({communicator for communicator, _ in messages[device]}))
    if kind == "nccl_swap":
        made = messages[device]
        return rng.choice([k + 1 for k in range(len(made) - 1) if made[k][0] == made[k + 1][0] and made[k] != made[k + 1]] or [0])
    if kind.startswith("nccl_"):
        return rng.randint(1, len(messages[device]))
    if kind == "malloc" and rng.randrange(2):           # most are of trials of algorithms
        return rng.randint(1, 12)
    counted = {"image": "launch", "address": "launch", "memory": "launch", "slow": "launch", "lost": "any"}.get(kind, kind)
    return rng.randint(1, calls[device][counted]) if calls[device].get(counted) else 0


def libraries(folder, name, real):
    """A folder for LD_LIBRARY_PATH, in which the libraries are empty files, or another library that has none of their functions."""
    place = os.path.join(folder, name)
    os.makedirs(place, exist_ok=True)
    other = next(line.split()[-1] for line in open("/proc/self/maps") if "libc.so" in line)
    for library in "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "libnccl.so.2", "librccl.so.1":
        path = os.path.join(place, library)
        if not os.path.lexists(path):
            os.symlink(other, path) if real else open(path, "w").close()
    return place


def kill_one(child, out, rng):
    """kill -9 of one rank's process, after a checkpoint or before the first"""
    after = rng.choice([0, 2, 4])
    end = time.monotonic() + LIMIT
    while after and not os.path.exists(os.path.join(out, f"step_{after:08d}")) and child.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    while child.poll() is None and time.monotonic() < end:
        pids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            except OSError:
                continue
            if words[1:2] == [b"train"] and out.encode() in words:
                pids.append(int(pid))
        if len(pids) == 2:
            os.kill(rng.choice(pids), signal.SIGKILL)
            return


def fail_once(rng, kind, layout, folder, number):
    """The words of what was drawn; None: the call did not come, of a kind whose calls differ in number from run to run."""
    losses, weights, calls, messages = whole(layout, folder)
    device, pace = rng.randrange(layout.ranks), rng.choice(["late", "once", f"drawn:{rng.randrange(1000)}"])
    call, fail, more = 0, "", {}
    if kind.endswith("_cublaslt"):
        fail, more = "cublaslt", {"LD_LIBRARY_PATH": libraries(folder, kind, kind.startswith("old"))}
    elif kind in ("no_nccl", "strange_nccl"):
        more = {"LD_LIBRARY_PATH": libraries(folder, kind, kind.startswith("strange"))}
    elif kind != "killed":
        call = draw_call(rng, kind, device, calls, messages)
        if not call:
            return None
        fail = f"{kind}:{call}" + ("" if kind in OF_MACHINE else f"@{device}")
    out = os.path.join(folder, f"{kind}-{number}")
    command = layout.command(out, 5 if KINDS[kind][1] == STUCK else 60)
    if kind in ("no_nccl", "strange_nccl"):
        command[command.index("staged")] = "nccl"
    drawn = f"{kind}, {layout.name}, {fail or 'libraries'}, pace {pace}"
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                             env=environment(fail, layout.ranks, GPU_CPU_PACE=pace, **more))
    try:
        if kind == "killed":
            kill_one(child, out, rng)
        said = "".join(child.communicate(timeout=LIMIT))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        sys.exit(f"{drawn}: does not end\n{child.communicate()[1]}")
    came = "gpu shim: " + kind in said or kind not in ONE_OF_DEVICE
    if child.returncode == 0 and (not came or kind in SURVIVED or kind == "killed"):
        if losses_and_weights(out) != (losses, weights):
            sys.exit(f"{drawn}: ends with other losses or weights than without\n{said}")
        return drawn + ": survived" if came and kind != "killed" else None
    check_words(kind, layout, device, drawn, child.returncode, re.sub("gpu shim: .*fails on device.*\n|nccl shim: .*aborts.*\n", "", said))
    resume(layout, out, drawn, losses, weights)
    return drawn


ONE_OF_DEVICE = [kind for kind in KINDS if "nccl" not in kind and "cublaslt" not in kind and kind != "killed"]


def check_words(kind, layout, device, drawn, code, said):
    _, cause, cure = KINDS[kind]
    by_launcher = layout in MPI
    if (code not in ((137,) if kind == "killed" else (1, 3)) and not by_launcher) or code == 0 or " shim:" in said or "Sanitizer" in said:
        sys.exit(f"{drawn}: exit code {code}\n{said}")
    if by_launcher and kind == "killed":                # MPICH's launcher kills the other ranks at once, before they can speak
        return
    for what, words in ("cause", cause), ("cure", cure):
        if not re.search(words, said):
            sys.exit(f"{drawn}: the {what}, {words}, is not named:\n{said}")
    if kind in ONE_OF_DEVICE and layout.ranks > 1 and not re.search(rf"\brank {device}\b|\bGPU {device}\b|on this machine", said):
        sys.exit(f"{drawn}: neither the rank nor the GPU is named:\n{said}")


def resume(layout, out, drawn, losses, weights):
    """What is there is good, and goes on."""
    if os.path.exists(out) and any(name.startswith("step_") for name in os.listdir(out)):
        done = run.jotun("checkpoint", "verify", out, check=False)
        if done.returncode:
            sys.exit(f"{drawn}: the checkpoint is not good:\n{done.stdout}{done.stderr}")
    done = subprocess.run(layout.command(out), capture_output=True, text=True, timeout=LIMIT, env=environment("", layout.ranks))
    if done.returncode:
        sys.exit(f"{drawn}: the next run fails with exit code {done.returncode}\n{done.stderr}")
    if losses_and_weights(out) != (losses, weights):
        sys.exit(f"{drawn}: after it the run ends with {losses_and_weights(out)}, not with {losses}, {weights}")


def many(rng, kind, folder, times):
    failed, survived, tries, layouts = 0, 0, 0, KINDS[kind][0]
    while failed < times and tries < 10 * times:
        drawn = fail_once(rng, kind, layouts[tries % len(layouts)], folder, tries) or ""
        survived += drawn.endswith("survived")
        failed += bool(drawn) and not drawn.endswith("survived")
        tries += 1
    if failed < times:
        sys.exit(f"{kind}: {failed} failures in {tries} runs, {times} wanted")
    print(f"{kind}: {failed} failures, cause and cure named{f', and {survived} that a run survived' if survived else ''}; losses and weights in the end those of "
          "an undisturbed run", flush=True)


def main():
    words = sys.argv[1:]
    seed = int(words.pop(0)) if words and words[0].isdigit() else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    with run.work_folder() as folder:
        if FULL or words:
            for kind in words or KINDS:
                many(random.Random(f"{seed} {kind}"), kind, folder, TIMES)
            return 0
        rng = random.Random(seed)
        for number, (kind, layout) in enumerate(QUICK):
            drawn = None
            while not drawn or drawn.endswith("survived"):
                drawn = fail_once(rng, kind, layout, folder, number)
                number += len(QUICK)
            print(drawn, flush=True)
    return 0


sys.exit(main())
