#!/usr/bin/env python3
"""What do the modules of a model cost, and how much kernel time uses tensor cores? An independent answer, to test
Lacuna against.

Usage: modules.py FILE...   (.json, .gz, .tar or .tar.gz of them)

Prints one JSON object a file: {"file", "modules": [row...], "kernel_ns", "tensor_ns", "unknown_ns"}. A row is [path,
calls, host total, device total], the path from the outermost module on. Times are integer nanoseconds.

A module is an `nn.Module` among the Python functions or an annotation, but no step of the profiler and no operator of
emit_nvtx. Its host total is the self time of all in it and in its backward pass: the outermost backward operators whose
forward operator, by an arrow `fwdbwd`, ran in the module. Its device total is that of the work launched in those. Of
slices that cross one has no parent (`nest` in operators.py), and the host total of its path is null: part of its time is
that of others. Tensor cores are those of the names listed below, from the
TensorBoard plugin of the PyTorch profiler and from names of AMD's libraries. Standard library only; shares no code with
Lacuna.
"""
import json
import re
import sys
from collections import defaultdict

sys.dont_write_bytecode = True
from kineto import ns  # noqa: E402: no __pycache__ beside the sources
from operators import CALLS, Slice, nest, traces  # noqa: E402

ANNOTATION = {"user_annotation", "UserAnnotation"}
WORK = {"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"}
SCALAR = re.compile("simt|_ffma|sgemm|scudnn|subtensorop")
TENSOR = re.compile(
    "884gemm|[hs]884|[hsc]1688|i8816|16816|161616|hmma|imma|dmma|xmma_|tensorop|wgmma|nvjet|flash_(fwd|bwd)|fmha|mfma|xdl"
    "|igemm_(fwd|bwd|wrw)_gtcx|mxe4m3|mxe2m1|matmul_ogs|^cijk_.*_mi[0-9]"
)
OTHER = re.compile(
    "nccl|rccl|gemv|at::native::|elementwise|triton_(poi|red|per)_|cub::|softmax|layer_?norm|rms_?norm|reduce|im2col"
    "|wgrad_alg0_engine|dgrad_engine|multi_tensor_apply|embedding|memset|memcpy|dgemm|bn_[fb]w_|transpose|nchwtonhwc"
    "|nhwctonchw|cudnn::ops::|winograd_nonfused|permute|quantize|spin_kernel"
)


def module(this):
    """The name of the module that a slice is; None if it is none."""
    if this.category in {"python_function", "PythonFunction"} and this.name.startswith("nn.Module: "):
        return this.name[len("nn.Module: "):]
    is_operator = re.search(", (seq|op_id|sizes) = ", this.name) or this.name.startswith("aten::")
    is_range = this.category in ANNOTATION and not is_operator and not this.name.startswith("ProfilerStep#")
    return this.name if is_range else None


def innermost(slices, at):
    """The innermost of some slices at a moment; of those that start there, the last one."""
    inside = [this for this in slices if this.start <= at < this.end or this.start == at]
    return max(inside, key=lambda this: (this.start, -1 if this.depth is None else this.depth), default=None)


def backward(events, threads):
    """The forward slice of each outermost backward operator, by its id()."""
    starts, ends = {}, defaultdict(list)
    for event in events:
        if isinstance(event, dict) and event.get("cat") == "fwdbwd":
            at = (str(event.get("pid")), str(event.get("tid"))), ns(event.get("ts"))
            if event.get("ph") == "s":
                starts[event.get("id")] = at
            else:
                ends[event.get("id")].append(at)
    found = {}
    for key, (thread, ts) in starts.items():
        forward = innermost(threads[thread], ts)
        for other, at in ends.get(key, []):
            target = innermost(threads[other], at)
            if forward is None or target is None:
                continue
            while target.parent is not None and target.parent.is_operator:
                target = target.parent
            found.setdefault(id(target), (target, forward))
    return found


class Places:
    """The path of modules of each slice, and whether that is in a backward pass below a module."""

    def __init__(self, passes):
        self.passes, self.known = passes, {None: ((), False)}

    def of(self, this):
        if this not in self.known:
            above, is_backward = self.of(this.parent)
            name = module(this)
            found = (above + (name,) if name is not None else above, is_backward)
            if id(this) in self.passes and (not above or is_backward):
                forward = self.of(self.passes[id(this)][1])[0]
                if forward:
                    found = (forward + ("(backward)",), True)
            self.known[this] = found
        return self.known[this]


def read(trace, rows, sums, crossing):
    events = trace if isinstance(trace, list) else trace.get("traceEvents", [])
    threads, every = defaultdict(list), []
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        start, dur = ns(event.get("ts")), ns(event.get("dur"))
        if start is not None and dur is not None and dur >= 0:
            threads[(str(event.get("pid")), str(event.get("tid")))].append(Slice(event, start, dur))
    for slices in threads.values():
        nest(slices)
        every.extend(slices)
    passes = backward(events, threads)
    places = Places(passes)

    def add(this, field, amount):
        where = places.of(this)[0]
        for n in range(1, len(where) + 1):
            rows[where[:n]][field] += amount

    calls = {}
    for this in every:
        where = places.of(this)[0]
        if where and (module(this) is not None or id(this) in passes and where[-1] == "(backward)"):
            rows[where][0] += 1
        add(this, 1, this.dur - sum(child.dur for child in this.children))
        if this.depth is None:
            crossing.add(where)
        if this.category in CALLS and this.correlation:
            calls.setdefault(this.correlation, this)
        if this.category in {"kernel", "Kernel"}:
            name = this.name.lower()
            sums[0] += this.dur
            if not SCALAR.search(name):
                if TENSOR.search(name):
                    sums[1] += this.dur
                elif not OTHER.search(name):
                    sums[2] += this.dur
    crossing.discard(())
    for this in every:
        if this.category in WORK and this.correlation in calls:
            add(calls[this.correlation], 2, this.dur)


def main():
    for file in sys.argv[1:]:
        rows, sums, crossing = defaultdict(lambda: [0, 0, 0]), [0, 0, 0], set()
        for trace in traces(file):
            read(trace, rows, sums, crossing)
        for key in crossing:
            rows[key][1] = None
        table = [[list(key), *row] for key, row in rows.items()]
        kernels = {"kernel_ns": sums[0], "tensor_ns": sums[1], "unknown_ns": sums[2]}
        print(json.dumps({"file": file, "modules": table, **kernels}))


if __name__ == "__main__":
    main()
