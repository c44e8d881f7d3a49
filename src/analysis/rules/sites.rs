//! Where in the program calls were made that cost time.

use hashbrown::HashMap;

use super::account::LEAST_SHARE;
use crate::analysis::frame::without_address;
use crate::analysis::gaps::place_of_call;
use crate::model::{DurNs, SliceId, Trace};

/// A call in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSite {
    pub call: String,
    /// The operator that called it, and the innermost frame of the user's program; empty if unknown.
    pub operator: String,
    pub frame: String,
}

/// Time by the names of a [`CallSite`].
#[derive(Clone, Debug, Default)]
pub struct Sites<'a>(HashMap<[&'a str; 3], DurNs>);

/// Time by the user's frame, or the node of the backward pass, that launched the work.
#[derive(Clone, Debug, Default)]
pub struct Origins<'a>(HashMap<&'a str, DurNs>);

impl<'a> Origins<'a> {
    /// Adds time; none changes nothing.
    pub fn add(&mut self, origin: &'a str, ns: DurNs) {
        *self.0.entry(origin).or_default() += ns;
    }

    /// Those with most time, at most `n`, each with a share of `total` that counts, and their times.
    pub fn top(&self, n: usize, total: DurNs) -> Vec<(String, DurNs)> {
        let mut all: Vec<(&str, DurNs)> = self.0.iter().map(|(&origin, &ns)| (origin, ns)).collect();
        all.sort_unstable_by_key(|&(origin, ns)| (std::cmp::Reverse(ns), origin));
        let counted = all.into_iter().take(n).filter(|(_, ns)| ns * LEAST_SHARE >= total);
        counted.map(|(origin, ns)| (without_address(origin).into_owned(), ns)).collect()
    }
}

impl<'a> Sites<'a> {
    /// Adds time of a call, or of the operator or function that made it. Cost: O(rows of the track · log n).
    pub fn add(&mut self, trace: &'a Trace, call: SliceId, ns: DurNs) {
        let place = place_of_call(trace, call);
        let operator = place.operator.filter(|&operator| operator != call);
        let operator = operator.map_or("", |slice| trace.slice_name(slice));
        let name = trace.slice_name(call);
        let frame = place.frame.filter(|&frame| frame != name).unwrap_or_default();
        *self.0.entry([name, operator, frame]).or_default() += ns;
    }

    pub fn extend(&mut self, other: Self) {
        for (site, ns) in other.0 {
            *self.0.entry(site).or_default() += ns;
        }
    }

    pub fn total_ns(&self) -> DurNs {
        self.0.values().sum()
    }

    /// Those with most time, at most `n`, each with a share that counts; none if together they have less than half of
    /// `total`.
    pub fn top(&self, n: usize, total: DurNs) -> Vec<CallSite> {
        self.ranked(n, total).into_iter().map(|(site, _)| site).collect()
    }

    /// The one with most time, and that time, if it is half of `total` or more.
    pub fn most(&self, total: DurNs) -> Option<(CallSite, DurNs)> {
        self.ranked(1, total).pop()
    }

    fn ranked(&self, n: usize, total: DurNs) -> Vec<(CallSite, DurNs)> {
        let mut sites: Vec<(DurNs, [&str; 3])> = self.0.iter().map(|(&site, &ns)| (ns, site)).collect();
        sites.sort_unstable_by_key(|&(ns, site)| (std::cmp::Reverse(ns), site));
        sites.truncate(n);
        sites.retain(|(ns, _)| ns * LEAST_SHARE >= total);
        if 2 * sites.iter().map(|(ns, _)| ns).sum::<DurNs>() < total {
            return Vec::new();
        }
        let named = |(ns, site): (DurNs, [&str; 3])| {
            let [call, operator, frame] = site.map(|name| without_address(name).into_owned());
            (CallSite { call, operator, frame }, ns)
        };
        sites.into_iter().map(named).collect()
    }
}
