//! Clients that others wrote, against real instances: what our own client in `harness` understands proves little.
//!
//! - `sdk_client`: installs an SDK into the target folder, and drives a small script on it;
//! - `resume`: each SDK subscribes, loses its instance, and goes on at another one.

mod resume;
mod sdk_client;
