//! The visible time range, with undo and redo.

use crate::model::{DurNs, TimeNs, TimeRange};

/// The visible time range, with the ones before it.
#[derive(Clone, Debug, Default)]
pub struct Navigation {
    visible: TimeRange,
    /// The bytes on show in the picture of memory, from bottom to top; `None` is all.
    pub bytes: Option<TimeRange>,
    /// The moment that the user went to, until something else is looked at.
    pub moment: Option<TimeNs>,
    undo: Vec<Seen>,
    redo: Vec<Seen>,
}

/// What was on show: time and bytes.
type Seen = (TimeRange, Option<TimeRange>);

/// Takes the last that is not what is on show already.
fn last_other(steps: &mut Vec<Seen>, now: Seen) -> Option<Seen> {
    std::iter::from_fn(|| steps.pop()).find(|&seen| seen != now)
}

impl Navigation {
    const MAX_UNDO: usize = 100;

    /// What the timeline shows, in session time. Never empty once something is open.
    pub fn visible(&self) -> TimeRange {
        self.visible
    }

    /// Shows `range` without a step to undo: for the many small moves of one drag or wheel turn.
    pub fn glide(&mut self, range: TimeRange) {
        if range.dur() > 0 {
            self.visible = range;
        }
    }

    /// Remembers the present range, as the start of a movement to undo.
    pub fn remember(&mut self) {
        let seen = self.seen();
        if self.undo.last() != Some(&seen) {
            self.undo.push(seen);
            let surplus = self.undo.len().saturating_sub(Self::MAX_UNDO);
            self.undo.drain(..surplus);
        }
        self.redo.clear();
    }

    /// Shows `range`, as one step to undo.
    pub fn go(&mut self, range: TimeRange) {
        self.remember();
        self.glide(range);
    }

    /// Moves all ranges by `offset` nanoseconds, after the session's clock moved.
    pub fn shift(&mut self, offset: DurNs) {
        let seen = self.undo.iter_mut().chain(&mut self.redo).map(|seen| &mut seen.0);
        seen.chain([&mut self.visible]).for_each(|range| *range = range.shifted(offset));
        self.moment = self.moment.map(|at| at.saturating_add(offset));
    }

    /// Shows all bytes, and forgets which were on show: they are of another memory.
    pub fn forget_bytes(&mut self) {
        self.bytes = None;
        self.undo.iter_mut().chain(&mut self.redo).for_each(|seen| seen.1 = None);
    }

    /// Back to what was on show before; false if there was nothing else.
    pub fn undo(&mut self) -> bool {
        let now = self.seen();
        let Some(seen) = last_other(&mut self.undo, now) else { return false };
        self.redo.push(now);
        (self.visible, self.bytes) = seen;
        true
    }

    /// Forward again; false if nothing was undone.
    pub fn redo(&mut self) -> bool {
        let now = self.seen();
        let Some(seen) = last_other(&mut self.redo, now) else { return false };
        self.undo.push(now);
        (self.visible, self.bytes) = seen;
        true
    }

    fn seen(&self) -> Seen {
        (self.visible, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: TimeNs, end: TimeNs) -> TimeRange {
        TimeRange { start, end }
    }

    #[test]
    fn every_step_back_is_seen_and_bytes_are_of_one_memory() {
        let mut navigation = Navigation::default();
        navigation.glide(range(0, 100));
        // One that moves nothing, one that moves time, one that moves bytes.
        navigation.go(range(0, 100));
        navigation.go(range(10, 20));
        navigation.remember();
        navigation.bytes = Some(range(0, 7));
        assert!(navigation.undo());
        assert_eq!((navigation.visible(), navigation.bytes), (range(10, 20), None));
        assert!(navigation.redo());
        assert_eq!(navigation.bytes, Some(range(0, 7)));
        navigation.forget_bytes();
        assert!(navigation.undo());
        assert_eq!((navigation.visible(), navigation.bytes), (range(0, 100), None));
        assert!(!navigation.undo());
        while navigation.redo() {}
        assert_eq!((navigation.visible(), navigation.bytes), (range(10, 20), None));
    }
}
