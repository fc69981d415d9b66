//! The command lines of import and export.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::format::Format;

/// How large a row may be if nothing else is said: a record of the default limit of 1 MiB, every quote of it doubled or
/// escaped, with room to spare.
const ROW_BYTES_DEFAULT: usize = 4 * 1024 * 1024;

/// Which feed is worked on.
#[derive(Clone, Debug, Args)]
pub(crate) struct FeedArguments {
    /// The running feed service.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9928")]
    pub(crate) feed: String,

    /// Work on the store in this directory instead, which no service may have open.
    #[arg(long, value_name = "DIR", conflicts_with = "feed")]
    pub(crate) data: Option<PathBuf>,

    /// With --data: the tables, a .graphql file or a directory of them. May be left out when the store has tables.
    #[arg(long, value_name = "PATH", requires = "data")]
    pub(crate) schema: Option<PathBuf>,

    /// The principal in whose name it is done; by default the anonymous one.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) principal: String,

    /// For how long a service that is away is tried again, for example 500ms, 30s, 5m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = settings::parse_duration)]
    pub(crate) retry_for: Duration,
}

/// Puts the rows of a file into a table.
///
/// Every row replaces or makes the record with its key; a record that is as the row says already stays untouched. So an
/// import that was stopped is completed by running it again.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportArguments {
    /// `database.table`; or the table's name or exported path alone, if no other table has it.
    pub(crate) table: String,

    /// A .csv or .jsonl file, or - for the standard input.
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) feed: FeedArguments,

    /// The file's format; by default what the file's name ends with.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Leave out rows that cannot be imported, and count them, instead of stopping at the first one.
    #[arg(long)]
    pub(crate) skip_bad: bool,

    /// How many bad rows are reported one by one; further ones are only counted.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) report: u64,

    /// Let the service fill in created and updated times, whatever the file says. Without it the times in the file are kept,
    /// which only a super_user may do.
    #[arg(long)]
    pub(crate) new_times: bool,

    /// How large a row of the file may be, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ROW_BYTES_DEFAULT)]
    pub(crate) row_bytes: usize,
}

/// Writes the records of a table, by rising key.
///
/// The pages of an export are read one after the other while the table may change: the summary names the first and the
/// last revision that they show. A record that does not change meanwhile is there exactly once.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExportArguments {
    /// `database.table`; or the table's name or exported path alone, if no other table has it.
    pub(crate) table: String,

    #[command(flatten)]
    pub(crate) feed: FeedArguments,

    /// The format; by default what the name of --output ends with, or else csv.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Write to this file, which appears when it is complete, instead of the standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// CSV without the columns $more and $attributes: for spreadsheets. What only these can say is lost.
    #[arg(long)]
    pub(crate) plain: bool,
}
