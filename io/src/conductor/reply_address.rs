//! Whether a result can be sent where its producer wants it.
//!
//! The address is the producer's own text and is published to as a routing key. Two kinds of it do
//! harm. A name of direct reply-to that the broker cannot take apart makes it close the connection
//! (541 on RabbitMQ 3.10), and with it go the replies of every other producer; so such a name must
//! have the shape that the broker itself gives out: a process identifier in Erlang's external
//! format, in Base64, and a key. And a queue of ours would be fed with results that nobody there
//! waits for. Runs on the I/O core; it must never accept what it cannot read.

/// What every name of direct reply-to begins with.
const DIRECT: &str = "amq.rabbitmq.reply-to";
/// What every queue of ours begins with.
const OURS: &str = "matching:";

/// Erlang's external format: its version, a process identifier with a short and a long creation,
/// and the three kinds of a node's name.
const VERSION: u8 = 131;
const PROCESS: u8 = 103;
const NEW_PROCESS: u8 = 88;
const NAME_LONG: [u8; 2] = [100, 118];
const NAME_SHORT: [u8; 2] = [115, 119];
/// Bytes behind the node's name: number and serial of four bytes each, and the creation.
const NUMBER_AND_SERIAL: usize = 8;

/// Why no result is sent to this queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the name is empty; name a queue in reply_to, or leave it out")]
    Empty,
    #[error("queues that begin with matching: are the cell's own; name a queue of the producer's")]
    Ours,
    #[error(
        "it is no name that the broker gives out for direct reply-to; publish with the reply_to \
         amq.rabbitmq.reply-to and let the broker fill it in"
    )]
    Direct,
}

/// Judges the queue that a producer named.
pub(super) fn judge(queue: &str) -> Result<(), Refusal> {
    if queue.is_empty() {
        return Err(Refusal::Empty);
    }
    if queue.starts_with(OURS) {
        return Err(Refusal::Ours);
    }
    match queue.strip_prefix(DIRECT) {
        None => Ok(()),
        Some(rest) if is_direct(rest) => Ok(()),
        Some(_) => Err(Refusal::Direct),
    }
}

/// `.PROCESS.KEY`, both in Base64.
fn is_direct(rest: &str) -> bool {
    let Some((process, key)) = rest.strip_prefix('.').and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let key = base64(key);
    key.is_some_and(|key| !key.is_empty()) && base64(process).is_some_and(|it| is_process(&it))
}

/// One process identifier and nothing else, on a node whose name has a host.
fn is_process(bytes: &[u8]) -> bool {
    let [VERSION, kind, name_kind, rest @ ..] = bytes else {
        return false;
    };
    let creation = match *kind {
        PROCESS => 1,
        NEW_PROCESS => 4,
        _ => return false,
    };
    let (length, rest) = match rest {
        [high, low, rest @ ..] if NAME_LONG.contains(name_kind) => {
            (usize::from(u16::from_be_bytes([*high, *low])), rest)
        }
        [length, rest @ ..] if NAME_SHORT.contains(name_kind) => (usize::from(*length), rest),
        _ => return false,
    };
    let Some((name, numbers)) = rest.split_at_checked(length) else {
        return false;
    };
    numbers.len() == NUMBER_AND_SERIAL + creation && is_node(name)
}

/// The broker shortens its node to `reply@` and a number.
fn is_node(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"reply@").unwrap_or_default();
    !number.is_empty() && number.len() <= 10 && number.iter().all(u8::is_ascii_digit)
}

/// Decodes Base64 with its padding; `None` where it is anything else.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut window, mut bits) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        window = (window << 6 | u32::from(value)) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(window >> bits & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_queues_are_taken() {
        for queue in [
            "answers",
            "amq.gen-Jd9x",
            "amq.rabbitmq.trace",
            "a.b.c",
            "==",
        ] {
            assert_eq!(judge(queue), Ok(()), "{queue}");
        }
    }

    #[test]
    fn queues_of_ours_are_refused() {
        for queue in ["matching:commands.p0", "matching:commands.p7.parked"] {
            assert_eq!(judge(queue), Err(Refusal::Ours), "{queue}");
        }
        assert_eq!(judge(""), Err(Refusal::Empty));
    }

    /// `131 88 100 0 16 reply@1234567890`, number 5, serial 0, creation 1, in Base64.
    const PROCESS_TEXT: &str = "g1hkABByZXBseUAxMjM0NTY3ODkwAAAABQAAAAAAAAAB";

    #[test]
    fn base64_is_read_strictly() {
        assert_eq!(base64("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(base64(""), Some(Vec::new()));
        for text in ["aGVsbG8", "aGV*bG8=", "====", "aG=sbG8="] {
            assert_eq!(base64(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_the_broker_gives_out_is_a_direct_address() {
        let good = format!("{DIRECT}.{PROCESS_TEXT}.aGVsbG8=");
        assert_eq!(judge(&good), Ok(()), "{good}");
        let longer = format!("{PROCESS_TEXT}AAAA");
        for rest in [
            "",
            ".",
            ".x",
            ".x.y",
            ".aGVsbG8=.aGVsbG8=",
            "x",
            &format!(".{PROCESS_TEXT}"),
            &format!(".{PROCESS_TEXT}."),
            &format!(".{PROCESS_TEXT}.not base64"),
            &format!(".{}.aGVsbG8=", &PROCESS_TEXT[..40]),
            &format!(".{longer}.aGVsbG8="),
        ] {
            assert_eq!(
                judge(&format!("{DIRECT}{rest}")),
                Err(Refusal::Direct),
                "{rest}"
            );
        }
    }
}
