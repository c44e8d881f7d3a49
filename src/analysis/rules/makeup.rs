//! Composition of a device's time, healthy or not.

use super::account::LEAST_SHARE;
use super::kernels::{Dominant, ExposedKernels, KernelStats, MatmulTime};
use super::{Cause, KernelKind, Reach, Shares, Window};
use crate::analysis::breakdown::Breakdown;
use crate::analysis::gaps::GapClass;
use crate::model::{DurNs, ProcessId};

/// What most of a device's time goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Compute,
    Communication,
    Copies,
    /// It waits.
    Idle,
}

impl Bound {
    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Communication => "communication",
            Self::Copies => "copies",
            Self::Idle => "idle",
        }
    }
}

/// The judged time of a device by what it does, and what most of it goes into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Makeup {
    pub device: Option<u32>,
    /// The processes that launch its work and how long that takes, most first, if several have a share that counts; else
    /// none.
    pub processes: Vec<(ProcessId, DurNs)>,
    /// Sums to the judged time.
    pub parts: Breakdown,
    /// Of the communication without compute, waiting for other ranks; 0 where none were compared.
    pub waiting_ns: DurNs,
    /// The same, of the idle time: in collectives of the host.
    pub idle_waiting_ns: DurNs,
    /// Late ranks whose coming sooner would end some of that, the one that would end most first.
    pub late_ranks: Vec<u32>,
    /// Kernels other than of collectives; those that overlap count each.
    pub kernel_ns: DurNs,
    /// The one with most time.
    pub kernel: Option<Dominant>,
    /// The judged time in which that one runs.
    pub kernel_runs_ns: DurNs,
    /// What faster kernels save of the judged time at most; `None` where nothing shows it.
    pub reach: Option<Reach>,
    /// Kernel time by [`KernelKind`].
    pub kinds: [DurNs; KernelKind::N],
    pub matmul: MatmulTime,
    /// What of these no other kernel computes beside.
    pub exposed: ExposedKernels,
    /// Idle time by [`Cause`], those that have any, the largest first.
    pub causes: Vec<(Cause, DurNs)>,
    /// Each of these by what went on meanwhile, the most first; sums to it.
    pub meanwhile: Vec<Vec<(GapClass, DurNs)>>,
    /// Of each cause, in the order of `causes`, after the wait that it is: the host had not the lead again that it lost
    /// in that.
    pub lead_ns: Vec<DurNs>,
    /// Of [`Cause::Latency`], between work that was already queued: its launch had returned before.
    pub queued_ns: DurNs,
}

impl Makeup {
    /// * `idle`: of each [`Cause`], in their order, by what went on meanwhile.
    /// * `shares`: of each [`Cause`], in their order.
    pub(super) fn new(
        window: &Window,
        parts: Breakdown,
        kernels: KernelStats,
        idle: &[[DurNs; GapClass::N]; Cause::N],
        shares: &[Shares; Cause::N],
    ) -> Self {
        let totals = idle.iter().map(|by_class| by_class.iter().sum::<DurNs>());
        let mut causes: Vec<(Cause, DurNs)> = Cause::ALL.into_iter().zip(totals).filter(|cause| cause.1 > 0).collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.1));
        let classes = |&(cause, _): &(Cause, DurNs)| {
            let of_cause = GapClass::ALL.into_iter().zip(idle[cause as usize]).filter(|class| class.1 > 0);
            let mut of_cause: Vec<(GapClass, DurNs)> = of_cause.collect();
            of_cause.sort_by_key(|class| std::cmp::Reverse(class.1));
            of_cause
        };
        let meanwhile = causes.iter().map(classes).collect();
        let lead_ns = causes.iter().map(|cause| shares[cause.0 as usize].lead_ns).collect();
        let KernelStats {
            total_ns: kernel_ns,
            largest: kernel,
            largest_runs_ns: kernel_runs_ns,
            kinds,
            matmul,
            exposed,
            ..
        } = kernels;
        Self {
            device: window.device,
            processes: Vec::new(),
            parts,
            waiting_ns: 0,
            idle_waiting_ns: 0,
            late_ranks: Vec::new(),
            kernel_ns,
            kernel,
            kernel_runs_ns,
            reach: None,
            kinds,
            matmul,
            exposed,
            causes,
            meanwhile,
            lead_ns,
            queued_ns: shares[Cause::Latency as usize].queued_ns,
        }
    }

    /// Says which processes share the device.
    ///
    /// * `all`: that launch on it, most work first. Those with less than a twentieth of the work change nothing.
    pub(super) fn share_among(&mut self, mut all: Vec<(ProcessId, DurNs)>) {
        let total = all.iter().fold(0_i64, |sum, of| sum.saturating_add(of.1));
        all.retain(|of| of.1 >= total / LEAST_SHARE);
        self.processes = if all.len() > 1 { all } else { Vec::new() };
    }

    /// All of the judged time.
    pub fn window_ns(&self) -> DurNs {
        let Breakdown { compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns } = self.parts;
        compute_ns + exposed_comm_ns + exposed_copy_ns + idle_ns
    }

    /// The largest of the parts of its time; of equal ones the first in the order of [`Bound`].
    pub fn bound(&self) -> Bound {
        let Breakdown { compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns } = self.parts;
        let parts = [
            (Bound::Compute, compute_ns),
            (Bound::Communication, exposed_comm_ns),
            (Bound::Copies, exposed_copy_ns),
            (Bound::Idle, idle_ns),
        ];
        parts.into_iter().rev().max_by_key(|part| part.1).map_or(Bound::Compute, |part| part.0)
    }

    /// The kind of kernels with most time, and that time.
    pub fn kind(&self) -> (KernelKind, DurNs) {
        most_of(self.kinds)
    }

    /// The kind with most time that no other kernel computes beside, and that time.
    pub fn exposed_kind(&self) -> (KernelKind, DurNs) {
        most_of(self.exposed.kinds)
    }
}

/// Of equal ones the last.
fn most_of(kinds: [DurNs; KernelKind::N]) -> (KernelKind, DurNs) {
    let kinds = KernelKind::ALL.into_iter().zip(kinds);
    kinds.max_by_key(|kind| kind.1).unwrap_or((KernelKind::Other, 0))
}
