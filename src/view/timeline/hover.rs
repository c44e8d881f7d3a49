//! The tooltip of the canvas.

use eframe::egui::{PopupAnchor, Response, RichText, Tooltip, Ui};

use super::hit::Hit;
use super::overlay::arrows;
use super::queues::Queues;
use super::strips::Strips;
use crate::figures::metric::Metric;
use crate::figures::{
    format,
    text::{display_name, shortened, track_name},
};
use crate::model::{SliceId, SliceKind, TimeNs, Trace, TrackId, TrackKind};
use crate::view::ViewContext;
use crate::view::gaps::{MAX_NAME, gap_summary_ui};
use crate::widget::prose::{plain, prose_ui};

/// Shows the tooltip of what the pointer hits at session time `at`.
pub fn ui(
    ctx: &ViewContext<'_>,
    ui: &Ui,
    canvas: &Response,
    hit: Hit,
    at: TimeNs,
    (strips, queues): (&Strips, &Queues),
) {
    let gap = match hit {
        Hit::Gap { trace, process, gap } => Some((trace, process, gap)),
        Hit::Track { trace, track, idle: Some(gap), .. } => {
            Some((trace, ctx.traces[trace].trace.track(track).process, gap))
        }
        _ => None,
    };
    let ledgers = gap.and_then(|(trace, process, gap)| Some((trace, process, gap, strips.ready(trace)?)));
    let text = match hit {
        Hit::Queue { trace, index } => {
            ctx.traces.get(trace).and_then(|open| queues.tooltip(trace, index, at.saturating_sub(open.offset)))
        }
        hit => tooltip_text(ctx, hit, at),
    };
    if text.is_none() && ledgers.is_none() {
        return;
    }
    let tooltip =
        Tooltip::always_open(ui.ctx().clone(), canvas.layer_id, canvas.id, PopupAnchor::Pointer).gap(14.0).width(380.0);
    tooltip.show(|ui| {
        if let Some((title, lines)) = text {
            ui.label(RichText::new(title).strong());
            for line in lines {
                prose_ui(ui, &line, plain);
            }
        }
        if let Some((trace, process, gap, ledgers)) = ledgers
            && let Some((ledger, _)) = ledgers.of(process)
        {
            gap_summary_ui(ui, &ctx.traces[trace].trace, ledger, gap);
        }
    });
}

/// Title and lines of the tooltip.
fn tooltip_text(ctx: &ViewContext<'_>, hit: Hit, at: TimeNs) -> Option<(String, Vec<String>)> {
    match hit {
        Hit::Nothing | Hit::Gap { .. } | Hit::Queue { .. } => None,
        Hit::Slice { trace, slice } => {
            let open = ctx.traces.get(trace)?;
            let start = ctx.session_time(trace, open.trace.slices.ts[slice.idx()]);
            let name = display_name(open.trace.slice_name(slice)).into_owned();
            Some((name, slice_lines(&open.trace, slice, start)))
        }
        Hit::Instant { trace, instant } => {
            let open = ctx.traces.get(trace)?;
            let name = *open.trace.instants.name.get(instant)?;
            let ts = ctx.session_time(trace, *open.trace.instants.ts.get(instant)?);
            let at = format!("Instant at {}", format::duration_in_full(ts));
            Some((display_name(open.trace.strings.get(name)).into_owned(), vec![at]))
        }
        Hit::Track { trace, track, gap, .. } => {
            let open = ctx.traces.get(trace)?;
            let title = track_name(open.trace.track(track));
            let values = counter_lines(&open.trace, track, at.saturating_sub(open.offset));
            if !values.is_empty() {
                return Some((title, values));
            }
            let gap = gap?;
            let what = nothing_on(&open.trace, track);
            let line = format!("{what} for {}", format::duration_in_full(gap.dur()));
            Some((title, vec![line]))
        }
    }
}

/// What it means that a row of a track is empty. A gap is idle time of a whole device.
pub(super) fn nothing_on(trace: &Trace, track: TrackId) -> &'static str {
    match trace.track(track).kind {
        TrackKind::Stream => "Nothing runs on this stream",
        _ => "Nothing was recorded in this row",
    }
}

fn slice_lines(trace: &Trace, slice: SliceId, start: i64) -> Vec<String> {
    let dur = trace.slices.time(slice).dur();
    let (kind, track) = (trace.slices.kind[slice.idx()], trace.track(trace.slices.track_of(slice)));
    let mut lines = vec![
        format!("{} on {}", kind.label(), track_name(track)),
        format!("Duration {}", format::duration_in_full(dur)),
        format!("Start {}", format::duration_in_full(start)),
    ];
    if trace.slices.unfinished.binary_search(&slice).is_ok() {
        lines.push("End not recorded".to_owned());
    }
    let arrows = arrows(trace, slice);
    for &(from, to) in arrows.iter().take(4) {
        let (other, verb) = if from == slice { (to, "to") } else { (from, "from") };
        let is_launch = matches!(trace.slices.kind[from.idx()], SliceKind::Runtime | SliceKind::Driver);
        let relation = match (is_launch, verb) {
            (true, "to") => "Launches",
            (true, _) => "Launched by",
            (false, "to") => "Flow to",
            (false, _) => "Flow from",
        };
        let name = shortened(trace.slice_name(other), MAX_NAME);
        let start = trace.slices.ts[to.idx()];
        let distance = if is_launch {
            // As in the details and the report: from the end of the call.
            match start.saturating_sub(trace.slices.end[from.idx()]) {
                ..0 => "no queue time: it started before the call returned".to_owned(),
                queue_ns => format!("queue time {}", format::duration(queue_ns)),
            }
        } else {
            let sense = if from == slice { "later" } else { "earlier" };
            format!("{} {sense}", format::duration(start.saturating_sub(trace.slices.ts[from.idx()])))
        };
        lines.push(format!("{relation} {name}, {distance}"));
    }
    if arrows.len() > 4 {
        lines.push(format!("and {} more", arrows.len() - 4));
    }
    lines
}

fn counter_lines(trace: &Trace, track: TrackId, at: TimeNs) -> Vec<String> {
    let first = trace.counters.partition_point(|counter| counter.track < track);
    let of_track = trace.counters[first..].iter().take_while(|counter| counter.track == track);
    let line = |counter: &crate::model::Counter| {
        let index = counter.ts.partition_point(|&ts| ts <= at).checked_sub(1)?;
        let is_known = at < counter.holds_until(index, trace.span.end) || counter.ts[index] == at;
        let text = match counter.value.get(index) {
            Some(&value) if is_known => Metric::of(trace, counter).text(value),
            _ if at < trace.span.end => "no value was recorded here".to_owned(),
            _ => return None,
        };
        Some(if counter.series.is_empty() { text } else { format!("{}: {text}", display_name(&counter.series)) })
    };
    of_track.filter_map(line).collect()
}
