"""Does the law of small models predict a larger one? Trains models of four sizes and one more than four times as large as the largest of
them, by all parameters and by those of the layers' matrices (12 x layers x width^2) alike, and prints what the law of the four predicts for it beside what it reached:

    python3 bench/sweep/predict.py [JOTUN] [--work DIR] [--text TRAIN VALID] [--seeds N] [--within PERCENT]

Without --text the quickstart's is made (./quickstart fetch pages language clean): the Swedish help of LibreOffice and GNOME. Bytes are the
tokens. Every run takes one pass over the same 1.1 million tokens, so that sizes differ in nothing else; batch and sequence are the same too,
and the learning rate follows from the size. Runs that have ended in DIR are not made again. Losses do not depend on what else the machine
does. Exit code 1: the prediction is further off than --within, 3 %."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TOKENS = 1100000
SIZES = ["--depth", "2,3,4,5", "--check-depth", "9", "--aspect-ratio", "16"]
MODEL = "--seq-length 128 --position-embedding-type rope --global-batch-size 8".split()


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}")


def quickstart(jotun, work):
    """Every twentieth document is for validation."""
    texts = os.path.join(work, "train.txt"), os.path.join(work, "valid.txt")
    if not all(map(os.path.exists, texts)):
        run("./quickstart", "fetch", "pages", "language", "clean", cwd=ROOT, stdout=sys.stderr,
            env=dict(os.environ, QUICKSTART_OUT=work, QUICKSTART_JOTUN=jotun))
        documents = open(os.path.join(work, "texts.txt"), "rb").readlines()
        for path, chosen in zip(texts, (lambda n: n % 20, lambda n: n % 20 == 0)):
            open(path, "wb").writelines(d for n, d in enumerate(documents, 1) if chosen(n))
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jotun", nargs="?", default=os.path.join(ROOT, "build/release/bin/jotun"))
    parser.add_argument("--work")
    parser.add_argument("--text", nargs=2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--within", type=float, default=3)
    args = parser.parse_args()
    jotun, work = os.path.abspath(args.jotun), os.path.abspath(args.work or tempfile.mkdtemp(prefix="sweep-"))
    os.makedirs(work, exist_ok=True)
    for name, text in zip(("train", "valid"), args.text or quickstart(jotun, work)):
        if not os.path.exists(os.path.join(work, name + "_text_document.idx")):
            run(jotun, "prepare", "--input", text, "--tokenizer", "bytes", "--append-eod", "--output-prefix", os.path.join(work, name))
    seeds = ["--seed", ",".join(map(str, range(1, args.seeds + 1)))] if args.seeds > 1 else []
    out = os.path.join(work, f"sweep{args.seeds}")
    run(jotun, "sweep", "--save", out, *SIZES, *MODEL, *seeds, "--train-tokens", TOKENS,
        "--train-data-path", os.path.join(work, "train_text_document"), "--valid-data-path", os.path.join(work, "valid_text_document"))
    check = json.load(open(os.path.join(out, "law.json")))["check"]
    off = 100 * (check["predicted"] / check["measured"] - 1)
    print(f"{check['times_the_largest']:.2f} times the largest model of the law, {(9 / 5) ** 3:.2f} times by its layers' matrices: predicted {check['predicted']:.4f}, "
          f"measured {check['measured']:.4f}, {off:+.2f} %")
    return abs(off) > args.within


if __name__ == "__main__":
    sys.exit(main())
