"""Options beside a checkpoint: what a run may change when it goes on, what config shows, how generate fits its model."""
import os
import sys

import run


def refused(code, says, *words, **more):
    done = run.jotun(*words, check=False, **more)
    if done.returncode != code or says not in done.stderr:
        sys.exit(f"{words}: exit code {done.returncode}, wanted {code} and \"{says}\" in:\n{done.stderr}")


def goes_on(train, folder):
    step = os.path.join(folder, "ck", "step_00000002")
    refused(1, f"--num-layers 2, but {step} was trained with 4; leave --num-layers out and give --use-checkpoint-args",
            *train, "--num-layers", 2)
    refused(1, f"--num-layers 12 (default), but {step} was trained with 4; give --use-checkpoint-args",
            "config", "--load", os.path.join(folder, "ck"))
    told = run.jotun(*train, "--seed", 5, "--train-iters", 2).stderr
    line = "resumes with --seed 5 where the checkpoint had 1234: the results are not those of the run that was begun"
    if told.count(line) != 1 or told.count("resumes with") != 1:
        sys.exit(f"wanted one line about the seed alone:\n{told}")


def config_shows(folder):
    shown = run.jotun("config", "--load", os.path.join(folder, "ck"), "--use-checkpoint-args").stdout
    line = next(line for line in shown.splitlines() if "--num-layers " in line)
    if line.split()[1] != "4" or "step_00000002" not in line:
        sys.exit(f"config with a checkpoint shows: {line}")


def generate_fits(folder):
    load = ["generate", "--load", os.path.join(folder, "ck"), "--temperature", 0]
    refused(1, "shorten the prompt to 31 tokens or less", *load, "--prompt", "x" * 32)
    refused(1, "shorten the prompt to 22 tokens or give --max-new-tokens 2", *load, "--prompt", "x" * 30, "--max-new-tokens", 10)
    refused(1, "beside this prompt 2 or less does", *load, "--prompt", "x" * 30, "--max-new-tokens", 32)
    refused(0, "makes 2 tokens, not 64 (default)", *load, "--prompt", "x" * 30, errors="replace")
    refused(0, "", *load, "--prompt", b"\xff\xfe".decode(errors="surrogateescape"), errors="replace")


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        train = ["train", "--data-path", data, "--train-iters", 2, *run.MODEL, "--save", os.path.join(folder, "ck"),
                 "--load", os.path.join(folder, "ck")]
        run.jotun(*train)
        goes_on(train, folder)
        config_shows(folder)
        generate_fits(folder)
        refused(2, "jotun prepare wants --input FILE...", "prepare", "--output-prefix", "p")
        refused(2, "prepare runs as one process; start it without mpirun", "prepare", "--input", "x", "--output-prefix", "p",
                env=dict(os.environ, OMPI_COMM_WORLD_SIZE="2"))
    return 0


sys.exit(main())
