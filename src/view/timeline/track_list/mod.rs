//! The lines of the timeline, with their order and heights.

mod build;
mod fold;
pub mod rows;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

pub use self::fold::{Fold, fold_keys};
pub use self::rows::RowFold;

use super::settings::TimelineSettings;
use crate::analysis::threads::Part;
use crate::model::{ProcessId, Trace, TrackId};
use crate::session::OpenTrace;
use crate::view::OffScreen;

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
/// How much higher rows are at most where there is room.
const MAX_STRETCH: f32 = 3.0;

/// What a line of the timeline shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// A whole trace; only if several are open.
    Trace,
    Process(ProcessId),
    Track(TrackId),
    /// Tracks of a process that are folded at first.
    Fold(ProcessId, Fold),
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
    /// The same where rows are not made higher; 0 of headings, which never are.
    pub natural_height: f32,
    /// How many rows of slices are shown, and the first of them.
    pub n_rows: u32,
    pub first_row: u32,
    /// Rows of a deep thread that are folded at first: said below its name.
    pub row_fold: Option<RowFold>,
    /// Height of one of them, in points.
    pub row_height: f32,
    /// Index of the group's heading above it, of [`TrackList::scrolled`].
    pub heading: Option<u32>,
    pub is_collapsed: bool,
    pub is_pinned: bool,
    /// Whether other tracks of the same thread or stream belong to it.
    pub has_parts: bool,
}

impl TrackList {
    /// What the user keeps off the screen.
    pub fn off_screen(&self) -> OffScreen {
        let collapsed = if self.n_collapsed == 0 { &[][..] } else { &self.collapsed };
        OffScreen {
            n_hidden: self.n_hidden,
            n_collapsed: self.n_collapsed,
            n_groups: collapsed.len(),
            titles: collapsed.iter().take(OffScreen::MAX_LISTED).map(|[_, title]| title.clone()).collect(),
        }
    }
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
            natural_height: 0.0,
            n_rows: 0,
            first_row: 0,
            row_fold: None,
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
        self.is_heading() || self.is_fold()
    }

    /// Whether it stands for tracks that are folded at first.
    pub fn is_fold(&self) -> bool {
        matches!(self.kind, LineKind::Fold(..))
    }

    /// The height of its rows together, with room for its name and what is said of those that are folded.
    pub fn height_of_rows(&self) -> f32 {
        self.row_height * self.n_rows.max(1 + u32::from(self.row_fold.is_some())) as f32
    }

    /// The rows that are shown.
    pub fn rows(&self) -> std::ops::Range<u32> {
        self.first_row..self.first_row + self.n_rows
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
    /// Keys of what the user has hidden.
    pub hidden: Vec<String>,
    /// Keys and titles of what the user has collapsed around tracks.
    pub collapsed: Vec<[String; 2]>,
    /// How many tracks are not on show because of that.
    pub n_hidden: usize,
    pub n_collapsed: usize,
    /// Keys of the processes that are collapsed at first, unfolded or not.
    pub folded_first: HashSet<String>,
    /// Processes that share a line with others of their trace at first, unfolded or not.
    pub share_a_line: HashSet<(usize, ProcessId)>,
    /// The line of each track, or of the collapsed group around it.
    line_of: HashMap<(usize, TrackId), LineIndex>,
    /// Tracks without a line, with the key of the collapsed line around each.
    folded: Vec<((usize, TrackId), String)>,
    /// The tracks that are folded at first, with the key of what they are folded in.
    fold_of: HashMap<(usize, TrackId), String>,
}

/// Heights of the lines of a list, in points.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heights {
    all: f64,
    flexible: f32,
}

impl Heights {
    /// By how much rows can be higher so that the lines fill `height`, in points; at least 1.
    pub fn stretch_for(self, height: f32) -> f32 {
        let rest = f64::from(height) - self.all;
        (1.0 + rest.max(0.0) as f32 / self.flexible.max(1.0)).clamp(1.0, MAX_STRETCH)
    }
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

impl TrackList {
    /// Lays out all lines. Cost: O(tracks); call it when tracks, settings or the filter change.
    ///
    /// * `parts`: those of each trace.
    pub fn build(traces: &[OpenTrace], parts: &[Vec<Part>], settings: &TimelineSettings, filter: &str) -> Self {
        let mut list = build::lines(traces, parts, settings, filter);
        list.index();
        list
    }

    /// Sets the tops of all lines, and finds their headings and the line of each track.
    pub fn index(&mut self) {
        self.place();
        let mut by_key: HashMap<&str, LineIndex> = HashMap::new();
        for (is_pinned, lines) in [(true, &mut self.pinned), (false, &mut self.scrolled)] {
            let [mut of_trace, mut of_process] = [None; 2];
            for (line, entry) in lines.iter_mut().enumerate() {
                entry.heading = of_process.or(of_trace);
                match entry.kind {
                    LineKind::Trace => (entry.heading, of_trace, of_process) = (None, Some(line as u32), None),
                    LineKind::Process(_) => (entry.heading, of_process) = (of_trace, Some(line as u32)),
                    LineKind::Track(track) => {
                        self.line_of.insert((entry.trace, track), LineIndex { is_pinned, line });
                    }
                    LineKind::Fold(..) | LineKind::Queue(..) => {}
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

    /// Sets the tops of all lines.
    fn place(&mut self) {
        for lines in [&mut self.pinned, &mut self.scrolled] {
            let mut y = 0.0;
            for line in lines {
                line.y = y;
                y += f64::from(line.height + SPACING);
            }
        }
    }

    /// The heights of all lines together, and of those that can be made higher among the scrolled ones, in points.
    pub fn heights(&self) -> Heights {
        let flexible = self.scrolled.iter().filter(|line| !line.has_fixed_height()).map(|line| line.height).sum();
        Heights { all: total_height(&self.scrolled) + total_height(&self.pinned), flexible }
    }

    /// Makes rows and counters `factor` times as high as they are by nature.
    pub fn stretch(&mut self, factor: f32) {
        for line in self.pinned.iter_mut().chain(&mut self.scrolled).filter(|line| !line.has_fixed_height()) {
            line.row_height = (ROW_HEIGHT * factor).floor();
            line.height = match line.n_rows {
                0 => (line.natural_height * factor).floor(),
                _ => line.height_of_rows(),
            };
        }
        self.place();
    }

    /// The line that shows `track`.
    pub fn line_of(&self, trace: usize, track: TrackId) -> Option<LineIndex> {
        self.line_of.get(&(trace, track)).copied()
    }

    /// The key of what a track is folded in at first, unfolded or not.
    pub fn fold_of(&self, trace: usize, track: TrackId) -> Option<&str> {
        self.fold_of.get(&(trace, track)).map(String::as_str)
    }

    /// The line at an index.
    pub fn line(&self, at: LineIndex) -> Option<&Line> {
        if at.is_pinned { self.pinned.get(at.line) } else { self.scrolled.get(at.line) }
    }
}
