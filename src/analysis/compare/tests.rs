//! Two small recordings whose differences are known by hand.

use super::verdict::are_alike;
use super::*;
use crate::analysis::busy::{DeviceBusy, devices};
use crate::analysis::phases::{Phases, phases};
use crate::analysis::rules::Verdicts;
use crate::analysis::rules::tests::judged;
use crate::analysis::steps::{PROFILER_STEP, StepSource, Steps, steps};
use crate::model::{DeviceInfo, SliceKind, Trace, TraceBuilder};

const US: i64 = 1_000;
const LOADER: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
const MS: i64 = 1_000 * US;

/// Steps of these lengths, in each of which the device runs these kernels one after the other from its start on.
pub fn training(lengths: &[i64], kernels: &[(&str, i64)]) -> Trace {
    named(PROFILER_STEP, lengths, kernels)
}

fn named(step: &str, lengths: &[i64], kernels: &[(&str, i64)]) -> Trace {
    of_kind(SliceKind::Kernel, step, lengths, kernels)
}

fn of_kind(work: SliceKind, step: &str, lengths: &[i64], kernels: &[(&str, i64)]) -> Trace {
    trace_of((work, step, "aten::mm"), lengths, kernels)
}

/// With calls of this operator.
fn of_kinds(operator: &str, lengths: &[i64], kernels: &[(&str, i64)]) -> Trace {
    trace_of((SliceKind::Kernel, PROFILER_STEP, operator), lengths, kernels)
}

fn trace_of((work, step, operator): (SliceKind, &str, &str), lengths: &[i64], kernels: &[(&str, i64)]) -> Trace {
    let names: Vec<String> = (0..lengths.len()).map(|i| format!("{step}{i}")).collect();
    let (mut slices, mut at) = (Vec::new(), 0);
    // PyTorch 1.8 records them as operators.
    let kind = if step == PROFILER_STEP { SliceKind::Operator } else { SliceKind::Annotation };
    for (name, length) in names.iter().zip(lengths) {
        slices.push(("main", kind, name.as_str(), at, at + length));
        slices.push(("main", SliceKind::Operator, operator, at, at + length / 10));
        let mut end = at;
        for &(kernel, ns) in kernels {
            slices.push(("stream 7", work, kernel, end, end + ns));
            end += ns;
        }
        at += length;
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.info.devices.push(DeviceInfo { id: 0, name: "H100".to_owned(), ..DeviceInfo::default() });
    builder.finish()
}

/// Eight steps without a device, which call these operators one after the other, each for so long.
pub fn host(operators: &[(&str, i64)]) -> Trace {
    let length: i64 = operators.iter().map(|operator| operator.1).sum();
    let names: Vec<String> = (0..8).map(|step| format!("{PROFILER_STEP}{step}")).collect();
    let mut slices = Vec::new();
    for (step, name) in (0..).zip(&names) {
        let mut at = step * length;
        slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + length));
        for &(operator, ns) in operators {
            slices.push(("main", SliceKind::Operator, operator, at, at + ns));
            at += ns;
        }
    }
    TraceBuilder::from_slices(&slices).finish()
}

/// Compares, and checks that all parts sum to their wholes.
pub fn compared(before: &Trace, after: &Trace) -> Compared {
    struct Found<'a>(&'a Trace, Option<Steps>, Vec<DeviceBusy>, Verdicts, Phases);
    let [before, after] = [before, after].map(|trace| {
        let phases = phases(trace, &|| false);
        let found = Found(trace, steps(trace, &|| false), devices(trace), judged(trace, None), phases);
        assert_eq!(found.3.windows.len(), 1, "one device is judged");
        found
    });
    let sides = [&before, &after].map(|Found(trace, steps, busy, verdicts, phases)| Side {
        trace,
        steps: steps.as_ref(),
        window: &verdicts.windows[0],
        busy: busy.first(),
        makeup: verdicts.makeups.first(),
        phases,
        is_compiled: verdicts.run.is_compiled,
    });
    let all = compare(&sides[0], &sides[1], &|| false);
    for (i, side) in sides.iter().enumerate() {
        let total = |wanted: fn(&TimePart) -> bool| {
            all.times.iter().filter(|time| wanted(&time.0)).map(|time| time.1.total_ns[i]).sum::<DurNs>()
        };
        let whole = total(|part| matches!(part, TimePart::Step | TimePart::Judged));
        assert_eq!(whole, side.window.time.dur());
        let parts = total(|part| !matches!(part, TimePart::Step | TimePart::Judged | TimePart::IdleBy(_)));
        let has_parts = all.times.len() > 1;
        assert_eq!(parts, if has_parts { whole } else { 0 }, "the parts of a step");
        assert_eq!(
            total(|part| *part == TimePart::Idle),
            total(|part| matches!(part, TimePart::IdleBy(_))),
            "its causes"
        );
    }
    all
}

fn of(all: &Compared, part: TimePart) -> Change {
    all.times.iter().find(|time| time.0 == part).unwrap().1
}

#[test]
fn steps_are_faster_beyond_the_interval_of_both() {
    // The first step and the profiler's last do not count.
    let before = training(&[50 * MS, 10 * MS, 11 * MS, 9 * MS, 10 * MS, 30 * MS], &[("a", 4 * MS), ("b", MS)]);
    let after =
        training(&[50 * MS, 8 * MS, 8_500 * US, 7_500 * US, 8 * MS, 30 * MS], &[("a", 2 * MS), ("c", 1_500 * US)]);
    let all = compared(&before, &after);
    assert_eq!((all.has_steps, all.verdict.clone()), (true, Verdict::Faster));
    let step = of(&all, TimePart::Step);
    assert_eq!(
        (step.n, step.per_step(), step.difference(), step.share()),
        ([4, 4], [10 * MS, 8 * MS], -2 * MS, Some(-0.2))
    );
    // Variances of 2/3 and 1/6 ms², so an error of √(5/24) ms, with 4.41 degrees of freedom: 4 of them give 2.776445.
    let margin = 2.776_445 * (5.0_f64 / 24.0).sqrt() * MS as f64;
    assert!((step.margin_ns.unwrap() as f64 - margin).abs() < 1.0, "{:?} {margin}", step.margin_ns);
    assert_eq!(of(&all, TimePart::Compute).per_step(), [5 * MS, 3_500 * US]);
    assert_eq!(of(&all, TimePart::Compute).margin_ns, Some(0), "it is the same in all steps");
    assert_eq!(of(&all, TimePart::Idle).difference(), -500 * US);
    let tenfold = |after| Change { total_ns: [MS, after], n: [1, 1], margin_ns: None }.share();
    assert_eq!([10 * MS, 10 * MS + 1].map(tenfold), [Some(9.0), None]);
    let work: Vec<_> = all.work.iter().map(|one| (one.name.as_str(), one.calls, one.time.difference())).collect();
    assert_eq!(work, [("a", [4, 4], -2 * MS), ("c", [0, 4], 1_500 * US), ("b", [4, 0], -MS)]);
    let mm = all.operators.iter().find(|one| one.name == "aten::mm").unwrap();
    assert_eq!((mm.calls, mm.host_self.per_step()), ([4, 4], [MS, 800 * US]));
    let step = all.operators.iter().find(|one| one.name == PROFILER_STEP);
    assert!(step.is_some_and(|step| step.calls == [4, 4]), "steps are one row, whatever their numbers");
}

#[test]
fn what_is_within_the_noise_is_no_difference() {
    let steady = |ns| training(&[ns; 8], &[("a", 4 * MS)]);
    let verdict = |after| compared(&steady(10 * MS), &steady(after)).verdict;
    // All steps are the same: then 2 % are the noise.
    assert_eq!([10 * MS, 10_200 * US, 9_800 * US].map(verdict), [const { Verdict::Same }; 3]);
    assert_eq!([10_201 * US, 9_799 * US].map(verdict), [Verdict::Slower, Verdict::Faster]);
    // Steps of 5 and 15 ms on either side.
    let uneven = |more: i64| training(&[5, 5, 15, 5, 15, 5, 15, 5].map(|ms| ms * MS + more), &[("a", 4 * MS)]);
    assert_eq!(compared(&uneven(0), &uneven(2 * MS)).verdict, Verdict::Same);
}

#[test]
fn nothing_is_said_where_the_two_cannot_be_compared() {
    let kernels = [("a", 4 * MS)];
    let verdict = |before: &Trace, after: &Trace| compared(before, after).verdict;
    let usual = training(&[10 * MS; 8], &kernels);
    let mut other = training(&[5 * MS; 8], &kernels);
    other.info.devices[0].name = "A100".to_owned();
    assert_eq!(verdict(&usual, &other), Verdict::Unknown(Unknown::OtherDevice(["H100", "A100"].map(str::to_owned))));
    let epochs = named("epoch ", &[20 * MS; 8], &kernels);
    let by = ["ProfilerStep annotations", "ranges named epoch #"].map(str::to_owned);
    assert_eq!(verdict(&usual, &epochs), Verdict::Unknown(Unknown::OtherSteps(by)));
    // Steps of other kernels and operators are of another program; with the same operators all kernels may be of a
    // change.
    let other = |operator| of_kinds(operator, &[10 * MS; 8], &[("a", MS), ("z", 4 * MS)]);
    let before = training(&[9 * MS; 8], &[("a", 4 * MS), ("b", MS)]);
    assert_eq!(verdict(&before, &other("aten::conv2d")), Verdict::Unknown(Unknown::OtherWork(0.2)));
    assert_eq!(verdict(&before, &other("aten::mm")), Verdict::Slower);
    let before = training(&[9 * MS; 8], &[("a", 4 * MS), ("b", MS), ("z", MS)]);
    assert_eq!(verdict(&before, &other("aten::conv2d")), Verdict::Slower);
    // Kernels that do not repeat.
    let lengths: Vec<(String, i64)> =
        (1..9).map(|i| (format!("kernel of layer {}", "x".repeat(i)), i as i64 * MS)).collect();
    let once = lengths.iter().map(|(name, ns)| (name.as_str(), *ns));
    let kernels: Vec<(&str, i64)> = once.chain([("a", 40 * MS)]).collect();
    let without = named("all", &[80 * MS], &kernels);
    let all = compared(&usual, &without);
    assert_eq!((all.has_steps, all.verdict.clone()), (false, Verdict::Unknown(Unknown::FewSteps)));
    assert_eq!(of(&all, TimePart::Judged).n, [1, 1], "all judged time is compared");
}

#[test]
fn another_batch_size_and_compiled_code_make_no_other_program() {
    let of = |operator, kernels: &[(&str, i64)]| of_kinds(operator, &[9 * MS; 8], kernels);
    // Of another size of the batch, libraries choose other tiles.
    let small = of("aten::mm", &[("ampere_sgemm_128x64_tn", 4 * MS), ("copy", MS)]);
    let large = of("aten::addmm", &[("ampere_sgemm_64x32_tn", 4 * MS), ("copy", MS)]);
    assert_eq!(compared(&small, &large).verdict, Verdict::Same);
    let other = of("aten::addmm", &[("sm80_xmma_fprop", 4 * MS), ("copy", MS)]);
    assert_eq!(compared(&small, &other).verdict, Verdict::Unknown(Unknown::OtherWork(0.2)));
    // Compiled code has operators and kernels of its own, which tell nothing of the program.
    let fused = [("triton_poi_fused_gelu_0", 4 * MS)];
    let compiled = of("Torch-Compiled Region: 0/0", &fused);
    let all = compared(&small, &compiled);
    assert_eq!((all.has_compiled, all.verdict), (true, Verdict::Same));
    let both = compared(&compiled, &of("Torch-Compiled Region: 0/1", &[("triton_red_fused_sum_1", 4 * MS)]));
    assert_eq!((both.has_compiled, both.verdict), (false, Verdict::Unknown(Unknown::OtherWork(0.0))));
}

#[test]
fn what_is_after_a_wait_is_told_of_its_cause() {
    // The loader takes 3 ms or 5 ms of each step, in the first of which the device still works, and the host is slow
    // for 1 ms after it: it lost the lead with which the device would not wait then.
    let training = |loads: i64| {
        let names: Vec<String> = (0..8).map(|step| format!("{PROFILER_STEP}{step}")).collect();
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (i, name) in (0..).zip(&names) {
            let at = 10 * MS * i;
            let (ready, kernel) = (at + loads * MS, SliceKind::Kernel);
            let call = |at| ("main", SliceKind::Runtime, "cudaLaunchKernel", at, at + 10 * US);
            slices.extend([
                ("main", SliceKind::Annotation, name.as_str(), at, at + 10 * MS),
                ("main", SliceKind::Annotation, LOADER, at, ready),
                call(ready),
                ("main", SliceKind::Operator, "aten::mm", ready + 10 * US, ready + MS),
                call(ready + MS),
                ("stream 7", kernel, "a", ready + 20 * US, ready + 120 * US),
                ("stream 7", kernel, "b", ready + MS + 20 * US, at + 11 * MS),
            ]);
            let id = 2 * i as u32;
            correlation.extend([0, 0, id + 1, 0, id + 2, id + 1, id + 2]);
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        builder.finish()
    };
    let all = compared(&training(3), &training(5));
    let data = of(&all, TimePart::IdleBy(Cause::DataLoading));
    let lead = all.leads.iter().find(|lead| lead.0 == Cause::DataLoading).map(|lead| lead.1);
    assert_eq!(data.difference(), 2 * MS, "{:?}", all.times);
    // In the 6 steps 2 ms and 4 ms each in the loader; the rest is after it.
    let lead = lead.unwrap().total_ns;
    assert_eq!([0, 1].map(|i| data.total_ns[i] - lead[i]), [6 * 2 * MS, 6 * 4 * MS], "{:?}", all.times);
    assert!(lead[0] > 0, "{:?}", all.leads);
}

#[test]
fn without_kernels_operators_tell_whether_programs_are_alike() {
    let of = |operators: &[&str]| {
        let names: Vec<String> = (0..8).map(|step| format!("{PROFILER_STEP}{step}")).collect();
        let mut slices = Vec::new();
        for (at, name) in (0..).step_by(10 * MS as usize).zip(&names) {
            slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 10 * MS));
            let calls = operators
                .iter()
                .zip(0..)
                .map(|(operator, i)| ("main", SliceKind::Operator, *operator, at + i * MS, at + (i + 1) * MS));
            slices.extend(calls);
        }
        TraceBuilder::from_slices(&slices).finish()
    };
    let before = of(&[LOADER, "b", "c", "d", "e"]);
    assert_eq!(
        compared(&before, &of(&[LOADER, "b", "x", "y", "z"])).verdict,
        Verdict::Unknown(Unknown::OtherOperators(0.4))
    );
    assert_eq!(compared(&before, &of(&[LOADER, "b", "c", "y", "z"])).verdict, Verdict::Same);
    // An optimizer of one call for each parameter, and one that takes all at once: nothing else is called than before.
    let each = of(&[&[LOADER, "b", "c", "d"][..], &["mul_"; 6]].concat());
    assert_eq!(compared(&each, &of(&[LOADER, "b", "c", "d"])).verdict, Verdict::Same);
    // As little of the same beside something else, or beside much more.
    let other = Verdict::Unknown(Unknown::OtherOperators(0.4));
    assert_eq!(compared(&each, &of(&[LOADER, "b", "c", "d", "x", "y"])).verdict, other);
    let few = compared(&each, &of(&[LOADER, "b"])).verdict;
    assert_eq!(few, Verdict::Unknown(Unknown::OtherOperators(0.2)));
}

#[test]
fn steps_of_a_host_are_taken_apart_by_phases() {
    let of = |loads: i64| host(&[(LOADER, loads * MS), ("a", 4 * MS), ("b", 2 * MS)]);
    let all = compared(&of(5), &of(1));
    assert_eq!(all.verdict, Verdict::Faster);
    let times: Vec<_> = all.times.iter().map(|(part, change)| (*part, change.per_step(), change.margin_ns)).collect();
    let expected = [
        (TimePart::Step, [11 * MS, 7 * MS], Some(0)),
        (TimePart::Host(Phase::DataLoading), [5 * MS, MS], Some(0)),
        (TimePart::Host(Phase::Other), [6 * MS, 6 * MS], Some(0)),
    ];
    assert_eq!(times, expected);
    // That all of a step is of no known phase says nothing.
    let all = compared(&host(&[("a", 4 * MS)]), &host(&[("a", 5 * MS)]));
    assert_eq!(all.times.len(), 1, "{:?}", all.times);
}

#[test]
fn what_repeats_is_alike_unless_it_is_several_times_as_long() {
    let period = |items, length| StepSource::Period { items, length, share: 1.0 };
    let alike = |a: usize, b: usize| are_alike(&period("operators", a), &period("operators", b));
    assert_eq!(
        [alike(100, 100), alike(60, 100), alike(100, 51), alike(100, 50), alike(4, 1_832)],
        [true, true, true, false, false]
    );
    assert!(!are_alike(&period("operators", 9), &period("collectives", 9)));
}

#[test]
fn kernels_of_two_builds_are_one_whatever_the_types_of_their_parameters() {
    let kernel =
        |base: &str| format!("void ew<4, relu(at::TensorIterator{base}&)::{{lambda(float)#1}}, (int)2>(int, A)");
    let [before, after] = [kernel(""), kernel("Base")].map(|name| training(&[10 * MS; 8], &[(&name, 2 * MS)]));
    let all = compared(&before, &after);
    let work: Vec<_> = all.work.iter().map(|one| (one.name.as_str(), one.calls, one.time.difference())).collect();
    assert_eq!(work, [("void ew<4, relu::{lambda#1}, 2>", [6, 6], 0)]);
}

#[test]
fn kernels_are_not_compared_with_graphs_of_them() {
    let kernels = training(&[10 * MS; 8], &[("a", 4 * MS), ("b", MS)]);
    let graphs = of_kind(SliceKind::CudaGraph, PROFILER_STEP, &[8 * MS; 8], &[("graph", 4 * MS)]);
    let all = compared(&kernels, &graphs);
    assert_eq!((all.has_whole_graphs, all.verdict), (true, Verdict::Faster));
}
