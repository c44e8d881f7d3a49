//! Memory beside that of another file.

use std::sync::Arc;

use crate::answers::Answers;
use crate::answers::memory::{LeakSearch, RolesOfStacks, StackPlaces};
use crate::cli::Failure;
use crate::figures::Table;
use crate::figures::memory::{self, Compared, MemoryComparison, Owner, memory_comparison};
use crate::model::Trace;
use crate::model::memory::{device_name, is_of_host};
use crate::session::{OpenMemory, OpenTrace};

/// The part `memory_comparison`: the memory of each device beside that of the same device, and of the same rank where
/// both have one, in `bases`; where there is one memory on each side, of these. And why others are not compared.
///
/// * `files`: the title of each trace that its rank does not distinguish.
/// * `top`: rows of each list; 0 keeps all.
///
/// Errors: an analysis crashed, as stderr says.
pub fn compared_memory(
    traces: &[OpenTrace],
    files: &[Option<Arc<str>>],
    bases: &[Arc<Trace>],
    answers: &Answers,
    top: usize,
) -> Result<(Table, Vec<String>), Failure> {
    let memories = |open: &OpenTrace| {
        let open = open.clone();
        (0..open.trace.memories.len()).map(move |memory| OpenMemory { open: open.clone(), memory })
    };
    let bases: Vec<OpenMemory> = bases.iter().flat_map(|base| memories(&OpenTrace::new(Arc::clone(base), 0))).collect();
    let own: Vec<(OpenMemory, Option<Arc<str>>)> =
        traces.iter().zip(files).flat_map(|(open, file)| memories(open).map(|memory| (memory, file.clone()))).collect();
    let crashed = || Failure::Usage("The memory could not be compared. Please report it".to_owned());
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for (of, file) in &own {
        let one_each = own.len() == 1 && bases.len() == 1;
        match bases.iter().find(|base| one_each || is_same(of, base)) {
            Some(base) => rows.push(compared(of, base, file.clone(), answers, top).ok_or_else(crashed)?),
            None => {
                let device = of.history().device;
                let whose = if is_of_host(device) { "the host".to_owned() } else { device_name(device) };
                let title = of.trace().info.title();
                missing.push(format!("No memory of {whose} to compare that of {title} with"));
            }
        }
    }
    Ok((memory_comparison().table(rows, 0), missing))
}

/// Whether two memories are of one device, and of one rank as far as that is known.
fn is_same(of: &OpenMemory, base: &OpenMemory) -> bool {
    let ranks = of.trace().info.rank.zip(base.trace().info.rank);
    of.history().device == base.history().device && ranks.is_none_or(|(own, other)| own == other)
}

/// `None` if an analysis crashed.
fn compared(
    of: &OpenMemory,
    base: &OpenMemory,
    file: Option<Arc<str>>,
    answers: &Answers,
    top: usize,
) -> Option<MemoryComparison> {
    let known = |memory: &OpenMemory| {
        let trace = &memory.open.trace;
        let places = answers.get(trace, &StackPlaces { has_all_frames: false })?;
        Some((answers.get(trace, &RolesOfStacks)?, places, answers.get(memory, &LeakSearch::default())?))
    };
    let (of_base, of_own) = (known(base)?, known(of)?);
    let [base, own] = [(base, &of_base), (of, &of_own)].map(|(memory, (roles, of_stack, found))| Compared {
        trace: memory.trace(),
        history: memory.history(),
        roles,
        of_stack,
        leaks: &found.leaks,
        steps: (*found.steps).as_ref(),
    });
    let owner = Owner { file, rank: of.trace().info.rank, device: of.history().device };
    Some(memory::compared_memory(base, own, owner, top))
}
