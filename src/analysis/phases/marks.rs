//! Slices that name a phase.

use super::{Phase, Tile, has_device};
use crate::analysis::frame::Frame;
use crate::analysis::host_roles::{READS_BACK, Role, loads_code_or_collects, role_of};
use crate::analysis::words::{self, Topic};
use crate::model::time::{subtract, unite};
use crate::model::{CopyKind, DurNs, Row, SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// Operators that copy between host and device if a copy call is inside.
const COPY_OPERATORS: [&str; 3] = ["aten::to", "aten::_to_copy", "aten::copy_"];

/// A copy that begins this soon after its call did not wait for other work, in nanoseconds: the launch takes as long.
const LAUNCH: DurNs = 30_000;

/// The slices of a trace that name a phase. Each name is judged once.
pub struct Marks<'a> {
    trace: &'a Trace,
    /// By name and [`Source`].
    known: Vec<[Option<Option<Phase>>; 3]>,
    /// Of each name what its calls do.
    calls: Vec<CallKind>,
    has_device: bool,
    /// Whether a device works, of which nothing was recorded, not even calls.
    has_hidden_device: bool,
}

/// What a call does that takes the host's time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Copy,
    Wait,
    /// It compiles, or loads code.
    Load,
    Other,
}

impl CallKind {
    fn of(name: &str) -> Self {
        match name {
            _ if name.contains("Memcpy") => Self::Copy,
            _ if name.contains("Synchronize") => Self::Wait,
            _ if loads_code_or_collects(SliceKind::Runtime, name) => Self::Load,
            _ => Self::Other,
        }
    }
}

/// Kinds of slices whose names follow different conventions.
#[derive(Clone, Copy)]
enum Source {
    Annotation,
    Operator,
    Python,
}

impl<'a> Marks<'a> {
    pub fn new(trace: &'a Trace) -> Self {
        let calls = trace.strings.iter().map(|(_, name)| CallKind::of(name)).collect();
        let has_device = has_device(trace);
        // NCCL runs on devices only.
        let runs_nccl = || trace.strings.iter().any(|(_, name)| name.starts_with("nccl:"));
        let has_hidden_device = !has_device
            && !SliceKind::ALL.iter().any(|&kind| kind.is_call() && trace.slices.has_kind(kind))
            && runs_nccl();
        Self { trace, known: vec![[None; 3]; trace.strings.len()], calls, has_device, has_hidden_device }
    }

    /// Those of a thread, by start, the outer of two first. Cost: O(slices of the thread).
    ///
    /// A call that copies and does not return before the copy begins waits for work that was launched before, as long
    /// as the device has any: after that it stages the data. A call that waits does so except while a copy runs that
    /// the operator around it started: PyTorch waits like this for copies from and to pageable memory.
    pub fn of_track(&mut self, track: TrackId) -> Vec<Tile> {
        let trace = self.trace;
        let slices = &trace.slices;
        let mut marks: Vec<Tile> = Vec::new();
        let mut waits: Vec<SliceId> = Vec::new();
        let mut exchanges: Vec<SliceId> = Vec::new();
        // The operators that copy, with the copies that they started.
        let mut copies: Vec<(SliceId, TimeRange)> = Vec::new();
        for i in trace.track_slices(track) {
            let id = SliceId(i as u32);
            let mut mark = |id, phase| marks.push(Tile { time: slices.time(id), phase });
            let called = self.calls[slices.name[i].0 as usize];
            match slices.kind[i] {
                SliceKind::Collective => mark(id, Phase::Communication),
                kind if kind.is_call() => match called {
                    CallKind::Copy if is_host_copy(trace, id) => {
                        let is_copy = |id: &SliceId| COPY_OPERATORS.contains(&trace.slice_name(*id));
                        let around = slices.ancestors(id).take_while(is_copy);
                        std::iter::once(id).chain(around).for_each(|id| mark(id, Phase::Copies));
                        let Some(copy) = trace.launched_by(id).next().map(|copy| slices.time(copy)) else { continue };
                        copies.extend(slices.parent(id).map(|around| (around, copy)));
                        let call = slices.time(id);
                        if call.start + LAUNCH < copy.start && copy.start < call.end {
                            let end = busy_until(trace, id, copy.start);
                            if call.start + LAUNCH < end {
                                marks.push(Tile { time: TimeRange { end, ..call }, phase: Phase::Waiting });
                            }
                        }
                    }
                    CallKind::Wait => waits.push(id),
                    CallKind::Load if !self.is_in_range(id) => {
                        marks.push(Tile { time: slices.time(id), phase: Phase::Other });
                    }
                    CallKind::Copy | CallKind::Load | CallKind::Other => {}
                },
                kind => {
                    let phase = self.phase(i, kind);
                    let is_exchange = || phase == Some(Phase::Communication) && !is_collective(trace.slice_name(id));
                    if !self.has_device && is_exchange() {
                        exchanges.push(id);
                        continue;
                    }
                    if phase.is_none() && self.has_hidden_device && reads_back(trace, id) {
                        mark(id, Phase::Waiting);
                    }
                    if let Some(phase) = phase.filter(|&phase| phase != Phase::Other || !self.is_in_range(id)) {
                        marks.push(Tile { time: slices.time(id), phase });
                    }
                }
            }
        }
        let waits = waits.into_iter().map(|wait| (slices.parent(wait), slices.time(wait))).collect();
        let waiting = except_for(waits, copies).into_iter();
        marks.extend(waiting.map(|time| Tile { time, phase: Phase::Waiting }));
        marks.extend(self.exchanging(track, &exchanges));
        // The phases break ties of ranges that are alike.
        marks.sort_by_key(|mark| (mark.time.start, std::cmp::Reverse(mark.time.end), mark.phase));
        marks
    }

    /// The times of ranges that name an exchange, without those of the operators that do not communicate: these are of
    /// no phase, unless a range around says more. Cost: O(slices of the thread), and O(log n) for each range.
    fn exchanging(&mut self, track: TrackId, exchanges: &[SliceId]) -> Vec<Tile> {
        let mut tiles: Vec<Tile> = Vec::new();
        if exchanges.is_empty() {
            return tiles;
        }
        let slices = &self.trace.slices;
        let mut works: Vec<TimeRange> = Vec::new();
        for i in self.trace.track_slices(track).filter(|&i| slices.kind[i] == SliceKind::Operator) {
            let id = SliceId(i as u32);
            // Old recorders wrote ranges as operators.
            let is_operator = self.trace.slice_name(id).contains("::");
            if is_operator && self.phase(i, SliceKind::Operator) != Some(Phase::Communication) {
                works.push(slices.time(id));
            }
        }
        unite(&mut works);
        for &exchange in exchanges {
            let time = slices.time(exchange);
            let left = subtract(&[time], &works[works.partition_point(|work| work.end <= time.start)..]);
            if !self.is_in_range(exchange) {
                let works = subtract(&[time], &left).into_iter();
                tiles.extend(works.map(|time| Tile { time, phase: Phase::Other }));
            }
            tiles.extend(left.into_iter().map(|time| Tile { time, phase: Phase::Communication }));
        }
        tiles
    }

    /// Whether a slice is inside a range that names the forward pass: all of that is the pass, as the program says.
    fn is_in_range(&mut self, slice: SliceId) -> bool {
        let slices = &self.trace.slices;
        let is_range = |kind| kind == SliceKind::Annotation;
        let mut around = slices.ancestors(slice).filter(|around| is_range(slices.kind[around.idx()]));
        around.any(|around| self.phase(around.idx(), SliceKind::Annotation) == Some(Phase::Forward))
    }

    /// The phase that a slice names; [`Phase::Other`] for what is known to be none.
    fn phase(&mut self, slice: usize, kind: SliceKind) -> Option<Phase> {
        let source = match kind {
            SliceKind::Annotation => Source::Annotation,
            SliceKind::Operator => Source::Operator,
            SliceKind::PythonFunction => Source::Python,
            _ => return None,
        };
        let name = self.trace.slices.name[slice];
        let text = || match source {
            Source::Annotation => of_annotation(self.trace.strings.get(name)),
            Source::Operator => of_operator(self.trace.strings.get(name)),
            Source::Python => of_python(self.trace.strings.get(name)),
        };
        let text = || text().or_else(|| is_none(kind, self.trace.strings.get(name)).then_some(Phase::Other));
        *self.known.get_mut(name.0 as usize)?[source as usize].get_or_insert_with(text)
    }
}

/// The times of waits without those of the copies that were started by the same slice around them.
///
/// * Cost: O(n log n), however many waits and copies one slice has.
fn except_for(mut waits: Vec<(Option<SliceId>, TimeRange)>, mut copies: Vec<(SliceId, TimeRange)>) -> Vec<TimeRange> {
    let mut left = Vec::new();
    waits.sort_unstable_by_key(|&(around, time)| (around, time.start));
    copies.sort_unstable_by_key(|&(around, time)| (around, time.start));
    let mut copies = &copies[..];
    for waits in waits.chunk_by(|a, b| a.0 == b.0) {
        let around = waits[0].0;
        copies = &copies[copies.partition_point(|copy| Some(copy.0) < around)..];
        let own = copies.iter().take_while(|copy| Some(copy.0) == around);
        let mut own: Vec<TimeRange> = own.map(|copy| copy.1).collect();
        unite(&mut own);
        let waits: Vec<TimeRange> = waits.iter().map(|wait| wait.1).collect();
        left.extend(subtract(&waits, &own));
    }
    left
}

/// When the device of what a call launched was last busy before some time, at most that. Cost: O(rows log n).
fn busy_until(trace: &Trace, call: SliceId, ts: TimeNs) -> TimeNs {
    let slices = &trace.slices;
    let Some(work) = trace.launched_by(call).next() else { return ts };
    let device = trace.track(slices.track_of(work)).process;
    let of_row = |row: &Row| {
        let range = row.range();
        let before = slices.ts[range.clone()].partition_point(|&start| start < ts).checked_sub(1)?;
        let last = range.start + before;
        slices.kind[last].is_device_work().then(|| slices.end[last].min(ts))
    };
    trace.rows_of(device).iter().filter_map(of_row).max().unwrap_or(TimeNs::MIN)
}

/// Whether a copy call copies between host and device, as far as is known.
fn is_host_copy(trace: &Trace, call: SliceId) -> bool {
    let copy = trace.launched_by(call).find_map(|work| trace.facts.copies.get(work));
    copy.is_none_or(|copy| matches!(copy.kind, CopyKind::HtoD | CopyKind::DtoH | CopyKind::Unknown))
}

/// The phase of an operator, or of a range that PyTorch names like one.
fn of_operator(name: &str) -> Option<Phase> {
    // `emit_nvtx` adds the sequence number and the shapes.
    let name = name.split(", ").next().unwrap_or_default();
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some(match name {
        _ if name.starts_with("enumerate(DataLoader)#") => Phase::DataLoading,
        _ if name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#") => Phase::Optimizer,
        _ if name.starts_with("autograd::engine::") || base.ends_with("Backward") => Phase::Backward,
        _ if is_collective(name) => Phase::Communication,
        // Torch-TensorRT: `tensorrt::execute_engine`.
        _ if name.starts_with("tensorrt::") && words::runs_model(&words::words(name)) => Phase::Forward,
        // Old versions record the user's ranges as operators.
        _ if !name.contains("::") => return of_words(name),
        _ => return None,
    })
}

/// Whether a name is that of a call of a collective, and not of a range of the user's or of a library around some.
fn is_collective(name: &str) -> bool {
    const CALLS: [&str; 5] = ["record_param_comms", "nccl:", "c10d::", "gloo:", "_c10d_functional::"];
    CALLS.iter().any(|call| name.starts_with(call))
}

/// The phase of a range that the user, `DeepSpeed`, Lightning or a library named.
pub fn of_annotation(name: &str) -> Option<Phase> {
    if name.starts_with("aten::") { None } else { of_operator(name).or_else(|| of_words(name)) }
}

/// Whether an operator starts collectives or waits for them.
pub fn is_communication(operator: &str) -> bool {
    of_operator(operator) == Some(Phase::Communication)
}

/// Whether an operator reads a value back, and waits for the device to have it.
fn reads_back(trace: &Trace, slice: SliceId) -> bool {
    let is_kind = || role_of(trace.slices.kind[slice.idx()], trace.slice_name(slice)) == Role::SyncOperator;
    trace.slices.time(slice).dur() >= READS_BACK && is_kind()
}

/// Whether a slice is known to be of no phase: it writes a checkpoint, compiles, loads code or collects garbage.
fn is_none(kind: SliceKind, name: &str) -> bool {
    let is_named = matches!(kind, SliceKind::PythonFunction | SliceKind::Annotation);
    loads_code_or_collects(kind, name) || is_named && Frame::of_python_function(name).saves_checkpoint()
}

/// The phase of a Python function, as Kineto names it.
fn of_python(name: &str) -> Option<Phase> {
    if name.starts_with("nn.Module: ") {
        return Some(Phase::Forward);
    }
    let frame = Frame::of_python_function(name);
    let is_in = |path: &str| frame.file.contains(path);
    // TensorRT's functions, which are written in C: `<built-in method execute_async_v3 of PyCapsule object at 0x7f>`.
    if ["execute_async_v", "execute_v2 "].iter().any(|run| name.starts_with(&format!("<built-in method {run}"))) {
        return Some(Phase::Forward);
    }
    match frame.function {
        _ if frame.loads_data() => Some(Phase::DataLoading),
        "backward" if is_in("torch/_tensor.py") || is_in("torch/autograd/__init__.py") => Some(Phase::Backward),
        "step" | "zero_grad" | "wrapper" if is_in("torch/optim/") && !is_in("lr_scheduler.py") => {
            Some(Phase::Optimizer)
        }
        "run" | "run_with_iobinding" | "run_with_ort_values" if is_in("onnxruntime/capi/") => Some(Phase::Forward),
        _ => None,
    }
}

/// The phase by the words of a name.
fn of_words(name: &str) -> Option<Phase> {
    Some(match words::topic(name)? {
        Topic::DataLoading => Phase::DataLoading,
        Topic::Forward => Phase::Forward,
        Topic::Backward => Phase::Backward,
        Topic::Optimizer => Phase::Optimizer,
        Topic::Copies => Phase::Copies,
        Topic::Communication => Phase::Communication,
        Topic::Compilation | Topic::GarbageCollection => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_phase() {
        use Phase::{Backward, Communication, Copies, DataLoading, Forward, Optimizer};
        for (name, phase) in [
            ("## forward ##", Forward),
            ("forward_pass", Forward),
            ("loss_computation", Forward),
            ("DistributedDataParallel.forward", Forward),
            ("[pl][profile][Strategy]DDPStrategy.backward", Backward),
            ("[pl][profile][LightningModule]Net.optimizer_step", Optimizer),
            ("ExecutionContext::execute", Forward),
            ("nvinfer1::IExecutionContext::enqueueV3", Forward),
            ("myelinGraphExecute", Forward),
            ("SequentialExecutor::Execute", Forward),
            ("model_run", Forward),
            ("execute_model", Forward),
            ("inference", Forward),
            ("model_inference", Forward),
            ("ZeRO-3_forward", Forward),
            ("ZeRO-3_backward", Backward),
            ("ZeRO-3_step", Optimizer),
            ("DeepSpeedEngine.step", Optimizer),
            ("DeepSpeedZeroOptimizer_Stage3.backward", Backward),
            ("loss_backward", Backward),
            ("BackwardPass", Backward),
            ("## zero_grad ##", Optimizer),
            ("Optimizer.zero_grad#Adagrad.zero_grad", Optimizer),
            ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", DataLoading),
            ("## wait_for_training_batch ##", DataLoading),
            ("data_loading", DataLoading),
            ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", DataLoading),
            ("data_transfer", Copies),
            ("nccl:all_reduce", Communication),
            ("## all2all_data:lengths_wait ##", Communication),
            ("reduce_scatter_gradients", Communication),
            ("AddmmBackward0, seq = 17, op_id = 4", Backward),
            ("autograd::engine::evaluate_function: AddmmBackward0", Backward),
        ] {
            assert_eq!(of_annotation(name), Some(phase), "{name}");
        }
        for name in [
            "",
            "step_5",
            "training_step",
            "epoch_3",
            "batch 7",
            "data_parallel",
            "load_checkpoint",
            "forward_backward",
            "ProfilerStep#3",
            "aten::batch_norm",
            "aten::_to_copy, seq = 3",
            "on_before_optimizer_step",
            "[pl][profile][Callback]Timer.on_after_backward",
            "generate_data",
            "batch_time",
            "opt_1.3b",
            "warmup",
            "metrics:publish",
            "ExecutionContext::getTensorShape",
            "myelinGraphLoad",
            "session_initialization",
            "build_engine",
            "run_epoch",
        ] {
            assert_eq!(of_annotation(name), None, "{name}");
        }
    }

    #[test]
    fn operators_and_functions_tell_their_phase() {
        assert_eq!(of_operator("CudnnBatchNormBackward"), Some(Phase::Backward));
        assert_eq!(of_operator("torch::autograd::CopyBackwards"), None);
        assert_eq!(of_operator("aten::convolution_backward"), None, "an operator inside one of the engine");
        assert_eq!(of_operator("record_param_comms"), Some(Phase::Communication));
        assert_eq!(of_operator("tensorrt::execute_engine"), Some(Phase::Forward));
        let site = "/usr/lib/python3/site-packages/";
        for (name, phase) in [
            ("nn.Module: Linear_0", Some(Phase::Forward)),
            ("torch/utils/data/dataloader.py(630): __next__", Some(Phase::DataLoading)),
            ("torch/_tensor.py(487): backward", Some(Phase::Backward)),
            ("torch/optim/adam.py(213): step", Some(Phase::Optimizer)),
            ("torch/optim/lr_scheduler.py(150): step", None),
            ("train.py(12): step", None),
            ("onnxruntime/capi/onnxruntime_inference_collection.py(266): run", Some(Phase::Forward)),
            ("serve.py(3): run", None),
            ("<built-in method execute_async_v3 of PyCapsule object at 0x7f>", Some(Phase::Forward)),
        ] {
            assert_eq!(of_python(name), phase, "{name}");
            assert_eq!(of_python(&name.replace("torch/", &format!("{site}torch/"))), phase, "{name}");
        }
    }
}
