//! A tree of weights that grows, until it is a [`FlameTree`].

use std::cmp::Reverse;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{BEFORE, FlameNode, FlameTree, LEFT_OUT, NO_NAME, NO_STACK};
use crate::model::{StackId, StringId, Trace};

/// Names of frames, each once.
#[derive(Default)]
pub struct Names<'a> {
    pub list: Vec<&'a str>,
    index: HashMap<&'a str, u32>,
}

impl<'a> Names<'a> {
    pub fn intern(&mut self, name: &'a str) -> u32 {
        let name = if name.is_empty() { NO_NAME } else { name };
        let next = self.list.len() as u32;
        let id = *self.index.entry(name).or_insert(next);
        if id == next {
            self.list.push(name);
        }
        id
    }
}

/// A tree that grows: parents before children, else in any order.
pub struct Draft {
    pub parent: Vec<u32>,
    /// Index into [`Names::list`].
    pub name: Vec<u32>,
    pub own: Vec<i64>,
    /// As [`FlameTree::full`].
    pub full: Vec<[i64; 2]>,
    /// As [`FlameTree::calls`].
    pub calls: Vec<u64>,
    index: HashMap<(u32, u32), u32>,
    /// As [`FlameTree::cut`].
    pub cut: i64,
}

impl Default for Draft {
    fn default() -> Self {
        let (parent, name, own) = (vec![0], vec![0], vec![0]);
        Self { parent, name, own, full: Vec::new(), calls: Vec::new(), index: HashMap::new(), cut: 0 }
    }
}

impl Draft {
    /// Without nodes.
    ///
    /// * `cut`: as [`FlameTree::cut`].
    pub fn cut_by(cut: i64) -> Self {
        Self { cut, ..Self::default() }
    }

    /// The node of this name under `parent`, new or known.
    pub fn child(&mut self, parent: u32, name: u32) -> u32 {
        let next = self.parent.len() as u32;
        let id = *self.index.entry((parent, name)).or_insert(next);
        if id == next {
            self.parent.push(parent);
            self.name.push(name);
            self.own.push(0);
        }
        id
    }

    /// Adds the stacks of a trace that have weight, below the node `root`.
    pub fn add<'a>(
        &mut self,
        trace: &'a Trace,
        weights: &[i64],
        root: u32,
        names: &mut Names<'a>,
        is_left_out: &mut dyn FnMut(StringId) -> bool,
    ) {
        let stacks = &trace.stacks;
        let mut is_used: Vec<bool> = weights.iter().map(|&weight| weight != 0).collect();
        for i in (1..stacks.len()).rev() {
            if is_used[i] {
                is_used[stacks.parent[i].0 as usize] = true;
            }
        }
        // A stack's callers have a smaller id, so their node is there already.
        let mut node_of = vec![root; stacks.len()];
        for i in (1..stacks.len()).filter(|&i| is_used[i]) {
            let (frame, caller) = (stacks.frame[i], node_of[stacks.parent[i].0 as usize]);
            node_of[i] = match is_left_out(frame) {
                true => caller,
                false => self.child(caller, names.intern(trace.strings.get(frame))),
            };
            let is_all_left_out = node_of[i] == root && weights[i] != 0;
            let own = if is_all_left_out { self.child(root, names.intern(LEFT_OUT)) } else { node_of[i] };
            self.own[own as usize] += weights[i];
        }
        for (stack, name) in [(StackId::default().0 as usize, NO_STACK), (stacks.len(), BEFORE)] {
            if let Some(&weight) = weights.get(stack).filter(|&&weight| weight != 0) {
                let node = self.child(root, names.intern(name));
                self.own[node as usize] += weight;
            }
        }
    }

    /// Whether there is a node of this name under `parent`.
    pub fn has_child(&self, parent: u32, name: u32) -> bool {
        self.index.contains_key(&(parent, name))
    }

    /// The same tree with a weight of its own for each node, without nodes that weigh nothing.
    ///
    /// * `full`: as [`FlameTree::full`].
    /// * `calls`: as [`FlameTree::calls`].
    pub fn weighted(&self, own: &[i64], full: &[[i64; 2]], calls: &[u64]) -> Self {
        let mut total = own.to_vec();
        for i in (1..total.len()).rev() {
            let above = self.parent[i] as usize;
            total[above] = total[above].saturating_add(total[i]);
        }
        let mut draft = Self::default();
        draft.own[0] = own[0];
        let mut node_of = vec![0; total.len()];
        for i in (1..total.len()).filter(|&i| total[i] != 0) {
            node_of[i] = draft.child(node_of[self.parent[i] as usize], self.name[i]);
            draft.own[node_of[i] as usize] += own[i];
        }
        draft.calls = vec![0; draft.parent.len()];
        node_of.iter().zip(calls).for_each(|(&node, calls)| draft.calls[node as usize] += calls);
        // Of nodes that weigh nothing, which are left out.
        draft.calls[0] = 0;
        if !full.is_empty() {
            draft.full = vec![[0; 2]; draft.parent.len()];
            node_of
                .iter()
                .zip(full)
                .filter(|(node, _)| **node != 0)
                .for_each(|(&node, of)| draft.full[node as usize] = *of);
            draft.full[0] = full[0];
        }
        draft
    }

    /// Of full weights, sets those with all below by those of the nodes themselves.
    pub fn sum_full(&mut self) {
        self.full.iter_mut().for_each(|[own, total]| *total = *own);
        for i in (1..self.full.len()).rev() {
            let total = self.full[i][1];
            let above = &mut self.full[self.parent[i] as usize][1];
            *above = above.saturating_add(total);
        }
    }

    /// Sorts the nodes by level, and those of one parent by weight.
    pub fn finish(self, names: Arc<[Box<str>]>) -> FlameTree {
        let Self { parent, name, own, full, calls, cut, .. } = self;
        let mut total = own.clone();
        for i in (1..parent.len()).rev() {
            let above = parent[i] as usize;
            total[above] = total[above].saturating_add(total[i]);
        }
        // The heaviest first; a stable sort by parent then leaves siblings in this order.
        let mut sorted: Vec<u32> = (1..parent.len() as u32).collect();
        let weight = |node: u32| Reverse(total[node as usize]);
        let text = |node: u32| &*names[name[node as usize] as usize];
        sorted.sort_unstable_by(|&a, &b| {
            let of_parent = parent[a as usize].cmp(&parent[b as usize]);
            of_parent.then_with(|| weight(a).cmp(&weight(b))).then_with(|| text(a).cmp(text(b)))
        });
        let mut nodes = Vec::with_capacity(parent.len());
        nodes.push(FlameNode { total: total[0], own: own[0], ..Default::default() });
        let mut drafts = vec![0];
        let mut at = 0;
        while let Some(&draft) = drafts.get(at) {
            let first = sorted.partition_point(|&node| parent[node as usize] < draft);
            let n = sorted[first..].partition_point(|&node| parent[node as usize] == draft);
            nodes[at].children = drafts.len() as u32..(drafts.len() + n) as u32;
            let depth = nodes[at].depth + 1;
            for &child in &sorted[first..first + n] {
                let i = child as usize;
                drafts.push(child);
                let (total, own) = (total[i], own[i]);
                nodes.push(FlameNode { name: name[i], parent: at as u32, depth, total, own, children: 0..0 });
            }
            at += 1;
        }
        let full = drafts.iter().filter_map(|&draft| full.get(draft as usize).copied()).collect();
        let calls = drafts.iter().filter_map(|&draft| calls.get(draft as usize).copied()).collect();
        FlameTree { names, nodes, full, calls, cut }
    }
}
