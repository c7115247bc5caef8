//! The pages over real sockets. What needs a store as well is tested beside the private servers.

mod bed;

pub(super) use bed::{report, status};

use super::*;
use bed::{PARTITION, pages, run};
use conductor_engine::Step;
use conductor_engine::partition::{Role, Status};
use serde_json::Value;

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
        // The broker counts one consumer, however many wait behind it.
        let (messages, consumers) = (0, 1);
        let counted = Some(QueueCounts {
            messages,
            consumers,
        });
        for (queue, behind_another, role) in [
            (None, false, "unknown"),
            (counted, false, "unknown"),
            (counted, true, "standby"),
        ] {
            pages.io.of(PARTITION).queue = queue;
            pages.io.of(PARTITION).behind_another = behind_another;
            assert_eq!(pages.ready().await, (200, role.to_owned(), Value::Null));
        }
        pages.io.of(PARTITION).behind_another = false;
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
