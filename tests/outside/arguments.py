#!/usr/bin/env python3
"""Which options of Megatron-LM and its forks jotun has no answer for:

    arguments.py [--list KIND] FILE|FOLDER...

FILE is an arguments.py of one version; FOLDER has one, and the dataclasses that newer versions make options of. Names, types and defaults are
read from Python's syntax tree, nothing is imported. Each name is given to `jotun config --from-megatron` with a value of its type, and the
answer is counted: taken (or converted), ignored with a reason, refused with a reason, unknown. Exits 1 where one is unknown, or where
words that belong to an option are read as something else. --list prints the names of that kind with what jotun says.
"""
import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile

JOTUN = os.environ.get("JOTUN", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release/bin/jotun"))
REQUIRED = ["--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", "--seq-length", "64",
            "--max-position-embeddings", "64", "--micro-batch-size", "1", "--lr", "1e-4", "--train-iters", "10", "--data-path", "tokens"]
KINDS = "taken", "ignored", "refused", "unknown"


class Argument:
    """One option: its names, how many values follow it ("0", "1", "+"), a value of its type, its default as text, its dest."""

    def __init__(self, names, values, sample, default, dest):
        self.names, self.values, self.sample, self.default, self.dest = names, values, sample, default, dest


def constant(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def sample_of(kind, choices):
    if choices:
        return str(choices[0])
    return {"int": "1", "float": "0.5", "str": "x"}.get(kind, "1" if kind else "x")


def of_call(node):
    """An Argument of a call of add_argument; None where it has no option name."""
    names = [a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith("--")]
    words = {k.arg: k.value for k in node.keywords}
    action = constant(words["action"]) if "action" in words else "store"
    kind = ast.unparse(words["type"]) if "type" in words else ""
    choices = constant(words["choices"]) if "choices" in words else None
    nargs = constant(words["nargs"]) if "nargs" in words else None
    if "BooleanOptional" in str(action):
        names += ["--no-" + n[2:] for n in list(names)]
    values = "0" if str(action) != "store" else "+" if nargs in ("+", "*") or isinstance(nargs, int) else "1"
    default = constant(words["default"]) if "default" in words else action == "store_false" if values == "0" else None
    dest = constant(words["dest"]) if "dest" in words else names[0][2:].replace("-", "_") if names else ""
    listed = choices if isinstance(choices, (list, tuple)) else None
    return Argument([n[2:] for n in names], values, sample_of(kind, listed), default, dest) if names else None


def classes_of(folder):
    """All classes below a folder by name."""
    found = {}
    for where, _, files in os.walk(folder):
        for file in files:
            if not file.endswith(".py"):
                continue
            with open(os.path.join(where, file), errors="replace") as source:
                text = source.read()
            if "@dataclass" not in text and "BaseModel" not in text:
                continue
            try:
                tree = ast.parse(text)
            except SyntaxError:
                continue
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, node)
    return found


def fields_of(name, classes):
    """Annotated fields of a class and of those that it derives from."""
    node = classes.get(name)
    if not node:
        return []
    fields = [f for base in node.bases for f in fields_of(ast.unparse(base).split(".")[-1], classes)]
    own = [f for f in node.body if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)]
    return [f for f in fields if f.target.id not in {o.target.id for o in own}] + own


def of_field(field):
    """The Argument that Megatron-LM's ArgumentGroupFactory makes of a field."""
    kind, name, default, meta = ast.unparse(field.annotation), field.target.id, field.value, None
    if isinstance(default, ast.Call):
        words = {k.arg: k.value for k in default.keywords}
        default, meta = words.get("default", words.get("default_factory")), words.get("metadata")
        if "init" in words and constant(words["init"]) is False:
            return None
    value = constant(default) if default else None
    inner = re.sub(r"^Optional\[(.*)\]$", r"\1", kind).replace(" | None", "")
    listed = re.match(r"(?i)list\[(.*)\]$", inner)
    literal = re.match(r"Literal\[(.*)\]$", inner)
    choices = ast.literal_eval("[" + literal.group(1) + "]") if literal else None
    argument = Argument([name.replace("_", "-")], "+" if listed else "1", sample_of(listed.group(1) if listed else inner, choices), value, name)
    if inner == "bool":
        argument.values = "0"
        if value is not False:
            argument.names = ["no-" + argument.names[0], "disable-" + argument.names[0]]
    if meta:
        text = ast.unparse(meta)
        names = re.search(r"'arg_names': \[([^\]]*)\]", text)
        if names:
            argument.names = [n.strip(" '\"")[2:] for n in names.group(1).split(",")]
        if "'nargs'" in text:
            argument.values = "+"
        if "BooleanOptionalAction" in text:
            argument.values, argument.names = "0", argument.names + ["no-" + n for n in argument.names]
        elif re.search(r"'action': '?store_", text):
            argument.values = "0"
        elif re.search(r"'type': (int|float|str)", text):
            argument.values, argument.sample = argument.values if listed else "1", sample_of(re.search(r"'type': (\w+)", text).group(1), choices)
    return argument


def arguments_of(path):
    """All options of a version, each name once: a list of Argument."""
    folder = path if os.path.isdir(path) else None
    files = [path]
    if folder:
        kept = ["arguments.py", "megatron/training/arguments.py", "megatron/arguments.py"]
        files = [os.path.join(folder, f) for f in kept if os.path.exists(os.path.join(folder, f))][:1]
    found, tree_classes = [], None
    for file in files:
        with open(file) as source:
            tree = ast.parse(source.read())
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "add_argument":
                found.append(of_call(node))
            elif called.endswith("ArgumentGroupFactory") and folder:
                tree_classes = tree_classes or classes_of(folder)
                excluded = [constant(k.value) for k in node.keywords if k.arg == "exclude"]
                excluded = excluded[0] if excluded and isinstance(excluded[0], list) else excluded_names(tree, node)
                for field in fields_of(ast.unparse(node.args[0]), tree_classes):
                    if field.target.id not in excluded:
                        found.append(of_field(field))
    seen, kept = set(), []
    for argument in found:
        if argument and not set(argument.names) <= seen:
            kept.append(argument)
            seen.update(argument.names)
    return kept


def excluded_names(tree, call):
    """`exclude = [...]` beside the call, where it is a name."""
    lists = [constant(n.value) for n in ast.walk(tree) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "exclude"
             and any(k.arg == "exclude" for k in call.keywords)]
    return lists[0] if lists and isinstance(lists[0], list) else []


ANSWERS = {}


def ask(name, argument, folder):
    """What jotun makes of one name beside what every script has: (kind, what it says)"""
    words = ["--" + name] + [argument.sample] * {"0": 0, "1": 1, "+": 2}[argument.values]
    if tuple(words) not in ANSWERS:
        path = os.path.join(folder, "list.args")
        with open(path, "w") as out:
            print(*REQUIRED, file=out)
            print(*words, file=out)
        ran = subprocess.run([JOTUN, "config", "--from-megatron", path], capture_output=True, text=True)
        lines = [m.group(1) for m in re.finditer(r"list\.args:2: (.*)", ran.stdout or ran.stderr)]
        ANSWERS[tuple(words)] = judged(ran.returncode, lines or ran.stderr.splitlines())
    return ANSWERS[tuple(words)]


def judged(failed, lines):
    text = " | ".join(lines)
    if not failed:
        return ("ignored" if "is ignored" in text else "taken"), text
    # These speak of words, not of the option: it was read as one with another number of values
    arity = re.search(r"no positional argument|takes no value|needs a value|neither true nor false", text)
    unknown = "did you mean" in text or "its --help lists them" in text or re.search(r"is no option of jotun \w+$", text)
    return ("unknown" if arity or unknown else "refused"), text


def main(folder):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="append", choices=KINDS, default=[])
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args()
    if not given.paths:
        print("no arguments.py is given")
        return 77
    unknown = {}
    print(f"{'version':44} {'names':>6}" + "".join(f"{k:>9}" for k in KINDS))
    for path in given.paths:
        answers = {name: ask(name, a, folder) for a in arguments_of(path) for name in a.names}
        count = {k: sum(a[0] == k for a in answers.values()) for k in KINDS}
        print(f"{os.path.basename(os.path.normpath(path)):44.44} {len(answers):6}" + "".join(f"{count[k]:9}" for k in KINDS))
        for name, (kind, text) in answers.items():
            if kind == "unknown":
                unknown.setdefault(name, (text, []))[1].append(os.path.basename(os.path.normpath(path)))
            if kind in given.list:
                print(f"    {kind} --{name}: {text}")
    for name, (text, where) in sorted(unknown.items()):
        print(f"--{name}: {text}\n    in {len(where)}: {', '.join(where[:4])}")
    print(f"{len(unknown)} names without an answer")
    return bool(unknown)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(main(scratch))
