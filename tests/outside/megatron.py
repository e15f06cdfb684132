#!/usr/bin/env python3
"""Training of megatron-core goes on here: models are trained by it on CPUs, with its own optimizer and its own order of samples, and saved
in both formats, the older one and torch_dist, under several layouts. jotun opens each under four layouts of its own, and its next ten
losses are those of megatron-core."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [os.path.join(HERE, "..", "oracles")] + [p for p in sys.path if os.path.abspath(p or ".") != HERE]    # this file is no megatron
try:
    import numpy
    import megatron_checkpoints as mc
    import torch
    import torch.distributed as dist
    from megatron.core import dist_checkpointing, parallel_state as ps
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.transformer.moe import moe_utils
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
print("megatron-core", mc.megatron.core.__version__, "torch", torch.__version__)
JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
KINDS, failures = ("torch", "torch_dist"), []
STEPS, NEXT, BATCH, SEQUENCE, VOCABULARY = 5, 10, 4, 16, 257
TRAINED = dict(lr=1e-2, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, clip_grad=1.0)
RUN = ["--train-iters", STEPS + NEXT, "--global-batch-size", BATCH, "--seq-length", SEQUENCE, "--lr", 1e-2, "--lr-decay-style", "constant", "--weight-decay", 0.1,
       "--adam-beta2", 0.95, "--tokenizer", "bytes", "--data-order", "megatron", "--split", "100,0,0", "--seed", 1234]
OURS = [["--ranks", 1], ["--ranks", 4, "--tensor-model-parallel-size", 2, "--pipeline-model-parallel-size", 2],
        ["--ranks", 4, "--zero-stage", 1, "--tensor-model-parallel-size", 2], ["--ranks", 2, "--zero-stage", 3]]


def jotun(*words, check=True):
    done = subprocess.run([JOTUN, *map(str, words)], capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done


class Tokenizer:
    vocab_size, pad, eos, eod = VOCABULARY, 255, 256, 256
    unique_identifiers = {"class": "None"}


def samples(prefix, count):
    config = GPTDatasetConfig(random_seed=1234, sequence_length=SEQUENCE, blend=([prefix], None), split="100,0,0", reset_position_ids=False,
                              reset_attention_mask=False, eod_mask_loss=False, tokenizer=Tokenizer(), path_to_cache=tempfile.mkdtemp())
    built = BlendedMegatronDatasetBuilder(GPTDataset, [count, 0, 0], lambda: True, config).build()[0]
    return [torch.tensor(numpy.concatenate([built[i]["tokens"].numpy(), built[i]["labels"].numpy()[-1:]])) for i in range(count)]


def optimizer_of(parts):
    made = mc.optimizer_of(parts, **TRAINED)
    for group in made.param_groups:                                   # as Megatron-LM's scheduler does it in each step
        group["weight_decay"] = TRAINED["weight_decay"] * group["wd_mult"]
    return made


def step(model, optimizer, batch):
    ids = torch.stack(batch).long()
    positions = torch.arange(SEQUENCE).repeat(len(batch), 1)
    mask = ~torch.tril(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool))[None, None]
    optimizer.zero_grad()
    loss = model(ids[:, :-1], positions, mask, labels=ids[:, 1:]).float().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def trained(folder, name, prefix):
    """Trains on one process; returns the losses after the checkpoint."""
    ps.initialize_model_parallel(1, 1)
    torch.manual_seed(1)
    model = mc.model_part(name, 1, 1, 1, None, 0)
    optimizer = optimizer_of([model])
    data, losses = samples(prefix, (STEPS + NEXT) * BATCH), []
    for i in range(STEPS + NEXT):
        if i == STEPS:
            save(folder, name, [model], optimizer)
        losses.append(step(model, optimizer, data[i * BATCH:(i + 1) * BATCH]))
    ps.destroy_model_parallel()
    return losses[STEPS:]


def both(name, *layout):
    args = mc.arguments(name, *layout)
    vars(args).update(TRAINED, attention_dropout=0.0, hidden_dropout=0.0, optimizer="adam", vocab_size=VOCABULARY, padded_vocab_size=mc.PADDED, seq_length=SEQUENCE, global_batch_size=BATCH,
                      lr_decay_style="constant", consumed_train_samples=STEPS * BATCH, iteration=STEPS)
    return {"args": args, "iteration": STEPS, "checkpoint_version": 3.0}


def save(folder, name, parts, optimizer):
    path = os.path.join(folder, "torch_dist", "iter_%07d" % STEPS)
    os.makedirs(path, exist_ok=True)
    sharded = {"model": parts[0].sharded_state_dict()}
    state = dict(both(name, 1, 1, 1, None), **sharded, optimizer=optimizer.sharded_state_dict(sharded))
    dist_checkpointing.save(state, path, ("torch_dist", 1))
    path = os.path.join(folder, "torch", "iter_%07d" % STEPS, "mp_rank_00")
    os.makedirs(path, exist_ok=True)
    torch.save(dict(both(name, 1, 1, 1, None), model=parts[0].state_dict_for_save_checkpoint(), optimizer=optimizer.state_dict()),
               os.path.join(path, "model_optim_rng.pt"))
    for kind in "torch", "torch_dist":
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


def compare(name, kind, words, theirs, ours):
    farthest = max(abs(ours.get(STEPS + 1 + i, 0) - loss) for i, loss in enumerate(theirs))
    print(f"{name}, {kind}, {' '.join(map(str, words))}: {len(ours)} losses, at most {farthest:.2g} apart")
    if len(ours) != NEXT or farthest > 1e-5:
        failures.append(name)
        print(f"FAILED: {theirs}\n{ours}")


def main():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29400 + os.getpid() % 200), RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    dist.init_process_group("gloo", rank=0, world_size=1)
    mc.PADDED = VOCABULARY                              # the rows of padding are part of megatron-core's softmax, not of ours
    mc.stay_on_cpu()
    moe_utils.te_general_gemm = None
    for config, _ in mc.MODELS.values():
        config.update(attention_dropout=0.0, hidden_dropout=0.0)
    with tempfile.TemporaryDirectory() as folder:
        prefix = corpus(folder)
        for name in ("llama", "gpt", "moe"):
            losses = trained(os.path.join(folder, name), name, prefix)
            for kind in KINDS:
                for words in OURS:
                    compare(name, kind, words, losses, losses_of(f"megatron:{folder}/{name}/{kind}", prefix, words, folder))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
