//! Keys of clusters: what gaps have in common, as numbers of normalized names.

use hashbrown::HashMap;

use super::NameId;
use crate::analysis::frame::Frame;
use crate::analysis::gaps::{GapClass, Ledger};
use crate::analysis::short_name::short_name;
use crate::analysis::steps::is_step_name;
use crate::model::{SliceId, SliceKind, StringId, Trace};

/// The fewest names that differ in their numbers only for the numbers to count instances.
const MIN_NUMBERED: usize = 3;

/// What the gaps of a cluster have in common, besides the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub prev: NameId,
    pub next: NameId,
    pub path: u32,
    pub frame: NameId,
    pub family: GapClass,
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
    Operator,
    Annotation,
    Frame,
}

/// Normalized names, each string once.
pub struct Keys<'a> {
    trace: &'a Trace,
    known: HashMap<(StringId, Form), NameId>,
    ids: HashMap<String, NameId>,
    pub texts: Vec<String>,
    path_ids: HashMap<(u32, NameId), u32>,
    /// The parent and the name of each operator path; the first is the empty path.
    pub paths: Vec<(u32, NameId)>,
    is_user: HashMap<StringId, bool>,
    numbered: HashMap<String, bool>,
}

impl<'a> Keys<'a> {
    pub fn new(trace: &'a Trace) -> Self {
        let mut keys = Self {
            trace,
            known: HashMap::new(),
            ids: HashMap::new(),
            texts: Vec::new(),
            path_ids: HashMap::new(),
            paths: vec![(0, NameId::default())],
            is_user: HashMap::new(),
            numbered: numbered(trace),
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
            Form::Annotation => {
                let skeleton = without_numbers(text);
                if self.numbered.get(&skeleton) == Some(&true) { skeleton } else { text.to_owned() }
            }
            Form::Operator | Form::Frame => text.to_owned(),
        };
        let id = self.intern(normalized);
        self.known.insert((string, form), id);
        id
    }

    pub fn of(&mut self, ledger: &Ledger, index: usize) -> Key {
        let (gap, slices) = (ledger.gap(index), &self.trace.slices);
        let mut by_class = [0; GapClass::N];
        // The longest part, and of those that explain something the longest.
        let (mut longest, mut host) = (0, None);
        for part in ledger.parts(index) {
            by_class[part.class as usize] += part.time.dur();
            if part.class.is_host() && part.slice.is_some() && part.time.dur() > longest {
                (longest, host) = (part.time.dur(), part.slice);
            }
        }
        let class = GapClass::ALL.into_iter().rev().max_by_key(|&class| by_class[class as usize]).unwrap_or_default();
        let name = |slice: SliceId| slices.name.get(slice.idx()).copied().unwrap_or_default();
        let (prev, next) = (name(gap.after), name(gap.ended_by));
        let (path, frame) = match host.or_else(|| self.trace.launch_of(gap.ended_by)) {
            Some(slice) => self.place(slice),
            None => (0, NameId::default()),
        };
        let (prev, next) = (self.name(prev, Form::Work), self.name(next, Form::Work));
        Key { prev, next, path, frame, family: family(class) }
    }

    /// The operator path around a host slice, itself included, and the innermost frame of the user's program.
    fn place(&mut self, slice: SliceId) -> (u32, NameId) {
        let slices = &self.trace.slices;
        let around: Vec<SliceId> = std::iter::once(slice).chain(slices.ancestors(slice)).collect();
        let mut path = 0;
        let mut frame = NameId::default();
        for id in around.into_iter().rev() {
            let string = slices.name[id.idx()];
            match slices.kind[id.idx()] {
                SliceKind::Operator => path = self.descend(path, string, Form::Operator),
                SliceKind::Annotation if !is_step_name(self.trace.strings.get(string)) => {
                    path = self.descend(path, string, Form::Annotation);
                }
                SliceKind::PythonFunction if self.is_user(string) => frame = self.name(string, Form::Frame),
                _ => {}
            }
        }
        (path, frame)
    }

    fn descend(&mut self, path: u32, string: StringId, form: Form) -> u32 {
        let name = self.name(string, form);
        let next = self.paths.len() as u32;
        let id = *self.path_ids.entry((path, name)).or_insert(next);
        if id == next {
            self.paths.push((path, name));
        }
        id
    }

    fn is_user(&mut self, string: StringId) -> bool {
        let trace = self.trace;
        let is_user = || Frame::of_python_function(trace.strings.get(string)).is_user();
        *self.is_user.entry(string).or_insert_with(is_user)
    }
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

/// For each name of annotations without its numbers, whether the numbers count instances: there are several
/// names, and each occurs once. Cost: O(slices).
fn numbered(trace: &Trace) -> HashMap<String, bool> {
    let slices = &trace.slices;
    let mut counts: HashMap<StringId, u32> = HashMap::new();
    for i in (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Annotation) {
        *counts.entry(slices.name[i]).or_default() += 1;
    }
    let mut skeletons: HashMap<String, (usize, u32)> = HashMap::new();
    for (string, count) in counts {
        let (names, most) = skeletons.entry(without_numbers(trace.strings.get(string))).or_default();
        *names += 1;
        *most = count.max(*most);
    }
    skeletons.into_iter().map(|(name, (names, most))| (name, names >= MIN_NUMBERED && most == 1)).collect()
}
