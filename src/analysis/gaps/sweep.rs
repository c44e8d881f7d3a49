//! One pass over the work of a device: its gaps, the parts of each, and what triggered it.

use rayon::prelude::*;

use super::causes::{Causes, Shared};
use super::host::Segment;
use super::scenes::{Scene, scenes};
use super::theta::Usual;
use super::trigger::Triggers;
use super::{Gap, GapClass, Ground, Ledger};
use crate::model::TimeNs;

/// Gaps that are looked at in a row. Tests have few.
const SHARE: usize = if cfg!(test) { 2 } else { 1024 };

/// Gaps in a row, each with its parts.
#[derive(Default)]
struct Batch {
    scenes: Vec<Scene>,
    /// For each [`SHARE`] of them.
    shares: Vec<Tiled>,
}

/// The parts of gaps, one after the other.
#[derive(Default)]
struct Tiled {
    parts: Vec<Segment>,
    /// Where those of each gap end.
    ends: Vec<usize>,
    /// Those of one gap. Kept for its memory.
    scratch: Vec<Segment>,
}

impl Batch {
    fn new(n_shares: usize) -> Self {
        Self { scenes: Vec::new(), shares: (0..n_shares).map(|_| Tiled::default()).collect() }
    }

    /// Takes the next gaps, without their parts.
    fn fill(&mut self, scenes: &mut impl Iterator<Item = Scene>) {
        self.scenes.clear();
        self.scenes.extend(scenes.take(SHARE * self.shares.len()));
    }

    /// Finds their parts.
    ///
    /// * `causes`: one for each share; none if each gap is to be one part without a cause.
    fn tile(&mut self, causes: &mut [Causes<'_>]) {
        if causes.is_empty() {
            self.shares.iter_mut().zip(self.scenes.chunks(SHARE)).for_each(|(tiled, scenes)| tiled.leave_whole(scenes));
            return;
        }
        let shares = self.scenes.par_chunks(SHARE).zip(&mut self.shares).zip(causes);
        shares.for_each(|((scenes, tiled), causes)| tiled.tile(scenes, causes));
    }

    /// The gaps with their parts.
    fn iter(&self) -> impl Iterator<Item = (&Scene, &[Segment])> {
        self.scenes.chunks(SHARE).zip(&self.shares).flat_map(|(scenes, tiled)| scenes.iter().zip(tiled.iter()))
    }
}

impl Tiled {
    fn leave_whole(&mut self, scenes: &[Scene]) {
        self.parts.clear();
        self.parts.extend(scenes.iter().map(|scene| Segment::new(scene.gap, GapClass::Unknown, None)));
        self.ends.clear();
        self.ends.extend(1..=scenes.len());
    }

    fn tile(&mut self, scenes: &[Scene], causes: &mut Causes<'_>) {
        self.parts.clear();
        self.ends.clear();
        for scene in scenes {
            causes.parts(scene, &mut self.scratch);
            self.parts.append(&mut self.scratch);
            self.ends.push(self.parts.len());
        }
    }

    fn iter(&self) -> impl Iterator<Item = &[Segment]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.parts[std::mem::replace(&mut start, end)..end])
    }
}

/// Fills the ledger of a device. What precedes a gap and what triggered it follow from the gaps before, so one thread
/// finds the gaps of the next batch and judges those of the last, while others find the parts of those in between.
///
/// * `boundaries`: of the steps of the process that launches on the device, and whether they are times of the host.
/// * `n_shares`: how many look for parts at once.
pub(super) fn sweep(
    ground: &Ground<'_>,
    mut ledger: Ledger,
    usual: Usual,
    boundaries: Option<(&[TimeNs], bool)>,
    n_shares: usize,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Ledger {
    let Ground { trace, ref loading, ref overheads, ref waits, .. } = *ground;
    let shared = Shared::default();
    let new = |_| Causes::new(trace, loading, overheads, waits, usual, &shared);
    let mut causes: Vec<Causes<'_>> = (0..n_shares).filter(|_| !ledger.is_untold).map(new).collect();
    let mut triggers = Triggers::new(trace, loading, boundaries, usual);
    let mut scenes = scenes(trace, ledger.process, usual);
    let [mut judged, mut tiled, mut found] = [(); 3].map(|()| Batch::new(n_shares));
    found.fill(&mut scenes);
    while !(is_cancelled() || found.scenes.is_empty() && tiled.scenes.is_empty()) {
        std::mem::swap(&mut judged, &mut tiled);
        std::mem::swap(&mut tiled, &mut found);
        let of_others = || {
            judged.iter().for_each(|(scene, parts)| add(&mut ledger, &mut triggers, scene, parts));
            found.fill(&mut scenes);
        };
        rayon::join(of_others, || tiled.tile(&mut causes));
    }
    (ledger.coverage.work, ledger.coverage.launched) = (scenes.n_work, scenes.n_launched);
    ledger.gaps.shrink_to_fit();
    ledger.several.shrink_to_fit();
    ledger.changes.shrink_to_fit();
    ledger
}

/// Adds the next gap.
fn add(ledger: &mut Ledger, triggers: &mut Triggers<'_>, scene: &Scene, parts: &[Segment]) {
    let trigger = triggers.trigger(scene, parts);
    let refill = triggers.refill(scene, parts, trigger);
    let Scene { gap: time, after, ended_by, .. } = *scene;
    let (trigger, trigger_slice) = trigger.unzip();
    let gap = Gap { time, after, ended_by, trigger, trigger_slice: trigger_slice.flatten(), refill };
    let mut last = None;
    let first_of_its_cause = |segment: &&Segment| {
        let cause = (segment.class, segment.slice);
        last.replace(cause) != Some(cause)
    };
    let of_causes = parts.iter().filter(first_of_its_cause);
    ledger.push(gap, of_causes.map(|segment| (segment.time.start, segment.class, segment.slice)));
    ledger.note_known(parts);
}
