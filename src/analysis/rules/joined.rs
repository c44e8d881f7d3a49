//! Further costs of a cause besides its idle time, joined into one finding.

use super::{Device, Hit, Irregular, Rule};
use crate::model::{CopyKind, DurNs, TimeRange};

/// What is of the same cause as a hit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Other rules that it has a hit of, with their time.
    pub rules: Vec<(Rule, DurNs)>,
    /// The step that it makes longer than the others.
    pub irregular: Option<Irregular>,
}

impl Device<'_, '_> {
    /// Joins what is one cause into the hit with most of its time, which is as severe as the worst of them:
    ///
    /// * a step that differs because of a cause that nearly all of its time is of, and
    /// * of a checkpoint, or of what the host does with data that it copied: the copies and the waits for them.
    pub(super) fn join(&mut self) {
        let device = self.window.device;
        let of_device = |hit: &&Hit| hit.device == device;
        let hits = &self.out.verdicts.hits;
        let copies_first = hits.iter().filter(of_device).filter(|hit| hit.is_saving() || hit.is_after_copies());
        if let Some(rule) = copies_first.max_by_key(|hit| hit.amount).map(|hit| hit.rule) {
            let rules = [Rule::ExposedCopies, Rule::PageableCopies, Rule::Synchronization];
            for other in rules.into_iter().filter(|&other| other != rule) {
                if self.is_of_saving(rule, other) {
                    self.take(other, rule);
                }
            }
        }
        let once = self.out.verdicts.hits.iter().filter(of_device).filter(|hit| hit.once.is_some());
        let Some(rule) = once.max_by_key(|hit| hit.amount).map(|hit| hit.rule) else { return };
        let Some(irregular) = self.out.hit_of(Rule::IrregularSteps, device).and_then(|hit| hit.irregular.clone())
        else {
            return;
        };
        let Some(hit) = self.out.hit_of(rule, device) else { return };
        let joined = hit.joined.rules.iter().map(|joined| joined.1).sum::<DurNs>();
        let explains = |once: &super::Once| {
            let more = irregular.step_ns - irregular.median_ns;
            irregular.steps.len() == 1 && irregular.steps[0] == once.step && 2 * (once.ns + joined) >= more && more > 0
        };
        if hit.once.as_ref().is_some_and(explains) {
            self.take(Rule::IrregularSteps, rule);
        }
    }

    /// Whether the time of another hit is of the same checkpoint: it is in the same single step, or most of it is in
    /// what writes one.
    fn is_of_saving(&mut self, rule: Rule, other: Rule) -> bool {
        let device = self.window.device;
        let step = |hit: &mut Hit| hit.once.as_ref().map(|once| once.step.clone());
        let saved = self.out.hit_of(rule, device).and_then(step);
        let Some(hit) = self.out.hit_of(other, device) else { return false };
        // Loading of weights is before the judged time, and copies to the device are of no checkpoint.
        let is_from_device = hit.shares.from_device_ns > hit.amount - hit.shares.from_device_ns;
        if other != Rule::Synchronization
            && !(is_from_device && hit.range.is_some_and(|range| self.window.time.contains(range.start)))
        {
            return false;
        }
        let (amount, own) = (hit.amount, step(hit));
        if hit.is_saving() || saved.is_some() && saved == own {
            return true;
        }
        if other != Rule::PageableCopies {
            return false;
        }
        // A rule about copies alone has no step.
        let steps = self.window.steps.clone();
        let in_step = steps.into_iter().find(|step| saved.as_ref() == Some(&self.step_name(step.start)));
        in_step.is_some_and(|step| 10 * self.copied_from_device(step) >= 9 * amount)
    }

    /// How long large copies to pageable memory take that begin in `time`.
    fn copied_from_device(&self, time: TimeRange) -> DurNs {
        let slices = &self.of.trace.slices;
        let least = self.out.thresholds.pageable_bytes;
        let copies = self.copies().filter(|(id, copy)| {
            let is_large = copy.bytes.is_some_and(|bytes| bytes > least);
            copy.kind == CopyKind::DtoH
                && copy.is_pageable == Some(true)
                && is_large
                && time.contains(slices.ts[id.idx()])
        });
        copies.map(|(id, _)| slices.time(id).dur()).sum()
    }

    /// Makes the hit of a rule a part of that of another.
    fn take(&mut self, rule: Rule, into: Rule) {
        let device = self.window.device;
        let Some(at) = self.out.verdicts.hits.iter().position(|hit| (hit.rule, hit.device) == (rule, device)) else {
            return;
        };
        let taken = self.out.verdicts.hits.remove(at);
        let Some(hit) = self.out.hit_of(into, device) else { return };
        hit.severity = hit.severity.max(taken.severity);
        let every = hit.once.as_ref().and_then(|once| once.also.every);
        let of_once = taken.once.as_ref().map(|once| once.gain_ns_per_step(every));
        // What it saves of other causes may be of the one that it is joined to.
        let own = taken.ceiling_ns_per_step.map(|ns| ns - taken.ahead_ns);
        let gain = of_once.or(own).unwrap_or_default();
        hit.ceiling_ns_per_step = hit.ceiling_ns_per_step.map(|ns| ns + gain);
        hit.usual_ns_per_step = hit.usual_ns_per_step.filter(|_| gain == 0);
        match taken.irregular {
            Some(irregular) => hit.joined.irregular = Some(irregular),
            None => hit.joined.rules.push((rule, taken.amount)),
        }
        // What it gains counts once.
        let ceilings = [(into, hit.ceiling_ns_per_step), (rule, None)];
        for check in self.out.verdicts.checks.iter_mut().filter(|check| check.device == device) {
            if let Some((_, ceiling)) = ceilings.iter().find(|(rule, _)| *rule == check.rule) {
                check.ceiling_ns_per_step = *ceiling;
            }
        }
    }
}
