//! Callers of a function that allocates for others.

use hashbrown::HashMap;

use super::by_place::{Place, Places};
use super::live::{LiveUntil, live};
use super::summary::fullest_state;
use crate::analysis::frame::Frame;
use crate::model::{MemoryHistory, StackId, StringId, Trace};

/// A place with this share of all bytes says little of who holds them.
const MIN_SHARE: f64 = 0.9;
/// A caller with this share of the bytes only passes the request on, too.
const MAX_CALLER: f64 = 0.75;
/// Callers that are looked at.
const MAX_DEPTH: usize = 64;

/// A function that allocates nearly everything for several callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    frame: StringId,
    /// How many Python frames are between it and the caller: the nearest frame at which no single one has most of the
    /// bytes.
    depth: usize,
}

impl Wrapper {
    /// That of a program, by the memory that holds most. `None` if there is no such function.
    ///
    /// * `places`: without callers.
    /// * Cost: O(blocks + stacks · depth).
    pub fn of(places: &Places<'_>) -> Option<Self> {
        let fullest = |history: &&MemoryHistory| history.curves.allocated.get(fullest_state(history) as usize).copied();
        let history = places.trace.memories.iter().rev().max_by_key(fullest)?;
        wrapper(places, history, fullest_state(history))
    }

    /// The place of each stack, that of this function with the caller.
    pub fn places(self, places: &Places<'_>) -> Vec<Place> {
        let mut is_python = HashMap::new();
        let wrapper = Place::Frame(self.frame);
        let named = places.of_stack.iter().enumerate().map(|(stack, &place)| {
            let mut caller =
                || callers(places, StackId(stack as u32), self.frame, &mut is_python).get(self.depth).copied();
            let caller = if place == wrapper { caller() } else { None };
            caller.map_or(place, |caller| Place::Called(self.frame, caller))
        });
        named.collect()
    }

    /// The caller in one call stack, if this function names its place.
    ///
    /// * `frames`: innermost first.
    pub fn caller<'a, T: AsRef<str>>(self, trace: &Trace, place: &str, frames: &'a [T]) -> Option<&'a str> {
        let own = Some(trace.strings.get(self.frame)).filter(|own| *own == place)?;
        let frames = || frames.iter().map(AsRef::as_ref);
        let mut outer = frames().skip_while(|&frame| frame != own).skip(1);
        outer.by_ref().filter(|frame| is_caller(frame)).take(MAX_DEPTH).nth(self.depth)
    }
}

/// The places of a comparison, with callers. `None` if there is no [`Wrapper`] in this state.
///
/// * `places`: without callers.
pub fn with_callers(places: &Places<'_>, history: &MemoryHistory, state: u32) -> Option<Vec<Place>> {
    Some(wrapper(places, history, state)?.places(places))
}

fn wrapper(places: &Places<'_>, history: &MemoryHistory, state: u32) -> Option<Wrapper> {
    let mut of_stack: HashMap<StackId, u64> = HashMap::new();
    let mut of_place: HashMap<Place, u64> = HashMap::new();
    for id in live(history, state, LiveUntil::Allocated) {
        let bytes = history.allocations.bytes[id.idx()];
        *of_stack.entry(history.allocations.stack[id.idx()]).or_default() += bytes;
        *of_place.entry(places.of(history, id)).or_default() += bytes;
    }
    let total: u64 = of_place.values().sum();
    let (wrapper, held) = of_place.into_iter().find(|(_, bytes)| *bytes as f64 >= MIN_SHARE * total.max(1) as f64)?;
    let Place::Frame(frame) = wrapper else { return None };
    let is_of = |stack: &StackId| places.of_stack.get(stack.0 as usize) == Some(&wrapper);
    let mut is_python = HashMap::new();
    let stacks: Vec<(Vec<StringId>, u64)> = of_stack
        .into_iter()
        .filter(|(stack, _)| is_of(stack))
        .map(|(stack, bytes)| (callers(places, stack, frame, &mut is_python), bytes))
        .collect();
    let depth = (0..MAX_DEPTH).find(|&depth| {
        let mut of_caller: HashMap<StringId, u64> = HashMap::new();
        for (callers, bytes) in &stacks {
            if let Some(&caller) = callers.get(depth) {
                *of_caller.entry(caller).or_default() += bytes;
            }
        }
        let most = of_caller.values().max().copied().unwrap_or_default();
        let known: u64 = of_caller.values().sum();
        // Of stacks that are too short to tell, nothing is known.
        (most as f64) < MAX_CALLER * held as f64 && known as f64 >= MIN_SHARE * held as f64
    })?;
    Some(Wrapper { frame, depth })
}

fn is_caller(frame: &str) -> bool {
    let frame = Frame::of(frame);
    frame.is_python() && !frame.is_noise()
}

/// The Python frames outside of a frame, nearest first.
fn callers(
    places: &Places<'_>,
    stack: StackId,
    frame: StringId,
    is_python: &mut HashMap<StringId, bool>,
) -> Vec<StringId> {
    let trace = places.trace;
    let outer = trace.stacks.frames(stack).skip_while(|&own| own != frame).skip(1);
    let mut named =
        outer.filter(|&caller| *is_python.entry(caller).or_insert_with(|| is_caller(trace.strings.get(caller))));
    named.by_ref().take(MAX_DEPTH).collect()
}

#[cfg(test)]
mod tests {
    use super::super::by_place::stack_places;
    use super::super::fixture::{Script, history};
    use super::super::labels::stack_labels;
    use super::super::signature::Signatures;
    use super::*;

    const WRAPPER: &str = "allocate (/me/backend.py:190)";
    const LIST: &str = "init_list (/me/opt.py:125)";

    fn listed(trace: &Trace) -> Option<Vec<(String, u64)>> {
        let history = history(trace);
        let of_stack = stack_places(trace, Some(&stack_labels(trace)));
        let places = Places { trace, of_stack: &of_stack };
        let called = with_callers(&places, history, history.last_state())?;
        let places = Places { of_stack: &called, ..places };
        let held = places.held(history, history.last_state()).into_iter();
        let caller = |place| match place {
            Place::Called(_, caller) => trace.strings.get(caller).to_owned(),
            place => places.name(place).to_owned(),
        };
        Some(held.map(|holder| (caller(holder.place), holder.held.bytes)).collect())
    }

    fn script(sizes: [u64; 3], own: u64) -> Script {
        let mut script = Script::default();
        let callers = ["mlp (/me/opt.py:507)", "attention (/me/opt.py:319)", "embed (/me/opt.py:171)"];
        for (k, (caller, bytes)) in callers.into_iter().zip(sizes).enumerate() {
            let stack = script.stack(&["at::empty", WRAPPER, "PyEval_Eval", LIST, caller, "main (/me/run.py:1)"]);
            script.alloc((k as u64) << 40, bytes, stack);
        }
        let other = script.stack(&["run (/me/run.py:7)"]);
        script.alloc(9 << 40, own, other);
        script
    }

    #[test]
    fn a_function_that_allocates_for_others_is_listed_by_its_callers() {
        let found = listed(&script([7168, 3584, 512], 1024).finish()).unwrap();
        let expected = [
            ("mlp (/me/opt.py:507)", 7168),
            ("attention (/me/opt.py:319)", 3584),
            ("run (/me/run.py:7)", 1024),
            ("embed (/me/opt.py:171)", 512),
        ];
        assert_eq!(found, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    }

    #[test]
    fn one_call_stack_has_the_place_of_the_list() {
        let trace = script([7168, 3584, 512], 1024).finish();
        let of_stack = stack_places(&trace, Some(&stack_labels(&trace)));
        let places = Places { trace: &trace, of_stack: &of_stack };
        let wrapper = Wrapper::of(&places).unwrap();
        let called = wrapper.places(&places);
        let signatures = Signatures::new(&trace, false).called(Some(wrapper));
        for stack in history(&trace).allocations.stack.iter().copied() {
            let listed = Places { of_stack: &called, ..places }.full_name(called[stack.0 as usize]);
            assert_eq!(signatures.label(&trace, signatures.of(stack)).as_deref(), Some(&*listed));
        }
        let first = history(&trace).allocations.stack[0];
        let label = |signatures: &Signatures| signatures.label(&trace, signatures.of(first)).unwrap();
        assert_eq!(label(&signatures), format!("{WRAPPER}; from mlp (/me/opt.py:507)"));
        assert_eq!(label(&Signatures::new(&trace, false)), WRAPPER, "of no wrapper is known");
    }

    #[test]
    fn one_caller_or_a_place_beside_others_is_not_split() {
        assert_eq!(listed(&script([7168, 3584, 512], 2048).finish()), None, "85 % of all");
        assert_eq!(listed(&script([9216, 512, 512], 512).finish()), None, "one caller has 90 %");
        assert_eq!(listed(&Script::default().finish()), None);
    }
}
