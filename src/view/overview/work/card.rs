//! The time of each device, as its card shows it.

use super::OfTrace;
use crate::analysis::breakdown::{Breakdown, breakdown};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::content::worked;
use crate::analysis::gaps::{GapClass, Ledger};
use crate::analysis::rules::{Basis, Window};
use crate::figures::devices::little_work;
use crate::figures::format;
use crate::figures::makeup::shared_by;
use crate::figures::verdicts::JudgedTime;
use crate::model::{DurNs, TimeRange};
use crate::session::{OpenTrace, track_title};

/// The time of one device.
#[derive(Debug)]
pub struct Card {
    pub title: String,
    /// Product name; empty if unknown.
    pub name: String,
    pub window: DurNs,
    /// Which time of the device it is.
    pub basis: Basis,
    /// Of how many steps it is, and how many were recorded.
    pub n_steps: [usize; 2],
    /// Which of them are left out, and why; empty if none are.
    pub left_out: String,
    /// What is not judged of the recording, where that is much.
    pub not_judged: Option<String>,
    /// Which processes share it, if several do.
    pub shared: Option<String>,
    /// Whether most events of its recording are missing.
    pub lacks_events: bool,
    /// What it did, where that is too little for shares to say anything.
    pub little: Option<String>,
    pub parts: Breakdown,
    /// Idle time by what would end it, the largest first, as the findings have it.
    pub causes: Vec<IdleCause>,
    /// Whether it was judged. If not, what would end its idle time is not known: its causes are what went on meanwhile.
    pub is_judged: bool,
}

/// Idle time of one cause.
#[derive(Debug)]
pub struct IdleCause {
    pub label: &'static str,
    pub ns: DurNs,
    /// What went on meanwhile, the most first; sums to it.
    pub meanwhile: Vec<(GapClass, DurNs)>,
}

impl IdleCause {
    /// Whether all of it has the name of the cause itself, which need not be said twice.
    pub fn is_named_alike(&self) -> bool {
        matches!(self.meanwhile[..], [(class, _)] if class.label() == self.label)
    }
}

/// A card for each device of a trace.
///
/// * `range`: only this time of it.
pub fn cards(traces: &[OpenTrace], (trace, range): (usize, Option<TimeRange>), all: &OfTrace) -> Vec<Card> {
    let open = &traces[trace];
    let recorded = worked(&open.trace);
    let card = |(busy, ledger): (&DeviceBusy, &Ledger)| {
        // As the rules have it; a device with too little work to judge has all its time.
        let judged = all.verdicts.windows.iter().find(|window: &&Window| window.device == Some(busy.device));
        let (window, basis) = match (judged, range) {
            (Some(judged), _) => (judged.time, judged.basis),
            (None, Some(range)) if busy.window.intersect(range) == Some(range) => (range, Basis::Range),
            (None, Some(range)) => (range.intersect(busy.window)?, Basis::RangeOfWork),
            (None, None) => (busy.window, Basis::All),
        };
        let makeup = judged.and_then(|_| all.verdicts.makeups.iter().find(|of| of.device == Some(busy.device)));
        let mut causes: Vec<IdleCause> = match makeup {
            Some(makeup) => {
                let causes = makeup.causes.iter().zip(&makeup.meanwhile);
                causes
                    .map(|(&(cause, ns), meanwhile)| IdleCause {
                        label: cause.label(),
                        ns,
                        meanwhile: meanwhile.clone(),
                    })
                    .collect()
            }
            None => {
                let totals = GapClass::ALL.into_iter().zip(ledger.totals(window).by_class);
                let totals = totals.map(|(class, totals)| (class, totals.total_ns));
                totals.map(|(class, ns)| IdleCause { label: class.label(), ns, meanwhile: vec![(class, ns)] }).collect()
            }
        };
        causes.retain(|cause| cause.ns > 0);
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.ns));
        let info = open.trace.device_of_work(busy.device);
        let parts = breakdown(busy, window);
        let little = match range {
            None => little_work([busy], open.trace.span.dur()),
            Some(_) => {
                busy.has_little_work().then(|| format!("{} of work", format::duration(window.dur() - parts.idle_ns)))
            }
        };
        Some(Card {
            title: track_title(traces, trace, &open.trace.process(busy.process).title()),
            name: info.map_or_else(String::new, |info| info.name.clone()),
            window: window.dur(),
            basis,
            n_steps: [judged.map_or(0, |judged| judged.steps.len()), all.n_steps],
            left_out: all.left_out.clone(),
            not_judged: judged.and_then(|window| {
                let (steps, busy) = ((*all.steps).as_ref(), Some(busy));
                JudgedTime {
                    file: None,
                    rank: open.trace.info.rank,
                    window,
                    steps,
                    busy,
                    recorded,
                    offset: open.offset,
                }
                .not_judged()
            }),
            shared: makeup
                .zip(judged)
                .and_then(|(makeup, judged)| shared_by(&open.trace, makeup, !judged.steps.is_empty())),
            lacks_events: all.verdicts.run.missing.is_some(),
            little,
            parts,
            causes,
            is_judged: makeup.is_some(),
        })
    };
    all.busy.iter().zip(&*all.ledgers).filter_map(card).collect()
}
