//! Places in the program by their memory: leaks, what is not a leak, gains, and what is live.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::{Owned, Owner, holder_frames, leak_advice, owner, step_name, tell_apart};
use crate::analysis::memory::labels::below_allocator;
use crate::analysis::memory::leaks::{Explained, Gain, LeakCandidate, Verdict};
use crate::analysis::memory::live::{GroupKey, LiveGroup};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::analysis::memory::steps::Steps;
use crate::figures::{Cell, Figure, Part, Stack, Word, figures, format};
use crate::model::{Severity, Trace};

/// Something about the memory that was allocated at one place.
#[derive(Clone, Debug)]
pub struct AtPlace<T> {
    pub owner: Owner,
    pub stack: Arc<Stack>,
    pub of: T,
}

/// Where in the program the memory of a device comes from.
#[derive(Clone, Debug)]
pub struct Places<'a> {
    pub trace: &'a Trace,
    pub signatures: &'a Signatures,
    pub owner: Owner,
}

impl Places<'_> {
    pub fn stack(&self, signature: SignatureId) -> Stack {
        let place = self.signatures.label(self.trace, signature).unwrap_or_default();
        Stack::at(place, without_allocator(self.signatures.frames(self.trace, signature)))
    }

    /// Each of a list with its place; places that read the same are told apart.
    pub fn placed<T>(&self, list: impl IntoIterator<Item = (SignatureId, T)>) -> Vec<AtPlace<T>> {
        self.told_apart(list.into_iter().map(|(signature, of)| (self.stack(signature), of)))
    }

    /// The places that have more at the end, with the others of which it cannot be told which of them it is.
    pub fn gained(&self, gains: &[Gain]) -> Vec<AtPlace<Gain>> {
        let mut placed = self.placed(gains.iter().map(|gain| (gain.signature, gain.clone())));
        for one in placed.iter_mut().filter(|one| !one.of.or.is_empty()) {
            let others = match one.of.or[..] {
                [other] => self.stack(other).name().to_owned(),
                _ => format!("one of {} other places", format::count(one.of.or.len() as u64)),
            };
            let label = format!("{}, or {others}, with blocks of the same size", one.stack.name());
            Arc::make_mut(&mut one.stack).label = label;
        }
        placed
    }

    /// Live memory with its places, which are told apart.
    pub fn live(&self, groups: &[LiveGroup]) -> Vec<AtPlace<LiveGroup>> {
        let stack = |group: &LiveGroup| match group.group {
            GroupKey::Signature(signature) => self.stack(signature),
            _ => Stack::new(without_allocator(group.frames(self.trace, self.signatures))),
        };
        self.told_apart(groups.iter().map(|group| (stack(group), *group)))
    }

    fn told_apart<T>(&self, list: impl Iterator<Item = (Stack, T)>) -> Vec<AtPlace<T>> {
        let (mut stacks, list): (Vec<Stack>, Vec<T>) = list.unzip();
        tell_apart(&mut stacks);
        let at = |(stack, of)| AtPlace { owner: self.owner.clone(), stack: Arc::new(stack), of };
        stacks.into_iter().zip(list).map(at).collect()
    }
}

fn without_allocator(frames: Vec<Cow<'_, str>>) -> Vec<String> {
    below_allocator(frames).into_iter().map(String::from).collect()
}

impl<T> Owned for AtPlace<T> {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

/// The place in short, and in full for the window.
fn stack<T>() -> Vec<Figure<AtPlace<T>>> {
    const SHORT: &str = "The place, as in the memory by place: the innermost frame in user code; where several stacks \
                         have it, also the frame that tells them apart";
    figures! { row: AtPlace<T>;
        words "stack", "Allocated at", 300, Cell::Stack(Arc::clone(&row.stack)), SHORT;
        words "frames", "Stack", 300, Cell::frames(&row.stack.frames.join("; ")),
            "The whole call stack, innermost frame first";
        words "place", "Place", 300, Cell::frames(&row.stack.place), "The place, as in the memory by place";
    }
}

/// The order of flat reports after the owner; the place is last.
const HELD: &str = "file rank device bytes count stack";
const HELD_JSON: &str = "place stack bytes count";

/// A leak, with the name of the first step in which it grows.
#[derive(Clone, Debug)]
pub struct Leak<'a> {
    pub found: &'a LeakCandidate,
    since: Option<String>,
}

impl<'a> Leak<'a> {
    pub fn new(found: &'a LeakCandidate, steps: Option<&Steps>) -> Self {
        let leak = Self { found, since: None };
        Self { since: leak.first_step().zip(steps).map(|(step, steps)| step_name(steps, step)), ..leak }
    }

    /// The first step in which it grows, counted from 0: of the warm-up, too.
    fn first_step(&self) -> Option<usize> {
        let is_rise = |pair: &[i64]| pair[1] > pair[0];
        self.found.since_step.or_else(|| self.found.live_bytes.windows(2).position(is_rise))
    }
}

/// Places whose memory grows step after step.
pub fn leaks<'a>() -> Part<AtPlace<Leak<'a>>> {
    let figures = figures! { row: AtPlace<Leak<'a>>;
        words "severity", "Severity", 70, Cell::Word(leak_severity(row.of.found.severity)),
            "High from 100 MB gained in all, warning from 10 MB";
        number "bytes_per_step", "Gain a step", 100, Cell::Gain(row.of.found.bytes_per_step.round() as i64),
            "Theil and Sen's slope of its live bytes at the ends of steps; the mean gain if it grows in some steps \
             only";
        words "since", "Since", 90, Cell::or_empty(row.of.since.as_deref(), Cell::name),
            "The first step in which it grows; if that is later than the warm-up, the gains count from there";
        number "since_step", "Since step", 60, Cell::or_empty(row.of.first_step(), |step| Cell::Count(step as u64)),
            "The same, counted from 0";
        with stack();
        number "growth_bytes", "Gain of place", 100, Cell::Gain(row.of.found.growth_bytes),
            "Its live bytes at the last step less those at the step since which it grows, or at the first judged one. \
             Bytes that were freed and await a stream are live here";
        number "slope_share", "Share", 60, Cell::Share(row.of.found.slope_share), "Its share of the growth of all \
            candidates";
        number "monotonic", "Steps with gain", 100, Cell::Share(row.of.found.monotonic),
            "Share of steps after which it has more";
        number "r2", "R²", 60, Cell::Plain(row.of.found.r2), "How well a straight line fits its growth, 1 at best";
        number "survivors", "Survivors", 76, Cell::Count(row.of.found.survivors),
            "Blocks that outlived their own step by another whole one";
        number "survivor_steps", "Of steps", 66, Cell::Count(row.of.found.survivor_steps as u64),
            "From how many different steps they are";
        number "score", "Score", 60, Cell::Plain(row.of.found.score),
            "Share of the growth x steps with gain x share of bytes with a stack";
        words "verdict", "Verdict", 100, leak_verdict(row.of.found), "What it is";
        words "advice", "Advice", 400, Cell::Sentences(leak_advice(&[row.of.found], &row.stack.frames).into()),
            "What to look for";
        with owner();
    };
    Part::new("leaks", "Leaks", figures)
        .window(
            "severity bytes_per_step since stack frames growth_bytes slope_share monotonic r2 survivors survivor_steps",
        )
        .report("file rank device verdict severity bytes_per_step since growth_bytes survivors monotonic r2 stack")
        .json("place stack bytes_per_step since since_step growth_bytes survivors monotonic r2 score severity verdict advice")
}

/// The counterpart of [`verdict`]: every candidate is one.
fn leak_verdict(_: &LeakCandidate) -> Cell {
    Cell::Word(&Word { rank: 0, key: "leak", label: "Leak" })
}

/// As of a finding. Only the words in JSON are others: they are older, and a contract.
fn leak_severity(severity: Severity) -> &'static Word {
    match severity {
        Severity::Note => &Word { rank: 0, key: "low", label: "Note" },
        Severity::Warn => &Word { rank: 1, key: "medium", label: "Warning" },
        Severity::High => &Word { rank: 2, key: "high", label: "High" },
    }
}

/// What is not a leak, with the places that gave up as much, if that is why.
#[derive(Clone, Debug)]
pub struct NoLeak {
    verdict: Verdict,
    bytes: i64,
    /// `forward (model.py:9), pack (batch.py:8) and 3 more`.
    given_up_by: Option<String>,
}

impl NoLeak {
    pub fn new(found: &Explained, places: &Places<'_>) -> Self {
        const NAMED: usize = 2;
        let name = |&signature: &SignatureId| match places.stack(signature) {
            stack if stack.label.is_empty() => "blocks without a call stack".to_owned(),
            stack => holder_frames(&stack.label),
        };
        // Stacks that differ in frames of libraries alone have one name.
        let mut seen = HashSet::new();
        let names: Vec<String> = found.given_up_by.iter().map(name).filter(|name| seen.insert(name.clone())).collect();
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {} more", format::count(n as u64)),
        };
        let given_up_by = (!names.is_empty()).then(|| format!("{}{more}", names[..NAMED.min(names.len())].join(", ")));
        Self { verdict: found.verdict, bytes: found.bytes, given_up_by }
    }
}

/// Places whose memory is not a leak, with the reason.
pub fn no_leaks() -> Part<AtPlace<NoLeak>> {
    let figures = figures! { row: AtPlace<NoLeak>;
        number "bytes", "Size", 100, Cell::Gain(row.of.bytes), "Live bytes at the last boundary of steps, with those that were freed and await a stream";
        words "verdict", "Verdict", 220, Cell::Word(verdict(row.of.verdict)), "Why it is not a leak";
        words "given_up_by", "Given up by", 220, Cell::or_empty(row.of.given_up_by.as_deref(), Cell::name),
            "Where another place gives up as much: the places that have less in blocks of similar size, the largest loss first";
        with stack();
        with owner();
    };
    Part::new("no_leaks", "No leaks", figures)
        .window("bytes verdict given_up_by stack frames")
        .report("file rank device verdict bytes given_up_by stack")
        .json("place stack bytes verdict given_up_by")
}

fn verdict(verdict: Verdict) -> &'static Word {
    match verdict {
        Verdict::Setup => &Word { rank: 0, key: "setup", label: "Set up before the judged steps" },
        Verdict::WarmUpCache => &Word { rank: 0, key: "warm_up_cache", label: "A cache that filled up" },
        Verdict::BelowThreshold => {
            &Word { rank: 0, key: "below_threshold", label: "Grows, but less than the threshold" }
        }
        Verdict::TooFewGains => {
            &Word { rank: 0, key: "too_few_gains", label: "Grew in two or three steps: too few to tell from a cache" }
        }
        Verdict::Released => &Word { rank: 0, key: "released", label: "Grows for some steps, then is freed" },
        Verdict::GrowingBuffer => {
            &Word { rank: 0, key: "growing_buffer", label: "One buffer, replaced by a larger one each step" }
        }
        Verdict::Offset => &Word { rank: 0, key: "offset", label: "Another place gives up as much" },
    }
}

/// Places that have more at the end of the recording than at its start, whatever the reason.
pub fn gains() -> Part<AtPlace<Gain>> {
    const GAIN: &str = "Bytes allocated at the end less those at the start; a block that replaces one of as many \
                        requested bytes from before the recording, whose stack is not known, is a gain only by what the \
                        allocator rounds it up by more. Where places have blocks of one size, and it cannot be told which \
                        of them replaced old ones, one row stands for all";
    let figures = figures! { row: AtPlace<Gain>;
        number "bytes", "Gain", 100, Cell::Gain(row.of.bytes), GAIN;
        number "count", "Blocks more", 90, Cell::Change(row.of.count), "How many blocks more, or fewer";
        with stack();
        with owner();
    };
    Part::new("gains", "More at the end than at the start", figures)
        .window("bytes count stack frames")
        .report(HELD)
        .json(HELD_JSON)
}

/// What is allocated where the peak is reached first.
pub fn peak_by_stack() -> Part<AtPlace<LiveGroup>> {
    held("peak_by_stack", "Memory at its peak")
}

/// What is allocated at the end of the recording.
pub fn live_at_end() -> Part<AtPlace<LiveGroup>> {
    held("live_at_end", "Memory at the end")
}

fn held(key: &'static str, title: &'static str) -> Part<AtPlace<LiveGroup>> {
    let figures = figures! { row: AtPlace<LiveGroup>;
        number "bytes", "Size", 90, Cell::Bytes(row.of.bytes), "Bytes of its blocks";
        number "count", "Blocks", 70, Cell::Count(row.of.count), "How many blocks";
        with stack();
        with owner();
    };
    Part::new(key, title, figures).report(HELD).json(HELD_JSON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::fixture::Script;

    #[test]
    fn the_first_two_places_that_give_up_as_much_are_named() {
        let mut script = Script::default();
        let frames: [&[&str]; 4] = [
            &["to (/me/module.py:1)"],
            // A frame of a library alone makes no other place.
            &["at::empty (??)", "to (/me/module.py:1)"],
            &["pack (/me/batch.py:8)"],
            &["load (/me/data.py:3)"],
        ];
        let stacks = frames.map(|frames| script.stack(frames));
        script.alloc(0, 512, stacks[0]);
        let trace = script.finish();
        let signatures = Signatures::new(&trace, false);
        let places = Places { trace: &trace, signatures: &signatures, owner: Owner::default() };
        let named = |stacks: &[crate::model::StackId]| {
            let given_up_by = stacks.iter().map(|&stack| signatures.of(stack)).collect();
            let verdict = Verdict::Offset;
            NoLeak::new(&Explained { signature: SignatureId::default(), verdict, bytes: 1, given_up_by }, &places)
                .given_up_by
        };
        assert_eq!(named(&[]), None);
        assert_eq!(named(&stacks[..2]).as_deref(), Some("to (module.py:1)"));
        assert_eq!(named(&stacks).as_deref(), Some("to (module.py:1), pack (batch.py:8) and 1 more"));
    }
}
