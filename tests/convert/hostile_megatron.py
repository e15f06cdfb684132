"""Checkpoints of Megatron-LM that are damaged, incomplete or of a model that is not built here: each is refused with a message that says why,
and behind a semicolon what to do."""
import json
import os
import shutil
import subprocess
import sys

import run
import torch_write as tw
from torch_write import Tensor

ARGS = dict(num_layers=2, hidden_size=2, num_attention_heads=1, ffn_hidden_size=2, add_bias_linear=False, tensor_model_parallel_size=2, vocab_size=3,
            padded_vocab_size=4, untie_embeddings_and_output_weights=False)

LATENT = dict(multi_latent_attention=True, position_embedding_type="rope", qk_layernorm=True, kv_lora_rank=2, qk_head_dim=2, qk_pos_emb_head_dim=2, v_head_dim=2)

# Arguments of models that are not built or not read here: what the message says of the value.
REFUSED = [
    ("qk_l2_norm", True, "True"), ("glu_linear_offset", 1.0, "1"), ("activation_func_clamp_value", 7.0, "7"), ("softmax_type", "learnable", "learnable"),
    ("attention_output_gate", True, "True"), ("mtp_num_layers", 1, "1"), ("moe_layer_freq", [0, 2], "a list"),
    ("moe_apply_probs_on_input", True, "True"), ("moe_latent_size", 4, "4"), ("moe_input_jitter_eps", 0.1, "0.1"),
    ("moe_router_load_balancing_type", "sinkhorn", "sinkhorn"), ("moe_router_load_balancing_type", ["aux_loss", "sinkhorn"], "a list"),
    ("experimental_attention_variant", "dsa", "dsa"), ("use_mup", True, "True"), ("spec", ["a", "b"], "a list"), ("hybrid_layer_pattern", "M*", "M*"),
    ("window_size", (1, 2, 3), "a tuple"), ("add_position_embedding", False, "False"), ("lr", [1, 2], "a list")]


def numbers(*shape):
    count = 1
    for size in shape:
        count *= size
    return Tensor([float(i) for i in range(count)], shape)


def legacy(args=None, version=3.0, **change):
    """Files of two tensor-parallel ranks; change: rank -> more tensors, None for one that is missing."""
    files = {}
    for rank in 0, 1:
        model = {"embedding.word_embeddings.weight": numbers(2, 2), "decoder.final_layernorm.weight": numbers(2)}
        for layer in 0, 1:
            name = "decoder.layers.%d." % layer
            model |= {name + "input_layernorm.weight": numbers(2), name + "mlp.linear_fc1.weight": numbers(2, 2), name + "mlp.linear_fc2.weight": numbers(2, 1)}
        model.update(change.get("rank%d" % rank, {}))
        model = {k: v for k, v in model.items() if v is not None}
        value = {"args": tw.Namespace(**dict(ARGS, **(args or {}))), "checkpoint_version": version, "model": model}
        files["mp_rank_%02d/model_optim_rng.pt" % rank] = tw.saved(value)
    return files


WORDS = {"embedding.word_embeddings.weight": ((4, 2), [((0, 0), numbers(2, 2)), ((2, 0), numbers(2, 2))])}


def dist(tensors=None, args=None, **change):
    return tw.torch_dist(dict(WORDS, **(tensors or {})), {"args": tw.Namespace(**dict(ARGS, **(args or {})))}, **change)


def placed(**state):
    def change(places):
        next(iter(places.values())).__dict__.update(state)
    return change


def without(files, name):
    return {k: v for k, v in files.items() if k != name}


QKV = "decoder.layers.self_attention.linear_qkv.weight"


ROTARY, YARN, EXPERTS = {"position_embedding_type": "rope"}, {"position_embedding_type": "yarn", "rotary_scaling_factor": 4.0}, {"num_experts": 4}
# Arguments of models and schedules that are built: the options that they become; None: an option that is not there.
TAKEN = [
    (dict(ROTARY, no_rope_freq=2), {"no-rope-freq": "2"}),
    (dict(YARN, no_rope_freq=[0, 1]), {"no-rope-freq": "[0,1]"}),
    (dict(ROTARY, use_rope_scaling=True, rope_scaling_factor=32.0), {"use-rope-scaling": True, "rope-scaling-factor": 32.0}),
    ({"position_embedding_type": None, "use_rotary_position_embeddings": True, "add_position_embedding": False, "rotary_base": 5000},
     {"position-embedding-type": "rope", "rotary-base": 5000}),
    (dict(YARN, rotary_base=150000, rotary_scaling_factor=32.0, yarn_original_max_position_embeddings=4096, yarn_beta_fast=16.0, yarn_beta_slow=2.0,
          yarn_correction_range_round_to_int=False),
     {"position-embedding-type": "yarn", "rotary-base": 150000, "rotary-scaling-factor": 32.0, "yarn-original-max-position-embeddings": 4096,
      "yarn-beta-fast": 16.0, "yarn-beta-slow": 2.0, "no-yarn-correction-range-round-to-int": True}),
    ({"window_size": (7, 0), "window_attn_skip_freq": [1, 0]}, {"window-size": "7,0", "window-attn-skip-freq": "[1,0]"}),
    (dict(YARN, rotary_scaling_factor=1.0, yarn_rotary_scaling_factor=8.0), {"rotary-scaling-factor": 8.0}),
    (dict(EXPERTS, moe_layer_freq=[0, 1], moe_shared_expert_intermediate_size=4, moe_shared_expert_gate=True),
     {"moe-layer-freq": "[0,1]", "moe-shared-expert-gate": True}),
    (dict(EXPERTS, moe_router_num_groups=2, moe_router_group_topk=1), {"moe-router-num-groups": 2, "moe-router-group-topk": 1}),
    (dict(EXPERTS, moe_expert_capacity_factor=1.5, moe_token_drop_policy="position"),
     {"moe-expert-capacity-factor": 1.5, "moe-token-drop-policy": "position"}),
    (dict(EXPERTS, moe_router_load_balancing_type=["aux_loss"], moe_aux_loss_coeff=[0.01]), {"moe-aux-loss-coeff": 0.01, "moe-router-load-balancing-type": "aux_loss"}),
    (dict(EXPERTS, moe_router_load_balancing_type="none"), {"moe-router-load-balancing-type": "none"}),
    ({"quick_geglu": True, "bias_gelu_fusion": False}, {"quick-geglu": True}),
    ({"bias_gelu_fusion": False}, {"gelu-approximate": "none"}),
    ({"decoupled_lr": 0.5, "decoupled_min_lr": 0.25, "lr_decay_samples": 640, "lr_warmup_iters": 0, "lr_warmup_samples": 64, "lr_warmup_init": 0.125},
     {"decoupled-lr": 0.5, "decoupled-min-lr": 0.25, "lr-decay-samples": 640, "lr-warmup-iters": None, "lr-warmup-samples": 64, "lr-warmup-init": 0.125}),
    ({"lr_decay_style": "WSD", "lr_wsd_decay_style": "minus_sqrt", "lr_wsd_decay_iters": 7, "lr_wsd_decay_samples": None, "lr_warmup_fraction": 0.25},
     {"lr-wsd-decay-style": "minus_sqrt", "lr-wsd-decay-iters": 7, "lr-wsd-decay-samples": None, "lr-warmup-fraction": 0.25}),
    ({"lr_decay_style": "WSD", "lr_wsd_decay_samples": 56, "lr_warmup_iters": 3, "lr_warmup_samples": 0},
     {"lr-wsd-decay-samples": 56, "lr-warmup-iters": 3, "lr-warmup-samples": None}),
    ({"lr_decay_style": "cosine", "lr_wsd_decay_style": "exponential", "decoupled_lr": None}, {"lr-wsd-decay-style": None, "decoupled-lr": None}),
    ({"weight_decay_incr_style": "linear", "start_weight_decay": 0.0, "end_weight_decay": 0.5, "sgd_momentum": 0.75},
     {"weight-decay-incr-style": "linear", "start-weight-decay": 0.0, "end-weight-decay": 0.5, "sgd-momentum": 0.75}),
    ({"weight_decay_incr_style": "constant", "start_weight_decay": 0.5, "end_weight_decay": 0.5},
     {"weight-decay-incr-style": "constant", "start-weight-decay": None, "end-weight-decay": None}),
]


def cases():
    honest, whole = legacy(), dist()
    return {
        "a rank that is missing": (without(honest, "mp_rank_01/model_optim_rng.pt"), "mp_rank_01/model_optim_rng.pt: cannot be read"),
        "another shape on rank 1": (legacy(rank1={"decoder.layers.0.mlp.linear_fc1.weight": numbers(3, 2)}), "is another one on tensor-parallel rank 1"),
        "a tensor that rank 1 lacks": (legacy(rank1={"decoder.layers.0.mlp.linear_fc1.weight": None}), "other tensors than rank 0"),
        "an unknown tensor": (legacy(rank0={"decoder.mamba.weight": numbers(1)}, rank1={"decoder.mamba.weight": numbers(1)}), "'decoder.mamba.weight' is none"),
        "a layer too few": (legacy({"num_layers": 3}), "have 2 layers together, its argument num_layers is 3"),
        "no number of layers": (legacy({"num_layers": None}), "have no num_layers"),
        "an impossible number of layers": (legacy({"num_layers": 1 << 40}), "is no number of layers"),
        "2^40 ranks": (legacy({"tensor_model_parallel_size": 1 << 40}), "tensor_model_parallel_size is no size"),
        "65,536 x 2 ranks": (legacy({"tensor_model_parallel_size": 65536, "pipeline_model_parallel_size": 2}), "more than 65536 ranks"),
        "an old order of query, key, value": (legacy(version=1.0), "checkpoint_version is 1"),
        "norms after the residual": (legacy({"apply_residual_connection_post_layernorm": True}),
                                     "apply_residual_connection_post_layernorm is True, and only False is read"),
        "latent attention without norms": (legacy(LATENT | {"qk_layernorm": False}), "qk_layernorm is False, and only True is read"),
        "latent attention of learned positions": (legacy(LATENT | {"position_embedding_type": "learned_absolute"}), "neither rope nor none"),
        "latent attention without a rank": (legacy(LATENT | {"kv_lora_rank": None}), "have no kv_lora_rank"),
        "ranks whose sum overflows": (legacy(LATENT | {"kv_lora_rank": 2**63 - 1}), "kv_lora_rank is no size"),
        "a scale of scores without YaRN": (legacy(LATENT | {"rope_type": "rope", "rotary_scaling_factor": 4.0, "mscale_all_dim": 0.5}), "mscale_all_dim 0.5"),
        "a window of texts": (legacy({"window_size": ("a", 0)}), "window_size is a tuple, and has to be two numbers"),
        "a number as the kind of positions": (legacy({"position_embedding_type": 5}, rank1={"decoder.mamba.weight": numbers(1)}, rank0={"decoder.mamba.weight": numbers(1)}),
                                              "'decoder.mamba.weight' is none"),
        "DeepSpeed's files": ({"layer_01-model_00-model_states.pt": b"", "mp_rank_00_model_states.pt": b""}, "deepspeed_to_megatron.py"),
        "DeepSpeed's folder": ({"latest": b"global_step10", "global_step10/mp_rank_00_model_states.pt": b""}, "deepspeed_to_megatron.py"),
        **{"%s=%r" % (name, value): (legacy({"num_experts": 2, name: value}), "%s is %s, and " % (name, says)) for name, value, says in REFUSED},
        "YaRN without a factor": (legacy({"position_embedding_type": "yarn"}), "have no rotary_scaling_factor, which YaRN needs"),
        "layers that are no 0 and 1": (legacy(dict(ROTARY, no_rope_freq=[0, 2])), "no_rope_freq is a list, and has to be a number, or a list of 0 and 1"),
        "experts of another size": (legacy({"num_experts": 2, "expert_tensor_parallel_size": 1}), "experts of another tensor-parallel size"),
        "a text as a size": (legacy({"hidden_size": tw.Namespace()}), "hidden_size is an object, and has to be a number or a text"),
        "no arguments": ({"mp_rank_00/model_optim_rng.pt": tw.saved({"model": {}, "checkpoint_version": 3.0})}, "no arguments of Megatron-LM"),
        "a tensor of integers": (legacy(rank0={"output_layer.weight": Tensor([1, 2], (1, 2), "int64")}, rank1={"output_layer.weight": Tensor([1, 2], (1, 2), "int64")},
                                        args={"untie_embeddings_and_output_weights": True}), "is of type int64"),
        "half a gate": (legacy({"swiglu": True}, **{"rank%d" % r: {"decoder.layers.0.mlp.linear_fc1.weight": numbers(3, 2)} for r in (0, 1)}),
                        "tensor parallelism cannot have sharded"),
        "a file that is cut": (dict(honest, **{"mp_rank_01/model_optim_rng.pt": honest["mp_rank_01/model_optim_rng.pt"][:-40]}), "truncated or damaged"),
        "no file of parts": (without(whole, "__0_0.distcp"), "__0_0.distcp: cannot be read"),
        "metadata of another kind": (dict(whole, **{".metadata": tw.pickled({"a": 1})[0]}), "neither common.pt nor common_state"),
        "a part in another folder": (dist(places=placed(relative_path="../../etc/passwd")), "not one of its own"),
        "a part in a file by its whole path": (dist(places=placed(relative_path="/etc/passwd")), "not one of its own"),
        "a part beyond its file": (dist(places=placed(offset=1 << 40)), "is outside of"),
        "a part before its file": (dist(places=placed(offset=-1)), "has no place in a file"),
        "a part of 2^62 bytes": (dist(places=placed(length=1 << 62)), "is outside of"),
        "a part that begins elsewhere": (dist(places=placed(offset=64)), "not a file of torch.save"),
        "a transformed part": (dist(places=placed(transform_descriptors=["zstd"])), "is compressed"),
        "parts that overlap": (dist({"embedding.word_embeddings.weight": ((4, 2), [((0, 0), numbers(2, 2)), ((1, 0), numbers(2, 2))])}), "hold the same elements"),
        "parts with a gap": (dist({"embedding.word_embeddings.weight": ((4, 2), [((0, 0), numbers(2, 2))])}), "embedding.word_embeddings.weight"),
        "a part that reaches beyond": (dist({"embedding.word_embeddings.weight": ((4, 2), [((3, 0), numbers(2, 2))])}), "reaches beyond it"),
        "an offset of 2^62": (dist({"embedding.word_embeddings.weight": ((4, 2), [((1 << 62, 0), numbers(2, 2))])}), "has a shape that is none"),
        "a tensor without parts": (dist({QKV: ((2, 2, 2), [])}), "no part of tensor"),
        "more layers than the model": (dist({QKV: ((9, 2, 2), [((0, 0, 0), numbers(9, 2, 2))])}), "has 9 layers"),
        "a part with too many dims": (dist({"embedding.word_embeddings.weight": ((4, 2), [((0, 0), numbers(1, 2, 2))])}), "has 3 dimensions"),
        "an unknown tensor in torch_dist": (dist({"decoder.mamba.weight": ((1,), [((0,), numbers(1))])}), "'decoder.mamba.weight' is none"),
        "no embedding": (tw.torch_dist({}, {"args": tw.Namespace(**ARGS)}), "no embedding of words"),
        "an empty folder": ({"x": b""}, "neither .metadata nor mp_rank_00"),
        "an iteration that is none": ({"latest_checkpointed_iteration.txt": b"../.."}, "neither the number of an iteration"),
    }


def dump(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)
    done = subprocess.run([os.environ["DUMP"], "megatron", folder], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip(), done.stderr


def main():
    with run.work_folder() as folder:
        folder = os.path.join(folder, "checkpoint")
        for what, files in ("mp_rank files", legacy()), ("torch_dist", dist()):
            code, said, error = dump(folder, files)
            if code or "embedding.word_embeddings.weight F32 3x2: 0 1 2 3 0 1" not in said:
                sys.exit(f"{what}: {said[:500]} {error[-1500:]}")
        for given, wanted in TAKEN:
            code, said, error = dump(folder, legacy(given))
            options = {} if code else json.loads(said.splitlines()[0])
            if code or any(options.get(name) != value for name, value in wanted.items()) or "unknown" in said:
                sys.exit(f"{given} became {options}, and not {wanted}: {said[:300]} {error[-1500:]}")
        code, said, error = dump(folder, legacy({"later_argument": 3, "other_argument": 0, "rl_profile": True}))
        if "unknown later_argument\n" not in said + "\n":
            sys.exit(f"an argument that is not known: {said[:500]} {error[-1500:]}")
        for types in "global_aux_loss", ["aux_loss", "seq_aux_loss"]:
            code, said, error = dump(folder, legacy(dict(EXPERTS, moe_router_load_balancing_type=types)))
            if "unknown moe_router_load_balancing_type\n" not in said + "\n" or '"moe-router-load-balancing-type"' in said:
                sys.exit(f"balancing by {types}: {said[:500]} {error[-1500:]}")
        bad = []
        for what, (files, why) in cases().items():
            code, said, error = dump(folder, files)
            if code != 1 or not said.startswith("refused: ") or why not in said or "; " not in said or error:
                bad.append(f"{what}: exit code {code}, said {said[:600]!r} {error[-1500:]!r}; expected to be refused with {why!r} and a cure")
    if bad:
        sys.exit("\n".join(bad))
    print(f"{len(cases())} checkpoints are refused, each with its reason")
    return 0


if __name__ == "__main__":
    sys.exit(main())
