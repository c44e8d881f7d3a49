//! Memory histories from a handful of events, for tests.

use crate::model::memory::{
    MemoryAction, MemoryAnnotation, MemoryEvent, MemoryHistory, MemoryNote, MemoryPool, OutOfMemory, PoolId, RawMemory,
};
use crate::model::{StackId, TimeNs, Trace, TraceBuilder};

/// Builds a recording event by event, 10 ns apart.
pub struct Script {
    pub builder: TraceBuilder,
    pub raw: RawMemory,
    pub pool: PoolId,
}

impl Default for Script {
    fn default() -> Self {
        let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
        let pool = raw.pool(MemoryPool::default());
        Self { builder: TraceBuilder::default(), raw, pool }
    }
}

impl Script {
    /// The stack of these frames, innermost first.
    pub fn stack(&mut self, frames: &[&str]) -> StackId {
        frames.iter().rev().fold(StackId::default(), |callers, frame| {
            let frame = self.builder.strings.intern(frame);
            self.builder.stacks.intern(callers, frame)
        })
    }

    /// The time of the next event.
    pub fn now(&self) -> TimeNs {
        10 * self.raw.events.len() as TimeNs
    }

    pub fn event(&mut self, action: MemoryAction, addr: u64, bytes: u64, stack: StackId) -> u32 {
        let (ts, pool) = (self.now(), self.pool);
        self.raw.events.push(MemoryEvent { ts, action, addr, bytes, pool, stack });
        self.raw.events.len() as u32 - 1
    }

    pub fn alloc(&mut self, addr: u64, bytes: u64, stack: StackId) -> u32 {
        self.event(MemoryAction::Alloc, addr, bytes, stack)
    }

    pub fn free(&mut self, addr: u64, bytes: u64) -> u32 {
        self.event(MemoryAction::FreeCompleted, addr, bytes, StackId::default())
    }

    pub fn note(&mut self, event: u32, key: &str, text: &str) {
        let (key, text) = (self.builder.strings.intern(key), self.builder.strings.intern(text));
        self.raw.notes.push(MemoryNote { event, key, text });
    }

    pub fn oom(&mut self, requested: u64, device_free: Option<u64>) {
        let event = self.event(MemoryAction::OutOfMemory, 0, requested, StackId::default());
        self.raw.ooms.push(OutOfMemory { event, requested, device_free });
    }

    /// Adds an annotation.
    pub fn annotate(&mut self, name: &str, start: TimeNs, end: TimeNs) {
        let name = self.builder.strings.intern(name);
        self.raw.annotations.push(MemoryAnnotation { name, start, end, has_end: true });
    }

    pub fn finish(mut self) -> Trace {
        self.builder.memories.push(self.raw);
        self.builder.finish()
    }
}

/// The first history of a trace.
pub fn history(trace: &Trace) -> &MemoryHistory {
    &trace.memories[0]
}
