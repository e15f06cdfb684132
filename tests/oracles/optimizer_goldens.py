#!/usr/bin/env python3
"""Makes tests/golden/optimizers/: weights after 1, 10 and 50 steps of each rule of optimizer_rules.py in float64, and the values of 8-bit
codes. Prints how far each is from a package's class in float64 and float32.

    python3 tests/oracles/optimizer_goldens.py [--repositories FOLDER] [NAME...]
    python3 tests/oracles/optimizer_goldens.py --check [NAME...]    (the files are what the rules give here; no package but PyTorch)

References are PyTorch, schedulefree, bitsandbytes, galore-torch, adam-mini, pytorch-optimizer and timm from PyPI. Authors' code that is in no package
is read from clones in FOLDER: SOAP (nikhilvyas), Sophia (Liuhong99), adopt (iShohei220), optimizers (facebookresearch, a commit of March 2025
or before, for Python 3.11), DeepSpeed (deepspeedai).

Weights and gradients are a formula of integers, exact in FP32, that C repeats: unit() below. Gradients do not depend on weights."""
import functools
import importlib.metadata
import importlib.util
import json
import math
import os
import sys
import threading
import types

import torch

import optimizer_rules as rules

STEPS, MEASURED, DECAY, SAMPLES = 50, (1, 10, 50), 0.1, 12
# A wide matrix, one of an embedding, of whose rows a step reaches a third, a square one, a vector; three and 3/4 blocks of 256, three
LAYERS = ("wide", "square")                                                      # matrices of layers
SHAPES = {"wide": (24, 40), "tall": (64, 12), "square": (20, 20), "vector": (40,)}
WEIGHTS, GRADIENT, MEAN, REACHED, SAMPLED, SUM, OWN = range(7)                  # streams of numbers; OWN + rank, of workers
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "golden", "optimizers")
MASK = 0xffffffff


def mixed(stream, tensor, step, i):
    """The finalizer of MurmurHash3 on 32 bits."""
    x = (stream * 0x9e3779b1 + tensor * 0x85ebca77 + step * 0xc2b2ae3d + i * 0x27d4eb2f) & MASK
    x = (x ^ x >> 16) * 0x85ebca6b & MASK
    x = (x ^ x >> 13) * 0xc2b2ae35 & MASK
    return x ^ x >> 16


def unit(stream, tensor, step, i):
    """A multiple of 2^-19 in [-1, 1)."""
    return ((mixed(stream, tensor, step, i) >> 12) - 2 ** 19) / 2 ** 19


def measured(case):
    """The steps after which weights are compared; of 1-bit LAMB the first one with signs too."""
    return sorted(MEASURED + (ONEBIT["freeze"] + 1,)) if case in SIGNS else MEASURED


@functools.lru_cache(None)
def first_weights(name):
    tensor, n = list(SHAPES).index(name), math.prod(SHAPES[name])
    return torch.tensor([unit(WEIGHTS, tensor, 0, i) / 2 for i in range(n)], dtype=torch.float64).view(SHAPES[name])


@functools.lru_cache(None)
def gradient(name, step, stream=GRADIENT):
    """A random part and, half as large, one that all steps share, times 2^-4 2^-(column modulo 6)."""
    tensor, shape = list(SHAPES).index(name), SHAPES[name]
    columns, values = shape[-1], []
    for i in range(math.prod(shape)):
        row, column = divmod(i, columns)
        reached = name != "tall" or mixed(REACHED, tensor, step, row) % 3 == 0
        x = unit(stream, tensor, step, i) + unit(MEAN, tensor, 0, i) / 2
        values.append(x * 2.0 ** (-4 - column % 6) if reached else 0.0)
    return torch.tensor(values, dtype=torch.float64).view(shape)


def rate(peak, t):
    """A warm-up of 5 steps."""
    return peak * min(t, 5) / 5


def decay_of(name):
    return DECAY if len(SHAPES[name]) == 2 else 0.0


# ---- references: (options, {name: parameter}) -> torch optimizer, or function (gradients, learning rate, step) ----

def groups(named, **more):
    return [dict(params=[p], weight_decay=decay_of(n), **more) for n, p in named.items()]


def matrices(named):
    """Those of layers; to the others, as the rules of matrices here have it, goes AdamW."""
    return {n: named[n] for n in LAYERS}


def repository(folder, path, name):
    """A module of a clone."""
    found = os.path.join(REPOSITORIES or "", folder, path)
    if not REPOSITORIES or not os.path.exists(found):
        raise ImportError("no clone of " + folder)
    spec = importlib.util.spec_from_file_location(name, found)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def by_adam(o, named):
    return torch.optim.Adam(groups(named), betas=o["betas"], eps=o["epsilon"])


def by_adamw(o, named):
    return torch.optim.AdamW(groups(named), betas=o["betas"], eps=o["epsilon"])


def by_sgd(o, named):
    return torch.optim.SGD(groups(named), lr=1.0, momentum=o["momentum"], nesterov=o["nesterov"])


def by_lion(o, named):
    from pytorch_optimizer import Lion
    return Lion(groups(named, weight_decouple=True), betas=o["betas"])


def by_adopt(o, named):
    module = repository("adopt", "src/adopt/adopt.py", "adopt_clone")
    return module.ADOPT(groups(named), betas=o["betas"], eps=o["epsilon"], decouple=o["decoupled"])


def by_sophia(o, named):
    module = repository("Sophia", "sophia.py", "sophia_clone")
    rule = module.SophiaG(groups(named), betas=o["betas"], rho=o["rho"])

    def update(gradients, lr, t):
        if (t - 1) % o["every"] == 0:
            for n, p in named.items():
                p.grad = gradient(n, t, SAMPLED).to(p.dtype)
            rule.update_hessian()
        for n, p in named.items():
            p.grad = gradients[n].clone()
        for group in rule.param_groups:
            group["lr"] = lr
        rule.step(bs=o["batch"])
    return update


def by_schedule_free(o, named):
    import schedulefree
    if "betas" in o:
        rule = schedulefree.AdamWScheduleFree(groups(named), lr=1.0, betas=o["betas"], eps=o["epsilon"])
    else:
        rule = schedulefree.SGDScheduleFree(groups(named), lr=1.0, momentum=o["momentum"])
    rule.train()
    return rule


def by_lamb(o, named):
    """timm's file alone: the package wants torchvision."""
    folder = importlib.metadata.distribution("timm").locate_file("timm")
    for name, path in (("timm", folder), ("timm.optim", folder / "optim")):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)]
    from timm.optim.lamb import Lamb
    return Lamb(groups(named), betas=o["betas"], eps=o["epsilon"], max_grad_norm=None, always_adapt=True)


def by_adafactor(o, named):
    return torch.optim.Adafactor(groups(named), lr=1.0, beta2_decay=o["decay_rate"], eps=(o["epsilon1"], o["epsilon2"]), d=o["clip"])


def by_adam_mini(o, named):
    from adam_mini import Adam_mini
    names = {"wide": "layer.wq.weight", "tall": "embed.weight", "square": "layer.mlp.weight", "vector": "norm.weight"}
    rule = Adam_mini([(names[n], p) for n, p in named.items()], betas=o["betas"], eps=o["epsilon"], weight_decay=DECAY, dim=120, n_heads=60)
    return rule                                        # 120 * 120 / 60 = 240 elements are 6 rows of 40


def exact_codes():
    """bitsandbytes' kernel for CPUs looks FP32 codes up in a coarse table: 1.3e-8 of a block's largest becomes 1.6e-5. That for other types
    finds the nearest."""
    import bitsandbytes.backends.cpu.ops as kernels
    quantize = torch.ops.bitsandbytes.quantize_blockwise

    def nearest(x, code, scales, codes, block):
        made = quantize(x.double(), code, block)
        codes.copy_(made[0])
        scales.copy_(made[1])
    kernels._quant_blockwise_fp32_direct = nearest


def by_adam8bit(o, named):
    import bitsandbytes
    exact_codes()
    return bitsandbytes.optim.AdamW8bit(groups(matrices(named)), betas=o["betas"], eps=o["epsilon"], min_8bit_size=1)


def with_signs(rule):
    """Signs of singular vectors as those of optimizer_rules.singular_vectors."""
    plain = torch.linalg.svd

    def svd(a, full_matrices=True):
        u, sizes, vh = plain(a, full_matrices=full_matrices)
        side = vh if a.shape[0] >= a.shape[1] else u.T
        sign = side.gather(1, side.abs().argmax(1, keepdim=True)).sign()
        return u * sign.T, sizes, vh * sign

    def update(gradients, lr, t):
        torch.linalg.svd = svd
        try:
            rule(gradients, lr, t)
        finally:
            torch.linalg.svd = plain
    return update


def galore_groups(o, named):
    return [dict(params=[p], weight_decay=decay_of(n), **(dict(rank=o["rank"], update_proj_gap=o["gap"], scale=o["scale"], proj_type="std",
            proj_quant=False) if n in LAYERS else {})) for n, p in named.items()]


def by_galore(o, named):
    from galore_torch import GaLoreAdamW
    rule = GaLoreAdamW(galore_groups(o, named), betas=o["betas"], eps=o["epsilon"], no_deprecation_warning=True)
    return with_signs(stepped(rule, named))


def by_galore8bit(o, named):
    from galore_torch import GaLoreAdamW8bit
    exact_codes()
    rule = GaLoreAdamW8bit(galore_groups(o, matrices(named)), betas=o["betas"], eps=o["epsilon"], min_8bit_size=1)
    torch.cuda.synchronize = lambda: None
    return with_signs(stepped(rule, named))


def by_shampoo(o, named):
    from pytorch_optimizer import Shampoo
    return Shampoo(groups(matrices(named), weight_decouple=False), preconditioning_compute_steps=o["frequency"], matrix_eps=o["root_epsilon"])


def by_distributed_shampoo(o, named):
    sys.path.insert(0, os.path.join(REPOSITORIES or "", "optimizers"))
    from distributed_shampoo import AdamGraftingConfig, DistributedShampoo
    return DistributedShampoo(groups(matrices(named)), lr=1.0, betas=o["betas"], epsilon=o["root_epsilon"], precondition_frequency=o["frequency"],
                              start_preconditioning_step=o["frequency"], use_decoupled_weight_decay=True, max_preconditioner_dim=8192,
                              use_merge_dims=False, preconditioner_dtype=next(iter(named.values())).dtype,
                              grafting_config=AdamGraftingConfig(beta2=o["betas"][1], epsilon=o["epsilon"]))


def by_soap(o, named):
    module = repository("SOAP", "soap.py", "soap_clone")
    torch.set_default_dtype(next(iter(named.values())).dtype)              # its factors have the default type
    return module.SOAP(groups(matrices(named)), lr=1.0, betas=o["betas"], shampoo_beta=o["gram_beta"], eps=o["epsilon"],
                       precondition_frequency=o["frequency"], max_precond_dim=o["longest"])


def threads(workers, body):
    """body(rank, meet) of so many threads; meet(x) returns what each gave."""
    barrier, given, failed = threading.Barrier(workers), [None] * workers, []

    def run(rank):
        def meet(x):
            barrier.wait()
            given[rank] = x
            barrier.wait()
            return list(given)
        try:
            body(rank, meet)
        except Exception as error:
            failed.append(error)
            barrier.abort()
    running = [threading.Thread(target=run, args=(r,)) for r in range(workers)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for error in failed:
        if not isinstance(error, threading.BrokenBarrierError):
            raise error


def deepspeed_class(meets):
    """DeepSpeed's OnebitLamb with nothing of the rest of DeepSpeed. Its own exchange of signs needs GPUs: here threads exchange buffers."""
    class Backend:
        def __init__(self, place):
            self.size, self.place, self.count, self.server_error = WORKERS, place, sum(math.prod(s) for s in SHAPES.values()), None

        def compressed_allreduce(self, buffer, worker_error, server_error, local_rank):
            """Each thread has the errors of all servers."""
            if self.server_error is None:
                self.server_error = buffer.new_zeros(self.count)
            all_of = meets[self.place]((buffer[:self.count].clone(), worker_error[:self.count].clone()))
            workers = [x[1] for x in all_of]
            buffer[:self.count] = rules.compressed_mean([x[0] for x in all_of], workers, self.server_error)
            worker_error[:self.count] = workers[self.place]
            return buffer
    fakes = {"deepspeed": {}, "deepspeed.comm": dict(is_initialized=lambda: True, get_rank=lambda: 1), "deepspeed.utils": {},
             "deepspeed.utils.torch": dict(required_torch_version=lambda **k: True), "deepspeed.runtime": {}, "deepspeed.runtime.comm": {},
             "deepspeed.runtime.utils": dict(filter_empty_parameters=lambda x: x),
             "deepspeed.accelerator": dict(get_accelerator=lambda: types.SimpleNamespace(empty_cache=lambda: None)),
             "deepspeed.runtime.comm.nccl": dict(NcclBackend=Backend)}
    for name, content in fakes.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(content)
    sys.modules["deepspeed"].comm = sys.modules["deepspeed.comm"]
    return repository("DeepSpeed", "deepspeed/runtime/fp16/onebit/lamb.py", "onebit_clone").OnebitLamb


@functools.lru_cache(None)
def worker_gradient(case, name, t, rank):
    """The tensor's gradient with a part of the worker's own; of some rows of the tall matrix always 0, or of the square one next to nothing."""
    o = CASES[case][1]
    own = torch.tensor([unit(OWN + rank, list(SHAPES).index(name), t, i) for i in range(math.prod(SHAPES[name]))], dtype=torch.float64)
    whole = gradient(name, t) + own.view(SHAPES[name]) / 64
    if "unreached" in o and name == "tall":
        whole = whole * mask_of(case, name)
    return whole * 2.0 ** -o["halvings"] if "halvings" in o and name == "square" else whole


def mask_of(case, name):
    """0 where there is no gradient: one row of so many."""
    mask, every = torch.ones(SHAPES[name], dtype=torch.float64), CASES[case][1].get("unreached")
    if every and name == "tall":
        mask[every - 1::every] = 0
    return mask


def run_onebit(case, dtype):
    o, out = ONEBIT, {}
    rule = rules.OnebitLamb(o, {n: first_weights(n).to(dtype) for n in SHAPES}, {n: decay_of(n) for n in SHAPES}, WORKERS)
    for t in range(1, STEPS + 1):
        rule.step([{n: worker_gradient(case, n, t, r).to(dtype) for n in SHAPES} for r in range(WORKERS)], t, rate(1e-2, t))
        if t in measured(case):
            out[t] = {n: x.clone() for n, x in rule.w.items()}
    return out


def run_deepspeed(case, dtype):
    """Its first call changes nothing, and counts as a step. A mask is given where there is no gradient."""
    meets, out = {}, {}
    made = deepspeed_class(meets)

    @torch.no_grad()
    def body(rank, meet):
        meets[rank] = meet
        named = {n: torch.nn.Parameter(first_weights(n).to(dtype, copy=True)) for n in SHAPES}
        engine = types.SimpleNamespace(mpu=rank, local_rank=rank, enable_backward_allreduce=True)
        masked = [dict(g, exp_avg_mask=mask_of(case, n).to(dtype)) for g, n in zip(groups(named), named)]
        rule = made(masked if "unreached" in CASES[case][1] else groups(named), engine, lr=1.0, freeze_step=ONEBIT["freeze"] + 1, betas=ONEBIT["betas"], eps=ONEBIT["epsilon"],
                    max_coeff=ONEBIT["bounds"][1], min_coeff=ONEBIT["bounds"][0])
        for t in range(STEPS + 1):
            own = {n: worker_gradient(case, n, max(t, 1), rank).to(dtype) for n in SHAPES}
            if engine.enable_backward_allreduce:
                others = meet(own)
                own = {n: sum(x[n] for x in others) / WORKERS for n in SHAPES}
            for n, p in named.items():
                p.grad = own[n].clone()
            for group in rule.param_groups:
                group["lr"] = rate(1e-2, max(t, 1))
            rule.step()
            if t in measured(case) and rank == 0:
                out[t] = {n: p.detach().clone() for n, p in named.items()}
    threads(WORKERS, body)
    return out


WORKERS = 2
ADAM = dict(betas=(0.9, 0.95), epsilon=1e-8)
GALORE = dict(ADAM, rank=6, gap=20, scale=0.25)
CASES = {                                              # rule, options, peak of the learning rate, reference
    "adam": (rules.adam, ADAM, 1e-2, by_adam),
    "adamw": (rules.adamw, ADAM, 1e-2, by_adamw),
    "adamw_uncorrected": (rules.adamw_uncorrected, dict(ADAM, epsilon=1e-3), 1e-2, None),
    "adam8bit": (rules.adam8bit, ADAM, 1e-2, by_adam8bit),
    "adamw_schedule_free": (rules.adamw_schedule_free, ADAM, 1e-2, by_schedule_free),
    "sgd_schedule_free": (rules.sgd_schedule_free, dict(momentum=0.9), 0.5, by_schedule_free),
    "sgd": (rules.sgd, dict(momentum=0.9, nesterov=False), 0.1, by_sgd),
    "sgd_nesterov": (rules.sgd, dict(momentum=0.9, nesterov=True), 0.1, by_sgd),
    "lamb": (rules.lamb, dict(ADAM, epsilon=1e-6, bounds=(0.0, math.inf)), 1e-2, by_lamb),
    "lamb_bounded": (rules.lamb, dict(ADAM, epsilon=1e-6, bounds=(0.25, 0.3)), 1e-2, None),
    "galore_adamw": (rules.galore_adamw, dict(GALORE, epsilon=1e-6), 1e-2, by_galore),
    "galore_adamw8bit": (rules.galore_adamw8bit, GALORE, 1e-2, by_galore8bit),
    "shampoo": (rules.shampoo, dict(ADAM, root_epsilon=1e-4, frequency=1), 1e-2, by_shampoo),
    "distributed_shampoo": (rules.distributed_shampoo, dict(ADAM, root_epsilon=1e-12, frequency=5), 1e-2, by_distributed_shampoo),
    "shampoo_one_sided": (rules.distributed_shampoo, dict(ADAM, root_epsilon=1e-12, frequency=5, longest=32), 1e-2, None),
    "sophia": (rules.sophia, dict(betas=(0.965, 0.99), rho=0.04, batch=4096, every=10), 1e-2, by_sophia),
    "adopt": (rules.adopt, dict(betas=(0.9, 0.9999), epsilon=1e-6, decoupled=False), 1e-2, by_adopt),
    "adopt_decoupled": (rules.adopt, dict(betas=(0.9, 0.9999), epsilon=1e-6, decoupled=True), 1e-2, by_adopt),
    "lion": (rules.lion, dict(betas=(0.9, 0.99)), 1e-3, by_lion),
    "adafactor": (rules.adafactor, dict(decay_rate=-0.8, epsilon1=2.0 ** -23, epsilon2=1e-3, clip=1.0), 1e-2, by_adafactor),
    "soap": (rules.soap, dict(betas=(0.95, 0.95), gram_beta=0.9, epsilon=1e-8, frequency=10, longest=32), 1e-2, by_soap),
    "adam_mini": (rules.adam_mini, ADAM, 1e-2, by_adam_mini),
}
ONEBIT = dict(betas=(0.9, 0.999), epsilon=1e-8, bounds=(0.01, 10.0), freeze=20, coefficient_beta=0.9, factor_bounds=(0.5, 4.0), factor_step=0.1)
CASES["onebit_lamb"] = (None, dict(ONEBIT, workers=WORKERS), 1e-2, run_deepspeed)
CASES["onebit_lamb_masked"] = (None, dict(ONEBIT, workers=WORKERS, unreached=8), 1e-2, run_deepspeed)
CASES["onebit_lamb_rounding"] = (None, dict(ONEBIT, workers=WORKERS, halvings=60), 1e-2, None)        # there the signs of rounding are sent
SIGNS = ("onebit_lamb", "onebit_lamb_masked", "onebit_lamb_rounding")
BLOCKS = {"wide": 4, "tall": "row", "square": "row", "vector": "tensor"}        # of adam_mini
LAYERS_ALONE = ("adam8bit", "galore_adamw8bit", "shampoo", "distributed_shampoo", "soap")
FLOAT_ALONE = ("adam8bit", "galore_adamw8bit", "galore_adamw", "soap")                   # the package rounds to FP32 whatever the type


def options_of(case, name):
    return dict(CASES[case][1], block=BLOCKS[name], layer=name in LAYERS)


def run_rule(case, dtype):
    """{step: {name: weights}}, and the states at the end."""
    rule, o, peak, _ = CASES[case]
    if case in SIGNS:
        return run_onebit(case, dtype)
    w, s, out = {n: first_weights(n).to(dtype) for n in SHAPES}, {n: {} for n in SHAPES}, {}
    for t in range(1, STEPS + 1):
        for n in SHAPES:
            more = dict(sampled=gradient(n, t, SAMPLED).to(dtype) if (t - 1) % o["every"] == 0 else None) if rule is rules.sophia else {}
            w[n] = rule(options_of(case, n), w[n], gradient(n, t).to(dtype), s[n], t, rate(peak, t), decay_of(n), **more)
        if t in MEASURED:
            out[t] = {n: x.clone() for n, x in w.items()}
            if "z" in s["wide"]:
                out[t].update({n + ".evaluated": rules.evaluated(o, w[n], s[n]) for n in SHAPES})
            if case == "adam8bit":
                out[t].update({"%s.%s" % (n, m): s[n][m][0].double() for n in SHAPES for m in ("exp_avg", "exp_avg_sq")})
    return out


def stepped(rule, named):
    def update(gradients, lr, t):
        for n, p in named.items():
            p.grad = gradients[n].clone()
        for group in rule.param_groups:
            group["lr"] = lr
        rule.step()
    return update


def run_reference(case, dtype):
    _, o, peak, make = CASES[case]
    if case in SIGNS:
        return run_deepspeed(case, dtype)
    named, out = {n: torch.nn.Parameter(first_weights(n).to(dtype, copy=True)) for n in SHAPES}, {}
    rule = make(o, named)
    update = stepped(rule, named) if isinstance(rule, torch.optim.Optimizer) else rule
    for t in range(1, STEPS + 1):
        update({n: gradient(n, t).to(dtype) for n in SHAPES}, rate(peak, t), t)
        if t in MEASURED:
            out[t] = {n: p.detach().clone() for n, p in named.items()}
            if hasattr(rule, "eval"):
                rule.eval()
                out[t].update({n + ".evaluated": p.detach().clone() for n, p in named.items()})
                rule.train()
    return out


def apart(x, y, names):
    """The largest difference of weights after each measured step."""
    return [max((x[t][n].double() - y[t][n].double()).abs().max().item() for n in y[t] if n.split(".")[0] in names) for t in sorted(y)]


def summary(x, tensor):
    """Of a tensor: some elements, and two sums that any element changes."""
    flat = x.double().flatten().tolist()
    at = [k * 97 % len(flat) for k in range(SAMPLES)]
    return {"elements": {str(i): flat[i] for i in at}, "squares": math.fsum(v * v for v in flat),
            "sum": math.fsum(v * unit(SUM, tensor, 0, i) for i, v in enumerate(flat))}


def golden(case):
    out = run_rule(case, torch.float64)
    names = list(SHAPES)
    o = {k: list(v) if isinstance(v, tuple) else v for k, v in CASES[case][1].items()}
    o = {k: [repr(x) if x == math.inf else x for x in v] if isinstance(v, list) else v for k, v in o.items()}
    return {"options": o, "lr": CASES[case][2],
            "steps": {str(t): {n: summary(x, names.index(n.split(".")[0])) for n, x in out[t].items()} for t in sorted(out)}}


@torch.no_grad()
def compared(case):
    """What of a package was compared, and how far it is, as text."""
    if CASES[case][3] is None:
        return "no reference"
    texts = []
    for dtype in (torch.float64, torch.float32):
        if dtype == torch.float64 and case in FLOAT_ALONE:
            continue
        try:
            far = apart(run_rule(case, dtype), run_reference(case, dtype), LAYERS if case in LAYERS_ALONE else SHAPES)
        except ImportError as missing:
            return "not compared: %s" % missing
        texts.append("%s %s" % (str(dtype)[6:], " ".join("%.1e" % x for x in far)))
    return ", ".join(texts)


def dynamic_maps():
    """The bits of both tables in FP32, as integers in hexadecimal."""
    return {name: " ".join("%08x" % (x & MASK) for x in code.view(torch.int32).tolist())
            for name, code in (("signed", rules.SIGNED), ("unsigned", rules.UNSIGNED))}


def maps_compared():
    try:
        from bitsandbytes.functional import create_dynamic_map
    except ImportError as missing:
        return "not compared: %s" % missing
    return "equal: %s" % all(torch.equal(create_dynamic_map(signed), code) for signed, code in ((True, rules.SIGNED), (False, rules.UNSIGNED)))


def versions():
    found = {}
    for name in ("torch", "schedulefree", "bitsandbytes", "galore-torch", "adam-mini", "pytorch-optimizer", "timm"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def close(x, y):
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(close(x[k], y[k]) for k in x)
    if isinstance(x, float) and isinstance(y, (int, float)):
        return abs(x - y) <= 1e-10 * max(1, abs(y))
    return x == y


def write(name, made):
    """A line for each tensor after each step."""
    steps = made.pop("steps", {})
    text = json.dumps(made)[:-1]
    if steps:
        lines = ["%s: {\n %s}" % (json.dumps(t), ",\n ".join("%s: %s" % (json.dumps(n), json.dumps(x)) for n, x in of.items()))
                 for t, of in steps.items()]
        text += ',\n"steps": {\n' + ",\n".join(lines) + "}"
    with open(os.path.join(FOLDER, name + ".json"), "w") as file:
        file.write(text + "}\n")


def main(arguments):
    check = "--check" in arguments
    wanted = [a for a in arguments if not a.startswith("--")] or ["dynamic_map"] + list(CASES)
    status = 0
    if not check:
        print(" ".join("%s %s" % v for v in versions().items()))
    for case in wanted:
        torch.set_default_dtype(torch.float32)
        made = dynamic_maps() if case == "dynamic_map" else golden(case)
        if check:
            with open(os.path.join(FOLDER, case + ".json")) as file:
                stored = json.load(file)
            stored.pop("compared", None)
            stored.pop("versions", None)
            if not close(made, stored):
                status = 1
                print("%s: not what is stored" % case)
            continue
        text = maps_compared() if case == "dynamic_map" else compared(case)
        print("%-22s %s" % (case, text))
        write(case, dict(made, versions=versions(), compared=text))
    return status


if __name__ == "__main__":
    torch.set_num_threads(1)
    REPOSITORIES = None
    given = sys.argv[1:]
    if "--repositories" in given:
        at = given.index("--repositories")
        REPOSITORIES = given[at + 1]
        del given[at:at + 2]
    with torch.no_grad():
        sys.exit(main(given))
