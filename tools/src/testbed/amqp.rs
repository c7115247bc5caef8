//! The first steps of an AMQP 0-9-1 connection, done by hand: a greeting and a log-in.
//!
//! This is how a test bed knows that a broker takes connections, without a client library and its
//! threads, and without a runtime, so that it can be asked from anywhere.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const GREETING: &[u8] = b"AMQP\x00\x00\x09\x01";
const METHOD_FRAME: u8 = 1;
const FRAME_END: u8 = 0xCE;
const CLASS_CONNECTION: u16 = 10;
const START: u16 = 10;
const START_OK: u16 = 11;
const TUNE: u16 = 30;
/// The broker's first frames are far smaller; more would be something else that listens there.
const FRAME_BYTES_MAX: u32 = 128 * 1024;

/// Greets the broker and logs in; the connection is then dropped. An error of kind
/// `PermissionDenied` means that the broker is there and refuses the user or the password.
pub fn log_in(address: SocketAddr, user: &str, password: &str, within: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    stream.write_all(GREETING)?;
    expect(&read_method(&mut stream)?, START)?;
    stream.write_all(&method_frame(&start_ok(user, password)))?;
    match read_method(&mut stream) {
        Ok(method) => expect(&method, TUNE)
            .map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error)),
        // A client that does not know how to be told is refused by closing the connection.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the broker closed the connection",
        )),
        Err(error) => Err(error),
    }
}

/// The method that answers the broker's start: who we are, by plain log-in. The one property says
/// that we want to be told of a refusal; without it the broker closes the connection in silence.
fn start_ok(user: &str, password: &str) -> Vec<u8> {
    let mut method = Vec::new();
    method.extend(CLASS_CONNECTION.to_be_bytes());
    method.extend(START_OK.to_be_bytes());
    let told = [b"\x1Cauthentication_failure_close" as &[u8], b"t\x01"].concat();
    let properties = [b"\x0Ccapabilities" as &[u8], b"F", &long_string(&told)].concat();
    method.extend(long_string(&properties));
    method.extend(b"\x05PLAIN");
    let response = format!("\0{user}\0{password}");
    method.extend(
        u32::try_from(response.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    method.extend(response.as_bytes());
    method.extend(b"\x05en_US");
    method
}

/// Bytes behind their length, which is also how a table and a frame begin.
fn long_string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes() as &[u8], bytes].concat()
}

fn method_frame(method: &[u8]) -> Vec<u8> {
    let mut frame = vec![METHOD_FRAME, 0, 0];
    frame.extend(
        u32::try_from(method.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    frame.extend(method);
    frame.push(FRAME_END);
    frame
}

fn read_method(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = [0_u8; 7];
    stream.read_exact(&mut head)?;
    let [kind, _, _, length @ ..] = head;
    let length = u32::from_be_bytes(length);
    if kind != METHOD_FRAME || length > FRAME_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "this is no AMQP 0-9-1 broker",
        ));
    }
    let mut body = vec![0_u8; usize::try_from(length).unwrap_or(0) + 1];
    stream.read_exact(&mut body)?;
    body.pop();
    Ok(body)
}

fn expect(method: &[u8], wanted: u16) -> io::Result<()> {
    let mut start = CLASS_CONNECTION.to_be_bytes().to_vec();
    start.extend(wanted.to_be_bytes());
    if method.starts_with(&start) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(method);
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the broker answered {text:?}"),
    ))
}
