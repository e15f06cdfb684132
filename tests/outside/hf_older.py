#!/usr/bin/env python3
"""Version 4 of transformers beside ours, which reads the keys of rotary embeddings by other names than version 5: a folder that jotun
wrote has there the logits that version 5 computed from the same weights (tests/golden/hf/models.json), and what version 4 saves is
imported as the same checkpoint. JOTUN_TRANSFORMERS4 is a folder with that version:
    pip install --target FOLDER --no-deps 'transformers<5' 'huggingface-hub<1' 'tokenizers<0.23'"""
import filecmp
import glob
import json
import os
import sys

import comparison
from comparison import check, jotun

FOLDER = os.environ.get("JOTUN_TRANSFORMERS4")
if not FOLDER:
    comparison.skip("JOTUN_TRANSFORMERS4 names no folder with version 4 of transformers")
sys.path.insert(0, FOLDER)
torch, transformers = comparison.packages("torch", "transformers")
import hf_golden
FACTS = json.load(open(os.path.join(comparison.TESTS, "golden", "hf", "models.json")))
EAGER = ("gemma2",)                            # its other kernels of attention leave the soft-cap of scores out
APART = ("deepseek_v2_groups",)                # its DeepSeek-V2 leaves mscale_all_dim out of the scale of scores
worst = 0


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
    check(name, f"the logits of version 4 differ by {off:g}", off < 1e-5 or name in APART)
    check(name, "what version 4 saved is imported as another checkpoint", same(at("-ours"), at("-back")))
    print(f"{name:18s} {off:.1e}{', not compared' if name in APART else ''}", flush=True)
    return 0 if name in APART else off


with comparison.temporary() as work:
    for name in sys.argv[1:] or FACTS["models"]:
        worst = max(worst, compare(name, FACTS["models"][name], lambda leaf: os.path.join(work, name + leaf)))
print(f"logits of version {transformers.__version__} differ from those of version {FACTS['transformers']} by at most {worst:.1e}")
comparison.end()
