//! Changes inputs at random: bytes, words of a format, numbers, lines, and parts of other inputs.

use super::support::Dice;

/// Numbers at which readers have failed.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1e308",
    "1e400",
    "NaN",
    "-Infinity",
    "0.0005",
    "2147483648",
    "4294967295",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "00",
];

/// Longest input; longer ones only take longer.
const MAX_LEN: usize = 64 << 10;

/// One to eight changes of `bytes`.
///
/// * `words`: of the format.
/// * `page`: bytes of which the format is made as a whole, or 1.
pub fn mutate(bytes: &mut Vec<u8>, words: &[&[u8]], others: &[Vec<u8>], page: usize, dice: &mut Dice) {
    let bits = dice.below(4);
    for _ in 0..=dice.below(1 << bits) {
        change(bytes, words, others, page, dice);
        bytes.truncate(MAX_LEN.max(page * 200));
    }
}

fn change(bytes: &mut Vec<u8>, words: &[&[u8]], others: &[Vec<u8>], page: usize, dice: &mut Dice) {
    if bytes.is_empty() {
        bytes.push(dice.below(256) as u8);
    }
    let (at, to) = (dice.below(bytes.len()), dice.below(bytes.len()));
    let part = |at: usize, dice: &mut Dice, len: usize| {
        let bits = dice.below(10);
        at..(at + dice.below(1 << bits)).min(len)
    };
    match dice.below(14) {
        0 | 1 => bytes[at] ^= 1 << dice.below(8),
        2 | 3 => bytes[at] = dice.below(256) as u8,
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(part(at, dice, bytes.len()))),
        6 => {
            let copied = bytes[part(at, dice, bytes.len())].to_vec();
            bytes.splice(to..to, copied);
        }
        7 => {
            let copied = bytes[part(at, dice, bytes.len())].repeat(2 + dice.below(20));
            bytes.splice(to..to, copied);
        }
        8 | 9 if !words.is_empty() => {
            let word = words[dice.below(words.len())];
            let end = if dice.below(2) == 0 { at } else { (at + word.len()).min(bytes.len()) };
            bytes.splice(at..end, word.iter().copied());
        }
        10 => {
            let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|start| at + start) else { return };
            let len = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            bytes.splice(start..start + len, NUMBERS[dice.below(NUMBERS.len())].bytes());
        }
        11 => {
            // Lines, or records between braces, change places.
            let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            let (a, b) = (dice.below(lines.len()), dice.below(lines.len()));
            lines.swap(a, b);
            *bytes = lines.concat();
        }
        12 => {
            let other = &others[dice.below(others.len())];
            let part = part(dice.below(other.len()), dice, other.len());
            bytes.splice(at..at, other[part].iter().copied());
        }
        _ => {
            // A page is written in the place of another, or blank.
            let [from, to] = [at / page * page, to / page * page];
            let len = page.min(bytes.len() - from.max(to));
            match dice.below(3) {
                0 => bytes[to..to + len].fill(0),
                _ => bytes.copy_within(from..from + len, to),
            }
        }
    }
}
