"""Checkpoints of megatron-core become checkpoints of jotun: the same bytes from both formats and every layout, every weight the number that its
place in Megatron-LM's layout of rows gives it. Models of llm.c and nanoGPT likewise."""
import glob
import itertools
import json
import os
import random as random_numbers
import struct
import sys
import tarfile
import zlib

import megatron
import run
import small_formats
import torch_write as tw

HIDDEN, HEADS, WIDTH, TOKENS = 8, 4, 2, megatron.VOCABULARY
PLAIN = "decoder.layers.self_attention.linear_qkv."


def tensors(folder):
    """Name -> (shape, bytes)"""
    out = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        data = open(path, "rb").read()
        at = 8 + struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:at]).items():
            if name != "__metadata__":
                first, last = t["data_offsets"]
                out[name] = (tuple(t["shape"]), data[at + first:at + last])
    return out


def rows(key, whole, part, rows, columns):
    """These rows of part number `part` of a tensor whose parts have `whole` rows."""
    base = zlib.crc32(key.encode()) % 256
    return tw.encode([base + ((part * whole + row) * columns + c) / 1024 for row in rows for c in range(columns)], "float32")


def deepseek(layer):
    """Some tensors of a layer of latent attention, with a shared expert in all but the first; each is a tensor of its own."""
    key = f"decoder.layers.{layer}."
    out = {f"attention.{name}.weight": rows(f"{key}self_attention.linear_{theirs}_proj.weight", count, 0, range(count), columns)
           for name, theirs, count, columns in (("query_down", "q_down", 6, 8), ("query_up", "q_up", 24, 6), ("kv_down", "kv_down", 6, 8), ("kv_up", "kv_up", 24, 4))}
    out["attention.kv_down_norm.gain"] = rows(key + "self_attention.kv_layernorm.weight", 4, 0, range(4), 1)
    mlp = key + ("mlp.shared_experts." if layer else "mlp.")
    out["mlp.gate.weight"] = rows(mlp + "linear_fc1.weight", 24, 0, range(12), HIDDEN)
    out["mlp.up.weight"] = rows(mlp + "linear_fc1.weight", 24, 0, range(12, 24), HIDDEN)
    out["mlp.down.weight"] = rows(mlp + "linear_fc2.weight", HIDDEN, 0, range(HIDDEN), 12)
    if layer:
        out["experts.up.weight"] = b"".join(rows(key + "mlp.experts.experts.linear_fc1.weight", 24, e, range(12, 24), HIDDEN) for e in range(4))
        out["router.expert_bias"] = rows(key + "mlp.router.expert_bias", 4, 0, range(4), 1)
    return out


def expected(model, layer, prefix=""):
    """Some tensors of a layer: those that are a part of one of Megatron-LM's, or turned about. prefix: of a state"""
    if model == "deepseek":
        return deepseek(layer)
    groups = HEADS if model == "gpt" else 2
    each = HEADS // groups * WIDTH                                   # rows of queries in a group
    group = each + 2 * WIDTH
    places = {"query": (0, each), "key": (each, WIDTH), "value": (each + WIDTH, WIDTH)}
    out = {}
    for name, (first, count) in places.items():
        which = [g * group + first + i for g in range(groups) for i in range(count)]
        out[f"attention.{name}.weight"] = rows(prefix + PLAIN + "weight", groups * group, layer, which, HIDDEN)
        if model == "gpt":
            out[f"attention.{name}.bias"] = rows(prefix + PLAIN + "bias", groups * group, layer, which, 1)
    mlp = prefix + "decoder.layers.mlp.linear_fc1.weight"
    if model == "gpt":
        out["mlp.up.weight"] = rows(mlp, 16, layer, range(16), HIDDEN)
    elif model == "llama":
        out["mlp.gate.weight"] = rows(mlp, 24, layer, range(12), HIDDEN)
        out["mlp.up.weight"] = rows(mlp, 24, layer, range(12, 24), HIDDEN)
    else:
        key = prefix + "decoder.layers.mlp.experts.experts.linear_fc1.weight"
        out["experts.gate.weight"] = b"".join(rows(key, 24, layer * 4 + e, range(12), HIDDEN) for e in range(4))
        out["experts.up.weight"] = b"".join(rows(key, 24, layer * 4 + e, range(12, 24), HIDDEN) for e in range(4))
        key = prefix + "decoder.layers.mlp.experts.experts.linear_fc2.weight"
        out["experts.down.weight"] = b"".join(rows(key, HIDDEN, layer * 4 + e, range(HIDDEN), 12) for e in range(4))
    return out


def convert(source, to, kind=None):
    run.jotun("convert", *(["--from", kind] if kind else []), "--to", "jotun", "--input", source, "--output", to)
    return tensors(*glob.glob(os.path.join(to, "step_*")))


def from_megatron(folder):
    first, count = {}, 0
    with tarfile.open(megatron.GOLDEN) as tar:
        tar.extractall(folder, filter="data")
    for name in sorted(n for n in os.listdir(folder) if "_tp" in n):
        run_of = name.split("_")[0]
        states, model, dtype = megatron.parts_of(name)
        for kind in megatron.FORMATS:
            found = convert(os.path.join(folder, name, kind), os.path.join(folder, "out-%d" % count), "megatron" if count % 2 else None)
            count += 1
            if run_of not in first:
                first[run_of] = found
                weights = megatron.KINDS[".master weights"] if dtype == "BF16" else ""
                kinds = {"": weights, ".exp_avg": megatron.KINDS[".exp_avg"], ".exp_avg_sq": megatron.KINDS[".exp_avg_sq"]} if states else {"": ""}
                for layer, (suffix, prefix) in itertools.product(range(megatron.LAYERS), kinds.items()):
                    for part, data in expected(model, layer, prefix).items():
                        if found[f"blocks.{layer}.{part}{suffix}"][1] != data:
                            sys.exit(f"{name}, {kind}: blocks.{layer}.{part}{suffix} has other rows")
                words = rows(weights + "embedding.word_embeddings.weight", TOKENS, 0, range(TOKENS), HIDDEN)
                if found["embed.token.weight"] != ((TOKENS, HIDDEN), words):
                    sys.exit(f"{name}, {kind}: the embedding is another one")
            if found != first[run_of]:
                sys.exit(f"{name}, {kind}: other bytes than from the first layout")
    return count


def from_small(folder):
    """Both programs' files of one model: equal tensors."""
    path, found = os.path.join(folder, "model.bin"), []
    header = {0: 20240326, 1: 3, 2: 6, 3: 8, 4: 2, 5: 2, 6: 4, 7: 8}
    small_formats.write(path, struct.pack("<256i", *(header.get(i, 0) for i in range(256)))
                        + b"".join(tw.encode(v, "float32") for _, _, v in small_formats.parameters()))
    found.append(convert(path, os.path.join(folder, "out-llmc")))
    path = os.path.join(folder, "ckpt.pt")
    args = {"n_layer": 2, "n_head": 2, "n_embd": 4, "block_size": 6, "bias": True, "vocab_size": 8, "dropout": 0.0}
    tw.save(path, {"model": {n: tw.Tensor(v, shape) for n, shape, v in small_formats.parameters()}, "model_args": args})
    found.append(convert(path, os.path.join(folder, "out-nanogpt")))
    values = {n: v for n, _, v in small_formats.parameters()}
    qkv = values["transformer.h.1.attn.c_attn.weight"]
    for i, part in enumerate(("query", "key", "value")):
        if found[0][f"blocks.1.attention.{part}.weight"][1] != tw.encode(qkv[16 * i:16 * (i + 1)], "float32"):
            sys.exit(f"llm.c: {part} has other rows")
    if found[0] != found[1]:
        sys.exit("models of llm.c and nanoGPT of equal numbers differ")


def continued(folder):
    """A run that starts from nanoGPT's file, and one from the checkpoint that it was converted to: the same losses. So has a model without biases, which
    has the first loss of the same model with biases of value 0."""
    path, random = os.path.join(folder, "bytes.pt"), random_numbers.Random(3)
    shapes = dict((n, s) for n, s, _ in small_formats.parameters())
    shapes["transformer.wte.weight"], shapes["transformer.wpe.weight"] = (257, 4), (16, 4)
    args = {"n_layer": 2, "n_head": 2, "n_embd": 4, "block_size": 16, "bias": True, "vocab_size": 257, "dropout": 0.0}
    model = {n: tw.Tensor([random.gauss(0, 0.1) for _ in range(small_formats.product(s))], s) for n, s in shapes.items()}
    zeros = {n: tw.Tensor([0.0] * small_formats.product(s), s) for n, s in shapes.items() if n.endswith(".bias")}
    kinds = [("biases", dict(model), True), ("zeros", dict(model, **zeros), True), ("none", {n: t for n, t in model.items() if n not in zeros}, False)]
    firsts, line = {}, "begin at 0: the outputs are the same, and a run that continues trains them"
    for kind, tensors_of_kind, biases in kinds:
        tw.save(path, {"model": tensors_of_kind, "model_args": dict(args, bias=biases)})
        ours, losses = os.path.join(folder, "out-bytes-" + kind), []
        convert(path, ours, "nanogpt")
        for i, load in enumerate(("nanogpt:" + path, ours)):
            out = os.path.join(folder, "run-%s-%d" % (kind, i))
            done = run.jotun("train", "--load", load, "--data-path", run.corpus(folder), "--tokenizer", "bytes", "--train-iters", 3, "--global-batch-size", 4, "--lr", 1e-3,
                             "--metrics", out + ".jsonl", "--ranks", 2, "--tensor-model-parallel-size", 1 + i, *(["--use-checkpoint-args"] if i else []))
            losses.append(run.metrics(out + ".jsonl"))
            if done.stderr.count(line) != (kind == "none" and i == 0):
                sys.exit(f"nanoGPT, {kind}: {done.stderr}")
        if len(losses[0]) != 3 or any(abs(float(losses[0][s]) - float(losses[1][s])) > 1e-5 for s in losses[0]):
            sys.exit(f"losses from nanoGPT's file {losses[0]}, from its conversion {losses[1]}")
        firsts[kind] = float(losses[0][min(losses[0])])
    if abs(firsts["none"] - firsts["zeros"]) > 1e-6 or abs(firsts["none"] - firsts["biases"]) < 1e-3:
        sys.exit(f"first losses of nanoGPT's models {firsts}")


def ids_alone(folder):
    """A model of 29 ids without a tokenizer becomes a folder without one, and is trained on ids."""
    source = next(os.path.join(folder, n, megatron.FORMATS[0]) for n in sorted(os.listdir(folder)) if n.startswith("llama_tp"))
    ours, theirs = os.path.join(folder, "ids"), os.path.join(folder, "ids-hf")
    convert(source, ours)
    run.jotun("convert", "--to", "hf", "--input", ours, "--output", theirs)
    config = json.load(open(os.path.join(theirs, "config.json")))
    if (config["vocab_size"], config["eos_token_id"]) != (TOKENS, None) or any("tokenizer" in name for name in os.listdir(theirs)):
        sys.exit(f"the folder of a model without a tokenizer: {config}, {os.listdir(theirs)}")
    for load in ours, "hf:" + theirs, "megatron:" + source:
        run.jotun("train", "--load", load, "--finetune", *(["--use-checkpoint-args"] if load == ours else []), "--mock-data", "--seq-length", 4,
                  "--train-iters", 1, "--micro-batch-size", 1, "--global-batch-size", 1, "--lr", 1e-3)


def main():
    with run.work_folder() as folder:
        count = from_megatron(folder)
        from_small(folder)
        continued(folder)
        ids_alone(folder)
        done = run.jotun("convert", "--to", "hf", "--input", os.path.join(folder, "ckpt.pt"), "--output", os.path.join(folder, "no"), check=False)
        if done.returncode == 0 or "--to jotun" not in done.stderr:
            sys.exit(f"--to hf of a checkpoint of nanoGPT: {done.stderr}")
    print(f"{count} checkpoints of megatron-core are the same six of jotun")
    return 0


if __name__ == "__main__":
    sys.exit(main())
