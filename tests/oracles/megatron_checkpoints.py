"""Tiny checkpoints by megatron-core itself, on CPU processes, in both of its formats and under several layouts.

    megatron_checkpoints.py OUT.tar.xz          pip install megatron-core torch psutil

Every element of a weight and of an optimizer's state is a known number: element i of the whole tensor KEY, in the shape that torch_dist
gives it, is crc32(KEY) % 256 + i / 1024. So a reader can be checked without a second copy of the weights. Those whose names begin with
"adam-" have an optimizer; with "-bf16" the weights are bfloat16, of which it keeps copies in fp32."""
import argparse
import contextlib
import io
import logging
import os
import shutil
import sys
import tarfile
import tempfile
import traceback
import warnings
import zlib

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import torch                                                                       # noqa: E402
import torch.distributed as dist                                                   # noqa: E402
import megatron.core                                                               # noqa: E402
import megatron.core.dist_checkpointing.strategies.filesystem_async as writer      # noqa: E402
import megatron.core.transformer.torch_norm as torch_norm                          # noqa: E402
from megatron.core import dist_checkpointing, parallel_state as ps                 # noqa: E402
from megatron.core.dist_checkpointing.mapping import ShardedTensor, apply_factories  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig                # noqa: E402
from megatron.core.models.gpt import GPTModel                                      # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec    # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer        # noqa: E402
from megatron.core.tensor_parallel import random as rng_states                     # noqa: E402
from megatron.core.models.backends import LocalSpecProvider                        # noqa: E402
from megatron.core.transformer import TransformerConfig                            # noqa: E402
from megatron.core.transformer import multi_latent_attention                       # noqa: E402
from megatron.core.transformer.dot_product_attention import DotProductAttention    # noqa: E402
from megatron.core.transformer.transformer_config import MLATransformerConfig      # noqa: E402

WORLD, VOCABULARY, PADDED = 4, 29, 32
# What megatron-core asks of a GPU, a CPU answers; the disk need not be flushed, and writers are forked.
torch.cuda.synchronize = lambda *words: None
torch.cuda.current_device = lambda: "cpu"
torch.Tensor.cuda = lambda tensor, *words, **more: tensor
os.sync = lambda: None
fork = torch.multiprocessing.get_context("fork")
writer.mp.get_context = lambda kind=None: fork
norm_new = torch_norm.WrappedTorchNorm.__new__


def norm_without_sequence_parallel(cls, config, hidden_size, eps=1e-5, **more):
    """torch's norms are refused under sequence parallelism, which experts with tensor parallelism need; no step is made here."""
    before, config.sequence_parallel = config.sequence_parallel, False
    made = norm_new(cls, config, hidden_size, eps, **more)
    config.sequence_parallel = before
    return made


class Attention(DotProductAttention):
    """Widths of keys and values are arguments of Transformer Engine's attention alone; here kv_channels is that of values."""
    def __init__(self, *words, k_channels=None, v_channels=None, **more):
        super().__init__(*words, **more)


LocalSpecProvider.core_attention = lambda self: Attention
multi_latent_attention.HAVE_TE = False                   # it takes the names without the package for the package


class OnCpu(torch.overrides.TorchFunctionMode):
    """What is to be made on a GPU is made on the CPU, and says that it is on a GPU where it is asked."""
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = "cpu"
        made = function(*args, **kwargs)
        return made.replace("torch.", "torch.cuda.") if function is torch.Tensor.type and isinstance(made, str) else made


def stay_on_cpu():
    OnCpu().__enter__()
    rng_states.CudaRNGStatesTracker.fork = lambda *words: contextlib.nullcontext()


def optimizer_of(parts, bf16=False, **settings):
    for part in parts:
        part.ddp_config = DistributedDataParallelConfig()
    return get_megatron_optimizer(OptimizerConfig(optimizer="adam", bf16=bf16, params_dtype=torch.bfloat16 if bf16 else torch.float32, **settings), parts)


torch_norm.WrappedTorchNorm.__new__ = norm_without_sequence_parallel
SHAPE = dict(num_layers=4, hidden_size=8, num_attention_heads=4)
LLAMA = dict(SHAPE, num_query_groups=2, ffn_hidden_size=12, gated_linear_unit=True, activation_func=torch.nn.functional.silu, add_bias_linear=False,
             normalization="RMSNorm", qk_layernorm=True)
MOE = dict(LLAMA, qk_layernorm=False, num_moe_experts=4, moe_router_topk=2, moe_ffn_hidden_size=12, moe_grouped_gemm=False)
UNTIED = dict(share_embeddings_and_output_weights=False, position_embedding_type="rope")
LATENT = dict(multi_latent_attention=True, q_lora_rank=6, kv_lora_rank=4, qk_head_dim=4, qk_pos_emb_head_dim=2, v_head_dim=2, kv_channels=2)
YARN = dict(rope_type="yarn", rotary_scaling_factor=4.0, original_max_position_embeddings=8, mscale=1.0, mscale_all_dim=0.5)
SIGMOID = dict(moe_router_score_function="sigmoid", moe_router_enable_expert_bias=True, moe_router_topk_scaling_factor=1.5)
MODELS = {
    "llama": (LLAMA, UNTIED),
    "gpt": (dict(SHAPE, ffn_hidden_size=16, add_bias_linear=True), dict(share_embeddings_and_output_weights=True, position_embedding_type="learned_absolute")),
    "moe": (MOE, UNTIED),
    "window": (dict(LLAMA, window_size=(3, 0), window_attn_skip_freq=[1, 0, 1, 1]), UNTIED),
    "yarn": (dict(LLAMA, yarn_rotary_scaling_factor=4.0, yarn_original_max_position_embeddings=8, yarn_beta_fast=32.0, yarn_beta_slow=1.0, yarn_mscale=None,
                  yarn_mscale_all_dim=None, yarn_correction_range_round_to_int=True), dict(UNTIED, position_embedding_type="yarn")),
    "shared": (dict(MOE, moe_shared_expert_intermediate_size=10, moe_shared_expert_gate=True, moe_router_num_groups=2, moe_router_group_topk=1), UNTIED),
    "deepseek": (dict(MOE, qk_layernorm=True, num_query_groups=None, moe_shared_expert_intermediate_size=12, moe_layer_freq=[0, 1, 1, 1], **LATENT, **YARN, **SIGMOID),
                 UNTIED),
    "latent": (dict(LLAMA, num_query_groups=None, **dict(LATENT, q_lora_rank=None), rope_type="rope", rotary_scaling_factor=1.0), UNTIED),
}
LAYOUTS = [(name, *sizes) for name in ("llama", "gpt") for sizes in ((1, 1, 1, None), (2, 2, 1, None), (1, 2, 1, 2), (2, 1, 1, None))]
LAYOUTS += [("moe", *sizes) for sizes in ((1, 1, 1, None), (2, 1, 2, None), (1, 2, 2, None), (1, 1, 4, None))]
LAYOUTS += [("deepseek", *sizes) for sizes in ((1, 1, 1, None), (2, 2, 1, None), (1, 2, 2, None))]
LAYOUTS += [("adam-llama-bf16", 2, 2, 1, None), ("adam-moe", 2, 1, 2, None)]
UPDATES = 2
# What the model's configuration and the saved arguments call by one name
BOTH = (*LATENT, *YARN, *SIGMOID, "moe_layer_freq", "moe_shared_expert_intermediate_size", "moe_shared_expert_gate", "moe_router_num_groups", "moe_router_group_topk",
        "window_size", "window_attn_skip_freq", *(name for name in MODELS["yarn"][0] if name.startswith("yarn_")))


def plain(name):
    return name.removeprefix("adam-").removesuffix("-bf16")


def arguments(name, tp, pp, ep, vp):
    config, more = MODELS[plain(name)]
    moe = "num_moe_experts" in config
    return argparse.Namespace(
        **dict(dict(kv_channels=2), **{k: config[k] for k in BOTH if k in config}),
        num_layers=4, hidden_size=8, num_attention_heads=4, ffn_hidden_size=config["ffn_hidden_size"], seq_length=16,
        group_query_attention=bool(config.get("num_query_groups")), num_query_groups=config.get("num_query_groups") or 1, max_position_embeddings=16,
        position_embedding_type=more["position_embedding_type"], normalization=config.get("normalization", "LayerNorm"), norm_epsilon=1e-5,
        swiglu=config.get("gated_linear_unit", False), squared_relu=False, bias_gelu_fusion=True, add_bias_linear=config["add_bias_linear"], add_qkv_bias=False,
        qk_layernorm=config.get("qk_layernorm", False), untie_embeddings_and_output_weights=not more["share_embeddings_and_output_weights"], rotary_base=10000,
        rotary_percent=1.0, num_experts=4 if moe else None, moe_router_topk=2, moe_ffn_hidden_size=12 if moe else None, vocab_size=VOCABULARY,
        padded_vocab_size=PADDED, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep,
        virtual_pipeline_model_parallel_size=vp, params_dtype=torch.float32, consumed_train_samples=24, iteration=3)


def model_part(name, tp, pp, ep, vp, chunk):
    config, more = MODELS[plain(name)]
    kind = MLATransformerConfig if "kv_lora_rank" in config else TransformerConfig
    built = kind(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, virtual_pipeline_model_parallel_size=vp,
                  sequence_parallel="num_moe_experts" in config and tp > 1, pipeline_dtype=torch.float32, use_cpu_initialization=True, **{k: v for k, v in config.items() if not k.startswith("yarn_")})
    vars(built).update({k: v for k, v in config.items() if k.startswith("yarn_")})      # attributes that no field has
    config = built
    spec = get_gpt_decoder_block_spec(config, False, normalization=config.normalization, vp_stage=chunk if vp else None)
    return GPTModel(config, spec, vocab_size=PADDED, max_sequence_length=16, vp_stage=chunk if vp else None,
                    pre_process=ps.is_pipeline_first_stage(ignore_virtual=not vp, vp_stage=chunk),
                    post_process=ps.is_pipeline_last_stage(ignore_virtual=not vp, vp_stage=chunk), **more)


def fill(tensors):
    """Every part of every tensor by its place in the whole."""
    for t in tensors.values():
        if isinstance(t, dict):
            fill(t)
        elif isinstance(t, list):
            fill(dict(enumerate(t)))
        elif isinstance(t, ShardedTensor):
            index = torch.zeros([1] * len(t.global_shape), dtype=torch.float64)
            lead = len(t.global_shape) - t.data.dim()
            sizes = [1] * lead + list(t.data.shape)
            for d, whole in enumerate(t.global_shape):
                view = [1] * len(sizes)
                view[d] = sizes[d]
                index = index * whole + (torch.arange(sizes[d], dtype=torch.float64) + t.global_offset[d]).reshape(view)
            t.data.copy_((zlib.crc32(t.key.encode()) % 256 + index / 1024).reshape(t.data.shape))


def states_made(parts, optimizer):
    """Updates of nothing, so that there are states."""
    for part in parts:
        for p in part.parameters():
            p.grad = p.main_grad = torch.zeros_like(p)
    for _ in range(UPDATES):
        optimizer.step()


def write(folder, name, tp, pp, ep, vp):
    ps.initialize_model_parallel(tp, pp, vp, expert_model_parallel_size=ep)
    both = {"args": arguments(name, tp, pp, ep, vp), "iteration": 3, "checkpoint_version": 3.0}
    parts = [model_part(name, tp, pp, ep, vp, chunk) for chunk in range(vp or 1)]
    keys = ["model%d" % i if vp else "model" for i in range(len(parts))]
    optimizer, states = None, {}
    if name.startswith("adam-"):
        if name.endswith("-bf16"):
            parts = [p.bfloat16() for p in parts]
        optimizer = optimizer_of(parts, name.endswith("-bf16"), lr=1e-3)
        states_made(parts, optimizer)
    for part in parts:
        tensors = part.sharded_state_dict()
        apply_factories(tensors)
        with torch.no_grad():
            fill(tensors)

    def sharded():
        model = {k: p.sharded_state_dict() for k, p in zip(keys, parts)}
        return dict(model, optimizer=optimizer.sharded_state_dict(model, metadata={"chained_optim_avoid_prefix": tp > 1})) if optimizer else model

    if optimizer:
        tensors = {"optimizer": sharded()["optimizer"]}
        apply_factories(tensors)
        with torch.no_grad():
            fill(tensors)
        states = {"optimizer": optimizer.state_dict()}
    out = os.path.join(folder, "%s_tp%d_pp%d_ep%d_vp%d" % (name, tp, pp, ep, vp or 1))
    folder = os.path.join(out, "torch_dist", "iter_0000003")
    os.makedirs(folder, exist_ok=True)
    dist.barrier()
    dist_checkpointing.save(dict(both, **sharded()), folder, ("torch_dist", 1))
    rank = "mp_rank_%02d" % ps.get_tensor_model_parallel_rank()
    rank += "_%03d" % ps.get_pipeline_model_parallel_rank() if pp > 1 else ""
    rank += "_%03d" % ps.get_expert_model_parallel_rank() if ep > 1 else ""
    folder = os.path.join(out, "torch", "iter_0000003", rank)
    if ps.get_expert_data_parallel_rank() == 0 if ep > 1 else ps.get_data_parallel_rank() == 0:
        os.makedirs(folder, exist_ok=True)
        torch.save(dict(both, **states, **{k: p.state_dict_for_save_checkpoint() for k, p in zip(keys, parts)}), os.path.join(folder, "model_optim_rng.pt"))
    dist.barrier()
    for kind in "torch", "torch_dist":
        with open(os.path.join(out, kind, "latest_checkpointed_iteration.txt"), "w") as latest:
            latest.write("3")
    dist.barrier()
    ps.destroy_model_parallel()


def process(rank, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    stay_on_cpu()
    for layout in LAYOUTS:
        write(folder, *layout)


def run(rank, port, folder):
    try:
        process(rank, port, folder)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main():
    folder = tempfile.mkdtemp(prefix="megatron-")
    port, children = 29700 + os.getpid() % 200, []
    for rank in range(WORLD):
        child = os.fork()
        if child == 0:
            run(rank, port, folder)
        children.append(child)
    if any([os.waitpid(child, 0)[1] for child in children]):
        sys.exit("a process failed")
    with tarfile.open(sys.argv[1], "w:xz", preset=9) as tar:
        said = f"megatron-core {megatron.core.__version__}, PyTorch {torch.__version__}\n".encode()
        info = tarfile.TarInfo("VERSIONS")
        info.size = len(said)
        tar.addfile(info, io.BytesIO(said))
        for name in sorted(os.listdir(folder)):
            tar.add(os.path.join(folder, name), name)
    shutil.rmtree(folder)
    print(f"{len(LAYOUTS)} checkpoints in both formats, {os.path.getsize(sys.argv[1])} bytes, {said.decode().strip()}")


if __name__ == "__main__":
    main()
