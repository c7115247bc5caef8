//! A partition's machine on a bench: inputs by hand, actions collected.

use conductor_engine::book::RestingOrder;
use conductor_engine::matching::Cell;
use conductor_engine::partition::{
    Action, BookRead, Confirmed, Durability, Executed, Guards, Input, LoadedMember, LoadedPage,
    Partition, Record, Settings, StoreEvent, StoredOrder, Topology,
};
use conductor_engine::staging::Cursor;
use conductor_engine::units::QuoteAmount;
use conductor_engine::{
    Body, Command, CommandId, Decimal, Incoming, NewOrder, OrderId, OrderKind, PairDecimals,
    PairId, Price, Quantity, Side, TimeInForce, Timestamp, UserId,
};

pub(crate) const DECIMALS: PairDecimals = PairDecimals {
    price: 0,
    amount: 0,
    quote: 0,
};

pub(crate) struct Bench {
    pub(crate) machine: Partition,
    history: Vec<Input>,
}

pub(crate) fn guards() -> Guards {
    let topology = Some(Topology {
        partition: 0,
        partition_count: 1,
        prefetch: 512,
    });
    Guards {
        topology,
        halted: None,
        event_stream: 0,
        history: Some("first".to_owned()),
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(Cell::single())
    }

    /// A standby of a cell that has one pair configured.
    pub(crate) fn configured(pair: PairId, decimals: PairDecimals) -> Self {
        let mut cell = Cell::single();
        cell.pairs.insert(pair, decimals);
        Self::of(cell).stand_by()
    }

    fn of(cell: Cell) -> Self {
        let machine = Partition::new(Settings {
            cell,
            prefetch: 512,
            durability: Some(Durability { replicas: 1 }),
            group_commands_max: 256,
            group_writes_max: 16_384,
            event_stream_max: 1_000,
            results_kept: true,
            hash_seed: 1,
        });
        Self {
            machine,
            history: Vec::new(),
        }
    }

    pub(crate) fn standing_by() -> Self {
        Self::new().stand_by()
    }

    fn stand_by(mut self) -> Self {
        self.machine.start();
        self.store(StoreEvent::Connected(guards()));
        self.input(Input::ChannelOpened(1));
        self.take();
        self
    }

    /// An owner with epoch 7 whose first delivery is done with.
    pub(crate) fn owning() -> Self {
        let mut bench = Self::standing_by();
        bench.input(Input::Delivery {
            generation: 1,
            tag: 0,
            incoming: Incoming::Unusable("the first delivery".into()),
        });
        bench.claim_up_to_watch(7, Vec::new(), Ok(Cursor::default()));
        bench.store(StoreEvent::EpochSeen(Some(7)));
        bench.input(Input::Parked(1, 0));
        bench.take();
        bench
    }

    /// The same history again, and then a new channel with a first delivery.
    pub(crate) fn clone_after_doubt(&self) -> Self {
        let mut again = Self::new();
        again.machine.start();
        for input in &self.history {
            again.input(input.clone());
        }
        again.input(Input::PauseOver);
        again.store(StoreEvent::Connected(guards()));
        again.input(Input::ChannelOpened(2));
        let incoming = place("c-2", "o-2");
        again.input(Input::Delivery {
            generation: 2,
            tag: 1,
            incoming,
        });
        again.take();
        again
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.history.push(input.clone());
        self.machine.input(input, &mut ());
    }

    pub(crate) fn store(&mut self, event: StoreEvent) {
        self.input(Input::Store(event));
    }

    pub(crate) fn deliver(&mut self, tag: u64, incoming: Incoming) {
        self.input(Input::Delivery {
            generation: 1,
            tag,
            incoming,
        });
    }

    pub(crate) fn caught_up(&mut self) {
        self.input(Input::CaughtUp);
    }

    pub(crate) fn take(&mut self) -> Vec<Action> {
        self.machine.take_actions()
    }

    pub(crate) fn claim_up_to_watch(
        &mut self,
        epoch: u64,
        pages: Vec<LoadedPage>,
        cursor: Result<Cursor, String>,
    ) {
        self.store(StoreEvent::Connected(guards()));
        self.store(StoreEvent::EpochRaised(epoch));
        self.store(StoreEvent::Confirmed(durable()));
        for page in pages {
            self.store(StoreEvent::Page(page));
        }
        self.store(StoreEvent::LoadComplete {
            cursor,
            remembered: true,
            halted: None,
            read: BookRead::Still,
        });
        self.take();
    }

    pub(crate) fn claim_up_to_watch_remembering(
        &mut self,
        epoch: u64,
        cursor: Result<Cursor, String>,
        remembered: bool,
    ) {
        self.store(StoreEvent::Connected(guards()));
        self.store(StoreEvent::EpochRaised(epoch));
        self.store(StoreEvent::Confirmed(durable()));
        self.store(StoreEvent::LoadComplete {
            cursor,
            remembered,
            halted: None,
            read: BookRead::Still,
        });
        self.take();
    }

    /// A place on its way: looked up, decided and sent.
    pub(crate) fn commit(&mut self, tag: u64, incoming: Incoming) {
        self.deliver(tag, incoming);
        self.caught_up();
        self.store(StoreEvent::LookedUp(vec![None, None]));
        self.take();
    }

    /// The transaction in flight ends well.
    pub(crate) fn land(&mut self) {
        self.store(StoreEvent::Executed(Executed::Committed {
            event_stream: 0,
        }));
        self.store(StoreEvent::Confirmed(durable()));
        self.store(StoreEvent::EpochSeen(Some(7)));
    }
}

pub(crate) fn durable() -> Confirmed {
    Confirmed {
        replicas_in_memory: 1,
        primary_disk: true,
        replica_disks: 1,
    }
}

fn command(id: &str, body: Body) -> Incoming {
    Incoming::Command(Command {
        id: CommandId::new(id).expect("an id"),
        pair: PairId(0),
        partition: None,
        timestamp: Timestamp::new(1_000).expect("a time"),
        body,
    })
}

pub(crate) fn place(id: &str, order: &str) -> Incoming {
    command(
        id,
        Body::Place(NewOrder {
            id: OrderId::new(order).expect("an id"),
            user: UserId::new("u").ok(),
            side: Side::Bid,
            kind: OrderKind::Limit {
                price: Decimal::parse("100").expect("a price"),
                time_in_force: TimeInForce::GoodTillCancelled,
            },
            volume: Decimal::parse("2").expect("a volume"),
            decimals: DECIMALS,
            timestamp: Timestamp::new(1_000).expect("a time"),
        }),
    )
}

pub(crate) fn cancel(id: &str, order: &str) -> Incoming {
    command(
        id,
        Body::Cancel {
            order: OrderId::new(order).expect("an id"),
        },
    )
}

pub(crate) fn stored(side: Side, id: &str, price: u64, priority: u64) -> LoadedMember {
    let order = RestingOrder {
        id: OrderId::new(id).expect("an id"),
        user: None,
        pair: PairId(0),
        side,
        price: Price::new(price).expect("a price"),
        volume: Quantity::new(2).expect("a volume"),
        remaining: Quantity::new(2).expect("a volume"),
        quote_volume: QuoteAmount::default(),
        priority,
        timestamp: Timestamp::new(1).expect("a time"),
    };
    let record = Record::Order(Box::new(StoredOrder {
        order,
        decimals: DECIMALS,
        priority: Some(priority),
    }));
    LoadedMember {
        member: format!("{priority:016}:{id}"),
        priority: Some(priority),
        record,
    }
}
