//! `/reconcile` against a real store: silent while a healthy book moves, exact about a broken one.

mod admin_support;

use admin_support::{FAR_ORDERS, Owner, Switches};
use conductor_config::{Login, Secret, StoreAddress};
use conductor_engine::{OrderId, PairId, PartitionId, Side};
use conductor_io::admin::{Admin, IoCoreReport, PartitionHandle, serve};
use conductor_io::keys::Keys;
use conductor_io::mailbox::mailbox;
use conductor_io::store::discover::Logins;
use conductor_io::store::over_tokio;
use conductor_tools::testbed::{Folder, Valkey, ValkeyOptions, fetch};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

const PARTITION: PartitionId = PartitionId(0);
const PAIR: PairId = PairId(12);

/// A store, an owner and the pages; owner and pages share a thread, as on the I/O core.
struct Bed {
    pages: SocketAddr,
    switches: Arc<Switches>,
    server: Valkey,
    _folder: Folder,
}

impl Bed {
    fn start() -> Self {
        let folder = Folder::new().expect("a folder");
        let server = Valkey::primary(&folder, &ValkeyOptions::named("store")).expect("a store");
        let login = Login {
            username: Some("conductor".to_owned()),
            password: Secret::new(server.users().conductor.as_str()),
        };
        let store = StoreAddress::Direct {
            host: "127.0.0.1".to_owned(),
            port: server.port(),
        };
        let switches = Arc::new(Switches::default());
        let shared = Arc::clone(&switches);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime.expect("a runtime"), async {
                let owning = own(store, login, shared);
                let (listener, admin, owner) = owning.await;
                tell.send(listener.local_addr().expect("an address"))
                    .expect("the test waits");
                tokio::task::spawn_local(owner.run());
                serve(listener, admin, std::future::pending())
                    .await
                    .expect("the pages work");
            });
        });
        let pages = told.recv().expect("the pages are up");
        let bed = Self {
            pages,
            switches,
            server,
            _folder: folder,
        };
        bed.wait_committed(FAR_ORDERS);
        bed
    }

    fn wait_committed(&self, commands: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.switches.committed.load(Ordering::Relaxed) < commands {
            assert!(Instant::now() < until, "the owner commits");
            std::thread::yield_now();
        }
    }

    fn reconcile(&self, pair: u32) -> Value {
        let url = format!("http://{}/reconcile?pairId={pair}", self.pages);
        let (status, body) = fetch(&url).expect("an answer");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn store(&self, words: &[&str]) {
        let changed: i64 = self.server.command(words).expect("the store obeys");
        assert_eq!(changed, 1, "{words:?}");
    }
}

async fn own(
    store: StoreAddress,
    login: Login,
    switches: Arc<Switches>,
) -> (TcpListener, Admin, Owner) {
    let logins = Logins {
        store: Some(&login),
        sentinel: None,
    };
    let primary = over_tokio::primary(&store, logins, Duration::from_secs(5)).await;
    let (sender, mailbox) = mailbox(64);
    let link = primary.expect("a primary").link;
    let owner = Owner::new(link, Keys::new(PARTITION), mailbox, switches);
    let admin = Admin {
        partition_count: 1,
        store_login: Some(login),
        sentinel_login: None,
        partitions: vec![PartitionHandle {
            partition: PARTITION,
            core: None,
            sender,
            store,
        }],
        io_core: None,
        io: Arc::new(IoCoreReport::new([PARTITION])),
    };
    (
        TcpListener::bind("127.0.0.1:0").await.expect("a port"),
        admin,
        owner,
    )
}

/// The priorities of the far orders follow from their timestamp and their number.
fn member(side: &str, order: u64) -> String {
    let side = if side == "ask" { Side::Ask } else { Side::Bid };
    let id = OrderId::new(&format!("o-{order}")).expect("an id");
    Keys::member(side, 1_000 + order, &id)
}

fn key(name: &str) -> String {
    format!("matching:{{matching-p0}}:{name}")
}

#[test]
fn a_healthy_book_is_healthy_however_fast_it_moves() {
    let bed = Bed::start();
    bed.switches.trading.store(true, Ordering::Relaxed);
    bed.wait_committed(FAR_ORDERS + 500);
    for resigned in [false, true] {
        bed.switches.resigned.store(resigned, Ordering::Relaxed);
        let before = bed.switches.committed.load(Ordering::Relaxed);
        for round in 0..25 {
            let answer = bed.reconcile(PAIR.0);
            assert_eq!(answer["healthy"], true, "round {round}: {answer}");
            assert_eq!(answer["indexedOrders"], answer["scannedOrders"]);
            assert!(answer["indexedOrders"].as_u64() > Some(FAR_ORDERS));
        }
        assert!(
            bed.switches.committed.load(Ordering::Relaxed) > before + 25,
            "it did move"
        );
    }
}

#[test]
fn every_break_is_named_once_while_the_rest_moves() {
    let bed = Bed::start();
    let (asks, bids) = (key("book:12:ask:rates"), key("book:12:bid:rates"));
    bed.store(&["DEL", &key("order:o-0")]);
    let mut connection = bed.server.connection().expect("a connection");
    let mut change = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command
            .arg(&words[1..])
            .query::<i64>(&mut connection)
            .expect("the store obeys")
    };
    change(&["HSET", &key("order:o-3"), "side", "bid"]);
    change(&["HSET", &key("order:o-5"), "remaining", "0.5"]);
    change(&["ZADD", &asks, "9001", &member("ask", 7)]);
    bed.store(&["ZREM", &bids, &member("bid", 2)]);
    bed.store(&["ZADD", &bids, "3", "never-placed"]);
    bed.switches.trading.store(true, Ordering::Relaxed);

    let expected = |memory: &[&str]| {
        let mut issues = vec![
            "ask:o-3:index-mismatch",
            "ask:o-7:index-mismatch",
            "bid:never-placed:missing-order",
            "bid:o-0:missing-order",
        ];
        issues.extend(memory);
        issues.sort_unstable();
        json!(issues)
    };
    let found = |answer: &Value| {
        let issues = answer["issues"].as_array().expect("a list").iter();
        let mut issues: Vec<_> = issues.map(|issue| issue.as_str().expect("text")).collect();
        issues.sort_unstable();
        json!(issues)
    };
    for _ in 0..5 {
        let answer = bed.reconcile(PAIR.0);
        let memory = ["ask:o-5:memory-mismatch", "bid:o-2:memory-mismatch"];
        assert_eq!(found(&answer), expected(&memory));
        assert_eq!(
            (&answer["healthy"], &answer["truncated"]),
            (&json!(false), &json!(false))
        );
    }
    bed.switches.resigned.store(true, Ordering::Relaxed);
    assert_eq!(
        found(&bed.reconcile(PAIR.0)),
        expected(&[]),
        "without memory"
    );
}

#[test]
fn a_side_that_is_too_long_is_truncated_and_never_healthy() {
    let bed = Bed::start();
    let nothing = json!({
        "pairId": 99, "partition": 0, "indexedOrders": 0, "scannedOrders": 0,
        "truncated": false, "healthy": true, "issues": [],
    });
    assert_eq!(bed.reconcile(99), nothing);

    let mut connection = bed.server.connection().expect("a connection");
    let mut fill = redis::cmd("ZADD");
    fill.arg(key("book:14:ask:rates"));
    for number in 0..10_001 {
        fill.arg(number).arg(format!("o-{number}"));
    }
    fill.query::<i64>(&mut connection).expect("the store obeys");
    let answer = bed.reconcile(14);
    let figures = ["indexedOrders", "scannedOrders", "truncated", "healthy"];
    let expected = json!([10_001, 10_000, true, false]);
    assert_eq!(
        json!(figures.map(|figure| answer[figure].clone())),
        expected
    );
    assert_eq!(answer["issues"].as_array().map(Vec::len), Some(1_000));
}

#[test]
fn a_scrape_shows_the_memory_of_the_store_also_after_it_was_away() {
    let bed = Bed::start();
    let used = || {
        let scraped = fetch(&format!("http://{}/metrics", bed.pages));
        let (status, text) = scraped.expect("an answer");
        assert_eq!(status, 200, "{text}");
        let name = "conductor_store_used_memory_bytes{partition=\"0\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.parse::<u64>().ok())
    };
    assert!(used() > Some(500_000));
    bed.server.restart().expect("it comes back");
    assert!(used() > Some(500_000));
    bed.server.process().kill().expect("it ends");
    assert_eq!(used(), None);
}
