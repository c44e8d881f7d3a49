#!/usr/bin/env python3
"""Why does each GPU of a Kineto trace wait? An independent answer by definitions F1 and F2 of the gap ledger.

Usage: causes.py FILE...   (.json, .gz, .tar or .tar.gz of them)

Prints one JSON object a file: {"file", "devices": [{"device", "window_ns", "theta_ns", "gaps": [...]}]}. A gap is
{"start", "dur", "before": names of the work that ends where it begins, "ended_by": names of the work that may end it,
"launched_by": names of its launching calls, "classes": {class: [least ns, most ns]}, "triggers": [name or null]}.

Where the definitions leave open what some time is, or a rule needs more than the events say, each possible class has
its time in its upper bound, and each possible trigger is listed. The host part of a gap is not tiled by nesting, as
Lacuna does, but judged at each instant by the set of what is open on the launching thread: one role alone is certain;
of several, any may be right. Standard library only; shares no code with Lacuna.
"""
import bisect
import collections
import gzip
import io
import itertools
import json
import re
import sys
import tarfile

WORK = {"kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime"}
OPERATORS = {"cpu_op", "operator"}
RANGES = {"user_annotation"}
FRAMES = {"python_function", "python"}

# Roles by what an event is and its name; the first pattern that fits.
CALL_ROLES = [
    ("sync", r"Synchronize|^(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol)?$|^hipMemcpyWithStream$|^cuMemcpy[A-Za-z0-9]*(?<!Async)(_v\d)?$"),
    ("copy", r"[mM]emcpy"),
    ("allocator", r"(Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemAlloc|MemMap|MemUnmap|MemCreate|MemRelease|AddressReserve)"),
    ("module_load", r"ModuleLoad|LibraryLoad|LibraryGetKernel|ModuleGetFunction|LinkCreate|LinkAddData|LinkComplete"),
    ("launch", r"Launch|[mM]emset"),
]
OPERATOR_ROLES = [
    ("maybe sync", r"^aten::(item|_local_scalar_dense|nonzero)$"),
    # These convert within the memory of a device as well.
    ("maybe copy", r"^aten::(to|_to_copy|copy_)$"),
    ("collective", r"^(c10d::|_?c10d_functional::|nccl:|gloo:)|^record_param_comms$"),
]
RANGE_ROLES = [
    ("data_loading", r"^enumerate\(DataLoader\)#.*__next__$"),
    # Ranges of users and libraries around the exchange; what works in them has its own cause.
    ("maybe collective", r"(?i)all_?(reduce|gather|to_?all|2all)|reduce_?scatter|nccl|rccl|barrier|sparse_?data_?dist|^(dist|comm)"),
    ("maybe data_loading", r"(?i)(?<![a-z])(data|load|batch)"),
    ("collective", r"^(nccl|gloo|rccl|hccl):"),
    ("maybe module_load", r"(?i)dynamo|inductor|triton|compile"),
    ("gc", r"(?i)^(python )?gc\b"),
    # Of phases, which go on around other work; other ranges without launches name what the host does.
    ("range", r"(?i)step|forward|backward|optimizer|zero_grad|train"),
    ("maybe cpu_op", r""),
]
FRAME_ROLES = [
    ("data_loading", r"torch/utils/data/dataloader\.py"),
    ("module_load", r"torch/_dynamo/convert_frame\.py.*: _compile$|torch/_inductor/compile_fx\.py|(^|/)triton/compiler/.*: (compile|make_\w+)$"),
    ("maybe module_load", r"torch/_dynamo/|torch/_inductor/|torch/_functorch/|(^|/)triton/"),
    ("maybe copy", r"built-in method (to|copy_|cuda|cpu|float|half|numpy) "),
    ("maybe sync", r"built-in (method|function) (item|nonzero|tolist|__bool__|_cuda_synchronize)\b|torch/cuda/.*: synchronize$"),
    # Waits for another thread, a lock, a queue, a socket or a process.
    ("maybe blocked", r"built-in (method|function) (acquire|_acquire_restore|__enter__|wait|poll|select|sleep|recv\w*|accept|get)\b|(threading|queue|selectors|socket|subprocess)\.py|concurrent/futures/|multiprocessing/"),
    # The autograd thread works meanwhile.
    ("elsewhere", r"run_backward"),
    ("gc", r"built-in (function|method) collect|gc\.collect"),
    ("collective", r"torch/distributed/distributed_c10d\.py.*: (barrier|all_reduce|broadcast|all_gather|reduce_scatter|wait)"),
]


def ns(value):
    """Microseconds as they are written, as whole nanoseconds; digits beyond are cut."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000
    if not isinstance(value, str) or not re.fullmatch(r"-?\d+(\.\d*)?", value):
        return None
    whole, _, rest = value.partition(".")
    return int(whole) * 1000 + int((rest + "000")[:3])


class Event:
    __slots__ = ("start", "end", "name", "kind", "pid", "thread", "stream", "correlation", "graph")

    def __init__(self, raw, start, dur):
        args = raw.get("args")
        args = args if isinstance(args, dict) else {}
        self.start, self.end, self.name, self.kind = start, start + dur, str(raw.get("name")), raw["cat"].lower()
        self.pid, self.thread = raw.get("pid"), (raw.get("pid"), raw.get("tid"))
        self.stream = args.get("stream", raw.get("tid"))
        self.correlation = args.get("correlation")
        self.graph = args.get("graph node id", 0)


def events_of(trace):
    for raw in trace if isinstance(trace, list) else trace.get("traceEvents", []):
        if isinstance(raw, dict) and raw.get("ph") == "X" and isinstance(raw.get("cat"), str):
            start, dur = ns(raw.get("ts")), ns(raw.get("dur"))
            if start is not None and dur is not None and dur >= 0:
                yield Event(raw, start, dur)


def role_of(event):
    """The role by definition F2.3 of a host event; "cpu_op", "python", "range" or "call" if it has no other."""
    if event.kind in OPERATORS and "#" in event.name:
        # Ranges of the program before `user_annotation` had a category.
        return next((role for role, rule in RANGE_ROLES if re.search(rule, event.name)), "range")
    for kinds, rules, default in (
        (CALLS, CALL_ROLES, "call"),
        (OPERATORS, OPERATOR_ROLES, "cpu_op"),
        (RANGES, RANGE_ROLES, "range"),
        (FRAMES, FRAME_ROLES, "python"),
    ):
        if event.kind in kinds:
            return next((role for role, rule in rules if re.search(rule, event.name)), default)
    return None


class Thread:
    """What is open on a thread at each instant, as a set of roles; and its launches and waits."""

    def __init__(self):
        self.edges, self.launches, self.waits, self.may_wait = [], [], [], []

    def close(self):
        count = collections.Counter()
        self.times, self.states = [-(1 << 62)], [frozenset()]
        self.launches.sort()
        for at, change, role in sorted(self.edges):
            count[role] += change
            state = frozenset(role for role, n in count.items() if n > 0)
            if self.times[-1] == at:
                self.states[-1] = state
            else:
                self.times.append(at)
                self.states.append(state)
        del self.edges

    def between(self, start, end):
        """(ns, roles open) that tile a range."""
        at = bisect.bisect_right(self.times, start) - 1
        while start < end:
            until = min(end, self.times[at + 1]) if at + 1 < len(self.times) else end
            yield until - start, self.states[at]
            start, at = until, at + 1

    def launched_between(self, low, high):
        return bisect.bisect_left(self.launches, high) > bisect.bisect_right(self.launches, low)


PLAIN = {"cpu_op", "python", "range", "call", "elsewhere"}


def classes_of(roles):
    """What an instant may be called at which these roles are open. Which is inside the other is not followed."""
    plain = set(roles & {"cpu_op", "python"}) or {"python" if "elsewhere" in roles else "unknown"}
    certain = {role for role in roles - PLAIN if not role.startswith("maybe ")}
    possible = {role.removeprefix("maybe ") for role in roles - PLAIN} - certain
    if roles & {"maybe data_loading", "maybe collective"}:
        # Or the host works on what the range is named after.
        possible.add("cpu_op")
    if "launch or copy" in certain:
        return {"launch", "copy"}
    if certain:
        # What a library does inside may be named for itself: a collective prepares its work with operators.
        return certain | possible | (plain if "collective" in certain else set())
    if "call" in roles:
        # Calls that neither wait nor launch: time of their caller, or of the interface itself.
        return possible | plain | {"launch", "unknown"}
    return possible | plain


def waits_between(before, launched, stream_waits):
    """Whether the launching thread made a stream wait between two launches: then the pause may be that wait."""
    if not before:
        return False
    call = launched[0]
    waits = stream_waits[call.thread]
    return bisect.bisect_left(waits, before[0].start) < bisect.bisect_left(waits, call.start)


def threshold(streams, calls, stream_waits):
    """The 95th percentile of the pauses of streams whose next work was already launched, in 1 to 30 us."""
    pauses = []
    for works in streams.values():
        works.sort(key=lambda work: (work.start, work.end))
        end = works[0].end
        for before, work in zip(works, works[1:]):
            launched = calls.get(work.correlation)
            if launched and work.start > before.end and max(call.end for call in launched) < before.end:
                if not waits_between(calls.get(before.correlation), launched, stream_waits):
                    pauses.append(work.start - before.end)
            end = max(end, work.end)
    if not pauses:
        return 30_000
    pauses.sort()
    return min(max(pauses[min(len(pauses) - 1, (len(pauses) * 95 + 99) // 100 - 1)], 1_000), 30_000)


class Device:
    def __init__(self, works, host):
        self.works = sorted(works, key=lambda work: (work.start, work.end))
        self.host = host
        streams = collections.defaultdict(list)
        for work in works:
            streams[work.stream].append(work)
        self.theta = threshold(streams, host.calls, host.stream_waits)

    def gaps(self):
        """(start, end, all work that ends at its start, all that starts at its end, how many began before it)."""
        ends, starts = collections.defaultdict(list), collections.defaultdict(list)
        for work in self.works:
            ends[work.end].append(work)
            starts[work.start].append(work)
        end = self.works[0].end
        for n, work in enumerate(self.works):
            if work.start > end:
                yield end, work.start, ends[end], starts[work.start], n
            end = max(end, work.end)

    def answer(self):
        first, last = self.works[0].start, max(work.end for work in self.works)
        return {
            "device": self.works[0].pid, "window_ns": last - first, "theta_ns": self.theta,
            "gaps": [self.judge(*gap) for gap in self.gaps()],
        }

    def judge(self, a, b, before, after, n):
        # Ties go by correlation; work without one may come first or last.
        known = [work for work in after if work.correlation in self.host.calls]
        lowest = min((work.correlation for work in known), default=None)
        ending = [work for work in after if work.correlation == lowest or work not in known]
        calls = self.host.calls.get(lowest, []) if len(ending) == 1 or known else []
        bounds = collections.defaultdict(lambda: [0, 0])

        def add(length, classes):
            for name in classes:
                bounds[name][0] += length if len(classes) == 1 else 0
                bounds[name][1] += length

        overhead = list(self.host.overhead.between(a, b))
        profiler = sum(length for length, roles in overhead if "profiler" in roles)
        # Code may be loaded inside of a call, an operator or a function, whichever thread it is.
        loading = sum(length for length, roles in overhead if "loading" in roles)
        triggers = {None, "profiler"} if profiler else set()
        if not calls:
            add(b - a, {"no_launch"})
            triggers |= {None, "step_boundary"}
        elif len(ending) > 1 or len(calls) > 1 and len({(call.start, call.end) for call in calls}) > 1:
            add(b - a, {"any"})
            triggers.add("any")
        else:
            self.judge_launched(a, b, calls[0], ending[0], n, add, triggers)
        if profiler or loading:
            for bound in bounds.values():
                bound[0] = max(0, bound[0] - profiler - loading)
            bounds["profiler"][1] += profiler
            bounds["module_load"][1] += loading
        return {
            "start": a, "dur": b - a, "before": sorted({work.name for work in before}),
            "ended_by": sorted({work.name for work in ending}), "launched_by": sorted({call.name for call in calls}),
            "classes": bounds, "triggers": sorted(triggers, key=str),
        }

    def judge_launched(self, a, b, call, work, n, add, triggers):
        split = max(a, min(call.start, b))
        thread = self.host.threads[call.thread]
        for length, roles in thread.between(a, split):
            # A thread on which nothing is open waits for the one that prepares its work.
            classes = classes_of(roles)
            if roles <= {"range"} or "elsewhere" in roles:
                classes = classes.union(*map(classes_of, self.others(thread, a, split)))
            # A call that waited for a copy alone belongs to the copy until it returns.
            if "sync" in classes and is_copy(self.works[n - 1]) and length <= 30_000:
                classes = classes | {"copy"}
            add(length, classes)
        late = b - split
        within = max(0, min(call.end, b) - split)
        # Up to 30 us may be usual for a launch on an idle device.
        after = {"launch_latency"} if late < self.theta else {"queued", "dependency"}
        if self.theta <= late <= 30_000:
            after.add("launch_latency")
        if "Graph" in call.name or work.graph:
            after = {"graph", "launch_latency", "queued"}
        # A call that takes long may have loaded the code of its kernel.
        within_call = {"launch", "launch_latency", "copy"} if "emcpy" in call.name else {"launch", "launch_latency"}
        add(within, after | within_call | {role_of(call)} - PLAIN | ({"module_load"} if within > 50_000 else set()))
        add(late - within, after)
        special = sum(length for length, roles in thread.between(a, split) if roles - PLAIN)
        special += within if within > 50_000 or role_of(call) != "launch" else 0
        triggers |= self.triggers(a, b, work, call, n, 2 * special < b - a)

    def others(self, thread, a, b):
        """What is open on the other threads of the program in a range."""
        for other in self.host.threads.values():
            if other is not thread:
                for _, state in other.between(a, b):
                    yield state

    def late(self, work):
        """How long after its launch work began."""
        calls = self.host.calls.get(work.correlation)
        return work.start - max(call.end for call in calls) if calls else None

    def triggers(self, a, b, work, call, n, is_plain):
        """Those that hold or may hold; None among them if none must. `is_plain`: the host did nothing special."""
        held, open_ = set(), set()
        thread = self.host.threads[call.thread]
        for start, end in thread.waits:
            if start < a and a - self.theta <= end <= call.start and not thread.launched_between(a, end):
                # Waiting for a copy alone, on an idle device, empties no queue.
                (open_ if is_copy(self.works[n - 1]) else held).add("sync")
        for other in self.host.threads.values():
            if any(start < a and a - self.theta <= end <= b for start, end in other.waits + other.may_wait):
                open_.add("sync")
        launched = (before for before in reversed(self.works[:n]) if self.late(before) is not None)
        last = list(itertools.islice(launched, 8))
        # A gap that is much longer than the time between launches is not made by their speed.
        starts = sorted(min(call.start for call in self.host.calls[before.correlation]) for before in last)
        intervals = sorted(after - before for before, after in zip(starts, starts[1:]))
        is_of_run = bool(intervals) and b - a <= 3 * intervals[len(intervals) // 2]
        is_sure = call.start > a and is_plain and self.late(work) < self.theta and is_of_run
        # A host that waited has to launch eight pieces of work before it is known to be slow: until then none of them
        # can be ahead because of the wait.
        early = [end for _, end in thread.waits + thread.may_wait if end <= call.start]
        since = [start for start in starts if start >= max(early, default=-(1 << 62))]
        is_certain_wait = is_interrupted(thread.waits, starts, call)
        if len(since) < 8 and all(self.late(before) < 30_000 for before in last[:len(since)]):
            open_.add("sync")
        for bound, out in ((self.theta, held if is_sure else open_), (30_000, open_)):
            if len(last) == 8 and all(self.late(before) < bound for before in last):
                if len(since) == 8:
                    out.add("launch_bound")
                else:
                    # Two waits among them leave it no chance; one may have cost nothing.
                    out.add("sync") if is_certain_wait else open_.update({"launch_bound", "sync"})
                    open_.add("launch_bound" if not is_certain_wait else "sync")
        before = self.host.calls.get(self.works[n - 1].correlation, [])
        if any("GraphLaunch" in launch.name for launch in before):
            (open_ if call in before or call.start <= a else held).add("graph_end")
        since = min((call.start for call in before), default=a)
        if any(a <= at <= call.start for at in self.host.boundaries):
            held.add("step_boundary")
        elif any(min(a, since) <= at <= b for at in self.host.boundaries) or not self.host.boundaries:
            open_.add("step_boundary")
        return held | open_ | (set() if held else {None})


def is_interrupted(waits, launches, call):
    """Whether the thread waited twice since the first of these launches, and does so again in as much time."""
    if not launches:
        return False
    since = call.start - launches[0]
    comes = any(call.start < start <= call.start + since for start, _ in waits)
    return comes and sum(1 for start, end in waits if launches[0] <= start and end <= call.start) >= 2


def is_copy(work):
    return "mem" in work.kind.lower()


def is_free(event):
    return event.kind in CALLS and re.search("Free|Unregister", event.name) and "Async" not in event.name


class Host:
    def __init__(self, events):
        self.threads, self.calls = collections.defaultdict(Thread), collections.defaultdict(list)
        self.overhead, self.boundaries = Thread(), []
        self.stream_waits = collections.defaultdict(list)
        launched = {event.correlation: event.name for event in events if event.kind in WORK}
        for event in events:
            if event.kind in RANGES | OPERATORS and event.name.startswith("ProfilerStep#"):
                self.boundaries += [event.start, event.end]
            if event.kind == "overhead":
                role = "loading" if re.search(r"(?i)lazy function|module load|compiler", event.name) else "profiler"
                self.overhead.edges += [(event.start, 1, role), (event.end, -1, role)]
            if event.kind in CALLS and "StreamWaitEvent" in event.name:
                self.stream_waits[event.thread].append(event.start)
            role = role_of(event)
            if role is None:
                continue
            if role == "copy" and "DtoD" in launched.get(event.correlation, ""):
                role = "launch or copy"
            thread = self.threads[event.thread]
            for part in {role} | ({"cpu_op"} if event.kind in OPERATORS and role != "range" else set()):
                if event.end > event.start:
                    thread.edges += [(event.start, 1, part), (event.end, -1, part)]
            # Copies to pageable memory return when they are done.
            if role == "sync" or "Device -> Pageable" in launched.get(event.correlation, ""):
                thread.waits.append((event.start, event.end))
            # Frees, and copies from pageable memory, may wait for all work before.
            elif role == "maybe sync" or re.search("DtoH|HtoD", launched.get(event.correlation, "")) or is_free(event):
                thread.may_wait.append((event.start, event.end))
            if event.kind in CALLS and event.correlation in launched and event.correlation is not None:
                self.calls[event.correlation].append(event)
                thread.launches.append(event.start)
        for waits in self.stream_waits.values():
            waits.sort()
        for thread in [*self.threads.values(), self.overhead]:
            thread.close()


def devices(trace):
    events = list(events_of(trace))
    host, works = Host(events), collections.defaultdict(list)
    for event in events:
        if event.kind in WORK:
            works[event.pid].append(event)
    return [Device(works, host).answer() for _, works in sorted(works.items(), key=lambda item: str(item[0]))]


def traces(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[257:262] != b"ustar":
        return [data]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        inner = [archive.extractfile(member).read() for member in archive.getmembers() if member.isfile()]
    return [gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data for data in inner]


def main():
    for path in sys.argv[1:]:
        found = []
        for data in traces(path):
            trace = json.loads(data.decode("utf-8-sig", "replace"), parse_float=str, strict=False)
            found += devices(trace)
        print(json.dumps({"file": path, "devices": found}))


if __name__ == "__main__":
    main()
