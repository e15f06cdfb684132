"""Converts a random model of 2 billion parameters from a folder of transformers to a checkpoint and back, and compares time
with a copy of the same bytes on the same disk, and peak memory with 1 GiB.

    python3 bench/convert/folder.py JOTUN FOLDER [LAYERS [ROUNDS]]      FOLDER: on the disk, with room for three times the weights, 12 GB

A round is a conversion and a copy right after it, and of the rounds (3) the medians are taken. The copy does with the disk what the
conversion does, and nothing else: one thread reads the same files ahead (posix_fadvise), another one writes files of the output's
sizes in blocks of 16 MiB, whose writing begins at once (sync_file_range), and each file ends with fsync. Either begins without its
input in the page cache (POSIX_FADV_DONTNEED) and with nothing left to write (sync). Bytes are random, so that a disk that compresses
gains nothing. The load of the machine before each round is printed; the copy runs under it as well."""
import ctypes
import json
import os
import queue
import random
import shutil
import statistics
import struct
import sys
import threading
import time

HIDDEN, FFN, HEADS, GROUPS, VOCABULARY = 2560, 10240, 20, 4, 32000
BLOCK = 16 << 20
random.seed(7)
POOL = random.randbytes(BLOCK + 4096)


def shapes(layers):
    kv = HIDDEN // HEADS * GROUPS
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    for i in range(layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", [HIDDEN]
        yield at + "self_attn.q_proj.weight", [HIDDEN, HIDDEN]
        yield at + "self_attn.k_proj.weight", [kv, HIDDEN]
        yield at + "self_attn.v_proj.weight", [kv, HIDDEN]
        yield at + "self_attn.o_proj.weight", [HIDDEN, HIDDEN]
        yield at + "post_attention_layernorm.weight", [HIDDEN]
        yield at + "mlp.gate_proj.weight", [FFN, HIDDEN]
        yield at + "mlp.up_proj.weight", [FFN, HIDDEN]
        yield at + "mlp.down_proj.weight", [HIDDEN, FFN]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [VOCABULARY, HIDDEN]


def model_make(folder, layers):
    os.makedirs(folder)
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCABULARY, hidden_size=HIDDEN,
                  intermediate_size=FFN, num_hidden_layers=layers, num_attention_heads=HEADS, num_key_value_heads=GROUPS,
                  max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=1e4, hidden_act="silu", dtype="bfloat16")
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes(layers):
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        left, turn = at, 0
        while left:
            n, turn = min(left, BLOCK), (turn + 37) % 4096
            out.write(POOL[turn:turn + n])
            left -= n
        os.fsync(out.fileno())
    return at


def files(folder):
    return [os.path.join(d, f) for d, _, names in os.walk(folder) for f in names]


def forget(folder):
    for path in files(folder):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


def read_all(paths, blocks, free):
    """Blocks of the files in order, in memory of `free`, to which the writer gives it back."""
    for path in paths:
        fd, at = os.open(path, os.O_RDONLY), 0
        while True:
            os.posix_fadvise(fd, at, 8 * BLOCK, os.POSIX_FADV_WILLNEED)
            memory = free.get()
            n = os.preadv(fd, [memory], at)
            if not n:
                free.put(memory)
                break
            at += n
            blocks.put((memory, n))
        os.close(fd)
    blocks.put(None)


def copy_seconds(source, output, target):
    """Reads the files of `source` and writes their bytes to files of the sizes of those in `output`."""
    sizes = [os.path.getsize(path) for path in sorted(files(output))]
    forget(source)
    os.mkdir(target)
    begin = time.monotonic()
    blocks, free = queue.Queue(), queue.Queue()
    for _ in range(3):
        free.put(bytearray(BLOCK))
    reader = threading.Thread(target=read_all, args=(sorted(files(source)), blocks, free))
    reader.start()
    left, memory, ended = memoryview(b""), None, False
    for number, size in enumerate(sizes):
        fd, at = os.open(os.path.join(target, str(number)), os.O_WRONLY | os.O_CREAT, 0o644), 0
        while at < size:
            if not left:
                if memory:
                    free.put(memory)
                memory, taken = None, ended or blocks.get()
                if taken is None or ended:             # the output is longer by its texts
                    ended = True
                    break
                memory, left = taken[0], memoryview(taken[0])[:taken[1]]
            n = os.pwrite(fd, left[:size - at], at)
            LIBC.sync_file_range(fd, at, n, 2)
            at, left = at + n, left[n:]
        os.fsync(fd)
        os.close(fd)
    seconds = time.monotonic() - begin
    while reader.is_alive():                           # the output is shorter by a header
        try:
            taken = blocks.get(timeout=0.01)
            if taken:
                free.put(taken[0])
        except queue.Empty:
            pass
    reader.join()
    shutil.rmtree(target)
    return seconds


def convert(jotun, to, source, output):
    forget(source)
    begin = time.monotonic()
    child = os.spawnv(os.P_NOWAIT, jotun, [jotun, "convert", "--to", to, "--input", source, "--output", output, "--tokenizer", "bytes"])
    _, status, used = os.wait4(child, 0)
    seconds = time.monotonic() - begin
    if status:
        sys.exit(f"convert --to {to} failed")
    return seconds, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime


def measured(jotun, to, source, output, size, rounds):
    """The median share of the copy's speed, and the most memory; the output of the last round stays."""
    shares, peak = [], 0
    for turn in range(rounds):
        shutil.rmtree(output, ignore_errors=True)
        os.sync()
        load = open("/proc/loadavg").read().split()[0]
        seconds, memory, cpu = convert(jotun, to, source, output)
        os.sync()
        plain = copy_seconds(source, output, output + ".copy")
        print(f"to {to:6s} {size / seconds / 1e6:5.0f} MB/s, {seconds:5.1f} s ({cpu:.1f} s of CPU); the copy {size / plain / 1e6:5.0f} MB/s, {plain:5.1f} s: "
              f"{plain / seconds:4.0%}; peak memory {memory / 2**20:.0f} MiB; load {load}", flush=True)
        shares.append(plain / seconds)
        peak = max(peak, memory)
    print(f"to {to:6s} {statistics.median(shares):.0%} of the copy's speed, the median of {rounds}", flush=True)
    return statistics.median(shares), peak


def main(jotun, folder, layers=20, rounds=3):
    first, ours, again = (os.path.join(folder, n) for n in ("theirs", "ours", "again"))
    paths = [path + ending for path in (first, ours, again) for ending in ("", ".copy")]
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    try:
        size = model_make(first, int(layers))
        print(f"{size // 2 / 1e9:.2f} billion parameters, {size / 2**30:.2f} GiB in bf16")
        results = [measured(jotun, "jotun", first, ours, size, int(rounds))]
        shutil.rmtree(first)
        results.append(measured(jotun, "hf", ours, again, size, int(rounds)))
        shares, memory = zip(*results)
        print(f"least share of the disk {min(shares):.0%}, most memory {max(memory) / 2**20:.0f} MiB")
        return 0 if min(shares) >= 0.8 and max(memory) <= 2**30 else 1
    finally:
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)


sys.exit(main(*sys.argv[1:]))
