//! The gap ledger of every real trace: its sums are exact, and its causes are those of a Python script that has the
//! definitions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use lacuna::analysis::busy::devices;
use lacuna::analysis::gaps::{GapClass, Ground, Ledger, Near, place};
use lacuna::analysis::steps::steps;
use lacuna::model::{SliceId, TimeRange, Trace};
use serde_json::Value;

use super::support::{has_python, name, project, real, recording};

#[test]
fn gaps_and_their_parts_sum_to_the_idle_time_of_every_real_trace() {
    let mut n_gaps = 0;
    for path in ["A_chrome", "B_sqlite", "B_sqlite_exported_here"].map(real).concat() {
        let Ok(traces) = recording(&path) else { continue };
        n_gaps += traces.iter().flat_map(|trace| checked(&path, trace)).map(|ledger| ledger.len()).sum::<usize>();
    }
    assert!(real("B_sqlite").is_empty() || n_gaps > 10_000, "{n_gaps} gaps");
}

#[test]
fn gaps_of_every_kineto_trace_sum_up_and_have_the_causes_of_the_oracle() {
    let files = real("A_kineto");
    // The largest three take the script as long as all others, which have all of their causes.
    let is_asked = |path: &&PathBuf| path.metadata().is_ok_and(|data| data.len() < 2_000_000);
    let asked: Vec<PathBuf> = files.iter().filter(is_asked).cloned().collect();
    let answers = if has_python() { ask_oracle(&asked) } else { Vec::new() };
    let (mut wrong, mut n_gaps, mut n_certain) = (Vec::new(), 0, Certain::default());
    for path in &files {
        let traces = recording(path).unwrap_or_else(|failure| panic!("{}: {failure:?}", name(path)));
        let all: Vec<(&Trace, Ledger)> = traces
            .iter()
            .flat_map(|trace| checked(path, trace).into_iter().map(move |ledger| (trace, ledger)))
            .collect();
        n_gaps += all.iter().map(|(_, ledger)| ledger.len()).sum::<usize>();
        let Some(answer) = asked.iter().position(|asked| asked == path).and_then(|i| answers.get(i)) else { continue };
        for theirs in answer["devices"].as_array().unwrap() {
            let is_same = |(_, ledger): &&(&Trace, Ledger)| ledger.device == theirs["device"];
            // Devices without a gap may have no ledger.
            match all.iter().find(is_same) {
                Some((trace, ledger)) => compare(trace, ledger, theirs, &name(path), &mut wrong, &mut n_certain),
                None if theirs["gaps"].as_array().unwrap().is_empty() => {}
                None => wrong.push(format!("{}: no ledger of device {}", name(path), theirs["device"])),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {n_gaps} gaps:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(files.is_empty() || n_gaps > 50_000, "{n_gaps} gaps");
    // The script must not leave everything open.
    let Certain { class_ns, all_ns, triggers } = n_certain;
    assert!(answers.is_empty() || 10 * class_ns > 4 * all_ns, "classes of {class_ns} of {all_ns} ns are certain");
    assert!(answers.is_empty() || triggers > 20_000, "the triggers of {triggers} gaps are certain");
}

/// The ledgers of a trace, each exact to the nanosecond.
fn checked(path: &Path, trace: &Trace) -> Vec<Ledger> {
    let busy = devices(trace);
    let all = Ground::new(trace).ledgers(&busy, steps(trace, &|| false).as_ref(), &|| false);
    assert_eq!(all.len(), busy.len(), "{}", name(path));
    for (ledger, busy) in all.iter().zip(&busy) {
        let totals = ledger.totals(TimeRange::ALL);
        assert_eq!(totals.all.total_ns, busy.idle_ns, "{}", name(path));
        assert_eq!(totals.all.total_ns + busy.busy_ns, busy.window.dur(), "{}", name(path));
        let by_class: i64 = totals.by_class.iter().map(|class| class.total_ns).sum();
        assert_eq!(by_class, totals.all.total_ns, "{}", name(path));
        assert_eq!(totals.micro.total_ns + totals.macro_.total_ns, totals.all.total_ns, "{}", name(path));
        let gaps = check(trace, ledger);
        assert_eq!(gaps.all, totals.all.total_ns, "{}", name(path));
        assert_eq!(gaps.by_class, totals.by_class.map(|class| class.total_ns), "{}", name(path));
        assert_eq!(busy.busy_ns, union_of_work(trace, ledger), "{}", name(path));
        halves_sum_to_all(ledger);
    }
    all
}

/// Sums over the gaps of a ledger.
struct Sums {
    all: i64,
    by_class: [i64; GapClass::N],
}

/// Each gap lies between the work before and after it, and its parts tile it.
fn check(trace: &Trace, ledger: &Ledger) -> Sums {
    let mut sums = Sums { all: 0, by_class: [0; GapClass::N] };
    for i in 0..ledger.len() {
        let gap = ledger.gap(i);
        assert_eq!(trace.slices.end[gap.after.idx()], gap.time.start);
        assert_eq!(trace.slices.ts[gap.ended_by.idx()], gap.time.end);
        let mut at = gap.time.start;
        for part in ledger.parts(i) {
            assert!(part.time.start == at && part.time.end > at, "{part:?}");
            at = part.time.end;
            sums.by_class[part.class as usize] += part.time.dur();
        }
        assert_eq!(at, gap.time.end);
        sums.all += gap.time.dur();
    }
    // Names and frames are looked up on demand: of any part, without a panic.
    for i in (0..ledger.len()).step_by(97) {
        ledger.parts(i).for_each(|part| _ = place(trace, ledger, &ledger.gap(i), &part, &Near::none()));
    }
    sums
}

/// Time in which any work of the ledger's device runs, by a counter over edges.
fn union_of_work(trace: &Trace, ledger: &Ledger) -> i64 {
    let slices = &trace.slices;
    let all = (0..slices.len() as u32).map(SliceId).filter(|id| slices.kind[id.idx()].is_device_work());
    let is_here = |id: &SliceId| trace.track(slices.track_of(*id)).process == ledger.process;
    let edges = all.filter(is_here).flat_map(|id| [(slices.ts[id.idx()], 1), (slices.end[id.idx()], -1)]);
    let mut edges: Vec<(i64, i32)> = edges.collect();
    edges.sort_unstable();
    let (mut sum, mut depth, mut before) = (0, 0, 0);
    for (at, change) in edges {
        sum += if depth > 0 { at - before } else { 0 };
        (depth, before) = (depth + change, at);
    }
    sum
}

/// A range cut in two, even through a gap, has the same sums.
fn halves_sum_to_all(ledger: &Ledger) {
    if ledger.is_empty() {
        return;
    }
    let gap = ledger.gap(ledger.len() / 2).time;
    for middle in [ledger.window.start + ledger.window.dur() / 2, gap.start + gap.dur() / 3] {
        let halves = [TimeRange { start: i64::MIN, end: middle }, TimeRange { start: middle, end: i64::MAX }];
        let [first, second] = halves.map(|half| ledger.totals(half).by_class.map(|class| class.total_ns));
        let all = ledger.totals(TimeRange::ALL).by_class.map(|class| class.total_ns);
        assert_eq!(std::array::from_fn(|i| first[i] + second[i]), all);
    }
}

/// What of the oracle's answers leaves no choice.
#[derive(Default)]
struct Certain {
    class_ns: i64,
    all_ns: i64,
    triggers: u64,
}

fn ask_oracle(files: &[PathBuf]) -> Vec<Value> {
    let output = Command::new("python3").arg(project().join("tests/oracle/causes.py")).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares the gaps of a device with the oracle's.
fn compare(trace: &Trace, ledger: &Ledger, theirs: &Value, file: &str, wrong: &mut Vec<String>, certain: &mut Certain) {
    let gaps = theirs["gaps"].as_array().unwrap();
    let figures = [ledger.window.dur(), ledger.theta_ns, ledger.len() as i64];
    let expected = [&theirs["window_ns"], &theirs["theta_ns"]].map(|figure| figure.as_i64().unwrap());
    if figures != [expected[0], expected[1], gaps.len() as i64] {
        wrong.push(format!("{file}: window, theta, count {figures:?}, not {expected:?}, {}", gaps.len()));
        return;
    }
    let ids = |key: &str, theirs: &Value, slice: SliceId| {
        theirs[key].as_array().unwrap().iter().any(|name| name == trace.slice_name(slice))
    };
    // Lacuna counts from the first event.
    let zero = gaps.first().map_or(0, |first| first["start"].as_i64().unwrap() - ledger.gap(0).time.start);
    for (i, theirs) in gaps.iter().enumerate() {
        let gap = ledger.gap(i);
        let time = [gap.time.start + zero, gap.time.dur()];
        let problem = match () {
            () if ["start", "dur"].map(|key| theirs[key].as_i64().unwrap()) != time => "time".to_owned(),
            () if !ids("before", theirs, gap.after) || !ids("ended_by", theirs, gap.ended_by) => {
                "neighbours".to_owned()
            }
            () => causes(ledger, i, theirs, certain),
        };
        if !problem.is_empty() {
            wrong.push(format!("{file}: gap at {} of {} ns: {problem}", theirs["start"], theirs["dur"]));
        }
    }
}

/// What is wrong with the classes and the trigger of a gap.
fn causes(ledger: &Ledger, gap: usize, theirs: &Value, certain: &mut Certain) -> String {
    let classes = theirs["classes"].as_object().unwrap();
    let triggers = theirs["triggers"].as_array().unwrap();
    let mut sums: BTreeMap<&str, i64> = classes.keys().map(|class| (class.as_str(), 0)).collect();
    ledger.parts(gap).for_each(|part| *sums.entry(part.class.key()).or_default() += part.time.dur());
    let trigger = ledger.gap(gap).trigger.map(|trigger| trigger.key());
    certain.all_ns += ledger.gap(gap).time.dur();
    certain.triggers += u64::from(triggers.len() == 1);
    let mut wrong = Vec::new();
    let is_open = classes.contains_key("any");
    for (class, sum) in sums {
        let bound = |i: usize| classes.get(class).and_then(|bounds| bounds[i].as_i64()).unwrap_or_default();
        let (low, high) = (bound(0), bound(1));
        certain.class_ns += if is_open { 0 } else { low };
        if !is_open && (sum < low || sum > high) {
            wrong.push(format!("{class} is {sum} ns, not {low}..={high}"));
        }
    }
    if !triggers.iter().any(|known| known == "any" || known.as_str() == trigger) {
        wrong.push(format!("trigger {trigger:?} is none of {triggers:?}"));
    }
    wrong.join("; ")
}
