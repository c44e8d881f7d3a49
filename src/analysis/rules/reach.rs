//! How much sooner a device can be done because its work takes less time.

use crate::analysis::gaps::Ledger;
use crate::analysis::host_roles::{READS_BACK, Role, Roles};
use crate::model::{DurNs, SliceId, TimeNs, TimeRange, Trace};

/// A call that lasts so long may have waited for the device, whatever it does: a launch waits for room in the queue.
const LONG_NS: DurNs = 50_000;

/// What less work of a device saves at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    pub ns: DurNs,
    /// Whether the recorder slows the host much, which launches sooner without it: more may be saved then.
    pub is_slowed: bool,
}

/// What work of the device that takes no time at all would save of the window at most, where that comes again and again;
/// `None` without [`waits`].
///
/// Where a device runs out of work before the host launches more, work that ends sooner makes it wait longer: what that
/// saves is lost in that gap. It is not only as far as the host waited for the device since the last such gap, and so
/// launches sooner itself. Of the busy time between two such gaps no more is saved than the host waited in it; of that
/// before the end no more than that and what the device was behind with its last work, which cannot run before it is
/// launched. How far it was behind with its first work is not saved again: where a host needs 16 ms for each step and
/// its device 19, this falls 3 ms further behind in each, and no faster device makes a step shorter than 16.
///
/// Cost: O(slices of the device + g log w) for g gaps and w waits.
pub(super) fn reach(trace: &Trace, ledger: &Ledger, window: TimeRange, waits: Option<&[TimeRange]>) -> Option<DurNs> {
    let waits = waits?;
    let slices = &trace.slices;
    // A copy that was asked for before waits in its call, and for the device.
    let is_late = |call: &SliceId, gap: TimeRange| slices.ts[call.idx()] > gap.start;
    // Times in a file may be any.
    let to = |end: TimeNs, start: TimeNs| end.saturating_sub(start).max(0);
    let [first, last] = launches(trace, ledger, window);
    // Since the last such gap: when its work was launched, how far the device was behind with it, and how long it idled.
    let (mut launched, mut from, mut idle) = (first.unwrap_or(window.start).min(window.start), window.start, 0);
    let (mut saved, mut behind) = (0, to(from, launched));
    for gap in ledger.within(TimeRange { end: ledger.window.end, ..window }).map(|index| ledger.gap(index)) {
        let Some(call) = trace.launch_of(gap.ended_by).filter(|call| is_late(call, gap.time)) else {
            idle += gap.time.intersect(window).map_or(0, TimeRange::dur);
            continue;
        };
        let busy = to(gap.time.start.min(window.end), from) - idle;
        let call = slices.ts[call.idx()];
        let latency = to(gap.time.end, call);
        saved += (waited(waits, launched, call) - to(behind, latency)).clamp(0, busy.max(0));
        (launched, from, behind, idle) = (call, gap.time.end, latency, 0);
        if from >= window.end {
            return Some(saved);
        }
    }
    let busy = (to(window.end, from) - idle).max(0);
    let Some(last) = last else { return Some(saved + busy) };
    let at_end = to(window.end, last).saturating_add(waited(waits, launched, last));
    Some(saved + to(at_end, behind).min(busy))
}

/// When the work was launched that starts first in a window, and that which ends last, as far as that is known.
fn launches(trace: &Trace, ledger: &Ledger, window: TimeRange) -> [Option<TimeNs>; 2] {
    let slices = &trace.slices;
    let work = trace.tracks_of(ledger.process).flat_map(|track| trace.track_slices(track));
    let work = work.filter(|&i| slices.kind[i].is_device_work() && window.contains(slices.ts[i]));
    let (first, last) = (work.clone().min_by_key(|&i| slices.ts[i]), work.max_by_key(|&i| slices.end[i]));
    [first, last].map(|work| Some(slices.ts[trace.launch_of(SliceId(work? as u32))?.idx()]))
}

/// When the host may have waited for a device, on any thread; ascending and disjoint. `None` if no calls of the host were
/// recorded. Cost: O(slices).
pub(super) fn waits(trace: &Trace) -> Option<Vec<TimeRange>> {
    let slices = &trace.slices;
    if !slices.kind.iter().any(|kind| kind.is_call()) {
        return None;
    }
    let mut roles = Roles::default();
    let mut found: Vec<TimeRange> = Vec::new();
    for i in (0..slices.len()).filter(|&i| !slices.kind[i].is_device_work()) {
        let (id, kind) = (SliceId(i as u32), slices.kind[i]);
        let time = slices.time(id);
        let waits = match roles.of(trace, id) {
            Role::Sync | Role::CopyCall | Role::Free | Role::Collective => true,
            Role::SyncOperator => time.dur() >= READS_BACK,
            _ => kind.is_call() && time.dur() >= LONG_NS,
        };
        if waits {
            found.push(time);
        }
    }
    found.sort_unstable_by_key(|wait| wait.start);
    found.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    Some(found)
}

fn waited(waits: &[TimeRange], from: TimeNs, until: TimeNs) -> DurNs {
    let within = TimeRange { start: from, end: until };
    let first = waits.partition_point(|wait| wait.end <= from);
    let waits = waits[first..].iter().take_while(|wait| wait.start < until);
    waits.filter_map(|wait| wait.intersect(within)).map(TimeRange::dur).fold(0, DurNs::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::rules::tests::judged;
    use crate::model::{SliceKind, TraceBuilder};

    const US: TimeNs = 1_000;

    /// What is saved at most of kernels of 600 µs that are launched one each 1,000 µs.
    ///
    /// * `calls`: others of the host, by name, start and length in µs.
    fn saved(calls: &[(&str, TimeNs, TimeNs)]) -> Option<TimeNs> {
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (i, at) in (0..40).map(|i| (i, i * 1_000 * US)) {
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at, at + 5 * US));
            slices.push(("stream 7", SliceKind::Kernel, "gemm", at + 10 * US, at + 610 * US));
            correlation.extend([i as u32 + 1, i as u32 + 1]);
        }
        for &(name, at, dur) in calls {
            slices.push(("main", SliceKind::Runtime, name, at * US, (at + dur) * US));
            correlation.push(0);
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        judged(&builder.finish(), None).makeups[0].reach.map(|reach| reach.ns / US)
    }

    /// The same where one kernel follows another, each launched so long before.
    fn queued(ahead: TimeNs) -> Option<TimeNs> {
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (i, at) in (0..40).map(|i| (i, (5_000 + i * 1_000) * US)) {
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at - ahead * US, at - (ahead - 5) * US));
            slices.push(("stream 7", SliceKind::Kernel, "gemm", at, at + 1_000 * US));
            correlation.extend([i as u32 + 1, i as u32 + 1]);
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        judged(&builder.finish(), None).makeups[0].reach.map(|reach| reach.ns / US)
    }

    #[test]
    fn no_work_runs_before_it_is_launched() {
        // However far ahead the host is, it launches one each 1,000 µs.
        assert_eq!([5, 900, 4_000].map(queued), [1_000; 3].map(Some));
    }

    /// The same where each kernel is followed by a copy back, for which the host waits.
    fn copied_back() -> Option<TimeNs> {
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (i, at) in (0..40_u32).map(|i| (i, TimeNs::from(i) * 1_000 * US)) {
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at, at + 5 * US));
            slices.push(("main", SliceKind::Runtime, "cudaMemcpy", at + 6 * US, at + 620 * US));
            slices.push(("stream 7", SliceKind::Kernel, "jacobi", at + 10 * US, at + 610 * US));
            slices.push(("stream 7", SliceKind::Memcpy, "Memcpy DtoH", at + 612 * US, at + 614 * US));
            correlation.extend([2 * i + 1, 2 * i + 2, 2 * i + 1, 2 * i + 2]);
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        judged(&builder.finish(), None).makeups[0].reach.map(|reach| reach.ns / US)
    }

    #[test]
    fn what_kernels_save_is_lost_where_the_host_launches_more_only_later() {
        // Only the last one ends sooner.
        assert_eq!(saved(&[]), Some(600));
        // Short calls wait for nothing, long ones may have.
        assert_eq!(saved(&[("cudaEventRecord", 100, 49)]), Some(600));
        assert_eq!(saved(&[("cudaEventRecord", 100, 51)]), Some(651));
        // A wait lets the host go on sooner by no more than what it waited, and than the kernel took.
        assert_eq!(saved(&[("cudaStreamSynchronize", 100, 40)]), Some(640));
        assert_eq!(saved(&[("cudaStreamSynchronize", 100, 520), ("cudaStreamSynchronize", 1_005, 990)]), Some(1_720));
        // A copy that was asked for while a kernel ran, and starts a moment after it, comes late to nothing.
        assert_eq!(copied_back(), Some(39 * 602 + 598));
        // Calls within each other count once.
        assert_eq!(saved(&[("cudaMemcpy", 100, 100), ("cudaMemcpyAsync", 150, 30)]), Some(700));
    }

    #[test]
    fn without_calls_nothing_shows_how_far_it_reaches() {
        let kernel = |at: TimeNs| ("stream 7", SliceKind::Kernel, "gemm", at * 1_000 * US, (at * 1_000 + 600) * US);
        let kernels: Vec<_> = (0..40).map(kernel).collect();
        let makeup = judged(&TraceBuilder::from_slices(&kernels).finish(), None).makeups;
        assert_eq!(makeup[0].reach, None);
    }
}
