"""Circles of includes, with each .c file's includes counted as its header's: file A depends on B where A.c or A.h includes B.h.
Prints each knot, which is a strongly connected component of two files or more; fails above the limits.
usage: knots.py ROOT [KNOTS FILES [FOLDER]]      at most so many knots, of at most so many files; only those within src/FOLDER"""
import os
import re
import sys

KNOTS, FILES = 4, 3


def dependencies(source):
    """{"corpus/lines": {"corpus/stream", ...}}: x.c, x.h and x.cu are one file "x"; rows in a .def depend on nothing."""
    needs = {}
    for folder, _, names in os.walk(source):
        for name in names:
            stem, ending = os.path.splitext(os.path.join(folder, name)[len(source) + 1:])
            if ending not in (".c", ".h", ".cu", ".cpp"):
                continue
            text = open(os.path.join(folder, name), encoding="utf-8").read()
            found = re.findall(r'^ *# *include *"([^"]+\.h)"', text, re.MULTILINE)
            needs.setdefault(stem, set()).update(os.path.splitext(include)[0] for include in found)
    return {stem: {need for need in wanted if need in needs and need != stem} for stem, wanted in needs.items()}


def components(needs):
    """Kosaraju: the order in which a walk leaves the files, then walks against the arrows in the reverse of that order."""
    order, seen, against = [], set(), {stem: set() for stem in needs}
    for stem, wanted in needs.items():
        for need in wanted:
            against[need].add(stem)

    def walk(start, arrows, left):
        stack = [(start, iter(sorted(arrows[start])))]
        seen.add(start)
        while stack:
            stem, rest = stack[-1]
            new = next((need for need in rest if need not in seen), None)
            if new is None:
                left.append(stem)
                stack.pop()
            else:
                seen.add(new)
                stack.append((new, iter(sorted(arrows[new]))))

    for stem in sorted(needs):
        if stem not in seen:
            walk(stem, needs, order)
    seen.clear()
    found = []
    for stem in reversed(order):
        if stem not in seen:
            found.append([])
            walk(stem, against, found[-1])
    return found


def main():
    root, limits = sys.argv[1], [int(word) for word in sys.argv[2:4]] or [KNOTS, FILES]
    within = sys.argv[4] + "/" if len(sys.argv) > 4 else ""
    needs = dependencies(os.path.join(root, "src"))
    if not any(needs.values()):
        sys.exit("no includes in src: nothing was looked at")
    knots = sorted((sorted(knot) for knot in components(needs) if len(knot) > 1), key=len, reverse=True)
    knots = [knot for knot in knots if any(stem.startswith(within) for stem in knot)]
    for knot in knots:
        print(f"a circle of includes of {len(knot)} files:")
        for stem in knot:
            print(f"    {stem} -> {', '.join(sorted(needs[stem] & set(knot)))}")
    if len(knots) > limits[0] or any(len(knot) > limits[1] for knot in knots):
        sys.exit(f"{len(knots)} knots; at most {limits[0]} of at most {limits[1]} files each."
                 " Move what both need into a file below them")
    print(f"{len(needs)} files, {len(knots)} knots")


main()
