//! Cost of a frame of "Memory over time" with a million allocation events, and of its picture in the
//! background.
//!
//! Prints the median CPU time of a frame (layout and painting, then tessellation) at several zooms, at rest and while
//! panning, and the time until a new picture is there. `cargo bench --bench memory`; a number after `--` sets the
//! events, and `gl` has OpenGL draw each frame as well, as the window does.

#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

#[path = "common/frame.rs"]
mod frame;

use std::time::Instant;

use frame::Bench;
use lacuna::model::memory::{MemoryAction, MemoryEvent, MemoryPool, PoolId, RawMemory};
use lacuna::model::{StackId, TimeNs, TimeRange, TraceBuilder};
use lacuna::view::memory;

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

fn main() {
    let n_events = std::env::args().filter_map(|arg| arg.parse::<usize>().ok()).next_back().unwrap_or(1_000_000);
    for (name, is_random) in [("train-like", false), ("random", true)] {
        let start = Instant::now();
        let builder = trace(n_events, is_random);
        let trace = builder.finish();
        let history = &trace.memories[0];
        let n = history.allocations.len();
        println!("{name}: {} events, {n} allocations, made in {:.1?}", history.events.len(), start.elapsed());
        let mut bench = Bench::new(trace, &memory::OVER_TIME);
        let span = bench.session.span();
        bench.frame();
        println!("  first picture after {:.1?}", bench.settle());
        let middle = span.start + span.dur() / 2;
        let mut dur = span.dur();
        while dur > 10_000 {
            let view = TimeRange { start: middle - dur / 2, end: middle - dur / 2 + dur };
            // A view that is new each time, so that each has a picture made.
            let mut pictures: Vec<f64> = (0..9)
                .map(|i| {
                    bench.session.navigation.glide(view.shifted(i * (dur / 500).max(1)));
                    bench.settle().as_secs_f64() * 1e3
                })
                .collect();
            pictures.sort_by(f64::total_cmp);
            bench.session.navigation.glide(view);
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
