//! Names that tell the open files apart by what the user knows of them: rank, folder, file name, and only then a
//! number.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::Arc;

use super::OpenTrace;
use crate::model::Trace;

/// Folders above a file that may name it.
const FOLDERS: usize = 6;

/// What a file is called while it is the only one of its kind: `rank 0`, or its title.
pub fn base(trace: &Trace) -> String {
    named(trace, None, false)
}

/// Names the files anew, each unlike all others.
///
/// Of one rank what ran is `rank 0`, and the snapshot of memory beside it `rank 0, memory.pickle`. Two runs of a rank
/// are distinguished by the nearest folders that differ, else by their files. Cost: O(n log n).
pub fn name(traces: &mut [OpenTrace]) {
    // What ran has the short name: it is named first.
    let mut groups: BTreeMap<(bool, String), Vec<usize>> = BTreeMap::new();
    for (i, open) in traces.iter().enumerate() {
        groups.entry((!open.is_program(), base(&open.trace))).or_default().push(i);
    }
    let mut taken: HashSet<String> = HashSet::new();
    for ((is_beside, _), group) in groups {
        let names = {
            let names = |depth: usize, has_file: bool| -> Option<Vec<String>> {
                let name = |&i: &usize| {
                    let trace = &*traces[i].trace;
                    let folder = match depth {
                        0 => None,
                        _ => Some(trace.info.path.ancestors().nth(depth)?.file_name()?),
                    };
                    Some(named(trace, folder, has_file))
                };
                group.iter().map(name).collect()
            };
            let are_apart = |names: &Vec<String>| {
                let unlike: HashSet<&String> = names.iter().filter(|name| !taken.contains(*name)).collect();
                unlike.len() == group.len()
            };
            // A folder does not tell a snapshot from the trace that lies there too.
            let by_folder = (1..=FOLDERS).filter(|_| !is_beside).map(|depth| (depth, false));
            let by_both = (0..=FOLDERS).map(|depth| (depth, true));
            let ways = std::iter::once((0, false)).chain(by_folder).chain(by_both);
            let mut ways = ways.filter_map(|(depth, has_file)| names(depth, has_file));
            ways.find(are_apart).or_else(|| names(0, true)).unwrap_or_default()
        };
        for (i, name) in group.into_iter().zip(names) {
            let name = unlike(&name, &taken);
            traces[i].name = Arc::from(&*name);
            taken.insert(name);
        }
    }
    let mut n_of_title: HashMap<String, usize> = HashMap::new();
    traces.iter().for_each(|open| *n_of_title.entry(open.trace.info.title()).or_default() += 1);
    traces.iter_mut().for_each(|open| open.has_namesake = n_of_title[&open.trace.info.title()] > 1);
}

fn named(trace: &Trace, folder: Option<&OsStr>, has_file: bool) -> String {
    let file = || trace.info.title();
    let place = match folder.map(OsStr::to_string_lossy) {
        Some(folder) if has_file || trace.info.rank.is_none() => Some(format!("{folder}/{}", file())),
        Some(folder) => Some(folder.into_owned()),
        None if has_file => Some(file()),
        None => None,
    };
    match (trace.info.rank, place) {
        (Some(rank), None) => format!("rank {rank}"),
        (Some(rank), Some(place)) => format!("rank {rank}, {place}"),
        (None, place) => place.unwrap_or_else(file),
    }
}

/// The name, with a number if it is taken.
fn unlike(name: &str, taken: &HashSet<String>) -> String {
    let mut unlike = name.to_owned();
    let mut n = 1;
    while taken.contains(&unlike) {
        n += 1;
        unlike = format!("{name} ({n})");
    }
    unlike
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Format, SliceKind, TraceBuilder};

    fn trace(path: &str, rank: Option<u32>, is_memory: bool) -> OpenTrace {
        let slices = [("main", SliceKind::Operator, "op", 0, 9)];
        let mut builder = TraceBuilder::from_slices(if is_memory { &[] } else { &slices });
        builder.info.path = path.into();
        builder.info.rank = rank;
        if is_memory {
            builder.info.format = Format::Snapshot;
        }
        OpenTrace::new(builder.finish(), 0)
    }

    fn names(mut traces: Vec<OpenTrace>) -> Vec<String> {
        name(&mut traces);
        traces.iter().map(|open| open.name.to_string()).collect()
    }

    #[test]
    fn a_snapshot_beside_a_trace_is_named_by_its_file_whichever_was_read_first() {
        let snapshot = |file: &str| trace(&format!("/run/{file}"), Some(0), true);
        let all = vec![snapshot("memory.pickle"), trace("/run/trace.json", Some(0), false), snapshot("oom.pickle")];
        assert_eq!(names(all), ["rank 0, memory.pickle", "rank 0", "rank 0, oom.pickle"]);
        assert_eq!(names(vec![snapshot("memory.pickle")]), ["rank 0"]);
    }

    #[test]
    fn runs_of_a_rank_are_told_apart_by_the_nearest_folders_that_differ() {
        let rank = |path: &str| trace(path, Some(1), false);
        let all =
            vec![rank("/data/a/out/x.json"), rank("/data/b/out/x.json"), trace("/data/a/out/y.json", Some(0), false)];
        assert_eq!(names(all), ["rank 1, a", "rank 1, b", "rank 0"]);
        assert_eq!(names(vec![rank("/d/x.json"), rank("/d/y.json")]), ["rank 1, x.json", "rank 1, y.json"]);
        let four = ["/d/a/x.json", "/d/a/y.json", "/d/b/x.json", "/d/b/y.json"];
        let told = ["rank 1, a/x.json", "rank 1, a/y.json", "rank 1, b/x.json", "rank 1, b/y.json"];
        assert_eq!(names(four.map(rank).into()), told);
    }

    #[test]
    fn files_without_a_rank_have_their_name_and_then_their_folder() {
        let file = |path: &str| trace(path, None, false);
        assert_eq!(names(vec![file("/a/x.json"), file("/a/y.json")]), ["x.json", "y.json"]);
        assert_eq!(names(vec![file("/a/x.json"), file("/b/x.json")]), ["a/x.json", "b/x.json"]);
    }

    #[test]
    fn files_of_one_title_are_headed_by_what_tells_them_apart() {
        let mut all = vec![
            trace("/runs/a/x.json", Some(0), false),
            trace("/runs/b/x.json", Some(0), false),
            trace("/runs/b/y.json", Some(1), false),
            trace("/runs/a/gpus.jsonl", None, true),
            trace("/runs/b/gpus.jsonl", None, true),
        ];
        name(&mut all);
        let headings: Vec<_> = all.iter().map(OpenTrace::heading).collect();
        assert_eq!(headings, ["Rank 0, a", "Rank 0, b", "y.json", "a/gpus.jsonl", "b/gpus.jsonl"]);
    }

    #[test]
    fn a_number_is_the_last_resort() {
        let same = || trace("/a/x.json", None, false);
        assert_eq!(names(vec![same(), same(), same()]), ["x.json", "x.json (2)", "x.json (3)"]);
        assert_eq!(names(vec![trace("", Some(0), false), trace("/b/rank 0", None, true)]), ["rank 0", "b/rank 0"]);
    }
}
