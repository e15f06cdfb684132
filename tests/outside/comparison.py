"""What the comparisons of this folder share: packages and their versions, the program, a temporary folder, what differs. It is no
comparison itself."""
import importlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
JOTUN = os.environ.get("JOTUN", "build/release/bin/jotun")
TESTS = os.path.dirname(HERE)
failures = []
left_out = []
# those of oracles before files of this folder that have the same name, the others behind the standard library
sys.path[:] = [os.path.join(TESTS, "oracles"), *sys.path, os.path.join(TESTS, "cli"), os.path.join(TESTS, "logs")]


def version(module):
    top = module.split(".")[0]
    owners = importlib.metadata.packages_distributions().get(top, [top])
    return f"{owners[0]} {importlib.metadata.version(owners[0])}"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def without(why):
    """A part of a comparison is left out; the comparison then ends with 76, by which run.sh names it at its end."""
    print(f"without a part: {why}")
    left_out.append(why)


def packages(*names):
    """The modules, after a line with their versions; a comparison ends where one is missing."""
    try:
        modules  = [importlib.import_module(name) for name in names]
        versions = dict.fromkeys(map(version, names))           # a folder of the tests may have a package's name, and no version
    except ImportError as missing:
        skip(missing)
    print(", ".join(versions))
    if "transformers" in sys.modules:
        sys.modules["transformers"].logging.set_verbosity_error()
    return modules


def optional(name):
    """A module that a part of a comparison wants; None: it is missing."""
    try:
        module = importlib.import_module(name)
    except ImportError as missing:
        without(missing)
        return None
    print(version(name))
    return module


def run(*words):
    return subprocess.run([JOTUN, *map(str, words)], capture_output=True, encoding="utf-8", errors="replace")


def jotun_bytes(*words):
    """What it prints; the comparison ends where it fails."""
    done = subprocess.run([JOTUN, *map(str, words)], capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr.decode(errors='replace')}")
    return done.stdout


def jotun(*words):
    return jotun_bytes(*words).decode(errors="replace")


def check(name, what, good):
    if not good:
        failures.append(f"{name}: {what}")


def temporary():
    return tempfile.TemporaryDirectory()


def end():
    for line in failures:
        print("DIFFERS", line)
    for why in left_out:
        print(f"a part was left out: {why}")
    sys.exit(1 if failures else 76 if left_out else 0)
