//! Grids that a launch call took in work-items, in blocks as all others are.

use hashbrown::{HashMap, HashSet};

use crate::model::{Launch, SliceKind, TraceBuilder};

/// The calls of HIP that take the size of the grid in work-items (`globalWorkSizeX`, in `hip_ext.h`). All others, as
/// `hipExtLaunchKernel`, take blocks. Kineto hands on what the call took.
const IN_WORK_ITEMS: [&str; 2] = ["hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"];

/// Gives the kernels that such a call launched their number of blocks; the last block of a side may not be full.
///
/// Cost: O(slices) if the trace has such a call, else none.
pub fn count_blocks(builder: &mut TraceBuilder) {
    let names: Vec<_> = IN_WORK_ITEMS.iter().filter_map(|name| builder.strings.find(name)).collect();
    if names.is_empty() {
        return;
    }
    let mut launched: HashSet<u32> = HashSet::new();
    for part in &builder.slices {
        let calls = part.kind.iter().zip(&part.name).zip(&part.correlation);
        let calls = calls.filter(|((kind, name), _)| kind.is_call() && names.contains(name));
        launched.extend(calls.map(|(_, &correlation)| correlation).filter(|&correlation| correlation != 0));
    }
    // Few kernels differ in their facts.
    let mut known: HashMap<u32, u32> = HashMap::new();
    for part in &mut builder.slices {
        let kernels = part.kind.iter().zip(&part.correlation).zip(&mut part.facts);
        for (_, facts) in kernels.filter(|((kind, id), _)| **kind == SliceKind::Kernel && launched.contains(*id)) {
            *facts = *known.entry(*facts).or_insert_with(|| builder.facts.with_launch(*facts, in_blocks));
        }
    }
}

fn in_blocks(launch: Launch) -> Launch {
    let mut grid = launch.grid;
    for (side, block) in grid.iter_mut().zip(launch.block).filter(|(_, block)| *block > 0) {
        *side = side.div_ceil(block);
    }
    Launch { grid, ..launch }
}

#[cfg(test)]
mod tests {
    use super::super::assemble::Assembly;
    use super::super::pipeline;
    use crate::job::Progress;
    use crate::model::SliceId;

    #[test]
    fn a_grid_is_in_blocks_whatever_its_launch_counted_in() {
        let pair = |call: &str, id: u32, grid: &str| {
            format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"{call}","pid":1,"tid":2,"ts":{id},"dur":1,
                    "args":{{"correlation":{id},"grid":{grid},"block":[64,2,1]}}}},
                {{"ph":"X","cat":"kernel","name":"k{id}","pid":0,"tid":7,"ts":{id}0,"dur":2,
                    "args":{{"correlation":{id},"grid":{grid},"block":[64,2,1]}}}},"#
            )
        };
        let grid_of = |events: &str, kernel: &str| {
            let text = format!("[{events}{{}}]");
            let mut assembly = Assembly::default();
            let _ = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
            let trace = assembly.finish(&Default::default()).finish();
            let all = (0..trace.slices.len() as u32).map(SliceId);
            let kernel = all.filter(|&id| trace.slice_name(id) == kernel).find(|id| trace.launch_of(*id).is_some());
            trace.facts.launches.get(kernel.unwrap()).unwrap().grid
        };
        let events = [
            pair("hipExtModuleLaunchKernel", 1, "[640,6,3]"),
            pair("hipHccModuleLaunchKernel", 2, "[100,2,1]"),
            pair("hipExtLaunchKernel", 3, "[640,6,3]"),
            pair("hipModuleLaunchKernel", 4, "[640,6,3]"),
            pair("cudaLaunchKernel", 5, "[640,6,3]"),
        ]
        .concat();
        let grids = ["k1", "k2", "k3", "k4", "k5"].map(|kernel| grid_of(&events, kernel));
        let same = [640, 6, 3];
        assert_eq!(grids, [[10, 3, 3], [2, 1, 1], same, same, same]);
        let alone = pair("hipLaunchKernel", 9, "[128,2,1]");
        assert_eq!(grid_of(&alone, "k9"), [128, 2, 1]);
    }
}
