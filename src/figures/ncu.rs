//! Command lines that profile one kernel in depth.

use crate::analysis::kernels::{function_name, launches_before};
use crate::model::{SliceId, SliceKind, Trace};

/// What the user replaces by their own program.
const PROGRAM: &str = "python train.py";

/// The command line of NVIDIA Nsight Compute, or of ROCm Compute Profiler on AMD, that profiles this kernel again.
///
/// * `ncu` selects kernels by function name, without scopes and arguments, because profilers spell those
///   differently, and skips as many launches of it on the device as were recorded before.
/// * `rocprof-compute` cannot skip launches: it profiles every kernel whose name contains this one.
/// * Errors: the reason why there is none.
/// * Cost: O(kernels of the device), so not for the frame thread.
pub fn command(trace: &Trace, kernel: SliceId) -> Result<String, &'static str> {
    match trace.slices.kind[kernel.idx()] {
        SliceKind::Kernel => {}
        SliceKind::CudaGraph => return Err("A CUDA graph recorded as one has no kernel to profile"),
        _ => return Err("Only kernels can be profiled in depth"),
    }
    let full = trace.slice_name(kernel);
    if is_amd(trace, kernel) {
        let name = quoted(full.strip_suffix(".kd").unwrap_or(full));
        return Ok(format!("rocprof-compute profile --name kernel --kernel {name} -- {PROGRAM}"));
    }
    // A mangled name has no function name that could be read off it.
    let (base, name) = match full.starts_with("_Z") {
        true => (" --kernel-name-base mangled", full.to_owned()),
        false => ("", function_name(trace, trace.slices.name[kernel.idx()])),
    };
    let name = quoted(&format!("regex:^{}$", escaped(&name)));
    let skip = launches_before(trace, kernel);
    let n_devices = trace.processes.iter().filter(|process| process.device.is_some()).count();
    let device = trace.process(trace.track(trace.slices.track_of(kernel)).process).device;
    let device = device.filter(|_| n_devices > 1).map_or(String::new(), |device| format!(" --devices {device}"));
    Ok(format!("ncu --set full{device}{base} --kernel-name {name} --launch-skip {skip} --launch-count 1 {PROGRAM}"))
}

/// Whether it ran on an AMD device, by the device's name, else by the call that launched it, else by its own name.
pub fn is_amd(trace: &Trace, kernel: SliceId) -> bool {
    let is_launched_by_hip = trace.launch_of(kernel).is_some_and(|call| trace.slice_name(call).starts_with("hip"));
    let name = trace.slice_name(kernel);
    is_launched_by_hip
        || trace.info.devices.iter().any(|device| device.is_amd())
        || name.starts_with("Cijk_")
        || name.ends_with(".kd")
}

/// As one word of a POSIX shell. Control characters, which no kernel has, become question marks.
fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// As a regular expression that matches only this text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceInfo, TraceBuilder};

    const KERNEL: SliceKind = SliceKind::Kernel;

    #[test]
    fn launches_of_the_same_function_are_skipped() {
        let trace = TraceBuilder::from_slices(&[
            ("stream 7", KERNEL, "void ns::gemm<float>(int)", 0, 10),
            ("stream 7", KERNEL, "void ns::gemm<half>(int)", 10, 20),
            ("stream 7", KERNEL, "ns::gemm2", 20, 30),
            ("stream 8", KERNEL, "void ns::gemm<float>(int)", 5, 30),
            ("stream 7", KERNEL, "void ns::gemm<float>(int)", 40, 50),
            ("stream 7", KERNEL, "it's $(a) \"new\" one", 50, 60),
            ("stream 7", KERNEL, "_Z4gemmPf", 60, 70),
            ("stream 7", SliceKind::Memset, "Memset", 70, 80),
            ("stream 7", SliceKind::CudaGraph, "graph 1", 80, 90),
        ])
        .finish();
        let of = |ts: i64, name: &str| {
            let mut all = (0..trace.slices.len() as u32).map(SliceId);
            let slice = all.find(|&id| trace.slices.ts[id.idx()] == ts && trace.slice_name(id).contains(name));
            command(&trace, slice.unwrap())
        };
        let gemm = |skip| {
            format!("ncu --set full --kernel-name 'regex:^gemm$' --launch-skip {skip} --launch-count 1 python train.py")
        };
        assert_eq!(of(0, "float"), Ok(gemm(0)));
        assert_eq!(of(10, "half"), Ok(gemm(2)), "the kernel of the other stream started before");
        assert_eq!(of(40, "float"), Ok(gemm(3)));
        assert!(of(50, "new").unwrap().contains("'regex:^"));
        assert!(of(60, "gemm").unwrap().contains("--kernel-name-base mangled --kernel-name 'regex:^_Z4gemmPf$'"));
        assert!(of(70, "Memset").is_err() && of(80, "graph").is_err());
    }

    #[test]
    fn names_are_one_word_for_the_shell_and_literal_in_the_expression() {
        assert_eq!(quoted("it's $(a)\n"), r"'it'\''s $(a)?'");
        assert_eq!(escaped("a_b.c*[1]é"), r"a_b\.c\*\[1\]é");
    }

    #[test]
    fn kernels_on_amd_devices_are_for_another_profiler() {
        let mut builder = TraceBuilder::from_slices(&[("stream 0", KERNEL, "Cijk_Alik_Bljk.kd", 0, 10)]);
        builder.info.devices = vec![DeviceInfo { name: "AMD Instinct MI300X".to_owned(), ..Default::default() }];
        let line = "rocprof-compute profile --name kernel --kernel 'Cijk_Alik_Bljk' -- python train.py";
        assert_eq!(command(&builder.finish(), SliceId(0)).as_deref(), Ok(line));
    }
}
