//! Zips that are torn, damaged or hostile: what of their files is read.

use lacuna::job::Progress;
use lacuna::reader::{self, ReadError};

use super::damaged::{losses, notes, read};
use super::support::scratch;

/// A zip with these files.
fn zip(files: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        std::io::Write::write_all(&mut writer, bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_zip_of_several_files_is_read() {
    let folder = scratch("zips");
    let path = folder.join("t.zip");
    let read_zip = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read(&path)
    };
    let trace = |n: usize| {
        let event = |i: usize| format!(r#"{{"ph":"X","ts":{},"dur":1,"pid":1,"tid":1,"name":"a"}}"#, 2 * i);
        format!("[{}]", (0..n).map(event).collect::<Vec<_>>().join(",\n")).into_bytes()
    };
    let (a, b) = (trace(3), trace(2000));
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let files: [(&str, &[u8]); 5] = [
            ("rank_1.json", &b),
            ("x/rank_0.json", &a),
            ("README.txt", b"These are traces."),
            ("config.json", br#"{"lr": 0.1}"#),
            ("__MACOSX/._rank_1.json", b"\0\x05\x16\x07"),
        ];
        let whole = zip(&files, method);
        let traces = read_zip(&whole).unwrap();
        let found: Vec<_> = traces.iter().map(|trace| (trace.info.rank, trace.import.shown)).collect();
        assert_eq!(found, [(Some(0), 3), (Some(1), 2000)]);
        assert_eq!(losses(&traces[0]).len() + losses(&traces[1]).len(), 0);
        let told = notes(&traces[1]).join("\n");
        assert!(told.contains("2 In the same archive and not shown") && told.contains("README.txt"), "{told}");
        // A byte of the first file is another: the other file is whole.
        let mut damaged = whole.clone();
        let place = damaged.len() / 3;
        damaged[place] ^= 0xff;
        if let Ok(traces) = read_zip(&damaged) {
            assert!(traces.iter().any(|trace| trace.info.rank == Some(0) && trace.import.shown == 3));
        }
    }
    let mut named_alike = zip(&[("rank_1.json", &a), ("rank_2.json", &b)], zip::CompressionMethod::Stored);
    for at in 0..named_alike.len() - 6 {
        if &named_alike[at..at + 6] == b"rank_2" {
            named_alike[at + 5] = b'1';
        }
    }
    let traces = read_zip(&named_alike).unwrap();
    assert_eq!((traces.len(), traces[0].import.shown), (1, 2000));
    assert!(losses(&traces[0])[0].contains("have the same name"), "{:?}", losses(&traces[0]));
    let error = read_zip(&zip(&[("a.txt", b"words"), ("b.txt", b"words")], zip::CompressionMethod::Stored));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("None of the 2 files in this archive can be read, a.txt"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The list of a zip's files stands at its end. Those that stream one know lengths only behind each file.
#[test]
fn a_torn_zip_gives_what_is_whole() {
    let folder = scratch("torn-zips");
    let path = folder.join("t.zip");
    let trace = |n: usize| {
        let event = |i: usize| format!(r#"{{"ph":"X","ts":{},"dur":{},"pid":1,"tid":1,"name":"a"}}"#, 2 * i, i % 7 + 1);
        format!("[{}]", (0..n).map(event).collect::<Vec<_>>().join(",\n")).into_bytes()
    };
    let (a, b, c) = (trace(30), trace(2000), trace(5000));
    let files: [(&str, &[u8]); 4] =
        [("rank_0.json", &a), ("notes.txt", b"words"), ("rank_1.json", &b), ("rank_2.json", &c)];
    let streamed = {
        let mut writer = zip::ZipWriter::new_stream(Vec::new());
        for (name, bytes) in files {
            let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
            writer.start_file(name, options).unwrap();
            std::io::Write::write_all(&mut writer, bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    };
    let methods = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated];
    for whole in methods.map(|method| zip(&files, method)).into_iter().chain([streamed]) {
        let list = memchr::memmem::find(&whole, b"PK\x01\x02").unwrap();
        let last = memchr::memmem::rfind(&whole, b"PK\x03\x04").unwrap();
        for (cut, n_whole, n_cut) in [(list + 9, 3, 0), (list, 3, 0), ((last + list) / 2, 2, 1), (last + 12, 2, 0)] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let traces = read(&path).unwrap();
            let shown: Vec<_> = traces.iter().map(|trace| trace.import.shown).collect();
            assert_eq!(shown[..n_whole], [30, 2000, 5000][..n_whole], "cut at {cut} of {}", whole.len());
            assert_eq!(shown.len(), n_whole + n_cut, "{shown:?}");
            assert!(shown.get(n_whole).is_none_or(|&n| n > 0 && n < 5000), "{shown:?}");
            assert!(losses(&traces[0]).join("\n").contains("archive ends early"), "{:?}", losses(&traces[0]));
        }
        // The header of the second file is damaged as well.
        let mut damaged = whole[..list].to_vec();
        let second = 4 + memchr::memmem::find(&whole[4..], b"PK\x03\x04").unwrap();
        damaged[second] = b'Q';
        std::fs::write(&path, damaged).unwrap();
        let traces = read(&path).unwrap();
        assert_eq!(traces.iter().map(|trace| trace.import.shown).collect::<Vec<_>>(), [30, 2000, 5000]);
        assert!(losses(&traces[0])[0].contains("damaged at byte"), "{:?}", losses(&traces[0]));
    }
    for text in [&b"PK\x03\x04"[..], b"PK\x05\x06zzz", &b"PK\x03\x04".repeat(5000), &[0x50, 0x4b, 3, 4, 255, 255]] {
        std::fs::write(&path, text).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("zip"), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Lengths and places are in the list and before each file; how many files there are is in the list alone.
#[test]
fn a_zip_whose_list_is_wrong_gives_all_files() {
    let folder = scratch("zip-lists");
    let path = folder.join("t.zip");
    let trace =
        |n: usize| format!("[{}]", [r#"{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a"}"#; 300][..n].join(","));
    let texts = [10, 300, 200].map(trace);
    let names = ["rank_0.json", "rank_1.json", "rank_2.json"];
    let files: Vec<(&str, &[u8])> = names.into_iter().zip(texts.iter().map(String::as_bytes)).collect();
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let whole = zip(&files, method);
        let first = memchr::memmem::find(&whole, b"PK\x01\x02").unwrap();
        let end = memchr::memmem::rfind(&whole, b"PK\x05\x06").unwrap();
        let length_and_place: [(usize, &[u8]); 5] = [
            (first + 20, &[255, 255, 255, 127]),
            (first + 20, &[255; 8]),
            (first + 42, &[255, 255, 255, 127]),
            // No file, and one.
            (end + 8, &[0; 4]),
            (end + 8, &[1, 0, 1, 0]),
        ];
        for (at, bytes) in length_and_place {
            let mut damaged = whole.clone();
            damaged[at..at + bytes.len()].copy_from_slice(bytes);
            std::fs::write(&path, damaged).unwrap();
            let traces = read(&path).unwrap();
            let shown: Vec<_> = traces.iter().map(|trace| trace.import.shown).collect();
            assert_eq!(shown, [10, 300, 200], "{bytes:?} at {at}");
            assert!(losses(&traces[0])[0].contains("list of files in this zip is damaged"), "{:?}", losses(&traces[0]));
        }
    }
    // Bytes that belong to no file are no loss, and what every listed file shares is refused.
    let mut padded = zip(&files[..1], zip::CompressionMethod::Stored);
    let list = memchr::memmem::find(&padded, b"PK\x01\x02").unwrap();
    padded.splice(list..list, [7; 100]);
    let place = padded.len() - 6;
    padded[place..place + 4].copy_from_slice(&(list as u32 + 100).to_le_bytes());
    std::fs::write(&path, padded).unwrap();
    assert_eq!(losses(&read(&path).unwrap()[0]).len(), 0);
    let mut shared = zip(&files[..2], zip::CompressionMethod::Deflated);
    let second = memchr::memmem::rfind(&shared, b"PK\x01\x02").unwrap();
    shared[second + 42..second + 46].fill(0);
    let header = memchr::memmem::rfind(&shared, b"PK\x03\x04").unwrap();
    shared[header] = b'Q';
    std::fs::write(&path, shared).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("share the same bytes"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Each file by itself is small enough to be read without asking; together they are not.
#[test]
fn an_archive_of_bombs_gives_its_first_files() {
    let folder = scratch("bombs");
    let path = folder.join("t.zip");
    let event = r#"{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a"}"#;
    let text = format!("[{}{event}]", " ".repeat(22 << 20)).into_bytes();
    let names = ["a.json", "b.json", "c.json", "d.json", "e.json"];
    std::fs::write(&path, zip(&names.map(|name| (name, &text[..])), zip::CompressionMethod::Deflated)).unwrap();
    let traces = read(&path).unwrap();
    let told = losses(&traces[0]);
    assert_eq!(traces.len(), 2, "{told:?}");
    assert!(told.len() == 1 && told[0].starts_with("3 Not read, since the files of this archive"), "{told:?}");
    let options = reader::Options { allow_any_ratio: true };
    let traces = reader::read_with(&path, options, &Progress::default()).unwrap();
    assert_eq!((traces.len(), losses(&traces[0])), (5, vec![]));
    // Where none can be read, the user is asked.
    let bomb = [&text[..], &text, &text].concat();
    std::fs::write(&path, zip(&[("a.json", &bomb), ("b.txt", b"words")], zip::CompressionMethod::Deflated)).unwrap();
    assert!(matches!(read(&path), Err(ReadError::NeedsConsent(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}
