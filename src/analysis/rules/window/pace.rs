//! How long ranks of one job take for the same steps.

use super::Window;
use crate::model::{DurNs, TimeRange};

/// Fewer steps are not compared.
const LEAST: usize = 2;

/// The length of a step of each device, in nanoseconds: the mean of the steps that all of them ran at the same time,
/// and how many these are.
///
/// A step that holds the begin of a recording is as long as that happens to be, and the steps of other times may do
/// other work: neither compares. So does no step without one of each other device that shares most of its time.
///
/// * `windows`: the judged time of each device, with the offset of its trace on the session clock.
/// * Returns `None` if fewer than two steps compare.
/// * Cost: O(d s log s) for d devices of s steps.
pub fn same_steps(windows: &[(DurNs, &Window)]) -> Option<(usize, Vec<DurNs>)> {
    let whole = |&(offset, window): &(DurNs, &Window)| -> Vec<TimeRange> {
        let is_whole = |step: &&TimeRange| step.start > window.whole.start;
        window.steps.iter().filter(is_whole).map(|step| step.shifted(offset)).collect()
    };
    let steps: Vec<Vec<TimeRange>> = windows.iter().map(whole).collect();
    let fewest = steps.iter().min_by_key(|steps| steps.len())?;
    let mut sums: Vec<DurNs> = vec![0; steps.len()];
    let mut n = 0;
    for &step in fewest {
        let same: Option<Vec<TimeRange>> = steps.iter().map(|own| same_as(step, own)).collect();
        let Some(same) = same else { continue };
        n += 1;
        sums.iter_mut().zip(same).for_each(|(sum, step)| *sum += step.dur());
    }
    (n >= LEAST).then(|| (n, sums.into_iter().map(|sum| sum / n as DurNs).collect()))
}

/// The one of some steps, in order, that shares more than half of its time and of that of `step`.
fn same_as(step: TimeRange, steps: &[TimeRange]) -> Option<TimeRange> {
    let first = steps.partition_point(|own| own.end <= step.start);
    let overlapping = steps[first..].iter().take_while(|own| own.start < step.end);
    let shared = |own: &TimeRange| own.intersect(step).map_or(0, TimeRange::dur);
    overlapping.copied().find(|own| 2 * shared(own) > own.dur().max(step.dur()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of a device whose first work is at `begin`.
    fn window(begin: i64, boundaries: &[i64]) -> Window {
        let steps = boundaries.windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] }).collect();
        let end = boundaries[boundaries.len() - 1];
        Window { steps, whole: TimeRange { start: begin, end }, ..Window::default() }
    }

    #[test]
    fn steps_of_the_same_time_are_compared_and_others_are_not() {
        // The second runs the first step late and catches up; its clock is 1,000 behind.
        let a = window(0, &[100, 200, 300, 400, 500]);
        let b = window(-1_000, &[-900, -770, -690, -600]);
        assert_eq!(same_steps(&[(0, &a), (1_000, &b)]), Some((3, vec![100, 100])));
        // Without the long step at the end of the first.
        let longer = window(0, &[100, 200, 300, 400, 900]);
        assert_eq!(same_steps(&[(0, &longer), (1_000, &b)]), Some((3, vec![100, 100])));
        assert_eq!(same_steps(&[(0, &longer)]), Some((4, vec![200])));
        // At other times, or one step alone.
        assert_eq!(same_steps(&[(0, &a), (0, &b)]), None);
        assert_eq!(same_steps(&[(0, &a), (0, &window(0, &[410, 505]))]), None);
        assert_eq!(same_steps(&[(0, &a), (0, &window(0, &[100]))]), None);
        assert_eq!(same_steps(&[]), None);
    }

    #[test]
    fn a_step_in_which_a_recording_begins_is_not_compared() {
        let a = window(90, &[100, 200, 300, 400]);
        let b = window(130, &[120, 200, 300, 400]);
        assert_eq!(same_steps(&[(0, &a), (0, &b)]), Some((2, vec![100, 100])));
        let [a, b] = [window(20, &[10, 300]), window(120, &[110, 300])];
        assert_eq!(same_steps(&[(0, &a), (0, &b)]), None);
    }
}
