"""Tiny models of transformers, their losses and logits, for tests/convert/hf.py; tests/outside/hf.py makes the same models
anew.   python hf_golden.py tests/golden/hf [NAME...]   (needs torch and transformers; NAME: models that are new or changed)

models.json has all models with weights by a formula (`values`), so that of each only its config.json, its logits and the shapes of
its tensors are kept: write_folder makes the folder without torch. tests/golden/hf/gpt2 and llama are folders that transformers
wrote, with random weights, for tests in C and for steps of training."""
import base64
import json
import os
import struct
import sys
import tempfile
import zlib

TEXT = "The quick brown fox jumps over the lazy dog; 17 words more."        # one window: fewer bytes than positions
VOCABULARY, POSITIONS = 257, 64
SAMPLES = 8                                             # of POSITIONS tokens: one batch has the whole text
CORPUS = "".join(f"{i} times {i + 1} is {i * (i + 1)}; " for i in range(60))[:SAMPLES * POSITIONS + 1]
SMALL = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=40, max_position_embeddings=POSITIONS, bos_token_id=256, eos_token_id=256)


def models():
    """name -> (class of the config, its arguments, class of the model)"""
    import transformers as t
    yarn = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.25)
    latent = dict(SMALL, num_hidden_layers=3, num_key_value_heads=4, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4,
                  v_head_dim=6, q_lora_rank=10, first_k_dense_replace=1, n_routed_experts=8, moe_intermediate_size=16,
                  num_experts_per_tok=3)
    plain = dict(rope_type="default", rope_theta=100.0)
    return {
        "bloom": (t.BloomConfig, dict(vocab_size=VOCABULARY, n_layer=2, n_head=6, hidden_size=24, seq_length=POSITIONS, bos_token_id=256,
                                      eos_token_id=256), t.BloomForCausalLM),
        "gpt2": (t.GPT2Config, dict(vocab_size=VOCABULARY, n_layer=2, n_head=4, n_embd=16, n_positions=POSITIONS,
                                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=256, eos_token_id=256),
                 t.GPT2LMHeadModel),
        "llama": (t.LlamaConfig, dict(SMALL, num_key_value_heads=4), t.LlamaForCausalLM),
        "llama_tied": (t.LlamaConfig, dict(SMALL, tie_word_embeddings=True, head_dim=8), t.LlamaForCausalLM),
        "mistral": (t.MistralConfig, dict(SMALL, sliding_window=16), t.MistralForCausalLM),
        "qwen2": (t.Qwen2Config, dict(SMALL), t.Qwen2ForCausalLM),
        "llama3": (t.LlamaConfig, dict(SMALL, tie_word_embeddings=True, rope_parameters=dict(
            rope_type="llama3", rope_theta=100.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32)), t.LlamaForCausalLM),
        "llama_linear": (t.LlamaConfig, dict(SMALL, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
                         t.LlamaForCausalLM),
        "qwen3": (t.Qwen3Config, dict(SMALL, head_dim=8), t.Qwen3ForCausalLM),
        "olmo2": (t.Olmo2Config, dict(SMALL), t.Olmo2ForCausalLM),
        "gemma": (t.GemmaConfig, dict(SMALL, head_dim=8, num_key_value_heads=1), t.GemmaForCausalLM),
        "gemma2": (t.Gemma2Config, dict(SMALL, head_dim=8, sliding_window=16, query_pre_attn_scalar=24,
                                        attn_logit_softcapping=2.0, final_logit_softcapping=3.0), t.Gemma2ForCausalLM),
        "qwen3_moe": (t.Qwen3MoeConfig, dict(SMALL, head_dim=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                             norm_topk_prob=True), t.Qwen3MoeForCausalLM),
        "qwen3_moe_dense": (t.Qwen3MoeConfig, dict(SMALL, num_hidden_layers=4, head_dim=4, num_experts=4, num_experts_per_tok=2,
                                                   moe_intermediate_size=24, decoder_sparse_step=2, mlp_only_layers=[3],
                                                   use_sliding_window=True, sliding_window=16), t.Qwen3MoeForCausalLM),
        "mixtral": (t.MixtralConfig, dict(SMALL, num_local_experts=4), t.MixtralForCausalLM),
        "llama_bias": (t.LlamaConfig, dict(SMALL, attention_bias=True), t.LlamaForCausalLM),
        "llama_mlp_bias": (t.LlamaConfig, dict(SMALL, mlp_bias=True), t.LlamaForCausalLM),
        "llama_biases": (t.LlamaConfig, dict(SMALL, attention_bias=True, mlp_bias=True), t.LlamaForCausalLM),
        "qwen2_window": (t.Qwen2Config, dict(SMALL, num_hidden_layers=3, use_sliding_window=True, sliding_window=16, max_window_layers=1),
                         t.Qwen2ForCausalLM),
        "qwen3_yarn": (t.Qwen3Config, dict(SMALL, head_dim=8, attention_bias=True, rope_parameters=yarn), t.Qwen3ForCausalLM),
        "qwen3_moe_softmax": (t.Qwen3MoeConfig, dict(SMALL, head_dim=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                     norm_topk_prob=False), t.Qwen3MoeForCausalLM),
        "gemma3": (t.Gemma3TextConfig, dict(SMALL, num_hidden_layers=6, head_dim=8, sliding_window=8, query_pre_attn_scalar=24,
                                            rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1000.0, factor=8.0),
                                                                 sliding_attention=plain)), t.Gemma3ForCausalLM),
        "smollm3": (t.SmolLM3Config, dict(SMALL, num_hidden_layers=4, pad_token_id=0), t.SmolLM3ForCausalLM),
        "smollm3_window": (t.SmolLM3Config, dict(SMALL, num_hidden_layers=4, pad_token_id=0, no_rope_layer_interval=2, mlp_bias=True,
                                                 use_sliding_window=True, sliding_window=16), t.SmolLM3ForCausalLM),
        "phi3": (t.Phi3Config, dict(SMALL, hidden_size=32, sliding_window=16, pad_token_id=0, rope_parameters=dict(
            plain, partial_rotary_factor=0.5)), t.Phi3ForCausalLM),
        "deepseek_v2": (t.DeepseekV2Config, dict(latent, q_lora_rank=None, n_shared_experts=2, routed_scaling_factor=2.0),
                        t.DeepseekV2ForCausalLM),
        "deepseek_v2_groups": (t.DeepseekV2Config, dict(latent, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                                        rope_parameters=dict(yarn, mscale=0.7, mscale_all_dim=1.3)),
                               t.DeepseekV2ForCausalLM),
        "deepseek_v3": (t.DeepseekV3Config, dict(latent, n_group=4, topk_group=2, rope_parameters=dict(
            yarn, mscale=1.0, mscale_all_dim=1.0)), t.DeepseekV3ForCausalLM),
        "deepseek_v3_plain": (t.DeepseekV3Config, dict(latent, q_lora_rank=None, n_group=1, topk_group=1, rope_interleave=False, rms_norm_eps=1e-5,
                                                       first_k_dense_replace=0), t.DeepseekV3ForCausalLM),
    }


def make(name, wide=False, **changed):
    """A model whose vectors (biases, gains of norms) are random as well; wide: with rows of whole blocks of 32."""
    import torch
    torch.manual_seed(len(name) + ord(name[-1]))
    config, arguments, kind = models()[name]
    if wide:
        own_width = not name.startswith(("phi3", "deepseek"))        # of heads
        arguments.update({"n_embd": 64} if "n_embd" in arguments else {"hidden_size": 96} if "n_layer" in arguments else
                         {"hidden_size": 64, "intermediate_size": 96, **({"head_dim": 16} if own_width else {})})
    arguments.update(changed)
    model = kind(config(**arguments)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.1 if p.dim() == 1 else 0.05))
        for buffer, x in model.named_buffers():
            if buffer.endswith("e_score_correction_bias"):
                x.add_(torch.randn_like(x) * 0.1)
    return model


# ---- weights by a formula, and what they make ----

ROWS, COLUMNS = (0, 6, 21, 40, 58), range(0, VOCABULARY, 8)       # of the logits of TEXT [positions, VOCABULARY] that are kept


def values(name, count, middle, loud=1.0):
    """`count` numbers around `middle`, which single precision holds exactly but for one rounding; loud: times as far from it"""
    seed, out = zlib.crc32(name.encode()), []
    size = 0.5 if name.endswith(".gate.weight") else 0.08 if any(x in name for x in ("embed_", "lm_head", "wte", "word_embeddings.weight")) else 0.15
    size *= loud
    for i in range(count):
        x = (seed + i) * 2654435761 & 0xffffffff
        x = (x ^ x >> 15) * 2246822519 & 0xffffffff
        x ^= x >> 13
        out.append(middle + size * ((x >> 8) / (1 << 23) - 1))
    return out


def write_folder(model, folder, loud=1.0):
    """config.json and model.safetensors of a model of models.json; a tensor may name another one, of which it is a copy"""
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as out:
        json.dump(model["config"], out)
    header, parts, at = {}, [], 0
    for name, (shape, middle, *copied) in sorted(model["tensors"].items()):
        count = 1
        for n in shape:
            count *= n
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
        parts.append(struct.pack(f"<{count}f", *values(*copied or [name], count, middle, loud)))
        at += 4 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def kept_logits(model):
    """[ROWS, COLUMNS] of a model of models.json, as one list"""
    data = base64.b64decode(model["logits"])
    return struct.unpack(f"<{len(data) // 4}f", data)


def logits_of(model, text):
    import torch
    with torch.no_grad():
        return model(torch.tensor([list(text.encode())])).logits[0]


def by_formula(name):
    """The facts of models.json"""
    import torch
    import transformers
    from safetensors.torch import load_file
    config, arguments, kind = models()[name]
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as work:
        fresh = os.path.join(work, "fresh")
        kind(config(**arguments)).save_pretrained(fresh)
        tensors = load_file(os.path.join(fresh, "model.safetensors"))
        facts = {"config": json.load(open(os.path.join(fresh, "config.json"))), "tensors": {
            k: [list(x.shape), int(x.dim() == 1 and bool((x == 1).all()))] for k, x in sorted(tensors.items())}}
        write_folder(facts, os.path.join(work, "made"))
        model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(work, "made"), dtype=torch.float32).eval()
    logits = logits_of(model, TEXT)[list(ROWS)][:, list(COLUMNS)].reshape(-1).tolist()
    return dict(facts, loss=loss_of(model, TEXT), batch_loss=batch_loss(model),
                logits=base64.b64encode(struct.pack(f"<{len(logits)}f", *logits)).decode())


# ---- losses ----

def loss_of(model, text):
    import torch
    ids = torch.tensor([list(text.encode())])
    with torch.no_grad():
        return model(ids, labels=ids).loss.item()


def batch_loss(model):
    """Mean over all samples of CORPUS, each predicted from its own tokens."""
    import torch
    ids = list(CORPUS.encode())
    x = torch.tensor([ids[i * POSITIONS:(i + 1) * POSITIONS] for i in range(SAMPLES)])
    y = torch.tensor([ids[i * POSITIONS + 1:(i + 1) * POSITIONS + 1] for i in range(SAMPLES)])
    with torch.no_grad():
        return torch.nn.functional.cross_entropy(model(x).logits.reshape(-1, VOCABULARY), y.reshape(-1)).item()


def formula_file(folder, names=()):
    """models.json; names: of these models alone, beside what the file has"""
    import torch
    import transformers
    path = os.path.join(folder, "models.json")
    held = json.load(open(path))["models"] if names else {}
    made = {"torch": torch.__version__, "transformers": transformers.__version__, "text": TEXT, "corpus": CORPUS,
            "samples": SAMPLES, "positions": POSITIONS, "models": {
                name: by_formula(name) if name in names or not names else held[name] for name in models()}}
    with open(path, "w") as out:
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items() if k != "models"]
        rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made["models"].items()]
        out.write("{" + ",\n".join(lines) + ',\n"models": {\n' + ",\n".join(rows) + "\n}}\n")


STORED = ("gpt2", "llama")                              # those with a folder of their own


def main(folder, *names):
    for name in () if names else STORED:
        make(name).save_pretrained(os.path.join(folder, name))
        os.remove(os.path.join(folder, name, "generation_config.json"))
    formula_file(folder, names)


if __name__ == "__main__":
    main(*sys.argv[1:])
