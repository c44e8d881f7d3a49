#!/usr/bin/env bash
# record.sh LACUNA OUT: runs each fault of faults.py with and without it, twice each, and records it once.
#
# OUT gets NAME.answer.json (the fault, and the step times that the program measured without a recorder, in milliseconds)
# and the recordings, compressed and without the paths of this machine. Needs a GPU and PyTorch.
set -euo pipefail
lacuna=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2" && out=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"

launcher() { if [ "$1" = late_rank ]; then echo "torchrun --nproc-per-node 2 faults.py $1"; else echo "python3 faults.py $1"; fi; }
measured() { $(launcher "$1") "${@:2}" 2>/dev/null | tail -1; }
options() {
    case $1 in
    leak) echo --stacks --memory --profile-memory --wait 1 --active 14 ;;
    limit) echo --memory --no-trace ;;
    late_rank) echo --stacks --ranks all --wait 6 --active 5 ;;
    # A frame for each word would be most of what is recorded.
    collate | optimizer_loop) echo --wait 8 --active 6 ;;
    *) echo --stacks --wait 8 --active 6 ;;
    esac
}

for fault in ${FAULTS:-none garbage empty_cache checkpoint collate optimizer_loop leak limit late_rank}; do
    for _ in 1 2; do
        [ "$fault" = limit ] && continue
        measured "$fault" >>"$work/$fault.jsonl"
        measured "$fault" --fixed >>"$work/$fault.jsonl"
    done
    # shellcheck disable=SC2046
    "$lacuna" capture $(options "$fault") --no-gpu-counters --out "$work/$fault" -- $(launcher "$fault") >"$work/log" 2>&1 ||
        [ "$fault" = limit ] || tail -5 "$work/log"
    python3 keep.py "$fault" "$work" "$out"
    rm -rf "${work:?}/$fault"
done
