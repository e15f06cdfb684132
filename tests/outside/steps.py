#!/usr/bin/env python3
"""100 steps of torch.optim.AdamW in fp32 of transformers' GPT-2 and Llama, beside `jotun train --load hf:FOLDER` on the same batches,
on one rank and under tensor and pipeline parallelism with ZeRO 1: each loss and the final weights are within 1e-4."""
import json
import os
import sys

import comparison
from comparison import jotun

torch, transformers, safetensors = comparison.packages("torch", "transformers", "safetensors.torch")
import hf_golden
import steps_golden
load_file = safetensors.load_file
LAYOUTS = {"one rank": "", "tp2 pp2 ZeRO 1": "--ranks 8 --tp 2 --sp --pp 2 --zero-stage 1 --micro-batch-size 2"}
BOUND = 1e-4


def determined(name, x):
    """Without the bias of keys: it adds the same number to all scores of a query, so that its gradient is rounding noise, which Adam makes steps of."""
    if not name.endswith("c_attn.bias"):
        return x
    width = x.numel() // 3
    return torch.cat([x[:width], x[2 * width:]])


def worst(theirs, ours):
    """The largest difference of a tensor, relative to its norm, and the tensor's name"""
    assert set(theirs) == set(ours), set(theirs) ^ set(ours)
    return max(((determined(k, ours[k]) - determined(k, theirs[k])).norm().item() / determined(k, theirs[k]).norm().item(), k) for k in theirs)


def compare(name, wide, work):
    at = lambda leaf: os.path.join(work, f"{name}{wide}{leaf}")
    model = hf_golden.make(name, wide)
    model.save_pretrained(at("-start"))
    want = steps_golden.train(model)
    model.save_pretrained(at("-end"))
    bad = False
    for i, (layout, words) in enumerate(LAYOUTS.items()):
        out = at(f"-{i}")
        jotun("train", "--load", "hf:" + at("-start"), "--tokenizer", "bytes", "--data-path", os.path.join(work, "text_text_document"), "--metrics",
              out + ".jsonl", "--save", out, *steps_golden.WORDS.split(), *words.split())
        losses = [row["loss"] for row in map(json.loads, open(out + ".jsonl")) if "split" not in row]
        jotun("convert", "--to", "hf", "--input", out, "--output", out + "-hf")
        off = max(abs(a - b) for a, b in zip(losses, want))
        weight, tensor = worst(load_file(at("-end/model.safetensors")), load_file(out + "-hf/model.safetensors"))
        good = len(losses) == steps_golden.STEPS and off < BOUND and weight < BOUND
        print(f"{name:6s} hidden {64 if wide else 16}, {layout:15s} losses {want[0]:.4f} to {want[-1]:.4f} within {off:.1e}, weights within {weight:.1e} ({tensor})"
              f"{'' if good else '  DIFFERS'}")
        bad = bad or not good
    return bad


with comparison.temporary() as work:
    with open(os.path.join(work, "text.jsonl"), "w", encoding="utf-8") as out:
        out.write(json.dumps({"text": steps_golden.text()}))
    jotun("prepare", "--input", out.name, "--tokenizer", "bytes", "--output-prefix", os.path.join(work, "text"))
    sys.exit(any([compare(name, wide, work) for name in steps_golden.MODELS for wide in (False, True)]))
