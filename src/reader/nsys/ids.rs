//! Maps the ids of a chunk to those of the trace: names, tracks, facts and correlations.

use std::collections::{HashMap, HashSet};

use crate::model::{GraphNode, RawSlices, SliceFacts, StringId, TraceBuilder, TrackId};

use super::catalog::Catalog;
use super::chunk::{Chunk, NameKey, RowFacts};
use super::device::{copy_name, memory};
use super::strings::{Strings, call_name, module_name};
use super::sync::EventRecords;
use super::tables;

/// Rows of `StringIds` that these chunks refer to.
pub fn string_ids<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> HashSet<i64> {
    let of_name = |key: &NameKey| match *key {
        NameKey::Id(id) | NameKey::Call(id) | NameKey::Module(id) => [Some(id), None],
        NameKey::Line(id, file, _) => [Some(id), Some(file)],
        _ => [None; 2],
    };
    let mut ids = HashSet::new();
    for chunk in chunks {
        ids.extend(chunk.names.items.iter().flat_map(of_name).flatten());
        ids.extend(chunk.short_names.items.iter().map(|pair| pair.1));
    }
    ids
}

/// The texts of names, each created once.
pub struct Texts<'a> {
    strings: &'a Strings,
    catalog: &'a Catalog,
    known: HashMap<NameKey, StringId>,
    /// NVTX domains by (process, id).
    pub domains: HashMap<(i64, i64), StringId>,
    /// Ids missing in `StringIds`.
    pub n_unknown: u64,
}

impl<'a> Texts<'a> {
    pub fn new(strings: &'a Strings, catalog: &'a Catalog) -> Self {
        Self { strings, catalog, known: HashMap::new(), domains: HashMap::new(), n_unknown: 0 }
    }

    /// The text of a name, in the builder's strings.
    pub fn get(&mut self, key: NameKey, chunk: &Chunk, builder: &mut TraceBuilder) -> StringId {
        if let NameKey::Text(id) = key {
            return builder.strings.intern(chunk.texts.get(id));
        }
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let mut of_row = |id: i64, form: fn(&str) -> String| match self.strings.get(id) {
            Some(text) => form(text),
            None => {
                self.n_unknown += 1;
                format!("#{id}")
            }
        };
        let text = match key {
            NameKey::Empty | NameKey::Text(_) => String::new(),
            NameKey::Id(id) => of_row(id, str::to_owned),
            NameKey::Line(id, file, line) => {
                format!("{}@{}:{line}", of_row(id, str::to_owned), of_row(file, str::to_owned))
            }
            NameKey::Call(id) => of_row(id, |name| call_name(name).to_owned()),
            NameKey::Module(id) => of_row(id, module_name),
            NameKey::Domain(process, domain) => match self.domains.get(&(process, domain)) {
                Some(&name) => return name,
                None => format!("domain {domain}"),
            },
            NameKey::Fixed(text) => text.to_owned(),
            NameKey::Numbered(text, number) => format!("{text} {number}"),
            NameKey::Table(table) => tables::title(self.catalog.tables.get(table).map_or("", |table| &table.name)),
            NameKey::Copy(oper, from, to) => copy_name(oper, from, to),
            NameKey::Memset(kind) => memory(kind).map_or("Memset".to_owned(), |kind| format!("Memset ({kind})")),
        };
        let id = builder.strings.intern(&text);
        self.known.insert(key, id);
        id
    }
}

/// Maps the ids of one chunk to those of the trace.
#[derive(Debug)]
pub struct GlobalIds {
    pub names: Vec<StringId>,
    pub tracks: Vec<TrackId>,
    pub facts: Vec<u32>,
    /// By track: what to add to correlation ids.
    pub bases: Vec<u32>,
}

impl GlobalIds {
    /// Replaces the ids of the chunk's slices by those of the trace.
    pub fn apply(&self, slices: &mut RawSlices) {
        for i in 0..slices.len() {
            let track = slices.track[i].0 as usize;
            if slices.correlation[i] != 0 {
                slices.correlation[i] = slices.correlation[i].saturating_add(self.bases[track]);
            }
            slices.track[i] = self.tracks[track];
            slices.name[i] = self.names[slices.name[i].0 as usize];
            if let Some(facts) = (slices.facts[i] as usize).checked_sub(1) {
                slices.facts[i] = self.facts[facts];
            }
        }
    }
}

/// The facts of a row, with ids of the trace.
///
/// * `names`: of the row's chunk.
/// * `bases`: what to add to the correlation ids of each process.
pub fn facts_of(row: RowFacts, names: &[StringId], records: &EventRecords, bases: &HashMap<i64, u32>) -> SliceFacts {
    let graph_node = |node| (node != 0).then_some(GraphNode { node, ..Default::default() });
    let nothing = SliceFacts::default();
    match row {
        RowFacts::Launch(launch, node) => SliceFacts { launch: Some(launch), graph_node: graph_node(node), ..nothing },
        RowFacts::Copy(copy, node) => SliceFacts { copy: Some(copy), graph_node: graph_node(node), ..nothing },
        RowFacts::Graph { graph, exec } => {
            SliceFacts { graph_node: Some(GraphNode { graph, exec, node: 0 }), ..nothing }
        }
        RowFacts::Wait(wait) => {
            let base = bases.get(&wait.process).copied().unwrap_or(0);
            SliceFacts { sync: Some(records.resolve(&wait, base)), ..nothing }
        }
        RowFacts::Range { domain, color } => {
            let domain = domain.map_or(StringId::EMPTY, |name| names[name as usize]);
            SliceFacts { domain, color, ..nothing }
        }
        RowFacts::PageFaults(page_faults) => SliceFacts { page_faults, ..nothing },
    }
}

/// The offset of each process's correlation ids. They count from 1 in every process: with several processes,
/// each gets a separate range.
///
/// * `owners`: for each chunk the process of each of its tracks.
pub fn correlation_bases<'a>(chunks: impl Iterator<Item = &'a Chunk>, owners: &[Vec<i64>]) -> HashMap<i64, u32> {
    let mut highest: HashMap<i64, u32> = HashMap::new();
    for (chunk, owners) in chunks.zip(owners) {
        let mut of_track = vec![0; owners.len()];
        for (track, &correlation) in chunk.slices.track.iter().zip(&chunk.slices.correlation) {
            let highest = &mut of_track[track.0 as usize];
            *highest = correlation.max(*highest);
        }
        for (&owner, of_track) in owners.iter().zip(of_track).filter(|pair| pair.1 > 0) {
            let highest = highest.entry(owner).or_default();
            *highest = of_track.max(*highest);
        }
    }
    let mut processes: Vec<(i64, u32)> = highest.into_iter().collect();
    processes.sort_unstable();
    let mut next = 0_u32;
    let base = |(process, highest): (i64, u32)| {
        let base = next;
        next = next.saturating_add(highest);
        (process, base)
    };
    processes.into_iter().map(base).collect()
}
