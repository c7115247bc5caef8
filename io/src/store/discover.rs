//! Finding a partition's primary.
//!
//! A fixed address, or the Sentinels asked one after the other. Whoever answers, `ROLE` has the
//! last word: a Sentinel can be behind, and an old primary that was paused still believes in
//! itself. Time limits are the caller's.

use super::link::{Link, LinkError, unexpected};
use conductor_config::{Login, StoreAddress};
use futures_lite::{AsyncRead, AsyncWrite};
use std::future::Future;

/// Opens sockets on the runtime of whoever asks.
pub trait Dial {
    /// A connected socket.
    type Stream: AsyncRead + AsyncWrite + Unpin;
    /// Connects, within the dialler's own time limit.
    fn dial(
        &self,
        host: &str,
        port: u16,
    ) -> impl Future<Output = Result<Self::Stream, std::io::Error>>;
}

/// Who to log in as.
#[derive(Clone, Copy, Debug, Default)]
pub struct Logins<'a> {
    /// At the stores.
    pub store: Option<&'a Login>,
    /// At the Sentinels.
    pub sentinel: Option<&'a Login>,
}

/// Why no primary was found.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// Nobody listens, or the connection failed.
    #[error("{address}: {error}")]
    Unreachable {
        /// Who was asked.
        address: String,
        /// What happened.
        error: LinkError,
    },
    /// No Sentinel knows the group.
    #[error("no Sentinel names a primary of {group}: {last}")]
    NoPrimary {
        /// The group.
        group: String,
        /// The last Sentinel's answer.
        last: String,
    },
    /// The server is there and is no primary.
    #[error("{address} is {role}, not a primary; waiting for it, or for a failover")]
    NotPrimary {
        /// Who was asked.
        address: String,
        /// What it is.
        role: String,
    },
}

/// A primary that was found.
#[derive(Debug)]
pub struct Primary<S> {
    /// The connection, logged in.
    pub link: Link<S>,
    /// Host and port.
    pub address: String,
    /// Replicas that follow it now.
    pub replicas: usize,
}

/// Connects to a partition's primary and checks that it is one.
///
/// # Errors
/// [`DiscoverError`]; all of them may pass with time, but for a login that is refused.
pub async fn primary<D: Dial>(
    dial: &D,
    address: &StoreAddress,
    logins: Logins<'_>,
) -> Result<Primary<D::Stream>, DiscoverError> {
    let (host, port) = match address {
        StoreAddress::Direct { host, port } => (host.clone(), *port),
        StoreAddress::Sentinel { hosts, name } => ask_sentinels(dial, hosts, name, logins).await?,
    };
    let address = format!("{host}:{port}");
    let unreachable = |error: LinkError| DiscoverError::Unreachable {
        address: address.clone(),
        error,
    };
    let mut link = connect(dial, &host, port, logins.store)
        .await
        .map_err(unreachable)?;
    let role = link.ask(&[b"ROLE"]).await.map_err(unreachable)?;
    let elements = role.elements().unwrap_or_default();
    match elements.first().and_then(|word| word.text()) {
        Some("master") => {
            let replicas = elements
                .get(2)
                .and_then(|list| list.elements())
                .map_or(0, <[_]>::len);
            Ok(Primary {
                link,
                address,
                replicas,
            })
        }
        Some(role) => {
            let role = if role == "slave" { "a replica" } else { role }.to_owned();
            Err(DiscoverError::NotPrimary { address, role })
        }
        None => Err(unreachable(unexpected("ROLE"))),
    }
}

async fn connect<D: Dial>(
    dial: &D,
    host: &str,
    port: u16,
    login: Option<&Login>,
) -> Result<Link<D::Stream>, LinkError> {
    let mut link = Link::new(dial.dial(host, port).await?);
    link.log_in(login).await?;
    Ok(link)
}

async fn ask_sentinels<D: Dial>(
    dial: &D,
    hosts: &[(String, u16)],
    group: &str,
    logins: Logins<'_>,
) -> Result<(String, u16), DiscoverError> {
    let mut last = "no Sentinel is configured".to_owned();
    for (host, port) in hosts {
        match ask_sentinel(dial, (host, *port), group, logins.sentinel).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => last = format!("{host}:{port} does not know the group"),
            Err(error) => last = format!("{host}:{port}: {error}"),
        }
    }
    Err(DiscoverError::NoPrimary {
        group: group.to_owned(),
        last,
    })
}

async fn ask_sentinel<D: Dial>(
    dial: &D,
    (host, port): (&str, u16),
    group: &str,
    login: Option<&Login>,
) -> Result<Option<(String, u16)>, LinkError> {
    let mut link = connect(dial, host, port, login).await?;
    let parts: [&[u8]; 3] = [b"SENTINEL", b"get-master-addr-by-name", group.as_bytes()];
    let reply = link.ask(&parts).await?;
    if reply.is_nil() {
        return Ok(None);
    }
    let elements = reply.elements().unwrap_or_default();
    let host = elements.first().and_then(|host| host.text());
    let port = elements
        .get(1)
        .and_then(|port| port.text())
        .and_then(|port| port.parse().ok());
    match (host, port) {
        (Some(host), Some(port)) => Ok(Some((host.to_owned(), port))),
        _ => Err(unexpected("SENTINEL")),
    }
}
