"""The command line as a person or a script types it: names of other trainers, wrong numbers, an option given twice, options
without effect, help of each command, a resume that is longer than the run was."""
import glob
import os
import re
import resource
import subprocess
import sys

import run

faults = []


def expect(code, says, *words, never=None):
    done = run.jotun(*words, check=False)
    told = done.stderr + done.stdout
    line = " ".join(str(w) for w in words)
    if done.returncode != code or says not in told:
        faults.append(f"jotun {line}: exit code {done.returncode}, wanted {code} and \"{says}\" in:\n{told[:600]}")
    if never and never in told:
        faults.append(f"jotun {line}: \"{never}\" in:\n{told[:600]}")


def names_of_other_trainers():
    for name, ours in [("--learning-rate", "--lr"), ("--n_layer", "--num-layers"), ("--max_iters", "--train-iters"),
                       ("--batch_size", "--micro-batch-size"), ("--dropout", "--hidden-dropout and --attention-dropout"),
                       ("--save-every", "--save-interval"), ("--per_device_train_batch_size", "--micro-batch-size")]:
        expect(2, f"here it is {ours}", "train", name, 3)
    for name, ours in [("gradient_clip_val", "--clip-grad"), ("num_train_epochs", "--train-iters: epochs x"), ("resume", "--load DIR"),
                       ("gradient_checkpointing", "--recompute-granularity full"), ("warmup_ratio", "--lr-warmup-iters: the ratio x --train-iters"), ("fsdp", "--zero-stage 3"),
                       ("dtype", "--bf16 or --fp16")]:
        for typed in {name, name.replace("_", "-")}:
            expect(2, f"here it is {ours}", "train", f"--{typed}", 3)
    for name, why in [("compile", "compiled already; leave it out"),
                      ("wandb_log", "which records the run")]:
        for typed in {name, name.replace("_", "-")}:
            expect(2, why, "train", f"--{typed}", 3, never="here it is")
    expect(1, "--rampup-batch-size takes three whole numbers from 1 on", "train", "--rampup-batch-size", 3, "--dry-run")
    expect(0, "--train-iters                            33 ", "config", "--train-samples", 100, "--global-batch-size", 3)


def wrong_numbers():
    expect(1, "--lr 0x1p-3 is not a decimal number", "config", "--lr", "0x1p-3")
    expect(1, "--num-layers  2 is not a whole number", "config", "--num-layers", " 2")
    expect(1, "--norm-epsilon 0 is out of range", "config", "--norm-epsilon", 0)
    expect(1, "--watchdog-seconds 1e-07 would stop a healthy run; give 0.1 or more, or 0", "config", "--watchdog-seconds", "1e-7")
    for weight in ("nan", -1, 0):
        expect(1, f"--data-path: weight {weight} of a is not above 0; give another, or leave that data set out",
               "train", "--train-iters", 1, "--data-path", weight, "a", 1, "b")


def given_twice():
    expect(0, "--lr 2 replaces --lr 1: the last one counts", "config", "--lr", 1, "--lr", 2)
    expect(0, "--tensor-model-parallel-size 1 replaces --tp 2: the last one counts", "config", "--tp", 2, "--tensor-model-parallel-size=1")
    expect(0, "--swiglu=false replaces --swiglu: the last one counts", "config", "--swiglu", "--swiglu=false")
    expect(0, "", "config", "--lr", 1, "--lr", 1.0, "--swiglu", "--swiglu", never="replaces")
    expect(0, "", "config", "--data-path", 1, "a", "--data-path", 2, "b", never="replaces")


def without_effect():
    expect(0, "--sp is ignored: it has no effect without --tensor-model-parallel-size 2 or more", "config", "--sp")
    for option, value in ("--hysteresis", 3), ("--initial-loss-scale", 256), ("--loss-scale-window", 50), ("--min-loss-scale", 2):
        expect(0, f"{option} {value} is ignored: it has no effect beside --loss-scale X", "config", "--fp16", "--loss-scale", 128, option, value)
        expect(0, f"{option} {value} is ignored: it has no effect without --fp16", "config", option, value)
        expect(0, "", "config", "--fp16", option, value, never="is ignored")
    fp8 = ["config", "--bf16", "--fp8-format", "hybrid"]
    expect(0, "--fp8-amax-compute-algo max is ignored: it has no effect without --fp8-amax-history-len 2 or more", *fp8, "--fp8-amax-compute-algo", "max")
    expect(0, "--fp8-amax-history-len 9 is ignored: it has no effect without --fp8-amax-compute-algo max", *fp8, "--fp8-amax-history-len", 9)
    expect(0, "", *fp8, "--fp8-amax-history-len", 9, "--fp8-amax-compute-algo", "max", never="is ignored")
    expect(0, "--recompute-method uniform is ignored: it has no effect without --recompute-granularity full", "config", "--recompute-method", "uniform")
    modules = ["config", "--recompute-granularity", "selective", "--recompute-modules"]
    expect(0, "--recompute-modules mlp_act is ignored: it is a part of mlp", *modules, "mlp_act", "mlp")
    expect(0, "--recompute-modules mlp is ignored: it is given twice", *modules, "mlp", "mlp")
    expect(0, "", *modules, "core_attn", "layernorm", "mlp", never="is ignored")
    expect(0, "--grad-reduce-in-bf16 changes nothing on one data-parallel rank, which sends no gradients", "config", "--grad-reduce-in-bf16")
    expect(0, "", "config", "--grad-reduce-in-bf16", "--ranks", 2, never="changes nothing")
    expect(1, "--final-epoch-cut 0.95 has no effect without --data-order megatron or megatron-forks; give that too, or leave it out",
           "config", "--final-epoch-cut", 0.95)


def help_of_commands():
    expect(0, "tokenizer encode ", "tokenizer", "--help", never="half a command")
    expect(0, "data merge ", "data", "-h")
    expect(1, "cannot be read", "config", "--from-megatron", "nowhere.sh", "-h", 192, never="Usage")
    expect(2, "jotun tokenizer needs a subcommand: jotun tokenizer encode", "tokenizer")
    expect(0, "start from the shape of a known model", "help", "train")
    expect(0, "data merge ", "help", "data")
    expect(0, "--top-p", "help", "generate")
    expect(0, "every checksum", "help", "checkpoint", "verify", never="checkpoint info")
    expect(0, "jotun <command> [options]", "help")
    expect(0, "jotun 0.", "version")
    expect(2, "did you mean jotun train?", "help", "trian")


def mistyped_commands():
    for typed, meant in [("checkpoint verfy", "checkpoint verify"), ("tokenizer trian", "tokenizer train"), ("data inf", "data info"),
                         ("chekpoint verify DIR", "checkpoint verify"), ("trian --lr 3", "train"), ("tokeniser", "tokenizer")]:
        expect(2, f" is no command; did you mean jotun {meant}?", *typed.split())
    expect(2, "data remove is no command; these are: jotun data info, jotun data cat, jotun data check, jotun data merge", "data", "remove")
    expect(2, "sample is no command; jotun generate continues a prompt", "sample")
    expect(2, "plan is no command; jotun train ... --dry-run", "plan", "--ranks", "2")
    expect(2, "remove is no command; jotun --help lists them", "remove")
    expect(2, "jotun checkpoint verify needs DIR", "checkpoint", "verify")
    expect(2, "jotun checkpoint info needs DIR", "checkpoint", "info", "a", "b")


def no_argument(folder):
    """Each command by itself says what it needs; a few have nothing that they need."""
    rows = open(os.path.join(os.path.dirname(__file__), "../../src/conf/commands.def")).read()
    names = re.findall(r'^(?:RAW_)?COMMAND\(\s*\w+,\s*"([^"]+)"', rows, re.M)
    complete = {"config", "tokenizer encode", "tokenizer decode", "tokenizer info", "bench peak", "data detokenize"}
    if len(names) < 12 or not complete <= set(names):
        sys.exit(f"the commands were read as {names}")
    for words in [*(name.split() for name in names), ["generate", "--prompt", "x"], ["eval", "perplexity", "--text", "x"]]:
        done = run.jotun(*words, check=False, stdin=subprocess.DEVNULL, env=dict(os.environ, XDG_CACHE_HOME=folder))
        wanted = (0, 0) if " ".join(words) in complete else (2, 1)
        if (done.returncode, len(done.stderr.splitlines())) != wanted:
            faults.append(f"jotun {' '.join(words)} alone: exit code {done.returncode}, wanted {wanted[0]}:\n{done.stderr}")


def options_of_commands():
    expect(0, "fastText classifier, .bin or .ftz", "langid", "--help", never="known shape")
    expect(0, "start from the shape of a known model", "train", "--help", never="fastText")
    expect(0, "--format text|u16|i32 ", "tokenizer", "encode", "--help", never="jsonl")
    expect(0, "--format txt|jsonl ", "clean", "--help", never="u16")
    for command in ("train", "prepare", "clean", "langid", "generate", "config"):
        for other in ("clean:", "langid:", "tokenizer train:", "merged,"):
            expect(0, "--", command, "--help", never=other)


def words_of_messages(folder, data):
    """What a message names was given, and is what is wrong."""
    small = ["train", "--data-path", data, *run.MODEL, "--train-iters", 2]
    expect(1, "--data-path has 3 words, so that 1 is a prefix and no weight", "train", *run.MODEL, "--train-iters", 2, "--data-path", 1, data, data)
    expect(2, "here it is --num-layers", "train", "--layers", 3)
    expect(2, "here it is --ranks N", "train", "--num_gpus", 3)
    expect(1, "--account-for-loss-in-pipeline-split: 5 layers do not divide into 2", *small, "--ranks", 2, "--pp", 2, "--account-for-loss-in-pipeline-split",
           never="--account-for-embedding")
    expect(1, "--decoder-last-pipeline-num-layers: 3 layers do not divide into 2 other stages", *small, "--ranks", 3, "--pp", 3, "--decoder-last-pipeline-num-layers", 1,
           "--micro-batch-size", 1, "--global-batch-size", 8, never="--decoder-first")
    expect(1, "cannot exchange 1 head (", *small, "--ranks", 8, "--tp", 4, "--cp", 2, "--cp-comm-type", "a2a")
    os.mkfifo(os.path.join(folder, "pipe"))
    writer = os.open(os.path.join(folder, "pipe"), os.O_RDWR)
    expect(1, "it is not a file but a pipe or a device, such as <(...)", *small, "--config", os.path.join(folder, "pipe"))
    os.close(writer)
    for name, count, says in ("PMI_SIZE", "2", True), ("SLURM_NTASKS", "4", True), ("SLURM_NTASKS", "1", False), ("WORLD_SIZE", "x", False):
        done = run.jotun(*small, env={**os.environ, name: count})
        if (f"{name} is {count}, and this process is a run of its own, with 1 rank" in done.stderr) != says:
            faults.append(f"{name}={count}: {done.stderr}")


def names_of_other_models():
    """What is not built is said so, and no option of another meaning is offered."""
    for name, says in (("decoder-num-layers", "models with an encoder and a decoder (T5) are not built"), ("decoder-seq-length", "(T5) are not built"),
                       ("task", "of which the perplexity of a text is built; use jotun eval perplexity"), ("valid-data", "perplexity of a text"), ("strict-lambada", "zero-shot"),
                       ("use-post-ln", "norm(x + f(x))"), ("parallel-attention", "the MLP follows the attention of its layer")):
        expect(2, says, "train", "--" + name, 1, never="here it is")


def tokenizer_that_was_not_named(data):
    expect(0, "--tokenizer was not given: id 256 is taken for the end of a document", "train", "--data-path", data, *run.MODEL,
           "--train-iters", 1, "--vocab-size", 300)


def memory_that_is_not_there(data):
    expect(3, " part of a rank's memory; a smaller --micro-batch-size, --seq-length or model, or more ranks", "train", "--data-path", data, "--train-iters", 1,
           "--seq-length", 16, "--num-layers", 65536, "--num-attention-heads", 4, "--hidden-size", 64, "--ffn-hidden-size", 4194304)


def longer_resume(folder, data):
    train = ["train", "--data-path", data, *run.MODEL, "--save", os.path.join(folder, "ck"), "--load", os.path.join(folder, "ck")]
    run.jotun(*train, "--train-iters", 2)
    expect(0, "", *train, "--train-iters", 3, "--lr-decay-iters", 2, never="resumes with")
    expect(0, "checkpoint's: --lr-decay-iters 4 (derived from --train-iters), was 2 (--lr-decay-iters 2 keeps that); the results",
           *train, "--train-iters", 4)
    expect(1, "--lr-decay-iters 5, but ", *train, "--train-iters", 5, "--lr-decay-iters", 5)
    train.append("--override-opt-param-scheduler")
    expect(0, "resumes with other options than the checkpoint's: --lr-decay-iters 5, was 4; the results", *train, "--train-iters", 5, "--lr-decay-iters", 5)
    expect(0, "resumes with other options than the checkpoint's: --seed 5, was 1234; the results", *train, "--train-iters", 6, "--lr-decay-iters", 5, "--seed", 5)
    changed = [*train, "--train-iters", 7, "--lr-decay-iters", 5, "--lr", 0.002, "--hidden-dropout", 0, "--seed", 5]
    done = run.jotun(*changed)
    says = "--hidden-dropout 0, was 0.1; --lr 0.002, was 0.001; the results differ"
    if done.stderr.count("resumes with") != 1 or says not in done.stderr:
        faults.append(f"wanted one line with \"{says}\":\n{done.stderr}")
    expect(1, "--save /proc/x", *changed, "--lr", 0.003, "--save", "/proc/x", never="resumes with")
    broken_latest(folder, changed)


def damaged_newest(folder, data):
    """Without a file `latest` a damaged newest checkpoint is passed over with a line."""
    out = os.path.join(folder, "damaged")
    train = ["train", "--data-path", data, *run.MODEL, "--save", out, "--load", out, "--save-interval", 1]
    run.jotun(*train, "--train-iters", 3, "--lr-decay-iters", 9)
    os.remove(os.path.join(out, "latest"))
    os.truncate(os.path.join(out, "step_00000003", "block_0000.safetensors"), 100)
    expect(0, f"{out}: its checkpoint of step 3 is not complete: {out}/step_00000003/block_0000.safetensors: 100 bytes, the manifest says", *train, "--train-iters", 3, "--lr-decay-iters", 9)


def broken_latest(folder, changed):
    """A line says once that the newest checkpoint is not complete and an older one is loaded."""
    newest = os.path.join(folder, "ck", "step_00000007")
    os.truncate(glob.glob(os.path.join(newest, "*.safetensors"))[0], 10)
    for command in (["generate", "--load", os.path.join(folder, "ck"), "--prompt", "a", "--max-new-tokens", 1], [*changed, "--use-checkpoint-args"]):
        told = run.jotun(*command, errors="replace").stderr
        if told.count("/latest names step 7, which is not complete: ") != 1 or ".safetensors: 10 bytes, the manifest says" not in told:
            faults.append(f"wanted one line about step 7:\n{told}")


def paths(folder, data):
    """A message names the option, and the path that was meant."""
    made, one_step = os.path.join(folder, "paths"), [*run.MODEL, "--train-iters", 1]
    train = ["train", "--data-path", data, *one_step]
    run.jotun(*train, "--save", made)
    step, short = os.path.join(made, "step_00000001"), data[:-len("_text_document")]
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    expect(1, "--prompt= is empty; give --prompt S (the text to continue)", "generate", "--load", made, "--prompt", "")
    expect(1, f"--input {empty} is a directory; give the files in it, as --input {empty}/*.txt", "prepare", "--input", empty,
           "--output-prefix", os.path.join(folder, "none"))
    expect(1, f"--load {step}/manifest.json is a file of a checkpoint; give its directory: {step}\n", *train, "--load", f"{step}/manifest.json")
    expect(1, f"{made}/latest is a file of a checkpoint; give its directory: {made}\n", "checkpoint", "verify", f"{made}/latest")
    expect(1, f"--load {data}.bin is a file; give the directory that jotun train --save wrote", "generate", "--prompt", "a", "--load", f"{data}.bin")
    missing = "step_00000011: there is no such checkpoint"
    expect(1, f"{made}/{missing}; {made} holds those of the steps 1: give", *train, "--load", f"{made}/step_00000011")
    expect(1, "there is no such checkpoint; ", "checkpoint", "info", f"{made}/step_2/")
    expect(1, f"{missing}, and {empty} holds none", *train, "--load", f"{empty}/step_00000011")
    expect(0, "has no checkpoint: training starts from new weights", *train, "--load", f"{empty}/run")
    for inside in step, f"{step}/", f"{empty}/step_00000030":
        expect(1, f"is a checkpoint's own directory; give the one it is in, --save {os.path.dirname(inside.rstrip('/'))}\n", *train,
               "--save", inside)
    for words, said in ((["--metrics", "/proc/x"], "--metrics /proc/x cannot be opened: No such file or directory; give a file that can be written to"),
                        (["--tensorboard-dir", "/proc/x"], "--tensorboard-dir /proc/x: cannot be made: No such file or directory; give a directory"),
                        (["--wandb-project", "p", "--wandb-save-dir", "/proc/x"], "give another --wandb-save-dir or --save")):
        expect(1, said, *train, *words)
    expect(1, "--save /proc/x: cannot be made: No such file or directory; give a directory that can be written to", *train, "--save", "/proc/x")
    expect(1, f"--save {data}.bin: cannot be made: there is a file of that name; give", *train, "--save", f"{data}.bin")
    expect(1, f"{short}.idx: no such file, but {data}.idx is there: give the prefix {data}\n", "train", "--data-path", short, *one_step)
    expect(1, f"is there: give the prefix {data}\n", "train", "--data-path", f"{data}_text_document", *one_step)
    expect(1, f"--metrics {folder}/none/m: there is no directory {folder}/none; make it first", *train, "--metrics", f"{folder}/none/m",
           never="parameters")
    expect(0, "--train-iters 1: the checkpoint is after step 2, so nothing is left to train", *train, "--load", longer(train, folder),
           never="the run has 1 step")
    expect(1, "use --device cpu\n", *train, "--device", "cuda", never="matmul")
    spared_inputs(folder, data, train)
    wrong_tokenizer(folder, one_step)
    full_disk(train, made, step)


def spared_inputs(folder, data, train):
    """An output of train is none of its inputs, under whatever name."""
    tokenizer, listed, link = (os.path.join(folder, name) for name in ("spared.json", "spared.txt", "link.bin"))
    run.jotun("tokenizer", "train", "--input", os.path.join(folder, "text.txt"), "--vocab-size", 300, "--output", tokenizer)
    with open(listed, "w") as out:
        out.write(f"1 {data} all\n")
    os.symlink(data + ".bin", link)
    blend, by_list = ["--data-path", 1, data], ["--data-order", "megatron", "--data-file-list", listed]
    for read, output, words in [(data + ".bin", data + ".bin", train), (data + ".idx", data + ".idx", [*train[:1], *blend, *train[3:]]),
                                (data + ".bin", link, train), (tokenizer, tokenizer, [*train, "--tokenizer", tokenizer]),
                                (listed, listed, [*train[:1], *by_list, *train[3:]]), (data + ".bin", data + ".bin", [*train[:1], *by_list, *train[3:]])]:
        for option in "--metrics", "--draw-schedule-svg":
            was = open(read, "rb").read()
            expect(1, f"the output {output} is also an input ({read}); write", *words, option, output)
            if open(read, "rb").read() != was:
                faults.append(f"{option} {output} writes over {read}")
                open(read, "wb").write(was)


def longer(train, folder):
    run.jotun(*train, "--train-iters", 2, "--save", os.path.join(folder, "longer"))
    return os.path.join(folder, "longer")


def without_effect_in_a_run(data):
    train = ["train", "--data-path", data, *run.MODEL, "--train-iters", 2]
    one = "--zero-stage 3 shards over one data-parallel rank and so saves no memory"
    expect(0, one, *train, "--zero-stage", 3)
    expect(0, "", *train, "--zero-stage", 3, "--ranks", 2, never=one)
    evaluated = [*train, "--split", "50,50,0", "--eval-interval", 2, "--eval-iters"]
    done = run.jotun(*evaluated, 500).stderr
    if done.count("--eval-iters 500: an evaluation reads 4000 samples and the validation data has ") != 1:
        faults.append(f"wanted one line about repeated samples:\n{done}")
    expect(0, "", *evaluated, 1, never="repeat")
    expect(0, "", *train, "--lr-decay-style", "constant", "--lr-warmup-iters", 5)


def more_threads_than_cores(data):
    cores, slower = len(os.sched_getaffinity(0)), "the run is slower than with fewer"
    train = ["train", "--data-path", data, *run.MODEL, "--train-iters", 1]
    expect(0, f"1 rank x --threads {cores + 1} are more threads than the {cores} core", *train, "--threads", cores + 1)
    expect(0, f"2 ranks x --threads {cores} are more threads than", *train, "--threads", cores, "--ranks", 2)
    expect(0, "", *train, "--threads", cores, never=slower)
    expect(0, "", *train, "--threads", 1, never=slower)
    many = ["--ranks", 1025, "--global-batch-size", 1025]
    expect(1, "--ranks 1025 as threads of one process are too many: up to 1024 are possible; start more by mpirun", *train, *many)
    expect(0, "", *train, *many, "--dry-run")


def words_of_a_run(data):
    """A NaN has no sign, and one rank is no plural."""
    expect(0, "gradient norm nan: not finite", "train", "--data-path", data, *run.MODEL, "--lr", 1000, "--weight-decay", 1000, "--clip-grad", 0,
           "--train-iters", 6, never="-nan")
    expect(0, "; 1 rank: tp 1,", "train", "--data-path", data, *run.MODEL, "--train-iters", 1, "--threads", 1)
    expect(0, "1 thread per rank\n", "train", "--data-path", data, *run.MODEL, "--train-iters", 1, "--threads", 1)


def wrong_tokenizer(folder, one_step):
    text, learned, prefix = (os.path.join(folder, name) for name in ("text.txt", "learned.json", "learned"))
    run.jotun("tokenizer", "train", "--input", text, "--vocab-size", 270, "--output", learned)
    run.jotun("prepare", "--input", text, "--tokenizer", learned, "--output-prefix", prefix)
    expect(1, f"was made by --tokenizer {learned} (v1: 270 ids", "train", "--data-path", f"{prefix}_text_document", *one_step)
    os.remove(f"{prefix}_text_document.facts.json")
    expect(1, "is outside of the vocabulary of 257; the text was prepared with another tokenizer: prepare it again with that of the model",
           "train", "--data-path", f"{prefix}_text_document", *one_step)


def full_disk(train, made, step):
    """A limit on the size of files stands for the disk, and /dev/full for the output."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    done = run.jotun(*train, "--train-iters", 2, "--load", made, "--save", made, check=False, preexec_fn=limit)
    says = f"step 2 is not saved, and {step} stays valid: --load {made} resumes from it"
    if done.returncode != 3 or says not in done.stderr:
        faults.append(f"a full disk: exit code {done.returncode}, wanted 3 and \"{says}\" in:\n{done.stderr[:600]}")
    for words in (["--help"], ["generate", "--load", made, "--prompt", "a", "--max-new-tokens", "3"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([run.JOTUN, *words], stdout=full, stderr=subprocess.PIPE, text=True)
        if done.returncode != 3 or "standard output cannot be written: No space left on device" not in done.stderr:
            faults.append(f"jotun {words[0]} > /dev/full: exit code {done.returncode}:\n{done.stderr[:600]}")


def output_that_was_lost():
    """A pipe takes the end of the output but not its first part: nothing is written that is not output."""
    texts = {name: subprocess.run([run.JOTUN, "help", name], capture_output=True).stdout for name in ("train", "clean", "config", "generate")}
    name, whole = next((n, t) for n, t in texts.items() if len(t) > 4096 and 600 < len(t) % 4096 < 4000)     # no line across the last 4096
    taken, given = os.pipe()
    os.set_blocking(given, False)
    for block in [b"x" * 4096] * 15 + [b"x"]:           # of 64 KiB: room for the end, not for 4096 bytes at once
        os.write(given, block)
    done = subprocess.run([run.JOTUN, "help", name], stdout=given, stderr=subprocess.PIPE, text=True)
    os.close(given)
    with open(taken, "rb") as pipe:
        got = pipe.read()[15 * 4096 + 1:]
    if done.returncode != 3 or "standard output cannot be written: a part is lost" not in done.stderr:
        faults.append(f"a part of the output lost: exit code {done.returncode}:\n{done.stderr}")
    if not got or got[-50:] != whole[-50:]:
        faults.append(f"after lost output there is {got[-50:]}, where the output ends with {whole[-50:]}")


def main():
    names_of_other_trainers()
    wrong_numbers()
    given_twice()
    without_effect()
    help_of_commands()
    mistyped_commands()
    output_that_was_lost()
    options_of_commands()
    names_of_other_models()
    with run.work_folder() as folder:
        no_argument(folder)
        data = run.corpus(folder)
        tokenizer_that_was_not_named(data)
        if "ASAN_OPTIONS" not in os.environ:            # whose allocator answers in its own way
            memory_that_is_not_there(data)
        longer_resume(folder, data)
        damaged_newest(folder, data)
        paths(folder, data)
        words_of_a_run(data)
        words_of_messages(folder, data)
        more_threads_than_cores(data)
        without_effect_in_a_run(data)
    print("\n".join(faults) or "as wanted")
    return bool(faults)


sys.exit(main())
