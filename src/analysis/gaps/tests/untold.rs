//! Devices in their thousands: what one thread does is a part of the gaps of all of them.

use super::*;

#[test]
fn the_parts_of_a_few_devices_are_told_whatever_they_are() {
    let trace = TraceBuilder::with_devices_of_one_thread(DEVICES_TOLD).finish();
    let ledgers = Ground::new(&trace).ledgers(&devices(&trace), None, &|| false);
    assert_eq!(ledgers.len(), DEVICES_TOLD);
    let parts: usize = ledgers.iter().map(|ledger| ledger.parts(0).count()).sum();
    assert!(parts > PARTS_TOLD && ledgers.iter().all(|ledger| !ledger.is_untold), "{parts}");
}

#[test]
fn those_of_thousands_are_not_and_their_gaps_are_whole() {
    let trace = TraceBuilder::with_devices_of_one_thread(DEVICES_TOLD + 20).finish();
    let busy = devices(&trace);
    let ledgers = Ground::new(&trace).ledgers(&busy, None, &|| false);
    let untold: Vec<bool> = ledgers.iter().map(|ledger| ledger.is_untold).collect();
    assert_eq!(untold, [vec![false; DEVICES_TOLD], vec![true; 20]].concat());
    for (ledger, busy) in ledgers.iter().zip(&busy) {
        assert_sums(ledger, busy);
    }
    let parts: Vec<GapPart> = ledgers[DEVICES_TOLD].parts(0).collect();
    assert_eq!(parts, [GapPart { time: ledgers[DEVICES_TOLD].time(0), class: GapClass::Unknown, slice: None }]);
}
