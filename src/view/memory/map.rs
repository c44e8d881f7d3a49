//! Layout of the map of the allocator's state.
//!
//! Segments follow each other like words: by address, wrapped at the right edge, each pool under its
//! own heading. A range of addresses has the same place at every moment. Ranges narrower than a pixel share it with
//! their neighbors, so the number of boxes is bounded by pixels, and every byte is counted.

use crate::analysis::memory::state::{AllocatorState, PartKind, PoolState, SegmentPart, SegmentState};
use crate::model::MemoryHistory;
use crate::model::memory::{AllocationId, PoolId, Segment, SegmentKind, highest};

/// Gap between two segments of one line, in points.
const GAP: f32 = 3.0;
/// A segment is never narrower than this, so that it can be seen and hit.
const MIN_SEGMENT: f32 = 2.0;

/// How often the estimated scale of a map is doubled until the map fits.
const MOST_DOUBLINGS: u32 = 5;
/// A scale that is so little coarser than the finest that fits is good enough.
const ENOUGH: f64 = 1.02;

/// What a box shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    One(PartKind),
    /// Several stretches in one pixel: the heaviest block if there is one, and how much of the pixel
    /// blocks have, 0 to 1.
    Mixed(Option<AllocationId>, f32),
}

/// A box on the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapBox {
    /// Index of the line, from the top.
    pub line: u32,
    /// From and to, in points from the left edge.
    pub x: [f32; 2],
    pub fill: Fill,
    pub addr: u64,
    pub bytes: u64,
    /// Index into the pool's segments.
    pub segment: u32,
    /// Index into the state's pools.
    pub pool: u32,
}

/// A line of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapLine {
    /// The heading of a pool.
    Heading(u32),
    /// Boxes.
    Boxes,
}

/// A laid-out map.
#[derive(Clone, Debug, Default)]
pub struct Map {
    pub lines: Vec<MapLine>,
    /// By line, then from left to right.
    pub boxes: Vec<MapBox>,
    pub bytes_per_point: f64,
}

impl Map {
    /// The boxes of these lines.
    pub fn of_lines(&self, lines: std::ops::Range<u32>) -> &[MapBox] {
        let first = self.boxes.partition_point(|place| place.line < lines.start);
        let last = self.boxes.partition_point(|place| place.line < lines.end);
        &self.boxes[first..last.max(first)]
    }

    /// The first line and the number of lines of what lies at an address of a segment.
    ///
    /// * `place`: pool, segment and address.
    pub fn lines_of(&self, place: (u32, u32, u64)) -> (u32, u32) {
        let of = |known: &MapBox| (known.pool, known.segment, known.addr);
        let after = self.boxes.partition_point(|known| of(known) <= place);
        // From afar it may share a box with what lies before it.
        let Some(last) = after.checked_sub(1).map(|at| self.boxes[at]) else { return (0, 1) };
        let first = self.boxes[self.boxes.partition_point(|known| of(known) < of(&last))].line;
        (first, last.line - first + 1)
    }

    /// The box at a place.
    pub fn at(&self, line: u32, x: f32) -> Option<&MapBox> {
        let boxes = self.of_lines(line..line + 1);
        boxes[..boxes.partition_point(|place| place.x[0] <= x)]
            .last()
            .filter(|place| x <= place.x[1].max(place.x[0] + 1.0))
    }
}

/// A range of addresses with a fixed place on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub pool: PoolId,
    pub kind: SegmentKind,
    pub addr: u64,
    pub bytes: u64,
}

/// The places of a map by pool, size class and address, the same at every moment: what is reserved and given back later
/// does not move what stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// One for each range that was ever reserved; empty where these are much more than is ever reserved at once.
    all: Vec<Slot>,
    bytes: u64,
    n_slots: usize,
    n_pools: usize,
}

impl Slots {
    /// Cost: O(states + segments · log segments).
    pub fn of(history: &MemoryHistory) -> Self {
        let slot = |segment: &Segment| {
            let Segment { pool, kind, addr, bytes, is_expandable, .. } = *segment;
            (Slot { pool, kind, addr, bytes: bytes.min(u64::MAX - addr) }, is_expandable)
        };
        let (peak, reserved) = highest(&history.curves.reserved);
        let slots = merged(history.segments.iter().map(slot).collect());
        let n_pools = slots.chunk_by(is_of_one_pool).count();
        let bytes = slots.iter().map(|slot| slot.bytes).fold(0, u64::saturating_add);
        if bytes <= reserved.saturating_mul(2) {
            return Self { bytes, n_slots: slots.len(), n_pools, all: slots };
        }
        let at_peak = history.segments.iter().filter(|segment| segment.is_live(peak));
        Self { all: Vec::new(), bytes: reserved, n_slots: merged(at_peak.map(slot).collect()).len(), n_pools }
    }

    /// The bytes per point at which all fits into `n_lines` lines of `width` points, headings among them. Cost: that of
    /// some twenty maps without content.
    pub fn fitting_scale(&self, width: f32, n_lines: u32) -> f64 {
        let estimate = self.estimated_scale(width, n_lines);
        let nothing = AllocatorState::default();
        let fits = |scale: &f64| lay_out(&nothing, self, width, *scale).lines.len() as u32 <= n_lines;
        let coarser = (0..MOST_DOUBLINGS).map(|doubled| estimate * f64::from(1 << doubled));
        // Of other places there are as many as a moment has; and where each is as narrow as can be, none fits.
        let Some(mut fitting) = coarser.filter(|_| !self.all.is_empty()).find(fits) else { return estimate };
        let mut finer = fitting / f64::from(1 << MOST_DOUBLINGS);
        while fitting / finer > ENOUGH {
            let middle = (finer * fitting).sqrt();
            *(if fits(&middle) { &mut fitting } else { &mut finer }) = middle;
        }
        fitting.max(1.0)
    }

    fn estimated_scale(&self, width: f32, n_lines: u32) -> f64 {
        let gaps = self.n_slots as f64 * f64::from(GAP + 1.0);
        // Each pool ends with an incomplete line.
        let lines = f64::from(n_lines.saturating_sub(2 * self.n_pools as u32).max(1));
        let room = (lines * f64::from(width) - gaps).max(f64::from(width) / 2.0);
        (self.bytes as f64 / room).max(1.0)
    }

    /// The bytes per point at which all fits into `n_lines` full lines.
    pub fn least_scale(&self, width: f32, n_lines: f64) -> f64 {
        (self.bytes as f64 / (f64::from(width) * n_lines)).max(1.0)
    }

    /// One for each segment of a state.
    fn of_state(state: &AllocatorState) -> Vec<Slot> {
        let of_pool = |pool: &PoolState| {
            let (id, kind) = (pool.pool, pool.kind);
            let slot = move |segment: &SegmentState| Slot { pool: id, kind, addr: segment.addr, bytes: segment.bytes };
            pool.segments.iter().map(slot).collect::<Vec<_>>()
        };
        state.pools.iter().flat_map(of_pool).collect()
    }
}

fn is_of_one_pool(a: &Slot, b: &Slot) -> bool {
    (a.pool, a.kind) == (b.pool, b.kind)
}

/// Joins ranges of one pool that overlap, and those of expandable segments that touch.
fn merged(mut all: Vec<(Slot, bool)>) -> Vec<Slot> {
    all.sort_unstable_by_key(|(slot, _)| (slot.pool, slot.kind, slot.addr, slot.bytes));
    let mut found: Vec<(Slot, bool)> = Vec::new();
    for (slot, is_expandable) in all {
        match found.last_mut() {
            Some((last, was_expandable))
                if is_of_one_pool(last, &slot)
                    && (slot.addr < last.addr + last.bytes
                        || slot.addr == last.addr + last.bytes && is_expandable && *was_expandable) =>
            {
                last.bytes = last.bytes.max(slot.addr + slot.bytes - last.addr);
                *was_expandable |= is_expandable;
            }
            _ => found.push((slot, is_expandable)),
        }
    }
    found.into_iter().map(|(slot, _)| slot).collect()
}

/// Where the next box goes.
struct Pen {
    map: Map,
    width: f64,
    line: u32,
    /// Exact enough for segments of thousands of lines.
    x: f64,
}

/// Lays out a map of lines `width` points wide.
///
/// Cost: O(parts + slots + points).
pub fn lay_out(state: &AllocatorState, slots: &Slots, width: f32, bytes_per_point: f64) -> Map {
    let of_state = if slots.all.is_empty() { Slots::of_state(state) } else { Vec::new() };
    let slots = if slots.all.is_empty() { &of_state } else { &slots.all };
    let map = Map { bytes_per_point, ..Map::default() };
    let mut pen = Pen { map, width: f64::from(width.max(8.0)), line: 0, x: 0.0 };
    for slots in slots.chunk_by(is_of_one_pool) {
        let pool = state.pools.iter().position(|pool| (pool.pool, pool.kind) == (slots[0].pool, slots[0].kind));
        // The heading of a pool without segments at this moment keeps its line.
        pen.map.lines.push(pool.map_or(MapLine::Boxes, |pool| MapLine::Heading(pool as u32)));
        pen.new_line();
        let segments = pool.map_or(&[][..], |pool| &state.pools[pool].segments);
        pen.pool(pool.unwrap_or_default() as u32, slots, segments);
        if pen.x == 0.0 && pen.map.lines.last() == Some(&MapLine::Boxes) {
            pen.map.lines.pop();
        }
        (pen.line, pen.x) = (pen.map.lines.len() as u32, 0.0);
    }
    pen.map
}

#[derive(Clone, Copy)]
struct SegmentIndex {
    pool: u32,
    segment: u32,
}

impl Pen {
    fn new_line(&mut self) {
        self.map.lines.push(MapLine::Boxes);
        self.line = self.map.lines.len() as u32 - 1;
        self.x = 0.0;
    }

    /// The slots of one pool, with what lies in them.
    fn pool(&mut self, pool: u32, slots: &[Slot], segments: &[SegmentState]) {
        let mut segments = segments.iter().enumerate().peekable();
        for slot in slots {
            let wide = (slot.bytes as f64 / self.map.bytes_per_point).max(f64::from(MIN_SEGMENT));
            // What fits on a line is not broken.
            if self.x > 0.0 && self.x + wide > self.width && wide <= self.width {
                self.new_line();
            }
            let start = (self.line, self.x);
            let scale = wide / slot.bytes.max(1) as f64;
            while let Some((segment, known)) = segments.next_if(|(_, known)| known.addr < slot.addr + slot.bytes) {
                self.seek(start, known.addr.saturating_sub(slot.addr) as f64 * scale);
                let place = SegmentIndex { pool, segment: segment as u32 };
                self.segment(place, &known.parts, scale);
            }
            self.seek(start, wide);
            self.x += f64::from(GAP);
            if self.x >= self.width {
                self.new_line();
            }
        }
    }

    /// Goes so many points behind a place, over as many lines as that takes.
    fn seek(&mut self, (line, x): (u32, f64), points: f64) {
        let at = x + points;
        let n_lines = (at / self.width).floor();
        self.line = line + n_lines as u32;
        self.x = at - n_lines * self.width;
        while self.map.lines.len() <= self.line as usize {
            self.map.lines.push(MapLine::Boxes);
        }
    }

    /// * `scale`: points per byte.
    fn segment(&mut self, place: SegmentIndex, parts: &[SegmentPart], scale: f64) {
        let mut pixel = Pixel::default();
        let mut done = 0_u64;
        for part in parts {
            let start = done as f64 * scale;
            done += part.bytes;
            let end = done as f64 * scale;
            if end - start >= 1.0 {
                self.flush(place, &mut pixel, scale);
                self.boxes(place, Fill::One(part.kind), part.addr, part.bytes, end - start);
            } else {
                pixel.add(part);
                if pixel.bytes as f64 * scale >= 1.0 {
                    self.flush(place, &mut pixel, scale);
                }
            }
        }
        self.flush(place, &mut pixel, scale);
    }

    fn flush(&mut self, place: SegmentIndex, pixel: &mut Pixel, scale: f64) {
        let pixel = std::mem::take(pixel);
        if pixel.bytes > 0 {
            let fill = match pixel.only {
                Some(held) => Fill::One(held),
                None => Fill::Mixed(pixel.heaviest.map(|heaviest| heaviest.0), pixel.held as f32 / pixel.bytes as f32),
            };
            self.boxes(place, fill, pixel.addr, pixel.bytes, pixel.bytes as f64 * scale);
        }
    }

    /// One stretch, wrapped at the right edge.
    fn boxes(&mut self, place: SegmentIndex, fill: Fill, addr: u64, bytes: u64, wide: f64) {
        let mut rest = wide;
        loop {
            let room = self.width - self.x;
            let here = rest.min(room);
            let x = [self.x, self.x + here].map(|x| x as f32);
            let SegmentIndex { pool, segment } = place;
            self.map.boxes.push(MapBox { line: self.line, x, fill, addr, bytes, segment, pool });
            self.x += here;
            rest -= here;
            if rest <= 0.01 {
                return;
            }
            self.new_line();
        }
    }
}

/// Stretches that share a pixel.
#[derive(Default)]
struct Pixel {
    addr: u64,
    bytes: u64,
    /// Bytes that blocks have.
    held: u64,
    heaviest: Option<(AllocationId, u64)>,
    /// What is in it, while that is one thing.
    only: Option<PartKind>,
}

impl Pixel {
    fn add(&mut self, part: &SegmentPart) {
        let is_first = self.bytes == 0;
        if is_first {
            self.addr = part.addr;
        }
        self.only = if is_first { Some(part.kind) } else { None };
        self.bytes += part.bytes;
        if let PartKind::Allocated(id) | PartKind::AwaitingFree(id) = part.kind {
            self.held += part.bytes;
            if self.heaviest.is_none_or(|heaviest| heaviest.1 < part.bytes) {
                self.heaviest = Some((id, part.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slots(state: &AllocatorState) -> Slots {
        let all = Slots::of_state(state);
        Slots { bytes: state.sums.reserved, n_slots: all.len(), n_pools: state.pools.len(), all }
    }

    /// A state of segments whose parts have these sizes.
    fn state(segments: &[Vec<u64>]) -> AllocatorState {
        let mut pool = PoolState::default();
        let mut addr = 0;
        for sizes in segments {
            let mut segment = SegmentState { addr, ..SegmentState::default() };
            for (i, &bytes) in sizes.iter().enumerate() {
                let kind = match (addr + i as u64) % 3 {
                    0 => PartKind::Free,
                    1 => PartKind::Allocated(AllocationId(i as u32)),
                    _ => PartKind::Unsplit,
                };
                segment.parts.push(SegmentPart { addr, bytes, kind });
                addr += bytes;
                segment.bytes += bytes;
            }
            addr += 4096;
            pool.segments.push(segment);
        }
        let reserved = pool.segments.iter().map(|segment| segment.bytes).sum::<u64>();
        let mut state = AllocatorState { pools: vec![pool], ..AllocatorState::default() };
        state.sums.reserved = reserved;
        state
    }

    proptest! {
        #[test]
        fn every_byte_is_on_the_map_once(
            segments in prop::collection::vec(prop::collection::vec(1_u64..1 << 30, 1..40), 1..30),
            width in 20_f32..2000.0,
            lines in 1_u32..60,
            zoom in 1.0_f64..50.0,
        ) {
            let state = state(&segments);
            let scale = (slots(&state).fitting_scale(width, lines) / zoom)
                .max(state.sums.reserved as f64 / f64::from(width) / 2_000.0);
            let map = lay_out(&state, &slots(&state), width, scale);
            // A wrapped stretch is several boxes of one address.
            let mut stretches: Vec<(u64, u64)> = map.boxes.iter().map(|place| (place.addr, place.bytes)).collect();
            stretches.dedup();
            prop_assert_eq!(stretches.iter().map(|stretch| stretch.1).sum::<u64>(), state.sums.reserved);
            for pair in map.boxes.windows(2) {
                prop_assert!((pair[0].line, pair[0].x[1] - 0.01) <= (pair[1].line, pair[1].x[0]));
            }
            for place in &map.boxes {
                prop_assert!(place.x[0] >= 0.0 && place.x[1] <= width + 0.01, "{:?}", place);
                prop_assert_eq!(map.lines[place.line as usize], MapLine::Boxes);
                let middle = (place.x[0] + place.x[1]) / 2.0;
                if place.x[1] - place.x[0] > 0.1 {
                    prop_assert_eq!(map.at(place.line, middle), Some(place));
                }
            }
            let points = state.sums.reserved as f64 / scale + 2.0 * segments.len() as f64;
            let n_most = points + map.lines.len() as f64 + 2.0 * segments.len() as f64;
            prop_assert!(map.boxes.len() as f64 <= n_most.max(segments.iter().map(Vec::len).sum::<usize>() as f64));
        }
    }

    #[test]
    fn a_place_is_found_again_at_another_size() {
        let state = state(&[vec![1 << 20, 512, 7 << 20], vec![1 << 20; 3]]);
        for scale in [1_000.0, 10_000.0, 100_000.0] {
            let map = lay_out(&state, &slots(&state), 100.0, scale);
            for place in &map.boxes {
                let (first, n) = map.lines_of((place.pool, place.segment, place.addr));
                assert!((first..first + n).contains(&place.line), "{place:?} in {n} lines from {first}");
            }
        }
    }

    #[test]
    fn what_stays_reserved_keeps_its_place() {
        let all = state(&[vec![3 << 20, 1 << 20], vec![700, 5 << 20], vec![1 << 20], vec![9 << 20, 512]]);
        let slots = slots(&all);
        let whole = lay_out(&all, &slots, 90.0, 50_000.0);
        for gone in 0..4 {
            let mut fewer = all.clone();
            fewer.pools[0].segments.remove(gone);
            let map = lay_out(&fewer, &slots, 90.0, 50_000.0);
            let stays = |place: &&MapBox| place.segment != gone as u32;
            let expected: Vec<_> =
                whole.boxes.iter().filter(stays).map(|place| (place.line, place.x, place.addr)).collect();
            let found: Vec<_> = map.boxes.iter().map(|place| (place.line, place.x, place.addr)).collect();
            assert_eq!(found, expected);
            assert_eq!(map.lines.len(), whole.lines.len());
        }
    }

    #[test]
    fn ranges_that_overlap_or_expand_share_a_slot() {
        let slot = |pool, addr, bytes| Slot { pool: PoolId(pool), kind: SegmentKind::Large, addr, bytes };
        let all = vec![
            (slot(0, 100, 50), false),
            (slot(0, 120, 80), false),
            (slot(0, 200, 10), false),
            (slot(1, 0, 10), true),
            (slot(1, 10, 10), true),
        ];
        assert_eq!(merged(all), [slot(0, 100, 100), slot(0, 200, 10), slot(1, 0, 20)]);
    }

    #[test]
    fn what_fits_is_not_scrolled() {
        let segments: Vec<Vec<u64>> = (0..400).map(|i| vec![2 << 20, (1 + i % 37) << 20]).collect();
        let state = state(&segments);
        for (width, lines) in [(1200.0, 30), (800.0, 12), (300.0, 60)] {
            let map = lay_out(&state, &slots(&state), width, slots(&state).fitting_scale(width, lines));
            assert!(map.lines.len() as u32 <= lines, "{} of {lines}", map.lines.len());
            assert!(map.lines.len() as u32 + 2 > lines, "{} of {lines}", map.lines.len());
        }
    }

    #[test]
    fn stretches_in_one_pixel_are_mixed() {
        let state = state(&[vec![100, 100, 100, 1 << 20]]);
        let map = lay_out(&state, &slots(&state), 100.0, 20_000.0);
        let [first, second] = &map.boxes[..] else { panic!("{:?}", map.boxes) };
        let Fill::Mixed(Some(heaviest), held) = first.fill else { panic!("{first:?}") };
        assert_eq!((heaviest, first.bytes, second.bytes), (AllocationId(2), 300, 1 << 20));
        assert!((held - 1.0 / 3.0).abs() < 0.01, "{held}");
    }
}
