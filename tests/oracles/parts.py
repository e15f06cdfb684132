#!/usr/bin/python3
"""Makes tests/golden/data/parts.txt: the samples of --train-weighted-split-paths, by the code of BigScience's fork itself.

    parts.py CHECKOUT > tests/golden/data/parts.txt

CHECKOUT is one of bigscience-workshop/Megatron-DeepSpeed (revision 8387ae1 made what is kept). It needs numpy 1.23 and pybind11; torch and the
rest of the package are empty modules, and its C++ is compiled into a temporary folder. A case is: length of a sample, seed, samples wanted;
the group; the lengths of the documents of each data set; how many first tokens follow, and a hash (FNV-1a, 64 bits) over all tokens of the
samples wanted. Token i of data set p is 10000 p + i.
"""
import argparse
import ast
import glob
import os
import random
import struct
import subprocess
import sys
import sysconfig
import tempfile
import types

import numpy
import pybind11


class Anything:
    def __getattr__(self, name):
        return lambda *a, **k: 1

    def __getitem__(self, key):
        return Anything()


def fork(root, folder):
    source, = glob.glob(os.path.join(root, "megatron/data/*.cpp"))
    library = os.path.join(folder, os.path.basename(source)[:-4] + sysconfig.get_config_var("EXT_SUFFIX"))
    subprocess.run(["c++", "-O2", "-shared", "-fPIC", "-std=c++14", "-I" + pybind11.get_include(), "-I" + sysconfig.get_path("include"),
                    source, "-o", library], check=True)

    def module(name, path=None, **held):
        made = types.ModuleType(name)
        made.__path__ = path or []
        vars(made).update(held)
        sys.modules[name] = made

    nothing = Anything()
    data = types.SimpleNamespace(Dataset=object)
    module("torch", utils=types.SimpleNamespace(data=data), distributed=types.SimpleNamespace(
        get_rank=lambda: 0, all_reduce=lambda *a, **k: None, get_world_size=lambda *a, **k: 1, barrier=lambda: None),
        cuda=types.SimpleNamespace(LongTensor=lambda x: nothing))
    module("megatron", mpu=nothing, print_rank_0=lambda *a: None, get_args=nothing.get)
    module("megatron.data", [os.path.join(root, "megatron/data"), folder])
    from megatron.data import gpt_dataset
    return gpt_dataset


def parser(root):
    """The class of its arguments.py that reads the words."""
    with open(os.path.join(root, "megatron/arguments.py")) as file:
        tree = ast.parse(file.read())
    found = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "parse_data_paths")
    names = {"argparse": argparse}
    exec(compile(ast.Module([found], []), "arguments.py", "exec"), names)  # pylint: disable=exec-used
    made = argparse.ArgumentParser()
    made.add_argument("--train-weighted-split-paths", nargs="*", action=names["parse_data_paths"])
    return made


def pair_write(prefix, lengths, part):
    with open(prefix + ".bin", "wb") as out:
        out.write(numpy.arange(10000 * part, 10000 * part + sum(lengths), dtype="<i4").tobytes())
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1))
        out.write(numpy.array(lengths, "<i4").tobytes() + (numpy.cumsum([0] + lengths)[:-1] * 4).astype("<i8").tobytes())
        out.write(numpy.arange(len(lengths) + 1, dtype="<i8").tobytes())


def samples_of(gpt_dataset, made, group, folder, sequence, seed, wanted):
    args = made.parse_args(["--train-weighted-split-paths", group])
    args = {k[len("train_weighted_split_"):]: v[0] for k, v in vars(args).items()}
    paths = [os.path.join(folder, p) for p in args["paths"]]
    return gpt_dataset.build_dataset_group(args["names"], paths, args["weights"], args["splits"], "mmap", [wanted, 1, 1], sequence, seed, True, "train")


def main():
    draw = random.Random(20)
    with tempfile.TemporaryDirectory() as folder:
        stdout = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)                                                  # where the fork prints
        gpt_dataset, made = fork(sys.argv[1], folder), parser(sys.argv[1])
        cases = 0
        while cases < 20:
            parts = draw.choice([1, 1, 2, 3, 6])
            sequence, seed, wanted = draw.choice([2, 8, 31]), draw.choice([0, 1234, draw.getrandbits(32)]), draw.choice([5, 77, 200])
            lengths = [[draw.choice([1, 3, draw.randint(1, 40), draw.randint(1, 120)]) for _ in range(draw.choice([10, 15, 33]))] for _ in range(parts)]
            weights = [draw.choice(["1", "0.5", "30.", "%r" % draw.uniform(0.01, 3)]) for _ in range(parts)]
            ranges = [draw.choice(["0:0.950", "0.950:1.0", "0:0.5", "0.25:0.65", "0.3:1", "0:1", "0.1:0.15"]) for _ in range(parts)]
            group = "all of it: " + ", ".join("%s %s p%d" % (weights[p], ranges[p], p) for p in range(parts))
            with tempfile.TemporaryDirectory() as data:
                for p, of in enumerate(lengths):
                    pair_write(os.path.join(data, "p%d" % p), of, p)
                try:
                    built = samples_of(gpt_dataset, made, group, data, sequence, seed, wanted)
                    samples = [built[k]["text"].tolist() for k in range(wanted)]
                except (AssertionError, AttributeError, IndexError, TypeError):
                    continue                                   # a part without documents, or with too few tokens
            cases += 1
            digest = 0xcbf29ce484222325
            for token in (t for s in samples for t in s):
                digest = (digest ^ token) * 0x100000001b3 % 2 ** 64
            print("case", sequence, seed, wanted, parts, file=stdout)
            print(group, file=stdout)
            for of in lengths:
                print("part", len(of), *of, file=stdout)
            print("samples", "%016x" % digest, min(wanted, 20), *[s[0] for s in samples[:20]], file=stdout)


main()
