//! Words that say that an engine for inference runs its model, which is a forward pass.
//!
//! What surrounds it is none: `session_initialization`, `IExecutionContext::setInputShape`, `build_engine`.

use super::is_one_of;

/// Whether words name a run of a model: `ExecutionContext::execute` and `enqueueV3` of `TensorRT` and Myelin inside,
/// `InferenceSession::Run` and `SequentialExecutor::Execute` of ONNX Runtime, `tensorrt::execute_engine` of `PyTorch`,
/// `execute_model` of vLLM, and ranges that programs call `inference` or `model`.
pub fn runs_model(words: &[String]) -> bool {
    const WHOLE: &str = "model inference infer runinference modelinference inferencestep modelinfer runmodel modelrun";
    /// What engines call the object that runs a model.
    const RUNNERS: [&str; 5] =
        ["executioncontext", "inferencesession", "sequentialexecutor", "parallelexecutor", "inferrequest"];
    const RUNS: &str = "execute enqueue run infer";
    let joined: String = words.concat();
    let runs = words.iter().any(|word| is_one_of(word, RUNS));
    let is_runner = || RUNNERS.iter().any(|runner| joined.contains(runner));
    let follow = |pair: [&str; 2]| words.windows(2).any(|two| two == pair);
    is_one_of(&joined, WHOLE)
        || runs && is_runner()
        || follow(["execute", "engine"])
        || follow(["execute", "model"])
        || joined == "myelingraphexecute"
}
