//! Allocation histories from `[memory]` events, for the model to replay.

use std::collections::{BTreeMap, HashMap};

use crate::model::StackId;
use crate::model::memory::{InitialBlock, MemoryAction, MemoryEvent, MemoryPool, MemorySource, PoolId, RawMemory};

use super::assemble::Thread;
use super::batch::AllocatorEvent;
use super::tally::{Reason, Tally};

/// Larger sizes are treated as damage: 256 TiB.
const MAX_BYTES: u64 = 1 << 48;

/// The memory of one process on one device, while its events are read.
struct Blocks {
    raw: RawMemory,
    /// The size of each block seen; 0 after its free.
    known: HashMap<u64, Option<u64>>,
    /// The running total after the latest event.
    total: Option<i64>,
    /// The sum of the changes so far.
    change: i64,
    /// Bytes live before the first event, derived from the first total.
    at_first: Option<i64>,
    /// Bytes of these that the events free.
    freed_from_before: i64,
    has_reserved: bool,
}

/// One history per process and device. Recordings of 2021 have no addresses and yield none.
///
/// Bytes live before the recording are the first total minus the first change, so that the replayed
/// curve equals the file's own total after each event. Contradicting events are counted.
///
/// * `events`: sorted by time.
pub fn memories(events: &[AllocatorEvent], threads: &[Thread], tally: &mut Tally) -> Vec<RawMemory> {
    let mut all: BTreeMap<(&str, i32), Blocks> = BTreeMap::new();
    for event in events {
        let Some(addr) = event.addr else { continue };
        let device = event.device();
        let pid = &threads[event.track.0 as usize].pid;
        let blocks = all.entry((pid, device)).or_insert_with(|| Blocks::new(pid.parse().ok(), device));
        if !blocks.take(event, addr) {
            tally.count(Reason::InconsistentMemory, event.source);
        }
    }
    all.into_values().map(Blocks::finish).collect()
}

impl Blocks {
    fn new(pid: Option<i64>, device: i32) -> Self {
        let pools = vec![MemoryPool::default()];
        let source = MemorySource::Profiler;
        let raw = RawMemory { device, pid, source, has_time: true, pools, ..RawMemory::default() };
        let known = HashMap::new();
        Self { raw, known, total: None, change: 0, at_first: None, freed_from_before: 0, has_reserved: false }
    }

    /// Returns whether the event is consistent with the earlier ones.
    fn take(&mut self, event: &AllocatorEvent, addr: u64) -> bool {
        let bytes = event.bytes.unsigned_abs();
        let known = self.known.get(&addr).copied();
        // An empty block is also freed by an event of 0 bytes.
        let is_free = event.bytes < 0 || (bytes == 0 && known == Some(Some(0)));
        self.known.insert(addr, (!is_free).then_some(bytes));
        let follows = match (is_free, known) {
            (true, None) => {
                self.freed_from_before = self.freed_from_before.saturating_add_unsigned(bytes);
                true
            }
            (true, Some(live)) => live == Some(bytes),
            (false, known) => !matches!(known, Some(Some(_))),
        };
        self.change = self.change.saturating_add(event.bytes);
        if self.at_first.is_none() {
            self.at_first = event.allocated.map(|total| total.saturating_sub(self.change));
        }
        let adds_up = match (self.total, event.allocated) {
            (Some(last), Some(total)) => last.checked_add(event.bytes) == Some(total),
            _ => true,
        };
        self.total = event.allocated.or(self.total);
        let action = if is_free { MemoryAction::FreeCompleted } else { MemoryAction::Alloc };
        let (pool, stack) = (PoolId(0), StackId::default());
        self.raw.events.push(MemoryEvent { ts: event.ts, action, addr, bytes, pool, stack });
        let said = event.reserved.map(|bytes| u64::try_from(bytes).ok().filter(|&bytes| bytes <= MAX_BYTES));
        let reserved = said.flatten();
        self.has_reserved |= reserved.is_some_and(|bytes| bytes > 0);
        let latest = self.raw.events.reserved.last().copied();
        self.raw.events.reserved.push(reserved.or(latest).unwrap_or(0));
        follows && adds_up && said != Some(None)
    }

    fn finish(mut self) -> RawMemory {
        let before = self.at_first.unwrap_or(0).saturating_sub(self.freed_from_before);
        let bytes = u64::try_from(before).unwrap_or(0);
        if bytes > 0 {
            self.raw.before.push(InitialBlock { bytes, ..InitialBlock::default() });
        }
        if !self.has_reserved {
            // The host's allocator has no total.
            self.raw.events.reserved = Vec::new();
        }
        self.raw
    }
}

#[cfg(test)]
mod tests {
    use super::super::assemble::Assembly;
    use super::super::pipeline;
    use crate::job::Progress;
    use crate::model::Trace;
    use crate::model::memory::MemorySource;

    /// Reads events of (addr, bytes, total allocated) on GPU 1, one per microsecond.
    fn trace(events: &[(u64, i64, i64)]) -> Trace {
        let event = |(i, (addr, bytes, total)): (usize, &(u64, i64, i64))| {
            format!(
                r#"{{"ph":"i","name":"[memory]","pid":7,"tid":7,"ts":{i},"args":{{"Device Type":1,"Device Id":1,
                "Addr":{addr},"Bytes":{bytes},"Total Allocated":{total},"Total Reserved":2048}}}}"#
            )
        };
        let text = format!("[{}]", events.iter().enumerate().map(event).collect::<Vec<_>>().join(","));
        let mut assembly = Assembly::default();
        let _ = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
        assembly.finish(&Default::default()).finish()
    }

    #[test]
    fn the_curve_is_the_files_own_total() {
        let trace = trace(&[(10, 512, 1512), (20, -300, 1212), (30, 0, 1212), (30, 0, 1212), (10, -512, 700)]);
        let [history] = &trace.memories[..] else { panic!("{:?}", trace.memories) };
        assert_eq!((history.device, history.source, history.has_reserved), (1, MemorySource::Profiler, true));
        assert!(!history.has_segments(), "where blocks lie is not recorded");
        assert_eq!(history.curves.allocated, [1000, 1512, 1212, 1212, 1212, 700]);
        assert_eq!(history.curves.reserved, [2048; 6]);
        // Live before the recording: the freed block, and the rest of the total.
        assert_eq!(history.allocations.start, [0, 0, 1, 3]);
        assert_eq!(history.allocations.end, [6, 2, 5, 4]);
        assert!(trace.import.problems.iter().all(|problem| !problem.reason.contains("contradicts")));
    }

    #[test]
    fn a_total_that_no_device_has_is_not_taken_over() {
        let text = |reserved: i64| {
            format!(
                r#"{{"ph":"i","name":"[memory]","pid":7,"tid":7,"ts":1,"args":{{"Device Type":1,"Device Id":1,
                "Addr":1,"Bytes":512,"Total Allocated":512,"Total Reserved":{reserved}}}}}"#
            )
        };
        for (reserved, expected, n_wild) in [(4096, vec![4096; 2], 0), (i64::MAX, vec![0; 2], 1), (-1, vec![0; 2], 1)] {
            let mut assembly = Assembly::default();
            let _ = pipeline::read(text(reserved).as_bytes(), &Progress::default(), &mut assembly);
            let trace = assembly.finish(&Default::default()).finish();
            assert_eq!(trace.memories[0].curves.reserved, expected);
            let problems = trace.import.problems.iter().filter(|problem| problem.reason.contains("contradicts"));
            assert_eq!(problems.map(|problem| problem.count).sum::<u64>(), n_wild, "{reserved}");
        }
    }

    #[test]
    fn two_processes_on_one_device_have_a_history_each() {
        let event = |pid| {
            format!(
                r#"{{"ph":"i","name":"[memory]","pid":{pid},"tid":7,"ts":1,"args":{{"Device Type":1,"Device Id":0,
                "Addr":1,"Bytes":512,"Total Allocated":512}}}}"#
            )
        };
        let mut assembly = Assembly::default();
        let text = format!("[{},{}]", event("12"), event("9"));
        let _ = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        let of: Vec<_> = trace.memories.iter().map(|history| (history.device, history.pid)).collect();
        assert_eq!(of, [(0, Some(9)), (0, Some(12))]);
    }

    #[test]
    fn contradictions_are_counted() {
        let trace = trace(&[(10, 512, 512), (10, 512, 1024), (20, 8, 2000), (10, -100, 1900), (10, -512, 1388)]);
        let problem = trace.import.problems.iter().find(|problem| problem.reason.contains("contradicts")).unwrap();
        assert_eq!(problem.count, 4);
        assert_eq!((trace.import.read, trace.import.shown), (5, 5));
    }
}
