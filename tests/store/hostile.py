"""Files from outside made to be dear: a reader takes memory and time by the file's size, in the multiples that its header states."""
import os
import shutil
import subprocess
import sys

import run

MIB = 1 << 20


def cost(out, *words):
    """Exit code, bytes at the peak, seconds of CPU and what was said."""
    with open(out, "w+") as said:
        child = subprocess.Popen([run.JOTUN, *words], stdout=said, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return child.returncode, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime, said.read()


def write(path, size, begin, part, end, head=b""):
    """`part` again and again between two ends; %d counts. In shards: this process' own peak counts for its children."""
    with open(path, "wb") as file:
        file.write(head + begin.encode())
        left, i = size - len(begin) - len(end), 0
        while left > 2 * MIB:
            shard = "".join(part % k for k in range(i, i + 10000)) if "%" in part else part * 100000
            i += 10000
            left -= file.write(shard.encode())
        file.write(end.encode().ljust(left + len(end)))


def forms(most):
    """Name -> a text, and how many times its own size reading it may take."""
    return {
        "numbers": ('{"a":[', "1,", "1]}", most // 2),
        "empty objects": ('{"a":[', "{},", "{}]}", 4),
        "empty arrays": ('{"a":[', "[],", "[]]}", 4),
        "empty objects by name": ("{", '"%07d":{},', '"a":{}}', most),
        "numbers by name": ("{", '"%07d":1,', '"a":1}', most),
        "nested": ('{"a":', "[", "", 4),
        "one string": ('{"a":"', "b", '"}', 8),
        "empty strings": ('{"a":[', '"",', '""]}', most),
        "unfinished": ('{"a":[', "{},", "{", 4),
    }


def look(what, size, most, out, *words):
    code, peak, seconds, said = cost(out, "checkpoint", *words)
    if code != 1:
        sys.exit(f"{what}: exit code {code}\n{said[-2000:]}")
    if peak > most * size + 48 * MIB or seconds > 10:
        sys.exit(f"{what}: {peak / MIB:.0f} MiB and {seconds:.1f} s for a file of {size / MIB:.0f} MiB, of which {most} times as much is allowed")


def main():
    if os.environ.get("SANITIZE"):
        print("a sanitizer's memory is not ours: skipped")
        return run.SKIP
    with run.work_folder() as folder:
        out, said = os.path.join(folder, "out"), os.path.join(folder, "said")
        run.jotun("train", "--data-path", run.corpus(folder), *run.MODEL, "--threads", 1, "--num-layers", 1, "--hidden-size", 384, "--train-iters", 1,
                  "--save", out)
        step = os.path.join(out, "step_00000001")
        block = max((os.path.join(step, n) for n in os.listdir(step)), key=os.path.getsize)
        bytes_of_block = os.path.getsize(block)
        for name, (*words, most) in forms(40).items():               # in a file whose size is the one that the manifest has
            write(block, 16 * MIB, *words, head=(16 * MIB).to_bytes(8, "little"))
            os.truncate(block, bytes_of_block)
            look(f"a safetensors header of {name}", 16 * MIB, most, said, "verify", step)
        shutil.rmtree(step)
        os.mkdir(step)
        for name, (*words, most) in forms(32).items():
            write(os.path.join(step, "manifest.json"), 24 * MIB, *words)
            look(f"a manifest of {name}", 24 * MIB, most, said, "info", step)
        with open(os.path.join(step, "manifest.json"), "w") as file:
            file.truncate(1 << 33)                                   # of holes: looked at, not read
        look("a manifest of 8 GiB", MIB, 1, said, "info", step)
        os.unlink(os.path.join(step, "manifest.json"))
        with open(os.path.join(out, "latest"), "w") as file:
            file.truncate(1 << 33)
        look("`latest` of 8 GiB", MIB, 1, said, "info", out)
        print("hostile headers and manifests: memory and time by the size of the file")
    return 0


sys.exit(main())
