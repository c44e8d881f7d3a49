//! Host side of the simulated training: annotations, operators and Python frames, nested.

use super::Run;
use super::event::Event;

/// The frame that waits so that the host does not run too far ahead.
pub const EVENT_SYNC: &str = "torch/cuda/streams.py(225): synchronize";

impl Run<'_> {
    /// Opens a Python frame; [`Self::close_frame`] records it.
    pub fn open_frame(&mut self) -> i64 {
        self.frames.push(self.next_python);
        self.next_python += 1;
        self.now
    }

    /// Closes the innermost Python frame, opened at `start`.
    pub fn close_frame(&mut self, start: i64, name: &str) {
        let id = self.frames.pop().unwrap_or_default();
        let (parent, index) = (self.frames.last().copied(), self.index());
        self.recorder.record(&Event::Frame { name, range: (start, self.now), id, parent, index });
    }

    /// A Python frame around `body`.
    pub fn frame(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let start = self.open_frame();
        self.spend(300, 1_200);
        body(self);
        self.spend(200, 700);
        self.close_frame(start, name);
    }

    /// A part of a step around `body`. Takes no time itself.
    pub fn phase(&mut self, name: &'static str, body: impl FnOnce(&mut Self)) {
        let start = self.now;
        body(self);
        self.recorder.record(&Event::Phase { name, range: (start, self.now) });
    }

    /// A `record_function` range around `body`.
    pub fn annotation(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let tid = self.tid;
        let (external, range, index) = self.external(body);
        self.recorder.record(&Event::Annotation { name, tid, range, external, index });
    }

    /// An operator around `body`; `inputs` is the JSON text of its input shapes.
    pub fn operator(&mut self, name: &str, inputs: &str, body: impl FnOnce(&mut Self)) {
        let tid = self.tid;
        let (external, range, index) = self.external(body);
        self.recorder.record(&Event::Operator { name, tid, range, external, inputs, index });
    }

    /// A step of the backward pass around `body`.
    pub fn backward_node(&mut self, name: &str, sequence: u64, body: impl FnOnce(&mut Self)) {
        let tid = self.tid;
        let (external, range, index) = self.external(body);
        self.recorder.record(&Event::BackwardNode { name, tid, range, external, sequence, index });
    }

    /// Runs `body` under an external id of its own; returns that id, the time it took and its index.
    fn external(&mut self, body: impl FnOnce(&mut Self)) -> (u64, (i64, i64), u64) {
        let (start, id) = (self.now, self.next_external);
        self.next_external += 1;
        self.operators.push(id);
        self.spend(400, 1_600);
        body(self);
        self.spend(200, 900);
        self.operators.pop();
        (id, (start, self.now), self.index())
    }

    /// Takes (or with a negative number gives back) device memory from PyTorch's allocator.
    pub fn allocate(&mut self, bytes: i64) {
        self.allocated += bytes;
        let (tid, at, allocated, index) = (self.tid, self.now, self.allocated, self.index());
        self.recorder.record(&Event::Allocation { tid, at, bytes, allocated, index });
    }
}
