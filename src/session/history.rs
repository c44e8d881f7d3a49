//! The places that were visited, for a way back and forward again.

use super::Selection;
use crate::model::{DurNs, TimeRange};

/// What is chosen and on show at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    pub selection: Selection,
    /// The selected time range.
    pub range: Option<TimeRange>,
    /// The shown memory, and its moment.
    pub memory: Option<(usize, usize)>,
    pub moment: Option<u32>,
    /// The visible time.
    pub visible: TimeRange,
    /// The views in front.
    pub views: Vec<&'static str>,
}

impl Visit {
    /// Whether it is the same place, seen as a whole or in part: zooming, panning and turning to another view are no
    /// journey.
    fn is_near(&self, other: &Self) -> bool {
        // A memory is shown by itself as soon as a view asks for one.
        let is_other_memory = self.memory.is_some() && other.memory.is_some() && self.memory != other.memory;
        (self.selection, self.range, self.moment) == (other.selection, other.range, other.moment)
            && !is_other_memory
            && self.visible.intersect(other.visible).is_some()
    }
}

/// Places before and after the present one. Kept for the session only.
#[derive(Clone, Debug, Default)]
pub struct History {
    past: Vec<Visit>,
    future: Vec<Visit>,
    now: Option<Visit>,
    /// What was there in the last frame: a journey ends when nothing moves any more.
    last: Option<Visit>,
    departs: bool,
}

impl History {
    const MOST: usize = 100;

    /// What comes next is another place, even if only another view shows it.
    pub fn depart(&mut self) {
        self.departs = true;
    }

    /// Follows what is chosen and on show. Call it every frame.
    ///
    /// * `is_moving`: whether a button of the mouse is down, as in a drag.
    ///
    /// Returns whether it needs one more frame to see that the journey is over.
    pub fn follow(&mut self, place: Visit, is_moving: bool) -> bool {
        let Some(now) = &mut self.now else {
            self.now = Some(place);
            return false;
        };
        self.departs &= *now != place;
        if now.is_near(&place) && !self.departs {
            *now = place;
            self.last = None;
            return false;
        }
        let is_settled = !is_moving && self.last.as_ref() == Some(&place);
        if is_settled {
            self.past.push(std::mem::replace(now, place));
            let surplus = self.past.len().saturating_sub(Self::MOST);
            self.past.drain(..surplus);
            self.future.clear();
            (self.last, self.departs) = (None, false);
        } else {
            self.last = Some(place);
        }
        !is_settled
    }

    /// The place before, which is now the present one.
    pub fn back(&mut self) -> Option<Visit> {
        let place = self.past.pop()?;
        self.future.extend(self.now.replace(place));
        self.now.clone()
    }

    /// The place after, where [`Self::back`] left it.
    pub fn forward(&mut self) -> Option<Visit> {
        let place = self.future.pop()?;
        self.past.extend(self.now.replace(place));
        self.now.clone()
    }

    /// Moves all times by `offset` nanoseconds, after the session's clock moved.
    pub(super) fn shift(&mut self, offset: DurNs) {
        for place in self.past.iter_mut().chain(&mut self.future).chain(&mut self.now) {
            place.visible = place.visible.shifted(offset);
            place.range = place.range.map(|range| range.shifted(offset));
        }
    }

    /// Forgets places in traces that were closed.
    ///
    /// * `moved`: the new index of a trace, if it is still open.
    pub(super) fn keep(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        let kept = |place: &mut Visit| {
            let was_selected = place.selection != Selection::None;
            place.selection = place.selection.moved(&moved);
            let had_memory = place.memory.is_some();
            place.memory = place.memory.and_then(|(trace, memory)| Some((moved(trace)?, memory)));
            (place.selection != Selection::None) == was_selected && place.memory.is_some() == had_memory
        };
        self.past.retain_mut(kept);
        self.future.retain_mut(kept);
        (self.now, self.last) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SliceId;

    fn place(slice: u32, start: i64) -> Visit {
        let selection = Selection::Slice { trace: 1, slice: SliceId(slice) };
        Visit { selection, visible: TimeRange { start, end: start + 100 }, ..Visit::default() }
    }

    /// Stays until nothing moves.
    fn go(history: &mut History, place: &Visit) {
        while history.follow(place.clone(), false) {}
    }

    #[test]
    fn journeys_are_kept_and_movements_within_a_place_are_not() {
        let mut history = History::default();
        let (home, panned) = (Visit { visible: TimeRange { start: 0, end: 100 }, ..Visit::default() }, place(1, 40));
        go(&mut history, &home);
        assert!(history.back().is_none(), "nothing was before");
        // A drag passes many places and ends at one.
        for at in 2..20 {
            assert!(history.follow(place(at, 0), true));
        }
        go(&mut history, &place(1, 0));
        go(&mut history, &panned);
        go(&mut history, &place(2, 5_000));
        assert_eq!(history.back(), Some(panned.clone()), "as it was left");
        assert_eq!(history.back(), Some(home.clone()));
        assert!(history.back().is_none());
        assert_eq!(history.forward(), Some(panned));
        // Another way from here forgets the old one.
        go(&mut history, &place(3, 40));
        assert!(history.forward().is_none());
        // A jump to another time, with the same selection.
        go(&mut history, &place(3, 9_000));
        assert_eq!(history.back(), Some(place(3, 40)));
    }

    #[test]
    fn places_are_bounded_and_leave_with_their_trace() {
        let mut history = History::default();
        (0..500).for_each(|at| go(&mut history, &place(at, 0)));
        assert_eq!(history.past.len(), History::MOST);
        history.shift(7);
        history.keep(|trace| Some(trace - 1));
        let back = history.back().unwrap();
        assert_eq!((back.selection.trace(), back.visible.start), (Some(0), 7));
        history.keep(|_| None);
        assert!(history.back().is_none() && history.forward().is_none());
    }

    #[test]
    fn another_view_is_a_journey_if_one_departs_for_it() {
        let mut history = History::default();
        let in_view = |view| Visit { views: vec![view], ..place(1, 0) };
        go(&mut history, &in_view("overview"));
        go(&mut history, &in_view("kernels"));
        assert!(history.back().is_none());
        history.depart();
        go(&mut history, &in_view("kernels"));
        assert!(history.back().is_none(), "it is in front already");
        history.depart();
        go(&mut history, &in_view("leaks"));
        assert_eq!(history.back(), Some(in_view("kernels")));
    }
}
