//! Selects among several divisions into steps.

use super::Steps;

/// Number of steps that suffices for a comparison, even if another name would yield more.
const ENOUGH_STEPS: usize = 5;
/// Number of steps for which a single longer step is given up.
const MIN_INSTEAD: usize = 4;

/// Selects among several divisions into steps, given in order of preference: the first that covers at least half as
/// much as the widest and has five steps or a fifth of the most, but not a single one if there are four others. Notes
/// a differing division. `None` if there are none. Cost: O(n) for n divisions.
pub fn choose<B: Copy + Into<i64>>(mut found: Vec<Steps<B>>) -> Option<Steps<B>> {
    let widest = found.iter().map(Steps::extent).max()?;
    let most = found.iter().map(Steps::len).max()?;
    // The profiler often covers only a few of many steps, or marks a whole epoch as a step.
    let is_fit = |steps: &Steps<B>| {
        let is_many = steps.len() >= ENOUGH_STEPS || 5 * steps.len() >= most;
        steps.extent() >= widest / 2 && is_many && (steps.len() > 1 || most < MIN_INSTEAD)
    };
    let mut best = found.remove(found.iter().position(is_fit).unwrap_or(0));
    // A difference of one results from the start and end of the recording.
    let differs = |other: &&Steps<B>| other.len().abs_diff(best.len()) > 1;
    best.disagreement = found.iter().find(differs).map(|other| (other.source.clone(), other.len()));
    Some(best)
}
