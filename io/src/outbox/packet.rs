//! One thing asked of the store, with the connection going in and coming back.

use super::entry::StreamEntry;
use super::plan::{Outcome, Plan, StoreError, StoreLink, Wait, connect};
use super::store::{self, Hold, Read};
use conductor_engine::outbox::Action;
use conductor_engine::partition::Confirmed;
use std::sync::Arc;

/// What came of it, with the connection for the next packet.
pub(super) type Packet = Outcome<(StoreLink, Done)>;

/// What the store has done.
#[derive(Debug)]
pub(super) enum Done {
    /// It is connected and the right one.
    Connected,
    /// Whose the lease is.
    Lease(Hold),
    /// The lease is given up.
    Released,
    /// What a read brought; the replies of its wait for disks are still to come.
    Read(Read),
    /// What that wait brought.
    Confirmed(Confirmed),
    /// Whose the lease is by now, and what a further wait brought.
    AwaitedDisks(Hold, Confirmed),
    /// There may be events.
    Awaited,
    /// The dead letters are there.
    DeadLettered,
    /// What was confirmed is deleted, and the failed try is counted.
    Settled,
}

/// Asks the store for what an action wants. `batch` is what was read, for dead letters alone.
pub(super) async fn exchange(
    action: Action,
    link: Option<StoreLink>,
    plan: Arc<Plan>,
    batch: Vec<StreamEntry>,
) -> Packet {
    match (action, link) {
        (Action::ConnectStore, _) => Ok((connect(&plan).await?, Done::Connected)),
        (Action::ReleaseLease, link) => {
            Ok((store::release_lease(link, &plan).await?, Done::Released))
        }
        (action, Some(mut link)) => {
            let done = ask(action, &mut link, &plan, batch).await?;
            Ok((link, done))
        }
        (_, None) => Err(StoreError::Lost("there is no connection".to_owned())),
    }
}

async fn ask(
    action: Action,
    link: &mut StoreLink,
    plan: &Plan,
    batch: Vec<StreamEntry>,
) -> Outcome<Done> {
    Ok(match (action, plan.wait) {
        (Action::TakeLease | Action::RenewLease, _) => {
            Done::Lease(store::take_lease(link, plan).await?)
        }
        (Action::Read { delete, count }, _) => {
            Done::Read(store::read(link, plan, &delete, count).await?)
        }
        (Action::AwaitDisks, Some(wait)) => {
            let (held, confirmed) = store::await_disks(link, plan, wait).await?;
            Done::AwaitedDisks(held, confirmed)
        }
        (Action::AwaitEvents, _) => {
            store::await_events(link, plan).await?;
            Done::Awaited
        }
        (Action::DeadLetter(letters), _) => {
            store::dead_letter(link, plan, &with_reasons(batch, letters)).await?;
            Done::DeadLettered
        }
        (Action::Settle { delete, failed }, _) => {
            store::settle(link, plan, &delete, failed.as_deref()).await?;
            Done::Settled
        }
        (other, _) => {
            let reason = format!("the store was asked for what it cannot do: {other:?}");
            return Err(StoreError::Lost(reason));
        }
    })
}

/// Takes the replies of the wait that was sent behind a read.
pub(super) async fn wait_of_read(mut link: StoreLink, wait: Wait) -> Packet {
    let confirmed = store::confirmed(&mut link, wait).await?;
    Ok((link, Done::Confirmed(confirmed)))
}

/// The entries at these places, each with its reason. The places ascend.
fn with_reasons(
    batch: Vec<StreamEntry>,
    letters: Vec<(usize, String)>,
) -> Vec<(StreamEntry, String)> {
    let mut letters = letters.into_iter().peekable();
    let entries = batch.into_iter().enumerate();
    let chosen = entries.filter_map(|(place, entry)| {
        let (_, reason) = letters.next_if(|(letter, _)| *letter == place)?;
        Some((entry, reason))
    });
    chosen.collect()
}
