//! The tables of time: their choices, their rows, and what to say where there are none.

use hashbrown::HashMap;

use super::grid::Answer;
use crate::analysis::annotations::annotations;
use crate::analysis::calls::{CallKind, calls};
use crate::analysis::copies::copies;
use crate::analysis::kernels::{KernelsBy, kernels};
use crate::analysis::operators::{OperatorTotals, operators};
use crate::analysis::totals::{self, Instance, Scope, group};
use crate::figures::{Part, work};
use crate::model::{SliceId, SliceKind, StringId, Trace};

/// Which table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableKind {
    #[default]
    Kernels,
    Operators,
    Calls,
    Copies,
    Annotations,
}

impl TableKind {
    /// Every table, in the order of the tabs.
    pub const ALL: [Self; 5] = [Self::Kernels, Self::Operators, Self::Calls, Self::Copies, Self::Annotations];

    /// What its tab says.
    pub fn label(self) -> &'static str {
        match self {
            Self::Kernels => "Kernels",
            Self::Operators => "Operators",
            Self::Calls => "Calls",
            Self::Copies => "Copies",
            Self::Annotations => "Annotations",
        }
    }

    /// Ways to see it, as (label, what it means).
    pub fn choices(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kernels => &[
                ("By name", "One row for each full name"),
                ("By short name", "One row for each name without template and call arguments"),
                ("By shape", "One row for each full name, grid, block, registers and shared memory"),
            ],
            Self::Operators => &[
                ("By operator", "One row for each operator"),
                ("By input shapes", "One row for each operator and the shapes of its inputs"),
            ],
            Self::Calls => &[
                ("CUDA API", "Calls of the CUDA or HIP runtime and of the driver"),
                ("OS runtime", "Calls of the operating system"),
                ("Profiler overhead", "The profiler's own work, which the program without it would not do"),
            ],
            Self::Copies => &[
                ("By direction", "One row for each direction and sort of host memory"),
                ("By size", "One row for each power of two of the size as well"),
            ],
            Self::Annotations => &[],
        }
    }

    /// What to say where nothing of the sort was recorded, and how to record it.
    pub fn empty(self, choice: usize) -> [&'static str; 2] {
        match (self, choice) {
            (Self::Kernels, _) => [
                "No GPU work was recorded",
                "Record it with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda",
            ],
            (Self::Operators, _) => {
                ["No operators were recorded", "Record them with ProfilerActivity.CPU in torch.profiler"]
            }
            (Self::Calls, 0) => [
                "No CUDA API calls were recorded",
                "Record them with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda",
            ],
            (Self::Calls, 1) => {
                ["No calls of the operating system were recorded", "Record them with nsys profile --trace=osrt"]
            }
            (Self::Calls, _) => ["The profiler recorded no work of its own", "Not every profiler does"],
            (Self::Copies, _) => [
                "No copies or memsets were recorded",
                "Record them with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda",
            ],
            (Self::Annotations, _) => [
                "No annotations were recorded",
                "Name ranges with torch.profiler.record_function, or with torch.cuda.nvtx and nsys profile --trace=nvtx",
            ],
        }
    }
}

/// The rows of one table. Cost: that of the analysis; not for the frame thread.
pub fn answer(kind: TableKind, choice: usize, scope: &Scope<'_>) -> Answer {
    let mut answer = match kind {
        TableKind::Kernels => {
            let by = [KernelsBy::Name, KernelsBy::Short, KernelsBy::Shape][choice.min(2)];
            with_instances(&work::kernels(), kernels(scope, by), |row| row.instances)
        }
        TableKind::Operators => operator_rows(scope, choice == 1),
        TableKind::Calls => {
            let calls = calls(scope, CallKind::ALL[choice.min(2)]);
            with_instances(&work::apis(), calls, |row| row.instances)
        }
        TableKind::Copies => copy_rows(scope, choice == 1),
        TableKind::Annotations => with_instances(&work::annotations(), annotations(scope), |row| row.instances),
    };
    answer.data.drop_empty_columns();
    if answer.longest.is_empty() {
        answer.longest = answer.instances.iter().map(|slices| longest(scope.traces, slices)).collect();
    }
    answer
}

/// The longest of some slices; of equal ones the first.
pub fn longest(traces: &[&Trace], slices: &[Instance]) -> Instance {
    let dur = |instance: &Instance| traces[instance.trace as usize].slices.time(instance.slice).dur();
    slices.iter().copied().rev().max_by_key(dur).unwrap_or_default()
}

/// Rows with their slices.
fn with_instances<R>(part: &Part<R>, rows: Vec<R>, instances: fn(R) -> Vec<Instance>) -> Answer {
    let data = part.data(&rows);
    Answer { data, instances: rows.into_iter().map(instances).collect(), ..Answer::default() }
}

fn operator_rows(scope: &Scope<'_>, by_shape: bool) -> Answer {
    let local = |part: &totals::Part<'_>, i: usize| {
        let shapes = if by_shape { part.trace.facts.shapes.get(SliceId(i as u32)).copied() } else { None };
        (part.trace.slices.name[i], shapes.unwrap_or_default())
    };
    let key = |part: &totals::Part<'_>, &(name, shapes): &(StringId, StringId)| {
        let strings = &part.trace.strings;
        (strings.get(name).to_owned(), strings.get(shapes).to_owned())
    };
    let groups = group(scope, |kind| kind == SliceKind::Operator, local, key);
    let mut instances: HashMap<(String, String), Vec<Instance>> =
        groups.into_iter().map(|group| (group.key, group.instances)).collect();
    let rows = operators(scope, by_shape);
    let data = work::operators().data(&rows);
    let longest =
        rows.iter().map(|row| Instance { trace: row.longest.0 as u32, slice: row.longest.1 }).collect::<Vec<_>>();
    let has_shapes = rows.iter().any(|row| row.shapes.as_deref().is_some_and(|shapes| !shapes.is_empty()));
    let is_missing = by_shape && !has_shapes && !rows.is_empty();
    let note = "Input shapes were not recorded: record with record_shapes=True in torch.profiler";
    let slices =
        |row: OperatorTotals| instances.remove(&(row.name, row.shapes.unwrap_or_default())).unwrap_or_default();
    Answer { data, longest, instances: rows.into_iter().map(slices).collect(), note: is_missing.then_some(note) }
}

fn copy_rows(scope: &Scope<'_>, by_size: bool) -> Answer {
    let rows = copies(scope, by_size);
    let has_sizes = rows.is_empty() || rows.iter().any(|row| row.bytes.is_some());
    let note = (!has_sizes).then_some("Sizes were not recorded, so there is no speed");
    Answer { note, ..with_instances(&work::copies(), rows, |row| row.instances) }
}
