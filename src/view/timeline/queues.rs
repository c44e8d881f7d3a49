//! Lines below the streams of each device: runway, queued work and launch-ahead over time (F6).

use std::sync::Arc;

use eframe::egui::Rect;

use super::layout::{Area, Curve, DrawList, Tick};
use super::paint::SAMPLE_HEIGHT;
use super::peaks::Peaks;
use super::settings::TimelineSettings;
use super::track_list::{COUNTER_HEIGHT, Line, LineKind, TrackList};
use crate::analysis::runway::{LOW_RUNWAY_NS, QUEUE_LIMIT, Runway, runway};
use crate::answers::time::Ledgers;
use crate::answers::{Analysis, Query, Work};
use crate::figures::{format, text::display_name};
use crate::model::{Counter, CounterUnit, ProcessId, TimeNs, Trace};
use crate::session::OpenTrace;
use crate::view::ViewContext;
use crate::view::axis::Scale;

/// The curves of one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct QueueCurves(Ledgers);

/// One line.
#[derive(Debug)]
struct QueueCurve {
    process: ProcessId,
    title: String,
    help: &'static str,
    counter: Counter,
    peaks: Peaks,
    /// A value at which a line is drawn.
    limit: Option<f64>,
    /// Times that are marked, ascending, with what they mean.
    marks: Vec<TimeNs>,
}

impl Analysis for QueueCurves {
    type Of = Arc<Trace>;
    type Output = Vec<QueueCurve>;
    const NAME: &'static str = "The search for queued work";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let ledgers = work.get(of, &self.0)?;
        let is_cancelled = || work.is_cancelled();
        let all = ledgers.iter().filter_map(|ledger| runway(of, ledger, &is_cancelled));
        Some(all.flat_map(|runway| curves(of, runway)).collect())
    }
}

impl QueueCurve {
    fn text(&self, value: f64) -> String {
        match self.counter.unit {
            CounterUnit::Nanoseconds => format::duration(value as i64),
            _ => format::value(value),
        }
    }
}

/// The lines of one device.
fn curves(trace: &Trace, runway: Runway) -> Vec<QueueCurve> {
    let process = runway.process;
    let curve = |title: String, help, counter: Counter, limit| QueueCurve {
        process,
        title,
        help,
        peaks: Peaks::build(&counter.value),
        counter,
        limit,
        marks: Vec::new(),
    };
    let mut all =
        vec![curve("Runway".to_owned(), "Duration of all work launched and not finished", runway.runway, None)];
    all[0].marks = runway.low;
    for queue in runway.streams {
        let stream = display_name(&trace.track(queue.track).title()).into_owned();
        let depth = format!("{stream}: queued");
        all.push(curve(depth, "Work launched and not started", queue.depth, Some(QUEUE_LIMIT)));
        let ahead = format!("{stream}: launch-ahead");
        all.push(curve(ahead, "Time from the end of its launch call to the start of the work", queue.ahead, None));
    }
    all
}

/// The lines of all open traces.
#[derive(Debug, Default)]
pub struct Queues {
    /// One for each open trace.
    of: Vec<Query<QueueCurves>>,
    ready: Vec<Option<Arc<Vec<QueueCurve>>>>,
}

impl Queues {
    /// Other traces were opened, or the lines were hidden.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether lines are being computed.
    pub fn is_waiting(&self) -> bool {
        self.ready.iter().any(Option::is_none)
    }

    /// Asks for the lines of all traces, every frame. Returns whether there are new ones.
    pub fn ask(&mut self, ctx: &ViewContext<'_>) -> bool {
        self.of.resize_with(ctx.traces.len(), Query::default);
        self.ready.resize_with(ctx.traces.len(), || None);
        let mut is_new = false;
        for ((query, ready), open) in self.of.iter_mut().zip(&mut self.ready).zip(ctx.traces) {
            if ready.is_none() {
                // What they show does not depend on steps; the views share the ledgers of the same steps.
                let wanted = QueueCurves(Ledgers { steps: ctx.steps_of(open) });
                let answer = query.ask(ctx.answers, &open.trace, &wanted);
                // A failed search is not repeated.
                *ready = if answer.is_working() { None } else { Some(answer.ready().cloned().unwrap_or_default()) };
                is_new |= ready.is_some();
            }
        }
        is_new
    }

    fn curve(&self, trace: usize, index: u32) -> Option<&QueueCurve> {
        self.ready.get(trace)?.as_ref()?.get(index as usize)
    }

    /// Inserts the lines below the tracks of each device that is not collapsed.
    ///
    /// * `filter`: as for [`TrackList::build`].
    pub fn insert(&self, list: &mut TrackList, settings: &TimelineSettings, filter: &str) {
        let filter = filter.trim().to_lowercase();
        let mut at = 0;
        while let Some(heading) = list.scrolled.get(at) {
            at += 1;
            let (LineKind::Process(process), false) = (heading.kind, heading.is_collapsed) else { continue };
            let (trace, parent, indent) = (heading.trace, heading.key.clone(), heading.indent + 1);
            let is_match = heading.title.to_lowercase().contains(&filter);
            at += list.scrolled[at..].iter().take_while(|line| !line.is_heading()).count();
            let all = self.ready.get(trace).and_then(Option::as_deref).map_or(&[][..], Vec::as_slice);
            for (index, curve) in (0..).zip(all).filter(|(_, curve)| curve.process == process) {
                let key = format!("{parent}/queues/{}", curve.title);
                let is_shown = is_match || curve.title.to_lowercase().contains(&filter);
                let is_hidden = settings.hidden.contains(&key);
                if is_hidden && is_shown {
                    list.hidden.push(key.clone());
                    list.n_hidden += 1;
                }
                if is_shown && !is_hidden {
                    list.scrolled
                        .insert(at, line(trace, LineKind::Queue(process, index), (key, &parent), curve, indent));
                    at += 1;
                }
            }
        }
        list.index();
    }

    /// Adds the curves of the lines that are visible in `area`.
    pub fn draw(&self, list: &mut DrawList, traces: &[OpenTrace], lines: &[Line], area: Area, scale: &Scale) {
        for line in area.visible(lines) {
            let LineKind::Queue(_, index) = line.kind else { continue };
            let (Some(open), Some(curve)) = (traces.get(line.trace), self.curve(line.trace, index)) else { continue };
            let top = area.top(line);
            let rect = Rect::from_x_y_ranges(scale.left..=scale.right(), top..=top + line.height);
            let view = scale.view.shifted(open.offset.saturating_neg());
            list.curves.push(Curve {
                index: 0,
                rect,
                columns: curve.peaks.columns(&curve.counter, view, open.trace.span.end, scale.n_pixels),
                bottom: 0.0,
                top: curve.counter.max,
                label: Some(format!("max {}", curve.text(curve.counter.max))),
                limit: curve.limit,
            });
            let step = (scale.ns_per_pixel() as i64).max(1);
            let mut at = curve.marks.partition_point(|&mark| mark < view.start);
            // At most one mark per pixel.
            while let Some(&mark) = curve.marks.get(at).filter(|&&mark| mark < view.end) {
                let x = scale.x(mark.saturating_add(open.offset));
                list.ticks.push(Tick { is_thin: true, x, top: rect.bottom() - SAMPLE_HEIGHT });
                at += 1 + curve.marks[at + 1..].partition_point(|&next| next < mark.saturating_add(step));
            }
        }
    }

    /// Title and lines of the tooltip at a time of the trace.
    pub fn tooltip(&self, trace: usize, index: u32, at: TimeNs) -> Option<(String, Vec<String>)> {
        let curve = self.curve(trace, index)?;
        let before = curve.counter.ts.partition_point(|&ts| ts <= at).checked_sub(1);
        let value = before.map_or(0.0, |i| curve.counter.value[i]);
        let mut lines = vec![format!("{}: {}", curve.help, curve.text(value))];
        if !curve.marks.is_empty() {
            let least = format::duration(LOW_RUNWAY_NS);
            lines.push(format!("Marks: a gap follows, and the runway before it was below {least}"));
        }
        if let Some(limit) = curve.limit.filter(|&limit| curve.counter.max >= limit) {
            lines.push(format!("Line: {} launches, where the next one may block the host", format::value(limit)));
        }
        Some((curve.title.clone(), lines))
    }
}

fn line(trace: usize, kind: LineKind, (key, parent): (String, &str), curve: &QueueCurve, indent: u8) -> Line {
    let line = Line::new(trace, key, parent.to_owned(), curve.title.clone());
    Line { kind, indent, height: COUNTER_HEIGHT, natural_height: COUNTER_HEIGHT, ..line }
}
