//! The collectives of one trace, with the keys that identify them on other ranks.

use hashbrown::HashMap;

use super::super::{CollectiveKernels, CollectiveOp, host_backend, parameters, source};
use crate::model::{DurNs, SliceId, TimeRange, Trace};

/// The kernels of a collective on several ranks end together, in nanoseconds: none can before the last data came.
/// Recordings of one host show up to 5 µs; between hosts the last message takes some tens.
pub const TOGETHER: DurNs = 100_000;

/// A collective on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub slice: SliceId,
    /// In trace time.
    pub time: TimeRange,
    /// See [`Groups`].
    pub group: u32,
    pub op: CollectiveOp,
    /// Whether threads of the host run it, see [`host_backend`].
    pub is_on_host: bool,
    /// Bytes, where they are the same on all ranks and recorded.
    pub bytes: Option<u64>,
    /// Number within the group, and which of the kernels with that number it is.
    pub seq: Option<(u64, u32)>,
}

impl Call {
    /// How much sooner another rank may end in the same collective than this one, in nanoseconds.
    ///
    /// On the host threads go on when they are scheduled, and copy the result to the device before their range ends.
    /// What holds is that none ends before all have begun: the other ends no sooner than this one begins.
    pub fn together(&self) -> DurNs {
        if self.is_on_host { TOGETHER.max(self.time.dur()) } else { TOGETHER }
    }

    /// Whether this and the call of another rank, which ends by `apart` nanoseconds later, can be the same collective.
    pub fn ends_with(&self, other: &Self, apart: DurNs) -> bool {
        let later = if apart > 0 { other } else { self };
        apart.saturating_abs() <= later.together()
    }
}

/// Process groups of several traces by name and ranks; calls of the host whose group was not recorded are of one by the
/// name of what runs them. Where none of these was recorded all calls are of one, the first.
#[derive(Debug)]
pub struct Groups(HashMap<(String, String), u32>);

impl Groups {
    /// The group of calls whose group was not recorded.
    pub const UNKNOWN: u32 = 0;

    pub fn new() -> Self {
        Self(HashMap::from([((String::new(), String::new()), Self::UNKNOWN)]))
    }

    fn id(&mut self, name: &str, ranks: &str) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry((name.to_owned(), ranks.to_owned())).or_insert(next)
    }
}

impl CollectiveOp {
    /// Whether data goes from or to one rank only, which needs not wait for those that do not send to it.
    pub(super) fn is_one_way(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether all ranks of a call move the same number of bytes.
    fn is_even(self) -> bool {
        matches!(self, Self::AllReduce | Self::AllGather | Self::ReduceScatter | Self::Broadcast | Self::Reduce)
    }
}

/// The collectives of a trace by their ends. Cost: O(n + c log c) for n slices and c collectives.
pub fn calls(trace: &Trace, groups: &mut Groups) -> Vec<Call> {
    let mut kernels = CollectiveKernels::new(trace);
    let all = (0..trace.slices.len() as u32).map(SliceId);
    let all = all.filter(|&slice| kernels.contains(slice) || host_backend(trace, slice).is_some());
    let mut by_source = HashMap::new();
    let mut calls: Vec<Call> = Vec::new();
    for slice in all {
        let time = trace.slices.time(slice);
        if trace.span.union(time) != trace.span {
            // Its times were lost.
            continue;
        }
        let source = source(trace, slice);
        let known = by_source.entry(source).or_insert_with(|| {
            let key = super::super::key(trace, source, true);
            let recorded = parameters(trace, source);
            let ranks = recorded.map_or("", |call| trace.strings.get(call.ranks));
            let name = if key.group.is_empty() { key.backend.unwrap_or_default() } else { &key.group };
            let bytes = key.bytes.filter(|_| key.op.is_even());
            (groups.id(name, ranks), key.op, key.backend.is_some(), bytes, recorded.and_then(|call| call.seq))
        });
        let (group, op, is_on_host, bytes, seq) = *known;
        calls.push(Call { slice, time, group, op, is_on_host, bytes, seq: seq.map(|seq| (seq, 0)) });
    }
    calls.sort_by_key(|call| (call.time.end, call.time.start, call.slice));
    let mut seen: HashMap<(u32, u64, CollectiveOp), u32> = HashMap::new();
    for call in &mut calls {
        if let Some((seq, nth)) = &mut call.seq {
            let seen = seen.entry((call.group, *seq, call.op)).or_default();
            *nth = *seen;
            *seen += 1;
        }
    }
    calls
}
