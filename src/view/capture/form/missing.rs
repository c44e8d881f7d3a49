//! What a recorder needs and does not find, looked for beside the frames, since that may start Python.

use std::time::{Duration, Instant};

use eframe::egui;

use crate::capture::launch::Need;
use crate::job::{Job, Poll};

/// After this time it is looked again for what was missing: it may be installed meanwhile.
const AGAIN: Duration = Duration::from_secs(10);

/// The answer to the latest need; until it is there, the one before stays.
#[derive(Debug, Default)]
pub struct Missing {
    need: Need,
    asked_at: Option<Instant>,
    working: Option<Job<Option<String>>>,
    said: Option<String>,
}

impl Missing {
    pub fn is_pending(&self) -> bool {
        self.working.is_some()
    }

    /// A sentence, if something is missing.
    pub fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    /// Looks for what is needed, once for each need, and again as long as it is missing.
    pub fn follow(&mut self, need: &Need, egui: &egui::Context) {
        match self.working.as_ref().map(Job::poll) {
            Some(Poll::Running) => return,
            Some(Poll::Done(said)) => self.said = said,
            // Whether it is there shows when the program runs.
            Some(Poll::Crashed(_)) => self.said = None,
            None => {}
        }
        self.working = None;
        if let Some(at) = self.asked_at.filter(|_| self.need == *need) {
            let left = AGAIN.saturating_sub(at.elapsed());
            match self.said {
                None => return,
                Some(_) if !left.is_zero() => return egui.request_repaint_after(left),
                Some(_) => {}
            }
        }
        (self.need, self.asked_at) = (need.clone(), Some(Instant::now()));
        if self.need == Need::Nothing {
            self.said = None;
            return;
        }
        let (waker, need) = (egui.clone(), need.clone());
        self.working = Job::spawn("missing", move || waker.request_repaint(), move |_| need.missing()).ok();
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::launch::write_program;
    use crate::capture::pytorch::Interpreter;

    #[test]
    fn each_need_is_looked_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python3");
        write_program(&python, "echo asked >> \"$0.asked\"\nexit ${HAS:-66}");
        let need = |env: &[(&str, &str)]| {
            let env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
            Need::Torch(Interpreter::of(&[python.clone().into()], folder.path(), "".as_ref(), env).unwrap())
        };
        let egui = egui::Context::default();
        let mut missing = Missing::default();
        let mut known = |need: &Need| {
            missing.follow(need, &egui);
            while missing.is_pending() {
                std::thread::sleep(Duration::from_millis(5));
                missing.follow(need, &egui);
            }
            let n_asked = std::fs::read_to_string(folder.path().join("python3.asked")).unwrap().lines().count();
            (missing.said().is_some(), n_asked)
        };
        assert_eq!(known(&need(&[])), (true, 1));
        assert_eq!(known(&need(&[])), (true, 1), "the next frame");
        // Another environment is another need.
        assert_eq!(known(&need(&[("HAS", "0")])), (false, 2));
        assert_eq!(known(&need(&[("HAS", "0")])), (false, 2));
        assert_eq!(known(&Need::Nothing), (false, 2));
        assert_eq!(known(&need(&[])), (true, 3));
    }
}
