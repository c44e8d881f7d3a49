//! Allocated memory by the place in the program that allocated it.

mod callees;
mod changes;
mod in_short;

use std::borrow::Cow;

use hashbrown::HashMap;

use super::labels::FrameRank;
use super::live::{LiveUntil, live};
use crate::analysis::frame::Frame;
use crate::analysis::stacks::{BEFORE, LEFT_OUT, NO_STACK};
use crate::model::memory::AllocationId;
use crate::model::{MemoryHistory, StringId, Trace};
pub use callees::place_name;
use callees::{callees, without_number};
pub use changes::{At, Change, changes};
pub use in_short::{Awaiting, Holders};

/// Where memory was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A frame of the call stack, or the operator that stands for a missing one.
    Frame(StringId),
    /// A frame that allocates for others, and the caller of it that it does so for.
    Called(StringId, StringId),
    /// A frame that says no line, and the module or operator that it called.
    Calls(StringId, StringId),
    /// The recorded category, where no stack was recorded.
    Category(StringId),
    /// The stack has frames of the interpreter and of the allocator only.
    Unnamed,
    /// Allocated before the recording, without a stack.
    Before,
    NoStack,
    /// All places that are not listed, by their number.
    Others(u64),
}

impl Place {
    /// The frames that name it.
    fn frames(self) -> [Option<StringId>; 2] {
        match self {
            Self::Frame(frame) => [Some(frame), None],
            Self::Called(frame, other) | Self::Calls(frame, other) => [Some(frame), Some(other)],
            _ => [None; 2],
        }
    }
}

/// Whose code a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    User,
    Library,
    Unknown,
}

/// Amount of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub bytes: u64,
    pub blocks: u64,
}

/// The memory of one place, in one state or in two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holder {
    pub place: Place,
    pub held: Held,
    /// In the state that is compared with; nothing if one state is listed.
    pub base: Held,
    /// In one state its share of all bytes. Of a change its share of all that was gained by places with more, or of
    /// all that was lost by places with less.
    pub share: f64,
}

impl Holder {
    fn new(place: Place) -> Self {
        Self { place, held: Held::default(), base: Held::default(), share: 0.0 }
    }

    /// Bytes gained since the base.
    pub fn change(&self) -> i64 {
        self.held.bytes.cast_signed().wrapping_sub(self.base.bytes.cast_signed())
    }

    /// Blocks gained since the base.
    pub fn blocks_change(&self) -> i64 {
        self.held.blocks.cast_signed().wrapping_sub(self.base.blocks.cast_signed())
    }

    fn add(&mut self, other: &Self) {
        for (sum, part) in [(&mut self.held, &other.held), (&mut self.base, &other.base)] {
            sum.bytes += part.bytes;
            sum.blocks += part.blocks;
        }
        self.share += other.share;
    }
}

/// The place that holds the most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Largest {
    /// What it is called in full.
    pub name: String,
    pub bytes: u64,
}

/// The place of each stack of a trace.
///
/// * `labels`: as [`super::labels::stack_labels`] returns them: a frame of the user's code if there is any, else of a
///   library. Without them the innermost frame is the place, whatever it is. Of a function that says no line, as the
///   profiler names it, what it called tells more.
///
/// Cost: O(stacks + length of distinct frames).
pub fn stack_places(trace: &Trace, labels: Option<&[StringId]>) -> Vec<Place> {
    let frames = labels.unwrap_or(&trace.stacks.frame);
    let mut known: HashMap<StringId, Place> = HashMap::new();
    let mut place = |&frame: &StringId| {
        *known.entry(frame).or_insert_with(|| {
            let is_named = || FrameRank::of(trace.strings.get(frame)) > FrameRank::Allocator;
            if labels.is_none() || is_named() { Place::Frame(frame) } else { Place::Unnamed }
        })
    };
    let of_stack = frames.iter().map(|frame| if *frame == StringId::EMPTY { Place::NoStack } else { place(frame) });
    let of_stack = of_stack.collect();
    if labels.is_some() { with_callees(trace, frames, of_stack) } else { of_stack }
}

fn with_callees(trace: &Trace, labels: &[StringId], of_stack: Vec<Place>) -> Vec<Place> {
    let called = callees(trace, labels).into_iter().zip(of_stack);
    let with_callee = |(callee, place)| match place {
        Place::Frame(frame) if callee != StringId::EMPTY => Place::Calls(frame, callee),
        _ => place,
    };
    called.map(with_callee).collect()
}

/// The places of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub trace: &'a Trace,
    /// From [`stack_places`].
    pub of_stack: &'a [Place],
}

impl<'a> Places<'a> {
    /// Where a block was allocated.
    pub fn of(&self, history: &MemoryHistory, id: AllocationId) -> Place {
        let all = &history.allocations;
        let place = self.of_stack.get(all.stack[id.idx()].0 as usize).copied().unwrap_or(Place::NoStack);
        match (place, all.category(id)) {
            (Place::NoStack, StringId::EMPTY) if !all.was_recorded(id) => Place::Before,
            (Place::NoStack, category) if category != StringId::EMPTY => Place::Category(category),
            _ => place,
        }
    }

    /// What a place is called in full: `allocate (/me/pool.py:9); from init (/me/opt.py:7)`.
    pub fn full_name(&self, place: Place) -> Cow<'a, str> {
        match self.beside(place) {
            beside if beside.is_empty() => self.name(place).into(),
            beside => Cow::from(self.name(place).to_owned() + &beside),
        }
    }

    /// What a place is called where room is short: of a function that says no line what it called.
    pub fn short_name(&self, place: Place) -> &'a str {
        match (place, self.other(place)) {
            (Place::Calls(..), Some(callee)) => callee,
            _ => self.name(place),
        }
    }

    /// What a place is called, without what stands beside that.
    pub fn name(&self, place: Place) -> &'a str {
        match place {
            Place::Frame(name) | Place::Called(name, _) | Place::Calls(name, _) | Place::Category(name) => {
                self.trace.strings.get(name)
            }
            Place::Unnamed => LEFT_OUT,
            Place::Before => BEFORE,
            Place::NoStack => NO_STACK,
            Place::Others(_) => "(all other places)",
        }
    }

    /// The caller that a place allocates for, or what it called.
    fn other(&self, place: Place) -> Option<&'a str> {
        place.frames()[1].map(|other| without_number(self.trace.strings.get(other)))
    }

    /// What follows the name of a place.
    fn beside(&self, place: Place) -> String {
        match (place, self.other(place)) {
            (Place::Called(..), Some(caller)) => format!("; from {caller}"),
            (Place::Calls(..), Some(callee)) => format!("; via {callee}"),
            (Place::Others(n), _) => format!(" ({n})"),
            _ => String::new(),
        }
    }

    /// Whose code a place is.
    pub fn owner(&self, place: Place) -> Owner {
        match place {
            Place::Frame(frame) | Place::Called(frame, _) | Place::Calls(frame, _) => {
                let is_user = Frame::of(self.trace.strings.get(frame)).is_user();
                if is_user { Owner::User } else { Owner::Library }
            }
            _ => Owner::Unknown,
        }
    }

    /// What is allocated in a state by place: most bytes first, then by name. The bytes sum to
    /// [`crate::model::memory::Curves::allocated`], the blocks to those that are live, the shares to 1.
    ///
    /// Cost: O(blocks allocated so far + places · log places).
    pub fn held(&self, history: &MemoryHistory, state: u32) -> Vec<Holder> {
        let held = |(place, held)| Holder { held, ..Holder::new(place) };
        let mut found: Vec<Holder> = self.sums(history, state).into_iter().map(held).collect();
        let total: u64 = found.iter().map(|holder| holder.held.bytes).sum();
        found.iter_mut().for_each(|holder| holder.share = holder.held.bytes as f64 / total.max(1) as f64);
        found.sort_unstable_by(|a, b| b.held.bytes.cmp(&a.held.bytes).then_with(|| self.order(a, b)));
        found
    }

    /// The first of [`Self::held`]; `None` if nothing is allocated.
    pub fn largest(&self, history: &MemoryHistory, state: u32) -> Option<Largest> {
        let first = *self.held(history, state).first()?;
        Some(Largest { name: self.full_name(first.place).into_owned(), bytes: first.held.bytes })
    }

    fn order(&self, a: &Holder, b: &Holder) -> std::cmp::Ordering {
        self.name(a.place).cmp(self.name(b.place)).then(a.place.cmp(&b.place))
    }

    /// What each place has in a state, in no order.
    fn sums(&self, history: &MemoryHistory, state: u32) -> Vec<(Place, Held)> {
        let mut found: HashMap<Place, Held> = HashMap::new();
        for id in live(history, state, LiveUntil::Allocated) {
            let held = found.entry(self.of(history, id)).or_default();
            held.bytes += history.allocations.bytes[id.idx()];
            held.blocks += 1;
        }
        found.into_iter().collect()
    }
}

/// The first `top` holders, and one for all others, so that the sums stay the same; 0 keeps all.
pub fn first(mut holders: Vec<Holder>, top: usize) -> Vec<Holder> {
    if top == 0 || holders.len() <= top {
        return holders;
    }
    let others = holders.split_off(top);
    let place = Place::Others(others.len() as u64);
    let mut rest = Holder::new(place);
    others.iter().for_each(|other| rest.add(other));
    holders.push(rest);
    holders
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::super::labels::stack_labels;
    use super::*;
    use crate::model::StackId;
    use crate::model::memory::MemoryAction;

    const MALLOC: &str = "c10::cuda::CUDACachingAllocator::malloc(void**) (CUDACachingAllocator.cpp:0)";
    const LINEAR: &str = "forward (/x/site-packages/torch/nn/modules/linear.py:1)";

    /// Blocks of two lines of the user, of a library, of the allocator alone, without a stack, and from before.
    fn trace() -> Trace {
        let mut script = Script::default();
        let a = script.stack(&[MALLOC, LINEAR, "step (/me/train.py:9)"]);
        let b = script.stack(&[MALLOC, "at::native::mm()", "load (/me/train.py:4)"]);
        let library = script.stack(&[MALLOC, LINEAR, "_PyEval_EvalFrameDefault"]);
        let allocator = script.stack(&["torch::unwind::unwind()", MALLOC, "_start"]);
        script.alloc(0x1000, 1024, a);
        script.alloc(0x2000, 512, b);
        script.alloc(0x3000, 4096, library);
        script.alloc(0x4000, 2048, allocator);
        script.alloc(0x5000, 512, StackId(0));
        script.event(MemoryAction::FreeRequested, 0x9000, 8192, StackId(0));
        script.free(0x2000, 512);
        script.event(MemoryAction::FreeRequested, 0x3000, 4096, StackId(0));
        script.alloc(0x6000, 1024, a);
        script.finish()
    }

    #[test]
    fn bytes_blocks_and_shares_sum_to_the_whole_in_every_state() {
        let trace = trace();
        let (history, labels) = (history(&trace), stack_labels(&trace));
        for labels in [None, Some(&labels[..])] {
            let of_stack = stack_places(&trace, labels);
            let places = Places { trace: &trace, of_stack: &of_stack };
            for state in 0..history.n_states() {
                for top in 0..4 {
                    let all = first(places.held(history, state), top);
                    assert!(top == 0 || all.len() <= top + 1);
                    let bytes = all.iter().map(|holder| holder.held.bytes).sum::<u64>();
                    assert_eq!(bytes, history.curves.allocated[state as usize]);
                    let blocks = all.iter().map(|holder| holder.held.blocks).sum::<u64>();
                    assert_eq!(blocks, live(history, state, LiveUntil::Allocated).count() as u64);
                    let share = all.iter().map(|holder| holder.share).sum::<f64>();
                    assert!((share - f64::from(u8::from(bytes > 0))).abs() < 1e-12, "{share}");
                }
                for from in 0..history.n_states() {
                    let at = |state| At { places, history, state };
                    let all: Vec<Holder> = changes(at(from), at(state)).into_iter().map(|one| one.holder).collect();
                    let curve = &history.curves.allocated;
                    let expected = curve[state as usize] as i64 - curve[from as usize] as i64;
                    for top in 0..3 {
                        let listed = first(all.clone(), top);
                        assert_eq!(listed.iter().map(Holder::change).sum::<i64>(), expected);
                    }
                    for sign in [1, -1] {
                        let of_sign = || all.iter().filter(|holder| holder.change().signum() == sign);
                        let share = of_sign().map(|holder| holder.share).sum::<f64>();
                        assert!((share - f64::from(u8::from(of_sign().next().is_some()))).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn the_users_line_stands_for_a_stack_and_the_allocator_never() {
        let trace = trace();
        let (history, labels) = (history(&trace), stack_labels(&trace));
        let listed = |labels, state| {
            let of_stack = stack_places(&trace, labels);
            let places = Places { trace: &trace, of_stack: &of_stack };
            let held = places.held(history, state).into_iter();
            held.map(|holder| (places.name(holder.place).to_owned(), holder.held.bytes)).collect::<Vec<_>>()
        };
        let named =
            |list: &[(&str, u64)]| list.iter().map(|&(name, bytes)| (name.to_owned(), bytes)).collect::<Vec<_>>();
        let expected = named(&[
            ("(before the recording)", 8192),
            (LINEAR, 4096),
            ("(interpreter and allocator only)", 2048),
            ("step (/me/train.py:9)", 1024),
            ("(no call stack)", 512),
            ("load (/me/train.py:4)", 512),
        ]);
        assert_eq!(listed(Some(&labels), 5), expected);
        let of_stack = stack_places(&trace, Some(&labels));
        let largest = Places { trace: &trace, of_stack: &of_stack }.largest(history, 5);
        assert_eq!(largest, Some(Largest { name: expected[0].0.clone(), bytes: 8192 }), "that of the list");
        // Whoever asks for all frames gets the innermost one.
        let all = listed(None, 5);
        assert_eq!(all[..2], named(&[("(before the recording)", 8192), (MALLOC, 5632)])[..]);
        let of_stack = stack_places(&trace, Some(&labels));
        let places = Places { trace: &trace, of_stack: &of_stack };
        let owners: Vec<Owner> = places.held(history, 5).iter().map(|holder| places.owner(holder.place)).collect();
        let [unknown, library, user] = [Owner::Unknown, Owner::Library, Owner::User];
        assert_eq!(owners, [unknown, library, unknown, user, unknown, user]);
        let at = |state| At { places, history, state };
        let changes = changes(at(5), at(9));
        let of: Vec<_> =
            changes.iter().map(|one| (one.name(), one.holder.change(), one.holder.blocks_change())).collect();
        let expected = [
            ("(before the recording)", -8192, -1),
            (LINEAR, -4096, -1),
            ("step (/me/train.py:9)", 1024, 1),
            ("load (/me/train.py:4)", -512, -1),
        ];
        assert_eq!(of, expected.map(|(name, change, blocks)| (name.into(), change, blocks)));
    }
}
