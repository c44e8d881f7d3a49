//! Runs under a script that behaves as `nsys` does.

use super::*;

/// A script that behaves as `nsys profile`, `start` and `stop` do: the program runs in a session of its own with the
/// variables that it is given, helpers stay behind, and a report is written once the recording ends. `$FAKE` says
/// what goes wrong.
const NSYS: &str = r#"what=$1; shift
for option; do case $option in
    --session*=*) session=${option#*=};; --output=*) output=${option#*=};; --env-var=*) vars=${option#*=};;
    --start-later=true) later=1;; --*) ;; *) break;; esac; shift; done
case $what in
start) echo "$output" > "$TMPDIR/on"; exit;;
stop) mv "$TMPDIR/on" "$TMPDIR/off"; echo report > "$(cat "$TMPDIR/off").nsys-rep"; exit;;
esac
[ "$FAKE" = illegal ] && printf '%s\n' "Illegal --trace argument 'foo'" '' 'usage: nsys profile' && exit 1
[ "$FAKE" = refuses ] && echo 'None of the installed GPUs are supported.' && exit 1
[ "$FAKE" = fails ] && echo 'Message parsing failed.' && exit 1
setsid sh -c 'exec sleep 600' "--session-name=$session" &
[ "$FAKE" = dies ] && exit 3
IFS=,; set -f; env $vars setsid --wait "$@"; code=$?
[ "$FAKE" = hangs ] && sleep 600
[ -z "$later" ] && { sleep 0.3; echo report > "$output.nsys-rep"; }
[ -e "$TMPDIR/on" ] && echo report > "$(cat "$TMPDIR/on").nsys-rep"
exit $code
"#;

/// A run under the script.
fn by_nsys(root: &Path, script: &str, fake: &str, change: impl Fn(&mut nsys::Profile)) -> Request {
    let program = root.join("nsys of test");
    write_program(&program, NSYS);
    let mut request = shell(&root.join("runs"), script);
    request.env = vec![("FAKE".into(), fake.into()), ("TMPDIR".into(), "/tmp".into())];
    request.grace = Duration::from_millis(1500);
    let mut profile = nsys::Profile { program, trace: "nvtx".to_owned(), ..Default::default() };
    change(&mut profile);
    request.recorder = Recorder::Nsys(profile);
    request
}

#[test]
fn nsys_writes_its_report_however_the_program_ends() {
    let root = tempfile::tempdir().unwrap();
    // As one that writes its title over its environment.
    let hidden = "exec env -i sh -c 'trap \"exit 7\" INT; echo ready; while :; do sleep 0.05; done'";
    for (script, stops, exit) in [
        (hidden, 1, Exit::Code(7)),
        ("echo ready \"$TMPDIR\"; exit 5", 0, Exit::Code(5)),
        ("echo ready; kill -SEGV $$", 0, Exit::Signal(11)),
        ("trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done", 1, Exit::Code(9)),
        ("trap '' INT; trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done", 2, Exit::Code(8)),
        ("trap '' INT TERM; echo ready; while :; do sleep 0.05; done", 3, Exit::Signal(9)),
    ] {
        let run = start(&by_nsys(root.path(), script, "", |_| ()));
        until(|| has_said(&run, "ready"));
        (0..stops).for_each(|_| run.stop());
        let status = run.wait();
        assert_eq!((status.exit, names(&status)), (Some(exit), vec!["report.nsys-rep".to_owned()]), "{script}");
        assert_eq!((registry::n_processes(&run.folder), &status.notes[..]), (0, &[] as &[String]), "{script}");
        assert!(!run.folder.join("nsys").exists() && (stops > 0 || exit != Exit::Code(5) || has_said(&run, "/tmp")));
    }
}

#[test]
fn nsys_is_switched_while_the_program_runs() {
    let root = tempfile::tempdir().unwrap();
    let run = start(&by_nsys(root.path(), "echo ready; sleep 600", "", |profile| profile.by_hand = true));
    let is = |switch: Switch| run.status().switch == Some(switch);
    until(|| has_said(&run, "ready"));
    for n in 1..3 {
        run.record(true);
        until(|| is(Switch::On));
        run.record(false);
        until(|| is(Switch::Off) && run.status().results.len() == n);
    }
    run.stop();
    let status = run.wait();
    assert_eq!(names(&status), ["report-1.nsys-rep", "report-2.nsys-rep"]);
    assert_eq!((status.exit, registry::n_processes(&run.folder)), (Some(Exit::Signal(2)), 0));
    // By time, the program goes on after the recording.
    let timed = |profile: &mut nsys::Profile| (profile.delay, profile.duration) = (1, 1);
    let status = start(&by_nsys(root.path(), "sleep 3; exit 4", "", timed)).wait();
    assert_eq!((status.exit, names(&status)), (Some(Exit::Code(4)), vec!["report-1.nsys-rep".to_owned()]));
}

#[test]
fn the_program_gets_the_variables_of_the_person_and_those_that_a_range_needs() {
    let root = tempfile::tempdir().unwrap();
    let by_range = |profile: &mut nsys::Profile| {
        (profile.range, profile.nvtx_range) = (nsys::Range::Nvtx, "step".to_owned());
        profile.others = vec!["--env-var=A=1,B=2".to_owned()];
    };
    let said = |of: &str, change: &dyn Fn(&mut nsys::Profile), env: &[(&str, &str)]| {
        let mut request = by_nsys(root.path(), &format!("echo {of}"), "", change);
        request.env.extend(env.iter().map(|(name, value)| (name.into(), value.into())));
        let run = start(&request);
        run.wait();
        run.with_output(|output| output.lines()[0].text.clone())
    };
    let all = "$A $B $LACUNA_PROGRAM $TMPDIR $NSYS_NVTX_PROFILER_REGISTER_ONLY";
    assert_eq!(said(all, &by_range, &[]), "1 2 1 /tmp 0");
    assert_eq!(said(all, &by_range, &[("NSYS_NVTX_PROFILER_REGISTER_ONLY", "1")]), "1 2 1 /tmp 1");
    assert_eq!(said("-$NSYS_NVTX_PROFILER_REGISTER_ONLY", &|_| (), &[]), "-");
}

#[test]
fn a_failing_nsys_says_why_and_leaves_no_process() {
    let root = tempfile::tempdir().unwrap();
    for (fake, stops, expected) in [
        ("refuses", 0, &["nsys can sample the metrics of no GPU here: record without them"][..]),
        ("illegal", 0, &["nsys wrote no report: it refused its options: Illegal --trace argument 'foo'"]),
        ("fails", 0, &["nsys wrote no report: the last line was: Message parsing failed. Run the command line"]),
        ("dies", 0, &["nsys wrote no report: it said nothing"]),
        ("hangs", 4, &["nsys wrote no report: the last line was: ready"]),
        ("hangs", 0, &["no progress for 1 s after the program had ended", "nsys wrote no report"]),
    ] {
        let mut request = by_nsys(root.path(), "echo ready; sleep 0.5", fake, |_| ());
        request.patience = Duration::from_secs(1);
        let run = start(&request);
        until(|| fake != "hangs" || has_said(&run, "ready"));
        (0..stops).for_each(|_| run.stop());
        let status = run.wait();
        assert_eq!(status.notes.len(), expected.len(), "{fake}: {:?}", status.notes);
        assert!(status.notes.iter().zip(expected).all(|(note, part)| note.contains(part)), "{:?}", status.notes);
        assert_eq!((registry::n_processes(&run.folder), names(&status)), (0, Vec::new()), "{fake}");
    }
    let error = |request: &Request| Run::start(request, |_| (), || {}).unwrap_err().to_string();
    let mut hostile = by_nsys(root.path(), "", "", |_| ());
    hostile.argv.push(OsStr::from_bytes(b"\xff").to_owned());
    assert!(error(&hostile).contains("not UTF-8"));
    let folder = root.path().join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&folder).unwrap();
    let at = by_nsys(root.path(), "", "", |_| ());
    assert!(error(&Request { working_folder: Some(folder.clone()), ..at.clone() }).contains("not UTF-8"));
    assert!(error(&Request { place: Destination::In(folder), ..at }).contains("not UTF-8"));
    let twice = by_nsys(root.path(), "", "", |_| ());
    let argv = vec!["nsys".into(), "profile".into(), "python3".into()];
    let mut twice = Request { argv, env: Vec::new(), ..twice };
    twice.env.push(("PATH".into(), root.path().into()));
    std::fs::copy(root.path().join("nsys of test"), root.path().join("nsys")).unwrap();
    assert!(error(&twice).contains("which serves one of them in a process"));
}
