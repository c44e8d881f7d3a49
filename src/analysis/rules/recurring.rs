//! The recurring gap that costs most of a device's time.

use super::account::Books;
use super::cause::{Cause, cause_of};
use super::per_step::{PerStep, add};
use super::{Device, Hit, Rule};
use crate::analysis::gaps::ceiling::is_recoverable;
use crate::analysis::gaps::clusters::{Clusters, GapCluster};
use crate::analysis::gaps::{GapClass, GapPart};
use crate::model::{DurNs, TimeRange};

/// A cluster of gaps that comes back in steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recurring {
    /// Work before and after, without template and call arguments.
    pub prev: String,
    pub next: String,
    /// Operator and frame of the host; empty if unknown.
    pub op: String,
    pub frame: String,
    /// In how many steps it is.
    pub n_present: usize,
    pub n_steps: usize,
    /// Of a step.
    pub ns_per_step: DurNs,
    /// What of that is of the cause of the hit that it is evidence of.
    pub of_cause_ns: DurNs,
    /// The longest of its gaps in these steps.
    pub longest: TimeRange,
    /// Whether it lies inside CUDA graphs, where the host does nothing.
    pub is_in_graph: bool,
}

impl Device<'_, '_> {
    /// Checks the cluster of gaps with most time, if it comes back. If causes with hits have most of its time, it is
    /// evidence of the largest of them, else a hit of its own. The ceiling of such a hit leaves out causes with hits.
    pub(super) fn recurring(&mut self, clusters: &Clusters, books: &Books<'_, '_>) {
        // In one step nothing comes back.
        let Some(n_steps) = Some(clusters.n_steps).filter(|&n| n > 1) else { return };
        let several = clusters.recurring().filter(|cluster| cluster.sum.steps_present > 1);
        let Some(cluster) = several.max_by_key(|cluster| cluster.sum.in_steps_ns) else { return };
        let step = self.window.steps.iter().map(|step| step.dur()).sum::<DurNs>() / n_steps as DurNs;
        let ns_per_step = cluster.sum.in_steps_ns / n_steps as DurNs;
        let longest = clusters.gaps(cluster).iter().map(|&gap| books.ledger.time(gap as usize));
        let longest = longest.filter(|time| self.window.time.contains(time.start));
        let recurring = Recurring {
            prev: clusters.name(cluster.prev).to_owned(),
            next: clusters.name(cluster.next).to_owned(),
            op: clusters.op(cluster).to_owned(),
            frame: clusters.name(cluster.frame).to_owned(),
            n_present: cluster.sum.steps_present,
            n_steps,
            ns_per_step,
            of_cause_ns: ns_per_step,
            longest: longest.max_by_key(|time| time.dur()).unwrap_or_default(),
            is_in_graph: cluster.class == GapClass::Graph,
        };
        let (of_cause, gain) = self.causes(clusters, cluster, books);
        self.out.check(Hit {
            count: cluster.sum.steps_present as u64,
            n_steps,
            range: Some(recurring.longest),
            names: [&recurring.prev, &recurring.next, &recurring.op, &recurring.frame].map(Clone::clone).into(),
            ceiling_ns_per_step: gain.some(),
            usual_ns_per_step: gain.usual_ns,
            recurring: Some(recurring.clone()),
            ..self.hit_in(Rule::RecurringGap, ns_per_step, step)
        });
        let device = self.window.device;
        let is_hit = self.out.hit_of(Rule::RecurringGap, device).is_some();
        let hit = of_cause.filter(|_| is_hit).and_then(|(ns, rule)| Some((ns, self.out.hit_of(rule, device)?)));
        if let Some((ns, hit)) = hit {
            let of_cause_ns = (ns / n_steps as DurNs).min(ns_per_step);
            hit.recurring = Some(Recurring { of_cause_ns, ..recurring });
            self.out.verdicts.hits.retain(|hit| (hit.rule, hit.device) != (Rule::RecurringGap, device));
        }
    }

    /// Of the rules with a hit that together have most of the time of a cluster, the one with most of it, with that
    /// time; and what can be gained from other causes. Both within the window.
    fn causes(
        &mut self,
        clusters: &Clusters,
        cluster: &GapCluster,
        books: &Books<'_, '_>,
    ) -> (Option<(DurNs, Rule)>, PerStep) {
        let mut all = [0; Cause::N];
        let mut gains: Vec<Vec<DurNs>> = vec![Vec::new(); Cause::N];
        for &index in clusters.gaps(cluster) {
            let gap = books.ledger.gap(index as usize);
            let known = books.taken_of_whole(index as usize, &gap, self.window.time);
            let mut recorded = books.unrecorded.gap(index as usize);
            let step = self.window.piece_of(gap.time);
            for (i, part) in books.ledger.parts(index as usize).enumerate() {
                let Some(time) = part.time.intersect(self.window.time) else { continue };
                let part = GapPart { time, ..part };
                let cause = cause_of(self.of.trace, &gap, &part, self.of.is_between_steps(&part)) as usize;
                all[cause] += time.dur();
                if is_recoverable(part.class, &gap) {
                    let taken = known.map_or_else(|| recorded.of_part(&part), |known| DurNs::from(known[i]));
                    let gain = time.dur() - taken;
                    add(&mut gains[cause], step, gain);
                }
            }
        }
        let mut of_hits: Vec<(DurNs, Rule)> = Vec::new();
        for rule in Rule::ALL {
            if let Some(cause) = rule.cause().filter(|_| self.out.hit_of(rule, self.window.device).is_some()) {
                gains[cause as usize].clear();
                of_hits.push((all[cause as usize], rule));
            }
        }
        let explained = of_hits.iter().map(|(ns, _)| ns).sum::<DurNs>();
        let most = of_hits.into_iter().max().filter(|_| 2 * explained > all.iter().sum());
        let mut by_step = vec![0; self.window.steps.len()];
        for gains in &gains {
            by_step.iter_mut().zip(gains).for_each(|(sum, gain)| *sum += gain);
        }
        (most, PerStep::of(&by_step))
    }
}
