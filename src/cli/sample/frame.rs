//! What does the host do between launches? Annotations, operators and Python frames, nested.

use super::emit::Place;
use super::kineto::{PID, Run};

/// The frame that waits so that the host does not run too far ahead.
pub(super) const EVENT_SYNC: &str = "torch/cuda/streams.py(225): synchronize";

impl Run {
    /// Opens a Python frame; [`Self::close_frame`] writes it.
    pub fn open_frame(&mut self) -> i64 {
        self.frames.push(self.next_python);
        self.next_python += 1;
        self.now
    }

    /// Closes the innermost Python frame, opened at `start`.
    pub fn close_frame(&mut self, start: i64, name: &str) {
        let id = self.frames.pop().unwrap_or_default();
        let parent = self.frames.last().map_or_else(|| "null".to_owned(), u64::to_string);
        let index = self.index();
        let args = format!("\"Python parent id\": {parent}, \"Python id\": {id}, \"Ev Idx\": {index}");
        self.emit.slice("python_function", name, Place { pid: &PID, tid: &PID }, (start, self.now), &args);
    }

    /// A Python frame around `body`.
    pub fn frame(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let start = self.open_frame();
        self.spend(300, 1_200);
        body(self);
        self.spend(200, 700);
        self.close_frame(start, name);
    }

    /// A `record_function` range around `body`.
    pub fn annotation(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.record("user_annotation", name, "", body);
    }

    /// An operator around `body`; `inputs` is the JSON text of its input shapes.
    pub fn operator(&mut self, name: &str, inputs: &str, body: impl FnOnce(&mut Self)) {
        let args = match inputs {
            "" => String::new(),
            inputs => format!(", \"Input Dims\": {inputs}"),
        };
        self.record("cpu_op", name, &args, body);
    }

    /// A step of the backward pass around `body`.
    pub fn backward_node(&mut self, name: &str, sequence: u64, body: impl FnOnce(&mut Self)) {
        self.record("cpu_op", name, &format!(", \"Sequence number\": {sequence}, \"Fwd thread id\": 1"), body);
    }

    fn record(&mut self, cat: &str, name: &str, args: &str, body: impl FnOnce(&mut Self)) {
        let (start, id) = (self.now, self.next_external);
        self.next_external += 1;
        self.operators.push(id);
        self.spend(400, 1_600);
        body(self);
        self.spend(200, 900);
        self.operators.pop();
        let index = self.index();
        let args = format!("\"External id\": {id},\"Record function id\": {id}{args}, \"Ev Idx\": {index}");
        let place = Place { pid: &PID, tid: &self.tid };
        self.emit.slice(cat, name, place, (start, self.now), &args);
    }

    /// Takes (or with a negative number gives back) device memory from PyTorch's allocator.
    pub fn allocate(&mut self, bytes: i64) {
        const RESERVED: i64 = 12 << 30;
        self.allocated += bytes;
        let (allocated, index) = (self.allocated, self.index());
        let address = 0x7f12_0000_0000_i64 + (index as i64 % 4096) * 0x20_0000;
        let args = format!(
            "\"Total Reserved\": {RESERVED}, \"Total Allocated\": {allocated}, \"Bytes\": {bytes}, \"Addr\": {address}, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": {index}"
        );
        self.emit.memory(Place { pid: &PID, tid: &self.tid }, self.now, &args);
    }
}
