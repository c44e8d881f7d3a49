//! Devices of traces by JAX and TensorFlow, whose events have no category: a process is named after its device, as
//! `/device:GPU:0`, and a thread after its stream, as `Stream #14(Compute,MemcpyH2D)`.

use hashbrown::{HashMap, HashSet};

use super::assemble::{ProcessTracks, Thread};
use crate::model::{CopyKind, MemoryCopy, SliceFacts, SliceKind, StringId, TraceBuilder};

/// What starts the name of a device's process, and what its line of work is called where it has no streams.
const DEVICES: [&str; 2] = ["/device:GPU:", "/device:TPU:"];
const OPERATIONS: &str = "XLA Ops";

/// Makes devices of the processes named after one, and work of what has no category on their streams. What else they
/// hold, such as modules, operations and scopes that the profiler derived, are annotations of the device.
///
/// Cost: O(n) for n slices, if there is such a process.
pub fn mark_devices(threads: &mut [Thread], process_tracks: &mut ProcessTracks, builder: &mut TraceBuilder) {
    let mut devices: HashMap<String, u32> = HashMap::new();
    for process in process_tracks.processes.iter_mut().filter(|process| process.device.is_none()) {
        if let Some(device) = device_of(&process.name) {
            process.device = Some(device);
            process.sort_index = i64::from(device);
            devices.insert(process.pid.clone(), device);
        }
    }
    if devices.is_empty() {
        return;
    }
    let is_own = |thread: &Thread| devices.contains_key(&thread.pid);
    let has_streams: HashSet<String> =
        threads.iter().filter(|thread| is_own(thread) && thread.is_stream()).map(|thread| thread.pid.clone()).collect();
    let is_work: Vec<Option<bool>> = threads
        .iter()
        .map(|thread| {
            let has_streams = has_streams.contains(&thread.pid);
            is_own(thread).then(|| if has_streams { thread.is_stream() } else { thread.has_name(OPERATIONS) })
        })
        .collect();
    threads.iter_mut().zip(&is_work).for_each(|(thread, is_work)| thread.has_device_work |= is_work.is_some());
    let mut known: HashMap<StringId, (SliceKind, u32)> = HashMap::new();
    for part in &mut builder.slices {
        for i in 0..part.kind.len() {
            let Some(is_work) = is_work.get(part.track[i].0 as usize).copied().flatten() else { continue };
            if part.kind[i] != SliceKind::Other {
                continue;
            }
            if !is_work {
                part.kind[i] = SliceKind::GpuAnnotation;
                continue;
            }
            (part.kind[i], part.facts[i]) = *known.entry(part.name[i]).or_insert_with(|| {
                let (kind, copy) = work_of(builder.strings.get(part.name[i]));
                (kind, builder.facts.add(&SliceFacts { copy, ..SliceFacts::default() }))
            });
        }
    }
}

/// The index of the device that a process is named after, as `/device:GPU:3` or `/host:…/device:GPU:3 Compute`.
fn device_of(name: &str) -> Option<u32> {
    let (_, rest) = DEVICES.iter().find_map(|prefix| name.split_once(prefix))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn work_of(name: &str) -> (SliceKind, Option<MemoryCopy>) {
    let copy = |kind| Some(MemoryCopy { kind, ..MemoryCopy::default() });
    if name.starts_with("Memset") {
        return (SliceKind::Memset, copy(CopyKind::Memset));
    }
    let Some(direction) = name.strip_prefix("Memcpy") else { return (SliceKind::Kernel, None) };
    let kind = match direction.get(..3).unwrap_or_default() {
        "H2D" => copy(CopyKind::HtoD),
        "D2H" => copy(CopyKind::DtoH),
        "D2D" => copy(CopyKind::DtoD),
        "P2P" => copy(CopyKind::PtoP),
        "H2H" => copy(CopyKind::HtoH),
        _ => None,
    };
    (SliceKind::Memcpy, kind)
}

#[cfg(test)]
mod tests {
    use crate::job::Progress;
    use crate::model::{CopyKind, SliceId, SliceKind, TrackKind};
    use crate::reader::chrome_trace::{assemble::Assembly, pipeline};

    #[test]
    fn processes_named_after_devices_are_devices() {
        let text = br#"{"displayTimeUnit":"ns","traceEvents":[{},
            {"ph":"M","pid":2,"name":"process_name","args":{"name":"/device:GPU:1"}},
            {"ph":"M","pid":2,"tid":14,"name":"thread_name","args":{"name":"Stream #14(Compute,MemcpyD2H)"}},
            {"ph":"M","pid":2,"tid":3,"name":"thread_name","args":{"name":"XLA Modules"}},
            {"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
            {"ph":"X","pid":701,"tid":9,"ts":0,"dur":2,"name":"PjitFunction(step)"},
            {"ph":"X","pid":701,"tid":9,"ts":4,"dur":9,"name":"train","args":{"step_num":"0"}},
            {"ph":"X","pid":701,"tid":9,"ts":14,"dur":9,"name":"train","args":{"step_num":"1"}},
            {"ph":"X","pid":2,"tid":14,"ts":5,"dur":2,"name":"loop_add_fusion","args":{"hlo_op":"fusion.1"}},
            {"ph":"X","pid":2,"tid":14,"ts":8,"dur":1,"name":"MemcpyD2H"},
            {"ph":"X","pid":2,"tid":14,"ts":9,"dur":1,"name":"Memset"},
            {"ph":"X","pid":2,"tid":3,"ts":5,"dur":5,"name":"jit_step(12)"}]}"#;
        let mut assembly = Assembly::default();
        let _ = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        let device = trace.processes.iter().find(|process| process.device == Some(1)).unwrap();
        assert_eq!(device.name, "/device:GPU:1");
        let kinds: Vec<_> = (0..trace.slices.len() as u32)
            .map(SliceId)
            .map(|slice| (trace.slice_name(slice), trace.slices.kind[slice.idx()]))
            .collect();
        for expected in [
            ("loop_add_fusion", SliceKind::Kernel),
            ("MemcpyD2H", SliceKind::Memcpy),
            ("Memset", SliceKind::Memset),
            ("jit_step(12)", SliceKind::GpuAnnotation),
            ("PjitFunction(step)", SliceKind::Other),
            ("train", SliceKind::Annotation),
        ] {
            assert!(kinds.contains(&expected), "{kinds:?}");
        }
        let step_names: Vec<_> = trace.info.step_names.iter().map(|&name| trace.strings.get(name)).collect();
        assert_eq!(step_names, ["train"]);
        let copies: Vec<_> = trace.facts.copies.iter().map(|(_, copy)| copy.kind).collect();
        assert_eq!(copies, [CopyKind::DtoH, CopyKind::Memset]);
        assert_eq!(trace.tracks.iter().filter(|track| track.kind == TrackKind::Stream).count(), 2);
    }
}
