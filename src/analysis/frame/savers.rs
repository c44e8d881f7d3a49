//! Frames that write a checkpoint.

use super::{Frame, libraries};
use crate::analysis::words;

/// Files of libraries whose functions `save`, `dump` and the like write the state of a training.
const FILES: &str = "\
    torch/serialization.py torch/distributed/checkpoint/ safetensors/ accelerate/checkpointing.py pickle.py \
    cloudpickle/";

/// Whether a function writes the state of a training: those of libraries by file and name, those of the user's program,
/// built-in ones and ranges by their words.
pub fn saves(frame: &Frame<'_>) -> bool {
    let words = words::words(frame.function);
    let is_in =
        |part: &str| frame.file.match_indices(part).any(|(at, _)| at == 0 || frame.file.as_bytes()[at - 1] == b'/');
    let is_of_library = || FILES.split(' ').any(is_in) && libraries::contains(frame.file);
    let has_verb = || words.iter().any(|word| matches!(word.as_str(), "save" | "dump" | "dumps"));
    words::is_saving(&words) || frame.function.contains("write_record") || has_verb() && is_of_library()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_write_a_checkpoint() {
        let saves = |name: &str| saves(&Frame::of_python_function(name));
        for name in [
            "torch/serialization.py(945): save",
            "torch/serialization.py(1184): _save",
            "torch/distributed/checkpoint/state_dict_saver.py(80): save",
            "safetensors/torch.py(200): save_file",
            "/x/site-packages/safetensors/torch.py(200): save_file",
            "<built-in method write_record of PyTorchFileWriter object at 0x7fbf>",
            "pickle.py(9): dump",
            "transformers/trainer.py(3000): _save_checkpoint",
            "train.py(80): save_model",
            "train.py(80): saveCheckpoint",
            "checkpoint_saving",
            "save_state_dict",
        ] {
            assert!(saves(name), "{name}");
        }
        for name in [
            "torch/utils/checkpoint.py(480): checkpoint",
            "torch/serialization.py(1300): load",
            "torch/autograd/function.py(30): save_for_backward",
            "faults.py(151): checkpoint",
            "json/__init__.py(5): dumps",
            "train.py(9): save_metrics",
            "train.py(9): load_checkpoint",
            "model.py(3): state_dict",
            "safe_model",
        ] {
            assert!(!saves(name), "{name}");
        }
    }
}
