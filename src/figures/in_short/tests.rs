//! Paragraphs of jobs whose limit is known.

use super::*;
use crate::analysis::rules::tests::late_rank::{judged_together, rank};

const MS: i64 = 1_000_000;

#[test]
fn a_job_comes_first_with_what_limits_it_and_ranks_that_are_alike_share_a_sentence() {
    // Rank 1 computes longer, and two others wait for it equally long.
    let traces = [rank(0, 4 * MS, 0), rank(1, 7 * MS, 0), rank(2, 4 * MS, 0)];
    let verdicts = judged_together(&traces);
    let judged: Vec<Judged<'_>> = traces
        .iter()
        .zip(&verdicts)
        .map(|(trace, verdicts)| Judged { trace, name: None, path: "", offset: 0, verdicts })
        .collect();
    let texts = paragraphs(&judged);
    assert_eq!(texts.len(), 3, "{texts:#?}");
    assert!(
        texts[0].starts_with(
            "Job of 3 ranks: devices are busy 100.0 % of the time in 8 steps. A judged step takes 10.000 ms"
        ),
        "{}",
        texts[0]
    );
    let late = "Rank 1 comes last to 8 of 8 collectives, and others wait 3.000 ms per step for it on average";
    assert!(texts[0].ends_with(late), "{}", texts[0]);
    let help = "that rank 1 comes sooner to collectives, which saves at most 3.000 ms of 10.000 ms per step";
    assert!(texts[1].contains(help), "{}", texts[1]);
    assert!(texts[1].ends_with(". Likewise Rank 2, GPU 0, busy 100.0 %"), "{}", texts[1]);
    assert!(texts[2].starts_with("Rank 1, GPU 0 is busy 100.0 %"), "{}", texts[2]);
    // Two devices have a sentence each, and one rank is not a job.
    assert_eq!(paragraphs(&judged[..2]).len(), 3);
    let alone = paragraphs(&judged[..1]);
    assert!(alone.len() == 1 && !alone[0].starts_with("Job"), "{alone:#?}");
    assert!(!paragraphs(&[judged[0], judged[0]])[0].starts_with("Job"), "the same rank twice");
}

#[test]
fn that_memory_ran_out_comes_before_what_is_told_of_time() {
    let finding = |rule: &'static str, text: &str| Finding {
        rule,
        severity: crate::model::Severity::High,
        text: text.to_owned(),
        measured: 0.0,
        threshold: 0.0,
        default_threshold: None,
        unit: crate::analysis::finding::Unit::Bytes,
        evidence: crate::analysis::finding::Evidence::default(),
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        advice: Vec::new(),
    };
    let slow = finding("fp32_matmul", "33 matrix products in fp32");
    let told = || vec!["GPU 0: busy".to_owned()];
    assert_eq!(with_memory(told(), std::slice::from_ref(&slow)), told());
    let findings = [slow, finding(OUT_OF_MEMORY, "Out of memory: 816.00 MiB requested. Limit")];
    let first = "Out of memory: 816.00 MiB requested. Limit. What follows is of the time before it";
    assert_eq!(with_memory(told(), &findings), [first, "GPU 0: busy"]);
    assert!(with_memory(Vec::new(), &findings).is_empty());
    let leak = finding(MEMORY_LEAK, "Memory grows 128.00 MiB a step");
    let [slow, failed] = findings;
    let small = Finding { severity: crate::model::Severity::Warn, ..leak.clone() };
    assert_eq!(with_memory(told(), &[small]), told());
    assert_eq!(with_memory(told(), &[slow, leak.clone()]), ["Memory grows 128.00 MiB a step", "GPU 0: busy"]);
    let reserved = finding(RESERVED_GROWTH, "Reserved memory grows 747.33 MiB a step");
    let first_growth = ["Reserved memory grows 747.33 MiB a step", "GPU 0: busy"];
    assert_eq!(with_memory(told(), &[reserved, leak.clone()]), first_growth);
    assert_eq!(with_memory(told(), &[leak, failed]), [first, "Memory grows 128.00 MiB a step", "GPU 0: busy"]);
}
