"""Waiting of ranks for each other in collectives, computed from the events of their files alone.

usage: ranks.py FILE...

Each FILE is a trace of the PyTorch profiler or an archive of several; all are ranks of one job. One line of JSON: for each
rank how many collective kernels it has, how many other ranks have, how long it waited in those, how long the others waited
for it and how often it came last; in microseconds.

The definition: kernels of one collective end together on all ranks, once a constant difference of the clocks is taken out.
The rank with the shortest kernel came last; what others take longer is waiting. Calls are paired with those of the first
rank that end within 100 us, one to one in order of their ends, by brute force over the difference of clocks.
"""

import gzip
import json
import statistics
import sys
import tarfile

TOGETHER = 100.0


def documents(path):
    if path.endswith((".tar.gz", ".tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile():
                    yield archive.extractfile(member).read()
    else:
        with open(path, "rb") as file:
            yield file.read()


def calls(document):
    """The collective kernels as (end, duration, operation), by end."""
    found = []
    for event in document["traceEvents"]:
        name = event.get("name", "")
        if event.get("cat") == "kernel" and event.get("ph") == "X" and "nccl" in name.lower():
            operation = name.split("Kernel_")[1].split("_")[0] if "Kernel_" in name else name
            found.append((event["ts"] + event["dur"], event["dur"], operation))
    return sorted(found)


def paired(first, other, offset):
    """Indices of calls that end together; each call once."""
    pairs, j = [], 0
    for i, (end, _, operation) in enumerate(first):
        while j < len(other) and other[j][0] + offset < end - TOGETHER:
            j += 1
        if j < len(other) and abs(other[j][0] + offset - end) <= TOGETHER and other[j][2] == operation:
            pairs.append((i, j))
            j += 1
    return pairs


def partners(first, other):
    """The pairs for the difference of clocks, of all that make any two calls end together, that pairs most."""
    best = []
    for i in range(len(first)):
        for j in range(len(other)):
            pairs = paired(first, other, first[i][0] - other[j][0])
            if len(pairs) > len(best):
                best = pairs
    if len(best) < 4:
        return []
    offset = statistics.median_low(first[i][0] - other[j][0] for i, j in best)
    pairs = paired(first, other, offset)
    for a, b, sign in ((first, other, -offset), (other, first, offset)):
        within = [call for call in a if b[0][0] - TOGETHER <= call[0] + sign <= b[-1][0] + TOGETHER]
        if len(pairs) < 0.8 * len(within):
            return []
    return pairs


def main():
    ranks = {}
    for path in sys.argv[1:]:
        for data in documents(path):
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            document = json.loads(data, strict=False)
            ranks[document["distributedInfo"]["rank"]] = calls(document)
    order = list(ranks)
    first = ranks[order[0]]
    matches = {i: {order[0]: call} for i, call in enumerate(first)}
    for rank in order[1:]:
        for i, j in partners(first, ranks[rank]):
            matches[i][rank] = ranks[rank][j]
    out = {rank: {"calls": len(ranks[rank]), "matched": 0, "wait_us": 0.0, "waited_for_us": 0.0, "late": 0} for rank in order}
    for members in matches.values():
        if len(members) < 2:
            continue
        shortest = min(members, key=lambda rank: members[rank][1])
        transfer = members[shortest][1]
        waits = sum(call[1] - transfer for call in members.values())
        out[shortest]["waited_for_us"] += waits
        out[shortest]["late"] += waits > 0
        for rank, call in members.items():
            out[rank]["matched"] += 1
            out[rank]["wait_us"] += call[1] - transfer
    print(json.dumps(out))


if __name__ == "__main__":
    main()
