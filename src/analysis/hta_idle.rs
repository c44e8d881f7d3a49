//! Idle time per stream by the rule of `HolisticTraceAnalysis` 0.5.0, for comparison with it.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeNs, Trace, TrackId, TrackKind};

/// Shorter gaps count as kernel wait: 30 µs in HTA's code, although its documentation says 30 ns.
const KERNEL_WAIT_BELOW: DurNs = 30_000;

/// Time between consecutive work of one stream, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtaIdle {
    pub process: ProcessId,
    /// Recorded device index.
    pub device: u32,
    /// Its number.
    pub stream: u32,
    /// Gaps whose work was launched after the previous work had ended.
    pub host_wait_us: i64,
    /// Other gaps below 30 µs. Work that overlaps its predecessor counts as a negative gap.
    pub kernel_wait_us: i64,
    /// The rest.
    pub other_us: i64,
}

/// Idle time of every stream with work, in the order of devices and streams.
///
/// Equal to `TraceAnalysis(...).get_idle_time_breakdown()` with default arguments, including what its documentation
/// does not say:
/// * If any event starts at a fraction of a microsecond, starts are rounded up and ends down, in 64-bit floats.
/// * If there are several names with `ProfilerStep`, work that was launched at or after the start of the last such
///   range is left out.
/// * Work whose call was not recorded counts as launched by the first event of the file.
///
/// HTA adds up streams of several devices under one number; here each device has its own.
/// Cost: O(n log n) for n slices, streams in parallel.
pub fn hta_idle(trace: &Trace) -> Vec<HtaIdle> {
    let rule = Rule::of(trace);
    let tracks: Vec<TrackId> = (0..trace.tracks.len() as u32).map(TrackId).collect();
    let mut all: Vec<HtaIdle> = tracks.into_par_iter().filter_map(|track| rule.stream(track)).collect();
    all.sort_by_key(|idle| (idle.device, idle.stream));
    all
}

/// What the figures of all streams depend on.
struct Rule<'a> {
    trace: &'a Trace,
    /// Whether times are rounded to microseconds.
    is_rounded: bool,
    /// Start of the last profiler step, from which on work is left out.
    last_step: Option<TimeNs>,
    /// Start of the first event in the file.
    first_event: Option<TimeNs>,
}

impl<'a> Rule<'a> {
    fn of(trace: &'a Trace) -> Self {
        let slices = &trace.slices;
        let mut rule =
            Self { trace, is_rounded: slices.ts.iter().any(|ts| ts % 1000 != 0), last_step: None, first_event: None };
        let start = |slice: usize| rule.start(SliceId(slice as u32));
        let first_event = (0..slices.len()).min_by_key(|&i| slices.source[i]).map(start);
        let is_step: Vec<bool> = trace.strings.iter().map(|(_, name)| name.contains("ProfilerStep")).collect();
        let steps: Vec<usize> = (0..slices.len()).filter(|&i| is_step[slices.name[i].0 as usize]).collect();
        let has_several = steps.iter().any(|&step| slices.name[step] != slices.name[steps[0]]);
        let last_step = steps.into_iter().map(start).max().filter(|_| has_several);
        rule.first_event = first_event;
        rule.last_step = last_step;
        rule
    }

    /// The figures of one track; `None` if it is not a stream with work.
    fn stream(&self, track: TrackId) -> Option<HtaIdle> {
        let trace = self.trace;
        let this = trace.track(track);
        let device = trace.process(this.process).device.filter(|_| this.kind == TrackKind::Stream)?;
        // `7`, before 2022 `stream 7`.
        let stream = this.tid.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
        let is_work = |slice: &SliceId| {
            matches!(trace.slices.kind[slice.idx()], SliceKind::Kernel | SliceKind::Memcpy | SliceKind::Memset)
        };
        let all = trace.track_slices(track).map(|slice| SliceId(slice as u32)).filter(is_work);
        let mut work: Vec<(TimeNs, SliceId)> =
            all.filter(|&slice| self.is_kept(slice)).map(|slice| (self.start(slice), slice)).collect();
        let by_start = |a: &(TimeNs, SliceId), b: &(TimeNs, SliceId)| -> Ordering {
            let source = |slice: SliceId| trace.slices.source[slice.idx()];
            a.0.cmp(&b.0).then_with(|| source(a.1).cmp(&source(b.1)))
        };
        work.sort_by(by_start);
        let [mut host_wait, mut kernel_wait, mut other] = [0; 3];
        let mut before: Option<TimeNs> = None;
        for &(start, slice) in &work {
            if let Some(before) = before {
                let gap = start - before;
                let sum = match self.launch(slice) {
                    Some(launch) if launch > before => &mut host_wait,
                    _ if gap < KERNEL_WAIT_BELOW => &mut kernel_wait,
                    _ => &mut other,
                };
                *sum += gap;
            }
            before = Some(self.end(slice));
        }
        let [host_wait_us, kernel_wait_us, other_us] = [host_wait, kernel_wait, other].map(|ns: DurNs| ns / 1000);
        (!work.is_empty()).then_some(HtaIdle {
            process: this.process,
            device,
            stream,
            host_wait_us,
            kernel_wait_us,
            other_us,
        })
    }

    /// Whether the work was launched before the last step.
    fn is_kept(&self, work: SliceId) -> bool {
        let Some(last_step) = self.last_step else { return true };
        let launch = match self.trace.slices.correlation[work.idx()] {
            0 => Some(work),
            _ => self.trace.launch_of(work),
        };
        launch.is_some_and(|launch| self.start(launch) < last_step)
    }

    /// When the work was launched.
    fn launch(&self, work: SliceId) -> Option<TimeNs> {
        if self.trace.slices.correlation[work.idx()] == 0 {
            return None;
        }
        self.trace.launch_of(work).map_or(self.first_event, |call| Some(self.start(call)))
    }

    /// Nanoseconds that are a whole number of microseconds, or as recorded.
    fn start(&self, slice: SliceId) -> TimeNs {
        let ts = self.trace.slices.ts[slice.idx()];
        if self.is_rounded { micros(ts).ceil() as TimeNs * 1000 } else { ts }
    }

    fn end(&self, slice: SliceId) -> TimeNs {
        let time = self.trace.slices.time(slice);
        if self.is_rounded { (micros(time.start) + micros(time.dur())).floor() as TimeNs * 1000 } else { time.end }
    }
}

/// The float that reading the decimal text of this time in microseconds gives.
fn micros(ns: i64) -> f64 {
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    if ns.unsigned_abs() < EXACT {
        return ns as f64 / 1000.0;
    }
    let text = format!("{}.{:03}", ns.div_euclid(1000), ns.rem_euclid(1000));
    text.parse().unwrap_or(ns as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    const K: SliceKind = SliceKind::Kernel;
    const CALL: SliceKind = SliceKind::Runtime;

    fn figures(builder: TraceBuilder) -> Vec<(u32, [i64; 3])> {
        let all = hta_idle(&builder.finish());
        all.iter().map(|idle| (idle.stream, [idle.host_wait_us, idle.kernel_wait_us, idle.other_us])).collect()
    }

    #[test]
    fn gaps_count_by_their_launch_and_length() {
        const US: i64 = 1000;
        let mut builder = TraceBuilder::from_slices(&[
            ("main", CALL, "launch", 10 * US, 12 * US),
            ("main", CALL, "launch", 15 * US, 16 * US),
            ("main", CALL, "launch", 220 * US, 221 * US),
            ("main", CALL, "launch", 222 * US, 223 * US),
            ("stream 7", K, "a", 100 * US, 200 * US),
            // Launched before the end of `a`.
            ("stream 7", K, "b", 229 * US, 230 * US),
            ("stream 7", SliceKind::Memcpy, "c", 260 * US, 270 * US),
            // Launched after the end of all work on its stream before it.
            ("stream 20", K, "d", 100 * US, 101 * US),
            ("stream 20", K, "e", 251 * US, 252 * US),
        ]);
        builder.slices[0].correlation = vec![1, 2, 3, 4, 1, 2, 3, 2, 4];
        assert_eq!(figures(builder), [(7, [0, 29, 30]), (20, [150, 0, 0])]);
    }

    #[test]
    fn fractions_round_all_times_and_the_last_step_is_left_out() {
        let step = SliceKind::Annotation;
        let slices = [
            ("main", step, "ProfilerStep#1", 0, 50_000),
            ("main", step, "ProfilerStep#2", 50_000, 90_000),
            ("main", CALL, "launch", 10_000, 12_000),
            ("main", CALL, "launch", 15_000, 16_000),
            ("main", CALL, "launch", 60_000, 61_000),
            // From 20.1 to 29.9 µs, then from 31 µs on: 21 to 29 and 31 to 40 in whole microseconds.
            ("stream 7", K, "a", 20_100, 29_900),
            ("stream 7", K, "b", 31_000, 40_000),
            ("stream 7", K, "c", 70_000, 80_000),
        ];
        let correlation = vec![0, 0, 1, 2, 3, 1, 2, 3];
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation.clone_from(&correlation);
        assert_eq!(figures(builder), [(7, [0, 2, 0])]);
        let mut one_name = slices;
        one_name[1].2 = "ProfilerStep#1";
        let mut builder = TraceBuilder::from_slices(&one_name);
        builder.slices[0].correlation = correlation;
        assert_eq!(figures(builder), [(7, [30, 2, 0])]);
    }

    #[test]
    fn decimal_text_and_division_give_the_same_float() {
        assert_eq!(micros(1_234_567_891), 1_234_567.891);
        assert_eq!(micros(1_712_345_678_901_234_567), 1_712_345_678_901_234.5);
    }
}
