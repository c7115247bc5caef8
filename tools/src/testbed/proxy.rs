//! A proxy that holds bytes back when told to.
//!
//! It stands between a client and a server and passes everything on until somebody asks it to hold:
//! from the next piece that contains certain bytes, such as `EXEC`, or at once. What is held is
//! kept, in order and complete, even when the client goes away meanwhile, and is delivered when it
//! is released: this is how a packet arrives after its time. Each direction is held by itself.
//!
//! Two threads a connection look every few milliseconds whether anything has changed; what is not
//! held is passed on as it comes.

use super::error::{Result, file};
use super::ports::Port;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a quiet thread looks at what it has been told.
const LOOK: Duration = Duration::from_millis(5);
/// How long the server may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const PIECE_BYTES: usize = 64 * 1024;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// A proxy on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct HoldProxy {
    port: Port,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared(Mutex<Control>);

#[derive(Debug, Default)]
struct Control {
    target: Option<SocketAddr>,
    ended: bool,
    refusing: bool,
    listening: bool,
    ways: [Way; 2],
    connections: Vec<TcpStream>,
}

/// What is asked of one direction and what has come of it.
#[derive(Debug, Default)]
struct Way {
    /// Hold the next connection on which these bytes pass.
    pattern: Option<Vec<u8>>,
    /// Hold every connection.
    all: bool,
    /// How often it has been released; what is held waits for this to grow.
    releases: u64,
    holding: usize,
    held_bytes: usize,
}

impl Shared {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HoldProxy {
    /// Starts a proxy in front of a server.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let port = Port::take()?;
        let shared = Arc::new(Shared::default());
        shared.control().target = Some(target);
        let first =
            listen(port.address()).map_err(file("listen as", port.address().to_string()))?;
        shared.control().listening = true;
        let (address, seen) = (port.address(), Arc::clone(&shared));
        let listening = std::thread::spawn(move || accept(address, Some(first), &seen));
        Ok(Self {
            port,
            shared,
            listening: Some(listening),
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Sends connections made from now on to another server.
    pub fn set_target(&self, target: SocketAddr) {
        self.shared.control().target = Some(target);
    }

    /// Holds the next connection on which these bytes pass towards the server, from the piece that
    /// holds them on. Other connections, and later ones, pass.
    pub fn hold_when(&self, pattern: &[u8]) {
        self.hold_when_going(Direction::ToServer, pattern);
    }

    /// As [`HoldProxy::hold_when`], in either direction.
    pub fn hold_when_going(&self, direction: Direction, pattern: &[u8]) {
        self.shared.control().way(direction).pattern = Some(pattern.to_vec());
    }

    /// Holds every connection, new ones too, from now on.
    pub fn hold_all(&self, direction: Direction) {
        self.shared.control().way(direction).all = true;
    }

    /// Whether anything is held, in either direction.
    pub fn is_holding(&self) -> bool {
        self.shared.control().ways.iter().any(|way| way.holding > 0)
    }

    /// How many bytes are held, in both directions.
    pub fn held_bytes(&self) -> usize {
        self.shared
            .control()
            .ways
            .iter()
            .map(|way| way.held_bytes)
            .sum()
    }

    /// Waits until something is held.
    pub fn wait_holding(&self, within: Duration) -> Result<()> {
        super::wait_for("bytes held by the proxy", within, || {
            if self.is_holding() {
                Ok(())
            } else {
                Err("everything passed".to_owned())
            }
        })
    }

    /// Delivers what is held and holds no more, in both directions.
    pub fn release(&self) {
        for way in &mut self.shared.control().ways {
            way.pattern = None;
            way.all = false;
            way.releases += 1;
        }
    }

    /// Cuts every connection; what is held is lost. New ones are served.
    pub fn cut(&self) {
        let mut control = self.shared.control();
        for connection in control.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        // What is held is now let go of, and has nowhere to go.
        for way in &mut control.ways {
            way.releases += 1;
        }
    }

    /// Waits until nothing is held: what was released or cut has gone.
    pub fn wait_empty(&self, within: Duration) -> Result<()> {
        super::wait_for("proxy that holds nothing", within, || {
            match self.held_bytes() {
                0 if !self.is_holding() => Ok(()),
                bytes => Err(format!("{bytes} bytes are held")),
            }
        })
    }

    /// Refuses new connections, or takes them again. Returns when it is so.
    pub fn refuse(&self, refusing: bool) -> Result<()> {
        self.shared.control().refusing = refusing;
        super::wait_for("change of the listening port", CONNECT_WITHIN, || {
            let listening = self.shared.control().listening;
            if listening == refusing {
                Err(format!("listening: {listening}"))
            } else {
                Ok(())
            }
        })
    }
}

impl Drop for HoldProxy {
    fn drop(&mut self) {
        self.shared.control().ended = true;
        self.cut();
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        // One that was accepted in between.
        self.cut();
    }
}

impl Control {
    fn way(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::ToServer => &mut self.ways[0],
            Direction::ToClient => &mut self.ways[1],
        }
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(address: SocketAddr, mut listener: Option<TcpListener>, shared: &Arc<Shared>) {
    loop {
        let (ended, refusing) = {
            let control = shared.control();
            (control.ended, control.refusing)
        };
        if ended {
            return;
        }
        if refusing {
            listener = None;
        } else if listener.is_none() {
            listener = listen(address).ok();
        }
        shared.control().listening = listener.is_some();
        match listener.as_ref().map(TcpListener::accept) {
            // A server that cannot be reached looks to the client like one that hangs up.
            Some(Ok((client, _))) => drop(serve(client, shared)),
            _ => std::thread::sleep(LOOK),
        }
    }
}

fn serve(client: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let target = shared.control().target.ok_or(ErrorKind::AddrNotAvailable)?;
    let server = TcpStream::connect_timeout(&target, CONNECT_WITHIN)?;
    client.set_nonblocking(false)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
    }
    let pumps = [
        (
            Direction::ToServer,
            client.try_clone()?,
            server.try_clone()?,
        ),
        (
            Direction::ToClient,
            server.try_clone()?,
            client.try_clone()?,
        ),
    ];
    shared.control().connections.extend([client, server]);
    for (direction, from, to) in pumps {
        let shared = Arc::clone(shared);
        let pump = Pump {
            shared,
            direction,
            from,
            to: Some(to),
            tail: Vec::new(),
            held: None,
        };
        std::thread::spawn(move || pump.run());
    }
    Ok(())
}

/// One direction of one connection.
struct Pump {
    shared: Arc<Shared>,
    direction: Direction,
    from: TcpStream,
    /// Gone once the other side takes no more; what comes is then read and dropped.
    to: Option<TcpStream>,
    /// The last bytes that passed, for a pattern that comes in two pieces.
    tail: Vec<u8>,
    held: Option<Held>,
}

struct Held {
    bytes: Vec<u8>,
    releases: u64,
}

impl Pump {
    fn run(mut self) {
        let mut piece = vec![0_u8; PIECE_BYTES];
        let mut open = true;
        while open || self.held.is_some() {
            if self.shared.control().ended {
                break;
            }
            self.deliver_released();
            if !open {
                std::thread::sleep(LOOK);
                continue;
            }
            match self.from.read(&mut piece) {
                Ok(0) => open = false,
                Ok(count) => self.take(&piece[..count]),
                Err(error) if is_quiet(&error) => {}
                Err(_) => open = false,
            }
        }
        if let Some(to) = &self.to {
            let _ = to.shutdown(Shutdown::Write);
        }
    }

    fn take(&mut self, piece: &[u8]) {
        if self.held.is_none() && self.must_hold(piece) {
            let releases = self.shared.control().way(self.direction).releases;
            self.held = Some(Held {
                bytes: Vec::new(),
                releases,
            });
        }
        match &mut self.held {
            Some(held) => {
                held.bytes.extend_from_slice(piece);
                self.shared.control().way(self.direction).held_bytes += piece.len();
            }
            None => self.pass(piece),
        }
    }

    /// Whether to hold from this piece on; if so, says so at once and looks for nothing more.
    fn must_hold(&mut self, piece: &[u8]) -> bool {
        let mut control = self.shared.control();
        let way = control.way(self.direction);
        let mut found = way.all;
        if let Some(pattern) = &way.pattern {
            self.tail.extend_from_slice(piece);
            found |= contains(&self.tail, pattern);
            let kept = pattern.len().saturating_sub(1).min(self.tail.len());
            self.tail.drain(..self.tail.len() - kept);
        } else {
            self.tail.clear();
        }
        if found {
            way.pattern = None;
            way.holding += 1;
            self.tail.clear();
        }
        found
    }

    fn deliver_released(&mut self) {
        let Some(held) = self.held.take() else { return };
        if self.shared.control().way(self.direction).releases == held.releases {
            self.held = Some(held);
            return;
        }
        self.pass(&held.bytes);
        let mut control = self.shared.control();
        let way = control.way(self.direction);
        way.holding -= 1;
        way.held_bytes -= held.bytes.len();
    }

    fn pass(&mut self, bytes: &[u8]) {
        if let Some(to) = &mut self.to
            && to.write_all(bytes).is_err()
        {
            self.to = None;
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            let mut control = self.shared.control();
            let way = control.way(self.direction);
            way.holding -= 1;
            way.held_bytes -= held.bytes.len();
        }
    }
}

fn is_quiet(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn contains(bytes: &[u8], pattern: &[u8]) -> bool {
    pattern.is_empty() || bytes.windows(pattern.len()).any(|window| window == pattern)
}
