//! Names from a file as the screen shows them: short enough, and without hidden characters.

mod frames;
mod parts;
mod signature;
mod units;

use std::borrow::Cow;

pub use self::frames::{frame_within, tells_file};
use self::signature::{signature_within, without_scopes};
pub use self::units::{breakable, unbroken};
use crate::analysis::frame::Frame;
use crate::analysis::gaps::BACKWARD_NODE;
use crate::analysis::short_name::{name_and_template, short_name, without_call};
use crate::model::memory::{UNKNOWN_DEVICE, is_of_host};
use crate::model::{Track, TrackKind};

/// The index of a device, or what is said instead of memory of the host and where no device is known.
pub fn device(device: i32) -> String {
    match device {
        UNKNOWN_DEVICE => "unknown".to_owned(),
        host if is_of_host(host) => "host".to_owned(),
        device => device.to_string(),
    }
}

/// The longest name that reaches the screen, in characters.
pub const MAX_CHARS: usize = 256;

/// A name from a file, fit for the screen: at most [`MAX_CHARS`] characters, with control and
/// direction marks made visible, so that no name can look like another or break a line.
pub fn display_name(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_CHARS && is_plain(name) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len().min(4 * MAX_CHARS));
    for (n, c) in name.chars().enumerate() {
        if n == MAX_CHARS {
            out.push('…');
            break;
        }
        out.push(visible(c));
    }
    Cow::Owned(out)
}

/// The name of a track, fit for the screen. A thread that a recorder knew by its handle alone, as `CUPTI` does and as
/// Kineto writes it, as a negative number, is named by the end of that handle: a debugger and Python's
/// `threading.get_ident()` show the whole: `thread 0x…df400640`.
pub fn track_name(track: &Track) -> String {
    let title = track.title();
    // Of -1 there is nothing to know.
    let handle = title.parse::<i32>().ok().filter(|&id| id < -1 && track.kind == TrackKind::Thread);
    match handle {
        Some(id) => format!("thread 0x…{:08x}", id.cast_unsigned()),
        None => display_name(&title).into_owned(),
    }
}

/// The same in at most `max` characters, `…` not counted.
pub fn display_name_within(name: &str, max: usize) -> String {
    let shown = display_name(name);
    match shown.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", shown[..end].trim_end()),
        None => shown.into_owned(),
    }
}

/// A name with what tells most first: of a signature the function and its template arguments, without what it returns,
/// its parameters and scopes. Other names stay as they are. Names in tables begin so, and sort so. Cost: O(length).
pub fn telling(name: &str) -> Cow<'_, str> {
    // Ranges are called `step(5)` too; of a function without a template its types tell that it is one.
    let is_of_types = || ["*", "&", "::"].iter().any(|part| name.contains(part));
    let is_function = name.starts_with("void ") || name.ends_with(')') && is_of_types();
    if !name.contains('<') && !is_function {
        return Cow::Borrowed(name);
    }
    match name_and_template(name) {
        Some((function, template)) if !template.is_empty() || is_function => {
            let function = own_name(&function);
            Cow::Owned(format!("{function}{}", without_scopes(template)))
        }
        _ => Cow::Borrowed(name),
    }
}

/// What is left of [`BACKWARD_NODE`] in short names.
const EVALUATES: &str = "evaluate_function: ";

/// A name in at most `max` characters. Names that differ only in their middle, end or template arguments keep
/// enough of these to look different: `vectorized_ele…rnel<4, FillFunctor<float>>`. Lists of words lose their end,
/// frames of call stacks their folders.
///
/// Control marks are as in [`display_name`]. Cost: O(length).
pub fn shortened(name: &str, max: usize) -> String {
    let whole = if is_plain(name) { Cow::Borrowed(name) } else { Cow::Owned(name.chars().map(visible).collect()) };
    if whole.chars().nth(max).is_none() {
        return whole.into_owned();
    }
    if let Some(frames) = frames::frames_within(&whole, max) {
        return frames;
    }
    // The function that runs a node of the backward pass, and the node itself, are two operators.
    if let Some(node) = whole.strip_prefix(BACKWARD_NODE).filter(|node| node.contains('<') && max > 2 * EVALUATES.len())
    {
        return format!("{EVALUATES}{}", shortened(node, max - EVALUATES.len()));
    }
    if whole.contains('<') {
        if let Some((function, template)) = name_and_template(&whole).filter(|(_, template)| !template.is_empty()) {
            return signature_within(&function, template, max);
        }
    } else if whole.contains(", ") && !whole.contains('(') {
        return display_name_within(&whole, max.saturating_sub(1));
    }
    // Words in a row are not a signature.
    let is_call = whole.ends_with(')') && whole.contains('(');
    if is_call || !whole.contains(' ') {
        let without_call = short_name(&whole);
        let own = own_name(&without_call);
        return parts::last_parts(own, max).unwrap_or_else(|| middle_cut(own, max));
    }
    middle_cut(&whole, max)
}

/// A function without its scopes; with the last of them where many functions have its name: `MulBackward0::apply`.
fn own_name(name: &str) -> &str {
    const SHARED: [&str; 4] = ["apply", "call", "operator()", "redispatch"];
    let Some((scopes, last)) = name.rsplit_once("::").filter(|(_, last)| !last.is_empty()) else { return name };
    let n_scope = scopes.rsplit("::").next().map_or(0, str::len);
    let is_named = n_scope > 0 && SHARED.contains(&last);
    &name[if is_named { scopes.len() - n_scope } else { name.len() - last.len() }..]
}

/// A name in at most `max` characters, with the place where it differs from others that [`shortened`] would show the
/// same.
///
/// * `others`: other names.
///
/// Cost: O(length of all).
pub fn shortened_apart(name: &str, others: &[&str], max: usize) -> String {
    /// Shown before the place.
    const BEFORE: usize = 6;
    let whole: Vec<char> = name.chars().map(visible).collect();
    let common = |other: &str| whole.iter().zip(other.chars().map(visible)).take_while(|(a, b)| **a == *b).count();
    let differs = others.iter().map(|other| common(other)).max().unwrap_or_default();
    if whole.len() <= max {
        return whole.into_iter().collect();
    }
    if let Some(frames) = frames::frames_apart(name, others, max) {
        return frames;
    }
    if differs + 2 < max {
        return whole.iter().take(max - 1).chain(&['…']).collect();
    }
    let head = (max * 2 / 5).min(max.saturating_sub(2));
    let room = max.saturating_sub(head + 2);
    let from = differs.saturating_sub(BEFORE.min(room / 2)).max(head);
    let is_cut = from + room < whole.len();
    let part = whole.iter().skip(from).take(room);
    whole.iter().take(head).chain(&['…']).chain(part).chain(is_cut.then_some(&'…')).take(max.max(1)).collect()
}

/// A name without the words that others begin with as well, if these are long: `…second_run.json`. `None` if they are not.
///
/// * `others`: other names; the name itself among them counts for nothing.
pub fn without_common_start<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Option<String> {
    /// Characters that may well be common to several names.
    const LONG: usize = 12;
    let differs =
        |other: &str| name.char_indices().zip(other.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    let common = others.filter(|other| *other != name).filter_map(differs).min().unwrap_or_default();
    let at = name[..common].rfind(['_', '-', '.', '/', ' ']).map_or(0, |at| at + 1);
    (at > LONG).then(|| format!("…{}", &name[at..]))
}

/// At most `max` characters: the beginning, `…` and the end.
pub fn middle_cut(text: &str, max: usize) -> String {
    let n = text.chars().count();
    if n <= max {
        return text.to_owned();
    }
    let tail = if max < 8 { 0 } else { max * 2 / 5 };
    let head = max.saturating_sub(tail + 1);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(n - tail)).take(max).collect()
}

/// Whether all of a name is [`visible`] as it is. A cheap look at the bytes: nearly every name is plain.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| (b' '..0x7f).contains(&byte))
}

/// Marks that every font has.
fn visible(c: char) -> char {
    match c {
        '\n' => '¶',
        '\t' => '»',
        // Other controls, and all that reorders, joins or hides its neighbors.
        c if c.is_control() => '¤',
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => '¤',
        c => c,
    }
}

/// The function's own name in a C++ signature, without return type, scopes, template and call
/// arguments: `gemm` of `void ns::gemm<float>(int)`. Other names are returned as they are.
pub fn function_name(signature: &str) -> &str {
    const ANONYMOUS: &str = "(anonymous namespace)::";
    let scoped = signature.rsplit_once(ANONYMOUS).map_or(signature, |(_, rest)| rest);
    let without_args = scoped.split(['<', '(']).next().unwrap_or(scoped);
    let words = without_args.trim_end().rsplit([' ', ':']).next().unwrap_or_default();
    if words.is_empty() { signature } else { words }
}

/// A frame in few letters: `forward (model.py:12)` of `forward (/home/me/model.py:12)`, and of a function of C++ its
/// name without arguments: `at::native::to` of `at::native::to(at::Tensor const&)`.
pub fn short_frame(frame: &str) -> String {
    let (way, bare) = frames::way_and_frame(frame);
    let Frame { function, file, line } = Frame::of(bare);
    if let Some(function) = Some(function).filter(|_| !file.ends_with(".py")).and_then(without_call) {
        let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
        return match (file, line) {
            ("", _) => format!("{way}{function}"),
            (file, 0) => format!("{way}{function} ({file})"),
            (file, line) => format!("{way}{function} ({file}:{line})"),
        };
    }
    let Some((name, place)) = frame.rsplit_once(" (") else {
        return format!("{way}{}", short_python(bare));
    };
    let file = place.rsplit(['/', '\\']).next().unwrap_or(place);
    format!("{name} ({file}")
}

/// A Python function as Kineto names it without the folders: `module.py(12): forward` of
/// `torch/nn/modules/module.py(12): forward`.
pub fn short_python(name: &str) -> &str {
    let folders = name.find(".py(").and_then(|end| name[..end].rfind(['/', '\\']));
    folders.map_or(name, |at| &name[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_known_by_its_handle_is_named_by_it() {
        let name = |tid: &str, kind| track_name(&Track { tid: tid.to_owned(), kind, ..Track::default() });
        assert_eq!(name("-549452224", TrackKind::Thread), "thread 0x…df400640");
        assert_eq!(name("-1", TrackKind::Thread), "-1");
        assert_eq!(name("-549452224", TrackKind::Stream), "-549452224");
        assert_eq!(name("7", TrackKind::Thread), "thread 7");
        assert_eq!(name("main\u{202e}", TrackKind::Thread), "main¤");
    }

    #[test]
    fn a_node_and_the_function_that_runs_it_stay_different() {
        let node = "torch::autograd::CppNode<fbgemm_gpu::SplitLookupFunction_adagrad_Op_and_a_long_name>";
        let function = format!("{BACKWARD_NODE}{node}");
        let [node, function] = [node, &function].map(|name| shortened(name, 54));
        assert_ne!(node, function);
        assert!(function.starts_with("evaluate_function: CppNode") && function.chars().count() <= 54, "{function}");
    }

    #[test]
    fn names_are_cut_where_they_differ_from_others() {
        let [a, b] =
            ["1", "2"].map(|n| format!("elementwise_kernel<copy<lambda()#{n}::operator()(float, float, float)> >"));
        let [of_a, of_b] = [(&a, &b), (&b, &a)].map(|(name, other)| shortened_apart(name, &[other], 30));
        assert_eq!(of_a, "elementwise_…bda()#1::operato…");
        assert_eq!(of_b, "elementwise_…bda()#2::operato…");
        let early = shortened_apart("reduce<512, 1, Sum<float, float, float> >", &["reduce<128, 4, Sum"], 20);
        assert_eq!(early, "reduce<512, 1, Sum<…");
        for max in 0..40 {
            assert!(shortened_apart(&a, &[&b, "x"], max).chars().count() <= max.max(1), "{max}");
        }
        assert_eq!(shortened_apart("gemm", &["gemv"], 30), "gemm");
    }

    #[test]
    fn plain_names_are_not_copied() {
        assert!(matches!(display_name("aten::mm"), Cow::Borrowed("aten::mm")));
        assert_eq!(display_name("größe 大"), "größe 大");
    }

    #[test]
    fn marks_become_visible_and_long_names_are_cut() {
        assert_eq!(display_name("a\nb\u{202e}c\0"), "a¶b¤c¤");
        let cut = display_name(&"é".repeat(1000)).into_owned();
        assert_eq!(cut.chars().count(), MAX_CHARS + 1);
        assert!(cut.ends_with('…'));
    }

    #[test]
    fn functions_of_c_lose_their_arguments_in_cells() {
        for (frame, short) in [
            ("at::native::to(at::Tensor const&, bool)", "at::native::to"),
            ("via at::native::to(at::Tensor const&, bool)", "via at::native::to"),
            (
                "from ns::Node<ns::F>::run(std::vector<at::T>&&) (/b/node.cpp:71)",
                "from ns::Node<ns::F>::run (node.cpp:71)",
            ),
            ("ns::alloc(unsigned long, void*) (pool.cpp)", "ns::alloc (pool.cpp)"),
            ("ns::alloc(unsigned long) (??)", "ns::alloc"),
            ("Model.forward (/home/me/model.py:12)", "Model.forward (model.py:12)"),
            ("<module> (<string>:1)", "<module> (<string>:1)"),
            ("3 times visit (/x/tree.py:9)", "3 times visit (tree.py:9)"),
            ("main", "main"),
        ] {
            assert_eq!(short_frame(frame), short);
        }
        for (name, shown) in [
            ("scale(float*, float, int)", "scale"),
            ("ns::scale(Params)", "scale"),
            ("step(5)", "step(5)"),
            ("ns::Sum::operator()(float const&)", "Sum::operator()"),
            ("DistributedDataParallel.forward (a & b)", "DistributedDataParallel.forward (a & b)"),
        ] {
            assert_eq!(telling(name), shown);
        }
    }

    #[test]
    fn python_functions_lose_their_folders_alone() {
        assert_eq!(short_python("torch/nn/modules/module.py(12): forward"), "module.py(12): forward");
        assert_eq!(short_python("train.py(3): a/b"), "train.py(3): a/b");
        assert_eq!(short_python("aten::div/mul"), "aten::div/mul");
    }

    #[test]
    fn functions_are_found_in_their_signatures() {
        let cases = [
            (
                "void at::native::vectorized_elementwise_kernel<4, Add<float>>(int, Add<float>)",
                "vectorized_elementwise_kernel",
            ),
            ("void at::native::(anonymous namespace)::softmax<float>(float*)", "softmax"),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("<lambda>", "<lambda>"),
            ("", ""),
        ];
        for (signature, expected) in cases {
            assert_eq!(function_name(signature), expected);
        }
    }

    #[test]
    fn what_is_cut_is_no_call() {
        let cut = shortened("Memcpy HtoD (Pageable -> Device)", 20);
        assert!(cut.starts_with("Memcpy") && shortened(&cut, 17).starts_with("Memcpy"), "{cut}");
    }

    #[test]
    fn cut_names_say_so() {
        assert_eq!(display_name_within("größe", 5), "größe");
        assert_eq!(display_name_within("größe", 3), "grö…");
        assert_eq!(display_name_within("a b", 2), "a…");
    }

    #[test]
    fn kernels_that_differ_in_their_arguments_stay_different() {
        let copy = |to: &str, n: u32| {
            format!(
                "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::copy_cuda\
                 (at::TensorIteratorBase&)::{{lambda()#{n}}}::operator()() const::{{lambda({to})#1}}>(at::\
                 TensorIteratorBase&, at::native::copy_cuda(at::TensorIteratorBase&)::{{lambda()#{n}}} const&)::\
                 {{lambda(int)#1}}>(int, at::native::gpu_kernel_impl_nocast<float>(at::TensorIteratorBase&))"
            )
        };
        assert_eq!(
            shortened(&copy("c10::Half", 3), 110),
            "elementwise_kernel<128, 4, \
             gpu_kernel_impl_nocast<copy_cuda::{lambda()#3}::{lambda(Half)#1}>::{lambda(int)#1}>"
        );
        let fill = |what: &str| {
            format!("void at::native::vectorized_kernel<4, at::native::{what}<float>, std::array<char*, 1ul> >(int)")
        };
        for max in [27, 36, 48, 64] {
            let all = [copy("float", 3), copy("c10::Half", 12), fill("FillFunctor"), fill("CUDAFunctor_add")];
            let mut short: Vec<String> = all.iter().map(|name| shortened(name, max)).collect();
            assert!(short.iter().all(|name| name.chars().count() <= max), "{short:?}");
            short.sort();
            short.dedup();
            assert_eq!(short.len(), all.len(), "{max}: {short:?}");
        }
    }

    #[test]
    fn other_names_keep_both_ends() {
        let cases = [
            ("sm90_xmma_gemm_bf16bf16_f32_tn_n_tilesize128x64x64_kernel", 20, "sm90_xmma_g…4_kernel"),
            ("void at::native::f(int, long)", 10, "f"),
            ("/home/me/some/long/path/trace.json.gz", 20, "/home/me/so….json.gz"),
            ("cpu_op 93 %, python 6 %, launch 1 %", 16, "cpu_op 93 %, py…"),
            ("Lazy Function Loading", 12, "Lazy Fu…ding"),
            ("gemms", 4, "gem…"),
            ("_thread.lock.acquire", 8, "…acquire"),
            ("_thread.lock.acquire", 7, "acquire"),
            ("_thread.lock.acquire", 13, "…lock.acquire"),
            ("_thread.lock.acquire", 6, "acqui…"),
            ("a_long_name_of_a_trace.json", 12, "a_long_…json"),
            ("a<b", 3, "a<b"),
            ("a<(b, c", 4, "a<(…"),
            ("ns::f<4, void>(int)", 12, "f<4, void>"),
            ("", 0, ""),
        ];
        for (name, max, expected) in cases {
            assert_eq!(shortened(name, max), expected);
        }
    }

    #[test]
    fn frames_are_cut_to_the_name_of_their_file() {
        assert_eq!(short_frame("forward (/home/me/model.py:9)"), "forward (model.py:9)");
        assert_eq!(short_frame("?? (C:\\a\\b.py:1)"), "?? (b.py:1)");
        assert_eq!(short_frame("odd"), "odd");
        assert_eq!(short_frame("from torch/nn/modules/module.py(12): forward"), "from module.py(12): forward");
    }
}
