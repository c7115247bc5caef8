//! A private broker of three nodes: a queue outlives the node that leads it, the node comes back,
//! and what is done to the broker is done to all of it.

use conductor_tools::client::block_on;
use conductor_tools::testbed::{Folder, Rabbit, RabbitCluster, RabbitOptions};
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
const LATER: Duration = Duration::from_secs(60);
const QUEUE: &str = "kept";
/// How many messages are in the queue when its leader dies.
const BEFORE: u32 = 20;

#[test]
fn a_queue_outlives_the_node_that_leads_it() {
    let folder = Folder::new().expect("a folder");
    let cluster = RabbitCluster::start(&folder, &RabbitOptions::default(), 3).expect("it starts");
    block_on(async {
        leader_dies(&cluster).await?;
        alarms_and_cuts(&cluster).await
    })
    .expect("the broker serves");
    if std::env::var_os("CONDUCTOR_TEST_LONG").is_some() {
        all_die(&cluster);
    }
}

async fn leader_dies(cluster: &RabbitCluster) -> anyhow::Result<()> {
    let declaring = connect(cluster.node(0)).await?;
    declare(&declaring.create_channel().await?).await?;
    cluster.wait_in_step(QUEUE, SOON)?;
    let first = cluster.leader(QUEUE)?;
    let state = cluster.queue(QUEUE)?;
    assert_eq!(state.members.len(), 3, "{state:?}");
    assert_eq!(state.leader, Some(first));

    let others: Vec<usize> = (0..3).filter(|number| *number != first).collect();
    let publishing = connect(cluster.node(others[0])).await?;
    let out = publishing.create_channel().await?;
    out.confirm_select(ConfirmSelectOptions::default()).await?;
    for number in 1..=BEFORE {
        publish(&out, number).await?;
    }
    let consuming = connect(cluster.node(others[1])).await?;
    let (channel, mut consumer) = consume(&consuming).await?;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        take(&channel, &mut consumer, &mut seen, false).await?;
    }

    cluster.node(first).process().kill()?;
    let next = cluster.wait_leader(QUEUE, SOON)?;
    assert_ne!(next, first, "another node leads");
    let state = cluster.queue(QUEUE)?;
    assert!(!state.online.contains(&first), "{state:?}");
    publish(&out, BEFORE + 1).await?;
    let acknowledged = BasicAckOptions { multiple: true };
    channel.basic_ack(4, acknowledged).await?;
    while seen.len() <= BEFORE as usize {
        take(&channel, &mut consumer, &mut seen, true).await?;
    }
    assert_eq!(seen, (1..=BEFORE + 1).collect::<Vec<_>>(), "order and loss");

    cluster.node(first).restart()?;
    cluster.wait_members(LATER)?;
    cluster.wait_in_step(QUEUE, LATER)?;
    assert_eq!(cluster.queue(QUEUE)?.online.len(), 3);
    let listed = cluster.control(&["list_queues", "name", "messages"])?;
    assert!(listed.contains(&format!("{QUEUE}\t0")), "{listed}");
    Ok(())
}

async fn alarms_and_cuts(cluster: &RabbitCluster) -> anyhow::Result<()> {
    let connection = connect(cluster.node(0)).await?;
    let out = connection.create_channel().await?;
    out.confirm_select(ConfirmSelectOptions::default()).await?;
    cluster.raise_memory_alarm(2)?;
    let publishing = tokio::spawn(async move { publish(&out, 1).await });
    until("the publisher is blocked", || connection.status().blocked()).await?;
    assert!(!publishing.is_finished(), "nothing is confirmed meanwhile");
    cluster.lift_memory_alarm(2)?;
    tokio::time::timeout(SOON, publishing).await???;

    let other = connect(cluster.node(1)).await?;
    cluster.close_all_connections("a test cuts them")?;
    until("both connections are cut", || {
        let connected = |one: &Connection| one.status().connected();
        !connected(&connection) && !connected(&other)
    })
    .await?;
    Ok(())
}

/// Looks again and again, and lets the runtime work in between.
async fn until(awaited: &str, so: impl Fn() -> bool) -> anyhow::Result<()> {
    let looking = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let looked = tokio::time::timeout(SOON, looking).await;
    looked.map_err(|_| anyhow::anyhow!("not within {} s: {awaited}", SOON.as_secs()))
}

fn all_die(cluster: &RabbitCluster) {
    for node in cluster.nodes() {
        node.process().kill().expect("it dies");
    }
    cluster
        .control(&["list_queues"])
        .expect_err("nobody is there");
    cluster.restart_all().expect("all come back");
    cluster.wait_in_step(QUEUE, LATER).expect("with the queue");
}

async fn connect(node: &Rabbit) -> anyhow::Result<Connection> {
    let properties = ConnectionProperties::default();
    Ok(Connection::connect(&node.uri_with_password(), properties).await?)
}

async fn declare(channel: &Channel) -> anyhow::Result<()> {
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    channel
        .queue_declare(QUEUE.into(), options, arguments)
        .await?;
    Ok(())
}

async fn publish(channel: &Channel, number: u32) -> anyhow::Result<()> {
    let properties = BasicProperties::default().with_delivery_mode(2);
    let text = number.to_string();
    let options = BasicPublishOptions::default();
    let publishing = channel.basic_publish(
        "".into(),
        QUEUE.into(),
        options,
        text.as_bytes(),
        properties,
    );
    let confirmed = tokio::time::timeout(LATER, publishing.await?).await??;
    anyhow::ensure!(confirmed.is_ack(), "{number} is refused");
    Ok(())
}

async fn consume(connection: &Connection) -> anyhow::Result<(Channel, Consumer)> {
    let channel = connection.create_channel().await?;
    channel.basic_qos(4, BasicQosOptions::default()).await?;
    let consumer = channel
        .basic_consume(
            QUEUE.into(),
            "test".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await?;
    Ok((channel, consumer))
}

/// Notes a message's first appearance; a new leader may deliver again what was not acknowledged.
async fn take(
    channel: &Channel,
    consumer: &mut Consumer,
    seen: &mut Vec<u32>,
    acknowledge: bool,
) -> anyhow::Result<()> {
    let next = tokio::time::timeout(SOON, consumer.next()).await?;
    let delivery = next.ok_or_else(|| anyhow::anyhow!("the consumer has ended"))??;
    let number: u32 = std::str::from_utf8(&delivery.data)?.parse()?;
    if !seen.contains(&number) {
        seen.push(number);
    }
    if acknowledge {
        let tag = delivery.delivery_tag;
        channel.basic_ack(tag, BasicAckOptions::default()).await?;
    }
    Ok(())
}
