#!/usr/bin/env python3
"""GGUF files read by the package gguf: every tensor is the one of the model in transformers' layout, Q8_0 to the byte of the
package's own quantization; with llama-cpp-python the same greedy tokens as jotun in F32."""
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))
import hf_golden

try:
    import gguf
    import numpy as np
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import llama_cpp
except ImportError as missing:
    llama_cpp = None
print("gguf", getattr(gguf, "__version__", "?"), "transformers", transformers.__version__, "llama-cpp-python",
      llama_cpp.__version__ if llama_cpp else "is missing")
JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
PROMPT = "The quick"
failures = []
# rows of heads: llama.cpp's llama rotates neighbours
HALVES = {"llama": True, "mixtral": True, "qwen2": False, "gpt2": False}


def jotun(*words):
    done = subprocess.run([JOTUN, *map(str, words)], capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr.decode()}")
    return done.stdout


def check(name, what, good):
    if not good:
        failures.append(f"{name}: {what}")


def pairs(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def expected(name, model):
    """name in the file -> array, from transformers' parameters"""
    w = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    c, found = model.config, {}
    if name == "gpt2":
        names = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
        found["token_embd.weight"], found["position_embd.weight"] = w["transformer.wte.weight"], w["transformer.wpe.weight"]
        for part in ("weight", "bias"):
            found["output_norm." + part] = w["transformer.ln_f." + part]
            for i in range(c.n_layer):
                for theirs, ours in names.items():
                    found[f"blk.{i}.{ours}.{part}"] = w[f"transformer.h.{i}.{theirs}.{part}"].T
                found[f"blk.{i}.attn_norm.{part}"] = w[f"transformer.h.{i}.ln_1.{part}"]
                found[f"blk.{i}.ffn_norm.{part}"] = w[f"transformer.h.{i}.ln_2.{part}"]
        return found
    found["token_embd.weight"], found["output_norm.weight"] = w["model.embed_tokens.weight"], w["model.norm.weight"]
    if not c.tie_word_embeddings:
        found["output.weight"] = w["lm_head.weight"]
    for i in range(c.num_hidden_layers):
        at = f"model.layers.{i}."
        for theirs, ours in (("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"),
                             ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"),
                             ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")):
            for part in ("weight", "bias"):
                if at + theirs + "." + part in w:
                    found[f"blk.{i}.{ours}.{part}"] = w[at + theirs + "." + part]
        for letter, heads in (("q", c.num_attention_heads), ("k", c.num_key_value_heads)):
            for part in ("weight", "bias"):
                if f"{at}self_attn.{letter}_proj.{part}" in w:
                    x = w[f"{at}self_attn.{letter}_proj.{part}"]
                    found[f"blk.{i}.attn_{letter}.{part}"] = pairs(x, heads) if HALVES[name.split("_")[0]] else x
        if name == "mixtral":
            found[f"blk.{i}.ffn_gate_inp.weight"] = w[at + "mlp.gate.weight"]
            gate, up = np.split(w[at + "mlp.experts.gate_up_proj"], 2, axis=1)
            found[f"blk.{i}.ffn_gate_exps.weight"], found[f"blk.{i}.ffn_up_exps.weight"] = gate, up
            found[f"blk.{i}.ffn_down_exps.weight"] = w[at + "mlp.experts.down_proj"]
    return found


def tensors_equal(name, path, want, kind):
    reader = gguf.GGUFReader(path)
    check(name, "other tensors", {t.name for t in reader.tensors} == set(want))
    for t in reader.tensors:
        x = np.ascontiguousarray(want[t.name])
        kept = x.ndim < 2 or "ffn_gate_inp" in t.name or "position_embd" in t.name
        q = kind.name if not kept else "F32"
        if q == "Q8_0" and x.shape[-1] % 32:
            q = "F16"
        check(name, f"{t.name} is {t.tensor_type.name}, not {q}", t.tensor_type.name == q)
        check(name, f"{t.name} has the shape {list(t.shape)}", list(t.shape) == list(x.shape[::-1]))
        if t.tensor_type.name == q:
            bytes_of = gguf.quants.quantize(x, t.tensor_type).tobytes()
            check(name, f"{t.name} differs in {q}", bytes_of == t.data.tobytes())
    return reader


def greedy(name, path, load):
    model = llama_cpp.Llama(model_path=path, n_ctx=64, logits_all=False, verbose=False, n_threads=2)
    ids = model.tokenize(PROMPT.encode(), add_bos=False, special=False)
    check(name, f"llama.cpp's tokens are {ids}", ids == list(PROMPT.encode()))
    out = []
    for token in model.generate(ids, temp=0, top_k=1, repeat_penalty=1.0):
        if token == model.token_eos() or len(out) == 24:
            break
        out.append(token)
    said = jotun("generate", "--load", load, "--prompt", PROMPT, "--max-new-tokens", 24, "--temperature", 0)
    ours = [b for b in said.removeprefix(PROMPT.encode()).removesuffix(b"\n")]
    check(name, f"greedy tokens {ours} are not llama.cpp's {out}", ours == out and len(out) > 0)


def compare(name, work):
    at = lambda leaf: os.path.join(work, name + leaf)
    model = hf_golden.make(name, wide=True)
    model.save_pretrained(at("-theirs"))
    jotun("convert", "--to", "jotun", "--input", at("-theirs"), "--output", at("-ours"), "--tokenizer", "bytes")
    want = expected(name, model)
    for word in ("F32", "F16", "BF16", "Q8_0"):
        jotun("convert", "--to", "gguf", "--output-dtype", word.lower(), "--input", at("-ours"), "--output", at(f"-{word}.gguf"))
        reader = tensors_equal(name, at(f"-{word}.gguf"), want, gguf.GGMLQuantizationType[word])
    tokens = reader.fields["tokenizer.ggml.tokens"]
    check(name, "another number of tokens", len(tokens.data) == hf_golden.VOCABULARY)
    if llama_cpp:
        greedy(name, at("-F32.gguf"), at("-ours"))
    print(f"{name:12s} {len(want)} tensors in F32, F16, BF16, Q8_0{'; greedy tokens' if llama_cpp else ''}")


with tempfile.TemporaryDirectory() as folder:
    for model_name in sys.argv[1:] or ("gpt2", "llama", "llama_tied", "qwen2", "mixtral"):
        compare(model_name, folder)
for line in failures:
    print("DIFFERS", line)
sys.exit(bool(failures))
