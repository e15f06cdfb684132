#!/usr/bin/env python3
"""Tokenizers on their way through jotun. Those of published families (tests/oracles/tokenizer_shapes.py) in folders of
transformers, with a model: read, written as a folder and as a GGUF file, they give the same ids of real and of odd text by
transformers, jotun and llama.cpp, with the same ids of special tokens and the same greedy tokens. Those of files that transformers
does not open (.tiktoken, sentencepiece models of ../shared/data and some trained here): AutoTokenizer gives jotun's ids, and the ids
become the text again.   tokenizer_files.py [SHAPE or FILE]..."""
import glob
import json
import os
import re
import sys
import unicodedata

import comparison
from comparison import failures, jotun_bytes as jotun

sentencepiece, tokenizers, torch, transformers = comparison.packages("sentencepiece", "tokenizers", "torch", "transformers")
import tokenizer_shapes
llama_cpp = comparison.optional("llama_cpp")
DATA = os.path.join(os.environ.get("JOTUN_SHARED", os.path.join(comparison.HERE, "..", "..", "..", "shared")), "data")
MODEL = """--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --normalization RMSNorm --disable-bias-linear --swiglu
    --position-embedding-type rope --train-iters 1 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 --mock-data"""
ODD = ["", " ", "  two  blanks ", "a\tb\n\nc  \n  ", "   ", "\n", "don't DON'T we'll I'D", "1234567 3.14 ½ Ⅷ", "ﬁ ǅ é é Å ｆｕｌｌ", "\u00a0x\u3000y\u2028z",
       "Привет, мир! 你好世界 こんにちは", "👩‍👩‍👧 👍🏽 🇸🇪", "a" * 70, "=" * 33 + "-" * 21, "naïve façade — “quoted” …", "x_y->z(a[0], b{1});\n\t\tif (!p) {}",
       "▁mark ▁▁ marks", "\u0301combining first", "ẞß İı ſ", "zero\u200bwidth\u200djoin\ufeff"]


def texts():
    found = list(ODD)
    for path in sorted(glob.glob(os.path.join(DATA, "ud", "*.test.txt"))) + [os.path.join(DATA, "tinyshakespeare.txt")]:
        with open(path, encoding="utf-8") as f:
            text = f.read(60000)
            found += [text[i:i + 6000] for i in range(0, len(text), 6000)]
    return found


def ids_of(name, text, work, *more):
    path = os.path.join(work, "text")
    with open(path, "w", newline="", encoding="utf-8") as out:
        out.write(text)
    return [int(w) for w in jotun("tokenizer", "encode", "--tokenizer", name, "--input", path, *more).split()]


def by_llama(name, path, work, all_texts, ours):
    """In how many texts llama.cpp has other ids; None: the tokenizer is refused."""
    done = comparison.run("convert", "--to", "gguf", "--input", path, "--output", path + ".gguf")
    if done.returncode:
        return print("  ", done.stderr.strip())
    model = llama_cpp.Llama(model_path=path + ".gguf", vocab_only=True, verbose=False)
    wrong = 0
    for text, ids in zip(all_texts, ours):
        theirs = model.tokenize(text.encode(), add_bos=False, special=False) if text else []
        wrong += theirs != ids
        if theirs != ids and wrong <= 3:
            at = next((i for i, (a, b) in enumerate(zip(ids, theirs)) if a != b), min(len(ids), len(theirs)))
            print(f"   {text[:60]!r}... at {at}: jotun {ids[at:at + 5]} llama.cpp {theirs[at:at + 5]}")
    return wrong


def compare(name, work, all_texts):
    at = lambda leaf: os.path.join(work, os.path.basename(name) + leaf)
    jotun("train", *MODEL.split(), "--tokenizer", name, "--save", at("-ck"))
    jotun("convert", "--to", "hf", "--input", at("-ck"), "--output", at("-hf"))
    theirs = transformers.AutoTokenizer.from_pretrained(at("-hf"))
    wrong = back = 0
    all_ids = []
    for text in all_texts:
        ours, ids = ids_of(name, text, work), theirs.encode(text, add_special_tokens=False)
        all_ids.append(ours)
        if ours != ids:
            wrong += 1
            if wrong <= 3:
                at_ = next((i for i, (a, b) in enumerate(zip(ours, ids)) if a != b), min(len(ours), len(ids)))
                print(f"   {text[:60]!r}... at {at_}: jotun {ours[at_:at_ + 5]} transformers {ids[at_:at_ + 5]}")
        back += name.endswith(".tiktoken") and theirs.decode(ids, clean_up_tokenization_spaces=False) != text
    if wrong or back:
        failures.append(f"{name}: {wrong} of {len(all_texts)} texts have other ids, {back} come back as others")
    llama = by_llama(name, at("-ck"), work, all_texts, all_ids) if llama_cpp else None
    print(f"{os.path.basename(name):24s} {len(all_texts)} texts, {sum(map(len, all_texts)) / 1e6:.2f} M characters, {wrong} with other ids"
          + (f", {llama} by llama.cpp" if llama is not None else ""))


def other(name, what, texts_, ours, theirs):
    """Notes the texts of which two have other ids."""
    wrong = [(t, a, b) for t, a, b in zip(texts_, ours, theirs) if a != b]
    for text, a, b in wrong[:3]:
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        print(f"   {name}, {what}: {text[:60]!r}... at {at}: {a[at:at + 5]} and {b[at:at + 5]}")
    if wrong:
        failures.append(f"{name}: {what}: {len(wrong)} of {len(texts_)} texts have other ids")


def without_version(path):
    with open(path) as f:
        return {k: v for k, v in json.load(f).items() if k != "transformers_version"}


def source_model(folder, tokenizer):
    """A model with the ids of generation_config.json; returns those that end a text."""
    generation = without_version(os.path.join(folder, "generation_config.json"))
    ids = {key: generation.get(key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, intermediate_size=64, max_position_embeddings=256, initializer_range=0.3, **ids)
    kept = {leaf: open(os.path.join(folder, leaf)).read() for leaf in ("generation_config.json",)}
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():                    # tokens of bytes are not generated, because runs of them that are no text are shown otherwise
        model.lm_head.weight[[i for text, i in tokenizer.get_vocab().items() if text.startswith("<0x")]] = 0
    model.save_pretrained(folder)
    for leaf, text in kept.items():
        with open(os.path.join(folder, leaf), "w") as out:
            out.write(text)
    ends = ids["eos_token_id"]
    return set(ends) if isinstance(ends, list) else {ends}


def greedy(name, folder, ours, path, ends):
    """Transformers on the written folder, jotun and llama.cpp continue a prompt alike; llama.cpp stops where the folder says."""
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModelForCausalLM.from_pretrained(folder)
    prompt = "The quick brown"
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    out = model.generate(ids, do_sample=False, max_new_tokens=24, repetition_penalty=1.0, attention_mask=torch.ones_like(ids))[0].tolist()[ids.shape[1]:]
    out = out[:-1] if out[-1] in ends else out
    said = jotun("generate", "--load", ours, "--prompt", prompt, "--max-new-tokens", len(out), "--temperature", 0).decode(errors="replace")
    text = tokenizer.decode(tokenizer.encode(prompt, add_special_tokens=False) + out, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    whole = lambda t: re.sub("\ufffd+", "\ufffd", t.strip())        # bytes that are no character
    if not name.endswith("_model") and whole(said.removesuffix("\n")) != whole(text):
        failures.append(f"{name}: jotun says {said!r} and transformers {text!r}")
    if not llama_cpp:
        return len(out)
    llama = llama_cpp.Llama(model_path=path, n_ctx=256, verbose=False, n_threads=2, flash_attn=False,
                            type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
    found = []
    for token in llama.generate(ids[0].tolist(), temp=0, top_k=1, repeat_penalty=1.0):
        if llama_cpp.llama_vocab_is_eog(llama._model.vocab, token) or len(found) == 24:
            break
        found.append(token)
    if found != out:
        failures.append(f"{name}: greedy tokens of transformers {out}, of llama.cpp {found}")
    missing = [e for e in ends if not llama_cpp.llama_vocab_is_eog(llama._model.vocab, e)]
    if missing:
        failures.append(f"{name}: llama.cpp does not stop at {missing}")
    return len(out)


def shape(name, work, corpus, all_texts):
    at = lambda leaf: os.path.join(work, name + leaf)
    tokenizer_shapes.make(at("-theirs"), name, corpus, 1500)
    theirs = transformers.AutoTokenizer.from_pretrained(at("-theirs"))
    ends = source_model(at("-theirs"), theirs)
    jotun("convert", "--to", "jotun", "--input", at("-theirs"), "--output", at("-ours"))
    jotun("convert", "--to", "hf", "--input", at("-ours"), "--output", at("-again"))
    jotun("convert", "--to", "gguf", "--output-dtype", "f32", "--input", at("-ours"), "--output", at(".gguf"))
    again, want = transformers.AutoTokenizer.from_pretrained(at("-again")), [theirs.encode(t) for t in all_texts]
    other(name, "the written folder", all_texts, want, [again.encode(t) for t in all_texts])
    pieces = name.endswith("_model")                             # jotun puts no bos before a text of a sentencepiece model
    if not pieces:
        other(name, "jotun", all_texts, want, [ids_of(at("-theirs"), t, work, "--parse-special-tokens") for t in all_texts])
    for leaf in ("generation_config.json", "tokenizer_config.json"):
        if without_version(os.path.join(at("-theirs"), leaf)) != without_version(os.path.join(at("-again"), leaf)):
            failures.append(f"{name}: another {leaf}")
    before, after = (without_version(os.path.join(at(leaf), "config.json")) for leaf in ("-theirs", "-again"))
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if before.get(key) != after[key]:
            failures.append(f"{name}: {key} was {before.get(key)} and is {after[key]}")
    if llama_cpp:
        model = llama_cpp.Llama(model_path=at(".gguf"), vocab_only=True, verbose=False)
        in_form = [(t, ids) for t, ids in zip(all_texts, want) if name != "qwen2" or unicodedata.is_normalized("NFC", t)]
        # llama.cpp puts a blank before each text, Metaspace (which LlamaTokenizer makes of a tokenizer.model) only before the
        # first, and where it does not begin with one
        in_form = [(t, ids) for t, ids in in_form if name not in ("mistral", "llama2_model") or not t.startswith((" ", "▁", "<s>"))]
        in_form = [(t, ids) for t, ids in in_form if name != "tekken" or t.isascii()]        # its split has cases of ASCII alone
        # Gemma's tokens of marks are found in a text that has marks itself; llama.cpp's are for blanks
        in_form = [(t, ids) for t, ids in in_form if name != "gemma" or "▁▁" not in t]
        other(name, "llama.cpp", [t for t, _ in in_form], [ids for _, ids in in_form],
              [model.tokenize(t.encode(), add_bos=True, special=True) for t, _ in in_form])
        plain = [t for t, _ in in_form if "<" in t]
        other(name, "jotun and llama.cpp, special tokens as text", plain, [ids_of(at("-theirs"), t, work) for t in plain],
              [model.tokenize(t.encode(), add_bos=not pieces, special=False) for t in plain])
    count = greedy(name, at("-again"), at("-ours"), at(".gguf"), ends)
    print(f"{name:24s} {len(all_texts)} texts, {len(theirs)} ids, {count} greedy tokens", flush=True)


def trained(work):
    """Models of sentencepiece with other rules than those of the data's."""
    source = os.path.join(DATA, "ud", "sv_talbanken.test.txt")
    if not os.path.exists(source):
        source = sorted(glob.glob(os.path.join(DATA, "ud", "*.test.txt")))[0]
    kinds = {"identity": dict(model_type="unigram", normalization_rule_name="identity", byte_fallback=True),
             "blanks": dict(model_type="unigram", remove_extra_whitespaces=False),
             "llama": dict(model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False, byte_fallback=True),
             "bare": dict(model_type="bpe", normalization_rule_name="nfkc_cf", add_dummy_prefix=False, character_coverage=0.98)}
    for kind, options in kinds.items():
        prefix = os.path.join(work, kind)
        sentencepiece.SentencePieceTrainer.train(input=source, model_prefix=prefix, vocab_size=1200, minloglevel=2, **options)
        yield prefix + ".model"


with comparison.temporary() as folder:
    names = sys.argv[1:] or tokenizer_shapes.SHAPES + sorted(glob.glob(os.path.join(DATA, "gpt2", "*.tiktoken"))) + \
        sorted(glob.glob(os.path.join(DATA, "spm", "*.model")))
    everything = texts()
    if len(everything) == len(ODD):
        comparison.skip("no ../shared/data")
    shaped = tokenizer_shapes.ODD + tokenizer_shapes.OTHER_FORMS + everything[len(ODD)::5]
    for tokenizer in list(names) + ([] if sys.argv[1:] else list(trained(folder))):
        if tokenizer in tokenizer_shapes.SHAPES:
            shape(tokenizer, folder, "\n".join(everything[::7]), shaped)
        else:
            compare(tokenizer, folder, everything)
comparison.end()
