#!/usr/bin/env python3
"""fairseq's language model: fairseq-train's weights in transformers' XGLM, which has the same architecture (sinusoidal positions from
number 2 on, embeddings times the root of their width, norms before, GELU by erf), and the perplexity of fairseq-eval-lm with a context
window and without, over windows as fairseq's LMContextWindowDataset makes them, in float64. Where the shared data is (JOTUN_SHARED), the whole
tutorial of Megatron-11b in its words, at reduced size, on WikiText-2's test text with GPT-2's vocabulary: its perplexity is that of the
model transcribed from fairseq's TransformerDecoder for PyTorch, its renormalized perplexity that of the counts of the files."""
import argparse
import collections
import glob
import math
import os
import random
import re
import struct

import comparison
from comparison import check, jotun
from fairseq_words import words

torch, transformers, safetensors = comparison.packages("torch", "transformers", "safetensors.torch")

torch.set_default_dtype(torch.float64)                       # which a mask of transformers is made in
MOST = 1e-5
D, LAYERS, HEADS, FFN, V, B = 48, 3, 4, 96, 120, 64


def token_file(prefix, items):
    """fairseq's mmap format, uint16."""
    with open(prefix + ".bin", "wb") as out:
        for item in items:
            out.write(struct.pack(f"<{len(item)}H", *item))
    offsets = [0]
    for item in items:
        offsets.append(offsets[-1] + 2 * len(item))
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, 8, len(items)))
        out.write(struct.pack(f"<{len(items)}i", *map(len, items)) + struct.pack(f"<{len(items)}q", *offsets[:-1]))


def data(folder):
    rng = random.Random(3)
    with open(os.path.join(folder, "dict.txt"), "w") as out:
        out.writelines(f"{100 + i} {1000 - i}\n" for i in range(V - 4))
    for name, count in ("train", 300), ("valid", 20), ("test", 40):
        items = [[min(V - 1, 4 + int(rng.paretovariate(0.6))) for _ in range(rng.choice((0, 5, 40, 90)))] + [2] for _ in range(count)]
        token_file(os.path.join(folder, name), items)
    return items


def xglm(checkpoint, activation):
    """The model of transformers with our weights."""
    tensor = {}
    for path in glob.glob(os.path.join(checkpoint, "*.safetensors")):
        tensor.update({k: v.double() for k, v in safetensors.load_file(path).items()})
    config = transformers.XGLMConfig(vocab_size=V, max_position_embeddings=2048, d_model=D, ffn_dim=FFN, num_layers=LAYERS, attention_heads=HEADS,
                                     activation_function=activation, dropout=0, attention_dropout=0, activation_dropout=0, layerdrop=0, scale_embedding=True, use_cache=False)
    model = transformers.XGLMForCausalLM(config).double().eval()
    names = {"self_attn.q_proj": "attention.query", "self_attn.k_proj": "attention.key", "self_attn.v_proj": "attention.value", "self_attn.out_proj": "attention.out",
             "fc1": "mlp.up", "fc2": "mlp.down"}
    state = {"model.embed_tokens.weight": tensor["embed.token.weight"], "lm_head.weight": tensor["embed.token.weight"],
             "model.layer_norm.weight": tensor["final.gain"], "model.layer_norm.bias": tensor["final.bias"]}
    for layer in range(LAYERS):
        theirs, ours = f"model.layers.{layer}.", f"blocks.{layer}."
        for a, b in names.items():
            for part in "weight", "bias":
                state[theirs + f"{a}.{part}"] = tensor[ours + f"{b}.{part}"]
        for a, b in ("self_attn_layer_norm", "norm1"), ("final_layer_norm", "norm2"):
            state[theirs + a + ".weight"], state[theirs + a + ".bias"] = tensor[ours + b + ".gain"], tensor[ours + b + ".bias"]
    missing, left = model.load_state_dict(state, strict=False)
    check("names", f"{missing} {left}", not left and not [m for m in missing if "embed_positions" not in m])
    # transformers makes the table in float32; the formula's own numbers are in float64, as ours
    half = D // 2
    angle = torch.arange(2050, dtype=torch.float64)[:, None] * torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / (half - 1)))
    table = torch.cat([angle.sin(), angle.cos()], 1)
    difference = (table[2:] - model.model.embed_positions.weights.double()[2:2050]).abs().max().item()
    check("positions", f"the table differs from transformers' by {difference:g}", difference < 1e-3)
    model.model.embed_positions.weights = table
    return model


def perplexity(model, items, context, mode="none"):
    """Row after row as LMContextWindowDataset's collater; blocks as TokenBlockDataset cuts them."""
    stream = [t for item in items for t in item]
    size = B - context
    if mode == "none":
        blocks = [(i, min(i + size, len(stream))) for i in range(0, len(stream), size)]
    else:
        at, blocks = 0, []
        for item in items:
            if len(item) <= size:
                blocks.append((at, at + len(item)))
            at += len(item)
    source = [2] + stream[:-1]
    previous, score, count = [], 0.0, 0
    with torch.no_grad():
        for begin, end in blocks:
            tokens = source[begin:end]
            previous = previous[max(0, len(previous) + len(tokens) - B):]
            row = previous + tokens
            logits = model(torch.tensor([row])).logits[0, len(previous):].log_softmax(-1)
            score += logits.gather(1, torch.tensor(stream[begin:end])[:, None]).sum().item()
            count += end - begin
            previous = row[-context:] if context else []
    return 2 ** (-score / count / math.log(2)), count


# ---- the whole tutorial ----

def transcribed(tensor, ids, layers, heads):
    """Hidden states behind the last norm, [rows, width], of rows of ids: TransformerDecoder with decoder_normalize_before, sinusoidal
    positions from padding_idx + 1 = 2 on and scaled embeddings, in eval()."""
    F = torch.nn.functional
    table = tensor["embed.token.weight"]
    d, n = table.shape[1], ids.shape[1]
    rate = torch.exp(torch.arange(d // 2) * -(math.log(10000) / (d // 2 - 1)))
    angle = (torch.arange(n) + 2)[:, None] * rate
    x = math.sqrt(d) * table[ids] + torch.cat([angle.sin(), angle.cos()], 1)
    for layer in range(layers):
        w = {name[len(f"blocks.{layer}."):]: t for name, t in tensor.items() if name.startswith(f"blocks.{layer}.")}
        linear = lambda name, y: F.linear(y, w[name + ".weight"], w[name + ".bias"])
        y = F.layer_norm(x, (d,), w["norm1.gain"], w["norm1.bias"])
        q, k, v = (linear("attention." + part, y).unflatten(2, (heads, d // heads)).transpose(1, 2) for part in ("query", "key", "value"))
        scores = (q * (d // heads) ** -0.5) @ k.transpose(2, 3) + torch.full((n, n), -math.inf).triu(1)
        x = x + linear("attention.out", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + linear("mlp.down", F.gelu(linear("mlp.up", F.layer_norm(x, (d,), w["norm2.gain"], w["norm2.bias"]))))
    return F.layer_norm(x, (d,), tensor["final.gain"], tensor["final.bias"])


def transcribed_perplexity(tensor, stream, size, context, layers, heads):
    """All windows of LMContextWindowDataset that have one length at a time: a row is the end of the text before and a block of
    size - context tokens, of which the block is scored."""
    source, step, score = torch.tensor([2] + stream[:-1]), size - context, 0.0
    begins = list(range(0, len(stream), step))
    for first in range(0, len(begins), 64):
        alike = {}
        for begin in begins[first:first + 64]:
            end = min(begin + step, len(stream))
            alike.setdefault((min(begin, context, size - (end - begin)), end - begin), []).append(begin)
        for (before, length), group in alike.items():
            rows = torch.stack([source[b - before:b + length] for b in group])
            wanted = torch.tensor([stream[b:b + length] for b in group])
            with torch.no_grad():
                hidden = transcribed(tensor, rows, layers, heads)[:, before:]
                logits = hidden @ tensor["embed.token.weight"].T
                score += (logits.gather(2, wanted[:, :, None])[:, :, 0] - logits.logsumexp(2)).sum().item()
    return 2 ** (-score / len(stream) / math.log(2))


def tutorial(folder):
    shared = os.path.join(os.environ.get("JOTUN_SHARED", os.path.join(comparison.HERE, "../../../shared")), "data")
    raw, gpt2 = os.path.join(shared, "wikitext-2", "test.txt"), os.path.join(shared, "gpt2")
    if not os.path.exists(raw) or not os.path.exists(gpt2):
        return comparison.without("JOTUN_SHARED names no folder with data/wikitext-2 and data/gpt2")
    comparison.JOTUN, here = os.path.abspath(comparison.JOTUN), os.getcwd()
    os.chdir(folder)
    os.makedirs("wikitext-103-raw"), os.makedirs("megatron_11b")
    os.symlink(raw, "wikitext-103-raw/wiki.test.raw")                 # the test text of WikiText-103 is that of WikiText-2
    for name in "encoder.json", "vocab.bpe":
        os.symlink(os.path.join(gpt2, name), name)
    step = words("detokenize")
    with open(step[-1], "wb") as out:
        out.write(comparison.jotun_bytes("fairseq-detok", *step[3:-2]))
    jotun("fairseq-bpe-encoder", *words("encode")[3:])
    jotun("fairseq-preprocess", "--only-source", "--trainpref", "wikitext-103-raw/wiki.test.bpe", "--destdir", "frequencies")
    os.rename("frequencies/dict.txt", "megatron_11b/dict.txt")        # a dictionary of this text, in the place of the model's
    jotun(*words("binarize", "binarize: also for training"))
    places = {"DATA_PATH": "wikitext103-bin"}
    jotun(*words("train", "train: on all of WikiText-2", **places), "--disable-validation")
    done = comparison.run(*words("evaluate", "evaluate: on all of WikiText-2", **places), "--original-text", "wikitext-103-raw/wiki.test.raw")
    told = re.search(r"perplexity ([0-9.e+]+); renormalized: .* x ([0-9,]+) / ([0-9,]+)\) = ([0-9.e+]+)", done.stderr)
    if not told:
        return check("evaluation", done.stderr, False)
    found, tokens, original, renormalized = (float(x.replace(",", "")) for x in told.groups())
    stream = open("wikitext103-bin/test.bin", "rb").read()
    stream = list(struct.unpack(f"<{len(stream) // 2}H", stream))
    tensor = {}
    for path in glob.glob("megatron_11b/step_*40/*.safetensors"):
        tensor.update({k: v.double() for k, v in safetensors.load_file(path).items()})
    wanted = transcribed_perplexity(tensor, stream, 64, 32, 2, 8)
    counted = len(open(raw, encoding="utf-8").read().strip().split(" "))
    print(f"WikiText-2: {len(stream)} tokens, {counted} words: {wanted:.7f} by the transcription, {found:.7f} here; renormalized {renormalized:.6f}")
    check("WikiText-2", f"{found} is not {wanted}", abs(found - wanted) < MOST * wanted)
    check("words of WikiText-2", f"{original:.0f}, and {tokens:.0f} tokens", original == counted == 245566 and tokens == len(stream))
    check("renormalized", renormalized, abs(renormalized - 2 ** (math.log2(wanted) * len(stream) / counted)) < MOST * renormalized)
    os.chdir(here)


def own_checkpoint(folder, save, arch, activation, found):
    """The weights as a checkpoint of fairseq's that torch saved, whole and in parts of model parallelism, by both of its formats."""
    names = {"norm1": "self_attn_layer_norm", "norm2": "final_layer_norm", "attention.query": "self_attn.q_proj", "attention.key": "self_attn.k_proj",
             "attention.value": "self_attn.v_proj", "attention.out": "self_attn.out_proj", "mlp.up": "fc1", "mlp.down": "fc2"}
    whole = {"embed.token.weight": "decoder.embed_tokens.weight", "final.gain": "decoder.layer_norm.weight", "final.bias": "decoder.layer_norm.bias"}
    args = argparse.Namespace(arch=arch, decoder_layers=LAYERS, decoder_embed_dim=D, decoder_ffn_embed_dim=FFN, decoder_attention_heads=HEADS, tokens_per_sample=B, dropout=0.1,
                              attention_dropout=0.1, activation_fn=activation, decoder_normalize_before=True, share_decoder_input_output_embed=True, adaptive_softmax_cutoff=None)
    for parts, zipped in (1, True), (1, False), (4, True), (2, False):
        for part in range(parts):
            state = collections.OrderedDict({"decoder.version": torch.tensor([3.0], dtype=torch.float32)})
            for path in glob.glob(os.path.join(save, "step_*60", "*.safetensors")):
                for name, tensor in safetensors.load_file(path).items():
                    if ".exp_avg" in name:
                        continue
                    pieces = name.split(".", 2)
                    theirs = whole[name] if name in whole else f"decoder.layers.{pieces[1]}.{names[pieces[2].rsplit('.', 1)[0]]}.{'bias' if name.endswith('bias') else 'weight'}"
                    dim = 1 if theirs.endswith(("out_proj.weight", "fc2.weight")) else 0 if re.search(r"embed_tokens|[qkv]_proj|fc1", theirs) else None
                    state[theirs] = tensor if dim is None else tensor.chunk(parts, dim)[part]
            state["decoder.output_projection.weight"] = state["decoder.embed_tokens.weight"]
            file = os.path.join(folder, f"own{parts}{zipped}" + (f"-model_part-{part}.pt" if parts > 1 else ".pt"))
            torch.save({"args": args, "model": state, "optimizer_history": [{"num_updates": 60}], "extra_state": {"epoch": 1}}, file, _use_new_zipfile_serialization=zipped)
        done = comparison.run("fairseq-eval-lm", folder, "--path", os.path.join(folder, f"own{parts}{zipped}.pt"), "--gen-subset", "test", "--batch-size", "8",
                              "--tokens-per-sample", B, "--context-window", 24, "--model-parallel-size", 2, "--distributed-world-size", 2)
        told = re.search(r"jotun: perplexity ([0-9.e+]+)", done.stderr)
        check(f"a checkpoint in {parts} parts, {'zip' if zipped else 'older'}", done.stderr, told and abs(float(told[1]) - found) < 1e-7 * found)


with comparison.temporary() as folder:
    tutorial(folder)
with comparison.temporary() as folder:
    items = data(folder)
    for arch, activation in ("transformer_lm_megatron_11b", "gelu"), ("transformer_lm", "relu"):
        save = os.path.join(folder, arch)
        jotun("fairseq-train", folder, "--task", "language_modeling", "--arch", arch, "--decoder-layers", LAYERS, "--decoder-embed-dim", D,
              "--decoder-ffn-embed-dim", FFN, "--decoder-attention-heads", HEADS, "--tokens-per-sample", B, "--share-decoder-input-output-embed", "--optimizer", "adam",
              "--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt", "--lr", "0.01", "--warmup-updates", "20", "--weight-decay", "0.01", "--batch-size", "4",
              "--max-update", "60", "--save-dir", save)
        model = xglm(glob.glob(os.path.join(save, "step_*60"))[0], activation)
        for context, mode in (0, "none"), (24, "none"), (60, "none"), (0, "eos"):
            ours = comparison.run("fairseq-eval-lm", folder, "--path", os.path.join(save, "model.pt"), "--gen-subset", "test", "--batch-size", "8", "--tokens-per-sample", B,
                                  "--context-window", context, "--sample-break-mode", mode)
            found = float(re.search(r"jotun: perplexity ([0-9.e+]+)", ours.stderr).group(1))
            counted = int(re.search(r"Evaluated ([0-9,]+) tokens", ours.stdout).group(1).replace(",", ""))
            wanted, count = perplexity(model, items, context, mode)
            print(f"{activation}, context {context:2d} {mode:5s} {count} tokens: {wanted:.7f} by transformers, {found:.7f} here")
            check(f"{activation}, context {context}, {mode}", f"{found} is not {wanted}, {counted} tokens not {count}", abs(found - wanted) < MOST * wanted and counted == count)
            if context == 24:
                own_checkpoint(folder, save, arch, activation, found)
comparison.end()
