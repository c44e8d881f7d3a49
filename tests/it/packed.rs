//! Files that are damaged, or change while they are read: what stands before the damage is shown, and no change goes
//! unsaid.

use std::io::{Cursor, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use lacuna::job::Progress;
use lacuna::model::Trace;
use lacuna::reader::{self, ReadError};

use super::support::{project, scratch};

/// Events of about 90 bytes that hardly compress alike, so that damage is met at its place.
fn events(n: u64) -> String {
    let mut text = "{\"schemaVersion\":1,\"traceEvents\":[\n".to_owned();
    for i in 0..n {
        let odd = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let comma = if i == 0 { "" } else { ",\n" };
        text += &format!(r#"{comma}{{"ph":"X","name":"op_{odd:016x}","ts":{i}.5,"dur":0.25,"pid":1,"tid":1}}"#);
    }
    text + "\n]}"
}

fn read(folder: &Path, name: &str, bytes: &[u8]) -> Trace {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    reader::read(&path, &Progress::default()).unwrap().remove(0)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

fn zstandard(text: &[u8]) -> Vec<u8> {
    let mut packed = zstd::Encoder::new(Vec::new(), 1).unwrap();
    packed.include_checksum(true).unwrap();
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

fn zip(text: &[u8], method: zip::CompressionMethod) -> Vec<u8> {
    let mut packed = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    packed.start_file("t.json", options).unwrap();
    packed.write_all(text).unwrap();
    packed.finish().unwrap().into_inner()
}

/// What a decoder gives that is asked for one byte at a time.
fn byte_by_byte(mut decoder: impl Read) -> Vec<u8> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while matches!(decoder.read(&mut byte), Ok(1)) {
        text.push(byte[0]);
    }
    text
}

#[test]
fn all_text_before_damage_is_read() {
    let folder = scratch("before-damage");
    let text = events(20_000);
    for place in [3, 5, 8] {
        let broken = |mut packed: Vec<u8>| {
            let at = packed.len() * place / 10;
            packed[at..at + 40].fill(0xff);
            packed
        };
        let (gz, zst) = (broken(gzip(text.as_bytes())), broken(zstandard(text.as_bytes())));
        let deflated = broken(zip(text.as_bytes(), zip::CompressionMethod::Deflated));
        let start = 30 + "t.json".len();
        let cases = [
            ("t.json.gz", byte_by_byte(flate2::read::GzDecoder::new(&*gz)), &gz, 0),
            ("t.zip", byte_by_byte(flate2::read::DeflateDecoder::new(&deflated[start..])), &deflated, 0),
            // Its decoder drops up to 4 KiB.
            ("t.json.zst", byte_by_byte(zstd::Decoder::new(&*zst).unwrap()), &zst, 4096 / 60),
        ];
        for (name, text, packed, n_dropped) in cases {
            let wanted = read(&folder, "text.json", &text).import.shown;
            let trace = read(&folder, name, packed);
            assert!(wanted > 1000, "{name} {place}: only {wanted} events before the damage");
            assert!(trace.import.shown + n_dropped >= wanted, "{name} {place}: {} of {wanted}", trace.import.shown);
            // Where what follows decodes to something, the checksum tells.
            let tells = |reason: &str| reason.starts_with("The compressed data") || reason.contains("checksum");
            let is_said = trace.import.problems.iter().any(|problem| tells(&problem.reason));
            assert!(is_said, "{name} {place}: {:?}", trace.import.problems);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_wrong_checksum_is_said() {
    let folder = scratch("checksums");
    let text = events(100);
    let stored = zip(text.as_bytes(), zip::CompressionMethod::Stored);
    let at = memchr::memmem::find(&stored, b"\"dur\":0.25").unwrap();
    let mut changed = stored.clone();
    changed[at + 6] = b'3';
    let export = std::fs::read(project().join("sample_traces/nsys_5_steps.sqlite")).unwrap();
    let wrong = |mut packed: Vec<u8>| {
        let at = packed.len() - 8;
        packed[at] ^= 1;
        packed
    };
    let cases = [
        ("stored.zip", stored, changed),
        ("t.json.gz", gzip(text.as_bytes()), wrong(gzip(text.as_bytes()))),
        ("t.sqlite.gz", gzip(&export), wrong(gzip(&export))),
    ];
    for (name, whole, changed) in cases {
        let (whole, changed) = (read(&folder, name, &whole), read(&folder, name, &changed));
        let is_said = |trace: &Trace| trace.import.problems.iter().any(|problem| problem.reason.contains("checksum"));
        assert_eq!(whole.import.shown, changed.import.shown, "{name}");
        assert!(!is_said(&whole) && is_said(&changed), "{name}: {:?}", changed.import.problems);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What happens to a file, in words and done.
type Change = (&'static str, fn(&Path));

/// Reads the file, and changes it once its first bytes were read. `None` if it was read before it could be changed.
fn read_changed(path: &Path, change: fn(&Path)) -> Option<Result<Vec<Trace>, ReadError>> {
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| reader::read(path, &progress));
        while progress.get().0 == 0 && !reading.is_finished() {
            std::thread::yield_now();
        }
        change(path);
        let (done, total) = progress.get();
        let is_late = reading.is_finished() || done >= total;
        let read = reading.join().unwrap();
        (!is_late).then_some(read)
    })
}

#[test]
fn a_file_that_changes_while_it_is_read_is_noticed() {
    let folder = scratch("changed");
    let text = events(60_000);
    let changes: &[Change] = &[
        ("cut", |path| std::fs::File::options().write(true).open(path).unwrap().set_len(100_000).unwrap()),
        ("longer", |path| std::fs::File::options().append(true).open(path).unwrap().write_all(b" ").unwrap()),
        ("replaced", |path| {
            let new = path.with_extension("new");
            std::fs::copy(path, &new).unwrap();
            std::fs::rename(new, path).unwrap();
        }),
        ("deleted", |path| std::fs::remove_file(path).unwrap()),
        #[cfg(unix)]
        ("rewritten, with its time put back", super::support::rewrite),
    ];
    for (name, bytes) in [("t.json", text.clone().into_bytes()), ("t.json.gz", gzip(text.as_bytes()))] {
        for &(what, change) in changes {
            let path = folder.join(name);
            let attempt = || {
                std::fs::write(&path, &bytes).unwrap();
                // The clock of a file system ticks every few milliseconds.
                std::thread::sleep(Duration::from_millis(20));
                read_changed(&path, change)
            };
            let Some(read) = std::iter::repeat_with(attempt).take(20).flatten().next() else {
                panic!("{name} {what}: it was always read before it changed")
            };
            let said = match read {
                Ok(traces) => traces[0].import.problems.iter().map(|problem| problem.reason.clone()).collect(),
                Err(error) => error.to_string(),
            };
            assert!(said.contains("changed or replaced while it was read"), "{name} {what}: {said}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
