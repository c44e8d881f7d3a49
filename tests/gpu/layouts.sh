#!/usr/bin/env bash
# layouts.sh INCLUDE...: compares the CUPTI headers in the first folder that has them with what the recorder reads.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=
for folder in "$@"; do [ -e "$folder/cupti_activity.h" ] && dir=$folder && break; done
[ -n "$dir" ] || { echo "No cupti_activity.h in: $*"; exit 2; }
includes=(); for folder in "$@"; do includes+=("-I$folder"); done
# The newest type of each record; those of older versions are in the deprecated header.
newest() { grep -ohE "\} *CUpti_Activity$1[0-9]*;" "$dir"/cupti_activity.h | grep -oE "CUpti_Activity$1[0-9]*" | sort -V | tail -1; }
out=$(mktemp)
cc "${includes[@]}" -DKERNEL="$(newest Kernel)" -DMEMCPY="$(newest Memcpy)" -DMEMCPY_PEER="$(newest MemcpyPtoP)" \
    -DMEMSET="$(newest Memset)" -DMEMORY="$(newest Memory)" -DSYNC="$(newest Synchronization)" \
    -DEVENT="$(newest CudaEvent)" -DGRAPH="$(newest GraphTrace)" -DOVERHEAD="$(newest Overhead)" \
    -o "$out" "$here/layouts.c" && "$out"
result=$?
rm -f "$out"
exit $result
