//! What the host does before gaps, hidden by work that the device still has.

use hashbrown::HashSet;

use super::host::{Activity, Host, Segment};
use super::{GapPart, Ledger};
use crate::model::{SliceId, TimeRange, Trace, TrackId};

/// The threads that launch work, read forward in time.
#[derive(Debug)]
pub struct Hidden<'a> {
    host: Host<'a>,
    /// Kept for their memory.
    own: Vec<Segment>,
    other: Vec<Segment>,
}

impl<'a> Hidden<'a> {
    /// * `loading`: see [`loading_launches`](super::loading_launches).
    pub fn new(trace: &'a Trace, loading: &'a HashSet<SliceId>, ledger: &Ledger) -> Self {
        Self { host: Host::new(trace, loading, ledger.theta_ns), own: Vec::new(), other: Vec::new() }
    }

    /// What a thread does in some time; while it does nothing, or waits for another thread, what that does which
    /// launched the work before. In order of time; they tile it. Cost: as for ascending times, O(slices of the threads)
    /// in all.
    pub fn parts(&mut self, time: TimeRange, thread: TrackId, before: Option<TrackId>, out: &mut Vec<GapPart>) {
        out.clear();
        self.own.clear();
        self.host.tile(thread, time, &mut self.own);
        for own in &self.own {
            let before = before.filter(|&before| before != thread && own.activity != Activity::Works);
            self.other.clear();
            if let Some(before) = before {
                self.host.tile(before, own.time, &mut self.other);
            }
            let works = self.other.iter().any(|other| other.activity == Activity::Works);
            let chosen = if works { &self.other[..] } else { std::slice::from_ref(own) };
            out.extend(chosen.iter().map(|&Segment { time, class, slice, .. }| GapPart { time, class, slice }));
        }
    }
}
