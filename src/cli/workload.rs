//! `lacuna workload`: runs a small program on a GPU, for something to record.

use super::{Failure, Outcome, output};
use crate::workload::{self, Plan};

/// Run a small GPU program to record
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Args {
    /// The CUDA device to run on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: u16,
    /// Number of steps; one takes about 10 ms
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub steps: u32,
    /// Measure the host time of a launch, over this many launches
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub launches: u32,
}

/// Runs `lacuna workload`; prints what ran and its own timings as JSON.
///
/// Errors: there is no driver or device, or stdout cannot be written to.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let plan = Plan { device: i32::from(args.device), steps: args.steps, launches: args.launches };
    let ran = workload::run(plan).map_err(Failure::Usage)?;
    let mut text = serde_json::to_string_pretty(&ran).map_err(|error| Failure::Usage(error.to_string()))?;
    text.push('\n');
    output::write(text.as_bytes(), None, &[])?;
    Ok(Outcome::Done)
}
