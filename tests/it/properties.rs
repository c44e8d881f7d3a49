//! Property tests of the readers on repeatable damages of real and generated traces.

use std::path::{Path, PathBuf};

use lacuna::model::Trace;
use serde_json::Value;

use super::support::{Dice, Failure, Plain, name, read, real, scratch, slices, unbalanced};

/// How many times the usual number of damages to try: `LACUNA_EFFORT=20` for a long search.
fn effort() -> usize {
    std::env::var("LACUNA_EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A trace of one step, in both forms.
fn generated(is_array: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let shape = lacuna::sample::kineto::Shape { steps: 1, seed: 11, is_array };
    lacuna::sample::kineto::write(shape, &mut bytes).unwrap();
    bytes
}

/// The text of a file, unpacked if it is compressed.
fn text(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if !bytes.starts_with(b"\x1f\x8b") {
        return bytes;
    }
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes.as_slice()), &mut text).unwrap();
    text
}

/// Texts to damage: real ones of complete events only, small enough to read hundreds of times.
fn texts() -> Vec<(String, Vec<u8>)> {
    let mut found = vec![("object".to_owned(), generated(false)), ("array".to_owned(), generated(true))];
    for path in real("A_kineto").iter().filter(|path| !name(path).contains(".tar")) {
        let text = text(path);
        if text.len() < 700_000 {
            found.push((name(path), text));
        }
    }
    found
}

/// Reads a text through a file.
fn read_text(folder: &Path, text: &[u8]) -> Result<Trace, Failure> {
    let path = folder.join("t.json");
    std::fs::write(&path, text).unwrap();
    read(&path).map(|mut traces| traces.remove(0))
}

/// Whole nanoseconds of decimal microseconds, cut after the third digit.
fn ns(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let rest: String = rest.chars().chain("000".chars()).take(3).collect();
    whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(rest.parse().ok()?)
}

/// The same text with every number in quotes, so that its digits survive `serde_json`.
fn quote_numbers(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len() * 5 / 4);
    let (mut is_string, mut is_escaped, mut is_number) = (false, false, false);
    for &byte in text {
        let is_digit = !is_string && (byte == b'-' || byte.is_ascii_digit() || is_number && b".eE+".contains(&byte));
        if is_digit != is_number {
            quoted.push(b'"');
            is_number = is_digit;
        }
        if byte == b'"' && !is_escaped {
            is_string = !is_string;
        }
        is_escaped = is_string && byte == b'\\' && !is_escaped;
        quoted.push(byte);
    }
    quoted
}

/// The complete slices of a valid text, read slowly, sorted. `None` if it is not plain JSON.
fn slow(text: &[u8]) -> Option<Vec<Plain>> {
    let document: Value = serde_json::from_slice(&quote_numbers(text)).ok()?;
    let events = document.as_array().or_else(|| document["traceEvents"].as_array())?;
    let slice = |event: &Value| {
        let dur = ns(&event["dur"]).filter(|&dur| dur >= 0)?;
        Some((ns(&event["ts"])?, dur, event["name"].as_str()?.to_owned()))
    };
    let mut found: Vec<_> = events.iter().filter(|event| event["ph"] == "X").filter_map(slice).collect();
    found.sort();
    Some(found)
}

fn plain(trace: &Trace) -> Vec<Plain> {
    let mut found: Vec<_> = slices(trace).into_iter().map(|(_, slice)| slice).collect();
    found.sort();
    found
}

#[test]
fn reading_equals_a_slow_reading() {
    let folder = scratch("slow");
    let mut texts = texts();
    let mut n_compared = 0;
    let large: Vec<PathBuf> =
        real("A_kineto").into_iter().filter(|path| name(path).contains("ns_resolution")).collect();
    texts.extend(large.iter().map(|path| (name(path), text(path))));
    for (name, text) in texts {
        let Some(expected) = slow(&text) else { continue };
        let found = plain(&read_text(&folder, &text).unwrap());
        assert_eq!(found.len(), expected.len(), "{name}");
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(first, None, "{name}: {:?}", first.map(|i| (&found[i], &expected[i])));
        n_compared += 1;
    }
    assert!(n_compared >= 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_prefix_of_a_cut_file_is_the_prefix_of_the_whole() {
    let folder = scratch("cut");
    let mut dice = Dice(1);
    for (name, text) in texts() {
        let whole = slices(&read_text(&folder, &text).unwrap());
        for _ in 0..25 * effort() {
            let at = dice.below(text.len());
            let cut = match read_text(&folder, &text[..at]) {
                Ok(trace) => trace,
                // Cut before the first event, a file may no longer look like a trace.
                Err(Failure::Refused(_)) if whole.first().is_none_or(|(source, _)| at as u64 <= source + 400) => {
                    continue;
                }
                Err(failure) => panic!("{name} cut at {at}: {failure:?}"),
            };
            assert_eq!(unbalanced(&cut.import), None, "{name} cut at {at}");
            let cut = slices(&cut);
            let n_before = whole.iter().filter(|(source, _)| *source < at as u64).count();
            // The event that was cut through may be lost, or be complete but for its arguments.
            assert!(cut.len() + 1 >= n_before, "{name} cut at {at}: {} of {n_before} slices", cut.len());
            assert!(cut.len() <= n_before, "{name} cut at {at}: {} of {n_before} slices", cut.len());
            let n_same = cut.len().min(n_before.saturating_sub(1));
            assert!(cut[..n_same] == whole[..n_same], "{name} cut at {at}: slices differ");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn one_damaged_byte_costs_at_most_two_events() {
    let folder = scratch("damage");
    let mut dice = Dice(2);
    for (name, text) in texts() {
        let whole = read_text(&folder, &text).unwrap();
        // Without its first brace or the key above the events, a text is not a trace by any measure.
        let first = text.iter().position(|byte| !byte.is_ascii_whitespace());
        let key = text.windows(13).position(|window| window == b"\"traceEvents\"").unwrap_or(text.len());
        for _ in 0..60 * effort() {
            let (at, byte) = (dice.below(text.len()), dice.below(256) as u8);
            if (key..key + 16).contains(&at) || first == Some(at) {
                continue;
            }
            let mut damaged = text.clone();
            damaged[at] = byte;
            let case = format!("{name} byte {at} {:?} -> {:?}", char::from(text[at]), char::from(byte));
            let trace = match read_text(&folder, &damaged) {
                Ok(trace) => trace,
                Err(failure) => panic!("{case}: {failure:?}"),
            };
            assert_eq!(unbalanced(&trace.import), None, "{case}");
            let (was, is) = (whole.slices.ts.len(), trace.slices.ts.len());
            assert!(is + 2 >= was, "{case}: {is} of {was} slices");
            let (was, is) = (whole.import.read - whole.import.rejected, trace.import.read - trace.import.rejected);
            assert!(is + 2 >= was, "{case}: {is} of {was} events");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn random_damage_causes_no_panic() {
    let folder = scratch("havoc");
    let mut dice = Dice(3);
    for (name, text) in texts() {
        for round in 0..15 * effort() {
            let mut damaged = text.clone();
            for _ in 0..1 << dice.below(12) {
                let at = dice.below(damaged.len());
                damaged[at] = b"\"\\{}[],:0x\0\n\xff\x80e-"[dice.below(16)];
            }
            let (from, to) = (dice.below(damaged.len()), dice.below(damaged.len()));
            damaged.drain(from.min(to)..from.max(to).min(from.min(to) + 5000));
            match read_text(&folder, &damaged) {
                Ok(trace) => assert_eq!(unbalanced(&trace.import), None, "{name} round {round}"),
                Err(Failure::Refused(_)) => {}
                Err(failure) => panic!("{name} round {round}: {failure:?}"),
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The worst single bytes: those that end a list or a text where it should go on.
#[test]
fn a_stray_mark_between_events_costs_at_most_two() {
    let folder = scratch("stray");
    let mut wrong = Vec::new();
    for (form, text) in [("object", generated(false)), ("array", generated(true))] {
        let whole = read_text(&folder, &text).unwrap().slices.ts.len();
        let gap = text.windows(5).enumerate().filter(|(_, window)| *window == b"},\n  ").map(|(at, _)| at + 2).nth(600);
        let gap = gap.unwrap();
        for mark in b"[]{},:\"\\0" {
            let mut damaged = text.clone();
            damaged[gap] = *mark;
            let trace = read_text(&folder, &damaged).unwrap();
            assert_eq!(unbalanced(&trace.import), None, "{form} {:?}", char::from(*mark));
            let kept = trace.slices.ts.len();
            if kept + 2 < whole {
                wrong.push(format!(
                    "{form} {:?}: {kept} of {whole} slices: {:?}",
                    char::from(*mark),
                    trace.import.problems
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Every byte before the events, replaced by each of the bytes that do most harm.
#[test]
fn damage_to_the_header_costs_no_event() {
    let folder = scratch("header");
    let text = generated(false);
    let end = text.windows(13).position(|window| window == b"\"traceEvents\"").unwrap();
    let event = |ts: u32| format!(r#"{{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": {ts}, "dur": 1}}"#);
    let events = format!("\"traceEvents\": [{}, {}, {}]}}\n", event(1), event(3), event(5));
    // As in traces of 2024: an object right before the list, which swallows it when left open.
    let header = [&text[..end], b"\"extra\": {\"rank\": 0},\n  "].concat();
    let end = header.len();
    let small = [header, events.into_bytes()].concat();
    let mut wrong = Vec::new();
    for at in 1..end {
        for byte in [b'"', b'}', b']', b'{', b'\\', 0xbb] {
            let mut damaged = small.clone();
            damaged[at] = byte;
            let kept = read_text(&folder, &damaged).map(|trace| trace.slices.ts.len());
            if !matches!(kept, Ok(3)) {
                let around = String::from_utf8_lossy(&small[at.saturating_sub(20)..=at]).into_owned();
                wrong.push(format!("{:?} for the last byte of {around:?}: {kept:?}", char::from(byte)));
            }
        }
    }
    let first = wrong.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {}, the first:\n{first}", wrong.len(), 6 * (end - 1));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn damage_to_a_compressed_file_is_survived() {
    let folder = scratch("packed");
    let mut dice = Dice(4);
    let packed = ["A_kineto", "A_chrome"].iter().flat_map(|group| real(group));
    let mut packed: Vec<PathBuf> = packed
        .filter(|path| [".gz", ".zip"].iter().any(|end| name(path).ends_with(end)))
        .filter(|path| path.metadata().is_ok_and(|data| data.len() < 130_000) || name(path).contains(".tar"))
        .collect();
    packed.push(super::support::project().join("sample_traces/kineto_10_steps.json.gz"));
    for path in packed {
        let bytes = std::fs::read(&path).unwrap();
        for round in 0..8 * effort() {
            let mut damaged = bytes.clone();
            for _ in 0..1 << dice.below(6) {
                let at = dice.below(damaged.len());
                damaged[at] = dice.below(256) as u8;
            }
            if round % 2 == 1 {
                damaged.truncate(dice.below(damaged.len()));
            }
            let target = folder.join(name(&path));
            std::fs::write(&target, &damaged).unwrap();
            match read(&target) {
                Ok(traces) => {
                    let bad = traces.iter().find_map(|trace| unbalanced(&trace.import));
                    assert_eq!(bad, None, "{} round {round}", name(&path));
                }
                Err(Failure::Refused(_)) => {}
                Err(failure) => panic!("{} round {round}: {failure:?}", name(&path)),
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Small pickles to damage: real ones, and a few of each protocol.
fn pickles() -> Vec<(String, Vec<u8>)> {
    let small: &[&[u8]] = &[
        b"(dp0\nS'segments'\np1\n(lp2\n(dp3\nS'address'\nI4096\nsS'total_size'\nI4096\nsS'blocks'\n(lsas.",
        b"\x80\x02}q\x00(X\x0d\x00\x00\x00device_traces](](}(X\x06\x00\x00\x00actionX\x05\x00\x00\x00alloc\
          X\x04\x00\x00\x00addrK\x01X\x04\x00\x00\x00sizeM\x00\x02uee\
          X\x08\x00\x00\x00segments](}(X\x07\x00\x00\x00addressK\x01X\x0a\x00\x00\x00total_sizeM\x00\x04ueu.",
    ];
    let mut found: Vec<_> = small.iter().map(|bytes| ("small".to_owned(), bytes.to_vec())).collect();
    for path in real("C_pickle") {
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() < 120_000 {
            found.push((name(&path), bytes));
        }
    }
    found
}

#[test]
fn damage_to_a_pickle_is_survived() {
    let folder = scratch("pickle");
    let mut dice = Dice(5);
    let pickles = pickles();
    let path = folder.join("t.pickle");
    let (mut n_shown, mut n_refused) = (0, 0);
    for (name, bytes) in &pickles {
        let rounds = if bytes.len() < 1000 { 1500 } else { 60 };
        for round in 0..rounds * effort() {
            let mut damaged = bytes.clone();
            for _ in 0..1 << dice.below(4) {
                let (at, to, len) = (dice.below(damaged.len()), dice.below(damaged.len()), dice.below(40));
                let end = (at + len).min(damaged.len());
                match dice.below(5) {
                    0 => damaged[at] ^= 1 << dice.below(8),
                    1 => damaged[at] = dice.below(256) as u8,
                    2 => drop(damaged.drain(at..end)),
                    3 => {
                        let part = damaged[at..end].to_vec();
                        damaged.splice(to..to, part);
                    }
                    _ => damaged.truncate(at.max(damaged.len() / 2)),
                }
                if damaged.is_empty() {
                    damaged.push(b'.');
                }
            }
            std::fs::write(&path, &damaged).unwrap();
            match read(&path) {
                Ok(traces) => {
                    for trace in &traces {
                        assert_eq!(unbalanced(&trace.import), None, "{name} round {round}");
                        let curves = trace.memories.iter().map(|memory| &memory.curves);
                        let is_sane = |curve: &Vec<u64>| curve.iter().all(|&bytes| bytes < 1 << 63);
                        for curves in curves {
                            assert!(is_sane(&curves.allocated) && is_sane(&curves.active), "{name} round {round}");
                            assert!(is_sane(&curves.reserved), "{name} round {round}");
                        }
                    }
                    n_shown += 1;
                }
                Err(Failure::Refused(_)) => n_refused += 1,
                Err(failure) => panic!("{name} round {round}: {failure:?}"),
            }
        }
    }
    assert!(
        n_shown > 100 && n_refused > 100,
        "{n_shown} shown, {n_refused} refused: the damages are too mild or too wild"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
