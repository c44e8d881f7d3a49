//! Painting of a picture: a textured rectangle, labels on blocks, outlines.

use std::sync::Arc;

use eframe::egui::{
    Color32, ColorImage, ImageData, Mesh, Painter, Pos2, Rect, Shape, TextureHandle, TextureOptions, epaint::Vertex,
    pos2,
};

use super::heights::Heights;
use super::work::{Label, Picture, PictureKey};
use crate::view::axis::Scale;
use crate::widget::labels::{Labels, cut};
use crate::widget::slice_color;

/// The place of a picture on screen; it is stretched if the view has moved since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Position of column 0 and row 0, and points in a column and a row.
    origin: [f64; 2],
    step: [f64; 2],
    clip: Rect,
}

impl Fit {
    /// * `key`: the window that the picture was made for.
    pub fn new(key: &PictureKey, scale: &Scale, heights: &Heights) -> Self {
        let per_place = f64::from(scale.width()) / scale.view.dur().max(1) as f64;
        let per_byte = f64::from(heights.rect.height()) / heights.bytes.dur().max(1) as f64;
        let left = key.view.start.saturating_sub(scale.view.start) as f64 * per_place;
        let up = key.bytes.start.saturating_sub(heights.bytes.start) as f64 * per_byte;
        let step = [
            key.view.dur() as f64 * per_place / key.size[0].max(1) as f64,
            key.bytes.dur() as f64 * per_byte / key.size[1].max(1) as f64,
        ];
        let clip = heights.rect;
        Self { origin: [f64::from(scale.left) + left, f64::from(clip.bottom()) - up], step, clip }
    }

    pub fn x(&self, column: u32) -> f32 {
        (self.origin[0] + self.step[0] * f64::from(column)) as f32
    }

    pub fn y(&self, row: u32) -> f32 {
        (self.origin[1] - self.step[1] * f64::from(row)) as f32
    }

    /// The column and row under a point of the screen.
    pub fn under(&self, at: Pos2) -> Option<[usize; 2]> {
        let column = (f64::from(at.x) - self.origin[0]) / self.step[0];
        let row = (self.origin[1] - f64::from(at.y)) / self.step[1];
        (column >= 0.0 && row >= 0.0 && self.clip.contains(at)).then_some([column as usize, row as usize])
    }

    fn rect(&self, columns: [u32; 2], rows: [u32; 2]) -> Rect {
        Rect::from_min_max(pos2(self.x(columns[0]), self.y(rows[1])), pos2(self.x(columns[1]), self.y(rows[0])))
    }
}

/// The texture of the newest picture.
#[derive(Default)]
pub struct PictureTexture {
    image: Option<Arc<ColorImage>>,
    texture: Option<TextureHandle>,
}

impl PictureTexture {
    /// Paints a picture.
    pub fn paint(&mut self, painter: &Painter, picture: &Picture, fit: &Fit) {
        let [n_rows, n_columns] = picture.image.size;
        if n_rows == 0 || n_columns == 0 {
            return;
        }
        if self.image.as_ref().is_none_or(|image| !Arc::ptr_eq(image, &picture.image)) {
            let data = ImageData::Color(Arc::clone(&picture.image));
            match &mut self.texture {
                Some(texture) => texture.set(data, TextureOptions::NEAREST),
                None => self.texture = Some(painter.ctx().load_texture("memory", data, TextureOptions::NEAREST)),
            }
            self.image = Some(Arc::clone(&picture.image));
        }
        let Some(texture) = &self.texture else { return };
        let rect = fit.rect([0, n_columns as u32], [0, n_rows as u32]);
        // The image lies on its side: u goes up, v to the right.
        let mut mesh = Mesh::with_texture(texture.id());
        let corners = [
            (rect.left_bottom(), 0.0, 0.0),
            (rect.left_top(), 1.0, 0.0),
            (rect.right_bottom(), 0.0, 1.0),
            (rect.right_top(), 1.0, 1.0),
        ];
        mesh.vertices = corners.map(|(pos, u, v)| Vertex { pos, uv: pos2(u, v), color: Color32::WHITE }).to_vec();
        mesh.add_triangle(0, 1, 2);
        mesh.add_triangle(2, 1, 3);
        painter.add(Shape::mesh(mesh));
    }
}

/// Paints the labels of blocks.
pub fn labels(painter: &Painter, kept: &mut Labels<u32>, labels: &[Label], fit: &Fit) {
    kept.begin(painter);
    for label in labels {
        let rect = fit.rect(label.rect.columns, label.rect.rows).intersect(fit.clip).shrink(1.0);
        if rect.width() < 30.0 || rect.height() < 11.0 {
            continue;
        }
        let cut = |length| cut(&label.text, |text| text, length);
        if let Some(galley) = kept.fitting(painter, (label.rect.id, &label.text), rect.width() - 6.0, cut) {
            let at = pos2(rect.left() + 4.0, rect.center().y - galley.size().y / 2.0);
            painter.galley(at, galley, slice_color::TEXT);
        }
    }
    kept.end(painter);
}

/// Frames a block over its visible life.
///
/// * `rows`: its rows in each column.
pub fn outline(painter: &Painter, rows: &[Option<[u32; 2]>], fit: &Fit, (color, width): (Color32, f32), glow: Color32) {
    let mut mesh = Mesh::default();
    let mut at = 0_u32;
    let mut before: Option<[f32; 2]> = None;
    let upright = |mesh: &mut Mesh, x: f32, a: f32, b: f32| {
        let rect = Rect::from_min_max(
            pos2(x - width / 2.0, a.min(b) - width / 2.0),
            pos2(x + width / 2.0, a.max(b) + width / 2.0),
        );
        mesh.add_colored_rect(rect, color);
    };
    for run in rows.chunk_by(|a, b| a == b) {
        let (left, right) = (fit.x(at), fit.x(at + run.len() as u32));
        at += run.len() as u32;
        let now = run[0].map(|[low, high]| [fit.y(high), fit.y(low)]);
        match (before, now) {
            (Some([top, bottom]), Some([to_top, to_bottom])) => {
                upright(&mut mesh, left, top, to_top);
                upright(&mut mesh, left, bottom, to_bottom);
            }
            (Some([top, bottom]), None) | (None, Some([top, bottom])) => upright(&mut mesh, left, top, bottom),
            (None, None) => {}
        }
        if let Some([top, bottom]) = now {
            mesh.add_colored_rect(Rect::from_min_max(pos2(left, top), pos2(right, bottom)), glow);
            for y in [top, bottom] {
                let line = Rect::from_min_max(pos2(left, y - width / 2.0), pos2(right, y + width / 2.0));
                mesh.add_colored_rect(line, color);
            }
        }
        before = now;
    }
    if let Some([top, bottom]) = before {
        upright(&mut mesh, fit.x(at), top, bottom);
    }
    painter.add(Shape::mesh(mesh));
}
