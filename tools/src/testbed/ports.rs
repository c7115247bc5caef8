//! Free ports on 127.0.0.1 that no other test takes in the meantime.
//!
//! Binding port 0 and letting go again is a race that tests on two cores do lose: between the two
//! steps the kernel gives the same port to another test, or to an outgoing connection. So ports are
//! taken below the range that the kernel uses for outgoing connections, and each is held by a lock
//! on a file of its name in a folder that all test beds of this user share. The lock goes with the
//! process, however it ends.

use super::error::{Result, TestbedError, file};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

/// Above the ports that RabbitMQ (15672) and most others have by default.
const FIRST: u16 = 17_000;
/// Where the kernel's own range begins when it cannot be read; this is its usual begin.
const EPHEMERAL_USUAL: u16 = 32_768;
/// The default ports of Sentinel and of RabbitMQ's distribution, for whoever installs them later.
const KEPT_FREE: [u16; 2] = [25_672, 26_379];

/// A port that is ours until this is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Takes a free port.
    pub fn take() -> Result<Self> {
        let folder = shared_folder()?;
        let last = last_port();
        let width = u32::from(last - FIRST) + 1;
        let start = fastrand::u32(0..width);
        for step in 0..width {
            let offset = u16::try_from((start + step) % width).unwrap_or(0);
            let number = FIRST + offset;
            if KEPT_FREE.contains(&number) {
                continue;
            }
            if let Some(port) = Self::try_take(&folder, number)? {
                return Ok(port);
            }
        }
        Err(TestbedError::NoPort { first: FIRST, last })
    }

    fn try_take(folder: &std::path::Path, number: u16) -> Result<Option<Self>> {
        let path = folder.join(number.to_string());
        let lock = File::create(&path).map_err(file("make", &path))?;
        if lock.try_lock().is_err() || TcpListener::bind(address(number)).is_err() {
            return Ok(None);
        }
        Ok(Some(Self {
            number,
            _lock: lock,
        }))
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its address on the loopback.
    pub fn address(&self) -> SocketAddr {
        address(self.number)
    }
}

fn address(number: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, number))
}

/// The last port below the range of outgoing connections. Where that range begins below ours
/// there is no room beneath it, and ours keeps its usual end.
fn last_port() -> u16 {
    let begin = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(EPHEMERAL_USUAL);
    if begin > FIRST + 1_000 {
        begin - 1
    } else {
        EPHEMERAL_USUAL - 1
    }
}

/// The folder of the lock files. Another user's folder of that name is not used: the name is easy
/// to guess, and what it leads to would be theirs to choose.
fn shared_folder() -> Result<PathBuf> {
    let own = fs::metadata("/proc/self")
        .map_err(file("read", "/proc/self"))?
        .uid();
    let path = std::env::temp_dir().join(format!("conductor-ports-{own}"));
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(file("make", &path)(error));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&path).map_err(file("read", &path))?;
    if !found.is_dir() || found.uid() != own {
        let reason = std::io::Error::other("it belongs to somebody else");
        return Err(file("use", &path)(reason));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_held_at_once_differ_and_are_free() {
        let held: Vec<Port> = (0..50).map(|_| Port::take().expect("a port")).collect();
        let numbers: BTreeSet<u16> = held.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), held.len());
        for port in &held {
            TcpListener::bind(port.address()).expect("the port is free");
        }
    }

    #[test]
    fn a_port_in_use_or_held_is_not_given() {
        let held = Port::take().expect("a port");
        let folder = shared_folder().expect("the folder");
        assert!(
            Port::try_take(&folder, held.number())
                .expect("no error")
                .is_none()
        );
        let number = held.number();
        drop(held);
        let _listening = TcpListener::bind(address(number)).expect("the port is free");
        assert!(Port::try_take(&folder, number).expect("no error").is_none());
    }
}
