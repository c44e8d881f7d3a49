//! Devices in their thousands: what one thread does is a part of the gaps of all of them.

use super::*;
use crate::model::{Process, ProcessId, TrackKind};

/// So many devices, each with one gap in which the only thread runs 100 operators.
fn with_devices(n: usize) -> Trace {
    let streams: Vec<String> = (0..n).map(|i| format!("stream {i}")).collect();
    let mut events: Vec<Event<'_>> = Vec::new();
    for (i, stream) in streams.iter().enumerate() {
        let (first, last) = (2 * i as u32 + 1, 2 * i as u32 + 2);
        let ends = [(10, first), (200_000, last)];
        for (start, correlation) in ends {
            let (start, call) = (start + 3 * i as i64, start + 3 * i as i64 - 2);
            events.push(("main", CALL, "cudaLaunchKernel", call, call + 1, correlation));
            events.push((stream, KERNEL, "k", start, start + 1, correlation));
        }
    }
    events.extend((0..100).map(|i| ("main", OP, "aten::op", 10_000 + 1000 * i, 10_500 + 1000 * i, 0)));
    let mut builder = builder(&events);
    let streams = builder.tracks.iter_mut().filter(|track| track.kind == TrackKind::Stream);
    for (device, track) in (0..).zip(streams) {
        builder.processes.push(Process { device: Some(device), ..Process::default() });
        track.process = ProcessId(builder.processes.len() as u32 - 1);
    }
    builder.finish()
}

#[test]
fn the_parts_of_a_few_devices_are_told_whatever_they_are() {
    let trace = with_devices(DEVICES_TOLD);
    let ledgers = Ground::new(&trace).ledgers(&devices(&trace), None, &|| false);
    assert_eq!(ledgers.len(), DEVICES_TOLD);
    let parts: usize = ledgers.iter().map(|ledger| ledger.parts(0).count()).sum();
    assert!(parts > PARTS_TOLD && ledgers.iter().all(|ledger| !ledger.is_untold), "{parts}");
}

#[test]
fn those_of_thousands_are_not_and_their_gaps_are_whole() {
    let trace = with_devices(DEVICES_TOLD + 20);
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
