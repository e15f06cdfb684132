#!/bin/sh
# What only a GPU can prove, in parts of at most 8 minutes each, where one is at hand:
#
#     bench/gpu/at_hand.sh PART...        kernels | sanitizer | layouts | nccl | speed | all
#
# kernels    the kernels beside ref, and training beside cpu (ctest -L gpu)
# sanitizer  compute-sanitizer's memcheck, racecheck, initcheck and synccheck on a step of a small model
# layouts    8 layouts of 2 and 4 ranks on one GPU, 20 steps, beside cpu; checkpoints that go on elsewhere; kill -9
# nccl       with two GPUs or more: training by NCCL beside staged and cpu, and ZeRO-1 on one, two and all GPUs
# speed      tokens per second of GPT-2 124M, and PyTorch's in the same minutes where it is installed
#
# It takes a build with kernels, BUILD (build/release), or another binary, JOTUN, and writes a table for docs/measurements.md into OUT (build/at_hand).
set -u
[ $# -gt 0 ] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 1; }
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build/release} OUT=${OUT:-build/at_hand}
JOTUN=${JOTUN:-$PWD/$BUILD/bin/jotun}
mkdir -p "$OUT"
TABLE=$OUT/table.md
failed=0
[ -x "$JOTUN" ] || { echo "at_hand: no $JOTUN: build where cmake finds nvcc, or set BUILD" >&2; exit 1; }
nvidia-smi > /dev/null 2>&1 || { echo "at_hand: nvidia-smi finds no GPU here" >&2; exit 77; }
DEVICE=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
GPUS=$(nvidia-smi -L | wc -l)
[ -s "$TABLE" ] || printf '| what | on | result | seconds |\n|---|---|---|---|\n' > "$TABLE"

# row NAME COMMAND...: runs it for at most 8 minutes, keeps what it printed and adds a line to the table
row()
{
    name=$1; shift
    begin=$(date +%s)
    timeout 480 "$@" > "$OUT/$name.log" 2>&1
    rc=$?
    case $rc in
    0)   result=passed ;;
    77)  result="skipped: $(tail -n 1 "$OUT/$name.log")" ;;
    124) result="ended after 8 minutes" failed=1 ;;
    *)   result="FAILED ($rc)" failed=1 ;;
    esac
    printf '| %s | %s, %s of it | %s | %s |\n' "$name" "$DEVICE" "$GPUS" "$result" "$(($(date +%s) - begin))" | tee -a "$TABLE"
}

# a text and its token file, made once
data()
{
    [ -s "$OUT/text_text_document.bin" ] && return
    awk 'BEGIN { srand(5); for (i = 0; i < 4000; i++) { line = ""; for (k = 0; k < 60; k++) line = line " " substr("theraofinjotunseesand", 1 + int(rand() * 18), 3); print line } }' > "$OUT/text.txt"
    "$JOTUN" prepare --input "$OUT/text.txt" --tokenizer bytes --append-eod --output-prefix "$OUT/text" > /dev/null
}

SMALL="--num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --threads 1 --log-interval 1"

kernels() { row kernels ctest --test-dir "$BUILD" -L gpu --output-on-failure --no-tests=error; }

sanitizer()
{
    data
    command -v compute-sanitizer > /dev/null || { echo "at_hand: no compute-sanitizer here" >&2; return; }
    for tool in memcheck racecheck initcheck synccheck; do
        row "sanitizer-$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$JOTUN" train --device cuda --bf16 --data-path "$OUT/text_text_document" $SMALL --train-iters 1
    done
}

layouts()
{
    row layouts env JOTUN="$JOTUN" SHIM_BINARY="$JOTUN" DEVICE_STEPS=20 DEVICE_LAYOUTS=8 PYTHONPATH=tests/cli python3 tests/train/device_ranks.py
}

nccl()
{
    data
    [ "$GPUS" -gt 1 ] || { echo "at_hand: nccl needs two GPUs, and there is one" >&2; return; }
    for ranks in 1 2 "$GPUS"; do
        row "zero1-$ranks" "$JOTUN" run --local "$ranks" -- "$JOTUN" train --device cuda --bf16 --zero-stage 1 --data-path "$OUT/text_text_document" --num-layers 12 --hidden-size 768 \
            --num-attention-heads 12 --seq-length 1024 --micro-batch-size 8 --global-batch-size $((8 * ranks)) --lr 1e-4 --train-iters 30 --log-interval 10 --device-transport auto
    done
    for transport in nccl staged; do
        row "tp2-$transport" "$JOTUN" run --local 2 -- "$JOTUN" train --device cuda --tp 2 --device-transport $transport --data-path "$OUT/text_text_document" $SMALL --train-iters 20
    done
}

speed() { row speed python3 bench/train/gpu_steps.py "$JOTUN"; }

[ "$1" != all ] || set -- kernels sanitizer layouts nccl speed
for part; do
    case $part in
    kernels|sanitizer|layouts|nccl|speed) "$part" ;;
    *) echo "at_hand: no part $part; parts are kernels, sanitizer, layouts, nccl, speed and all" >&2; exit 1 ;;
    esac
done
cat "$TABLE"
exit $failed
