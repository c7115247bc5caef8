//! Does `/reconcile` tell the truth: what stands in for a partition's core.
//!
//! A task with a real matcher commits every command in a transaction of its own, which moves the
//! book as fast as a page can read it; groups and disks are left out.

use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::{Book, Decimal, FastBook, Incoming, PairId, Side, staging::Cursor};
use conductor_io::keys::Keys;
use conductor_io::mailbox::Receiver;
use conductor_io::messages::{OrderView, Question, ToPartition};
use conductor_io::reconcile;
use conductor_io::resp::Reply;
use conductor_io::store::Link;
use conductor_io::store::over_tokio::Socket;
use conductor_io::wire;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Orders far from the touch, which no later command reaches.
pub(crate) const FAR_ORDERS: u64 = 600;

/// What the owner and the test share.
#[derive(Default)]
pub(crate) struct Switches {
    /// The owner keeps on trading.
    pub(crate) trading: AtomicBool,
    /// The owner has given the partition away.
    pub(crate) resigned: AtomicBool,
    /// Commands that were committed.
    pub(crate) committed: AtomicU64,
}

pub(crate) struct Owner {
    matcher: Matcher<FastBook>,
    link: Link<Socket>,
    keys: Keys,
    mailbox: Receiver<ToPartition>,
    /// Comparisons that wait until memory and store must agree.
    waiting: Vec<Question>,
    random: fastrand::Rng,
    switches: Arc<Switches>,
    orders: u64,
}

impl Owner {
    pub(crate) fn new(
        link: Link<Socket>,
        keys: Keys,
        mailbox: Receiver<ToPartition>,
        switches: Arc<Switches>,
    ) -> Self {
        Self {
            matcher: Matcher::new(Cell::single(), FastBook::with_seed(1), Cursor::default()),
            link,
            keys,
            mailbox,
            waiting: Vec::new(),
            random: fastrand::Rng::with_seed(12),
            switches,
            orders: 0,
        }
    }

    pub(crate) async fn run(mut self) {
        for _ in 0..FAR_ORDERS {
            let (side, price) = if self.orders.is_multiple_of(2) {
                ("bid", "1")
            } else {
                ("ask", "9000")
            };
            let place = self.place(side, price, "1");
            self.command(&place).await;
        }
        loop {
            if self.switches.trading.load(Ordering::Relaxed) {
                let command = self.next();
                self.command(&command).await;
            }
            self.answer();
            self.compare().await;
            tokio::task::yield_now().await;
        }
    }

    /// Places around one price, so that many of them trade, and cancels.
    fn next(&mut self) -> String {
        if self.orders > FAR_ORDERS && self.random.u8(..3) == 0 {
            let order = self.random.u64(FAR_ORDERS..self.orders);
            let id = self.switches.committed.load(Ordering::Relaxed);
            return format!(
                r#"{{"type":"order.cancel","commandId":"x-{id}","pairId":12,"timestamp":1,
                "orderId":"o-{order}"}}"#
            );
        }
        let side = if self.random.bool() { "bid" } else { "ask" };
        let price = self.random.u32(95..105).to_string();
        let volume = self.random.u32(1..9).to_string();
        self.place(side, &price, &volume)
    }

    fn place(&mut self, side: &str, price: &str, volume: &str) -> String {
        let id = self.orders;
        self.orders += 1;
        format!(
            r#"{{"type":"order.place","commandId":"c-{id}","pairId":12,"timestamp":1,
            "order":{{"id":"o-{id}","side":"{side}","type":"limit","price":"{price}",
            "volume":"{volume}","userId":"u","priceDecimals":2,"amountDecimals":8,
            "quoteDecimals":2,"timestamp":1}}}}"#
        )
    }

    /// Decides, lets the pages see memory ahead of the store, then commits.
    async fn command(&mut self, text: &str) {
        let Incoming::Command(command) = wire::decode(text.as_bytes()) else {
            panic!("a command: {text}");
        };
        let mut writes = Vec::new();
        let mut accepted = AcceptedOrders::default();
        self.matcher
            .apply(&command, &mut accepted, &mut writes)
            .expect("no violation");
        self.answer();
        let mut packet = Vec::new();
        conductor_io::resp::command(&mut packet, &[b"MULTI"]);
        let commands = wire::store_writes(&self.keys, &writes, None, &mut packet);
        conductor_io::resp::command(&mut packet, &[b"EXEC"]);
        self.link.send(&packet).await.expect("the store reads");
        let mut reply = Reply::Nil;
        for _ in 0..commands + 2 {
            reply = self.link.reply().await.expect("the store answers");
        }
        assert_eq!(
            (reply.elements().map(<[_]>::len), reply.first_error()),
            (Some(commands), None)
        );
        self.switches.committed.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers what memory alone can answer, at any moment.
    fn answer(&mut self) {
        while let Some(message) = self.mailbox.try_receive() {
            match message {
                ToPartition::Ask(Question::Orders { pair, answer, .. }) => {
                    let owned = !self.switches.resigned.load(Ordering::Relaxed);
                    let _ = answer.send(owned.then(|| views(&self.matcher, pair)));
                }
                ToPartition::Ask(question @ Question::Verify { .. }) => self.waiting.push(question),
                // The other pages' questions find nobody.
                _ => {}
            }
        }
    }

    /// Answers what store and memory must agree on.
    async fn compare(&mut self) {
        for question in std::mem::take(&mut self.waiting) {
            let Question::Verify {
                pair,
                suspects,
                answer,
            } = question
            else {
                continue;
            };
            let keys = &self.keys;
            let replies = self
                .link
                .ask_all(|packer| reconcile::suspects_packet(keys, pair, &suspects, packer))
                .await
                .expect("the store answers");
            let orders = views(&self.matcher, pair);
            let known = |order: &str| {
                orders
                    .iter()
                    .find(|view| view.id.as_str() == order)
                    .cloned()
            };
            let exec = replies.last().expect("a reply");
            let issues = reconcile::judge(exec, pair, &suspects, Some(&known));
            let _ = answer.send(Some(issues.expect("an answer")));
        }
    }
}

fn views(matcher: &Matcher<FastBook>, pair: PairId) -> Vec<OrderView> {
    let book = matcher.book();
    let Some(decimals) = book.decimals(pair) else {
        return Vec::new();
    };
    let orders = [Side::Bid, Side::Ask]
        .into_iter()
        .flat_map(|side| book.orders(pair, side));
    let view = |order: conductor_engine::book::RestingOrder| OrderView {
        price: Decimal::of_price(order.price, decimals).to_string(),
        remaining: Decimal::of_quantity(order.remaining, decimals).to_string(),
        id: order.id,
        side: order.side,
        priority: order.priority,
    };
    orders.map(view).collect()
}
