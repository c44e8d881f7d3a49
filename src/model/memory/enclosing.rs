//! Call stacks of a profiler's allocations: the operators and Python functions that enclose them on their threads.

use hashbrown::HashMap;

use super::{MemoryAction, MemoryHistory, MemorySource};
use crate::model::{AllocationTable, SliceKind, SliceTable, StackId, StackTable, TimeNs, Trace, TrackId};

/// Gives the events and allocations of profilers, whose `[memory]` events have no call stack, the operators and Python
/// functions that ran around them as one: outermost first, by the names of their slices. Ranges that the user named are
/// left out, since many have another name in each step.
///
/// Cost: O(events · nesting) and O(slices of their tracks).
pub fn take_enclosing(trace: &mut Trace) {
    let Trace { slices, stacks, allocations, memories, .. } = trace;
    for history in memories.iter_mut().filter(|history| history.source == MemorySource::Profiler) {
        let mut threads: HashMap<TrackId, Thread<'_>> = HashMap::new();
        let tracks = tracks(history, allocations);
        for (event, track) in tracks.into_iter().enumerate().filter_map(|(event, track)| Some((event, track?))) {
            let thread = threads.entry(track).or_insert_with(|| Thread::new(slices, track));
            let stack = thread.stack(history.events.ts[event], stacks);
            history.events.stack[event] = stack;
            let id = history.events.allocation[event] as usize;
            if history.events.action[event] == MemoryAction::Alloc
                && let Some(known) = history.allocations.stack.get_mut(id)
            {
                *known = stack;
            }
        }
    }
}

/// The thread of each event of a history. Both lists are in the order of time, and events of one device are a part of
/// the table.
fn tracks(history: &MemoryHistory, table: &AllocationTable) -> Vec<Option<TrackId>> {
    let events = &history.events;
    let mut of_device = (0..table.len()).filter(|&i| table.device[i] == history.device).peekable();
    let track = |event: usize| {
        let is_free = events.action[event] != MemoryAction::Alloc;
        let is_same = |i: usize| {
            let bytes = table.bytes[i];
            table.ts[i] == events.ts[event]
                && bytes.unsigned_abs() == events.bytes[event]
                && (bytes == 0 || (bytes < 0) == is_free)
        };
        while of_device.next_if(|&i| table.ts[i] <= events.ts[event] && !is_same(i)).is_some() {}
        of_device.next_if(|&i| is_same(i)).map(|i| table.track[i])
    };
    (0..events.len()).map(track).collect()
}

/// The slices of one thread, looked at in the order of time.
struct Thread<'a> {
    slices: &'a SliceTable,
    /// By depth.
    levels: Vec<Level>,
}

/// One row of a thread.
struct Level {
    /// The first slice that has not ended yet.
    next: usize,
    first: usize,
    end: usize,
    /// The callers' stack and the slice for which a stack was found last, and that stack.
    known: Option<(StackId, usize, StackId)>,
}

impl<'a> Thread<'a> {
    fn new(slices: &'a SliceTable, track: TrackId) -> Self {
        let rows = slices.rows.iter().filter(|row| row.track == track && !row.is_overflow);
        let level = |row: &crate::model::Row| {
            let (first, end) = (row.range().start, row.range().end);
            Level { next: first, first, end, known: None }
        };
        Self { slices, levels: rows.map(level).collect() }
    }

    /// The stack at a moment that is no earlier than the one before.
    fn stack(&mut self, ts: TimeNs, stacks: &mut StackTable) -> StackId {
        let mut stack = StackId::default();
        for level in &mut self.levels {
            let Some(slice) = level.slice_at(self.slices, ts) else { break };
            let callers = stack;
            stack = match level.known {
                Some((known, at, found)) if (known, at) == (callers, slice) => found,
                _ if matches!(self.slices.kind[slice], SliceKind::Operator | SliceKind::PythonFunction) => {
                    stacks.intern(callers, self.slices.name[slice])
                }
                _ => callers,
            };
            level.known = Some((callers, slice, stack));
        }
        stack
    }
}

impl Level {
    /// The slice that runs at `ts`, else one that ends then: recorders round to microseconds.
    fn slice_at(&mut self, slices: &SliceTable, ts: TimeNs) -> Option<usize> {
        while self.next < self.end && slices.end[self.next] <= ts {
            self.next += 1;
        }
        let runs = self.next < self.end && slices.ts[self.next] <= ts;
        let ended = self.next > self.first && slices.end[self.next - 1] == ts;
        if runs { Some(self.next) } else { ended.then(|| self.next - 1) }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::memory::{InitialBlock, MemoryAction, MemoryEvent, MemorySource, PoolId, RawMemory};
    use crate::model::{SliceKind, StackId, Trace, TraceBuilder, TrackId};

    /// Slices on two threads, and events of (track, time, bytes).
    fn trace(events: &[(u32, i64, i64)]) -> Trace {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::PythonFunction, "train.py(3): main", 0, 100),
            ("main", SliceKind::Annotation, "ProfilerStep#7", 0, 100),
            ("main", SliceKind::Operator, "aten::mm", 10, 50),
            ("main", SliceKind::Operator, "aten::empty", 20, 30),
            ("main", SliceKind::Runtime, "cudaMalloc", 22, 28),
            ("other", SliceKind::Operator, "MmBackward0", 40, 60),
        ]);
        let mut raw = RawMemory { source: MemorySource::Profiler, has_time: true, ..RawMemory::default() };
        raw.before.push(InitialBlock { bytes: 512, ..InitialBlock::default() });
        for (i, &(track, ts, bytes)) in events.iter().enumerate() {
            builder.allocations.push(ts, TrackId(track), -1, 64);
            builder.allocations.push(ts, TrackId(track), 0, bytes);
            let action = if bytes < 0 { MemoryAction::FreeCompleted } else { MemoryAction::Alloc };
            let addr = if bytes < 0 { 0x1000 } else { 0x1000 * (i as u64 + 1) };
            let bytes = bytes.unsigned_abs();
            raw.events.push(MemoryEvent { ts, action, addr, bytes, pool: PoolId(0), stack: StackId(0) });
        }
        builder.memories.push(raw);
        builder.finish()
    }

    #[test]
    fn operators_and_python_functions_are_the_stack_of_an_allocation() {
        let trace = trace(&[(0, 25, 1024), (0, 30, 512), (1, 45, 2048), (0, 50, -1024), (1, 60, 256), (1, 70, 128)]);
        let history = &trace.memories[0];
        let frames =
            |stack: StackId| trace.stacks.frames(stack).map(|frame| trace.strings.get(frame)).collect::<Vec<_>>();
        let events: Vec<_> = history.events.stack.iter().map(|&stack| frames(stack)).collect();
        let main = "train.py(3): main";
        let expected: [&[&str]; 6] = [
            &["aten::empty", "aten::mm", main],
            &["aten::empty", "aten::mm", main],
            &["MmBackward0"],
            &["aten::mm", main],
            &["MmBackward0"],
            &[],
        ];
        assert_eq!(events, expected);
        let blocks: Vec<_> = history.allocations.stack.iter().map(|&stack| frames(stack).len()).collect();
        assert_eq!(blocks, [0, 3, 3, 1, 1, 0]);
    }
}
