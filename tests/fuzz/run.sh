#!/bin/sh
# Every fuzz target, or those that are named, for some seconds, and what it did: run.sh BUILD [SECONDS [TARGET...]]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
seconds=${2:-60}
PYTHONPATH="$here/../cli" python3 "$here/seeds.py" "$build/seeds"
status=0
[ $# -lt 2 ] && shift || shift 2
[ $# -gt 0 ] || set -- shard foreign fasttext json_line gz zst bz2 wiki record charset quality shingle yaml script torch_zip torch_older pickle hf_folder manifest metadata llmc megatron_ranks nanogpt llmc_state torch_optimizer tokenizer_json tokenizer_model tokenizer_tiktoken
for target; do
    grown=$build/grown/$target
    mkdir -p "$grown" "$build/found"
    case $target in megatron_ranks|nanogpt|torch_optimizer|tokenizer_*) longest=16384 ;; *) longest=4096 ;; esac
    "$build/bin/fuzz_$target" -max_total_time="$seconds" -max_len=$longest -timeout=10 -print_final_stats=1 -artifact_prefix="$build/found/$target-" \
        "$grown" "$build/seeds/$target" > "$build/$target.log" 2>&1 || status=1
    echo "$target: $(sed -n 's/stat::number_of_executed_units: */executions /p' "$build/$target.log")," \
        "coverage $(grep -o 'cov: [0-9]*' "$build/$target.log" | tail -n 1)," \
        "$(find "$build/found" -name "$target-*" | wc -l) found"
done
rm -rf /dev/shm/jotun-fuzz-*
exit $status
