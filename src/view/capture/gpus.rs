//! What the GPUs do while a program runs: a line for each.

use eframe::egui::{self, RichText, Sense, Stroke, Ui, pos2, vec2};

use crate::command::Command;
use crate::live::{DeviceHistory, LOST, Metric, Store, nothing_to_watch, text};
use crate::view::ViewContext;
use crate::view::live::{device_color, lines};
use crate::widget::theme;

/// Devices that have a line; of more the monitor tells.
const MAX_DEVICES: usize = 4;
/// What the small plot of utilization shows.
const WINDOW_NS: i64 = 60_000_000_000;
const PLOT: egui::Vec2 = vec2(120.0, 16.0);

/// A device as its line shows it.
struct Line {
    title: String,
    values: String,
    is_lost: bool,
    utilization: Vec<Vec<[f64; 2]>>,
}

impl Line {
    fn of(device: &DeviceHistory) -> Self {
        let value = |metric: Metric| Some(text(metric.spec().unit, device.value(metric)?));
        let memory = value(Metric::MemoryUsed).map(|used| match value(Metric::MemoryTotal) {
            Some(total) => format!("{used} of {total}"),
            None => used,
        });
        let values = [value(Metric::Utilization), memory, value(Metric::Power), value(Metric::Temperature)];
        let points = device.points(Metric::Utilization);
        let end = points.back().map_or(0, |point| point.ts);
        Self {
            title: format!("GPU {}", device.info.id),
            values: values.into_iter().flatten().collect::<Vec<_>>().join(", "),
            is_lost: device.lost_since.is_some(),
            utilization: lines(points, end, WINDOW_NS),
        }
    }
}

/// Paints a line for each device that is watched, or why there is none.
pub fn ui(ctx: &mut ViewContext<'_>, ui: &mut Ui) {
    if !ctx.live.is_started() {
        return;
    }
    let of = |store: &Store| {
        let there = || store.devices.iter().enumerate().filter(|(_, device)| !device.is_removed);
        let shown: Vec<(usize, Line)> = there().take(MAX_DEVICES).map(|(i, device)| (i, Line::of(device))).collect();
        (there().count(), shown, nothing_to_watch(store))
    };
    let (n, shown, missing) = ctx.live.read(of);
    if let Some(missing) = missing {
        ui.weak(format!("No GPU metrics: {}. {}", missing.what, missing.remedy));
    }
    let tokens = theme::tokens(ui.visuals().dark_mode);
    for (nth, (place, line)) in shown.iter().enumerate() {
        ui.horizontal(|ui| {
            let color = device_color(*place, ui.visuals().dark_mode);
            let (square, _) = ui.allocate_exact_size(vec2(10.0, 10.0), Sense::hover());
            ui.painter().rect_filled(square, 2.0, color);
            ui.label(&line.title);
            let (rect, plot) = ui.allocate_exact_size(PLOT, Sense::hover());
            let name = format!("{}: utilization of the last minute", line.title);
            plot.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &name));
            plot.on_hover_text("Utilization of the last minute");
            ui.painter().rect_filled(rect, 2.0, tokens.stripe);
            let at = |&[ago, share]: &[f64; 2]| {
                let right = rect.right() + ago as f32 * rect.width() / (WINDOW_NS as f32 / 1e9);
                pos2(right, rect.bottom() - 1.0 - (share / 100.0).clamp(0.0, 1.0) as f32 * (rect.height() - 2.0))
            };
            let painter = ui.painter().with_clip_rect(rect);
            for part in &line.utilization {
                painter.line(part.iter().map(at).collect(), Stroke::new(1.5, color));
            }
            match line.is_lost {
                true => _ = ui.colored_label(tokens.severity[2], LOST),
                false => _ = ui.label(RichText::new(&line.values)),
            }
            if nth == 0 && ui.link("GPU monitor").on_hover_text("Show all that is read of the GPUs").clicked() {
                ctx.commands.push(Command::Show(crate::view::live::SPEC.id));
            }
        });
    }
    if n > shown.len() {
        ui.weak(format!("and {} more", n - shown.len()));
    }
}
