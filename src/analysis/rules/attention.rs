//! Attention that operators compute step by step: a batched matrix product, a softmax, and another such product.
//!
//! A softmax between two batched products, launched one after the other by one thread, is attention, in the forward pass
//! and in the backward pass; losses, and what has other products between, are none. Elementwise work between them (scale, mask,
//! mask, dropout) belongs to it too, but is not counted: it may be something else.

use hashbrown::{HashMap, HashSet};

use super::exposed::{Groups, exposed_ns};
use super::{Device, Hit, Rule};
use crate::model::{DurNs, SliceId, SliceKind, StringId, TimeNs, TimeRange, TrackId};

/// At most so many kernels of other operators lie between two parts: a scale, a mask, casts, dropout, copies.
const MOST_BETWEEN: usize = 16;

/// Attention that is computed step by step, in the judged time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepwiseAttention {
    /// Softmaxes between two batched products.
    pub count: u64,
    /// The time of all kernels that compute.
    pub kernels_ns: DurNs,
    /// Of that, the kernels of these softmaxes and products.
    pub total_ns: DurNs,
    /// Of that, what no other kernel computes beside.
    pub exposed_ns: DurNs,
    /// Of these, the softmaxes.
    pub softmax_ns: DurNs,
    /// Of these, what `scaled_dot_product_attention` runs, which then has no fused kernel for it.
    pub called_ns: DurNs,
    /// The longest softmax.
    pub longest: TimeRange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Product,
    Softmax,
    /// Attention has none between its parts: a router is such a product, a softmax and batched products of experts.
    Other,
}

/// The kernels that one operator launched.
#[derive(Clone, Copy, Debug)]
struct Step {
    thread: TrackId,
    /// Start of the call that launched the first of them.
    ts: TimeNs,
    /// `None` for a kernel of another operator.
    part: Option<(Part, SliceId)>,
    n_kernels: usize,
    ns: DurNs,
    longest: TimeRange,
}

fn part_of(operator: &str) -> Option<Part> {
    match operator {
        "aten::bmm" | "aten::baddbmm" => Some(Part::Product),
        "aten::mm" | "aten::addmm" | "aten::convolution" => Some(Part::Other),
        "aten::_softmax" | "aten::_softmax_backward_data" => Some(Part::Softmax),
        _ => None,
    }
}

impl Device<'_, '_> {
    /// The time of attention that is computed step by step.
    ///
    /// * `kernels_ns`: the time of all kernels that compute.
    pub(super) fn stepwise_attention(&mut self, kernels_ns: DurNs) {
        let found = StepwiseAttention { kernels_ns, ..self.find_attention() };
        let range = (found.count > 0).then_some(found.longest);
        let attention = Hit { count: found.count, range, ..self.hit(Rule::StepwiseAttention, found.total_ns) };
        self.out.check(Hit { attention: found, exposed_ns: found.exposed_ns, ..attention });
    }

    /// Cost: O(strings), and where operators have both names O(k · depth + k log k) for k kernels of the device.
    fn find_attention(&self) -> StepwiseAttention {
        let (steps, kernels) = self.steps_of_attention();
        let mut left = &kernels[..];
        let own_kernels: Vec<&[SliceId]> =
            steps.iter().map(|step| left.split_off(..step.n_kernels).unwrap_or_default()).collect();
        let mut counted: HashSet<SliceId> = HashSet::new();
        let mut out = StepwiseAttention::default();
        let mut is_counted = vec![false; steps.len()];
        let named: Vec<usize> = (0..steps.len()).filter(|&i| steps[i].part.is_some()).collect();
        for around in named.windows(3) {
            let [before, softmax, after] = [around[0], around[1], around[2]];
            let is_part = |i: usize, part: Part| steps[i].part.is_some_and(|own| own.0 == part);
            let is_one = steps[before].thread == steps[after].thread
                && [softmax - before, after - softmax].iter().all(|&apart| apart <= MOST_BETWEEN + 1);
            let is_attention =
                is_part(before, Part::Product) && is_part(softmax, Part::Softmax) && is_part(after, Part::Product);
            if !(is_attention && is_one) {
                continue;
            }
            let is_called = steps[softmax].part.is_some_and(|part| self.is_called(part.1));
            let own = around.iter().filter(|&&i| !std::mem::replace(&mut is_counted[i], true));
            let own = own.inspect(|&&i| counted.extend(own_kernels[i]));
            let ns = own.map(|&i| steps[i].ns).sum::<DurNs>();
            out.count += 1;
            out.total_ns += ns;
            out.softmax_ns += steps[softmax].ns;
            out.called_ns += if is_called { ns } else { 0 };
            if out.longest.dur() < steps[softmax].longest.dur() {
                out.longest = steps[softmax].longest;
            }
        }
        if out.count > 0 {
            let is_counted = |i: usize| Groups::from(counted.contains(&SliceId(i as u32)));
            let exposed = exposed_ns(self.of.trace, self.busy.process, self.window.time, is_counted);
            out.exposed_ns = exposed.map_or(out.total_ns, |of_groups| of_groups[0]);
        }
        out
    }

    /// The kernels of the window by the operators that launched them, as each thread launched them, and all of them in that
    /// order; empty where no operators are parts of attention.
    fn steps_of_attention(&self) -> (Vec<Step>, Vec<SliceId>) {
        let (trace, slices) = (self.of.trace, &self.of.trace.slices);
        let parts = trace.strings.iter().filter_map(|(id, name)| Some((id, part_of(name)?)));
        let parts: HashMap<StringId, Part> = parts.collect();
        if ![Part::Product, Part::Softmax].iter().all(|part| parts.values().any(|known| known == part)) {
            return Default::default();
        }
        let kernels = trace.tracks_of(self.busy.process).flat_map(|track| trace.track_slices(track));
        let is_judged = |&i: &usize| slices.kind[i] == SliceKind::Kernel && self.window.time.contains(slices.ts[i]);
        let step = |i: usize| {
            let kernel = SliceId(i as u32);
            let call = trace.launch_of(kernel)?;
            let named = |slice: SliceId| Some((*parts.get(&slices.name[slice.idx()])?, slice));
            let (part, longest) = (slices.ancestors(call).find_map(named), slices.time(kernel));
            let (thread, ts) = (slices.track_of(call), slices.ts[call.idx()]);
            Some((Step { thread, ts, part, n_kernels: 1, ns: longest.dur(), longest }, kernel))
        };
        let mut steps: Vec<(Step, SliceId)> = kernels.filter(is_judged).filter_map(step).collect();
        steps.sort_by_key(|(step, _)| (step.thread, step.ts));
        let (mut steps, kernels): (Vec<Step>, Vec<SliceId>) = steps.into_iter().unzip();
        steps.dedup_by(|next, kept| {
            let is_same = next.part.is_some() && next.part == kept.part;
            if is_same {
                kept.n_kernels += next.n_kernels;
                kept.ns += next.ns;
                kept.longest = if kept.longest.dur() < next.longest.dur() { next.longest } else { kept.longest };
            }
            is_same
        });
        (steps, kernels)
    }

    fn is_called(&self, operator: SliceId) -> bool {
        let trace = self.of.trace;
        trace.slices.ancestors(operator).any(|around| {
            trace.slices.kind[around.idx()] == SliceKind::Operator
                && trace.slice_name(around).contains("scaled_dot_product_attention")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{each_rule::linked, judged, of};
    use super::*;

    const MS: TimeNs = 1_000_000;

    /// What is found in steps of 10 ms in which these operators launch kernels of a millisecond each.
    fn found(operators: &[&str], around: Option<&str>) -> Option<(u64, DurNs, DurNs, DurNs)> {
        let mut step = Vec::new();
        for (i, &operator) in (0..).zip(operators) {
            let (at, id) = (20_000 * i, 1 + i as u32);
            step.push(("main", SliceKind::Operator, operator, at, at + 19_000, 0));
            step.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + 5_000, at + 10_000, id));
            step.push(("stream 7", SliceKind::Kernel, "kernel", MS + i * MS, MS + (i + 1) * MS, id));
        }
        step.extend(around.map(|name| ("main", SliceKind::Operator, name, 0, 20_000 * operators.len() as i64, 0)));
        let verdicts = judged(&linked(&step).finish(), None);
        let hit = of(&verdicts, Rule::StepwiseAttention)?;
        let StepwiseAttention { count, total_ns, softmax_ns, called_ns, .. } = hit.attention;
        assert_eq!(hit.amount, total_ns);
        let n = hit.n_steps as DurNs;
        Some((count / n as u64, total_ns / n, softmax_ns / n, called_ns / n))
    }

    #[test]
    fn a_softmax_between_batched_products_is_attention() {
        let forward = ["aten::bmm", "aten::div", "aten::_softmax", "aten::bmm", "aten::mm"];
        assert_eq!(found(&forward, None), Some((1, 3 * MS, MS, 0)));
        let backward = ["aten::bmm", "aten::bmm", "aten::_softmax_backward_data", "aten::mul", "aten::baddbmm"];
        assert_eq!(found(&backward, None), Some((1, 3 * MS, MS, 0)));
        let twice = ["aten::bmm", "aten::_softmax", "aten::bmm", "aten::_softmax", "aten::bmm"];
        assert_eq!(found(&twice, None), Some((2, 5 * MS, 2 * MS, 0)), "each kernel counts once");
        let called = found(&forward, Some("aten::_scaled_dot_product_attention_math"));
        assert_eq!(called, Some((1, 3 * MS, MS, 3 * MS)));
    }

    #[test]
    fn other_softmaxes_and_products_are_no_attention() {
        for operators in [
            ["aten::mm", "aten::_softmax", "aten::topk", "aten::bmm"],
            ["aten::addmm", "aten::bmm", "aten::_log_softmax", "aten::bmm"],
            ["aten::bmm", "aten::_softmax", "aten::mm", "aten::bmm"],
        ] {
            assert_eq!(found(&operators, None), None, "{operators:?}");
        }
    }
}
