//! Cost of a frame of a view: layout and painting, then tessellation. With `gl` among the arguments also what OpenGL
//! makes of it, on the first device that EGL has.

#[path = "screen.rs"]
mod screen;

use std::time::{Duration, Instant};

use eframe::egui::{Context, RawInput, Rect, Ui, pos2, vec2};
use lacuna::answers::Answers;
use lacuna::model::Trace;
use lacuna::session::{Navigation, Session};
use lacuna::view::{View, ViewContext, ViewSpec};
use screen::Screen;

const N_FRAMES: usize = 31;

/// A view of one trace, 1920 points wide and 1080 high.
pub struct Bench {
    pub session: Session,
    answers: Answers,
    view: Box<dyn View>,
    egui: Context,
    screen: Option<Screen>,
    time: f64,
}

/// What one frame cost.
#[derive(Clone, Copy, Default)]
pub struct Frame {
    pub ui: Duration,
    pub tessellation: Duration,
    /// Until the device had drawn it; the first part of it is the frame thread's. Zero without a screen.
    pub drawing: Duration,
    pub handing_over: Duration,
}

impl Frame {
    /// What keeps the frame's thread.
    fn thread(self) -> Duration {
        self.ui + self.tessellation + self.handing_over
    }
}

impl Bench {
    pub fn new(trace: Trace, view: &ViewSpec) -> Self {
        let (session, answers) = (Session::of(vec![trace]), Answers::default());
        let screen =
            std::env::args().any(|arg| arg == "gl").then(|| Screen::new().expect("an OpenGL without a display"));
        if let Some(screen) = &screen {
            println!("drawn by {}", screen.name());
        }
        Self { session, answers, view: (view.make)(), egui: Context::default(), screen, time: 0.0 }
    }

    pub fn frame(&mut self) -> Frame {
        let [width, height] = Screen::SIZE.map(|side| side as f32);
        let screen_rect = Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(width, height)));
        self.time += 1.0 / 60.0;
        let start = Instant::now();
        let egui = self.egui.clone();
        let input =
            RawInput { screen_rect, time: Some(self.time), max_texture_side: Some(16_384), ..RawInput::default() };
        let mut output = egui.run_ui(input, |ui| self.ui(ui));
        let ui = start.elapsed();
        let start = Instant::now();
        let primitives = std::hint::black_box(self.egui.tessellate(output.shapes, output.pixels_per_point));
        let mut frame = Frame { ui, tessellation: start.elapsed(), ..Frame::default() };
        if let Some(screen) = &mut self.screen {
            (frame.handing_over, frame.drawing) =
                screen.draw(&primitives, &mut output.textures_delta, output.pixels_per_point);
        }
        output.textures_delta.clear();
        frame
    }

    fn ui(&mut self, ui: &mut Ui) {
        let mut commands = Vec::new();
        let mut ctx = ViewContext::new(&mut self.session, &self.answers, true, &mut commands);
        self.view.ui(&mut ctx, ui);
    }

    /// Frames until all that is worked out in the background is there; how long that takes.
    pub fn settle(&mut self) -> Duration {
        let start = Instant::now();
        self.frame();
        while self.view.is_pending() {
            std::thread::sleep(Duration::from_micros(200));
            self.frame();
        }
        start.elapsed()
    }

    /// Median frame, worst frame, and the most that the processor spent on one, in milliseconds, with `step`
    /// before each: the frame's thread may have to wait while others work in the background.
    pub fn measure(&mut self, mut step: impl FnMut(&mut Navigation)) -> String {
        let mut most = Duration::ZERO;
        let mut frames: Vec<Frame> = (0..N_FRAMES)
            .map(|_| {
                step(&mut self.session.navigation);
                let before = on_processor();
                let frame = self.frame();
                most = most.max(on_processor() - before);
                // As a window at 60 frames a second has it: what works in the background has the time in
                // between.
                std::thread::sleep(Duration::from_millis(12));
                frame
            })
            .collect();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut drawing: Vec<f64> = frames.iter().map(|frame| ms(frame.drawing)).collect();
        drawing.sort_by(f64::total_cmp);
        frames.sort_by_key(|frame| frame.thread());
        let (median, worst) = (frames[N_FRAMES / 2], frames[N_FRAMES - 1]);
        let (ui, tessellation, handing_over) = (ms(median.ui), ms(median.tessellation), ms(median.handing_over));
        let drawn = match &self.screen {
            Some(_) => format!(
                ", handing over {handing_over:5.2}; drawn after {:5.2}, worst {:5.2}",
                drawing[N_FRAMES / 2],
                drawing[N_FRAMES - 1]
            ),
            None => String::new(),
        };
        let (total, worst, most) = (ms(median.thread()), ms(worst.thread()), ms(most));
        format!(
            "{total:6.2} ms (ui {ui:5.2}, tessellation {tessellation:5.2}{drawn}), worst {worst:6.2}, on CPU {most:6.2}"
        )
    }
}

/// What the processor has spent on this thread; all time where the system does not say.
fn on_processor() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        START.elapsed()
    }
}
