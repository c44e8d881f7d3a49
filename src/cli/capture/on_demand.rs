//! Traces on demand without a window: what asks for one.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use super::{Args, Failure, write_stderr};
use crate::capture::launch::Run;
use crate::capture::{kineto, pytorch};

/// What is recorded of a program on demand.
///
/// Errors: arguments that mean nothing then, or times out of range.
pub fn options(args: &Args, options: &pytorch::Options) -> Result<kineto::Options, Failure> {
    let pytorch::Options { ranks, contents, .. } = options.clone();
    if (pytorch::Options { ranks: ranks.clone(), contents, ..Default::default() }) != *options {
        let text = "Traces on demand are by time: options of steps, --whole and --memory are for --backend pytorch";
        return Err(Failure::Usage(text.to_owned()));
    }
    let seconds = |name: &str, value: f64| {
        let is_in_range = (0.001..=86_400.0).contains(&value);
        let duration = is_in_range.then(|| Duration::from_secs_f64(value));
        duration.ok_or_else(|| Failure::Usage(format!("{name} takes seconds, at most a day: {value}")))
    };
    Ok(kineto::Options {
        duration: seconds("--for", args.demand.length.unwrap_or(1.0))?,
        every: args.demand.every.map(|every| seconds("--every", every)).transpose()?,
        ranks,
        contents,
    })
}

/// Asks for a trace at each line that the user enters and at each SIGUSR1, as long as the program runs.
pub fn listen(run: &Arc<Run>) {
    // What a script reads is not for Lacuna.
    let is_person = std::io::stdin().is_terminal();
    let how = if is_person { "press Enter, or send" } else { "send" };
    write_stderr(&format!("To record a trace, {how} SIGUSR1 to process {}", std::process::id()));
    if is_person {
        let run = Arc::clone(run);
        listen_to("stdin", move || std::io::stdin().lines().map_while(Result::ok).for_each(|_| ask(&run)));
    }
    #[cfg(unix)]
    if let Ok(mut signals) = signal_hook::iterator::Signals::new([signal_hook::consts::SIGUSR1]) {
        let run = Arc::clone(run);
        listen_to("requests", move || signals.forever().for_each(|_| ask(&run)));
    }
}

/// Without a thread, the other ways to ask are left.
fn listen_to(name: &str, work: impl FnOnce() + Send + 'static) {
    _ = std::thread::Builder::new().name(name.to_owned()).spawn(work);
}

fn ask(run: &Run) {
    let is_busy = run.on_demand().is_some_and(kineto::Endpoint::is_busy);
    let n = run.on_demand().map_or(0, |endpoint| endpoint.trigger());
    write_stderr(&match n {
        0 if is_busy => "The previous trace is still being recorded".to_owned(),
        0 => kineto::NO_PROCESS.to_owned(),
        1 => "A trace is being recorded".to_owned(),
        n => format!("A trace of {n} processes is being recorded"),
    });
}
