"""Rules of optimizers as formulas: what one step does to a tensor. Each is written from its paper and checked against a package by
optimizer_goldens.py; where the package is wrong, the comment says so and the formula here is the right one.

A rule is a function (o, w, g, s, t, lr, decay) -> new w, of options, weights, gradient, the tensor's states (a dictionary, empty before the
first step), the step from 1, the learning rate and the weight decay of this tensor. The type of w is that of all arithmetic."""
import math

import torch


def moment(s, name, beta, x):
    """The moving average `name`, which begins at 0."""
    s[name] = beta * s.get(name, torch.zeros_like(x)) + (1 - beta) * x
    return s[name]


def adam_direction(o, g, s, t, squares="exp_avg_sq", epsilon=None):
    b1, b2 = o["betas"]
    m, v = moment(s, "exp_avg", b1, g), moment(s, squares, b2, g * g)
    return m / (1 - b1 ** t) / ((v / (1 - b2 ** t)).sqrt() + (o["epsilon"] if epsilon is None else epsilon))


def adam(o, w, g, s, t, lr, decay):
    """Kingma & Ba 2015: the weight decay is part of the gradient (L2)."""
    return w - lr * adam_direction(o, g + decay * w, s, t)


def adamw(o, w, g, s, t, lr, decay):
    """Loshchilov & Hutter 2019."""
    return w * (1 - lr * decay) - lr * adam_direction(o, g, s, t)


def adamw_uncorrected(o, w, g, s, t, lr, decay):
    """fairseq's Adam: epsilon is added to the root of the second moment without its bias correction."""
    b1, b2 = o["betas"]
    m, v = moment(s, "exp_avg", b1, g), moment(s, "exp_avg_sq", b2, g * g)
    return w * (1 - lr * decay) - lr * math.sqrt(1 - b2 ** t) / (1 - b1 ** t) * m / (v.sqrt() + o["epsilon"])


def sgd(o, w, g, s, t, lr, decay):
    """The first momentum is the gradient, without damping, as in PyTorch and Apex; L2 decay."""
    g = g + decay * w
    m = s["momentum_buffer"] = o["momentum"] * s.get("momentum_buffer", torch.zeros_like(g)) + g
    return w - lr * (g + o["momentum"] * m if o["nesterov"] else m)


def lion(o, w, g, s, t, lr, decay):
    """Chen et al. 2023, arXiv 2302.06675. The sign of 0 is 0."""
    b1, b2 = o["betas"]
    m = s.get("exp_avg", torch.zeros_like(g))
    s["exp_avg"] = b2 * m + (1 - b2) * g
    return w * (1 - lr * decay) - lr * (b1 * m + (1 - b1) * g).sign()


def adopt(o, w, g, s, t, lr, decay):
    """Taniguchi et al. 2024, arXiv 2411.02853. The first step sets v alone; step t is clipped to (t - 1)^(1/4), since the authors count
    their clipping from the step after that. decay is decoupled, or part of the gradient."""
    b1, b2 = o["betas"]
    if not o["decoupled"]:
        g = g + decay * w
    if t == 1:
        s["exp_avg"], s["exp_avg_sq"] = torch.zeros_like(g), g * g
        return w
    bound = (t - 1) ** 0.25
    m = moment(s, "exp_avg", b1, (g / s["exp_avg_sq"].sqrt().clamp(min=o["epsilon"])).clamp(-bound, bound))
    moment(s, "exp_avg_sq", b2, g * g)
    return w * (1 - lr * decay if o["decoupled"] else 1) - lr * m


def sophia(o, w, g, s, t, lr, decay, sampled=None):
    """Liu et al. 2023, arXiv 2305.14342, algorithm 3. sampled: at steps 1, 1 + k, 1 + 2k ... the mean gradient with labels drawn from
    the model's own distribution, over o["batch"] tokens; the estimate of the Hessian's diagonal is batch sampled^2. The authors' loop
    makes the first estimate after step k, so that before it h is 0 and every step is a sign; the paper's algorithm, and this, before
    step 1."""
    b1, b2 = o["betas"]
    if sampled is not None:
        moment(s, "hessian", b2, sampled * sampled)
    m, h = moment(s, "exp_avg", b1, g), s["hessian"]
    ratio = (m.abs() / (o["rho"] * o["batch"] * h + 1e-15)).clamp(max=1)
    return w * (1 - lr * decay) - lr * m.sign() * ratio


# ---- schedule-free (Defazio et al. 2024, arXiv 2405.15682): w is y, where gradients are taken; x, the average, is evaluated and saved ----

def average_weight(o, s, lr, t):
    """Weight of this step's z in the average: its share of the sum of squares of the largest learning rates so far."""
    s["lr_max"] = max(lr, s.get("lr_max", 0.0))
    s["weight_sum"] = s.get("weight_sum", 0.0) + s["lr_max"] ** 2
    return s["lr_max"] ** 2 / s["weight_sum"] if s["weight_sum"] > 0 else 0.0


def schedule_free(w, d, s, lr, beta, share):
    """z -= lr d,  x = (1 - c) x + c z,  y = (1 - beta) z + beta x, without x."""
    z = s["z"]
    s["z"] = z - lr * d
    return w + share * (z - w) + lr * (beta * (1 - share) - 1) * d


def adamw_schedule_free(o, w, g, s, t, lr, decay):
    b1, b2 = o["betas"]
    s.setdefault("z", w.clone())
    v = moment(s, "exp_avg_sq", b2, g * g)
    d = g / ((v / (1 - b2 ** t)).sqrt() + o["epsilon"]) + decay * w
    return schedule_free(w, d, s, lr, b1, average_weight(o, s, lr, t))


def sgd_schedule_free(o, w, g, s, t, lr, decay):
    s.setdefault("z", w.clone())
    return schedule_free(w, g + decay * w, s, lr, o["momentum"], average_weight(o, s, lr, t))


def evaluated(o, w, s):
    """x = y + (1 - 1 / beta) (z - y)"""
    beta = o.get("momentum", o.get("betas", (0,))[0])
    return w + (1 - 1 / beta) * (s["z"] - w)


# ---- norms of whole tensors ----

def lamb(o, w, g, s, t, lr, decay):
    """You et al. 2020, arXiv 1904.00962, algorithm 2. Without bounds Intel's; with them DeepSpeed's, whose kernel of 0.19.6 has
    lr sqrt(1 - b2^t) / (1 - b1^t) as the learning rate and no corrections within the norm; later ones have this formula."""
    u = adam_direction(o, g, s, t) + decay * w
    size, length = w.norm().item(), u.norm().item()
    low, high = o["bounds"]
    ratio = min(max(size / length, low), high) if size > 0 and length > 0 else 1.0
    return w - lr * ratio * u


def adafactor(o, w, g, s, t, lr, decay):
    """Shazeer & Stern 2018, arXiv 1804.04235, as PyTorch's: no momentum, 1 - beta2 = t^-0.8, lr at most 1 / sqrt(t) and times the root
    mean square of the weights, the decay with lr alone."""
    share = t ** o["decay_rate"]
    alpha = max(o["epsilon2"], w.norm().item() / math.sqrt(w.numel())) * min(lr, 1 / math.sqrt(t))
    w = w * (1 - lr * decay)
    if w.dim() == 2:
        row = moment(s, "row", 1 - share, (g * g).mean(1, keepdim=True))
        column = moment(s, "column", 1 - share, (g * g).mean(0, keepdim=True))
        v = row @ column / row.mean().clamp(min=o["epsilon1"])
    else:
        v = moment(s, "exp_avg_sq", 1 - share, g * g)
    u = g / v.clamp(min=o["epsilon1"] ** 2).sqrt()
    return w - alpha / max(1.0, u.norm().item() / math.sqrt(u.numel()) / o["clip"]) * u


def adam_mini(o, w, g, s, t, lr, decay):
    """Zhang et al. 2024, arXiv 2406.16793: one second moment for each block of a tensor, the mean over it: of query and key a head, of
    other matrices a row (an output; of the embedding a token), of a norm all, of a bias an element. The package takes dim^2 / heads
    elements for a head, which is wrong where the size of a head is not dim / heads: a head's block is its rows."""
    b1, b2 = o["betas"]
    blocks = {"element": g.numel(), "row": g.shape[0], "tensor": 1}.get(o["block"], o["block"])
    m = moment(s, "exp_avg", b1, g)
    v = moment(s, "block_avg_sq", b2, (g * g).view(blocks, -1).mean(1, keepdim=True))
    u = (m / (1 - b1 ** t)).view(blocks, -1) / ((v / (1 - b2 ** t)).sqrt() + o["epsilon"])
    return w * (1 - lr * decay) - lr * u.view_as(w)


# ---- 8-bit states (Dettmers et al. 2022, arXiv 2110.02861) ----

BLOCK = 256                                            # elements that share a scale


def dynamic_map(signed):
    """The 256 values of a code, in FP32. With F = 2^i fractions, or 2^(i+1) of a code without signs, for i = 0 .. 6: the midpoints of F equal
    parts of [0.1, 1], times 10^(i - 6); their negatives; 0 and 1. The bounds of the parts, the midpoints and the products are rounded to
    FP32, each once."""
    values = [0.0, 1.0]
    for i in range(7):
        parts = 2 ** i if signed else 2 ** (i + 1)
        bounds = torch.linspace(0.1, 1, parts + 1, dtype=torch.float32)
        middle = ((bounds[:-1] + bounds[1:]) / 2.0 * 10 ** (i - 6)).tolist()
        values += middle + [-x for x in middle if signed]
    return torch.tensor(sorted(values), dtype=torch.float32)


def quantize(x, code):
    """Codes and scales of blocks of the flattened tensor, of which the last may be short: the nearest value, the lower one of two. The
    package's CUDA kernel then moves a first moment whose sign has changed by one code, so that a small negative one is never 0 and a small
    positive one is; its other kernels do not, and that of CPUs does not find the nearest."""
    flat = x.flatten()
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % BLOCK)]).view(-1, BLOCK)
    scale = padded.abs().amax(1)
    ratio = padded / torch.where(scale > 0, scale, torch.ones_like(scale))[:, None]
    table = code.to(x.dtype)
    upper = torch.searchsorted(table, ratio.contiguous()).clamp(1, 255)
    index = torch.where(ratio - table[upper - 1] <= table[upper] - ratio, upper - 1, upper)
    return index.flatten()[:len(flat)].to(torch.uint8), scale


def dequantize(index, scale, code, like):
    return code.to(like.dtype)[index.long()].mul(scale.repeat_interleave(BLOCK)[:index.numel()]).view_as(like)


SIGNED, UNSIGNED = dynamic_map(True), dynamic_map(False)


def adam8bit_direction(o, g, s, t):
    """The update is made of the moments before they are rounded."""
    b1, b2 = o["betas"]
    for name, code in (("exp_avg", SIGNED), ("exp_avg_sq", UNSIGNED)):
        if name in s:
            s[name] = dequantize(*s[name], code, g)
    u = adam_direction(o, g, s, t)
    s["exp_avg"], s["exp_avg_sq"] = quantize(s["exp_avg"], SIGNED), quantize(s["exp_avg_sq"], UNSIGNED)
    return u


def adam8bit(o, w, g, s, t, lr, decay):
    """Of matrices of layers. Others have 32 bits: where a step does not reach a row of an embedding, and its second moment has been
    rounded to 0, the first one is divided by epsilon alone: weights of the tall matrix of the goldens grow from 0.5 to 7.7 in 10 steps. The
    decay is decoupled, also where the package calls it Adam and not AdamW; its CUDA kernel decays after the update, its others before."""
    if not o["layer"]:
        return adamw(o, w, g, s, t, lr, decay)
    return w * (1 - lr * decay) - lr * adam8bit_direction(o, g, s, t)


# ---- GaLore (Zhao et al. 2024, arXiv 2403.03507) ----

def singular_vectors(g, rank):
    """The first singular vectors of the shorter side, as rows. A singular vector's sign is arbitrary, and the moments outlive a
    projection, so that it changes results: here the component of largest magnitude is positive, of several the first."""
    u, _, vh = torch.linalg.svd(g, full_matrices=False)
    p = vh[:rank] if g.shape[0] >= g.shape[1] else u[:, :rank].T
    largest = p.gather(1, p.abs().argmax(1, keepdim=True))
    return p * largest.sign()


def galore_project(o, g, s, t):
    """Columns are projected where there are at most as many of them as of rows. The projection is new at steps 1, 1 + gap ..."""
    if (t - 1) % o["gap"] == 0:
        s["projection"] = singular_vectors(g, o["rank"])
    return g @ s["projection"].T if g.shape[0] >= g.shape[1] else s["projection"] @ g


def galore_back(o, u, g, s):
    return o["scale"] * (u @ s["projection"] if g.shape[0] >= g.shape[1] else s["projection"].T @ u)


def galore(direction, plain):
    """Matrices of layers have moments of the projected gradient, all else those of AdamW. epsilon is added to sqrt(v) before the bias
    correction, that of the package's AdamW; the decay is decoupled, and after the update."""
    def rule(o, w, g, s, t, lr, decay):
        if not o["layer"]:
            return plain(o, w, g, s, t, lr, decay)
        u = galore_back(o, direction(o, galore_project(o, g, s, t), s, t), g, s)
        return (w - lr * u) * (1 - lr * decay)
    return rule


def uncorrected_epsilon(o, g, s, t):
    """m / (1 - b1^t) / ((sqrt(v) + epsilon) / sqrt(1 - b2^t))"""
    return adam_direction(o, g, s, t, epsilon=o["epsilon"] / math.sqrt(1 - o["betas"][1] ** t))


def adamw_after(o, w, g, s, t, lr, decay):
    return (w - lr * uncorrected_epsilon(o, g, s, t)) * (1 - lr * decay)


galore_adamw = galore(uncorrected_epsilon, adamw_after)
galore_adamw8bit = galore(adam8bit_direction, adamw)


# ---- matrices of both sides: Shampoo (Gupta et al. 2018, arXiv 1802.09568), SOAP (Vyas et al. 2024, arXiv 2409.11321) ----

def inverse_root(a, root, epsilon):
    """a^(-1/root) of a symmetric matrix; negative eigenvalues, which are roundings, are shifted to epsilon."""
    values, vectors = torch.linalg.eigh(a)
    values = values - min(values.min().item(), 0.0) + epsilon
    return vectors * values.pow(-1 / root) @ vectors.T


def factors_update(o, g, s, old, new):
    """L = old L + new G GT,  R = old R + new GT G"""
    grams, begin = (g @ g.T, g.T @ g), o.get("initial", 0.0)
    s.setdefault("factors", [begin * torch.eye(len(x), dtype=g.dtype) for x in grams])
    s["factors"] = [old * a + new * x for a, x in zip(s["factors"], grams)]


def shampoo(o, w, g, s, t, lr, decay):
    """Gupta et al.: sums of all gradients' products, from epsilon I; roots -1/4; L2 decay. All but matrices of layers have AdamW here."""
    if not o["layer"]:
        return adamw(o, w, g, s, t, lr, decay)
    g = g + decay * w
    factors_update(dict(initial=o["root_epsilon"]), g, s, 1.0, 1.0)
    if (t - 1) % o["frequency"] == 0:
        s["roots"] = [inverse_root(a, 4, 0.0) for a in s["factors"]]
    return w - lr * s["roots"][0] @ g @ s["roots"][1]


def distributed_shampoo(o, w, g, s, t, lr, decay):
    """Shi et al. 2023, arXiv 2309.06497, with the length of Adam's update (grafting): means of products, roots -1/4, new at every
    frequency-th step, from step `frequency` on; before it Adam's direction. Decoupled decay. A side above o["longest"] has no factor, and of
    k factors the root is -1 / (2 k) (Gupta et al. 2018, for tensors of order k; Anil et al. 2020, arXiv 2002.09018); the package cuts such a
    matrix in blocks instead. All but matrices of layers have AdamW here; the package preconditions vectors as well, whose factor has few
    eigenvalues that are not roundings."""
    sides = [i for i in (0, 1) if g.dim() == 2 and g.shape[i] <= o.get("longest", math.inf)]
    if not o["layer"] or not sides:
        return adamw(o, w, g, s, t, lr, decay)
    b1, b2 = o["betas"]
    factors_update(o, g, s, b2, 1 - b2)
    u = adam_direction(o, g, s, t)
    if t % o["frequency"] == 0:
        s["roots"] = {i: inverse_root(s["factors"][i] / (1 - b2 ** t), 2 * len(sides), o["root_epsilon"]) for i in sides}
    if t >= o["frequency"]:
        p = s["exp_avg"] / (1 - b1 ** t)
        p = s["roots"][0] @ p if 0 in sides else p
        p = p @ s["roots"][1] if 1 in sides else p
        u = p * (u.norm() / (p.norm() + 1e-16))
    return w - lr * (u + decay * w)


def rotated(q, x, back=False):
    """QLT x QR, or QL x QRT; a side that is too long has no basis."""
    left, right = q
    if left is not None:
        x = (left if back else left.T) @ x
    if right is not None:
        x = x @ (right.T if back else right)
    return x


def space_basis(x):
    """Orthonormal rows that depend on the space of the given ones alone: the first is that with the largest element in any column, and
    the others are so among what is orthogonal to it."""
    for i in range(len(x) - 1):
        sums, best = (x[i:] ** 2).sum(0), 0
        for j in range(1, len(sums)):
            if sums[j] > sums[best] * (1 + 1e-6):
                best = j
        v = x[i:, best].clone()
        v[0] += v.norm() if v[0] > 0 else -v.norm()
        x[i:] -= 2 / (v @ v) * v[:, None] * (v @ x[i:])
    return x


def eigenvectors(a):
    """Largest first. Those of values that are 0 but for roundings are chosen by their space."""
    values, q = torch.linalg.eigh(a)
    near = values.abs() <= 8 * len(a) * torch.finfo(a.dtype).eps * values.abs().max()
    if near.sum() > 1:
        q[:, near] = space_basis(q[:, near].T.contiguous()).T
    return q.flip(1)


def soap_bases(o, g, s, t):
    """The first bases are eigenvectors, largest first; after every frequency-th update one power iteration and a QR decomposition. Signs
    of basis vectors change nothing; the vectors of an eigenvalue that several have, such as 0 of a long side, are arbitrary, in the authors'
    code LAPACK's."""
    sides = [(0, g @ g.T), (1, g.T @ g)]
    s.setdefault("gram", [torch.zeros_like(x) if len(x) <= o["longest"] else None for _, x in sides])
    for i, x in sides:
        if s["gram"][i] is not None:
            s["gram"][i] = o["gram_beta"] * s["gram"][i] + (1 - o["gram_beta"]) * x
    if "q" not in s:
        s["q"] = [None if a is None else eigenvectors(a) for a in s["gram"]]
    if t > 1 and (t - 1) % o["frequency"] == 0:
        for i, a in enumerate(s["gram"]):
            if a is None:
                continue
            order = torch.argsort((s["q"][i] * (a @ s["q"][i])).sum(0), descending=True)
            s["exp_avg_sq"] = s["exp_avg_sq"].index_select(i, order)
            s["q"][i] = torch.linalg.qr(a @ s["q"][i][:, order])[0]


def soap(o, w, g, s, t, lr, decay):
    """Adam in the eigenbases of Shampoo's factors. The first step makes the bases alone, so that updates, and their bias corrections, are
    counted from step 2. exp_avg is kept unrotated. All but matrices of layers have AdamW here."""
    if not o["layer"]:
        return adamw(o, w, g, s, t, lr, decay)
    b1, b2 = o["betas"]
    if t > 1:
        n, m = t - 1, moment(s, "exp_avg", b1, g)
        v = moment(s, "exp_avg_sq", b2, rotated(s["q"], g) ** 2)
        u = rotated(s["q"], rotated(s["q"], m) / (v.sqrt() + o["epsilon"]), True)
        w = (w - lr * math.sqrt(1 - b2 ** n) / (1 - b1 ** n) * u) * (1 - lr * decay)
    soap_bases(o, g, s, t)
    return w


# ---- 1-bit LAMB (Li et al. 2021, arXiv 2104.06069): of all tensors and of so many workers together ----

def signs(x):
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


def compressed(x):
    return x.norm() / math.sqrt(x.numel()) * signs(x)


def compressed_mean(buffers, worker_errors, server_error):
    """The mean of the workers' buffers, each sent as signs and one size, and sent back so. What is lost is added the next time. The authors' servers
    have a size each, for equal parts, and their buffers some zeros at the end, which have signs too: here neither, so that no order of elements counts."""
    sent = []
    for r, x in enumerate(buffers):
        x = x + worker_errors[r]
        sent.append(compressed(x))
        worker_errors[r] = x - sent[-1]
    y = sum(sent) / len(buffers) + server_error
    result = compressed(y)
    server_error.copy_(y - result)
    return result


class OnebitLamb:
    """Until step o["freeze"] LAMB without bias corrections, of the mean gradient; then the second moment, and the mean of trust ratios, are
    frozen, and workers exchange signs of momenta. The authors' class does nothing in its first call but count it as a step, and divides by
    0 where a momentum is all 0: here neither. A momentum becomes 0 where there was no gradient before the freeze, as with the mask that the
    authors' class takes for it: else the size of signs would be divided by epsilon. So does that of a tensor which is a millionth of the mean
    or less: its signs would be those of rounding."""

    def __init__(self, o, weights, decay, workers):
        self.o, self.w, self.decay, self.workers = o, weights, decay, workers
        self.s = {n: dict(m=torch.zeros_like(x), v=torch.zeros_like(x), coefficient=0.0, factor=1.0) for n, x in weights.items()}
        count, like = sum(x.numel() for x in weights.values()), next(iter(weights.values()))
        self.worker_errors = [like.new_zeros(count) for _ in range(workers)]
        self.server_error = like.new_zeros(count)

    def warm_up(self, n, g, t, lr):
        o, s, w = self.o, self.s[n], self.w[n]
        b1, b2 = o["betas"]
        s["m"], s["v"] = b1 * s["m"] + (1 - b1) * g, b2 * s["v"] + (1 - b2) * g * g
        if t == o["freeze"]:
            s["fresh"] = s["v"]
        u = s["m"] / (s["v"].sqrt() + o["epsilon"]) + self.decay[n] * w
        size, length = w.norm().item(), u.norm().item()
        ratio = min(max(size / length, o["bounds"][0]), o["bounds"][1]) if size > 0 and length > 0 else 1.0
        if ratio != 1.0:
            s["coefficient"] = o["coefficient_beta"] * s["coefficient"] + (1 - o["coefficient_beta"]) * ratio
        self.w[n] = w - lr * ratio * u

    def exchange(self, gradients):
        """New momenta from those of all workers. Tensors are scaled to one mean size before, and back after."""
        b1 = self.o["betas"][0]
        if "scale" not in next(iter(self.s.values())):
            sizes = {n: (s["m"].norm() / math.sqrt(s["m"].numel())).item() for n, s in self.s.items()}
            for n, s in self.s.items():
                mean = sum(sizes.values()) / len(sizes)
                s["scale"] = mean / sizes[n] if sizes[n] * 1e6 > mean else 0.0
        buffers = []
        for of_worker in gradients:
            buffers.append(torch.cat([((b1 * s["m"] + (1 - b1) * of_worker[n]) * s["scale"]).flatten() for n, s in self.s.items()]))
        mean, at = compressed_mean(buffers, self.worker_errors, self.server_error) if self.workers > 1 else buffers[0], 0
        for s in self.s.values():
            left_out = (s["v"] == 0) | (s["scale"] == 0)
            yield torch.where(left_out, 0.0, mean[at:at + s["m"].numel()].view_as(s["m"]) / (s["scale"] or 1.0))
            at += s["m"].numel()

    def compressed(self, n, m, lr):
        o, s, w = self.o, self.s[n], self.w[n]
        b1, b2 = o["betas"]
        g = (m - b1 * s["m"]) / (1 - b1)
        s["m"], s["fresh"] = m, b2 * s["fresh"] + (1 - b2) * g * g
        divisor = s["v"].sqrt() + o["epsilon"]
        without = m / divisor
        u = without + self.decay[n] * w
        factor = (divisor / (s["fresh"].sqrt() + o["epsilon"])).max().item()
        if self.decay[n] > 0:
            share = min(1.0, (without.norm() / u.norm()).item())
            factor = factor * share + 1 - share
        factor = min(max(factor, o["factor_bounds"][0]), o["factor_bounds"][1])
        factor = min(max(factor, s["factor"] * (1 - o["factor_step"])), s["factor"] * (1 + o["factor_step"]))
        s["factor"] = factor
        self.w[n] = w - lr * s["coefficient"] * factor * u

    def step(self, gradients, t, lr):
        if t <= self.o["freeze"]:
            for n in self.w:
                self.warm_up(n, sum(x[n] for x in gradients) / self.workers, t, lr)
            return
        for n, m in zip(self.w, list(self.exchange(gradients))):
            self.compressed(n, m, lr)
