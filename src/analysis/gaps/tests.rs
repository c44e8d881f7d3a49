//! Planted traces whose right answer is known; parts sum to gaps, and gaps to the idle time.

use proptest::prelude::*;

use super::*;
use crate::analysis::busy::devices;
use crate::model::{SliceKind, TraceBuilder};

mod classes;
mod copies;
mod launches;
mod lead;
mod loaders;
mod overhead;
mod places;
mod refill;
mod silence;
mod theta;
mod triggers;
mod untold;

const CALL: SliceKind = SliceKind::Runtime;
const KERNEL: SliceKind = SliceKind::Kernel;
const OP: SliceKind = SliceKind::Operator;
const PYTHON: SliceKind = SliceKind::PythonFunction;
const NOTE: SliceKind = SliceKind::Annotation;
const OS: SliceKind = SliceKind::Os;

/// (track, kind, name, start, end, correlation), in microseconds.
type Event<'a> = (&'a str, SliceKind, &'a str, i64, i64, u32);

fn builder(events: &[Event<'_>]) -> TraceBuilder {
    let slices: Vec<_> = events.iter().map(|&(t, k, n, ts, end, _)| (t, k, n, ts * 1000, end * 1000)).collect();
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = events.iter().map(|event| event.5).collect();
    builder
}

fn ledger_of(trace: &Trace, steps: Option<&Steps>) -> Ledger {
    let ledger = Ground::new(trace).ledgers(&devices(trace), steps, &|| false).remove(0);
    assert_sums(&ledger, &devices(trace)[0]);
    ledger
}

fn assert_sums(ledger: &Ledger, busy: &DeviceBusy) {
    let totals = ledger.totals(TimeRange::ALL);
    assert_eq!(totals.all.total_ns, busy.idle_ns);
    assert_eq!(totals.all.total_ns + busy.busy_ns, ledger.window.dur());
    assert_eq!(totals.by_class.iter().map(|class| class.total_ns).sum::<i64>(), totals.all.total_ns);
    for i in 0..ledger.len() {
        let (gap, parts) = (ledger.gap(i), ledger.parts(i).collect::<Vec<_>>());
        assert_eq!(parts.first().map(|part| part.time.start), Some(gap.time.start));
        assert_eq!(parts.last().map(|part| part.time.end), Some(gap.time.end));
        assert!(parts.windows(2).all(|pair| pair[0].time.end == pair[1].time.start), "{parts:?}");
        assert!(parts.iter().all(|part| part.time.dur() > 0), "{parts:?}");
    }
}

/// The parts of a gap as (class, length in microseconds, name).
fn parts(trace: &Trace, ledger: &Ledger, gap: usize) -> Vec<(&'static str, i64, String)> {
    let name = |part: &GapPart| part.slice.map(|slice| trace.slice_name(slice).to_owned()).unwrap_or_default();
    ledger.parts(gap).map(|part| (part.class.key(), part.time.dur() / 1000, name(&part))).collect()
}

/// A first kernel that ends at 100 µs, and a second that begins at 1,000 µs, launched at 990 µs; between them
/// what `events` say.
fn with_gap<'a>(events: &[Event<'a>]) -> Vec<Event<'a>> {
    let mut all = vec![
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("stream 7", KERNEL, "first", 10, 100, 1),
        ("main", CALL, "cudaLaunchKernel", 990, 995, 2),
        ("stream 7", KERNEL, "second", 1000, 1100, 2),
    ];
    all.extend_from_slice(events);
    all
}

/// The parts of the gap of [`with_gap`], without the launch latency at its end.
fn host_parts(events: &[Event<'_>]) -> Vec<(&'static str, i64, String)> {
    let trace = builder(&with_gap(events)).finish();
    let ledger = ledger_of(&trace, None);
    assert_eq!(ledger.len(), 1);
    let mut parts = parts(&trace, &ledger, 0);
    assert_eq!(parts.pop(), Some(("launch_latency", 10, "cudaLaunchKernel".to_owned())));
    parts
}

proptest! {
    #[test]
    fn parts_sum_to_gaps_and_gaps_to_the_idle_time(
        work in prop::collection::vec((0_i64..400, 0_i64..40, 0_usize..2, 0_i64..60, 0_u8..4), 1..40),
        host in prop::collection::vec((0_i64..400, 0_i64..120, 0_usize..12, 0_usize..2), 0..40),
    ) {
        let names = [
            (CALL, "cudaStreamSynchronize"), (CALL, "cudaMemcpyAsync"), (CALL, "cudaGraphLaunch"), (OP, "aten::item"),
            (OP, "aten::copy_"), (NOTE, "train_batch"), (PYTHON, "run_backward"), (OS, "futex"), (CALL, "cudaMalloc"),
            (SliceKind::Overhead, "Buffer Flush"), (SliceKind::Overhead, "Lazy Function Loading"), (OP, "aten::mm"),
        ];
        let mut events: Vec<Event<'_>> = Vec::new();
        for (i, &(ts, dur, stream, ahead, call)) in work.iter().enumerate() {
            let id = i as u32 + 1;
            events.push((["stream 7", "stream 8"][stream], KERNEL, "k", ts, ts + dur, id));
            let name = ["cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync"].get(usize::from(call));
            if let Some(name) = name {
                events.push((["main", "autograd"][stream], CALL, name, ts - ahead, ts - ahead + 5, id));
            }
        }
        for &(ts, dur, name, thread) in &host {
            let (kind, name) = names[name];
            let thread = if kind == SliceKind::Overhead { "profiler" } else { ["main", "autograd"][thread] };
            events.push((thread, kind, name, ts, ts + dur, 0));
        }
        let trace = builder(&events).finish();
        let ledger = ledger_of(&trace, None);
        for i in 0..ledger.len() {
            let gap = ledger.gap(i);
            prop_assert_eq!(trace.slices.end[gap.after.idx()], gap.time.start);
            prop_assert_eq!(trace.slices.ts[gap.ended_by.idx()], gap.time.end);
            prop_assert_eq!(ledger.at(gap.time.start), Some(i));
        }
    }
}
