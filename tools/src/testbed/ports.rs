//! Free ports on 127.0.0.1 that no other test takes in the meantime.
//!
//! Binding port 0 and letting go again is a race that tests on two cores do lose: between the two
//! steps the kernel gives the same port to another test, or to an outgoing connection. So ports are
//! taken below the range that the kernel uses for outgoing connections, and each is held by a
//! socket in the abstract name space, whose name is the port's. Such a name is taken by one process
//! at a time, reaches as far as the ports themselves do, leaves no file, and goes with the process
//! however that ends.

use super::error::{Result, TestbedError};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};

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
    _held: UnixListener,
}

impl Port {
    /// Takes a free port.
    pub fn take() -> Result<Self> {
        let last = last_port();
        let width = u32::from(last - FIRST) + 1;
        let start = fastrand::u32(0..width);
        for step in 0..width {
            let offset = u16::try_from((start + step) % width).unwrap_or(0);
            let number = FIRST + offset;
            if KEPT_FREE.contains(&number) {
                continue;
            }
            if let Some(port) = Self::try_take(number) {
                return Ok(port);
            }
        }
        Err(TestbedError::NoPort { first: FIRST, last })
    }

    fn try_take(number: u16) -> Option<Self> {
        let name = UnixAddress::from_abstract_name(format!("conductor-port-{number}")).ok()?;
        let held = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind(address(number)).ok()?;
        Some(Self {
            number,
            _held: held,
        })
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
        assert!(Port::try_take(held.number()).is_none());
        let number = held.number();
        drop(held);
        let _listening = TcpListener::bind(address(number)).expect("the port is free");
        assert!(Port::try_take(number).is_none());
    }
}
