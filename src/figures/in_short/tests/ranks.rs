//! Paragraphs of the ranks of a job.

use super::*;

#[test]
fn the_slowest_rank_is_named_by_steps_that_all_recorded() {
    use crate::analysis::rules::Window;
    use crate::model::TimeRange;
    let traces = [rank(0, 4 * MS, 0), rank(1, 4 * MS, 0)];
    let verdicts = judged_together(&traces);
    // * `cut`: how long before the end of the last step the last work of each device is.
    let step_cut = |steps: [&[i64]; 2], cut: i64| {
        let of = |i: usize| {
            let boundaries = steps[i].iter().map(|ms| ms * MS).collect::<Vec<_>>();
            let time = TimeRange { start: boundaries[0], end: boundaries[boundaries.len() - 1] - cut * MS };
            let steps = boundaries.windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] }).collect();
            let window =
                Window { time, whole: TimeRange { start: 0, ..time }, steps, ..verdicts[i].windows[0].clone() };
            Verdicts { windows: vec![window], makeups: verdicts[i].makeups.clone(), ..Verdicts::default() }
        };
        let verdicts = [of(0), of(1)];
        let judged = |i: usize| Judged { trace: &traces[i], name: None, path: "", offset: 0, verdicts: &verdicts[i] };
        let text = paragraphs(&[judged(0), judged(1)]).remove(0);
        let from = [". A ", ". Judged "].iter().find_map(|start| text.find(start)).unwrap() + 2;
        text[from..].split(". ").next().unwrap().to_owned()
    };
    let step = |steps| step_cut(steps, 0);
    // Rank 0 has recorded a long step that rank 1 has not.
    assert_eq!(step([&[10, 40, 50, 60, 70], &[40, 50, 60, 70]]), "A judged step takes 15.000 ms");
    let slow = "A step takes 12.000 ms on the slowest, rank 0, and 10.000 ms on the fastest, rank 1, in the 3 steps \
                that all recorded";
    assert_eq!(step([&[10, 22, 34, 46], &[12, 22, 32, 42]]), slow);
    // Each holds one step, in which the recording begins.
    let alone = step([&[0, 19], &[0, 11]]);
    assert!(alone == "Judged steps last 11.000 ms to 19.000 ms", "{alone}");
    let cut = "Judged steps last 9.000 ms to 17.000 ms, from the first to the last work of each device";
    assert_eq!(step_cut([&[0, 19], &[0, 11]], 2), cut);
}

/// All paragraphs of two ranks.
fn of_two(traces: &[Trace; 2]) -> Vec<String> {
    let verdicts = judged_together(traces);
    let of = |(trace, verdicts)| Judged { trace, name: None, path: "", offset: 0, verdicts };
    paragraphs(&traces.iter().zip(&verdicts).map(of).collect::<Vec<_>>())
}

#[test]
fn a_late_rank_comes_first_where_nothing_gains_more() {
    let texts = of_two(&[rank(0, 4 * MS, 0), rank(1, 7 * MS, 0)]);
    let job = "What would help most: rank 1 arriving sooner at collectives: that saves at most 3.000 ms of 10.000 ms per \
               step on Rank 0, GPU 0. Rank 1 comes last to";
    assert!(texts[0].contains(job), "{}", texts[0]);
    let own = "What would help most: to come sooner to collectives, in which other ranks wait for this one, which saves at \
               most 3.000 ms of 10.000 ms per step";
    assert!(texts[2].contains(own), "{}", texts[2]);
}

#[test]
fn what_makes_a_rank_late_comes_before_that_it_is_late() {
    let texts = of_two(&[rank(0, 4 * MS, 0), rank(1, 4 * MS, 3 * MS)]);
    let host = "What would help most: a host that runs less between launches (operators, Python), ";
    for text in [&texts[0], &texts[2]] {
        assert!(text.contains(host), "{text}");
    }
    assert!(texts[1].contains("What would help most: rank 1 arriving sooner at collectives, "), "{}", texts[1]);
}

#[test]
fn a_rank_that_is_late_once_is_told_with_its_step() {
    use crate::analysis::rules::tests::late_rank::rank_late_once;
    let texts = of_two(&[rank_late_once(0, 4 * MS), rank_late_once(1, 8 * MS)]);
    let late = "Rank 1 comes last to 1 of 8 judged collectives: the other rank waits for it 4.000 ms, nearly all of it in \
                ProfilerStep#5; rank 1 itself waits for none";
    assert!(texts[0].ends_with(late), "{}", texts[0]);
    assert!(!texts[1].contains("arriving sooner"), "{}", texts[1]);
}

#[test]
fn files_that_do_not_say_their_rank_are_not_compared() {
    let texts = |ranks: [Option<u32>; 2]| {
        let mut traces = [rank(0, 4 * MS, 0), rank(1, 7 * MS, 0)];
        traces.iter_mut().zip(ranks).for_each(|(trace, rank)| trace.info.rank = rank);
        of_two(&traces)
    };
    let unknown = texts([None, None]);
    assert!(unknown.iter().any(|text| text.starts_with("2 files with communication do not say")), "{unknown:?}");
    for known in [[Some(0), Some(1)], [Some(0), None]] {
        assert!(!texts(known).iter().any(|text| text.contains("do not say of which rank")));
    }
}

#[test]
fn ranks_that_are_not_open_may_set_the_pace() {
    let of_size = |n_ranks: Option<u32>| {
        let mut traces = [rank(0, 4 * MS, 0), rank(1, 7 * MS, 0)];
        traces.iter_mut().for_each(|trace| trace.info.world_size = n_ranks);
        traces
    };
    let traces = of_size(Some(2));
    let mut verdicts = judged_together(&traces);
    let waits = crate::analysis::rules::hit_of(Rule::LaunchBound, Some(0), 3 * MS, 10 * MS);
    verdicts[0].hits.push(Hit { ceiling_ns_per_step: Some(MS), ..waits });
    let said = |traces: &[Trace; 2], open: &[usize]| {
        let of = |&i: &usize| Judged { trace: &traces[i], name: None, path: "", offset: 0, verdicts: &verdicts[i] };
        let all = paragraphs(&open.iter().map(of).collect::<Vec<_>>());
        let of_ranks = all.into_iter().find(|text| text.contains("set the pace"));
        of_ranks.and_then(|text| Some(text.split_once(':')?.0.to_owned()))
    };
    let absent = "Not all ranks of this job are open, and another may set the pace";
    assert_eq!(said(&traces, &[0]).as_deref(), Some(absent));
    assert_eq!(said(&traces, &[1]), None, "nothing is told to be gained by ending a wait");
    let alone = crate::analysis::rules::tests::judged(&traces[1], None);
    let of = Judged { trace: &traces[1], name: None, path: "", offset: 0, verdicts: &alone };
    let alone = paragraphs(&[of]);
    assert!(alone.iter().any(|text| text.ends_with("waiting for others is not known")), "{alone:?}");
    assert_eq!(said(&traces, &[0, 1]), None, "all are open");
    assert_eq!(said(&of_size(Some(3)), &[0, 1]).as_deref(), Some(absent));
    let unknown = of_size(None);
    assert_eq!(said(&unknown, &[0]).as_deref(), Some(absent), "it communicates with at least one other");
    let may_be = said(&unknown, &[0, 1]);
    assert_eq!(may_be.as_deref(), Some("How many ranks this job has was not recorded"));
}

#[test]
fn of_many_devices_that_are_alike_a_few_are_named() {
    let traces: Vec<Trace> = (0..19).map(|i| rank(i, if i == 1 { 7 * MS } else { 4 * MS }, 0)).collect();
    let verdicts = judged_together(&traces);
    let of = |(trace, verdicts)| Judged { trace, name: None, path: "", offset: 0, verdicts };
    let texts = |n: usize| paragraphs(&traces.iter().zip(&verdicts).map(of).take(n).collect::<Vec<_>>());
    let all = texts(19);
    assert!(all[1].contains("; Rank 9, GPU 0; 9 more, busy 100.0 %"), "{}", all[1]);
    assert!(!texts(18)[1].contains("more, busy"), "{}", texts(18)[1]);
}
