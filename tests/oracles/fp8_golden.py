"""Golden of tests/tensor/fp8_test.c: NVIDIA Transformer Engine's delayed and current scaling, and a linear layer of 8-bit numbers, in PyTorch.

    fp8_golden.py

The rules are those that its documentation of DelayedScaling and Float8CurrentScaling states:
    scale = (largest number of the type / amax) / 2^margin; unchanged where amax is 0 or not finite; the largest fp32 where it is infinite
    the history is rolled by one, and its first entry, where the next amax is taken, set to 0; amax is the first entry or the maximum
Types are cast by PyTorch's float8_e4m3fn and float8_e5m2, which round to the nearest even; numbers are clamped first.
"""
import torch

TYPES = {"E4M3": (torch.float8_e4m3fn, 448.0), "E5M2": (torch.float8_e5m2, 57344.0)}
INF = float("inf")
AMAX = [3.0, 0.5, 0.0, 7.25, 1e-3, INF, 2.0, 2.0, 1e-40, 0.1, 0.0, 0.0, 0.0, 5.0]
RUNS = [("E4M3", 1, "most_recent", 0), ("E4M3", 4, "max", 0), ("E5M2", 4, "most_recent", 2), ("E5M2", 2, "max", 1), ("E4M3", 16, "max", 3)]


def new_scale(amax, scale, largest, margin):
    sf = torch.div(torch.tensor(largest), amax) / 2**margin          # a number / tensor would multiply by the reciprocal
    sf = torch.where(amax > 0, sf, scale)
    sf = torch.where(torch.isfinite(amax), sf, scale)
    return torch.where(torch.isinf(sf), torch.tensor(torch.finfo(torch.float32).max), sf)


def delayed(kind, length, algo, margin):
    history, scale, out = torch.zeros(length), torch.tensor(1.0), []
    for now in AMAX:
        history[0] = now
        amax = history.max() if algo == "max" else history[0].clone()
        scale = new_scale(amax, scale, TYPES[kind][1], margin)
        history = torch.roll(history, -1)
        history[0] = 0
        if length == 1:
            history = torch.zeros(1)
        out.append(float(scale))
    return out


def numbers(rows, columns, seed, size):
    i = torch.arange(rows * columns, dtype=torch.int64)
    return (((i * 37 + seed) % 101 - 50).float() / size).reshape(rows, columns)


def quantized(x, kind):
    dtype, largest = TYPES[kind]
    scale = new_scale(x.abs().max(), torch.tensor(1.0), largest, 0)
    q = (x * scale).clamp(-largest, largest).to(dtype)
    return q, scale, q.double() / scale.double()


def c_numbers(x, form="{:.9g}"):
    return ", ".join(form.format(v) for v in x.flatten().tolist())


print("scales:")
for run in RUNS:
    print("    { F8_%s, %d, %s, %d, { %s } }," % (run[0], run[1], "true" if run[2] == "most_recent" else "false", run[3],
                                                  ", ".join(f"{s:.9g}" for s in delayed(*run))))
x, w, dy = numbers(3, 5, 11, 16.0), numbers(4, 5, 29, 400.0), numbers(3, 4, 7, 1000.0)
for gradient in ("E5M2", "E4M3"):
    (qx, sx, vx), (qw, sw, vw), (qd, sd, vd) = quantized(x, "E4M3"), quantized(w, "E4M3"), quantized(dy, gradient)
    print("linear, gradients in " + gradient)
    print("    { F8_%s, { %s }," % (gradient, c_numbers(torch.stack([sx, sw, sd]))))
    for q in (qx, qw, qd):
        print("      { %s }," % c_numbers(q.view(torch.uint8), "{:#04x}"))
    for value in (vx @ vw.T, vd @ vw, vd.T @ vx):
        print("      { %s }," % c_numbers(value))
    print("    },")
