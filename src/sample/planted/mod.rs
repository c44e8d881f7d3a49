//! Training runs with planted causes of GPU idle time, and the answer that follows from the definitions of the gap
//! ledger.
//!
//! `script` decides what each thread does and knows of every nanosecond what it is; `expected` derives from
//! that the parts and the trigger of every gap. Neither knows how causes are found. The
//! recorders of [`super::kineto`] and [`super::nsys`] write the run.

mod expected;
mod plants;
mod script;
pub(super) mod style;
#[cfg(test)]
mod tests;
pub(super) mod timeline;
mod waits;

use std::io::Write;
use std::path::Path;

use super::answer::Answer;
use super::nsys::Schema;
use super::{kineto, nsys};
use script::Script;
use style::{Recorder, Style};

/// Which causes are planted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum GapPlan {
    /// None: the device is never idle for a microsecond
    None,
    /// One cause at the same place of every step
    Recurring,
    /// Different causes in every step, some of them mixed
    #[default]
    Various,
}

/// What to generate. The seed chooses names, threads, devices, what is recorded, and the causes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub steps: u32,
    pub seed: u64,
    pub plan: GapPlan,
}

/// Writes the run as the PyTorch profiler records it.
///
/// Errors: the sink's.
pub fn write_kineto(shape: Shape, sink: &mut dyn Write) -> std::io::Result<Answer> {
    let style = Style::of(shape.seed, Recorder::Kineto);
    let (timeline, devices) = Script::run(shape, style.clone());
    let events = kineto::planted::write(&style, &timeline, sink)?;
    Ok(Answer::new("kineto_gaps", shape.seed, shape.steps, Vec::new()).with_gaps(devices).with_events(events))
}

/// Writes the run as Nsight Systems exports it to `path`, which must be a new or empty file.
///
/// Errors: SQLite's.
pub fn write_nsys(shape: Shape, schema: Schema, path: &Path) -> std::io::Result<Answer> {
    let style = Style::of(shape.seed, Recorder::Nsys(schema));
    let (timeline, devices) = Script::run(shape, style.clone());
    let tables = nsys::planted::write(schema, &style, &timeline, path)?;
    Ok(Answer::new("nsys_gaps", shape.seed, shape.steps, Vec::new()).with_gaps(devices).with_tables(tables))
}
