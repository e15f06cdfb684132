#!/usr/bin/env python3
"""Tokenizers of files that transformers does not open, exported with a model: AutoTokenizer gives jotun's ids of real and of odd
text, and the ids become the text again. .tiktoken files, sentencepiece models of ../shared/data and some trained here."""
import glob
import os
import subprocess
import sys
import tempfile

try:
    import sentencepiece
    import tokenizers
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import llama_cpp
except ImportError as missing:
    llama_cpp = None
    print(f"without llama.cpp: {missing}")
print("transformers", transformers.__version__, "tokenizers", tokenizers.__version__, "sentencepiece", sentencepiece.__version__)
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.environ.get("JOTUN_SHARED", os.path.join(HERE, "..", "..", "..", "shared")), "data")
JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
MODEL = """--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --normalization RMSNorm --disable-bias-linear --swiglu
    --position-embedding-type rope --train-iters 1 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 --mock-data"""
ODD = ["", " ", "  two  blanks ", "a\tb\n\nc  \n  ", "   ", "\n", "don't DON'T we'll I'D", "1234567 3.14 ½ Ⅷ", "ﬁ ǅ é é Å ｆｕｌｌ", "\u00a0x\u3000y\u2028z",
       "Привет, мир! 你好世界 こんにちは", "👩‍👩‍👧 👍🏽 🇸🇪", "a" * 70, "=" * 33 + "-" * 21, "naïve façade — “quoted” …", "x_y->z(a[0], b{1});\n\t\tif (!p) {}",
       "▁mark ▁▁ marks", "\u0301combining first", "ẞß İı ſ", "zero\u200bwidth\u200djoin\ufeff"]
failures = []


def jotun(*words):
    done = subprocess.run([JOTUN, *map(str, words)], capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr.decode()}")
    return done.stdout


def texts():
    found = list(ODD)
    for path in sorted(glob.glob(os.path.join(DATA, "ud", "*.test.txt"))) + [os.path.join(DATA, "tinyshakespeare.txt")]:
        with open(path, encoding="utf-8") as f:
            text = f.read(60000)
            found += [text[i:i + 6000] for i in range(0, len(text), 6000)]
    return found


def ids_of(name, text, work):
    path = os.path.join(work, "text")
    with open(path, "w", newline="", encoding="utf-8") as out:
        out.write(text)
    return [int(w) for w in jotun("tokenizer", "encode", "--tokenizer", name, "--input", path).split()]


def by_llama(name, path, work, all_texts, ours):
    """In how many texts llama.cpp has other ids; None: the tokenizer is refused."""
    done = subprocess.run([JOTUN, "convert", "--to", "gguf", "--input", path, "--output", path + ".gguf"], capture_output=True, text=True)
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


def trained(work):
    """Models of sentencepiece with other rules than those of the data's."""
    source = os.path.join(DATA, "ud", "sv_talbanken.test.txt")
    if not os.path.exists(source):
        source = sorted(glob.glob(os.path.join(DATA, "ud", "*.test.txt")))[0]
    kinds = {"identity": dict(model_type="unigram", normalization_rule_name="identity", byte_fallback=True),
             "blanks": dict(model_type="unigram", remove_extra_whitespaces=False),
             "bare": dict(model_type="bpe", normalization_rule_name="nfkc_cf", add_dummy_prefix=False, character_coverage=0.98)}
    for kind, options in kinds.items():
        prefix = os.path.join(work, kind)
        sentencepiece.SentencePieceTrainer.train(input=source, model_prefix=prefix, vocab_size=1200, minloglevel=2, **options)
        yield prefix + ".model"


with tempfile.TemporaryDirectory() as folder:
    names = sys.argv[1:] or sorted(glob.glob(os.path.join(DATA, "gpt2", "*.tiktoken"))) + sorted(glob.glob(os.path.join(DATA, "spm", "*.model")))
    if not names:
        print("skipped: no ../shared/data")
        sys.exit(77)
    everything = texts()
    for tokenizer in list(names) + ([] if sys.argv[1:] else list(trained(folder))):
        compare(tokenizer, folder, everything)
for line in failures:
    print("DIFFERS", line)
sys.exit(bool(failures))
