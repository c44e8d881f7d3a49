//! Raw data, and the importer that makes a report of it.
#![cfg(unix)]

use super::*;

/// An importer that makes a report of raw data.
const IMPORTS: &str = r#"
[ "$1" = --input-file ] && [ "$3" = --output-file ] || exit 9
printf 'NVIDIA Tegra Profiler Report 2023@4@4@54-1v0.' > "$4"
echo "Processing [====100%]"
"#;

impl Bench {
    /// Raw data in place of the report; returns its path.
    fn raw(&self, name: &str) -> PathBuf {
        let raw = self.folder.path().join(name);
        let mut bytes = b"U3w[END]NVIDIA Nsight Systems Stream 2023.4.4.54-234433681190v0!\x0a\xd9".to_vec();
        bytes.resize(5000, 3);
        std::fs::write(&raw, bytes).unwrap();
        raw
    }

    fn failure_of(&self, path: &Path) -> String {
        match openable(path, &self.options, &Progress::default()) {
            Err(ConvertError::Failed(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    fn install_importer(&self, version: &str, script: &str) {
        let folder = self.folder.path().join("root/opt/nvidia/nsight-systems").join(version);
        write_program(&folder.join("host-linux-x64/QdstrmImporter"), script);
    }
}

#[test]
fn raw_data_becomes_a_report_and_then_an_export() {
    // What is exported is the report, not the raw data.
    let checks = format!("head -c 28 \"$8\" | grep -q 'Tegra Profiler Report' || exit 6\n{WORKS}");
    let bench = Bench::installed(&[("2023.4.4.54", &checks), ("2025.1.1", "exit 7")]);
    bench.install_importer("2023.4.4.54", IMPORTS);
    bench.install_importer("2025.1.1", "exit 8");
    // The name says nothing; what is in it does.
    for name in ["run; two.qdstrm", "-odd.bin"] {
        let raw = bench.raw(name);
        let opened = openable(&raw, &bench.options, &Progress::default()).unwrap();
        assert!(is_database(&opened.path));
        let origin = opened.origin.as_ref().unwrap();
        assert!(origin.converter.contains("2023.4.4.54"), "{origin:?}");
        let beside = opened.path.parent().unwrap();
        assert!(std::fs::read_dir(beside).unwrap().all(|entry| !is_report(&entry.unwrap().path())), "kept twice");
        let mut traces = [Trace::default()];
        opened.claim(&raw, &mut traces);
        assert_eq!((&traces[0].info.path, traces[0].info.producer.as_str()), (&raw, "Nsight Systems 2023.4.4.54"));
        assert!(traces[0].import.problems[0].reason.starts_with("Raw data of Nsight Systems, imported"));
        // It is in the cache now.
        assert_eq!(openable(&raw, &bench.options, &Progress::default()).unwrap().path, opened.path);
    }
}

#[test]
fn raw_data_says_what_it_is_and_how_to_convert_it() {
    let mut bench = Bench::installed(&[("2023.4.4.54", WORKS), ("2022.1", WORKS)]);
    let raw = bench.raw("it's one.qdstrm");
    let text = bench.failure_of(&raw);
    assert!(text.starts_with("This is raw data of Nsight Systems 2023.4, which made no report of it, and "), "{text}");
    assert!(text.contains("the nsys found here has no QdstrmImporter (") && text.contains("2023.4.4.54/"), "{text}");
    let wanted = r"`QdstrmImporter --output-file 'it'\''s one.nsys-rep' --input-file 'it'\''s one.qdstrm'`";
    assert!(text.contains(wanted) && text.ends_with(r"and open 'it'\''s one.nsys-rep'"), "{text}");
    assert!(text.contains("Where Nsight Systems 2023.4 is installed"), "{text}");
    bench.options.search.root = bench.folder.path().join("empty");
    assert!(bench.failure_of(&raw).contains("no nsys was found here"));
    // What was made of it by hand is offered.
    std::fs::copy(bench.report(), raw.with_extension("nsys-rep")).unwrap();
    let text = bench.failure_of(&raw);
    assert!(text.ends_with("Beside it lies it's one.nsys-rep, which is newer: open that file"), "{text}");
}

#[test]
fn an_importer_that_fails_is_reported_and_ended_when_it_hangs() {
    let mut bench = Bench::installed(&[("2023.4.4.54", WORKS), ("2024.2", WORKS)]);
    bench.install_importer("2023.4.4.54", "echo File is corrupted. >&2; exit 2");
    bench.install_importer("2024.2", "exit 0");
    let raw = bench.raw("torn.qdstrm");
    let text = bench.failure_of(&raw);
    assert!(text.starts_with("The import of the raw data by ") && text.contains("exit status: 2"), "{text}");
    assert!(text.contains("File is corrupted.") && text.contains("wrote no report"), "{text}");
    assert!(bench.cached().is_empty(), "{:?}", bench.cached());
    bench.install_importer("2023.4.4.54", "sleep 78");
    bench.options.patience = Duration::from_millis(200);
    assert!(bench.failure_of(&raw).contains("made no progress"));
}

#[test]
fn an_importer_is_found_wherever_an_installation_has_it() {
    let root = tempfile::tempdir().unwrap();
    for (nsys, importer) in [
        ("a/bin/nsys", "a/host-linux-x64/QdstrmImporter"),
        ("b/target-linux-x64/nsys", "b/host-linux-armv8/QdstrmImporter"),
        ("cuda-13.2/bin/nsys", "cuda-13.2/nsight-systems-2025.6.3/host-linux-x64/QdstrmImporter"),
    ] {
        let [nsys, importer] = [nsys, importer].map(|path| root.path().join(path));
        write_program(&nsys, "exit 0");
        assert_eq!(find::importer(&nsys), None);
        write_program(&importer, "exit 0");
        assert_eq!(find::importer(&nsys), Some(importer.canonicalize().unwrap()));
        // By a link, as distributions have it.
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&nsys, &link).unwrap();
        assert_eq!(find::importer(&link), Some(importer.canonicalize().unwrap()));
        std::fs::remove_file(link).unwrap();
    }
}
