//! tokio's sockets for links: for the I/O core, the outbox and the command line.

use super::discover::{self, Dial, DiscoverError, Logins, Primary};
use super::link::LinkError;
use conductor_config::StoreAddress;
use futures_lite::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead as TokioRead, AsyncWrite as TokioWrite, ReadBuf};
use tokio::net::TcpStream;

/// A tokio socket in the shape that links take.
#[derive(Debug)]
pub struct Socket(TcpStream);

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(context, &mut read))?;
        Poll::Ready(Ok(read.filled().len()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Dials with tokio.
#[derive(Clone, Copy, Debug)]
pub struct Dialler {
    /// How long one connection may take to open.
    pub timeout: Duration,
}

impl Dial for Dialler {
    type Stream = Socket;

    async fn dial(&self, host: &str, port: u16) -> Result<Socket, io::Error> {
        let connecting = TcpStream::connect((host, port));
        let stream = tokio::time::timeout(self.timeout, connecting)
            .await
            .map_err(|_| {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the connection did not open in time",
                )
            })??;
        stream.set_nodelay(true)?;
        Ok(Socket(stream))
    }
}

/// [`discover::primary`] with a limit on the whole of it.
///
/// # Errors
/// As there; [`LinkError::TimedOut`] when the limit is over.
pub async fn primary(
    address: &StoreAddress,
    logins: Logins<'_>,
    timeout: Duration,
) -> Result<Primary<Socket>, DiscoverError> {
    let dialler = Dialler { timeout };
    let finding = discover::primary(&dialler, address, logins);
    tokio::time::timeout(timeout * 4, finding)
        .await
        .unwrap_or_else(|_| {
            let address = format!("{address:?}");
            Err(DiscoverError::Unreachable {
                address,
                error: LinkError::TimedOut,
            })
        })
}
