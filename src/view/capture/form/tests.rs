use super::preview::hint;
use super::*;

#[test]
fn a_form_says_what_runs() {
    let form = Form {
        line: "A=1 torchrun --nproc_per_node=8 'my train.py'".to_owned(),
        env: "NCCL_DEBUG=INFO".to_owned(),
        ranks: "0,2-3".to_owned(),
        ..Default::default()
    };
    let request = form.request("/data".into(), None).unwrap();
    assert_eq!(request.env.iter().map(|(name, _)| name.to_str().unwrap()).collect::<Vec<_>>(), ["NCCL_DEBUG", "A"]);
    assert_eq!(request.argv, ["torchrun", "--nproc_per_node=8", "my train.py"]);
    assert_eq!(hint(&request).unwrap(), "torchrun starts 8 workers; ranks 0, 2, 3 are recorded");
    let beyond = Form { ranks: "7-8".to_owned(), ..form.clone() }.request("/data".into(), None).unwrap();
    let said = "ranks 7, 8 are recorded, but those from 8 on exist only with several nodes";
    assert!(hint(&beyond).unwrap().ends_with(said), "{:?}", hint(&beyond));
    let line = request.command_line(Path::new("/data/NEW"));
    assert!(line.contains("NCCL_DEBUG=INFO A=1 PYTHONPATH=/data/NEW/python"), "{line}");
    let wrong = |form: Form| form.request("/data".into(), None).unwrap_err();
    assert!(wrong(Form { line: "'a".to_owned(), ..form.clone() }).contains("not closed"));
    assert!(wrong(Form { env: "b".to_owned(), ..form.clone() }).contains("NAME=value: b"));
    assert!(wrong(Form { ranks: "x".to_owned(), ..form }).contains("0,4-7"));
    let piped = Form { line: "a | b".to_owned(), ..Default::default() }.request("/data".into(), None).unwrap();
    assert!(hint(&piped).unwrap().contains("No shell"));
}

#[test]
fn a_form_says_how_it_is_recorded() {
    let of =
        |form: &Form| form.request("/data".into(), None).map(|request| request.command_line(Path::new("/data/NEW")));
    // A program that may be run stands for nsys.
    let nsys = std::env::current_exe().unwrap();
    let mut form = Form { line: "python3 'my train.py'".to_owned(), backend: Backend::Nsys, ..Default::default() };
    form.nsys_path = nsys.display().to_string();
    form.nsys_others = "--cudabacktrace=all".to_owned();
    form.nsys.delay = 10;
    let line = of(&form).unwrap();
    for part in [
        "TMPDIR=/data/NEW/nsys/tmp",
        " profile --session-new=lacuna-",
        "--output=/data/NEW/nsys/report-1 ",
        "--trace=cuda,nvtx,osrt",
        "--start-later=true",
        "--cudabacktrace=all",
        " --env-var=TMPDIR=",
        ",LACUNA_PROGRAM=1 ",
        " python3 'my train.py'",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    form.nsys_path = "/no/such/nsys".to_owned();
    assert!(of(&form).unwrap_err().contains("No nsys was found"));
    let manifest = launch::Manifest { recorder: "cupti".to_owned(), ..Default::default() };
    form.take(&manifest);
    assert_eq!(form.request("/data".into(), None).unwrap().recorder, Recorder::Cupti);
}

#[cfg(unix)]
#[test]
fn the_folder_of_an_earlier_run_is_taken_over_exactly() {
    use std::os::unix::ffi::OsStrExt as _;
    for folder in [&b"/data/train"[..], b"/a b/c", b"/x\xff\xfe/y", b"/blank ", b"$'odd", b"/new\nline"] {
        let folder = Path::new(OsStr::from_bytes(folder));
        let manifest = launch::Manifest { working_folder: words::path_text(folder), ..Default::default() };
        let mut form = Form { line: "true".to_owned(), ..Default::default() };
        form.take(&manifest);
        assert_eq!(form.request("/data".into(), None).unwrap().working_folder.as_deref(), Some(folder));
    }
}

#[cfg(unix)]
#[test]
fn a_command_that_is_used_again_is_as_typed_and_recent_once() {
    let root = tempfile::tempdir().unwrap();
    let typed = |line: &str, env: &str| {
        let backend = Backend::None;
        Form { line: line.to_owned(), env: env.to_owned(), without_counters: true, backend, ..Default::default() }
    };
    let form = typed(r#"A=1 true  "it's a"\ b $'c\n'"#, "B='x y'");
    let mut forms = Forms { form: form.clone(), ..Default::default() };
    forms.remember();
    let run = launch::Run::start(&form.request(root.path().to_owned(), None).unwrap(), |_| (), || {}).unwrap();
    run.wait();
    let manifest = launch::Manifest::read(&run.folder).unwrap();
    forms.form.take(&manifest);
    assert_eq!((&forms.form.line, &forms.form.env), (&form.line, &form.env));
    forms.remember();
    // What earlier versions kept has the words alone, and all variables in one place.
    forms.form.take(&launch::Manifest { typed: None, ..manifest });
    assert_ne!(forms.form.line, form.line);
    forms.remember();
    assert_eq!(forms.recent.len(), 1, "{:?}", forms.recent);
    for other in [typed("true", "A=1"), typed("A=2 true", ""), typed("'", "")] {
        forms.form = other;
        forms.remember();
    }
    assert_eq!(forms.recent.len(), 4);
    // Settings of earlier versions may hold one twice.
    forms.recent.extend([typed("'true'", ""), form]);
    forms.tidy();
    assert_eq!(forms.recent.len(), 4, "{:?}", forms.recent);
}

#[test]
fn variables_are_added_once_and_their_options_joined() {
    let mut form = Form::default();
    for (name, value) in [("A", "x:1"), ("B", "2"), ("A", "y:2"), ("A", "x:1")] {
        form.add_variable(name, value);
    }
    assert_eq!(form.env, "A=x:1,y:2 B=2");
}

#[cfg(unix)]
#[test]
fn an_earlier_run_is_used_with_all_its_options() {
    let root = tempfile::tempdir().unwrap();
    let typed = |backend| {
        let mut form = Form { line: "true".to_owned(), backend, seconds: 60, ..Default::default() };
        form.without_counters = true;
        form
    };
    let mut by_profiler = Form { ranks: "0,4-7".to_owned(), ..typed(Backend::PyTorch) };
    by_profiler.options.set_steps(10, 13);
    by_profiler.options.contents.with_stack = true;
    by_profiler.options.memory = true;
    let mut on_demand = Form { ranks: "all".to_owned(), ..typed(Backend::OnDemand) };
    on_demand.times = pytorch_options::Times { length: 0.25, every: 30.0 };
    on_demand.options.contents.record_shapes = false;
    // It records nothing.
    let nsys_path = "/bin/true".to_owned();
    let mut by_nsys = Form { nsys_path, nsys_others: "--cudabacktrace=all 'a b'".to_owned(), ..typed(Backend::Nsys) };
    by_nsys.nsys.trace = "cuda,mpi".to_owned();
    by_nsys.nsys.sampling = true;
    for form in [by_profiler, on_demand, by_nsys, typed(Backend::None)] {
        let mut request = form.request(root.path().to_owned(), None).unwrap();
        request.working_folder = Some("/".into());
        let run = launch::Run::start(&request, |_| (), || {}).unwrap();
        run.wait();
        let mut used = Form { nsys_path: form.nsys_path.clone(), ..Default::default() };
        used.take(&launch::Manifest::read(&run.folder).unwrap());
        assert_eq!(used.request(root.path().to_owned(), None).unwrap(), request);
        // What earlier versions kept is still taken over, and says nothing of the options.
        let path = run.folder.join("run.json");
        let mut old: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        old.as_object_mut().unwrap().remove("options").unwrap();
        std::fs::write(&path, old.to_string()).unwrap();
        let mut kept = Form { line: String::new(), folder: "/tmp".to_owned(), ..form.clone() };
        kept.take(&launch::Manifest::read(&run.folder).unwrap());
        assert_eq!(kept.request(root.path().to_owned(), None).unwrap(), request);
    }
}
