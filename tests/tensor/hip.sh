#!/bin/sh
# hip.sh SOURCE: all kernels of src/tensor/cuda compile for gfx90a by hipcc, host and device, without a warning. Nothing is run.
set -eu
HIPCC=${HIPCC:-$(command -v hipcc || true)}
[ -n "$HIPCC" ] || { echo "skipped: no hipcc (Debian: hipcc, libamdhip64-dev)"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
find "$1/src/tensor/cuda" -name '*.cu' | sort |
    xargs -P 2 -I SOURCE sh -c '"$0" -x hip --offload-arch=gfx90a -O1 -std=c++17 -Wall -Wextra -Wshadow -Werror -I"$1/src" -c "$2" -o "$3/$(basename "$2").o" || { echo "$2 does not compile"; exit 255; }' \
        "$HIPCC" "$1" SOURCE "$out"
echo "$(ls "$out" | wc -l) files compile for gfx90a"
