//! Allocations as rows of a table, made when they come on screen.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::analysis::memory::by_place::{Place, Places};
use crate::analysis::memory::labels::first_below_allocator;
use crate::figures::{Cell, Column, MAX_FRAMES, Rows, Sort, format, sort_by_key};
use crate::model::memory::{AllocationId, MemorySource, stream_name};
use crate::model::{DurNs, MemoryHistory, StackId, Trace};

/// What a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Size,
    Requested,
    Start,
    End,
    Life,
    Stream,
    Pool,
    Category,
    Frame,
    Address,
    Stack,
}

/// Allocations that fit a filter.
#[derive(Debug)]
pub struct AllocationRows {
    trace: Arc<Trace>,
    /// Index into the trace's memories.
    memory: usize,
    /// What to add to the trace's times to get session times.
    offset_ns: DurNs,
    /// In order of id.
    pub ids: Arc<Vec<AllocationId>>,
    /// The handles of all streams of the history, sorted.
    pub streams: Vec<i64>,
    /// The sum of their sizes, in bytes.
    pub bytes: u64,
    columns: Vec<Column>,
    kinds: Vec<Kind>,
    /// The place of each stack.
    of_stack: Arc<Vec<Place>>,
}

impl AllocationRows {
    /// * `memory`: index into the trace's memories.
    /// * `offset_ns`: what to add to the trace's times to get session times.
    /// * `of_stack`: the place of each stack of the trace, as lists by place have it.
    ///
    /// Cost: O(ids).
    pub fn new(
        trace: Arc<Trace>,
        memory: usize,
        offset_ns: DurNs,
        ids: Vec<AllocationId>,
        of_stack: Arc<Vec<Place>>,
    ) -> Self {
        let history = &trace.memories[memory];
        let (all, has_time) = (&history.allocations, history.has_time);
        let bytes = ids.iter().map(|id| all.bytes[id.idx()]).sum();
        let is_paired = history.source == MemorySource::Timeline;
        let freed = match is_paired {
            true => "When it ended if the newest of one size and category is always freed first; empty if never",
            false => "When its block could be used again; empty if never",
        };
        let life = match is_paired {
            true => {
                "How long it was live if the newest of one size and category is always freed first: a guess, as the file \
                 does not say"
            }
            false => "How long it was live; at least so long if it was live when the recording began or ended",
        };
        let (start, end, life_key) =
            if has_time { ("start_ns", "end_ns", "life_ns") } else { ("start_event", "end_event", "life_events") };
        let column = |title, key, width, is_text, help| Column { key, title, width, is_text, help };
        let mut columns = vec![
            (Kind::Size, column("Size", "bytes", 90, false, "Size of its block")),
            (Kind::Requested, column("Requested", "requested_bytes", 90, false, "Requested by the program")),
            (Kind::Start, column("Allocated", start, 110, false, "When; empty if before the recording began")),
            (Kind::End, column("Freed", end, 110, false, freed)),
            (Kind::Life, column("Lifetime", life_key, 100, false, life)),
            (Kind::Stream, column("Stream", "stream", 80, false, "The stream it was allocated for, 0 is the default")),
            (Kind::Pool, column("Pool", "pool", 60, true, "The private pool it is from, if it is from one")),
            (
                Kind::Category,
                column(
                    "Category",
                    "category",
                    100,
                    true,
                    "What the file says it is for; of what changed, the last one that matches",
                ),
            ),
            (
                Kind::Frame,
                column(
                    "Allocated at",
                    "stack",
                    340,
                    true,
                    "The place, as in the memory by place: the innermost frame in user code",
                ),
            ),
            (Kind::Address, column("Address", "address", 130, true, "On the device")),
            (Kind::Stack, column("Stack", "frames", 400, true, "The whole call stack, innermost frame first")),
        ];
        let has_category = !all.category.is_empty();
        // Else no column says where they are from.
        let has_stacks = !has_category || trace.stacks.len() > 1;
        let has_private = history.pools.iter().any(|pool| pool.private != (0, 0));
        let has_streams = history.pools.len() > 1 || history.pools.iter().any(|pool| pool.stream != 0);
        columns.retain(|(kind, _)| match kind {
            Kind::Category => has_category,
            Kind::Frame | Kind::Stack => has_stacks,
            Kind::Pool => has_private,
            Kind::Stream => has_streams,
            Kind::Address => !is_paired,
            _ => true,
        });
        let (kinds, columns) = columns.into_iter().unzip();
        let mut streams: Vec<i64> = history.pools.iter().map(|pool| pool.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        Self { ids: Arc::new(ids), streams, bytes, columns, kinds, of_stack, memory, offset_ns, trace }
    }

    fn history(&self) -> &MemoryHistory {
        &self.trace.memories[self.memory]
    }

    /// The row of the block of an allocation, which is listed once.
    pub fn row_of(&self, id: AllocationId) -> Option<usize> {
        let [first, last] = self.history().blocks.ends(id);
        [id, last, first].iter().find_map(|id| self.ids.binary_search(id).ok())
    }

    fn places(&self) -> Places<'_> {
        Places { trace: &self.trace, of_stack: &self.of_stack }
    }

    fn place(&self, id: AllocationId) -> Place {
        self.places().of(self.history(), id)
    }

    /// The order of the places of the rows by their names.
    fn ranks(&self) -> HashMap<Place, usize> {
        let distinct: HashSet<Place> = self.ids.iter().map(|&id| self.place(id)).collect();
        let mut all: Vec<Place> = distinct.into_iter().collect();
        all.sort_by_cached_key(|&place| (self.places().full_name(place), place));
        all.into_iter().enumerate().map(|(rank, place)| (place, rank)).collect()
    }

    fn stack(&self, stack: StackId, most: usize) -> String {
        first_below_allocator(&self.trace, stack, most).join("; ")
    }

    /// * `most`: frames of a stack.
    fn cell(&self, kind: Kind, id: AllocationId, most: usize) -> Cell {
        let (trace, history) = (&self.trace, self.history());
        let (all, i) = (&history.allocations, id.idx());
        let moment = |event: u32| match history.has_time {
            true => Cell::Moment(history.events.ts[event as usize].saturating_add(self.offset_ns)),
            false => Cell::Count(u64::from(event)),
        };
        match kind {
            Kind::Size => Cell::Bytes(all.bytes[i]),
            Kind::Requested => Cell::Bytes(all.requested[i]),
            Kind::Start => Cell::or_empty(history.alloc_event(id), moment),
            Kind::End => Cell::or_empty(history.free_event(id), moment),
            // Of one moment no lifetime is known.
            Kind::Life if !history.has_changes() => Cell::Empty,
            Kind::Life if history.has_time => Cell::Ns(history.lifetime(id)),
            Kind::Life => Cell::Count(history.lifetime(id).unsigned_abs()),
            Kind::Stream => Cell::text(&stream_name(history.pool_of(id).stream)),
            Kind::Pool => match history.pool_of(id).private {
                (0, 0) => Cell::Empty,
                (a, b) => Cell::text(&format!("{a}.{b}")),
            },
            Kind::Category => Cell::text(trace.strings.get(all.category(id))),
            Kind::Frame => Cell::frames(&self.places().full_name(self.place(id))),
            Kind::Address => Cell::text(&format!("{:#x}", all.addr[i])),
            Kind::Stack => Cell::frames(&self.stack(all.stack[i], most)),
        }
    }

    fn cells(&self, row: usize, most: usize) -> Cow<'_, [Cell]> {
        let Some(&id) = self.ids.get(row) else { return Cow::Borrowed(&[]) };
        Cow::Owned(self.kinds.iter().map(|&kind| self.cell(kind, id, most)).collect())
    }

    fn sort_by<K: Ord>(&self, order: &mut [u32], is_descending: bool, key: impl Fn(AllocationId) -> Option<K>) {
        sort_by_key(order, is_descending, |row| key(self.ids[row as usize]));
    }
}

impl Rows for AllocationRows {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn n_rows(&self) -> usize {
        self.ids.len()
    }

    fn row(&self, row: usize) -> Cow<'_, [Cell]> {
        self.cells(row, MAX_FRAMES)
    }

    fn row_in_full(&self, row: usize) -> Cow<'_, [Cell]> {
        self.cells(row, usize::MAX)
    }

    /// Largest first.
    fn own_sort(&self) -> Option<Sort> {
        Some(Sort { column: 0, is_descending: true })
    }

    /// The rows are filtered already. Cost: O(n log n).
    fn order(&self, sort: Option<Sort>, _filter: &str) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.ids.len() as u32).collect();
        let Some(sort) = sort else { return order };
        let Some(&kind) = self.kinds.get(sort.column) else { return order };
        let (trace, history) = (&self.trace, self.history());
        let all = &history.allocations;
        let down = sort.is_descending;
        match kind {
            Kind::Size => self.sort_by(&mut order, down, |id| Some(all.bytes[id.idx()])),
            Kind::Requested => self.sort_by(&mut order, down, |id| Some(all.requested[id.idx()])),
            Kind::Start => self.sort_by(&mut order, down, |id| history.alloc_event(id)),
            Kind::End => self.sort_by(&mut order, down, |id| history.free_event(id)),
            Kind::Life => self.sort_by(&mut order, down, |id| Some(history.lifetime(id))),
            Kind::Stream => self.sort_by(&mut order, down, |id| Some(history.pool_of(id).stream)),
            Kind::Pool => {
                let private = |id| Some(history.pool_of(id).private).filter(|&private| private != (0, 0));
                self.sort_by(&mut order, down, private);
            }
            Kind::Address => self.sort_by(&mut order, down, |id| Some(all.addr[id.idx()])),
            Kind::Frame => {
                let ranks = self.ranks();
                self.sort_by(&mut order, down, |id| ranks.get(&self.place(id)).copied());
            }
            Kind::Category | Kind::Stack => {
                let text = |id: AllocationId| {
                    let stack = all.stack[id.idx()].0 as usize;
                    match kind {
                        Kind::Category => all.category(id),
                        _ => trace.stacks.frame.get(stack).copied().unwrap_or_default(),
                    }
                };
                let found = |id| Some(trace.strings.get(text(id))).filter(|text| !text.is_empty());
                self.sort_by(&mut order, down, found);
            }
        }
        order
    }
}

/// How long an allocation was live, in short and exactly, or in events if the history has no times: `at least 2.5 ms`
/// where it lived before the recording or lives at its end, since nobody knows what lay outside of it.
pub fn lifetime_text(history: &MemoryHistory, id: AllocationId) -> [String; 2] {
    let is_whole = history.alloc_event(id).is_some() && history.free_event(id).is_some();
    let least = if is_whole { "" } else { "at least " };
    let life = history.lifetime(id);
    let texts = match history.has_time {
        true => [format::duration(life), format::duration_exact(life)],
        false => [(); 2].map(|()| format::of_things(life.unsigned_abs(), "event")),
    };
    texts.map(|text| format!("{least}{text}"))
}

/// What a history is: `memory history`, or the state of one moment.
pub fn source_text(history: &MemoryHistory) -> &'static str {
    if history.is_state_only() { "state of one moment" } else { history.source.label() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::model::memory::{MemoryAction, MemoryEvent, MemoryPool, RawMemory};

    #[test]
    fn a_lifetime_that_the_recording_cuts_is_a_least_one() {
        let texts = |has_time: bool| {
            let mut raw = RawMemory { has_time, ..RawMemory::default() };
            let pool = raw.pool(MemoryPool::default());
            let (alloc, free) = (MemoryAction::Alloc, MemoryAction::FreeCompleted);
            for (ts, action, addr) in [(0, alloc, 1 << 20), (1, alloc, 2 << 20), (5, free, 1 << 20), (9, free, 3 << 20)]
            {
                raw.events.push(MemoryEvent { ts, action, addr, bytes: 512, pool, stack: StackId(0) });
            }
            let trace = TraceBuilder { memories: vec![raw], ..TraceBuilder::default() }.finish();
            let history = &trace.memories[0];
            let mut ids: Vec<_> = history.allocations.ids().collect();
            ids.sort_by_key(|id| history.allocations.addr[id.idx()]);
            ids.into_iter().map(|id| lifetime_text(history, id)[0].clone()).collect::<Vec<_>>()
        };
        assert_eq!(texts(true), ["5 ns", "at least 8 ns", "at least 9 ns"]);
        assert_eq!(texts(false), ["2 events", "at least 2 events", "at least 4 events"]);
    }

    #[test]
    fn only_recorded_addresses_are_shown() {
        use crate::model::memory::MemorySource;
        let columns = |source: MemorySource| {
            let mut raw = RawMemory { source, has_time: true, ..RawMemory::default() };
            let pool = raw.pool(MemoryPool::default());
            let (ts, action, stack) = (1, MemoryAction::Alloc, StackId(0));
            raw.events.push(MemoryEvent { ts, action, addr: 7, bytes: 512, pool, stack });
            let trace = Arc::new(TraceBuilder { memories: vec![raw], ..TraceBuilder::default() }.finish());
            let id = AllocationId(0);
            let addr = trace.memories[0].address_of(id);
            let rows = AllocationRows::new(trace, 0, 0, vec![id], Arc::default());
            let has_column = rows.columns().iter().any(|column| column.key == "address");
            // Where blocks are told apart by a guess the columns that rest on it say so.
            let is_guess =
                rows.columns().iter().filter(|column| column.help.contains("of one size and category")).count();
            assert_eq!(is_guess, if addr.is_none() { 2 } else { 0 });
            assert_eq!(rows.row(0).len(), rows.columns().len());
            (addr, has_column)
        };
        assert_eq!(columns(MemorySource::Snapshot), (Some(7), true));
        assert_eq!(columns(MemorySource::Timeline), (None, false), "numbers that tell blocks apart");
    }

    #[test]
    fn rows_have_the_places_of_the_list_by_place_and_sort_by_them() {
        use crate::analysis::memory::by_place::stack_places;
        use crate::analysis::memory::fixture::Script;
        use crate::analysis::memory::labels::stack_labels;
        let main = "train.py(3): main";
        let mut script = Script::default();
        let stacks = [
            script.stack(&["aten::empty", "aten::mul", main]),
            script.stack(&["aten::empty", "aten::conv2d", "torch/nn/conv.py(7): forward", "nn.Module: Conv2d_4", main]),
            StackId(0),
            script.stack(&["c10::alloc()", "pool (/me/pool.py:71)", "train (/me/run.py:2)"]),
        ];
        stacks.iter().enumerate().for_each(|(i, &stack)| _ = script.alloc((i as u64) << 30, 512, stack));
        let trace = Arc::new(script.finish());
        let of_stack = Arc::new(stack_places(&trace, Some(&stack_labels(&trace))));
        let ids: Vec<AllocationId> = trace.memories[0].allocations.ids().collect();
        let rows = AllocationRows::new(trace, 0, 0, ids, of_stack);
        let column = rows.columns().iter().position(|column| column.key == "stack").unwrap();
        let named = |row: usize| rows.row(row)[column].as_name().map(ToOwned::to_owned);
        let places = [
            Some("train.py(3): main; via aten::mul"),
            Some("train.py(3): main; via nn.Module: Conv2d"),
            Some("(no call stack)"),
            Some("pool (/me/pool.py:71)"),
        ];
        assert_eq!((0..4).map(named).collect::<Vec<_>>(), places.map(|place| place.map(ToOwned::to_owned)));
        assert_eq!(rows.order(Some(Sort { column, is_descending: false }), ""), [2, 3, 0, 1]);
        assert_eq!(rows.order(Some(Sort { column, is_descending: true }), ""), [1, 0, 3, 2]);
    }

    #[test]
    fn of_one_moment_no_lifetime_is_listed() {
        use crate::model::memory::{BlockState, RawBlock, RawSegment};
        let (bytes, requested, state, stack) = (512, 500, BlockState::Allocated, StackId(0));
        let block = RawBlock { addr: 1 << 20, bytes, requested, state, stack };
        let segment = RawSegment { addr: 1 << 20, bytes: 4096, blocks: vec![block], ..RawSegment::default() };
        let raw = RawMemory { end: Some(vec![segment]), ..RawMemory::default() };
        let trace = Arc::new(TraceBuilder { memories: vec![raw], ..TraceBuilder::default() }.finish());
        let ids: Vec<AllocationId> = trace.memories[0].allocations.ids().collect();
        let rows = AllocationRows::new(trace, 0, 0, ids.clone(), Arc::default());
        assert_eq!(rows.cell(Kind::Life, ids[0], 1), Cell::Empty);
        assert_eq!(rows.cell(Kind::Size, ids[0], 1), Cell::Bytes(512));
    }
}
