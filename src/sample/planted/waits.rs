//! The waits of the device, plant by plant.

use super::super::nsys::Schema;
use super::plants::Plant;
use super::script::{Classes, Launched, Script, Sent};
use super::style::Recorder;
use super::timeline::{SpanKind, UNRECORDED, Work, WorkKind};

impl Script {
    /// A host event that lasts until the devices have been idle for a while.
    pub fn starved(&mut self, kind: SpanKind, name: &str, classes: Option<Classes>) {
        self.span(kind, name, classes, |s| s.starve(50_000, 900_000));
    }

    /// Synchronizations, with some Python after them.
    pub fn wait(&mut self, plant: Plant) {
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

    pub fn blocking_copy(&mut self) {
        let tail = self.rng.between(60_000, 300_000);
        let (start, end) = self.slow_submit("cudaMemcpy", WorkKind::Download, &["sync"], tail);
        self.threads[self.at].syncs.push((start, end));
    }

    /// Work that runs while its launching call still does, which returns `tail` ns after the work is done; returns
    /// the range of the call.
    pub fn slow_submit(&mut self, call: &'static str, kind: WorkKind, classes: Classes, tail: i64) -> (i64, i64) {
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

    pub fn load(&mut self, plant: Plant) {
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

    pub fn copy(&mut self, plant: Plant) {
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

    pub fn allocate(&mut self, plant: Plant) {
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

    pub fn compile(&mut self, plant: Plant) {
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

    pub fn barrier(&mut self, plant: Plant) {
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
    pub fn depend(&mut self) {
        let long = (self.free[1] - self.free[0]).max(0) + self.rng.between(200_000, 700_000);
        let sent = self.kernel_call();
        self.submit(0, sent, long);
        self.order(1, 0);
        let not_before = self.free[0] + self.rng.between(200, 900);
        let sent = Sent { not_before, classes: Some(&["dependency"]), ..self.kernel_call() };
        self.submit(1, sent, 140_000);
    }

    /// A CUDA graph with gaps between its nodes where they are recorded, and Python after it.
    pub fn graph(&mut self) {
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
    pub fn no_launch(&mut self) {
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
    pub fn overhead(&mut self) {
        let name = match self.style.is_kineto() {
            true => self.one_of(&["Buffer Flush", "Activity Buffer Request"]),
            false => "CUDA profiling data flush overhead",
        };
        self.starved(SpanKind::Overhead, name, Some(&["profiler"]));
    }

    /// Kernels shorter than their launches.
    pub fn launch_bound(&mut self) {
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
