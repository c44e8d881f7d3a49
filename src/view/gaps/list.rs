//! The gaps that fit a filter, and the same by what went on meanwhile and by cluster, computed in the background.

use std::cmp::Reverse;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::analysis::gaps::clusters::Spread;
use crate::analysis::gaps::{GapClass, LedgerTotals, Near};
use crate::analysis::rules::main_cause;
use crate::answers::findings::TraceRun;
use crate::answers::time::{GapClusters, Ledgers, TraceSteps};
use crate::answers::{Analysis, Work};
use crate::figures::Sort;
use crate::figures::gap_lists::{ClassRow, ClusterRow, by_class, clusters};
use crate::figures::gap_rows::{GapDevice, GapRow, GapRows};
use crate::figures::gaps::{main_part, trigger_label};
use crate::model::{DurNs, ProcessId, SliceId, TimeRange};
use crate::session::{Files, OpenTrace, Selection, track_title};
use crate::view::tables::{Answer, Table, file_name};

impl Table for GapRows {
    fn ordered(&self, sort: Option<Sort>, _filter: &str, work: &Work<'_>) -> Option<Vec<u32>> {
        let goes_on = |done: usize| {
            work.report(done as u64, self.gaps.len() as u64);
            !work.is_cancelled()
        };
        self.sorted(sort, &goes_on)
    }
}

/// Which gaps to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapFilter {
    /// Of each open trace.
    pub steps: Vec<TraceSteps>,
    /// Each word must occur in a name of the gap, in lower case: work before and after, what went on, trigger, operator,
    /// frame.
    pub words: Vec<String>,
    pub min_ns: DurNs,
    /// Only of this device, by the index of its trace.
    pub device: Option<(usize, ProcessId)>,
    pub files: Files,
    /// Only gaps in which this went on.
    pub class: Option<GapClass>,
    /// Only gaps that share time with this range of session time.
    pub range: Option<TimeRange>,
}

impl GapFilter {
    fn steps(&self, trace: usize) -> TraceSteps {
        self.steps.get(trace).cloned().unwrap_or_default()
    }
}

/// The gaps that fit a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed(pub GapFilter);

/// Listed gaps beside all idle time of their devices.
#[derive(Debug)]
pub struct Listing {
    pub rows: Arc<GapRows>,
    /// Time of the listed gaps, within the range.
    pub listed_ns: DurNs,
    pub whole: Whole,
}

/// Idle time of the devices of a list, within its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    pub gaps: u64,
    pub idle_ns: DurNs,
    /// Time of the devices, busy or idle.
    pub window_ns: DurNs,
    /// Idle time in which an operator, and that in which a Python frame is known.
    pub known_ns: [DurNs; 2],
    /// Whether most events are missing from a recording of these.
    pub lacks_events: bool,
}

/// A table whose rows stand for gaps.
#[derive(Debug)]
pub struct GapTable {
    pub table: Arc<Answer>,
    /// For each row the gap to show.
    pub gaps: Vec<Selection>,
    /// For each row its class.
    pub classes: Vec<GapClass>,
    /// Whether most events are missing from a recording of these.
    pub lacks_events: bool,
}

impl Analysis for Listed {
    type Of = [OpenTrace];
    type Output = Listing;
    const NAME: &'static str = "Listing the gaps";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Listing> {
        let devices = devices(of, &self.0, work)?;
        let mut whole = Whole { lacks_events: lacks_events(&devices, work)?, ..Whole::default() };
        let mut listed_ns = 0;
        let mut gaps: Vec<GapRow> = Vec::new();
        for (device, number) in devices.iter().zip(0..) {
            let range = in_trace(self.0.range, device.offset_ns);
            let ledger = device.ledger();
            let totals = ledger.totals(range);
            whole.gaps += totals.all.count;
            whole.idle_ns += totals.all.total_ns;
            whole.window_ns += ledger.window.intersect(range).map_or(0, TimeRange::dur);
            let known = ledger.known(range);
            whole.known_ns.iter_mut().zip(known).for_each(|(sum, ns)| *sum += ns);
            let mut words = Words { words: &self.0.words, known: HashMap::new() };
            for gap in ledger.within(range) {
                if gap % 1024 == 0 && work.is_cancelled() {
                    return None;
                }
                let is_long = ledger.time(gap).dur() >= self.0.min_ns;
                let is_of_class = |class| ledger.parts(gap).any(|part| part.class == class && part.time.dur() > 0);
                if is_long && self.0.class.is_none_or(is_of_class) && words.fit(device, gap) {
                    gaps.push(GapRow { device: number, gap: gap as u32 });
                    listed_ns += ledger.time(gap).intersect(range).map_or(0, TimeRange::dur);
                }
            }
        }
        Some(Listing { rows: Arc::new(GapRows::new(devices, gaps, self.0.range)), listed_ns, whole })
    }
}

/// The words of a filter, with the names that were looked at.
struct Words<'a> {
    words: &'a [String],
    /// By address and length of a name, which words it contains, as bits.
    known: HashMap<(*const u8, usize), u64>,
}

impl Words<'_> {
    fn fit(&mut self, device: &GapDevice, gap: usize) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let all = u64::MAX >> (64 - self.words.len().min(64));
        let (trace, ledger) = (&device.trace, device.ledger());
        let times = ledger.gap(gap);
        let name = |slice: SliceId| trace.slice_name(slice);
        let mut found = self.found_in(name(times.after)) | self.found_in(name(times.ended_by));
        found |= trigger_label(trace, &times).map_or(0, |trigger| self.found_in(trigger));
        for part in ledger.parts(gap) {
            found |= self.found_in(part.class.label()) | self.found_in(part.class.key());
            found |= part.slice.map_or(0, |slice| self.found_in(name(slice)));
        }
        if found != all {
            let place = main_part(trace, ledger, gap, &Near::none()).place;
            found |= place.operator.map_or(0, |slice| self.found_in(name(slice)));
            found |= place.frame.map_or(0, |frame| self.found_in(frame));
        }
        found == all
    }

    fn found_in(&mut self, text: &str) -> u64 {
        let words = self.words;
        *self.known.entry((text.as_ptr(), text.len())).or_insert_with(|| {
            let text = text.to_lowercase();
            let found = words.iter().take(64).enumerate().filter(|(_, word)| text.contains(word.as_str()));
            found.fold(0, |bits, (i, _)| bits | 1 << i)
        })
    }
}

/// A range of session time in the time of a trace.
fn in_trace(range: Option<TimeRange>, offset_ns: DurNs) -> TimeRange {
    range.map_or(TimeRange::ALL, |range| range.shifted(offset_ns.saturating_neg()))
}

/// The devices that fit a filter.
fn devices(of: &[OpenTrace], filter: &GapFilter, work: &Work<'_>) -> Option<Vec<GapDevice>> {
    let mut out = Vec::new();
    for (index, open) in of.iter().enumerate() {
        if filter.device.is_some_and(|(trace, _)| trace != index)
            || !filter.files.has(index)
            || open.trace.processes.iter().all(|p| p.device.is_none())
        {
            continue;
        }
        let ledgers = work.get(&open.trace, &Ledgers { steps: filter.steps(index) })?;
        for (i, ledger) in ledgers.iter().enumerate() {
            if filter.device.is_none_or(|(_, process)| process == ledger.process) {
                let title = track_title(of, index, &open.trace.process(ledger.process).title());
                let (trace, ledgers) = (Arc::clone(&open.trace), Arc::clone(&ledgers));
                out.push(GapDevice { trace, index, offset_ns: open.offset, ledgers, ledger: i, title });
            }
        }
    }
    Some(out)
}

/// Whether most events are missing from a recording of these devices.
fn lacks_events(devices: &[GapDevice], work: &Work<'_>) -> Option<bool> {
    // Those of a trace stand together.
    for of_trace in devices.chunk_by(|a, b| a.index == b.index) {
        if work.get(&of_trace[0].trace, &TraceRun)?.missing.is_some() {
            return Some(true);
        }
    }
    Some(false)
}

/// Idle time by what went on meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByClass(pub GapFilter);

impl Analysis for ByClass {
    type Of = [OpenTrace];
    type Output = GapTable;
    const NAME: &'static str = "Adding up what went on meanwhile";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<GapTable> {
        let devices = devices(of, &self.0, work)?;
        // Those of a file stand together.
        let by_file: Vec<&[GapDevice]> = match self.0.files {
            Files::Apart => devices.chunk_by(|a, b| a.index == b.index).collect(),
            Files::Together | Files::One(_) => vec![&devices],
        };
        let mut rows: Vec<(ClassRow, Selection, usize)> = Vec::new();
        for devices in &by_file {
            let file = devices.first().map_or(0, |device| device.index);
            rows.extend(classes_of(devices, self.0.range).into_iter().map(|(row, longest)| (row, longest, file)));
        }
        rows.sort_by_key(|row| Reverse(row.0.total_ns));
        let classes = rows.iter().map(|row| row.0.class).collect();
        let mut table = Answer { data: by_class().data(rows.iter().map(|row| &row.0)), ..Answer::default() };
        if by_file.len() > 1 {
            table.name_files(rows.iter().map(|row| file_name(of, row.2)));
        }
        Some(GapTable {
            table: Arc::new(table),
            gaps: rows.into_iter().map(|row| row.1).collect(),
            classes,
            lacks_events: lacks_events(&devices, work)?,
        })
    }
}

/// Idle time of devices by what went on meanwhile, each with the gap that has most of it at a time.
fn classes_of(devices: &[GapDevice], range: Option<TimeRange>) -> Vec<(ClassRow, Selection)> {
    let mut sums: Vec<ClassRow> = GapClass::ALL.into_iter().map(ClassRow::new).collect();
    let mut longest: Vec<(DurNs, Selection)> = vec![(0, Selection::None); GapClass::N];
    for device in devices {
        let range = in_trace(range, device.offset_ns);
        let LedgerTotals { by_class, all, .. } = device.ledger().totals(range);
        for (row, totals) in sums.iter_mut().zip(by_class) {
            row.count += totals.count;
            row.total_ns += totals.total_ns;
            row.idle_ns += all.total_ns;
        }
        for gap in device.ledger().within(range) {
            for part in device.ledger().parts(gap) {
                let (best, selection) = &mut longest[part.class as usize];
                let within = part.time.intersect(range).map_or(0, TimeRange::dur);
                if within > *best {
                    (*best, *selection) = (within, selected(device, gap));
                }
            }
        }
    }
    for (row, (ns, _)) in sums.iter_mut().zip(&longest) {
        row.longest_ns = *ns;
    }
    sums.into_iter().zip(longest).map(|(row, longest)| (row, longest.1)).filter(|row| row.0.count > 0).collect()
}

/// A gap as a selection.
fn selected(device: &GapDevice, gap: usize) -> Selection {
    let (trace, process) = (device.index, device.ledger().process);
    Selection::Gap { trace, process, time: device.ledger().gap(gap).time }
}

/// Recurring gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByCluster(pub GapFilter);

impl Analysis for ByCluster {
    type Of = [OpenTrace];
    type Output = GapTable;
    const NAME: &'static str = "The list of recurring gaps";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<GapTable> {
        let devices = devices(of, &self.0, work)?;
        let mut rows: Vec<(ClusterRow, Selection)> = Vec::new();
        for device in &devices {
            let all = work.get(&device.trace, &GapClusters { steps: self.0.steps(device.index) })?;
            let (ledger, clusters) = (device.ledger(), &all[device.ledger]);
            let steps = work.get(&device.trace, &self.0.steps(device.index))?;
            let range = in_trace(self.0.range, device.offset_ns);
            for cluster in &clusters.all {
                // A range includes gaps that run into it.
                let within = |gap: u32| ledger.time(gap as usize).intersect(range).map_or(0, TimeRange::dur);
                let gaps: Vec<u32> = match self.0.range {
                    Some(_) => clusters.gaps(cluster).iter().copied().filter(|&gap| within(gap) > 0).collect(),
                    None => clusters.gaps(cluster).to_vec(),
                };
                let dur = |gap: u32| ledger.time(gap as usize).dur();
                let Some(&longest) = gaps.iter().min_by_key(|&&gap| (Reverse(dur(gap)), gap)) else { continue };
                let is_of_class = self.0.class.is_none_or(|class| class == cluster.class);
                let row = ClusterRow {
                    device: if devices.len() > 1 { device.title.clone() } else { String::new() },
                    prev: clusters.name(cluster.prev).to_owned(),
                    next: clusters.name(cluster.next).to_owned(),
                    cause: main_cause(&device.trace, ledger, (*steps).as_ref(), &gaps),
                    class: cluster.class,
                    operator: clusters.op(cluster).to_owned(),
                    frame: clusters.name(cluster.frame).to_owned(),
                    count: gaps.len() as u64,
                    total_ns: gaps.iter().map(|&gap| dur(gap)).sum(),
                    ns_per_step: cluster.sum.ns_per_step(clusters.n_steps),
                    ceiling_ns_per_step: cluster.sum.ceiling_ns_per_step(clusters.n_steps),
                    steps: (clusters.n_steps > 0).then_some((cluster.sum.steps_present, clusters.n_steps)),
                    within_ns: self.0.range.map(|_| gaps.iter().map(|&gap| within(gap)).sum()),
                    spread: match self.0.range {
                        Some(_) => Spread::of(&mut gaps.iter().map(|&gap| dur(gap)).collect::<Vec<_>>()),
                        None => cluster.spread,
                    },
                };
                if is_of_class && dur(longest) >= self.0.min_ns && row.fits(&self.0.words) {
                    rows.push((row, selected(device, longest as usize)));
                }
            }
        }
        rows.sort_by_key(|(row, _)| Reverse((row.ns_per_step, row.total_ns)));
        let classes = rows.iter().map(|row| row.0.class).collect();
        let mut data = clusters(self.0.range.is_some()).data(rows.iter().map(|row| &row.0));
        data.drop_empty_columns();
        let table = Arc::new(Answer { data, ..Answer::default() });
        Some(GapTable {
            table,
            gaps: rows.into_iter().map(|row| row.1).collect(),
            classes,
            lacks_events: lacks_events(&devices, work)?,
        })
    }
}
