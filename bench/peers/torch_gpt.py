"""PyTorch's best training step of GPT-2 on this CPU:   python3 bench/peers/torch_gpt.py [--rows ROW,...] [--steps N] [--quick]

Needs `pip install torch numpy`. For each row (batch size, sequence length, type) it runs a grid of settings, each in a process of
its own, and prints tokens/s (median of the steps after the warm-up), peak resident memory and seconds from process start to the end of
step 1; then the best setting of the row. The model is GPT-2 124M as `--model gpt2-124m` has it, without dropout: tied embeddings,
biases, pre-norm, tanh GELU, vocabulary padded to 50,304. A step is forward, backward, gradient clipping and AdamW.

The grid: eager or torch.compile (default and max-autotune), fused AdamW, scaled_dot_product_attention, glibc's allocator as it is or
set to keep memory, threads = cores; for bf16 autocast with fp32 weights, and pure bf16 weights with bf16 moments.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

ROWS = {                       # batch size, sequence length, type
    "fp32-b4-t64": (4, 64, "fp32"), "fp32-b1-t1024": (1, 1024, "fp32"), "fp32-b4-t1024": (4, 1024, "fp32"),
    "bf16-b4-t64": (4, 64, "bf16"), "bf16-b1-t1024": (1, 1024, "bf16"), "bf16-b4-t1024": (4, 1024, "bf16"),
    "fp32-b16-t1024": (16, 1024, "fp32"), "bf16-b16-t1024": (16, 1024, "bf16"),        # for a GPU
}
KEEP = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=40000000000:glibc.malloc.hugetlb=1"
LAYERS, HIDDEN, HEADS, VOCABULARY = 12, 768, 12, 50304


def child(batch, length, kind, mode, steps):
    """One setting; prints one JSON object."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (h.view(b, t, HEADS, -1).transpose(1, 2) for h in self.qkv(self.norm1(x)).split(HIDDEN, 2))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, HIDDEN)
            x = x + self.out(attended)
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(length, HIDDEN)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
            for p in self.parameters():
                nn.init.normal_(p, std=0.02) if p.dim() > 1 else None

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.positions.weight[None]
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).view(-1, VOCABULARY).float(), targets.view(-1))

    torch.manual_seed(1)
    device = mode["device"]
    model = Gpt().to(device)
    if kind == "bf16" and mode["weights"] == "bf16":
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    call = model if mode["compile"] == "eager" else torch.compile(model, mode=None if mode["compile"] == "default" else "max-autotune")
    ids = torch.randint(VOCABULARY, (batch, length + 1)).to(device)
    seconds, first = [], 0
    for step in range(steps + 3):
        begin = time.monotonic()
        with torch.autocast(device, torch.bfloat16, enabled=kind == "bf16" and mode["weights"] == "fp32"):
            loss = call(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=device == "cuda")
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - begin)
        first = first or time.time() - float(os.environ["STARTED"])
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    print(json.dumps({"tokens": batch * length / statistics.median(seconds[3:]), "best": batch * length / min(seconds[3:]),
                      "memory": torch.cuda.max_memory_reserved() if device == "cuda" else int(status["VmHWM"].split()[0]) * 1024, "first": first, "loss": float(loss.detach())}))


def grid(kind, quick, device="cpu"):
    modes = ["eager", "default"] + ([] if quick else ["max-autotune"])
    weights = ["fp32"] if kind == "fp32" else ["fp32", "bf16"]
    memory = ["keep"] if quick or device == "cuda" else ["keep", "glibc"]
    return [dict(zip(("compile", "weights", "allocator", "device"), setting)) for setting in itertools.product(modes, weights, memory, [device])]


def run(row, mode, steps, limit):
    batch, length, kind = ROWS[row]
    cores = str(len(os.sched_getaffinity(0)))
    environment = dict(os.environ, OMP_NUM_THREADS=cores, OMP_PROC_BIND="true", OMP_PLACES="cores", STARTED=str(time.time()))
    if mode["allocator"] == "keep":
        environment["GLIBC_TUNABLES"] = KEEP
    command = [sys.executable, os.path.abspath(__file__), "--child", json.dumps([batch, length, kind, mode, steps])]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="some of " + ", ".join(ROWS))
    parser.add_argument("--steps", type=int, default=5, help="timed steps (after 3 of warm-up)")
    parser.add_argument("--quick", action="store_true", help="without max-autotune and without glibc's allocator as it is")
    parser.add_argument("--limit", type=int, default=900, help="seconds for a setting, which is then left out")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*json.loads(options.child))
        return 0
    import torch
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {len(os.sched_getaffinity(0))} cores")
    for row in options.rows.split(","):
        results = []
        for mode in grid(ROWS[row][2], options.quick, options.device):
            name = f"{mode['compile']}, weights {mode['weights']}, allocator {mode['allocator']}"
            result = run(row, mode, options.steps, options.limit)
            if not result:
                print(f"{row:14} {name:48} failed or took more than {options.limit} s", flush=True)
                continue
            results.append((result["tokens"], name, result))
            print(f"{row:14} {name:48} {result['tokens']:7.1f} tokens/s (best {result['best']:7.1f})  {result['memory'] / 2**20:7.0f} MiB  "
                  f"start to step 1 {result['first']:5.1f} s  loss {result['loss']:.3f}", flush=True)
        if results:
            print(f"{row:14} best: {max(results)[1]}: {max(results)[0]:.1f} tokens/s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
