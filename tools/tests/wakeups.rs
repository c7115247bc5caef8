//! A partition's core hears of every message that another core sends it, at once.
//!
//! The executor under it can fall asleep with work in hand; what must keep that harmless is only
//! seen on busy processors, so this test keeps them busy itself. Without the nudging thread one ask
//! in a hundred or so took over 200 ms here.

mod live;

use conductor_tools::testbed::{Layout, fetch};
use live::LiveCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the core is asked.
const ASKING: Duration = Duration::from_secs(15);
/// Longer than a busy machine lets a thread wait for its turn.
const SLOW: Duration = Duration::from_millis(200);

#[test]
fn a_core_on_busy_processors_answers_every_ask_soon() {
    let cell = LiveCell::start(&Layout::default());
    let conductor = cell.conductor("busy", &[]);
    let spinning = Spinning::start(2);
    let (began, mut asked, mut slow) = (Instant::now(), 0_u32, Vec::new());
    while began.elapsed() < ASKING {
        let asking = Instant::now();
        fetch(&conductor.url("/ready")).expect("the page answers");
        asked += 1;
        if asking.elapsed() > SLOW {
            slow.push(asking.elapsed());
        }
    }
    spinning.stop();
    let allowed = asked / 500;
    assert!(
        slow.len() <= allowed as usize,
        "{} of {asked} asks were slow: {slow:?}",
        slow.len()
    );
}

/// Threads that do nothing but take processor time.
struct Spinning {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinning {
    fn start(count: usize) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(spin).collect();
        Self { ended, threads }
    }

    fn stop(self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a spinning thread ends");
        }
    }
}
