//! A snapshot as `torch.cuda.memory._dump_snapshot` of PyTorch 2.6 writes it, key by key.

use std::io::{self, Write};
use std::ptr::from_ref;

use hashbrown::HashMap;

use super::allocator::{Action, Allocator, Block, Context, Entry, Segment, State};
use super::code::Frame;
use super::pickle::{Items, Pickler};
use super::training::{Mark, MarkName};

/// A snapshot that is being written: its segments are, its entries are to come.
pub struct Document<'a> {
    pickler: Pickler<'a>,
    has_times: bool,
    top: Items,
    traces: Items,
    trace: Items,
    /// Stacks in the memo by the number of their context: those that the segments hold, and the latest.
    stacks: HashMap<u64, u32>,
    latest: Option<(u64, u32)>,
    /// Frames in the memo by address.
    frames: HashMap<usize, u32>,
    no_frames: Option<u32>,
}

/// A segment as a snapshot shows it: of an expandable one, what is mapped without a gap.
type ShownSegment<'a> = (u64, &'a Segment, Vec<(u64, &'a Block)>);

impl<'a> Document<'a> {
    /// Begins a snapshot with the allocator's state after the last of `entries` entries.
    ///
    /// Errors here and below: the sink's.
    pub fn begin(
        sink: &'a mut dyn Write,
        protocol: u8,
        has_times: bool,
        end: &Allocator,
        entries: u64,
    ) -> io::Result<Self> {
        let mut pickler = Pickler::new(sink, protocol)?;
        let top = pickler.dict(4);
        let (traces, trace) = (Items::default(), Items::default());
        let (stacks, frames) = (HashMap::new(), HashMap::new());
        let mut document =
            Self { pickler, has_times, top, traces, trace, stacks, latest: None, frames, no_frames: None };
        document.segments(end)?;
        let pickler = &mut document.pickler;
        pickler.key(&mut document.top, "device_traces")?;
        // The second device that the program sees was not used.
        document.traces = pickler.list(2);
        pickler.next(&mut document.traces)?;
        document.trace = pickler.list(entries);
        Ok(document)
    }

    fn segments(&mut self, end: &Allocator) -> io::Result<()> {
        let segments = segments(end);
        self.pickler.key(&mut self.top, "segments")?;
        let mut list = self.pickler.list(segments.len() as u64);
        for segment in &segments {
            self.pickler.next(&mut list)?;
            self.segment(segment)?;
        }
        self.pickler.end(&list);
        Ok(())
    }

    fn segment(&mut self, (addr, segment, blocks): &ShownSegment<'_>) -> io::Result<()> {
        let sum = |states: &[State], size: fn(&Block) -> u64| {
            blocks.iter().filter(|(_, block)| states.contains(&block.state)).map(|(_, block)| size(block)).sum::<u64>()
        };
        let active = [State::Allocated, State::Pending];
        let total: u64 = blocks.iter().map(|(_, block)| block.size).sum();
        let mut items = self.pickler.dict(12);
        for (key, value) in [
            ("device", 0),
            ("address", *addr),
            ("total_size", total),
            ("allocated_size", sum(&active[..1], |block| block.size)),
            ("active_size", sum(&active, |block| block.size)),
            ("requested_size", sum(&active, |block| block.requested)),
            ("stream", segment.pool.stream),
        ] {
            self.number(&mut items, key, value)?;
        }
        let pickler = &mut self.pickler;
        pickler.key(&mut items, "segment_type")?;
        pickler.shared(if segment.pool.is_small { "small" } else { "large" });
        pickler.key(&mut items, "segment_pool_id")?;
        pickler.pair(0, 0);
        pickler.key(&mut items, "is_expandable")?;
        pickler.bool(segment.is_expandable);
        pickler.key(&mut items, "frames")?;
        self.keep_stack(Some(segment.context).filter(|_| !segment.is_expandable))?;
        self.pickler.key(&mut items, "blocks")?;
        let mut list = self.pickler.list(blocks.len() as u64);
        for (addr, block) in blocks {
            self.pickler.next(&mut list)?;
            self.block(*addr, block)?;
        }
        self.pickler.end(&list);
        self.pickler.end(&items);
        Ok(())
    }

    fn block(&mut self, addr: u64, block: &Block) -> io::Result<()> {
        let mut items = self.pickler.dict(5);
        for (key, value) in [("address", addr), ("size", block.size), ("requested_size", block.requested)] {
            self.number(&mut items, key, value)?;
        }
        self.pickler.key(&mut items, "state")?;
        self.pickler.shared(match block.state {
            State::Allocated => "active_allocated",
            State::Pending => "active_awaiting_free",
            State::Free | State::Unmapped => "inactive",
        });
        self.pickler.key(&mut items, "frames")?;
        self.keep_stack(block.context.filter(|_| matches!(block.state, State::Allocated | State::Pending)))?;
        self.pickler.end(&items);
        Ok(())
    }

    fn number(&mut self, items: &mut Items, key: &'static str, value: u64) -> io::Result<()> {
        self.pickler.key(items, key)?;
        self.pickler.int(value as i64);
        Ok(())
    }

    /// A stack of the end, which its entry will share if it is still in the history.
    fn keep_stack(&mut self, context: Option<Context>) -> io::Result<()> {
        let Some(context) = context else {
            match self.no_frames {
                Some(id) => self.pickler.get(id),
                None => self.no_frames = Some(self.pickler.list(0).memo),
            }
            return Ok(());
        };
        if let Some(&id) = self.stacks.get(&context.id) {
            self.pickler.get(id);
            return Ok(());
        }
        let id = self.stack(context)?;
        self.stacks.insert(context.id, id);
        Ok(())
    }

    fn stack(&mut self, context: Context) -> io::Result<u32> {
        let mut list = self.pickler.list(context.stack.len() as u64);
        let memo = list.memo;
        for frame in context.stack {
            self.pickler.next(&mut list)?;
            self.frame(frame)?;
        }
        self.pickler.end(&list);
        Ok(memo)
    }

    fn frame(&mut self, frame: &'static Frame) -> io::Result<()> {
        let key = from_ref(frame) as usize;
        if let Some(&id) = self.frames.get(&key) {
            self.pickler.get(id);
            return Ok(());
        }
        let pickler = &mut self.pickler;
        let mut items = pickler.dict(3);
        self.frames.insert(key, items.memo);
        for (key, text) in [("name", frame.name), ("filename", frame.file)] {
            pickler.key(&mut items, key)?;
            pickler.text(text);
        }
        pickler.key(&mut items, "line")?;
        pickler.int(i64::from(frame.line));
        pickler.end(&items);
        Ok(())
    }

    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.pickler.next(&mut self.trace)?;
        let mut items = self.pickler.dict(if self.has_times { 8 } else { 7 });
        self.pickler.key(&mut items, "action")?;
        self.pickler.shared(name(entry.action));
        let place = if entry.action == Action::AllocationFailure { "device_free" } else { "addr" };
        for (key, value) in [(place, entry.addr), ("size", entry.size), ("stream", entry.stream)] {
            self.number(&mut items, key, value)?;
        }
        if self.has_times {
            self.number(&mut items, "time_us", entry.time_us as u64)?;
        }
        self.pickler.key(&mut items, "compile_context")?;
        self.pickler.text("N/A");
        self.pickler.key(&mut items, "user_metadata")?;
        self.pickler.shared("");
        self.pickler.key(&mut items, "frames")?;
        let known = self.stacks.get(&entry.context.id).copied();
        let known = known.or(self.latest.filter(|latest| latest.0 == entry.context.id).map(|latest| latest.1));
        match known {
            Some(id) => self.pickler.get(id),
            None => self.latest = Some((entry.context.id, self.stack(entry.context)?)),
        }
        self.pickler.end(&items);
        Ok(())
    }

    /// Writes what comes after the entries.
    pub fn finish(mut self, is_expandable: bool, marks: &[Mark]) -> io::Result<()> {
        self.pickler.end(&self.trace);
        self.pickler.next(&mut self.traces)?;
        let empty = self.pickler.list(0);
        self.pickler.end(&empty);
        self.pickler.end(&self.traces);
        self.pickler.key(&mut self.top, "allocator_settings")?;
        settings(&mut self.pickler, is_expandable)?;
        self.pickler.key(&mut self.top, "external_annotations")?;
        let marks = if self.has_times { marks } else { &[] };
        let mut list = self.pickler.list(marks.len() as u64);
        for mark in marks {
            self.pickler.next(&mut list)?;
            let mut items = self.pickler.dict(4);
            self.pickler.key(&mut items, "stage")?;
            self.pickler.shared(if mark.is_start { "START" } else { "END" });
            self.pickler.key(&mut items, "name")?;
            match mark.name {
                MarkName::Step(step) => self.pickler.text(&format!("ProfilerStep#{step}")),
                MarkName::Loader => self.pickler.text("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
                MarkName::ZeroGrad => self.pickler.text("Optimizer.zero_grad#AdamW.zero_grad"),
                MarkName::Optimizer => self.pickler.text("Optimizer.step#AdamW.step"),
            };
            self.pickler.key(&mut items, "device")?;
            self.pickler.int(0);
            self.pickler.key(&mut items, "time_us")?;
            self.pickler.int(mark.time_us);
            self.pickler.end(&items);
        }
        self.pickler.end(&list);
        self.pickler.end(&self.top);
        self.pickler.finish()
    }
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Alloc => "alloc",
        Action::FreeRequested => "free_requested",
        Action::FreeCompleted => "free_completed",
        Action::SegmentAlloc => "segment_alloc",
        Action::SegmentFree => "segment_free",
        Action::SegmentMap => "segment_map",
        Action::SegmentUnmap => "segment_unmap",
        Action::AllocationFailure => "oom",
    }
}

/// The segments as a snapshot shows them, by address.
fn segments(end: &Allocator) -> Vec<ShownSegment<'_>> {
    let mut segments = Vec::new();
    for (&base, segment) in &end.segments {
        let mut is_open = false;
        for (&addr, block) in end.blocks.range(base..base + segment.size) {
            let is_mapped = block.state != State::Unmapped;
            if is_mapped && !is_open {
                segments.push((addr, segment, Vec::new()));
            }
            is_open = is_mapped;
            if let Some((_, _, blocks)) = segments.last_mut().filter(|_| is_mapped) {
                blocks.push((addr, block));
            }
        }
    }
    segments
}

fn settings(pickler: &mut Pickler<'_>, is_expandable: bool) -> io::Result<()> {
    let mut items = pickler.dict(9);
    pickler.key(&mut items, "PYTORCH_CUDA_ALLOC_CONF")?;
    pickler.shared(if is_expandable { "expandable_segments:True" } else { "" });
    pickler.key(&mut items, "max_split_size")?;
    pickler.int(-1);
    pickler.key(&mut items, "garbage_collection_threshold")?;
    pickler.float(0.0);
    pickler.key(&mut items, "expandable_segments")?;
    pickler.bool(is_expandable);
    pickler.key(&mut items, "pinned_num_register_threads")?;
    pickler.int(1);
    for key in ["release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "graph_capture_record_stream_reuse"] {
        pickler.key(&mut items, key)?;
        pickler.bool(false);
    }
    pickler.key(&mut items, "roundup_power2_divisions")?;
    let mut divisions = pickler.dict(16);
    for power in 0..16 {
        pickler.next(&mut divisions)?;
        pickler.text(&(1_u32 << power).to_string());
        pickler.int(0);
    }
    pickler.end(&divisions);
    pickler.end(&items);
    Ok(())
}
