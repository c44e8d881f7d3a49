//! The library that is loaded into CUDA programs: what it records of a program with a fake driver and a fake libcupti,
//! and of NVTX, which needs neither.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lacuna::capture::cupti::{Recording, recordings};
use lacuna::model::{SliceId, SliceKind, Trace};

use super::support::{project, read, scratch};

/// The fakes and the program, compiled once; `None` without a C compiler.
fn fakes() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        let folder = scratch("cupti-fakes");
        let targets = [
            ("cuda.c", "libcuda.so.1", &["-shared", "-fPIC"] as &[&str]),
            ("cupti.c", "libcupti.so.13", &["-shared", "-fPIC"]),
            ("program.c", "program", &[]),
        ];
        for (source, target, args) in targets {
            let mut command = Command::new("cc");
            command.args(args).arg("-o").arg(folder.join(target)).arg(project().join("tests/fakes").join(source));
            match command.args(["-ldl", "-lpthread"]).status() {
                Ok(status) => assert!(status.success(), "{source} does not compile"),
                Err(_) => {
                    eprintln!("skipped: cc is not installed");
                    return None;
                }
            }
        }
        Some(folder)
    };
    FOLDER.get_or_init(compile).as_deref()
}

/// The library: cargo builds it for these tests, beside them.
fn library() -> PathBuf {
    let path = std::env::current_exe().unwrap().with_file_name("liblacuna_inject.so");
    assert!(path.is_file(), "{}", path.display());
    path
}

/// A program that will be recorded into the folder.
fn recorded(program: &Path, args: &[&str], folder: &Path) -> Command {
    let fakes = fakes().unwrap();
    let mut command = Command::new(program);
    command.args(args).env("LD_LIBRARY_PATH", fakes).env("LACUNA_CUPTI", fakes.join("libcupti.so.13"));
    command.env("LACUNA_INJECT_OUT", folder).env("LACUNA_FLUSH_MS", "30");
    command.env("CUDA_INJECTION64_PATH", library()).env("NVTX_INJECTION64_PATH", library());
    command
}

/// The only recording of a folder, and its trace.
fn only(folder: &Path) -> (Recording, Trace) {
    let [recording] = &recordings(folder)[..] else { panic!("{:?}", recordings(folder)) };
    let mut traces = read(recording.trace.as_ref().unwrap()).unwrap();
    assert_eq!(traces.len(), 1);
    (recording.clone(), traces.remove(0))
}

/// The slices of a kind, in order of time.
fn slices(trace: &Trace, kind: SliceKind) -> Vec<SliceId> {
    let of_kind = (0..trace.slices.len()).filter(|&i| trace.slices.kind[i] == kind);
    let mut found: Vec<SliceId> = of_kind.map(|i| SliceId(i as u32)).collect();
    found.sort_by_key(|slice| trace.slices.ts[slice.idx()]);
    found
}

/// The name and the nanoseconds of each slice of a kind, in order of time.
fn timed(trace: &Trace, kind: SliceKind) -> Vec<(String, i64)> {
    let one = |slice: SliceId| {
        let time = trace.slices.time(slice);
        (trace.strings.get(trace.slices.name[slice.idx()]).to_owned(), time.end - time.start)
    };
    slices(trace, kind).into_iter().map(one).collect()
}

fn names(trace: &Trace, kind: SliceKind) -> Vec<String> {
    timed(trace, kind).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn records_of_every_size_become_the_same_trace() {
    let Some(fakes) = fakes() else { return };
    for generation in 0..8 {
        let folder = scratch(&format!("cupti-{generation}"));
        let mut command = recorded(&fakes.join("program"), &["cuda"], &folder);
        let status = command.env("FAKE_CUPTI_GENERATION", generation.to_string()).status().unwrap();
        assert!(status.success(), "generation {generation}: {status}");
        let (recording, trace) = only(&folder);
        assert!(recording.is_finished && recording.has_cuda);
        assert_eq!(recording.problems.len(), 1, "one kernel has no times: {:?}", recording.problems);

        let kernels = timed(&trace, SliceKind::Kernel);
        let [(first, 2000), (second, 500)] = &kernels[..] else { panic!("{kernels:?}") };
        assert!(["add(float*, int)", "_Z3addPfi"].contains(&first.as_str()), "{first}");
        assert_eq!(second, "plain \"name\"");
        let copies = timed(&trace, SliceKind::Memcpy);
        let copy = |name: &str, ns| (name.to_owned(), ns);
        assert_eq!(copies, [copy("Memcpy HtoD (Pinned -> Device)", 1000), copy("Memcpy PtoP (Device -> Device)", 500)]);
        assert_eq!(timed(&trace, SliceKind::Memset), [copy("Memset (Device)", 100)]);
        // Not the driver's call within that of the runtime.
        assert_eq!(
            names(&trace, SliceKind::Runtime),
            ["cudaMalloc", "cudaLaunchKernel", "cudaStreamSynchronize", "cudaMalloc"]
        );
        assert_eq!(names(&trace, SliceKind::Driver), ["cuLaunchKernel"]);
        assert_eq!(names(&trace, SliceKind::Sync), ["Stream Wait Event", "Stream Sync"]);
        assert_eq!(names(&trace, SliceKind::Overhead), ["Lazy Function Loading"]);

        let [launched, in_graph] = slices(&trace, SliceKind::Kernel)[..] else { panic!() };
        let call = trace.launch_of(launched).unwrap();
        assert_eq!(trace.strings.get(trace.slices.name[call.idx()]), "cudaLaunchKernel");
        let launch = trace.facts.launches.get(launched).unwrap();
        assert_eq!((launch.grid, launch.block), ([108, 2, 1], [256, 1, 1]));
        assert_eq!((launch.registers_per_thread, launch.shared_bytes), (Some(32), Some(3072)));
        let node = trace.facts.graph_nodes.get(in_graph).unwrap();
        assert_eq!((node.graph, node.node), (5, 99));

        let memory: BTreeMap<i32, Vec<u64>> =
            trace.memories.iter().map(|memory| (memory.device, memory.curves.allocated.clone())).collect();
        assert_eq!(memory, BTreeMap::from([(-1, vec![0, 512]), (1, vec![0, 4096, 0])]));
        let device = trace.info.devices.iter().find(|device| device.id == 0).unwrap();
        assert_eq!((device.name.as_str(), device.threads_per_warp), ("Fake GPU 0", Some(32)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn ranges_of_nvtx_need_no_cuda() {
    let Some(fakes) = fakes() else { return };
    let folder = scratch("cupti-nvtx");
    let utc = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let before = utc();
    let status = recorded(&fakes.join("program"), &["nvtx", "fork"], &folder).status().unwrap();
    assert!(status.success(), "{status}");
    let after = utc();
    // The child records nothing, and leaves the recording of its parent alone.
    let (recording, trace) = only(&folder);
    assert!(recording.is_finished && !recording.has_cuda && recording.problems.is_empty(), "{recording:?}");
    let ranges = names(&trace, SliceKind::Annotation);
    let expected = ["step \"1\"\n", "inner", "registered", "crosses threads", "on another thread", "never ends"];
    assert_eq!(ranges, expected);
    assert_eq!(trace.instants.len(), 1);
    let found = slices(&trace, SliceKind::Annotation);
    let [step, inner, .., other, _] = found[..] else { panic!() };
    let [step_time, inner_time] = [step, inner].map(|slice| trace.slices.time(slice));
    assert!(inner_time.end - inner_time.start >= 2_000_000);
    assert!(step_time.start <= inner_time.start && inner_time.end <= step_time.end);
    assert_ne!(trace.slices.track_of(step), trace.slices.track_of(other));
    let zero = trace.info.utc_offset_ns.unwrap();
    let span = [step_time.start + zero, step_time.end + zero];
    assert!(before <= span[0] && span[1] <= after, "{before} {span:?} {after}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(fakes) = fakes() else { return };
    let folder = scratch("cupti-owner");
    assert!(recorded(&fakes.join("program"), &["cuda"], &folder).status().unwrap().success());
    let mut n = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        n += 1;
    }
    assert_eq!(n, 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn exit_codes_and_signals_stay_as_they_are() {
    let Some(fakes) = fakes() else { return };
    let folder = scratch("cupti-exit");
    let status = recorded(&fakes.join("program"), &["cuda", "nvtx", "fail"], &folder).status().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(only(&folder).0.is_finished);

    // SIGTERM: what is not yet written is, then the signal ends the program.
    let folder = scratch("cupti-signal");
    let mut command = recorded(&fakes.join("program"), &["cuda", "nvtx", "wait"], &folder);
    let mut child = command.env("LACUNA_FLUSH_MS", "60000").stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    let (recording, trace) = only(&folder);
    assert!(recording.is_finished);
    assert_eq!(slices(&trace, SliceKind::Kernel).len(), 2);
    assert_eq!(names(&trace, SliceKind::Annotation).last().unwrap(), "never ends");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_killed_program_leaves_what_was_flushed() {
    let Some(fakes) = fakes() else { return };
    let folder = scratch("cupti-killed");
    let mut command = recorded(&fakes.join("program"), &["cuda", "wait"], &folder);
    let mut child = command.env("FAKE_CUPTI_ENDLESS", "1").stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while recordings(&folder).first().is_none_or(|recording| recording.n_events < 100) {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing is written while the program runs");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (recording, trace) = only(&folder);
    assert!(!recording.is_finished);
    assert!(slices(&trace, SliceKind::Kernel).len() >= 4);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_status_says_why_cuda_is_not_recorded() {
    let Some(fakes) = fakes() else { return };
    let cases = [
        ("FAKE_CUPTI_SUBSCRIBED", "1", "Another profiler traces this program already"),
        ("FAKE_CUPTI_VERSION", "17", "is of a CUDA before 11.8"),
        ("LACUNA_CUPTI", "/nowhere/libcupti.so", "/nowhere/libcupti.so cannot be loaded"),
    ];
    for (variable, value, expected) in cases {
        let folder = scratch("cupti-why");
        let status = recorded(&fakes.join("program"), &["cuda"], &folder).env(variable, value).status().unwrap();
        assert!(status.success(), "the program runs on: {status}");
        let [recording] = &recordings(&folder)[..] else { panic!("{variable}") };
        let [problem] = &recording.problems[..] else { panic!("{recording:?}") };
        assert!(problem.contains(expected), "{problem}");
        assert!(!recording.has_cuda && recording.is_finished && recording.trace.is_none(), "{recording:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn the_workload_is_recorded_as_it_measured_itself() {
    if fakes().is_none() {
        return;
    }
    let folder = scratch("cupti-workload");
    let lacuna = Path::new(env!("CARGO_BIN_EXE_lacuna"));
    let mut command = recorded(lacuna, &["workload", "--steps", "3", "--launches", "20"], &folder);
    let output = command.env("FAKE_CUPTI_NO_CANNED", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (recording, trace) = only(&folder);
    assert!(recording.is_finished && recording.problems.is_empty(), "{recording:?}");
    let kernels = timed(&trace, SliceKind::Kernel);
    let of = |name: &str| kernels.iter().filter(|kernel| kernel.0 == name).map(|kernel| kernel.1).collect::<Vec<_>>();
    for name in ["lacuna_large", "lacuna_small"] {
        assert_eq!(of(name).len() as u64, said["kernels"][name].as_u64().unwrap(), "{name}");
    }
    for (recorded, said) in of("lacuna_large").iter().zip(said["large_kernel_ms"].as_array().unwrap()) {
        assert!((*recorded as f64 / 1e6 - said.as_f64().unwrap()).abs() < 1e-3, "{recorded} {said}");
    }
    assert_eq!(slices(&trace, SliceKind::Memcpy).len(), 9);
    let steps = names(&trace, SliceKind::Annotation).into_iter().filter(|name| name.starts_with("step "));
    assert_eq!(steps.collect::<Vec<_>>(), ["step 0", "step 1", "step 2"]);
    let [memory] = &trace.memories[..] else { panic!() };
    assert_eq!(memory.curves.allocated.last(), said["leaked_bytes"].as_u64().as_ref());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Seconds of processor time that a command takes, itself and all that it starts, as a shell counts them.
fn processor_s(command: &Command) -> f64 {
    let mut timed = Command::new("sh");
    timed
        .args(["-c", "\"$@\" >/dev/null 2>&1 || exit 9; times", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    timed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = timed.output().unwrap();
    assert!(output.status.success(), "{command:?}");
    // The second line is of the children: user and system, such as 0m1.250s.
    let text = String::from_utf8(output.stdout).unwrap();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    text.lines().nth(1).unwrap().split(' ').map(seconds).sum()
}

#[test]
fn what_an_event_and_a_second_of_the_panel_cost_is_measured() {
    if fakes().is_none() {
        return;
    }
    let folder = scratch("cupti-cost");
    let workload = || {
        let lacuna = Path::new(env!("CARGO_BIN_EXE_lacuna"));
        let mut command = recorded(lacuna, &["workload", "--steps", "2", "--launches", "40000"], &folder);
        command.env("FAKE_CUPTI_NO_CANNED", "1");
        command
    };
    let mut alone = workload();
    alone.env_remove("CUDA_INJECTION64_PATH").env_remove("NVTX_INJECTION64_PATH");
    // The start of both is the same, and so is what the fakes take.
    let [alone, whole] = [alone, workload()].map(|command| processor_s(&command));
    let (recording, _) = only(&folder);
    let each = (whole - alone) * 1e6 / recording.n_events as f64;
    eprintln!("{} events, {each:.2} us of processor time each", recording.n_events);
    assert!(recording.n_events > 80_000, "{recording:?}");
    // Our own code is not optimized in tests.
    assert!(each < 100.0, "{whole} s, {alone} s alone");
    let fake = super::fake_nvml::FakeNvml::new("gpus=2 busy=30");
    let mut monitor = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    monitor.args(["monitor", "--once-all", "--library"]).arg(fake.library());
    let said = String::from_utf8(monitor.output().unwrap().stdout).unwrap();
    let cost = said.split_once("Fast readings: ").unwrap().1.lines().next().unwrap();
    let ms: f64 = cost.split_once("all GPUs, ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    eprintln!("the panel takes {:.2} ms of each second at four readings: {cost}", 4.0 * ms);
    assert!(4.0 * ms < 250.0, "{cost}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn without_a_gpu_the_workload_says_so() {
    let Some(fakes) = fakes() else { return };
    let cases = [
        (fakes, "FAKE_CUDA_NO_DEVICE", "1", "no CUDA-capable device is detected"),
        (fakes, "FAKE_CUDA_VERSION", "11040", "needs a driver of CUDA 11.8 or later; this one is of CUDA 11.4"),
    ];
    for (path, variable, value, expected) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        let output = command.arg("workload").env("LD_LIBRARY_PATH", path).env(variable, value).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2));
        assert!(said.contains(expected) && said.lines().count() == 1 && output.stdout.is_empty(), "{said}");
    }
}

#[test]
fn the_launcher_records_any_program() {
    let Some(fakes) = fakes() else { return };
    let folder = scratch("cupti-launched");
    let lacuna = |library: &Path, out: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        command.args(["capture", "--backend", "cupti", "--no-gpu-counters", "--out"]).arg(out).arg("--");
        command.arg(fakes.join("program")).arg("cuda").env("LACUNA_INJECT", library);
        command.env("LD_LIBRARY_PATH", fakes).env("LACUNA_CUPTI", fakes.join("libcupti.so.13"));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let out = folder.join("it's a folder");
    let (code, said) = lacuna(&library(), &out);
    let (recording, trace) = only(&out);
    assert!(code == Some(0) && said.contains(&format!("cupti-{}.json", recording.pid)), "{said}");
    assert_eq!(slices(&trace, SliceKind::Kernel).len(), 2);
    let (code, said) = lacuna(Path::new("/nowhere/inject.so"), &folder.join("other"));
    assert!(code == Some(2) && said.contains("LACUNA_INJECT names no file") && said.lines().count() == 1, "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
