use proptest::prelude::*;

use super::*;
use crate::model::TraceBuilder;

const NOTE: SliceKind = SliceKind::Annotation;
const OP: SliceKind = SliceKind::Operator;
const PYTHON: SliceKind = SliceKind::PythonFunction;
const CALL: SliceKind = SliceKind::Runtime;

type Named<'a> = (&'a str, SliceKind, &'a str, TimeNs, TimeNs);

fn found(slices: &[Named<'_>]) -> Vec<(Phase, TimeNs, TimeNs)> {
    let trace = TraceBuilder::from_slices(slices).finish();
    let tiles = phases(&trace, &|| false).tiles;
    tiles.into_iter().map(|tile| (tile.phase, tile.time.start, tile.time.end)).collect()
}

const ENGINE: &str = "autograd::engine::evaluate_function: AddmmBackward0";

/// One step of PyTorch, 1000 ns long.
fn step(at: TimeNs) -> Vec<Named<'static>> {
    let slices = [
        ("main", NOTE, "ProfilerStep#1", 0, 1_000),
        ("main", NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 100),
        ("main", OP, "aten::stack", 20, 90),
        ("main", OP, "aten::to", 110, 150),
        ("main", CALL, "cudaMemcpyAsync", 120, 140),
        ("main", OP, "aten::linear", 160, 300),
        ("main", CALL, "cudaLaunchKernel", 170, 180),
        ("main", OP, "aten::mse_loss", 320, 400),
        ("autograd", OP, ENGINE, 420, 500),
        ("autograd", CALL, "cudaLaunchKernel", 430, 440),
        ("autograd", OP, ENGINE, 510, 600),
        ("autograd", OP, "nccl:all_reduce", 600, 620),
        ("autograd", OP, "aten::add_", 625, 635),
        ("autograd", OP, ENGINE, 640, 700),
        ("main", NOTE, "Optimizer.step#SGD.step", 720, 900),
        ("main", OP, "aten::_foreach_add_", 730, 890),
        ("pin memory", NOTE, "forward", 0, 1_000),
    ];
    slices.into_iter().map(|(thread, kind, name, start, end)| (thread, kind, name, at + start, at + end)).collect()
}

#[test]
fn the_phases_of_a_step_of_pytorch() {
    use Phase::{Backward, Communication, Copies, DataLoading, Forward, Optimizer};
    let expected = |at: TimeNs| {
        [
            (DataLoading, 10, 100),
            (Copies, 110, 150),
            // From the first operator that launches to the backward pass.
            (Forward, 160, 420),
            (Backward, 420, 600),
            (Communication, 600, 620),
            (Backward, 620, 700),
            (Optimizer, 720, 900),
        ]
        .map(|(phase, start, end)| (phase, at + start, at + end))
    };
    let slices: Vec<_> = step(0).into_iter().chain(step(1_000)).collect();
    assert_eq!(found(&slices), [expected(0), expected(1_000)].concat());
    let trace = TraceBuilder::from_slices(&slices).finish();
    let phases = phases(&trace, &|| false);
    let times = phases.within(TimeRange { start: 50, end: 1_000 });
    assert_eq!(times, [50, 260, 260, 180, 40, 20, 0, 140]);
    assert_eq!(
        [5, 10, 99, 100, 619].map(|ts| phases.at(ts)),
        [Phase::Other, DataLoading, DataLoading, Phase::Other, Communication]
    );
}

#[test]
fn what_python_computes_for_long_is_in_no_pass() {
    const MS: TimeNs = 1_000_000;
    // Between the forward pass and the loss the program works in Python for so long.
    let of = |pause: TimeNs| {
        let slices = [
            ("main", NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, MS),
            ("main", OP, "aten::linear", MS, 2 * MS),
            ("main", PYTHON, "train.py(7): score", 2 * MS, 2 * MS + pause),
            ("main", OP, "aten::mse_loss", 2 * MS + pause, 3 * MS + pause),
            ("autograd", OP, ENGINE, 3 * MS + pause, 4 * MS + pause),
        ];
        found(&slices).into_iter().filter(|tile| tile.0 == Phase::Forward).map(|tile| tile.2 - tile.1).collect()
    };
    let [short, long]: [Vec<TimeNs>; 2] = [SILENT - 1, SILENT].map(of);
    assert_eq!((short, long), (vec![2 * MS + SILENT - 1], vec![MS, MS]));
}

#[test]
fn the_innermost_range_counts_except_for_repeated_forward_passes() {
    let slices = [
        ("main", NOTE, "loss_computation", 0, 100),
        ("main", NOTE, "backward", 40, 90),
        ("main", PYTHON, "nn.Module: Block_0", 50, 60),
        ("main", NOTE, "data_loading", 100, 200),
        ("main", PYTHON, "nn.Module: Resize_0", 120, 150),
        ("main", NOTE, "Optimizer.step#LBFGS.step", 200, 300),
        ("main", NOTE, "forward", 210, 220),
    ];
    let expected = [
        (Phase::Forward, 0, 40),
        (Phase::Backward, 40, 90),
        (Phase::Forward, 90, 100),
        (Phase::DataLoading, 100, 200),
        (Phase::Optimizer, 200, 210),
        (Phase::Forward, 210, 220),
        (Phase::Optimizer, 220, 300),
    ];
    assert_eq!(found(&slices), expected);
}

/// A copy to the device from pageable memory and one from it, as PyTorch calls them in microseconds: the first waits
/// for earlier work inside the call, the second in the synchronization after it.
#[test]
fn waits_inside_copies_are_waits() {
    let slices = [
        ("main", NOTE, "forward", 0, 1_000_000),
        ("main", OP, "aten::copy_", 100_000, 400_000),
        ("main", CALL, "cudaMemcpyAsync", 110_000, 390_000),
        ("stream 7", SliceKind::Memcpy, "Memcpy HtoD (Pageable -> Device)", 300_000, 380_000),
        ("main", OP, "aten::copy_", 500_000, 800_000),
        ("main", CALL, "cudaMemcpyAsync", 510_000, 520_000),
        ("main", CALL, "cudaStreamSynchronize", 530_000, 790_000),
        ("stream 7", SliceKind::Memcpy, "Memcpy DtoH (Device -> Pageable)", 700_000, 780_000),
        // No copy of its own, and waits inside communication.
        ("main", CALL, "cudaDeviceSynchronize", 850_000, 900_000),
        ("main", OP, "nccl:all_reduce", 920_000, 980_000),
        ("main", CALL, "cudaStreamSynchronize", 930_000, 970_000),
        // The device is free, and the call is slow by itself.
        ("main", CALL, "cudaMemcpyAsync", 1_100_000, 1_140_000),
        ("stream 7", SliceKind::Memcpy, "Memcpy HtoD (Pageable -> Device)", 1_110_000, 1_138_000),
        ("main", CALL, "cudaMemcpyAsync", 1_200_000, 1_500_000),
        ("stream 7", SliceKind::Memcpy, "Memcpy HtoD (Pageable -> Device)", 1_400_000, 1_490_000),
        // What the first one waits for: until shortly before it begins.
        ("stream 9", SliceKind::Kernel, "k", 50_000, 290_000),
    ];
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = vec![0, 0, 1, 1, 0, 2, 0, 2, 0, 0, 0, 3, 3, 4, 4, 0];
    let trace = builder.finish();
    let found = phases(&trace, &|| false);
    use Phase::{Communication, Copies, Forward, Other, Waiting};
    let whole = TimeRange { start: 0, end: 1_600_000 };
    let expected = |phase| match phase {
        Copies => 10_000 + 110_000 + 30_000 + 80_000 + 10_000 + 40_000 + 300_000,
        Waiting => 180_000 + 170_000 + 10_000 + 50_000,
        Communication => 60_000,
        Forward => 1_000_000 - 600_000 - 50_000 - 60_000,
        Other => 600_000 - 340_000,
        _ => 0,
    };
    assert_eq!(found.within(whole), Phase::ALL.map(expected));
    let of_copies = Phase::ALL.map(|phase| if phase == Copies { 80_000 + 80_000 + 28_000 + 90_000 } else { 0 });
    assert_eq!(found.device(&trace, &[whole]), [of_copies], "also of one whose call waits first");
    let at = [105_000, 200_000, 350_000, 525_000, 600_000, 750_000, 870_000, 950_000, 1_120_000].map(|ts| found.at(ts));
    assert_eq!(at, [Copies, Waiting, Copies, Copies, Waiting, Copies, Waiting, Communication, Copies]);
}

/// A step after the optimizer: what the host does before the first operator that launches is not a forward pass, nor is
/// what it is known to do besides inside one that no range names.
#[test]
fn a_forward_pass_that_nothing_names_is_without_what_is_none() {
    let step = |meanwhile: &[Named<'static>]| {
        let mut slices = vec![
            ("main", NOTE, "Optimizer.step#SGD.step", 0, 100),
            ("main", OP, "aten::empty", 110, 120),
            ("main", OP, "aten::linear", 500, 600),
            ("main", CALL, "cudaLaunchKernel", 520, 530),
            ("autograd", OP, ENGINE, 900, 1_000),
            ("autograd", CALL, "cudaLaunchKernel", 910, 920),
        ];
        slices.extend(meanwhile);
        let found = found(&slices);
        found.into_iter().filter(|tile| tile.0 == Phase::Forward).map(|tile| (tile.1, tile.2)).collect::<Vec<_>>()
    };
    assert_eq!(step(&[]), [(500, 900)]);
    let none = [
        (PYTHON, "torch/serialization.py(945): save"),
        (PYTHON, "Python GC"),
        (PYTHON, "torch/_dynamo/convert_frame.py(12): _compile"),
        (NOTE, "save_checkpoint"),
        (CALL, "cuModuleLoadData"),
    ];
    for (kind, name) in none {
        // Before the first operator of the pass, though operators launch inside, and later.
        let before = [
            ("main", kind, name, 130, 400),
            ("main", OP, "aten::clone", 150, 200),
            ("main", CALL, "cudaLaunchKernel", 160, 170),
        ];
        assert_eq!(step(&before), [(500, 900)], "{name}");
        assert_eq!(step(&[("main", kind, name, 700, 800)]), [(500, 700), (800, 900)], "{name}");
        // Compilers run the modules that they trace.
        let inside = [
            ("main", PYTHON, "nn.Module: Net_0", 400, 880),
            ("main", kind, name, 650, 850),
            ("main", PYTHON, "nn.Module: Net_0", 700, 720),
        ];
        assert_eq!(step(&inside), [(400, 650), (850, 880), (880, 900)], "{name}");
        // The program says what its ranges are.
        let named = [("main", NOTE, "forward", 400, 880), ("main", kind, name, 650, 850)];
        assert_eq!(step(&named), [(400, 880), (880, 900)], "{name}");
    }
}

#[test]
fn a_reading_of_the_last_loss_begins_no_forward_pass_where_nothing_launches() {
    let slices = [
        ("main", NOTE, "Optimizer.step#SGD.step", 0, 100),
        ("main", OP, "aten::item", 110, 120),
        ("main", OP, "aten::_local_scalar_dense", 112, 118),
        ("main", OP, "aten::linear", 500, 600),
        ("main", OP, ENGINE, 900, 1_000),
    ];
    let expected = [(Phase::Optimizer, 0, 100), (Phase::Forward, 500, 900), (Phase::Backward, 900, 1_000)];
    assert_eq!(found(&slices), expected);
}

#[test]
fn nothing_is_told_without_names() {
    let slices = [
        ("main", OP, "aten::linear", 0, 100),
        ("main", CALL, "cudaLaunchKernel", 10, 20),
        ("main", NOTE, "step_1", 0, 200),
        ("stream 7", SliceKind::Kernel, "gemm", 30, 90),
    ];
    assert_eq!(found(&slices), []);
    assert_eq!(Phases::default().within(TimeRange { start: 3, end: 10 }), [0, 0, 0, 0, 0, 0, 0, 7]);
}

proptest! {
    #[test]
    fn phases_sum_to_any_range_and_agree_with_single_nanoseconds(
        work in prop::collection::vec((0_usize..3, 0_usize..5, 0_i64..150, 0_i64..60), 0..40),
        cut in (0_i64..220, 0_i64..220),
    ) {
        let names = ["forward", "backward", "optimizer", "data_loading", "nccl:all_reduce"];
        let slices: Vec<_> = work.iter()
            .map(|&(thread, name, ts, dur)| (["a", "b", "c"][thread], NOTE, names[name], ts, ts + dur)).collect();
        let phases = phases(&TraceBuilder::from_slices(&slices).finish(), &|| false);
        prop_assert!(phases.tiles.iter().all(|tile| tile.time.start < tile.time.end));
        prop_assert!(phases.tiles.windows(2).all(|pair| pair[0].time.end <= pair[1].time.start));
        let range = TimeRange::new(cut.0, cut.1);
        let mut expected = [0; Phase::N];
        (range.start..range.end).for_each(|ts| expected[phases.at(ts) as usize] += 1);
        prop_assert_eq!(phases.within(range), expected);
        // A time without any range has no phase, unless it is inside a backward pass or before one.
        for ts in 0..220 {
            let is_named = slices.iter().any(|slice| slice.3 <= ts && ts < slice.4);
            let is_guess = matches!(phases.at(ts), Phase::Other | Phase::Backward | Phase::Forward);
            prop_assert!(is_named || is_guess, "{ts}");
            prop_assert!(!is_named || phases.at(ts) != Phase::Other, "{ts}");
        }
    }
}

#[test]
fn collectives_of_threads_are_communication_where_no_device_works() {
    let host = [
        ("main", NOTE, "## backward ##", 100, 400),
        ("main", OP, ENGINE, 100, 180),
        ("main", OP, "c10d::allreduce_", 160, 170),
        ("main", OP, "_c10d_functional::wait_tensor", 380, 385),
        ("gloo 1", NOTE, "gloo:all_reduce", 150, 300),
        ("gloo 2", NOTE, "gloo:all_reduce", 200, 390),
    ];
    // Beside the operators of the pass they cost nothing; an operator that starts one or waits for one does not compute.
    let expected = [
        (Phase::Backward, 100, 160),
        (Phase::Communication, 160, 170),
        (Phase::Backward, 170, 180),
        (Phase::Communication, 180, 390),
        (Phase::Backward, 390, 400),
    ];
    assert_eq!(found(&host), expected);
    // Beside a device that computes they cost what it waits for them.
    let mut beside = host.to_vec();
    beside.push(("stream 7", SliceKind::Kernel, "gemm", 150, 390));
    let expected = [
        (Phase::Backward, 100, 160),
        (Phase::Communication, 160, 170),
        (Phase::Backward, 170, 380),
        (Phase::Communication, 380, 385),
        (Phase::Backward, 385, 400),
    ];
    assert_eq!(found(&beside), expected);
}

#[test]
fn operators_that_prepare_an_exchange_are_no_communication_where_no_device_tells() {
    let host = [
        ("main", NOTE, "reduce_scatter_gradients", 100, 400),
        ("main", OP, "aten::cat", 120, 200),
        ("main", OP, "c10d::reduce_scatter_", 250, 300),
        ("main", OP, "aten::empty", 260, 270),
        ("main", NOTE, "optimizer", 500, 900),
        ("main", NOTE, "allgather_params", 600, 800),
        ("main", OP, "aten::item", 600, 790),
    ];
    let expected = [
        (Phase::Communication, 100, 120),
        (Phase::Communication, 200, 400),
        (Phase::Optimizer, 500, 790),
        (Phase::Communication, 790, 800),
        (Phase::Optimizer, 800, 900),
    ];
    assert_eq!(found(&host), expected);
    let mut beside = host.to_vec();
    beside.push(("stream 7", SliceKind::Kernel, "gemm", 0, 10));
    let whole = [
        (Phase::Communication, 100, 400),
        (Phase::Optimizer, 500, 600),
        (Phase::Communication, 600, 800),
        (Phase::Optimizer, 800, 900),
    ];
    assert_eq!(found(&beside), whole);
}

#[test]
fn an_exchange_after_the_forward_pass_is_no_part_of_it_and_sizes_read_back_are_waited_for() {
    const US: TimeNs = 1_000;
    let host = |call: &'static str| {
        [
            ("main", NOTE, "forward", 0, 100 * US),
            ("main", OP, "aten::mm", 0, 100 * US),
            ("main", NOTE, "## all2all_sizes ##", 100 * US, 200 * US),
            ("main", OP, "aten::item", 110 * US, 115 * US),
            ("main", OP, "aten::item", 120 * US, 150 * US),
            ("main", NOTE, call, 150 * US, 160 * US),
            ("main", OP, "aten::cat", 160 * US, 200 * US),
            ("main", NOTE, "backward", 200 * US, 300 * US),
        ]
    };
    let of = |call| found(&host(call)).into_iter().map(|(phase, a, b)| (phase, a / US, b / US)).collect::<Vec<_>>();
    let around = |own: &[(Phase, TimeNs, TimeNs)]| {
        [
            &[(Phase::Forward, 0, 100), (Phase::Communication, 100, 110), (Phase::Communication, 115, 120)],
            own,
            &[(Phase::Communication, 150, 160), (Phase::Backward, 200, 300)],
        ]
        .concat()
    };
    assert_eq!(of("nccl:all_to_all"), around(&[(Phase::Waiting, 120, 150)]));
    // Without a device nothing has to be waited for.
    assert_eq!(of("gloo:all_to_all"), around(&[]));
}
