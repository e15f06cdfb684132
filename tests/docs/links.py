"""README, CONTRIBUTING, ARCHITECTURE and docs/*.md against the tree: links.py ROOT

- every relative link resolves, and the heading it names exists;
- every source path between backticks exists, from the root or from src/, with * and {a,b} as in a shell; so does every path
  below bench/ and tests/ in a command;
- every name with an underscore between backticks occurs in src, tests or bench; in a row of ARCHITECTURE's tables every name
  between backticks occurs in one of the row's files, and a (column `name`) is in the legend of one;
- every test between backticks (`train.layout_test`) is in the tree;
- a default in a section Defaults is that of docs/options.md;
- every option (`--name`) is jotun's, another trainer's that jotun knows, or one of the tools below.
"""
import glob
import os
import re
import sys

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
SOURCE = ("c", "h", "def", "py", "sh", "cu", "cpp", "cmake")
# options of ./check, cmake, ctest, mpirun, srun, torchrun, diff, Megatron-LM's tools
OTHERS = set("""full help version preset build install prefix test-dir exclude ntasks-per-node output-on-failure foreground ntasks nodes cpus-per-task mpi time host
    hostfile mca bind-to oversubscribe only double ranks long show signal job-name output kill-on-bad-exit wait requeue append rdzv-backend rdzv-endpoint rdzv-id no-python max-restarts dist-ckpt-optim-fully-reshardable""".split())
OUTSIDE = {"merge_datasets.py", "preprocess_data.py", "pretrain_gpt.py", "tools/preprocess_data.py",
           "add_bos_token", "P_a_document", "P_b_document"}       # Megatron-LM's and Hugging Face's; examples
problems = []


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def files_below(*folders):
    return [os.path.join(at, name) for folder in folders for at, _, names in os.walk(os.path.join(ROOT, folder)) for name in names]


def without_fences(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors(text):
    """GitHub's names of the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", without_fences(text), re.M)
    return {re.sub(r"[^\w\- ]", "", h.replace("`", "").lower()).strip().replace(" ", "-") for h in heads}


def check_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_fences(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(full):
            problems.append(f"{page}: the link {target} leads nowhere")
        elif anchor and anchor not in anchors(read(full)):
            problems.append(f"{page}: {path or 'this page'} has no heading #{anchor}")


def expand(path):
    """`a/{b,c}.h` as a/b.h and a/c.h"""
    brace = re.match(r"(.*)\{([^}]*)\}(.*)$", path)
    return [brace[1] + part + brace[3] for part in brace[2].split(",")] if brace else [path]


def found(path):
    """Files of the tree that the path names: from the root, from src, or a bare name anywhere in src, tests or bench."""
    hits = glob.glob(os.path.join(ROOT, path)) + glob.glob(os.path.join(ROOT, "src", path))
    if not hits and "/" not in path:
        hits = [f for f in TREE if os.path.basename(f) == path]
    return hits


def is_source_path(word):
    if re.fullmatch(r"[\w./*{},-]+\.(?:%s)" % "|".join(SOURCE), word):
        return True
    head = word.split("/")[0]
    return bool(re.fullmatch(r"[\w./*-]+/", word)) and any(os.path.isdir(os.path.join(ROOT, d, head)) for d in ("", "src"))


def check_paths(page, text):
    words = [w for span in re.findall(r"`([^`\n]+)`", without_fences(text)) for w in span.split() if is_source_path(w)]
    words += re.findall(r"(?<![\w/.])(?:bench|tests|cmake)/[\w./-]+\.(?:%s)\b" % "|".join(SOURCE), text)
    for word in words:
        for path in expand(word):
            if not found(path) and path not in OUTSIDE:
                problems.append(f"{page}: there is no {path}")


def names_of(text):
    return [n for span in re.findall(r"`([^`\n]+)`", text) for n in re.findall(r"^([A-Za-z]\w*_\w+)(?:\(\))?$", span)]


def check_names(page, text):
    for name in names_of(without_fences(text)):
        if name not in WORDS | OUTSIDE:
            problems.append(f"{page}: no file of src, tests or bench says {name}")


def check_rows(page, text):
    """A row | topic | files | names |: each name is in one of its files, or in a header beside one; a column is in a legend."""
    for row in re.findall(r"^\|(.*)\|$", without_fences(text), re.M):
        cells = row.split("|")
        if len(cells) != 3:
            continue
        files = [f for w in re.findall(r"`([^`]+)`", cells[1]) if is_source_path(w) for p in expand(w) for f in found(p)]
        files = [f for f in files if os.path.isfile(f)]
        files += [f for c in files for f in glob.glob(re.sub(r"\.c$", ".h", c))]
        said = " ".join(map(read, files))
        for name in re.findall(r"`(\w+)`", cells[1] + cells[2]):
            if files and not re.search(r"\b%s\b" % name, said):
                problems.append(f"{page}: {name} is not in {cells[1].strip()}")
        for name in re.findall(r"column `(\w+)`", cells[1]):
            if not re.search(r"^ \* %s  +\w" % name, said, re.M):
                problems.append(f"{page}: {cells[1].strip()} has no column {name}")


def check_tests(page, text):
    modules = "|".join(os.path.basename(d) for d in glob.glob(os.path.join(ROOT, "tests", "*")) if os.path.isdir(d))
    for module, noun in re.findall(r"`(%s)\.(\w+)`" % modules, text):
        if noun in SOURCE + ("md", "txt", "json", "jsonl", "html"):
            continue
        here = glob.glob(os.path.join(ROOT, "tests", module, noun + ".*")) or f"NAME {module}.{noun}" in CMAKE
        if not here:
            problems.append(f"{page}: there is no test {module}.{noun}")


def check_options(page, text):
    for name in re.findall(r"(?<![\w-])--([a-z]\w*(?:-\w+)*)", text):
        if name not in OTHERS and name not in NAMES and f"--{name}" not in OPTIONS:
            problems.append(f"{page}: no option is called --{name}")


def check_defaults(page, text):
    """`--name value` in the section Defaults of a page: value is the default that options.md has. N, DIR and so on are no values."""
    section = re.search(r"^## Defaults\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    for name, value in re.findall(r"--([a-z][\w-]*) ([^\s`|-][^\s`|]*)(?=[ `])", " ".join(re.findall(r"`--[^`]*`", section[1] if section else ""))):
        if not re.fullmatch("[A-Z.]+", value) and value not in DEFAULTS.get(name, ()):
            problems.append(f"{page}: the default of --{name} is {' or '.join(sorted(DEFAULTS.get(name, ())))}, not {value}")


TREE = files_below("src", "tests", "bench", "cmake")
SOURCES = [f for f in TREE if f.endswith(SOURCE) and not f.endswith("links.py")]
WORDS = set(re.findall(r"\w+", " ".join(map(read, SOURCES))))
CMAKE = " ".join(read(f) for f in TREE if f.endswith((".cmake", "CMakeLists.txt")))
OPTIONS = " ".join(read(f) for f in files_below("src/conf", "src/compat", "src/cli", "src/base/generation"))
NAMES = {name for names in re.findall(r'"([\w*-]+(?: [\w*-]+)*)"', OPTIONS) for name in names.split()}        # a row may have several
DEFAULTS = {}
for NAME, DEFAULT in re.findall(r"^\| `--([\w-]+)`[^|]* \|(?: (?:[^|\\]|\\.)*\|) ([^|]*) \|", read(os.path.join(ROOT, "docs/options.md")), re.M):
    DEFAULTS.setdefault(NAME, set()).add(DEFAULT.strip())
PAGES = [os.path.join(ROOT, p) for p in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
PAGES += [f for f in files_below("docs") if f.endswith(".md") and not f.endswith("options.md")]

for PAGE in PAGES:
    TEXT = read(PAGE)
    for check in (check_links, check_paths, check_names, check_tests, check_options, check_defaults):
        check(PAGE, TEXT)
    if PAGE.endswith("ARCHITECTURE.md"):
        check_rows(PAGE, TEXT)
for problem in problems:
    print(problem.replace(ROOT + "/", ""))
print(f"{len(PAGES)} pages, {len(problems)} problems")
sys.exit(1 if problems else 0)
