//! Selection and names of the slices that are frames of a path.

use super::Weigh;
use crate::analysis::steps::{PROFILER_STEP, is_step_name};
use crate::model::SliceKind;

/// The frame of device work whose launch was not recorded.
pub(super) const NO_LAUNCH: &str = "(launch not recorded)";
/// The frame, below a module or function, of the backward pass of what ran in it.
pub(super) const BACKWARD: &str = "(backward)";

/// Which slices are frames of a path; time in others counts to the frame around them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Frames {
    /// Every slice of a thread: Python functions, annotations, operators, API calls.
    #[default]
    All,
    /// Operators, and the NVTX ranges of `torch.autograd.profiler.emit_nvtx`, which are operators.
    Operators,
    /// `nn.Module`s, which Kineto records as Python functions, and annotations, which name parts of a model in
    /// other recordings. The backward pass of a module's operators is below the module, along the arrows from
    /// forward to backward.
    Modules,
    /// Python functions, and below them the outermost operators, those of the backward pass below the functions that
    /// ran them forward.
    Stacks,
}

/// The frame of what is in no frame.
pub(super) fn outside(frames: Frames) -> Option<&'static str> {
    match frames {
        Frames::All => None,
        Frames::Operators => Some("(outside of operators)"),
        Frames::Stacks => Some("(outside of Python)"),
        Frames::Modules => Some("(outside of modules)"),
    }
}

/// The name of the frame of a slice; `None` if it is none.
pub(super) fn frame_name(frames: Frames, weigh: Weigh, kind: SliceKind, text: &str) -> Option<&str> {
    let is_range = kind == SliceKind::Annotation;
    let operator = if is_range { operator_of_range(text) } else { None };
    match frames {
        Frames::All if weigh == Weigh::Device && kind.is_call() => None,
        Frames::All => Some(operator.or_else(|| step(kind, text)).unwrap_or(text)),
        Frames::Operators => {
            if kind == SliceKind::Operator {
                Some(step(kind, text).unwrap_or(text))
            } else {
                operator
            }
        }
        Frames::Modules if is_range => {
            let name = step(kind, text).unwrap_or(text);
            Some(name).filter(|&name| operator.is_none() && name != PROFILER_STEP.trim_end_matches('#'))
        }
        Frames::Modules => module(text).filter(|_| kind == SliceKind::PythonFunction),
        Frames::Stacks => {
            matches!(kind, SliceKind::PythonFunction | SliceKind::Operator).then(|| step(kind, text).unwrap_or(text))
        }
    }
}

/// The class and number of a module: `Linear_0` of `nn.Module: Linear_0`.
pub(super) fn module(text: &str) -> Option<&str> {
    text.strip_prefix("nn.Module: ")
}

/// The name that steps have in common, without the number that counts them: `ProfilerStep` of `ProfilerStep#7`, which
/// PyTorch before 1.11 wrote as an operator, `iteration` of the range `iteration 7`. `None` of what counts no steps.
fn step(kind: SliceKind, text: &str) -> Option<&str> {
    let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if name.len() == text.len() || !matches!(kind, SliceKind::Annotation | SliceKind::Operator) {
        return None;
    }
    let is_step = match kind {
        SliceKind::Annotation => is_step_name(name),
        _ => name == PROFILER_STEP,
    };
    is_step.then(|| name.trim_end_matches(|c: char| !c.is_alphanumeric()))
}

/// The operator of a range of `emit_nvtx`: `aten::addmm` of `aten::addmm, seq = 12, sizes = [[2, 3]]`.
fn operator_of_range(text: &str) -> Option<&str> {
    let end = [", seq = ", ", op_id = ", ", sizes = "].iter().filter_map(|key| text.find(key)).min();
    end.map(|end| &text[..end]).or_else(|| text.starts_with("aten::").then_some(text))
}
