//! Figures of recurring gaps.

use super::gaps::{FRAME, MEANWHILE, class_word, trigger_word};
use super::makeup::cause_word;
use super::text::shortened;
use super::{Cell, Part, figures};
use crate::analysis::gaps::ceiling::{Ceiling, mean_step_ns};
use crate::analysis::gaps::clusters::{Clusters, GapCluster, NameId};
use crate::analysis::gaps::{BACKWARD_NODE, Ledger};
use crate::analysis::rules::{Cause, main_cause};
use crate::analysis::steps::Steps;
use crate::model::{DurNs, Trace};

/// Longest names in flat reports, in characters: a row fits into 120.
const MAX_WORK: usize = 20;
const MAX_PLACE: usize = 32;

/// One cluster of a device.
#[derive(Clone, Copy, Debug)]
pub struct NamedCluster<'a> {
    file: Option<&'a str>,
    rank: Option<u32>,
    clusters: &'a Clusters,
    cluster: &'a GapCluster,
    /// What would end most of its time.
    cause: Cause,
    /// Mean duration of the steps.
    step_ns: Option<DurNs>,
}

/// The clusters of a device that have at least two gaps: those with most time in steps first, then by their time in
/// all.
///
/// * `file`: where the rank is ambiguous.
pub fn rows<'a>(
    (file, rank): (Option<&'a str>, Option<u32>),
    (trace, ledger): (&Trace, &Ledger),
    clusters: &'a Clusters,
    steps: Option<&Steps>,
) -> Vec<NamedCluster<'a>> {
    let step_ns = steps.and_then(|steps| mean_step_ns(steps, clusters.process));
    let row = |cluster| {
        let cause = main_cause(trace, ledger, steps, clusters.gaps(cluster));
        NamedCluster { file, rank, clusters, cluster, cause, step_ns }
    };
    let mut rows: Vec<_> = clusters.recurring().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.cluster.sum.in_steps_ns));
    rows
}

impl NamedCluster<'_> {
    fn name(&self, of: fn(&GapCluster) -> NameId) -> &str {
        self.clusters.name(of(self.cluster))
    }

    fn ns_per_step(&self) -> Option<DurNs> {
        self.cluster.sum.ns_per_step(self.clusters.n_steps)
    }

    fn ceiling(&self) -> Option<Ceiling> {
        let ns_per_step = self.cluster.sum.ceiling_ns_per_step(self.clusters.n_steps)?;
        Some(Ceiling { ns_per_step, step_ns: self.step_ns? })
    }

    /// How many more steps, where something recorded would end any of it.
    fn more_steps(&self) -> Option<f64> {
        let ceiling = self.ceiling().filter(|ceiling| ceiling.ns_per_step > 0);
        ceiling.map(|ceiling| ceiling.throughput_percent() / 100.0)
    }

    fn recorder(&self) -> Option<DurNs> {
        self.cluster.sum.recorder_ns_per_step(self.clusters.n_steps)
    }

    fn steps_present(&self) -> Option<u64> {
        (self.clusters.n_steps > 0).then_some(self.cluster.sum.steps_present as u64)
    }

    /// `5/6`: present in five of six steps.
    fn steps(&self) -> String {
        self.steps_present().map_or_else(String::new, |present| format!("{present}/{}", self.clusters.n_steps))
    }

    /// The frame and the operator.
    fn place(&self) -> String {
        place(self.name(|cluster| cluster.frame), self.clusters.op(self.cluster))
    }
}

/// A frame and an operator in few characters. The operator is named as tables of operators name it where there is room.
fn place(frame: &str, op: &str) -> String {
    let op = op.strip_prefix(BACKWARD_NODE).unwrap_or(op);
    let frame = last_part(frame);
    let between = if frame.is_empty() { 0 } else { 2 };
    let length = |text: &str| text.chars().count();
    let op = if length(frame) + between + length(op) <= MAX_PLACE { op } else { last_part(op) };
    match (frame, op) {
        ("", one) | (one, "") => shortened(one, MAX_PLACE),
        _ => {
            let room = MAX_PLACE - 2;
            let of_op = length(op).min((room / 2).max(room.saturating_sub(length(frame))));
            format!("{}, {}", shortened(frame, room - of_op), shortened(op, of_op))
        }
    }
}

/// The last part of a scoped or a file name.
fn last_part(name: &str) -> &str {
    let last = if name.contains(' ') { name } else { name.rsplit("::").next().unwrap_or(name) };
    last.rsplit('/').next().unwrap_or(last)
}

/// Recurring gaps.
pub fn clusters<'a>() -> Part<NamedCluster<'a>> {
    let figures = figures! { row: NamedCluster<'a>;
        words "file", "File", 140, Cell::or_empty(row.file, Cell::name), "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.clusters.device)), "Index of the device";
        number "count", "Gaps", 58, Cell::Count(row.cluster.sum.count),
            "Gaps between the same work, while the same went on at the same place";
        words "steps", "Steps", 58, Cell::text(&row.steps()), "In how many of the judged steps they occur";
        number "total_ns", "Total", 84, Cell::Ns(row.cluster.sum.total_ns),
            "Sum of their lengths, also of those outside of the judged steps";
        number "ns_per_step", "Per step", 84, Cell::or_empty(row.ns_per_step(), Cell::Ns), "Sum of those in the judged steps, \
            divided by their number";
        number "mean_ns", "Mean", 84, Cell::Ns(row.cluster.spread.mean_ns), "Mean length";
        number "p95_ns", "95 %", 84, Cell::Ns(row.cluster.spread.p95_ns), "Length that 95 % of them do not exceed";
        number "variation", "Variation", 70, Cell::Plain(row.cluster.spread.variation),
            "Standard deviation of their lengths over the mean";
        number "at_most", "Max. more steps", 110, Cell::or_empty(row.more_steps(), Cell::Share),
            "How many more steps the same time could hold at most if their causes ended, as a share of the steps it \
             holds now: T / (T - R) - 1 for steps of T and recoverable time R. It exceeds the share of time R / T, \
             since it counts from the shorter step. An upper bound, not a forecast. Empty where nothing that was recorded \
            would end them";
        number "ceiling_ns_per_step", "Ceiling", 84, Cell::or_empty(row.ceiling(), |gain| Cell::Ns(gain.ns_per_step)),
            "Recoverable time per step: without launch latency (unless launches only just keep up), queues, graphs, \
             the profiler, and time of which nothing was recorded, which ending their causes would not save";
        number "recorder_ns_per_step", "Recorder", 84, Cell::or_empty(row.recorder(), Cell::Ns),
            "The recorder's part of that time, at least, which is not in the ceiling: without the recorder the program \
             does not wait for it";
        words "cause", "Cause", 120, cause_word(row.cause),
            "What would have to change to end most of their time, as in the idle time by cause";
        words "class", "Meanwhile", 120, class_word(row.cluster.class), MEANWHILE;
        words "trigger", "Trigger", 120, Cell::or_empty(row.cluster.trigger, trigger_word),
            "The event that made most of their time possible";
        words "until", "Before", 160, Cell::text(&shortened(last_part(row.name(|cluster| cluster.next)), MAX_WORK)),
            "The work that ends them";
        words "place", "At", 160, Cell::text(&row.place()), "The innermost Python frame in which the host was, of \
            the user's program where it has one, and the operator";
        words "prev", "Previous", 160, Cell::name(row.name(|cluster| cluster.prev)), "The work before";
        words "next", "Next", 160, Cell::name(row.name(|cluster| cluster.next)), "The work after";
        words "op", "Operator", 160, Cell::text(row.clusters.op(row.cluster)), "The innermost operator or named range";
        words "frame", "Frame", 160, Cell::text(row.name(|cluster| cluster.frame)), FRAME;
        number "steps_present", "Steps present", 84, Cell::or_empty(row.steps_present(), Cell::Count),
            "Steps in which they occur";
    };
    Part::new("clusters", "Recurring gaps", figures)
        .report("file rank device count steps total_ns ns_per_step at_most cause class until place")
        .json(
            "prev next cause class op frame trigger count total_ns mean_ns p95_ns ns_per_step steps_present \
               ceiling_ns_per_step recorder_ns_per_step",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_keeps_its_namespace_where_there_is_room() {
        assert_eq!(place("", "aten::_foreach_mul_"), "aten::_foreach_mul_");
        assert_eq!(place("src/train.py(7): step", "aten::mm"), "train.py(7): step, aten::mm");
        assert_eq!(place("", &format!("{BACKWARD_NODE}MmBackward0")), "MmBackward0");
        let long = place("models/layers/attention.py(1207): forward", "aten::scaled_dot_product_attention");
        assert!(long.chars().count() <= MAX_PLACE && !long.contains("aten"), "{long}");
    }
}
