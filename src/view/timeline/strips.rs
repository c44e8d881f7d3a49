//! Idle time of devices by what went on meanwhile: a strip beside the heading of each device, with the exact shares of
//! every pixel.

use std::sync::Arc;

use eframe::egui::Color32;

use super::layout::Area;
use super::track_list::{Line, LineKind};
use crate::analysis::gaps::{GapClass, IdleByClass, Ledger, LedgerIndex};
use crate::answers::findings::TraceRun;
use crate::answers::time::{Indexed, IndexedLedgers, Ledgers};
use crate::answers::{Answer, Query};
use crate::figures::devices::little_work;
use crate::model::{DurNs, ProcessId, TimeNs, TimeRange};
use crate::session::Selection;
use crate::view::ViewContext;
use crate::view::axis::Scale;
use crate::widget::gap_color::gap_color;

/// The opacity of the least idle time, so that it shows.
const LEAST: f32 = 0.35;

/// The ledgers of the open traces.
#[derive(Debug, Default)]
pub struct Strips {
    /// One for each open trace.
    of: Vec<Query<IndexedLedgers>>,
    /// What is known of their recordings, likewise.
    runs: Vec<Query<TraceRun>>,
    is_waiting: bool,
}

/// One strip, laid out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strip {
    pub top: f32,
    pub height: f32,
    /// Causes and their shares of the pixel, 0 to 1, pixel after pixel.
    shares: Vec<(GapClass, f32)>,
    /// For each pixel the end of its shares.
    ends: Vec<u32>,
}

/// Idle time of what a heading stands for.
#[derive(Clone, Debug)]
pub struct IdleTime {
    pub idle: IdleByClass,
    /// Time of its devices from first start to last end.
    pub window_ns: DurNs,
    /// What they did, where that is too little for shares to say anything.
    pub little: Option<String>,
    /// Whether most events of its recording are missing.
    pub lacks_events: bool,
}

impl Strips {
    /// Other traces were opened: none is waited for.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether ledgers that were asked for are being computed.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Asks for the ledgers of the traces of these lines. Call it every frame.
    pub fn ask<'a>(&mut self, ctx: &ViewContext<'_>, lines: impl Iterator<Item = &'a Line>) {
        self.is_waiting = false;
        let mut traces: Vec<usize> = lines.filter(|line| line.has_strip()).map(|line| line.trace).collect();
        traces.dedup();
        for trace in traces {
            self.runs.resize_with(ctx.traces.len().max(self.runs.len()), Query::default);
            let run = self.runs[trace].ask(ctx.answers, &ctx.traces[trace].trace, &TraceRun);
            self.is_waiting |= run.is_working() || self.ledgers(ctx, trace).is_working();
        }
    }

    /// The ledgers of one trace; starts the work for them if necessary.
    pub fn ledgers(&mut self, ctx: &ViewContext<'_>, trace: usize) -> Answer<Indexed> {
        self.of.resize_with(ctx.traces.len().max(self.of.len()), Query::default);
        let wanted = IndexedLedgers(Ledgers { steps: ctx.steps_of(&ctx.traces[trace]) });
        self.of[trace].ask(ctx.answers, &ctx.traces[trace].trace, &wanted)
    }

    /// The ledgers of one trace, if they are ready.
    pub fn ready(&self, trace: usize) -> Option<Arc<Indexed>> {
        self.of.get(trace)?.newest()
    }

    /// A gap of a device as a selection.
    pub fn selection(&self, trace: usize, process: ProcessId, gap: usize) -> Selection {
        let ledgers = self.ready(trace);
        let ledger = ledgers.as_ref().and_then(|ledgers| ledgers.of(process)).filter(|(ledger, _)| gap < ledger.len());
        ledger.map_or(Selection::None, |(ledger, _)| Selection::Gap { trace, process, time: ledger.time(gap) })
    }

    /// Lays out the strip of a heading over `view`, in the time of its trace.
    pub fn layout(&self, line: &Line, area: Area, view: TimeRange, scale: &Scale) -> Option<Strip> {
        let (top, height) = area.strip(line)?;
        let indexed = self.ready(line.trace)?;
        let devices: Vec<_> = devices(&indexed, line.kind).collect();
        Some(Strip { top, height, ..Strip::over(&devices, view, scale.n_pixels) })
    }

    /// Idle time of a heading's devices.
    ///
    /// * `recorded`: the time of its trace.
    pub fn idle(&self, line: &Line, recorded: TimeRange) -> Option<IdleTime> {
        let indexed = self.ready(line.trace).filter(|_| line.has_strip())?;
        let devices: Vec<_> = devices(&indexed, line.kind).collect();
        let window_ns = devices.iter().map(|(ledger, _)| ledger.window.dur()).sum();
        let run = self.runs.get(line.trace)?.newest()?;
        let idle = idle_until(&devices, TimeNs::MAX);
        let little = little_work(indexed.busy.iter().filter(|busy| is_of(busy.process, line.kind)), recorded.dur());
        let idle = IdleTime { idle, window_ns, little, lacks_events: run.missing.is_some() };
        Some(idle).filter(|_| !devices.is_empty())
    }

    /// Idle time of a heading's devices within a range of the trace's time. Cost: O(log gaps).
    pub fn idle_within(&self, line: &Line, range: TimeRange) -> IdleByClass {
        let Some(indexed) = self.ready(line.trace).filter(|_| line.has_strip()) else { return IdleByClass::default() };
        let devices: Vec<_> = devices(&indexed, line.kind).collect();
        let (mut idle, before) = (idle_until(&devices, range.end), idle_until(&devices, range.start));
        idle.iter_mut().zip(before).for_each(|(ns, before)| *ns -= before);
        idle
    }

    /// The gap of a heading's devices at a moment of the trace's time: the one under the pointer, or the longest
    /// within `slack`.
    pub fn gap_at(&self, line: &Line, at: TimeNs, slack: DurNs) -> Option<(ProcessId, usize)> {
        let indexed = self.ready(line.trace)?;
        let near = TimeRange { start: at.saturating_sub(slack), end: at.saturating_add(slack.max(1)) };
        let of_device = |(ledger, index): (&Ledger, &LedgerIndex)| {
            let here = idle_at(ledger, at).filter(|&gap| ledger.time(gap).dur() >= slack);
            let gap = here.or_else(|| index.longest(ledger, ledger.within(near)))?;
            Some((ledger.time(gap).dur(), ledger.process, gap))
        };
        let longest = devices(&indexed, line.kind).filter_map(of_device).max_by_key(|found| found.0)?;
        Some((longest.1, longest.2))
    }
}

/// The gap around a moment.
pub fn idle_at(ledger: &Ledger, at: TimeNs) -> Option<usize> {
    ledger.within(TimeRange { start: at, end: at.saturating_add(1) }).next()
}

/// The ledgers of what a heading stands for.
fn devices(indexed: &Indexed, kind: LineKind) -> impl Iterator<Item = (&Ledger, &LedgerIndex)> {
    indexed.iter().filter(move |(ledger, _)| is_of(ledger.process, kind))
}

/// Whether a heading stands for the device of a process.
fn is_of(device: ProcessId, kind: LineKind) -> bool {
    match kind {
        LineKind::Trace => true,
        LineKind::Process(process) => device == process,
        LineKind::Track(_) | LineKind::Fold(..) | LineKind::Queue(..) => false,
    }
}

fn idle_until(devices: &[(&Ledger, &LedgerIndex)], time: TimeNs) -> IdleByClass {
    let mut idle = IdleByClass::default();
    for (ledger, index) in devices {
        let of_device = index.idle_until(ledger, time);
        idle.iter_mut().zip(of_device).for_each(|(sum, ns)| *sum += ns);
    }
    idle
}

impl Strip {
    /// The shares of `n_pixels` equal parts of `view`. Cost: O(pixels · log gaps).
    fn over(devices: &[(&Ledger, &LedgerIndex)], view: TimeRange, n_pixels: usize) -> Self {
        let mut strip = Self { ends: Vec::with_capacity(n_pixels), ..Self::default() };
        let ns_per_pixel = view.dur() as f64 / n_pixels as f64;
        let edge = |pixel: usize| view.start.saturating_add((pixel as f64 * ns_per_pixel) as DurNs);
        let (mut start, mut before) = (edge(0), idle_until(devices, edge(0)));
        for pixel in 0..n_pixels {
            // A pixel of less than a nanosecond shows the nanosecond that it is in.
            let end = edge(pixel + 1).max(start.saturating_add(1));
            let after = idle_until(devices, end);
            let whole = end.saturating_sub(start) as f64 * devices.len() as f64;
            for (class, (after, before)) in GapClass::ALL.into_iter().zip(after.into_iter().zip(before)) {
                if after > before {
                    strip.shares.push((class, ((after - before) as f64 / whole) as f32));
                }
            }
            strip.ends.push(strip.shares.len() as u32);
            let next = edge(pixel + 1);
            (start, before) = (next, if next == end { after } else { idle_until(devices, next) });
        }
        strip
    }

    /// Appends the colors of `n_rows` rows of pixels from top to bottom: idle time stands on the bottom, causes
    /// in order upon each other, and busy time is left free. The least idle and the least busy time show.
    pub fn pixels(&self, n_rows: usize, is_dark: bool, out: &mut Vec<Color32>) {
        let (first, n_pixels) = (out.len(), self.ends.len());
        out.resize(first + n_rows * n_pixels, Color32::TRANSPARENT);
        let mut from = 0;
        for (pixel, &end) in self.ends.iter().enumerate() {
            let shares = &self.shares[from..end as usize];
            from = end as usize;
            let mut column = Column { rows: [0.0; 4], covered: 0.0, n_done: 0 };
            let mut put = |row: usize, color: Color32| out[first + (n_rows - 1 - row) * n_pixels + pixel] = color;
            for &(class, share) in shares {
                column.add(gap_color(class, is_dark), share * n_rows as f32, &mut put);
            }
            column.finish(&mut put);
        }
    }
}

/// A column of pixels being filled from its bottom.
struct Column {
    /// Color of the row that is not full yet, weighted by coverage.
    rows: [f32; 4],
    covered: f32,
    n_done: usize,
}

impl Column {
    /// * `height`: in rows.
    fn add(&mut self, color: Color32, mut height: f32, put: &mut impl FnMut(usize, Color32)) {
        // Sums of floats may fall short of a whole by a little.
        const NEARLY: f32 = 1.0 - 1e-3;
        while height > 0.0 {
            let part = height.min(1.0 - self.covered);
            for (sum, byte) in self.rows.iter_mut().zip(color.to_array()) {
                *sum += part * f32::from(byte);
            }
            self.covered += part;
            height -= part;
            if self.covered >= NEARLY {
                put(self.n_done, self.color(1.0 / self.covered));
                (self.rows, self.covered, self.n_done) = ([0.0; 4], 0.0, self.n_done + 1);
                height = if height < 1e-3 { 0.0 } else { height };
            }
        }
    }

    fn finish(self, put: &mut impl FnMut(usize, Color32)) {
        if self.covered > 1e-3 || (self.n_done == 0 && self.covered > 0.0) {
            let least = if self.n_done == 0 { LEAST } else { 0.0 };
            put(self.n_done, self.color(self.covered.clamp(least, 0.75) / self.covered));
        }
    }

    fn color(&self, strength: f32) -> Color32 {
        let [r, g, b, a] = self.rows.map(|sum| (sum * strength).round().clamp(0.0, 255.0) as u8);
        Color32::from_rgba_premultiplied(r, g, b, a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::busy::devices;
    use crate::analysis::gaps::ledger;
    use crate::model::{SliceKind, TraceBuilder};

    /// Kernels of many lengths with gaps of many lengths.
    fn ledger_of(n: i64) -> Ledger {
        let (mut now, mut slices) = (1_000, Vec::new());
        for i in 0..n {
            let (dur, gap) = (1 + i * 7_919 % 997, i * 104_729 % 331 * (1 + i % 3 / 2 * 100));
            slices.push(("stream 7", SliceKind::Kernel, "k", now, now + dur));
            now += dur + gap;
        }
        let trace = TraceBuilder::from_slices(&slices).finish();
        ledger(&trace, &devices(&trace)[0], None, &|| false)
    }

    #[test]
    fn each_pixel_shows_the_exact_shares_at_every_zoom() {
        let ledger = ledger_of(3_000);
        let index = LedgerIndex::new(&ledger, None, &|| false);
        let window = ledger.window;
        for shift in 0..22 {
            let view = TimeRange {
                start: window.start + window.dur() / 3,
                end: window.start + window.dur() / 3 + (window.dur() >> shift).max(5),
            };
            let strip = Strip::over(&[(&ledger, &index)], view, 200);
            let (mut from, ns_per_pixel) = (0, view.dur() as f64 / 200.0);
            for (pixel, &end) in strip.ends.iter().enumerate() {
                let start = view.start + (pixel as f64 * ns_per_pixel) as i64;
                let end_ns = (view.start + ((pixel + 1) as f64 * ns_per_pixel) as i64).max(start + 1);
                let expected = ledger.totals(TimeRange { start, end: end_ns });
                let shown: f64 = strip.shares[from..end as usize].iter().map(|share| f64::from(share.1)).sum();
                let whole = (end_ns - start) as f64;
                assert!((shown - expected.all.total_ns as f64 / whole).abs() < 1e-6, "{shift}, pixel {pixel}");
                from = end as usize;
            }
        }
    }

    #[test]
    fn the_least_idle_and_the_least_busy_time_show() {
        let color = |class| gap_color(class, true);
        let column = |shares: &[(GapClass, f32)]| {
            let strip = Strip { shares: shares.to_vec(), ends: vec![shares.len() as u32], ..Strip::default() };
            let mut out = Vec::new();
            strip.pixels(4, true, &mut out);
            out
        };
        let (sync, launch) = (GapClass::Sync, GapClass::Launch);
        assert_eq!(column(&[]), [Color32::TRANSPARENT; 4]);
        assert_eq!(column(&[(sync, 1.0)]), [color(sync); 4]);
        let thirds = 1.0 / 3.0;
        assert_eq!(
            column(&[(sync, thirds), (launch, thirds), (GapClass::Python, thirds)])
                .iter()
                .filter(|c| c.a() == 255)
                .count(),
            4
        );
        let clear = Color32::TRANSPARENT;
        assert_eq!(column(&[(sync, 0.5), (launch, 0.25)]), [clear, color(launch), color(sync), color(sync)]);
        let least = column(&[(sync, 1e-9)]);
        assert!(least[3].a() > 80 && least[..3] == [clear; 3], "{least:?}");
        let most = column(&[(sync, 1.0 - 1e-3)]);
        assert!(most[0].a() < 200 && most[1..] == [color(sync); 3], "{most:?}");
    }
}
