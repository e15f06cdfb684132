"""jotun generate writes the texts of transformers (tests/golden/generation.json): greedily and with beams, alone and together."""
import json
import os
import sys
import tempfile

from run import jotun

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oracles"))
import generation_golden as golden
import hf_golden

FACTS = json.load(open(os.path.join(HERE, "..", "golden", "generation.json")))["models"]
MODELS = json.load(open(os.path.join(HERE, "..", "golden", "hf", "models.json")))["models"]
BEAMS = ("--num-beams", golden.BEAMS, "--length-penalty", golden.PENALTY)
WORST = {}


def texts(folder, prompts, *words):
    path = os.path.join(folder, "prompts.jsonl")
    with open(path, "w") as out:
        out.writelines(json.dumps({"ids": ids}) + "\n" for ids in prompts)
    done = jotun("generate", "--load", "hf:" + folder, "--tokenizer", "bytes", "--prompt-jsonl", path, "--max-new-tokens", golden.NEW, *words)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(name, words, made, kind):
    expected = [text[kind] for text in FACTS[name]]
    differ = [i for i, (ours, theirs) in enumerate(zip(made, expected)) if ours["ids"] != theirs]
    if len(made) != len(expected) or differ:
        i = differ[0] if differ else 0
        sys.exit(f"{name} {words}: {len(made)} texts, other than transformers' are those of prompts {differ}\n{made[i]}\n{FACTS[name][i]}")
    if kind == "beams":
        off = max(abs(ours["score"] - theirs["score"]) for ours, theirs in zip(made, FACTS[name]))
        WORST[name] = max(WORST.get(name, 0), off)
        if not off < 1e-5:
            sys.exit(f"{name} {words}: scores differ by {off}")


def main(work):
    prompts = golden.prompts()
    for name, facts in FACTS.items():
        assert len(facts) == len(prompts) and min(text["margin"] for text in facts) > 2e-5, name    # far more than rounding
        folder = os.path.join(work, name)
        hf_golden.write_folder(MODELS[name], folder, golden.LOUD)
        for kind, more in ("greedy", ("--temperature", 0)), ("beams", BEAMS):
            for rows in 1, 8:
                words = (*more, "--micro-batch-size", rows)
                compare(name, words, texts(folder, prompts, *words), kind)
        alone = [text for ids in prompts[:3] for text in texts(folder, [ids], "--temperature", 0)]
        if [text["ids"] for text in alone] != [text["greedy"] for text in facts[:3]]:
            sys.exit(f"{name}: a prompt without others has another text: {alone}")
    ended = sum(len(text[kind]) < golden.NEW for facts in FACTS.values() for text in facts for kind in ("greedy", "beams"))
    assert ended > 4, f"{ended} texts end by themselves"
    print(f"{len(prompts)} texts of each of {', '.join(FACTS)} are those of transformers; scores of beams differ by at most",
          ", ".join(f"{off:.1e}" for off in WORST.values()), f"; {ended} texts end by themselves")


with tempfile.TemporaryDirectory(prefix="jotun-test-") as scratch:
    main(scratch)
