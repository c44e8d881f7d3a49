//! Signatures: call stacks without the frames of the interpreter and the recorder, so that all allocations
//! of one place in the program have the same one.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::by_place::place_name;
use super::callers::Wrapper;
use super::labels::stack_labels;
use crate::analysis::frame::Frame;
use crate::model::{StackId, StringId, Trace};

/// Index of a signature in [`Signatures`]; 0 stands for an unknown stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SignatureId(pub u32);

/// The signatures of all stacks of a trace.
#[derive(Debug)]
pub struct Signatures {
    of_stack: Vec<SignatureId>,
    /// The signature of the callers; 0 is its own parent.
    parent: Vec<SignatureId>,
    /// The innermost frame, as a string of the trace.
    frame: Vec<StringId>,
    ignores_lines: bool,
    /// A function that is named with its callers.
    wrapper: Option<Wrapper>,
}

impl Signatures {
    /// Computes the signature of each stack of a trace.
    ///
    /// * `ignores_lines`: whether line numbers are ignored.
    ///
    /// Cost: O(stacks + length of distinct frames).
    pub fn new(trace: &Trace, ignores_lines: bool) -> Self {
        let stacks = &trace.stacks;
        let mut frames = Frames { trace, ignores_lines, known: HashMap::new(), by_place: HashMap::new() };
        let mut index: HashMap<(SignatureId, StringId), SignatureId> = HashMap::new();
        let mut all = Self {
            of_stack: vec![SignatureId::default(); stacks.len()],
            parent: vec![SignatureId::default()],
            frame: vec![StringId::EMPTY],
            ignores_lines,
            wrapper: None,
        };
        // Callers have smaller ids, so their signature is known.
        for stack in 1..stacks.len() {
            let callers = all.of_stack[stacks.parent[stack].0 as usize];
            all.of_stack[stack] = match frames.key(stacks.frame[stack]) {
                None => callers,
                Some(frame) => {
                    let next = SignatureId(all.parent.len() as u32);
                    let id = *index.entry((callers, frame)).or_insert(next);
                    if id == next {
                        all.parent.push(callers);
                        all.frame.push(frame);
                    }
                    id
                }
            };
        }
        all
    }

    /// Computes signatures of a single frame: the function and file that label a stack. For programs whose
    /// stacks vary between steps.
    ///
    /// Cost: O(stacks + length of distinct frames).
    pub fn by_function(trace: &Trace) -> Self {
        let mut all = Self {
            of_stack: Vec::new(),
            parent: vec![SignatureId::default()],
            frame: vec![StringId::EMPTY],
            ignores_lines: true,
            wrapper: None,
        };
        let mut known: HashMap<StringId, SignatureId> = HashMap::new();
        let mut by_place: HashMap<&str, SignatureId> = HashMap::new();
        known.insert(StringId::EMPTY, SignatureId::default());
        let labels = stack_labels(trace);
        let of = labels.into_iter().map(|frame| {
            *known.entry(frame).or_insert_with(|| {
                *by_place.entry(without_line(trace.strings.get(frame))).or_insert_with(|| {
                    all.parent.push(SignatureId::default());
                    all.frame.push(frame);
                    SignatureId(all.frame.len() as u32 - 1)
                })
            })
        });
        let of_stack = of.collect();
        Self { of_stack, ..all }
    }

    /// The same, whose places have the callers of a function that allocates for others.
    pub fn called(self, wrapper: Option<Wrapper>) -> Self {
        Self { wrapper, ..self }
    }

    /// The signature of a stack; 0 for a stack of another trace.
    pub fn of(&self, stack: StackId) -> SignatureId {
        self.of_stack.get(stack.0 as usize).copied().unwrap_or_default()
    }

    /// Number of signatures, including 0.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Always false: signature 0 exists in every trace.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    /// The frames of a signature, innermost first; empty for an unknown stack.
    pub fn frames<'a>(&self, trace: &'a Trace, signature: SignatureId) -> Vec<Cow<'a, str>> {
        self.names(trace, signature).collect()
    }

    /// The same, each made when it is asked for.
    pub fn names<'a>(
        &self,
        trace: &'a Trace,
        signature: SignatureId,
    ) -> impl Iterator<Item = Cow<'a, str>> + use<'a, '_> {
        let mut next = Some(signature);
        std::iter::from_fn(move || {
            let at = next.filter(|&at| at != SignatureId::default())?;
            next = self.parent.get(at.0 as usize).copied();
            let text = trace.strings.get(*self.frame.get(at.0 as usize)?);
            let has_line = self.ignores_lines && without_line(text) != text;
            Some(if has_line { format!("{})", without_line(text)).into() } else { text.into() })
        })
    }

    /// What its place is called, as in the memory by place. `None` without frames.
    pub fn label(&self, trace: &Trace, signature: SignatureId) -> Option<String> {
        let frames = self.frames(trace, signature);
        let name = Some(place_name(&frames)).filter(|name| !name.is_empty())?;
        Some(match self.wrapper.and_then(|wrapper| wrapper.caller(trace, &name, &frames)) {
            Some(caller) => format!("{name}; from {caller}"),
            None => name,
        })
    }
}

/// `forward (model.py:12)` without `:12)`. Names of Kineto's Python tracer keep their line, that of the function.
fn without_line(text: &str) -> &str {
    match Frame::of(text) {
        frame if frame.line == 0 || !text.ends_with(')') => text,
        _ => text.rsplit_once(':').map_or(text, |parts| parts.0),
    }
}

/// Normalized form of each distinct frame.
struct Frames<'a> {
    trace: &'a Trace,
    ignores_lines: bool,
    /// `None` for noise frames.
    known: HashMap<StringId, Option<StringId>>,
    /// The first frame of each function and file.
    by_place: HashMap<&'a str, StringId>,
}

impl Frames<'_> {
    fn key(&mut self, frame: StringId) -> Option<StringId> {
        if let Some(&known) = self.known.get(&frame) {
            return known;
        }
        let text = self.trace.strings.get(frame);
        let key = match Frame::of(text).is_noise() {
            true => None,
            false if self.ignores_lines => Some(*self.by_place.entry(without_line(text)).or_insert(frame)),
            false => Some(frame),
        };
        self.known.insert(frame, key);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Script;
    use super::*;

    #[test]
    fn stacks_that_differ_in_noise_frames_share_a_signature() {
        let mut script = Script::default();
        let a = script.stack(&[
            "torch::unwind::unwind()",
            "mul (a.cpp:1)",
            "_PyEval_EvalFrameDefault",
            "step (/me/train.py:7)",
            "_start",
        ]);
        let b =
            script.stack(&["mul (a.cpp:1)", "step (/me/train.py:7)", "PyObject_Call", "__libc_start_main@@GLIBC_2.34"]);
        let c = script.stack(&["mul (a.cpp:1)", "step (/me/train.py:8)"]);
        let noise = script.stack(&["??", "_start"]);
        let torch = script.stack(&["mul (a.cpp:1)", "call (/x/site-packages/torch/nn/m.py:3)"]);
        let malloc = "c10::cuda::CUDACachingAllocator::Native::malloc(void**) (CUDACachingAllocator.cpp:0)";
        let backward = [malloc, "at::native::mm(int)", "torch::autograd::generated::MmBackward0::apply()", "clone"];
        let backward = script.stack(&backward);
        let cublas = script.stack(&[malloc, "cublasCreate"]);
        let trace = script.finish();
        let exact = Signatures::new(&trace, false);
        assert_eq!(exact.of(a), exact.of(b));
        assert_ne!(exact.of(a), exact.of(c));
        assert_eq!(exact.of(noise), SignatureId(0));
        assert_eq!(exact.of(StackId(9999)), SignatureId(0));
        assert_eq!(exact.frames(&trace, exact.of(a)), ["mul (a.cpp:1)", "step (/me/train.py:7)"]);
        assert_eq!(exact.label(&trace, exact.of(a)), Some("step (/me/train.py:7)".into()));
        assert_eq!(exact.label(&trace, exact.of(torch)), Some("call (/x/site-packages/torch/nn/m.py:3)".into()));
        assert_eq!(exact.label(&trace, SignatureId(0)), None);
        let node = "torch::autograd::generated::MmBackward0::apply()";
        assert_eq!(exact.label(&trace, exact.of(backward)), Some(node.into()));
        assert_eq!(exact.label(&trace, exact.of(cublas)), Some("cublasCreate".into()));
        let loose = Signatures::new(&trace, true);
        assert_eq!(loose.of(a), loose.of(c));
        assert_eq!(loose.frames(&trace, loose.of(c)), ["mul (a.cpp)", "step (/me/train.py)"]);
    }
}
