"""Waiting of ranks for each other in collectives that threads of the host run, computed from the events of their files alone.

usage: host_ranks.py FILE...

Each FILE is a trace of the PyTorch profiler of one rank; all were recorded on one host, whose clock they share. One line of
JSON: for each rank how many ranges named after Gloo or MPI it has, how many other ranks have, how long it waited in those,
how long the others waited for it and how often it came last; and of the time in which it waited, without counting any twice,
how much its device did nothing, between the start of its second step and the start of its last. In microseconds. Beside
that the ranges by name and size: how many, and their time.

The definition: the ranges of one collective have the same name and size and overlap. The rank with the shortest one came
last; what others take longer, from their start on, is waiting. Of those that a rank runs at once, the first counts.
"""

import collections
import gzip
import json
import sys


def union(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def without(spans, others):
    """The length of disjoint spans outside of others."""
    inside = sum(max(0.0, min(b, d) - max(a, c)) for a, b in spans for c, d in others)
    return sum(end - start for start, end in spans) - inside


def main():
    ranks = {}
    for path in sys.argv[1:]:
        with (gzip.open if path.endswith(".gz") else open)(path) as file:
            document = json.load(file)
        ranks[document["distributedInfo"]["rank"]] = document["traceEvents"]
    calls = {}
    for rank, events in ranks.items():
        for event in events:
            if event.get("cat") == "user_annotation" and event["name"].split(":")[0] in ("gloo", "mpi"):
                sizes = json.dumps(event.get("args", {}).get("Input Dims"))
                span = (event["ts"], event["ts"] + event["dur"])
                calls.setdefault((event["name"], sizes), {}).setdefault(rank, []).append(span)
    out = {rank: collections.Counter(calls=0, matched=0, wait_us=0.0, waited_for_us=0.0, late=0) for rank in ranks}
    waits = {rank: [] for rank in ranks}
    for of_ranks in calls.values():
        for rank, spans in of_ranks.items():
            out[rank]["calls"] += len(spans)
        first, *others = of_ranks.items()
        for span in first[1]:
            members = {first[0]: span}
            for rank, spans in others:
                overlap = [(min(span[1], end) - max(span[0], start), (start, end)) for start, end in spans]
                best = max(overlap)
                if best[0] > 0:
                    members[rank] = best[1]
            if len(members) < 2:
                continue
            dur = {rank: end - start for rank, (start, end) in members.items()}
            late = min(dur, key=dur.get)
            out[late]["late"] += 1
            for rank, (start, _) in members.items():
                wait = dur[rank] - dur[late]
                out[rank]["matched"] += 1
                waits[rank].append((start, start + wait, late))
    # Several run at once: no time counts twice.
    for rank in ranks:
        until = float("-inf")
        for start, end, late in sorted(waits[rank]):
            wait = max(0.0, end - max(start, until))
            until = max(until, end)
            out[rank]["wait_us"] += wait
            out[late]["waited_for_us"] += wait
    for rank, events in ranks.items():
        steps = sorted(e["ts"] for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep"))
        work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        busy = union((e["ts"], e["ts"] + e["dur"]) for e in work)
        clipped = [(max(start, steps[1]), min(end, steps[-1])) for start, end, _ in waits[rank]]
        out[rank]["idle_wait_us"] = without(union(span for span in clipped if span[0] < span[1]), busy)
    rows = [
        {"name": name, "sizes": sizes, "count": sum(map(len, of.values())), "us": sum(b - a for s in of.values() for a, b in s)}
        for (name, sizes), of in calls.items()
    ]
    print(json.dumps({"ranks": out, "rows": rows}))


if __name__ == "__main__":
    main()
