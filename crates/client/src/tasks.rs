//! Tasks that end with those who want them.

use tokio::task::JoinHandle;

/// A task that ends with whoever waits for it.
#[derive(Debug)]
pub struct AbortOnDrop<T>(pub JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
