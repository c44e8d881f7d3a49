//! Logs of metrics over time, each column a counter: JSON lines as `lacuna monitor` and monitors in guides write them,
//! and the CSV of `nvidia-smi --query-gpu=… --format=csv -l 1`.

mod columns;
mod csv;
mod lines;
#[cfg(test)]
mod tests;
mod time;

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value};

use self::columns::Columns;
use self::time::Zone;
use super::format::{Contents, FileFormat, Head};
use super::source::Source;
use super::{Options, ReadError};
use crate::job::Progress;
use crate::model::{Format, Severity, Trace, TraceBuilder};

/// The longest line; a reading of a GPU has about one kilobyte.
const MAX_LINE: u64 = 1 << 20;
/// Why a reading is not shown that does not say when it was taken.
const UNTIMED: &str = "Reading without a time: not shown";
/// Lines between two looks whether the user canceled.
const LINES_AT_ONCE: u64 = 256;

pub const JSON_LINES: FileFormat = FileFormat {
    name: "logs of GPU metrics in JSON lines",
    extensions: &["jsonl", "ndjson"],
    // The first line may be damaged, or lack its start in a log that is kept short. Objects that follow each other
    // without a comma are in no other JSON.
    sniff: |head| {
        first_line(head).is_some_and(is_reading)
            || lines(head).skip(1).take(2).filter(|line| is_reading(line)).count() == 2
    },
    contents: Contents::Trace(Format::GpuMetrics, |source, options, progress| {
        read(source, options, progress, "JSON lines", &mut lines::Objects)
    }),
};

pub const NVIDIA_SMI: FileFormat = FileFormat {
    name: "CSV of nvidia-smi",
    extensions: &["csv"],
    // What a script wrote may stand above it.
    sniff: |head| first_line(head).is_some_and(csv::is_header) || lines(head).any(csv::is_header),
    contents: Contents::Trace(Format::GpuMetrics, |source, options, progress| {
        read(source, options, progress, "nvidia-smi", &mut csv::Table::of(source, options)?)
    }),
};

/// Rows of nvidia-smi that do not say what their columns are.
pub const NO_HEADER: FileFormat = FileFormat {
    name: "rows of nvidia-smi without a header",
    extensions: &[],
    sniff: |head| first_line(head).is_some_and(csv::is_row),
    contents: Contents::Refused(
        "These are rows of nvidia-smi without their header, so what each column holds is unknown: record with \
         `nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv -l 1`, without noheader, or \
         put the names of the queried columns before the first row",
    ),
};

/// What nvidia-smi prints of one moment, or in columns for people.
pub const FOR_PEOPLE: FileFormat = FileFormat {
    name: "other output of nvidia-smi",
    extensions: &[],
    sniff: |head| {
        let starts = |line: &str| {
            ["| NVIDIA-SMI", "NVIDIA-SMI has", "# gpu ", "#gpu", "<nvidia_smi_log>"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        lines(head).take(6).any(starts)
    },
    contents: Contents::Refused(
        "This is output of nvidia-smi, but no log of readings: record one with `lacuna monitor --out \
         gpu_metrics.jsonl`, or with `nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv \
         -l 1`",
    ),
};

/// The first line, if all of it is there.
fn first_line<'a>(head: &Head<'a>) -> Option<&'a str> {
    let end = memchr::memchr(b'\n', head.text);
    let line = match end {
        Some(end) => &head.text[..end],
        None if head.bytes.len() < super::format::HEAD => head.text,
        None => return None,
    };
    std::str::from_utf8(line).ok()
}

/// The lines that are there from end to end.
fn lines<'a>(head: &Head<'a>) -> impl Iterator<Item = &'a str> {
    let end = memchr::memrchr(b'\n', head.text).unwrap_or(0);
    head.text[..end].split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

/// Whether a line is one reading: an object with a time and a number beside it, and not an event of a Chrome trace.
fn is_reading(line: &str) -> bool {
    // Parsing is for what may be one; other formats have long first lines as well.
    if !line.trim_start().starts_with('{') || !lines::TIMES.iter().any(|key| line.contains(key)) {
        return false;
    }
    let Ok(object) = serde_json::from_str::<Map<String, Value>>(line) else { return false };
    let is_number = |(key, value): (&String, &Value)| value.is_number() && !lines::TIMES.contains(&key.as_str());
    let has_time = lines::TIMES.iter().any(|&key| object.get(key).is_some_and(|of| of.is_number() || of.is_string()));
    has_time && object.iter().any(is_number) && !object.contains_key("ph") && !object.contains_key("traceEvents")
}

/// The end of a plain file, to know its last line; `None` of one that is packed.
fn tail(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(4096))).ok()?;
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Values,
    /// It names the columns.
    Header,
    NotAReading,
    NoTime,
}

/// What knows the lines of a log.
trait Lines {
    /// Takes over one line.
    fn take(&mut self, line: &str, columns: &mut Columns, zone: &Zone) -> Taken;

    /// Takes over what waited for more lines.
    fn end(&mut self, _columns: &mut Columns) {}
}

/// Reads a log line by line.
///
/// Errors: no line could be read, canceled, or the file cannot be read.
fn read(
    source: &Source,
    options: Options,
    progress: &Progress,
    producer: &str,
    lines: &mut impl Lines,
) -> Result<Trace, ReadError> {
    let text = source.open(options)?;
    let zone = Zone::of_file(&source.path);
    let mut reader = BufReader::new(text.reader);
    let (mut columns, mut line) = (Columns::default(), Vec::new());
    let mut has_readings = false;
    let mut offset = 0;
    let mut builder = TraceBuilder::default();
    for n in 0_u64.. {
        if n.is_multiple_of(LINES_AT_ONCE) {
            progress.set_done(text.file_bytes.load(Ordering::Relaxed));
            if progress.is_cancelled() {
                return Err(ReadError::Cancelled);
            }
        }
        line.clear();
        let length = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
        if length == 0 {
            break;
        }
        let is_long = length == MAX_LINE && !line.ends_with(b"\n");
        let rest = if is_long { reader.skip_until(b'\n')? as u64 } else { 0 };
        let content = line.trim_ascii();
        let reason = match std::str::from_utf8(content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content)) {
            _ if is_long => Some("Line of more than 1 MiB, which no reading has: not shown"),
            Ok("") => None,
            Ok(content) => match lines.take(content, &mut columns, &zone) {
                Taken::Values | Taken::Header => None,
                Taken::NotAReading => Some("Line that is not a reading: not shown"),
                Taken::NoTime => Some(UNTIMED),
            },
            Err(_) => Some("Line that is not text: not shown"),
        };
        has_readings |= reason == Some(UNTIMED);
        if let Some(reason) = reason {
            builder.import.read += 1;
            builder.import.reject(Severity::Warn, reason, 1, Some(offset));
        }
        offset += length + rest;
    }
    lines.end(&mut columns);
    text.notes.report(&mut builder.import);
    super::note_source(&mut builder.info, source, offset);
    producer.clone_into(&mut builder.info.producer);
    if columns.is_empty() {
        let why = match has_readings {
            true => {
                "A log of GPU metrics without a reading that has a time, such as 2026/11/22 17:30:55.123: add \
                 timestamp to --query-gpu, or write the logs with `lacuna monitor --out`"
            }
            false => "A log of GPU metrics without a reading: it was ended before the first one, or the GPUs gave none",
        };
        return Err(ReadError::NotATrace(why.to_owned()));
    }
    if let Some(note) = zone.note() {
        builder.import.note(Severity::Note, &note, 1, None);
    }
    columns.add_to(&mut builder);
    let mut trace = builder.finish();
    trace.info.utc_offset_ns = Some(0);
    trace.import.sort();
    Ok(trace)
}
