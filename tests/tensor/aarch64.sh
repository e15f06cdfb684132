#!/usr/bin/env bash
# Compiles tensors and their tests for AArch64 and runs them by qemu-user:      aarch64.sh ROOT FOLDER [TEST...]
#
# So the NEON kernels run with NEON's own instructions, fused multiply-adds among them: every row of ops.def against ref within the
# bounds of ops_test.c, and fp32 to the bit like AVX-512 by the emulated family. Wants gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and
# qemu-user. The options of the compiler are those of CMakeLists.txt and cmake/modules.cmake.
set -euo pipefail
cd "$1"; folder=$2; shift 2
[ $# -gt 0 ] || set -- tensor/ops_test tensor/ops_law_test tensor/flash_test tensor/gemm_test tensor/dtype_test tensor/fused_test tensor/fp8_test tensor/generation_rows_test tensor/generation_rows_test tensor/loss_scale_test base/random_test
compiler=aarch64-linux-gnu-gcc; machine=qemu-aarch64
for program in $compiler $machine; do
    command -v "$program" > /dev/null || { echo "aarch64.sh: $program is missing: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2; exit 77; }
done
options="-std=c17 -D_GNU_SOURCE -O3 -g1 -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror -Isrc -Itests -Itests/tensor/cross"
mkdir -p "$folder"
objects=""
for source in src/base/*.c src/tensor/*.c src/tensor/{cpu,cpu/flash,cpu/int8,ref,dry}/*.c; do
    object=$folder/$(echo "${source%.c}" | tr / -).o
    # shellcheck disable=SC2086
    $compiler $options -c -o "$object" "$source"
    objects="$objects $object"
done
failed=0
for test in "$@"; do
    program=$folder/$(basename "$test")
    # shellcheck disable=SC2086
    $compiler $options -static -o "$program" "tests/$test.c" $objects -lm -lpthread
    begun=$SECONDS
    echo "aarch64: $test"
    if $machine "$program"; then echo "aarch64: $test passed ($((SECONDS - begun)) s)"; else echo "aarch64: $test FAILED"; failed=1; fi
done
exit $failed
