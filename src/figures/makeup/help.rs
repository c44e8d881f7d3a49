//! What would help a device most, as the end of a sentence.

use super::Summary;
use crate::analysis::gaps::ceiling::Ceiling;
use crate::analysis::rules::{Bound, Cause, Hit, KernelKind, MatmulTime, Reach, Rule, RunFacts, Vendor};
use crate::figures::format;
use crate::figures::verdicts::{also, clipped, host_of, percent, ranks_of};
use crate::model::DurNs;

/// What helps where most communication is between the stages of a pipeline.
const STAGES: &str = "pipeline stages that wait less for each other (more micro-batches, balanced stages)";
/// A gain is little as less than one part of so many of a step.
const LITTLE: DurNs = 20;
/// How many times as fast kernels are taken to become where what they save is held against idle time that ends: nearly
/// none of them can end altogether.
const AS_FAST: DurNs = 2;
/// From this share of the kernel time on, fusing elementwise kernels is worth naming.
const MANY_ELEMENTWISE: f64 = 0.1;

impl Summary<'_> {
    /// What gains most: the finding with the highest ceiling, or a warning about kernels that save more than that if they
    /// become twice as fast, as far as that reaches, else less of what takes most of the time. Where kernels take nearly
    /// all of it, faster ones come first: all others together are small.
    pub(super) fn help(&self) -> String {
        let gain = self.gain();
        if let Some(data) = self.data.filter(|data| data.amount > gain && self.whole_step_ns().is_some()) {
            let [data, of] = [data.amount, self.of_ns()].map(format::duration);
            return format!(
                "not to wait for data, which the host loads for {data} of {of} per step, outside of the judged time"
            );
        }
        let is_little = gain > 0 && gain < self.of_ns() / LITTLE;
        match self.faster_kernels() {
            faster if is_little && self.makeup.bound() == Bound::Compute && !faster.is_empty() => {
                format!("{faster}. What would help next: {}", self.least_idle())
            }
            _ => self.least_idle() + &self.more_to_record(),
        }
    }

    /// What to record after that, where it ends something of the idle time and most of that is not explained.
    fn more_to_record(&self) -> String {
        let most = self.makeup.causes.first().map(|cause| cause.0).filter(|&cause| only_tells(cause));
        let is_next = self.makeup.bound() == Bound::Idle && (self.endable.is_some() || self.gain() > 0);
        let rule = most.and_then(Cause::rule).filter(|_| is_next);
        rule.map_or_else(String::new, |rule| format!(". What would help next: {}", remedy(rule)))
    }

    /// What helps most against what is not computing.
    fn least_idle(&self) -> String {
        let n_steps = self.window.steps.len().max(1) as DurNs;
        let is_fewer = |hit: &Hit| matches!(hit.rule, Rule::Elementwise | Rule::StepwiseAttention);
        let saved = |hit: &Hit| {
            let half = (hit.amount - hit.amount / AS_FAST).min(hit.exposed_ns);
            if is_fewer(hit) { half } else { self.reached(half) }
        };
        if let Some(hit) = self.kernels.filter(|hit| saved(hit) / n_steps > self.gain()) {
            let bound = match is_fewer(hit) {
                true => self.less_than("they take", (hit.amount, hit.exposed_ns)),
                false => self.as_far_as_it_reaches("they take", (hit.amount, hit.exposed_ns)),
            };
            return format!("{}, which take {}{bound}", remedy(hit.rule), percent(hit.measured));
        }
        if let Some((ranks, ns)) = self.waits_for() {
            let [gain, step, more] = [format::duration(ns), format::duration(self.of_ns()), self.more_steps(ns)];
            let ranks = ranks_of(ranks);
            return format!(
                "{ranks} arriving sooner at collectives, which saves at most {gain} of {step} per step{more}"
            );
        }
        if let Some((hit, once)) = self.best.and_then(|hit| Some((hit, hit.once.as_ref()?))) {
            let (what, ns, step) = (named(hit), format::duration(once.ns), clipped(&once.step));
            if let Some(also) = also(&once.also) {
                let of = format::duration(once.step_ns());
                let saves = |ns| format!("; ending it saves at most {} of {of} per step", format::duration(ns));
                let saves = hit.ceiling_ns_per_step.map(saves).unwrap_or_default();
                return format!("{what}: {ns} in {step}, {also}{saves}");
            }
            return format!("{what}: {ns} once, in {step}; a longer recording shows whether it comes back");
        }
        if let Some((hit, ns)) = self.best.and_then(|hit| Some((hit, hit.saved_ns()?))) {
            let both = |(other, ns): (&Hit, DurNs)| {
                format!(
                    "; fewer launches also end {}: both together save at most {}",
                    about(other),
                    format::duration(ns)
                )
            };
            return self.saves(hit, ns) + &self.together.map(both).unwrap_or_default();
        }
        match self.makeup.bound() {
            Bound::Compute => self.faster_kernels(),
            Bound::Communication => remedy(Rule::ExposedCommunication).to_owned(),
            Bound::Copies => remedy(Rule::ExposedCopies).to_owned(),
            Bound::Idle => {
                let of_most = || self.makeup.causes.first().and_then(|cause| cause.0.rule()).map(remedy);
                self.endable.map(named).or_else(of_most).unwrap_or_default().to_owned()
            }
        }
    }

    /// What ending a cause saves at most.
    fn saves(&self, hit: &Hit, ns: DurNs) -> String {
        let (of_ns, per_step) = (self.of_ns(), self.per_step());
        let [gain, of] = [ns, of_ns].map(format::duration);
        let saves = format!("{}, which saves at most {gain} of ", named(hit));
        // The gain is without the recorder, and what it is of is not.
        if let Some(cost) = hit.recording {
            let cost = format::rough_duration(cost.ns, cost.most_ns);
            return format!(
                "{}, which saves at most {gain}{per_step}; {} {of}, of which about {cost} are the recorder's own and \
                 pass without it",
                named(hit),
                if per_step.is_empty() { "the judged time is" } else { "a step takes" }
            );
        }
        if let Some(alone) = hit.alone_ns_per_step {
            let (alone, all) =
                (format::saving(alone), if hit.late.is_some() { "all late ranks do" } else { "it ends on all ranks" });
            return format!("{saves}{of}{per_step} if {all}, {alone} on this alone");
        }
        let then = hit.paced.map(waits_longer).unwrap_or_default();
        // The larger gain first: overlap alone saves less.
        if let Some(most) = hit.beyond_overlap_ns() {
            let [all, more] = [format::duration(most), self.more_steps(most)];
            let overlap = of_overlap(hit, &gain);
            let help = beyond_overlap(hit);
            return format!("{help}, which saves at most {all} of {of}{per_step}{more}{then}{overlap}");
        }
        // In a single step nothing shows that it comes back.
        if hit.rule == Rule::ModuleLoad && self.window.steps.len() == 1 {
            return format!("{saves}the {of} judged of this step; what is loaded once does not come back");
        }
        format!("{saves}{of}{per_step}{}{then}", self.more_steps(ns))
    }

    /// How many more steps fit into the same time if each is so much shorter, in parentheses; empty without steps, and if
    /// nothing would remain.
    fn more_steps(&self, ns: DurNs) -> String {
        let Some(step_ns) = self.step_ns().filter(|&step_ns| ns < step_ns) else { return String::new() };
        // The same time is a larger share of the shorter step that remains.
        let more = Ceiling { ns_per_step: ns, step_ns }.throughput_percent() / 100.0;
        match more {
            ..1.0 => format!(" ({} more steps in the same time)", percent(more)),
            _ => format!(" ({:.1} times as many steps in the same time)", 1.0 + more),
        }
    }

    /// What fewer kernels save: less than all that these run now. The host launches the others sooner.
    ///
    /// * `ns`: their time, and what of that no other kernel computes beside: no more is saved.
    fn less_than(&self, they_take: &str, (ns, exposed_ns): (DurNs, DurNs)) -> String {
        if exposed_ns < ns.min(self.makeup.parts.compute_ns) {
            return format!(
                "; this saves at most the {} in which no other kernel runs beside",
                self.of_time(exposed_ns)
            );
        }
        format!("; this saves less than the {} that {they_take}", self.of_time(ns))
    }

    /// What faster kernels save: likewise, and no more than reaches past the launches after them.
    fn as_far_as_it_reaches(&self, they_take: &str, (ns, exposed_ns): (DurNs, DurNs)) -> String {
        let reached = self.reached(ns.min(exposed_ns));
        match self.makeup.reach {
            Some(reach) if reached < ns.min(exposed_ns).min(self.makeup.parts.compute_ns) => {
                format!("; this saves at most {}{}", self.of_time(reached), waits_longer(reach))
            }
            _ => self.less_than(they_take, (ns, exposed_ns)),
        }
    }

    fn reached(&self, ns: DurNs) -> DurNs {
        let ns = ns.min(self.makeup.parts.compute_ns);
        self.makeup.reach.map_or(ns, |reach| ns.min(reach.ns))
    }

    /// Time of kernels and what it is of: a step, or the judged time. They take no longer than the device computes,
    /// however many of them overlap.
    fn of_time(&self, ns: DurNs) -> String {
        let ns = ns.min(self.makeup.parts.compute_ns);
        match self.step_ns().filter(|_| !self.window.basis.is_range()) {
            Some(step_ns) => {
                let [ns, of] = [ns / self.window.steps.len().max(1) as DurNs, step_ns].map(format::duration);
                format!("{ns} of {of} per step")
            }
            None => {
                let [ns, of] = [ns, self.makeup.window_ns()].map(format::duration);
                format!("{ns} of {of}")
            }
        }
    }

    /// What the names of matrix products say of their precision, and what is left to do: they are not told to use
    /// what they use already.
    fn faster_products(&self) -> String {
        let MatmulTime { fp32_ns, tensor_ns, narrow_ns } = self.makeup.matmul;
        let exposed = self.makeup.exposed;
        let of_kind = |kind: KernelKind| (self.makeup.kinds[kind as usize], exposed.kinds[kind as usize]);
        let all = of_kind(KernelKind::Matmul).0;
        let of_all = |ns: DurNs| percent(ns as f64 / all.max(1) as f64);
        let cores = if self.run.vendor == Vendor::Amd { "matrix cores" } else { "tensor cores" };
        let elementwise = self.makeup.kinds[KernelKind::Elementwise as usize];
        let fused = elementwise as f64 / self.makeup.kernel_ns.max(1) as f64;
        let wide_ns = tensor_ns - narrow_ns;
        let (text, changed_ns) = if fp32_ns > all - fp32_ns && self.run.is_too_old {
            let text = format!(
                "fewer or smaller matrix products: {} of their time is in kernels named for fp32, and this GPU has no \
                 {cores}",
                of_all(fp32_ns)
            );
            return text + &self.less_than("they take", (fp32_ns, exposed.fp32_ns));
        } else if fp32_ns > all - fp32_ns {
            let which = if self.run.has_tensor_cores { "" } else { ", if this GPU has them" };
            let text = format!(
                "matrix products on {cores}{which}: {} of their time is in kernels named for fp32 without them",
                of_all(fp32_ns)
            );
            (text, (fp32_ns, exposed.fp32_ns))
        } else if wide_ns > all - wide_ns {
            let share = of_all(wide_ns);
            let text = format!(
                "matrix products in bf16 or fp16: {share} of their time is in kernels for {cores} whose names \
                 tell wider types, such as TF32"
            );
            (text, (wide_ns, exposed.wide_ns))
        } else if narrow_ns > all - narrow_ns && fused >= MANY_ELEMENTWISE {
            let how =
                if self.run.is_compiled || self.run.is_too_old { "fuse them" } else { "torch.compile fuses them" };
            let text = format!(
                "fewer elementwise kernels, which take {} of the compute kernel time: {how}; the matrix products \
                 already use types of at most 16 bits ({} of their time, by the names of kernels)",
                percent(fused),
                of_all(narrow_ns),
            );
            return text + &self.less_than("elementwise kernels take", of_kind(KernelKind::Elementwise));
        } else if narrow_ns > all - narrow_ns {
            let text = format!(
                "fewer or better-shaped matrix products, which already use types of at most 16 bits ({} of their time, \
                 by the names of kernels)",
                of_all(narrow_ns)
            );
            return text + &self.less_than("they take", of_kind(KernelKind::Matmul));
        } else {
            let text = "faster matrix products: their names do not tell the precision, check that it is bf16 or fp16";
            (text.to_owned(), of_kind(KernelKind::Matmul))
        };
        text + &self.as_far_as_it_reaches("they take", changed_ns)
    }

    fn faster_kernels(&self) -> String {
        if self.is_mostly_graphs() {
            return "to record the kernels inside of CUDA graphs (nsys profile --cuda-graph-trace=node)".to_owned();
        }
        let RunFacts { is_compiled, is_too_old, .. } = *self.run;
        let (kind, exposed_ns) = self.makeup.exposed_kind();
        let of_kind = (self.makeup.kinds[kind as usize], exposed_ns);
        let text = match Some(kind).filter(|_| exposed_ns > 0) {
            Some(KernelKind::Matmul) => return self.faster_products(),
            Some(KernelKind::Attention) => {
                let faster = "a newer attention kernel, or shorter sequences".to_owned();
                return faster + &self.as_far_as_it_reaches("they take", of_kind);
            }
            Some(KernelKind::Elementwise) if !is_compiled && !is_too_old => "fused elementwise kernels (torch.compile)",
            Some(KernelKind::Elementwise) => "fused elementwise kernels",
            Some(KernelKind::Access) => "less sorting, scanning and indexed access",
            Some(KernelKind::Other) | None => {
                let largest = (self.makeup.kernel_runs_ns, self.makeup.exposed.largest_ns);
                let bound = self.as_far_as_it_reaches("it takes", largest);
                return self
                    .kernel()
                    .map_or_else(String::new, |(name, _)| format!("a faster {}{bound}", clipped(name)));
            }
        };
        text.to_owned() + &self.less_than("they take", of_kind)
    }
}

/// What gains most of these, by its place; of equal gains the last. That a rank is late comes after what makes it late,
/// where that has at least half of the gain.
///
/// * `hits`: with the index of their trace, and the gain.
pub fn best(hits: &[(usize, &Hit, DurNs)]) -> Option<usize> {
    let most = |fits: &dyn Fn(usize) -> bool| (0..hits.len()).filter(|&i| fits(i)).max_by_key(|&i| hits[i].2);
    let best = most(&|_| true)?;
    if hits[best].1.rule != Rule::LateRank {
        return Some(best);
    }
    let is_late = |trace: usize| hits.iter().any(|hit| hit.0 == trace && hit.1.rule == Rule::LateRank);
    let makes_late = |i: usize| {
        let (trace, hit, gain) = hits[i];
        hit.rule.cause().is_some() && 2 * gain >= hits[best].2 && is_late(trace)
    };
    most(&makes_late).or(Some(best))
}

/// Why less work of the device saves less than its time.
fn waits_longer(reach: Reach) -> String {
    format!(", as the device then waits longer for {} to launch more", host_of(reach))
}

/// Whether what helps against a cause tells more of it, and ends nothing.
pub(super) fn only_tells(cause: Cause) -> bool {
    matches!(cause, Cause::Queued | Cause::Unexplained)
}

/// What is found, where it has the same remedy as something else.
fn about(hit: &Hit) -> &'static str {
    match hit.rule {
        Rule::LaunchBound => "waits for slow launches",
        Rule::HostBound => "waits for operators and Python",
        rule => rule.label(),
    }
}

/// What saves more than overlap does, see [`Hit::beyond_overlap_ns`].
pub fn beyond_overlap(hit: &Hit) -> &'static str {
    match hit.waiting.n_ranks {
        _ if hit.is_between_stages() => STAGES,
        0 => "less or faster communication, and ranks that arrive together",
        _ => "less or faster communication",
    }
}

/// What overlap alone saves, after what saves more. Nothing of the stages of a pipeline: they wait for each other.
pub fn of_overlap(hit: &Hit, gain: &str) -> String {
    let text = || format!("; {} alone saves at most {gain}", named(hit));
    if hit.is_between_stages() { String::new() } else { text() }
}

/// What would end a finding, or what the host does for most of the time.
pub fn named(hit: &Hit) -> &'static str {
    if hit.uncached.is_some() {
        "PyTorch's caching allocator, off or bypassed here"
    } else if hit.is_saving() {
        "not to wait while a checkpoint is written"
    } else if hit.is_of_low_load() {
        "more work for the device at a time, such as larger batches of requests"
    } else if hit.is_waiting() {
        "to have sooner what the host waits for"
    } else if hit.is_for_another_device() {
        "GPUs that work at the same time, not one after the other"
    } else if hit.is_after_copies() {
        "less that the host does after it copied data from the device"
    } else if hit.is_before_copies() {
        "less that the host does before it copies data to the device"
    } else if hit.is_between_stages() {
        STAGES
    } else if hit.beyond_overlap_ns().is_some() {
        "to communicate while computing"
    } else {
        remedy(hit.rule)
    }
}

/// What would end what a rule finds.
fn remedy(rule: Rule) -> &'static str {
    match rule {
        Rule::DataLoading => "not to wait for data",
        Rule::ExposedCommunication => "to communicate while computing, or less",
        Rule::CollectiveCalls => "a host that waits less in calls of collectives",
        Rule::SmallCollectives => "fewer and larger collectives",
        Rule::LaunchBound => "fewer or faster launches (graphs, fused kernels)",
        Rule::Synchronization => "a host that waits less for the device",
        Rule::HostBound => "a host that runs less between launches (operators, Python)",
        Rule::ExposedCopies => "to copy while computing, or less",
        Rule::PageableCopies => "to copy from and to pinned memory",
        Rule::Allocator => "no allocations of device memory within steps",
        Rule::ModuleLoad => "to compile and load code before the steps",
        Rule::GarbageCollection => "no garbage collection within steps",
        Rule::StepBoundary => "a shorter pause between steps",
        Rule::Dependency => "streams that wait less for each other",
        Rule::Queued => "to know what holds up work that was launched",
        Rule::Blocked => "a host that is not blocked in the operating system",
        Rule::Unexplained => "to record what the host does meanwhile",
        Rule::Profiler => "a recording that costs less",
        Rule::Fp32Matmul => "tensor cores for the matrix products in fp32",
        Rule::Elementwise => "to fuse elementwise kernels",
        Rule::LateRank => "to come sooner to collectives, in which other ranks wait for this one",
        Rule::StepwiseAttention => "fused attention (scaled_dot_product_attention) for softmax and batched products",
        rule => rule.label(),
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::rules::Rule;
    use crate::analysis::rules::tests::each_rule::linked;
    use crate::analysis::rules::tests::judged;
    use crate::figures::in_short::paragraphs;
    use crate::figures::verdicts::Judged;
    use crate::model::{DeviceInfo, SliceKind, TimeRange};

    #[test]
    fn kernels_that_mostly_run_beside_others_save_little() {
        const MS: i64 = 1_000_000;
        let relu = "void at::native::vectorized_elementwise_kernel<4>(int)";
        let gemm = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n";
        // Ten steps of 10 ms. Beside products of 9 ms elementwise kernels take 6, and 1 ms after them.
        let step = [
            ("stream 7", SliceKind::Kernel, gemm, 0, 9 * MS, 0),
            ("stream 13", SliceKind::Kernel, relu, 3 * MS, 10 * MS, 0),
            ("main", SliceKind::Operator, "aten::relu", 0, MS, 0),
        ];
        let trace = linked(&step).finish();
        let verdicts = judged(&trace, None);
        let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
        let text = paragraphs(&[of]).remove(0);
        let help = "What would help most: matrix products in bf16 or fp16: 100.0 % of their time is in kernels for tensor \
                    cores whose names tell wider types, such as TF32; this saves at most the 3.000 ms of 10.000 ms per step in which no other \
                    kernel runs beside";
        assert!(text.contains(help), "{text}");
        let found = crate::figures::verdicts::findings(&[of], &crate::analysis::rules::Thresholds::default());
        let fused = found.iter().find(|finding| finding.1.rule == Rule::Elementwise.key()).expect("70 % are of them");
        let notes = fused.1.evidence.notes.join(". ");
        assert!(notes.contains("No other kernel runs beside them for 1.000 ms per step"), "{notes}");
    }

    #[test]
    fn of_a_range_that_is_no_whole_steps_a_wait_comes_before_kernels_that_take_less() {
        const MS: i64 = 1_000_000;
        // Ten steps of 10 ms, of which the device waits 6 for data.
        let mut builder = linked(&[
            ("stream 7", SliceKind::Kernel, "volta_sgemm_128x64_nn", 0, 2 * MS, 0),
            ("main", SliceKind::Annotation, "load_batch", 2 * MS, 8 * MS, 0),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 8 * MS, 8 * MS + 4_000, 1),
            ("stream 7", SliceKind::Kernel, "volta_sgemm_128x64_nn", 8 * MS + 5_000, 10 * MS, 1),
        ]);
        // With tensor cores, so that the matrix products in fp32 are a finding.
        builder.info.devices.push(DeviceInfo { compute_major: Some(8), ..DeviceInfo::default() });
        let trace = builder.finish();
        let text = |range| {
            let verdicts = judged(&trace, range);
            let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
            paragraphs(&[of]).remove(0)
        };
        let range = text(Some(TimeRange { start: 21 * MS, end: 46 * MS }));
        assert!(range.contains("What would help most: not to wait for data, which saves at most "), "{range}");
        assert!(range.contains(" of 25.000 ms") && !range.contains("per step"), "{range}");
        assert!(text(None).contains("of 10.000 ms per step"), "{}", text(None));
    }
}
