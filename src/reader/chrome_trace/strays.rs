//! Threads of Python that PyTorch's profiler does not know, as one that `tqdm` starts: it writes them as thread 0 of
//! process 0, which is the number of GPU 0.

use hashbrown::HashSet;

use super::assemble::{ProcessTracks, Thread};

/// Moves threads that run Python functions from the process of a device to the program, if one process alone has others.
/// Cost: O(threads).
pub fn take_home(threads: &mut [Thread], process_tracks: &mut ProcessTracks) {
    let mut on_device = |thread: &Thread| {
        let process = process_tracks.process(&thread.pid);
        process_tracks.processes[process.0 as usize].device.is_some()
    };
    let mut programs: HashSet<String> = HashSet::new();
    let mut strays: Vec<usize> = Vec::new();
    for (i, thread) in threads.iter().enumerate().filter(|(_, thread)| thread.has_python && !thread.has_device_work) {
        if on_device(thread) {
            strays.push(i);
        } else {
            programs.insert(thread.pid.clone());
        }
    }
    let mut programs = programs.into_iter();
    if let (Some(program), None) = (programs.next(), programs.next()) {
        for i in strays {
            threads[i].pid.clone_from(&program);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::job::Progress;
    use crate::reader::chrome_trace::assemble::Assembly;
    use crate::reader::chrome_trace::pipeline;

    /// How many tracks the device has, where these programs run Python.
    fn on_device(programs: &[u32]) -> usize {
        let mut events = vec![
            r#"{"ph":"X","cat":"kernel","pid":0,"tid":7,"ts":0,"dur":9,"name":"gemm"}"#.to_owned(),
            r#"{"ph":"X","cat":"python_function","pid":0,"tid":0,"ts":0,"dur":9,"name":"monitor.py(60): run"}"#
                .to_owned(),
        ];
        events.extend(programs.iter().map(|pid| {
            format!(r#"{{"ph":"X","cat":"python_function","pid":{pid},"tid":1,"ts":0,"dur":9,"name":"a.py(1): f"}}"#)
        }));
        let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        let mut assembly = Assembly::default();
        let _ = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        assert_eq!(trace.tracks.len(), 2 + programs.len());
        trace.tracks.iter().filter(|track| trace.process(track.process).device == Some(0)).count()
    }

    #[test]
    fn a_thread_that_the_profiler_does_not_know_is_one_of_the_program() {
        assert_eq!(on_device(&[4_711]), 1);
        assert_eq!(on_device(&[4_711, 4_712]), 2, "of which one, nothing tells");
        assert_eq!(on_device(&[]), 2);
    }
}
