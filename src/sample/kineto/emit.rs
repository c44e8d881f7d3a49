//! The text of single events: Chrome trace JSON as PyTorch 2.x writes it.

use std::fmt::{Display, Formatter, Write as _};

use crate::sample::answer::EventsAnswer;

/// Nanoseconds, written as decimal microseconds with all three digits, as Kineto does.
#[derive(Clone, Copy, Debug)]
pub struct Micros(pub i64);

impl Display for Micros {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0.div_euclid(1000), self.0.rem_euclid(1000))
    }
}

/// Where an event happens: the text of `pid` and `tid`, quoted if they are strings.
#[derive(Clone, Copy)]
pub struct Location<'a> {
    pub pid: &'a dyn Display,
    pub tid: &'a dyn Display,
}

/// Collects the text of events; the caller empties it into the file now and then.
#[derive(Debug, Default)]
pub struct Emit {
    pub text: String,
    pub counts: EventsAnswer,
    has_event: bool,
}

impl Emit {
    /// Starts the next event. Writing to a `String` cannot fail, so results are dropped here and below.
    fn next(&mut self) {
        self.text.push_str(if self.has_event { ",\n  {\n" } else { "\n  {\n" });
        self.has_event = true;
    }

    /// A complete slice; `args` is the text between the braces, or empty for none.
    pub fn slice(&mut self, cat: &str, name: &str, at: Location<'_>, (start, end): (i64, i64), args: &str) {
        self.next();
        self.counts.slices += 1;
        let Location { pid, tid } = at;
        let (ts, dur) = (Micros(start), Micros(end - start));
        let text = &mut self.text;
        let _ = write!(
            text,
            "    \"ph\": \"X\", \"cat\": \"{cat}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": \
             {ts}, \"dur\": {dur}"
        );
        if !args.is_empty() {
            let _ = write!(text, ",\n    \"args\": {{\n      {args}\n    }}");
        }
        text.push_str("\n  }");
    }

    /// The start of an arrow.
    pub fn flow_start(&mut self, cat: &str, id: u64, at: Location<'_>, ts: i64) {
        self.counts.flow_starts += 1;
        self.flow('s', cat, id, at, ts);
    }

    /// The end of an arrow, bound to the slice around it.
    pub fn flow_end(&mut self, cat: &str, id: u64, at: Location<'_>, ts: i64) {
        self.counts.flow_ends += 1;
        self.flow('f', cat, id, at, ts);
    }

    fn flow(&mut self, ph: char, cat: &str, id: u64, at: Location<'_>, ts: i64) {
        self.next();
        let Location { pid, tid } = at;
        let binding = if ph == 'f' { ", \"bp\": \"e\"" } else { "" };
        let _ = write!(
            self.text,
            "    \"ph\": \"{ph}\", \"id\": {id}, \"pid\": {pid}, \"tid\": {tid}, \"ts\": {},\n    \"cat\": \"{cat}\", \"name\": \"{cat}\"{binding}\n  }}",
            Micros(ts)
        );
    }

    /// A change of allocated memory.
    pub fn memory(&mut self, at: Location<'_>, ts: i64, args: &str) {
        self.next();
        self.counts.instants += 1;
        let Location { pid, tid } = at;
        let _ = write!(
            self.text,
            "    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": \
             {pid}, \"tid\": {tid},\n    \"ts\": {},\n    \"args\": {{\n      {args}\n    }}\n  }}",
            Micros(ts)
        );
    }

    /// A mark across the whole trace.
    pub fn global_instant(&mut self, name: &str, at: Location<'_>, ts: i64) {
        self.next();
        self.counts.instants += 1;
        let Location { pid, tid } = at;
        let _ = write!(
            self.text,
            "    \"name\": \"{name}\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": {pid}, \"tid\": {tid}, \"ts\": {}\n  \
             }}",
            Micros(ts)
        );
    }

    /// A fact about a process or thread: `key` of `args` has the JSON text `value`.
    pub fn metadata(&mut self, name: &str, at: Location<'_>, ts: i64, (key, value): (&str, &dyn Display)) {
        self.next();
        self.counts.metadata += 1;
        let Location { pid, tid } = at;
        let _ = write!(
            self.text,
            "    \"name\": \"{name}\", \"ph\": \"M\", \"ts\": {}, \"pid\": {pid}, \"tid\": {tid},\n    \"args\": \
             {{\n      \"{key}\": {value}\n    }}\n  }}",
            Micros(ts)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_keep_their_digits() {
        assert_eq!(Micros(1_234_567).to_string(), "1234.567");
        assert_eq!(Micros(5).to_string(), "0.005");
    }

    #[test]
    fn events_are_json() {
        let mut emit = Emit::default();
        let at = Location { pid: &0, tid: &"\"stream 7\"" };
        emit.slice("kernel", "k", at, (1, 3), "\"stream\": 7");
        emit.flow_start("ac2g", 7, at, 1);
        emit.flow_end("ac2g", 7, at, 1);
        emit.memory(at, 2, "\"Bytes\": 8");
        emit.global_instant("Record Window End", at, 2);
        emit.metadata("process_name", at, 2, ("name", &"\"p\""));
        let events: Vec<serde_json::Value> = serde_json::from_str(&format!("[{}]", emit.text)).unwrap();
        assert_eq!(events.len(), 6);
        assert_eq!(events[0]["dur"].to_string(), "0.002");
        assert_eq!(events[2]["bp"], "e");
    }
}
