#!/usr/bin/env python3
"""Makes tests/golden/optimizers.safetensors: 50 losses and gradient norms of whole training runs with optimizers, by PyTorch in float64;
of Sophia also the sum of its Hessian after each step.

    python3 tests/oracles/optimizers.py tests/golden/optimizers.safetensors
    python3 tests/oracles/optimizers.py --check tests/golden/optimizers.safetensors     (the file is what this PyTorch computes)

Models, weights and tokens are those of parity.py. SGD and Muon's AdamW are PyTorch's own classes; Lion is written from algorithm 2 of
arXiv 2302.06675, LAMB from algorithm 2 of arXiv 1904.00962, Muon from Jordan et al. 2024 and arXiv 2502.16982, both for whole tensors on one rank. Other rules are those of
optimizer_rules.py, which optimizer_goldens.py compares with packages. tests/train/optimizers_test.c has the same settings."""
import math
import sys

import torch

import counter_random
import optimizer_rules as rules
import parity

STEPS, WARMUP, CLIP, DECAY = 50, 3, 1.0, 0.1
SIMPLE = [(3.4445, -4.7750, 2.0315)]
QUINTIC = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
           (2.8366, -3.0525, 1.2012)]
CASES = {                                              # peak of the learning rate, which falls to a tenth
    "sgd": dict(peak=0.1, momentum=0.8),
    "lion": dict(peak=2e-3, betas=(0.9, 0.98)),
    "lamb": dict(peak=2e-2, betas=(0.9, 0.95), epsilon=1e-6, low=0.3, high=0.8),
    # By one worker, which sends no signs
    "onebitlamb": dict(peak=1e-2, betas=(0.9, 0.999), epsilon=1e-6, bounds=(0.01, 10.0), freeze=20, coefficient_beta=0.9, factor_bounds=(0.5, 4.0),
                       factor_step=0.1),
    # By the name before _; of one optimizer with other settings
    "ipexlamb": dict(peak=2e-2, rule=rules.lamb, betas=(0.9, 0.95), epsilon=1e-6, bounds=(0.0, math.inf)),
    "adam_coupled": dict(peak=5e-3, rule=rules.adam, betas=(0.9, 0.95), epsilon=1e-8),
    "sgd_nesterov": dict(peak=0.1, rule=rules.sgd, momentum=0.8, nesterov=True),
    "sgdschedulefree": dict(peak=0.5, rule=rules.sgd_schedule_free, momentum=0.9),
    # Targets of its estimates are drawn by drawn_targets; 32 tokens count
    "sophiag": dict(peak=3e-3, rule=rules.sophia, betas=(0.965, 0.99), rho=0.04, batch=32, every=10),
    "muon_simple": dict(peak=2e-2, momentum=0.95, nesterov=True, steps=5, polynomials=SIMPLE, extra=0.2,
                        scale=lambda rows, columns: math.sqrt(max(rows, columns))),
    "muon_quintic": dict(peak=2e-2, momentum=0.9, nesterov=False, steps=6, polynomials=QUINTIC, extra=0.5,
                         scale=lambda rows, columns: math.sqrt(rows / columns)),
    "adopt": dict(peak=1e-2, rule=rules.adopt, betas=(0.9, 0.95), epsilon=1e-6, decoupled=True),
    "adamwschedulefree": dict(peak=5e-3, rule=rules.adamw_schedule_free, betas=(0.9, 0.95), epsilon=1e-8),
    "adafactor": dict(peak=1e-2, rule=rules.adafactor, decay_rate=-0.8, epsilon1=2.0 ** -23, epsilon2=1e-3, clip=1.0),
    "adam-mini": dict(peak=5e-3, rule=rules.adam_mini, betas=(0.9, 0.95), epsilon=1e-8),
    "adam8bit": dict(peak=5e-3, rule=rules.adam8bit, betas=(0.9, 0.95), epsilon=1e-8),
    "galoreadamw": dict(peak=1e-2, rule=rules.galore_adamw, betas=(0.9, 0.95), epsilon=1e-6, rank=5, gap=20, scale=0.5),
    "galoreadamw8bit": dict(peak=1e-2, rule=rules.galore_adamw8bit, betas=(0.9, 0.95), epsilon=1e-8, rank=5, gap=20, scale=0.5),
    "shampoo": dict(peak=5e-3, rule=rules.distributed_shampoo, betas=(0.9, 0.95), epsilon=1e-8, root_epsilon=1e-6, frequency=5),
    # Sides above 12 have no basis
    "soap": dict(peak=5e-3, rule=rules.soap, betas=(0.9, 0.95), epsilon=1e-8, gram_beta=0.9, frequency=10, longest=12),
}


def lr_at(peak, done):
    if done <= WARMUP:
        return peak * done / WARMUP
    return 0.1 * peak + 0.9 * peak * 0.5 * (math.cos(math.pi * (done - WARMUP) / (STEPS - WARMUP)) + 1)


# ---- rules: a function of (learning rate, step from 1) that updates the weights from their gradients ----

def groups(named):
    """Matrices, embeddings among them, have weight decay; vectors have none."""
    return [dict(params=[x for x in named.values() if (x.dim() == 2) == wanted], weight_decay=DECAY if wanted else 0.0)
            for wanted in (True, False)]


def by_torch(rule):
    def update(lr, step):
        for group in rule.param_groups:
            group["lr"] = lr
        rule.step()
    return update


def sgd(named, case):
    return by_torch(torch.optim.SGD(groups(named), lr=1.0, momentum=case["momentum"]))


def lion(named, case):
    (b1, b2), momentum = case["betas"], {n: torch.zeros_like(x.data) for n, x in named.items()}

    def update(lr, step):
        for name, x in named.items():
            m = momentum[name]
            d = b1 * m + (1 - b1) * x.grad
            m.copy_(b2 * m + (1 - b2) * x.grad)
            x.data.mul_(1 - lr * (DECAY if x.dim() == 2 else 0)).sub_(lr * d.sign())
    return update


def lamb(named, case):
    (b1, b2), first, second = case["betas"], {}, {}
    for name, x in named.items():
        first[name], second[name] = torch.zeros_like(x.data), torch.zeros_like(x.data)

    def update(lr, step):
        for name, x in named.items():
            g, m, v = x.grad, first[name], second[name]
            m.copy_(b1 * m + (1 - b1) * g)
            v.copy_(b2 * v + (1 - b2) * g * g)
            u = m / (1 - b1 ** step) / ((v / (1 - b2 ** step)).sqrt() + case["epsilon"])
            if x.dim() == 2:
                u = u + DECAY * x.data
            size, length = x.data.norm().item(), u.norm().item()
            ratio = min(max(size / length, case["low"]), case["high"]) if size > 0 and length > 0 else 1.0
            ratios.append(size / length if length > 0 else math.inf)
            x.data.sub_(lr * ratio * u)
    ratios = update.ratios = []
    return update


def onebitlamb(named, case):
    rule = rules.OnebitLamb(case, {n: x.data.clone() for n, x in named.items()}, {n: DECAY if x.dim() == 2 else 0.0 for n, x in named.items()}, 1)

    def update(lr, step):
        rule.step([{n: x.grad for n, x in named.items()}], step, lr)
        for name, x in named.items():
            x.data.copy_(rule.w[name])
    return update


def orthogonal(case, d):
    x = d / max(d.norm().item(), 1e-7)
    x = x.T if x.shape[0] > x.shape[1] else x
    for i in range(case["steps"]):
        a, b, c = case["polynomials"][i % len(case["polynomials"])]
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if d.shape[0] > d.shape[1] else x


def muon(named, case):
    matrices = {n: x for n, x in named.items() if n.startswith("blocks.") and x.dim() == 2}
    others = {n: x for n, x in named.items() if n not in matrices}
    rest = by_torch(torch.optim.AdamW(groups(others), lr=1.0, betas=(0.9, 0.95), eps=1e-8))
    momentum = {n: torch.zeros_like(x.data) for n, x in matrices.items()}
    mu = case["momentum"]

    def update(lr, step):
        rest(lr, step)
        for name, x in matrices.items():
            m = momentum[name]
            m.copy_(mu * m + (1 - mu) * x.grad)
            d = mu * m + (1 - mu) * x.grad if case["nesterov"] else m
            scale = case["extra"] * case["scale"](*x.shape)
            x.data.mul_(1 - lr * DECAY).sub_(lr * scale * orthogonal(case, d))
    return update


def by_rule(model, named, case):
    states = {n: {} for n in named}
    given = {}

    def block(name, x):
        heads = {"attention.query.weight": parity.HEADS, "attention.key.weight": model["groups"]}
        return "row" if x.dim() == 2 and name.split(".", 2)[-1] not in heads else heads[name.split(".", 2)[-1]] if x.dim() == 2 else "element" if name.endswith("bias") else "tensor"

    def update(lr, step):
        for name, x in named.items():
            o = dict(case, block=block(name, x), layer=name.startswith("blocks.") and x.dim() == 2)
            more = {"sampled": given.get(name)} if case["rule"] is rules.sophia else {}
            x.data.copy_(case["rule"](o, x.data, x.grad, states[name], step, lr, DECAY if x.dim() == 2 else 0.0, **more))
        given.clear()
    update.states, update.given = states, given
    return update


# ---- Sophia's estimates ----

SEED = 11
DRAWN_TARGETS = 2 ** 64 - 1                            # the key of these numbers is mixed of seed, step and this


def drawn_targets(step):
    """The first id whose cumulative probability exceeds a uniform number. A number belongs to a token's place in the global batch; sample i of the data is
    at the place that the epoch's order gives it, and each step is an epoch."""
    key = counter_random.mix(counter_random.mix(SEED, step), DRAWN_TARGETS)
    order = counter_random.mix(counter_random.key(SEED, "train"), step)
    S, N = parity.SEQUENCE, parity.SAMPLES
    place = {counter_random.permuted(order, N, k): k for k in range(N)}
    uniform = [counter_random.uniform(key, place[i] * S + s) for i in range(N) for s in range(S)]

    def draw(logits):
        cumulative = logits.detach().softmax(-1).cumsum(-1)
        return (cumulative <= torch.tensor(uniform, dtype=torch.float64)[:, None]).sum(-1).clamp(max=logits.shape[-1] - 1)
    return draw


def estimate(model, w, given, step):
    """The gradient of the mean cross-entropy of drawn targets, without clipping."""
    for x in w.values():
        x.grad = None
    parity.loss_of(model, w, drawn_targets(step)).backward()
    given.update({n: x.grad.clone() for n, x in w.items()})


def train(model, name):
    case = CASES[name]
    w = parity.weights(model)
    update = by_rule(model, w, case) if "rule" in case else {"sgd": sgd, "lion": lion, "lamb": lamb, "muon": muon, "onebitlamb": onebitlamb}[name.split("_")[0]](w, case)
    losses, norms, hessians = [], [], []
    for step in range(STEPS):
        if "every" in case and step % case["every"] == 0:
            estimate(model, w, update.given, step)
        for x in w.values():
            x.grad = None
        loss = parity.loss_of(model, w)
        loss.backward()
        length = math.sqrt(sum(x.grad.pow(2).sum().item() for x in w.values()))
        for x in w.values():
            x.grad.mul_(min(1.0, CLIP / length))
        update(lr_at(case["peak"], step), step + 1)
        losses.append(loss.item())
        norms.append(length)
        if "every" in case:
            hessians.append(case["batch"] * sum(s["hessian"].sum().item() for s in update.states.values()))
    print("%-6s %-13s loss %.6f -> %.6f" % ("llama" if model is parity.LLAMA else "gpt", name, losses[0], losses[-1]))
    if name == "lamb":                                 # the bounds act, and not always
        shares = [sum(r < case["low"] for r in update.ratios) / len(update.ratios), sum(r > case["high"] for r in update.ratios) / len(update.ratios)]
        print("trust ratios: %.3f below, %.3f above the bounds" % tuple(shares))
        assert shares[1] > 0.1 and (shares[0] > 0.01 or model is not parity.GPT)
    return dict(losses=losses, norms=norms, **({"hessians": hessians} if hessians else {}))


def main(write, path):
    out = {}
    for model in ("gpt", "llama"):
        for name in CASES:
            for kind, values in train(parity.CASES[model], name).items():
                out["%s.%s.%s" % (model, name, kind)] = torch.tensor(values, dtype=torch.float64)
    write(path, out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(parity.compare if sys.argv[1] == "--check" else parity.save, sys.argv[-1])
