//! A buffered window onto the byte stream of a pickle.

use std::io::Read;

use super::Fault;
use crate::job::Progress;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// Longest string.
pub const MAX_TEXT: u64 = 16 << 20;

/// A window onto the stream.
pub struct Input<'a, R> {
    reader: R,
    progress: &'a Progress,
    /// Bytes of the file read so far, for progress.
    done: &'a dyn Fn() -> u64,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Bytes of the stream before the window.
    before: u64,
    is_over: bool,
}

impl<'a, R: Read> Input<'a, R> {
    pub fn new(reader: R, progress: &'a Progress, done: &'a dyn Fn() -> u64) -> Self {
        Self { reader, progress, done, buffer: vec![0; CHUNK], at: 0, end: 0, before: 0, is_over: false }
    }

    /// Bytes of the stream that were used.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// The unused part of the window.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.at += n;
    }

    /// Fills the window to `want` unused bytes, or to the end of the stream.
    ///
    /// Errors: cancelled, or the stream cannot be read.
    #[inline]
    pub fn want(&mut self, want: usize) -> Result<(), Fault> {
        if self.end - self.at >= want || self.is_over { Ok(()) } else { self.fill(want) }
    }

    #[cold]
    fn fill(&mut self, want: usize) -> Result<(), Fault> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.before += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        while self.end < want && !self.is_over {
            if self.progress.is_cancelled() {
                return Err(Fault::Cancelled);
            }
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_over = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Io(error)),
            }
            self.progress.set_done((self.done)());
        }
        Ok(())
    }

    /// Fills the window with a whole string of this length.
    ///
    /// Errors: the stream ends before it does, it is longer than any snapshot has, and those of
    /// [`Input::want`].
    #[inline]
    pub fn want_text(&mut self, len: u64) -> Result<usize, Fault> {
        if len > MAX_TEXT {
            return Err(Fault::LongText);
        }
        self.want(len as usize)?;
        if self.end - self.at < len as usize { Err(Fault::Cut) } else { Ok(len as usize) }
    }

    /// Fills the window with a whole line; returns its length without the line break.
    ///
    /// Errors: as of [`Input::want_text`].
    pub fn want_line(&mut self) -> Result<usize, Fault> {
        let mut want = 256;
        loop {
            self.want(want)?;
            if let Some(len) = memchr::memchr(b'\n', self.bytes()) {
                return Ok(len);
            }
            if self.is_over {
                return Err(Fault::Cut);
            }
            if self.end - self.at > MAX_TEXT as usize {
                return Err(Fault::LongText);
            }
            want = (self.end - self.at) * 2;
        }
    }

    /// Skips bytes that are not kept.
    ///
    /// Errors: as of [`Input::want_text`], but for the length.
    pub fn skip(&mut self, mut len: u64) -> Result<(), Fault> {
        loop {
            let n = len.min((self.end - self.at) as u64);
            self.at += n as usize;
            len -= n;
            if len == 0 {
                return Ok(());
            }
            if self.is_over {
                return Err(Fault::Cut);
            }
            self.want(1)?;
        }
    }

    /// Whether anything but zeros follows; zeros pad pickles in web pages.
    ///
    /// Errors: as of [`Input::want`].
    pub fn has_more(&mut self) -> Result<bool, Fault> {
        loop {
            self.want(1)?;
            if self.bytes().is_empty() {
                return Ok(false);
            }
            if self.bytes().iter().any(|&byte| byte != 0) {
                return Ok(true);
            }
            self.at = self.end;
        }
    }
}
