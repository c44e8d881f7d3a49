//! The lines of the timeline, with their order and heights.

use std::collections::HashMap;

use super::settings::TimelineSettings;
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

/// What a line of the timeline shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// A whole trace; only if several are open.
    Trace,
    Process(ProcessId),
    Track(TrackId),
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
    pub is_collapsed: bool,
    pub is_pinned: bool,
}

impl Line {
    /// Whether the idle time of devices is shown in it.
    pub fn has_strip(&self) -> bool {
        self.height == STRIP_GROUP_HEIGHT
    }

    /// Whether it has more than one row to hide.
    pub fn can_collapse(&self, trace: &Trace) -> bool {
        match self.kind {
            LineKind::Track(track) => trace.rows(track).len() > 1,
            LineKind::Queue(..) => false,
            _ => true,
        }
    }
}

/// The lines of one frame: pinned ones, which do not scroll, and the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackList {
    pub pinned: Vec<Line>,
    pub scrolled: Vec<Line>,
    /// How many lines the user has hidden.
    pub n_hidden: usize,
    /// The line of each track, or of the collapsed group around it.
    line_of: HashMap<(usize, TrackId), LineIndex>,
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
    format!("{}/{}", open.key, open.trace.process(process).title())
}

/// The settings key of a track.
pub fn track_key(open: &OpenTrace, track: TrackId) -> String {
    let info = open.trace.track(track);
    format!("{}/{}/{}", process_key(open, info.process), info.name, info.tid)
}

impl TrackList {
    /// Lays out all lines. Cost: O(tracks); call it when tracks, settings or the filter change.
    pub fn build(traces: &[OpenTrace], settings: &TimelineSettings, filter: &str) -> Self {
        let mut list = Builder { settings, filter: filter.trim().to_lowercase(), out: Self::default() };
        let mut order: Vec<(usize, &OpenTrace)> = traces.iter().enumerate().collect();
        list.sort("", &mut order, |entry| &entry.1.key);
        for (trace, open) in order {
            list.add_trace(traces, trace, open);
        }
        let rank = |line: &Line| settings.pinned.iter().position(|key| *key == line.key);
        list.out.pinned.sort_by_key(rank);
        list.out.index(traces);
        list.out
    }

    /// Sets the tops of all lines, and finds the line of each track.
    pub fn index(&mut self, traces: &[OpenTrace]) {
        let mut folded: HashMap<(usize, Option<ProcessId>), LineIndex> = HashMap::new();
        for (is_pinned, lines) in [(true, &mut self.pinned), (false, &mut self.scrolled)] {
            let mut y = 0.0;
            for (line, entry) in lines.iter_mut().enumerate() {
                entry.y = y;
                y += f64::from(entry.height + SPACING);
                let at = LineIndex { is_pinned, line };
                match entry.kind {
                    LineKind::Track(track) => drop(self.line_of.insert((entry.trace, track), at)),
                    _ if !entry.is_collapsed => {}
                    LineKind::Queue(..) => {}
                    LineKind::Trace => drop(folded.insert((entry.trace, None), at)),
                    LineKind::Process(process) => drop(folded.insert((entry.trace, Some(process)), at)),
                }
            }
        }
        for (trace, open) in traces.iter().enumerate().filter(|_| !folded.is_empty()) {
            for (track, info) in (0..).map(TrackId).zip(&open.trace.tracks) {
                let group = folded.get(&(trace, Some(info.process))).or_else(|| folded.get(&(trace, None)));
                if let Some(&group) = group {
                    self.line_of.entry((trace, track)).or_insert(group);
                }
            }
        }
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
    /// In lower case.
    filter: String,
    out: TrackList,
}

impl Builder<'_> {
    /// Puts members of the group `parent` in the user's order.
    fn sort<T>(&self, parent: &str, members: &mut [T], key: impl Fn(&T) -> &str) {
        if let Some(order) = self.settings.order.get(parent) {
            let rank: HashMap<&str, usize> = order.iter().enumerate().map(|(i, key)| (key.as_str(), i)).collect();
            members.sort_by_key(|member| rank.get(key(member)).copied().unwrap_or(usize::MAX));
        }
    }

    fn matches(&self, title: &str) -> bool {
        self.filter.is_empty() || title.to_lowercase().contains(&self.filter)
    }

    fn is_collapsed(&self, key: &str) -> bool {
        self.filter.is_empty() && self.settings.collapsed.contains(key)
    }

    fn is_hidden(&mut self, key: &str) -> bool {
        let is_hidden = self.settings.hidden.contains(key);
        self.out.n_hidden += usize::from(is_hidden);
        is_hidden
    }

    fn add_trace(&mut self, traces: &[OpenTrace], trace: usize, open: &OpenTrace) {
        let (data, key, has_line) = (&*open.trace, &*open.key, traces.len() > 1);
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
        let mut by_process: Vec<Vec<TrackId>> = vec![Vec::new(); data.processes.len()];
        for (track, info) in data.tracks.iter().enumerate() {
            let track = TrackId(track as u32);
            let has_counter = data.counters.binary_search_by_key(&track, |counter| counter.track).is_ok();
            let is_empty = data.rows(track).is_empty() && !has_counter && data.instants.of_track(track).is_empty();
            if let Some(tracks) = by_process.get_mut(info.process.0 as usize).filter(|_| !is_empty) {
                tracks.push(track);
            }
        }
        let mut processes: Vec<(ProcessId, String, Vec<TrackId>)> = (0..)
            .map(ProcessId)
            .zip(by_process)
            .filter(|(_, tracks)| !tracks.is_empty())
            .map(|(process, tracks)| (process, process_key(open, process), tracks))
            .collect();
        self.sort(key, &mut processes, |entry| &entry.1);
        for (process, process_key, tracks) in processes {
            let title = display_name(&data.process(process).title()).into_owned();
            let qualified_title = track_title(traces, trace, &title);
            let is_folded = is_collapsed;
            let group =
                Group { trace, parent: key, key: process_key, title, qualified_title, indent, is_folded, is_match };
            self.add_process(open, process, tracks, &group);
        }
        let has_members = self.out.scrolled.len() > at + 1 || is_collapsed;
        if has_line && !has_members && !self.filter.is_empty() {
            self.out.scrolled.truncate(at);
        }
    }

    fn add_process(&mut self, open: &OpenTrace, process: ProcessId, tracks: Vec<TrackId>, group: &Group<'_>) {
        if self.is_hidden(&group.key) {
            return;
        }
        let is_match = group.is_match || (!self.filter.is_empty() && self.matches(&group.title));
        let is_collapsed = self.is_collapsed(&group.key);
        let at = self.out.scrolled.len();
        let mut tracks: Vec<(TrackId, String)> =
            tracks.into_iter().map(|track| (track, track_key(open, track))).collect();
        if !group.is_folded {
            let keys = (group.key.clone(), group.parent.to_owned());
            let is_stream = |(track, _): &(TrackId, String)| open.trace.track(*track).kind == TrackKind::Stream;
            let has_strip = open.trace.process(process).device.is_some() && tracks.iter().any(is_stream);
            self.push_group(
                group.trace,
                LineKind::Process(process),
                keys,
                group.title.clone(),
                (group.indent, is_collapsed, has_strip),
            );
        }
        let is_folded = group.is_folded || is_collapsed;
        self.sort(&group.key, &mut tracks, |entry| &entry.1);
        for (track, key) in tracks {
            let title = display_name(&open.trace.track(track).title()).into_owned();
            let is_pinned = self.settings.pinned.contains(&key);
            if (is_folded && !is_pinned) || !(is_match || self.matches(&title)) || self.is_hidden(&key) {
                continue;
            }
            self.push_track(&open.trace, track, (key, group), title, is_pinned);
        }
        if self.out.scrolled.len() == at + 1 && !is_folded && !self.filter.is_empty() {
            self.out.scrolled.truncate(at);
        }
    }

    fn push_group(
        &mut self,
        trace: usize,
        kind: LineKind,
        (key, parent): (String, String),
        title: String,
        (indent, is_collapsed, has_strip): (u8, bool, bool),
    ) {
        self.out.scrolled.push(Line {
            trace,
            kind,
            key,
            parent,
            title,
            indent,
            y: 0.0,
            height: if has_strip { STRIP_GROUP_HEIGHT } else { GROUP_HEIGHT },
            n_rows: 0,
            is_collapsed,
            is_pinned: false,
        });
    }

    fn push_track(
        &mut self,
        data: &Trace,
        track: TrackId,
        (key, group): (String, &Group<'_>),
        title: String,
        is_pinned: bool,
    ) {
        let is_collapsed = self.is_collapsed(&key);
        let n_rows = data.rows(track).len() as u32;
        let n_rows = if is_collapsed { n_rows.min(1) } else { n_rows };
        let is_counter = data.track(track).kind == TrackKind::Counter;
        let height = if is_counter { COUNTER_HEIGHT } else { ROW_HEIGHT * n_rows.max(1) as f32 };
        let parent = group.key.clone();
        // Outside of its group, the title of a track includes it.
        let title = if is_pinned { format!("{title}, {}", group.qualified_title) } else { title };
        let indent = if is_pinned { 0 } else { group.indent + 1 };
        let kind = LineKind::Track(track);
        let trace = group.trace;
        let line = Line { trace, kind, key, parent, title, indent, y: 0.0, height, n_rows, is_collapsed, is_pinned };
        if is_pinned { self.out.pinned.push(line) } else { self.out.scrolled.push(line) }
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
    /// Whether a group around it is collapsed.
    is_folded: bool,
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
        let all = TrackList::build(&traces, &settings, "");
        assert_eq!(titles(&all.scrolled), ["python", "main", "GPU 0", "stream 7", "stream 20"]);
        assert_eq!(all.scrolled[1].height, 2.0 * ROW_HEIGHT);

        let filtered = TrackList::build(&traces, &settings, "Stream 7");
        assert_eq!(titles(&filtered.scrolled), ["GPU 0", "stream 7"]);
        let filtered = TrackList::build(&traces, &settings, "gpu");
        assert_eq!(titles(&filtered.scrolled), ["GPU 0", "stream 7", "stream 20"]);

        settings.collapsed.insert(key_of(&all, "GPU 0").to_owned());
        settings.collapsed.insert(key_of(&all, "main").to_owned());
        settings.pinned.push(key_of(&all, "stream 20").to_owned());
        let list = TrackList::build(&traces, &settings, "");
        assert_eq!(titles(&list.scrolled), ["python", "main", "GPU 0"]);
        assert_eq!(titles(&list.pinned), ["stream 20, GPU 0"]);
        assert_eq!(list.scrolled[1].height, ROW_HEIGHT);
        assert_eq!(list.line(list.line_of(0, TrackId(1)).unwrap()).unwrap().title, "GPU 0");
        assert_eq!(list.line(list.line_of(0, TrackId(2)).unwrap()).unwrap().title, "stream 20, GPU 0");

        settings.hidden.insert(key_of(&all, "python").to_owned());
        let list = TrackList::build(&traces, &settings, "");
        assert_eq!((titles(&list.scrolled), list.n_hidden), (vec!["GPU 0"], 1));
    }

    #[test]
    fn the_users_order_comes_first() {
        let traces = open();
        let mut settings = TimelineSettings::default();
        let all = TrackList::build(&traces, &settings, "");
        let line = all.scrolled.iter().find(|line| line.title == "stream 20").unwrap();
        settings.order.insert(line.parent.clone(), vec![line.key.clone()]);
        let list = TrackList::build(&traces, &settings, "");
        assert_eq!(titles(&list.scrolled), ["python", "main", "GPU 0", "stream 20", "stream 7"]);
    }

    #[test]
    fn only_lines_on_screen_are_visible() {
        let list = TrackList::build(&open(), &TimelineSettings::default(), "");
        assert_eq!(visible_lines(&list.scrolled, 0.0, 1e9), 0..5);
        let second = list.scrolled[1].y;
        assert_eq!(visible_lines(&list.scrolled, second, second + 1.0), 1..2);
        assert!(visible_lines(&list.scrolled, 1e9, 2e9).is_empty());
        assert!(total_height(&list.scrolled) > 5.0 * 18.0);
    }
}
