"""What started us is told from the environment: mpirun of Open MPI, of MPICH, and srun with PMIx, whose marks are those that Open
MPI's mpirun leaves too; a job step of one task is no start by ranks."""
import os
import shutil
import subprocess
import sys

import run

PMIX = {"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.17.0"}
CASES = [
    ("nothing", {}, None),
    ("Open MPI", {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", **PMIX}, "Open MPI"),
    ("MPICH", {"PMI_RANK": "0", "PMI_SIZE": "2"}, "MPICH"),
    ("srun --mpi=pmix", {**PMIX, "SLURM_STEP_NUM_TASKS": "2"}, "srun (PMIx)"),
    ("PMIx of another launcher", PMIX, "srun (PMIx)"),
    ("srun -n 1 --mpi=pmix", {**PMIX, "SLURM_STEP_NUM_TASKS": "1"}, None),
    ("half of PMIx", {"PMIX_RANK": "0"}, None),
]


os.environ["ASAN_OPTIONS"] = "detect_leaks=0"             # what an MPI keeps at its end is not ours


def clean():
    return {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_COMM", "PMI_", "PMIX_", "SLURM_"))}


def recognised(data, folder):
    """The binary alone, without plug-ins: the message names what was recognised."""
    alone = shutil.copy(run.JOTUN, os.path.join(folder, "jotun"))
    words = [alone, "train", "--data-path", data, *run.MODEL, "--train-iters", "1"]
    for name, marks, launcher in CASES:
        done = subprocess.run(words, env={**clean(), **marks}, capture_output=True, text=True, timeout=60)
        good = f"{launcher} started this process, but {folder}/libjotun_" in done.stderr if launcher else done.returncode == 0
        if not good or (launcher and done.returncode != 1):
            sys.exit(f"{name}: exit code {done.returncode}, {launcher} was expected\n{done.stderr}")
        done = subprocess.run([alone, "data", "info", data], env={**clean(), **marks}, capture_output=True, text=True, timeout=60)
        if ("runs as one process" in done.stderr) != bool(launcher):
            sys.exit(f"{name}: a command of one process says\n{done.stderr}")
    for plugins, wanted in [[], "openmpi"], [["mpich"], "mpich"], [["openmpi", "mpich"], "openmpi"]:
        for plugin in plugins:
            open(os.path.join(folder, f"libjotun_{plugin}.so"), "w").close()
        done = subprocess.run(words, env={**clean(), **PMIX}, capture_output=True, text=True, timeout=60)
        if f"libjotun_{wanted}.so cannot be opened" not in done.stderr:
            sys.exit(f"PMIx, plug-ins {plugins}: {done.stderr}")
    print(f"{len(CASES)} environments recognised")


def ranks_of_pmix(data):
    """Ranks that have PMIx's marks alone are one run."""
    launcher = run.launchers().get("Open MPI")
    if not launcher:
        return print("skipped: Open MPI with its plug-in is not here")
    hidden = ["env", *[word for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK") for word in ("-u", f"OMPI_COMM_WORLD_{name}")]]
    done = run.jotun("train", "--data-path", data, *run.MODEL, "--train-iters", 2, "--tp", 2, launcher=launcher + ["2", *hidden])
    if "; 2 ranks: tp 2" not in done.stderr:
        sys.exit(f"two ranks by PMIx: {done.stderr}")


def others_not_seen(data):
    """The launcher started more processes than the MPI library counts."""
    for mpi, marks in [("Open MPI", {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"})]:
        if mpi not in run.launchers():
            continue
        done = subprocess.run([run.JOTUN, "train", "--data-path", data, *run.MODEL, "--train-iters", "1"], env={**clean(), **marks},
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 1 or f"{mpi} started 4 processes, but MPI counts 1 rank: start jotun with" not in done.stderr:
            sys.exit(f"{mpi}, four processes of one rank each: exit code {done.returncode}\n{done.stderr}")


def one_rank_alone(data):
    """An environment that is wrong on one host only ends all ranks with a message that names the rank; one that is wrong on all ends
    them with the plain message, once."""
    there = ["sh", "-c", 'case $OMPI_COMM_WORLD_RANK$PMI_RANK in $0) export JOTUN_NUM_LAYERS=many;; esac; exec "$@"']
    for name, launcher in run.launchers().items():
        for ranks, says in ("1", "jotun: rank 1 on "), ("[01]", "jotun: JOTUN_NUM_LAYERS"):
            words = [*launcher, "2", *there, ranks, run.JOTUN, "train", "--data-path", data, "--tp", "2", "--train-iters", "1"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            ours = [line for line in done.stderr.splitlines() if line.startswith("jotun:")]
            if done.returncode == 0 or len(ours) != 1 or not ours[0].startswith(says) or "many" not in ours[0]:
                sys.exit(f"{name}, wrong on {ranks}: exit code {done.returncode}\n{done.stderr}")


def one_line(name, done, code, says):
    ours = [line for line in done.stderr.splitlines() if line.startswith("jotun:")]
    if done.returncode == 0 or (code and done.returncode != code) or len(ours) != 1 or says not in ours[0]:
        sys.exit(f"{name}: exit code {done.returncode}, one line with \"{says}\" was expected\n{done.stderr}\n{done.stdout}")


def other_options(data, folder):
    """Ranks with other options, or with other files of the same names, refuse to start instead of training on or waiting for ever."""
    metrics, save = os.path.join(folder, "m.jsonl"), os.path.join(folder, "save")
    train = [run.JOTUN, "train", "--data-path", data, *run.MODEL, "--train-iters", "2"]
    for name, launcher in run.launchers().items():
        def ranks(second, first=train, variable=None):
            words = [*launcher, "1", *first, ":", "-n", "1", *(["env", variable] if variable else []), *second]
            return subprocess.run(words, capture_output=True, text=True, timeout=100)
        same = "; give all ranks the same options"
        for more, says in [(["--lr", "0.1"], "--lr 0.1 (command line), and rank 0 has --lr 0.001 (command line)"),
                           (["--metrics", metrics], f"--metrics {metrics} (command line), and rank 0 has --metrics (not given)"),
                           (["--save", save], f"--save {save} (command line), and rank 0 has --save (not given)"),
                           (["--dry-run"], "--dry-run true (command line), and rank 0 has --dry-run false (default)")]:
            one_line(name, ranks([*train, *more]), 1, says + same)
        one_line(name, ranks(train, variable="JOTUN_CLIP_GRAD=2"), 1, "--clip-grad 2 (JOTUN_CLIP_GRAD), and rank 0 has --clip-grad 1 (default)")
        one_line(name, ranks([run.JOTUN, "trian"]), None, "rank 1 on ")
        done = ranks([*train, "--threads", "1"], [*train, "--threads", "2"])
        if done.returncode != 0:
            sys.exit(f"{name}: --threads may differ: exit code {done.returncode}\n{done.stderr}")
        for words, says in [(["trian"], "did you mean jotun train?"), (["clean"], "clean runs as one process, but ")]:
            done = subprocess.run([*launcher, "3", run.JOTUN, *words], capture_output=True, text=True, timeout=100)
            one_line(name, done, 2, says)


def other_files(data, folder):
    """Relative names in two directories: a token that differs, and a tokenizer of as many ids."""
    text = os.path.join(folder, "text.txt")
    homes = [os.path.join(folder, name) for name in "ab"]
    for home in homes:
        os.mkdir(home)
        for ending in "bin", "idx":
            shutil.copy(f"{data}.{ending}", f"{home}/d.{ending}")
        shutil.copy(text, f"{home}/text.txt")
        run.jotun("tokenizer", "train", "--input", text, "--vocab-size", 270, "--output", f"{home}/t.json")
    train = [run.JOTUN, "train", "--data-path", "d", *run.MODEL, "--train-iters", "1"]
    learned = [*train, "--tokenizer", "t.json"]
    evaluate = [run.JOTUN, "eval", "perplexity", "--load", f"{folder}/ck", "--text", "text.txt"]

    run.jotun(*train[1:], "--save", f"{folder}/ck", cwd=homes[0])

    def ranks(launcher, words):
        in_home = ["sh", "-c", f'cd {folder}/$0 && exec "$@"']
        words = [*launcher, "1", *in_home, "a", *words, ":", "-n", "1", *in_home, "b", *words]
        return subprocess.run(words, capture_output=True, text=True, timeout=100)
    for name, launcher in run.launchers().items():
        for words in train, evaluate, learned:
            done = ranks(launcher, words)
            if done.returncode != 0:
                sys.exit(f"{name}: {words}: the same files: exit code {done.returncode}\n{done.stderr}")
    with open(f"{homes[1]}/d.bin", "r+b") as tokens:
        tokens.seek(os.path.getsize(tokens.name) // 4 * 2)
        tokens.write(b"z")
    with open(f"{homes[1]}/text.txt", "r+") as changed:
        changed.write("Z")
    learnt = open(f"{homes[1]}/t.json").read()
    with open(f"{homes[1]}/t.json", "w") as changed:
        changed.write(learnt.replace("<|endoftext|>", "<|END_OF_IT|>"))
    for name, launcher in run.launchers().items():
        one_line(name, ranks(launcher, train), 1, "; give all hosts the same token files")
        one_line(name, ranks(launcher, evaluate), 1, "; give all hosts the same file and --tokenizer")
        one_line(name, ranks(launcher, learned), 1, "; give all hosts the same file")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        recognised(data, folder)
        ranks_of_pmix(data)
        others_not_seen(data)
        one_rank_alone(data)
        other_options(data, folder)
        other_files(data, folder)
    return 0


sys.exit(main())
