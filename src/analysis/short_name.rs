//! Short names of kernels, without template and call arguments.

/// The name of a function in a C++ signature, with its scopes but without return type, template
/// arguments, call arguments and anonymous namespaces.
///
/// `at::native::elementwise_kernel` of
/// `void at::native::elementwise_kernel<128, 4, Add<float> >(int, Add<float>)`. Names that are no
/// signature, and those whose brackets do not match, are returned as they are. Cost: O(length).
pub fn short_name(signature: &str) -> String {
    name_and_template(signature).map_or_else(|| signature.to_owned(), |(name, _)| name)
}

/// The same name beside its template arguments with their brackets, which may be empty; `None` for a name that is
/// no signature, or whose brackets do not match. Cost: O(length).
pub fn name_and_template(signature: &str) -> Option<(String, &str)> {
    let whole = signature.split(" [clone ").next().unwrap_or(signature);
    without_arguments(whole).map(|of| (of.name, of.template)).filter(|(name, _)| !name.is_empty())
}

/// A function in a C++ signature with its scopes and all template arguments, without return type, call arguments and
/// anonymous namespaces: `Node<Mul>::apply` of `void (anonymous namespace)::Node<Mul>::apply(Tensor&&)`. `None` without
/// call arguments. Cost: O(length).
pub fn without_call(signature: &str) -> Option<String> {
    let whole = signature.split(" [clone ").next().unwrap_or(signature);
    let function = without_arguments(whole).filter(|of| !of.name.is_empty())?.function?;
    Some(ANONYMOUS.iter().fold(function.to_owned(), |function, prefix| function.replace(prefix, "")))
}

/// A signature without what stands in parentheses anywhere in it: parameters, casts of template arguments as nsys
/// writes them, anonymous namespaces. Two builds of one program may name one kernel with other types of parameters. A
/// name whose parentheses do not match, or in which they stand first, is returned as it is. Cost: O(length).
pub fn without_parameters(signature: &str) -> String {
    let (mut out, mut depth) = (String::with_capacity(signature.len()), 0_u32);
    for c in signature.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return signature.to_owned(),
            ')' => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    if depth > 0 || out.trim().is_empty() { signature.to_owned() } else { out }
}

/// As compilers write it, and as nsys does.
const ANONYMOUS: [&str; 2] = ["(anonymous namespace)::", "<unnamed>::"];

/// What a C++ signature is made of.
struct Signature<'a> {
    /// With its scopes, without template arguments.
    name: String,
    /// The template arguments of the function, with their brackets; may be empty.
    template: &'a str,
    /// All from the name to its call arguments; `None` without these.
    function: Option<&'a str>,
}

/// `None` where the brackets do not match.
fn without_arguments(signature: &str) -> Option<Signature<'_>> {
    let (mut start, mut function) = (0, None);
    let mut name = String::new();
    // Open angle brackets, and within them parentheses.
    let (mut angles, mut rounds) = (0_u32, 0_u32);
    let mut before = ' ';
    let mut template = "";
    let mut opened = 0;
    let mut rest = signature;
    while let Some(c) = rest.chars().next() {
        // What means nothing here is most of a signature.
        let plain =
            rest.bytes().position(|c| matches!(c, b'<' | b'>' | b'(' | b')') || angles == 0 && b" :".contains(&c));
        let plain = &rest[..plain.unwrap_or(rest.len())];
        if let Some(last) = plain.chars().next_back() {
            name += if angles == 0 { plain } else { "" };
            (before, rest) = (last, &rest[plain.len()..]);
            continue;
        }
        if angles == 0 && matches!(c, '(' | '<') {
            if let Some(after) = ANONYMOUS.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
                rest = after;
                continue;
            }
            if let Some(after) = rest.strip_prefix("()").filter(|_| name.ends_with("operator")) {
                name += "()";
                rest = after;
                continue;
            }
        }
        let at = signature.len() - rest.len();
        match c {
            '<' if rounds == 0 && !name.ends_with("operator") => {
                opened = if angles == 0 { at } else { opened };
                angles += 1;
            }
            // Not the end of an arrow.
            '>' if rounds == 0 && angles > 0 && before != '-' => {
                angles -= 1;
                template = if angles == 0 { &signature[opened..=at] } else { template };
            }
            '(' if angles > 0 => rounds += 1,
            ')' if angles > 0 => rounds = rounds.checked_sub(1)?,
            _ if angles > 0 => {}
            '(' if !ends_signature(rest) => return None,
            '(' => {
                function = Some(&signature[start..at]);
                break;
            }
            // What came before was the return type.
            ' ' => (name, template, start) = (String::new(), "", at + 1),
            // Nor are the template arguments of a scope those of the function.
            ':' => {
                template = "";
                name.push(c);
            }
            c => name.push(c),
        }
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    (angles == 0).then_some(Signature { name, template, function })
}

/// Whether a signature ends with these call arguments: `(DataLoader)#next` goes on as no signature does. Arguments that
/// were cut off end it.
fn ends_signature(arguments: &str) -> bool {
    let mut depth = 0_u32;
    for (at, c) in arguments.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth > 1 => depth -= 1,
            ')' => {
                let after = &arguments[at + 1..];
                return after.is_empty() || [" ", "(", "::"].iter().any(|next| after.starts_with(next));
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_kernels() {
        let cases = [
            // CUTLASS.
            (
                "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>\
                 (cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8::Params)",
                "cutlass::Kernel2",
            ),
            (
                "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::\
                 GemmUniversal<cute::tuple<int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::\
                 MainloopSm90<7, cute::tuple<cute::C<2>, cute::C<1> > >, float> > > >(cutlass::Params)",
                "cutlass::device_kernel",
            ),
            ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "cutlass_80_simt_sgemm_128x32_8x5_nn_align1"),
            // Lambdas of at::native.
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda(at::\
                 TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::\
                 {lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::rsqrt_kernel_cuda(at::\
                 TensorIteratorBase&)::{lambda()#2}, std::array<char*, 2ul>)",
                "at::native::vectorized_elementwise_kernel",
            ),
            (
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::\
                 (anonymous \
                 namespace)::where_kernel_impl(at::TensorIterator&)::{lambda()#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl<float>(at::TensorIteratorBase&)::{lambda(int)#1})",
                "at::native::elementwise_kernel",
            ),
            // Anonymous namespaces.
            (
                "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>\
                 (float*, float const*, int, int, int, bool const*, int, bool)",
                "softmax_warp_forward",
            ),
            (
                "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>\
                 (int, float, c10::BFloat16 const*)",
                "at::native::vectorized_layer_norm_kernel",
            ),
            (
                "void at::native::<unnamed>::cunn_SoftMaxBackward<(int)4, float>(T2 *, long)",
                "at::native::cunn_SoftMaxBackward",
            ),
            ("void <unnamed>::indexing_backward_kernel<float, (int)4>(const long *)", "indexing_backward_kernel"),
            // Other return types; arrows and comparisons among the arguments.
            ("std::enable_if<(4>2), void>::type ns::f<int>(int)", "ns::f"),
            ("void f<decltype(a->b), (1 > 0)>(int)", "f"),
            ("void f<g->h>(int)", "f"),
            ("bool ns::operator<(A const&)", "ns::operator<"),
            ("torch::autograd::Node::operator()(std::vector<int>&&)", "torch::autograd::Node::operator()"),
            // AMD's.
            ("void at::native::f<float>(float*) [clone .kd]", "at::native::f"),
            ("batched_transpose_32x32_half.kd", "batched_transpose_32x32_half.kd"),
            // Triton, NCCL, cuBLAS and others, which are plain.
            ("triton_poi_fused_add_native_layer_norm_19", "triton_poi_fused_add_native_layer_norm_19"),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            ),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("ラクーナ", "ラクーナ"),
        ];
        for (signature, expected) in cases {
            assert_eq!(short_name(signature), expected, "{signature}");
        }
    }

    #[test]
    fn a_function_keeps_its_templates_without_its_call() {
        for (signature, function) in [
            (
                "torch::autograd::CppNode<ns::Lookup>::apply(std::vector<at::Tensor>&&)",
                "torch::autograd::CppNode<ns::Lookup>::apply",
            ),
            ("std::tuple<at::T, int> at::(anonymous namespace)::wrap<true>(at::T const&)", "at::wrap<true>"),
            ("at::f(at::T&)::{lambda()#2}::operator()() const", "at::f"),
            ("ns::Op::operator()(int) const", "ns::Op::operator()"),
        ] {
            assert_eq!(without_call(signature).as_deref(), Some(function));
        }
        for name in ["at::native::to", "train (a.py:1)", "(x)", "f<(a)", "<lambda>"] {
            assert_eq!(without_call(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_no_signature_stays_as_it_is() {
        for name in ["", "a<b", "(", "<lambda>", "void f<(int)", "f<a))>", " "] {
            let short = short_name(name);
            assert!(short == name || !short.is_empty(), "{name:?} became {short:?}");
        }
        for name in ["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "train.py(12): step", "f(x)_3"] {
            assert_eq!(short_name(name), name, "words follow the parentheses");
        }
        assert_eq!(short_name("at::f(at::T&)::{lambda()#2}::operator()() const"), "at::f", "an operator of a lambda");
        assert_eq!(short_name("void f(int, fl"), "f", "a signature that was cut");
        assert_eq!(short_name("a<b"), "a<b");
        assert_eq!(short_name("<lambda>"), "<lambda>");
        assert_eq!(short_name("("), "(");
    }
}
