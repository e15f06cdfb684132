"""A checkpoint whose options have the words of an earlier version is read: it resumes with the same losses as the one with today's words."""
import ctypes
import glob
import json
import os
import shutil
import sys

import run

OLD = {"data-order": "megatron-deepspeed", "lr-schedule-rule": "deepspeed", "wandb-names": "argonne", "log-format": "fairseq"}
NOW = {"data-order": "megatron-forks", "lr-schedule-rule": "delayed"}
DROPPED = {"agpt-variables": "MICRO_BATCH=1"}                   # an option that is no more


class Number(float):
    """A number of a manifest as it is written there."""
    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number


def checksum(manifest):
    """XXH3 of the compact text with sorted keys, as docs/formats.md says."""
    written = {}

    def marked(value):
        if isinstance(value, Number):
            written[f"\"@{len(written)}@\""] = value.text
            return f"@{len(written) - 1}@"
        if isinstance(value, dict):
            return {name: marked(inner) for name, inner in value.items()}
        return [marked(inner) for inner in value] if isinstance(value, list) else value

    text = json.dumps(marked({name: value for name, value in manifest.items() if name != "checksum"}), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for mark, number in written.items():
        text = text.replace(mark, number)
    hashes = ctypes.CDLL("libxxhash.so.0")
    hashes.XXH3_64bits.restype = ctypes.c_uint64
    data = text.encode()
    return f"{hashes.XXH3_64bits(data, ctypes.c_size_t(len(data))):016x}"


def rewritten(path, words):
    """The manifest with other words in its options; refuses to go on where the file's own checksum is not the one computed here."""
    manifest = json.load(open(path), parse_float=Number)
    if checksum(manifest) != manifest["checksum"]:
        sys.exit(f"{path}: the checksum computed here is not the file's {manifest['checksum']}")
    manifest["options"].update(words)
    manifest["checksum"] = checksum(manifest)
    json.dump(manifest, open(path, "w"), indent=1, ensure_ascii=False)


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        new, old, wrong = (os.path.join(folder, name) for name in ("new", "old", "wrong"))
        words = ["train", "--data-path", data, *run.MODEL, "--vocab-size", 300, "--tokenizer", "bytes", "--lr-warmup-iters", 3]
        words += ["--data-order", NOW["data-order"], "--lr-schedule-rule", NOW["lr-schedule-rule"]]
        run.jotun(*words, "--train-iters", 6, "--exit-interval", 3, "--save", new)
        for copy, change in ((old, {**OLD, **DROPPED}), (wrong, {"data-order": "alphabetical"})):
            shutil.copytree(new, copy)
            for path in glob.glob(os.path.join(copy, "step_*", "manifest.json")):
                rewritten(path, change)
        losses = []
        for saved in (new, old):
            out = os.path.join(folder, os.path.basename(saved) + ".jsonl")
            run.jotun(*words, "--train-iters", 6, "--load", saved, "--metrics", out)
            losses.append(run.metrics(out))
        if losses[0] != losses[1] or set(losses[0]) != {4, 5, 6}:
            sys.exit(f"the resumed losses differ: {losses}")
        made = [run.jotun("generate", "--load", saved, "--prompt", "the", "--max-new-tokens", 4, "--temperature", 0).stdout for saved in (new, old)]
        if made[0] != made[1]:
            sys.exit(f"generated from both: {made}")
        refused = run.jotun(*words, "--train-iters", 6, "--load", wrong, check=False)
        if refused.returncode != 1 or "alphabetical" not in refused.stderr:
            sys.exit(f"a word that never was: exit code {refused.returncode}, {refused.stderr}")


main()
