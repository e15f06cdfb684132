"""Models of llm.c and nanoGPT, written here by their layouts: every element is read from its place, and damage is refused."""
import json
import os
import struct
import subprocess
import sys

import run
import torch_write as tw

LAYERS, HEADS, WIDTH, POSITIONS, TOKENS, PADDED = 2, 2, 4, 6, 5, 8
LAYER = [("ln_1.weight", (WIDTH,)), ("ln_1.bias", (WIDTH,)), ("attn.c_attn.weight", (3 * WIDTH, WIDTH)), ("attn.c_attn.bias", (3 * WIDTH,)),
         ("attn.c_proj.weight", (WIDTH, WIDTH)), ("attn.c_proj.bias", (WIDTH,)), ("ln_2.weight", (WIDTH,)), ("ln_2.bias", (WIDTH,)),
         ("mlp.c_fc.weight", (4 * WIDTH, WIDTH)), ("mlp.c_fc.bias", (4 * WIDTH,)), ("mlp.c_proj.weight", (WIDTH, 4 * WIDTH)), ("mlp.c_proj.bias", (WIDTH,))]


def product(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def parameters():
    """llm.c's order: (name, shape, values); values are counted, small enough to be exact in bf16."""
    order = [("transformer.wte.weight", (PADDED, WIDTH)), ("transformer.wpe.weight", (POSITIONS, WIDTH))]
    order += [(f"transformer.h.{layer}.{name}", shape) for name, shape in LAYER for layer in range(LAYERS)]
    order += [("transformer.ln_f.weight", (WIDTH,)), ("transformer.ln_f.bias", (WIDTH,))]
    return [(name, shape, [float((i * 37 + k) % 251) for k in range(product(shape))]) for i, (name, shape) in enumerate(order)]


def lines(dtype, rows):
    out = []
    for name, shape, values in parameters():
        shape = (rows, WIDTH) if name == "transformer.wte.weight" else shape
        out.append(f"{name} {dtype} {'x'.join(map(str, shape))}: {' '.join('%.9g' % v for v in values[:product(shape)])}")
    return sorted(out)


def dump(kind, path):
    done = subprocess.run([os.environ["DUMP"], kind, path], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip(), done.stderr


def write(path, data):
    with open(path, "wb") as out:
        out.write(data)


def parameters_of_model():
    """nanoGPT's order: layer by layer."""
    all_ = {name: (name, shape, values) for name, shape, values in parameters()}
    order = ["transformer.wte.weight", "transformer.wpe.weight"] + [f"transformer.h.{i}.{name}" for i in range(LAYERS) for name, _ in LAYER]
    return [all_[name] for name in order + ["transformer.ln_f.weight", "transformer.ln_f.bias"]]


def expect(what, kind, path, options, wanted, left=None):
    """left: why there are no states."""
    code, said, error = dump(kind, path)
    if code:
        sys.exit(f"{what}: {said[-500:]} {error[-2000:]}")
    first, *rest = said.splitlines()
    if json.loads(first) != options:
        sys.exit(f"{what}: options {first} instead of {options}")
    if left:
        if not rest[-1].startswith("position 7 105 -1 ") or left not in rest[-1] or any("exp_avg" in line.split(" ")[0] for line in rest):
            sys.exit(f"{what}: {rest[-1][:300]}; expected states to be left out because of {left!r}")
        return
    for got, line in zip(sorted(rest), wanted):
        if got != line:
            sys.exit(f"{what}: {got[:300]}\ninstead of\n{line[:300]}")
    if len(rest) != len(wanted):
        sys.exit(f"{what}: {len(rest)} tensors instead of {len(wanted)}")


def refused(what, kind, path, data, why):
    write(path, data)
    code, said, error = dump(kind, path)
    if code != 1 or why not in said or "; " not in said or error:
        sys.exit(f"{what}: exit code {code}, {said[-500:]} {error[-1500:]}; expected to be refused with {why!r}, and what to do")


OPTIONS = {"num-layers": LAYERS, "hidden-size": WIDTH, "num-attention-heads": HEADS, "seq-length": POSITIONS, "max-position-embeddings": POSITIONS}


def state(ranks, rank, kinds, whole, step=9, **change):
    """A rank's moments, 1000 and 2000 more than weights, and copies of weights, 3000 more; under ZeRO 1 its part of each tensor."""
    header = {0: 20240527, 1: 1, 2: ranks, 3: rank, 4: int(kinds == 3), 10: step} | change.get("header", {})
    out = struct.pack("<256i", *(header.get(i, 0) for i in range(256)))
    for kind in range(1, kinds + 1):
        for _, _, values in parameters():
            size = len(values) // (1 if whole else ranks)
            first = 0 if whole else rank * size
            out += tw.encode([v + 1000 * kind for v in values[first:first + size]], "float32")
    return out


def llmc_states(folder, model, options):
    path = os.path.join(folder, "model_00000009.bin")
    write(path, model)
    wanted = []
    for line in lines("F32", TOKENS):
        head, numbers = line.split(": ")
        key, rest = head.split(" ", 1)
        for kind, name in enumerate(("", ".exp_avg", ".exp_avg_sq", ".master weights")):
            wanted.append((kind, f"{key}{name} {rest}: {' '.join('%.9g' % (float(n) + 1000 * kind) for n in numbers.split())}"))
    for kinds, ranks, whole in (2, 1, True), (3, 1, True), (3, 4, True), (2, 2, False), (3, 4, False):
        for rank in range(ranks):
            write(os.path.join(folder, "state_00000009_%05d.bin" % rank), state(ranks, rank, kinds, whole))
        expect(f"llm.c, states of {ranks} ranks", "llmc", path, options, sorted([w for k, w in wanted if k <= kinds] + ["position 9 -1 9 states"]))
    for what, data, why in (("a truncated state", state(4, 2, 3, False)[:-4], "which are not those of the states"), ("another step", state(4, 2, 3, False, 8), "not the state of rank 2"),
                            ("another rank's", state(4, 1, 3, False), "not the state of rank 2"), ("another magic number", state(4, 2, 3, False, header={0: 7}), "not a state of llm.c"),
                            ("a missing state", None, "state_00000009_00002.bin: is missing")):
        other = os.path.join(folder, "state_00000009_00002.bin")
        os.remove(other)
        if data:
            write(other, data)
        code, said, error = dump("llmc", path)
        if code or error or why not in said.splitlines()[-1] or "exp_avg" in said:
            sys.exit(f"{what}: {said[-300:]} {error[-1000:]}; expected {why!r}")
        write(other, state(4, 2, 3, False))


def llmc(path):
    def file(version, dtype, **change):
        header = dict({0: 20240326, 1: version, 2: POSITIONS, 3: TOKENS, 4: LAYERS, 5: HEADS, 6: WIDTH, 7: PADDED}, **{})
        header.update(change.get("header", {}))
        return struct.pack("<256i", *(header.get(i, 0) for i in range(256))) + b"".join(tw.encode(v, dtype) for _, _, v in parameters())

    options = dict(OPTIONS, **{"vocab-size": TOKENS, "ffn-hidden-size": 4 * WIDTH})
    for version, dtype, name in (3, "float32", "F32"), (5, "bfloat16", "BF16"):
        write(path, file(version, dtype))
        expect(f"llm.c, version {version}", "llmc", path, options, lines(name, TOKENS))
    honest = file(3, "float32")
    llmc_states(os.path.dirname(path), honest, options)
    refused("another magic number", "llmc", path, file(3, "float32", header={0: 1}), "does not begin with 20240326")
    refused("version 1", "llmc", path, file(1, "float32"), "version 1 of llm.c's models")
    refused("a truncated file", "llmc", path, honest[:-1], "it is truncated")
    refused("a longer file", "llmc", path, honest + b"abcd", "4 bytes after the last parameter")
    refused("a short header", "llmc", path, honest[:1000], "not a model of llm.c")
    refused("no layers", "llmc", path, file(3, "float32", header={4: 0}), "number 4 of its header is 0")
    refused("2^31 - 1 channels", "llmc", path, file(3, "float32", header={6: 2**31 - 1}), "which is no size")
    refused("large sizes", "llmc", path, file(3, "float32", header={6: 1 << 24, 7: 1 << 24}), "it is truncated")
    refused("heads that do not divide", "llmc", path, file(3, "float32", header={5: 3}), "3 heads for 4 channels")
    refused("fewer rows than tokens", "llmc", path, file(3, "float32", header={7: 4}), "5 tokens in 4 rows")


def nanogpt(path):
    args = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "block_size": POSITIONS, "bias": True, "vocab_size": PADDED, "dropout": 0.25}
    options = dict(OPTIONS, **{"vocab-size": PADDED, "attention-dropout": 0.25, "hidden-dropout": 0.25, "gelu-approximate": "none"})

    def optimizer(step=6.0, groups=(2, 1), **change):
        """torch's AdamW: matrices, then vectors, each in the order of the model; moments are 1000 and 2000 more than weights."""
        numbered = [p for dims in groups for p in parameters_of_model() if len(p[1]) == dims]
        state = {i: {"step": tw.Tensor([step], ()), "exp_avg": tw.Tensor([v + 1000 for v in values], shape),
                     "exp_avg_sq": tw.Tensor([v + 2000 for v in values], shape)} for i, (_, shape, values) in enumerate(numbered)}
        state.update(change.get("state", {}))
        first = sum(len(p[1]) == groups[0] for p in numbered)
        return {"state": state, "param_groups": [{"lr": 0.1, "params": list(range(first))}, {"lr": 0.1, "params": list(range(first, len(numbered)))}]}

    def with_states(rows, step):
        out = ["position 7 105 %d states" % step]
        for more, name in (0, ""), (1000, ".exp_avg"), (2000, ".exp_avg_sq"):
            for line in lines("F32", rows):
                head, numbers = line.split(": ")
                key, rest = head.split(" ", 1)
                out.append(f"{key}{name} {rest}: {' '.join('%.9g' % (float(n) + more) for n in numbers.split())}")
        return sorted(out)

    def checkpoint(prefix, args=args, **more):
        model = tw.OrderedDict((prefix + name, tw.Tensor(values, shape)) for name, shape, values in parameters_of_model())
        model[prefix + "lm_head.weight"] = model[prefix + "transformer.wte.weight"]
        model[prefix + "transformer.h.0.attn.bias"] = tw.Tensor([1.0], (1, 1, 1, 1))
        model.update(more)
        return {"model": model, "model_args": args, "iter_num": 7, "best_val_loss": 1.5,
                "optimizer": optimizer(), "config": {"batch_size": 3, "gradient_accumulation_steps": 5}}

    for prefix in "", "_orig_mod.":
        for how in tw.saved, tw.saved_legacy:
            write(path, how(checkpoint(prefix)))
            expect("nanoGPT", "nanogpt", path, options, with_states(PADDED, 6))
    for what, wrong, why in (("another order", optimizer(groups=(1, 2)), None), ("a step of its own", optimizer(state={3: dict(optimizer()["state"][3], step=5.0)}), "different"),
                             ("a state of SGD", optimizer(state={0: {"momentum_buffer": tw.Tensor([1.0], ())}}), "no exp_avg"),
                             ("a lost state", optimizer(state={0: dict(optimizer()["state"][0], exp_avg_sq=tw.Tensor([1.0], (1,)))}), "another shape")):
        write(path, tw.saved(dict(checkpoint(""), optimizer=wrong)))
        expect(what, "nanogpt", path, options, with_states(PADDED, 6) if why is None else None, why)
    without = [p for p in parameters_of_model() if not p[0].endswith(".bias")]
    plain = dict(options, **{"disable-bias-linear": True})

    def zeros(line):
        """Of LayerNorms biases are 0, as are their moments; linear layers have none."""
        key, rest = line.split(" ", 1)
        if ".bias" not in key:
            return line
        head, numbers = rest.split(": ")
        return f"{key} {head}:{' 0' * len(numbers.split())}" if ".ln_" in key else None

    for prefix in "", "_orig_mod.":
        numbered = [p for dims in (2, 1) for p in without if len(p[1]) == dims]
        state = {i: {"step": tw.Tensor([6.0], ()), "exp_avg": tw.Tensor([v + 1000 for v in values], shape), "exp_avg_sq": tw.Tensor([v + 2000 for v in values], shape)}
                 for i, (_, shape, values) in enumerate(numbered)}
        saved = checkpoint(prefix, dict(args, bias=False))
        saved["model"] = tw.OrderedDict((prefix + name, tw.Tensor(values, shape)) for name, shape, values in without)
        first = sum(len(p[1]) == 2 for p in numbered)
        saved["optimizer"] = {"state": state, "param_groups": [{"params": list(range(first))}, {"params": list(range(first, len(numbered)))}]}
        write(path, tw.saved(saved))
        expect("nanoGPT without biases", "nanogpt", path, plain, sorted(line for line in map(zeros, with_states(PADDED, 6)) if line))
        del saved["optimizer"]
        write(path, tw.saved(saved))
        expect("nanoGPT without biases and states", "nanogpt", path, plain,
               sorted([line for line in map(zeros, lines("F32", PADDED)) if line] + ["position 7 105 -1"]))
    refused("another argument", "nanogpt", path, tw.saved(checkpoint("", dict(args, n_expert=4))), "model_args has 'n_expert'")
    refused("no arguments", "nanogpt", path, tw.saved({"model": {}}), "no model_args")
    refused("no weights", "nanogpt", path, tw.saved({"model_args": args}), "no weights named 'model'")
    refused("a size that is none", "nanogpt", path, tw.saved(checkpoint("", dict(args, n_layer="2"))), "no number n_layer")
    refused("what is no tensor", "nanogpt", path, tw.saved(checkpoint("", x=1)), "'x' is no tensor")
    refused("a tensor twice", "nanogpt", path, tw.saved(checkpoint("", **{"_orig_mod.transformer.ln_f.bias": tw.Tensor([1.0], (1,))})),
            "transformer.ln_f.bias")
    refused("a tensor of integers", "nanogpt", path, tw.saved(checkpoint("", x=tw.Tensor([1], (1,), "int64"))), "is of type int64")


def main():
    with run.work_folder() as folder:
        path = os.path.join(folder, "model")
        llmc(path)
        nanogpt(path)
    print("models of llm.c and nanoGPT are read")
    return 0


if __name__ == "__main__":
    sys.exit(main())
