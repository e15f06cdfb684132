"""Tiny random models of transformers and their losses, for tests/convert/hf.py; tests/outside/hf.py makes the same models
anew.   python hf_golden.py tests/golden/hf   (needs torch and transformers)"""
import json
import os
import sys

TEXT = "The quick brown fox jumps over the lazy dog; 17 words more."        # one window: fewer bytes than positions
VOCABULARY, POSITIONS = 257, 64
SAMPLES = 8                                             # of POSITIONS tokens: one batch has the whole text
CORPUS = "".join(f"{i} times {i + 1} is {i * (i + 1)}; " for i in range(60))[:SAMPLES * POSITIONS + 1]
SMALL = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=40, max_position_embeddings=POSITIONS, bos_token_id=256, eos_token_id=256)


def models():
    """name -> (class of the config, its arguments, class of the model)"""
    import transformers as t
    return {
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
        "mixtral": (t.MixtralConfig, dict(SMALL, num_local_experts=4), t.MixtralForCausalLM),
    }


def make(name, wide=False, **changed):
    """A model whose vectors (biases, gains of norms) are random as well; wide: with rows of whole blocks of 32."""
    import torch
    torch.manual_seed(len(name) + ord(name[-1]))
    config, arguments, kind = models()[name]
    if wide:
        arguments.update({"n_embd": 64} if "n_embd" in arguments else
                         {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16})
    arguments.update(changed)
    model = kind(config(**arguments)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.1 if p.dim() == 1 else 0.05))
    return model


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


def main(folder):
    import torch
    import transformers
    facts = {"torch": torch.__version__, "transformers": transformers.__version__, "text": TEXT, "loss": {}, "corpus": CORPUS,
             "samples": SAMPLES, "positions": POSITIONS, "batch_loss": {}}
    for name in models():
        model = make(name)
        model.save_pretrained(os.path.join(folder, name))
        os.remove(os.path.join(folder, name, "generation_config.json"))
        facts["loss"][name] = loss_of(model, TEXT)
        facts["batch_loss"][name] = batch_loss(model)
    with open(os.path.join(folder, "losses.json"), "w") as out:
        json.dump(facts, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
