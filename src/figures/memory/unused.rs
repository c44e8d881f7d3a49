//! What is reserved and unused, as a finding.

use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::memory::leaks::Thresholds;
use crate::analysis::memory::reserved::{Excess, ExcessCause};
use crate::analysis::memory::unused::{Unused, UnusedOver};
use crate::figures::format;
use crate::model::Severity;

/// The rule of reserved memory of which much is unused.
pub const RESERVED_UNUSED: &str = "reserved_unused";

/// A note that much of what is reserved is unused, with the reason and what to do: at the peak, or at the end where blocks
/// pin it. Segments without blocks are kept for the next peak, as they should be: [`unused_parts`] tells of them. Measured is
/// the larger share; private pools of CUDA graphs do not count.
pub fn reserved_unused(of: &UnusedOver) -> Option<Finding> {
    let UnusedOver { peak, end, has_history } = of;
    let is_peak_much = *has_history && peak.is_much();
    let is_pinned = Unused { empty: 0, other: 0, ..*end }.is_much();
    if !is_peak_much && !is_pinned {
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
            if is_peak_much { format!(": {}", parts(peak)) } else { String::new() }
        ),
    };
    let pinned = "Blocks that stay among freed ones keep segments reserved: \
                  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fewer varying sizes, or allocating what stays \
                  first avoids it";
    let mut advice = Vec::new();
    if is_peak_much {
        advice.push(match 2 * peak.pinned >= peak.bytes() {
            true => pinned,
            false => {
                "Segments that earlier requests left do not fit those of the peak: request fewer varying sizes (pad or \
                 bucket inputs), or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that one segment serves all sizes"
            }
        });
    }
    // What is pinned at the end stays reserved whatever the peak needs.
    if is_pinned && !advice.contains(&pinned) {
        advice.push(pinned);
    }
    Some(Finding {
        rule: RESERVED_UNUSED,
        severity: Severity::Note,
        text,
        measured: [peak, end].into_iter().filter(|one| one.is_much()).map(Unused::share).fold(0.0, f64::max),
        threshold: Thresholds::default().min_unused_share,
        default_threshold: None,
        unit: Unit::Share,
        evidence: Evidence::default(),
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        ahead_ns_per_step: None,
        advice: advice.into_iter().map(ToOwned::to_owned).collect(),
    })
}

/// What to do where what is reserved grows beyond need.
///
/// * `excess`: `None` if its cause is not known.
pub fn excess_advice(excess: Option<&Excess>) -> String {
    let is_expandable = excess.is_some_and(|excess| excess.is_expandable);
    let or_expandable = if is_expandable { "" } else { "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, " };
    match excess.map(Excess::cause) {
        Some(ExcessCause::Streams) => {
            "Each stream has a pool of blocks of its own, and what is free there serves no other stream. Use the same few \
             streams again instead of new ones: make them once, before the loop. Settings of the allocator do not change \
             that; torch.cuda.empty_cache() gives back what streams that are done left"
                .to_owned()
        }
        Some(ExcessCause::Segments) => format!(
            "Segments that earlier requests left do not fit later ones, though no block is in them: {or_expandable}fewer \
             sizes (pad or bucket inputs), or buffers made once at their largest size avoid it"
        ),
        Some(ExcessCause::Other) => {
            "Look at each growth of reserved memory, under \"Reserved and out of memory\": segments larger than their \
             requests, private pools and size classes are most of it"
                .to_owned()
        }
        Some(ExcessCause::Blocks) | None => format!(
            "Look at why reserved memory grew: blocks that stay between requests of changing size keep segments reserved. \
             {or_expandable}sizes rounded to few values, or allocating what stays first avoids it"
        ),
    }
}

/// Where much that is unused lies, in brackets; empty where it is not much.
///
/// * `excess`: why what is reserved grew beyond need, if it did.
pub fn unused_parts(of: &Unused, excess: Option<&Excess>) -> String {
    let empty = match excess.map(Excess::cause) {
        Some(ExcessCause::Streams) => "in segments without blocks, each for requests of its own stream alone",
        _ => "in segments without blocks, kept for the next peak",
    };
    let parts = [
        (of.empty, empty),
        (of.pinned, "in partly used segments"),
        (of.other, "in expandable segments, or in rests behind blocks that are too small to use"),
    ];
    let named: Vec<(u64, &str)> = parts.into_iter().filter(|part| of.is_much() && part.0 > 0).collect();
    match named.as_slice() {
        [] => String::new(),
        [(_, what)] => format!(" (all {what})"),
        all => {
            let each = all.iter().map(|(bytes, what)| format!("{} {what}", format::bytes(*bytes as f64)));
            format!(" ({})", each.collect::<Vec<_>>().join("; "))
        }
    }
}

/// `4.44 GiB in segments without blocks, 1.00 GiB in partly used segments`.
fn parts(of: &Unused) -> String {
    let parts = [
        (of.empty, "in segments without blocks"),
        (of.pinned, "in partly used segments"),
        (of.other, "in expandable segments, or in rests behind blocks that are too small to use"),
    ];
    let named = parts.into_iter().filter(|part| part.0 > 0);
    named.map(|(bytes, what)| format!("{} {what}", format::bytes(bytes as f64))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::reserved::GrowthShares;

    const MB: u64 = 1_000_000;

    /// Of 1000 MB, so many are pinned, and so many in segments without blocks.
    fn state(pinned: u64, empty: u64) -> Unused {
        let [pinned, empty] = [pinned * MB, empty * MB];
        Unused { reserved: 1000 * MB, used: 1000 * MB - pinned - empty, pinned, empty, ..Unused::default() }
    }

    #[test]
    fn advice_about_growth_beyond_need_is_of_its_cause() {
        let of = |fragmentation: u64, of_streams: u64, unused: Unused, is_expandable: bool| {
            let shares = GrowthShares { bytes: 9, fragmentation, other: of_streams + 1, of_streams, demand: 0 };
            excess_advice(Some(&Excess { shares, unused, is_expandable }))
        };
        let sets = |text: &str| text.contains("expandable_segments:True");
        let streams = of(1, 8, state(0, 900), false);
        assert!(streams.contains("Use the same few streams again") && !sets(&streams), "{streams}");
        let segments = of(8, 1, state(100, 800), false);
        assert!(segments.starts_with("Segments that earlier requests left") && sets(&segments), "{segments}");
        assert!(!sets(&of(8, 1, state(100, 800), true)), "they are expandable");
        let blocks = of(8, 1, state(800, 100), false);
        assert!(blocks.contains("blocks that stay between requests") && sets(&blocks), "{blocks}");
        assert!(of(0, 0, state(0, 900), false).contains("segments larger than their requests"));
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
        assert!(found(state(0, 500), state(0, 500), false).is_none(), "the same rule for a state alone");
        let state_only = found(state(300, 200), state(300, 200), false).unwrap();
        assert!(!state_only.text.contains("peak"), "{}", state_only.text);
        assert!(
            matches!(&state_only.advice[..], [one] if one.contains("expandable_segments")),
            "{:?}",
            state_only.advice
        );
    }

    #[test]
    fn much_that_is_unused_is_said_wherever_it_lies() {
        assert_eq!(unused_parts(&state(100, 140), None), "", "24 %");
        assert_eq!(
            unused_parts(&state(100, 400), None),
            " (381.47 MiB in segments without blocks, kept for the next peak; 95.37 MiB in partly used segments)"
        );
        assert_eq!(unused_parts(&state(400, 0), None), " (all in partly used segments)");
        let shares = GrowthShares { bytes: 9, demand: 1, other: 8, of_streams: 8, fragmentation: 0 };
        let streams = Excess { shares, unused: state(0, 400), is_expandable: false };
        let of_streams = " (all in segments without blocks, each for requests of its own stream alone)";
        assert_eq!(unused_parts(&state(0, 400), Some(&streams)), of_streams);
    }
}
