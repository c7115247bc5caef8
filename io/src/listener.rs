//! The admin pages' listener: so many connections at once, and each for so long without an answer.
//!
//! Whoever may reach the pages may open a connection and say nothing, or say it a byte at a time.
//! Without these bounds that would hold descriptors and memory of the core that serves the broker.
//! Where all places are taken the next connection waits in the kernel's queue, so nothing here ever
//! refuses a page that comes in good order; it must never cut an answer that is being read.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Connections at once: probes, a scraper and some people.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may be without a byte of an answer, from its beginning or its last one:
/// longer than any page takes. A scraper that rests longer connects again.
const UNANSWERED_MAX: Duration = Duration::from_secs(30);

/// A listener that bounds what it accepts.
#[derive(Debug)]
pub(crate) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    unanswered_max: Duration,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            unanswered_max: UNANSWERED_MAX,
        }
    }

    async fn place(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.places).acquire_owned().await {
            Ok(place) => place,
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        let place = self.place().await;
        let (stream, peer) = axum::serve::Listener::accept(&mut self.listener).await;
        (BoundedStream::new(stream, self.unanswered_max, place), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when it has gone without an answer for too long.
#[derive(Debug)]
pub(crate) struct BoundedStream {
    stream: TcpStream,
    unanswered_max: Duration,
    limit: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl BoundedStream {
    fn new(stream: TcpStream, unanswered_max: Duration, place: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            unanswered_max,
            limit: Box::pin(tokio::time::sleep(unanswered_max)),
            _place: place,
        }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.limit.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// A byte of an answer was taken.
    fn answered(&mut self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes > 0) {
            let until = Instant::now() + self.unanswered_max;
            self.limit.as_mut().reset(until);
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.answered(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.answered(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::serve::Listener;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn listening() -> (BoundedListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        (BoundedListener::new(listener), address)
    }

    #[tokio::test]
    async fn who_says_a_byte_at_a_time_and_hears_nothing_is_let_go() {
        let (mut listener, address) = listening().await;
        listener.unanswered_max = Duration::from_millis(300);
        let mut client = TcpStream::connect(address).await.expect("it connects");
        let (mut stream, _) = listener.accept().await;
        stream.write_all(b"an answer").await.expect("it is taken");
        let answered = Instant::now();
        let talking = async {
            while client.write_all(b"G").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let listening = async {
            let (mut byte, mut heard) = ([0], 0);
            loop {
                match stream.read(&mut byte).await {
                    Ok(_) => heard += 1,
                    Err(error) => return (error.kind(), heard),
                }
            }
        };
        let (kind, heard) = tokio::select! {
            () = talking => panic!("it is the listener that ends it"),
            ended = listening => ended,
        };
        assert_eq!(kind, io::ErrorKind::TimedOut);
        assert!(heard > 0 && answered.elapsed() >= listener.unanswered_max);
    }

    #[tokio::test]
    async fn one_connection_too_many_waits_for_a_place() {
        let (mut listener, address) = listening().await;
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let client = TcpStream::connect(address).await.expect("it connects");
            held.push((client, listener.accept().await));
        }
        let _waiting = TcpStream::connect(address)
            .await
            .expect("the kernel takes it");
        let soon = Duration::from_millis(200);
        let crowded = tokio::time::timeout(soon, listener.accept()).await;
        assert!(crowded.is_err(), "there is no place");
        held.pop();
        let within = Duration::from_secs(10);
        let accepted = tokio::time::timeout(within, listener.accept()).await;
        assert!(accepted.is_ok(), "there is one now");
    }
}
