//! Assigns the parts of a snapshot to devices, and counts them.

use std::collections::BTreeMap;

use super::describe;
use super::fold::{ANNOTATION, BAD_EVENT, BAD_TIME, EVENT, NO_TIME, SEGMENT, SnapshotFold};
use super::known as key;
use super::tally::Reason;
use crate::model::memory::{
    MemoryAction, MemoryAnnotation, MemoryEvents, MemoryNote, MemoryPool, MemorySource, OutOfMemory, RawMemory,
};
use crate::model::{StringId, TableAccount, TimeNs};
use crate::reader::pickle::{Store, Tag, Value};

/// The entries of the top-level dictionary.
#[derive(Clone, Copy, Default)]
pub struct Root {
    segments: Option<Value>,
    device_traces: Option<Value>,
    settings: Option<Value>,
    annotations: Option<Value>,
    host_segments: Option<Value>,
    host_traces: Option<Value>,
    /// The top level is the list of segments itself.
    pub is_bare: bool,
}

impl Root {
    /// Finds the parts. The error describes what the file is instead.
    pub fn find(root: Value, store: &Store) -> Result<Self, String> {
        let root = store.settled(root);
        let items = store.items(root);
        let mut found = Self::default();
        match root.tag() {
            Tag::List if items.iter().any(|item| item.as_folded(SEGMENT).is_some()) => {
                found.segments = Some(root);
                found.is_bare = true;
            }
            Tag::Dict => {
                for &[name, value] in items.as_chunks::<2>().0 {
                    let place = match name.index() {
                        _ if name.tag() != Tag::Str => continue,
                        key::SEGMENTS => &mut found.segments,
                        key::DEVICE_TRACES => &mut found.device_traces,
                        key::ALLOCATOR_SETTINGS => &mut found.settings,
                        key::EXTERNAL_ANNOTATIONS => &mut found.annotations,
                        key::HOST_SEGMENTS => &mut found.host_segments,
                        key::HOST_TRACES => &mut found.host_traces,
                        _ => continue,
                    };
                    *place = Some(store.settled(value));
                }
            }
            _ => {}
        }
        let lists = [found.segments, found.device_traces, found.host_segments, found.host_traces];
        match lists.iter().flatten().any(|value| value.tag() == Tag::List) {
            true => Ok(found),
            false => Err(describe_other(root, store)),
        }
    }

    pub fn has_traces(&self) -> bool {
        self.device_traces.is_some() || self.host_traces.is_some()
    }

    /// The allocator's settings as text.
    pub fn settings(&self, store: &Store) -> Vec<(String, String)> {
        const SECRETS: [&str; 5] = ["token", "secret", "password", "credential", "environ"];
        const MAX_SETTINGS: usize = 64;
        let pairs = self.settings.map(|settings| store.items(settings)).unwrap_or_default();
        let named = pairs.as_chunks::<2>().0.iter().filter(|pair| pair[0].tag() == Tag::Str).map(|&[name, value]| {
            let name = store.strings.get(StringId(name.index())).chars().take(80).collect::<String>();
            (name, describe::describe(store, store.settled(value)))
        });
        let is_secret = |name: &str| SECRETS.iter().any(|word| name.to_ascii_lowercase().contains(word));
        named.filter(|(name, _)| !is_secret(name)).take(MAX_SETTINGS).collect()
    }
}

/// Describes a pickle or JSON text that is not a snapshot.
fn describe_other(root: Value, store: &Store) -> String {
    let pairs = store.items(root).as_chunks::<2>().0;
    let keys = pairs.iter().filter(|pair| pair[0].tag() == Tag::Str);
    let keys: Vec<&str> = keys.take(6).map(|pair| store.strings.get(StringId(pair[0].index()))).collect();
    match root.tag() {
        Tag::Dict if !keys.is_empty() => format!(
            "Not a memory snapshot: a dictionary without lists of segments or traces, with the keys {}",
            crate::reader::printable(&keys.join(", "))
        ),
        Tag::Dict => "Not a memory snapshot: a dictionary without lists of segments or traces".to_owned(),
        Tag::List | Tag::Tuple => "Not a memory snapshot: a list of something other than segments".to_owned(),
        Tag::Folded => "Not a memory snapshot: only one part of it".to_owned(),
        _ => "Not a memory snapshot: a single value".to_owned(),
    }
}

/// The counts of one part; `read` is set last.
fn account(table: &str) -> TableAccount {
    TableAccount { table: table.to_owned(), ..TableAccount::default() }
}

/// Assigns parts of a file to devices.
pub struct Resolver<'a> {
    pub store: &'a mut Store,
    pub fold: &'a mut SnapshotFold,
    /// The host is -1.
    pub devices: BTreeMap<i32, RawMemory>,
    pub tables: Vec<TableAccount>,
    is_used: Vec<bool>,
    /// Events that are already assigned.
    n_again: usize,
    pools: Vec<MemoryPool>,
}

impl<'a> Resolver<'a> {
    pub fn new(store: &'a mut Store, fold: &'a mut SnapshotFold) -> Self {
        let is_used = vec![false; fold.events.events.len()];
        let pools = fold.events.pools.clone();
        Self { store, fold, devices: BTreeMap::new(), tables: Vec::new(), is_used, n_again: 0, pools }
    }

    /// Assigns events and segments to devices. `is_cut`: the file is truncated.
    pub fn run(&mut self, root: &Root, is_cut: bool) {
        self.traces("device_traces", root.device_traces, 0);
        self.traces("host_traces", root.host_traces, -1);
        self.orphan_events();
        let mut is_placed = vec![false; self.fold.segments.len()];
        self.segments(["segments", "blocks"], root.segments, None, &mut is_placed, is_cut);
        self.segments(["host_segments", "host_blocks"], root.host_segments, Some(-1), &mut is_placed, is_cut);
        self.orphan_segments(&is_placed);
        self.annotations(root.annotations);
        for table in &mut self.tables {
            table.read = table.shown + table.merged + table.rejected;
        }
        self.tables.retain(|table| table.read > 0);
    }

    fn device(&mut self, device: i32) -> &mut RawMemory {
        let new = || RawMemory { device, source: MemorySource::Snapshot, has_time: true, ..RawMemory::default() };
        self.devices.entry(device).or_insert_with(new)
    }

    /// The items of a list that were not taken yet.
    fn items(&mut self, list: Option<Value>, table: &mut TableAccount) -> Vec<Value> {
        let Some(list) = list.map(|list| self.store.settled(list)).filter(|&list| list != Value::NONE) else {
            return Vec::new();
        };
        let items = if list.tag() == Tag::List { self.store.take(list) } else { None };
        items.unwrap_or_else(|| {
            self.fold.tally.add(Reason::UnexpectedItem, 1);
            table.rejected += 1;
            Vec::new()
        })
    }

    /// The events of each device, or of the host, whose lists may lie in a list or be one.
    fn traces(&mut self, name: &str, lists: Option<Value>, first: i32) {
        let mut table = account(name);
        let lists = self.items(lists, &mut table);
        let is_flat = lists.iter().any(|item| item.as_folded(EVENT).is_some());
        let mut rows_of = BTreeMap::<i32, Vec<u32>>::new();
        if is_flat {
            let rows = self.rows(&lists, &mut table);
            rows_of.insert(first, rows);
        } else {
            for (i, list) in lists.into_iter().enumerate() {
                let items = self.items(Some(list), &mut table);
                let rows = self.rows(&items, &mut table);
                let device = if first < 0 { first } else { i as i32 };
                rows_of.entry(device).or_default().extend(rows);
            }
        }
        for (device, rows) in rows_of.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            let mut memory = self.select(&rows);
            (memory.device, memory.source) = (device, MemorySource::Snapshot);
            for action in &memory.events.action {
                let is_free = matches!(action, MemoryAction::FreeRequested | MemoryAction::FreeCompleted);
                *(if is_free { &mut table.merged } else { &mut table.shown }) += 1;
            }
            self.devices.insert(device, memory);
        }
        self.tables.push(table);
    }

    /// The rows of a list of folded entries.
    fn rows(&mut self, items: &[Value], table: &mut TableAccount) -> Vec<u32> {
        let mut rows = Vec::with_capacity(items.len());
        for item in items {
            match item.as_folded(EVENT) {
                Some(row) if !self.is_used[row as usize] => {
                    self.is_used[row as usize] = true;
                    rows.push(row);
                    continue;
                }
                // A few bytes can repeat an entry many times: accept at most as many as there are entries.
                Some(row) if self.n_again < self.is_used.len() => {
                    self.n_again += 1;
                    rows.push(row);
                    continue;
                }
                Some(_) => self.fold.tally.add(Reason::Duplicate, 1),
                None if item.as_folded(BAD_EVENT).is_some() => {
                    // Its reason is counted already.
                    self.fold.n_bad_events = self.fold.n_bad_events.saturating_sub(1);
                }
                None => self.fold.tally.add(Reason::UnexpectedItem, 1),
            }
            table.rejected += 1;
        }
        rows
    }

    /// Counts events in no list.
    fn orphan_events(&mut self) {
        let n = self.is_used.iter().filter(|is_used| !**is_used).count() as u64;
        self.fold.tally.add(Reason::Orphan, n);
        if let Some(table) = self.tables.first_mut() {
            table.rejected += n + self.fold.n_bad_events;
        }
    }

    /// The events of some rows, with their additions.
    fn select(&mut self, rows: &[u32]) -> RawMemory {
        let all = &mut self.fold.events;
        let is_all = rows.len() == all.events.len() && rows.iter().enumerate().all(|(i, &row)| i as u32 == row);
        let mut memory = if is_all { std::mem::take(all) } else { gather(all, rows) };
        memory.has_time = memory.events.ts.iter().any(|&ts| is_time(ts));
        if memory.has_time {
            self.fold.tally.add(Reason::NoTime, carry_times(&mut memory.events.ts));
        }
        memory
    }

    /// Segments and their blocks; `device` applies to those without a device of their own.
    fn segments(
        &mut self,
        names: [&str; 2],
        list: Option<Value>,
        device: Option<i32>,
        is_placed: &mut [bool],
        is_cut: bool,
    ) {
        let [mut table, mut blocks] = names.map(account);
        let is_known = list.is_some_and(|list| list.tag() == Tag::List);
        for item in self.items(list, &mut table) {
            let Some(at) = item.as_folded(SEGMENT) else {
                self.fold.tally.add(Reason::UnexpectedItem, 1);
                table.rejected += 1;
                continue;
            };
            if std::mem::replace(&mut is_placed[at as usize], true) {
                self.fold.tally.add(Reason::Duplicate, 1);
                table.rejected += 1;
                continue;
            }
            let segment = &mut self.fold.segments[at as usize];
            let (n_blocks, n_shown) = (segment.n_blocks, segment.n_shown);
            let of = device.unwrap_or(segment.device);
            let raw = segment.segment.take();
            let has_lost_events = is_cut && self.devices.get(&of).is_some_and(|memory| !memory.events.is_empty());
            let Some(mut raw) = raw.filter(|_| !has_lost_events) else {
                if has_lost_events {
                    self.fold.tally.add(Reason::CutState, 1 + n_blocks);
                }
                table.rejected += 1;
                blocks.rejected += n_blocks;
                continue;
            };
            table.shown += 1;
            blocks.shown += n_shown;
            blocks.rejected += n_blocks - n_shown;
            let pool = self.pools.get(raw.pool.0 as usize).copied().unwrap_or_default();
            let memory = self.device(of);
            raw.pool = memory.pool(pool);
            memory.end.get_or_insert_default().push(raw);
        }
        // An empty list of segments means that nothing was reserved.
        if is_known && !is_cut {
            let is_host = device.is_some();
            for memory in self.devices.values_mut().filter(|memory| (memory.device < 0) == is_host) {
                memory.end.get_or_insert_default();
            }
        }
        self.tables.extend([table, blocks]);
    }

    /// Counts segments and blocks in no list.
    fn orphan_segments(&mut self, is_placed: &[bool]) {
        let orphans = self.fold.segments.iter().zip(is_placed).filter(|entry| !entry.1);
        let (n, n_blocks) = orphans.fold((0, 0), |sum, (segment, _)| (sum.0 + 1, sum.1 + segment.n_blocks));
        let in_segments: u64 = self.fold.segments.iter().map(|segment| segment.n_blocks).sum();
        let loose = self.fold.n_blocks().saturating_sub(in_segments);
        self.fold.tally.add(Reason::Orphan, n + n_blocks + loose);
        for (name, n) in [("segments", n), ("blocks", n_blocks + loose)] {
            if let Some(table) = self.tables.iter_mut().find(|table| table.table == name) {
                table.rejected += n;
            }
        }
    }

    /// Pairs starts and ends by device and name.
    fn annotations(&mut self, list: Option<Value>) {
        let mut table = account("external_annotations");
        let mut is_placed = vec![false; self.fold.annotations.len()];
        let mut open = hashbrown::HashMap::<(i32, StringId), Vec<usize>>::new();
        for item in self.items(list, &mut table) {
            let at = item.as_folded(ANNOTATION).map(|at| at as usize);
            let Some(at) = at.filter(|&at| !std::mem::replace(&mut is_placed[at], true)) else {
                self.fold.tally.add(if at.is_some() { Reason::Duplicate } else { Reason::UnexpectedItem }, 1);
                table.rejected += 1;
                continue;
            };
            let stage = self.fold.annotations[at];
            let key = (stage.device, stage.name);
            match stage.is_start {
                Some(true) => {
                    let annotations = &mut self.device(stage.device).annotations;
                    open.entry(key).or_default().push(annotations.len());
                    let (name, start) = (stage.name, stage.ts);
                    annotations.push(MemoryAnnotation { name, start, end: start, has_end: false });
                    table.shown += 1;
                }
                Some(false) => match open.get_mut(&key).and_then(Vec::pop) {
                    Some(begun) => {
                        let annotation = &mut self.device(stage.device).annotations[begun];
                        annotation.end = stage.ts.max(annotation.start);
                        annotation.has_end = true;
                        table.merged += 1;
                    }
                    None => {
                        self.fold.tally.add(Reason::EndWithoutStart, 1);
                        table.rejected += 1;
                    }
                },
                None => table.rejected += 1,
            }
        }
        let n_open = self.devices.values().flat_map(|memory| &memory.annotations).filter(|note| !note.has_end).count();
        self.fold.tally.add(Reason::StartWithoutEnd, n_open as u64);
        let n_orphans = is_placed.iter().filter(|is_placed| !**is_placed).count() as u64;
        self.fold.tally.add(Reason::Orphan, n_orphans);
        table.rejected += n_orphans;
        self.tables.push(table);
    }
}

fn is_time(ts: TimeNs) -> bool {
    ts != NO_TIME && ts != BAD_TIME
}

/// Gives events without a time that of the preceding event, or of the first event with a time. Returns the
/// number of events without any time; invalid times are counted already.
fn carry_times(times: &mut [TimeNs]) -> u64 {
    let mut latest = times.iter().copied().find(|&ts| is_time(ts)).unwrap_or_default();
    let mut n_without = 0;
    for ts in times {
        n_without += u64::from(*ts == NO_TIME);
        if is_time(*ts) {
            latest = *ts;
        } else {
            *ts = latest;
        }
    }
    n_without
}

/// A copy of some rows. Additions of a row move to its last occurrence.
fn gather(all: &RawMemory, rows: &[u32]) -> RawMemory {
    let mut memory = RawMemory::default();
    let mut new_row = vec![u32::MAX; all.events.len()];
    let mut pools = vec![None; all.pools.len()];
    let from = &all.events;
    let mut events = MemoryEvents::default();
    for (new, &row) in rows.iter().enumerate() {
        new_row[row as usize] = new as u32;
        let row = row as usize;
        events.ts.push(from.ts[row]);
        events.action.push(from.action[row]);
        events.addr.push(from.addr[row]);
        events.bytes.push(from.bytes[row]);
        let pool = from.pool[row].0 as usize;
        events.pool.push(*pools[pool].get_or_insert_with(|| memory.pool(all.pools[pool])));
        events.stack.push(from.stack[row]);
    }
    memory.events = events;
    let new = |row: u32| new_row.get(row as usize).copied().filter(|&row| row != u32::MAX);
    memory.ooms = all.ooms.iter().filter_map(|oom| Some(OutOfMemory { event: new(oom.event)?, ..*oom })).collect();
    memory.notes = all.notes.iter().filter_map(|note| Some(MemoryNote { event: new(note.event)?, ..*note })).collect();
    memory.categories = all.categories.iter().filter_map(|&(row, category)| Some((new(row)?, category))).collect();
    memory.forward = all.forward.iter().filter_map(|&(row, stack)| Some((new(row)?, stack))).collect();
    memory.ooms.sort_by_key(|oom| oom.event);
    memory.notes.sort_by_key(|note| note.event);
    memory.categories.sort_by_key(|entry| entry.0);
    memory.forward.sort_by_key(|entry| entry.0);
    memory
}
