//! Figures of gaps: the ledger of each device, its classes, and the longest gaps with their parts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{Cell, Figure, Object, Part, Table, Word, figures, gap_clusters};
use crate::analysis::gaps::clusters::Clusters;
use crate::analysis::gaps::{
    Gap, GapClass, GapPart, GapPlace, GapTotals, IdleByClass, Ledger, LedgerTotals, Near, Trigger, frame, inferred_ns,
    place, waits_in,
};
use crate::analysis::host_roles::frees_memory;
use crate::analysis::steps::Steps;
use crate::model::{DurNs, TimeNs, TimeRange, Trace};

/// Where the program was.
pub const FRAME: &str = "The innermost Python frame of the user's program; where it has none, of a library";
/// What a class says, beside the cause that a rule judges.
pub const MEANWHILE: &str = "What the host did meanwhile, or what held up the work that it had launched. What would \
                             have to change is the cause: see the idle time by cause";

/// The most parts of a gap that keep their names in the report; the rest is summed by class.
const MAX_PARTS: usize = 50;

/// Sums the parts beyond the [`MAX_PARTS`] longest by class, without names. Keeps the order of the others.
fn fold_smallest(parts: &mut Vec<NamedPart>) {
    if parts.len() <= MAX_PARTS {
        return;
    }
    let mut longest: Vec<usize> = (0..parts.len()).collect();
    longest.sort_by_key(|&i| (Reverse(parts[i].dur_ns), i));
    let mut is_kept = vec![false; parts.len()];
    longest[..MAX_PARTS].iter().for_each(|&i| is_kept[i] = true);
    let (kept, rest): (Vec<_>, Vec<_>) = std::mem::take(parts).into_iter().zip(is_kept).partition(|(_, kept)| *kept);
    parts.extend(kept.into_iter().map(|(part, _)| part));
    let n_kept = parts.len();
    for (part, _) in rest {
        match parts[n_kept..].iter_mut().find(|known| known.class == part.class) {
            Some(known) => known.dur_ns += part.dur_ns,
            None => parts.push(NamedPart { name: None, frame: None, ..part }),
        }
    }
}

/// The gaps of one device.
#[derive(Clone, Debug)]
pub struct DeviceGaps<'a> {
    pub rank: Option<u32>,
    pub ledger: &'a Ledger,
    totals: LedgerTotals,
    top: Arc<Table>,
    clusters: Arc<Table>,
}

/// The time of one class on one device.
#[derive(Clone, Copy, Debug)]
pub struct ClassGaps {
    rank: Option<u32>,
    device: u32,
    class: GapClass,
    totals: GapTotals,
    /// Of the time of all gaps.
    share: f64,
}

/// One gap, with the names that explain it.
#[derive(Clone, Debug)]
pub struct NamedGap {
    rank: Option<u32>,
    device: u32,
    start_ns: TimeNs,
    dur_ns: DurNs,
    trigger: Option<Trigger>,
    ended_by: String,
    launched_by: Option<String>,
    /// The slice that explains most of it, and the frame there; empty if unknown. See [`MainPart`].
    during: String,
    frame: String,
    /// In order of time; what comes back is summed at its first place.
    parts: Vec<NamedPart>,
}

#[derive(Clone, Debug, PartialEq)]
struct NamedPart {
    class: GapClass,
    name: Option<String>,
    frame: Option<String>,
    dur_ns: DurNs,
}

impl<'a> DeviceGaps<'a> {
    /// * `file`: where the rank is ambiguous.
    /// * `offset`: from the trace's time to the clock of the report.
    /// * `top`: how many of the longest gaps it lists; 0 lists all.
    ///
    /// Cost: O(gaps + parts), and O(log n) for each part listed.
    pub fn new(
        (trace, file): (&Trace, Option<&str>),
        ledger: &'a Ledger,
        (clusters, steps): (&Clusters, Option<&Steps>),
        offset: DurNs,
        top: usize,
    ) -> Self {
        let rank = trace.info.rank;
        let longest = longest(ledger, if top == 0 { usize::MAX } else { top });
        let near = Near::new(trace);
        let named = longest.iter().map(|&gap| NamedGap::new(trace, ledger, (gap, &near), offset));
        let mut list = gaps().table(named, 0);
        list.n_hidden = ledger.len() - longest.len();
        let clusters =
            gap_clusters::clusters().table(gap_clusters::rows((file, rank), (trace, ledger), clusters, steps), top);
        Self { rank, ledger, totals: ledger.totals(TimeRange::ALL), top: Arc::new(list), clusters: Arc::new(clusters) }
    }

    /// Its classes that have any time, the largest first.
    pub fn classes(&self) -> Vec<ClassGaps> {
        let all = self.totals.all.total_ns.max(1) as f64;
        let row = |class: GapClass| {
            let totals = self.totals.by_class[class as usize];
            let share = totals.total_ns as f64 / all;
            ClassGaps { rank: self.rank, device: self.ledger.device, class, totals, share }
        };
        let mut rows: Vec<_> = GapClass::ALL.into_iter().map(row).filter(|row| row.totals.count > 0).collect();
        rows.sort_by_key(|row| (-row.totals.total_ns, row.class));
        rows
    }

    fn by_class(&self) -> Object {
        let present = GapClass::ALL.into_iter().filter(|&class| self.totals.by_class[class as usize].count > 0);
        let entry = |class: GapClass| (class.key(), totals(self.totals.by_class[class as usize]));
        Object(present.map(entry).collect())
    }

    fn coverage(&self) -> Object {
        let coverage = self.ledger.coverage;
        let of_time = |ns: DurNs| ns as f64 / self.totals.all.total_ns.max(1) as f64;
        Object(vec![
            ("operator_share", Cell::Share(of_time(coverage.operator_ns))),
            ("frame_share", Cell::Share(of_time(coverage.frame_ns))),
            ("launch_share", Cell::Share(coverage.launched as f64 / coverage.work.max(1) as f64)),
        ])
    }

    fn covered(&self, key: &str) -> Cell {
        let found = self.coverage().0.into_iter().find(|entry| entry.0 == key);
        Cell::or_empty(found, |entry| entry.1)
    }
}

/// The `n` longest gaps, the longest first; of equal ones the first. Cost: O(gaps · log n), and less where few are
/// long.
fn longest(ledger: &Ledger, n: usize) -> Vec<usize> {
    let mut found: BinaryHeap<(DurNs, usize)> = BinaryHeap::new();
    for gap in 0..ledger.len() {
        let key = (-ledger.time(gap).dur(), gap);
        if found.len() < n {
            found.push(key);
        } else if found.peek().is_some_and(|last| key < *last) {
            found.pop();
            found.push(key);
        }
    }
    found.into_sorted_vec().into_iter().map(|(_, gap)| gap).collect()
}

/// What takes most of a gap's time, by the one rule for every view: the class with most time, of that the name with
/// most time, and of that the longest part; of equal ones the first.
#[derive(Clone, Copy, Debug)]
pub struct MainPart<'a> {
    pub gap: Gap,
    /// The class with the largest share, and its time.
    pub class: (GapClass, DurNs),
    pub part: GapPart,
    pub place: GapPlace<'a>,
}

/// The main part of a gap. Cost: O(parts + log n).
///
/// * `near`: see [`place()`].
pub fn main_part<'a>(trace: &'a Trace, ledger: &Ledger, index: usize, near: &Near) -> MainPart<'a> {
    let gap = ledger.gap(index);
    let class = main_class(ledger, index);
    // Of each name its time in all, and its longest part.
    let mut names: HashMap<Option<&str>, (DurNs, GapPart)> = HashMap::new();
    for part in ledger.parts(index).filter(|part| part.class == class.0) {
        let (ns, longest) = names.entry(part.slice.map(|slice| trace.slice_name(slice))).or_insert((0, part));
        *ns += part.time.dur();
        if part.time.dur() > longest.time.dur() {
            *longest = part;
        }
    }
    let most = names.into_values().min_by_key(|(ns, part)| (Reverse(*ns), part.time.start));
    let part = most.map_or(GapPart { time: gap.time, class: class.0, slice: None }, |most| most.1);
    let place = place(trace, ledger, &gap, &part, near);
    MainPart { gap, class, part, place }
}

/// What is said of the slice of a part where no record shows by itself that it is of its class: the slice that it lies
/// around or in, and what the host waits in meanwhile. `None` where most of it is recorded. Cost: O(rows · log n).
pub fn inferred_name(trace: &Trace, part: &GapPart) -> Option<String> {
    let slice = part.slice.filter(|_| 2 * inferred_ns(trace, part) > part.time.dur())?;
    let own = trace.slices.time(slice).intersect(part.time).map_or(0, TimeRange::dur);
    let name = trace.slice_name(slice);
    Some(match waits_in(trace, part).map(|call| trace.slice_name(call)) {
        _ if 2 * own > part.time.dur() => format!("{name}; inferred"),
        Some(call) => format!("{call}; inferred, around {name}"),
        None => format!("Inferred, around {name}"),
    })
}

/// The class with most of a gap's time, and that time. Cost: O(parts).
pub(super) fn main_class(ledger: &Ledger, index: usize) -> (GapClass, DurNs) {
    let mut by_class = IdleByClass::default();
    ledger.parts(index).for_each(|part| by_class[part.class as usize] += part.time.dur());
    let class = GapClass::of_most(&by_class);
    (class, by_class[class as usize])
}

impl NamedGap {
    fn new(trace: &Trace, ledger: &Ledger, (index, near): (usize, &Near), offset: DurNs) -> Self {
        let gap = ledger.gap(index);
        let mut parts: Vec<NamedPart> = Vec::new();
        let mut known: HashMap<(GapClass, Option<&str>, Option<&str>), usize> = HashMap::new();
        for part in ledger.parts(index) {
            let name = part.slice.map(|slice| trace.slice_name(slice));
            let frame = frame(trace, ledger, &gap, &part, near);
            let at = *known.entry((part.class, name, frame)).or_insert(parts.len());
            if at == parts.len() {
                let [name, frame] = [name, frame].map(|text| text.map(str::to_owned));
                parts.push(NamedPart { class: part.class, name, frame, dur_ns: 0 });
            }
            parts[at].dur_ns += part.time.dur();
        }
        fold_smallest(&mut parts);
        let MainPart { part, place, .. } = main_part(trace, ledger, index, near);
        Self {
            rank: trace.info.rank,
            device: ledger.device,
            start_ns: gap.time.start.saturating_add(offset),
            dur_ns: gap.time.dur(),
            trigger: gap.trigger,
            ended_by: trace.slice_name(gap.ended_by).to_owned(),
            launched_by: trace.launch_of(gap.ended_by).map(|call| trace.slice_name(call).to_owned()),
            during: inferred_name(trace, &part)
                .unwrap_or_else(|| part.slice.map_or_else(String::new, |slice| trace.slice_name(slice).to_owned())),
            frame: place.frame.unwrap_or_default().to_owned(),
            parts,
        }
    }

    /// Its classes with their shares, the largest first: `sync 90 %, python 10 %`.
    fn summary(&self) -> String {
        let mut by_class: Vec<(DurNs, GapClass)> = Vec::new();
        for part in &self.parts {
            match by_class.iter_mut().find(|entry| entry.1 == part.class) {
                Some(entry) => entry.0 += part.dur_ns,
                None => by_class.push((part.dur_ns, part.class)),
            }
        }
        by_class.sort_by_key(|&(ns, class)| (-ns, class));
        let percent = |ns: DurNs| (ns as f64 * 100.0 / self.dur_ns.max(1) as f64).round();
        let shown = by_class.iter().take_while(|entry| percent(entry.0) >= 1.0);
        shown.map(|&(ns, class)| format!("{} {} %", class.key(), percent(ns))).collect::<Vec<_>>().join(", ")
    }
}

fn totals(totals: GapTotals) -> Cell {
    let entries = vec![("count", Cell::Count(totals.count)), ("total_ns", Cell::Ns(totals.total_ns))];
    Cell::Object(Box::new(Object(entries)))
}

/// A class as a cell of a table.
pub fn class_word(class: GapClass) -> Cell {
    static WORDS: std::sync::LazyLock<Vec<Word>> = std::sync::LazyLock::new(|| {
        let word = |class: GapClass| Word { rank: 0, key: class.key(), label: class.label() };
        GapClass::ALL.into_iter().map(word).collect()
    });
    Cell::Word(&WORDS[class as usize])
}

/// What the trigger of a gap is called, also where the synchronization is a call that frees memory.
pub fn trigger_label(trace: &Trace, gap: &Gap) -> Option<&'static str> {
    let trigger = gap.trigger?;
    Some(if is_of_freeing(trace, gap) { "Queue drained by freeing memory" } else { trigger.label() })
}

/// Whether what emptied the queue is a call that frees memory, which waits for the device.
pub fn is_of_freeing(trace: &Trace, gap: &Gap) -> bool {
    gap.trigger == Some(Trigger::Sync) && gap.trigger_slice.is_some_and(|slice| frees_memory(trace, slice))
}

/// A trigger as a cell of a table.
pub fn trigger_word(trigger: Trigger) -> Cell {
    static WORDS: std::sync::LazyLock<Vec<Word>> = std::sync::LazyLock::new(|| {
        let word = |trigger: Trigger| Word { rank: 0, key: trigger.key(), label: trigger.label() };
        Trigger::ALL.into_iter().map(word).collect()
    });
    Cell::Word(&WORDS[trigger as usize])
}

/// Gaps of devices. Micro and macro gaps sum to all, and so do the classes.
pub fn device_gaps<'a>() -> Part<DeviceGaps<'a>> {
    let figures = figures! { row: DeviceGaps<'a>;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.ledger.device)), "Index of the device";
        number "count", "Gaps", 70, Cell::Count(row.totals.all.count), "Times in which nothing runs on it";
        number "total_ns", "Total", 84, Cell::Ns(row.totals.all.total_ns), "Sum of their lengths: its idle time";
        number "theta_ns", "Micro below", 96, Cell::Ns(row.ledger.theta_ns),
            "The longest usual time between two pieces of work that were launched ahead; shorter gaps are micro gaps";
        number "micro_count", "Micro", 70, Cell::Count(row.totals.micro.count), "Gaps shorter than that";
        number "micro_ns", "Micro total", 84, Cell::Ns(row.totals.micro.total_ns), "Sum of their lengths";
        number "macro_count", "Macro", 70, Cell::Count(row.totals.macro_.count), "All longer ones";
        number "macro_ns", "Macro total", 84, Cell::Ns(row.totals.macro_.total_ns), "Sum of their lengths";
        number "operator_share", "With operator", 96, row.covered("operator_share"),
            "Part of the idle time at which an operator was open on the launching thread";
        number "frame_share", "With frame", 84, row.covered("frame_share"),
            "The same for a Python frame";
        number "launch_share", "Launches", 76, row.covered("launch_share"),
            "Part of the device's work whose launch is recorded";
        words "micro", "Micro", 0, totals(row.totals.micro), "Micro gaps together";
        words "macro", "Macro", 0, totals(row.totals.macro_), "Macro gaps together";
        words "by_class", "By class", 0, Cell::Object(Box::new(row.by_class())), "Parts of gaps by class";
        words "clusters", "Clusters", 0, Cell::List(Arc::clone(&row.clusters)), "Recurring gaps";
        words "top", "Longest", 0, Cell::List(Arc::clone(&row.top)), "The longest gaps";
        words "coverage", "Coverage", 0, Cell::Object(Box::new(row.coverage())), "What the recording can explain";
    };
    Part::new("gaps", "Gaps", figures)
        .report(
            "rank device count total_ns theta_ns micro_count micro_ns macro_count macro_ns operator_share frame_share \
             launch_share",
        )
        .json("rank device count total_ns micro macro theta_ns by_class top clusters coverage")
}

/// Idle time of devices by what went on meanwhile.
pub fn classes() -> Part<ClassGaps> {
    let figures = figures! { row: ClassGaps;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.device)), "Index of the device";
        words "class", "Meanwhile", 160, class_word(row.class), MEANWHILE;
        number "count", "Gaps", 70, Cell::Count(row.totals.count), "Gaps in which this went on";
        number "total_ns", "Total", 84, Cell::Ns(row.totals.total_ns), "Sum of these parts";
        number "share", "Share", 62, Cell::Share(row.share), "Part of the device's idle time";
    };
    Part::new("gap_classes", "Gaps by what went on meanwhile", figures).report("rank device count total_ns share class")
}

/// Single gaps.
pub fn gaps() -> Part<NamedGap> {
    let figures = figures! { row: NamedGap;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.device)), "Index of the device";
        number "start_ns", "Start", 100, Cell::Ns(row.start_ns), "When it begins";
        number "dur_ns", "Duration", 84, Cell::Ns(row.dur_ns), "How long nothing runs";
        words "causes", "Meanwhile", 220, Cell::text(&row.summary()), "What went on most of the time, with its share";
        words "name", "During", 200, Cell::text(&row.during), "The slice that explains most of it";
        words "frame", "Frame", 200, Cell::text(&row.frame), "Where the program was then";
        words "trigger", "Trigger", 120, Cell::or_empty(row.trigger, trigger_word), "The event that made it possible";
        words "ended_by", "Ended by", 200, Cell::name(&row.ended_by), "The work that ends it";
        words "launched_by", "Launched by", 140, Cell::text(row.launched_by.as_deref().unwrap_or_default()),
            "The call that launched that work";
        words "parts", "Parts", 0, Cell::List(Arc::new(parts().table(&row.parts, 0))),
            "What went on meanwhile, in order of time";
    };
    Part::new("top", "Longest gaps", figures)
        .report("rank device start_ns dur_ns causes trigger name frame ended_by")
        .json("start_ns dur_ns parts trigger ended_by launched_by")
}

fn parts() -> Part<NamedPart> {
    let figures: Vec<Figure<NamedPart>> = figures! { row: NamedPart;
        words "class", "Meanwhile", 120, class_word(row.class), MEANWHILE;
        number "dur_ns", "Duration", 84, Cell::Ns(row.dur_ns), "How long";
        words "name", "During", 200, Cell::text(row.name.as_deref().unwrap_or_default()), "The slice that explains it";
        words "frame", "Frame", 200, Cell::text(row.frame.as_deref().unwrap_or_default()), FRAME;
    };
    Part::new("parts", "Parts", figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::busy::devices;
    use crate::analysis::gaps::Ground;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn most_of_a_gap_is_of_the_class_with_most_time_also_where_another_part_is_the_longest() {
        const CALL: SliceKind = SliceKind::Runtime;
        let mut builder = TraceBuilder::from_slices(&[
            ("main", CALL, "cudaLaunchKernel", 0, 5_000),
            ("main", CALL, "cudaStreamSynchronize", 90_000, 130_000),
            ("main", SliceKind::PythonFunction, "train.py(3): tidy", 130_000, 170_000),
            ("main", CALL, "cudaEventSynchronize", 170_000, 200_000),
            ("main", CALL, "cudaLaunchKernel", 200_000, 205_000),
            ("stream 7", SliceKind::Kernel, "a", 50_000, 100_000),
            ("stream 7", SliceKind::Kernel, "b", 210_000, 250_000),
        ]);
        builder.slices[0].correlation = vec![1, 0, 0, 0, 2, 1, 2];
        let trace = builder.finish();
        let ledger = &Ground::new(&trace).ledgers(&devices(&trace), None, &|| false)[0];
        let gap = NamedGap::new(&trace, ledger, (0, &Near::new(&trace)), 0);
        let longest = gap.parts.iter().max_by_key(|part| part.dur_ns).and_then(|part| part.name.as_deref());
        assert_eq!((longest, gap.during.as_str()), (Some("train.py(3): tidy"), "cudaStreamSynchronize"));
        let main = main_part(&trace, ledger, 0, &Near::none());
        assert_eq!(main.part.slice.map(|slice| trace.slice_name(slice)), Some("cudaStreamSynchronize"));
    }

    #[test]
    fn what_is_inferred_is_said_so_with_what_the_host_waits_in() {
        const CALL: SliceKind = SliceKind::Driver;
        let during = |waits_until: i64| {
            let mut builder = TraceBuilder::from_slices(&[
                ("main", CALL, "cuLaunchKernel", 0, 5_000),
                ("main", CALL, "cuLibraryLoadData", 100_000, 150_000),
                ("main", SliceKind::Os, "waitpid", 160_000, waits_until),
                ("main", CALL, "cuLibraryGetKernel", 900_000, 950_000),
                ("main", CALL, "cuLaunchKernel", 960_000, 965_000),
                ("stream 7", SliceKind::Kernel, "a", 50_000, 100_000),
                ("stream 7", SliceKind::Kernel, "b", 970_000, 990_000),
            ]);
            builder.slices[0].correlation = vec![1, 0, 0, 0, 2, 1, 2];
            let trace = builder.finish();
            let ledger = &Ground::new(&trace).ledgers(&devices(&trace), None, &|| false)[0];
            NamedGap::new(&trace, ledger, (0, &Near::new(&trace)), 0).during
        };
        assert_eq!(during(890_000), "waitpid; inferred, around cuLibraryGetKernel");
        assert_eq!(during(200_000), "Inferred, around cuLibraryGetKernel", "it waits for a part of it");
    }
}
