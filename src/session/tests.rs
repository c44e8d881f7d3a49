use super::*;
use crate::model::memory::MemoryHistory;
use crate::model::{Format, SliceKind, StringId, TimeNs, TraceBuilder, TrackId};

fn trace(start: TimeNs, end: TimeNs, utc_offset_ns: Option<DurNs>) -> Trace {
    let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start, end)]);
    builder.info.utc_offset_ns = utc_offset_ns;
    builder.finish()
}

fn session_starts(session: &Session) -> Vec<TimeNs> {
    session.traces().iter().map(|open| open.trace.span.start + open.offset).collect()
}

#[test]
fn known_clocks_are_shared() {
    let mut session = Session::default();
    session.add(vec![trace(1_000, 2_000, Some(5_000)), trace(100, 900, Some(5_500))]);
    assert_eq!(session.open.clock_note().unwrap(), "All files are on one UTC clock");
    assert_eq!(session_starts(&session), [400, 0]);
    assert_eq!(session.span(), TimeRange { start: 0, end: 1_400 });
    let epoch = 1_700_000_000_000_000_000;
    session.clear();
    session.add(vec![trace(epoch, epoch + 5, None), trace(100, 900, Some(epoch))]);
    assert!(session.open[0].shares_clock(&session.open[1]));
    assert_eq!(session_starts(&session), [0, 100]);
}

#[test]
fn unknown_clocks_start_together_and_say_so() {
    let mut session = Session::default();
    session.add(vec![trace(1_000, 2_000, Some(5_000)), trace(70, 900, None)]);
    assert_eq!(session_starts(&session), [0, 0]);
    let note = session.open.clock_note().unwrap();
    assert_eq!(note, "2 runs, their starts aligned at 0; 1 file does not say when it was recorded");
}

#[test]
fn runs_far_apart_are_shown_at_their_times_where_that_is_asked_for() {
    const LATER: i64 = 1_000_000;
    let of = |offset| trace(50, 1_050, offset);
    let mut session = Session::of(vec![of(Some(LATER)), of(Some(0)), of(None)]);
    assert_eq!((session_starts(&session), session.open.places()), (vec![0, 0, 0], RunPlaces::Starts));
    let range = TimeRange { start: 100, end: 200 };
    for (trace, note) in [(0, "of the first"), (1, "of the second")] {
        let of = Arc::clone(&session.open[trace].id);
        session.marks.push(Mark { note: note.to_owned(), of, ..Mark::new(range) });
    }
    session.selection = Selection::Slice { trace: 0, slice: SliceId(0) };
    session.range = Some(range);
    session.place_runs(RunPlaces::Recorded, &[]);
    assert_eq!(session_starts(&session), [LATER, 0, 0], "without a time it stays at zero");
    assert_eq!(session.navigation.visible(), TimeRange { start: 0, end: LATER + 1_000 });
    assert_eq!(session.range, Some(range.shifted(LATER)), "along with what is selected");
    let marks: Vec<_> = session.marks.iter().map(|mark| (mark.note.as_str(), mark.range)).collect();
    assert_eq!(marks, [("of the second", range), ("of the first", range.shifted(LATER))]);
    assert!(!session.open[0].shares_clock(&session.open[1]), "they are still two runs");
    let note = session.open.clock_note().unwrap();
    assert_eq!(note, "3 runs on one UTC clock; 1 file does not say when it was recorded");
    session.place_runs(RunPlaces::Starts, &[]);
    assert_eq!((session_starts(&session), session.range), (vec![0, 0, 0], Some(range)));
    assert!(session.marks.iter().all(|mark| mark.range == range));
    session.close(|i, _| i == 0);
    assert!(!session.open.can_spread(), "one run has a time");
}

#[test]
fn what_is_on_screen_stays_when_the_clock_moves() {
    let mut session = Session::default();
    session.add(vec![trace(1_000, 2_000, Some(5_000))]);
    let visible = TimeRange { start: 100, end: 200 };
    session.navigation.go(visible);
    session.range = Some(visible);
    session.add(vec![trace(0, 10, Some(5_000))]);
    // The second trace starts 1,000 ns earlier and is the new zero.
    assert_eq!(session.navigation.visible(), visible.shifted(1_000));
    assert_eq!(session.range, Some(visible.shifted(1_000)));
    session.navigation.undo();
    assert_eq!(session.navigation.visible(), TimeRange { start: 1_000, end: 2_000 });
}

#[test]
fn files_are_in_the_order_in_which_they_were_asked_for() {
    let read = |order, start| OpenTrace { order, ..trace(start, start + 1_000, Some(0)).into() };
    let orders = |session: &Session| session.traces().iter().map(|open| open.order).collect::<Vec<_>>();
    let mut session = Session::default();
    session.add(vec![read(3, 3_000)]);
    session.selection = Selection::Slice { trace: 0, slice: SliceId(0) };
    session.hits = Arc::new(vec![(0, SliceId(0))]);
    session.files.choose("kernels", Files::One(0));
    let visible = TimeRange { start: 100, end: 200 };
    session.navigation.go(visible);
    // What was asked for earlier is read later, and began earlier.
    session.add(vec![read(1, 1_000), read(1, 1_500)]);
    session.add(vec![read(2, 2_000)]);
    assert_eq!(orders(&session), [1, 1, 2, 3]);
    assert_eq!(session_starts(&session), [0, 500, 1_000, 2_000]);
    assert_eq!(session.selection, Selection::Slice { trace: 3, slice: SliceId(0) });
    assert_eq!((*session.hits).clone(), [(3, SliceId(0))]);
    assert_eq!(session.files.of("kernels"), Files::One(3));
    assert_eq!(session.navigation.visible(), visible.shifted(2_000), "the same part of the same trace");
}

#[test]
fn closing_one_of_three_keeps_clock_selection_and_hits_of_the_others() {
    let mut session = Session::default();
    let known = |start| trace(start, start + 1_000, Some(0));
    session.add(vec![known(1_000), known(3_000), known(6_000)]);
    let last = Arc::clone(&session.traces()[2].trace);
    session.selection = Selection::Slice { trace: 2, slice: SliceId(0) };
    session.hits = Arc::new(vec![(0, SliceId(0)), (1, SliceId(0)), (2, SliceId(0))]);
    let on_last = TimeRange { start: 5_100, end: 5_200 };
    session.navigation.go(on_last);
    session.range = Some(on_last);
    session.marks.push(Mark { note: "slow".to_owned(), ..Mark::new(on_last) });

    session.close(|i, _| i == 0);
    // The second trace, which started 2,000 ns later, is the new zero.
    assert_eq!(session_starts(&session), [0, 3_000]);
    assert!(session.open[0].shares_clock(&session.open[1]));
    assert_eq!(session.span(), TimeRange { start: 0, end: 4_000 });
    assert!(Arc::ptr_eq(&session.traces()[1].trace, &last));
    assert_eq!(session.selection, Selection::Slice { trace: 1, slice: SliceId(0) });
    assert_eq!(*session.hits, [(0, SliceId(0)), (1, SliceId(0))]);
    let moved = on_last.shifted(-2_000);
    assert_eq!((session.navigation.visible(), session.range), (moved, Some(moved)));
    assert_eq!(session.marks[0].range, moved);

    session.close(|i, _| i == 1);
    assert_eq!((session.open.clock_note(), session.selection), (None, Selection::None));
    assert_eq!(session.range, None, "nothing is left there");
    assert_eq!(session.navigation.visible(), session.span());
    assert_eq!(session.marks[0].note, "slow");

    session.close(|_, _| true);
    assert!(session.traces().is_empty());
}

#[test]
fn marks_come_back_with_their_recording_alone() {
    let mut session = Session::of(vec![trace(1_000, 2_000, None)]);
    let mark = Mark { note: "slow".to_owned(), of: Arc::clone(&session.open[0].id), ..Mark::new(session.span()) };
    session.marks.push(mark.clone());
    let kept = serde_json::to_value(session.all_marks()).unwrap();
    session.close(|_, _| true);
    assert!(session.marks.is_empty());
    let mut later = Session { kept_marks: serde_json::from_value(kept).unwrap(), ..Session::default() };
    later.add(vec![trace(1_000, 2_001, None)]);
    assert!(later.marks.is_empty(), "another recording");
    later.close(|_, _| true);
    for session in [&mut session, &mut later] {
        session.add(vec![trace(1_000, 2_000, None)]);
        assert_eq!(session.marks, std::slice::from_ref(&mark));
    }
}

#[test]
fn marks_that_were_used_as_steps_are_steps_again() {
    let of = |is_used: bool| {
        let mut session = Session::of(vec![trace(1_000, 2_000, None)]);
        let of = Arc::clone(&session.open[0].id);
        let marks = [1_100, 1_400, 1_700].map(|ts| TimeRange { start: ts, end: ts });
        session.marks.extend(marks.map(|range| Mark { of: Arc::clone(&of), ..Mark::new(range) }));
        session.steps.by_marks = is_used;
        serde_json::to_value(session.all_marks()).unwrap()
    };
    let opened = |kept: serde_json::Value, ends: &[TimeNs]| {
        let mut later = Session { kept_marks: serde_json::from_value(kept).unwrap(), ..Session::default() };
        later.add(ends.iter().map(|&end| trace(1_000, end, None)).collect::<Vec<_>>());
        later
    };
    assert!(opened(of(true), &[2_000]).steps.by_marks);
    assert!(!opened(of(false), &[2_000]).steps.by_marks);
    assert!(!opened(of(true), &[2_001]).steps.by_marks, "another recording");
    // What is chosen beside it counts on.
    let mut later = opened(of(true), &[2_001]);
    later.marks.push(Mark { of: Arc::clone(&later.open[0].id), ..Mark::new(later.span()) });
    later.add(vec![trace(1_000, 2_000, None)]);
    assert_eq!((later.marks.len(), later.steps.by_marks), (4, false));
    // Cleared, and closed and opened again.
    let mut again = opened(of(true), &[2_000]);
    again.close(|_, _| true);
    assert!(!again.steps.by_marks);
    again.add(vec![trace(1_000, 2_000, None)]);
    assert!(again.steps.by_marks);
}

#[test]
fn two_recordings_keep_marks_that_they_have_at_the_same_time() {
    let mut kept = KeptMarks::default();
    let ends = [2_000, 2_500];
    for (end, note) in ends.into_iter().zip(["first", "second"]) {
        let open = OpenTrace::new(trace(1_000, end, None), 0);
        let mark =
            Mark { note: note.to_owned(), of: Arc::clone(&open.id), ..Mark::new(TimeRange { start: 5, end: 9 }) };
        kept.put(&open, &[mark], false);
    }
    let mut session = Session { kept_marks: kept, ..Session::default() };
    session.add(ends.map(|end| trace(1_000, end, None)).into());
    session.close(|_, _| true);
    let notes = |end| {
        let mut later = Session { kept_marks: session.all_marks(), ..Session::default() };
        later.add(vec![trace(1_000, end, None)]);
        later.marks.into_iter().map(|mark| mark.note).collect::<Vec<_>>()
    };
    assert_eq!(ends.map(notes), [["first"], ["second"]]);
}

#[test]
fn lone_instants_are_outside_of_the_first_picture() {
    let far = |ts| {
        let mut builder = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", 1_000, 3_000)]);
        let instants = &mut builder.instants;
        instants.ts.push(ts);
        instants.name.push(StringId::EMPTY);
        instants.track.push(TrackId(0));
        instants.source.push(0);
        builder.finish()
    };
    let mut session = Session::of(vec![far(90_000)]);
    let content = TimeRange { start: 0, end: 2_000 };
    assert_eq!((session.content(), session.span().end), (content, 89_000));
    assert_eq!(session.navigation.visible(), content);
    // A history of memory is not a lone event.
    let mut with_memory = far(90_000);
    let span = TimeRange { start: 2_000, end: 61_000 };
    with_memory.memories.push(MemoryHistory { has_time: true, span, ..MemoryHistory::default() });
    assert_eq!(Session::of(vec![with_memory]).content(), TimeRange { start: 0, end: 60_000 });
    // What lies 999,000 ns before the slices is before zero, where the slices of all begin.
    session.add(vec![trace(500, 4_000, None), far(-998_000)]);
    assert_eq!((session.content(), session.span().start), (TimeRange { start: 0, end: 3_500 }, -999_000));
    assert_eq!(session.navigation.visible(), session.content());
}

#[test]
fn sessions_of_nsys_stand_beside_each_other_with_what_they_noted_before_left_of_zero() {
    const S: TimeNs = 1_000_000_000;
    let of = |before: TimeNs| {
        let op = SliceKind::Operator;
        let mut slices: Vec<_> = (0..60).map(|i| ("main", op, "op", (1 + i) * S, (2 + i) * S)).collect();
        slices.push(("main", op, "noted", -before * S, 1 - before * S));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.info.format = Format::Nsys;
        builder.finish()
    };
    let session = Session::of(vec![of(37), of(2)]);
    let work = |open: &OpenTrace| S + open.offset;
    assert_eq!(session.traces().iter().map(work).collect::<Vec<_>>(), [S, S]);
    assert_eq!(session.content(), TimeRange { start: 0, end: 61 * S });
    assert_eq!(session.span(), TimeRange { start: -37 * S, end: 61 * S }, "what was noted can be gone to");
    assert_eq!(session.open.beyond().first().map(|beyond| (beyond.trace, beyond.before)), Some((0, 37 * S)));
}

#[test]
fn of_recordings_far_apart_on_one_clock_the_last_is_shown() {
    const MS: TimeNs = 1_000_000;
    let of = |name: &str, start: TimeNs, rank| {
        let mut trace = trace(start * MS, (start + 500) * MS, Some(0));
        trace.info.path = format!("run/{name}.json").into();
        trace.info.rank = Some(rank);
        trace.processes = vec![crate::model::Process { pid: "4711".to_owned(), ..Default::default() }];
        trace
    };
    let shown = |session: &Session| [session.navigation.visible().start / MS, session.navigation.visible().end / MS];
    let mut session = Session::of(vec![of("1", 0, 0)]);
    session.add(vec![of("2", 60_000, 0)]);
    assert_eq!((session.open.runs().len(), shown(&session)), (1, [60_000, 60_500]), "on the clock of the first");
    // With the other rank of it, which is recorded a little later.
    session.add(vec![of("2b", 60_800, 1)]);
    assert_eq!(shown(&session), [60_000, 61_300]);
    assert_eq!((session.span().start, session.span().end), (0, 61_300 * MS), "all is there");
    let [beyond] = session.open.beyond() else { panic!("{:?}", session.open.beyond()) };
    assert_eq!((beyond.trace, beyond.is_apart, beyond.before, beyond.n_events), (0, true, 60_000 * MS, 1));
    // What a person looks at stays.
    session.navigation.go(TimeRange { start: 60_100 * MS, end: 60_200 * MS });
    session.add(vec![of("3", 120_000, 0)]);
    assert_eq!(shown(&session), [60_100, 60_200]);
    session.close(|_, trace| !trace.info.path.ends_with("1.json"));
    assert_eq!(shown(&session), [0, 500]);
    // Recordings that fill much of the time between them are one picture.
    session.add(vec![of("4", 2_000, 0)]);
    assert_eq!(shown(&session), [0, 2_500]);
}

#[test]
fn all_traces_of_one_file_close_in_one_step() {
    let of_file = |path: &str, rank| {
        let mut trace = trace(0, 100, None);
        trace.info.path = path.into();
        trace.info.rank = Some(rank);
        trace
    };
    let mut session = Session::default();
    session.add(vec![of_file("a.tar", 0), of_file("a.tar", 1), of_file("b.json", 0)]);
    session.close(|_, trace| trace.info.path == *"a.tar");
    assert_eq!(session.traces().len(), 1);
    assert!(session.has_file(Path::new("b.json")) && !session.has_file(Path::new("a.tar")));
    assert_eq!(session.navigation.visible(), session.span());
}

#[test]
fn the_same_rank_of_two_runs_has_two_names() {
    let rank_0 = |at, path: &str| {
        let mut trace = trace(at, at + 100, Some(0));
        trace.info.rank = Some(0);
        trace.info.path = path.into();
        trace
    };
    let names = |session: &Session| session.traces().iter().map(|open| open.name.to_string()).collect::<Vec<_>>();
    let mut session = Session::of(vec![rank_0(0, "/a/x.json")]);
    assert_eq!(names(&session), ["rank 0"]);
    session.add(vec![rank_0(86_400_000_000_000, "/b/x.json"), rank_0(50, "/c/x.json")]);
    assert_eq!(names(&session), ["rank 0, a", "rank 0, b", "rank 0, c"]);
    assert_eq!(session.traces().iter().map(|open| open.run).collect::<Vec<_>>(), [0, 1, 0]);
    let [a, b, c] = session.traces() else { panic!("three are open") };
    assert!(a.shares_clock(c) && !a.shares_clock(b) && b.shares_clock(b));
    assert_eq!(in_order(session.traces()), [0, 2, 1]);
    session.close(|i, _| i < 2);
    assert_eq!(names(&session), ["rank 0"]);
}

#[test]
fn a_run_that_is_in_front_has_the_axis_for_itself_until_others_are_asked_for() {
    const HOUR: TimeNs = 3_600_000_000_000;
    let of = |path: &str, hours: TimeNs, dur: TimeNs| {
        let mut trace = trace(0, dur, Some(hours * HOUR));
        trace.info.path = path.into();
        trace
    };
    let mut session = Session::of(vec![of("old.json", 1, 90_000)]);
    session.add(vec![of("new.json", 5, 2_000)]);
    let shown = |session: &Session| (session.content().end, session.navigation.visible().end);
    let behind = |session: &Session| session.traces().iter().map(|open| open.is_behind).collect::<Vec<_>>();
    assert_eq!((shown(&session), behind(&session)), ((90_000, 90_000), vec![false, false]), "one beside the other");
    session.bring_to_front(1);
    assert_eq!((shown(&session), behind(&session)), ((2_000, 2_000), vec![true, false]));
    assert_eq!(session.span().end, 90_000, "all is there");
    assert_eq!((in_order(session.traces()), session.steps.open(session.traces()).unwrap().0), (vec![1, 0], 1));
    // What is of the same run comes to it; another run that is opened, and another place, are asked for.
    session.add(vec![of("rank1.json", 5, 3_000)]);
    assert_eq!((shown(&session), behind(&session)), ((3_000, 3_000), vec![true, false, false]));
    session.bring_to_front(0);
    assert_eq!((shown(&session).0, behind(&session)), (90_000, vec![false, true, true]));
    session.place_runs(RunPlaces::Starts, &[]);
    assert_eq!(behind(&session), [false; 3]);
    session.bring_to_front(1);
    session.add(vec![of("third.json", 9, 50_000)]);
    assert_eq!((session.content().end, behind(&session)), (90_000, vec![false; 4]));
    // It is closed.
    session.bring_to_front(3);
    session.close(|trace, _| trace == 3);
    assert_eq!((session.content().end, behind(&session)), (90_000, vec![false; 3]));
}

#[test]
fn what_nobody_waited_for_stays_behind_what_is_looked_at() {
    const HOUR: TimeNs = 3_600_000_000_000;
    let of = |hours: TimeNs, dur: TimeNs| trace(0, dur, Some(hours * HOUR));
    let behind = |session: &Session| session.traces().iter().map(|open| open.is_behind).collect::<Vec<_>>();
    let ends = |session: &Session| (session.content().end, session.navigation.visible().end);
    let mut session = Session::of(vec![of(1, 400), of(3, 700)]);
    session.add(vec![of(5, 90_000)]);
    session.put_behind(2);
    assert_eq!((behind(&session), ends(&session)), (vec![false, false, true], (700, 700)), "the two are compared");
    assert_eq!(session.open.clock_note().unwrap(), "3 runs, 2 of them in front");
    // Another rank of it.
    session.add(vec![of(5, 95_000)]);
    session.put_behind(3);
    assert_eq!((behind(&session), ends(&session)), (vec![false, false, true, true], (700, 700)));
    // One was looked at alone.
    session.bring_to_front(0);
    session.add(vec![of(7, 80_000)]);
    session.put_behind(4);
    assert_eq!((behind(&session), ends(&session)), (vec![false, true, true, true, true], (400, 400)));
    session.bring_to_front(4);
    assert_eq!(ends(&session), (80_000, 80_000), "until it is asked for");
    // What was in front is closed with what it was put behind.
    session.put_behind(4);
    session.close(|trace, _| trace < 4);
    assert_eq!(behind(&session), [false]);
}

#[test]
fn a_trace_without_events_does_not_break_the_clock() {
    let mut session = Session::default();
    session.add(vec![Trace::default()]);
    assert!(session.span().dur() > 0);
    session.add(vec![trace(i64::MAX - 5, i64::MAX, Some(i64::MAX)), trace(i64::MIN, 0, Some(i64::MIN))]);
    assert!(session.span().dur() > 0);
}

#[test]
fn the_trace_is_what_is_shown_first_and_its_snapshot_beside_it() {
    let mut snapshot = trace(0, 60_000, Some(0));
    snapshot.info.format = Format::Snapshot;
    snapshot.info.path = "a.snapshot".into();
    let mut profile = trace(50_000, 52_000, Some(0));
    profile.info.path = "a.json".into();
    let mut session = Session::of(vec![snapshot]);
    assert_eq!(session.content(), TimeRange { start: 0, end: 60_000 });
    assert_eq!(session.steps.open(session.traces()).unwrap().0, 0, "alone it is all there is");
    session.add(vec![profile]);
    assert_eq!(session.navigation.visible(), TimeRange { start: 0, end: 2_000 }, "it counts from what ran");
    assert_eq!(session.span().start, -50_000);
    assert_eq!(session.steps.open(session.traces()).unwrap().0, 1);
    assert_eq!(track_title(session.traces(), 1, "GPU 0"), "GPU 0", "nothing else has devices");
    assert!(track_title(session.traces(), 0, "annotations").starts_with("annotations, "));
    assert_eq!(Files::Apart.counted(session.traces()).collect::<Vec<_>>(), [1]);
    session.files.choose("kernels", Files::One(0));
    session.steps.trace = Some(0);
    assert_eq!(session.steps.open(session.traces()).unwrap().0, 0, "a choice stays");
    session.close(|trace, _| trace == 0);
    assert_eq!((session.files.of("kernels"), session.steps.trace), (Files::Apart, None));
    session.add(vec![trace(51_000, 52_000, Some(0))]);
    assert!(track_title(session.traces(), 0, "GPU 0").starts_with("GPU 0, "), "two have devices");
}
