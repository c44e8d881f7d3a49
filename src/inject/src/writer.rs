//! The thread that writes: it takes what is in the inbox and appends it to the trace.

mod names;
mod records;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::inbox::Buffer;
use super::nvtx::NvtxEvent;
use super::nvtx_writer::NvtxWriter;
use super::recorder::Recorder;
use super::trace_file::TraceFile;
use super::{clock, devices, end, json};
use records::RecordWriter;

/// How long a signal waits at most to be seen.
const LOOK: Duration = Duration::from_millis(50);

/// Writes until the recording is to finish.
pub fn run(recorder: &'static Recorder) {
    let mut writer = Writer::new(recorder);
    if catch_unwind(AssertUnwindSafe(|| writer.run())).is_err() {
        recorder.update(|status| status.problems.push("The recorder failed; the recording ended early".to_owned()));
    }
    recorder.inbox.set_finished();
    if let Some(signal) = end::signal() {
        end::end_by(signal);
    }
}

struct Writer {
    recorder: &'static Recorder,
    file: TraceFile,
    records: RecordWriter,
    nvtx: NvtxWriter,
    domains: Vec<String>,
    n_dropped: u64,
    /// When libcupti was asked for what it has.
    flushed: Instant,
}

impl Writer {
    fn new(recorder: &'static Recorder) -> Self {
        Self {
            recorder,
            file: TraceFile::new(&recorder.folder, std::process::id()),
            records: RecordWriter::default(),
            nvtx: NvtxWriter::default(),
            domains: Vec::new(),
            n_dropped: 0,
            flushed: Instant::now(),
        }
    }

    fn run(&mut self) {
        loop {
            let must_finish = self.recorder.inbox.wait(LOOK.min(self.recorder.flush_period)).must_finish;
            if must_finish || end::signal().is_some() {
                return self.finish();
            }
            let is_due = self.flushed.elapsed() >= self.recorder.flush_period;
            if is_due {
                self.flush(false);
            }
            self.take_all();
            if is_due {
                self.file.write(true);
                self.update_status(false);
            }
        }
    }

    /// Asks libcupti for its buffers; they arrive in the inbox.
    fn flush(&mut self, is_forced: bool) {
        if let Some(cupti) = self.recorder.cupti.get() {
            cupti.flush(is_forced);
        }
        self.flushed = Instant::now();
    }

    fn take_all(&mut self) {
        let (buffers, nvtx) = {
            let mut pending = self.recorder.inbox.lock();
            (std::mem::take(&mut pending.full), std::mem::take(&mut pending.nvtx))
        };
        if !buffers.is_empty() {
            self.take_buffers(buffers);
        }
        if !nvtx.is_empty() {
            self.take_nvtx(nvtx);
        }
    }

    fn take_buffers(&mut self, buffers: Vec<Buffer>) {
        let Some(cupti) = self.recorder.cupti.get() else { return };
        if self.file.is_new() {
            // There are records, so CUDA is initialized.
            self.begin(true);
        }
        for buffer in &buffers {
            cupti.for_each(buffer, |record| self.records.take(record, cupti, &mut self.file));
        }
        self.n_dropped += cupti.n_dropped();
        self.recorder.inbox.reuse(buffers);
    }

    fn take_nvtx(&mut self, events: Vec<NvtxEvent>) {
        if self.file.is_new() {
            self.begin(false);
        }
        // Domains are made before they are used.
        let domains = self.recorder.domains.lock().unwrap_or_else(PoisonError::into_inner);
        self.domains.extend_from_slice(&domains.names[self.domains.len()..]);
        drop(domains);
        for event in events {
            self.nvtx.take(event, &self.domains, &mut self.file);
        }
    }

    fn begin(&mut self, has_cuda: bool) {
        let mut facts = Vec::new();
        if let Some(cupti) = self.recorder.cupti.get() {
            let _ = write!(facts, ",\"cupti_version\":{},\"cupti_library\":", cupti.version);
            json::push_text(&mut facts, &cupti.path.to_string_lossy());
        }
        let properties = has_cuda.then(devices::properties).flatten();
        self.file.begin(&String::from_utf8_lossy(&facts), properties.as_deref());
    }

    fn finish(&mut self) {
        self.flush(true);
        self.take_all();
        if let Some(cupti) = self.recorder.cupti.get() {
            self.records.finish(cupti, &mut self.file);
        }
        self.nvtx.finish(clock::now(), &self.domains, &mut self.file);
        let n_lost = self.recorder.inbox.lock().n_lost_nvtx;
        let facts = format!(",\"dropped_records\":{},\"dropped_nvtx_events\":{n_lost}", self.n_dropped);
        let properties = self.recorder.cupti.get().and_then(|_| devices::properties());
        self.file.finish(&facts, properties.as_deref());
        self.update_status(true);
    }

    fn update_status(&self, is_finished: bool) {
        let status = self.recorder.status();
        if !is_finished && status.n_events == self.file.n_events {
            return;
        }
        let n_lost = self.recorder.inbox.lock().n_lost_nvtx;
        self.recorder.update(|status| {
            status.is_finished = is_finished;
            status.n_events = self.file.n_events;
            status.trace.clone_from(&self.file.name);
            if is_finished {
                let lost =
                    |n: u64, what: &str| (n > 0).then(|| format!("{n} {what} found no room and are not recorded"));
                status.problems.extend(self.file.failure.clone());
                status.problems.extend(lost(self.n_dropped, "records of CUDA"));
                status.problems.extend(lost(n_lost, "NVTX events"));
                status.problems.extend(self.records.problem());
            }
        });
    }
}
