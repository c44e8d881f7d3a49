//! Which lines there are: groups, streams and threads, in the order of the user or by what they do.

mod processes;

use std::collections::{HashMap, HashSet};

use super::fold::{Fold, count, folds_streams, importance, n_programs, n_shown_counters};
use super::{COUNTER_HEIGHT, GROUP_HEIGHT, Line, LineKind, ROW_HEIGHT, STRIP_GROUP_HEIGHT, TrackList, rows, track_key};
use crate::analysis::threads::Part;
use crate::figures::text::{display_name, track_name};
use crate::model::{ProcessId, TrackId, TrackKind};
use crate::session::{OpenTrace, in_order, track_title};
use crate::view::timeline::settings::TimelineSettings;

/// A thread that launches at least one in so many of what the busiest launches is one of those that launch.
const LAUNCHER: u32 = 20;

/// All lines, without their places.
pub fn lines(traces: &[OpenTrace], parts: &[Vec<Part>], settings: &TimelineSettings, filter: &str) -> TrackList {
    let is_shared = n_programs(traces, parts) > 1;
    let filter = filter.trim().to_lowercase();
    let mut list = Builder { settings, parts, is_shared, filter, out: TrackList::default() };
    let mut order: Vec<(usize, &OpenTrace)> = in_order(traces).into_iter().map(|i| (i, &traces[i])).collect();
    list.sort("", &mut order, |entry| &entry.1.id);
    for (trace, open) in order {
        list.add_trace(traces, trace, open);
    }
    let rank = |line: &Line| settings.pinned.iter().position(|key| *key == line.key);
    list.out.pinned.sort_by_key(rank);
    list.out
}

struct Builder<'a> {
    settings: &'a TimelineSettings,
    parts: &'a [Vec<Part>],
    /// Several programs share the picture: of each is shown at first what its devices did.
    is_shared: bool,
    /// In lower case.
    filter: String,
    out: TrackList,
}

/// A track with the other tracks of its thread or stream.
struct Unit {
    head: (TrackId, String),
    rest: Vec<(TrackId, String)>,
}

impl Unit {
    /// The keys of its tracks.
    fn keys(&self) -> impl Iterator<Item = &str> {
        [&self.head].into_iter().chain(&self.rest).map(|(_, key)| key.as_str())
    }
}

fn keys_of<'a>(open: &OpenTrace, tracks: impl Iterator<Item = &'a TrackId>) -> Vec<String> {
    tracks.map(|&track| track_key(open, track)).collect()
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

    /// The same of a line around tracks.
    fn is_collapsed_around(&mut self, key: &str, title: &str) -> bool {
        let is_collapsed = self.is_collapsed(key);
        if is_collapsed {
            self.out.collapsed.push([key, title].map(str::to_owned));
        }
        is_collapsed
    }

    /// Whether the user has hidden the line of this key.
    ///
    /// * `tracks`: the keys of the tracks that are hidden then.
    fn is_hidden<'t>(&mut self, key: &str, tracks: impl Iterator<Item = &'t str>) -> bool {
        if !self.settings.hidden.contains(key) {
            return false;
        }
        self.out.hidden.push(key.to_owned());
        for track in tracks {
            self.out.n_hidden += 1;
            // Those that are hidden by themselves come back as well.
            if track != key && self.settings.hidden.contains(track) {
                self.out.hidden.push(track.to_owned());
            }
        }
        true
    }

    /// Whether a trace is folded since another run is in front, unless it was unfolded.
    fn is_folded_behind(&mut self, open: &OpenTrace) -> bool {
        if !open.is_behind || !self.filter.is_empty() {
            return false;
        }
        self.out.folded_first.insert(open.id.to_string());
        !self.settings.expanded.contains(&*open.id)
    }

    fn add_trace(&mut self, traces: &[OpenTrace], trace: usize, open: &OpenTrace) {
        let (data, key, has_line) = (&*open.trace, &*open.id, traces.len() > 1);
        let mut processes = self.processes(trace, open);
        if has_line && self.settings.hidden.contains(key) {
            let tracks = keys_of(open, processes.iter().flat_map(|process| &process.2));
            self.is_hidden(key, tracks.iter().map(String::as_str));
            return;
        }
        let heading = open.heading();
        let title = display_name(&heading);
        let title = match data.info.rank.filter(|_| !open.has_namesake) {
            Some(rank) => format!("Rank {rank}: {title}"),
            None => title.to_string(),
        };
        // Of a snapshot one heading says all.
        let is_one = has_line && data.info.format.is_memory_only() && processes.len() == 1;
        let title = match processes.first().filter(|_| is_one) {
            Some((process, ..)) => format!("{}, {title}", display_name(&data.process(*process).title())),
            None => title,
        };
        let indent = u8::from(has_line && !is_one);
        let is_folded = has_line && self.is_folded_behind(open);
        let is_collapsed = has_line && (self.is_collapsed_around(key, &title) || is_folded);
        let is_match = has_line && !self.filter.is_empty() && self.matches(&title);
        let at = self.out.scrolled.len();
        if has_line {
            // While its members are on show, each of them has a strip.
            let has_strip = is_collapsed && !is_folded && data.processes.iter().any(|process| process.device.is_some());
            let keys = (key.to_owned(), String::new());
            self.push_group(trace, LineKind::Trace, keys, title, (0, is_collapsed, has_strip));
        }
        let is_beside =
            data.info.format.is_memory_only() && traces.iter().any(|other| other.run == open.run && other.is_program());
        let (n_folded, fold_key) = self.fold_processes(trace, open, &mut processes, key);
        let first_folded = processes.len() - n_folded;
        let folded_title = self.folded_title(open, &processes, n_folded);
        for (place, (process, process_key, tracks)) in processes.into_iter().enumerate() {
            let title = display_name(&data.process(process).title()).into_owned();
            let qualified_title = track_title(traces, trace, &title);
            if place >= first_folded {
                self.out.folded_first.insert(fold_key.clone());
                self.out.share_a_line.insert((trace, process));
            }
            let is_expanded = place < first_folded || self.settings.expanded.contains(&fold_key);
            if place == first_folded && !is_collapsed {
                let keys = (fold_key.clone(), key.to_owned());
                let kind = LineKind::Fold(process, Fold::Processes);
                self.push_group(trace, kind, keys, folded_title.clone(), (u8::from(has_line), !is_expanded, false));
            }
            let folded_in = is_collapsed.then(|| key.to_owned());
            let folded_in = folded_in.or_else(|| (!is_expanded).then(|| fold_key.clone()));
            let group = Group {
                trace,
                parent: key,
                key: process_key,
                title,
                qualified_title,
                indent,
                folded_in,
                is_match,
                has_heading: !is_one,
                is_beside,
            };
            self.add_process(open, process, &tracks, &group);
        }
        let has_members = self.out.scrolled.len() > at + 1 || is_collapsed;
        if has_line && !has_members && !self.filter.is_empty() {
            self.out.scrolled.truncate(at);
        }
    }

    fn add_process(&mut self, open: &OpenTrace, process: ProcessId, tracks: &[TrackId], group: &Group<'_>) {
        if self.settings.hidden.contains(&group.key) {
            let tracks = keys_of(open, tracks.iter());
            self.is_hidden(&group.key, tracks.iter().map(String::as_str));
            return;
        }
        let is_match = group.is_match || (!self.filter.is_empty() && self.matches(&group.title));
        let is_host = open.is_program() && open.trace.process(process).device.is_none();
        let is_folded_first = self.is_shared && is_host && group.has_heading && self.filter.is_empty();
        if is_folded_first {
            self.out.folded_first.insert(group.key.clone());
        }
        let is_folded = is_folded_first && !self.settings.expanded.contains(&group.key);
        let is_collapsed = group.has_heading && (self.is_collapsed_around(&group.key, &group.title) || is_folded);
        let at = self.out.scrolled.len();
        let (folds, shown) = self.units(open, tracks, group);
        let title = match is_folded {
            true => {
                let n = shown.len() + folds.iter().map(|fold| fold.1.len()).sum::<usize>();
                format!("{}, {}", group.title, count(n, "thread", "threads"))
            }
            false => group.title.clone(),
        };
        if group.folded_in.is_none() && group.has_heading {
            let keys = (group.key.clone(), group.parent.to_owned());
            let is_stream = |unit: &Unit| open.trace.track(unit.head.0).kind == TrackKind::Stream;
            let has_strip = open.trace.process(process).device.is_some() && shown.iter().any(is_stream);
            self.push_group(
                group.trace,
                LineKind::Process(process),
                keys,
                title,
                (group.indent, is_collapsed, has_strip),
            );
        }
        let folded_in = group.folded_in.clone().or_else(|| is_collapsed.then(|| group.key.clone()));
        for unit in shown {
            self.add_unit(open, unit, group, (folded_in.as_deref(), is_match, group.indent + 1));
        }
        for (fold, units) in folds {
            let key = fold.key(&group.key);
            let is_expanded = self.settings.expanded.contains(&key);
            let is_hidden = folded_in.is_none() && self.is_hidden(&key, units.iter().flat_map(Unit::keys));
            if folded_in.is_none() && !is_hidden {
                let keys = (key.clone(), group.key.clone());
                let kind = LineKind::Fold(process, fold);
                let n_parts = units.iter().filter(|unit| self.part(group.trace, unit.head.0).of.is_some()).count();
                let title = fold.title(units.len() - n_parts, n_parts);
                self.push_group(group.trace, kind, keys, title, (group.indent + 1, !is_expanded, false));
            }
            let tracks = units.iter().flat_map(|unit| unit.rest.iter().chain([&unit.head]));
            self.out.fold_of.extend(tracks.map(|(track, _)| ((group.trace, *track), key.clone())));
            let folded_in = folded_in.clone().or_else(|| (is_hidden || !is_expanded).then_some(key));
            for unit in units {
                self.add_unit(open, unit, group, (folded_in.as_deref(), is_match, group.indent + 2));
            }
        }
        let is_empty = self.out.scrolled.len() == at + 1 && group.folded_in.is_none() && !is_collapsed;
        if is_empty && !self.filter.is_empty() {
            self.out.scrolled.truncate(at);
        }
    }

    /// Tracks with the others of the same thread or stream, in their order. Cost: O(tracks).
    fn with_parts(&self, open: &OpenTrace, tracks: &[TrackId], trace: usize) -> Vec<Unit> {
        let (mut units, mut rest) = (Vec::<Unit>::new(), Vec::<(TrackId, (TrackId, String))>::new());
        let members: HashSet<TrackId> = tracks.iter().copied().collect();
        let mut unit_of: HashMap<TrackId, usize> = HashMap::new();
        for track in tracks.iter().copied() {
            let keyed = (track, track_key(open, track));
            match self.part(trace, track).of.filter(|of| members.contains(of)) {
                Some(of) => rest.push((of, keyed)),
                None => {
                    unit_of.insert(track, units.len());
                    units.push(Unit { head: keyed, rest: Vec::new() });
                }
            }
        }
        for (of, keyed) in rest {
            if let Some(&unit) = unit_of.get(&of) {
                units[unit].rest.push(keyed);
            }
        }
        units
    }

    /// The tracks that are folded at first, where there are several and nothing is searched for; and all others: of a
    /// device its streams first, of threads those that launch work of devices, among them those that run the steps, of
    /// counters the most important.
    fn units(&self, open: &OpenTrace, tracks: &[TrackId], group: &Group<'_>) -> (Vec<(Fold, Vec<Unit>)>, Vec<Unit>) {
        let mut units = self.with_parts(open, tracks, group.trace);
        let n_launches = |unit: &Unit| self.part(group.trace, unit.head.0).n_launches;
        let most = units.iter().map(n_launches).max().unwrap_or(0);
        units.sort_by_cached_key(|unit| {
            let is_launcher = most > 0 && n_launches(unit) * LAUNCHER >= most;
            let part = self.part(group.trace, unit.head.0);
            let track = open.trace.track(unit.head.0);
            // Recorders put threads whose process they do not know in that of a device.
            let is_stray = track.kind == TrackKind::Thread && open.trace.process(track.process).device.is_some();
            let is_counter = track.kind == TrackKind::Counter;
            let place = if is_counter { importance(open, unit.head.0) } else { 0 };
            // Of a snapshot memory is what it was opened for.
            let is_later = is_counter != open.trace.info.format.is_memory_only();
            (is_stray, is_later, track.kind, part.is_idle, !is_launcher, part.role, place)
        });
        self.sort(&group.key, &mut units, |unit| &unit.head.1);
        if !self.filter.is_empty() {
            return (Vec::new(), units);
        }
        let kind = |unit: &Unit| open.trace.track(unit.head.0).kind;
        let is_idle = |unit: &Unit| self.part(group.trace, unit.head.0).is_idle;
        let of = |is: TrackKind| units.iter().filter(move |unit| kind(unit) == is);
        let idle = |is: TrackKind| of(is).filter(|unit| is_idle(unit));
        // A fold of one thread leaves room if its stack is deep.
        let folds_threads =
            idle(TrackKind::Thread).map(|unit| open.trace.rows(unit.head.0).len().max(1)).sum::<usize>() > 1;
        let folds_streams = folds_streams(idle(TrackKind::Stream).count());
        let is_shared = self.is_shared && open.is_program();
        let mut n_left = n_shown_counters(of(TrackKind::Counter).count(), is_shared);
        let mut folds: Vec<(Fold, Vec<Unit>)> = Fold::ALL.map(|fold| (fold, Vec::new())).into();
        let mut shown = Vec::new();
        for mut unit in units {
            let fold = match kind(&unit) {
                TrackKind::Counter => {
                    let is_left = n_left > 0;
                    n_left = n_left.saturating_sub(1);
                    (!is_left).then_some(Fold::Counters)
                }
                _ if group.is_beside => Some(Fold::Names),
                TrackKind::Stream => (folds_streams && is_idle(&unit)).then_some(Fold::Streams),
                _ => (folds_threads && is_idle(&unit)).then_some(Fold::Idle),
            };
            let mut folded = |fold: Fold, unit: Unit| {
                if let Some((_, units)) = folds.iter_mut().find(|(known, _)| *known == fold) {
                    units.push(unit);
                }
            };
            match fold {
                Some(fold) => folded(fold, unit),
                None => {
                    if is_shared && kind(&unit) == TrackKind::Stream {
                        unit.rest
                            .drain(..)
                            .for_each(|part| folded(Fold::Streams, Unit { head: part, rest: Vec::new() }));
                    }
                    shown.push(unit);
                }
            }
        }
        folds.retain(|(_, units)| !units.is_empty());
        (folds, shown)
    }

    /// Adds a track, and below it the others of its thread or stream, which are hidden along with it.
    ///
    /// * `place`: the key of the collapsed line around it, whether a group around it matches the filter, and its
    ///   nesting level.
    fn add_unit(&mut self, open: &OpenTrace, unit: Unit, group: &Group<'_>, place: (Option<&str>, bool, u8)) {
        let (folded_in, is_match, indent) = place;
        if self.is_hidden(&unit.head.1, unit.keys()) {
            return;
        }
        let Unit { head, rest } = unit;
        let title = |track: TrackId| track_name(open.trace.track(track));
        let head_title = title(head.0);
        let is_match = is_match || rest.iter().any(|part| self.matches(&title(part.0)));
        let (head_key, has_parts) = (head.1.clone(), !rest.is_empty());
        let of_head = (group.key.as_str(), indent, has_parts);
        // A number does not say what a thread is for.
        let is_numbered = head_title.to_ascii_lowercase().starts_with("thread ");
        let words = self.part(group.trace, head.0).words().filter(|_| is_numbered);
        let shown_title = words.map_or_else(|| head_title.clone(), |words| format!("{head_title}, {words}"));
        let is_shown = self.add_track(open, head, group, (folded_in, is_match, shown_title), of_head);
        let is_collapsed = has_parts && self.is_collapsed_around(&head_key, &head_title);
        let folded_in = match folded_in {
            None if is_shown && is_collapsed => Some(head_key.as_str()),
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

    /// Adds a line unless the track is folded, hidden or filtered out; whether it did, among those that scroll. A pinned
    /// track is on show whatever the filter is.
    fn add_track(
        &mut self,
        open: &OpenTrace,
        (track, key): (TrackId, String),
        group: &Group<'_>,
        (folded_in, is_match, title): (Option<&str>, bool, String),
        (parent, indent, has_parts): (&str, u8, bool),
    ) -> bool {
        let is_pinned = self.settings.pinned.contains(&key);
        if self.is_hidden(&key, [&*key].into_iter()) || !(is_match || is_pinned || self.matches(&title)) {
            return false;
        }
        if let Some(around) = folded_in.filter(|_| !is_pinned) {
            self.out.folded.push(((group.trace, track), around.to_owned()));
            let mut around = [&*open.id, &*group.key, parent].into_iter();
            self.out.n_collapsed += usize::from(around.any(|key| self.settings.collapsed.contains(key)));
            return false;
        }
        let (data, trace) = (&*open.trace, group.trace);
        let is_collapsed = self.is_collapsed(&key);
        let n_passing = self.part(trace, track).n_passing;
        let (rows, fold) = match is_pinned || !self.filter.is_empty() {
            // The user looks at it.
            true => (0..data.rows(track).len() as u32, None),
            false => rows::rows(open, track, n_passing, self.settings),
        };
        let n_rows = if is_collapsed { rows.len().min(1) } else { rows.len() } as u32;
        let is_counter = data.track(track).kind == TrackKind::Counter;
        let title = match is_pinned {
            true => format!("{title}, {}", group.qualified_title),
            false => without_device(&title, data.process(data.track(track).process).device).to_owned(),
        };
        let indent = if is_pinned { 0 } else { indent };
        let parent = parent.to_owned();
        let kind = LineKind::Track(track);
        let row_fold = fold.filter(|_| !is_collapsed);
        let line = Line { kind, indent, n_rows, is_pinned, has_parts, ..Line::new(trace, key, parent, title) };
        let line = Line { is_collapsed, first_row: rows.start, row_fold, ..line };
        let height = if is_counter { COUNTER_HEIGHT } else { line.height_of_rows() };
        let lines = if is_pinned { &mut self.out.pinned } else { &mut self.out.scrolled };
        lines.push(Line { height, natural_height: height, ..line });
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
            LineKind::Fold(..) => ROW_HEIGHT,
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
    /// Whether it has a line of its own: not where the heading of its trace stands for it.
    has_heading: bool,
    /// Whether it is of a snapshot of memory beside the trace of its run.
    is_beside: bool,
}

/// The title of a track below the heading of its device, which it need not name again.
fn without_device(title: &str, device: Option<u32>) -> &str {
    device.and_then(|device| title.strip_prefix(&format!("GPU {device} "))).unwrap_or(title)
}
