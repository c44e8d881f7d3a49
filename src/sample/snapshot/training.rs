//! Allocations of the simulated program: a small transformer, step by step, with planted faults.

use std::io;

use super::allocator::{AllocationFailure, Allocator, Entry, Pool, round};
use super::code::{self, Stack};
use super::{Plant, PlantedMemory};
use crate::sample::rng::Rng;

/// When the recording begins, in µs since 1970.
const START_US: i64 = 1_759_395_740_000_000;
/// The stream of copies to the device; the rest runs on the default stream.
const COPY_STREAM: u64 = 94_512_640;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Bytes of one activation, and of the logits.
const ACTIVATION: u64 = 8 * MIB;
const LOGITS: u64 = 64 * MIB;
/// A layer's parameters: norms, qkv, projection, up, down. Bytes.
const PARAMETERS: [u64; 6] = [4 * KIB, 4 * KIB, 6 * MIB + 6 * KIB, 2 * MIB + 2 * KIB, 8 * MIB + 8 * KIB, 8 * MIB];
const EMBEDDING: u64 = 16 * MIB;

/// Leaked each step: by one stack that frees nothing, and by one that frees seven of eight. Bytes.
const LEAK: u64 = 384 * KIB;
const HIDDEN_LEAK: u64 = 128 * KIB;
const LOOKUPS: usize = 8;
const CACHED: u64 = 512 * KIB;
/// A mask of the first steps.
const MASK: u64 = 768 * KIB;
/// Longest batch of the first step; it grows until no earlier segment fits.
const LONGEST: u64 = 80 * MIB;
const LONGER: u64 = 2 * MIB;
/// A small block that stays where a long batch was, and what it replaces. Bytes.
const PIN: u64 = MIB + 512;
const UNPINNED: u64 = MIB;
/// In how many steps the longest batch grows, at most.
const GROWTHS: u32 = 64;
/// How far the peak of a ratchet may rise over all steps, in bytes.
const RATCHET: u64 = 1 << 30;
/// Its pieces fit into segments that others leave.
const PIECE: u64 = 8 * MIB;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPlan<'a> {
    pub steps: u32,
    pub seed: u64,
    pub layers: u32,
    pub plants: &'a [Plant],
    pub is_expandable: bool,
    /// What the device can give the allocator, in bytes.
    pub capacity: u64,
}

/// A mark of the profiler.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub name: MarkName,
    pub is_start: bool,
    pub time_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkName {
    Step(u32),
    Loader,
    ZeroGrad,
    Optimizer,
}

/// What the run came to.
#[derive(Debug)]
pub struct MemoryOutcome {
    /// The allocator's state after the last entry.
    pub allocator: Allocator,
    pub marks: Vec<Mark>,
    pub entries: u64,
    /// The entry of a request that the device could not serve, with its call.
    pub oom: Option<(u64, AllocationFailure, Stack)>,
    /// What the allocator held of the device when each quarter of the steps was done, in bytes.
    pub reserved: [u64; 4],
    pub most_reserved: u64,
}

/// Takes each entry as it is recorded.
pub type Sink<'a> = dyn FnMut(&Entry) -> io::Result<()> + 'a;

/// Why a run ends early.
enum Stop {
    Oom(AllocationFailure, Stack),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

type Done<T> = Result<T, Stop>;

/// Trains for `plan.steps`. Memory grows with what is live and with the marks, not with the entries.
///
/// Errors: the sink's.
pub fn simulate(plan: MemoryPlan<'_>, sink: &mut Sink<'_>) -> io::Result<MemoryOutcome> {
    let mut run = Run {
        plan,
        sink,
        allocator: Allocator::new(plan.capacity, plan.is_expandable),
        rng: Rng::new(plan.seed),
        now: START_US,
        marks: Vec::new(),
        entries: 0,
        gradients: Vec::new(),
        moments: 0,
        unpinned: Vec::new(),
        longest: LONGEST,
        most_reserved: 0,
    };
    let mut reserved = [0; 4];
    let oom = match run.train(&mut reserved) {
        Ok(()) => None,
        Err(Stop::Io(error)) => return Err(error),
        Err(Stop::Oom(oom, stack)) => Some((run.entries - 1, oom, stack)),
    };
    let Run { allocator, marks, entries, most_reserved, .. } = run;
    Ok(MemoryOutcome { allocator, marks, entries, oom, reserved, most_reserved })
}

/// The state of the simulated program.
struct Run<'a, 'b> {
    plan: MemoryPlan<'a>,
    sink: &'a mut Sink<'b>,
    allocator: Allocator,
    rng: Rng,
    /// Host clock in µs.
    now: i64,
    marks: Vec<Mark>,
    entries: u64,
    gradients: Vec<u64>,
    /// Number of optimizer states.
    moments: usize,
    /// Blocks that pins will replace.
    unpinned: Vec<u64>,
    /// The longest batch so far, in bytes.
    longest: u64,
    most_reserved: u64,
}

impl Run<'_, '_> {
    fn has(&self, plant: Plant) -> bool {
        self.plan.plants.contains(&plant)
    }

    fn flush(&mut self) -> Done<()> {
        for i in 0..self.allocator.log.len() {
            (self.sink)(&self.allocator.log[i])?;
        }
        self.entries += self.allocator.log.len() as u64;
        self.allocator.log.clear();
        self.most_reserved = self.most_reserved.max(self.allocator.reserved);
        Ok(())
    }

    fn alloc_on(&mut self, stream: u64, size: u64, stack: Stack) -> Done<u64> {
        self.now += self.rng.between(4, 40);
        let found = self.allocator.malloc(size, stream, stack, self.now);
        self.flush()?;
        found.map_err(|oom| Stop::Oom(oom, stack))
    }

    fn alloc(&mut self, size: u64, stack: Stack) -> Done<u64> {
        self.alloc_on(0, size, stack)
    }

    fn free(&mut self, addr: u64, stack: Stack) -> Done<()> {
        self.now += self.rng.between(1, 6);
        self.allocator.free(addr, stack, self.now, None);
        self.flush()
    }

    fn mark(&mut self, name: MarkName, is_start: bool) {
        self.now += 1;
        self.marks.push(Mark { name, is_start, time_us: self.now });
    }

    fn train(&mut self, reserved: &mut [u64; 4]) -> Done<()> {
        for _ in 0..self.plan.layers {
            for bytes in PARAMETERS {
                self.alloc(bytes, code::MODEL_TO)?;
            }
        }
        self.alloc(EMBEDDING, code::MODEL_TO)?;
        if self.has(Plant::Fragmentation) {
            for _ in 0..growths(self.plan.steps) {
                let block = self.alloc(UNPINNED, code::MODEL_TO)?;
                self.unpinned.push(block);
            }
        }
        let steps = self.plan.steps;
        for step in 0..steps {
            self.mark(MarkName::Step(step), true);
            self.step(step)?;
            self.mark(MarkName::Step(step), false);
            let quarter = u64::from(step) * 4 / u64::from(steps.max(1));
            reserved[quarter as usize] = self.allocator.reserved;
        }
        if self.has(Plant::Oom) {
            self.run_out()?;
        }
        Ok(())
    }

    fn step(&mut self, step: u32) -> Done<()> {
        self.mark(MarkName::Loader, true);
        self.now += self.rng.between(200, 900);
        self.mark(MarkName::Loader, false);
        let batch = 64 * KIB + 512 * self.rng.between(0, 32) as u64;
        let tokens = self.alloc_on(COPY_STREAM, batch, code::TO_DEVICE)?;
        self.mark(MarkName::ZeroGrad, true);
        for gradient in std::mem::take(&mut self.gradients) {
            self.free(gradient, code::DROP_GRADIENTS)?;
        }
        self.mark(MarkName::ZeroGrad, false);
        if self.has(Plant::Fragmentation) && is_growth(step, self.plan.steps) {
            self.fragment()?;
        }
        let mut mixed = Vec::new();
        if self.has(Plant::Ratchet) {
            let mut rest = u64::from(step + 1) * rise(self.plan.steps);
            while rest > 0 {
                mixed.push(self.alloc(rest.min(PIECE), code::RATCHET)?);
                rest -= rest.min(PIECE);
            }
        }
        self.keep(step)?;
        let saved = self.forward()?;
        self.backward(saved)?;
        // The copy stream may be behind: the block is free only once it is done.
        self.now += 3;
        let until = self.now + self.rng.between(20, 400);
        self.allocator.free(tokens, code::DROP_BATCH, self.now, Some(until));
        self.flush()?;
        for piece in mixed {
            self.free(piece, code::RATCHET_FREE)?;
        }
        self.optimize()
    }

    /// Leaks, caches and masks that are planted.
    fn keep(&mut self, step: u32) -> Done<()> {
        if self.has(Plant::SteadyLeak) {
            self.alloc(LEAK, code::LEAK)?;
            let mut found = Vec::new();
            for _ in 0..LOOKUPS {
                found.push(self.alloc(HIDDEN_LEAK, code::HIDDEN_LEAK)?);
            }
            let kept = self.rng.between(0, LOOKUPS as i64) as usize;
            found.remove(kept);
            for block in found {
                self.free(block, code::HIDDEN_LEAK_FREE)?;
            }
        }
        if self.has(Plant::WarmUpCache) && step < warm_up(self.plan.steps) {
            self.alloc(CACHED, code::CACHE)?;
        }
        if self.has(Plant::Setup) && step < setup(self.plan.steps) {
            self.alloc(MASK, code::SETUP)?;
        }
        Ok(())
    }

    /// A batch longer than any before is padded and packed; what stays behind it keeps its segment.
    fn fragment(&mut self) -> Done<()> {
        let longest = self.longest;
        self.longest += LONGER;
        let padded = self.alloc(longest, code::LONGEST)?;
        self.free(padded, code::LONGEST_FREE)?;
        let packed = self.alloc(longest - PIN, code::PACKED)?;
        self.alloc(PIN, code::PIN)?;
        if let Some(block) = self.unpinned.pop() {
            self.free(block, code::PIN_FREE)?;
        }
        self.free(packed, code::PACKED_FREE)
    }

    /// Returns what the backward pass needs, with the size of its gradient and where that is allocated.
    fn forward(&mut self) -> Done<Vec<(u64, u64, Stack)>> {
        let mut saved = Vec::new();
        let mut save = |run: &mut Self, size, stack, gradient| -> Done<()> {
            saved.push((run.alloc(size, stack)?, size, gradient));
            Ok(())
        };
        save(self, ACTIVATION, code::EMBED, code::LINEAR_BACKWARD)?;
        for _ in 0..self.plan.layers {
            save(self, ACTIVATION, code::NORM, code::NORM_GRADIENT)?;
            save(self, 3 * ACTIVATION, code::QKV, code::LINEAR_BACKWARD)?;
            save(self, ACTIVATION, code::FLASH, code::FLASH_GRADIENT)?;
            let seeds = self.alloc(512 * KIB, code::FLASH)?;
            self.free(seeds, code::FLASH_FREE)?;
            save(self, ACTIVATION, code::PROJECTION, code::LINEAR_BACKWARD)?;
            save(self, 4 * ACTIVATION, code::UP, code::LINEAR_BACKWARD)?;
            save(self, 4 * ACTIVATION, code::GELU, code::GELU_GRADIENT)?;
            save(self, ACTIVATION, code::DOWN, code::LINEAR_BACKWARD)?;
        }
        save(self, LOGITS, code::HEAD, code::LINEAR_BACKWARD)?;
        save(self, 4, code::LOSS, code::LOSS_GRADIENT)?;
        Ok(saved)
    }

    /// Goes back over what the forward pass saved; the parameters' gradients stay.
    fn backward(&mut self, saved: Vec<(u64, u64, Stack)>) -> Done<()> {
        let mut gradient = None;
        let mut parameters = (0..self.plan.layers).flat_map(|_| PARAMETERS).rev();
        for (block, size, stack) in saved.into_iter().rev() {
            let next = self.alloc(size, stack)?;
            if let Some(last) = gradient.replace(next) {
                self.free(last, code::DROP_GRADIENT)?;
            }
            self.free(block, code::DROP_SAVED)?;
            if let Some(bytes) = parameters.next() {
                let kept = self.alloc(bytes, code::GRADIENT)?;
                self.gradients.push(kept);
            }
        }
        let kept = self.alloc(EMBEDDING, code::GRADIENT)?;
        self.gradients.push(kept);
        match gradient {
            Some(last) => self.free(last, code::DROP_GRADIENT),
            None => Ok(()),
        }
    }

    fn optimize(&mut self) -> Done<()> {
        self.mark(MarkName::Optimizer, true);
        if self.moments == 0 {
            let sizes = (0..self.plan.layers).flat_map(|_| PARAMETERS).chain([EMBEDDING]);
            for bytes in sizes.flat_map(|bytes| [bytes, bytes]) {
                self.alloc(bytes, code::MOMENTS)?;
                self.moments += 1;
            }
        }
        let mut parts = Vec::new();
        for _ in 0..self.plan.layers {
            let bytes = 2 * MIB + 512 * self.rng.between(0, 64) as u64;
            parts.push(self.alloc(bytes, code::FOREACH)?);
        }
        for part in parts {
            self.free(part, code::FOREACH_FREE)?;
        }
        self.mark(MarkName::Optimizer, false);
        Ok(())
    }

    /// Asks for more than the device has left.
    fn run_out(&mut self) -> Done<()> {
        if self.has(Plant::Fragmentation) {
            // Each longer batch leaves a segment that the next one does not fit in.
            loop {
                self.fragment()?;
            }
        }
        self.now += 1_000;
        self.allocator.empty_cache(code::CLEAN, self.now);
        self.flush()?;
        let (inactive, _) = self.allocator.inactive(Pool { stream: 0, is_small: false });
        self.alloc(self.allocator.device_free() + inactive + 64 * MIB, code::EVALUATION)?;
        Ok(())
    }
}

fn growths(steps: u32) -> u32 {
    (0..steps).filter(|&step| is_growth(step, steps)).count() as u32
}

fn is_growth(step: u32, steps: u32) -> bool {
    step.is_multiple_of(steps.div_ceil(GROWTHS).max(1))
}

/// How far the peak rises each step, in bytes.
fn rise(steps: u32) -> u64 {
    round((RATCHET / u64::from(steps.max(1))).clamp(64 * KIB, 2 * MIB))
}

fn warm_up(steps: u32) -> u32 {
    steps / 3
}

/// How many steps belong to the warm-up.
fn setup(steps: u32) -> u32 {
    (steps / 4).min(5)
}

/// What is planted in a run, with the right verdict on it.
pub fn planted(plan: MemoryPlan<'_>, end: &MemoryOutcome) -> Vec<PlantedMemory> {
    // A run that ends early may not reach all steps.
    let steps = end.marks.iter().filter(|mark| mark.is_start && matches!(mark.name, MarkName::Step(_))).count() as u32;
    let one = |verdict, stack, bytes_per_step, until: u32| PlantedMemory {
        verdict,
        frame: code::own_frame(stack).map(super::frame_answer),
        bytes_per_step,
        first_step: 0,
        last_step: until.min(steps).saturating_sub(1),
    };
    let of = |&plant: &Plant| match plant {
        Plant::SteadyLeak => {
            vec![one("leak", code::LEAK, LEAK, steps), one("leak", code::HIDDEN_LEAK, HIDDEN_LEAK, steps)]
        }
        Plant::Ratchet => vec![one("ratchet", code::RATCHET, rise(plan.steps), steps)],
        Plant::WarmUpCache => vec![one("warm_up_cache", code::CACHE, CACHED, warm_up(plan.steps))],
        Plant::Setup => vec![one("setup", code::SETUP, MASK, setup(plan.steps))],
        Plant::Fragmentation => vec![one("fragmentation", code::LONGEST, LONGEST, steps)],
        Plant::Oom | Plant::HistoryLost | Plant::None => Vec::new(),
    };
    plan.plants.iter().flat_map(of).collect()
}
