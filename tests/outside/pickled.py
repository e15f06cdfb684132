#!/usr/bin/env python3
"""Folders with pytorch_model.bin, written by PyTorch itself in its formats, are imported as the safetensors of the same model: to
the byte. PyTorch's CRC-32 sums are compared, and their absence is no damage."""
import filecmp
import glob
import json
import os
import sys

import comparison
from comparison import check

torch, transformers, safetensors = comparison.packages("torch", "transformers", "safetensors.torch")
import hf_golden
load_file = safetensors.load_file


def imported(source):
    done = comparison.run("convert", "--to", "jotun", "--input", source, "--output", source + "-ours", "--tokenizer", "bytes")
    return done.returncode, done.stderr


def step(checkpoint):
    with open(os.path.join(checkpoint, "latest")) as latest:
        return os.path.join(checkpoint, latest.read())


def same(name, folder, golden):
    code, error = imported(folder)
    files = sorted(os.path.basename(f) for f in glob.glob(step(golden + "-ours") + "/*.safetensors"))
    check(name, f"{folder} {error}", not code and files and
          filecmp.cmpfiles(step(golden + "-ours"), step(folder + "-ours"), files, False)[0] == files)


def compare(name, work):
    at = lambda leaf: os.path.join(work, name + leaf)
    model = hf_golden.make(name)
    model.save_pretrained(at("-safe"))
    imported(at("-safe"))
    weights = model.state_dict()                         # with its attribute _metadata, but experts of their own as in files
    weights.clear()
    weights.update(load_file(at("-safe/model.safetensors")))
    names = list(weights)
    variants = {"zip": dict(), "older": dict(_use_new_zipfile_serialization=False), "bare": dict(), "shards": dict()}
    for variant, how in variants.items():
        folder = at("-" + variant)
        os.mkdir(folder)
        model.config.save_pretrained(folder)
        torch.serialization.set_crc32_options(variant != "bare")
        parts = [names[::2], names[1::2]] if variant == "shards" else [names]
        where = {}
        for i, part in enumerate(parts):
            leaf = "pytorch_model.bin" if len(parts) == 1 else f"pytorch_model-{i + 1:05d}-of-{len(parts):05d}.bin"
            torch.save({k: weights[k] for k in part} if len(parts) > 1 else weights, os.path.join(folder, leaf), **how)
            where.update({k: leaf for k in part})
        if len(parts) > 1:
            with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as out:
                json.dump({"metadata": {}, "weight_map": where}, out)
        same(name, folder, at("-safe"))
    path = at("-zip/pytorch_model.bin")
    data = bytearray(open(path, "rb").read())
    data[data.index(weights[names[-1]].numpy().tobytes()[:16])] ^= 1
    open(path, "wb").write(data)
    os.rename(at("-zip-ours"), at("-zip-earlier"))
    code, error = imported(at("-zip"))
    check(name, f"a changed bit: {code} {error}", code == 1 and "is damaged" in error)
    print(f"{name:12s} {len(names)} tensors by torch.save: {', '.join(variants)}; a changed bit is refused")


with comparison.temporary() as folder:
    for model_name in sys.argv[1:] or hf_golden.models():
        compare(model_name, folder)
comparison.end()
