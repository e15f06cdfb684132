"""A word that is added to a choice of options.def does not compile until each switch over that choice says what it means;
a choice of two words may be a comparison until it has a third."""
import glob
import os
import re
import subprocess
import sys
import tempfile

SOURCE = sys.argv[1]
COMPILER = sys.argv[2:]
FILES = [path for path in glob.glob(os.path.join(SOURCE, "src/cli/**/*.c"), recursive=True) if re.search("NO_SUCH_CHOICE|CHOICE_AS", open(path).read())]
# Passed on as a word, or a question of yes and no that one comparison answers.
NOT_SWITCHED = {"device", "optimizer", "on_error", "clean_format", "invalid_utf8", "decontaminate_by", "convert_from", "convert_to", "convert_type",
                "log_format", "sweep_loss", "format", "fp8_format", "muon_fp32_matmul_prec", "report_format"}


def main():
    text = ""
    with open(os.path.join(SOURCE, "src/conf/options.def")) as rows:
        for line in rows:                          # the rows of each group are in a file of their own
            group = re.match(r'#include "(conf/options/.*)"', line)
            text += open(os.path.join(SOURCE, "src", group[1])).read() if group else line
    choices = set(re.findall(r"^OPT_CHOICE\( *(\w+),", text, re.M))
    added = text
    for choice in choices:
        last = re.findall(rf"^CHOICE\( *{choice},.*\n", text, re.M)[-1]
        added = added.replace(last, last + f'CHOICE( {choice}, added, "added" )\n')
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "conf"))
        with open(os.path.join(folder, "conf/options.def"), "w") as out:
            out.write(added)
        told = ""
        for file in FILES:
            done = subprocess.run([*COMPILER, "-std=c17", "-D_GNU_SOURCE", "-Wall", "-Werror=switch", "-fsyntax-only", f"-I{folder}",
                                   f"-I{SOURCE}/src", file], capture_output=True, text=True)
            told += done.stderr
    two = {c for c in choices if len(re.findall(rf"^CHOICE\( *{c},", text, re.M)) == 2}         # one comparison answers; a third word makes it fail here
    missed = {c for c in choices if f"CHOICE_{c}_added" not in told} - two - NOT_SWITCHED
    if missed or "fatal error" in told:
        sys.exit(f"no switch asks for the meaning of a word added to {', '.join(sorted(missed))}:\n{told[:2000]}")
    print(f"{len(choices - NOT_SWITCHED)} choices refuse a word without a meaning")


main()
