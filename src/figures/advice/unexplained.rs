//! Advice about idle time that another recording would explain, and about recordings that lack what tells.

use super::{ALWAYS, AMD, COUNTED, HOST_WAITS, LOW_LOAD, Line, NVIDIA, communication};
use crate::analysis::rules::Rule;

/// For recordings of programs that used a device, without its work.
const NO_DEVICE_WORK: &[Line] = &[
    (
        COUNTED,
        "To see times, record again without metrics of CUPTI (profiler_metrics in torch.profiler's experimental_config, or the activity cuda_profiler_range of Kineto): its range profiler runs with no other recording of the GPU",
    ),
    (
        COUNTED,
        "Do not trust the time of the host here: where each kernel is counted, it runs alone and may run several times, and the call that launches it waits for that",
    ),
    (
        |case| case.run.is_nsys,
        "Record with nsys profile --trace=cuda,nvtx, run no other profiler meanwhile, and read what nsys reports: it must know the driver's CUDA version",
    ),
    (
        |case| !case.run.is_nsys && NVIDIA(case) && !COUNTED(case),
        "Record with activities=[CPU, CUDA], run no other profiler meanwhile (nsys, ncu, DCGM), and look for errors of CUPTI in the program's output",
    ),
    (
        |case| !case.run.is_nsys && AMD(case),
        "Record with activities=[CPU, CUDA], run no other profiler meanwhile, and look for errors of roctracer or rocprofiler in the program's output",
    ),
    (ALWAYS, "To check, the timeline shows the streams of a device with kernels"),
];

/// About idle time and recordings that tell too little.
pub fn lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::Blocked => &[
            (
                LOW_LOAD,
                "If it waits for requests, no faster program helps: the load is low. Let requests that come close together \
                 share a batch, send more of them to this device, or let several models or programs share it",
            ),
            (
                HOST_WAITS,
                "If another thread or process makes what it waits for, see what that does meanwhile: it is to run ahead, in \
                 several threads or processes where one does not keep up",
            ),
            (
                |case| !HOST_WAITS(case),
                "See in which call the thread is blocked: file access, locks of other threads, or too few CPU cores",
            ),
            (
                |case| !case.run.is_nsys && NVIDIA(case),
                "To check, record with nsys and --trace=cuda,nvtx,osrt --cpuctxsw=process-tree",
            ),
            (
                |case| AMD(case) && !(case.run.is_nsys && case.run.has_switches),
                "To check, record with rocprof-sys-sample, which shows what all threads do",
            ),
            (
                |case| case.run.is_nsys && NVIDIA(case) && !case.run.has_switches,
                "To check, record with --cpuctxsw=process-tree as well: it shows who ran meanwhile",
            ),
            (
                |case| case.run.is_nsys && case.run.has_switches,
                "To check, see in the timeline which threads were on the CPU meanwhile",
            ),
        ],
        Rule::Queued => &[
            (
                ALWAYS,
                "Look for work of other processes on this device, and for streams that share a hardware queue (CUDA_DEVICE_MAX_CONNECTIONS)",
            ),
            (ALWAYS, "Look for a host function or a memory operation in the stream, which hold up what follows"),
            (
                |case| !case.run.is_nsys && !case.run.has_waits && NVIDIA(case),
                "Waits between streams are not in this recording: experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True) shows them",
            ),
            (
                |case| case.run.is_nsys && !case.run.has_waits,
                "Waits between streams are not in this recording: nsys profile --cuda-event-trace=true shows them",
            ),
        ],
        Rule::IncompleteRecording => &[
            (
                ALWAYS,
                "Record again, and keep the whole file: one that was sampled or filtered does not hold what ran in its gaps",
            ),
            (ALWAYS, "To check, launches and their work, and the numbers of operators, are complete in the new file"),
        ],
        Rule::NoDeviceWork => NO_DEVICE_WORK,
        Rule::Profiler => {
            &[(ALWAYS, "Profile fewer things at once or fewer steps, and do not trust the length of these gaps")]
        }
        _ => communication::lines(rule),
    }
}
