//! The pages over real sockets. A task stands in for the partition's core and answers from a real
//! book; what needs a store as well is tested beside the private servers.

use super::*;
use crate::mailbox::{Receiver, mailbox};
use crate::messages::{DepthView, PartitionReport, Question, StepTimes};
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

const PARTITION: PartitionId = PartitionId(0);

/// What stands in for a partition's core: `None` for the report is a core that does not answer.
struct Core {
    report: Option<PartitionReport>,
    matcher: Option<Matcher<FastBook>>,
    unanswered: Vec<Question>,
}

impl Core {
    fn answer(&mut self, question: Question) {
        match question {
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

pub(super) fn status(role: Role, state: &'static str, not_ready: Option<&str>) -> Status {
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

pub(super) fn report(status: Status) -> PartitionReport {
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
struct Pages {
    address: SocketAddr,
    io: Arc<IoCoreReport>,
    core: Rc<RefCell<Core>>,
    sender: mailbox::Sender<ToPartition>,
}

/// Serves partition 0 of 2, with an active core.
async fn pages() -> Pages {
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
    async fn ask(&self, method: &str, path: &str) -> (u16, String) {
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

    async fn json(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.ask("GET", path).await;
        (status, serde_json::from_str(&body).expect("a JSON body"))
    }

    async fn ready(&self) -> (u16, String, Value) {
        let (status, body) = self.json("/ready").await;
        let partition = &body["partitions"][0];
        (
            status,
            partition["role"].as_str().unwrap_or("?").to_owned(),
            partition["why"].clone(),
        )
    }

    fn core_says(&self, status: Status) {
        self.core.borrow_mut().report = Some(report(status));
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}

#[test]
fn the_process_is_healthy_and_says_which_pages_there_are() {
    run(async {
        let pages = pages().await;
        assert_eq!(
            pages.ask("GET", "/health").await,
            (200, "{\"status\":\"ok\"}\n".to_owned())
        );
        let (status, body) = pages.json("/nothing").await;
        assert_eq!(
            (status, body["pages"].as_array().map(Vec::len)),
            (404, Some(6))
        );
        for path in ["/health", "/ready", "/reconcile?pairId=12"] {
            let (status, body) = pages.ask("POST", path).await;
            assert_eq!((status, body.contains("GET")), (405, true), "{path}");
        }
    });
}

#[test]
fn ready_says_what_a_core_says_of_itself() {
    run(async {
        let pages = pages().await;
        let (status, body) = pages.json("/ready").await;
        let partition = &body["partitions"][0];
        assert_eq!((status, &body["ready"]), (200, &Value::Bool(true)));
        assert_eq!(
            (&partition["role"], &partition["state"]),
            (&"active".into(), &"owning".into())
        );
        assert_eq!(
            (&partition["epoch"], &partition["why"]),
            (&7.into(), &Value::Null)
        );

        pages.core_says(status_halted());
        let halted = (503, "unknown".to_owned(), "halted: it crossed".into());
        assert_eq!(pages.ready().await, halted);
    });
}

fn status_halted() -> Status {
    status(Role::Unknown, "halted", Some("halted: it crossed"))
}

#[test]
fn a_core_that_is_silent_gone_or_without_a_broker_is_not_ready() {
    run(async {
        let pages = pages().await;
        pages.io.of(PARTITION).broker_connected = false;
        let (status, _, why) = pages.ready().await;
        assert_eq!((status, why), (503, "not connected to the broker".into()));

        pages.io.of(PARTITION).broker_connected = true;
        pages.io.of(PARTITION).standing = Some(super::tests::status(Role::Active, "owning", None));
        pages.core.borrow_mut().report = None;
        let (status, role, why) = pages.ready().await;
        let silent = "the partition's core does not answer";
        assert_eq!((status, role.as_str(), why), (503, "active", silent.into()));

        assert!(pages.sender.send(ToPartition::Stop).is_ok());
        while pages.sender.depth() > 0 {
            tokio::task::yield_now().await;
        }
        let (status, _, why) = pages.ready().await;
        assert_eq!(
            (status, why),
            (503, "the partition's core has ended".into())
        );
    });
}

#[test]
fn a_standby_is_ready_and_is_called_one_where_another_is_known() {
    run(async {
        let pages = pages().await;
        pages.core_says(status(Role::Standby, "standing-by", None));
        let queue = |consumers| {
            Some(QueueCounts {
                messages: 0,
                consumers,
            })
        };
        for (counts, role) in [
            (None, "unknown"),
            (queue(1), "unknown"),
            (queue(2), "standby"),
        ] {
            pages.io.of(PARTITION).queue = counts;
            assert_eq!(pages.ready().await, (200, role.to_owned(), Value::Null));
        }
        pages.io.of(PARTITION).queue = None;
        if let Some(report) = &mut pages.core.borrow_mut().report {
            report.counters.fenced = 1;
        }
        assert_eq!(pages.ready().await.1, "standby");
    });
}

#[test]
fn depth_shows_the_best_levels_of_the_owners_book() {
    run(async {
        let pages = pages().await;
        let (status, body) = pages.ask("GET", "/depth?pairId=12&levels=1").await;
        let expected = concat!(
            r#"{"pairId":12,"partition":0,"bids":[{"price":"99","volume":"1","orders":1}],"#,
            r#""asks":[{"price":"100.5","volume":"2.5","orders":2}]}"#,
            "\n"
        );
        assert_eq!((status, body.as_str()), (200, expected));
        let (status, body) = pages.json("/depth?pairId=14").await;
        assert_eq!(
            (status, body["bids"].as_array().map(Vec::len)),
            (200, Some(0))
        );

        pages.core.borrow_mut().matcher = None;
        let (status, body) = pages.ask("GET", "/depth?pairId=12").await;
        assert_eq!((status, body.contains("ask the active one")), (503, true));
    });
}

#[test]
fn a_question_that_cannot_be_answered_gets_a_sentence() {
    run(async {
        let pages = pages().await;
        for (path, status, words) in [
            ("/depth", 400, "pairId must be a whole number"),
            ("/depth?pairId=%2B1", 400, "not \\\"+1\\\""),
            ("/depth?pairId=4294967296", 400, "4294967295"),
            ("/depth?pairId=12&levels=0", 400, "from 1 to 1000"),
            ("/depth?pairId=12&levels=1001", 400, "from 1 to 1000"),
            ("/depth?pairId=12&level=5", 400, "known: pairId, levels"),
            ("/depth?pairId=12&pairId=12", 400, "twice"),
            ("/depth?pairId=13", 404, "belongs to partition 1 of 2"),
            ("/reconcile", 400, "pairId must be a whole number"),
            ("/reconcile?pairId=13", 404, "\"partition\":1"),
            ("/reconcile?pairId=12", 503, "the store cannot be reached"),
            ("/histogram?format=csv", 400, "json or hgrm"),
            ("/histogram?format=hgrm", 400, "this process serves: 0"),
            (
                "/histogram?format=hgrm&partition=0",
                400,
                "decode, route, dedup, match",
            ),
            (
                "/histogram?format=hgrm&partition=1&step=match",
                400,
                "serves: 0",
            ),
            ("/histogram?step=match", 400, "JSON shows all"),
        ] {
            let (found, body) = pages.ask("GET", path).await;
            assert_eq!(
                (found, body.contains(words)),
                (status, true),
                "{path}: {body}"
            );
        }
    });
}

#[test]
fn histogram_shows_all_nine_steps_and_the_core_of_each() {
    run(async {
        let pages = pages().await;
        pages
            .io
            .of(PARTITION)
            .steps
            .record(Step::Ack, Duration::from_micros(80), 2);
        let (status, body) = pages.json("/histogram").await;
        let steps = &body["partitions"][0]["steps"];
        assert_eq!((status, &body["unit"]), (200, &"nanoseconds".into()));
        let found: Vec<_> = steps
            .as_object()
            .expect("steps")
            .keys()
            .map(String::as_str)
            .collect();
        let mut expected = Step::ALL.map(Step::name);
        expected.sort_unstable();
        assert_eq!(found, expected);
        let figures = |step: &str| {
            let of = &steps[step];
            (
                of["core"].as_u64(),
                of["count"].as_u64(),
                of["p99.9"].as_u64(),
            )
        };
        assert_eq!(figures("match"), (Some(1), Some(10), Some(1_500)));
        assert_eq!(figures("ack"), (Some(0), Some(2), Some(80_063)));

        let (_, text) = pages
            .ask("GET", "/histogram?format=hgrm&partition=0&step=ack")
            .await;
        assert!(text.contains("Total count    =            2]"), "{text}");

        pages.core.borrow_mut().report = None;
        let (_, body) = pages.json("/histogram").await;
        let partition = &body["partitions"][0];
        assert_eq!(
            partition["steps"].as_object().map(serde_json::Map::len),
            Some(2)
        );
        assert_eq!(partition["problem"], "the partition's core does not answer");
    });
}

#[test]
fn a_core_that_does_not_answer_is_still_in_the_metrics() {
    run(async {
        let pages = pages().await;
        let (status, body) = pages.ask("GET", "/metrics").await;
        assert_eq!(status, 200);
        assert!(
            body.contains("conductor_ready{partition=\"0\"} 1\n"),
            "{body}"
        );
        pages.core.borrow_mut().report = None;
        let (_, body) = pages.ask("GET", "/metrics").await;
        assert!(
            body.contains("conductor_ready{partition=\"0\"} 0\n"),
            "{body}"
        );
        assert!(!body.contains("conductor_commands_total{"), "{body}");
        assert!(body.contains("conductor_step_seconds_bucket{partition=\"0\",step=\"ack\""));
    });
}
