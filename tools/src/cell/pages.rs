//! What the commands that read the admin pages share.

use crate::client::{Pages, SettingsArgs};
use conductor_config::Settings;
use conductor_engine::PairId;

/// Whose admin pages to read.
#[derive(Debug, clap::Args)]
pub(super) struct PagesArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// A conductor's admin pages, such as http://127.0.0.1:9601; may be repeated. The address in
    /// the settings unless given
    #[arg(long, value_name = "URL", help_heading = "Where the cell is")]
    admin: Vec<String>,
}

impl PagesArgs {
    /// The settings, and the conductors' pages.
    pub(super) fn open(&self) -> anyhow::Result<(Settings, Pages)> {
        let settings = self.settings.load()?;
        let mut urls = self.admin.clone();
        if urls.is_empty() {
            urls.push(settings.admin_address.to_string());
        }
        Ok((settings, Pages::new(urls)))
    }

    /// Whether anybody has said where the pages are.
    pub(super) fn are_named(&self) -> bool {
        !self.admin.is_empty() || self.settings.are_named()
    }

    /// The conductors' pages, the owner of a pair's partition first.
    pub(super) fn for_pair(&self, pair: PairId) -> anyhow::Result<Pages> {
        let (settings, pages) = self.open()?;
        Ok(match pages.urls() {
            [_] => pages,
            _ => pages.owner_first(pair.partition(settings.partition_count)),
        })
    }
}
