//! What is reserved and unused, as a finding.

use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::memory::leaks::Thresholds;
use crate::analysis::memory::unused::{Unused, UnusedOver};
use crate::figures::format;
use crate::model::Severity;

/// The rule of reserved memory of which much is unused.
pub const RESERVED_UNUSED: &str = "reserved_unused";

/// A note that much of what is reserved is unused, with the reason and what to do: at the peak, or at the end where
/// blocks pin it. Segments without blocks that the peak used are kept for the next peak, as they should be. Measured is
/// the larger share; private pools of CUDA graphs do not count.
pub fn reserved_unused(of: &UnusedOver) -> Option<Finding> {
    let thresholds = Thresholds::default();
    let is_much = |one: &Unused| one.bytes() >= thresholds.min_unused && one.share() >= thresholds.min_unused_share;
    let UnusedOver { peak, end, has_history } = of;
    let is_pinned = is_much(&Unused { empty: 0, other: 0, ..*end });
    let is_told = if *has_history { is_much(peak) || is_pinned } else { is_much(end) };
    if !is_told {
        return None;
    }
    let size = |bytes: u64| format::bytes(bytes as f64);
    let text = match has_history {
        false => format!("{} of {} reserved are unused: {}", size(end.bytes()), size(end.reserved), parts(end)),
        true => format!(
            "{} of {} reserved are unused at the end: {}. At the peak {} of {}{}",
            size(end.bytes()),
            size(end.reserved),
            parts(end),
            size(peak.bytes()),
            size(peak.reserved),
            if is_much(peak) { format!(": {}", parts(peak)) } else { String::new() }
        ),
    };
    let pinned = "Blocks that stay among freed ones keep segments reserved: \
                  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fewer varying sizes, or allocating what stays \
                  first avoids it";
    let mut advice = Vec::new();
    match is_much(peak) && *has_history {
        true if 2 * peak.pinned >= peak.bytes() => advice.push(pinned),
        true => advice.push(
            "Segments that earlier requests left do not fit those of the peak: request fewer varying sizes (pad or \
             bucket inputs), or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that one segment serves all \
             sizes",
        ),
        false if *has_history => {}
        false => advice.push(
            "Segments without blocks are left from an earlier peak: torch.cuda.empty_cache() returns them. Record a \
             history to see what reserved them",
        ),
    }
    // What is pinned at the end stays reserved whatever the peak needs.
    if is_pinned && !advice.contains(&pinned) {
        advice.push(pinned);
    }
    Some(Finding {
        rule: RESERVED_UNUSED,
        severity: Severity::Note,
        text,
        measured: [peak, end].into_iter().filter(|one| is_much(one)).map(Unused::share).fold(0.0, f64::max),
        threshold: thresholds.min_unused_share,
        default_threshold: None,
        unit: Unit::Share,
        evidence: Evidence::default(),
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        advice: advice.into_iter().map(ToOwned::to_owned).collect(),
    })
}

/// `4.44 GiB in segments without blocks, 1.00 GiB in partly used segments`.
fn parts(of: &Unused) -> String {
    let parts = [
        (of.empty, "in segments without blocks"),
        (of.pinned, "in partly used segments"),
        (of.other, "in expandable segments and behind blocks"),
    ];
    let named = parts.into_iter().filter(|part| part.0 > 0);
    named.map(|(bytes, what)| format!("{} {what}", format::bytes(bytes as f64))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// Of 1000 MB, so many are pinned, and so many in segments without blocks.
    fn state(pinned: u64, empty: u64) -> Unused {
        let [pinned, empty] = [pinned * MB, empty * MB];
        Unused { reserved: 1000 * MB, used: 1000 * MB - pinned - empty, pinned, empty, ..Unused::default() }
    }

    fn found(peak: Unused, end: Unused, has_history: bool) -> Option<Finding> {
        reserved_unused(&UnusedOver { peak, end, has_history })
    }

    #[test]
    fn much_that_is_unused_is_a_note_with_its_reason() {
        assert!(found(state(100, 140), state(0, 240), true).is_none(), "24 %");
        let small = Unused { reserved: 90 * MB, empty: 90 * MB, ..Unused::default() };
        assert!(found(small, small, true).is_none());
        let graphs = Unused { reserved: 1000 * MB, private: 900 * MB, used: 100 * MB, ..Unused::default() };
        assert!(found(graphs, graphs, true).is_none());
        assert!(found(state(0, 10), state(100, 400), true).is_none(), "kept for the next peak");
        let late = found(state(0, 10), state(300, 200), true).unwrap();
        assert_eq!((late.severity, (late.measured * 1000.0).round()), (Severity::Note, 500.0));
        assert_eq!(
            late.text,
            "476.84 MiB of 953.67 MiB reserved are unused at the end: 190.73 MiB in segments without blocks, 286.10 \
             MiB in partly used segments. At the peak 9.54 MiB of 953.67 MiB"
        );
        assert!(matches!(&late.advice[..], [one] if one.contains("expandable_segments")), "{:?}", late.advice);
        let pinned = found(state(300, 100), state(400, 0), true).unwrap();
        assert!(matches!(&pinned.advice[..], [one] if one.contains("expandable_segments")), "{:?}", pinned.advice);
        let misfit = found(state(100, 300), state(0, 0), true).unwrap();
        assert!(matches!(&misfit.advice[..], [one] if one.contains("do not fit")), "{:?}", misfit.advice);
        let state_only = found(state(0, 500), state(0, 500), false).unwrap();
        assert!(!state_only.text.contains("peak") && state_only.advice[0].contains("Record a history"));
    }
}
