//! The training loop and what keeps its devices waiting.

use super::super::nsys::Schema;
use super::GapPlan;
use super::script::{Script, Sent};
use super::style::{AUTOGRAD, LOADER, Recorder};
use super::timeline::{Span, SpanKind, WorkKind};

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
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
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
}
