//! Collectives that threads of the host run, such as those of Gloo: what their ranges say.

use crate::model::{Collective, StringId, element_bytes, host_collective};

use super::text::unescape;

/// What the range of a collective says of its input: a list of shapes, and a list of types.
pub fn collective_of_range(
    name: &[u8],
    shapes: &str,
    dtypes: &[u8],
    intern: &mut dyn FnMut(&str) -> StringId,
) -> Option<Collective> {
    let (_, op) = host_collective(name)?;
    let types = String::from_utf8_lossy(dtypes);
    let mut types =
        types.split(',').map(|text| text.trim_matches(|c: char| c.is_ascii_whitespace() || "[]\"".contains(c)));
    // Tensors of several types have no size that can be told by their elements.
    let first = types.next().map(scalar_type).filter(|first| types.all(|other| scalar_type(other) == *first));
    let dtype = first.unwrap_or_default();
    Some(Collective {
        op: intern(&unescape(op)),
        element_bytes: element_bytes(dtype),
        dtype: intern(dtype),
        in_elements: elements_in(shapes),
        ..Collective::default()
    })
}

/// A C++ type of an element, as the profiler writes it, by the names of `c10/core/ScalarType.h`; others as they are.
fn scalar_type(name: &str) -> &str {
    match name {
        "unsigned char" => "Byte",
        "signed char" | "char" => "Char",
        "bool" => "Bool",
        "short" | "short int" => "Short",
        "int" => "Int",
        "long" | "long int" | "long long" => "Long",
        "float" => "Float",
        "double" => "Double",
        name => name.strip_prefix("c10::").unwrap_or(name),
    }
}

/// How many elements tensors of these shapes have together: 14 for `[[2, 3], [8]]`; `None` for anything else than a
/// list of lists of numbers, also for lists of tensors.
fn elements_in(shapes: &str) -> Option<u64> {
    let inside = shapes.strip_prefix("[[")?.strip_suffix("]]")?;
    let of = |shape: &str| {
        let sides = shape.split(", ").filter(|side| !side.is_empty());
        sides.map(|side| side.parse::<u64>().ok()).try_fold(1_u64, |all, side| all.checked_mul(side?))
    };
    inside.split("], [").map(of).try_fold(0_u64, |sum, elements| sum.checked_add(elements?))
}

#[cfg(test)]
mod tests {
    use super::super::assemble::Assembly;
    use super::super::pipeline;
    use super::*;
    use crate::job::Progress;

    #[test]
    fn a_range_of_a_collective_on_the_host_tells_its_size() {
        let text = br#"[
            {"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","pid":1,"tid":2,"ts":1,"dur":9,"args":{
                "Input type":["float"],"Input Dims":[[1024, 3]]}},
            {"ph":"X","cat":"user_annotation","name":"mpi:all_gather","pid":1,"tid":2,"ts":11,"dur":9,"args":{
                "Input type":["c10::BFloat16","c10::BFloat16"],"Input Dims":[[2,3],[8]]}},
            {"ph":"X","cat":"user_annotation","name":"gloo:barrier","pid":1,"tid":2,"ts":21,"dur":9},
            {"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","pid":1,"tid":2,"ts":31,"dur":9,"args":{
                "Input type":["float"],"Input Dims":[[4]]}},
            {"ph":"X","cat":"gpu_user_annotation","name":"gloo:all_reduce","pid":0,"tid":7,"ts":5,"dur":2}
        ]"#;
        let mut assembly = Assembly::default();
        let _ = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        let found: Vec<_> = trace.facts.collectives.iter().collect();
        let text = |id| trace.strings.get(id);
        let mut of: Vec<_> = found.iter().map(|(_, call)| (text(call.op), text(call.dtype), call.in_bytes())).collect();
        of.sort_unstable();
        let expected =
            [("all_gather", "BFloat16", Some(28)), ("all_reduce", "Float", Some(12_288)), ("barrier", "", None)];
        assert_eq!(of, expected);
    }

    #[test]
    fn elements_are_counted_or_unknown() {
        for (shapes, expected) in [
            ("[[2, 3], [8]]", Some(14)),
            ("[[]]", Some(1)),
            ("[[0]]", Some(0)),
            ("[[[2, 3]], []]", None),
            ("[[4294967296, 4294967296]]", None),
            ("[[-1]]", None),
            ("", None),
        ] {
            assert_eq!(elements_in(shapes), expected, "{shapes}");
        }
    }
}
