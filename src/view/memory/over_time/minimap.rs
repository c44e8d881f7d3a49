//! The whole history in a strip: the highest `active` under each pixel.

use eframe::egui::{Mesh, Rect, Shape, Ui, pos2};

use super::Place;
use super::axis::{Axis, AxisKind, NO_STATE};
use super::curves::Curve;
use crate::job::Memo;
use crate::model::TimeRange;
use crate::session::MemoryKey;

#[derive(Clone, Debug, PartialEq)]
struct Question {
    history: MemoryKey,
    axis: AxisKind,
    span: TimeRange,
    n_pixels: usize,
}

/// The strip over the picture.
#[derive(Debug, Default)]
pub struct Overview {
    memo: Memo<Question, Vec<u64>>,
    asked: Option<Question>,
}

impl Overview {
    /// Whether the strip is still to come.
    pub fn is_pending(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| !self.memo.is_current(asked) && !self.memo.has_crashed(asked))
    }

    /// Paints the strip.
    ///
    /// * `span`: what it shows, in places on the axis.
    pub fn paint(&mut self, ui: &Ui, place: &Place<'_>, span: TimeRange) {
        let rect = place.parts.minimap;
        ui.painter().rect_filled(rect, 2.0, ui.visuals().extreme_bg_color);
        let n_pixels = (rect.width() * ui.pixels_per_point()).round().clamp(1.0, 16_384.0) as usize;
        let asked = Question { history: place.key.clone(), axis: place.axis.kind, span, n_pixels };
        let (waker, shown, kind) = (ui.ctx().clone(), place.shown.of.clone(), place.axis.kind);
        let work = move |_: &crate::job::Progress| {
            let history = shown.history();
            let columns = Axis { kind, history, offset: shown.open.offset }.columns(span, n_pixels);
            let active = |state: u32| if state == NO_STATE { 0 } else { history.curves.active[state as usize] };
            columns.iter().map(|column| active(column.state)).collect()
        };
        self.memo.get(&asked, move || waker.request_repaint(), work);
        // The strip of another history or axis would be a lie; one of another width is stretched.
        let is_alike = |known: &Question| Question { n_pixels, ..known.clone() } == asked;
        let heights = self.memo.answer().filter(|_| self.memo.question().is_some_and(is_alike));
        let heights = heights.map_or(&[][..], Vec::as_slice);
        let highest = place.index.peak(Curve::Active).1.max(1) as f64;
        let pixel = rect.width() / heights.len().max(1) as f32;
        let color = ui.visuals().selection.bg_fill;
        let mut mesh = Mesh::default();
        let mut at = 0;
        for run in heights.chunk_by(|a, b| a == b) {
            let (left, right) = (rect.left() + at as f32 * pixel, rect.left() + (at + run.len()) as f32 * pixel);
            let height = (f64::from(rect.height() - 2.0) * run[0] as f64 / highest) as f32;
            let bottom = rect.bottom() - 1.0;
            if run[0] > 0 {
                mesh.add_colored_rect(
                    Rect::from_min_max(pos2(left, bottom - height.max(1.0)), pos2(right, bottom)),
                    color,
                );
            }
            at += run.len();
        }
        ui.painter_at(rect).add(Shape::mesh(mesh));
        self.asked = Some(asked);
    }
}
