//! Call sites: places in the program whose calls cost time.

use hashbrown::HashMap;

use super::account::LEAST_SHARE;
use crate::analysis::frame::{Frame, without_address};
use crate::analysis::gaps::{Near, open_during, place_of_call};
use crate::model::{DurNs, SliceId, SliceKind, TimeRange, Trace};

/// A call in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSite {
    pub call: String,
    /// The operator that called it, and the innermost frame of the user's program; empty if unknown.
    pub operator: String,
    pub frame: String,
}

/// A text of a trace, known by where it lies, which is cheaper to look up than what it says. Texts that are alike are
/// joined where sums are read.
#[derive(Clone, Copy, Debug)]
struct Text<'a>(&'a str);

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Text<'_> {}

impl std::hash::Hash for Text<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

/// Time by the names of a [`CallSite`].
#[derive(Clone, Debug, Default)]
pub struct Sites<'a>(HashMap<[Text<'a>; 3], DurNs>);

/// Time by the functions of libraries that run inside the innermost frame of the user's program, with that frame: the
/// time of each with all that it calls, and its depth below the frame.
#[derive(Clone, Debug, Default)]
pub struct Callees<'a>(HashMap<[&'a str; 2], (DurNs, usize)>);

impl<'a> Callees<'a> {
    /// Adds time; without such functions it changes nothing.
    pub fn add(&mut self, trace: &'a Trace, around: &Around, ns: DurNs) {
        let Some(frame) = around.user(trace) else { return };
        let open = around.open[around.after_user..].iter().copied();
        let is_function = |slice: &SliceId| trace.slices.kind[slice.idx()] == SliceKind::PythonFunction;
        let names = open.filter(is_function).map(|slice| trace.slice_name(slice)).filter(|name| is_telling(name));
        let mut seen: Vec<&str> = Vec::new();
        for (depth, name) in names.enumerate() {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let (sum, deepest) = self.0.entry([name, frame]).or_default();
            (*sum, *deepest) = (*sum + ns, depth.max(*deepest));
        }
    }

    pub fn extend(&mut self, other: Self) {
        for (site, (ns, depth)) in other.0 {
            let (sum, deepest) = self.0.entry(site).or_default();
            (*sum, *deepest) = (*sum + ns, depth.max(*deepest));
        }
    }

    /// The innermost function with at least half of `total`.
    pub fn most(&self, total: DurNs) -> Option<CallSite> {
        let half = self.0.iter().filter(|(_, (ns, _))| *ns >= total - ns);
        let (&site, _) = half.max_by_key(|&(site, &(ns, depth))| (depth, ns, site))?;
        let [call, frame] = site.map(|name| without_address(name).into_owned());
        Some(CallSite { call, operator: String::new(), frame })
    }
}

/// Whether a function says what is done: the wrappers of modules and the recorder's own do not.
fn is_telling(name: &str) -> bool {
    const WRAPPERS: [&str; 6] =
        ["_call_impl", "_wrapped_call_impl", "wrapper", "inner", "decorate_context", "_no_grad_wrapper"];
    let frame = Frame::of_python_function(name);
    !WRAPPERS.contains(&frame.function) && !frame.file.ends_with("lacuna_capture.py")
}

/// Time by the user's frame, or the node of the backward pass, that launched the work.
#[derive(Clone, Debug, Default)]
pub struct Origins<'a>(HashMap<Text<'a>, DurNs>);

/// What runs around a part of a gap on the thread of its slice.
#[derive(Clone, Debug)]
pub struct Around {
    /// For most of the time; the outermost first.
    open: Vec<SliceId>,
    /// The index after the innermost frame of the user's program; 0 without one.
    after_user: usize,
}

impl Around {
    /// * `near`: see [`crate::analysis::gaps::place()`].
    /// * Cost: O(rows of the track · log n).
    pub fn new(trace: &Trace, slice: SliceId, time: TimeRange, near: &Near) -> Self {
        let open = open_during(trace, trace.slices.track_of(slice), time, near);
        let after_user = open.iter().rposition(|&slice| near.names.is_user(trace, slice)).map_or(0, |at| at + 1);
        Self { open, after_user }
    }

    /// The innermost frame of the user's program.
    fn user<'a>(&self, trace: &'a Trace) -> Option<&'a str> {
        self.after_user.checked_sub(1).map(|at| trace.slice_name(self.open[at]))
    }

    /// Whether a function or range writes a checkpoint.
    pub fn saves(&self, trace: &Trace, near: &Near) -> bool {
        self.open.iter().any(|&slice| near.names.saves_checkpoint(trace, slice))
    }
}

impl<'a> Origins<'a> {
    /// Adds time; none changes nothing.
    pub fn add(&mut self, origin: &'a str, ns: DurNs) {
        *self.0.entry(Text(origin)).or_default() += ns;
    }

    pub fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|(origin, ns)| self.add(origin.0, ns));
    }

    /// Those with most time, at most `n`, each with a share of `total` that counts, and their times.
    pub fn top(&self, n: usize, total: DurNs) -> Vec<(String, DurNs)> {
        let mut by_text: HashMap<&str, DurNs> = HashMap::new();
        for (origin, ns) in &self.0 {
            *by_text.entry(origin.0).or_default() += ns;
        }
        let mut all: Vec<(&str, DurNs)> = by_text.into_iter().collect();
        all.sort_unstable_by_key(|&(origin, ns)| (std::cmp::Reverse(ns), origin));
        let counted = all.into_iter().take(n).filter(|(_, ns)| ns * LEAST_SHARE >= total);
        counted.map(|(origin, ns)| (without_address(origin).into_owned(), ns)).collect()
    }
}

impl<'a> Sites<'a> {
    /// Adds time of a call, or of the operator or function that made it. Cost: O(rows of the track · log n).
    pub fn add(&mut self, trace: &'a Trace, call: SliceId, ns: DurNs, near: &Near) {
        let place = place_of_call(trace, call, near);
        let operator = place.operator.filter(|&operator| operator != call);
        let operator = operator.map_or("", |slice| trace.slice_name(slice));
        let name = trace.slice_name(call);
        let frame = place.frame.filter(|&frame| frame != name).unwrap_or_default();
        *self.0.entry([name, operator, frame].map(Text)).or_default() += ns;
    }

    /// Adds time of a slice that loads data, with the innermost frame of the user's program inside or around it.
    pub fn add_loader(&mut self, trace: &'a Trace, loader: SliceId, around: &Around, ns: DurNs) {
        let name = trace.slice_name(loader);
        let frame = around.user(trace).filter(|&frame| frame != name).unwrap_or_default();
        *self.0.entry([name, "", frame].map(Text)).or_default() += ns;
    }

    pub fn extend(&mut self, other: Self) {
        for (site, ns) in other.0 {
            *self.0.entry(site).or_default() += ns;
        }
    }

    pub fn total_ns(&self) -> DurNs {
        self.0.values().sum()
    }

    /// Those with most time, at most `n`, each with a share that counts; none if together they have less than half of
    /// `total`.
    pub fn top(&self, n: usize, total: DurNs) -> Vec<CallSite> {
        self.ranked(n, total).into_iter().map(|(site, _)| site).collect()
    }

    /// The one with most time, and that time, if it is half of `total` or more.
    pub fn most(&self, total: DurNs) -> Option<(CallSite, DurNs)> {
        self.ranked(1, total).pop()
    }

    fn ranked(&self, n: usize, total: DurNs) -> Vec<(CallSite, DurNs)> {
        let mut by_text: HashMap<[&str; 3], DurNs> = HashMap::new();
        for (site, ns) in &self.0 {
            *by_text.entry(site.map(|text| text.0)).or_default() += ns;
        }
        let mut sites: Vec<(DurNs, [&str; 3])> = by_text.into_iter().map(|(site, ns)| (ns, site)).collect();
        sites.sort_unstable_by_key(|&(ns, site)| (std::cmp::Reverse(ns), site));
        sites.truncate(n);
        sites.retain(|(ns, _)| ns * LEAST_SHARE >= total);
        if 2 * sites.iter().map(|(ns, _)| ns).sum::<DurNs>() < total {
            return Vec::new();
        }
        let named = |(ns, site): (DurNs, [&str; 3])| {
            let [call, operator, frame] = site.map(|name| without_address(name).into_owned());
            (CallSite { call, operator, frame }, ns)
        };
        sites.into_iter().map(named).collect()
    }
}
