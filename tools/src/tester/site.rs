//! Where a running cell is: its settings for every partition, and the pages of its conductors.

use crate::client::{Pages, SettingsArgs};
use conductor_config::Settings;
use conductor_engine::PartitionId;

/// Where a running cell is, as options.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SiteArgs {
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
    /// A conductor's admin pages, such as http://127.0.0.1:9601; once for each conductor. The address
    /// in the settings unless given
    #[arg(long, value_name = "URL", help_heading = "Where the cell is")]
    admin: Vec<String>,
}

impl SiteArgs {
    /// The settings of all partitions, whichever they name for this machine, and the pages.
    pub(super) fn open(&self) -> anyhow::Result<(Settings, Pages)> {
        let named = self.settings.load()?;
        let every: Vec<PartitionId> = (0..named.partition_count).map(PartitionId).collect();
        let settings = self.settings.load_for(&every)?;
        let mut urls = self.admin.clone();
        if urls.is_empty() {
            urls.push(settings.admin_address.to_string());
        }
        Ok((settings, Pages::new(urls)))
    }
}
