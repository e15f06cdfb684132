#!/usr/bin/python3
"""Makes tests/golden/parity/*.safetensors: loss and gradients of small models, and 20 steps of AdamW, by PyTorch in float64.

    /usr/bin/python3 tests/oracles/parity.py tests/golden/parity        (Debian's python3-torch 1.13 made what is kept)
    python3 tests/oracles/parity.py --check tests/golden/parity         (the files there are what this PyTorch computes)

Models are written here from their papers' formulas: weights and tokens come from closed formulas that tests/train/parity_test.c has
too. Each file: loss, gradient of the mean loss by tensor, losses and norms (of gradients, before clipping) of 20 steps; of multi-token
prediction the mean loss of each depth.
"""
import json
import math
import struct
import sys

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, FFN, HEADS, DIM, VOCABULARY, SEQUENCE, SAMPLES, EOD = 2, 12, 20, 4, 4, 23, 8, 4, 22
EPSILON, ROPE_BASE = 1e-5, 100.0
STEPS, PEAK, LOW, WARMUP, CLIP, DECAY, BETAS, ADAM_EPSILON = 20, 1e-2, 1e-3, 3, 1.0, 0.1, (0.9, 0.95), 1e-8

GPT = dict(norm="layer", position="learned", activation="gelu_tanh", groups=4, bias=True, tied=True, reset=False)
LLAMA = dict(norm="rms", position="rope", activation="swiglu", groups=2, bias=False, tied=False, reset=False)
# norm gains around 0, embeddings times a factor
GEMMA = dict(LLAMA, tied=True, activation="geglu_tanh", one_p=True, factor=2.5)
CASES = {
    "gpt": GPT,
    "gpt_reset": dict(GPT, reset=True),
    "gpt_untied_erf": dict(GPT, tied=False, activation="gelu_erf"),
    "llama": LLAMA,
    "llama_reset": dict(LLAMA, reset=True),
    "llama_tied_relu2": dict(LLAMA, tied=True, activation="relu2"),
    "llama_reset_window": dict(LLAMA, reset=True, left=2, skip=2),
    "olmo2": dict(LLAMA, placement="after"),
    "gemma": dict(GEMMA),
    "gemma2": dict(GEMMA, placement="both", softcap=1.5, z=0.02),
    "llama_mtp": dict(LLAMA, mtp=2, mtp_factor=0.25),
    "llama_mtp_reset": dict(LLAMA, reset=True, left=2, skip=2, mtp=1, mtp_factor=0.5),
    "gemma2_mtp": dict(GEMMA, placement="both", softcap=1.5, z=0.02, mtp=2, mtp_factor=0.5),
    "gpt_mtp": dict(GPT, position="none", tied=False, mtp=1, mtp_factor=0.5),
    "gpt_1p_after": dict(GPT, placement="after", activation="quick_geglu", one_p=True, factor=0.5, softcap=1.5),
}


# ---- what both sides make from formulas ----

def token(i):
    return EOD if i % 7 == 4 else (i * i * i // 5 + 7 * i) % 22


def weight(name, dims):
    """Rounded to float32, so that a computation in single precision starts from the same point."""
    phase = sum((i + 1) * ord(c) for i, c in enumerate(name)) % 1000 / 100.0
    size, middle = (0.2, 1.0) if name.endswith("gain") else (0.1, 0.0) if name.endswith("bias") else (0.4, 0.0)
    count = math.prod(dims)
    values = [middle + size * math.sin(0.9 * i * i + 2.3 * i + phase) for i in range(count)]
    return torch.tensor(values, dtype=torch.float32).double().reshape(dims).requires_grad_()


def weights(case):
    C, Q, P = HIDDEN, HEADS * DIM, case["groups"] * DIM
    names = {"embed.token.weight": (VOCABULARY, C)}
    if case["position"] == "learned":
        names["embed.position.weight"] = (SEQUENCE, C)
    layers = LAYERS + case.get("mtp", 0)
    for b in ("blocks.%d." % i for i in range(layers)):
        matrices = {"attention.query": (Q, C), "attention.key": (P, C), "attention.value": (P, C), "attention.out": (C, Q),
                    "mlp.up": (FFN, C), "mlp.down": (C, FFN)}
        if "glu" in case["activation"]:
            matrices["mlp.gate"] = (FFN, C)
        for name, dims in matrices.items():
            names[b + name + ".weight"] = dims
            if case["bias"]:
                names[b + name + ".bias"] = dims[:1]
    kinds = {"before": ["norm%d"], "after": ["norm%d_after"], "both": ["norm%d", "norm%d_after"]}[case.get("placement", "before")]
    ahead = ["blocks.%d.mtp." % i for i in range(LAYERS, layers)]
    for b in ahead:
        names[b + "projection.weight"] = (C, 2 * C)
    for norm in ["blocks.%d." % i + kind % n for i in range(layers) for n in (1, 2) for kind in kinds] + ["final"] + [
            b + n for b in ahead for n in ("embedding_norm", "hidden_norm", "final")]:
        names[norm + ".gain"] = (C,)
        if case["norm"] == "layer":
            names[norm + ".bias"] = (C,)
    if not case["tied"]:
        names["head.weight"] = (VOCABULARY, C)
    return {name: weight(name, dims) for name, dims in names.items()}


def batch(case):
    """ids, targets, weights of predictions, positions [B, S]; which keys a query sees [B, S, S]"""
    ids = torch.tensor([[token(b * SEQUENCE + s) for s in range(SEQUENCE)] for b in range(SAMPLES)])
    targets = torch.tensor([[token(b * SEQUENCE + s + 1) for s in range(SEQUENCE)] for b in range(SAMPLES)])
    counts = torch.ones(SAMPLES, SEQUENCE, dtype=torch.float64)
    positions = torch.arange(SEQUENCE).repeat(SAMPLES, 1)
    sees = torch.ones(SEQUENCE, SEQUENCE).tril().bool().repeat(SAMPLES, 1, 1)
    if case["reset"]:                                     # a document ends with, and holds, its end token
        counts[ids == EOD] = 0
        document = (ids == EOD).long().cumsum(1) - (ids == EOD).long()
        sees = sees & (document[:, :, None] == document[:, None, :])
        positions = sees.long().sum(2) - 1
    return ids, targets, counts, positions, sees


def within_window(case, sees, layer):
    """Megatron-LM's --window-size L,0: a query at i sees the keys i - L to i; --window-attn-skip-freq N: not in layers N, 2 N, ..."""
    if "left" not in case or (min(layer, LAYERS - 1) + 1) % case["skip"] == 0:
        return sees
    at = torch.arange(SEQUENCE)
    return sees & (at[:, None] - at[None, :] <= case["left"])


# ---- the model ----

def norm(case, w, name, x):
    """Where the model has it, else x"""
    if name + ".gain" not in w:
        return x
    gain = w[name + ".gain"] + (1 if "one_p" in case else 0)
    if case["norm"] == "layer":
        return F.layer_norm(x, (HIDDEN,), gain, w[name + ".bias"], EPSILON)
    return x / (x.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt() * gain


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def rotate(x, positions):
    """x [B, S, n, D]: the pair (i, i + D / 2) turns by position / base^(2 i / D), as one complex number"""
    half = x.shape[-1] // 2
    rate = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) * 2 / x.shape[-1])
    angle = positions[:, :, None, None] * rate
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


def attention(case, w, name, x, positions, sees):
    def heads(which):
        y = linear(w, name + "." + which, x)
        return y.reshape(SAMPLES, SEQUENCE, -1, DIM)
    q, k, v = heads("query"), heads("key"), heads("value")
    if case["position"] == "rope":
        q, k = rotate(q, positions), rotate(k, positions)
    k, v = (y.repeat_interleave(HEADS // case["groups"], dim=2) for y in (k, v))
    scores = torch.einsum("bshd,buhd->bhsu", q, k) / math.sqrt(DIM)
    scores = scores.masked_fill(~sees[:, None], -math.inf)
    out = torch.einsum("bhsu,buhd->bshd", scores.softmax(-1), v)
    return linear(w, name + ".out", out.reshape(SAMPLES, SEQUENCE, HEADS * DIM))


def mlp(case, w, name, x):
    up = linear(w, name + ".up", x)
    hidden = {"gelu_tanh": lambda: F.gelu(up, approximate="tanh"), "gelu_erf": lambda: F.gelu(up), "relu2": lambda: F.relu(up) ** 2,
              "swiglu": lambda: F.silu(linear(w, name + ".gate", x)) * up,
              "geglu_tanh": lambda: F.gelu(linear(w, name + ".gate", x), approximate="tanh") * up,
              "quick_geglu": lambda: (lambda gate: gate * torch.sigmoid(1.702 * gate) * up)(linear(w, name + ".gate", x))}[case["activation"]]()
    return linear(w, name + ".down", hidden)


def block(case, w, layer, x, positions, sees):
    b, seen = "blocks.%d." % layer, within_window(case, sees, layer)
    a = attention(case, w, b + "attention", norm(case, w, b + "norm1", x), positions, seen)
    x = x + norm(case, w, b + "norm1_after", a)
    return x + norm(case, w, b + "norm2_after", mlp(case, w, b + "mlp", norm(case, w, b + "norm2", x)))


def head_losses(case, w, x, targets, counts):
    """Sums over the tokens that count: with the z-loss of the logits, and without"""
    logits = x @ w["embed.token.weight" if case["tied"] else "head.weight"].T
    if "softcap" in case:
        logits = case["softcap"] * torch.tanh(logits / case["softcap"])
    logits = logits.reshape(-1, VOCABULARY)
    if callable(targets):
        targets = targets(logits)
    losses = F.cross_entropy(logits, targets.reshape(-1), reduction="none")
    with_z = losses + case.get("z", 0) * torch.logsumexp(logits, -1) ** 2
    return tuple((x * counts.reshape(-1)).sum() for x in (with_z, losses))


def left(x):
    """Shifted by one position, as Megatron-LM's roll_tensor"""
    return torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], 1)


def losses_of(case, w, draw=None):
    """What is minimised, with the z-loss of the logits and multi-token prediction; what is reported; the mean loss of each depth. draw: a function
    of the logits [B S, V] that gives the targets in place of the text's"""
    ids, targets, counts, positions, sees = batch(case)
    targets = draw or targets
    tokens, depths, N = counts.sum(), [], case.get("mtp", 0)
    x = w["embed.token.weight"][ids] * case.get("factor", 1)
    if case["position"] == "learned":
        x = x + w["embed.position.weight"][positions]
    for layer in range(LAYERS):
        x = block(case, w, layer, x, positions, sees)
    x = norm(case, w, "final", x)
    whole, loss = head_losses(case, w, x, targets, counts)
    for k in range(N):
        b = "blocks.%d.mtp." % (LAYERS + k)
        ids, targets, counts = left(ids), left(targets), left(counts)
        e = w["embed.token.weight"][ids] * case.get("factor", 1)
        both = torch.cat([norm(case, w, b + "embedding_norm", e), norm(case, w, b + "hidden_norm", x)], -1)
        x = norm(case, w, b + "final", block(case, w, LAYERS + k, both @ w[b + "projection.weight"].T, positions, sees))
        with_z, ahead = head_losses(case, w, x, targets, counts)
        whole = whole + case["mtp_factor"] / N * SEQUENCE / (SEQUENCE - k - 1) * with_z
        depths.append(ahead.item() / counts.sum().item())
    return whole / tokens, loss / tokens, depths


def loss_of(case, w, draw=None):
    return losses_of(case, w, draw)[0]


# ---- training ----

def lr_at(done):
    if done <= WARMUP:
        return PEAK * done / WARMUP
    return LOW + (PEAK - LOW) * 0.5 * (math.cos(math.pi * (done - WARMUP) / (STEPS - WARMUP)) + 1)


def train(case, w):
    matrices, others = ([x for x in w.values() if (x.dim() == 2) == wanted] for wanted in (True, False))
    rule = torch.optim.AdamW([dict(params=matrices, weight_decay=DECAY), dict(params=others, weight_decay=0.0)],
                             betas=BETAS, eps=ADAM_EPSILON)
    losses, norms = [], []
    for step in range(STEPS):
        for group in rule.param_groups:
            group["lr"] = lr_at(step)
        rule.zero_grad()
        whole, loss, _ = losses_of(case, w)
        whole.backward()
        length = math.sqrt(sum(x.grad.pow(2).sum().item() for x in w.values()))
        for x in w.values():
            x.grad.mul_(min(1.0, CLIP / length))
        rule.step()
        losses.append(loss.item())
        norms.append(length)
    return losses, norms


def save(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        values = x.reshape(-1).tolist()
        header[name] = dict(dtype="F64", shape=list(x.shape), data_offsets=[len(data), len(data) + 8 * len(values)])
        data += struct.pack("<%dd" % len(values), *values)
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(words)) + words + data)


def load(path):
    with open(path, "rb") as f:
        words, = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(words)), f.read()
    return {n: torch.tensor(struct.unpack("<%dd" % math.prod(t["shape"]), data[slice(*t["data_offsets"])]), dtype=torch.float64)
            for n, t in header.items() if n != "__metadata__"}


def compare(path, tensors):
    """The largest difference from the file, relative to the largest element of its tensor. The gradient of a key's bias is 0 but for roundings."""
    kept = load(path)
    if set(kept) != set(tensors):
        sys.exit(f"{path}: other tensors than computed: {sorted(set(kept) ^ set(tensors))}")
    apart = {n: ((kept[n] - x.reshape(-1)).abs().max() / max(1e-6, kept[n].abs().max())).item() for n, x in tensors.items()}
    worst = max(apart, key=apart.get)
    if not apart[worst] <= 1e-10:
        sys.exit(f"{path}: {worst} differs by {apart[worst]:.3g} of its largest element")
    print(f"{path}: as PyTorch {torch.__version__} computes it, to {apart[worst]:.1e}")


def main(write, folder):
    for name, case in CASES.items():
        w = weights(case)
        whole, loss, depths = losses_of(case, w)
        whole.backward()
        out = {n: x.grad.clone() for n, x in w.items()}
        if depths:
            out["mtp"] = torch.tensor(depths, dtype=torch.float64)
        losses, norms = train(case, w)
        print("%-18s loss %.6f -> %.6f, norm %.3f, clipped %d of %d" %
              (name, loss.item(), losses[-1], norms[0], sum(n > CLIP for n in norms), STEPS))
        write("%s/%s.safetensors" % (folder, name),
              dict(out, loss=loss.detach().reshape(1), losses=torch.tensor(losses, dtype=torch.float64), norms=torch.tensor(norms, dtype=torch.float64)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(compare if sys.argv[1] == "--check" else save, sys.argv[-1])
