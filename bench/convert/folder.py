"""Converts a random model of 2 billion parameters from a folder of transformers to a checkpoint and back, and compares time
with a plain copy of the same bytes on the same disk, and peak memory with 1 GiB.

    python3 bench/convert/folder.py JOTUN FOLDER [LAYERS]      FOLDER: on the disk, with room for three times the weights, 12 GB

Each transfer begins without the input in the page cache (posix_fadvise) and ends with fsync. Of the copies before and after a
conversion the mean is taken. Bytes are random, so that a disk that compresses gains nothing."""
import json
import os
import random
import shutil
import struct
import sys
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


def copy_seconds(folder, target):
    """Reads the files of the folder and writes their bytes to one file, as cat does."""
    forget(folder)
    begin = time.monotonic()
    with open(target, "wb", buffering=0) as out:
        for path in files(folder):
            with open(path, "rb", buffering=0) as source:
                while block := source.read(BLOCK):
                    out.write(block)
        os.fsync(out.fileno())
    seconds = time.monotonic() - begin
    os.remove(target)
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


def measured(jotun, to, source, output, size):
    target = output + ".copy"
    before = copy_seconds(source, target)
    seconds, memory, cpu = convert(jotun, to, source, output)
    after = copy_seconds(source, target)
    plain = (before + after) / 2
    print(f"to {to:6s} {size / seconds / 1e6:7.0f} MB/s, {seconds:5.1f} s ({cpu:.1f} s of CPU); plain copies {before:.1f} and {after:.1f} s: "
          f"{plain / seconds:4.0%} of the disk; peak memory {memory / 2**20:.0f} MiB")
    return plain / seconds, memory


def main(jotun, folder, layers=20):
    first, ours, again = (os.path.join(folder, n) for n in ("theirs", "ours", "again"))
    for path in (first, ours, again):
        shutil.rmtree(path, ignore_errors=True)
    try:
        size = model_make(first, int(layers))
        print(f"{size // 2 / 1e9:.2f} billion parameters, {size / 2**30:.2f} GiB in bf16")
        results = [measured(jotun, "jotun", first, ours, size)]
        shutil.rmtree(first)
        results.append(measured(jotun, "hf", ours, again, size))
        shares, memory = zip(*results)
        print(f"least share of the disk {min(shares):.0%}, most memory {max(memory) / 2**20:.0f} MiB")
        return 0 if min(shares) >= 0.8 and max(memory) <= 2**30 else 1
    finally:
        for path in (first, ours, again):
            shutil.rmtree(path, ignore_errors=True)


sys.exit(main(*sys.argv[1:]))
