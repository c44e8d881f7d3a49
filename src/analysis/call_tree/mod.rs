//! Host slices by the path of what runs around them: call trees, trees of modules, operators by call stack.
//!
//! A node is a name below a path of names. Host time is self time, so that it sums to the time in which threads ran
//! anything; device time is that of the work that was launched, so that it sums to the work.

mod names;
mod rows;
#[cfg(test)]
mod tests;

use hashbrown::{HashMap, HashSet};

pub use self::names::Frames;
use self::names::{BACKWARD, NO_LAUNCH, frame_name, outside};
pub use self::rows::{CallTotals, call_tree, operators_by_stack};
use super::content::is_of_recorder;
use super::launches::launchers;
use super::stacks::{Draft, FlameTree, Names, ThreadWeight, Threads};
use super::threads::{hardly_works, only_waits, parts};
use super::totals::{Instance, Scope, running_in};
use crate::model::time::unite;
use crate::model::{DurNs, ON_CPU, SliceId, SliceKind, StringId, TimeRange, Trace, TrackId, TrackKind};

/// Frames of a tree, however the recording was made.
const MAX_NODES: usize = 1 << 21;
/// Slices between two looks at whether the answer is still wanted.
const SLICES_PER_LOOK: usize = 1 << 16;
/// The node of slices that are on no thread.
const NOWHERE: u32 = u32::MAX;

/// What frames weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weigh {
    /// Self time on the host.
    #[default]
    Host,
    /// Time of the device work that was launched. The work itself is the innermost frame, and API calls are none.
    Device,
}

/// Time by path in nanoseconds, and the weight of each thread that has any.
///
/// * Of each slice and of device work counts its time within the scope's range; of slices that cross others all of it
///   where they start. Ranges that tile a trace sum to the whole.
/// * Host time sums to the union of the slices of each thread, device time to the durations of the device work.
/// * Of a range the tree also has times in full, [`FlameTree::full`]: of a frame on the host the durations of its
///   slices that run in the range.
/// * Cost: O(n log n) for n slices of the traces, whatever the range; 5 bytes a slice while it runs. Once
///   cancelled it is incomplete.
pub fn time_flame(scope: &Scope<'_>, frames: Frames, weigh: Weigh, threads: Threads) -> (FlameTree, Vec<ThreadWeight>) {
    let tree = Tree::of(scope, frames, weigh, threads, false);
    let full = tree.full(scope.has_range());
    let weights = tree.nodes.iter().map(|node| if weigh == Weigh::Host { node.host_ns } else { node.device_ns });
    let calls: Vec<u64> = tree.nodes.iter().map(|node| node.calls).collect();
    let names = tree.names.list.into_iter().map(Box::from).collect();
    (tree.draft.weighted(&weights.collect::<Vec<_>>(), &full, &calls).finish(names), tree.threads)
}

/// What a node counts itself, without those below it.
#[derive(Clone, Debug, Default)]
struct Node {
    calls: u64,
    host_ns: DurNs,
    device_ns: DurNs,
    /// What it weighs, also outside of the range: itself, and of host time with all that ran inside.
    full_ns: [DurNs; 2],
    /// Sorted; empty unless asked for.
    instances: Vec<Instance>,
}

/// A tree of paths that grows: parents before children.
struct Tree<'a> {
    frames: Frames,
    weigh: Weigh,
    has_instances: bool,
    counted: Threads,
    names: Names<'a>,
    draft: Draft,
    /// As many as in `draft`.
    nodes: Vec<Node>,
    threads: Vec<ThreadWeight>,
    /// The node of what is in no frame, once there is any.
    outside: Option<u32>,
}

/// Where the slices of a trace are in the tree.
struct Placed {
    /// The innermost frame at or around each slice.
    node: Vec<u32>,
    role: Vec<Role>,
}

/// What a slice is in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// Its time counts to the frame around it.
    #[default]
    Part,
    Frame,
    /// A part inside of an operator; for [`Frames::Stacks`].
    InOperator,
    /// A part of a backward pass that is below what ran forward.
    InBackward,
}

impl<'a> Tree<'a> {
    fn of(scope: &Scope<'a>, frames: Frames, weigh: Weigh, counted: Threads, has_instances: bool) -> Self {
        let (names, draft, nodes) = (Names::default(), Draft::default(), vec![Node::default()]);
        let mut tree =
            Self { frames, weigh, has_instances, counted, names, draft, nodes, threads: Vec::new(), outside: None };
        for (index, &trace) in scope.traces.iter().enumerate() {
            let mut placed = tree.place(trace, scope.is_cancelled);
            if matches!(frames, Frames::Modules | Frames::Stacks) {
                tree.place_backward(trace, &mut placed);
            }
            let first = tree.threads.len();
            let waiting = waiting(trace);
            for track in host_tracks(trace).take_while(|_| !(scope.is_cancelled)()) {
                let thread = ThreadWeight { trace: index as u32, track, weight: 0, waits: waiting.contains(&track) };
                tree.count_host(trace, thread, &placed, scope);
            }
            tree.count_device(trace, &placed, scope, index, first);
        }
        tree.threads.retain(|thread| thread.weight != 0);
        tree
    }

    /// As [`FlameTree::full`]; nothing where times are in full anyhow.
    fn full(&self, has_range: bool) -> Vec<[DurNs; 2]> {
        if !has_range {
            return Vec::new();
        }
        let mut full: Vec<[DurNs; 2]> = self.nodes.iter().map(|node| node.full_ns).collect();
        // A frame of the host has its own duration; the others, as what is no frame, have the sum of what is inside.
        let is_summed: Vec<bool> = full.iter().map(|full| full[1] == 0).collect();
        for node in (0..full.len()).rev() {
            if is_summed[node] {
                full[node][1] = full[node][1].saturating_add(full[node][0]);
            }
            let (total, above) = (full[node][1], self.draft.parent[node] as usize);
            if node > 0 && is_summed[above] {
                full[above][1] = full[above][1].saturating_add(total);
            }
        }
        full
    }

    fn child(&mut self, parent: u32, name: &'a str) -> u32 {
        let name = self.names.intern(name);
        self.child_named(parent, name)
    }

    /// The node of this name below `parent`; `parent` itself where the tree is full.
    fn child_named(&mut self, parent: u32, name: u32) -> u32 {
        if self.nodes.len() >= MAX_NODES && !self.draft.has_child(parent, name) {
            return parent;
        }
        let node = self.draft.child(parent, name);
        if node as usize == self.nodes.len() {
            self.nodes.push(Node::default());
        }
        node
    }

    /// Finds the path of every slice of a thread.
    fn place(&mut self, trace: &'a Trace, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Placed {
        let slices = &trace.slices;
        let mut placed = Placed { node: vec![NOWHERE; slices.len()], role: vec![Role::Part; slices.len()] };
        let mut known: HashMap<(SliceKind, StringId), Option<u32>> = HashMap::new();
        for track in host_tracks(trace) {
            let rows = &trace.track_rows[track.0 as usize];
            let parents = slices.parents(rows.start as usize..rows.end as usize);
            let base = trace.track_slices(track).start;
            for (i, parent) in parents.iter().enumerate() {
                if i % SLICES_PER_LOOK == 0 && is_cancelled() {
                    return placed;
                }
                let slice = base + i;
                let around = parent.map(|parent| base + parent as usize);
                let above = around.map_or(0, |around| placed.node[around]);
                let is_inside = |around: usize| {
                    placed.role[around] == Role::InOperator || slices.kind[around] == SliceKind::Operator
                };
                if self.frames == Frames::Stacks && around.is_some_and(is_inside) {
                    (placed.node[slice], placed.role[slice]) = (above, Role::InOperator);
                    continue;
                }
                let (kind, name) = (slices.kind[slice], slices.name[slice]);
                let frame = *known.entry((kind, name)).or_insert_with(|| {
                    let name = frame_name(self.frames, self.weigh, kind, trace.strings.get(name));
                    name.map(|name| self.names.intern(name))
                });
                (placed.node[slice], placed.role[slice]) = match frame {
                    Some(name) => (self.child_named(above, name), Role::Frame),
                    None => (above, Role::Part),
                };
            }
        }
        placed
    }

    /// Puts the backward pass of operators below the module, or the functions, that ran them forward.
    fn place_backward(&mut self, trace: &'a Trace, placed: &mut Placed) {
        let slices = &trace.slices;
        let is_operator = |slice: &SliceId| slices.kind[slice.idx()] == SliceKind::Operator;
        let mut passes: Vec<(SliceId, SliceId)> = (0..trace.flows.len())
            .filter(|&i| trace.strings.get(trace.flows.name[i]) == "fwdbwd")
            .map(|i| {
                let to = trace.flows.to[i];
                (slices.ancestors(to).take_while(is_operator).last().unwrap_or(to), trace.flows.from[i])
            })
            .collect();
        // From top to bottom: what a checkpoint runs forward again lies inside its backward pass, and around more.
        passes.sort_unstable();
        passes.dedup_by_key(|pass| pass.0);
        for (backward, forward) in passes {
            let (forward, before) = (placed.node[forward.idx()], placed.node[backward.idx()]);
            let is_loose = before != NOWHERE && self.around_operators(before) == 0;
            let around = if forward == NOWHERE { 0 } else { self.around_operators(forward) };
            let is_inside = placed.role[backward.idx()] == Role::InBackward;
            if around == 0 || !(is_loose || is_inside) {
                continue;
            }
            let mut node = self.child(around, BACKWARD);
            if self.frames == Frames::Stacks {
                node = self.child(node, trace.slice_name(backward));
            }
            for inside in slices.inside(backward) {
                let id = SliceId(inside as u32);
                let above = if id == backward { None } else { slices.parent(id) };
                let above = above.map_or(node, |above| placed.node[above.idx()]);
                let was = placed.node[inside] as usize;
                (placed.node[inside], placed.role[inside]) = match placed.role[inside] {
                    _ if id == backward => (node, Role::Frame),
                    Role::Frame => (self.child_named(above, self.draft.name[was]), Role::Frame),
                    Role::Part => (above, Role::InBackward),
                    role => (above, role),
                };
            }
        }
    }

    /// The node of the module or function around the operators at this node; 0 if there is none.
    fn around_operators(&self, node: u32) -> u32 {
        if self.frames == Frames::Stacks { self.draft.parent[node as usize] } else { node }
    }

    /// The node to which a slice counts.
    fn node_of(&mut self, placed: &Placed, slice: usize) -> u32 {
        match (placed.node[slice], self.outside, outside(self.frames)) {
            (0, Some(node), _) => node,
            (0, None, Some(name)) => {
                let node = self.child(0, name);
                self.outside = Some(node);
                node
            }
            (node, ..) => node,
        }
    }

    fn count_host(&mut self, trace: &Trace, thread: ThreadWeight, placed: &Placed, scope: &Scope<'_>) {
        let ThreadWeight { track, waits, .. } = thread;
        let index = thread.trace as usize;
        let range = scope.range(index).unwrap_or(TimeRange::ALL);
        let is_counted = self.counted.count(thread.trace, track, waits);
        let mut weight = 0;
        let mut count = |slice: usize, own: DurNs, own_in_full: DurNs| {
            weight = own.saturating_add(weight);
            if !is_counted {
                return;
            }
            let node = self.node_of(placed, slice);
            let node = &mut self.nodes[node as usize];
            node.host_ns = node.host_ns.saturating_add(own);
            if self.weigh == Weigh::Host {
                let dur = trace.slices.time(SliceId(slice as u32)).dur();
                let whole = if placed.role[slice] == Role::Frame { dur } else { 0 };
                node.full_ns = [(0, own_in_full), (1, whole)].map(|(at, ns)| node.full_ns[at].saturating_add(ns));
            }
            if placed.role[slice] == Role::Frame {
                node.calls += 1;
                if self.has_instances {
                    node.instances.push(Instance { trace: thread.trace, slice: SliceId(slice as u32) });
                }
            }
        };
        for row in trace.track_rows[track.0 as usize].clone() {
            let this = &trace.slices.rows[row as usize];
            if !this.is_overflow {
                let window = running_in(&trace.slices, this, range);
                let own = trace.slices.self_times(row as usize, window.clone(), range);
                let in_full = match scope.range(index) {
                    Some(_) => trace.slices.self_times(row as usize, window.clone(), TimeRange::ALL),
                    None => own.clone(),
                };
                window.zip(own.into_iter().zip(in_full)).for_each(|(slice, (own, full))| count(slice, own, full));
            }
        }
        // Of those that cross others, where their own time lies is not known: they count where they start.
        let crossing =
            crossing_times(trace, track).into_iter().filter(|(slice, _)| range.contains(trace.slices.ts[*slice]));
        crossing.for_each(|(slice, own)| count(slice, own, own));
        let weight = if self.weigh == Weigh::Host { weight } else { 0 };
        self.threads.push(ThreadWeight { weight, ..thread });
    }

    /// * `first`: of the trace's threads.
    fn count_device(&mut self, trace: &'a Trace, placed: &Placed, scope: &Scope<'_>, index: usize, first: usize) {
        let (slices, range) = (&trace.slices, scope.range(index).unwrap_or(TimeRange::ALL));
        if (scope.is_cancelled)() {
            return;
        }
        let mut names: HashMap<StringId, u32> = HashMap::new();
        let mut thread_of: Vec<Option<usize>> = vec![None; trace.tracks.len()];
        for (at, thread) in self.threads.iter().enumerate().skip(first) {
            thread_of[thread.track.0 as usize] = Some(at);
        }
        for (work, host) in launchers(trace) {
            let host = host.filter(|host| placed.node[host.idx()] != NOWHERE);
            let time = slices.time(work);
            if time.intersect(range).is_none() && !range.contains(time.start) {
                continue;
            }
            let dur = slices.clipped(work.idx(), range).dur();
            let track = host.map(|host| slices.track_of(host));
            if let Some(at) = track.and_then(|track| thread_of[track.0 as usize])
                && self.weigh == Weigh::Device
            {
                self.threads[at].weight = self.threads[at].weight.saturating_add(dur);
            }
            // What waits launches nothing.
            if matches!(self.counted, Threads::One(..))
                && track.is_none_or(|track| !self.counted.count(index as u32, track, false))
            {
                continue;
            }
            let mut node = match host {
                Some(host) => self.node_of(placed, host.idx()),
                None => self.child(0, NO_LAUNCH),
            };
            if self.weigh == Weigh::Device {
                let name = slices.name[work.idx()];
                let name = *names.entry(name).or_insert_with(|| self.names.intern(trace.strings.get(name)));
                node = self.child_named(node, name);
            }
            let node = &mut self.nodes[node as usize];
            node.device_ns = node.device_ns.saturating_add(dur);
            if self.weigh == Weigh::Device {
                node.full_ns[0] = node.full_ns[0].saturating_add(time.dur());
                node.calls += 1;
            }
        }
    }
}

/// The threads that only wait, or nearly so; none where all of them do. Cost: O(n) for n slices.
pub fn waiting(trace: &Trace) -> HashSet<TrackId> {
    let parts = parts(trace);
    let waits =
        |track: &TrackId| only_waits(trace.track(*track), parts[track.0 as usize]) || hardly_works(trace, *track);
    if host_tracks(trace).all(|track| waits(&track)) {
        return HashSet::new();
    }
    host_tracks(trace).filter(waits).collect()
}

/// The tracks of threads on the host, without those of the profiler's own overhead, and without those that only tell
/// when threads ran on CPUs: what they ran is on others.
pub fn host_tracks(trace: &Trace) -> impl Iterator<Item = TrackId> {
    let is_host = |track: &TrackId| {
        let of = trace.track(*track);
        let process = trace.process(of.process);
        of.kind == TrackKind::Thread
            && !of.name.ends_with(ON_CPU)
            && process.device.is_none()
            && !is_of_recorder(trace, *track)
            && trace.slices.kind[trace.track_slices(*track)].iter().any(|&kind| kind != SliceKind::Overhead)
    };
    (0..trace.tracks.len() as u32).map(TrackId).filter(is_host)
}

/// The slices of a track that cross others, each with the time in which it is the first to run of all slices of the
/// track: added to the self times of the nested ones, their union.
fn crossing_times(trace: &Trace, track: TrackId) -> Vec<(usize, DurNs)> {
    let slices = &trace.slices;
    let rows = trace.rows(track);
    let mut crossing: Vec<usize> = rows.iter().filter(|row| row.is_overflow).flat_map(|row| row.range()).collect();
    if crossing.is_empty() {
        return Vec::new();
    }
    crossing.sort_unstable_by_key(|&slice| (slices.ts[slice], slice));
    let time = |slice: usize| slices.time(SliceId(slice as u32));
    let top = rows.first().filter(|row| !row.is_overflow).map_or(0..0, |row| row.range());
    let mut nested: Vec<TimeRange> = top.map(time).collect();
    unite(&mut nested);
    let (mut reach, mut next) = (i64::MIN, 0);
    let own = |slice: usize| {
        let TimeRange { start, end } = time(slice);
        let start = start.max(reach);
        reach = reach.max(end);
        let mut own = (end - start).max(0);
        while nested.get(next).is_some_and(|span| span.end <= start) {
            next += 1;
        }
        for span in nested[next..].iter().take_while(|span| span.start < end) {
            own -= (span.end.min(end) - span.start.max(start)).max(0);
        }
        (slice, own)
    };
    crossing.into_iter().map(own).collect()
}
