//! Memory: the part `memory` of the report, and its findings.

use std::cmp::Reverse;
use std::sync::Arc;

use super::keys::Report;
use crate::analysis::memory::by_place::{self, At, Place, first};
use crate::analysis::memory::categories::{StackRoles, categories};
use crate::analysis::memory::leaks::device_total;
use crate::analysis::memory::live::{self, LiveUntil, by_signature, groups_of, sort_first};
use crate::analysis::memory::oom::OomCard;
use crate::analysis::memory::outside::Outside;
use crate::analysis::memory::reserved::{Cause, Growth, GrowthShares, shares};
use crate::analysis::memory::signature::Signatures;
use crate::analysis::memory::summary::{is_trifle, summary};
use crate::analysis::totals::Scope;
use crate::answers::Answers;
use crate::answers::memory::{
    FoundLeaks, FoundPlaces, GrowthOfReserved, GrowthPins, LeakSearch, NamedPlaces, OomCards, RolesOfStacks,
    StackPlaces, StackSignatures,
};
use crate::cli::{Failure, output};
use crate::figures::memory::{
    self, AT_END, AT_MOMENT, AT_PEAK, AtPlace, DeviceMemory, Held, HolderRow, InShort, Leak, MemoryGrowth, NoLeak,
    OutOfMemory, OutsideMemory, Owned as _, Owner, Places, ReservedShares, TimelineCategory, change_by_place, gains,
    growth, headline, in_the_way, leaks as leaks_part, live_at_end, named_by_rows, no_leaks, peak_by_stack,
    reserved_shares, timeline_categories,
};
use crate::figures::{Part, Table, format, moment};
use crate::model::memory::{device_name, is_of_host};
use crate::model::{Format, TimeNs};
use crate::session::{FoundInMemory as Found, MemoryAnswers, OpenMemory, OpenTrace, joined};

/// Stacks that are named of those in the way of a request.
const PINS: usize = 3;

/// A moment at which memory is listed by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// In session time.
    At(TimeNs),
    /// After this event.
    Event(u32),
}

impl std::str::FromStr for Moment {
    type Err = String;

    /// `event 120`, or a time since the start such as `1.5 s`, with its unit.
    fn from_str(text: &str) -> Result<Self, String> {
        let moment = match text.trim().strip_prefix("event") {
            Some(number) => number.trim().parse().ok().map(Self::Event),
            // A number alone could as well be an event.
            None => moment::parse(text, "").map(Self::At),
        };
        moment.ok_or_else(|| format!("{text:?} is not a moment such as 1.5s or \"event 120\""))
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(ts) => f.write_str(&format::duration(*ts)),
            Self::Event(event) => write!(f, "event {event}"),
        }
    }
}

/// The analyses of one device's memory.
struct Analyzed {
    of: OpenMemory,
    signatures: Arc<Signatures>,
    places: Arc<Vec<Place>>,
    /// The same with the callers of a function that allocates for others.
    named: Arc<FoundPlaces>,
    roles: Arc<StackRoles>,
    /// With signatures of its own for the places of leaks, gains and what is neither.
    found: Arc<FoundLeaks>,
    cards: Arc<Vec<OomCard>>,
    growth: Arc<Vec<Growth>>,
    outside: Option<Outside>,
    /// Title of its file, where another file has a memory of the same rank.
    file: Option<Arc<str>>,
}

/// Adds the part `memory`, the parts of flat reports that JSON has inside it, and the findings about memory.
///
/// * `files`: the title of each trace that its rank does not distinguish.
/// * `top`: rows of each list; 0 keeps all.
/// * `moments`: where memory is listed by place besides peak and end; the change is that between the first and the
///   last of two or more, else between start and end.
///
/// Returns each memory in short, as a paragraph.
///
/// Errors: an analysis crashed, as stderr says, or a moment lies outside of all that was recorded.
pub fn add(
    report: &mut Report,
    traces: &[OpenTrace],
    files: &[Option<Arc<str>>],
    answers: &Answers,
    top: usize,
    moments: &[Moment],
) -> Result<Vec<String>, Failure> {
    let memories = traces.iter().zip(files).flat_map(|(open, file)| {
        let of = move |memory| (OpenMemory { open: open.clone(), memory }, file.clone());
        (0..open.trace.memories.len()).map(of)
    });
    let analyzed = |(of, file)| Some(Analyzed { file, ..Analyzed::new(of, traces, answers, top)? });
    let all: Option<Vec<Analyzed>> = memories.map(analyzed).collect();
    let mut all = all.ok_or_else(|| Failure::Usage("The memory could not be analyzed. Please report it".to_owned()))?;
    // What tells most comes first.
    all.sort_by_key(|one| is_trifle(one.of.history()));
    say_moments(&all, moments)?;
    let rows: Vec<DeviceMemory<'_>> = all.iter().map(|one| one.device(top, moments)).collect();
    let growing: Vec<&MemoryGrowth> = rows.iter().filter_map(|row| row.growth.as_ref()).collect();
    let has_more = !all.iter().all(|one| is_trifle(one.of.history()));
    // As the window shows first what holds more, and what holds next to nothing where that is all there is.
    // The host's is not worth a verdict beside the work of devices either.
    let is_beside =
        |one: &Analyzed| is_of_host(one.of.history().device) && Scope::whole(&[one.of.trace()]).has_device_work();
    let is_worth =
        |(row, one): &(&DeviceMemory<'_>, &Analyzed)| !is_trifle(row.history) || !has_more && !is_beside(one);
    let in_short = rows.iter().zip(&all).filter(is_worth).map(|(row, _)| row);
    let in_short = in_short.map(|row| InShort { owner: row.owner(), headline: row.headline.clone() });
    // What did not grow has nothing to explain.
    let shares = rows.iter().zip(&all).filter_map(|(row, one)| {
        let shares = row.reserved_growth.filter(|shares| shares.bytes > 0)?;
        Some(ReservedShares { owner: row.owner(), shares, pins: one.pins(answers, &shares) })
    });
    let outside = rows.iter().filter_map(|row| Some(OutsideMemory { owner: row.owner(), outside: row.outside? }));
    let in_short: Vec<InShort> = in_short.collect();
    let paragraphs = in_short.iter().map(InShort::paragraph).collect();
    report.memory_in_short = memory::in_short().table(in_short, 0);
    report.growth = growth().table(growing, 0);
    report.reserved_shares = reserved_shares().table(shares.collect::<Vec<_>>(), 0);
    report.outside = memory::outside_memory().table(outside.collect::<Vec<_>>(), 0);
    report.categories = memory::categories().table(rows.iter().flat_map(held).collect::<Vec<_>>(), 0);
    report.memory = memory::memory().table(rows, 0);
    let findings = joined(all.iter().flat_map(Analyzed::findings).collect());
    report.findings.extend(findings.into_iter().map(|one| one.finding));
    Ok(paragraphs)
}

/// What memory timelines without blocks hold.
pub fn timeline(open: &[OpenTrace], files: &[Option<Arc<str>>]) -> Table {
    let n_timelines = open.iter().filter(|open| open.trace.info.format == Format::MemoryTimeline).count();
    let named = open.iter().zip(files).map(|(open, file)| (open, file.as_ref().filter(|_| n_timelines > 1)));
    let rows: Vec<_> = named.flat_map(|(open, file)| TimelineCategory::all(&open.trace, file, open.offset)).collect();
    timeline_categories().table(rows, 0)
}

/// Says on stderr which state of each memory is listed for each moment.
///
/// Errors: a moment lies outside of all memories.
fn say_moments(all: &[Analyzed], moments: &[Moment]) -> Result<(), Failure> {
    for &moment in moments {
        let shown: Vec<String> = all.iter().filter_map(|one| one.moment_text(moment)).collect();
        if shown.is_empty() {
            let ranges: Vec<String> = all.iter().map(Analyzed::range_text).collect();
            let ranges = if ranges.is_empty() { "no memory was recorded".to_owned() } else { ranges.join("; ") };
            return Err(Failure::Usage(format!("--memory-at {moment} is outside of the recording: {ranges}")));
        }
        shown.iter().for_each(|line| output::write_stderr(line));
    }
    Ok(())
}

/// The memory of a device by category, the largest first. What nothing was found of may be in what no stack tells.
fn held(row: &DeviceMemory<'_>) -> Vec<Held> {
    let whole = (row.summary.peak_allocated.map(|peak| peak.bytes), row.summary.end_allocated);
    let mut found = row.categories.clone();
    found.retain(|of| whole.0.is_some() && of.peak > 0 || of.end > 0);
    found.sort_by_key(|of| (Reverse(of.peak), Reverse(of.end)));
    found.into_iter().map(|of| Held { owner: row.owner(), of, whole }).collect()
}

impl Analyzed {
    fn new(of: OpenMemory, traces: &[OpenTrace], answers: &Answers, top: usize) -> Option<Self> {
        let signatures = answers.get(&of.open.trace, &StackSignatures { ignores_lines: false })?;
        let places = answers.get(&of.open.trace, &StackPlaces { has_all_frames: false })?;
        let named = answers.get(&of.open.trace, &NamedPlaces)?;
        let roles = answers.get(&of.open.trace, &RolesOfStacks)?;
        let found = answers.get(&of, &LeakSearch::default())?;
        let cards = answers.get(&of, &OomCards(top))?;
        let growth = answers.get(&of, &GrowthOfReserved)?;
        let outside = of.outside(traces);
        Some(Self { of, signatures, places, named, roles, found, cards, growth, outside, file: None })
    }

    fn owner(&self) -> Owner {
        Owner { file: self.file.clone(), rank: self.of.trace().info.rank, device: self.of.history().device }
    }

    fn places(&self) -> Places<'_> {
        Places { trace: self.of.trace(), signatures: &self.signatures, owner: self.owner() }
    }

    /// The places of leaks, gains and what is neither.
    fn places_found(&self) -> Places<'_> {
        Places { signatures: &self.found.signatures, ..self.places() }
    }

    fn device(&self, top: usize, moments: &[Moment]) -> DeviceMemory<'_> {
        let (history, found, places) = (self.of.history(), &self.found.leaks, self.places_found());
        let summary = summary(history);
        let named = |one| Leak::new(one, (*self.found.steps).as_ref());
        let candidates = places.placed(found.candidates.iter().map(|one| (one.signature, named(one))));
        let explained = places.placed(found.explained.iter().map(|one| (one.signature, NoLeak::new(one, &places))));
        let gained = places.gained(&found.gains);
        let cards = self.cards.iter().map(|card| self.out_of_memory(card));
        let mut oom = memory::oom().table(cards, top);
        oom.n_hidden += history.ooms.len() - self.cards.len();
        let named = |&moment: &Moment| Some((Arc::from(moment.to_string()), self.state(moment)?));
        let moments: Vec<(Arc<str>, u32)> = moments.iter().filter_map(named).collect();
        let (trace, steps) = (self.of.trace(), (*self.found.steps).as_ref());
        let holders = by_place::Places { of_stack: &self.named.of_stack, ..self.holders() };
        let most = holders.in_short(history);
        let peak = summary.peak_allocated.map(|peak| peak.state);
        DeviceMemory {
            file: self.file.clone(),
            trace,
            history,
            headline: headline(&places, history, &summary, &most, found, steps, &self.cards),
            device_total: device_total(trace, history),
            // A state has grown from nothing that was recorded.
            reserved_growth: shares(history, &self.growth).filter(|_| !history.is_state_only()),
            categories: categories(trace, history, &self.roles),
            offset_ns: self.of.open.offset,
            growth: MemoryGrowth::new(self.owner(), found, (*self.found.steps).as_ref()),
            found,
            outside: self.outside,
            oom: Arc::new(oom),
            peak_by_stack: self.live(&peak_by_stack(), peak, top),
            live_at_end: self.live(&live_at_end(), Some(history.last_state()), top),
            by_place: self.by_place(holders, peak, &moments, top),
            change_by_place: self.change_by_place(&moments, top),
            leaks: Arc::new(leaks_part().table(candidates, top)),
            no_leaks: Arc::new(no_leaks().table(explained, top)),
            gains: Arc::new(gains().table(gained, top)),
            summary,
        }
    }

    /// The blocks that lay between free memory where most was reserved in spite of it, by stack.
    fn pins(&self, answers: &Answers, shares: &GrowthShares) -> Option<String> {
        let scattered = self.growth.iter().enumerate().filter(|(_, growth)| growth.cause == Cause::Fragmentation);
        let (at, most) = scattered.max_by_key(|(at, growth)| (growth.scattered, Reverse(*at)))?;
        let found = answers.get(&self.of, &GrowthPins(at)).filter(|_| shares.fragmentation > 0)?;
        let (history, blocks) = (self.of.history(), (*found).as_ref()?.blocks.iter().copied());
        let mut groups = groups_of(history, blocks, by_signature(history, &self.signatures));
        groups.truncate(PINS);
        Some(in_the_way(most, &self.places().live(&groups)))
    }

    /// The state at a moment; `None` outside of the recording.
    fn state(&self, moment: Moment) -> Option<u32> {
        let history = self.of.history();
        match moment {
            Moment::At(ts) => {
                let span = history.span.shifted(self.of.open.offset);
                (history.has_time && (span.start..=span.end).contains(&ts)).then(|| self.of.state_at(ts))
            }
            Moment::Event(event) => (event < history.last_state()).then_some(event + 1),
        }
    }

    fn name(&self) -> String {
        let device = self.of.history().device;
        let whose = if is_of_host(device) { "the host".to_owned() } else { device_name(device) };
        format!("{whose} in {}", self.of.trace().info.title())
    }

    /// Which state of this memory a moment is: `Memory of GPU 0 in a.json at 5 s, after event 120: 2.13 GiB allocated`.
    fn moment_text(&self, moment: Moment) -> Option<String> {
        let (history, state) = (self.of.history(), self.state(moment)?);
        let after = match state.checked_sub(1) {
            _ if !history.has_changes() => "the one moment that was recorded".to_owned(),
            Some(event) => format!("after event {event}"),
            None => "before the first event".to_owned(),
        };
        let allocated = history.curves.allocated.get(state as usize).copied().unwrap_or_default();
        let allocated = format::bytes(allocated as f64);
        Some(format!("Memory of {} at {moment}, {after}: {allocated} allocated", self.name()))
    }

    /// The moments that its recording has.
    fn range_text(&self) -> String {
        let history = self.of.history();
        let span = history.span.shifted(self.of.open.offset);
        let events = match history.last_state().checked_sub(1) {
            Some(last) => format!("event 0 to event {last}"),
            None => "no events".to_owned(),
        };
        let [start, end] = [span.start, span.end].map(format::duration);
        let times = if history.has_time { format!("{start} to {end}, ") } else { String::new() };
        format!("{} has {times}{events}", self.name())
    }

    fn holders(&self) -> by_place::Places<'_> {
        by_place::Places { trace: self.of.trace(), of_stack: &self.places }
    }

    /// At the peak if one is known, at each moment, and at the end.
    fn by_place(
        &self,
        places: by_place::Places<'_>,
        peak: Option<u32>,
        moments: &[(Arc<str>, u32)],
        top: usize,
    ) -> Arc<Table> {
        let history = self.of.history();
        let moments = moments.iter().map(|(name, state)| (AT_MOMENT, Some(name), *state));
        let states = peak.map(|peak| (AT_PEAK, None, peak)).into_iter().chain(moments).chain([(
            AT_END,
            None,
            history.last_state(),
        )]);
        let rows: Vec<HolderRow<'_>> = states
            .flat_map(|(at, moment, state)| {
                let row = move |holder| {
                    let (owner, moment) = (self.owner(), moment.cloned());
                    HolderRow { owner, at: Some(at), moment, ..HolderRow::new(places, holder) }
                };
                first(places.held(history, state), top).into_iter().map(row)
            })
            .collect();
        Arc::new(named_by_rows(memory::by_place(), &rows).table(rows, 0))
    }

    fn change_by_place(&self, moments: &[(Arc<str>, u32)], top: usize) -> Arc<Table> {
        let history = self.of.history();
        let ((from_name, from), (to_name, to)) = match moments {
            [from, .., to] => (from.clone(), to.clone()),
            _ => (("start".into(), 0), ("end".into(), history.last_state())),
        };
        let between = Some([from_name, to_name]);
        let at = |state| At { places: self.holders(), history, state };
        let changes = by_place::changes(at(from), at(to));
        let rows = HolderRow::of_changes(&changes, top).into_iter();
        let rows = rows.map(|row| HolderRow { owner: self.owner(), between: between.clone(), ..row });
        let rows: Vec<HolderRow<'_>> = rows.collect();
        Arc::new(named_by_rows(change_by_place(), &rows).table(rows, 0))
    }

    /// * `state`: no rows without one.
    fn live(&self, part: &Part<AtPlace<live::LiveGroup>>, state: Option<u32>, top: usize) -> Arc<Table> {
        let by_signature = live::by_signature(self.of.history(), &self.signatures);
        let groups = |state| live::groups(self.of.history(), state, LiveUntil::Allocated, &by_signature);
        let mut groups = state.map(groups).unwrap_or_default();
        sort_first(&mut groups, top, |group| group.frames(self.of.trace(), &self.signatures));
        let n = if top == 0 { groups.len() } else { top.min(groups.len()) };
        let mut table = part.table(self.places().live(&groups[..n]), 0);
        table.n_hidden = groups.len() - n;
        Arc::new(table)
    }

    fn out_of_memory<'b>(&self, card: &'b OomCard) -> OutOfMemory<'b> {
        let mut by_stack = live_at_end().table(self.places().live(&card.stacks), 0);
        by_stack.n_hidden = card.n_stacks - card.stacks.len();
        OutOfMemory { owner: self.owner(), card, offset_ns: self.of.open.offset, by_stack: Arc::new(by_stack) }
    }

    fn findings(&self) -> Vec<Found<'_>> {
        let answers = MemoryAnswers {
            of: &self.of,
            signatures: &self.signatures,
            leak_signatures: &self.found.signatures,
            leaks: &self.found.leaks,
            steps: (*self.found.steps).as_ref(),
            cards: &self.cards,
            outside: self.outside.as_ref(),
        };
        let mut found = answers.findings();
        if let Some(file) = &self.file {
            found.iter_mut().for_each(|one| one.finding.text = format!("{file}: {}", one.finding.text));
        }
        found
    }
}
