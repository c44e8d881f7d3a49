//! Selection and names of the slices that are frames of a path.

use super::Weigh;
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
        Frames::All => Some(operator.or_else(|| step(text).filter(|_| is_range)).unwrap_or(text)),
        Frames::Operators => {
            if kind == SliceKind::Operator {
                Some(text)
            } else {
                operator
            }
        }
        Frames::Modules if is_range => Some(text).filter(|text| operator.is_none() && step(text).is_none()),
        Frames::Modules => module(text).filter(|_| kind == SliceKind::PythonFunction),
        Frames::Stacks => Some(text).filter(|_| matches!(kind, SliceKind::PythonFunction | SliceKind::Operator)),
    }
}

/// The class and number of a module: `Linear_0` of `nn.Module: Linear_0`.
pub(super) fn module(text: &str) -> Option<&str> {
    text.strip_prefix("nn.Module: ")
}

/// The steps of the profiler under one name, so that they add up.
fn step(text: &str) -> Option<&str> {
    text.starts_with("ProfilerStep#").then_some("ProfilerStep")
}

/// The operator of a range of `emit_nvtx`: `aten::addmm` of `aten::addmm, seq = 12, sizes = [[2, 3]]`.
fn operator_of_range(text: &str) -> Option<&str> {
    let end = [", seq = ", ", op_id = ", ", sizes = "].iter().filter_map(|key| text.find(key)).min();
    end.map(|end| &text[..end]).or_else(|| text.starts_with("aten::").then_some(text))
}
