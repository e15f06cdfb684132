"""Man pages of the binary's help, where help2man is there, and bash completion: every option of a command is in its page, pages
render without a warning, completion offers options, choices and file names, and all of it is installed."""
import os
import re
import subprocess
import sys

import run

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
COMPLETION = os.path.join(ROOT, "cmake", "completion.bash")
faults = []


def text_of(*words):
    return run.jotun(*words).stdout


def options_of(command):
    """All names of options in the help of a command."""
    names = []
    for line in re.findall(r"^  (--.*)$", text_of(*command.split(), "--help"), re.M):
        names += re.findall(r"^--[a-z0-9_-]+|(?<=, )--[a-z0-9_-]+", line)
    return names


def commands():
    listed = text_of("--help").split("exit code")[0]
    return [c.strip() for c in re.findall(r"^  ([a-z]+(?:-[a-z]+)*(?: [a-z]+)?)(?:  |$)", listed, re.M)]


def rendered(page):
    """Plain text of a page by groff, where that is present, else None."""
    if not run.have("groff"):
        return None
    done = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-c", page], capture_output=True, text=True)
    if done.returncode or done.stderr:
        faults.append(f"groff {page}: {done.stderr}")
    return re.sub(".\b", "", done.stdout)


def pages(folder):
    found = commands()
    if len(found) < 15:
        sys.exit(f"only these commands: {found}")
    if not run.have("help2man"):
        print("no man pages: there is no help2man")
        return
    made = subprocess.run(["sh", os.path.join(ROOT, "cmake", "man_pages.sh"), os.path.abspath(run.JOTUN), folder, "help2man"], capture_output=True, text=True)
    if made.returncode or made.stderr:
        faults.append(f"man_pages.sh: {made.stderr}")
    wanted = {"jotun.1"} | {f"jotun-{c.replace(' ', '-')}.1" for c in found}
    if set(os.listdir(folder)) != wanted:
        faults.append(f"pages: {sorted(os.listdir(folder))}, wanted {sorted(wanted)}")
    for command in found:
        page = os.path.join(folder, f"jotun-{command.replace(' ', '-')}.1")
        source = open(page).read()
        plain = rendered(page)
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION"):
            if f"\n.SH {section}\n" not in source:
                faults.append(f"{page} has no section {section}")
        for option in options_of(command):
            if "\\fB" + option.replace("-", "\\-") + "\\fR" not in source or (plain is not None and option not in re.sub(r"\s+", "", plain)):      # a long name may be broken
                faults.append(f"{option} is not in {page}")
    whole = open(os.path.join(folder, "jotun.1")).read()
    for command in found:
        if f"\n{command}\n".replace("-", "\\-") not in whole:
            faults.append(f"{command} is not in jotun.1")
    rendered(os.path.join(folder, "jotun.1"))


def completed(folder, *words):
    """What bash offers where the cursor is behind the last of these words."""
    script = "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _jotun; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", script, COMPLETION, os.path.abspath(run.JOTUN), *words], cwd=folder, capture_output=True, text=True)
    if done.returncode or done.stderr:
        faults.append(f"completing {words}: {done.stderr}")
    return sorted(done.stdout.split())


def offers(folder, wanted, *words):
    found = completed(folder, *words)
    if found != sorted(wanted):
        faults.append(f"jotun {' '.join(words)}<TAB> offers {found}, wanted {sorted(wanted)}")


def completion(folder):
    open(os.path.join(folder, "data one.bin"), "w").close()
    os.mkdir(os.path.join(folder, "runs"))
    offers(folder, ["train"], "tra")
    offers(folder, ["encode"], "tokenizer", "enc")
    offers(folder, ["--tensor-model-parallel-size"], "train", "--tensor-")
    offers(folder, ["--vocab-size"], "tokenizer", "train", "--voc")
    offers(folder, ["LayerNorm", "RMSNorm"], "train", "--normalization", "")
    offers(folder, ["LayerNorm"], "train", "--normalization", "=", "Lay")
    offers(folder, ["text", "u16", "i32"], "tokenizer", "encode", "--format", "")
    offers(folder, ["txt", "jsonl"], "clean", "--format", "=")
    offers(folder, ["gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1.5b"], "train", "--model", "gpt2")
    offers(folder, ["runs"], "train", "--save", "r")
    offers(folder, ["data", "one.bin"], "train", "--data-path", "1", "da")
    offers(folder, [], "train", "--num-layers", "")
    offers(folder, ["--num-layers", "--num-layers-at-end-in-bf16", "--num-layers-at-start-in-bf16", "--num-layers-per-virtual-pipeline-stage"], "train", "--swiglu", "--num-lay")
    offers(folder, ["runs"], "data", "info", "ru")
    offers(folder, ["--from-megatron"], "config", "--from-m")
    offers(folder, ["--lr-warmup-fraction", "--lr-warmup-init", "--lr-warmup-iters", "--lr-warmup-samples", "--lr-warmup-style"], "sweep", "--lr-warm")
    for command in commands():
        listed, offered = set(options_of(command)) | {"--help"}, set(completed(folder, *command.split(), "--"))
        beyond = {"--from-megatron", "--from-nemo", "--deepspeed-config"} | (set(options_of("train")) if command == "sweep" else set())
        if not listed <= offered <= listed | beyond:
            faults.append(f"jotun {command} --<TAB> does not offer what its help lists: without {listed - offered}, with {offered - listed - beyond}")


def installed(folder):
    """By CMake into a prefix of its own, where the build folder of the binary is known and has been built whole."""
    build = os.path.dirname(os.path.dirname(os.path.abspath(run.JOTUN)))
    if not os.path.exists(os.path.join(build, "share", "written")) or not run.have("cmake"):
        print(f"not installed: {build} has no man pages, or there is no cmake")
        return
    done = subprocess.run(["cmake", "--install", build, "--prefix", folder], capture_output=True, text=True)
    if done.returncode:
        faults.append(done.stderr)
    for path in ("bin/jotun", "share/man/man1/jotun.1", "share/man/man1/jotun-tokenizer-encode.1", "share/bash-completion/completions/jotun"):
        if not os.path.exists(os.path.join(folder, path)):
            faults.append(f"{path} is not installed")
    links(build, folder)


def links(build, folder):
    """The names of fairseq's commands, which JOTUN_FAIRSEQ_LINKS installs with the rest: each is that command."""
    names = ["fairseq-train", "fairseq-eval-lm", "fairseq-preprocess", "fairseq-bpe-encoder", "fairseq-detok"]
    asked_for = "JOTUN_FAIRSEQ_LINKS:BOOL=ON" in open(os.path.join(build, "CMakeCache.txt")).read()
    if os.path.lexists(os.path.join(folder, "bin", names[0])) != asked_for:
        faults.append("links are installed only where JOTUN_FAIRSEQ_LINKS asks for them")
    done = subprocess.run(["cmake", "--install", build, "--prefix", folder, "--component", "fairseq-links"], capture_output=True, text=True)
    if done.returncode:
        faults.append(done.stderr)
    for name in names:
        path = os.path.join(folder, "bin", name)
        said = os.path.islink(path) and subprocess.run([path, "--help"], capture_output=True, text=True).stdout
        if not said or not said.startswith(f"Usage: jotun {name} "):
            faults.append(f"{name} --help by its link says {said[:100] if said else said!r}")


def main():
    for part in (pages, completion, installed):
        with run.work_folder() as folder:
            part(folder)
    print("\n".join(faults) or "as wanted")
    return bool(faults)


sys.exit(main())
