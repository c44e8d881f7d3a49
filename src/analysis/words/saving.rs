//! Words that say that a checkpoint is written.

use super::is_one_of;

const SAVES: &str = "save saves saving write writes writing dump dumping store storing export";
const STATE: &str = "checkpoint checkpoints ckpt ckpts model weights pretrained";

/// Whether words say that the state of a training is saved, in either order: `save_checkpoint`, `checkpoint_saving`,
/// `save_state_dict`. `checkpoint` alone may recompute activations.
pub fn is_saving(words: &[String]) -> bool {
    let is_pair = |two: &[String]| {
        let is = |at: usize, list: &str| is_one_of(&two[at], list);
        is(0, SAVES) && is(1, STATE) || is(0, "checkpoint ckpt") && is(1, SAVES) || two == ["save", "state"]
    };
    words.windows(2).any(is_pair)
}
