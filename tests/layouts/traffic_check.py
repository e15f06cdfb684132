"""What the ranks of drawn layouts sent in a step, as `layouts --traffic FILE` has written it, against the formulas of
tests/oracles/traffic.py: to the byte and to the call, on every axis and by every verb. Returns the layouts that differ.

FILE has, of each layout, a line "layout N words of jotun train", and then lines "rank comm verb calls bytes"."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))
import traffic

BYTES_VOCABULARY = 257
WIDTHS = {                                                # by type; gradients and what a softmax sums stay in fp32
    "double": traffic.DOUBLE,
    "fp32": traffic.Width(4, 4, 4, 4),
    "bf16": traffic.Width(2, 2, 4, 4),
}


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
    return traffic.Shape(number(o, "num-layers", 0), hidden, number(o, "ffn-hidden-size", 4 * hidden), heads,
                         number(o, "num-query-groups", heads), hidden // heads, BYTES_VOCABULARY, sequence, sequence,
                         bias="disable-bias-linear" not in o, tied="untie-embeddings-and-output-weights" not in o,
                         learned=o.get("position-embedding-type") != "rope", gated="swiglu" in o,
                         centred=o.get("normalization") != "RMSNorm")


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
    pp, v_shaped = number(o, "pp", 1), o.get("pipeline-schedule") == "zb-v"
    schedule, chunks = ("SCHEDULE_ZB_V", 2) if v_shaped else ("", number(o, "num-virtual-stages-per-pipeline-rank", 1))
    return traffic.Layout("", number(o, "ranks", 1), number(o, "tp", 1), number(o, "cp", 1), pp, chunks, number(o, "zero-stage", 0),
                          "sp" in o, schedule, number(o, "hybrid-shard-size", 0),
                          "MESH_TP_PP_DP" if "use-tp-pp-dp-mapping" in o else "MESH_TP_DP_PP", layers=virtual_layers(o, pp, chunks),
                          ulysses=ulysses_of(o), gather=int(o.get("cp-comm-type") == "allgather"))


def recompute_of(o):
    layers = number(o, "recompute-num-layers", 1)
    modules = o.get("recompute-modules", "core_attn")
    granularity = o.get("recompute-granularity")
    if granularity == "full":
        return traffic.Recompute(group=1, most=layers) if o.get("recompute-method") == "block" else traffic.Recompute(group=layers)
    if granularity == "selective":
        return traffic.Recompute(attention="core_attn" in modules, mlp="mlp" in modules)
    return traffic.Recompute()


def expected(words):
    o = options_of(words)
    kind = "double" if o["device"] == "ref" else "bf16" if "bf16" in o else "fp32"
    shape, layout = shape_of(o), layout_of(o)
    for rank in range(layout.ranks):
        yield from traffic.lines_of_rank(traffic.Place(shape, layout, rank, number(o, "global-batch-size", 0),
                                                       number(o, "micro-batch-size", 1), WIDTHS[kind], recompute_of(o),
                                                       number(o, "sum-group-size", traffic.SUM_GROUP)))


def has_formula(line, optimizer, zero):
    """LAMB's and Muon's sums over whole tensors and Muon's exchange of whole matrices are messages of their own; Muon's shards are whole tensors, of unequal sizes, and so
    is what a rank sends of gradients and weights: tests/oracles/traffic.py has no formulas of these yet."""
    rank, comm, verb = line.split()[:3]
    uneven = optimizer == "muon" and zero > 0
    shards = comm in ("dp+cp", "shard", "replica", "kv", "tied") or (comm == "tp" and verb == "all-reduce")
    states = optimizer != "adam" and (comm == "tp+dp+cp" or (comm == "tp" and verb == "all-to-all"))
    return not states and not (uneven and shards)


def differences(words, sent):
    """Lines that one of them has and the other has not"""
    o = options_of(words)
    optimizer, zero = o.get("optimizer", "adam"), number(o, "zero-stage", 0)
    want = {line for line in expected(words) if has_formula(line, optimizer, zero)}
    sent = {line for line in sent if has_formula(line, optimizer, zero)}
    return ["sent %s" % line for line in sorted(sent - want)] + ["not sent %s" % line for line in sorted(want - sent)]


def check(path):
    """The numbers of the layouts that differ, which are printed"""
    layouts, bad = {}, []
    for line in open(path):
        words = line.split()
        if words[0] == "layout":
            last = layouts[int(words[1])] = (words[2:], {})
        else:                                                     # the channels of a pipeline are one axis
            key = (words[0], "pp" if words[1] == "pp" else " ".join(words[1:-3]), words[-3])
            had = last[1].get(key, (0, 0))
            last[1][key] = (had[0] + int(words[-2]), had[1] + int(words[-1]))
    dense = {n: row for n, row in layouts.items() if "--num-experts" not in row[0]}      # what experts are sent depends on the data
    for n, (words, sums) in dense.items():
        sent = {"%s %s %s %d %d" % (key + value) for key, value in sums.items()}
        found = differences(words, sent)
        if found:
            bad.append(n)
            print("layout %d (%s):\n    %s" % (n, " ".join(words), "\n    ".join(found[:12])))
    lines = sum(len(sums) for _, sums in dense.values())
    print("%d dense layouts of %d: %d payloads of an axis and verb of a rank, calls and bytes, are as the formulas say, but for %d layouts"
          % (len(dense), len(layouts), lines, len(bad)))
    return bad


if __name__ == "__main__":
    sys.exit(1 if check(sys.argv[1]) else 0)
