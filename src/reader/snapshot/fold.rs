//! Turns each dictionary and list of a snapshot into a row, a block or a frame as soon as it is complete.

use hashbrown::HashMap;

use super::describe;
use super::frames::{self, Stacks};
use super::known as key;
use super::tally::{Reason, Tally};
use crate::model::memory::{
    BlockState, MemoryAction, MemoryEvent, MemoryNote, MemoryPool, OutOfMemory, PoolId, RawMemory, RawSegment,
};
use crate::model::{StackId, StringId, StringTable, TimeNs};
use crate::reader::pickle::{Fold, Store, Tag, Value};

/// What a container was folded into; each kind counts from 0.
pub const FRAME: u8 = 1;
pub const STACK: u8 = 2;
pub const POOL: u8 = 3;
/// A trace entry that is an event: a row of [`SnapshotFold::events`].
pub const EVENT: u8 = 4;
/// A trace entry that is not shown.
pub const BAD_EVENT: u8 = 5;
pub const BLOCK: u8 = 6;
pub const SEGMENT: u8 = 7;
pub const ANNOTATION: u8 = 8;
/// The history of a block, as torch 2.0 writes it.
pub const PAST: u8 = 9;

/// Larger sizes are taken for damage: 256 TiB.
const MAX_BYTES: u64 = 1 << 48;

/// The time of an event without one, and of one whose time is invalid.
pub const NO_TIME: TimeNs = TimeNs::MIN;
pub const BAD_TIME: TimeNs = TimeNs::MIN + 1;

/// A block as written in the file; its segment determines its address and pool.
pub struct Block {
    pub addr: Option<u64>,
    /// `None` if its size or state is invalid.
    pub known: Option<(u64, BlockState)>,
    pub requested: u64,
    pub stack: StackId,
}

/// A segment, with the counts of its blocks.
pub struct Segment {
    pub device: i32,
    /// `None` if it is not shown.
    pub segment: Option<RawSegment>,
    pub n_blocks: u64,
    pub n_shown: u64,
}

/// One end of an annotation.
#[derive(Clone, Copy)]
pub struct Stage {
    pub device: i32,
    pub name: StringId,
    pub ts: TimeNs,
    /// `None` if it is invalid.
    pub is_start: Option<bool>,
}

/// The parts of a snapshot, in the order of the file.
pub struct SnapshotFold {
    pub strings: StringTable,
    pub stacks: Stacks,
    /// Events of all devices; notes and other additions refer to them by row.
    pub events: RawMemory,
    pub n_bad_events: u64,
    pub segments: Vec<Segment>,
    /// Blocks of all segments.
    pub blocks: Vec<Block>,
    pub annotations: Vec<Stage>,
    pub tally: Tally,
    pool_ids: Vec<(u64, u64)>,
    pool_index: HashMap<(u64, u64), u32>,
    /// Size and stack of each.
    pub pasts: Vec<(Option<u64>, StackId)>,
    last_pool: Option<(MemoryPool, PoolId)>,
    fields: [Value; key::N_KEYS],
    has: u64,
    /// Where the current dictionary ends.
    pub offset: u64,
    /// The trace's string of each of the file's.
    names: Vec<StringId>,
    text: String,
}

impl Fold for SnapshotFold {
    fn dict(&mut self, pairs: &[Value], store: &mut Store, offset: u64) -> Option<(u8, u32)> {
        self.has = 0;
        self.offset = offset;
        let (pairs, _) = pairs.as_chunks::<2>();
        for &[name, value] in pairs {
            if name.tag() == Tag::Str && (name.index() as usize) < key::N_KEYS {
                self.fields[name.index() as usize] = value;
                self.has |= 1 << name.index();
            }
        }
        match () {
            () if self.has(key::ACTION) => Some(self.event(store)),
            () if self.has(key::FILENAME) && (self.has(key::LINE) || self.has(key::NAME)) => Some(self.frame(store)),
            () if self.has(key::BLOCKS) || self.has(key::TOTAL_SIZE) => Some(self.segment(store)),
            () if self.has(key::STAGE) => Some(self.annotation(store)),
            () if self.has(key::STATE) && self.has(key::SIZE) => Some(self.block(store)),
            () if self.has(key::REAL_SIZE) => {
                let size = self.size(store, key::REAL_SIZE);
                let stack = self.stack(store, key::FRAMES);
                self.pasts.push((size, stack));
                Some((PAST, self.pasts.len() as u32 - 1))
            }
            () => None,
        }
    }

    fn list(&mut self, items: &[Value], store: &Store) -> Option<(u8, u32)> {
        match items {
            [first, ..] if first.as_folded(FRAME).is_some() => {
                let is_stack = items.iter().all(|item| item.as_folded(FRAME).is_some());
                is_stack.then(|| (STACK, self.stacks.intern(items).0))
            }
            _ => self.tuple(items, store),
        }
    }

    /// The id of a pool, which JSON has as a list.
    fn tuple(&mut self, items: &[Value], _: &Store) -> Option<(u8, u32)> {
        let &[a, b] = items else { return None };
        if a.tag() != Tag::Int || b.tag() != Tag::Int {
            return None;
        }
        let id = (a.as_small_int() as u64, b.as_small_int() as u64);
        let next = self.pool_ids.len() as u32;
        let at = *self.pool_index.entry(id).or_insert(next);
        if at == next {
            self.pool_ids.push(id);
        }
        Some((POOL, at))
    }
}

impl SnapshotFold {
    pub fn new() -> Self {
        Self {
            strings: StringTable::default(),
            stacks: Stacks::default(),
            events: RawMemory::default(),
            n_bad_events: 0,
            segments: Vec::new(),
            blocks: Vec::new(),
            annotations: Vec::new(),
            tally: Tally::default(),
            pool_ids: Vec::new(),
            pool_index: HashMap::new(),
            pasts: Vec::new(),
            last_pool: None,
            fields: [Value::NONE; key::N_KEYS],
            has: 0,
            offset: 0,
            names: Vec::new(),
            text: String::new(),
        }
    }

    /// Blocks met so far.
    pub fn n_blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    #[inline]
    pub fn has(&self, key: u32) -> bool {
        self.has >> key & 1 != 0
    }

    /// The value of a key, if it has one that is not `None`.
    #[inline]
    pub fn field(&self, key: u32) -> Option<Value> {
        let value = self.fields[key as usize];
        (self.has(key) && value != Value::NONE).then_some(value)
    }

    pub fn int(&self, store: &Store, key: u32) -> Option<i128> {
        self.field(key).and_then(|value| store.as_int(value))
    }

    /// A number of at most 64 bits, with or without a sign: C++ writes high addresses as negative.
    pub fn word(&mut self, store: &Store, key: u32) -> Option<u64> {
        let value = self.field(key)?;
        if value.tag() == Tag::Int {
            return Some(value.as_small_int() as u64);
        }
        let number = store.as_int(value);
        let word = number.and_then(|number| {
            u64::try_from(number).ok().or_else(|| i64::try_from(number).ok().map(i64::cast_unsigned))
        });
        if word.is_none() {
            self.tally.count(Reason::BadField, self.offset);
        }
        word
    }

    /// A size in bytes; `None` if it is missing or not a size.
    pub fn size(&self, store: &Store, key: u32) -> Option<u64> {
        let size = self.int(store, key).and_then(|size| u64::try_from(size).ok());
        size.filter(|&size| size <= MAX_BYTES)
    }

    /// A time in nanoseconds; [`NO_TIME`] if it is missing, an error if it is not a time.
    fn time(&self, store: &Store) -> Result<TimeNs, Reason> {
        let Some(value) = self.field(key::TIME_US) else { return Ok(NO_TIME) };
        let us = store.as_int(value).and_then(|us| i64::try_from(us).ok());
        us.and_then(|us| us.checked_mul(1000)).ok_or(Reason::BadTime)
    }

    /// The number of a text that [`super::known`] may list.
    pub fn word_of(&self, key: u32) -> Option<u32> {
        self.field(key).filter(|value| value.tag() == Tag::Str).map(Value::index)
    }

    pub fn device(&mut self, store: &Store) -> i32 {
        let Some(device) = self.field(key::DEVICE) else { return 0 };
        store.as_int(device).and_then(|device| i32::try_from(device).ok()).unwrap_or_else(|| {
            self.tally.count(Reason::BadField, self.offset);
            0
        })
    }

    pub fn stack(&mut self, store: &Store, key: u32) -> StackId {
        let Some(value) = self.field(key) else { return StackId::default() };
        match value.as_folded(STACK) {
            Some(stack) => StackId(stack),
            None if value.tag() == Tag::List && store.is_empty_box(value) => StackId::default(),
            None if value.tag() == Tag::Tuple && store.items(value).is_empty() => StackId::default(),
            None => {
                self.tally.count(Reason::BadFrames, self.offset);
                StackId::default()
            }
        }
    }

    pub fn pool(&mut self, store: &Store, key: u32) -> PoolId {
        let stream = self.word(store, key::STREAM).unwrap_or_default().cast_signed();
        let private = self.field(key).and_then(|id| id.as_folded(POOL));
        let private = private.map_or((0, 0), |at| self.pool_ids[at as usize]);
        let pool = MemoryPool { stream, private };
        match self.last_pool {
            Some((last, id)) if last == pool => id,
            _ => {
                let id = self.events.pool(pool);
                self.last_pool = Some((pool, id));
                id
            }
        }
    }

    /// The trace's string for a text of the file.
    pub fn string(&mut self, store: &Store, value: Value) -> StringId {
        let at = value.index() as usize;
        if at >= self.names.len() {
            self.names.resize(at + 1, StringId::EMPTY);
        }
        if self.names[at] == StringId::EMPTY {
            self.names[at] = self.strings.intern(store.strings.get(StringId(value.index())));
        }
        self.names[at]
    }

    fn frame(&mut self, store: &Store) -> (u8, u32) {
        let text = |key| {
            let id = self.word_of(key).unwrap_or_default();
            store.strings.get(StringId(id))
        };
        let line = self.int(store, key::LINE);
        let (name, file) = (text(key::NAME), text(key::FILENAME));
        let id = frames::frame(&mut self.strings, &mut self.text, name, file, line);
        (FRAME, id.0)
    }

    fn event(&mut self, store: &Store) -> (u8, u32) {
        match self.read_event(store) {
            Ok(event) => {
                let row = self.events.events.len() as u32;
                self.events.events.push(event);
                self.add_to_event(store, row, event);
                (EVENT, row)
            }
            Err(reason) => {
                self.tally.count(reason, self.offset);
                self.n_bad_events += 1;
                (BAD_EVENT, 0)
            }
        }
    }

    fn read_event(&mut self, store: &Store) -> Result<MemoryEvent, Reason> {
        use MemoryAction as A;
        let action = match self.word_of(key::ACTION).ok_or(Reason::UnknownAction)? {
            key::ALLOC => A::Alloc,
            key::FREE_REQUESTED => A::FreeRequested,
            key::FREE_COMPLETED | key::FREE => A::FreeCompleted,
            key::SEGMENT_ALLOC => A::SegmentAlloc,
            key::SEGMENT_FREE => A::SegmentFree,
            key::SEGMENT_MAP => A::SegmentMap,
            key::SEGMENT_UNMAP => A::SegmentUnmap,
            key::OOM => A::OutOfMemory,
            key::SNAPSHOT => A::Snapshot,
            key::ANNOTATE | key::USER_DEFINED => A::Annotate,
            _ => return Err(Reason::UnknownAction),
        };
        let is_place = !matches!(action, A::OutOfMemory | A::Snapshot | A::Annotate);
        let addr = self.word(store, key::ADDR);
        if is_place && addr.is_none() {
            return Err(Reason::NoAddress);
        }
        let bytes = match self.size(store, key::SIZE) {
            Some(bytes) => bytes,
            None if action == A::Annotate && !self.has(key::SIZE) => 0,
            None => return Err(Reason::BadSize),
        };
        // An event without a time is still an event: without it the curves would be wrong.
        let ts = self.time(store).unwrap_or_else(|reason| {
            self.tally.count(reason, self.offset);
            BAD_TIME
        });
        let pool = self.pool(store, key::POOL_ID);
        let stack = self.stack(store, key::FRAMES);
        Ok(MemoryEvent { ts, action, addr: addr.unwrap_or(0), bytes, pool, stack })
    }

    /// Adds the fields of an event that are not columns.
    fn add_to_event(&mut self, store: &Store, row: u32, event: MemoryEvent) {
        const RARE: u64 = 1 << key::FORWARD_FRAMES
            | 1 << key::USER_METADATA
            | 1 << key::COMPILE_CONTEXT
            | 1 << key::CATEGORY
            | 1 << key::DEVICE_FREE;
        if event.action == MemoryAction::OutOfMemory {
            let device_free = self.size(store, key::DEVICE_FREE);
            if device_free.is_none() && self.field(key::DEVICE_FREE).is_some() {
                self.tally.count(Reason::BadField, self.offset);
            }
            self.events.ooms.push(OutOfMemory { event: row, requested: event.bytes, device_free });
        }
        if self.has & RARE == 0 {
            return;
        }
        if self.has(key::FORWARD_FRAMES) {
            let stack = self.stack(store, key::FORWARD_FRAMES);
            if stack != StackId::default() {
                self.events.forward.push((row, stack));
            }
        }
        for name in [key::USER_METADATA, key::COMPILE_CONTEXT, key::CATEGORY] {
            let Some(value) = self.field(name) else { continue };
            let text = match value.tag() {
                Tag::Str if matches!(value.index(), key::EMPTY | key::NOT_AVAILABLE) => continue,
                Tag::Str => self.string(store, value),
                _ => {
                    let text = describe::describe(store, value);
                    self.strings.intern(&text)
                }
            };
            let key = self.string(store, Value::new(Tag::Str, name.into()));
            self.events.notes.push(MemoryNote { event: row, key, text });
            if name == key::CATEGORY && event.action == MemoryAction::Alloc {
                self.events.categories.push((row, text));
            }
        }
    }

    fn annotation(&mut self, store: &Store) -> (u8, u32) {
        let device = self.device(store);
        let name = self.field(key::NAME).filter(|name| name.tag() == Tag::Str);
        let is_start = match self.word_of(key::STAGE) {
            Some(key::START) => Some(true),
            Some(key::END) => Some(false),
            _ => None,
        };
        let ts = self.time(store).ok().filter(|&ts| ts != NO_TIME);
        let is_start = is_start.filter(|_| name.is_some() && ts.is_some());
        if is_start.is_none() {
            self.tally.count(Reason::BadAnnotation, self.offset);
        }
        let name = name.map(|name| self.string(store, name)).unwrap_or_default();
        self.annotations.push(Stage { device, name, ts: ts.unwrap_or_default(), is_start });
        (ANNOTATION, self.annotations.len() as u32 - 1)
    }
}
