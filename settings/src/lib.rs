//! Configuration of both programs: declared once, read from flags, environment and file.
//!
//! A program writes one function that makes its settings out of [`Keys`] ([`Settings`]). It is run twice: first to learn
//! which keys there are (flags, help, reference page and sample file come from that), then with what was given. So a
//! key's name, default, range, documentation and use stand together, in one statement.
//!
//! ```
//! use settings::{Keys, Settings, mebibytes};
//!
//! struct Cache {
//!     bytes: usize,
//! }
//!
//! impl Settings for Cache {
//!     fn declare(keys: &mut Keys) -> Cache {
//!         Cache {
//!             bytes: keys
//!                 .key("cache.bytes", "How much memory the cache may take.")
//!                 .bytes(mebibytes(64), mebibytes(1)..=mebibytes(4_096)),
//!         }
//!     }
//! }
//! ```
//!
//! The path of a value: `sources` and `file` find what was given, each with its [`Origin`]; `keys` picks the strongest
//! (flag, environment, file, default) and reads it by its `codec`; every [`Mistake`] on the way is kept, and all are
//! told together. `arguments` is the command line, `effective`, `reference` and `manual` are what is printed.

mod arguments;
mod codec;
mod declaration;
mod duration;
mod effective;
mod file;
mod keys;
mod manual;
mod mistake;
mod origin;
mod reference;
mod secret;
mod size;
mod sources;
mod suggestion;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod toml_text;

pub use arguments::{Arguments, Start};
pub use declaration::{Declaration, Flag, declarations};
pub use duration::parse as parse_duration;
pub use keys::{Field, Keys, Settings};
pub use manual::{Completions, Manual};
pub use mistake::{Mistake, Mistakes, masked};
pub use origin::Origin;
pub use reference::{reference, sample};
pub use secret::Secret;
pub use size::{gibibytes, kibibytes, mebibytes};
