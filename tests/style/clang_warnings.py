"""Every source file as clang reads it, a warning being an error; no code is made, which takes a fraction of the time of a build.
usage: clang_warnings.py BUILD, configured with clang and CMAKE_EXPORT_COMPILE_COMMANDS"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def warnings(entry):
    """What clang says of a file."""
    words = shlex.split(entry["command"])
    end = words.index("-o")
    done = subprocess.run(words[:end] + ["-fsyntax-only", entry["file"]], cwd=entry["directory"], stderr=subprocess.PIPE, text=True)
    return done.stderr or (f"{entry['file']}: exit code {done.returncode}" if done.returncode else "")


def main():
    entries = json.load(open(os.path.join(sys.argv[1], "compile_commands.json")))
    entries = [e for e in entries if os.path.exists(e["file"])]             # those that a build writes are tables of bytes
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        said = [text for text in pool.map(warnings, entries) if text]
    print("".join(said) + f"{len(entries)} files, {len(said)} with a warning")
    return 1 if said or not entries else 0


sys.exit(main())
