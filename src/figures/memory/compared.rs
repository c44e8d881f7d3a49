//! Memory beside that of another recording: amounts, categories, places and call stacks.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{
    AT_END, AT_PEAK, Changed, END_ALLOCATED, END_RESERVED, HolderRow, MemoryComparison, MostChanged, Owner,
    PEAK_ALLOCATED, PEAK_RESERVED, compared_amounts, compared_categories, compared_places, compared_stacks,
    growth_sentence, named_by_rows, tell_apart,
};
use crate::analysis::memory::by_place::{self, At, Change, Place, Places};
use crate::analysis::memory::callers::with_callers;
use crate::analysis::memory::categories::{CategoryBytes, StackRoles, categories};
use crate::analysis::memory::grouped::{GroupBy, LiveScope, StackChange, moved_lines, stack_changes};
use crate::analysis::memory::leaks::Leaks;
use crate::analysis::memory::live::LiveUntil;
use crate::analysis::memory::steps::Steps;
use crate::analysis::memory::summary::{Summary, fullest_state, summary};
use crate::figures::{Stack, Table, Word};
use crate::model::{MemoryHistory, Trace};

/// A memory, with what its call stacks say.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    pub trace: &'a Trace,
    pub history: &'a MemoryHistory,
    pub roles: &'a StackRoles,
    /// The places of the user's frames, as [`by_place::stack_places`] returns them.
    pub of_stack: &'a [Place],
    /// What grows from step to step, and the steps, if there are any.
    pub leaks: &'a Leaks,
    pub steps: Option<&'a Steps>,
}

/// A memory with what it is compared with.
struct Pair<'a> {
    base: Compared<'a>,
    of: Compared<'a>,
    owner: Owner,
    title: Arc<str>,
    /// Of the base, then of the memory.
    summaries: [Summary; 2],
}

/// A memory beside another one, at the peak of each and at the end.
///
/// * `owner`: whose the memory is.
/// * `top`: rows of each list; 0 keeps all.
///
/// Cost: O(blocks + stacks, with their frames) of both.
pub fn compared_memory(base: Compared<'_>, of: Compared<'_>, owner: Owner, top: usize) -> MemoryComparison {
    let title = base.trace.info.title().into();
    let summaries = [base, of].map(|side| summary(side.history));
    let pair = Pair { base, of, owner, title, summaries };
    let amounts = pair.amounts();
    let (by_place, most) = pair.by_place(top);
    MemoryComparison {
        owner: pair.owner.clone(),
        base: Arc::clone(&pair.title),
        text: MemoryComparison::text(&pair.owner, &pair.title, &amounts, most) + &pair.growth(),
        moments: pair.moments(),
        amounts: Arc::new(pair.table_of(&amounts)),
        by_category: Arc::new(pair.by_category()),
        by_place: Arc::new(by_place),
        by_stack: Arc::new(pair.by_stack(top)),
    }
}

/// * `called`: the places with callers, if they are to be listed so.
fn at_state<'a>(
    (places, history): (Places<'a>, &'a MemoryHistory),
    called: Option<&'a Vec<Place>>,
    state: u32,
) -> At<'a> {
    At { places: Places { of_stack: called.map_or(places.of_stack, Vec::as_slice), ..places }, history, state }
}

impl Pair<'_> {
    fn histories(&self) -> [&MemoryHistory; 2] {
        [self.base.history, self.of.history]
    }

    /// The states that are compared: at the peak of each where both have one, and at the end.
    fn moments(&self) -> Vec<(&'static Word, [u32; 2])> {
        let ends = self.histories().map(MemoryHistory::last_state);
        let [base, of] = &self.summaries;
        let peaks = base.peak_allocated.zip(of.peak_allocated).map(|(base, of)| (AT_PEAK, [base.state, of.state]));
        peaks.into_iter().chain([(AT_END, ends)]).collect()
    }

    fn changed<T>(&self, of: T, [before, after]: [u64; 2]) -> Changed<T> {
        Changed { owner: self.owner.clone(), base: Arc::clone(&self.title), of, before, after }
    }

    /// How each grows from step to step, as sentences of their own.
    fn growth(&self) -> String {
        let growth =
            |side: Compared<'_>| side.steps.map(|steps| growth_sentence(side.leaks, steps)).unwrap_or_default();
        match [self.base, self.of].map(growth) {
            [before, after] if before == after && after.is_empty() => String::new(),
            [before, after] if before == after => format!(". In both: {after}"),
            both => {
                let [before, after] = both.map(|side| match side.is_empty() {
                    true => "No steps tell whether memory grows".to_owned(),
                    false => side,
                });
                format!(". There: {before}. Here: {after}")
            }
        }
    }

    /// What both know, of the base and of the memory.
    fn amounts(&self) -> Vec<(&'static Word, [u64; 2])> {
        let [base, of] = &self.summaries;
        let both = |bytes: fn(&Summary) -> Option<u64>| Some([bytes(base)?, bytes(of)?]);
        // Only a file that records segments says what was reserved.
        let has_reserved = self.histories().iter().all(|history| history.has_reserved);
        let all = [
            (PEAK_ALLOCATED, true, both(|summary| Some(summary.peak_allocated?.bytes))),
            (PEAK_RESERVED, has_reserved, both(|summary| Some(summary.peak_reserved?.bytes))),
            (END_ALLOCATED, true, both(|summary| Some(summary.end_allocated))),
            (END_RESERVED, has_reserved, both(|summary| Some(summary.end_reserved))),
        ];
        let known = all.into_iter().filter(|row| row.1);
        known.filter_map(|(amount, _, bytes)| Some((amount, bytes?))).collect()
    }

    fn table_of(&self, amounts: &[(&'static Word, [u64; 2])]) -> Table {
        let rows = amounts.iter().map(|&(amount, bytes)| self.changed(amount, bytes));
        compared_amounts().table(rows.collect::<Vec<_>>(), 0)
    }

    /// Without rows where no block of either has a category.
    fn by_category(&self) -> Table {
        let [before, after] = [self.base, self.of].map(|side| categories(side.trace, side.history, side.roles));
        let mut rows = Vec::new();
        for (at, _) in self.moments() {
            let bytes = |one: &CategoryBytes| if at == AT_PEAK { one.peak } else { one.end };
            let both = before.iter().zip(&after).map(|(before, after)| (after.category, [before, after].map(bytes)));
            let mut both: Vec<_> = both.filter(|(_, bytes)| *bytes != [0, 0]).collect();
            both.sort_by_key(|&(_, [before, after])| Reverse(after.abs_diff(before)));
            rows.extend(both.into_iter().map(|(category, bytes)| self.changed((at, category), bytes)));
        }
        compared_categories().table(rows, 0)
    }

    /// The table, and of its first moment the place that changed most, with that change in bytes.
    fn by_place(&self, top: usize) -> (Table, Option<MostChanged>) {
        let [base, of] =
            [self.base, self.of].map(|side| (Places { trace: side.trace, of_stack: side.of_stack }, side.history));
        // With callers where both are listed with them alone.
        let [called_before, called_after] =
            [base, of].map(|(places, history)| with_callers(&places, history, fullest_state(history)));
        let both = called_before.zip(called_after);
        let [called_before, called_after] =
            both.as_ref().map_or([None; 2], |(before, after)| [Some(before), Some(after)]);
        let mut most = None;
        let lists = self.moments().into_iter().map(|(at, [before, after])| {
            let changes = by_place::changes(at_state(base, called_before, before), at_state(of, called_after, after));
            let named = |one: &Change<'_>| (at, one.name().into_owned(), one.holder.change());
            most = most.take().or_else(|| changes.first().map(named));
            let rows = HolderRow::of_changes(&changes, top).into_iter();
            let rows = rows.map(|row| HolderRow { owner: self.owner.clone(), at: Some(at), ..row });
            let rows: Vec<HolderRow<'_>> = rows.collect();
            named_by_rows(compared_places(), &rows).table(rows, 0)
        });
        let table = compared_places().joined(&lists.collect::<Vec<_>>());
        (table, most)
    }

    fn by_stack(&self, top: usize) -> Table {
        let [base, of] = [self.base, self.of].map(|memory| LiveScope {
            trace: memory.trace,
            history: memory.history,
            until: LiveUntil::Allocated,
            by: GroupBy::Nothing,
            steps: None,
            has_all_frames: false,
        });
        let moved = moved_lines(self.base.trace, self.of.trace);
        let lists = self.moments().into_iter().map(|(at, states)| {
            let [before, after] = [base.flame(states[0]), of.flame(states[1])];
            let changes = stack_changes(&before, &after, &moved);
            let frames = |one: &StackChange<'_>| one.frames.iter().map(|&frame| frame.to_owned()).collect();
            let mut stacks: Vec<Stack> = changes.iter().map(|one| Stack::new(frames(one))).collect();
            tell_apart(&mut stacks);
            let row =
                |(one, stack): (&StackChange<'_>, Stack)| self.changed((at, Arc::new(stack)), [one.before, one.after]);
            compared_stacks().table(changes.iter().zip(stacks).map(row).collect::<Vec<_>>(), top)
        });
        compared_stacks().joined(&lists.collect::<Vec<_>>())
    }
}
