#!/usr/bin/env python3
"""Idle time per stream by the rule of HolisticTraceAnalysis 0.5.0, in plain Python.

`TraceAnalysis(...).get_idle_time_breakdown(visualize=False)` with default arguments gives the same figures: this
was verified against the package from PyPI (pandas 2.3) on all real Kineto traces that HTA can read.

Usage: hta_idle.py FILE...; prints one line of JSON for each file: {"path", "streams": [{device, stream,
host_wait_us, kernel_wait_us, other_us}]}, or {"path", "error"}.

What the code does, which its documentation does not say:
* The threshold between kernel wait and other is 30 microseconds.
* If any event starts at a fraction of a microsecond, every start is rounded up and every end down.
* Of several names with "ProfilerStep", the work launched at or after the start of the last such range is left out.
* Work whose call is not in the file counts as launched by the first event of the file.
* Work on one stream that overlaps its predecessor counts as negative kernel wait.
"""

import gzip
import json
import math
import sys

WORK = {"kernel", "Kernel", "gpu_memset", "Memset", "gpu_memcpy", "Memcpy", "mtia_ccp_events"}
SYNC = {"Event Sync", "Context Sync"}
THRESHOLD_US = 30


def whole(value):
    """A stream number; -1 where there is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return -1


def rows_of(document):
    """The events that HTA keeps: (index, start, end, category, name, stream, correlation, device)."""
    events = document["traceEvents"] if isinstance(document, dict) else document
    is_fractional = any(isinstance(e.get("ts"), float) and e["ts"] != math.floor(e["ts"]) for e in events)
    rows = []
    for index, event in enumerate(events):
        if event.get("dur") is None or event.get("cat") is None or event["cat"] == "Trace":
            continue
        start, end = event["ts"], event["ts"] + event["dur"]
        if is_fractional:
            start, end = math.ceil(start), math.floor(end)
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        row = (index, start, end, event["cat"], str(event.get("name")), whole(args.get("stream", -1)))
        rows.append(row + (whole(args.get("correlation", -1)), args.get("device", -1)))
    return rows


def idle(document):
    """{(device, stream): [host wait, kernel wait, other]} in microseconds."""
    rows = rows_of(document)
    gpu = [r for r in rows if (r[5] >= 0 and r[6] >= 0) or r[4] in SYNC]
    on_gpu = {r[0] for r in gpu}
    cpu = [r for r in rows if r[0] not in on_gpu]
    start_of = {r[0]: r[1] for r in rows}
    call_of = {r[6]: r[0] for r in cpu if r[6] != -1}
    kept = [(r, 1) for r in rows]
    names = {r[4] for r in rows if "ProfilerStep" in r[4]}
    if len(names) > 1:
        last = max(r[1] for r in cpu if r[4] in names)
        cpu = [r for r in cpu if r[1] < last]
        launches = {}
        for r in cpu:
            launches[r[6]] = launches.get(r[6], 0) + 1
        kept = [(r, launches.get(r[6], 0)) for r in gpu] + [(r, 1) for r in cpu]
        start_of = {r[0]: r[1] for r, n in kept if n > 0}
    work = {}
    for r, count in kept:
        if r[3] in WORK and r[5] != -1:
            work.setdefault((r[7], r[5]), []).extend([r] * count)
    out = {}
    for key, ops in work.items():
        ops.sort(key=lambda r: r[1])
        sums = [0, 0, 0]
        for before, op in zip(ops, ops[1:]):
            gap = op[1] - before[2]
            launch = start_of.get(call_of.get(op[6], 0 if op[6] >= 0 else None))
            if launch is not None and launch > before[2]:
                sums[0] += gap
            elif gap < THRESHOLD_US:
                sums[1] += gap
            else:
                sums[2] += gap
        out[key] = sums
    return out


def answer(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            document = json.loads(file.read())
    except (OSError, ValueError) as error:
        return {"path": path, "error": str(error)}
    keys = ("host_wait_us", "kernel_wait_us", "other_us")
    streams = [
        {"device": device, "stream": stream, **dict(zip(keys, sums))} for (device, stream), sums in idle(document).items()
    ]
    return {"path": path, "streams": streams}


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(json.dumps(answer(path)))
