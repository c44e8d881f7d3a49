//! Accounts of some gaps, joined with those of later ones.

use super::{Account, Shares};
use crate::model::DurNs;

impl Account<'_> {
    /// Adds the account of later gaps.
    pub(super) fn extend(&mut self, later: Self) {
        self.gaps += later.gaps;
        self.total_ns += later.total_ns;
        self.by_class.iter_mut().zip(later.by_class).for_each(|(sum, ns)| *sum += ns);
        self.recorder_ns += later.recorder_ns;
        extend(&mut self.by_step, later.by_step);
        extend(&mut self.gain_by_step, later.gain_by_step);
        extend(&mut self.small_by_step, later.small_by_step);
        extend(&mut self.ahead_by_step, later.ahead_by_step);
        if later.longest.is_some_and(|later| self.longest.is_none_or(|longest| later.1 > longest.1)) {
            self.longest = later.longest;
        }
        later.names.into_iter().for_each(|(name, ns)| *self.names.entry(name).or_default() += ns);
        later.waits.into_iter().for_each(|(name, ns)| *self.waits.entry(name).or_default() += ns);
        self.sites.extend(later.sites);
        self.callees.extend(later.callees);
        self.long.extend(later.long);
        self.long_parts.extend(later.long_parts);
        self.origins.extend(later.origins);
        self.shares.extend(later.shares);
    }
}

fn extend(by_step: &mut Vec<DurNs>, later: Vec<DurNs>) {
    by_step.resize(by_step.len().max(later.len()), 0);
    by_step.iter_mut().zip(later).for_each(|(sum, ns)| *sum += ns);
}

impl Shares {
    /// Adds those of others.
    fn extend(&mut self, other: Self) {
        let Self {
            compiled_ns,
            inferred_ns,
            waits_ns,
            on_cpu_ns,
            unlaunched_ns,
            to_device_ns,
            from_device_ns,
            room_ns,
            slow_ns,
            optimizer_ns,
            apart_ns,
            saves_ns,
            copied_ns,
            prepared_ns,
            after_ns,
            lead_ns,
            collective_ns,
            elsewhere_ns,
            queued_ns,
        } = other;
        for (sum, ns) in [
            (&mut self.compiled_ns, compiled_ns),
            (&mut self.inferred_ns, inferred_ns),
            (&mut self.waits_ns, waits_ns),
            (&mut self.on_cpu_ns, on_cpu_ns),
            (&mut self.unlaunched_ns, unlaunched_ns),
            (&mut self.to_device_ns, to_device_ns),
            (&mut self.from_device_ns, from_device_ns),
            (&mut self.room_ns, room_ns),
            (&mut self.slow_ns, slow_ns),
            (&mut self.optimizer_ns, optimizer_ns),
            (&mut self.apart_ns, apart_ns),
            (&mut self.saves_ns, saves_ns),
            (&mut self.copied_ns, copied_ns),
            (&mut self.prepared_ns, prepared_ns),
            (&mut self.after_ns, after_ns),
            (&mut self.lead_ns, lead_ns),
            (&mut self.collective_ns, collective_ns),
            (&mut self.elsewhere_ns, elsewhere_ns),
            (&mut self.queued_ns, queued_ns),
        ] {
            *sum += ns;
        }
    }
}
