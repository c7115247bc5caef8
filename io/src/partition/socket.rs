//! glommio's sockets for links.
//!
//! No read time-out is ever set on the socket: one that was set and dropped makes a later read fail
//! at once. Limits are timers beside the read, and whoever hits one drops the whole connection.

use crate::store::discover::Dial;
use glommio::net::TcpStream;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// Dials on the partition's core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialler {
    pub(super) timeout: Duration,
}

impl Dial for Dialler {
    type Stream = TcpStream;

    async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, io::Error> {
        let address = resolve(host, port).await?;
        let stream = TcpStream::connect_timeout(address, self.timeout).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Names are looked up on another thread, because that look-up blocks.
async fn resolve(host: &str, port: u16) -> Result<SocketAddr, io::Error> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let name = host.to_owned();
    let found = glommio::executor()
        .spawn_blocking(move || {
            (name.as_str(), port)
                .to_socket_addrs()
                .map(|mut all| all.next())
        })
        .await?;
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))
}
