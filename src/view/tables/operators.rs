//! The table of operators.

use eframe::egui::Key;
use hashbrown::HashMap;

use super::grid::Answer;
use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use super::tree::Tree;
use crate::analysis::call_tree::{Frames, call_tree, operators_by_stack};
use crate::analysis::operators::{OperatorTotals, operators, passed_on};
use crate::analysis::totals::{self, Instance, Scope, group};
use crate::command::ctrl;
use crate::figures::work;
use crate::model::{Format, SliceId, SliceKind, StringId};
use crate::view::{Content, DockArea, ViewSpec};

pub const SPEC: ViewSpec = ViewSpec {
    id: "operators",
    title: "Operators",
    help: "Show which operators took time on host and device",
    keys: &[ctrl(Key::Num2)],
    make: || Box::new(Pane::new(&TABLE)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

const EMPTY: [&str; 2] = ["No operators were recorded", "Record them with ProfilerActivity.CPU in torch.profiler"];

/// What is said of a recording of Nsight Systems, which has no operators.
const OF_NSYS: [&str; 2] = [
    "Nsight Systems records no operators",
    "Annotations lists the named ranges (NVTX) with the device work that they launched",
];
const TREE_OF_NSYS: [&str; 2] =
    ["Nothing was recorded on the host", "Record calls and named ranges with nsys profile --trace=cuda,nvtx"];

const EMPTY_TREE: [&str; 2] = ["Nothing was recorded on the host", EMPTY[1]];

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "By operator",
            help: "One row for each operator",
            rows: |scope| rows(scope, false),
            empty: EMPTY,
        },
        Choice {
            label: "By input shapes",
            help: "One row for each operator and the shapes of its inputs",
            rows: |scope| rows(scope, true),
            empty: EMPTY,
        },
        Choice {
            label: "By call stack",
            help: "One row for each operator called from Python and the functions around it; operators inside count \
                   with it",
            rows: by_stack,
            empty: EMPTY,
        },
        Choice {
            label: "By module",
            help: "The tree of nn.Modules and named ranges, such as those of NVTX, with the backward pass of each \
                   module",
            rows: by_module,
            empty: EMPTY_TREE,
        },
        Choice {
            label: "Call tree",
            help: "All that threads recorded, what runs inside below what is around it",
            rows: |scope| tree(scope, Frames::All),
            empty: EMPTY_TREE,
        },
    ],
    related: Related::Launched,
    has_profile: false,
};

fn of_nsys(scope: &Scope<'_>, said: [&'static str; 2]) -> Option<[&'static str; 2]> {
    scope.traces.iter().all(|trace| trace.info.format == Format::Nsys).then_some(said)
}

fn by_stack(scope: &Scope<'_>) -> Answer {
    let rows = operators_by_stack(scope);
    let is_missing = !rows.is_empty() && rows.iter().all(|row| row.path.is_empty());
    let note = "Call stacks were not recorded: record with with_stack=True in torch.profiler";
    let head = is_missing.then(|| (note.to_owned(), "")).into_iter().collect();
    Answer {
        head,
        is_clipped: true,
        empty: of_nsys(scope, OF_NSYS),
        ..with_instances(&work::operator_stacks(scope.has_device_work()), rows, |row| row.instances)
    }
}

fn by_module(scope: &Scope<'_>) -> Answer {
    let answer = tree(scope, Frames::Modules);
    let has_modules = answer
        .instances
        .iter()
        .flatten()
        .any(|of| scope.traces[of.trace as usize].slices.kind[of.slice.idx()] == SliceKind::PythonFunction);
    let note = "Modules were not recorded, these are named ranges: record with with_stack=True in torch.profiler";
    let head = (!has_modules).then(|| (note.to_owned(), "")).into_iter().collect();
    Answer { head, ..answer }
}

fn tree(scope: &Scope<'_>, frames: Frames) -> Answer {
    let rows = call_tree(scope, frames);
    let tree = Some(Tree::new(rows.iter().map(|row| (row.depth, row.name.as_str()))));
    Answer {
        tree,
        is_clipped: true,
        empty: of_nsys(scope, TREE_OF_NSYS),
        ..with_instances(&work::call_tree(scope.has_device_work()), rows, |row| row.instances)
    }
}

fn rows(scope: &Scope<'_>, by_shape: bool) -> Answer {
    let local = |part: &totals::Part<'_>, i: usize| {
        let shapes = if by_shape { part.trace.facts.shapes.get(SliceId(i as u32)).copied() } else { None };
        (part.trace.slices.name[i], shapes.unwrap_or_default())
    };
    let key = |part: &totals::Part<'_>, &(name, shapes): &(StringId, StringId)| {
        let strings = &part.trace.strings;
        (strings.get(name).to_owned(), strings.get(shapes).to_owned())
    };
    let groups = group(scope, |kind| kind == SliceKind::Operator, local, key, false, |(), _, _| {});
    let mut instances: HashMap<(String, String), Vec<Instance>> =
        groups.into_iter().map(|group| (group.key, group.instances)).collect();
    let rows = operators(scope, by_shape);
    let data = work::operators(scope.has_device_work()).data(&rows);
    let longest =
        rows.iter().map(|row| Instance { trace: row.longest.0 as u32, slice: row.longest.1 }).collect::<Vec<_>>();
    let has_shapes = rows.iter().any(|row| row.shapes.as_deref().is_some_and(|shapes| !shapes.is_empty()));
    let is_missing = by_shape && !has_shapes && !rows.is_empty();
    let note = ("Input shapes were not recorded: record with record_shapes=True in torch.profiler".to_owned(), "");
    let passed_on: Vec<_> = scope.traces.iter().map(|trace| passed_on(trace)).collect();
    let slices = |row: OperatorTotals| {
        let mut calls = instances.remove(&(row.name, row.shapes.unwrap_or_default())).unwrap_or_default();
        calls.retain(|call| !passed_on[call.trace as usize].contains(&call.slice));
        calls
    };
    Answer {
        data,
        longest,
        instances: rows.into_iter().map(slices).collect(),
        head: is_missing.then_some(note).into_iter().collect(),
        empty: of_nsys(scope, OF_NSYS),
        ..Answer::default()
    }
}
