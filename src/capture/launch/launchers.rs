//! Programs that start the workers of a distributed training: which one a command uses, and how many it starts here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use super::{Recorder, Request};

/// A launcher with the options by which it is told how many workers to start on this machine.
struct Launcher {
    name: &'static str,
    counts: &'static [&'static str],
}

const LAUNCHERS: [Launcher; 8] = [
    Launcher { name: "torchrun", counts: TORCHRUN },
    Launcher { name: "torch.distributed.run", counts: TORCHRUN },
    Launcher { name: "torch.distributed.launch", counts: TORCHRUN },
    Launcher { name: "deepspeed", counts: &["--num_gpus"] },
    Launcher { name: "accelerate", counts: &["--num_processes"] },
    Launcher { name: "srun", counts: &["-n", "--ntasks"] },
    Launcher { name: "mpirun", counts: MPI },
    Launcher { name: "mpiexec", counts: MPI },
];
const MPI: &[&str] = &["-n", "-np"];
const TORCHRUN: &[&str] = &["--nproc_per_node", "--nproc-per-node"];

/// The launcher that a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    pub by: &'static str,
    /// Workers here, if the command says a number.
    pub workers: Option<u32>,
}

/// The launcher that `argv` runs, as a program or as a module of Python.
pub fn launched(argv: &[OsString]) -> Option<Launched> {
    let words: Vec<String> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = Path::new(words.first()?).file_name()?.to_string_lossy().into_owned();
    let module = words.iter().position(|word| word == "-m").and_then(|at| words.get(at + 1));
    let name = match module {
        Some(module) if program.starts_with("python") => module,
        _ => &program,
    };
    let Launcher { name: by, counts } = LAUNCHERS.iter().find(|launcher| launcher.name == name)?;
    let value = |(i, word): (usize, &String)| {
        let name = counts.iter().find(|&&count| word.strip_prefix(count).is_some_and(is_end))?;
        match word[name.len()..].strip_prefix('=') {
            Some(value) => value.parse().ok(),
            None => words.get(i + 1)?.parse().ok(),
        }
    };
    // What follows the program is the program's own.
    let is_program = |word: &String| word.ends_with(".py") || word.contains("python");
    let own = words.iter().enumerate().skip(1).take_while(|(_, word)| !is_program(word));
    Some(Launched { by, workers: own.filter_map(value).next() })
}

/// Which workers of a launcher are recorded, where the command uses one: a sentence.
pub fn recorded_ranks(request: &Request) -> Option<String> {
    let ranks = match &request.recorder {
        Recorder::PyTorch(options) => &options.ranks,
        Recorder::OnDemand(options) => &options.ranks,
        Recorder::None | Recorder::Nsys(_) | Recorder::Cupti => return None,
    };
    let Launched { by, workers } = launched(&request.argv)?;
    let shown = |ranks: &BTreeSet<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let highest = ranks.iter().flatten().max();
    let beyond = workers.filter(|n| highest.is_some_and(|rank| rank >= n));
    let beyond = beyond.map_or(String::new(), |n| format!(", but those from {n} on exist only with several nodes"));
    let ranks = match ranks {
        None => "all ranks are".to_owned(),
        Some(ranks) if ranks.len() == 1 => format!("rank {} is", shown(ranks)),
        Some(ranks) => format!("ranks {} are", shown(ranks)),
    };
    let workers = workers.map_or("workers".to_owned(), |n| format!("{n} workers"));
    Some(format!("{by} starts {workers}; {ranks} recorded{beyond}"))
}

/// Whether an option's name ends before this rest of its word.
fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_name_and_their_workers_by_option() {
        let of = |line: &str| {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            launched(&argv).map(|launched| (launched.by, launched.workers))
        };
        assert_eq!(of("torchrun --nproc_per_node=8 t.py"), Some(("torchrun", Some(8))));
        assert_eq!(of("/opt/bin/torchrun --nproc-per-node 2 t.py"), Some(("torchrun", Some(2))));
        assert_eq!(of("torchrun --nproc-per-node gpu t.py"), Some(("torchrun", None)));
        assert_eq!(of("python3 -m torch.distributed.run t.py"), Some(("torch.distributed.run", None)));
        assert_eq!(of("deepspeed --num_gpus 4 t.py"), Some(("deepspeed", Some(4))));
        assert_eq!(of("srun -n 16 python t.py"), Some(("srun", Some(16))));
        assert_eq!(of("srun python t.py -n 5"), Some(("srun", None)));
        assert_eq!(of("torchrun t.py --nproc_per_node 5"), Some(("torchrun", None)));
        assert_eq!(of("python3 torchrun.py"), None);
        assert_eq!(of("python3 -m train -n 3"), None);
    }
}
