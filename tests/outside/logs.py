"""TensorBoard's own readers find the numbers of --metrics in our event files, after a kill and a resume too.
    logs.py        needs tensorboard (PyPI); JOTUN is the program"""
import glob
import json
import os
import struct
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))     # behind the standard library, whose "numbers" packages import
import run


def fp32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def trained(data, folder, more):
    """A run of 24 steps that is killed in its step 18 and resumed after step 15; its lines of --metrics."""
    words = ["train", "--data-path", data, *run.MODEL, "--train-iters", 24, "--threads", 1, "--save", f"{folder}/run", "--load", f"{folder}/run",
             "--save-interval", 5, "--metrics", f"{folder}/run.jsonl", "--eval-interval", 4, "--eval-iters", 1, "--split", "80,10,10",
             "--log-interval", 3, *more]
    killed = run.jotun(*words, check=False, env=dict(os.environ, JOTUN_FAULT="step:18:kill"))
    if killed.returncode != -9:
        sys.exit(f"the run to be killed ends with {killed.returncode}\n{killed.stderr}")
    run.jotun(*words)
    return [json.loads(line) for line in open(f"{folder}/run.jsonl")]


def wanted(lines):
    steps, evaluations = [r for r in lines if "split" not in r], [r for r in lines if r.get("split") == "valid"]
    found = {tag: [(r["step"], fp32(r[key])) for r in steps] for tag, key in (("lm loss", "loss"), ("learning-rate", "lr"), ("grad-norm", "grad_norm"))}
    found["lm loss validation"] = [(r["step"], fp32(r["loss"])) for r in evaluations]
    found["lm loss validation ppl"] = [(r["step"], fp32(r["perplexity"])) for r in evaluations]
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
    text = reader.Tensors("num_layers/text_summary")[-1].tensor_proto.string_val[0]
    if text != b"4" or reader.SummaryMetadata("num_layers/text_summary").plugin_data.plugin_name != "text":
        sys.exit(f"num_layers is the text {text}")
    count = sum(1 for path in glob.glob(os.path.join(board, "*")) for _ in event_file_loader.EventFileLoader(path).Load())
    print(f"{count} events in {len(os.listdir(board))} files: {len(events)} tags, {len(lines)} lines of --metrics, equal")
    return True


with tempfile.TemporaryDirectory() as folder:
    data = run.corpus(folder)
    sys.exit(0 if tensorboard(data, folder) else 77)
