//! What each place has more of at the end of a recording than at its start.

use hashbrown::HashMap;

use crate::analysis::memory::live::LiveUntil;
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::model::MemoryHistory;
use crate::model::memory::AllocationId;

/// Growth of one place from the start to the end of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gain {
    pub signature: SignatureId,
    /// Further places whose blocks are as large, if it cannot be told which of them all it was; ascending.
    pub or: Vec<SignatureId>,
    pub bytes: i64,
    /// Change in the number of blocks; may be negative.
    pub count: i64,
}

/// The places that have more allocated in the last state than in the first, the largest gain first.
///
/// A block whose stack is not known, as it is from before the recording, and that is freed may have been replaced by
/// one for which as much was requested, as the state of an optimizer is in every step: that is no growth. Of several
/// places that made such blocks, those did it that allocated them nearest to when the old ones were freed; the gradients
/// of the same sizes came long before. It is told which places those are as long as each replaced all of its blocks.
///
/// What the allocator rounded up by more than before is a gain.
///
/// Cost: O(m log m) for m blocks.
pub fn gains(history: &MemoryHistory, signatures: &Signatures) -> Vec<Gain> {
    let mut found = changes(history, signatures);
    found.retain(|gain| gain.bytes > 0);
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (a.signature, &a.or).cmp(&(b.signature, &b.or))));
    found
}

/// The same for all places, also those with less: the bytes sum to the growth of all that is allocated.
fn changes(history: &MemoryHistory, signatures: &Signatures) -> Vec<Gain> {
    let all = &history.allocations;
    let last = history.last_state();
    let mut sums = Sums::default();
    let mut replaced: HashMap<u64, Alike> = HashMap::new();
    for id in all.ids() {
        let signature = signatures.of(all.stack[id.idx()]);
        let has_place = signature != SignatureId::default();
        match (all.start[id.idx()] == 0, LiveUntil::Allocated.end(history, id) > last) {
            (true, false) => {
                sums.add(&[signature], history, id, -1);
                if !has_place {
                    replaced.entry(all.requested[id.idx()]).or_default().gone.push(id);
                }
            }
            (false, true) => {
                sums.add(&[signature], history, id, 1);
                if has_place {
                    let alike = replaced.entry(all.requested[id.idx()]).or_default();
                    alike.new.entry(signature).or_default().push(id);
                }
            }
            _ => {}
        }
    }
    for alike in replaced.into_values().filter(|alike| !alike.gone.is_empty() && !alike.new.is_empty()) {
        alike.replace(history, &mut sums);
    }
    let gain = |(places, (bytes, count)): (Vec<SignatureId>, _)| {
        let (first, or) = places.split_first()?;
        Some(Gain { signature: *first, or: or.to_vec(), bytes, count })
    };
    sums.0.into_iter().filter_map(gain).collect()
}

/// Bytes and blocks of a place, or of several of which it cannot be told which one it is.
#[derive(Default)]
struct Sums(HashMap<Vec<SignatureId>, (i64, i64)>);

impl Sums {
    fn add(&mut self, places: &[SignatureId], history: &MemoryHistory, id: AllocationId, sign: i64) {
        let sum = self.0.entry_ref(places).or_default();
        sum.0 += sign * history.allocations.bytes[id.idx()] as i64;
        sum.1 += sign;
    }
}

/// Blocks for which the same number of bytes was requested.
#[derive(Default)]
struct Alike {
    /// Those from before the recording that were freed.
    gone: Vec<AllocationId>,
    /// Those that were allocated since and stay.
    new: HashMap<SignatureId, Vec<AllocationId>>,
}

impl Alike {
    /// Takes the blocks that are gone from what the places gained that made them anew.
    fn replace(self, history: &MemoryHistory, sums: &mut Sums) {
        let all = &history.allocations;
        let mut freed: Vec<u32> = self.gone.iter().map(|id| all.freed[id.idx()]).collect();
        freed.sort_unstable();
        let mut places: Vec<(f64, SignatureId, Vec<AllocationId>)> = self
            .new
            .into_iter()
            .map(|(signature, ids)| {
                let apart: f64 = ids.iter().map(|id| f64::from(distance(&freed, all.start[id.idx()]))).sum();
                (apart / ids.len() as f64, signature, ids)
            })
            .collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut gone = self.gone.into_iter();
        let mut take = |places: &[SignatureId], n: usize, sums: &mut Sums| {
            for id in gone.by_ref().take(n) {
                sums.add(places, history, id, -1);
                sums.add(&[SignatureId::default()], history, id, 1);
            }
        };
        let mut left = freed.len();
        let mut rest = places.as_slice();
        while let [(_, signature, ids), others @ ..] = rest
            && ids.len() <= left
        {
            take(&[*signature], ids.len(), sums);
            (left, rest) = (left - ids.len(), others);
        }
        if left == 0 || rest.is_empty() {
            return;
        }
        let mut one_of: Vec<SignatureId> = rest.iter().map(|place| place.1).collect();
        one_of.sort_unstable();
        if one_of.len() > 1 {
            for (_, signature, ids) in rest {
                for &id in ids {
                    sums.add(&[*signature], history, id, -1);
                    sums.add(&one_of, history, id, 1);
                }
            }
        }
        take(&one_of, left, sums);
    }
}

/// How many events a state is from the nearest of others, which ascend and are not empty.
fn distance(others: &[u32], state: u32) -> u32 {
    let after = others.partition_point(|&other| other < state);
    let near = &others[after.saturating_sub(1)..(after + 1).min(others.len())];
    near.iter().map(|other| other.abs_diff(state)).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::fixture::{Script, history};
    use crate::model::StackId;
    use crate::model::memory::MemoryAction::FreeRequested;

    const MIB: u64 = 1 << 20;

    /// What changed, by the innermost frames of the places.
    fn listed(script: Script) -> Vec<(String, i64, i64)> {
        let trace = script.finish();
        let history = history(&trace);
        let signatures = Signatures::new(&trace, false);
        let all = changes(history, &signatures);
        let allocated = &history.curves.allocated;
        let growth = allocated[history.last_state() as usize] as i64 - allocated[0] as i64;
        assert_eq!(all.iter().map(|one| one.bytes).sum::<i64>(), growth, "the changes sum to the growth");
        let name = |signature| signatures.frames(&trace, signature).first().map(|frame| frame.to_string());
        let names = |gain: &Gain| {
            let places = [&[gain.signature], &gain.or[..]].concat();
            places.into_iter().map(|one| name(one).unwrap_or_default()).collect::<Vec<_>>().join(" or ")
        };
        gains(history, &signatures).iter().map(|gain| (names(gain), gain.bytes, gain.count)).collect()
    }

    fn free_old(script: &mut Script, addr: u64, requested: u64) {
        script.event(FreeRequested, addr, requested, StackId(0));
        script.free(addr, requested);
    }

    /// An optimizer with two states a parameter, each written anew from the old one, which a variable of the loop still
    /// holds until the states of the next parameter are read.
    #[test]
    fn states_that_are_made_anew_have_not_grown_beside_gradients_of_their_sizes() {
        let sizes = [3 * MIB, MIB, MIB, 5 * MIB, 3 * MIB, MIB, 3 * MIB + 100];
        let mut script = Script::default();
        let [gradient, first, second] =
            ["accumulate (grad.cpp:1)", "step (lion.py:7)", "step (lion.py:8)"].map(|name| script.stack(&[name]));
        for (at, bytes) in sizes.iter().enumerate().rev() {
            script.alloc((100 + at as u64) << 30, *bytes, gradient);
        }
        let old = |at: usize| (at as u64) << 30;
        for (at, bytes) in sizes.iter().enumerate() {
            script.alloc((200 + at as u64) << 30, *bytes, first);
            script.alloc((300 + at as u64) << 30, *bytes, second);
            if at > 0 {
                free_old(&mut script, old(at - 1), sizes[at - 1]);
                free_old(&mut script, old(at - 1) + (1 << 29), sizes[at - 1]);
            }
        }
        free_old(&mut script, old(6), sizes[6]);
        free_old(&mut script, old(6) + (1 << 29), sizes[6]);
        let whole: u64 = sizes.iter().map(|bytes| bytes.next_multiple_of(512)).sum();
        assert_eq!(listed(script), [("accumulate (grad.cpp:1)".to_owned(), whole as i64, 7)]);
    }

    #[test]
    fn of_places_of_one_size_that_cannot_be_told_apart_all_are_named() {
        let mut script = Script::default();
        let [keys, values, mask] =
            ["keys (cache.py:3)", "values (cache.py:4)", "mask (m.py:9)"].map(|name| script.stack(&[name]));
        for block in 0..3 {
            script.alloc((100 + block) << 30, 2 * MIB, keys);
            script.alloc((200 + block) << 30, 2 * MIB, values);
        }
        script.alloc(300 << 30, MIB, mask);
        free_old(&mut script, 1 << 30, 2 * MIB);
        free_old(&mut script, 2 << 30, MIB);
        let either = "keys (cache.py:3) or values (cache.py:4)".to_owned();
        assert_eq!(listed(script), [(either, 10 * MIB as i64, 5)]);
    }

    #[test]
    fn one_place_that_frees_fewer_blocks_than_it_makes_has_grown_by_the_others() {
        let mut script = Script::default();
        let queue = script.stack(&["put (queue.py:5)"]);
        for block in 0..5 {
            script.alloc((100 + block) << 30, MIB, queue);
        }
        for block in 0..2 {
            free_old(&mut script, block << 30, MIB);
        }
        // Larger than all that is new: nothing replaced it.
        free_old(&mut script, 50 << 30, 4 * MIB);
        assert_eq!(listed(script), [("put (queue.py:5)".to_owned(), 3 * MIB as i64, 3)]);
    }
}
