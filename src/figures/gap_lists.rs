//! Figures of idle time by what went on meanwhile and of recurring gaps, as the window lists them.

use super::gaps::{FRAME, MEANWHILE, class_word};
use super::makeup::cause_word;
use super::{Cell, Part, figures};
use crate::analysis::gaps::GapClass;
use crate::analysis::gaps::clusters::Spread;
use crate::analysis::rules::Cause;
use crate::model::DurNs;

/// Time in which one thing went on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRow {
    pub class: GapClass,
    /// Gaps with a part of it.
    pub count: u64,
    pub total_ns: DurNs,
    /// Its longest part.
    pub longest_ns: DurNs,
    /// All idle time.
    pub idle_ns: DurNs,
}

impl ClassRow {
    /// No time of a class.
    pub fn new(class: GapClass) -> Self {
        Self { class, ..Self::default() }
    }
}

/// Idle time by what went on meanwhile.
pub fn by_class() -> Part<ClassRow> {
    let figures = figures! { row: ClassRow;
        words "class", "Meanwhile", 220, class_word(row.class), MEANWHILE;
        number "count", "Gaps", 90, Cell::Count(row.count), "Gaps in which this went on";
        number "total_ns", "Total", 100, Cell::Ns(row.total_ns), "Sum of these parts, within the selected range if \
            there is one";
        number "share", "Of idle time", 100, Cell::Share(row.total_ns as f64 / row.idle_ns.max(1) as f64),
            "Share of all idle time";
        number "longest_ns", "Longest part", 100, Cell::Ns(row.longest_ns),
            "The longest time without a pause in which this went on in one gap, which may be longer; of a selected \
             range what lies within it. A click shows that gap";
    };
    Part::new("gap_causes", "Idle time by what went on meanwhile", figures)
}

/// One cluster of gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterRow {
    /// Empty if there is one device only.
    pub device: String,
    pub prev: String,
    pub next: String,
    /// What would end most of it.
    pub cause: Cause,
    pub class: GapClass,
    pub operator: String,
    pub frame: String,
    pub count: u64,
    pub total_ns: DurNs,
    pub ns_per_step: Option<DurNs>,
    pub ceiling_ns_per_step: Option<DurNs>,
    /// In how many steps it is present, of how many.
    pub steps: Option<(usize, usize)>,
    /// Of the total, within the selected range; `None` without one.
    pub within_ns: Option<DurNs>,
    pub spread: Spread,
}

impl ClusterRow {
    /// Whether each word, in lower case, occurs in one of its names.
    pub fn fits(&self, words: &[String]) -> bool {
        let names = [&self.prev, &self.next, &self.operator, &self.frame].map(String::as_str);
        let texts = [self.cause.label(), self.class.label(), self.class.key()].into_iter().chain(names);
        let texts: Vec<String> = texts.map(str::to_lowercase).collect();
        words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str())))
    }
}

/// Of figures that no range limits, said where one is selected.
const OF_WHOLE: [(&str, &str, &str); 3] = [
    (
        "ns_per_step",
        "Per step, whole trace",
        "Of the whole trace, not of the range: the sum of these gaps in the judged steps, divided by their number",
    ),
    (
        "ceiling_ns_per_step",
        "Ceiling, whole trace",
        "Of the whole trace, not of the range: what ending the cause would save of a step at most, on this device",
    ),
    ("steps_present", "In steps, whole trace", "Of the whole trace, not of the range: steps in which it occurs"),
];

/// Recurring gaps. What names them stands before the details, which a narrow window leaves out of sight.
///
/// * `has_range`: whether the rows are those of a selected range.
pub fn clusters(has_range: bool) -> Part<ClusterRow> {
    let mut figures = figures! { row: ClusterRow;
        words "cause", "Cause", 128, cause_word(row.cause),
            "What would have to change to end most of it, as the overview lists the idle time";
        words "class", "Meanwhile", 128, class_word(row.class), MEANWHILE;
        words "device", "Device", 80, Cell::text(&row.device), "The device that waits";
        number "ns_per_step", "Per step", 90, Cell::or_empty(row.ns_per_step, Cell::Ns),
            "Sum of these gaps in the judged steps, divided by their number";
        number "ceiling_ns_per_step", "Ceiling", 90, Cell::or_empty(row.ceiling_ns_per_step, Cell::Ns),
            "What ending the cause would save of a step at most, on this device";
        number "steps_present", "In steps", 70, Cell::or_empty(row.steps, |(n, all)| Cell::Of(n as u64, all as u64)),
            "Steps in which it occurs";
        number "count", "Gaps", 60, Cell::Count(row.count),
            "How many in the whole recording, or in the selected range if there is one";
        number "total_ns", "Total", 90, Cell::Ns(row.total_ns),
            "Sum of their durations, also of those outside of the judged steps";
        number "in_range_ns", "In range", 90, Cell::or_empty(row.within_ns, Cell::Ns),
            "Their time within the selected range; the total and what follows from it are of whole gaps";
        words "operator", "Operator", 140, Cell::text(&row.operator), "The innermost operator at that time";
        words "frame", "Frame", 190, Cell::text(&row.frame), FRAME;
        words "prev", "After", 170, Cell::text(&row.prev), "The work before it";
        words "next", "Ended by", 170, Cell::text(&row.next), "The work that ends it";
        number "mean_ns", "Mean", 86, Cell::Ns(row.spread.mean_ns), "Mean duration of these gaps";
        number "p95_ns", "95 %", 86, Cell::Ns(row.spread.p95_ns), "95 % of these gaps are at most as long";
        number "variation", "Variation", 76, Cell::Plain(row.spread.variation),
            "Standard deviation of the durations, divided by their mean";
    };
    for column in figures.iter_mut().map(|figure| &mut figure.column).filter(|_| has_range) {
        if let Some((_, title, help)) = OF_WHOLE.into_iter().find(|of| of.0 == column.key) {
            (column.title, column.help) = (title, help);
        }
    }
    Part::new("gap_clusters", "Clusters", figures)
}
