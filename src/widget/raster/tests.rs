//! Pixels checked one by one, and a UI driven by kittest.

use std::cell::RefCell;
use std::rc::Rc;

use eframe::egui::epaint::{ClippedShape, CornerRadius, WHITE_UV};
use eframe::egui::{self, Align2, Context, FontId, RawInput, Shape, Stroke, pos2};
use egui_kittest::TestRenderer;
use egui_kittest::kittest::Queryable as _;

use super::*;

const SIZE: [usize; 2] = [100, 80];

fn rect(left: f32, top: f32, right: f32, bottom: f32) -> Rect {
    Rect::from_min_max(pos2(left, top), pos2(right, bottom))
}

/// Paints a mesh of one triangle list on black.
fn paint(mesh: Mesh, clip: Rect, pixels_per_point: f32) -> ColorImage {
    let mut raster = Raster::default();
    let white = ColorImage::filled([1, 1], Color32::WHITE);
    raster.textures.insert(TextureId::default(), Texture { image: white, options: TextureOptions::LINEAR });
    let primitive = ClippedPrimitive { clip_rect: clip, primitive: Primitive::Mesh(mesh) };
    raster.paint(SIZE, pixels_per_point, Color32::BLACK, &[primitive])
}

fn at(image: &ColorImage, x: usize, y: usize) -> [u8; 3] {
    let [red, green, blue, alpha] = image.pixels[y * image.size[0] + x].to_array();
    assert_eq!(alpha, 255, "the picture is opaque");
    [red, green, blue]
}

#[test]
fn a_rect_covers_exactly_its_pixels_and_stays_in_its_clip() {
    let mut mesh = Mesh::default();
    mesh.add_colored_rect(rect(10.0, 20.0, 30.0, 25.0), Color32::from_rgb(200, 100, 50));
    let image = paint(mesh.clone(), Rect::EVERYTHING, 1.0);
    for y in 0..SIZE[1] {
        for x in 0..SIZE[0] {
            let is_inside = (10..30).contains(&x) && (20..25).contains(&y);
            assert_eq!(at(&image, x, y), if is_inside { [200, 100, 50] } else { [0; 3] }, "{x}, {y}");
        }
    }
    let image = paint(mesh.clone(), rect(12.0, 0.0, 20.0, 22.0), 1.0);
    assert_eq!(image.pixels.iter().filter(|pixel| **pixel != Color32::BLACK).count(), 8 * 2);
    let image = paint(mesh, Rect::EVERYTHING, 2.0);
    assert_eq!(image.pixels.iter().filter(|pixel| **pixel != Color32::BLACK).count(), 40 * 10);
}

#[test]
fn triangles_that_share_a_side_paint_it_once() {
    // A fan around an odd point, in a color that would show if it were blended twice.
    let half = Color32::from_rgba_premultiplied(64, 64, 64, 128);
    let mut mesh = Mesh::default();
    let corners = [pos2(5.0, 5.0), pos2(80.0, 11.0), pos2(93.0, 70.0), pos2(7.5, 61.25)];
    mesh.vertices = corners.iter().map(|&pos| Vertex { pos, uv: WHITE_UV, color: half }).collect();
    mesh.vertices.push(Vertex { pos: pos2(41.3, 37.7), uv: WHITE_UV, color: half });
    mesh.indices = vec![0, 1, 4, 1, 2, 4, 4, 2, 3, 3, 0, 4];
    let image = paint(mesh, Rect::EVERYTHING, 1.0);
    let colors: std::collections::BTreeSet<_> = image.pixels.iter().map(|pixel| pixel.r()).collect();
    assert_eq!(colors.into_iter().collect::<Vec<_>>(), [0, 64]);
    assert_eq!(at(&image, 41, 37), [64; 3]);
}

#[test]
fn colors_blend_and_fade() {
    let mut mesh = Mesh::default();
    mesh.add_colored_rect(rect(0.0, 0.0, 50.0, 50.0), Color32::from_rgb(255, 0, 0));
    mesh.add_colored_rect(rect(0.0, 0.0, 50.0, 50.0), Color32::from_rgba_premultiplied(0, 128, 0, 128));
    assert_eq!(at(&paint(mesh, Rect::EVERYTHING, 1.0), 3, 3), [127, 128, 0]);
    let mut mesh = Mesh::default();
    mesh.add_colored_rect(rect(0.0, 0.0, 100.0, 80.0), Color32::BLACK);
    for vertex in mesh.vertices.iter_mut().filter(|vertex| vertex.pos.x > 50.0) {
        vertex.color = Color32::WHITE;
    }
    let image = paint(mesh, Rect::EVERYTHING, 1.0);
    for x in 0..100 {
        let expected = (x as f32 + 0.5) / 100.0 * 255.0;
        assert!((f32::from(at(&image, x, 40)[0]) - expected).abs() < 1.0, "{x}");
    }
}

#[test]
fn broken_triangles_are_left_out() {
    let mut mesh = Mesh::default();
    mesh.add_colored_rect(rect(f32::NAN, 0.0, f32::INFINITY, 9.0), Color32::WHITE);
    mesh.add_colored_rect(rect(-1e30, 4.0, 1e30, 5.0), Color32::WHITE);
    let image = paint(mesh, Rect::EVERYTHING, 1.0);
    assert_eq!(image.pixels.iter().filter(|pixel| **pixel == Color32::WHITE).count(), 100);
}

#[test]
fn textures_are_updated_in_part_and_filtered() {
    let mut raster = Raster::default();
    let mut delta = TexturesDelta::default();
    let whole = ColorImage::filled([2, 1], Color32::BLACK);
    delta.push(TextureId::User(7), ImageDelta::full(whole, TextureOptions::LINEAR));
    let white = ColorImage::filled([1, 1], Color32::WHITE);
    delta.push(TextureId::User(7), ImageDelta::partial([1, 0], white, TextureOptions::LINEAR));
    raster.update(&mut delta);
    assert!(delta.is_empty());
    let texture = &raster.textures[&TextureId::User(7)];
    assert_eq!(texture.filtered(1.0, 0.5, TextureFilter::Linear).r(), 128);
    assert_eq!(texture.filtered(0.99, 0.5, TextureFilter::Nearest).r(), 0);
    assert_eq!(texture.filtered(1.01, 0.5, TextureFilter::Nearest).r(), 255);
    delta.free(TextureId::User(7));
    raster.update(&mut delta);
    assert!(!raster.textures.is_empty(), "the frame just made may still show it");
    raster.update(&mut delta);
    assert!(raster.textures.is_empty());
}

/// Pixels inside `rect` that differ from the color at its corner.
fn n_marked(image: &ColorImage, rect: Rect) -> usize {
    let inside = |x: usize, y: usize| rect.contains(pos2(x as f32, y as f32));
    let background = at(image, rect.min.x as usize, rect.min.y as usize);
    let all = (0..image.size[1]).flat_map(|y| (0..image.size[0]).map(move |x| (x, y)));
    all.filter(|&(x, y)| inside(x, y) && at(image, x, y) != background).count()
}

/// What `ui` paints on 300 by 200 points, in its second frame.
fn show(mut ui: impl FnMut(&mut egui::Ui)) -> ColorImage {
    let ctx = Context::default();
    let mut raster = Raster::default();
    let mut frame = || {
        let input = RawInput { screen_rect: Some(rect(0.0, 0.0, 300.0, 200.0)), ..Default::default() };
        let mut output = ctx.run_ui(input, &mut ui);
        raster.update(&mut output.textures_delta);
        output.shapes
    };
    frame();
    let shapes = frame();
    raster.paint([300, 200], 1.0, Color32::DARK_GRAY, &ctx.tessellate(shapes, 1.0))
}

#[test]
fn text_and_shapes_are_rendered_at_their_positions() {
    let image = show(|ui| {
        let painter = ui.painter();
        painter.text(pos2(20.0, 20.0), Align2::LEFT_TOP, "Kernel", FontId::proportional(20.0), Color32::WHITE);
        let fill = Shape::rect_filled(rect(100.0, 100.0, 200.0, 150.0), CornerRadius::ZERO, Color32::RED);
        painter.add(fill);
        painter.line_segment([pos2(0.0, 190.0), pos2(300.0, 190.0)], Stroke::new(2.0, Color32::GREEN));
    });
    let n_text = n_marked(&image, rect(18.0, 18.0, 90.0, 46.0));
    assert!((100..900).contains(&n_text), "{n_text} pixels of text");
    assert_eq!(n_marked(&image, rect(18.0, 50.0, 90.0, 90.0)), 0);
    assert_eq!(at(&image, 150, 125), [255, 0, 0]);
    assert_eq!(at(&image, 299, 190), [0, 255, 0]);
}

/// The rasterizer as kittest's renderer; the test keeps the other handle.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Raster>>);

impl TestRenderer for Shared {
    fn handle_delta(&mut self, delta: &mut TexturesDelta) {
        self.0.borrow_mut().update(delta);
    }
}

#[test]
fn kittest_output_can_be_rendered() {
    let shared = Shared::default();
    let mut harness =
        egui_kittest::Harness::builder().with_size(egui::vec2(200.0, 100.0)).renderer(shared.clone()).build_ui_state(
            |ui, is_on: &mut bool| {
                ui.checkbox(is_on, "Idle");
                if *is_on {
                    let area = rect(0.0, 50.0, 200.0, 100.0);
                    ui.painter().rect_filled(area, CornerRadius::ZERO, Color32::BLUE);
                }
            },
            false,
        );
    let look = |shapes: Vec<ClippedShape>, ctx: &Context| {
        shared.0.borrow().paint([200, 100], 1.0, Color32::BLACK, &ctx.tessellate(shapes, 1.0))
    };
    harness.run();
    let before = look(harness.output().shapes.clone(), &harness.ctx);
    harness.get_by_label("Idle").click();
    harness.run();
    let after = look(harness.output().shapes.clone(), &harness.ctx);
    assert_ne!(at(&before, 100, 90), [0, 0, 255]);
    assert_eq!(at(&after, 100, 90), [0, 0, 255]);
    assert!(n_marked(&before, rect(0.0, 0.0, 80.0, 30.0)) > 50);
}
