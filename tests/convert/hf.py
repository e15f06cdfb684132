"""Models of transformers (tests/golden/hf/models.json, with weights by a formula): imported they have its logits and losses,
exported they are its tensors to the byte, imported again they are the same files. What a config or a file says wrongly is
refused by name."""
import base64
import filecmp
import glob
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import run
import torch_write as tw
from run import jotun, metrics

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oracles"))
import hf_golden

GOLDEN = os.path.join(HERE, "..", "golden", "hf")
FACTS = json.load(open(os.path.join(GOLDEN, "models.json")))
MODELS = FACTS["models"]
# Whose tensors and options are least alike: those that are trained as well, and all that run under a sanitizer unless in full.
UNLIKE = ("gpt2", "llama_tied", "mixtral", "qwen3_moe", "gemma3", "smollm3_window", "phi3", "bloom", "deepseek_v3")
QUICK = os.environ.get("SANITIZE") and not os.environ.get("JOTUN_FULL")
FACTS["loss"] = {name: model["loss"] for name, model in MODELS.items()}


def tensors(folder):
    """name -> (dtype, shape, bytes) of all safetensors files of a folder"""
    found = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        with open(path, "rb") as f:
            (size,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(size))
            data = f.read()
        for name, t in header.items():
            if name != "__metadata__":
                found[name] = (t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
    return found


def step(checkpoint):
    """The folder of its step, which has the files."""
    return os.path.join(checkpoint, open(os.path.join(checkpoint, "latest")).read())


def loss(load, text, *more):
    return json.loads(jotun("eval", "perplexity", "--load", load, "--text", text, "--tokenizer", "bytes", *more).stdout)["loss"]


def to_jotun(source, output, *more, **kind):
    return jotun("convert", "--to", "jotun", "--input", source, "--output", output, "--tokenizer", "bytes", *more, **kind)


def logits_differ(name, load, path, *more):
    """The worst difference of the logits after each of some positions of the text, the best position first"""
    with open(path + ".prompts", "w") as out:
        out.write("\n".join(FACTS["text"][:n + 1] for n in hf_golden.ROWS) + "\n")
    jotun("generate", "--load", load, "--prompt-file", path + ".prompts", "--max-new-tokens", 1, "--temperature", 0, "--tokenizer",
          "bytes", "--save-logits", path + ".logits", *more)
    with open(path + ".logits", "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        told = json.loads(f.read(size))["logits"]
        rows, vocabulary = len(hf_golden.ROWS), hf_golden.VOCABULARY
        assert told["shape"] == [rows, 1, vocabulary] and told["dtype"] == "F32" and not os.path.exists(path + ".logits.part")
        ours = struct.unpack(f"<{rows * vocabulary}f", f.read())
    theirs, kept = hf_golden.kept_logits(MODELS[name]), len(hf_golden.COLUMNS)
    assert len(theirs) == rows * kept
    return sorted(max(abs(ours[r * vocabulary + c] - theirs[r * kept + i]) for i, c in enumerate(hf_golden.COLUMNS))
                  for r in range(rows))


def older_keys(name, config):
    """Rotary embeddings by the keys of version 4 of transformers, which ignores rope_parameters."""
    rope = config.get("rope_parameters")
    if rope is None:
        assert "rope_theta" not in config, f"{name}: {config}"
        return
    full = rope.get("full_attention", rope)
    assert config["rope_theta"] == full["rope_theta"], f"{name}: {config}"
    if "full_attention" in rope:
        assert config["rope_local_base_freq"] == rope["sliding_attention"]["rope_theta"], f"{name}: {config}"
    if "partial_rotary_factor" in rope:
        assert config["partial_rotary_factor"] == rope["partial_rotary_factor"], f"{name}: {config}"
    scaling = {k: v for k, v in full.items() if k not in ("rope_theta", "partial_rotary_factor")}
    assert config["rope_scaling"] == (None if scaling["rope_type"] == "default" else scaling), f"{name}: {config}"


WORST = {}


def family(name, work, text):
    at = lambda leaf: os.path.join(work, name + leaf)
    golden = os.path.join(GOLDEN, name)
    to_jotun(golden, at("-ours"))
    for kind, bound, more in ("fp32", 1e-5, []), ("bf16", 2e-2, ["--bf16"]):
        moe = any("expert" in key for key in MODELS[name]["tensors"])
        # rounding to bf16 may change the experts of a token, in transformers as well: of one position here
        off = logits_differ(name, at("-ours"), at("-" + kind), *more)[-2 if moe and more else -1]
        assert off < bound, f"{name}: logits in {kind} differ by {off}"
        WORST[kind] = max(WORST.get(kind, 0), off)
    exact = abs(loss(at("-ours"), text, "--device", "ref") - FACTS["loss"][name])
    assert exact < 1e-6, f"{name}: the loss differs by {exact} in double"
    jotun("convert", "--from", "jotun", "--to", "hf", "--input", at("-ours"), "--output", at("-again"), "--max-shard-size", "1e-5")
    assert tensors(golden) == tensors(at("-again")), f"{name}: other tensors are written"
    index = json.load(open(at("-again/model.safetensors.index.json")))["weight_map"]
    assert set(index) == set(tensors(golden)) and len(set(index.values())) > 1
    theirs, ours = (json.load(open(os.path.join(f, "config.json"))) for f in (golden, at("-again")))
    for key, value in ours.items():
        if key not in ("transformers_version", "bos_token_id", "eos_token_id", "pad_token_id", "num_nextn_predict_layers",
                       *(("decoder_sparse_step", "mlp_only_layers") if "mlp_only_layers" in theirs else ())):
            assert theirs.get(key, value) == value or theirs[key] is None or key == "rope_parameters", f"{name}: {key} {value}"
    assert ours["eos_token_id"] == 256
    older_keys(name, ours)
    to_jotun(at("-again"), at("-back"))
    files = sorted(os.path.basename(f) for f in glob.glob(step(at("-ours")) + "/*.safetensors"))
    assert files and filecmp.cmpfiles(step(at("-ours")), step(at("-back")), files, False)[0] == files, f"{name}: imported again it differs"
    jotun("checkpoint", "verify", at("-back"))
    for dtype, word in (("bf16", "BF16"), ("f16", "F16")):
        jotun("convert", "--to", "hf", "--output-dtype", dtype, "--input", at("-ours"), "--output", at("-" + dtype))
        short = tensors(at("-" + dtype))
        assert all(t[0] == ("F32" if key.endswith("correction_bias") else word) for key, t in short.items())
        if word == "BF16":                       # round to nearest even, by integers
            for key, (_, _, data) in tensors(golden).items():
                if short[key][0] == "F32":
                    continue
                bits = struct.unpack(f"<{len(data) // 4}I", data)
                assert short[key][2] == struct.pack(f"<{len(bits)}H", *((b + 0x7fff + (b >> 16 & 1)) >> 16 for b in bits)), key


LAYOUTS = {1: "", 2: "--tp 2 --sp", 8: "--tp 2 --pp 2 --zero-stage 1"}


def continued(name, work, text):
    """--load hf:FOLDER: the first loss of training is transformers' on the same batch, under layouts as well; a checkpoint of a
    step with a learning rate of 0 is exported as the tensors that were read."""
    golden = "hf:" + os.path.join(GOLDEN, name)
    assert abs(loss(golden, text) - FACTS["loss"][name]) < 1e-5
    prefix = os.path.join(work, "corpus")
    if not os.path.exists(prefix + "_text_document.bin"):
        with open(prefix + ".jsonl", "w") as out:
            out.write(json.dumps({"text": FACTS["corpus"]}))
        jotun("prepare", "--input", prefix + ".jsonl", "--tokenizer", "bytes", "--output-prefix", prefix)
    for ranks, layout in LAYOUTS.items():
        out = os.path.join(work, f"metrics-{name}-{ranks}")
        keep = ["--save", out + "-saved"] if ranks == 8 else []
        if name.startswith("deepseek_v3"):
            keep += ["--moe-router-bias-update-rate", 0]
        jotun("train", "--load", golden, "--tokenizer", "bytes", "--train-iters", 2, "--global-batch-size", FACTS["samples"],
              "--micro-batch-size", 2, "--data-path", prefix + "_text_document", "--split", "1,0,0",
              "--lr", 0, "--min-lr", 0, "--metrics", out, "--ranks", ranks, *layout.split(), *keep)
        off = abs(metrics(out)[1] - MODELS[name]["batch_loss"])
        assert off < 1e-5, f"{name}, {ranks} ranks: the first loss differs by {off}"
    jotun("convert", "--to", "hf", "--input", out + "-saved", "--output", out + "-exported")
    assert tensors(golden[3:]) == tensors(out + "-exported"), f"{name}: other tensors are written after training"


def other_hosts(work):
    """Rank 1 sees neither the file of options nor config.json nor the index, and of the shards those of its pipeline stage alone:
    rank 0 reads for both. What rank 0 cannot read stops both with one message, what rank 1 lacks with its name."""
    first, second = (os.path.join(work, f"host{rank}") for rank in (0, 1))
    model = os.path.join(first, "model")
    os.makedirs(os.path.join(second, "model"))
    os.makedirs(first)
    to_jotun(os.path.join(GOLDEN, "llama"), os.path.join(work, "hosts"))
    jotun("convert", "--to", "hf", "--input", os.path.join(work, "hosts"), "--output", model, "--max-shard-size", "1e-6")
    needed = set()
    for tensor, file in json.load(open(model + "/model.safetensors.index.json"))["weight_map"].items():
        if not tensor.startswith(("model.layers.0.", "model.embed")):
            shutil.copy(os.path.join(model, file), os.path.join(second, "model"))
            needed.add(file)
    assert len(needed) < len(os.listdir(model)) - 4
    with open(first + "/run.yaml", "w") as out:
        out.write(f"load: hf:model\ntokenizer: bytes\ntrain-iters: 2\nglobal-batch-size: {FACTS['samples']}\nmicro-batch-size: 2\n"
                  f"data-path: [{work}/corpus_text_document]\nsplit: '1,0,0'\nlr: 1e-4\npipeline-model-parallel-size: 2\n")
    here = 'cd "$0/host${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" && exec "$@"'
    for name, launcher in run.launchers().items():
        on_hosts = launcher + ["2", "sh", "-c", here, work]
        out = os.path.join(work, "metrics-" + name.replace(" ", ""))
        jotun("train", "--config", "run.yaml", "--metrics", out, launcher=on_hosts)
        off = abs(metrics(out)[1] - MODELS["llama"]["batch_loss"])
        assert off < 1e-5, f"{name}: the first loss differs by {off}"
        lost = os.path.join(second, "model", sorted(needed)[-1])
        os.rename(lost, lost + ".away")
        done = jotun("train", "--config", "run.yaml", check=False, launcher=on_hosts)
        assert done.returncode == 1 and "rank 1 on" in done.stderr and os.path.basename(lost) in done.stderr, f"{name}: {done.stderr}"
        os.rename(lost + ".away", lost)
        done = jotun("train", "--config", "absent.yaml", check=False, launcher=on_hosts)
        assert done.returncode == 1 and done.stderr.count("absent.yaml: cannot be read") == 1, f"{name}: {done.stderr}"
        done = jotun("train", "--config", "run.yaml", "--load", "hf:absent", check=False, launcher=on_hosts)
        assert done.returncode == 1 and done.stderr.count("absent: there is no such file") == 1, f"{name}: {done.stderr}"
    shutil.rmtree(first), shutil.rmtree(second)


def refused(name, work, change, *words):
    """A copy of a golden folder, changed, is refused with these words, and nothing is written."""
    copy, output = os.path.join(work, "copy"), os.path.join(work, "refused")
    shutil.copytree(os.path.join(GOLDEN, name), copy)
    change(copy)
    done = to_jotun(copy, output, check=False)
    assert done.returncode == 1, f"{words}: exit code {done.returncode} {done.stderr}"
    for word in words:
        assert word in done.stderr, f"'{word}' is not in: {done.stderr}"
    assert not os.path.exists(output) and not os.path.exists(os.path.join(work, ".refused.part"))
    shutil.rmtree(copy)


def config(**changed):
    def change(folder):
        path = os.path.join(folder, "config.json")
        keys = json.load(open(path))
        keys.update({k: v for k, v in changed.items() if v != "REMOVE"})
        for key in [k for k, v in changed.items() if v == "REMOVE"]:
            del keys[key]
        json.dump(keys, open(path, "w"))
    return change


def rename(old, new):
    def change(folder):
        path = os.path.join(folder, "model.safetensors")
        data = open(path, "rb").read()
        assert data.count(old) == 1 and len(old) == len(new)
        open(path, "wb").write(data.replace(old, new))
    return change


def cut(folder):
    path = os.path.join(folder, "model.safetensors")
    os.truncate(path, os.path.getsize(path) - 8)


def published(work, text):
    """What folders have that version 5 of transformers does not write: keys of older versions and of publishers, and tensors that hold
    no weights of the model."""
    def same(name, config={}, tensors={}, without=()):
        model = MODELS[name]
        keys = {k: v for k, v in model["config"].items() if k not in without}
        folder = os.path.join(work, name + "-published")
        hf_golden.write_folder(dict(model, config=dict(keys, **config), tensors=dict(model["tensors"], **tensors)), folder)
        same_import(work, name, folder)
        off = abs(loss("hf:" + folder, text) - FACTS["loss"][name])
        assert off < 1e-5, f"{name}: the loss differs by {off}"
        shutil.rmtree(folder), shutil.rmtree(folder + "-ours")
    same("gpt2", {"n_special": 0, "predict_special_tokens": True, "output_past": True, "torch_dtype": "float32", "max_length": 50,
                  "n_ctx": 64, "task_specific_params": {"text-generation": {"max_length": 50}}},
         {"transformer.h.0.attn.bias": [[1, 1, 64, 64], 1], "transformer.h.1.attn.masked_bias": [[], -1e4], "lm_head.weight": [[257, 16], 0, "transformer.wte.weight"]})
    same("llama_tied", {"rope_theta": 10000.0, "rope_scaling": None, "is_llama_config": True, "rope_interleaved": False},
         {"lm_head.weight": [[257, 16], 0, "model.embed_tokens.weight"], "model.layers.1.self_attn.rotary_emb.inv_freq": [[4], 1]}, ["rope_parameters"])
    layers = MODELS["llama"]["config"]["num_hidden_layers"]
    same("llama", {"transformers.js_config": {"dtype": "q4"}, "embd_pdrop": 0.0, "resid_pdrop": 0, "attn_pdrop": 0.0, "layer_types": ["full_attention"] * layers, "use_sliding_window": False,
                   "sliding_window": 8, "max_window_layers": 1, "qk_layernorm": False, "logit_scale": 1.0, "partial_rotary_factor": 1.0, "num_local_experts": 0, "pruned_heads": {},
                   "suppress_words": [], "prefix_text": "", "unsloth_version": "2026.1", "temperature": 0.6, "is_decoder": False, "initializer_factor": 1, "_attn_implementation": "sdpa"})
    same("mistral", {"attention_bias": False, "mlp_bias": False, "use_qk_norm": False, "residual_multiplier": 1.0, "causal": True})
    if not QUICK:
        llama3 = dict(MODELS["llama3"]["config"]["rope_parameters"])
        same("llama3", {"rope_theta": llama3.pop("rope_theta"), "rope_scaling": llama3}, without=["rope_parameters"])
    yarn = dict(MODELS["deepseek_v3"]["config"]["rope_parameters"], type="yarn")
    next_layer = {name.replace(".2.", ".3."): shape for name, shape in MODELS["deepseek_v3"]["tensors"].items() if ".2." in name}
    mtp = {f"model.layers.3.{name}": shape for name, shape in (("eh_proj.weight", [[16, 32], 0]), ("enorm.weight", [[16], 1]),
           ("hnorm.weight", [[16], 1]), ("shared_head.head.weight", [[257, 16], 0]), ("embed_tokens.weight", [[257, 16], 0]))}
    same("deepseek_v3", {"rope_theta": yarn.pop("rope_theta"), "rope_scaling": yarn, "ep_size": 1, "moe_layer_freq": 1,
                         "scoring_func": "sigmoid", "topk_method": "noaux_tc", "auto_map": {"AutoModel": "modeling.Model"}},
         dict(next_layer, **mtp), ["rope_parameters", "rope_interleave"])
    deeper = os.path.join(work, "deeper")                    # a layer that the config forgot is none of multi-token prediction
    hf_golden.write_folder(dict(MODELS["deepseek_v3"], tensors=dict(MODELS["deepseek_v3"]["tensors"], **next_layer)), deeper)
    done = to_jotun(deeper, deeper + "-no", check=False)
    assert done.returncode == 1 and "model.layers.3." in done.stderr and "has no place" in done.stderr, done.stderr


def own_head(work):
    """A head that differs from the embedding in one element is not tied to it: transformers reads it then."""
    def last_changed(folder):
        shutil.rmtree(folder)
        hf_golden.write_folder(dict(model, tensors=dict(model["tensors"], **head)), folder)
        with open(os.path.join(folder, "model.safetensors"), "r+b") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            file.seek(8 + size + json.loads(file.read(size))["lm_head.weight"]["data_offsets"][1] - 4)
            file.write(struct.pack("<f", 7))
    model, head = MODELS["llama_tied"], {"lm_head.weight": [[257, 16], 0, "model.embed_tokens.weight"]}
    words = "tie_word_embeddings", "'lm_head.weight' has other values than 'model.embed_tokens.weight'", "set tie_word_embeddings to false"
    refused("llama_tied", work, last_changed, *words)
    folder = os.path.join(work, "own-head")
    os.mkdir(folder)
    last_changed(folder)
    train = ["train", "--load", "hf:" + folder, "--tokenizer", "bytes", "--data-path", os.path.join(work, "corpus_text_document"),
             "--train-iters", 1, "--global-batch-size", 2, "--micro-batch-size", 1, "--split", "1,0,0", "--ranks", 2]
    done = jotun(*train, check=False)
    assert done.returncode == 1 and all(word in done.stderr for word in words), done.stderr
    config(tie_word_embeddings=False)(folder)
    jotun(*train)


def card(work):
    """README.md of an exported folder: words as a shell reads them, and no directories."""
    data, saved = os.path.join(work, "it's"), os.path.join(work, "saved here")
    shutil.copy(os.path.join(work, "corpus_text_document.bin"), data + ".bin")
    shutil.copy(os.path.join(work, "corpus_text_document.idx"), data + ".idx")
    jotun("train", "--num-layers", 1, "--hidden-size", 8, "--num-attention-heads", 2, "--seq-length", 4, "--train-iters", 1,
          "--micro-batch-size", 1, "--global-batch-size", 1, "--lr", "1e-3", "--data-path", data, "--split", "1,0,0",
          "--normalization", "RMSNorm", "--swiglu", "--disable-bias-linear", "--position-embedding-type", "rope",
          "--tokenizer", "bytes", "--save", saved)
    jotun("convert", "--to", "hf", "--input", saved, "--output", saved + "-hf")
    text = open(saved + "-hf/README.md").read()
    command = text.split("```\n")[-2]
    words = shlex.split(command)
    assert words[words.index("--data-path") + 1] == "it's" and words[words.index("--save") + 1] == "saved here", command
    assert work not in text and "it's\t" in text, text


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n"


def refusals(work):
    refused("llama", work, config(rope_parameters={"rope_type": "cubic", "rope_theta": 1e4}), "config.json", "cubic")
    refused("llama", work, config(rope_theta=5e5), "rope_theta is 500000", "rotary-base", "10000")
    refused("llama", work, config(rope_scaling={"rope_type": "linear", "factor": 2.0}), "rope_scaling", "linear")
    refused("llama_linear", work, config(rope_scaling={"rope_type": "linear", "factor": 2.0}), "interpolation-factor")
    refused("llama", work, config(rope_interleaved=True), "rope_interleaved", "true", "false")
    refused("llama", work, config(quantization_config={"quant_method": "fp8"}), "quantization_config", "fp8", "dequantize")
    refused("llama", work, config(model_type="gemma3", text_config={"model_type": "gemma3_text"}), "gemma3_text", "folder of its own")
    refused("llama", work, config(attention_bias=True), "_proj.bias", "missing")
    refused("llama", work, config(attention_bias=1), "attention_bias")
    refused("llama", work, config(hidden_act="relu"), "hidden_act")
    refused("llama", work, config(attention_sink=3), "attention_sink")
    for key, value in (("embd_pdrop", 0.1), ("layer_types", ["full_attention", "sliding_attention"]), ("logit_scale", 0.5), ("partial_rotary_factor", 0.5), ("sliding_window", 8), ("qk_layernorm", True),
                       ("num_local_experts", 8), ("use_rope", False), ("use_sliding_window", True), ("layer_types", "full"), ("residual_multiplier", 0)):
        refused("llama", work, config(**{key: value}), key, "is not known for llama and could change what the model computes")
    refused("llama", work, config(model_type="bert"), "bert", "llama", "If its weights have the names and the meaning of one of them")
    adapter = os.path.join(work, "adapter")
    os.mkdir(adapter)
    open(os.path.join(adapter, "adapter_config.json"), "w").write('{"peft_type": "LORA", "base_model_name_or_path": "x"}')
    for more in ([], ["--from", "hf"]):
        done = to_jotun(adapter, adapter + "-no", *more, check=False)
        assert done.returncode == 1 and "an adapter (LoRA), which changes the weights of another model; merge the two" in done.stderr, done.stderr
    os.mkdir(adapter + "-empty")
    done = to_jotun(adapter + "-empty", adapter + "-no", check=False)
    assert done.returncode == 1 and "is in no format that is read" in done.stderr and "metaseq" in done.stderr, done.stderr
    refused("llama", work, config(architectures=["LlamaForSequenceClassification"]), "LlamaForSequenceClassification")
    refused("llama", work, config(vocab_size="REMOVE"), "vocab_size")
    refused("llama", work, config(hidden_size=0), "hidden-size")
    refused("llama", work, config(head_dim=3), "needs heads of even width", "leaves 3 channels; such a model is not built")
    refused("llama", work, config(hidden_size=1e300), "hidden-size")
    refused("llama", work, config(num_hidden_layers=3), "model.layers.2.", "missing")
    refused("llama", work, config(num_hidden_layers=1), "model.layers.1", "has no place")
    refused("llama", work, config(intermediate_size=48), "mlp", "40", "[48, 16]")
    refused("llama", work, rename(b"model.layers.0.mlp.up_proj.weight", b"model.layers.0.mlp.xx_proj.weight"), "up_proj", "missing")
    refused("llama", work, cut, "model.safetensors")
    refused("llama", work, lambda folder: open(os.path.join(folder, "model.safetensors"), "w").write(POINTER), "model.safetensors", "git lfs pull")
    refused("llama", work, lambda folder: (os.remove(folder + "/model.safetensors"), open(folder + "/model.safetensors.index.json", "w").write(
        '{"weight_map": {"a": "../../etc/passwd"}}')), "'/'")
    refused("gpt2", work, config(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx")
    refused("gpt2", work, config(embd_pdrop=0.5), "embd_pdrop")
    refused("qwen2", work, config(layer_types=["sliding_attention", "full_attention"]), "sliding_attention", "use_sliding_window")
    refused("qwen2", work, config(layer_types=["full_attention"]), "layer_types", "1 layers")
    refused("gemma2", work, config(layer_types=["full_attention", "chunked_attention"]), "chunked_attention")
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
    refused("llama", work, config(rope_parameters=dict(yarn, attention_factor=2.0)), "attention_factor")
    refused("llama", work, config(rope_parameters=dict(yarn, mscale_all_dim=1.0)), "mscale_all_dim")
    refused("llama", work, config(rope_parameters=dict(yarn, partial_rotary_factor=0.5)), "partial_rotary_factor")
    formula = lambda name, **changed: refused(name, work, config(**changed), list(changed)[0])
    formula("deepseek_v3", norm_topk_prob=False)
    formula("deepseek_v3", num_experts_per_tok=1)
    formula("deepseek_v3", first_k_dense_replace=3)
    formula("deepseek_v3", n_shared_experts=0)
    formula("deepseek_v3", scoring_func="softmax")
    formula("deepseek_v2", topk_method="noaux_tc")
    refused("deepseek_v2", work, config(num_key_value_heads=2), "num-query-groups")
    formula("gemma3", rope_parameters={"rope_type": "default", "rope_theta": 1e4})
    formula("smollm3", no_rope_layers=[1, 1, 1])
    formula("qwen3_moe", decoder_sparse_step=3)
    formula("qwen3_moe", decoder_sparse_step=0)
    formula("qwen3_moe", mlp_only_layers=1)
    longrope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 2, "long_factor": [2.0] * 2}
    refused("phi3", work, config(rope_parameters=longrope), "longrope", "default, linear, llama3 and yarn")


CODES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def pickled(source, target, files, views=False):
    """The folder with its weights in files of torch.save; views: all tensors of a file are ranges of one storage."""
    os.mkdir(target)
    shutil.copy(os.path.join(source, "config.json"), target)
    names, where = sorted(tensors(source)), {}
    for n in range(files):
        name = "pytorch_model.bin" if files == 1 else f"pytorch_model-{n + 1:05d}-of-{files:05d}.bin"
        mine, whole, at = tw.OrderedDict(), tw.Storage([], "float32"), 0
        for key in names[n::files]:
            dtype, shape, data = tensors(source)[key]
            storage = whole if views else tw.Storage([], CODES[dtype])
            storage.bytes, storage.count = storage.bytes + data, storage.count + len(data) // tw.TYPES[CODES[dtype]][1]
            mine[key] = tw.Tensor(None, shape, CODES[dtype], storage, at if views else 0)
            at, where[key] = storage.count, name
        mask = names[0].startswith("transformer.") and n == 0
        if mask:                                                     # what older versions of transformers saved of GPT-2
            mine["transformer.h.0.attn.bias"] = tw.Tensor([1], (1, 1, 1, 1), "uint8")
        with open(os.path.join(target, name), "wb") as out:
            out.write((tw.saved_legacy if views and not mask else tw.saved)(mine))
    if files > 1:
        with open(os.path.join(target, "pytorch_model.bin.index.json"), "w") as out:
            json.dump({"metadata": {}, "weight_map": where}, out)


def same_import(work, name, folder):
    ours, again = os.path.join(work, name + "-ours"), folder + "-ours"
    if not os.path.exists(ours):                                         # of a model that the quick part leaves out
        to_jotun(os.path.join(GOLDEN, name), ours)
    to_jotun(folder, again)
    files = sorted(os.path.basename(f) for f in glob.glob(step(ours) + "/*.safetensors"))
    assert files and filecmp.cmpfiles(step(ours), step(again), files, False)[0] == files, f"{folder}: other weights than of safetensors"


def pickles(work, text):
    """pytorch_model.bin is read as the safetensors of the same model are; what is damaged or calls something is refused."""
    for name, files, views in (("gpt2", 1, False), ("llama_tied", 3, False), ("qwen3_moe", 2, True)):
        folder = os.path.join(work, f"{name}-bin")
        pickled(os.path.join(GOLDEN, name), folder, files, views)
        same_import(work, name, folder)
    gpt2, llama = (os.path.join(work, n + "-bin") for n in ("gpt2", "llama_tied"))
    assert abs(loss("hf:" + llama, text) - MODELS["llama_tied"]["loss"]) < 1e-5
    path = os.path.join(gpt2, "pytorch_model.bin")
    data = open(path, "rb").read()
    for what, changed, words in (
            ("a bit", data[:3000] + bytes([data[3000] ^ 1]) + data[3001:], ("archive/data/", "is damaged", "copy the file again")),
            ("a bit of the pickle", data[:200] + bytes([data[200] ^ 1]) + data[201:], ("archive/data.pkl is damaged",)),
            ("a call", tw.archive(b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR.", []), ("it names os.system",)),
            ("a list", tw.saved([1]), ("no dictionary of tensors",)),
            ("what is no tensor", tw.saved({"a": 1}), ("'a' is no tensor",)),
            ("a truncated file", data[:-30], ("no zip directory",))):
        open(path, "wb").write(changed)
        done = to_jotun(gpt2, gpt2 + "-no", check=False)
        assert done.returncode == 1 and all(w in done.stderr for w in (path, *words)), f"{what}: {done.returncode} {done.stderr}"
        assert not os.path.exists(gpt2 + "-no"), what
    open(path, "wb").write(data[:3000] + bytes([data[3000] ^ 1]) + data[3001:])
    done = jotun("eval", "perplexity", "--load", "hf:" + gpt2, "--text", text, "--tokenizer", "bytes", check=False)
    assert done.returncode == 1 and "is damaged" in done.stderr, done.stderr


def piece(text, score, kind):
    """A piece of a sentencepiece model, as protocol buffers write it."""
    body = b"\x0a" + bytes([len(text.encode())]) + text.encode() + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind])
    return b"\x0a" + bytes([len(body)]) + body


def exported(work, name, vocabulary):
    """The tokenizer.json of a model with this tokenizer."""
    at = lambda leaf: os.path.join(work, os.path.basename(name) + leaf)
    jotun("train", "--num-layers", 1, "--hidden-size", 8, "--num-attention-heads", 2, "--seq-length", 4, "--train-iters", 1,
          "--micro-batch-size", 1, "--global-batch-size", 1, "--lr", "1e-3", "--mock-data", "--normalization", "RMSNorm", "--swiglu",
          "--disable-bias-linear", "--position-embedding-type", "rope", "--tokenizer", name, "--save", at("-ck"))
    jotun("convert", "--to", "hf", "--input", at("-ck"), "--output", at("-hf"))
    made = json.load(open(at("-hf/tokenizer.json")))
    assert len(made["model"]["vocab"]) == vocabulary, len(made["model"]["vocab"])
    return made, at("-hf/tokenizer.json")


def tokenizers(work, text):
    """.tiktoken files and sentencepiece models as tokenizer.json; tests/outside/tokenizer_files.py has transformers read them."""
    tokens = [bytes([b]) for b in range(256)] + [b"th", b"the", b" the", b"in", b"ing", b"  ", b"he"]
    name = os.path.join(work, "gpt2-small.tiktoken")
    with open(name, "wb") as out:
        out.writelines(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens))
    made, path = exported(work, name, len(tokens) + 1)
    assert made["model"]["merges"] == ["t h", "th e", "\u0120 the", "i n", "in g", "\u0120 \u0120", "h e"], made["model"]["merges"]
    assert made["model"]["ignore_merges"] and made["added_tokens"][0]["id"] == len(tokens)
    ids = [jotun("tokenizer", "encode", "--tokenizer", t, "--input", text).stdout for t in (name, path)]
    assert ids[0] == ids[1] and len(ids[0].split()) > 20
    name = os.path.join(work, "unigram.model")
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("\u2581a", -1, 1), ("b", -2, 1)]
    with open(name, "wb") as out:
        out.write(b"".join(piece(*p) for p in pieces))
    made, _ = exported(work, name, len(pieces))
    assert made["model"]["type"] == "Unigram" and made["model"]["unk_id"] == 0 and made["model"]["vocab"][3] == ["\u2581a", -1.0]
    assert [n["type"] for n in made["normalizer"]["normalizers"]] == ["Replace", "Replace", "Prepend", "Replace"]
    chat = {"chat_template.jinja": "{{ messages }}", "special_tokens_map.json": '{"eos_token": "</s>"}'}
    for leaf, files in ("chat", chat), ("chat-key", {"tokenizer_config.json": '{"chat_template": "{{ messages }}"}'}):
        folder = os.path.join(work, leaf)                    # what the folder says of conversations stays beside a made file
        os.mkdir(folder)
        shutil.copy(name, os.path.join(folder, "tokenizer.model"))
        for file, said in files.items():
            open(os.path.join(folder, file), "w").write(said)
        exported(work, folder, len(pieces))
        kept = {file: open(os.path.join(folder + "-hf", file)).read() for file in os.listdir(folder + "-hf") if file in chat}
        key = json.load(open(os.path.join(folder + "-hf", "tokenizer_config.json"))).get("chat_template")
        assert (kept, key) == ((chat, None) if leaf == "chat" else ({}, "{{ messages }}")), (leaf, kept, key)
    with open(name, "wb") as out:
        out.write(b"".join(piece(*p) for p in pieces[:-1]) + piece("<user>", 0, 4))
    done = jotun("convert", "--to", "hf", "--input", name + "-ck", "--output", name + "-no", "--tokenizer", name, check=False)
    assert done.returncode == 1 and "users defined" in done.stderr and not os.path.exists(name + "-no"), done.stderr


def places(work):
    """Nothing is overwritten; a killed conversion leaves no checkpoint at its place, one that fails nothing, and the next one succeeds."""
    golden, output = os.path.join(GOLDEN, "gpt2"), os.path.join(work, "place")
    os.mkdir(output)
    open(os.path.join(output, "mine"), "w").close()
    done = to_jotun(golden, output, check=False)
    assert done.returncode == 1 and "is there already" in done.stderr and os.listdir(output) == ["mine"]
    os.remove(os.path.join(output, "mine"))
    os.rmdir(output)
    for fault in ("write:3:fail", "write:20:fail", "sync:2:fail", "sync:9:fail", "rename:1:fail", "rename:2:fail", "rename:3:fail", "mkdir:2:fail"):
        done = to_jotun(golden, output, check=False, env=dict(os.environ, JOTUN_FAULT=fault))
        assert done.returncode == 3 and not os.path.exists(output), f"{fault}: {done.returncode} {done.stderr}"
    for fault in ("write:3:kill", "sync:9:kill", "rename:1:kill", "rename:2:kill"):
        done = to_jotun(golden, output, check=False, env=dict(os.environ, JOTUN_FAULT=fault))
        assert done.returncode == -signal.SIGKILL, f"{fault}: {done.returncode}"
        assert not [name for name in os.listdir(output) if name[0] != "."], f"{fault}: {os.listdir(output)}"
        assert jotun("checkpoint", "verify", output, check=False).returncode == 1
    to_jotun(golden, output)
    assert sorted(os.listdir(output)) == [".lock", "latest", "step_00000000"], os.listdir(output)
    done = to_jotun(golden, output, check=False)
    assert done.returncode == 1 and "is there already" in done.stderr
    hf = os.path.join(work, "place-hf")
    for fault, code in (("write:3:kill", -signal.SIGKILL), ("write:4:fail", 3), ("rename:1:kill", -signal.SIGKILL), ("sync:3:fail", 3)):
        done = jotun("convert", "--to", "hf", "--input", output, "--output", hf, check=False, env=dict(os.environ, JOTUN_FAULT=fault))
        assert done.returncode == code and not os.path.exists(hf), f"{fault}: {done.returncode}"
    jotun("convert", "--to", "hf", "--input", output, "--output", hf)
    assert not os.path.exists(os.path.join(work, ".place-hf.part"))
    done = jotun("convert", "--to", "jotun", "--input", output, "--output", output + "2", check=False)
    assert done.returncode == 1 and "any layout" in done.stderr


def paths(work):
    """A path may end as a shell completes it; one that is not there is refused with what would work."""
    llama, out = (os.path.join(work, n) for n in ("slash-llama", "slash"))
    shutil.copytree(os.path.join(GOLDEN, "llama"), llama)
    to_jotun(llama + "/", out + "//")
    for target in ("hf", "gguf"):
        jotun("convert", "--to", target, "--input", out + "/", "--output", f"{out}-{target}/")
    assert os.path.isfile(out + "-gguf") and os.path.isfile(out + "-hf/config.json") and "/" not in "".join(os.listdir(out))
    open(llama + "/tokenizer.json", "w").write(POINTER)
    train = ["train", "--mock-data", "--train-iters", 1, "--global-batch-size", 1, "--load"]
    for words, said in (
            (["convert", "--to", "jotun", "--output", out + "2", "--input", "someone/llama"], "--input someone/llama: there is no such file"),
            (["convert", "--to", "jotun", "--output", out + "2", "--input", llama], "tokenizer.json: a pointer of Git LFS"),
            (["convert", "--to", "jotun", "--output", out + "2", "--input", "hf:" + llama], f"give --input {llama} --from hf"),
            ([*train, "hf:someone/llama"], "hf download NAME --local-dir FOLDER"),
            ([*train, "hf:"], "hf:FOLDER"),
            ([*train, "gguf:" + llama], "gguf: is no format that is read; these are hf:, megatron:, llmc:, nanogpt:"),
            ([*train, "hf:" + llama, "--model", "gpt2-124m"], "leave --model out")):
        done = jotun(*words, check=False)
        assert done.returncode == 1 and said in done.stderr, f"{words}: {done.returncode} {done.stderr}"


def damaged(work):
    """A bit that flipped in one of our checkpoints is found on the way to each format, by file and tensor, and nothing is left."""
    whole, broken, output = (os.path.join(work, n) for n in ("whole", "broken", "from-broken"))
    to_jotun(os.path.join(GOLDEN, "llama"), whole)
    paths = sorted(glob.glob(step(whole) + "/*.safetensors"))
    for path, last in ((paths[0], False), (paths[1], True), (paths[-1], True)):
        shutil.copytree(whole, broken)
        copy = os.path.join(step(broken), os.path.basename(path))
        data = bytearray(open(copy, "rb").read())
        (size,) = struct.unpack("<Q", data[:8])
        names = sorted((t["data_offsets"][0], n) for n, t in json.loads(data[8:8 + size]).items() if n != "__metadata__")
        data[-1 if last else 8 + size] ^= 64
        open(copy, "wb").write(data)
        for to in ("hf", "gguf"):
            done = jotun("convert", "--to", to, "--input", broken, "--output", output, check=False)
            for word in (copy, f"'{names[-1 if last else 0][1]}'", "another checksum", "damaged"):
                assert done.returncode == 1 and word in done.stderr, f"{to}: {word} is not in {done.returncode} {done.stderr}"
            assert not os.path.exists(output) and not [n for n in os.listdir(work) if n.endswith(".part")]
        shutil.rmtree(broken)


def main(folder):
    global GOLDEN
    GOLDEN = os.path.join(folder, "theirs")                  # those of the formula
    text_file = os.path.join(folder, "text.txt")
    with open(text_file, "w") as out:
        out.write(FACTS["text"])
    for model in MODELS:
        hf_golden.write_folder(MODELS[model], os.path.join(GOLDEN, model))
        if not QUICK or model in UNLIKE:
            family(model, folder, text_file)
        if model in UNLIKE:
            continued(model, folder, text_file)
    pickles(folder, text_file)
    published(folder, text_file)
    own_head(folder)
    card(folder)
    tokenizers(folder, text_file)
    other_hosts(folder)
    refusals(folder)
    places(folder)
    paths(folder)
    damaged(folder)
    print(len(MODELS), "models of transformers", FACTS["transformers"], "- the worst logits differ by",
          ", ".join(f"{off:.1e} in {kind}" for kind, off in WORST.items()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work_folder:
        main(work_folder)
