//! Accesses to files as Nsight Systems lists them once more beside the calls that made them.

use std::collections::HashMap;

use crate::model::{RawSlice, SliceKind, StringId, TimeNs};

use super::chunk::{Chunk, NameKey, TrackKey, system_ids};
use super::scan::LostRows;
use super::tables::Spec;

/// A call that opened, read, wrote or closed a file.
#[derive(Clone, Copy, Debug)]
pub struct FileAccess {
    /// The system's id of the thread.
    thread: i64,
    ts: TimeNs,
    end: TimeNs,
    name: StringId,
    source: u64,
}

pub const FILE_ACCESS: Spec = Spec {
    table: "OSRT_FILE_ACCESS_EVENTS",
    columns: &["startedAt|start", "endedAt|end", "threadId|globalTid", "apiCallId|nameId"],
    read: |chunk, cells, source| {
        let Some((ts, end)) = chunk.span(cells[0], cells[1]) else { return };
        let thread = system_ids(chunk.int_or_0(cells[2])).1;
        let name = chunk.name(cells[3]);
        chunk.file_accesses.push(FileAccess { thread, ts, end, name, source });
    },
};

/// Counts the accesses whose call is in `OSRT_API` as merged into it; the others become calls themselves.
///
/// An access is that of a call by the same thread, of the same name and at a time in common. Cost: nothing
/// without accesses, else O(n log n) in the calls of the operating system.
pub fn settle(chunks: &mut [(Chunk, LostRows)]) {
    if chunks.iter().all(|(chunk, _)| chunk.file_accesses.is_empty()) {
        return;
    }
    let mut calls: HashMap<(i64, NameKey), Vec<(TimeNs, TimeNs)>> = HashMap::new();
    for (chunk, _) in chunks.iter() {
        let slices = &chunk.slices;
        for i in (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Os) {
            if let TrackKey::Thread(thread) = chunk.tracks.items[slices.track[i].0 as usize] {
                let name = chunk.names.items[slices.name[i].0 as usize];
                calls.entry((system_ids(thread).1, name)).or_default().push((slices.ts[i], slices.end[i]));
            }
        }
    }
    #[expect(clippy::iter_over_hash_type, reason = "each list is sorted by itself")]
    for times in calls.values_mut() {
        times.sort_unstable();
    }
    for (chunk, _) in chunks {
        for FileAccess { thread, ts, end, name, source } in std::mem::take(&mut chunk.file_accesses) {
            let times = calls.get(&(thread, chunk.names.items[name.0 as usize])).map_or(&[][..], Vec::as_slice);
            // Calls of one name rarely nest: the last one that starts in time is the one that may reach this far.
            let n_started = times.partition_point(|&(start, _)| start <= end);
            if times[..n_started].last().is_some_and(|&(_, call_end)| call_end >= ts) {
                chunk.n_merged += 1;
                continue;
            }
            chunk.n_shown += 1;
            let track = chunk.track(TrackKey::Table(0, chunk.table));
            let kind = SliceKind::Os;
            chunk.slices.push(RawSlice { ts, end, name, kind, track, source, ..Default::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{export, global};
    use crate::model::SliceKind;

    #[test]
    fn accesses_are_counted_once_and_markers_are_no_calls() {
        let thread = global(1, 10, 11);
        let (_file, trace) = export(&format!(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             INSERT INTO StringIds VALUES (1, 'open64'), (2, 'read'), (3, 'OS runtime libraries profiling started');
             CREATE TABLE OSRT_API (start, end, eventClass, globalTid, nameId);
             INSERT INTO OSRT_API VALUES (5, 5, 31, {thread}, 3), (10, 20, 27, {thread}, 1), (30, 40, 27, {thread}, 2);
             CREATE TABLE OSRT_FILE_ACCESS_EVENTS (fileAccessId, threadId, startedAt, endedAt, eventType, apiCallId,
                bytesProcessed);
             INSERT INTO OSRT_FILE_ACCESS_EVENTS VALUES (0, 11, 10, 20, 1, 1, 0), (1, 11, 31, 39, 3, 2, 9),
                (2, 11, 50, 60, 3, 2, 9), (3, 12, 10, 20, 1, 1, 0), (4, 11, 30, 40, 1, 1, 0);"
        ));
        let slices = &trace.slices;
        let mut calls: Vec<_> = (0..slices.len())
            .filter(|&i| slices.kind[i] == SliceKind::Os)
            .map(|i| (slices.ts[i], slices.end[i], trace.strings.get(slices.name[i])))
            .collect();
        calls.sort_unstable();
        let once = [(10, 20, "open64"), (30, 40, "read")];
        let unknown = [(10, 20, "open64"), (30, 40, "open64"), (50, 60, "read")];
        let mut expected = [&once[..], &unknown].concat();
        expected.sort_unstable();
        assert_eq!(calls, expected);
        assert_eq!((trace.import.read, trace.import.shown, trace.import.merged), (8, 6, 2));
    }
}
