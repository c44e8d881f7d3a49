#!/usr/bin/env python3
"""Keeps what was recorded of a fault: compressed, and without the paths of the machine. See record.sh."""

import gzip
import json
import os
import pickle
import statistics
import sys

from train import clean_snapshot, without_paths


def compressed(path, data):
    # Without a name and a time, so that the same recording is the same file.
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as archive:
        archive.write(data)


def keep_trace(path, out):
    with open(path) as file:
        trace = json.loads(without_paths(file.read()))
    trace.pop("traceName", None)
    compressed(out, json.dumps(trace, separators=(",", ":")).encode())


def keep_snapshot(path, out):
    with open(path, "rb") as file:
        snapshot = clean_snapshot(pickle.load(file))
    compressed(out, pickle.dumps(snapshot, protocol=4))


def main():
    fault, work, out = sys.argv[1:]
    # Its path goes as well, from Lacuna's own frames.
    os.chdir(os.path.join(work, fault))
    for name in sorted(os.listdir(os.path.join(work, fault))):
        path = os.path.join(work, fault, name)
        if name.endswith(".pt.trace.json"):
            rank = name.split("-")[1]
            part = f".{rank}" if fault == "late_rank" else ""
            keep_trace(path, os.path.join(out, f"{fault}{part}.kineto.json.gz"))
        elif name == "memory-rank0.pickle":
            keep_snapshot(path, os.path.join(out, f"{fault}.snapshot.pickle.gz"))
    answer = {"fault": fault}
    log = os.path.join(work, f"{fault}.jsonl")
    if os.path.exists(log):
        with open(log) as file:
            runs = [json.loads(line) for line in file]
        for key, is_fixed in [("ms_per_step", False), ("ms_per_step_without", True)]:
            times = [run["ms_per_step"] for run in runs if run["fixed"] == is_fixed]
            answer[key] = {"median": round(statistics.median(times), 3), "runs": times}
    with open(os.path.join(out, f"{fault}.answer.json"), "w") as file:
        json.dump(answer, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
