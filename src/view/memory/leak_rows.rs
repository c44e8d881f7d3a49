//! What grows, what does not, and what has more at the end, as tables.

use std::sync::Arc;

use crate::analysis::memory::leaks::{Gain, Innocent, Severity, Suspect, Verdict};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::model::Trace;
use crate::view::tables::Answer as Table;
use crate::widget::table::{Cell, Column, Data};

/// Makes rows of places in a program.
#[derive(Clone, Copy, Debug)]
pub struct LeakRows<'a> {
    pub trace: &'a Trace,
    pub signatures: &'a Signatures,
}

/// The columns that name a place stand behind this many, where they are seen without scrolling.
const BEHIND: usize = 2;

fn column(title: &'static str, key: &'static str, help: &'static str, width: u16, is_text: bool) -> Column {
    Column { title, key, help, width, is_text }
}

impl LeakRows<'_> {
    /// What is suspected to leak.
    pub fn suspects(&self, suspects: &[Suspect]) -> Arc<Table> {
        let columns = vec![
            column("Severity", "severity", "High from 100 MB gained in all, medium from 10 MB", 70, true),
            column(
                "Growth a step",
                "bytes_per_step",
                "Theil and Sen's slope of its live bytes at the ends of steps; the mean gain if it grows in some steps only",
                100,
                false,
            ),
            column(
                "Growth",
                "growth_bytes",
                "Live bytes at the last step less those at the first that counts",
                90,
                false,
            ),
            column("Share", "slope_share", "Its share of the growth of all suspects", 60, false),
            column("Rising", "monotonic", "Share of steps after which it has more", 60, false),
            column("R²", "r2", "How well a straight line fits its growth", 60, false),
            column("Survivors", "survivors", "Blocks that outlived their own step by another whole one", 76, false),
            column("Of steps", "survivor_steps", "From how many different steps they are", 66, false),
        ];
        let row = |suspect: &Suspect| {
            let severity = match suspect.severity {
                Severity::Low => Cell::Rank(0, "Low"),
                Severity::Medium => Cell::Rank(1, "Medium"),
                Severity::High => Cell::Rank(2, "High"),
            };
            let cells = vec![
                severity,
                Cell::Bytes(suspect.bytes_per_step.round() as i64),
                Cell::Bytes(suspect.growth_bytes),
                Cell::Share(suspect.slope_share),
                Cell::Share(suspect.monotonic),
                Cell::Share(suspect.r2),
                Cell::Count(suspect.survivors),
                Cell::Count(suspect.survivor_steps as u64),
            ];
            self.placed(cells, suspect.signature)
        };
        table(columns, suspects.iter().map(row).collect())
    }

    /// What is no suspect, with the reason.
    pub fn innocents(&self, innocents: &[Innocent]) -> Arc<Table> {
        let columns = vec![
            column("Live at the end", "live_bytes", "Live bytes at the last boundary of steps", 100, false),
            column("Verdict", "verdict", "Why it is no suspect", 220, true),
        ];
        let row = |innocent: &Innocent| {
            let verdict = match innocent.verdict {
                Verdict::Setup => "Set up before the steps that count",
                Verdict::WarmUpCache => "A cache that filled up",
                Verdict::Released => "Grows for some steps, then is given back",
                Verdict::GrowingBuffer => "One buffer, replaced by a larger one each step",
                Verdict::Offset => "Another place gives up as much",
            };
            self.placed(vec![Cell::Bytes(innocent.bytes), Cell::text(verdict)], innocent.signature)
        };
        table(columns, innocents.iter().map(row).collect())
    }

    /// What has more at the end than at the start.
    pub fn gains(&self, gains: &[Gain]) -> Arc<Table> {
        let columns = vec![
            column("Growth", "growth_bytes", "Live bytes at the end less those at the start", 100, false),
            column("Blocks", "blocks", "How many blocks more, or fewer", 70, false),
        ];
        let row = |gain: &Gain| {
            let cells = vec![Cell::Bytes(gain.bytes), Cell::Change(gain.count)];
            self.placed(cells, gain.signature)
        };
        table(columns, gains.iter().map(row).collect())
    }

    /// The row with the cells that name its place.
    fn placed(&self, mut cells: Vec<Cell>, signature: SignatureId) -> Vec<Cell> {
        let label = self.signatures.label(self.trace, signature).unwrap_or_default();
        let stack = self.signatures.frames(self.trace, signature).join("; ");
        cells.splice(BEHIND..BEHIND, [Cell::frames(&label), Cell::frames(&stack)]);
        cells
    }
}

fn table(mut columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Arc<Table> {
    let place = [
        column("Where", "frame", "The frame that says most: the innermost of the person's own program", 300, true),
        column("Stack", "stack", "The whole call stack, innermost frame first", 300, true),
    ];
    columns.splice(BEHIND..BEHIND, place);
    Arc::new(Table { data: Data { columns, rows }, ..Table::default() })
}
