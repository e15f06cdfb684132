#!/usr/bin/env python3
"""Version 4 of transformers beside ours, which reads the keys of rotary embeddings by other names than version 5: a folder that jotun
wrote has there the logits that version 5 computed from the same weights (tests/golden/hf/models.json), and what version 4 saves is
imported as the same checkpoint. JOTUN_TRANSFORMERS4 is a folder with that version:
    pip install --target FOLDER --no-deps 'transformers<5' 'huggingface-hub<1' 'tokenizers<0.23'"""
import filecmp
import glob
import json
import os
import subprocess
import sys
import tempfile

FOLDER = os.environ.get("JOTUN_TRANSFORMERS4")
if not FOLDER:
    print("skipped: JOTUN_TRANSFORMERS4 names no folder with version 4 of transformers")
    sys.exit(77)
sys.path.insert(0, FOLDER)
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oracles"))
import hf_golden

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
print("transformers", transformers.__version__, "torch", torch.__version__)
transformers.logging.set_verbosity_error()
JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
FACTS = json.load(open(os.path.join(HERE, "..", "golden", "hf", "models.json")))
EAGER = ("gemma2",)                            # its other kernels of attention leave the soft-cap of scores out
APART = ("deepseek_v2_groups",)                # its DeepSeek-V2 leaves mscale_all_dim out of the scale of scores
failures, worst = [], 0


def jotun(*words):
    done = subprocess.run([JOTUN, *map(str, words)], capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")


def same(first, second):
    files = [os.path.basename(f) for f in glob.glob(first + "/step_00000000/*.safetensors")]
    return bool(files) and filecmp.cmpfiles(first + "/step_00000000", second + "/step_00000000", files, False)[0] == files


def compare(name, model, at):
    """The worst difference of the logits that models.json has."""
    hf_golden.write_folder(model, at("-kept"))
    jotun("convert", "--to", "jotun", "--input", at("-kept"), "--output", at("-ours"), "--tokenizer", "bytes")
    jotun("convert", "--to", "hf", "--input", at("-ours"), "--output", at("-written"))
    opened = transformers.AutoModelForCausalLM.from_pretrained(at("-written"), torch_dtype=torch.float32,
                                                               attn_implementation="eager" if name in EAGER else None).eval()
    logits = hf_golden.logits_of(opened, hf_golden.TEXT)[list(hf_golden.ROWS)][:, list(hf_golden.COLUMNS)].reshape(-1)
    off = (logits - torch.tensor(hf_golden.kept_logits(model))).abs().max().item()
    opened.save_pretrained(at("-saved"))
    jotun("convert", "--to", "jotun", "--input", at("-saved"), "--output", at("-back"), "--tokenizer", "bytes")
    if off >= 1e-5 and name not in APART:
        failures.append(f"{name}: the logits of version 4 differ by {off:g}")
    if not same(at("-ours"), at("-back")):
        failures.append(f"{name}: what version 4 saved is imported as another checkpoint")
    print(f"{name:18s} {off:.1e}{', not compared' if name in APART else ''}", flush=True)
    return 0 if name in APART else off


with tempfile.TemporaryDirectory() as work:
    for name in sys.argv[1:] or FACTS["models"]:
        worst = max(worst, compare(name, FACTS["models"][name], lambda leaf: os.path.join(work, name + leaf)))
print(f"logits of version {transformers.__version__} differ from those of version {FACTS['transformers']} by at most {worst:.1e}")
for line in failures:
    print("DIFFERS", line)
sys.exit(bool(failures))
