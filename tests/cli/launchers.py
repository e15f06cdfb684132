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


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        recognised(data, folder)
        ranks_of_pmix(data)
        one_rank_alone(data)
    return 0


sys.exit(main())
