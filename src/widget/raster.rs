//! A software rasterizer for egui's triangles, without a display or a GPU.
//!
//! For screenshots in reports and tests: the output is the same on every machine.

use std::collections::HashMap;

use eframe::egui::epaint::textures::TextureFilter;
use eframe::egui::epaint::{ClippedPrimitive, ImageDelta, Mesh, Primitive, Vertex};
use eframe::egui::{Color32, ColorImage, ImageData, Pos2, Rect, TextureId, TextureOptions, TexturesDelta};

/// Draws triangles as `egui_glow` does: colors multiplied and blended in gamma space, with
/// premultiplied alpha.
///
/// Paint callbacks, which draw with a GPU of their own, are left out; textures are clamped at their
/// edges.
#[derive(Debug, Default)]
pub struct Raster {
    textures: HashMap<TextureId, Texture>,
    /// Textures to free before the next update: what is painted now may still need them.
    free: Vec<TextureId>,
}

#[derive(Debug)]
struct Texture {
    image: ColorImage,
    options: TextureOptions,
}

impl Raster {
    /// Takes over what changed in egui's textures, and empties `delta`. Call it after every frame,
    /// painted or not.
    #[expect(clippy::iter_over_hash_type, reason = "textures are updated each by itself")]
    pub fn update(&mut self, delta: &mut TexturesDelta) {
        for id in self.free.drain(..) {
            self.textures.remove(&id);
        }
        for (id, deltas) in delta.set.drain() {
            for delta in &deltas {
                self.set(id, delta);
            }
        }
        self.free.extend(delta.free.drain());
    }

    fn set(&mut self, id: TextureId, delta: &ImageDelta) {
        let ImageData::Color(patch) = &delta.image;
        let Some([left, top]) = delta.pos else {
            self.textures.insert(id, Texture { image: patch.as_ref().clone(), options: delta.options });
            return;
        };
        let Some(texture) = self.textures.get_mut(&id) else { return };
        let [width, height] = texture.image.size;
        if patch.width() == 0 || left + patch.width() > width || top + patch.height() > height {
            return;
        }
        for (y, row) in patch.pixels.chunks_exact(patch.width()).enumerate() {
            let first = (top + y) * width + left;
            texture.image.pixels[first..first + row.len()].copy_from_slice(row);
        }
    }

    /// Paints one frame.
    ///
    /// * `size`: width and height of the picture in pixels.
    /// * `background`: an opaque color.
    /// * Cost: proportional to the pixels covered, about 1 ns each for plain rectangles.
    pub fn paint(
        &self,
        size: [usize; 2],
        pixels_per_point: f32,
        background: Color32,
        primitives: &[ClippedPrimitive],
    ) -> ColorImage {
        let mut image = ColorImage::filled(size, background);
        for ClippedPrimitive { clip_rect, primitive } in primitives {
            let Primitive::Mesh(mesh) = primitive else { continue };
            let Some(texture) = self.textures.get(&mesh.texture_id) else { continue };
            let clip = Clip::new(*clip_rect * pixels_per_point, size);
            paint_mesh(&mut image, &clip, mesh, texture, pixels_per_point);
        }
        image
    }
}

/// The pixels that may be painted: from `min`, up to `max` without it.
struct Clip {
    min: [i64; 2],
    max: [i64; 2],
}

impl Clip {
    fn new(rect: Rect, size: [usize; 2]) -> Self {
        let cut = |value: f32, side: usize| (value.round() as i64).clamp(0, size[side] as i64);
        Self { min: [cut(rect.min.x, 0), cut(rect.min.y, 1)], max: [cut(rect.max.x, 0), cut(rect.max.y, 1)] }
    }
}

/// Subpixels per pixel side, as on GPUs.
const SUBPIXELS: i64 = 256;

/// A corner in subpixels, clamped far outside of any image.
fn fixed(pos: Pos2, pixels_per_point: f32) -> [i64; 2] {
    const FAR: i64 = 1 << 29;
    let snap = |value: f32| (((value * pixels_per_point) * SUBPIXELS as f32).round() as i64).clamp(-FAR, FAR);
    [snap(pos.x), snap(pos.y)]
}

fn paint_mesh(image: &mut ColorImage, clip: &Clip, mesh: &Mesh, texture: &Texture, pixels_per_point: f32) {
    for indices in mesh.indices.chunks_exact(3) {
        let corner = |i: usize| mesh.vertices.get(indices[i] as usize);
        if let (Some(&a), Some(&b), Some(&c)) = (corner(0), corner(1), corner(2)) {
            let corners = [a, b, c];
            if corners.iter().all(|corner| corner.pos.is_finite()) {
                paint_triangle(image, clip, corners, texture, pixels_per_point);
            }
        }
    }
}

fn paint_triangle(
    image: &mut ColorImage,
    clip: &Clip,
    mut corners: [Vertex; 3],
    texture: &Texture,
    pixels_per_point: f32,
) {
    let mut at = corners.map(|corner| fixed(corner.pos, pixels_per_point));
    let area = |[a, b, c]: [[i64; 2]; 3]| (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    if area(at) < 0 {
        corners.swap(1, 2);
        at.swap(1, 2);
    }
    if area(at) == 0 {
        return;
    }
    let edges = [Edge::new(at[0], at[1]), Edge::new(at[1], at[2]), Edge::new(at[2], at[0])];
    let paint = Paint::new(corners, at, texture);
    let low = at.iter().map(|corner| corner[1]).min().unwrap_or(0).div_euclid(SUBPIXELS);
    let high = at.iter().map(|corner| corner[1]).max().unwrap_or(0).div_euclid(SUBPIXELS) + 1;
    let width = image.size[0];
    for y in low.max(clip.min[1])..high.min(clip.max[1]) {
        let mut span = [clip.min[0], clip.max[0]];
        for edge in &edges {
            edge.cut(y, &mut span);
        }
        let [first, end] = span;
        if first >= end {
            continue;
        }
        let start = y as usize * width;
        let Some(pixels) = image.pixels.get_mut(start + first as usize..start + end as usize) else { continue };
        paint.span(pixels, first, y);
    }
}

/// One side of a triangle. Of two triangles that share a side, exactly one paints each pixel on it.
struct Edge {
    from: [i64; 2],
    delta: [i64; 2],
    /// 0 if pixels right on the side belong to this triangle, else 1.
    least: i64,
}

impl Edge {
    fn new(from: [i64; 2], to: [i64; 2]) -> Self {
        let delta = [to[0] - from[0], to[1] - from[1]];
        let is_top_left = delta[1] < 0 || (delta[1] == 0 && delta[0] > 0);
        Self { from, delta, least: i64::from(!is_top_left) }
    }

    /// Cuts `span`, columns of row `y`, to the pixels whose centers lie inside.
    fn cut(&self, y: i64, span: &mut [i64; 2]) {
        let center = y * SUBPIXELS + SUBPIXELS / 2;
        let at_zero =
            self.delta[0] * (center - self.from[1]) - self.delta[1] * (SUBPIXELS / 2 - self.from[0]) - self.least;
        let step = -self.delta[1] * SUBPIXELS;
        match step.signum() {
            // at_zero + step * x >= 0
            1 => span[0] = span[0].max(-at_zero.div_euclid(step)),
            -1 => span[1] = span[1].min(at_zero.div_euclid(-step) + 1),
            _ if at_zero < 0 => span[1] = span[0],
            _ => {}
        }
    }
}

/// The fill of a triangle.
enum Paint<'a> {
    /// One color all over: shapes without texture, which is nearly all of a UI.
    Plain(Color32),
    Varying {
        /// Red, green, blue, alpha (0 to 255), then the texture position in texels.
        value: [f32; 6],
        per_column: [f32; 6],
        per_row: [f32; 6],
        texture: &'a Texture,
        filter: TextureFilter,
    },
}

impl<'a> Paint<'a> {
    fn new(corners: [Vertex; 3], at: [[i64; 2]; 3], texture: &'a Texture) -> Self {
        let [a, b, c] = corners;
        if a.color == b.color && b.color == c.color && a.uv == b.uv && b.uv == c.uv {
            return Self::Plain(multiply(a.color, texture.sample([0, 0], a.uv)));
        }
        let size = texture.image.size.map(|side| side as f32);
        let values = corners.map(|corner| {
            let [red, green, blue, alpha] = corner.color.to_array().map(f32::from);
            [red, green, blue, alpha, corner.uv.x * size[0], corner.uv.y * size[1]]
        });
        let pixel = |corner: [i64; 2]| corner.map(|side| side as f64 / SUBPIXELS as f64);
        let [p, q, r] = at.map(pixel);
        let (u, v) = ([q[0] - p[0], q[1] - p[1]], [r[0] - p[0], r[1] - p[1]]);
        let area = u[0] * v[1] - u[1] * v[0];
        let (mut value, mut per_column, mut per_row) = ([0.0; 6], [0.0; 6], [0.0; 6]);
        for i in 0..6 {
            let first = f64::from(values[0][i]);
            let (du, dv) = (f64::from(values[1][i]) - first, f64::from(values[2][i]) - first);
            let (x, y) = ((du * v[1] - dv * u[1]) / area, (dv * u[0] - du * v[0]) / area);
            value[i] = (first + (0.5 - p[0]) * x + (0.5 - p[1]) * y) as f32;
            (per_column[i], per_row[i]) = (x as f32, y as f32);
        }
        let texels_a_pixel = per_column[4].hypot(per_row[4]).max(per_column[5].hypot(per_row[5]));
        let options = texture.options;
        let filter = if texels_a_pixel > 1.0 { options.minification } else { options.magnification };
        Self::Varying { value, per_column, per_row, texture, filter }
    }

    /// Fills pixels of row `y` from column `first` on.
    fn span(&self, pixels: &mut [Color32], first: i64, y: i64) {
        match self {
            Self::Plain(color) if color.is_opaque() => pixels.fill(*color),
            Self::Plain(color) => pixels.iter_mut().for_each(|pixel| *pixel = blend(*pixel, *color)),
            Self::Varying { value, per_column, per_row, texture, filter } => {
                for (i, pixel) in pixels.iter_mut().enumerate() {
                    let column = (first + i as i64) as f32;
                    let at = |i: usize| value[i] + per_column[i] * column + per_row[i] * y as f32;
                    let byte = |i: usize| at(i).round().clamp(0.0, 255.0) as u8;
                    let color = Color32::from_rgba_premultiplied(byte(0), byte(1), byte(2), byte(3));
                    let texel = texture.filtered(at(4), at(5), *filter);
                    *pixel = blend(*pixel, multiply(color, texel));
                }
            }
        }
    }
}

impl Texture {
    /// The texel nearest to `uv` (0 to 1), moved by whole texels.
    fn sample(&self, by: [i64; 2], uv: Pos2) -> Color32 {
        let [width, height] = self.image.size;
        self.texel((uv.x * width as f32).floor() as i64 + by[0], (uv.y * height as f32).floor() as i64 + by[1])
    }

    /// A texel; clamped to the edge.
    fn texel(&self, x: i64, y: i64) -> Color32 {
        let [width, height] = self.image.size.map(|side| side as i64);
        let (x, y) = (x.clamp(0, (width - 1).max(0)), y.clamp(0, (height - 1).max(0)));
        self.image.pixels.get((y * width + x) as usize).copied().unwrap_or(Color32::TRANSPARENT)
    }

    /// The filtered color at a position in texels.
    fn filtered(&self, x: f32, y: f32, filter: TextureFilter) -> Color32 {
        if filter == TextureFilter::Nearest {
            return self.texel(x.floor() as i64, y.floor() as i64);
        }
        let (x, y) = (x - 0.5, y - 0.5);
        let (left, top) = (x.floor(), y.floor());
        let (right_share, low_share) = (x - left, y - top);
        let (left, top) = (left as i64, top as i64);
        let row = |y: i64| mix(self.texel(left, y), self.texel(left + 1, y), right_share);
        let (upper, lower) = (row(top), row(top + 1));
        let value = |i: usize| (upper[i] + (lower[i] - upper[i]) * low_share).round() as u8;
        Color32::from_rgba_premultiplied(value(0), value(1), value(2), value(3))
    }
}

fn mix(a: Color32, b: Color32, share: f32) -> [f32; 4] {
    let (a, b) = (a.to_array(), b.to_array());
    std::array::from_fn(|i| f32::from(a[i]) + (f32::from(b[i]) - f32::from(a[i])) * share)
}

/// `a * b / 255`, to the nearest.
fn scale(a: u8, b: u8) -> u8 {
    ((u32::from(a) * u32::from(b) + 127) / 255) as u8
}

fn multiply(a: Color32, b: Color32) -> Color32 {
    let (a, b) = (a.to_array(), b.to_array());
    let [red, green, blue, alpha] = std::array::from_fn(|i| scale(a[i], b[i]));
    Color32::from_rgba_premultiplied(red, green, blue, alpha)
}

/// `over` on top of `under`, both premultiplied; a color with alpha 0 is added.
fn blend(under: Color32, over: Color32) -> Color32 {
    let rest = 255 - over.a();
    let (under, over) = (under.to_array(), over.to_array());
    let [red, green, blue, alpha] = std::array::from_fn(|i| over[i].saturating_add(scale(under[i], rest)));
    Color32::from_rgba_premultiplied(red, green, blue, alpha)
}

#[cfg(test)]
mod tests;
