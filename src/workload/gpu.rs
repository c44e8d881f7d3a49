//! The device that the workload runs on, through the driver's API.
#![expect(unsafe_code, reason = "every call of the driver is")]

use std::ffi::{CString, c_void};
use std::panic::catch_unwind;

use cudarc::driver::result::{self, DriverError, event, stream};
use cudarc::driver::sys;

/// The driver of CUDA 11.8, whose functions are called.
const OLDEST_DRIVER: i32 = 11_080;
const KERNELS: &str = include_str!("kernels.ptx");
/// Threads of a launch of either kernel.
const BLOCKS: u32 = 128;
const THREADS: u32 = 256;
/// Size of what the kernels and copies work on.
pub const BYTES: usize = 8 << 20;
/// Small kernels in the CUDA graph.
pub const GRAPH_KERNELS: usize = 10;

/// The two streams.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    Compute,
    Copies,
}

/// Two events around a kernel.
#[derive(Debug)]
pub struct Timing(sys::CUevent, sys::CUevent);

/// A device, ready for work. All that it has is freed with the process, but for what [`Gpu::close`] frees.
#[derive(Debug)]
pub struct Gpu {
    pub name: String,
    /// As the driver says it: 13000 for CUDA 13.0.
    pub driver_version: i32,
    device: sys::CUdevice,
    streams: [sys::CUstream; 2],
    large: sys::CUfunction,
    small: sys::CUfunction,
    values: sys::CUdeviceptr,
    incoming: sys::CUdeviceptr,
    pageable: Vec<u8>,
    /// Of [`BYTES`] bytes, which the driver allocated.
    pinned: *mut u8,
    order: sys::CUevent,
    graph: Option<sys::CUgraphExec>,
}

/// A sentence about a failure of the driver.
fn sentence(what: &'static str) -> impl Fn(DriverError) -> String {
    move |error| {
        let text = |text: Result<&std::ffi::CStr, _>| text.ok().map(|text| text.to_string_lossy().into_owned());
        let name = text(error.error_name()).unwrap_or_else(|| format!("error {}", error.0 as u32));
        let why = text(error.error_string()).map_or_else(String::new, |why| format!(": {why}"));
        format!("CUDA cannot {what}{why} ({name})")
    }
}

impl Gpu {
    /// Opens a device, compiles the kernels for it and allocates.
    ///
    /// Errors: there is no driver, or no such device, or it has no room; as a sentence.
    pub fn open(ordinal: i32) -> Result<Self, String> {
        // SAFETY: loads the driver's library.
        if !unsafe { sys::is_culib_present() } {
            return Err(
                "This machine has no CUDA driver (libcuda.so), so there is no GPU to run the workload on: install \
                 NVIDIA's driver, or in a container, start it with access to the GPUs (--gpus all)"
                    .to_owned(),
            );
        }
        let mut driver_version = 0;
        // cudarc panics where a function is missing, which those of this version are not.
        // SAFETY: the driver fills the number.
        let version = catch_unwind(|| unsafe {
            let mut version = 0;
            (sys::cuDriverGetVersion(&raw mut version), version)
        });
        if let Ok((sys::CUresult::CUDA_SUCCESS, version)) = version {
            driver_version = version;
        }
        if driver_version < OLDEST_DRIVER {
            let (major, minor) = (driver_version / 1000, driver_version % 1000 / 10);
            return Err(format!(
                "The workload needs a driver of CUDA 11.8 or later; this one is of CUDA {major}.{minor}"
            ));
        }
        result::init().map_err(sentence("start"))?;
        let count = result::device::get_count().map_err(sentence("count its devices"))?;
        if !(0..count).contains(&ordinal) {
            return Err(format!("There is no CUDA device {ordinal}: this machine has {count}"));
        }
        let device = result::device::get(ordinal).map_err(sentence("open the device"))?;
        let name = result::device::get_name(device).map_err(sentence("name the device"))?;
        Self::set_up(device, name, driver_version)
    }

    fn set_up(device: sys::CUdevice, name: String, driver_version: i32) -> Result<Self, String> {
        let create = || stream::create(stream::StreamKind::NonBlocking).map_err(sentence("create a stream"));
        let event = || event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(sentence("create an event"));
        let image = CString::new(KERNELS).map_err(|error| error.to_string())?;
        // SAFETY: a context that is current before anything is made in it, a text that ends in zero, and names of
        // functions in it.
        unsafe {
            let context = result::primary_ctx::retain(device).map_err(sentence("use the device"))?;
            result::ctx::set_current(context).map_err(sentence("use the device"))?;
            let module = result::module::load_data(image.as_ptr().cast()).map_err(sentence("compile the kernels"))?;
            let function = |name: &str| {
                let name = CString::new(name).map_err(|error| error.to_string())?;
                result::module::get_function(module, name).map_err(sentence("find a kernel"))
            };
            let allocate = || result::malloc_sync(BYTES).map_err(sentence("allocate memory"));
            let mut gpu = Self {
                name,
                driver_version,
                device,
                streams: [create()?, create()?],
                large: function("lacuna_large")?,
                small: function("lacuna_small")?,
                values: allocate()?,
                incoming: allocate()?,
                pageable: vec![1; BYTES],
                pinned: result::malloc_host(BYTES, 0).map_err(sentence("allocate pinned memory"))?.cast(),
                order: event()?,
                graph: None,
            };
            std::ptr::write_bytes(gpu.pinned, 1, BYTES);
            gpu.graph = gpu.capture().ok();
            gpu.clear(Stream::Compute)?;
            gpu.wait(Stream::Compute)?;
            Ok(gpu)
        }
    }

    fn stream(&self, stream: Stream) -> sys::CUstream {
        self.streams[stream as usize]
    }

    /// A graph of small kernels; an error where the device or driver cannot have it.
    fn capture(&self) -> Result<sys::CUgraphExec, String> {
        let stream = self.stream(Stream::Compute);
        let failed = sentence("capture a graph");
        // SAFETY: the stream is idle, and the graph is used as it was made.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            result::stream::begin_capture(stream, mode).map_err(&failed)?;
            let launched: Result<(), String> = (0..GRAPH_KERNELS).try_for_each(|_| self.launch_small(Stream::Compute));
            let graph = result::stream::end_capture(stream).map_err(&failed)?;
            launched?;
            let mut exec = std::ptr::null_mut();
            sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0).result().map_err(failed)?;
            Ok(exec)
        }
    }

    fn launch(&self, function: sys::CUfunction, stream: Stream, args: &mut [*mut c_void]) -> Result<(), String> {
        // SAFETY: the args are those of the function, and each thread has its value in the buffer.
        unsafe {
            result::launch_kernel(function, (BLOCKS, 1, 1), (THREADS, 1, 1), 0, self.stream(stream), args)
                .map_err(sentence("launch a kernel"))
        }
    }

    /// Launches the large kernel, which takes time in proportion to `rounds`.
    pub fn launch_large(&self, stream: Stream, rounds: u32) -> Result<Timing, String> {
        let create = || event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(sentence("create an event"));
        let timing = Timing(create()?, create()?);
        // SAFETY: events of this context.
        let record = |event| unsafe { event::record(event, self.stream(stream)).map_err(sentence("record an event")) };
        record(timing.0)?;
        let (mut values, mut rounds) = (self.values, rounds.max(1));
        self.launch(self.large, stream, &mut [(&raw mut values).cast(), (&raw mut rounds).cast()])?;
        record(timing.1)?;
        Ok(timing)
    }

    /// The milliseconds between two events, of a stream that was waited for.
    pub fn elapsed_ms(&self, timing: &Timing) -> Result<f32, String> {
        // SAFETY: events that were recorded.
        unsafe { event::elapsed(timing.0, timing.1).map_err(sentence("read a timing")) }
    }

    pub fn launch_small(&self, stream: Stream) -> Result<(), String> {
        let mut values = self.values;
        self.launch(self.small, stream, &mut [(&raw mut values).cast()])
    }

    /// Launches the graph; false where there is none.
    pub fn launch_graph(&self, stream: Stream) -> Result<bool, String> {
        let Some(graph) = self.graph else { return Ok(false) };
        // SAFETY: a graph that was instantiated.
        unsafe { result::graph::launch(graph, self.stream(stream)).map_err(sentence("launch a graph"))? };
        Ok(true)
    }

    /// Copies to the device from memory that the driver must pin first; returns when it is done.
    pub fn copy_in_pageable(&self) -> Result<(), String> {
        // SAFETY: both are of this size.
        unsafe { result::memcpy_htod_sync(self.incoming, &self.pageable).map_err(sentence("copy to the device")) }
    }

    pub fn copy_in(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: both are of this size, and the host's side is never written to while a copy runs.
        unsafe {
            let pinned = std::slice::from_raw_parts(self.pinned, BYTES);
            result::memcpy_htod_async(self.incoming, pinned, self.stream(stream))
                .map_err(sentence("copy to the device"))
        }
    }

    pub fn copy_out(&mut self, stream: Stream) -> Result<(), String> {
        // SAFETY: both are of this size, and the host's side is never read.
        unsafe {
            let pinned = std::slice::from_raw_parts_mut(self.pinned, BYTES);
            result::memcpy_dtoh_async(pinned, self.values, self.stream(stream))
                .map_err(sentence("copy from the device"))
        }
    }

    pub fn clear(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: the buffer is of this size.
        unsafe { result::memset_d8_async(self.values, 0, BYTES, self.stream(stream)).map_err(sentence("clear memory")) }
    }

    /// Has one stream wait for what the other has so far.
    pub fn order(&self, first: Stream, then: Stream) -> Result<(), String> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: an event and streams of this context.
        unsafe {
            event::record(self.order, self.stream(first)).map_err(sentence("record an event"))?;
            stream::wait_event(self.stream(then), self.order, flags).map_err(sentence("wait for an event"))
        }
    }

    /// Waits on the host for all that a stream has.
    pub fn wait(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: a stream of this context.
        unsafe { result::stream::synchronize(self.stream(stream)).map_err(sentence("finish its work")) }
    }

    /// Allocates memory that is never freed.
    pub fn leak(&self, bytes: usize) -> Result<(), String> {
        // SAFETY: the address is not used.
        unsafe { result::malloc_sync(bytes).map(drop).map_err(sentence("allocate memory")) }
    }

    /// Frees what is not a leak.
    pub fn close(self) -> Result<(), String> {
        let failed = sentence("free memory");
        // SAFETY: nothing uses them any more.
        unsafe {
            result::ctx::synchronize().map_err(sentence("finish its work"))?;
            result::free_sync(self.values).map_err(&failed)?;
            result::free_sync(self.incoming).map_err(&failed)?;
            result::free_host(self.pinned.cast()).map_err(&failed)?;
            result::primary_ctx::release(self.device).map_err(failed)
        }
    }
}
