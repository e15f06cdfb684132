"""Makes tests/golden/text: small sentencepiece models with the library's ids, and merges of Hugging Face's BPE trainer.

    pip install sentencepiece tokenizers; python3 tests/oracles/text_golden.py
"""
import json
import os
import random
import sys

import sentencepiece
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "text")
ENDINGS = ["", "a", "en", "ar", "arna", "et", "s", "er", "ing", "ly"]
STEMS = ["sjö", "häst", "land", "river", "sten", "hus", "walk", "ord", "bok", "blå", "träd", "cart"]
ODD = ["12", "3.5", "--", "....", "(x)", "\u00e9t\u00e9", "don't", "we'll", "=====", "\ufb01n", "\uff21\uff22", "\u4f60\u597d", "\U0001f600",
       "<sep>", "a<sep>b", "\u00a0", "\u2581x", "\u0430\u0431\u0432", "e\u0301", "<s>", "\u00bd", "aaaaaaa", "AbC", "\t", "\u00e5\u00e4\u00f6"]


def texts(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        words = []
        for _ in range(draw.randint(1, 24)):
            words.append(draw.choice(ODD) if draw.random() < 0.12 else draw.choice(STEMS) + draw.choice(ENDINGS))
        yield draw.choice([" ", " ", " ", "  "]).join(words) + draw.choice(["", ".", " ", "!"])


def write(name, lines):
    with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="") as out:
        out.writelines(line + "\n" for line in lines)


def sentencepiece_goldens(lines, tried):
    rules = "\n".join(["FB01\t66 69", "FF21\t41", "FF22\t42", "65 301\tE9", "A0\t20", "9\t20", "BD\t31 2F 32", "3000\t20"])
    path = os.path.join(HERE, "rules.tsv")
    with open(path, "w") as out:
        out.write(rules + "\n")
    for kind in ("bpe", "unigram"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_prefix=os.path.join(HERE, kind), model_type=kind, vocab_size=420,
            byte_fallback=True, user_defined_symbols=["<sep>", "=="], normalization_rule_tsv=path, hard_vocab_limit=False,
            num_threads=1, minloglevel=2)
        os.remove(os.path.join(HERE, kind + ".vocab"))
        library = sentencepiece.SentencePieceProcessor(model_file=os.path.join(HERE, kind + ".model"))
        write(kind + ".ids.txt", [" ".join(map(str, library.encode(text))) for text in tried])
    os.remove(path)


def trained(documents, size, frequency, special):
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=size, min_frequency=frequency, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def trainer_goldens(documents):
    write("train.jsonl", [json.dumps({"text": text}, ensure_ascii=False) for text in documents])
    t = trained(documents, 600, 2, ["<|endoftext|>", "<pad>"])
    merges = json.loads(t.to_str())["model"]["merges"]
    write("train.merges.txt", [" ".join(pair) for pair in merges])
    novels = os.path.join(HERE, "..", "..", "..", "..", "shared", "data", "eltec", "sv.chapters.jsonl")
    if os.path.exists(novels):
        with open(novels, encoding="utf-8") as lines:
            t = trained((json.loads(line)["text"] for line in lines), 32000, 2, ["<|endoftext|>"])
        merges = json.loads(t.to_str())["model"]["merges"]
        write("train.eltec.txt", ["%d %016x" % (len(merges), fnv("".join(" ".join(pair) + "\n" for pair in merges)))])


def fnv(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


if __name__ == "__main__":
    os.makedirs(HERE, exist_ok=True)
    sentencepiece_goldens(list(texts(3000, 1)), list(texts(120, 2)))
    write("texts.txt", texts(120, 2))
    trainer_goldens([" \n".join(texts(6, seed)) + "\n" * (seed % 4) for seed in range(60)])
