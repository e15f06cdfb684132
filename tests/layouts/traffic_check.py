"""What the ranks of drawn layouts sent in a step, as `layouts --traffic FILE` has written it, against the formulas of
tests/oracles/traffic.py: to the byte and to the call, on every axis and by every verb, in every layout. Returns the layouts that differ.

FILE has, of each layout, a line "layout N words of jotun train"; lines "rank comm verb calls bytes"; with experts lines
"rank load layer copies to expert 0, to expert 1 ..." and, in double, of the same model on one rank "one layer copies ...", on few ranks for each."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))
import traffic
import traffic_experts

BYTES_VOCABULARY = 257
# by type; gradients and what a softmax sums stay in fp32, but for gradients in messages between data-parallel ranks
FP32, HALF, HALF_SUMS = traffic.Width(4, 4, 4, 4, 4), traffic.Width(2, 2, 4, 4, 4), traffic.Width(2, 2, 4, 4, 2)


def width_of(o):
    if o["device"] == "ref":
        return traffic.DOUBLE
    return HALF_SUMS if "grad-reduce-in-bf16" in o else HALF if "bf16" in o or "fp16" in o else FP32


def options_of(words):
    """name -> value, True for a flag, the list of a name with several words"""
    options, name = {}, None
    for word in words:
        if word.startswith("--"):
            name, options[word[2:]] = word[2:], []
        else:
            options[name].append(word)
    return {name: True if not v else v[0] if len(v) == 1 else v for name, v in options.items()}


def number(options, name, otherwise):
    """Of several words the first"""
    value = options.get(name, otherwise)
    return int(value[0] if isinstance(value, list) else value)


def shape_of(o):
    hidden, heads = number(o, "hidden-size", 0), number(o, "num-attention-heads", 0)
    sequence = number(o, "seq-length", 0)
    latent = [number(o, name, 0) for name in ("q-lora-rank", "kv-lora-rank", "qk-pos-emb-head-dim", "qk-head-dim", "v-head-dim")]
    width = latent[2] + latent[3] if "multi-latent-attention" in o else number(o, "kv-channels", hidden // heads)
    return traffic.Shape(number(o, "num-layers", 0), hidden, number(o, "ffn-hidden-size", 4 * hidden), heads,
                         number(o, "num-query-groups", heads), width, BYTES_VOCABULARY, sequence, sequence,
                         bias="disable-bias-linear" not in o, tied="untie-embeddings-and-output-weights" not in o,
                         learned=o.get("position-embedding-type", "learned_absolute") == "learned_absolute", embedding_norm="embed-layernorm" in o, gated="swiglu" in o or "geglu" in o,
                         centred=o.get("normalization") != "RMSNorm", experts=number(o, "num-experts", 0),
                         expert_ffn=number(o, "moe-ffn-hidden-size", 0), topk=number(o, "moe-router-topk", 2), shared_ffn=number(o, "moe-shared-expert-intermediate-size", 0),
                         expert_every=number(o, "moe-layer-freq", 1), qkv_bias="add-qkv-bias" in o,
                         latent=latent if "multi-latent-attention" in o else None,
                         qk_norm=o.get("qk-layernorm-width", "head") if "qk-layernorm" in o and "multi-latent-attention" not in o else "", placement=o.get("norm-placement", "before"), mtp=number(o, "mtp-num-layers", 0))


def virtual_layers(o, pp, chunks):
    """Layers of each virtual stage as options say; "" where traffic.py divides them itself"""
    layers, stages = number(o, "num-layers", 0), pp * chunks
    if "decoder-first-pipeline-num-layers" in o:
        first = number(o, "decoder-first-pipeline-num-layers", 0)
        counts = [first // chunks if v % pp == 0 else (layers - first) // (stages - chunks) for v in range(stages)]
    elif "account-for-loss-in-pipeline-split" in o:
        counts = [(layers + 2) // stages - (v in (0, stages - 1)) for v in range(stages)]
    else:
        return ""
    assert sum(counts) == layers, (o, counts)
    return "|".join("t" * count for count in counts)


def ulysses_of(o):
    kind = o.get("cp-comm-type", "p2p")
    return number(o, "cp", 1) if kind == "a2a" else number(o, "hierarchical-context-parallel-sizes", 1) if kind == "a2a+p2p" else 1


def layout_of(o):
    tp, experts = number(o, "tp", 1), "num-experts" in o
    pp, v_shaped = number(o, "pp", 1), o.get("pipeline-schedule") == "zb-v"
    schedule, chunks = ("SCHEDULE_ZB_V", 2) if v_shaped else ("", number(o, "num-virtual-stages-per-pipeline-rank", 1))
    return traffic.Layout("", number(o, "ranks", 1), tp, number(o, "cp", 1), pp, chunks, number(o, "zero-stage", 0),
                          "sp" in o, schedule, number(o, "hybrid-shard-size", 0),
                          "MESH_TP_PP_DP" if "use-tp-pp-dp-mapping" in o else "MESH_TP_DP_PP", layers=virtual_layers(o, pp, chunks),
                          ulysses=ulysses_of(o), gather=int(o.get("cp-comm-type") == "allgather"),
                          ep=number(o, "ep", 1), etp=number(o, "etp", tp) if experts else 1)


def recompute_of(o):
    layers = number(o, "recompute-num-layers", 1)
    modules = o.get("recompute-modules", "core_attn")
    granularity = o.get("recompute-granularity")
    if granularity == "full":
        return traffic.Recompute(group=1, most=layers) if o.get("recompute-method") == "block" else traffic.Recompute(group=layers)
    if granularity == "selective":
        return traffic.Recompute(attention="core_attn" in modules, mlp="mlp" in modules, experts="moe" in modules)
    return traffic.Recompute()


def places_of(words):
    o = options_of(words)
    shape, layout = shape_of(o), layout_of(o)
    return [traffic.Place(shape, layout, rank, number(o, "global-batch-size", 0), number(o, "micro-batch-size", 1), width_of(o),
                          recompute_of(o), number(o, "sum-group-size", traffic.SUM_GROUP), o.get("optimizer", "adam"))
            for rank in range(layout.ranks)]


def loads_of_stage(places, stage, loads):
    """layer -> place in the stage -> copies to each expert; loads: (rank, layer) -> copies"""
    found = {}
    for at in places:
        for layer in [at.layer_of(unit) for unit in traffic_experts.layers_of(at)] if at.stage == stage else []:
            found.setdefault(layer, {})[at.at_in_stage] = loads.get((at.rank, layer), [0] * at.shape.experts)
    return found


def load_differences(at, loads, one):
    """Of this rank, and of its stage against one rank"""
    bad = ["layer %d of rank %d: %s copies, not %d for each of its tokens" % (layer, at.rank, loads[layer][at.at_in_stage], at.shape.topk)
           for layer in traffic_experts.wrong_loads(at, loads)]
    for layer in loads if one and at.at_in_stage == 0 else []:
        total = [sum(n) for n in zip(*loads[layer].values())]
        if total != one[layer]:
            bad.append("layer %d: experts have %s copies, on one rank %s" % (layer, total, one[layer]))
    return bad


def differences(words, sent, loads, one):
    """Lines that one of them has and the other has not"""
    places, want, bad = places_of(words), set(), []
    stages = {at.stage: loads_of_stage(places, at.stage, loads) for at in places}
    for at in places:
        bad += load_differences(at, stages[at.stage], one)
        want.update(traffic.lines_of_rank(at, stages[at.stage]))
    return bad + ["sent %s" % line for line in sorted(sent - want)] + ["not sent %s" % line for line in sorted(want - sent)]


def read(path):
    """By the layout's number its words; (rank, comm, verb) -> (calls, bytes); (rank, layer) -> copies; layer -> copies on one rank"""
    layouts = {}
    for line in open(path):
        words = line.split()
        if words[0] == "layout":
            _, sums, loads, one = layouts[int(words[1])] = (words[2:], {}, {}, {})
        elif words[0] == "one":
            had = one.get(int(words[1]), [0] * len(words[2:]))
            one[int(words[1])] = [x + int(n) for x, n in zip(had, words[2:])]
        elif words[1] == "load":
            loads[int(words[0]), int(words[2])] = [int(n) for n in words[3:]]
        else:                                                     # the channels of a pipeline are one axis
            key = (words[0], "pp" if words[1] == "pp" else " ".join(words[1:-3]), words[-3])
            had = sums.get(key, (0, 0))
            sums[key] = (had[0] + int(words[-2]), had[1] + int(words[-1]))
    return layouts


def check(path):
    """The numbers of the layouts that differ, which are printed"""
    layouts, bad = read(path), []
    for n, (words, sums, loads, one) in layouts.items():
        found = differences(words, {"%s %s %s %d %d" % (key + value) for key, value in sums.items()}, loads, one)
        if found:
            bad.append(n)
            print("layout %d (%s):\n    %s" % (n, " ".join(words), "\n    ".join(found[:12])))
    experts = sum(1 for row in layouts.values() if row[2])
    print("%d layouts, %d of them with experts: %d payloads of an axis and verb of a rank, calls and bytes, are as the formulas say, but for %d layouts"
          % (len(layouts), experts, sum(len(row[1]) for row in layouts.values()), len(bad)))
    return bad


if __name__ == "__main__":
    sys.exit(1 if check(sys.argv[1]) else 0)
