//! Kernels of a device by duration.

use hashbrown::HashMap;

use super::Thresholds;
use crate::analysis::collectives::CollectiveKernels;
use crate::analysis::kernels::short;
use crate::model::{DurNs, ProcessId, SliceId, SliceKind, StringId, TimeRange, Trace, TrackId};

/// A kernel with much of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dominant {
    /// Without template and call arguments.
    pub name: String,
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
}

#[derive(Clone, Copy, Default)]
struct Sums {
    count: u64,
    total_ns: DurNs,
    tiny: u64,
    longest: TimeRange,
}

impl KernelStats {
    /// Cost: O(slices of the device).
    pub fn of(trace: &Trace, process: ProcessId, window: TimeRange, thresholds: &Thresholds) -> Self {
        let mut collectives = CollectiveKernels::new(trace);
        let mut sums: HashMap<StringId, Sums> = HashMap::new();
        let slices = &trace.slices;
        let tracks = (0..trace.tracks.len() as u32).map(TrackId).filter(|&track| trace.track(track).process == process);
        for i in tracks.flat_map(|track| trace.track_slices(track)) {
            let id = SliceId(i as u32);
            if slices.kind[i] != SliceKind::Kernel || !window.contains(slices.ts[i]) || collectives.contains(id) {
                continue;
            }
            let time = slices.time(id);
            let tiny = u64::from(time.dur() < thresholds.tiny_kernel_ns);
            let one = Sums { count: 1, total_ns: time.dur(), tiny, longest: time };
            sums.entry(slices.name[i]).or_default().add(&one);
        }
        let mut by_name: HashMap<String, Sums> = HashMap::new();
        for (name, of_name) in sums {
            by_name.entry(short(trace, name)).or_default().add(&of_name);
        }
        let mut sums: Vec<(String, Sums)> = by_name.into_iter().collect();
        sums.sort_unstable_by(|a, b| (b.1.total_ns, &a.0).cmp(&(a.1.total_ns, &b.0)));
        let dominant = |(name, sums): &(String, Sums)| Dominant {
            name: name.clone(),
            total_ns: sums.total_ns,
            longest: sums.longest,
        };
        let is_slow = |sums: &Sums| sums.total_ns > thresholds.slow_kernel_ns.saturating_mul(sums.count as i64);
        let slow: Vec<&(String, Sums)> = sums.iter().filter(|(_, sums)| is_slow(sums)).collect();
        let mut out = Self {
            count: sums.iter().map(|(_, sums)| sums.count).sum(),
            total_ns: sums.iter().map(|(_, sums)| sums.total_ns).sum(),
            slow: slow.iter().take(3).map(|of| dominant(of)).collect(),
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

impl Sums {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.tiny += other.tiny;
        if self.longest.dur() < other.longest.dur() {
            self.longest = other.longest;
        }
    }
}
