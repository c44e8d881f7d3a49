//! Which recordings of a run are open, which open by themselves, and which are gone to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::capture::launch::{Exit, Kind, Recorded, Status};
use crate::command::Command;
use crate::model::TimeRange;
use crate::session::{Files, OpenTrace, in_order, picture};
use crate::view::ViewContext;
use crate::view::axis::fitted;

/// Whether what was recorded opens by itself. Where a program failed and its counters are all there is, its output
/// stays in sight, which says why.
pub fn is_to_open(status: &Status, kind: Kind) -> bool {
    kind != Kind::Counters || (status.exit.is_some() && (is_well(status) || has_more(status)))
}

/// Whether what was recorded is gone to once the program has ended. What a program leaves that failed stays beside its
/// output, which says why, and so do counters alone, which do not show what the program did.
pub fn is_to_show(status: &Status) -> bool {
    is_well(status) && has_more(status)
}

/// Whether more was recorded than counters.
fn has_more(status: &Status) -> bool {
    status.results.iter().any(|result| result.kind != Kind::Counters)
}

/// Whether a program ended by itself or because it was asked to, by whomever.
fn is_well(status: &Status) -> bool {
    let was_asked = |exit| status.was_stopped || [Exit::Signal(2), Exit::Signal(15)].contains(&exit);
    status.exit.is_some_and(|exit| !exit.is_failure(was_asked(exit)))
}

/// Whether something of the run is among the open traces.
pub fn has_opened(traces: &[OpenTrace], status: &Status) -> bool {
    traces.iter().any(|open| is_of(open, status))
}

/// Whether all results of the run that were opened are among the open traces.
pub fn have_opened(traces: &[OpenTrace], status: &Status, opened: &HashSet<PathBuf>) -> bool {
    let mut results = status.results.iter().filter(|result| opened.contains(&result.path));
    !opened.is_empty() && results.all(|result| traces.iter().any(|open| is_result(open, result)))
}

/// Whether a trace was recorded by a run.
fn is_of(open: &OpenTrace, status: &Status) -> bool {
    status.results.iter().any(|result| is_result(open, result))
}

/// Whether a trace is this file of a run: by its name and that of the run's folder, since the way there may be another.
fn is_result(open: &OpenTrace, result: &Recorded) -> bool {
    is_file(open, &result.path)
}

fn is_file(open: &OpenTrace, path: &Path) -> bool {
    let end = |path: &Path| Some((path.parent()?.file_name()?.to_owned(), path.file_name()?.to_owned()));
    end(&open.trace.info.path) == end(path)
}

/// Opens files of a run, or goes to them where all are open.
pub fn open_or_show(paths: impl Iterator<Item = PathBuf>, ctx: &mut ViewContext<'_>) {
    let (open, others): (Vec<_>, Vec<_>) = paths.partition(|path| ctx.traces.iter().any(|open| is_file(open, path)));
    if others.is_empty() && !open.is_empty() {
        ctx.commands.push(Command::ShowRecorded);
    }
    ctx.commands.extend(others.into_iter().map(Command::OpenPath));
}

/// Shows what was recorded of a program, the last of what lies far apart, where others are open or where something else
/// was looked at before.
pub fn show_whole(status: &Status, ctx: &mut ViewContext<'_>) {
    let (own, others): (Vec<&OpenTrace>, Vec<&OpenTrace>) =
        ctx.traces.iter().filter(|open| open.is_program()).partition(|open| is_of(open, status));
    ctx.commands.extend(beside_others(ctx.traces, status).map(Command::BringToFront));
    let is_elsewhere = |shown: &TimeRange| ctx.navigation.visible().intersect(*shown).is_none();
    if let Some(shown) = picture(&own).filter(|shown| !others.is_empty() || is_elsewhere(shown)) {
        ctx.navigation.go(fitted(shown, 0.02, ctx.span));
        *ctx.range = None;
    }
}

/// A file of the run, the last of what ran, where recordings of other programs are open, which are of another time: it
/// comes in front of them if the run is watched, and else stays behind what is looked at meanwhile.
pub fn beside_others(traces: &[OpenTrace], status: &Status) -> Option<PathBuf> {
    let programs = || traces.iter().filter(|open| open.is_program());
    let own = programs().rfind(|open| is_of(open, status))?;
    let is_other = |open: &OpenTrace| !is_of(open, status) && open.run != own.run;
    programs().any(is_other).then(|| own.trace.info.path.clone())
}

/// The recording that the flame graph, which adds files up, shows where those of other programs are open: the latest of
/// the first rank that was recorded now.
///
/// * `n_known`: how many there were when this was asked before; the user may choose otherwise until there are more.
pub fn told_apart(traces: &[OpenTrace], status: &Status, chosen: Files, n_known: &mut usize) -> Option<usize> {
    let is_program = |index: &usize| traces[*index].is_program();
    let (own, others): (Vec<usize>, Vec<usize>) =
        in_order(traces).into_iter().filter(is_program).partition(|&index| is_of(&traces[index], status));
    let n_before = std::mem::replace(n_known, own.len());
    if own.len() <= n_before || others.is_empty() {
        return None;
    }
    let rank = |index: usize| traces[index].trace.info.rank;
    let latest = own.iter().copied().filter(|&index| rank(index) == rank(own[0])).max();
    latest.filter(|_| n_before == 0 || chosen.one().is_some_and(|one| own.contains(&one)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::launch::Stage;
    use crate::model::{SliceKind, Trace, TraceBuilder};
    use crate::session::Session;

    #[test]
    fn what_was_recorded_is_shown_once_all_of_it_is_read() {
        let files = ["gpu_metrics.jsonl", "cupti-1.json", "cupti-2.json"].map(|name| Path::new("/runs/a").join(name));
        let recorded = |path: &PathBuf| Recorded { path: path.clone(), kind: Kind::Trace, bytes: 1 };
        let status = Status {
            stage: Stage::Ended,
            results: files.iter().map(recorded).collect(),
            exit: Some(Exit::Code(0)),
            ..Status::begun(None)
        };
        // The last one waits to be asked for.
        let opened: HashSet<PathBuf> = files[..2].iter().cloned().collect();
        let open = |files: &[PathBuf]| {
            let trace = |path: &PathBuf| {
                let mut builder = TraceBuilder::from_slices(&[("a", SliceKind::Other, "b", 0, 1)]);
                builder.info.path.clone_from(path);
                builder.finish()
            };
            Session::of(files.iter().map(trace).collect())
        };
        let are_shown = |files: &[PathBuf]| have_opened(open(files).traces(), &status, &opened);
        assert_eq!([0, 1, 2].map(|n| are_shown(&files[..n])), [false, false, true]);
        assert!(!are_shown(&["/runs/b/gpu_metrics.jsonl".into(), files[1].clone()]));
        assert!(!have_opened(open(&[]).traces(), &Status { results: Vec::new(), ..status.clone() }, &HashSet::new()));
    }

    #[test]
    fn a_recording_is_apart_from_those_of_other_hours() {
        let hour = 3_600_000_000_000;
        let at = |path: &str, hours: i64| {
            let mut builder = TraceBuilder::from_slices(&[("a", SliceKind::Other, "b", 0, 1_000)]);
            (builder.info.path, builder.info.utc_offset_ns) = (path.into(), Some(hours * hour));
            builder.finish()
        };
        let result = Recorded { path: "/runs/a/trace.json".into(), kind: Kind::Trace, bytes: 1 };
        let status = Status { results: vec![result], ..Status::begun(None) };
        let is_apart = |others: Vec<Trace>| {
            let all = others.into_iter().chain([at("/runs/a/trace.json", 9)]).collect();
            let path = beside_others(Session::of(all).traces(), &status);
            path.inspect(|path| assert_eq!(path, Path::new("/runs/a/trace.json"))).is_some()
        };
        assert!(is_apart(vec![at("/old.json", 1)]));
        assert!(is_apart(vec![at("/old.json", 1), at("/older.json", 0)]));
        assert!(!is_apart(Vec::new()), "it is alone");
        assert!(!is_apart(vec![at("/runs/b/rank1.json", 9)]), "it is of the same hour");
    }
}
