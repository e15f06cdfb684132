"""Swedish out of Norwegian (both forms), Danish, German, English, Finnish and Russian, by a model trained here with fastText's own
tool: what of Swedish stays and what of the others comes through, after the language alone and after all stages."""
import collections
import json
import os
import random
import subprocess
import sys

import run

DATA = os.environ.get("JOTUN_SHARED", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")) + "/data"
LANGUAGES = {"sv_talbanken": "sv", "sv_pud": "sv", "nb_bokmaal": "nb", "nn_nynorsk": "nn", "da_ddt": "da", "de_gsd": "de",
             "en_ewt": "en", "fi_tdt": "fi", "ru_gsd": "ru"}
NOVELS = {"sv": "sv.chapters", "no": "no.head.chapters", "en": "en.head.chapters"}
WORDS = 80                                       # of a document made of sentences
TRAIN_BYTES = 1500000                            # of novels, a language
RECALL, THROUGH = 0.98, 0.01


def documents(path):
    """Consecutive sentences, joined until they have 80 words."""
    words = []
    for line in open(path, encoding="utf-8"):
        words += line.split()
        if len(words) >= WORDS:
            yield " ".join(words)
            words = []
    if len(words) >= WORDS / 2:
        yield " ".join(words)


def novels(language):
    """(author, text) of each chapter."""
    for line in open(f"{DATA}/eltec/{NOVELS[language]}.jsonl", encoding="utf-8"):
        row = json.loads(line)
        author = row["id"].split("#")[0].split("_")[1]
        yield author, " ".join(row["text"].split())


def first_half(language):
    """Every second author is read by the model, the others are judged."""
    return set(sorted({author for author, _ in novels(language)})[::2])


def pieces(text):
    words = text.split()
    rng = random.Random(len(words))
    while words:
        size = rng.choice([20, WORDS, 2 * WORDS])
        yield " ".join(words[:size])
        words = words[size:]


def model_train(folder):
    lines = []
    for bank, label in LANGUAGES.items():
        path = f"{DATA}/ud/{bank}.dev.txt"
        if os.path.exists(path):
            lines += [(label, text) for text in documents(path)] + [(label, line.strip()) for line in open(path, encoding="utf-8")]
    for language in NOVELS:
        known, taken = first_half(language), 0
        for author, text in novels(language):
            if author in known and taken < TRAIN_BYTES:
                taken += len(text)
                lines += [(language, piece) for piece in pieces(text)]
    random.Random(3).shuffle(lines)
    with open(f"{folder}/train.txt", "w", encoding="utf-8") as out:
        out.writelines(f"__label__{label} {text}\n" for label, text in lines)
    words = ["fasttext", "supervised", "-input", "train.txt", "-output", "lid", "-dim", 16, "-minn", 2, "-maxn", 4, "-epoch", 12,
             "-lr", 0.5, "-bucket", 200000, "-minCount", 2, "-loss", "softmax", "-thread", 1, "-verbose", 0]
    subprocess.run([str(w) for w in words], cwd=folder, check=True)
    return f"{folder}/lid.bin"


def judged(folder):
    """The other half, as JSON lines with the language in the id; documents by language."""
    count = collections.Counter()
    with open(f"{folder}/mixed.jsonl", "w", encoding="utf-8") as out:
        def put(language, text):
            out.write(json.dumps({"id": f"{language}-{count[language]}", "text": text}, ensure_ascii=False) + "\n")
            count[language] += 1
        for bank, language in LANGUAGES.items():
            for part in "test", "train.rebuilt":
                if os.path.exists(f"{DATA}/ud/{bank}.{part}.txt"):
                    for text in documents(f"{DATA}/ud/{bank}.{part}.txt"):
                        put(language, text)
        for language in NOVELS:
            known = first_half(language)
            for author, text in novels(language):
                if author not in known and len(text.split()) >= WORDS:
                    put(language, text)
    return count


def measure(name, folder, count, *options):
    """Runs clean and holds what stayed against what there was."""
    out = f"{folder}/{name}.jsonl"
    run.jotun("clean", "--input", f"{folder}/mixed.jsonl", "--output", out, "--report", f"{folder}/{name}.json",
              "--lang", "sv", "--lang-model", f"{folder}/lid.bin", "--lang-threshold", 0.95, *options)
    kept = collections.Counter(json.loads(line)["id"].split("-")[0] for line in open(out, encoding="utf-8"))
    report = json.load(open(f"{folder}/{name}.json"))
    equal = sum(report["dropped"].get(rule, {"documents": 0})["documents"] for rule in ("exact duplicate", "near duplicate"))
    others = sum(count.values()) - count["sv"]
    through = sum(kept.values()) - kept["sv"]
    print(f"{name}: {kept['sv']} of {count['sv']} Swedish documents stay ({equal} more are duplicates), "
          f"{through} of {others} others: {dict(kept)}")
    if kept["sv"] + equal < RECALL * count["sv"] or through >= THROUGH * others:
        sys.exit(f"{name}: wanted {RECALL:.0%} of Swedish and less than {THROUGH:.0%} of the others")
    for language in set(count) - {"sv"}:                 # none hides behind the sum
        if kept[language] > max(1, 0.03 * count[language]):
            sys.exit(f"{name}: {kept[language]} of {count[language]} documents of {language} come through")
    return report


def sums_hold(report, count):
    documents = report["kept"]["documents"] + sum(row["documents"] for row in report["dropped"].values())
    size = report["kept"]["bytes"] + sum(row["bytes"] for row in report["dropped"].values())
    if documents != report["in"]["documents"] or documents != sum(count.values()) or size != report["in"]["bytes"]:
        sys.exit(f"the report does not add up: {report}")


def main():
    if not os.path.isdir(DATA):
        print("skipped: no ../shared/data")
        return run.SKIP
    if not run.have("fasttext"):
        print("skipped: fasttext is not installed")
        return run.SKIP
    with run.work_folder() as folder:
        model_train(folder)
        count = judged(folder)
        sums_hold(measure("language", folder, count, "--dedup", "none"), count)
        sums_hold(measure("all", folder, count, "--charset", "sv", "--quality", "gopher", "--near-threshold", 0.8), count)
    return 0


sys.exit(main())
