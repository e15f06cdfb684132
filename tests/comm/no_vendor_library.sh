#!/bin/sh
# usage: no_vendor_library.sh PROGRAM     Libraries of GPU vendors are opened at run time: a program that needs one to start would not run
# on machines without it.
command -v readelf > /dev/null || { echo "skipped: no readelf"; exit 77; }
needed=$(readelf -d "$1" | grep NEEDED) || exit 1
found=$(echo "$needed" | grep -iE 'nccl|rccl|cublas|cudart|libcuda|cudnn|hipblas|amdhip|nvrtc')
[ -z "$found" ] || { echo "$1 needs $found"; exit 1; }
echo "$needed" | wc -l
