//! A server of the pages with one partition, and a task that stands in for the partition's core and
//! answers from a real book.

use crate::admin::*;
use crate::mailbox::{Receiver, mailbox};
use crate::messages::{DepthView, PartitionReport, Question, Standing, StepTimes};
use crate::wire;
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::partition::{Counters, Role, Status};
use conductor_engine::{Book, FastBook, Incoming, Side, Step};
use hdrhistogram::Histogram;
use serde_json::Value;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

pub(super) const PARTITION: PartitionId = PartitionId(0);

/// What stands in for a partition's core: `None` for the report is a core that does not answer.
pub(super) struct Core {
    pub(super) report: Option<PartitionReport>,
    pub(super) matcher: Option<Matcher<FastBook>>,
    unanswered: Vec<Question>,
}

impl Core {
    fn answer(&mut self, question: Question) {
        match question {
            Question::Standing(answer) if self.report.is_some() => {
                let report = self.report.as_ref().expect("just looked");
                let (status, fenced) = (report.status.clone(), report.counters.fenced);
                let _ = answer.send(Standing { status, fenced });
            }
            Question::Report(answer) if self.report.is_some() => {
                let _ = answer.send(self.report.clone().expect("just looked"));
            }
            Question::Depth {
                pair,
                levels_max,
                answer,
            } => {
                let view = self.matcher.as_ref().map(|matcher| DepthView {
                    decimals: matcher.book().decimals(pair),
                    bids: matcher.book().levels(pair, Side::Bid, levels_max),
                    asks: matcher.book().levels(pair, Side::Ask, levels_max),
                });
                let _ = answer.send(view);
            }
            other => self.unanswered.push(other),
        }
    }

    async fn run(core: Rc<RefCell<Self>>, mailbox: Receiver<ToPartition>) {
        while let Some(message) = mailbox.receive().await {
            match message {
                ToPartition::Ask(question) => core.borrow_mut().answer(question),
                ToPartition::Stop => return,
                other => panic!("a page sent {other:?}"),
            }
        }
    }
}

pub(in crate::admin) fn status(role: Role, state: &'static str, not_ready: Option<&str>) -> Status {
    Status {
        role,
        state,
        not_ready: not_ready.map(str::to_owned),
        epoch: (role == Role::Active).then_some(7),
        durable_sequence: 42,
        orders: 3,
        event_stream: 5,
    }
}

pub(in crate::admin) fn report(status: Status) -> PartitionReport {
    let empty = || Histogram::new_with_bounds(1, 86_400_000, 3).expect("bounds");
    let mut steps = StepTimes::default();
    steps.record(Step::Match, Duration::from_nanos(1_500), 10);
    let mut group_commands = empty();
    group_commands.record(3).expect("within the bounds");
    PartitionReport {
        partition: PARTITION,
        status,
        counters: Counters {
            commands: 9,
            doubts: 2,
            ..Counters::default()
        },
        steps,
        group_commands,
        age_at_delivery: empty(),
        last_command_ns: 2_500_000,
        replies_dropped: 1,
        mailbox_depth: 4,
    }
}

/// A book of two asks at one price and a bid.
fn matcher() -> Matcher<FastBook> {
    let mut matcher = Matcher::new(Cell::single(), FastBook::with_seed(1), Default::default());
    for (id, side, price, volume) in [
        ("a", "ask", "100.5", "2"),
        ("b", "ask", "100.5", "0.5"),
        ("c", "bid", "99", "1"),
    ] {
        let text = format!(
            r#"{{"type":"order.place","commandId":"c-{id}","pairId":12,"timestamp":1767225600000,
            "order":{{"id":"{id}","side":"{side}","type":"limit","price":"{price}",
            "volume":"{volume}","userId":"u","priceDecimals":2,"amountDecimals":8,
            "quoteDecimals":2,"timestamp":1767225600000}}}}"#
        );
        let Incoming::Command(command) = wire::decode(text.as_bytes()) else {
            panic!("a command: {text}");
        };
        let mut accepted = AcceptedOrders::default();
        matcher
            .apply(&command, &mut accepted, &mut Vec::new())
            .expect("it is let in");
    }
    matcher
}

/// A server under test.
pub(super) struct Pages {
    address: SocketAddr,
    pub(super) io: Arc<IoCoreReport>,
    pub(super) core: Rc<RefCell<Core>>,
    pub(super) sender: mailbox::Sender<ToPartition>,
}

/// Serves partition 0 of 2, with an active core.
pub(super) async fn pages() -> Pages {
    let (sender, receiver) = mailbox(8);
    let core = Core {
        report: Some(report(status(Role::Active, "owning", None))),
        matcher: Some(matcher()),
        unanswered: Vec::new(),
    };
    let core = Rc::new(RefCell::new(core));
    spawn_local(Core::run(Rc::clone(&core), receiver));
    let io = Arc::new(IoCoreReport::new([PARTITION]));
    io.of(PARTITION).broker_connected = true;
    let store = StoreAddress::Direct {
        host: "127.0.0.1".to_owned(),
        port: 9,
    };
    let handle = PartitionHandle {
        partition: PARTITION,
        core: Some(1),
        sender: sender.clone(),
        store,
    };
    let admin = Admin {
        partition_count: 2,
        store_login: None,
        sentinel_login: None,
        partitions: vec![handle],
        io_core: Some(0),
        io: Arc::clone(&io),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    spawn_local(serve(listener, admin, std::future::pending()));
    Pages {
        address,
        io,
        core,
        sender,
    }
}

impl Pages {
    pub(super) async fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("the server listens");
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: pages\r\nConnection: close\r\n\r\n");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("it answers");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    pub(super) async fn json(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.ask("GET", path).await;
        (status, serde_json::from_str(&body).expect("a JSON body"))
    }

    pub(super) async fn ready(&self) -> (u16, String, Value) {
        let (status, body) = self.json("/ready").await;
        let partition = &body["partitions"][0];
        (
            status,
            partition["role"].as_str().unwrap_or("?").to_owned(),
            partition["why"].clone(),
        )
    }

    pub(super) fn core_says(&self, status: Status) {
        self.core.borrow_mut().report = Some(report(status));
    }
}

pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}
