//! Joins flow points into arrows between slices.

use rayon::prelude::*;

use super::{FlowTable, Severity, SliceId, SliceKind, StringId, TimeNs, TraceBuilder, TrackId};

/// Which end of an arrow a [`FlowPoint`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    Start,
    Step,
    End,
}

/// One end of an arrow, not yet bound to a slice.
#[derive(Clone, Copy, Debug)]
pub struct FlowPoint {
    pub track: TrackId,
    pub ts: TimeNs,
    /// Points with equal `group` (category and name) and `id` belong together.
    pub group: u32,
    pub id: u64,
    pub name: StringId,
    pub end: FlowEnd,
    /// Whether it binds to the next slice of its track if no slice is around it.
    pub may_bind_next: bool,
    pub source: u64,
}

impl TraceBuilder {
    /// Turns flow points into arrows. Each point counts as shown if an arrow starts or ends at it.
    ///
    /// * `kinds`: of the slices in their new order.
    pub(super) fn bind_flows(&mut self, order: &[u32], bound: &[Option<u32>], kinds: &[SliceKind]) -> FlowTable {
        let points = std::mem::take(&mut self.flows);
        if points.is_empty() {
            return FlowTable::default();
        }
        let mut position = vec![0_u32; order.len()];
        for (new, &old) in order.iter().enumerate() {
            position[old as usize] = new as u32;
        }
        let mut by_key: Vec<u32> = (0..points.len() as u32).collect();
        let end_rank = |end| match end {
            FlowEnd::Start => 0,
            FlowEnd::Step => 1,
            FlowEnd::End => 2,
        };
        // Stable: points come in long runs of rising ids, which are merged.
        by_key.par_sort_by_key(|&i| {
            let point = &points[i as usize];
            (point.group, point.id, point.ts, end_rank(point.end))
        });
        let mut arrows = Vec::new();
        let mut is_used = vec![false; points.len()];
        for chain in by_key.chunk_by(|&a, &b| {
            let (a, b) = (&points[a as usize], &points[b as usize]);
            (a.group, a.id) == (b.group, b.id)
        }) {
            chain_arrows(chain, &points, bound, &mut |from, to| {
                is_used[from as usize] = true;
                is_used[to as usize] = true;
                if let (Some(a), Some(b)) = (bound[from as usize], bound[to as usize]) {
                    let [a, b] = [a, b].map(|old| SliceId(position[old as usize]));
                    arrows.push((a, b, points[from as usize].name));
                }
            });
        }
        let is_call = |old: u32| kinds[position[old as usize] as usize].is_call();
        self.count_flows(&points, bound, &is_used, &is_call);
        FlowTable::build(arrows)
    }

    fn count_flows(
        &mut self,
        points: &[FlowPoint],
        bound: &[Option<u32>],
        is_used: &[bool],
        is_call: &dyn Fn(u32) -> bool,
    ) {
        for (i, point) in points.iter().enumerate() {
            let reason = match (bound[i], is_used[i], point.end) {
                (Some(_), true, _) => {
                    self.import.shown += 1;
                    continue;
                }
                (None, ..) => "Arrow end with no slice under it: not drawn",
                (_, false, FlowEnd::Start) => "Arrow without an end: not drawn",
                // PyTorch's profiler writes the end of an arrow at each call that starts no work.
                (Some(slice), false, _) if is_call(slice) => {
                    "End of an arrow at a call that started no work: not drawn"
                }
                (_, false, _) => "Arrow without a start: not drawn (the launch was not recorded)",
            };
            self.import.reject(Severity::Note, reason, 1, Some(point.source));
        }
    }
}

/// Joins the points of one flow, sorted by time: each continues from the previous one; an end that follows an
/// end starts from the last start, since one launch can have many ends.
fn chain_arrows(chain: &[u32], points: &[FlowPoint], bound: &[Option<u32>], join: &mut impl FnMut(u32, u32)) {
    // Recorders write the start at or before its ends, but clocks of host and device may differ.
    let start =
        chain.iter().copied().find(|&i| points[i as usize].end == FlowEnd::Start && bound[i as usize].is_some());
    let mut from = None;
    for &i in chain {
        match points[i as usize].end {
            FlowEnd::Start => from = Some(i),
            FlowEnd::Step => {
                if let Some(from) = from.or(start) {
                    join(from, i);
                }
                from = Some(i);
            }
            FlowEnd::End => {
                if let Some(from) = from.or(start) {
                    join(from, i);
                }
            }
        }
    }
}

/// The points of each track, as indices.
pub(super) fn points_by_track(flows: &[FlowPoint], n_tracks: usize) -> Vec<Vec<u32>> {
    let mut by_track = vec![Vec::new(); n_tracks];
    for (i, point) in flows.iter().enumerate() {
        by_track[point.track.0 as usize].push(i as u32);
    }
    by_track
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ImportReport, SliceKind};

    #[test]
    fn one_start_may_have_many_ends_and_orphans_are_counted() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::Runtime, "launch", 0, 5),
            ("stream 7", SliceKind::Kernel, "a", 10, 20),
            ("stream 7", SliceKind::Kernel, "b", 20, 30),
        ]);
        let point = |track, ts, id, end| {
            let (group, name, source) = (1, StringId::EMPTY, ts as u64);
            FlowPoint { track: TrackId(track), ts, group, id, name, end, may_bind_next: false, source }
        };
        builder.flows = vec![
            point(0, 0, 4, FlowEnd::Start),
            point(1, 10, 4, FlowEnd::End),
            point(1, 20, 4, FlowEnd::End),
            point(1, 20, 5, FlowEnd::End),
            point(1, 99, 4, FlowEnd::End),
            point(0, 0, 6, FlowEnd::End),
        ];
        builder.import = ImportReport::default();
        let trace = builder.finish();
        assert_eq!(trace.flows.from, [SliceId(0), SliceId(0)]);
        assert_eq!(trace.flows.to, [SliceId(1), SliceId(2)]);
        assert_eq!((trace.import.shown, trace.import.rejected), (3, 3));
        let reasons = |part: &str| trace.import.problems.iter().filter(|problem| problem.reason.contains(part)).count();
        let counted = ["call that started no work", "launch was not recorded", "no slice under it"].map(reasons);
        assert_eq!(counted, [1; 3]);
    }
}
