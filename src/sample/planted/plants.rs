//! The training loop and what keeps its devices waiting.

use super::super::nsys::Schema;
use super::GapPlan;
use super::script::{Classes, Launched, Script, Sent};
use super::style::{AUTOGRAD, LOADER, Recorder};
use super::timeline::{Span, SpanKind, UNRECORDED, Work, WorkKind};

/// A way to keep a device waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    SyncStream,
    SyncDevice,
    SyncEvent,
    Item,
    Nonzero,
    BlockingCopy,
    Loader,
    LoaderFrame,
    CopyTo,
    PageableCopy,
    Malloc,
    Free,
    HostAlloc,
    ModuleLoad,
    Compile,
    Gc,
    GcRange,
    Barrier,
    BarrierFrame,
    SlowLaunch,
    CpuOp,
    PythonTime,
    Blocked,
    Nothing,
    Dependency,
    Queued,
    Graph,
    NoLaunch,
    Overhead,
    LaunchBound,
    Mixed,
}

/// All of them.
const ALL: [Plant; 31] = [
    Plant::SyncStream,
    Plant::SyncDevice,
    Plant::SyncEvent,
    Plant::Item,
    Plant::Nonzero,
    Plant::BlockingCopy,
    Plant::Loader,
    Plant::LoaderFrame,
    Plant::CopyTo,
    Plant::PageableCopy,
    Plant::Malloc,
    Plant::Free,
    Plant::HostAlloc,
    Plant::ModuleLoad,
    Plant::Compile,
    Plant::Gc,
    Plant::GcRange,
    Plant::Barrier,
    Plant::BarrierFrame,
    Plant::SlowLaunch,
    Plant::CpuOp,
    Plant::PythonTime,
    Plant::Blocked,
    Plant::Nothing,
    Plant::Dependency,
    Plant::Queued,
    Plant::Graph,
    Plant::NoLaunch,
    Plant::Overhead,
    Plant::LaunchBound,
    Plant::Mixed,
];
/// Those that a thread other than the main one may plant.
const OF_AUTOGRAD: [Plant; 6] =
    [Plant::CpuOp, Plant::Malloc, Plant::ModuleLoad, Plant::Queued, Plant::SyncStream, Plant::SlowLaunch];
/// Those of which mixed gaps consist.
const PARTS: [Plant; 8] = [
    Plant::SyncStream,
    Plant::Loader,
    Plant::CpuOp,
    Plant::Malloc,
    Plant::ModuleLoad,
    Plant::PythonTime,
    Plant::GcRange,
    Plant::Nothing,
];

impl Script {
    pub fn train(&mut self, steps: u32, plan: GapPlan) {
        let plants: Vec<Plant> = ALL.into_iter().filter(|&plant| self.can(plant)).collect();
        let of_autograd: Vec<Plant> = OF_AUTOGRAD.into_iter().filter(|&plant| self.can(plant)).collect();
        let recurring = self.chosen(&plants);
        // At one of the places of a step, the last of which is on the thread of the backward pass.
        let place = self.chosen(&[0, 1, 1, 2, 3]);
        let recurring_of_autograd = self.chosen(&of_autograd);
        let main = self.style.user_frame(61, "main");
        let names = self.names.clone();
        self.frame(&main, |s| {
            s.spend(1_000);
            let mut is_last_planted = false;
            for step in 0..steps {
                let mut four = match plan {
                    GapPlan::None => [None; 4],
                    GapPlan::Recurring if place == 3 && s.style.has_autograd => {
                        [None, None, None, Some(recurring_of_autograd)]
                    }
                    GapPlan::Recurring => [0, 1, 2, 3].map(|at| (at == place.min(2)).then_some(recurring)),
                    GapPlan::Various => {
                        let [a, b, c] = [0; 3].map(|_| (s.plant_rng.between(0, 4) > 0).then(|| s.chosen(&plants)));
                        [a, b, c, b.map(|_| s.chosen(&of_autograd))]
                    }
                };
                // Causes of one gap are mixed on purpose only.
                four[0] = four[0].filter(|_| !is_last_planted);
                is_last_planted = four[2].is_some();
                s.names = names.clone();
                if plan == GapPlan::Recurring {
                    s.plant_names = names.clone();
                }
                s.step(step, four);
            }
            let until = s.drained() + 20_000;
            s.sync("cudaDeviceSynchronize", until);
        });
        if self.style.has_loader_thread {
            self.pin_batches();
        }
    }

    /// One of the plants or of their places.
    fn chosen<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.plant_rng.between(0, all.len() as i64) as usize]
    }

    /// One of some names, which a step that comes back has as well.
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.names.between(0, all.len() as i64) as usize]
    }

    /// Whether the recorder can show this cause.
    fn can(&self, plant: Plant) -> bool {
        let style = &self.style;
        match plant {
            Plant::LoaderFrame | Plant::Compile | Plant::Gc | Plant::BarrierFrame | Plant::PythonTime => {
                style.has_stack
            }
            Plant::Nothing => !style.has_stack,
            Plant::Blocked => style.has_os,
            Plant::Dependency => style.n_devices > 1,
            Plant::Graph => style.recorder != Recorder::Nsys(Schema::V2022),
            Plant::CpuOp => style.has_operators,
            _ => true,
        }
    }

    /// One step; `plants` are before the forward pass, before the backward pass, before the end, and in the backward
    /// pass.
    fn step(&mut self, step: u32, plants: [Option<Plant>; 4]) {
        let name = format!("{}{step}", self.style.step);
        let body = |s: &mut Self| {
            let frame = s.style.user_frame(33, s.style.step_function);
            s.frame(&frame, |s| {
                s.spend(800);
                s.keep_waiting(plants[0]);
                s.work(14);
                s.keep_waiting(plants[1]);
                s.backward(plants[3]);
                s.span(SpanKind::Annotation, "Optimizer.step#AdamW.step", None, |s| s.work(12));
                s.keep_waiting(plants[2]);
                s.spend(700);
            });
        };
        if self.style.has_steps {
            self.span(SpanKind::Annotation, &name, None, body);
        } else {
            body(self);
        }
        self.boundaries.push(self.now());
        self.spend_some(300, 900);
    }

    /// Operators that keep the devices busy: the host runs ahead of them.
    fn work(&mut self, n: usize) {
        for _ in 0..n {
            let name = self.one_of(self.style.operators);
            self.operator(name, |s| {
                s.spend_some(900, 2_500);
                let ns = s.rng.between(60_000, 120_000);
                s.kernel(ns);
            });
            self.spend_some(300, 900);
        }
    }

    /// The backward pass, on a thread of its own if the run has one.
    fn backward(&mut self, plant: Option<Plant>) {
        if !self.style.has_autograd {
            return self.work(14);
        }
        let frame = self.style.torch_frame("autograd/__init__.py(266): backward");
        self.frame(&frame, |s| {
            let (start, last) = (s.now() + 15_000, s.threads[1].now);
            s.at = 1;
            if s.keeps(SpanKind::Os) {
                let name = "pthread_cond_wait".to_owned();
                let range = (last, start - 1_000);
                s.timeline.spans.push(Span {
                    kind: SpanKind::Os,
                    name,
                    tid: AUTOGRAD,
                    range,
                    correlation: 0,
                    submits: false,
                });
            }
            s.threads[1].now = start;
            s.backward_nodes(14);
            s.keep_waiting(plant);
            s.backward_nodes(12);
            s.at = 0;
            let ns = s.threads[1].now + 8_000 - s.now();
            s.span(SpanKind::Os, "pthread_cond_wait", Some(&["blocked"]), |s| s.spend(ns));
            s.spend(1_500);
        });
    }

    fn backward_nodes(&mut self, n: usize) {
        for _ in 0..n {
            self.operator("autograd::engine::evaluate_function: AddmmBackward0", |s| {
                s.operator("AddmmBackward0", |s| s.work(1));
            });
        }
    }

    /// A thread that works all the time and never launches.
    fn pin_batches(&mut self) {
        let (start, end) = (self.threads[2].now, self.threads[0].now);
        self.at = 2;
        self.spend(30_000);
        while self.now() + 400_000 < end && start < end {
            self.operator("aten::pin_memory", |s| {
                s.spend_some(9_000, 30_000);
                s.call("cudaHostAlloc", &["allocator"], 90_000);
            });
            self.operator("aten::copy_", |s| s.spend_some(100_000, 200_000));
        }
        self.at = 0;
        debug_assert!(self.threads[2].tid == LOADER);
    }

    /// Plants a cause. Its lengths and names are drawn apart, so that the rest of the run is the same without it.
    fn keep_waiting(&mut self, plant: Option<Plant>) {
        let Some(plant) = plant else { return };
        let swap = |s: &mut Self| {
            std::mem::swap(&mut s.rng, &mut s.plant_rng);
            std::mem::swap(&mut s.names, &mut s.plant_names);
        };
        swap(self);
        self.plant(plant);
        swap(self);
    }

    fn plant(&mut self, plant: Plant) {
        match plant {
            Plant::SyncStream | Plant::SyncDevice | Plant::SyncEvent | Plant::Item | Plant::Nonzero => self.wait(plant),
            Plant::BlockingCopy => self.blocking_copy(),
            Plant::Loader | Plant::LoaderFrame => self.load(plant),
            Plant::CopyTo | Plant::PageableCopy => self.copy(plant),
            Plant::Malloc | Plant::Free | Plant::HostAlloc => self.allocate(plant),
            Plant::ModuleLoad | Plant::Compile => self.compile(plant),
            Plant::Gc => self.starved(SpanKind::Frame, "<built-in function collect>", Some(&["gc"])),
            Plant::GcRange => {
                let name = self.one_of(&["gc.collect", "Python GC"]);
                self.starved(SpanKind::Annotation, name, Some(&["gc"]));
            }
            Plant::Barrier | Plant::BarrierFrame => self.barrier(plant),
            Plant::SlowLaunch => {
                let tail = self.rng.between(80_000, 400_000);
                self.slow_submit("cudaLaunchKernel", WorkKind::Kernel, &["launch"], tail);
            }
            Plant::CpuOp => {
                let name = self.one_of(&["aten::sort", "torchvision::nms", "aten::index_put_"]);
                self.starved(SpanKind::Operator, name, None);
            }
            Plant::PythonTime => {
                let name = self.style.user_frame(88, "log_metrics");
                self.starved(SpanKind::Frame, &name, None);
            }
            Plant::Blocked => {
                let name = self.one_of(&["pthread_cond_wait", "poll", "sem_wait", "futex"]);
                self.starved(SpanKind::Os, name, Some(&["blocked"]));
            }
            Plant::Nothing => self.starve(50_000, 900_000),
            Plant::Dependency => self.depend(),
            Plant::Queued => {
                let not_before = self.free[0] + self.rng.between(60_000, 500_000);
                let sent = Sent { not_before, classes: Some(&["queued"]), ..self.kernel_call() };
                self.submit(0, sent, 150_000);
            }
            Plant::Graph => self.graph(),
            Plant::NoLaunch => self.no_launch(),
            Plant::Overhead => self.overhead(),
            Plant::LaunchBound => self.launch_bound(),
            Plant::Mixed => {
                for _ in 0..self.one_of(&[2, 3, 4]) {
                    let plants: Vec<Plant> = PARTS.into_iter().filter(|&plant| self.can(plant)).collect();
                    let plant = self.one_of(&plants);
                    self.plant(plant);
                }
            }
        }
    }

    /// A host event that lasts until the devices have been idle for a while.
    fn starved(&mut self, kind: SpanKind, name: &str, classes: Option<Classes>) {
        self.span(kind, name, classes, |s| s.starve(50_000, 900_000));
    }

    /// Synchronizations, with some Python after them.
    fn wait(&mut self, plant: Plant) {
        let frame = self.style.user_frame(47, self.style.log_function);
        self.frame(&frame, |s| {
            let late = s.rng.between(40_000, 500_000);
            match plant {
                Plant::Item | Plant::Nonzero => {
                    let names = if plant == Plant::Item {
                        ["aten::item", "aten::_local_scalar_dense"]
                    } else {
                        ["aten::nonzero"; 2]
                    };
                    s.span(SpanKind::Operator, names[0], Some(&["sync"]), |s| {
                        s.span(SpanKind::Operator, names[1], None, |s| {
                            s.download();
                            let until = s.drained() + late;
                            s.sync("cudaStreamSynchronize", until);
                            s.spend(600);
                        });
                        s.spend(400);
                    });
                }
                _ => {
                    let call = match plant {
                        Plant::SyncDevice => "cudaDeviceSynchronize",
                        Plant::SyncEvent => "cudaEventSynchronize",
                        _ => "cudaStreamSynchronize",
                    };
                    let until = s.drained() + late;
                    s.sync(call, until);
                }
            }
            s.spend_some(1_000, 60_000);
        });
    }

    /// Copies a number back to the host.
    fn download(&mut self) {
        let (kind, name) = (WorkKind::Download, "Memcpy DtoH (Device -> Pageable)");
        let sent = Sent { call: "cudaMemcpyAsync", call_ns: 6_000, kind, name, not_before: 0, classes: None };
        self.submit(0, sent, 2_000);
    }

    fn blocking_copy(&mut self) {
        let tail = self.rng.between(60_000, 300_000);
        let (start, end) = self.slow_submit("cudaMemcpy", WorkKind::Download, &["sync"], tail);
        self.threads[self.at].syncs.push((start, end));
    }

    /// Work that runs while its launching call still does, which returns `tail` ns after the work is done; returns
    /// the range of the call.
    fn slow_submit(&mut self, call: &'static str, kind: WorkKind, classes: Classes, tail: i64) -> (i64, i64) {
        let start = self.now();
        let begin = self.drained().max(start + 2_000) + 500;
        let range = (begin, begin + 3_000);
        let correlation = self.call(call, classes, range.1 + tail - start);
        if let Some(span) = self.timeline.spans.last_mut() {
            span.submits = true;
        }
        let name = if kind == WorkKind::Kernel { self.style.kernels[0] } else { "Memcpy DtoH (Device -> Pageable)" };
        self.free[0] = range.1;
        self.threads[self.at].launches.push(start);
        self.timeline.works.push(Work { kind, name, device: 0, range, correlation, node: 0 });
        let call = (start, self.now());
        let work = self.timeline.works.len() - 1;
        self.launched.push(Launched { work, thread: self.at, call: Some(call), classes: None });
        call
    }

    fn load(&mut self, plant: Plant) {
        let loading: Option<Classes> = Some(&["data_loading"]);
        let line = self.one_of(&["630", "733", "701"]);
        let next = self.style.torch_frame(&format!("utils/data/dataloader.py({line}): __next__"));
        let body = |s: &mut Self| {
            s.frame("/data/pipeline/dataset.py(27): __getitem__", |s| {
                s.starve(80_000, 900_000);
                s.operator("aten::stack", |s| s.spend_some(20_000, 60_000));
            });
            s.spend(900);
        };
        if plant == Plant::LoaderFrame {
            return self.span(SpanKind::Frame, &next, loading, body);
        }
        let names: &[&str] = if self.style.is_kineto() {
            &[
                "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            ]
        } else {
            &["load_batch", "dataloader", "fetch next batch", "Data loading"]
        };
        let name = self.one_of(names);
        self.span(SpanKind::Annotation, name, loading, |s| s.frame(&next, body));
    }

    fn copy(&mut self, plant: Plant) {
        let copying: Option<Classes> = Some(&["copy"]);
        let (kind, name) = (WorkKind::Upload { pageable: true }, "Memcpy HtoD (Pageable -> Device)");
        self.span(SpanKind::Operator, "aten::to", copying, |s| {
            s.span(SpanKind::Operator, "aten::_to_copy", None, |s| {
                s.span(SpanKind::Operator, "aten::copy_", None, |s| {
                    s.starve(60_000, 500_000);
                    let mut sent =
                        Sent { call: "cudaMemcpyAsync", call_ns: 7_000, kind, name, not_before: 0, classes: None };
                    if plant == Plant::PageableCopy {
                        // The driver copies to a buffer of its own before the device can begin.
                        sent.call_ns = s.rng.between(100_000, 400_000);
                    }
                    s.submit(0, sent, 30_000);
                });
            });
        });
    }

    fn allocate(&mut self, plant: Plant) {
        let call = match plant {
            Plant::Malloc => "cudaMalloc",
            Plant::Free => "cudaFree",
            _ => "cudaHostAlloc",
        };
        self.operator("aten::empty", |s| {
            let ns = s.drained() - s.now() + s.rng.between(60_000, 700_000);
            s.call(call, &["allocator"], ns);
            s.spend(400);
        });
    }

    fn compile(&mut self, plant: Plant) {
        let loading: Classes = &["module_load"];
        if plant == Plant::ModuleLoad {
            let call = self.one_of(&["cuModuleLoadData", "cuLibraryLoadData", "cuModuleLoadDataEx"]);
            return self.operator("aten::mm", |s| {
                let ns = s.drained() - s.now() + s.rng.between(60_000, 700_000);
                s.call(call, loading, ns);
            });
        }
        let place = self.one_of(&[
            "_dynamo/convert_frame.py(1064): _compile",
            "_inductor/compile_fx.py(1330): compile_fx",
            "../triton/compiler/compiler.py(245): compile",
        ]);
        let frame = match place.strip_prefix("../") {
            Some(place) => format!("/opt/conda/lib/python3.11/site-packages/{place}"),
            None => self.style.torch_frame(place),
        };
        self.starved(SpanKind::Frame, &frame, Some(loading));
    }

    fn barrier(&mut self, plant: Plant) {
        let waiting: Option<Classes> = Some(&["collective"]);
        if plant == Plant::BarrierFrame {
            let frame = self.style.torch_frame("distributed/distributed_c10d.py(4159): barrier");
            return self.starved(SpanKind::Frame, &frame, waiting);
        }
        let (kind, name) = match self.style.is_kineto() {
            true => (SpanKind::Operator, self.one_of(&["c10d::barrier", "c10d::allreduce_", "record_param_comms"])),
            false => (SpanKind::Annotation, self.one_of(&["ncclAllReduce", "ncclBroadcast"])),
        };
        self.starved(kind, name, waiting);
    }

    /// The second device waits for an event of the first.
    fn depend(&mut self) {
        let long = (self.free[1] - self.free[0]).max(0) + self.rng.between(200_000, 700_000);
        let sent = self.kernel_call();
        self.submit(0, sent, long);
        self.order(1, 0);
        let not_before = self.free[0] + self.rng.between(200, 900);
        let sent = Sent { not_before, classes: Some(&["dependency"]), ..self.kernel_call() };
        self.submit(1, sent, 140_000);
    }

    /// A CUDA graph with gaps between its nodes where they are recorded, and Python after it.
    fn graph(&mut self) {
        let name = self.style.kernels[0];
        let is_whole = self.style.recorder == Recorder::Nsys(Schema::V2026);
        let kind = if is_whole { WorkKind::Graph } else { WorkKind::Kernel };
        let late = self.rng.between(0, 2) * self.rng.between(60_000, 200_000);
        let classes: Classes = if late > 0 { &["graph"] } else { &["graph", "launch_latency"] };
        let not_before = self.free[0] + late;
        let sent = Sent { call: "cudaGraphLaunch", call_ns: 9_000, kind, name, not_before, classes: Some(classes) };
        self.submit(0, sent, 45_000);
        let first = self.timeline.works.len() - 1;
        if !is_whole {
            self.timeline.works[first].node = 1;
            let launch = self.launched[self.launched.len() - 1];
            for node in 2..9 {
                let begin = self.free[0] + self.rng.between(2_000, 28_000);
                let range = (begin, begin + self.rng.between(20_000, 70_000));
                self.timeline.works.push(Work { range, node, ..self.timeline.works[first] });
                let work = self.timeline.works.len() - 1;
                self.launched.push(Launched { work, classes: Some(&["graph"]), ..launch });
                self.free[0] = range.1;
            }
        }
        self.graph_ends.push(self.free[0]);
        self.starve(60_000, 300_000);
    }

    /// Work whose launch was not recorded.
    fn no_launch(&mut self) {
        let ns = self.drained() + self.rng.between(60_000, 400_000) - self.now();
        self.spend(ns);
        let range = (self.now() - 100, self.now() + 150_000);
        self.free[0] = range.1;
        let correlation = UNRECORDED + self.timeline.works.len() as u64;
        let name = self.style.kernels[0];
        self.timeline.works.push(Work { kind: WorkKind::Kernel, name, device: 0, range, correlation, node: 0 });
        let work = self.timeline.works.len() - 1;
        self.launched.push(Launched { work, thread: 0, call: None, classes: None });
    }

    /// The profiler keeps the thread from before the devices ran out of work until it goes on.
    fn overhead(&mut self) {
        let name = match self.style.is_kineto() {
            true => self.one_of(&["Buffer Flush", "Activity Buffer Request"]),
            false => "CUDA profiling data flush overhead",
        };
        self.starved(SpanKind::Overhead, name, Some(&["profiler"]));
    }

    /// Kernels shorter than their launches.
    fn launch_bound(&mut self) {
        self.starve(5_000, 20_000);
        for _ in 0..26 {
            self.operator("aten::mul", |s| {
                s.spend_some(5_000, 14_000);
                let ns = s.rng.between(1_500, 3_500);
                s.kernel(ns);
            });
        }
    }
}
