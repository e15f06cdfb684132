#!/usr/bin/env python3
"""Models of transformers beside ours: an imported model has transformers' losses and greedy text, an exported folder opens
with from_pretrained and its tokenizer, tensors are equal, and what is imported again is equal to the byte."""
import filecmp
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))
import hf_golden

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
print("transformers", transformers.__version__, "torch", torch.__version__)
JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
transformers.logging.set_verbosity_error()
PROMPT = "The quick"
failures = []


def jotun(*words):
    done = subprocess.run([JOTUN, *map(str, words)], capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def check(name, what, good):
    if not good:
        failures.append(f"{name}: {what}")


def evaluated(load, text, *more):
    return json.loads(jotun("eval", "perplexity", "--load", load, "--text", text, "--tokenizer", "bytes", *more))["loss"]


def greedy(model, ids, count):
    out = model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False, use_cache=False)
    return out[0].tolist()


def weights(folder):
    return {k: v for f in glob.glob(os.path.join(folder, "*.safetensors")) for k, v in load_file(f).items()}


def compare(name, work):
    at = lambda leaf: os.path.join(work, name + leaf)
    text = at(".txt")
    with open(text, "w") as out:
        out.write(hf_golden.TEXT)
    model = hf_golden.make(name)
    model.save_pretrained(at("-theirs"), max_shard_size="20KB")
    jotun("convert", "--to", "jotun", "--input", at("-theirs"), "--output", at("-ours"), "--tokenizer", "bytes")
    want = hf_golden.loss_of(model, hf_golden.TEXT)
    off = abs(evaluated(at("-ours"), text) - want)
    half = abs(evaluated(at("-ours"), text, "--bf16") - want)
    check(name, f"loss differs by {off:g}", off < 1e-5)
    check(name, f"loss in bf16 differs by {half:g}", half < 2e-2)
    jotun("convert", "--to", "hf", "--input", at("-ours"), "--output", at("-again"), "--max-shard-size", "2e-5")
    theirs, again = weights(at("-theirs")), weights(at("-again"))
    check(name, "other tensors are written", set(theirs) == set(again))
    check(name, "tensors differ", all(torch.equal(theirs[k], again[k]) for k in theirs))
    check(name, "one file is written", len(glob.glob(at("-again") + "/*.safetensors")) > 1)
    opened = transformers.AutoModelForCausalLM.from_pretrained(at("-again")).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(at("-again"))
    check(name, "the opened model has another loss", hf_golden.loss_of(opened, hf_golden.TEXT) == want)
    ids = tokenizer.encode(PROMPT)
    check(name, f"the tokenizer gives {ids}", ids == list(PROMPT.encode()))
    said = tokenizer.decode(greedy(opened, ids, 24), clean_up_tokenization_spaces=False)
    ours = jotun("generate", "--load", at("-ours"), "--prompt", PROMPT, "--max-new-tokens", 24, "--temperature", 0)
    check(name, f"greedy text {ours!r} is not {said!r}", ours.rstrip("\n") == said.rstrip("\n"))
    jotun("convert", "--to", "jotun", "--input", at("-again"), "--output", at("-back"))
    files = sorted(os.path.basename(f) for f in glob.glob(at("-ours") + "/*.safetensors"))
    check(name, "imported again it differs", files and filecmp.cmpfiles(at("-ours"), at("-back"), files, False)[0] == files)
    jotun("convert", "--to", "hf", "--output-dtype", "bf16", "--input", at("-ours"), "--output", at("-bf16"))
    short = weights(at("-bf16"))
    check(name, "bf16 differs", all(torch.equal(theirs[k].bfloat16(), short[k]) for k in theirs))
    print(f"{name:12s} loss {want:.6f}: {off:.1e} in fp32, {half:.1e} in bf16; {len(theirs)} tensors")


with tempfile.TemporaryDirectory() as work:
    for name in sys.argv[1:] or hf_golden.models():
        compare(name, work)
for line in failures:
    print("DIFFERS", line)
sys.exit(bool(failures))
