#!/usr/bin/env python3
"""Training of megatron-core goes on here: models are trained by it on CPUs, on one process or several, with its own optimizer and its own
order of samples, and saved in both formats, the older one and torch_dist. jotun opens each under four layouts of its own, and its next ten
losses are those of megatron-core. Of weights in bf16 it takes the optimizer's copies, and its losses are those of fp32."""
import json
import multiprocessing.util
import os
import sys
import tempfile
import traceback

import comparison
from comparison import failures, jotun

sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != comparison.HERE]         # this file is no megatron
try:
    import numpy
    import megatron_checkpoints as mc
    import torch
    import torch.distributed as dist
    from megatron.core import dist_checkpointing, parallel_state as ps
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.distributed.finalize_model_grads import _update_router_expert_bias
    from megatron.core.transformer.moe import moe_utils
except ImportError as missing:
    comparison.skip(missing)
sys.path.append(comparison.HERE)                                                            # for processes that begin with this file again
print("megatron-core", mc.megatron.core.__version__, "torch", torch.__version__)
KINDS = "torch", "torch_dist"
# A model, megatron-core's layout (tp, pp, ep), and whether its weights are bf16
CASES = [(name, 1, 1, 1, False) for name in ("llama", "gpt", "moe", "window", "yarn", "shared", "latent", "deepseek")]
CASES += [("llama", 2, 2, 1, False), ("gpt", 2, 1, 1, False), ("moe", 1, 1, 2, False), ("deepseek", 1, 2, 2, False), ("llama", 2, 2, 1, True)]
STEPS, NEXT, BATCH, SEQUENCE, VOCABULARY = 5, 10, 4, 16, 257
TRAINED = dict(lr=1e-2, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, clip_grad=1.0)
RUN = ["--train-iters", STEPS + NEXT, "--global-batch-size", BATCH, "--seq-length", SEQUENCE, "--lr", 1e-2, "--lr-decay-style", "constant", "--weight-decay", 0.1,
       "--adam-beta2", 0.95, "--tokenizer", "bytes", "--data-order", "megatron", "--split", "100,0,0", "--seed", 1234]
OURS = [["--ranks", 1], ["--ranks", 4, "--tensor-model-parallel-size", 2, "--pipeline-model-parallel-size", 2],
        ["--ranks", 4, "--zero-stage", 1, "--tensor-model-parallel-size", 2], ["--ranks", 2, "--zero-stage", 3]]


class Tokenizer:
    vocab_size, pad, eos, eod = VOCABULARY, 255, 256, 256
    unique_identifiers = {"class": "None"}


def samples(prefix, count):
    config = GPTDatasetConfig(random_seed=1234, sequence_length=SEQUENCE, blend=([prefix], None), split="100,0,0", reset_position_ids=False,
                              reset_attention_mask=False, eod_mask_loss=False, tokenizer=Tokenizer(), path_to_cache=tempfile.mkdtemp())
    built = BlendedMegatronDatasetBuilder(GPTDataset, [count, 0, 0], lambda: True, config).build()[0]
    return [torch.tensor(numpy.concatenate([built[i]["tokens"].numpy(), built[i]["labels"].numpy()[-1:]])) for i in range(count)]


def optimizer_of(parts, bf16):
    made = mc.optimizer_of(parts, bf16, **TRAINED)
    for group in made.param_groups:                                   # as Megatron-LM's scheduler does it in each step
        group["weight_decay"] = TRAINED["weight_decay"] * group["wd_mult"]
    return made


def forward_backward(model, ids, bf16):
    """One micro-batch; with two stages the first sends its output and gets its gradient back. The loss, on the last stage."""
    positions = torch.arange(SEQUENCE).repeat(len(ids), 1)
    mask = ~torch.tril(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool))[None, None]
    first, last = ps.is_pipeline_first_stage(), ps.is_pipeline_last_stage()
    if not first:
        received = torch.empty(SEQUENCE, len(ids), 8, dtype=torch.bfloat16 if bf16 else torch.float32)
        dist.recv(received, ps.get_pipeline_model_parallel_prev_rank())
        received.requires_grad_()
        model.set_input_tensor(received)
    out = model(ids[:, :-1], positions, mask, labels=ids[:, 1:] if last else None)
    if last:
        loss = out.float().mean()
        loss.backward()
        if not first:
            dist.send(received.grad, ps.get_pipeline_model_parallel_prev_rank())
        return loss.detach()
    dist.send(out.detach(), ps.get_pipeline_model_parallel_next_rank())
    gradient = torch.empty_like(out)
    dist.recv(gradient, ps.get_pipeline_model_parallel_next_rank())
    out.backward(gradient)
    return torch.zeros(())


def step(model, optimizer, batch, bf16):
    """Gradients are means over data-parallel ranks; those of gains that all heads share are sums over tensor-parallel ranks."""
    rank, ranks = ps.get_data_parallel_rank(), ps.get_data_parallel_world_size()
    mine = batch[rank * len(batch) // ranks:(rank + 1) * len(batch) // ranks]
    optimizer.zero_grad()
    loss = forward_backward(model, torch.stack(mine).long(), bf16)
    for name, p in model.named_parameters():
        if getattr(p, "allreduce", True) and ranks > 1:
            dist.all_reduce(p.grad, group=ps.get_data_parallel_group())
        if name.endswith(("q_layernorm.weight", "k_layernorm.weight")) and ps.get_tensor_model_parallel_world_size() > 1:
            dist.all_reduce(p.grad, group=ps.get_tensor_model_parallel_group())
        p.grad /= ranks
    dist.all_reduce(loss, group=ps.get_data_parallel_group())
    optimizer.step()
    if model.config.moe_router_enable_expert_bias:
        with torch.no_grad():
            _update_router_expert_bias([model], model.config)
        for module in model.modules():
            if hasattr(module, "local_tokens_per_expert"):
                module.local_tokens_per_expert.zero_()
    return loss.item() / ranks


def trained(folder, name, layout, bf16, data):
    """One process's part of the training, which is saved after some steps. The losses after that."""
    tp, pp, ep = layout
    ps.initialize_model_parallel(tp, pp, expert_model_parallel_size=ep)
    torch.manual_seed(1)
    model = mc.model_part(name, tp, pp, ep, None, 0)
    if bf16:
        model = model.bfloat16()
    optimizer, losses = optimizer_of([model], bf16), []
    for i in range(STEPS + NEXT):
        if i == STEPS:
            save(folder, name, layout, model, optimizer)
        losses.append(step(model, optimizer, data[i * BATCH:(i + 1) * BATCH], bf16))
    return losses[STEPS:]


def process(rank, ranks, port, folder, name, layout, bf16, prefix):
    data = samples(prefix, (STEPS + NEXT) * BATCH)                                       # before there are others to wait for
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    mc.stay_on_cpu()
    losses = trained(folder, name, layout, bf16, data)
    if rank == ranks - 1:                                                                # of the last stage
        with open(os.path.join(folder, "losses.json"), "w") as out:
            json.dump(losses, out)
    dist.barrier()


def run_of(folder, port, name, layout, bf16, prefix):
    """The losses of a training on as many processes as the layout has; None where one failed. This process computes nothing with torch,
    whose threads a child would miss."""
    children, ranks = [], layout[0] * layout[1] * layout[2]
    os.makedirs(folder)
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            try:
                process(rank, ranks, port, folder, name, layout, bf16, prefix)
                multiprocessing.util._exit_function()                                    # the writer of torch_dist has a process of its own
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    if any([os.waitpid(child, 0)[1] for child in children]):
        return None
    with open(os.path.join(folder, "losses.json")) as file:
        return json.load(file)


def both(name, *layout):
    args = mc.arguments(name, *layout)
    vars(args).update(TRAINED, attention_dropout=0.0, hidden_dropout=0.0, optimizer="adam", vocab_size=mc.PADDED, padded_vocab_size=mc.PADDED, seq_length=SEQUENCE, global_batch_size=BATCH,
                      lr_decay_style="constant", consumed_train_samples=STEPS * BATCH, iteration=STEPS)
    return {"args": args, "iteration": STEPS, "checkpoint_version": 3.0}


def save(folder, name, layout, model, optimizer):
    tp, pp, ep = layout
    path = os.path.join(folder, "torch_dist", "iter_%07d" % STEPS)
    os.makedirs(path, exist_ok=True)
    dist.barrier()
    sharded = {"model": model.sharded_state_dict()}
    state = dict(both(name, *layout, None), **sharded, optimizer=optimizer.sharded_state_dict(sharded, metadata={"chained_optim_avoid_prefix": True}))
    dist_checkpointing.save(state, path, ("torch_dist", 1))
    rank = "mp_rank_%02d" % ps.get_tensor_model_parallel_rank()
    rank += "_%03d" % ps.get_pipeline_model_parallel_rank() if pp > 1 else ""
    rank += "_%03d" % ps.get_expert_model_parallel_rank() if ep > 1 else ""
    path = os.path.join(folder, "torch", "iter_%07d" % STEPS, rank)
    if ps.get_expert_data_parallel_rank() == 0 if ep > 1 else ps.get_data_parallel_rank() == 0:
        os.makedirs(path, exist_ok=True)
        torch.save(dict(both(name, *layout, None), model=model.state_dict_for_save_checkpoint(), optimizer=optimizer.state_dict()),
                   os.path.join(path, "model_optim_rng.pt"))
    dist.barrier()
    for kind in KINDS:
        with open(os.path.join(folder, kind, "latest_checkpointed_iteration.txt"), "w") as latest:
            latest.write(str(STEPS))


def corpus(folder):
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as out:
        for i in range(90):
            out.write(" ".join("jotun reads what others wrote".split()[(i * i + k) % 5] for k in range(5 + i % 17)) + f" {i}\n")
    jotun("prepare", "--input", text, "--tokenizer", "bytes", "--append-eod", "--output-prefix", os.path.join(folder, "text"))
    return os.path.join(folder, "text_text_document")


def losses_of(load, prefix, words, folder):
    path = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(path):
        os.remove(path)
    jotun("train", "--load", load, "--data-path", prefix, *RUN, *words, "--metrics", path)
    rows = [json.loads(line) for line in open(path)]
    return {row["step"]: row["loss"] for row in rows if "loss" in row and "split" not in row}


def compare(what, theirs, ours, most):
    farthest = max(abs(ours.get(STEPS + 1 + i, 0) - loss) for i, loss in enumerate(theirs))
    print(f"{what}: {len(ours)} losses, at most {farthest:.2g} apart")
    if len(ours) != NEXT or not farthest <= most:
        failures.append(what)
        print(f"FAILED: {theirs}\n{ours}")


def main():
    moe_utils.te_general_gemm = None
    for config, _ in mc.MODELS.values():
        config.update(attention_dropout=0.0, hidden_dropout=0.0)
    with tempfile.TemporaryDirectory() as folder:
        prefix = corpus(folder)
        for i, (name, *layout, bf16) in enumerate(CASES if len(sys.argv) < 2 else [case for case in CASES if case[0] in sys.argv[1:]]):
            mc.PADDED = VOCABULARY + (-VOCABULARY % layout[0])      # of which none is padding, since that would be part of megatron-core's softmax alone
            what = f"{name} of tp {layout[0]}, pp {layout[1]}, ep {layout[2]}" + (", bf16" if bf16 else "")
            case = os.path.join(folder, str(i))
            losses, first = run_of(case, 29400 + (os.getpid() * 16 + i) % 2000, name, layout, bf16, prefix), None
            if losses is None:
                failures.append(what)
                print(f"FAILED: {what}: a process of megatron-core ended")
                continue
            for kind in KINDS:
                for words in OURS:
                    ours = losses_of(f"megatron:{case}/{kind}", prefix, words, folder)
                    compare(f"{what}, {kind}, {' '.join(map(str, words))}", losses, ours, 2e-2 if bf16 else 1e-5)
                    first = first or ours
                    if bf16:
                        compare("  beside the first of these", list(first.values()), ours, 1e-5)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
