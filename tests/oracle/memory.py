#!/usr/bin/env python3
"""What does a memory snapshot say of each device's memory? Worked out backwards from its end.

Usage: memory.py [--full] FILE...    a pickle of PyTorch's memory history, or its JSON

Prints one JSON document a file: a list of devices. State i is after i events.

The definition, from the meaning of the recorded actions alone:
- The end is known: the segments' blocks. A block that is not inactive holds its whole size; one that
  waits for a stream is active, but no longer allocated.
- Every other block holds what was asked for, rounded up to 512 bytes.
- Going back over an event undoes it: before its alloc a block is not there, before its free_completed
  it is active, before the request to free it (or the completion, if nothing requested it) allocated.
- Reserved is the sum of the segments; going back over an event undoes that, too.
So what was there before the first event needs no thought: it is what is left after the last step back.
"""

import hashlib
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


def rounded(size):
    return max(512, (size + 511) // 512 * 512)


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


def lives(events, segments):
    """What each event adds to allocated, active and requested, the same for the end, and live stacks.

    Goes back from the end. `there` maps an address to the block that is there at that moment.
    """
    there = {}
    end = [0, 0, 0]
    for segment in segments:
        for addr, size, requested, state, frames in blocks_of(segment):
            if state != "inactive":
                is_allocated = state == "active_allocated"
                there[addr] = {"size": size, "requested": requested, "allocated": is_allocated, "frames": key(frames)}
                end[0] += size if is_allocated else 0
                end[1] += size
                end[2] += requested if is_allocated else 0
    steps = [(0, 0, 0)] * len(events)
    blocks = [(len(events) + 1, len(events) + 1, block, addr) for addr, block in there.items()]
    blocks = {addr: [None, n_freed if block["allocated"] else None, n_end, block]
              for n_end, n_freed, block, addr in blocks}
    done = []
    for i in range(len(events) - 1, -1, -1):
        event = events[i]
        action, addr = event["action"], event.get("addr")
        if action == "free_completed":
            size = rounded(event["size"])
            # Whatever is there now came later; it must have come by an alloc that was undone already.
            block = {"size": size, "requested": event["size"], "frames": ""}
            requested_before = any_request(events, i, addr)
            if requested_before:
                steps[i] = (0, -size, 0)
            else:
                steps[i] = (-size, -size, -event["size"])
            if addr in blocks:
                raise ValueError(f"event {i} frees what is live")
            blocks[addr] = [None, None if requested_before else i + 1, i + 1, block]
        elif action == "free_requested":
            entry = blocks.get(addr)
            if entry is None:
                raise ValueError(f"event {i} asks to free what is not there")
            block = entry[3]
            steps[i] = (-block["size"], 0, -block["requested"])
            entry[1] = i + 1
        elif action == "alloc":
            entry = blocks.pop(addr, None)
            if entry is None:
                raise ValueError(f"event {i} allocates what is not there afterwards")
            block = entry[3]
            steps[i] = (block["size"], block["size"], block["requested"])
            block["frames"] = key(event.get("frames")) or block["frames"]
            done.append((i + 1, entry[1], entry[2], block))
    for addr, (_, freed, until, block) in blocks.items():
        # A block that waits at the end, and that nothing in the history freed, waited from the start.
        done.append((0, 0 if freed is None else freed, until, block))
    return steps, end, done


def any_request(events, at, addr):
    """Whether the completion `at` was requested before: looks back to the address's previous event."""
    return REQUESTS.get((id(events), at, addr), False)


REQUESTS = {}


def find_requests(events):
    """Notes which completions follow a request. One walk, since each completion belongs to the latest."""
    pending = {}
    for i, event in enumerate(events):
        action, addr = event["action"], event.get("addr")
        if action == "free_requested":
            pending[addr] = i
        elif action == "alloc":
            pending.pop(addr, None)
        elif action == "free_completed" and pending.pop(addr, None) is not None:
            REQUESTS[(id(events), i, addr)] = True


def walk(steps, end):
    """Sums in every state, going back from the end."""
    sums = [end]
    for step in reversed(steps):
        sums.append(tuple(value - change for value, change in zip(sums[-1], step)))
    sums.reverse()
    return sums


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


def by_stack(blocks, state, place):
    """Bytes live in a state by stack, largest first."""
    sums = {}
    for start, freed, until, block in blocks:
        if start <= state < (until if place == "active" else freed):
            count, size = sums.get(block["frames"], (0, 0))
            sums[block["frames"]] = (count + 1, size + block["size"])
    rows = [{"stack": stack, "blocks": count, "bytes": size} for stack, (count, size) in sums.items()]
    return sorted(rows, key=lambda row: (-row["bytes"], row["stack"]))


def describe(device, events, segments, full):
    find_requests(events)
    steps, end, blocks = lives(events, segments)
    allocated, active, requested = (list(curve) for curve in zip(*walk(steps, tuple(end))))
    total = sum(segment["total_size"] for segment in segments)
    changes = [(SIGNS.get(event["action"], 0) * event["size"],) for event in events]
    reserved = [value for (value,) in walk(changes, (total,))]
    peak = active.index(max(active))
    return {
        "device": device,
        "events": len(events),
        "has_time": bool(events) and all("time_us" in event for event in events),
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
        },
        "allocations": len(blocks),
        "before": sum(1 for block in blocks if block[0] == 0),
        "live_at_end": by_stack(blocks, len(events), "active"),
        "live_at_peak": by_stack(blocks, peak, "active"),
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
