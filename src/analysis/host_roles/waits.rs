//! Functions and calls whose own time is waiting.

use super::{Role, role_of};
use crate::analysis::frame::Frame;
use crate::analysis::threads;
use crate::analysis::totals::running_in;
use crate::model::{SliceId, SliceKind, Trace, TrackId};

/// Threads of the engine of PyTorch that are looked at: it has one for each device.
const MAX_ENGINES: usize = 64;

/// When slices of a kind and name do no work while nothing runs inside them: they sleep, or wait for a thread, a lock,
/// a queue, a socket or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    Never,
    Always,
    /// A read, directly inside a function that waits for another process.
    InsideWait,
    /// `run_backward`, while another thread runs the operators of the backward pass. On a CPU they run inside it.
    ForBackward,
}

/// When slices of this kind and name wait. Python functions are told by name, as Kineto, VizTracer and sampling
/// profilers write them.
pub fn waits(kind: SliceKind, name: &str) -> Waits {
    match role_of(kind, name) {
        Role::PythonWait => Waits::ForBackward,
        Role::QueueWait | Role::OsWait | Role::Wait => Waits::Always,
        _ if !matches!(kind, SliceKind::PythonFunction | SliceKind::Other) => Waits::Never,
        _ if matches!(name, "posix.read" | "<built-in function read>") => Waits::InsideWait,
        _ => Waits::Never,
    }
}

/// Whether a slice is directly inside another that waits whatever it is in. Cost: O(log n).
pub fn is_inside_wait(trace: &Trace, slice: SliceId) -> bool {
    let around = trace.slices.parent(slice);
    around.is_some_and(|of| waits(trace.slices.kind[of.idx()], trace.slice_name(of)) == Waits::Always)
}

/// What tells of each slice of a trace whether it waits.
#[derive(Debug)]
pub struct Waiting<'a> {
    trace: &'a Trace,
    /// The threads that run the backward pass of PyTorch for others.
    engines: Vec<TrackId>,
}

impl<'a> Waiting<'a> {
    /// Cost: O(tracks).
    pub fn of(trace: &'a Trace) -> Self {
        Self { trace, engines: threads::of_backward_pass(trace).take(MAX_ENGINES).collect() }
    }

    /// Whether a slice waits while nothing runs inside it.
    ///
    /// * `waits`: what [`waits`] says of its kind and name.
    /// * Cost: O(log n) at most.
    pub fn is_wait(&self, slice: SliceId, waits: Waits) -> bool {
        match waits {
            Waits::Never => false,
            Waits::Always => true,
            Waits::InsideWait => is_inside_wait(self.trace, slice),
            Waits::ForBackward => {
                let own = self.trace.slices.track_of(slice);
                self.engines.iter().any(|&engine| engine != own && self.runs_during(engine, slice))
            }
        }
    }

    fn runs_during(&self, engine: TrackId, slice: SliceId) -> bool {
        let slices = &self.trace.slices;
        self.trace.rows(engine).first().is_some_and(|row| !running_in(slices, row, slices.time(slice)).is_empty())
    }
}

/// Whether a function sleeps, or waits for a thread, a lock, a queue, a socket or a process; as recorders of Python
/// write it.
pub(super) fn is_waiting_function(name: &str) -> bool {
    let builtin = name.strip_prefix("<built-in ").map(|rest| rest.trim_end_matches('>'));
    if let Some(builtin) = builtin {
        // `method acquire of _thread.lock object at 0x7f`, `function sleep`.
        let called = builtin.split_once(' ').map_or(builtin, |(_, called)| called);
        let (function, owner) = called.split_once(" of ").unwrap_or((called, ""));
        return is_waiting_call(owner, function);
    }
    // Of cProfile: `<method 'acquire' of '_thread.lock' objects>`.
    if let Some((function, owner)) = name.strip_prefix("<method '").and_then(|rest| rest.split_once("' of '")) {
        return is_waiting_call(owner, function);
    }
    if let Some((place, function)) = name.strip_prefix('$').and_then(|name| name.rsplit_once(' ')) {
        // Of JAX: `$threading.py:589 wait`, `$time sleep`.
        return match place.rsplit_once(':') {
            Some((file, _)) => is_of_library(file, function),
            None => is_waiting_call(place, function),
        };
    }
    let frame = Frame::of(name);
    let (owner, function) = frame.function.rsplit_once('.').unwrap_or(("", frame.function));
    match frame.file {
        "" => !owner.is_empty() && is_waiting_call(owner, function),
        file => is_of_library(file, function),
    }
}

/// * `owner`: the module or type of a function written in C.
fn is_waiting_call(owner: &str, function: &str) -> bool {
    let is_of = |part: &str| owner.contains(part);
    match function {
        "sleep" => owner.is_empty() || is_of("time"),
        "acquire" | "__enter__" | "_acquire_restore" => {
            is_of("lock") || is_of("Lock") || is_of("Semaphore") || is_of("SemLock")
        }
        "poll" | "select" | "control" => is_of("select") || is_of("poll") || is_of("kqueue"),
        "get" => is_of("SimpleQueue"),
        "recv" | "recv_into" | "recvfrom" | "recvmsg" | "accept" => is_of("socket"),
        "wait" | "wait3" | "wait4" | "waitid" | "waitpid" => is_of("posix"),
        "WaitForSingleObject" | "WaitForMultipleObjects" => true,
        _ => false,
    }
}

/// Functions of Python's library that wait in C themselves, or run next to nothing beside a call that does. A call that
/// began before the recording is not recorded: a thread of a pool is then in the loop that takes its tasks.
fn is_of_library(file: &str, function: &str) -> bool {
    let is_in =
        |end: &str| file.strip_suffix(end).is_some_and(|folder| folder.is_empty() || folder.ends_with(['/', '\\']));
    match function {
        "wait" | "join" | "acquire" | "_acquire_restore" | "_wait_for_tstate_lock" if is_in("threading.py") => true,
        "get" | "put" | "join" if is_in("queue.py") => true,
        "select" if is_in("selectors.py") => true,
        "readinto" | "accept" if is_in("socket.py") => true,
        "wait" | "_wait" | "_try_wait" | "communicate" if is_in("subprocess.py") => true,
        "result" | "wait" | "as_completed" | "_worker" | "_process_worker" => file.contains("concurrent/futures/"),
        "worker" | "_handle_workers" | "_handle_tasks" | "_handle_results" => file.contains("multiprocessing/pool.py"),
        "_feed" => file.contains("multiprocessing/queues.py"),
        "get" | "recv" | "recv_bytes" | "_recv" | "poll" | "_poll" => file.contains("multiprocessing/"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{TimeNs, TraceBuilder};

    #[test]
    fn waits_are_told_from_work_in_the_words_of_every_recorder() {
        let (python, other) = (SliceKind::PythonFunction, SliceKind::Other);
        for (kind, name) in [
            (other, "time.sleep"),
            (other, "_thread.lock.acquire"),
            (other, "_thread.RLock.acquire"),
            (other, "_thread.lock.__enter__"),
            (other, "select.epoll.poll"),
            (other, "_queue.SimpleQueue.get"),
            (other, "_socket.socket.recv"),
            (other, "posix.waitpid"),
            (other, "Condition.wait (/usr/lib/python3.12/threading.py:323)"),
            (other, "Queue.get (/usr/lib/python3.13/queue.py:154)"),
            (python, "<built-in function sleep>"),
            (python, "<method 'acquire' of '_thread.lock' objects>"),
            (SliceKind::Annotation, "<method 'acquire' of '_thread.lock' objects>"),
            (SliceKind::Annotation, "queue.py(154): get"),
            (python, "<built-in method acquire of _thread.lock object at 0x7faa>"),
            (python, "<built-in method recv of _socket.socket object at 0x7faa>"),
            (python, "<built-in method poll of select.poll object at 0x7faa>"),
            (python, "<built-in method _acquire_restore of _thread.RLock object at 0x7faa>"),
            (python, "threading.py(589): wait"),
            (python, "concurrent/futures/thread.py(81): _worker"),
            (python, "multiprocessing/queues.py(231): _feed"),
            (other, "Pool._handle_tasks (/usr/lib/python3.11/multiprocessing/pool.py:527)"),
            (python, "selectors.py(451): select"),
            (other, "$time sleep"),
            (other, "$threading.py:589 wait"),
            (SliceKind::Os, "futex"),
        ] {
            assert_eq!(waits(kind, name), Waits::Always, "{name}");
        }
        for (kind, name) in [
            (other, "sleepless (a.py:3)"),
            (python, "<method 'release' of '_thread.lock' objects>"),
            (SliceKind::Annotation, "get"),
            (other, "Mapping.get (<frozen _collections_abc>:804)"),
            (other, "_thread.lock.release"),
            (other, "select.epoll.register"),
            (other, "dict.get"),
            (other, "get (/home/me/cache.py:9)"),
            (other, "wait (/home/me/my_threading.py:9)"),
            (other, "numpy.select"),
            (other, "str.join"),
            (other, "sleep"),
            (python, "<built-in method join of str object at 0x7faa>"),
            (python, "<built-in method get of dict object at 0x7faa>"),
            (python, "train.py(12): wait"),
            (python, "train.py(12): _worker"),
            (other, "$train.py:12 wait"),
            (SliceKind::Operator, "aten::select"),
            (SliceKind::Os, "read"),
        ] {
            assert_eq!(waits(kind, name), Waits::Never, "{name}");
        }
    }

    #[test]
    fn a_read_waits_inside_a_wait_and_a_backward_pass_while_another_thread_runs_it() {
        let (python, operator) = (SliceKind::PythonFunction, SliceKind::Operator);
        let (read, backward) = ("<built-in function read>", "<built-in method run_backward of torch._C._EngineBase>");
        let trace = TraceBuilder::from_slices(&[
            ("main", python, "multiprocessing/connection.py(390): _recv", 0, 100),
            ("main", python, read, 10, 90),
            ("main", python, "train.py(9): load", 100, 200),
            ("main", python, read, 110, 190),
            ("main", python, backward, 200, 300),
            ("main", python, backward, 300, 400),
            ("main", operator, "autograd::engine::evaluate_function: AddBackward0", 310, 390),
            ("engine", operator, "autograd::engine::evaluate_function: AddBackward0", 220, 280),
        ])
        .finish();
        let waiting = Waiting::of(&trace);
        let found: Vec<(TimeNs, bool)> = (0..trace.slices.len())
            .map(|i| SliceId(i as u32))
            .filter(|&id| [read, backward].contains(&trace.slice_name(id)))
            .map(|id| (trace.slices.ts[id.idx()], waiting.is_wait(id, waits(python, trace.slice_name(id)))))
            .collect();
        assert_eq!(found, [(200, true), (300, false), (10, true), (110, false)]);
    }
}
