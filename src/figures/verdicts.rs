//! Findings about time in words: what was measured, and what to do about it.

use super::findings::value;
use super::{Cell, Part, figures, format};
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::rules::{Check, Hit, Levels, Rule, Thresholds, Verdicts};
use crate::model::{DurNs, Trace};

/// A hit of a rule as a finding.
///
/// * `path`: of the file.
/// * `offset`: of the trace on the session clock.
pub fn finding(hit: &Hit, trace: &Trace, path: &str, offset: DurNs, thresholds: &Thresholds) -> Finding {
    let range = hit.range.map(|range| range.shifted(offset));
    Finding {
        rule: hit.rule.key(),
        severity: hit.severity,
        text: text(hit, trace, thresholds),
        measured: hit.measured,
        threshold: hit.threshold,
        unit: unit(hit.rule),
        evidence: Evidence {
            file: Some(path.to_owned()),
            range_ns: range.map(|range| [range.start, range.end]),
            names: hit.names.iter().filter(|name| !name.is_empty()).cloned().collect(),
        },
        ceiling_ns_per_step: hit.ceiling_ns_per_step,
        advice: advice(hit.rule).iter().map(|&sentence| sentence.to_owned()).collect(),
    }
}

/// The unit of what a rule measures.
pub fn unit(rule: Rule) -> Unit {
    if rule == Rule::DataTime { Unit::Ratio } else { Unit::Share }
}

fn percent(share: f64) -> String {
    value(share, Unit::Share)
}

/// The device and its rank: `Rank 3, GPU 0`.
fn device(hit: &Hit, trace: &Trace) -> String {
    let device = hit.device.map_or_else(|| "The host".to_owned(), |device| format!("GPU {device}"));
    match trace.info.rank {
        Some(rank) => format!("Rank {rank}, {device}"),
        None => device,
    }
}

/// What was measured, as a sentence without a period. May contain text from a file.
fn text(hit: &Hit, trace: &Trace, thresholds: &Thresholds) -> String {
    let device = device(hit, trace);
    let share = percent(hit.measured);
    let amount = format::duration(hit.amount);
    let names = hit.names.iter().filter(|name| !name.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ");
    let most = if names.is_empty() { String::new() } else { format!("; most in {names}") };
    let per_step = per_step(hit);
    let waits = |why: &str| format!("{device} waits {share} of the time {why}: {amount}{per_step}{most}");
    let count = format::count(hit.count);
    match hit.rule {
        Rule::LowUtilization => {
            format!("{device} is busy {share} of the time: {amount} of {}", format::duration(hit.of))
        }
        Rule::DataLoading if hit.device.is_none() => {
            format!("Data loading takes {share} of the time: {amount}{per_step}")
        }
        Rule::DataLoading => waits("for data"),
        Rule::ExposedCommunication => {
            format!("{device} communicates {share} of the time without computing: {amount}{per_step}{most}")
        }
        Rule::LaunchBound => waits("because the host launches no faster than it runs"),
        Rule::Synchronization => waits("because the host waited for it and had nothing queued"),
        Rule::HostBound => waits("while the host runs operators or Python"),
        Rule::ExposedCopies => {
            format!("{device} copies, or waits for calls that copy, {share} of the time: {amount}{per_step}{most}")
        }
        Rule::PageableCopies => {
            let size = format::bytes(thresholds.pageable_bytes as f64);
            let noun = if hit.count == 1 { "copy" } else { "copies" };
            format!(
                "{device}: {count} {noun} of more than {size} from or to pageable memory, {share} of the time: {amount}"
            )
        }
        Rule::Allocator => waits("while device memory is allocated or freed"),
        Rule::ModuleLoad => waits("while code is compiled or loaded"),
        Rule::GarbageCollection => waits("while Python collects garbage"),
        Rule::StepBoundary => waits("between steps"),
        Rule::Dependency => waits("with work of one stream waiting for another"),
        Rule::Blocked => waits("while the launching thread is blocked in the operating system"),
        Rule::DataTime => {
            let of = format::duration(hit.of);
            format!("{device}: in the median step the host loads data for {amount}, and the device works for {of}")
        }
        Rule::TinyKernels => {
            let (all, limit) = (format::count(hit.of as u64), format::duration(thresholds.tiny_kernel_ns));
            format!("{device}: {share} of {all} kernels take less than {limit}{most}")
        }
        Rule::SlowKernels => {
            let limit = format::duration(thresholds.slow_kernel_ns);
            format!("{device}: kernels that take more than {limit} on average have {share} of the kernel time{most}")
        }
        Rule::LongKernel => {
            let of = if hit.n_steps > 0 { "a step" } else { "the time" };
            format!("{device}: one launch of {names} takes {amount}, {share} of {of}")
        }
        Rule::RecurringGap => recurring(hit, &device),
        Rule::MemoryNearlyFull => {
            let [reserved, total] = [hit.amount, hit.of].map(|bytes| format::bytes(bytes as f64));
            format!("{device}: {share} of the memory is reserved at the peak, {reserved} of {total}")
        }
        Rule::Unexplained => waits("and the recording does not say why"),
        Rule::Profiler => waits("for the profiler itself"),
    }
}

fn per_step(hit: &Hit) -> String {
    match hit.n_steps {
        0 => String::new(),
        n => format!(", {} per step", format::duration(hit.amount / n as DurNs)),
    }
}

/// The names are those before and after the gap, the operator and the frame of the host.
fn recurring(hit: &Hit, device: &str) -> String {
    let [prev, next, op, frame] = [0, 1, 2, 3].map(|i| hit.names.get(i).map_or("", String::as_str));
    let at = match (op, frame) {
        ("", "") => String::new(),
        ("", place) | (place, "") => format!(", host in {place}"),
        (op, frame) => format!(", host in {op} at {frame}"),
    };
    format!(
        "{device}: the gap between {prev} and {next} comes back in {} of {} steps and takes {} of a step: {}{at}",
        hit.count,
        hit.n_steps,
        percent(hit.measured),
        format::duration(hit.amount),
    )
}

/// What to do, and how to check it; one sentence each.
fn advice(rule: Rule) -> &'static [&'static str] {
    match rule {
        Rule::LowUtilization => &[
            "See which causes have most of the idle time: each has a finding of its own, or a share in the gaps by cause",
            "After a change, record the same steps again and compare the busy share",
        ],
        Rule::DataLoading => &[
            "Load in background processes: DataLoader(num_workers=..., persistent_workers=True, prefetch_factor=...)",
            "Move decoding and augmentation to the GPU or do them once ahead of time, and store data where reading is fast",
            "To check, train on one batch kept on the device: if steps get no shorter, loading is not the limit",
        ],
        Rule::ExposedCommunication => &[
            "Overlap communication with the backward pass: DDP's bucket_cap_mb, FSDP's backward_prefetch and forward_prefetch",
            "Communicate less often (no_sync with gradient accumulation) or less (bf16 gradients)",
            "To check, compare the ranks: where one starts its collectives late, the others wait for it, not for the network",
        ],
        Rule::LaunchBound => &[
            "Launch less: torch.compile, CUDA graphs (mode=\"reduce-overhead\"), fused optimizers (fused=True), larger batches",
            "To check, see whether the launch-ahead grows and the gaps between kernels shrink",
        ],
        Rule::Synchronization => &[
            "Remove .item(), .cpu(), print(tensor), tensor conditions and torch.cuda.synchronize() from the step, or do them every N steps",
            "Copy results with non_blocking=True into pinned memory and read them one step later",
            "To find the rest, run with torch.cuda.set_sync_debug_mode(\"warn\")",
        ],
        Rule::HostBound => &[
            "Move this work off the launching thread or to the GPU, or do it while the device has work queued",
            "Record with with_stack=True to see the Python lines behind it",
            "To check, the gaps at these operators shrink while the rest of the step stays as it is",
        ],
        Rule::ExposedCopies => &[
            "Copy from pinned memory with non_blocking=True on a stream of its own, one batch ahead",
            "Create tensors on the device in place of .to(device) inside the step",
            "To check, the copies run beside kernels and no longer between them",
        ],
        Rule::PageableCopies => &[
            "Use DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, non_blocking=True)",
            "To check, the copies are named \"Pinned\" in a new recording, and their bandwidth is higher",
        ],
        Rule::Allocator => &[
            "Let the caching allocator keep memory: no torch.cuda.empty_cache() in steps, and similar shapes in each",
            "Where it frees and allocates again near the limit of memory, try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "To check, cudaMalloc and cudaFree no longer occur in steps after warm-up",
        ],
        Rule::ModuleLoad => &[
            "Warm up before the steps that matter; CUDA_MODULE_LOADING=EAGER loads all code at the start",
            "For torch.compile, find recompilations with TORCH_LOGS=recompiles, and mark shapes that vary as dynamic",
            "To check, record later steps: what is loaded once does not come back",
        ],
        Rule::GarbageCollection => &[
            "Call gc.disable() or gc.freeze() after setup, and gc.collect() at the same step on all ranks",
            "To check, the gaps with garbage collection are gone and memory does not grow",
        ],
        Rule::StepBoundary => &[
            "See what the host does between steps: logging, evaluation, schedulers and checkpoints can move off the loop or run every N steps",
            "To check, the time from the last kernel of a step to the first of the next one shrinks",
        ],
        Rule::Dependency => &[
            "Look at the stream that the work waits for: start its work earlier, or remove the event between the two",
            "To check, both streams run at the same time",
        ],
        Rule::Blocked => &[
            "See in which call the thread is blocked: file access, locks of other Python threads, or too few CPU cores",
            "To check, record with nsys and --trace=cuda,nvtx,osrt --cpuctxsw=process-tree",
        ],
        Rule::DataTime => &[
            "The loader cannot keep up: more workers, faster storage, or less work per sample",
            "To check, time the loader alone: its batches per second are a limit for the training",
        ],
        Rule::TinyKernels => &[
            "Fuse them: torch.compile, fused optimizers (foreach=True, fused=True), or larger batches",
            "To check, the step has fewer kernels, and the busy share is higher",
        ],
        Rule::SlowKernels => &[
            "Fine if this is the work itself: look for tensor-core use, lower precision and better kernels of the same operator",
            "To check one kernel, profile it with ncu --set full",
        ],
        Rule::LongKernel => &[
            "See whether its shape is expected: a single launch this long is often an unfused loop, a sort, or a wrong layout",
            "To check it, profile it with ncu --set full",
        ],
        Rule::RecurringGap => &[
            "Open the gap to see what the host did in it; ending it gains its ceiling at most, in every step",
            "To check, record the same steps again: the cluster is gone or smaller",
        ],
        Rule::MemoryNearlyFull => &[
            "Leave a tenth free: a smaller batch, activation checkpointing, or sharded optimizer state",
            "To check, look at the peak in the memory view, and by which stacks it is held",
        ],
        Rule::Unexplained => &[
            "Record more: CUDA runtime calls and with_stack=True in PyTorch, --trace=cuda,nvtx,osrt --sample=process-tree in nsys",
        ],
        Rule::Profiler => &["Profile fewer things at once or fewer steps, and do not trust the length of these gaps"],
    }
}

/// What one rule measured, beside its threshold.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    pub rank: Option<u32>,
    pub check: Check,
    pub levels: Levels,
}

impl Checked {
    /// All checks of a trace.
    pub fn all(verdicts: &Verdicts, trace: &Trace, thresholds: &Thresholds) -> Vec<Self> {
        let checked = |&check: &Check| Self { rank: trace.info.rank, check, levels: check.rule.levels(thresholds) };
        verdicts.checks.iter().map(checked).collect()
    }

    fn threshold(&self) -> f64 {
        let Levels { warn, .. } = self.levels;
        if self.check.rule == Rule::LowUtilization { warn.unwrap_or_default() } else { self.levels.first() }
    }

    fn limit(&self) -> String {
        let sign = if self.check.rule == Rule::LowUtilization { "at least" } else { "below" };
        format!("{sign} {}", value(self.threshold(), unit(self.check.rule)))
    }
}

/// Every rule that was applied, whatever it found.
pub fn checks() -> Part<Checked> {
    let figures = figures! { row: Checked;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.check.device), "Index of the device";
        words "rule", "Rule", 130, Cell::name(row.check.rule.key()), "What was judged";
        number "measured", "Measured", 0, Cell::Plain(row.check.measured), "The measured value";
        number "threshold", "Threshold", 0, Cell::Plain(row.threshold()), "Where findings begin";
        words "shown", "Measured", 90, Cell::name(&value(row.check.measured, unit(row.check.rule))), "The measured value";
        words "limit", "Limit", 90, Cell::name(&row.limit()), "Where findings begin";
    };
    Part::new("checks", "Checked", figures)
        .report("rank device rule shown limit")
        .json("rank device rule measured threshold")
}
