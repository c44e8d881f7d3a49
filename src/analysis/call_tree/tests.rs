use proptest::prelude::*;

use super::*;
use crate::model::time::length;
use crate::model::{FlowTable, TraceBuilder};

const PYTHON: SliceKind = SliceKind::PythonFunction;
const OP: SliceKind = SliceKind::Operator;
const CALL: SliceKind = SliceKind::Runtime;
const KERNEL: SliceKind = SliceKind::Kernel;
const NOTE: SliceKind = SliceKind::Annotation;

/// A module in a module with an operator in each, the backward pass of the inner one, and a kernel of unknown launch.
fn trace() -> Trace {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", PYTHON, "train.py(3): step", 0, 1_000),
        ("main", PYTHON, "nn.Module: Net_0", 100, 900),
        ("main", PYTHON, "nn.Module: Linear_1", 200, 600),
        ("main", OP, "aten::linear", 210, 500),
        ("main", OP, "aten::addmm", 220, 400),
        ("main", CALL, "cudaLaunchKernel", 300, 310),
        ("main", OP, "aten::relu", 700, 800),
        ("main", CALL, "cudaLaunchKernel", 710, 720),
        ("autograd", OP, "autograd::engine::evaluate_function: AddmmBackward0", 2_000, 2_500),
        ("autograd", OP, "AddmmBackward0", 2_100, 2_400),
        ("autograd", CALL, "cudaLaunchKernel", 2_200, 2_210),
        ("stream 7", KERNEL, "gemm", 400, 700),
        ("stream 7", KERNEL, "relu", 720, 740),
        ("stream 7", KERNEL, "gemm_dgrad", 2_300, 2_800),
        ("stream 7", KERNEL, "lost", 3_000, 3_007),
    ]);
    builder.slices[0].correlation = vec![0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 3, 1, 2, 3, 0];
    let name = builder.strings.intern("fwdbwd");
    let mut trace = builder.finish();
    let find =
        |name: &str| (0..trace.slices.len() as u32).map(SliceId).find(|&id| trace.slice_name(id) == name).unwrap();
    trace.flows = FlowTable::build(vec![(find("aten::linear"), find("AddmmBackward0"), name)]);
    trace
}

fn lines(rows: &[CallTotals]) -> Vec<String> {
    let line = |row: &CallTotals| {
        let CallTotals { name, calls, host_total_ns, host_self_ns, device_total_ns, device_self_ns, .. } = row;
        let indent = "  ".repeat(row.depth as usize);
        format!("{indent}{name} {calls} {host_total_ns} {host_self_ns} {device_total_ns} {device_self_ns}")
    };
    rows.iter().map(line).collect()
}

#[test]
fn modules_have_their_forward_and_backward_pass() {
    let trace = trace();
    let rows = call_tree(&Scope::whole(&[&trace]), Frames::Modules);
    let expected = [
        "Net_0 1 1300 400 820 20",
        "  Linear_1 1 900 400 800 300",
        "    (backward) 1 500 500 500 500",
        "(launch not recorded) 0 0 0 7 7",
        "(outside of modules) 0 200 200 0 0",
    ];
    assert_eq!(lines(&rows), expected);
    assert_eq!((rows[1].path.as_str(), rows[2].path.as_str()), ("Net_0", "Linear_1; Net_0"));
    assert_eq!(rows[2].instances.len(), 1);
    // In a range there are only rows of what runs in it.
    let ranges = Some(vec![TimeRange { start: 2_000, end: 3_000 }]);
    let rows = call_tree(&Scope { ranges, ..Scope::whole(&[&trace]) }, Frames::Modules);
    assert_eq!(lines(&rows), ["Net_0 0 500 0 500 0", "  Linear_1 0 500 0 500 0", "    (backward) 1 500 500 500 500"]);
}

#[test]
fn what_a_checkpoint_runs_again_is_in_its_backward_pass() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", PYTHON, "nn.Module: Net_0", 0, 500),
        ("main", OP, "CheckpointFunction", 100, 400),
        ("autograd", OP, "autograd::engine::evaluate_function: CheckpointFunctionBackward", 1_000, 2_000),
        ("autograd", OP, "CheckpointFunctionBackward", 1_000, 1_990),
        ("autograd", PYTHON, "torch/utils/checkpoint.py(9): backward", 1_100, 1_900),
        ("autograd", PYTHON, "nn.Module: Linear_0", 1_200, 1_400),
        ("autograd", OP, "aten::mm", 1_300, 1_350),
        ("autograd", OP, "autograd::engine::evaluate_function: MmBackward0", 1_500, 1_800),
    ]);
    let name = builder.strings.intern("fwdbwd");
    let mut trace = builder.finish();
    let find =
        |name: &str| (0..trace.slices.len() as u32).map(SliceId).find(|&id| trace.slice_name(id) == name).unwrap();
    trace.flows = FlowTable::build(vec![
        (find("CheckpointFunction"), find("CheckpointFunctionBackward"), name),
        (find("aten::mm"), find("autograd::engine::evaluate_function: MmBackward0"), name),
    ]);
    let rows = call_tree(&Scope::whole(&[&trace]), Frames::Modules);
    let expected = [
        "Net_0 1 1500 500 0 0",
        "  (backward) 1 1000 500 0 0",
        "    Linear_0 1 500 200 0 0",
        "      (backward) 1 300 300 0 0",
    ];
    assert_eq!(lines(&rows), expected);
}

#[test]
fn a_call_tree_has_every_frame_once() {
    let trace = trace();
    let rows = call_tree(&Scope::whole(&[&trace, &trace]), Frames::All);
    let expected = [
        "train.py(3): step 2 2000 400 640 0",
        "  nn.Module: Net_0 2 1600 600 640 0",
        "    nn.Module: Linear_1 2 800 220 600 0",
        "      aten::linear 2 580 220 600 0",
        "        aten::addmm 2 360 340 600 0",
        "          cudaLaunchKernel 2 20 20 600 600",
        "    aten::relu 2 200 180 40 0",
        "      cudaLaunchKernel 2 20 20 40 40",
    ];
    let found = lines(&rows);
    let main = found.iter().position(|line| line.starts_with("train.py")).unwrap();
    assert_eq!(found[main..main + 8], expected);
    assert_eq!(rows[main].instances.iter().map(|of| of.trace).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn operators_with_different_stacks_are_rows_of_their_own() {
    let trace = trace();
    let rows = operators_by_stack(&Scope::whole(&[&trace]));
    let found: Vec<_> =
        rows.iter().map(|row| (row.name.as_str(), row.path.as_str(), row.host_total_ns, row.device_total_ns)).collect();
    let expected = [
        (
            "autograd::engine::evaluate_function: AddmmBackward0",
            "(backward); nn.Module: Linear_1; nn.Module: Net_0; train.py(3): step",
            500,
            500,
        ),
        ("aten::linear", "nn.Module: Linear_1; nn.Module: Net_0; train.py(3): step", 290, 300),
        ("aten::relu", "nn.Module: Net_0; train.py(3): step", 100, 20),
    ];
    assert_eq!(found, expected);
}

#[test]
fn device_work_is_below_what_launched_it() {
    let trace = trace();
    let traces = [&trace];
    let (tree, threads) = time_flame(&Scope::whole(&traces), Frames::Operators, Weigh::Device, Threads::All);
    let expected = "autograd::engine::evaluate_function: AddmmBackward0;AddmmBackward0;gemm_dgrad 500\n\
        aten::linear;aten::addmm;gemm 300\naten::relu;relu 20\n(launch not recorded);lost 7\n";
    assert_eq!(tree.folded(|text| text.into()), expected);
    assert_eq!(threads.iter().map(|thread| thread.weight).collect::<Vec<_>>(), [500, 320]);
    let main = Threads::One(0, threads[1].track);
    let (tree, _) = time_flame(&Scope::whole(&traces), Frames::All, Weigh::Device, main);
    assert_eq!(tree.total(), 320);
    assert!(!tree.folded(|text| text.into()).contains("cudaLaunchKernel"));
}

#[test]
fn a_range_has_its_times_and_the_whole_ones_beside_them() {
    let trace = TraceBuilder::from_slices(&[
        ("main", PYTHON, "train.py(3): step", 0, 100),
        ("main", SliceKind::Operator, "aten::a", 10, 40),
        ("main", SliceKind::Operator, "aten::b", 50, 90),
        ("main", PYTHON, "train.py(3): step", 200, 230),
    ])
    .finish();
    let traces = [&trace];
    let scope = |start, end| Scope { ranges: Some(vec![TimeRange { start, end }]), ..Scope::whole(&traces) };
    let (tree, _) = time_flame(&scope(30, 60), Frames::All, Weigh::Host, Threads::All);
    let nodes = |tree: &FlameTree| {
        let name = |i: usize| if i == 0 { String::new() } else { tree.name(i as u32).to_owned() };
        let row = |i: usize| (name(i), tree.nodes[i].total, tree.nodes[i].own, tree.full[i]);
        (0..tree.nodes.len()).map(row).collect::<Vec<_>>()
    };
    let row = |name: &str, total, own, full: [i64; 2]| (name.to_owned(), total, own, full);
    let expected = [
        row("", 30, 0, [0, 100]),
        // Of its own 100 ns 30 are in no operator.
        row("train.py(3): step", 30, 10, [30, 100]),
        row("aten::a", 10, 10, [30, 30]),
        row("aten::b", 10, 10, [40, 40]),
    ];
    assert_eq!(nodes(&tree), expected);
    let inverted = nodes(&tree.inverted(&|| false));
    let own: Vec<_> = inverted.iter().filter(|node| node.1 > 0).map(|node| (&*node.0, node.1, node.3[1])).collect();
    assert_eq!(own[0], ("", 30, 100));
    assert!(own.contains(&("aten::b", 10, 40)) && own.contains(&("train.py(3): step", 10, 30)), "{own:?}");
    let hot: Vec<_> = tree.hottest().into_iter().map(|frame| (frame.own, frame.full)).collect();
    assert_eq!(hot, [(10, 100), (10, 30), (10, 40)]);
    let whole = time_flame(&Scope::whole(&traces), Frames::All, Weigh::Host, Threads::All).0;
    assert!(whole.full.is_empty() && whole.inverted(&|| false).full.is_empty());
}

#[test]
fn names_of_ranges() {
    let all = |kind, text: &'static str| {
        [Frames::All, Frames::Operators, Frames::Modules].map(|frames| frame_name(frames, Weigh::Host, kind, text))
    };
    let nvtx = "aten::addmm, seq = 12, op_id = 3, sizes = [[2, 3]]";
    assert_eq!(all(NOTE, nvtx), [Some("aten::addmm"), Some("aten::addmm"), None]);
    assert_eq!(all(NOTE, "Model/layer1/conv"), [Some("Model/layer1/conv"), None, Some("Model/layer1/conv")]);
    assert_eq!(all(NOTE, "ProfilerStep#12"), [Some("ProfilerStep"), None, None]);
    assert_eq!(all(PYTHON, "nn.Module: ReLU_3"), [Some("nn.Module: ReLU_3"), None, Some("ReLU_3")]);
    assert_eq!(all(CALL, "cudaMalloc"), [Some("cudaMalloc"), None, None]);
    assert_eq!(frame_name(Frames::All, Weigh::Device, CALL, "cudaMalloc"), None);
}

#[test]
fn a_cancelled_answer_is_incomplete() {
    let trace = trace();
    let traces = [&trace];
    let scope = Scope { is_cancelled: &|| true, ..Scope::whole(&traces) };
    assert_eq!(time_flame(&scope, Frames::All, Weigh::Host, Threads::All).0.total(), 0);
    assert!(call_tree(&scope, Frames::Modules).is_empty());
}

proptest! {
    #[test]
    fn host_time_sums_to_the_union_and_device_time_to_the_work(
        host in prop::collection::vec((0_i64..200, 0_i64..60, 0_usize..4, 0_usize..2), 1..60),
        device in prop::collection::vec((0_i64..300, 0_i64..40, 0_u32..80), 0..30), cut in 0_i64..260,
    ) {
        let kinds = [(PYTHON, "nn.Module: A_0"), (OP, "op"), (CALL, "call"), (NOTE, "range")];
        let tracks = ["main", "other"];
        let mut slices: Vec<_> = host.iter()
            .map(|&(ts, dur, kind, track)| (tracks[track], kinds[kind].0, kinds[kind].1, ts, ts + dur)).collect();
        slices.extend(device.iter().map(|&(ts, dur, _)| ("stream 7", KERNEL, "k", ts, ts + dur)));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation =
            (1..=host.len() as u32).chain(device.iter().map(|work| work.2)).collect();
        let trace = builder.finish();
        let traces = [&trace];
        let union: i64 = (0..2).map(|track| {
            let of_track = host.iter().filter(|slice| slice.3 == track);
            let mut spans: Vec<_> =
                of_track.map(|&(ts, dur, ..)| TimeRange { start: ts, end: ts + dur }).collect();
            unite(&mut spans);
            length(&spans)
        }).sum();
        let work: i64 = device.iter().map(|work| work.1).sum();
        for frames in [Frames::All, Frames::Operators, Frames::Modules, Frames::Stacks] {
            for (weigh, expected) in [(Weigh::Host, union), (Weigh::Device, work)] {
                let total = |range: Option<TimeRange>| {
                    let scope = Scope { ranges: range.map(|range| vec![range]), ..Scope::whole(&traces) };
                    time_flame(&scope, frames, weigh, Threads::All).0.total()
                };
                prop_assert_eq!(total(None), expected);
                let parts = [(i64::MIN, cut), (cut, i64::MAX)].map(|(start, end)| total(Some(TimeRange { start, end })));
                prop_assert_eq!(parts[0] + parts[1], expected);
            }
            let rows = call_tree(&Scope::whole(&traces), frames);
            prop_assert_eq!(rows.iter().map(|row| row.host_self_ns).sum::<i64>(), union);
            prop_assert_eq!(rows.iter().map(|row| row.device_self_ns).sum::<i64>(), work);
            let outermost = rows.iter().filter(|row| row.depth == 0);
            prop_assert_eq!(outermost.map(|row| row.host_total_ns).sum::<i64>(), union);
        }
    }
}

/// Slices of a thread that nest: each divides a time into a part before it, its own, and the rest, and so on inside.
fn nested(cuts: &[(u8, u8, u8)], time: TimeRange, out: &mut Vec<(usize, i64, i64)>) {
    let Some((&(before, dur, name), rest)) = cuts.split_first().filter(|_| time.dur() > 1) else { return };
    let start = time.start + i64::from(before) % time.dur();
    let end = start + i64::from(dur) % (time.end - start + 1);
    out.push((usize::from(name) % 3, start, end));
    let (inside, after) = rest.split_at(rest.len() / 2);
    nested(inside, TimeRange { start, end }, out);
    nested(after, TimeRange { start: end, ..time }, out);
}

proptest! {
    /// Against a look at every nanosecond of the range.
    #[test]
    fn a_range_has_what_is_open_in_it_and_the_work_that_runs_in_it(
        cuts in prop::collection::vec((0_u8..40, 0_u8..90, 0_u8..9), 1..12),
        device in prop::collection::vec((0_i64..150, 1_i64..30, 0_usize..12), 0..8),
        (start, dur) in (-5_i64..110, 1_i64..80),
    ) {
        let names = [(PYTHON, "a.py(1): f"), (OP, "aten::op"), (CALL, "cudaLaunchKernel")];
        let mut host = Vec::new();
        nested(&cuts, TimeRange { start: 0, end: 100 }, &mut host);
        // The launch of each kernel is a slice of the host, whatever it is called.
        let device: Vec<_> = device.into_iter().map(|(ts, dur, of)| (ts, ts + dur, of % host.len())).collect();
        let mut slices: Vec<_> =
            host.iter().map(|&(name, ts, end)| ("main", names[name].0, names[name].1, ts, end)).collect();
        slices.extend(device.iter().map(|&(ts, end, _)| ("stream 7", KERNEL, "k", ts, end)));
        let mut builder = TraceBuilder::from_slices(&slices);
        let n = host.len();
        builder.slices[0].correlation =
            (1..=n as u32).chain(device.iter().map(|work| work.2 as u32 + 1)).collect();
        let trace = builder.finish();
        let traces = [&trace];
        let range = TimeRange { start, end: start + dur };
        let scope = Scope { ranges: Some(vec![range]), ..Scope::whole(&traces) };
        let folded = |weigh| -> std::collections::BTreeMap<String, i64> {
            let (tree, _) = time_flame(&scope, Frames::All, weigh, Threads::All);
            let text = tree.folded(|text| text.into());
            let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
            lines.map(|(path, ns)| (path.to_owned(), ns.parse().unwrap())).collect()
        };
        let mut expected = std::collections::BTreeMap::new();
        for ts in range.start..range.end {
            let open: Vec<&str> = host.iter().filter(|of| of.1 <= ts && ts < of.2).map(|of| names[of.0].1).collect();
            if !open.is_empty() {
                *expected.entry(open.join(";")).or_insert(0) += 1;
            }
        }
        prop_assert_eq!(folded(Weigh::Host), expected);
        // Slices without length may be inside of those that begin or end there: the launches of work have one.
        let launches = |of: usize| names[host[of].0].0 == CALL && host[of].1 < host[of].2;
        if device.iter().all(|&(.., of)| launches(of)) {
            let mut expected = std::collections::BTreeMap::new();
            for &(ts, end, of) in &device {
                let at = host[of].1;
                let around = host[..=of].iter().filter(|other| other.1 <= at && host[of].2 <= other.2 && at < other.2);
                let frames = around.filter(|of| names[of.0].0 != CALL).map(|of| names[of.0].1);
                let path: Vec<&str> = frames.chain(["k"]).collect();
                let time = TimeRange { start: ts, end }.intersect(range).map_or(0, TimeRange::dur);
                if time > 0 {
                    *expected.entry(path.join(";")).or_insert(0) += time;
                }
            }
            prop_assert_eq!(folded(Weigh::Device), expected);
        }
    }
}

#[test]
fn steps_are_one_frame_and_their_calls_are_counted() {
    let of = |names: [&str; 3], kind: SliceKind| {
        let slices: Vec<_> = names
            .iter()
            .zip([0, 1_000, 2_000])
            .flat_map(|(&name, ts)| [("main", kind, name, ts, ts + 900), ("main", OP, "aten::mm", ts + 100, ts + 300)])
            .collect();
        let trace = TraceBuilder::from_slices(&slices).finish();
        let (tree, _) = time_flame(&Scope::whole(&[&trace]), Frames::All, Weigh::Host, Threads::All);
        assert_eq!(tree.total(), 2_700);
        let frame = |i: usize| (tree.name(i as u32).to_owned(), tree.calls[i], tree.nodes[i].total);
        (1..tree.nodes.len()).map(frame).collect::<Vec<_>>()
    };
    let folded = |name: &str| vec![(name.to_owned(), 3, 2_700), ("aten::mm".to_owned(), 3, 600)];
    // PyTorch before 1.11 wrote them as operators.
    for kind in [NOTE, OP] {
        assert_eq!(of(["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"], kind), folded("ProfilerStep"));
    }
    assert_eq!(of(["iteration 9", "iteration 10", "iteration 11"], NOTE), folded("iteration"));
    assert_eq!(of(["train_step_1", "train_step_2", "train_step_3"], NOTE), folded("train_step"));
    assert_eq!(of(["layer 1", "layer 2", "layer 3"], NOTE).len(), 6, "parts of a model are not steps");
}

#[test]
fn threads_that_only_wait_are_told_apart_and_all_sum_to_the_whole() {
    let os = SliceKind::Os;
    let trace = TraceBuilder::from_slices(&[
        ("main", PYTHON, "train.py(3): step", 0, 1_000),
        ("main", CALL, "cudaLaunchKernel", 100, 110),
        ("monitor", PYTHON, "threading.py(359): wait", 0, 5_000),
        ("pool", os, "pthread_cond_wait", 0, 2_990),
        ("pool", os, "ioctl", 2_990, 3_000),
        ("reader", os, "epoll_wait", 0, 900),
        ("reader", os, "read", 900, 1_000),
        ("stream 7", KERNEL, "gemm", 400, 700),
    ])
    .finish();
    let one = [&trace];
    let scope = Scope::whole(&one);
    let total = |threads| time_flame(&scope, Frames::All, Weigh::Host, threads).0.total();
    let (tree, threads) = time_flame(&scope, Frames::All, Weigh::Host, Threads::Working);
    assert_eq!(tree.total(), 2_000, "what reads a tenth of its time works");
    let waiting: i64 = threads.iter().filter(|thread| thread.waits).map(|thread| thread.weight).sum();
    assert_eq!((waiting, total(Threads::All)), (8_000, 10_000));
    let monitor = threads.iter().find(|thread| thread.weight == 5_000).unwrap();
    assert_eq!(total(Threads::One(0, monitor.track)), 5_000, "alone it is on show");
    // Nothing is left out where nothing works.
    let idle = TraceBuilder::from_slices(&[("monitor", PYTHON, "threading.py(359): wait", 0, 5_000)]).finish();
    let one = [&idle];
    assert_eq!(time_flame(&Scope::whole(&one), Frames::All, Weigh::Host, Threads::Working).0.total(), 5_000);
}
