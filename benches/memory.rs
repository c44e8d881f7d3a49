//! What does a frame of "Memory over time" cost with a million allocation events, and how long does
//! its picture take in the background?
//!
//! Prints the median CPU time of a frame (layout and painting, then tessellation; without the upload
//! to a GPU) at several zooms, at rest and while panning, and the time until a new picture is there.
//! `cargo bench --bench memory`; a number after `--` sets the events.

#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::{Context, RawInput, Rect, Ui, pos2, vec2};
use lacuna::model::memory::{MemoryAction, MemoryEvent, MemoryPool, PoolId, RawMemory};
use lacuna::model::{StackId, TimeNs, TimeRange, TraceBuilder};
use lacuna::view::memory::MemoryOverTime;
use lacuna::view::{Navigation, OpenTrace, Selection, View as _, ViewContext};

const N_FRAMES: usize = 31;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Events as they come, each some microseconds after the last.
struct Recorder {
    raw: RawMemory,
    pool: PoolId,
    stacks: Vec<StackId>,
    now: TimeNs,
    next_addr: u64,
    random: Random,
}

impl Recorder {
    fn new(builder: &mut TraceBuilder) -> Self {
        let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
        let pool = raw.pool(MemoryPool::default());
        let stack = |i: u32| {
            let outer = builder.strings.intern(&format!("train (/home/user/train.py:{})", 10 + i % 7));
            let outer = builder.stacks.intern(StackId(0), outer);
            let own = builder.strings.intern(&format!("forward (/home/user/model.py:{})", 20 + i));
            let own = builder.stacks.intern(outer, own);
            let inner = builder.strings.intern("linear (/x/site-packages/torch/nn/functional.py:1)");
            builder.stacks.intern(own, inner)
        };
        let stacks = (0..200).map(stack).collect();
        Self { raw, pool, stacks, now: 0, next_addr: 1 << 40, random: Random(1) }
    }

    fn event(&mut self, action: MemoryAction, addr: u64, bytes: u64, stack: usize) {
        self.now += 1_000 + self.random.below(9_000) as TimeNs;
        let stack = self.stacks[stack % self.stacks.len()];
        self.raw.events.push(MemoryEvent { ts: self.now, action, addr, bytes, pool: self.pool, stack });
    }

    fn alloc(&mut self, bytes: u64, stack: usize) -> (u64, u64) {
        let addr = self.next_addr;
        self.next_addr += bytes.next_multiple_of(512);
        self.event(MemoryAction::Alloc, addr, bytes, stack);
        (addr, bytes)
    }

    fn free(&mut self, (addr, bytes): (u64, u64)) {
        self.event(MemoryAction::FreeRequested, addr, bytes, 0);
        self.event(MemoryAction::FreeCompleted, addr, bytes, 0);
    }

    /// Parameters, then steps: activations that are freed in reverse, with temporaries in between.
    fn train(&mut self, n_events: usize) {
        for i in 0..400 {
            let bytes = 512 << self.random.below(14);
            self.alloc(bytes, i % 20);
        }
        while self.raw.events.len() < n_events {
            let mut activations = Vec::new();
            for layer in 0..96 {
                for i in 0..6 {
                    let bytes = (1 << 18) + 512 * self.random.below(4_000);
                    activations.push(self.alloc(bytes, layer + i));
                }
                let bytes = (1 << 20) + 512 * self.random.below(9_000);
                let temporary = self.alloc(bytes, layer + 100);
                self.free(temporary);
            }
            let mut gradients = Vec::new();
            while let Some(activation) = activations.pop() {
                if activations.len().is_multiple_of(6) {
                    let bytes = 512 << self.random.below(12);
                    gradients.push(self.alloc(bytes, activations.len() + 50));
                }
                self.free(activation);
            }
            gradients.into_iter().for_each(|gradient| self.free(gradient));
        }
    }

    /// Blocks of any size that live for any time.
    fn random(&mut self, n_events: usize) {
        let mut live = Vec::new();
        while self.raw.events.len() < n_events {
            if live.len() < 20_000 && self.random.below(100) < 52 {
                let bytes = 512 << self.random.below(13);
                let stack = self.random.below(200) as usize;
                live.push(self.alloc(bytes, stack));
            } else if !live.is_empty() {
                let at = self.random.below(live.len() as u64) as usize;
                let block = live.swap_remove(at);
                self.free(block);
            }
        }
    }
}

fn trace(n_events: usize, is_random: bool) -> TraceBuilder {
    let mut builder = TraceBuilder::default();
    let mut recorder = Recorder::new(&mut builder);
    if is_random {
        recorder.random(n_events);
    } else {
        recorder.train(n_events);
    }
    builder.memories.push(recorder.raw);
    builder
}

struct Bench {
    traces: Vec<OpenTrace>,
    span: TimeRange,
    navigation: Navigation,
    view: MemoryOverTime,
    egui: Context,
    time: f64,
}

impl Bench {
    /// One frame; (ui, tessellation).
    fn frame(&mut self) -> (Duration, Duration) {
        let screen_rect = Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(1920.0, 1080.0)));
        self.time += 1.0 / 60.0;
        let start = Instant::now();
        let egui = self.egui.clone();
        let input =
            RawInput { screen_rect, time: Some(self.time), max_texture_side: Some(16_384), ..RawInput::default() };
        let mut output = egui.run_ui(input, |ui| self.ui(ui));
        let ui = start.elapsed();
        output.textures_delta.clear();
        let start = Instant::now();
        let primitives = self.egui.tessellate(output.shapes, output.pixels_per_point);
        std::hint::black_box(primitives);
        (ui, start.elapsed())
    }

    fn ui(&mut self, ui: &mut Ui) {
        let mut ctx = ViewContext {
            traces: &self.traces,
            span: self.span,
            navigation: &mut self.navigation,
            selection: &mut Selection::None,
            range: &mut None,
            marks: &mut Vec::new(),
            hits: &[],
            memory: &mut Default::default(),
            is_one_clock: true,
            is_dark: true,
            commands: &mut Vec::new(),
        };
        self.view.ui(&mut ctx, ui);
    }

    /// Frames until the picture for what is on show is there; how long that takes.
    fn settle(&mut self) -> Duration {
        let start = Instant::now();
        self.frame();
        while self.view.is_pending() {
            std::thread::sleep(Duration::from_micros(200));
            self.frame();
        }
        start.elapsed()
    }

    /// Median frame, worst frame, and the most that the processor spent on one, in milliseconds, with `step`
    /// before each: the frame's thread may have to wait while others make the next picture.
    fn measure(&mut self, mut step: impl FnMut(&mut Navigation)) -> String {
        let mut most = Duration::ZERO;
        let mut times: Vec<[f64; 3]> = (0..N_FRAMES)
            .map(|_| {
                step(&mut self.navigation);
                let before = on_processor();
                let (ui, tessellation) = self.frame();
                most = most.max(on_processor() - before);
                // As a window at 60 frames a second has it: the worker has the time in between.
                std::thread::sleep(Duration::from_millis(12));
                [ui + tessellation, ui, tessellation].map(|time| time.as_secs_f64() * 1e3)
            })
            .collect();
        times.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let [total, ui, tessellation] = times[N_FRAMES / 2];
        let worst = times[N_FRAMES - 1][0];
        let most = most.as_secs_f64() * 1e3;
        format!("{total:6.2} ms (ui {ui:5.2}, tessellation {tessellation:5.2}), worst {worst:6.2}, on CPU {most:6.2}")
    }
}

/// What the processor has spent on this thread; all time where the system does not say.
fn on_processor() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        START.elapsed()
    }
}

fn main() {
    let n_events = std::env::args().filter_map(|arg| arg.parse::<usize>().ok()).next_back().unwrap_or(1_000_000);
    for (name, is_random) in [("train-like", false), ("random", true)] {
        let start = Instant::now();
        let builder = trace(n_events, is_random);
        let trace = Arc::new(builder.finish());
        let history = &trace.memories[0];
        let n = history.allocations.len();
        println!("{name}: {} events, {n} allocations, made in {:.1?}", history.events.len(), start.elapsed());
        let span = trace.span;
        let traces = vec![OpenTrace { trace, offset: 0 }];
        let (navigation, view, egui) = (Navigation::default(), MemoryOverTime::default(), Context::default());
        let mut bench = Bench { traces, span, navigation, view, egui, time: 0.0 };
        bench.frame();
        println!("  first picture after {:.1?}", bench.settle());
        let middle = span.start + span.dur() / 2;
        let mut dur = span.dur();
        while dur > 10_000 {
            let view = TimeRange { start: middle - dur / 2, end: middle - dur / 2 + dur };
            // A view that is new each time, so that each has a picture made.
            let mut pictures: Vec<f64> = (0..9)
                .map(|i| {
                    bench.navigation.glide(view.shifted(i * (dur / 500).max(1)));
                    bench.settle().as_secs_f64() * 1e3
                })
                .collect();
            pictures.sort_by(f64::total_cmp);
            bench.navigation.glide(view);
            bench.settle();
            let rest = bench.measure(|_| {});
            let pan = bench.measure(|navigation| navigation.glide(navigation.visible().shifted((dur / 100).max(1))));
            println!(
                "{:>10} ns/px  picture {:6.1} ms\n{:>17} rest {rest}\n{:>17} pan  {pan}",
                dur / 1840,
                pictures[4],
                "",
                ""
            );
            dur /= 8;
        }
    }
}
