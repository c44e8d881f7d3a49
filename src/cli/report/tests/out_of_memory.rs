//! Findings about a training whose batches grow until a limit refuses memory.

use super::*;
use crate::analysis::memory::fixture::Script;

const MIB: u64 = 1 << 20;

/// 40 steps, each with a batch larger by 8 MiB in place of the last one, and eight times as much within the step; then
/// a request fails, and `after` blocks are allocated.
fn growing_batches(name: &str, rank: u32, after: u64) -> Trace {
    let mut script = Script::default();
    script.event(MemoryAction::SegmentAlloc, 0, 4096 * MIB, StackId(0));
    script.event(MemoryAction::SegmentAlloc, 1 << 40, 256 * MIB, StackId(0));
    let batch = script.stack(&["main (/me/oom.py:7)"]);
    let forward = script.stack(&["main (/me/oom.py:8)"]);
    for step in 0..40 {
        let start = script.now();
        let at = |step: u64| step % 2 * 400 * MIB;
        let bytes = 8 * MIB * (step + 1);
        script.alloc(at(step), bytes, batch);
        if step > 0 {
            script.free(at(step - 1), bytes - 8 * MIB);
        }
        script.alloc(1024 * MIB, 8 * bytes, forward);
        script.free(1024 * MIB, 8 * bytes);
        let end = script.now();
        script.annotate(&format!("ProfilerStep#{step}"), start, end);
    }
    script.event(MemoryAction::SegmentFree, 1 << 40, 256 * MIB, StackId(0));
    script.oom(8192 * MIB, Some(20_000 * MIB));
    for block in 0..after {
        script.alloc((1024 + block) * MIB, MIB, forward);
    }
    script.builder.info.path = name.into();
    script.builder.info.rank = Some(rank);
    script.finish()
}

/// Rule, text, advice, measured value and threshold of the findings about memory.
fn findings(traces: Vec<Trace>) -> Vec<[String; 5]> {
    let traces: Vec<Arc<Trace>> = traces.into_iter().map(Arc::new).collect();
    let report = build::report(&traces, 50, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    let json: serde_json::Value = serde_json::from_str(&written(&report, Format::Json, None, None).unwrap()).unwrap();
    let text = |of: &serde_json::Value| of.as_str().map_or_else(|| of.to_string(), str::to_owned);
    let found = json["findings"].as_array().unwrap().iter();
    let found = found.map(|one| ["rule", "text", "advice", "measured", "threshold"].map(|key| text(&one[key])));
    found.filter(|[rule, ..]| rule == "out_of_memory" || rule == "memory_growth").collect()
}

#[test]
fn the_limit_is_a_range_and_the_growing_batch_has_a_name() {
    let found = findings(vec![growing_batches("a.pickle", 0, 0)]);
    let [[_, oom, raise, measured, threshold], [_, growth, advice, ..]] = &found[..] else { panic!("{found:?}") };
    assert!(oom.contains("lies between 4.25 GiB, which were reserved, and 12.00 GiB, which were not granted"), "{oom}");
    let expected = "Memory between steps grows by 8.00 MiB a step, at main (oom.py:7), the peak within steps by 72.00 \
                    MiB a step";
    assert_eq!(growth, expected);
    let held = "main (oom.py:7) holds 8.00 MiB more each step: one block that grows: an input or a shape";
    // The free stretch beside the last batch has 3376 MiB; 256 MiB more than at the failure were reserved before.
    assert!(oom.contains("At most 4.70 GiB were missing: the limit is not recorded"), "{oom}");
    assert_eq!([measured, threshold].map(|bytes| bytes.parse::<f64>().unwrap() as u64 / MIB), [8192, 256]);
    assert!(raise.contains("Raise or remove the limit") && raise.contains(held), "{raise}");
    assert!(advice.contains(held) && !advice.contains("No place grows"), "{advice}");
}

#[test]
fn what_two_histories_of_one_process_say_is_told_once_of_the_longer() {
    let files = |found: Vec<[String; 5]>| -> Vec<String> {
        found.iter().map(|one| one[1].split(':').next().unwrap().to_owned()).collect()
    };
    let [at_failure, at_end] = [("oom1.pickle", 0), ("end.pickle", 5)];
    for order in [[at_failure, at_end], [at_end, at_failure]] {
        let found = findings(order.map(|(name, after)| growing_batches(name, 0, after)).into());
        assert_eq!(files(found), ["end.pickle", "end.pickle"]);
    }
    let ranks = findings(vec![growing_batches("a.pickle", 0, 0), growing_batches("b.pickle", 1, 5)]);
    assert_eq!(ranks.len(), 4, "{ranks:?}");
}

#[test]
fn a_failure_is_told_once_although_the_later_history_forgot_how_the_earlier_begins() {
    let failing = |name: &str, first: u64, rank: u32| {
        let mut script = Script::default();
        (first..8).for_each(|block| _ = script.alloc(block * MIB, MIB, StackId(0)));
        script.oom(9 * MIB, Some(MIB));
        script.builder.info.path = name.into();
        script.builder.info.rank = Some(rank);
        script.builder.info.utc_offset_ns = Some(0);
        script.finish()
    };
    let n = |rank| findings(vec![failing("oom1.pickle", 0, 0), failing("end.pickle", 3, rank)]).len();
    assert_eq!([n(0), n(1)], [1, 2]);
}
