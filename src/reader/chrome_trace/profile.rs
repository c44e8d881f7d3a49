//! Samples of Chrome's sampling profiler: the top-level keys `samples` and `stackFrames`.

use hashbrown::HashMap;

use super::bytes::Portable;
use super::interner::Interner;
use super::scalar::{Time, time_of};
use super::scan::{Fail, PADDING, Scanner};
use super::tally::{Reason, Tally};
use super::text::unescaped;

/// Limit of all distinct texts (names, ids), in bytes.
const MAX_TEXTS: usize = 1 << 30;

/// Most frames shown of a stack; real ones have a few hundred.
pub const MAX_DEPTH: u32 = 2048;

/// Most bytes of names shown of one stack.
const MAX_SHOWN: usize = 1 << 20;

/// Id of a missing text: the first text is the empty one.
pub const NONE: u32 = 0;

/// One sample of a thread. Texts are ids in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub ts: i64,
    /// Process and thread id separated by a byte 0x1f; the thread id alone if the process is missing.
    pub thread: u32,
    /// The thread's name, if recorded.
    pub comm: u32,
    /// The sampled event, such as `cycles`.
    pub name: u32,
    /// Id of the innermost frame.
    pub frame: u32,
    /// Byte offset in the file.
    pub source: u64,
}

/// A function on a stack. Texts are ids in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub name: u32,
    /// Id of the caller's frame.
    pub parent: u32,
    pub source: u64,
}

/// The samples and frames of a profile.
#[derive(Debug, Default)]
pub struct Profile {
    /// Contents of JSON strings, and numbers as written.
    texts: Interner,
    n_text_bytes: usize,
    /// By the text of their ids.
    pub frames: HashMap<u32, Frame>,
    pub samples: Vec<Sample>,
    /// Samples read, including those that cannot be shown.
    pub n_read: u64,
    pub tally: Tally,
}

impl Profile {
    /// Reads the sample at `at` and returns where it ends.
    ///
    /// * `text`: followed by [`PADDING`] zero bytes; `offset`: where it lies in the file.
    ///
    /// Errors: not strict JSON, or more text is needed.
    pub fn read_sample(&mut self, text: &[u8], at: usize, offset: u64) -> Result<usize, Fail> {
        let source = offset + at as u64;
        if text.get(at) != Some(&b'{') {
            let end = skip(text, at)?;
            self.damage(source);
            return Ok(end);
        }
        let [mut ts, mut pid, mut tid, mut comm, mut name, mut frame] = [&b""[..]; 6];
        let end = members(text, at, |key, value| match key {
            b"ts" => ts = value,
            b"pid" => pid = value,
            b"tid" => tid = value,
            b"comm" => comm = value,
            b"name" => name = value,
            b"sf" => frame = value,
            _ => {}
        })?;
        self.n_read += 1;
        let time = if ts.is_empty() { Time::Absent } else { time_of(ts) };
        let Time::Ns(ts) = time else {
            let reason = if time == Time::Absent { Reason::NoTime } else { Reason::BadTime };
            self.tally.count(reason, source);
            return Ok(end);
        };
        let thread = if pid.is_empty() { tid.to_vec() } else { [pid, b"\x1f", tid].concat() };
        match [&thread, comm, name, frame].map(|text| self.intern(text)) {
            [Some(thread), Some(comm), Some(name), Some(frame)] => {
                self.samples.push(Sample { ts, thread, comm, name, frame, source });
            }
            _ => self.tally.count(Reason::TooManyTexts, source),
        }
        Ok(end)
    }

    /// Reads the frame at `at`, an id and an object, and returns where it ends. See
    /// [`Self::read_sample`].
    pub fn read_frame(&mut self, text: &[u8], at: usize, offset: u64) -> Result<usize, Fail> {
        let source = offset + at as u64;
        let mut scanner = Scanner::<Portable>::new(text, at);
        let id = scanner.string()?;
        scanner.skip_space();
        scanner.expect(b':')?;
        scanner.skip_space();
        if text.get(scanner.at) != Some(&b'{') {
            let end = skip(text, scanner.at)?;
            self.tally.count(Reason::DamagedFrame, source);
            return Ok(end);
        }
        let [mut name, mut parent] = [&b""[..]; 2];
        let end = members(text, scanner.at, |key, value| match key {
            b"name" => name = value,
            b"parent" => parent = value,
            _ => {}
        })?;
        match [id, name, parent].map(|text| self.intern(text)) {
            [Some(id), Some(name), Some(parent)] => {
                if self.frames.insert(id, Frame { name, parent, source }).is_some() {
                    self.tally.count(Reason::DuplicateFrame, source);
                }
            }
            _ => self.tally.count(Reason::DamagedFrame, source),
        }
        Ok(end)
    }

    /// Counts an unreadable sample.
    pub fn damage(&mut self, source: u64) {
        self.n_read += 1;
        self.tally.count(Reason::DamagedSample, source);
    }

    /// The id of a text, unless there are too many.
    pub fn intern(&mut self, text: &[u8]) -> Option<u32> {
        if self.texts.is_empty() {
            self.texts.intern(b"");
        }
        if self.n_text_bytes + text.len() > MAX_TEXTS {
            return None;
        }
        let (id, is_new) = self.texts.intern(text);
        self.n_text_bytes += if is_new { text.len() } else { 0 };
        Some(id)
    }

    /// The text of an id, as written.
    pub fn text(&self, id: u32) -> &[u8] {
        self.texts.get(id)
    }

    /// The frames from `id` outwards, at most [`MAX_DEPTH`] of them with 1 MiB of names together.
    pub fn frames_from(&self, id: &[u8]) -> impl Iterator<Item = Frame> {
        let mut at = self.texts.find(id);
        let frames = std::iter::from_fn(move || {
            let frame = *self.frames.get(&at?)?;
            at = (frame.parent != NONE).then_some(frame.parent);
            Some(frame)
        });
        // A name may be long and on the stack many times.
        let mut n_bytes = 0;
        frames.take(MAX_DEPTH as usize).take_while(move |frame| {
            n_bytes += self.text(frame.name).len();
            n_bytes <= MAX_SHOWN
        })
    }
}

/// Iterates over the object at `at`, passing each key with its value: the contents of a string, other values
/// as written, an empty text for null. Returns the end of the object.
fn members<'a>(text: &'a [u8], at: usize, mut take: impl FnMut(&[u8], &'a [u8])) -> Result<usize, Fail> {
    let mut scanner = Scanner::<Portable>::new(text, at);
    scanner.expect(b'{')?;
    scanner.skip_space();
    if text.get(scanner.at) == Some(&b'}') {
        return Ok(scanner.at + 1);
    }
    loop {
        let key = scanner.string()?;
        scanner.skip_space();
        scanner.expect(b':')?;
        scanner.skip_space();
        let start = scanner.at;
        scanner.skip_value()?;
        let value = text.get(start..scanner.at).unwrap_or_default();
        let inside = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        take(&unescaped(key), inside.unwrap_or(if value == b"null" { b"" } else { value }));
        if !scanner.goes_on()? {
            return if scanner.at > text.len() - PADDING { Err(Fail::Short) } else { Ok(scanner.at) };
        }
    }
}

fn skip(text: &[u8], at: usize) -> Result<usize, Fail> {
    let mut scanner = Scanner::<Portable>::new(text, at);
    scanner.skip_value()?;
    // A number that reaches the end of the text may go on.
    if scanner.at >= text.len() - PADDING { Err(Fail::Short) } else { Ok(scanner.at) }
}
