//! The time that a trace covers.

use crate::model::memory::{MemoryHistory, MemorySource};
use crate::model::{RawSlices, Severity, TimeNs, TimeRange, TraceBuilder};

impl TraceBuilder {
    /// From the first start to the last end. Events at time 0 are excluded if all others are days later, since
    /// recorders write 0 for lost timestamps, and so are moments after the recorder had stopped.
    pub(super) fn span(&mut self, parts: &[RawSlices], memories: &[MemoryHistory]) -> TimeRange {
        const DAYS_LATER: TimeNs = 1_000_000_000_000_000;
        let mut all: Option<TimeRange> = None;
        let mut later: Option<TimeRange> = None;
        let mut n_at_zero = 0;
        let mut see = |start: TimeNs, end: TimeNs| {
            let range = TimeRange { start, end };
            let grow = |span: &mut Option<TimeRange>| *span = Some(span.map_or(range, |span| span.union(range)));
            grow(&mut all);
            if start == 0 && end < DAYS_LATER {
                n_at_zero += 1;
            } else {
                grow(&mut later);
            }
        };
        for part in parts {
            part.ts.iter().zip(&part.end).for_each(|(&ts, &end)| see(ts, end));
        }
        self.after_end.sort_unstable();
        let is_after_end = |source: &u64| self.after_end.binary_search(source).is_ok();
        let moments = self.instants.ts.iter().zip(&self.instants.source);
        moments.filter(|(_, source)| !is_after_end(source)).for_each(|(&ts, _)| see(ts, ts));
        self.samples.ts.iter().for_each(|&ts| see(ts, ts));
        self.counters.iter().flat_map(|counter| &counter.ts).for_each(|&ts| see(ts, ts));
        let span = match later {
            Some(later) if n_at_zero > 0 && later.start > DAYS_LATER => {
                let reason = "Time stamp 0, at least 11 days before everything else: kept, outside the first view";
                self.import.note(Severity::Warn, reason, n_at_zero, None);
                later
            }
            _ => all.unwrap_or_default(),
        };
        // An event that changes no amount, such as a failed request, is on no counter.
        let is_own =
            |history: &&MemoryHistory| matches!(history.source, MemorySource::Snapshot | MemorySource::Timeline);
        let last = memories.iter().filter(is_own).map(|history| history.span.end).max();
        TimeRange { end: last.map_or(span.end, |last| last.max(span.end)), ..span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InstantTable, SliceId, SliceKind};

    const OP: SliceKind = SliceKind::Operator;

    #[test]
    fn events_at_time_zero_do_not_stretch_the_span() {
        let now = 1_700_000_000_000_000_000;
        let trace =
            TraceBuilder::from_slices(&[("main", OP, "lost", 0, 0), ("main", OP, "real", now, now + 5)]).finish();
        assert_eq!(trace.span, TimeRange { start: now, end: now + 5 });
        assert_eq!(trace.import.worst(), Some(Severity::Warn));
    }

    #[test]
    fn what_the_recorder_says_once_it_stopped_makes_nothing_longer() {
        let mut builder = TraceBuilder::from_slices(&[("main", OP, "real", 0, 5), ("main", OP, "open", 2, 2)]);
        let track = builder.slices[0].track[0];
        let name = builder.strings.intern("message");
        builder.instants =
            InstantTable { ts: vec![1, 9, 40], name: vec![name; 3], track: vec![track; 3], source: vec![7, 8, 9] };
        builder.unfinished = vec![builder.slices[0].source[1]];
        builder.after_end = vec![9];
        let trace = builder.finish();
        assert_eq!((trace.span, trace.instants.ts.len()), (TimeRange { start: 0, end: 9 }, 3));
        let open = (0..2).map(SliceId).find(|&id| trace.slice_name(id) == "open").unwrap();
        assert_eq!(trace.slices.time(open), TimeRange { start: 2, end: 9 });
    }
}
