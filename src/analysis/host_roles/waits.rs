//! Functions and calls whose own time is waiting.

use super::{Role, role_of};
use crate::analysis::frame::Frame;
use crate::model::SliceKind;

/// Whether a slice does no work while nothing runs inside it: it sleeps, or waits for a thread, a lock, a queue, a
/// socket or a process. Python functions are told by name, as Kineto, VizTracer and sampling profilers write them.
pub fn waits(kind: SliceKind, name: &str) -> bool {
    match role_of(kind, name) {
        Role::PythonWait | Role::QueueWait | Role::OsWait => true,
        _ => matches!(kind, SliceKind::PythonFunction | SliceKind::Other) && is_waiting_function(name),
    }
}

fn is_waiting_function(name: &str) -> bool {
    let builtin = name.strip_prefix("<built-in ").map(|rest| rest.trim_end_matches('>'));
    if let Some(builtin) = builtin {
        // `method acquire of _thread.lock object at 0x7f`, `function sleep`.
        let called = builtin.split_once(' ').map_or(builtin, |(_, called)| called);
        let (function, owner) = called.split_once(" of ").unwrap_or((called, ""));
        return is_waiting_call(owner, function);
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
        "acquire" | "__enter__" => is_of("lock") || is_of("Lock") || is_of("Semaphore") || is_of("SemLock"),
        "poll" | "select" | "control" => is_of("select") || is_of("poll") || is_of("kqueue"),
        "get" => is_of("SimpleQueue"),
        "recv" | "recv_into" | "recvfrom" | "recvmsg" | "accept" => is_of("socket"),
        "wait" | "wait3" | "wait4" | "waitid" | "waitpid" => is_of("posix"),
        "WaitForSingleObject" | "WaitForMultipleObjects" => true,
        _ => false,
    }
}

/// Functions of Python's library that wait in C themselves, or run next to nothing beside a call that does.
fn is_of_library(file: &str, function: &str) -> bool {
    let is_in =
        |end: &str| file.strip_suffix(end).is_some_and(|folder| folder.is_empty() || folder.ends_with(['/', '\\']));
    match function {
        "wait" | "join" | "acquire" | "_wait_for_tstate_lock" if is_in("threading.py") => true,
        "get" | "put" | "join" if is_in("queue.py") => true,
        "select" if is_in("selectors.py") => true,
        "readinto" | "accept" if is_in("socket.py") => true,
        "wait" | "_wait" | "_try_wait" | "communicate" if is_in("subprocess.py") => true,
        "result" | "wait" | "as_completed" => file.contains("concurrent/futures/"),
        "get" | "recv" | "recv_bytes" | "_recv" | "poll" | "_poll" => file.contains("multiprocessing/"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (python, "<built-in method acquire of _thread.lock object at 0x7faa>"),
            (python, "<built-in method recv of _socket.socket object at 0x7faa>"),
            (python, "<built-in method poll of select.poll object at 0x7faa>"),
            (python, "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"),
            (python, "threading.py(589): wait"),
            (python, "selectors.py(451): select"),
            (SliceKind::Os, "futex"),
        ] {
            assert!(waits(kind, name), "{name}");
        }
        for (kind, name) in [
            (other, "sleepless (a.py:3)"),
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
            (SliceKind::Operator, "aten::select"),
            (SliceKind::Os, "read"),
        ] {
            assert!(!waits(kind, name), "{name}");
        }
    }
}
