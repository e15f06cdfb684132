"""SIGTERM, SIGINT, SIGHUP and SIGUSR1: the current step is finished and saved, the exit code names the signal, and the resumed run
ends with bit-identical losses and weights. An evaluation ends at its next batch. `timeout` and schedulers signal a process and then
its group, so the same signal arrives twice within milliseconds: that is one request. A repeat after more than a second ends the
process at once. A signal to a command that writes a file leaves nothing of it behind."""
import os
import signal
import subprocess
import sys
import time

import run

STEPS = 120


def arguments(data, out):
    return [str(w) for w in ["train", "--data-path", data, "--train-iters", STEPS, *run.MODEL, "--ranks", 2, "--threads", 1,
                             "--save", out, "--load", out, "--metrics", out + ".jsonl"]]


def signal_twice(child, number):
    """The second signal is sent as soon as the first one's message shows that it was handled, so that the kernel cannot merge
    them. Returns what was read of standard error."""
    child.send_signal(number)
    read = ""
    while "the same signal again" not in read:
        line = child.stderr.readline()
        if not line:
            sys.exit(f"{number.name}: ended without a word\n{read}")
        read += line if isinstance(line, str) else line.decode()
    child.send_signal(number)
    return read


def interrupted(data, out, number):
    child = subprocess.Popen([run.JOTUN] + arguments(data, out), stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and not (os.path.exists(out + ".jsonl") and run.metrics(out + ".jsonl")):
        time.sleep(0.01)
    stderr = signal_twice(child, number)
    stderr += child.communicate(timeout=60)[1]
    if child.returncode != 128 + number or "stopped by a signal after step" not in stderr:
        sys.exit(f"{number.name}: exit code {child.returncode}\n{stderr}")
    return max(run.metrics(out + ".jsonl"))


def wait_for_part(folder):
    """Until an output file is being written; the handler is installed by then."""
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(name.endswith(".bin.part") for name in os.listdir(folder)):
        time.sleep(0.001)


def nothing_left(words, folder, number, feed=None):
    """Stopped while it writes: the exit code and the message say so, and no output file is left."""
    child = subprocess.Popen([run.JOTUN, *words, "--output-prefix", os.path.join(folder, "left")], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    wait_for_part(folder)
    signal_twice(child, number)
    try:
        while feed and child.poll() is None and time.monotonic() < end:
            child.stdin.write(feed)
    except BrokenPipeError:
        pass
    stderr = child.stderr.read().decode()
    child.wait(timeout=60)
    left = [name for name in os.listdir(folder) if name.startswith("left")]
    if child.returncode != 128 + number or "stopped by a signal; nothing is written" not in stderr or left:
        sys.exit(f"{words[:2]}, {number.name}: exit code {child.returncode}, left {left}\n{stderr}")


def in_evaluation(data, out):
    """An evaluation that would take hours is given up at its next batch, and the step before it is saved."""
    more = ["--eval-interval", 1, "--eval-iters", 1000000, "--split", "80,20,0"]
    child = subprocess.Popen([run.JOTUN] + arguments(data, out) + [str(w) for w in more], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and not (os.path.exists(out + ".jsonl") and run.metrics(out + ".jsonl")):
        time.sleep(0.01)
    time.sleep(0.5)                                         # the first step is done: it is inside
    child.send_signal(signal.SIGTERM)
    try:
        stderr = child.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        sys.exit("30 s after SIGTERM an evaluation still goes on")
    if child.returncode != 143 or "step 1: the evaluation is stopped by a signal" not in stderr or "--load" not in stderr:
        sys.exit(f"SIGTERM in an evaluation: exit code {child.returncode}\n{stderr}")
    if '"split"' in open(out + ".jsonl").read():
        sys.exit("an evaluation that was given up has a loss")
    run.jotun("checkpoint", "verify", out)


def before_first_step(data, folder, loads):
    """A signal while the run still sets itself up, which takes long enough in a wide model, and in a narrower one under
    ThreadSanitizer: what is named to go on from exists."""
    width = "256" if os.environ.get("TEST_SANITIZE") == "thread" else "1024"
    out, held = os.path.join(folder, "early"), os.path.join(folder, "held")
    words = ["train", "--data-path", data, "--train-iters", "9", *run.MODEL, "--hidden-size", width, "--threads", "1", "--lr-decay-iters", "9"]
    if loads:
        run.jotun(*words, "--save", held, "--exit-interval", 1)
    child = subprocess.Popen([run.JOTUN, *words, "--save", out, *(["--load", held] if loads else [])], stderr=subprocess.PIPE, text=True)
    end, caught = time.monotonic() + 60, False
    while not caught and time.monotonic() < end:
        caught = any(line.startswith("SigCgt") and int(line.split()[1], 16) >> signal.SIGTERM - 1 & 1 for line in open(f"/proc/{child.pid}/status"))
    child.send_signal(signal.SIGTERM)
    stderr = child.communicate(timeout=60)[1]
    wanted = f"stopped by a signal after step 1; --load {held}/step_00000001 resumes from there" if loads else "before the first step; nothing was saved yet"
    if child.returncode != 143 or wanted not in stderr or os.path.exists(os.path.join(out, "latest")):
        sys.exit(f"SIGTERM before the first step (--load: {loads}): exit code {child.returncode}\n{stderr}")


def ends_at_once(number, pause, folder):
    """A process that blocks in a read cannot end in an orderly way; the same signal after more than a second ends it."""
    child = subprocess.Popen([run.JOTUN, "prepare", "--input", "-", "--output-prefix", os.path.join(folder, "ended"),
                              "--tokenizer", "bytes"],
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_part(folder)
    signal_twice(child, number)
    time.sleep(pause)
    if child.poll() is not None:
        sys.exit(f"{number.name}: twice within a second ended a process that reads")
    child.send_signal(number)
    if child.wait(timeout=10) != -number:
        sys.exit(f"{number.name}: again after {pause} s: exit code {child.returncode}")
    child.stdin.close()
    child.stderr.close()
    for name in os.listdir(folder):
        if name.startswith("ended"):
            os.remove(os.path.join(folder, name))


def outlives_its_terminal(folder):
    """Started by nohup, a command goes on after SIGHUP and writes what it was asked for."""
    child = subprocess.Popen(["nohup", run.JOTUN, "prepare", "--input", "-", "--output-prefix", os.path.join(folder, "hup")],
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_part(folder)
    child.send_signal(signal.SIGHUP)
    stderr = child.communicate(b"a line of text\n", timeout=60)[1].decode()
    if child.returncode != 0 or not os.path.exists(os.path.join(folder, "hup_text_document.idx")):
        sys.exit(f"SIGHUP under nohup: exit code {child.returncode}\n{stderr}")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        outlives_its_terminal(folder)
        for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1:
            nothing_left(["prepare", "--input", "-"], folder, number, b"a line of text\n" * 4096)
            nothing_left(["data", "merge", *[data] * 20000], folder, number)
        for number in signal.SIGTERM, signal.SIGINT:
            ends_at_once(number, 1.2, folder)
        for loads in False, True:
            before_first_step(data, folder, loads)
        in_evaluation(data, os.path.join(folder, "evaluation"))
        whole = os.path.join(folder, "whole")
        run.jotun(*arguments(data, whole))
        for number in signal.SIGTERM, signal.SIGINT:
            out = os.path.join(folder, number.name)
            step = interrupted(data, out, number)
            run.jotun("checkpoint", "verify", out)
            run.jotun(*arguments(data, out))
            last = f"step_{STEPS:08d}"
            if run.metrics(out + ".jsonl") != run.metrics(whole + ".jsonl"):
                sys.exit(f"{number.name}: the losses are not those of an uninterrupted run")
            if run.digest(os.path.join(out, last)) != run.digest(os.path.join(whole, last)):
                sys.exit(f"{number.name}: the weights are not those of an uninterrupted run")
            print(f"{number.name} at step {step}: saved, exit code {128 + number}, resumed bit-identically")
    return 0


sys.exit(main())
