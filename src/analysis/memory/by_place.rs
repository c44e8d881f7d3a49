//! Allocated memory by the place in the program that allocated it.

use std::cmp::Reverse;

use hashbrown::HashMap;

use super::labels::FrameRank;
use super::live::{LiveUntil, live};
use crate::analysis::frame::Frame;
use crate::analysis::stacks::{BEFORE, LEFT_OUT, NO_STACK};
use crate::model::memory::AllocationId;
use crate::model::{MemoryHistory, StringId, Trace};

/// Where memory was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A frame of the call stack, or the operator that stands for a missing one.
    Frame(StringId),
    /// A frame that allocates for others, and the caller of it that it does so for.
    Called(StringId, StringId),
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

/// The function that holds the most memory, or a place that is no function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Largest {
    /// Its name; of a function that of the line that holds the most.
    pub place: String,
    /// For whom it allocates, where it does so for several callers.
    pub caller: Option<String>,
    /// Lines of a function, that which holds the most first.
    pub lines: Vec<u64>,
    pub bytes: u64,
}

/// The place of each stack of a trace.
///
/// * `labels`: as [`super::labels::stack_labels`] returns them: a frame of the user's code if there is any, else of a
///   library. Without them the innermost frame is the place, whatever it is.
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
    of_stack.collect()
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

    /// What a place is called; one with a caller without that.
    pub fn name(&self, place: Place) -> &'a str {
        match place {
            Place::Frame(frame) | Place::Called(frame, _) | Place::Category(frame) => self.trace.strings.get(frame),
            Place::Unnamed => LEFT_OUT,
            Place::Before => BEFORE,
            Place::NoStack => NO_STACK,
            Place::Others(_) => "(all other places)",
        }
    }

    /// The caller that a place allocates for, of one with a caller.
    pub fn caller(&self, place: Place) -> Option<&'a str> {
        match place {
            Place::Called(_, caller) => Some(self.trace.strings.get(caller)),
            _ => None,
        }
    }

    /// Whose code a place is.
    pub fn owner(&self, place: Place) -> Owner {
        match place {
            Place::Frame(frame) | Place::Called(frame, _) if Frame::of(self.trace.strings.get(frame)).is_user() => {
                Owner::User
            }
            Place::Frame(_) | Place::Called(..) => Owner::Library,
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

    /// The function that holds the most in a state, with its lines; else the place that does so, of one that allocates
    /// for several callers with the caller. `None` if nothing is allocated.
    ///
    /// Cost: that of [`Self::held`].
    pub fn largest(&self, history: &MemoryHistory, state: u32) -> Option<Largest> {
        let mut index = HashMap::new();
        let mut found: Vec<Largest> = Vec::new();
        for holder in self.held(history, state) {
            let name = self.name(holder.place);
            let frame = Frame::of(name);
            let caller = self.caller(holder.place);
            let is_function = caller.is_none() && is_one_function(name, &frame);
            let key = if is_function { (frame.function, frame.file) } else { (name, caller.unwrap_or_default()) };
            let at = *index.entry(key).or_insert(found.len());
            if at == found.len() {
                let caller = caller.map(ToOwned::to_owned);
                found.push(Largest { place: name.to_owned(), caller, lines: Vec::new(), bytes: 0 });
            }
            found[at].bytes += holder.held.bytes;
            if is_function && !found[at].lines.contains(&frame.line) {
                found[at].lines.push(frame.line);
            }
        }
        // `max_by_key` takes the last of equal ones.
        found.into_iter().rev().max_by_key(|one| one.bytes)
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

/// A state of a history, with its places.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub places: Places<'a>,
    pub history: &'a MemoryHistory,
    pub state: u32,
}

/// What each place has more or less of at one moment than at another: the largest change first, each with the places
/// that name it. The moments may be of two recordings; places of one name are one. The changes sum to that of allocated
/// bytes, the shares of gains to 1, and those of losses. Places that are the same in both are left out.
///
/// Cost: twice that of [`Places::held`].
pub fn changes<'a>(from: At<'a>, to: At<'a>) -> Vec<(Places<'a>, Holder)> {
    let mut index = HashMap::new();
    let mut found: Vec<(Places<'a>, Holder)> = Vec::new();
    for (is_base, At { places, history, state }) in [(false, to), (true, from)] {
        for (place, held) in places.sums(history, state) {
            let key = (std::mem::discriminant(&place), places.name(place), places.caller(place));
            let at = *index.entry(key).or_insert(found.len());
            if at == found.len() {
                found.push((places, Holder::new(place)));
            }
            let holder = &mut found[at].1;
            *(if is_base { &mut holder.base } else { &mut holder.held }) = held;
        }
    }
    found.retain(|(_, holder)| holder.held != holder.base);
    let total = |is_gain: bool| {
        let changes = found.iter().map(|(_, holder)| holder.change()).filter(|&change| (change > 0) == is_gain);
        changes.map(i64::unsigned_abs).sum::<u64>().max(1) as f64
    };
    let (gained, lost) = (total(true), total(false));
    for (_, holder) in &mut found {
        let change = holder.change();
        holder.share = change.unsigned_abs() as f64 / if change > 0 { gained } else { lost };
    }
    let order = |(places, holder): &(Places<'a>, Holder)| {
        (Reverse((holder.change().unsigned_abs(), holder.change())), places.name(holder.place))
    };
    found.sort_unstable_by(|a, b| order(a).cmp(&order(b)).then(a.1.place.cmp(&b.1.place)));
    found
}

/// Whether lines under this name are of one function. The top level of a file is none, several classes of a file have
/// methods such as `forward`, and the line in a name of Kineto's is that at which its function begins.
fn is_one_function(name: &str, frame: &Frame<'_>) -> bool {
    let is_of_many = frame.function == "forward" || frame.function.starts_with('<') || frame.function.starts_with("__");
    frame.is_python() && frame.line > 0 && name.starts_with(frame.function) && !is_of_many
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
    fn changes_of_one_place_for_several_callers_stay_apart() {
        let mut script = Script::default();
        let frames = ["new (/me/pool.py:1)", "load (/me/a.py:2)", "save (/me/b.py:3)"];
        for (addr, bytes, caller) in [(0x1000, 1024, 1), (0x2000, 512, 2)] {
            let stack = script.stack(&[frames[0], frames[caller]]);
            script.alloc(addr, bytes, stack);
        }
        let trace = script.finish();
        let place = |stack: usize| match trace.stacks.frames(StackId(stack as u32)).collect::<Vec<_>>()[..] {
            [frame, caller] => Place::Called(frame, caller),
            _ => Place::NoStack,
        };
        let of_stack: Vec<Place> = (0..trace.stacks.len()).map(place).collect();
        let history = history(&trace);
        let places = Places { trace: &trace, of_stack: &of_stack };
        let at = |state| At { places, history, state };
        let all = changes(at(0), at(history.last_state()));
        let all: Vec<_> = all.iter().map(|(of, one)| (of.caller(one.place), one.change())).collect();
        assert_eq!(all, [(Some(frames[1]), 1024), (Some(frames[2]), 512)]);
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
                    let all: Vec<Holder> = changes(at(from), at(state)).into_iter().map(|one| one.1).collect();
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
    fn lines_of_one_function_hold_together() {
        let mut script = Script::default();
        let held = [
            ("reset (/me/a.py:176)", 4096),
            ("update (/me/b.py:265)", 2048),
            ("update (/me/b.py:268)", 2560),
            ("update (/me/c.py:9)", 1024),
            // Methods of several classes.
            ("forward (/me/b.py:1)", 3072),
            ("forward (/me/b.py:2)", 3072),
            ("<module> (/me/b.py:3)", 3584),
            ("<module> (/me/b.py:4)", 3584),
        ];
        for (k, (frame, bytes)) in held.into_iter().enumerate() {
            let stack = script.stack(&[frame]);
            script.alloc((k as u64) << 20, bytes, stack);
        }
        let trace = script.finish();
        let of_stack = stack_places(&trace, Some(&stack_labels(&trace)));
        let places = Places { trace: &trace, of_stack: &of_stack };
        let largest = |state| places.largest(history(&trace), state);
        let update =
            Largest { place: "update (/me/b.py:268)".into(), caller: None, lines: vec![268, 265], bytes: 4608 };
        assert_eq!(largest(8), Some(update));
        assert_eq!(
            largest(2),
            Some(Largest { place: "reset (/me/a.py:176)".into(), caller: None, lines: vec![176], bytes: 4096 })
        );
        assert_eq!(largest(0), None);
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
            changes.iter().map(|(_, one)| (places.name(one.place), one.change(), one.blocks_change())).collect();
        let before = ("(before the recording)", -8192, -1);
        assert_eq!(
            of,
            [before, (LINEAR, -4096, -1), ("step (/me/train.py:9)", 1024, 1), ("load (/me/train.py:4)", -512, -1)]
        );
    }

    #[test]
    fn places_of_two_recordings_are_one_where_their_names_are() {
        // Other strings come first, so that the ids of two recordings differ.
        let of = |others: &[&str], held: &[(&str, u64)]| {
            let mut script = Script::default();
            others.iter().for_each(|other| _ = script.stack(&[other]));
            for (i, &(frame, bytes)) in held.iter().enumerate() {
                let stack = script.stack(&[frame]);
                script.alloc((i as u64) << 20, bytes, stack);
            }
            script.finish()
        };
        let [step, load, cache] = ["step (/me/a.py:9)", "load (/me/a.py:4)", "cache (/me/a.py:7)"];
        let before = of(&[], &[(step, 1024), (load, 4096)]);
        let after = of(&["x (/me/x.py:1)", "y (/me/y.py:1)"], &[(cache, 2048), (step, 1024), (step, 512)]);
        let [before_of, after_of] = [&before, &after].map(|trace| stack_places(trace, Some(&stack_labels(trace))));
        let at = |trace, of_stack, state| At { places: Places { trace, of_stack }, history: history(trace), state };
        let found = changes(at(&before, &before_of, 2), at(&after, &after_of, 3));
        let found: Vec<_> =
            found.iter().map(|(places, one)| (places.name(one.place), one.change(), one.share)).collect();
        assert_eq!(found, [(load, -4096, 1.0), (cache, 2048, 0.8), (step, 512, 0.2)]);
    }
}
