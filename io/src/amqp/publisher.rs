//! Publishing with confirms: a message counts when the broker has said that a queue has it.
//!
//! One task per channel publishes in the order of the calls and gathers the confirms. It exists
//! because of the returns: a mandatory message that no queue takes comes back *and* is
//! acknowledged, and the client library hands a returned message to whichever acknowledgement it
//! settles next. When one acknowledgement covers several messages, in no order of theirs, that is
//! not the message that came back, and a caller would believe a lost message to be confirmed: of
//! 5,000 messages, 714 of which no queue took, it called four lost ones confirmed in one run. So
//! nothing is told to a caller until every confirm that is there has been gathered, and a return
//! counts for the messages that it names.

use super::{AmqpError, PublishError, close_channel, open_channel, within};
use futures_util::stream::{FuturesUnordered, Stream};
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionStatus};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The exchange; the default one has no name and takes a queue's name as routing key.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// Its properties. A mandatory message should have a message id, by which its return is known.
    pub properties: BasicProperties,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether it is to fail when no queue takes it.
    pub mandatory: bool,
}

/// A channel that publishes with confirms. How many publications are open is the caller's to bound.
///
/// Dropping it ends the channel after what was published before; [`Publisher::close`] waits for it.
#[derive(Debug)]
pub struct Publisher {
    requests: mpsc::UnboundedSender<Request>,
    connection: ConnectionStatus,
    task: JoinHandle<()>,
}

/// The outcome of one publication, to be awaited. Dropping it does not take the message back.
#[derive(Debug)]
pub struct Publication(oneshot::Receiver<Result<(), PublishError>>);

#[derive(Debug)]
struct Request {
    message: Outgoing,
    answer: oneshot::Sender<Result<(), PublishError>>,
}

impl Publisher {
    /// Opens a channel of its own with confirms on. `confirm_within` is how long the broker may
    /// leave a message unconfirmed while it takes messages; while it blocks, it may take for ever.
    ///
    /// # Errors
    /// [`AmqpError`] when the channel cannot be opened.
    pub async fn open(
        connection: &Connection,
        confirm_within: Duration,
    ) -> Result<Self, AmqpError> {
        let channel = open_channel(connection).await?;
        let selecting = channel.confirm_select(ConfirmSelectOptions::default());
        within("switching confirms on", selecting).await?;
        let (requests, received) = mpsc::unbounded_channel();
        let status = connection.status().clone();
        let desk = Desk::new(channel, status.clone(), confirm_within);
        let task = tokio::spawn(desk.run(received));
        Ok(Self {
            requests,
            connection: status,
            task,
        })
    }

    /// Publishes a message behind all earlier ones.
    pub fn publish(&self, message: Outgoing) -> Publication {
        let (answer, outcome) = oneshot::channel();
        // With the task gone the answer is dropped, which the publication reports as lost.
        let _ = self.requests.send(Request { message, answer });
        Publication(outcome)
    }

    /// Whether the channel still publishes. A broker that is gone shows at the next heartbeat.
    pub fn is_usable(&self) -> bool {
        !self.requests.is_closed() && self.connection.connected()
    }

    /// Whether the broker takes no messages at the moment, for want of memory or disk.
    pub fn is_blocked(&self) -> bool {
        self.connection.blocked()
    }

    /// Waits until the channel no longer publishes.
    pub async fn closed(&self) {
        self.requests.closed().await;
    }

    /// Ends the channel after what was published before, and waits until it has ended.
    pub async fn close(self) {
        let Self { requests, task, .. } = self;
        drop(requests);
        // A task that panicked has ended too.
        let _ = task.await;
    }
}

impl Future for Publication {
    type Output = Result<(), PublishError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| {
            let gone = || PublishError::Lost("the channel is closed".to_owned());
            answer.unwrap_or_else(|_| Err(gone()))
        })
    }
}

type Settled = (u64, lapin::Result<Confirmation>);
type Flight = Pin<Box<dyn Future<Output = Settled> + Send>>;

/// What is known of a message until its caller has been answered.
struct Open {
    exchange: ShortString,
    routing_key: ShortString,
    message_id: Option<ShortString>,
    since: Instant,
    returned: bool,
    answer: oneshot::Sender<Result<(), PublishError>>,
}

/// The task behind a publisher.
struct Desk {
    channel: Channel,
    connection: ConnectionStatus,
    confirm_within: Duration,
    /// By number, so the first is the oldest.
    open: BTreeMap<u64, Open>,
    flights: FuturesUnordered<Flight>,
    /// Gathered and not yet told.
    settled: Vec<Settled>,
    published: u64,
}

impl Desk {
    fn new(channel: Channel, connection: ConnectionStatus, confirm_within: Duration) -> Self {
        Self {
            channel,
            connection,
            confirm_within,
            open: BTreeMap::new(),
            flights: FuturesUnordered::new(),
            settled: Vec::new(),
            published: 0,
        }
    }

    async fn run(mut self, mut received: mpsc::UnboundedReceiver<Request>) {
        let mut accepting = true;
        let failure = loop {
            if !accepting && self.open.is_empty() {
                break PublishError::Lost("it was closed".to_owned());
            }
            let busy = !self.open.is_empty();
            let oldest = self.open.values().next().map(|open| open.since);
            let late = oldest.unwrap_or_else(Instant::now) + self.confirm_within;
            tokio::select! {
                request = received.recv(), if accepting => match request {
                    Some(request) => self.start(request).await,
                    None => accepting = false,
                },
                () = gather(&mut self.flights, &mut self.settled), if busy => {
                    if let Err(failure) = self.settle() {
                        break failure;
                    }
                }
                () = tokio::time::sleep_until(late), if busy => {
                    if !self.connection.blocked() {
                        break PublishError::TimedOut;
                    }
                    self.be_patient();
                }
            }
        };
        for open in std::mem::take(&mut self.open).into_values() {
            let _ = open.answer.send(Err(failure.clone()));
        }
        drop(received);
        close_channel(&self.channel).await;
    }

    /// Publishes one message: its place among the others is taken before this returns.
    async fn start(&mut self, request: Request) {
        let Request { message, answer } = request;
        let names = ShortString::try_new(message.exchange)
            .and_then(|exchange| Ok((exchange, ShortString::try_new(message.routing_key)?)));
        let Ok((exchange, routing_key)) = names else {
            let _ = answer.send(Err(PublishError::NameTooLong));
            return;
        };
        let number = self.published;
        self.published += 1;
        let open = Open {
            exchange: exchange.clone(),
            routing_key: routing_key.clone(),
            message_id: message.properties.message_id().clone(),
            since: Instant::now(),
            returned: false,
            answer,
        };
        self.open.insert(number, open);
        let channel = self.channel.clone();
        let options = BasicPublishOptions {
            mandatory: message.mandatory,
            ..BasicPublishOptions::default()
        };
        let (body, properties) = (message.body, message.properties);
        let publish = async move {
            let publishing =
                channel.basic_publish(exchange, routing_key, options, &body, properties);
            publishing.await?.await
        };
        let mut flight: Flight = Box::pin(async move { (number, publish.await) });
        // The first poll hands the message to the connection's thread; the rest only waits.
        match poll_fn(|context| Poll::Ready(flight.as_mut().poll(context))).await {
            Poll::Ready(settled) => self.settled.push(settled),
            Poll::Pending => self.flights.push(flight),
        }
    }

    /// Tells the callers what was gathered, after every return among it has found its messages.
    fn settle(&mut self) -> Result<(), PublishError> {
        let settled = std::mem::take(&mut self.settled);
        for (_, outcome) in &settled {
            if let Ok(Confirmation::Ack(Some(back)) | Confirmation::Nack(Some(back))) = outcome {
                self.mark_returned(back)?;
            }
        }
        for (number, outcome) in settled {
            let Some(open) = self.open.remove(&number) else {
                continue;
            };
            let (exchange, routing_key) = (open.exchange.to_string(), open.routing_key.to_string());
            let told = match outcome {
                Err(error) => {
                    let failure = PublishError::Lost(error.to_string());
                    let _ = open.answer.send(Err(failure.clone()));
                    return Err(failure);
                }
                Ok(_) if open.returned => Err(PublishError::Returned {
                    exchange,
                    routing_key,
                }),
                Ok(Confirmation::Ack(_)) => Ok(()),
                Ok(Confirmation::Nack(_) | Confirmation::NotRequested) => {
                    Err(PublishError::Refused)
                }
            };
            let _ = open.answer.send(told);
        }
        Ok(())
    }

    /// A return names a message by what it was published with. Where several were published with
    /// the same, it counts for all of them: repeating one is better than losing one.
    fn mark_returned(&mut self, back: &BasicReturnMessage) -> Result<(), PublishError> {
        let mut known = false;
        for open in self.open.values_mut() {
            if open.exchange == back.delivery.exchange
                && open.routing_key == back.delivery.routing_key
                && open.message_id == *back.delivery.properties.message_id()
            {
                open.returned = true;
                known = true;
            }
        }
        if known {
            return Ok(());
        }
        let odd = "the broker returned a message that is not open here";
        Err(PublishError::Lost(odd.to_owned()))
    }

    /// While the broker takes no messages, time does not count.
    fn be_patient(&mut self) {
        let now = Instant::now();
        for open in self.open.values_mut() {
            open.since = now;
        }
    }
}

/// Waits until something is settled, then takes all that is. A message that seems confirmed is
/// settled after the one that carries its return, so both are among what is taken together. The
/// stream may pause early and wake itself; only a pause without that means that nothing is left.
async fn gather(flights: &mut FuturesUnordered<Flight>, settled: &mut Vec<Settled>) {
    poll_fn(|context| {
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(false),
            outer: context.waker().clone(),
        });
        let waker = Waker::from(Arc::clone(&bell));
        loop {
            bell.rung.store(false, Ordering::SeqCst);
            match Pin::new(&mut *flights).poll_next(&mut Context::from_waker(&waker)) {
                Poll::Ready(Some(one)) => settled.push(one),
                Poll::Ready(None) => break,
                Poll::Pending if bell.rung.load(Ordering::SeqCst) => {}
                Poll::Pending => break,
            }
        }
        if settled.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}

/// Passes a wake on and remembers it.
struct Bell {
    rung: AtomicBool,
    outer: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.outer.wake_by_ref();
    }
}
