"""Is a build slower than another? Runs each benchmark of two builds in turn and prints the ratio of their CPU times.

    two_builds.py OLD NEW TEXT.jsonl TOKENIZERS LANGID.bin [ROUNDS [WORD...]]

OLD, NEW:    build directories, each with its programs in bin/:  ninja -C BUILD jotun bench_text bench_dedup bench_clean_rules
             bench_wiki bench_order bench_loader
TOKENIZERS:  a directory with GPT-2's encoder.json and vocab.bpe, and cl100k_base.tiktoken
WORD:        only benchmarks with one of these words in their names

CPU time (user and system) of the whole process and its threads is compared, since wall time depends on what else the machine does.
The builds alternate in every round, first one and then the other first; the ratio is the median over the rounds of NEW / OLD, and
beside it stand the least and the largest. The exit code is 1 where a median is above 1.05.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile


def cpu_seconds(command, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def benchmarks(text, tokenizers, langid, lines, llama3):
    """Name, program, arguments; output is written to the directory the program runs in."""
    model = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 4 --global-batch-size 8 --train-iters 12 --lr 1e-3".split()
    train = ["train", "--data-path", "prepared_text_document", "--tokenizer", tokenizers, *model]
    return [
        ("encode, GPT-2", "bench_text", [tokenizers, text, "2"]),
        ("encode, cl100k", "bench_text", [os.path.join(tokenizers, "cl100k_base.tiktoken"), text, "1"]),
        ("encode, Llama 3's rules", "bench_text", [llama3, text, "1"]),
        ("encode, random bytes", "bench_text", [tokenizers, "-"]),
        ("prepare, one worker", "jotun", ["prepare", "--input", text, "--tokenizer", tokenizers, "--output-prefix", "prepared", "--workers", "1"]),
        ("tokenizer train, 32,000 ids", "jotun", ["tokenizer", "train", "--input", text, "--vocab-size", "32000", "--output", "trained.json"]),
        ("langid", "jotun", ["langid", "--model", langid, "--input", lines]),
        ("near-duplicates", "bench_dedup", ["near", "20000", "2000", "1", "64"]),
        ("exact duplicates", "bench_dedup", ["exact", "20000", "2000"]),
        ("characters and quality", "bench_clean_rules", [text]),
        ("wikitext", "bench_wiki", [text, "1000"]),
        ("clean, all stages", "jotun", ["clean", "--input", text, "--output", "clean.txt", "--charset", "sv", "--quality", "gopher", "--near-threshold", "0.8", "--workers", "1", "--restart"]),
        ("order of samples", "bench_order", ["1000000000"]),
        ("loader", "bench_loader", ["30000000"]),
        ("training step", "jotun", [*train, "--threads", "1"]),
        ("training step, bf16", "jotun", [*train, "--threads", "1", "--bf16"]),
        ("training step, 2 ranks", "jotun", [*train, "--threads", "1", "--ranks", "2", "--zero-stage", "1"]),
    ]


def main():
    if len(sys.argv) < 6:
        print(__doc__)
        return 0 if "--help" in sys.argv else 2
    old, new, text, tokenizers, langid = (os.path.abspath(a) for a in sys.argv[1:6])
    rounds, words = int((sys.argv[6:7] or ["5"])[0]), sys.argv[7:]
    slower = []
    with tempfile.TemporaryDirectory(prefix="jotun-builds-") as folder:
        lines = os.path.join(folder, "lines.txt")
        with open(lines, "w") as out:
            for line in open(text):
                out.write(json.loads(line)["text"].replace("\n", " ")[:4000] + "\n")
        llama3 = os.path.join(folder, "llama3.json")
        subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "text", "llama3.py"), os.path.join(tokenizers, "cl100k_base.tiktoken"), llama3], check=True)
        rows = benchmarks(text, tokenizers, langid, lines, llama3)
        prepare = next(r for r in rows if r[0].startswith("prepare"))
        for build in (old, new):                # what the training step reads; and the files are in the page cache
            cpu_seconds([os.path.join(build, "bin", prepare[1]), *prepare[2]], folder)
        print(f"{'benchmark':30} {'old, s':>8} {'new, s':>8} {'new/old':>8}   least  largest   ({rounds} rounds, CPU time)")
        for name, program, arguments in rows:
            if words and not any(w in name for w in words):
                continue
            times = {old: [], new: []}
            for i in range(rounds):
                for build in (old, new) if i % 2 == 0 else (new, old):
                    times[build].append(cpu_seconds([os.path.join(build, "bin", program), *arguments], folder))
            ratios = [n / o for o, n in zip(times[old], times[new])]
            median = statistics.median(ratios)
            print(f"{name:30} {statistics.median(times[old]):8.2f} {statistics.median(times[new]):8.2f} {median:8.3f}   {min(ratios):5.3f}  {max(ratios):5.3f}", flush=True)
            if median > 1.05:
                slower.append(name)
    print("slower by more than 5 %: " + ", ".join(slower) if slower else "no benchmark is slower by more than 5 %")
    return 1 if slower else 0


sys.exit(main())
