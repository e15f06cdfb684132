"""One bit flipped on its way from memory to the disk, by a library that stands between the binary and pwrite: the save is
refused, and the checkpoint before it stays."""
import os
import shutil
import subprocess
import sys

import run

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The FLIP-th write of at least 64 bytes into a file of tensors, or with FLIP_AT the FLIP-th header, is made with one bit changed,
 * in the middle or at the byte FLIP_AT; the caller's memory is not. */
static ssize_t flipped(const char *name, int fd, const void *data, size_t bytes, off_t at)
{
    static atomic_long seen;
    ssize_t (*next)(int, const void *, size_t, off_t) = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, name);
    char link[64], path[1024] = "";
    const char *flip = getenv("FLIP"), *byte = getenv("FLIP_AT");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (!flip || bytes < 64 || readlink(link, path, sizeof path - 1) < 0 || !strstr(path, ".safetensors")) return next(fd, data, bytes, at);
    if (byte && at != 0) return next(fd, data, bytes, at);
    if (atomic_fetch_add(&seen, 1) + 1 != atol(flip)) return next(fd, data, bytes, at);
    fprintf(stderr, "FLIPPED\n");
    char *copy = malloc(bytes);
    memcpy(copy, data, bytes);
    copy[byte ? (size_t)atol(byte) % bytes : bytes / 2] ^= 4;
    ssize_t done = next(fd, copy, bytes, at);
    free(copy);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return flipped("pwrite", fd, data, bytes, at); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) { return flipped("pwrite64", fd, data, bytes, at); }
"""
HEADER_BYTES = [9, 0, 3, 7, 8, 40, 63]                 # of its length, of the brace, of names, types and offsets
LAYOUTS = ["--threads 1", "--ranks 4 --tp 2 --zero-stage 1 --threads 1", "--ranks 2 --zero-stage 3 --threads 1"]


def build(folder):
    source, library = os.path.join(folder, "flip.c"), os.path.join(folder, "flip.so")
    with open(source, "w") as out:
        out.write(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def found(library, data, out, layout, number, header_byte=None):
    """False where there was no such write; header_byte: of headers alone. Ends the test where a checkpoint with the flipped bit was taken for good."""
    shutil.rmtree(out, ignore_errors=True)
    train = ["train", "--data-path", data, *run.MODEL, *layout.split(), "--save", out, "--load", out, "--train-iters"]
    run.jotun(*train, 1)
    first = run.digest(os.path.join(out, "step_00000001"))
    flip = {"FLIP": str(number), **({} if header_byte is None else {"FLIP_AT": str(header_byte)})}
    done = run.jotun(*train, 2, check=False, env=dict(os.environ, LD_PRELOAD=library, **flip))
    if "FLIPPED" not in done.stderr:
        return False
    verified = run.jotun("checkpoint", "verify", out, check=False)
    if done.returncode == 0 and verified.returncode == 0:
        sys.exit(f"{layout}: write {number} had a bit flipped, and both the save and `checkpoint verify` are content")
    if (done.returncode != 3 or "block_" not in done.stderr or "reads back otherwise than it is in memory" not in done.stderr
            or (header_byte is not None and "the header reads back" not in done.stderr)):
        sys.exit(f"{layout}: write {number} had a bit flipped, and the save ends with {done.returncode}:\n{done.stderr}")
    if sorted(n for n in os.listdir(out) if "step" in n) != ["step_00000001"] or run.digest(os.path.join(out, "step_00000001")) != first:
        sys.exit(f"{layout}: after a save that was refused there are {os.listdir(out)}")
    return True


def main():
    if not shutil.which("cc") or os.environ.get("SANITIZE"):
        print("no cc, or a sanitizer that stands before every library: skipped")
        return run.SKIP
    with run.work_folder() as folder:
        library, data, flips = build(folder), run.corpus(folder), 0
        for layout in LAYOUTS:
            number, step = 1, 7 if os.environ.get("JOTUN_FULL") else 37
            while found(library, data, os.path.join(folder, "out"), layout, number):
                number, flips = number + step, flips + 1
            for at in HEADER_BYTES if layout == LAYOUTS[0] else HEADER_BYTES[:1]:
                if not found(library, data, os.path.join(folder, "out"), layout, 1, at):
                    sys.exit(f"{layout}: no header was written")
                flips += 1
        if flips < 12:
            sys.exit(f"only {flips} writes were reached")
        print(f"{flips} flipped bits, each found by the save itself")
    return 0


sys.exit(main())
