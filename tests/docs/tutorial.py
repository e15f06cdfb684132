"""Runs a page of docs, docs/tutorial.md unless another is named: every block of commands (```sh), as written and in order, in one
shell and a directory that is empty, but for what PREPARED puts there for other pages. Each must succeed, and each line of the block of output that follows it (```text) must be among the lines it printed.

Lines are compared word by word. Numbers with a unit of time or throughput may differ, other decimals by 5 %, integers not at
all. In a block ```text timing integers may differ as well; a block ```text sample is not compared. Kernels may be those of any machine. A line `...` is passed over, and
so is what follows ` ...` at the end of a line. `timeout` may end with its own exit code, 124.

A progress line of a training run must be printed for the same step, with the same fields in the same order: loss and gradient
norm within 5 %, learning rate and samples equal, times and throughputs any number with their unit.

    JOTUN=build/release/bin/jotun python3 tests/docs/tutorial.py [--show] [howto/convert.md]      --show prints what each block printed
"""
import hashlib
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

SKIP = 77
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
JOTUN = os.path.abspath(os.environ.get("JOTUN", "build/release/bin/jotun"))
TEXTS = "/usr/share/common-licenses/*"
TEXTS_SHA256 = "1021017e9362672c7676616e3b55cd7d4c5b85c7d2c966be8934486bc902fcd4"   # of Debian 12's, in the order of their names
FREE = re.compile(r"(?:\d+ (?:h|min) )*\d[\d.]* (?:ms|us|s|h|min|[KMGT]?i?B/s|tokens/s|[KMGT]?FLOP/s|%|[KMG]iB)(?![\w/])")
KERNELS = re.compile(r"\b(?:avx512-bf16|avx512|avx2|neon|portable)\b")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def blocks(path):
    """[(commands, output or None, kind of the output)] of the page."""
    found = []
    for fence, kind, body in re.findall(r"^```(sh|text)( \w+)?\n(.*?)^```$", open(path).read(), re.M | re.S):
        if fence == "sh":
            found.append([body, None, ""])
        else:
            found[-1][1:] = [body, kind.strip()]
    return found


def pieces(line):
    """The words of a line with # for each number and ~ for each that may differ, and the numbers."""
    line = FREE.sub("~", KERNELS.sub("@", line))
    return NUMBER.sub("#", line).split(), NUMBER.findall(line)


def number_agrees(shown, printed, timing):
    if shown == printed or "." not in shown:
        return shown == printed or timing
    return abs(float(shown) - float(printed)) <= 0.05 * abs(float(shown)) + 1e-9


def line_agrees(shown, printed, timing):
    cut = shown.endswith(" ...")
    words, numbers = pieces(shown[:-4] if cut else shown)
    others, values = pieces(printed)
    if cut:
        others, values = others[:len(words)], values[:len(numbers)]
    if progress_fields(shown):
        return progress_agrees(shown, printed)
    timing = timing or "resumes after step" in shown           # where a signal stopped the run is not known beforehand
    return words == others and len(numbers) == len(values) and all(map(number_agrees, numbers, values, [timing] * len(numbers)))


def progress_fields(line):
    """[(name, number or None where any may be printed)] of a progress line in its order; None for any other line."""
    if not re.match(r"step \d+/\d+  ", line):
        return None
    fields = []
    for field in line.split("  "):
        free = FREE.search(field)
        name, number = (FREE.sub("~", field), None) if free else (NUMBER.sub("#", field), NUMBER.findall(field))
        fields.append((name, number))
    return fields


def progress_agrees(shown, printed):
    fields, others = progress_fields(shown), progress_fields(printed)
    if others is None or [name for name, _ in fields] != [name for name, _ in others]:
        return False
    for (name, numbers), (_, values) in zip(fields, others):
        loose = name in ("loss #", "grad #")
        if numbers != values and not (loose and number_agrees(numbers[0], values[0], False)):
            return False
    return True


def missing_lines(output, printed, kind):
    if output is None or kind == "sample":
        return []
    lines = printed.splitlines()
    shown = [line for line in output.splitlines() if line.strip() and line.strip() != "..."]
    return [s for s in shown if not any(line_agrees(s, line, kind == "timing") for line in lines)]


def prepare_convert(folder):
    """What the page says that it needs: small models of transformers and of megatron-core, and a text of Debian's."""
    golden = os.path.join(ROOT, "tests", "golden")
    shutil.copytree(os.path.join(golden, "hf", "llama"), os.path.join(folder, "llama"))
    with tarfile.open(os.path.join(golden, "convert", "megatron.tar.xz")) as tar:
        tar.extractall(os.path.join(folder, "unpacked"), filter="data")
    os.rename(os.path.join(folder, "unpacked", "llama_tp2_pp2_ep1_vp1", "torch_dist"), os.path.join(folder, "megatron-run"))
    shutil.rmtree(os.path.join(folder, "unpacked"))
    shutil.copy("/usr/share/common-licenses/GPL-3", os.path.join(folder, "corpus.txt"))


PREPARED = {"howto/convert.md": prepare_convert}


def run_all(page, prepare):
    """What each block printed, and the exit code of the last command in it that failed. One bash runs all, so that variables stay."""
    script = "set -o pipefail; trap 'failed=$?' ERR\n"
    script += "".join(f"failed=0\n{commands}printf '\\n@@ %d\\n' $failed\n" for commands, _, _ in page)
    with tempfile.TemporaryDirectory(prefix="jotun-test-") as folder:
        prepare(folder)
        environment = dict(os.environ, PATH=os.path.dirname(JOTUN) + ":" + os.environ["PATH"])
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=550)
    parts = re.split(r"^@@ (\d+)$", done.stdout, flags=re.M)
    return list(zip(parts[0::2], map(int, parts[1::2]))), parts[-1]


def main():
    texts = hashlib.sha256(b"".join(open(p, "rb").read() for p in sorted(glob.glob(TEXTS)))).hexdigest()
    if texts != TEXTS_SHA256:
        print(f"skipped: {TEXTS} are not those of Debian 12")
        return SKIP
    name = next((word for word in sys.argv[1:] if not word.startswith("--")), "tutorial.md")
    page = blocks(os.path.join(ROOT, "docs", name))
    results, rest = run_all(page, PREPARED.get(name, lambda folder: None))
    faults = 0
    for (commands, output, kind), (printed, code) in zip(page, results):
        if "--show" in sys.argv:
            print(f"$ {commands}{printed}[exit code {code}]\n")
        if code != 0 and not (code == 124 and "timeout " in commands):
            print(f"exit code {code}:\n{commands}{printed}")
            faults += 1
        for line in missing_lines(output, printed, kind):
            print(f"not printed: {line}\nby: {commands}{printed}")
            faults += 1
    if len(results) != len(page):
        print(f"the shell ended after {len(results)} of {len(page)} blocks: {rest}")
        faults += 1
    print(f"{len(page)} blocks of commands, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
