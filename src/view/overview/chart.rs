//! The time of each step as stacked bars. A click selects the step.

use eframe::egui::{self, Color32, FontId, Rangef, RichText, Sense, TextStyle, TextWrapMode, WidgetText};
use egui_plot::{AxisHints, Bar, BarChart, GridInput, GridMark, HoverPosition, Plot, Span};

use super::cards::swatch_ui;
use super::work::{Chart, Series};
use crate::figures::format;
use crate::figures::steps::short_name;
use crate::figures::text::display_name;
use crate::model::{DurNs, Format};
use crate::session::OpenTrace;
use crate::view::ViewContext;
use crate::view::states::nothing_ui;
use crate::widget::series_color::series_color;
use crate::widget::theme;

/// The chart; says whether a step was chosen, which is then the selected range.
///
/// * `chosen`: index of the chart on show.
/// * `height`: of all of it, in points.
pub fn ui(charts: &[Chart], chosen: &mut usize, height: f32, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) -> bool {
    if charts.is_empty() {
        nothing_ui("No steps were found", how_to_name_steps(ctx), ui);
        return false;
    }
    let top = ui.cursor().top();
    *chosen = (*chosen).min(charts.len() - 1);
    ui.horizontal_wrapped(|ui| {
        let label = ui
            .label(RichText::new("Time per step").strong())
            .on_hover_text(format!("Steps: {}", charts[*chosen].source));
        choice_ui(charts, chosen, label.id, ui);
        if ctx.range.is_some() && ui.button("All steps").on_hover_text("Clear the selected range").clicked() {
            *ctx.range = None;
        }
    });
    let chart = &charts[*chosen];
    ui.weak(format!("Each {}", chart.length));
    legend_ui(chart, ui);
    let height = (height - (ui.cursor().top() - top)).max(60.0);
    let step = plot_ui(chart, height, ctx, ui).and_then(|at| chart.bars.get(at));
    step.into_iter().for_each(|step| ctx.choose_step(chart.trace, step.time, &step.name));
    step.is_some()
}

/// The choice of a chart, on one line.
fn choice_ui(charts: &[Chart], chosen: &mut usize, label: egui::Id, ui: &mut egui::Ui) {
    let title = display_name(&charts[*chosen].title);
    let text = WidgetText::from(&*title).into_galley(ui, Some(TextWrapMode::Extend), f32::INFINITY, TextStyle::Button);
    let spacing = ui.spacing();
    let whole = text.size().x + spacing.icon_width + spacing.icon_spacing + 2.0 * spacing.button_padding.x;
    let width = whole.min(ui.max_rect().width());
    let combo = egui::ComboBox::from_id_salt("chart").selected_text(&*title).truncate().width(width);
    let combo = combo.show_ui(ui, |ui| {
        ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
        for (i, chart) in charts.iter().enumerate() {
            ui.selectable_value(chosen, i, display_name(&chart.title));
        }
    });
    combo.response.labelled_by(label).on_hover_text(&*title);
}

/// By the recorder of what ran.
fn how_to_name_steps(ctx: &ViewContext<'_>) -> &'static str {
    let is_of_nsys = |open: &OpenTrace| open.trace.info.format == Format::Nsys;
    let mut programs = ctx.traces.iter().filter(|open| open.is_program()).peekable();
    if programs.peek().is_some() && programs.all(is_of_nsys) {
        "Wrap each step in an NVTX range (torch.cuda.nvtx.range, nvtx.annotate), or set a mark with M where each \
         begins and choose \"Use my marks as steps\" in Steps"
    } else {
        "Call prof.step() once per step, or wrap steps in record_function(\"step_1\"), or set a mark with M where each \
         begins and choose \"Use my marks as steps\" in Steps"
    }
}

fn legend_ui(chart: &Chart, ui: &mut egui::Ui) {
    let is_dark = ui.visuals().dark_mode;
    ui.horizontal_wrapped(|ui| {
        for (i, series) in chart.series.iter().enumerate() {
            if chart.bars.iter().any(|bar| bar.parts[i] > 0) {
                swatch_ui(series.0, series_color(series.1, is_dark), ui);
            }
        }
        let mut left_out: Vec<&str> =
            chart.bars.iter().map(|bar| &*bar.left_out).filter(|why| !why.is_empty()).collect();
        left_out.dedup();
        if let Some(series) = most_faded(chart) {
            let color = series_color(series.1, is_dark).gamma_multiply(FADED);
            swatch_ui("Faded: not judged", color, ui).on_hover_text(not_judged(&left_out.join(", ")));
        }
    });
}

/// The part that has most of the time of the steps that are not judged.
fn most_faded(chart: &Chart) -> Option<&Series> {
    let faded = || chart.bars.iter().filter(|bar| !bar.left_out.is_empty());
    let time = |part: usize| faded().fold(0, |sum: DurNs, bar| sum.saturating_add(bar.parts[part]));
    let most = (0..chart.series.len()).map(|part| (time(part), part)).max()?;
    (most.0 > 0).then(|| &chart.series[most.1])
}

/// The strength of the colors of steps that are not judged.
const FADED: f32 = 0.35;

/// Said of steps that neither findings nor figures per step are of.
fn not_judged(why: &str) -> String {
    format!("Not judged: {why}. Findings, gaps per step and means leave it out")
}

/// Labels of steps stand as far apart as if each was so wide, in points, with so much between them.
const LEAST_LABEL: f32 = 16.0;
const BETWEEN_LABELS: f32 = 10.0;
/// Width of a bar, of the space from one to the next.
const BAR: f64 = 0.8;

/// The bar that was clicked.
fn plot_ui(chart: &Chart, height: f32, ctx: &ViewContext<'_>, ui: &mut egui::Ui) -> Option<usize> {
    let is_dark = ui.visuals().dark_mode;
    let font = FontId::proportional(11.0);
    let step_label = |step: usize| {
        let bar = chart.bars.get(step).filter(|_| chart.steps_per_bar == 1);
        short_name(bar.map_or("", |bar| &bar.name), step * chart.steps_per_bar)
    };
    // As many as there are bars, which are few.
    let longest = (0..chart.bars.len()).map(step_label).max_by_key(String::len).unwrap_or_default();
    let label = ui.painter().layout_no_wrap(longest, font.clone(), Color32::PLACEHOLDER).size().x;
    let names: Vec<String> = chart.bars.iter().map(|bar| display_name(&bar.name).into_owned()).collect();
    let plot = Plot::new("steps")
        .height(height)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_double_click_reset(false)
        .show_grid([false, true])
        .show_crosshair(false)
        .include_y(0.0)
        .sense(Sense::click())
        .x_grid_spacer(|input| step_marks(&input, chart.bars.len(), label))
        .custom_x_axes(vec![
            AxisHints::new_x()
                .formatter(|mark, _| step_label(index(mark.value).unwrap_or_default()))
                .label_spacing(Rangef::new(16.0, 24.0))
                .tick_label_font(font.clone()),
        ])
        .y_grid_spacer(|input| time_marks(&input))
        .custom_y_axes(vec![
            AxisHints::new_y()
                .formatter(|mark, _| format::moment(mark.value as DurNs, (mark.step_size / 10.0) as DurNs))
                .label_spacing(Rangef::new(10.0, 16.0))
                .min_thickness(46.0)
                .tick_label_font(font),
        ])
        .label_formatter(|at| match at {
            HoverPosition::NearDataPoint { position, .. } | HoverPosition::Elsewhere { position } => {
                let at = index(position.x)?;
                Some(hover_text(chart, chart.bars.get(at)?, &names[at]))
            }
        });
    let selected = *ctx.range;
    let response = plot.show(ui, |plot| {
        if let Some(range) = selected {
            let within = |bar: &super::work::StepBar| bar.time.intersect(range).is_some();
            let first = chart.bars.iter().position(within);
            let last = chart.bars.iter().rposition(within);
            if let (Some(first), Some(last)) = (first, last) {
                let color = theme::tokens(is_dark).selected;
                plot.span(Span::new("", first as f64 - 0.5..=last as f64 + 0.5).fill(color).border_width(0.0));
            }
        }
        // Less than a pixel between bars would show as stripes: where there is no more they overlap by one.
        let points = plot.transform().dpos_dvalue_x().abs().max(f64::MIN_POSITIVE);
        let width = if points * (1.0 - BAR) >= 1.0 { BAR } else { 1.0 + (1.0 / points).min(1.0) };
        let mut bases: Vec<DurNs> = vec![0; chart.bars.len()];
        for (i, series) in chart.series.iter().enumerate() {
            let color = series_color(series.1, is_dark);
            let bars = chart.bars.iter().enumerate().map(|(at, bar)| {
                let base = bases[at];
                bases[at] += bar.parts[i];
                let color = if bar.left_out.is_empty() { color } else { color.gamma_multiply(FADED) };
                Bar::new(at as f64, bar.parts[i] as f64).base_offset(base as f64).width(width).fill(color)
            });
            plot.bar_chart(BarChart::new(series.0, bars.collect()).color(color).allow_hover(false));
        }
    });
    let label = format!("Time per step: {} bars", chart.bars.len());
    response.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, label.clone()));
    let at = response.response.interact_pointer_pos().filter(|_| response.response.clicked())?;
    index(response.transform.value_from_position(at).x)
}

/// What is said of a bar: how long it is, of what, and how long what a click selects is.
fn hover_text(chart: &Chart, bar: &super::work::StepBar, name: &str) -> String {
    let (total, selected): (DurNs, DurNs) = (bar.parts.iter().sum(), bar.time.dur());
    let mut lines = vec![name.to_owned(), format!("{}, {}", format::duration(total), chart.length)];
    if chart.steps_per_bar == 1 && selected != total {
        let selected = format::duration(selected);
        lines.push(format!("A click selects {selected}: the step on its slowest device, or its range on the host"));
    }
    let parts = chart.series.iter().zip(&bar.parts).filter(|(_, ns)| **ns > 0);
    lines.extend(parts.map(|(series, &ns)| format!("{}: {}", series.0, format::duration(ns))));
    if !bar.left_out.is_empty() {
        lines.push(not_judged(&bar.left_out));
    }
    if bar.outside_ns > 0 {
        let outside = format::duration(bar.outside_ns);
        lines.push(format!(
            "{outside} of it before the first or after the last work of the device: no gap, and not judged"
        ));
    }
    lines.join("\n")
}

/// The bar at a position of the horizontal axis.
fn index(x: f64) -> Option<usize> {
    (x > -0.5).then(|| x.round() as usize)
}

/// Marks at round times, at least two above zero: the plot's own are powers of ten, of which a low panel shows none.
fn time_marks(input: &GridInput) -> Vec<GridMark> {
    let top = input.bounds.1.max(1.0);
    // The least distance in points is 8: three of them are room for a label.
    let most = (input.base_step_size * 3.0 * 2.5).min(top / 2.0);
    let power = 10_f64.powf(most.log10().floor());
    let step = [8.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.5].map(|n| n * power).into_iter().find(|&step| step <= most);
    let step = step.unwrap_or(power);
    (0..=(top / step) as usize).map(|at| GridMark { value: at as f64 * step, step_size: step }).collect()
}

/// A mark at each bar, or at every few where their labels need more room.
///
/// * `label`: width of the widest label, in points.
fn step_marks(input: &GridInput, n: usize, label: f32) -> Vec<GridMark> {
    // The least distance in points is 8.
    let least = input.base_step_size * f64::from(label.max(LEAST_LABEL) + BETWEEN_LABELS) / 8.0;
    let power = 10_f64.powf(least.max(1.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|&step| step >= least);
    let step = step.unwrap_or(power) as usize;
    let last = (input.bounds.1.max(0.0) as usize).min(n.saturating_sub(1));
    (0..=last).step_by(step).map(|at| GridMark { value: at as f64, step_size: step as f64 }).collect()
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Role, vec2};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::super::work::{HOST, StepBar};
    use super::*;
    use crate::model::TimeRange;

    #[test]
    fn two_times_above_zero_are_marked_at_every_scale() {
        for top in [7.0, 999.0, 39_000.0, 1_170_000.0, 2.6e9] {
            for base_step_size in [top / 40.0 * 8.0, top / 400.0 * 8.0] {
                let marks = time_marks(&GridInput { bounds: (0.0, top), base_step_size });
                assert!((3..=22).contains(&marks.len()), "{} marks up to {top}", marks.len());
                assert!(marks.iter().all(|mark| mark.value <= top));
            }
        }
    }

    #[test]
    fn steps_are_labelled_however_many_there_are() {
        for n in [1, 7, 60, 135, 240] {
            for width in [200.0_f64, 450.0, 900.0] {
                let points = width / n as f64;
                let input = GridInput { bounds: (-0.5, n as f64 - 0.5), base_step_size: 8.0 / points };
                for label in [6.0_f32, 20.0, 60.0] {
                    let marks = step_marks(&input, n, label);
                    let apart = marks[0].step_size * points;
                    assert!(n == 1 || apart >= f64::from(label.max(24.0)), "{n} {width} {label}: {apart}");
                    assert!(width < 450.0 && n > 1 || marks.len() >= n.min(3), "{n} {width} {label}: {}", marks.len());
                }
            }
        }
    }

    #[test]
    fn a_long_title_takes_one_line_and_a_short_one_no_more_than_it_needs() {
        let choice = |title: &str| {
            let chart = Chart {
                title: title.to_owned(),
                trace: 0,
                source: "annotations".to_owned(),
                length: "on this device",
                series: &super::super::work::DEVICE,
                bars: Vec::new(),
                steps_per_bar: 1,
            };
            let builder = Harness::builder().with_size(vec2(270.0, 250.0));
            let mut harness = builder.build_ui(move |ui| {
                ui.horizontal_wrapped(|ui| {
                    let label = ui.label("Time per step").id;
                    choice_ui(std::slice::from_ref(&chart), &mut 0, label, ui);
                });
            });
            harness.run();
            harness.get_by_role(Role::ComboBox).rect()
        };
        let [short, long] = [choice("GPU 0"), choice(&"pytorch_resnet50_num_workers_".repeat(3))];
        assert!(short.width() < 100.0 && long.width() < 270.0, "{short:?} {long:?}");
        assert_eq!(short.height(), long.height());
    }

    #[test]
    fn every_phase_of_a_host_shows_on_the_background() {
        for (is_dark, series) in [false, true].iter().flat_map(|is_dark| HOST.iter().map(move |of| (*is_dark, of))) {
            let found = theme::contrast(series_color(series.1, is_dark), theme::tokens(is_dark).canvas);
            assert!(found >= 1.65, "dark {is_dark}, {}: {found:.2}", series.0);
        }
    }

    #[test]
    fn the_legend_shows_the_part_that_has_most_of_the_faded_bars() {
        let bar = |parts: [DurNs; 4], left_out: &str| StepBar {
            name: "step".to_owned(),
            time: TimeRange { start: 0, end: 100 },
            parts: parts.to_vec(),
            outside_ns: 0,
            left_out: left_out.to_owned(),
        };
        let most = |bars: Vec<StepBar>| {
            let series = &super::super::work::DEVICE;
            let (title, source) = (String::new(), String::new());
            let chart = Chart { title, trace: 0, source, length: "", series, bars, steps_per_bar: 1 };
            most_faded(&chart).map(|series| series.0)
        };
        assert_eq!(
            most(vec![bar([90, 0, 0, 10], ""), bar([10, 30, 20, 0], "the first")]),
            Some("Exposed communication")
        );
        assert_eq!(most(vec![bar([90, 0, 0, 10], "")]), None);
    }

    #[test]
    fn a_bar_says_what_of_its_idle_time_is_in_no_gap() {
        let bar = |outside_ns| {
            let time = TimeRange { start: 0, end: 5_000 };
            StepBar {
                name: "step".to_owned(),
                time,
                parts: vec![3_000, 0, 0, 2_000],
                outside_ns,
                left_out: String::new(),
            }
        };
        let chart = Chart {
            title: "GPU 0".to_owned(),
            trace: 0,
            source: "annotations".to_owned(),
            length: "on this device",
            series: &super::super::work::DEVICE,
            bars: Vec::new(),
            steps_per_bar: 1,
        };
        let text = hover_text(&chart, &bar(1_500), "step");
        assert!(text.contains("Idle: 2.000 µs\n1.500 µs of it before the first or after the last work"), "{text}");
        assert!(!hover_text(&chart, &bar(0), "step").contains("of it"));
    }
}
