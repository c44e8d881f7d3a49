//! Output of a program, bounded: the latest whole lines.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, Read as _, Result};
use std::ops::RangeInclusive;

/// Bytes of text that are kept; older lines are dropped.
const MAX_BYTES: usize = 8 << 20;
const MAX_LINES: usize = 100_000;
/// A longer line is broken.
const MAX_LINE: usize = 16 << 10;
/// The same of kept lines with their ends: each byte that is not Unicode has become three.
const MAX_KEPT_LINE: u64 = 3 * MAX_LINE as u64 + 1;

/// One of the two streams of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// A line without its end, control sequences removed, and bytes that are not Unicode replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    pub stream: Stream,
    pub text: String,
}

/// The latest output, and counts of all of it.
#[derive(Clone, Debug, Default)]
pub struct Output {
    lines: VecDeque<OutputLine>,
    /// Bytes of `lines`.
    kept: usize,
    /// The unfinished line of each stream.
    open: [Open; 2],
    /// Bytes that the program wrote.
    pub bytes: u64,
    /// Lines that ended, and those of them that are not kept any more.
    pub n_lines: u64,
    pub n_dropped: u64,
}

#[derive(Clone, Debug, Default)]
struct Open {
    bytes: Vec<u8>,
    /// A carriage return came last: the next text overwrites the line.
    returned: bool,
}

impl Output {
    /// Takes over what was read from a stream.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for &byte in bytes {
            let open = &mut self.open[stream as usize];
            match byte {
                b'\n' => self.end_line(stream),
                b'\r' => open.returned = true,
                _ => {
                    if std::mem::take(&mut open.returned) {
                        open.bytes.clear();
                    }
                    open.bytes.push(byte);
                    if open.bytes.len() >= MAX_LINE {
                        self.end_line(stream);
                    }
                }
            }
        }
    }

    /// Ends the lines that are unfinished: the program has ended.
    pub fn finish(&mut self) {
        for stream in [Stream::Out, Stream::Err] {
            if !self.open[stream as usize].bytes.is_empty() {
                self.end_line(stream);
            }
        }
    }

    fn end_line(&mut self, stream: Stream) {
        let open = std::mem::take(&mut self.open[stream as usize]);
        self.add(stream, readable(&open.bytes));
    }

    fn add(&mut self, stream: Stream, text: String) {
        self.n_lines += 1;
        self.kept += text.len();
        self.lines.push_back(OutputLine { stream, text });
        while (self.kept > MAX_BYTES || self.lines.len() > MAX_LINES)
            && let Some(dropped) = self.lines.pop_front()
        {
            self.kept -= dropped.text.len();
            self.n_dropped += 1;
        }
    }

    /// The kept lines as a text for any program.
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect()
    }

    /// Which lines of [`Self::text`] are of stderr, counted from 1: `3` or `5-9`, a line each.
    pub fn lines_of_stderr(&self) -> String {
        let mut text = String::new();
        let mut first = None;
        for (number, stream) in (1..).zip(self.lines.iter().map(|line| Some(line.stream)).chain([None])) {
            let is_of_it = stream == Some(Stream::Err);
            match first {
                None if is_of_it => first = Some(number),
                Some(start) if !is_of_it => {
                    _ = match number - 1 {
                        last if last == start => writeln!(text, "{start}"),
                        last => writeln!(text, "{start}-{last}"),
                    };
                    first = None;
                }
                _ => {}
            }
        }
        text
    }

    /// The lines that were kept of a program that has ended.
    ///
    /// * `of_stderr`: what [`Self::lines_of_stderr`] said of them; nothing where that was not kept.
    /// * `n_dropped`: the lines before them.
    ///
    /// Errors: they cannot be read.
    pub fn read(mut from: impl BufRead, of_stderr: &str, n_dropped: u64) -> Result<Self> {
        let mut output = Self { n_lines: n_dropped, n_dropped, ..Self::default() };
        let mut of_stderr = of_stderr.lines().filter_map(lines).peekable();
        let mut line = Vec::new();
        let mut number = 0;
        while from.by_ref().take(MAX_KEPT_LINE).read_until(b'\n', &mut line)? > 0 {
            number += 1;
            while of_stderr.next_if(|lines| *lines.end() < number).is_some() {}
            let is_of_it = of_stderr.peek().is_some_and(|lines| lines.contains(&number));
            output.bytes += line.len() as u64;
            output.add(if is_of_it { Stream::Err } else { Stream::Out }, readable(&line));
            line.clear();
        }
        Ok(output)
    }

    /// The kept lines, the oldest first.
    pub fn lines(&self) -> &VecDeque<OutputLine> {
        &self.lines
    }

    /// The lines that are not finished yet, such as a progress bar.
    pub fn unfinished(&self) -> impl Iterator<Item = OutputLine> {
        let of = |stream| OutputLine { stream, text: readable(&self.open[stream as usize].bytes) };
        [Stream::Out, Stream::Err].map(of).into_iter().filter(|line| !line.text.is_empty())
    }

    /// The last lines that say something, `n` at most.
    pub fn tail(&self, n: usize) -> Vec<&str> {
        let said = self.lines.iter().rev().map(|line| line.text.as_str()).filter(|text| !text.trim().is_empty());
        let mut last: Vec<&str> = said.take(n).collect();
        last.reverse();
        last
    }
}

/// Numbers of lines as [`Output::lines_of_stderr`] writes them.
fn lines(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Text without escape sequences of a terminal and other control characters; tabs stay.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                // Parameters, up to the letter that ends the sequence.
                Some('[') => _ = chars.find(|c| ('@'..='~').contains(c)),
                // A title or link, up to its terminator.
                Some(']') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\t' => shown.push(c),
            c if c.is_control() => {}
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(output: &Output) -> Vec<&str> {
        output.lines().iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let mut output = Output::default();
        for byte in b"one\ntw\xff\n\x1b[31mred\x1b[0m\r\n" {
            output.push(Stream::Out, &[*byte]);
        }
        output.push(Stream::Err, b"10 %\r20 %");
        assert_eq!(texts(&output), ["one", "tw\u{fffd}", "red"]);
        assert_eq!(output.unfinished().map(|line| line.text).collect::<Vec<_>>(), ["20 %"]);
        output.push(Stream::Err, b"\r100 %\n");
        assert_eq!(output.lines().back().unwrap(), &OutputLine { stream: Stream::Err, text: "100 %".to_owned() });
        output.push(Stream::Out, b"last");
        output.finish();
        assert_eq!((output.tail(2), output.n_lines), (vec!["100 %", "last"], 5));
    }

    #[test]
    fn what_is_kept_is_read_as_it_was_written() {
        let mut output = Output::default();
        for (stream, text) in [
            (Stream::Out, "1\n"),
            (Stream::Err, "2\n"),
            (Stream::Out, "3\n\n"),
            (Stream::Err, "5\n6\n7\n"),
            (Stream::Out, "8\n"),
            (Stream::Err, "Traceback"),
        ] {
            output.push(stream, text.as_bytes());
        }
        output.push(Stream::Out, &vec![b'\xff'; MAX_LINE + 3]);
        output.finish();
        let (text, of_stderr) = (output.text(), output.lines_of_stderr());
        assert_eq!(of_stderr, "2\n5-7\n11\n");
        assert!(text.starts_with("1\n2\n3\n\n5\n"));
        let read = Output::read(text.as_bytes(), &of_stderr, 7).unwrap();
        assert_eq!(read.lines(), output.lines());
        assert_eq!((read.n_lines, read.n_dropped), (18, 7));
        // A run of an earlier version, and what someone else wrote.
        for other in ["", "x\n-\n9-2\n18446744073709551615\n"] {
            let read = Output::read(text.as_bytes(), other, 0).unwrap();
            assert!(read.lines().iter().all(|line| line.stream == Stream::Out));
        }
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let mut output = Output::default();
        for _ in 0..300_000 {
            output.push(Stream::Out, b"0123456789\n");
        }
        assert_eq!((output.lines().len(), output.n_lines, output.n_dropped), (MAX_LINES, 300_000, 200_000));
        assert_eq!(output.bytes, 3_300_000);
        output.push(Stream::Out, &vec![b'x'; MAX_BYTES + MAX_LINE]);
        assert!(output.lines().iter().map(|line| line.text.len()).sum::<usize>() <= MAX_BYTES);
        assert!(output.lines().iter().all(|line| line.text.len() <= MAX_LINE));
    }
}
