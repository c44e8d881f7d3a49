//! Optional data of slices: typed tables with values for some of the slices.

use std::hash::Hash;
use std::ops::Range;

use super::{Collective, GraphNode, Interner, Launch, MemoryCopy, SliceId, StringId, Synchronization};

/// A value for some of the slices of a trace. Equal values are stored once.
///
/// A bitmap marks slices with a value, and a count per 64 slices locates it: a lookup costs O(1), and a slice
/// without a value 0.2 bytes.
#[derive(Debug)]
pub struct SideTable<T> {
    /// One bit per slice; empty if no slice has a value.
    has: Vec<u64>,
    /// Number of slices with a value before each word of `has`.
    before: Vec<u32>,
    /// For each slice with a value, ascending: 1 + an index into `distinct`.
    ids: Vec<u32>,
    distinct: Vec<T>,
}

impl<T> Default for SideTable<T> {
    fn default() -> Self {
        Self { has: Vec::new(), before: Vec::new(), ids: Vec::new(), distinct: Vec::new() }
    }
}

impl<T> SideTable<T> {
    /// * `rows`: the row of each slice; 0 for none.
    /// * `ids`: for each row, 1 + an index into `distinct`, or 0.
    fn build(rows: &[u32], ids: &[u32], distinct: Vec<T>) -> Self {
        let mut table = Self { distinct, ..Default::default() };
        if table.distinct.is_empty() {
            return table;
        }
        let id = |row: &u32| ids[*row as usize];
        let word = |rows: &[u32]| rows.iter().rev().fold(0, |word, row| word << 1 | u64::from(id(row) != 0));
        table.has = rows.chunks(u64::BITS as usize).map(word).collect();
        let mut n = 0;
        table.before = table
            .has
            .iter()
            .map(|word| {
                n += word.count_ones();
                n - word.count_ones()
            })
            .collect();
        // No more room than that: memory is at its highest here.
        table.ids.reserve_exact(n as usize);
        for (&has, rows) in table.has.iter().zip(rows.chunks(u64::BITS as usize)) {
            table.ids.extend(ones(has).map(|bit| id(&rows[bit as usize])));
        }
        table
    }

    /// The value of a slice, if it has one.
    pub fn get(&self, slice: SliceId) -> Option<&T> {
        self.value(self.id(slice))
    }

    /// A number for the value of a slice, the same for equal values; 0 if it has none.
    pub fn id(&self, slice: SliceId) -> u32 {
        let (word, bit) = (slice.idx() / u64::BITS as usize, slice.0 % u64::BITS);
        match self.has.get(word) {
            Some(has) if has >> bit & 1 == 1 => {
                let below = has & ((1 << bit) - 1);
                self.ids[(self.before[word] + below.count_ones()) as usize]
            }
            _ => 0,
        }
    }

    /// The value of an [`Self::id`].
    pub fn value(&self, id: u32) -> Option<&T> {
        self.distinct.get((id as usize).checked_sub(1)?)
    }

    /// How many slices have a value.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether no slice has a value.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The slices that have a value, ascending, with it.
    pub fn iter(&self) -> impl Iterator<Item = (SliceId, &T)> {
        self.within(0..u32::MAX)
    }

    /// Those of them among `slices`. Cost: O(slices / 64), and O(1) for each with a value.
    pub fn within(&self, slices: Range<u32>) -> impl Iterator<Item = (SliceId, &T)> {
        let width = u64::BITS as usize;
        let words = (slices.start as usize / width).min(self.has.len())
            ..(slices.end as usize).div_ceil(width).min(self.has.len());
        let first = self.before.get(words.start).map_or(self.ids.len(), |&before| before as usize);
        let bits = |(word, &has): (usize, &u64)| ones(has).map(move |bit| SliceId(word as u32 * u64::BITS + bit));
        let has = words.clone().zip(self.has.get(words).unwrap_or_default());
        has.flat_map(bits)
            .zip(&self.ids[first..])
            .filter(move |(slice, _)| slices.contains(&slice.0))
            .filter_map(|(slice, &id)| Some((slice, self.value(id)?)))
    }
}

/// The set bits of a word, ascending.
fn ones(word: u64) -> impl Iterator<Item = u32> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        left &= left.checked_sub(1)?;
        Some(bit)
    })
}

/// Optional data of one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceFacts {
    pub launch: Option<Launch>,
    pub copy: Option<MemoryCopy>,
    pub collective: Option<Collective>,
    pub sync: Option<Synchronization>,
    pub graph_node: Option<GraphNode>,
    /// Input shapes of an operator; empty for none.
    pub shapes: StringId,
    /// Domain of an annotation; empty for the default one.
    pub domain: StringId,
    /// Color that the program chose, as 0xAARRGGBB; 0 for none.
    pub color: u32,
    /// Page faults that a record of unified memory stands for; 0 for none.
    pub page_faults: u32,
}

/// Number of tables.
const N: usize = 9;

/// Optional data of slices while a trace is built, each distinct value once.
#[derive(Debug, Default)]
pub struct FactLists {
    launches: Interner<Launch>,
    copies: Interner<MemoryCopy>,
    collectives: Interner<Collective>,
    syncs: Interner<Synchronization>,
    graph_nodes: Interner<GraphNode>,
    shapes: Interner<StringId>,
    domains: Interner<StringId>,
    colors: Interner<u32>,
    page_faults: Interner<u32>,
    /// Distinct combinations: for each table 1 + an index into its values, or 0.
    rows: Interner<[u32; N]>,
}

impl FactLists {
    /// The id of these facts, for [`super::RawSlice::facts`]; 0 if empty.
    pub fn add(&mut self, facts: &SliceFacts) -> u32 {
        fn id<T: Copy + Eq + Hash>(values: &mut Interner<T>, value: Option<T>) -> u32 {
            value.map_or(0, |value| 1 + values.intern(value))
        }
        let text = |text: StringId| Some(text).filter(|&text| text != StringId::EMPTY);
        let row = [
            id(&mut self.launches, facts.launch),
            id(&mut self.copies, facts.copy),
            id(&mut self.collectives, facts.collective),
            id(&mut self.syncs, facts.sync),
            id(&mut self.graph_nodes, facts.graph_node),
            id(&mut self.shapes, text(facts.shapes)),
            id(&mut self.domains, text(facts.domain)),
            id(&mut self.colors, Some(facts.color).filter(|&color| color != 0)),
            id(&mut self.page_faults, Some(facts.page_faults).filter(|&n| n != 0)),
        ];
        if row == [0; N] { 0 } else { 1 + self.rows.intern(row) }
    }

    /// The id of the facts with this id whose launch is changed; the same if they have none.
    pub fn with_launch(&mut self, id: u32, change: impl FnOnce(Launch) -> Launch) -> u32 {
        let row = id.checked_sub(1).map(|index| self.rows.items[index as usize]);
        let Some((mut row, launch)) = row.and_then(|row| Some((row, row[0].checked_sub(1)?))) else { return id };
        let launch = self.launches.items[launch as usize];
        row[0] = 1 + self.launches.intern(change(launch));
        1 + self.rows.intern(row)
    }

    /// The tables of a trace.
    ///
    /// * `facts`: the id of the facts of each slice.
    pub(super) fn build(self, facts: &[u32]) -> FactTables {
        let rows = &self.rows.items;
        let ids = |table: usize| -> Vec<u32> { std::iter::once(0).chain(rows.iter().map(|row| row[table])).collect() };
        FactTables {
            launches: SideTable::build(facts, &ids(0), self.launches.items),
            copies: SideTable::build(facts, &ids(1), self.copies.items),
            collectives: SideTable::build(facts, &ids(2), self.collectives.items),
            syncs: SideTable::build(facts, &ids(3), self.syncs.items),
            graph_nodes: SideTable::build(facts, &ids(4), self.graph_nodes.items),
            shapes: SideTable::build(facts, &ids(5), self.shapes.items),
            domains: SideTable::build(facts, &ids(6), self.domains.items),
            colors: SideTable::build(facts, &ids(7), self.colors.items),
            page_faults: SideTable::build(facts, &ids(8), self.page_faults.items),
        }
    }
}

/// Optional data of the slices of a trace, by type. A slice may be in several tables: a collective in a CUDA
/// graph is also a kernel with a launch.
#[derive(Debug, Default)]
pub struct FactTables {
    /// Launch parameters of kernels.
    pub launches: SideTable<Launch>,
    /// Parameters of memcpys and memsets.
    pub copies: SideTable<MemoryCopy>,
    /// Collectives of kernels and of the operators that called them.
    pub collectives: SideTable<Collective>,
    /// Parameters of recorded synchronizations.
    pub syncs: SideTable<Synchronization>,
    /// Device work that a CUDA graph launched.
    pub graph_nodes: SideTable<GraphNode>,
    /// Recorded input shapes of operators: `[[32, 64], []]`.
    pub shapes: SideTable<StringId>,
    /// NVTX domains of annotations; none for the default one.
    pub domains: SideTable<StringId>,
    /// Colors that the program chose for annotations, as 0xAARRGGBB.
    pub colors: SideTable<u32>,
    /// How many page faults of unified memory a record stands for.
    pub page_faults: SideTable<u32>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tables_return_the_facts_that_were_added(facts_of in prop::collection::vec((0_u32..6, 0_u64..4), 0..400)) {
            let facts = |&(shape, node): &(u32, u64)| SliceFacts {
                shapes: StringId(shape),
                graph_node: (node > 0).then_some(GraphNode { node, ..Default::default() }),
                ..Default::default()
            };
            let mut lists = FactLists::default();
            let rows: Vec<u32> = facts_of.iter().map(|facts_of| lists.add(&facts(facts_of))).collect();
            let tables = lists.build(&rows);
            for (i, facts_of) in facts_of.iter().enumerate() {
                let (slice, facts) = (SliceId(i as u32), facts(facts_of));
                prop_assert_eq!(tables.graph_nodes.get(slice).copied(), facts.graph_node);
                prop_assert_eq!(tables.shapes.get(slice).copied().unwrap_or_default(), facts.shapes);
                prop_assert_eq!(tables.launches.get(slice), None);
            }
            let expected: Vec<(SliceId, u32)> = facts_of.iter().enumerate()
                .filter(|(_, facts_of)| facts_of.0 > 0).map(|(i, facts_of)| (SliceId(i as u32), facts_of.0)).collect();
            let found: Vec<_> = tables.shapes.iter().map(|(slice, text)| (slice, text.0)).collect();
            prop_assert_eq!((found, tables.shapes.len()), (expected.clone(), expected.len()));
            for range in [0..0, 1..3, 3..70, 64..128, 65..66, 100..400] {
                let found: Vec<_> = tables.shapes.within(range.clone()).map(|(slice, text)| (slice, text.0)).collect();
                let expected = expected.iter().copied().filter(|(slice, _)| range.contains(&slice.0));
                prop_assert_eq!(found, expected.collect::<Vec<_>>());
            }
            prop_assert_eq!(tables.shapes.id(SliceId(facts_of.len() as u32 + 64)), 0);
        }
    }
}
