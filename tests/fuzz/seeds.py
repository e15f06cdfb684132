"""A few honest inputs for each fuzz target, to start from: seeds.py FOLDER"""
import bz2
import gzip
import html
import json
import os
import shutil
import struct
import subprocess
import sys


def seed(target, name, data):
    folder = os.path.join(sys.argv[1], target)
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, name), "wb").write(data)


def pair(idx, tokens):
    return struct.pack("<H", len(tokens)) + tokens + idx


def mmap(lengths, width, code, entries):
    pointers = [sum(lengths[:i]) * width for i in range(len(lengths))]
    count = [len(lengths)] + ([len(entries)] if entries else [])
    idx = b"MMIDIDX\0\0" + struct.pack("<QB%dQ%di%dq%dq" % (len(count), len(lengths), len(lengths), len(entries)),
                                      1, code, *count, *lengths, *pointers, *entries)
    return pair(idx, bytes(range(sum(lengths) * width)))


def tnt(lengths):
    offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    n = len(lengths)
    idx = b"TNTIDX\0\0" + struct.pack("<5Q%dq" % (3 * n + 2), 1, 4, 4, n, n, *range(n + 1), *offsets, *lengths)
    return pair(idx, bytes(sum(lengths) * 4))


def fasttext(loss, grams, kept, quantised):
    """Two words, two labels, two dimensions: the smallest model of its kind; a quantiser alone has 2 KiB of centroids."""
    words = [(b"</s>", 9, 0), (b"och", 5, 0), (b"__label__sv", 3, 1), (b"__label__no", 2, 1)]
    entries = b"".join(w + struct.pack("<Bqb", 0, count, kind) for w, count, kind in words)
    pruned = b"".join(struct.pack("<2i", 2 * i, i) for i in range(max(kept, 0)))
    rows = 2 + (7 if kept < 0 else kept)

    def dense(n):
        return struct.pack("<2q%df" % (2 * n), n, 2, *(0.25 * (i % 5) - 0.5 for i in range(2 * n)))

    def codes(n):
        quantiser = struct.pack("<4i512f", 2, 1, 2, 2, *(0.01 * i - 2 for i in range(512)))
        norms = bytes(range(n)) + struct.pack("<4i256f", 1, 1, 1, 1, *(0.01 * i for i in range(256)))
        return struct.pack("<B2qi", 1, n, 2, n) + bytes(range(n)) + quantiser + norms

    model = struct.pack("<14id3i2q", 793712314, 12, 2, 5, 5, 1, 5, grams, loss, 3, 7, 1, 3, 100, 1e-4, 4, 2, 2, 14, kept)
    text = "och h\u00e5r </s> x".encode()
    return (bytes([len(text)]) + model + entries + pruned + bytes([quantised]) + (codes if quantised else dense)(rows)
            + b"\0" + dense(2) + text)


for code, width in ((8, 2), (4, 4)):
    seed("shard", "documents%d" % code, mmap([3, 2], width, code, [0, 1, 1, 2]))
    seed("shard", "empty%d" % code, mmap([], width, code, [0]))
    seed("foreign", "mmap%d" % code, mmap([3, 2], width, code, []))
for loss in (1, 2, 3, 4):
    for kept in (-1, 3):
        seed("fasttext", "%d%+d" % (loss, kept), fasttext(loss, loss % 3 + 1, kept, False))
        seed("fasttext", "%d%+dq" % (loss, kept), fasttext(loss, loss % 3 + 1, kept, True))
seed("foreign", "tnt", tnt([2, 1, 3]))
seed("foreign", "megatron", mmap([3, 2], 2, 8, [0, 1, 2]))
for i, line in enumerate(('{"text": "a\\n\\u00e5 \\ud83d\\ude00 \u00e5\u20ac\U0001f600", "id": [1, -2.5e3, true, null, {"text": {}}]}',
                          '{"te\\u0078t":"","text":"two"}', '{"text":1}', '[1]', '{"a":"\\u0000\\"\\/\\b"} ')):
    seed("json_line", str(i), line.encode())
wiki = open(os.path.join(os.path.dirname(__file__), "..", "data", "wiki", "constructs.xml"), "rb").read()
seed("wiki", "head", wiki[:2000])
for i, part in enumerate(html.unescape(wiki.decode()).split("\n\n")):
    seed("wiki", str(i), part.encode())
text = b"some text, some more text, and some text again\n" * 30
for target, data in (("gz", gzip.compress(text)), ("bz2", bz2.compress(text))):
    seed(target, "one", b"\x03" + data)
    seed(target, "two", b"\xff" + data + data)
if shutil.which("zstd"):
    data = subprocess.run(["zstd", "-q", "--check"], input=text, stdout=subprocess.PIPE, check=True).stdout
    seed("zst", "one", b"\x03" + data)
    seed("zst", "two", b"\xff" + data + struct.pack("<II", 0x184D2A50, 4) + b"skip" + data)
shapes = ("en rad\n\ntv\u00e5\n", '{"text":"a\\u0000","id":1,"meta":{"url":"u","quality_warnings":["adult"]},"a":{"b":"c"}}\n{"content":"b"}\n',
          "a\nb\n \n\nc\n", '<doc id="1" url="u" title="a "b" c">\ntext\n</doc>\n<doc id="2">\n</doc>\n',
          "<mediawiki><page><title>T</title><ns>0</ns><id>1</id><revision><model>wikitext</model><text>a &amp; b</text></revision></page></mediawiki>")
for i, text in enumerate(shapes):
    for flags in (0, 8, 48):
        seed("record", "%d-%d" % (i, flags), bytes([i + flags]) + text.encode())
wrapped = "A line that is wrapped at some column of the text, and which\ngoes on here.\n\n- an item\n  of it\n```\ncode\n```\n.. x::\n\n   y\n#+begin_src\n\\begin{verbatim}\n| a | b |\n"
page = "<html><!-- c --><title>x</title><p class='a>b'>one &amp; &#229;<br>two<ul><li>three</ul><pre>\n a\n</pre><script>if (a < b)</script><td>1<td>2"
for i, text in enumerate((page, wrapped, wrapped, wrapped, wrapped, wrapped)):
    seed("prose", str(i), bytes([i]) + text.encode())
mixed = "Moskva (ryska: \u041c\u043e\u0441\u043a\u0432\u0430) ra\u0308v\u00a0\u00ad\u200b \U0001f600\r\n\u03b1\u03b2 (\u03b1)\n"
for i in range(6):
    seed("charset", str(i), bytes([i * 7]) + (mixed * (i + 1)).encode())
for i, text in enumerate((mixed, "- och att\n- och att ...\n\n" * 4, "Lorem ipsum [1]. javascript { use cookies.\n# # \u2026")):
    seed("quality", str(i), text.encode())
    seed("shingle", str(i), bytes([i]) + text.encode())
for i, text in enumerate(("num-layers: 12\noptimizer: {lr: 3e-4, weight_decay: 0.1}\nbf16: true\ndata-path: [0.5, a, '0.5', \"b\\x41\"]\nsave: null\n",
                          "data: &a {seed: 3, split: '9,1,0'}\nmodel:\n  <<: [*a, {swiglu: false}]\n  num_layers: &n 4\nexperts: {num-query-groups: *n}\n",
                          "use_flash_attn: true\ntrain_samples: 1000\nrecompute-modules:\n- mlp\n- core_attn\n---\n")):
    seed("yaml", str(i), text.encode())
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "convert"))
import hostile_pickles                                                   # noqa: E402
import torch_write as tw                                                 # noqa: E402

tw.SUMS = False
value = {"model": tw.OrderedDict([("w", tw.Tensor([1, 2, 3, 4], (2, 2), "bfloat16")), ("p", tw.Parameter(tw.Tensor([1], (1,))))]),
         "args": tw.Namespace(hidden_size=8, name="a", rate=0.5, none=None, many=(1, [True, {2}])), "iteration": 3}
for protocol in range(2, 6):
    seed("torch_zip", "honest%d" % protocol, tw.saved(value, protocol, protocol == 3))
    seed("torch_older", "honest%d" % protocol, tw.saved_legacy(value, protocol))
    seed("pickle", "honest%d" % protocol, tw.pickled(value, protocol)[0])
for i, (_, data, _) in enumerate(hostile_pickles.all_files()):
    seed("torch_zip" if data[:2] == b"PK" else "torch_older", "hostile%d" % i, data[:4096])
for group in hostile_pickles.executing, hostile_pickles.bombs, hostile_pickles.storages:
    for i, (data, _) in enumerate(group().values()):
        seed("pickle", "%s%d" % (group.__name__, i), data[:4096])
for i, text in enumerate(("A=(--lr 1 # one\n --seed \"2\")\nN=$((2*${M:-3}))\nif [ -z \"$X\" ] && [[ $N == 6 ]]; then B=\"--bf16 \\\n--tp $N\"; fi\n"
                          "case $N in 6|7) C=${A%x};; *) C=;; esac\ntorchrun --n 8 pretrain_gpt.py ${A[@]} $B --save $1 `hostname` 2>&1 | tee log\n",
                          "cat <<EOT > ds.json\n{\"zero_optimization\": {\"stage\": $Z}}\nEOT\neval \"deepspeed t.py --deepspeed_config ds.json\"\n",
                          "--num-layers 2 \\\n--data-path 'a b' # end\n--lr ${X^^}\n",
                          "model:\n  num_layers: 2\n  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n  hidden_size: 8\n  optim: {betas: [0.9, 0.8]}\n")):
    seed("script", str(i), text.encode())
seed("script", "run", b"CALL\0torchrun\0/here\00060\09 8 \0005\0t.py\0--num-layers\0002\0--deepspeed_config\0d.json\0001\0d.json\0002\0{}"
     b"\xff8\2/etc/hostname\0021\2L=2\n\1\0019\2\0022\2nvidia-smi\n\0018\2/etc/hostname\0022\2: JOTUN_FAILED 1 'source x'\n")
for i, (options, keys) in enumerate((
        (0, {"train_batch_size": 16, "gradient_accumulation_steps": 4, "gradient_clipping": 1.0, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1}}),
        (1, {"communication_data_type": "fp16", "fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 12}, "wandb": {"project": "p"}}),
        (252, {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95], "torch_adam": True}}, "flops_profiler": {"enabled": None}}),
        (0, {"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 1, "cycle_momentum": False}}, "tensorboard": {"enabled": True, "job_name": "j"}}),
        (0, {"scheduler": {"type": "WarmupCosineLR", "params": {"cos_min_ratio": 0.1}}, "optimizer": {"type": "Lion", "params": {"betas": [0.9, 0.99]}}, "nosuch": {}}),
        (4, {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_type": "linear", "total_num_steps": 50}}, "optimizer": {"params": {"betas": "auto"}}}))):
    seed("deepspeed", str(i), bytes([options]) + json.dumps(keys).encode())

# folders of transformers: lengths of config.json and of the index, both, and the weights
GOLDEN_HF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "hf")
HEADER = b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},'\
         b'"model.b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}}'
WEIGHTS = struct.pack("<Q", len(HEADER)) + HEADER + bytes(range(32))
for name, model in json.load(open(os.path.join(GOLDEN_HF, "models.json")))["models"].items():
    text = json.dumps(model["config"]).encode()
    for index in b"", b'{"weight_map":{"a":"shard.safetensors","model.b":"shard.safetensors"}}':
        seed("hf_folder", name + ("-index" if index else ""), struct.pack("<HH", len(text), len(index)) + text + index + WEIGHTS)
# checkpoints of ours: the length of the manifest, which gets its checksum by the target, and a file
TENSORS = [{"name": "a", "dtype": "F32", "shape": [2, 3], "xxh3": "0" * 16}, {"name": "model.b", "dtype": "BF16", "shape": [4], "xxh3": "0" * 16}]
MANIFEST = {"format": "jotun checkpoint", "version": 2, "step": 3, "samples": 24, "updates": 3, "seed": "1234", "options": {"num-layers": 1},
            "files": [{"file": "block_0000.safetensors", "bytes": len(WEIGHTS), "tensors": TENSORS}]}
for i, run in enumerate(({}, {"lacks": ["optimizer states", "position"], "kernels": "avx2"}, {"valid_loss": 2.5, "updated_samples": 16},
                         {"losses": {"count": 3, "mean": 5.5, "variance": 0.25}, "tokenizer": {"name": "bytes", "fingerprint": "x"}},
                         {"loss_scale": {"scale": 256.0, "growth": 1, "hysteresis": 2}, "fp8_largest": [448.0, 57344.0], "lacks": ["position"]},
                         {"due": ["valid", "test", "valid-3", "samples"]})):
    text = json.dumps(dict(MANIFEST, run=run, step=0 if "lacks" in run else 3)).encode()
    seed("manifest", str(i), struct.pack("<H", len(text)) + text + WEIGHTS)
import hostile_megatron                                                  # noqa: E402
dist = {what: files for what, (files, _) in hostile_megatron.cases().items() if ".metadata" in files and "__0_0.distcp" in files}
for i, files in enumerate([hostile_megatron.dist(), *dist.values()]):
    seed("metadata", str(i), struct.pack("<H", len(files[".metadata"])) + files[".metadata"] + files["__0_0.distcp"])
for version, dtype in (3, "float32"), (5, "bfloat16"):
    header = struct.pack("<256i", 20240326, version, 2, 3, 1, 1, 2, 4, *[0] * 248)
    seed("llmc", dtype, header + b"".join(tw.encode([1.0] * n, dtype) for n in (8, 4, 2, 2, 12, 6, 4, 2, 2, 2, 16, 8, 16, 2, 2, 2)))

# Optimizers: all tensors are views of one storage, so that files stay short.
STORE = tw.Storage([0.5 * i for i in range(64)], "float32")


def view(*shape, at=0):
    return tw.Tensor(None, shape, storage=STORE, offset=at)


def moments(*shape, step=None):
    return {"exp_avg": view(*shape, at=1), "exp_avg_sq": view(*shape, at=2)} | ({} if step is None else {"step": step})


def parts(*pieces):
    return struct.pack("<H", len(pieces[0])) + b"".join(pieces)


GPT2 = tw.OrderedDict([("transformer.wte.weight", view(4, 2)), ("transformer.h.0.ln_1.weight", view(2)), ("transformer.h.0.attn.c_attn.weight", view(6, 2))])
NANOGPT = {"model": GPT2, "iter_num": 7, "config": {"batch_size": 3, "gradient_accumulation_steps": 5},
           "model_args": {"n_layer": 1, "n_head": 1, "n_embd": 2, "block_size": 2, "bias": True, "vocab_size": 4, "dropout": 0.0},
           "optimizer": {"state": {0: moments(4, 2, step=view(at=4)), 1: moments(6, 2, step=2.0), 2: moments(2, step=2.0)},
                         "param_groups": [{"lr": 0.1, "params": [0, 1]}, {"lr": 0.1, "params": [2]}]}}
LAYER, RANK = "decoder.layers.0.", tw.OrderedDict([("embedding.word_embeddings.weight", view(2, 2)), ("decoder.final_layernorm.weight", view(2))])
RANK |= [(LAYER + "input_layernorm.weight", view(2)), (LAYER + "mlp.router.weight", view(2, 2)), (LAYER + "mlp.router.expert_bias", view(2)),
         (LAYER + "mlp.experts.local_experts.0.linear_fc1.weight", view(4, 2)), (LAYER + "mlp.shared_experts.linear_fc1.weight", view(4, 2)),
         (LAYER + "self_attention.linear_kv_down_proj.weight", view(3, 2)), (LAYER + "self_attention.kv_layernorm.weight", view(2))]
DENSE = {"state": {0: moments(2, 2), 1: moments(2, 2), 2: moments(4, 2), 3: moments(3, 2), 4: moments(2), 5: moments(2), 6: moments(2), "common_step": 3},
         "param_groups": [{"params": [0, 1, 2, 3], "step": 3}, {"params": [4, 5, 6], "step": 3, "is_expert_parallel": False}]}
EXPERTS = {"state": {0: moments(4, 2, step=3)}, "param_groups": [{"params": [0], "is_expert_parallel": True}]}
BF16 = tw.OrderedDict([("embedding.word_embeddings.weight", tw.Tensor([1.0] * 4, (2, 2), "bfloat16")), ("decoder.final_layernorm.weight", tw.Tensor([1.0, 1.0], (2,), "bfloat16"))])
ROUNDED = {"optimizer": {"state": {0: moments(2, 2), 1: moments(2)}, "param_groups": [{"params": [0], "step": 3}, {"params": [1], "step": 3}]},
           "fp32_from_fp16_params": [[view(2, 2)], [view(2)]], "grad_scaler": {"scale": view()}}
OF_RANK = {"num_layers": 1, "num_experts": 2, "moe_router_enable_expert_bias": True, "moe_layer_freq": [1], "multi_latent_attention": True, "position_embedding_type": "rope",
           "normalization": "RMSNorm", "qk_layernorm": True, "kv_lora_rank": 2, "qk_head_dim": 2, "qk_pos_emb_head_dim": 1, "v_head_dim": 2, "window_size": (4, 0), "swiglu": True,
           "window_attn_skip_freq": [1], "iteration": 3, "consumed_train_samples": 24, "fp16": False}
for i, (model, optimizer) in enumerate(((GPT2, NANOGPT["optimizer"]), (RANK, [{"optimizer": DENSE}, {"optimizer": EXPERTS}]), (BF16, ROUNDED), (RANK, DENSE))):
    for protocol in 2, 4:
        seed("torch_optimizer", "%d-%d" % (i, protocol), tw.pickled({"model": model, "optimizer": optimizer}, protocol)[0] + struct.pack("<d", 3.0))
for how in tw.saved, tw.saved_legacy:
    seed("nanogpt", how.__name__, how(NANOGPT))
    seed("nanogpt", how.__name__ + "-weights", how({k: v for k, v in NANOGPT.items() if k != "optimizer"}))
for i, files in enumerate([hostile_megatron.legacy(), *(files for files, _ in hostile_megatron.cases().values() if len([n for n in files if "mp_rank" in n]) == 2)]):
    seed("megatron_ranks", str(i), parts(*(data for name, data in sorted(files.items()) if "mp_rank" in name)))
for i, (model, optimizer, args) in enumerate(((RANK, [{"optimizer": DENSE}, {"optimizer": EXPERTS}], OF_RANK), (BF16, ROUNDED, {"num_layers": 1}))):
    one = {"args": tw.Namespace(**dict(hostile_megatron.ARGS, **args)), "checkpoint_version": 3.0, "iteration": 3, "model": model, "optimizer": optimizer}
    seed("megatron_ranks", "states%d" % i, parts(tw.saved(one), tw.saved(one)))
for kinds, ranks, whole in (2, 1, True), (3, 1, True), (2, 2, False), (3, 2, False):
    numbers = bytes(4 * kinds * 90 // (1 if whole else ranks))
    states = [struct.pack("<256i", 20240527, 1, ranks, rank, int(kinds == 3), *[0] * 5, 9, *[0] * 245) + numbers for rank in range(ranks)]
    seed("llmc_state", "%d-%d" % (kinds, ranks), parts(*states, *[b""] * (2 - ranks)))

# Files of tokenizers, with a text behind them
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "tokenizers")
TEXT = "  och <|endoftext|> h\u00e5r 12345 \u4e2d\U0001f600\n\n it's".encode()
for folder in DATA, os.path.join(DATA, "..", "..", "golden", "text"):
    for name in sorted(os.listdir(folder)):
        data = open(os.path.join(folder, name), "rb").read()
        ending = name.rpartition(".")[2]
        if ending in ("json", "model", "tiktoken") and len(data) < 16000:
            seed("tokenizer_" + ending, name, bytes([len(TEXT)]) + data + TEXT)
with gzip.open(os.path.join(DATA, "..", "..", "golden", "text", "composed.jsonl.gz"), "rt", encoding="utf-8") as rows:
    for i, row in enumerate(rows):                               # tokenizers of all components
        data = json.dumps(json.loads(row).get("file"), ensure_ascii=False, separators=(",", ":")).encode()
        if 100 < len(data) < 9000:
            seed("tokenizer_json", f"composed{i}", bytes([len(TEXT)]) + data + TEXT)
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
SMALL = {"added_tokens": [{"id": 4, "content": "<s>", "special": True, **FLAGS}], "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
         "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s+(?!\\S)"}, "behavior": "Isolated", "invert": False},
         "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
         "model": {"type": "BPE", "unk_token": "_", "vocab": {"a": 0, "b": 1, "_": 2, "ab": 3}, "merges": [["a", "b"]]}}
seed("tokenizer_json", "small", bytes([8]) + json.dumps(SMALL).encode() + b"ab <s> a")
seed("tokenizer_tiktoken", "small", bytes([4]) + b"".join(b"%s %d\n" % (t, i) for i, t in enumerate((b"YQ==", b"Yg==", b"YWI="))) + b"ab a")
BESIDE = [json.dumps(text) for text in (
    {"bos_token_id": 3, "eos_token_id": [4, 2], "pad_token_id": None}, {"eos_token_id": 4, "transformers_version": "5"},
    {"add_bos_token": True, "model_max_length": 10 ** 30, "pad_token": {"content": "<s>"}, "chat_template": [{"name": "default", "template": "{{ a }}"}]})]
for i, texts in enumerate((BESIDE, BESIDE[:2] + [""], ["", "", '{"bos_token":"\\u0000","chat_template":"\\u0000"}'])):
    for chat in "", "{{ bos_token }}":
        seed("special_ids", "%d-%d" % (i, len(chat)), struct.pack("<3H", *map(len, texts)) + ("".join(texts) + chat).encode())
for i, body in enumerate((
    {"prompt": "a"}, {"model": "two", "prompt": ["a", "b"], "n": 2, "stop": [" x", "y"], "seed": 5, "logprobs": 3, "stream": True, "stream_options": {"include_usage": True}},
    {"prompt": ["a", "bc"], "echo": True, "logprobs": 2, "max_tokens": 0},
    {"prompt": [1, 2, 256], "echo": True, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2, "max_tokens": 20},
    {"prompt": [[1], [2, 3]], "presence_penalty": 1, "frequency_penalty": -1, "user": "u", "best_of": 1, "suffix": None, "logit_bias": {}})):
    seed("completion_request", str(i), json.dumps(body).encode())
for i, (settings, lines) in enumerate([(0, ["Host:localhost", "Content-Length:2"]), (2, ["Host:127.0.0.1:8000", "Transfer-Encoding:chunked"]), (1, ["Authorization:Bearer token-of-one", "Content-Type:application/json"]),
                                       (33, ["Authorization:Basic eDp5", "Expect:100-continue"]), (4, ["X-Forwarded-For:192.0.2.1, [2001:db8::1]:80"]), (10, ["Host:[::1]:80", "Origin:http://[::1]:80"]), (8, ["Sec-Fetch-Site:same-origin"])]):
    seed("request_head", str(i), bytes([settings]) + "\n".join(lines).encode())

START = {"event": "start", "time": 1.0, "step": 0, "steps": 8, "options": {"lr": 1e-3, "seed": 1}, "given": "lr", "flops_per_token_full": 9.0, "peak_flops": 99.0, "ranks": 2,
         "layout": {"tp": 1, "pp": 2, "dp": 1}, "schedule": {"name": "1f1b", "stages": 2, "chunks": 1, "micro_batches": 4, "group": 0, "extra": 0, "v_shaped": False},
         "memory": [{"name": "persistent", "bytes": 9, "parts": [{"name": "weights", "bytes": 4}]}], "data": [{"name": "a", "share": 1.0, "samples": 8.0, "tokens": 9.0, "epochs": 2.0}]}
JOURNAL = [START, *({"event": "steps", "time": 1.0 + n, "step": n, "mean_of_steps": 1, "tokens": 8 * n, "loss": 2.5 / n, "lr": 0.1, "grad_norm": 1.0, "seconds": 0.5} for n in range(1, 4)),
           {"event": "skip", "time": 5.0, "step": 3, "why": "spike", "loss": None}, {"event": "evaluation", "time": 5.0, "step": 3, "split": "valid", "loss": 2.0, "bits_per_byte": 1.0},
           {"event": "sample", "time": 5.0, "step": 3, "sample": 1, "prompt": "a", "text": "b<c>"}, {"event": "rewind", "time": 6.0, "from": 3, "step": 1},
           {"event": "save", "time": 7.0, "step": 2, "seconds": 1.0}, {**START, "step": 2, "options": {"lr": 1}},
           {"event": "stop", "time": 9.0, "how": "failure", "message": "no", "memory": [{"name": "persistent", "bytes": 8}], "resident_bytes": 9.0}]
seed("journal", "events", b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in JOURNAL))
seed("journal", "metrics", b'{"step":1,"loss":2.5,"tokens":8,"seconds":0.5}\n{"step":1,"split":"valid","loss":2}\n{"step":2,"loss":null,"skipped":true}\n')
seed("journal", "table", b"step,split,loss,lr\n1,train,2.5,0.1\n1,valid,2,\n2,train,nan,0.1\n")
