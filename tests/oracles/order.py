#!/usr/bin/python3
"""Makes tests/golden/data/order.txt: the samples of small data sets, by Megatron-core itself, and by its DeepSpeed forks' rules.

    /usr/bin/python3 tests/oracles/order.py DIR > tests/golden/data/order.txt

DIR is where the wheel of megatron-core was unpacked (0.16.1 for Python 3.11 made what is kept); Debian's python3-torch 1.13 and
python3-numpy do for it. Cases `core` are its BlendedMegatronDatasetBuilder, GPTDataset and BlendedDataset, C++ and all; only its
logging and its tokenizer are left out. Cases `forks` are written here from how the forks are described, in numpy, whose RandomState
is then the outside part; the same lines must agree with Megatron-core on every `core` case of one data set, or the script stops.

Of each case: what goes in; how many samples there are; a hash (FNV-1a, 64 bits) over all tokens of all samples; and the first token
of each of the first 40. Token i of part p is 10000 p + i, so a token says where it is from.
"""
import math
import os
import random
import struct
import sys
import tempfile
import types

import numpy

CORE, FORKS = "core", "forks"
SPLITS = ("train", "valid", "test")


def megatron(root):
    def module(name, path=None, **held):
        made = types.ModuleType(name)
        if path:
            made.__path__ = [os.path.join(root, path)]
        for key, value in held.items():
            setattr(made, key, value)
        sys.modules[name] = made

    module("megatron", "megatron")
    module("megatron.core", "megatron/core")
    module("megatron.core.datasets", "megatron/core/datasets")
    module("megatron.core.utils", log_single_rank=lambda *a, **k: None)
    module("megatron.core.tokenizers", MegatronTokenizerBase=object)
    from megatron.core.datasets import blended_megatron_dataset_builder as builder, gpt_dataset as gpt
    return gpt.GPTDataset, gpt.GPTDatasetConfig, builder.BlendedMegatronDatasetBuilder


class Tokenizer:
    vocab_size, pad, eos, eod = 100000, 99998, 99999, 99999
    unique_identifiers = {"class": "None"}


def pair_write(prefix, lengths, part):
    with open(prefix + ".bin", "wb") as out:
        out.write(numpy.arange(10000 * part, 10000 * part + sum(lengths), dtype="<i4").tobytes())
    pointers = numpy.cumsum([0] + lengths)[:-1] * 4
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1))
        out.write(numpy.array(lengths, "<i4").tobytes() + pointers.astype("<i8").tobytes())
        out.write(numpy.arange(len(lengths) + 1, dtype="<i8").tobytes())


def core_samples(api, case, folder):
    dataset_class, config_class, builder_class = api
    prefixes = [os.path.join(folder, "p%d" % i) for i in range(len(case["lengths"]))]
    for i, prefix in enumerate(prefixes):
        pair_write(prefix, case["lengths"][i], i)
    config = config_class(random_seed=case["seed"], sequence_length=case["sequence"], blend=(prefixes, case["weights"]),
                          split=case["split"], reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
                          tokenizer=Tokenizer(), mid_level_dataset_surplus=case["surplus"])
    wanted = [case["wanted"] if s == case["kind"] else (None if case["weights"] is None else 1) for s in range(3)]
    # the parts that are not looked at may be empty, which it does not bear
    config.split_matrix = [m if s == case["kind"] else None for s, m in enumerate(config.split_matrix)]
    built = builder_class(dataset_class, wanted, lambda: True, config).build()[case["kind"]]
    for k in range(len(built)):
        one, j = built, k
        if hasattr(built, "dataset_index"):
            one, j = built.datasets[built.dataset_index[k]], built.dataset_sample_index[k]
        yield one._query_document_sample_shuffle_indices(j)[0].tolist()


# ---- from the text, in numpy ----

def split_borders(split, count, kind_of_case):
    weights = [float(w) for w in split.split(",")]
    weights = [w / sum(weights) for w in weights + [0.0] * (3 - len(weights))]
    if kind_of_case == CORE:
        return [int(round(sum(weights[:i], 0.0) * count)) for i in range(4)]
    borders = [0]
    for w in weights:
        borders.append(borders[-1] + int(round(w * count)))
    return [0] + [b - (borders[3] - count) for b in borders[1:]]


def one_order(lengths, begin, end, wanted, S, seed, cut):
    """Samples of one data set as lists of (sequence, offset): the whole stream is laid out and cut, then shuffled."""
    state, tokens = numpy.random.RandomState(seed), sum(lengths[begin:end])
    epochs = 1 if wanted is None else max(1, -(-(wanted * S + 1) // tokens))
    before, per_epoch = ((epochs - 1) * tokens - 1) // S, (tokens - 1) // S
    apart = epochs > 1 and wanted - before < int(cut * per_epoch)
    head = numpy.tile(numpy.arange(begin, end, dtype=numpy.int32), epochs - apart)
    state.shuffle(head)
    tail = numpy.arange(begin, end, dtype=numpy.int32)[:(end - begin) if apart else 0]
    if apart:
        state.shuffle(tail)
    starts = numpy.cumsum([0] + lengths)
    stream = [int(starts[d]) + i for d in [*head, *tail] for i in range(lengths[d])]
    total = (epochs * tokens - 1) // S
    order = numpy.arange(total)
    first, last = (order[:before].copy(), order[before:].copy()) if apart else (order, order[:0])
    state.shuffle(first)
    if apart:
        state.shuffle(last)
    return [stream[k * S:k * S + S + 1] for k in [*first, *last]]


def greedy(weights, size):
    counts = [0] * len(weights)
    for s in range(size):
        behind = [w * max(float(s), 1.0) - c for w, c in zip(weights, counts)]
        i = behind.index(max(behind))
        yield i, counts[i]
        counts[i] += 1


def normal(weights):
    return (numpy.array(weights, dtype=numpy.float64) / numpy.sum(numpy.array(weights, dtype=numpy.float64))).tolist()


def fork_samples(case):
    S, seed, cut, wanted = case["sequence"], case["seed"], case["cut"], case["wanted"]
    borders = [split_borders(case["split"], len(x), case["rule"]) for x in case["lengths"]]
    at = [(b[case["kind"]], b[case["kind"] + 1]) for b in borders]

    def samples(i, count):
        return [[10000 * i + t for t in x] for x in one_order(case["lengths"][i], *at[i], count, S, seed, cut)]

    if case["weights"] is None:
        return samples(0, wanted)
    total = 0.0
    for w in case["weights"]:
        total += w
    weights = [w / total for w in case["weights"]]
    asked = [int(math.ceil(wanted * w * (1 + case["surplus"]))) for w in weights]
    made = [samples(i, n) for i, n in enumerate(asked)]
    if case["corpora"] is None:
        return [made[i][j] for i, j in greedy(normal(weights), sum(asked))]
    names, corpora = sorted(set(case["corpora"])), []
    for name in names:
        mine = [i for i, c in enumerate(case["corpora"]) if c == name]
        size = sum(asked[i] for i in mine)
        rows = [(i, j) for i in mine for j in range(asked[i])]
        if case["blended"]:
            rows = [(mine[i], j) for i, j in greedy([asked[i] / size for i in mine], size)]
        order = numpy.arange(size)
        if case["shuffled"]:
            numpy.random.RandomState(seed).shuffle(order)
        corpora.append([rows[k] for k in order])
    train = sum(int(math.ceil(case["train"] * w * (1 + case["surplus"]))) for w in weights)
    rows = [corpora[c][k] for c, k in greedy(normal([float(len(c)) / train for c in corpora]), wanted)]
    return [made[i][j] for i, j in rows]


# ---- cases ----

def lengths_drawn(draw, parts):
    count = draw.choice([1, 2, 7, 10, 33, 60] if parts == 1 else [12, 33, 60])
    return [draw.choice([0, 1, 3, draw.randint(1, 40), draw.randint(1, 40), draw.randint(1, 120)]) for _ in range(count)]


def case_drawn(draw, rule):
    parts = draw.choice([1, 1, 2, 3, 5, 9, 17]) if rule == CORE else draw.choice([1, 2, 4, 6, 9])
    case = dict(rule=rule, sequence=draw.choice([2, 3, 8, 16, 31]), seed=draw.choice([0, 1, 42, 1234, 4294967295, draw.getrandbits(32)]),
                split=draw.choice(["1", "969,30,1", "80,20", "0,1,0", "25,50,25", "1,1,1", "98.5,1.0,0.5"]), kind=draw.choice([0, 0, 1, 2]),
                wanted=draw.choice([1, 5, 20, 77, 300]), surplus=0.005, cut=0.80, lengths=[lengths_drawn(draw, parts) for _ in range(parts)],
                weights=None, corpora=None, shuffled=False, blended=False, train=draw.choice([33, 300]))
    if parts > 1 or draw.random() < 0.2:
        case["weights"] = [draw.choice([1.0, 0.5, 30.0, draw.uniform(0.01, 3)]) for _ in range(parts)]
    if rule == CORE and draw.random() < 0.3:
        case["surplus"] = draw.choice([0.05, 0.5])
    if rule == CORE and draw.random() < 0.3:
        case["weights"] = None
        case["wanted"] = draw.choice([None, 5]) if parts > 1 else draw.choice([None, 5, 100])
    if rule == FORKS:
        case["cut"] = draw.choice([0.80, 0.95, 0.95])
        if case["weights"] and draw.random() < 0.7:
            case["corpora"] = [draw.choice(["books", "arxiv", "wiki"]) for _ in range(parts)]
            case["shuffled"], case["blended"] = draw.random() < 0.6, draw.random() < 0.5
        case["train"] = case["wanted"] if case["kind"] == 0 else case["train"]
    return case


def fits(case):
    for lengths in case["lengths"]:
        begin, end = split_borders(case["split"], len(lengths), case["rule"])[case["kind"]:case["kind"] + 2]
        held = sum(lengths[begin:end])
        once = case["wanted"] is None or (case["weights"] is None and len(case["lengths"]) > 1)
        if begin < 0 or end <= begin or held < 2 or held > 5000 or (once and held < case["sequence"] + 1):
            return False
    return True


def tell(case, samples):
    digest = 0xcbf29ce484222325
    for sample in samples:
        for token in sample:
            digest = (digest ^ token) * 0x100000001b3 % 2 ** 64
    wanted = -1 if case["wanted"] is None else case["wanted"]
    print("case", case["rule"], case["sequence"], case["seed"], case["split"], case["kind"], wanted, repr(case["cut"]),
          repr(case["surplus"]), int(case["shuffled"]), int(case["blended"]), case["train"], len(case["lengths"]))
    for i, lengths in enumerate(case["lengths"]):
        print("part", repr(case["weights"][i]) if case["weights"] else "-", case["corpora"][i] if case["corpora"] else "-",
              len(lengths), *lengths)
    print("samples", len(samples), "%016x" % digest, min(40, len(samples)), *[s[0] for s in samples[:40]])


def main():
    api, draw = megatron(sys.argv[1]), random.Random(20)
    left = {CORE: 80, FORKS: 40}
    while any(left.values()):
        case = case_drawn(draw, CORE if left[CORE] else FORKS)
        if not fits(case):
            continue
        try:
            if case["rule"] == CORE:
                with tempfile.TemporaryDirectory() as folder:
                    samples = list(core_samples(api, case, folder))
                if len(case["lengths"]) == 1 and case["weights"] is None and samples != fork_samples(case):
                    sys.exit("Megatron-core and the lines here disagree: %r" % case)
            else:
                samples = fork_samples(case)
        except IndexError:
            continue                    # a pair is asked for more than it has: an error there and here
        if samples:
            left[case["rule"]] -= 1
            tell(case, samples)


main()
