//! What ending a cause of idle time saves beyond its own part of it.
//!
//! A host that is done with something sooner launches all that follows sooner. So ending a cause may end more of a gap
//! than the part that the cause has: what it hid behind work that the device still had, a wait for the device most of
//! all, is a lead that the host then has, and with it the rest of the gap costs nothing. A step that first computes
//! 6 ms on the host beside the device's work and then loads data for 3 ms while the device is idle has 3 ms of idle time
//! that is all of the data, and saves these 3 ms as well if the host computes nothing.

use std::cell::OnceCell;

use super::account::Account;
use super::cause::{Cause, cause_of};
use super::per_step::add;
use super::{Measured, Window};
use crate::analysis::gaps::ceiling::is_recoverable;
use crate::analysis::gaps::hidden::Hidden;
use crate::analysis::gaps::{GapClass, GapPart, Ledger, loading_launches};
use crate::analysis::host_roles::READS_BACK;
use crate::model::{DurNs, SliceId, TimeRange, TrackId};

/// Where less is hidden before a gap, it hides nothing that matters, in nanoseconds.
const LEAST_HIDDEN: DurNs = 10_000;
/// What the host does at a stretch for this long may be ended alone, in nanoseconds. Shorter operators and functions
/// are those of launching, which no single change ends.
const LONG: DurNs = 50_000;
/// So many gaps before the judged time are looked at.
const MOST_BEFORE: usize = 1_000;

/// Adds to each cause what ending it saves of the parts of other causes in the gaps that it leads to: no more than what
/// it took of the host before, since that last waited for the device, and what it has not saved already.
///
/// Cost: O(parts of gaps + slices of the threads that launch).
pub(super) fn add_ahead(of: &Measured<'_>, ledger: &Ledger, window: &Window, accounts: &mut [Account<'_>]) {
    let slices = &of.trace.slices;
    let (loading, mut hidden, mut parts) = (OnceCell::new(), None, Vec::new());
    // The launch that ended a gap for which the device waited, if it did.
    let late = |index: usize| {
        let time = ledger.time(index);
        let gap = (time.dur() >= ledger.theta_ns).then(|| ledger.gap(index))?;
        let call = of.trace.launch_of(gap.ended_by).filter(|call| slices.end[call.idx()] > time.start)?;
        Some((gap, call))
    };
    let gaps = ledger.within(window.time);
    let first = gaps.start.saturating_sub(MOST_BEFORE);
    // Before the first such gap nothing shows that the host was not ahead.
    let ahead = || of.trace.launch_of(ledger.gap(gaps.clone().next()?).after);
    let last = (first..gaps.start).rev().find_map(late).map(|(_, call)| call).or_else(ahead);
    let (mut since, mut near) = (last.map_or(window.time.start, |call| slices.end[call.idx()]), 0);
    let mut lead = [0; Cause::N];
    for (index, (gap, call)) in gaps.clone().filter_map(|index| Some((index, late(index)?))) {
        let time = gap.time;
        let before = TimeRange { start: std::mem::replace(&mut since, slices.end[call.idx()]), end: time.start };
        if before.end.saturating_sub(before.start) >= LEAST_HIDDEN {
            let track = |call: SliceId| slices.track_of(call);
            let launched: Option<TrackId> = of.trace.launch_of(gap.after).map(track);
            let new = || Hidden::new(of.trace, loading.get_or_init(|| loading_launches(of.trace)), ledger);
            hidden.get_or_insert_with(new).parts(before, track(call), launched, &mut parts);
            let silent = slices.ts[call.idx()].saturating_sub(before.end).max(0);
            add_parts(&parts, silent, &mut lead);
        }
        if lead == [0; Cause::N] {
            continue;
        }
        let (mut own, mut all, mut launches) = ([0; Cause::N], 0, 0);
        for part in ledger.parts(index) {
            let Some(time) = part.time.intersect(window.time) else { continue };
            let is_between = of.is_between_steps(&part);
            let cause = cause_of(of.trace, &gap, &part, is_between);
            own[cause as usize] += if is_recoverable(part.class, &gap) { time.dur() } else { 0 };
            all += if cause == Cause::Profiler { 0 } else { time.dur() };
            launches += if cause == Cause::LaunchBound { time.dur() } else { 0 };
        }
        let step = window.piece_near(time, &mut near);
        for (i, (account, lead)) in accounts.iter_mut().zip(&mut lead).enumerate() {
            // Fewer launches end what the host runs, too: what both save is told together.
            let same = if i == Cause::Host as usize { launches } else { 0 };
            let more = (*lead).min(all - own[i] - same);
            *lead -= more;
            add(&mut account.ahead_by_step, step, more);
        }
    }
}

/// Adds what the host does before a gap to the lead that it would have without each cause.
///
/// * `parts`: in order of time.
/// * `rest`: from the last one to the launch that ends the gap.
fn add_parts(parts: &[GapPart], rest: DurNs, lead: &mut [DurNs; Cause::N]) {
    // What the host ran since it launched or did anything else.
    let mut ran = 0;
    for part in parts {
        let (ns, cause) = (part.time.dur(), Cause::of(part.class, None, false));
        match cause {
            Cause::Host => {
                ran += ns;
                continue;
            }
            Cause::Unexplained => continue,
            _ => lead[Cause::Host as usize] += if ran >= LONG { ran } else { 0 },
        }
        ran = 0;
        // Whoever comes sooner waits longer.
        if matches!(part.class, GapClass::Sync | GapClass::Copy | GapClass::Collective) && ns >= READS_BACK {
            let own = lead[cause as usize];
            *lead = [0; Cause::N];
            lead[cause as usize] = own;
        }
        let takes = matches!(
            cause,
            Cause::DataLoading
                | Cause::Synchronization
                | Cause::Copy
                | Cause::Allocator
                | Cause::ModuleLoad
                | Cause::GarbageCollection
                | Cause::Blocked
        );
        lead[cause as usize] += if takes { ns } else { 0 };
    }
    lead[Cause::Host as usize] += if ran + rest >= LONG { ran } else { 0 };
}

#[cfg(test)]
mod tests {
    use crate::analysis::rules::Rule;
    use crate::analysis::rules::tests::judged;
    use crate::model::{DurNs, SliceKind, TimeNs, TraceBuilder};

    const US: TimeNs = 1_000;
    const LOAD: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

    /// What ending each of these rules' causes saves of a step at most, in µs.
    ///
    /// * `host`: what the host does in a step, by name and length in µs; `wait` is until the kernel that it launched
    ///   last is over. It launches one of 4,000 µs.
    fn saved<const N: usize>(host: &[(&str, DurNs)], rules: [Rule; N]) -> [DurNs; N] {
        let names: Vec<String> = (0..12).map(|i| format!("ProfilerStep#{i}")).collect();
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        let (mut at, mut free) = (0, 0);
        for (i, name) in names.iter().enumerate() {
            let (start, first) = (at, slices.len());
            for &(what, us) in host {
                let end = if what == "wait" { free.max(at) + US } else { at + us * US };
                let (kind, name) = match what {
                    "wait" => (SliceKind::Runtime, "cudaStreamSynchronize"),
                    "launch" => (SliceKind::Runtime, "cudaLaunchKernel"),
                    LOAD => (SliceKind::Annotation, LOAD),
                    _ => (SliceKind::PythonFunction, what),
                };
                slices.push(("main", kind, name, at, end));
                if what == "launch" {
                    let begins = free.max(end + 5 * US);
                    free = begins + 4_000 * US;
                    slices.push(("stream 7", SliceKind::Kernel, "gemm", begins, free));
                }
                at = end;
            }
            slices.push(("main", SliceKind::Annotation, name, start, at));
            let id = |slice: &(&str, SliceKind, &str, TimeNs, TimeNs)| match slice.2 {
                "cudaLaunchKernel" | "gemm" => i as u32 + 1,
                _ => 0,
            };
            correlation.extend(slices[first..].iter().map(id));
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        let verdicts = judged(&builder.finish(), None);
        rules.map(|rule| {
            let check = verdicts.checks.iter().find(|check| check.rule == rule).unwrap();
            check.ceiling_ns_per_step.unwrap_or_default() / US
        })
    }

    #[test]
    fn what_is_hidden_behind_the_device_counts_where_the_rest_of_the_gap_is_of_other_causes() {
        // A step of 8,005 µs, in which the device has 4,000. Without the function, it has that; without the data, 5,005.
        let host = [("build_targets", 5_000), (LOAD, 3_000), ("launch", 5)];
        let [of_host, of_data] = saved(&host, [Rule::HostBound, Rule::DataLoading]);
        assert!((3_995..=4_005).contains(&of_host), "{of_host}");
        assert!((3_000..=3_010).contains(&of_data), "{of_data}");
    }

    #[test]
    fn a_host_that_does_not_wait_has_the_next_data_while_the_device_works() {
        let host = [(LOAD, 3_000), ("launch", 5), ("wait", 0)];
        let [of_wait, of_data] = saved(&host, [Rule::Synchronization, Rule::DataLoading]);
        // Of a step of 7,010 µs all but the kernel.
        assert!((3_000..=3_015).contains(&of_wait), "{of_wait}");
        assert!((3_000..=3_010).contains(&of_data), "{of_data}");
    }

    #[test]
    fn who_comes_sooner_to_a_wait_for_the_device_saves_nothing() {
        let host = [(LOAD, 3_000), ("launch", 5), ("log_metrics", 2_000), ("wait", 0)];
        assert_eq!(saved(&host, [Rule::HostBound]), [0]);
        // Nor what is shorter than the device's work.
        let host = [(LOAD, 1_000), ("log_metrics", 1_000), ("launch", 5)];
        assert_eq!(saved(&host, [Rule::HostBound, Rule::DataLoading]), [0; 2]);
    }
}
