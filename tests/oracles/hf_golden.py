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
        "mixtral": (t.MixtralConfig, dict(SMALL, num_local_experts=4), t.MixtralForCausalLM),
    }


def make(name):
    """A model whose vectors (biases, gains of norms) are random as well."""
    import torch
    torch.manual_seed(len(name) + ord(name[-1]))
    config, arguments, kind = models()[name]
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
