//! Asking the admin pages of a cell's instances, of which one owns the partition.

use crate::testbed::fetch;
use conductor_engine::PartitionId;
use serde_json::Value;

/// What an instance answers: status and body, or why it did not.
pub type Page = Result<(u16, String), String>;

/// Why the pages gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// Nobody answered.
    #[error(
        "no admin page answered at {urls}: {last}; is the process running, and is --admin right?"
    )]
    Silent {
        /// Who was asked.
        urls: String,
        /// The last one's failure.
        last: String,
    },
    /// They answered, and none could say.
    #[error("no instance at {urls} can answer {page}: {last}")]
    Unanswered {
        /// Who was asked.
        urls: String,
        /// For what.
        page: String,
        /// The last answer.
        last: String,
    },
}

/// The admin pages of some instances.
#[derive(Clone, Debug)]
pub struct Pages {
    urls: Vec<String>,
}

impl Pages {
    /// Pages at these addresses, with or without `http://`.
    pub fn new(urls: impl IntoIterator<Item = String>) -> Self {
        let whole = |url: String| {
            let url = url.trim_end_matches('/');
            if url.starts_with("http://") {
                url.to_owned()
            } else {
                format!("http://{url}")
            }
        };
        Self {
            urls: urls.into_iter().map(whole).collect(),
        }
    }

    /// The addresses.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The same pages with the owner of a partition in front, where one says that it is: only it
    /// has the book in memory.
    pub fn owner_first(&self, partition: PartitionId) -> Self {
        let owns = |answer: &Page| {
            let body: Option<Value> = answer
                .as_ref()
                .ok()
                .and_then(|(_, body)| serde_json::from_str(body).ok());
            let partitions = body.as_ref().and_then(|body| body["partitions"].as_array());
            partitions
                .into_iter()
                .flatten()
                .any(|own| own["partition"] == partition.0 && own["role"] == "active")
        };
        let ready = self.each("/ready");
        let (owner, others): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|(_, answer)| owns(answer));
        let urls = owner
            .into_iter()
            .chain(others)
            .map(|(url, _)| url)
            .collect();
        Self { urls }
    }

    /// What every instance answers on a page: its status and body, or why it did not.
    pub fn each(&self, page: &str) -> Vec<(String, Page)> {
        let ask = |url: &String| (url.clone(), fetch(&format!("{url}{page}")));
        self.urls.iter().map(ask).collect()
    }

    /// The answer of the first instance that can give one, as JSON: on a page about a pair that is
    /// the partition's owner.
    ///
    /// # Errors
    /// [`PagesError`] with the last one's words.
    pub fn first(&self, page: &str) -> Result<Value, PagesError> {
        let urls = self.urls.join(", ");
        let mut refused = None;
        let mut silent = "there is no address to ask".to_owned();
        for (url, answer) in self.each(page) {
            match answer {
                Ok((200, body)) => match serde_json::from_str(&body) {
                    Ok(value) => return Ok(value),
                    Err(error) => refused = Some(format!("{url} answered no JSON: {error}")),
                },
                Ok((status, body)) => {
                    refused = Some(format!("{url} answered {status}: {}", body.trim()));
                }
                Err(error) => silent = format!("{url}: {error}"),
            }
        }
        let page = page.to_owned();
        Err(match refused {
            Some(last) => PagesError::Unanswered { urls, page, last },
            None => PagesError::Silent { urls, last: silent },
        })
    }
}
