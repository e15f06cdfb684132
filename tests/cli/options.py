"""Options beside a checkpoint: what a run may change when it goes on, what config shows, how generate fits its model."""
import os
import sys

import run


def refused(code, says, *words, **more):
    done = run.jotun(*words, check=False, **more)
    if done.returncode != code or says not in done.stderr + done.stdout:
        sys.exit(f"{words}: exit code {done.returncode}, wanted {code} and \"{says}\" in:\n{done.stderr}")


def goes_on(train, folder):
    step = os.path.join(folder, "ck", "step_00000002")
    refused(1, f"--num-layers 2, but {step} was trained with 4; leave --num-layers out and give --use-checkpoint-args",
            *train, "--num-layers", 2)
    refused(1, f"3 options contradict {step}: --num-layers 12 (default), was 4; --hidden-size 768 (default), was 32; --num-attention-heads 12 (default), was 4; give --use-checkpoint-args",
            "config", "--load", os.path.join(folder, "ck"))
    refused(1, f"--decoupled-lr 0.5, but {step} was trained with none; --override-opt-param-scheduler takes the new schedule", *train, "--decoupled-lr", 0.5)
    told = run.jotun(*train, "--seed", 5, "--train-iters", 2).stderr
    line = "resumes with other options than the checkpoint's: --seed 5, was 1234; the results differ from those of an unchanged run"
    if told.count(line) != 1 or told.count("resumes with") != 1:
        sys.exit(f"wanted one line about the seed alone:\n{told}")


def goes_back(data, folder):
    """The later checkpoints of a run that goes on from an earlier one are named, set aside, and never resumed from."""
    out = os.path.join(folder, "back")
    train = ["train", "--data-path", data, *run.MODEL, "--num-layers", 1, "--train-iters", 8, "--save-interval", 2, "--save", out]
    run.jotun(*train)
    told = run.jotun(*train, "--load", os.path.join(out, "step_00000002"), "--exit-interval", 5, "--keep-last", 3).stderr
    if f"--save {out} holds later checkpoints, of the steps 4, 6, 8: before" not in told:
        sys.exit(f"the later checkpoints are not named:\n{told}")
    held = ["abandoned_step_00000004", "abandoned_step_00000006", "abandoned_step_00000008", "journal.jsonl", "latest", *(f"step_0000000{n}" for n in (2, 4, 5))]
    if sorted(os.listdir(out), key=str.lower) != [".lock", *held]:
        sys.exit(f"after going back {out} holds {sorted(os.listdir(out))}")
    for newest, older in (5, 4), (4, 2):
        os.rename(os.path.join(out, f"step_0000000{newest}"), os.path.join(out, f"damaged_{newest}"))
        refused(0, f"directory  {out}/step_0000000{older}\n", "checkpoint", "info", out)
    os.rename(os.path.join(out, "step_00000002"), os.path.join(out, "step_00000007"))       # beyond `latest`, of another branch
    refused(1, "latest names step 5, and neither it nor one before it is there; ", *train, "--load", out)


def config_shows(folder):
    shown = run.jotun("config", "--load", os.path.join(folder, "ck"), "--use-checkpoint-args", "--use-checkpoint-opt-param-scheduler").stdout
    line = next(line for line in shown.splitlines() if "--num-layers " in line)
    if line.split()[1] != "4" or "step_00000002" not in line:
        sys.exit(f"config with a checkpoint shows: {line}")


def generate_fits(folder):
    load = ["generate", "--load", os.path.join(folder, "ck"), "--temperature", 0]
    refused(1, "shorten the prompt to 31 tokens or less", *load, "--prompt", "x" * 32)
    refused(1, "shorten the prompt to 22 tokens or give --max-new-tokens 2", *load, "--prompt", "x" * 30, "--max-new-tokens", 10)
    refused(1, "beside this prompt 2 or less is possible", *load, "--prompt", "x" * 30, "--max-new-tokens", 32)
    refused(0, "--top-k has no effect with --temperature 0", *load, "--prompt", "x", "--max-new-tokens", 1, "--top-k", 5)
    refused(0, "makes 2 tokens, not 64 (default)", *load, "--prompt", "x" * 30, errors="replace")
    refused(0, "", *load, "--prompt", b"\xff\xfe".decode(errors="surrogateescape"), errors="replace")


def environment(**values):
    return dict(os.environ, **{name: str(value) for name, value in values.items()})


def names_of_training_elsewhere():
    for words in (["prepare", "--num-workers", 8], ["clean", "--universal-checkpoint"], ["tokenizer", "encode", "--universal-checkpoint"]):
        command = " ".join(w for w in words[:2] if not str(w).startswith("-"))
        name = next(w for w in words if str(w).startswith("--"))
        refused(2, f"{name} is no option of jotun {command}; ", *words)
    refused(2, "--deepspeeds is no option of jotun prepare; its --help lists them", "prepare", "--deepspeeds")
    refused(0, "--num-workers of Megatron-LM is ignored", "config", "--num-workers", 8)


def refused_flags_that_are_off():
    for name, off in (("JOTUN_UNIVERSAL_CHECKPOINT", "false"), ("JOTUN_UNIVERSAL_CHECKPOINT", "0"), ("JOTUN_UNIVERSAL_CHECKPOINT", "False")):
        told = run.jotun("config", env=environment(**{name: off})).stderr
        if told:
            sys.exit(f"{name}={off} asks for nothing and gets: {told}")
        refused(1, f"{name} of Megatron-DeepSpeed is refused", "config", env=environment(**{name: "1"}))
    refused(0, "", "config", "--universal-checkpoint=false")
    refused(1, "--universal-checkpoint of Megatron-DeepSpeed is refused", "config", "--universal-checkpoint=true")
    refused(1, "JOTUN_TOKENIZER_TYPE of Megatron-LM is refused", "config", env=environment(JOTUN_TOKENIZER_TYPE="BertWordPieceCase"))


def numbers_near_zero():
    refused(1, "--lr 1e-400 is out of range: too near to 0 for a double; give a value from 0 to 1000", "config", "--lr", "1e-400")
    refused(1, "--lr 1e400 is out of range; give a value from 0 to 1000", "config", "--lr", "1e400")
    refused(0, "", "config", "--lr", "1e-300")
    refused(0, "", "config", "--lr", "0.0e-400")


def shown(name, **values):
    lines = run.jotun("config", "--ranks", 2, "--num-layers", 6, env=environment(**values)).stdout.splitlines()
    return next(line for line in lines if f"--{name} " in line).split()[1:]


def variables_without_prefix():
    theirs = {"HEADS": 8, "TP": 2, "NLAYERS": 4, "HIDDEN": 512}
    for name, value, source in (("num-attention-heads", "8", "HEADS"), ("tensor-model-parallel-size", "2", "TP"),
                                ("hidden-size", "512", "HIDDEN"), ("num-layers", "6", "command line")):
        line = shown(name, JOTUN_DIALECT="argonne", **theirs)
        if line != [value, *source.split()]:
            sys.exit(f"config with HEADS=8 TP=2 shows --{name} {line}")
    if shown("num-attention-heads", **theirs) != ["12", "default"]:
        sys.exit("HEADS is read where nobody asked for it")
    refused(1, "JOTUN_DIALECT=fortran is not known; the known one is argonne", "config", env=environment(JOTUN_DIALECT="fortran"))
    refused(1, "DTYPE=fp64 of Argonne's scripts is refused", "train", "--data-path", "x",
            env=environment(JOTUN_DIALECT="argonne", DTYPE="fp64"))
    refused(0, "", "tokenizer", "info", env=environment(JOTUN_DIALECT="argonne", DTYPE="fp64"))


def main():
    names_of_training_elsewhere()
    refused_flags_that_are_off()
    numbers_near_zero()
    variables_without_prefix()
    with run.work_folder() as folder:
        data = run.corpus(folder)
        train = ["train", "--data-path", data, "--train-iters", 2, *run.MODEL, "--save", os.path.join(folder, "ck"),
                 "--load", os.path.join(folder, "ck")]
        run.jotun(*train)
        goes_on(train, folder)
        goes_back(data, folder)
        config_shows(folder)
        generate_fits(folder)
        refused(2, "jotun prepare needs --input FILE...", "prepare", "--output-prefix", "p")
        refused(2, "prepare runs as one process, but ", "prepare", "--input", "x", "--output-prefix", "p",
                env=dict(os.environ, OMPI_COMM_WORLD_SIZE="2", ASAN_OPTIONS="detect_leaks=0"))     # what MPI keeps
    return 0


sys.exit(main())
