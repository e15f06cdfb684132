"""`jotun checkpoint verify` looks at what it was asked for: every checkpoint of a folder, or the one step that is named; it
never takes another in its place, and a file that cannot be opened is told and not a crash."""
import os
import shutil
import sys

import run


def as_nobody():
    """Root may read everything; somebody else may not."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setuid(65534)


def verify(where, code, *words, absent=(), **more):
    done = run.jotun("checkpoint", "verify", where, check=False, **more)
    said = "".join(line for line in (done.stdout + done.stderr).splitlines(True) if not line.startswith("good  "))
    if done.returncode != code or any(w not in said for w in words) or any(w in said for w in absent):
        sys.exit(f"checkpoint verify {where}: exit code {done.returncode}, wanted {code}, {words} and not {absent}\n{said}")


def change(path, at):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def main():
    with run.work_folder() as folder:
        os.chmod(folder, 0o755)
        whole, out = os.path.join(folder, "whole"), os.path.join(folder, "out")
        run.jotun("train", "--data-path", run.corpus(folder), *run.MODEL, "--threads", 1, "--train-iters", 3, "--save", whole, "--save-interval", 1)
        step = [os.path.join(out, f"step_{k:08d}") for k in range(4)]
        all_right = [f"{s}: every checksum is right" for s in step[1:]]

        def anew():
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(whole, out)

        anew()
        verify(out, 0, *all_right, absent=["DAMAGED"])
        os.mkdir(os.path.join(out, ".step_00000004.part"))                   # a kill's left-over is no checkpoint
        verify(out, 0, *all_right)
        verify(os.path.join(folder, "none"), 1, "holds no checkpoint")

        for damaged in (1, 3):                                               # the oldest, the newest
            anew()
            change(os.path.join(step[damaged], "block_0001.safetensors"), -1)
            right = [w for k, w in enumerate(all_right, 1) if k != damaged]
            verify(out, 1, *right, f"{step[damaged]}: DAMAGED", "1 of 3 checkpoints", "block_0001.safetensors: tensor", absent=[all_right[damaged - 1]])
            verify(step[damaged], 1, "block_0001.safetensors: tensor", absent=["every checksum"])
            verify(step[2], 0, all_right[1])

        anew()                                                               # one that checkpoint_find would pass over
        os.truncate(os.path.join(step[3], "manifest.json"), 100)
        verify(out, 1, *all_right[:2], f"{step[3]}: DAMAGED", "1 of 3 checkpoints")
        verify(step[3], 1, "manifest.json", absent=["every checksum"])
        os.unlink(os.path.join(step[3], "manifest.json"))
        verify(out, 1, f"{step[3]}: DAMAGED")
        verify(step[3] + "/", 1, "manifest.json: cannot be read")

        anew()
        shutil.rmtree(step[3])
        verify(out, 1, *all_right[:2], f"{out}/latest names step 3, which is not there", absent=["DAMAGED", "of 3 checkpoints", "of 2 checkpoints"])

        anew()
        os.rename(step[3], os.path.join(out, ".step_00000003.old"))          # put aside, and killed before the new one came
        verify(out, 0, *all_right[:2], ".step_00000003.old: every checksum is right")

        anew()
        os.chmod(os.path.join(step[3], "block_0001.safetensors"), 0)
        verify(step[3], 1, "block_0001.safetensors: cannot be read", "DAMAGED", preexec_fn=as_nobody)
        verify(out, 1, *all_right[:2], f"{step[3]}: DAMAGED", preexec_fn=as_nobody)

        anew()
        os.unlink(os.path.join(step[3], "block_0001.safetensors"))
        verify(step[3], 1, "block_0001.safetensors: cannot be read", "DAMAGED")
        print("checkpoint verify: each step of a folder, or the one that was named, and nothing in its place")
    return 0


sys.exit(main())
