//! Gaps as rows of a table, made when they come on screen.

use std::borrow::Cow;
use std::sync::Arc;

use super::gaps::{FRAME, MainPart, class_word, inferred_name, main_class, main_part, trigger_label};
use super::natural::Natural;
use super::text::telling;
use super::{Cell, Column, Rows, Sort};
use crate::analysis::gaps::{Ledger, Near};
use crate::model::{DurNs, SliceId, TimeRange, Trace};

/// What a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Duration,
    InRange,
    Start,
    Device,
    Cause,
    CauseShare,
    Name,
    Operator,
    Frame,
    Trigger,
    After,
    EndedBy,
}

/// A device whose gaps are listed.
#[derive(Clone, Debug)]
pub struct GapDevice {
    pub trace: Arc<Trace>,
    /// Index of the trace among the open ones.
    pub index: usize,
    /// What to add to the trace's times to get session times.
    pub offset_ns: DurNs,
    pub ledgers: Arc<Vec<Ledger>>,
    /// Index into `ledgers`.
    pub ledger: usize,
    pub title: String,
}

/// One listed gap: indices of the device and of the gap in its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GapRow {
    pub device: u32,
    pub gap: u32,
}

/// Gaps of some devices.
#[derive(Debug)]
pub struct GapRows {
    pub devices: Vec<GapDevice>,
    /// By device, then time.
    pub gaps: Vec<GapRow>,
    /// The selected range in session time.
    range: Option<TimeRange>,
    columns: Vec<Column>,
    kinds: Vec<Kind>,
}

impl GapDevice {
    pub fn ledger(&self) -> &Ledger {
        &self.ledgers[self.ledger]
    }
}

impl GapRows {
    /// * `range`: the selected range in session time, with which all gaps share time.
    /// * Cost: O(gaps).
    pub fn new(devices: Vec<GapDevice>, gaps: Vec<GapRow>, range: Option<TimeRange>) -> Self {
        let column = |title, key, width, is_text, help| Column { key, title, width, is_text, help };
        let mut columns = vec![
            (Kind::Duration, column("Duration", "dur_ns", 90, false, "How long nothing runs on the device")),
            (Kind::InRange, column("In range", "in_range_ns", 90, false, "Its part within the selected range")),
            (Kind::Start, column("Start", "start_ns", 96, false, "When it begins, from the start of the session")),
            (Kind::Device, column("Device", "device", 80, true, "The device that waits")),
            (
                Kind::Cause,
                column(
                    "Meanwhile",
                    "class",
                    128,
                    true,
                    "What went on during most of it: what the host did, or what held up the work",
                ),
            ),
            (Kind::CauseShare, column("Share", "class_share", 62, false, "Share of the gap that this takes")),
            (
                Kind::Name,
                column("During", "name", 170, true, "Of that, the call, operator or work that takes most of the time"),
            ),
            (Kind::Operator, column("Operator", "operator", 150, true, "The innermost operator at that time")),
            (Kind::Frame, column("Frame", "frame", 210, true, FRAME)),
            (Kind::Trigger, column("Trigger", "trigger", 150, true, "The event that made the gap possible")),
            (Kind::After, column("After", "after", 190, true, "The work that ran last before it")),
            (Kind::EndedBy, column("Ended by", "ended_by", 190, true, "The work that ends it")),
        ];
        let is_known = |ns: fn(&Ledger) -> DurNs| devices.iter().any(|device| ns(device.ledger()) > 0);
        columns.retain(|(kind, _)| match kind {
            Kind::Device => devices.len() > 1,
            Kind::InRange => range.is_some(),
            Kind::Operator => is_known(|ledger| ledger.coverage.operator_ns),
            Kind::Frame => is_known(|ledger| ledger.coverage.frame_ns),
            _ => true,
        });
        let (kinds, columns) = columns.into_iter().unzip();
        Self { devices, gaps, range, columns, kinds }
    }

    /// The row of a gap. Cost: O(log n).
    pub fn row_of(&self, gap: GapRow) -> Option<usize> {
        self.gaps.binary_search(&gap).ok()
    }

    /// The part of a gap within the range, in nanoseconds.
    fn within(&self, device: &GapDevice, time: TimeRange) -> DurNs {
        let range = self.range.map_or(TimeRange::ALL, |range| range.shifted(device.offset_ns.saturating_neg()));
        time.intersect(range).map_or(0, TimeRange::dur)
    }

    fn cell(&self, kind: Kind, row: GapRow, main: &MainPart<'_>) -> Cell {
        let device = &self.devices[row.device as usize];
        let name = |slice: SliceId| Cell::name(device.trace.slice_name(slice));
        match kind {
            Kind::Duration => Cell::Ns(main.gap.time.dur()),
            Kind::InRange => Cell::Ns(self.within(device, main.gap.time)),
            Kind::Start => Cell::Moment(main.gap.time.start.saturating_add(device.offset_ns)),
            Kind::Device => Cell::text(&device.title),
            Kind::Cause => class_word(main.class.0),
            Kind::CauseShare => Cell::Share(main.class.1 as f64 / main.gap.time.dur().max(1) as f64),
            Kind::Name => match inferred_name(&device.trace, &main.part) {
                Some(text) => Cell::text(&text),
                None => Cell::or_empty(main.part.slice, name),
            },
            Kind::Operator => Cell::or_empty(main.place.operator, name),
            Kind::Frame => Cell::text(main.place.frame.unwrap_or_default()),
            Kind::Trigger => Cell::text(trigger_label(&device.trace, &main.gap).unwrap_or_default()),
            Kind::After => name(main.gap.after),
            Kind::EndedBy => name(main.gap.ended_by),
        }
    }

    /// The rows by a key; those without one come last either way. `None` if `goes_on` says so.
    fn by_key<'a, K: Ord>(
        &'a self,
        is_descending: bool,
        goes_on: &dyn Fn(usize) -> bool,
        key: impl Fn(&'a GapDevice, usize) -> Option<K>,
    ) -> Option<Vec<u32>> {
        let mut keyed: Vec<(Option<K>, u32)> = Vec::with_capacity(self.gaps.len());
        for (row, &GapRow { device, gap }) in (0..).zip(&self.gaps) {
            if row % 1024 == 0 && !goes_on(row as usize) {
                return None;
            }
            keyed.push((key(&self.devices[device as usize], gap as usize), row));
        }
        keyed.sort_by(|(a, _), (b, _)| match (a, b) {
            (Some(a), Some(b)) if is_descending => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            _ => a.is_none().cmp(&b.is_none()),
        });
        Some(keyed.into_iter().map(|(_, row)| row).collect())
    }

    /// The rows in order, as [`Rows::order`] has them.
    ///
    /// * `goes_on`: told every thousand rows how many have a key; if it is false, the work ends and there is no order.
    ///
    /// Cost: O(n log n); by operator and frame a look-up in the trace for each gap as well.
    pub fn sorted(&self, sort: Option<Sort>, goes_on: &dyn Fn(usize) -> bool) -> Option<Vec<u32>> {
        let by_column = sort.and_then(|sort| Some((*self.kinds.get(sort.column)?, sort.is_descending)));
        let Some((kind, is_descending)) = by_column else { return Some((0..self.gaps.len() as u32).collect()) };
        let time = |device: &GapDevice, gap: usize| device.ledger().gap(gap).time;
        let class = |device: &GapDevice, gap: usize| main_class(device.ledger(), gap);
        match kind {
            Kind::Duration => self.by_key(is_descending, goes_on, |device, gap| Some(time(device, gap).dur())),
            Kind::InRange => {
                self.by_key(is_descending, goes_on, |device, gap| Some(self.within(device, time(device, gap))))
            }
            Kind::Start => self.by_key(is_descending, goes_on, |device, gap| {
                Some(time(device, gap).start.saturating_add(device.offset_ns))
            }),
            Kind::CauseShare => self.by_key(is_descending, goes_on, |device, gap| {
                // In thousandths of a percent.
                Some(class(device, gap).1 as i128 * 100_000 / i128::from(time(device, gap).dur().max(1)))
            }),
            Kind::Cause => self.by_key(is_descending, goes_on, |device, gap| Some(class(device, gap).0.label())),
            Kind::Device => self.by_key(is_descending, goes_on, |device, _| Some(Natural(&*device.title))),
            Kind::Trigger => self
                .by_key(is_descending, goes_on, |device, gap| trigger_label(&device.trace, &device.ledger().gap(gap))),
            Kind::After | Kind::EndedBy => self.by_key(is_descending, goes_on, |device, gap| {
                let gap = device.ledger().gap(gap);
                Some(Natural(telling(device.trace.slice_name(if kind == Kind::After {
                    gap.after
                } else {
                    gap.ended_by
                }))))
            }),
            Kind::Name | Kind::Operator | Kind::Frame => self.by_key(is_descending, goes_on, |device, gap| {
                let main = main_part(&device.trace, device.ledger(), gap, &Near::none());
                let name = |slice: SliceId| Natural(telling(device.trace.slice_name(slice)));
                let inferred = || inferred_name(&device.trace, &main.part).map(|text| Natural(Cow::Owned(text)));
                match kind {
                    Kind::Name => inferred().or_else(|| main.part.slice.map(name)),
                    Kind::Operator => main.place.operator.map(name),
                    _ => main.place.frame.map(|frame| Natural(telling(frame))),
                }
            }),
        }
    }
}

impl Rows for GapRows {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn n_rows(&self) -> usize {
        self.gaps.len()
    }

    fn row(&self, row: usize) -> Cow<'_, [Cell]> {
        let Some(&row) = self.gaps.get(row) else { return Cow::Borrowed(&[]) };
        let device = &self.devices[row.device as usize];
        let main = main_part(&device.trace, device.ledger(), row.gap as usize, &Near::none());
        Cow::Owned(self.kinds.iter().map(|&kind| self.cell(kind, row, &main)).collect())
    }

    /// Longest first.
    fn own_sort(&self) -> Option<Sort> {
        Some(Sort { column: 0, is_descending: true })
    }

    /// The rows are filtered already.
    fn order(&self, sort: Option<Sort>, _filter: &str) -> Vec<u32> {
        self.sorted(sort, &|_| true).unwrap_or_default()
    }
}
