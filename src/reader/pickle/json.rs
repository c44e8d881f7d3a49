//! Reads JSON into the same values as a pickle.

use std::io::{BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};

use super::{Fault, Fold, Heap, MAX_TEXT, Tag, Value};
use crate::job::Progress;
use crate::reader::tally::NO_OFFSET;

/// Reads the text up to its end or the first damage. The values read so far are on the stack, with the
/// document at the bottom. Returns the number of bytes read and the reason for an early end.
pub fn read<R: Read, F: Fold>(
    reader: R,
    progress: &Progress,
    done: &dyn Fn() -> u64,
    heap: &mut Heap<F>,
) -> (u64, Option<Fault>) {
    heap.offset = NO_OFFSET;
    let mut n_bytes = 0;
    let watched = CountedReader { inner: reader, progress, done, n_bytes: &mut n_bytes };
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(256 << 10, watched));
    let mut fault = None;
    let outcome = json.deserialize_any(Node { heap, fault: &mut fault });
    if let Err(error) = outcome {
        fault.get_or_insert_with(|| match error.classify() {
            _ if progress.is_cancelled() => Fault::Cancelled,
            serde_json::error::Category::Io => Fault::Io(error.into()),
            serde_json::error::Category::Eof => Fault::Cut,
            _ => Fault::Damaged("it is not valid JSON"),
        });
    }
    drop(json);
    (n_bytes, fault)
}

/// Reports how much was read.
struct CountedReader<'a, R> {
    inner: R,
    progress: &'a Progress,
    done: &'a dyn Fn() -> u64,
    n_bytes: &'a mut u64,
}

impl<R: Read> Read for CountedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.progress.is_cancelled() {
            return Ok(0);
        }
        let n = self.inner.read(buffer)?;
        *self.n_bytes += n as u64;
        self.progress.set_done((self.done)());
        Ok(n)
    }
}

/// One value, which goes onto the stack. `serde_json` refuses texts nested more than 128 deep.
struct Node<'a, F> {
    heap: &'a mut Heap<F>,
    fault: &'a mut Option<Fault>,
}

impl<F: Fold> Node<'_, F> {
    /// Keeps the heap's first error.
    fn check<E: serde::de::Error>(fault: &mut Option<Fault>, outcome: Result<(), Fault>) -> Result<(), E> {
        outcome.map_err(|why| {
            *fault = Some(why);
            E::custom("stopped")
        })
    }

    fn push<E: serde::de::Error>(self, value: Value) -> Result<(), E> {
        let outcome = self.heap.push(value);
        Self::check(self.fault, outcome)
    }

    fn open<E: serde::de::Error>(&mut self, tag: Tag) -> Result<usize, E> {
        let outcome = self.heap.store.empty(tag).and_then(|value| self.heap.push(value));
        Self::check(self.fault, outcome)?;
        Ok(self.heap.stack.len())
    }
}

impl<'de, F: Fold> DeserializeSeed<'de> for Node<'_, F> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Fold> Visitor<'de> for Node<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.push(Value::NONE)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.push(Value::bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        let value = self.heap.store.int(value.into());
        self.push(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        let value = self.heap.store.int(value.into());
        self.push(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        let value = self.heap.store.float(value);
        self.push(value)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if text.len() as u64 > MAX_TEXT {
            *self.fault = Some(Fault::LongText);
            return Err(E::custom("stopped"));
        }
        let value = self.heap.store.text(text.as_bytes());
        self.push(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let base = self.open(Tag::List)?;
        while items.next_element_seed(Node { heap: self.heap, fault: self.fault })?.is_some() {}
        let outcome = self.heap.append(base);
        Self::check(self.fault, outcome)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<(), A::Error> {
        let base = self.open(Tag::Dict)?;
        while pairs.next_key_seed(Node { heap: self.heap, fault: self.fault })?.is_some() {
            pairs.next_value_seed(Node { heap: self.heap, fault: self.fault })?;
        }
        let outcome = self.heap.set_items(base);
        Self::check(self.fault, outcome)
    }
}
