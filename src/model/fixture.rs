//! A trace from a handful of slices, for tests and generated inputs.

use std::collections::HashMap;

use super::{
    Process, ProcessId, RawSlice, RawSlices, SliceFacts, SliceKind, TimeNs, TraceBuilder, Track, TrackId, TrackKind,
};

impl TraceBuilder {
    /// A builder with these slices on (process, thread) tracks, for tests and generated inputs.
    ///
    /// * `slices`: (thread name, kind, slice name, start, end). All threads are of one process;
    ///   threads called `stream N` are streams of device 0.
    pub fn from_slices(slices: &[(&str, SliceKind, &str, TimeNs, TimeNs)]) -> Self {
        let mut builder = Self::default();
        let mut known: HashMap<&str, TrackId> = HashMap::new();
        let mut raw = RawSlices::default();
        for (i, &(thread, kind, name, ts, end)) in slices.iter().enumerate() {
            let track = *known.entry(thread).or_insert_with(|| builder.add_thread(thread));
            let name = builder.strings.intern(name);
            raw.push(RawSlice { ts, end, name, kind, track, source: i as u64, ..Default::default() });
        }
        builder.import.read = raw.len() as u64;
        builder.import.shown = raw.len() as u64;
        builder.slices.push(raw);
        builder
    }

    /// A hundred operators with a kernel each, of which the recording lacks most others if their numbers are `apart`.
    #[cfg(test)]
    pub fn with_numbers_apart(apart: u32) -> Self {
        let (mut slices, mut external) = (Vec::new(), Vec::new());
        for i in 0..100 {
            let at = i64::from(i) * 100_000;
            slices.push(("main", SliceKind::Operator, "aten::mm", at, at + 8_000));
            slices.push(("stream 7", SliceKind::Kernel, "gemm", at + 5_000, at + 9_000));
            external.extend([1 + i * apart, 0]);
        }
        let mut builder = Self::from_slices(&slices);
        builder.slices[0].external = external;
        builder
    }

    /// So many devices, each with two kernels and one gap between them, in which the only thread runs 100 operators.
    #[cfg(test)]
    pub fn with_devices_of_one_thread(n: usize) -> Self {
        let streams: Vec<String> = (0..n).map(|i| format!("stream {i}")).collect();
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (i, stream) in (0_i64..).zip(&streams) {
            for (start, number) in [(10_000 + 3_000 * i, 2 * i + 1), (200_000_000 + 3_000 * i, 2 * i + 2)] {
                slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", start - 2_000, start - 1_000));
                slices.push((stream, SliceKind::Kernel, "k", start, start + 1_000));
                correlation.extend([number as u32; 2]);
            }
        }
        let operator = |i: i64| (10_000_000 + 1_000_000 * i, 10_500_000 + 1_000_000 * i);
        slices.extend((0..100).map(operator).map(|(ts, end)| ("main", SliceKind::Operator, "aten::op", ts, end)));
        correlation.resize(slices.len(), 0);
        let mut builder = Self::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        let streams = builder.tracks.iter_mut().filter(|track| track.kind == TrackKind::Stream);
        for (device, track) in (0..).zip(streams) {
            builder.processes.push(Process { device: Some(device), ..Process::default() });
            track.process = ProcessId(builder.processes.len() as u32 - 1);
        }
        builder
    }

    /// Sets the facts of a slice, by its index in the first part.
    pub fn set_facts(&mut self, slice: usize, facts: SliceFacts) {
        self.slices[0].facts[slice] = self.facts.add(&facts);
    }

    fn add_thread(&mut self, thread: &str) -> TrackId {
        let is_stream = thread.starts_with("stream ");
        let device = is_stream.then_some(0);
        let known = self.processes.iter().position(|process| process.device == device);
        let process = known.unwrap_or_else(|| {
            let (name, sort_index) = if is_stream { ("", 1) } else { ("python", 0) };
            self.processes.push(Process { name: name.to_owned(), device, sort_index, ..Default::default() });
            self.processes.len() - 1
        });
        self.tracks.push(Track {
            kind: if is_stream { TrackKind::Stream } else { TrackKind::Thread },
            process: ProcessId(process as u32),
            name: thread.to_owned(),
            tid: thread.to_owned(),
            sort_index: 0,
        });
        TrackId(self.tracks.len() as u32 - 1)
    }
}
