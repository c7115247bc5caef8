//! `/reconcile`: does a pair's index agree with its records, and the book in memory with both.
//!
//! The scan reads a book that moves, so what it finds are suspects and never issues. Each of them
//! is read again in one transaction: by the partition's core, at a moment when its memory and the
//! store must agree, or by the page itself where this process owns no memory of the partition. Only
//! what is still wrong there is reported. A pair's index is read in one go per side, at most ten
//! thousand members, so that no member is missed because another one came or went; the records
//! follow in smaller packets, which hold the store up less than one large one.

use super::answer::{self, Parameters, problem};
use super::ask::{self, ANSWER_TIMEOUT, Silence, VERIFY_TIMEOUT};
use super::{PartitionHandle, Shared, Site, store};
use crate::keys::Keys;
use crate::messages::{Issue, IssueKind, OrderView, Question, Suspect};
use crate::reconcile::{
    JudgeError, judge, member_suspect, memory_suspect, pack_reads, suspects_packet, verdicts,
};
use crate::resp::{Packer, Reply};
use crate::store::discover::DiscoverError;
use crate::store::over_tokio::Socket;
use crate::store::{LinkError, refused, unexpected};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use conductor_engine::limits::{RECONCILE_ISSUES_MAX, RECONCILE_MEMBERS_MAX};
use conductor_engine::{PairId, Side};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// How long the store may take for one packet.
const PACKET_TIMEOUT: Duration = Duration::from_secs(5);
/// Members whose records one packet of the scan reads.
const SCAN_MEMBERS: usize = 500;
/// Suspects that one transaction reads; it holds the partition and its store up for that long.
const VERIFY_SUSPECTS: usize = 200;

type Link = crate::store::Link<Socket>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reconciled {
    pair_id: u32,
    partition: u32,
    indexed_orders: u64,
    scanned_orders: usize,
    truncated: bool,
    healthy: bool,
    issues: Vec<String>,
}

/// Why nothing can be said about a book.
#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error("the store cannot be reached: {0}")]
    Unreachable(#[from] DiscoverError),
    #[error("the store cannot be read: {0}")]
    Unreadable(#[from] LinkError),
    #[error("the store cannot be compared: {0}")]
    Incomparable(#[from] JudgeError),
    #[error("{0}; its book cannot be compared")]
    Silent(#[from] Silence),
}

pub(super) async fn page(State(site): Shared, parameters: Parameters) -> Response {
    answered(&site, parameters)
        .await
        .unwrap_or_else(|refusal| *refusal)
}

async fn answered(site: &Site, parameters: Parameters) -> Result<Response, Box<Response>> {
    let [pair] = answer::take(parameters, ["pairId"])?;
    let pair = answer::pair(pair.as_deref())?;
    let (_, handle) = site.owner_of(pair)?;
    // One at a time: each of them costs a store tens of thousands of reads.
    let _turn = site.reconciling.lock().await;
    Ok(match reconcile(site, handle, pair).await {
        Ok(reconciled) => answer::json(StatusCode::OK, &reconciled),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    })
}

async fn reconcile(
    site: &Site,
    handle: &PartitionHandle,
    pair: PairId,
) -> Result<Reconciled, ReconcileError> {
    Reconcile::begin(site, handle, pair).await?.run().await
}

/// One comparison under way.
struct Reconcile<'a> {
    handle: &'a PartitionHandle,
    keys: Keys,
    pair: PairId,
    link: Link,
    /// The orders in memory; `None` where this process does not own the partition.
    memory: Option<HashMap<String, OrderView>>,
}

/// A pair's index.
#[derive(Default)]
struct Index {
    /// Members of both sides together.
    members: u64,
    /// Those that were read.
    scanned: Vec<Suspect>,
    /// Those that are not even text, and so can never have been ours.
    foreign: Vec<Issue>,
    truncated: bool,
}

impl<'a> Reconcile<'a> {
    async fn begin(
        site: &Site,
        handle: &'a PartitionHandle,
        pair: PairId,
    ) -> Result<Self, ReconcileError> {
        let link = store::connect(site, handle).await?;
        let question = |answer| Question::Orders {
            pair,
            orders_max: RECONCILE_MEMBERS_MAX,
            answer,
        };
        let orders = ask::ask(handle, ANSWER_TIMEOUT, question).await?;
        let by_id = |orders: Vec<OrderView>| {
            orders
                .into_iter()
                .map(|order| (order.id.to_string(), order))
                .collect()
        };
        let keys = Keys::new(handle.partition);
        Ok(Self {
            handle,
            keys,
            pair,
            link,
            memory: orders.map(by_id),
        })
    }

    async fn run(mut self) -> Result<Reconciled, ReconcileError> {
        let index = self.index().await?;
        let suspects = self.suspects(&index.scanned).await?;
        let (issues, all) = self.issues(index.foreign, &suspects).await?;
        let truncated = index.truncated || !all;
        Ok(Reconciled {
            pair_id: self.pair.0,
            partition: self.handle.partition.0,
            indexed_orders: index.members,
            scanned_orders: index.scanned.len(),
            truncated,
            healthy: issues.is_empty() && !truncated,
            issues,
        })
    }

    async fn index(&mut self) -> Result<Index, ReconcileError> {
        let mut index = Index::default();
        for side in [Side::Ask, Side::Bid] {
            self.side(side, &mut index).await?;
        }
        Ok(index)
    }

    /// How many members a side has, and the best of them; both at one moment.
    async fn side(&mut self, side: Side, index: &mut Index) -> Result<(), ReconcileError> {
        let key = self.keys.book(self.pair, side);
        let last = (RECONCILE_MEMBERS_MAX - 1).to_string();
        let range: &[u8] = if side == Side::Ask {
            b"ZRANGE"
        } else {
            b"ZREVRANGE"
        };
        let replies = packet(&mut self.link, |packer| {
            packer.start(b"MULTI").end();
            packer.start(b"ZCARD").part(key.as_bytes()).end();
            packer
                .start(range)
                .part(key.as_bytes())
                .part(b"0")
                .part(last.as_bytes())
                .end();
            packer.start(b"EXEC").end();
        })
        .await?;
        let (count, members) = counted(replies.last())?;
        index.members += count;
        index.truncated |= count > RECONCILE_MEMBERS_MAX as u64;
        for member in members {
            let bytes = member.bytes().unwrap_or_default();
            match std::str::from_utf8(bytes) {
                Ok(member) => index.scanned.push(member_suspect(side, member)),
                Err(_) => {
                    let order = String::from_utf8_lossy(bytes).into_owned();
                    index.foreign.push(Issue {
                        side,
                        order,
                        kind: IssueKind::MissingOrder,
                    });
                }
            }
        }
        Ok(())
    }

    /// What looks wrong in a book that moves.
    async fn suspects(&mut self, scanned: &[Suspect]) -> Result<Vec<Suspect>, ReconcileError> {
        let mut suspects = Vec::new();
        let mut seen = HashSet::new();
        for chunk in scanned.chunks(SCAN_MEMBERS) {
            let (keys, pair) = (&self.keys, self.pair);
            let replies = packet(&mut self.link, |packer| {
                pack_reads(keys, pair, chunk, packer)
            })
            .await?;
            let verdicts = self.verdicts(&replies, chunk)?;
            let wrong = chunk
                .iter()
                .zip(verdicts)
                .filter(|(_, issue)| issue.is_some());
            suspects.extend(wrong.map(|(suspect, _)| suspect.clone()));
            seen.extend(chunk.iter().map(|suspect| suspect.order.as_str()));
        }
        let memory = self.memory.iter().flatten();
        let unseen = memory.filter(|(order, _)| !seen.contains(order.as_str()));
        suspects.extend(unseen.map(|(_, view)| memory_suspect(view)));
        Ok(suspects)
    }

    fn verdicts(
        &self,
        replies: &[Reply],
        chunk: &[Suspect],
    ) -> Result<Vec<Option<Issue>>, JudgeError> {
        match &self.memory {
            None => verdicts(replies, self.pair, chunk, None),
            Some(memory) => {
                let known = |order: &str| memory.get(order).cloned();
                verdicts(replies, self.pair, chunk, Some(&known))
            }
        }
    }

    /// What is really wrong, up to a bound, and whether that is all.
    async fn issues(
        &mut self,
        foreign: Vec<Issue>,
        suspects: &[Suspect],
    ) -> Result<(Vec<String>, bool), ReconcileError> {
        let mut issues: Vec<String> = foreign.iter().map(ToString::to_string).collect();
        let mut chunks = suspects.chunks(VERIFY_SUSPECTS);
        while issues.len() < RECONCILE_ISSUES_MAX {
            let Some(chunk) = chunks.next() else { break };
            for issue in self.verify(chunk).await? {
                let issue = issue.to_string();
                if !issues.contains(&issue) {
                    issues.push(issue);
                }
            }
        }
        let all = chunks.next().is_none() && issues.len() <= RECONCILE_ISSUES_MAX;
        issues.truncate(RECONCILE_ISSUES_MAX);
        Ok((issues, all))
    }

    /// Reads suspects again, each with its record in one transaction.
    async fn verify(&mut self, suspects: &[Suspect]) -> Result<Vec<Issue>, ReconcileError> {
        if self.memory.is_some() {
            let (pair, suspects) = (self.pair, suspects.to_vec());
            let question = |answer| Question::Verify {
                pair,
                suspects,
                answer,
            };
            if let Some(issues) = ask::ask(self.handle, VERIFY_TIMEOUT, question).await? {
                return Ok(issues);
            }
            // Ownership went elsewhere meanwhile, and what memory said is worth nothing now.
            self.memory = None;
        }
        let (keys, pair) = (&self.keys, self.pair);
        let replies = packet(&mut self.link, |packer| {
            suspects_packet(keys, pair, suspects, packer);
        })
        .await?;
        Ok(judge(
            replies.last().unwrap_or(&Reply::Nil),
            pair,
            suspects,
            None,
        )?)
    }
}

/// The two parts of a side's reply.
fn counted(exec: Option<&Reply>) -> Result<(u64, &[Reply]), LinkError> {
    if let Some(words) = exec.and_then(Reply::first_error) {
        return Err(refused("EXEC", words));
    }
    let read = || {
        let [count, members] = exec?.elements()? else {
            return None;
        };
        Some((u64::try_from(count.integer()?).ok()?, members.elements()?))
    };
    read().ok_or_else(|| unexpected("EXEC"))
}

/// One packet and all its replies, within the limit.
async fn packet(
    link: &mut Link,
    pack: impl FnOnce(&mut Packer<'_>),
) -> Result<Vec<Reply>, LinkError> {
    let asking = link.ask_all(pack);
    tokio::time::timeout(PACKET_TIMEOUT, asking)
        .await
        .unwrap_or(Err(LinkError::TimedOut))
}
