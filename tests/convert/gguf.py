"""GGUF files: an own small reader finds the tensors of transformers' models (tests/golden/hf/models.json) in each type, at aligned
places, and the tokenizer. Tokenizers of published families (tests/golden/text/shapes.json) keep their special ids in folders and files, and
the scores of pieces give transformers' ids by the rule of llama.cpp. tests/outside/gguf_files.py and tokenizer_files.py have the
package gguf and llama.cpp read such files."""
import json
import os
import shutil
import struct
import tempfile

from hf import GOLDEN, MODELS, hf_golden, tensors, to_jotun
from run import jotun

SIZES = {0: 1, 1: 1, 4: 4, 5: 4, 6: 4, 7: 1}
FORMATS = {4: "<I", 5: "<i", 6: "<f", 7: "<?"}


class Reader:
    def __init__(self, path):
        self.data, self.at = open(path, "rb").read(), 0
        magic, version, count, keys = struct.unpack("<4sIQQ", self.take(24))
        assert magic == b"GGUF" and version == 3
        self.keys = {}
        for _ in range(keys):
            name = self.text()
            self.keys[name] = self.value(self.number("<I"))
        infos = []
        for _ in range(count):
            name = self.text()
            shape = [self.number("<Q") for _ in range(self.number("<I"))]
            infos.append((name, shape[::-1], self.number("<I"), self.number("<Q")))
        base = (self.at + 31) // 32 * 32
        self.tensors, end = {}, 0
        for name, shape, kind, offset in infos:
            elements = 1
            for n in shape:
                elements *= n
            size = elements // 32 * 34 if kind == 8 else elements * {0: 4, 1: 2, 30: 2}[kind]
            assert offset % 32 == 0 and offset >= end, name
            end = offset + size
            self.tensors[name] = (kind, shape, self.data[base + offset:base + end])
        assert base + (end + 31) // 32 * 32 == len(self.data)

    def take(self, n):
        self.at += n
        assert self.at <= len(self.data)
        return self.data[self.at - n:self.at]

    def number(self, kind):
        return struct.unpack(kind, self.take(struct.calcsize(kind)))[0]

    def text(self):
        return self.take(self.number("<Q")).decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, n = self.number("<I"), self.number("<Q")
            return [self.value(inner) for _ in range(n)]
        return self.number(FORMATS[kind])


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def theirs(folder, name, **changed):
    """The folder of a model of transformers, with a config of which some keys are changed"""
    path = os.path.join(folder, name + "-theirs" + "".join(changed))
    if not os.path.exists(path):
        model = MODELS[name]
        hf_golden.write_folder(dict(model, config=dict(model["config"], **changed)), path)
    return path


def written(folder, name, kind, **changed):
    ours, path = (os.path.join(folder, name + "".join(changed) + leaf) for leaf in ("", f"-{kind}.gguf"))
    if not os.path.exists(ours):
        to_jotun(theirs(folder, name, **changed), ours)
    jotun("convert", "--to", "gguf", "--output-dtype", kind, "--input", ours, "--output", path)
    assert os.path.isfile(path)
    return Reader(path)


# ---- what the tensors of a whole file have to be: name -> (shape, list of its rows, each as bytes) ----

def rows_of(tensor):
    _, shape, data = tensor
    columns = shape[-1] if len(shape) > 1 else 1
    return [data[i:i + 4 * columns] for i in range(0, len(data), 4 * columns)]


def paired(rows, heads):
    """Channels i and i + half of a head become neighbours"""
    head = len(rows) // heads
    return [rows[h * head + i + j * head // 2] for h in range(heads) for i in range(head // 2) for j in (0, 1)]


def turned(rows):
    table = [floats(row) for row in rows]
    return [struct.pack(f"<{len(table)}f", *column) for column in zip(*table)]


NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up", "mlp.gate": "ffn_gate_inp",
         "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
         "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
         "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp", "self_attention.dense": "attn_output",
         "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down", "model.embed_tokens": "token_embd", "model.norm": "output_norm",
         "lm_head": "output", "transformer.word_embeddings": "token_embd", "transformer.word_embeddings_layernorm": "token_embd_norm",
         "transformer.ln_f": "output_norm"}
EXPERTS = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}


def layer_tensor(c, name, part, rows, architecture):
    """[(name in the file, rows)] of a tensor of a layer"""
    heads, groups = c.get("num_attention_heads") or c.get("n_head"), c.get("num_key_value_heads")
    if name.endswith("e_score_correction_bias"):
        return [("exp_probs_b.bias", rows)]
    if name == "self_attention.query_key_value":                 # of a head query, key and value below each other
        head = len(rows) // heads // 3
        kinds = [rows[(3 * h + kind) * head:(3 * h + kind + 1) * head] for kind in range(3) for h in range(heads)]
        return [("attn_qkv." + part, sum(kinds, []))]
    if name == "self_attn.kv_b_proj":
        keys, values = c["qk_nope_head_dim"], c["v_head_dim"]
        of_head = [rows[h * (keys + values):(h + 1) * (keys + values)] for h in range(heads)]
        return [("attn_k_b.weight", sum((turned(x[:keys]) for x in of_head), [])), ("attn_v_b.weight", sum((x[keys:] for x in of_head), []))]
    if architecture == "mimo2" and name == "self_attn.qkv_proj":
        head = len(rows) // (heads + 2 * groups)
        return [("attn_q.weight", rows[:heads * head]), ("attn_k.weight", rows[heads * head:-groups * head]), ("attn_v.weight", rows[-groups * head:])]
    if architecture == "mimo2" and name == "mlp.gate_up_proj":
        return [("ffn_gate.weight", rows[:len(rows) // 2]), ("ffn_up.weight", rows[len(rows) // 2:])]
    if architecture in ("llama", "smollm3") and name in ("self_attn.q_proj", "self_attn.k_proj"):
        rows = paired(rows, heads if name == "self_attn.q_proj" else groups)
    return [(f"{NAMES[name]}.{part}", rows)]


def expected(folder, c, architecture):
    found = {}
    for name, tensor in sorted(tensors(folder).items()):
        name, part = name.rsplit(".", 1)
        words, rows = name.split("."), rows_of(tensor)
        if "layers" not in words and "h" not in words:
            found[f"{NAMES[name]}.{part}"] = rows
        elif "experts" in words:
            found.setdefault(f"blk.{words[2]}.{EXPERTS[words[-1]]}.weight", {})[int(words[-2])] = rows
        else:
            inside = ".".join(words[3:]) + (".e_score_correction_bias" if part.startswith("e_") else "")
            for theirs_name, its_rows in layer_tensor(c, inside, part, rows, architecture):
                found[f"blk.{words[2]}.{theirs_name}"] = its_rows
    return {k: sum((x[e] for e in sorted(x)), []) if isinstance(x, dict) else x for k, x in found.items()}


def whole(folder, name, architecture, keys, **changed):
    """Every tensor of a file in F32, and some keys of its architecture"""
    file = written(folder, name, "f32", **changed)
    c = dict(MODELS[name]["config"], **changed)
    want = expected(theirs(folder, name, **changed), c, architecture)
    if "output.weight" in file.tensors and "output.weight" not in want:
        want["output.weight"] = want["token_embd.weight"]
    assert file.keys["general.architecture"] == architecture, file.keys["general.architecture"]
    assert set(file.tensors) == set(want), f"{name}: {set(file.tensors) ^ set(want)}"
    for key, rows in want.items():
        assert file.tensors[key][2] == b"".join(rows), f"{name}: {key} differs"
        assert len(rows[0]) == 4 * file.tensors[key][1][-1] or len(file.tensors[key][1]) == 1, f"{name}: {key} {file.tensors[key][1]}"
    for key, value in keys.items():
        held = file.keys.get(f"{architecture}.{key}")
        assert held == value or isinstance(value, float) and abs(held - value) < 1e-6, f"{name}: {key} is {held}, not {value}"


def families(folder):
    latent = {"attention.head_count_kv": 1, "attention.key_length": 16, "attention.value_length": 12, "attention.key_length_mla": 12,
              "attention.value_length_mla": 6, "rope.dimension_count": 4, "leading_dense_block_count": 1, "expert_count": 8}
    whole(folder, "smollm3", "smollm3", {"attention.head_count_kv": 2})
    whole(folder, "phi3", "phi3", {"rope.dimension_count": 4, "attention.sliding_window": None}, sliding_window=None)
    names = [written(folder, name, "f16").keys.get("general.name") for name in ("phi3", "mistral")]
    assert names == [None, "mistral"], names                                 # directories are not published
    whole(folder, "phi3", "mimo2", {"rope.dimension_count": 4, "attention.sliding_window": 16, "attention.sliding_window_pattern": [True] * 2})
    whole(folder, "mistral", "mimo2", {"attention.sliding_window": 16, "attention.sliding_window_pattern": [True] * 2, "expert_feed_forward_length": 40})
    whole(folder, "llama_biases", "llama", {"feed_forward_length": 40})
    whole(folder, "bloom", "bloom", {"context_length": 64, "attention.head_count": 6})
    whole(folder, "deepseek_v2", "deepseek2", dict(latent, **{"expert_gating_func": 1, "expert_weights_norm": False, "expert_shared_count": 2,
                                                              "expert_weights_scale": 2.0, "attention.q_lora_rank": 0}))
    whole(folder, "deepseek_v3", "deepseek2", dict(latent, **{
        "expert_gating_func": 2, "expert_weights_norm": True, "expert_group_count": 4, "expert_group_used_count": 2, "attention.q_lora_rank": 10,
        "rope.scaling.factor": 4.0, "rope.scaling.yarn_log_multiplier": 0.07, "rope.scaling.attn_factor": 1.0}), rope_parameters=dict(
            rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=0.7))


def main(folder):
    golden = tensors(theirs(folder, "llama"))
    file = written(folder, "llama", "f32")
    config = MODELS["llama"]["config"]
    assert file.keys["general.architecture"] == "llama" and file.keys["llama.block_count"] == config["num_hidden_layers"]
    assert file.keys["llama.context_length"] == config["max_position_embeddings"]
    assert abs(file.keys["llama.attention.layer_norm_rms_epsilon"] / config["rms_norm_eps"] - 1) < 1e-6
    tokens = file.keys["tokenizer.ggml.tokens"]
    assert len(tokens) == 257 and tokens[ord("a")] == "a" and tokens[256] == "<|endoftext|>"
    assert file.keys["tokenizer.ggml.eos_token_id"] == 256 and file.keys["tokenizer.ggml.token_type"][256] == 3
    assert len(file.tensors) == len(golden)
    kind, shape, data = file.tensors["blk.1.ffn_down.weight"]
    assert (kind, shape, data) == (0, *golden["model.layers.1.mlp.down_proj.weight"][1:])
    _, (rows, columns), queries = golden["model.layers.0.self_attn.q_proj.weight"]
    head, width, permuted = rows // 4, columns * 4, file.tensors["blk.0.attn_q.weight"][2]
    for row in range(rows):                          # row 2i + j of a head is its channel i + j * half
        h, i, j = row // head, row % head // 2, row % 2
        source = h * head + i + j * head // 2
        assert permuted[row * width:(row + 1) * width] == queries[source * width:(source + 1) * width], row
    experts = written(folder, "mixtral", "bf16")
    kind, shape, data = experts.tensors["blk.0.ffn_up_exps.weight"]
    third = tensors(theirs(folder, "mixtral"))["model.layers.0.block_sparse_moe.experts.3.w3.weight"][2]
    assert kind == 30 and shape[0] == 4 and experts.tensors["blk.0.ffn_gate_inp.weight"][0] == 0
    for a, b in zip(struct.unpack(f"<{len(data) // 8}H", data[-len(data) // 4:]), floats(third)):
        assert abs(struct.unpack("<f", struct.pack("<I", a << 16))[0] - b) <= abs(b) / 256
    small = written(folder, "gpt2", "q8_0")
    kind, _, data = small.tensors["blk.0.ffn_down.weight"]
    assert kind == 8 and small.tensors["blk.0.ffn_up.weight"][0] == 1 and small.tensors["blk.0.ffn_up.bias"][0] == 0
    exact = written(folder, "gpt2", "f32").tensors["blk.0.ffn_down.weight"][2]
    for block in range(len(data) // 34):
        scale, *integers = struct.unpack("<e32b", data[block * 34:(block + 1) * 34])
        part = floats(exact[block * 128:(block + 1) * 128])
        assert abs(max(map(abs, integers))) == 127
        assert all(abs(scale * q - x) <= 0.57 * scale for q, x in zip(integers, part)), block
    gemma, gains = written(folder, "gemma", "f16"), tensors(theirs(folder, "gemma"))
    for name, gain in (("output_norm", "model.norm"), ("blk.1.ffn_norm", "model.layers.1.post_attention_layernorm")):
        kind, _, data = gemma.tensors[name + ".weight"]
        want = [struct.unpack("f", struct.pack("f", x + 1))[0] for x in floats(gains[gain + ".weight"][2])]
        assert kind == 0 and list(floats(data)) == want, name
    assert gemma.keys["general.architecture"] == "gemma" and gemma.keys["gemma.attention.key_length"] == 8
    kind, shape, data = written(folder, "llama3", "q8_0").tensors["rope_freqs.weight"]
    assert (kind, shape) == (0, [2]) and floats(data)[0] == 1 and abs(floats(data)[1] - 8) < 1e-5
    keys = written(folder, "llama_linear", "f32").keys
    assert keys["llama.rope.scaling.type"] == "linear" and keys["llama.rope.scaling.factor"] == 4
    olmo2 = written(folder, "olmo2", "f32")
    assert olmo2.tensors["blk.0.post_ffw_norm.weight"][2] == \
        tensors(theirs(folder, "olmo2"))["model.layers.0.post_feedforward_layernorm.weight"][2]
    families(folder)
    refused(folder, "mixtral", "llama", "--window-size", "a window of all positions works", sliding_window=16)
    refused(folder, "mistral", "--window-size", rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0})
    refused(folder, "gemma2", "gemma2", "--softmax-scale 0.353553391")
    refused(folder, "smollm3", "llama", "--no-rope-freq [0,1,0,1]", no_rope_layers=[1, 0, 1, 0])
    refused(folder, "deepseek_v2_groups", "deepseek2", "--moe-router-group-best 2, and this one has 1")
    refused(folder, "deepseek_v3_plain", "deepseek2", "--rotary-interleaved true")


SHAPES = os.path.join(os.path.dirname(GOLDEN), "text", "shapes.json")
MODEL = """--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --normalization RMSNorm --disable-bias-linear --swiglu
    --position-embedding-type rope --train-iters 1 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 --mock-data"""


def pieces_of(keys, text):
    """llama.cpp's ids of a text by pieces with scores: of all neighbours those whose joined token has the highest score are joined."""
    ids = {t: i for i, t in enumerate(keys["tokenizer.ggml.tokens"])}
    scores, kinds = keys["tokenizer.ggml.scores"], keys["tokenizer.ggml.token_type"]
    out, rest, at = [keys["tokenizer.ggml.bos_token_id"]], [], 0
    users = sorted((t for t, i in ids.items() if kinds[i] in (2, 3, 4)), key=len, reverse=True)
    while at <= len(text):                                   # an added token splits the text
        user = next((u for u in users if text.startswith(u, at)), None) if at < len(text) else ""
        if user is None:
            rest.append(text[at])
            at += 1
            continue
        if rest:
            parts = list(((" " if keys["tokenizer.ggml.add_space_prefix"] else "") + "".join(rest)).replace(" ", "\u2581"))
            while True:
                pairs = [(-scores[ids[a + b]], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ids]
                if not pairs:
                    break
                i = min(pairs)[1]
                parts[i:i + 2] = [parts[i] + parts[i + 1]]
            for part in parts:
                out += [ids[part]] if part in ids else [ids[f"<0x{b:02X}>"] for b in part.encode()]
        out += [ids[user]] if user else []
        rest, at = [], at + max(len(user), 1)
    return out


def letters_of(keys, source):
    """A byte-level BPE: tokens and merges are those of the tokenizer.json."""
    model, tokens = source["model"], keys["tokenizer.ggml.tokens"]
    for text, i in model["vocab"].items():
        assert tokens[i] == text, (i, text, tokens[i])
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    assert keys["tokenizer.ggml.merges"] == merges


# Metaspace puts no blank before a blank nor after a special token; a token of marks is found in a text that has marks itself
LLAMA_CPP_DIFFERS = {"mistral": lambda t: t[0] in " \u2581<", "gemma": lambda t: "\u2581\u2581" in t}


NOT_NAMED = {"llama3": {301}}                                # <|end_of_text|>: three keys, and a text that llama.cpp knows
# what the keys of further ends mean: the end of a turn, and of a message; an id of no such meaning has a key that is left
MEANINGS = {"llama3": {"eot": "<|eot_id|>", "eom": "<|eom_id|>"}, "qwen2": {"eot": "<|im_end|>", "eom": "<|endoftext|>"}, "gemma": {"eot": "<end_of_turn>"}}


def shapes(folder):
    golden = json.load(open(SHAPES, encoding="utf-8"))
    for name, shape in golden["shapes"].items():
        source, at = os.path.join(folder, "shape-" + name), lambda leaf: os.path.join(folder, f"shape-{name}-{leaf}")
        os.mkdir(source)
        # of several kinds of files a tokenizer.json is the tokenizer
        for leaf, text in dict({"vocab.json": "{}", "merges.txt": "", "tokenizer.model": "\n"}, **shape["files"]).items():
            with open(os.path.join(source, leaf), "w", encoding="utf-8") as out:
                out.write(text)
        jotun("train", *MODEL.split(), "--tokenizer", source, "--save", at("ck"))
        jotun("convert", "--to", "gguf", "--input", at("ck"), "--output", at("gguf"))
        keys, tokenizer = Reader(at("gguf")).keys, json.loads(shape["files"]["tokenizer.json"])
        for key, value in shape["keys"].items():
            found = keys.get(("tokenizer." if key == "chat_template" else "tokenizer.ggml.") + key)
            assert found == value, (name, key, value, found)
        ends = [keys[f"tokenizer.ggml.{end}_token_id"] for end in ("eos", "eot", "eom") if f"tokenizer.ggml.{end}_token_id" in keys]
        assert set(ends) == set(shape["ends"]) - NOT_NAMED.get(name, set()), (name, ends)
        if len(ends) > 1:
            named = {end: keys["tokenizer.ggml.tokens"][keys[f"tokenizer.ggml.{end}_token_id"]] for end in ("eot", "eom") if f"tokenizer.ggml.{end}_token_id" in keys}
            assert named == MEANINGS[name], (name, named)
        config = json.loads(shape["files"]["tokenizer_config.json"])
        assert keys["tokenizer.ggml.tokens"][ends[0]] == config["eos_token"]["content"], name
        for token in tokenizer["added_tokens"]:
            kind = keys["tokenizer.ggml.token_type"][token["id"]]
            marked = keys["tokenizer.ggml.model"] == "llama" and "\u2581" in token["content"]
            assert kind == (2 if token["content"] == tokenizer["model"].get("unk_token") else 3 if token["special"] else 1 if marked else 4), (name, token)
        if keys["tokenizer.ggml.model"] == "gpt2":
            letters_of(keys, tokenizer)
        for text, ids in zip(golden["texts"], shape["ids"]):
            if keys["tokenizer.ggml.model"] == "llama" and not LLAMA_CPP_DIFFERS.get(name, lambda t: False)(text):
                assert pieces_of(keys, text) == ids, (name, text)
        jotun("convert", "--to", "hf", "--input", at("ck"), "--output", at("hf"))
        kept = json.loads(shape["files"]["generation_config.json"])
        del kept["transformers_version"]
        assert json.load(open(os.path.join(at("hf"), "generation_config.json"))) == kept, name
        written_config = json.load(open(os.path.join(at("hf"), "config.json")))
        own = written_config["eos_token_id"]
        assert sorted(own if isinstance(own, list) else [own]) == shape["ends"], (name, own)
        assert written_config["pad_token_id"] == keys.get("tokenizer.ggml.padding_token_id"), name


def apart(merges):
    """The second of two merges that make one token becomes the last of all."""
    i = next(i for i, (a, b) in enumerate(zip(merges, merges[1:])) if "".join(a) == "".join(b))
    merges.append(merges.pop(i + 1))


def cut_short(split):
    """An expression of characters in [] without the last range."""
    pattern = split["pattern"]
    pattern["Regex"] = pattern["Regex"][:-len("x-y]+")] + "]+"


def unlike(folder):
    """What llama.cpp does not do is refused by its name."""
    golden = json.load(open(SHAPES, encoding="utf-8"))["shapes"]
    level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    for i, (name, words, change) in enumerate((
            ("gpt2", "add_prefix_space", lambda t: t.update(pre_tokenizer=dict(level, add_prefix_space=True))),
            ("gpt2", "another normalizer than NFC", lambda t: t.update(normalizer={"type": "NFKC"})),
            ("smollm", "pre-tokenizer", lambda t: t["pre_tokenizer"]["pretokenizers"][0].update(individual_digits=False)),
            # expressions that begin as DeepSeek's do
            ("deepseek_v2", "pre-tokenizer of", lambda t: cut_short(t["pre_tokenizer"]["pretokenizers"][1])),
            ("deepseek_v2", "pre-tokenizer of", lambda t: cut_short(t["pre_tokenizer"]["pretokenizers"][4])),
            ("deepseek_v3", "pre-tokenizer of", lambda t: cut_short(t["pre_tokenizer"]["pretokenizers"][1])),
            ("llama2", "its merges, which are not all", lambda t: t["model"]["merges"].pop()),
            ("llama2", "its merges, whose order", lambda t: apart(t["model"]["merges"])),
            ("gemma", "its treatment of blanks", lambda t: t.update(normalizer=None)))):
        tokenizer = json.loads(golden[name]["files"]["tokenizer.json"])
        change(tokenizer)
        at = os.path.join(folder, f"unlike-{i}")
        with open(at + ".json", "w", encoding="utf-8") as out:
            json.dump(tokenizer, out)
        jotun("train", *MODEL.split(), "--tokenizer", at + ".json", "--save", at)
        done = jotun("convert", "--to", "gguf", "--input", at, "--output", at + ".gguf", check=False)
        assert done.returncode == 1 and words in done.stderr and "--to hf" in done.stderr, (name, words, done.stderr)


def without_a_value(folder):
    """An element that Q8_0 cannot have stops it; F32 has it."""
    broken = os.path.join(folder, "broken")
    shutil.copytree(theirs(folder, "gpt2"), broken)
    path = os.path.join(broken, "model.safetensors")
    data = bytearray(open(path, "rb").read())
    (size,) = struct.unpack("<Q", data[:8])
    begin = next(t["data_offsets"][0] for n, t in json.loads(data[8:8 + size]).items() if n.endswith("h.0.mlp.c_proj.weight"))
    for value in "nan", "-inf", "1e7":
        data[8 + size + begin:8 + size + begin + 4] = struct.pack("<f", float(value))
        open(path, "wb").write(data)
        to_jotun(broken, os.path.join(folder, "broken" + value))
        for kind, code in ("q8_0", 1), ("f32", 0):
            out = os.path.join(folder, f"broken{value}-{kind}.gguf")
            done = jotun("convert", "--to", "gguf", "--output-dtype", kind, "--input", os.path.join(folder, "broken" + value), "--output", out, check=False)
            assert done.returncode == code and os.path.exists(out) == (code == 0), done.stderr
            assert not code or "blk.0.ffn_down.weight: an element of it is NaN, infinite or above 8319008" in done.stderr, done.stderr


def refused(folder, name, *words, **changed):
    ours, path = os.path.join(folder, name + "-refused"), os.path.join(folder, name + ".gguf")
    to_jotun(theirs(folder, name, **changed), ours)
    done = jotun("convert", "--to", "gguf", "--input", ours, "--output", path, check=False)
    assert done.returncode == 1 and all(w in done.stderr for w in (*words, "--to hf")), done.stderr
    assert not os.path.exists(path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        main(work)
        without_a_value(work)
        shapes(work)
        unlike(work)
