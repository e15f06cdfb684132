#!/usr/bin/env python3
"""How far logits in bf16 are from those in fp32, and what of it another arithmetic could save: for each model of transformers the
largest logit, and the largest difference from transformers' logits in fp32 of
    weights       weights rounded to bf16, all else in fp32: what no arithmetic with such weights undoes
    products      weights and inputs of matrix products in bf16; residual stream and norms in fp32 (torch.autocast)
    transformers  its model in bf16
    jotun         --bf16
and, of the same rounded weights in fp32, of jotun from transformers: that is no rounding, and has to be small."""
import os
import sys

import comparison
import hf
from comparison import check, jotun
from hf import hf_golden, torch

MOST = 1e-5


def logits(model):
    return hf_golden.logits_of(model, hf_golden.TEXT).float()


def compare(name, work):
    at = lambda leaf: os.path.join(work, name + leaf)
    model = hf_golden.make(name)
    exact = logits(model)
    model.save_pretrained(at("-theirs"))
    jotun("convert", "--to", "jotun", "--input", at("-theirs"), "--output", at("-ours"), "--tokenizer", "bytes")
    jotun("convert", "--to", "hf", "--output-dtype", "bf16", "--input", at("-ours"), "--output", at("-half"))
    # not model.bfloat16(), which rounds frequencies of rotary embeddings as well
    half, rounded = (hf.transformers.AutoModelForCausalLM.from_pretrained(at("-half"), dtype=x).eval() for x in (torch.bfloat16, torch.float32))
    prompts = [hf_golden.TEXT[:n + 1] for n in range(len(hf_golden.TEXT))]
    ours = lambda load, leaf, *more: hf.written_logits(load, at(leaf), prompts, 1, *more)[0][:, 0]
    with torch.autocast("cpu", torch.bfloat16):
        products = logits(model)
    same = ours("hf:" + at("-half"), "-fp32", "--tokenizer", "bytes", "--bf16=false") - logits(rounded)
    found = {"weights": logits(rounded), "products": products, "transformers": logits(half), "jotun": ours(at("-ours"), "-bf16", "--bf16")}
    off = {key: (x - exact).abs().max().item() for key, x in found.items()}
    largest, same = exact.abs().max().item(), same.abs().max().item()
    check(name, f"fp32 of bf16 weights differs by {same:g}", same < MOST)
    print(f"{name:18s} {largest:6.2f}   " + "  ".join(f"{x:.1e} ({x / largest:.1e})" for x in off.values()) + f"   {same:.1e}", flush=True)
    return dict(off, same=same)


with comparison.temporary() as folder:
    print(f"{'':18s} logits   " + "  ".join(f"{key:17s}" for key in ("weights", "products", "transformers", "jotun")) + "   same weights in fp32")
    worst = {name: compare(name, folder) for name in sys.argv[1:] or hf_golden.models()}
    nearer = [name for name, off in worst.items() if off["jotun"] <= off["transformers"]]
    print(f"the same bf16 weights in fp32: at most {max(off['same'] for off in worst.values()):.1e}; jotun is nearer to fp32 than "
          f"transformers in {len(nearer)} of {len(worst)} models")
comparison.end()
