"""Checkpoints written by megatron-core (tests/oracles/megatron_checkpoints.py), in both formats and under several layouts: every element of every
tensor is the number that its place in the whole model gives it."""
import json
import os
import struct
import subprocess
import sys
import tarfile
import zlib

import run
import torch_write as tw

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "convert", "megatron.tar.xz")
LAYERS, VOCABULARY, HIDDEN, EXPERTS, UPDATES = 4, 29, 8, 4, 2
FORMATS = "torch", "torch_dist"
KINDS = {"": "", ".exp_avg": "optimizer.state.exp_avg.", ".exp_avg_sq": "optimizer.state.exp_avg_sq.", ".master weights": "optimizer.state.fp32_param."}


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


def rounded(value):
    """The nearest bfloat16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]


def line(name, key, shape, part, dtype="F32"):
    """What the reader prints of a tensor that is number `part` of the whole tensor `key`."""
    first, base = part * product(shape), zlib.crc32(key.encode()) % 256
    values = [base + (first + i) / 1024 for i in range(product(shape))]
    numbers = " ".join("%.9g" % (rounded(v) if dtype == "BF16" else v) for v in values)
    return f"{name} {dtype} {'x'.join(map(str, shape))}: {numbers}"


def deepseek_tensors():
    """Every layer has tensors of its own, because the first has no experts: (name, key, shape, part)"""
    latent = {"q_layernorm.weight": (6,), "kv_layernorm.weight": (4,), "linear_q_down_proj.weight": (6, HIDDEN), "linear_q_up_proj.weight": (24, 6),
              "linear_kv_down_proj.weight": (6, HIDDEN), "linear_kv_up_proj.weight": (24, 4), "linear_proj.weight": (HIDDEN, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"decoder.layers.{layer}."
        tensors = {"input_layernorm.weight": (HIDDEN,), "pre_mlp_layernorm.weight": (HIDDEN,)} | {"self_attention." + n: s for n, s in latent.items()}
        if layer == 0:
            tensors |= {"mlp.linear_fc1.weight": (24, HIDDEN), "mlp.linear_fc2.weight": (HIDDEN, 12)}
        else:
            tensors |= {"mlp.router.weight": (EXPERTS, HIDDEN), "mlp.router.expert_bias": (EXPERTS,), "mlp.shared_experts.linear_fc1.weight": (24, HIDDEN),
                        "mlp.shared_experts.linear_fc2.weight": (HIDDEN, 12)}
            for name, shape in ("linear_fc1.weight", (24, HIDDEN)), ("linear_fc2.weight", (HIDDEN, 12)):
                for expert in range(EXPERTS):
                    yield f"{prefix}mlp.experts.{expert}.{name}", f"{prefix}mlp.experts.experts.{name}", shape, expert
        for name, shape in tensors.items():
            yield prefix + name, prefix + name, shape, 0


def tensors_of(model):
    yield "embedding.word_embeddings.weight", "embedding.word_embeddings.weight", (VOCABULARY, HIDDEN), 0
    if model == "gpt":
        yield "embedding.position_embeddings.weight", "embedding.position_embeddings.weight", (16, HIDDEN), 0
        yield "decoder.final_layernorm.bias", "decoder.final_layernorm.bias", (HIDDEN,), 0
    else:
        yield "output_layer.weight", "output_layer.weight", (VOCABULARY, HIDDEN), 0
    yield "decoder.final_layernorm.weight", "decoder.final_layernorm.weight", (HIDDEN,), 0
    if model == "deepseek":
        yield from deepseek_tensors()
        return
    for name, (key, shape) in layer_tensors(model).items():
        for i in range(LAYERS * (EXPERTS if "{}" in name else 1)):
            layer, expert = (i // EXPERTS, i % EXPERTS) if "{}" in name else (i, 0)
            yield f"decoder.layers.{layer}.{name.format(expert)}", "decoder.layers." + key, shape, i


def parts_of(name):
    """Of "adam-llama-bf16_tp2...": whether it has states, the model, its type"""
    name = name.split("_")[0]
    return name.startswith("adam-"), name.removeprefix("adam-").removesuffix("-bf16"), "BF16" if name.endswith("-bf16") else "F32"


def expected(name):
    """Every tensor; of a run with an optimizer its states too, and of 16-bit weights the optimizer's copies."""
    states, model, dtype = parts_of(name)
    lines = []
    for kind, prefix in KINDS.items() if states else [("", "")]:
        if kind != ".master weights" or dtype == "BF16":
            lines += [line(tensor + kind, prefix + key, shape, part, "F32" if kind else dtype) for tensor, key, shape, part in tensors_of(model)]
    return sorted(lines)


def dump(folder, states=False):
    done = subprocess.run([os.environ["DUMP"], "megatron", folder], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        sys.exit(f"{folder}: {done.stdout[:600]} {done.stderr[-2000:]}")
    if lines[-1] != (f"position 3 24 {UPDATES} states" if states else "position 3 24 -1 "):
        sys.exit(f"{folder}: {lines[-1]}")
    return json.loads(lines[0]), sorted(lines[1:-1])


def options(model):
    moe = {"num-experts": 4, "moe-router-topk": 2, "moe-ffn-hidden-size": 12}
    llama = {"num-query-groups": 2, "normalization": "RMSNorm", "position-embedding-type": "rope", "rotary-base": 10000, "rotary-percent": 1.0, "swiglu": True, "disable-bias-linear": True,
             "untie-embeddings-and-output-weights": True, "ffn-hidden-size": 12}
    gpt = {"normalization": "LayerNorm", "position-embedding-type": "learned_absolute", "ffn-hidden-size": 16}
    latent = {"qk-layernorm": True, "multi-latent-attention": True, "q-lora-rank": 6, "kv-lora-rank": 4, "qk-head-dim": 4, "qk-pos-emb-head-dim": 2, "v-head-dim": 2,
              "position-embedding-type": "yarn", "rotary-interleaved": True, "rotary-base": 10000, "rotary-scaling-factor": 4.0, "mscale": 1.0,
              "mscale-all-dim": 0.5, "yarn-original-max-position-embeddings": 8}
    shared = {"moe-shared-expert-intermediate-size": 12, "moe-layer-freq": "[0,1,1,1]", "moe-router-score-function": "sigmoid", "moe-router-enable-expert-bias": True,
              "moe-router-topk-scaling-factor": 1.5}
    deepseek = {k: v for k, v in llama.items() if k not in ("num-query-groups", "rotary-percent")}
    own = {"gpt": gpt, "llama": dict(llama, **{"qk-layernorm": True}), "moe": dict(llama, **moe), "deepseek": dict(deepseek, **moe, **latent, **shared)}[model]
    if model != "deepseek":
        own["kv-channels"] = 2
    return dict(own, **{"num-layers": 4, "hidden-size": 8, "num-attention-heads": 4, "seq-length": 16, "max-position-embeddings": 16, "norm-epsilon": 1e-5, "vocab-size": VOCABULARY})


# ---- names of other versions, in files written here ----

ROWS = ("linear_qkv.weight", "linear_qkv.bias", "linear_q_up_proj.weight", "linear_kv_up_proj.weight", "word_embeddings.weight", "output_layer.weight")
COLUMNS = ("linear_proj.weight", "linear_fc2.weight")


def sharded(name, key, shape, part, rank, ranks, gated):
    """Rank's part of a tensor; the vocabulary has rows of padding."""
    columns = shape[1] if len(shape) > 1 else 1
    values = [zlib.crc32(key.encode()) % 256 + (part * product(shape) + i) / 1024 for i in range(product(shape))]
    rows = [values[i:i + columns] for i in range(0, len(values), columns)]
    if shape[0] == VOCABULARY:
        rows += [[0.0] * columns] * (32 - VOCABULARY)
    halves = 1 + (gated and "linear_fc1" in name)
    if name.endswith(ROWS) or "linear_fc1" in name:
        half = len(rows) // halves
        rows = [row for h in range(halves) for row in rows[h * half + rank * half // ranks:h * half + (rank + 1) * half // ranks]]
    if name.endswith(COLUMNS):
        rows = [row[rank * columns // ranks:(rank + 1) * columns // ranks] for row in rows]
    return tw.Tensor([v for row in rows for v in row], (len(rows), *([len(rows[0])] if len(shape) > 1 else [])))


def nested(names):
    """{"a.b.c": x} as {"a": {"b": {"c": x}}}, but for what follows "layers." and the norm behind layers, which stays one name."""
    out = {}
    for name, tensor in names.items():
        path, stack, rest = name.partition("layers.")
        inner, parts = out, path.split(".")[:-1] if stack or "final_" in path else name.split(".")[:-1]
        parts = [p for p in parts if not p.startswith("final_")]
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[name[len(".".join(parts)) + 1:]] = tensor
    return out


def older_name(name, version):
    """Of Megatron-LM before its core: "encoder" was "transformer" in the first version, and norms changed their names once."""
    stack, attention, before, after, last = version
    for new, old in (("decoder.layers", f"{stack}.layers"), ("decoder.final_layernorm", f"{stack}.{last}"), ("self_attention.linear_qkv", f"{attention}.query_key_value"),
                     ("self_attention.linear_proj", f"{attention}.dense"), ("input_layernorm", before), ("pre_mlp_layernorm", after), ("mlp.linear_fc1", "mlp.dense_h_to_4h"),
                     ("mlp.linear_fc2", "mlp.dense_4h_to_h")):
        name = name.replace(new, old)
    return "language_model." + name


VERSIONS = (("transformer", "attention", "input_layernorm", "post_attention_layernorm", "final_layernorm"),
            ("encoder", "self_attention", "input_layernorm", "post_attention_layernorm", "final_layernorm"),
            ("encoder", "self_attention", "input_norm", "post_attention_norm", "final_norm"))


def engine_name(name):
    """Of Transformer Engine with latent attention and grouped experts"""
    for new, old in (("self_attention.q_layernorm.weight", "self_attention.linear_q_up_proj.layer_norm_weight"), ("layers.0.pre_mlp_layernorm.", "layers.0.mlp.linear_fc1.layer_norm_"),
                     ("self_attention.kv_layernorm.weight", "self_attention.linear_kv_up_proj.layer_norm_weight")):
        name = name.replace(new, old)
    where, experts, rest = name.partition(".experts.")
    return f"{where}.experts.{rest.partition('.')[2]}{rest.partition('.')[0]}" if experts else name


def rank_files(folder, model, ranks, stages, args, rename, fold):
    """Two layers of four on each stage, or all on one; names have the layer's number within the stage."""
    for rank in range(ranks):
        for stage in range(stages):
            here, each = {}, LAYERS // stages
            for name, key, shape, part in tensors_of(model):
                layer = int(name.split(".")[2]) if ".layers." in name else 0 if name.startswith("embedding") else LAYERS - 1
                if layer // each == stage:
                    local = name.replace(f".layers.{layer}.", f".layers.{layer % each}.")
                    here[rename(local)] = sharded(name, key, shape, part, rank, ranks, model != "gpt")
            value = {"args": tw.Namespace(**args, tensor_model_parallel_size=ranks, pipeline_model_parallel_size=stages), "checkpoint_version": 3.0, "iteration": 3,
                     "model": fold(here)}
            if model == "gpt" and stage == stages - 1 and stages > 1:
                words = "embedding.word_embeddings.weight"
                value["model"]["word_embeddings_for_head"] = {"weight": sharded(words, words, (VOCABULARY, HIDDEN), 0, rank, ranks, False)}
            path = os.path.join(folder, "mp_rank_%02d" % rank + ("_%03d" % stage if stages > 1 else ""))
            os.makedirs(path)
            tw.save(os.path.join(path, "model_optim_rng.pt"), value)


def other_versions(folder):
    shape = dict(num_layers=4, hidden_size=8, num_attention_heads=4, kv_channels=2, seq_length=16, vocab_size=VOCABULARY, consumed_train_samples=24)
    older = dict(shape, ffn_hidden_size=16, max_position_embeddings=16, layernorm_epsilon=1e-5)
    latent = dict(shape, ffn_hidden_size=12, max_position_embeddings=64, normalization="RMSNorm", norm_epsilon=1e-5, swiglu=True, add_bias_linear=False, untie_embeddings_and_output_weights=True,
                  qk_layernorm=True, position_embedding_type="rope", rotary_base=10000, rotary_percent=1.0, num_experts=4, moe_router_topk=2, moe_ffn_hidden_size=12,
                  multi_latent_attention=True, q_lora_rank=6, kv_lora_rank=4, qk_head_dim=4, qk_pos_emb_head_dim=2, v_head_dim=2, rotary_scaling_factor=4.0, mscale=1.0,
                  mscale_all_dim=0.5, original_max_position_embeddings=8, moe_layer_freq=[0, 1, 1, 1], moe_shared_expert_intermediate_size=12,
                  moe_router_score_function="sigmoid", moe_router_enable_expert_bias=True, moe_router_topk_scaling_factor=1.5)
    gpt = {k: v for k, v in options("gpt").items() if k not in ("normalization", "position-embedding-type")}
    cases = [("gpt", older, gpt, lambda name, v=version: older_name(name, v), nested, stages) for version in VERSIONS for stages in (1, 2)]
    cases += [("deepseek", latent, dict(options("deepseek"), **{"max-position-embeddings": 64}), engine_name, dict, stages) for stages in (1, 2)]
    for i, (model, args, wanted, rename, fold, stages) in enumerate(cases):
        path = os.path.join(folder, "other-%d" % i)
        rank_files(path, model, 2, stages, args, rename, fold)
        said, lines = dump(path)
        if said != wanted or lines != expected(model):
            odd = next((pair for pair in zip(lines, expected(model)) if pair[0] != pair[1]), (said, wanted))
            sys.exit(f"case {i}, {model}: {str(odd[0])[:400]}\ninstead of\n{str(odd[1])[:400]}")
    return len(cases)


def main():
    count = 0
    with run.work_folder() as folder:
        with tarfile.open(GOLDEN) as tar:
            print(tar.extractfile("VERSIONS").read().decode().strip())
            tar.extractall(folder, filter="data")
        for name in sorted(n for n in os.listdir(folder) if "_tp" in n):
            states, model, _ = parts_of(name)
            all_of_it = expected(name)
            for kind in FORMATS:
                for inner in "", "iter_0000003":
                    said, lines = dump(os.path.join(folder, name, kind, inner), states)
                    if said != options(model):
                        sys.exit(f"{name}, {kind}: options\n{said}\ninstead of\n{options(model)}")
                    for got, wanted in zip(lines, all_of_it):
                        if got != wanted:
                            sys.exit(f"{name}, {kind}:\n{got[:400]}\ninstead of\n{wanted[:400]}")
                    if len(lines) != len(all_of_it):
                        sys.exit(f"{name}, {kind}: {len(lines)} tensors instead of {len(all_of_it)}")
                count += 1
        others = other_versions(folder)
    print(f"{count} checkpoints of megatron-core are read, and {others} with names of other versions: every element is in its place")
    return 0


if __name__ == "__main__":
    sys.exit(main())
