//! `lacuna render`: a view as a picture, without a display.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use eframe::egui::{CentralPanel, ColorImage, Context, Pos2, RawInput, Rect, Theme, Ui, Vec2, ViewportId};

use super::{Failure, Outcome, input, output};
use crate::answers::Answers;
use crate::model::Trace;
use crate::session::Session;
use crate::view::{VIEWS, View, ViewContext, ViewSpec, view_spec};
use crate::widget::raster::Raster;
use crate::widget::theme;

/// Arguments of `lacuna render`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A trace, an archive of traces, or a folder of them
    #[arg(value_name = "FILE|FOLDER")]
    pub path: PathBuf,
    #[arg(long, value_parser = view_parser(), value_name = "NAME")]
    pub view: &'static ViewSpec,
    /// The picture to write, as PNG
    #[arg(long, value_name = "PNG")]
    pub out: PathBuf,
    /// Width and height in pixels
    #[arg(long, value_name = "WxH", default_value = "1280x800")]
    pub size: Size,
    #[arg(long, value_enum, default_value_t = PictureTheme::Dark)]
    pub theme: PictureTheme,
    #[command(flatten)]
    pub reading: input::ReadArgs,
}

/// Every view, by its id.
fn view_parser() -> impl TypedValueParser<Value = &'static ViewSpec> {
    let ids: Vec<_> = VIEWS.iter().map(|spec| PossibleValue::new(spec.id).help(spec.help)).collect();
    PossibleValuesParser::from(ids).try_map(|id| view_spec(&id).ok_or("There is no such view"))
}

/// How long a picture waits for what is worked out in the background.
const PATIENCE: Duration = Duration::from_secs(120);

/// Light on dark, or dark on light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PictureTheme {
    Light,
    Dark,
}

/// Width and height of a picture in pixels, each from 1 to [`Size::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub [u16; 2]);

impl Size {
    /// A larger picture would take gigabytes.
    pub const MAX: u16 = 16_384;
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let side = |text: &str| text.parse::<u16>().ok().filter(|side| (1..=Self::MAX).contains(side));
        let sides = text.split_once('x').and_then(|(width, height)| Some([side(width)?, side(height)?]));
        sides.map(Self).ok_or_else(|| format!("Not a size like 1280x800, at most {0}x{0}", Self::MAX))
    }
}

/// Runs `lacuna render`.
///
/// Errors: nothing could be read, or the picture cannot be written.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let paths = std::slice::from_ref(&args.path);
    output::check_target(&args.out, paths)?;
    let input = input::read(paths, &args.reading)?;
    let picture = picture(input.traces, &mut *(args.view.make)(), args.size, args.theme);
    if picture.is_incomplete {
        let text = "Parts of the picture are missing: they were not computed within";
        output::write_stderr(&format!("{text} {} s: {}", PATIENCE.as_secs(), args.out.display()));
    }
    let png = png(&picture.image).map_err(|error| Failure::Usage(format!("{error}: {}", args.out.display())))?;
    output::write_file(&png, &args.out, paths)?;
    Ok(if input.has_unreadable { Outcome::PartlyUnreadable } else { Outcome::Done })
}

/// What `view` shows of these traces, from their start to their end.
///
/// The commands that it asks for are not run.
pub fn picture(traces: Vec<Trace>, view: &mut dyn View, size: Size, theme: PictureTheme) -> Screenshot {
    let (mut session, answers, mut commands) = (Session::of(traces), Answers::default(), Vec::new());
    let ctx = Context::default();
    theme::apply(&ctx);
    ctx.set_theme(match theme {
        PictureTheme::Light => Theme::Light,
        PictureTheme::Dark => Theme::Dark,
    });
    screenshot(&ctx, size.0.map(usize::from), 1.0, PATIENCE, |ui| {
        let mut context = ViewContext::new(&mut session, &answers, theme == PictureTheme::Dark, &mut commands);
        view.update(&mut context, ui.ctx());
        CentralPanel::default().show(ui, |ui| view.ui(&mut context, ui));
        view.is_pending()
    })
}

/// A picture of a UI.
#[derive(Clone, Debug)]
pub struct Screenshot {
    pub image: ColorImage,
    /// Whether something that belongs on it was still being worked out.
    pub is_incomplete: bool,
}

/// Shows a UI without a window and takes a picture of it once it rests.
///
/// Runs frames until none is asked for and nothing is worked out in the background, so that
/// animations and answers arrive. An animation that never ends is cut after a hundred frames.
///
/// * `size`: width and height of the picture in pixels.
/// * `patience`: how long to wait for answers from the background.
/// * `show`: paints one frame, on a `Ui` that fills the picture; whether it waits for an answer.
pub fn screenshot(
    ctx: &Context,
    size: [usize; 2],
    pixels_per_point: f32,
    patience: Duration,
    mut show: impl FnMut(&mut Ui) -> bool,
) -> Screenshot {
    const MAX_FRAMES: u32 = 100;
    /// Frames in a row that must want nothing. The first measures, and an answer may come while a
    /// frame is half painted.
    const CALM_FRAMES: u32 = 3;
    const FRAME_SECS: f64 = 1.0 / 60.0;
    let points = Vec2::new(size[0] as f32, size[1] as f32) / pixels_per_point;
    let mut raster = Raster::default();
    let started = Instant::now();
    let (mut n_frames, mut n_not_waiting, mut n_calm) = (0_u32, 0_u32, 0_u32);
    loop {
        let mut input = RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, points)),
            time: Some(f64::from(n_frames) * FRAME_SECS),
            // The rasterizer has no largest texture.
            max_texture_side: Some(usize::from(Size::MAX)),
            ..Default::default()
        };
        input.viewports.entry(ViewportId::ROOT).or_default().native_pixels_per_point = Some(pixels_per_point);
        let mut is_pending = false;
        let mut output = ctx.run_ui(input, |ui| is_pending = show(ui));
        raster.update(&mut output.textures_delta);
        let wants_more = output.viewport_output.values().any(|viewport| viewport.repaint_delay == Duration::ZERO);
        n_frames += 1;
        n_not_waiting += u32::from(!is_pending);
        n_calm = if is_pending || wants_more { 0 } else { n_calm + 1 };
        let gives_up = if is_pending { started.elapsed() >= patience } else { n_not_waiting >= MAX_FRAMES };
        if n_calm < CALM_FRAMES && !gives_up {
            if is_pending {
                std::thread::sleep(Duration::from_millis(2));
            }
            continue;
        }
        let background = ctx.global_style().visuals.panel_fill.to_opaque();
        let primitives = ctx.tessellate(output.shapes, output.pixels_per_point);
        let image = raster.paint(size, output.pixels_per_point, background, &primitives);
        return Screenshot { image, is_incomplete: is_pending };
    }
}

/// The picture as the bytes of a PNG file.
///
/// Errors: the picture is empty.
pub fn png(image: &ColorImage) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, image.width() as u32, image.height() as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    // The picture is opaque.
    let data: Vec<u8> = image.pixels.iter().flat_map(|pixel| [pixel.r(), pixel.g(), pixel.b()]).collect();
    writer.write_image_data(&data)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Color32, CornerRadius, pos2};

    use super::*;
    use crate::model::{SliceKind, TraceBuilder};
    use crate::view::ViewContext;
    use crate::view::timeline::Timeline;

    /// A bar as long as the first slice, over the width of the view.
    struct Bar;

    impl View for Bar {
        fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
            let mut area = ui.max_rect();
            let slice = ctx.traces[0].trace.slices.end[0].saturating_add(ctx.traces[0].offset);
            let share = slice as f32 / ctx.navigation.visible().dur() as f32;
            area.max = pos2(area.min.x + area.width() * share, area.min.y + 10.0);
            ui.painter().rect_filled(area, CornerRadius::ZERO, Color32::RED);
        }
    }

    #[test]
    fn a_view_becomes_a_png() {
        let slices =
            [("main", SliceKind::Operator, "a", 1_000, 2_000), ("main", SliceKind::Operator, "b", 4_000, 5_000)];
        let Screenshot { image, is_incomplete } =
            picture(vec![TraceBuilder::from_slices(&slices).finish()], &mut Bar, Size([416, 100]), PictureTheme::Light);
        assert!(!is_incomplete);
        let bytes = png(&image).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (416, 100));
        let n_red = pixels.chunks_exact(3).skip(416 * 12).take(416).filter(|pixel| *pixel == [255, 0, 0]).count();
        // The panel has a margin of 8 points; a quarter of what is left is the slice.
        assert!((98..=102).contains(&n_red), "{n_red}");
        assert!(pixels[3 * 416 * 90] > 200, "the light theme is light");
    }

    /// A picture of a UI that is red once an answer is there, which takes `n_pending` frames.
    fn red_after(n_pending: u32, patience: Duration) -> (Color32, bool) {
        let ctx = Context::default();
        let mut n = 0;
        let Screenshot { image, is_incomplete } = screenshot(&ctx, [8, 8], 1.0, patience, |ui| {
            n += 1;
            let is_pending = n <= n_pending;
            let color = if is_pending { Color32::BLUE } else { Color32::RED };
            ui.painter().rect_filled(ui.max_rect().expand(9.0), CornerRadius::ZERO, color);
            is_pending
        });
        (image[(4, 4)], is_incomplete)
    }

    #[test]
    fn a_picture_waits_for_what_it_shows_but_not_forever() {
        // Longer than any animation is let run.
        assert_eq!(red_after(200, PATIENCE), (Color32::RED, false));
        assert_eq!(red_after(u32::MAX, Duration::from_millis(20)), (Color32::BLUE, true));
    }

    #[test]
    fn every_view_has_a_picture_that_is_not_blank() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces/nsys_5_steps.sqlite");
        for spec in VIEWS {
            for theme in [PictureTheme::Dark, PictureTheme::Light] {
                let traces = crate::reader::read(&path, &crate::job::Progress::default()).unwrap();
                let shot = picture(traces, &mut *(spec.make)(), Size([640, 300]), theme);
                assert!(!shot.is_incomplete, "{}", spec.id);
                let background = shot.image.pixels[0];
                let n_painted = shot.image.pixels.iter().filter(|&&pixel| pixel != background).count();
                // A line of text is some hundred pixels.
                assert!(n_painted > 300, "{} has {n_painted} pixels", spec.id);
            }
        }
    }

    #[test]
    fn no_view_fails_at_any_size() {
        // The first is large, so that what is asked for is there.
        const SIZES: [[u16; 2]; 11] = [
            [1280, 720],
            [1, 1],
            [1, 2000],
            [2000, 1],
            [2, 900],
            [37, 53],
            [60, 60],
            [170, 90],
            [400, 222],
            [1280, 222],
            [1280, 551],
        ];
        for sample in [None, Some("snapshot_oom.pickle"), Some("kineto_10_steps.json.gz")] {
            let read = |sample| {
                let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces").join(sample);
                crate::reader::read(&path, &crate::job::Progress::default()).unwrap()
            };
            let traces = sample.map_or_else(Vec::new, read);
            let (mut session, answers, mut commands) = (Session::of(traces), Answers::default(), Vec::new());
            let ctx = Context::default();
            theme::apply(&ctx);
            for spec in VIEWS {
                let mut view = (spec.make)();
                // Text of twice the size halves the points.
                for (size, scale) in SIZES.into_iter().zip([1.0, 2.0].into_iter().cycle()).chain([([37, 53], 3.0)]) {
                    let size = Vec2::from(size.map(f32::from)) / scale;
                    ctx.set_zoom_factor(scale);
                    for _ in 0..400 {
                        let screen_rect = Some(Rect::from_min_size(Pos2::ZERO, size));
                        let input = RawInput { screen_rect, max_texture_side: Some(4096), ..Default::default() };
                        let output = ctx.run_ui(input, |ui| {
                            let mut context = ViewContext::new(&mut session, &answers, true, &mut commands);
                            view.update(&mut context, ui.ctx());
                            CentralPanel::default().show(ui, |ui| view.ui(&mut context, ui));
                        });
                        output.drop_without_applying_deltas();
                        if !view.is_pending() {
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            }
        }
    }

    #[test]
    fn the_minimap_of_a_large_trace_is_on_the_picture() {
        let slice = |i: i64| ("stream 7", SliceKind::Kernel, "k", i * 10, i * 10 + 10);
        let slices: Vec<_> = (0..1_500_000).chain([3_000_000]).map(slice).collect();
        let trace = TraceBuilder::from_slices(&slices).finish();
        let shot = picture(vec![trace], &mut Timeline::default(), Size([640, 300]), PictureTheme::Dark);
        assert!(!shot.is_incomplete);
        // The strip over the rows: busy in the first half, idle in the second.
        let strip = |share: f32| shot.image[((210.0 + 420.0 * share) as usize, 20)];
        assert_eq!(strip(0.1), strip(0.4));
        assert_eq!(strip(0.6), strip(0.9));
        assert_ne!(strip(0.1), strip(0.9), "the strip is empty");
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!("640x480".parse(), Ok(Size([640, 480])));
        for wrong in ["0x5", "640", "640x", "x480", "-1x5", "99999x5", "20000x5", "640x480x2"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
