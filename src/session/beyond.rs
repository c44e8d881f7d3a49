//! What was recorded outside of the first picture, file by file.

use std::cmp::Reverse;

use hashbrown::HashMap;

use super::open::{OpenTrace, picture, pictured};
use crate::analysis::content::n_outside;
use crate::model::{DurNs, TimeRange};

/// What one file recorded outside of the first picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// Index of the trace.
    pub trace: usize,
    /// How long it begins before, and ends after, what the picture shows of its run; at least 0.
    pub before: DurNs,
    pub after: DurNs,
    /// How far that is outside of the whole picture, where runs stand beside each other.
    pub far: DurNs,
    /// Slices and samples there.
    pub n_events: u64,
    /// Whether nothing of it is in the picture: it is another recording of the run.
    pub is_apart: bool,
}

/// Of each file of the run in front that reaches beyond `content`, which is the first picture, the farthest first.
///
/// Cost: that of a [`picture`] of each run, and O(rows · log slices).
pub fn beyond(traces: &[OpenTrace], content: TimeRange) -> Vec<Beyond> {
    let mut of_runs: HashMap<usize, TimeRange> = HashMap::new();
    let of_run = |run: usize| {
        let shown = picture(&pictured(traces.iter().filter(|open| open.run == run)));
        shown.and_then(|shown| shown.intersect(content)).unwrap_or(content)
    };
    let of_trace = |(trace, open): (usize, &OpenTrace)| {
        let span = open.trace.span.shifted(open.offset);
        let sides =
            |of: TimeRange| [of.start.saturating_sub(span.start), span.end.saturating_sub(of.end)].map(|ns| ns.max(0));
        let far = sides(content).into_iter().max().filter(|&far| far > 0)?;
        let [before, after] = sides(*of_runs.entry(open.run).or_insert_with(|| of_run(open.run)));
        let is_apart = open.is_program() && open.shown().intersect(content).is_none();
        let n_events = n_outside(&open.trace, content.shifted(open.offset.saturating_neg()));
        Some(Beyond { trace, before, after, far, n_events, is_apart })
    };
    let in_front = traces.iter().enumerate().filter(|(_, open)| !open.is_behind);
    let mut all: Vec<Beyond> = in_front.filter_map(of_trace).collect();
    all.sort_by_key(|beyond| Reverse(beyond.far));
    all
}

#[cfg(test)]
mod tests {
    use crate::model::{SliceKind, TimeNs, Trace, TraceBuilder};
    use crate::session::Session;

    const HOUR: TimeNs = 3_600_000_000_000;

    /// A run that begins at a time in UTC, with a moment `late` nanoseconds after the last of what ran.
    fn run(utc: TimeNs, dur: TimeNs, late: TimeNs) -> Trace {
        let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", 0, dur)]);
        builder.instants.ts.push(dur + late);
        builder.instants.name.push(crate::model::StringId::EMPTY);
        builder.instants.track.push(crate::model::TrackId(0));
        builder.instants.source.push(0);
        builder.info.utc_offset_ns = Some(utc);
        builder.finish()
    }

    fn found(traces: Vec<Trace>) -> Vec<(usize, TimeNs, TimeNs)> {
        let session = Session::of(traces);
        session.open.beyond().iter().map(|beyond| (beyond.trace, beyond.after, beyond.far)).collect()
    }

    #[test]
    fn what_lies_after_the_work_is_told_of_its_own_run() {
        assert_eq!(found(vec![run(0, 1_000, 9_000)]), [(0, 9_000, 9_000)]);
        // Beside a longer run, whose end is not that of this one.
        assert_eq!(found(vec![run(0, 1_000, 9_000), run(HOUR, 5_000, 0)]), [(0, 9_000, 5_000)]);
        assert_eq!(found(vec![run(0, 1_000, 9_000), run(HOUR, 5_000, 8_000)]), [(1, 8_000, 8_000), (0, 9_000, 5_000)]);
        // In sight beside what another run does.
        assert_eq!(found(vec![run(0, 1_000, 9_000), run(HOUR, 20_000, 0)]), []);
    }
}
