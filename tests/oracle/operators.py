#!/usr/bin/env python3
"""What does each PyTorch operator cost? An independent answer, to test Lacuna against.

Usage: operators.py FILE...   (.json, .gz, .tar or .tar.gz of them)

Prints one JSON object a file: {"file", "by_name": [row...], "by_shape": [row...]}, over all traces
of the file together. A row is [name, shapes, calls, host total, host self, device total, device
self, host bytes, host self bytes, device bytes, device self bytes]; times are integer nanoseconds.

The rules are those of torch.autograd.profiler_util: self time is what nothing directly inside took,
a call that is all there is inside one of the same name is that call, device work belongs to the
innermost operator around the API call that launched it. Of slices that cross one has no parent, see
`nest`. Bytes belong to the innermost operator of the thread that asked. Standard
library only; shares no code with Lacuna.
"""
import bisect
import gzip
import io
import json
import sys
import tarfile
from collections import defaultdict

sys.dont_write_bytecode = True
from kineto import load, ns  # noqa: E402: no __pycache__ beside the sources

OPERATORS = {"cpu_op", "Operator"}
CALLS = {
    "cuda_runtime", "Runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver", "xpu_runtime",
    "xpu_driver", "mtia_runtime",
}
WORK = {"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"}


class Slice:
    def __init__(self, event, start, dur):
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        self.category = str(event.get("cat", ""))
        self.name = str(event.get("name", ""))
        self.start, self.dur, self.end = start, dur, start + dur
        self.correlation = number(args.get("correlation"))
        self.external = number(args.get("External id", args.get("external id")))
        dims = args.get("Input Dims", args.get("Input dims"))
        self.shapes = json.dumps(dims) if isinstance(dims, list) and dims else ""
        self.parent, self.children, self.depth = None, [], 0
        # Device time, host bytes, device bytes: its own, and with what is inside.
        self.own, self.total = [0, 0, 0], [0, 0, 0]

    @property
    def is_operator(self):
        return self.category in OPERATORS

    def operator(self):
        """The innermost operator around this slice."""
        around = self.parent
        while around is not None and not around.is_operator:
            around = around.parent
        return around

    def is_passed_on(self):
        above = self.parent
        return above is not None and above.is_operator and above.name == self.name and len(above.children) == 1


def number(value):
    try:
        value = int(value)
    except (TypeError, ValueError):
        return 0
    return value if 0 <= value < 1 << 32 else 0


def nest(slices):
    """Of two that cross the later one nests in nothing, or the earlier one with all inside where that is shorter and
    holds at most 15 others, none of which crosses."""
    in_order = sorted(slices, key=lambda s: (s.start, -s.end))
    open_slices, last_alone = [], -1
    for i, this in enumerate(in_order):
        this.place = i
        while open_slices and open_slices[-1].end <= this.start:
            open_slices.pop()
        crossed = next((s for s in open_slices if s.end < this.end), None)
        if crossed and crossed.place > last_alone and i - crossed.place < 16 and crossed.dur < this.dur:
            if crossed.parent is not None:
                crossed.parent.children.remove(crossed)
            for alone in in_order[crossed.place:i]:
                alone.parent, alone.children, alone.depth = None, [], None
            last_alone = i - 1
            del open_slices[open_slices.index(crossed):]
        elif crossed:
            this.depth, last_alone = None, i
            continue
        if open_slices:
            this.parent = open_slices[-1]
            this.parent.children.append(this)
        this.depth = len(open_slices)
        open_slices.append(this)


def give_device_time(slices):
    calls, operators, work = {}, {}, []
    for this in slices:
        if this.category in CALLS and this.correlation:
            calls.setdefault(this.correlation, []).append(this)
        elif this.category in WORK:
            work.append(this)
        elif this.is_operator and this.external:
            if this.external in operators:
                raise ValueError(f"two operators have the External id {this.external}")
            operators[this.external] = this
    for this in work:
        launchers = {id(call.operator()): call.operator() for call in calls.get(this.correlation, [])}
        if len(launchers) > 1:
            raise ValueError(f"calls with the correlation {this.correlation} are in several operators")
        operator = next(iter(launchers.values()), None)
        if operator is None and this.external != this.correlation:
            operator = operators.get(this.external)
        if operator is not None:
            operator.own[0] += this.dur


def give_bytes(slices, allocations):
    """The allocations of one thread to the innermost operator at that moment."""
    levels = defaultdict(list)
    for this in slices:
        if this.is_operator:
            levels[-1 if this.depth is None else this.depth].append(this)
    for level in levels.values():
        level.sort(key=lambda s: s.start)
    starts = {depth: [s.start for s in level] for depth, level in levels.items()}
    for at, which, count in allocations:
        for depth in sorted(levels, reverse=True):
            last = bisect.bisect_right(starts[depth], at) - 1
            if last >= 0 and levels[depth][last].end >= at:
                levels[depth][last].own[which] += count
                break


def read(trace, rows, seen):
    """Adds the operators of a trace to `rows`; `seen` gets the sides that allocated."""
    events = trace if isinstance(trace, list) else trace.get("traceEvents", [])
    threads, allocations = defaultdict(list), defaultdict(list)
    for event in events:
        if not isinstance(event, dict):
            continue
        thread = (str(event.get("pid")), str(event.get("tid")))
        start, dur = ns(event.get("ts")), ns(event.get("dur"))
        if event.get("ph") == "X" and start is not None and dur is not None and dur >= 0:
            threads[thread].append(Slice(event, start, dur))
        elif event.get("ph") == "i" and event.get("name") == "[memory]" and start is not None:
            which = 1 if event["args"]["Device Type"] == 0 else 2
            allocations[thread].append((start, which, event["args"]["Bytes"]))
            seen.add(which)
    for slices in threads.values():
        nest(slices)
    give_device_time([this for slices in threads.values() for this in slices])
    for thread, slices in threads.items():
        give_bytes(slices, allocations[thread])
    for slices in threads.values():
        operators = [this for this in slices if this.is_operator]
        for this in operators:
            around = this
            while around is not None:
                around.total = [a + b for a, b in zip(around.total, this.own)]
                around = around.parent
        for this in operators:
            call = this
            while call.is_passed_on():
                call = call.parent
            row = rows[(call.name, call.shapes)]
            row[2] += this.dur - sum(child.dur for child in this.children)
            for i, own in enumerate(this.own):
                row[4 + 2 * i] += own
            if call is this:
                row[0] += 1
                row[1] += this.dur
                for i, total in enumerate(this.total):
                    row[3 + 2 * i] += total


def traces(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[257:262] != b"ustar":
        yield load(data)
        return
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive.getmembers():
            if member.isfile():
                inner = archive.extractfile(member).read()
                yield load(gzip.decompress(inner) if inner[:2] == b"\x1f\x8b" else inner)


def answer(path):
    by_shape, seen = defaultdict(lambda: [0] * 9), set()
    for trace in traces(path):
        read(trace, by_shape, seen)
    by_name = defaultdict(lambda: [0] * 9)
    for (name, _), row in by_shape.items():
        by_name[(name, None)] = [a + b for a, b in zip(by_name[(name, None)], row)]

    def table(rows):
        unknown = {5, 6} if 1 not in seen else set()
        unknown |= {7, 8} if 2 not in seen else set()
        shown = ([None if i in unknown else value for i, value in enumerate(row)] for row in rows.values())
        return [[*key, *row] for key, row in zip(rows, shown)]

    return {"file": path, "by_name": table(by_name), "by_shape": table(by_shape)}


def main():
    for path in sys.argv[1:]:
        try:
            print(json.dumps(answer(path)))
        except ValueError as error:
            print(json.dumps({"file": path, "error": str(error)}))


if __name__ == "__main__":
    main()
