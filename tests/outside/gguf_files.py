#!/usr/bin/env python3
"""GGUF files read by the package gguf: every tensor is the one of the model in transformers' layout, Q8_0 to the byte of the
package's own quantization; with llama-cpp-python the same greedy tokens as jotun in F32."""
import json
import math
import os
import sys

import comparison
from comparison import check, jotun

gguf, np, _ = comparison.packages("gguf", "numpy", "transformers")
import hf_golden
llama_cpp = comparison.optional("llama_cpp")
PROMPT = "The quick"
TRANSFORMERS = ("gpt2", "llama", "llama_tied", "llama3", "llama_linear", "mistral", "qwen2", "qwen3", "olmo2", "gemma", "gemma2",
                "mixtral", "qwen3_moe", "llama_biases", "smollm3", "phi3", "deepseek_v2", "deepseek_v3", "bloom")
# what llama.cpp has no key for
YARN_KEYS = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=1.0)
CHANGED = {"gemma2": dict(query_pre_attn_scalar=16), "deepseek_v3": dict(rope_parameters=YARN_KEYS)}
NEIGHBOURS = ("llama", "mixtral", "smollm3")           # there channels 2i and 2i + 1 turn together

SMALL = """--num-layers 4 --hidden-size 64 --num-attention-heads 4 --num-query-groups 2 --ffn-hidden-size 96 --seq-length 64
    --normalization RMSNorm --disable-bias-linear --init-method-std 0.15 --swiglu --position-embedding-type rope"""
LAYER_NORM = SMALL.split("--normalization")[0] + "--init-method-std 0.15"
YARN = """--position-embedding-type yarn --rotary-base 100 --rotary-scaling-factor 8
    --yarn-original-max-position-embeddings 16"""
GEMMA = """--hidden-size 64 --embedding-multiplier 8 --geglu --apply-layernorm-1p --kv-channels 24
    --norm-placement both"""
EXPERTS = "--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 32"
LATENT = EXPERTS + """ --moe-shared-expert-intermediate-size 64 --multi-latent-attention --qk-layernorm --rotary-interleaved
    --num-query-groups 4 --kv-lora-rank 12 --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 6 """
# name -> (architecture, options after SMALL)
MADE = {
    "yarn": ("llama", YARN + " --untie-embeddings-and-output-weights"),
    "yarn_mscale": ("qwen3", YARN + " --qk-layernorm --mscale 0.5 --mscale-all-dim 0.9"),
    "wide_heads": ("llama", "--kv-channels 24 --apply-layernorm-1p --use-rope-scaling --rotary-base 100 "
                   "--rope-original-max-position-embeddings 16"),
    "qwen2_linear": ("qwen2", "--add-qkv-bias --rotary-seq-len-interpolation-factor 4"),
    "olmo2_tied": ("olmo2", "--norm-placement after --qk-layernorm --qk-layernorm-width all"),
    "olmo3": ("olmo2", "--norm-placement after --qk-layernorm --qk-layernorm-width all --window-size 7,0 "
              "--window-attn-skip-freq [1,1,1,0] --rotary-base-local 10000 --rotary-seq-len-interpolation-factor 4"),
    "gemma_heads": ("gemma", GEMMA.replace("--norm-placement both", "--num-query-groups 1")),
    "gemma2_heads": ("gemma2", GEMMA + " --attn-logit-softcapping 3 --final-logit-softcapping 4 --window-size 7,0 "
               "--window-attn-skip-freq 2"),
    "gemma2_linear": ("gemma2", GEMMA + " --attn-logit-softcapping 3 --final-logit-softcapping 4 --window-size 7,0 "
                      "--window-attn-skip-freq 2 --rotary-seq-len-interpolation-factor 4"),
    "gemma2_whole": ("gemma2", GEMMA + " --attn-logit-softcapping 3 --final-logit-softcapping 4 "
                     "--rotary-seq-len-interpolation-factor 4"),
    "gemma3": ("gemma3", GEMMA + " --qk-layernorm --window-size 7,0 --window-attn-skip-freq [1,0,1,1] --rotary-base 1000000 "
               "--rotary-base-local 10000 --rotary-seq-len-interpolation-factor 8"),
    "gemma3_whole": ("gemma3", GEMMA + " --qk-layernorm --untie-embeddings-and-output-weights"),
    "mixtral_tied": ("llama", EXPERTS),
    "qwen2_moe": ("qwen2moe", EXPERTS + " --add-qkv-bias --moe-router-pre-softmax --moe-shared-expert-gate "
                  "--moe-shared-expert-intermediate-size 48"),
    "qwen3_moe_heads": ("qwen3moe", EXPERTS + " --qk-layernorm --kv-channels 24"),
    "mistral_all": ("llama", "--window-size 63,0"),
    "mistral_some": ("mimo2", "--window-size 7,0 --window-attn-skip-freq 2 --rotary-base-local 100"),
    "phi3_whole": ("phi3", "--rotary-percent 0.5 --untie-embeddings-and-output-weights"),
    "phi3_wide": ("mimo2", "--rotary-percent 0.5 --kv-channels 24"),
    "smollm3_yarn": ("smollm3", YARN + " --no-rope-freq 4"),
    "bloom_groups": ("bloom", "--position-embedding-type alibi --embed-layernorm --untie-embeddings-and-output-weights"),
    "deepseek_v2_lite": ("deepseek2", LATENT + " --moe-router-pre-softmax"),
    "deepseek_v2_yarn": ("deepseek2", LATENT + YARN + " --mscale 0.7 --mscale-all-dim 0.7 --q-lora-rank 10 --moe-router-pre-softmax"),
    "deepseek_v2_plain_yarn": ("deepseek2", LATENT + YARN + " --mscale 0 --mscale-all-dim 0 --moe-router-topk-scaling-factor 2"),
    "deepseek_v3_heads": ("deepseek2", LATENT + " --q-lora-rank 10 --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
                          "--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 2 --moe-router-group-best 2 "
                          "--moe-layer-freq [0]*2+[1]*2 --moe-router-topk-scaling-factor 2.5"),
    "olmoe": ("olmoe", EXPERTS + " --moe-router-pre-softmax --qk-layernorm --qk-layernorm-width all "
              "--num-query-groups 4"),
}


def pairs(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def expected_gpt2(w, layers):
    names = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    found = {"token_embd.weight": w["transformer.wte.weight"], "position_embd.weight": w["transformer.wpe.weight"]}
    for part in ("weight", "bias"):
        found["output_norm." + part] = w["transformer.ln_f." + part]
        for i in range(layers):
            for theirs, ours in names.items():
                found[f"blk.{i}.{ours}.{part}"] = w[f"transformer.h.{i}.{theirs}.{part}"].T
            found[f"blk.{i}.attn_norm.{part}"] = w[f"transformer.h.{i}.ln_1.{part}"]
            found[f"blk.{i}.ffn_norm.{part}"] = w[f"transformer.h.{i}.ln_2.{part}"]
    return found


def llama3_factors(c):
    """what the frequencies are divided by, as Llama 3's own code computes them"""
    r, dim = c.rope_parameters, getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    factors = []
    for i in range(0, dim, 2):
        wave = 2 * math.pi * r["rope_theta"] ** (i / dim)
        smooth = (r["original_max_position_embeddings"] / wave - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
        smooth = min(max(smooth, 0), 1)
        factors.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(factors, np.float32)


BLOOM = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attention.dense": "attn_output",
         "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}


def expected_bloom(w, c):
    found = {"token_embd.weight": w["transformer.word_embeddings.weight"]}
    for part in ("weight", "bias"):
        found["token_embd_norm." + part] = w["transformer.word_embeddings_layernorm." + part]
        found["output_norm." + part] = w["transformer.ln_f." + part]
        for i in range(c.n_layer):
            for theirs, ours in BLOOM.items():
                found[f"blk.{i}.{ours}.{part}"] = w[f"transformer.h.{i}.{theirs}.{part}"]
            x = w[f"transformer.h.{i}.self_attention.query_key_value.{part}"]
            found[f"blk.{i}.attn_qkv.{part}"] = x.reshape(c.n_head, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return found


LATENT_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
                "self_attn.q_b_proj": "attn_q_b", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm"}


def expected_latent(w, at, to, c):
    """of attention in a layer"""
    found = {f"{to}{ours}.weight": w[f"{at}{theirs}.weight"] for theirs, ours in LATENT_NAMES.items() if f"{at}{theirs}.weight" in w}
    of_heads = w[at + "self_attn.kv_b_proj.weight"].reshape(c.num_attention_heads, -1, c.kv_lora_rank)
    found[to + "attn_k_b.weight"] = of_heads[:, :c.qk_nope_head_dim].swapaxes(1, 2)
    found[to + "attn_v_b.weight"] = of_heads[:, c.qk_nope_head_dim:]
    return found


def expected(name, model):
    """name in the file -> array, from transformers' parameters"""
    w = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    c, family = model.config, name.split("_")[0]
    if name == "gpt2":
        return expected_gpt2(w, c.n_layer)
    if name == "bloom":
        return expected_bloom(w, c)
    gain = 1 if family.startswith("gemma") else 0
    found = {"token_embd.weight": w["model.embed_tokens.weight"], "output_norm.weight": w["model.norm.weight"] + np.float32(gain)}
    if not c.tie_word_embeddings:
        found["output.weight"] = w["lm_head.weight"]
    if name == "llama3":
        found["rope_freqs.weight"] = llama3_factors(c)
    norms = {"olmo2": {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"},
             "gemma2": {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
                        "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"},
             }.get(name, {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"})
    norms.update({"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"})
    matrices = {"self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_proj": "attn_q",
                "self_attn.k_proj": "attn_k", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    matrices.update({f"mlp.shared_experts.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")})
    heads = {"attn_q": c.num_attention_heads, "attn_k": getattr(c, "num_key_value_heads", 0)}
    for i in range(c.num_hidden_layers):
        at = f"model.layers.{i}."
        for theirs, ours in norms.items():
            if at + theirs + ".weight" in w:
                found[f"blk.{i}.{ours}.weight"] = w[at + theirs + ".weight"] + np.float32(gain)
        for theirs, ours in matrices.items():
            for part in ("weight", "bias"):
                x = w.get(f"{at}{theirs}.{part}")
                if x is not None:
                    turned = ours in heads and (family if family == "smollm3" else family.removesuffix("3")) in NEIGHBOURS
                    found[f"blk.{i}.{ours}.{part}"] = pairs(x, heads[ours]) if turned else x
        if family == "deepseek":
            found.update(expected_latent(w, at, f"blk.{i}.", c))
        if at + "mlp.gate.e_score_correction_bias" in w:
            found[f"blk.{i}.exp_probs_b.bias"] = w[at + "mlp.gate.e_score_correction_bias"]
        if family == "phi3":                             # as mimo2, which has windows
            found.update(zip([f"blk.{i}.attn_{x}.weight" for x in "qkv"], np.split(w[at + "self_attn.qkv_proj.weight"], [64, 96])))
            found.update(zip([f"blk.{i}.ffn_{x}.weight" for x in ("gate", "up")], np.split(w[at + "mlp.gate_up_proj.weight"], 2)))
        if at + "mlp.gate.weight" in w:
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
        if t.name == "rope_freqs.weight":
            check(name, "other factors of frequencies", np.abs(t.data / x - 1).max() < 1e-6)
        elif t.tensor_type.name == q:
            bytes_of = gguf.quants.quantize(x, t.tensor_type).tobytes()
            check(name, f"{t.name} differs in {q}", bytes_of == t.data.tobytes())
    return reader


def loss_by_llama(model, ids):
    model.reset()
    model.eval(ids)
    logits = np.array(model.scores[:len(ids)], np.float64)
    return np.mean([np.log(np.exp(row - row.max()).sum()) + row.max() - row[t] for row, t in zip(logits[:-1], ids[1:])])


def llama(path):
    return llama_cpp.Llama(model_path=path, n_ctx=64, logits_all=True, verbose=False, n_threads=2, flash_attn=False,
                           type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)


def by_llama(name, path, load, work):
    """How far llama.cpp's loss is from jotun's; greedy tokens are equal."""
    model = llama(path)
    ids = model.tokenize(PROMPT.encode(), add_bos=False, special=False)
    check(name, f"llama.cpp's tokens are {ids}", ids == list(PROMPT.encode()))
    out = []
    for token in model.generate(ids, temp=0, top_k=1, repeat_penalty=1.0):
        if token == model.token_eos() or len(out) == 32:
            break
        out.append(token)
    said = comparison.jotun_bytes("generate", "--load", load, "--prompt", PROMPT, "--max-new-tokens", 32, "--temperature", 0)
    ours = list(said.removeprefix(PROMPT.encode()).removesuffix(b"\n"))
    check(name, f"greedy tokens {ours} are not llama.cpp's {out}", ours == out and len(out) > 0)
    text = os.path.join(work, "text")
    with open(text, "w") as f:
        f.write(hf_golden.TEXT)
    loss = json.loads(jotun("eval", "perplexity", "--load", load, "--text", text, "--tokenizer", "bytes"))["loss"]
    off = abs(loss_by_llama(model, list(hf_golden.TEXT.encode())) - loss)
    check(name, f"llama.cpp's loss differs from {loss:.6f} by {off:.2g}", off < 1e-3)      # its GELU is a table in F16
    return f"loss {loss:.4f}, llama.cpp's differs by {off:.1e}; {len(set(out))} of {len(out)} greedy tokens differ from each other"


def opens(name, path):
    if llama_cpp:
        model = llama_cpp.Llama(model_path=path, n_ctx=64, verbose=False, n_threads=2)
        check(name, f"{path} says nothing", len(model.create_completion(PROMPT, max_tokens=2)["choices"]) == 1)


def compare(name, work):
    at = lambda leaf: os.path.join(work, name + leaf)
    model = hf_golden.make(name, wide=True, **CHANGED.get(name, {}))
    model.save_pretrained(at("-theirs"))
    jotun("convert", "--to", "jotun", "--input", at("-theirs"), "--output", at("-ours"), "--tokenizer", "bytes")
    want = expected(name, model)
    for word in ("F32", "F16", "BF16", "Q8_0"):
        path = at(f"-{word}.gguf")
        jotun("convert", "--to", "gguf", "--output-dtype", word.lower(), "--input", at("-ours"), "--output", path)
        reader = tensors_equal(name, path, want, gguf.GGMLQuantizationType[word])
        opens(name, path)
    tokens = reader.fields["tokenizer.ggml.tokens"]
    check(name, "another number of tokens", len(tokens.data) == hf_golden.VOCABULARY)
    more = "; " + by_llama(name, at("-F32.gguf"), at("-ours"), work) if llama_cpp else ""
    print(f"{name:12s} {len(want)} tensors in F32, F16, BF16, Q8_0{more}")


def made(name, work):
    at = lambda leaf: os.path.join(work, "made-" + name + leaf)
    architecture, options = MADE[name]
    base = SMALL.replace("--swiglu", "") if "--geglu" in options else LAYER_NORM if "alibi" in options else SMALL
    words = base.split() + options.split()
    jotun("train", "--mock-data", "--tokenizer", "bytes", "--train-iters", 1, "--micro-batch-size", 1, "--global-batch-size", 1,
          "--lr", "1e-2", "--save", at(""), *words)
    jotun("convert", "--to", "gguf", "--output-dtype", "f32", "--input", at(""), "--output", at(".gguf"))
    found = gguf.GGUFReader(at(".gguf")).fields["general.architecture"].contents()
    check(name, f"it is {found}, not {architecture}", found == architecture)
    print(f"{name:12s} {architecture}{'; ' + by_llama(name, at('.gguf'), at(''), work) if llama_cpp else ''}", flush=True)


def ids_alone(work):
    """A model without a tokenizer: llama.cpp computes with ids."""
    at = lambda leaf: os.path.join(work, "ids" + leaf)
    hf_golden.make("llama", wide=True).save_pretrained(at("-theirs"))
    jotun("convert", "--to", "jotun", "--input", at("-theirs"), "--output", at("-ours"))
    jotun("convert", "--to", "gguf", "--output-dtype", "f32", "--input", at("-ours"), "--output", at(".gguf"))
    check("ids", "another kind of tokenizer", gguf.GGUFReader(at(".gguf")).fields["tokenizer.ggml.model"].contents() == "no_vocab")
    if not llama_cpp:
        return
    with open(at(".txt"), "w") as f:
        f.write(hf_golden.TEXT)
    loss = json.loads(jotun("eval", "perplexity", "--load", at("-ours"), "--text", at(".txt"), "--tokenizer", "bytes"))["loss"]
    off = abs(loss_by_llama(llama(at(".gguf")), list(hf_golden.TEXT.encode())) - loss)
    check("ids", f"llama.cpp's loss differs from {loss:.6f} by {off:.2g}", off < 1e-3)
    print(f"{'no tokenizer':12s} loss {loss:.4f}, llama.cpp's differs by {off:.1e}", flush=True)


with comparison.temporary() as folder:
    if not sys.argv[1:]:
        ids_alone(folder)
    for model_name in sys.argv[1:] or TRANSFORMERS + tuple(MADE):
        (made if model_name in MADE else compare)(model_name, folder)
comparison.end()
