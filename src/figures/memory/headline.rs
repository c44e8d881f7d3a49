//! The memory of a device in one line.

use std::collections::HashMap;

use super::{Owned, Owner, Places, caught, growth_sentence, owner, unused_parts, why};
use crate::analysis::memory::by_place::{Awaiting, Holders, Largest};
use crate::analysis::memory::leaks::{Leaks, TotalVerdict, capacity};
use crate::analysis::memory::oom::{OomCard, went_on};
use crate::analysis::memory::steps::{NoSteps, Steps};
use crate::analysis::memory::summary::{PrivatePools, Summary, has_peak};
use crate::analysis::totals::Scope;
use crate::figures::text::{display_name, short_frame};
use crate::figures::{Cell, Part, figures, format};
use crate::model::memory::{MemorySource, UNKNOWN_DEVICE, device_name, is_of_host};
use crate::model::{MemoryHistory, Severity, Trace};

/// Share of reserved memory up to which what is unused does not explain that it is full.
const SCATTERED: f64 = 0.1;
/// Share of a device's memory from which it may run out, as in the finding about its headroom.
const NEARLY_FULL: f64 = 0.9;

/// The memory of a device in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// Peak, largest holder, verdict, end, reserved and unused. May contain text from a file.
    pub text: String,
    /// What is wrong, or how memory develops.
    pub verdict: String,
    /// The text without what failed where memory ran out, for where that is said already.
    pub beside_failure: String,
    /// Of the verdict; `None` if nothing is wrong.
    pub severity: Option<Severity>,
}

/// The line of one device, for flat reports.
#[derive(Clone, Debug)]
pub struct InShort {
    pub owner: Owner,
    pub headline: Headline,
}

impl InShort {
    /// With whose memory it is: `Rank 1, GPU 0: Peak 2.00 GiB; …`.
    pub fn paragraph(&self) -> String {
        let Owner { file, rank, device } = &self.owner;
        let device = match *device {
            UNKNOWN_DEVICE => "Memory of an unknown device".to_owned(),
            host if is_of_host(host) => "Memory of the host".to_owned(),
            device => device_name(device),
        };
        let file = file.as_ref().map(|file| format!("{file}, ")).unwrap_or_default();
        let rank = rank.map(|rank| format!("Rank {rank}, ")).unwrap_or_default();
        format!("{file}{rank}{device}: {}", self.headline.text)
    }
}

impl Owned for InShort {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

/// One line for each device.
pub fn in_short() -> Part<InShort> {
    let figures = figures! { row: InShort;
        with owner();
        words "summary", "In short", 600, Cell::name(&row.headline.text), "Peak, largest holder, verdict, end, unused";
    };
    Part::new("memory_in_short", "Memory in short", figures)
}

/// The first thing to know of a device's memory.
///
/// * `places`: of the stacks of `found`.
/// * `cards`: of the failed requests.
pub fn headline(
    places: &Places<'_>,
    history: &MemoryHistory,
    summary: &Summary,
    holders: &Holders,
    found: &Leaks,
    steps: Option<&Steps>,
    cards: &[OomCard],
) -> Headline {
    let size = |bytes: u64| format::bytes(bytes as f64);
    let end = size(summary.end_allocated);
    let is_state_only = history.is_state_only();
    let most =
        holders.largest.as_ref().map(|Largest { name, bytes }| (holder_frames(name).replace("; ", " "), size(*bytes)));
    let most_when = |when| most.as_ref().map_or_else(String::new, |(name, bytes)| format!("; {when}: {name} {bytes}"));
    let first = match (summary.peak_allocated, is_state_only) {
        (_, true) => {
            let most = most.as_ref().map_or_else(String::new, |(name, bytes)| format!(", of it {bytes} by {name}"));
            format!("Allocated {end}{most}. Only the final state was recorded")
        }
        (Some(peak), false) => format!("Peak {}{}", size(peak.bytes), most_when("most at the peak")),
        (None, false) => {
            format!("Peak unknown, no allocation was recorded; end {end}{}", most_when("most at the end"))
        }
    };
    let mut others = Vec::new();
    if summary.peak_allocated.is_some() && !is_state_only {
        others.push(format!("end {end}"));
    }
    if history.has_reserved {
        let private = summary.end_private.map(|pools| private_pools(&pools)).unwrap_or_default();
        let (reserved, unused) = (size(summary.end_reserved), size(summary.end_unused()));
        let when = if is_state_only { "" } else { "at the end " };
        let lies =
            summary.end_unused_parts.map(|parts| unused_parts(&parts, found.excess.as_ref())).unwrap_or_default();
        others.push(format!("reserved {when}{reserved}, of it unused {unused}{lies}{private}"));
    }
    let awaiting = holders.awaiting.as_ref().map(awaiting).unwrap_or_default();
    let others = format!("{}{awaiting}", capitalized(&others.join("; ")));
    let growth = steps.map(|steps| growth_sentence(found, steps)).filter(|sentence| !sentence.is_empty());
    let is_unjudged = found.total.is_some_and(|total| total.verdict == TotalVerdict::TooFewSteps);
    let gain = gain(places, history, found).filter(|_| is_unjudged && found.growing.is_empty());
    let growth = growth.map(|growth| gain.into_iter().fold(growth, |growth, gain| format!("{growth}. {gain}")));
    let growth = growth.unwrap_or_else(|| without_steps(places, history, summary, found));
    let Verdict { failure, growth, severity } = verdict(history, found, growth, cards);
    let join = |of: &[&str]| of.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(". ");
    let of_a_part = "The file ends early or is damaged; of what could be read: ";
    let caveat = if places.trace.import.is_partial { of_a_part } else { "" };
    let first = format!("{caveat}{first}{}", not_of_gpus(places.trace, history));
    // Of a state alone it is said how to record more, which comes last. Else the answer comes before details.
    let has_answer = !is_state_only || severity.is_some();
    let in_order = |failure: &str| match has_answer {
        true => join(&[&first, failure, &growth, &others]),
        false => join(&[&first, &others, failure, &growth]),
    };
    Headline { text: in_order(&failure), verdict: join(&[&failure, &growth]), beside_failure: in_order(""), severity }
}

/// What was freed but awaits a stream, as a further sentence: what grows from step to step, and what is reserved and not
/// unused, counts it.
fn awaiting(of: &Awaiting) -> String {
    let size = |bytes: u64| format::bytes(bytes as f64);
    let when = if of.at_end > 0 { "at the end" } else { "at that peak" };
    format!(
        ". Freed blocks that await a stream (record_stream) come on top: with them the peak is {} and the end {}; most are \
         by {}, {} {when}",
        size(of.peak),
        size(of.end),
        holder_frames(&of.largest.name),
        size(of.largest.bytes),
    )
}

/// Of the host's memory where devices worked and the memory of none was recorded: that it is not what they need.
fn not_of_gpus(trace: &Trace, history: &MemoryHistory) -> &'static str {
    let is_alone = trace.memories.iter().all(|memory| is_of_host(memory.device));
    let have_worked = || Scope::whole(&[trace]).has_device_work();
    match history.source == MemorySource::Profiler && is_alone && have_worked() {
        true => {
            ". This is the host's memory alone: no memory of a GPU was recorded, though GPUs worked, so what the program \
             needs on them is not known. The profiler records what PyTorch's caching allocator gives out: it gave out \
             nothing meanwhile, or it is off"
        }
        false => "",
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Of a C++ function the name without arguments.
fn without_arguments(place: &str) -> &str {
    place.split('(').find(|name| !name.is_empty()).unwrap_or(place)
}

/// Frames of who holds memory where room is short: without folders and arguments.
pub fn holder_frames(frames: &str) -> String {
    let short = |frame: &str| match frame.contains(".py") || frame.starts_with('(') || frame.contains("(anonymous") {
        true => short_frame(frame),
        false => without_arguments(frame).to_owned(),
    };
    display_name(&frames.split("; ").map(short).collect::<Vec<_>>().join("; ")).into_owned()
}

/// What of the unused memory only some can use: ` (300 MiB of it in 2 private pools, for their CUDA graphs only)`.
pub fn private_pools(pools: &PrivatePools) -> String {
    let PrivatePools { count, unused, .. } = *pools;
    let pools = if count == 1 { "a private pool".to_owned() } else { format!("{count} private pools") };
    let whose = if count == 1 { "its" } else { "their" };
    format!(" ({} of it in {pools}, for {whose} CUDA graphs only)", format::bytes(unused as f64))
}

/// What is lacking for steps, and how much more is allocated at the end than at the start, with the places that have
/// most of it, which says nothing of what it would grow to.
fn without_steps(places: &Places<'_>, history: &MemoryHistory, summary: &Summary, found: &Leaks) -> String {
    if history.source == MemorySource::Snapshot && !has_peak(history) {
        return without_history(summary, is_nearly_full(places.trace, history, summary));
    }
    let reason = found.no_steps.as_ref().map(|lacking| format!(" ({})", lacking.reason())).unwrap_or_default();
    let unjudged = format!("No steps were found{reason}, so growth cannot be judged");
    match gain(places, history, found) {
        Some(gain) => format!("{unjudged}: {gain}"),
        None => unjudged,
    }
}

/// How much more is allocated at the end than at the start, and where; nothing if it is no more.
fn gain(places: &Places<'_>, history: &MemoryHistory, found: &Leaks) -> Option<String> {
    let allocated = &history.curves.allocated;
    let gained = allocated.last().zip(allocated.first()).and_then(|(last, first)| last.checked_sub(*first));
    let gained = format::bytes(gained.filter(|&gained| gained > 0)? as f64);
    Some(format!("{gained} more at the end than at the start{}", most_gained(places, found)))
}

/// The places with the largest gains: `, most by f (a.py:9) 2.00 MiB (4 blocks) and g (a.py:7) 1.00 MiB`. Stacks that
/// differ above a place are one.
fn most_gained(places: &Places<'_>, found: &Leaks) -> String {
    const NAMED: usize = 2;
    let updates = match found.no_steps {
        Some(NoSteps::FewUpdates(n)) if n > 1 => i64::try_from(n).ok(),
        _ => None,
    };
    let name = |signature| holder_frames(places.stack(signature).name());
    let mut by_place: HashMap<String, (i64, i64)> = HashMap::new();
    for gain in &found.gains {
        let others = match gain.or[..] {
            [] => String::new(),
            [other] => format!(" or {}", name(other)),
            _ => format!(" or one of {} other places", format::count(gain.or.len() as u64)),
        };
        let (bytes, count) = by_place.entry(format!("{}{others}", name(gain.signature))).or_default();
        (*bytes, *count) = (*bytes + gain.bytes, *count + gain.count);
    }
    let mut gained: Vec<_> = by_place.into_iter().collect();
    gained.sort_by(|(name, (bytes, _)), (other, (of_other, _))| of_other.cmp(bytes).then_with(|| name.cmp(other)));
    let named = gained.into_iter().take(NAMED).map(|(place, (bytes, count))| {
        let blocks = match u64::try_from(count) {
            Ok(n @ 1..) => {
                let each = if updates == Some(count) { ", as often as the optimizer ran" } else { "" };
                format!(" ({}{each})", format::of_things(n, "block"))
            }
            _ => String::new(),
        };
        format!("{place} {}{blocks}", format::bytes(bytes as f64))
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { String::new() } else { format!(", most by {}", named.join(" and ")) }
}

/// Whether a state alone shows that memory ran out or nearly did: by the device's size, else as what is held fills what
/// is reserved.
fn is_nearly_full(trace: &Trace, history: &MemoryHistory, summary: &Summary) -> bool {
    let is_reserved = |total: u64| summary.end_reserved as f64 >= NEARLY_FULL * total as f64;
    !history.ooms.is_empty() || capacity(trace, history).map_or_else(|| fills(summary), is_reserved)
}

/// Whether nearly all that is reserved is held.
fn fills(summary: &Summary) -> bool {
    summary.end_unused() as f64 <= SCATTERED * summary.end_reserved as f64
}

/// What a state alone says of what fills the memory, and how to record what it does not.
fn without_history(summary: &Summary, is_nearly_full: bool) -> String {
    let held = match summary.end_largest_free {
        Some(_) if summary.end_reserved > 0 => {
            let share = summary.end_active as f64 / summary.end_reserved as f64;
            let what = if fills(summary) { ": what is held fills it, not fragmentation" } else { "" };
            format!("{:.1} % of what is reserved is in blocks{what}. ", 100.0 * share)
        }
        _ => String::new(),
    };
    let failure = match is_nearly_full {
        true => {
            ". If it runs out, also call torch._C._cuda_attach_out_of_memory_observer(lambda *_: \
             torch.cuda.memory._dump_snapshot(\"oom.pickle\")) early, to see why. lacuna capture --memory does all of it"
        }
        false => ". lacuna capture --memory does both",
    };
    format!(
        "{held}To see what it grows from, call torch.cuda.memory._record_memory_history(max_entries=1000000) early in the \
         program and torch.cuda.memory._dump_snapshot(\"steps.pickle\") after some steps{failure}"
    )
}

/// What is said of a memory beside its figures.
struct Verdict {
    /// That it ran out, and why; empty if it did not.
    failure: String,
    /// How it develops; after a failure only if that is wrong too.
    growth: String,
    severity: Option<Severity>,
}

/// What is wrong, the worst first; else how memory develops, as `growth` says.
fn verdict(history: &MemoryHistory, found: &Leaks, growth: String, cards: &[OomCard]) -> Verdict {
    let leak = found.candidates.iter().map(|one| one.severity).max();
    let is_alarm = found.total.is_some_and(|total| total.is_alarm || total.is_reserved_alarm);
    match cards.last() {
        Some(last) => {
            let times = match history.ooms.len() {
                1 => "Out of memory".to_owned(),
                n => format!("Out of memory {} times, last", format::count(n as u64)),
            };
            let growth = if leak.is_some() || is_alarm { growth } else { String::new() };
            Verdict {
                failure: format!("{times}: {}{}", why(last), caught(went_on(history))),
                growth,
                severity: Some(Severity::High),
            }
        }
        None => Verdict { failure: String::new(), growth, severity: leak.max(is_alarm.then_some(Severity::Warn)) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::by_place;
    use crate::analysis::memory::fixture::Script;
    use crate::analysis::memory::leaks::{Confidence, Thresholds, leaks};
    use crate::analysis::memory::signature::Signatures;
    use crate::analysis::memory::summary::summary;
    use crate::model::memory::{MemoryAction, MemoryEvent, MemoryPool, RawBlock, RawMemory, RawSegment};
    use crate::model::{DeviceInfo, SliceKind, StackId, TraceBuilder};

    #[test]
    fn a_paragraph_says_whose_memory_it_is() {
        let headline = Headline { text: "Peak 1 B".into(), ..Headline::default() };
        let of = |file: Option<&str>, rank, device| {
            let owner = Owner { file: file.map(Into::into), rank, device };
            InShort { owner, headline: headline.clone() }.paragraph()
        };
        assert_eq!(of(None, None, 0), "GPU 0: Peak 1 B");
        assert_eq!(of(Some("a.pickle"), Some(1), 2), "a.pickle, Rank 1, GPU 2: Peak 1 B");
        assert_eq!(of(None, None, -1), "Memory of the host: Peak 1 B");
    }

    #[test]
    fn without_an_allocation_no_peak_is_claimed() {
        let of = |actions: &[MemoryAction]| {
            let mut raw = RawMemory::default();
            let pool = raw.pool(MemoryPool::default());
            for (i, &action) in actions.iter().enumerate() {
                let stack = StackId::default();
                raw.events.push(MemoryEvent { ts: i as i64, action, addr: 1 << 20, bytes: 1 << 20, pool, stack });
            }
            let mut trace = TraceBuilder { memories: vec![raw], ..TraceBuilder::default() }.finish();
            trace.import.is_partial = actions.len() == 1;
            let history = &trace.memories[0];
            let found = Leaks {
                warm_up: 0,
                candidates: Vec::new(),
                explained: Vec::new(),
                growing: Vec::new(),
                total: None,
                gains: Vec::new(),
                places: 0,
                coverage: 1.0,
                confidence: Confidence::Low,
                caveats: Vec::new(),
                no_steps: None,
                excess: None,
            };
            let signatures = Signatures::new(&trace, false);
            let places = Places { trace: &trace, signatures: &signatures, owner: Owner::default() };
            headline(&places, history, &summary(history), &Holders::default(), &found, None, &[]).text
        };
        let freed = of(&[MemoryAction::FreeRequested, MemoryAction::FreeCompleted]);
        assert!(freed.starts_with("Peak unknown, no allocation was recorded; end 0 B"), "{freed}");
        let both = of(&[MemoryAction::Alloc, MemoryAction::FreeRequested]);
        assert!(both.starts_with("Peak 1.00 MiB. ") && both.ends_with(". End 0 B"), "details come last: {both}");
        let partial = "The file ends early or is damaged; of what could be read: Peak 1.00 MiB. ";
        assert!(of(&[MemoryAction::Alloc]).starts_with(partial));
    }

    #[test]
    fn of_the_hosts_memory_alone_it_says_that_that_of_gpus_is_not_known() {
        let of = |source, devices: &[i32], has_worked: bool| {
            let memories = devices.iter().map(|&device| {
                let mut raw = RawMemory { device, source, ..RawMemory::default() };
                let pool = raw.pool(MemoryPool::default());
                let (action, stack) = (MemoryAction::Alloc, StackId::default());
                raw.events.push(MemoryEvent { ts: 1, action, addr: 64, bytes: 64, pool, stack });
                raw
            });
            let kind = if has_worked { SliceKind::Kernel } else { SliceKind::Operator };
            let memories = memories.collect();
            line(&TraceBuilder { memories, ..TraceBuilder::from_slices(&[("7", kind, "mm", 0, 9)]) }.finish())
        };
        let says = |text: &str| text.contains("no memory of a GPU was recorded");
        let (profiler, timeline) = (MemorySource::Profiler, MemorySource::Timeline);
        let alone = of(profiler, &[-1], true);
        assert!(alone.starts_with("Peak 64 B. This is the host's memory alone: ") && says(&alone), "{alone}");
        assert!(!says(&of(profiler, &[-1], false)), "nothing worked on a device");
        assert!(!says(&of(profiler, &[-1, 0], true)) && !says(&of(profiler, &[0], true)));
        assert!(!says(&of(timeline, &[-1], true)));
    }

    #[test]
    fn freed_blocks_that_await_a_stream_are_named_beside_what_is_allocated() {
        let mut script = Script::default();
        let [load, prefetch] = ["load (/me/w.py:1)", "prefetch (/me/o.py:5)"].map(|frame| script.stack(&[frame]));
        script.alloc(1 << 30, 5 << 20, load);
        script.alloc(2 << 30, 3 << 20, prefetch);
        script.event(MemoryAction::FreeRequested, 2 << 30, 3 << 20, StackId::default());
        script.alloc(3 << 30, 1 << 20, load);
        let text = line(&script.finish());
        let on_top = "Freed blocks that await a stream (record_stream) come on top: with them the peak is 9.00 MiB and the \
                      end 9.00 MiB; most are by prefetch (o.py:5), 3.00 MiB at the end";
        assert!(text.starts_with("Peak 8.00 MiB") && text.contains("End 6.00 MiB") && text.contains(on_top), "{text}");
    }

    /// The line about a trace, as the report has it.
    fn line(trace: &Trace) -> String {
        let (history, signatures) = (&trace.memories[0], Signatures::new(trace, false));
        let lacking = crate::analysis::memory::steps::steps(trace, history, &|| false).err();
        let found = leaks(trace, history, &signatures, None, None, &Thresholds::default(), &|| false).1;
        let places = Places { trace, signatures: &signatures, owner: Owner::default() };
        let of_stack = by_place::stack_places(trace, None);
        let most = by_place::Places { trace, of_stack: &of_stack }.in_short(history);
        let holders = Holders { largest: None, ..most };
        headline(&places, history, &summary(history), &holders, &Leaks { no_steps: lacking, ..found }, None, &[]).text
    }

    #[test]
    fn without_steps_the_places_that_gained_most_are_named() {
        let mut script = Script::default();
        let adam = "step (/x/torch/optim/adam.py:9)";
        let [kept, state] = [["append (/me/losses.py:12)"], [adam]].map(|frames| script.stack(&frames));
        for step in 0..3_u64 {
            script.alloc((1 + step) << 40, 5 << 20, kept);
            script.alloc(step << 30, 1 << 20, state);
        }
        let text = line(&script.finish());
        let each = |updates| {
            format!(
                "growth cannot be judged: 18.00 MiB more at the end than at the start, most by append (losses.py:12) 15.00 \
                 MiB (3 blocks{updates}) and step (adam.py:9) 3.00 MiB (3 blocks{updates})"
            )
        };
        assert!(text.contains(&each("")), "{text}");
    }

    #[test]
    fn a_place_that_several_callers_share_gained_what_all_of_them_did() {
        const MIB: u64 = 1 << 20;
        let mut script = Script::default();
        let reset = "reset (/me/client.py:176)";
        let stacks =
            [[reset, "first (/me/fl.py:1)"], [reset, "later (/me/fl.py:2)"], ["grow (/me/g.py:5)", "x (/me/g.py:1)"]];
        let [first, later, grow] = stacks.map(|frames| script.stack(&frames));
        for (at, (bytes, stack)) in [(30, first), (25, later), (40, grow)].into_iter().enumerate() {
            script.alloc((1 + at as u64) << 40, bytes * MIB, stack);
        }
        let text = line(&script.finish());
        let most = "95.00 MiB more at the end than at the start, most by reset (client.py:176) 55.00 MiB (2 blocks) and grow \
                    (g.py:5) 40.00 MiB (1 block)";
        assert!(text.contains(most), "{text}");
    }

    #[test]
    fn a_state_says_what_fills_it_and_how_to_record_more() {
        let of = |held: u64, device: Option<u64>| {
            let mut raw = RawMemory::default();
            let pool = raw.pool(MemoryPool::default());
            let addr = 1 << 30;
            let blocks = vec![RawBlock { addr, bytes: held << 20, requested: held << 20, ..RawBlock::default() }];
            raw.end = Some(vec![RawSegment { addr, bytes: 100 << 20, pool, blocks, ..RawSegment::default() }]);
            let total_memory_bytes = device.map(|mib| mib << 20);
            let info = DeviceInfo { total_memory_bytes, ..DeviceInfo::default() };
            let mut builder = TraceBuilder { memories: vec![raw], ..TraceBuilder::default() };
            builder.info.devices.push(info);
            line(&builder.finish())
        };
        let full = of(99, None);
        assert!(
            full.contains(
                ". 99.0 % of what is reserved is in blocks: what is held fills it, not fragmentation. To see"
            )
        );
        assert!(full.contains("If it runs out, also call") && full.contains("max_entries="), "{full}");
        let empty = of(60, None);
        assert!(empty.contains(". 60.0 % of what is reserved is in blocks. To see"));
        assert!(!empty.contains("runs out") && empty.contains("capture --memory does both"), "{empty}");
        // Reserved are 100 MiB: of the device's memory that is much or little, whatever is held.
        assert!(!of(99, Some(120)).contains("runs out") && of(60, Some(110)).contains("runs out"));
    }

    #[test]
    fn holders_are_named_without_folders_and_arguments() {
        assert_eq!(holder_frames("at::mm(int, bool)"), "at::mm");
        assert_eq!(holder_frames("a.py(9): f; via nn.Module: Linear_3"), "a.py(9): f; via nn.Module: Linear_3");
        assert_eq!(holder_frames("f (/me/a.py:12, before 9)"), "f (a.py:12, before 9)");
        assert_eq!(
            holder_frames("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&) (engine.cpp:0)"),
            "torch::autograd::AccumulateGrad::apply"
        );
        assert_eq!(holder_frames("f (/me/a.py:9); from g (/me/b.py:1)"), "f (a.py:9); from g (b.py:1)");
        assert_eq!(holder_frames("(no call stack)"), "(no call stack)");
    }
}
