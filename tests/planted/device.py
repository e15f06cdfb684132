"""Mutants of what drives a device: a script finds all places, a seed draws among them, and the tests of the emulated device
have to notice each that has an effect.

    device.py SOURCE [--seed 33] [--count 120] [--only KIND] [--list]

A mutant is one place changed in one way: a wait, an order by events or a copy left out, another stream, a buffer free too early,
a bound one too far, a barrier left out, another sum. Tests run from the fastest to the slowest, and the first that fails has killed it.
A survivor is printed with its place, to be explained one by one: tests/planted/device_survivors.txt has those that have no effect,
with the reason.
"""
import argparse
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HOST = ["src/comm/staged.c", "src/comm/device_data.c", "src/comm/nccl.c", "src/data/loader.c", "src/data/prefetch.c", "src/train/step.c", "src/train/step_sums.c", "src/train/evaluation.c",
        "src/tensor/queue.c", "src/tensor/cuda/table.c", "src/tensor/cuda/stream.cu", "src/tensor/cuda/product_lt.c", "src/tensor/cuda/timing.cu",
        "src/tensor/cuda/matmul.c", "src/parallel/background_sums.c", "src/parallel/bucket_sums.c"]
KERNELS = ["src/tensor/cuda/**/*.cu", "src/tensor/cuda/**/*.h"]

# kind, files, pattern of the place, what takes its place. A statement that is left out is a line of its own.
STATEMENT = r"(?m)^ +(?:if \([^;{{}}]*\) +)?{}\([^;{{}}]*\);\n"
RULES = [
    ("wait", HOST, STATEMENT.format(r"(?:queue_wait|queue_event_wait|gpu_stream_wait|gpu_event_wait|comm_drain|host_batch_free|comm_wait|cuda_event_wait)"), ""),
    ("event", HOST, STATEMENT.format(r"(?:queue_follow|queue_event_record|cuda_queue_follow|gpu_stream_follow|gpu_event_record)"), ""),
    ("copy", HOST, STATEMENT.format(r"(?:queue_read_begin|queue_write_begin|queue_write|batch_copy|host_batch_copy|gpu_copy|queue_state_write|"
                                    r"queue_state_read_begin|queue_state_read|cuda_copy_strided|timing_fill)"), ""),
    ("stream", HOST + KERNELS, r"\(gpuStream_t\)s->stream|gpu_stream_of\(q\)", "(gpuStream_t)nullptr"),
    ("buffer", HOST, r"state = LEAVING", "state = FREE"),
    ("buffer", HOST, r"leaving = [^;\n]*device[^;\n]*;", "leaving = false;"),
    ("bound", KERNELS, r"(?<=if \()(\w+) >= (\w+)(?=\) return)", r"\1 > \2"),
    ("bound", KERNELS, r"(?<=; )(\w+) < (\w+); \1 \+=", r"\1 < \2 - 1; \1 +="),
    ("barrier", KERNELS, r"(?m)^ +__syncthreads\(\);.*\n", ""),
    ("barrier", KERNELS, r"(?m)^ +async_wait<0>\(\);.*\n", ""),
    ("sum", HOST, r"NCCL_SUM", "NCCL_MAX"),
    ("sum", KERNELS, r"all = MOST \? fmaxf\(all, one\) : all \+ one", "all = MOST ? all : all + one"),
]
TESTS = ["tensor_shim32", "tensor_shim_streams", "tensor_cuda_product", "tensor_cuda_ops32", "train_cuda_shim", "train_nccl_shim"]


def places(source):
    """(kind, file, begin, end, text) of all, in a fixed order"""
    found = []
    for kind, files, pattern, new in RULES:
        for path in sorted(path for file in files for path in glob.glob(os.path.join(source, file), recursive=True)):
            file, text = os.path.relpath(path, source), open(path).read()
            for m in re.finditer(pattern, text):
                replacement = m.expand(new) if new else ""
                if file.endswith(".c"):
                    replacement = replacement.replace("nullptr", "0")
                found.append((kind, file, m.start(), m.end(), replacement))
    return sorted(set(found))


def name_of(source, place):
    kind, file, begin, end, new = place
    text = open(os.path.join(source, file)).read()
    old = " ".join(text[begin:end].split())
    return f"{kind:8} {file}:{text.count(chr(10), 0, begin) + 1 + (text[begin] == chr(10))}: {old[:70]} -> {new[:30] or 'left out'}"


def line_of(text, at):
    """The line of a place, which is one line or begins with it."""
    at += text[at] == "\n"
    return text[text.rfind("\n", 0, at) + 1:(text + "\n").index("\n", at)].strip()


COMPILER = "the compiler"


def killer(copy, log):
    """The first test that fails, each built when it is its turn; None: all pass. What does not end is killed too."""
    for test in TESTS:
        if subprocess.run(["ninja", "-C", os.path.join(copy, "build"), test], stdout=log, stderr=log).returncode:
            return COMPILER
        try:
            done = subprocess.run([os.path.join(copy, "build", "bin", test)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
        except subprocess.TimeoutExpired:
            return test + " (did not end)"
        if done.returncode:
            return test
    return None


def main():
    words = argparse.ArgumentParser()
    words.add_argument("source")
    words.add_argument("--seed", type=int, default=33)
    words.add_argument("--count", type=int, default=120)
    words.add_argument("--only")
    words.add_argument("--list", action="store_true")
    given = words.parse_args()
    source = os.path.abspath(given.source)
    all_places = [p for p in places(source) if not given.only or p[0] == given.only]
    drawn = random.Random(given.seed).sample(all_places, min(given.count, len(all_places)))
    print(f"{len(all_places)} places, {len(drawn)} drawn by seed {given.seed}", flush=True)
    if given.list:
        print("\n".join(name_of(source, p) for p in all_places))
        return 0
    explained = {}
    survivors = os.path.join(source, "tests/planted/device_survivors.txt")
    for line in open(survivors) if os.path.exists(survivors) else []:
        if line.strip() and not line.startswith("#"):
            what, why = line.rstrip("\n").split("\t")
            explained[what] = why
    killed, harmless, refused, left = 0, 0, 0, []
    with tempfile.TemporaryDirectory(prefix="jotun-device-") as copy, open(os.path.join(copy, "log"), "w") as log:
        shutil.copytree(source, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", "build"))
        launcher = [f"-DCMAKE_{k}_COMPILER_LAUNCHER=ccache" for k in ("C", "CXX")] if shutil.which("ccache") else []
        subprocess.run(["cmake", "-G", "Ninja", "-S", copy, "-B", os.path.join(copy, "build"), "-DCMAKE_BUILD_TYPE=Release", "-DJOTUN_CUDA=OFF", *launcher],
                       stdout=log, stderr=log, check=True)
        if killer(copy, log):
            sys.exit("the tests fail before anything is changed")
        for place in drawn:
            kind, file, begin, end, new = place
            path, begun = os.path.join(copy, file), time.monotonic()
            text = open(path).read()
            with open(path, "w") as out:
                out.write(text[:begin] + new + text[end:])
            by = killer(copy, log)
            with open(path, "w") as out:
                out.write(text)
            key = f"{file}: {line_of(text, begin)}"
            why = explained.get(key)
            refused += by == COMPILER
            killed += by is not None and by != COMPILER
            harmless += by is None and why is not None
            if by is None and why is None:
                left.append(name_of(source, place))
            print(f"{'killed by ' + by if by else 'no effect: ' + why if why else 'SURVIVED':34} {name_of(source, place)} ({time.monotonic() - begun:.0f} s)", flush=True)
    effective = len(drawn) - harmless - refused
    print(f"{killed} of {effective} with an effect killed ({100 * killed / max(effective, 1):.1f}%), {harmless} without one, {refused} that do not compile; survivors:")
    print("\n".join(left) or "none")
    return 1 if killed < 0.95 * effective or any(s.startswith(("wait", "event", "copy", "stream", "buffer")) for s in left) else 0


sys.exit(main())
