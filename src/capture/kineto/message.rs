//! Datagrams of Kineto's daemon protocol: `u64` size of the payload, `char[32]` type, payload, in the byte order of
//! the machine.
//!
//! A process asks every few seconds with type `req`: `i32` kinds of configuration wanted, `i32` n, `i64` job,
//! `i32[n]` its id and those of its ancestors; the answer is `req` with the text of a configuration, or with none.
//! One that uses a GPU registers with type `ctxt`: `i32` GPU, `i32` process, `i64` job; the answer is an `i32`, how
//! many processes use that GPU.
//!
//! Our own lines in a process say that it ends with type `end`, with no payload; the answer is an `i32`, whether it is
//! to wait and ask again.

/// Bytes before the payload.
const HEAD: usize = 8 + TYPE;
const TYPE: usize = 32;
/// The bit of a request's kinds that stands for traces. A process that records one does not set it.
const ACTIVITIES: i32 = 2;

/// What a process says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// It uses a GPU.
    Register,
    /// It asks whether there is something to do.
    Request {
        can_record: bool,
        /// The processes above it, its parent first.
        ancestors: Vec<u32>,
    },
    /// Its program has ended; it asks whether it is still recorded.
    End,
}

impl Message {
    /// Reads a datagram; nothing if it is not of this protocol.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let (head, payload) = datagram.split_at_checked(HEAD)?;
        let size = u64::from_ne_bytes(head[..8].try_into().ok()?);
        if size != payload.len() as u64 {
            return None;
        }
        let number = |at: usize| Some(i32::from_ne_bytes(payload.get(at..at + 4)?.try_into().ok()?));
        match head[8..].split(|&byte| byte == 0).next()? {
            b"req" => {
                let (kinds, n) = (number(0)?, number(4)?);
                let pids =
                    payload.get(16..)?.chunks_exact(4).map(|pid| u32::from_ne_bytes([pid[0], pid[1], pid[2], pid[3]]));
                let is_whole = usize::try_from(n).is_ok_and(|n| n.checked_mul(4) == Some(payload.len() - 16));
                let can_record = kinds & ACTIVITIES != 0;
                is_whole.then(|| Self::Request { can_record, ancestors: pids.skip(1).collect() })
            }
            b"ctxt" => (payload.len() == 16).then_some(Self::Register),
            b"end" => payload.is_empty().then_some(Self::End),
            _ => None,
        }
    }
}

/// The answer to a process that registers.
pub fn registered() -> Vec<u8> {
    datagram(b"ctxt", &1_i32.to_ne_bytes())
}

/// The answer to a request: what to record, or nothing.
pub fn configured(configuration: &str) -> Vec<u8> {
    datagram(b"req", configuration.as_bytes())
}

/// The answer to a process whose program has ended.
pub fn ended(is_recorded: bool) -> Vec<u8> {
    datagram(b"end", &i32::from(is_recorded).to_ne_bytes())
}

fn datagram(kind: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u64).to_ne_bytes().to_vec();
    bytes.extend(kind);
    bytes.resize(HEAD, 0);
    bytes.extend(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a process with torch 2.15 sends while it can record: itself and four ancestors.
    pub const REQUEST: &str = "24000000000000007265710000000000000000000000000000000000000000000000000000000000\
                               020000000500000000000000000000008b6e0000e76b0000e66b00001330000012300000";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_real_request_is_read_and_answered() {
        let mut request = bytes(REQUEST);
        let ancestors = vec![0x6be7, 0x6be6, 0x3013, 0x3012];
        let ready = Message::Request { can_record: true, ancestors: ancestors.clone() };
        assert_eq!(Message::read(&request), Some(ready));
        request[40] = 0;
        let busy = Message::read(&request).unwrap();
        assert_eq!(busy, Message::Request { can_record: false, ancestors });
        let head = |size: u8| [&[size, 0, 0, 0, 0, 0, 0, 0], &b"req"[..], &[0; 29]].concat();
        assert_eq!(configured(""), head(0));
        assert_eq!(configured("A=1\n"), [head(4), b"A=1\n".to_vec()].concat());
        let register = datagram(b"ctxt", &[0; 16]);
        assert_eq!(Message::read(&register), Some(Message::Register));
        assert_eq!(registered()[40..], [1, 0, 0, 0]);
        assert_eq!(Message::read(&datagram(b"end", b"")), Some(Message::End));
        assert_eq!([ended(false)[40..].to_vec(), ended(true)[40..].to_vec()], [[0, 0, 0, 0], [1, 0, 0, 0]]);
    }

    #[test]
    fn what_is_not_of_the_protocol_is_no_message() {
        let request = bytes(REQUEST);
        for n in 0..request.len() {
            assert_eq!(Message::read(&request[..n]), None, "{n} bytes");
        }
        let changed = |at: usize, byte: u8| {
            let mut changed = request.clone();
            changed[at] = byte;
            Message::read(&changed)
        };
        for (at, byte) in [(0, 0x23), (7, 0xff), (8, b'x'), (11, b'x'), (44, 4), (47, 0xff)] {
            assert_eq!(changed(at, byte), None, "byte {at}");
        }
        assert_eq!(Message::read(&[request, vec![0]].concat()), None);
    }
}
