"""Files of tokenizers as others write them: what is read, decoded and put around a text as Hugging Face's library (tokenizers 0.23.3,
transformers 5.23) and sentencepiece 0.2.3 do, what contradicts itself or costs too much is refused; and what prepare and data say."""
import json
import os
import resource
import shutil
import struct
import sys

import run

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HUGE = 1000000000000000019884624838656                   # transformers' model_max_length where nobody knows one
MARK = "\u2581"
WORDS = ["<unk>", *[f"<0x{byte:02X}>" for byte in range(256)], MARK, "a", "b", MARK + "a", MARK + MARK]          # ids 257 to 261


def expect(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, not {want!r}")


def refused(says, *words, code=1, **more):
    done = run.jotun(*words, check=False, **more)
    if done.returncode != code or says not in done.stderr:
        sys.exit(f"{words}: exit code {done.returncode}, wanted {code} and \"{says}\" in:\n{done.stderr}")
    return done


def written(folder, name, value):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def model(*added, **parts):
    """A tokenizer.json of the kind of Gemma and Llama 2: characters, bytes for what is none of them, marks for blanks"""
    names = ("content", "id", "special", "normalized", "single_word")
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    return {"added_tokens": [{**flags, **dict(zip(names, row))} for row in added],
            "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "vocab": {token: id for id, token in enumerate(WORDS)},
                      "merges": [[MARK, "a"], [MARK, MARK]]}, **parts}


def encoded(path, text, *more):
    return [int(id) for id in run.jotun("tokenizer", "encode", "--tokenizer", path, *more, input=text).stdout.split()]


def decoded(path, *ids):
    return run.jotun("tokenizer", "decode", "--tokenizer", path, input=" ".join(map(str, ids))).stdout


def huge_numbers(folder):
    for name, data, config in (("one", model(), {"model_max_length": HUGE, "eos_token": {"content": "b"}}), ("two", model(truncation={"max_length": HUGE}), {})):
        path = os.path.dirname(written(folder, f"{name}/tokenizer.json", data))
        written(folder, f"{name}/tokenizer_config.json", config)
        expect(name, encoded(path, "ab"), [258, 259])
    refused("its id is not a whole number", "tokenizer", "info", "--tokenizer", written(folder, "x.json", {"model": {"vocab": {"a": 1.5}}}))


def added_tokens(folder):
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    marks  = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
    gemma  = written(folder, "gemma.json", model((MARK * 2, 261, False, False), (MARK * 4, 262, False, False), normalizer=spaces,
                                                 decoder={"type": "Sequence", "decoders": [marks, {"type": "ByteFallback"}, {"type": "Fuse"}]}))
    expect("runs of marks", decoded(gemma, 258, 261, 262, 259), "a      b")
    expect("runs of blanks", encoded(gemma, "a  b"), [258, 261, 259])

    short = written(folder, "short.json", model(("§", 262, True, False), ("¤", 263, False, False, True), ("é", 264, True, True), normalizer=spaces))
    expect("a special token that is text", encoded(short, "a§"), [258, 1 + 0xC2, 1 + 0xA7])
    expect("a special token for its id", encoded(short, "a§", "--parse-special-tokens"), [258, 262])
    expect("a token within a word", encoded(short, "a¤b"), [258, 1 + 0xC2, 1 + 0xA4, 259])
    expect("a special token after normalizers", encoded(short, "é"), [1 + 0xC3, 1 + 0xA9])

    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True}
    lead = written(folder, "lead.json", model((" lead", 262, False, False), pre_tokenizer=metaspace, decoder=metaspace))
    expect("a blank of the text", decoded(lead, *encoded(lead, " lead a")), " lead a")
    expect("a blank before the text", decoded(lead, *encoded(lead, "a a")), "a a")

    refused("gives it 258", "tokenizer", "info", "--tokenizer", written(folder, "other.json", model(("a", 262, False, False))))
    refused("gives it 262", "tokenizer", "info", "--tokenizer", written(folder, "taken.json", model(("new", 258, False, False))))


def beside_vocabulary(folder):
    data = json.load(open(os.path.join(TESTS, "data/tokenizers/gpt2.json")))["model"]
    ends = max(data["vocab"].values()) + 1
    place = os.path.dirname(written(folder, "old/vocab.json", data["vocab"]))
    written(folder, "old/merges.txt", "".join((merge if isinstance(merge, str) else " ".join(merge)) + "\n" for merge in data["merges"]).encode())
    plain = encoded(place, "a b")
    named = os.path.join(folder, "named")                     # Megatron-LM's names
    for one in "gpt2", "other":
        for name in "vocab.json", "merges.txt":
            written(folder, f"named/{one}-{name}", open(os.path.join(place, name), "rb").read())
        if one == "gpt2":
            written(folder, "named/lonely-vocab.json", {})    # without merges
            expect("gpt2-vocab.json and gpt2-merges.txt", encoded(named, "a b"), plain)
    refused("2 pairs of NAME-vocab.json and NAME-merges.txt; give a directory with one of them", "tokenizer", "info", "--tokenizer", named)
    written(folder, "old/added_tokens.json", {"<tool>": ends, "<end>": ends + 1})
    expect("no special token", encoded(place, "a b<tool><end>"), plain + [ends, ends + 1])
    written(folder, "old/special_tokens_map.json", {"additional_special_tokens": ["<end>", {"content": "<other>"}]})
    expect("a special token", encoded(place, "a b<tool><end>", "--parse-special-tokens"), plain + [ends, ends + 1])
    expect("a special token as text", encoded(place, "<end>a<tool>")[-1] == ends and ends + 1 not in encoded(place, "<end>"), True)
    flags = {"content": "<tool>", "lstrip": True, "special": False, "normalized": False}
    written(folder, "old/tokenizer_config.json", {"model_max_length": HUGE, "eos_token": "<end>", "added_tokens_decoder": {str(ends): flags}})
    expect("a token that takes blanks", encoded(place, "a b <tool>"), plain + [ends])
    expect("the end of a document", f"end of document  id {ends + 1}\n" in run.jotun("tokenizer", "info", "--tokenizer", place).stdout, True)
    written(folder, "old/added_tokens.json", {"a": ends})
    refused("vocabulary gives it", "tokenizer", "info", "--tokenizer", place)


def around_a_text(folder):
    data = json.load(open(os.path.join(TESTS, "data/tokenizers/llama3.json")))
    first = max(max(data["model"]["vocab"].values()), *[token["id"] for token in data["added_tokens"]]) + 1
    data["added_tokens"] += [{"content": text, "id": first + i, "special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False} for i, text in enumerate(("<|begin_of_text|>", "<|end_of_text|>"))]
    single = [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    named  = {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [first], "tokens": ["<|begin_of_text|>"]}}
    template = {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": named}
    plain = encoded(written(folder, "plain.json", data), "Hi there")
    llama = written(folder, "llama.json", {**data, "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}, template]}})
    expect("before a text", encoded(llama, "Hi there"), [first] + plain)
    expect("of no text", encoded(llama, ""), [first])
    expect("a text comes back", decoded(llama, first, *plain), "Hi there")
    expect("info", f"added to each text  {first}\n" in run.jotun("tokenizer", "info", "--tokenizer", llama).stdout, True)
    pair = {"type": "RobertaProcessing", "cls": ["<|begin_of_text|>", first], "sep": ["<|end_of_text|>", first + 1]}
    expect("on both sides", encoded(written(folder, "pair.json", {**data, "post_processor": pair}), "Hi there"), [first] + plain + [first + 1])
    refused("the post-processor Other is not known", "tokenizer", "info", "--tokenizer", written(folder, "y.json", {**data, "post_processor": {"type": "Other"}}))
    refused("a token that it does not define", "tokenizer", "info", "--tokenizer",
            written(folder, "z.json", {**data, "post_processor": {**template, "special_tokens": {}}}))
    text = written(folder, "t.txt", b"Hi there\nHi there\n")
    run.jotun("prepare", "--input", text, "--tokenizer", llama, "--append-eod", "--output-prefix", os.path.join(folder, "t"))
    ids = open(os.path.join(folder, "t_text_document.bin"), "rb").read()
    expect("prepare, as Megatron's preprocess_data", list(struct.unpack(f"<{len(ids) // 2}H", ids)), 2 * ([first] + plain + [first + 1]))
    expect("data cat", run.jotun("data", "cat", os.path.join(folder, "t_text_document"), "--tokenizer", llama).stdout, "Hi there\n" * 2)


# ---- sentencepiece: protocol buffers by hand ----

def varint(value):
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def field(number, value):
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value) if isinstance(value, int) else varint(number << 3 | 2) + varint(len(value)) + value


def pieces(*rows, charsmap=b"", prefix=1, remove=1, suffix=0):
    piece = lambda text, kind, score: field(1, field(1, text.encode()) + field(2, score) + field(3, kind))
    made = b"".join(piece(*row, -float(i)) for i, row in enumerate([("<unk>", 2), ("<s>", 3), *rows]))
    return made + field(2, field(3, 2) + field(24, suffix)) + field(3, field(2, charsmap) + field(3, prefix) + field(4, remove))


def sentencepiece(folder):
    rows = [(text, 1) for text in (MARK, "a", MARK + "a", MARK * 2)]                # ids 2 to 5, behind <unk> and <s>
    for remove, suffix, ids, text in ((1, 0, (2, 2, 4), "a"), (1, 0, (5, 4), "  a"), (0, 0, (2, 2, 4), "  a"),
                                      (1, 1, (4, 2), "a "), (0, 1, (2, 4), " a"), (1, 0, (0, 3), " \u2047 a"), (1, 0, (1, 2, 3), "a")):
        path = written(folder, "sp.model", pieces(*rows, remove=remove, suffix=suffix))
        expect(f"sentencepiece {remove} {suffix} {ids}", decoded(path, *ids), text)


# ---- a folder of transformers ----

def exported(folder):
    """What lies beside a tokenizer is read once more when a model is written with it."""
    def trained(name, leaf, data, config):
        place = os.path.dirname(written(folder, f"{name}/{leaf}", data))
        written(folder, f"{name}/tokenizer_config.json", config)
        run.jotun("train", "--mock-data", "--tokenizer", place, "--train-iters", 1, *run.MODEL, "--save", os.path.join(folder, name + "-ours"))
        return "convert", "--to", "hf", "--input", os.path.join(folder, name + "-ours"), "--output", os.path.join(folder, name + "-hf")

    run.jotun(*trained("nul", "tokenizer.json", model(), b'{"model_max_length": 1%s, "eos_token": "b", "other": "a\\u0000"}' % (b"0" * 30)))
    costly = trained("sp", "tokenizer.model", pieces((MARK, 1), ("a", 1)), {})
    shutil.rmtree(os.path.join(folder, "sp-ours", "step_00000001", "tokenizer"))         # the folder that it names is read
    path = written(folder, "sp/tokenizer_config.json", b'{"a": [' + b"[]," * 50000 + b"[]]}")
    refused(f"{path}: 150", *costly)
    refused("no valid file takes more", *costly)
    refused("copy or download the file again, or remove it", *costly)
    written(folder, "sp/tokenizer_config.json", b'{"a": ')
    refused("copy or download the file again, or remove it", *costly)

    theirs = os.path.join(folder, "nul-hf")
    written(folder, "nul-hf/tokenizer.json", {"model": {"type": "Other", "vocab": {}}})
    none, why = f"the tokenizer of {{}}{theirs} cannot be read: give another one by --tokenizer", "the model Other is not known"
    ours = os.path.join(folder, "ours")
    for words, prefix, more in ((("convert", "--to", "jotun", "--input", theirs, "--output", ours), "", ", or --tokenizer none"),
                                (("train", "--load", "hf:" + theirs, "--mock-data", "--train-iters", 1), "hf:", ", or --tokenizer none"),
                                (("generate", "--load", "hf:" + theirs, "--prompt", "a"), "hf:", "\n")):
        expect(f"{words}: {why}", why in refused(none.format(prefix) + more, *words).stderr, True)
    run.jotun("convert", "--to", "jotun", "--input", theirs, "--output", ours, "--tokenizer", "none")


def more_ids(folder):
    """A token that was added after training, beyond the model's ids: <pad> of many published folders"""
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    place = os.path.dirname(written(folder, "own/tokenizer.json", model(normalizer=blanks)))
    ours, theirs = os.path.join(folder, "own-ck"), os.path.join(folder, "own-hf")
    run.jotun("train", "--mock-data", "--tokenizer", place, "--train-iters", 1, *run.MODEL, "--save", ours)
    run.jotun("convert", "--to", "hf", "--input", ours, "--output", theirs)
    text = written(folder, "own.txt", b"ab<pad> a")
    again = os.path.join(folder, "own-again")
    uses = [("generate", "--load", "hf:" + theirs, "--prompt", "ab<pad>", "--max-new-tokens", 3, "--temperature", 0),
            ("eval", "perplexity", "--load", "hf:" + theirs, "--text", text),
            ("train", "--load", "hf:" + theirs, "--mock-data", "--train-iters", 1, "--save", os.path.join(folder, "own-tuned")),
            ("train", "--load", "hf:" + theirs, "--mock-data", "--train-iters", 2, "--save", os.path.join(folder, "own-tuned")),     # continued
            ("convert", "--to", "jotun", "--input", theirs, "--output", again),
            ("generate", "--load", again, "--prompt", "ab<pad>", "--max-new-tokens", 3, "--temperature", 0)]
    before = [run.jotun(*words).stdout for words in uses[:2]]
    written(folder, "own-hf/tokenizer.json", model(("<pad>", 262, True, False), normalizer=blanks))
    for i, words in enumerate(uses):
        done = run.jotun(*words)
        expect(f"{words}: {done.stderr}", "has 263 ids, and the model 262: those above are special tokens that no text makes, and are not used" in done.stderr, True)
        if i < 2:
            expect(f"{words}", done.stdout, before[i])
    run.jotun("convert", "--to", "gguf", "--input", again, "--output", os.path.join(folder, "own.gguf"))
    run.jotun("convert", "--to", "hf", "--input", again, "--output", os.path.join(folder, "own-back"))
    for row, token in ((("<tool>", 262, False, False), "<tool>"), (("</s>", 262, True, False), "</s>")):           # </s>: the end of a document
        written(folder, "own-hf/tokenizer.json", model(row, normalizer=blanks))
        for words in uses[:2] + [uses[2][:-2]] + [uses[4]]:
            refused(f"has 263 ids, and the model has 262: its token {token} with id 262 may be in a text; give the tokenizer it was trained with", *words)


# ---- what a file may cost ----

def costly_files(folder):
    lists = written(folder, "lists.json", b'{"model": [' + b"[]," * 6000000 + b"[]]}")
    refused("the files of tokenizers take less", "tokenizer", "info", "--tokenizer", lists)
    vocab = {**{f"t{i}": i for i in range(9)}, "far": (1 << 24) - 1}
    refused("id 16777215 of a token is not one of", "tokenizer", "info", "--tokenizer", written(folder, "far.json", {"model": {"vocab": vocab, "merges": []}}))
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    if used > 300:
        sys.exit(f"{used} MB for files of 18 MB and less")
    header = struct.pack("<2i12id", 793712314, 12, 1, 5, 1, 1, 5, 1, 3, 3, (1 << 31) - 1, 2, 3, 100, 0.0)        # fastText's, with subwords
    inverse, kept = pow(2654435769, -1, 1 << 32), b""
    for high in range(1, 1 << 14):                                              # all in one place of a hash table of 2^15 or 2^16
        bucket = (high << 16 | high) * inverse % (1 << 32)
        kept += struct.pack("<2i", bucket, 0) if bucket < (1 << 31) - 1 else b""
    table = struct.pack("<3i2q", 1, 0, 1, 1, len(kept) // 8) + b"__label__a\0" + struct.pack("<qb", 1, 1)
    refused("more than 1000 buckets collide", "langid", "--model", written(folder, "hash.bin", header + table + kept), input="x")
    for length, code in ((64, 0), (65, 1)):
        units = [0] * 256
        units[ord("a")], units[ord("a") ^ 1] = ord("a") | 1 << 8 | 1 << 10, 1 << 31         # a rule ends behind "a"; its text is at 0
        charsmap = struct.pack("<257I", 1024, *units) + b"b" * length + b"\0"
        path = written(folder, "rule.model", pieces(("b", 1), (MARK, 1), charsmap=charsmap))
        done = run.jotun("tokenizer", "encode", "--tokenizer", path, input="a" * 100, check=False)
        expect(f"a rule of {length}: {done.stderr}", done.returncode, code)
        expect("why", "writes more than 64 bytes for each that it replaces" in done.stderr, code == 1)


# ---- words ----

def words(folder):
    text, prefix = written(folder, "w.txt", "å b\n".encode()), os.path.join(folder, "w")
    said = run.jotun("prepare", "--input", text, "--output-prefix", prefix).stderr
    expect(said, "of --tokenizer bytes (none was named, so ids are bytes)" in said, True)
    said = run.jotun("prepare", "--input", text, "--tokenizer", "bytes", "--output-prefix", prefix).stderr
    expect(said, "of --tokenizer bytes, " in said, True)
    lost = os.path.join(folder, "mistyped", "w")
    refused(f"--output-prefix {lost}: there is no directory {os.path.dirname(lost)}", "prepare", "--input", text, "--output-prefix", lost)
    refused(f"--output-prefix {lost}: there is no directory", "data", "merge", prefix + "_text_document", "--output-prefix", lost)
    expect("a folder made", os.path.exists(os.path.dirname(lost)), False)
    lines = written(folder, "lists.jsonl", {"text": ["a", "b"]})
    done = refused('"text": the value of the key is not a string, at byte 9 of the line: write it', "prepare", "--input", lines, "--output-prefix", prefix)
    expect(done.stderr, 'the line has "text"' in done.stderr, False)
    big = written(folder, "big.json", model(("Å", 262, False, False), normalizer=None))
    run.jotun("prepare", "--input", written(folder, "big.txt", "a\nÅ\n".encode()), "--tokenizer", big, "--output-prefix", prefix)
    refused(f"was made by --tokenizer {big} (", "data", "cat", prefix + "_text_document", "--tokenizer", "bytes")
    os.remove(prefix + "_text_document.facts.json")
    done = refused("is none of the 257 of --tokenizer bytes", "data", "cat", prefix + "_text_document", "--tokenizer", "bytes")
    expect("printed before it fails", done.stdout, "")
    split = {"type": "Split", "pattern": {"Regex": "\\p{L}+"}, "behavior": "Isolated", "invert": False}
    done = run.jotun("tokenizer", "info", "--tokenizer", written(folder, "letters.json", model(pre_tokenizer=split)))
    expect(done.stderr, done.stderr == "" or "PCRE2 matches it by Unicode" in done.stderr, True)        # "": its Unicode is ours
    split["pattern"]["Regex"] = "[a[bc]]+"
    refused("cannot express what is at byte 2, [bc]]+", "tokenizer", "info", "--tokenizer", written(folder, "nested.json", model(pre_tokenizer=split)))


def main():
    for test in (huge_numbers, more_ids, added_tokens, beside_vocabulary, around_a_text, sentencepiece, exported, costly_files, words):
        if len(sys.argv) > 1 and test.__name__ not in sys.argv[1:]:
            continue
        with run.work_folder() as folder:
            test(folder)
    return 0


sys.exit(main())
