//! Tests of the commit path on a real store, without sockets: `records`, `log`, `sessions`, `expiry`, `outage`, `rights`. `shared` is what they
//! have in common.

mod expiry;
mod log;
mod outage;
mod records;
mod rights;
mod sessions;
mod shared;
