//! Tracks of a process that are folded into one line by default.

use super::{process_key, rows};
use crate::analysis::threads::Part;
use crate::model::{ProcessId, TrackId};
use crate::session::OpenTrace;

/// Counters of a process that are shown at once where it has many more.
const N_COUNTERS: usize = 6;
/// Fewer that would be folded stay: their line takes room as well.
pub const LEAST_FOLDED: usize = 3;

/// How many programs share the picture: the ranks of a job, or what is compared, in front. Of each trace the processes that
/// launch work of devices count, of one where nothing is known of that it counts itself.
pub fn n_programs(traces: &[OpenTrace], parts: &[Vec<Part>]) -> usize {
    let of_trace = |(trace, open): (usize, &OpenTrace)| {
        let parts = parts.get(trace).into_iter().flatten().zip(&open.trace.tracks);
        let mut launching: Vec<ProcessId> =
            parts.filter(|(part, _)| part.n_launches > 0).map(|(_, track)| track.process).collect();
        launching.sort_unstable();
        launching.dedup();
        launching.len().max(1)
    };
    traces.iter().enumerate().filter(|(_, open)| open.is_program() && !open.is_behind).map(of_trace).sum()
}

/// What the tracks of a folded line have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Threads that only wait.
    Idle,
    /// Streams that hardly work, and where several programs share the picture the annotations of the others.
    Streams,
    /// The processes of a trace that hardly work, and where several programs share the picture those that launch
    /// nothing, beside one that does; what tells of the recording as a whole.
    Processes,
    /// The counters after the most important ones.
    Counters,
    /// The names that a snapshot of memory repeats of the trace beside it.
    Names,
}

impl Fold {
    pub const ALL: [Self; 5] = [Self::Idle, Self::Streams, Self::Processes, Self::Counters, Self::Names];

    /// Its settings key in a process.
    pub fn key(self, process_key: &str) -> String {
        let name = match self {
            Self::Idle => "idle threads",
            Self::Streams => "more streams",
            Self::Processes => "more processes",
            Self::Counters => "more counters",
            Self::Names => "names",
        };
        format!("{process_key}/{name}")
    }

    /// * `n`: how many threads, streams, processes or counters are folded.
    /// * `n_annotations`: how many tracks of annotations of streams that are not.
    pub fn title(self, n: usize, n_annotations: usize) -> String {
        match self {
            Self::Idle => count(n, "idle thread", "idle threads"),
            Self::Streams => {
                let streams = (n > 0).then(|| count(n, "more stream", "more streams"));
                let annotations = (n_annotations > 0).then(|| match n_annotations {
                    1 => "annotations".to_owned(),
                    n => format!("annotations of {n}"),
                });
                streams.into_iter().chain(annotations).collect::<Vec<_>>().join(", ")
            }
            Self::Processes => count(n, "more process", "more processes"),
            Self::Counters => count(n, "more counter", "more counters"),
            Self::Names => "annotations, as in the trace".to_owned(),
        }
    }
}

/// The settings keys of all that can be folded at first in a trace: also rows of deep threads, and processes where
/// there are several programs.
pub fn fold_keys(open: &OpenTrace) -> impl Iterator<Item = String> {
    let processes = (0..open.trace.processes.len() as u32).map(|process| process_key(open, ProcessId(process)));
    let of_trace = Fold::Processes.key(&open.id);
    processes
        .flat_map(|key| Fold::ALL.map(|fold| fold.key(&key)).into_iter().chain([key]))
        .chain([of_trace])
        .chain(rows::keys(open))
}

/// A number of things: `1 thread`, `2 threads`.
pub fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// How many of the counters of a process are shown, of those in order of importance.
///
/// * `is_shared`: several programs share the picture.
pub fn n_shown_counters(n: usize, is_shared: bool) -> usize {
    match n {
        _ if is_shared && n > 1 => 0,
        n if n < N_COUNTERS + LEAST_FOLDED => n,
        _ => N_COUNTERS,
    }
}

/// Whether streams of a device that hardly work are folded.
pub fn folds_streams(n: usize) -> bool {
    n >= LEAST_FOLDED
}

/// The place of a counter among those of its process: what fills its memory, how busy the device is, what it draws,
/// what moves, then all else as recorded.
pub fn importance(open: &OpenTrace, track: TrackId) -> usize {
    const WORDS: [&[&str]; 8] = [
        &["allocated"],
        &["sms active", "sm active", "gr active", "utilization.gpu", "utilization"],
        &["memory used", "memory.used"],
        &["power", "temperature"],
        &["reserved"],
        &["tensor"],
        &["dram", "memory controller", "utilization.memory", "memory utilization"],
        &["pcie", "nvlink", "sm clock", "clocks.sm"],
    ];
    /// What has such a word, but is not what one looks for first.
    const LESS: [&str; 7] =
        ["of the driver", "limit", "encoder", "decoder", "instant", "memory temperature", "temperature.memory"];
    let name = open.trace.track(track).name.to_lowercase();
    let is_of = |words: &&[&str]| words.iter().any(|word| name.contains(word));
    if LESS.iter().any(|word| name.contains(word)) {
        return WORDS.len();
    }
    // The last that fits is the one that says most: `memory utilization` is not that of the device.
    WORDS.iter().rposition(is_of).unwrap_or(WORDS.len())
}
