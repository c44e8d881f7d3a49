//! The open traces: which run each is of, where it is on the session clock, and its name in the settings.

use std::ops::Deref;
use std::sync::Arc;

use super::beyond::{Beyond, beyond};
use super::{failures, names};
use crate::analysis::clock::{self, ClockSource, Run};
use crate::analysis::content::content;
use crate::figures::text::display_name;
use crate::model::{DurNs, TimeNs, TimeRange, Trace};

/// Recordings on one clock are far apart if the time from the first to the last is more than so many times what was
/// recorded.
const FAR: DurNs = 10;

/// An open trace and its place on the session clock.
#[derive(Clone, Debug)]
pub struct OpenTrace {
    pub trace: Arc<Trace>,
    /// Add this to the trace's times to get session times.
    pub offset: DurNs,
    /// How the offset is known.
    pub source: ClockSource,
    /// Index into [`OpenTraces::runs`].
    pub run: usize,
    /// Whether another run is in front: see [`Session::bring_to_front`](super::Session::bring_to_front).
    pub is_behind: bool,
    /// Its name among the traces that are open, unlike any other: `rank 3`, or its title; see `session::names`.
    pub name: Arc<str>,
    /// Whether another open file has its title, as those of two captures have, so that only `name` tells them apart.
    pub has_namesake: bool,
    /// Names the recording in what is kept of it: the same wherever its file lies, unlike that of any other recording,
    /// also one that has overwritten the file.
    pub id: Arc<str>,
    /// What the first picture shows of it, in its own time.
    pub content: TimeRange,
    /// The place of its file among all that were asked for, whichever was read first.
    pub order: u64,
    /// Where the step begins at which runs were aligned, in its own time.
    pub aligned_step: Option<TimeNs>,
}

/// Where runs stand on the session clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunPlaces {
    /// The content of each starts at zero.
    #[default]
    Starts,
    /// The first step of each begins at zero.
    FirstSteps,
    /// The step does that was selected, and in the others the one as many after the first.
    ChosenSteps,
    /// At the times they were recorded.
    Recorded,
}

impl From<Trace> for OpenTrace {
    fn from(trace: Trace) -> Self {
        Self::new(trace, 0)
    }
}

impl OpenTrace {
    /// A trace at an offset of its own, outside any session. Cost: O(rows · log slices), so not for the frame thread.
    pub fn new(trace: impl Into<Arc<Trace>>, offset: DurNs) -> Self {
        let trace = trace.into();
        let name = names::base(&trace).into();
        let id = identity(&trace).into();
        let content = content(&trace);
        Self {
            trace,
            offset,
            source: ClockSource::Start,
            run: 0,
            is_behind: false,
            name,
            has_namesake: false,
            id,
            content,
            order: 0,
            aligned_step: None,
        }
    }

    /// Heads what is shown of it: the title of its file, or its name where another open file has that title.
    pub fn heading(&self) -> String {
        match self.name.strip_prefix("rank ").filter(|_| self.trace.info.rank.is_some()) {
            _ if !self.has_namesake => self.trace.info.title(),
            Some(rank) => format!("Rank {rank}"),
            None => self.name.to_string(),
        }
    }

    /// Whether it recorded what ran: not only memory, or readings of a device. Such files are beside it.
    pub fn is_program(&self) -> bool {
        !self.trace.info.format.is_memory_only() && !self.trace.slices.is_empty()
    }

    /// What the first picture shows of it alone, in session time.
    pub fn shown(&self) -> TimeRange {
        self.content.shifted(self.offset)
    }

    /// When what the first picture shows of it began, in nanoseconds since 1970, if it knows: what lies far before that may
    /// be long before the recording.
    pub fn recorded_at(&self) -> Option<TimeNs> {
        clock::utc_at(&self.trace, self.content.start)
    }

    /// Whether it recorded any event that lasts, or any sample.
    pub fn has_events(&self) -> bool {
        !self.trace.slices.is_empty() || !self.trace.samples.ts.is_empty()
    }

    /// Whether times of the two can be compared: both are of one run and know their UTC time, or they
    /// are the same trace.
    pub fn shares_clock(&self, other: &Self) -> bool {
        let is_utc = |open: &Self| open.source == ClockSource::Utc;
        Arc::ptr_eq(&self.trace, &other.trace) || (self.run == other.run && is_utc(self) && is_utc(other))
    }
}

/// The open traces, in the order in which they were asked for.
#[derive(Debug)]
pub struct OpenTraces {
    traces: Vec<OpenTrace>,
    runs: Vec<Run>,
    places: RunPlaces,
    /// [`OpenTrace::id`] of recordings whose runs alone the picture is of; of none of all.
    front: Vec<Arc<str>>,
    /// What `front` was before traces were opened last.
    front_before: Vec<Arc<str>>,
    span: TimeRange,
    content: TimeRange,
    beyond: Vec<Beyond>,
    pub(super) n_failures: usize,
}

impl Default for OpenTraces {
    fn default() -> Self {
        let empty = TimeRange { start: 0, end: 1 };
        Self {
            traces: Vec::new(),
            runs: Vec::new(),
            places: RunPlaces::Starts,
            front: Vec::new(),
            front_before: Vec::new(),
            span: empty,
            content: empty,
            beyond: Vec::new(),
            n_failures: 0,
        }
    }
}

impl Deref for OpenTraces {
    type Target = [OpenTrace];

    fn deref(&self) -> &[OpenTrace] {
        &self.traces
    }
}

impl OpenTraces {
    /// From the first start to the last end, in session time. Never empty: it could not be drawn.
    pub fn span(&self) -> TimeRange {
        self.span
    }

    /// What the first picture shows, in session time: the slices, samples and histories of memory
    /// of all traces, but of snapshots of memory only where nothing else is open. Lone events, instants and counters
    /// may lie outside, memory before and after a trace, and recordings far from the last one, within [`Self::span`].
    /// Never empty.
    pub fn content(&self) -> TimeRange {
        self.content
    }

    /// The files that reach beyond [`Self::content`], the farthest first.
    pub fn beyond(&self) -> &[Beyond] {
        &self.beyond
    }

    /// The runs that are open.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How the traces were placed on one clock, as text; `None` for a single trace.
    pub fn clock_note(&self) -> Option<String> {
        if self.traces.len() < 2 {
            return None;
        }
        let n = self.traces.iter().filter(|open| open.source == ClockSource::Start).count();
        let without_utc = match n {
            0 => String::new(),
            n if n == self.traces.len() => "; no file says when it was recorded".to_owned(),
            1 => "; 1 file does not say when it was recorded".to_owned(),
            n => format!("; {n} files do not say when they were recorded"),
        };
        Some(match self.runs.len() {
            1 if n == 0 => "All files are on one UTC clock".to_owned(),
            1 => format!("Starts aligned at 0{without_utc}"),
            n if self.traces.iter().any(|open| open.is_behind) => match self.n_in_front() {
                1 => format!("{n} runs, one of them in front"),
                n_in_front => format!("{n} runs, {n_in_front} of them in front"),
            },
            n => match self.places() {
                RunPlaces::Starts => format!("{n} runs, their starts aligned at 0{without_utc}"),
                RunPlaces::Recorded => format!("{n} runs on one UTC clock{without_utc}"),
                places @ (RunPlaces::FirstSteps | RunPlaces::ChosenSteps) => {
                    let without = self.n_without_steps();
                    let but = if without > 0 { format!(" ({without} without it)") } else { String::new() };
                    let step = if places == RunPlaces::FirstSteps { "first judged" } else { "selected" };
                    format!("{n} runs, the {step} step aligned at 0{but}")
                }
            },
        })
    }

    fn n_in_front(&self) -> usize {
        let is_in_front = |run: usize| self.traces.iter().any(|open| open.run == run && !open.is_behind);
        (0..self.runs.len()).filter(|&run| is_in_front(run)).count()
    }

    /// Runs that were not aligned at a step, as they have none.
    fn n_without_steps(&self) -> usize {
        let has_steps = |run: usize| self.traces.iter().any(|open| open.run == run && open.aligned_step.is_some());
        (0..self.runs.len()).filter(|&run| !has_steps(run)).count()
    }

    /// Whether several runs know their UTC times, so that they can be shown at these.
    pub fn can_spread(&self) -> bool {
        self.runs.iter().filter(|run| run.origin_utc_ns.is_some()).count() > 1
    }

    /// Where runs stand on the session clock.
    pub fn places(&self) -> RunPlaces {
        match self.places {
            RunPlaces::Recorded if !self.can_spread() => RunPlaces::Starts,
            RunPlaces::FirstSteps | RunPlaces::ChosenSteps if self.runs.len() < 2 => RunPlaces::Starts,
            places => places,
        }
    }

    /// Places runs anew. Returns by how much each trace moved on the session clock.
    ///
    /// * `aligned_steps`: of each trace, where the step begins in its own time that is aligned.
    pub(super) fn place_runs(&mut self, places: RunPlaces, aligned_steps: &[Option<TimeNs>]) -> Vec<DurNs> {
        let before: Vec<DurNs> = self.traces.iter().map(|open| open.offset).collect();
        (self.places, self.front) = (places, Vec::new());
        self.traces.iter_mut().zip(aligned_steps).for_each(|(open, &first)| open.aligned_step = first);
        self.place(0, 0);
        self.traces.iter().zip(before).map(|(open, before)| open.offset.saturating_sub(before)).collect()
    }

    /// Lets the picture be of the run of one trace alone: the others stay open behind it. So two recordings of different
    /// hours do not share an axis unless that is asked for, by placing runs beside each other or by opening another.
    pub(super) fn bring_to_front(&mut self, trace: usize) {
        self.front = self.traces.get(trace).map(|open| Arc::clone(&open.id)).into_iter().collect();
        self.place(0, 0);
    }

    /// Lets the picture be of what it was of before this trace was opened, whose run stays behind: so what nobody waited
    /// for leaves runs as they are that the user looks at beside each other.
    pub(super) fn put_behind(&mut self, trace: usize) {
        let Some(run) = self.traces.get(trace).map(|open| open.run) else { return };
        let others = || self.traces.iter().filter(|open| open.run != run);
        let were_in_front = others().filter(|open| self.front_before.contains(&open.id));
        let mut front: Vec<Arc<str>> = were_in_front.map(|open| Arc::clone(&open.id)).collect();
        if front.is_empty() {
            front = others().map(|open| Arc::clone(&open.id)).collect();
        }
        self.front = front;
        self.place(0, 0);
    }

    /// Opens more. Returns the new index of each trace that was open, and by how much the one that was the first moved
    /// on the session clock.
    pub(super) fn add<T: Into<OpenTrace>>(&mut self, traces: Vec<T>) -> (Vec<usize>, DurNs) {
        let n_before = self.traces.len();
        self.front_before.clone_from(&self.front);
        for open in traces {
            let mut open: OpenTrace = open.into();
            open.id = unlike(&open.id, self.traces.iter().map(|other| &other.id));
            self.traces.push(open);
        }
        let mut order: Vec<usize> = (0..self.traces.len()).collect();
        order.sort_by_key(|&i| self.traces[i].order);
        self.traces.sort_by_key(|open| open.order);
        let mut new_index = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| new_index[old] = new);
        new_index.truncate(n_before);
        let first = new_index.first().copied().unwrap_or_default();
        let moved_by = self.place(first, self.traces.get(first).map_or(0, |open| open.offset));
        let is_new = |trace: &usize| !new_index.contains(trace);
        let mut opened = (0..self.traces.len()).filter(is_new).map(|trace| &self.traces[trace]);
        if opened.any(|open| open.is_behind && open.is_program()) {
            self.front.clear();
            self.place(0, 0);
        }
        (new_index, moved_by)
    }

    /// Closes those for which `is_closed` is true. Returns the new index of each trace that was open, `None` if it
    /// was closed; and by how much what is now the first trace moved on the session clock.
    pub(super) fn close(&mut self, is_closed: impl Fn(usize, &Trace) -> bool) -> (Vec<Option<usize>>, DurNs) {
        let mut n_kept = 0;
        let mut new_index = Vec::with_capacity(self.traces.len());
        for (i, open) in self.traces.iter().enumerate() {
            let is_kept = !is_closed(i, &open.trace);
            new_index.push(is_kept.then_some(n_kept));
            n_kept += usize::from(is_kept);
        }
        let mut is_kept = new_index.iter().map(Option::is_some);
        self.traces.retain(|_| is_kept.next().unwrap_or(true));
        let offset_before = self.traces.first().map_or(0, |open| open.offset);
        (new_index, self.place(0, offset_before))
    }

    /// Places all traces anew; by how much the one with index `of` moved from `offset_before`.
    fn place(&mut self, of: usize, offset_before: DurNs) -> DurNs {
        let models: Vec<&Trace> = self.traces.iter().map(|open| &*open.trace).collect();
        let mut clock = clock::clock(&models, &self.traces.iter().map(|open| open.content).collect::<Vec<_>>());
        match self.places {
            RunPlaces::FirstSteps | RunPlaces::ChosenSteps if clock.runs.len() > 1 => {
                clock.align(&models, &self.traces.iter().map(|open| open.aligned_step).collect::<Vec<_>>());
            }
            RunPlaces::Recorded => clock.spread(&models),
            RunPlaces::Starts | RunPlaces::FirstSteps | RunPlaces::ChosenSteps => {}
        }
        let clock::Clock { placed, runs, span } = clock;
        for (open, place) in self.traces.iter_mut().zip(placed) {
            (open.offset, open.source, open.run) = (place.offset, place.source, place.run);
        }
        self.runs = runs;
        names::name(&mut self.traces);
        self.n_failures = failures::count(&self.traces);
        let in_front = self.traces.iter().filter(|open| self.front.contains(&open.id));
        let in_front: Vec<usize> = in_front.map(|open| open.run).collect();
        self.traces.iter_mut().for_each(|open| open.is_behind = !in_front.is_empty() && !in_front.contains(&open.run));
        let counted = pictured(self.traces.iter().filter(|open| !open.is_behind));
        let content = match self.places == RunPlaces::Recorded {
            true => counted.iter().map(|open| open.shown()).reduce(TimeRange::union),
            false => picture(&counted),
        };
        let never_empty = |range: TimeRange| TimeRange { end: range.end.max(range.start.saturating_add(1)), ..range };
        self.span = never_empty(span);
        self.content = never_empty(content.unwrap_or(span));
        self.beyond = beyond(&self.traces, self.content);
        self.traces.get(of).map_or(0, |open| open.offset.saturating_sub(offset_before))
    }
}

/// Those of some traces of which a picture is: the programs, if there are any.
pub fn pictured<'a>(of: impl Iterator<Item = &'a OpenTrace> + Clone) -> Vec<&'a OpenTrace> {
    let has_program = of.clone().any(OpenTrace::is_program);
    of.filter(|open| open.is_program() || !has_program).collect()
}

/// The time that a picture of these traces has, in session time: that of all; but where they lie so far apart on one
/// clock that hardly any would be seen, as recordings on demand do, that of the last one and of what is near it.
///
/// * `opened`: in the order in which they were asked for.
///
/// Cost: O(n) where all are near, O(n²) at most.
pub fn picture(opened: &[&OpenTrace]) -> Option<TimeRange> {
    let (last, others) = opened.split_last()?;
    let mut others = others.to_vec();
    let mut picture = last.shown();
    loop {
        let is_near = |other: &&OpenTrace| {
            let recorded = picture.dur().saturating_add(other.shown().dur());
            !other.shares_clock(last) || picture.union(other.shown()).dur() / FAR <= recorded
        };
        let (near, far): (Vec<&OpenTrace>, Vec<&OpenTrace>) = others.into_iter().partition(is_near);
        if near.is_empty() {
            return Some(picture);
        }
        picture = near.iter().map(|open| open.shown()).fold(picture, TimeRange::union);
        others = far;
    }
}

/// The traces in the order in which people look at them, by their indices: the run in front, what ran first, then
/// readings of devices, then memory; runs and ranks in order, whichever was read first. Cost: O(n log n).
pub fn in_order(traces: &[OpenTrace]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..traces.len()).collect();
    let key = |open: &OpenTrace| {
        let rank = open.trace.info.rank.unwrap_or(u32::MAX);
        (open.is_behind, open.trace.info.format.is_memory_only(), !open.is_program(), open.run, rank)
    };
    order.sort_by_key(|&trace| key(&traces[trace]));
    order
}

/// Whether what a trace recorded is identified by the name of its file: not where what else is open recorded memory or
/// readings alone.
pub fn is_named(traces: &[OpenTrace], trace: usize) -> bool {
    let is_program = traces.get(trace).is_some_and(OpenTrace::is_program);
    traces.len() > 1 && !(is_program && traces.iter().filter(|open| open.is_program()).count() == 1)
}

/// The title of a track for display, followed by its trace where that tells it apart: `stream 7, rank 1`.
pub fn track_title(traces: &[OpenTrace], trace: usize, title: &str) -> String {
    let title = display_name(title.trim());
    match traces.get(trace).filter(|_| is_named(traces, trace)) {
        Some(open) if title == display_name(&open.name) => title.into_owned(),
        Some(open) => format!("{title}, {}", display_name(&open.name)),
        None => title.into_owned(),
    }
}

/// Whether none of these has times, only numbers of events.
pub fn counts_events(traces: &[OpenTrace]) -> bool {
    traces.iter().all(|open| {
        let memories = &open.trace.memories;
        !memories.is_empty() && memories.iter().all(|history| !history.has_time) && open.trace.slices.is_empty()
    })
}

/// An identity with a number if others have it.
fn unlike<'a>(name: &Arc<str>, others: impl Iterator<Item = &'a Arc<str>>) -> Arc<str> {
    let others: Vec<&Arc<str>> = others.collect();
    let mut unlike = Arc::clone(name);
    let mut n = 1;
    while others.contains(&&unlike) {
        n += 1;
        unlike = format!("{name} ({n})").into();
    }
    unlike
}

/// A hash of what tells recordings of one program apart: when it began and ended, and how much was recorded.
/// Cost: O(1).
fn identity(trace: &Trace) -> String {
    let (info, span, slices) = (&trace.info, trace.span, &trace.slices);
    let n = |n: usize| n as u64;
    let first = slices.ts.iter().chain(&slices.end).take(64).map(|&ts| ts.cast_unsigned());
    let facts = [
        span.start.cast_unsigned(),
        span.end.cast_unsigned(),
        info.utc_offset_ns.unwrap_or_default().cast_unsigned(),
        u64::from(info.rank.unwrap_or(u32::MAX)),
        info.text_bytes,
        trace.import.read,
        n(slices.len()),
        n(trace.tracks.len()),
        n(trace.memories.iter().map(|history| history.allocations.len()).sum()),
    ];
    // FNV-1a, which is the same in every version.
    let bytes = facts.into_iter().chain(first).flat_map(u64::to_le_bytes);
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}
