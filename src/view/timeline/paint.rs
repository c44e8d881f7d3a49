//! Painting of a draw list: one texture for all rows, one mesh for all slices, cached labels.

use eframe::egui::{
    Align2, Color32, ColorImage, FontId, Mesh, Painter, Pos2, Rect, Shape, TextureHandle, TextureOptions, pos2, vec2,
};

use super::layout::{Curve, DrawList, SliceBox, TICK};
use crate::analysis::gaps::BACKWARD_NODE;
use crate::figures::text::shortened;
use crate::model::{SliceKind, StringId};
use crate::session::OpenTrace;
use crate::widget::labels;
use crate::widget::slice_color::{self, SliceColors};

/// Labels painted per frame.
const MAX_LABELS: usize = 1500;
/// Narrower slices have no label, in points.
const MIN_LABEL_WIDTH: f32 = 22.0;

/// Height of the lines of samples, in points.
pub const SAMPLE_HEIGHT: f32 = 8.0;

/// State of one area between frames.
#[derive(Default)]
pub struct AreaPaint {
    texture: Option<TextureHandle>,
    /// Of the texture.
    pixels: Vec<Color32>,
    /// Room for those of the next frame.
    next: Vec<Color32>,
}

impl AreaPaint {
    /// Paints the busy shares of all rows and the strips of idle time.
    pub fn rows(&mut self, painter: &Painter, list: &DrawList, colors: &SliceColors, left: f32, pixel: f32) {
        let mut rows: Vec<(f32, f32)> = list.cell_rows.clone();
        let mut pixels = std::mem::take(&mut self.next);
        pixels.clear();
        pixels.extend(list.cells.iter().map(|cell| colors.mixed(cell.tint, cell.share)));
        for &at in &list.alone {
            pixels[at] = colors.alone(list.cells[at].tint);
        }
        for strip in &list.strips {
            let n_rows = (strip.height / pixel).round().max(1.0) as usize;
            strip.pixels(n_rows, colors.is_for(true), &mut pixels);
            let top = (strip.top / pixel).round() * pixel;
            rows.extend((0..n_rows).map(|row| (top + row as f32 * pixel, pixel)));
        }
        if rows.is_empty() {
            return;
        }
        let size = [list.n_pixels, rows.len()];
        let is_same = self.texture.as_ref().is_some_and(|texture| texture.size() == size);
        let is_same = is_same && are_equal(&pixels, &self.pixels);
        if !is_same {
            let image = ColorImage::new(size, pixels.clone());
            match &mut self.texture {
                Some(texture) => texture.set(image, TextureOptions::NEAREST),
                None => {
                    let texture = painter.ctx().load_texture("timeline rows", image, TextureOptions::NEAREST);
                    self.texture = Some(texture);
                }
            }
            std::mem::swap(&mut self.pixels, &mut pixels);
        }
        self.next = pixels;
        let Some(texture) = &self.texture else { return };
        let mut mesh = Mesh::with_texture(texture.id());
        let n_rows = size[1] as f32;
        let right = left + size[0] as f32 * pixel;
        for (row, &(top, height)) in rows.iter().enumerate() {
            // The middle of the texel, so that no rounding reaches the adjacent row.
            let v = (row as f32 + 0.5) / n_rows;
            let uv = Rect::from_min_max(pos2(0.0, v), pos2(1.0, v));
            let rect = Rect::from_min_max(pos2(left, top), pos2(right, top + height));
            mesh.add_rect_with_uv(rect, uv, Color32::WHITE);
        }
        painter.add(Shape::mesh(mesh));
    }
}

/// Whether two pictures are the same. By blocks, in which no pixel waits for that before it: `==` on a picture of a
/// screen took a tenth of the frame.
fn are_equal(a: &[Color32], b: &[Color32]) -> bool {
    const BLOCK: usize = 1024;
    let is_same = |(a, b): (&[Color32], &[Color32])| a.iter().zip(b).fold(true, |is_same, (a, b)| is_same & (a == b));
    a.len() == b.len() && a.chunks(BLOCK).zip(b.chunks(BLOCK)).all(is_same)
}

/// Paints all slices of a list.
pub fn boxes(painter: &Painter, list: &DrawList, colors: &SliceColors) {
    let mut mesh = Mesh::default();
    mesh.reserve_vertices(list.boxes.len() * 4);
    mesh.reserve_triangles(list.boxes.len() * 2);
    for slice in &list.boxes {
        let color = color_of(slice, colors);
        shaded_rect(&mut mesh, slice.rect, color, darker(color));
    }
    painter.add(Shape::mesh(mesh));
}

fn color_of(slice: &SliceBox, colors: &SliceColors) -> Color32 {
    match slice.color.map(slice_color::chosen) {
        Some(color) if slice.is_alone => colors.standing_out(color),
        Some(color) => color,
        None if slice.is_alone => colors.alone(slice.tint),
        None => colors.full(slice.tint),
    }
}

fn darker(color: Color32) -> Color32 {
    let [r, g, b, a] = color.to_array().map(|byte| (u16::from(byte) * 7 / 8) as u8);
    Color32::from_rgba_premultiplied(r, g, b, color.a().max(a))
}

/// A rectangle that darkens towards its right edge: adjacent slices remain distinct without an outline.
fn shaded_rect(mesh: &mut Mesh, rect: Rect, left: Color32, right: Color32) {
    let first = mesh.vertices.len() as u32;
    mesh.add_triangle(first, first + 1, first + 2);
    mesh.add_triangle(first + 2, first + 1, first + 3);
    mesh.colored_vertex(rect.left_top(), left);
    mesh.colored_vertex(rect.right_top(), right);
    mesh.colored_vertex(rect.left_bottom(), left);
    mesh.colored_vertex(rect.right_bottom(), right);
}

/// Paints instants as small diamonds at the top of their track; samples, of which there are many,
/// as thin dim lines.
pub fn ticks(painter: &Painter, list: &DrawList, color: Color32, pixel: f32) {
    let mut mesh = Mesh::default();
    let dim = color.linear_multiply(0.4);
    for tick in &list.ticks {
        if tick.is_thin {
            let line = Rect::from_min_size(pos2(tick.x, tick.top), vec2(pixel, SAMPLE_HEIGHT));
            mesh.add_colored_rect(line, dim);
            continue;
        }
        let first = mesh.vertices.len() as u32;
        let Pos2 { x, y } = pos2(tick.x, tick.top + 2.0);
        for corner in [pos2(x, y - 3.0), pos2(x + TICK, y), pos2(x, y + 3.0), pos2(x - TICK, y)] {
            mesh.colored_vertex(corner, color);
        }
        mesh.add_triangle(first, first + 1, first + 2);
        mesh.add_triangle(first, first + 2, first + 3);
    }
    painter.add(Shape::mesh(mesh));
}

/// Paints counters as areas: solid to the smallest value of each pixel, faint to its largest.
pub fn curves(painter: &Painter, list: &DrawList, colors: &SliceColors, pixel: f32) {
    let mut mesh = Mesh::default();
    for curve in &list.curves {
        curve_mesh(&mut mesh, curve, colors.counter(curve.index), pixel);
    }
    painter.add(Shape::mesh(mesh));
}

/// Writes the largest value of each counter track at its top left, on a plate that dims the curve behind it.
pub fn curve_scales(painter: &Painter, list: &DrawList, color: Color32, back: Color32) {
    for curve in &list.curves {
        let Some(text) = curve.label.clone() else { continue };
        let galley = painter.layout_no_wrap(text, FontId::proportional(10.0), color);
        let plate = Align2::LEFT_TOP.anchor_size(curve.rect.left_top() + vec2(4.0, 0.0), galley.size());
        painter.rect_filled(plate.expand2(vec2(2.0, 0.0)), 2.0, back.gamma_multiply(0.8));
        painter.galley(plate.min, galley, color);
    }
}

fn curve_mesh(mesh: &mut Mesh, curve: &Curve, color: Color32, pixel: f32) {
    let height = curve.rect.height() - 2.0;
    let y = |value: f64| {
        let share = (value - curve.bottom) / (curve.top - curve.bottom).max(f64::MIN_POSITIVE);
        curve.rect.bottom() - height * share.clamp(0.0, 1.0) as f32
    };
    let zero = y(0.0);
    let strength = if curve.index == 0 { 0.45 } else { 0.2 };
    let (solid, faint) = (color.linear_multiply(strength), color.linear_multiply(strength * 0.6));
    let mut x = curve.rect.left();
    for run in curve.columns.chunk_by(|a, b| a == b) {
        let right = x + run.len() as f32 * pixel;
        if let Some((low, high)) = run[0] {
            let (low, high) = (y(low), y(high));
            let rect = |a: f32, b: f32| Rect::from_x_y_ranges(x..=right, a.min(b)..=a.max(b));
            mesh.add_colored_rect(rect(low, zero), solid);
            mesh.add_colored_rect(rect(high, low), faint);
            mesh.add_colored_rect(rect(high - 0.5, high + 1.0), color);
        }
        x = right;
    }
    if let Some(limit) = curve.limit.filter(|&limit| limit <= curve.top) {
        mesh.add_colored_rect(Rect::from_x_y_ranges(curve.rect.x_range(), y(limit)..=y(limit) + 1.0), color);
    }
}

/// The names of slices, by (trace, name).
#[derive(Default)]
pub struct Labels(labels::Labels<(usize, StringId)>);

impl Labels {
    /// Clears the cache, as when other traces were opened.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Paints the names of the slices that are wide enough.
    pub fn paint(&mut self, painter: &Painter, traces: &[OpenTrace], list: &DrawList, clip: Rect) {
        self.0.begin(painter);
        let wide = |rect: Rect| rect.intersect(clip).width() >= MIN_LABEL_WIDTH;
        for slice in list.boxes.iter().filter(|slice| wide(slice.rect)).take(MAX_LABELS) {
            let Some(open) = traces.get(slice.trace) else { continue };
            let visible = slice.rect.intersect(clip);
            let name = open.trace.slices.name[slice.slice.idx()];
            let (text, kind) = (open.trace.strings.get(name), open.trace.slices.kind[slice.slice.idx()]);
            let cut = |length| cut(text, kind, length);
            if let Some(galley) = self.0.fitting(painter, ((slice.trace, name), text), visible.width() - 6.0, cut) {
                // In the middle of the whole row: one that is half out of sight shows half of its label.
                let y = slice.rect.center().y - galley.size().y / 2.0;
                let color = slice.color.map_or(slice_color::TEXT, |rgb| slice_color::text_on(slice_color::chosen(rgb)));
                painter.galley(pos2(visible.left() + 3.0, y), galley, color);
            }
        }
        self.0.end(painter);
    }
}

/// A name cut to `length` characters. Of a function that does not fit, the distinctive part is kept.
fn cut(text: &str, kind: SliceKind, length: usize) -> String {
    match kind {
        // `module.py(12): forward`, `nn.Module: Linear_3`
        SliceKind::PythonFunction => labels::cut(text, |name| name.rsplit(": ").next().unwrap_or(name), length),
        _ if text.chars().nth(length).is_none() => shortened(text, length),
        // All that run a node of the backward pass begin alike.
        _ => shortened(text.strip_prefix(BACKWARD_NODE).unwrap_or(text), length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_that_differ_in_one_pixel_are_not_equal() {
        let picture = vec![Color32::WHITE; 5000];
        assert!(are_equal(&picture, &picture.clone()) && are_equal(&[], &[]) && !are_equal(&picture, &picture[1..]));
        for at in [0, 1023, 1024, 4999] {
            let mut other = picture.clone();
            other[at] = Color32::from_rgba_premultiplied(255, 255, 255, 254);
            assert!(!are_equal(&picture, &other), "{at}");
        }
    }

    #[test]
    fn names_are_cut_to_length() {
        assert_eq!(cut("gemm", SliceKind::Other, 4), "gemm");
        assert_eq!(cut("gemms", SliceKind::Kernel, 4), "gem…");
        assert_eq!(cut("größer", SliceKind::Operator, 3), "gr…");
        assert_eq!(
            cut("void at::native::elementwise_kernel<128, 4>(int)", SliceKind::Kernel, 20),
            "element…rnel<128, 4>"
        );
        let node = |name: &str| cut(&format!("autograd::engine::evaluate_function: {name}"), SliceKind::Operator, 20);
        assert_ne!(node("AddmmBackward0"), node("MmBackward0"));
        assert_eq!(cut("nn.Module: Linear_3", SliceKind::PythonFunction, 8), "Linear_3");
    }
}
