//! Maps event categories to slice kinds.

use crate::model::SliceKind;

use super::text::unescaped;

/// The kind of a slice of this category.
///
/// Covers old and new names: Kineto wrote `Kernel`, `Operator`, … in 2020-21, lower case since.
/// ROCm calls HIP runtime calls `cuda_runtime`. Others are [`SliceKind::Other`].
pub fn kind_of(category: &[u8]) -> SliceKind {
    match plain_kind(category) {
        SliceKind::Other if category.contains(&b'\\') => plain_kind(&unescaped(category)),
        kind => kind,
    }
}

fn plain_kind(category: &[u8]) -> SliceKind {
    match category {
        b"kernel" | b"Kernel" => SliceKind::Kernel,
        b"cpu_op" | b"Operator" => SliceKind::Operator,
        b"python_function" | b"Python" => SliceKind::PythonFunction,
        b"cuda_runtime" | b"Runtime" | b"privateuse1_runtime" | b"xpu_runtime" | b"mtia_runtime" => SliceKind::Runtime,
        b"cuda_driver" | b"privateuse1_driver" | b"xpu_driver" => SliceKind::Driver,
        b"gpu_memcpy" | b"Memcpy" => SliceKind::Memcpy,
        b"gpu_memset" | b"Memset" => SliceKind::Memset,
        b"user_annotation" => SliceKind::Annotation,
        b"gpu_user_annotation" => SliceKind::GpuAnnotation,
        b"cuda_sync" => SliceKind::Sync,
        b"collective_comm" => SliceKind::Collective,
        b"overhead" => SliceKind::Overhead,
        _ => SliceKind::Other,
    }
}
