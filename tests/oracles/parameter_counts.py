#!/usr/bin/python3
"""Makes tests/golden/presets/parameters.txt: of each preset of --model the number of parameters that Hugging Face transformers counts for
the same shape, on the meta device, so that no memory is taken. Tied weights count once. Beside it the total that the model's publisher gives,
where it gives one to the last digit; both have to agree.

    python3 tests/oracles/parameter_counts.py [--check] tests/golden/presets/parameters.txt
"""
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM


def gpt(layers, hidden, heads, positions=1024, vocabulary=50257):
    return transformers.GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, n_positions=positions, vocab_size=vocabulary)


def bloom(layers, hidden, heads):
    return transformers.BloomConfig(n_layer=layers, hidden_size=hidden, n_head=heads, vocab_size=250880)


def of(kind, layers, hidden, ffn, heads, groups, vocabulary, tied=False, dim=None, **more):
    """kind: the class of the configuration; dim: channels of a head, where not hidden / heads"""
    if dim:
        more["head_dim"] = dim
    for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
        more[token] = None
    return kind(num_hidden_layers=layers, hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads, num_key_value_heads=groups,
                vocab_size=vocabulary, tie_word_embeddings=tied, **more)


T = transformers
L, Q2, Q3, O2 = T.LlamaConfig, T.Qwen2Config, T.Qwen3Config, T.Olmo2Config
G1, G2, G3, MI, MX, Q3M = T.GemmaConfig, T.Gemma2Config, T.Gemma3TextConfig, T.MistralConfig, T.MixtralConfig, T.Qwen3MoeConfig
# name: configuration, published total or 0
PRESETS = {
    "gpt2-124m": (gpt(12, 768, 12), 124439808), "gpt2-355m": (gpt(24, 1024, 16), 354823168),
    "gpt2-774m": (gpt(36, 1280, 20), 774030080), "gpt2-1.5b": (gpt(48, 1600, 25), 1557611200),
    "gpt3-125m": (gpt(12, 768, 12, 2048), 0), "gpt3-350m": (gpt(24, 1024, 16, 2048), 0), "gpt3-760m": (gpt(24, 1536, 16, 2048), 0),
    "gpt3-1.3b": (gpt(24, 2048, 16, 2048), 0), "gpt3-2.7b": (gpt(32, 2560, 32, 2048), 0), "gpt3-6.7b": (gpt(32, 4096, 32, 2048), 0),
    "gpt3-13b": (gpt(40, 5120, 40, 2048), 0), "gpt3-175b": (gpt(96, 12288, 96, 2048), 0),
    "megatron-1.2b": (gpt(40, 1536, 16, 1024, 51200), 0), "megatron-2.5b": (gpt(54, 1920, 20, 1024, 51200), 0),
    "megatron-4.2b": (gpt(64, 2304, 24, 1024, 51200), 0), "megatron-8.3b": (gpt(72, 3072, 32, 1024, 51200), 0),
    "megatron-1.7b": (gpt(24, 2304, 24, 2048, 51200), 0), "megatron-3.6b": (gpt(30, 3072, 32, 2048, 51200), 0),
    "megatron-7.5b": (gpt(36, 4096, 32, 2048, 51200), 0), "megatron-18b": (gpt(40, 6144, 48, 2048, 51200), 0),
    "megatron-39b": (gpt(48, 8192, 64, 2048, 51200), 0), "megatron-76b": (gpt(60, 10240, 80, 2048, 51200), 0),
    "megatron-145b": (gpt(80, 12288, 96, 2048, 51200), 0), "megatron-310b": (gpt(96, 16384, 128, 2048, 51200), 0),
    "megatron-530b": (gpt(105, 20480, 128, 2048, 51200), 0), "megatron-1t": (gpt(128, 25600, 160, 2048, 51200), 0),
    "bloom-560m": (bloom(24, 1024, 16), 559214592), "bloom-1b1": (bloom(24, 1536, 16), 1065314304), "bloom-1b7": (bloom(24, 2048, 16), 1722408960),
    "bloom-3b": (bloom(30, 2560, 32), 3002557440), "bloom-7b1": (bloom(30, 4096, 32), 7069016064), "bloom-176b": (bloom(70, 14336, 112), 176247271424),
    "llama1-7b": (of(L, 32, 4096, 11008, 32, 32, 32000), 6738415616), "llama1-13b": (of(L, 40, 5120, 13824, 40, 40, 32000), 13015864320),
    "llama1-30b": (of(L, 60, 6656, 17920, 52, 52, 32000), 32528943616), "llama1-65b": (of(L, 80, 8192, 22016, 64, 64, 32000), 65285660672),
    "llama2-7b": (of(L, 32, 4096, 11008, 32, 32, 32000), 6738415616), "llama2-13b": (of(L, 40, 5120, 13824, 40, 40, 32000), 13015864320),
    "llama2-70b": (of(L, 80, 8192, 28672, 64, 8, 32000), 68976648192),
    "llama3-8b": (of(L, 32, 4096, 14336, 32, 8, 128256), 8030261248), "llama3-70b": (of(L, 80, 8192, 28672, 64, 8, 128256), 70553706496),
    "llama3.1-8b": (of(L, 32, 4096, 14336, 32, 8, 128256), 8030261248), "llama3.1-70b": (of(L, 80, 8192, 28672, 64, 8, 128256), 70553706496),
    "llama3.1-405b": (of(L, 126, 16384, 53248, 128, 8, 128256), 405853388800),
    "llama3.2-1b": (of(L, 16, 2048, 8192, 32, 8, 128256, True), 1235814400), "llama3.2-3b": (of(L, 28, 3072, 8192, 24, 8, 128256, True), 3212749824),
    "tinyllama-1.1b": (of(L, 22, 2048, 5632, 32, 4, 32000), 1100048384),
    "agpt-7b": (of(L, 32, 4096, 11008, 32, 8, 32000), 0),
    "smollm-135m": (of(L, 30, 576, 1536, 9, 3, 49152, True), 134515008), "smollm-360m": (of(L, 32, 960, 2560, 15, 5, 49152, True), 361821120),
    "smollm-1.7b": (of(L, 24, 2048, 8192, 32, 32, 49152, True), 1711376384),
    "smollm2-135m": (of(L, 30, 576, 1536, 9, 3, 49152, True), 134515008), "smollm2-360m": (of(L, 32, 960, 2560, 15, 5, 49152, True), 361821120),
    "smollm2-1.7b": (of(L, 24, 2048, 8192, 32, 32, 49152, True), 1711376384),
    "mistral-7b": (of(MI, 32, 4096, 14336, 32, 8, 32000), 7241732096),
    "qwen2-0.5b": (of(Q2, 24, 896, 4864, 14, 2, 151936, True), 494032768), "qwen2-1.5b": (of(Q2, 28, 1536, 8960, 12, 2, 151936, True), 1543714304),
    "qwen2-7b": (of(Q2, 28, 3584, 18944, 28, 4, 152064), 7615616512), "qwen2-72b": (of(Q2, 80, 8192, 29568, 64, 8, 152064), 72706203648),
    "qwen2-57b-a14b": (of(T.Qwen2MoeConfig, 28, 3584, 18944, 28, 4, 151936, num_experts=64, num_experts_per_tok=8, moe_intermediate_size=2560,
                          shared_expert_intermediate_size=20480), 0),
    "qwen2.5-0.5b": (of(Q2, 24, 896, 4864, 14, 2, 151936, True), 494032768), "qwen2.5-1.5b": (of(Q2, 28, 1536, 8960, 12, 2, 151936, True), 1543714304),
    "qwen2.5-3b": (of(Q2, 36, 2048, 11008, 16, 2, 151936, True), 3085938688), "qwen2.5-7b": (of(Q2, 28, 3584, 18944, 28, 4, 152064), 7615616512),
    "qwen2.5-14b": (of(Q2, 48, 5120, 13824, 40, 8, 152064), 14770033664), "qwen2.5-32b": (of(Q2, 64, 5120, 27648, 40, 8, 152064), 32763876352),
    "qwen2.5-72b": (of(Q2, 80, 8192, 29568, 64, 8, 152064), 72706203648),
    "qwen3-0.6b": (of(Q3, 28, 1024, 3072, 16, 8, 151936, True, 128), 596049920), "qwen3-1.7b": (of(Q3, 28, 2048, 6144, 16, 8, 151936, True, 128), 1720574976),
    "qwen3-4b": (of(Q3, 36, 2560, 9728, 32, 8, 151936, True, 128), 4022468096), "qwen3-8b": (of(Q3, 36, 4096, 12288, 32, 8, 151936, False, 128), 8190735360),
    "qwen3-14b": (of(Q3, 40, 5120, 17408, 40, 8, 151936, False, 128), 14768307200),
    "qwen3-32b": (of(Q3, 64, 5120, 25600, 64, 8, 151936, False, 128), 32762123264),
    "qwen3-30b-a3b": (of(Q3M, 48, 2048, 6144, 32, 4, 151936, False, 128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768), 30532122624),
    "qwen3-235b-a22b": (of(Q3M, 94, 4096, 12288, 64, 4, 151936, False, 128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=1536), 235093634560),
    "olmo2-1b": (of(O2, 16, 2048, 8192, 16, 16, 100352), 1484916736), "olmo2-7b": (of(O2, 32, 4096, 11008, 32, 32, 100352), 7298617344),
    "olmo2-13b": (of(O2, 40, 5120, 13824, 40, 40, 100352), 0), "olmo2-32b": (of(O2, 64, 5120, 27648, 40, 8, 100352), 0),
    "gemma-2b": (of(G1, 18, 2048, 16384, 8, 1, 256000, True, 256), 2506172416), "gemma-7b": (of(G1, 28, 3072, 24576, 16, 16, 256000, True, 256), 8537680896),
    "gemma2-2b": (of(G2, 26, 2304, 9216, 8, 4, 256000, True, 256), 2614341888), "gemma2-9b": (of(G2, 42, 3584, 14336, 16, 8, 256000, True, 256), 9241705984),
    "gemma2-27b": (of(G2, 46, 4608, 36864, 32, 16, 256000, True, 128), 27227128320),
    "gemma3-270m": (of(G3, 18, 640, 2048, 4, 1, 262144, True, 256), 268098176), "gemma3-1b": (of(G3, 26, 1152, 6912, 4, 1, 262144, True, 256), 999885952),
    "mixtral-8x7b": (of(MX, 32, 4096, 14336, 32, 8, 32000), 46702792704), "mixtral-8x22b": (of(MX, 56, 6144, 16384, 48, 8, 32000), 140620634112),
}


def count_of(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(p.numel() for p in model.parameters())                       # a tied tensor is one parameter


def main(check, path):
    counts = {}
    for name, (config, published) in PRESETS.items():
        counts[name] = count_of(config)
        agrees = "" if not published else " as published" if published == counts[name] else " and NOT as published: %d" % published
        print("%-16s %15d%s" % (name, counts[name], agrees))
        if published not in (0, counts[name]):
            sys.exit(1)
    text = "".join("%s %d\n" % x for x in counts.items())
    if check and open(path).read() != text:
        sys.exit(f"{path} differs from what transformers {transformers.__version__} counts")
    if not check:
        open(path, "w").write(text)


if __name__ == "__main__":
    main("--check" in sys.argv, sys.argv[-1])
