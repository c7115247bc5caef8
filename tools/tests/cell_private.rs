//! Private cells: under load, in the foreground, and with a broker that dies.

mod cell_support;

use cell_support::Line;
use conductor_engine::PartitionId;
use conductor_tools::client::block_on;
use conductor_tools::client::{Done, Interrupted, Load, Producer, ProducerOptions, Request};
use conductor_tools::private_cell::{Plan, PrivateCell};
use conductor_tools::testbed::{Folder, Launch, Process, wait_for};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const LATER: Duration = Duration::from_secs(120);

#[test]
fn a_demo_ends_well_and_says_what_it_compared() {
    let line = Line::new(Path::new("/nonexistent"));
    let demo = [
        "--json",
        "demo",
        "--commands",
        "3000",
        "--partitions",
        "2",
        "--seed",
        "11",
    ];
    let report = line.run(&demo).json(0);
    assert_eq!(
        (&report["sent"], &report["confirmed"]),
        (&3000.into(), &3000.into())
    );
    let verdicts = report["verdicts"].as_array().expect("a list");
    assert!(verdicts.len() >= 6, "{report}");
    assert!(
        verdicts.iter().all(|verdict| verdict["holds"] == true),
        "{report}"
    );
    assert_eq!(report["digests"].as_array().map(Vec::len), Some(2));
    assert!(report["deals"].as_u64() > Some(500), "{report}");
    assert_eq!(report["bestLevels"].as_array().map(Vec::len), Some(8));
    assert!(
        report["publishToReplyMs"]["p999"].as_f64() > Some(0.0),
        "{report}"
    );
}

#[test]
fn a_cell_in_the_foreground_ends_at_sigterm_and_leaves_nothing() {
    let folder = Folder::new().expect("a folder");
    let launch = Launch::new(env!("CARGO_BIN_EXE_cell"))
        .argument("--json")
        .argument("up");
    let up = Process::start(&folder, "up", launch).expect("it starts");
    let reach = up
        .wait_for_log("\"config\"", LATER)
        .expect("it says how to reach it");
    let reach: Value = serde_json::from_str(&reach).expect("it is JSON");
    let config = reach["config"]
        .as_str()
        .expect("it names the settings")
        .to_owned();

    let line = Line::new(Path::new(&config));
    let place = [
        "--json", "place", "--pair", "1", "--side", "bid", "--price", "1", "--volume", "1",
    ];
    assert_eq!(line.run(&place).json(0)["outcomes"][0]["outcome"], "rested");
    let events = line.run(&["events", "--count", "1"]);
    assert!(events.out.contains("order.rested.v1"), "{events:?}");

    let status = up.terminate(LATER).expect("it ends");
    assert!(status.success(), "{status}: {}", up.log());
    let own = Path::new(&config).parent().expect("a folder").to_owned();
    let gone = || {
        if own.exists() {
            Err("it is there".to_owned())
        } else {
            Ok(())
        }
    };
    wait_for("end of the cell's folder", LATER, gone).expect("nothing is left");
}

/// Cancels without end; the broker is killed when so many are done.
struct UntilTheBrokerDies<'a> {
    cell: &'a PrivateCell,
    sent: u64,
    done: u64,
    kill_at: u64,
}

impl Load for UntilTheBrokerDies<'_> {
    fn next(&mut self) -> anyhow::Result<Option<Request>> {
        self.sent += 1;
        let id = format!("c-{}", self.sent);
        let body = format!(
            r#"{{"type":"order.cancel","commandId":"{id}","pairId":0,"timestamp":5,"orderId":"o"}}"#
        );
        Ok(Some(Request {
            partition: PartitionId(0),
            body: body.into_bytes(),
            message_id: Some(id),
            answered: true,
        }))
    }

    fn done(&mut self, done: Done) -> anyhow::Result<()> {
        assert_eq!(done.number, self.done, "in the order of sending");
        let reply = String::from_utf8(done.reply.expect("it was answered"))?;
        assert!(
            reply.contains(&format!("\"c-{}\"", done.number + 1)),
            "its own reply: {reply}"
        );
        self.done += 1;
        if self.done == self.kill_at {
            self.cell.servers().rabbit().process().kill()?;
        }
        Ok(())
    }
}

#[test]
fn a_lost_broker_is_reported_with_how_far_it_came() {
    let plan = Plan {
        partitions: 1,
        replicas: 0,
        sentinels: false,
    };
    let cell = PrivateCell::start(&plan).expect("the cell starts");
    let (sent, done, kill_at) = (0, 0, 300);
    let mut load = UntilTheBrokerDies {
        cell: &cell,
        sent,
        done,
        kill_at,
    };
    let options = ProducerOptions {
        window: 64,
        reply_within: Some(LATER),
    };
    let ended = block_on(async {
        let mut producer = Producer::connect(&cell.settings().broker, "test").await?;
        Ok(producer
            .run(&mut load, options)
            .await
            .expect_err("the broker is gone"))
    });
    let ended = ended.expect("the runtime works");
    let Interrupted::Lost { summary, .. } = &ended else {
        panic!("{ended}");
    };
    assert!(summary.confirmed_in_order >= kill_at, "{ended}");
    assert!(summary.confirmed >= summary.confirmed_in_order, "{ended}");
    assert!(
        summary.sent <= load.done + 64,
        "the window bounds what is open: {ended}"
    );
    let resume_at = format!("from message {} on", summary.confirmed_in_order + 1);
    assert!(ended.to_string().contains(&resume_at), "{ended}");
}
