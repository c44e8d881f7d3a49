"""As much of PyTorch as Lacuna's recorder touches, for machines without it. It records nothing but steps."""

import functools
import json
import pickle
import sys
import time
import types
import warnings

__version__ = "2.4.0+stub"


def module(name):
    made = types.ModuleType(f"torch.{name}")
    sys.modules[f"torch.{name}"] = made
    return made


class Optimizer:
    def __init__(self):
        step = type(self).step
        if not getattr(step, "hooked", False):
            type(self).step = self.profile_hook_step(step)
            type(self).step.hooked = True

    @staticmethod
    def profile_hook_step(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper


class SGD(Optimizer):
    def step(self, closure=None):
        return closure


class AutogradProfile:
    is_on = False

    def _prepare_trace(self):
        pass

    def start(self):
        if AutogradProfile.is_on:
            raise RuntimeError("Profiler is already enabled on this thread")
        AutogradProfile.is_on = True

    def stop(self):
        AutogradProfile.is_on = False


def schedule(*, wait, warmup, active, repeat=0, skip_first=0):
    def action(step):
        n = wait + warmup + active
        if repeat and step // n >= repeat:
            return "none"
        at = step % n
        return "none" if at < wait else "warmup" if at < wait + warmup else "save" if at == n - 1 else "record"

    return action


class Profile:
    def __init__(self, activities=None, schedule=None, on_trace_ready=None, **options):
        self.schedule = schedule or (lambda _: "record")
        self.on_trace_ready = on_trace_ready
        self.options = options
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler = None
        self.steps = []
        self.windows = 0

    def start(self):
        if self.current_action != "none":
            self._begin()

    def _begin(self):
        if self.windows:
            warnings.warn("Profiler clears events at the end of each cycle")
        self.windows += 1
        self.profiler = AutogradProfile()
        self.profiler._prepare_trace()
        self.profiler.start()

    def _end(self, is_kept):
        self.profiler.stop()
        self.profiler = None
        if is_kept:
            self.on_trace_ready(self)
        self.steps = []

    def step(self):
        was, self.step_num = self.current_action, self.step_num + 1
        if was in ("record", "save"):
            self.steps.append(self.step_num - 1)
        self.current_action = self.schedule(self.step_num)
        if was == "save":
            self._end(True)
        if self.profiler is None and self.current_action != "none":
            self._begin()

    def stop(self):
        if self.profiler is not None:
            self._end(self.current_action != "warmup")

    def export_chrome_trace(self, path):
        # As imports within torch do.
        exec("")
        time.sleep(SLOW)
        events = [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": n, "dur": 1}
            for n in self.steps
        ] + _operators
        with open(path, "w") as file:
            json.dump({"options": self.options, "traceEvents": events}, file)


SLOW = 0.0
_operators = []


def ones():
    _operators.append({"ph": "X", "cat": "cpu_op", "name": "aten::ones", "pid": 1, "tid": 1, "ts": 0, "dur": 1})


optim, profiler, autograd, cuda, _C = map(module, ("optim", "profiler", "autograd", "cuda", "_C"))
optim.Optimizer, optim.SGD = Optimizer, SGD
profiler.profile, profiler.schedule = Profile, schedule
profiler.ProfilerAction = types.SimpleNamespace(NONE="none")
profiler.ProfilerActivity = types.SimpleNamespace(CPU="cpu", CUDA="cuda")
profiler.supported_activities = lambda: {"cpu"}
autograd.profiler = module("autograd.profiler")
autograd.profiler.profile = AutogradProfile

# The allocator
_queued, _observers = [], []
cuda._lazy_call = lambda call: call() if cuda.initialized else _queued.append(call)
cuda.initialized = False
cuda.is_initialized = lambda: cuda.initialized
cuda.memory = module("cuda.memory")
cuda.memory._record_memory_history = lambda *args, **kwargs: None
cuda.memory._snapshot = lambda: {"segments": [], "device_traces": [[]]}
_C._cuda_attach_out_of_memory_observer = _observers.append


def use_cuda():
    cuda.initialized = True
    for call in _queued:
        call()


def run_out_of_memory():
    for observer in _observers:
        observer(0, 1 << 30, 1 << 30, 0)
    raise MemoryError("CUDA out of memory")
