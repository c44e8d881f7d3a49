#!/usr/bin/env python3
"""Growth of memory from step to step in a snapshot: an independent implementation to test Lacuna against.

Usage: leaks.py FILE DEVICE BOUNDARIES   (a pickle or its JSON; a device; a JSON list of states)

State i is after i events; step k is what happens between the boundaries k and k + 1. Prints one JSON
object: {"warm_up", "places": [{"stack", "live", "slope", "monotonic", "r2", "growth", "survivors",
"survivor_steps", "kept_steps", "kept", "tau", "late"}]} with one entry for each place that has live bytes at some
boundary; "late" has the same figures of the steps from each later boundary on, which leaves four steps at least. A
place is a call stack, innermost frame first, without the frames of the interpreter and of the recorder.

Straight from the definitions: live bytes are counted by walking through the events with a dictionary of
blocks, the slope is the median over all pairs of boundaries. Shares memory.py's reading of files, and no
code with Lacuna.

Calibration of the leak thresholds in src/analysis/memory/leaks/mod.rs:
* The growth and survivor thresholds were set on generated training of 6, 12 and 40 steps, two seeds each.
  Batches of random size had slopes of up to 6.4 KiB per step and rose in up to 80 % of steps, without
  survivors. Planted leaks of 128 and 384 KiB per step had exactly these slopes, rose in all steps, and had
  survivors of all steps after the warm-up but the last, already of four in a run of six. So 64 KiB is ten
  times the noise and half the smaller leak. Survivors discriminate best: neither the slope nor the share of
  rising steps suffices alone. A warm-up cache had up to eight steps with survivors, but a slope of 0. The
  minimum share of 0.1 % was never decisive: it only matters above 64 MiB per step in total.
* The others were set on recordings of 40 to 300 steps. Leaks in every second or tenth step, once per epoch,
  from the middle on, or with stacks that vary between steps are all found: their tau was at least 0.75, and
  nothing was freed. Garbage collected every 15 steps, queues of growing batches, predictions gathered by an
  evaluation, and the key-value cache of one generation are not reported: at most a third of them was kept.
  A cache by shape that still meets new shapes in the last third is reported; a recording does not
  distinguish it from a leak.
* None of the 11 real snapshots of the test data holds four steps, so they only show false positives: of
  layers, which repeat like steps, seven signatures of one forward pass under autocast grew by 1.1 to 4.5 MiB
  each. Such repetitions are rejected as steps, not by these thresholds.
"""
import json
import re
import statistics
import sys

import memory

# What the interpreter's C API is called like, and what runs a thread or a program.
NOISE_NAME = re.compile(r"__libc_start_|__libc_init_first|pthread_|execute_native_thread_routine")
PYTHON_API = re.compile(r"_?Py[A-Za-z]*_[^:]*$")
NOISE_PART = re.compile(r"torch::unwind|CapturedTraceback::gather|gather_with_cpp")
NOISE_FILE = re.compile(
    r"(pythonrun\.c|Modules/main\.c|Objects/(abstract|call|class|descr|method|type)?(object)?\.c|pycore_c(all|eval)\.h"
    r"|ceval\.c|generated_cases\.c\.h|cpython/abstract\.h|libc_start_call_main\.h)$"
)


def place(frames):
    """The stack as the texts of those frames that say something."""
    texts = []
    for frame in frames or []:
        name, file, line = frame["name"] or "??", frame["filename"], frame["line"]
        is_python = file.endswith((".py", ".ipynb")) or file.startswith("<")
        bare = name.split("(")[0]
        nameless = bare in ("", "??", "_start", "clone", "start_thread") or PYTHON_API.match(bare)
        if nameless and not is_python:
            continue
        if NOISE_NAME.match(name) or NOISE_PART.search(name) or NOISE_FILE.search(file):
            continue
        texts.append(name if file in ("", "??") else f"{name} ({file}:{line})")
    return tuple(texts)


def lives(snapshot, device):
    """(place, bytes, first state, first state without it) of each block."""
    events = snapshot["device_traces"][device]
    n_states = len(events) + 1
    own = [segment for segment in snapshot["segments"] if segment["device"] == device]
    sizes = {(block.addr, block.start): block.size for block in memory.lives(events, own)}
    at_end = {}
    for segment in snapshot["segments"]:
        if segment["device"] == device:
            for addr, size, _, state, frames in memory.blocks_of(segment):
                if state != "inactive":
                    at_end[addr] = (size, frames)
    live, done, known = {}, [], set()
    for state, event in enumerate(events, 1):
        addr, action = event["addr"], event["action"]
        if action == "alloc":
            live[addr] = [place(event.get("frames")), sizes[addr, state], state]
        elif action == "free_completed" and addr in live:
            done.append((*live.pop(addr), state))
        elif action == "free_completed" and addr not in known:
            done.append(((), sizes[addr, 0], 0, state))
        elif action == "free_requested" and addr not in live and addr not in known:
            # From before the recording; it lives until the free is completed.
            live[addr] = [(), sizes[addr, 0], 0]
        if action in ("alloc", "free_requested", "free_completed"):
            known.add(addr)
    for addr, (size, frames) in at_end.items():
        if addr in live:
            where, _, start = live.pop(addr)
            done.append((where or place(frames), size, start, n_states))
        elif addr not in known:
            done.append((place(frames), size, 0, n_states))
    assert not live, "a block of the history is not in the state at its end"
    return done


def goes_on_until(events, boundaries):
    """The last state after which as many blocks are allocated as in the median step: what is freed later is freed as the
    program ends, and was kept."""
    is_alloc = [event["action"] == "alloc" for event in events]
    counts = sorted(sum(is_alloc[a:b]) for a, b in zip(boundaries, boundaries[1:]))
    median = counts[len(counts) // 2] if counts else 0
    left = median
    for state in range(len(events) - 1, -1, -1):
        left -= is_alloc[state]
        if median and left == 0:
            return state
    return len(events)


def figures(blocks, boundaries, warm_up, until):
    live = [sum(size for _, size, start, end in blocks if start <= state < end) for state in boundaries]
    counted = live[warm_up:]
    pairs = [(i, j) for j in range(len(counted)) for i in range(j)]
    slope = statistics.median((counted[j] - counted[i]) / (j - i) for i, j in pairs) if pairs else 0
    rises = sum(after > before for before, after in zip(counted, counted[1:]))
    flat = len(counted) < 2 or len(set(counted)) == 1
    r2 = 0 if flat else statistics.correlation(range(len(counted)), counted) ** 2
    balance = sum((counted[j] > counted[i]) - (counted[j] < counted[i]) for i, j in pairs)
    born, kept = [], []
    for _, size, start, end in blocks:
        for k in range(warm_up, len(boundaries) - 2):
            if boundaries[k] < start <= boundaries[k + 1] and end > boundaries[k + 2]:
                born.append((k, size))
                if end > until:
                    kept.append((k, size))
                break
    return {
        "live": live, "slope": slope, "monotonic": rises / max(1, len(counted) - 1), "r2": r2,
        "growth": counted[-1] - counted[0], "survivors": len(born),
        "survivor_steps": len({k for k, _ in born}), "kept_steps": len({k for k, _ in kept}),
        "kept": sum(size for _, size in kept) / sum(size for _, size in born) if born else 1,
        "tau": balance / max(1, len(pairs)),
    }


def main(path, device, boundaries):
    with open(boundaries) as file:
        boundaries = json.load(file)
    warm_up = min(5, (len(boundaries) - 1) // 4)
    snapshot, device = memory.load(path), int(device)
    until = goes_on_until(snapshot["device_traces"][device], boundaries)
    places = {}
    for block in lives(snapshot, device):
        if any(block[2] <= state < block[3] for state in boundaries):
            places.setdefault(block[0], []).append(block)
    def answer(blocks):
        late = range(warm_up + 4, len(boundaries) - 4)
        late = {first: figures(blocks, boundaries, first, until) for first in late}
        return {**figures(blocks, boundaries, warm_up, until), "late": late}

    answers = [{"stack": where, **answer(blocks)} for where, blocks in places.items()]
    print(json.dumps({"warm_up": warm_up, "places": answers}))


if __name__ == "__main__":
    main(*sys.argv[1:])
