"""nanoGPT's recipe for small models, written again from its published settings, on the texts of a speedrun.

    nanogpt.py --train FILE --valid FILE --minutes 10 --size cpu|wide|char [--cpu-seconds N] [--seed N] [--tokens char|gpt2]

FILE has a document a line. The model is GPT-2's (learned positions, LayerNorm without biases, GELU, tied embeddings),
the optimizer AdamW with weight decay 0.1 of matrices, gradients are clipped at 1, the learning rate warms up over 100
steps and decays along a cosine to a tenth at the last step, as its config/train_shakespeare_char.py and the CPU command of
its README have them. A run stops after its minutes (or its CPU seconds, which a busy machine does not change); the
number of steps, to which the cosine is fitted, is chosen from the speed of the first ones. The weights with the lowest
validation loss are kept. The last line is JSON: bits per byte of the valid file, each line's end included.
"""
import argparse
import json
import math
import os
import resource
import time

# From github.com/karpathy/nanoGPT: cpu is the command of its README for a computer without a GPU (block_size 64, batch_size 12, n_layer 4, n_head 4,
# n_embd 128, dropout 0), char is config/train_shakespeare_char.py, with learning_rate, min_lr, warmup_iters and beta2 of both; weight_decay, grad_clip,
# beta1 and bias=False are the defaults of its train.py. wide is ours, between the two. Its max_iters are replaced by the steps that fit the time,
# and lr_decay_iters equals them, as there.
SIZES = {   # layers, heads, width, length of a block, samples of a step, dropout
    "cpu": (4, 4, 128, 64, 12, 0.0),
    "wide": (6, 6, 192, 128, 12, 0.0),
    "char": (6, 6, 384, 256, 64, 0.2),
}
RATE, LEAST, WARMUP, DECAY, CLIP, BETAS = 1e-3, 1e-4, 100, 0.1, 1.0, (0.9, 0.99)
EVALUATIONS = 10                            # within a run, each of a part of the valid file


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--train", required=True)
    p.add_argument("--valid", required=True)
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--cpu-seconds", type=float)
    p.add_argument("--size", choices=SIZES, default="cpu")
    p.add_argument("--dropout", type=float)
    p.add_argument("--tokens", choices=("char", "gpt2"), default="char")
    p.add_argument("--seed", type=int, default=1337)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="the cores that this process may use")
    p.add_argument("--bf16", action="store_true", help="autocast, where it is faster on this CPU")
    p.add_argument("--no-compile", action="store_true")
    return p.parse_args()


a = arguments()
os.environ["OMP_NUM_THREADS"] = str(a.threads)
import torch                                # noqa: E402, after the number of threads
import torch.nn as nn                       # noqa: E402
import torch.nn.functional as F             # noqa: E402

LAYERS, HEADS, WIDTH, BLOCK, BATCH, DROPOUT = SIZES[a.size]
DROPOUT = DROPOUT if a.dropout is None else a.dropout


def now():
    """Seconds of the clock, or of CPU time of this process and of the compilers that it starts."""
    if not a.cpu_seconds:
        return time.monotonic()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


BUDGET = a.cpu_seconds or 60 * a.minutes
BEGUN = 0.0 if a.cpu_seconds else now()     # CPU time counts from the start of the process, imports too


def ids_of(text, train):
    if a.tokens == "char":
        letters = sorted(set(train + text))
        number = {c: i for i, c in enumerate(letters)}
        return torch.tensor([number[c] for c in text]), len(letters)
    from transformers import GPT2TokenizerFast
    t = GPT2TokenizerFast.from_pretrained("gpt2")
    return torch.tensor(t(text)["input_ids"]), 50304


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0, is_causal=True)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, t, c)), DROPOUT, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), DROPOUT, self.training)


class Model(nn.Module):
    def __init__(self, ids):
        super().__init__()
        self.token, self.place = nn.Embedding(ids, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                ends_branch = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * LAYERS) if ends_branch else 0.02)

    def forward(self, ids, targets, reduction="mean"):
        x = F.dropout(self.token(ids) + self.place.weight[: ids.shape[1]], DROPOUT, self.training)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1), reduction=reduction)


def rate_at(step, steps):
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    return LEAST + 0.5 * (RATE - LEAST) * (1 + math.cos(math.pi * min(1.0, (step - WARMUP) / max(1, steps - WARMUP))))


def cast():
    return torch.autocast("cpu", torch.bfloat16, enabled=a.bf16)


def draw(data, generator):
    at = torch.randint(len(data) - BLOCK, (BATCH,), generator=generator)
    return torch.stack([data[i : i + BLOCK] for i in at]), torch.stack([data[i + 1 : i + 1 + BLOCK] for i in at])


@torch.no_grad()
def whole(model, data):
    """Nats of all ids but the first, each once: windows overlap by a half, and the repeated half is context alone."""
    model.eval()
    total, end = 0.0, 1
    rows = []
    while end < len(data):
        begin = max(0, end - 1 - BLOCK // 2)
        stop = min(len(data), begin + BLOCK + 1)
        row = data[begin:stop]
        targets = row[1:].clone()
        targets[: end - 1 - begin] = -100
        rows.append((row[:-1], targets))
        end = stop
    for i in range(0, len(rows), 32):
        part = [r for r in rows[i : i + 32]]
        for length in {len(r[0]) for r in part}:
            same = [r for r in part if len(r[0]) == length]
            with cast():
                total += model(torch.stack([r[0] for r in same]), torch.stack([r[1] for r in same]), "sum").item()
    model.train()
    return total


def main():
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    train_text, valid_text = open(a.train, encoding="utf-8").read(), open(a.valid, encoding="utf-8").read()
    both, ids = ids_of(train_text + valid_text, "")
    count = len(ids_of(train_text, valid_text)[0]) if a.tokens == "gpt2" else len(train_text)
    train, valid = both[:count], both[count - 1 :]           # the last id of train predicts the first of valid
    generator = torch.Generator().manual_seed(a.seed)
    model = Model(ids)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=BETAS, fused=True)
    compiled = model if a.no_compile else torch.compile(model)
    per_byte = 1 / math.log(2) / len(valid_text.encode())
    best, best_state, kept = math.inf, None, 0

    def step_of(step, steps):
        x, y = draw(train, generator)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps)
        with cast():
            loss = compiled(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    first = 5
    for step in range(first):
        step_of(step, 10**9)
    timed, began = 10 if a.size != "char" else 3, now()
    for step in range(first, first + timed):
        step_of(step, 10**9)
    each = (now() - began) / timed
    tail = 10000                                              # ids of an evaluation within the run
    began = now()
    whole(model, valid[:tail])
    evaluation = now() - began
    at_end = evaluation * max(1.0, len(valid) / tail)
    left = BUDGET - (now() - BEGUN) - at_end - (EVALUATIONS + 1) * evaluation
    steps = first + timed + max(1, int(left / each))
    losses = []
    for step in range(first + timed, steps):
        losses.append(step_of(step, steps))
        if (step + 1) % max(1, steps // EVALUATIONS) == 0 or step + 1 == steps:
            value = whole(model, valid[:tail])
            print(f"step {step + 1} of {steps}: train {sum(losses[-50:]) / len(losses[-50:]):.4f} valid "
                  f"{value / (len(valid[:tail]) - 1):.4f} after {now() - BEGUN:.0f} s", flush=True)
            if value < best:
                best, kept, best_state = value, step + 1, {k: v.clone() for k, v in model.state_dict().items()}
        if now() - BEGUN > BUDGET - at_end - evaluation:
            break
    model.load_state_dict(best_state)
    nats = whole(model, valid)
    print(json.dumps({"recipe": "nanoGPT", "size": a.size, "tokens": a.tokens, "torch": torch.__version__, "seed": a.seed, "threads": a.threads,
                      "parameters": sum(p.numel() for p in model.parameters()), "steps": steps, "kept": kept,
                      "tokens_seen": steps * BATCH * BLOCK, "seconds": round(now() - BEGUN, 1),
                      "bits_per_byte": nats * per_byte}))


main()
