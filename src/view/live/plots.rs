//! History plots, one a metric, with a line for each device.

use eframe::egui::{self, Id, RichText, Role, Ui, WidgetInfo, vec2};
use egui_plot::{HLine, HoverPosition, Line, LineStyle, Plot, PlotPoints};

use super::devices::color;
use super::shown::{PlotLine, PlotLines, Shown};
use crate::live::text;
use crate::widget::theme;

/// The least width and the height of a plot, in points.
const WIDTH: f32 = 330.0;
const HEIGHT: f32 = 120.0;

/// * `hidden`: UUIDs of devices whose lines are hidden.
pub fn ui(shown: &Shown, hidden: &[String], ui: &mut Ui) {
    let n_columns = ((ui.available_width() / WIDTH) as usize).clamp(1, shown.plots.len().max(1));
    for row in shown.plots.chunks(n_columns) {
        ui.columns(n_columns, |columns| {
            for (plot, ui) in row.iter().zip(columns) {
                plot_ui(plot, shown, hidden, ui);
            }
        });
    }
}

fn plot_ui(plot: &PlotLines, shown: &Shown, hidden: &[String], ui: &mut Ui) {
    let is_visible = |line: &&PlotLine| shown.devices.get(line.device).is_some_and(|of| !hidden.contains(&of.uuid));
    let lines: Vec<&PlotLine> = plot.lines.iter().filter(is_visible).collect();
    let (is_dark, unit) = (ui.visuals().dark_mode, plot.unit);
    let now = lines.iter().map(|line| {
        let value = line.now.map_or("none now".to_owned(), |value| text(unit, value));
        format!("{} {value}", line.name)
    });
    let now = now.collect::<Vec<_>>().join(", ");
    ui.horizontal(|ui| {
        ui.label(RichText::new(plot.title).strong()).on_hover_text(plot.help);
        ui.add(egui::Label::new(RichText::new(&now).weak().small()).truncate());
    });
    let seconds = shown.window_ns as f64 / 1e9;
    let drawn = Plot::new(plot.title)
        .height(HEIGHT)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_double_click_reset(false)
        .set_margin_fraction(vec2(0.0, 0.06))
        .default_x_bounds(-seconds, 0.0)
        .include_x(-seconds)
        .include_x(0.0)
        .include_y(0.0)
        .include_y(plot.top)
        .link_cursor(Id::unique("live plots"), [true, false])
        .y_axis_min_width(54.0)
        .y_axis_formatter(move |mark, _| text(unit, mark.value))
        .x_axis_formatter(|mark, _| ago(mark.value))
        .label_formatter(move |at| match at {
            HoverPosition::NearDataPoint { plot_name, position, .. } => {
                Some(format!("{plot_name}\n{}\n{}", text(unit, position.y), ago(position.x)))
            }
            HoverPosition::Elsewhere { .. } => None,
        });
    let response = drawn.show(ui, |area| {
        for line in &lines {
            let style = [LineStyle::Solid, LineStyle::dashed_dense(), LineStyle::dotted_dense()][line.series % 3];
            for part in &line.parts {
                let points = PlotPoints::from(part.clone());
                area.line(Line::new(&line.name, points).color(color(line.device, is_dark)).width(1.5).style(style));
            }
        }
        let alarm = theme::tokens(is_dark).severity[2];
        for &level in &plot.levels {
            area.hline(HLine::new("Alarm", level).color(alarm).width(1.0).style(LineStyle::dashed_loose()));
        }
    });
    response.response.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("{}: {now}", plot.title)));
}

/// A moment in seconds from now: `-30 s`, `-5 min`, `now`.
fn ago(seconds: f64) -> String {
    match seconds {
        _ if seconds > -0.05 => "now".to_owned(),
        _ if seconds <= -120.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds.fract().abs() < 0.05 => format!("{seconds:.0} s"),
        _ => format!("{seconds:.1} s"),
    }
}
