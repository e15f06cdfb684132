#!/usr/bin/env python3
"""Makes tests/golden/fairseq.json and tests/golden/data/fairseq_blocks.txt with fairseq's own code: what its preprocessing writes, how it cuts samples, which arguments its
commands have, what the tutorial's detokenizer and BPE encoder print.

    python3 tests/oracles/fairseq_goldens.py FAIRSEQ DATA

FAIRSEQ is a clone of facebookresearch/fairseq at 148327d8 (January 2021); DATA has wikitext-2/test.txt, gpt2/encoder.json and gpt2/vocab.bpe.

Wants torch, numpy, sacremoses and regex. fairseq is not installed: its modules are read one by one, without the packages around them."""
import ast
import base64
import hashlib
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import random
import re
import sys
import tempfile
import types

import numpy as np

SOURCE = sys.argv[1]
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "golden", "fairseq.json")
WORDS = ["the", "'s", "'ll", "'é", "'漢", "'", "''", '"', "``", "`", "„", "“", "”", "„“", "(", ")", "[", "$", "€", "¿", "¡", "%", ".", ",", "?!", ";", "\\", "@-@", "@,@",
         "@.@", "=", "–", "漢字", "カナ", "ㄱ", "&amp;", "&apos;", "&quot;", "&#91;", "&#93;", "&lt;", "&bar;", "&amp;lt;", "Jones", "cats", "a\tb", "x\u00a0y", "\x1c", "\u3000",
         "5", "&bra;", "&ket;", "ٱ", "'ٱ", "'Ω", "'𝐀", "‘", "$5", "C$", "\"'", "@"]


def package(name, folder):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [folder] if folder else []
    if "." in name:
        setattr(sys.modules[name.rsplit(".", 1)[0]], name.rsplit(".", 1)[1], module)
    return module


def fairseq_modules():
    for n, t in (("float", float), ("int", int)):
        if n not in np.__dict__:
            setattr(np, n, t)
    at = lambda *x: os.path.join(SOURCE, "fairseq", *x)
    package("fairseq", at())
    package("fairseq.dataclass", at("dataclass"))
    package("fairseq.data", at("data"))
    package("fairseq.utils", None)
    package("fairseq.data.data_utils", None)
    sys.modules["fairseq.data"].FairseqDataset = importlib.import_module("fairseq.data.fairseq_dataset").FairseqDataset
    return [importlib.import_module(x) for x in ("fairseq.data.dictionary", "fairseq.binarizer", "fairseq.tokenizer", "fairseq.data.indexed_dataset")]


def text(rng, lines, words):
    return "".join(rng.choice(["", " "]) + " ".join(rng.choice(words) for _ in range(rng.randint(0, 9))) + rng.choice(["\n", "\n", "\n", " \n", "\r\n", "\r"]) for _ in range(lines))


def read(path):
    return base64.b64encode(open(path, "rb").read()).decode()


def preprocessing(folder):
    dictionary, binarizer, tokenizer, indexed = fairseq_modules()
    rng, cases = random.Random(7), []
    train = text(rng, 60, ["a", "b", "c", "é", "漢", "<unk>", "</s>", "<pad>", "x\u00a0y", "\x1c", "\u3000", "B", "aa", "ab", "madeupword0001", "zz"]) + "no end"
    test = text(rng, 12, ["a", "b", "new", "<unk>", "é"])
    given = "a 5\nb 3 #fairseq:overwrite\n x y 2\n<unk> 1 #fairseq:overwrite\né 1\n"
    for options in ({}, {"thresholdsrc": 3}, {"nwordssrc": 9}, {"padding-factor": 1}, {"srcdict": given}):
        paths = {}
        for name, content in (("train", train), ("test", test), ("dict", given)):
            paths[name] = os.path.join(folder, name + ".txt")
            with open(paths[name], "w", encoding="utf-8", newline="") as out:
                out.write(content)
        if "srcdict" in options:
            d = dictionary.Dictionary.load(paths["dict"])
        else:
            d = dictionary.Dictionary()
            dictionary.Dictionary.add_file_to_dictionary(paths["train"], d, tokenizer.tokenize_line, 1)
            d.finalize(threshold=options.get("thresholdsrc", 0), nwords=options.get("nwordssrc", -1), padding_factor=options.get("padding-factor", 8))
        wanted, said = {}, []
        d.save(os.path.join(folder, "dict"))
        wanted["dict.txt"] = read(os.path.join(folder, "dict"))
        for name in ("train", "test"):
            at = os.path.join(folder, name)
            builder = indexed.make_builder(at + ".bin", impl="mmap", vocab_size=len(d))
            result = binarizer.Binarizer.binarize(paths[name], d, builder.add_item)
            builder.finalize(at + ".idx")
            wanted[name + ".bin"], wanted[name + ".idx"] = read(at + ".bin"), read(at + ".idx")
            said.append("{} sents, {} tokens, {:.3}% replaced by {}".format(result["nseq"], result["ntok"], 100 * result["nunk"] / result["ntok"], d.unk_word))
        cases.append({"options": options, "wanted": wanted, "said": said})
    return {"train": train, "test": test, "cases": cases}


def plain_python(source):
    """Cython without declarations, types, decorators and casts."""
    typed = r"(?:list|str|int|Py_ssize_t|DTYPE_t(?:\[[^]]*\])?|np\.ndarray\[[^]]*\])"
    lines = []
    for line in source.split("\n"):
        made = re.match(r"c?p?def " + typed + r" (\w+)\((.*)\):$", line)
        declared = re.match(r"(\s+)cdef " + typed + r" (\w+)( = .*)?$", line)
        if made:
            line = "def %s(%s):" % (made[1], ", ".join(re.sub(typed + " ", "", made[2]).split(", ")))
        elif declared:
            line = declared[1] + (declared[2] + declared[3] if declared[3] else "pass")
        if not line.startswith("@"):
            lines.append(re.sub(r"<\w+> ?", "", line))
    return "\n".join(lines)


def blocks():
    """TokenBlockDataset's cuts."""
    source = open(os.path.join(SOURCE, "fairseq", "data", "token_block_utils_fast.pyx"), encoding="utf-8").read()
    source = source[source.index("@cython"):source.index("cpdef np.ndarray[DTYPE_t, ndim=2] _get_block_to_dataset_index_fast")]
    names = {"np": np, "DTYPE": np.int64, "ceil": lambda x: int(math.ceil(x)), "chain": itertools.chain}
    exec(plain_python(source), names)
    rng, cases = random.Random(2), []
    for _ in range(12):
        sizes = [rng.choice((1, 1, 2, 3, 5, 9, 14)) for _ in range(rng.randint(2, 40))] + [3]
        size = rng.choice((4, 7, 10))
        cut = {m: names["_get_slice_indices_fast"](np.array(sizes), m, size, 1).tolist() for m in ("none", "complete", "complete_doc", "eos")}
        cases.append(f"block {size}\nsizes {' '.join(map(str, sizes))}\n" + "".join(f"{m} {' '.join(str(x) for row in rows for x in row)}\n" for m, rows in cut.items()))
    return "".join(cases)


def encoder_module():
    spec = importlib.util.spec_from_file_location("bpe", os.path.join(SOURCE, "fairseq", "data", "encoders", "gpt2_bpe_utils.py"))
    bpe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bpe)
    return bpe


def encoder(rng):
    """A small vocabulary in GPT-2's letters, and merges that a text suggests."""
    bpe = encoder_module()
    letters = list(bpe.bytes_to_unicode().values())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "a"), ("e", "r"), ("Ã", "©"), ("'", "s"), ("Ġ", "Ġ"), ("c", "at"), ("a", "t"), ("c", "at")][:10]
    merges = [("a", "t")] + [m for m in merges if m != ("a", "t")]
    tokens = {t: i for i, t in enumerate(letters + ["".join(m) for m in merges] + ["<|endoftext|>"])}
    return {"encoder.json": json.dumps(tokens), "vocab.bpe": "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)}, bpe


def encoding(folder):
    rng = random.Random(4)
    files, bpe = encoder(rng)
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(content)
    e = bpe.get_encoder(os.path.join(folder, "encoder.json"), os.path.join(folder, "vocab.bpe"))
    given = text(rng, 60, WORDS + ["the  cat", "<|endoftext|>", "é's", "there", "\u2028"])
    with open(os.path.join(folder, "text"), "w", encoding="utf-8", newline="") as out:
        out.write(given)
    lines = [line.strip() for line in open(os.path.join(folder, "text"), encoding="utf-8")]
    encoded = [" ".join(map(str, e.encode(line))) for line in lines]
    return {"files": files, "text": given, "all": "\n".join(encoded) + "\n", "filled": "".join(i + "\n" for i, line in zip(encoded, lines) if line)}


def line_maker(moses):
    """What the tutorial's detokenizer prints for a line."""
    source = ast.parse(open(os.path.join(SOURCE, "examples", "megatron_11b", "detok.py"), encoding="utf-8").read())
    call = next(n for n in ast.walk(source) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "print").args[0]
    return lambda line, made=eval("lambda detok, line: " + ast.unparse(call)): made(moses, line)


def detokenizing(folder):
    import sacremoses
    given = text(random.Random(11), 400, WORDS)
    with open(os.path.join(folder, "words"), "w", encoding="utf-8", newline="") as out:
        out.write(given)
    detok = line_maker(sacremoses.MosesDetokenizer())
    return {"text": given, "wanted": "".join(detok(line) + "\n" for line in open(os.path.join(folder, "words"), encoding="utf-8"))}


def wikitext(folder, data):
    """Hashes of what the tools make of all of WikiText-2's test text, with GPT-2's vocabulary."""
    import sacremoses
    dictionary, binarizer, tokenizer, indexed = fairseq_modules()
    at, detok = lambda x: os.path.join(folder, x), line_maker(sacremoses.MosesDetokenizer())
    with open(at("detok"), "w", encoding="utf-8", newline="") as out:
        out.writelines(detok(line) + "\n" for line in open(os.path.join(data, "wikitext-2", "test.txt"), encoding="utf-8"))
    e = encoder_module().get_encoder(*(os.path.join(data, "gpt2", x) for x in ("encoder.json", "vocab.bpe")))
    with open(at("bpe"), "w") as out:
        out.writelines(" ".join(map(str, e.encode(line.strip()))) + "\n" for line in open(at("detok"), encoding="utf-8") if line.strip())
    d = dictionary.Dictionary()
    dictionary.Dictionary.add_file_to_dictionary(at("bpe"), d, tokenizer.tokenize_line, 1)
    d.finalize(threshold=0, nwords=-1, padding_factor=8)
    d.save(at("dict.txt"))
    builder = indexed.make_builder(at("train.bin"), impl="mmap", vocab_size=len(d))
    binarizer.Binarizer.binarize(at("bpe"), d, builder.add_item)
    builder.finalize(at("train.idx"))
    return {x: hashlib.sha256(open(at(x), "rb").read()).hexdigest() for x in ("detok", "bpe", "dict.txt", "train.bin", "train.idx")}


def fields(path, *classes):
    """Arguments that fairseq makes of the fields of its configurations: whether each is a flag."""
    found = {}
    for node in ast.parse(open(os.path.join(SOURCE, path), encoding="utf-8").read()).body:
        if not isinstance(node, ast.ClassDef) or (classes and node.name not in classes):
            continue
        for f in node.body:
            if not isinstance(f, ast.AnnAssign) or "II(" in ast.unparse(f.value) and "dataset." not in ast.unparse(f.value):
                continue
            flag = ast.unparse(f.annotation) in ("bool", "Optional[bool]")
            names = [f.target.id.replace("_", "-")] + [a[2:] for a in re.findall(r"'argparse_alias': '(--[\w-]+)'", ast.unparse(f.value))]
            found.update({n: flag for n in names if n != "data"})
    return found


def arguments():
    common = "fairseq/dataclass/configs.py"
    shared = fields(common, "CommonConfig", "DistributedTrainingConfig", "DatasetConfig", "CheckpointConfig")
    shared.update(fields("fairseq/tasks/language_modeling.py", "LanguageModelingConfig"))
    shared.update({"task": False, "criterion": False, "optimizer": False, "lr-scheduler": False, "bpe": False, "scoring": False})
    train = dict(shared, arch=False, **fields(common, "OptimizationConfig"), **fields("fairseq/models/transformer_lm.py"))
    for path in ("adam.py", "sgd.py", *(f"lr_scheduler/{x}_schedule{y}.py" for x, y in (("inverse_square_root", ""), ("polynomial_decay", ""), ("fixed", ""))),
                 "lr_scheduler/cosine_lr_scheduler.py"):
        if "@dataclass" in open(os.path.join(SOURCE, "fairseq", "optim", path)).read():
            train.update(fields(os.path.join("fairseq", "optim", path)))
    train.update(fields("fairseq/criterions/cross_entropy.py"), momentum=False)
    evaluated = dict(shared, **fields(common, "CommonEvalConfig", "EvalLMConfig"))
    return {"fairseq-train": train, "fairseq-eval-lm": evaluated}


with tempfile.TemporaryDirectory() as work:
    made = {"fairseq": "148327d8", "versions": {p: importlib.metadata.version(p) for p in ("sacremoses", "regex", "numpy", "torch")},
            "preprocess": preprocessing(work), "bpe": encoding(work), "detok": detokenizing(work), "arguments": arguments(), "wikitext-2": wikitext(work, sys.argv[2])}
with open(os.path.join(os.path.dirname(GOLDEN), "data", "fairseq_blocks.txt"), "w") as out:
    out.write(blocks())
with open(GOLDEN, "w") as out:
    json.dump(made, out, indent=0, sort_keys=True, ensure_ascii=True)
print(os.path.getsize(GOLDEN), "bytes,", {k: len(v) for k, v in made["arguments"].items()}, "arguments,", hashlib.sha256(open(GOLDEN, "rb").read()).hexdigest()[:16])
