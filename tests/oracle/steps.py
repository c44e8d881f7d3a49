#!/usr/bin/env python3
"""What fills the steps of a Kineto trace? An independent answer by the definitions of PyTorch's TensorBoard plugin.

Usage: steps.py FILE...   (.json, .gz)

Prints one JSON object a file: {"file", "steps": [{"name", "start", "dur", "kernel_ns", "memcpy_ns", "memset_ns",
"communication_ns", "runtime_ns", "dataloader_ns", "cpu_exec_ns", "other_ns"}], "utilization": {"device": share}}.

A step is a `ProfilerStep#N` with its own start and end. Each instant of it counts as the first of Kernel, Memcpy,
Memset, Communication, Runtime, DataLoader, CPU Exec and Other that holds, on any device and thread. Communication is
kernels of collectives and the host ranges `nccl:` and `gloo:`; Runtime includes calls of the driver API; CPU Exec is
operators and annotations; DataLoader, beyond the plugin, also the function that opens its range. The utilization of a device is the time in which any kernel runs on it in steps, by the sum
of the steps. The plugin counts all steps; here the first and the last do not count if there are at least four, nor a last
one of at most three that is shorter than half of the one before. Times are integer nanoseconds. Counts by sweeping over all edges with one counter a role, where Lacuna
unites spans role by role. Standard library only; shares no code with Lacuna.
"""
import collections
import gzip
import json
import re
import sys
from decimal import Decimal

ROLES = ["kernel_ns", "memcpy_ns", "memset_ns", "communication_ns", "runtime_ns", "dataloader_ns", "cpu_exec_ns"]
BY_CATEGORY = {
    "gpu_memcpy": 1, "memcpy": 1, "gpu_memset": 2, "memset": 2, "cuda_runtime": 4, "runtime": 4, "cuda_driver": 4,
}
HOST = {"cpu_op", "operator", "user_annotation"}
COLLECTIVE = re.compile(r"nccl|rccl|hccl", re.IGNORECASE)
LOADER = re.compile(r"torch/utils/data/dataloader\.py\(\d+\): __next__$")


def ns(value):
    return int(Decimal(value) * 1000)


def role_of(event):
    name, category = event["name"], event["cat"].lower()
    if category == "kernel":
        is_collective = COLLECTIVE.search(name) or "Collective name" in event.get("args", {})
        return 3 if is_collective else 0
    if category == "python_function":
        return 5 if LOADER.search(name) else None
    if category in HOST:
        if name.startswith("ProfilerStep#"):
            return None
        if name.startswith("enumerate(DataLoader)#") and name.endswith(".__next__"):
            return 5
        return 3 if name.startswith(("nccl:", "gloo:")) else 6
    return BY_CATEGORY.get(category)


def sweep(edges, steps, n):
    """For each step the time of each of n states, the first that has any slice running; the last is none."""
    answer = [[0] * n for _ in steps]
    # At one instant, what ends and what starts may come in any order: no time passes.
    edges = sorted(edges)
    running = [0] * (n - 1)
    at, previous = 0, None
    for start, end, parts in [(start, end, parts) for (start, end), parts in zip(steps, answer)]:
        while at < len(edges) and edges[at][0] <= start:
            running[edges[at][1]] += edges[at][2]
            at += 1
        previous = start
        while at < len(edges) and edges[at][0] < end:
            state = next((i for i in range(n - 1) if running[i]), n - 1)
            parts[state] += edges[at][0] - previous
            previous = edges[at][0]
            running[edges[at][1]] += edges[at][2]
            at += 1
        state = next((i for i in range(n - 1) if running[i]), n - 1)
        parts[state] += end - previous
    return answer


def answer(trace):
    steps, edges, kernels = [], [], collections.defaultdict(list)
    for event in trace if isinstance(trace, list) else trace["traceEvents"]:
        if event.get("ph") != "X" or not isinstance(event.get("cat"), str):
            continue
        start, dur = ns(event["ts"]), ns(event.get("dur", 0))
        if event["cat"].lower() in HOST and event["name"].startswith("ProfilerStep#"):
            steps.append((start, start + dur, event["name"]))
            continue
        role = role_of(event)
        if role is not None:
            edges += [(start, role, 1), (start + dur, role, -1)]
        if event["cat"].lower() == "kernel":
            kernels[str(event["pid"])] += [(start, 0, 1), (start + dur, 0, -1)]
    steps.sort()
    times = [(start, end) for start, end, _ in steps]
    parts = sweep(edges, times, 8)
    durs = [end - start for start, end in times]
    if len(durs) >= 4:
        times = times[1:-1]
    elif len(durs) > 1 and 2 * durs[-1] < durs[-2]:
        times = times[:-1]
    total = sum(end - start for start, end in times)
    busy = {pid: sum(part[0] for part in sweep(of, times, 2)) for pid, of in kernels.items()}
    return {
        "steps": [
            {"name": name, "start": start, "dur": end - start, **dict(zip(ROLES + ["other_ns"], parts))}
            for (start, end, name), parts in zip(steps, parts)
        ],
        "utilization": {pid: busy[pid] / total for pid in sorted(busy)} if total else {},
    }


def main():
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            data = file.read()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        trace = json.loads(data.decode("utf-8-sig", "replace"), parse_float=Decimal, strict=False)
        print(json.dumps({"file": path, **answer(trace)}))


main()
