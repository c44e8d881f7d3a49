//! History plots, one a metric, with a line for each device.

use eframe::egui::{self, Id, RichText, Role, TextStyle, TextWrapMode, Ui, WidgetInfo, WidgetText, vec2};
use egui_plot::{GridMark, HLine, HoverPosition, Line, LineStyle, Plot, PlotPoints};

use super::devices::color;
use super::shown::{PlotLine, PlotLines, Shown};
use crate::live::{Unit, text};
use crate::widget::theme;

/// The least width and the height of a plot, in points.
const WIDTH: f32 = 330.0;
const HEIGHT: f32 = 120.0;

/// * `hidden`: UUIDs of devices whose lines are hidden.
pub fn ui(shown: &Shown, hidden: &[String], ui: &mut Ui) {
    ui.scope(|ui| grid_ui(shown, hidden, ui));
}

fn grid_ui(shown: &Shown, hidden: &[String], ui: &mut Ui) {
    // The last moment's label is half beyond the plot.
    ui.set_max_width(ui.available_width() - 18.0);
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
    let each: Vec<String> = now.collect();
    let now = each.join(", ");
    ui.horizontal(|ui| {
        ui.label(RichText::new(plot.title).strong()).on_hover_text(plot.help);
        let small = |text: String| WidgetText::from(RichText::new(text).weak().small());
        let whole = small(now.clone()).into_galley(ui, Some(TextWrapMode::Extend), f32::INFINITY, TextStyle::Small);
        if whole.size().x <= ui.available_width() {
            ui.label(whole);
        } else {
            let short = egui::Label::new(small(ranges(&lines, unit))).truncate();
            ui.add(short).on_hover_text(each.join("\n"));
        }
    });
    let seconds = shown.window_ns as f64 / 1e9;
    let drawn = Plot::new(plot.title)
        .height(HEIGHT)
        .grid_color(theme::tokens(is_dark).line)
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
        .y_axis_min_width(66.0)
        .x_grid_spacer(move |_| marks(-seconds, 0.0, seconds / 4.0))
        .y_grid_spacer(|input| marks(input.bounds.0, input.bounds.1, step(unit, input.bounds.1 - input.bounds.0)))
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
        let alarm = theme::tokens(is_dark).severity[1];
        for &level in &plot.levels {
            area.hline(HLine::new("Alarm", level).color(alarm).width(1.0).style(LineStyle::dashed_loose()));
        }
    });
    response.response.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("{}: {now}", plot.title)));
}

/// The values of all devices from the least to the most, for each metric: `sent 1.0 to 2.0 GB/s, received 0 B/s`; and
/// how many devices that is of, where some have none.
fn ranges(lines: &[&PlotLine], unit: Unit) -> String {
    let n_series = lines.iter().map(|line| line.series + 1).max().unwrap_or(0);
    let range = |series: usize| {
        let of_series: Vec<&&PlotLine> = lines.iter().filter(|line| line.series == series).collect();
        let values: Vec<f64> = of_series.iter().filter_map(|line| line.now).collect();
        let [least, most] = [f64::min, f64::max].map(|least| values.iter().copied().reduce(least));
        let range = match least.zip(most).map(|(least, most)| (text(unit, least), text(unit, most))) {
            None => "none now".to_owned(),
            Some((least, most)) if least == most => most,
            Some((least, most)) => match (least.rsplit_once(' '), most.rsplit_once(' ')) {
                (Some((number, a)), Some((_, b))) if a == b => format!("{number} to {most}"),
                _ => format!("{least} to {most}"),
            },
        };
        let part = match values.len() {
            n if n == 0 || n == of_series.len() => String::new(),
            n => format!(" ({n} of {})", of_series.len()),
        };
        let metric = of_series.first()?.metric;
        Some(format!("{metric} {range}{part}").trim_start().to_owned())
    };
    (0..n_series).filter_map(range).collect::<Vec<_>>().join(", ")
}

/// The multiples of `step` from `low` to `high`.
fn marks(low: f64, high: f64, step: f64) -> Vec<GridMark> {
    let first = (low / step).ceil() as i64;
    let values = (first..first + 16).map(|i| i as f64 * step).take_while(|value| *value <= high);
    values.map(|value| GridMark { value, step_size: step }).collect()
}

/// A distance that is round as values of `unit` are written, of which two to four fit into the range.
fn step(unit: Unit, range: f64) -> f64 {
    let rough = (range / 4.0).max(1e-9);
    // Bytes are written in KiB, MiB, GiB.
    let written_in = match unit {
        Unit::Bytes => 1024_f64.powf(rough.log(1024.0).floor().max(0.0)),
        _ => 1.0,
    };
    let power = written_in * 10_f64.powf((rough / written_in).log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough).unwrap_or(10.0);
    digit * power
}

/// A moment in seconds from now: `-30 s`, `-5 min`, `now`.
fn ago(seconds: f64) -> String {
    match seconds {
        _ if seconds > -0.05 => "now".to_owned(),
        _ if seconds <= -120.0 => format!("{} min", (seconds / 6.0).round() / 10.0),
        _ if seconds.fract().abs() < 0.05 => format!("{seconds:.0} s"),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        let values = |unit, low, high| {
            marks(low, high, step(unit, high - low)).iter().map(|mark| mark.value).collect::<Vec<_>>()
        };
        assert_eq!(values(Unit::Percent, -6.0, 106.0), [0.0, 50.0, 100.0]);
        assert_eq!(values(Unit::Watts, 0.0, 700.0), [0.0, 200.0, 400.0, 600.0]);
        let shown =
            |high| values(Unit::Bytes, 0.0, high).into_iter().map(|mark| text(Unit::Bytes, mark)).collect::<Vec<_>>();
        assert_eq!(shown(85.52e9), ["0 B", "20.00 GiB", "40.00 GiB", "60.00 GiB"]);
        assert_eq!(shown(9e8), ["0 B", "500.00 MiB"]);
        assert!(values(Unit::Percent, 0.0, 0.0).len() <= 16);
    }

    #[test]
    fn many_devices_are_told_in_short() {
        let line = |series: usize, metric, now| {
            let name = String::new();
            PlotLine { device: 0, name, series, metric, parts: Vec::new(), now }
        };
        let told = |lines: &[PlotLine], unit| ranges(&lines.iter().collect::<Vec<_>>(), unit);
        let one = [line(0, "", Some(94.0)), line(0, "", None), line(0, "", Some(15.0))];
        assert_eq!(told(&one, Unit::Percent), "15 to 94 % (2 of 3)");
        assert_eq!(told(&one[1..2], Unit::Percent), "none now");
        let two = [line(0, "sent", Some(5e5)), line(0, "sent", Some(2e9)), line(1, "received", Some(2e9))];
        assert_eq!(told(&two, Unit::BytesPerSecond), "sent 500 kB/s to 2.0 GB/s, received 2.0 GB/s");
    }

    #[test]
    fn moments_are_told_from_now() {
        assert_eq!([0.0, -30.0, -7.5, -150.0, -1800.0].map(ago), ["now", "-30 s", "-7.5 s", "-2.5 min", "-30 min"]);
    }
}
