//! Cost of a frame of the timeline with 10 million slices open.
//!
//! Prints the median CPU time of a frame (layout and painting, then tessellation) at several zooms, at rest and while
//! panning. `cargo bench --bench timeline`; a number after `--` sets the millions of slices, and `gl` has OpenGL draw
//! each frame as well, as the window does.

#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

#[path = "common/frame.rs"]
mod frame;

use std::time::Instant;

use frame::Bench;
use lacuna::model::{
    Process, ProcessId, RawSlice, RawSlices, SliceKind, TimeRange, TraceBuilder, Track, TrackId, TrackKind,
};
use lacuna::view::timeline;

const N_TRACKS: u32 = 60;

/// Kernels of uneven length on 56 streams, nested operators on 4 threads.
fn trace(n_slices: u32) -> TraceBuilder {
    let mut builder = TraceBuilder::default();
    let names: Vec<_> = (0..500)
        .map(|i| builder.strings.intern(&format!("void at::native::kernel_{i}<float, 4, std::array<char*, {i}>>")))
        .collect();
    builder.processes.push(Process { name: "python".to_owned(), ..Process::default() });
    builder.processes.push(Process { device: Some(0), sort_index: 1, ..Process::default() });
    for track in 0..N_TRACKS {
        let is_thread = track < 4;
        let kind = if is_thread { TrackKind::Thread } else { TrackKind::Stream };
        let process = ProcessId(u32::from(!is_thread));
        builder.tracks.push(Track { kind, process, name: track.to_string(), tid: track.to_string(), sort_index: 0 });
    }
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) % below) as i64
    };
    for track in 0..N_TRACKS {
        let mut raw = RawSlices::default();
        let mut ts = 0;
        while raw.len() < (n_slices / N_TRACKS) as usize {
            let dur = 200 + next(4) * next(4) * 2_000;
            let name = names[next(500) as usize];
            let kind = if track < 4 { SliceKind::Operator } else { SliceKind::Kernel };
            let slice = RawSlice { ts, end: ts + dur, name, kind, track: TrackId(track), ..RawSlice::default() };
            raw.push(slice);
            if track < 4 {
                raw.push(RawSlice { ts: ts + dur / 8, end: ts + dur / 2, ..slice });
                raw.push(RawSlice { ts: ts + dur / 4, end: ts + dur / 3, ..slice });
            }
            ts += dur + 100 + next(3_000);
        }
        builder.slices.push(raw);
    }
    builder
}

fn main() {
    let millions = std::env::args().filter_map(|arg| arg.parse::<u32>().ok()).next_back().unwrap_or(10);
    let start = Instant::now();
    let trace = trace(millions * 1_000_000).finish();
    println!("{} slices on {} rows, made in {:.1?}", trace.slices.len(), trace.slices.rows.len(), start.elapsed());
    let mut bench = Bench::new(trace, &timeline::SPEC);
    let span = bench.session.span();
    // The minimap is worked out in the background once.
    bench.settle();
    let middle = span.start + span.dur() / 2;
    let mut dur = span.dur();
    while dur > 100 {
        let view = TimeRange { start: middle - dur / 2, end: middle - dur / 2 + dur };
        bench.session.navigation.glide(view);
        for _ in 0..10 {
            bench.frame();
        }
        let rest = bench.measure(|_| {});
        let pan = bench.measure(|navigation| navigation.glide(navigation.visible().shifted((dur / 100).max(1))));
        bench.session.navigation.glide(view);
        let zoom = bench.measure(|navigation| {
            let view = navigation.visible();
            let by = (view.dur() / 200).max(1);
            navigation.glide(TimeRange { start: view.start + by, end: view.end - by });
        });
        println!("{:>12} ns/px  rest {rest}\n{:>19} pan  {pan}\n{:>19} zoom {zoom}", dur / 1700, "", "");
        dur /= 8;
    }
}
