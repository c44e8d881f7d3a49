//! The lines of the timeline, with their order and heights.

use std::collections::HashMap;

use super::settings::TimelineSettings;
use crate::analysis::threads::Part;
use crate::figures::text::display_name;
use crate::model::{ProcessId, Trace, TrackId, TrackKind};
use crate::session::{OpenTrace, track_title};

/// Height of one row of slices, in points.
pub const ROW_HEIGHT: f32 = 18.0;
/// Height of a group's own line.
pub const GROUP_HEIGHT: f32 = 22.0;
/// The same where its idle time is shown.
pub const STRIP_GROUP_HEIGHT: f32 = 32.0;
/// Height of a counter, in points.
pub const COUNTER_HEIGHT: f32 = 40.0;
/// Free space under each line.
pub const SPACING: f32 = 3.0;
/// A thread that launches at least one in so many of what the busiest launches is one of those that launch.
const LAUNCHER: u32 = 20;
/// How much higher rows are at most where there is room.
const MAX_STRETCH: f32 = 3.0;

/// What a line of the timeline shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// A whole trace; only if several are open.
    Trace,
    Process(ProcessId),
    Track(TrackId),
    /// The threads of a process that only wait, folded at first.
    Idle(ProcessId),
    /// Launched work of a device over time, by the index of its curve in [`super::queues::Queues`].
    Queue(ProcessId, u32),
}

/// One line of the timeline: a group's heading or a track with all its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Index into the open traces.
    pub trace: usize,
    pub kind: LineKind,
    /// Identifies it in the settings.
    pub key: String,
    /// The key of the group around it.
    pub parent: String,
    pub title: String,
    /// Nesting level; 0 for the outermost.
    pub indent: u8,
    /// Top, in points from the top of its list.
    pub y: f64,
    /// Without the space below.
    pub height: f32,
    /// How many rows of slices are shown.
    pub n_rows: u32,
    /// Height of one of them, in points.
    pub row_height: f32,
    /// Index of the group's heading above it, of [`TrackList::scrolled`].
    pub heading: Option<u32>,
    pub is_collapsed: bool,
    pub is_pinned: bool,
    /// Whether other tracks of the same thread or stream belong to it.
    pub has_parts: bool,
}

impl Line {
    /// One without height, rows or place.
    pub fn new(trace: usize, key: String, parent: String, title: String) -> Self {
        Self {
            trace,
            kind: LineKind::Trace,
            key,
            parent,
            title,
            indent: 0,
            y: 0.0,
            height: 0.0,
            n_rows: 0,
            row_height: ROW_HEIGHT,
            heading: None,
            is_collapsed: false,
            is_pinned: false,
            has_parts: false,
        }
    }

    /// Whether the idle time of devices is shown in it.
    pub fn has_strip(&self) -> bool {
        self.height == STRIP_GROUP_HEIGHT
    }

    /// Whether it has something to hide: tracks of its own, or all rows but the first.
    pub fn can_collapse(&self, trace: &Trace) -> bool {
        match self.kind {
            LineKind::Track(track) => self.has_parts || trace.rows(track).len() > 1,
            LineKind::Queue(..) => false,
            _ => true,
        }
    }

    fn has_fixed_height(&self) -> bool {
        self.is_heading() || matches!(self.kind, LineKind::Idle(_))
    }

    /// Whether it is the heading of a device, a process or a trace.
    pub fn is_heading(&self) -> bool {
        matches!(self.kind, LineKind::Trace | LineKind::Process(_))
    }
}

/// The lines of one frame: pinned ones, which do not scroll, and the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackList {
    pub pinned: Vec<Line>,
    pub scrolled: Vec<Line>,
    /// Keys of the lines that the user has hidden.
    pub hidden: Vec<String>,
    /// The line of each track, or of the collapsed group around it.
    line_of: HashMap<(usize, TrackId), LineIndex>,
    /// Tracks without a line, with the key of the collapsed line around each.
    folded: Vec<((usize, TrackId), String)>,
}

/// The index of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineIndex {
    pub is_pinned: bool,
    pub line: usize,
}

/// Height of all `lines` together, in points.
pub fn total_height(lines: &[Line]) -> f64 {
    lines.last().map_or(0.0, |line| line.y + f64::from(line.height + SPACING))
}

/// The lines that lie between `top` and `bottom`, in points.
pub fn visible_lines(lines: &[Line], top: f64, bottom: f64) -> std::ops::Range<usize> {
    let first = lines.partition_point(|line| line.y + f64::from(line.height + SPACING) <= top);
    let last = lines.partition_point(|line| line.y < bottom);
    first..last.max(first)
}

/// The settings key of a process, unique within its trace.
pub fn process_key(open: &OpenTrace, process: ProcessId) -> String {
    format!("{}/{}", open.id, open.trace.process(process).title())
}

/// The settings key of a track.
pub fn track_key(open: &OpenTrace, track: TrackId) -> String {
    let info = open.trace.track(track);
    format!("{}/{}/{}", process_key(open, info.process), info.name, info.tid)
}

/// The settings key of the idle threads of a process.
pub fn idle_key(process_key: &str) -> String {
    format!("{process_key}/idle threads")
}

impl TrackList {
    /// Lays out all lines. Cost: O(tracks); call it when tracks, settings or the filter change.
    ///
    /// * `parts`: those of each trace.
    pub fn build(traces: &[OpenTrace], parts: &[Vec<Part>], settings: &TimelineSettings, filter: &str) -> Self {
        let mut list = Builder { settings, parts, filter: filter.trim().to_lowercase(), out: Self::default() };
        let mut order: Vec<(usize, &OpenTrace)> = traces.iter().enumerate().collect();
        list.sort("", &mut order, |entry| &entry.1.id);
        for (trace, open) in order {
            list.add_trace(traces, trace, open);
        }
        let rank = |line: &Line| settings.pinned.iter().position(|key| *key == line.key);
        list.out.pinned.sort_by_key(rank);
        list.out.index();
        list.out
    }

    /// Sets the tops of all lines, and finds the line of each track.
    pub fn index(&mut self) {
        let mut by_key: HashMap<&str, LineIndex> = HashMap::new();
        for (is_pinned, lines) in [(true, &mut self.pinned), (false, &mut self.scrolled)] {
            let mut y = 0.0;
            let [mut of_trace, mut of_process] = [None; 2];
            for (line, entry) in lines.iter_mut().enumerate() {
                entry.y = y;
                y += f64::from(entry.height + SPACING);
                entry.heading = of_process.or(of_trace);
                match entry.kind {
                    LineKind::Trace => (entry.heading, of_trace, of_process) = (None, Some(line as u32), None),
                    LineKind::Process(_) => (entry.heading, of_process) = (of_trace, Some(line as u32)),
                    LineKind::Track(track) => {
                        self.line_of.insert((entry.trace, track), LineIndex { is_pinned, line });
                    }
                    LineKind::Idle(_) | LineKind::Queue(..) => {}
                }
            }
        }
        for (is_pinned, lines) in [(true, &self.pinned), (false, &self.scrolled)] {
            let is_folded = |(_, entry): &(usize, &Line)| entry.is_collapsed;
            by_key.extend(
                lines
                    .iter()
                    .enumerate()
                    .filter(is_folded)
                    .map(|(line, entry)| (entry.key.as_str(), LineIndex { is_pinned, line })),
            );
        }
        for (track, key) in &self.folded {
            if let Some(&line) = by_key.get(key.as_str()) {
                self.line_of.entry(*track).or_insert(line);
            }
        }
    }

    /// By how much rows can be higher so that the scrolled lines fill `height`, in points; at least 1.
    pub fn stretch_for(&self, height: f32) -> f32 {
        let flexible: f32 = self.scrolled.iter().filter(|line| !line.has_fixed_height()).map(|line| line.height).sum();
        let rest = f64::from(height) - total_height(&self.scrolled) - total_height(&self.pinned);
        (1.0 + rest.max(0.0) as f32 / flexible.max(1.0)).clamp(1.0, MAX_STRETCH)
    }

    /// Makes rows and counters higher.
    pub fn stretch(&mut self, factor: f32) {
        for line in self.pinned.iter_mut().chain(&mut self.scrolled).filter(|line| !line.has_fixed_height()) {
            line.row_height = (line.row_height * factor).floor();
            line.height = match line.n_rows {
                0 => (line.height * factor).floor(),
                n => line.row_height * n as f32,
            };
        }
        self.index();
    }

    /// The line that shows `track`.
    pub fn line_of(&self, trace: usize, track: TrackId) -> Option<LineIndex> {
        self.line_of.get(&(trace, track)).copied()
    }

    /// The line at an index.
    pub fn line(&self, at: LineIndex) -> Option<&Line> {
        if at.is_pinned { self.pinned.get(at.line) } else { self.scrolled.get(at.line) }
    }
}

struct Builder<'a> {
    settings: &'a TimelineSettings,
    parts: &'a [Vec<Part>],
    /// In lower case.
    filter: String,
    out: TrackList,
}

/// A track with the other tracks of its thread or stream.
struct Unit {
    head: (TrackId, String),
    rest: Vec<(TrackId, String)>,
}

impl Builder<'_> {
    /// Puts members of the group `parent` in the user's order.
    fn sort<T>(&self, parent: &str, members: &mut [T], key: impl Fn(&T) -> &str) {
        if let Some(order) = self.settings.order.get(parent) {
            let rank: HashMap<&str, usize> = order.iter().enumerate().map(|(i, key)| (key.as_str(), i)).collect();
            members.sort_by_key(|member| rank.get(key(member)).copied().unwrap_or(usize::MAX));
        }
    }

    fn part(&self, trace: usize, track: TrackId) -> Part {
        self.parts.get(trace).and_then(|parts| parts.get(track.0 as usize)).copied().unwrap_or_default()
    }

    fn matches(&self, title: &str) -> bool {
        self.filter.is_empty() || title.to_lowercase().contains(&self.filter)
    }

    fn is_collapsed(&self, key: &str) -> bool {
        self.filter.is_empty() && self.settings.collapsed.contains(key)
    }

    fn is_hidden(&mut self, key: &str) -> bool {
        let is_hidden = self.settings.hidden.contains(key);
        if is_hidden {
            self.out.hidden.push(key.to_owned());
        }
        is_hidden
    }

    fn add_trace(&mut self, traces: &[OpenTrace], trace: usize, open: &OpenTrace) {
        let (data, key, has_line) = (&*open.trace, &*open.id, traces.len() > 1);
        if has_line && self.is_hidden(key) {
            return;
        }
        let file = data.info.title();
        let title = display_name(&file);
        let title = data.info.rank.map_or_else(|| title.to_string(), |rank| format!("Rank {rank}: {title}"));
        let indent = u8::from(has_line);
        let is_collapsed = has_line && self.is_collapsed(key);
        let is_match = has_line && !self.filter.is_empty() && self.matches(&title);
        let at = self.out.scrolled.len();
        if has_line {
            // While its members are on show, each of them has a strip.
            let has_strip = is_collapsed && data.processes.iter().any(|process| process.device.is_some());
            self.push_group(
                trace,
                LineKind::Trace,
                (key.to_owned(), String::new()),
                title,
                (0, is_collapsed, has_strip),
            );
        }
        for (process, process_key, tracks) in self.processes(trace, open) {
            let title = display_name(&data.process(process).title()).into_owned();
            let qualified_title = track_title(traces, trace, &title);
            let folded_in = is_collapsed.then(|| key.to_owned());
            let group =
                Group { trace, parent: key, key: process_key, title, qualified_title, indent, folded_in, is_match };
            self.add_process(open, process, &tracks, &group);
        }
        let has_members = self.out.scrolled.len() > at + 1 || is_collapsed;
        if has_line && !has_members && !self.filter.is_empty() {
            self.out.scrolled.truncate(at);
        }
    }

    /// The processes that have anything on their tracks: as recorded, but of programs those first that launch work of
    /// devices.
    fn processes(&self, trace: usize, open: &OpenTrace) -> Vec<(ProcessId, String, Vec<TrackId>)> {
        let data = &*open.trace;
        let mut by_process: Vec<Vec<TrackId>> = vec![Vec::new(); data.processes.len()];
        let mut n_launches = vec![0_u32; data.processes.len()];
        for (track, info) in data.tracks.iter().enumerate() {
            let (track, process) = (TrackId(track as u32), info.process.0 as usize);
            let has_counter = data.counters.binary_search_by_key(&track, |counter| counter.track).is_ok();
            let is_empty = data.rows(track).is_empty() && !has_counter && data.instants.of_track(track).is_empty();
            if let Some(tracks) = by_process.get_mut(process).filter(|_| !is_empty) {
                tracks.push(track);
                n_launches[process] += self.part(trace, track).n_launches;
            }
        }
        let mut processes: Vec<(ProcessId, String, Vec<TrackId>)> = (0..)
            .map(ProcessId)
            .zip(by_process)
            .filter(|(_, tracks)| !tracks.is_empty())
            .map(|(process, tracks)| (process, process_key(open, process), tracks))
            .collect();
        if n_launches.iter().any(|&n| n > 0) {
            let is_device = |process: ProcessId| data.process(process).device.is_some();
            processes.sort_by_key(|entry| !is_device(entry.0) && n_launches[entry.0.0 as usize] == 0);
        }
        self.sort(&open.id, &mut processes, |entry| &entry.1);
        processes
    }

    fn add_process(&mut self, open: &OpenTrace, process: ProcessId, tracks: &[TrackId], group: &Group<'_>) {
        if self.is_hidden(&group.key) {
            return;
        }
        let is_match = group.is_match || (!self.filter.is_empty() && self.matches(&group.title));
        let is_collapsed = self.is_collapsed(&group.key);
        let at = self.out.scrolled.len();
        let (idle, busy) = self.units(open, tracks, group);
        if group.folded_in.is_none() {
            let keys = (group.key.clone(), group.parent.to_owned());
            let is_stream = |unit: &Unit| open.trace.track(unit.head.0).kind == TrackKind::Stream;
            let has_strip = open.trace.process(process).device.is_some() && busy.iter().any(is_stream);
            self.push_group(
                group.trace,
                LineKind::Process(process),
                keys,
                group.title.clone(),
                (group.indent, is_collapsed, has_strip),
            );
        }
        let mut folded_in = group.folded_in.clone().or_else(|| is_collapsed.then(|| group.key.clone()));
        for unit in busy {
            self.add_unit(open, unit, group, (folded_in.as_deref(), is_match, group.indent + 1));
        }
        if !idle.is_empty() {
            let key = idle_key(&group.key);
            let is_expanded = self.settings.expanded.contains(&key);
            if folded_in.is_none() && !self.is_hidden(&key) {
                let keys = (key.clone(), group.key.clone());
                let title = format!("{} idle threads", idle.len());
                let kind = LineKind::Idle(process);
                self.push_group(group.trace, kind, keys, title, (group.indent + 1, !is_expanded, false));
            }
            folded_in = folded_in.or_else(|| (!is_expanded).then_some(key));
            for unit in idle {
                self.add_unit(open, unit, group, (folded_in.as_deref(), is_match, group.indent + 2));
            }
        }
        let is_empty = self.out.scrolled.len() == at + 1 && group.folded_in.is_none() && !is_collapsed;
        if is_empty && !self.filter.is_empty() {
            self.out.scrolled.truncate(at);
        }
    }

    /// The threads that only wait, where there are several and nothing is searched for; and all other tracks: of a
    /// device its streams first, of threads those that launch work of devices, among them those that run the steps.
    fn units(&self, open: &OpenTrace, tracks: &[TrackId], group: &Group<'_>) -> (Vec<Unit>, Vec<Unit>) {
        let mut units: Vec<Unit> = Vec::new();
        let mut rest: Vec<(TrackId, (TrackId, String))> = Vec::new();
        for track in tracks.iter().copied() {
            let keyed = (track, track_key(open, track));
            match self.part(group.trace, track).of.filter(|of| tracks.contains(of)) {
                Some(of) => rest.push((of, keyed)),
                None => units.push(Unit { head: keyed, rest: Vec::new() }),
            }
        }
        for (of, keyed) in rest {
            if let Some(unit) = units.iter_mut().find(|unit| unit.head.0 == of) {
                unit.rest.push(keyed);
            }
        }
        let n_launches = |unit: &Unit| self.part(group.trace, unit.head.0).n_launches;
        let most = units.iter().map(n_launches).max().unwrap_or(0);
        units.sort_by_key(|unit| {
            let is_launcher = most > 0 && n_launches(unit) * LAUNCHER >= most;
            let part = self.part(group.trace, unit.head.0);
            let track = open.trace.track(unit.head.0);
            // Recorders put threads whose process they do not know in that of a device.
            let is_stray = track.kind == TrackKind::Thread && open.trace.process(track.process).device.is_some();
            (is_stray, track.kind, part.is_idle, !is_launcher, part.role)
        });
        self.sort(&group.key, &mut units, |unit| &unit.head.1);
        let is_idle = |unit: &Unit| self.part(group.trace, unit.head.0).is_idle;
        if self.filter.is_empty() && units.iter().filter(|unit| is_idle(unit)).count() > 1 {
            units.into_iter().partition(is_idle)
        } else {
            (Vec::new(), units)
        }
    }

    /// Adds a track, and below it the others of its thread or stream, which are hidden along with it.
    ///
    /// * `place`: the key of the collapsed line around it, whether a group around it matches the filter, and its
    ///   nesting level.
    fn add_unit(&mut self, open: &OpenTrace, unit: Unit, group: &Group<'_>, place: (Option<&str>, bool, u8)) {
        let (folded_in, is_match, indent) = place;
        let Unit { head, rest } = unit;
        if self.is_hidden(&head.1) {
            return;
        }
        let title = |track: TrackId| display_name(&open.trace.track(track).title()).into_owned();
        let head_title = title(head.0);
        let is_match = is_match || rest.iter().any(|part| self.matches(&title(part.0)));
        let (head_key, has_parts) = (head.1.clone(), !rest.is_empty());
        let of_head = (group.key.as_str(), indent, has_parts);
        let is_shown = self.add_track(open, head, group, (folded_in, is_match, head_title.clone()), of_head);
        let folded_in = match folded_in {
            None if is_shown && self.is_collapsed(&head_key) => Some(head_key.as_str()),
            other => other,
        };
        for part in rest {
            let own = title(part.0);
            let short = own.strip_prefix(&head_title).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&own);
            // Outside of its group it needs its whole name.
            let short = if self.settings.pinned.contains(&part.1) { &own } else { short };
            let of_part =
                if is_shown { (head_key.as_str(), indent + 1, false) } else { (group.key.as_str(), indent, false) };
            self.add_track(open, part, group, (folded_in, is_match, short.to_owned()), of_part);
        }
    }

    /// Adds a line unless the track is folded, hidden or filtered out; whether it did, among those that scroll.
    fn add_track(
        &mut self,
        open: &OpenTrace,
        (track, key): (TrackId, String),
        group: &Group<'_>,
        (folded_in, is_match, title): (Option<&str>, bool, String),
        (parent, indent, has_parts): (&str, u8, bool),
    ) -> bool {
        let is_pinned = self.settings.pinned.contains(&key);
        if !(is_match || self.matches(&title)) || self.is_hidden(&key) {
            return false;
        }
        if let Some(around) = folded_in.filter(|_| !is_pinned) {
            self.out.folded.push(((group.trace, track), around.to_owned()));
            return false;
        }
        let (data, trace) = (&*open.trace, group.trace);
        let is_collapsed = self.is_collapsed(&key);
        let n_rows = data.rows(track).len() as u32;
        let n_rows = if is_collapsed { n_rows.min(1) } else { n_rows };
        let is_counter = data.track(track).kind == TrackKind::Counter;
        let height = if is_counter { COUNTER_HEIGHT } else { ROW_HEIGHT * n_rows.max(1) as f32 };
        let title = if is_pinned { format!("{title}, {}", group.qualified_title) } else { title };
        let indent = if is_pinned { 0 } else { indent };
        let parent = parent.to_owned();
        let kind = LineKind::Track(track);
        let line = Line { kind, indent, height, n_rows, is_pinned, has_parts, ..Line::new(trace, key, parent, title) };
        let line = Line { is_collapsed, ..line };
        if is_pinned {
            self.out.pinned.push(line);
        } else {
            self.out.scrolled.push(line);
        }
        !is_pinned
    }

    fn push_group(
        &mut self,
        trace: usize,
        kind: LineKind,
        (key, parent): (String, String),
        title: String,
        (indent, is_collapsed, has_strip): (u8, bool, bool),
    ) {
        let height = match kind {
            LineKind::Idle(_) => ROW_HEIGHT,
            _ if has_strip => STRIP_GROUP_HEIGHT,
            _ => GROUP_HEIGHT,
        };
        self.out.scrolled.push(Line { kind, indent, height, is_collapsed, ..Line::new(trace, key, parent, title) });
    }
}

/// The group whose members are being added.
struct Group<'a> {
    trace: usize,
    parent: &'a str,
    key: String,
    title: String,
    /// With the trace where several are open, for tracks shown outside of the group.
    qualified_title: String,
    indent: u8,
    /// The key of the collapsed group around it.
    folded_in: Option<String>,
    /// Whether a group around it matches the filter: then all its members are shown.
    is_match: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    fn open() -> Vec<OpenTrace> {
        let slices = [
            ("main", SliceKind::Operator, "outer", 0, 100),
            ("main", SliceKind::Operator, "inner", 10, 20),
            ("stream 7", SliceKind::Kernel, "gemm", 30, 60),
            ("stream 20", SliceKind::Kernel, "copy", 30, 60),
        ];
        vec![OpenTrace::new(TraceBuilder::from_slices(&slices).finish(), 0)]
    }

    fn titles(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.title.as_str()).collect()
    }

    fn key_of<'a>(list: &'a TrackList, title: &str) -> &'a str {
        &list.scrolled.iter().find(|line| line.title == title).unwrap().key
    }

    #[test]
    fn groups_collapse_and_tracks_are_pinned_hidden_and_filtered() {
        let traces = open();
        let mut settings = TimelineSettings::default();
        let all = TrackList::build(&traces, &[], &settings, "");
        assert_eq!(titles(&all.scrolled), ["python", "main", "GPU 0", "stream 7", "stream 20"]);
        assert_eq!(all.scrolled[1].height, 2.0 * ROW_HEIGHT);

        let filtered = TrackList::build(&traces, &[], &settings, "Stream 7");
        assert_eq!(titles(&filtered.scrolled), ["GPU 0", "stream 7"]);
        let filtered = TrackList::build(&traces, &[], &settings, "gpu");
        assert_eq!(titles(&filtered.scrolled), ["GPU 0", "stream 7", "stream 20"]);

        settings.collapsed.insert(key_of(&all, "GPU 0").to_owned());
        settings.collapsed.insert(key_of(&all, "main").to_owned());
        settings.pinned.push(key_of(&all, "stream 20").to_owned());
        let list = TrackList::build(&traces, &[], &settings, "");
        assert_eq!(titles(&list.scrolled), ["python", "main", "GPU 0"]);
        assert_eq!(titles(&list.pinned), ["stream 20, GPU 0"]);
        assert_eq!(list.scrolled[1].height, ROW_HEIGHT);
        assert_eq!(list.line(list.line_of(0, TrackId(1)).unwrap()).unwrap().title, "GPU 0");
        assert_eq!(list.line(list.line_of(0, TrackId(2)).unwrap()).unwrap().title, "stream 20, GPU 0");

        settings.hidden.insert(key_of(&all, "python").to_owned());
        let list = TrackList::build(&traces, &[], &settings, "");
        assert_eq!((titles(&list.scrolled), list.hidden.len()), (vec!["GPU 0"], 1));
    }

    #[test]
    fn a_hidden_stream_takes_its_annotations_along() {
        let traces = open();
        let mut parts = vec![vec![Part::default(); traces[0].trace.tracks.len()]];
        parts[0][2].of = Some(TrackId(1));
        let mut settings = TimelineSettings::default();
        let all = TrackList::build(&traces, &parts, &settings, "");
        assert_eq!(titles(&all.scrolled), ["python", "main", "GPU 0", "stream 7", "stream 20"]);
        settings.hidden.insert(key_of(&all, "stream 7").to_owned());
        let list = TrackList::build(&traces, &parts, &settings, "");
        assert_eq!((titles(&list.scrolled), list.hidden.len()), (vec!["python", "main", "GPU 0"], 1));
    }

    #[test]
    fn streams_of_a_device_come_before_threads_that_were_recorded_in_its_process() {
        let mut traces = open();
        let trace = std::sync::Arc::get_mut(&mut traces[0].trace).unwrap();
        trace.tracks[0].process = trace.tracks[1].process;
        let list = TrackList::build(&traces, &[], &TimelineSettings::default(), "");
        assert_eq!(titles(&list.scrolled), ["GPU 0", "stream 7", "stream 20", "main"]);
    }

    #[test]
    fn the_users_order_comes_first() {
        let traces = open();
        let mut settings = TimelineSettings::default();
        let all = TrackList::build(&traces, &[], &settings, "");
        let line = all.scrolled.iter().find(|line| line.title == "stream 20").unwrap();
        settings.order.insert(line.parent.clone(), vec![line.key.clone()]);
        let list = TrackList::build(&traces, &[], &settings, "");
        assert_eq!(titles(&list.scrolled), ["python", "main", "GPU 0", "stream 20", "stream 7"]);
    }

    #[test]
    fn only_lines_on_screen_are_visible() {
        let list = TrackList::build(&open(), &[], &TimelineSettings::default(), "");
        assert_eq!(visible_lines(&list.scrolled, 0.0, 1e9), 0..5);
        let second = list.scrolled[1].y;
        assert_eq!(visible_lines(&list.scrolled, second, second + 1.0), 1..2);
        assert!(visible_lines(&list.scrolled, 1e9, 2e9).is_empty());
        assert!(total_height(&list.scrolled) > 5.0 * 18.0);
    }
}
