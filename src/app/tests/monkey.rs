//! Random input from a fixed seed, while files are opened, closed, cut, replaced and deleted: no view may crash on it.

use std::time::{Duration, Instant};

use eframe::egui::{MouseWheelUnit, TouchPhase, Vec2};

use super::*;
use crate::job::Progress;
use crate::reader;
use crate::view::all_commands;

/// How long to go on, for each unit of `LACUNA_EFFORT`: `LACUNA_EFFORT=10` for 20 s.
const BUDGET: Duration = Duration::from_secs(2);
/// Steps that are taken at least.
const MIN_STEPS: u32 = 20;

/// What is typed and pasted.
const TEXTS: [&str; 6] = ["gemm", "aten::", "核\u{301}", "*", "\u{202e}\0\n", "1e999"];

/// Files that are opened, and whose bytes change meanwhile.
struct Files {
    folder: tempfile::TempDir,
    whole: Vec<(PathBuf, Vec<u8>)>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sample = |name: &str| {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces").join(name);
            (folder.path().join(name), std::fs::read(path).unwrap())
        };
        let mut whole = vec![sample("snapshot_oom.pickle"), sample("nsys_5_steps.sqlite"), sample("gpu_metrics.jsonl")];
        let shape = crate::sample::kineto::Shape { steps: 1, seed: 7, is_array: false };
        let mut text = Vec::new();
        let _ = crate::sample::kineto::write(shape, &mut text).unwrap();
        whole.push((folder.path().join("steps.json"), text));
        whole.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        Self { folder, whole }
    }

    /// Does something to a file, or makes it whole again.
    fn change(&self, monkey: &mut Monkey) {
        let (path, bytes) = &self.whole[monkey.below(self.whole.len())];
        let other = &self.whole[monkey.below(self.whole.len())].1;
        let is_done = match monkey.below(6) {
            0 => std::fs::remove_file(path),
            1 => std::fs::write(path, &bytes[..monkey.below(bytes.len())]),
            2 => std::fs::write(path, other),
            _ => std::fs::write(path, bytes),
        };
        // It may have been removed before.
        let _ = is_done;
    }

    /// One of them, one that is absent, or all.
    fn pick(&self, monkey: &mut Monkey) -> PathBuf {
        match monkey.below(12) {
            0 => self.folder.path().join("absent.json"),
            1 => self.folder.path().to_owned(),
            n => self.whole[n % self.whole.len()].0.clone(),
        }
    }
}

struct Monkey(u64);

impl Monkey {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn modifiers(&mut self) -> Modifiers {
        self.pick(&[Modifiers::NONE, Modifiers::NONE, Modifiers::SHIFT, Modifiers::COMMAND, Modifiers::ALT])
    }

    /// Does one thing.
    fn act(&mut self, harness: &mut Harness<'_, Option<App>>, files: &Files) {
        let pos = Pos2::new(self.below(1300) as f32 - 10.0, self.below(820) as f32 - 10.0);
        let modifiers = self.modifiers();
        match self.below(20) {
            0..4 => harness.key_press_modifiers(modifiers, self.pick(Key::ALL)),
            4..6 => harness.event(Event::PointerMoved(pos)),
            6..10 => {
                let button = self.pick(&[PointerButton::Primary, PointerButton::Primary, PointerButton::Secondary]);
                let pressed = self.below(2) == 0;
                harness.event(Event::PointerMoved(pos));
                harness.event(Event::PointerButton { pos, button, pressed, modifiers });
            }
            10..12 => {
                let unit = self.pick(&[MouseWheelUnit::Point, MouseWheelUnit::Line, MouseWheelUnit::Page]);
                let mut amount = || self.pick(&[-1e6, -100.0, -1.0, 0.0, 1.0, 100.0, 1e6]);
                let delta = Vec2::new(amount(), amount());
                let (phase, source) = (TouchPhase::Move, egui::MouseWheelSource::Wheel);
                harness.event(Event::PointerMoved(pos));
                harness.event(Event::MouseWheel { unit, delta, phase, source, modifiers });
            }
            12 => harness.event(Event::Text(self.pick(&TEXTS).to_owned())),
            13 => harness.event(self.pick(&[
                Event::PointerGone,
                Event::WindowFocused(false),
                Event::Zoom(0.0),
                Event::Zoom(1e9),
                Event::Paste("0".repeat(1000)),
                Event::Copy,
                Event::Cut,
            ])),
            14 => {
                let command = all_commands()[self.below(all_commands().len())].command.clone();
                app_mut(harness).commands.push(command);
            }
            15 => {
                let sizes =
                    [[1280.0, 800.0], [480.0, 320.0], [1.0, 1.0], [1.0, 2000.0], [2000.0, 1.0], [1280.0, 222.0]];
                harness.set_size(Vec2::from(self.pick(&sizes)));
            }
            16 => app_mut(harness).commands.push(Command::OpenPath(files.pick(self))),
            17 => files.change(self),
            18 => app_mut(harness).commands.push(Command::CloseFile(files.pick(self))),
            _ => {
                if self.below(4) == 0 {
                    app_mut(harness).loads.cancel_all();
                }
                // Gives what is read a moment to arrive.
                std::thread::sleep(Duration::from_millis(self.below(20) as u64));
            }
        }
    }
}

/// A generated recording of some steps.
fn recording() -> Trace {
    let path = std::env::temp_dir().join(format!("lacuna-monkey-{}.json", std::process::id()));
    let shape = crate::sample::kineto::Shape { steps: 2, seed: 5, is_array: false };
    let mut text = Vec::new();
    let _ = crate::sample::kineto::write(shape, &mut text).unwrap();
    std::fs::write(&path, text).unwrap();
    let mut traces = reader::read(&path, &Progress::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    traces.remove(0)
}

#[test]
fn no_input_makes_it_panic() {
    let effort: u32 = std::env::var("LACUNA_EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let traces = || vec![recording(), trace(), super::memory::sample("snapshot_oom.pickle")];
    let started = Instant::now();
    let files = Files::new();
    let (mut seed, mut n_steps) = (0x2545_F491_4F6C_DD1D_u64, 0);
    // A slow machine takes at least some steps, whatever the time.
    let is_over = |n_steps: u32| started.elapsed() >= BUDGET * effort && n_steps >= MIN_STEPS;
    while !is_over(n_steps) {
        let mut monkey = Monkey(seed);
        let mut harness = harness_with(traces(), |builder| builder.allow_missing_glyphs());
        // A panic outside the views says where it was by itself; this says how to get there.
        for step in 0..600 {
            if is_over(n_steps) {
                break;
            }
            monkey.act(&mut harness, &files);
            // Nothing is written to the disk.
            let is_export = |command: &Command| matches!(command, Command::SaveText(..) | Command::ExportReport);
            app_mut(&mut harness).commands.retain(|command| !is_export(command));
            harness.step();
            let app = app(&harness);
            assert!(
                app.views.iter().all(|slot| !slot.guard.has_failed()),
                "seed {seed:#x}, step {step}: a view crashed"
            );
            n_steps += 1;
            if app.session().traces().is_empty() && app.loads.is_idle() {
                // Everything was closed: an empty window is soon looked at.
                break;
            }
            let is_empty = app.session().traces().is_empty();
            assert!(
                is_empty || app.session().navigation.visible().dur() > 0,
                "seed {seed:#x}, step {step}: nothing is visible"
            );
        }
        seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D) | 1;
    }
}
