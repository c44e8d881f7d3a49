//! Idle time of a device by what would have to change.

use hashbrown::HashMap;

use crate::analysis::gaps::ceiling::is_recoverable;
use crate::analysis::gaps::{Gap, GapClass, Ledger, Trigger};
use crate::analysis::steps::is_step_name;
use crate::model::{DurNs, StringId, TimeRange, Trace};

/// Why a device waits. Each part of each gap has one cause, so that no time counts twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    DataLoading,
    Collective,
    /// The host waited for the device, or had done so just before and had nothing queued.
    Synchronization,
    LaunchBound,
    /// The host ran operators or Python.
    Host,
    Copy,
    Allocator,
    ModuleLoad,
    GarbageCollection,
    /// Between two steps, without a cause of its own.
    StepBoundary,
    Dependency,
    Blocked,
    /// Nothing recorded explains it, or its launch was not recorded.
    Unexplained,
    Profiler,
    /// Launch latency, and between the nodes of a CUDA graph: not to be avoided.
    Latency,
}

impl Cause {
    /// Number of causes.
    pub const N: usize = 15;

    /// The cause of a part of a gap.
    ///
    /// A class that names what the host did counts first: a batch that is late is late whatever emptied the queue.
    /// Otherwise it is the trigger: after a synchronization the host runs operators, but not because they are slow.
    pub fn of(class: GapClass, trigger: Option<Trigger>) -> Self {
        match class {
            GapClass::DataLoading => Self::DataLoading,
            GapClass::Collective => Self::Collective,
            GapClass::Sync => Self::Synchronization,
            GapClass::Copy => Self::Copy,
            GapClass::Allocator => Self::Allocator,
            GapClass::ModuleLoad => Self::ModuleLoad,
            GapClass::Gc => Self::GarbageCollection,
            GapClass::Dependency => Self::Dependency,
            GapClass::Profiler => Self::Profiler,
            GapClass::Blocked if trigger != Some(Trigger::Sync) => Self::Blocked,
            GapClass::LaunchLatency | GapClass::Graph if trigger != Some(Trigger::LaunchBound) => Self::Latency,
            GapClass::Queued | GapClass::NoLaunch => Self::Unexplained,
            // A synchronization that ended long ago does not explain time without any record.
            GapClass::Unknown if !matches!(trigger, Some(Trigger::StepBoundary | Trigger::Profiler)) => {
                Self::Unexplained
            }
            _ => match (trigger, class) {
                (Some(Trigger::Sync), _) => Self::Synchronization,
                (Some(Trigger::LaunchBound), _) => Self::LaunchBound,
                (Some(Trigger::Profiler), _) => Self::Profiler,
                (Some(Trigger::StepBoundary), _) => Self::StepBoundary,
                (_, GapClass::Launch) => Self::LaunchBound,
                _ => Self::Host,
            },
        }
    }
}

/// The idle time of one cause within a window.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Gaps with a part of it.
    pub gaps: u64,
    pub total_ns: DurNs,
    /// Of that, what ending the cause would save at most; see [`crate::analysis::gaps::ceiling`].
    pub recoverable_ns: DurNs,
    /// The gap with most of it.
    pub longest: Option<(TimeRange, DurNs)>,
    /// Time by the name of the host slice that explains it, in gaps that are not micro gaps.
    names: HashMap<StringId, DurNs>,
}

impl Account {
    /// The names with most time, at most `n`; none if the names together have less than half of it.
    pub fn names(&self, trace: &Trace, n: usize) -> Vec<String> {
        let mut names: Vec<(DurNs, &str)> =
            self.names.iter().map(|(&name, &ns)| (ns, trace.strings.get(name))).collect();
        names.retain(|(_, name)| !is_step_name(name) || name.starts_with("enumerate(DataLoader)"));
        names.sort_unstable_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
        names.truncate(n);
        if 2 * names.iter().map(|(ns, _)| ns).sum::<DurNs>() < self.total_ns {
            return Vec::new();
        }
        names.into_iter().map(|(_, name)| name.to_owned()).collect()
    }
}

/// The idle time of a device within `window` by [`Cause`]; their totals sum to it.
///
/// Cost: O(parts within).
pub fn accounts(trace: &Trace, ledger: &Ledger, window: TimeRange) -> Vec<Account> {
    let mut all = vec![Account::default(); Cause::N];
    for index in ledger.within(window) {
        let gap = ledger.gap(index);
        let is_macro = gap.time.dur() >= ledger.theta_ns;
        let mut own = [0; Cause::N];
        for part in ledger.parts(index) {
            let Some(time) = part.time.intersect(window) else { continue };
            let cause = Cause::of(part.class, gap.trigger);
            own[cause as usize] += time.dur();
            let account = &mut all[cause as usize];
            account.recoverable_ns += if is_recoverable(part.class) { time.dur() } else { 0 };
            // The synchronization that emptied the queue, not what the host did after it.
            let synced = gap.trigger_slice.filter(|_| cause == Cause::Synchronization);
            if let Some(slice) = synced.or(part.slice).filter(|_| is_macro) {
                *account.names.entry(trace.slices.name[slice.idx()]).or_default() += time.dur();
            }
        }
        for (account, ns) in all.iter_mut().zip(own) {
            account.add(&gap, ns);
        }
    }
    all
}

impl Account {
    /// Adds the time of one gap.
    fn add(&mut self, gap: &Gap, ns: DurNs) {
        if ns > 0 {
            self.gaps += 1;
            self.total_ns += ns;
            if self.longest.is_none_or(|(_, longest)| ns > longest) {
                self.longest = Some((gap.time, ns));
            }
        }
    }
}
