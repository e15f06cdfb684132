#!/usr/bin/python3
"""Makes tests/golden/transformers/*.safetensors: mixtures of experts by Hugging Face transformers, in float32.

    python3 tests/oracles/transformers_moe.py tests/golden/transformers           (transformers 5.23.0 made what is kept)
    python3 tests/oracles/transformers_moe.py --check tests/golden/transformers   (the files are what this version computes)

Nothing of the models is written here: their classes get weights and inputs from the formulas of parity.py, which the tests have
too. mixtral: the loss of a MixtralForCausalLM and the gradient of every tensor. mixtral_block, deepseek_block: output and
gradients of a MixtralSparseMoeBlock, and of a DeepseekV3MoE (sigmoids, groups of experts, biases, a shared expert) and a
Qwen2MoeSparseMoeBlock (a shared expert with a gate) alone.
"""
import sys

import torch
import torch.nn.functional as F
import transformers
from transformers import DeepseekV3Config, MixtralConfig, MixtralForCausalLM, Qwen2MoeConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeSparseMoeBlock

import moe
import parity
from parity import HIDDEN, SEQUENCE, VOCABULARY

TOKENS = 2 * SEQUENCE                                    # of a block alone


def mixtral_config():
    case = moe.CASES["mixtral"]
    return MixtralConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=case["width"], num_hidden_layers=parity.LAYERS,
                         num_attention_heads=parity.HEADS, num_key_value_heads=case["groups"], head_dim=parity.DIM,
                         max_position_embeddings=SEQUENCE, rms_norm_eps=parity.EPSILON, rope_theta=parity.ROPE_BASE,
                         rope_parameters=dict(rope_type="default", rope_theta=parity.ROPE_BASE), num_local_experts=case["experts"],
                         num_experts_per_tok=case["topk"], tie_word_embeddings=False, sliding_window=None, attn_implementation="eager",
                         experts_implementation="eager")


def deepseek_config():
    case = moe.CASES["deepseek"]
    return DeepseekV3Config(hidden_size=HIDDEN, moe_intermediate_size=case["width"], intermediate_size=case["width"], n_routed_experts=case["experts"],
                            num_experts_per_tok=case["topk"], n_group=case["expert_groups"], topk_group=case["group_topk"],
                            routed_scaling_factor=case["scale"], norm_topk_prob=True, n_shared_experts=1, hidden_act="silu", experts_implementation="eager")


def formula(name, dims):
    return parity.weight(name, tuple(dims)).detach().float()


def put(pairs):
    """Each parameter, or part of one, takes the values of a formula; {our name: view}"""
    with torch.no_grad():
        for name, view in pairs.items():
            view.copy_(formula(name, view.shape))


def experts_of(b, block, value):
    """{our name: part} of a block's `value` (parameters, or their gradients)"""
    gate_up = value(block.experts.gate_up_proj)
    width = gate_up.shape[1] // 2
    return {b + "router.weight": value(block.gate.weight), b + "experts.gate.weight": gate_up[:, :width],
            b + "experts.up.weight": gate_up[:, width:], b + "experts.down.weight": value(block.experts.down_proj)}


def shared_of(b, block, value):
    return {b + "mlp.%s.weight" % n: value(getattr(block.shared_experts, n + "_proj").weight) for n in ("gate", "up", "down")}


def tensors_of(model, value):
    out = {"embed.token.weight": value(model.model.embed_tokens.weight), "final.gain": value(model.model.norm.weight),
           "head.weight": value(model.lm_head.weight)}
    for i, layer in enumerate(model.model.layers):
        b = "blocks.%d." % i
        for ours, theirs in dict(query="q_proj", key="k_proj", value="v_proj", out="o_proj").items():
            out[b + "attention.%s.weight" % ours] = value(getattr(layer.self_attn, theirs).weight)
        out[b + "norm1.gain"] = value(layer.input_layernorm.weight)
        out[b + "norm2.gain"] = value(layer.post_attention_layernorm.weight)
        out.update(experts_of(b, layer.mlp, value))
    return out


def whole_model():
    model = MixtralForCausalLM(mixtral_config()).float().eval()
    put(tensors_of(model, lambda x: x.data))
    ids, targets, _, _, _ = parity.batch(moe.CASES["mixtral"])
    logits = model(input_ids=ids, use_cache=False).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
    loss.backward()
    return dict(tensors_of(model, lambda x: x.grad), loss=loss.detach().reshape(1))


def block_alone(block, names):
    put(names(lambda x: x.data))
    x, dy = (formula(n, (TOKENS, HIDDEN)) for n in ("block.x", "block.dy"))
    x.requires_grad_()
    y = block(x[None])[0]
    y.backward(dy)
    return dict(names(lambda p: p.grad), y=y.detach(), dx=x.grad)


def deepseek_block():
    block, b = DeepseekV3MoE(deepseek_config()).float(), "blocks.0."
    with torch.no_grad():
        block.gate.e_score_correction_bias.copy_(formula(b + "router.expert_bias", block.gate.e_score_correction_bias.shape))
    return block_alone(block, lambda value: dict(experts_of(b, block, value), **shared_of(b, block, value)))


def mixtral_block():
    block = MixtralSparseMoeBlock(mixtral_config()).float().eval()
    return block_alone(block, lambda value: experts_of("blocks.0.", block, value))


def qwen2_block():
    """Softmax before selection, its weights as they are, and a shared expert with a gate"""
    case = moe.CASES["mixtral"]
    config = Qwen2MoeConfig(hidden_size=HIDDEN, moe_intermediate_size=case["width"], shared_expert_intermediate_size=14, num_experts=case["experts"],
                            num_experts_per_tok=case["topk"], norm_topk_prob=False, hidden_act="silu", experts_implementation="eager")
    block, b = Qwen2MoeSparseMoeBlock(config).float().eval(), "blocks.0."

    def names(value):
        shared = {b + "mlp.%s.weight" % n: value(getattr(block.shared_expert, n + "_proj").weight) for n in ("gate", "up", "down")}
        return dict(experts_of(b, block, value), **shared, **{b + "shared_gate.weight": value(block.shared_expert_gate.weight)[0]})
    return block_alone(block, names)


def compare(path, tensors):
    kept = parity.load(path)
    if set(kept) != set(tensors):
        sys.exit(f"{path}: other tensors than computed: {sorted(set(kept) ^ set(tensors))}")
    worst = max(((kept[n] - x.reshape(-1).double()).norm() / kept[n].norm()).item() for n, x in tensors.items())
    if not worst <= 1e-6:
        sys.exit(f"{path}: a tensor differs by {worst:.3g} of its norm")
    print(f"{path}: as transformers {transformers.__version__} computes it, to {worst:.1e}")


def main(write, folder):
    for name, made in dict(mixtral=whole_model, mixtral_block=mixtral_block, deepseek_block=deepseek_block, qwen2_block=qwen2_block).items():
        out = {n: x.contiguous() for n, x in made().items()}
        print("%-16s transformers %s, %d tensors, %s" % (name, transformers.__version__, len(out),
              "loss %.7f" % out["loss"].item() if "loss" in out else "output of norm %.6f" % out["y"].norm().item()))
        write("%s/%s.safetensors" % (folder, name), out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(compare if sys.argv[1] == "--check" else parity.save, sys.argv[-1])
