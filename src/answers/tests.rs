use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::*;
use crate::model::Trace;

/// What the analyses of one test did.
#[derive(Debug, Default)]
struct Log {
    runs: AtomicU32,
    cancelled: AtomicU32,
    /// Work on these waits until it is let go.
    gates: Mutex<Vec<(u32, Receiver<()>)>>,
}

impl Log {
    /// Makes work on `number` wait for the sender.
    fn gate(&self, number: u32) -> SyncSender<()> {
        let (sender, gate) = sync_channel(1);
        self.gates.lock().unwrap().push((number, gate));
        sender
    }
}

/// Ten times its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tenfold(u32);

impl Analysis for Tenfold {
    type Of = Arc<Log>;
    type Output = u32;
    const NAME: &'static str = "Tenfold";
    const KEPT: usize = 2;

    fn run(&self, of: &Arc<Log>, work: &Work<'_>) -> Option<u32> {
        of.runs.fetch_add(1, Ordering::Relaxed);
        assert_ne!(self.0, 13, "unlucky");
        let mut gates = of.gates.lock().unwrap();
        let gate = gates.iter().position(|gate| gate.0 == self.0).map(|at| gates.remove(at).1);
        drop(gates);
        _ = gate.map(|gate| gate.recv());
        of.cancelled.fetch_add(u32::from(work.is_cancelled()), Ordering::Relaxed);
        Some(self.0 * 10)
    }
}

/// One more than ten times its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OneMore(u32);

impl Analysis for OneMore {
    type Of = Arc<Log>;
    type Output = u32;
    const NAME: &'static str = "One more";

    fn run(&self, of: &Arc<Log>, work: &Work<'_>) -> Option<u32> {
        Some(*work.get(of, &Tenfold(self.0))? + 1)
    }
}

/// Asks until the answer is there.
fn wait<A: Analysis>(query: &mut Query<A>, answers: &Answers, of: &A::Of, wanted: &A) -> Answer<A::Output> {
    loop {
        match query.ask(answers, of, wanted) {
            Answer::Working(_) => std::thread::yield_now(),
            settled => return settled,
        }
    }
}

fn ready<T: Copy>(answer: &Answer<T>) -> Option<T> {
    answer.ready().map(|output| **output)
}

#[test]
fn an_answer_is_computed_once_for_all_that_ask() {
    let (answers, log) = (Answers::default(), Arc::new(Log::default()));
    assert_eq!(ready(&wait(&mut Query::default(), &answers, &log, &OneMore(4))), Some(41));
    assert_eq!(ready(&wait(&mut Query::default(), &answers, &log, &Tenfold(4))), Some(40));
    assert_eq!(answers.get(&log, &OneMore(4)).as_deref(), Some(&41));
    assert_eq!(log.runs.load(Ordering::Relaxed), 1);
    let other = Arc::new(Log::default());
    assert_eq!(answers.get(&other, &Tenfold(4)).as_deref(), Some(&40));
    assert_eq!(other.runs.load(Ordering::Relaxed), 1);
}

#[test]
fn many_threads_share_what_one_of_them_computes() {
    let (answers, log, barrier) = (Answers::default(), Arc::new(Log::default()), Barrier::new(8));
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (answers, log, barrier) = (&answers, &log, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let found = if i % 2 == 0 { answers.get(log, &OneMore(7)) } else { answers.get(log, &Tenfold(7)) };
                assert_eq!(found.as_deref(), Some(&if i % 2 == 0 { 71 } else { 70 }));
            });
        }
    });
    assert_eq!(log.runs.load(Ordering::Relaxed), 1);
}

#[test]
fn the_previous_answer_stays_until_the_next_and_no_more_than_kept_are_kept() {
    let (answers, log, mut query) = (Answers::default(), Arc::new(Log::default()), Query::default());
    wait(&mut query, &answers, &log, &Tenfold(1));
    let gate = log.gate(2);
    let Answer::Working(Some(before)) = query.ask(&answers, &log, &Tenfold(2)) else { panic!() };
    assert_eq!((*before, query.shown()), (10, Some(&Tenfold(1))));
    gate.send(()).unwrap();
    wait(&mut query, &answers, &log, &Tenfold(2));
    wait(&mut query, &answers, &log, &Tenfold(3));
    assert_eq!(log.runs.load(Ordering::Relaxed), 3);
    // Two are kept.
    wait(&mut query, &answers, &log, &Tenfold(2));
    assert_eq!(log.runs.load(Ordering::Relaxed), 3);
    wait(&mut query, &answers, &log, &Tenfold(1));
    assert_eq!(log.runs.load(Ordering::Relaxed), 4);
}

#[test]
fn work_is_cancelled_when_the_last_that_waits_asks_for_something_else() {
    let (answers, log) = (Answers::default(), Arc::new(Log::default()));
    let (mut one, mut two) = (Query::default(), Query::default());
    let gate = log.gate(1);
    assert!(one.ask(&answers, &log, &Tenfold(1)).is_working());
    assert!(two.ask(&answers, &log, &Tenfold(1)).is_working());
    wait(&mut one, &answers, &log, &Tenfold(2));
    gate.send(()).unwrap();
    assert_eq!(ready(&wait(&mut two, &answers, &log, &Tenfold(1))), Some(10));
    assert_eq!(log.cancelled.load(Ordering::Relaxed), 0, "the second one waited for it");

    let gate = log.gate(5);
    assert!(one.ask(&answers, &log, &Tenfold(5)).is_working());
    // Work that is cancelled before it begins is not a run.
    while log.runs.load(Ordering::Relaxed) < 3 {
        std::thread::yield_now();
    }
    wait(&mut one, &answers, &log, &Tenfold(6));
    gate.send(()).unwrap();
    // Cancelled work leaves no answer: it is computed again.
    assert_eq!(ready(&wait(&mut two, &answers, &log, &Tenfold(5))), Some(50));
    assert_eq!(log.runs.load(Ordering::Relaxed), 5);
    while log.cancelled.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn near_work_is_finished_before_the_next_begins() {
    let (answers, log, mut query) = (Answers::default(), Arc::new(Log::default()), Query::default());
    let gate = log.gate(1);
    query.ask(&answers, &log, &Tenfold(1));
    for moved in 2..50 {
        let answer = query.ask_in_turn(&answers, &log, &Tenfold(moved), |_| true);
        assert!(answer.is_working() && answer.newest().is_none());
    }
    gate.send(()).unwrap();
    while query.newest().is_none() {
        query.ask_in_turn(&answers, &log, &Tenfold(50), |_| true);
    }
    assert_eq!(query.newest().as_deref(), Some(&10));
    assert_eq!(ready(&wait(&mut query, &answers, &log, &Tenfold(50))), Some(500));
    assert_eq!(log.runs.load(Ordering::Relaxed), 2);
}

/// An answer of which only the last is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OnlyLast(u64);

impl Analysis for OnlyLast {
    type Of = OpenTrace;
    type Output = u64;
    const NAME: &'static str = "Only the last";
    const KEPT: usize = 1;

    fn run(&self, _: &OpenTrace, _: &Work<'_>) -> Option<u64> {
        Some(self.0)
    }
}

#[test]
fn what_is_shown_stays_where_the_next_answer_comes_while_it_is_asked_for() {
    let (answers, open, mut query) = (Answers::default(), OpenTrace::new(Trace::default(), 0), Query::default());
    wait(&mut query, &answers, &open, &OnlyLast(0));
    for moved in 1..3_000 {
        let answer = query.ask_in_turn(&answers, &open, &OnlyLast(moved), |_| true);
        assert!(answer.newest().is_some(), "blank at {moved}");
        if moved % 3 == 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_crash_is_reported_and_not_tried_again() {
    let (answers, log, mut query) = (Answers::default(), Arc::new(Log::default()), Query::default());
    let Answer::Failed(why) = wait(&mut query, &answers, &log, &Tenfold(13)) else { panic!() };
    assert!(why.contains("Tenfold crashed") && why.contains("unlucky"), "{why}");
    assert!(answers.get(&log, &OneMore(13)).is_none());
    assert_eq!(log.runs.load(Ordering::Relaxed), 1);
}

/// An answer that keeps its trace alive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeepsTrace;

impl Analysis for KeepsTrace {
    type Of = OpenTrace;
    type Output = Arc<Trace>;
    const NAME: &'static str = "Keeps the trace";

    fn run(&self, of: &OpenTrace, _: &Work<'_>) -> Option<Self::Output> {
        Some(Arc::clone(&of.trace))
    }
}

#[test]
fn closing_a_trace_frees_all_that_is_of_it() {
    let open = |offset| OpenTrace::new(Trace::default(), offset);
    let (answers, mut traces) = (Answers::default(), vec![open(0), open(5)]);
    let mut queries = [Query::default(), Query::default()];
    for (query, open) in queries.iter_mut().zip(&traces) {
        wait(query, &answers, open, &KeepsTrace);
    }
    let of_answer = answers.get(&traces[1], &KeepsTrace).unwrap();
    assert!(of_answer.key().is_current(&traces) && of_answer.key().is_alive());
    drop(of_answer);
    let closed = Arc::downgrade(&traces.remove(0).trace);
    assert!(closed.upgrade().is_some());
    answers.follow(&traces);
    assert!(closed.upgrade().is_none());
    assert!(queries[0].newest().is_none() && queries[1].newest().is_some());
    // At another offset it is something else.
    traces[0].offset = 6;
    answers.follow(&traces);
    assert!(queries[1].newest().is_none());
}

#[test]
fn only_the_same_traces_at_the_same_offsets_are_equal() {
    let open = |offset| OpenTrace::new(Trace::default(), offset);
    let (a, b) = (open(0), open(0));
    let moved = OpenTrace { offset: 1, ..a.clone() };
    assert_eq!(a.key(), a.clone().key());
    assert_ne!(a.key(), b.key());
    assert_ne!(a.key(), moved.key());
    assert_ne!(a.key(), std::slice::from_ref(&a).key());
    assert_eq!([a.clone(), b.clone()].key(), [a.clone(), b.clone()].key());
    assert_ne!([a.clone(), b.clone()].key(), [b, a].key());
}
