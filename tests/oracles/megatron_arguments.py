"""The list of Megatron-LM's arguments with how many values each takes, from a table of them:
   megatron_arguments.py TABLE > tests/conf/megatron_arguments.txt
A row of the table is | `--name / --other-name` | type | `default` | meaning |, as the parser of Megatron-LM says it; where a saved argument
has another name than the option, the meaning begins with [dest 'name'], but for those that are made of a field of a dataclass."""
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


# Fields whose flag is not no-FIELD or disable-FIELD.
FIELDS = {"no-initialization": "perform_initialization", "disable-bias-linear": "add_bias_linear", "disable-mamba-mem-eff-path": "use_mamba_mem_eff_path",
          "no-barrier-with-level-1-timing": "barrier_with_L1_time", "disable-gloo-process-groups": "enable_gloo_process_groups"}


def saved_as(name, text, line):
    """What the argument is called in a checkpoint."""
    given = re.search(r"\[dest '(\w+)'\]", line)
    if given:
        return given.group(1)
    turned = text == "store_false" and re.match(r"(no|disable)-", name)
    return FIELDS.get(name) or (name[turned.end():] if turned else name).replace("-", "_")


def default(text):
    text = re.sub(r"\s+", "", text.strip("`").replace(" (dest)", "")).strip("'")
    return "[]" if text.startswith("field(") else text or "''"


print("# Arguments of Megatron-LM's pretrain_gpt.py, revision d98e8a64 of August 2026: name, kind, number of values, a value, its default, and what it is")
print("# called in a checkpoint.")
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
        saved = saved_as(cells[0].strip("`").split(" / ")[0][2:], cells[1], line)
        print(name[2:], kind, values, sample, default(cells[2]), saved)
        if kind == "either":
            print("no-" + name[2:], kind, values, sample, default(cells[2]), saved)
print(f"# {rows} rows")
