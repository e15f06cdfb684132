"""Losses of 100 AdamW steps of transformers' models in fp32, for tests/convert/steps.py; tests/outside/steps.py takes the same steps
anew, and compares the weights as well.   python steps_golden.py tests/golden/steps.json   (needs torch, transformers and numpy)

The models are those of tests/golden/hf; samples come in Megatron-LM's order, which is numpy's shuffle."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hf_golden

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ("gpt2", "llama")
STEPS, SAMPLES, LENGTH, SEED = 100, 4, 64, 1234
WARMUP, FIRST_RATE, RATE, LAST_RATE = 10, 3e-4, 3e-3, 3e-4
DECAY, CLIP, BETAS = 0.1, 1.0, (0.9, 0.95)
WORDS = f"--train-iters {STEPS} --global-batch-size {SAMPLES} --data-order megatron --seed {SEED} --split 1,0,0 --lr {RATE} " \
        f"--min-lr {LAST_RATE} --lr-warmup-init {FIRST_RATE} --lr-warmup-iters {WARMUP} --lr-decay-style cosine --weight-decay {DECAY} " \
        f"--clip-grad {CLIP} --adam-beta1 {BETAS[0]} --adam-beta2 {BETAS[1]} --log-interval 1000"


def text():
    """One document, long enough for one epoch"""
    lines = [json.loads(line)["text"] for line in open(os.path.join(HERE, "..", "golden", "text", "train.jsonl"), encoding="utf-8")]
    return "\n".join(lines).encode()[:STEPS * SAMPLES * LENGTH + LENGTH].decode(errors="ignore")


def batches():
    import numpy
    import torch
    ids = list(text().encode())
    order = numpy.arange((len(ids) - 1) // LENGTH, dtype=numpy.uint32)
    numpy.random.RandomState(SEED).shuffle(order)
    for step in range(STEPS):
        samples = [ids[k * LENGTH:k * LENGTH + LENGTH + 1] for k in order[step * SAMPLES:(step + 1) * SAMPLES].tolist()]
        yield torch.tensor([s[:-1] for s in samples]), torch.tensor([s[1:] for s in samples])


def train(model):
    """The losses; the model is trained."""
    import torch
    matrices, vectors = [[p for p in model.parameters() if (p.dim() > 1) == matrix] for matrix in (True, False)]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}], lr=RATE, betas=BETAS)
    rates = torch.optim.lr_scheduler.SequentialLR(optimizer, [
        torch.optim.lr_scheduler.LinearLR(optimizer, FIRST_RATE / RATE, 1, WARMUP),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS - WARMUP, LAST_RATE)], [WARMUP])
    losses = []
    for x, y in batches():
        loss = torch.nn.functional.cross_entropy(model.train()(x).logits.reshape(-1, hf_golden.VOCABULARY), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        rates.step()
        losses.append(loss.item())
    return losses


def main(path):
    import torch
    import transformers
    facts = {"torch": torch.__version__, "transformers": transformers.__version__,
             "loss": {name: train(hf_golden.make(name)) for name in MODELS}}
    with open(path, "w") as out:
        json.dump(facts, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
