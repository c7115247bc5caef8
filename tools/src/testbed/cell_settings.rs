//! The settings with which our binaries find the servers of a test bed.

use super::cell::{CellServers, GROUP};
use super::error::Result;
use super::rabbit;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a process looks for the stores.
#[derive(Clone, Debug)]
pub enum StoreAddresses {
    /// The primary of each partition, in order.
    Direct(Vec<SocketAddr>),
    /// The Sentinels to ask.
    Sentinels(Vec<SocketAddr>),
}

/// The settings of a process of this cell, before they are written.
#[derive(Clone, Debug)]
pub struct CellSettings<'a> {
    pub(super) cell: &'a CellServers,
    /// The broker's nodes.
    pub brokers: Vec<SocketAddr>,
    /// The stores.
    pub stores: StoreAddresses,
    /// How many replicas must confirm; none means the policy `memory`.
    pub replicas: usize,
}

impl CellSettings<'_> {
    /// Writes them to a file in the cell's folder, which only this user can read.
    pub fn write(&self, name: &str) -> Result<PathBuf> {
        self.cell.folder().secret_file(name, &self.text())
    }

    fn text(&self) -> String {
        let rabbit = self.cell.rabbit();
        let brokers: Vec<String> = self.brokers.iter().map(|node| rabbit::uri(*node)).collect();
        let mut text = format!(
            "[topology]\npartition_count = {}\n\n\
             [broker]\nuri = {:?}\nusername = {:?}\npassword_file = {:?}\n\n\
             [store]\nusername = \"conductor\"\npassword_file = {:?}\n\n\
             [cores]\nshare = true\n\n",
            self.cell.partitions(),
            brokers.join(","),
            rabbit.user(),
            rabbit.password_file(),
            self.cell.store_password_file(),
        );
        let _ = match self.replicas {
            0 => writeln!(text, "[durability]\npolicy = \"memory\"\n"),
            count => writeln!(
                text,
                "[durability]\npolicy = \"aof-replicated\"\nreplicas = {count}\n"
            ),
        };
        let _ = match &self.stores {
            StoreAddresses::Sentinels(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(SocketAddr::to_string).collect();
                writeln!(text, "[sentinel]\nhosts = {hosts:?}\nname = {GROUP:?}")
            }
            StoreAddresses::Direct(servers) => {
                servers.iter().enumerate().try_for_each(|(number, server)| {
                    let (host, port) = (server.ip(), server.port());
                    writeln!(
                        text,
                        "[[partition]]\nnumber = {number}\nhost = \"{host}\"\nport = {port}\n"
                    )
                })
            }
        };
        text
    }
}
