//! Figures of the growth of a device's total memory per step.

use super::{Owned, Owner, holder_frames, owner};
use crate::analysis::memory::leaks::{FEWEST_STEPS, GrowingPlace, Leaks, Thresholds, Total, TotalVerdict};
use crate::analysis::memory::reserved::ExcessCause;
use crate::analysis::memory::signature::SignatureId;
use crate::analysis::memory::steps::{StepSource, Steps};
use crate::figures::{Cell, Part, Word, figures, format};

/// All memory of a device at the boundaries of steps, the warm-up left out.
#[derive(Clone, Debug)]
pub struct MemoryGrowth {
    owner: Owner,
    total: Total,
    since: Option<String>,
    step_source: String,
    regularity: f64,
    steps: usize,
    warm_up: usize,
    doubts: Vec<String>,
}

impl MemoryGrowth {
    /// `None` without steps.
    pub fn new(owner: Owner, found: &Leaks, steps: Option<&Steps>) -> Option<Self> {
        let (total, steps) = found.total.zip(steps)?;
        Some(Self {
            owner,
            total,
            since: total.since_step.map(|step| step_name(steps, step)),
            step_source: steps.source.label(),
            regularity: steps.regularity,
            steps: steps.len(),
            warm_up: found.warm_up,
            doubts: found.caveats.clone(),
        })
    }
}

impl Owned for MemoryGrowth {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

/// Growth of all memory by device. Slopes are those of Theil and Sen.
pub fn growth() -> Part<MemoryGrowth> {
    // From too few steps no figure follows: what begins the program would be taken for growth.
    fn gain(total: &Total, bytes: i64) -> Cell {
        if total.is_judged() { Cell::Gain(bytes) } else { Cell::Empty }
    }
    fn slope(total: &Total, slope: f64) -> Cell {
        gain(total, slope.round() as i64)
    }
    let figures = figures! { row: MemoryGrowth;
        with owner();
        words "verdict", "Verdict", 120, Cell::Word(verdict(row.total.verdict)), "What grows, if anything";
        number "steps", "Steps", 60, Cell::Count(row.steps as u64),
            "How many steps there are. They are found in the allocator's events, each from the end of one to the end \
             of the next, and may differ from those of the step times";
        number "counted", "Judged", 70, Cell::Count(row.total.counted_steps() as u64),
            "How many steps are judged: those after the warm-up, without those in which memory ran out and did not grow";
        number "warm_up", "Warm-up", 70, Cell::Count(row.warm_up as u64), "The first steps, which are not judged";
        number "bytes_per_step", "Gain a step", 100, slope(&row.total, row.total.trend.slope),
            "Slope of live bytes at the ends of steps, since they rise";
        words "since", "Since", 90, Cell::or_empty(row.since.as_deref(), Cell::name),
            "The step from which live bytes rise, where they were level before; that of the leaks which explain it";
        number "since_step", "Since step", 60,
            Cell::or_empty(row.total.since_step, |step| Cell::Count(step as u64)), "The same, counted from 0";
        number "peak_bytes_per_step", "Gain of peaks a step", 120, slope(&row.total, row.total.peak_trend.slope),
            "Slope of the peaks within steps";
        number "reserved_bytes_per_step", "Gain of reserved a step", 130, slope(&row.total, row.total.reserved_trend.slope),
            "Slope of reserved bytes";
        number "growth_bytes", "Gain in all", 100, gain(&row.total, row.total.growth_bytes),
            "Live bytes at the last step less those at the step since which they rise, else at the first judged one";
        words "alarm", "Alarm", 60, Cell::Flag(row.total.is_alarm, &["no", "yes"]),
            "Whether it still grows: by more than 1 MB a step, in ten steps or at places that leak, or by 100 MB in \
             all";
        words "reserved_alarm", "Alarm of reserved", 110, Cell::Flag(row.total.is_reserved_alarm, &["no", "yes"]),
            "Whether reserved bytes grow by more than 1 MB a step in ten steps while live bytes are level";
        number "steps_to_oom", "Steps until full", 110, Cell::or_empty(row.total.steps_to_oom, Cell::Estimate),
            "Steps until what is reserved fills the device, or what the process had of it when a request failed; empty \
             if the file does not tell both. Fewer where other programs use the device";
        number "regularity", "Regularity", 80, Cell::Share(row.regularity),
            "Share of steps that are alike; no alarm rests on a low one";
        words "step_source", "Steps by", 160, Cell::name(&row.step_source), "What separates the steps";
        words "doubts", "Doubts", 300, Cell::Sentences(row.doubts.as_slice().into()),
            "Why this cannot be trusted further";
    };
    Part::new("growth", "Growth of memory", figures).report(
        "file rank device verdict steps counted warm_up bytes_per_step since peak_bytes_per_step \
         reserved_bytes_per_step growth_bytes alarm reserved_alarm steps_to_oom regularity step_source doubts",
    )
}

/// What a verdict is called; the worse rank higher.
fn verdict(verdict: TotalVerdict) -> &'static Word {
    match verdict {
        TotalVerdict::Growth => &Word { rank: 5, key: "growth", label: "Grows" },
        TotalVerdict::Ratchet => &Word { rank: 4, key: "ratchet", label: "Peaks rise" },
        TotalVerdict::FragmentationGrowth => {
            &Word { rank: 3, key: "fragmentation_growth", label: "Reserved grows beyond use" }
        }
        TotalVerdict::BelowThreshold => &Word { rank: 2, key: "below_threshold", label: "Grows little" },
        TotalVerdict::Flat => &Word { rank: 0, key: "flat", label: "Level" },
        TotalVerdict::TooFewSteps => &Word { rank: 1, key: "too_few_steps", label: "Too few steps" },
        TotalVerdict::IrregularSteps => &Word { rank: 1, key: "irregular_steps", label: "Steps differ or are a guess" },
    }
}

/// The growth of all memory as one sentence, without contradiction to the list of leaks.
pub fn growth_sentence(found: &Leaks, steps: &Steps) -> String {
    let Some(total) = &found.total else { return String::new() };
    let rate = |slope: f64| format!("{} a step", format::bytes(slope.max(0.0)));
    let since = |step: Option<usize>| step.map(|step| format!(" since {}", step_name(steps, step))).unwrap_or_default();
    let leaked: f64 = found.candidates.iter().map(|one| one.bytes_per_step).sum();
    let places = match (found.candidates.as_slice(), found.places) {
        ([], _) => match explaining(found, total) {
            [] => "no single place".to_owned(),
            [one] => place_name(one),
            [first, others @ ..] => format!("{} and {} other places", place_name(first), others.len()),
        },
        ([one], _) if one.signature == SignatureId::default() => "places without a call stack".to_owned(),
        (_, 1) => "1 place".to_owned(),
        (_, n) => format!("{n} places"),
    };
    let thresholds = Thresholds::default();
    let reserved = match total.is_reserved_alarm {
        true => format!("reserved memory grows by {}", rate(total.reserved_trend.slope)),
        false => "reserved memory grows beyond what was ever in use".to_owned(),
    };
    let growth = match total.verdict {
        TotalVerdict::Growth if total.rises(&thresholds) => {
            let peaks = match total.has_steeper_peaks(&thresholds) {
                true => format!(", the peak within steps by {}", rate(total.peak_trend.slope)),
                false => String::new(),
            };
            let between = rate(total.trend.slope);
            format!("Memory between steps grows by {between}{}, at {places}{peaks}", since(total.since_step))
        }
        TotalVerdict::Growth => {
            let keep = if found.places == 1 { "keeps" } else { "keep" };
            format!("{places} {keep} {} more, although all memory does not grow as steadily", rate(leaked))
        }
        TotalVerdict::Ratchet => format!(
            "Memory between steps stays level, but the peak within steps rises by {}",
            rate(total.peak_trend.slope)
        ),
        TotalVerdict::FragmentationGrowth => {
            let peaks = match total.has_rising_peaks(&thresholds) {
                true => format!(", while the peak within steps rises by {}", rate(total.peak_trend.slope)),
                false => String::new(),
            };
            format!("Memory between steps stays level, but {reserved}{}{peaks}", beyond_need(found))
        }
        TotalVerdict::BelowThreshold => format!(
            "Memory between steps grows by {}, below the threshold of {}",
            rate(total.trend.slope),
            format::bytes(thresholds.min_bytes_per_step)
        ),
        TotalVerdict::Flat if total.level_since.is_none() && total.swing as f64 > thresholds.alarm_bytes_per_step => {
            format!("Memory between steps varies by {}, without lasting growth", format::bytes(total.swing as f64))
        }
        TotalVerdict::Flat => format!("Memory between steps stays level{}", since(total.level_since)),
        TotalVerdict::TooFewSteps => format!("{}{}", too_few_steps(total, steps), so_far(found)),
        TotalVerdict::IrregularSteps if steps.may_be_layers() => {
            "What repeats may be layers of a pass as well as steps, so whether memory grows cannot be told".to_owned()
        }
        TotalVerdict::IrregularSteps => "The steps differ too much to say whether memory grows".to_owned(),
    };
    match total.verdict {
        TotalVerdict::FragmentationGrowth => growth,
        _ if total.is_reserved_alarm => format!("{growth}; {reserved}"),
        _ => growth,
    }
}

/// Why reserved memory grows beyond need, as the end of a sentence.
fn beyond_need(found: &Leaks) -> &'static str {
    match found.excess.map(|excess| excess.cause()) {
        Some(ExcessCause::Streams) => ": what is free belongs to other streams",
        Some(ExcessCause::Other) => ", and neither need nor fragmentation is most of it",
        Some(ExcessCause::Blocks | ExcessCause::Segments) | None => ": fragmentation",
    }
}

/// Why so many steps do not tell whether memory grows: how many there are, how many count, and how many it takes.
fn too_few_steps(total: &Total, steps: &Steps) -> String {
    let by = if steps.source == StepSource::Marks { " by your marks" } else { "" };
    let steps = steps.len();
    let counted = total.counted_steps();
    let n = format::count(counted as u64);
    let long = Thresholds::default().alarm_points - 1;
    if total.is_live_level() {
        let all = format::steps(steps);
        return format!(
            "Memory between steps stays level, but the peaks within steps or what is reserved beyond them rose. \
             Whether that goes on takes {long} steps to tell; here {n} of {all} can be judged"
        );
    }
    let of = match counted < steps {
        true => format!("{n} of {} can be judged, the others are warm-up or failed", format::steps(steps)),
        false if steps == 1 => format!("there is only 1{by}"),
        false => format!("there are only {n}{by}"),
    };
    format!("Too few steps to say whether memory grows: {of}. {}", enough())
}

/// How many steps tell whether memory grows.
fn enough() -> String {
    let long = Thresholds::default().alarm_points - 1;
    format!(
        "Record {long} steps after the warm-up; {FEWEST_STEPS} are enough if memory rises in each of them or stays level"
    )
}

/// What rose after each of too few steps, as a further sentence; empty if nothing did.
fn so_far(found: &Leaks) -> String {
    let others = match found.growing.len() {
        0 | 1 => String::new(),
        2 => "; 1 more place grows".to_owned(),
        n => format!("; {} more places grow", format::count(n as u64 - 1)),
    };
    growing_place(found).map(|grows| format!(". So far {grows}{others}")).unwrap_or_default()
}

/// The places that hold more at each boundary without a leak, if they explain at least half of the growth.
fn explaining<'a>(found: &'a Leaks, total: &Total) -> &'a [GrowingPlace] {
    let known: f64 = found.growing.iter().map(|one| one.bytes_per_step).sum();
    if 2.0 * known >= total.trend.slope { &found.growing } else { &[] }
}

fn place_name(one: &GrowingPlace) -> String {
    match one.place.as_str() {
        "" => "places without a call stack".to_owned(),
        place => holder_frames(place),
    }
}

/// What to do about blocks that were freed but await a stream.
pub const RECORDED_STREAM: &str = "Memory that another stream used is free only once that stream has passed the point \
    at which it was freed (record_stream): have the stream that allocated it wait for the other (wait_stream) and free it \
    after that, or keep the host from running further ahead of the device";

/// What the place that grows most without a leak holds, as a sentence; `None` if none does.
pub fn growing_place(found: &Leaks) -> Option<String> {
    let one = found.growing.first()?;
    let how = match one.blocks {
        [1, 1] => {
            "one block that grows: an input or a shape grows, or each step joins it with more (torch.cat)".to_owned()
        }
        [first, last] if last <= first => {
            format!("{} blocks that grow, so the input or the shape grows", format::count(last.into()))
        }
        [first, last] => {
            let [first, last] = [first, last].map(|count| format::count(count.into()));
            format!("{last} blocks instead of {first}")
        }
    };
    let awaiting = match one.awaiting {
        0 => String::new(),
        bytes => format!(", of which {} were freed but await a stream", format::bytes(bytes as f64)),
    };
    Some(format!("{} holds {} more each step: {how}{awaiting}", place_name(one), format::bytes(one.bytes_per_step)))
}

/// Where what grew is listed, for whatever reason.
pub const GROWN: &str = ". Stacks with more memory at the end are under \"Grown\"";

/// What stands in place of leaks where no place leaks: memory that grows all the same, and where that is listed.
pub fn no_candidate(found: &Leaks) -> String {
    let unjudged = found.total.and_then(|total| match total.verdict {
        TotalVerdict::TooFewSteps => {
            Some(format!("so few steps: {} can be judged. {}", format::count(total.counted_steps() as u64), enough()))
        }
        TotalVerdict::IrregularSteps => Some("steps that are a guess or differ so much".to_owned()),
        _ => None,
    });
    if let Some(steps) = unjudged {
        let grown = if found.gains.is_empty() { "" } else { GROWN };
        return format!("Leaks cannot be told from {steps}{grown}");
    }
    let Some((one, held)) = found.growing.first().zip(growing_place(found)) else {
        return "No leak candidate: no stack gains memory step after step that stays".to_owned();
    };
    let how = match one.blocks {
        [1, 1] => "one block is replaced by a larger one each step",
        [first, last] if last <= first => "blocks are replaced by larger ones each step",
        _ => "blocks are freed and more are allocated each step",
    };
    let place = match found.gains.iter().any(|gain| gain.signature == one.signature || gain.or.contains(&one.signature))
    {
        true => ". It is listed under \"Grown\"",
        false => "",
    };
    format!("No leak candidate, as no block stays, but {how}. {held}{place}")
}

/// The name of a step.
pub fn step_name(steps: &Steps, step: usize) -> String {
    steps.names.get(step).cloned().unwrap_or_else(|| format!("step {step}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::fixture::{Script, history};
    use crate::analysis::memory::leaks::{Gain, leaks};
    use crate::analysis::memory::signature::Signatures;

    #[test]
    fn without_a_leak_the_place_that_grows_is_named() {
        let trace = Script::default().finish();
        let signatures = Signatures::new(&trace, false);
        let none = || leaks(&trace, history(&trace), &signatures, None, None, &Thresholds::default(), &|| false).1;
        let awaiting_of = |blocks, awaiting| {
            let place = "main (/me/oom.py:7)".to_owned();
            let signature = SignatureId(3);
            let growing = vec![GrowingPlace { signature, place, bytes_per_step: 16_777_216.0, blocks, awaiting }];
            let gains = vec![Gain { signature, or: Vec::new(), bytes: 1 << 30, count: 0 }];
            Leaks { growing, gains, ..none() }
        };
        let of = |blocks| awaiting_of(blocks, 0);
        let awaiting = growing_place(&awaiting_of([2, 9], 64 << 20)).unwrap();
        assert!(awaiting.ends_with("9 blocks instead of 2, of which 64.00 MiB were freed but await a stream"));
        assert_eq!(
            no_candidate(&of([1, 1])),
            "No leak candidate, as no block stays, but one block is replaced by a larger one each step. main \
             (oom.py:7) holds 16.00 MiB more each step: one block that grows: an input or a shape grows, or each step joins it with \
             more (torch.cat). It is \
             listed under \"Grown\""
        );
        assert!(no_candidate(&of([1, 9])).contains("more are allocated each step. main (oom.py:7)"));
        let unlisted = Leaks { gains: Vec::new(), ..of([4, 4]) };
        assert!(no_candidate(&unlisted).ends_with("4 blocks that grow, so the input or the shape grows"));
        let level = Leaks { growing: Vec::new(), ..unlisted };
        assert_eq!(no_candidate(&level), "No leak candidate: no stack gains memory step after step that stays");
    }

    #[test]
    fn level_memory_is_said_to_be_level_where_only_peaks_lack_steps() {
        let mut script = Script::default();
        let stack = script.stack(&["main (train.py:9)"]);
        script.alloc(64 << 20, 1 << 20, stack);
        for step in 1..6 {
            let start = script.now();
            script.alloc(0, step << 20, stack);
            script.free(0, step << 20);
            let end = script.now();
            script.annotate(&format!("ProfilerStep#{step}"), start, end);
        }
        let trace = script.finish();
        let steps = crate::analysis::memory::steps::steps(&trace, history(&trace), &|| false).unwrap();
        let signatures = Signatures::new(&trace, false);
        let thresholds = Thresholds::default();
        let found = leaks(&trace, history(&trace), &signatures, Some(&steps), None, &thresholds, &|| false).1;
        assert_eq!(
            growth_sentence(&found, &steps),
            "Memory between steps stays level, but the peaks within steps or what is reserved beyond them rose. \
             Whether that goes on takes 9 steps to tell; here 4 of 5 steps can be judged"
        );
    }

    #[test]
    fn what_rose_in_each_of_too_few_steps_is_named() {
        let mut script = Script::default();
        let [kept, once] = ["append (losses.py:12)", "adam (optimizer.py:4)"].map(|frame| script.stack(&[frame]));
        script.alloc(1 << 40, 1 << 20, once);
        for step in 0..3 {
            let start = script.now();
            script.alloc(step << 30, 5 << 20, kept);
            if step == 0 {
                script.alloc(2 << 40, 9 << 20, once);
            }
            let end = script.now();
            script.annotate(&format!("ProfilerStep#{step}"), start, end);
        }
        let trace = script.finish();
        let steps = crate::analysis::memory::steps::steps(&trace, history(&trace), &|| false).ok();
        let signatures = Signatures::new(&trace, false);
        let thresholds = Thresholds::default();
        let found = leaks(&trace, history(&trace), &signatures, steps.as_ref(), None, &thresholds, &|| false).1;
        let sentence = growth_sentence(&found, steps.as_ref().unwrap());
        assert!(
            sentence.starts_with("Too few steps")
                && sentence
                    .ends_with(". So far append (losses.py:12) holds 5.00 MiB more each step: 3 blocks instead of 0"),
            "{sentence}"
        );
    }

    #[test]
    fn of_too_few_steps_no_leak_is_ruled_out() {
        let mut script = Script::default();
        for step in 0..2 {
            let start = script.now();
            let stack = script.stack(&["main (train.py:9)"]);
            script.alloc(step << 20, 512, stack);
            let end = script.now();
            script.annotate(&format!("ProfilerStep#{step}"), start, end);
        }
        let trace = script.finish();
        let steps = crate::analysis::memory::steps::steps(&trace, history(&trace), &|| false).ok();
        let signatures = Signatures::new(&trace, false);
        let thresholds = Thresholds::default();
        let found = leaks(&trace, history(&trace), &signatures, steps.as_ref(), None, &thresholds, &|| false).1;
        assert_eq!(found.total.map(|total| total.verdict), Some(TotalVerdict::TooFewSteps));
        assert!(no_candidate(&found).starts_with(
            "Leaks cannot be told from so few steps: 2 can be judged. Record 9 steps after the warm-up; 4 are enough if \
             memory rises in each of them or stays level."
        ));
        assert_eq!(
            growth_sentence(&found, steps.as_ref().unwrap()),
            "Too few steps to say whether memory grows: there are only 2. Record 9 steps after the warm-up; 4 are \
             enough if memory rises in each of them or stays level"
        );
    }
}
