"""What a training run says: the line of progress on a terminal and in a file, JSON lines of --metrics on a disk that is full, and a
standard error that nobody reads."""
import fcntl
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import run

LIMIT = 1500                                            # bytes a file may grow to: four lines of metrics and a half


def arguments(data, steps, *more):
    return [str(w) for w in ["train", "--data-path", data, *run.MODEL, "--train-iters", steps, "--threads", 1, *more]]


def short_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def full_disk(data, folder):
    """The half line is taken back, the cause is right and said once, the exit code tells; the next run's lines are whole."""
    out = os.path.join(folder, "full.jsonl")
    done = run.jotun(*arguments(data, 30, "--metrics", out), check=False, preexec_fn=short_files)
    said = [line for line in done.stderr.splitlines() if "--metrics" in line]
    if done.returncode != 3 or len(said) != 2 or "File too large" not in said[0] or not re.search(r"lacks 2\d lines of this run: File too large", said[1]):
        sys.exit(f"a full disk under --metrics: exit code {done.returncode}\n{done.stderr}")
    run.jotun(*arguments(data, 3, "--metrics", out))
    steps = [json.loads(line)["step"] for line in open(out)]
    if steps[-3:] != [1, 2, 3] or steps[:-3] != list(range(1, len(steps) - 2)) or len(steps) < 6:
        sys.exit(f"lines of --metrics after a full disk: {steps}")
    with open(out, "a") as half:
        half.write('{"step":4,"loss":')                 # a run that was killed inside its line
    run.jotun(*arguments(data, 2, "--metrics", out))
    if json.loads(open(out).read().splitlines()[-2])["step"] != 1:
        sys.exit("the first line of a run is glued to half a line of the run before")
    done = run.jotun(*arguments(data, 3, "--metrics", "/dev/full", "--ranks", 2), check=False)
    if done.returncode != 3 or done.stderr.count("No space left on device") != 2:
        sys.exit(f"--metrics /dev/full: exit code {done.returncode}\n{done.stderr}")


def epochs(data, folder):
    """A run that reads its data more than once says so at its start: one corpus, Megatron-LM's order of it, and a blend."""
    for paths, steps, wanted in ([data], 2000, "its training data"), ([1, data, 1, data], 2000, data):
        order = ["--data-order", "megatron"] if len(paths) > 1 else []
        done = run.jotun("train", "--data-path", *paths, *run.MODEL, "--train-iters", steps, "--threads", 1, "--exit-interval", 1, "--save",
                         os.path.join(folder, f"epochs{len(paths)}"), *order)
        if not re.search(rf"the run has {steps} steps: .* [0-9.]+ epochs of {wanted}, so that samples repeat", done.stderr):
            sys.exit(f"a run that repeats its data does not say so:\n{done.stderr}")
    with open(os.path.join(folder, "list.txt"), "w") as out:
        out.write(f"1 {data} a\n")
    done = run.jotun("train", "--data-file-list", os.path.join(folder, "list.txt"), "--data-order", "megatron-forks", *run.MODEL, "--train-iters", 2, "--threads", 1)
    if float(re.search(r"([0-9.e+-]+) epochs of its training data", done.stderr).group(1)) > 0.3:
        sys.exit(f"a part of a list's epoch is told as more:\n{done.stderr}")
    if "samples repeat" in run.jotun(*arguments(data, 1)).stderr:
        sys.exit("a run of one step speaks of samples that repeat")


def averages(data, folder):
    """The loss of a line is the mean over the steps since the line before; --metrics has each step's own."""
    out = os.path.join(folder, "mean.jsonl")
    done = run.jotun(*arguments(data, 12, "--metrics", out, "--log-interval", 5))
    losses = run.metrics(out)
    lines = re.findall(r"^step (\d+)/12 .* loss ([0-9.]+) .* (\d+) samples ", done.stderr, re.M)
    if [int(step) for step, _, _ in lines] != [1, 5, 10, 12]:
        sys.exit(f"lines of a run of 12 steps:\n{done.stderr}")
    before = 0
    for step, loss, samples in ((int(a), float(b), int(c)) for a, b, c in lines):
        mean = sum(losses[s] for s in range(before + 1, step + 1)) / (step - before)
        if abs(loss - mean) > 6e-5 or samples != 8 * step:
            sys.exit(f"step {step}: loss {loss}, samples {samples}; the mean of --metrics is {mean}, the samples are {8 * step}")
        before = step


def speed_told(data, folder):
    """bench peak keeps what it prints; MFU is a share of it, in both conventions; a line has the mean speed since the one before."""
    cache, out = os.path.join(folder, "cache"), os.path.join(folder, "speed.jsonl")
    env = dict(os.environ, XDG_CACHE_HOME=cache)
    told = run.jotun("bench", "peak", "--threads", 1, env=env).stdout
    kept = open(os.path.join(cache, "jotun", "peak")).read()
    family, threads, fp32 = kept.split("\t")[1:4]
    printed = re.search(r"fp32, GFLOP/s: \S.* ([0-9.]+)\n", told)
    if f"{family} kernels" not in told or threads != "1" or kept.count("\n") != 1 or abs(float(fp32) / 1e9 - float(printed[1])) > 1e-3 * float(printed[1]) or not re.search(r"^threads +1$", told, re.M):
        sys.exit(f"bench peak prints\n{told}and keeps\n{kept}")
    with open(os.path.join(cache, "jotun", "peak"), "w") as file:
        file.write("a line of another version\n" + kept.replace(fp32, "2e10"))
    done = run.jotun(*arguments(data, 12, "--metrics", out, "--log-interval", 5), env=env)
    if "MFU is a share of 20.0 GFLOP/s, the fp32 peak of 1 thread on this machine, by jotun bench peak\n" not in done.stderr:
        sys.exit(f"the peak of the cache is not named:\n{done.stderr}")
    rows, before = {row["step"]: row for row in map(json.loads, open(out))}, 0
    for step, speed, flops, full, causal, memory in re.findall(
            r"^step (\d+)/12 .*  (\d+) tokens/s .*  ([0-9.]+) GFLOP/s  MFU ([0-9.]+) % \(causal ([0-9.]+) %\)  ([0-9.]+ [KMG]iB)$", done.stderr, re.M):
        row, part = rows[int(step)], [rows[s] for s in range(before + 1, int(step) + 1)]
        mean = sum(r["tokens"] - rows.get(s - 1, {"tokens": 0})["tokens"] for s, r in rows.items() if before < s <= int(step)) / sum(r["seconds"] for r in part)
        off = 1 + mean * (1e-4 + 0.5e-6 * len(part) / sum(r["seconds"] for r in part))                          # seconds have six decimals
        if abs(mean - float(speed)) > off or abs(row["mean_tokens_per_second"] - mean) > off or row["mean_of_steps"] != len(part):
            sys.exit(f"step {step}: {speed} tokens/s, the mean of {len(part)} steps is {mean}: {row}")
        share = 1e9 * float(flops) / 2e10 * 100                                                                 # both are told with one decimal
        if abs(share - float(full)) > 0.051 + 0.051 * 1e9 / 2e10 * 100 or not 0.8 < (float(causal) + 0.05) / (float(full) + 0.05) <= 1 or abs(row["mfu_full"] * 2e10 / row["model_flops_per_second_full"] - 1) > 1e-4:
            sys.exit(f"step {step}: MFU {full} and {causal} at {flops} GFLOP/s: {row}")
        before = int(step)
    if before != 12 or any("mean_loss" in rows[s] for s in (2, 7, 11)):
        sys.exit(f"lines of speed until step {before}:\n{done.stderr}")
    more = ["--peak-tflops", "0.025", "--ranks", 2, "--tp", 2, "--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", 1]
    told = run.jotun(*arguments(data, 2, "--metrics", out + ".given", "--log-interval", 1, *more), env=env).stderr
    row = [json.loads(line) for line in open(out + ".given")][-1]
    shares = re.search(r"step 2/2 .* MFU ([0-9.]+) % \(causal [0-9.]+ %\)  HFU ([0-9.]+) %  ", told)
    if "MFU is a share of 0.025 TFLOP/s of each rank, by --peak-tflops\n" not in told or not shares or any(
            abs(row[f"mfu_{k}"] * 2 * 0.025e12 / row[f"model_flops_per_second_{k}"] - 1) > 1e-4 or not 1.1 < row[f"hfu_{k}"] / row[f"mfu_{k}"] < 1.34 for k in ("full", "causal")):
        sys.exit(f"--peak-tflops 0.025 of two ranks: {row}\n{told}")
    if "HFU" in done.stderr or any(abs(r["hfu_full"] - r["mfu_full"]) > 1e-12 for r in rows.values()):
        sys.exit("HFU differs from MFU where nothing is computed again")
    if family == "avx512-bf16":
        told = run.jotun(*arguments(data, 1, "--bf16"), env=env).stderr
        bf16 = re.search(r"MFU is a share of ([0-9.]+) GFLOP/s, the bf16 peak of 1 thread ", told)
        if not bf16 or abs(1e9 * float(bf16[1]) - float(kept.split("\t")[4])) > 1e8:
            sys.exit(f"a run in bf16 is compared with another peak than {kept}{told}")
    with open(os.path.join(cache, "jotun", "peak"), "w") as file:
        file.write(kept.replace(fp32, "9e5"))
    if "measured in 40 ms" not in run.jotun(*arguments(data, 1), env=env).stderr:
        sys.exit("a peak below 1 MFLOP/s is taken from the cache")
    done = run.jotun("bench", "peak", "--kernels", "foo", env=env, check=False)
    if done.returncode != 1 or "--kernels foo is not known; give auto or one of " not in done.stderr:
        sys.exit(f"bench peak --kernels foo: {done.stderr}")
    os.remove(os.path.join(cache, "jotun", "peak"))
    if not re.search(r"MFU is a share of [0-9.]+ GFLOP/s, .* measured in 40 ms; jotun bench peak ", run.jotun(*arguments(data, 1), env=env).stderr):
        sys.exit("a run without a peak in the cache measures none")
    if os.listdir(os.path.join(cache, "jotun")):
        sys.exit("a run has written into the cache")


def profile_written(data, folder):
    """All ranks' operations and messages of the steps that were asked for, within their steps; and a table that adds up to them."""
    out = os.path.join(folder, "profile.json")
    done = run.jotun(*arguments(data, 8, "--profile", out, "--profile-step-start", 4, "--profile-step-end", 5, "--ranks", 4, "--tp", 2,
                                "--pp", 2))
    events = json.load(open(out))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    if len(names) != 4 or "rank 3: pp 1, dp 0, cp 0, tp 1" not in names or {e["args"]["step"] for e in spans} != {4, 5}:
        sys.exit(f"the ranks of the profile are {names}, its steps {sorted({e['args']['step'] for e in spans})}")
    inside = 0
    for rank in range(4):
        for step in 4, 5:
            mine = [e for e in spans if e["pid"] == rank and e["args"]["step"] == step and e["tid"] == 0]
            whole = [e for e in mine if e["cat"] == "step"]
            parts = sorted((e for e in mine if e["cat"] != "step"), key=lambda e: (e["ts"], -e["dur"]))
            ends = [e["ts"] + e["dur"] for e in parts]
            outer, overlap, covered = [], False, 0           # within an operation or a wait messages progress: spans of their own
            for e, end in zip(parts, ends):
                while outer and outer[-1] <= e["ts"] + 0.002:
                    outer.pop()
                overlap |= bool(outer) and end > outer[-1] + 0.002
                covered += 0 if outer else e["dur"]
                outer.append(end)
            if len(whole) != 1 or overlap or parts[0]["ts"] < whole[0]["ts"] or max(ends) > whole[0]["ts"] + whole[0]["dur"] + 0.002:
                sys.exit(f"rank {rank}, step {step}: {len(whole)} steps, overlap {overlap}, or something is outside of the step")
            if not {"matmul_forward", "attention_backward", "adamw", "tp all-reduce"} <= {e["name"] for e in parts}:
                sys.exit(f"rank {rank}, step {step} has only {sorted({e['name'] for e in parts})}")
            inside += covered / 8e3
    if not any(e["cat"] == "message" and e["name"] == "pp forward 0-1 send" and e["args"]["bytes"] > 0 for e in spans):
        sys.exit("no message from stage to stage")
    rows = {m[1].strip(): (float(m[2]), float(m[3])) for m in re.finditer(r"^(.{33}) .{9} +([0-9.]+) +(-?[0-9.]+) %", done.stdout, re.M)}
    total, idle = rows.pop("step"), rows.pop("in no operation")
    if abs(sum(ms for ms, _ in rows.values()) - inside) > 0.01 * inside or abs(inside + idle[0] - total[0]) > 0.01 * total[0] or total[1] != 100:
        sys.exit(f"the table has {inside} ms in operations of the file and {total} in all:\n{done.stdout}")
    done = run.jotun(*arguments(data, 3, "--profile", out), check=False)
    if done.returncode != 1 or "this run has the steps 1 to 3, and 3 to 5 were to be profiled; give --profile-step-start" not in done.stderr:
        sys.exit(f"a profile of steps that do not come: exit code {done.returncode}\n{done.stderr}")
    done = run.jotun(*arguments(data, 8, "--profile", "/dev/full"))
    if "--profile /dev/full cannot be written: No space left on device; training continues" not in done.stderr:
        sys.exit(f"a profile on a full disk:\n{done.stderr}")


def kernels_kept(data, folder):
    """The family of kernels is named at the start, kept by what reads the checkpoint, and never changed silently."""
    out = os.path.join(folder, "portable")
    told = run.jotun(*arguments(data, 2, "--kernels", "portable", "--save", out, "--verbose")).stderr
    if not re.search(r"^jotun: [0-9.]+ ([KMG]i)?B of this process lie in huge pages, ", told, re.M):
        sys.exit(f"--verbose says nothing of huge pages:\n{told}")
    again = run.jotun(*arguments(data, 3, "--load", out)).stderr
    if "device cpu, fp32, adam, portable kernels, 1 thread" not in again or "--kernels" in again:
        sys.exit(f"a run that resumes one of --kernels portable:\n{again}")
    if "\nkernels    portable\n" not in run.jotun("checkpoint", "info", out).stdout:
        sys.exit("checkpoint info does not show the kernels")
    done = run.jotun("eval", "perplexity", "--load", out, "--data-path", data)
    shown = json.loads(done.stdout)
    if [shown[key] for key in ("step", "type", "kernels")] != [2, "fp32", "portable"] or "jotun: evaluates step 2 of " not in done.stderr or "; fp32, portable kernels" not in done.stderr:
        sys.exit(f"an evaluation does not tell what it evaluates: {done.stdout}{done.stderr}")
    narrow = run.jotun(*arguments(data, 1, "--bf16", "--kernels", "portable")).stderr
    if "device cpu, bf16, adam, portable kernels, 1 thread" not in narrow:
        sys.exit(f"a run of --bf16:\n{narrow}")
    absent = "neon" if os.uname().machine == "x86_64" else "avx2"
    refused = run.jotun(*arguments(data, 3, "--kernels", absent), check=False)
    if refused.returncode != 1 or f"--kernels {absent}: this machine does not have these instructions; every rank runs " not in refused.stderr:
        sys.exit(f"--kernels {absent} on another machine: exit code {refused.returncode}\n{refused.stderr}")
    changed = "the checkpoint was computed by --kernels portable; --kernels avx2 was given: the results differ in their last bits"
    if all(f in open("/proc/cpuinfo").read() for f in ("avx2", "avx512bw")):
        wide = os.path.join(folder, "avx512")
        run.jotun(*arguments(data, 1, "--kernels", "avx512", "--save", wide))
        for words, says in ([], "in fp32 the results are the same to the bit"), (["--bf16"], "the results may differ in their last bits"):
            told = run.jotun(*arguments(data, 2, "--load", wide, "--kernels", "avx2", *words)).stderr
            if f"--kernels avx2 was given: {says}" not in told:
                sys.exit(f"a change of kernels with {words}:\n{told}")
    if "avx2" in open("/proc/cpuinfo").read():
        texts = {
            "train": lambda *more: run.jotun(*arguments(data, 3, "--load", out, *more)),
            "eval": lambda *more: run.jotun("eval", "perplexity", "--load", out, "--data-path", data, *more),
            "generate": lambda *more: run.jotun("generate", "--load", out, "--prompt", "a", "--max-new-tokens", "4", *more, errors="replace")}
        for name, command in texts.items():
            if changed in command().stderr or changed not in command("--kernels", "avx2").stderr:
                sys.exit(f"{name} from a checkpoint of --kernels portable: not said when, or said unless, they change")
        kept, same, other = (json.loads(texts["eval"](*more).stdout)["loss"]
                             for more in ([], ["--kernels", "portable"], ["--kernels", "avx2"]))
        if kept != same or kept == other:
            sys.exit(f"eval of a checkpoint of --kernels portable: {kept}, given {same}, given avx2 {other}")


def loss_scale_told(data, folder):
    """A run of --fp16 whose steps all overflow does not end like one that trained; a resume names how the scale changes."""
    out = os.path.join(folder, "overflow")
    fp16 = lambda steps, *more: run.jotun(*arguments(data, steps, "--fp16", *more)).stderr
    told = fp16(3, "--save", out, "--initial-loss-scale", "1e30")
    progress = [re.search(r"grad \S+  loss scale (\S+)  (\d) skipped  \d+ samples", line).groups() for line in told.splitlines() if line.startswith("step ")]
    if progress != [("1e+30", "1"), ("5e+29", "2")] or "all its 3 steps were skipped, and the loss scale is now 2.5e+29; give more steps, or begin with --initial-loss-scale 65536" not in told:
        sys.exit(f"a run all of whose steps overflow:\n{told}")
    if "\nloss scale 2.5e+29\n" not in run.jotun("checkpoint", "info", out).stdout:
        sys.exit("checkpoint info does not show the loss scale")
    told = fp16(4, "--load", out, "--loss-scale", 64)
    if "; --loss-scale 64, was dynamic; the results" not in told or "warning:" in told:
        sys.exit(f"from a dynamic scale to a constant one:\n{told}")
    told = fp16(4, "--load", out, "--initial-loss-scale", 64)
    if "--initial-loss-scale 64 is ignored: the run resumes with the loss scale of its checkpoint, 2.5e+29" not in told or "its 1 step was" not in told:
        sys.exit(f"--initial-loss-scale on a resume:\n{told}")


def narrow_terminal(data, folder):
    """80 columns hold the time left, and no number is cut."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    child = subprocess.Popen([run.JOTUN] + arguments(data, 300000, "--exit-interval", 20, "--log-interval", 1, "--save", os.path.join(folder, "narrow")), stderr=slave, stdout=subprocess.DEVNULL,
                             env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    text = b""
    try:
        while part := os.read(master, 4096):
            text += part
    except OSError:                                     # a terminal whose programs have all left
        pass
    child.wait(timeout=60)
    lines = [line for line in re.split(r"\r\x1b\[K|[\r\n]+", text.decode()) if line.startswith("step ")]
    if len(lines) < 15:
        sys.exit(f"{len(lines)} lines of 20 steps on a terminal")
    for line in lines:
        if len(line) > 79 or not re.search(r"  \S.* left  loss [0-9.]+  ", line) or not re.search(r"(tokens/s|lr \S+e-\d\d|grad [0-9.]+|samples| ms|GFLOP/s|%\)|iB)$", line):
            sys.exit(f"a line of progress at 80 columns: {line!r}, {len(line)} columns")


def wait_for_steps(child, metrics, steps, seconds):
    """The steps done when they are so many, the run has ended, or the time is over."""
    done, end = 0, time.monotonic() + seconds
    while time.monotonic() < end and child.poll() is None and done < steps:
        time.sleep(0.2)
        done = max(run.metrics(metrics), default=0) if os.path.exists(metrics) else 0
    return done


def nobody_reads(data, folder, terminal):
    """Steps go on, a signal is answered, and the watchdog has nothing to say; what is missing is told to who reads again."""
    out = os.path.join(folder, f"unread-{terminal}")
    reader, writer = pty.openpty() if terminal else os.pipe()
    if not terminal:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    child = subprocess.Popen([run.JOTUN] + arguments(data, 10000000, "--log-interval", 1, "--ranks", 2, "--watchdog-seconds", 2, "--save", out,
                             "--metrics", out + ".jsonl"), stderr=writer, stdout=subprocess.DEVNULL, env=dict(os.environ, TERM="dumb"))
    os.close(writer)
    wanted = 300 if terminal else 100                   # more lines than it takes
    steps = wait_for_steps(child, out + ".jsonl", wanted, 300)     # ThreadSanitizer takes minutes
    child.send_signal(signal.SIGTERM)
    try:
        code = child.wait(timeout=20)
    except subprocess.TimeoutExpired:
        code = "still running"
        child.kill()
    text = b""
    os.set_blocking(reader, False)
    try:
        while part := os.read(reader, 65536):
            text += part
    except OSError:
        pass
    os.close(reader)
    if code != 143 or steps < wanted or b"the job is stopped" in text:
        sys.exit(f"{'terminal' if terminal else 'pipe'} that nobody reads: exit code {code} after {steps} steps\n{text[-300:].decode()}")
    run.jotun("checkpoint", "verify", out)


def read_again(data, folder):
    """A reader that pauses is told how many lines it has missed."""
    out = os.path.join(folder, "again.jsonl")
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    child = subprocess.Popen([run.JOTUN] + arguments(data, 10000000, "--log-interval", 1, "--metrics", out), stderr=writer, stdout=subprocess.DEVNULL)
    os.close(writer)
    wait_for_steps(child, out, 60, 60)
    seen = []
    with os.fdopen(reader) as lines:
        end = threading.Timer(3, child.terminate)
        end.start()
        for line in lines:
            seen.append(line)
        end.cancel()
    child.wait(timeout=60)
    steps = [int(m[1]) for m in (re.match(r"step (\d+)/", line) for line in seen) if m]
    missed = sum(int(m[1]) for m in (re.match(r"jotun: (\d+) lines are missing here", line) for line in seen) if m)
    if missed < 10 or len(steps) + missed != steps[-1]:
        sys.exit(f"{len(steps)} lines and {missed} missing ones of {steps[-1]} steps")


def main():
    checks = [full_disk, epochs, averages, narrow_terminal, lambda *at: nobody_reads(*at, False), lambda *at: nobody_reads(*at, True), read_again, kernels_kept, loss_scale_told, speed_told, profile_written]
    with run.work_folder() as folder:
        data = run.corpus(folder)
        for check in [checks[int(i)] for i in sys.argv[1:]] or checks:
            check(data, folder)
    return 0


sys.exit(main())
