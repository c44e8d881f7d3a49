//! Words in names. Ranges are named by users and libraries in many styles; the phases of a step and the
//! causes of idle time both judge them here.

mod inference;
mod loading;
mod saving;

pub use self::inference::runs_model;
pub use self::loading::is_loading;
pub use self::saving::is_saving;

/// What a name says that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// It waits for the next batch, or prepares it.
    DataLoading,
    Forward,
    Backward,
    Optimizer,
    /// It copies between host and device.
    Copies,
    Communication,
    /// It compiles, or loads device code.
    Compilation,
    GarbageCollection,
}

/// The words of a name in lower case, without the numbers in it: `DataLoader.next_batch2` has data, loader, next,
/// batch. Words end at other characters than letters and digits, and at capitals: `FSDPForward` has two.
pub fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut before, mut rest) = (' ', name.chars().peekable());
    while let Some(c) = rest.next() {
        let ends_acronym = before.is_uppercase() && c.is_uppercase() && rest.peek().is_some_and(|c| c.is_lowercase());
        let begins = !before.is_alphanumeric() || before.is_lowercase() && c.is_uppercase() || ends_acronym;
        if c.is_alphanumeric() {
            if begins {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        before = c;
    }
    for word in &mut words {
        word.truncate(word.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a word is one of those in `list`, which spaces separate.
fn is_one_of(word: &str, list: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// The topic of a name by its words; `None` if they say nothing, or name several phases of a step.
///
/// Cost: O(length).
pub fn topic(name: &str) -> Option<Topic> {
    let words = words(name);
    let has = |any: &str| words.iter().any(|word| is_one_of(word, any));
    let follow = |pair: [&str; 2]| words.windows(2).any(|two| two == pair);
    let joined: String = words.concat();
    // Hooks before or after a phase: `on_before_optimizer_step`, `on_backward_end`.
    if has("on") && has("before after start end begin") {
        return None;
    }
    if is_loading_range(name, &words) {
        return Some(Topic::DataLoading);
    }
    if follow(["dynamo", "timed"]) {
        return Some(Topic::Compilation);
    }
    if is_communication(&words, &joined) {
        return Some(Topic::Communication);
    }
    let is_forward = has("forward fwd");
    let is_backward = has("backward bwd");
    let is_optimizer =
        has("optimizer optim") || ["optstep", "zerograd", "clipgrad"].iter().any(|part| joined.contains(part));
    // `ZeRO-3_step`, `DeepSpeedEngine.step`.
    let is_library = joined.contains("zero") || joined.contains("deepspeed");
    let is_optimizer = is_optimizer || is_library && words.last().is_some_and(|word| word == "step");
    let is_copy = || has("h2d htod d2h dtoh") || follow(["hto", "d"]) || follow(["dto", "h"]);
    match (is_forward, is_backward, is_optimizer) {
        (true, true, _) => None,
        // `DeepSpeedZeroOptimizer.backward`
        (_, true, _) => Some(Topic::Backward),
        (true, ..) => Some(Topic::Forward),
        (.., true) => Some(Topic::Optimizer),
        _ if is_copy() || joined.contains("transfer") => Some(Topic::Copies),
        _ if is_loading(&words) || loading::is_whole_name(&words) => Some(Topic::DataLoading),
        _ if is_compilation(&words) => Some(Topic::Compilation),
        _ if is_garbage_collection(&words) => Some(Topic::GarbageCollection),
        _ if has("loss criterion") || runs_model(&words) => Some(Topic::Forward),
        _ => None,
    }
}

/// Whether `PyTorch`, a library on top of it, or TensorFlow, gave this name to the loading of data.
fn is_loading_range(name: &str, words: &[String]) -> bool {
    const STAGES: &str = "train training val validation sanity checking test predict";
    let is_loader = name.contains("DataLoader") || words.iter().any(|word| word.starts_with("dataload"));
    let is_state = words.iter().any(|word| matches!(word.as_str(), "state" | "save" | "checkpoint"));
    // Lightning: `[pl][profile][_EvaluationLoop].val_next`.
    let is_of_loop = || words.iter().any(|word| word == "loop");
    let is_next = || matches!(words, [.., stage, next] if is_one_of(stage, STAGES) && next == "next");
    is_loader && !is_state || is_next() && is_of_loop() || name.contains("IteratorGetNext")
}

/// Whether a name is that of a collective: `reduce_scatter_gradients`, `MPI_Barrier`. `reduce_loss` says too little.
fn is_communication(words: &[String], joined: &str) -> bool {
    const COLLECTIVES: &str = "allreduce allgather reducescatter alltoall all2all nccl rccl hccl";
    const LIBRARIES: &str = "mpi horovod hvd gloo ucc oneccl dist distributed comm";
    const OPERATIONS: &str = "barrier broadcast bcast reduce gather scatter send recv isend irecv wait waitall";
    let has = |any: &str| words.iter().any(|word| is_one_of(word, any));
    let is_of_library = || words.first().is_some_and(|word| is_one_of(word, LIBRARIES));
    COLLECTIVES.split(' ').any(|collective| joined.contains(collective))
        || is_of_library() && has(OPERATIONS)
        || joined == "barrier"
        // TorchRec exchanges the features of a batch: `wait_sparse_data_dist`.
        || joined.contains("sparsedatadist")
}

/// Whether a name speaks of compiling, or of loading code. Ordinary runs of compiled code do not: `compiled_forward`,
/// `TorchDynamo Cache Lookup`, `CachingAutotuner.run`; neither do `jit_forward` and `dynamo_wrapped_model`.
fn is_compilation(words: &[String]) -> bool {
    const COMPILES: &str = "\
        compile compiling compilation recompile recompiling recompilation autotune autotuning nvrtc ptxas";
    const NOT: &str = "lookup is free disabled disable skip without no time";
    const CODE: &str = "module cubin ptx fatbin kernel kernels";
    let has = |any: &str| words.iter().any(|word| is_one_of(word, any));
    let loads_code = |two: &[String]| match two {
        [verb, noun] if verb == "load" || verb == "loading" => is_one_of(noun, CODE),
        [noun, verb] if verb == "load" || verb == "loading" => is_one_of(noun, CODE),
        _ => false,
    };
    let is_tuner = has("autotuner") && has("benchmark bench tune precompile");
    let is_whole = matches!(words, [word] if matches!(word.as_str(), "jit" | "inductor" | "dynamo"));
    !has(NOT) && (has(COMPILES) || is_tuner || is_whole || words.windows(2).any(loads_code))
}

/// Whether a name says only that garbage is collected: `gc.collect`, `Python GC (generation 2)`. `gc-disabled region`
/// does not.
pub fn is_garbage_collection(words: &[String]) -> bool {
    const KNOWN: &str = "\
        gc garbage collect collecting collection collector python py generation gen manual full run force forced do";
    let has = |any: &str| words.iter().any(|word| is_one_of(word, any));
    has("gc garbage") && words.iter().all(|word| is_one_of(word, KNOWN))
}

#[cfg(test)]
mod tests;
