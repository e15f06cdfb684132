"""Small tokenizers with the normalizer, pre-tokenizer, decoder, post-processor and added tokens of published families, made by
the packages tokenizers and sentencepiece, and what llama.cpp calls them.   python tokenizer_shapes.py tests/golden/text/shapes.json
(needs transformers, tokenizers, sentencepiece) writes those and transformers' ids of TEXTS for tests/convert/gguf.py."""
import json
import os
import sys
import tempfile

SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
REST = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
LLAMA3, QWEN2 = SHORT + "\\p{N}{1,3}" + REST, SHORT + "\\p{N}" + REST
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
HAN = "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK_V2 = ["[\r\n]", "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
               "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", HAN]
DEEPSEEK_V3 = ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
               "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
CASES = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
TEKKEN = CASES + "*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|" + CASES + "+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}" + REST.replace("[\\r\\n]*|", "[\\r\\n/]*|", 1)
ODD = [" ", "  two  blanks ", "a\tb\n\nc  \n  ", "   ", "\n", "\n\n\n", "don't DON'T we'll I'D", "1234567 3.14 ½ Ⅷ", "\u00a0x\u3000y\u2028z",
       "Привет, мир! 你好世界 こんにちは", "👩‍👩‍👧 👍🏽 🇸🇪", "a" * 70, "=" * 33 + "-" * 21, "naïve façade — “quoted” …",
       "x_y->z(a[0], b{1});\n\t\tif (!p) {}", "▁mark ▁▁ marks", "ẞß İı ſ", "zero\u200bwidth\u200djoin\ufeff", "ends in blanks   ",
       "<s> </s> <unk> <|endoftext|> <bos> <0x41>", "<table>\n\n\n<tool_call>x</tool_call>  |||IP_ADDRESS|||", "हिन्दी में, ก็ได้ ዜና"]
OTHER_FORMS = ["ﬁ ǅ e\u0301 A\u030a ｆｕｌｌ", "\u0301combining first", "I\u0307 o\u0308\u0304 \u1112\u1161\u11ab"]           # not in NFC


def byte_level(regex=False):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(kind, parts):
    return {"type": "Sequence", kind: parts}


def template(token, id_):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": token, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [id_], "tokens": [token]}}}


def added(id_, text):
    plain = text in ("<tool_call>", "</tool_call>", "|||IP_ADDRESS|||", "\n\n", "▁▁", "<table>")
    return {"id": id_, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": not plain}


CHAT = "{{- bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}<|eot_id|>{% endfor %}"
DIGITS = {"type": "Digits", "individual_digits": True}
BLANKS = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
MARKS = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
BYTES, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
LLAMA_END = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|start_header_id|>", "<|end_header_id|>",
             "<|eom_id|>", "<|eot_id|>"]

# Byte-level: name -> (llama.cpp's name, pre_tokenizer, added tokens, where they are, bos of the template, more of tokenizer.json,
# special tokens of tokenizer_config.json, generation_config.json by texts)
LEVEL = {
    "gpt2": ("gpt-2", byte_level(True), ["<|endoftext|>"], "last", None, {},
             dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>"), dict(bos="<|endoftext|>", eos="<|endoftext|>")),
    "llama3": ("llama-bpe", sequence("pretokenizers", [split(LLAMA3), byte_level()]), LLAMA_END, "last", "<|begin_of_text|>",
               {"ignore_merges": True}, dict(bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"),
               dict(bos="<|begin_of_text|>", eos=["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"], do_sample=True, temperature=0.6, top_p=0.9)),
    "qwen2": ("qwen2", sequence("pretokenizers", [split(QWEN2), byte_level()]),
              ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"], "last", None, {"normalizer": {"type": "NFC"}},
              dict(eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT),
              dict(bos="<|endoftext|>", pad="<|endoftext|>", eos=["<|im_end|>", "<|endoftext|>"], repetition_penalty=1.05)),
    "smollm": ("smollm", sequence("pretokenizers", [DIGITS, byte_level(True)]), ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"],
               "first", None, {}, dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>"),
               dict(bos="<|endoftext|>", eos="<|endoftext|>")),
    "olmo2": ("dbrx", sequence("pretokenizers", [split(LLAMA3), byte_level()]), ["<|endoftext|>", "|||IP_ADDRESS|||", "<|pad|>"], "last", None,
              {}, dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>", pad_token="<|pad|>"), dict(eos="<|endoftext|>", pad="<|pad|>")),
    "deepseek_v2": ("deepseek-llm", sequence("pretokenizers", [split(p) for p in DEEPSEEK_V2] + [DIGITS, byte_level()]),
                    ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], "last", "<｜begin▁of▁sentence｜>", {},
                    dict(bos_token="<｜begin▁of▁sentence｜>", eos_token="<｜end▁of▁sentence｜>"),
                    dict(bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>", do_sample=True, top_p=0.95)),
    "deepseek_v3": ("deepseek-v3", sequence("pretokenizers", [split(p) for p in DEEPSEEK_V3] + [byte_level()]),
                    ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"], "first", "<｜begin▁of▁sentence｜>", {},
                    dict(bos_token="<｜begin▁of▁sentence｜>", eos_token="<｜end▁of▁sentence｜>", pad_token="<｜▁pad▁｜>"),
                    dict(bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>")),
    "tekken": ("tekken", sequence("pretokenizers", [split(TEKKEN), byte_level()]), ["<unk>", "<s>", "</s>", "[INST]"], "first", "<s>",
               {"ignore_merges": True}, dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>"), dict(bos="<s>", eos="</s>")),
    "bloom": ("bloom", sequence("pretokenizers", [split(BLOOM), byte_level()]), ["<unk>", "<s>", "</s>", "<pad>"], "first", None, {},
              dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"), dict(bos="<s>", eos="</s>", pad="<pad>")),
}
# Pieces: name -> (add_space_prefix, special tokens, tokens that users defined, bos of the template, parts of tokenizer.json or None,
# tokenizer_config.json, generation_config.json by texts)
LLAMA_CONFIG = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True, add_eos_token=False)
PIECES = {
    "llama2": (True, ["<unk>", "<s>", "</s>"], [], "<s>",
               dict(normalizer=sequence("normalizers", [{"type": "Prepend", "prepend": "▁"}, BLANKS]), pre_tokenizer=None,
                    decoder=sequence("decoders", [MARKS, BYTES, FUSE, STRIP])), LLAMA_CONFIG, dict(bos="<s>", eos="</s>", pad="<unk>")),
    "llama2_model": (True, ["<unk>", "<s>", "</s>"], [], None, None, LLAMA_CONFIG, dict(bos="<s>", eos="</s>")),
    "mistral": (True, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], [], "<s>",
                dict(normalizer=None, pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
                     decoder=sequence("decoders", [MARKS, BYTES, FUSE, STRIP])), LLAMA_CONFIG, dict(bos="<s>", eos="</s>")),
    "gemma": (False, ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"], ["\n\n", "▁▁", "<table>"], "<bos>",
              dict(normalizer=BLANKS, pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                   decoder=sequence("decoders", [MARKS, BYTES, FUSE])),
              dict(bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>"),
              dict(bos="<bos>", pad="<pad>", eos=["<eos>", "<end_of_turn>"])),
}
SHAPES = list(LEVEL) + list(PIECES)


def write(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False)


def tokenizer_json(added_tokens, parts, model):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens, "normalizer": parts.get("normalizer"),
            "pre_tokenizer": parts["pre_tokenizer"], "post_processor": parts["post_processor"], "decoder": parts["decoder"], "model": model}


def configs(folder, ids, names, generation, names_of_class):
    special = {k: {"content": v, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "__type": "AddedToken"}
               if isinstance(v, str) and k != "chat_template" else v for k, v in names.items()}
    write(os.path.join(folder, "tokenizer_config.json"),
          dict(special, tokenizer_class=names_of_class, clean_up_tokenization_spaces=False, model_max_length=10 ** 30))
    made = {k: v for k, v in generation.items() if k not in ("bos", "eos", "pad")}
    for key in ("bos", "eos", "pad"):
        if key in generation:
            texts = generation[key]
            made[key + "_token_id"] = [ids[t] for t in texts] if isinstance(texts, list) else ids[texts]
    write(os.path.join(folder, "generation_config.json"), dict(made, transformers_version="4.45.0"))


def level_shape(folder, name, corpus, size):
    import tokenizers as tk
    pre, splitter, texts, place, bos, more, names, generation = LEVEL[name]
    tokenizer = tk.Tokenizer(tk.models.BPE())
    tokenizer.pre_tokenizer = tk.Tokenizer.from_str(json.dumps(tokenizer_json(
        [], dict(pre_tokenizer=splitter, post_processor=None, decoder=None),
        {"type": "BPE", "vocab": {}, "merges": []}))).pre_tokenizer
    trainer = tk.trainers.BpeTrainer(vocab_size=size, special_tokens=texts if place == "first" else [], show_progress=False,
                                     initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([corpus], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    model.update((k, v) for k, v in more.items() if k in model)
    first = max(model["vocab"].values()) + 1
    ids = {t: model["vocab"].get(t, first + i) for i, t in enumerate(texts)}
    level = byte_level(True)
    parts = dict(normalizer=more.get("normalizer"), pre_tokenizer=splitter, decoder=level,
                 post_processor=sequence("processors", [level, template(bos, ids[bos])]) if bos else level)
    write(os.path.join(folder, "tokenizer.json"), tokenizer_json([added(ids[t], t) for t in texts], parts, model))
    configs(folder, ids, names, generation, "PreTrainedTokenizerFast")
    if name == "llama3":
        with open(os.path.join(folder, "chat_template.jinja"), "w") as out:
            out.write(CHAT)


def pieces_merges(pieces):
    """every two pieces that make a third, those of the highest score first, as converters of sentencepiece models write them"""
    vocab = {text: i for i, (text, _) in enumerate(pieces)}
    merges = []
    for text, score in pieces:
        cuts = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in vocab and text[i:] in vocab]
        merges += [(-score, vocab[text], vocab[a], vocab[b], a, b) for a, b in cuts]
    return [[a, b] for *_, a, b in sorted(merges)]


def pieces_shape(folder, name, corpus, size):
    import sentencepiece
    prefix, texts, users, bos, parts, names, generation = PIECES[name]
    path = os.path.join(folder, "tokenizer")
    source = os.path.join(folder, "corpus.txt")
    with open(source, "w", encoding="utf-8") as out:
        out.write(corpus)
    by = {t: texts.index(t) for t in texts}
    where = dict(unk_id=by["<unk>"], bos_id=by.get("<s>", by.get("<bos>")), eos_id=by.get("</s>", by.get("<eos>")), pad_id=by.get("<pad>", -1))
    rest = [t for i, t in enumerate(texts) if i not in where.values()]
    sentencepiece.SentencePieceTrainer.train(
        input=source, model_prefix=path, vocab_size=size, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=prefix, split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2,
        num_threads=1, max_sentence_length=1 << 20, hard_vocab_limit=False, character_coverage=0.98, control_symbols=rest, user_defined_symbols=users,
        bos_piece=bos or "<s>", eos_piece="<eos>" if bos == "<bos>" else "</s>", **where)
    model = sentencepiece.SentencePieceProcessor(model_file=path + ".model")
    os.remove(source)
    os.remove(path + ".vocab")
    pieces = [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]
    ids = {text: i for i, (text, _) in enumerate(pieces)}
    if parts:
        bpe = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
               "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": ids, "merges": pieces_merges(pieces)}
        write(os.path.join(folder, "tokenizer.json"),
              tokenizer_json([added(ids[t], t) for t in texts + users], dict(parts, post_processor=template(bos, ids[bos])), bpe))
    configs(folder, ids, names, generation, "PreTrainedTokenizerFast" if parts else "LlamaTokenizer")


def make(folder, name, corpus, size):
    """Writes the files of one shape into a new folder."""
    os.makedirs(folder)
    (level_shape if name in LEVEL else pieces_shape)(folder, name, corpus, size)


def expected(name, folder):
    """What a GGUF file says of it."""
    read = lambda leaf: json.load(open(os.path.join(folder, leaf), encoding="utf-8"))
    generation, level = read("generation_config.json"), name in LEVEL
    bos = LEVEL[name][4] if level else PIECES[name][3]
    found = {"model": "gpt2" if level else "llama", "pre": LEVEL[name][0] if level else "default",
             "add_bos_token": bos is not None or name == "llama2_model", "add_eos_token": False}
    if not level:
        found["add_space_prefix"] = PIECES[name][0]
    if "bos_token_id" in generation:
        found["bos_token_id"] = generation["bos_token_id"]
    if name in ("llama3", "qwen2"):
        found["chat_template"] = CHAT
    if "pad_token_id" in generation:
        found["padding_token_id"] = generation["pad_token_id"]
    ends = generation["eos_token_id"]
    return found, sorted(ends) if isinstance(ends, list) else [ends]


if __name__ == "__main__":
    import sentencepiece
    import tokenizers
    import transformers
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from hf_golden import CORPUS
    words = CORPUS + "\n" + "\n".join(ODD) + "\nwe say that they will not, and you don't: the naïve façade of 2024, 17 times; привет мир 你好 世界\n\n" * 3
    out = {"versions": {m.__name__: m.__version__ for m in (transformers, tokenizers, sentencepiece)}, "texts": ODD, "shapes": {}}
    with tempfile.TemporaryDirectory() as work:
        for shape in SHAPES:
            at = os.path.join(work, shape)
            make(at, shape, words, 300 if shape in LEVEL else 460)
            tokenizer = transformers.AutoTokenizer.from_pretrained(at)
            keys, ends = expected(shape, at)
            files = {leaf: open(os.path.join(at, leaf), encoding="utf-8").read() for leaf in sorted(os.listdir(at)) if not leaf.endswith(".model")}
            if shape not in ("llama2_model", "tekken"):
                out["shapes"][shape] = {"files": files, "keys": keys, "ends": ends, "ids": [tokenizer.encode(t) for t in ODD]}
    write(sys.argv[1], out)
