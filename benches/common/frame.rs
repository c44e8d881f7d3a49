//! Cost of a frame of a view: layout and painting, then tessellation; without the upload to a GPU.

use std::time::{Duration, Instant};

use eframe::egui::{Context, RawInput, Rect, Ui, pos2, vec2};
use lacuna::answers::Answers;
use lacuna::model::Trace;
use lacuna::session::{Navigation, Session};
use lacuna::view::{View, ViewContext, ViewSpec};

const N_FRAMES: usize = 31;

/// A view of one trace, 1920 points wide and 1080 high.
pub struct Bench {
    pub session: Session,
    answers: Answers,
    view: Box<dyn View>,
    egui: Context,
    time: f64,
}

impl Bench {
    pub fn new(trace: Trace, view: &ViewSpec) -> Self {
        let (session, answers) = (Session::of(vec![trace]), Answers::default());
        Self { session, answers, view: (view.make)(), egui: Context::default(), time: 0.0 }
    }

    /// One frame; (ui, tessellation).
    pub fn frame(&mut self) -> (Duration, Duration) {
        let screen_rect = Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(1920.0, 1080.0)));
        self.time += 1.0 / 60.0;
        let start = Instant::now();
        let egui = self.egui.clone();
        let input =
            RawInput { screen_rect, time: Some(self.time), max_texture_side: Some(16_384), ..RawInput::default() };
        let mut output = egui.run_ui(input, |ui| self.ui(ui));
        let ui = start.elapsed();
        output.textures_delta.clear();
        let start = Instant::now();
        let primitives = self.egui.tessellate(output.shapes, output.pixels_per_point);
        std::hint::black_box(primitives);
        (ui, start.elapsed())
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
        let mut times: Vec<[f64; 3]> = (0..N_FRAMES)
            .map(|_| {
                step(&mut self.session.navigation);
                let before = on_processor();
                let (ui, tessellation) = self.frame();
                most = most.max(on_processor() - before);
                // As a window at 60 frames a second has it: what works in the background has the time in
                // between.
                std::thread::sleep(Duration::from_millis(12));
                [ui + tessellation, ui, tessellation].map(|time| time.as_secs_f64() * 1e3)
            })
            .collect();
        times.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let [total, ui, tessellation] = times[N_FRAMES / 2];
        let worst = times[N_FRAMES - 1][0];
        let most = most.as_secs_f64() * 1e3;
        format!("{total:6.2} ms (ui {ui:5.2}, tessellation {tessellation:5.2}), worst {worst:6.2}, on CPU {most:6.2}")
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
