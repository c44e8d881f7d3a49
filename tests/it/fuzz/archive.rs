//! Compressed files, text in UTF-16, and archives of several files.

use std::io::Write as _;

use super::super::mutate::mutate;
use super::super::support::{Dice, project};
use super::chrome::CHROME;
use super::{Target, run};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn zip(files: &[(&str, &[u8])], dice: &mut Dice) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let method = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][dice.below(2)];
        zip.start_file(*name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, content) in files {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = if *name == "pax" { b'x' } else { b'0' };
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        tar.extend_from_slice(&block);
        tar.extend_from_slice(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

/// The input and whole files around it in an archive, compressed or not, and sometimes damaged as a whole.
fn archive(bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let good = br#"[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}]"#;
    let log = b"{\"gpu_id\":0,\"power_w\":70.5,\"timestamp\":1700000000.5}\n";
    let names = ["b.json", "rank1.json.gz", "x/y.pickle", "t.sqlite", "README.txt", "..", "\u{202e}\n"];
    let name = names[dice.below(names.len())];
    let files = [
        ("pax", &b"24 path=r/rank0.json.gz\n"[..]),
        ("a.json", &good[..]),
        (name, &bytes[..]),
        ("c/d.json", good),
        ("e.jsonl", log),
    ];
    let whole = match dice.below(8) {
        0 => bytes,
        1 => {
            let text = String::from_utf8_lossy(&bytes);
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
        }
        2 | 3 => zip(&files[1..], dice),
        4 => tar(&[files[0], ("in.tar", &tar(&files))]),
        _ => tar(&files),
    };
    let mut packed = match dice.below(6) {
        0 => gzip(&whole),
        1 => zstd::encode_all(&whole[..], 1).unwrap(),
        2 => gzip(&gzip(&whole)),
        _ => whole,
    };
    if dice.below(2) == 0 {
        mutate(&mut packed, &[b"ustar", b"\0\0\0", b"\x1f\x8b\x08", b"PK\x01\x02"], &[good.to_vec()], 512, dice);
    }
    packed
}

#[test]
fn fuzz_archives() {
    let zip = zip(&[("a.json", CHROME.as_bytes()), ("b.json", CHROME.as_bytes())], &mut Dice(1));
    let log = std::fs::read(project().join("sample_traces/gpu_metrics.jsonl")).unwrap();
    let pickle = b"\x80\x02}q\x00X\x08\x00\x00\x00segments](}(X\x07\x00\x00\x00addressK\x01X\x0a\x00\x00\x00total_sizeM\x00\x04ues.";
    run(&Target {
        name: "archive",
        file: "t.tar",
        seeds: vec![
            CHROME.into(),
            gzip(CHROME.as_bytes()),
            zstd::encode_all(CHROME.as_bytes(), 1).unwrap(),
            zip,
            gzip(&log[..4096]),
            pickle.to_vec(),
        ],
        words: &[b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"ustar"],
        page: 512,
        n: 250,
        memory: 4000,
        pack: archive,
    });
}
