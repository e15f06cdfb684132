#!/usr/bin/python3
"""Makes tests/golden/transformers/attention_*.safetensors: attention modules of Hugging Face transformers, in float64.

    python3 tests/oracles/transformers_attention.py tests/golden/transformers           (transformers 5.23.0 made what is kept)
    python3 tests/oracles/transformers_attention.py --check tests/golden/transformers   (the files are what this version computes)

Nothing of the modules is written here: their classes get weights and inputs from the formulas of parity.py, which the tests have
too (tests/train/transformers_attention_test.c). Each file: output y and gradients of input x and of all tensors, for the gradient dy.
The classes compute angles, norms and softmax in float32 by name; here that name means float64.
"""
import sys

import torch
import transformers
from transformers import (DeepseekV3Config, Gemma2Config, Gemma3TextConfig, GlmConfig, LlamaConfig, Olmo2Config, Qwen2Config, Qwen3Config)
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.glm import modeling_glm
from transformers.models.llama import modeling_llama
from transformers.models.olmo2 import modeling_olmo2
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

import parity
from parity import HIDDEN, SEQUENCE

SINGLE = torch.float32
torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double

SAMPLES = 2
SIZES = dict(hidden_size=HIDDEN, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5,
             max_position_embeddings=64, attn_implementation="eager", vocab_size=23)
PLAIN = dict(rope_type="default", rope_theta=100.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=100.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.25)

# our name: (their module, class of attention, class of rotary embedding, configuration, layer)
CASES = {
    "qwen2": (modeling_qwen2, "Qwen2", Qwen2Config(**SIZES, head_dim=6, rope_parameters=PLAIN), 0),
    "llama31": (modeling_llama, "Llama", LlamaConfig(**SIZES, head_dim=6, rope_parameters=LLAMA3), 0),
    "llama_linear": (modeling_llama, "Llama", LlamaConfig(**SIZES, head_dim=6, rope_parameters=dict(PLAIN, rope_type="linear", factor=4.0)), 0),
    "qwen3_yarn": (modeling_qwen3, "Qwen3", Qwen3Config(**SIZES, head_dim=12, rope_parameters=YARN), 0),
    "qwen3": (modeling_qwen3, "Qwen3", Qwen3Config(**SIZES, head_dim=6, rope_parameters=PLAIN), 0),
    "olmo2": (modeling_olmo2, "Olmo2", Olmo2Config(**SIZES, rope_parameters=PLAIN, head_dim=6), 0),
    "glm": (modeling_glm, "Glm", GlmConfig(**SIZES, head_dim=8, attention_bias=True, rope_parameters=dict(PLAIN, partial_rotary_factor=0.5), pad_token_id=0), 0),
    "gemma2_local": (modeling_gemma2, "Gemma2", Gemma2Config(**SIZES, head_dim=6, rope_parameters=PLAIN, attn_logit_softcapping=2.0,
                                                             query_pre_attn_scalar=10, sliding_window=3), 0),
    "gemma2_global": (modeling_gemma2, "Gemma2", Gemma2Config(**SIZES, head_dim=6, rope_parameters=PLAIN, attn_logit_softcapping=2.0,
                                                              query_pre_attn_scalar=10, sliding_window=3), 1),
}


def gemma3(layer):
    kinds = ["sliding_attention", "full_attention"]
    ropes = dict(sliding_attention=dict(rope_type="default", rope_theta=10.0), full_attention=dict(rope_type="linear", rope_theta=1000.0, factor=8.0))
    return (modeling_gemma3, "Gemma3", Gemma3TextConfig(**SIZES, head_dim=6, layer_types=kinds, rope_parameters=ropes, query_pre_attn_scalar=10, sliding_window=3),
            layer)


CASES["gemma3_local"], CASES["gemma3_global"] = gemma3(0), gemma3(1)
MLA = dict(SIZES, num_key_value_heads=4, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, rms_norm_eps=1e-6)
DEEP_YARN = dict(YARN, mscale=0.7, mscale_all_dim=1.3)
CASES["deepseek_v3"] = (modeling_deepseek_v3, "DeepseekV3", DeepseekV3Config(**MLA, q_lora_rank=7, rope_parameters=PLAIN), 0)
CASES["deepseek_yarn"] = (modeling_deepseek_v3, "DeepseekV3", DeepseekV3Config(**MLA, q_lora_rank=None, rope_parameters=DEEP_YARN), 0)
LATENT = {"query": "q_proj.weight", "query_down": "q_a_proj.weight", "query_up": "q_b_proj.weight", "kv_down": "kv_a_proj_with_mqa.weight", "kv_up": "kv_b_proj.weight",
          "out": "o_proj.weight"}
LATENT_NORMS = {"query_down_norm.gain": "q_a_layernorm.weight", "kv_down_norm.gain": "kv_a_layernorm.weight"}
ZERO_CENTRED = ("gemma3",)                               # a gain is 1 + their weight


def formula(name, dims):
    return parity.weight(name, dims).detach().to(SINGLE).double()


def latent_tensors_of(module, value):
    theirs = dict(module.named_parameters())
    pairs = {**{ours + ".weight": name for ours, name in LATENT.items()}, **LATENT_NORMS}
    return {"blocks.0.attention." + ours: value(theirs[name]) for ours, name in pairs.items() if name in theirs}


def tensors_of(module, value):
    if hasattr(module, "kv_b_proj"):
        return latent_tensors_of(module, value)
    out = {}
    for ours, theirs in dict(query="q_proj", key="k_proj", value="v_proj", out="o_proj").items():
        map_ = getattr(module, theirs)
        out["attention.%s.weight" % ours] = value(map_.weight)
        if map_.bias is not None:
            out["attention.%s.bias" % ours] = value(map_.bias)
    for ours, theirs in dict(query="q_norm", key="k_norm").items():
        if hasattr(module, theirs):
            out["attention.%s_norm.gain" % ours] = value(getattr(module, theirs).weight)
    return {"blocks.0." + name: x for name, x in out.items()}


def rotary(source, family, config, kind):
    made = getattr(source, {"Gemma3": "Gemma3RotaryEmbedding"}.get(family, family + "RotaryEmbedding"))(config)
    positions = torch.arange(SEQUENCE)[None].expand(SAMPLES, -1)
    like = torch.zeros(1, dtype=torch.float64)
    return made(like, positions, kind) if family == "Gemma3" else made(like, positions)


def computed(name, case):
    source, family, config, layer = case
    config._attn_implementation = "eager"
    module = getattr(source, family + "Attention")(config, layer_idx=layer).double().eval()
    with torch.no_grad():
        for ours, x in tensors_of(module, lambda x: x.data).items():
            x.copy_(formula(ours, tuple(x.shape)) - (1 if ours.endswith("gain") and name.startswith(ZERO_CENTRED) else 0))
    x, dy = (formula(n, (SAMPLES, SEQUENCE, HIDDEN)) for n in ("attention.x", "attention.dy"))
    x.requires_grad_()
    at = torch.arange(SEQUENCE)
    back = at[:, None] - at[None, :]
    seen = (back >= 0) & (back < config.sliding_window) if name.endswith("_local") else back >= 0
    mask = torch.zeros(1, 1, SEQUENCE, SEQUENCE, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    kind = config.layer_types[layer] if family == "Gemma3" else None
    y = module(hidden_states=x, position_embeddings=rotary(source, family, config, kind), attention_mask=mask)[0]
    y.backward(dy)
    return dict(tensors_of(module, lambda p: p.grad), y=y.detach(), dx=x.grad)


def main(write, folder):
    for name, case in CASES.items():
        out = computed(name, case)
        assert all(x.dtype == torch.float64 for x in out.values()), name
        write(f"{folder}/attention_{name}.safetensors", out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(parity.compare if sys.argv[1] == "--check" else parity.save, sys.argv[-1])
