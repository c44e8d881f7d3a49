//! Keys of clusters: the common properties of gaps, as numbers of normalized names.

use hashbrown::{HashMap, HashSet};

use super::NameId;
use crate::analysis::gaps::place::{FoundFrame, Whereabouts, frame_at, whereabouts};
use crate::analysis::gaps::{Gap, GapClass, GapPart, IdleByClass, Ledger, Near};
use crate::analysis::short_name::short_name;
use crate::analysis::steps::PROFILER_STEP;
use crate::model::{DurNs, SliceId, SliceKind, StringId, TimeRange, Trace};

/// The fewest names that differ in their numbers only for the numbers to count instances.
const MIN_NUMBERED: usize = 3;

/// What the gaps of a cluster have in common, besides the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub prev: NameId,
    pub next: NameId,
    pub place: HostPlace,
    pub family: GapClass,
}

/// Where the host was: an operator path, as an index into [`Keys::paths`], and the innermost frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPlace {
    pub path: u32,
    pub frame: NameId,
}

/// The class that stands for this one in keys.
pub fn family(class: GapClass) -> GapClass {
    match class {
        GapClass::Launch | GapClass::Python | GapClass::Unknown | GapClass::LaunchLatency => GapClass::CpuOp,
        other => other,
    }
}

/// How names are normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Work,
    /// CUDA graphs have a number as their name.
    Graph,
    /// Operators and named ranges.
    Range,
    Frame,
}

/// Normalized names, each string once.
pub struct Keys<'a> {
    trace: &'a Trace,
    known: HashMap<(StringId, Form), NameId>,
    ids: HashMap<String, NameId>,
    pub texts: Vec<String>,
    path_ids: HashMap<(u32, NameId), u32>,
    /// Where each string inside a path leads.
    descents: HashMap<(u32, StringId), u32>,
    /// The parent and the name of each operator path; the first is the empty path.
    pub paths: Vec<(u32, NameId)>,
    /// The slices that were open when a path was last asked for, each with the path that it led to: most of them are
    /// still.
    way: Vec<(SliceId, u32)>,
    /// Gaps ascend: what was open at the last one is near.
    near: Near,
    numbered: &'a Numbered,
    /// Of the gap that is looked at. Kept for its memory.
    parts: Vec<GapPart>,
}

impl<'a> Keys<'a> {
    pub fn new(trace: &'a Trace, numbered: &'a Numbered) -> Self {
        let mut keys = Self {
            trace,
            known: HashMap::new(),
            ids: HashMap::new(),
            texts: Vec::new(),
            path_ids: HashMap::new(),
            descents: HashMap::new(),
            paths: vec![(0, NameId::default())],
            way: Vec::new(),
            near: Near::new(trace),
            numbered,
            parts: Vec::new(),
        };
        keys.intern(String::new());
        keys
    }

    fn intern(&mut self, text: String) -> NameId {
        let next = NameId(self.texts.len() as u32);
        let id = *self.ids.entry(text.clone()).or_insert(next);
        if id == next {
            self.texts.push(text);
        }
        id
    }

    fn name(&mut self, string: StringId, form: Form) -> NameId {
        if let Some(&known) = self.known.get(&(string, form)) {
            return known;
        }
        let text = self.trace.strings.get(string);
        let normalized = match form {
            Form::Work => short_name(text),
            Form::Graph => format!("CUDA graph {text}"),
            Form::Range => {
                Some(without_numbers(text)).filter(|name| self.numbered.0.contains(name)).unwrap_or(text.to_owned())
            }
            Form::Frame => text.to_owned(),
        };
        let id = self.intern(normalized);
        self.known.insert((string, form), id);
        id
    }

    /// The key of a gap, where the host was during most of it, and its time by class, in nanoseconds.
    ///
    /// They differ where the host was slow in many parts, which vary: the key then has the place of the next launch.
    /// The host was in the Python function whose calls together have at least half of the gap, else in what was open
    /// meanwhile.
    pub fn of(&mut self, ledger: &Ledger, index: usize) -> (Key, HostPlace, IdleByClass) {
        let gap = ledger.gap(index);
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        parts.extend(ledger.parts(index));
        let mut by_class = [0; GapClass::N];
        parts.iter().for_each(|part| by_class[part.class as usize] += part.time.dur());
        let class = GapClass::of_most(&by_class);
        let longest = parts.iter().filter(|part| family(part.class) == family(class));
        let longest = longest.max_by_key(|part| part.time.dur());
        let at = longest.and_then(|longest| whereabouts(self.trace, &gap, longest));
        let is_of_many = longest.is_some_and(|longest| longest.time.dur() < gap.time.dur() - longest.time.dur());
        let call = Some(gap.ended_by).filter(|_| is_of_many && family(class) == GapClass::CpuOp);
        let launch = call.and_then(|work| self.trace.launch_of(work)).map(|call| {
            let slices = &self.trace.slices;
            Whereabouts { thread: slices.track_of(call), time: slices.time(call), cause: None, loader: None }
        });
        let summed = launch.and_then(|_| most_of(self.trace, &gap, &parts));
        let mut of_host = parts.iter().filter(|part| launch.is_some() && part.class.is_host());
        let all = of_host.next().zip(at).filter(|_| summed.is_none()).map(|(first, at)| {
            let time = TimeRange { end: of_host.next_back().unwrap_or(first).time.end, ..first.time };
            Whereabouts { time, cause: None, ..at }
        });
        let of_summed = summed.and_then(|part| whereabouts(self.trace, &gap, part));
        self.parts = parts;
        let mut place = |at: Option<Whereabouts>| at.map(|at| self.place(ledger, &gap, at));
        let of_launch = place(launch);
        let of_host = place(of_summed).or_else(|| place(all)).or(of_launch).or_else(|| place(at)).unwrap_or_default();
        let (prev, next) = (self.work(gap.after), self.work(gap.ended_by));
        (Key { prev, next, place: of_launch.unwrap_or(of_host), family: family(class) }, of_host, by_class)
    }

    /// The operators and the frame at a place.
    fn place(&mut self, ledger: &Ledger, gap: &Gap, at: Whereabouts) -> HostPlace {
        let open = at.open(self.trace, &self.near);
        let frame = frame_at(self.trace, ledger, gap, (&at, &open), &self.near).map(|frame| match frame {
            FoundFrame::Slice(slice) => self.name(self.trace.slices.name[slice.idx()], Form::Frame),
            FoundFrame::Sample(text) => self.intern(text.to_owned()),
        });
        HostPlace { path: self.path(&at, &open), frame: frame.unwrap_or_default() }
    }

    /// The name of device work; empty if there is none.
    fn work(&mut self, slice: SliceId) -> NameId {
        let slices = &self.trace.slices;
        let Some(&string) = slices.name.get(slice.idx()) else { return NameId::default() };
        let is_graph = slices.kind[slice.idx()] == SliceKind::CudaGraph;
        self.name(string, if is_graph { Form::Graph } else { Form::Work })
    }

    /// The operators and named ranges among `open` slices; while data is loaded, also the function that does it.
    fn path(&mut self, at: &Whereabouts, open: &[SliceId]) -> u32 {
        let slices = &self.trace.slices;
        // Kineto recorded named ranges as operators until 2021.
        let is_named =
            |slice: &SliceId| matches!(slices.kind[slice.idx()], SliceKind::Operator | SliceKind::Annotation);
        let named = open.iter().copied().filter(is_named).chain(at.function(self.trace, open));
        let (mut path, mut depth) = (0, 0);
        for slice in named {
            if let Some(&(_, known)) = self.way.get(depth).filter(|known| known.0 == slice) {
                path = known;
            } else {
                path = self.descend(path, slices.name[slice.idx()]);
                self.way.truncate(depth);
                self.way.push((slice, path));
            }
            depth += 1;
        }
        path
    }

    /// The path of this operator or named range inside `path`. The profiler's own steps have none.
    fn descend(&mut self, path: u32, string: StringId) -> u32 {
        if let Some(&known) = self.descents.get(&(path, string)) {
            return known;
        }
        let inside = if self.trace.strings.get(string).starts_with(PROFILER_STEP) {
            path
        } else {
            let name = self.name(string, Form::Range);
            let next = self.paths.len() as u32;
            let id = *self.path_ids.entry((path, name)).or_insert(next);
            if id == next {
                self.paths.push((path, name));
            }
            id
        };
        self.descents.insert((path, string), inside);
        inside
    }
}

/// Of the calls of one Python function the longest, if together they have at least half of a gap.
///
/// Operators do not count so: an operator that calls many small ones is the place.
fn most_of<'a>(trace: &Trace, gap: &Gap, parts: &'a [GapPart]) -> Option<&'a GapPart> {
    let mut sums: HashMap<StringId, (DurNs, &GapPart)> = HashMap::new();
    for part in parts.iter().filter(|part| part.class == GapClass::Python) {
        let Some(slice) = part.slice else { continue };
        let (ns, longest) = sums.entry(trace.slices.name[slice.idx()]).or_insert((0, part));
        *ns += part.time.dur();
        if longest.time.dur() < part.time.dur() {
            *longest = part;
        }
    }
    let (ns, longest) = sums.into_values().max_by_key(|&(ns, longest)| (ns, longest.time.start))?;
    (ns >= gap.time.dur() - ns).then_some(longest)
}

/// The name with each number replaced by `#`.
fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

/// Names of operators and ranges without their numbers, where the numbers count instances: there are several such
/// names, and each occurs once.
#[derive(Debug)]
pub struct Numbered(HashSet<String>);

impl Numbered {
    /// Cost: O(slices + strings).
    pub fn of(trace: &Trace) -> Self {
        let slices = &trace.slices;
        let mut counts = vec![0_u32; trace.strings.len()];
        for (kind, name) in slices.kind.iter().zip(&slices.name) {
            if matches!(kind, SliceKind::Operator | SliceKind::Annotation) {
                counts[name.0 as usize] += 1;
            }
        }
        let mut names: HashMap<String, (usize, bool)> = HashMap::new();
        for ((_, text), &count) in trace.strings.iter().zip(&counts).filter(|(_, count)| **count > 0) {
            if text.bytes().any(|byte| byte.is_ascii_digit()) {
                let (n, is_once) = names.entry(without_numbers(text)).or_insert((0, true));
                *n += 1;
                *is_once &= count == 1;
            }
        }
        let counts = |(_, (n, is_once)): &(String, (usize, bool))| *n >= MIN_NUMBERED && *is_once;
        Self(names.into_iter().filter(counts).map(|(name, _)| name).collect())
    }
}
