//! Signatures of C++ functions where room is short.

use std::borrow::Cow;

use super::middle_cut;

/// The function of a signature and its template arguments, without scopes, in at most `max` characters.
pub(super) fn signature_within(function: &str, template: &str, max: usize) -> String {
    /// In fewer, no argument can be read.
    const LEGIBLE: usize = 12;
    let function = function.rsplit("::").next().unwrap_or(function);
    if max < LEGIBLE {
        return middle_cut(function, max);
    }
    let template = without_scopes(template);
    let length = |text: &str| text.chars().count();
    if length(function) + length(&template) <= max {
        return format!("{function}{template}");
    }
    // Sizes tell less than what is computed.
    let inner = &template[1..];
    let telling = inner.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | ' '));
    let telling = of_wrapper(telling).unwrap_or(telling);
    let telling = of_functor(telling).map_or(Cow::Borrowed(telling), Cow::Owned);
    let template = if telling.contains(char::is_alphabetic) { format!("<{telling}") } else { template };
    let of_function = length(function).min((max * 2 / 5).max(max.saturating_sub(length(&template))));
    format!("{}{}", middle_cut(function, of_function), template_within(&template, max - of_function))
}

/// Template arguments in at most `max` characters. Brackets close those in sight alone: more say nothing.
fn template_within(template: &str, max: usize) -> String {
    let length = |text: &str| text.chars().count();
    if length(template) <= max {
        return template.to_owned();
    }
    let n_open = |text: &str| text.matches('<').count().saturating_sub(text.matches('>').count());
    let inner = template.trim_end_matches(['>', ' ']);
    let cut = |max: usize| {
        let cut = middle_cut(inner, max);
        let Some((head, tail)) = cut.split_once('…') else { return cut };
        let rest = tail.trim_start_matches(['>', ' ']);
        let n_closed = tail[..tail.len() - rest.len()].matches('>').count();
        format!("{head}…{}{rest}", ">".repeat(n_closed.min(n_open(head).saturating_sub(1))))
    };
    // In less room as many are open at most.
    let n = n_open(&cut(max.saturating_sub(1))).max(1);
    let cut = cut(max.saturating_sub(n));
    let n = n_open(&cut).clamp(1, n);
    cut + &">".repeat(n)
}

/// The template argument of PyTorch's wrapper around the function of an elementwise kernel, with what follows it there.
fn of_wrapper(arguments: &str) -> Option<&str> {
    let (_, inner) = arguments.strip_prefix("gpu_kernel_impl")?.split_once('<')?;
    let end = inner.rfind(">::{").or_else(|| inner.rfind(">::["))?;
    Some(&inner[..=end])
}

/// What PyTorch's functors of one and two operands compute, before the types of these: `MulFunctor<float>, BFloat16×3`
/// of `BinaryFunctor<BFloat16, BFloat16, BFloat16, MulFunctor<float> >`.
fn of_functor(arguments: &str) -> Option<String> {
    let (_, inner) = arguments.split_once('<').filter(|(name, _)| name.ends_with("naryFunctor"))?;
    let mut depth = 0_i32;
    let mut ends = inner.char_indices().filter(|&(_, c)| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth < 0 || depth == 0 && c == ','
    });
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let (at, c) = ends.next()?;
        all.push(inner[from..at].trim());
        from = at + 1;
        if c == '>' {
            break;
        }
    }
    let (operation, types) = all.split_last()?;
    let types = types.chunk_by(|a, b| a == b).map(|same| match same.len() {
        1 => same[0].to_owned(),
        n => format!("{}\u{d7}{n}", same[0]),
    });
    Some(format!("{operation}, {}{}", types.collect::<Vec<_>>().join(", "), &inner[from..]))
}

/// Template arguments without the scopes of names, the parameters of functions and casts:
/// `<fill<float>::{lambda(int)#1}>` of `<at::native::fill<float>(at::Tensor&)::{lambda(int)#1}>`.
pub(super) fn without_scopes(template: &str) -> String {
    const NOISE: [&str; 9] = [
        "(anonymous namespace)::",
        "<unnamed>::",
        "(int)",
        "(bool)",
        "(unsigned int)",
        "(unsigned long)",
        "(long)",
        "void ",
        "operator",
    ];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = template;
    while let Some(c) = rest.chars().next() {
        // Nothing that is left out begins so.
        let plain = rest.bytes().position(|c| b"(<vo:".contains(&c)).unwrap_or(rest.len());
        if plain > 0 {
            out += &rest[..plain];
            rest = &rest[plain..];
            continue;
        }
        let is_start = !out.ends_with(is_word);
        if let Some(after) = NOISE.iter().find_map(|noise| rest.strip_prefix(noise)).filter(|_| is_start) {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("::") {
            rest = after;
            out.truncate(out.trim_end_matches(" const").trim_end_matches(' ').len());
            let is_scope = after.starts_with(is_word);
            out.truncate(if is_scope { out.trim_end_matches(is_word).len() } else { out.len() });
            if out.ends_with(['}', ']', '>']) || (!is_scope && out.ends_with(is_word)) {
                out.push_str("::");
            }
        } else if c == '(' && out.trim_end().ends_with(|c| is_word(c) || matches!(c, '>' | ':')) && !is_lambda(&out) {
            rest = after_parentheses(rest);
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// Whether parameters that follow are those of a lambda, which distinguish it.
fn is_lambda(before: &str) -> bool {
    before.rfind("lambda").is_some_and(|at| !before[at..].contains(['}', ']', ':', '<']))
}

/// What follows the parenthesis that `text` starts with.
fn after_parentheses(text: &str) -> &str {
    let mut depth = 0_u32;
    let end = text.char_indices().find(|&(_, c)| {
        depth = depth + u32::from(c == '(') - u32::from(c == ')');
        depth == 0
    });
    end.map_or("", |(at, _)| &text[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::super::shortened;
    use super::*;

    #[test]
    fn brackets_that_end_a_cut_name_close_those_in_sight() {
        let names = [
            "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::\
             binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int)",
            "void cub::DeviceRadixSortKernel<cub::Policy<int, cub::Null<long, wide::Type<float> > >, false>(int)",
        ];
        for (name, max) in names.iter().flat_map(|name| (12..150).map(move |max| (name, max))) {
            let cut = shortened(name, max);
            if cut == *name {
                continue;
            }
            let open = cut.matches('<').count();
            let at_end = cut.chars().rev().take_while(|&c| matches!(c, '>' | ' ')).filter(|&c| c == '>').count();
            assert!(cut.chars().count() <= max, "{cut} in {max}");
            assert!((open.min(1)..=open).contains(&at_end), "{cut}");
        }
    }

    #[test]
    fn functors_tell_what_they_compute_and_of_which_types() {
        let kernel = |of: &str, operation: &str| {
            let functor = format!(
                "at::native::BinaryFunctor<{of}, {of}, {of}, at::native::binary_internal::{operation}<float> >"
            );
            let call = format!("{functor}>(at::TensorIteratorBase&, {functor} const&)::{{lambda(int)#1}}>");
            format!(
                "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{call}(int, {call})"
            )
        };
        let all = [
            kernel("c10::BFloat16", "MulFunctor"),
            kernel("float", "MulFunctor"),
            kernel("float", "DivFunctor"),
            kernel("c10::Half", "DivFunctor"),
        ];
        for max in [26, 30, 36, 48] {
            let mut short: Vec<String> = all.iter().map(|name| shortened(name, max)).collect();
            assert!(short.iter().all(|name| name.chars().count() <= max), "{short:?}");
            short.sort();
            short.dedup();
            assert_eq!(short.len(), all.len(), "{max}: {short:?}");
        }
        let name = "void f<BinaryFunctor<float, float, bool, CompareFunctor<float> >, char*>(int)";
        assert_eq!(shortened(name, 48), "f<CompareFunctor<float>, float\u{d7}2, bool, char*>");
        assert_eq!(of_functor("BinaryFunctor<float, "), None);
    }
}
