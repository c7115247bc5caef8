//! What `chaos` and `soak` are told in common: the site, and how much it has to do.

use super::kind::FaultKind;
use super::site::SiteOptions;
use crate::testbed::Versions;
use crate::tester::traffic::TrafficOptions;
use std::fmt::Write;
use std::path::PathBuf;

/// The site under test, as options.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::tester) struct SiteArgs {
    /// How many partitions; both conductors serve all of them
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4), help_heading = "The site")]
    partitions: u32,
    /// How many replicas each primary has
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=3), help_heading = "The site")]
    replicas: u8,
    /// How many replicas must confirm a command; all of them unless given
    #[arg(long, value_name = "COUNT", help_heading = "The site",
          value_parser = clap::value_parser!(u8).range(1..=3))]
    durable_replicas: Option<u8>,
    /// How many nodes the broker has, 1 or 3
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "The site",
          value_parser = clap::value_parser!(u8).range(1..=3))]
    nodes: u8,
    /// Which servers to run; what CONDUCTOR_VERSIONS says unless given, and the host's without that
    #[arg(long, value_name = "SET", help_heading = "The site")]
    versions: Option<VersionSet>,
    /// Commands a second
    #[arg(long, value_name = "COMMANDS", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=20_000), help_heading = "The site")]
    rate: u32,
}

/// A set of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum VersionSet {
    /// What is installed on this machine
    Host,
    /// RabbitMQ 4 and Valkey 8.1 of Debian 13, which `tools/setup --second-versions` fetches
    #[value(name = "debian-13")]
    Debian13,
}

impl SiteArgs {
    /// How many replicas must confirm.
    pub(in crate::tester) fn durable_replicas(&self) -> u8 {
        self.durable_replicas.unwrap_or(self.replicas)
    }

    /// What of the site rules a kind out, in words that say what to change.
    pub(in crate::tester) fn rules_out(&self, kind: FaultKind) -> Option<&'static str> {
        match kind {
            FaultKind::BrokerNodeKill if self.nodes < 2 => {
                Some("the broker has one node; --nodes 3 gives it more")
            }
            FaultKind::PrimaryPause if self.durable_replicas() < self.replicas => Some(
                "fewer disks than there are: a primary that comes back may have confirmed what the \
                 promoted replica never had, and the partition then halts by design; ask for all \
                 disks with --durable-replicas",
            ),
            _ => None,
        }
    }

    /// The site for these kinds of faults.
    pub(in crate::tester) fn site(&self, kinds: &[FaultKind]) -> anyhow::Result<SiteOptions> {
        anyhow::ensure!(
            self.durable_replicas() <= self.replicas,
            "{} replicas must confirm and there are {}; lower --durable-replicas",
            self.durable_replicas(),
            self.replicas
        );
        let versions = match self.versions {
            None => None,
            Some(VersionSet::Host) => Some(Versions::Host),
            Some(VersionSet::Debian13) => Some(Versions::debian_13()?),
        };
        Ok(SiteOptions {
            partitions: self.partitions,
            replicas: self.replicas.into(),
            durable_replicas: self.durable_replicas().into(),
            nodes: self.nodes.into(),
            versions,
            small_disk: kinds.contains(&FaultKind::DiskFull).then_some(SMALL_DISK),
        })
    }

    /// The traffic of a seed.
    pub(in crate::tester) fn traffic(&self, seed: u64, record: PathBuf) -> TrafficOptions {
        TrafficOptions {
            seed,
            rate: Some(f64::from(self.rate)),
            ..TrafficOptions::new(record)
        }
    }

    /// The same as words of a command line, what is usual left out.
    pub(in crate::tester) fn words(&self) -> String {
        let mut words = String::new();
        let mut word = |name: &str, value: u32, usual: u32| {
            if value != usual {
                let _ = write!(words, " --{name} {value}");
            }
        };
        word("partitions", self.partitions, 1);
        word("replicas", self.replicas.into(), 1);
        word(
            "durable-replicas",
            self.durable_replicas().into(),
            self.replicas.into(),
        );
        word("nodes", self.nodes.into(), 1);
        word("rate", self.rate, 200);
        match self.versions {
            None => {}
            Some(VersionSet::Host) => words.push_str(" --versions host"),
            Some(VersionSet::Debian13) => words.push_str(" --versions debian-13"),
        }
        words
    }
}

/// Room for what a run writes, files that are being rewritten included, and little enough to be
/// filled in a moment.
const SMALL_DISK: u64 = 1 << 30;
