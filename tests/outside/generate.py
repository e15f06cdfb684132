"""Greedy text, log-probabilities and beam search of jotun generate beside Hugging Face transformers, on tiny GPT-2, Llama, Mixtral
and Qwen3-MoE folders with random weights: 20 prompts each, alone and together; JOTUN is the program."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers as t
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

VOCABULARY, END, NEW, PROMPTS, BEAMS = 257, 256, 24, 20, 4
SMALL = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, initializer_range=0.5, tie_word_embeddings=False)
MODELS = {
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=VOCABULARY, n_layer=2, n_head=4, n_embd=32, n_positions=256, initializer_range=0.4)),
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SMALL)),
    "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2)),
    "qwen3_moe": lambda: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**SMALL, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)),
}


def generate(jotun, folder, prompts, *words):
    path = os.path.join(folder, "prompts.jsonl")
    with open(path, "w") as f:
        f.writelines(json.dumps({"ids": ids}) + "\n" for ids in prompts)
    done = subprocess.run([jotun, "generate", "--load", "hf:" + folder, "--tokenizer", "bytes", "--prompt-jsonl", path, "--max-new-tokens", str(NEW),
                           *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.args}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_end(ids):
    return ids[:ids.index(END)] if END in ids else ids


def main(jotun, base):
    print(f"torch {torch.__version__}, transformers {t.__version__}")
    failed = False
    for name, make in MODELS.items():
        folder = os.path.join(base, name)
        torch.manual_seed(5)
        model = make().eval()
        model.config.eos_token_id = model.generation_config.eos_token_id = END
        model.config.bos_token_id = model.generation_config.bos_token_id = END
        model.save_pretrained(folder)
        generator = torch.Generator().manual_seed(6)
        prompts = [torch.randint(0, 256, (1 + 7 * i % 40,), generator=generator).tolist() for i in range(PROMPTS)]
        common = dict(max_new_tokens=NEW, do_sample=False, pad_token_id=END, eos_token_id=END, return_dict_in_generate=True, output_scores=True)
        greedy, logprobs, beams, scores = [], [], [], []
        for ids in prompts:
            x = torch.tensor([ids])
            made = model.generate(x, attention_mask=torch.ones_like(x), **common)
            new = made.sequences[0, len(ids):].tolist()
            greedy.append(without_end(new))
            logprobs.append([torch.log_softmax(s[0].double(), -1)[i].item() for s, i in zip(made.scores, new)])
            made = model.generate(x, attention_mask=torch.ones_like(x), num_beams=BEAMS, early_stopping=True, length_penalty=0.7, **common)
            beams.append(without_end(made.sequences[0, len(ids):].tolist()))
            scores.append(made.sequences_scores[0].item())
        alone = [generate(jotun, folder, [ids], "--temperature", 0, "--logprobs", 3)[0] for ids in prompts[:6]]
        for rows, words in [(1, ()), (8, ()), (8, ("--ranks", 2, "--tp", 2)), (8, ("--ranks", 2, "--pp", 2))]:
            out = generate(jotun, folder, prompts, "--temperature", 0, "--logprobs", 3, "--micro-batch-size", rows, *words)
            same = sum(a["ids"] == b for a, b in zip(out, greedy))
            off = max(abs(p - q) for a, b in zip(out, logprobs) for p, q in zip(a["logprobs"], b))
            bits = words or all(a["ids"] == b["ids"] and a["logprobs"] == b["logprobs"] and a["top_logprobs"] == b["top_logprobs"] for a, b in zip(alone, out))
            print(f"{name} greedy, {rows} at once {' '.join(map(str, words))}: {same} of {PROMPTS} texts equal, log-probabilities within {off:.1e}, the bits of one alone: {bool(bits)}")
            failed |= same != PROMPTS or off > 1e-4 or not bits
        for rows in (1, 8):
            out = generate(jotun, folder, prompts, "--num-beams", BEAMS, "--length-penalty", 0.7, "--micro-batch-size", rows)
            same = sum(a["ids"] == b for a, b in zip(out, beams))
            off = max(abs(a["score"] - b) for a, b in zip(out, scores))
            print(f"{name} {BEAMS} beams, {rows} at once: {same} of {PROMPTS} texts equal, scores within {off:.1e}; {sum(len(a['ids']) < NEW for a in out)} ended")
            failed |= same != PROMPTS or off > 1e-5
    sys.exit(failed)


with tempfile.TemporaryDirectory() as scratch:
    main(os.environ.get("JOTUN", os.path.join(os.path.dirname(__file__), "..", "..", "build", "release", "bin", "jotun")), scratch)
