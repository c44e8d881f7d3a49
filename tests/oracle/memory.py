#!/usr/bin/env python3
"""What does a memory snapshot say of each device's memory? Worked out backwards from its end.

Usage: memory.py [--full] FILE...    a pickle of PyTorch's memory history, or its JSON

Prints one JSON document a file: a list of devices. State i is after i events.

The definition, from the meaning of the recorded actions alone:
- The end is known: the segments' blocks. A block that is not inactive holds its whole size; one that
  waits for a stream is active, but no longer allocated.
- Every other block holds what was asked for, rounded up to 512 bytes (of NPUs with 32 bytes more), and in a segment for
  large requests that is not expandable what is free behind it, if that is 1 MiB at most: the allocator splits off more
  only. What is behind it is known where the way back reaches its alloc, or the first event.
- Going back over an event undoes it: before its alloc a block is not there, before its free_completed
  it is active, before the request to free it allocated. A block whose request is not in the recording
  was never allocated in it.
- Reserved is the sum of the segments; going back over an event undoes that, too.
So what was there before the first event needs no thought: it is what is left after the last step back.
"""

import bisect
import hashlib
import itertools
import json
import pickle
import sys


class PlainData(pickle.Unpickler):
    """Takes no code from a file."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")


def load(path):
    with open(path, "rb") as file:
        if file.read(1) in b"{[" and path.endswith(".json"):
            file.seek(0)
            return json.load(file)
        file.seek(0)
        return PlainData(file).load()


def rounded(size, more=0):
    return max(512, (size + more + 511) // 512 * 512)


def padding(segments):
    """What the allocator adds to a request before rounding, by blocks that have no rest behind them."""
    for segment in segments:
        if segment["segment_type"] == "small" or segment.get("is_expandable"):
            for _, size, requested, state, _ in blocks_of(segment):
                if state == "active_allocated" and requested and size == rounded(requested, 32) != rounded(requested):
                    return 32
    return 0


def padding_of_neighbors(events):
    """The same by how far apart blocks lie while they live: never closer than padded requests, and often as close."""
    starts, sizes, n_exact = [], {}, 0
    for event in events:
        addr = event.get("addr")
        if event["action"] == "alloc":
            at = bisect.bisect(starts, addr)
            around = starts[max(at - 1, 0):at] + [addr] + starts[at:at + 1]
            for low, high in zip(around, around[1:]):
                size = event["size"] if low == addr else sizes[low]
                if low < high and rounded(size, 32) != rounded(size):
                    if high - low < rounded(size, 32):
                        return 0
                    n_exact += high - low == rounded(size, 32)
            starts.insert(at, addr)
            sizes[addr] = event["size"]
        elif event["action"] == "free_completed" and sizes.pop(addr, None) is not None:
            starts.remove(addr)
    return 32 if n_exact >= 20 else 0


def with_rest(addr, size, there, reserved):
    """The size of a block with what is too little behind it."""
    starts = [at for at in reserved if at <= addr < at + reserved[at][0]]
    if size <= 1 << 20 or not starts or reserved[starts[0]][1]:
        return size
    end = starts[0] + reserved[starts[0]][0]
    rest = min([at for at in there if addr < at < end], default=end) - (addr + size)
    return size + rest if 0 < rest <= 1 << 20 else size


def blocks_of(segment):
    """(address, size, requested, state, frames) of each block; older files give no address."""
    at = segment["address"]
    for block in segment["blocks"]:
        addr = block.get("address", at)
        history = block.get("history") or [{}]
        # Older files name what was asked for in the latest use of the block.
        requested = block.get("requested_size", history[0].get("real_size", block["size"]))
        frames = block.get("frames") or history[0].get("frames") or []
        yield addr, block["size"], requested, block["state"], frames
        at = addr + block["size"]


def key(frames):
    return " < ".join(f"{frame['name']}@{frame['filename']}:{frame['line']}" for frame in frames or [])


class Block:
    """A life of a block; the states in which it is active are start..end, allocated start..freed."""

    def __init__(self, addr, size, requested, stack, freed, end):
        self.addr, self.size, self.requested, self.stack = addr, size, requested, stack
        self.start, self.freed, self.end = 0, freed, end


def lives(events, segments):
    """All blocks. Goes back from the end; `there` maps an address to the block that is there at that moment."""
    there, done, end, more = {}, [], len(events) + 1, padding(segments) or padding_of_neighbors(events)
    reserved = {segment["address"]: (segment["total_size"], segment.get("is_expandable")) for segment in segments}
    for segment in segments:
        for addr, size, requested, state, frames in blocks_of(segment):
            if state != "inactive":
                # Until a request to free it is met on the way back, one that waits was never allocated.
                freed = end if state == "active_allocated" else 0
                there[addr] = Block(addr, size, requested, key(frames), freed, end)
    for i in range(len(events) - 1, -1, -1):
        event = events[i]
        action, addr, state = event["action"], event.get("addr"), i + 1
        if action == "free_completed":
            if addr in there:
                raise ValueError(f"event {i} frees what is live after it")
            there[addr] = Block(addr, rounded(event["size"], more), event["size"], "", 0, state)
        elif action == "free_requested":
            there[addr].freed = state
        elif action == "alloc":
            block = there.pop(addr)
            if block.freed == 0:
                raise ValueError(f"the block of event {i} is freed without a request")
            block.start, block.stack = state, key(event.get("frames")) or block.stack
            if block.end < end:
                block.size = with_rest(addr, block.size, there, reserved)
            done.append(block)
        elif action == "segment_alloc":
            reserved.pop(addr, None)
        elif action == "segment_free":
            reserved[addr] = (event["size"], False)
    for addr, block in there.items():
        if block.end < end:
            block.size = with_rest(addr, block.size, there, reserved)
    return done + list(there.values())


def curves(n_states, blocks):
    """Allocated, active and requested bytes in every state."""
    all_changes = [[0] * (n_states + 1) for _ in range(3)]
    for block in blocks:
        spans = [(block.size, block.freed), (block.size, block.end), (block.requested, block.freed)]
        for changes, (amount, until) in zip(all_changes, spans):
            if until > block.start:
                changes[block.start] += amount
                changes[until] -= amount
    return [list(itertools.accumulate(changes[:-1])) for changes in all_changes]


def walk(steps, end):
    """Sums in every state, going back from the end."""
    sums = [end]
    for step in reversed(steps):
        sums.append(tuple(value - change for value, change in zip(sums[-1], step)))
    sums.reverse()
    return sums


def fragmentation(segments):
    """How scattered free memory is within segments: 1 - sum of squares / square of the sum, over the
    stretches between blocks, weighed with the free bytes of each segment."""
    weighed, free = 0, 0
    for segment in segments:
        stretches, at = [], segment["address"]
        taken = sorted((addr, addr + size) for addr, size, _, state, _ in blocks_of(segment) if state != "inactive")
        for start, end in [*taken, (segment["address"] + segment["total_size"], None)]:
            if start > at:
                stretches.append(start - at)
            at = end
        own = sum(stretches)
        if own:
            weighed += own * (1 - sum(size * size for size in stretches) / (own * own))
        free += own
    return weighed / free if free else 0


SIGNS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


def digest(curve):
    text = ",".join(map(str, curve))
    return hashlib.sha256(text.encode()).hexdigest()


def summary(curve, full):
    peak = max(curve)
    answer = {
        "first": curve[0], "last": curve[-1], "peak": peak, "peak_state": curve.index(peak), "sha256": digest(curve)
    }
    if full:
        answer["all"] = curve
    return answer


def by_stack(blocks, state):
    """Blocks active in a state by stack, largest first."""
    sums = {}
    for block in blocks:
        if block.start <= state < block.end:
            count, size = sums.get(block.stack, (0, 0))
            sums[block.stack] = (count + 1, size + block.size)
    rows = [{"stack": stack, "blocks": count, "bytes": size} for stack, (count, size) in sums.items()]
    return sorted(rows, key=lambda row: (-row["bytes"], row["stack"]))


def describe(device, events, segments, full):
    blocks = lives(events, segments)
    allocated, active, requested = curves(len(events) + 1, blocks)
    total = sum(segment["total_size"] for segment in segments)
    changes = [(SIGNS.get(event["action"], 0) * event["size"],) for event in events]
    reserved = [value for (value,) in walk(changes, (total,))]
    peak = active.index(max(active))
    return {
        "device": device,
        "events": len(events),
        "has_time": any("time_us" in event for event in events),
        "curves": {
            name: summary(curve, full)
            for name, curve in [
                ("allocated", allocated), ("active", active), ("requested", requested), ("reserved", reserved)
            ]
        },
        # What the file itself says of its end, not summed over blocks.
        "end": {
            "allocated": sum(segment["allocated_size"] for segment in segments),
            "active": sum(segment["active_size"] for segment in segments),
            "reserved": total,
            "segments": len(segments),
            "fragmentation": fragmentation(segments),
        },
        "allocations": len(blocks),
        "before": sum(1 for block in blocks if block.start == 0),
        "live_at_end": by_stack(blocks, len(events)),
        "live_at_peak": by_stack(blocks, peak),
    }


def devices(snapshot, full):
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot, "device_traces": []}
    segments = {}
    for segment in snapshot["segments"]:
        segments.setdefault(segment.get("device", 0), []).append(segment)
    traces = {i: trace for i, trace in enumerate(snapshot.get("device_traces", [])) if trace}
    return [
        describe(device, traces.get(device, []), segments.get(device, []), full)
        for device in sorted(set(segments) | set(traces))
    ]


def main(args):
    full = "--full" in args
    for path in (arg for arg in args if arg != "--full"):
        print(json.dumps({"file": path, "devices": devices(load(path), full)}))


if __name__ == "__main__":
    main(sys.argv[1:])
