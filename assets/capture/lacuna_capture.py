"""Records torch.profiler traces and memory snapshots of the process that imported it, for torch 2.0 and later.

The folder around this file's folder is that of the run: results are written there under a temporary name and
renamed once whole. `processes/PID.json` says how far each process came, for the launcher to read. No failure in
here reaches the program.
"""

import atexit
import functools
import inspect
import json
import os
import pickle
import signal
import sys
import threading
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.dirname(HERE)
# A program that survives running out of memory may do so again and again.
MAX_OOM_SNAPSHOTS = 3
# Steps of another optimizer after which the one that counted first counts as gone.
GONE_AFTER = 20


def start(torch):
    """Called once torch is imported."""
    with open(os.path.join(HERE, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    Recorder(torch, config).arm()


def contained(method):
    """A failure of the method ends the recording and is told; the program goes on."""

    @functools.wraps(method)
    def call(self, *args):
        try:
            return method(self, *args)
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")

    return call


class Deferred:
    """Holds SIGINT and SIGTERM back while the profiler changes its state or a result is written.

    With `goes_on`, the program runs afterwards: there a signal arrives, so that a traceback shows it alone.
    """

    def __init__(self, goes_on=False):
        self.raise_signal = raise_later if goes_on else signal.raise_signal

    def __enter__(self):
        self.old, self.arrived = {}, []
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # None is a handler that is not Python's.
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self.old[number] = signal.signal(number, lambda number, _frame: self.arrived.append(number))

    def __exit__(self, *_):
        for number, handler in self.old.items():
            signal.signal(number, handler)
        for number in self.arrived:
            self.raise_signal(number)


def leave_out_caller(error):
    """Takes the function that handles an error, and then raises it again, out of its traceback.

    What the program raises is of the program.
    """
    error.__traceback__ = error.__traceback__.tb_next
    if sys.version_info < (3, 11):
        # There `raise` goes on with what the handler was given.
        try:
            import ctypes

            handled = [ctypes.py_object(part) for part in (type(error), error, error.__traceback__)]
            for part in handled:
                # The function takes them over.
                ctypes.pythonapi.Py_IncRef(part)
            ctypes.pythonapi.PyErr_SetExcInfo(*handled)
        except (ImportError, AttributeError):
            # An interpreter that is not CPython: the line about the recorder stays.
            pass


def raise_later(number):
    """Raises a signal once the main thread has left this file, or after a second."""
    main = threading.main_thread().ident

    def is_here():
        frame = sys._current_frames().get(main)
        while frame is not None and frame.f_code.co_filename != __file__:
            frame = frame.f_back
        return frame is not None

    def beside():
        for _ in range(1000):
            time.sleep(0.001)
            if not is_here():
                break
        # To that thread, which it may have to wake.
        signal.pthread_kill(main, number)

    try:
        threading.Thread(target=beside, daemon=True).start()
    except RuntimeError:
        signal.raise_signal(number)


def has_work(place):
    """Whether a trace has an operator, a kernel or a range of the program in it."""
    kinds = (b'"cpu_op"', b'"kernel"', b'"user_annotation"')
    with open(place, "rb") as file:
        return any(kind in line for line in file for kind in kinds)


def die_of_sigint():
    """Lets the interpreter end by SIGINT as it would without the recorder, after an interrupt that was not caught.

    It remembers how the latest piece of source text that it ran ended; torch runs some while it writes.
    """
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        pass


class Recorder:
    """One of each process. `state` is one of waiting, recording, writing, recorded, ended, skipped."""

    def __init__(self, torch, config):
        self.torch = torch
        self.config = config
        self.pid = os.getpid()
        self.state = "waiting"
        self.problems = []
        self.results = []
        # Steps that ended, the optimizer whose steps they are, and the steps of others since its last.
        self.steps = 0
        self.optimizer = None
        self.others = 0
        self.windows = 0
        self.profile = None
        self.is_done = not config["trace"]
        self.is_finished = False
        self.has_history = False
        self.ooms = 0
        self.holds_sigterm = False

    # Start and end

    @contained
    def arm(self):
        """Hooks what tells steps and ends; nothing is recorded yet, except of a whole run."""
        atexit.register(self.finish)
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            from multiprocessing.util import Finalize

            # Such a process ends without the functions of atexit.
            Finalize(None, self.finish, exitpriority=100)
        os.register_at_fork(after_in_child=self.disable)
        self.watch_other_profilers()
        self.watch_steps()
        if self.config["memory"]:
            self.torch.cuda._lazy_call(self.record_history)
        self.tell()
        if self.config["trace"] and self.config["whole"]:
            self.begin()
            self.hold_sigterm()

    def disable(self):
        """In a forked child, which must not touch the state of its parent's profiler."""
        if self.holds_sigterm and signal.getsignal(signal.SIGTERM) == self.on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.is_done = self.is_finished = True
        self.profile = None

    def finish(self):
        """Writes what is recorded so far; runs at every end of the interpreter, once."""
        if self.is_finished or os.getpid() != self.pid:
            return
        self.is_finished = True
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is not None:
            # A second one would break the writing off.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.stop_profile()
        if self.has_history:
            self.write_snapshot("")
        if self.state != "skipped":
            self.state = "ended"
        self.tell()
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            die_of_sigint()

    def on_sigterm(self, number, _frame):
        if not self.is_finished:
            self.finish()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(self.pid, number)

    def hold_sigterm(self):
        """Lets SIGTERM write what is recorded first, unless the program has a handler of its own."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not self.holds_sigterm and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.on_sigterm)
            self.holds_sigterm = True

    def release_sigterm(self):
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and self.holds_sigterm and signal.getsignal(signal.SIGTERM) == self.on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.holds_sigterm = False

    # Steps

    def watch_steps(self):
        """Counts a step at each return from an optimizer's `step`."""
        optimizers = self.torch.optim.Optimizer
        original = getattr(optimizers, "profile_hook_step", None)
        if original is None:
            hooks = self.torch.optim.optimizer
            hooks.register_optimizer_step_post_hook(lambda optimizer, _args, _kwargs: self.stepped(optimizer))
            return

        def profile_hook_step(function):
            hooked = original(function)

            # Around torch's own range of the step, so that steps do not cut it. Without `__wrapped__`, by which some
            # versions of torch take the hooks off again.
            def step(*args, **kwargs):
                try:
                    result = hooked(*args, **kwargs)
                except BaseException as error:
                    leave_out_caller(error)
                    raise
                self.stepped(args[0])
                return result

            step.__name__, step.__qualname__ = function.__name__, function.__qualname__
            step.__doc__, step.__module__ = function.__doc__, function.__module__
            step.__signature__ = inspect.signature(function)
            return step

        optimizers.profile_hook_step = staticmethod(profile_hook_step)

    def stepped(self, optimizer):
        if self.is_done or self.is_finished:
            return
        if self.optimizer is None or self.others >= GONE_AFTER:
            self.optimizer = id(optimizer)
        if self.optimizer != id(optimizer):
            self.others += 1
            return
        self.others = 0
        self.steps += 1
        with Deferred(goes_on=True):
            if self.profile is not None:
                self.step_profile()
            elif self.steps == 1:
                self.begin()
        if self.profile is not None:
            self.hold_sigterm()
        elif not self.has_history:
            self.release_sigterm()

    @contained
    def step_profile(self):
        if not self.config["whole"]:
            self.step_window()
            if self.state == "waiting" and self.is_warm():
                self.state = "recording"
                self.tell()
            if self.windows >= self.config["repeat"]:
                self.end_profile()

    def step_window(self):
        profile, none = self.profile, self.torch.profiler.ProfilerAction.NONE
        if profile.current_action == none and profile.schedule(profile.step_num + 1) != none:
            # torch warns at each window but the first. Not at every step: what is caught once makes Python forget
            # which warnings of the program it has shown.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                profile.step()
        else:
            profile.step()

    # Traces

    @contained
    def begin(self):
        """Starts the profiler, after the first step unless the whole run is recorded."""
        if self.is_done:
            return
        rank = self.rank()
        ranks = self.config["ranks"]
        if ranks is not None and rank not in ranks:
            self.is_done = True
            self.state = "skipped"
            self.tell()
            return
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        # After the first step, a process that uses a GPU has begun to; asking whether there is one would begin it.
        if self.torch.cuda.is_initialized() or self.config["whole"]:
            activities += [kind for kind in profiler.supported_activities() if kind not in activities]
        schedule = None
        if not self.config["whole"]:
            numbers = {name: self.config[name] for name in ("wait", "warmup", "active", "repeat")}
            schedule = profiler.schedule(**numbers)
        options = {name: self.config[name] for name in ("record_shapes", "with_stack", "profile_memory", "with_flops")}
        options["with_modules"] = self.config["with_modules"]
        self.profile = profiler.profile(
            activities=activities, schedule=schedule, on_trace_ready=self.write_trace, **options
        )
        if schedule is not None:
            # The first step is over.
            self.profile.step_num = self.steps
            self.profile.current_action = schedule(self.steps)
        with warnings.catch_warnings():
            # Of torch to whoever wrote the program.
            warnings.simplefilter("ignore")
            self.profile.start()
        self.state = "recording" if self.config["whole"] or self.is_warm() else "waiting"
        self.tell()

    def is_warm(self):
        """Whether the profiler keeps what happens from now on: the steps before only warm it up."""
        return self.steps >= self.config["wait"] + self.config["warmup"]

    @contained
    def write_trace(self, profile):
        self.state = "writing"
        self.tell()
        self.windows += 1
        # Torch compresses what ends in .gz only, and does it slowly.
        temporary = os.path.join(RUN, f"{self.pid}.tmp")
        profile.export_chrome_trace(temporary)
        if self.config["whole"] and not has_work(temporary):
            # Of a process that starts workers.
            os.remove(temporary)
        else:
            self.keep(temporary, f"trace-rank{self.rank()}-{self.windows}", ".pt.trace.json")
        self.state = "recorded" if self.windows >= self.config["repeat"] else "waiting"
        self.tell()

    def end_profile(self):
        """Every window is written."""
        profile, self.profile, self.is_done = self.profile, None, True
        profile.stop()

    @contained
    def stop_profile(self):
        """Ends the profiler early; `write_trace` gets what it has."""
        profile, self.profile, self.is_done = self.profile, None, True
        if profile is not None:
            if self.loads_data():
                profile.on_trace_ready = lambda _profile: None
                self.state = "skipped"
            profile.stop()

    def watch_other_profilers(self):
        """Steps aside where the program profiles itself: there is one profiler in a process."""
        profiles = self.torch.autograd.profiler.profile
        original = getattr(profiles, "_prepare_trace", None)
        if original is None:
            return

        @functools.wraps(original)
        def prepare(profile, *args, **kwargs):
            own = self.profile is not None and self.profile.profiler is profile
            if not own and not self.is_done:
                self.problems.append("the program uses torch.profiler itself, which leaves no room for Lacuna's")
                self.stop_profile()
                self.tell()
            return original(profile, *args, **kwargs)

        profiles._prepare_trace = prepare

    # Memory

    @contained
    def record_history(self):
        """Runs when CUDA has been initialized."""
        ranks = self.config["ranks"]
        if self.is_finished or os.getpid() != self.pid or (ranks is not None and self.rank() not in ranks):
            return
        memory, entries = self.torch.cuda.memory, self.config["memory_entries"]
        try:
            memory._record_memory_history("all", stacks="python", max_entries=entries)
        except TypeError:
            # Of torch 2.0.
            memory._record_memory_history(True, trace_alloc_max_entries=entries, trace_alloc_record_context=True)
        self.has_history = True
        self.hold_sigterm()
        self.torch._C._cuda_attach_out_of_memory_observer(self.on_oom)

    def on_oom(self, *_):
        self.ooms += 1
        if self.ooms <= MAX_OOM_SNAPSHOTS and os.getpid() == self.pid:
            self.write_snapshot(f"-oom{self.ooms}")

    @contained
    def write_snapshot(self, what):
        with Deferred():
            self.save_snapshot(what)

    def save_snapshot(self, what):
        temporary = os.path.join(RUN, f"{self.pid}.tmp")
        with open(temporary, "wb") as file:
            pickle.dump(self.torch.cuda.memory._snapshot(), file)
        self.keep(temporary, f"memory-rank{self.rank()}{what}", ".pickle")
        self.tell()

    # Words

    @staticmethod
    def loads_data():
        """Whether this process is a worker of a DataLoader, which is part of no rank's work."""
        multiprocessing = sys.modules.get("multiprocessing.process")
        # torch forgets what its own get_worker_info tells before such a process ends.
        target = getattr(multiprocessing and multiprocessing.current_process(), "_target", None)
        return (getattr(target, "__module__", None) or "").startswith("torch.utils.data")

    def fail(self, problem):
        self.problems.append(problem)
        self.is_done = True
        self.profile = None
        try:
            self.tell()
        except OSError:
            pass

    def tell(self):
        """Writes how far this process is."""
        folder = os.path.join(RUN, "processes")
        os.makedirs(folder, exist_ok=True)
        told = {
            "pid": self.pid,
            "rank": self.rank(),
            "state": self.state,
            "steps": self.steps,
            "torch": str(self.torch.__version__),
            "results": self.results,
            "problems": self.problems,
        }
        place = os.path.join(folder, f"{self.pid}.json")
        with open(f"{place}.tmp", "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(f"{place}.tmp", place)

    def rank(self):
        distributed = getattr(self.torch, "distributed", None)
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
            if os.environ.get(name, "").isdigit():
                return int(os.environ[name])
        return 0

    def keep(self, temporary, name, extension):
        """Gives a whole file a name in the run's folder that no other process of the same rank has taken."""
        place = os.path.join(RUN, name + extension)
        try:
            # Fails where the name is taken, at whatever moment.
            os.link(temporary, place)
            os.remove(temporary)
        except OSError:
            if os.path.exists(place):
                place = os.path.join(RUN, f"{name}-pid{self.pid}{extension}")
            os.replace(temporary, place)
        self.results.append(os.path.basename(place))
