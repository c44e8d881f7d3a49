//! `lacuna render`: a view as a picture, without a display.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use eframe::egui::{CentralPanel, ColorImage, Context, Pos2, RawInput, Rect, Theme, Ui, Vec2, ViewportId};

use super::{Failure, Outcome, input, output};
use crate::analysis::clock;
use crate::model::{TimeRange, Trace};
use crate::view::timeline::Timeline;
use crate::view::{Navigation, OpenTrace, Selection, View, ViewContext};
use crate::widget::raster::Raster;

/// Arguments of `lacuna render`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A trace, an archive of traces, or a folder of them
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    #[arg(long, value_enum, value_name = "NAME")]
    pub view: ViewName,
    /// The picture to write, as PNG
    #[arg(long, value_name = "PNG")]
    pub out: PathBuf,
    /// Width and height in pixels
    #[arg(long, value_name = "WxH", default_value = "1280x800")]
    pub size: Size,
    #[arg(long, value_enum, default_value_t = Look::Dark)]
    pub theme: Look,
    #[command(flatten)]
    pub reading: input::Reading,
}

/// The views there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ViewName {
    Timeline,
}

impl ViewName {
    fn make(self) -> Box<dyn View> {
        match self {
            Self::Timeline => Box::new(Timeline::default()),
        }
    }
}

/// Light on dark, or dark on light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Look {
    Light,
    Dark,
}

/// Width and height of a picture in pixels, each from 1 to [`Size::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub [u16; 2]);

impl Size {
    /// A larger picture has no reader, and its memory is better spent otherwise.
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
    let input = input::read(paths, args.reading)?;
    let image = picture(input.traces, &mut *args.view.make(), args.size, args.theme);
    let png = png(&image).map_err(|error| Failure::Usage(format!("{error}: {}", args.out.display())))?;
    output::write_file(&png, &args.out, paths)?;
    Ok(if input.has_unreadable { Outcome::PartlyUnreadable } else { Outcome::Done })
}

/// What `view` shows of these traces, from their start to their end.
///
/// What the view asks the app to do is left undone: a picture has no app.
pub fn picture(traces: Vec<Trace>, view: &mut dyn View, size: Size, look: Look) -> ColorImage {
    let placed = clock::clock(&traces.iter().collect::<Vec<_>>());
    let open = |(trace, &offset)| OpenTrace { trace: Arc::new(trace), offset };
    let traces: Vec<OpenTrace> = traces.into_iter().zip(&placed.offsets).map(open).collect();
    // A view of no length cannot be drawn.
    let span = TimeRange { end: placed.span.end.max(placed.span.start.saturating_add(1)), ..placed.span };
    let mut navigation = Navigation::default();
    navigation.glide(span);
    let (mut selection, mut range, mut marks) = (Selection::None, None, Vec::new());
    let ctx = Context::default();
    ctx.set_theme(match look {
        Look::Light => Theme::Light,
        Look::Dark => Theme::Dark,
    });
    screenshot(&ctx, size.0.map(usize::from), 1.0, |ui| {
        let mut context = ViewContext {
            traces: &traces,
            span,
            navigation: &mut navigation,
            selection: &mut selection,
            range: &mut range,
            marks: &mut marks,
            hits: &[],
            is_dark: look == Look::Dark,
            commands: &mut Vec::new(),
        };
        CentralPanel::default().show(ui, |ui| view.ui(&mut context, ui));
    })
}

/// Shows a UI without a window and takes a picture of it once it rests.
///
/// Runs frames until none is asked for, at most a hundred, so that animations and background
/// answers arrive.
///
/// * `size`: width and height of the picture in pixels.
/// * `show`: paints one frame, on a `Ui` that fills the picture.
pub fn screenshot(ctx: &Context, size: [usize; 2], pixels_per_point: f32, mut show: impl FnMut(&mut Ui)) -> ColorImage {
    const MAX_FRAMES: u32 = 100;
    const FRAME_SECS: f64 = 1.0 / 60.0;
    /// How long an answer computed in the background may keep a resting UI waiting.
    const PATIENCE: Duration = Duration::from_millis(50);
    let points = Vec2::new(size[0] as f32, size[1] as f32) / pixels_per_point;
    let mut raster = Raster::default();
    let mut frame = 0;
    loop {
        let mut input = RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, points)),
            time: Some(f64::from(frame) * FRAME_SECS),
            ..Default::default()
        };
        input.viewports.entry(ViewportId::ROOT).or_default().native_pixels_per_point = Some(pixels_per_point);
        let mut output = ctx.run_ui(input, &mut show);
        raster.update(&mut output.textures_delta);
        frame += 1;
        let wants_more = output.viewport_output.values().any(|viewport| viewport.repaint_delay == Duration::ZERO);
        // The first frame measures; only from the second on is everything in its place.
        if frame < 3 || (wants_more && frame < MAX_FRAMES) {
            continue;
        }
        if frame < MAX_FRAMES {
            std::thread::sleep(PATIENCE);
            if ctx.has_requested_repaint() {
                continue;
            }
        }
        let background = ctx.global_style().visuals.panel_fill.to_opaque();
        let primitives = ctx.tessellate(output.shapes, output.pixels_per_point);
        return raster.paint(size, output.pixels_per_point, background, &primitives);
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
        let image = picture(vec![TraceBuilder::from_slices(&slices).finish()], &mut Bar, Size([416, 100]), Look::Light);
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

    #[test]
    fn sizes_are_checked() {
        assert_eq!("640x480".parse(), Ok(Size([640, 480])));
        for wrong in ["0x5", "640", "640x", "x480", "-1x5", "99999x5", "20000x5", "640x480x2"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
