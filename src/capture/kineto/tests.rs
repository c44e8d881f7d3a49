#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;
use crate::capture::launch::Exit;

const WORK: &str = r#"{"cat": "cpu_op", "ph": "X", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 1}"#;

fn options() -> Options {
    Options { duration: Duration::from_millis(700), every: None, ranks: None, contents: Contents::default() }
}

/// A process that stands for one with torch.
struct Client {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Client {
    /// Starts one, or nothing where there is no python3. `run`: the run it belongs to.
    fn start(folder: &Path, run: &Path, rank: Option<&str>, events: &str, n: u32) -> Option<Self> {
        let stub = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub/kineto.py");
        let mut command = Command::new("python3");
        command.args([stub, events, &n.to_string()]).stdout(Stdio::piped());
        command.envs(environment(folder, false)).env("LACUNA_RUN", run).env_remove("RANK");
        command.envs(rank.map(|rank| ("RANK", rank)));
        let mut child = command.spawn().ok()?;
        let said = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, said })
    }

    /// Starts one whose program is over as soon as it is recorded.
    fn ending(folder: &Path) -> Option<Self> {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub");
        prepare(folder).unwrap();
        let mut command = Command::new("python3");
        command.args([&format!("{tests}/kineto.py"), WORK, "2", "ends"]).stdout(Stdio::piped());
        command.envs(environment(folder, false)).env("LACUNA_RUN", folder).env_remove("RANK");
        command.envs(pytorch::environment(folder, Some(tests.into())));
        let mut child = command.spawn().ok()?;
        let said = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, said })
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    let since = std::time::Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "it did not become so");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn recorded(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".pt.trace.json")).collect();
    names.sort();
    names
}

#[test]
fn a_process_is_recorded_again_and_again() {
    let run = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::open(run.path(), &options(), false).unwrap();
    assert_eq!((endpoint.trigger(), endpoint.n_ready()), (0, 0));
    let Some(mut client) = Client::start(run.path(), run.path(), None, WORK, 2) else { return };
    assert_eq!(client.line(), "registered b'\\x01\\x00\\x00\\x00'\n");
    for n in 1..=2 {
        until(|| endpoint.n_ready() == 1);
        assert_eq!((endpoint.trigger(), endpoint.trigger()), (1, 0));
        let told = client.line();
        for expected in [
            &format!("'ACTIVITIES_LOG_FILE': '{}/kineto/{n}.json'", run.path().display()),
            "'ACTIVITIES_DURATION_MSECS': '700'",
            "'PROFILE_REPORT_INPUT_SHAPES': 'true'",
            "'PROFILE_WITH_STACK': 'false'",
        ] {
            assert!(told.contains(expected), "{expected} in {told}");
        }
        assert!(!told.contains("PROFILE_START_TIME"), "{told}");
        until(|| recorded(run.path()).len() == n);
    }
    assert_eq!(endpoint.finish(Exit::Code(0)), [] as [&str; 0]);
    assert_eq!(recorded(run.path()), ["trace-rank0-1.pt.trace.json", "trace-rank0-2.pt.trace.json"]);
    assert!(!socket_folder(run.path()).exists() && !place(run.path()).exists());
}

#[test]
fn workers_begin_together_and_their_launcher_is_left_out() {
    let run = tempfile::tempdir().unwrap();
    let options = Options { ranks: Some([0, 3].into()), ..options() };
    let endpoint = Endpoint::open(run.path(), &options, false).unwrap();
    let start = |rank, events| Client::start(run.path(), run.path(), rank, events, 1);
    let Some(mut first) = start(Some("0"), WORK) else { return };
    let (mut other, mut launcher, _unwanted) = (start(Some("3"), WORK), start(None, ""), start(Some("1"), WORK));
    until(|| endpoint.n_ready() == 3);
    assert_eq!(endpoint.trigger(), 3);
    let start_of = |client: &mut Client| {
        let (_, told) = (client.line(), client.line());
        told.split_once("'PROFILE_START_TIME': '").unwrap().1.split_once('\'').unwrap().0.to_owned()
    };
    assert_eq!(start_of(&mut first), start_of(other.as_mut().unwrap()));
    start_of(launcher.as_mut().unwrap());
    until(|| endpoint.processes().iter().all(|process| process.state != "recording"));
    assert_eq!(endpoint.finish(Exit::Code(0)), [] as [&str; 0]);
    assert_eq!(recorded(run.path()), ["trace-rank0-1.pt.trace.json", "trace-rank3-1.pt.trace.json"]);
}

#[test]
fn strangers_are_not_answered() {
    let (run, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let endpoint = Endpoint::open(run.path(), &options(), false).unwrap();
    let Some(mut stranger) = Client::start(run.path(), other.path(), None, WORK, 1) else { return };
    assert_eq!(stranger.line(), "registered None\n");
    assert_eq!(stranger.line(), "no answer\n");
    assert_eq!((endpoint.n_ready(), endpoint.trigger()), (0, 0));
    // Neither do messages that are none end it.
    let wrong = std::os::unix::net::UnixDatagram::unbound().unwrap();
    for bytes in [&b""[..], b"x", &[0xff; 4000]] {
        let _ = wrong.send_to(bytes, socket_folder(run.path()).join("dynolog"));
    }
    let Some(mut client) = Client::start(run.path(), run.path(), None, WORK, 1) else { return };
    assert_eq!(client.line(), "registered b'\\x01\\x00\\x00\\x00'\n");
    drop(client);
    assert!(
        endpoint.finish(Exit::Code(0))[0].contains("no process could record"),
        "{:?}",
        endpoint.finish(Exit::Code(0))
    );
}

#[test]
fn traces_come_by_themselves() {
    let run = tempfile::tempdir().unwrap();
    let options = Options { every: Some(Duration::from_millis(100)), ..options() };
    let endpoint = Endpoint::open(run.path(), &options, false).unwrap();
    let Some(mut client) = Client::start(run.path(), run.path(), Some("2"), WORK, 2) else { return };
    assert!(client.child.wait().unwrap().success());
    assert_eq!(endpoint.finish(Exit::Code(0)), [] as [&str; 0]);
    assert_eq!(recorded(run.path()), ["trace-rank2-1.pt.trace.json", "trace-rank2-2.pt.trace.json"]);
}

#[test]
fn a_program_that_ends_while_it_is_recorded_leaves_no_empty_trace() {
    let run = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::open(run.path(), &options(), false).unwrap();
    let Some(mut client) = Client::start(run.path(), run.path(), None, "", 1) else { return };
    until(|| endpoint.trigger() == 1);
    assert!(endpoint.is_busy());
    assert!(client.child.wait().unwrap().success());
    let notes = endpoint.finish(Exit::Signal(11));
    assert!(notes[0].contains("ended before its trace was whole") && notes[1].contains("torch crash"), "{notes:?}");
    assert_eq!((notes.len(), recorded(run.path())), (2, Vec::<String>::new()));
}

#[test]
fn a_program_that_is_over_waits_for_its_trace_and_is_asked_for_no_more() {
    let run = tempfile::tempdir().unwrap();
    // One would follow the other.
    let options = Options { every: Some(Duration::from_millis(50)), ..options() };
    let endpoint = Endpoint::open(run.path(), &options, false).unwrap();
    let Some(mut client) = Client::ending(run.path()) else { return };
    until(|| endpoint.holds());
    assert!(client.child.try_wait().unwrap().is_none() && recorded(run.path()).is_empty());
    assert_eq!((endpoint.trigger(), endpoint.n_ready()), (0, 0));
    assert!(client.child.wait().unwrap().success());
    assert!(!endpoint.holds());
    assert_eq!(recorded(run.path()), ["trace-rank0-1.pt.trace.json"]);
    assert_eq!(endpoint.processes()[0].state, "ended");
    let notes = endpoint.finish(Exit::Code(0));
    assert!(notes.len() == 1 && notes[0].contains("ended while trace 1 was recorded"), "{notes:?}");
}

#[test]
#[cfg(unix)]
fn a_program_that_is_over_ends_at_an_interrupt_and_without_the_endpoint() {
    for is_interrupted in [true, false] {
        let run = tempfile::tempdir().unwrap();
        let options = Options { duration: Duration::from_secs(3600), ..options() };
        let endpoint = Endpoint::open(run.path(), &options, false).unwrap();
        let Some(mut client) = Client::ending(run.path()) else { return };
        until(|| endpoint.trigger() == 1);
        until(|| endpoint.holds());
        if is_interrupted {
            let pid = rustix::process::Pid::from_child(&client.child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        } else {
            drop(endpoint);
        }
        let since = std::time::Instant::now();
        assert!(client.child.wait().unwrap().success());
        assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
        assert_eq!(recorded(run.path()), [] as [&str; 0]);
    }
}

#[test]
fn a_run_without_torch_says_why_nothing_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::open(folder.path(), &options(), false).unwrap();
    assert_eq!(endpoint.trigger(), 0);
    let [said] = &endpoint.finish(Exit::Code(0))[..] else { panic!() };
    assert!(said.contains("a program without torch never does. The PyTorch profiler"), "{said}");
}

#[test]
fn a_taken_name_and_what_torch_does_not_record_are_said_at_the_start() {
    let runs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    // Other tests may have the name as well.
    let contents = Contents { profile_memory: true, ..Contents::default() };
    let options = Options { contents, ..options() };
    let [_first, second] = runs.each_ref().map(|run| Endpoint::open(run.path(), &options, false).unwrap());
    let [taken, allocations] = &second.warnings()[..] else { panic!() };
    assert!(taken.contains("Another daemon") && allocations.contains("no allocations on demand"));
}

#[test]
fn the_name_of_the_machine_is_served_unless_it_is_taken() {
    use rustix::event::Timespec;
    let folder = tempfile::tempdir().unwrap();
    let name = format!("lacuna-test-{}", std::process::id());
    let sockets = socket::Sockets::open(&folder.path().join("a"), &name).unwrap();
    assert!(!sockets.is_name_taken());
    assert!(socket::Sockets::open(&folder.path().join("b"), &name).unwrap().is_name_taken());
    let (own, of_machine) = (format!("{name}-client\0"), format!("{name}\0"));
    use std::os::linux::net::SocketAddrExt as _;
    let address = |name: &str| std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    let client = std::os::unix::net::UnixDatagram::bind_addr(&address(&own)).unwrap();
    client.send_to_addr(b"a word", &address(&of_machine)).unwrap();
    let received = sockets.receive(&Timespec { tv_sec: 60, tv_nsec: 0 }).unwrap().unwrap();
    assert_eq!((&received.bytes[..], received.pid), (&b"a word"[..], std::process::id()));
    sockets.answer(&received, b"another");
    let mut buffer = [0; 9];
    assert_eq!(client.recv(&mut buffer).unwrap(), 7);
}

#[test]
fn a_folder_of_someone_else_is_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let (open, link, target) = (root.path().join("open"), root.path().join("link"), root.path().join("target"));
    for folder in [&open, &target] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("precious"), "").unwrap();
    }
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for folder in [&open, &link] {
        assert!(socket::Sockets::open(folder, "lacuna-test").is_err());
    }
    assert!(open.join("precious").exists() && target.join("precious").exists());
}

#[test]
fn a_path_that_kineto_cannot_take_is_an_obstacle() {
    for path in ["/a/#b", "/a=b", "/a/../b", "/a\nACTIVITIES_ENABLED"] {
        assert!(obstacle(Path::new(path)).is_some(), "{path}");
    }
    assert_eq!(obstacle(Path::new("/it's a/run")), None);
    let long = format!("/{}", "x".repeat(90));
    assert!(socket_folder(Path::new(&long)).as_os_str().len() <= 54);
    assert_ne!(socket_folder(Path::new("/a")), socket_folder(Path::new("/b")));
}
