//! Findings and recurring gaps. A click opens the place of one.

use eframe::egui::text::{LayoutJob, TextFormat};
use eframe::egui::{self, RichText, TextStyle};

use super::work::{ClusterLine, Found, Place, Recurring, Seen, Summarized};
use crate::figures::findings::{OUT_OF_MEMORY, no_findings, severity, value};
use crate::figures::format;
use crate::figures::text::{display_name, shortened, unbroken};
use crate::figures::verdicts::{LACKS_EVENTS, ending, level};
use crate::model::DurNs;
use crate::view::states::nothing_ui;
use crate::widget::gap_color::swatch_ui;
use crate::widget::prose::{plain, prose_ui};
use crate::widget::theme;

/// The most paragraphs that stand open above the findings; of more all but the first, which is of the job, are
/// unfolded.
const MAX_IN_SHORT: usize = 3;
/// Longer sentences are shortened, in characters: names in them are short already, and their ends say what to do.
const MAX_SENTENCE: usize = 1_000;

/// What the figures of the sentence about a device are of.
const IN_SHORT: &str = "All shares but that of the compute kernel time are of the judged time: the judged steps, \
                        as the device runs them. The time per step is the judged time divided by these steps; a single \
                        step may take longer or shorter";

/// Which list is on show.
#[derive(Debug, Default)]
pub struct List {
    shows_clusters: bool,
}

impl List {
    /// What to show, if something was chosen.
    ///
    /// * `memory`: the findings about memory; `None` until they are known.
    pub fn ui(&mut self, of: &Summarized, memory: Option<&[&Found]>, ui: &mut egui::Ui) -> Option<Seen> {
        ui.horizontal_wrapped(|ui| {
            let findings = format!("Findings ({})", of.findings.len() + memory.map_or(0, <[&Found]>::len));
            ui.selectable_value(&mut self.shows_clusters, false, findings)
                .on_hover_text("Shares of the time judged, busy or idle. One finding may have several causes");
            let clusters = format!("Recurring gaps ({})", of.recurring.n);
            ui.selectable_value(&mut self.shows_clusters, true, clusters)
                .on_hover_text("Those with most time per step, or without steps with most time in all");
        });
        if self.shows_clusters {
            return recurring_ui(&of.recurring, ui).map(Seen::Place);
        }
        findings_ui(of, memory, ui)
    }
}

/// What each device spends its time on.
fn in_short_ui(of: &Summarized, ui: &mut egui::Ui) {
    let sentences = |of: &[String], ui: &mut egui::Ui| {
        for text in of {
            prose_ui(ui, &shortened(text, MAX_SENTENCE), plain).on_hover_text(IN_SHORT);
        }
    };
    match &of.in_short[..] {
        [first, others @ ..] if others.len() >= MAX_IN_SHORT => {
            sentences(std::slice::from_ref(first), ui);
            let title = format!("In short, {} more", others.len());
            egui::CollapsingHeader::new(title).show(ui, |ui| sentences(others, ui));
        }
        all => sentences(all, ui),
    }
}

fn findings_ui(of: &Summarized, memory: Option<&[&Found]>, ui: &mut egui::Ui) -> Option<Seen> {
    let mut shown = None;
    let mut all: Vec<&Found> = of.findings.iter().chain(memory.unwrap_or_default().iter().copied()).collect();
    // What ended the program comes before what is told of its time.
    let failed = |found: &&Found| found.finding.rule == OUT_OF_MEMORY;
    all.sort_by_key(|found| std::cmp::Reverse((failed(found), found.finding.severity)));
    let n_failed = all.iter().filter(|found| failed(found)).count();
    for (i, found) in all.iter().enumerate() {
        if i == n_failed {
            in_short_ui(of, ui);
        }
        ui.push_id(i, |ui| shown = finding_ui(found, ui).or(shown));
    }
    if n_failed == all.len() {
        in_short_ui(of, ui);
    }
    if memory.is_none() {
        ui.weak("Looking for findings about memory…");
    } else if !all.is_empty() {
        // Those listed say it.
    } else if of.checks.is_empty() && of.in_short.is_empty() {
        nothing_ui("Nothing could be judged", "Too little device work was recorded for any rule", ui);
    } else if !of.checks.is_empty() {
        ui.label(no_findings(of.checks.len() as u64));
    }
    if !of.checks.is_empty() {
        egui::CollapsingHeader::new("What was checked").show(ui, |ui| {
            for check in &of.checks {
                prose_ui(ui, check, RichText::small);
            }
        });
    }
    shown
}

fn finding_ui(found: &Found, ui: &mut egui::Ui) -> Option<Seen> {
    let finding = &found.finding;
    let color = theme::tokens(ui.visuals().dark_mode).severity[finding.severity as usize];
    let id = ui.scope_id().with("advice");
    let mut is_open = ui.data(|data| data.get_temp::<bool>(id)).unwrap_or_default();
    let mut shown = None;
    let mut is_asked = false;
    let sentence = ui.horizontal_wrapped(|ui| {
        // One text: egui cuts the beginning of a long word in the later lines of a text that begins within a line.
        let mut text = LayoutJob::default();
        let of = found.of.as_ref().map(|of| format!("  in {}", display_name(of))).unwrap_or_default();
        let gain = finding.ceiling_ns_per_step.map(|ns| gain(finding.rule, ns)).unwrap_or_default();
        let parts = [
            (severity(finding.severity).label, color),
            ("  ", color),
            (&*shortened(&finding.text, MAX_SENTENCE), ui.visuals().text_color()),
            (&*gain, ui.visuals().strong_text_color()),
            (&*of, ui.visuals().weak_text_color()),
        ];
        for (part, color) in parts {
            let font = TextStyle::Body.resolve(ui.style());
            text.append(&unbroken(part), 0.0, TextFormat { font_id: font, color, ..TextFormat::default() });
        }
        let whole: String = parts.iter().map(|part| part.0).collect();
        let enabled = ui.is_enabled();
        ui.label(text).widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, enabled, &whole));
        // A link goes to the next line as a whole.
        ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
        if found.place.is_some() && ui.link("Show").on_hover_text("Show where it is most visible").clicked() {
            shown = found.place;
        }
        if ui.link(if is_open { "Less" } else { "What to do" }).clicked() {
            is_open = !is_open;
            is_asked = is_open;
            ui.data_mut(|data| data.insert_temp(id, is_open));
        }
    });
    if is_open {
        let advice = ui.indent("advice", |ui| {
            for sentence in &finding.advice {
                prose_ui(ui, &format!("\u{2022} {sentence}"), plain);
            }
            let measured = value(finding.measured, finding.unit);
            let threshold = level(finding.threshold, finding.default_threshold, finding.unit);
            prose_ui(ui, &format!("Measured {measured}, threshold {threshold}"), plain);
            for note in &finding.evidence.notes {
                prose_ui(ui, &display_name(note), plain);
            }
        });
        if is_asked {
            let whole = sentence.response.rect.union(advice.response.rect);
            let is_larger = whole.height() > ui.clip_rect().height();
            ui.scroll_to_rect(whole, is_larger.then_some(egui::Align::Min));
        }
    }
    shown
}

/// What ending the cause of a finding of a rule gains, after its sentence.
fn gain(rule: &str, ceiling: DurNs) -> String {
    format!(". {} saves at most {} per step", ending(rule), format::duration(ceiling))
}

/// What the two names in the line of recurring gaps are.
const WHY: &str = "What would have to change to end most of their time, as in the idle time of the device; and what the \
                   host did meanwhile, or what held up the work, in the color of the strips of the timeline";

/// What would end the gaps, and what went on meanwhile where that has another name.
fn why(line: &ClusterLine) -> String {
    let (cause, class) = (line.cause.label(), line.class.label());
    if cause == class { cause.to_owned() } else { format!("{cause}, meanwhile: {class}") }
}

fn recurring_ui(of: &Recurring, ui: &mut egui::Ui) -> Option<Place> {
    if of.n == 0 {
        let how = "A gap recurs if it lies between the same work in several steps";
        nothing_ui("No recurring gaps", how, ui);
    }
    if of.lacks_steps {
        ui.weak("No steps: by time in all, without a gain per step");
    }
    if of.lacks_events {
        ui.label(RichText::new(LACKS_EVENTS).color(ui.visuals().warn_fg_color));
    }
    let mut shown = None;
    for line in &of.lines {
        ui.add_space(4.0);
        ui.horizontal_wrapped(|ui| {
            swatch_ui(line.class, ui).on_hover_text(line.class.label());
            let text = RichText::new(format!("{}: {}", display_name(&line.title), why(line))).small();
            ui.label(text).on_hover_text(WHY);
        });
        prose_ui(ui, &line.numbers, RichText::strong);
        let [short, whole] = &line.between;
        // On a line of its own: egui cuts the beginning of a long word in a text that begins within a line.
        if ui.link(short).on_hover_text(format!("{whole}\nShow the longest")).clicked() {
            shown = line.place;
        }
    }
    if of.n > of.lines.len() {
        ui.weak(format!("{} more: Gaps lists them all under Clusters", format::count((of.n - of.lines.len()) as u64)));
    }
    shown
}
