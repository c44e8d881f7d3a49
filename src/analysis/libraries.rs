//! Calls of other libraries that Nsight Systems traced, and unified memory.

use std::collections::BTreeMap;

use super::copies::MIGRATION;
use super::totals::{Durations, Instance, Scope};
use crate::model::{DurNs, SOURCE_ROW_BITS, SliceId, SliceKind, Trace};

/// Starts of the names of tables, and what they record.
const LIBRARIES: [(&str, &str); 9] = [
    ("MPI_", "MPI"),
    ("CUPTI_ACTIVITY_KIND_OPENACC_", "OpenACC"),
    ("OPENMP_", "OpenMP"),
    ("CUDA_UM_", UNIFIED),
    ("CUDNN_", "cuDNN"),
    ("CUBLAS_", "cuBLAS"),
    ("UCP_", "UCX"),
    ("NVSHMEM_", "NVSHMEM"),
    ("NVVIDEO_", "NVIDIA video"),
];
const UNIFIED: &str = "Unified memory";

/// Calls of one function of a library, or events of one kind of unified memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryCalls {
    pub library: &'static str,
    pub name: String,
    /// All zero for events without a duration, but their number.
    pub durations: Durations,
    /// Moved by migrations of unified memory.
    pub bytes: Option<u64>,
    /// On a device, which a record may have several of.
    pub page_faults: Option<u64>,
    pub instances: Vec<Instance>,
}

#[derive(Default)]
struct Sums {
    durs: Vec<DurNs>,
    bytes: Option<u64>,
    page_faults: Option<u64>,
    instances: Vec<Instance>,
}

/// The calls in scope by library and name.
///
/// * Sorted by library as it first stands in the list above, then by total, descending, then name.
/// * Cost: nothing where a trace has no such tables and no unified memory; else O(slices in scope).
/// * Source: `mpi_event_sum`, `openacc_sum`, `openmp_sum`, `um_total_sum` of NVIDIA Nsight Systems.
pub fn libraries(scope: &Scope<'_>) -> Vec<LibraryCalls> {
    let mut groups: BTreeMap<(usize, String), Sums> = BTreeMap::new();
    let of_tables: Vec<Vec<Option<usize>>> = scope.traces.iter().map(|trace| tables(trace)).collect();
    let unified = LIBRARIES.iter().position(|library| library.1 == UNIFIED).unwrap_or_default();
    let migrates: Vec<bool> =
        scope.traces.iter().map(|trace| trace.strings.iter().any(|(_, text)| text.ends_with(MIGRATION))).collect();
    for part in scope.parts() {
        let (index, trace) = (part.index as usize, part.trace);
        let slices = &trace.slices;
        let has_tables = of_tables[index].iter().any(Option::is_some);
        if !has_tables && !migrates[index] {
            continue;
        }
        for i in part.slices {
            let name = || trace.strings.get(slices.name[i]);
            let library = match slices.kind[i] {
                SliceKind::Memcpy => (migrates[index] && name().ends_with(MIGRATION)).then_some(unified),
                SliceKind::Other | SliceKind::Collective if has_tables => library(&of_tables[index], slices.source[i]),
                _ => None,
            };
            let Some(library) = library else { continue };
            let group = groups.entry((library, name().to_owned())).or_default();
            let slice = SliceId(i as u32);
            group.durs.push(slices.time(slice).dur());
            add(&mut group.bytes, trace.facts.copies.get(slice).and_then(|copy| copy.bytes));
            add(&mut group.page_faults, trace.facts.page_faults.get(slice).copied().map(u64::from));
            group.instances.push(Instance { trace: part.index, slice });
        }
    }
    for (index, trace) in scope.traces.iter().enumerate().filter(|(i, _)| of_tables[*i].iter().any(Option::is_some)) {
        let (instants, range) = (&trace.instants, scope.range(index));
        for i in (0..instants.len()).filter(|&i| range.is_none_or(|range| range.contains(instants.ts[i]))) {
            if let Some(library) = library(&of_tables[index], instants.source[i]) {
                let name = trace.strings.get(instants.name[i]).to_owned();
                groups.entry((library, name)).or_default().durs.push(0);
            }
        }
    }
    let row = |((library, name), mut sums): ((usize, String), Sums)| {
        let durations = Durations::of(&mut sums.durs);
        let Sums { bytes, page_faults, instances, .. } = sums;
        (library, LibraryCalls { library: LIBRARIES[library].1, name, durations, bytes, page_faults, instances })
    };
    let mut rows: Vec<(usize, LibraryCalls)> = groups.into_iter().map(row).collect();
    // Stable, so rows of one total stay by name.
    rows.sort_by_key(|(library, row)| (*library, std::cmp::Reverse(row.durations.total_ns)));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Adds what is known to a sum.
fn add(sum: &mut Option<u64>, known: Option<u64>) {
    *sum = known.map(|known| sum.unwrap_or(0).saturating_add(known)).or(*sum);
}

/// For each table of the file its library.
fn tables(trace: &Trace) -> Vec<Option<usize>> {
    let library = |table: &String| LIBRARIES.iter().position(|(start, _)| table.starts_with(start));
    trace.info.source_tables.iter().map(library).collect()
}

fn library(of_tables: &[Option<usize>], source: u64) -> Option<usize> {
    *of_tables.get((source >> SOURCE_ROW_BITS) as usize)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CopyKind, MemoryCopy, SliceFacts, TraceBuilder};

    #[test]
    fn calls_are_told_by_their_table_and_migrations_by_their_name() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::Collective, "MPI_Allreduce", 0, 10),
            ("main", SliceKind::Collective, "MPI_Allreduce", 20, 50),
            ("main", SliceKind::Other, "compute construct", 60, 70),
            ("main", SliceKind::Other, "CPU 3", 70, 80),
            ("stream 7", SliceKind::Memcpy, "Memcpy HtoD (Unified)", 0, 4),
            ("stream 7", SliceKind::Memcpy, "Memcpy HtoD (Pinned -> Device)", 5, 9),
        ]);
        let tables = ["SCHED_EVENTS", "MPI_COLLECTIVES_EVENTS", "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH"];
        builder.info.source_tables = tables.map(str::to_owned).to_vec();
        builder.slices[0].source = [1, 1, 2, 0, 0, 0].map(|table: u64| table << SOURCE_ROW_BITS).to_vec();
        let copy = MemoryCopy { kind: CopyKind::HtoD, bytes: Some(4096), is_pageable: None };
        builder.set_facts(4, SliceFacts { copy: Some(copy), ..Default::default() });
        let trace = builder.finish();
        let rows = libraries(&Scope::whole(&[&trace]));
        let figures: Vec<_> = rows
            .iter()
            .map(|row| (row.library, row.name.as_str(), row.durations.calls, row.durations.total_ns, row.bytes))
            .collect();
        let expected = [
            ("MPI", "MPI_Allreduce", 2, 40, None),
            ("OpenACC", "compute construct", 1, 10, None),
            ("Unified memory", "Memcpy HtoD (Unified)", 1, 4, Some(4096)),
        ];
        assert_eq!(figures, expected);
    }
}
