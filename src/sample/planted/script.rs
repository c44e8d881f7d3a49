//! The threads and devices of a planted run: every nanosecond of a thread has its acceptable classes.

use super::super::answer::{Class, DeviceGapsAnswer};
use super::super::rng::Rng;
use super::Shape;
use super::expected;
use super::style::{AUTOGRAD, LOADER, MAIN, Style};
use super::timeline::{Range, Span, SpanKind, StreamWait, Timeline, Work, WorkKind};

/// Classes that a correct analysis may give to some time; more than one where the definitions leave it open.
pub type Classes = &'static [Class];

/// Some time of a thread.
#[derive(Clone, Debug)]
pub struct Tile {
    pub range: Range,
    pub classes: Classes,
    /// Whether a plant says so, and not the default for what is open.
    pub is_planted: bool,
    /// Names of all that is open, any of which may be given as the name of this time.
    pub names: Vec<String>,
    /// The innermost open frame of the user's program; where a thread other than the main one has none, that of
    /// the main thread may be given as well.
    pub frames: Vec<Option<String>>,
}

/// An open host event.
#[derive(Debug)]
struct Open {
    kind: SpanKind,
    name: String,
    classes: Option<Classes>,
}

/// A host thread.
#[derive(Debug)]
pub struct Thread {
    pub tid: i64,
    pub now: i64,
    open: Vec<Open>,
    pub tiles: Vec<Tile>,
    /// Starts of calls that send work to a device.
    pub launches: Vec<i64>,
    /// Calls that wait for a device.
    pub syncs: Vec<Range>,
}

/// How work came to its device, beside what is recorded of it.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    /// Index into [`Timeline::works`].
    pub work: usize,
    /// Index into [`Script::threads`].
    pub thread: usize,
    /// The launching call; `None` if it is not recorded.
    pub call: Option<Range>,
    /// Classes of the time from the launch on, where they are not the usual ones.
    pub classes: Option<Classes>,
}

/// The run as it unfolds.
#[derive(Debug)]
pub struct Script {
    pub style: Style,
    pub rng: Rng,
    /// What names are drawn from: from the same start in every step.
    pub names: Rng,
    /// What the plants draw from.
    pub plant_rng: Rng,
    pub plant_names: Rng,
    pub timeline: Timeline,
    pub threads: Vec<Thread>,
    /// The thread that acts, an index into `threads`.
    pub at: usize,
    /// When each device is free.
    pub free: Vec<i64>,
    pub launched: Vec<Launched>,
    /// Ends of steps.
    pub boundaries: Vec<i64>,
    /// Ends of CUDA graphs.
    pub graph_ends: Vec<i64>,
    correlation: u64,
}

/// The time before the first event.
const START: i64 = 2_000_000;

impl Script {
    /// Runs the whole program; returns what can be recorded and the gaps of each device.
    pub fn run(shape: Shape, style: Style) -> (Timeline, Vec<DeviceGapsAnswer>) {
        let thread = |tid| Thread {
            tid,
            now: START,
            open: Vec::new(),
            tiles: Vec::new(),
            launches: Vec::new(),
            syncs: Vec::new(),
        };
        let mut script = Self {
            rng: Rng::new(shape.seed),
            names: Rng::new(shape.seed),
            plant_rng: Rng::new(shape.seed ^ 0x9_1a27),
            plant_names: Rng::new(shape.seed),
            timeline: Timeline::default(),
            threads: vec![thread(MAIN), thread(AUTOGRAD), thread(LOADER)],
            at: 0,
            free: vec![START; style.n_devices],
            launched: Vec::new(),
            boundaries: Vec::new(),
            graph_ends: Vec::new(),
            correlation: 100,
            style,
        };
        script.train(shape.steps, shape.plan);
        let gaps = expected::devices(&script);
        (script.timeline, gaps)
    }

    pub fn now(&self) -> i64 {
        self.threads[self.at].now
    }

    pub fn tid(&self) -> i64 {
        self.threads[self.at].tid
    }

    /// Whether the recorder keeps this kind of event.
    pub fn keeps(&self, kind: SpanKind) -> bool {
        match kind {
            SpanKind::Operator => self.style.has_operators,
            SpanKind::Frame => self.style.has_stack && self.at == 0,
            SpanKind::Os => self.style.has_os,
            _ => true,
        }
    }

    /// Lets the thread work for `ns` at what is open.
    pub fn spend(&mut self, ns: i64) {
        let (classes, is_planted) = self.classes();
        let is_user = |open: &&Open| open.kind == SpanKind::Frame && is_user(&open.name);
        let frame = |thread: &Thread| thread.open.iter().rev().find(is_user).map(|open| open.name.clone());
        let mut frames = vec![frame(&self.threads[self.at])];
        if self.at > 0 {
            frames.push(frame(&self.threads[0]));
        }
        let thread = &mut self.threads[self.at];
        let names = thread.open.iter().map(|open| open.name.clone()).collect();
        let range = (thread.now, thread.now + ns);
        thread.now += ns;
        thread.tiles.push(Tile { range, classes, is_planted, names, frames });
    }

    /// Between `low` and `high` ns.
    pub fn spend_some(&mut self, low: i64, high: i64) {
        let ns = self.rng.between(low, high);
        self.spend(ns);
    }

    /// Until the devices have been idle for `low..high` ns.
    pub fn starve(&mut self, low: i64, high: i64) {
        let ns = self.rng.between(low, high) + self.drained() - self.now();
        self.spend(ns.max(500));
    }

    /// When the last device runs out of work, or now.
    pub fn drained(&self) -> i64 {
        self.free.iter().copied().max().unwrap_or_default().max(self.now())
    }

    /// The classes of what is open, and whether a plant says so: a call of the runtime, else the outermost event
    /// with classes of its own, else operators before frames.
    fn classes(&self) -> (Classes, bool) {
        let open = &self.threads[self.at].open;
        let is_call = |open: &&Open| matches!(open.kind, SpanKind::Runtime | SpanKind::Driver);
        if let Some(classes) = open.last().filter(is_call).and_then(|call| call.classes) {
            return (classes, true);
        }
        if let Some(classes) = open.iter().find_map(|open| open.classes) {
            return (classes, true);
        }
        let has = |kind| open.iter().any(|open| open.kind == kind);
        let is_range = |open: &Open| open.kind == SpanKind::Annotation && !is_step(&open.name);
        let default: Classes = match () {
            // A range of NVTX with the name of an operator may count as one.
            () if has(SpanKind::Operator) && !self.style.is_kineto() => &["cpu_op", "python", "unknown"],
            () if has(SpanKind::Operator) => &["cpu_op"],
            () if has(SpanKind::Frame) => &["python"],
            () if open.iter().any(is_range) => &["unknown", "python", "cpu_op"],
            () => &["unknown"],
        };
        (default, false)
    }

    /// A host event around `body`. Its time, that of inner events included, is of `classes` unless an outer event
    /// has classes; what the recorder does not keep has no effect.
    pub fn span(&mut self, kind: SpanKind, name: &str, classes: Option<Classes>, body: impl FnOnce(&mut Self)) {
        if !self.keeps(kind) {
            return body(self);
        }
        let start = self.now();
        self.threads[self.at].open.push(Open { kind, name: name.to_owned(), classes });
        body(self);
        let range = (start, self.now());
        self.threads[self.at].open.pop();
        let tid = self.tid();
        let name = name.to_owned();
        self.timeline.spans.push(Span { kind, name, tid, range, correlation: 0, submits: false });
    }

    pub fn operator(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.span(SpanKind::Operator, name, None, |s| {
            s.spend_some(300, 900);
            body(s);
            s.spend_some(200, 700);
        });
    }

    pub fn frame(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.span(SpanKind::Frame, name, None, body);
    }

    /// A call of the runtime or, by its name, the driver, that takes `ns`; returns its correlation id.
    pub fn call(&mut self, cuda: &str, classes: Classes, ns: i64) -> u64 {
        let name = self.style.call(cuda);
        let kind =
            if name.starts_with("cu") && !name.starts_with("cuda") { SpanKind::Driver } else { SpanKind::Runtime };
        self.span(kind, &name, Some(classes), |s| s.spend(ns));
        self.correlation += 1;
        let correlation = self.correlation;
        if let Some(span) = self.timeline.spans.last_mut() {
            span.correlation = correlation;
        }
        correlation
    }

    /// A call that waits until `until`, which counts as a synchronization.
    pub fn sync(&mut self, cuda: &str, until: i64) {
        let start = self.now();
        self.call(cuda, &["sync"], (until - start).max(900));
        let end = self.now();
        self.threads[self.at].syncs.push((start, end));
    }

    /// Sends work of `ns` to a device by a call that takes `call_ns`. It runs once the call returned, the device is
    /// free and `not_before` is past.
    pub fn submit(&mut self, device: usize, sent: Sent, ns: i64) -> Range {
        let Sent { call, call_ns, kind, name, not_before, classes } = sent;
        let start = self.now();
        let of_call: Classes = match kind {
            WorkKind::Kernel | WorkKind::Graph => &["launch"],
            WorkKind::Upload { .. } => &["copy"],
            // A copy to pageable memory waits as well.
            WorkKind::Download => &["copy", "sync"],
        };
        let correlation = self.call(call, of_call, call_ns);
        if let Some(span) = self.timeline.spans.last_mut() {
            span.submits = true;
        }
        let end = self.now();
        self.threads[self.at].launches.push(start);
        let latency = self.rng.between(200, 900);
        let after_last = self.free[device] + self.rng.between(60, 950);
        let begin = (end + latency).max(after_last).max(not_before);
        let range = (begin, begin + ns);
        self.free[device] = range.1;
        self.timeline.works.push(Work { kind, name, device, range, correlation, node: 0 });
        let work = self.timeline.works.len() - 1;
        self.launched.push(Launched { work, thread: self.at, call: Some((start, end)), classes });
        range
    }

    /// Sends a kernel of `ns` to every device.
    pub fn kernel(&mut self, ns: i64) {
        for device in 0..self.style.n_devices {
            let sent = self.kernel_call();
            self.submit(device, sent, ns);
        }
    }

    /// An ordinary launch of a kernel: every step has the same sequence of them.
    pub fn kernel_call(&mut self) -> Sent {
        let call = if self.style.is_driver && !self.style.is_hip { "cuLaunchKernel" } else { "cudaLaunchKernel" };
        let at = self.names.between(0, self.style.kernels.len() as i64) as usize;
        let name = self.style.kernels[at];
        Sent {
            call,
            call_ns: self.rng.between(3_000, 5_500),
            kind: WorkKind::Kernel,
            name,
            not_before: 0,
            classes: None,
        }
    }

    /// Makes the next work on `waiter` wait for what `producer` has so far.
    pub fn order(&mut self, waiter: usize, producer: usize) {
        let record = self.call("cudaEventRecord", &["cpu_op", "launch", "python", "unknown"], 900);
        let correlation = self.call("cudaStreamWaitEvent", &["cpu_op", "launch", "python", "unknown"], 1_100);
        let range = (self.now() - 1_000, self.now() - 100);
        self.timeline.waits.push(StreamWait { waiter, producer, range, correlation, record });
    }
}

/// A way to send work to a device.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub call: &'static str,
    pub call_ns: i64,
    pub kind: WorkKind,
    pub name: &'static str,
    pub not_before: i64,
    pub classes: Option<Classes>,
}

/// Whether this is the range of a step.
pub fn is_step(name: &str) -> bool {
    ["ProfilerStep#", "step ", "train_iter_"].iter().any(|step| name.starts_with(step))
}

/// Whether a Python frame is of the user's program; the run knows its libraries.
fn is_user(frame: &str) -> bool {
    !frame.starts_with('<') && !frame.contains("torch/") && !frame.contains("site-packages") && frame.contains("): ")
}
