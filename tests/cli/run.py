"""What the scripts of this folder share: a small corpus, runs of the binary, their metrics and checkpoints."""
import glob
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

SKIP = 77
JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
MODEL = ("--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --global-batch-size 8 --lr 1e-3 "
         "--lr-decay-style cosine --log-interval 1000").split()
LLAMA = ("--normalization RMSNorm --position-embedding-type rope --swiglu --disable-bias-linear "
         "--untie-embeddings-and-output-weights --num-query-groups 2 --ffn-hidden-size 64").split()

# Seconds of a watchdog that is to find a rank silent: 16 heartbeats, and more where a sanitizer makes a rank slow.
WATCHDOG = "10" if os.environ.get("TEST_SANITIZE") else "4"

os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
MPIRUN = {
    "Open MPI": ["mpirun.openmpi", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n"],
    "MPICH": ["mpirun.mpich", "-n"],
}


def have(program):
    return any(os.access(os.path.join(d, program), os.X_OK) for d in os.environ["PATH"].split(":"))


def launchers():
    """The MPIs at hand that have a plug-in beside the binary: name -> command."""
    folder = os.path.dirname(os.path.abspath(JOTUN))
    plugins = {"Open MPI": "libjotun_openmpi.so", "MPICH": "libjotun_mpich.so"}
    return {n: c for n, c in MPIRUN.items() if have(c[0]) and os.path.exists(os.path.join(folder, plugins[n]))}


def jotun(*words, check=True, launcher=None, **more):
    command = (launcher or []) + [JOTUN] + [str(w) for w in words]
    if launcher:                                        # what an MPI keeps at its end is not ours
        more["env"] = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **more)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr}")
    return done


def corpus(folder, seed=5):
    """60 lines of syllables, prepared; the prefix of the pair."""
    rng = random.Random(seed)
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as out:
        for _ in range(60):
            out.write(" ".join(rng.choice(["the", "ra", "in", "of", "jo", "tun", "sees"]) for _ in range(rng.randint(10, 60))) + "\n")
    jotun("prepare", "--input", text, "--tokenizer", "bytes", "--append-eod", "--output-prefix", os.path.join(folder, "text"))
    return os.path.join(folder, "text_text_document")


def metrics(path):
    """step -> loss as printed, the last line of a step standing (a run that was killed repeats some)."""
    losses = {}
    for line in open(path):
        try:
            row = json.loads(line)
        except ValueError:
            continue                                    # the one line a kill may have cut
        if "split" not in row:
            losses[row["step"]] = row["loss"]
    return losses


def digest(checkpoint):
    """One hash of all tensor files of a checkpoint folder: layouts leave no trace in them."""
    total = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(checkpoint, "*.safetensors"))):
        total.update(os.path.basename(path).encode())
        total.update(open(path, "rb").read())
    return total.hexdigest()


def work_folder():
    return tempfile.TemporaryDirectory(prefix="jotun-test-")


def pair(prefix, sequences, code=8):
    """A pair as Megatron-LM writes it, each sequence a document."""
    size = {8: 2, 4: 4}[code]
    with open(prefix + ".bin", "wb") as out:
        for ids in sequences:
            out.write(struct.pack(f"<{len(ids)}{'H' if code == 8 else 'i'}", *ids))
    starts = [0]
    for ids in sequences:
        starts.append(starts[-1] + len(ids) * size)
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(sequences), len(sequences) + 1))
        out.write(struct.pack(f"<{len(sequences)}i", *map(len, sequences)))
        out.write(struct.pack(f"<{len(sequences)}q", *starts[:-1]))
        out.write(struct.pack(f"<{len(sequences) + 1}q", *range(len(sequences) + 1)))
