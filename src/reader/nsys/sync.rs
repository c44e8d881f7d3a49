//! Resolves the recorded event that a wait waited for.

use crate::model::{SyncKind, Synchronization};

/// Value of the stream or event id of a wait without one.
const NONE: u32 = u32::MAX;

/// A row of `CUPTI_ACTIVITY_KIND_SYNCHRONIZATION`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wait {
    /// `globalPid`
    pub process: i64,
    pub context: i64,
    pub kind: SyncKind,
    pub stream: Option<u32>,
    pub event: Option<u32>,
    /// Id of the record that it waits for, in exports of schema 3.28 and later.
    pub event_sync: Option<i64>,
    /// Of the call that waited, as the file has it.
    pub correlation: u32,
}

impl Wait {
    /// Sets stream, event and kind.
    ///
    /// The numbers of `syncType` changed between versions under one `ENUM_CUPTI_SYNC_TYPE`: 2 is
    /// `cudaStreamSynchronize` in some exports and `cuEventQuery` in others. The ids are reliable: a wait for a
    /// stream has a stream, a wait for an event has an event, and a wait of a stream for an event has both.
    pub fn set(&mut self, stream: Option<i64>, event: Option<i64>, sync_type: i64) {
        let id = |id: Option<i64>| u32::try_from(id?).ok().filter(|&id| id != NONE);
        // Events are counted from 1.
        (self.stream, self.event) = (id(stream), id(event).filter(|&event| event != 0));
        self.kind = match (self.stream, self.event) {
            (Some(_), Some(_)) => SyncKind::StreamWait,
            (Some(_), None) => SyncKind::Stream,
            (None, Some(_)) => SyncKind::Event,
            (None, None) if stream.is_some() || event.is_some() => SyncKind::Device,
            (None, None) => match sync_type {
                1 => SyncKind::Event,
                2 => SyncKind::StreamWait,
                3 => SyncKind::Stream,
                4 => SyncKind::Device,
                _ => SyncKind::Unknown,
            },
        };
    }
}

/// A row of `CUPTI_ACTIVITY_KIND_CUDA_EVENT`: an event recorded on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventRecord {
    /// `globalPid`
    pub process: i64,
    pub context: i64,
    pub event: i64,
    /// Of the call that recorded it, as the file has it.
    pub correlation: u32,
    pub stream: i64,
    pub event_sync: Option<i64>,
}

/// The records of all events.
#[derive(Debug)]
pub struct EventRecords {
    by_event: Vec<EventRecord>,
    /// The same, where they have an `eventSyncId`, sorted by it.
    by_sync: Vec<EventRecord>,
}

impl EventRecords {
    pub fn new(mut by_event: Vec<EventRecord>) -> Self {
        by_event.sort_unstable();
        let mut by_sync: Vec<EventRecord> =
            by_event.iter().filter(|record| record.event_sync.is_some()).copied().collect();
        by_sync.sort_unstable_by_key(|record| (record.process, record.event_sync));
        Self { by_event, by_sync }
    }

    /// The record that a wait waited for: by `eventSyncId`, else the last of its event before it, as
    /// correlation ids ascend with the calls of a process.
    fn of(&self, wait: &Wait) -> Option<&EventRecord> {
        let event = wait.event?;
        if wait.event_sync.is_some() {
            let key = (wait.process, wait.event_sync);
            let at = self.by_sync.binary_search_by_key(&key, |record| (record.process, record.event_sync)).ok();
            if let Some(at) = at {
                return self.by_sync.get(at);
            }
        }
        let key = (wait.process, wait.context, i64::from(event));
        let of = |record: &EventRecord| (record.process, record.context, record.event);
        let before = self.by_event.partition_point(|record| (of(record), record.correlation) < (key, wait.correlation));
        self.by_event[..before].last().filter(|record| of(record) == key)
    }

    /// The object of a wait. `base` is the offset of the correlation ids of its process.
    pub fn resolve(&self, wait: &Wait, base: u32) -> Synchronization {
        let Wait { kind, stream, event, .. } = *wait;
        let record = self.of(wait);
        Synchronization {
            kind,
            stream,
            event,
            event_stream: record.and_then(|record| u32::try_from(record.stream).ok()),
            event_record: record.map_or(0, |record| record.correlation.saturating_add(base)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_for_the_last_record_of_their_event_before_them() {
        let record = |event, correlation, stream, event_sync| EventRecord {
            event,
            correlation,
            stream,
            event_sync,
            ..Default::default()
        };
        let records =
            EventRecords::new(vec![record(8, 30, 9, Some(71)), record(8, 10, 7, Some(70)), record(5, 12, 7, None)]);
        let wait = |event, correlation, event_sync| {
            let mut wait = Wait { correlation, event_sync, ..Default::default() };
            wait.set(Some(4_294_967_295), Some(event), 0);
            let sync = records.resolve(&wait, 100);
            (sync.kind, sync.event_stream, sync.event_record)
        };
        assert_eq!(wait(8, 20, None), (SyncKind::Event, Some(7), 110));
        assert_eq!(wait(8, 40, None), (SyncKind::Event, Some(9), 130));
        assert_eq!(wait(8, 40, Some(70)), (SyncKind::Event, Some(7), 110));
        assert_eq!(wait(8, 10, None), (SyncKind::Event, None, 0));
        assert_eq!(wait(6, 99, None), (SyncKind::Event, None, 0));
    }

    #[test]
    fn the_kind_of_a_wait_follows_from_its_ids() {
        let kind = |stream, event, sync_type| {
            let mut wait = Wait::default();
            wait.set(stream, event, sync_type);
            wait.kind
        };
        let none = Some(4_294_967_295);
        assert_eq!(kind(Some(7), none, 2), SyncKind::Stream);
        assert_eq!(kind(Some(7), Some(1), 3), SyncKind::StreamWait);
        assert_eq!(kind(none, Some(1), 2), SyncKind::Event);
        assert_eq!(kind(none, none, 1), SyncKind::Device);
        assert_eq!((kind(None, None, 3), kind(None, None, 0)), (SyncKind::Stream, SyncKind::Unknown));
    }
}
