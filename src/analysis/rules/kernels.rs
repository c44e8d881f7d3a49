//! Kernels of a device by duration.

use hashbrown::{HashMap, HashSet};

use super::exposed::{Groups, exposed_ns};
use super::kernel_kind::KernelKind;
use super::{Device, Hit, Rule, Shares, Thresholds, is_generated};
use crate::analysis::collectives::CollectiveKernels;
use crate::analysis::kernels::short;
use crate::analysis::steps::StepSource;
use crate::analysis::tensor_cores::{is_narrow, uses_tensor_cores};
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, StringId, TimeRange, Trace};

/// Fewer kernels are not called many tiny ones.
const MIN_TINY: u64 = 100;

/// A kernel with much of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dominant {
    /// Without template and call arguments.
    pub name: String,
    /// How many kernels have this name, with different arguments.
    pub variants: usize,
    pub total_ns: DurNs,
    /// Its longest launch.
    pub longest: TimeRange,
}

/// The kernels of a device that start in a window. Collectives do not count: their duration includes waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    pub count: u64,
    pub total_ns: DurNs,
    /// Those that take longer than the threshold on average: the three with most time, their number and total.
    pub slow: Vec<Dominant>,
    pub n_slow: usize,
    pub slow_ns: DurNs,
    /// The one with the longest launch.
    pub longest: Option<Dominant>,
    /// Launches shorter than the threshold, and the three names with most of them.
    pub tiny: u64,
    pub tiny_names: Vec<String>,
    /// Of them, those that torch.compile generated.
    pub tiny_generated: u64,
    /// Matrix products in fp32 without tensor cores.
    pub fp32: Group,
    /// Those of [`KernelKind::Elementwise`].
    pub elementwise: Group,
    /// The one with most time.
    pub largest: Option<Dominant>,
    /// The time of the window in which that one runs, on whatever streams.
    pub largest_runs_ns: DurNs,
    /// Time by [`KernelKind`].
    pub kinds: [DurNs; KernelKind::N],
    /// Of the time of matrix products and convolutions.
    pub matmul: MatmulTime,
    pub exposed: ExposedKernels,
}

/// Groups of kernels beside their kinds.
const FP32: usize = KernelKind::N;
const WIDE: usize = FP32 + 1;
const LARGEST: usize = FP32 + 2;

/// What of the time of some kernels no other kernel computes beside: the most that fewer or faster ones of these save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExposedKernels {
    /// By [`KernelKind`].
    pub kinds: [DurNs; KernelKind::N],
    /// Matrix products in fp32 without tensor cores.
    pub fp32_ns: DurNs,
    /// Those with tensor cores and inputs of more than 16 bits.
    pub wide_ns: DurNs,
    /// The kernels of the name with most time.
    pub largest_ns: DurNs,
}

impl ExposedKernels {
    /// * `names`: of all kernels that count, and of those with most time.
    /// * `all`: the whole of their times.
    fn of(
        (trace, process, window): (&Trace, ProcessId, TimeRange),
        (names, largest): (&[StringId], &HashSet<StringId>),
        all: Self,
    ) -> Self {
        let groups = |name: StringId| {
            let (full, kind) = (trace.strings.get(name), KernelKind::of(&short(trace, name)));
            let is_fp32 = is_fp32_matmul(full);
            let is_wide = !is_fp32 && is_on_tensor_cores(full) && !is_narrow(full);
            let is_of = |fits: bool, group: usize| Groups::from(fits) << group;
            is_of(true, kind as usize)
                | is_of(is_fp32, FP32)
                | is_of(is_wide, WIDE)
                | is_of(largest.contains(&name), LARGEST)
        };
        let groups: HashMap<StringId, Groups> = names.iter().map(|&name| (name, groups(name))).collect();
        let of_kernel = |i: usize| groups.get(&trace.slices.name[i]).copied().unwrap_or_default();
        let Some(ns) = exposed_ns(trace, process, window, of_kernel) else { return all };
        Self {
            kinds: std::array::from_fn(|kind| ns[kind]),
            fp32_ns: ns[FP32],
            wide_ns: ns[WIDE],
            largest_ns: ns[LARGEST],
        }
    }
}

fn is_on_tensor_cores(kernel: &str) -> bool {
    KernelKind::of(kernel) == KernelKind::Matmul && uses_tensor_cores(kernel) == Some(true)
}

/// Time of matrix products and convolutions by what their names say of their precision; the rest is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatmulTime {
    /// In fp32 without tensor cores.
    pub fp32_ns: DurNs,
    /// With tensor cores.
    pub tensor_ns: DurNs,
    /// Of that, with inputs of at most 16 bits.
    pub narrow_ns: DurNs,
}

/// Kernels that have something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub count: u64,
    pub total_ns: DurNs,
    pub longest: TimeRange,
    /// With their time, the most first.
    pub names: Vec<(DurNs, String)>,
}

impl Group {
    fn add(&mut self, name: &str, sums: &Sums) {
        self.count += sums.count;
        self.total_ns += sums.total_ns;
        if self.longest.dur() < sums.longest.dur() {
            self.longest = sums.longest;
        }
        self.names.push((sums.total_ns, name.to_owned()));
    }
}

/// The name of a product in a kernel's name: a template of CUTLASS has it as its argument. `None` if no word alone is
/// one.
fn product_name(kernel: &str) -> Option<&str> {
    let mut words = kernel.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find(|word| is_fp32_matmul(word))
}

/// Whether a kernel multiplies matrices in fp32 without tensor cores: cuBLAS's `ampere_sgemm_128x64_tn`,
/// `cutlass_80_simt_sgemm_…`, `sm80_xmma_gemm_f32f32_…_ffma_…`, and cuDNN's convolutions: `scudnn`, and templates that
/// have their type as an argument. TF32 kernels are named after their instruction: `s1688gemm`, `s16816gemm`,
/// `tf32f32`.
pub fn is_fp32_matmul(kernel: &str) -> bool {
    let lower = kernel.to_ascii_lowercase();
    let is_product = ["gemm", "fprop", "dgrad", "wgrad"].iter().any(|part| lower.contains(part));
    let is_scalar = ["sgemm", "simt_s", "scudnn", "dgrad_engine<float", "wgrad_alg0_engine<float"]
        .iter()
        .any(|part| lower.contains(part))
        || is_product && lower.contains("_ffma")
        || lower.contains("winograd_nonfused") && lower.contains("<float");
    is_scalar && !["1688", "16816", "tf32", "tensorop"].iter().any(|part| lower.contains(part))
}

#[derive(Clone, Copy, Default)]
struct Sums {
    count: u64,
    /// Full names.
    names: usize,
    total_ns: DurNs,
    tiny: u64,
    longest: TimeRange,
}

/// Of the kernels of a device that start within the window, but for collectives, by their whole names. Cost: O(slices
/// of the device).
fn sums(trace: &Trace, process: ProcessId, window: TimeRange, thresholds: &Thresholds) -> HashMap<StringId, Sums> {
    let mut collectives = CollectiveKernels::new(trace);
    let mut sums: HashMap<StringId, Sums> = HashMap::new();
    let slices = &trace.slices;
    for i in trace.tracks_of(process).flat_map(|track| trace.track_slices(track)) {
        let id = SliceId(i as u32);
        if slices.kind[i] != SliceKind::Kernel || !window.contains(slices.ts[i]) || collectives.contains(id) {
            continue;
        }
        let time = slices.time(id);
        let tiny = u64::from(time.dur() < thresholds.tiny_kernel_ns);
        let one = Sums { count: 1, names: 0, total_ns: time.dur(), tiny, longest: time };
        sums.entry(slices.name[i]).or_default().add(&one);
    }
    sums
}

/// Those with most time first.
fn by_time(sums: HashMap<String, Sums>) -> Vec<(String, Sums)> {
    let mut sums: Vec<(String, Sums)> = sums.into_iter().collect();
    sums.sort_unstable_by(|a, b| (b.1.total_ns, &a.0).cmp(&(a.1.total_ns, &b.0)));
    sums
}

impl KernelStats {
    /// Cost: O(slices of the device).
    pub fn of(trace: &Trace, process: ProcessId, window: TimeRange, thresholds: &Thresholds) -> Self {
        let sums = sums(trace, process, window, thresholds);
        let mut by_name: HashMap<String, Sums> = HashMap::new();
        let names: Vec<StringId> = sums.keys().copied().collect();
        let (mut fp32, mut matmul) = (Group::default(), MatmulTime::default());
        let (mut products, mut slow) = (HashMap::<String, Sums>::new(), HashMap::<String, Sums>::new());
        let is_slow = |sums: &Sums| sums.total_ns > thresholds.slow_kernel_ns.saturating_mul(sums.count as i64);
        for (name, of_name) in sums {
            let full = trace.strings.get(name);
            if is_fp32_matmul(full) {
                let product = product_name(full).map_or_else(|| short(trace, name), str::to_owned);
                products.entry(product).or_default().add(&of_name);
            } else if is_on_tensor_cores(full) {
                matmul.tensor_ns += of_name.total_ns;
                matmul.narrow_ns += if is_narrow(full) { of_name.total_ns } else { 0 };
            }
            // Instances of one template may take very different times.
            if is_slow(&of_name) {
                slow.entry(short(trace, name)).or_default().add(&Sums { names: 1, ..of_name });
            }
            by_name.entry(short(trace, name)).or_default().add(&Sums { names: 1, ..of_name });
        }
        by_time(products).iter().for_each(|(name, sums)| fp32.add(name, sums));
        let (mut sums, slow) = (by_time(by_name), by_time(slow));
        let dominant = |(name, sums): &(String, Sums)| Dominant {
            name: name.clone(),
            variants: sums.names,
            total_ns: sums.total_ns,
            longest: sums.longest,
        };
        let is_largest = |name: &StringId| sums.first().is_some_and(|largest| largest.0 == short(trace, *name));
        let largest: HashSet<StringId> = names.iter().copied().filter(is_largest).collect();
        let largest_runs_ns = runs_ns(trace, process, window, &largest);
        matmul.fp32_ns = fp32.total_ns;
        let (mut kinds, mut elementwise) = ([0; KernelKind::N], Group::default());
        for (name, of_name) in &sums {
            let kind = KernelKind::of(name);
            kinds[kind as usize] += of_name.total_ns;
            if kind == KernelKind::Elementwise {
                elementwise.add(name, of_name);
            }
        }
        let all = ExposedKernels {
            kinds,
            fp32_ns: matmul.fp32_ns,
            wide_ns: matmul.tensor_ns - matmul.narrow_ns,
            largest_ns: sums.first().map_or(0, |largest| largest.1.total_ns),
        };
        let mut out = Self {
            exposed: ExposedKernels::of((trace, process, window), (&names, &largest), all),
            fp32,
            elementwise,
            matmul,
            largest: sums.first().map(dominant),
            largest_runs_ns,
            kinds,
            tiny_generated: sums.iter().filter(|(name, _)| is_generated(name)).map(|(_, sums)| sums.tiny).sum(),
            count: sums.iter().map(|(_, sums)| sums.count).sum(),
            total_ns: sums.iter().map(|(_, sums)| sums.total_ns).sum(),
            slow: slow.iter().take(3).map(dominant).collect(),
            n_slow: slow.len(),
            slow_ns: slow.iter().map(|(_, sums)| sums.total_ns).sum(),
            longest: sums.iter().max_by_key(|(_, sums)| sums.longest.dur()).map(dominant),
            tiny: sums.iter().map(|(_, sums)| sums.tiny).sum(),
            tiny_names: Vec::new(),
        };
        sums.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.tiny));
        let tiny = sums.into_iter().filter(|(_, sums)| sums.tiny > 0).take(3);
        out.tiny_names = tiny.map(|(name, _)| name).collect();
        out
    }
}

/// The time of the window in which at least one kernel of these names runs.
fn runs_ns(trace: &Trace, process: ProcessId, window: TimeRange, names: &HashSet<StringId>) -> DurNs {
    let slices = &trace.slices;
    let all = trace.tracks_of(process).flat_map(|track| trace.track_slices(track));
    let all = all.filter(|&i| slices.kind[i] == SliceKind::Kernel && names.contains(&slices.name[i]));
    let mut launches: Vec<TimeRange> = all.filter_map(|i| slices.time(SliceId(i as u32)).intersect(window)).collect();
    launches.sort_unstable_by_key(|launch| launch.start);
    let (mut ns, mut end) = (0, window.start);
    for launch in launches {
        ns += (launch.end - launch.start.max(end)).max(0);
        end = end.max(launch.end);
    }
    ns
}

impl Device<'_, '_> {
    /// Applies the rules about kernels.
    pub(super) fn kernels(&mut self, mut stats: KernelStats, busy_ns: DurNs) -> KernelStats {
        let thresholds = *self.out.thresholds;
        if stats.count == 0 {
            return stats;
        }
        let names = stats.slow.iter().map(|kernel| kernel.name.clone()).collect();
        let slow = Hit {
            count: stats.n_slow as u64,
            range: stats.slow.first().map(|kernel| kernel.longest),
            names,
            ..self.hit_in(Rule::SlowKernels, stats.slow_ns, stats.total_ns)
        };
        self.out.check(slow);
        if self.of.run.has_tensor_cores {
            self.group(Rule::Fp32Matmul, &stats.fp32, stats.exposed.fp32_ns);
        }
        self.stepwise_attention(stats.total_ns);
        if self.of.run.is_torch {
            self.group(Rule::Elementwise, &stats.elementwise, stats.exposed.kinds[KernelKind::Elementwise as usize]);
        }
        let is_slow = |kernel: &&Dominant| kernel.longest.dur() >= thresholds.slow_kernel_ns;
        if let Some(longest) = stats.longest.as_ref().filter(is_slow) {
            // A period of kernels may be a single one.
            let is_named = self.of.steps.is_some_and(|steps| !matches!(steps.source, StepSource::Period { .. }));
            let n_steps = if is_named { self.window.steps.len() } else { 0 };
            let (range, step) = (longest.longest, self.window.time.dur() / n_steps.max(1) as DurNs);
            let (found, names) = (self.hit_in(Rule::LongKernel, range.dur(), step), vec![longest.name.clone()]);
            self.out.check(Hit { count: 1, range: Some(range), names, n_steps, ..found });
        }
        // Where the device is busy all the time, small kernels cost nothing that this could show.
        let is_underused =
            thresholds.utilization.missed(busy_ns as f64 / self.window.time.dur().max(1) as f64).is_some();
        if is_underused && stats.count >= MIN_TINY {
            let found = self.hit_in(Rule::TinyKernels, stats.tiny as i64, stats.count as i64);
            let shares = Shares { compiled_ns: stats.tiny_generated as i64, ..Shares::default() };
            let names = std::mem::take(&mut stats.tiny_names);
            self.out.check(Hit { count: stats.tiny, names, shares, ..found });
        }
        stats
    }

    /// The time of kernels that have something in common.
    fn group(&mut self, rule: Rule, group: &Group, exposed_ns: DurNs) {
        let Group { count, total_ns, longest, ref names } = *group;
        let names = names.iter().take(3).map(|name| name.1.clone()).collect();
        self.out.check(Hit {
            count,
            range: (count > 0).then_some(longest),
            names,
            exposed_ns,
            ..self.hit(rule, total_ns)
        });
    }
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.names += other.names;
        self.total_ns += other.total_ns;
        self.tiny += other.tiny;
        if self.longest.dur() < other.longest.dur() {
            self.longest = other.longest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::busy::devices;
    use crate::model::TraceBuilder;

    #[test]
    fn launches_on_several_streams_at_once_run_once() {
        const KERNEL: SliceKind = SliceKind::Kernel;
        let slices = [
            ("stream 7", KERNEL, "a", 0, 100),
            ("stream 8", KERNEL, "a", 50, 150),
            ("stream 9", KERNEL, "a", 60, 70),
            ("stream 7", KERNEL, "b", 150, 310),
            ("stream 8", KERNEL, "a", 390, 900),
        ];
        let trace = TraceBuilder::from_slices(&slices).finish();
        let process = devices(&trace)[0].process;
        let stats = KernelStats::of(&trace, process, TimeRange { start: 20, end: 400 }, &Thresholds::default());
        assert_eq!(stats.largest.unwrap().name, "a");
        // From 20 to 150 and from 390 to 400.
        assert_eq!(stats.largest_runs_ns, 140);
    }

    #[test]
    fn kernels_beside_others_are_exposed_where_they_run_alone() {
        // Ten products of 400 µs one after the other, and after each an activation of 250 µs beside the next.
        let streams = (0..10).flat_map(|i| {
            let at = i * 400_000;
            let relu = "void at::native::vectorized_elementwise_kernel<4>(int)";
            let gemm = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n";
            [
                ("stream 7", SliceKind::Kernel, gemm, at, at + 400_000),
                ("stream 13", SliceKind::Kernel, relu, at + 400_000, at + 650_000),
            ]
        });
        let trace = TraceBuilder::from_slices(&streams.collect::<Vec<_>>()).finish();
        let stats = KernelStats::of(&trace, devices(&trace)[0].process, TimeRange::ALL, &Thresholds::default());
        let elementwise = KernelKind::Elementwise as usize;
        assert_eq!((stats.kinds[elementwise], stats.exposed.kinds[elementwise]), (2_500_000, 250_000));
        // The first one, and 150 µs of each other.
        let gemm = 400_000 + 9 * 150_000;
        let ExposedKernels { kinds, fp32_ns, wide_ns, largest_ns } = stats.exposed;
        assert_eq!((kinds[KernelKind::Matmul as usize], fp32_ns, wide_ns, largest_ns), (gemm, 0, gemm, gemm));
    }

    #[test]
    fn instances_of_a_template_are_slow_each_for_itself() {
        const KERNEL: SliceKind = SliceKind::Kernel;
        let slices = [
            ("stream 7", KERNEL, "void Kernel2<tn>(Params)", 0, 1_100_000),
            ("stream 7", KERNEL, "void Kernel2<nn>(Params)", 1_100_000, 1_600_000),
            ("stream 7", KERNEL, "void Kernel2<nn>(Params)", 1_600_000, 2_100_000),
        ];
        let trace = TraceBuilder::from_slices(&slices).finish();
        let stats = KernelStats::of(&trace, devices(&trace)[0].process, TimeRange::ALL, &Thresholds::default());
        assert_eq!((stats.n_slow, stats.slow_ns, stats.total_ns), (1, 1_100_000, 2_100_000));
        assert_eq!(stats.slow[0].name, stats.largest.unwrap().name, "all have one name");
    }

    #[test]
    fn products_in_fp32_without_tensor_cores_are_known_by_name() {
        for name in [
            "ampere_sgemm_128x64_tn",
            "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int, int)",
            "void dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)",
            "void cudnn::winograd_nonfused::winogradForwardFilter4x4<float, float>(params)",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(T1::Params)",
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
        ] {
            assert!(is_fp32_matmul(name), "{name}");
        }
        for name in [
            "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_execute_kernel_cublas",
            "ampere_s16816gemm_bf16_128x64_ldg8_tn",
            "void dgrad_engine<__half, 512, 6, 5, 3, 3, 3, false>(int, int, int)",
            "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT",
            "triton_poi_fused_ffma_0",
        ] {
            assert!(!is_fp32_matmul(name), "{name}");
        }
    }
}
