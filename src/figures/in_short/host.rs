//! What the host of a recording without device work spends its time on, in short.

use super::format;
use crate::analysis::phases::Phase;
use crate::analysis::rules::HostTime;
use crate::figures::verdicts::{Judged, clipped, percent, scope_of};

/// Phases with less of the time are not named.
const LARGE: f64 = 0.03;
/// Most phases that are named.
const MOST_NAMED: usize = 3;

/// `None` where a device was judged. May contain text from a file.
pub(super) fn paragraph(of: &Judged<'_>) -> Option<String> {
    let HostTime { phases, longest } = of.verdicts.host.as_ref()?;
    let window = of.verdicts.windows.iter().find(|window| window.device.is_none())?;
    let whole: i64 = phases.iter().sum();
    let share = |phase: Phase| phases[phase as usize] as f64 / whole.max(1) as f64;
    let mut largest: Vec<Phase> = Phase::ALL.into_iter().filter(|&phase| share(phase) >= LARGE).collect();
    largest.sort_by(|&a, &b| share(b).total_cmp(&share(a)));
    largest.truncate(MOST_NAMED);
    let scope = scope_of(window.basis, window.steps.len());
    let named: Vec<String> = (largest.iter().enumerate())
        .map(|(i, &phase)| {
            let of = if i == 0 { format!(" {scope}") } else { String::new() };
            format!("{}{of} {}", percent(share(phase)), doing(phase))
        })
        .collect();
    let named = match named.split_last()? {
        (last, []) => last.clone(),
        (last, first) => format!("{} and {last}", first.join(", ")),
    };
    let who = of.device(None);
    let mut text = format!("No device work was recorded. {who} spends {named}");
    if let Some(step) = longest {
        let [ns, median, more] = [step.ns, step.median_ns, step.more_ns].map(format::duration);
        text += &format!(
            ". {} takes {ns}, the median step {median}: it spends {more} more {}",
            clipped(&step.name),
            doing(step.phase)
        );
    }
    Some(text)
}

/// What time is spent on.
fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::DataLoading => "loading data",
        Phase::Forward => "in the forward pass",
        Phase::Backward => "in the backward pass",
        Phase::Optimizer => "in the optimizer",
        Phase::Copies => "copying",
        Phase::Communication => "communicating",
        Phase::Waiting => "waiting",
        Phase::Other => "in no known phase",
    }
}
