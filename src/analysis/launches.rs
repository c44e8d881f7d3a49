//! Join of operators and threads with the device work that they launched.

use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

use super::gaps::Near;
use crate::model::{DurNs, Row, SliceId, SliceKind, SliceTable, TimeNs, Trace, TrackId};

/// The operator that launched this device work: the innermost one on the launching thread, or
/// without a call inside an operator the one with the same `External id`.
///
/// Cost: O(log n); O(n) if the call leads to no operator.
pub fn operator_of(trace: &Trace, device_work: SliceId) -> Option<SliceId> {
    operator_of_launch(trace, device_work).or_else(|| {
        let external = external_of(&trace.slices, device_work);
        let is_it = |&i: &usize| {
            trace.slices.external(SliceId(i as u32)) == external && trace.slices.kind[i] == SliceKind::Operator
        };
        (0..trace.slices.len()).find(|i| external != 0 && is_it(i)).map(|i| SliceId(i as u32))
    })
}

/// The innermost operator around the API call that launched this device work. Cost: O(log n).
pub fn operator_of_launch(trace: &Trace, work: SliceId) -> Option<SliceId> {
    operator_around(&trace.slices, trace.launch_of(work)?)
}

/// The innermost operator around a slice.
fn operator_around(slices: &SliceTable, of: SliceId) -> Option<SliceId> {
    slices.ancestors(of).find(|id| slices.kind[id.idx()] == SliceKind::Operator)
}

/// The `External id` of device work; 0 if it has none that names an operator.
///
/// Kineto of 2021 to 2023 recorded the correlation id instead.
fn external_of(slices: &SliceTable, work: SliceId) -> u32 {
    let external = slices.external(work);
    if external == slices.correlation[work.idx()] { 0 } else { external }
}

fn device_work(trace: &Trace) -> impl Iterator<Item = SliceId> {
    let all = (0..trace.slices.len() as u32).map(SliceId);
    all.filter(|id| trace.slices.kind[id.idx()].is_device_work())
}

/// Each piece of device work with the host slice that it belongs to: the API call that launched it, or if that is
/// inside no operator or was not recorded the operator with its `External id`. Each piece once.
pub(super) fn launchers(trace: &Trace) -> Vec<(SliceId, Option<SliceId>)> {
    let slices = &trace.slices;
    let of_group = |same: &[SliceId]| {
        let call = same.iter().copied().find(|slice| slices.kind[slice.idx()].is_call());
        let work = same.iter().copied().filter(|slice| slices.kind[slice.idx()].is_device_work());
        work.map(|work| (work, call)).collect::<Vec<_>>()
    };
    let mut all: Vec<(SliceId, Option<SliceId>)> =
        trace.correlations.groups(&slices.correlation).flat_map_iter(of_group).collect();
    let loose = device_work(trace).filter(|work| slices.correlation[work.idx()] == 0);
    all.extend(loose.map(|work| (work, None)));
    if !slices.external.is_empty() {
        let by_external = operators_by_external(slices);
        all.par_iter_mut().for_each(|(work, host)| {
            let is_in_operator = host.is_some_and(|call| operator_around(slices, call).is_some());
            if !is_in_operator {
                *host = by_external.get(&external_of(slices, *work)).copied().or(*host);
            }
        });
    }
    all
}

/// The operators by `External id`; of equal ids the first.
fn operators_by_external(slices: &SliceTable) -> HashMap<u32, SliceId> {
    let mut by_external: HashMap<u32, SliceId> = HashMap::new();
    for i in (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Operator) {
        by_external.entry(slices.external(SliceId(i as u32))).or_insert(SliceId(i as u32));
    }
    by_external.remove(&0);
    by_external
}

/// A piece of device work with the call that launched it.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    pub call: SliceId,
    pub work: SliceId,
}

/// The device work that each thread with annotations launched, of several traces.
#[derive(Clone, Debug)]
pub struct WorkOfThreads(Vec<Vec<(TrackId, Vec<Launched>)>>);

impl WorkOfThreads {
    /// Cost: O(n) for n slices, and O(m log k) for m pieces of work in k rows; traces in parallel.
    pub fn of(traces: &[&Trace]) -> Self {
        Self(traces.par_iter().map(|trace| work_of_threads(trace)).collect())
    }

    /// The threads of one of the traces that launched anything, each with its work by the start of the call. Each
    /// device slice occurs once.
    pub fn of_trace(&self, index: usize) -> &[(TrackId, Vec<Launched>)] {
        &self.0[index]
    }
}

fn work_of_threads(trace: &Trace) -> Vec<(TrackId, Vec<Launched>)> {
    let slices = &trace.slices;
    if !slices.has_kind(SliceKind::Annotation) {
        return Vec::new();
    }
    let has_annotation = |row: &&Row| slices.kind[row.range()].contains(&SliceKind::Annotation);
    let wanted: HashSet<TrackId> = slices.rows.iter().filter(has_annotation).map(|row| row.track).collect();
    let mut work: Vec<(TrackId, Vec<Launched>)> = Vec::new();
    let mut threads: HashMap<TrackId, Option<usize>> = HashMap::new();
    // Most work was launched by the thread that launched the work before.
    let mut last = (None, None);
    for id in device_work(trace) {
        let Some(call) = trace.launch_of(id) else { continue };
        let thread = slices.track_of(call);
        if last.0 != Some(thread) {
            let new = || {
                let at = wanted.contains(&thread).then_some(work.len())?;
                work.push((thread, Vec::new()));
                Some(at)
            };
            last = (Some(thread), *threads.entry(thread).or_insert_with(new));
        }
        if let Some(at) = last.1 {
            work[at].1.push(Launched { call, work: id });
        }
    }
    // Work of one row was launched in order, most often: this sort merges rows.
    work.par_iter_mut().for_each(|(_, work)| work.sort_by_key(|work| slices.ts[work.call.idx()]));
    work
}

/// The duration of each piece of device work with the operator that launched it, sorted by
/// operator; work of no operator is absent.
pub(super) fn device_time(trace: &Trace) -> Vec<(SliceId, DurNs)> {
    let slices = &trace.slices;
    if !slices.has_kind(SliceKind::Operator) {
        return Vec::new();
    }
    // By row of the operator: in each, those of a stream are in order.
    let mut found: Vec<Vec<(SliceId, DurNs)>> = vec![Vec::new(); slices.rows.len()];
    let mut rest: Vec<SliceId> = Vec::new();
    let dur = |work: SliceId| slices.time(work).dur();
    // Work of a stream was launched in order, most often: what is around its launch is near to that of the one before.
    let near = Near::new(trace);
    let begun = |row, ts: &[TimeNs], start| near.partition(row, ts, |&ts| ts <= start);
    for work in device_work(trace) {
        let around = |slice: &SliceId| slices.parent_near(*slice, begun);
        let mut ancestors = std::iter::successors(trace.launch_of(work).and_then(|call| around(&call)), around);
        match ancestors.find(|id| slices.kind[id.idx()] == SliceKind::Operator) {
            Some(operator) => found[slices.row_of(operator)].push((operator, dur(work))),
            None => rest.push(work),
        }
    }
    rest.retain(|&work| external_of(slices, work) != 0);
    if !rest.is_empty() {
        let by_external = operators_by_external(slices);
        for work in rest {
            if let Some(&operator) = by_external.get(&external_of(slices, work)) {
                found[slices.row_of(operator)].push((operator, dur(work)));
            }
        }
    }
    // This sort merges streams.
    found.iter_mut().for_each(|row| row.sort_by_key(|found| found.0));
    found.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::operators::tests::trace;

    #[test]
    fn the_operator_of_device_work_is_found() {
        let trace = trace();
        let name = |id: SliceId| trace.slice_name(id).to_owned();
        let of: Vec<_> = device_work(&trace).map(|work| operator_of(&trace, work).map(name)).collect();
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(of, [some("aten::addmm"), some("aten::linear"), some("aten::linear"), None]);
    }
}
