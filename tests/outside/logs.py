"""TensorBoard's own readers and wandb's own classes find the numbers of --metrics in our files, after a kill and a resume too; and
`wandb sync` uploads them to a stand-in for the service on this machine.
    logs.py        needs tensorboard or wandb (PyPI), compares with those it finds; JOTUN is the program
wandb's own reader, DataStore, is in its versions up to 0.28, which want sentry-sdk."""
import glob
import importlib
import json
import os
import struct
import subprocess
import sys

import comparison
import run
import wandb_service


def fp32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def trained(data, folder, more):
    """A run of 24 steps that is killed in its step 18 and resumed after step 15; its lines of --metrics."""
    words = ["train", "--data-path", data, *run.MODEL, "--train-iters", 24, "--threads", 1, "--save", f"{folder}/run", "--load", f"{folder}/run",
             "--save-interval", 5, "--metrics", f"{folder}/run.jsonl", "--eval-interval", 4, "--eval-iters", 1, "--split", "80,10,10",
             "--log-interval", 3, "--log-num-zeros-in-grad", "--log-params-norm", "--sample-interval", 6, "--sample-prompt", "the ra", "jo", *more]
    killed = run.jotun(*words, check=False, env=dict(os.environ, JOTUN_FAULT="step:18:kill"))
    if killed.returncode != -9:
        sys.exit(f"the run to be killed ends with {killed.returncode}\n{killed.stderr}")
    run.jotun(*words)
    return [json.loads(line) for line in open(f"{folder}/run.jsonl")]


def wanted(lines, stored=fp32):
    steps, evaluations = [r for r in lines if "split" not in r], [r for r in lines if r.get("split") == "valid"]
    found = {tag: [(r["step"], stored(r[key])) for r in steps] for tag, key in (("lm loss", "loss"), ("learning-rate", "lr"), ("grad-norm", "grad_norm"),
                                                                                 ("num-zeros", "num_zeros"), ("params-norm", "params_norm"))}
    found["lm loss validation"] = [(r["step"], stored(r["loss"])) for r in evaluations]
    found["lm loss validation ppl"] = [(r["step"], stored(r["perplexity"])) for r in evaluations]
    found["lm loss validation bits per byte"] = [(r["step"], stored(r["bits_per_byte"])) for r in evaluations]
    return found


def samples(lines):
    """Texts by their names there: prompt and continuation, of each sixth step once."""
    found = {f"sample {n}": [(r["step"], r["prompt"] + r["text"]) for r in lines if r.get("sample") == n] for n in (1, 2)}
    if any([step for step, _ in texts] != [6, 12, 18, 24] for texts in found.values()):
        sys.exit(f"samples of --metrics: {found}")
    return found


def tensorboard(data, folder):
    try:
        import tensorboard
        from tensorboard.backend.event_processing import event_accumulator, event_file_loader
    except ImportError as missing:
        print(f"TensorBoard is not compared: {missing}")
        return False
    print(f"tensorboard {tensorboard.__version__}")
    board = os.path.join(folder, "board")
    lines = trained(data, folder, ["--tensorboard-dir", board, "--log-timers-to-tensorboard", "--log-validation-ppl-to-tensorboard"])
    reader = event_accumulator.EventAccumulator(board, size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    events = {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    for tag, values in wanted(lines).items():
        if events[tag] != values or events[tag + " vs samples"] != [(8 * step, value) for step, value in values]:
            sys.exit(f"{tag}: {events[tag]}, {events[tag + ' vs samples']}; --metrics has {values}")
    for name, texts in samples(lines).items():
        read = [(e.step, e.tensor_proto.string_val[0].decode()) for e in reader.Tensors(f"{name}/text_summary")]
        if read != texts or reader.SummaryMetadata(f"{name}/text_summary").plugin_data.plugin_name != "text":
            sys.exit(f"{name}: {read}; --metrics has {texts}")
    text = reader.Tensors("num_layers/text_summary")[-1].tensor_proto.string_val[0]
    if text != b"4" or reader.SummaryMetadata("num_layers/text_summary").plugin_data.plugin_name != "text":
        sys.exit(f"num_layers is the text {text}")
    count = sum(1 for path in glob.glob(os.path.join(board, "*")) for _ in event_file_loader.EventFileLoader(path).Load())
    print(f"{count} events in {len(os.listdir(board))} files: {len(events)} tags, {len(lines)} lines of --metrics, equal")
    return True


def wandb_values(folder, datastore, records):
    """The run's record and the rows of one folder, by wandb's classes."""
    [path] = glob.glob(os.path.join(folder, "run-*.wandb"))
    from google.protobuf.unknown_fields import UnknownFieldSet
    store, rows, about = datastore(), [], None
    store.open_for_scan(path)
    while (data := store.scan_data()) is not None:
        record = records.Record()
        record.ParseFromString(data)
        if len(UnknownFieldSet(record)) or len(UnknownFieldSet(getattr(record, record.WhichOneof("record_type")))):
            sys.exit(f"fields that wandb does not know: {record}")
        kind = record.WhichOneof("record_type")
        if kind == "run":
            about = record.run
        if kind == "history":
            rows.append({item.key: json.loads(item.value_json) for item in record.history.item})
            if rows[-1]["_step"] != record.history.step.num:
                sys.exit(f"a row of step {record.history.step.num}: {rows[-1]}")
    return about, rows


def same_rows(rows, lines, what):
    for tag, values in wanted(lines, float).items():
        if [(row["_step"], row[tag]) for row in rows if tag in row] != values:
            sys.exit(f"{what}: {tag}: {[(row['_step'], row[tag]) for row in rows if tag in row]}; --metrics has {values}")
    for name, texts in samples(lines).items():
        if [(row["_step"], row[name]) for row in rows if name in row] != texts:
            sys.exit(f"{what}: {name}: {[(row['_step'], row.get(name)) for row in rows]}; --metrics has {texts}")


def uploaded(folders, lines):
    """wandb's program uploads the first folder, and appends the resumed one's rows; later versions than 0.28 take both at once."""
    env = dict(os.environ, WANDB_BASE_URL=wandb_service.start(), WANDB_API_KEY="a" * 40, WANDB_SILENT="false")
    sync = [sys.executable, "-m", "wandb", "sync"]
    appends = "--append" in subprocess.run([*sync, "--help"], env=env, cwd=os.path.dirname(folders[0]), capture_output=True, text=True).stdout
    for more in [folders[:1], ["--append", *folders[1:]]] if appends else [["--yes", *folders]]:
        done = subprocess.run([*sync, *more], env=env, cwd=os.path.dirname(folders[0]), capture_output=True, text=True, timeout=120)
        if done.returncode:
            sys.exit(f"wandb sync {more}: {done.stdout}{done.stderr}")
    [[name, rows]] = wandb_service.Service.histories.items()
    rows = [rows[place] for place in sorted(rows)]
    same_rows(rows, lines, "uploaded rows")
    if wandb_service.Service.configs[name]["num_layers"]["value"] != 4:
        sys.exit(f"the uploaded configuration is {wandb_service.Service.configs[name]}")
    print(f"wandb sync uploads {len(rows)} rows of run {name}, equal")


def wandb(data, folder):
    try:
        import wandb
        from wandb.proto import wandb_internal_pb2
    except ImportError as missing:
        print(f"wandb is not compared: {missing}")
        return False
    print(f"wandb {wandb.__version__}")
    lines = trained(data, folder, ["--wandb-project", "jotun", "--wandb-exp-name", "outside", "--wandb-save-dir", f"{folder}/w",
                                   "--log-validation-ppl-to-tensorboard"])
    uploaded(sorted(glob.glob(f"{folder}/w/wandb/offline-run-*")), lines)
    try:
        DataStore = importlib.import_module("wandb.sdk.int" "ernal.datastore").DataStore
    except ImportError as missing:
        print(f"wandb's reader in Python is not compared: {missing}; the versions up to 0.28 have it")
        return True
    read = [wandb_values(each, DataStore, wandb_internal_pb2) for each in sorted(glob.glob(f"{folder}/w/wandb/offline-run-*"))]
    abouts, rows = [about for about, _ in read], [row for _, part in read for row in part]
    if len(read) != 2 or abouts[0].run_id != abouts[1].run_id or not abouts[1].resumed or abouts[1].starting_step != 16 or abouts[0].project != "jotun":
        sys.exit(f"the runs are {abouts}")
    config = {item.key: json.loads(item.value_json) for item in abouts[1].config.update}
    if config["num_layers"] != 4 or config["lr"] != 1e-3 or abouts[0].display_name != "outside":
        sys.exit(f"the configuration is {config}")
    same_rows(rows, lines, "records")
    print(f"{len(rows)} rows in 2 folders of one run, {len(lines)} lines of --metrics, equal")
    return True


compared = []
for compare in tensorboard, wandb:
    with comparison.temporary() as folder:
        compared.append(compare(run.corpus(folder), folder))
if not any(compared):
    comparison.skip("neither tensorboard nor wandb is there")
