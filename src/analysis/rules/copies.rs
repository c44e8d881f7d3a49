//! Copies between host and device: those that nothing hides, and those of pageable memory.

use super::sites::Sites;
use super::{Basis, Device, Hit, Rule, Shares, Window};
use crate::analysis::gaps::Near;
use crate::analysis::phases::Phase;
use crate::model::{CopyKind, MemoryCopy, SliceId, TimeRange};

impl<'a> Device<'a, '_> {
    /// The copies of the device.
    pub(super) fn copies(&self) -> impl Iterator<Item = (SliceId, &'a MemoryCopy)> + use<'a> {
        let trace = self.of.trace;
        let rows = trace.rows_of(self.busy.process);
        let slices = rows.first().map_or(0, |row| row.slices.start)..rows.last().map_or(0, |row| row.slices.end);
        trace.facts.copies.within(slices)
    }

    /// Adds the copies of the window by direction.
    pub(super) fn add_copies(&self, shares: &mut Shares) {
        for (id, copy) in self.copies() {
            if let Some(time) = self.of.trace.slices.time(id).intersect(self.window.time) {
                shares.add_copy(copy.kind, time.dur());
            }
        }
    }

    /// Large copies from or to pageable memory: they are staged, and the host waits for them. Of the start-up, which is
    /// not judged, they are a note if they take much of the recording: loading of weights, most often.
    pub(super) fn pageable_copies(&mut self) {
        let (judged, whole) = (self.window.time, self.window.whole);
        let Some(found) = self.pageable_copies_in(judged) else { return };
        let is_found = found.count > 0;
        self.out.check(found);
        let sites = self.has(Rule::PageableCopies).then(|| self.copy_sites(judged, true));
        if let Some((hit, sites)) = self.out.hit_of(Rule::PageableCopies, self.window.device).zip(sites) {
            hit.sites = sites.top(2, sites.total_ns());
        }
        let before = TimeRange { start: whole.start, end: judged.start.max(whole.start) };
        let Some(found) = self.pageable_copies_in(before).filter(|_| !is_found && !self.window.basis.is_range()) else {
            return;
        };
        let threshold = self.out.thresholds.pageable.warn.unwrap_or(1.0);
        let measured = found.amount as f64 / whole.dur().max(1) as f64;
        if found.count > 0 && measured >= threshold {
            let of = whole.dur();
            let basis = Basis::StartUp;
            self.out.verdicts.hits.push(Hit { of, measured, threshold, basis, n_steps: 0, ..found });
        }
    }

    /// Those that begin in `time`, as a share of the window; `None` if nothing says which copies are pageable.
    fn pageable_copies_in(&self, time: TimeRange) -> Option<Hit> {
        let (trace, slices) = (self.of.trace, &self.of.trace.slices);
        let (mut is_known, mut found) = (false, self.hit(Rule::PageableCopies, 0));
        let (mut longest, mut has_some) = (0, vec![false; self.window.steps.len()]);
        for (id, copy) in self.copies() {
            let is_host = matches!(copy.kind, CopyKind::HtoD | CopyKind::DtoH);
            let Some(is_pageable) = copy.is_pageable.filter(|_| is_host) else { continue };
            is_known = true;
            let span = slices.time(id);
            let is_large = copy.bytes.is_some_and(|bytes| bytes > self.out.thresholds.pageable_bytes);
            if is_pageable && is_large && time.contains(span.start) {
                found.count += 1;
                found.amount += span.dur();
                found.shares.add_copy(copy.kind, span.dur());
                let at = self.window.steps.partition_point(|step| step.end <= span.start);
                if self.window.steps.get(at).is_some_and(|step| step.contains(span.start)) {
                    has_some[at] = true;
                }
                if span.dur() > longest {
                    longest = span.dur();
                    found.range = Some(span);
                    found.names = vec![trace.slice_name(id).to_owned()];
                }
            }
        }
        found.measured = found.amount as f64 / found.of.max(1) as f64;
        let comes_back = has_some.len() > 1 && has_some.iter().all(|&has_some| has_some);
        found.is_of_batches = comes_back || self.loads_data_in(time);
        is_known.then_some(found)
    }

    /// Whether the host loads data in `time`, of which steps count as they are on the host.
    fn loads_data_in(&self, time: TimeRange) -> bool {
        let Window { time: judged, host_steps, .. } = self.window;
        let host = match (host_steps.first(), host_steps.last()) {
            (Some(first), Some(last)) if time == *judged => TimeRange { start: first.start, end: last.end },
            _ => time,
        };
        self.of.phases.within(host)[Phase::DataLoading as usize] > 0
    }

    /// Where in the program a hit about exposed copies copies: the idle time in calls that copy, and the copies.
    pub(super) fn exposed_copies_of_places(&mut self, mut sites: Sites<'a>) {
        if self.has(Rule::ExposedCopies) {
            sites.extend(self.copy_sites(self.window.time, false));
            if let Some(hit) = self.out.hit_of(Rule::ExposedCopies, self.window.device) {
                hit.sites = sites.top(2, sites.total_ns());
            }
        }
    }

    fn has(&mut self, rule: Rule) -> bool {
        self.out.hit_of(rule, self.window.device).is_some()
    }

    /// The calls that started the copies between host and device in `time`, with the time of these copies.
    ///
    /// * `is_large`: only large ones from or to pageable memory.
    fn copy_sites(&self, time: TimeRange, is_large: bool) -> Sites<'a> {
        let (trace, slices) = (self.of.trace, &self.of.trace.slices);
        let least = if is_large { self.out.thresholds.pageable_bytes } else { 0 };
        let (mut sites, near) = (Sites::default(), Near::new(trace));
        for (id, copy) in self.copies() {
            let is_host = matches!(copy.kind, CopyKind::HtoD | CopyKind::DtoH);
            let is_meant = !is_large || copy.is_pageable == Some(true) && copy.bytes.is_some_and(|bytes| bytes > least);
            if is_host
                && is_meant
                && time.contains(slices.ts[id.idx()])
                && let Some(call) = trace.launch_of(id)
            {
                sites.add(trace, call, slices.time(id).dur(), &near);
            }
        }
        sites
    }
}
