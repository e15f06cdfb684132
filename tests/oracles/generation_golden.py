"""Texts that transformers generates with tiny models, greedily and with beams, for tests/generate/transformers_texts.py.
    python generation_golden.py tests/golden/generation.json   (needs torch and transformers)

The models are those of tests/golden/hf/models.json with louder weights, so that texts differ and some of them end. Beside each
greedy text stands the smallest margin between its best token and the next best: a program that computes in another order may
differ by rounding only, which is far less than the margins."""
import json
import os
import struct
import sys
import tempfile

import hf_golden

NEW, PROMPTS, BEAMS, PENALTY, END, LOUD = 24, 20, 4, 0.7, 256, 4.0
NAMES = ("gpt2", "llama", "mixtral", "qwen3_moe")


def prompts():
    """Of 1 to 40 bytes: NEW more are within the POSITIONS of the models"""
    bits = lambda x: (x ^ x >> 15) * 2246822519 >> 7
    return [[bits((40 * i + k + 1) * 2654435761) & 255 for k in range(1 + 7 * i % 40)] for i in range(PROMPTS)]


def without_end(ids):
    return ids[:ids.index(END)] if END in ids else ids


def texts_of(model, ids):
    import torch
    x = torch.tensor([ids])
    common = dict(attention_mask=torch.ones_like(x), max_new_tokens=NEW, do_sample=False, pad_token_id=END, eos_token_id=END,
                  return_dict_in_generate=True, output_scores=True)
    greedy = model.generate(x, **common)
    best = torch.stack([s[0] for s in greedy.scores]).topk(2).values
    beams = model.generate(x, num_beams=BEAMS, early_stopping=True, length_penalty=PENALTY, **common)
    return {"greedy": without_end(greedy.sequences[0, len(ids):].tolist()), "beams": without_end(beams.sequences[0, len(ids):].tolist()),
            "score": round(beams.sequences_scores[0].item(), 7), "margin": round((best[:, 0] - best[:, 1]).min().item(), 6)}


def main(path):
    import torch
    import transformers
    facts = json.load(open(os.path.join(os.path.dirname(path), "hf", "models.json")))["models"]
    rows = []
    for name in NAMES:
        with tempfile.TemporaryDirectory() as work:
            folder = os.path.join(work, name)
            hf_golden.write_folder(facts[name], folder, LOUD)
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        made = [texts_of(model, ids) for ids in prompts()]
        print(name, "margins from", min(t["margin"] for t in made), len({str(t["greedy"]) for t in made}), "texts,",
              sum(len(t[kind]) < NEW for t in made for kind in ("greedy", "beams")), "end")
        rows.append(f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(t, separators=(",", ":")) for t in made) + "]")
    with open(path, "w") as out:
        out.write('{"torch": %s, "transformers": %s, "models": {\n%s}}\n' %
                  (json.dumps(torch.__version__), json.dumps(transformers.__version__), ",\n".join(rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
