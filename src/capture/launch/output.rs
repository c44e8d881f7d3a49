//! Output of a program, bounded: the latest whole lines.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Result};

/// Bytes of text that are kept; older lines are dropped.
const MAX_BYTES: usize = 8 << 20;
const MAX_LINES: usize = 100_000;
/// A longer line is broken.
const MAX_LINE: usize = 16 << 10;

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
        let text = readable(&open.bytes);
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

    /// Lines that were kept of a program that has ended, of its two streams together. `n_dropped`: those before them.
    ///
    /// Errors: they cannot be read.
    pub fn read(mut from: impl Read, n_dropped: u64) -> Result<Self> {
        let mut output = Self { n_lines: n_dropped, n_dropped, ..Self::default() };
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => output.push(Stream::Out, &buffer[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        output.finish();
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
