"""ZeRO-1 over the GPUs of one host by a model of its messages, not by measurement: the share of one GPU's speed that each of them keeps.

    zero1.py [--gpus 8] [--step-ms 41.7] [--bandwidth 150] [--latency-us 30]

GPT-2 124M, 16 sequences of 1,024 tokens on each GPU. --step-ms: of one GPU, as bench/train/gpu_steps.py measures it; the default is that of
the H100 of docs/howto/train-on-a-gpu.md. --bandwidth: GB/s that a rank sends while a collective runs ("bus bandwidth" of nccl-tests). NVLink 4 has 450 by
its data sheet; jotun gives a communicator at most 8 thread blocks, for which 150 is assumed, and the table has half and twice of that.

The model: backward takes twice as long as forward. Buckets (a layer each, at last the embedding) are reduced one after another, from the moment at which
backward has passed them; the blocks that spin in NCCL's kernels are lost to computation as long as these run. Each GPU updates its
part of the weights, an eighth of the time of one GPU, by which a row may be above 1; updated weights are gathered beside the next forward pass, of which the first layer needs the embedding at once.
"""
import argparse

LAYERS, WIDTH, VOCABULARY, POSITIONS = 12, 768, 50257, 1024
BLOCKS, MULTIPROCESSORS = 8, 132
UPDATE_MS = 124.4e6 * 30 / 3.0e12 * 1e3                 # AdamW: 30 bytes a parameter, at 90% of an H100's memory


def collective(parameters, width, gpus, bandwidth, latency):
    """ms of a reduce-scatter or an all-gather"""
    return latency / 1e3 + parameters * width * (gpus - 1) / gpus / (bandwidth * 1e9) * 1e3


def step(gpus, one, bandwidth, latency, gradient_width):
    layer, embedding = 12 * WIDTH * WIDTH + 13 * WIDTH, (VOCABULARY + POSITIONS) * WIDTH
    forward = (one - UPDATE_MS) / 3
    buckets = [layer] * LAYERS + [embedding]
    # each layer's share of backward; the head's, about a third of it, comes first, and its gradient is the embedding's, which is last
    head = VOCABULARY / (VOCABULARY + 12 * WIDTH * LAYERS)
    spent, done = 2 * forward * head, 0.0
    for i, parameters in enumerate(buckets):
        spent += 2 * forward * (1 - head) / LAYERS if i < LAYERS else 0
        done = max(done, spent) + collective(parameters, gradient_width, gpus, bandwidth, latency)
    reducing = sum(collective(p, gradient_width, gpus, bandwidth, latency) for p in buckets)
    gathering = sum(collective(p, 2, gpus, bandwidth, latency) for p in buckets)
    beside = min(reducing + gathering, 3 * forward) * BLOCKS / MULTIPROCESSORS
    first = collective(embedding, 2, gpus, bandwidth, latency)
    return forward + done + UPDATE_MS / gpus + first + beside


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--gpus", type=int, default=8)
    words.add_argument("--step-ms", type=float, default=41.7)
    words.add_argument("--bandwidth", type=float, default=150)
    words.add_argument("--latency-us", type=float, default=30)
    given = words.parse_args()
    print(f"{given.gpus} GPUs, {given.step_ms} ms a step on one; a model, not a measurement\n{'GB/s':>6} {'gradients':>10} {'ms a step':>10} {'of one GPU':>11}")
    for bandwidth in given.bandwidth / 2, given.bandwidth, 2 * given.bandwidth:
        for name, width in ("fp32", 4), ("bf16", 2):
            ms = step(given.gpus, given.step_ms, bandwidth, given.latency_us, width)
            print(f"{bandwidth:6.0f} {name:>10} {ms:10.1f} {given.step_ms / ms:11.3f}")


main()
