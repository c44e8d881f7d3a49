#!/usr/bin/env python3
"""What does a Chrome trace say about each GPU? An independent answer, to test Lacuna against.

Usage: kineto.py FILE...   (.json, .gz, .tar or .tar.gz of them)

Prints one JSON object a file: {"file", "traces": [{"member"?, "devices": [...]}]} with, for each
process id that has kernels, copies or memsets: kernels (count), memcpys, memsets, window [start, end], window_ns,
busy_ns (union of kernels, copies and memsets over all streams) and idle_ns. Times are integer
nanoseconds, from the digits of the text. Beside them "collectives" and "syncs": {"values|of|one": count}, for
each set of values that events have, with nothing for what they do not say. Standard library only; shares no
code with Lacuna.
"""
import gzip
import io
import json
import math
import re
import sys
import tarfile
from decimal import Decimal

# The category names of every era (2020-21 with capitals) and of ROCm.
KINDS = {
    "kernel": "kernels", "gpu_memcpy": "memcpys", "memcpy": "memcpys", "gpu_memset": "memsets", "memset": "memsets",
}


# Bytes of an element of each type that PyTorch names.
SIZES = {
    "Bool": 1, "Byte": 1, "Char": 1, "Half": 2, "BFloat16": 2, "Short": 2, "Int": 4, "Float": 4, "Long": 8, "Double": 8,
}
# Names of the same in C++.
TYPES = {"float": "Float", "double": "Double", "int": "Int", "long int": "Long", "bool": "Bool", "c10::BFloat16": "BFloat16"}


def ns(value):
    """Microseconds in any form that occurs, as whole nanoseconds; None if it is no number."""
    if isinstance(value, str):
        if not re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", value):
            return None
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not Decimal(value).is_finite():
        return None
    # Digits beyond the nanosecond are cut, which also floors nothing below zero: such times do not occur.
    return int(Decimal(value) * 1000)


def union(intervals):
    """Length of the union, by sweeping over sorted edges with a counter."""
    edges = sorted([(start, 1) for start, _ in intervals] + [(end, -1) for _, end in intervals])
    total = depth = 0
    previous = None
    for at, change in edges:
        if depth > 0:
            total += at - previous
        depth += change
        previous = at
    return total


def devices(trace):
    events = trace if isinstance(trace, list) else trace.get("traceEvents", [])
    work = {}
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        kind = KINDS.get(str(event.get("cat", "")).lower())
        start, dur = ns(event.get("ts")), ns(event.get("dur"))
        if kind is None or start is None or dur is None or dur < 0:
            continue
        work.setdefault(event.get("pid"), []).append((kind, start, start + dur))
    answer = []
    for pid, rows in sorted(work.items(), key=lambda item: str(item[0])):
        first, last = min(row[1] for row in rows), max(row[2] for row in rows)
        busy = union([(start, end) for _, start, end in rows])
        count = {name: sum(1 for row in rows if row[0] == name) for name in ("kernels", "memcpys", "memsets")}
        answer.append({
            "device": pid, **count, "window": [first, last], "window_ns": last - first,
            "busy_ns": busy, "idle_ns": last - first - busy,
        })
    return answer


def said(event, *keys):
    """What an event says, with nothing for -1, which stands for none, and was written as 32 bits once."""
    args = event["args"]
    return ["" if args.get(key) in (None, -1, 0xFFFFFFFF) else str(args[key]) for key in keys]


def count(rows):
    answer = {}
    for row in rows:
        answer["|".join(row)] = answer.get("|".join(row), 0) + 1
    return answer


def shown(trace):
    """The X events with args that can be placed in time."""
    events = trace if isinstance(trace, list) else trace.get("traceEvents", [])
    for event in events:
        if isinstance(event, dict) and event.get("ph") == "X" and isinstance(event.get("args"), dict):
            start, dur = ns(event.get("ts")), ns(event.get("dur"))
            if start is not None and dur is not None and dur >= 0:
                yield event


def collectives(trace):
    rows = []
    for event in shown(trace):
        if "Collective name" in event["args"]:
            op, n_ranks, seq, dtype = said(event, "Collective name", "Group size", "Seq", "dtype")
            name, number = said(event, "Process Group Name", "Process Group ID")
            sizes = [
                str(int(elements) * SIZES[dtype]) if elements and dtype in SIZES else ""
                for elements in said(event, "In msg nelems", "Out msg nelems")
            ]
            rows.append([event["cat"], op, name or number, n_ranks, seq, dtype, *sizes])
        elif event.get("cat") == "user_annotation" and str(event.get("name", "")).startswith(("gloo:", "mpi:")):
            # A range in which a thread of the host communicates says what it is given: one type, and shapes.
            types = {TYPES.get(name, name) for name in event["args"].get("Input type", [])}
            dtype = types.pop() if len(types) == 1 else ""
            elements = sum(math.prod(shape) for shape in event["args"].get("Input Dims", []))
            size = str(elements * SIZES[dtype]) if dtype in SIZES else ""
            rows.append(["other", event["name"].split(":", 1)[1], "", "", "", dtype, size, ""])
    return count(rows)


def syncs(trace):
    keys = ("cuda_sync_kind", "stream", "wait_on_cuda_event_id", "wait_on_stream", "wait_on_cuda_event_record_corr_id")
    return count(said(event, *keys) for event in shown(trace) if event.get("cat") == "cuda_sync")


def answers(trace):
    return {"devices": devices(trace), "collectives": collectives(trace), "syncs": syncs(trace)}


def load(data):
    # What some writers leave in strings or at the end must not stop the oracle: strict=False takes
    # control characters, and the few files that are no JSON at all are reported as such.
    return json.loads(data.decode("utf-8-sig", "replace"), parse_float=Decimal, strict=False)


def traces(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive.getmembers():
                if member.isfile():
                    inner = archive.extractfile(member).read()
                    if inner[:2] == b"\x1f\x8b":
                        inner = gzip.decompress(inner)
                    yield {"member": member.name, **answers(load(inner))}
    else:
        yield answers(load(data))


def main():
    for path in sys.argv[1:]:
        try:
            print(json.dumps({"file": path, "traces": list(traces(path))}))
        except ValueError as error:
            print(json.dumps({"file": path, "error": str(error)}))


if __name__ == "__main__":
    main()
