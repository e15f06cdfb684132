#!/usr/bin/python3
"""Makes tests/golden/moe/*.safetensors: small models with experts as tests/oracles/parity.py makes dense ones, in float64.

    python3 tests/oracles/moe.py tests/golden/moe           (PyTorch 2.x made what is kept)
    python3 tests/oracles/moe.py --check tests/golden/moe   (the files there are what this PyTorch computes)

Router, auxiliary losses and biases are written here from the formulas of Megatron-LM's core (transformer/moe: router.py and
moe_utils.py), Mixtral and DeepSeek-V3: every expert computes every token, and a matrix [tokens, experts] of weights, which is
0 where a token is not sent, adds the outputs. Gradients are those of the mean loss plus the auxiliary losses as src/model/moe_config.h
scales them; the losses that are kept do not contain these, and neither does Megatron-LM's "lm loss".
"""
import math
import sys

import torch
import torch.nn.functional as F

import parity
from parity import GPT, LAYERS, LLAMA, SAMPLES, SEQUENCE, VOCABULARY

HIDDEN = parity.HIDDEN
MOE = dict(experts=4, width=10, topk=2, score="softmax", pre=False, expert_groups=0, group_topk=0, scale=1.0, shared=0, balance="none",
           coefficient=0.0, z=0.0, bias_rate=0.0, capacity=0.0, policy="probs", dense=(), micro=1)
PLAIN_GPT = dict(GPT, bias=False)
CASES = {
    "mixtral": dict(LLAMA, **MOE),
    "gpt_pre_softmax": dict(PLAIN_GPT, **dict(MOE, pre=True, scale=1.5, balance="sequence", coefficient=0.05, z=0.01)),
    "gpt_reset_top1": dict(PLAIN_GPT, **dict(MOE, reset=True, topk=1, pre=True, balance="sequence", coefficient=0.05)),
    "llama_micro_batch": dict(LLAMA, **dict(MOE, balance="micro_batch", coefficient=0.05, micro=4)),
    "deepseek": dict(LLAMA, **dict(MOE, experts=8, topk=4, score="sigmoid", expert_groups=4, group_topk=2, scale=2.5, shared=6,
                     balance="sequence", coefficient=0.02, bias_rate=0.01, dense=(0,))),
    "sigmoid_top1": dict(LLAMA, **dict(MOE, experts=3, topk=1, score="sigmoid", scale=0.7)),
    "capacity_probs": dict(LLAMA, **dict(MOE, capacity=1.0, micro=4)),
    "capacity_position": dict(PLAIN_GPT, **dict(MOE, capacity=0.75, policy="position", micro=1)),
}


def dense(case, layer):
    return layer in case["dense"]


def weights(case):
    """Those of parity.py but for the MLPs of layers with experts."""
    w = parity.weights(case)
    for layer in range(LAYERS):
        b, E, H, C = "blocks.%d." % layer, case["experts"], case["width"], HIDDEN
        if dense(case, layer):
            continue
        new = {"router.weight": (E, C), "experts.up.weight": (E, H, C), "experts.down.weight": (E, C, H)}
        if case["activation"] == "swiglu":
            new["experts.gate.weight"] = (E, H, C)
        for name in [n for n in w if n.startswith(b + "mlp.")]:
            del w[name]
        if case["shared"]:
            new.update({"mlp.gate.weight": (case["shared"], C), "mlp.up.weight": (case["shared"], C),
                        "mlp.down.weight": (C, case["shared"])})
        w.update({b + n: parity.weight(b + n, d) for n, d in new.items()})
    return w


def top(scores, k):
    """Mask of the k highest of each row; of equal ones the first."""
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros_like(scores).scatter(-1, order, 1.0)


def routing(case, logits, bias):
    """weights [tokens, experts], 0 where a token is not sent"""
    k, E = case["topk"], case["experts"]
    scores = torch.sigmoid(logits) if case["score"] == "sigmoid" else logits.softmax(-1) if case["pre"] else logits
    choice = (scores + bias).detach()
    if case["expert_groups"]:
        per = choice.reshape(-1, case["expert_groups"], E // case["expert_groups"])
        best = per.topk(k // case["group_topk"], dim=-1).values.sum(-1)
        inside = top(best, case["group_topk"]).repeat_interleave(E // case["expert_groups"], dim=-1)
        choice = choice.masked_fill(inside == 0, -math.inf)
    mask = top(choice, k)
    if case["score"] == "sigmoid":
        chosen = scores * mask
        w = chosen / (chosen.sum(-1, keepdim=True) + 1e-20) if k > 1 else chosen
    elif case["pre"]:
        w = scores * mask
    else:
        w = logits.masked_fill(mask == 0, -math.inf).softmax(-1)
    return w * case["scale"], mask


def keep(case, w, mask):
    """Copies within the capacity, which is counted for each micro-batch"""
    for first in range(0, SAMPLES * SEQUENCE, case["micro"] * SEQUENCE):
        rows = slice(first, first + case["micro"] * SEQUENCE)
        n = case["micro"] * SEQUENCE
        most = math.ceil(n * case["topk"] / case["experts"] * case["capacity"])
        for e in range(case["experts"]):
            sent = mask[rows, e].nonzero().reshape(-1)
            order = sent if case["policy"] == "position" else sent[torch.sort(w[rows][sent, e].detach(), descending=True, stable=True).indices]
            mask[first + order[most:], e] = 0
    return w * mask, mask


def auxiliary(case, logits):
    """Balance and z-loss as sums over tokens, without their coefficients"""
    u = torch.sigmoid(logits) if case["score"] == "sigmoid" else logits.softmax(-1)
    if case["score"] == "sigmoid":
        u = u / (u.sum(-1, keepdim=True) + 1e-20)
    size = SEQUENCE if case["balance"] == "sequence" else case["micro"] * SEQUENCE
    total = 0
    for first in range(0, len(u), size):
        part = u[first:first + size]
        f = top(part.detach(), case["topk"]).sum(0) / (case["topk"] * size)
        total = total + size * case["experts"] * (f * part.mean(0)).sum()
    return total, logits.logsumexp(-1).pow(2).sum()


def moe(case, w, b, x, state, layer):
    flat = x.reshape(-1, HIDDEN)
    logits = flat @ w[b + "router.weight"].T
    weight, mask = routing(case, logits, state["bias"][layer])
    if case["capacity"]:
        weight, mask = keep(case, weight, mask)
    state["load"][layer] += mask.sum(0)
    balance, z = auxiliary(case, logits)
    if case["balance"] != "none":
        state["auxiliary"] = state["auxiliary"] + case["coefficient"] * balance
    state["auxiliary"] = state["auxiliary"] + case["z"] * z
    up = torch.einsum("tc,ehc->teh", flat, w[b + "experts.up.weight"])
    if case["activation"] == "swiglu":
        hidden = F.silu(torch.einsum("tc,ehc->teh", flat, w[b + "experts.gate.weight"])) * up
    else:
        hidden = F.gelu(up, approximate="tanh")
    out = torch.einsum("teh,ech->tec", hidden, w[b + "experts.down.weight"])
    y = torch.einsum("te,tec->tc", weight, out).reshape(x.shape)
    return y + parity.mlp(case, w, b + "mlp", x) if case["shared"] else y


def loss_of(case, w, state):
    """The mean loss, and what is differentiated"""
    ids, targets, counts, positions, sees = parity.batch(case)
    x = w["embed.token.weight"][ids]
    state["auxiliary"] = torch.zeros((), dtype=torch.float64)
    if case["position"] == "learned":
        x = x + w["embed.position.weight"][positions]
    for layer in range(LAYERS):
        b = "blocks.%d." % layer
        x = x + parity.attention(case, w, b + "attention", parity.norm(case, w, b + "norm1", x), positions, sees)
        n = parity.norm(case, w, b + "norm2", x)
        x = x + (parity.mlp(case, w, b + "mlp", n) if dense(case, layer) else moe(case, w, b, n, state, layer))
    logits = parity.norm(case, w, "final", x) @ w["embed.token.weight" if case["tied"] else "head.weight"].T
    losses = F.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1), reduction="none")
    loss = (losses * counts.reshape(-1)).sum() / counts.sum()
    return loss, loss + state["auxiliary"] / counts.sum()


def state_of(case):
    zeros = [torch.zeros(case["experts"], dtype=torch.float64) for _ in range(LAYERS)]
    return dict(bias=zeros, load=[torch.zeros_like(z) for z in zeros])


def train(case, w):
    matrices, others = ([x for x in w.values() if (x.dim() >= 2) == wanted] for wanted in (True, False))
    rule = torch.optim.AdamW([dict(params=matrices, weight_decay=parity.DECAY), dict(params=others, weight_decay=0.0)],
                             betas=parity.BETAS, eps=parity.ADAM_EPSILON)
    losses, norms, state = [], [], state_of(case)
    for step in range(parity.STEPS):
        for group in rule.param_groups:
            group["lr"] = parity.lr_at(step)
        rule.zero_grad()
        state["load"] = [torch.zeros_like(x) for x in state["load"]]
        loss, total = loss_of(case, w, state)
        total.backward()
        length = math.sqrt(sum(x.grad.pow(2).sum().item() for x in w.values()))
        for x in w.values():
            x.grad.mul_(min(1.0, parity.CLIP / length))
        rule.step()
        for layer in range(LAYERS):
            load = state["load"][layer]
            state["bias"][layer] = state["bias"][layer] + case["bias_rate"] * torch.sign(load.mean() - load)
        losses.append(loss.item())
        norms.append(length)
    return losses, norms, state


def main(write, folder):
    for name, case in CASES.items():
        w, state = weights(case), state_of(case)
        loss, total = loss_of(case, w, state)
        total.backward()
        out = {n: x.grad.clone() for n, x in w.items()}
        losses, norms, state = train(case, w)
        print("%-18s loss %.6f -> %.6f, norm %.3f, clipped %d of %d, loads %s" %
              (name, loss.item(), losses[-1], norms[0], sum(n > parity.CLIP for n in norms), parity.STEPS,
               [x.tolist() for x in state["load"]]))
        out.update(loss=loss.detach().reshape(1), losses=torch.tensor(losses, dtype=torch.float64),
                   norms=torch.tensor(norms, dtype=torch.float64))
        write("%s/%s.safetensors" % (folder, name), out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(parity.compare if sys.argv[1] == "--check" else parity.save, sys.argv[-1])
