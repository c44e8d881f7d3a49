//! Paths as rows: a tree of calls or modules from top to bottom, and operators by call stack.

use super::Threads;
use std::cmp::Reverse;

use super::names::Frames;
use super::{Tree, Weigh};
use crate::analysis::totals::{Instance, Scope};
use crate::model::{DurNs, SliceKind};

/// One node of a tree, or one operator under one call stack. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    pub name: String,
    /// Frames around it in the tree.
    pub depth: u32,
    /// The names around it, innermost first, with `; ` between them; of a tree only where modules are the frames.
    pub path: String,
    pub calls: u64,
    /// Self time on the host of the node and all below it.
    pub host_total_ns: DurNs,
    pub host_self_ns: DurNs,
    /// Time of the device work launched by the node and all below it.
    pub device_total_ns: DurNs,
    pub device_self_ns: DurNs,
    /// Sorted.
    pub instances: Vec<Instance>,
}

/// The calls in scope as a tree: each node before those below it, siblings by device total, then host total, then
/// name.
///
/// What counts, cost: as in [`super::time_flame`], without device work as frames.
pub fn call_tree(scope: &Scope<'_>, frames: Frames) -> Vec<CallTotals> {
    let (mut rows, parents) = rows(scope, frames);
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); rows.len()];
    // Nodes are left with nothing in a range, or where the backward pass went elsewhere.
    let mut has_any = vec![false; rows.len()];
    for node in (1..rows.len()).rev() {
        let CallTotals { calls, host_self_ns, device_self_ns, .. } = rows[node];
        if has_any[node] || calls > 0 || host_self_ns != 0 || device_self_ns != 0 {
            has_any[node] = true;
            has_any[parents[node] as usize] = true;
            children[parents[node] as usize].push(node as u32);
        }
    }
    for siblings in &mut children {
        siblings.sort_by(|&a, &b| order(&rows[a as usize], &rows[b as usize]).reverse());
    }
    // The next one is last.
    let mut open: Vec<u32> = std::mem::take(&mut children[0]);
    let mut sorted: Vec<CallTotals> = Vec::with_capacity(rows.len());
    // The rows around the next one, outermost first.
    let mut around: Vec<usize> = Vec::new();
    while let Some(node) = open.pop() {
        let at = node as usize;
        open.append(&mut children[at]);
        let mut row = std::mem::take(&mut rows[at]);
        around.truncate(row.depth as usize);
        if frames == Frames::Modules {
            let names: Vec<&str> = around.iter().rev().map(|&above| sorted[above].name.as_str()).collect();
            row.path = names.join("; ");
        }
        around.push(sorted.len());
        sorted.push(row);
    }
    sorted
}

/// The outermost operators in scope by name and the Python functions around them, sorted by device total, then host
/// total, descending, then name. Operators inside count with them.
///
/// What counts, cost: as in [`super::time_flame`], without device work as frames.
pub fn operators_by_stack(scope: &Scope<'_>) -> Vec<CallTotals> {
    let (mut rows, parents) = rows(scope, Frames::Stacks);
    let kind =
        |row: &CallTotals| row.instances.first().map(|of| scope.traces[of.trace as usize].slices.kind[of.slice.idx()]);
    let operators: Vec<usize> =
        (1..rows.len()).filter(|&node| kind(&rows[node]) == Some(SliceKind::Operator)).collect();
    for &node in &operators {
        let around = std::iter::successors(Some(parents[node]), |&node| Some(parents[node as usize]));
        let names: Vec<&str> =
            around.take_while(|&node| node != 0).map(|node| rows[node as usize].name.as_str()).collect();
        rows[node].path = names.join("; ");
    }
    let mut operators: Vec<CallTotals> =
        operators.into_iter().map(|node| CallTotals { depth: 0, ..std::mem::take(&mut rows[node]) }).collect();
    operators.sort_by(|a, b| order(a, b).then_with(|| a.path.cmp(&b.path)));
    operators
}

fn order(a: &CallTotals, b: &CallTotals) -> std::cmp::Ordering {
    let figures = |row: &CallTotals| Reverse((row.device_total_ns, row.host_total_ns));
    figures(a).cmp(&figures(b)).then_with(|| a.name.cmp(&b.name))
}

/// A row for each node, and its parent. Node 0 is the whole and no frame.
fn rows(scope: &Scope<'_>, frames: Frames) -> (Vec<CallTotals>, Vec<u32>) {
    let Tree { names, draft, nodes, .. } = Tree::of(scope, frames, Weigh::Host, Threads::All, true);
    let parents = draft.parent;
    let mut rows: Vec<CallTotals> = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.into_iter().enumerate() {
        let depth = if i == 0 || parents[i] == 0 { 0 } else { rows[parents[i] as usize].depth + 1 };
        let name = if i == 0 { String::new() } else { names.list[draft.name[i] as usize].to_owned() };
        let (host, device) = (node.host_ns, node.device_ns);
        let mut instances = node.instances;
        instances.sort_unstable();
        rows.push(CallTotals {
            name,
            depth,
            calls: node.calls,
            host_total_ns: host,
            host_self_ns: host,
            device_total_ns: device,
            device_self_ns: device,
            instances,
            ..Default::default()
        });
    }
    for i in (1..rows.len()).rev() {
        let (host, device) = (rows[i].host_total_ns, rows[i].device_total_ns);
        let above = &mut rows[parents[i] as usize];
        above.host_total_ns = above.host_total_ns.saturating_add(host);
        above.device_total_ns = above.device_total_ns.saturating_add(device);
    }
    (rows, parents)
}
