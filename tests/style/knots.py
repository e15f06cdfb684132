"""Circles of .c files by the symbols that they use: file A depends on B where A's object file refers to a function or a variable that B
defines. A table of functions is a variable, so whoever uses it depends on all its rows. Headers do not count: what matters is which code has
to be read together. Prints each circle, which is a strongly connected component of two files or more. Fails where one in a bounded folder
has more files than its bound.
usage: knots.py BUILD [FOLDER FILES]...      BUILD: a folder that CMake built in; at most FILES files a circle within src/FOLDER"""
import os
import subprocess
import sys


def source_of(path):
    return path.split("/src/", 1)[1][:-len(".o")]


def object_files(build):
    """Paths of all object files of src: .../CMakeFiles/module_conf.dir/src/conf/parse.c.o. A build that was made before has objects of
    sources that are gone; they do not count."""
    found = []
    for folder, _, names in os.walk(os.path.join(build, "CMakeFiles")):
        if "/src/" in folder + "/":
            found += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".c.o")]
    cache = os.path.join(build, "CMakeCache.txt")
    homes = [line.split("=", 1)[1].strip() for line in open(cache) if line.startswith("CMAKE_HOME_DIRECTORY")] if os.path.exists(cache) else []
    return [path for path in found if not homes or os.path.exists(os.path.join(homes[0], "src", source_of(path)))]


def dependencies(objects):
    """{"conf/parse.c": {"conf/value.c": {"options_set", ...}}}. A symbol with two definitions, as of a back end that one program has and
    another has not, belongs to no file."""
    table = subprocess.run(["nm", "-A", "-P", *objects], capture_output=True, text=True, check=True).stdout
    wanted, defined = {}, {}
    for line in table.splitlines():
        path, words = line.rsplit(": ", 1)
        source = source_of(path)
        name, kind = words.split()[:2]
        if kind == "U":
            wanted.setdefault(source, set()).add(name)
        elif kind.isupper():                                      # a small letter is static
            defined.setdefault(name, set()).add(source)
    needs = {source: {} for source in set(wanted) | {source for sources in defined.values() for source in sources}}
    for source, names in wanted.items():
        for name in names:
            owners = defined.get(name, ())
            for owner in owners if len(owners) == 1 else ():
                if owner != source:
                    needs[source].setdefault(owner, set()).add(name)
    return needs


def components(needs):
    """Kosaraju: the order in which a walk leaves the files, then walks against the arrows in the reverse of that order."""
    order, seen, against = [], set(), {source: set() for source in needs}
    for source, wanted in needs.items():
        for need in wanted:
            against[need].add(source)

    def walk(start, arrows, left):
        stack = [(start, iter(sorted(arrows[start])))]
        seen.add(start)
        while stack:
            source, rest = stack[-1]
            new = next((need for need in rest if need not in seen), None)
            if new is None:
                left.append(source)
                stack.pop()
            else:
                seen.add(new)
                stack.append((new, iter(sorted(arrows[new]))))

    for source in sorted(needs):
        if source not in seen:
            walk(source, needs, order)
    seen.clear()
    found = []
    for source in reversed(order):
        if source not in seen:
            found.append([])
            walk(source, against, found[-1])
    return found


def show(circle, needs):
    print(f"a circle of {len(circle)} files:")
    for source in circle:
        uses = [f"{need} ({', '.join(sorted(needs[source][need])[:3])})" for need in sorted(needs[source]) if need in circle]
        print(f"    {source} -> {', '.join(uses)}")


def main():
    build, bounds = sys.argv[1], dict(zip(sys.argv[2::2], map(int, sys.argv[3::2])))
    objects = object_files(build)
    if not objects:
        sys.exit(f"{build}: no object files of src: nothing was looked at")
    needs = dependencies(objects)
    circles = sorted((sorted(circle) for circle in components(needs) if len(circle) > 1), key=lambda c: (-len(c), c))
    bad = []
    for circle in circles:
        show(circle, needs)
        bad += [f"src/{folder}: a circle of {len(circle)} files; {files} is the bound. Move what both need into a file below them"
                for folder, files in bounds.items() if len(circle) > files and any(source.startswith(folder + "/") for source in circle)]
    print(f"{len(needs)} files, {len(circles)} circles")
    if bad:
        sys.exit("\n".join(bad))


main()
