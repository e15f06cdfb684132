"""Writes checkpoints as fairseq does, of tensors of ours: a file, or the parts of model parallelism; arguments as a Namespace ("args") or in sections
("cfg": dictionaries, or omegaconf's objects, which name the one that holds them); Adam's states by parameter, or all in one vector as of
--fp16."""
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "convert"))
import torch_write

NAMES = {"norm1": "self_attn_layer_norm", "norm2": "final_layer_norm", "attention.query": "self_attn.q_proj", "attention.key": "self_attn.k_proj",
         "attention.value": "self_attn.v_proj", "attention.out": "self_attn.out_proj", "mlp.up": "fc1", "mlp.down": "fc2"}


def fairseq_name(name):
    """Ours as fairseq's."""
    whole = {"embed.token.weight": "decoder.embed_tokens.weight", "embed.position.weight": "decoder.embed_positions.weight", "final.gain": "decoder.layer_norm.weight",
             "final.bias": "decoder.layer_norm.bias", "head.weight": "decoder.output_projection.weight"}
    if name in whole:
        return whole[name]
    _, layer, rest = name.split(".", 2)
    inside, kind = rest.rsplit(".", 1)
    return f"decoder.layers.{layer}.{NAMES[inside]}.{'weight' if kind == 'gain' else kind}"


def part_of(name, rows, part, parts):
    """A tensor's part as model parallelism divides it: rows of the embeddings and of q, k, v and fc1, columns of out_proj and fc2."""
    matrix = isinstance(rows[0], (list, tuple))
    if re.search("(out_proj|fc2).weight", name):
        size = len(rows[0]) // parts
        return [row[part * size:(part + 1) * size] for row in rows]
    if re.search("embed_tokens|output_projection|[qkv]_proj|fc1", name) and not re.search("(out_proj|fc2).bias", name):
        size = len(rows) // parts
        return rows[part * size:(part + 1) * size]
    return rows if not matrix or "embed_positions" not in name else [(0.0,) * len(rows[0])] * 2 + list(rows)      # rows 0 and 1 are no token's


def tensor(name, rows, part, parts):
    rows = part_of(name, rows, part, parts)
    matrix = isinstance(rows[0], (list, tuple))
    return torch_write.Tensor([x for row in rows for x in row] if matrix else list(rows), (len(rows), len(rows[0])) if matrix else (len(rows),))


def holder(content, parent):
    """An object of omegaconf 2.0, and those that it holds, each of which names it."""
    is_dict = isinstance(content, dict)
    made = torch_write.named("omegaconf.dictconfig" if is_dict else "omegaconf.nodes", "DictConfig" if is_dict else "AnyNode")()
    value = {key: holder(inner, made) for key, inner in content.items()} if is_dict else content
    made.__dict__.update({"_metadata": torch_write.thing("omegaconf.base", "Metadata", optional=True), "_parent": parent, "_content" if is_dict else "_val": value})
    return made


def typed_config(sections):
    return holder(sections, None)


def optimizer_state(kind, tensors, names, part, parts):
    """FairseqAdam's state_dict(), after 4 updates; "flat": that of the FP16 optimizer."""
    moments = {m: [tensor(theirs, tensors[f"{ours}.{m}"], part, parts) for ours, theirs in names] for m in ("exp_avg", "exp_avg_sq")}
    group = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False}
    if kind == "flat":
        joined = {m: b"".join(t.storage.bytes for t in all_of) for m, all_of in moments.items()}
        flat = {}
        for m, data in joined.items():
            flat[m] = torch_write.Tensor([0.0], (len(data) // 4,))
            flat[m].storage.bytes, flat[m].storage.count = data, len(data) // 4
        return {"state": {0: {"step": 4, **flat}}, "param_groups": [{**group, "params": [0]}], "loss_scale": 128.0}
    state = {i: {"step": 4, **{m: moments[m][i] for m in moments}} for i in range(len(names))}
    return {"state": state, "param_groups": [{**group, "params": list(range(len(names)))}]}


def checkpoint(path, tensors, args, parts, legacy=False, states=None, cfg=None):
    """states: "each", "flat", a value to be written as it is, or None; cfg: what makes the sections, None for a Namespace."""
    names = [(name, fairseq_name(name)) for name in tensors if ".exp_avg" not in name]
    for part in range(parts):
        model = {"decoder.version": torch_write.Tensor([3.0], (1,))}
        for ours, theirs in names:
            model[theirs] = tensor(theirs, tensors[ours], part, parts)
        if "head.weight" not in tensors:
            model["decoder.output_projection.weight"] = model["decoder.embed_tokens.weight"]
        if "embed.position.weight" not in tensors:
            model["decoder.embed_positions._float_tensor"] = torch_write.Tensor([0.0], (1,))
        value = {"args": None if cfg else torch_write.Namespace(**args), "model": model, "optimizer_history": [{"num_updates": 4}]}
        if cfg:
            own = {**args, "tokens_per_sample": "${task.tokens_per_sample}", "max_target_positions": None}
            value["cfg"] = cfg({"common": {"seed": 1}, "model": own, "task": {"_name": "language_modeling", "tokens_per_sample": args["tokens_per_sample"]}})
        if states is not None:
            value["last_optimizer_state"] = optimizer_state(states, tensors, names, part, parts) if isinstance(states, str) else states
        file = path if parts == 1 else path.replace(".pt", f"-model_part-{part}.pt")
        with open(file, "wb") as out:
            out.write((torch_write.saved_legacy if legacy else torch_write.saved)(value))
