//! The reader of the store's protocol: the same replies however the bytes are cut, and an end at
//! the first malformed one.

use conductor_io::resp::{Reader, Reply, RespError};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write;
use std::time::Instant;

fn encode(reply: &Reply, out: &mut Vec<u8>) {
    let written = match reply {
        Reply::Simple(text) => write!(out, "+{text}\r\n"),
        Reply::Error(text) => write!(out, "-{text}\r\n"),
        Reply::Integer(number) => write!(out, ":{number}\r\n"),
        Reply::Nil => write!(out, "$-1\r\n"),
        Reply::Bulk(bytes) => {
            write!(out, "${}\r\n", bytes.len()).expect("a vector takes all bytes");
            out.extend_from_slice(bytes);
            write!(out, "\r\n")
        }
        Reply::Array(elements) => {
            write!(out, "*{}\r\n", elements.len()).expect("a vector takes all bytes");
            for element in elements {
                encode(element, out);
            }
            Ok(())
        }
    };
    written.expect("a vector takes all bytes");
}

fn drain(reader: &mut Reader) -> Vec<Reply> {
    let mut replies = Vec::new();
    while let Some(reply) = reader.next().expect("well formed") {
        replies.push(reply);
    }
    replies
}

fn error(bytes: &[u8]) -> RespError {
    let mut reader = Reader::new();
    reader.feed(bytes);
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("{} is no error", bytes.escape_ascii()),
            Err(error) => {
                reader.feed(b"+OK\r\n");
                assert_eq!(reader.next(), Err(error.clone()), "broken stays broken");
                return error;
            }
        }
    }
}

fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        "[ -~äß]{0,20}".prop_map(Reply::Simple),
        "[ -~]{1,20}".prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        Just(Reply::Nil),
        vec(any::<u8>(), 0..40).prop_map(Reply::Bulk),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| vec(inner, 0..6).prop_map(Reply::Array))
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_replies(
        replies in vec(reply(), 1..6),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut bytes = Vec::new();
        for reply in &replies {
            encode(reply, &mut bytes);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let mut reader = Reader::new();
        let (mut read, mut from) = (Vec::new(), 0);
        for to in cuts.into_iter().chain([bytes.len()]) {
            reader.feed(&bytes[from..to]);
            read.extend(drain(&mut reader));
            from = to;
        }
        prop_assert_eq!(&read, &replies);
        prop_assert!(!reader.is_midway());

        let mut single = Reader::new();
        let mut read = Vec::new();
        for byte in &bytes {
            single.feed(&[*byte]);
            read.extend(drain(&mut single));
        }
        prop_assert_eq!(read, replies);
    }

    #[test]
    fn an_error_comes_with_its_byte_however_the_bytes_are_cut(bytes in vec(any::<u8>(), 1..60)) {
        let outcome = |chunk: usize| {
            let mut reader = Reader::new();
            let mut read = Vec::new();
            for chunk in bytes.chunks(chunk) {
                reader.feed(chunk);
                loop {
                    match reader.next() {
                        Ok(Some(reply)) => read.push(reply),
                        Ok(None) => break,
                        Err(error) => return (read, Some(error)),
                    }
                }
            }
            (read, None)
        };
        let whole = outcome(bytes.len());
        prop_assert_eq!(outcome(1), whole.clone());
        prop_assert_eq!(outcome(7), whole);
    }
}

#[test]
fn each_kind_of_malformed_byte_is_named() {
    let cases: [(&[u8], RespError); 20] = [
        (b"X", RespError::Kind(b'X')),
        (b"\r\n", RespError::Kind(b'\r')),
        (b"%1\r\n", RespError::Kind(b'%')),
        (b"+OK\n", RespError::LineEnd),
        (b"+OK\rX", RespError::LineEnd),
        (b"+\xff\r\n", RespError::Text),
        (b":\r\n", RespError::Number),
        (b":+1\r\n", RespError::Number),
        (b":01\r\n", RespError::Number),
        (b":-0\r\n", RespError::Number),
        (b":1 \r\n", RespError::Number),
        (b":9223372036854775808\r\n", RespError::Number),
        (b"$3\r\nabcX", RespError::LineEnd),
        (b"$3\r\nabc\rX", RespError::LineEnd),
        (b"$x\r\n", RespError::Number),
        (b"$-2\r\n", RespError::BulkLength(-2)),
        (b"$67108865\r\n", RespError::BulkLength(67_108_865)),
        (b"*-2\r\n", RespError::ArrayLength(-2)),
        (b"*4194305\r\n", RespError::ArrayLength(4_194_305)),
        (b"*2\r\n+OK\r\n!", RespError::Kind(b'!')),
    ];
    for (bytes, expected) in cases {
        assert_eq!(error(bytes), expected, "{}", bytes.escape_ascii());
    }
    assert_eq!(error(&b"*1\r\n".repeat(9)), RespError::Depth);
    assert_eq!(error(&b"*1\r\n".repeat(100_000)), RespError::Depth);
    let mut long = vec![b'+'];
    long.resize(70_000, b'a');
    assert_eq!(error(&long), RespError::LineLength);
}

#[test]
fn eight_levels_are_read_and_what_is_announced_takes_no_memory() {
    let mut reader = Reader::new();
    reader.feed(&b"*1\r\n".repeat(8));
    assert_eq!(reader.next(), Ok(None));
    assert!(reader.is_midway());
    reader.feed(b":1\r\n");
    let mut expected = Reply::Integer(1);
    for _ in 0..8 {
        expected = Reply::Array(vec![expected]);
    }
    assert_eq!(reader.next(), Ok(Some(expected)));
    let mut reader = Reader::new();
    reader.feed(b"$67108864\r\nabc");
    assert_eq!(reader.next(), Ok(None));
    reader.feed(b"*4194304\r\n");
    assert_eq!(reader.next(), Ok(None));
}

#[test]
fn the_replies_of_a_transaction() {
    let mut reader = Reader::new();
    reader.feed(b"+OK\r\n+QUEUED\r\n*-1\r\n*2\r\n:1\r\n-WRONGTYPE no\r\n*0\r\n$0\r\n\r\n");
    let replies = drain(&mut reader);
    assert!(replies[0].is_status("OK") && replies[1].is_status("QUEUED"));
    assert!(replies[2].is_nil());
    assert_eq!(replies[3].first_error(), Some("WRONGTYPE no"));
    assert_eq!(replies[4].elements(), Some(&[][..]));
    assert_eq!(replies[5].bytes(), Some(&b""[..]));
}

/// Reading is linear: a thousand records byte by byte take about a hundred times as long as ten,
/// not ten thousand times.
#[test]
fn large_pages_are_read_once_however_small_the_chunks() {
    let page = |records: usize| {
        let record = Reply::Array(vec![Reply::Bulk(b"100.25".to_vec()); 34]);
        let mut bytes = Vec::new();
        encode(&Reply::Array(vec![record; records]), &mut bytes);
        bytes
    };
    let time = |bytes: &[u8]| {
        let start = Instant::now();
        let mut reader = Reader::new();
        for byte in bytes {
            reader.feed(std::slice::from_ref(byte));
            if let Some(reply) = reader.next().expect("well formed") {
                return (start.elapsed(), reply);
            }
        }
        panic!("no reply");
    };
    // The quickest of five, so that a pause of the machine does not count.
    let quickest = |bytes: &[u8]| (0..5).map(|_| time(bytes)).min_by_key(|(took, _)| *took);
    let (small, _) = quickest(&page(10)).expect("five runs");
    let (large, reply) = quickest(&page(1_000)).expect("five runs");
    assert_eq!(reply.elements().map(<[Reply]>::len), Some(1_000));
    assert!(
        large < small * 2_000,
        "{small:?} for 10, {large:?} for 1000"
    );
}

/// Consumed bytes are let go of now and then; a line that was cut between its two end bytes at that
/// moment is still a line.
#[test]
fn a_cut_anywhere_behind_many_consumed_replies_is_no_error() {
    let reply = Reply::Bulk(b"100.25".to_vec());
    let mut bytes = Vec::new();
    for _ in 0..12_000 {
        encode(&reply, &mut bytes);
    }
    let behind = 140_000;
    for cut in behind..behind + 30 {
        let mut reader = Reader::new();
        let mut read = 0;
        for chunk in [&bytes[..cut], &bytes[cut..=cut], &bytes[cut + 1..]] {
            reader.feed(chunk);
            read += drain(&mut reader).len();
        }
        assert_eq!(read, 12_000, "cut at {cut}");
    }
}
