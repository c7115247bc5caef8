//! Where a process listens, by the kernel's tables.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;

/// Every address that a process takes connections on.
pub(crate) fn listening(process: u32) -> BTreeSet<SocketAddr> {
    let links = fs::read_dir(format!("/proc/{process}/fd"))
        .expect("it runs")
        .flatten();
    let sockets: BTreeSet<String> = links
        .filter_map(|link| fs::read_link(link.path()).ok())
        .filter_map(|target| {
            let target = target.to_str()?.strip_prefix("socket:[")?;
            Some(target.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut found = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for row in table.lines().skip(1) {
            let fields: Vec<&str> = row.split_whitespace().collect();
            if fields[3] == "0A" && sockets.contains(fields[9]) {
                found.insert(address(fields[1]));
            }
        }
    }
    found
}

/// An address of version 4 as the kernel writes it; one of version 6 is none that we expect.
fn address(text: &str) -> SocketAddr {
    let (host, port) = text.split_once(':').expect("an address and a port");
    let host = u32::from_str_radix(host, 16).unwrap_or_else(|_| panic!("listening on {text}"));
    let port = u16::from_str_radix(port, 16).expect("a port");
    SocketAddr::from((host.to_le_bytes(), port))
}
