use super::*;
use crate::job::Progress;
use crate::model::StringId;

/// Folds nothing but pairs of numbers, into their sum.
#[derive(Default)]
struct Sums;

impl Fold for Sums {
    fn dict(&mut self, pairs: &[Value], _: &mut Store, _: u64) -> Option<(u8, u32)> {
        (pairs.len() == 4).then_some((2, pairs.len() as u32))
    }

    fn list(&mut self, _: &[Value], _: &Store) -> Option<(u8, u32)> {
        None
    }

    fn tuple(&mut self, items: &[Value], store: &Store) -> Option<(u8, u32)> {
        let &[a, b] = items else { return None };
        Some((1, u32::try_from(store.as_int(a)? + store.as_int(b)?).ok()?))
    }
}

/// Runs a pickle; the top as text.
fn run(bytes: &[u8]) -> Result<String, Fault> {
    let (progress, done) = (Progress::default(), || 0);
    let mut machine = Machine::new(Input::new(bytes, &progress, &done), Heap::new(Sums));
    let top = machine.run()?;
    let store = &machine.heap.store;
    Ok(text(store, top))
}

fn text(store: &Store, value: Value) -> String {
    let items =
        || store.items(value).iter().map(|&item| text(store, store.settled(item))).collect::<Vec<_>>().join(" ");
    match value.tag() {
        Tag::None => "None".to_owned(),
        Tag::Bool => (value == Value::bool(true)).to_string(),
        Tag::Int | Tag::Big => store.as_int(value).unwrap().to_string(),
        Tag::Float => store.as_float(value).unwrap().to_string(),
        Tag::Str => format!("'{}'", store.strings.get(StringId(value.index()))),
        Tag::Bytes => "bytes".to_owned(),
        Tag::Tuple => format!("({})", items()),
        Tag::List => format!("[{}]", items()),
        Tag::Dict => format!("{{{}}}", items()),
        Tag::Folded => format!("<{}>", value.index()),
        Tag::Class | Tag::Unset => "?".to_owned(),
    }
}

fn why(bytes: &[u8]) -> String {
    match run(bytes) {
        Ok(text) => panic!("{text}"),
        Err(Fault::Refused(why)) => why,
        Err(Fault::Damaged(why)) => format!("damaged: {why}"),
        Err(fault) => format!("{fault:?}"),
    }
}

#[test]
fn values_of_every_protocol() {
    for (bytes, wanted) in [
        (
            &b"(lp0\nI1\naL-12L\naI01\naF1.5\naS'a\\'b'\np1\naV\\u20ac\nag1\na."[..],
            "[1 -12 true 1.5 'a'b' '\u{20ac}' 'a'b']",
        ),
        (b"(dp0\nS'k'\nNs.", "{'k' None}"),
        (b"(I1\nI2\nI3\nt.", "(1 2 3)"),
        (b"}q\x00(U\x01aK\x01X\x01\x00\x00\x00bM\x00\x01U\x01cJ\xff\xff\xff\xffu.", "{'a' 1 'b' 256 'c' -1}"),
        (
            b"\x80\x02](\x88\x89N\x8a\x00\x8a\x01\xff\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fe.",
            "[true false None 0 -1 9223372036854775807]",
        ),
        (b"\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", "18446744073709551615"),
        (b"\x80\x02\x8b\x02\x00\x00\x00\x00\x80.", "-32768"),
        (b"\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "1.5"),
        (b"\x80\x02](K\x01K\x02\x86K\x03\x85)e.", "[<3> (3) ()]"),
        (b"\x80\x03](C\x03abcB\x02\x00\x00\x00xye.", "[bytes bytes]"),
        (
            b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x10](\x8c\x02hi\x94h\x00\x8d\x01\x00\x00\x00\x00\x00\x00\x00xe.",
            "['hi' 'hi' 'x']",
        ),
        (b"\x80\x05](\x96\x01\x00\x00\x00\x00\x00\x00\x00z\x8f(K\x01\x90(K\x05\x91e.", "[bytes [1] (5)]"),
        (b"](K\x01K\x02200e.", "[1]"),
        (b"](K\x01(K\x021e.", "[1]"),
    ] {
        assert_eq!(run(bytes).unwrap(), wanted, "{bytes:?}");
    }
}

#[test]
fn containers_are_folded_once_wherever_they_are_named() {
    // Complete at once, one pair at a time, and named again from the memo.
    assert_eq!(run(b"]q\x00(}q\x01(U\x01aK\x01U\x01bK\x02uh\x01j\x01\x00\x00\x00e.").unwrap(), "[<4> <4> <4>]");
    assert_eq!(run(b"]q\x00}q\x01U\x01aK\x01sU\x01bK\x02sah\x01a.").unwrap(), "[<4> <4>]");
    assert!(why(b"]}q\x01U\x01aK\x01sU\x01bK\x02sah\x01U\x01cK\x03sa.").contains("pairs without a dictionary"));
    assert_eq!(run(b"]}U\x01aK\x01sa.").unwrap(), "[{'a' 1}]");
}

#[test]
fn a_plain_container_class_is_a_dictionary() {
    assert_eq!(run(b"ccollections\nOrderedDict\n)RU\x01aK\x01s.").unwrap(), "{'a' 1}");
    assert_eq!(
        run(b"\x80\x04\x8c\x0bcollections\x8c\x0bdefaultdict\x93\x8c\x08builtins\x8c\x04list\x93\x85R.").unwrap(),
        "{}"
    );
    assert!(why(b"cbuiltins\nlist\n)R.").contains("REDUCE at byte 16"));
    assert!(why(b"ccollections\nOrderedDict\n](K\x01e\x85R.").contains("REDUCE"));
    assert!(why(b"ccollections\nCounter\n)R.").contains("collections.Counter"));
}

#[test]
fn opcodes_that_run_code_are_refused_by_name() {
    for (bytes, opcode) in [
        (&b"cos\nsystem\n(S'x'\ntR."[..], "GLOBAL at byte 0, os.system"),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93.", "STACK_GLOBAL at byte 17, posix.system"),
        (b"NNR.", "REDUCE at byte 2"),
        (b"NNb.", "BUILD at byte 2"),
        (b"(S'x'\nios\nsystem\n.", "INST at byte 6"),
        (b"(No.", "OBJ at byte 2"),
        (b"N)\x81.", "NEWOBJ at byte 2"),
        (b"N)}\x92.", "NEWOBJ_EX at byte 3"),
        (b"\x82\x01.", "EXT1 at byte 0"),
        (b"\x83\x01\x00.", "EXT2 at byte 0"),
        (b"\x84\x01\x00\x00\x00.", "EXT4 at byte 0"),
        (b"Px\n.", "PERSID at byte 0"),
        (b"NQ.", "BINPERSID at byte 1"),
        (b"\x97.", "NEXT_BUFFER at byte 0"),
        (b"N\x98.", "READONLY_BUFFER at byte 1"),
    ] {
        let why = why(bytes);
        assert!(why.contains(&format!("({opcode})")) && why.contains("asks to run code"), "{why}");
    }
    // Names are shown without what could command a terminal.
    assert!(!why(b"c\x1b[31mos\nsys\x07tem\n.").contains(|c: char| c.is_control()));
}

#[test]
fn damage_differs_from_a_missing_end() {
    for bytes in
        [&b""[..], b"]", b"\x80", b"\x80\x04\x95", b"X\x05\x00\x00\x00abc", b"I12", b"j\x00", b"\x8a\x08ab", b"C\x05a"]
    {
        assert_eq!(why(bytes), "Cut", "{bytes:?}");
    }
    for bytes in [
        &b"."[..],
        b"a.",
        b"s.",
        b"e.",
        b"Na.",
        b"]NNs.",
        b"(]e.",
        b"}(Nu.",
        b"h\x00.",
        b"]q\xff.",
        b"Ip\n.",
        b"S'a\n.",
        b"\xff.",
        b"0.",
        b"1.",
        b"2.",
        b"t.",
        b"\x80\x02\x8b\xfb\xff\xff\xffabc.",
        b"](.",
        b"]r\xfe\xff\xff\xff.",
        b"g1\n.",
        b"p0\n.",
        b"\x94.",
    ] {
        assert!(why(bytes).starts_with("damaged"), "{bytes:?}: {}", why(bytes));
    }
    assert_eq!(why(&[b"\x8d".as_slice(), &(1_u64 << 62).to_le_bytes(), b"abc."].concat()), "LongText");
    assert_eq!(why(&[b"\x96".as_slice(), &(1_u64 << 40).to_le_bytes(), b"abc."].concat()), "Cut");
}

#[test]
fn hostile_pickles_cause_no_recursion_and_no_growth() {
    const DEEP: usize = 300_000;
    let lists = [vec![b']'; DEEP], vec![b'a'; DEEP - 1], vec![b'.']].concat();
    let tuples = [vec![b')'], vec![0x85; DEEP], vec![b'.']].concat();
    let mut doubling = b"\x80\x04]\x94".to_vec();
    for i in 0..60 {
        doubling.extend([b']', 0x94, b'(', b'h', i, b'h', i, b'e']);
    }
    doubling.push(b'.');
    let own = b"}q\x00U\x01ah\x00s.".to_vec();
    for bytes in [lists, tuples, doubling, own] {
        let (progress, done) = (Progress::default(), || 0);
        let mut machine = Machine::new(Input::new(bytes.as_slice(), &progress, &done), Heap::new(Sums));
        assert!(machine.run().is_ok());
    }
}

/// A reader that gives one byte at a time.
struct Slow<'a>(&'a [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.len().min(1);
        buffer[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn texts_longer_than_the_window_and_slow_streams() {
    let long = vec![b'x'; 3 << 20];
    let bytes = [b"](X".as_slice(), &(3_u32 << 20).to_le_bytes(), &long, b"V", &long, b"\nK\x07e.\0\0\0"].concat();
    let (progress, done) = (Progress::default(), || 0);
    let mut machine = Machine::new(Input::new(bytes.as_slice(), &progress, &done), Heap::new(Sums));
    let top = machine.run().unwrap();
    assert_eq!(machine.heap.store.items(top).len(), 3);
    assert!(!machine.has_more().unwrap());
    let bytes = b"\x80\x02](K\x01j\x00\x00";
    let mut machine = Machine::new(Input::new(Slow(bytes), &progress, &done), Heap::new(Sums));
    assert!(matches!(machine.run(), Err(Fault::Cut)));
    assert_eq!(machine.offset(), 6);
    let mut machine = Machine::new(Input::new(Slow(b"](K\x01K\x02\x86e.x"), &progress, &done), Heap::new(Sums));
    assert_eq!(machine.run().map(|top| machine.heap.store.items(top).len()).unwrap(), 1);
    assert!(machine.has_more().unwrap());
}

#[test]
fn json_gives_the_same_values() {
    let (progress, done) = (Progress::default(), || 0);
    let read = |json: &str| {
        let mut heap = Heap::new(Sums);
        let (bytes, fault) = json::read(json.as_bytes(), &progress, &done, &mut heap);
        assert_eq!(bytes, json.len() as u64);
        (text(&heap.store, heap.stack[0]), fault)
    };
    let (top, fault) = read(r#"{"a": [1, -2, 18446744073709551615, 1.5, null, true, "x"], "b": [{"c": 1, "d": 2}]}"#);
    assert!(fault.is_none());
    assert_eq!(top, "<4>");
    let (top, fault) = read(r#"{"a": [1, -2, 18446744073709551615, 1.5, null, true, "x"]}"#);
    assert!(fault.is_none());
    assert_eq!(top, "{'a' [1 -2 18446744073709551615 1.5 None true 'x']}");
    assert!(matches!(read("[1, 2").1, Some(Fault::Cut)));
    assert!(matches!(read("[1, x]").1, Some(Fault::Damaged(_))));
}
