#!/usr/bin/env bash
# cupti.sh BIN OUT: what needs a real GPU to be tested of the recorder and the workload, in about three minutes.
#
# BIN holds `lacuna` and `liblacuna_inject.so`; OUT is an empty folder for what was recorded. Needs python3 and cc;
# with PyTorch it also records a program of its. Lines that begin with FAIL say what is wrong.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
mkdir -p "$2" && out=$(cd "$2" && pwd)
lacuna=$bin/lacuna
inject=$bin/liblacuna_inject.so
n_failed=0
title() { printf '\n== %s\n' "$*"; }
check() { if [ "$2" = 0 ]; then echo "ok   $1"; else echo "FAIL $1"; n_failed=$((n_failed + 1)); fi; }
# recorded FOLDER COMMAND...: the command under the recorder.
recorded() {
    local folder=$out/$1; shift; mkdir -p "$folder"
    env LACUNA_INJECT_OUT="$folder" CUDA_INJECTION64_PATH="$inject" NVTX_INJECTION64_PATH="$inject" "$@"
}
# begun FOLDER SECONDS: a long workload under the recorder, in the background, as the process $pid.
begun() {
    mkdir -p "$out/$1"
    LACUNA_INJECT_OUT="$out/$1" CUDA_INJECTION64_PATH="$inject" NVTX_INJECTION64_PATH="$inject" \
        timeout --foreground -s KILL 60 "$lacuna" workload --steps 1000000 >/dev/null & pid=$!
    sleep "$2"; pid=$(pgrep -P $pid)
}
statuses() { cat "$out/$1"/*.status 2>/dev/null || echo "no status"; }
number() { python3 -c "import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])" "$@"; }

title "machine"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
packages=$(python3 -c 'import site; print("\n".join(site.getsitepackages()))' 2>/dev/null)
includes=(); for p in $packages; do includes+=("$p"/nvidia/cu13/include "$p"/nvidia/cuda_cupti/include); done
for toolkit in "${CUDA_HOME:-}" /usr/local/cuda; do [ -n "$toolkit" ] && includes+=("$toolkit"/extras/CUPTI/include "$toolkit"/include); done
find / -name 'libcupti.so*' -not -path '/proc/*' 2>/dev/null | head -8

title "layouts of records"
"$here/layouts.sh" "${includes[@]}"; check "headers agree with what is read" $?

title "workload alone"
timeout 60 "$lacuna" workload --steps 20 >"$out/alone.json"; check "runs" $?
cat "$out/alone.json" | head -40

title "workload, recorded"
recorded workload timeout 60 "$lacuna" workload --steps 20 >"$out/workload.json"; check "runs" $?
statuses workload
if statuses workload | grep -q 'No libcupti'; then
    echo "FAIL a libcupti is found; the rest names it"; n_failed=$((n_failed + 1))
    LACUNA_CUPTI=$(find / -name 'libcupti.so.1[0-9]*' -not -path '/proc/*' 2>/dev/null | head -1); export LACUNA_CUPTI
    rm -rf "$out/workload"; recorded workload timeout 60 "$lacuna" workload --steps 20 >"$out/workload.json"; statuses workload
fi
python3 "$here/check_trace.py" "$out"/workload/*.json "$out/workload.json"; check "the trace is true" $?
"$lacuna" check "$out"/workload/*.json; check "opens" $?
"$lacuna" report "$out"/workload/*.json >"$out/report.txt" 2>&1; check "is reported" $?
head -40 "$out/report.txt"

title "graphs as a whole"
recorded graphs env LACUNA_CUPTI_GRAPHS=whole timeout 60 "$lacuna" workload --steps 5 >"$out/graphs.json"; check "runs" $?
grep -c 'CUDA graph' "$out"/graphs/*.json
python3 "$here/check_trace.py" "$out"/graphs/*.json "$out/graphs.json"; check "the trace is true" $?

title "SIGTERM"
begun term 4
kill -TERM "$pid"; started=$(date +%s%N); wait $!; rc=$?
echo "exit code $rc after $((($(date +%s%N) - started) / 1000000)) ms"; check "ends by the signal" $((rc != 143))
statuses term; statuses term | grep -q '"state": "finished"'; check "all is written" $?
"$lacuna" check "$out"/term/*.json; check "opens" $?

title "SIGKILL"
begun kill 5.5
killed=$(date +%s%N); kill -KILL "$pid"; wait $! 2>/dev/null
statuses kill
python3 - "$out"/kill/*.json "$killed" <<'P'
import json, re, sys
text, base, last = open(sys.argv[1]).read(), None, 0
base = int(re.search(r'"baseTimeNanoseconds":(\d+)', text)[1])
for m in re.finditer(r'"cat":"kernel".*?"ts":([\d.]+)', text):
    last = max(last, float(m[1]))
lost = (int(sys.argv[2]) - base) / 1e9 - last / 1e6
print(f"the last kernel in the file began {lost:.3f} s before the kill")
sys.exit(not 0 <= lost < 2.5)
P
check "little is lost" $?
"$lacuna" check "$out"/kill/*.json; check "opens" $?

title "cost of a launch"
for i in 1 2 3; do
    timeout 100 "$lacuna" workload --steps 1 --launches 200000 >"$out/l.json"; alone=$(number "$out/l.json" launch_ns)
    recorded launches$i timeout 100 "$lacuna" workload --steps 1 --launches 200000 >"$out/l.json"; with=$(number "$out/l.json" launch_ns)
    echo "launch on the host: $alone ns alone, $with ns recorded; $(statuses launches$i | grep -o '"problems": \[[^]]*\]')"
    ls -l "$out"/launches$i/*.json | awk '{print $5, "bytes"}'
    rm -rf "$out/launches$i"
done

title "no libcupti"
recorded nowhere env LACUNA_CUPTI=/nowhere/libcupti.so timeout 60 "$lacuna" workload --steps 1 >/dev/null; check "runs on" $?
statuses nowhere; statuses nowhere | grep -q 'cannot be loaded'; check "says why" $?

if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    cat >"$out/loop.py" <<'P'
import sys, time, torch
how = sys.argv[1]
x = torch.zeros(1024, device="cuda")
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
opt = torch.optim.AdamW(model.parameters())
def loop(n):
    torch.cuda.synchronize(); begin = time.perf_counter()
    for _ in range(n): x.add_(1)
    cost = (time.perf_counter() - begin) / n
    torch.cuda.synchronize()
    return cost * 1e6
loop(1000)
for i in range(5):
    torch.cuda.nvtx.range_push(f"step {i}")
    loss = model(torch.randn(64, 512).cuda()).square().mean(); loss.backward(); opt.step(); opt.zero_grad(); loss.item()
    torch.cuda.nvtx.range_pop()
if how == "profiler":
    with torch.profiler.profile() as p: print(how, "%.3f us a launch" % loop(20000))
    print(len(p.events()), "events of torch.profiler")
else:
    print(how, "%.3f us a launch" % loop(20000))
P
    title "PyTorch"
    timeout 100 python3 "$out/loop.py" alone; check "alone" $?
    recorded torch timeout 100 python3 "$out/loop.py" recorded; check "recorded" $?
    statuses torch; ls -l "$out"/torch
    "$lacuna" report "$out"/torch/*.json >"$out/torch_report.txt" 2>&1; check "is reported" $?; head -30 "$out/torch_report.txt"
    python3 - "$out"/torch/*.json <<'P'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
kernels = [e for e in events if e.get("cat") == "kernel"]
calls = {e["args"]["correlation"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
n_driver = sum(e.get("cat") == "cuda_driver" for e in events)
mangled = {e["name"] for e in kernels if e["name"].startswith("_Z")}
print(len(kernels), "kernels;", sum(e["args"]["correlation"] not in calls for e in kernels), "without a call;", n_driver, "driver calls;", len(mangled), "mangled names")
print(sorted({e["name"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}))
sys.exit(len(kernels) < 21000 or sum(e.get("name", "").startswith("step ") for e in events) != 5)
P
    check "kernels and ranges" $?
    timeout 100 python3 "$out/loop.py" profiler; check "torch.profiler alone" $?
    title "PyTorch profiler and the recorder in one process: either works"
    recorded both timeout 100 python3 "$out/loop.py" profiler; echo "exit code $?"; statuses both
    rm -rf "$out/both"
fi
# What is kept must be small.
for file in "$out"/*/*.json; do gzip -f "$file"; done
find "$out" -name '*.gz' -size +8M -delete
du -sh "$out"
title "$n_failed failed"
exit $((n_failed != 0))
