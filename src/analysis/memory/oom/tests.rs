//! Out-of-memory cards against values computed by hand.

use super::*;
use crate::analysis::memory::fixture::{Script, history};
use crate::analysis::memory::live;
use crate::model::memory::MemoryAction::{FreeRequested, SegmentAlloc, SegmentFree, SegmentMap};
use crate::model::memory::MemoryPool;
use crate::model::{DeviceInfo, StackId};

const MIB: u64 = 1 << 20;

fn card_of(script: Script, device_total: Option<u64>) -> OomCard {
    let mut cards = all(script, device_total, 0);
    assert_eq!(cards.len(), 1);
    cards.remove(0)
}

fn all(mut script: Script, device_total: Option<u64>, top: usize) -> Vec<OomCard> {
    script.builder.info.devices.push(DeviceInfo { total_memory_bytes: device_total, ..DeviceInfo::default() });
    let trace = script.finish();
    cards(&trace, history(&trace), &Signatures::new(&trace, false), top, &|| false)
}

/// The settings, or facts without a setting, of a card.
fn advice(card: &OomCard) -> Vec<String> {
    let mib = |bytes: u64| format!("{} MiB", bytes / MIB);
    let text = |what: &OomHint| if what.setting().is_empty() { what.fact(mib) } else { what.setting().to_owned() };
    card.hints.iter().map(text).collect()
}

#[test]
fn a_card_accounts_for_all_device_memory() {
    let mut script = Script::default();
    let stack = script.stack(&["grow (train.py:3)"]);
    script.event(SegmentAlloc, 0, 40 * MIB, StackId(0));
    for block in 0..10 {
        script.alloc(block * 4 * MIB, 4 * MIB, stack);
    }
    for block in [1, 3, 5, 7] {
        script.free(block * 4 * MIB, 4 * MIB);
    }
    script.event(FreeRequested, 0, 4 * MIB, StackId(0));
    script.event(SegmentFree, 100 * MIB, 2 * MIB, StackId(0));
    script.oom(10 * MIB, Some(3 * MIB));
    let card = card_of(script, Some(64 * MIB));
    assert_eq!((card.requested, card.device_free, card.reserved), (10 * MIB, Some(3 * MIB), 40 * MIB));
    assert_eq!((card.allocated, card.awaiting_free, card.inactive), (20 * MIB, 4 * MIB, 16 * MIB));
    assert_eq!((card.largest_free, card.non_pytorch, card.at), (4 * MIB, Some(21 * MIB), Some(170)));
    assert_eq!((card.stacks[0].bytes, card.stacks[0].count), (20 * MIB, 5));
    assert_eq!((card.free, card.free_elsewhere), (16 * MIB, 0));
    assert_eq!(advice(&card), ["expandable_segments:True", "max_split_size_mb", "garbage_collection_threshold"]);
    assert_eq!(card.hints[1], OomHint::MaxSplit { segments: 1 });
    let fact = card.hints[0].fact(|bytes| format!("{}M", bytes / MIB));
    assert!(
        fact.starts_with("16M are reserved and unused in the pool of the request, enough for the 10M requested"),
        "{fact}"
    );
}

#[test]
fn no_setting_helps_if_all_memory_is_in_use() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 20 * MIB, StackId(0));
    script.alloc(0, 20 * MIB, StackId(0));
    script.oom(10 * MIB, None);
    let card = card_of(script, Some(64 * MIB));
    assert_eq!((card.non_pytorch, card.inactive), (None, 0));
    assert_eq!(card.hints, [OomHint::InUse { share: 1.0 }]);
}

#[test]
fn a_program_that_allocates_on_has_caught_the_error() {
    let after = |n: u64| {
        let mut script = Script::default();
        script.event(SegmentAlloc, 0, 1 << 30, StackId(0));
        (0..100).for_each(|block| _ = script.alloc(block << 20, MIB, StackId(0)));
        script.oom(1 << 40, None);
        script.event(SegmentFree, 1 << 40, MIB, StackId(0));
        (200..200 + n).for_each(|block| _ = script.alloc(block << 20, MIB, StackId(0)));
        let trace = script.finish();
        went_on(history(&trace))
    };
    assert_eq!([0, 3, 40].map(after), [None, None, Some(40)]);
    assert_eq!(went_on(history(&Script::default().finish())), None);
}

#[test]
fn scattered_memory_and_what_the_device_had_left_may_do_together() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 1000 * MIB, StackId(0));
    (0..100).for_each(|block| _ = script.alloc(block * 10 * MIB, 10 * MIB, StackId(0)));
    [3, 9, 30, 50, 60, 70].into_iter().for_each(|block| _ = script.free(block * 10 * MIB, 10 * MIB));
    script.oom(80 * MIB, Some(74 * MIB));
    let card = card_of(script, None);
    assert_eq!((card.cause, card.free), (OomCause::Fragmentation, 60 * MIB));
    assert_eq!(advice(&card), ["expandable_segments:True"]);
    let fact = card.hints[0].fact(|bytes| format!("{}M", bytes / MIB));
    assert_eq!(
        fact,
        "60M are reserved and unused in the pool of the request and 74M are free on the device, together enough for the \
         80M requested: segments that expand can take both"
    );
}

#[test]
fn where_what_is_free_would_do_in_one_piece_it_is_not_said_that_packing_does_not_help() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 200 * MIB, StackId(0));
    (0..20).for_each(|block| _ = script.alloc(block * 10 * MIB, 10 * MIB, StackId(0)));
    [3, 9].into_iter().for_each(|block| _ = script.free(block * 10 * MIB, 10 * MIB));
    script.oom(12 * MIB, Some(1 << 30));
    let card = card_of(script, None);
    assert_eq!((card.cause, card.free, card.largest_free), (OomCause::Limit, 20 * MIB, 10 * MIB));
    assert_eq!(advice(&card), ["expandable_segments:True", "max_split_size_mb"]);
    let fact = card.hints[1].fact(|bytes| bytes.to_string());
    assert!(fact.starts_with("There is 1 segment of the size of the request or larger"), "{fact}");
}

/// Memory of another stream or pool does not serve a request, however large its free ranges.
#[test]
fn only_memory_that_can_serve_the_request_counts() {
    for (pool, name) in [
        (MemoryPool { stream: 7, private: (0, 0) }, "stream 7"),
        (MemoryPool { stream: 0, private: (0, 1) }, "default stream, private pool 0.1"),
    ] {
        let mut script = Script::default();
        script.event(SegmentAlloc, 0, 80 * MIB, StackId(0));
        script.alloc(0, 80 * MIB, StackId(0));
        let own = script.pool;
        script.pool = script.raw.pool(pool);
        for segment in 1..9 {
            script.event(SegmentAlloc, segment * 100 * MIB, 10 * MIB, StackId(0));
            script.alloc(segment * 100 * MIB, 2 * MIB, StackId(0));
        }
        script.pool = own;
        script.oom(20 * MIB, Some(0));
        let card = card_of(script, None);
        assert_eq!((card.free, card.largest_free, card.free_elsewhere, card.inactive), (0, 0, 64 * MIB, 64 * MIB));
        let expected = format!(
            "64 MiB are free in other pools, streams or size classes, which do not serve this request; \
             64 MiB of it: {name}, large segments"
        );
        assert_eq!(advice(&card), [expected]);
    }
}

#[test]
fn many_cards_come_from_one_sweep() {
    let mut script = Script::default();
    let stacks = ["f (a.py:1)", "g (a.py:2)", "h (a.py:3)"].map(|frame| script.stack(&[frame]));
    script.event(SegmentAlloc, 0, 64 * MIB, StackId(0));
    for i in 0..30_u64 {
        script.alloc(i * 2 * MIB, (1 + i % 2) * MIB, stacks[i as usize % 3]);
        if i % 4 == 3 {
            script.event(FreeRequested, (i - 2) * 2 * MIB, (1 + i % 2) * MIB, StackId(0));
            script.oom(90 * MIB, None);
            script.free((i - 2) * 2 * MIB, (1 + i % 2) * MIB);
        }
    }
    // From before the recording until then.
    script.event(FreeRequested, 1 << 40, 5 * MIB + 512, StackId(0));
    let trace = script.finish();
    let (history, signatures) = (history(&trace), Signatures::new(&trace, false));
    let found = cards(&trace, history, &signatures, 0, &|| false);
    assert_eq!(found.len(), 7);
    for card in &found {
        let by_signature = live::by_signature(history, &signatures);
        let groups = live::groups(history, card.event, live::LiveUntil::Allocated, by_signature);
        assert_eq!(card.stacks, groups);
        assert_eq!(card.allocated, groups.iter().map(|group| group.bytes).sum::<u64>());
    }
    let cut = cards(&trace, history, &signatures, 2, &|| false);
    assert!(cut.iter().zip(&found).all(|(cut, all)| cut.stacks == all.stacks[..2]));
    assert!(cards(&trace, history, &signatures, 2, &|| true).is_empty());
}

#[test]
fn of_thousands_of_failures_the_first_and_the_last_have_cards_that_list_what_the_file_may_cost() {
    let n = 3000_u64;
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 64 * MIB, StackId(0));
    for i in 0..n {
        let stack = script.stack(&[&format!("f{i:04} (a.py:1)")]);
        script.alloc(i * 512, 512, stack);
        script.oom(90 * MIB + i, None);
    }
    let found = all(script, None, 0);
    assert_eq!(found.len(), MOST_CARDS);
    let requested = |i: usize| found[i].requested - 90 * MIB;
    assert_eq!([0, 499, 500, 999].map(requested), [0, 499, 2500, 2999]);
    // All are of one size: the first by name are listed.
    let last = &found[999];
    assert_eq!((last.n_stacks, last.stacks.len(), last.allocated), (3000, LISTED / MOST_CARDS, 512 * n));
    assert!(last.stacks.is_sorted_by_key(|group| group.group) && last.stacks.iter().all(|group| group.bytes == 512));
    assert_eq!((found[0].n_stacks, found[0].stacks.len(), last.most_reserved), (1, 1, 64 * MIB));
}

/// Reserved and active bytes, free ones on the device and its total; a request; whether what is unused is in its pool.
fn cause_of(
    reserved: u64,
    active: u64,
    device_free: Option<u64>,
    total: Option<u64>,
    requested: u64,
    own: bool,
) -> OomCard {
    let mut script = Script::default();
    let request_pool = script.pool;
    if !own {
        script.pool = script.raw.pool(MemoryPool { stream: 9, private: (0, 0) });
    }
    script.event(SegmentAlloc, 1 << 40, reserved, StackId(0));
    // Blocks of 8 MiB at even distances, so that what is unused is scattered.
    let n = active / (8 * MIB);
    for block in 0..n {
        script.alloc((1 << 40) + block * (reserved / n), 8 * MIB, StackId(0));
    }
    script.pool = request_pool;
    script.oom(requested, device_free);
    card_of(script, total)
}

#[test]
fn the_cause_of_a_failure_is_demand_fragmentation_or_a_limit() {
    use OomCause::{Demand, Fragmentation, Limit};
    const GIB: u64 = 1 << 30;
    let (m, g) = (MIB, GIB);
    let cases = [
        // All is in use.
        (12 * g, 12 * g, Some(300 * m), Some(13 * g), 2 * g, true, Demand, 2 * g - 300 * m),
        (12 * g, 12 * g, Some(300 * m), None, 2 * g, true, Demand, 2 * g - 300 * m),
        // What is unused and what the device has do not suffice together.
        (14 * g, 12 * g, Some(400 * m), Some(15 * g), 4 * g, true, Demand, 2 * g - 400 * m),
        // Enough in the pool, in pieces; enough together with the device; enough for another stream.
        (12 * g, 6 * g, Some(100 * m), Some(13 * g), 2 * g, true, Fragmentation, 0),
        (7 * g, 6 * g, Some(700 * m), Some(8 * g), 1500 * m, true, Fragmentation, 0),
        (9 * g, 4 * g, Some(64 * m), Some(10 * g), 3 * g, false, Fragmentation, 0),
        (9 * g, 4 * g, None, None, 3 * g, true, Fragmentation, 0),
        // The device had enough, or others have it.
        (6 * g, 6 * g, Some(5 * g), Some(12 * g), g, true, Limit, g),
        // At a limit 42 MiB in pieces would do, but so few are unused in any training; 60 of 160 MiB are not.
        (798 * m, 756 * m, Some(14 * g), None, 22 * m, true, Limit, 0),
        (160 * m, 96 * m, Some(14 * g), None, 22 * m, true, Fragmentation, 0),
        (6 * g, 6 * g, Some(40 * m), Some(24 * g), 4 * g, true, Limit, 4 * g - 40 * m),
        // A context is no other process.
        (22 * g, 22 * g, Some(512 * m), Some(24 * g), g, true, Demand, 512 * m),
        // 5 MiB need a segment of 20 MiB, and no packing makes one.
        (g, g, Some(12 * m), None, 5 * m, true, Demand, 0),
        (784 * m, 776 * m, Some(16 * m), None, 4 * m, true, Demand, 0),
        // All packed, 8 MiB are left.
        (1980 * m, 1936 * m, Some(72 * m), Some(2 * g), 108 * m, true, Demand, 0),
        (2 * g, 1936 * m, Some(0), Some(2 * g), 104 * m, true, Demand, 0),
    ];
    for (reserved, active, free, total, requested, own, cause, short_by) in cases {
        let card = cause_of(reserved, active, free, total, requested, own);
        let largest = card.largest_free.max(card.obtainable());
        let demand = card.shortfall.map(|Shortfall { bytes, demand, fragmentation }| {
            assert_eq!((bytes, bytes), (demand + fragmentation, requested.saturating_sub(largest)), "{requested}");
            demand
        });
        // The limit that refused it is not recorded.
        let known = card.lacking_at_most().is_none().then_some(short_by);
        assert_eq!((card.cause, demand), (cause, known), "{requested} of {reserved}, {active}, {free:?}");
        let says_full = card.hints.iter().any(|hint| matches!(hint, OomHint::InUse { .. }));
        let has_setting = card.hints.iter().any(|hint| !hint.setting().is_empty());
        assert!(!says_full || cause != Fragmentation, "{:?}", card.hints);
        assert!(!has_setting || cause != Demand, "{:?}", card.hints);
    }
}

#[test]
fn a_request_larger_than_the_device_gets_no_advice() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 40 * MIB, StackId(0));
    script.alloc(0, 38 * MIB, StackId(0));
    script.event(SegmentFree, 100 * MIB, 2 * MIB, StackId(0));
    script.oom(90 * MIB, Some(30 * MIB));
    let card = card_of(script, Some(80 * MIB));
    assert_eq!(
        (card.cause, card.exceeded(), card.shortfall.unwrap().demand),
        (OomCause::Demand, Some(80 * MIB), 58 * MIB)
    );
    assert!(card.hints.is_empty(), "{:?}", card.hints);
}

#[test]
fn a_limit_of_the_settings_explains_a_failure() {
    let card = |settings: &[(&str, &str)], device_free| {
        let mut script = Script::default();
        script.event(SegmentAlloc, 0, 380 * MIB, StackId(0));
        script.alloc(0, 380 * MIB, StackId(0));
        script.oom(90 * MIB, Some(device_free));
        script.raw.settings = settings.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect();
        card_of(script, Some(800 * MIB))
    };
    for settings in [
        ("per_process_memory_fraction", "0.5"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False, per_process_memory_fraction:0.5"),
    ] {
        // With 400 MiB allowed there is no room, whatever the device has.
        for device_free in [30 * MIB, 300 * MIB] {
            let card = card(&[settings], device_free);
            assert_eq!((card.cause, card.allowed()), (OomCause::Limit, Some(400 * MIB)), "{device_free}");
            // 20 of the 90 MiB are within the limit.
            let lacking = Shortfall { bytes: 70 * MIB, demand: 70 * MIB, fragmentation: 0 };
            assert_eq!((card.shortfall, card.lacking_at_most(), card.left()), (Some(lacking), None, 20 * MIB));
        }
    }
    let free = card(&[("per_process_memory_fraction", "1.0")], 30 * MIB);
    assert_eq!((free.fraction, free.allowed()), (None, None));
}

#[test]
fn only_one_piece_serves_a_request() {
    let with = |is_expandable: bool| {
        let mut script = Script::default();
        let action = if is_expandable { SegmentMap } else { SegmentAlloc };
        // 60 MiB with a block at 20 MiB: 20 and 38 MiB are free, and room follows.
        script.event(action, 1 << 40, 60 * MIB, StackId(0));
        script.alloc((1 << 40) + 20 * MIB, 2 * MIB, StackId(0));
        script.oom(90 * MIB, Some(30 * MIB));
        card_of(script, None)
    };
    let parts = |card: &OomCard| {
        let Shortfall { bytes, demand, fragmentation } = card.shortfall.unwrap();
        [bytes, demand, fragmentation].map(|n| n / MIB)
    };
    // 38 MiB alone; with the 30 MiB that the device has left they are one piece if they can be extended.
    assert_eq!(parts(&with(false)), [52, 2, 50]);
    assert_eq!((parts(&with(true)), with(true).extendable), ([22, 2, 20], 38 * MIB));
}

#[test]
fn a_limit_lies_between_what_was_reserved_and_what_was_refused() {
    let of = |given_back: u64, requested: u64| {
        let mut script = Script::default();
        script.event(SegmentAlloc, 0, 600 * MIB, StackId(0));
        script.event(SegmentAlloc, 1 << 40, given_back, StackId(0));
        script.event(SegmentFree, 1 << 40, given_back, StackId(0));
        let stack = script.stack(&["forward (model.py:7)"]);
        script.alloc(0, 600 * MIB, stack);
        script.oom(requested, Some(8 << 30));
        script.event(SegmentAlloc, 1 << 41, 900 * MIB, StackId(0));
        let card = card_of(script, None);
        assert_eq!(card.shortfall, None, "the sum is unknown");
        let [reached, refused] = card.limit();
        [reached, refused, card.lacking_at_most().unwrap(), card.left()].map(|bytes| bytes / MIB)
    };
    assert_eq!(of(90 * MIB, 100 * MIB), [690, 700, 10, 90]);
    // A small request asks for a whole segment.
    assert_eq!(of(2 * MIB, 3 * MIB), [602, 620, 3, 2]);
    // The limit came later than the most that was reserved.
    assert_eq!(of(400 * MIB, 100 * MIB), [600, 700, 100, 0]);
}
