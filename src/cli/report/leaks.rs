//! What grows from step to step: `growth`, `leaks`, `no_leaks` and `gains` of the part `memory`.

use super::keys::{Cut, Gain, Growth, Innocent, Leak, Memory};
use super::memory::{DEVICE, STACK, device};
use super::table::{Cell, Table, text};
use crate::analysis::memory::leaks::{self, Severity, Suspect, Thresholds, Total};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::analysis::memory::steps::{Steps, steps};
use crate::analysis::stacks::NO_STACK;
use crate::model::{MemoryHistory, Trace};

/// The keys of [`Memory`] that tell of growth.
pub struct Growing {
    pub growth: Option<Growth>,
    pub leaks: Cut<Leak>,
    pub worst_leak: Option<Severity>,
    pub no_leaks: Cut<Innocent>,
    pub gains: Cut<Gain>,
    pub confidence: &'static str,
    pub doubts: Vec<String>,
}

impl Growing {
    /// * `top`: rows of each list; 0 keeps all.
    pub fn of(trace: &Trace, history: &MemoryHistory, signatures: &Signatures, top: usize) -> Self {
        let steps = steps(trace, history, &|| false);
        let (limit, thresholds) = (leaks::capacity(trace, history), Thresholds::default());
        let (other, found) = leaks::leaks(trace, history, signatures, steps.as_ref(), limit, &thresholds, &|| false);
        let signatures = other.as_ref().unwrap_or(signatures);
        let place = |signature: SignatureId| {
            let stack = signatures.frames(trace, signature).into_iter().map(String::from).collect();
            (stack, signatures.label(trace, signature).unwrap_or_default().into_owned())
        };
        let innocent = |one: &leaks::Innocent| {
            let (stack, label) = place(one.signature);
            Innocent { stack, label, bytes: one.bytes, verdict: one.verdict.key() }
        };
        let gain = |one: &leaks::Gain| {
            let (stack, label) = place(one.signature);
            Gain { stack, label, bytes: one.bytes, count: one.count }
        };
        let growth = found.total.zip(steps.as_ref()).map(|(total, steps)| growth(&total, steps, found.warm_up));
        Self {
            growth,
            worst_leak: found.suspects.iter().map(|suspect| suspect.severity).max(),
            leaks: Cut::new(found.suspects.iter().map(|suspect| leak(suspect, place(suspect.signature))), top),
            no_leaks: Cut::new(found.innocents.iter().map(innocent), top),
            gains: Cut::new(found.gains.iter().map(gain), top),
            confidence: found.confidence.key(),
            doubts: found.doubts,
        }
    }
}

fn growth(total: &Total, steps: &Steps, warm_up: usize) -> Growth {
    Growth {
        verdict: total.verdict.key(),
        step_source: steps.source.label(),
        steps: steps.len() as u64,
        warm_up: warm_up as u64,
        bytes_per_step: total.trend.slope.round() as i64,
        peak_bytes_per_step: total.peak_trend.slope.round() as i64,
        reserved_bytes_per_step: total.reserved_trend.slope.round() as i64,
        growth_bytes: total.growth_bytes,
        alarm: total.is_alarm,
        steps_to_oom: total.steps_to_oom,
    }
}

fn leak(suspect: &Suspect, (stack, label): (Vec<String>, String)) -> Leak {
    Leak {
        stack,
        label,
        bytes_per_step: suspect.bytes_per_step.round() as i64,
        growth_bytes: suspect.growth_bytes,
        survivors: suspect.survivors,
        monotonic: suspect.monotonic,
        r2: suspect.r2,
        score: suspect.score,
        severity: suspect.severity.key(),
        verdict: "leak",
    }
}

pub fn growth_table(memories: &[Memory]) -> Table {
    let columns = [
        ("rank", "Rank"),
        DEVICE,
        ("verdict", "Verdict"),
        ("steps", "Steps"),
        ("warm_up", "Warm-up"),
        ("bytes_per_step", "Gain a step"),
        ("peak_bytes_per_step", "Gain of peaks"),
        ("reserved_bytes_per_step", "Gain of reserved"),
        ("growth_bytes", "Gain in all"),
        ("alarm", "Alarm"),
        ("steps_to_oom", "Steps until full"),
        ("step_source", "Steps by"),
        ("doubts", "Doubts"),
    ];
    let mut table = Table::new("growth", "Growth of memory", &columns);
    for memory in memories {
        let Some(growth) = &memory.growth else { continue };
        let mut row = Vec::from(device(memory));
        row.extend([text(growth.verdict), Cell::Count(growth.steps), Cell::Count(growth.warm_up)]);
        row.extend(
            [growth.bytes_per_step, growth.peak_bytes_per_step, growth.reserved_bytes_per_step].map(Cell::Change),
        );
        row.extend([Cell::Change(growth.growth_bytes), text(if growth.alarm { "yes" } else { "no" })]);
        row.push(growth.steps_to_oom.map_or(Cell::Empty, |steps| Cell::Count(steps as u64)));
        row.extend([text(&growth.step_source), text(&memory.doubts.join(". "))]);
        table.rows.push(row);
    }
    table
}

pub fn leaks_table(memories: &[Memory]) -> Table {
    let columns = [
        ("rank", "Rank"),
        DEVICE,
        ("verdict", "Verdict"),
        ("severity", "Severity"),
        ("bytes_per_step", "Gain a step"),
        ("growth_bytes", "Gain in all"),
        ("survivors", "Survivors"),
        ("monotonic", "Steps with gain"),
        ("r2", "R²"),
        STACK,
    ];
    let row = |leak: &Leak| {
        let mut row = vec![text(leak.verdict), text(leak.severity)];
        row.extend([leak.bytes_per_step, leak.growth_bytes].map(Cell::Change));
        row.extend([Cell::Count(leak.survivors), Cell::Share(leak.monotonic), Cell::Plain(leak.r2)]);
        row.push(named(&leak.label));
        row
    };
    listed(Table::new("leaks", "Leaks", &columns), memories, |memory| &memory.leaks, row)
}

pub fn no_leaks_table(memories: &[Memory]) -> Table {
    let columns = [("rank", "Rank"), DEVICE, ("verdict", "Verdict"), ("bytes", "Size"), STACK];
    let row = |one: &Innocent| vec![text(one.verdict), Cell::Change(one.bytes), named(&one.label)];
    listed(Table::new("no_leaks", "No leaks", &columns), memories, |memory| &memory.no_leaks, row)
}

pub fn gains_table(memories: &[Memory]) -> Table {
    let columns = [("rank", "Rank"), DEVICE, ("bytes", "Gain"), ("count", "Blocks more"), STACK];
    let row = |gain: &Gain| vec![Cell::Change(gain.bytes), text(&format!("{:+}", gain.count)), named(&gain.label)];
    listed(Table::new("gains", "More at the end than at the start", &columns), memories, |memory| &memory.gains, row)
}

fn named(label: &str) -> Cell {
    text(if label.is_empty() { NO_STACK } else { label })
}

fn listed<T>(
    mut table: Table,
    memories: &[Memory],
    list: fn(&Memory) -> &Cut<T>,
    row: impl Fn(&T) -> Vec<Cell>,
) -> Table {
    for memory in memories {
        table.n_hidden += list(memory).n_hidden;
        let rows = list(memory).shown.iter().map(|one| device(memory).into_iter().chain(row(one)).collect());
        table.rows.extend(rows);
    }
    table
}
