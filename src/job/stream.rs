//! Background work that sends many items, through a queue of bounded length.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Progress, Wanted, start};

/// What becomes of an item for which the queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The work waits until there is room: no item is lost.
    Wait,
    /// The oldest item in the queue is dropped and counted: the work is never held up.
    DropOldest,
}

/// What the stream and its work share.
#[derive(Debug)]
struct Queue<T> {
    state: Mutex<State<T>>,
    /// Signals that there is room, or that the stream was dropped.
    has_room: Condvar,
    capacity: usize,
    overflow: Overflow,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    n_dropped: u64,
    /// How the work ended.
    end: Option<Result<(), String>>,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The items of one piece of background work. Dropping it cancels the work.
///
/// Unused so far: it is for loading a folder of traces, of which each is to be shown as soon as it is read.
#[derive(Debug)]
pub struct Stream<T> {
    pub progress: Wanted,
    queue: Arc<Queue<T>>,
}

/// Where the work puts its items.
pub struct Sink<'a, T> {
    pub progress: &'a Progress,
    queue: &'a Queue<T>,
    wake: &'a dyn Fn(),
}

/// What a stream has brought since it was last polled.
#[derive(Debug)]
pub struct Batch<T> {
    /// Oldest first.
    pub items: VecDeque<T>,
    /// Items lost to [`Overflow::DropOldest`] since the stream began.
    pub n_dropped: u64,
    /// `None` while the work runs; `Err` has the message of its panic. No item follows.
    pub end: Option<Result<(), String>>,
}

impl<T: Send + 'static> Stream<T> {
    /// Starts `work` on a thread called `name`.
    ///
    /// * `capacity`: the most items that the queue holds, at least 1.
    /// * `wake`: runs when an item comes into an empty queue, and when the work ends, also by a panic.
    ///
    /// Errors: the system refuses another thread.
    pub fn spawn(
        name: &str,
        capacity: usize,
        overflow: Overflow,
        wake: impl Fn() + Send + Sync + 'static,
        work: impl FnOnce(&Sink<'_, T>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let state = State { items: VecDeque::new(), n_dropped: 0, end: None };
        let capacity = capacity.max(1);
        let queue = Arc::new(Queue { state: Mutex::new(state), has_room: Condvar::new(), capacity, overflow });
        let progress = Wanted::default();
        let (seen, filled, wake) = (progress.progress(), Arc::clone(&queue), Arc::new(wake));
        let (ended, woken) = (Arc::clone(&queue), Arc::clone(&wake));
        let end = move |outcome| {
            ended.lock().end = Some(outcome);
            woken();
        };
        start(name, move || work(&Sink { progress: &seen, queue: &filled, wake: &*wake }), end)?;
        Ok(Self { progress, queue })
    }

    /// Takes what has come. Never waits for the work; call it once a frame.
    pub fn poll(&self) -> Batch<T> {
        let mut state = self.queue.lock();
        let items = std::mem::take(&mut state.items);
        self.queue.has_room.notify_all();
        Batch { items, n_dropped: state.n_dropped, end: state.end.clone() }
    }
}

impl<T> Drop for Stream<T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        // Under the lock, so that work about to wait for room sees it.
        self.progress.cancel();
        state.items.clear();
        self.queue.has_room.notify_all();
    }
}

impl<T> Sink<'_, T> {
    /// Puts an item into the queue; false if the stream was dropped, and the work should end.
    pub fn send(&self, item: T) -> bool {
        let mut state = self.queue.lock();
        while state.items.len() >= self.queue.capacity && !self.progress.is_cancelled() {
            match self.queue.overflow {
                Overflow::Wait => {
                    state = self.queue.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Overflow::DropOldest => {
                    state.items.pop_front();
                    state.n_dropped += 1;
                }
            }
        }
        if self.progress.is_cancelled() {
            return false;
        }
        let was_empty = state.items.is_empty();
        state.items.push_back(item);
        drop(state);
        if was_empty {
            (self.wake)();
        }
        true
    }
}

impl<T> std::fmt::Debug for Sink<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("progress", &self.progress).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// Everything that a stream brings until it ends, and the longest batch.
    fn drain(stream: &Stream<u32>) -> (Vec<u32>, usize, Batch<u32>) {
        let (mut all, mut longest) = (Vec::new(), 0);
        loop {
            let mut batch = stream.poll();
            longest = longest.max(batch.items.len());
            all.extend(batch.items.drain(..));
            if batch.end.is_some() {
                return (all, longest, batch);
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_that_waits_for_room_loses_nothing() {
        let work = |sink: &Sink<'_, u32>| (0..1000).for_each(|i| assert!(sink.send(i)));
        let stream = Stream::spawn("test", 4, Overflow::Wait, || {}, work).unwrap();
        let (all, longest, batch) = drain(&stream);
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert!((1..=4).contains(&longest), "{longest}");
        assert_eq!((batch.n_dropped, batch.end), (0, Some(Ok(()))));
    }

    #[test]
    fn the_newest_items_stay_where_the_oldest_are_dropped() {
        let (sender, is_sent) = sync_channel(1);
        let work = move |sink: &Sink<'_, u32>| {
            (0..10).for_each(|i| assert!(sink.send(i)));
            sender.send(()).unwrap();
        };
        let stream = Stream::spawn("test", 3, Overflow::DropOldest, || {}, work).unwrap();
        is_sent.recv().unwrap();
        let (all, _, batch) = drain(&stream);
        assert_eq!((all, batch.n_dropped), (vec![7, 8, 9], 7));
    }

    #[test]
    fn a_panic_is_reported_after_the_items_before_it() {
        let work = |sink: &Sink<'_, u32>| {
            sink.send(1);
            panic!("boom");
        };
        let stream = Stream::spawn("test", 3, Overflow::Wait, || {}, work).unwrap();
        let (all, _, batch) = drain(&stream);
        assert_eq!((all, batch.end), (vec![1], Some(Err("boom".to_owned()))));
    }

    #[test]
    fn dropping_a_stream_ends_work_that_waits_for_room() {
        let (sender, ended) = sync_channel(1);
        let work = move |sink: &Sink<'_, u32>| {
            while sink.send(0) {}
            sender.send(()).unwrap();
        };
        let (woken, wakes) = sync_channel(64);
        let stream = Stream::spawn("test", 1, Overflow::Wait, move || _ = woken.try_send(()), work).unwrap();
        wakes.recv().unwrap();
        drop(stream);
        ended.recv().unwrap();
    }
}
