//! Places in the program by their memory: leaks, what is not a leak, gains, and what is live.

use std::sync::Arc;

use super::{Owned, Owner, owner};
use crate::analysis::finding::Severity;
use crate::analysis::memory::leaks::{Explained, Gain, LeakCandidate, Verdict};
use crate::analysis::memory::live::{GroupKey, LiveGroup};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::figures::{Cell, Figure, Part, Stack, Word, number, words};
use crate::model::Trace;

/// Something about the memory that was allocated at one place.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    pub owner: Owner,
    pub stack: Arc<Stack>,
    pub of: T,
}

/// Where in the program the memory of a device comes from.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub trace: &'a Trace,
    pub signatures: &'a Signatures,
    pub owner: Owner,
}

impl Places<'_> {
    pub fn stack(&self, signature: SignatureId) -> Stack {
        Stack {
            label: self.signatures.label(self.trace, signature).unwrap_or_default().into_owned(),
            frames: self.signatures.frames(self.trace, signature).into_iter().map(String::from).collect(),
        }
    }

    /// `of` with its place.
    pub fn placed<T>(&self, signature: SignatureId, of: T) -> Placed<T> {
        Placed { owner: self.owner, stack: Arc::new(self.stack(signature)), of }
    }

    /// Live memory with its place.
    pub fn live(&self, group: LiveGroup) -> Placed<LiveGroup> {
        let signature = match group.group {
            GroupKey::Signature(signature) => signature,
            _ => SignatureId::default(),
        };
        self.placed(signature, group)
    }
}

impl<T> Owned for Placed<T> {
    fn owner(&self) -> Owner {
        self.owner
    }
}

/// The place in short, and in full for the window.
fn stack<T>() -> [Figure<Placed<T>>; 2] {
    const SHORT: &str = "The most telling frame: the innermost one in user code";
    [
        words("stack", "Allocated at", 300, SHORT, |row: &Placed<T>| Cell::Stack(Arc::clone(&row.stack))),
        words("frames", "Stack", 300, "The whole call stack, innermost frame first", |row| {
            Cell::frames(&row.stack.frames.join("; "))
        }),
    ]
}

/// The order of flat reports after the owner; the place is last.
const HELD: &[&str] = &["rank", "device", "bytes", "count", "stack"];
const HELD_JSON: &[&str] = &["stack", "bytes", "count"];

/// Places whose memory grows step after step.
pub fn leaks<'a>() -> Part<Placed<&'a LeakCandidate>> {
    let mut figures = vec![
        words(
            "severity",
            "Severity",
            70,
            "High from 100 MB gained in all, medium from 10 MB",
            |row: &Placed<&'a LeakCandidate>| Cell::Word(leak_severity(row.of.severity)),
        ),
        number(
            "bytes_per_step",
            "Gain a step",
            100,
            "Theil and Sen's slope of its live bytes at the ends of steps; the mean gain if it grows in some steps only",
            |row| Cell::Gain(row.of.bytes_per_step.round() as i64),
        ),
    ];
    figures.extend(stack());
    figures.extend([
        number(
            "growth_bytes",
            "Gain in all",
            90,
            "Live bytes at the last step less those at the first that counts",
            |row: &Placed<&'a LeakCandidate>| Cell::Gain(row.of.growth_bytes),
        ),
        number("slope_share", "Share", 60, "Its share of the growth of all suspects", |row| {
            Cell::Share(row.of.slope_share)
        }),
        number("monotonic", "Steps with gain", 100, "Share of steps after which it has more", |row| {
            Cell::Share(row.of.monotonic)
        }),
        number("r2", "R²", 60, "How well a straight line fits its growth, 1 at best", |row| Cell::Plain(row.of.r2)),
        number("survivors", "Survivors", 76, "Blocks that outlived their own step by another whole one", |row| {
            Cell::Count(row.of.survivors)
        }),
        number("survivor_steps", "Of steps", 66, "From how many different steps they are", |row| {
            Cell::Count(row.of.survivor_steps as u64)
        }),
        number("score", "Score", 60, "Share of the growth x steps with gain x share of bytes with a stack", |row| {
            Cell::Plain(row.of.score)
        }),
        words("verdict", "Verdict", 100, "What it is", |_| Cell::Word(&Word { rank: 0, key: "leak", label: "Leak" })),
    ]);
    figures.extend(owner());
    #[rustfmt::skip]
    let window: &[&str] = &[
        "severity", "bytes_per_step", "stack", "frames", "growth_bytes", "slope_share", "monotonic", "r2",
        "survivors", "survivor_steps",
    ];
    #[rustfmt::skip]
    let report: &[&str] = &[
        "rank", "device", "verdict", "severity", "bytes_per_step", "growth_bytes", "survivors", "monotonic", "r2",
        "stack",
    ];
    #[rustfmt::skip]
    let json: &[&str] = &[
        "stack", "bytes_per_step", "growth_bytes", "survivors", "monotonic", "r2", "score", "severity", "verdict",
    ];
    Part { window: Some(window), report: Some(report), json: Some(json), ..Part::new("leaks", "Leaks", figures) }
}

/// Of leaks alone: their words are older than those of findings, and a contract.
fn leak_severity(severity: Severity) -> &'static Word {
    match severity {
        Severity::Note => &Word { rank: 0, key: "low", label: "Low" },
        Severity::Warn => &Word { rank: 1, key: "medium", label: "Medium" },
        Severity::High => &Word { rank: 2, key: "high", label: "High" },
    }
}

/// Places whose memory is not a leak, with the reason.
pub fn no_leaks() -> Part<Placed<Explained>> {
    let mut figures = vec![
        number("bytes", "Size", 100, "Live bytes at the last boundary of steps", |row: &Placed<Explained>| {
            Cell::Gain(row.of.bytes)
        }),
        words("verdict", "Verdict", 220, "Why it is not a suspect", |row| Cell::Word(verdict(row.of.verdict))),
    ];
    figures.extend(stack());
    figures.extend(owner());
    let window: &[&str] = &["bytes", "verdict", "stack", "frames"];
    let report: &[&str] = &["rank", "device", "verdict", "bytes", "stack"];
    let json: &[&str] = &["stack", "bytes", "verdict"];
    Part { window: Some(window), report: Some(report), json: Some(json), ..Part::new("no_leaks", "No leaks", figures) }
}

fn verdict(verdict: Verdict) -> &'static Word {
    match verdict {
        Verdict::Setup => &Word { rank: 0, key: "setup", label: "Set up before the steps that count" },
        Verdict::WarmUpCache => &Word { rank: 0, key: "warm_up_cache", label: "A cache that filled up" },
        Verdict::Released => &Word { rank: 0, key: "released", label: "Grows for some steps, then is given back" },
        Verdict::GrowingBuffer => {
            &Word { rank: 0, key: "growing_buffer", label: "One buffer, replaced by a larger one each step" }
        }
        Verdict::Offset => &Word { rank: 0, key: "offset", label: "Another place gives up as much" },
    }
}

/// Places that have more at the end of the recording than at its start, whatever the reason.
pub fn gains() -> Part<Placed<Gain>> {
    let mut figures = vec![
        number("bytes", "Gain", 100, "Live bytes at the end less those at the start", |row: &Placed<Gain>| {
            Cell::Gain(row.of.bytes)
        }),
        number("count", "Blocks more", 90, "How many blocks more, or fewer", |row| Cell::Change(row.of.count)),
    ];
    figures.extend(stack());
    figures.extend(owner());
    Part {
        window: Some(&["bytes", "count", "stack", "frames"]),
        report: Some(HELD),
        json: Some(HELD_JSON),
        ..Part::new("gains", "More at the end than at the start", figures)
    }
}

/// What is allocated where the peak is reached first.
pub fn peak_by_stack() -> Part<Placed<LiveGroup>> {
    held("peak_by_stack", "Memory at its peak")
}

/// What is allocated at the end of the recording.
pub fn live_at_end() -> Part<Placed<LiveGroup>> {
    held("live_at_end", "Memory at the end")
}

fn held(key: &'static str, title: &'static str) -> Part<Placed<LiveGroup>> {
    let mut figures = vec![
        number("bytes", "Size", 90, "Bytes of its blocks", |row: &Placed<LiveGroup>| Cell::Bytes(row.of.bytes)),
        number("count", "Blocks", 70, "How many blocks", |row| Cell::Count(row.of.count)),
    ];
    figures.extend(stack());
    figures.extend(owner());
    Part { report: Some(HELD), json: Some(HELD_JSON), ..Part::new(key, title, figures) }
}
