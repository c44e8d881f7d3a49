//! The arithmetic of zoom and pan, and the commands that run it.

use crate::command::Command;
use crate::model::{DurNs, TimeNs, TimeRange};
use crate::session::Navigation;

/// The shortest visible range.
const MIN_VIEW: DurNs = 20;
/// The longest visible range, in lengths of the span.
const MAX_VIEW_SPANS: f64 = 1.5;
/// Margin on both sides of a fitted range, as a share of it.
pub const MARGIN: f64 = 0.02;
/// What a jump shows at most before the start or after the end of the axis, as a share of the view.
const MAX_EMPTY: f64 = 0.1;

/// The parameters of zoom and pan commands.
#[derive(Clone, Copy, Debug)]
pub struct ZoomTarget {
    /// The position that stays fixed on screen.
    pub at: TimeNs,
    /// From the first to the last position of the axis.
    pub span: TimeRange,
    /// What the first picture shows of it.
    pub content: TimeRange,
    /// Margin on both sides where everything is shown, as a share of it.
    pub margin: f64,
    /// The selected range.
    pub range: Option<TimeRange>,
}

/// Runs the commands that zoom and pan; false for any other.
pub fn run(command: &Command, navigation: &mut Navigation, target: ZoomTarget) -> bool {
    let ZoomTarget { at, span, content, margin, range } = target;
    let view = navigation.visible();
    let quarter = view.dur() / 4;
    navigation.go(match command {
        Command::ZoomIn => zoomed(view, at, 0.5, span),
        Command::ZoomOut => zoomed(view, at, 2.0, span),
        Command::PanLeft => panned(view, -quarter, span),
        Command::PanRight => panned(view, quarter, span),
        Command::ZoomToFit => {
            let [content, whole] = [content, span].map(|range| fitted(range, margin, span));
            // The work would be the smaller part of the picture.
            let is_far = span.dur() / 2 > content.dur();
            let [first, second] = if is_far { [content, whole] } else { [whole, content] };
            if view == first { second } else { first }
        }
        Command::ZoomToRange => match range {
            Some(range) => fitted(range, MARGIN, span),
            None => return true,
        },
        _ => return false,
    });
    true
}

/// Centers `range`, or fits it if it is centered already.
pub fn focus(navigation: &mut Navigation, range: TimeRange, span: TimeRange) {
    let view = navigation.visible();
    let is_centered = is_centered(view, range, span);
    navigation.go(if is_centered { fitted(range, 0.1, span) } else { centered(view, middle(range), span) });
}

/// `view` scaled by `factor` (below 1 zooms in), with the position `at` kept at its place on screen.
pub fn zoomed(view: TimeRange, at: TimeNs, factor: f64, span: TimeRange) -> TimeRange {
    let longest = (span.dur() as f64 * MAX_VIEW_SPANS).clamp(MIN_VIEW as f64, i64::MAX as f64 / 4.0);
    let dur = ((view.dur() as f64 * factor).round().clamp(MIN_VIEW as f64, longest)) as DurNs;
    let share = at.saturating_sub(view.start) as f64 / view.dur().max(1) as f64;
    let start = at.saturating_sub((share * dur as f64).round() as DurNs);
    kept_near(TimeRange { start, end: start.saturating_add(dur) }, span)
}

/// `view` moved by `by`.
pub fn panned(view: TimeRange, by: DurNs, span: TimeRange) -> TimeRange {
    kept_near(view.shifted(by), span)
}

/// `range` with some room on both sides, long enough to show.
pub fn fitted(range: TimeRange, margin: f64, span: TimeRange) -> TimeRange {
    let room = (range.dur() as f64 * margin) as DurNs;
    let short = (MIN_VIEW - range.dur()).max(0) / 2 + 1;
    let room = if range.dur() < MIN_VIEW { short } else { room };
    let wide = TimeRange { start: range.start.saturating_sub(room), end: range.end.saturating_add(room) };
    // What is shortened to the longest view keeps its middle.
    filled(zoomed(wide, middle(wide), 1.0, span), span.union(range))
}

/// The same length around `at`.
pub fn centered(view: TimeRange, at: TimeNs, span: TimeRange) -> TimeRange {
    let start = at.saturating_sub(view.dur() / 2);
    kept_near(TimeRange { start, end: start.saturating_add(view.dur()) }, span)
}

/// `view` moved so that little of it lies outside of `span`, if it fits in there: what is near an end is shown with
/// what is beside it, and not in the middle of nothing.
pub fn filled(view: TimeRange, span: TimeRange) -> TimeRange {
    let empty = (view.dur() as f64 * MAX_EMPTY) as DurNs;
    let (first, last) = (span.start.saturating_sub(empty), span.end.saturating_add(empty).saturating_sub(view.dur()));
    match last >= first {
        true => view.shifted(view.start.clamp(first, last).saturating_sub(view.start)),
        false => kept_near(view, span),
    }
}

/// `view` moved so that its middle lies within `span`: some of the content stays visible.
fn kept_near(view: TimeRange, span: TimeRange) -> TimeRange {
    let middle = middle(view);
    view.shifted(middle.clamp(span.start, span.end.max(span.start)).saturating_sub(middle))
}

/// Whether the middle of `range` is in the middle of the view.
pub fn is_centered(view: TimeRange, range: TimeRange, span: TimeRange) -> bool {
    view == centered(view, middle(range), span)
}

/// The middle of a range.
pub fn middle(range: TimeRange) -> TimeNs {
    range.start.saturating_add(range.dur() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::axis::Scale;

    const SPAN: TimeRange = TimeRange { start: 1_000_000_000_000, end: 1_100_000_000_000 };

    #[test]
    fn zooming_in_and_out_keeps_the_moment_under_the_pointer() {
        let mut view = SPAN;
        let width = 1920.0;
        let pointer = 700.0;
        let at = Scale::new(view, 0.0, width, 1.0).time(pointer);
        let mut steps = 0;
        while view.dur() > 100 {
            view = zoomed(view, at, 0.8, SPAN);
            let share = (at - view.start) as f64 / view.dur() as f64;
            let error_ns = (share - f64::from(pointer) / f64::from(width)).abs() * view.dur() as f64;
            assert!(error_ns <= steps as f64 + 1.5, "{error_ns} ns after {steps} steps of rounding");
            let under = Scale::new(view, 0.0, width, 1.0).x(at);
            assert!(view.dur() < 10_000 || (under - pointer).abs() < 0.5, "{under} at {view:?}");
            steps += 1;
        }
        assert_eq!(zoomed(view, at, 1e-9, SPAN).dur(), MIN_VIEW);
        assert_eq!(zoomed(view, at, 1e30, SPAN).dur(), 150_000_000_000);
    }

    #[test]
    fn one_zoom_is_exact_to_the_nanosecond() {
        let view = TimeRange { start: SPAN.start, end: SPAN.start + 1_000 };
        let zoomed = zoomed(view, SPAN.start + 250, 0.5, SPAN);
        assert_eq!(zoomed, TimeRange { start: SPAN.start + 125, end: SPAN.start + 625 });
    }

    #[test]
    fn the_view_never_leaves_the_traces() {
        let far = panned(SPAN, 1_000_000_000_000, SPAN);
        assert_eq!(far.start + far.dur() / 2, SPAN.end);
        assert_eq!(far.dur(), SPAN.dur());
        let _ = panned(SPAN, i64::MAX, SPAN);
        let _ = zoomed(TimeRange { start: 0, end: 1 }, i64::MIN, 3.0, TimeRange::default());
    }

    #[test]
    fn zooming_to_fit_shows_everything_and_what_lies_far_away_at_the_second_time() {
        let check = |content: TimeRange, views: [TimeRange; 3]| {
            let mut navigation = Navigation::default();
            let target = ZoomTarget { at: 0, span: SPAN, content, margin: 0.0, range: None };
            for expected in views {
                assert!(run(&Command::ZoomToFit, &mut navigation, target));
                assert_eq!(navigation.visible(), expected);
            }
        };
        let far = TimeRange { start: SPAN.end - 100, end: SPAN.end };
        check(far, [far, SPAN, far]);
        let near = TimeRange { end: SPAN.end - SPAN.dur() / 4, ..SPAN };
        check(near, [SPAN, near, SPAN]);
        check(SPAN, [SPAN; 3]);
    }

    #[test]
    fn what_is_too_long_to_fit_with_its_room_stays_in_the_middle() {
        let third = SPAN.dur() / 3;
        let range = TimeRange { start: SPAN.start + third, end: SPAN.end - third };
        let view = fitted(range, 2.0, SPAN);
        assert!(view.dur() < 5 * range.dur());
        assert!((middle(view) - middle(range)).abs() <= 1, "{view:?}");
    }

    #[test]
    fn a_jump_to_what_is_near_an_end_shows_little_beyond() {
        let item = |start: i64| TimeRange { start, end: start + 1_000 };
        for at in [SPAN.start, SPAN.start + 50, SPAN.end - 1_000] {
            // As a hit of the search is shown, tiny or not.
            let views = [fitted(item(at), 20.0, SPAN), filled(centered(item(0), at + 500, SPAN), SPAN)];
            for view in views {
                let outside = view.dur() - view.intersect(SPAN).unwrap().dur();
                assert!(outside * 10 <= view.dur() && view.contains(at), "{view:?}");
            }
            assert_eq!(views[0].dur(), 41_000);
        }
        // What a person chose to see beyond stays in sight.
        let beyond = TimeRange { start: SPAN.start - 1_000, end: SPAN.start + 3_000 };
        assert_eq!(fitted(beyond, 0.0, SPAN), beyond);
    }

    #[test]
    fn a_moment_can_be_fitted() {
        let at = TimeRange { start: SPAN.start + 5, end: SPAN.start + 5 };
        let view = fitted(at, 0.1, SPAN);
        assert!(view.contains(at.start) && view.dur() >= MIN_VIEW, "{view:?}");
        let all = fitted(SPAN, 0.02, SPAN);
        assert!(all.start < SPAN.start && all.end > SPAN.end);
    }
}
