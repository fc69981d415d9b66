//! The other side of the calls: clients of this service, for the commands that work on a feed from outside.
//!
//! `records` is what import and export need, of a service over the network or in this process; `operator` what an operator's commands ask of a
//! running service; `address` how both are told where it is.

mod address;
mod operator;
mod records;

pub(crate) use address::AddressFault;
pub(crate) use operator::{OperatorError, back_up};
pub(crate) use records::{CallError, FeedClient};
