//! `lacuna monitor` with a stand-in for NVIDIA's library.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fake_nvml::FakeNvml;
use super::support::scratch;

fn monitor(fake: &FakeNvml, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command.args(["monitor", "--interval", "0.1", "--library"]).arg(fake.library()).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(words: &str, args: &[&str]) -> Output {
    let fake = FakeNvml::new(words);
    monitor(&fake, args).output().unwrap()
}

/// stdout, stderr and the exit code.
fn texts(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

#[test]
fn each_metric_is_listed_with_its_value_or_why_there_is_none() {
    let output = run("gpus=1 busy=80 unsupported=fan,ecc denied=processes", &["--once-all", "--duration", "0.4"]);
    let (out, err, code) = texts(&output);
    assert_eq!((err.as_str(), code), ("", 0));
    let value = |title: &str| {
        let line = out.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(title)?.strip_prefix("  "));
        line.unwrap_or_else(|| panic!("{title}: {out}")).trim().to_owned()
    };
    let listed = out.split_once("\n\n").map(|(_, rest)| rest).unwrap();
    assert!(listed.contains("GPU 0  NVIDIA Fake H100  GPU-fa4e0000-0001"), "{out}");
    for (title, expected) in [
        ("Power, instant", "579 W"),
        ("Energy", ""),
        ("Clocks limited by", "none"),
        ("Memory temperature", "52 °C"),
        ("Fan", "not supported"),
        ("ECC errors, corrected", "not supported"),
        ("Processes", "no permission"),
        ("Decoder", "not in this version of the driver"),
        ("NVLinks, active", "4"),
        ("PCIe lanes", "16"),
    ] {
        assert!(value(title).starts_with(expected), "{title}: {}", value(title));
    }
    assert!(out.contains("Fast readings: "), "{out}");
}

#[test]
fn lines_of_json_have_the_schema_and_no_unsupported_metric() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gpu_metrics.jsonl");
    let args = ["--duration", "0.5", "--out", path.to_str().unwrap()];
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let (_, err, code) = texts(&run("gpus=2 busy=50 unsupported=power", &args));
    assert!(code == 0 && err.contains("lines in"), "{err}");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 4, "{text}");
    for line in &lines {
        assert_eq!((&line["gpu_util_pct"], &line["memory_util_pct"]), (&Value::from(50), &Value::from(25)));
        assert!((line["memory_total_gb"].as_f64().unwrap() - 85.520_809_984).abs() < 1e-9);
        assert!(line.get("power_w").is_none() && line.get("temperature_c").is_some(), "{line}");
        let timestamp = line["timestamp"].as_f64().unwrap();
        assert!((before - 1.0..before + 600.0).contains(&timestamp), "{line}");
    }
    let of = |gpu: u64| lines.iter().filter(|line| line["gpu_id"] == gpu).count();
    assert!(of(0) > 1 && of(1) > 1);
    let again = run("gpus=1", &args);
    assert!(texts(&again).1.contains("add --overwrite") && again.status.code() == Some(2));
}

#[test]
fn what_is_missing_is_said_in_one_sentence_with_what_to_do() {
    for (words, sentence) in [
        ("init=9", "The NVIDIA driver is installed, but not loaded"),
        ("init=4", "This user may not talk to the NVIDIA driver"),
        ("init=18", "are of different versions"),
        ("gpus=0", "finds no GPU"),
        ("gpus=1 lost=0", "GPU 0 cannot be read"),
    ] {
        let (out, err, code) = texts(&run(words, &["--duration", "1"]));
        // A machine with an AMD GPU watches that.
        if code == 2 {
            assert!(out.is_empty() && err.contains(sentence) && err.lines().count() == 1, "{words}: {err}");
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command.args(["monitor", "--seconds", "0.2", "--library", "/nowhere/libnvidia-ml.so.1"]);
    let (_, err, code) = texts(&command.output().unwrap());
    assert!(code == 0 || err.contains("There is no library /nowhere/libnvidia-ml.so.1"), "{err}");
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "no library").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_lacuna")).args(["monitor", "--library"]).arg(&text).output().unwrap();
    let (_, err, code) = texts(&output);
    assert!(code == 0 || err.contains("notes.txt is not a library of this system"), "{err}");
}

/// What waits for a slow disk is written before the end, as long as it writes, and a disk that does not answer holds it
/// up for seconds only. A pipe that nobody reads for a while stands for both.
#[cfg(target_os = "linux")]
#[test]
fn the_last_lines_are_written_before_the_end() {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    // Whether it is read, and for how many seconds slowly.
    for (reads, slowly) in [(true, 0), (true, 8), (false, 0)] {
        let fake = FakeNvml::new("gpus=8 busy=30");
        let (mut reader, writer) = std::io::pipe().unwrap();
        let out = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        let child = monitor(&fake, &["--overwrite", "--out", &out]).spawn().unwrap();
        // More than the pipe holds.
        std::thread::sleep(Duration::from_secs(4));
        drop(writer);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let started = Instant::now();
        let read = std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
            if reads {
                let mut text = vec![0; slowly * 4096];
                for page in text.chunks_mut(4096) {
                    std::thread::sleep(Duration::from_secs(1));
                    reader.read_exact(page).unwrap();
                }
                std::thread::sleep(Duration::from_secs(1));
                reader.read_to_end(&mut text).unwrap();
                return String::from_utf8(text).unwrap();
            }
            // Open, and not read, until the monitor has ended.
            std::thread::sleep(Duration::from_secs(20));
            String::new()
        });
        let read = read.unwrap();
        let (_, err, code) = texts(&child.wait_with_output().unwrap());
        assert!(started.elapsed() < Duration::from_secs(15), "it waited {:?}", started.elapsed());
        if reads {
            let text = read.join().unwrap();
            assert!(text.len() > 65_536 && text.ends_with('\n'), "{} bytes", text.len());
            assert!(err.starts_with(&format!("{} lines", text.lines().count())) && code == 0, "{err}");
        } else {
            assert!(err.contains("the disk does not answer") && code == 2, "{err}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn signals_end_with_the_summary_and_every_reading() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let fake = FakeNvml::new("gpus=1 busy=30");
        let out = scratch("live-signals").join("out.jsonl");
        // A test run may have been told to ignore some.
        let mut command = Command::new("env");
        let of_monitor = monitor(&fake, &["--overwrite", "--out"]);
        command
            .arg("--default-signal=INT,TERM,HUP")
            .arg(of_monitor.get_program())
            .args(of_monitor.get_args())
            .arg(&out);
        command.envs(of_monitor.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let (text, err, code) = texts(&end(child, signal));
        assert!(code == 0 && text.contains("Utilization") && text.contains("30 %"), "{signal}: {text}{err}");
        let written = std::fs::read_to_string(&out).unwrap();
        assert!(written.ends_with("}\n") && written.lines().count() > 3, "{signal}: {written}");
        assert!(err.contains(&format!("{} lines", written.lines().count())), "{signal}: {err}");
    }
}

fn end(child: Child, signal: &str) -> Output {
    let started = Instant::now();
    let id = child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(60));
    output
}

#[test]
fn counters_are_recorded_beside_a_run() {
    let fake = FakeNvml::new("gpus=1 busy=30");
    let folder = tempfile::tempdir().unwrap();
    let run = |out: &str, args: &[&str], library: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        command.args(["capture", "--backend", "none", "--out"]).arg(folder.path().join(out)).args(args);
        command.args(["--", "sleep", "0.8"]).env("LACUNA_NVML", library);
        let output = command.output().unwrap();
        assert!(output.status.success());
        let names = std::fs::read_dir(folder.path().join(out)).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        (names, texts(&output).1)
    };
    let (names, said) = run("with", &[], fake.library().as_ref());
    assert_eq!(names, ["gpu_metrics.jsonl", "lock", "output.txt", "run.json"]);
    assert!(!said.contains("No GPU metrics"), "{said}");
    let text = std::fs::read_to_string(folder.path().join("with/gpu_metrics.jsonl")).unwrap();
    assert!(text.lines().count() > 1 && text.lines().all(|line| line.contains("\"gpu_util_pct\":30")), "{text}");
    let without = ["lock", "output.txt", "run.json"].map(str::to_owned).to_vec();
    let (names, said) = run("without", &["--no-gpu-counters"], fake.library().as_ref());
    assert!(names == without && !said.contains("No GPU metrics"), "{said}");
    // Said before the program runs, and not again.
    let (names, said) = run("absent", &[], "/nowhere/libnvidia-ml.so.1".as_ref());
    let before = said.split_once("Lacuna runs:").unwrap().0;
    assert_eq!((names, said.matches("No GPU metrics are recorded: ").count()), (without, 1), "{said}");
    assert!(before.contains("No GPU metrics are recorded: "), "{said}");
}
