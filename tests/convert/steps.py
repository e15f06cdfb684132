"""100 AdamW steps in fp32 from models that transformers made (tests/golden/hf), on one rank and under a layout: each loss is that of
torch.optim.AdamW (tests/golden/steps.json)."""
import json
import os
import sys
import tempfile

from run import jotun, metrics

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "oracles"))
import steps_golden

GOLDEN = os.path.join(HERE, "..", "golden")
FACTS = json.load(open(os.path.join(GOLDEN, "steps.json")))
LAYOUTS = {"one rank": "", "tp2 pp2 ZeRO 1": "--ranks 8 --tp 2 --sp --pp 2 --zero-stage 1 --micro-batch-size 2"}
BOUND = 1e-5                                # torch's own steps differ by as much from one processor to another; measured: 7e-7


def steps(model, layout, words, work):
    out = os.path.join(work, f"{model}-{layout}".replace(" ", "-"))
    jotun("train", "--load", "hf:" + os.path.join(GOLDEN, "hf", model), "--tokenizer", "bytes", "--data-path", os.path.join(work, "text_text_document"),
          "--metrics", out, "--threads", 1, *steps_golden.WORDS.split(), *words.split())
    ours = metrics(out)
    off = max(abs(ours[step + 1] - loss) for step, loss in enumerate(FACTS["loss"][model]))
    assert len(ours) == len(FACTS["loss"][model]) == 100 and off < BOUND, f"{model}, {layout}: losses differ by {off}"
    print(f"{model}, {layout}: losses within {off:.1e} of torch {FACTS['torch']}")


with tempfile.TemporaryDirectory() as work_folder:
    with open(os.path.join(work_folder, "text.jsonl"), "w", encoding="utf-8") as text:
        text.write(json.dumps({"text": steps_golden.text()}))
    jotun("prepare", "--input", text.name, "--tokenizer", "bytes", "--output-prefix", os.path.join(work_folder, "text"))
    for name in FACTS["loss"]:
        for name_of_layout, options in LAYOUTS.items():
            steps(name, name_of_layout, options, work_folder)
