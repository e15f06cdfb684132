#!/bin/sh
# Every fuzz target, or those that are named, for some seconds, and what it did: run.sh BUILD [SECONDS [TARGET...]]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
seconds=${2:-60}
PYTHONPATH="$here/../cli" python3 "$here/seeds.py" "$build/seeds"
status=0
[ $# -lt 2 ] && shift || shift 2
[ $# -gt 0 ] || set -- shard foreign fasttext json_line gz zst bz2 wiki record prose charset quality shingle yaml script deepspeed torch_zip torch_older pickle hf_folder manifest metadata llmc megatron_ranks nanogpt llmc_state torch_optimizer tokenizer_json tokenizer_model tokenizer_tiktoken special_ids completion_request request_head journal
# One target on each core: a target uses one. Those of a core are run one after the other.
fuzz() {
    grown=$build/grown/$1
    mkdir -p "$grown" "$build/found"
    case $1 in megatron_ranks|nanogpt|torch_optimizer|tokenizer_*) longest=16384 ;; *) longest=4096 ;; esac
    ended=0
    "$build/bin/fuzz_$1" -max_total_time="$seconds" -max_len=$longest -timeout=10 -print_final_stats=1 -artifact_prefix="$build/found/$1-" \
        "$grown" "$build/seeds/$1" > "$build/$1.log" 2>&1 || ended=1
    echo "$1: $(sed -n 's/stat::number_of_executed_units: */executions /p' "$build/$1.log")," \
        "coverage $(grep -o 'cov: [0-9]*' "$build/$1.log" | tail -n 1)," \
        "$(find "$build/found" -name "$1-*" | wc -l) found"
    return $ended
}
cores=$(nproc)
core=0
running=
while [ $core -lt "$cores" ]; do
    (
        at=0 worst=0
        for target; do
            if [ $((at % cores)) = $core ]; then fuzz "$target" || worst=1; fi
            at=$((at + 1))
        done
        exit $worst
    ) &
    running="$running $!"
    core=$((core + 1))
done
for job in $running; do wait "$job" || status=1; done
rm -rf /dev/shm/jotun-fuzz-*
exit $status
