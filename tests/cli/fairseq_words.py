"""The commands of fairseq_commands.txt."""
import os
import re
import shlex

HERE = os.path.dirname(os.path.abspath(__file__))


def sections():
    found, name = {}, None
    for line in open(os.path.join(HERE, "fairseq_commands.txt")):
        if line.startswith("["):
            name = line.strip()[1:-1]
            found[name] = ""
        elif name and not line.startswith("#"):
            found[name] += line.rstrip().rstrip("\\") + " "
    return {name: shlex.split(text.strip().rstrip(";")) for name, text in found.items()}


COMMANDS = sections()


def words(name, *more, **places):
    """A command's words, with what stands for < > and $ put in."""
    put = lambda word: re.sub(r"<(\w+)>|\$(\w+)", lambda m: str(places[m[1] or m[2]]), word)
    return [put(w) for n in (name, *more) for w in COMMANDS[n]]
