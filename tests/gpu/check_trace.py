"""check_trace.py TRACE WORKLOAD.json: compares what was recorded of `lacuna workload` with what it says of itself."""
import json, statistics, sys

trace = json.load(open(sys.argv[1]))
said = json.load(open(sys.argv[2]))
events = trace["traceEvents"]
of = lambda cat: [e for e in events if e.get("cat") == cat]
n_failed = 0


def check(name, ok, detail=""):
    global n_failed
    n_failed += not ok
    print("ok  " if ok else "FAIL", name, detail)


kernels = sorted(of("kernel"), key=lambda e: e["ts"])
calls = {e["args"]["correlation"]: e for e in of("cuda_driver") + of("cuda_runtime")}
print("events by category:", {c: len(of(c)) for c in sorted({e.get("cat") for e in events if e.get("cat")})})
print("calls by name:", {n: sum(e["name"] == n for e in calls.values()) for n in sorted({e["name"] for e in calls.values()})})
has_whole_graphs = any(e["name"].startswith("CUDA graph") for e in kernels)
for name, n in said["kernels"].items():
    found = sum(e["name"] == name for e in kernels)
    check(f"count of {name}", found == n or (has_whole_graphs and name == "lacuna_small"), f"{found} of {n}")
large = [e for e in kernels if e["name"] == "lacuna_large"]
errors = [(ms * 1000 - e["dur"], ms) for e, ms in zip(large, said["large_kernel_ms"])]
if errors:
    us = [e for e, _ in errors]
    # Two events around a kernel include the gaps before and after it: some microseconds.
    print(f"CUDA events minus recorded duration, in us: median {statistics.median(us):.3f}, min {min(us):.3f}, max {max(us):.3f};"
          f" kernel {statistics.median(ms for _, ms in errors):.3f} ms")
    check("durations agree with CUDA events", all(-2 < e < 50 for e in us))
copies = of("gpu_memcpy")
names = {n: sum(e["name"] == n for e in copies) for n in {e["name"] for e in copies}}
expected = said["copies"]
check("copies", names.get("Memcpy HtoD (Pinned -> Device)") == expected["pinned_to_device"]
      and names.get("Memcpy DtoH (Device -> Pinned)") == expected["device_to_pinned"]
      and sum(e["args"]["bytes"] for e in copies if "Pageable" in e["name"]) == expected["pageable_to_device"] * said["copy_bytes"], names)
check("bandwidths are possible", all(0 < e["args"]["bytes"] / max(e["dur"], 0.001) < 4e6 for e in copies))
work = kernels + copies + of("gpu_memset")
lost = [e for e in work if e["args"]["correlation"] not in calls]
check("every piece of device work has its call", not lost, f"{len(lost)} of {len(work)} without")
early = [e for e in work if e["args"]["correlation"] in calls and e["ts"] < calls[e["args"]["correlation"]]["ts"]]
check("no work begins before its call", not early, f"{len(early)}; worst {min([e['ts'] - calls[e['args']['correlation']]['ts'] for e in early], default=0):.3f} us")
waits = sorted((e for e in calls.values() if "Synchronize" in e["name"]), key=lambda e: e["ts"])
steps = sorted((e for e in of("user_annotation") if e["name"].startswith("step ")), key=lambda e: e["ts"])
check("steps by NVTX", len(steps) == said["steps"])
late = 0
for e, step in zip(large, steps):
    late += not (step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"])
check("each large kernel lies in its step", late == 0, f"{late} outside")
slack = [w["ts"] + w["dur"] - (e["ts"] + e["dur"]) for e in large for w in waits
         if w["ts"] <= e["ts"] + e["dur"] <= w["ts"] + w["dur"] + 1000][:len(large)]
if slack:
    print(f"host's wait ends after the large kernel, in us: median {statistics.median(slack):.3f}, min {min(slack):.3f}, max {max(slack):.3f}")
live = {}
for e in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
    device = e["args"]["Device Id"]
    live[device] = live.get(device, 0) + e["args"]["Bytes"]
check("bytes live at the end are the leak", live.get(0) == said["leaked_bytes"], f"{live}, leaked {said['leaked_bytes']}")
graphs = {e["args"].get("graph id") for e in kernels} - {None}
check("graph kernels are marked", bool(graphs), graphs)
threads = {e["tid"] for e in calls.values()} & {e["tid"] for e in steps}
check("calls and ranges are on one thread", len(threads) == 1, threads)
check("properties of the device", trace.get("deviceProperties", [{}])[0].get("name") == said["device"], trace.get("deviceProperties"))
print("dropped:", trace.get("dropped_records"), trace.get("dropped_nvtx_events"), "overhead:",
      {n: (sum(e["name"] == n for e in of("overhead")), round(sum(e["dur"] for e in of("overhead") if e["name"] == n))) for n in {e["name"] for e in of("overhead")}})
sys.exit(n_failed != 0)
