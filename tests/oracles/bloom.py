#!/usr/bin/python3
"""Makes tests/golden/parity/bloom.safetensors: a small BLOOM of Hugging Face transformers, trained by PyTorch's AdamW with two
learning rates, in float64.

    python3 tests/oracles/bloom.py tests/golden/parity           (transformers 5.23.0 made what is kept)
    python3 tests/oracles/bloom.py --check tests/golden/parity   (the file is what this version computes)

The model is theirs: linear biases of six heads, which is no power of 2, and a norm of the token embedding. Weights and tokens
come from the formulas of parity.py, whose schedule all weights have but the token embedding, which is the tied output layer too:
that has the peak and the end of --decoupled-lr and --decoupled-min-lr. Their GELU writes sqrt(2 / pi) with 8 digits; here it is PyTorch's.
"""
import math
import sys

import torch
import torch.nn.functional as F
import transformers
from transformers import BloomConfig, BloomForCausalLM
from transformers.models.bloom import modeling_bloom

import parity
from parity import BETAS, CLIP, DECAY, HIDDEN, LAYERS, STEPS, VOCABULARY

SINGLE = torch.float32
torch.float32 = torch.float64                            # of slopes and softmax, which they compute in it by name
HEADS, DECOUPLED_PEAK, DECOUPLED_LOW = 6, 3e-2, 5e-4
NORMS = {"embed.norm": "word_embeddings_layernorm", "final": "ln_f"}
LAYER = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm", "attention.out": "self_attention.dense", "mlp.up": "mlp.dense_h_to_4h",
         "mlp.down": "mlp.dense_4h_to_h"}


def views(model, of):
    """Our name -> a view of their parameter, or of its gradient. Of query_key_value a head has query, key and value below each other."""
    theirs = {n: of(p) for n, p in model.transformer.named_parameters()}
    out = {"embed.token.weight": theirs["word_embeddings.weight"]}
    names = {**NORMS, **{f"blocks.{i}.{ours}": f"h.{i}.{name}" for i in range(LAYERS) for ours, name in LAYER.items()}}
    for ours, name in names.items():
        norm = "norm" in ours or ours == "final"
        out[ours + (".gain" if norm else ".weight")] = theirs[name + ".weight"]
        out[ours + ".bias"] = theirs[name + ".bias"]
    for i in range(LAYERS):
        for kind in ("weight", "bias"):
            fused = theirs[f"h.{i}.self_attention.query_key_value.{kind}"]
            parts = fused.view(HEADS, 3, HIDDEN // HEADS, *fused.shape[1:])
            for n, which in enumerate(("query", "key", "value")):
                out[f"blocks.{i}.attention.{which}.{kind}"] = parts[:, n]
    return out


def model_of():
    config = BloomConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, n_layer=LAYERS, n_head=HEADS, hidden_dropout=0.0, attention_dropout=0.0,
                         layer_norm_epsilon=parity.EPSILON, attn_implementation="eager")
    model = BloomForCausalLM(config).double().eval()
    modeling_bloom.BloomGelu.forward = lambda self, x: F.gelu(x, approximate="tanh")
    with torch.no_grad():
        for name, x in views(model, lambda p: p.data).items():
            dims = (HIDDEN,) + tuple(x.shape[2:]) if "query" in name or "key" in name or "value" in name else tuple(x.shape)
            x.copy_(parity.weight(name, dims).detach().to(SINGLE).reshape(x.shape))
    return model


def loss_of(model, ids, targets):
    return F.cross_entropy(model(input_ids=ids).logits.reshape(-1, VOCABULARY), targets.reshape(-1))


def lr_at(done, peak, low):
    if done <= parity.WARMUP:
        return peak * done / parity.WARMUP
    return low + (peak - low) * 0.5 * (math.cos(math.pi * (done - parity.WARMUP) / (STEPS - parity.WARMUP)) + 1)


def train(model, ids, targets):
    word = model.transformer.word_embeddings.weight
    groups = [([word], DECAY, DECOUPLED_PEAK, DECOUPLED_LOW),
              ([p for p in model.parameters() if p.dim() == 2 and p is not word], DECAY, parity.PEAK, parity.LOW),
              ([p for p in model.parameters() if p.dim() == 1], 0.0, parity.PEAK, parity.LOW)]
    rule = torch.optim.AdamW([dict(params=p, weight_decay=decay) for p, decay, _, _ in groups], betas=BETAS, eps=parity.ADAM_EPSILON)
    losses, norms = [], []
    for step in range(STEPS):
        for group, (_, _, peak, low) in zip(rule.param_groups, groups):
            group["lr"] = lr_at(step, peak, low)
        rule.zero_grad()
        loss = loss_of(model, ids, targets)
        loss.backward()
        length = math.sqrt(sum(p.grad.pow(2).sum().item() for p in model.parameters()))
        for p in model.parameters():
            p.grad.mul_(min(1.0, CLIP / length))
        rule.step()
        losses.append(loss.item())
        norms.append(length)
    return losses, norms


def main(write, folder):
    ids, targets = parity.batch(dict(reset=False))[:2]
    model = model_of()
    loss = loss_of(model, ids, targets)
    loss.backward()
    out = {name: x.clone().contiguous() for name, x in views(model, lambda p: p.grad).items()}
    losses, norms = train(model, ids, targets)
    print(f"bloom, transformers {transformers.__version__}: loss {losses[0]:.6f} -> {losses[-1]:.6f}, norm {norms[0]:.3f} -> {norms[-1]:.3f}")
    assert all(x.dtype == torch.float64 for x in out.values()) and len(list(model.parameters())) == 5 + 12 * LAYERS
    write(f"{folder}/bloom.safetensors", dict(out, loss=loss.detach().reshape(1), losses=torch.tensor(losses), norms=torch.tensor(norms)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main(parity.compare if sys.argv[1] == "--check" else parity.save, sys.argv[-1])
