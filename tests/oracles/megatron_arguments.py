"""The list of Megatron-LM's arguments with how many values each takes, from a table of them:
   megatron_arguments.py TABLE > tests/conf/megatron_arguments.txt
A row of the table is | `--name / --other-name` | type | `default` | meaning |, as the parser of Megatron-LM says it."""
import re
import sys


def kind_of(text):
    many = re.search(r"nargs='([+*])'", text)
    choices = re.search(r"Literal\['?([^',\]]*)", text) or re.search(r"\['?([^',\]]*)", text)
    base = re.sub(r"\[.*|nargs=\S+| / None", "", text).strip()
    inner = re.search(r"\[(int|float|str|bool)\]", text)
    if text.startswith("Optional") and inner:
        base, choices = inner.group(1), None
    if base in ("flag", "store_false"):
        return base, "0", "-"
    if "BooleanOptionalAction" in base:
        return "either", "0", "-"
    if text.startswith("list") or text.startswith("Optional[list"):
        return "text", "+", "1" if "int" in text else "x"
    if choices:
        return "choice", many.group(1) if many else "1", choices.group(1)
    kind = {"int": "int", "float": "float"}.get(base, "text")
    sample = "true" if base == "bool" else {"int": "1", "float": "0.5", "text": "x"}[kind]       # type=bool takes a value there
    return kind, many.group(1) if many else "1", sample


print("# Arguments of Megatron-LM's pretrain_gpt.py, revision d98e8a64 of August 2026: name, kind, number of values, a value.")
print("# kind: flag; store_false, a flag that turns something off; either, a flag with a --no- form; int, float, text, choice. One row of")
print("# the parser may have several names, in several lines. Written by tests/oracles/megatron_arguments.py.")
rows = 0
for line in open(sys.argv[1]):
    if not line.startswith("| `--"):
        continue
    rows += 1
    cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
    kind, values, sample = kind_of(cells[1])
    for name in cells[0].strip("`").split(" / "):
        print(name[2:], kind, values, sample)
        if kind == "either":
            print("no-" + name[2:], kind, values, sample)
print(f"# {rows} rows")
