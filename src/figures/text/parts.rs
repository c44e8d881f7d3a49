//! Parts of names: those of a path of modules and types, and what stands between brackets.

use super::middle_cut;

/// How many characters fewer a cut shows at most, so that brackets match.
const MOST_LOST: usize = 4;

/// How many characters of the beginning and of the end to show, near `head` and `tail`, so that what the beginning
/// opens the end closes. `None` where there is no such place nearby, or no bracket. Cost: O(length).
pub(super) fn between_brackets(text: &str, head: usize, tail: usize) -> Option<(usize, usize)> {
    if tail == 0 || !text.contains(['<', '(', '[', '{']) {
        return None;
    }
    let open = open_before(text);
    let n = open.len() - 1;
    let fits = |&(head, tail): &(usize, usize)| head + tail < n && open[head] == open[n - tail];
    // The end tells kernels of one template apart: it grows rather than shrinks.
    let least = tail - tail / 3;
    let lost = (0..=MOST_LOST.min(tail - least)).map(|lost| (head, tail - lost));
    let moved = |(head, tail): (usize, usize)| {
        let grown = (0..=head / 2).map(move |by| (head - by, tail + by));
        grown.chain((1..=tail - least).map(move |by| (head + by, tail - by)))
    };
    lost.flat_map(moved).find(|place| fits(place))
}

/// Which brackets are open before each character and at the end, as a number that is the same for the same brackets.
fn open_before(text: &str) -> Vec<u64> {
    let (mut now, mut around) = (0_u64, Vec::new());
    let mut before = ' ';
    let mut open = vec![0];
    for c in text.chars() {
        // Not the end of an arrow.
        let is_arrow = c == '>' && before == '-';
        before = c;
        if let Some(kind) = "<([{".find(c) {
            around.push(now);
            now = now.wrapping_mul(5).wrapping_add(kind as u64 + 1);
        } else if ">)]}".contains(c) && !is_arrow {
            now = around.pop().unwrap_or_default();
        }
        open.push(now);
    }
    open
}

/// The last parts of a path of modules and types, as many as fit: `…lock.acquire` of `_thread.lock.acquire`. `None` for
/// other names, such as those of files.
pub(super) fn last_parts(name: &str, max: usize) -> Option<String> {
    /// The ends of files and hosts tell less than their beginnings.
    const ENDS: [&str; 8] = ["json", "gz", "py", "so", "sqlite", "pickle", "com", "org"];
    let is_word = |part: &str| {
        part.chars().all(|c| c.is_alphanumeric() || c == '_') && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    let parts: Vec<&str> = name.split('.').collect();
    let last = parts.last().filter(|last| !ENDS.contains(last))?;
    if parts.len() < 2 || !parts.iter().all(|part| !part.is_empty() && is_word(part)) {
        return None;
    }
    let length = |text: &str| text.chars().count();
    if length(last) > max {
        return Some(middle_cut(last, max));
    }
    let mut from = name.len() - last.len();
    while let Some(dot) = name[..from - 1].rfind('.').filter(|&dot| length(&name[dot + 1..]) < max) {
        from = dot + 1;
    }
    let shown = &name[from..];
    Some(if length(shown) < max { format!("…{shown}") } else { shown.to_owned() })
}

#[cfg(test)]
mod tests {
    use crate::figures::text::{middle_cut, shortened};

    #[test]
    fn a_cut_leaves_brackets_that_match() {
        let is_balanced = |text: &str| {
            let mut open = Vec::new();
            let mut before = ' ';
            text.chars().all(|c| {
                let is_arrow = std::mem::replace(&mut before, c) == '-';
                match c {
                    '<' | '(' | '[' | '{' => open.push(c),
                    '>' if is_arrow => {}
                    '>' => return open.pop() == Some('<'),
                    ')' => return open.pop() == Some('('),
                    ']' => return open.pop() == Some('['),
                    '}' => return open.pop() == Some('{'),
                    _ => {}
                }
                true
            }) && open.is_empty()
        };
        assert_eq!(middle_cut("Memcpy HtoD (Pageable -> Device)", 20), "Memcpy HtoD (…evice)");
        let names = [
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >\
             (int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_32x6_nn_align4>(cutlass_80_tensorop_s1688gemm\
             _128x64_32x6_nn_align4::Params)",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::\
             native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, \
             unsigned int, float, 4> >(at::native::ReduceOp<float>)",
        ];
        for name in names {
            let (mut n, mut n_balanced) = (0, 0);
            for max in 12..120 {
                let short = shortened(name, max);
                assert!(short.chars().count() <= max, "{short}");
                n += 1;
                n_balanced += usize::from(is_balanced(&short));
            }
            assert!(n_balanced * 4 >= n * 3, "{n_balanced} of {n} of {name}");
        }
    }
}
