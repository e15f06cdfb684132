"""Checkpoints written by megatron-core (tests/oracles/megatron_checkpoints.py), in both formats and under several layouts: every element of every
tensor is the number that its place in the whole model gives it."""
import json
import os
import subprocess
import sys
import tarfile
import zlib

import run

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "convert", "megatron.tar.xz")
LAYERS, VOCABULARY, HIDDEN, EXPERTS = 4, 29, 8, 4
FORMATS = "torch", "torch_dist"


def layer_tensors(model):
    """Name in a layer: (name in torch_dist, shape)"""
    norms = ["weight"] + (["bias"] if model == "gpt" else [])
    qkv, up = (24, 16) if model == "gpt" else (16, 24)
    out = {}
    for n in norms:
        out["input_layernorm." + n] = ("self_attention.linear_qkv.layer_norm_" + n, (HIDDEN,))
        out["pre_mlp_layernorm." + n] = ("mlp.linear_fc1.layer_norm_" + n, (HIDDEN,))
    parts = {"self_attention.linear_qkv": (qkv, HIDDEN), "self_attention.linear_proj": (HIDDEN, HIDDEN)}
    if model != "moe":
        parts |= {"mlp.linear_fc1": (up, HIDDEN), "mlp.linear_fc2": (HIDDEN, 16 if model == "gpt" else 12)}
    for name, shape in parts.items():
        out[name + ".weight"] = (name + ".weight", shape)
        if model == "gpt":
            out[name + ".bias"] = (name + ".bias", shape[:1])
    if model == "llama":
        for n in "self_attention.q_layernorm.weight", "self_attention.k_layernorm.weight":
            out[n] = (n, (2,))
    if model == "moe":
        out["mlp.router.weight"] = ("mlp.router.weight", (EXPERTS, HIDDEN))
        out["mlp.experts.{}.linear_fc1.weight"] = ("mlp.experts.experts.linear_fc1.weight", (24, HIDDEN))
        out["mlp.experts.{}.linear_fc2.weight"] = ("mlp.experts.experts.linear_fc2.weight", (HIDDEN, 12))
    return out


def product(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def line(name, key, shape, part):
    """What the reader prints of a tensor that is number `part` of the whole tensor `key`."""
    first, base = part * product(shape), zlib.crc32(key.encode()) % 256
    numbers = " ".join("%.9g" % (base + (first + i) / 1024) for i in range(product(shape)))
    return f"{name} F32 {'x'.join(map(str, shape))}: {numbers}"


def expected(model):
    lines = [line("embedding.word_embeddings.weight", "embedding.word_embeddings.weight", (VOCABULARY, HIDDEN), 0)]
    if model == "gpt":
        lines += [line(n, n, (16, HIDDEN), 0) for n in ["embedding.position_embeddings.weight"]]
        lines += [line("decoder.final_layernorm.bias", "decoder.final_layernorm.bias", (HIDDEN,), 0)]
    else:
        lines += [line("output_layer.weight", "output_layer.weight", (VOCABULARY, HIDDEN), 0)]
    lines += [line("decoder.final_layernorm.weight", "decoder.final_layernorm.weight", (HIDDEN,), 0)]
    for name, (key, shape) in layer_tensors(model).items():
        for i in range(LAYERS * (EXPERTS if "{}" in name else 1)):
            layer, expert = (i // EXPERTS, i % EXPERTS) if "{}" in name else (i, 0)
            lines.append(line(f"decoder.layers.{layer}.{name.format(expert)}", "decoder.layers." + key, shape, i))
    return sorted(lines)


def dump(folder):
    done = subprocess.run([os.environ["DUMP"], "megatron", folder], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        sys.exit(f"{folder}: {done.stdout[:600]} {done.stderr[-2000:]}")
    if lines[-1] != "position 3 24 -1 ":
        sys.exit(f"{folder}: {lines[-1]}")
    return json.loads(lines[0]), sorted(lines[1:-1])


def options(model):
    moe = {"num-experts": 4, "moe-router-topk": 2, "moe-ffn-hidden-size": 12}
    llama = {"num-query-groups": 2, "normalization": "RMSNorm", "position-embedding-type": "rope", "rotary-base": 10000, "rotary-percent": 1.0, "swiglu": True, "disable-bias-linear": True,
             "untie-embeddings-and-output-weights": True, "ffn-hidden-size": 12}
    gpt = {"normalization": "LayerNorm", "position-embedding-type": "learned_absolute", "max-position-embeddings": 16, "ffn-hidden-size": 16}
    own = {"gpt": gpt, "llama": dict(llama, **{"qk-layernorm": True}), "moe": dict(llama, **moe)}[model]
    return dict(own, **{"num-layers": 4, "hidden-size": 8, "num-attention-heads": 4, "kv-channels": 2, "seq-length": 16, "norm-epsilon": 1e-5,
                        "vocab-size": VOCABULARY})


def main():
    count = 0
    with run.work_folder() as folder:
        with tarfile.open(GOLDEN) as tar:
            print(tar.extractfile("VERSIONS").read().decode().strip())
            tar.extractall(folder, filter="data")
        for name in sorted(n for n in os.listdir(folder) if "_tp" in n):
            model = name.split("_")[0]
            for kind in FORMATS:
                for inner in "", "iter_0000003":
                    said, lines = dump(os.path.join(folder, name, kind, inner))
                    if said != options(model):
                        sys.exit(f"{name}, {kind}: options\n{said}\ninstead of\n{options(model)}")
                    for got, wanted in zip(lines, expected(model)):
                        if got != wanted:
                            sys.exit(f"{name}, {kind}:\n{got[:400]}\ninstead of\n{wanted[:400]}")
                    if len(lines) != len(expected(model)):
                        sys.exit(f"{name}, {kind}: {len(lines)} tensors instead of {len(expected(model))}")
                count += 1
    print(f"{count} checkpoints of megatron-core are read: every element is in its place")
    return 0


if __name__ == "__main__":
    sys.exit(main())
